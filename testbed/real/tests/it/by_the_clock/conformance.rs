//! One scenario, two backends: with real frames on DPDK, by a clock of this machine, and in virtual time, it comes to the same.
//!
//! Compared is what lasts, in windows in which the scenario is steady: what flows get, how long ingress queues are, who
//! is paused, deadlocks. Single instants differ: on DPDK a frame has arrived with its first byte, in virtual time with
//! its last, and links and ports act only when they are polled.
//!
//! A machine that has something else to do takes line time from everybody alike, and says so (`late_ns`). Such a run is done once more.
//! If that is no better, flows are compared by the shares that they get of what was left, and queues only where their lengths do not
//! hang on the rates. Where more than a tenth of the time was lost nothing is steady, and what is left to compare is what no machine
//! may change: that nothing is lost, and which deadlocks there are.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, UNIX_EPOCH};

use weir_flowctl::kinds::GfcBufferConfig;
use weir_nic::host::CongestionControlChoice;
use weir_real::DpdkBackend;
use weir_results::record::Progress;
use weir_results::run_dir::{PortWindow, Provenance, RunDir, Summary, Window, read_summary};
use weir_scenario::file::{self, Expectation};
use weir_scenario::victim::{PolicyChoice, Victim, VictimPolicy};
use weir_scenario::{Scenario, WindowPlan};
use weir_sim::SimBackend;
use weir_units::{Bytes, Span, Time};

/// Rates are the same within this.
const RATE_PERCENT: f64 = 5.0;
/// Or within this share of what all flows get together: of the few frames of a slow flow, one is more than 5 %.
const RATE_FLOOR_PERCENT: f64 = 1.0;
/// A host that lost no more line time than this was not disturbed.
const LATE_PERCENT_MAX: f64 = 1.0;
/// Where it was more than this, rates are the machine's.
const LATE_PERCENT_COMPARED: f64 = 10.0;
/// Nothing is done once more after this: on a machine that never comes to rest it would not help.
const REPEATED_WITHIN: Duration = Duration::from_secs(30);
/// Where more than this share of a link's rate comes in, nobody is slowed down, and nothing holds the queue behind it at a length.
const FULL_PERCENT: u64 = 95;
/// A queue's length is the same within two full frames of the ring, as the buffer charges them.
const LEVEL: f64 = 2.0 * 1_536.0;

/// A backend, as both are called.
type Backend<'a> = dyn Fn(&Case, RunDir, &mut dyn FnMut(&Progress)) -> Summary + 'a;

/// A scenario, and what can be compared of it.
struct Case {
    name: String,
    scenario: Scenario,
    expects: Expectation,
    queues: Queues,
}

/// What the lengths of ingress queues hang on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queues {
    /// On thresholds alone.
    Thresholds,
    /// On rates too: what is on a link when it is slowed down still comes.
    Rates,
    /// On when what was: they move, or stand where they happened to be.
    Moving,
}

#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "without optimisation a machine may be too slow for the scenarios' clock: make release-tests"
)]
fn both_backends_come_to_the_same() {
    weir_alone::on_an_idle_machine(|| {
        let cases: Vec<Case> = ring().into_iter().chain(victims()).chain([slow_receiver()]).collect();
        let scenarios: Vec<Scenario> = cases.iter().map(|case| case.scenario.clone()).collect();
        let dpdk = DpdkBackend::start(&scenarios).unwrap();
        let with_frames = |case: &Case, run, observe: &mut dyn FnMut(&Progress)| {
            dpdk.run(&case.scenario, run, observe, &AtomicBool::new(false))
        };
        let with_frames: &Backend = &|case, run, observe| with_frames(case, run, observe).unwrap();
        let in_virtual_time: &Backend = &|case, run, observe| {
            let backend = SimBackend { expects: case.expects, ..SimBackend::default() };
            backend.run(&case.scenario, run, observe, &AtomicBool::new(false)).unwrap()
        };
        let (folder, started) = (tempfile::tempdir().unwrap(), Instant::now());
        let (mut wrong, mut disturbed) = (String::new(), Vec::new());
        for (n, case) in cases.iter().enumerate() {
            let run =
                |backend: &Backend, name: &str| conduct(case, backend, &folder.path().join(format!("{n}-{name}")));
            let expected = run(in_virtual_time, "sim");
            let mut found = run(with_frames, "dpdk");
            if late_percent(&found) > LATE_PERCENT_MAX && started.elapsed() < REPEATED_WITHIN {
                println!(
                    "{}: a host or a port lost {:.1} % of its line time, once more",
                    case.name,
                    late_percent(&found)
                );
                let again = run(with_frames, "dpdk-again");
                if again.late_ns < found.late_ns {
                    found = again;
                }
            }
            let late = late_percent(&found);
            if late > LATE_PERCENT_MAX {
                disturbed.push(format!("{} ({late:.1} %)", case.name));
            }
            let told = format!(
                "{}: a host or a port lost {late:.1} % of its line time\n{}",
                case.name,
                table(&expected, &found)
            );
            println!("{told}");
            let differences = differences(case, &expected, &found);
            if !differences.is_empty() {
                write!(wrong, "\n{told}  {}\n", differences.join("\n  ")).unwrap();
            }
        }
        if !disturbed.is_empty() {
            println!("held up by the machine, and compared by shares or less: {}", disturbed.join(", "));
        }
        assert!(wrong.is_empty(), "{wrong}");
    });
}

