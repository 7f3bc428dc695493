//! Minimum, median and maximum of the rounds of a measurement.

use serde::Serialize;

/// Minimum, median and maximum over the rounds of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Minimum.
    pub min: f64,
    /// Median; the upper one for an even number of rounds.
    pub median: f64,
    /// Maximum.
    pub max: f64,
}

impl Spread {
    /// Returns the spread of these values.
    ///
    /// # Panics
    /// If there are no values.
    pub fn from_values(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Spread { min: values[0], median: values[values.len() / 2], max: values[values.len() - 1] }
    }

    /// Converts each of the three values, and sorts the results.
    pub fn map(self, convert: impl Fn(f64) -> f64) -> Spread {
        Spread::from_values([self.min, self.median, self.max].map(convert))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_put_in_order() {
        assert_eq!(Spread::from_values([3.0, 1.0, 2.0]), Spread { min: 1.0, median: 2.0, max: 3.0 });
        // Nanoseconds a packet are least where packets a second are most.
        assert_eq!(
            Spread::from_values([4.0, 1.0, 2.0]).map(|rate| 8.0 / rate),
            Spread { min: 2.0, median: 4.0, max: 8.0 }
        );
    }
}
