//! Storage of the egress queues: its interface, and many FIFOs in one arena.

use std::fmt;
#[cfg(test)]
use std::num::NonZeroU64;
use std::slice::from_ref;

use prefetch_index::prefetch_index;
use weir_mmu::BufferRequest;
use weir_units::QueueId;

use crate::packet::QueuedPacket;

/// FIFO queues of admitted packets, which share a limited number of places: one queue may hold the whole buffer.
pub(crate) trait PacketQueues: fmt::Debug + Sized {
    type Packet;

    /// Returns `queues` empty queues with room for `limit` packets together, of which `places` are allocated now.
    fn new(queues: usize, limit: usize, places: usize) -> Self;

    /// Appends a packet; returns it if there is no room.
    fn push(&mut self, queue: usize, queued: QueuedPacket<Self::Packet>) -> Result<(), QueuedPacket<Self::Packet>>;

    fn pop(&mut self, queue: usize) -> Option<QueuedPacket<Self::Packet>>;

    /// Returns the length of the first packet in bytes, without FCS.
    fn head_bytes(&self, queue: usize) -> Option<u32>;

    fn is_empty(&self, queue: usize) -> bool;

    /// Returns the ingress queue of each packet of a queue.
    fn ingress(&self, queue: usize) -> impl Iterator<Item = QueueId>;

    /// Returns the number of packets in all queues.
    fn held(&self) -> usize;

    /// Prefetches the head of a queue.
    #[inline]
    fn prefetch(&self, _queue: usize) {}

    /// Prefetches the first packet, if there is one.
    #[inline]
    fn prefetch_front(&self, _queue: usize) {}
}

/// FIFO queues of places that are linked by index.
///
/// Places are allocated at construction, or on demand when all existing ones are taken. Their number is then the largest number of packets
/// held at once.
pub(crate) struct LinkedQueues<P> {
    places: Vec<Slot<P>>,
    limit: usize,
    /// First free place; places are reused last in, first out, while they are still in the cache.
    free: u32,
    ends: Box<[QueueEnds]>,
    held: usize,
}

/// Place of a [`QueuedPacket`], whose padding holds the link to the next place.
struct Slot<P> {
    packet: Option<P>,
    charged: BufferRequest,
    frame_bytes: u32,
    next: u32,
}

#[cfg(test)]
const _: () = assert!(size_of::<Slot<[NonZeroU64; 3]>>() == 40);

#[derive(Clone, Copy, Debug)]
struct QueueEnds {
    head: u32,
    tail: u32,
}

const NONE: u32 = u32::MAX;

impl<P> Slot<P> {
    fn free(next: u32) -> Slot<P> {
        Slot { packet: None, charged: BufferRequest::default(), frame_bytes: 0, next }
    }
}

impl<P> LinkedQueues<P> {
    pub(crate) const QUEUE_BYTES: usize = size_of::<QueueEnds>();
    pub(crate) const PACKET_BYTES: usize = size_of::<Slot<P>>();

    /// Returns `queues` empty queues with room for `limit` items together, of which `places` are allocated now.
    pub(crate) fn new(queues: usize, limit: usize, places: usize) -> LinkedQueues<P> {
        let places = places.min(limit);
        let next = |place| if place + 1 < places { place as u32 + 1 } else { NONE };
        LinkedQueues {
            places: (0..places).map(|place| Slot::free(next(place))).collect(),
            limit,
            free: if places == 0 { NONE } else { 0 },
            ends: vec![QueueEnds { head: NONE, tail: NONE }; queues].into(),
            held: 0,
        }
    }

    /// Appends an item; returns it if all places are taken.
    #[inline(always)]
    pub(crate) fn push(&mut self, queue: usize, queued: QueuedPacket<P>) -> Result<(), QueuedPacket<P>> {
        if self.free == NONE && !self.make_place() {
            return Err(queued);
        }
        let at = self.free;
        let place = &mut self.places[at as usize];
        self.free = std::mem::replace(&mut place.next, NONE);
        let QueuedPacket { packet, frame_bytes, charged } = queued;
        // A free place has no packet, so nothing is dropped; the compiler can't know.
        std::mem::forget(place.packet.replace(packet));
        (place.frame_bytes, place.charged) = (frame_bytes, charged);
        self.prefetch_place(self.free);
        let ends = &mut self.ends[queue];
        let last = std::mem::replace(&mut ends.tail, at);
        match self.places.get_mut(last as usize) {
            Some(last) => last.next = at,
            None => ends.head = at,
        }
        self.held += 1;
        Ok(())
    }

    /// Adds a free place; returns whether the limit allows it.
    #[cold]
    fn make_place(&mut self) -> bool {
        if self.places.len() == self.limit {
            return false;
        }
        if self.places.len() == self.places.capacity() {
            // Not doubled: with hundreds of switches, the waste of each counts.
            self.places.reserve_exact((self.places.len() / 4).max(32));
        }
        self.free = self.places.len() as u32;
        self.places.push(Slot::free(NONE));
        true
    }

