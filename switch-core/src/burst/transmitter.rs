//! Transmission on an lcore: each poll serves every port with a burst, and may come late.

use std::mem;
use std::sync::Arc;

use arrayvec::ArrayVec;
use weir_flowctl::{Regulator, wire_bytes};
use weir_mmu::{DepartureRow, Intake, Leaving};
use weir_units::{Bytes, CLASSES, Class, ClassSet, QueueId, Time};

use super::bursts::{BurstPort, Bursts, Waits};
use super::chunks::{Chunks, Place};
use super::handoff::{FromForwarder, OVERFULL};
use super::staged::Staged;
use crate::counters::{DropReason, Published, queue_stat};
use crate::packet::{BURST_MAX, Burst, Packet, PacketStore, PortOutput, Queued, Rows};
use crate::transmission::{Manner, OutPort, Transmission, told_of};

/// Transmitter (TX): sends the frames that the forwarders admitted for its ports.
#[derive(Debug)]
pub(super) struct Transmitter<P> {
    transmission: Transmission<P, Bursts<P>>,
    inputs: Box<[FromForwarder<P>]>,
}

/// Contiguous frames of a queue that a port is offered, perhaps with others.
#[derive(Clone, Copy, Debug)]
struct Offered {
    queue: QueueId,
    at: Place,
    count: usize,
    bytes: u32,
}

/// Frames that a port is offered together.
#[derive(Debug, Default)]
struct Offer {
    /// Rows in order of departure.
    rows: ArrayVec<Offered, BURST_MAX>,
    /// Merged rows: adjacent rows of a queue are one here. They serve the accounting if all frames left.
    of_queues: ArrayVec<Offered, BURST_MAX>,
}

impl Offer {
    #[inline(always)]
    fn push(&mut self, row: Offered) {
        let others = self.of_queues.iter_mut().rev();
        match others.take(CLASSES).find(|other| other.queue == row.queue && other.at.behind(other.count) == row.at) {
            Some(before) => (before.count, before.bytes) = (before.count + row.count, before.bytes + row.bytes),
            None => self.of_queues.push(row),
        }
        self.rows.push(row);
    }
}

/// Frames of an offer, in place.
struct OfferedRows<'o, P> {
    fifos: &'o mut Chunks<P>,
    rows: &'o [Offered],
}

impl<P> Rows<P> for OfferedRows<'_, P> {
    #[inline(always)]
    fn each(&mut self, mut show: impl FnMut(&mut [Option<P>])) {
        self.rows.iter().for_each(|row| show(self.fifos.row(row.at, row.count).packets));
    }
}

/// Consecutive packets for one egress queue.
#[derive(Default)]
struct Train {
    queue: QueueId,
    packets: u64,
}

/// Packets taken from the forwarders' rings at once, which bounds the time between two services of a port.
const TAKEN_MAX: usize = BURSTS_MAX * BURST_MAX;

/// Bursts that a port sends at once, which bounds the wait of other ports.
const BURSTS_MAX: usize = 4;

impl<P: Packet> Transmitter<P> {
    pub(super) fn new(transmission: Transmission<P, Bursts<P>>, inputs: Box<[FromForwarder<P>]>) -> Transmitter<P> {
        Transmitter { transmission, inputs }
    }

    /// Returns the transmit side of its ports, for frames that its own lcore admits.
    #[inline]
    pub(super) fn transmission(&mut self) -> &mut Transmission<P, Bursts<P>> {
        &mut self.transmission
    }

    /// Takes over the forwarders' admitted frames and serves every port once; returns the number of moved frames.
    pub(super) fn run_once<D: PortOutput<P> + PacketStore<P>>(&mut self, now: Time, driver: &mut D) -> usize {
        let manner = &mut self.transmission.manner;
        manner.late.poll(now);
        manner.is_behind = false;
        let taken = self.take_over(now);
        let transmission = &mut self.transmission;
        let sent: usize = (0..transmission.ports.len()).map(|port| transmission.serve_port(now, port, driver)).sum();
        transmission.shared.mmu.release_gone(now, &mut transmission.manner.gone);
        taken + sent
    }

    /// Returns whether the last [`Transmitter::run_once`] left frames that were due. They go with the next polls, before which an lcore
    /// should not yield its CPU.
    #[inline]
    pub(super) fn is_behind(&self) -> bool {
        self.transmission.manner.is_behind
    }

    #[inline]
    pub(super) fn queued(&self) -> usize {
        self.transmission.queues.held()
    }

