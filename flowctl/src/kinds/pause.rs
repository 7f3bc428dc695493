//! `pause`: 802.3x PAUSE of the whole link. PFC is counted and ignored.

use weir_reader::{Key, Named, Table};

use crate::pfc::{Generator, ObeysPauses};
use crate::{
    ControlledPort, FlowControl, FlowControlKind, Mechanism, MessageGenerator, Protocol, Quantum, Refusal, Settings,
    Side, Tells, Upstream,
};

/// The kind, which has no settings of a port: quanta and their refresh are the switch's, `[pfc]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseKind;

/// PAUSE at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Pause time asked for, in quanta.
    pub quanta: u16,
    /// A PAUSE is repeated after this share of it.
    pub refresh_percent: u8,
}

impl Named for PauseKind {
    fn name(&self) -> &'static str {
        "pause"
    }

    fn keys(&self) -> &'static [Key] {
        &[]
    }
}

impl FlowControlKind for PauseKind {
    fn read(&self, _table: &Table<'_>) -> FlowControl {
        FlowControl::new(PauseKind)
    }
}

impl Settings for PauseKind {
    fn kind(&self) -> &'static str {
        Named::name(self)
    }

    fn name(&self) -> &'static str {
        "PAUSE"
    }

    fn tells(&self) -> Tells {
        Tells::Pause
    }

    fn at(&self, port: &ControlledPort) -> Result<Mechanism, Refusal> {
        Ok(Mechanism::new(Pause { quanta: port.quanta, refresh_percent: port.refresh_percent }))
    }
}

impl Protocol for Pause {
    fn tells(&self) -> Tells {
        Tells::Pause
    }

    fn is_made_for_a_rate(&self) -> bool {
        false
    }

    fn downstream(&self, port: Side) -> MessageGenerator {
        MessageGenerator::pauses(Generator::pause(Quantum::at(port.rate), self.quanta, self.refresh_percent))
    }

    fn upstream(&self, _port: Side) -> Box<dyn Upstream> {
        Box::new(ObeysPauses::of(Tells::Pause))
    }
}
