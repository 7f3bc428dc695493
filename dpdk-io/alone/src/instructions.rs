//! Benchmarks that count instructions, since no limit holds for wall time on a shared machine.

use std::iter;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Program whose instructions are counted, and their limit.
#[derive(Clone, Copy, Debug)]
pub struct InstructionBenchmark<'a> {
    /// Name of the benchmark in the output.
    pub name: &'a str,
    /// Argument with which the calling program runs the benchmark.
    pub argument: &'a str,
    /// Additional environment variables.
    pub environment: &'a [(&'a str, &'a str)],
    /// Callgrind pattern of the functions whose instructions count, with their callees.
    pub functions: &'a str,
    /// Unit of the figure in the output, as a packet.
    pub each: &'a str,
    /// Text before the number of units in the program's output.
    pub number_after: &'a str,
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

/// Runs the calling program under callgrind once for each benchmark, in parallel on the process's CPUs, one CPU each, and prints the
/// instructions per unit. Ends this process with 1 if any exceeds its limit.
///
/// # Panics
/// If valgrind can't be run, the program does not print the expected number, or no function has the name that is counted.
pub fn check_limits(all: &[InstructionBenchmark<'_>]) {
    let cpus = sched_getaffinity(None).expect("Linux tells the CPUs of a process");
    let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| cpus.is_set(*cpu)).take(all.len());
    let next = AtomicUsize::new(0);
    let work = |cpu| {
        let mut own = CpuSet::new();
        own.set(cpu);
        sched_setaffinity(None, &own).expect("one of the CPUs that it has");
        let mine = iter::from_fn(|| {
            let n = next.fetch_add(1, Ordering::Relaxed);
            all.get(n).map(|counted| (n, counted.run()))
        });
        mine.collect::<Vec<_>>()
    };
    let mut taken: Vec<(usize, InstructionCounts)> = thread::scope(|scope| {
        let workers: Vec<_> = cpus.map(|cpu| scope.spawn(move || work(cpu))).collect();
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

impl InstructionBenchmark<'_> {
    fn run(&self) -> InstructionCounts {
        let own = std::env::current_exe().expect("this program");
        let out = std::env::temp_dir().join(format!("weir-callgrind-{}{}", std::process::id(), self.argument));
        let output = Command::new("valgrind")
            // Fair scheduling: a polling thread would keep the thread that ends it from running, for minutes on a machine with other work.
            .args(["--tool=callgrind", "--fair-sched=try", &format!("--toggle-collect={}", self.functions)])
            .arg(format!("--callgrind-out-file={}", out.display()))
            .args([own.as_os_str(), self.argument.as_ref()])
            .envs(self.environment.iter().copied())
            .output()
            .unwrap_or_else(|error| {
                panic!("valgrind can't be run: {error}; install it, for Debian: apt install valgrind")
            });
        let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        let number_after = |text: &str, word: &str| {
            let rest = text.split(word).nth(1).unwrap_or_else(|| panic!("no `{word}` in the output: {stdout}{stderr}"));
            let digits: String =
                rest.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
            digits.parse::<f64>().expect("a number")
        };
        let number = number_after(&stdout, self.number_after);
        let instructions = number_after(&stderr, "Collected") / number;
        assert!(instructions > 0.0, "{}: nothing was counted in {}", self.name, self.functions);
        let parts = sums(&out, self.parts).into_iter().map(|sum| sum / number).collect();
        let _ = std::fs::remove_file(&out);
        InstructionCounts { instructions, parts }
    }
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
