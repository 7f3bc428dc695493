//! Runs random inputs of a fuzz target, or stored ones.

use std::path::PathBuf;

use clap::Parser;
use weir_fuzz::{FuzzTarget, TARGETS};

/// Runs random inputs of a fuzz target, or stored ones; a panic is a fault in Weir.
#[derive(Debug, Parser)]
struct FuzzArguments {
    /// Name of the target.
    #[arg(value_parser = target)]
    target: FuzzTarget,
    /// Seed of the first random input; the others have the numbers that follow.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Number of random inputs.
    #[arg(long, default_value_t = u64::MAX)]
    cases: u64,
    /// Number of data frames after which no further input is run.
    #[arg(long, default_value_t = u64::MAX)]
    frames: u64,
    /// Stored inputs to run instead.
    inputs: Vec<PathBuf>,
}

fn target(name: &str) -> Result<FuzzTarget, String> {
    let names = || TARGETS.map(|target| target.name).join(", ");
    FuzzTarget::find(name).ok_or_else(|| format!("there is no such target; there are {}", names()))
}

/// Runs libFuzzer on the target, with the arguments in BOLERO_LIBFUZZER_ARGS.
#[cfg(fuzzing)]
fn main() {
    let FuzzArguments { target, .. } = FuzzArguments::parse();
    bolero::check!().for_each(move |bytes: &[u8]| {
        (target.run)(bytes);
    });
}

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    use std::time::{Duration, Instant};

    use weir_fuzz::FuzzSummary;

    const REPORT_EVERY: Duration = Duration::from_secs(10);

    let FuzzArguments { target, seed, cases, frames, inputs } = FuzzArguments::parse();
    let mut summary = FuzzSummary::default();
    for input in &inputs {
        println!("{}: {:?}", input.display(), (target.run)(&std::fs::read(input)?));
    }
    if !inputs.is_empty() {
        return Ok(());
    }
    let start = Instant::now();
    let mut reported = start;
    for seed in seed..seed.saturating_add(cases) {
        if summary.sum.frames >= frames {
            break;
        }
        summary += target.run_seed(seed);
        if reported.elapsed() > REPORT_EVERY {
            reported = Instant::now();
            println!("{:.0} s: {summary:?}", start.elapsed().as_secs_f64());
        }
    }
    println!("{}, seeds from {seed}, {:.1} s: {summary:?}", target.name, start.elapsed().as_secs_f64());
    Ok(())
}
