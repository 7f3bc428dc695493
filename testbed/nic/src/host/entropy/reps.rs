//! Entropy `reps`: REPS of Bonato et al. (2024). A flow reuses the values of packets that arrived unmarked, each once, and draws others.
//! After a timeout it reuses the last good values in turn. Sizes and times are uet-htsim's.

use weir_reader::Plugin;
use weir_units::{Span, SplitMix64, Time};

use super::{EntropyKind, EntropySelector, PathFeedback, any};

pub(super) static KIND: RepsKind = RepsKind;

#[derive(Debug)]
pub(super) struct RepsKind;

impl Plugin for RepsKind {
    fn id(&self) -> &'static str {
        "reps"
    }
}

impl EntropyKind for RepsKind {
    fn selector(&self, random: SplitMix64) -> Option<Box<dyn EntropySelector>> {
        Some(Box::new(Reps { random, good: GoodValues::default(), frozen_until: None, next_frozen: 0, draws: 0 }))
    }
}

/// Values that a flow remembers.
const VALUES: usize = 8;
/// Time for which a flow draws no values after a timeout.
const FREEZE: Span = Span::from_millis(10);
/// Packets with drawn values after that time.
const DRAWS: u32 = 16;

#[derive(Debug)]
struct Reps {
    random: SplitMix64,
    good: GoodValues,
    /// End of the time in which no values are drawn.
    frozen_until: Option<Time>,
    /// Index of the next value in that time.
    next_frozen: usize,
    /// Number of packets to send with drawn values.
    draws: u32,
}

/// Last values of packets that arrived unmarked.
#[derive(Debug, Default)]
struct GoodValues {
    /// Values, and whether each has not been reused yet.
    values: [(u16, bool); VALUES],
    /// Index of the next value to replace.
    head: usize,
    count: usize,
}

impl GoodValues {
    fn insert(&mut self, value: u16) {
        self.values[self.head] = (value, true);
        self.head = (self.head + 1) % VALUES;
        self.count = (self.count + 1).min(VALUES);
    }

    /// Takes the oldest value that has not been reused.
    fn take_unused(&mut self) -> Option<u16> {
        let oldest = (0..VALUES).map(|after| (self.head + after) % VALUES).find(|index| self.values[*index].1)?;
        Some(self.take(oldest))
    }

    fn take(&mut self, index: usize) -> u16 {
        self.values[index].1 = false;
        self.values[index].0
    }
}

impl EntropySelector for Reps {
    fn select(&mut self) -> u16 {
        if self.draws > 0 {
            self.draws -= 1;
            return any(&mut self.random);
        }
        if self.frozen_until.is_some() && self.good.count > 0 {
            let index = self.next_frozen % self.good.count;
            self.next_frozen = index + 1;
            return self.good.take(index);
        }
        self.good.take_unused().unwrap_or_else(|| any(&mut self.random))
    }

    fn handle_feedback(&mut self, now: Time, value: u16, feedback: PathFeedback) {
        if feedback == PathFeedback::TimedOut && self.frozen_until.is_none() && self.draws == 0 {
            self.frozen_until = Some(now.saturating_add(FREEZE));
        }
        if self.frozen_until.is_some_and(|until| now > until) {
            (self.frozen_until, self.next_frozen, self.draws) = (None, 0, DRAWS);
            self.good = GoodValues::default();
        }
        if feedback == PathFeedback::Arrived {
            self.good.insert(value);
        }
    }
}
