//! Storage of the egress queues on lcores: FIFOs of chunks, so that the packets of a burst are contiguous.

use std::fmt;
use std::iter;
use std::mem;
use std::slice::from_ref;

use prefetch_index::prefetch_index;
use weir_mmu::{BufferRequest, BurstRequest, RouteTotal};
use weir_units::QueueId;

use super::handoff::OVERFULL;
use crate::packet::{BURST_MAX, Burst, Packet, QueuedPacket};
use crate::queues::PacketQueues;

/// FIFO queues of packets that share a limited number of chunks. An empty queue has none. Free chunks are reused last in, first out, while
/// they are still in the cache.
pub(crate) struct Chunks<P> {
    chunks: Box<[Chunk<P>]>,
    free: u32,
    ends: Box<[ChunkQueueEnds]>,
    held: usize,
    limit: usize,
}

/// Contiguous packets, and their records, which can be read without touching the packets.
#[repr(C, align(64))]
struct Chunk<P> {
    packets: [Option<P>; CHUNK],
    /// Ingress queue of each packet.
    ingress: [QueueId; CHUNK],
    /// Charge of each packet, in bytes.
    bytes: [u32; CHUNK],
    /// Length of each packet in bytes, without FCS.
    lengths: [u32; CHUNK],
    next: u32,
}

/// Contiguous packets at a queue's head.
pub(crate) struct ContiguousRun<'c, P> {
    /// Packets: `Some` until they are taken.
    pub(crate) packets: &'c mut [Option<P>],
    /// Ingress queue of each packet.
    pub(super) ingress: &'c [QueueId],
    /// Charge of each packet, in bytes.
    pub(super) bytes: &'c [u32],
    /// Length of each packet in bytes, without FCS.
    pub(crate) lengths: &'c [u32],
}

/// Position of contiguous packets of a queue. Even after the packets are [consumed](Chunks::consume), their records can be read until a
/// packet is put into any queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkCursor {
    chunk: u32,
    from: u32,
}

const CHUNK: usize = BURST_MAX;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct ChunkQueueEnds {
    /// Chunk of the first packet; [`NONE`] if the queue is empty.
    first: u32,
    last: u32,
    /// Index of the first packet in its chunk, and the index behind the last packet in its chunk.
    head: u32,
    tail: u32,
}

const EMPTY: ChunkQueueEnds = ChunkQueueEnds { first: NONE, last: NONE, head: 0, tail: 0 };

impl<P> Chunk<P> {
    /// Prefetches a chunk, if `n` is valid.
    #[inline(never)]
    fn prefetch(chunks: &[Chunk<P>], n: u32) {
        const LINE: usize = 64;
        let Some(chunk) = chunks.get(n as usize) else { return };
        (0..CHUNK)
            .step_by(LINE / size_of::<Option<P>>().clamp(1, LINE))
            .for_each(|n| prefetch_index(&chunk.packets, n));
        (0..CHUNK).step_by(LINE / size_of::<QueueId>()).for_each(|n| prefetch_index(&chunk.ingress[..], n));
        (0..CHUNK).step_by(LINE / size_of::<u32>()).for_each(|n| {
            prefetch_index(&chunk.bytes[..], n);
            prefetch_index(&chunk.lengths[..], n);
        });
        prefetch_index(from_ref(&chunk.next), 0);
    }
}

impl<P> Chunks<P> {
    /// Appends the packets of a burst to the queues of their routes. The caller ensures that there is room.
    #[inline(always)]
    pub(crate) fn put_all(
        &mut self,
        packets: &mut Burst<P>,
        request: &BurstRequest,
        mut queue_of: impl FnMut(&RouteTotal) -> usize,
    ) where
        P: Packet,
    {
        assert!(self.held + packets.len() <= self.limit, "{OVERFULL}");
        if let [route] = request.routes() {
            return self.put_run(queue_of(route), packets, request);
        }
        self.held += packets.len();
        if let Some(routes) = request.by_egress() {
            return self.put_routes(
                packets,
                routes.map(|(route, members)| (queue_of(route), route, members)),
                request.bytes(),
            );
        }
        for (packet, (route, bytes)) in packets.drain(..).zip(request.placed()) {
            let charged = BufferRequest { ingress: route.ingress, egress: route.egress, bytes };
            self.put(queue_of(route), QueuedPacket::new(packet, charged));
        }
    }

