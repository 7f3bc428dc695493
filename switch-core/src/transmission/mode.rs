//! Transmit modes: in bursts on an lcore, one by one in virtual time.

use weir_flowctl::TxBacklog;
use weir_mmu::BufferRelease;
use weir_units::{Bytes, Class, PortBitmap, Span};

use crate::counters::Counters;
use crate::egress::EgressQueues;
use crate::packet::Packet;
use crate::queues::PacketQueues;
use crate::shared::PortState;

/// Transmit mode. Frames are *offered* if they were taken from a port's queues and its device has not accepted them.
pub(crate) trait TransmitMode<P> {
    /// State of a port, which includes its offered frames.
    type Port;

    /// Storage of queued frames.
    type Queues: PacketQueues<Packet = P>;

    /// Set type for ports with work or due messages.
    type Ports: PortBitmap;

    /// Whether a control thread may change queue limits at run time, so that memory for limits is needed.
    const IS_RECONFIGURABLE: bool = false;

    /// Returns the state of a port without frames. `tx_queues` is the number of its device's transmit queues for data, and `tx_backlog` is
    /// the bound on a NIC's transmit backlog.
    fn port(&self, state: &PortState, tx_queues: u8, tx_backlog: Option<TxBacklog>) -> Self::Port;

    /// Whether a port is offered frames.
    fn is_offering(port: &Self::Port) -> bool;

    /// Returns the number of offered frames.
    fn offered(port: &Self::Port) -> usize;

    /// Returns the sum of `count_of` over the lengths of a class's offered frames: credit blocks, or cells.
    fn blocks_offered(port: &Self::Port, class: Class, count_of: impl Fn(u32) -> u32) -> u32;

    /// Drops the offered frames, and passes them to `charged` with their departures; returns their number.
    fn discard_offered(&mut self, port: &mut Self::Port, charged: impl FnMut(&[P], &[BufferRelease])) -> usize;

    /// Whether frames may bypass the queues of a port.
    const HAS_BYPASS: bool = false;

    /// Moves a port's bypassing frames into its queues.
    #[inline(always)]
    fn flush_bypass(_port: &mut Self::Port, _queues: &mut EgressQueues<Self::Queues, Self::Ports>)
    where
        P: Packet,
    {
    }

    /// Takes over a port's new rate or link speed.
    fn on_rate_change(_port: &mut Self::Port, _state: &PortState) {}

    /// Records a sent control frame, with its bytes on the wire.
    fn on_control_sent(_port: &mut Self::Port, _wire: Bytes) {}

    /// Records the time from the arrival that caused a message to its sending.
    fn record_message_delay(&mut self, _delay: Span) {}

    /// Records the time from a message's arrival until it is obeyed.
    fn record_reaction_delay(&mut self, _delay: Span) {}

    /// Sets the gauges of this mode, before counters are published.
    fn set_gauges(&self, _counters: &mut Counters) {}
}
