//! How far a run is, on the terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use weir_units::Span;

/// A bar for a run of this name and length in scenario time, of which it shows microseconds; names are aligned to `width`.
pub fn progress_bar(name: &str, width: usize, length: Span) -> ProgressBar {
    let bar = ProgressBar::new(length.as_micros());
    let template = format!("{{prefix:>{width}}} [{{bar:32}}] {{pos:>6}} of {{len}} us  {{msg}}");
    let style = ProgressStyle::with_template(&template).expect("a valid template");
    bar.set_style(style.progress_chars("=> "));
    bar.set_prefix(name.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
