//! Transmission, on lcores and in virtual time: flow-control frames first, then the queues whose gate is open, within the port's
//! rate. How frames then leave is a [`Manner`]: in bursts on an lcore, one by one in virtual time.

mod link;

use std::sync::Arc;

use weir_flowctl::{ClassLimits, Demand, MessageGenerator, Regulator, Shaper, Tells, wire_bytes};
use weir_mmu::{Departure, EcnMarker, Mmu};
use weir_units::archive::{Archive, State};
use weir_units::{Bytes, CLASSES, Class, ClassSet, PortId, PortSet, QueueId, SetOfPorts, Span, Time};
use weir_wire::mac_control::ControlFrame;
use weir_wire::trailer::Telemetry;

use crate::counters::{Counters, DropReason, Published, gauge, port_stat, queue_stat};
use crate::egress::EgressQueues;
use crate::packet::{BURST_MAX, Burst, Direction, Packet, PacketStore, PortOutput, Queued};
use crate::queues::PacketQueues;
use crate::random::Random;
use crate::scheduler::Scheduler;
use crate::shared::{PortState, Shared};
use crate::utilisation::Utilisation;
use crate::watchdog::PortWatchdogs;

/// The way out of some ports: egress queues, and what decides when their frames leave.
///
/// Who calls it serves its ports in turn: [`Transmission::prepare_port`], then the frames that may go, with
/// [`Transmission::take_next`], and looks which ports have something to tell after those that went.
#[derive(Debug)]
pub(crate) struct Transmission<P, M: Manner<P>> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queues: EgressQueues<M::Queues, M::Ports>,
    pub(crate) ports: Box<[OutPort<M::Port>]>,
    /// Position in `ports` of each port of the switch that is served here.
    pub(crate) position_of: Box<[usize]>,
    pub(crate) counters: Counters,
    pub(crate) markers: [Option<EcnMarker>; CLASSES],
    /// The classes among them that mark what leaves a queue.
    pub(crate) leaving_markers: [Option<EcnMarker>; CLASSES],
    /// Whether any of them marks what comes into its queue.
    pub(crate) marks_arrivals: bool,
    /// What RED's probabilities are drawn from.
    pub(crate) random: Random,
    /// The ports that may have something to do.
    pub(crate) stirred: M::Ports,
    /// The ports with a class that is OFF, as last seen.
    pub(crate) off_ports: M::Ports,
    /// The ports whose messages go by their queues' lengths, so that each departure may make one due.
    pub(crate) by_length: M::Ports,
    /// Whether frames are looked at for what they want stamped.
    pub(crate) stamps: bool,
    /// What a frame takes on a link beyond its length without FCS.
    pub(crate) link_overhead: Bytes,
    pub(crate) manner: M,
}

/// The manner in which frames leave. Frames that were taken from a port's queues and that its device has not accepted are
/// *offered*.
pub(crate) trait Manner<P> {
    /// The state kept for a port: the frames that it is offered, among others.
    type Port;

    /// Where frames wait.
    type Queues: PacketQueues<Packet = P>;

    /// What the switch's ports are kept in that have something to do or to tell.
    type Ports: SetOfPorts;

    /// Whether a control thread may give queues other limits while the switch runs, so that there is to be room for them.
    const IS_STEERED: bool = false;

    /// A port that is offered nothing. Its device has so many transmit queues.
    fn port(&self, state: &PortState, tx_queues: u8) -> Self::Port;

    /// Whether a port is offered frames.
    fn is_offering(port: &Self::Port) -> bool;

    /// How many frames it is offered.
    fn offered(port: &Self::Port) -> usize;

    /// The credit blocks of those of a class.
    fn blocks_offered(port: &Self::Port, class: Class) -> u32;

    /// Gives them up, and shows them with what they were charged; returns how many they were.
    fn give_up(&mut self, port: &mut Self::Port, charged: impl FnMut(&[P], &[Departure])) -> usize;

    /// Whether frames may be on their way past the queues of a port.
    const PASSES_BY: bool = false;

    /// Puts frames that were to pass a port's queues by into them.
    #[inline(always)]
    fn settle(_port: &mut Self::Port, _queues: &mut EgressQueues<Self::Queues, Self::Ports>)
    where
        P: Packet,
    {
    }

    /// Takes note of the rate that a port was given, or that its link has now.
    fn note_rate(_port: &mut Self::Port, _state: &PortState) {}

    /// Takes note of how long ago the arrival was that a message, just sent, tells of.
    fn note_message(&mut self, _delay: Span) {}