    /// Moves packets from the forwarders' rings into the egress queues.
    fn take_over(&mut self, now: Time) -> usize {
        let mut taken = 0;
        for input in &mut self.inputs {
            let ready = input.slots().min(TAKEN_MAX);
            let Ok(chunk) = input.read_chunk(ready) else { continue };
            let mut train = Train::default();
            for queued in chunk {
                // The packet is in the cache of the forwarder's lcore.
                queued.packet.prefetch();
                self.transmission.enqueue_in_train(now, queued, &mut train);
            }
            self.transmission.count_train(&mut train);
            taken += ready;
        }
        taken
    }

    /// Drops and counts all held frames; returns their number.
    pub(super) fn discard(&mut self, now: Time, reason: DropReason) -> usize {
        let mut discarded = 0;
        loop {
            let more = self.take_over(now) + self.transmission.discard_ports(now, reason);
            if more == 0 {
                return discarded;
            }
            discarded += more;
        }
    }

    pub(super) fn next_wakeup(&self, now: Time) -> Time {
        self.transmission.next_wakeup(now)
    }

    pub(super) fn audit(&self) {
        self.transmission.audit();
    }

    #[inline]
    pub(super) fn serve(&mut self, now: Time) {
        self.transmission.serve(now);
    }

    pub(super) fn published(&self) -> Arc<Published> {
        self.transmission.published()
    }
}

impl<P: Packet> Transmission<P, Bursts<P>> {
    /// Puts the packets of a burst that was admitted without exception into their egress queues.
    #[inline(always)]
    pub(super) fn enqueue_all(&mut self, now: Time, packets: &mut Burst<P>, intake: &Intake) {
        if self.marks_arrivals {
            return Queued::all(packets, intake).for_each(|queued| self.enqueue(now, queued));
        }
        for bundle in intake.bundles() {
            self.counters.add(bundle.egress, queue_stat::HANDED_OVER, u64::from(bundle.packets));
        }
        if self.pass_by(packets, intake) {
            return;
        }
        for bundle in intake.bundles() {
            self.settle(bundle.egress.port());
            self.note_backlog(bundle.egress);
        }
        if self.queues.are_in_order() {
            self.queues.fifos().put_all(packets, intake);
        } else {
            Queued::all(packets, intake).for_each(|queued| assert!(self.queues.push(queued).is_ok(), "{OVERFULL}"));
        }
    }

    /// Appends a packet to its egress queue, after a train of others, which is counted as a whole.
    #[inline(always)]
    fn enqueue_in_train(&mut self, now: Time, queued: Queued<P>, train: &mut Train) {
        if self.marks_arrivals {
            return self.enqueue(now, queued);
        }
        let queue = queued.charged.egress;
        if train.packets == 0 || train.queue != queue {
            self.count_train(train);
            train.queue = queue;
            self.settle(queue.port());
            self.note_backlog(queue);
        }
        train.packets += 1;
        if let Err(queued) = self.queues.push(queued) {
            // There are as many places as packets in the buffer, so a full queue is impossible; if it happens, nothing leaks.
            self.give_up(now, &queued);
        }
    }

    #[inline]
    fn count_train(&mut self, train: &mut Train) {
        self.counters.add(train.queue, queue_stat::HANDED_OVER, mem::take(&mut train.packets));
    }

    /// Serves one port; returns the number of sent and dropped frames.
    #[inline]
    fn serve_port<D: PortOutput<P> + PacketStore<P>>(&mut self, now: Time, index: usize, driver: &mut D) -> usize {
        let missed = self.make_up(now, index);
        let (moved, held) = self.prepare_port(now, index, driver);
        let port = &mut self.ports[index];
        if port.own.bypass.is_empty() {
            port.rest();
        } else {
            if let Some(held) = held
                && let Some(sent) = self.send_past(now, index, held, missed, driver)
            {
                return moved + sent;
            }
            self.settle(self.ports[index].id);
        }
        let port = &mut self.ports[index];
        let (Some(held), true) = (held, !port.backlog.is_empty() || Bursts::is_offering(&port.own)) else {
            port.own.waits = Waits::Nothing;
            port.own.open = ClassSet::EMPTY;
            return moved;
        };
        let blocked = port.own.blocked;
        let sent = if port.own.staged.is_none() {
            self.send_bursts(now, index, held | blocked, driver)
        } else {
            let mut leaving = Leaving::default();
            let sent = self.send_staged(now, index, &mut leaving, driver);
            self.shared.mmu.release_leaving(now, &mut leaving);
            sent
        };
        self.note_waiting(now, index, held, missed, sent);
        moved + sent
    }

