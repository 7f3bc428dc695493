//! Parsing of quantities: `10Gbps`, `12MB`, `1.5us`.

use std::fmt;
use std::str::FromStr;

use crate::{BitRate, Bytes, Span};

/// Text that is not the expected quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError {
    /// Rejected text.
    pub text: String,
    /// Expected quantity, as a noun phrase.
    pub expected: &'static str,
    /// Valid example.
    pub example: &'static str,
}

impl UnitError {
    /// Creates the error that `text` is not `expected`, with a valid `example`.
    pub fn new(text: &str, expected: &'static str, example: &'static str) -> UnitError {
        UnitError { text: text.to_owned(), expected, example }
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
    (&["KB", "kB", "K", "k"], 1_000),
    (&["MB", "M"], 1_000_000),
    (&["GB", "G"], 1_000_000_000),
    (&["KiB"], 1 << 10),
    (&["MiB"], 1 << 20),
    (&["GiB"], 1 << 30),
];

const RATES: &[Unit] = &[
    (&["bps", "b/s"], 1),
    (&["Kbps", "kbps", "Kb/s", "kb/s"], 1_000),
    (&["Mbps", "Mb/s"], 1_000_000),
    (&["Gbps", "Gb/s"], 1_000_000_000),
    (&["Tbps", "Tb/s"], 1_000_000_000_000),
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
        quantity(text.trim(), SIZES).map(Bytes::new).ok_or_else(|| UnitError::new(text, "a size with its unit", "12MB"))
    }
}

impl FromStr for BitRate {
    type Err = UnitError;

    /// Parses a rate with its unit, `10Gbps`.
    fn from_str(text: &str) -> Result<BitRate, UnitError> {
        match quantity(text.trim(), RATES) {
            Some(bps) if bps > 0 => Ok(BitRate::bps(bps)),
            _ => Err(UnitError::new(text, "a rate above 0 with its unit", "10Gbps")),
        }
    }
}

impl FromStr for Span {
    type Err = UnitError;

    /// Parses a time with its unit, `1.5us`.
    fn from_str(text: &str) -> Result<Span, UnitError> {
        let bare = text.trim();
        if bare == "0" {
            return Ok(Span::ZERO);
        }
        quantity(bare, SPANS).map(Span::from_picos).ok_or_else(|| UnitError::new(text, "a time with its unit", "1.5us"))
    }
}

/// Quantity in base units; `None` if number or unit is unknown, or if the value is not a whole number of base units or does not
/// fit.
fn quantity(text: &str, units: &[Unit]) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')?;
    let (number, unit) = (text[..end].replace('_', ""), text[end..].trim());
    let (_, worth) = units.iter().find(|(names, _)| names.contains(&unit))?;
    let (integer, fraction) = number.split_once('.').unwrap_or((&number, ""));
    if fraction.len() > 12 || (integer.is_empty() && fraction.is_empty()) {
        return None;
    }
    let scale = 10u128.pow(fraction.len() as u32);
    let digits: u128 = format!("{integer}{fraction}").parse().ok()?;
    let value = digits.checked_mul(u128::from(*worth))?;
    if value % scale != 0 {
        return None;
    }
    u64::try_from(value / scale).ok()
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
    }

    #[test]
    fn refuses_wrong_units_with_a_valid_example() {
        assert_eq!(
            "10GB".parse::<BitRate>().unwrap_err().to_string(),
            "\"10GB\" is not a rate above 0 with its unit; write for example \"10Gbps\""
        );
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
