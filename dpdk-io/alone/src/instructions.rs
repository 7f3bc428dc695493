//! Benchmarks that count instructions, since no limit holds for wall time on a shared machine.

use std::env;
use std::fs;
use std::hint::black_box;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Work whose instructions are counted, and their limit.
#[derive(Clone, Copy, Debug)]
pub struct InstructionBenchmark<'a> {
    /// Name of the benchmark in the output.
    pub name: &'a str,
    /// Callgrind pattern of the functions whose instructions count, with their callees.
    pub functions: &'a str,
    /// Unit of the figure in the output, as a packet.
    pub each: &'a str,
    /// Limit of instructions a unit.
    pub most: f64,
    /// Parts with limits of their own. A function belongs to the first part that names it.
    pub parts: &'a [BenchmarkPart<'a>],
}

/// Part of the counted instructions.
#[derive(Clone, Copy, Debug)]
pub struct BenchmarkPart<'a> {
    /// Name in the output.
    pub name: &'a str,
    /// Words in the names of its functions. Code that is inlined into a function counts as its own.
    pub functions: &'a [&'a str],
    /// Limit of instructions a unit.
    pub most: f64,
}

/// Environment variable of a process under callgrind: positions of its benchmarks, separated by commas.
const COUNTED: &str = "WEIR_COUNTED";
/// Text before the number of units in the output of such a process.
const UNITS: &str = "counted units: ";

/// Runs each benchmark under callgrind, and prints the instructions per unit. `run` runs the benchmark at a position, and returns the
/// number of units. Ends this process with 1 if any benchmark exceeds its limit.
///
/// The benchmarks are dealt out to the process's CPUs, each of which runs this program once more, with the same arguments.
///
/// # Panics
/// If valgrind can't be run, a benchmark panics, or no function has the name that is counted.
pub fn check_limits(all: &[InstructionBenchmark<'_>], mut run: impl FnMut(usize) -> u64) {
    if let Ok(positions) = env::var(COUNTED) {
        for position in positions.split(',') {
            println!("{UNITS}{}", run(position.parse().expect("a position")));
            end_of_benchmark();
        }
        return;
    }
    let cpus = sched_getaffinity(None).expect("Linux tells the CPUs of a process");
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| cpus.is_set(*cpu)).take(all.len()).collect();
    let work = |n: usize| {
        let mut own = CpuSet::new();
        own.set(cpus[n]);
        sched_setaffinity(None, &own).expect("one of the CPUs that it has");
        count(all, (n..all.len()).step_by(cpus.len()).collect())
    };
    let mut taken: Vec<(usize, InstructionCounts)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..cpus.len()).map(|n| scope.spawn(move || work(n))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    taken.sort_by_key(|(n, _)| *n);
    let mut is_held = true;
    for (counted, (_, taken)) in all.iter().zip(&taken) {
        let InstructionBenchmark { name, each, most, parts, .. } = counted;
        println!("{name}: {:.0} instructions a {each}, {most} at most", taken.instructions);
        for (part, instructions) in parts.iter().zip(&taken.parts) {
            println!("  {}: {instructions:.0}, {} at most", part.name, part.most);
            if *instructions > part.most {
                eprintln!("{name}, {}: {instructions:.1} instructions a {each}, above the limit", part.name);
                is_held = false;
            }
        }
        if taken.instructions > *most {
            eprintln!("{name}: {:.1} instructions a {each}, above the limit of {most}", taken.instructions);
            is_held = false;
        }
    }
    if !is_held {
        std::process::exit(1);
    }
}

/// Instructions counted, in all and per part.
struct InstructionCounts {
    instructions: f64,
    parts: Vec<f64>,
}

/// Tunable of glibc, without which a large `memset` is one instruction, of which valgrind emulates and counts each byte. DPDK clears packet
/// memory so.
const NO_REP_STOSB: &str = "glibc.cpu.x86_rep_stosb_threshold=1000000000";

