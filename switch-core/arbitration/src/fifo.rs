//! Arbitration `arrival` (FIFO): a port's share of the queue's output equals its share of the arrivals.

use weir_reader::{Plugin, Table};

use crate::{Arbiter, ArbiterChoice, ArbiterConfig, ArbiterKind};

/// Order of arrival: both the kind and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fifo;

impl Plugin for Fifo {
    fn id(&self) -> &'static str {
        "arrival"
    }
}

impl ArbiterKind for Fifo {
    fn read(&self, _table: &Table<'_>) -> ArbiterChoice {
        ArbiterChoice::new(Fifo)
    }
}

impl ArbiterConfig for Fifo {
    fn kind(&self) -> &'static str {
        self.id()
    }

    fn arbiter(&self) -> Option<Box<dyn Arbiter>> {
        None
    }
}
