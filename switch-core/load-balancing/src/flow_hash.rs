//! Load balancing `flow-hash`: all frames of a flow take the port that its hash picks (ECMP).

use weir_reader::{Plugin, Table};

use crate::{PathSelector, PathSelectorChoice, PathSelectorConfig, PathSelectorKind};

/// Hash of the flow: both the kind and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowHash;

impl Plugin for FlowHash {
    fn id(&self) -> &'static str {
        "flow-hash"
    }
}

impl PathSelectorKind for FlowHash {
    fn read(&self, _table: &Table<'_>) -> PathSelectorChoice {
        PathSelectorChoice::new(FlowHash)
    }

    fn reorders(&self) -> bool {
        false
    }
}

impl PathSelectorConfig for FlowHash {
    fn kind(&self) -> &'static str {
        self.id()
    }

    fn selector(&self) -> Option<Box<dyn PathSelector>> {
        None
    }
}
