//! Stop request of a sweep.

use std::collections::BTreeMap;
use std::process::ChildStdin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Failure;

/// Stop request for all points of a sweep and their processes.
#[derive(Debug, Default)]
pub struct Stop {
    asked: AtomicBool,
    /// Standard input of each process, by its point: closing it ends the process.
    lines: Mutex<BTreeMap<usize, ChildStdin>>,
}

impl Stop {
    /// Has SIGINT and SIGTERM request the stop from now on.
    pub(super) fn on_signals(self: &Arc<Stop>) -> Result<(), Failure> {
        let mut signals =
            signal_hook::iterator::Signals::new([signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM])?;
        let stop = self.clone();
        std::thread::spawn(move || signals.forever().for_each(|_| stop.ask()));
        Ok(())
    }

    /// Requests the stop, and ends all processes of points.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
        self.lines().clear();
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Holds a process's standard input open; drops it at once if a stop was requested.
    pub(super) fn hold(&self, point: usize, line: ChildStdin) {
        let mut lines = self.lines();
        if !self.is_asked() {
            lines.insert(point, line);
        }
    }

    /// Closes the standard input of an ended process.
    pub(super) fn release(&self, point: usize) {
        self.lines().remove(&point);
    }

    pub(super) fn lines(&self) -> MutexGuard<'_, BTreeMap<usize, ChildStdin>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
