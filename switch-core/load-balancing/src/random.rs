//! Load balancing `random`: a port is drawn for each frame.

use weir_reader::{Plugin, Table};

use crate::{EqualCostPorts, PathRequest, PathSelector, PathSelectorChoice, PathSelectorConfig, PathSelectorKind};

pub(crate) static KIND: RandomPath = RandomPath;

#[derive(Clone, Copy, Debug)]
pub(crate) struct RandomPath;

impl Plugin for RandomPath {
    fn id(&self) -> &'static str {
        "random"
    }
}

impl PathSelectorKind for RandomPath {
    fn read(&self, _table: &Table<'_>) -> PathSelectorChoice {
        PathSelectorChoice::new(RandomPath)
    }
}

impl PathSelectorConfig for RandomPath {
    fn kind(&self) -> &'static str {
        self.id()
    }

    fn selector(&self) -> Option<Box<dyn PathSelector>> {
        Some(Box::new(RandomPath))
    }
}

impl PathSelector for RandomPath {
    fn select(&mut self, _frame: PathRequest, ports: &mut dyn EqualCostPorts) -> usize {
        let count = ports.ports().len() as u32;
        ports.below(count) as usize
    }
}
