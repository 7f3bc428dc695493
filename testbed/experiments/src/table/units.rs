//! Units of measures and axes.

use std::str::FromStr;

use weir_units::Span;

/// Quantities: the suffix of their columns, and units with their size in the column's unit.
const QUANTITIES: &[(&str, &[(&str, f64)])] = &[
    ("_bytes", &[("B", 1.0), ("KB", 1e3), ("MB", 1e6)]),
    ("_bps", &[("b/s", 1.0), ("Mb/s", 1e6), ("Gb/s", 1e9)]),
    ("_ns", &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)]),
    ("_us", &[("us", 1.0), ("ms", 1e3), ("s", 1e6)]),
    ("_permille", &[("permille", 1.0), ("%", 10.0), ("x", 1e3)]),
    ("_ppm", &[("ppm", 1.0), ("%", 1e4)]),
];

/// Divisor that converts a column's values to a unit. A column without a unit, such as a counter, is not converted.
///
/// # Errors
/// The unit is of another quantity: the units of the column.
pub(crate) fn divisor(column: &str, unit: &str) -> Result<f64, String> {
    let ending = |quantity: &&(&str, &[(&str, f64)])| column.rsplit('.').any(|key| key.ends_with(quantity.0));
    let Some((_, units)) = QUANTITIES.iter().find(ending) else { return Ok(1.0) };
    match units.iter().find(|(name, _)| *name == unit) {
        Some((_, divisor)) => Ok(*divisor),
        None => Err(units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")),
    }
}

/// Unit for a column with values up to `largest`, and the divisor of its values.
pub(crate) fn column_unit(column: &str, largest: f64) -> (&'static str, f64) {
    let ending = |quantity: &&(&str, &[(&str, f64)])| column.rsplit('.').any(|key| key.ends_with(quantity.0));
    match QUANTITIES.iter().find(ending) {
        None => ("", 1.0),
        // Slowdowns are shown as multiples.
        Some(("_permille", _)) if column.contains("slowdown") => ("x", 1e3),
        Some((_, units)) => {
            let fits = units.iter().rev().find(|(_, divisor)| largest >= *divisor);
            fits.copied().unwrap_or(units[0])
        }
    }
}

/// Parses a time in a scenario's syntax to seconds.
pub(crate) fn seconds(text: &str) -> Option<f64> {
    Some(Span::from_str(text).ok()?.as_nanos() as f64 / 1e9)
}

/// Parses a time in a scenario's syntax to microseconds, the unit of series.csv.
pub(crate) fn micros(text: &str) -> Option<f64> {
    Some(Span::from_str(text).ok()?.as_nanos() as f64 / 1e3)
}

/// Formats a number with four significant digits, without trailing zeros.
pub(crate) fn shown(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    // A loop, since the standard library's logarithms differ between machines.
    let (mut decimals, mut power) = (3_usize, 10.0);
    while value.abs() >= power && decimals > 0 {
        (decimals, power) = (decimals - 1, power * 10.0);
    }
    power = 1.0;
    while value.abs() < power && decimals < 9 {
        (decimals, power) = (decimals + 1, power / 10.0);
    }
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_converted_by_their_endings() {
        assert_eq!(divisor("ports.S1.classes.0.ingress_max_bytes", "KB"), Ok(1e3));
        assert_eq!(divisor("flows.F1.throughput_bps", "Gb/s"), Ok(1e9));
        assert_eq!(divisor("traffic.W1.bins.all.fct_ns.p99", "ms"), Ok(1e6));
        assert_eq!(divisor("traffic.W1.bins.all.slowdown_permille.mean", "x"), Ok(1e3));
        assert_eq!(divisor("S1.p.3.rx_bps", "Mb/s"), Ok(1e6));
        assert_eq!(divisor("pauses_sent", "PAUSEs"), Ok(1.0));
        assert_eq!(divisor("flows.F1.throughput_bps", "KB"), Err("b/s, Mb/s, Gb/s".to_owned()));
    }

    #[test]
    fn a_columns_unit_is_the_largest_that_its_values_reach() {
        assert_eq!(column_unit("flows.F1.throughput_bps", 5e9), ("Gb/s", 1e9));
        assert_eq!(column_unit("traffic.W1.bins.all.fct_ns.p99", 5e5), ("us", 1e3));
        assert_eq!(column_unit("traffic.W1.bins.all.slowdown_permille.p99", 5e5), ("x", 1e3));
        assert_eq!([column_unit("ingress_max_bytes", 0.0), column_unit("pauses_sent", 9.0)], [("B", 1.0), ("", 1.0)]);
    }

    #[test]
    fn numbers_have_four_digits_at_most() {
        let of = [884.0, 0.21, 1.0 / 3.0, 12_345.6, 0.0, -4.99, 1e-5, 840.26].map(shown);
        assert_eq!(of, ["884", "0.21", "0.3333", "12346", "0", "-4.99", "0.00001", "840.3"]);
    }

    #[test]
    fn times_are_those_of_scenarios() {
        assert_eq!([seconds("40s"), seconds("1.5ms"), seconds("40")], [Some(40.0), Some(0.0015), None]);
        assert_eq!(micros("20ms"), Some(20_000.0));
    }
}
