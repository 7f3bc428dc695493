//! Arbitration `arrival`: a port's share of the queue's output equals its share of the arrivals.

use weir_reader::{Key, Named, Table};

use crate::{Arbiter, Arbitrate, Arbitration, ArbitrationKind};

/// Order of arrival: both the kind and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival;

impl Named for Arrival {
    fn name(&self) -> &'static str {
        "arrival"
    }

    fn keys(&self) -> &'static [Key] {
        &[]
    }
}

impl ArbitrationKind for Arrival {
    fn read(&self, _table: &Table<'_>) -> Arbitration {
        Arbitration::new(Arrival)
    }
}

impl Arbitrate for Arrival {
    fn kind(&self) -> &'static str {
        self.name()
    }

    fn arbiter(&self) -> Option<Box<dyn Arbiter>> {
        None
    }
}
