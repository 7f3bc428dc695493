//! Load balancing `shortest-queue`: each frame takes the port whose egress queue of its class is shortest, of those that can send.

use weir_reader::{Plugin, Table};

use crate::{
    EqualCostPorts, PathRequest, PathSelector, PathSelectorChoice, PathSelectorConfig, PathSelectorKind, load,
};

pub(crate) static KIND: ShortestQueue = ShortestQueue { last: 0 };

#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortestQueue {
    /// Index of the last frame's port; of equal queues that of the next port is taken, as its wire is more likely free.
    last: usize,
}

impl Plugin for ShortestQueue {
    fn id(&self) -> &'static str {
        "shortest-queue"
    }
}

impl PathSelectorKind for ShortestQueue {
    fn read(&self, _table: &Table<'_>) -> PathSelectorChoice {
        PathSelectorChoice::new(KIND)
    }
}

impl PathSelectorConfig for ShortestQueue {
    fn kind(&self) -> &'static str {
        self.id()
    }

    fn selector(&self) -> Option<Box<dyn PathSelector>> {
        Some(Box::new(*self))
    }
}

impl PathSelector for ShortestQueue {
    fn select(&mut self, _frame: PathRequest, ports: &mut dyn EqualCostPorts) -> usize {
        let count = ports.ports().len();
        let in_turn = (1..=count).map(|n| (self.last + n) % count);
        // Of equal ones `min_by_key` returns the first.
        self.last = in_turn.min_by_key(|index| load(ports, *index)).unwrap_or(0);
        self.last
    }
}
