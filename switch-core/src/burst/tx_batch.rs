//! Frames taken from their queues and offered to a port.

use std::mem;

use arrayvec::ArrayVec;
use weir_mmu::{BufferRelease, BufferRequest, DepartureBatch};
use weir_units::{Class, ClassSet, QueueId};

use super::chunks::ContiguousRun;
use crate::packet::{BURST_MAX, QueuedPacket};

/// Frames offered to a port. The next port with frames reuses the memory, which is still in the cache.
#[derive(Debug)]
pub(super) struct TxBatch<P> {
    /// Packets: `Some` in the first `lengths.len()` places.
    packets: [Option<P>; BURST_MAX],
    /// Egress queues of the packets, run-length encoded.
    runs: ArrayVec<(QueueId, usize), BURST_MAX>,
    /// Ingress queue, charge and length without FCS of each packet; charges and lengths are in bytes.
    ingress: ArrayVec<QueueId, BURST_MAX>,
    bytes: ArrayVec<u32, BURST_MAX>,
    lengths: ArrayVec<u32, BURST_MAX>,
}

impl<P> TxBatch<P> {
    #[inline]
    pub(super) fn push(&mut self, queued: QueuedPacket<P>) {
        let QueuedPacket { packet, frame_bytes, charged } = queued;
        self.add_run(charged.egress, 1);
        let place = &mut self.packets[self.lengths.len()];
        *place = Some(packet);
        self.ingress.push(charged.ingress);
        self.bytes.push(charged.bytes);
        self.lengths.push(frame_bytes);
    }

    /// Takes packets `from..to` of a run, which leave the queue `egress`.
    ///
    /// # Panics
    /// If there is no room for them, or one was taken already.
    #[inline]
    pub(super) fn take_from(&mut self, egress: QueueId, run: ContiguousRun<'_, P>, from: usize, to: usize) {
        self.add_run(egress, to - from);
        let places = &mut self.packets[self.lengths.len()..][..to - from];
        // No branch per packet: missing packets are detected for all together.
        let mut is_missing = false;
        for (place, packet) in places.iter_mut().zip(&mut run.packets[from..to]) {
            let packet = packet.take();
            is_missing |= packet.is_none();
            // The old packet was sent, so there is nothing to drop.
            mem::forget(mem::replace(place, packet));
        }
        assert!(!is_missing, "{NOT_TAKEN}");
        self.ingress.try_extend_from_slice(&run.ingress[from..to]).expect(ROOM);
        self.bytes.try_extend_from_slice(&run.bytes[from..to]).expect(ROOM);
        self.lengths.try_extend_from_slice(&run.lengths[from..to]).expect(ROOM);
    }

    #[inline]
    fn add_run(&mut self, egress: QueueId, count: usize) {
        match self.runs.last_mut() {
            Some((queue, packets)) if *queue == egress => *packets += count,
            _ => self.runs.push((egress, count)),
        }
    }

    /// Returns the first packets by runs, up to `most` packets: the egress queue of a run, with each packet's ingress queue, charge and
    /// length.
    #[inline]
    pub(super) fn front_runs(&self, most: usize) -> impl Iterator<Item = (DepartureBatch<'_>, &[u32])> {
        let (mut runs, mut from) = (self.runs.iter(), 0);
        std::iter::from_fn(move || {
            let (egress, count) = *runs.next().filter(|_| from < most)?;
            let run = from..(from + count).min(most);
            from += count;
            let (ingress, bytes) = (&self.ingress[run.clone()], &self.bytes[run.clone()]);
            Some((DepartureBatch { egress, ingress, bytes }, &self.lengths[run]))
        })
    }

    pub(super) fn departures(&self) -> impl Iterator<Item = BufferRelease> {
        self.front_runs(BURST_MAX).flat_map(|(DepartureBatch { egress, ingress, bytes }, _)| {
            let packets = ingress.iter().zip(bytes);
            packets.map(move |(ingress, bytes)| BufferRelease { ingress: *ingress, egress, bytes: *bytes })
        })
    }

    /// Returns the number of packets before the first one of these classes.
    pub(super) fn count_before(&self, classes: ClassSet) -> usize {
        let runs = self.runs.iter().take_while(|(egress, _)| !classes.contains(egress.class()));
        runs.map(|(_, count)| count).sum()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.lengths.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Returns the first `n` packets, for an offer. Report the sent ones with [`TxBatch::remove_front`].
    #[inline]
    pub(super) fn front(&mut self, n: usize) -> &mut [Option<P>] {
        &mut self.packets[..n.min(self.lengths.len())]
    }

    pub(super) fn drain(&mut self, mut to: impl FnMut(QueuedPacket<P>)) {
        let charged: ArrayVec<BufferRequest, BURST_MAX> = self.departures().collect();
        let packets = self.packets.iter_mut().map_while(Option::take).zip(charged).zip(self.lengths.drain(..));
        packets.for_each(|((packet, charged), frame_bytes)| to(QueuedPacket { packet, frame_bytes, charged }));
        self.clear();
    }

    /// Removes the first `n` packets, which the port accepted.
    pub(super) fn remove_front(&mut self, n: usize) {
        if n == self.lengths.len() {
            return self.clear();
        }
        self.packets[..self.lengths.len()].rotate_left(n);
        self.ingress.drain(..n);
        self.bytes.drain(..n);
        self.lengths.drain(..n);
        let mut remaining = n;
        self.runs.retain(|(_, count)| {
            let run_packets = remaining.min(*count);
            remaining -= run_packets;
            *count -= run_packets;
            *count > 0
        });
    }

    /// Clears the records, after all packets were taken.
    fn clear(&mut self) {
        debug_assert!(self.packets.iter().all(Option::is_none), "a packet that was not taken");
        self.runs.clear();
        self.ingress.clear();
        self.bytes.clear();
        self.lengths.clear();
    }

    /// Returns the sum of `count_of` over the lengths of a class's frames.
    pub(super) fn blocks_of(&self, class: Class, count_of: impl Fn(u32) -> u32) -> u32 {
        let runs = self.front_runs(BURST_MAX).filter(|(run, _)| run.egress.class() == class);
        runs.flat_map(|(_, lengths)| lengths).map(|bytes| count_of(*bytes)).sum()
    }
}

impl<P> Default for TxBatch<P> {
    fn default() -> TxBatch<P> {
        TxBatch {
            packets: [const { None }; BURST_MAX],
            runs: ArrayVec::new(),
            ingress: ArrayVec::new(),
            bytes: ArrayVec::new(),
            lengths: ArrayVec::new(),
        }
    }
}

const NOT_TAKEN: &str = "a packet that is still in its queue";
const ROOM: &str = "no more than a burst is staged";
