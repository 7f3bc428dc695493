//! Connections that are opened while their hosts run.

use weir_units::Time;

use super::receiver::Receiver;
use super::sender::Sender;
use super::slab::{OPEN_MAX, Slab};
use super::{FlowConfig, Host, HostError};

/// Connection, by the places of its ends at their hosts.
///
/// Both ends are opened at once, as if the hosts had agreed on it over another network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Place of the sending end, which its completions name.
    pub sender: usize,
    /// Place of the receiving end.
    pub receiver: usize,
}

impl Connection {
    /// Memory of both ends in bytes.
    pub const BYTES: usize = Slab::<Sender>::SLOT_BYTES + Slab::<Receiver>::SLOT_BYTES;

    /// Largest number of sending, and of receiving ends that a host has open at once.
    pub const OPEN_MAX: usize = OPEN_MAX;

    /// Returns whether the first host may open another sending end, and the second a receiving one.
    pub fn have_room([from, to]: [&Host; 2]) -> [bool; 2] {
        [from.senders.has_room(), to.receivers.has_room()]
    }

    /// Opens a connection for a flow from the first host to the second. The hosts choose the numbers of its ends; those
    /// in `flow` are ignored.
    pub fn open([from, to]: [&mut Host; 2], flow: &FlowConfig) -> Result<Connection, HostError> {
        let (number, receiver) = to.open_receiver(&flow.receiver(from.config()));
        let flow = FlowConfig { peer: to.config().peer(number), ..flow.clone() };
        let (number, sender) = from.open_sender(Time::ZERO, &flow)?;
        to.set_sender(receiver, number);
        Ok(Connection { sender, receiver })
    }
}
