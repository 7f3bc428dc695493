//! Arbitration `round-robin`: each port in turn, `arbitration_burst` frames each.

use weir_reader::{Key, Named, Table};
use weir_units::PortId;
use weir_units::archive::{Archive, State};

use crate::{Arbiter, Arbitrate, Arbitration, ArbitrationKind, BURST, Served, Turn, burst};

pub(crate) static KIND: RoundRobinKind = RoundRobinKind;

#[derive(Debug)]
pub(crate) struct RoundRobinKind;

impl Named for RoundRobinKind {
    fn name(&self) -> &'static str {
        "round-robin"
    }

    fn keys(&self) -> &'static [Key] {
        &[BURST]
    }
}

impl ArbitrationKind for RoundRobinKind {
    fn read(&self, table: &Table<'_>) -> Arbitration {
        Arbitration::new(RoundRobin::new(burst(table)))
    }
}

/// Round-robin arbitration: serves each port in turn.
#[derive(Clone, Copy, Debug, State)]
pub struct RoundRobin(Turn);

impl RoundRobin {
    /// Returns an arbitration that serves `burst` frames of a port per turn.
    pub fn new(burst: u32) -> RoundRobin {
        RoundRobin(Turn::of(burst))
    }
}

impl Arbitrate for RoundRobin {
    fn kind(&self) -> &'static str {
        KIND.name()
    }

    fn arbiter(&self) -> Option<Box<dyn Arbiter>> {
        Some(Box::new(*self))
    }
}

impl Arbiter for RoundRobin {
    fn checkpoint(&mut self, archive: &mut Archive) {
        self.state(archive);
    }

    fn start(&mut self, _port: PortId) {
        self.0.begin();
    }

    fn pass(&mut self, served: Served<'_>, _below: &mut dyn FnMut(u32) -> u32) -> PortId {
        if self.0.goes_on(served) {
            return served.port;
        }
        // First waiting port after this one, or from the beginning.
        served.waiting.after(served.port).unwrap_or(served.port)
    }
}
