//! Least, median and most of the rounds of a measurement.

use serde::Serialize;

/// What rounds of one measurement came to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The median; the higher one of an even number of rounds.
    pub median: f64,
    /// The most.
    pub max: f64,
}

impl Spread {
    /// The spread of some values.
    ///
    /// # Panics
    /// If there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Spread { min: values[0], median: values[values.len() / 2], max: values[values.len() - 1] }
    }

    /// Each of the three, converted.
    pub fn map(self, convert: impl Fn(f64) -> f64) -> Spread {
        Spread::of([self.min, self.median, self.max].map(convert))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_put_in_order() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { min: 1.0, median: 2.0, max: 3.0 });
        // Nanoseconds a packet are least where packets a second are most.
        assert_eq!(Spread::of([4.0, 1.0, 2.0]).map(|rate| 8.0 / rate), Spread { min: 2.0, median: 4.0, max: 8.0 });
    }
}
