//! Point of a sweep in its own process: a panic or lack of memory ends only that point.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_config::ConfigErrors;
use weir_results::record::Progress;
use weir_results::run_dir::{RunDir, read_summary};
use weir_scenario::file::{self as scenario_file, ScenarioRun};
use weir_sim::{SimBackend, Threads, huge_page_environment};

use super::directory::{FinishedPoint, PointOutcome, SweepDir};
use super::plan::SweepPlan;
use super::point_file::Point;
use super::runner::PointRunner;
use crate::Failure;
use crate::experiment::{self, Backend};
use crate::real_frames;
use crate::run::{fitting, hosts, refuse_virtual_time};

/// Arguments of the process.
#[derive(clap::Args)]
pub(super) struct PointArguments {
    /// Scenario file; files that it names are relative to its folder.
    #[arg(long)]
    scenario: PathBuf,
    /// The point's scenario.
    #[arg(long)]
    text: PathBuf,
    /// Index of the scenario's run, from 0.
    #[arg(long)]
    run: usize,
    /// The run's directory.
    #[arg(long)]
    output: PathBuf,
    /// Backend of the run.
    #[arg(long, default_value = "sim")]
    backend: Backend,
    /// Maximum number of threads in virtual time.
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

/// Runs the point. The end of standard input stops it: the parent has then exited, or stops the sweep.
pub(super) fn run(arguments: &PointArguments) -> Result<(), Failure> {
    // The parent process handles signals that reach all processes of a job.
    experiment::ignore_signals()?;
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, is_patient) = (stop.clone(), arguments.backend == Backend::Hosts);
    std::thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        stopped.store(true, Ordering::Relaxed);
        // Real hosts get time to end and to be removed.
        if is_patient {
            std::thread::sleep(HOSTS_END_WITHIN);
        }
        std::process::exit(1);
    });
    if arguments.backend.is_real() {
        real_frames::reach()?;
    }
    let text = fs::read_to_string(&arguments.text)?;
    let mut runs = scenario_file::parse(&arguments.scenario, &text)
        .map_err(|errors: ConfigErrors| Failure::Run(errors.to_string()))?;
    if arguments.run >= runs.len() {
        return Err(Failure::Run(format!("the scenario has no run {}", arguments.run)));
    }
    let run = runs.swap_remove(arguments.run);
    let directory = experiment::directory(&arguments.output).map_err(|error| Failure::Run(error.to_string()))?;
    match arguments.backend {
        Backend::Sim => in_virtual_time(&run, directory, Threads::up_to(arguments.threads)),
        Backend::Dpdk => on_dpdk(run, directory),
        Backend::Hosts => with_real_hosts(&arguments.scenario, run, directory, &stop),
    }
}

const HOSTS_END_WITHIN: Duration = Duration::from_secs(15);

fn in_virtual_time(run: &ScenarioRun, directory: RunDir, threads: Threads) -> Result<(), Failure> {
    let backend = SimBackend { expects: run.expects, threads, ..SimBackend::default() };
    let end = run.scenario.end.as_nanos().max(1);
    // For the parent, whose end is this process's.
    let mut observe = |progress: &Progress| {
        let _ = writeln!(io::stdout(), "{}", 1_000 * progress.now.as_nanos().min(end) / end);
    };
    let ran = backend.run(&run.scenario, directory, &mut observe, &AtomicBool::new(false));
    ran.map(drop).map_err(|error| Failure::Run(error.to_string()))
}

/// Runs on DPDK, at the scenario's time dilation or the smallest that this machine sustains.
fn on_dpdk(run: ScenarioRun, directory: RunDir) -> Result<(), Failure> {
    let run = [run];
    let dilation = run[0].time_dilation.map_or_else(|| fitting(&run), Ok)?;
    let scenario = run[0].dilated(dilation).map_err(|errors: ConfigErrors| Failure::Run(errors.to_string()))?;
    let scenarios = std::slice::from_ref(&scenario);
    let real_frames = real_frames::reach()?;
    real_frames.check_machine(scenarios)?;
    real_frames.start(scenarios)?.run(&scenario, directory, &mut |_| {}, &AtomicBool::new(false)).map(drop)
}

/// Runs as [`on_dpdk`], with real hosts where the scenario defines their access.
fn with_real_hosts(file: &Path, run: ScenarioRun, directory: RunDir, stop: &AtomicBool) -> Result<(), Failure> {
    let (scenarios, mut hosts) = hosts::prepared(file, &[run], None)?;
    refuse_virtual_time(&scenarios)?;
    let real_frames = real_frames::reach()?;
    real_frames.check_machine(&scenarios)?;
    let backend = real_frames.start(&scenarios)?;
    backend.run_with_hosts(&scenarios[0], directory, Some(&mut hosts), &mut |_| {}, stop).map(drop)
}