    /// Repeats [`Transmission::send_ready`] up to [`BURSTS_MAX`] times. In a round, several ports or lcores may bring more than a burst for
    /// a port, and the backlog of its queues would otherwise never shrink.
    #[inline]
    fn send_bursts<D: PortOutput<P>>(&mut self, now: Time, index: usize, held: ClassSet, driver: &mut D) -> usize {
        let mut sent = self.send_ready(now, index, held, driver);
        for bursts in 1..BURSTS_MAX {
            let port = &self.ports[index];
            if sent < bursts * BURST_MAX || port.backlog.is_empty() || port.own.has_lanes {
                break;
            }
            sent += self.send_ready(now, index, held, driver);
        }
        sent
    }

    /// Sends frames that may leave now, except of the `held` classes. Rows of [in-order classes](OutPort::in_rows) go straight from their
    /// queues; other frames are staged in the port's burst. Frames that the port does not accept stay staged.
    #[inline]
    fn send_ready<D: PortOutput<P>>(&mut self, now: Time, index: usize, held: ClassSet, driver: &mut D) -> usize {
        let mut leaving = Leaving::default();
        let sent = self.send_rows(now, index, held, &mut leaving, driver);
        // Releases all rows together, so that a queue with several is touched once.
        self.shared.mmu.release_leaving(now, &mut leaving);
        sent
    }

    /// [`Transmission::send_ready`] without the release, for which `leaving` collects the sent frames.
    #[inline(always)]
    fn send_rows<D: PortOutput<P>>(
        &mut self,
        now: Time,
        index: usize,
        held: ClassSet,
        leaving: &mut Leaving,
        driver: &mut D,
    ) -> usize {
        let mut ready = self.ready(now, index, held);
        let (mut offer, mut staged) = (Offer::default(), None::<Box<Staged<P>>>);
        let mut left = BURST_MAX;
        while let Some(class) = self.offer_rows(now, index, &mut ready, &mut offer, &mut left, staged.is_none()) {
            let Transmission { shared, queues, ports, link_overhead, .. } = self;
            let port = &mut ports[index];
            if !port.in_rows.contains(class) {
                let Some(queued) = self.take_of(now, index, class, &mut ready) else { break };
                self.ports[index].own.peak.send(wire_bytes(queued.frame_bytes, self.link_overhead));
                staged.get_or_insert_with(|| self.manner.take_spare()).push(queued);
                left -= 1;
                continue;
            }
            let (queue, fifos) = (QueueId::new(port.id, class), queues.fifos());
            let (at, lengths) = fifos.front(queue.index(), left);
            let (is_plain, regulator) = (port.plain.contains(class), &shared.port(port.id).regulator);
            let (count, bytes) = if is_plain {
                port.extend_row::<false>(now, class, ready, lengths, *link_overhead, regulator)
            } else {
                port.extend_row::<true>(now, class, ready, lengths, *link_overhead, regulator)
            };
            left -= count;
            if staged.is_none() && !port.own.has_lanes {
                offer.push(Offered { queue, at, count, bytes });
            } else {
                let staged = staged.get_or_insert_with(|| self.manner.take_spare());
                staged.take_from(queue, fifos.row(at, count), 0, count);
            }
            port.consume_row(fifos, class, count, &mut ready);
            if !is_plain && ready.contains(class) {
                ready -= self.has_to_wait(now, index, class.alone());
            }
        }
        let sent = self.send_offered(now, index, &offer, leaving, driver);
        // Frames that the port did not accept precede those staged after them.
        match (self.ports[index].own.staged.as_mut(), staged) {
            (Some(before), Some(mut staged)) => {
                staged.drain(|queued| before.push(queued));
                self.manner.spare.push(staged);
                sent
            }
            (Some(_), None) => sent,
            (None, staged) => {
                self.ports[index].own.staged = staged;
                sent + self.send_staged(now, index, leaving, driver)
            }
        }
    }

