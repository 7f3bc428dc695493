//! Cost of packet memory that has left the cache: standing queues beside hot ones, and `dpdk-testpmd`, which keeps no queue, with a pool of
//! as many packet buffers as stand there beside a small pool.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_bench::Spread;
use weir_bench::forwarding::{CASES, Case, Setup, forward_from_standing_queues};
use weir_config::SwitchConfig;
use weir_dpdk_driver::{Memory, Runtime, RuntimeOptions};
use weir_units::Bytes;

use crate::ground::{PeerConfig, ReplayLibrary};
use crate::peers::LONG;
use crate::testpmd;

/// Bytes in the standing queues, in frames of 64 B.
const STANDING: Bytes = Bytes::new(8_000_000);
/// Few packet buffers, and as many as frames stand.
const FEW: u32 = 4_000;
const MANY: u32 = 125_000;
const MODES: [&str; 2] = ["io", "macswap"];
const SPAN: Duration = Duration::from_secs(1);

/// Frames of one class from each of nine ports to the eight others.
const INCAST: Case = Case { destinations: 8, ..CASES[2] };

/// A program's rounds, as packets per CPU-second with hot and with cold memory.
struct ProgramRounds {
    name: String,
    rounds: Vec<[f64; 2]>,
}

/// Measures all in turn in each round, and prints a line of each.
pub(crate) fn measure(lcore: u32, directory: &Path, hugepages: bool, rounds: usize) {
    let lcores = &[lcore];
    let prepared = |case: Case| {
        let setup = Setup::of_one_lcore(lcores, case);
        let captures = setup.write_captures(directory, case.name).expect("capture files");
        let switch = setup.switch(&captures).expect("a valid configuration");
        (captures, switch)
    };
    let (_, switch) = prepared(INCAST);
    let (captures, _) = prepared(CASES[0]);
    let captures: [PathBuf; 2] = captures.try_into().expect("two ports");
    let ground = PeerConfig { ports: &ReplayLibrary::build(directory).ports(&captures), lcore, hugepages };
    let memory_mb = Memory::for_switches(std::slice::from_ref(&switch), 1, 0).megabytes();
    let options = RuntimeOptions { memory_mb, ..RuntimeOptions::default() };
    let runtime = Runtime::start("forwarding", lcores, &[], &options).expect("DPDK");
    let mut rows = vec![ProgramRounds::new("Weir, nine ports, 8 MB standing, by hot queues".to_owned())];
    rows.extend(
        MODES.iter().map(|mode| ProgramRounds::new(format!("testpmd {mode}, {MANY} packet buffers in turn, by {FEW}"))),
    );
    for _ in 0..rounds {
        let (weir, peers) = rows.split_first_mut().expect("Weir");
        weir.rounds.push([Bytes::ZERO, STANDING].map(|standing| weir_rate(&runtime, &switch, standing)));
        for (row, mode) in peers.iter_mut().zip(MODES) {
            let rate = |buffers| testpmd::rate_with(mode, LONG, &ground, SPAN, Some(buffers));
            row.rounds.extend(rate(FEW).zip(rate(MANY)).map(|(hot, cold)| [hot, cold]));
        }
    }
    println!(
        "ns of CPU time a packet, hot and cold, and the rate that is left, {rounds} rounds in turn; medians and ranges\n"
    );
    for row in rows {
        println!("{row}");
    }
}

fn weir_rate(runtime: &Runtime, switch: &SwitchConfig, standing: Bytes) -> f64 {
    forward_from_standing_queues(runtime, switch, standing, SPAN).expect("a switch that conserves frames").rate()
}

impl ProgramRounds {
    fn new(name: String) -> ProgramRounds {
        ProgramRounds { name, rounds: Vec::new() }
    }
}

impl fmt::Display for ProgramRounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rounds.is_empty() {
            return write!(f, "{}: did not run", self.name);
        }
        let ns = |n: usize| Spread::from_values(self.rounds.iter().map(|rates| 1e9 / rates[n]));
        let left = Spread::from_values(self.rounds.iter().map(|[hot, cold]| cold / hot));
        let told = |Spread { min, median, max }: Spread| format!("{median:.1} ({min:.1} to {max:.1})");
        let Spread { min, median, max } = left;
        write!(f, "{}: {} ns, {} ns, {median:.2} ({min:.2} to {max:.2})", self.name, told(ns(0)), told(ns(1)))
    }
}
