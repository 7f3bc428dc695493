//! Aims of the packet path: each with the ratio that was measured, in one run, and whether it holds.
//!
//! `cargo bench -p weir-bench --bench aims`. Everything is measured in turn in each round, and a ratio is taken within a round, since the
//! machine is slower and faster by a third within minutes. An aim holds if the median does. The comparison with other programs is
//! benchmark `forwarding`. As root it reserves hugepages if there are none, and returns them. `--rounds N` takes so many rounds; words
//! leave out aims that have none of them.

#[path = "forwarding/hugepages.rs"]
mod hugepages;
#[path = "aims/list.rs"]
mod list;
#[path = "aims/own_process.rs"]
mod own_process;

use std::path::PathBuf;
use std::time::Duration;

use hugepages::Reserved;
use list::{AIMS, Aim, LoadMode, MEASURED, Measured};
use weir_bench::Spread;
use weir_bench::forwarding::{Forwarded, RoundEnd, Setup, forward, forward_from_standing_queues};
use weir_bench::machine::{HostInfo, HostLoadMeter};
use weir_config::SwitchConfig;
use weir_dpdk_driver::{Memory, Runtime, RuntimeOptions};
use weir_dpdk_io::cpu;
use weir_units::{Bytes, WIRE_OVERHEAD_BYTES};

const ROUNDS: usize = 5;
/// Time for which a switch forwards in a round.
const SPAN: Duration = Duration::from_millis(300);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if own_process::run_if_child(&arguments) {
        return;
    }
    let number = arguments.iter().skip_while(|argument| *argument != "--rounds").nth(1);
    let rounds = number.map_or(ROUNDS, |rounds| rounds.parse().expect("a number of rounds"));
    let words: Vec<&String> =
        arguments.iter().filter(|word| !word.starts_with("--") && Some(*word) != number).collect();
    let cpus = cpu::allowed();
    let is_wanted = |aim: &&Aim| words.is_empty() || words.iter().any(|word| aim.what.contains(word.as_str()));
    let aims: Vec<&Aim> = AIMS.iter().filter(is_wanted).filter(|aim| aim.lcores() <= cpus.len()).collect();
    let hugepages = Reserved::at_least(700);
    let watch = HostLoadMeter::start();
    println!("{}", HostInfo::here());
    println!("pages: {}", if hugepages.available() { "2 MiB, --in-memory" } else { "4 KiB, --no-huge" });
    let rates = if aims.is_empty() { Vec::new() } else { measure(&aims, &cpus, rounds) };
    println!("{}", watch.read());
    println!("{rounds} rounds of {} s in turn: the median, and the range\n", SPAN.as_secs_f64());
    println!("| what | aim | measured | holds |\n|---|---|---|---|");
    for aim in aims {
        let values = rates.iter().map(|round| aim.value(&|name| round[position_of(name)]));
        print_result(aim.what, &aim.aim(), Spread::from_values(values), aim.least.map(|least| (least, true)));
    }
    if words.is_empty() {
        own_process::measure_all();
    }
}

/// Prints a row. `bound` is a limit, and whether it is the least or the most.
fn print_result(what: &str, aim: &str, Spread { min, median, max }: Spread, bound: Option<(f64, bool)>) {
    let holds = bound.map_or("", |(bound, is_least)| match (median >= bound, is_least) {
        (true, true) | (false, false) => "yes",
        _ => "no",
    });
    println!("| {what} | {aim} | {median:.2} ({min:.2} to {max:.2}) | {holds} |");
}

/// Packets per CPU-second of an lcore in each round, in the order of [`MEASURED`]; 0 where no aim names one.
fn measure(aims: &[&Aim], cpus: &[u32], rounds: usize) -> Vec<Vec<f64>> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let is_named =
        |measured: &Measured| aims.iter().any(|aim| aim.of == measured.name || aim.by == Some(measured.name));
    let prepare = |measured: &Measured| {
        is_named(measured).then(|| {
            let setups = measured.setups(cpus).into_iter().enumerate();
            let switch = |(n, setup): (usize, Setup<'_>)| {
                let name = format!("{}-{n}", position_of(measured.name));
                let captures: Vec<PathBuf> = setup.write_captures(dir.path(), &name).expect("capture files");
                setup.switch(&captures).expect("a valid configuration")
            };
            setups.map(switch).collect()
        })
    };
    let switches: Vec<Option<Vec<SwitchConfig>>> = MEASURED.iter().map(prepare).collect();
    let memory_of = |switches: &Vec<SwitchConfig>| Memory::for_switches(switches, 2, 0).megabytes();
    let memory_mb = switches.iter().flatten().map(memory_of).max().expect("something to measure");
    let options = RuntimeOptions { memory_mb, ..RuntimeOptions::default() };
    let lcores = aims.iter().map(|aim| aim.lcores()).max().unwrap_or(1);
    let runtime = Runtime::start("aims", &cpus[cpus.len() - lcores..], &[], &options).expect("DPDK");
    let rate = |(measured, switches): (&Measured, &Option<Vec<SwitchConfig>>)| {
        switches.as_ref().map_or(0.0, |switches| forwarded(&runtime, measured, switches).rate())
    };
    (0..rounds).map(|_| MEASURED.iter().zip(&switches).map(rate).collect()).collect()
}

fn forwarded(runtime: &Runtime, measured: &Measured, switches: &[SwitchConfig]) -> Forwarded {
    let forwarded = match measured.load_mode {
        LoadMode::Usual | LoadMode::Overrun | LoadMode::Apart => forward(runtime, switches, RoundEnd::Time(SPAN)),
        LoadMode::Standing(bytes) => forward_from_standing_queues(runtime, &switches[0], Bytes::new(bytes), SPAN),
    };
    let forwarded = forwarded.unwrap_or_else(|error| panic!("{}: {error}", measured.name));
    // Drops cost time too: a figure counts only with hardly any, unless more frames come than one port may send.
    let overruns = matches!(measured.load_mode, LoadMode::Overrun);
    assert!(overruns || forwarded.sent * 100 > forwarded.received * 99, "{}: {forwarded:?}", measured.name);
    forwarded
}

/// Converts a packet rate to Gb/s on the wire.
fn gbps(packets_per_s: f64, frame_bytes: u16) -> f64 {
    packets_per_s * ((u64::from(frame_bytes) + WIRE_OVERHEAD_BYTES) * 8) as f64 / 1e9
}

fn position_of(name: &str) -> usize {
    MEASURED.iter().position(|measured| measured.name == name).expect("an aim is of what is measured")
}