    /// Takes rows of plain classes if they `may` be offered straight from their queues. Returns the class of the next
    /// frame that needs staging, which counts as scheduled; `None` if no frame may leave.
    #[inline(always)]
    fn offer_rows(
        &mut self,
        now: Time,
        index: usize,
        ready: &mut ClassSet,
        offer: &mut Offer,
        left: &mut usize,
        may: bool,
    ) -> Option<Class> {
        let Transmission { shared, queues, ports, link_overhead, .. } = self;
        let port = &mut ports[index];
        let regulator = &shared.port(port.id).regulator;
        let plain = if may && !port.own.has_lanes { port.plain } else { ClassSet::EMPTY };
        while *left > 0 && !ready.is_empty() && port.may_send(now) {
            let class =
                port.scheduler.next(*ready, |class| queues.front_bytes(QueueId::new(port.id, class)).unwrap_or(0))?;
            if !plain.contains(class) {
                return Some(class);
            }
            let (queue, fifos) = (QueueId::new(port.id, class), queues.fifos());
            let (at, lengths) = fifos.front(queue.index(), *left);
            let (count, bytes) = port.extend_row::<false>(now, class, *ready, lengths, *link_overhead, regulator);
            *left -= count;
            offer.push(Offered { queue, at, count, bytes });
            port.consume_row(fifos, class, count, ready);
        }
        None
    }

    /// Offers the port rows of frames taken from their queues, and stages those that it does not accept. Returns the number sent.
    #[inline(always)]
    fn send_offered<D: PortOutput<P>>(
        &mut self,
        now: Time,
        index: usize,
        Offer { rows, of_queues }: &Offer,
        leaving: &mut Leaving,
        driver: &mut D,
    ) -> usize {
        if rows.is_empty() {
            return 0;
        }
        let Transmission { queues, ports, counters, shared, manner, .. } = self;
        let (port, fifos) = (&mut ports[index], queues.fifos());
        let sent = driver.transmit_rows(port.id, &mut OfferedRows { fifos, rows });
        let telling = self.off_ports | self.by_length;
        let offered: usize = of_queues.iter().map(|row| row.count).sum();
        let mut left = sent;
        for Offered { queue, at, count, bytes } in if sent == offered { of_queues } else { rows } {
            let row = fifos.row(*at, *count);
            let gone = left.min(*count);
            left -= gone;
            let bytes = if gone == *count { *bytes } else { row.lengths[..gone].iter().sum() };
            counters.add_frames(*queue, gone as u64, u64::from(bytes));
            let (ingress, charges) = (&row.ingress[..gone], &row.bytes[..gone]);
            shared.mmu.release_later(now, leaving, DepartureRow { egress: *queue, ingress, bytes: charges });
            self.stirred |= told_of(shared, telling, ingress.iter().copied());
            if gone < *count {
                let staged = port.own.staged.get_or_insert_with(|| manner.take_spare());
                staged.take_from(*queue, row, gone, *count);
            }
        }
        sent
    }

    /// Returns those of `classes` that have to wait for their rate or for credit.
    #[inline(never)]
    fn has_to_wait(&self, now: Time, index: usize, classes: ClassSet) -> ClassSet {
        let port = &self.ports[index];
        port.limits.waiting(now, classes) | self.without_credit(port, classes)
    }

    /// Offers the port its burst. `leaving` collects the accepted frames for release.
    #[inline]
    fn send_staged<D: PortOutput<P>>(
        &mut self,
        now: Time,
        index: usize,
        leaving: &mut Leaving,
        driver: &mut D,
    ) -> usize {
        let port = &mut self.ports[index];
        if port.own.has_lanes {
            return self.send_lanes(now, index, driver);
        }
        let Some(mut staged) = port.own.staged.take() else { return 0 };
        let sent = driver.transmit_rows(port.id, &mut staged.front(BURST_MAX));
        self.account(now, &staged, sent, leaving);
        staged.forget_front(sent);
        if staged.is_empty() {
            self.manner.spare.push(staged);
        } else {
            self.ports[index].own.staged = Some(staged);
        }
        sent
    }

    /// Counts the first `sent` staged frames, which left, and collects them for release.
    #[inline]
    pub(super) fn account(&mut self, now: Time, staged: &Staged<P>, sent: usize, leaving: &mut Leaving) {
        let Transmission { counters, shared, .. } = self;
        let rows = || staged.front_rows(sent);
        for (row, lengths) in rows() {
            counters.add_row(row.egress, lengths);
            shared.mmu.release_later(now, leaving, row);
        }
        let telling = self.off_ports | self.by_length;
        if !telling.is_empty() {
            self.stirred |= told_of(shared, telling, rows().flat_map(|(row, _)| row.ingress.iter().copied()));
        }
    }
}

