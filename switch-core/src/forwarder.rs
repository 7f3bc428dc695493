//! The forwarder: classify, learn, look up, admit, hand over to the transmitter's lcore.

mod prefetch;

use std::sync::Arc;

use arrayvec::ArrayVec;
use weir_mmu::{Arrival, PortWriter, Verdict};
use weir_units::{CLASSES, Class, ClassSet, PortId, PortSet, QueueId, Time};
use weir_wire::ethernet::{Headers, Parsed};
use weir_wire::mac_control::{ControlFrame, CreditFrame, DecodeError};

use crate::control::handle_control;
use crate::counters::{Counters, DropReason, Published, queue_stat};
use crate::ecmp;
use crate::fdb::Destination;
use crate::handoff::{FromReceiver, Queued, ToTransmitter};
use crate::packet::{BURST_MAX, Burst, Packet, PacketStore, PortOutput};
use crate::shared::Shared;
use crate::surroundings::Memory;
use crate::transmitter::Transmitter;

/// Forwards what its ports received, and a copy of it for each of their clones. What is touched for each frame comes first, and
/// bursts last.
#[derive(Debug)]
#[repr(C)]
pub struct Forwarder<P> {
    shared: Arc<Shared>,
    /// The right to admit for the ports that are forwarded here, by port.
    writers: Box<[Option<PortWriter>]>,
    /// The ports whose transmitter may find something new.
    stirred: PortSet,
    /// The ports whose flow control counts what comes in.
    counting: PortSet,
    /// The ports that have clones.
    cloned: PortSet,
    /// The classes of the port whose turn it is of which a storm drops what comes, as of the turn's beginning.
    dropping: ClassSet,
    /// The classes of which frames have come one by one.
    seen: ClassSet,
    counters: Counters,
    /// What was admitted, where there is no ring: [`Forwarder::handle_one`].
    admitted: Vec<Queued<P>>,
    /// What a receiver on another lcore hands over; none where this lcore receives itself.
    input: Option<FromReceiver<P>>,
    /// One ring to each transmitter; none where packets come one by one.
    outputs: Box<[ToTransmitter<P>]>,
    /// Which transmitter serves a port.
    output_of: Box<[usize]>,
    /// The clones of each port that is forwarded here; none for most.
    clones: Box<[Box<[PortId]>]>,
    /// What came in and is not counted yet, by class: of the port whose turn it is, if its flow control counts.
    arrived: [u32; CLASSES],
    /// Packets that ask to be admitted, and their arrivals.
    staged: ArrayVec<P, BURST_MAX>,
    arrivals: ArrayVec<Arrival, BURST_MAX>,
    /// What the receiver handed over of a port that has clones.
    to_copy: Burst<P>,
}

/// What becomes of a frame up to the MMU: decided once, for it and its copies.
#[derive(Clone, Copy)]
enum Way {
    To(PortId),
    Flood,
    Drop(DropReason),
}

impl<P: Packet> Forwarder<P> {
    pub(crate) fn new(
        shared: Arc<Shared>,
        input: Option<FromReceiver<P>>,
        outputs: Box<[ToTransmitter<P>]>,
        output_of: Box<[usize]>,
        ports: &[PortId],
        memory: Memory,
    ) -> Forwarder<P> {
        let counters = Counters::new(shared.ports().len(), memory);
        let is_here = |port: PortId| ports.contains(&port);
        let writer = |port: PortId| if is_here(port) { shared.mmu.writer(port) } else { None };
        let clones_of = |port: PortId| shared.clones_of(port).filter(|_| is_here(port)).collect();
        let all = || (0..shared.ports().len() as u16).map(PortId);
        let (writers, clones): (_, Box<[Box<[PortId]>]>) =
            (all().map(writer).collect(), all().map(clones_of).collect());
        let cloned = all().filter(|port| !clones[port.index()].is_empty()).collect();
        let (staged, arrivals, to_copy) = (ArrayVec::new(), ArrayVec::new(), Burst::new());
        let counts = |port: &PortId| shared.port(*port).arrived.is_counted();
        let counting = all().filter(counts).collect();
        Forwarder {
            shared,
            input,
            outputs,
            output_of,
            admitted: Vec::new(),
            writers,
            counters,
            staged,
            arrivals,
            clones,
            cloned,
            to_copy,
            counting,
            arrived: [0; CLASSES],
            dropping: ClassSet::EMPTY,
            seen: ClassSet::EMPTY,
            stirred: PortSet::EMPTY,
        }
    }

