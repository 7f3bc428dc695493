//! Measurements that are ended before their end.

use std::ops::ControlFlow;

use serde::Serialize;

/// Is told what is measured next, and says whether to go on. If not, what was finished is reported.
pub type Tell<'t> = dyn FnMut(&Next<'_>) -> ControlFlow<()> + 't;

/// The next measurement.
#[derive(Clone, Copy, Debug)]
pub struct Next<'w> {
    /// In words.
    pub what: &'w str,
    /// Finished measurements, about as long as each of the others.
    pub done: usize,
    /// Measurements that are planned.
    pub planned: usize,
}

/// What there is of a measurement that was ended before its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interrupted {
    /// Finished measurements.
    pub done: usize,
    /// Measurements that were planned.
    pub planned: usize,
    /// Rounds that are not finished; `None` of a measurement without rounds.
    pub rounds_left: Option<usize>,
    /// Frame sizes that are not finished, of a measurement of sizes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frame_bytes_left: Vec<u16>,
}

impl Interrupted {
    /// With so many rounds of several things, of which so many rounds each are finished; `None` if all are.
    pub(crate) fn after_rounds(rounds: usize, finished: impl Iterator<Item = usize>) -> Option<Interrupted> {
        let finished: Vec<usize> = finished.collect();
        let whole = finished.iter().min().copied().unwrap_or(0);
        let (done, planned) = (finished.iter().sum(), rounds * finished.len());
        (done < planned).then(|| Interrupted {
            done,
            planned,
            rounds_left: Some(rounds - whole),
            frame_bytes_left: Vec::new(),
        })
    }

    /// With these frame sizes, of which the first are finished.
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
