//! Transmission, on lcores and in virtual time: flow-control frames first, then the queues that may send, within the port's rate. A
//! [`TransmitMode`] decides how frames leave: in bursts on an lcore, one by one in virtual time.

mod discard;
mod link;
mod lldp;
mod messages;
mod mode;
mod port_transmitter;

use std::sync::Arc;

use weir_mmu::{BufferRelease, EcnMarker};
use weir_units::{Bytes, CLASSES, Class, ClassSet, PortBitmap, PortId, PortSet, QueueId, Time};

use crate::counters::{CounterSnapshot, Counters, DropReason, gauge, port_stat, queue_stat};
use crate::egress::EgressQueues;
use crate::packet::{BURST_MAX, Packet, PacketAllocator, PortOutput, QueuedPacket};
use crate::random::Random;
use crate::shared::Shared;
use discard::drop_reporter;
pub(crate) use mode::TransmitMode;
pub(crate) use port_transmitter::{EgressTiming, PortTransmitter};

/// Transmit side of some ports: egress queues, and the state that decides when their frames leave.
///
/// The caller serves its ports in turn: [`Transmission::prepare_port`], then [`Transmission::take_next`] for each frame that may leave.
/// Departures may make messages due at other ports; these are then in `pending_ports`.
#[derive(Debug)]
pub(crate) struct Transmission<P, M: TransmitMode<P>> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queues: EgressQueues<M::Queues, M::Ports>,
    pub(crate) ports: Box<[PortTransmitter<M::Port>]>,
    /// Position in `ports` of each port of the switch that is served here.
    pub(crate) position_of: Box<[usize]>,
    pub(crate) counters: Counters,
    pub(crate) markers: [Option<EcnMarker>; CLASSES],
    /// Classes whose markers mark at arrival.
    pub(crate) arrival_marked: ClassSet,
    /// Classes whose markers mark at departure.
    pub(crate) departure_marked: ClassSet,
    /// Source of RED's random draws.
    pub(crate) random: Random,
    /// Ports that may have work.
    pub(crate) pending_ports: M::Ports,
    /// Ports with a class that is OFF, as last seen.
    pub(crate) off_ports: M::Ports,
    /// Ports whose messages depend on queue lengths, so that each departure may make one due.
    pub(crate) by_length: M::Ports,
    /// Whether frames are checked for stamps that they ask for.
    pub(crate) stamps: bool,
    /// Bytes of link time per frame beyond its length without FCS.
    pub(crate) link_overhead: Bytes,
    pub(crate) mode: M,
}

impl<P: Packet, M: TransmitMode<P>> Transmission<P, M> {
    pub(crate) fn new(
        shared: Arc<Shared>,
        ports: Box<[PortTransmitter<M::Port>]>,
        queues: EgressQueues<M::Queues, M::Ports>,
        markers: [Option<EcnMarker>; CLASSES],
        random: Random,
        counters: Counters,
        mode: M,
    ) -> Transmission<P, M> {
        let mut position_of = vec![usize::MAX; shared.ports().len()];
        ports.iter().enumerate().for_each(|(position, port)| position_of[port.id.index()] = position);
        let by_length = ports.iter().filter(|port| shared.port(port.id).by_length);
        let by_length = by_length.map(|port| port.id).collect();
        let mut transmission = Transmission {
            position_of: position_of.into(),
            queues,
            counters,
            stamps: shared.stamps,
            link_overhead: shared.link_overhead,
            shared,
            ports,
            markers,
            arrival_marked: ClassSet::EMPTY,
            departure_marked: ClassSet::EMPTY,
            random,
            pending_ports: M::Ports::EMPTY,
            off_ports: M::Ports::EMPTY,
            by_length,
            mode,
        };
        transmission.find_classes();
        transmission
    }

    /// Determines the classes that are marked at arrival and at departure, and the plain ones of each port.
    pub(crate) fn find_classes(&mut self) {
        let Transmission { ports, markers, .. } = self;
        let marked = |at_enqueue: bool| {
            let marks = |marker: EcnMarker| marker.marks_at_enqueue() == at_enqueue;
            ClassSet::from_iter(Class::ALL.into_iter().filter(|class| markers[class.index()].is_some_and(marks)))
        };
        (self.arrival_marked, self.departure_marked) = (marked(true), marked(false));
        for port in ports {
            let counted = if port.counts_sent { ClassSet::ALL } else { ClassSet::EMPTY };
            port.plain = ClassSet::ALL - port.limits.limited() - port.credit_classes - counted;
        }
    }