    /// Forwards what `port` received at `now`, and empties the burst.
    pub fn handle_burst(&mut self, now: Time, port: PortId, burst: &mut Burst<P>, store: &mut impl PacketStore<P>) {
        if self.has_clones(port) {
            return self.handle_copied(now, port, burst, store);
        }
        self.take_turn(port);
        for packet in burst.drain(..) {
            self.handle_packet(now, port, packet, store);
        }
        self.flush(now, port);
    }

    /// Forwards one frame that `port` received at `now`, as a burst of its own, and hands it to the transmitter: for a driver
    /// that gets them one by one ([`Memory::AsNeeded`](crate::Memory::AsNeeded)).
    ///
    /// A frame is `alone` if nothing else is to be done at this instant, neither for another frame nor for a port. If it can
    /// leave at once, it does: it is sent here, and nothing follows from it. That it was in the buffer shows in the highest
    /// levels, and in all counters, as it would otherwise.
    #[inline]
    pub fn handle_one<D: PacketStore<P> + PortOutput<P>>(
        &mut self,
        now: Time,
        port: PortId,
        packet: P,
        alone: bool,
        driver: &mut D,
        transmitter: &mut Transmitter<P>,
    ) {
        self.take_turn(port);
        let headers = match packet.parse() {
            Parsed::Data(headers) if !self.has_clones(port) => headers,
            _ => return self.handle_another(now, port, packet, driver, transmitter),
        };
        let ingress = self.receive(port, Some(&headers), packet.frame_bytes());
        self.seen.insert(ingress.class());
        match self.way(now, port, &headers, &packet) {
            Way::To(to) if !self.dropping.contains(ingress.class()) && self.shared.takes(to, ingress.class()) => {
                let bytes = self.shared.charge.of(packet.frame_bytes());
                let charged = Arrival { ingress, egress: QueueId::new(to, ingress.class()), bytes };
                let passes = alone && !self.counting.contains(port) && transmitter.lets_pass(now, &charged);
                let stays = if passes { transmitter.pass(now, packet, charged, driver) } else { Some(packet) };
                match stays {
                    None => self.counters.add(ingress, queue_stat::HANDED_OVER, 1),
                    Some(packet) => {
                        if let Some(queued) = self.admit_one(now, packet, charged) {
                            transmitter.enqueue(now, queued);
                        }
                        self.count_arrived(port);
                    }
                }
            }
            way => self.forward_one(now, packet, ingress, way, driver, transmitter),
        }
    }

    /// Slow path: control frames, malformed frames, and ports with clones.
    #[inline(never)]
    fn handle_another(
        &mut self,
        now: Time,
        port: PortId,
        packet: P,
        store: &mut impl PacketStore<P>,
        transmitter: &mut Transmitter<P>,
    ) {
        let mut burst = Burst::new();
        burst.push(packet);
        self.handle_burst(now, port, &mut burst, store);
        self.hand_over(now, transmitter);
    }

    /// What goes to no port, to several, or to one that does not take it.
    #[inline(never)]
    fn forward_one(
        &mut self,
        now: Time,
        packet: P,
        ingress: QueueId,
        way: Way,
        store: &mut impl PacketStore<P>,
        transmitter: &mut Transmitter<P>,
    ) {
        self.forward(now, packet, ingress, way, store);
        self.flush(now, ingress.port());
        self.hand_over(now, transmitter);
    }

    /// Hands what was admitted to the transmitter, where there is no ring.
    fn hand_over(&mut self, now: Time, transmitter: &mut Transmitter<P>) {
        self.admitted.drain(..).for_each(|queued| transmitter.enqueue(now, queued));
    }

    #[inline]
    fn has_clones(&self, port: PortId) -> bool {
        self.cloned.contains(port)
    }

    /// What follows is of this port.
    #[inline]
    fn take_turn(&mut self, port: PortId) {
        self.dropping = self.shared.dropping(port);
    }

