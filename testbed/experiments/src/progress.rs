//! Progress on the terminal: a bar with an estimate of the remaining time, and other output above it.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub use indicatif::ProgressBar;
use indicatif::{HumanDuration, ProgressState, ProgressStyle, WeakProgressBar};

/// Bar on the terminal.
static SHOWN: Mutex<Option<WeakProgressBar>> = Mutex::new(None);

/// Creates a bar of a length, of which `done` is finished already. The template may contain `{left}`, the remaining
/// time.
pub fn bar(length: u64, done: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(length);
    let left = move |state: &ProgressState, to: &mut dyn fmt::Write| {
        // Nothing is known before the first step.
        let _ = if state.pos() > done { write!(to, "{:#}", HumanDuration(state.eta())) } else { write!(to, "?") };
    };
    let style = ProgressStyle::with_template(template).expect("a valid template").with_key("left", left);
    bar.set_style(style.progress_chars("=> "));
    bar.set_position(done);
    bar.reset_eta();
    // A terminal that can't go back in a line (TERM unset, or dumb) shows no bar, so none is redrawn.
    if !bar.is_hidden() {
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.downgrade());
    bar
}

/// Calls `write` while the bar is hidden.
pub fn above<R>(write: impl FnOnce() -> R) -> R {
    let shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(WeakProgressBar::upgrade);
    match shown {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}
