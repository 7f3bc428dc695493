//! How frames leave: in bursts on an lcore, one by one in virtual time.

use weir_flowctl::TxBacklog;
use weir_mmu::Departure;
use weir_units::{Bytes, Class, SetOfPorts, Span};

use crate::counters::Counters;
use crate::egress::EgressQueues;
use crate::packet::Packet;
use crate::queues::PacketQueues;
use crate::shared::PortState;

/// The manner in which frames leave. Frames that were taken from a port's queues and that its device has not accepted are
/// *offered*.
pub(crate) trait Manner<P> {
    /// The state kept for a port: the frames that it is offered, among others.
    type Port;

    /// Where frames wait.
    type Queues: PacketQueues<Packet = P>;

    /// What the switch's ports are kept in that have something to do or to tell.
    type Ports: SetOfPorts;

    /// Whether a control thread may give queues other limits while the switch runs, so that there is to be room for them.
    const IS_STEERED: bool = false;

    /// Makes a port without frames. `tx_queues` are its device's transmit queues for data, and `tx_backlog` is the bound on a NIC's
    /// transmit backlog.
    fn port(&self, state: &PortState, tx_queues: u8, tx_backlog: Option<TxBacklog>) -> Self::Port;

    /// Whether a port is offered frames.
    fn is_offering(port: &Self::Port) -> bool;

    /// How many frames it is offered.
    fn offered(port: &Self::Port) -> usize;

    /// The credit blocks of those of a class.
    fn blocks_offered(port: &Self::Port, class: Class) -> u32;

    /// Gives them up, and shows them with what they were charged; returns how many they were.
    fn give_up(&mut self, port: &mut Self::Port, charged: impl FnMut(&[P], &[Departure])) -> usize;

    /// Whether frames may be on their way past the queues of a port.
    const PASSES_BY: bool = false;

    /// Puts frames that were to pass a port's queues by into them.
    #[inline(always)]
    fn settle(_port: &mut Self::Port, _queues: &mut EgressQueues<Self::Queues, Self::Ports>)
    where
        P: Packet,
    {
    }

    /// Takes note of the rate that a port was given, or that its link has now.
    fn note_rate(_port: &mut Self::Port, _state: &PortState) {}

    /// Takes note of a control frame that was sent, with its bytes on the wire.
    fn note_control(_port: &mut Self::Port, _wire: Bytes) {}

    /// Takes note of how long ago the arrival was that a message, just sent, tells of.
    fn note_message(&mut self, _delay: Span) {}

    /// Takes note of how long ago a message came that is obeyed from now on.
    fn note_reaction(&mut self, _delay: Span) {}

    /// Sets what it tells of itself, before counters are published.
    fn set_gauges(&self, _counters: &mut Counters) {}
}
