//! Isolation of tests that need a process, or the machine, to themselves. Only tests and benchmarks depend on this crate.
//!
//! DPDK's EAL starts once a process, and a harness runs all tests of a program in one. A test that calls [`in_a_process`] is run by
//! its own program once more, as the only test of a child process:
//!
//! ```
//! // A #[test].
//! fn ports() {
//!     weir_alone::in_a_process(|| {
//!         // Starts EAL.
//!     });
//! }
//! ```
//!
//! Some tests compare rates by the clock. They can't tell a defect from another process that takes the CPUs. Such a test is marked by
//! [`on_an_idle_machine`]: no other marked test, and none of [`in_a_process`], runs meanwhile; it is repeated before it fails; and each
//! attempt that fails reports the machine's CPU use.
//!
//! A benchmark that no machine's load may sway counts instructions: [`check_limits`].

#![forbid(unsafe_code)]

mod cpu_usage;
mod instructions;
mod lock;

use std::any::type_name;
use std::env;
use std::io::{Write as _, stderr};
use std::process::{Command, Output};

use rustix::process::{Signal, set_parent_process_death_signal};

use cpu_usage::CpuTimes;
pub use instructions::{BenchmarkPart, InstructionBenchmark, check_limits};
use lock::Lock;

/// Attempts of a marked test before it fails.
pub const ATTEMPTS: u32 = 3;
/// Environment variable that names the child's test.
const CHILD: &str = "WEIR_TEST_ALONE";

/// Runs the body of the calling test in a process of its own. The child's output becomes the calling test's output.
///
/// Call it from a `#[test]` function, with a closure written there: the closure's type name contains the test's. The child returns from
/// this call too, and goes on with the function.
///
/// # Panics
/// If the body does, or its process ends by a signal.
pub fn in_a_process<F: FnOnce()>(body: F) {
    let test = test_of::<F>();
    if is_child(test) {
        return body();
    }
    let _lock = Lock::shared();
    let output = run_again(test);
    print_output(&output);
    assert!(output.status.success(), "{test}, in a process of its own: {}", output.status);
}

/// Runs the body of the calling test in a process of its own, with no other test of this crate at the same time. A body that fails is run
/// again, [`ATTEMPTS`] times in all. Each failure is printed to standard error, also where the test passes in the end, with the CPU time of
/// other processes.
///
/// Call it like [`in_a_process`].
///
/// # Panics
/// If the body does at each attempt.
pub fn on_an_idle_machine<F: FnOnce()>(body: F) {
    let test = test_of::<F>();
    if is_child(test) {
        return body();
    }
    let _lock = Lock::exclusive();
    for attempt in 1..=ATTEMPTS {
        let before = CpuTimes::read();
        let output = run_again(test);
        let usage = CpuTimes::read().since(&before);
        if output.status.success() {
            print_output(&output);
            println!("{test}: {usage}");
            return;
        }
        let message = format!("{test}: attempt {attempt} of {ATTEMPTS} failed ({}); {usage}", output.status);
        // Bypasses the harness, which captures the output of tests that pass.
        let _ = writeln!(stderr(), "{message}");
        print_output(&output);
        println!("{message}");
    }
    panic!("{test} failed {ATTEMPTS} times");
}

/// Path of the test in its program, as the harness has it, from the closure's type name.
fn test_of<F>() -> &'static str {
    let name = type_name::<F>();
    let in_crate = name.split_once("::").map_or(name, |(_, path)| path);
    in_crate.split_once("::{{closure}}").map_or(in_crate, |(path, _)| path)
}

/// Whether this process is there for this test alone. If so it ends when its parent does.
fn is_child(test: &str) -> bool {
    let is_child = env::var(CHILD).is_ok_and(|name| name == test);
    if is_child {
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
    }
    is_child
}

fn run_again(test: &str) -> Output {
    let program = env::current_exe().expect("a test program knows its path");
    let mut command = Command::new(program);
    command.args([test, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"]).env(CHILD, test);
    let output = command.output().expect("a test program can be run again");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("running 1 test"), "{test} is not the path of a test: {stdout}");
    output
}

/// Prints a child's output through the macro that the harness captures.
fn print_output(output: &Output) {
    for stream in [&output.stdout, &output.stderr] {
        print!("{}", String::from_utf8_lossy(stream));
    }
}
