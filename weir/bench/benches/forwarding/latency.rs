//! Latency from port to port of Weir and its peers, each a process of its own between the same two memif ports of one generator: of
//! lone frames, and at 90 % of what each forwards.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use weir_bench::memif_tester::{INTERFACES, MemifTester, OverloadRate, TrialLatency};
use weir_bench::{BenchError, Latency, Spread};
use weir_config::SwitchConfig;
use weir_dpdk_driver::{Memory, Placement, PreparedSwitches, Runtime, RuntimeOptions};
use weir_dpdk_io::cpu;
use weir_units::Span;

use crate::ground::{self, PeerConfig};
use crate::peers::{Forwarder, Peer, SHORT};
use crate::processes::{self, Daemon};

/// Argument that makes this program a switch at the memif socket that is named next.
pub(crate) const SWITCH: &str = "--switch-at";
const PEERS: [Peer; 3] = [Peer::L3fwd(SHORT), Peer::Testpmd("io", SHORT), Peer::Testpmd("macswap", SHORT)];
/// Mean interval between lone frames.
const LONE: Span = Span::from_micros(20);
const LOAD: f64 = 0.9;
/// Sending time of a trial: so short that others leave some trials alone.
const TRIAL: Span = Span::from_millis(100);
/// Measurements of a forwarder in a round.
const TURNS: usize = 10;
/// A turn counts if others had the forwarder's CPU for no greater share of its time: latencies of others are those of the machine.
const KEPT_AT_MOST: f64 = 0.02;
/// Time limit for a forwarder's start.
const START: Duration = Duration::from_secs(20);
/// Interval between a switch's checks of its links.
const LINKS_EVERY: Duration = Duration::from_millis(100);

/// Results of a forwarder in one turn.
struct ForwarderTrial {
    own: OverloadRate,
    lone: TrialLatency,
    loaded: TrialLatency,
    /// The share of the time of both trials for which others had the forwarder's CPU.
    kept_from_cpu: f64,
}

/// Measures all in turn in each round, and prints a table.
pub(crate) fn measure(lcore: u32, directory: &Path, hugepages: bool, rounds: usize) {
    let Some(cpu) = cpu::allowed().into_iter().find(|cpu| *cpu != lcore) else {
        return println!("the generator needs a CPU of its own");
    };
    let socket = directory.join("memif.sock");
    let options = RuntimeOptions { memory_mb: MemifTester::memory(&socket).megabytes(), ..RuntimeOptions::default() };
    let runtime = Runtime::start("forwarding", &[cpu], &[], &options).expect("DPDK");
    let ground = PeerConfig { ports: &ground::sharing_memory(&socket), lcore, hugepages };
    let peers: Vec<Peer> = PEERS.into_iter().filter(|peer| takes_part(*peer)).collect();
    let mut weir = ForwarderTrials::new("weir (dt)".to_owned());
    let mut rows: Vec<ForwarderTrials> = peers.iter().map(|peer| ForwarderTrials::new(peer.name())).collect();
    for _ in 0..rounds {
        weir.add(turns(&runtime, cpu, &socket, || start_switch(&socket)).expect("a generator"));
        for (peer, row) in peers.iter().zip(&mut rows) {
            row.add(turns(&runtime, cpu, &socket, || peer.start(&ground)).expect("a generator"));
        }
    }
    assert!(weir.rounds_without == 0, "a switch that forwards");
    println!(
        "64 B, memif ports, the generator on CPU {cpu}, the forwarder on CPU {lcore}; {rounds} rounds of {TURNS} turns,"
    );
    println!(
        "those of which count in which others had the forwarder's CPU for at most {} % of the time; medians, and the range\n",
        KEPT_AT_MOST * 100.0
    );
    print!("{weir}");
    rows.iter().for_each(|row| print!("{row}"));
    println!("\nWeir's medians by a peer's");
    rows.iter().for_each(|row| print!("{}", weir.by(row)));
    for (peer, row) in peers.iter().zip(&rows).filter(|(_, row)| row.rounds_without > 0) {
        println!("{} did not forward in {} of {rounds} rounds: {}", peer.name(), row.rounds_without, peer.wants());
    }
}

/// Whether a word of the peer's name is an argument, or none of any peer's is.
fn takes_part(peer: Peer) -> bool {
    let is_named = |peer: &Peer| peer.name().split(' ').any(|word| std::env::args().any(|argument| argument == word));
    is_named(&peer) || !PEERS.iter().any(is_named)
}

/// Is a switch between the two interfaces, until it is ended.
pub(crate) fn be_a_switch(lcore: u32, socket: &Path) -> ! {
    let switches = [switch(lcore, socket)];
    let placement = Placement::new(&switches, &cpu::allowed(), 0).expect("a CPU");
    let memory_mb = Memory::for_switches(&switches, 1, 0).megabytes();
    let options = RuntimeOptions { memory_mb, ..RuntimeOptions::default() };
    let runtime = Runtime::start("forwarding", &[lcore], &[], &options).expect("DPDK");
    let prepared = PreparedSwitches::prepare(&runtime, &switches, &placement, 0).expect("ports");
    let running = prepared.start().expect("lcores");
    loop {
        running.update_links();
        std::thread::sleep(LINKS_EVERY);
    }
}

fn switch(lcore: u32, socket: &Path) -> SwitchConfig {
    let mut text = format!(
        "[switch]\nname = \"bench\"\nidle = \"poll\"\n[buffer]\nsize = \"4MB\"\nmean_frame = \"exact\"\npolicy = \"dt\"\n\
         [lcores]\nlayout = \"single\"\ncores = [{lcore}]\n[classes]\npreset = \"roce\"\n[pfc]\nreaction = \"1us\"\n"
    );
    for id in INTERFACES {
        let socket = socket.display();
        text += &format!(
            "[[ports]]\nname = \"p{id}\"\nmemif = {{ socket = \"{socket}\", id = {id}, role = \"client\" }}\nrate = \"400Gbps\"\n"
        );
    }
    weir_config::parse("bench forwarding", &text).expect("a valid configuration")
}

