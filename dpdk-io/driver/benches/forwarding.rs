//! The forwarding rate of one lcore with the whole pipeline (MMU, PFC, scheduler) beside `dpdk-testpmd` macswap and 5tswap,
//! which only swap addresses: 64-byte IPv4 frames on the same pcap ports, in turn, as packets per CPU-second of the
//! forwarding thread.
//!
//! `cargo bench -p weir-dpdk-driver --bench forwarding`; the machine's noise is why the ratio, and not the rate, is the
//! figure. As root it reserves hugepages if there are none, and returns them. With `-- --peers` testpmd's `io`, DPDK's
//! `l3fwd` and Open vSwitch take part too; `make bench-peers` gets them first. With `-- --alone` Weir runs without peers, as
//! a profiler wants it; with `-- --instructions` it runs under callgrind, and a packet's instructions are held against a limit.

#[path = "forwarding/hugepages.rs"]
mod hugepages;
#[path = "forwarding/instructions.rs"]
mod instructions;
#[path = "forwarding/l3fwd.rs"]
mod l3fwd;
#[path = "forwarding/machine.rs"]
mod machine;
#[path = "forwarding/openvswitch.rs"]
mod openvswitch;
#[path = "forwarding/peers.rs"]
mod peers;
#[path = "forwarding/table.rs"]
mod table;
#[path = "forwarding/testpmd.rs"]
mod testpmd;
#[path = "forwarding/threads.rs"]
mod threads;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hugepages::Reserved;
use weir_config::SwitchConfig;
use weir_dpdk_driver::{Memory, Placement, PreparedSwitches, Runtime, RuntimeOptions};
use weir_dpdk_io::cpu;

use peers::{Ground, Peer};
use table::Table;

/// The argument of a run whose instructions are counted.
const COUNTED: &str = "--counted";
const ROUNDS: usize = 5;
const SECONDS: Duration = Duration::from_secs(3);
/// Frames in a capture file, of as many flows; replayed for ever.
const FRAMES: u16 = 64;

/// A run's classes, which the frames' DSCPs, in turn, make them, and how many stations are behind each port, whose frames come in
/// turn too.
const CASES: [(&str, &[u8], u8); 4] = [
    ("a lossless class", &[26], 1),
    ("a lossless class, 64 stations a port", &[26], 64),
    ("a lossy class", &[0], 1),
    ("a lossless and a lossy class, in turn", &[26, 0], 1),
];

