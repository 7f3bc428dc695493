//! Congestion controls that need feedback, with real frames: two senders share a receiver's link through one switch.
//!
//! Compared is with two senders that nothing controls, which fill the queue up to its PAUSE threshold; the same is run in virtual time.
//! A machine that has something else to do takes line time from everybody, and round trips seem longer than they are. Such a run is done
//! once more. If it was held up again its rates are not compared, nor is what was lost: a switch that is not polled can't send a PAUSE.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::UNIX_EPOCH;

use weir_real::DpdkBackend;
use weir_results::run_dir::{Provenance, RunDir, Summary};
use weir_scenario::Scenario;
use weir_scenario::file::{self, Expectation};
use weir_sim::SimBackend;

/// Where a host lost more of its line time, rates are the machine's.
const LATE_PERCENT_MAX: f64 = 5.0;
/// Samples at the edges of the window that come later than this share of it measure something else.
const EDGE_PERCENT_MAX: f64 = 1.0;
/// The window that is compared.
const STEADY_NS: [u64; 2] = [6_000_000, 12_000_000];
/// Queue length to which PFC holds uncontrolled senders.
const THRESHOLD: u64 = 150_000;

/// Two senders at 10 Gb/s and a receiver, each on a link of so many microseconds: long beside what programs on a usual machine wait for
/// their CPU, in the scenario's time. Messages are short, so that a slow flow ends soon. Marks are for DCQCN.
fn scenario(congestion_control: &str, delay: u32) -> Scenario {
    let mut text = format!(
        "[scenario]\nname = \"{congestion_control}\"\nend = \"12ms\"\ntime_dilation = 300\nforwarding = \"static\"\nsample_every = \"10us\"\n\
         [topology]\nkind = \"single\"\nhosts = 3\nrate = \"10Gbps\"\ndelay = \"{delay}us\"\n\
         [switch.buffer]\nsize = \"3MB\"\nheadroom = \"150KB\"\npolicy = \"static\"\n[switch.buffer.static]\nthreshold = \"{THRESHOLD}B\"\n\
         [switch.classes]\npreset = \"roce\"\n\
         [[switch.classes.queues]]\nclass = 3\necn = {{ kmin = \"20KB\", kmax = \"80KB\", pmax = 0.2 }}\n\
         [[windows]]\nname = \"steady\"\nfrom = \"6ms\"\nto = \"12ms\"\n"
    );
    for from in 0..2 {
        text += &format!(
            "[[flows]]\nfrom = \"H{from}\"\nto = \"H2\"\nclass = 3\nmessage = \"16KB\"\nstart = \"{}us\"\ncongestion_control = \"{congestion_control}\"\n",
            100 * from
        );
    }
    let mut runs =
        file::parse(Path::new("feedback.toml"), &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    let scenario = runs.remove(0).scenario;
    assert_eq!(scenario.needs_virtual_time(), None);
    scenario
}

/// Measurements of a run once it was steady.
#[derive(Debug)]
struct Outcome {
    /// What the receiver got of each flow, in bits a second.
    rates: [u64; 2],
    /// The longest ingress queue, on average.
    queue: u64,
    pauses: u64,
    machine: Machine,
}

/// The machine's effect on a run.
#[derive(Debug)]
struct Machine {
    /// Line time lost by a host or a port, of the run.
    late_percent: f64,
    /// Longest time between two polls of a host or of the switch, in round trips. All frames in flight arrive at once
    /// after it.
    gap_in_round_trips: f64,
    /// How much later than planned an edge of the window was sampled, of the window.
    edge_percent: f64,
}

impl Machine {
    /// Returns the machine's effect on a run whose links have this delay, in microseconds.
    fn of(summary: &Summary, delay: u32) -> Machine {
        let steady = &summary.windows[0];
        // From host to host and back, in nanoseconds.
        let round_trip = f64::from(delay) * 4_000.0;
        let edges = [steady.from_ns.abs_diff(STEADY_NS[0]), steady.to_ns.abs_diff(STEADY_NS[1])];
        let edge = edges.into_iter().max().unwrap();
        Machine {
            late_percent: summary.late_ns as f64 * 100.0 / summary.duration_ns as f64,
            gap_in_round_trips: summary.poll_gap_max_ns.unwrap_or(0) as f64 / round_trip,
            edge_percent: edge as f64 * 100.0 / (STEADY_NS[1] - STEADY_NS[0]) as f64,
        }
    }

    fn held_it_up(&self) -> bool {
        self.late_percent > LATE_PERCENT_MAX || self.gap_in_round_trips > 1.0 || self.edge_percent > EDGE_PERCENT_MAX
    }
}

impl Outcome {
    fn of(summary: &Summary, delay: u32) -> Outcome {
        let steady = &summary.windows[0];
        let machine = Machine::of(summary, delay);
        // More may come than the headroom holds while the switch is not polled.
        let may_lose = machine.held_it_up();
        assert!(may_lose || summary.failures.is_empty() && summary.lossless, "{machine:?}: {:?}", summary.failures);
        for flow in &summary.flows {
            assert_eq!((flow.reordered, flow.duplicates), (0, 0), "{flow:?}");
            assert!(may_lose || (flow.lost, flow.bytes_received) == (0, flow.bytes_sent), "{machine:?}: {flow:?}");
        }
        Outcome {
            rates: [0, 1].map(|flow| steady.flows[flow].throughput_bps),
            queue: steady.ports.iter().map(|port| port.ingress_mean_bytes).max().unwrap(),
            pauses: steady.ports.iter().map(|port| port.pauses_sent).sum(),
            machine,
        }
    }

    fn sum(&self) -> u64 {
        self.rates.iter().sum()
    }
}

#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "without optimisation a machine may be too slow for the scenarios' clock: make release-tests"
)]
fn controlled_flows_keep_the_queue_short_and_share_the_link() {
    weir_alone::on_an_idle_machine(|| {
        // With the delay of a link in microseconds: TIMELY wants less than T_low, 50 us, there and back. What goes by round-trip times takes a
        // wait for the CPU for a queue, and is slow to forget it, so that nothing is said of its rates; nor of those that a mark's chance cuts.
        let controls = [
            ("none", 20, false),
            ("hpcc", 20, true),
            ("powertcp", 20, true),
            ("theta-powertcp", 20, false),
            ("timely-hpcc", 8, false),
            ("dcqcn-hpcc", 20, false),
        ];
        let scenarios = controls.map(|(control, delay, _)| scenario(control, delay));
        let dpdk = DpdkBackend::start(&scenarios).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let run =
            |name: String| RunDir::create(folder.path().join(name), &Provenance::new("test", [], UNIX_EPOCH)).unwrap();
        let mut uncontrolled: Option<Outcome> = None;
        for (scenario, (control, delay, shares)) in scenarios.iter().zip(controls) {
            let with_frames = |name: &str| {
                let summary =
                    dpdk.run(scenario, run(format!("{control}-{name}")), &mut |_| {}, &AtomicBool::new(false));
                Outcome::of(&summary.unwrap(), delay)
            };
            let sim = SimBackend { expects: Expectation::Flow, ..SimBackend::default() };
            let in_virtual_time =
                sim.run(scenario, run(format!("{control}-sim")), &mut |_| {}, &AtomicBool::new(false));
            let mut both = [Outcome::of(&in_virtual_time.unwrap(), delay), with_frames("dpdk")];
            if both[1].machine.held_it_up() {
                both[1] = with_frames("dpdk-again");
            }
            println!("{control}: {both:?}");
            let Some(before) = &uncontrolled else {
                let mut undisturbed = both.iter().filter(|outcome| !outcome.machine.held_it_up());
                assert!(undisturbed.all(|outcome| outcome.queue > THRESHOLD * 3 / 4 && outcome.pauses > 0), "{both:?}");
                let [in_virtual_time, _] = both;
                uncontrolled = Some(in_virtual_time);
                continue;
            };
            for outcome in &both {
                if outcome.machine.held_it_up() {
                    println!("{control}: held up by the machine, and not compared: {:?}", outcome.machine);
                    continue;
                }
                let told = format!("{control}: {outcome:?}, and without control {before:?}");
                assert!(outcome.queue < before.queue / 2 && outcome.pauses < before.pauses / 4, "{told}");
                // Windows that nobody changes would keep a third of it.
                assert!(!shares || outcome.queue < before.queue / 6, "{told}");
                let least = outcome.rates.into_iter().min().unwrap();
                assert!(!shares || outcome.sum() > before.sum() / 2 && least > outcome.sum() / 4, "{told}");
            }
        }
    });
}
