//! Writer of scenario files.

use std::fmt::{Display, Write};

use weir_units::{BitRate, Bytes, Span};

use super::ImportReport;

/// Text of a TOML file under construction. Names and words consist of letters, digits, `_`, `.`, `-` and `/`.
#[derive(Debug, Default)]
pub(super) struct Document {
    text: String,
}

impl Document {
    pub(super) fn comment(&mut self, text: &str) {
        let text = format!("# {}", text.replace(['\n', '\r', '\t'], " "));
        self.line(text.trim_end());
    }

    /// Writes the approximated and omitted settings of a report.
    pub(super) fn notes(&mut self, report: &ImportReport) {
        for (title, notes) in [("Approximated:", &report.approximated), ("Left out:", &report.left)] {
            if !notes.is_empty() {
                self.comment("");
                self.comment(title);
            }
            for note in notes {
                self.comment(&format!("- {note}"));
            }
        }
    }

    /// Writes the head of a table, `[switch]` or `[[links]]`, after a blank line.
    pub(super) fn table(&mut self, head: &str) {
        if !self.text.is_empty() {
            self.line("");
        }
        self.line(head);
    }

    /// Writes a key and its value unquoted: a number, a boolean, an array, an inline table.
    pub(super) fn bare(&mut self, key: &str, value: impl Display) {
        self.line(&format!("{key} = {value}"));
    }

    /// Writes a key and a quoted word.
    pub(super) fn word(&mut self, key: &str, value: impl Display) {
        self.bare(key, quoted(value));
    }

    fn line(&mut self, line: &str) {
        writeln!(self.text, "{line}").expect("a String accepts all writes");
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

pub(super) fn quoted(value: impl Display) -> String {
    let text = value.to_string();
    debug_assert!(!text.contains(['"', '\\']), "{text} is written as it is");
    format!("\"{text}\"")
}

pub(super) fn array(values: impl IntoIterator<Item = impl Display>) -> String {
    format!("[{}]", values.into_iter().map(quoted).collect::<Vec<_>>().join(", "))
}

pub(super) fn exact_span(span: Span) -> String {
    let ps = span.as_picos();
    let units = [("s", 1_000_000_000_000), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1_000), ("ps", 1)];
    exact(ps, &units)
}

pub(super) fn exact_rate(rate: BitRate) -> String {
    exact(rate.as_bps(), &[("Gbps", 1_000_000_000), ("Mbps", 1_000_000), ("Kbps", 1_000), ("bps", 1)])
}

pub(super) fn exact_size(size: Bytes) -> String {
    exact(size.get(), &[("MiB", 1 << 20), ("MB", 1_000_000), ("KB", 1_000), ("KiB", 1 << 10), ("B", 1)])
}

/// Formats a value in the first unit that divides it, or else in the last one.
fn exact(value: u64, units: &[(&str, u64)]) -> String {
    let fits = |(_, worth): &&(&str, u64)| value > 0 && value.is_multiple_of(*worth);
    let unit = units.iter().find(fits).or(units.last());
    let (name, worth) = unit.expect("there are units");
    format!("{}{name}", value / worth)
}

/// Formats a share in units of 10^-9 as a decimal.
pub(super) fn share(ppb: u64) -> String {
    let text = format!("{}.{:09}", ppb / 1_000_000_000, ppb % 1_000_000_000);
    let text = text.trim_end_matches('0');
    if text.ends_with('.') { format!("{text}0") } else { text.to_owned() }
}

/// Formats a time in microseconds, to a picosecond.
pub(super) fn decimal_micros(span: Span) -> String {
    let ps = span.as_picos();
    let text = format!("{}.{:06}", ps / 1_000_000, ps % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_exact() {
        assert_eq!(exact_span(Span::from_micros(1)), "1us");
        assert_eq!(exact_span(Span::from_picos(2_000_000_003_000)), "2000000003ns");
        assert_eq!(exact_span(Span::ZERO), "0ps");
        assert_eq!(exact_rate(BitRate::mbps(2_500)), "2500Mbps");
        assert_eq!(exact_size(Bytes::new(32 << 20)), "32MiB");
        assert_eq!(
            (exact_size(Bytes::kb(100)), exact_size(Bytes::new(4_096))),
            ("100KB".to_owned(), "4KiB".to_owned())
        );
        assert_eq!(
            (share(200_000_000), share(1_000_000_000), share(1)),
            ("0.2".into(), "1.0".into(), "0.000000001".into())
        );
        assert_eq!(decimal_micros(Span::from_picos(12_500_003)), "12.500003");
        assert_eq!((decimal_micros(Span::ZERO), decimal_micros(Span::from_secs(2))), ("0".into(), "2000000".into()));
    }
}