    #[inline]
    pub(crate) fn pop(&mut self, queue: usize) -> Option<QueuedPacket<P>> {
        let ends = &mut self.ends[queue];
        let at = ends.head;
        let place = self.places.get_mut(at as usize)?;
        ends.head = std::mem::replace(&mut place.next, self.free);
        if ends.head == NONE {
            ends.tail = NONE;
        }
        self.free = at;
        self.held -= 1;
        let (frame_bytes, charged) = (place.frame_bytes, place.charged);
        let queued = place.packet.take().map(|packet| QueuedPacket { packet, frame_bytes, charged });
        // The next item is read at its turn, and may have left the cache.
        self.prefetch_place(self.ends[queue].head);
        queued
    }

    /// Prefetches a place, if the index is valid.
    #[inline]
    fn prefetch_place(&self, place: u32) {
        if let Some(place) = self.places.get(place as usize) {
            prefetch_index(from_ref(&place.packet), 0);
            prefetch_index(from_ref(&place.next), 0);
        }
    }

    #[inline]
    fn front(&self, queue: usize) -> Option<&Slot<P>> {
        self.places.get(self.ends[queue].head as usize)
    }

    #[inline]
    pub(crate) fn is_empty(&self, queue: usize) -> bool {
        self.ends[queue].head == NONE
    }

    fn iter(&self, queue: usize) -> impl Iterator<Item = &Slot<P>> {
        let mut at = self.ends[queue].head;
        std::iter::from_fn(move || {
            let place = self.places.get(at as usize)?;
            at = place.next;
            Some(place)
        })
    }

    pub(crate) fn held(&self) -> usize {
        self.held
    }
}

impl<P> PacketQueues for LinkedQueues<P> {
    type Packet = P;

    fn new(queues: usize, limit: usize, places: usize) -> LinkedQueues<P> {
        LinkedQueues::new(queues, limit, places)
    }

    #[inline(always)]
    fn push(&mut self, queue: usize, queued: QueuedPacket<P>) -> Result<(), QueuedPacket<P>> {
        LinkedQueues::push(self, queue, queued)
    }

    #[inline]
    fn pop(&mut self, queue: usize) -> Option<QueuedPacket<P>> {
        LinkedQueues::pop(self, queue)
    }

    #[inline]
    fn head_bytes(&self, queue: usize) -> Option<u32> {
        self.front(queue).map(|place| place.frame_bytes)
    }

    #[inline]
    fn is_empty(&self, queue: usize) -> bool {
        LinkedQueues::is_empty(self, queue)
    }

    fn ingress(&self, queue: usize) -> impl Iterator<Item = QueueId> {
        self.iter(queue).map(|place| place.charged.ingress)
    }

    fn held(&self) -> usize {
        LinkedQueues::held(self)
    }

    #[inline]
    fn prefetch(&self, queue: usize) {
        prefetch_index(&self.ends, queue);
    }

    #[inline]
    fn prefetch_front(&self, queue: usize) {
        self.prefetch_place(self.ends[queue].head);
    }
}

impl<P> fmt::Debug for LinkedQueues<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkedQueues").field("held", &self.held).field("limit", &self.limit).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use proptest::prelude::*;
    use weir_units::{Class, PortId, PortSet, QueueId};

    proptest! {
        /// Compares the queues with `VecDeque`s.
        #[test]
        fn as_deques(
            operations in proptest::collection::vec((any::<bool>(), 0..4u8), 0..400),
            places in prop::sample::select(vec![0, 5, 16]),
        ) {
            let queued = |n: usize| {
                let (ingress, egress) = (QueueId::new(PortId(n as u16 % 9), Class::new(3)), QueueId::default());
                QueuedPacket { packet: n, frame_bytes: n as u32, charged: BufferRequest { ingress, egress, bytes: 2 * n as u32 } }
            };
            let parts = |queued: QueuedPacket<usize>| (queued.packet, queued.frame_bytes, queued.charged);
            let mut queues = LinkedQueues::new(4, 16, places);
            let mut model: Vec<VecDeque<usize>> = vec![VecDeque::new(); 4];
            for (n, (push, which)) in operations.into_iter().enumerate() {
                let deque = &mut model[usize::from(which)];
                if push {
                    if queues.push(usize::from(which), queued(n)).is_ok() {
                        deque.push_back(n);
                    } else {
                        prop_assert_eq!(queues.held(), 16);
                    }
                } else {
                    let expected = deque.pop_front().map(|n| parts(queued(n)));
                    prop_assert_eq!(queues.pop(usize::from(which)).map(parts), expected);
                }
                prop_assert_eq!(queues.head_bytes(usize::from(which)), deque.front().map(|n| *n as u32));
                prop_assert!(queues.iter(usize::from(which)).map(|place| place.packet).eq(deque.iter().copied().map(Some)));
                let ingress_ports: PortSet = deque.iter().map(|n| PortId(*n as u16 % 9)).collect();
                let found: PortSet = queues.ingress(usize::from(which)).map(|ingress| ingress.port()).collect();
                prop_assert_eq!(found, ingress_ports);
                prop_assert_eq!(queues.is_empty(usize::from(which)), deque.is_empty());
                prop_assert_eq!(queues.held(), model.iter().map(VecDeque::len).sum::<usize>());
            }
        }
    }
}