/// This program, as a switch.
fn start_switch(socket: &Path) -> Option<Forwarder> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.arg(SWITCH).arg(socket).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Daemon::start(&mut command).map(Forwarder::Plain)
}

/// A round's turns; none if no forwarder starts, if it forwards nothing, or if it ends.
fn turns(
    runtime: &Runtime,
    cpu: u32,
    socket: &Path,
    start: impl FnOnce() -> Option<Forwarder>,
) -> Result<Vec<ForwarderTrial>, BenchError> {
    let mut tester = MemifTester::start(runtime, cpu, socket)?;
    let mut forwarder = start();
    let mut turns = Vec::new();
    if let Some(forwarder) = forwarder.as_mut().map(Forwarder::process)
        && tester.wait_until_forwarded(START)?
    {
        for _ in 0..TURNS {
            turns.push(turn(&mut tester, forwarder.pid())?);
        }
        if forwarder.has_ended() {
            turns.clear();
        }
    }
    // Before the forwarder ends.
    tester.stop()?;
    Ok(turns)
}

fn turn(tester: &mut MemifTester, forwarder: u32) -> Result<ForwarderTrial, BenchError> {
    let kept = || processes::kept_from_cpu(forwarder).unwrap_or_default();
    let (before, started) = (kept(), Instant::now());
    let own = tester.overload_rate(TRIAL)?;
    let lone = tester.lone_frames(LONE, TRIAL)?;
    let loaded = tester.at_rate(own.fps * LOAD, TRIAL)?;
    let kept_from_cpu = kept().saturating_sub(before).as_secs_f64() / started.elapsed().as_secs_f64();
    Ok(ForwarderTrial { own, lone, loaded, kept_from_cpu })
}

/// A forwarder and its turns.
struct ForwarderTrials {
    name: String,
    turns: Vec<ForwarderTrial>,
    /// Rounds in which it did not forward.
    rounds_without: usize,
}

/// Statistic of a latency.
struct Quantile {
    name: &'static str,
    ns: fn(&Latency) -> u64,
}

const QUANTILES: [Quantile; 3] = [
    Quantile { name: "p50", ns: |latency| latency.p50_ns },
    Quantile { name: "p99", ns: |latency| latency.p99_ns },
    Quantile { name: "p99.9", ns: |latency| latency.p999_ns },
];

/// Kind of frames of a turn.
struct Frames {
    name: &'static str,
    timed: fn(&ForwarderTrial) -> &TrialLatency,
}

const FRAMES: [Frames; 2] = [
    Frames { name: "lone frames", timed: |turn| &turn.lone },
    Frames { name: "90 % of its rate", timed: |turn| &turn.loaded },
];

impl ForwarderTrials {
    fn new(name: String) -> ForwarderTrials {
        ForwarderTrials { name, turns: Vec::new(), rounds_without: 0 }
    }

    /// Adds a round.
    fn add(&mut self, turns: Vec<ForwarderTrial>) {
        self.rounds_without += usize::from(turns.is_empty());
        self.turns.extend(turns);
    }

    /// Turns that count.
    fn counted(&self) -> impl Iterator<Item = &ForwarderTrial> {
        self.turns.iter().filter(|turn| turn.kept_from_cpu <= KEPT_AT_MOST)
    }

    fn spread(&self, of: impl Fn(&ForwarderTrial) -> f64) -> Spread {
        Spread::from_values(self.counted().map(of))
    }

    fn microseconds(&self, frames: &Frames, quantile: &Quantile) -> Spread {
        self.spread(|turn| (quantile.ns)(&(frames.timed)(turn).latency) as f64 / 1e3)
    }

    /// Ratios of its latencies to a peer's.
    fn by(&self, peer: &ForwarderTrials) -> String {
        if self.counted().next().is_none() || peer.counted().next().is_none() {
            return String::new();
        }
        let mut told = format!("{}\n", peer.name);
        for frames in &FRAMES {
            told += &format!("  {:17}", frames.name);
            for quantile in &QUANTILES {
                let median = |row: &ForwarderTrials| row.microseconds(frames, quantile).median;
                told += &format!("  {} {:.2}", quantile.name, median(self) / median(peer));
            }
            told += "\n";
        }
        told
    }
}

impl fmt::Display for ForwarderTrials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} of {} turns count", self.name, self.counted().count(), self.turns.len())?;
        if self.counted().next().is_none() {
            return Ok(());
        }
        let percent =
            |of: &dyn Fn(&ForwarderTrial) -> f64| format!("{} %", range(self.spread(|turn| of(turn) * 100.0)));
        let rate = range(self.spread(|turn| turn.own.fps / 1e6));
        let (held, lost) = (percent(&|turn| turn.own.held), percent(&|turn| turn.own.lost));
        writeln!(f, "  its own rate       {rate} M frames a second, while {held} of all were held, and {lost} lost")?;
        for frames in &FRAMES {
            write!(f, "  {:17}", frames.name)?;
            for quantile in &QUANTILES {
                write!(f, "  {} {} us", quantile.name, range(self.microseconds(frames, quantile)))?;
            }
            let missing = |turn: &ForwarderTrial| {
                let timed = (frames.timed)(turn);
                timed.missing as f64 / timed.due.max(1) as f64
            };
            writeln!(f, "; {} missing", percent(&missing))?;
        }
        Ok(())
    }
}

fn range(Spread { min, median, max }: Spread) -> String {
    format!("{median:.1} ({min:.1} to {max:.1})")
}