    /// [`Chunks::put_all`] of packets of one queue.
    #[inline(always)]
    fn put_run(&mut self, queue: usize, packets: &mut Burst<P>, request: &BurstRequest)
    where
        P: Packet,
    {
        let count = packets.len();
        self.held += count;
        let ends = &mut self.ends[queue];
        let Some(BufferRequest { ingress, .. }) = request.packets().next() else { return };
        let mut done = 0;
        while done < count {
            let chunk = Self::open_chunk(&mut self.chunks, &mut self.free, ends);
            let (from, n) = (ends.tail as usize, (CHUNK - ends.tail as usize).min(count - done));
            for (length, packet) in chunk.lengths[from..].iter_mut().zip(&packets[..n]) {
                *length = packet.frame_bytes();
            }
            chunk.ingress[from..][..n].fill(ingress);
            chunk.bytes[from..][..n].copy_from_slice(&request.bytes()[done..][..n]);
            for (place, packet) in chunk.packets[from..].iter_mut().zip(packets.drain(..n)) {
                // The old place was taken, so there is nothing to drop.
                mem::forget(place.replace(packet));
            }
            ends.tail += n as u32;
            done += n;
        }
    }

    /// [`Chunks::put_all`] of packets of several queues. Each route comes with its queue and a bitmap of its packets.
    #[inline(always)]
    fn put_routes<'b>(
        &mut self,
        packets: &mut Burst<P>,
        routes: impl Iterator<Item = (usize, &'b RouteTotal, u64)>,
        bytes: &[u32],
    ) where
        P: Packet,
    {
        let (mut from, mut charged) = ([const { None }; BURST_MAX], [0; BURST_MAX]);
        from.iter_mut().zip(packets.drain(..)).for_each(|(place, packet)| mem::forget(place.replace(packet)));
        charged[..bytes.len()].copy_from_slice(bytes);
        for (queue, route, mut left) in routes {
            let (ends, mut count) = (&mut self.ends[queue], route.packets as usize);
            while count > 0 {
                let chunk = Self::open_chunk(&mut self.chunks, &mut self.free, ends);
                let tail = ends.tail as usize;
                let put = (CHUNK - tail).min(count);
                let places = chunk.packets[tail..][..put].iter_mut().zip(&mut chunk.bytes[tail..][..put]);
                for ((place, bytes), length) in places.zip(&mut chunk.lengths[tail..][..put]) {
                    let at = left.trailing_zeros() as usize % BURST_MAX;
                    left &= left - 1;
                    let Some(packet) = from[at].take() else { break };
                    (*length, *bytes) = (packet.frame_bytes(), charged[at]);
                    // The old place was taken, so there is nothing to drop.
                    mem::forget(place.replace(packet));
                }
                chunk.ingress[tail..][..put].fill(route.ingress);
                ends.tail += put as u32;
                count -= put;
            }
        }
        debug_assert!(from.iter().all(Option::is_none), "each packet has a route");
        // All were taken.
        mem::forget(from);
    }

    /// Appends a packet that is already counted. The caller ensures that there is room.
    #[inline(always)]
    fn put(&mut self, queue: usize, queued: QueuedPacket<P>) {
        let QueuedPacket { packet, frame_bytes, charged } = queued;
        let ends = &mut self.ends[queue];
        let chunk = Self::open_chunk(&mut self.chunks, &mut self.free, ends);
        let at = ends.tail as usize % CHUNK;
        // The old place was taken, so there is nothing to drop.
        mem::forget(chunk.packets[at].replace(packet));
        (chunk.ingress[at], chunk.bytes[at], chunk.lengths[at]) = (charged.ingress, charged.bytes, frame_bytes);
        ends.tail += 1;
    }

