//! Entropy `bitmap`: a flow has 64 values, used in turn, in rounds of another order each. A mark or a loss makes a value skip rounds. As
//! uet-htsim's `bitmap`.

use weir_reader::Plugin;
use weir_units::{SplitMix64, Time};

use super::{EntropyKind, EntropySelector, PathFeedback, any};

pub(super) static KIND: BitmapKind = BitmapKind;

#[derive(Debug)]
pub(super) struct BitmapKind;

impl Plugin for BitmapKind {
    fn id(&self) -> &'static str {
        "bitmap"
    }
}

impl EntropyKind for BitmapKind {
    fn selector(&self, mut random: SplitMix64) -> Option<Box<dyn EntropySelector>> {
        let upper = any(&mut random) & !MASK;
        let order = any(&mut random) & MASK;
        Some(Box::new(Bitmap { random, upper, turn: 0, order, skips: [0; VALUES] }))
    }
}

/// Values of a flow.
const VALUES: usize = 64;
const MASK: u16 = VALUES as u16 - 1;
/// Rounds that a value skips after a mark, a loss, and a timeout; the latter is the maximum.
const SKIPS_MARKED: u8 = 1;
const SKIPS_LOST: u8 = 4;
const SKIPS_MAX: u8 = 15;

#[derive(Debug)]
struct Bitmap {
    random: SplitMix64,
    /// Bits that all values of the flow share.
    upper: u16,
    /// Turn in the round: the value is `turn` XOR `order`.
    turn: u16,
    order: u16,
    /// Rounds that each value is to skip.
    skips: [u8; VALUES],
}

impl Bitmap {
    fn next(&mut self) -> u16 {
        let value = (self.turn ^ self.order) & MASK;
        self.turn += 1;
        if self.turn == VALUES as u16 {
            (self.turn, self.order) = (0, any(&mut self.random) & MASK);
        }
        value
    }
}

impl EntropySelector for Bitmap {
    fn select(&mut self) -> u16 {
        let first = self.next();
        let mut value = first;
        if self.skips[usize::from(first)] > 0 {
            // Only the first value that a packet skips has its count lowered, as in htsim.
            self.skips[usize::from(first)] -= 1;
            value = self.next();
            let mut tries = VALUES;
            while tries > 0 && self.skips[usize::from(value)] > 0 {
                value = self.next();
                tries -= 1;
            }
        }
        self.upper | value
    }

    fn handle_feedback(&mut self, _now: Time, value: u16, feedback: PathFeedback) {
        let penalty = match feedback {
            PathFeedback::Arrived => 0,
            PathFeedback::Marked => SKIPS_MARKED,
            PathFeedback::Overtaken => SKIPS_LOST,
            PathFeedback::TimedOut => SKIPS_MAX,
        };
        let skips = &mut self.skips[usize::from(value & MASK)];
        *skips = (*skips + penalty).min(SKIPS_MAX);
    }
}
