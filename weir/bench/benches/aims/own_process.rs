//! Measurements in a process of their own: DPDK starts once a process, and memory is the process's.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::ops::ControlFlow;
use std::process::{Command, Stdio};
use std::time::Instant;

use weir_bench::{Latency, Spread, pause};
use weir_dpdk_driver::{Memory, Placement, PreparedSwitches, Runtime, RuntimeOptions};
use weir_dpdk_io::cpu;
use weir_units::{BitRate, Span};

use crate::print_result;

const START_UP: &str = "--start-up";
const PAUSES: &str = "--pauses";
/// Number of starts of a switch.
const STARTS: usize = 5;

/// Runs the measurement that this process was started for, if any.
pub(crate) fn run_if_child(arguments: &[String]) -> bool {
    match arguments.first().map(String::as_str) {
        Some(START_UP) => start_up(),
        Some(PAUSES) => pauses(),
        _ => return false,
    }
    true
}

/// Measures memory and start-up, and the delays of PAUSE.
pub(crate) fn measure_all() {
    let starts: Vec<(f64, f64)> = (0..STARTS).map(|_| started()).collect();
    let at_most = |what, aim, values, most| print_result(what, aim, Spread::from_values(values), Some((most, false)));
    let (seconds, megabytes): (Vec<f64>, Vec<f64>) = starts.into_iter().unzip();
    at_most("start-up, four ports and 16 MB of buffer, s", "<= 1.5", seconds, 1.5);
    at_most("memory of it, resident MB", "<= 120", megabytes, 120.0);
    if cpu::allowed().len() < 2 {
        return println!("delays of PAUSE: the generator needs a CPU of its own");
    }
    let mut child = Command::new(program()).arg(PAUSES).stdout(Stdio::piped()).spawn().expect("this program");
    let mut told = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut told).expect("a report");
    assert!(child.wait().expect("a child").success(), "{told}");
    let lines = told.lines().filter_map(|line| line.strip_prefix(FIGURES_PREFIX));
    for (line, (what, aim, most)) in lines.zip(DELAYS) {
        let rounds: Vec<f64> = line.split_whitespace().map(|number| number.parse().expect("a number")).collect();
        at_most(what, aim, rounds, most);
    }
}

/// Prefix of a child's lines with figures for its parent.
const FIGURES_PREFIX: &str = "figures: ";

/// Delays by the clock, each with its aim.
const DELAYS: [(&str, &str, f64); 2] = [
    ("Xoff to PAUSE handed over, p99.9 at 50 % load, us", "< 8", 8.0),
    ("PAUSE received to obeyed, p50 at 50 % load, us", "< 1.2", 1.2),
];

/// Starts a switch in a process of its own: seconds until its lcores run, and resident megabytes then.
fn started() -> (f64, f64) {
    let start = Instant::now();
    let mut child = Command::new(program())
        .arg(START_UP)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("this program");
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    let resident =
        output.lines().map_while(Result::ok).find_map(|line| line.strip_prefix(FIGURES_PREFIX)?.parse().ok());
    let seconds = start.elapsed().as_secs_f64();
    assert!(child.wait().expect("a child").success(), "a switch of four ports did not start");
    (seconds, resident.expect("resident memory"))
}

fn program() -> std::path::PathBuf {
    std::env::current_exe().expect("this program")
}

/// A switch with defaults: four ports and 16 MB of buffer.
fn start_up() {
    let port = |name| format!("[[ports]]\nname = \"{name}\"\nring = \"{name}\"\nrate = \"100Gbps\"\n");
    let text =
        format!("[buffer]\nsize = \"16MB\"\n[pfc]\nreaction = \"1us\"\n{}", ["a", "b", "c", "d"].map(port).concat());
    let switches = [weir_config::parse("start-up.toml", &text).expect("a valid configuration")];
    let placement = Placement::new(&switches, &cpu::allowed(), 0).expect("a CPU");
    let memory_mb = Memory::for_switches(&switches, placement.cpus.len(), 0).megabytes();
    let options = RuntimeOptions { memory_mb, ..RuntimeOptions::default() };
    let runtime = Runtime::start("start-up", &placement.cpus, &[], &options).expect("DPDK");
    let prepared = PreparedSwitches::prepare(&runtime, &switches, &placement, 0).expect("ports");
    let running = prepared.start().expect("lcores");
    running.report(0).expect("lcores that answer");
    println!("{FIGURES_PREFIX}{}", resident_mb());
    running.stop(std::time::Duration::from_secs(1)).expect("lcores that end");
}

/// Resident memory of this process, hugepages too.
fn resident_mb() -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("the kernel's status of a process");
    let kilobytes = |name: &str| -> f64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok()).unwrap_or(0.0)
    };
    (kilobytes("VmRSS:") + kilobytes("HugetlbPages:")) * 1.024 / 1e3
}

/// Delays of PAUSE on one lcore that owns the ports.
fn pauses() {
    let plan = pause::PausePlan {
        layouts: vec!["single".to_owned()],
        rate: BitRate::gbps(10),
        load_percent: 50,
        frame_bytes: 64,
        rounds: 5,
        duration: Span::from_secs(2),
    };
    let report = pause::run(&plan, &[], &mut |_| ControlFlow::Continue(())).expect("delays");
    let rounds = &report.layouts[0].rounds;
    let line = |of: fn(&pause::PauseRound) -> u64| {
        let rounds: Vec<String> = rounds.iter().map(|round| format!("{}", of(round) as f64 / 1e3)).collect();
        println!("{FIGURES_PREFIX}{}", rounds.join(" "));
    };
    line(|round| tail(&round.xoff_to_pause));
    line(|round| round.pause_to_obeyed.p50_ns);
}

fn tail(delay: &Latency) -> u64 {
    delay.p999_ns
}
