//! Runner of a sweep's points: the program of their processes, their number, the stop request, and progress.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::stop::Stop;
use crate::Failure;

/// Runner of points, each in a process of its own.
#[derive(Clone, Debug)]
pub struct PointRunner {
    /// Program with its first arguments, which `sweep point` and the point's arguments follow.
    pub program: Vec<OsString>,
    /// File of Weir's code, whose build ID identifies the results.
    pub code: PathBuf,
    /// Number of cores: one per point, or several with fewer points than cores.
    pub jobs: usize,
    /// Stop request.
    pub stop: Arc<Stop>,
    /// Progress for a program that shows it and handles signals itself; `None` draws a bar, and SIGINT and SIGTERM stop.
    pub progress: Option<Arc<PointProgress>>,
}

/// Progress of a sweep's points.
#[derive(Debug, Default)]
pub struct PointProgress(Mutex<PointCounts>);

#[derive(Debug, Default)]
struct PointCounts {
    finished: usize,
    all: usize,
    /// Thousandths of the scenario's time, by number of a running point.
    running: BTreeMap<usize, u32>,
}

impl PointProgress {
    /// Returns the number of finished points, with the shares of running ones, and of all; `None` until these are known.
    pub fn shares(&self) -> Option<(f64, usize)> {
        let progress = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let running: u32 = progress.running.values().sum();
        (progress.all > 0).then(|| (progress.finished as f64 + f64::from(running) / 1e3, progress.all))
    }
}

impl PointRunner {
    /// Creates the runner of a command, whose points run this program.
    pub(crate) fn of_command(jobs: usize) -> Result<PointRunner, Failure> {
        let program = vec![std::env::current_exe()?.into()];
        Ok(PointRunner { program, code: "/proc/self/exe".into(), jobs, stop: Arc::default(), progress: None })
    }

    /// Reports the number of finished points and of all; `ended` is the last one.
    pub(super) fn report(&self, finished: usize, all: usize, ended: Option<usize>) {
        self.update(|progress| {
            (progress.finished, progress.all) = (finished, all);
            ended.map(|number| progress.running.remove(&number));
        });
    }

    /// Reports a running point, in thousandths of its scenario's time.
    pub(super) fn report_point(&self, number: usize, permille: u32) {
        self.update(|progress| *progress.running.entry(number).or_default() = permille);
    }

    fn update(&self, change: impl FnOnce(&mut PointCounts)) {
        if let Some(progress) = &self.progress {
            change(&mut progress.0.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}
