//! Flow control of a port, at its rate and buffer.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use weir_units::{BitRate, Bytes, ClassSet};

use crate::{FlowControlReceiver, MessageGenerator, MessageKind, ReceiveAccounting};

/// Flow control with all its parameters, which creates both sides of a port: the
/// [`MessageGenerator`](crate::MessageGenerator) and the [`TxRegulator`](crate::TxRegulator). Both ends of a link need the same.
/// Dereferences to its [`FlowControl`].
#[derive(Clone, Debug)]
pub struct PortFlowControl(Arc<dyn FlowControl>);

impl PortFlowControl {
    /// Wraps a flow control.
    pub fn new(flow_control: impl FlowControl) -> PortFlowControl {
        PortFlowControl(Arc::new(flow_control))
    }

    /// Returns the flow control if it has type `P`.
    pub fn downcast<P: FlowControl>(&self) -> Option<&P> {
        (&*self.0 as &dyn Any).downcast_ref()
    }

    /// Returns the flow control of a host's NIC: the same, unless it is made for NICs that do not support it.
    pub fn for_host(&self) -> PortFlowControl {
        self.0.nic_variant().unwrap_or_else(|| self.clone())
    }
}

impl MessageGenerator {
    /// Creates the generator of a port of this rate; `classes` are those under GFC or credit. PFC depends on the classes in XOFF
    /// instead.
    pub fn new(flow_control: &PortFlowControl, rate: BitRate, classes: ClassSet) -> MessageGenerator {
        flow_control.initiator(PortParameters { rate, classes })
    }
}

impl Deref for PortFlowControl {
    type Target = dyn FlowControl;

    fn deref(&self) -> &(dyn FlowControl + 'static) {
        &*self.0
    }
}

/// Flow control at a port, which creates both sides.
pub trait FlowControl: Any + Debug + Send + Sync {
    /// Returns the kind of messages that the port sends.
    fn message_kind(&self) -> MessageKind;

    /// Whether parameters depend on the port's rate, as those of GFC and CBFC: such a port keeps its rate. Pauses count in quanta
    /// of any rate.
    fn depends_on_rate(&self) -> bool {
        true
    }

    /// Whether messages depend on queue lengths, so that each arrival and departure may make a message due.
    fn uses_queue_length(&self) -> bool {
        false
    }

    /// Creates the initiator (downstream side), which makes the port's messages.
    fn initiator(&self, port: PortParameters) -> MessageGenerator;

    /// Creates the receiver (upstream side), which obeys the peer's messages.
    fn receiver(&self, port: PortParameters) -> Box<dyn FlowControlReceiver>;

    /// Creates the count of arrivals for the initiator. `link_overhead` is the wire overhead of a frame.
    fn receive_accounting(&self, _link_overhead: Bytes) -> ReceiveAccounting {
        ReceiveAccounting::Uncounted
    }

    /// Returns the flow control of a NIC at the other end of the link, where it differs.
    fn nic_variant(&self) -> Option<PortFlowControl> {
        None
    }

    /// Returns named reference lengths of a queue, which figures mark.
    fn reference_lengths(&self) -> Vec<(String, Bytes)> {
        Vec::new()
    }

    /// Returns the length of the peer's queue that a sender estimates at this rate, under a flow control that estimates it.
    fn estimated_queue(&self, _rate: BitRate) -> Option<Bytes> {
        None
    }
}

/// Parameters of the port that a side is created for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortParameters {
    /// Rate C.
    pub rate: BitRate,
    /// Lossless classes: those that a peer may slow down, or gives credit to.
    pub classes: ClassSet,
}
