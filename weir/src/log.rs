//! Log on standard error: one line an event, with a level; repetitions at one place are rate-limited.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{Format, Full, Json, JsonFields, Writer};
use tracing_subscriber::fmt::time::SystemTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use weir_experiments::real_frames::LogFormat;
use weir_experiments::{has_color, progress};

/// Most consecutive lines of one event about one port; further lines are limited to one each [`ONE_EVERY`].
const IN_A_ROW: u32 = 20;
const ONE_EVERY: Duration = Duration::from_secs(10);

/// Starts the log on standard error, with the filter of `WEIR_LOG`, or else this default filter.
pub(crate) fn begin(default_filter: Targets, format: LogFormat) {
    let filter = std::env::var("WEIR_LOG").ok().and_then(|filter| filter.parse().ok()).unwrap_or(default_filter);
    let color = has_color(&std::io::stderr());
    let log = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        // A switch goes on with its stderr closed.
        .log_internal_errors(false)
        .with_writer(|| AboveProgress);
    let text = Format::default().with_target(false).with_ansi(color);
    match format {
        LogFormat::Json => {
            let json = Format::default().json().flatten_event(true).with_target(true);
            log.fmt_fields(JsonFields::new())
                .event_format(RateLimitedFormat::new(Style::Json(json)))
                .finish()
                .with(filter)
                .init();
        }
        LogFormat::Text => {
            let (style, color) =
                if is_journal() { (Style::Journal(text.with_ansi(false)), false) } else { (Style::Text(text), color) };
            log.with_ansi(color).event_format(RateLimitedFormat::new(style)).finish().with(filter).init();
        }
    }
}

/// Standard error, with lines above any progress bar on the terminal.
struct AboveProgress;

impl Write for AboveProgress {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        progress::above(|| io::stderr().write(line))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Format of a line.
enum Style {
    Text(Format<Full, SystemTime>),
    /// The journal has a clock of its own, and reads the level as syslog's number.
    Journal(Format<Full, SystemTime>),
    Json(Format<Json, SystemTime>),
}

/// Returns true if standard error is systemd's journal, by the device and inode in JOURNAL_STREAM.
fn is_journal() -> bool {
    let Some(stream) = std::env::var("JOURNAL_STREAM").ok() else { return false };
    let of_stderr = std::fs::metadata("/proc/self/fd/2");
    of_stderr.is_ok_and(|meta| stream == format!("{}:{}", meta.dev(), meta.ino()))
}

impl Style {
    fn line<S, N>(&self, context: &FmtContext<'_, S, N>, to: Writer<'_>, event: &Event<'_>) -> fmt::Result
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
        N: for<'a> FormatFields<'a> + 'static,
    {
        match self {
            Style::Text(format) => format.format_event(context, to, event),
            Style::Json(format) => format.format_event(context, to, event),
            Style::Journal(format) => {
                let mut line = to;
                write!(line, "<{}>", syslog_level(*event.metadata().level()))?;
                format.clone().without_time().with_level(false).format_event(context, line, event)
            }
        }
    }

    /// Writes the number of suppressed lines into a line.
    fn with_left_out(&self, line: &str, left_out: u64) -> String {
        match self {
            Style::Json(_) => line.replacen('{', &format!("{{\"left_out\":{left_out},"), 1),
            Style::Text(_) | Style::Journal(_) => {
                format!("{} ({left_out} such lines before it were left out)\n", line.trim_end_matches('\n'))
            }
        }
    }
}

fn syslog_level(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

/// Formatter that limits the rate of lines of one event about one port. Events requested by a client or the operator are not limited.
struct RateLimitedFormat {
    style: Style,
    budgets: Mutex<HashMap<LogKey, LogBudget>>,
}

/// Place in the code, and object of the event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct LogKey {
    line: Option<u32>,
    file: Option<&'static str>,
    switch: String,
    port: Option<String>,
    class: String,
}

#[derive(Debug)]
struct LogBudget {
    left: u32,
    /// Instant at which the budget was last refilled.
    since: Instant,
    left_out: u64,
}

impl RateLimitedFormat {
    fn new(style: Style) -> RateLimitedFormat {
        RateLimitedFormat { style, budgets: Mutex::default() }
    }
}

impl LogBudget {
    fn new(now: Instant) -> LogBudget {
        LogBudget { left: IN_A_ROW, since: now, left_out: 0 }
    }

