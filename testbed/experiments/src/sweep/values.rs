//! Values of a parameter: a list, or a range in exact decimals.

use std::fmt;

use toml::{Table, Value};

pub(super) const VALUES_MAX: usize = 100_000;
/// Maximum number of seeds that is written as a number, as of the option `--seeds`.
const SEEDS_MAX: i64 = 10_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ValuesError {
    pub message: String,
    pub help: String,
}

/// Values of a list, of a range `{ from, to, step }` or `{ from, count, step }`, or a single value.
pub(super) fn values(of: &Value) -> Result<Vec<Value>, ValuesError> {
    match of {
        Value::Array(list) if list.is_empty() => Err(wrong("an empty list makes no run", "write one value at least")),
        Value::Array(list) if list.len() > VALUES_MAX => Err(too_many()),
        Value::Array(list) => Ok(list.clone()),
        Value::Table(range) => range_of(range, None),
        one => Ok(vec![one.clone()]),
    }
}

/// Parses seeds: a list, a range as [`values`] has it, whose default step is 1, or their number, from 1 on.
pub(super) fn seeds(of: &Value) -> Result<Vec<u32>, ValuesError> {
    let help = "write for example seeds = 20, seeds = [1, 2, 3] or seeds = { from = 1, count = 20 }";
    let list = match of {
        Value::Table(range) => range_of(range, Some(Value::Integer(1)))?,
        Value::Integer(count @ 1..=SEEDS_MAX) => (1..=*count).map(Value::Integer).collect(),
        Value::Integer(_) => {
            return Err(wrong(&format!("the number of seeds is from 1 to {SEEDS_MAX}"), help));
        }
        other => values(other)?,
    };
    let seed = |value: &Value| value.as_integer().and_then(|seed| u32::try_from(seed).ok());
    let seeds: Option<Vec<u32>> = list.iter().map(seed).collect();
    let seeds = seeds.ok_or_else(|| wrong("a seed is a whole number from 0 to 4294967295", help))?;
    let mut sorted = seeds.clone();
    sorted.sort_unstable();
    match sorted.windows(2).find(|two| two[0] == two[1]) {
        Some(twice) => Err(wrong(&format!("seed {} is listed twice", twice[0]), "leave one of them out")),
        None => Ok(seeds),
    }
}

/// Decimal number `digits` / 10^`places`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decimal {
    digits: i128,
    places: u32,
}

/// Form of a number in the file, which the range's values keep.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NumberForm {
    Integer,
    Float,
    /// String with this unit.
    Quantity(String),
}

fn range_of(range: &Table, step: Option<Value>) -> Result<Vec<Value>, ValuesError> {
    const EXAMPLE: &str =
        "write for example { from = 0.1, to = 0.9, step = 0.1 } or { from = 1, count = 20, step = 1 }";
    if let Some(key) = range.keys().find(|key| !["from", "to", "step", "count"].contains(&key.as_str())) {
        return Err(wrong(&format!("a range has no `{key}`"), EXAMPLE));
    }
    let (Some(from), Some(step)) = (range.get("from"), range.get("step").cloned().or(step)) else {
        return Err(wrong("a range has `from` and `step`, and `to` or `count`", EXAMPLE));
    };
    let (from, of_from) = number("from", from)?;
    let (step, of_step) = number("step", &step)?;
    let (end, of_end) = match (range.get("to"), range.get("count")) {
        (Some(to), None) => {
            let (to, kind) = number("to", to)?;
            (RangeEnd::To(to), kind)
        }
        (None, Some(count)) => {
            let count = count.as_integer().and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
            let count = count.ok_or_else(|| wrong("`count` is a whole number from 1 on", EXAMPLE))?;
            (RangeEnd::Count(count), of_from.clone())
        }
        _ => return Err(wrong("a range has one of `to` and `count`", EXAMPLE)),
    };
    let kind = common([of_from, of_step, of_end])?;
    Ok(steps(from, step, end)?.into_iter().map(|value| kind.write(value)).collect())
}

#[derive(Clone, Copy, Debug)]
enum RangeEnd {
    To(Decimal),
    Count(usize),
}

