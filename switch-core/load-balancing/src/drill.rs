//! Load balancing `drill`: DRILL(2, 1) of Ghorbani et al. (SIGCOMM 2017). Each frame takes the shortest of two drawn queues and of
//! the queue that the forwarder's last frame took.

use weir_reader::{Plugin, Table};

use crate::{
    EqualCostPorts, PathRequest, PathSelector, PathSelectorChoice, PathSelectorConfig, PathSelectorKind, load,
};

pub(crate) static KIND: Drill = Drill { best: 0 };

#[derive(Clone, Copy, Debug)]
pub(crate) struct Drill {
    /// Index of the last frame's port among those of its destination.
    best: usize,
}

impl Plugin for Drill {
    fn id(&self) -> &'static str {
        "drill"
    }
}

impl PathSelectorKind for Drill {
    fn read(&self, _table: &Table<'_>) -> PathSelectorChoice {
        PathSelectorChoice::new(KIND)
    }
}

impl PathSelectorConfig for Drill {
    fn kind(&self) -> &'static str {
        self.id()
    }

    fn selector(&self) -> Option<Box<dyn PathSelector>> {
        Some(Box::new(*self))
    }
}

impl PathSelector for Drill {
    fn select(&mut self, _frame: PathRequest, ports: &mut dyn EqualCostPorts) -> usize {
        let count = ports.ports().len() as u32;
        let drawn = [ports.below(count) as usize, ports.below(count) as usize];
        // Groups of ports differ in size.
        let remembered = (self.best < count as usize).then_some(self.best);
        self.best = drawn.into_iter().chain(remembered).min_by_key(|index| load(ports, *index)).unwrap_or(0);
        self.best
    }
}
