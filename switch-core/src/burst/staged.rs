//! Frames taken from their queues and offered to a port.

use std::mem;

use arrayvec::ArrayVec;
use weir_flowctl::cbfc::blocks;
use weir_mmu::{Arrival, Departure, DepartureRow};
use weir_units::{Class, ClassSet, QueueId};

use super::chunks::Row;
use crate::packet::{BURST_MAX, Queued};

/// Frames offered to a port. The next port with frames reuses the memory, which is still in the cache.
#[derive(Debug)]
pub(super) struct Staged<P> {
    /// Packets: `Some` in the first `lengths.len()` places.
    packets: [Option<P>; BURST_MAX],
    /// Egress queues of the packets, run-length encoded.
    rows: ArrayVec<(QueueId, usize), BURST_MAX>,
    /// Ingress queue, charge and length without FCS of each packet; charges and lengths are in bytes.
    ingress: ArrayVec<QueueId, BURST_MAX>,
    bytes: ArrayVec<u32, BURST_MAX>,
    lengths: ArrayVec<u32, BURST_MAX>,
}

impl<P> Staged<P> {
    #[inline]
    pub(super) fn push(&mut self, queued: Queued<P>) {
        let Queued { packet, frame_bytes, charged } = queued;
        self.add_row(charged.egress, 1);
        let place = &mut self.packets[self.lengths.len()];
        *place = Some(packet);
        self.ingress.push(charged.ingress);
        self.bytes.push(charged.bytes);
        self.lengths.push(frame_bytes);
    }

    /// Takes packets `from..to` of a row, which leave the queue `egress`.
    ///
    /// # Panics
    /// If there is no room for them, or one was taken already.
    #[inline]
    pub(super) fn take_from(&mut self, egress: QueueId, row: Row<'_, P>, from: usize, to: usize) {
        self.add_row(egress, to - from);
        let places = &mut self.packets[self.lengths.len()..][..to - from];
        // No branch per packet: missing packets are detected for all together.
        let mut is_missing = false;
        for (place, packet) in places.iter_mut().zip(&mut row.packets[from..to]) {
            let packet = packet.take();
            is_missing |= packet.is_none();
            // The old packet was sent, so there is nothing to drop.
            mem::forget(mem::replace(place, packet));
        }
        assert!(!is_missing, "{NOT_TAKEN}");
        self.ingress.try_extend_from_slice(&row.ingress[from..to]).expect(ROOM);
        self.bytes.try_extend_from_slice(&row.bytes[from..to]).expect(ROOM);
        self.lengths.try_extend_from_slice(&row.lengths[from..to]).expect(ROOM);
    }

    #[inline]
    fn add_row(&mut self, egress: QueueId, count: usize) {
        match self.rows.last_mut() {
            Some((queue, packets)) if *queue == egress => *packets += count,
            _ => self.rows.push((egress, count)),
        }
    }

    /// Returns the first packets by rows, up to `most` packets: the egress queue of a row, with each packet's ingress queue, charge and
    /// length.
    #[inline]
    pub(super) fn front_rows(&self, most: usize) -> impl Iterator<Item = (DepartureRow<'_>, &[u32])> {
        let (mut rows, mut from) = (self.rows.iter(), 0);
        std::iter::from_fn(move || {
            let (egress, count) = *rows.next().filter(|_| from < most)?;
            let row = from..(from + count).min(most);
            from += count;
            let (ingress, bytes) = (&self.ingress[row.clone()], &self.bytes[row.clone()]);
            Some((DepartureRow { egress, ingress, bytes }, &self.lengths[row]))
        })
    }

    pub(super) fn departures(&self) -> impl Iterator<Item = Departure> {
        self.front_rows(BURST_MAX).flat_map(|(DepartureRow { egress, ingress, bytes }, _)| {
            let packets = ingress.iter().zip(bytes);
            packets.map(move |(ingress, bytes)| Departure { ingress: *ingress, egress, bytes: *bytes })
        })
    }

    /// Returns the number of packets before the first one of these classes.
    pub(super) fn before(&self, classes: ClassSet) -> usize {
        let rows = self.rows.iter().take_while(|(egress, _)| !classes.contains(egress.class()));
        rows.map(|(_, count)| count).sum()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.lengths.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Returns the first `n` packets, for an offer. Report the sent ones with [`Staged::forget_front`].
    #[inline]
    pub(super) fn front(&mut self, n: usize) -> &mut [Option<P>] {
        &mut self.packets[..n.min(self.lengths.len())]
    }

    pub(super) fn drain(&mut self, mut to: impl FnMut(Queued<P>)) {
        let charged: ArrayVec<Arrival, BURST_MAX> = self.departures().collect();
        let packets = self.packets.iter_mut().map_while(Option::take).zip(charged).zip(self.lengths.drain(..));
        packets.for_each(|((packet, charged), frame_bytes)| to(Queued { packet, frame_bytes, charged }));
        self.clear();
    }

    /// Removes the first `n` packets, which the port accepted.
    pub(super) fn forget_front(&mut self, n: usize) {
        if n == self.lengths.len() {
            return self.clear();
        }
        self.packets[..self.lengths.len()].rotate_left(n);
        self.ingress.drain(..n);
        self.bytes.drain(..n);
        self.lengths.drain(..n);
        let mut gone = n;
        self.rows.retain(|(_, count)| {
            let of_row = gone.min(*count);
            gone -= of_row;
            *count -= of_row;
            *count > 0
        });
    }

    /// Clears the records, after all packets were taken.
    fn clear(&mut self) {
        debug_assert!(self.packets.iter().all(Option::is_none), "a packet that was not taken");
        self.rows.clear();
        self.ingress.clear();
        self.bytes.clear();
        self.lengths.clear();
    }

    /// Returns the credit blocks of a class's frames.
    pub(super) fn blocks_of(&self, class: Class) -> u32 {
        let rows = self.front_rows(BURST_MAX).filter(|(row, _)| row.egress.class() == class);
        rows.flat_map(|(_, lengths)| lengths).map(|bytes| blocks(*bytes)).sum()
    }
}

impl<P> Default for Staged<P> {
    fn default() -> Staged<P> {
        Staged {
            packets: [const { None }; BURST_MAX],
            rows: ArrayVec::new(),
            ingress: ArrayVec::new(),
            bytes: ArrayVec::new(),
            lengths: ArrayVec::new(),
        }
    }
}

const NOT_TAKEN: &str = "a packet that is still in its queue";
const ROOM: &str = "no more than a burst is staged";
