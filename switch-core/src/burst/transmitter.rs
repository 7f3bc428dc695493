//! Transmission on an lcore: each poll serves every port with a burst, and may come late.

use std::mem;
use std::sync::Arc;

use arrayvec::ArrayVec;
use weir_flowctl::{TxRegulator, wire_bytes};
use weir_mmu::{BurstRequest, DepartureBatch, PendingReleases};
use weir_units::{Bytes, Class, ClassSet, PortId, QueueId, Time};

use super::burst_output::{BurstOutput, BurstPort, WaitReason};
use super::chunks::{ChunkCursor, Chunks};
use super::handoff::TxRingConsumer;
use super::tx_batch::TxBatch;
use crate::counters::{CounterSnapshot, DropReason, queue_stat};
use crate::packet::{BURST_MAX, Burst, Packet, PacketAllocator, PacketRuns, PortOutput, QueuedPacket};
use crate::transmission::{PortTransmitter, Transmission, TransmitMode, ingress_ports_among};

/// Transmitter (TX): sends the frames that the forwarders admitted for its ports.
#[derive(Debug)]
pub(super) struct Transmitter<P> {
    transmission: Transmission<P, BurstOutput<P>>,
    inputs: Box<[TxRingConsumer<P>]>,
}

/// Contiguous frames of a queue that a port is offered, perhaps with others.
#[derive(Clone, Copy, Debug)]
struct TxSegment {
    queue: QueueId,
    at: ChunkCursor,
    count: usize,
    bytes: u32,
}

/// Segments that a port is offered together, in order of departure.
type TxOffer = ArrayVec<TxSegment, BURST_MAX>;

/// Frames of an offer, in place.
struct TxSegments<'o, P> {
    fifos: &'o mut Chunks<P>,
    segments: &'o [TxSegment],
}

impl<P> PacketRuns<P> for TxSegments<'_, P> {
    #[inline(always)]
    fn for_each_run(&mut self, mut show: impl FnMut(&mut [Option<P>])) {
        self.segments.iter().for_each(|segment| show(self.fifos.run(segment.at, segment.count).packets));
    }
}

/// Consecutive packets for one egress queue.
#[derive(Default)]
struct QueueRun {
    queue: QueueId,
    packets: u64,
}

/// Packets taken from the forwarders' rings at once, which bounds the time between two services of a port.
const TAKEN_MAX: usize = BURSTS_MAX * BURST_MAX;

/// Bursts that a port sends at once, which bounds the wait of other ports.
const BURSTS_MAX: usize = 4;

impl<P: Packet> Transmitter<P> {
    pub(super) fn new(
        transmission: Transmission<P, BurstOutput<P>>,
        inputs: Box<[TxRingConsumer<P>]>,
    ) -> Transmitter<P> {
        Transmitter { transmission, inputs }
    }

    /// Returns the transmit side of its ports, for frames that its own lcore admits.
    #[inline]
    pub(super) fn transmission(&mut self) -> &mut Transmission<P, BurstOutput<P>> {
        &mut self.transmission
    }

    /// Takes over the forwarders' admitted frames and serves every port once; returns the number of moved frames.
    pub(super) fn run_once<D: PortOutput<P> + PacketAllocator<P>>(&mut self, now: Time, driver: &mut D) -> usize {
        let mode = &mut self.transmission.mode;
        mode.late.poll(now);
        mode.is_behind = false;
        let taken = self.take_over(now);
        let transmission = &mut self.transmission;
        let sent: usize = (0..transmission.ports.len()).map(|port| transmission.serve_port(now, port, driver)).sum();
        transmission.shared.mmu.flush_pending_bytes(now, &mut transmission.mode.pending_bytes);
        taken + sent
    }

    /// Sends an LLDP frame by one of its ports; returns it if the port does not accept it now.
    pub(super) fn send_lldp<D: PortOutput<P> + PacketAllocator<P>>(
        &mut self,
        now: Time,
        port: PortId,
        packet: P,
        driver: &mut D,
    ) -> Result<(), P> {
        self.transmission.send_lldp(now, port, packet, driver)
    }

