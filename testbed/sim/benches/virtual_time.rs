//! Cost of virtual time: packet-hops per CPU-second of one core, and memory per host and per packet in flight, for
//! fabrics of the papers under DCQCN; and the growth of the cost with the number of hosts.
//!
//! A packet-hop is a frame put on a link: data, acknowledgements, notifications and PFC alike. `cargo bench -p weir-sim
//! --bench virtual_time [-- NAME]`; with `-- NAME --threads=2` on as many threads as gain, 2 at most, by time that passed; with
//! `--measured=1ms` for so long a measured part. With `-- --instructions` a small fabric runs under callgrind, and the instructions of
//! a packet-hop are held against a limit, which wall time on a shared machine could not be. `WEIR_HUGE_PAGES=no` goes without huge
//! pages, and stays under a tool that follows no `exec`.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use weir_alone::{InstructionBenchmark, check_limits};
use weir_scenario::{Scenario, file};
use weir_sim::{Sim, Threads, restart_with_huge_pages};
use weir_units::Span;

/// The small fabric that is counted instruction by instruction.
const COUNTED: &str = "leaf-spine-64";
/// Instructions that a packet-hop of it may take: 1,348, of which programs of dependent messages, selective retransmission, and hosts of
/// servers take some fifteen where there are none.
const INSTRUCTIONS_MAX: f64 = 1_352.0;

/// A fabric and what its hosts send.
struct Case {
    name: &'static str,
    /// Keys of `[topology]` but the links' delay.
    topology: String,
    traffic: Traffic,
    /// How long the warm-up and the measured part are, in simulated time.
    warm_up: Span,
    measured: Span,
}

/// Traffic of class 3, under DCQCN.
enum Traffic {
    /// All hosts but the last send it 4 MB each, at once.
    Incast,
    /// Web search at load 0.5.
    WebSearch,
}

fn main() {
    restart_with_huge_pages();
    if std::env::args().any(|argument| argument == "--instructions") {
        return count_instructions();
    }
    let threads = threads();
    let chosen: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let is_chosen = |name: &str| chosen.is_empty() || chosen.iter().any(|chosen| name.contains(chosen.as_str()));
    // Each in a process of its own, so that what one has taken of memory is not counted for the next.
    if let [name] = &chosen[..]
        && let Some(case) = cases().into_iter().find(|case| case.name == name)
    {
        let measured =
            value_of(MEASURED).map_or(case.measured, |text| text.parse().expect("a time, as in --measured=1ms"));
        run(&Case { measured, ..case }, threads.unwrap_or_default());
        return;
    }
    println!(
        "{:<22} {:>6} {:>9} {:>10} {:>10} {:>9} {:>11} {:>11} {:>8}",
        "", "hosts", "simulated", "M hops", "M hops/s", "ns/hop", "KB/host", "B/packet", "wake/hop"
    );
    if let Some(threads) = threads {
        println!("{threads:?}, and speed by time that passed");
    }
    for case in cases().into_iter().filter(|case| is_chosen(case.name)) {
        let own = std::env::current_exe().expect("this program");
        let options =
            std::env::args().filter(|argument| [THREADS, MEASURED].iter().any(|name| argument.starts_with(name)));
        let status = Command::new(own).arg(case.name).args(options).status().expect("this program runs");
        assert!(status.success(), "{} fails", case.name);
    }
}

/// Returns the value of `--threads=N` (an upper limit), or of `--threads=exactly-N`.
fn threads() -> Option<Threads> {
    let text = value_of(THREADS)?;
    let (count, exactly) = (text.trim_start_matches("exactly-"), text.starts_with("exactly-"));
    let count = count.parse().unwrap_or_else(|_| panic!("{THREADS}{count}: write {THREADS}2"));
    Some(if exactly { Threads::exactly(count) } else { Threads::up_to(count) })
}

const THREADS: &str = "--threads=";
const MEASURED: &str = "--measured=";

/// Returns the value of an option in the arguments.
fn value_of(option: &str) -> Option<String> {
    std::env::args().find_map(|argument| argument.strip_prefix(option).map(str::to_owned))
}

fn cases() -> Vec<Case> {
    let ms = Span::from_millis;
    let web = |name, topology: &str, warm_up, measured| Case {
        name,
        topology: topology.to_owned(),
        traffic: Traffic::WebSearch,
        warm_up,
        measured,
    };
    let fat_tree = |name, k: u32, measured| {
        web(name, &format!("kind = 'fat-tree'\nk = {k}\nrate = '100Gbps'"), ms(1), ms(measured))
    };
    let mut cases = vec![
        Case {
            name: "incast-63",
            topology: "kind = 'single'\nhosts = 64\nrate = '100Gbps'".to_owned(),
            traffic: Traffic::Incast,
            warm_up: ms(1),
            measured: ms(15),
        },
        web(
            "leaf-spine-256",
            "kind = 'leaf-spine'\nleaves = 16\nspines = 16\nhosts = 16\nrate = '100Gbps'",
            ms(1),
            ms(3),
        ),
        web(
            "clos-320",
            "kind = 'clos'\npods = 5\ntors = 4\nleaves = 4\nspines = 16\nhosts = 16\nuplinks = 'planes'\n\
             host_rate = '100Gbps'\nrate = '400Gbps'",
            ms(1),
            ms(3),
        ),
        fat_tree("fat-tree-1024", 16, 1),
    ];
    for (name, k, measured) in
        [("fat-tree-16", 4, 60), ("fat-tree-128", 8, 8), ("fat-tree-432", 12, 3), ("fat-tree-1024-again", 16, 1)]
    {
        cases.push(fat_tree(name, k, measured));
    }
    // Short enough for a simulation of caches, `valgrind --tool=callgrind --cache-sim=yes`.
    let tree = "kind = 'fat-tree'\nk = 12\nrate = '100Gbps'";
    cases.push(web("fat-tree-432-short", tree, Span::from_micros(30), Span::from_micros(60)));
    // Small enough to be counted instruction by instruction.
    let small = "kind = 'leaf-spine'\nleaves = 8\nspines = 8\nhosts = 8\nrate = '100Gbps'";
    cases.push(web(COUNTED, small, Span::from_micros(100), Span::from_micros(900)));
    cases
}

