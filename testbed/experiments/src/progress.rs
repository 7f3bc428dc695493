//! How far a command is, on the terminal: a bar with an estimate as soon as there is one, and what others write meanwhile above it.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub use indicatif::ProgressBar;
use indicatif::{HumanDuration, ProgressState, ProgressStyle, WeakProgressBar};

/// The bar on the terminal.
static SHOWN: Mutex<Option<WeakProgressBar>> = Mutex::new(None);

/// A bar of this length, of which so much is done already. The template may have `{left}`, the time that is left.
pub fn bar(length: u64, done: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(length);
    let left = move |state: &ProgressState, to: &mut dyn fmt::Write| {
        // Nothing is known before there is a first step.
        let _ = if state.pos() > done { write!(to, "{:#}", HumanDuration(state.eta())) } else { write!(to, "?") };
    };
    let style = ProgressStyle::with_template(template).expect("a valid template").with_key("left", left);
    bar.set_style(style.progress_chars("=> "));
    bar.set_position(done);
    bar.reset_eta();
    // A terminal that can't go back in a line (TERM unset, or dumb) shows no bar, and so needs none drawn anew.
    if !bar.is_hidden() {
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.downgrade());
    bar
}

/// Writes something to the terminal while no bar is in the way.
pub fn above<R>(write: impl FnOnce() -> R) -> R {
    let shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(WeakProgressBar::upgrade);
    match shown {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}
