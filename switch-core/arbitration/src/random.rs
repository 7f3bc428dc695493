//! Arbitration `random`: a port is drawn uniformly among those with a frame, for `arbitration_burst` frames.

use weir_reader::{Key, Named, Table};
use weir_units::PortId;
use weir_units::archive::{Archive, State};

use crate::{Arbiter, Arbitrate, Arbitration, ArbitrationKind, BURST, Served, Turn, burst};

pub(crate) static KIND: RandomKind = RandomKind;

#[derive(Debug)]
pub(crate) struct RandomKind;

impl Named for RandomKind {
    fn name(&self) -> &'static str {
        "random"
    }

    fn keys(&self) -> &'static [Key] {
        &[BURST]
    }
}

impl ArbitrationKind for RandomKind {
    fn read(&self, table: &Table<'_>) -> Arbitration {
        Arbitration::new(Random::new(burst(table)))
    }
}

/// Random arbitration: draws a port among those with a frame.
#[derive(Clone, Copy, Debug, State)]
pub struct Random(Turn);

impl Random {
    /// Returns an arbitration that draws a port after every `burst` frames of one.
    pub fn new(burst: u32) -> Random {
        Random(Turn::of(burst))
    }
}

impl Arbitrate for Random {
    fn kind(&self) -> &'static str {
        KIND.name()
    }

    fn arbiter(&self) -> Option<Box<dyn Arbiter>> {
        Some(Box::new(*self))
    }
}

impl Arbiter for Random {
    fn checkpoint(&mut self, archive: &mut Archive) {
        self.state(archive);
    }

    fn start(&mut self, _port: PortId) {
        self.0.begin();
    }

    fn pass(&mut self, served: Served<'_>, below: &mut dyn FnMut(u32) -> u32) -> PortId {
        if self.0.goes_on(served) {
            return served.port;
        }
        let drawn = below(served.waiting.len() as u32);
        served.waiting.iter().nth(drawn as usize).unwrap_or(served.port)
    }
}