    /// Forwards up to a burst of what the receiver handed over; returns how much it was.
    pub fn run_once(&mut self, now: Time, store: &mut impl PacketStore<P>) -> usize {
        let mut handled = 0;
        let mut port = PortId::default();
        self.take_turn(port);
        while handled < BURST_MAX {
            let Some((from, packet)) = self.input.as_mut().and_then(|input| input.pop().ok()) else { break };
            if from != port {
                self.finish(now, port, store);
                port = from;
                self.take_turn(port);
            }
            if self.has_clones(port) {
                self.to_copy.push(packet);
            } else {
                self.handle_packet(now, port, packet, store);
            }
            handled += 1;
        }
        self.finish(now, port, store);
        handled
    }

    /// Forwards what is left of `port` before another one's turn.
    #[inline]
    fn finish(&mut self, now: Time, port: PortId, store: &mut impl PacketStore<P>) {
        if !self.to_copy.is_empty() {
            let mut burst = std::mem::take(&mut self.to_copy);
            return self.handle_copied(now, port, &mut burst, store);
        }
        self.flush(now, port);
    }

    /// Forwards what a port with clones received, and has each clone receive a copy that goes the same way. What there is
    /// no memory for was received, and is lost.
    #[inline(never)]
    fn handle_copied(&mut self, now: Time, port: PortId, burst: &mut Burst<P>, store: &mut impl PacketStore<P>) {
        let mut ways: ArrayVec<(Option<Headers>, Way), BURST_MAX> = ArrayVec::new();
        // What the peer says of itself, and how many data frames came before it.
        let mut accounts: ArrayVec<(usize, CreditFrame), BURST_MAX> = ArrayVec::new();
        burst.retain(|packet| {
            ways.push(match packet.parse() {
                Parsed::Data(headers) => (Some(headers), self.way(now, port, &headers, packet)),
                Parsed::Malformed => (None, Way::Drop(DropReason::Malformed)),
                Parsed::Control(control) => {
                    self.handle_control(now, port, control);
                    if let Ok(ControlFrame::Credit(frame)) = control {
                        accounts.push((ways.len(), frame));
                    }
                    return false;
                }
            });
            true
        });
        for n in 0..self.clones[port.index()].len() {
            let clone = self.clones[port.index()][n];
            self.take_turn(clone);
            for (packet, (headers, way)) in burst.iter().zip(&ways) {
                let ingress = self.receive(clone, headers.as_ref(), packet.frame_bytes());
                if let Way::Drop(reason) = way {
                    self.drop(ingress, *reason);
                } else if let Some(copy) = store.copy(packet) {
                    self.forward(now, copy, ingress, *way, store);
                } else {
                    self.drop(ingress, DropReason::NoMemory);
                }
            }
            self.flush(now, clone);
        }
        self.take_turn(port);
        let mut accounts = accounts.iter().peekable();
        for (n, (packet, (headers, way))) in burst.drain(..).zip(ways).enumerate() {
            while let Some((_, frame)) = accounts.next_if(|(behind, _)| *behind <= n) {
                self.compare_counts(port, frame);
            }
            let ingress = self.receive(port, headers.as_ref(), packet.frame_bytes());
            self.forward(now, packet, ingress, way, store);
        }
        accounts.for_each(|(_, frame)| self.compare_counts(port, frame));
        self.flush(now, port);
    }

    #[inline]
    fn handle_packet(&mut self, now: Time, port: PortId, packet: P, store: &mut impl PacketStore<P>) {
        let headers = match packet.parse() {
            Parsed::Data(headers) => headers,
            Parsed::Control(control) => {
                self.handle_control(now, port, control);
                if let Ok(ControlFrame::Credit(frame)) = control {
                    self.compare_counts(port, &frame);
                }
                return store.take_back(packet);
            }
            Parsed::Malformed => {
                let ingress = self.receive(port, None, packet.frame_bytes());
                return self.drop(ingress, DropReason::Malformed);
            }
        };
        let ingress = self.receive(port, Some(&headers), packet.frame_bytes());
        let way = self.way(now, port, &headers, &packet);
        self.forward(now, packet, ingress, way, store);
    }

    /// Obeys a control frame, unless the receiver on another lcore did.
    fn handle_control(&mut self, now: Time, port: PortId, control: Result<ControlFrame, DecodeError>) {
        if self.input.is_none() {
            self.stirred.insert(port);
            handle_control(&self.shared, &mut self.counters, now, port, control);
        }
    }