impl<P: Packet> OutPort<BurstPort<P>> {
    /// Puts consecutive frames of a class on the wire by their lengths; the first one is scheduled already. The frames stay in their queue.
    /// A class that is not [plain](OutPort::plain) is `LIMITED`: each frame counts against its rate and its credit. Returns the number of
    /// frames and their bytes.
    #[inline(always)]
    fn extend_row<const LIMITED: bool>(
        &mut self,
        now: Time,
        class: Class,
        ready: ClassSet,
        lengths: &[u32],
        link_overhead: Bytes,
        regulator: &Regulator,
    ) -> (usize, u32) {
        let at_once = self.put_row_on_wire::<LIMITED>(now, class, ready, lengths, link_overhead, regulator);
        at_once
            .unwrap_or_else(|| self.put_each_on_wire::<LIMITED>(now, class, ready, lengths, link_overhead, regulator))
    }

    /// [`OutPort::extend_row`], frame by frame.
    #[inline(never)]
    fn put_each_on_wire<const LIMITED: bool>(
        &mut self,
        now: Time,
        class: Class,
        ready: ClassSet,
        lengths: &[u32],
        link_overhead: Bytes,
        regulator: &Regulator,
    ) -> (usize, u32) {
        // Copies, for registers.
        let (mut shaper, mut peak, mut row) =
            (self.shaper.clone(), self.own.peak.clone(), self.scheduler.row(class, ready));
        let (mut count, mut bytes, mut wire_total, mut waits) = (0, 0, Bytes::ZERO, false);
        for frame_bytes in lengths {
            if count > 0 {
                let may_go = shaper.is_free(now) && peak.is_free(now);
                let is_held = LIMITED && (waits || !regulator.has_credit(class, *frame_bytes));
                if !may_go || is_held || !row.goes_on(*frame_bytes) {
                    break;
                }
            }
            let wire = wire_bytes(*frame_bytes, link_overhead);
            shaper.send(now, wire);
            peak.send(wire);
            if LIMITED {
                if self.counts_sent {
                    regulator.handle_sent(class, *frame_bytes);
                }
                waits = self.limits.send(now, class, wire);
            }
            wire_total += wire;
            bytes += frame_bytes;
            count += 1;
        }
        (self.shaper, self.own.peak) = (shaper, peak);
        self.scheduler.end_row(&row);
        self.count_wire(wire_total);
        (count, bytes)
    }

    /// Removes frames of a class that were taken from its queue. If the queue is empty then, the class leaves `ready`.
    #[inline(always)]
    fn consume_row(&mut self, fifos: &mut Chunks<P>, class: Class, count: usize, ready: &mut ClassSet) {
        let queue = QueueId::new(self.id, class).index();
        if fifos.is_standing(queue) {
            fifos.prefetch_behind(queue, count);
        }
        if fifos.consume(queue, count) {
            self.backlog.remove(class);
            ready.remove(class);
            self.scheduler.handle_empty(class);
        }
    }

    /// Puts consecutive frames of a class on the wire by the sum of their lengths; the first one is scheduled already. Returns `None`, with
    /// nothing changed, if the wire or the rate or credit of a `LIMITED` class does not admit all of them at `now`. Otherwise returns the
    /// number of frames and their bytes.
    #[inline(always)]
    fn put_row_on_wire<const LIMITED: bool>(
        &mut self,
        now: Time,
        class: Class,
        ready: ClassSet,
        lengths: &[u32],
        link_overhead: Bytes,
        regulator: &Regulator,
    ) -> Option<(usize, u32)> {
        let (first, others) = lengths.split_first()?;
        let (mut shaper, mut peak, mut row) =
            (self.shaper.clone(), self.own.peak.clone(), self.scheduler.row(class, ready));
        let (others, bytes) = row.go_on(others);
        let (count, bytes) = (others + 1, bytes + first);
        let wire = Bytes::new(u64::from(bytes) + link_overhead.get() * count as u64);
        shaper.send(now, wire);
        peak.send(wire);
        if !shaper.is_free(now) || !peak.is_free(now) {
            return None;
        }
        if LIMITED {
            let frames = &lengths[..count];
            if !regulator.has_credit_for(class, frames, bytes) || !self.limits.send_all(now, class, wire) {
                return None;
            }
            if self.counts_sent {
                regulator.handle_all_sent(class, frames);
            }
        }
        (self.shaper, self.own.peak) = (shaper, peak);
        self.scheduler.end_row(&row);
        self.count_wire(wire);
        Some((count, bytes))
    }
}
