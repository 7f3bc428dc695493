//! `none`: no messages are sent or obeyed; lossless classes on such a port can overrun.

use weir_reader::{Key, Named, Table};

use crate::pfc::ObeysPauses;
use crate::{
    ControlledPort, FlowControl, FlowControlKind, Mechanism, MessageGenerator, Protocol, Refusal, Settings, Side,
    Tells, Upstream,
};

/// Absence of flow control: kind, settings and protocol in one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoFlowControl;

impl Named for NoFlowControl {
    fn name(&self) -> &'static str {
        "none"
    }

    fn keys(&self) -> &'static [Key] {
        &[]
    }
}

impl FlowControlKind for NoFlowControl {
    fn read(&self, _table: &Table<'_>) -> FlowControl {
        FlowControl::new(NoFlowControl)
    }
}

impl Settings for NoFlowControl {
    fn kind(&self) -> &'static str {
        Named::name(self)
    }

    fn name(&self) -> &'static str {
        "none"
    }

    fn tells(&self) -> Tells {
        Tells::Nothing
    }

    fn at(&self, _port: &ControlledPort) -> Result<Mechanism, Refusal> {
        Ok(Mechanism::new(NoFlowControl))
    }
}

impl Protocol for NoFlowControl {
    fn tells(&self) -> Tells {
        Tells::Nothing
    }

    fn is_made_for_a_rate(&self) -> bool {
        false
    }

    fn downstream(&self, _port: Side) -> MessageGenerator {
        MessageGenerator::silent()
    }

    fn upstream(&self, _port: Side) -> Box<dyn Upstream> {
        Box::new(ObeysPauses::of(Tells::Nothing))
    }
}