/// Function at whose calls callgrind writes a profile, and begins the next one.
#[inline(never)]
fn end_of_benchmark() {
    black_box(());
}

/// Runs the benchmarks at these positions in one process under callgrind.
fn count(all: &[InstructionBenchmark<'_>], positions: Vec<usize>) -> Vec<(usize, InstructionCounts)> {
    let own = env::current_exe().expect("this program");
    let listed = positions.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let out = env::temp_dir().join(format!("weir-callgrind-{}-{}", std::process::id(), positions[0]));
    let mut functions: Vec<&str> = positions.iter().map(|position| all[*position].functions).collect();
    functions.sort_unstable();
    functions.dedup();
    let output = Command::new("valgrind")
        // Fair scheduling: a polling thread would keep the thread that ends it from running, for minutes on a machine with other work.
        .args(["--tool=callgrind", "--fair-sched=try", "--dump-before=*end_of_benchmark*"])
        .args(functions.iter().map(|functions| format!("--toggle-collect={functions}")))
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(own)
        .args(env::args_os().skip(1))
        .env(COUNTED, listed)
        .env(
            "GLIBC_TUNABLES",
            env::var("GLIBC_TUNABLES").map_or(NO_REP_STOSB.to_owned(), |own| format!("{own}:{NO_REP_STOSB}")),
        )
        .output()
        .unwrap_or_else(|error| panic!("valgrind can't be run: {error}; install it, for Debian: apt install valgrind"));
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "{}: {stdout}{stderr}", output.status);
    let units = stdout.lines().filter_map(|line| line.strip_prefix(UNITS)?.parse::<f64>().ok()).collect::<Vec<_>>();
    assert_eq!(units.len(), positions.len(), "{stdout}{stderr}");
    let counted = positions.iter().zip(&units).enumerate().map(|(n, (position, number))| {
        let profile = PathBuf::from(format!("{}.{}", out.display(), n + 1));
        let InstructionBenchmark { name, functions, parts, .. } = all[*position];
        let instructions = total(&profile) / number;
        assert!(instructions > 0.0, "{name}: nothing was counted in {functions}");
        let parts = sums(&profile, parts).into_iter().map(|sum| sum / number).collect();
        let _ = fs::remove_file(&profile);
        (*position, InstructionCounts { instructions, parts })
    });
    let counted = counted.collect();
    let _ = fs::remove_file(&out);
    counted
}

/// The instructions of a profile.
fn total(profile: &Path) -> f64 {
    let text = fs::read_to_string(profile).unwrap_or_else(|error| panic!("{}: {error}", profile.display()));
    let total = text.lines().find_map(|line| line.strip_prefix("summary: ")?.trim().parse().ok());
    total.unwrap_or_else(|| panic!("{} has no sum", profile.display()))
}

/// The instructions of each part.
fn sums(callgrind: &Path, parts: &[BenchmarkPart<'_>]) -> Vec<f64> {
    let mut sums = vec![0.0; parts.len()];
    if parts.is_empty() {
        return sums;
    }
    let annotate = Command::new("callgrind_annotate").args(["--threshold=100", "--auto=no"]).arg(callgrind).output();
    let output = annotate.unwrap_or_else(|error| panic!("callgrind_annotate can't be run: {error}"));
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        // `1,234 ( 0.10%)  file:function [object]`
        let Some((count, function)) = line.trim().split_once(" (") else { continue };
        let Ok(count) = count.replace(',', "").parse::<f64>() else { continue };
        // Without the object, whose path may have any words in it.
        let function = function.rsplit_once(" [").map_or(function, |(function, _)| function);
        let function = function.split_once(".rs:").map_or("", |(_, function)| function);
        let names = |part: &BenchmarkPart<'_>| part.functions.iter().any(|word| function.contains(word));
        if let Some(part) = parts.iter().position(names) {
            sums[part] += count;
        }
    }
    assert!(sums.iter().all(|sum| *sum > 0.0), "callgrind_annotate reports no function of some part: {sums:?}");
    sums
}
