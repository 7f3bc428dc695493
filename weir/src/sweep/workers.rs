//! As many points at a time as there are cores.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ChildStdin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::directory::{Finished, SweepDir};
use super::plan::{Plan, Point};
use super::point;
use crate::exit::Failure;

/// Asks all workers to stop, and their processes with them.
#[derive(Debug, Default)]
pub struct Stop {
    asked: AtomicBool,
    /// Standard input of each process, by its point: where that ends, so does the process.
    lines: Mutex<BTreeMap<usize, ChildStdin>>,
}

impl Stop {
    /// Set by SIGINT and SIGTERM, from now on.
    pub fn by_signals() -> Result<Arc<Stop>, Failure> {
        let stop = Arc::new(Stop::default());
        let mut signals =
            signal_hook::iterator::Signals::new([signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM])?;
        let asked = stop.clone();
        std::thread::spawn(move || signals.forever().for_each(|_| asked.ask()));
        Ok(stop)
    }

    pub fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
        self.lines().clear();
    }

    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Keeps a process going until it is to stop, which it may be already.
    pub fn hold(&self, point: usize, line: ChildStdin) {
        let mut lines = self.lines();
        if !self.is_asked() {
            lines.insert(point, line);
        }
    }

    /// A process has ended.
    pub fn release(&self, point: usize) {
        self.lines().remove(&point);
    }

    fn lines(&self) -> MutexGuard<'_, BTreeMap<usize, ChildStdin>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has these points run by `program`, `jobs` at a time; each that is finished is told of, from whatever thread. Returns early
/// when it is asked to.
///
/// # Errors
/// The first that is not a point's own, such as a full disk; then nothing more is started.
pub fn run(
    (program, jobs): (&Path, usize),
    (plan, points): (&Plan, &[&Point]),
    to: &SweepDir,
    stop: &Stop,
    tell: &(dyn Fn(Finished) + Sync),
) -> Result<(), Failure> {
    let next = AtomicUsize::new(0);
    let failed: Mutex<Option<Failure>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(points.len()) {
            scope.spawn(|| {
                while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)).filter(|_| !stop.is_asked()) {
                    match point::finish(program, plan, point, to, stop) {
                        Ok(Some(finished)) => tell(finished),
                        Ok(None) => {}
                        Err(error) => {
                            let failure = Failure::Run(format!("point {}: {error}", point.number));
                            failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
                            stop.ask();
                        }
                    }
                }
            });
        }
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}