/// Runs a point in a process on `cores` cores, and stores its outcome. `None` if stopped.
pub(super) fn finish(
    runner: &PointRunner,
    cores: usize,
    plan: &SweepPlan,
    point: &Point,
    to: &SweepDir,
) -> io::Result<Option<FinishedPoint>> {
    let started = Instant::now();
    let status = start(&runner.program, cores, plan, point, to).and_then(|child| wait(child, point, runner));
    if runner.stop.is_asked() || status.is_err() {
        to.abandon(point);
        return status.map(|_| None);
    }
    let (outcome, reason) = determine_outcome(status?, point, to)?;
    let finished = FinishedPoint { point: point.clone(), outcome, reason, wall_ms: millis(started.elapsed()) };
    to.finish(&finished)?;
    Ok(Some(finished))
}

fn start(program: &[OsString], cores: usize, plan: &SweepPlan, point: &Point, to: &SweepDir) -> io::Result<Child> {
    let [part, text, log] = to.unfinished_paths(point);
    fs::write(&text, plan.text(point))?;
    let (program, first) = program.split_first().expect("a program");
    let mut command = Command::new(program);
    // The allocator of a program that asked for huge pages itself has the variables already.
    command.args(first).envs(huge_page_environment().into_iter().flatten());
    command.args(["sweep", "point", "--scenario"]).arg(&plan.scenario).arg("--text").arg(text);
    command.arg("--run").arg(point.run.to_string()).arg("--output").arg(part);
    command.arg("--backend").arg(plan.backend.name()).arg("--threads").arg(cores.to_string());
    let output = if plan.backend.is_real() { Stdio::null() } else { Stdio::piped() };
    command.stdin(Stdio::piped()).stdout(output).stderr(File::create(log)?);
    // The terminal's Ctrl-C is for the sweep, which then stops its points.
    command.process_group(0);
    let failed = |error: io::Error| {
        io::Error::new(error.kind(), format!("{} can't be started: {error}", Path::new(program).display()))
    };
    command.spawn().map_err(failed)
}

fn wait(mut child: Child, point: &Point, runner: &PointRunner) -> io::Result<ExitStatus> {
    // `Child::wait` would close standard input, and so end the process.
    if let Some(line) = child.stdin.take() {
        runner.stop.hold(point.number, line);
    }
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
        line.parse().iter().for_each(|permille| runner.report_point(point.number, *permille));
    }
    let status = child.wait();
    runner.stop.release(point.number);
    status
}

/// Determines the outcome from the exit status and the files of the process.
fn determine_outcome(status: ExitStatus, point: &Point, to: &SweepDir) -> io::Result<(PointOutcome, String)> {
    let [part, _, log] = to.unfinished_paths(point);
    if !status.success() {
        let stderr = String::from_utf8_lossy(&fs::read(log)?).into_owned();
        return Ok((PointOutcome::Crashed, reason(status, &stderr)));
    }
    Ok(match read_summary(&part) {
        Ok(summary) if summary.failures.is_empty() => (PointOutcome::Good, String::new()),
        Ok(summary) => (PointOutcome::Failed, summary.failures.join("; ")),
        Err(error) => (PointOutcome::Crashed, error.to_string()),
    })
}

/// Cause of the process's end and its final output; for a panic, with place and message.
fn reason(status: ExitStatus, stderr: &str) -> String {
    const CHARS_MAX: usize = 600;
    let how = match (status.code(), status.signal()) {
        (Some(101), _) => "panic".to_owned(),
        (Some(code), _) => format!("exit code {code}"),
        // Signal 9 is sent by the kernel's OOM killer to the largest process.
        (None, Some(9)) => "killed (signal 9), as when memory runs out".to_owned(),
        (None, signal) => format!("killed (signal {})", signal.unwrap_or(0)),
    };
    let hints = ["note: run with `RUST_BACKTRACE", "stack backtrace"];
    let lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let relevant: Vec<&str> = lines.filter(|line| !hints.iter().any(|hint| line.starts_with(hint))).collect();
    let message: String = relevant.join(" ").chars().take(CHARS_MAX).collect();
    if message.is_empty() { how } else { format!("{how}: {message}") }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_say_how_a_process_ended_and_why() {
        let stderr =
            "\nthread 'main' panicked at a.rs:7:\nattempt to divide by zero\nnote: run with `RUST_BACKTRACE=1`\n";
        let exit = |code: i32| ExitStatus::from_raw(code << 8);
        assert_eq!(reason(exit(101), stderr), "panic: thread 'main' panicked at a.rs:7: attempt to divide by zero");
        assert_eq!(reason(exit(1), "weir: no\n"), "exit code 1: weir: no");
        assert_eq!(reason(ExitStatus::from_raw(9), ""), "killed (signal 9), as when memory runs out");
        assert_eq!(reason(ExitStatus::from_raw(11), ""), "killed (signal 11)");
    }
}
