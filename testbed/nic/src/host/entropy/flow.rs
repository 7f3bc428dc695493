//! Entropy `flow`: all packets of a flow have one value, and keep their order.

use weir_reader::Plugin;
use weir_units::SplitMix64;

use super::{EntropyKind, EntropySelector};

pub(super) static KIND: PerFlow = PerFlow;

#[derive(Debug)]
pub(super) struct PerFlow;

impl Plugin for PerFlow {
    fn id(&self) -> &'static str {
        "flow"
    }
}

impl EntropyKind for PerFlow {
    fn selector(&self, _random: SplitMix64) -> Option<Box<dyn EntropySelector>> {
        None
    }
}
