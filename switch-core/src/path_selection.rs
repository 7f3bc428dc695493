//! Load balancing of a forwarder: the state of ports of equal cost, for the selector among them.

use weir_load_balancing::{EqualCostPorts, PathRequest, PathSelector};
use weir_units::{Class, PortId, QueueId};

use crate::random::Random;
use crate::shared::Shared;

/// Selector of a forwarder, and its random numbers.
#[derive(Debug)]
pub(crate) struct PathSelection {
    selector: Box<dyn PathSelector>,
    random: Random,
}

impl PathSelection {
    /// Returns the selection of the forwarder whose first port is `first`; `None` for the hash of the flow.
    pub(crate) fn new(shared: &Shared, first: PortId) -> Option<Box<PathSelection>> {
        let selector = shared.load_balancing.selector()?;
        let random = Random::new(shared.random_seed.wrapping_add(u64::from(first.0)));
        Some(Box::new(PathSelection { selector, random }))
    }

    /// Returns the selected port of a frame; if that is closed, the next open one.
    #[inline(never)]
    pub(crate) fn select(&mut self, shared: &Shared, frame: PathRequest, class: Class, ports: &[PortId]) -> PortId {
        let mut view = PortView { shared, frame, class, ports, random: &mut self.random };
        let selected = self.selector.select(frame, &mut view);
        open_port(shared, ports, selected)
    }
}

/// Returns the port at an index, or the next open one.
#[inline]
pub(crate) fn open_port(shared: &Shared, ports: &[PortId], index: usize) -> PortId {
    if shared.is_open(ports[index]) { ports[index] } else { next_open_port(shared, ports, index) }
}

#[cold]
fn next_open_port(shared: &Shared, ports: &[PortId], index: usize) -> PortId {
    let in_turn = ports[index..].iter().chain(&ports[..index]).copied();
    in_turn.into_iter().find(|port| shared.is_open(*port)).unwrap_or(ports[index])
}

/// Ports of equal cost, as a frame of a class finds them.
struct PortView<'f> {
    shared: &'f Shared,
    frame: PathRequest,
    class: Class,
    ports: &'f [PortId],
    random: &'f mut Random,
}

impl EqualCostPorts for PortView<'_> {
    fn ports(&self) -> &[PortId] {
        self.ports
    }

    fn queue_bytes(&self, index: usize) -> u64 {
        self.shared.mmu.egress_length(QueueId::new(self.ports[index], self.class))
    }

    fn is_held(&self, index: usize) -> bool {
        let regulator = &self.shared.port(self.ports[index]).regulator;
        regulator.paused(self.frame.now).contains(self.class)
            || !regulator.has_credit(self.class, self.frame.frame_bytes)
            || !self.shared.is_open(self.ports[index])
    }

    fn below(&mut self, n: u32) -> u32 {
        self.random.below(n)
    }
}
