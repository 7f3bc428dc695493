//! `none`: no messages are sent or obeyed; lossless classes on such a port can overrun.

use weir_reader::{Plugin, Table};

use super::pause_receiver::PauseReceiver;
use crate::{
    ConfigRejection, FlowControl, FlowControlChoice, FlowControlConfig, FlowControlContext, FlowControlKind,
    FlowControlReceiver, MessageGenerator, MessageKind, PortFlowControl, PortParameters,
};

/// Absence of flow control: kind, configuration and flow control in one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoFlowControl;

impl Plugin for NoFlowControl {
    fn id(&self) -> &'static str {
        "none"
    }
}

impl FlowControlKind for NoFlowControl {
    fn parse(&self, _table: &Table<'_>) -> FlowControlChoice {
        FlowControlChoice::new(NoFlowControl)
    }
}

impl FlowControlConfig for NoFlowControl {
    fn kind(&self) -> &'static str {
        Plugin::id(self)
    }

    fn label(&self) -> &'static str {
        "none"
    }

    fn message_kind(&self) -> MessageKind {
        MessageKind::Nothing
    }

    fn build(&self, _port: &FlowControlContext) -> Result<PortFlowControl, ConfigRejection> {
        Ok(PortFlowControl::new(NoFlowControl))
    }
}

impl FlowControl for NoFlowControl {
    fn message_kind(&self) -> MessageKind {
        MessageKind::Nothing
    }

    fn depends_on_rate(&self) -> bool {
        false
    }

    fn initiator(&self, _port: PortParameters) -> MessageGenerator {
        MessageGenerator::silent()
    }

    fn receiver(&self, _port: PortParameters) -> Box<dyn FlowControlReceiver> {
        Box::new(PauseReceiver::new(MessageKind::Nothing))
    }
}
