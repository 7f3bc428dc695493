//! The forwarding rate of one lcore with the whole pipeline (MMU, PFC, scheduler) beside `dpdk-testpmd` macswap and 5tswap,
//! which only swap addresses: the same 64-byte IPv4 frames, on the same kind of ports, in turn, as packets per CPU-second of the forwarding
//! thread.
//!
//! `cargo bench -p weir-bench --bench forwarding`; the machine's noise is why the ratio, and not the rate, is the
//! figure. As root it reserves hugepages if there are none, and returns them. With `-- --peers` testpmd's `io`, DPDK's
//! `l3fwd` and Open vSwitch take part too; WEIR_L3FWD, WEIR_L3FWD_64 and WEIR_OPENVSWITCH name them. With `-- --alone` Weir runs without peers, as
//! a profiler wants it; with `-- --cold` it is measured what packet memory costs that has left the cache; with `-- --latency` how long
//! frames take from port to port, through l3fwd and testpmd too; with `-- --instructions` it runs under callgrind, and a packet's
//! instructions are held against a limit. Names of cases (`one-class`, `stations`, `lossy`, `two-classes`; alone and under callgrind all) leave
//! the others out, and so do those of peers (`l3fwd`, `io`, `macswap`) of latencies; `--rounds N` takes so many rounds.

#[path = "forwarding/cold.rs"]
mod cold;
#[path = "forwarding/ground.rs"]
mod ground;
#[path = "forwarding/hugepages.rs"]
mod hugepages;
#[path = "forwarding/l3fwd.rs"]
mod l3fwd;
#[path = "forwarding/latency.rs"]
mod latency;
#[path = "forwarding/openvswitch.rs"]
mod openvswitch;
#[path = "forwarding/peers.rs"]
mod peers;
#[path = "forwarding/processes.rs"]
mod processes;
#[path = "forwarding/table.rs"]
mod table;
#[path = "forwarding/testpmd.rs"]
mod testpmd;

use std::path::{Path, PathBuf};
use std::time::Duration;

use ground::{PeerConfig, ReplayLibrary};
use hugepages::Reserved;
use weir_alone::{BenchmarkPart, InstructionBenchmark, check_limits};
use weir_bench::forwarding::{CASES, Case, Forwarded, OF_TWO_PORTS, RoundEnd, Setup, forward_case};
use weir_bench::machine::HostInfo;
use weir_bench::{Spread, bursts};
use weir_config::SwitchConfig;
use weir_dpdk_driver::{Memory, Runtime, RuntimeOptions};
use weir_dpdk_io::cpu;
use weir_units::Bytes;

use peers::Peer;
use table::Table;

/// Round under callgrind, of one lcore with two ports or as many as the case takes.
struct Run {
    case: Case,
    /// Frames that come to each of two ports between two polls; `None` for as many as a poll takes.
    at_a_time: Option<usize>,
    /// Limit of instructions a packet in an lcore's rounds, ports included (case `io` has these alone): 3 % above what it takes, on an
    /// idle machine as on a busy one, and 6 % for mixed frames, of which a busy machine leaves smaller groups. Raise it only with a reason.
    most: f64,
}

impl Run {
    /// The switch, of which ports replay captures in this directory.
    fn switch(&self, lcore: u32, dir: &Path) -> SwitchConfig {
        let mut switch = if self.at_a_time.is_some() {
            bursts::switch(lcore).expect("a valid configuration")
        } else {
            let lcores = &[lcore];
            let setup = Setup::of_one_lcore(lcores, self.case);
            let captures = setup.write_captures(dir, self.case.name).expect("capture files");
            setup.switch(&captures).expect("a valid configuration")
        };
        switch.buffer.mean_frame = Some(MEAN_FRAME);
        switch
    }
}

