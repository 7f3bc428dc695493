//! Parsing of quantities: `10Gbps`, `12MB`, `1.5us`.

use std::fmt;
use std::str::FromStr;

use crate::{BitRate, Bytes, Span};

/// Text that is not the expected quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError {
    /// Rejected text.
    pub text: String,
    /// Expected quantity, as a noun phrase, and the fault where it is known.
    pub expected: String,
    /// Valid example.
    pub example: &'static str,
}

impl UnitError {
    /// Creates the error that `text` is not `expected`, with a valid `example`.
    pub fn new(text: &str, expected: impl Into<String>, example: &'static str) -> UnitError {
        UnitError { text: text.to_owned(), expected: expected.into(), example }
    }
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" is not {}; write for example \"{}\"", self.text, self.expected, self.example)
    }
}

impl std::error::Error for UnitError {}

/// Names of a unit, and its value in the base unit.
type Unit = (&'static [&'static str], u64);

const SIZES: &[Unit] = &[
    (&["B", "bytes"], 1),
    (&["KB", "K"], 1_000),
    (&["MB", "M"], 1_000_000),
    (&["GB", "G"], 1_000_000_000),
    (&["KiB"], 1 << 10),
    (&["MiB"], 1 << 20),
    (&["GiB"], 1 << 30),
];

const RATES: &[Unit] = &[
    (&["bps", "b/s", "bit/s"], 1),
    (&["Kbps", "Kb/s", "Kbit/s", "Kbit", "Kb"], 1_000),
    (&["Mbps", "Mb/s", "Mbit/s", "Mbit", "Mb"], 1_000_000),
    (&["Gbps", "Gb/s", "Gbit/s", "Gbit", "Gb"], 1_000_000_000),
    (&["Tbps", "Tb/s", "Tbit/s", "Tbit", "Tb"], 1_000_000_000_000),
];

const SPANS: &[Unit] = &[
    (&["ps"], 1),
    (&["ns"], 1_000),
    (&["us", "µs", "μs"], 1_000_000),
    (&["ms"], 1_000_000_000),
    (&["s"], 1_000_000_000_000),
    (&["min"], 60_000_000_000_000),
    (&["h"], 3_600_000_000_000_000),
];

impl FromStr for Bytes {
    type Err = UnitError;

    /// Parses a size with its unit: `1500B`, `12MB` (decimal) or `12MiB` (binary).
    fn from_str(text: &str) -> Result<Bytes, UnitError> {
        let wrong = |fault| UnitError::new(text, format!("a size with its unit: {fault}"), "12MB");
        quantity(text, SIZES).map(Bytes::new).map_err(wrong)
    }
}

impl FromStr for BitRate {
    type Err = UnitError;

    /// Parses a rate with its unit, `10Gbps`.
    fn from_str(text: &str) -> Result<BitRate, UnitError> {
        let wrong = |fault| UnitError::new(text, format!("a rate above 0 with its unit: {fault}"), "10Gbps");
        match quantity(text, RATES) {
            Ok(0) => Err(wrong("it is 0".to_owned())),
            other => other.map(BitRate::bps).map_err(wrong),
        }
    }
}

impl FromStr for Span {
    type Err = UnitError;

    /// Parses a time with its unit, `1.5us`.
    fn from_str(text: &str) -> Result<Span, UnitError> {
        let wrong = |fault| UnitError::new(text, format!("a time with its unit: {fault}"), "1.5us");
        if without_quotes(text) == "0" {
            return Ok(Span::ZERO);
        }
        quantity(text, SPANS).map(Span::from_picos).map_err(wrong)
    }
}

/// Removes blanks, and quotes that a word processor or a shell has left.
fn without_quotes(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || "\"'“”„‘’‚«»".contains(c))
}

