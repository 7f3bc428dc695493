//! The TX half: flow-control frames first, then the queues whose gate is open, within the port's rate. A frame that finds all
//! of this open may not have to wait in a queue: [`passage`].

mod lanes;
mod lateness;
mod link;
mod passage;
mod prefetch;

use std::sync::Arc;

use arrayvec::ArrayVec;
use hdrhistogram::Histogram;
use weir_flowctl::cbfc::blocks;
use weir_flowctl::{ClassLimits, Demand, LatePolls, MessageGenerator, Peak, Regulator, Shaper, wire_bytes};
use weir_mmu::{Departure, EcnMarker, Mmu};
use weir_units::{Bytes, CLASSES, Class, ClassSet, PortId, PortSet, QueueId, Span, Time};
use weir_wire::mac_control::ControlFrame;
use weir_wire::trailer::Telemetry;

use crate::counters::{Counters, DropReason, Published, gauge, port_stat, queue_stat};
use crate::egress::EgressQueues;
use crate::handoff::{FromForwarder, Queued};
use crate::packet::{BURST_MAX, Burst, Packet, PacketStore, PortOutput};
use crate::random::Random;
use crate::scheduler::Scheduler;
use crate::shared::{PortState, Shared};
use crate::surroundings::{Memory, Surroundings};
use crate::watchdog::PortWatchdogs;
use lanes::Lanes;
use lateness::Waits;

pub use lanes::queue_of_class;

/// Transmits on its ports.
#[derive(Debug)]
pub struct Transmitter<P> {
    shared: Arc<Shared>,
    inputs: Box<[FromForwarder<P>]>,
    queues: EgressQueues<P>,
    ports: Box<[OutPort<P>]>,
    /// Memory of what ports are offered; enough for all, unless it is taken as needed.
    spare: Vec<Box<Staged<P>>>,
    /// Position in `ports` of each port of the switch that is served here.
    position_of: Box<[usize]>,
    counters: Counters,
    markers: [Option<EcnMarker>; CLASSES],
    /// What RED's probabilities are drawn from.
    random: Random,
    /// Nanoseconds from the arrival that crossed a threshold to the message handed to the port. Not kept in virtual time, where
    /// there are none.
    message_delays: Option<Histogram<u64>>,
    /// Nanoseconds from the arrival of a peer's message to the transmitter's obeying it: what is sent in between still
    /// goes by the old one.
    reactions: Option<Histogram<u64>>,
    /// The ports that may have something to do: kept for [`Transmitter::run_ports`].
    stirred: PortSet,
    /// The ports with a class that is OFF, as last seen.
    off_ports: PortSet,
    /// Ports whose messages go by their queues' lengths, so that each departure may make one due.
    by_length: PortSet,
    /// Whether frames are looked at for what they want stamped.
    stamps: bool,
    /// What a frame takes on a link beyond its length without FCS.
    link_overhead: Bytes,
    /// How late this poll is: kept for [`Transmitter::run_once`].
    late: LatePolls,
    /// Whether the last poll left a port frames that were to have left by now.
    is_behind: bool,
}

/// One port's way out. What is touched for each frame that passes is in the first two cache lines; what is told to the peer, or
/// looked at when the port is served, comes next.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct OutPort<P> {
    id: PortId,
    /// Classes with a frame in their queue.
    backlog: ClassSet,
    /// Classes that the peer pauses, as last seen.
    paused: ClassSet,
    /// The classes that need the peer's credit.
    credit_classes: ClassSet,
    /// Whether the port's regulator is to be told of frames that are sent.
    counts_sent: bool,
    /// Classes whose transmit queue has not taken what it was offered; of a port with several such queues.
    blocked: ClassSet,
    /// Whether there are several: `lanes`.
    has_lanes: bool,
    shaper: Shaper,
    /// What data has taken on the link, for telemetry.
    tx_bytes: u64,
    limits: ClassLimits,
    scheduler: Scheduler,
    /// Taken from the queues, not yet accepted by the port.
    staged: Option<Box<Staged<P>>>,
    watchdogs: PortWatchdogs,
    generator: MessageGenerator,
    /// Each clone, with the classes that the MMU wants paused there. Its frames come over this port's link, so its PAUSE is this port's.
    clones_off: Box<[(PortId, ClassSet)]>,
    /// Classes that the MMU wants paused, as last seen: the port's own.
    own_off: ClassSet,
    /// These and those of each clone, but for those in a storm in which what comes is dropped anyway.
    off: ClassSet,
    /// When each class advertised OFF went OFF.
    off_since: [Time; CLASSES],
    /// What the last poll left, for a driver whose polls may be late.
    waits: Waits,
    /// The classes that had a frame then which neither a pause nor credit held back; of a port with limits.
    open: ClassSet,
    /// Whether the device is no faster than the rate, so that nothing can be made up.
    at_line_rate: bool,
    /// Of what is made up.
    peak: Peak,
    /// What each of several transmit queues is offered; `None` where there is one, which is offered what is `staged`.
    lanes: Option<Box<Lanes<P>>>,
}