fn main() {
    let is_asked = |word: &str| std::env::args().any(|argument| argument == word);
    if is_asked("--instructions") {
        return instructions::count(COUNTED);
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let lcore = *cpu::allowed().last().expect("a CPU");
    let hugepages = if is_asked(COUNTED) { Reserved::none() } else { Reserved::at_least(700) };
    println!("{}", machine::description());
    println!("pages: {}\n", if hugepages.available() { "2 MiB, --in-memory" } else { "4 KiB, --no-huge" });
    let captures: [[PathBuf; 2]; CASES.len()] = std::array::from_fn(|case| {
        let (_, dscps, stations) = CASES[case];
        [(0, 1), (1, 0)].map(|(from, to)| capture(dir.path(), &format!("{case}-{from}"), (from, to), dscps, stations))
    });
    let switches = captures.each_ref().map(|files| config(files, lcore));
    let memory_mb = Memory::of(&switches[..1], 1, 0).megabytes();
    // Under callgrind there is no address space for hugepages, even if the machine has some.
    let eal_args = if is_asked(COUNTED) { vec!["--no-huge".to_owned()] } else { Vec::new() };
    let options = RuntimeOptions { memory_mb, eal_args, ..RuntimeOptions::default() };
    let runtime = Runtime::start("forwarding", &[lcore], &[], &options).expect("DPDK");
    if is_asked(COUNTED) {
        let (packets, _) = forward(&runtime, &switches[1], SECONDS);
        println!("packets {packets}");
        return;
    }
    if is_asked("--alone") {
        for ((name, ..), switch) in CASES.iter().zip(&switches) {
            let [_, median, best] = table::spread((0..12).map(|_| weir_rate(&runtime, switch, SECONDS / 6) / 1e6));
            println!("{name}: {best:.1} M packets per CPU-second at best, median {median:.1}");
        }
        return;
    }
    let all = is_asked("--peers");
    let (peers, span) = if all { (&Peer::ALL[..], SECONDS / 2) } else { (&Peer::ADDRESSES_SWAPPED[..], SECONDS) };
    let mut tables: [Table; CASES.len()] = std::array::from_fn(|_| Table::new(peers));
    for _ in 0..ROUNDS {
        for ((files, switch), table) in captures.iter().zip(&switches).zip(&mut tables) {
            let weir = weir_rate(&runtime, switch, span);
            let ground = Ground { captures: files, lcore, hugepages: hugepages.available(), span };
            table.add(weir, peers.iter().map(|peer| peer.rate(&ground)));
        }
    }
    for peer in peers.iter().filter(|&&peer| tables.iter().all(|table| table.lacks(peer))) {
        println!("{} did not run: {}", peer.name(), peer.wants());
    }
    println!("M packets per CPU-second of the forwarding thread, {ROUNDS} rounds of {} s in turn;", span.as_secs_f64());
    println!("weir/it is Weir's figure by the peer's, round by round: the median, and the range\n");
    for ((name, ..), table) in CASES.iter().zip(&tables) {
        println!("{name}\n{table}");
    }
}

/// Packets per CPU-second of a switch, over so much time.
fn weir_rate(runtime: &Runtime, switch: &SwitchConfig, time: Duration) -> f64 {
    let (packets, cpu_ns) = forward(runtime, switch, time);
    packets as f64 * 1e9 / cpu_ns as f64
}

/// Packets that a switch forwards in so much time between two ports that receive as fast as they are polled, and the CPU time of its
/// lcore.
fn forward(runtime: &Runtime, switch: &SwitchConfig, time: Duration) -> (u64, u64) {
    let switches = std::slice::from_ref(switch);
    let placement = Placement::new(switches, &cpu::allowed(), 0).expect("a CPU");
    let running = PreparedSwitches::prepare(runtime, switches, &placement, 0)
        .and_then(PreparedSwitches::start)
        .expect("a switch");
    std::thread::sleep(time);
    let stopped = running.stop(Duration::from_secs(1)).expect("stopped");
    let balance = stopped.reports[0].balance;
    assert!(balance.holds && balance.sent * 100 > balance.received * 99, "{balance:?}");
    let cpu_ns: u64 = stopped.lcores.iter().map(|(_, stats)| stats.cpu_time_ns()).sum();
    (balance.sent, cpu_ns)
}

fn config(files: &[PathBuf; 2], lcore: u32) -> SwitchConfig {
    let mut text = format!(
        "[switch]\nname = \"bench\"\nidle = \"poll\"\n[lcores]\nlayout = \"single\"\ncores = [{lcore}]\n\
         [buffer]\nsize = \"4MB\"\npolicy = \"dt\"\n[classes]\npreset = \"roce\"\n[pfc]\nreaction = \"1us\"\n"
    );
    for (port, file) in files.iter().enumerate() {
        // Fast enough never to be what limits.
        text += &format!(
            "[[ports]]\nname = \"p{port}\"\npcap = {{ rx = \"{}\", infinite = true }}\nrate = \"400Gbps\"\n",
            file.display()
        );
    }
    weir_config::parse("bench.toml", &text).expect("a valid configuration")
}

/// Writes a capture of 64-byte (60 without FCS) UDP/IPv4 frames from the stations of one port to those of the other, with these
/// DSCPs in turn. Destinations are addresses that l3fwd has routes for.
fn capture(dir: &Path, name: &str, (from, to): (u8, u8), dscps: &[u8], stations: u8) -> PathBuf {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for flow in 0..FRAMES {
        let station = flow as u8 % stations;
        let mut frame = vec![2, 0, 0, 0, station, to, 2, 0, 0, 0, station, from, 8, 0];
        let dscp = dscps[usize::from(flow) % dscps.len()];
        frame.extend([0x45, dscp << 2, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, from, station, 198, 18, to, station]);
        let checksum = checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        frame.extend((1_000 + flow).to_be_bytes());
        frame.extend([0x12, 0xb7, 0, 26, 0, 0]);
        frame.resize(60, 0);
        for word in [0, u32::from(flow), 60, 60] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    let path = dir.join(format!("{name}.pcap"));
    fs::write(&path, file).expect("a capture file");
    path
}

fn checksum(header: &[u8]) -> u16 {
    let mut sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