    /// Checks, in debug builds, that each frame taken over has been sent or dropped, or is held. Holds between any two calls.
    ///
    /// # Panics
    /// If a frame is missing, which is a bug.
    pub(crate) fn audit(&self) {
        if cfg!(debug_assertions) {
            let total = |stat| self.counters.total(stat);
            let here = self.held() as u64;
            let departed = total(queue_stat::FRAMES) + total(queue_stat::DROPS);
            assert_eq!(
                total(queue_stat::HANDED_OVER),
                departed + here,
                "frames that a transmitter took over; it holds {here}"
            );
        }
    }

    /// Returns the number of frames in the queues, and offered to ports.
    fn held(&self) -> usize {
        self.queues.held() + self.ports.iter().map(|port| M::offered(&port.own)).sum::<usize>()
    }

    #[inline]
    pub(crate) fn enqueue(&mut self, now: Time, mut queued: QueuedPacket<P>) {
        let queue = queued.charged.egress;
        self.counters.add(queue, queue_stat::HANDED_OVER, 1);
        if self.arrival_marked.contains(queue.class()) {
            self.mark_arrival(&mut queued);
        }
        if M::HAS_BYPASS {
            self.flush_bypass(queue.port());
        }
        match self.queues.push(queued) {
            Ok(()) => self.mark_backlogged(queue),
            // There are as many places as packets in the buffer, so a full queue is impossible; if it happens, nothing leaks.
            Err(queued) => self.drop_unqueued(now, &queued),
        }
    }

    /// Marks an arriving frame by the length of its queue, including the frame.
    #[inline(never)]
    pub(crate) fn mark_arrival(&mut self, queued: &mut QueuedPacket<P>) {
        let Transmission { shared, ports, counters, markers, random, position_of, .. } = self;
        let queue = queued.charged.egress;
        let Some(marker) = &markers[queue.class().index()] else { return };
        let port = &ports[position_of[queue.port().index()]];
        if marker.marks_on(port.ecn_scale, shared.mmu.egress_length(queue), random.next()) && queued.packet.mark_ce() {
            counters.add(queue, queue_stat::EXTRA, 1);
        }
    }

    /// Moves a port's bypassing frames into its queues, ahead of others.
    #[inline(always)]
    pub(crate) fn flush_bypass(&mut self, port: PortId) {
        M::flush_bypass(&mut self.ports[self.position_of[port.index()]].own, &mut self.queues);
    }

    #[inline(always)]
    pub(crate) fn mark_backlogged(&mut self, queue: QueueId) {
        let port = &mut self.ports[self.position_of[queue.port().index()]];
        // Behind a waiting frame, nothing changes.
        if !port.backlog.contains(queue.class()) {
            port.backlog.insert(queue.class());
            self.pending_ports.insert(queue.port());
        }
    }

    /// Drops a packet that finds no place.
    #[cold]
    pub(crate) fn drop_unqueued(&mut self, now: Time, queued: &QueuedPacket<P>) {
        self.counters.count_drop(queued.charged.egress, DropReason::NoMemory);
        self.shared.mmu.release(now, &[queued.charged]);
    }

    /// Sends due messages to a port's peer, obeys the peer, and drops frames that can't be sent. Returns the number of moved frames, and
    /// the classes that are held back; `None` if the port has no link.
    #[inline]
    pub(crate) fn prepare_port<D: PortOutput<P> + PacketAllocator<P>>(
        &mut self,
        now: Time,
        index: usize,
        driver: &mut D,
    ) -> (usize, Option<ClassSet>) {
        if now >= self.ports[index].watchdogs.due() {
            self.watch(now, index);
        }
        let has_link = self.has_link(now, index);
        self.update_off(now, index);
        let mut moved = if has_link { self.send_control(now, index, driver) } else { 0 };
        let port = &mut self.ports[index];
        let state = self.shared.port(port.id);
        // Take over the peer's pauses and rates.
        let paused = port.paused(now, &state.regulator);
        let followed = port.limits.follow(now, &state.regulator);
        if !followed.aged.is_empty() {
            self.counters.add_port(port.id, port_stat::AGED, followed.aged.len() as u64);
        }
        if followed.changed || !(paused - port.paused).is_empty() {
            state.record_obeyed(now);
            self.mode.record_reaction_delay(now.since(state.regulator.last_message_at()));
        }
        port.paused = paused;
        if !has_link {
            let on_drop = &mut drop_reporter(now, DropReason::PortDown, driver);
            return (moved + self.discard_port(now, index, DropReason::PortDown, BURST_MAX, on_drop), None);
        }
        let dropping = port.watchdogs.dropping();
        if !(port.backlog & dropping).is_empty() {
            M::flush_bypass(&mut port.own, &mut self.queues);
            let on_drop = &mut drop_reporter(now, DropReason::PfcWatchdog, driver);
            moved += self.discard_queues(now, index, dropping, DropReason::PfcWatchdog, BURST_MAX, on_drop);
        }
        (moved, Some(paused | dropping))
    }

