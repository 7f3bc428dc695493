//! Parameters of algorithms chosen by name in files: parsing of their texts.
//!
//! The value of a text may depend on the network, as that of `line/1000` does, and a file is read before its network is built. So a file's
//! values are kept as texts, and an algorithm's parameters are read when its flows are made.

use std::cell::RefCell;
use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::str::FromStr;

use weir_reader::Key;
use weir_units::{BitRate, Bytes, Span, UnitError};

/// Properties of the network from which presets are derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Rate C of the sender's line.
    pub line: BitRate,
    /// Longest round trip T, or τ, without queues, including a full packet's serialization on each link.
    pub base_rtt: Span,
}

/// Values by key, as a file has them.
pub type Values = &'static [(&'static str, &'static str)];

/// Named set of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Name in files.
    pub name: &'static str,
    /// Source of the parameters.
    pub about: &'static str,
    /// Keys whose values differ from the defaults, with the values as in a file.
    pub values: Values,
}

/// Invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongValue {
    /// Key of the value.
    pub key: &'static str,
    /// The error, as a sentence.
    pub message: String,
    /// Suggested correction.
    pub help: String,
}

/// Parameters of an algorithm: values of a file override the preset, which overrides the keys' defaults.
///
/// Each method reads one key. An invalid value is recorded, and the preset's is returned; the creator of the parameters
/// calls [`Parameters::into_wrong`] at the end.
#[derive(Debug)]
pub struct Parameters<'p> {
    network: Network,
    given: &'p [(&'p str, &'p str)],
    preset: Values,
    wrong: RefCell<Vec<WrongValue>>,
}

/// Error in a text, and the suggested correction.
type ParseFailure = (String, String);

/// Times of most keys: none is so short that an hour's silence takes long to catch up.
pub const TIMES: RangeInclusive<Span> = Span::from_nanos(100)..=Span::from_secs(1_000);

/// Valid rates: from the lowest of a limiter to above the fastest Ethernet.
const RATES: (BitRate, BitRate) = (BitRate::bps(8_000), BitRate::gbps(3_200));

/// Values of a [`gain`] key.
#[derive(Clone, Copy, Debug)]
pub struct Gain;

/// Values of a [`bdp_size`] key.
#[derive(Clone, Copy, Debug)]
pub struct BdpSize;

/// Values of a [`share`] or [`millionths`] key.
#[derive(Clone, Copy, Debug)]
pub struct Millionths(pub u32);

impl Display for Millionths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f64::from(self.0) / 1e6).fmt(f)
    }
}

/// Returns a key whose value is a rate or a fraction of the line's: see [`Parameters::rate`].
pub const fn line_rate(name: &'static str, help: &'static str) -> Key<BitRate> {
    Key::other_in(name, "rate or `line/n`", RATES, help)
}

/// Returns a key whose value is a size or a fraction of the bandwidth-delay product: see [`Parameters::size_or_part`].
pub const fn bdp_size(name: &'static str, help: &'static str) -> Key<BdpSize> {
    Key::other(name, "size or `bdp/n`", help)
}

/// Returns a key whose value is a window or none: see [`Parameters::window`].
pub const fn window(name: &'static str, help: &'static str) -> Key<Option<Bytes>> {
    Key::other(name, "size above 0, `bdp/n` or `none`", help)
}

/// Returns a key whose value is one of [`TIMES`] or none: see [`Parameters::time_or_none`].
pub const fn time_or_none(name: &'static str, help: &'static str) -> Key<Option<Span>> {
    Key::other(name, "time, 100ns to 1000s, or `none`", help)
}

/// Returns the key of T, or τ, by default the network's: see [`Parameters::base_rtt`].
pub const fn base_rtt(help: &'static str) -> Key<Span> {
    Key::time("base_rtt", Span::from_nanos(1)..=Span::from_secs(1), help)
        .or_else("the network's longest round trip without queues")
}

/// Returns a key whose value is a gain 2^-n: see [`Parameters::gain`].
pub const fn gain(name: &'static str, help: &'static str) -> Key<Gain> {
    Key::other(name, "1 over a power of two, 1 to 1/65536", help)
}

/// Returns a key whose value is a number above 0, at most 1: see [`Parameters::millionths`].
pub const fn share(name: &'static str, help: &'static str) -> Key<Millionths> {
    millionths(name, 1..=1_000_000, help)
}

/// Returns a key whose value is a number, with this range in millionths: see [`Parameters::millionths`].
pub const fn millionths(name: &'static str, range: RangeInclusive<u32>, help: &'static str) -> Key<Millionths> {
    let range = (Millionths(*range.start()), Millionths(*range.end()));
    Key::other_in(name, "number or fraction", range, help)
}

