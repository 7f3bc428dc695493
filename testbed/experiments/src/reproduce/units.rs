//! The units that measures and axes are shown in.

use std::str::FromStr;

use weir_units::Span;

/// Quantities, each with the ending of columns that hold it, and the units that it may be shown in: how many of the column's
/// make one.
const QUANTITIES: &[(&str, &[(&str, f64)])] = &[
    ("_bytes", &[("B", 1.0), ("KB", 1e3), ("MB", 1e6)]),
    ("_bps", &[("b/s", 1.0), ("Mb/s", 1e6), ("Gb/s", 1e9)]),
    ("_ns", &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)]),
    ("_us", &[("us", 1.0), ("ms", 1e3), ("s", 1e6)]),
    ("_permille", &[("permille", 1.0), ("%", 10.0), ("x", 1e3)]),
    ("_ppm", &[("ppm", 1.0), ("%", 1e4)]),
];

/// What a column's values are divided by to be in a unit. A column without a unit of its own, such as a counter, is as it is, in
/// whatever unit.
///
/// # Errors
/// The column has another quantity: the units that it may have.
pub(super) fn divisor(column: &str, unit: &str) -> Result<f64, String> {
    let ending = |quantity: &&(&str, &[(&str, f64)])| column.rsplit('.').any(|key| key.ends_with(quantity.0));
    let Some((_, units)) = QUANTITIES.iter().find(ending) else { return Ok(1.0) };
    match units.iter().find(|(name, _)| *name == unit) {
        Some((_, divisor)) => Ok(*divisor),
        None => Err(units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")),
    }
}

/// The unit in which a column with values up to this one is shown best, and what its values are divided by.
pub(crate) fn column_unit(column: &str, largest: f64) -> (&'static str, f64) {
    let ending = |quantity: &&(&str, &[(&str, f64)])| column.rsplit('.').any(|key| key.ends_with(quantity.0));
    match QUANTITIES.iter().find(ending) {
        None => ("", 1.0),
        // Slowdowns are told as times.
        Some(("_permille", _)) if column.contains("slowdown") => ("x", 1e3),
        Some((_, units)) => {
            let fits = units.iter().rev().find(|(_, divisor)| largest >= *divisor);
            fits.copied().unwrap_or(units[0])
        }
    }
}

/// A time as scenarios write it, in seconds.
pub(super) fn seconds(text: &str) -> Option<f64> {
    Some(Span::from_str(text).ok()?.as_nanos() as f64 / 1e9)
}

/// A time as scenarios write it, in the microseconds of series.csv.
pub(super) fn micros(text: &str) -> Option<f64> {
    Some(Span::from_str(text).ok()?.as_nanos() as f64 / 1e3)
}

/// A number with as many digits as tell something: four, and no zeros behind the point.
pub(super) fn shown(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    // Counted, since logarithms of the standard library differ between machines.
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
