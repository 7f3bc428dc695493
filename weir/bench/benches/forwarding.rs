//! The forwarding rate of one lcore with the whole pipeline (MMU, PFC, scheduler) beside `dpdk-testpmd` macswap and 5tswap,
//! which only swap addresses: 64-byte IPv4 frames on the same pcap ports, in turn, as packets per CPU-second of the
//! forwarding thread.
//!
//! `cargo bench -p weir-bench --bench forwarding`; the machine's noise is why the ratio, and not the rate, is the
//! figure. As root it reserves hugepages if there are none, and returns them. With `-- --peers` testpmd's `io`, DPDK's
//! `l3fwd` and Open vSwitch take part too; `make bench-peers` gets them first. With `-- --alone` Weir runs without peers, as
//! a profiler wants it; with `-- --instructions` it runs under callgrind, and a packet's instructions are held against a limit.
//! Names of cases (`one-class`, `stations`, `lossy`, `two-classes`; alone also `mixed`) leave the others out, `--rounds N` takes so many
//! rounds.

#[path = "forwarding/hugepages.rs"]
mod hugepages;
#[path = "forwarding/l3fwd.rs"]
mod l3fwd;
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

use std::path::PathBuf;
use std::time::Duration;

use hugepages::Reserved;
use weir_alone::{Counted, Part};
use weir_bench::Spread;
use weir_bench::forwarding::{CASES, Case, Forwarded, OF_TWO_PORTS, Setup, Until, forward};
use weir_bench::machine::Machine;
use weir_config::SwitchConfig;
use weir_dpdk_driver::{Memory, Runtime, RuntimeOptions};
use weir_dpdk_io::cpu;

use peers::{Ground, Peer};
use table::Table;