impl<'p> Parameters<'p> {
    /// Returns parameters in this network: given values, the first of each key, over those of a preset.
    pub fn new(network: Network, given: &'p [(&'p str, &'p str)], preset: Values) -> Parameters<'p> {
        Parameters { network, given, preset, wrong: RefCell::default() }
    }

    /// Returns parameters that are the same in all networks.
    pub(crate) fn defaults_over(given: &'p [(&'p str, &'p str)], preset: Values) -> Parameters<'p> {
        const ANY: Network = Network { line: BitRate::gbps(1), base_rtt: Span::from_micros(1) };
        Parameters::new(ANY, given, preset)
    }

    /// Returns these parameters over those of a preset.
    pub(crate) fn with_preset(self, preset: Values) -> Parameters<'p> {
        Parameters { preset, ..self }
    }

    /// Returns the network.
    pub fn network(&self) -> Network {
        self.network
    }

    /// Returns the invalid values.
    pub fn into_wrong(self) -> Vec<WrongValue> {
        self.wrong.into_inner()
    }

    /// Records that a key's value is invalid, or inconsistent with another's.
    pub fn refuse<T>(&self, key: &Key<T>, message: impl Into<String>, help: impl Into<String>) {
        self.wrong.borrow_mut().push(WrongValue { key: key.name, message: message.into(), help: help.into() });
    }

    /// Reads a rate: `40Mbps`, or a fraction of the line's, `line/1000`.
    pub fn rate(&self, key: &Key<BitRate>) -> BitRate {
        self.value(key, |text| {
            if let Some(divisor) = parse_divisor(text, "line") {
                return Ok(BitRate::bps((self.network.line.as_bps() / divisor).max(1)));
            }
            let what = "a rate with its unit, or a part of the line's";
            let rate = text.parse().map_err(|_| parse_failure(key.name, text, what, "\"40Mbps\" or \"line/1000\""))?;
            within(rate, key.range())
        })
    }

    /// Reads a time with its unit.
    pub fn time(&self, key: &Key<Span>) -> Span {
        self.value(key, |text| parsed(key.name, text).and_then(|time| within(time, key.range())))
    }

    /// Reads a time with its unit, or `none`.
    pub fn time_or_none(&self, key: &Key<Option<Span>>) -> Option<Span> {
        self.value(key, |text| match text {
            "none" => Ok(None),
            text => {
                let time = parsed(key.name, text)?;
                within(time, Some(&(*TIMES.start(), *TIMES.end()))).map(Some)
            }
        })
    }

    /// Reads T: by default the network's.
    pub fn base_rtt(&self, key: &Key<Span>) -> Span {
        self.optional(key, |text| parsed(key.name, text).and_then(|time| within(time, key.range())))
            .unwrap_or(self.network.base_rtt)
    }

    /// Reads a size with its unit.
    pub fn size(&self, key: &Key<Bytes>) -> Bytes {
        self.value(key, |text| parsed(key.name, text).and_then(|size| within(size, key.range())))
    }

    /// Reads a size with its unit, or a fraction of the line's bandwidth-delay product over `base_rtt`: `bdp/100`.
    pub fn size_or_part(&self, key: &Key<BdpSize>, base_rtt: Span) -> Bytes {
        self.value(key, |text| {
            if let Some(divisor) = parse_divisor(text, "bdp") {
                return Ok(self.network.line.bytes_in(base_rtt).divided_by(divisor));
            }
            let what = "a size with its unit, or a part of the bandwidth-delay product";
            text.parse().map_err(|_| parse_failure(key.name, text, what, "\"100B\" or \"bdp/100\""))
        })
    }

    /// Reads a window: a size with its unit, a fraction of the bandwidth-delay product, `bdp/2`, or `none`.
    pub fn window(&self, key: &Key<Option<Bytes>>) -> Option<Bytes> {
        self.value(key, |text| {
            if text == "none" {
                return Ok(None);
            }
            if let Some(divisor) = parse_divisor(text, "bdp") {
                return Ok(Some(
                    self.network.line.bytes_in(self.network.base_rtt).divided_by(divisor).max(Bytes::new(1)),
                ));
            }
            let what = "a size with its unit, a part of the bandwidth-delay product, or \"none\"";
            let size: Option<Bytes> = text.parse().ok().filter(|size| *size > Bytes::ZERO);
            size.map(Some).ok_or_else(|| parse_failure(key.name, text, what, "\"100KB\" or \"bdp\""))
        })
    }

    /// Reads a number in millionths: `0.95`, or `7/8`.
    pub fn millionths(&self, key: &Key<Millionths>) -> u32 {
        self.value(key, |text| {
            let number = number(text).ok_or_else(|| parse_failure(key.name, text, "a number", "0.95"))?;
            let millionths = (number * 1e6).round();
            match key.range() {
                Some((least, most)) if !(f64::from(least.0)..=f64::from(most.0)).contains(&millionths) => {
                    Err(out_of_range(&text, least, most))
                }
                _ => Ok(millionths as u32),
            }
        })
    }

    /// Reads a gain 2^-n, `1/256`, as n.
    pub fn gain(&self, key: &Key<Gain>) -> u8 {
        self.value(key, |text| {
            let inverse = number(text).filter(|gain| *gain > 0.0).map_or(0.0, |gain| 1.0 / gain);
            let shift = (0..=GAIN_SHIFT_MAX).find(|shift| inverse == f64::from(1u32 << shift));
            let what = "1 over a power of two, no less than 1/65536";
            shift.ok_or_else(|| parse_failure(key.name, text, what, "\"1/256\""))
        })
    }

    /// Reads an integer.
    pub fn integer(&self, key: &Key<u32>) -> u32 {
        self.value(key, |text| {
            let number: u64 = text.parse().map_err(|_| parse_failure(key.name, text, "a whole number", "5"))?;
            let range = key.range().map(|(least, most)| (u64::from(*least), u64::from(*most)));
            within(number, range.as_ref()).map(|number| number as u32)
        })
    }

    /// Reads one of several named values.
    pub fn choice<T: Copy>(&self, key: &Key<T>) -> T {
        self.value(key, |text| {
            let chosen = key.choices().iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
            chosen.ok_or_else(|| {
                let options: Vec<String> = key.choices().iter().map(|(word, _)| format!("\"{word}\"")).collect();
                (
                    format!("\"{text}\" is none of {}", options.join(", ")),
                    format!("write {} = {}", key.name, options[0]),
                )
            })
        })
    }

    /// Reads a boolean.
    pub fn boolean(&self, key: &Key<bool>) -> bool {
        self.value(key, |text| text.parse().map_err(|_| parse_failure(key.name, text, "true or false", "true")))
    }

    /// Reads a value with its type's own syntax.
    pub fn converted<T: FromStr<Err = UnitError>>(&self, key: &Key<T>) -> T {
        self.value(key, |text| parsed(key.name, text))
    }

    /// # Panics
    /// If the default is invalid: a bug in the program.
    fn value<K, T>(&self, key: &Key<K>, parse: impl Fn(&str) -> Result<T, ParseFailure>) -> T {
        self.optional(key, parse).unwrap_or_else(|| panic!("`{}` has no default", key.name))
    }

    fn optional<K, T>(&self, key: &Key<K>, parse: impl Fn(&str) -> Result<T, ParseFailure>) -> Option<T> {
        if let Some((_, text)) = self.given.iter().find(|(name, _)| *name == key.name) {
            match parse(text.trim()) {
                Ok(value) => return Some(value),
                Err((message, help)) => self.refuse(key, message, help),
            }
        }
        let of_preset = self.preset.iter().find(|(name, _)| *name == key.name).map(|(_, text)| *text);
        let default = of_preset.or(key.default)?;
        let value =
            parse(default).unwrap_or_else(|_| panic!("`{}`: the default \"{default}\" is no such value", key.name));
        Some(value)
    }
}

const GAIN_SHIFT_MAX: u8 = 16;

/// Returns the divisor n of `line/n`; 1 for `line`.
fn parse_divisor(text: &str, dividend: &str) -> Option<u64> {
    let rest = text.strip_prefix(dividend)?.trim_start();
    let Some(divisor) = rest.strip_prefix('/') else { return rest.is_empty().then_some(1) };
    divisor.trim().parse().ok().filter(|divisor| *divisor > 0)
}

/// Parses a decimal number, or a fraction of two.
fn number(text: &str) -> Option<f64> {
    let (over, under) = text.split_once('/').unwrap_or((text, "1"));
    let [over, under]: [f64; 2] = [over.trim().parse().ok()?, under.trim().parse().ok()?];
    Some(over / under).filter(|number| number.is_finite())
}

fn parsed<T: FromStr<Err = UnitError>>(key: &str, text: &str) -> Result<T, ParseFailure> {
    text.parse()
        .map_err(|error: UnitError| parse_failure(key, text, &error.expected, &format!("\"{}\"", error.example)))
}

fn parse_failure(key: &str, text: &str, expected: &str, example: &str) -> ParseFailure {
    (format!("\"{text}\" is not {expected}"), format!("write for example {key} = {example}"))
}

fn within<T: PartialOrd + Display>(value: T, range: Option<&(T, T)>) -> Result<T, ParseFailure> {
    match range {
        Some((least, most)) if value < *least || value > *most => Err(out_of_range(&value, least, most)),
        _ => Ok(value),
    }
}

fn out_of_range(value: &dyn Display, from: &dyn Display, to: &dyn Display) -> ParseFailure {
    (format!("{value} is out of range"), format!("write a value from {from} to {to}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: Network = Network { line: BitRate::gbps(100), base_rtt: Span::from_micros(10) };

    /// Reads a key with this value; the message and help if it is wrong.
    fn read<T>(text: &str, read: impl Fn(&Parameters<'_>) -> T) -> Result<T, ParseFailure> {
        let given = [("key", text)];
        let parameters = Parameters::new(NETWORK, &given, &[]);
        let value = read(&parameters);
        match parameters.into_wrong().pop() {
            None => Ok(value),
            Some(wrong) => Err((wrong.message, wrong.help)),
        }
    }

    #[test]
    fn rates_and_sizes_may_follow_the_network() {
        let rate = |text| read(text, |parameters| parameters.rate(&line_rate("key", "").or("line")));
        assert_eq!(rate("40Mbps"), Ok(BitRate::mbps(40)));
        assert_eq!((rate("line/1000"), rate("line")), (Ok(BitRate::mbps(100)), Ok(BitRate::gbps(100))));
        let (message, help) = rate("40").unwrap_err();
        assert_eq!(message, "\"40\" is not a rate with its unit, or a part of the line's");
        assert_eq!(help, "write for example key = \"40Mbps\" or \"line/1000\"");
        assert_eq!(rate("1bps").unwrap_err().1, "write a value from 8Kbps to 3200Gbps");
        assert!(rate("line/0").is_err() && rate("bdp/2").is_err());
        let base_rtt = Span::from_micros(10);
        let size = |text| read(text, |parameters| parameters.size_or_part(&bdp_size("key", "").or("bdp"), base_rtt));
        assert_eq!((size("bdp / 125"), size("2KB")), (Ok(Bytes::kb(1)), Ok(Bytes::kb(2))));
        assert!(size("40Mbps").is_err());
    }

    #[test]
    fn numbers_are_exact() {
        let gain = |text| read(text, |parameters| parameters.gain(&gain("key", "").or("1")));
        assert_eq!((gain("1/256"), gain("0.0625"), gain("1")), (Ok(8), Ok(4), Ok(0)));
        assert!(gain("1/3").is_err() && gain("0").is_err() && gain("2").is_err() && gain("x").is_err());
        let share = |text| read(text, |parameters| parameters.millionths(&share("key", "").or("1")));
        assert_eq!((share("0.95"), share("7/8")), (Ok(950_000), Ok(875_000)));
        let wrong = ("1.5 is out of range".to_owned(), "write a value from 0.000001 to 1".to_owned());
        assert_eq!(share("1.5"), Err(wrong));
        assert!(share("0").is_err() && share("-1").is_err() && share("1/0").is_err() && share("NaN").is_err());
    }

    #[test]
    fn ranges_are_those_of_the_keys() {
        let time = |text| read(text, |parameters| parameters.time_or_none(&time_or_none("key", "").or("none")));
        assert_eq!((time("none"), time("100ns")), (Ok(None), Ok(Some(Span::from_nanos(100)))));
        let (message, help) = time("1001s").unwrap_err();
        assert_eq!((message.as_str(), help.as_str()), ("1001s is out of range", "write a value from 100ns to 1000s"));
        let types = [
            line_rate("key", "").values(),
            share("key", "").values(),
            millionths("key", 1_001_000..=2_000_000, "").values(),
            base_rtt("").values(),
        ];
        assert_eq!(
            types,
            [
                "rate or `line/n`, 8Kbps to 3200Gbps",
                "number or fraction, 0.000001 to 1",
                "number or fraction, 1.001 to 2",
                "time, 1ns to 1s"
            ]
        );
        assert_eq!(time_or_none("key", "").values(), format!("{}, or `none`", Key::time("key", TIMES, "").values()));
    }

    #[test]
    fn a_file_goes_before_a_preset_and_that_before_the_default() {
        const KEY: Key<u32> = Key::<u32>::integer("f", 0..=9, "").or("5");
        let read = |given: &[(&str, &str)], preset| {
            let parameters = Parameters::new(NETWORK, given, preset);
            (parameters.integer(&KEY), parameters.into_wrong().len())
        };
        assert_eq!(read(&[], &[]), (5, 0));
        assert_eq!(read(&[], &[("f", "4")]), (4, 0));
        assert_eq!(read(&[("f", "3")], &[("f", "4")]), (3, 0));
        assert_eq!(read(&[("f", "10")], &[("f", "4")]), (4, 1), "what is wrong reads as the preset");
    }
}
