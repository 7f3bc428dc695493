//! `pause`: 802.3x PAUSE of the whole link. PFC is counted and ignored.

use weir_reader::{Plugin, Table};

use super::pause_receiver::PauseReceiver;
use crate::pfc::PfcGenerator;
use crate::{
    ConfigRejection, FlowControl, FlowControlChoice, FlowControlConfig, FlowControlContext, FlowControlKind,
    FlowControlReceiver, MessageGenerator, MessageKind, PortFlowControl, PortParameters, Quantum,
};

/// Kind `pause`. Its quanta and their refresh are the switch's, `[pfc]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseKind;

/// PAUSE at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Pause time of a PAUSE, in quanta.
    pub quanta: u16,
    /// Share of the pause time after which a PAUSE is repeated, in percent.
    pub refresh_percent: u8,
}

impl Plugin for PauseKind {
    fn id(&self) -> &'static str {
        "pause"
    }
}

impl FlowControlKind for PauseKind {
    fn parse(&self, _table: &Table<'_>) -> FlowControlChoice {
        FlowControlChoice::new(PauseKind)
    }
}

impl FlowControlConfig for PauseKind {
    fn kind(&self) -> &'static str {
        Plugin::id(self)
    }

    fn label(&self) -> &'static str {
        "PAUSE"
    }

    fn message_kind(&self) -> MessageKind {
        MessageKind::Pause
    }

    fn build(&self, port: &FlowControlContext) -> Result<PortFlowControl, ConfigRejection> {
        Ok(PortFlowControl::new(Pause { quanta: port.quanta, refresh_percent: port.refresh_percent }))
    }
}

impl FlowControl for Pause {
    fn message_kind(&self) -> MessageKind {
        MessageKind::Pause
    }

    fn depends_on_rate(&self) -> bool {
        false
    }

    fn initiator(&self, port: PortParameters) -> MessageGenerator {
        MessageGenerator::pauses(PfcGenerator::pause(Quantum::for_rate(port.rate), self.quanta, self.refresh_percent))
    }

    fn receiver(&self, _port: PortParameters) -> Box<dyn FlowControlReceiver> {
        Box::new(PauseReceiver::new(MessageKind::Pause))
    }
}
