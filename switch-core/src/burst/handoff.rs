//! Rings between lcores: one producer, one consumer each, so that neither ever waits.

use rtrb::{Consumer, Producer};
use weir_units::PortId;

use crate::packet::Queued;

/// From a forwarder to a transmitter. Holds as many packets as the buffer can, so that it is never full: what the MMU
/// admits, the ring takes.
pub(crate) type ToTransmitter<P> = Producer<Queued<P>>;
pub(crate) type FromForwarder<P> = Consumer<Queued<P>>;

/// From a receiver to its forwarder. Bounded: a full ring leaves frames with the device, as a busy lcore would.
pub(crate) type ToForwarder<P> = Producer<(PortId, P)>;
pub(crate) type FromReceiver<P> = Consumer<(PortId, P)>;

/// Capacity of the rings from receivers to forwarders.
pub const RECEIVED_MAX: usize = 1_024;