    /// Polls the port's watchdogs, and starts or ends storms.
    #[cold]
    fn watch(&mut self, now: Time, index: usize) {
        let Transmission { shared, ports, counters, .. } = self;
        let port = &mut ports[index];
        let dropped = port.watchdogs.dropped_groups();
        port.watchdogs.poll(now, port.id, shared, counters);
        let (in_storm, dropping) = (port.watchdogs.in_storm(), port.watchdogs.dropping());
        // Clones' copies came over the same link.
        for id in std::iter::once(port.id).chain(port.clones_off.iter().map(|(clone, _)| *clone)) {
            shared.set_storms(id, in_storm, dropping);
        }
        for class in (dropped - port.watchdogs.dropped_groups()).iter() {
            // A group that went OFF before or in the storm is advertised only now; that delay is not the switch's.
            port.advertised_at[class.index()] = now;
        }
    }

    /// Returns the classes, without the `held` ones, with a frame that may leave as soon as the wire is free.
    #[inline]
    pub(crate) fn ready(&self, now: Time, index: usize, held: ClassSet) -> ClassSet {
        let port = &self.ports[index];
        let mut ready = port.backlog & !held;
        ready &= !port.limits.waiting(now, ready);
        ready & !self.without_credit(port, ready)
    }

    /// Takes the next frame of the `ready` classes from its queue, and puts it on the port's wire: marked, stamped and counted against the
    /// port's limits. Removes its class from `ready` if that has to wait.
    #[inline(always)]
    pub(crate) fn take_next(&mut self, now: Time, index: usize, ready: &mut ClassSet) -> Option<QueuedPacket<P>> {
        let class = self.next_class(index, *ready)?;
        let Transmission {
            shared,
            queues,
            ports,
            counters,
            departure_marked,
            markers,
            random,
            stamps,
            link_overhead,
            ..
        } = self;
        let port = &mut ports[index];
        let queue = QueueId::new(port.id, class);
        let mut queued = queues.pop(queue)?;
        if departure_marked.contains(class)
            && let Some(marker) = &markers[class.index()]
            && marker.marks_on(port.ecn_scale, shared.mmu.egress_length(queue), random.next())
            && queued.packet.mark_ce()
        {
            counters.add(queue, queue_stat::EXTRA, 1);
        }
        if *stamps {
            let own = u64::from(queued.charged.bytes);
            let left = || shared.stamped_length(queue).saturating_sub(own);
            port.stamp(now, &mut queued.packet, left, shared, random);
        }
        let wire = port.put_on_wire(now, queued.frame_bytes, *link_overhead);
        if *stamps {
            port.record_for_digests(now, wire, shared);
        }
        if port.counts_sent {
            shared.port(port.id).regulator.handle_sent(class, queued.frame_bytes);
        }
        if port.limits.send(now, class, wire) {
            ready.remove(class);
        }
        if queues.is_empty(queue) {
            port.backlog.remove(class);
            ready.remove(class);
            port.scheduler.handle_empty(class);
        }
        if !port.credit_classes.is_empty() {
            let taken_from = class.alone() | port.credit_sharing;
            *ready -= self.without_credit(&self.ports[index], *ready & taken_from);
        }
        Some(queued)
    }

    /// Returns the class among `ready` whose frame goes next. The frame counts as sent.
    #[inline(always)]
    pub(crate) fn next_class(&mut self, index: usize, ready: ClassSet) -> Option<Class> {
        let Transmission { queues, ports, .. } = self;
        let port = &mut ports[index];
        port.scheduler.next(ready, |class| queues.head_bytes(QueueId::new(port.id, class)).unwrap_or(0))
    }

    /// Returns those of `classes` that lack the peer's credit for their next frame.
    #[inline]
    pub(crate) fn without_credit(&self, port: &PortTransmitter<M::Port>, classes: ClassSet) -> ClassSet {
        let asked = classes & port.credit_classes;
        if asked.is_empty() { ClassSet::EMPTY } else { self.without_credit_of(port, asked) }
    }

    #[inline(never)]
    fn without_credit_of(&self, port: &PortTransmitter<M::Port>, asked: ClassSet) -> ClassSet {
        let regulator = &self.shared.port(port.id).regulator;
        let next = |class| self.queues.head_bytes(QueueId::new(port.id, class)).unwrap_or(0);
        ClassSet::from_iter(asked.iter().filter(|class| !regulator.has_credit(*class, next(*class))))
    }

    /// Adds the ingress port of a departed packet to `pending_ports`, if a message to its peer may be due.
    #[inline]
    pub(crate) fn mark_pending(&mut self, departure: &BufferRelease) {
        if !(self.off_ports.is_empty() && self.by_length.is_empty()) {
            let from = self.shared.port(departure.ingress.port()).real_port;
            if self.off_ports.contains(from) || self.by_length.contains(from) {
                self.pending_ports.insert(from);
            }
        }
    }

