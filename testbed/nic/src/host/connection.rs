//! Connections that are opened while their hosts are there.

use weir_units::Time;

use super::{FlowConfig, Host, HostError};

/// A connection, by the places of its ends at their hosts.
///
/// Both ends are opened at once, as if the hosts had agreed on it over another network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The sending end; its completions name it by this.
    pub sender: usize,
    /// The receiving end.
    pub receiver: usize,
}

impl Connection {
    /// Opens a connection for a flow from the first host to the second one. The numbers of its ends are the hosts' to choose:
    /// those in `flow` are not looked at.
    pub fn open([from, to]: [&mut Host; 2], flow: &FlowConfig) -> Result<Connection, HostError> {
        let (number, receiver) = to.open_receiver(&flow.receiver(from.config()));
        let flow = FlowConfig { peer: to.config().peer(number), ..flow.clone() };
        let (number, sender) = from.open_sender(Time::ZERO, &flow)?;
        to.set_sender(receiver, number);
        Ok(Connection { sender, receiver })
    }
}
