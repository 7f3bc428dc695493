//! Fuzz targets: functions that take any bytes, and panic if an invariant of Weir does not hold.
//!
//! Two engines run them. `cargo test -p weir-fuzz -- --ignored` runs a fixed number of random inputs by seed, on any toolchain. `make fuzz` has libFuzzer
//! look for inputs that reach new code, also on any toolchain: `scripts/fuzz` passes the compiler's flags. The program `weir-fuzz` runs
//! random inputs for long, and a stored input again.

#![forbid(unsafe_code)]

pub mod input;
mod mutation;
pub mod readers;
pub mod switch;

use std::ops::AddAssign;

use input::RandomBytes;

/// Fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct FuzzTarget {
    /// Name on the command line.
    pub name: &'static str,
    /// Runs an input; panics if an invariant does not hold.
    pub run: fn(&[u8]) -> CaseOutcome,
    /// Length of the longest random input.
    pub longest: usize,
    /// Number of random inputs in tests.
    pub test_cases: u64,
}

/// All targets.
pub const TARGETS: [FuzzTarget; 9] = [
    FuzzTarget { name: "switch", run: switch::run, longest: 32_768, test_cases: 400 },
    FuzzTarget::reader("configuration", readers::configuration, 4_000),
    FuzzTarget::reader("scenario", readers::scenario, 2_000),
    FuzzTarget::reader("ns3", readers::ns3, 1_500),
    FuzzTarget::reader("goal", readers::goal, 3_000),
    FuzzTarget::reader("sonic", readers::sonic, 1_000),
    FuzzTarget::reader("capture", readers::captures, 4_000),
    FuzzTarget::reader("socket", readers::socket, 20_000),
    FuzzTarget::reader("http", readers::http, 20_000),
];

/// Counts of cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaseOutcome {
    /// Whether the input was refused: a file with errors, for example.
    pub is_refused: bool,
    /// Data frames that switches received.
    pub frames: u64,
    /// Flow-control messages that they received or sent.
    pub messages: u64,
    /// Pauses that they sent.
    pub pauses: u64,
    /// Data frames that they dropped.
    pub dropped: u64,
    /// Lossless frames from peers that obey.
    pub lossless_frames: u64,
}

/// Sums of outcomes.
#[derive(Clone, Copy, Debug, Default)]
pub struct FuzzSummary {
    /// Number of inputs.
    pub cases: u64,
    /// Number of refused inputs.
    pub refused: u64,
    /// Sums of the counts of all cases.
    pub sum: CaseOutcome,
}

impl AddAssign<CaseOutcome> for FuzzSummary {
    fn add_assign(&mut self, outcome: CaseOutcome) {
        self.cases += 1;
        self.refused += u64::from(outcome.is_refused);
        self.sum.frames += outcome.frames;
        self.sum.messages += outcome.messages;
        self.sum.pauses += outcome.pauses;
        self.sum.dropped += outcome.dropped;
        self.sum.lossless_frames += outcome.lossless_frames;
    }
}

impl FuzzTarget {
    const fn reader(name: &'static str, run: fn(&[u8]) -> CaseOutcome, test_cases: u64) -> FuzzTarget {
        FuzzTarget { name, run, longest: 512, test_cases }
    }

    /// Returns the target of a name.
    pub fn find(name: &str) -> Option<FuzzTarget> {
        TARGETS.into_iter().find(|target| target.name == name)
    }

    /// Runs the random input of a seed. If it panics, standard error has the command that repeats it.
    pub fn run_seed(&self, seed: u64) -> CaseOutcome {
        struct RepeatHint(&'static str, u64);
        impl Drop for RepeatHint {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    eprintln!("repeat with: cargo run -p weir-fuzz -- {} --seed {} --cases 1", self.0, self.1);
                }
            }
        }
        let _repeat = RepeatHint(self.name, seed);
        let mut bytes = Vec::new();
        RandomBytes::new(seed).fill(&mut bytes, self.longest);
        (self.run)(&bytes)
    }
}