const _: () = assert!(std::mem::offset_of!(OutPort<u64>, watchdogs) <= 128);

/// What a port's frames leave by.
#[derive(Debug)]
pub(crate) struct PortLine {
    pub(crate) shaper: Shaper,
    /// Transmit queues of the device that the classes part among.
    pub(crate) tx_queues: u8,
}

/// What a port is offered. The next port that has something is offered the same memory, warm in the cache.
#[derive(Debug)]
struct Staged<P> {
    packets: Burst<P>,
    /// What each of these was charged, and its length without FCS.
    departures: ArrayVec<Departure, BURST_MAX>,
    lengths: ArrayVec<u32, BURST_MAX>,
}

impl<P> Staged<P> {
    #[inline]
    fn push(&mut self, queued: Queued<P>) {
        self.departures.push(queued.charged);
        self.lengths.push(queued.frame_bytes);
        self.packets.push(queued.packet);
    }

    /// The credit blocks of a class's frames.
    fn blocks_of(&self, class: Class) -> u32 {
        let frames = self.departures.iter().zip(&self.lengths);
        frames.filter(|(departure, _)| departure.egress.class() == class).map(|(_, bytes)| blocks(*bytes)).sum()
    }
}

impl<P> Default for Staged<P> {
    fn default() -> Staged<P> {
        Staged { packets: Burst::new(), departures: ArrayVec::new(), lengths: ArrayVec::new() }
    }
}

impl<P> OutPort<P> {
    pub(crate) fn new(
        state: &PortState,
        clones: impl Iterator<Item = PortId>,
        wire: PortLine,
        limits: ClassLimits,
        scheduler: Scheduler,
        generator: MessageGenerator,
        watchdogs: PortWatchdogs,
    ) -> OutPort<P> {
        OutPort {
            id: state.real_port,
            shaper: wire.shaper,
            limits,
            scheduler,
            generator,
            watchdogs,
            own_off: ClassSet::EMPTY,
            clones_off: clones.map(|clone| (clone, ClassSet::EMPTY)).collect(),
            off: ClassSet::EMPTY,
            paused: ClassSet::EMPTY,
            backlog: ClassSet::EMPTY,
            staged: None,
            off_since: [Time::ZERO; CLASSES],
            tx_bytes: 0,
            waits: Waits::Nothing,
            open: ClassSet::EMPTY,
            at_line_rate: state.rate.is_the_links(),
            peak: Peak::default(),
            blocked: ClassSet::EMPTY,
            has_lanes: wire.tx_queues > 1,
            lanes: Lanes::of(wire.tx_queues),
            credit_classes: state.regulator.credit_classes(),
            counts_sent: state.regulator.counts_sent(),
        }
    }

    /// What a frame is stamped with that leaves so much behind it in its queue.
    fn telemetry(&self, now: Time, left: u64, shared: &Shared) -> Telemetry {
        Telemetry { at: now, tx_bytes: self.tx_bytes, queue: Bytes::new(left), rate: shared.port(self.id).rate() }
    }