    /// Takes note of how long ago a message came that is obeyed from now on.
    fn note_reaction(&mut self, _delay: Span) {}

    /// Takes note that so many frames are in the buffer no more.
    fn note_released(&mut self, _frames: usize) {}

    /// Has frames leave the buffer.
    #[inline(always)]
    fn release(&mut self, mmu: &Mmu, now: Time, departures: &[Departure]) {
        mmu.release(now, departures);
        self.note_released(departures.len());
    }

    /// Sets what it tells of itself, before counters are published.
    fn set_gauges(&self, _counters: &mut Counters) {}
}

/// One port's way out. Fields that each frame touches come first; those that are looked at when the port is served, and what the
/// peer is told, come next.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct OutPort<O> {
    pub(crate) id: PortId,
    /// Classes with a frame in their queue.
    pub(crate) backlog: ClassSet,
    /// Classes that the peer pauses, as last seen.
    pub(crate) paused: ClassSet,
    /// The classes that need the peer's credit.
    pub(crate) credit_classes: ClassSet,
    /// Whether the port's regulator is to be told of frames that are sent.
    pub(crate) counts_sent: bool,
    pub(crate) shaper: Shaper,
    /// What data has taken on the link, for telemetry.
    tx_bytes: u64,
    pub(crate) limits: ClassLimits,
    pub(crate) scheduler: Scheduler,
    /// What the manner keeps of it: [`Manner::Port`].
    pub(crate) own: O,
    pub(crate) watchdogs: PortWatchdogs,
    /// Classes whose frames leave as they came, in the order in which they came, so that they may leave in rows.
    pub(crate) in_rows: ClassSet,
    /// The classes among them whose frames only the port's rate and the scheduler hold back: no rate of their own, and no credit.
    pub(crate) plain: ClassSet,
    /// What ECN's thresholds are scaled by that follow the rate: [`EcnMarker::scale_of`].
    pub(crate) ecn_scale: u64,
    generator: MessageGenerator,
    /// Each clone, with the classes that the MMU wants paused there. Its frames come over this port's link, so its PAUSE is this port's.
    clones_off: Box<[(PortId, ClassSet)]>,
    /// Classes that the MMU wants paused, as last seen: the port's own.
    own_off: ClassSet,
    /// Classes that the peer is to pause whatever the buffer holds.
    forced: ClassSet,
    /// Classes of which the peer is told that they may go on whatever the buffer holds: all, until it has been told so in the way that the
    /// port has spoken before.
    hushed: ClassSet,
    /// `own_off` and every clone's and `forced`, minus `hushed` and the classes that a PFC storm is dropping.
    off: ClassSet,
    /// When the peer was last told that each class is OFF, or that it is ON again. What turned a class OFF before that is told, or
    /// nobody was to be told of it: while there was no link, or in a storm.
    told_at: [Time; CLASSES],
    /// How busy the port is, where frames are digested.
    utilisation: Utilisation,
}

/// What decides when a port's frames leave, and which is next.
#[derive(Debug)]
pub(crate) struct Pace {
    pub(crate) shaper: Shaper,
    pub(crate) limits: ClassLimits,
    pub(crate) scheduler: Scheduler,
}

impl<O: State> State for OutPort<O> {
    fn state(&mut self, archive: &mut Archive) {
        let OutPort {
            id: _,
            backlog,
            paused,
            credit_classes,
            counts_sent,
            shaper,
            tx_bytes,
            limits,
            scheduler,
            own,
            watchdogs,
            in_rows,
            plain,
            ecn_scale,
            generator,
            clones_off,
            own_off,
            forced,
            hushed,
            off,
            told_at,
            utilisation,
        } = self;
        for classes in [backlog, paused, credit_classes, in_rows, plain, own_off, forced, hushed, off] {
            classes.state(archive);
        }
        counts_sent.state(archive);
        shaper.state(archive);
        tx_bytes.state(archive);
        limits.state(archive);
        scheduler.state(archive);
        own.state(archive);
        watchdogs.state(archive);
        ecn_scale.state(archive);
        generator.state(archive);
        clones_off.state(archive);
        told_at.state(archive);
        utilisation.state(archive);
    }
}