    /// Returns the queue's last chunk if it has room, else a new one.
    #[inline(always)]
    fn open_chunk<'c>(chunks: &'c mut [Chunk<P>], free: &mut u32, ends: &mut ChunkQueueEnds) -> &'c mut Chunk<P> {
        if ends.first == NONE || ends.tail as usize == CHUNK {
            Self::extend(chunks, free, ends);
        }
        &mut chunks[ends.last as usize]
    }

    fn extend(chunks: &mut [Chunk<P>], free: &mut u32, ends: &mut ChunkQueueEnds) {
        let new = *free;
        *free = mem::replace(&mut chunks[new as usize].next, NONE);
        if ends.first == NONE {
            *ends = ChunkQueueEnds { first: new, last: new, head: 0, tail: 0 };
        } else {
            chunks[ends.last as usize].next = new;
            (ends.last, ends.tail) = (new, 0);
            // Queues grow, and the next free chunk was used long ago.
            Chunk::prefetch(chunks, *free);
        }
    }

    /// Returns the contiguous packets at a queue's head. The caller must [consume](Chunks::consume) taken packets, in order.
    #[inline]
    pub(super) fn front_run(&mut self, queue: usize) -> ContiguousRun<'_, P> {
        let ends = self.ends[queue];
        if ends.first == NONE {
            return ContiguousRun { packets: &mut [], ingress: &[], bytes: &[], lengths: &[] };
        }
        let end = if ends.first == ends.last { ends.tail } else { CHUNK as u32 };
        self.run(ChunkCursor { chunk: ends.first, from: ends.head }, (end - ends.head) as usize)
    }

    /// Returns the position and lengths of the contiguous packets at a queue's head, at most `most`.
    #[inline]
    pub(crate) fn front(&self, queue: usize, most: usize) -> (ChunkCursor, &[u32]) {
        let ChunkQueueEnds { first, last, head, tail } = self.ends[queue];
        let place = ChunkCursor { chunk: first, from: head };
        let Some(chunk) = self.chunks.get(first as usize) else { return (place, &[]) };
        let end = if first == last { tail as usize } else { CHUNK };
        (place, &chunk.lengths[head as usize..end.min(head as usize + most)])
    }

    /// Returns `count` contiguous packets from a position on.
    #[inline]
    pub(crate) fn run(&mut self, ChunkCursor { chunk, from }: ChunkCursor, count: usize) -> ContiguousRun<'_, P> {
        let (chunk, from) = (&mut self.chunks[chunk as usize], from as usize);
        let run = from..from + count;
        ContiguousRun {
            packets: &mut chunk.packets[run.clone()],
            ingress: &chunk.ingress[run.clone()],
            bytes: &chunk.bytes[run.clone()],
            lengths: &chunk.lengths[run],
        }
    }

    /// Returns whether a queue is standing, judged by its length: its packets span several chunks.
    #[inline]
    pub(crate) fn is_standing(&self, queue: usize) -> bool {
        self.ends[queue].first != self.ends[queue].last
    }

    /// Prefetches `count` packets, one chunk behind the queue's head. The packets of a standing queue left the cache long ago, and a
    /// prefetch at the time of taking comes too late.
    #[inline]
    pub(crate) fn prefetch_behind(&self, queue: usize, count: usize)
    where
        P: Packet,
    {
        let ChunkQueueEnds { first, head, .. } = self.ends[queue];
        let behind = self.chunks.get(first as usize).and_then(|chunk| self.chunks.get(chunk.next as usize));
        let Some(chunk) = behind else { return };
        // Places behind the queue's end are empty.
        chunk.packets[head as usize..][..count].iter().flatten().for_each(Packet::prefetch_early);
    }

    /// Removes the queue's first `n` packets, which are contiguous and taken. Returns whether the queue is empty then.
    #[inline]
    pub(crate) fn consume(&mut self, queue: usize, n: usize) -> bool {
        let ends = &mut self.ends[queue];
        ends.head += n as u32;
        self.held -= n;
        let is_last = ends.first == ends.last;
        if n > 0 && ends.head == if is_last { ends.tail } else { CHUNK as u32 } {
            let done = ends.first;
            let next = mem::replace(&mut self.chunks[done as usize].next, self.free);
            self.free = done;
            if is_last {
                *ends = EMPTY;
            } else {
                (ends.first, ends.head) = (next, 0);
                // Packets of a standing queue left the cache long ago.
                Chunk::prefetch(&self.chunks, self.chunks[next as usize].next);
            }
        }
        ends.first == NONE
    }
}

impl<P> PacketQueues for Chunks<P> {
    type Packet = P;

    /// Allocates all chunks now, regardless of `places`: an lcore allocates no memory later.
    fn new(queues: usize, limit: usize, _places: usize) -> Chunks<P> {
        // The first and the last chunk of each queue may be nearly empty.
        let count = limit.div_ceil(CHUNK) + 2 * queues.min(limit);
        let chunk = |n: usize| Chunk {
            packets: [const { None }; CHUNK],
            ingress: [QueueId::default(); CHUNK],
            bytes: [0; CHUNK],
            lengths: [0; CHUNK],
            next: if n + 1 < count { n as u32 + 1 } else { NONE },
        };
        Chunks {
            chunks: (0..count).map(chunk).collect(),
            free: if count == 0 { NONE } else { 0 },
            ends: vec![EMPTY; queues].into(),
            held: 0,
            limit,
        }
    }

    #[inline]
    fn push(&mut self, queue: usize, queued: QueuedPacket<P>) -> Result<(), QueuedPacket<P>> {
        if self.held == self.limit {
            return Err(queued);
        }
        self.held += 1;
        self.put(queue, queued);
        Ok(())
    }

    #[inline]
    fn pop(&mut self, queue: usize) -> Option<QueuedPacket<P>> {
        let run = self.front_run(queue);
        let (packet, frame_bytes) = (run.packets.first_mut()?.take()?, run.lengths[0]);
        // The caller, [`EgressQueues::pop`](crate::egress::EgressQueues::pop), sets the egress queue.
        let charged = BufferRequest { ingress: run.ingress[0], egress: QueueId::default(), bytes: run.bytes[0] };
        self.consume(queue, 1);
        Some(QueuedPacket { packet, frame_bytes, charged })
    }

