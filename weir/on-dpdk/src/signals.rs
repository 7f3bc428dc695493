//! Signals to a running switch.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGXFSZ};

/// Requests by signals. A signal that arrives again before it was seen counts once.
pub(crate) struct Signals {
    stop: Arc<AtomicBool>,
    reopen: Arc<AtomicBool>,
    snapshot: Arc<AtomicBool>,
}

impl Signals {
    /// Installs the handlers, which replace the signals' default actions.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn new() -> io::Result<Signals> {
        let on = |signals: &[i32]| {
            let flag = Arc::new(AtomicBool::new(false));
            signals.iter().try_for_each(|signal| signal_hook::flag::register(*signal, flag.clone()).map(drop))?;
            io::Result::Ok(flag)
        };
        // A write beyond the file size limit then fails with an error, like on a full disk.
        on(&[SIGXFSZ])?;
        Ok(Signals { stop: on(&[SIGINT, SIGTERM])?, reopen: on(&[SIGHUP])?, snapshot: on(&[SIGQUIT, SIGUSR1])? })
    }

    /// SIGINT or SIGTERM: the switch is to stop.
    pub(crate) fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// SIGHUP since the last call: files are to be opened, and read, anew.
    pub(crate) fn take_reopen(&self) -> bool {
        self.reopen.swap(false, Ordering::Relaxed)
    }

    /// SIGQUIT or SIGUSR1 since the last call: the state is to be shown.
    pub(crate) fn take_snapshot(&self) -> bool {
        self.snapshot.swap(false, Ordering::Relaxed)
    }
}
