//! Arbitration `random`: a port is drawn uniformly among those with a frame, for `arbitration_burst` frames.

use weir_reader::{Keys, Plugin, Table};
use weir_units::PortId;

use crate::{Arbiter, ArbiterChoice, ArbiterConfig, ArbiterKind, BURST, BurstCounter, DequeuedFrame};

pub(crate) static KIND: RandomKind = RandomKind;

#[derive(Debug)]
pub(crate) struct RandomKind;

impl Plugin for RandomKind {
    fn id(&self) -> &'static str {
        "random"
    }

    fn keys(&self) -> Keys {
        &[&BURST]
    }
}

impl ArbiterKind for RandomKind {
    fn read(&self, table: &Table<'_>) -> ArbiterChoice {
        ArbiterChoice::new(Random::new(table.get(&BURST)))
    }
}

/// Random arbitration: draws a port among those with a frame.
#[derive(Clone, Copy, Debug)]
pub struct Random(BurstCounter);

impl Random {
    /// Returns an arbitration that draws a port after every `burst` frames of one.
    pub fn new(burst: u32) -> Random {
        Random(BurstCounter::new(burst))
    }
}

impl ArbiterConfig for Random {
    fn kind(&self) -> &'static str {
        KIND.id()
    }

    fn arbiter(&self) -> Option<Box<dyn Arbiter>> {
        Some(Box::new(*self))
    }
}

impl Arbiter for Random {
    fn start(&mut self, _port: PortId) {
        self.0.begin();
    }

    fn select_next(&mut self, served: DequeuedFrame<'_>, below: &mut dyn FnMut(u32) -> u32) -> PortId {
        if self.0.goes_on(served) {
            return served.port;
        }
        let drawn = below(served.waiting.len() as u32);
        served.waiting.iter().nth(drawn as usize).unwrap_or(served.port)
    }
}
