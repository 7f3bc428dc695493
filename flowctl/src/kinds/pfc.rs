//! `pfc`: 802.1Qbb. Global PAUSE is counted and ignored.

use weir_reader::{Plugin, Table};

use super::pause_receiver::PauseReceiver;
use crate::pfc::PfcGenerator;
use crate::{
    ConfigRejection, FlowControl, FlowControlChoice, FlowControlConfig, FlowControlContext, FlowControlKind,
    FlowControlReceiver, MessageGenerator, MessageKind, PortFlowControl, PortParameters, Quantum,
};

/// Kind `pfc`. Its quanta and their refresh are the switch's, `[pfc]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcKind;

/// PFC at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pfc {
    /// Pause time of a PAUSE, in quanta.
    pub quanta: u16,
    /// Share of the pause time after which a PAUSE is repeated, in percent.
    pub refresh_percent: u8,
}

impl Plugin for PfcKind {
    fn id(&self) -> &'static str {
        "pfc"
    }
}

impl FlowControlKind for PfcKind {
    fn parse(&self, _table: &Table<'_>) -> FlowControlChoice {
        FlowControlChoice::new(PfcKind)
    }
}

impl FlowControlConfig for PfcKind {
    fn kind(&self) -> &'static str {
        Plugin::id(self)
    }

    fn label(&self) -> &'static str {
        "PFC"
    }

    fn message_kind(&self) -> MessageKind {
        MessageKind::Pfc
    }

    fn build(&self, port: &FlowControlContext) -> Result<PortFlowControl, ConfigRejection> {
        Ok(PortFlowControl::new(Pfc { quanta: port.quanta, refresh_percent: port.refresh_percent }))
    }
}

impl FlowControl for Pfc {
    fn message_kind(&self) -> MessageKind {
        MessageKind::Pfc
    }

    fn depends_on_rate(&self) -> bool {
        false
    }

    fn initiator(&self, port: PortParameters) -> MessageGenerator {
        MessageGenerator::pauses(PfcGenerator::pfc(Quantum::for_rate(port.rate), self.quanta, self.refresh_percent))
    }

    fn receiver(&self, _port: PortParameters) -> Box<dyn FlowControlReceiver> {
        Box::new(PauseReceiver::new(MessageKind::Pfc))
    }
}