    /// Returns whether the last [`Transmitter::run_once`] left frames that were due. They go with the next polls, before which an lcore
    /// should not yield its CPU.
    #[inline]
    pub(super) fn is_behind(&self) -> bool {
        self.transmission.mode.is_behind
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
            let mut run = QueueRun::default();
            for queued in chunk {
                // The packet is in the cache of the forwarder's lcore.
                queued.packet.prefetch();
                self.transmission.enqueue_in_run(now, queued, &mut run);
            }
            self.transmission.count_run(&mut run);
            taken += ready;
        }
        taken
    }

    /// Drops and counts all held frames; returns their number.
    pub(super) fn discard(&mut self, now: Time, reason: DropReason) -> usize {
        let mut discarded = 0;
        loop {
            let taken = self.take_over(now);
            let more = self.transmission.discard_ports(now, reason);
            if taken + more == 0 {
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

    pub(super) fn published(&self) -> Arc<CounterSnapshot> {
        self.transmission.published()
    }
}

impl<P: Packet> Transmission<P, BurstOutput<P>> {
    /// Puts the packets of a burst that was admitted without exception into their egress queues.
    #[inline(always)]
    pub(super) fn enqueue_all(&mut self, packets: &mut Burst<P>, request: &BurstRequest) {
        if !self.arrival_marked.is_empty() {
            self.mark_arrivals(packets, request);
        }
        let Some(to) = request.routes().first().map(|route| route.egress.port()) else { return };
        let is_one_port = request.routes().iter().fold(true, |is_one, route| is_one & (route.egress.port() == to));
        if !is_one_port && !self.stamps {
            return self.pass_by_route(packets, request);
        }
        for route in request.routes() {
            self.counters.add(route.egress, queue_stat::HANDED_OVER, u64::from(route.packets));
        }
        if is_one_port && self.try_bypass(to, packets, request) {
            return;
        }
        for route in request.routes() {
            self.flush_bypass(route.egress.port());
            self.mark_backlogged(route.egress);
        }
        self.queues.put_all(packets, request);
    }

    /// Appends a packet to its egress queue; `run` counts consecutive packets of a queue together.
    #[inline(always)]
    fn enqueue_in_run(&mut self, now: Time, mut queued: QueuedPacket<P>, run: &mut QueueRun) {
        let queue = queued.charged.egress;
        if self.arrival_marked.contains(queue.class()) {
            self.mark_arrival(&mut queued);
        }
        if run.packets == 0 || run.queue != queue {
            self.count_run(run);
            run.queue = queue;
            self.flush_bypass(queue.port());
            self.mark_backlogged(queue);
        }
        run.packets += 1;
        if let Err(queued) = self.queues.push(queued) {
            // There are as many places as packets in the buffer, so a full queue is impossible; if it happens, nothing leaks.
            self.drop_unqueued(now, &queued);
        }
    }

    #[inline]
    fn count_run(&mut self, run: &mut QueueRun) {
        self.counters.add(run.queue, queue_stat::HANDED_OVER, mem::take(&mut run.packets));
    }

    /// Serves one port; returns the number of sent and dropped frames.
    #[inline]
    fn serve_port<D: PortOutput<P> + PacketAllocator<P>>(&mut self, now: Time, index: usize, driver: &mut D) -> usize {
        let missed = self.make_up(now, index);
        let (moved, held) = self.prepare_port(now, index, driver);
        let port = &mut self.ports[index];
        if port.own.bypass.is_empty() {
            port.count_down_backoff();
        } else {
            if let Some(held) = held
                && let Some(sent) = self.send_bypass(now, index, held, missed, driver)
            {
                return moved + sent;
            }
            self.flush_bypass(self.ports[index].id);
        }
        let port = &mut self.ports[index];
        let (Some(held), true) = (held, !port.backlog.is_empty() || BurstOutput::is_offering(&port.own)) else {
            port.own.wait_reason = WaitReason::Nothing;
            port.own.open = ClassSet::EMPTY;
            return moved;
        };
        let blocked = port.own.blocked;
        let sent = if port.own.staged.is_none() {
            self.send_bursts(now, index, held | blocked, driver)
        } else {
            let mut releases = PendingReleases::default();
            let sent = self.send_staged(now, index, &mut releases, driver);
            self.shared.mmu.flush_pending_releases(now, &mut releases);
            sent
        };
        self.record_waiting(now, index, held, missed, sent);
        moved + sent
    }

    /// Repeats [`Transmission::send_ready`] up to [`BURSTS_MAX`] times. In a round, several ports or lcores may bring more than a burst for
    /// a port, and the backlog of its queues would otherwise never shrink.
    #[inline]
    fn send_bursts<D: PortOutput<P>>(&mut self, now: Time, index: usize, held: ClassSet, driver: &mut D) -> usize {
        let mut sent = self.send_ready(now, index, held, driver);
        for bursts in 1..BURSTS_MAX {
            let port = &self.ports[index];
            if sent < bursts * BURST_MAX || port.backlog.is_empty() || port.own.is_multi_queue {
                break;
            }
            sent += self.send_ready(now, index, held, driver);
        }
        sent
    }

    /// Sends frames that may leave now, except of the `held` classes. Frames that the port does not accept are staged.
    #[inline]
    fn send_ready<D: PortOutput<P>>(&mut self, now: Time, index: usize, held: ClassSet, driver: &mut D) -> usize {
        let (mut offer, mut releases) = (TxOffer::default(), PendingReleases::default());
        self.offer_runs(now, index, held, &mut offer);
        let mut sent = self.send_offered(now, index, &offer, &mut releases, driver);
        if self.ports[index].own.is_multi_queue {
            sent += self.send_tx_queues(now, index, driver);
        }
        // Releases all runs together, so that a queue with several is touched once.
        self.shared.mmu.flush_pending_releases(now, &mut releases);
        sent
    }

    /// Puts runs of frames on the wire that may leave now, except of the `held` classes. The frames stay in place, marked and stamped.
    #[inline(always)]
    fn offer_runs(&mut self, now: Time, index: usize, held: ClassSet, offer: &mut TxOffer) {
        let mut ready = self.ready(now, index, held);
        let mut left = BURST_MAX;
        while left > 0 && !ready.is_empty() && self.ports[index].may_send(now) {
            let Some(class) = self.next_class(index, ready) else { break };
            let queue = QueueId::new(self.ports[index].id, class);
            if self.stamps {
                self.stamp_front(now, index, queue);
            }
            let Transmission { shared, queues, ports, link_overhead, stamps, .. } = self;
            let port = &mut ports[index];
            let (at, lengths) = queues.front(queue, if *stamps { 1 } else { left });
            let regulator = &shared.port(port.id).regulator;
            let is_plain = port.plain.contains(class);
            let (count, bytes) = if is_plain {
                port.extend_run::<false>(now, class, ready, lengths, *link_overhead, regulator)
            } else {
                port.extend_run::<true>(now, class, ready, lengths, *link_overhead, regulator)
            };
            left -= count;
            offer.push(TxSegment { queue, at, count, bytes });
            if queues.consume(queue, at, count) {
                port.backlog.remove(class);
                ready.remove(class);
                port.scheduler.handle_empty(class);
            }
            if !is_plain {
                let taken_from = ready & (class.alone() | port.credit_sharing);
                if !taken_from.is_empty() {
                    ready -= self.has_to_wait(now, index, taken_from);
                }
            }
            if self.departure_marked.contains(class) {
                self.mark_departures(queue, at, count);
            }
        }
    }

    /// Offers the port segments of its queues, and stages those that it does not accept; with several transmit queues, all. Returns the
    /// number sent.
    #[inline(always)]
    fn send_offered<D: PortOutput<P>>(
        &mut self,
        now: Time,
        index: usize,
        segments: &TxOffer,
        releases: &mut PendingReleases,
        driver: &mut D,
    ) -> usize {
        if segments.is_empty() {
            return 0;
        }
        let Transmission { queues, ports, counters, shared, mode, .. } = self;
        let (port, fifos) = (&mut ports[index], queues.fifos());
        let offers_now = !port.own.is_multi_queue;
        let sent = if offers_now { driver.transmit_runs(port.id, &mut TxSegments { fifos, segments }) } else { 0 };
        let candidates = self.off_ports | self.by_length;
        let mut left = sent;
        for TxSegment { queue, at, count, bytes } in segments {
            let run = fifos.run(*at, *count);
            let segment_sent = left.min(*count);
            left -= segment_sent;
            let bytes = if segment_sent == *count { *bytes } else { run.lengths[..segment_sent].iter().sum() };
            counters.add_frames(*queue, segment_sent as u64, u64::from(bytes));
            let (ingress, charges) = (&run.ingress[..segment_sent], &run.bytes[..segment_sent]);
            shared.mmu.release_later(now, releases, DepartureBatch { egress: *queue, ingress, bytes: charges });
            self.pending_ports |= ingress_ports_among(shared, candidates, ingress.iter().copied());
            if segment_sent < *count {
                let staged = port.own.staged.get_or_insert_with(|| mode.take_spare());
                staged.take_from(*queue, run, segment_sent, *count);
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

    /// Offers the port its burst. `releases` collects the accepted frames for release.
    #[inline]
    fn send_staged<D: PortOutput<P>>(
        &mut self,
        now: Time,
        index: usize,
        releases: &mut PendingReleases,
        driver: &mut D,
    ) -> usize {
        let port = &mut self.ports[index];
        if port.own.is_multi_queue {
            return self.send_tx_queues(now, index, driver);
        }
        let Some(mut staged) = port.own.staged.take() else { return 0 };
        let sent = driver.transmit_runs(port.id, &mut staged.front(BURST_MAX));
        self.account(now, &staged, sent, releases);
        staged.remove_front(sent);
        if staged.is_empty() {
            self.mode.spare.push(staged);
        } else {
            self.ports[index].own.staged = Some(staged);
        }
        sent
    }

    /// Counts the first `sent` staged frames, which left, and collects them for release.
    #[inline]
    pub(super) fn account(&mut self, now: Time, staged: &TxBatch<P>, sent: usize, releases: &mut PendingReleases) {
        let Transmission { counters, shared, .. } = self;
        let runs = || staged.front_runs(sent);
        for (run, lengths) in runs() {
            counters.add_lengths(run.egress, lengths);
            shared.mmu.release_later(now, releases, run);
        }
        let candidates = self.off_ports | self.by_length;
        if !candidates.is_empty() {
            self.pending_ports |=
                ingress_ports_among(shared, candidates, runs().flat_map(|(run, _)| run.ingress.iter().copied()));
        }
    }
}

impl<P: Packet> PortTransmitter<BurstPort<P>> {
    /// Puts consecutive frames of a class on the wire by their lengths; the first one is scheduled already. The frames stay in their queue.
    /// A class that is not [plain](PortTransmitter::plain) is `LIMITED`: each frame counts against its rate and its credit. Returns the
    /// number of frames and their bytes.
    #[inline(always)]
    fn extend_run<const LIMITED: bool>(
        &mut self,
        now: Time,
        class: Class,
        ready: ClassSet,
        lengths: &[u32],
        link_overhead: Bytes,
        regulator: &TxRegulator,
    ) -> (usize, u32) {
        let at_once = self.put_run_on_wire::<LIMITED>(now, class, ready, lengths, link_overhead, regulator);
        at_once
            .unwrap_or_else(|| self.put_each_on_wire::<LIMITED>(now, class, ready, lengths, link_overhead, regulator))
    }

    /// [`PortTransmitter::extend_run`], frame by frame.
    #[inline(never)]
    fn put_each_on_wire<const LIMITED: bool>(
        &mut self,
        now: Time,
        class: Class,
        ready: ClassSet,
        lengths: &[u32],
        link_overhead: Bytes,
        regulator: &TxRegulator,
    ) -> (usize, u32) {
        // Copies, for registers.
        let (mut shaper, mut peak, mut run) =
            (self.shaper.clone(), self.own.peak.clone(), self.scheduler.run(class, ready));
        let (mut count, mut bytes, mut wire_total, mut is_limited) = (0, 0, Bytes::ZERO, false);
        for frame_bytes in lengths {
            if count > 0 {
                let may_go = shaper.is_free(now) && peak.is_free(now);
                let is_held = LIMITED && (is_limited || !regulator.has_credit(class, *frame_bytes));
                if !may_go || is_held || !run.try_extend(*frame_bytes) {
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
                is_limited = self.limits.send(now, class, wire);
            }
            wire_total += wire;
            bytes += frame_bytes;
            count += 1;
        }
        (self.shaper, self.own.peak) = (shaper, peak);
        self.scheduler.end_run(&run);
        self.count_wire(wire_total);
        (count, bytes)
    }

    /// Puts consecutive frames of a class on the wire by the sum of their lengths; the first one is scheduled already. Returns `None`, with
    /// nothing changed, if the wire or the rate or credit of a `LIMITED` class does not admit all of them at `now`. Otherwise returns the
    /// number of frames and their bytes.
    #[inline(always)]
    fn put_run_on_wire<const LIMITED: bool>(
        &mut self,
        now: Time,
        class: Class,
        ready: ClassSet,
        lengths: &[u32],
        link_overhead: Bytes,
        regulator: &TxRegulator,
    ) -> Option<(usize, u32)> {
        let (first, others) = lengths.split_first()?;
        let (mut shaper, mut peak, mut run) =
            (self.shaper.clone(), self.own.peak.clone(), self.scheduler.run(class, ready));
        let (others, bytes) = run.extend(others);
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
        self.scheduler.end_run(&run);
        self.count_wire(wire);
        Some((count, bytes))
    }
}