impl<O> OutPort<O> {
    pub(crate) fn new(
        state: &PortState,
        clones: impl Iterator<Item = PortId>,
        pace: Pace,
        generator: MessageGenerator,
        watchdogs: PortWatchdogs,
        own: O,
    ) -> OutPort<O> {
        let Pace { shaper, limits, scheduler } = pace;
        OutPort {
            id: state.real_port,
            shaper,
            limits,
            scheduler,
            generator,
            watchdogs,
            own_off: ClassSet::EMPTY,
            forced: ClassSet::EMPTY,
            hushed: ClassSet::EMPTY,
            clones_off: clones.map(|clone| (clone, ClassSet::EMPTY)).collect(),
            off: ClassSet::EMPTY,
            paused: ClassSet::EMPTY,
            backlog: ClassSet::EMPTY,
            own,
            told_at: [Time::ZERO; CLASSES],
            tx_bytes: 0,
            utilisation: Utilisation::default(),
            ecn_scale: EcnMarker::scale_of(state.rate()),
            in_rows: ClassSet::EMPTY,
            plain: ClassSet::EMPTY,
            credit_classes: state.regulator.credit_classes(),
            counts_sent: state.regulator.counts_sent(),
        }
    }

    /// What a frame is stamped with that leaves so much behind it in its queue.
    pub(crate) fn telemetry(&self, now: Time, left: u64, shared: &Shared) -> Telemetry {
        Telemetry { at: now, tx_bytes: self.tx_bytes, queue: Bytes::new(left), rate: shared.port(self.id).rate() }
    }

    /// Stamps a frame with what it asks for, as it leaves so much behind it in its queue; it is to be put on the wire now.
    #[inline]
    pub(crate) fn stamp<P: Packet>(
        &mut self,
        now: Time,
        packet: &mut P,
        left: impl FnOnce() -> u64,
        shared: &Shared,
        random: &mut Random,
    ) {
        if packet.wants_telemetry() {
            packet.stamp(&self.telemetry(now, left(), shared));
        } else if let Some(digester) = &shared.digester
            && packet.wants_digest()
        {
            let rate = shared.port(self.id).rate();
            packet.raise_digest(digester.code(&mut self.utilisation, now, Bytes::new(left()), rate, || random.next()));
        }
    }

    /// Takes note of a frame that was put on the wire, for digests of those after it.
    #[inline]
    pub(crate) fn note_for_digests(&mut self, now: Time, wire: Bytes, shared: &Shared) {
        if shared.digester.is_some() {
            self.utilisation.note_sent(now, wire);
        }
    }

    /// Puts a frame of this length on the wire; returns what it takes there.
    #[inline]
    pub(crate) fn put_on_wire(&mut self, now: Time, frame_bytes: u32, link_overhead: Bytes) -> Bytes {
        let wire = wire_bytes(frame_bytes, link_overhead);
        self.tx_bytes += wire.get();
        self.shaper.send(now, wire);
        wire
    }

    /// Counts what frames take on the wire that were put there.
    #[inline]
    pub(crate) fn count_wire(&mut self, wire: Bytes) {
        self.tx_bytes += wire.get();
    }

    /// When the arrival came that a message is for which slows the peer down at `now`. `None` if none was, as what is forced is told
    /// though nothing crossed a threshold, or if the classes are ON again.
    fn crossed_at(&self, now: Time, shared: &Shared) -> Option<Time> {
        let state = shared.port(self.id);
        match state.mechanism().tells() {
            Tells::Pfc | Tells::Pause => {
                let turned = self.off - self.generator.advertised_off() - self.forced;
                turned.iter().filter_map(|class| self.turned_off_at(class, shared)).min()
            }
            Tells::Stages => Some(state.admitted_at()),
            _ => Some(now),
        }
    }

    /// When a class that the peer knows as ON was turned OFF, by this port's own queue or a clone's.
    fn turned_off_at(&self, class: Class, shared: &Shared) -> Option<Time> {
        let ports = std::iter::once(self.id).chain(self.clones_off.iter().map(|(clone, _)| *clone));
        let off_since = ports.filter_map(|port| shared.mmu.off_since(port, class)).min()?;
        Some(off_since.max(self.told_at[class.index()]))
    }

    /// Classes that a pause holds.
    #[inline]
    pub(crate) fn paused(&self, now: Time, regulator: &Regulator) -> ClassSet {
        let paused = regulator.paused(now);
        if paused.is_empty() { paused } else { paused - self.watchdogs.ignoring() }
    }
}

/// The classes among these that mark what leaves a queue.
pub(crate) fn of_leaving(markers: &[Option<EcnMarker>; CLASSES]) -> [Option<EcnMarker>; CLASSES] {
    markers.map(|marker| marker.filter(|marker| !marker.marks_arrivals()))
}

/// Whether any of these marks what comes into its queue.
pub(crate) fn marks_arrivals(markers: &[Option<EcnMarker>; CLASSES]) -> bool {
    markers.iter().flatten().any(EcnMarker::marks_arrivals)
}