/// The GFC paper's ring under four flow controls, where its links are shared by turns; and in the order of arrival, where PFC comes
/// to a deadlock. F3 starts at 3 ms.
fn ring() -> Vec<Case> {
    const RUNS: [(&str, Queues); 5] = [
        ("GFC by stages, round-robin", Queues::Rates),
        ("GFC by time, round-robin", Queues::Rates),
        ("CBFC, round-robin", Queues::Rates),
        ("PFC, round-robin", Queues::Rates),
        ("PFC, arrival", Queues::Moving),
    ];
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/gfc-ring.toml");
    let runs = file::load(&file).unwrap();
    let case = |(name, queues): (&str, Queues)| {
        let run = runs.iter().find(|run| run.name == name).unwrap();
        let scenario = ending_with(run.scenario.clone(), &[("steady", 8_000, 12_000)]);
        Case { name: name.to_owned(), scenario, expects: run.expects, queues }
    };
    RUNS.map(case).into()
}

/// The victim experiment on the paper's testbed: without a burst; with six burst ports, most of them copies as there; and with six
/// hosts. Without congestion control it is steady, but for SPFC, where what the victim may have goes by the shared buffer: F2 must
/// give way.
fn victims() -> Vec<Case> {
    let case = |kind, ports, hosts, queues| {
        let victim = Victim {
            time_dilation: 300,
            burst_start: Time::from_nanos(1_500_000),
            burst_stop: Time::from_nanos(6_000_000),
            end: Time::from_nanos(6_000_000),
            sample_every: Span::from_micros(50),
            ..Victim::testbed(hosts, VictimPolicy::new(kind))
        };
        let victim = if ports > hosts { victim.copied(ports) } else { victim };
        let victim = match kind {
            PolicyChoice::Spfc => victim,
            _ => Victim { congestion_control: CongestionControlChoice::none(), ..victim },
        };
        let windows = [("before", 500, 1_500), ("burst", 3_000, 6_000)];
        let name = format!("victim, {}, {ports} burst ports, {hosts} burst hosts", victim.policy);
        let scenario = ending_with(victim.scenario().unwrap(), &windows);
        Case { name, scenario, expects: Expectation::Flow, queues }
    };
    vec![
        case(PolicyChoice::Static, 0, 0, Queues::Thresholds),
        case(PolicyChoice::Static, 6, 1, Queues::Thresholds),
        case(PolicyChoice::Dynamic, 6, 1, Queues::Thresholds),
        case(PolicyChoice::Dynamic, 6, 6, Queues::Thresholds),
        case(PolicyChoice::Spfc, 6, 1, Queues::Moving),
    ]
}

/// A host that takes data in slowly for a while, and one whose flow suffers from it.
fn slow_receiver() -> Case {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/slow-receiver.toml");
    let scenario = file::load(&file).unwrap().remove(0).scenario;
    Case { name: "slow receiver".to_owned(), scenario, expects: Expectation::Flow, queues: Queues::Moving }
}

/// A scenario that ends with the last of these windows, in microseconds.
fn ending_with(mut scenario: Scenario, windows: &[(&str, u64, u64)]) -> Scenario {
    let at = |micros: u64| Time::from_nanos(micros * 1_000);
    let window =
        |(name, from, to): &(&str, u64, u64)| WindowPlan { name: (*name).to_owned(), from: at(*from), to: at(*to) };
    scenario.windows = windows.iter().map(window).collect();
    scenario.end = scenario.windows.last().unwrap().to;
    scenario.flows.iter_mut().for_each(|flow| flow.config.stop = flow.config.stop.min(scenario.end));
    scenario
}

