//! Transmission on an lcore: each poll serves every port with a burst, and may come late.

use std::sync::Arc;

use weir_flowctl::{Regulator, wire_bytes};
use weir_mmu::{DepartureRow, Intake, Leaving};
use weir_units::{Bytes, Class, ClassSet, QueueId, Time};

use super::bursts::{BurstPort, Bursts};
use super::handoff::{FromForwarder, OVERFULL};
use super::lateness::Waits;
use super::staged::Staged;
use crate::counters::{DropReason, Published, queue_stat};
use crate::packet::{BURST_MAX, Burst, Packet, PacketStore, PortOutput, Queued};
use crate::queues::PacketQueues;
use crate::transmission::{Manner, OutPort, Transmission, told_of};

/// TX: transmits on its ports what the forwarders admitted for them.
#[derive(Debug)]
pub(super) struct Transmitter<P> {
    transmission: Transmission<P, Bursts<P>>,
    inputs: Box<[FromForwarder<P>]>,
}

/// The fewest frames in a row that the port is offered by themselves, where others may follow from another queue.
const ROW_MIN: usize = 16;

/// Packets taken from the forwarders' rings at once, so that a port is served at least that often.
const TAKEN_MAX: usize = BURSTS_MAX * BURST_MAX;

/// Bursts that a port sends at once, so that the others wait no longer.
const BURSTS_MAX: usize = 4;

impl<P: Packet> Transmitter<P> {
    pub(super) fn new(transmission: Transmission<P, Bursts<P>>, inputs: Box<[FromForwarder<P>]>) -> Transmitter<P> {
        Transmitter { transmission, inputs }
    }

    /// The way out of its ports, for what its own lcore admits.
    #[inline]
    pub(super) fn transmission(&mut self) -> &mut Transmission<P, Bursts<P>> {
        &mut self.transmission
    }

    /// Takes over what the forwarders admitted and serves every port once; returns how many frames moved.
    pub(super) fn run_once<D: PortOutput<P> + PacketStore<P>>(&mut self, now: Time, driver: &mut D) -> usize {
        let manner = &mut self.transmission.manner;
        manner.late.poll(now);
        manner.is_behind = false;
        let taken = self.take_over(now);
        let transmission = &mut self.transmission;
        let sent: usize = (0..transmission.ports.len()).map(|port| transmission.serve_port(now, port, driver)).sum();
        taken + sent
    }

    /// Whether the last [`Transmitter::run_once`] left a port frames that were to have left by now: they go with the next
    /// polls, before which an lcore should not give its CPU away.
    #[inline]
    pub(super) fn is_behind(&self) -> bool {
        self.transmission.manner.is_behind
    }

    /// Frames in its queues.
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
            for queued in chunk {
                // The forwarder's lcore has it.
                queued.packet.prefetch();
                self.transmission.enqueue(now, queued);
            }
            taken += ready;
        }
        taken
    }

    /// Gives up everything that is held, counting it; returns how much.
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

    /// The earliest instant after `now` at which there may be something to do without a packet arriving: a shaper's
    /// wire or a queue's limiter is free, a peer's pause ends, a PAUSE is to be refreshed, a watchdog is to look.
    pub(super) fn next_wakeup(&self, now: Time) -> Time {
        self.transmission.next_wakeup(now)
    }

    /// In debug builds: whether each frame that was taken over has been sent or dropped, or is here. Between any two calls.
    ///
    /// # Panics
    /// If one is not: a fault of the program.
    pub(super) fn audit(&self) {
        self.transmission.audit();
    }

    /// Answers a reader's request for counters. Called between bursts.
    #[inline]
    pub(super) fn serve(&mut self, now: Time) {
        self.transmission.serve(now);
    }

    pub(super) fn published(&self) -> Arc<Published> {
        self.transmission.published()
    }
}

impl<P: Packet> Transmission<P, Bursts<P>> {
    /// Puts packets of a burst that was admitted without exception into their egress queues.
    #[inline(always)]
    pub(super) fn enqueue_all(&mut self, now: Time, packets: &mut Burst<P>, intake: &Intake) {
        if self.marks_arrivals {
            return Queued::all(packets, intake).for_each(|queued| self.enqueue(now, queued));
        }
        for bundle in intake.bundles() {
            let queue = bundle.egress;
            self.counters.add(queue, queue_stat::HANDED_OVER, u64::from(bundle.packets));
            self.note_backlog(queue);
        }
        if self.queues.are_in_order() {
            self.queues.fifos().put_all(packets, intake);
        } else {
            Queued::all(packets, intake).for_each(|queued| assert!(self.queues.push(queued).is_ok(), "{OVERFULL}"));
        }
    }

    /// Serves one port; returns how many frames went out.
    #[inline]
    fn serve_port<D: PortOutput<P> + PacketStore<P>>(&mut self, now: Time, index: usize, driver: &mut D) -> usize {
        let missed = self.make_up(now, index);
        let (moved, held) = self.prepare_port(now, index, driver);
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
        self.note_waiting(now, index, held, (missed, sent));
        moved + sent
    }