    /// Puts a frame of this length on the wire; returns what it takes there.
    #[inline]
    fn put_on_wire(&mut self, now: Time, frame_bytes: u32, link_overhead: Bytes) -> Bytes {
        let wire = wire_bytes(frame_bytes, link_overhead);
        self.tx_bytes += wire.get();
        self.shaper.send(now, wire);
        wire
    }

    /// Classes that a pause holds.
    #[inline]
    fn paused(&self, now: Time, regulator: &Regulator) -> ClassSet {
        let paused = regulator.paused(now);
        if paused.is_empty() { paused } else { paused - self.watchdogs.ignoring() }
    }
}

/// Packets taken from the forwarders' rings at once, so that a port is served at least that often.
const TAKEN_MAX: usize = 4 * BURST_MAX;
/// Longest delay that is told apart.
const DELAY_NANOS_MAX: u64 = 60_000_000_000;

impl<P: Packet> Transmitter<P> {
    pub(crate) fn new(
        shared: Arc<Shared>,
        inputs: Box<[FromForwarder<P>]>,
        ports: Box<[OutPort<P>]>,
        queues: EgressQueues<P>,
        markers: [Option<EcnMarker>; CLASSES],
        (seed, late): (u64, LatePolls),
        surroundings: Surroundings,
    ) -> Transmitter<P> {
        let Surroundings { memory, link_overhead, .. } = surroundings;
        let upfront = memory == Memory::Upfront;
        let port_count = shared.ports().len();
        let mut position_of = vec![usize::MAX; port_count];
        ports.iter().enumerate().for_each(|(position, port)| position_of[port.id.index()] = position);
        let by_length = ports.iter().filter(|port| shared.port(port.id).by_length);
        let by_length = by_length.map(|port| port.id).collect();
        Transmitter {
            position_of: position_of.into(),
            queues,
            counters: Counters::new(port_count, memory),
            spare: (0..if upfront { ports.len() } else { 0 }).map(|_| Box::default()).collect(),
            stamps: shared.stamps,
            shared,
            inputs,
            ports,
            markers,
            random: Random::new(seed),
            message_delays: upfront.then(delays),
            reactions: upfront.then(delays),
            stirred: PortSet::EMPTY,
            off_ports: PortSet::EMPTY,
            by_length,
            link_overhead,
            late,
            is_behind: false,
        }
    }

    /// Takes over what the forwarders admitted and serves every port once; returns how many frames moved.
    pub fn run_once<D: PortOutput<P> + PacketStore<P>>(&mut self, now: Time, driver: &mut D) -> usize {
        self.late.poll(now);
        self.is_behind = false;
        let taken = self.take_over(now);
        let sent: usize = (0..self.ports.len()).map(|port| self.serve_port(now, port, driver)).sum();
        taken + sent
    }

    /// Whether the last [`Transmitter::run_once`] left a port frames that were to have left by now: they go with the next
    /// polls, before which an lcore should not give its CPU away.
    #[inline]
    pub fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Serves these ports and those that this, or what was enqueued, leaves something to do; returns all that
    /// were served. For a driver that asks [`Transmitter::next_wakeup_of`] each of them afterwards, and
    /// knows from [`Forwarder::take_stirred`](crate::Forwarder::take_stirred) which have had news.
    ///
    /// A departure changes thresholds for all queues, but only those of the port that the packet came by are looked at here:
    /// the others that are OFF wait for the driver's next sweep, [`Transmitter::off_ports`].
    pub fn run_ports<D: PortOutput<P> + PacketStore<P>>(
        &mut self,
        now: Time,
        ports: PortSet,
        driver: &mut D,
    ) -> PortSet {
        self.stirred |= ports;
        let mut served = PortSet::EMPTY;
        while let Some(port) = self.stirred.pop_first() {
            served.insert(port);
            self.serve_port_singly(now, self.position_of[port.index()], driver);
        }
        served
    }

    /// Whether [`Transmitter::run_ports`] would serve a port though it is told of none.
    #[inline]
    pub fn is_stirred(&self) -> bool {
        !self.stirred.is_empty()
    }

    /// The ports with a class that is OFF: to be served again within a bound, since nothing of their own may tell
    /// that they resume.
    pub fn off_ports(&self) -> PortSet {
        self.off_ports
    }

