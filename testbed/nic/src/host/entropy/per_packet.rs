//! Entropy `per-packet`: each packet has a random value.

use weir_reader::Plugin;
use weir_units::{SplitMix64, Time};

use super::{EntropyKind, EntropySelector, PathFeedback, any};

pub(super) static KIND: PerPacket = PerPacket;

#[derive(Debug)]
pub(super) struct PerPacket;

impl Plugin for PerPacket {
    fn id(&self) -> &'static str {
        "per-packet"
    }
}

impl EntropyKind for PerPacket {
    fn selector(&self, random: SplitMix64) -> Option<Box<dyn EntropySelector>> {
        Some(Box::new(RandomValues(random)))
    }
}

#[derive(Debug)]
struct RandomValues(SplitMix64);

impl EntropySelector for RandomValues {
    fn select(&mut self) -> u16 {
        any(&mut self.0)
    }

    fn handle_feedback(&mut self, _now: Time, _value: u16, _feedback: PathFeedback) {}
}