    /// Compares what a port's peer has sent with what came from it, all of which has been handled up to here.
    #[cold]
    fn compare_counts(&self, port: PortId, frame: &CreditFrame) {
        self.shared.port(port).arrived.handle_account(frame, |class| self.arrived[class.index()]);
    }

    /// Counts a frame as received, and finds its ingress queue; without headers it is in the port's own class.
    // Always: with the copies' side calling it too, the compiler would have every packet pay for a call.
    #[inline(always)]
    fn receive(&mut self, port: PortId, headers: Option<&Headers>, frame_bytes: u32) -> QueueId {
        let classifier = &self.shared.classifier;
        let class = headers.map_or_else(|| classifier.port_class(port), |headers| classifier.class(port, headers));
        let ingress = QueueId::new(port, class);
        self.counters.add_frame(ingress, frame_bytes);
        if self.counting.contains(port) {
            self.arrived[class.index()] += self.shared.port(port).arrived.count_of(frame_bytes);
        }
        ingress
    }

    /// Learns a frame's sender, and says what becomes of the frame.
    #[inline(always)]
    fn way(&self, now: Time, port: PortId, headers: &Headers, packet: &P) -> Way {
        if packet.frame_bytes() > self.shared.frame_bytes_max {
            return Way::Drop(DropReason::Oversize);
        }
        if headers.destination.is_link_local() {
            return Way::Drop(DropReason::LinkLocal);
        }
        if self.shared.learns {
            self.shared.fdb.learn(packet.source(), port, now);
        }
        match self.destination(headers, packet, now) {
            Some(to) if to == port => Way::Drop(DropReason::SamePort),
            Some(to) => Way::To(to),
            None => Way::Flood,
        }
    }

    #[inline(always)]
    fn forward(&mut self, now: Time, packet: P, ingress: QueueId, way: Way, store: &mut impl PacketStore<P>) {
        match way {
            Way::Drop(reason) => self.drop(ingress, reason),
            _ if self.dropping.contains(ingress.class()) => {
                self.drop(ingress, DropReason::PfcWatchdog);
            }
            Way::To(to) => self.stage(now, packet, ingress, to),
            Way::Flood => self.flood(now, packet, ingress, store),
        }
    }

    /// The one port that a frame goes to; `None` for all of them.
    #[inline(always)]
    fn destination(&self, headers: &Headers, packet: &P, now: Time) -> Option<PortId> {
        if headers.destination.is_group() {
            return None;
        }
        match self.shared.fdb.lookup(headers.destination, now)? {
            Destination::Port(port) => Some(port),
            Destination::AnyOf(ports) => Some(self.one_of(ports, packet.flow_hash())),
        }
    }

    /// The flow's port of several; if that has no link, the next one that has.
    #[inline]
    fn one_of(&self, ports: &[PortId], flow_hash: u32) -> PortId {
        let chosen = ecmp::choose(flow_hash, self.shared.hash_seed, ports.len());
        if self.shared.link_up(ports[chosen]) { ports[chosen] } else { self.next_of(ports, chosen) }
    }

    #[cold]
    fn next_of(&self, ports: &[PortId], chosen: usize) -> PortId {
        let in_turn = ports[chosen..].iter().chain(&ports[..chosen]).copied();
        in_turn.into_iter().find(|port| self.shared.link_up(*port)).unwrap_or(ports[chosen])
    }

    /// Sends a frame to every port but its own: copies to all but the last, itself to the last.
    fn flood(&mut self, now: Time, packet: P, ingress: QueueId, store: &mut impl PacketStore<P>) {
        let from = self.shared.port(ingress.port()).real_port;
        let ports = (0..).map(PortId).zip(self.shared.ports());
        let targets: ArrayVec<PortId, FLOOD_MAX> = ports
            .filter(|(port, state)| *port != from && state.real_port == *port && state.link_up())
            .map(|(port, _)| port)
            .take(FLOOD_MAX)
            .collect();
        let Some((last, others)) = targets.split_last() else {
            return self.drop(ingress, DropReason::PortDown);
        };
        for to in others {
            self.counters.add(ingress, queue_stat::EXTRA, 1);
            match store.copy(&packet) {
                Some(copy) => self.stage(now, copy, ingress, *to),
                None => self.drop(ingress, DropReason::NoMemory),
            }
        }
        self.stage(now, packet, ingress, *last);
    }

