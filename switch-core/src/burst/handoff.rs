//! Rings between lcores: one producer and one consumer each, so that neither ever waits.

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use rtrb::{Consumer, Producer, RingBuffer};
use weir_mmu::{BufferRequest, BurstRequest, RouteTotal};
use weir_units::PortId;

use crate::packet::{BURST_MAX, Burst, Packet, QueuedPacket};

/// Ring from a forwarder to a transmitter on another lcore: accepts all frames that the MMU admits.
///
/// The ring is short, so that its memory stays in the caches of both lcores. Frames that find it full wait with the forwarder, and
/// no frame overtakes them.
#[derive(Debug)]
pub(super) struct TxRingProducer<P> {
    ring: Producer<QueuedPacket<P>>,
    /// Packets that go into the ring together, next.
    staged: ArrayVec<QueuedPacket<P>, BURST_MAX>,
    waiting: VecDeque<QueuedPacket<P>>,
}

/// Ring from a forwarder on another lcore.
pub(super) type TxRingConsumer<P> = Consumer<QueuedPacket<P>>;

/// Ring from a receiver to its forwarder. Bounded: a full ring leaves frames with the device, as a busy lcore would.
pub(super) type RxRingProducer<P> = Producer<(PortId, P)>;
pub(super) type RxRingConsumer<P> = Consumer<(PortId, P)>;

/// Capacity of the rings from receivers to forwarders.
pub const RECEIVED_MAX: usize = 1_024;
/// Capacity of the rings from forwarders to transmitters.
const HANDED_MAX: usize = 1_024;

/// Returns a ring from a forwarder to a transmitter. `places` is the largest number of packets that the switch holds.
pub(super) fn tx_ring<P>(places: usize) -> (TxRingProducer<P>, TxRingConsumer<P>) {
    let (ring, end) = RingBuffer::new(HANDED_MAX.min(places.max(1)));
    (TxRingProducer { ring, staged: ArrayVec::new(), waiting: VecDeque::with_capacity(places) }, end)
}

impl<P> TxRingProducer<P> {
    /// Stages a packet for the next [`TxRingProducer::hand_over`].
    #[inline]
    pub(super) fn stage(&mut self, queued: QueuedPacket<P>) {
        if self.staged.is_full() {
            self.hand_over();
        }
        self.staged.push(queued);
    }

    /// Hands over the packets of a burst, behind the staged ones. Returns whether any packet waits now.
    #[inline(always)]
    pub(super) fn hand_over_all(&mut self, packets: &mut Burst<P>, request: &BurstRequest) -> bool
    where
        P: Packet,
    {
        if self.staged.is_empty()
            && self.waiting.is_empty()
            && let Ok(chunk) = self.ring.write_chunk_uninit(packets.len())
        {
            if let [RouteTotal { ingress, egress, .. }] = *request.routes() {
                let charged = |bytes| BufferRequest { ingress, egress, bytes };
                let queued = packets.drain(..).zip(request.bytes());
                chunk.fill_from_iter(queued.map(|(packet, bytes)| QueuedPacket::new(packet, charged(*bytes))));
            } else {
                chunk.fill_from_iter(QueuedPacket::all(packets, request));
            }
            return false;
        }
        QueuedPacket::all(packets, request).for_each(|queued| self.stage(queued));
        self.hand_over()
    }

    /// Hands over the waiting and then the staged packets. Returns whether any packet waits now.
    #[inline]
    pub(super) fn hand_over(&mut self) -> bool {
        if self.waiting.is_empty() {
            if self.staged.is_empty() {
                return false;
            }
            if let Ok(chunk) = self.ring.write_chunk_uninit(self.staged.len()) {
                chunk.fill_from_iter(self.staged.drain(..));
                return false;
            }
        }
        self.hand_over_some()
    }

    /// Hands over as many packets as the ring accepts.
    ///
    /// # Panics
    /// If more packets wait than the switch holds. The MMU admits no more, so no traffic can cause this broken invariant.
    #[cold]
    #[inline(never)]
    fn hand_over_some(&mut self) -> bool {
        assert!(self.waiting.len() + self.staged.len() <= self.waiting.capacity(), "{OVERFULL}");
        self.waiting.extend(self.staged.drain(..));
        let count = self.ring.slots().min(self.waiting.len());
        let chunk = self.ring.write_chunk_uninit(count).expect("as many slots as counted");
        chunk.fill_from_iter(self.waiting.drain(..count));
        !self.waiting.is_empty()
    }
}

pub(super) const OVERFULL: &str = "the MMU admitted more than the buffer holds";

#[cfg(test)]
mod tests {
    use super::*;

    fn queued(number: u32) -> QueuedPacket<u32> {
        QueuedPacket { packet: number, frame_bytes: 64, charged: BufferRequest::default() }
    }

    #[test]
    fn what_finds_the_ring_full_waits_in_order() {
        let (mut to, mut from) = tx_ring(5_000);
        let mut waits = false;
        for burst in 0..50 {
            (0..64).for_each(|n| to.stage(queued(burst * 64 + n)));
            waits = to.hand_over();
            assert_eq!(waits, burst >= 16, "1,024 frames fit");
        }
        let mut next = 0;
        while waits || from.slots() > 0 {
            let taken = from.slots().min(100);
            for queued in from.read_chunk(taken).expect("as many as there are") {
                assert_eq!(queued.packet, next);
                next += 1;
            }
            waits = to.hand_over();
        }
        assert_eq!(next, 50 * 64);
    }

    #[test]
    fn more_than_a_burst_is_staged_in_parts() {
        let (mut to, mut from) = tx_ring(500);
        (0..150).for_each(|n| to.stage(queued(n)));
        assert!(!to.hand_over());
        assert!((0..150).all(|n| from.pop().is_ok_and(|queued| queued.packet == n)));
    }

    #[test]
    #[should_panic = "more than the buffer holds"]
    fn more_than_the_switch_holds_is_a_broken_invariant() {
        let (mut to, _from) = tx_ring(100);
        let capacity = to.waiting.capacity();
        (0..100 + capacity + 1).for_each(|n| to.stage(queued(n as u32)));
        to.hand_over();
    }
}