/// Runs a case, and checks that progress is reported and the summary written.
fn conduct(case: &Case, backend: &Backend, folder: &Path) -> Summary {
    let run = RunDir::create(folder, &Provenance::new("test", [], UNIX_EPOCH)).unwrap();
    let mut told: Vec<Progress> = Vec::new();
    let summary = backend(case, run, &mut |progress| told.push(*progress));
    assert!(told.is_sorted_by_key(|progress| (progress.now, progress.pauses)), "{}: {told:?}", case.name);
    assert!(told.last().unwrap().now >= case.scenario.end, "{}: {:?}", case.name, told.last());
    assert_eq!(read_summary(folder).unwrap(), summary);
    let events = std::fs::read_to_string(folder.join("events.csv")).unwrap();
    let host_pauses = summary.flow_control.as_ref().map_or(0, |of_all| of_all.host_pauses_sent);
    assert_eq!(events.contains(",pause_received,"), host_pauses > 0, "{}: {host_pauses} pauses of hosts", case.name);
    summary
}

fn late_percent(summary: &Summary) -> f64 {
    summary.late_ns as f64 * 100.0 / summary.duration_ns as f64
}

/// What of `found`, on DPDK, is not as `expected`, in virtual time.
fn differences(case: &Case, expected: &Summary, found: &Summary) -> Vec<String> {
    let late = late_percent(found);
    let is_disturbed = late > LATE_PERCENT_MAX;
    let mut differences = Vec::new();
    for (name, summary) in [("sim", expected), ("dpdk", found)] {
        differences.extend(losses(case, summary).into_iter().map(|loss| format!("{name}: {loss}")));
        let is_deadlocked = cycle(summary).is_some();
        if is_deadlocked != (case.expects == Expectation::Deadlock) && !(is_disturbed && name == "dpdk") {
            differences.push(format!("{name}: deadlock {:?}", summary.deadlock));
        }
    }
    if let (Some(one), Some(other)) = (cycle(expected), cycle(found))
        && one != other
    {
        differences.push(format!("another deadlock: {one} in virtual time, {other} on DPDK"));
    }
    if cycle(expected).is_some() != cycle(found).is_some() || late > LATE_PERCENT_COMPARED {
        return differences;
    }
    assert_eq!(expected.windows.len(), found.windows.len(), "{}", case.name);
    for (expected, found) in expected.windows.iter().zip(&found.windows) {
        differences.extend(rates(expected, found, late));
        if case.queues == Queues::Thresholds || case.queues == Queues::Rates && !is_disturbed {
            let ports = expected.ports.iter().zip(&found.ports);
            differences.extend(ports.filter_map(|(expected, found)| queue(case, expected, found, late)));
        }
        if case.queues == Queues::Thresholds || !is_disturbed {
            let ports = expected.ports.iter().zip(&found.ports);
            let differs = ports.filter(|(one, other)| (one.pauses_sent > 0) != (other.pauses_sent > 0));
            differences.extend(differs.map(|(one, other)| {
                let (name, paused) = (&one.port, [one.pauses_sent, other.pauses_sent]);
                format!("{}, {name}: {} PAUSEs in virtual time, {} on DPDK", expected.name, paused[0], paused[1])
            }));
        }
    }
    differences
}

/// The cycle of a deadlock that lasts.
fn cycle(summary: &Summary) -> Option<&str> {
    summary.deadlock.as_ref().filter(|deadlock| deadlock.dissolved_ns.is_none()).map(|deadlock| deadlock.cycle.as_str())
}

/// What was lost or mixed up, or, but for what a deadlock holds, has not arrived; or not as often as clones copied it.
fn losses(case: &Case, summary: &Summary) -> Vec<String> {
    let mut losses = summary.failures.clone();
    if !summary.lossless {
        losses.push("not lossless".to_owned());
    }
    for (flow, plan) in summary.flows.iter().zip(&case.scenario.flows) {
        let host = &case.scenario.hosts[plan.from];
        let copies = case.scenario.switches[host.switch].clones_of(host.port).count() as u64;
        let has_arrived = flow.bytes_received == flow.bytes_sent || cycle(summary).is_some();
        if (flow.lost, flow.reordered, flow.duplicates) != (0, 0, copies * flow.frames_sent) || !has_arrived {
            losses.push(format!("{flow:?}"));
        }
    }
    losses
}

