//! Load balancing `round-robin`: each port in turn, a frame each.

use weir_reader::{Plugin, Table};

use crate::{EqualCostPorts, PathRequest, PathSelector, PathSelectorChoice, PathSelectorConfig, PathSelectorKind};

pub(crate) static KIND: RoundRobinPaths = RoundRobinPaths { turn: 0 };

/// Round robin over the ports, one for all destinations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundRobinPaths {
    turn: usize,
}

impl Plugin for RoundRobinPaths {
    fn id(&self) -> &'static str {
        "round-robin"
    }
}

impl PathSelectorKind for RoundRobinPaths {
    fn read(&self, _table: &Table<'_>) -> PathSelectorChoice {
        PathSelectorChoice::new(KIND)
    }
}

impl PathSelectorConfig for RoundRobinPaths {
    fn kind(&self) -> &'static str {
        self.id()
    }

    fn selector(&self) -> Option<Box<dyn PathSelector>> {
        Some(Box::new(*self))
    }
}

impl PathSelector for RoundRobinPaths {
    fn select(&mut self, _frame: PathRequest, ports: &mut dyn EqualCostPorts) -> usize {
        self.turn = self.turn.wrapping_add(1);
        self.turn % ports.ports().len()
    }
}