fn runs() -> Vec<Run> {
    let run = |case, most| Run { case, at_a_time: None, most };
    let of = |name, most| run(*CASES.iter().find(|case| case.name == name).expect("a case"), most);
    let (alone, stations) = (CASES[0], CASES[1]);
    vec![
        of("stations", 172.0),
        of("two-classes", 185.0),
        run(Case { name: "ports-5", destinations: 4, ..alone }, 206.0),
        of("mixed", 242.0),
        run(Case { name: "reverie", policy: Some("reverie"), ..alone }, 190.0),
        Run { at_a_time: Some(4), ..run(Case { name: "four-a-burst", ..stations }, 780.0) },
        Run { at_a_time: Some(1), ..run(Case { name: "one-a-burst", ..stations }, 2_786.0) },
        of("ecn", 174.0),
        of("ecn-arrival", 175.0),
        of("ecn-marks", 235.0),
        of("round-robin", 174.0),
        of("beside-round-robin", 171.0),
        of("ports-8", 219.0),
        of("ports-8-two-classes", 275.0),
        of("ports-16", 276.0),
        of("ports-32", 365.0),
        of("stations-1000", 179.0),
        of("stations-4096", 206.0),
        of("stations-16384", 278.0),
        of("new-senders", 422.0),
        of("flapping-mac", 182.0),
        of("gfc-time", 196.0),
        of("cbfc", 201.0),
        of("vlans", 644.0),
        of("overload", 300.0),
        of("io", 75.0),
    ]
}
/// Parts of the first of [`runs`], by the functions that the compiler leaves of them; the rest, some 73, is the ports'. Parts that take few may take two
/// more: how many rounds find nothing to do is the processor's matter.
const PARTS: [BenchmarkPart; 3] = [
    BenchmarkPart {
        name: "receiving, forwarding decisions by a frame's first bytes, sums, past the egress queue or into it",
        functions: &["SwitchLcore", "burst::fast_path", "burst::grouping"],
        most: 76.0,
    },
    BenchmarkPart { name: "admission", functions: &["::forwarding::", "mmu::admission", "mmu::bulk"], most: 17.0 },
    BenchmarkPart {
        name: "gate, shaper, scheduler, release, counters",
        functions: &[
            "::transmission::",
            "burst::transmitter",
            "burst::queue_bypass",
            "mmu::departure",
            "::shaper::",
            "PortOutput",
        ],
        most: 9.0,
    },
];
const ROUNDS: usize = 5;
const SECONDS: Duration = Duration::from_secs(3);
/// Packets that a run under callgrind forwards at least, so that the switch's start is the same small part of each on any machine: many where
/// it learns many stations, few where few frames come at a time, since a packet takes longer there.
const COUNTED: RoundEnd = RoundEnd::Sent(100_000);
const COUNTED_OF_MANY: RoundEnd = RoundEnd::Sent(400_000);
const COUNTED_IN_BURSTS: RoundEnd = RoundEnd::Sent(25_000);
/// Mean frame for which a run under callgrind has packet memory: DPDK clears all of it at both ends, which took longer than the packets.
const MEAN_FRAME: Bytes = Bytes::new(1_500);
fn main() {
    let is_asked = |word: &str| std::env::args().any(|argument| argument == word);
    if is_asked("--instructions") {
        return count_instructions();
    }
    let some_are_named = CASES.iter().any(|case| is_asked(case.name));
    let takes_part = |case: &Case| !some_are_named || is_asked(case.name);
    let lcore = *cpu::allowed().last().expect("a CPU");
    if let Some(socket) = std::env::args().skip_while(|argument| argument != latency::SWITCH).nth(1) {
        latency::be_a_switch(lcore, socket.as_ref());
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let hugepages = Reserved::at_least(700);
    println!("{}", HostInfo::here());
    println!("pages: {}\n", if hugepages.available() { "2 MiB, --in-memory" } else { "4 KiB, --no-huge" });
    let rounds = std::env::args().skip_while(|argument| argument != "--rounds").nth(1);
    let rounds = rounds.map_or(ROUNDS, |rounds| rounds.parse().expect("a number of rounds"));
    if is_asked("--cold") {
        return cold::measure(lcore, dir.path(), hugepages.available(), rounds);
    }
    if is_asked("--latency") {
        return latency::measure(lcore, dir.path(), hugepages.available(), rounds);
    }
    let all = is_asked("--peers");
    // Peers have two ports; and some of them are the ports alone.
    let has_peers = |(n, case): &(usize, &Case)| *n < OF_TWO_PORTS || all && !case.has_switch;
    let cases = CASES.iter().enumerate().filter(|case| is_asked("--alone") || has_peers(case)).map(|(_, case)| *case);
    let cases: Vec<Case> = cases.filter(takes_part).collect();
    let (captures, switches): (Vec<Vec<PathBuf>>, Vec<SwitchConfig>) = cases
        .iter()
        .map(|case| {
            let lcore = &[lcore];
            let setup = Setup::of_one_lcore(lcore, *case);
            let captures = setup.write_captures(dir.path(), case.name).expect("capture files");
            let switch = setup.switch(&captures).expect("a valid configuration");
            (captures, switch)
        })
        .unzip();
    let memory_of = |switch| Memory::for_switches(std::slice::from_ref(switch), 1, 0).megabytes();
    let memory_mb = switches.iter().map(memory_of).max().expect("a case with two ports, or --alone");
    let options = RuntimeOptions { memory_mb, ..RuntimeOptions::default() };
    let runtime = Runtime::start("forwarding", &[lcore], &[], &options).expect("DPDK");
    if is_asked("--alone") {
        for (case, switch) in cases.iter().zip(&switches) {
            let Spread { median, max, .. } =
                Spread::from_values((0..12).map(|_| weir_rate(&runtime, case, switch, SECONDS / 6) / 1e6));
            println!("{}: {max:.1} M packets per CPU-second at best, median {median:.1}", case.what);
        }
        return;
    }
    let (peers, span) = if all { (&Peer::ALL[..], SECONDS / 2) } else { (&Peer::ADDRESSES_SWAPPED[..], SECONDS) };
    let library = ReplayLibrary::build(dir.path());
    let peers_of = |case: &Case| {
        let has_switch = case.has_switch;
        peers.iter().copied().filter(move |peer| has_switch || peer.is_of_ports_alone())
    };
    let mut tables: Vec<Table> = cases.iter().map(|case| Table::new(peers_of(case))).collect();
    for _ in 0..rounds {
        for (((files, switch), table), case) in captures.iter().zip(&switches).zip(&mut tables).zip(&cases) {
            let weir = weir_rate(&runtime, case, switch, span);
            let files: &[PathBuf; 2] = files.as_slice().try_into().expect("two ports");
            let ground = PeerConfig { ports: &library.ports(files), lcore, hugepages: hugepages.available() };
            table.add(weir, |peer| peer.rate(&ground, span));
        }
    }
    for peer in peers.iter().filter(|&&peer| tables.iter().all(|table| table.lacks(peer))) {
        println!("{} did not run: {}", peer.name(), peer.wants());
    }
    println!("M packets per CPU-second of the forwarding thread, {rounds} rounds of {} s in turn;", span.as_secs_f64());
    println!("weir/it is Weir's figure by the peer's, round by round: the median, and the range;");
    println!(
        "all ports have one receive and one transmit function; numbers are frames a burst, of which Weir has 64\n"
    );
    for (table, case) in tables.iter().zip(&cases) {
        println!("{}\n{table}", case.what);
    }
}

/// Has each of the [`runs`], or those named, run under callgrind, and holds an lcore's rounds against their limits.
fn count_instructions() {
    let mut runs = runs();
    let is_named = |run: &Run| std::env::args().any(|argument| argument == run.case.name);
    if runs.iter().any(is_named) {
        runs.retain(is_named);
    }
    let counted = runs.iter().map(|run| InstructionBenchmark {
        name: run.case.name,
        functions: if run.case.has_switch { "*SwitchLcore*run_once*" } else { "*IoForwarding*run_once*" },
        each: "packet",
        most: run.most,
        parts: if run.case.name == CASES[1].name { &PARTS } else { &[] },
    });
    let lcore = *cpu::allowed().last().expect("a CPU");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut runtime = None;
    check_limits(&counted.collect::<Vec<_>>(), |n| {
        let runtime = runtime.get_or_insert_with(|| start_without_hugepages(lcore, &runs, dir.path()));
        packets_of(runtime, &runs[n], lcore, dir.path())
    });
}

/// Packets that a run forwards in the time that callgrind has.
fn packets_of(runtime: &Runtime, run: &Run, lcore: u32, dir: &Path) -> u64 {
    let switch = run.switch(lcore, dir);
    let Run { case, at_a_time, .. } = run;
    if let Some(frames) = at_a_time {
        let forwarded = bursts::forward(runtime, &switch, *frames, COUNTED_IN_BURSTS);
        return forwarded.expect("a switch that conserves frames").sent;
    }
    let packets = if case.stations > 1 || case.destinations > 4 { COUNTED_OF_MANY } else { COUNTED };
    weir(runtime, case, &switch, packets).sent
}

/// DPDK with memory for any of the runs under callgrind: there is no address space for hugepages, even if the machine has some.
fn start_without_hugepages(lcore: u32, runs: &[Run], dir: &Path) -> Runtime {
    let memory_of = |run: &Run| Memory::for_switches(&[run.switch(lcore, dir)], 1, 0).megabytes();
    let memory_mb = runs.iter().map(memory_of).max().expect("a run");
    let options = RuntimeOptions { memory_mb, eal_args: vec!["--no-huge".to_owned()], ..RuntimeOptions::default() };
    Runtime::start("forwarding", &[lcore], &[], &options).expect("DPDK")
}

/// Packets per CPU-second of a case, over so much time.
fn weir_rate(runtime: &Runtime, case: &Case, switch: &SwitchConfig, time: Duration) -> f64 {
    weir(runtime, case, switch, RoundEnd::Time(time)).rate()
}

/// Counts of a case in a round. A figure counts only if hardly anything was dropped.
fn weir(runtime: &Runtime, case: &Case, switch: &SwitchConfig, until: RoundEnd) -> Forwarded {
    let forwarded = forward_case(runtime, case, switch, until).expect("frames are conserved");
    assert!(forwarded.sent * 100 > forwarded.received * 99, "{forwarded:?}");
    forwarded
}
