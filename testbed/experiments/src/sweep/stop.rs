//! How a sweep is stopped.

use std::collections::BTreeMap;
use std::process::ChildStdin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Failure;

/// Asks all workers to stop, and their processes with them.
#[derive(Debug, Default)]
pub(super) struct Stop {
    asked: AtomicBool,
    /// Standard input of each process, by its point: where that ends, so does the process.
    lines: Mutex<BTreeMap<usize, ChildStdin>>,
}

impl Stop {
    /// Set by SIGINT and SIGTERM, from now on.
    pub(super) fn by_signals() -> Result<Arc<Stop>, Failure> {
        let stop = Arc::new(Stop::default());
        let mut signals =
            signal_hook::iterator::Signals::new([signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM])?;
        let asked = stop.clone();
        std::thread::spawn(move || signals.forever().for_each(|_| asked.ask()));
        Ok(stop)
    }

    pub(super) fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
        self.lines().clear();
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Keeps a process going until it is to stop, which it may be already.
    pub(super) fn hold(&self, point: usize, line: ChildStdin) {
        let mut lines = self.lines();
        if !self.is_asked() {
            lines.insert(point, line);
        }
    }

    /// A process has ended.
    pub(super) fn release(&self, point: usize) {
        self.lines().remove(&point);
    }

    pub(super) fn lines(&self) -> MutexGuard<'_, BTreeMap<usize, ChildStdin>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
