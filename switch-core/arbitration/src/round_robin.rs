//! Arbitration `round-robin`: each port in turn, `arbitration_burst` frames each.

use weir_reader::{Keys, Plugin, Table};
use weir_units::PortId;

use crate::{Arbiter, ArbiterChoice, ArbiterConfig, ArbiterKind, BURST, BurstCounter, DequeuedFrame};

pub(crate) static KIND: RoundRobinKind = RoundRobinKind;

#[derive(Debug)]
pub(crate) struct RoundRobinKind;

impl Plugin for RoundRobinKind {
    fn id(&self) -> &'static str {
        "round-robin"
    }

    fn keys(&self) -> Keys {
        &[&BURST]
    }
}

impl ArbiterKind for RoundRobinKind {
    fn read(&self, table: &Table<'_>) -> ArbiterChoice {
        ArbiterChoice::new(RoundRobin::new(table.get(&BURST)))
    }
}

/// Round-robin arbitration: serves each port in turn.
#[derive(Clone, Copy, Debug)]
pub struct RoundRobin(BurstCounter);

impl RoundRobin {
    /// Returns an arbitration that serves `burst` frames of a port per turn.
    pub fn new(burst: u32) -> RoundRobin {
        RoundRobin(BurstCounter::new(burst))
    }
}

impl ArbiterConfig for RoundRobin {
    fn kind(&self) -> &'static str {
        KIND.id()
    }

    fn arbiter(&self) -> Option<Box<dyn Arbiter>> {
        Some(Box::new(*self))
    }
}

impl Arbiter for RoundRobin {
    fn start(&mut self, _port: PortId) {
        self.0.begin();
    }

    fn select_next(&mut self, served: DequeuedFrame<'_>, _below: &mut dyn FnMut(u32) -> u32) -> PortId {
        if self.0.goes_on(served) {
            return served.port;
        }
        // First waiting port after this one, or from the beginning.
        served.waiting.after(served.port).unwrap_or(served.port)
    }
}