    /// [`Transmission::send_ready`], a burst or some: more may come for a port in a round than a burst, from several ports or lcores,
    /// and what stood in its queues then would never get less.
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

    /// Sends frames that may go now, none of the `held` classes: rows of classes that [may leave so](OutPort::in_rows) straight from
    /// their queues, others from the port's burst, where they are staged. What the port does not accept stays staged.
    #[inline]
    fn send_ready<D: PortOutput<P>>(&mut self, now: Time, index: usize, held: ClassSet, driver: &mut D) -> usize {
        let mut leaving = Leaving::default();
        let sent = self.send_rows(now, index, held, &mut leaving, driver);
        // All rows together, so that a queue of which there are several is touched once.
        self.shared.mmu.release_leaving(now, &mut leaving);
        sent
    }

    /// [`Transmission::send_ready`], but that what went is yet to be released.
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
        let (mut sent, mut staged) = (0, None::<Box<Staged<P>>>);
        while !ready.is_empty() && self.ports[index].may_send(now) {
            let room = BURST_MAX - sent - staged.as_ref().map_or(0, |staged| staged.len());
            if room == 0 {
                break;
            }
            let Some(class) = self.next_class(index, ready) else { break };
            let port = &self.ports[index];
            if !port.in_rows.contains(class) {
                let free_at = port.shaper.free_at();
                let Some(queued) = self.take_of(now, index, class, &mut ready) else { break };
                let port = &mut self.ports[index];
                port.own.peak.send(port.shaper.free_at().since(free_at));
                staged.get_or_insert_with(|| self.manner.take_spare()).push(queued);
                continue;
            }
            let is_direct = staged.is_none() && !port.own.has_lanes;
            let is_plain = port.plain.contains(class);
            let (count, bytes) = if is_plain {
                self.extend_row::<false>(now, index, class, ready, room)
            } else {
                self.extend_row::<true>(now, index, class, ready, room)
            };
            if is_direct && (count >= ROW_MIN || ready.only().is_some()) {
                let gone = self.send_row(now, index, class, (count, bytes), leaving, driver);
                sent += gone;
                self.consume_row(index, class, count, &mut ready);
                if gone < count {
                    return sent;
                }
            } else {
                let queue = QueueId::new(self.ports[index].id, class);
                let staged = staged.get_or_insert_with(|| self.manner.take_spare());
                staged.take_from(queue, self.queues.fifos().front_row(queue.index()), 0, count);
                self.consume_row(index, class, count, &mut ready);
            }
            if !is_plain {
                ready -= self.has_to_wait(now, index, ready & class.alone());
            }
        }
        self.ports[index].own.staged = staged;
        sent + self.send_staged(now, index, leaving, driver)
    }

    /// Offers the port the first `count` frames of a queue, so many bytes, and stages what it does not accept. Returns how many went.
    #[inline(always)]
    fn send_row<D: PortOutput<P>>(
        &mut self,
        now: Time,
        index: usize,
        class: Class,
        (count, bytes): (usize, u32),
        leaving: &mut Leaving,
        driver: &mut D,
    ) -> usize {
        let Transmission { queues, ports, counters, shared, manner, .. } = self;
        let port = &mut ports[index];
        let queue = QueueId::new(port.id, class);
        let row = queues.fifos().front_row(queue.index());
        let sent = driver.transmit_row(port.id, &mut row.packets[..count]);
        if sent == count {
            counters.add_frames(queue, count as u64, u64::from(bytes));
        } else {
            counters.add_row(queue, &row.lengths[..sent]);
        }
        let gone = DepartureRow { egress: queue, ingress: &row.ingress[..sent], bytes: &row.bytes[..sent] };
        shared.mmu.release_later(now, leaving, gone);
        manner.note_released(sent);
        self.stirred |= told_of(shared, self.off_ports | self.by_length, row.ingress[..sent].iter().copied());
        if sent < count {
            let mut staged = manner.take_spare();
            staged.take_from(queue, row, sent, count);
            port.own.staged = Some(staged);
        }
        sent
    }

    /// Which of these classes have to wait for their rate, or for credit.
    #[inline(never)]
    fn has_to_wait(&self, now: Time, index: usize, classes: ClassSet) -> ClassSet {
        let port = &self.ports[index];
        port.limits.waiting(now, classes) | self.without_credit(port, classes)
    }

    /// Puts frames of a class, whose first one was scheduled, on the port's wire: as many as lie in a row, and would be next one
    /// after the other, and `most` at most. Returns how many, and their bytes. They are still in their queue. A class that is not
    /// [plain](OutPort::plain) is `LIMITED`: each frame counts against its rate and its credit.
    #[inline(always)]
    fn extend_row<const LIMITED: bool>(
        &mut self,
        now: Time,
        index: usize,
        class: Class,
        ready: ClassSet,
        most: usize,
    ) -> (usize, u32) {
        let Transmission { shared, queues, ports, link_overhead, .. } = self;
        let port = &mut ports[index];
        let queue = QueueId::new(port.id, class).index();
        let is_standing = queues.fifos().is_standing(queue);
        let frames = queues.fifos().front_row(queue);
        let most = most.min(frames.lengths.len());
        let regulator = &shared.port(port.id).regulator;
        let lengths = &frames.lengths[..most];
        if let Some(row) = port.put_row_on_wire::<LIMITED>(now, class, ready, (lengths, *link_overhead), regulator) {
            if is_standing {
                queues.fifos().prefetch_behind(queue, row.0);
            }
            return row;
        }
        // In registers, for the row.
        let (mut shaper, mut peak, mut row) =
            (port.shaper.clone(), port.own.peak.clone(), port.scheduler.row(class, ready));
        let (mut count, mut bytes, mut wire_total, mut waits) = (0, 0, Bytes::ZERO, false);
        for frame_bytes in lengths {
            if count > 0 {
                let may_go = shaper.is_free(now) && peak.is_free(now);
                let is_held = LIMITED && (waits || !regulator.has_credit(class, *frame_bytes));
                if !may_go || is_held || !row.goes_on(*frame_bytes) {
                    break;
                }
            }
            let (free_at, wire) = (shaper.free_at(), wire_bytes(*frame_bytes, *link_overhead));
            shaper.send(now, wire);
            peak.send(shaper.free_at().since(free_at));
            if LIMITED {
                if port.counts_sent {
                    regulator.handle_sent(class, *frame_bytes);
                }
                waits = port.limits.send(now, class, wire);
            }
            wire_total += wire;
            bytes += frame_bytes;
            count += 1;
        }
        (port.shaper, port.own.peak) = (shaper, peak);
        port.scheduler.end_row(&row);
        port.count_wire(wire_total);
        if is_standing {
            queues.fifos().prefetch_behind(queue, count);
        }
        (count, bytes)
    }

    /// Forgets frames of a class that were taken from its queue. Should it be empty now, the class is ready no more.
    #[inline]
    fn consume_row(&mut self, index: usize, class: Class, count: usize, ready: &mut ClassSet) {
        let Transmission { queues, ports, .. } = self;
        let port = &mut ports[index];
        let (fifos, fifo) = (queues.fifos(), QueueId::new(port.id, class).index());
        fifos.consume(fifo, count);
        if fifos.is_empty(fifo) {
            port.backlog.remove(class);
            ready.remove(class);
            port.scheduler.handle_empty(class);
        }
    }

    /// Offers the port its burst. What it accepts is yet to be released.
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
        let sent = driver.transmit_row(port.id, staged.front(BURST_MAX));
        self.account(now, &staged, sent, leaving);
        staged.forget_front(sent);
        if staged.is_empty() {
            self.manner.spare.push(staged);
        } else {
            self.ports[index].own.staged = Some(staged);
        }
        sent
    }

    /// Counts the first `sent` frames of what was staged, which went and are yet to be released.
    #[inline]
    pub(super) fn account(&mut self, now: Time, staged: &Staged<P>, sent: usize, leaving: &mut Leaving) {
        let Transmission { counters, shared, manner, .. } = self;
        let rows = || staged.front_rows(sent);
        for (row, lengths) in rows() {
            counters.add_row(row.egress, lengths);
            shared.mmu.release_later(now, leaving, row);
        }
        manner.note_released(sent);
        let telling = self.off_ports | self.by_length;
        if !telling.is_empty() {
            self.stirred |= told_of(shared, telling, rows().flat_map(|(row, _)| row.ingress.iter().copied()));
        }
    }
}

