//! Lines and numbers of the simulators' text files.

use weir_units::{BitRate, Span};

use crate::import::{ImportError, ImportErrors};

/// File: its name in messages, and its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceFile {
    /// Name, without folders.
    pub name: String,
    /// Text of the file.
    pub text: String,
}

/// Non-blank line.
#[derive(Clone, Debug)]
pub(super) struct TextLine<'t> {
    /// Number of the line, from 1.
    pub number: usize,
    /// Fields, separated by blanks.
    pub fields: Vec<&'t str>,
}

/// Returns the lines of a text that have a field. `#` or `//` begin a comment before a field or after a quantity; a byte order mark is
/// skipped.
pub(super) fn lines(text: &str) -> impl Iterator<Item = TextLine<'_>> {
    (1..)
        .zip(text.trim_start_matches('\u{feff}').lines())
        .map(|(number, line)| TextLine { number, fields: line[..comment_start(line)].split_whitespace().collect() })
        .filter(|line| !line.fields.is_empty())
}

/// Returns the start of a line's comment, or the line's end. Names of files may contain the marks.
fn comment_start(line: &str) -> usize {
    let begins = |at: &usize| {
        let before = line[..*at].rsplit(char::is_whitespace).next().unwrap_or_default();
        before.is_empty() || decimal(before, 0).is_some() || rate(before).is_some() || span(before).is_some()
    };
    let marks = line.match_indices('#').chain(line.match_indices("//")).map(|(at, _)| at);
    marks.filter(begins).min().unwrap_or(line.len())
}

/// Errors of a file, in the order of their detection.
#[derive(Debug)]
pub(super) struct ErrorCollector<'f> {
    file: &'f str,
    errors: Vec<ImportError>,
    more: usize,
}

impl<'f> ErrorCollector<'f> {
    pub(super) fn new(file: &'f str) -> ErrorCollector<'f> {
        ErrorCollector { file, errors: Vec::new(), more: 0 }
    }

    pub(super) fn add(&mut self, line: usize, problem: impl Into<String>, help: impl Into<String>) {
        if self.errors.len() == ImportErrors::SHOWN_MAX {
            self.more += 1;
            return;
        }
        let file = self.file.to_owned();
        self.errors.push(ImportError { file, line: Some(line), problem: problem.into(), help: help.into() });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Returns the value if there were no errors.
    pub(super) fn result<T>(self, value: T) -> Result<T, ImportErrors> {
        if self.is_empty() { Ok(value) } else { Err(ImportErrors { errors: self.errors, more: self.more }) }
    }

    /// Parses a whole number; `what` is a noun phrase for messages, `example` a valid number.
    pub(super) fn integer(&mut self, line: usize, text: &str, what: &str, example: &str) -> Option<u32> {
        let number = text.parse().ok();
        if number.is_none() {
            self.add(line, format!("\"{text}\" is not {what}, a whole number"), format!("write for example {example}"));
        }
        number
    }

    /// Returns the parsed value; adds an error if `read` is `None`.
    pub(super) fn value<T>(&mut self, line: usize, text: &str, what: &str, help: &str, read: Option<T>) -> Option<T> {
        if read.is_none() {
            self.add(line, format!("\"{text}\" is not {what}"), help);
        }
        read
    }
}

/// Parses a decimal number such as `25000000000.0`, `.5` or `1e-6` in units of 10^-`places`, rounded down; `None` if it is invalid,
/// negative or too large.
pub(super) fn decimal(text: &str, places: u32) -> Option<u64> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{integer}{fraction}");
    if digits.is_empty() || digits.len() > 40 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let shift = exponent.checked_add(places as i32)?.checked_sub(fraction.len() as i32)?;
    let digits: u128 = digits.trim_start_matches('0').parse().or_else(|_| "0".parse()).ok()?;
    let power = |n: u32| 10u128.checked_pow(n);
    let value = match shift {
        0.. => digits.checked_mul(if digits == 0 { 1 } else { power(shift.unsigned_abs())? })?,
        // 40 digits over a divisor beyond `u128` are 0.
        _ => power(shift.unsigned_abs()).map_or(0, |divisor| digits / divisor),
    };
    u64::try_from(value).ok()
}

/// Parses a rate as the simulators write it: `100Gbps`, `10Mb/s`, or bits per second such as `25000000000.0`.
pub(super) fn rate(text: &str) -> Option<BitRate> {
    match decimal(text, 0) {
        Some(bps) => Some(bps).filter(|bps| *bps > 0).map(BitRate::bps),
        None => text.parse().ok(),
    }
}

/// Parses a time as the simulators write it: `0.001ms`, `1000ns`, or bare seconds.
pub(super) fn span(text: &str) -> Option<Span> {
    seconds(text).or_else(|| text.parse().ok())
}

/// Parses bare seconds.
pub(super) fn seconds(text: &str) -> Option<Span> {
    decimal(text, 12).map(Span::from_picos)
}

/// Parses bare microseconds.
pub(super) fn micros(text: &str) -> Option<Span> {
    decimal(text, 6).map(Span::from_picos)
}

/// Formats a count with its noun, given in the singular.
pub(super) fn count(n: usize, of: &str) -> String {
    let plural = match of {
        "switch" => "switches".to_owned(),
        of => format!("{of}s"),
    };
    if n == 1 { format!("1 {of}") } else { format!("{n} {plural}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact_or_rounded_down() {
        assert_eq!(decimal("2.000000003", 12), Some(2_000_000_003_000));
        assert_eq!(decimal("25000000000.0", 0), Some(25_000_000_000));
        assert_eq!(decimal("1e-6", 9), Some(1_000));
        assert_eq!(decimal("2.5E3", 0), Some(2_500));
        assert_eq!(decimal("0.1300000000000000004", 12), Some(130_000_000_000));
        assert_eq!((decimal(".5", 1), decimal("7.", 0), decimal("0.000000", 0)), (Some(5), Some(7), Some(0)));
        assert_eq!(decimal("1e-60", 12), Some(0));
        assert_eq!(decimal("0e60", 12), Some(0));
        for text in ["", ".", "-1", "+1", "1.2.3", "0x10", "1e", "1e99", "1us", "18446744073709551616"] {
            assert_eq!(decimal(text, 0), None, "{text}");
        }
    }

    #[test]
    fn rates_and_times_have_units_or_the_simulators_base_units() {
        assert_eq!(rate("100Gbps"), Some(BitRate::gbps(100)));
        assert_eq!(rate("25000000000.0"), Some(BitRate::gbps(25)));
        assert_eq!(rate("5Mb/s"), Some(BitRate::mbps(5)));
        assert_eq!((rate("0"), rate("100"), rate("12GBps")), (None, Some(BitRate::bps(100)), None));
        assert_eq!(span("0.001ms"), Some(Span::from_micros(1)));
        assert_eq!(span("0.000001"), Some(Span::from_micros(1)));
        assert_eq!((span("1000ns"), span("1m")), (Some(Span::from_nanos(1_000)), None));
        assert_eq!(micros("300"), Some(Span::from_micros(300)));
    }
}
