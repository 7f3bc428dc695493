//! What a port speaks with its peer.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use weir_units::{BitRate, Bytes, ClassSet};

use crate::{Arrived, MessageGenerator, Tells, Upstream};

/// A flow control with all that it needs, from which both sides of a port are made: the [`MessageGenerator`](crate::MessageGenerator)
/// and the [`Regulator`](crate::Regulator). Both ends of a link need the same. It answers as its [`Protocol`] does.
#[derive(Clone, Debug)]
pub struct Mechanism(Arc<dyn Protocol>);

impl Mechanism {
    /// A port speaks this.
    pub fn new(protocol: impl Protocol) -> Mechanism {
        Mechanism(Arc::new(protocol))
    }

    /// The protocol, if it is of this type.
    pub fn downcast<P: Protocol>(&self) -> Option<&P> {
        (&*self.0 as &dyn Any).downcast_ref()
    }

    /// What a host speaks that does not know more than a NIC: this, unless the protocol is made for NICs that do not speak it.
    pub fn of_a_host(&self) -> Mechanism {
        self.0.of_a_nic().unwrap_or_else(|| self.clone())
    }
}

impl MessageGenerator {
    /// For a port of this rate; `classes` are those under GFC or credit. PFC goes by what is OFF.
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

/// A flow control at a port: makes both of its sides.
pub trait Protocol: Any + Debug + Send + Sync {
    /// What its messages tell.
    fn tells(&self) -> Tells;

    /// Whether its parameters are reckoned from the port's rate, as those of GFC and CBFC are: a port that speaks it keeps its
    /// rate. Pauses count in quanta, at whatever rate.
    fn is_made_for_a_rate(&self) -> bool {
        true
    }

    /// Whether what is told goes by the queues' lengths as they are: each arrival and departure may make a message due.
    fn goes_by_length(&self) -> bool {
        false
    }

    /// The downstream side: what makes the port's messages.
    fn downstream(&self, port: Side) -> MessageGenerator;

    /// The upstream side: what obeys the peer's messages.
    fn upstream(&self, port: Side) -> Box<dyn Upstream>;

    /// How arrivals are counted for the downstream side, on a link whose frames take so much beyond their length.
    fn arrived(&self, _link_overhead: Bytes) -> Arrived {
        Arrived::Uncounted
    }

    /// What a NIC at the other end of the link speaks, where it is not the same.
    fn of_a_nic(&self) -> Option<Mechanism> {
        None
    }

    /// Lengths to compare a queue with, by the names that they have: those that a figure marks.
    fn marks(&self) -> Vec<(String, Bytes)> {
        Vec::new()
    }

    /// The length of the peer's queue that a sender reckons with when it has this rate, where it reckons.
    fn reckoned_queue(&self, _rate: BitRate) -> Option<Bytes> {
        None
    }
}

/// The port that a side is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// C.
    pub rate: BitRate,
    /// The lossless classes: those that a peer may slow down, or gives credit to.
    pub classes: ClassSet,
}
