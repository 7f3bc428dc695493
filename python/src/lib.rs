//! Native part of the Python package `weir`: the functions of the commands, without the GIL.
//!
//! Points run in processes of their own, like those of `weir sweep`: a panic or lack of memory ends only that point, and the allocator has
//! huge pages.

#![forbid(unsafe_code)]

mod check;
mod congestion;
mod figures;
mod kinds;
mod policy;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use clap::Parser;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use weir_experiments::Failure;
use weir_experiments::compare::Comparison;
use weir_experiments::reproduce::FigureRequest;
use weir_experiments::sweep::{self, PointProgress, PointRunner, SweepArguments, SweepSource};

create_exception!(_weir, Error, PyException, "Invalid input, or a failed run; the message has the place and the fix.");

/// Interval between checks for signals and reports of progress.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// Runs a sweep into a directory.
///
/// `sweep` is a path, or JSON of a sweep's tables, and `scenario` JSON of the scenario's. `plugin_identity` identifies the caller's own kinds.
/// `program` runs points, and `code` is this library.
#[pyfunction]
#[pyo3(signature = (*, path, sweep, scenario, plugin_identity, output, jobs, program, code, progress))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments")]
fn run_sweep(
    py: Python<'_>,
    path: Option<PathBuf>,
    sweep: &str,
    scenario: Option<&str>,
    plugin_identity: &str,
    output: PathBuf,
    jobs: Option<usize>,
    program: Vec<OsString>,
    code: PathBuf,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<()> {
    let (sweep, scenario) = (table(sweep)?, scenario.map(table).transpose()?);
    let source = match &path {
        Some(path) => SweepSource::File(path),
        None => SweepSource::Tables { sweep: &sweep, scenario: scenario.as_ref() },
    };
    let runner = runner(program, code, jobs)?;
    let left = watched(py, &runner, progress, || sweep::run_sweep(source, plugin_identity, &output, &runner))?;
    assert_eq!(left, 0, "only an interruption leaves points");
    Ok(())
}

/// Reproduces a paper's figure in a directory; returns its outcome as JSON.
#[pyfunction]
#[pyo3(signature = (*, id, quick, set, seeds, papers, output, jobs, program, code, progress))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments")]
fn reproduce(
    py: Python<'_>,
    id: String,
    quick: bool,
    set: Vec<String>,
    seeds: Option<u32>,
    papers: Vec<PathBuf>,
    output: PathBuf,
    jobs: Option<usize>,
    program: Vec<OsString>,
    code: PathBuf,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let request = FigureRequest { id, quick, set, seeds, papers };
    let runner = runner(program, code, jobs)?;
    watched(py, &runner, progress, || request.run(&output, &runner))
}

/// Compares runs with the files of an ns-3 simulator; returns JSON as of `weir compare ns3 --json`.
#[pyfunction]
fn compare(py: Python<'_>, paths: Vec<PathBuf>, within: f64, pauses_within: f64) -> PyResult<String> {
    let comparison = py.detach(|| Comparison::read(&paths, within, pauses_within));
    Ok(comparison.map_err(|failure| Error::new_err(failure.into_message()))?.json().to_string())
}

/// Runs one point in this process, by the arguments of `weir sweep point`; returns the exit code.
#[pyfunction]
fn run_point(arguments: Vec<OsString>) -> u8 {
    /// Arguments of the process.
    #[derive(Parser)]
    struct PointProcess {
        #[command(flatten)]
        sweep: SweepArguments,
    }
    match PointProcess::try_parse_from(arguments) {
        Ok(arguments) => sweep::sweep(&arguments.sweep).map_or_else(
            |failure| {
                let code = failure.exit_code();
                eprintln!("weir: {}", failure.into_message());
                code
            },
            |()| 0,
        ),
        Err(error) => {
            eprintln!("{error}");
            2
        }
    }
}

/// Calls `act` on a thread without the GIL, shows progress, and stops at a signal or an error of `progress`.
fn watched<R: Send>(
    py: Python<'_>,
    runner: &PointRunner,
    progress: Option<Bound<'_, PyAny>>,
    act: impl FnOnce() -> Result<R, Failure> + Send,
) -> PyResult<R> {
    let (stop, points, progress) = (&runner.stop, runner.progress.as_deref(), progress.map(Bound::unbind));
    let (result, interruption) = py.detach(|| {
        thread::scope(|scope| {
            let (running, ended) = channel::<()>();
            let worker = scope.spawn(move || {
                let _running = running;
                act()
            });
            let (mut shown, mut interruption) = (None, None);
            while ended.recv_timeout(CHECK_EVERY) == Err(RecvTimeoutError::Timeout) {
                if interruption.is_none() {
                    interruption = check(progress.as_ref(), points, &mut shown).err();
                    interruption.iter().for_each(|_| stop.ask());
                }
            }
            if interruption.is_none() {
                interruption = check(progress.as_ref(), points, &mut shown).err();
            }
            (worker.join(), interruption)
        })
    });
    match (result, interruption) {
        (_, Some(interruption)) => Err(interruption),
        (Ok(result), None) => result.map_err(|failure| Error::new_err(failure.into_message())),
        (Err(panic), None) => {
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown");
            Err(Error::new_err(format!("panic: {message}")))
        }
    }
}

/// Handles Python's signals, and calls `progress` with the numbers of finished and of all points if they changed.
fn check(
    progress: Option<&Py<PyAny>>,
    points: Option<&PointProgress>,
    shown: &mut Option<(f64, usize)>,
) -> PyResult<()> {
    Python::attach(|py| {
        py.check_signals()?;
        let (Some(progress), Some(now)) = (progress, points.and_then(PointProgress::shares)) else { return Ok(()) };
        if shown.replace(now) != Some(now) {
            progress.call1(py, now)?;
        }
        Ok(())
    })
}

fn table(json: &str) -> PyResult<toml::Table> {
    serde_json::from_str(json).map_err(|error| Error::new_err(format!("a value that TOML does not have: {error}")))
}

fn runner(program: Vec<OsString>, code: PathBuf, jobs: Option<usize>) -> PyResult<PointRunner> {
    let jobs = match jobs {
        Some(0) => return Err(Error::new_err("jobs: write 1 or more")),
        Some(jobs) => jobs,
        None => thread::available_parallelism().map_or(1, usize::from),
    };
    Ok(PointRunner { program, code, jobs, stop: Arc::default(), progress: Some(Arc::default()) })
}

/// Native part of the package `weir`.
#[pymodule(name = "_weir")]
mod library {
    #[pymodule_export]
    use super::check::check_policy;
    #[pymodule_export]
    use super::congestion::{PythonAckSignal, PythonHopTelemetry, add_congestion_control};
    #[pymodule_export]
    use super::figures::{paired_difference, pooled_percentile, warm_up_us};
    #[pymodule_export]
    use super::kinds::{quantity, quantity_text};
    #[pymodule_export]
    use super::policy::{PythonPoolLevel, PythonQueueId, PythonQueueView, PythonThreshold, add_policy};
    #[pymodule_export]
    use super::{Error, compare, reproduce, run_point, run_sweep};
}