/// All steps, up to and including the end if a step meets it.
fn steps(from: Decimal, step: Decimal, end: RangeEnd) -> Result<Vec<Decimal>, ValuesError> {
    let places = from.places.max(step.places).max(if let RangeEnd::To(to) = end { to.places } else { 0 });
    let [first, by] = [from, step].map(|decimal| decimal.digits_at(places));
    let count = match end {
        RangeEnd::Count(count) => count as i128,
        RangeEnd::To(_) if by == 0 => return Err(wrong("a step of 0 never gets to the end", "write another `step`")),
        RangeEnd::To(to) => {
            let distance = to.digits_at(places) - first;
            if distance != 0 && distance.signum() != by.signum() {
                return Err(wrong(
                    "the step leads away from the end",
                    "write `from`, `to` and `step` so that `to` is `from` plus whole steps",
                ));
            }
            distance / by + 1
        }
    };
    if by == 0 && count > 1 {
        return Err(wrong("a step of 0 makes the same value again", "write another `step`"));
    }
    if count > VALUES_MAX as i128 {
        return Err(too_many());
    }
    Ok((0..count).map(|n| Decimal { digits: first + n * by, places }).collect())
}

/// Parses a number: `0.1`, `10`, `"10KB"`. Limits on its length keep decimals exact.
fn number(key: &str, value: &Value) -> Result<(Decimal, NumberForm), ValuesError> {
    let (text, kind) = match value {
        Value::Integer(n) => (n.to_string(), NumberForm::Integer),
        // Shortest decimal with the same value: the original text, but for zeros.
        Value::Float(x) => (x.to_string(), NumberForm::Float),
        Value::String(text) => {
            let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || ".-_".contains(c));
            let is_unit = unit.bytes().all(|byte| byte.is_ascii_alphabetic());
            let number = if is_unit { &text[..text.len() - unit.len()] } else { "" };
            (number.replace('_', ""), NumberForm::Quantity(unit.to_owned()))
        }
        _ => (String::new(), NumberForm::Integer),
    };
    let decimal = Decimal::parse(&text).ok_or_else(|| {
        let help =
            "write a number, or one with its unit in a string: 0.1, 10, \"10KB\"; list other values: [\"a\", \"b\"]";
        wrong(&format!("`{key}` is no number that a range can count by"), help)
    })?;
    Ok((decimal, kind))
}

/// Common form of all three numbers; a range of integers may have decimal steps.
fn common(kinds: [NumberForm; 3]) -> Result<NumberForm, ValuesError> {
    let is_number = |kind: &NumberForm| !matches!(kind, NumberForm::Quantity(_));
    if kinds.iter().all(is_number) {
        return Ok(if kinds.contains(&NumberForm::Float) { NumberForm::Float } else { NumberForm::Integer });
    }
    if kinds.iter().all(|kind| *kind == kinds[0]) {
        return Ok(kinds[0].clone());
    }
    Err(wrong(
        "the numbers of a range have different units",
        "write the same unit in all of them: { from = \"10KB\", to = \"50KB\", step = \"10KB\" }",
    ))
}

impl NumberForm {
    fn write(&self, decimal: Decimal) -> Value {
        match self {
            NumberForm::Integer => Value::Integer(i64::try_from(decimal.digits).unwrap_or(i64::MAX)),
            NumberForm::Float => Value::Float(decimal.to_string().parse().expect("digits and a point")),
            NumberForm::Quantity(unit) => Value::String(format!("{decimal}{unit}")),
        }
    }
}

impl Decimal {
    /// Limits of decimal places and digits; scenarios have no longer numbers.
    const PLACES_MAX: usize = 12;
    const DIGITS_MAX: usize = 18;

    fn parse(text: &str) -> Option<Decimal> {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let (integer, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let all = format!("{integer}{fraction}");
        let is_decimal = !integer.is_empty() && all.bytes().all(|byte| byte.is_ascii_digit());
        if !is_decimal || integer.len() > Self::DIGITS_MAX || fraction.len() > Self::PLACES_MAX {
            return None;
        }
        let digits: i128 = all.parse().ok()?;
        let sign = if unsigned.len() < text.len() { -1 } else { 1 };
        Some(Decimal { digits: sign * digits, places: fraction.len() as u32 })
    }

    fn digits_at(self, places: u32) -> i128 {
        self.digits * 10_i128.pow(places - self.places)
    }
}

impl fmt::Display for Decimal {
    /// Formats without trailing zeros.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = 10_i128.pow(self.places);
        let sign = if self.digits < 0 { "-" } else { "" };
        let (integer, fraction) = (self.digits.abs() / unit, self.digits.abs() % unit);
        write!(f, "{sign}{integer}")?;
        if fraction == 0 {
            return Ok(());
        }
        let fraction = format!("{fraction:0>width$}", width = self.places as usize);
        write!(f, ".{}", fraction.trim_end_matches('0'))
    }
}