/// But for what the switch shares, which its forwarding goes over.
impl<P, M: Manner<P>> State for Transmission<P, M>
where
    M::Queues: State,
    M::Port: State,
{
    fn state(&mut self, archive: &mut Archive) {
        let Transmission {
            shared: _,
            queues,
            ports,
            position_of: _,
            counters,
            // A control thread changes them, and there is none.
            markers: _,
            leaving_markers: _,
            marks_arrivals: _,
            random,
            stirred,
            off_ports,
            by_length: _,
            stamps: _,
            link_overhead: _,
            manner: _,
        } = self;
        queues.state(archive);
        ports.state(archive);
        counters.state(archive);
        random.state(archive);
        stirred.state(archive);
        off_ports.state(archive);
    }
}

impl<P: Packet, M: Manner<P>> Transmission<P, M> {
    pub(crate) fn new(
        shared: Arc<Shared>,
        ports: Box<[OutPort<M::Port>]>,
        queues: EgressQueues<M::Queues, M::Ports>,
        markers: [Option<EcnMarker>; CLASSES],
        random: Random,
        counters: Counters,
        manner: M,
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
            leaving_markers: of_leaving(&markers),
            marks_arrivals: marks_arrivals(&markers),
            markers,
            random,
            stirred: M::Ports::EMPTY,
            off_ports: M::Ports::EMPTY,
            by_length,
            manner,
        };
        transmission.find_rows();
        transmission
    }

    /// Finds the classes of each port whose frames leave as they came.
    pub(crate) fn find_rows(&mut self) {
        let Transmission { ports, queues, markers, stamps, .. } = self;
        let unmarked = Class::ALL.into_iter().filter(|class| markers[class.index()].is_none() && !*stamps);
        let unmarked = ClassSet::from_iter(unmarked.filter(|_| queues.are_in_order()));
        for port in ports {
            let counted = if port.counts_sent { ClassSet::ALL } else { ClassSet::EMPTY };
            port.in_rows = unmarked;
            port.plain = unmarked - port.limits.limited() - port.credit_classes - counted;
        }
    }

    /// In debug builds: whether each frame that was taken over has been sent or dropped, or is here. Between any two calls.
    ///
    /// # Panics
    /// If one is not: a fault of the program.
    pub(crate) fn audit(&self) {
        if cfg!(debug_assertions) {
            let total = |stat| self.counters.total(stat);
            let here = self.held() as u64;
            let went = total(queue_stat::FRAMES) + total(queue_stat::DROPS);
            assert_eq!(
                total(queue_stat::HANDED_OVER),
                went + here,
                "frames that a transmitter took over; it holds {here}"
            );
        }
    }

    /// Frames in its queues, and offered to ports.
    fn held(&self) -> usize {
        self.queues.held() + self.ports.iter().map(|port| M::offered(&port.own)).sum::<usize>()
    }

    /// Puts a packet into its egress queue.
    #[inline]
    pub(crate) fn enqueue(&mut self, now: Time, mut queued: Queued<P>) {
        let queue = queued.charged.egress;
        self.counters.add(queue, queue_stat::HANDED_OVER, 1);
        if self.marks_arrivals {
            self.mark_arrival(&mut queued);
        }
        if M::PASSES_BY {
            self.settle(queue.port());
        }
        match self.queues.push(queued) {
            Ok(()) => self.note_backlog(queue),
            // There are as many places as the buffer holds packets, so this can't be; if it is, nothing leaks.
            Err(queued) => self.give_up(now, &queued),
        }
    }

    /// Marks a frame by the length of the queue that it comes into, itself included.
    #[inline(never)]
    fn mark_arrival(&mut self, queued: &mut Queued<P>) {
        let Transmission { shared, ports, counters, markers, random, position_of, .. } = self;
        let queue = queued.charged.egress;
        let Some(marker) = markers[queue.class().index()].filter(EcnMarker::marks_arrivals) else { return };
        let port = &ports[position_of[queue.port().index()]];
        if marker.marks_on(port.ecn_scale, shared.mmu.egress_length(queue), random.next()) && queued.packet.mark_ce() {
            counters.add(queue, queue_stat::EXTRA, 1);
        }
    }

    /// Puts frames that were to pass a port's queues by into them, before others.
    #[inline(always)]
    pub(crate) fn settle(&mut self, port: PortId) {
        M::settle(&mut self.ports[self.position_of[port.index()]].own, &mut self.queues);
    }

    /// Notes that a queue has a frame.
    #[inline(always)]
    pub(crate) fn note_backlog(&mut self, queue: QueueId) {
        let port = &mut self.ports[self.position_of[queue.port().index()]];
        // Behind a frame that waits it changes nothing.
        if !port.backlog.contains(queue.class()) {
            port.backlog.insert(queue.class());
            self.stirred.insert(queue.port());
        }
    }

    /// Gives up a packet that there is no place for.
    #[cold]
    pub(crate) fn give_up(&mut self, now: Time, queued: &Queued<P>) {
        self.counters.drop(queued.charged.egress, DropReason::NoMemory);
        self.manner.release(&self.shared.mmu, now, &[queued.charged]);
    }

    /// Tells a port's peer what is to be told, obeys it, and gives up frames that can't be sent. Returns how many frames moved,
    /// and the classes that are held back; `None` if the port has no link.
    #[inline]
    pub(crate) fn prepare_port<D: PortOutput<P> + PacketStore<P>>(
        &mut self,
        now: Time,
        index: usize,
        driver: &mut D,
    ) -> (usize, Option<ClassSet>) {
        if now >= self.ports[index].watchdogs.due() {
            self.watch(now, index);
        }
        let has_link = self.has_link(now, index);
        self.look_for_off(now, index);
        let mut moved = if has_link { self.send_control(now, index, driver) } else { 0 };
        let port = &mut self.ports[index];
        let state = self.shared.port(port.id);
        // What the peer has said is taken over.
        let paused = port.paused(now, &state.regulator);
        let followed = port.limits.follow(now, &state.regulator);
        if !followed.aged.is_empty() {
            self.counters.add_port(port.id, port_stat::AGED, followed.aged.len() as u64);
        }
        if followed.changed || !(paused - port.paused).is_empty() {
            state.note_obeyed(now);
            self.manner.note_reaction(now.since(state.regulator.heard_at()));
        }
        port.paused = paused;
        if !has_link {
            let note = &mut noting(now, DropReason::PortDown, driver);
            return (moved + self.discard_port(now, index, DropReason::PortDown, BURST_MAX, note), None);
        }
        let dropping = port.watchdogs.dropping();
        if !(port.backlog & dropping).is_empty() {
            M::settle(&mut port.own, &mut self.queues);
            let note = &mut noting(now, DropReason::PfcWatchdog, driver);
            moved += self.discard_queues(now, (index, dropping), DropReason::PfcWatchdog, BURST_MAX, note);
        }
        (moved, Some(paused | dropping))
    }

    /// Has the watchdogs look at the port's queues, and starts or ends what follows.
    #[cold]
    fn watch(&mut self, now: Time, index: usize) {
        let Transmission { shared, ports, counters, .. } = self;
        let port = &mut ports[index];
        let dropped = port.watchdogs.dropping();
        port.watchdogs.poll(now, port.id, shared, counters);
        let (in_storm, dropping) = (port.watchdogs.in_storm(), port.watchdogs.dropping());
        // What clones copy came over the same link.
        for id in std::iter::once(port.id).chain(port.clones_off.iter().map(|(clone, _)| *clone)) {
            shared.set_storms(id, in_storm, dropping);
        }
        for class in (dropped - dropping).iter() {
            // A queue that went OFF before or in the storm is advertised only now, and that is no delay of the switch's.
            port.told_at[class.index()] = now;
        }
    }

    /// Looks which classes are to be paused.
    #[inline]
    fn look_for_off(&mut self, now: Time, index: usize) {
        let port = &mut self.ports[index];
        let mmu = &self.shared.mmu;
        port.own_off = off_classes(mmu, port.id, port.own_off, now);
        let mut off = port.own_off | port.forced;
        for (clone, own) in &mut port.clones_off {
            *own = off_classes(mmu, *clone, *own, now);
            off |= *own;
        }
        off -= port.watchdogs.dropping() | port.hushed;
        if off != port.off {
            port.off = off;
            if off.is_empty() {
                self.off_ports.remove(port.id);
            } else {
                self.off_ports.insert(port.id);
            }
        }
    }

    /// Tells the peer what changed, or repeats what is due.
    #[inline]
    fn send_control<D: PortOutput<P> + PacketStore<P>>(&mut self, now: Time, index: usize, driver: &mut D) -> usize {
        let port = &mut self.ports[index];
        let dropping = port.watchdogs.dropping();
        let offered = |class| M::blocks_offered(&port.own, class);
        let Some(frame) = port.generator.poll(now, demand(&self.shared, port.id, port.off, dropping, offered)) else {
            return 0;
        };
        self.send_control_frame(now, index, &frame, driver)
    }

    #[cold]
    fn send_control_frame<D: PortOutput<P> + PacketStore<P>>(
        &mut self,
        now: Time,
        index: usize,
        frame: &ControlFrame,
        driver: &mut D,
    ) -> usize {
        let port = &mut self.ports[index];
        let state = self.shared.port(port.id);
        let Some(mut packet) = driver.control(frame, state.mac) else {
            self.counters.add_port(port.id, port_stat::PUT_OFF, 1);
            return 0;
        };
        let slows = port.generator.slows(frame);
        let crossed = match frame {
            _ if slows => port.crossed_at(now, &self.shared),
            // Sent when its time has come, whatever arrived.
            ControlFrame::Credit(_) => Some(now),
            _ => None,
        };
        if let Some(crossed) = crossed {
            driver.note_crossed(&mut packet, crossed);
        }
        let frame_bytes = packet.frame_bytes();
        let mut burst = Burst::new();
        burst.push(packet);
        if driver.transmit(port.id, &mut burst) == 0 {
            // The port takes nothing now; the generator will ask again at the next poll.
            return 0;
        }
        // A control frame is not held back by the shaper, but its time on the wire is the port's.
        port.shaper.send(now, wire_bytes(frame_bytes, self.link_overhead));
        if let Some(crossed) = crossed {
            state.note_slowed(crossed);
            if slows {
                self.manner.note_message(now.since(crossed));
            }
        }
        let (before, off) = (port.generator.advertised_off(), port.off);
        let dropping = port.watchdogs.dropping();
        let offered = |class| M::blocks_offered(&port.own, class);
        port.generator.handle_sent(now, frame, demand(&self.shared, port.id, off, dropping, offered));
        let after = port.generator.advertised_off();
        match frame {
            ControlFrame::Pfc(_) => self.counters.add_port(port.id, port_stat::PFC, 1),
            ControlFrame::Pause(_) => self.counters.add_port(port.id, port_stat::PAUSE, 1),
            ControlFrame::Credit(_) | ControlFrame::Queue(_) => {
                self.counters.add_port(port.id, port_stat::CREDIT, 1);
            }
            ControlFrame::Own(_) => self.counters.add_port(port.id, port_stat::OWN, 1),
        }
        for class in (after | before).iter() {
            let stat = if after.contains(class) { port_stat::XOFF } else { port_stat::XON };
            self.counters.add_port(port.id, stat + class.index(), 1);
        }
        for class in (after - before).iter() {
            self.counters.add_port(port.id, port_stat::PAUSES + class.index(), 1);
            let held = self.shared.mmu.held(QueueId::new(port.id, class)).get();
            self.counters.add_port(port.id, port_stat::HELD_AT_PAUSES + class.index(), held);
            port.told_at[class.index()] = now;
        }
        self.count_off(now, index, before & !after);
        1
    }

    /// Counts for how long these classes were advertised as OFF.
    fn count_off(&mut self, now: Time, index: usize, classes: ClassSet) {
        let port = &mut self.ports[index];
        for class in classes.iter() {
            let since = std::mem::replace(&mut port.told_at[class.index()], now);
            let off_for: Span = now.since(since);
            self.counters.add_port(port.id, port_stat::OFF_PICOS + class.index(), off_for.as_picos());
        }
    }

    /// The classes with a frame that may go, the wire apart, none of the `held` ones.
    #[inline]
    pub(crate) fn ready(&self, now: Time, index: usize, held: ClassSet) -> ClassSet {
        let port = &self.ports[index];
        let mut ready = port.backlog & !held;
        ready &= !port.limits.waiting(now, ready);
        ready & !self.without_credit(port, ready)
    }

    /// Takes the frame that goes next, of one of the `ready` classes, from its queue, and puts it on the port's wire: it is
    /// marked, stamped and counted against what limits the port. Classes that have to wait after it are ready no more.
    #[inline(always)]
    pub(crate) fn take_next(&mut self, now: Time, index: usize, ready: &mut ClassSet) -> Option<Queued<P>> {
        let class = self.next_class(index, *ready)?;
        self.take_of(now, index, class, ready)
    }

    /// The class whose frame goes next, of the `ready` ones. The frame counts as sent.
    #[inline(always)]
    pub(crate) fn next_class(&mut self, index: usize, ready: ClassSet) -> Option<Class> {
        let Transmission { queues, ports, .. } = self;
        let port = &mut ports[index];
        port.scheduler.next(ready, |class| queues.front_bytes(QueueId::new(port.id, class)).unwrap_or(0))
    }

    /// [`Transmission::take_next`], of the class that is next.
    #[inline(always)]
    pub(crate) fn take_of(&mut self, now: Time, index: usize, class: Class, ready: &mut ClassSet) -> Option<Queued<P>> {
        let Transmission { shared, queues, ports, counters, leaving_markers, random, stamps, link_overhead, .. } = self;
        let port = &mut ports[index];
        let queue = QueueId::new(port.id, class);
        let mut queued = queues.pop(queue)?;
        if let Some(marker) = &leaving_markers[class.index()]
            && marker.marks_on(port.ecn_scale, shared.mmu.egress_length(queue), random.next())
            && queued.packet.mark_ce()
        {
            counters.add(queue, queue_stat::EXTRA, 1);
        }
        if *stamps {
            let own = u64::from(queued.charged.bytes);
            let left = || shared.mmu.egress_length(queue).saturating_sub(own);
            port.stamp(now, &mut queued.packet, left, shared, random);
        }
        let wire = port.put_on_wire(now, queued.frame_bytes, *link_overhead);
        if *stamps {
            port.note_for_digests(now, wire, shared);
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
            *ready -= self.without_credit(&self.ports[index], *ready & class.alone());
        }
        Some(queued)
    }

    /// Classes among `classes` whose next frame the peer has given no credit for.
    #[inline]
    pub(crate) fn without_credit(&self, port: &OutPort<M::Port>, classes: ClassSet) -> ClassSet {
        let asked = classes & port.credit_classes;
        if asked.is_empty() { ClassSet::EMPTY } else { self.without_credit_of(port, asked) }
    }

    #[inline(never)]
    fn without_credit_of(&self, port: &OutPort<M::Port>, asked: ClassSet) -> ClassSet {
        let regulator = &self.shared.port(port.id).regulator;
        let next = |class| self.queues.front_bytes(QueueId::new(port.id, class)).unwrap_or(0);
        ClassSet::from_iter(asked.iter().filter(|class| !regulator.has_credit(*class, next(*class))))
    }

    /// A departure may make a message due to the peer of the port that the packet came by.
    #[inline]
    pub(crate) fn stir_for(&mut self, departure: &Departure) {
        if !(self.off_ports.is_empty() && self.by_length.is_empty()) {
            let from = self.shared.port(departure.ingress.port()).real_port;
            if self.off_ports.contains(from) || self.by_length.contains(from) {
                self.stirred.insert(from);
            }
        }
    }

    /// The ingress ports that a queue holds frames of, while the peer lets it send nothing; none otherwise.
    pub(crate) fn blocked_from(&self, now: Time, index: usize, class: Class) -> M::Ports {
        let port = &self.ports[index];
        let held = port.paused(now, &self.shared.port(port.id).regulator) & !port.watchdogs.dropping();
        let blocked = port.backlog & (held | self.without_credit(port, port.backlog));
        if blocked.contains(class) { self.queues.holds_from(QueueId::new(port.id, class)) } else { M::Ports::EMPTY }
    }

    /// Gives up what a port is offered, and up to `limit` frames with what waits in its queues, counting them; returns how many.
    fn discard_port(
        &mut self,
        now: Time,
        index: usize,
        reason: DropReason,
        limit: usize,
        note: &mut impl FnMut(&P, QueueId),
    ) -> usize {
        let Transmission { shared, ports, counters, manner, .. } = self;
        let discarded = manner.give_up(&mut ports[index].own, |packets, departures| {
            for (packet, departure) in packets.iter().zip(departures) {
                note(packet, departure.egress);
                counters.drop(departure.egress, reason);
            }
            shared.mmu.release(now, departures);
        });
        manner.note_released(discarded);
        discarded + self.discard_queues(now, (index, ClassSet::ALL), reason, limit.saturating_sub(discarded), note)
    }

    /// Gives up everything that ports are offered, or that waits in queues, counting it; returns how much.
    pub(crate) fn discard_ports(&mut self, now: Time, reason: DropReason) -> usize {
        (0..self.ports.len()).map(|index| self.discard_port(now, index, reason, usize::MAX, &mut |_, _| {})).sum()
    }

    /// Gives up to `limit` frames up that wait in the queues of these classes.
    fn discard_queues(
        &mut self,
        now: Time,
        (index, classes): (usize, ClassSet),
        reason: DropReason,
        limit: usize,
        note: &mut impl FnMut(&P, QueueId),
    ) -> usize {
        let port = &mut self.ports[index];
        let mut discarded = 0;
        for class in (port.backlog & classes).iter() {
            let queue = QueueId::new(port.id, class);
            while discarded < limit
                && let Some(queued) = self.queues.pop(queue)
            {
                note(&queued.packet, queue);
                self.counters.drop(queue, reason);
                self.manner.release(&self.shared.mmu, now, &[queued.charged]);
                discarded += 1;
            }
            if self.queues.is_empty(queue) {
                port.backlog.remove(class);
                port.scheduler.handle_empty(class);
            }
        }
        discarded
    }

    /// The earliest instant after `now` at which there may be something to do without a packet arriving: a shaper's
    /// wire or a queue's limiter is free, a peer's pause ends, a PAUSE is to be refreshed, a watchdog is to look.
    pub(crate) fn next_wakeup(&self, now: Time) -> Time {
        self.ports.iter().map(|port| self.wakeup(now, port)).min().unwrap_or(Time::NEVER)
    }

    /// That instant for one of the ports that are served here.
    #[inline]
    pub(crate) fn next_wakeup_of(&self, now: Time, port: PortId) -> Time {
        self.wakeup(now, &self.ports[self.position_of[port.index()]])
    }

    #[inline]
    fn wakeup(&self, now: Time, port: &OutPort<M::Port>) -> Time {
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
        // Without credit nothing happens until a message comes.
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

    /// Answers a reader's request for counters. Called between bursts.
    #[inline]
    pub(crate) fn serve(&mut self, now: Time) {
        if let Some(request) = self.counters.requested() {
            self.counters_at(now).publish(request);
        }
    }

    /// What it has counted up to `now`, and what it holds.
    #[cold]
    pub(crate) fn counters_at(&mut self, now: Time) -> &Counters {
        self.counters.set_gauge(gauge::HELD, self.held() as u64);
        for index in 0..self.ports.len() {
            self.count_off(now, index, self.ports[index].generator.advertised_off());
            for class in Class::ALL {
                let from = self.blocked_from(now, index, class);
                self.counters.set(QueueId::new(self.ports[index].id, class), queue_stat::BLOCKED_FROM, from.words()[0]);
            }
            let port = &mut self.ports[index];
            port.watchdogs.update(port.id, &self.shared, &self.counters);
        }
        self.manner.set_gauges(&mut self.counters);
        &self.counters
    }

    pub(crate) fn published(&self) -> Arc<Published> {
        self.counters.published()
    }
}