    /// In debug builds: whether each frame that was received, or copied, has been handed over or dropped, or is here. Between
    /// any two calls.
    ///
    /// # Panics
    /// If one is not: a fault of the program.
    pub fn audit(&self) {
        if cfg!(debug_assertions) {
            let total = |stat| self.counters.total(stat);
            let came = total(queue_stat::FRAMES) + total(queue_stat::EXTRA);
            let here = self.staged.len() as u64;
            let went = total(queue_stat::HANDED_OVER) + total(queue_stat::DROPS);
            assert_eq!(came, went + here, "frames that a forwarder received; {here} are staged");
        }
    }

    /// The ports whose peers said something, or may have to be told something, since the last call: for a driver
    /// that does not serve all ports all the time.
    #[inline]
    pub fn take_stirred(&mut self) -> PortSet {
        std::mem::take(&mut self.stirred)
    }

    /// Queues a packet for admission.
    #[inline]
    fn stage(&mut self, now: Time, packet: P, ingress: QueueId, to: PortId) {
        if !self.shared.takes(to, ingress.class()) {
            return self.refuse(ingress, to);
        }
        if self.staged.is_full() {
            self.flush(now, ingress.port());
        }
        let bytes = self.shared.charge.of(packet.frame_bytes());
        self.arrivals.push(Arrival { ingress, egress: QueueId::new(to, ingress.class()), bytes });
        self.staged.push(packet);
    }

    /// Drops a frame whose port of departure takes none, or none of its class.
    #[cold]
    fn refuse(&mut self, ingress: QueueId, to: PortId) {
        let state = self.shared.port(to);
        if !state.link_up() {
            return self.drop(ingress, DropReason::PortDown);
        }
        if let Some(storms) = state.storms() {
            storms.count_refused(ingress.class());
        }
        self.drop(ingress, DropReason::PfcWatchdog);
    }

    fn drop(&mut self, ingress: QueueId, reason: DropReason) {
        drop_arrived(&self.shared, &mut self.counters, ingress, reason);
    }

    /// Admits what is staged, all of it from `port`, and hands what is kept to the transmitters.
    #[inline]
    fn flush(&mut self, now: Time, port: PortId) {
        if !self.staged.is_empty() {
            self.admit(now, port);
        }
        self.count_arrived(port);
    }

    /// Counts what came of a port's peer. After the admission: what is counted as arrived is then counted as held, or was
    /// dropped.
    #[inline]
    fn count_arrived(&mut self, port: PortId) {
        if self.counting.contains(port) {
            self.count_arrived_of(port);
        }
    }

    #[inline(never)]
    fn count_arrived_of(&mut self, port: PortId) {
        let arrived = &self.shared.port(port).arrived;
        let counts = std::mem::take(&mut self.arrived);
        let classes = Class::ALL.into_iter().zip(counts).filter(|(_, count)| *count > 0);
        classes.for_each(|(class, count)| arrived.count(class, count));
    }

    /// Has the MMU decide on one packet; returns it if it is kept.
    #[inline(always)]
    fn admit_one(&mut self, now: Time, packet: P, charged: Arrival) -> Option<Queued<P>> {
        let port = charged.ingress.port();
        let writer = self.writers[port.index()].as_mut().expect(FORWARDED_HERE);
        let (verdict, went_off) = self.shared.mmu.admit_one(writer, now, &charged);
        self.stirred |= note_decided(&self.shared, now, port, went_off, &[charged], &[verdict]);
        match verdict {
            Verdict::Keep(_) => {
                self.counters.add(charged.ingress, queue_stat::HANDED_OVER, 1);
                Some(Queued { frame_bytes: packet.frame_bytes(), packet, charged })
            }
            Verdict::Drop(reason) => {
                self.drop(charged.ingress, reason.into());
                None
            }
        }
    }