    /// Returns the ingress ports and priority groups of the frames in a queue while the peer blocks it; none otherwise.
    pub(crate) fn blocked_from(&self, now: Time, index: usize, class: Class) -> (M::Ports, ClassSet) {
        let port = &self.ports[index];
        let held = port.paused(now, &self.shared.port(port.id).regulator) & !port.watchdogs.dropping();
        let blocked = port.backlog & (held | self.without_credit(port, port.backlog));
        if blocked.contains(class) {
            self.queues.ingress_of(QueueId::new(port.id, class))
        } else {
            (M::Ports::EMPTY, ClassSet::EMPTY)
        }
    }

    /// Returns the earliest instant after `now` with possible work, if no packet arrives: a shaper's wire or a queue's limiter is free, a
    /// peer's pause ends, a PAUSE needs a refresh, or a watchdog is due.
    pub(crate) fn next_wakeup(&self, now: Time) -> Time {
        self.ports.iter().map(|port| self.wakeup(now, port)).min().unwrap_or(Time::NEVER)
    }

    /// [`Transmission::next_wakeup`] of one port that is served here.
    #[inline]
    pub(crate) fn next_wakeup_of(&self, now: Time, port: PortId) -> Time {
        self.wakeup(now, &self.ports[self.position_of[port.index()]])
    }

    #[inline]
    fn wakeup(&self, now: Time, port: &PortTransmitter<M::Port>) -> Time {
        let message = port.generator.next_wakeup(now);
        let own = message.min(port.watchdogs.due());
        if port.backlog.is_empty() && !M::is_offering(&port.own) {
            return own;
        }
        let regulator = &self.shared.port(port.id).regulator;
        if !(port.backlog & port.watchdogs.dropping()).is_empty() {
            return now;
        }
        let open = port.backlog & !port.paused(now, regulator);
        // Without credit, nothing happens until a message comes.
        let open_and_paid = open & !self.without_credit(port, open);
        let waiting = port.limits.waiting(now, open_and_paid);
        let data = if !(open_and_paid - waiting).is_empty() || M::is_offering(&port.own) {
            port.shaper.free_at()
        } else if !(port.backlog - open).is_empty() {
            regulator.next_wakeup(now).unwrap_or(Time::NEVER)
        } else {
            Time::NEVER
        };
        own.min(data).min(port.limits.next_wakeup(waiting, regulator))
    }

    /// Answers a reader's request for counters. Call it between bursts.
    #[inline]
    pub(crate) fn serve(&mut self, now: Time) {
        if let Some(request) = self.counters.requested() {
            self.counters_at(now).publish(request);
        }
    }

    /// Returns the counters up to `now`, with current gauges.
    #[cold]
    pub(crate) fn counters_at(&mut self, now: Time) -> &Counters {
        self.counters.set_gauge(gauge::HELD, self.held() as u64);
        for index in 0..self.ports.len() {
            self.count_off(now, index, self.ports[index].generator.advertised_off());
            for class in Class::ALL {
                let (from, groups) = self.blocked_from(now, index, class);
                let queue = QueueId::new(self.ports[index].id, class);
                self.counters.set(queue, queue_stat::BLOCKED_FROM, from.words()[0]);
                self.counters.set(queue, queue_stat::BLOCKED_GROUPS, u64::from(groups.bits()));
            }
            let port = &mut self.ports[index];
            port.watchdogs.update(port.id, &self.shared, &self.counters);
        }
        self.mode.set_gauges(&mut self.counters);
        &self.counters
    }

    /// Whether a report would change after `now` even if no frame arrives and no port is served.
    pub(crate) fn report_depends_on_time(&self, now: Time) -> bool {
        let Transmission { shared, ports, .. } = self;
        let is_off = |port: &PortTransmitter<M::Port>| !port.generator.advertised_off().is_empty();
        self.held() > 0
            || shared.mmu.usage_depends_on_time()
            || ports.iter().any(is_off)
            || shared.ports().iter().any(|port| port.regulator.depends_on_time(now))
    }

    pub(crate) fn published(&self) -> Arc<CounterSnapshot> {
        self.counters.published()
    }
}

/// Returns the ports in `candidates` by which packets of these queues came.
#[inline]
pub(crate) fn ingress_ports_among(
    shared: &Shared,
    candidates: PortSet,
    ingress: impl Iterator<Item = QueueId>,
) -> PortSet {
    if candidates.is_empty() {
        return candidates;
    }
    // Packets of a run mostly came by one queue.
    let (mut from, mut last) = (PortSet::EMPTY, None);
    for queue in ingress {
        if last != Some(queue) {
            last = Some(queue);
            from.insert(shared.port(queue.port()).real_port);
        }
    }
    candidates & from
}