/// Tells the driver of frames that are given up, in which queue each waited.
fn noting<P>(now: Time, reason: DropReason, driver: &mut impl PacketStore<P>) -> impl FnMut(&P, QueueId) {
    move |packet, queue| driver.note_drop(now, packet, queue, Direction::Outbound, reason)
}

/// The ports that packets of these queues came by, among those that are `telling` their peers something.
#[inline]
pub(crate) fn told_of(shared: &Shared, telling: PortSet, ingress: impl Iterator<Item = QueueId>) -> PortSet {
    if telling.is_empty() {
        return telling;
    }
    // Packets of a row mostly came by one queue.
    let (mut from, mut last) = (PortSet::EMPTY, None);
    for queue in ingress {
        if last != Some(queue) {
            last = Some(queue);
            from.insert(shared.port(queue.port()).real_port);
        }
    }
    telling & from
}

/// Which classes of an ingress port are to be paused; those that are OFF get another look, since nothing of their own
/// may tell that they resume.
#[inline]
fn off_classes(mmu: &Mmu, port: PortId, before: ClassSet, now: Time) -> ClassSet {
    let off = mmu.off_classes(port, before);
    if off.is_empty() { ClassSet::EMPTY } else { still_off_classes(mmu, port, off, now) }
}

#[inline(never)]
fn still_off_classes(mmu: &Mmu, port: PortId, off: ClassSet, now: Time) -> ClassSet {
    mmu.reconsider(port, off, now);
    mmu.off_classes(port, off)
}

/// What the buffer asks of a port's peer: nothing of the `dropping` classes, whose frames are not kept. Data that is `offered`
/// counts as sent, and is not: a message goes ahead of it.
#[inline]
fn demand<'a>(
    shared: &'a Shared,
    port: PortId,
    off: ClassSet,
    dropping: ClassSet,
    offered: impl Fn(Class) -> u32 + 'a,
) -> Demand<'a, impl Fn(Class) -> Bytes + 'a, impl Fn(Class) -> u32 + 'a> {
    let held = move |class: Class| {
        if dropping.contains(class) { Bytes::ZERO } else { shared.mmu.held(QueueId::new(port, class)) }
    };
    let sent = move |class: Class| shared.port(port).regulator.sent_total(class).wrapping_sub(offered(class));
    Demand { off, held, sent, arrived: shared.port(port).arrived() }
}