impl<P> OutPort<BurstPort<P>> {
    /// Puts frames of a class of these lengths, the first of which was scheduled, on the wire at once: as many as would be next one
    /// after the other, if the wire would be free at `now` even behind all of them. It would be free between them then, since it is
    /// taken for longer with each. Those of a `LIMITED` class go so if its rate and its credit let all of them. `None` if they
    /// may not, and nothing is changed. Returns how many, and their bytes.
    #[inline(always)]
    fn put_row_on_wire<const LIMITED: bool>(
        &mut self,
        now: Time,
        class: Class,
        ready: ClassSet,
        (lengths, link_overhead): (&[u32], Bytes),
        regulator: &Regulator,
    ) -> Option<(usize, u32)> {
        let (first, others) = lengths.split_first()?;
        let (mut shaper, mut peak, mut row) =
            (self.shaper.clone(), self.own.peak.clone(), self.scheduler.row(class, ready));
        let (others, bytes) = row.go_on(others, others.iter().sum());
        let (count, bytes) = (others + 1, bytes + first);
        let wire = Bytes::new(u64::from(bytes) + link_overhead.get() * count as u64);
        shaper.send(now, wire);
        peak.send(shaper.free_at().since(self.shaper.free_at()));
        if !shaper.is_free(now) || !peak.is_free(now) {
            return None;
        }
        if LIMITED {
            let frames = &lengths[..count];
            if !regulator.has_credit_for(class, frames) || !self.limits.send_all(now, class, wire) {
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