    #[inline]
    fn admit(&mut self, now: Time, port: PortId) {
        let mut verdicts = [Verdict::Drop(weir_mmu::DropReason::SharedFull); BURST_MAX];
        let verdicts = &mut verdicts[..self.arrivals.len()];
        let writer = self.writers[port.index()].as_mut().expect(FORWARDED_HERE);
        let went_off = self.shared.mmu.admit(writer, now, &self.arrivals, verdicts);
        self.stirred |= note_decided(&self.shared, now, port, went_off, &self.arrivals, verdicts);
        let (shared, counters) = (&self.shared, &mut self.counters);
        let packets = self.staged.drain(..).zip(self.arrivals.drain(..)).zip(verdicts);
        let mut kept = packets.filter_map(|((packet, charged), verdict)| match *verdict {
            Verdict::Keep(_) => {
                counters.add(charged.ingress, queue_stat::HANDED_OVER, 1);
                Some(Queued { frame_bytes: packet.frame_bytes(), packet, charged })
            }
            Verdict::Drop(reason) => {
                drop_arrived(shared, counters, charged.ingress, reason.into());
                None
            }
        });
        // A ring has room for all that the buffer can hold, so a full one is a broken invariant and no traffic's fault.
        if self.outputs.is_empty() {
            self.admitted.extend(kept);
        } else if let [output] = &mut *self.outputs {
            let room = output.slots().min(BURST_MAX);
            let chunk = output.write_chunk_uninit(room).expect("as many slots as counted");
            chunk.fill_from_iter(&mut kept);
            assert!(kept.next().is_none(), "the MMU admitted more than the buffer holds");
        } else {
            for queued in kept {
                let output = &mut self.outputs[self.output_of[queued.charged.egress.port().index()]];
                assert!(output.push(queued).is_ok(), "the MMU admitted more than the buffer holds");
            }
        }
    }

    /// Answers a reader's request for counters. Called between bursts.
    #[inline]
    pub fn serve(&mut self) {
        if let Some(request) = self.counters.requested() {
            self.counters.publish(request);
        }
    }

    /// Gives up what a stopped receiver left, counting it; returns how much.
    pub fn discard(&mut self) -> usize {
        let mut discarded = 0;
        while let Some((port, packet)) = self.input.as_mut().and_then(|input| input.pop().ok()) {
            if packet.is_control() {
                continue;
            }
            for n in 0..=self.clones[port.index()].len() {
                let at = if n == 0 { port } else { self.clones[port.index()][n - 1] };
                let queue = self.receive(at, None, packet.frame_bytes());
                self.counters.drop(queue, DropReason::Shutdown);
            }
            discarded += 1;
        }
        discarded
    }

    pub(crate) fn published(&self) -> Arc<Published> {
        self.counters.published()
    }
}

/// Notes for flow control what follows from what the MMU has decided on packets of a port, of which these classes went OFF.
/// Returns the port whose peer may have to be told something.
#[inline]
fn note_decided(
    shared: &Shared,
    now: Time,
    port: PortId,
    went_off: ClassSet,
    arrivals: &[Arrival],
    verdicts: &[Verdict],
) -> PortSet {
    let state = shared.port(port);
    let mut news = state.by_length;
    if !went_off.is_empty() {
        // The peer of the real port is who must pause.
        shared.port(state.real_port).note_xoff(now);
        news = true;
    }
    state.note_admitted(now);
    let in_storm = state.in_storm();
    if !in_storm.is_empty() {
        count_kept(shared, in_storm, arrivals, verdicts);
    }
    if news { state.real_port.alone() } else { PortSet::EMPTY }
}

/// Counts a frame that is dropped; in a storm of its port and class, there too.
// Out of line: in it, the loop over frames that are kept would pay for this.
#[cold]
#[inline(never)]
fn drop_arrived(shared: &Shared, counters: &mut Counters, ingress: QueueId, reason: DropReason) {
    counters.drop(ingress, reason);
    let state = shared.port(ingress.port());
    if state.in_storm().contains(ingress.class())
        && let Some(storms) = state.storms()
    {
        storms.count_dropped(ingress.class());
    }
}

/// Counts those frames of one port that are kept though their class is in a storm.
#[cold]
fn count_kept(shared: &Shared, in_storm: ClassSet, arrivals: &[Arrival], verdicts: &[Verdict]) {
    let kept = arrivals.iter().zip(verdicts).filter(|(_, verdict)| matches!(verdict, Verdict::Keep(_)));
    for ingress in kept.map(|(arrival, _)| arrival.ingress).filter(|queue| in_storm.contains(queue.class())) {
        if let Some(storms) = shared.port(ingress.port()).storms() {
            storms.count_kept(ingress.class());
        }
    }
}

/// Who admits has the port's writer.
const FORWARDED_HERE: &str = "a port that is forwarded here, and only here";
/// Ports that one frame is flooded to at most: as many as a switch may have.
const FLOOD_MAX: usize = 64;