    /// In debug builds: whether each frame that was taken over has been sent or dropped, or is here. Between any two calls.
    ///
    /// # Panics
    /// If one is not: a fault of the program.
    pub fn audit(&self) {
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

    /// Frames in its queues, and taken from them and not yet accepted by a port.
    fn held(&self) -> usize {
        let staged = self.ports.iter().flat_map(|port| &port.staged).map(|staged| staged.packets.len());
        let offered = self.ports.iter().flat_map(|port| &port.lanes).map(|lanes| lanes.held());
        self.queues.held() + staged.sum::<usize>() + offered.sum::<usize>()
    }

    /// Moves packets from the forwarders' rings into the egress queues.
    fn take_over(&mut self, now: Time) -> usize {
        let mut inputs = std::mem::take(&mut self.inputs);
        let mut taken = 0;
        for input in &mut inputs {
            let ready = input.slots().min(TAKEN_MAX);
            let Ok(chunk) = input.read_chunk(ready) else { continue };
            chunk.into_iter().for_each(|queued| self.enqueue(now, queued));
            taken += ready;
        }
        self.inputs = inputs;
        taken
    }

    /// Puts a packet into its egress queue.
    #[inline]
    pub(crate) fn enqueue(&mut self, now: Time, queued: Queued<P>) {
        let queue = queued.charged.egress;
        self.counters.add(queue, queue_stat::HANDED_OVER, 1);
        match self.queues.push(queued) {
            Ok(()) => {
                let port = &mut self.ports[self.position_of[queue.port().index()]];
                // Behind a frame that waits it changes nothing.
                if !port.backlog.contains(queue.class()) {
                    port.backlog.insert(queue.class());
                    self.stirred.insert(queue.port());
                }
            }
            // There are as many places as the buffer holds packets, so this can't be; if it is, nothing leaks.
            Err(queued) => self.give_up(now, &queued),
        }
    }

    #[cold]
    fn give_up(&mut self, now: Time, queued: &Queued<P>) {
        self.counters.drop(queued.charged.egress, DropReason::NoMemory);
        self.shared.mmu.release(now, &[queued.charged]);
    }

    /// Serves one port; returns how many frames went out.
    #[inline]
    fn serve_port<D: PortOutput<P> + PacketStore<P>>(&mut self, now: Time, index: usize, driver: &mut D) -> usize {
        let missed = self.make_up(now, index);
        let (moved, held) = self.prepare_port(now, index, driver);
        let port = &mut self.ports[index];
        let (Some(held), true) = (held, !port.backlog.is_empty() || port.is_offering()) else {
            port.waits = Waits::Nothing;
            port.open = ClassSet::EMPTY;
            return moved;
        };
        let blocked = port.blocked;
        if port.staged.is_none() {
            self.stage_frames(now, index, held | blocked);
        }
        let sent = self.send_staged(now, index, driver);
        self.note_waiting(now, index, held, (missed, sent));
        moved + sent
    }

    /// Serves one port, for a driver that takes frames one by one.
    #[inline]
    fn serve_port_singly<D: PortOutput<P> + PacketStore<P>>(&mut self, now: Time, index: usize, driver: &mut D) {
        let (_, Some(held)) = self.prepare_port(now, index, driver) else { return };
        let port = &self.ports[index];
        if port.has_lanes {
            self.stage_frames(now, index, held | port.blocked);
            self.send_staged(now, index, driver);
        } else if port.staged.is_some() {
            self.send_staged(now, index, driver);
        } else if !port.backlog.is_empty() {
            self.send_singly(now, index, held, driver);
        }
    }

    /// Tells a port's peer what is to be told, obeys it, and gives up frames that can't be sent. Returns how many frames moved,
    /// and the classes that are held back; `None` if the port has no link.
    #[inline]
    fn prepare_port<D: PortOutput<P> + PacketStore<P>>(
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
            record(&mut self.reactions, now.since(state.regulator.heard_at()));
        }
        port.paused = paused;
        if !has_link {
            return (moved + self.discard_port(now, index, DropReason::PortDown, BURST_MAX), None);
        }
        let dropping = port.watchdogs.dropping();
        if !(port.backlog & dropping).is_empty() {
            moved += self.discard_queues(now, index, dropping, DropReason::PfcWatchdog, BURST_MAX);
        }
        (moved, Some(paused | dropping))
    }