/// Parses a quantity in base units.
///
/// # Errors
/// The fault: a wrong number or unit, or a value that is no multiple of the base unit or does not fit.
fn quantity(text: &str, units: &[Unit]) -> Result<u64, String> {
    let text = without_quotes(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let (number, unit) = (text[..end].replace('_', ""), text[end..].trim());
    let (integer, fraction) = number.split_once('.').unwrap_or((&number, ""));
    if integer.is_empty() && fraction.is_empty() {
        return Err("it begins with no number".to_owned());
    }
    let names: Vec<&str> = units.iter().map(|(names, _)| names[0]).collect();
    if unit.is_empty() {
        return Err(format!("it has no unit of {}", names.join(", ")));
    }
    let value_of_unit =
        value_of_unit(unit, units).ok_or_else(|| format!("\"{unit}\" is none of {}", names.join(", ")))?;
    let scale = 10u128.checked_pow(fraction.len() as u32).filter(|_| fraction.len() <= 12);
    let digits: Option<u128> = format!("{integer}{fraction}").parse().ok();
    let (Some(scale), Some(digits)) = (scale, digits) else { return Err(format!("\"{number}\" is no such number")) };
    match digits.checked_mul(u128::from(value_of_unit)) {
        Some(value) if value % scale != 0 => Err(format!("it is no whole number of {}", names[0])),
        value => value.and_then(|value| u64::try_from(value / scale).ok()).ok_or_else(|| "it is too large".to_owned()),
    }
}

/// Value of a unit, also in upper or lower case, unless that exchanges bits and bytes: `1mb` is a size, and `1Mb` is none.
fn value_of_unit(unit: &str, units: &[Unit]) -> Option<u64> {
    let is_mixed = unit.contains(|c: char| c.is_ascii_uppercase()) && unit.contains(|c: char| c.is_ascii_lowercase());
    let is_alike = |name: &&str| {
        // A rate's unit in capitals is one of bytes; "bit" is none.
        let has_bytes = unit.contains('B') && !unit.to_ascii_lowercase().contains("bit");
        let swaps = has_bytes && !name.contains('B') || unit.ends_with('b') && name.ends_with('B') && is_mixed;
        name.eq_ignore_ascii_case(unit) && !swaps
    };
    let (_, value) = units.iter().find(|(names, _)| names.iter().any(is_alike))?;
    Some(*value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        assert_eq!("12MB".parse(), Ok(Bytes::mb(12)));
        assert_eq!("12 MiB".parse(), Ok(Bytes::new(12 << 20)));
        assert_eq!("18.5KB".parse(), Ok(Bytes::new(18_500)));
        assert_eq!("1500B".parse(), Ok(Bytes::new(1_500)));
        assert_eq!("10Gbps".parse(), Ok(BitRate::gbps(10)));
        assert_eq!("2.5Gb/s".parse(), Ok(BitRate::mbps(2_500)));
        assert_eq!("52.4us".parse(), Ok(Span::from_nanos(52_400)));
        assert_eq!("0".parse(), Ok(Span::ZERO));
        assert_eq!("5min".parse(), Ok(Span::from_secs(300)));
        for text in ["12mb", "“12MB”", "'12 MB'", "12m", "12000KB", "12000kB", "12000kb"] {
            assert_eq!(text.parse(), Ok(Bytes::mb(12)), "{text}");
        }
        for text in ["1gbps", "1Gbit/s", "1gb/s", "1000Mbit", "1000000kbps", "1GBit/s", "1GBIT", "1Gb", "1000Mb"] {
            assert_eq!(text.parse(), Ok(BitRate::gbps(1)), "{text}");
        }
        for text in ["2US", "2Us", "2 us", "2000NS"] {
            assert_eq!(text.parse(), Ok(Span::from_micros(2)), "{text}");
        }
    }

    #[test]
    fn refuses_wrong_units_with_a_valid_example() {
        assert_eq!(
            "10GB".parse::<BitRate>().unwrap_err().to_string(),
            "\"10GB\" is not a rate above 0 with its unit: \"GB\" is none of bps, Kbps, Mbps, Gbps, Tbps; write for example \"10Gbps\""
        );
        for (text, fault) in [
            ("", "it begins with no number"),
            ("MB", "it begins with no number"),
            ("1500", "it has no unit of B, KB, MB, GB, KiB, MiB, GiB"),
            ("1MiBs", "\"MiBs\" is none of B, KB, MB, GB, KiB, MiB, GiB"),
            ("1Mb", "\"Mb\" is none of B, KB, MB, GB, KiB, MiB, GiB"),
            ("1.2.3MB", "\"1.2.3\" is no such number"),
            ("0.0001B", "it is no whole number of B"),
            ("99999999999GB", "it is too large"),
        ] {
            let refused = text.parse::<Bytes>().unwrap_err();
            assert_eq!(refused.expected, format!("a size with its unit: {fault}"), "{text}");
        }
        assert!("1GBps".parse::<BitRate>().is_err(), "bytes a second");
        for text in ["", "MB", "1.2.3MB", "-3MB", "1500", "3 potatoes", "0.0001B", "99999999999GB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
        assert!("10".parse::<BitRate>().is_err());
        assert!("0Gbps".parse::<BitRate>().is_err());
        assert!("10".parse::<Span>().is_err());
    }

    #[test]
    fn what_is_printed_can_be_read_back() {
        for span in [80, 1_500_000, 52_400_000, 2_000_000_000_000] {
            let span = Span::from_picos(span);
            assert_eq!(span.to_string().parse(), Ok(span));
        }
        for size in [64, 56_840, 1_048_576, 12_000_000] {
            let size = Bytes::new(size);
            assert_eq!(size.to_string().parse(), Ok(size));
        }
    }
}
