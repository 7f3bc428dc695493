//! Flow control of a port, at its rate and buffer.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use weir_units::{BitRate, Bytes, ClassSet};

use crate::{Arrived, MessageGenerator, Tells, Upstream};

/// Flow control with all its parameters, from which both sides of a port are made: the
/// [`MessageGenerator`](crate::MessageGenerator) and the [`Regulator`](crate::Regulator). Both ends of a link need the same.
/// Dereferences to its [`Protocol`].
#[derive(Clone, Debug)]
pub struct Mechanism(Arc<dyn Protocol>);

impl Mechanism {
    /// Wraps a protocol.
    pub fn new(protocol: impl Protocol) -> Mechanism {
        Mechanism(Arc::new(protocol))
    }

    /// Returns the protocol if it has type `P`.
    pub fn downcast<P: Protocol>(&self) -> Option<&P> {
        (&*self.0 as &dyn Any).downcast_ref()
    }

    /// Returns the mechanism of a host's NIC: the same, unless the protocol is made for NICs that do not know it.
    pub fn of_a_host(&self) -> Mechanism {
        self.0.of_a_nic().unwrap_or_else(|| self.clone())
    }
}

impl MessageGenerator {
    /// Creates the generator of a port of this rate; `classes` are those under GFC or credit. PFC depends on the classes in XOFF
    /// instead.
    pub fn new(mechanism: &Mechanism, rate: BitRate, classes: ClassSet) -> MessageGenerator {
        mechanism.downstream(Side { rate, classes })
    }
}

impl Deref for Mechanism {
    type Target = dyn Protocol;

    fn deref(&self) -> &(dyn Protocol + 'static) {
        &*self.0
    }
}

/// Flow control at a port, which makes both sides.
pub trait Protocol: Any + Debug + Send + Sync {
    /// Returns the kind of messages that the port sends.
    fn tells(&self) -> Tells;

    /// Whether parameters depend on the port's rate, as those of GFC and CBFC: such a port keeps its rate. Pauses count in quanta
    /// of any rate.
    fn is_made_for_a_rate(&self) -> bool {
        true
    }

    /// Whether messages depend on queue lengths, so that each arrival and departure may make a message due.
    fn goes_by_length(&self) -> bool {
        false
    }

    /// Creates the downstream side, which makes the port's messages.
    fn downstream(&self, port: Side) -> MessageGenerator;

    /// Creates the upstream side, which obeys the peer's messages.
    fn upstream(&self, port: Side) -> Box<dyn Upstream>;

    /// Creates the count of arrivals for the downstream side. `link_overhead` is the wire overhead of a frame.
    fn arrived(&self, _link_overhead: Bytes) -> Arrived {
        Arrived::Uncounted
    }

    /// Returns the flow control of a NIC at the other end of the link, where it differs.
    fn of_a_nic(&self) -> Option<Mechanism> {
        None
    }

    /// Returns named reference lengths of a queue, which figures mark.
    fn marks(&self) -> Vec<(String, Bytes)> {
        Vec::new()
    }

    /// Returns the length of the peer's queue that a sender estimates at this rate, under a flow control that estimates it.
    fn reckoned_queue(&self, _rate: BitRate) -> Option<Bytes> {
        None
    }
}

/// Parameters of the port that a side is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// Rate C.
    pub rate: BitRate,
    /// Lossless classes: those that a peer may slow down, or gives credit to.
    pub classes: ClassSet,
}
