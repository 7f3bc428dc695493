//! Interruption of measurements.

use std::ops::ControlFlow;

use serde::Serialize;

/// Callback that receives the next measurement and returns whether to continue. After a break, finished
/// measurements are reported.
pub type ProgressCallback<'t> = dyn FnMut(&NextMeasurement<'_>) -> ControlFlow<()> + 't;

/// Next measurement.
#[derive(Clone, Copy, Debug)]
pub struct NextMeasurement<'w> {
    /// Description of the measurement.
    pub what: &'w str,
    /// Number of finished measurements, each of about equal duration.
    pub done: usize,
    /// Number of planned measurements.
    pub planned: usize,
}

/// Progress of an interrupted measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interrupted {
    /// Number of finished measurements.
    pub done: usize,
    /// Number of planned measurements.
    pub planned: usize,
    /// Number of unfinished rounds; `None` for a measurement without rounds.
    pub rounds_left: Option<usize>,
    /// Unfinished frame sizes, in a measurement of sizes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frame_bytes_left: Vec<u16>,
}

impl Interrupted {
    /// Returns the progress after this many finished rounds of each item; `None` if all are finished.
    pub(crate) fn after_rounds(rounds: usize, finished: impl Iterator<Item = usize>) -> Option<Interrupted> {
        let finished: Vec<usize> = finished.collect();
        let full_rounds = finished.iter().min().copied().unwrap_or(0);
        let (done, planned) = (finished.iter().sum(), rounds * finished.len());
        (done < planned).then(|| Interrupted {
            done,
            planned,
            rounds_left: Some(rounds - full_rounds),
            frame_bytes_left: Vec::new(),
        })
    }

    /// Returns the progress in these frame sizes, of which the first `done` are finished.
    pub(crate) fn after_sizes(sizes: &[u16], done: usize) -> Interrupted {
        Interrupted { done, planned: sizes.len(), rounds_left: None, frame_bytes_left: sizes[done..].to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_in_hand_is_left() {
        let after = |rounds, finished: &[usize]| Interrupted::after_rounds(rounds, finished.iter().copied());
        let interrupted = |done, planned, rounds| {
            Some(Interrupted { done, planned, rounds_left: Some(rounds), frame_bytes_left: Vec::new() })
        };
        assert_eq!(after(5, &[3, 3, 2]), interrupted(8, 15, 3));
        assert_eq!(after(1, &[0]), interrupted(0, 1, 1));
        assert_eq!(after(2, &[2, 2]), None);
    }
}