    /// Returns the number of suppressed lines if a line may be written now; else `None`.
    fn take(&mut self, now: Instant) -> Option<u64> {
        let due = now.duration_since(self.since).as_nanos() / ONE_EVERY.as_nanos();
        if due > 0 {
            let due = u32::try_from(due).unwrap_or(u32::MAX);
            // Refills the budget by one line each ONE_EVERY.
            self.left = self.left.saturating_add(due).min(IN_A_ROW);
            self.since = now;
        }
        if self.left == 0 {
            self.left_out += 1;
            return None;
        }
        self.left -= 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

impl<S, N> FormatEvent<S, N> for RateLimitedFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let Some(key) = LogKey::from_event(event) else { return self.style.line(context, to, event) };
        let now = Instant::now();
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        match budgets.entry(key).or_insert_with(|| LogBudget::new(now)).take(now) {
            None => Ok(()),
            Some(0) => self.style.line(context, to, event),
            Some(left_out) => {
                let mut line = String::new();
                self.style.line(context, Writer::new(&mut line), event)?;
                to.write_str(&self.style.with_left_out(&line, left_out))
            }
        }
    }
}

impl LogKey {
    /// Key of an event; `None` if it is not rate-limited.
    fn from_event(event: &Event<'_>) -> Option<LogKey> {
        let metadata = event.metadata();
        let mut key = LogKey { line: metadata.line(), file: metadata.file(), ..LogKey::default() };
        event.record(&mut key);
        let is_asked_for = metadata.target().starts_with("weir_on_dpdk::control");
        let repeats = key.port.is_some() || *metadata.level() <= Level::WARN;
        (repeats && !is_asked_for).then_some(key)
    }
}

impl Visit for LogKey {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = || format!("{value:?}");
        match field.name() {
            "switch" => self.switch = text(),
            "port" => self.port = Some(text()),
            "class" => self.class = text(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn lines(style: Style, emit: impl FnOnce()) -> Vec<String> {
        let written = Written::default();
        let writer = written.clone();
        let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
        match style {
            Style::Json(_) => {
                let log = log.fmt_fields(JsonFields::new()).event_format(RateLimitedFormat::new(style)).finish();
                tracing::subscriber::with_default(log, emit);
            }
            _ => tracing::subscriber::with_default(log.event_format(RateLimitedFormat::new(style)).finish(), emit),
        }
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn storm(port: &str) {
        tracing::warn!(switch = %"lab", %port, class = 3, "PFC storm");
    }

    #[test]
    fn lines_of_a_port_are_rate_limited_independently_of_other_ports() {
        let text = Format::default().with_target(false).with_ansi(false);
        let logged = lines(Style::Journal(text), || {
            (0..100).for_each(|_| storm("p0"));
            storm("p1");
            (0..100).for_each(|key| tracing::info!("set {key}"));
        });
        assert_eq!(logged.iter().filter(|line| line.contains("p0")).count(), IN_A_ROW as usize);
        assert_eq!(logged.iter().filter(|line| line.contains("p1")).count(), 1);
        assert_eq!(logged.iter().filter(|line| line.contains("set ")).count(), 100);
        assert_eq!(logged[0], "<4>PFC storm switch=lab port=p0 class=3");
        assert_eq!(logged.last().unwrap(), "<6>set 99");
    }

    #[test]
    fn a_budget_is_refilled_and_counts_suppressed_lines() {
        let start = Instant::now();
        let mut budget = LogBudget::new(start);
        let full = IN_A_ROW as usize;
        let taken: Vec<Option<u64>> = (0..full + 3).map(|_| budget.take(start)).collect();
        assert!(taken[..full].iter().all(|left_out| *left_out == Some(0)), "{taken:?}");
        assert_eq!(taken[full..], [None; 3]);
        assert_eq!(budget.take(start + ONE_EVERY), Some(3));
        assert_eq!(budget.take(start + ONE_EVERY), None);
        // After a long pause the budget is full, and no more.
        let later = start + 100 * ONE_EVERY;
        let taken: Vec<u64> = (0..full + 1).filter_map(|_| budget.take(later)).collect();
        assert_eq!((taken[0], taken[1..].iter().sum::<u64>(), taken.len()), (1, 0, full));
    }

    #[test]
    fn json_lines_are_objects_with_their_fields() {
        let json = || Style::Json(Format::default().json().flatten_event(true));
        let logged = lines(json(), || storm("p\"0"));
        let line: serde_json::Value = serde_json::from_str(&logged[0]).unwrap();
        assert_eq!((&line["level"], &line["message"]), (&"WARN".into(), &"PFC storm".into()));
        assert_eq!((&line["port"], &line["class"]), (&"p\"0".into(), &3.into()));
        assert!(line["timestamp"].is_string());
        let cut: serde_json::Value = serde_json::from_str(&json().with_left_out(&logged[0], 7)).unwrap();
        assert_eq!((&cut["left_out"], &cut["port"]), (&7.into(), &line["port"]));
    }
}