/// The arguments of runs whose instructions are counted, of one class and of two in turn.
const COUNTED: [&str; 2] = ["--counted", "--counted-two-classes"];
/// What a packet may take in an lcore's rounds, DPDK's capture ports (about 200 of them) included: 3 % above what it takes, on an idle
/// machine as on a busy one. Raise it only with a reason.
const INSTRUCTIONS_MAX: [f64; 2] = [344.0, 452.0];
/// Its parts, by the functions that the compiler leaves of them; the rest, some 205, is DPDK's.
const PARTS: [Part; 3] = [
    Part {
        name: "receiving, finding each frame's way by its first bytes, sums",
        functions: &["SwitchLcore"],
        most: 86.5,
    },
    Part {
        name: "admission, into the egress queue",
        functions: &["::forwarding::", "mmu::admission", "mmu::whole", "MemoryShare"],
        most: 20.5,
    },
    Part {
        name: "scheduler, shaper, gate, release, counters, out of the queue",
        functions: &["::transmission::", "burst::transmitter", "mmu::departure", "::shaper::", "PortOutput"],
        most: 28.0,
    },
];
const ROUNDS: usize = 5;
const SECONDS: Duration = Duration::from_secs(3);
fn main() {
    let is_asked = |word: &str| std::env::args().any(|argument| argument == word);
    if is_asked("--instructions") {
        return count_instructions();
    }
    let some_are_named = CASES.iter().any(|case| is_asked(case.name));
    let takes_part = |case: &Case| !some_are_named || is_asked(case.name);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let counted = COUNTED.iter().position(|argument| is_asked(argument));
    let lcore = *cpu::allowed().last().expect("a CPU");
    let hugepages = if counted.is_some() { Reserved::none() } else { Reserved::at_least(700) };
    println!("{}", Machine::here());
    println!("pages: {}\n", if hugepages.available() { "2 MiB, --in-memory" } else { "4 KiB, --no-huge" });
    let (captures, switches): (Vec<Vec<PathBuf>>, Vec<SwitchConfig>) = CASES
        .iter()
        .map(|case| {
            let lcore = &[lcore];
            let setup = Setup::of_one_lcore(lcore, *case);
            let captures = setup.write_captures(dir.path(), case.name).expect("capture files");
            let switch = setup.switch(&captures).expect("a valid configuration");
            (captures, switch)
        })
        .unzip();
    let memory_of = |switch| Memory::of(std::slice::from_ref(switch), 1, 0).megabytes();
    let memory_mb = switches.iter().map(memory_of).max().expect("there are cases");
    // Under callgrind there is no address space for hugepages, even if the machine has some.
    let eal_args = if counted.is_some() { vec!["--no-huge".to_owned()] } else { Vec::new() };
    let options = RuntimeOptions { memory_mb, eal_args, ..RuntimeOptions::default() };
    let runtime = Runtime::start("forwarding", &[lcore], &[], &options).expect("DPDK");
    if let Some(counted) = counted {
        let named = CASES.iter().position(|case| is_asked(case.name) || counted == 1 && case.dscps.len() == 2);
        println!("packets {}", weir(&runtime, &switches[named.unwrap_or(1)], SECONDS).sent);
        return;
    }
    if is_asked("--alone") {
        for (case, switch) in CASES.iter().zip(&switches).filter(|(case, _)| takes_part(case)) {
            let Spread { median, max, .. } =
                Spread::of((0..12).map(|_| weir_rate(&runtime, switch, SECONDS / 6) / 1e6));
            println!("{}: {max:.1} M packets per CPU-second at best, median {median:.1}", case.what);
        }
        return;
    }
    let all = is_asked("--peers");
    let (peers, span) = if all { (&Peer::ALL[..], SECONDS / 2) } else { (&Peer::ADDRESSES_SWAPPED[..], SECONDS) };
    // Peers have two ports.
    let mut tables: [Table; OF_TWO_PORTS] = std::array::from_fn(|_| Table::new(peers));
    let rounds = std::env::args().skip_while(|argument| argument != "--rounds").nth(1);
    let rounds = rounds.map_or(ROUNDS, |rounds| rounds.parse().expect("a number of rounds"));
    for _ in 0..rounds {
        let taking_part = captures.iter().zip(&switches).zip(&mut tables).zip(&CASES);
        for ((files, switch), table) in taking_part.filter(|(_, case)| takes_part(case)).map(|(all, _)| all) {
            let weir = weir_rate(&runtime, switch, span);
            let files = files.as_slice().try_into().expect("two ports");
            let ground = Ground { captures: files, lcore, hugepages: hugepages.available(), span };
            table.add(weir, peers.iter().map(|peer| peer.rate(&ground)));
        }
    }
    let named = || tables.iter().zip(&CASES).filter(|(_, case)| takes_part(case));
    for peer in peers.iter().filter(|&&peer| named().all(|(table, _)| table.lacks(peer))) {
        println!("{} did not run: {}", peer.name(), peer.wants());
    }
    println!("M packets per CPU-second of the forwarding thread, {rounds} rounds of {} s in turn;", span.as_secs_f64());
    println!("weir/it is Weir's figure by the peer's, round by round: the median, and the range\n");
    for (table, case) in named() {
        println!("{}\n{table}", case.what);
    }
}

/// Runs a lossless class with 64 stations a port under callgrind, and two classes in turn, and holds an lcore's rounds against their
/// limits.
fn count_instructions() {
    let counted = |name, n: usize, parts| Counted {
        name,
        argument: COUNTED[n],
        environment: &[],
        functions: "*SwitchLcore*run_once*",
        each: "packet",
        number_after: "packets ",
        most: INSTRUCTIONS_MAX[n],
        parts,
    };
    counted("forwarding", 0, &PARTS[..]).hold();
    counted("two classes in turn", 1, &[]).hold();
}

/// Packets per CPU-second of a switch, over so much time.
fn weir_rate(runtime: &Runtime, switch: &SwitchConfig, time: Duration) -> f64 {
    weir(runtime, switch, time).rate()
}

/// What a switch forwards in so much time. A figure counts only if hardly anything was dropped.
fn weir(runtime: &Runtime, switch: &SwitchConfig, time: Duration) -> Forwarded {
    let forwarded =
        forward(runtime, std::slice::from_ref(switch), Until::Time(time)).expect("a switch that keeps its books");
    assert!(forwarded.sent * 100 > forwarded.received * 99, "{forwarded:?}");
    forwarded
}