    #[inline]
    fn head_bytes(&self, queue: usize) -> Option<u32> {
        let ends = self.ends[queue];
        let chunk = self.chunks.get(ends.first as usize)?;
        Some(chunk.lengths[ends.head as usize % CHUNK])
    }

    #[inline]
    fn is_empty(&self, queue: usize) -> bool {
        self.ends[queue].first == NONE
    }

    fn ingress(&self, queue: usize) -> impl Iterator<Item = QueueId> {
        let ends = self.ends[queue];
        let chunk = move |at: u32| self.chunks.get(at as usize).map(|chunk| (at, chunk));
        iter::successors(chunk(ends.first), move |(_, before)| chunk(before.next)).flat_map(move |(at, chunk)| {
            let from = if at == ends.first { ends.head as usize } else { 0 };
            let to = if at == ends.last { ends.tail as usize } else { CHUNK };
            chunk.ingress[from..to].iter().copied()
        })
    }

    fn held(&self) -> usize {
        self.held
    }
}

impl<P> fmt::Debug for Chunks<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunks").field("held", &self.held).field("limit", &self.limit).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;
    use weir_units::{Class, PortId, PortSet, QueueId};

    use super::*;

    const QUEUES: usize = 3;
    const LIMIT: usize = 150;

    #[derive(Clone, Copy, Debug)]
    enum Operation {
        /// Number of packets to push, one by one.
        Push(usize),
        Pop,
        /// Largest number of packets to take from the head at once.
        ContiguousRun(usize),
    }

    fn operation() -> impl Strategy<Value = (usize, Operation)> {
        let operation = prop_oneof![
            (1..70usize).prop_map(Operation::Push),
            Just(Operation::Pop),
            (0..70usize).prop_map(Operation::ContiguousRun),
            (0..70usize).prop_map(Operation::ContiguousRun),
        ];
        (0..QUEUES, operation)
    }

    fn queued(number: u32) -> QueuedPacket<u32> {
        let ingress = QueueId::new(PortId(number as u16 % 5), Class::new(3));
        QueuedPacket {
            packet: number,
            frame_bytes: number,
            charged: BufferRequest { ingress, bytes: number, ..BufferRequest::default() },
        }
    }

    proptest! {
        /// Compares the queues with `VecDeque`s, up to the limit.
        #[test]
        fn as_deques(operations in prop::collection::vec(operation(), 0..100)) {
            let mut queues: Chunks<u32> = PacketQueues::new(QUEUES, LIMIT, 0);
            let mut model: Vec<VecDeque<u32>> = vec![VecDeque::new(); QUEUES];
            let mut number = 0;
            for (queue, operation) in operations {
                match operation {
                    Operation::Push(packets) => for _ in 0..packets {
                        number += 1;
                        let has_room = model.iter().map(VecDeque::len).sum::<usize>() < LIMIT;
                        prop_assert_eq!(queues.push(queue, queued(number)).is_ok(), has_room);
                        if has_room {
                            model[queue].push_back(number);
                        }
                    },
                    Operation::Pop => {
                        let popped = queues.pop(queue).map(|queued| (queued.packet, queued.charged.bytes));
                        prop_assert_eq!(popped, model[queue].pop_front().map(|number| (number, number)));
                    }
                    Operation::ContiguousRun(most) => {
                        let row = queues.front_run(queue);
                        prop_assert_eq!(row.packets.is_empty(), model[queue].is_empty());
                        let taken = most.min(row.packets.len());
                        for ((packet, length), bytes) in row.packets[..taken].iter_mut().zip(row.lengths).zip(row.bytes) {
                            let number = packet.take();
                            prop_assert_eq!(number, model[queue].pop_front());
                            prop_assert_eq!((number, number), (Some(*length), Some(*bytes)));
                        }
                        queues.consume(queue, taken);
                    }
                }
                for (queue, model) in model.iter().enumerate() {
                    prop_assert_eq!(queues.head_bytes(queue), model.front().copied());
                    prop_assert_eq!(queues.is_empty(queue), model.is_empty());
                    let ingress_ports: PortSet = model.iter().map(|number| PortId(*number as u16 % 5)).collect();
                    let found: PortSet = queues.ingress(queue).map(|ingress| ingress.port()).collect();
                    prop_assert_eq!(found, ingress_ports);
                }
                prop_assert_eq!(queues.held(), model.iter().map(VecDeque::len).sum::<usize>());
            }
        }
    }
}