/// The flows whose rates differ; of a run that lost so many percent of its time and was disturbed, whose shares do.
fn rates(expected: &Window, found: &Window, late: f64) -> Vec<String> {
    let sum = |window: &Window| window.flows.iter().map(|flow| flow.throughput_bps as f64).sum::<f64>();
    let [all, left] = [expected, found].map(sum);
    let is_disturbed = late > LATE_PERCENT_MAX;
    let scale = if is_disturbed && all > 0.0 { left / all } else { 1.0 };
    let percent = if is_disturbed { RATE_PERCENT + late } else { RATE_PERCENT };
    let mut differences = Vec::new();
    for (one, other) in expected.flows.iter().zip(&found.flows) {
        let [one_bps, other_bps] = [one, other].map(|flow| flow.throughput_bps as f64);
        let wanted = one_bps * scale;
        let tolerance = (wanted * percent).max(all * scale * RATE_FLOOR_PERCENT) / 100.0;
        if one.flow != other.flow || (wanted - other_bps).abs() > tolerance {
            let (window, flow) = (&expected.name, &one.flow);
            differences.push(format!("{window}, {flow}: {one_bps:.3e} b/s in virtual time, {other_bps:.3e} on DPDK"));
        }
    }
    if scale > 1.0 + RATE_PERCENT / 100.0 {
        differences.push(format!("{}: {all:.3e} b/s in virtual time, {left:.3e} on DPDK", expected.name));
    }
    differences
}

/// How a port's ingress queue differs by more than some frames, and is not in the same stage of GFC.
fn queue(case: &Case, expected: &PortWindow, found: &PortWindow, late: f64) -> Option<String> {
    let [one, other] = [expected, found].map(|port| port.ingress_mean_bytes);
    let level = if late > LATE_PERCENT_MAX { LEVEL * 2.0 } else { LEVEL };
    if expected.port == found.port && one.abs_diff(other) as f64 <= level {
        return None;
    }
    let scenario = &case.scenario;
    let place = scenario.ports().find(|place| scenario.port_name(*place) == expected.port).unwrap();
    let port = &scenario.switches[place.switch].ports[place.port];
    if let Some(gfc) = port.flow_control.downcast::<GfcBufferConfig>()
        && stage(gfc, one) == stage(gfc, other)
    {
        return None;
    }
    if expected.rx_bps > port.rate.unwrap().as_bps() * FULL_PERCENT / 100 {
        return None;
    }
    Some(format!("{}: a queue of {one} B in virtual time, of {other} B on DPDK", expected.port))
}

/// The stage of a queue of this length: half of what is left to B_m lies in each one from B_1 on (GFC 4.2).
fn stage(gfc: &GfcBufferConfig, length: u64) -> u32 {
    let [b_m, b_1] = [gfc.b_m, gfc.b_1].map(|bytes: Option<Bytes>| bytes.unwrap().get());
    (1..).find(|stage| length < b_m - ((b_m - b_1) >> (stage - 1)) || (b_m - b_1) >> (stage - 1) == 0).unwrap() - 1
}

/// Both runs side by side, for whoever reads a failure.
fn table(expected: &Summary, found: &Summary) -> String {
    let mut table = String::new();
    for (sim, dpdk) in expected.windows.iter().zip(&found.windows) {
        for (one, other) in sim.flows.iter().zip(&dpdk.flows) {
            let [one_gbps, other_gbps] = [one, other].map(|flow| flow.throughput_bps as f64 / 1e9);
            writeln!(table, "  {:8} {:8} {one_gbps:7.3} {other_gbps:7.3} Gb/s", sim.name, one.flow).unwrap();
        }
        for (one, other) in sim.ports.iter().zip(&dpdk.ports).filter(|(one, _)| one.ingress_max_bytes > 0) {
            let [one_kb, other_kb] = [one, other].map(|port| port.ingress_mean_bytes as f64 / 1e3);
            let pauses = [one, other].map(|port| port.pauses_sent);
            writeln!(table, "  {:8} {:8} {one_kb:7.1} {other_kb:7.1} KB, PAUSEs {pauses:?}", sim.name, one.port)
                .unwrap();
        }
    }
    if let (Some(sim), Some(dpdk)) = (&expected.deadlock, &found.deadlock) {
        writeln!(
            table,
            "  deadlock {} {} at {} and {} us",
            sim.cycle,
            dpdk.cycle,
            sim.since_ns / 1_000,
            dpdk.since_ns / 1_000
        )
        .unwrap();
    }
    table
}