fn too_many() -> ValuesError {
    wrong(&format!("more than {VALUES_MAX} values"), "write a larger step, or several sweeps")
}

fn wrong(message: &str, help: &str) -> ValuesError {
    ValuesError { message: message.to_owned(), help: help.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_values(text: &str) -> Result<Vec<String>, String> {
        let table: Table = format!("x = {text}").parse().unwrap();
        let values = values(&table["x"]).map_err(|wrong| wrong.message)?;
        Ok(values.iter().map(Value::to_string).collect())
    }

    #[test]
    fn ranges_have_no_drift() {
        let tenths = parse_values("{ from = 0.1, to = 0.9, step = 0.1 }").unwrap();
        assert_eq!(tenths.join(" "), "0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9");
        for (range, values) in [
            ("{ from = 1, to = 2, step = 0.25 }", "1.0 1.25 1.5 1.75 2.0"),
            ("{ from = 0.1, to = 0.8, step = 0.3 }", "0.1 0.4 0.7"),
            ("{ from = 10, to = -10, step = -10 }", "10 0 -10"),
            ("{ from = 5, count = 3, step = 5 }", "5 10 15"),
            ("{ from = 7, to = 7, step = 1 }", "7"),
            ("{ from = \"10KB\", to = \"30KB\", step = \"10KB\" }", "\"10KB\" \"20KB\" \"30KB\""),
            ("{ from = \"0.5us\", count = 3, step = \"0.25us\" }", "\"0.5us\" \"0.75us\" \"1us\""),
            ("[\"1/16\", \"1/8\"]", "\"1/16\" \"1/8\""),
            ("9000", "9000"),
        ] {
            assert_eq!(parse_values(range).unwrap().join(" "), values, "{range}");
        }
    }

    #[test]
    fn invalid_ranges_have_distinct_errors() {
        for (range, message) in [
            ("[]", "an empty list makes no run"),
            ("{ from = 1, to = 2 }", "a range has `from` and `step`, and `to` or `count`"),
            ("{ from = 1, step = 1 }", "a range has one of `to` and `count`"),
            ("{ from = 1, to = 2, count = 2, step = 1 }", "a range has one of `to` and `count`"),
            ("{ from = 1, until = 2, step = 1 }", "a range has no `until`"),
            ("{ from = 1, to = 2, step = 0 }", "a step of 0 never gets to the end"),
            ("{ from = 1, count = 2, step = 0.0 }", "a step of 0 makes the same value again"),
            ("{ from = 1, to = 2, step = -1 }", "the step leads away from the end"),
            ("{ from = 1, count = 0, step = 1 }", "`count` is a whole number from 1 on"),
            ("{ from = \"1KB\", to = \"2MB\", step = \"1KB\" }", "the numbers of a range have different units"),
            ("{ from = \"1KB\", to = \"2KB\", step = 1 }", "the numbers of a range have different units"),
            ("{ from = \"1/16\", to = 1, step = 1 }", "`from` is no number that a range can count by"),
            ("{ from = true, to = 2, step = 1 }", "`from` is no number that a range can count by"),
            ("{ from = 1, to = nan, step = 1 }", "`to` is no number that a range can count by"),
            ("{ from = 0, to = 1.0, step = 0.0000001 }", "more than 100000 values"),
        ] {
            assert_eq!(parse_values(range), Err(message.to_owned()), "{range}");
        }
    }

    #[test]
    fn seeds_are_distinct_integers() {
        let of = |text: &str| {
            let table: Table = format!("x = {text}").parse().unwrap();
            seeds(&table["x"]).map_err(|wrong| wrong.message)
        };
        assert_eq!(of("{ from = 1, count = 3 }"), Ok(vec![1, 2, 3]));
        assert_eq!(of("{ from = 0, to = 4, step = 2 }"), Ok(vec![0, 2, 4]));
        assert_eq!(of("5"), Ok(vec![1, 2, 3, 4, 5]));
        for bad in ["0", "-1", "10001"] {
            assert_eq!(of(bad), Err("the number of seeds is from 1 to 10000".to_owned()), "{bad}");
        }
        assert_eq!(of("[4294967295, 0]"), Ok(vec![4_294_967_295, 0]));
        for bad in ["[-1]", "[4294967296]", "[0.5]", "[\"a\"]"] {
            assert_eq!(of(bad), Err("a seed is a whole number from 0 to 4294967295".to_owned()), "{bad}");
        }
        assert_eq!(of("[1, 2, 1]"), Err("seed 1 is listed twice".to_owned()));
    }
}
