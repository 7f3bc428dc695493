//! `pfc`: 802.1Qbb. Global PAUSE is counted and ignored.

use weir_reader::{Key, Named, Table};

use crate::pfc::{Generator, ObeysPauses};
use crate::{
    ControlledPort, FlowControl, FlowControlKind, Mechanism, MessageGenerator, Protocol, Quantum, Refusal, Settings,
    Side, Tells, Upstream,
};

/// The kind, which has no settings of a port: quanta and their refresh are the switch's, `[pfc]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcKind;

/// PFC at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pfc {
    /// Pause time asked for, in quanta.
    pub quanta: u16,
    /// A PAUSE is repeated after this share of it.
    pub refresh_percent: u8,
}

impl Named for PfcKind {
    fn name(&self) -> &'static str {
        "pfc"
    }

    fn keys(&self) -> &'static [Key] {
        &[]
    }
}

impl FlowControlKind for PfcKind {
    fn read(&self, _table: &Table<'_>) -> FlowControl {
        FlowControl::new(PfcKind)
    }
}

impl Settings for PfcKind {
    fn kind(&self) -> &'static str {
        Named::name(self)
    }

    fn name(&self) -> &'static str {
        "PFC"
    }

    fn tells(&self) -> Tells {
        Tells::Pfc
    }

    fn at(&self, port: &ControlledPort) -> Result<Mechanism, Refusal> {
        Ok(Mechanism::new(Pfc { quanta: port.quanta, refresh_percent: port.refresh_percent }))
    }
}

impl Protocol for Pfc {
    fn tells(&self) -> Tells {
        Tells::Pfc
    }

    fn is_made_for_a_rate(&self) -> bool {
        false
    }

    fn downstream(&self, port: Side) -> MessageGenerator {
        MessageGenerator::pauses(Generator::pfc(Quantum::at(port.rate), self.quanta, self.refresh_percent))
    }

    fn upstream(&self, _port: Side) -> Box<dyn Upstream> {
        Box::new(ObeysPauses::of(Tells::Pfc))
    }
}