/// Measures a case; returns all its packet-hops.
fn run(case: &Case, threads: Threads) -> u64 {
    let bare = resident();
    let scenario = scenario(case);
    let with_scenario = resident();
    let mut sim = Sim::new(&scenario).expect("a scenario");
    let empty = resident();
    sim.set_threads(threads);
    sim.run_for(case.warm_up);
    let (hops, wakeups) = (sim.packet_hops(), sim.wakeups());
    let (start, cpu) = (Instant::now(), cpu_seconds());
    sim.run_for(case.measured);
    let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    // With several threads all that matters is when they are done.
    let cpu = if threads == Threads::ONE { cpu } else { wall };
    let all_hops = sim.packet_hops();
    let (hops, wakeups) = (sim.packet_hops() - hops, sim.wakeups() - wakeups);
    let full = resident();
    let under_way = sim.frames_in_flight() + held(&mut sim);
    let hosts = scenario.hosts.len();
    println!(
        "{:<22} {:>6} {:>9} {:>10.2} {:>10.2} {:>9.0} {:>11.1} {:>11.0} {:>8.2}",
        case.name,
        hosts,
        case.measured.to_string(),
        hops as f64 / 1e6,
        hops as f64 / cpu / 1e6,
        cpu * 1e9 / hops as f64,
        (full - bare) as f64 / 1e3 / hosts as f64,
        (full - empty) as f64 / under_way.max(1) as f64,
        wakeups as f64 / hops as f64,
    );
    if std::env::var_os("WEIR_BENCH_DETAILS").is_some() {
        let pauses: u64 = sim
            .reports()
            .iter()
            .flat_map(|report| &report.ports)
            .flat_map(|port| &port.classes)
            .map(|class| class.pauses_tx)
            .sum();
        println!(
            "  hops {all_hops}, wall {wall:.2} s, scenario {:.1} MB, empty fabric {:.1} MB, {pauses} pauses, {} messages done, {under_way} packets",
            (with_scenario - bare) as f64 / 1e6,
            (empty - with_scenario) as f64 / 1e6,
            sim.drain_completions().count()
        );
    }
    all_hops
}

/// Runs the small fabric under callgrind.
fn count_instructions() {
    let counted = InstructionBenchmark {
        name: COUNTED,
        functions: "weir_sim::Sim::run_until*",
        each: "packet-hop",
        most: INSTRUCTIONS_MAX,
        parts: &[],
    };
    let small = || cases().into_iter().find(|case| case.name == COUNTED).expect("the case that is counted");
    check_limits(&[counted], |_| run(&small(), Threads::default()));
}

fn held(sim: &mut Sim) -> usize {
    sim.reports().iter().map(|report| report.conservation.held() as usize).sum()
}

/// Resident memory in bytes, but for what is mapped from files: the program itself is no host's.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: Vec<u64> = statm.split_whitespace().map(|pages| pages.parse().expect("pages")).collect();
    (pages[1] - pages[2]) * 4_096
}

/// CPU time of this process so far.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").expect("Linux");
    stat.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).expect("nanoseconds") / 1e9
}

/// Links of 1 us; switches of 32 MB, DT with α = 1, PFC on class 3, which marks between 400 KB and 1.6 MB; hosts that acknowledge
/// each packet.
fn scenario(case: &Case) -> Scenario {
    let end = case.warm_up + case.measured;
    let mut text = format!(
        "[scenario]\nend = '{}ns'\nsample_every = '{}ns'\nseed = 1\n[topology]\n{}\ndelay = '1us'\n",
        end.as_nanos(),
        case.measured.as_nanos(),
        case.topology
    );
    text += "[switch.buffer]\nsize = '32MB'\npolicy = 'dt'\n[switch.pfc]\nreaction = '0s'\n\
             [switch.classes]\npreset = 'roce'\n[[switch.classes.queues]]\nclass = 3\n\
             ecn = { kmin = '400KB', kmax = '1600KB', pmax = 0.2 }\n\
             [nic]\nmtu = 1024\nack_every = 1\nretransmit = '4ms'\n\
             [[workloads]]\nname = 'traffic'\nclass = 3\ncongestion_control = 'dcqcn'\n";
    text += &match case.traffic {
        Traffic::Incast => "kind = 'incast'\nsizes = '4MB'\nreceivers = ['H63']\n".to_owned(),
        Traffic::WebSearch => {
            format!("kind = 'poisson'\nsizes = 'web-search'\nload = 0.5\nuntil = '{}ns'\n", end.as_nanos())
        }
    };
    let runs = file::parse(Path::new(case.name), &text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    runs.into_iter().next().expect("one run").scenario
}