    /// Has the watchdogs look at the port's queues, and starts or ends what follows.
    #[cold]
    fn watch(&mut self, now: Time, index: usize) {
        let Transmitter { shared, ports, counters, .. } = self;
        let port = &mut ports[index];
        let dropped = port.watchdogs.dropping();
        port.watchdogs.poll(now, port.id, shared, counters);
        let (in_storm, dropping) = (port.watchdogs.in_storm(), port.watchdogs.dropping());
        // What clones copy came over the same link.
        for id in std::iter::once(port.id).chain(port.clones_off.iter().map(|(clone, _)| *clone)) {
            shared.set_storms(id, in_storm, dropping);
        }
        if !(dropped - dropping).is_empty() {
            // A queue that went OFF before or in the storm is advertised only now, and no delay of the switch's.
            shared.port(port.id).note_xoff(now);
        }
    }

    /// Looks which classes are to be paused.
    #[inline]
    fn look_for_off(&mut self, now: Time, index: usize) {
        let port = &mut self.ports[index];
        let mmu = &self.shared.mmu;
        port.own_off = off_classes(mmu, port.id, port.own_off, now);
        let mut off = port.own_off;
        for (clone, own) in &mut port.clones_off {
            *own = off_classes(mmu, *clone, *own, now);
            off |= *own;
        }
        let dropping = port.watchdogs.dropping();
        off -= dropping;
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
        let Some(frame) = port
            .generator
            .poll(now, demand(&self.shared, port.id, port.off, dropping, Unsent::of(&port.staged, &port.lanes)))
        else {
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
        let Some(packet) = driver.control(frame, state.mac) else {
            self.counters.add_port(port.id, port_stat::IGNORED, 1);
            return 0;
        };
        let frame_bytes = packet.frame_bytes();
        let mut burst = Burst::new();
        burst.push(packet);
        if driver.transmit(port.id, &mut burst) == 0 {
            // The port takes nothing now; the generator will ask again at the next poll.
            return 0;
        }
        // A control frame is not held back by the shaper, but its time on the wire is the port's.
        port.shaper.send(now, wire_bytes(frame_bytes, self.link_overhead));
        if port.generator.slows(frame) {
            let crossed = state.note_slowed(now);
            record(&mut self.message_delays, now.since(crossed));
        } else if matches!(frame, ControlFrame::Credit(_)) {
            // Sent when its time has come, whatever arrived.
            state.note_slowed(now);
        }
        let (before, off) = (port.generator.advertised_off(), port.off);
        let dropping = port.watchdogs.dropping();
        let unsent = Unsent::of(&port.staged, &port.lanes);
        port.generator.handle_sent(now, frame, demand(&self.shared, port.id, off, dropping, unsent));
        let after = port.generator.advertised_off();
        match frame {
            ControlFrame::Pfc(_) => self.counters.add_port(port.id, port_stat::PFC, 1),
            ControlFrame::Pause(_) => self.counters.add_port(port.id, port_stat::PAUSE, 1),
            ControlFrame::Credit(_) | ControlFrame::Queue(_) => {
                self.counters.add_port(port.id, port_stat::CREDIT, 1);
            }
        }
        for class in (after | before).iter() {
            let stat = if after.contains(class) { port_stat::XOFF } else { port_stat::XON };
            self.counters.add_port(port.id, stat + class.index(), 1);
        }
        for class in (after - before).iter() {
            self.counters.add_port(port.id, port_stat::PAUSES + class.index(), 1);
            port.off_since[class.index()] = now;
        }
        self.count_off(now, index, before & !after);
        1
    }

    /// Counts for how long these classes were advertised as OFF.
    fn count_off(&mut self, now: Time, index: usize, classes: ClassSet) {
        let port = &mut self.ports[index];
        for class in classes.iter() {
            let since = std::mem::replace(&mut port.off_since[class.index()], now);
            let off_for: Span = now.since(since);
            self.counters.add_port(port.id, port_stat::OFF_PICOS + class.index(), off_for.as_picos());
        }
    }

    /// Moves frames that may go now, none of the `held` classes, from the queues to the port's burst.
    #[inline]
    fn stage_frames(&mut self, now: Time, index: usize, held: ClassSet) {
        let mut ready = self.ready(now, index, held);
        if ready.is_empty() || !self.ports[index].may_send(now) {
            return;
        }
        let mut staged = self.spare.pop().unwrap_or_default();
        while !ready.is_empty() && self.ports[index].may_send(now) && !staged.packets.is_full() {
            let free_at = self.ports[index].shaper.free_at();
            let Some(queued) = self.take_next(now, index, &mut ready) else { break };
            let port = &mut self.ports[index];
            port.peak.send(port.shaper.free_at().since(free_at));
            staged.push(queued);
        }
        if staged.packets.is_empty() {
            self.spare.push(staged);
        } else {
            self.ports[index].staged = Some(staged);
        }
    }

    /// The classes with a frame that may go, the wire apart, none of the `held` ones.
    #[inline]
    fn ready(&self, now: Time, index: usize, held: ClassSet) -> ClassSet {
        let port = &self.ports[index];
        let mut ready = port.backlog & !held;
        ready &= !port.limits.waiting(now, ready);
        ready & !self.without_credit(port, ready)
    }

    /// Takes the frame that goes next, of one of the `ready` classes, from its queue, and puts it on the port's wire: it is
    /// marked, stamped and counted against what limits the port. Classes that have to wait after it are ready no more.
    #[inline(always)]
    fn take_next(&mut self, now: Time, index: usize, ready: &mut ClassSet) -> Option<Queued<P>> {
        let Transmitter { shared, queues, ports, counters, markers, random, stamps, link_overhead, .. } = self;
        let port = &mut ports[index];
        let queue_of = |class| QueueId::new(port.id, class);
        let head = |class| queues.front(queue_of(class)).map_or(0, |queued| queued.frame_bytes);
        let class = port.scheduler.next(*ready, head)?;
        let queue = queue_of(class);
        let mut queued = queues.pop(queue)?;
        if let Some(marker) = &markers[class.index()]
            && marker.marks(shared.mmu.egress_length(queue), random.next())
            && queued.packet.mark_ce()
        {
            counters.add(queue, queue_stat::EXTRA, 1);
        }
        if *stamps && queued.packet.wants_telemetry() {
            let left = shared.mmu.egress_length(queue).saturating_sub(u64::from(queued.charged.bytes));
            queued.packet.stamp(&port.telemetry(now, left, shared));
        }
        let wire = port.put_on_wire(now, queued.frame_bytes, *link_overhead);
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
    fn without_credit(&self, port: &OutPort<P>, classes: ClassSet) -> ClassSet {
        let asked = classes & port.credit_classes;
        if asked.is_empty() { ClassSet::EMPTY } else { self.without_credit_of(port, asked) }
    }

    #[inline(never)]
    fn without_credit_of(&self, port: &OutPort<P>, asked: ClassSet) -> ClassSet {
        let regulator = &self.shared.port(port.id).regulator;
        let next = |class| self.queues.front(QueueId::new(port.id, class)).map_or(0, |queued| queued.frame_bytes);
        ClassSet::from_iter(asked.iter().filter(|class| !regulator.has_credit(*class, next(*class))))
    }

    /// Offers the port its burst, and releases what it accepts.
    #[inline]
    fn send_staged<D: PortOutput<P>>(&mut self, now: Time, index: usize, driver: &mut D) -> usize {
        let port = &mut self.ports[index];
        if port.has_lanes {
            return self.send_lanes(now, index, driver);
        }
        let Some(mut staged) = port.staged.take() else { return 0 };
        let sent = driver.transmit(port.id, &mut staged.packets);
        for (departure, frame_bytes) in staged.departures[..sent].iter().zip(&staged.lengths) {
            self.counters.add_frame(departure.egress, *frame_bytes);
        }
        self.shared.mmu.release(now, &staged.departures[..sent]);
        staged.departures[..sent].iter().for_each(|departure| self.stir_for(departure));
        if staged.packets.is_empty() {
            staged.departures.clear();
            staged.lengths.clear();
            self.spare.push(staged);
        } else {
            staged.departures.drain(..sent);
            staged.lengths.drain(..sent);
            debug_assert_eq!(staged.departures.len(), staged.packets.len());
            self.ports[index].staged = Some(staged);
        }
        sent
    }

    /// Offers the port frames that may go now, none of the `held` classes, one by one, and releases them. One that it does not
    /// accept is its burst then.
    #[inline]
    fn send_singly<D: PortOutput<P>>(&mut self, now: Time, index: usize, held: ClassSet, driver: &mut D) {
        let mut ready = self.ready(now, index, held);
        while !ready.is_empty() && self.ports[index].shaper.is_free(now) {
            let Some(Queued { packet, frame_bytes, charged }) = self.take_next(now, index, &mut ready) else { break };
            if let Err(packet) = driver.transmit_one(self.ports[index].id, packet) {
                let mut staged = self.spare.pop().unwrap_or_default();
                staged.push(Queued { packet, frame_bytes, charged });
                self.ports[index].staged = Some(staged);
                break;
            }
            self.counters.add_frame(charged.egress, frame_bytes);
            self.shared.mmu.release_one(now, &charged);
            self.stir_for(&charged);
        }
    }

    /// A departure may make a message due to the peer of the port that the packet came by.
    #[inline]
    fn stir_for(&mut self, departure: &Departure) {
        let telling = self.off_ports | self.by_length;
        if !telling.is_empty() {
            let from = self.shared.port(departure.ingress.port()).real_port;
            self.stirred |= telling & from.alone();
        }
    }

    /// Gives up everything that is held, counting it; returns how much.
    pub fn discard(&mut self, now: Time, reason: DropReason) -> usize {
        let mut discarded = 0;
        loop {
            let more = self.take_over(now)
                + (0..self.ports.len()).map(|index| self.discard_port(now, index, reason, usize::MAX)).sum::<usize>();
            if more == 0 {
                return discarded;
            }
            discarded += more;
        }
    }

    fn discard_port(&mut self, now: Time, index: usize, reason: DropReason, limit: usize) -> usize {
        let port = &mut self.ports[index];
        let mut discarded = 0;
        let mut give_up = |staged: &mut Staged<P>| {
            discarded += staged.packets.len();
            staged.packets.clear();
            for departure in &staged.departures {
                self.counters.drop(departure.egress, reason);
            }
            self.shared.mmu.release(now, &staged.departures);
            staged.departures.clear();
            staged.lengths.clear();
        };
        if let Some(mut staged) = port.staged.take() {
            give_up(&mut staged);
            self.spare.push(staged);
        }
        if !port.blocked.is_empty() {
            port.lanes.iter_mut().flat_map(|lanes| lanes.offered_mut()).for_each(give_up);
            port.blocked = ClassSet::EMPTY;
        }
        discarded + self.discard_queues(now, index, ClassSet::ALL, reason, limit.saturating_sub(discarded))
    }

    /// Gives up to `limit` frames up that wait in the queues of these classes.
    fn discard_queues(
        &mut self,
        now: Time,
        index: usize,
        classes: ClassSet,
        reason: DropReason,
        limit: usize,
    ) -> usize {
        let port = &mut self.ports[index];
        let mut discarded = 0;
        for class in (port.backlog & classes).iter() {
            let queue = QueueId::new(port.id, class);
            while discarded < limit
                && let Some(queued) = self.queues.pop(queue)
            {
                self.counters.drop(queue, reason);
                self.shared.mmu.release(now, &[queued.charged]);
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
    pub fn next_wakeup(&self, now: Time) -> Time {
        self.ports.iter().map(|port| self.wakeup(now, port)).min().unwrap_or(Time::NEVER)
    }

    /// The next wake-up of one of the ports that are served here.
    #[inline]
    pub fn next_wakeup_of(&self, now: Time, port: PortId) -> Time {
        self.wakeup(now, &self.ports[self.position_of[port.index()]])
    }

    #[inline]
    fn wakeup(&self, now: Time, port: &OutPort<P>) -> Time {
        let message = port.generator.next_wakeup(now);
        let own = message.min(port.watchdogs.due());
        if port.backlog.is_empty() && !port.is_offering() {
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
        let data = if !(open_and_paid - waiting).is_empty() || port.is_offering() {
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
    pub fn serve(&mut self, now: Time) {
        if let Some(request) = self.counters.requested() {
            self.publish(now, request);
        }
    }

    #[cold]
    fn publish(&mut self, now: Time, request: u64) {
        self.counters.set_gauge(gauge::HELD, self.held() as u64);
        for index in 0..self.ports.len() {
            self.count_off(now, index, self.ports[index].generator.advertised_off());
            let port = &self.ports[index];
            let held = port.paused(now, &self.shared.port(port.id).regulator) & !port.watchdogs.dropping();
            let blocked = port.backlog & (held | self.without_credit(port, port.backlog));
            for class in Class::ALL {
                let queue = QueueId::new(port.id, class);
                let holds_from = if blocked.contains(class) { self.queues.holds_from(queue) } else { PortSet::EMPTY };
                self.counters.set(queue, queue_stat::BLOCKED_FROM, holds_from.bits());
            }
            let port = &mut self.ports[index];
            port.watchdogs.update(port.id, &self.shared, &self.counters);
        }
        for (first, delays) in [(gauge::MESSAGE_DELAYS, &self.message_delays), (gauge::REACTIONS, &self.reactions)] {
            let Some(delays) = delays else { continue };
            let quantiles = [0.5, 0.99, 0.999].map(|quantile| delays.value_at_quantile(quantile));
            let numbers = std::iter::once(delays.len()).chain(quantiles).chain([delays.max()]);
            numbers.enumerate().for_each(|(n, number)| self.counters.set_gauge(first + n, number));
        }
        self.counters.publish(request);
    }

    pub(crate) fn published(&self) -> Arc<Published> {
        self.counters.published()
    }
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

/// What counts as sent and is not: a message goes ahead of it.
struct Unsent<'a, P> {
    staged: Option<&'a Staged<P>>,
    lanes: Option<&'a Lanes<P>>,
}

impl<'a, P> Unsent<'a, P> {
    fn of(staged: &'a Option<Box<Staged<P>>>, lanes: &'a Option<Box<Lanes<P>>>) -> Unsent<'a, P> {
        Unsent { staged: staged.as_deref(), lanes: lanes.as_deref() }
    }

    fn blocks_of(&self, class: Class) -> u32 {
        let staged = self.staged.map_or(0, |staged| staged.blocks_of(class));
        staged + self.lanes.map_or(0, |lanes| lanes.blocks_of(class))
    }
}

/// What the buffer asks of a port's peer: nothing of the `dropping` classes, whose frames are not kept.
#[inline]
fn demand<'a, P>(
    shared: &'a Shared,
    port: PortId,
    off: ClassSet,
    dropping: ClassSet,
    unsent: Unsent<'a, P>,
) -> Demand<'a, impl Fn(Class) -> Bytes + 'a, impl Fn(Class) -> u32 + 'a> {
    let held = move |class: Class| {
        if dropping.contains(class) { Bytes::ZERO } else { shared.mmu.held(QueueId::new(port, class)) }
    };
    let sent = move |class: Class| shared.port(port).regulator.sent_total(class).wrapping_sub(unsent.blocks_of(class));
    Demand { off, held, sent, arrived: &shared.port(port).arrived }
}

/// A histogram of delays in nanoseconds; its memory is taken now.
fn delays() -> Histogram<u64> {
    Histogram::new_with_bounds(1, DELAY_NANOS_MAX, 2).expect("legal bounds")
}

#[inline]
fn record(delays: &mut Option<Histogram<u64>>, delay: Span) {
    let Some(delays) = delays else { return };
    delays.record(delay.as_nanos().clamp(1, DELAY_NANOS_MAX)).expect("within bounds");
}
