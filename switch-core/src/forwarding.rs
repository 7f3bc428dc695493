//! Forwarding, on lcores and in virtual time: classify, learn, look up, admit, hand over to the port's transmission.

use std::sync::Arc;

use arrayvec::ArrayVec;
use weir_flowctl::Arrived;
use weir_mmu::{Arrival, INTAKE_MAX, Intake, PortWriter, Verdict};
use weir_units::archive::{Archive, State};
use weir_units::{CLASSES, Class, ClassSet, PortId, PortSet, QueueId, SetOfPorts, Time};
use weir_wire::ethernet::{Headers, Parsed};
use weir_wire::mac_control::{ControlFrame, CreditFrame, DecodeError};

use crate::control::handle_control;
use crate::counters::{Counters, DropReason, Published, queue_stat};
use crate::ecmp;
use crate::fdb::Destination;
use crate::packet::{BURST_MAX, Burst, Direction, Packet, PacketStore, Queued};
use crate::shared::Shared;

/// Forwards what some ports received, and a copy of it for each of their clones. Fields that each frame touches come first,
/// and bursts last.
///
/// Who calls it takes turns by port: [`Forwarding::take_turn`], [`Forwarding::handle_packet`] for each frame that the port
/// received, [`Forwarding::flush`]. Frames of a port with clones go to [`Forwarding::handle_copied`] instead.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Forwarding<P, S = PortSet> {
    pub(crate) shared: Arc<Shared>,
    /// The right to admit for the ports that are forwarded here, by port.
    writers: Box<[Option<PortWriter>]>,
    /// The ports whose transmission may find something new.
    stirred: S,
    /// The ports whose flow control counts what comes in.
    counting: S,
    /// The ports that have clones.
    cloned: S,
    /// The classes of the port whose turn it is of which a storm drops what comes, as of the turn's beginning.
    pub(crate) dropping: ClassSet,
    pub(crate) counters: Counters,
    /// The clones of each port that is forwarded here; none for most.
    clones: Box<[Box<[PortId]>]>,
    /// What came in and is not counted yet, by class: of the port whose turn it is, if its flow control counts.
    pub(crate) arrived: [u32; CLASSES],
    /// Packets that ask to be admitted: what they are, and what the MMU is told of them.
    pub(crate) staged: Burst<P>,
    pub(crate) intake: Box<Intake>,
}

const _: () = assert!(BURST_MAX == INTAKE_MAX);

/// Where admitted frames go on to, and what was done before frames came here.
pub(crate) trait Onward<P> {
    /// Whether control frames are still to be obeyed. Where a receiver on another lcore did that, its forwarder only compares
    /// the counts that they tell with those of the data before them.
    const OBEYS_CONTROL: bool;

    /// Takes admitted frames, oldest first.
    fn take(&mut self, now: Time, admitted: impl Iterator<Item = Queued<P>>);

    /// Takes a burst that was admitted without exception.
    #[inline]
    fn take_all(&mut self, now: Time, packets: &mut Burst<P>, intake: &Intake)
    where
        P: Packet,
    {
        self.take(now, Queued::all(packets, intake));
    }
}

/// What becomes of a frame up to the MMU: decided once, for it and its copies.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    To(PortId),
    Flood,
    Drop(DropReason),
}

/// And of what the switch shares.
impl<P, S: SetOfPorts> State for Forwarding<P, S> {
    fn state(&mut self, archive: &mut Archive) {
        let Forwarding {
            shared,
            writers: _,
            stirred,
            counting: _,
            cloned: _,
            dropping,
            counters,
            clones: _,
            arrived,
            staged,
            intake: _,
        } = self;
        shared.state(archive);
        stirred.state(archive);
        dropping.state(archive);
        counters.state(archive);
        arrived.state(archive);
        // Between two instants nothing is on its way to the MMU.
        archive.expect(staged.len());
    }
}

impl<P: Packet, S: SetOfPorts> Forwarding<P, S> {
    pub(crate) fn new(shared: Arc<Shared>, ports: &[PortId], counters: Counters) -> Forwarding<P, S> {
        let is_here = |port: PortId| ports.contains(&port);
        let writer = |port: PortId| if is_here(port) { shared.mmu.writer(port) } else { None };
        let clones_of = |port: PortId| shared.clones_of(port).filter(|_| is_here(port)).collect();
        let all = || (0..shared.ports().len() as u16).map(PortId);
        let (writers, clones): (_, Box<[Box<[PortId]>]>) =
            (all().map(writer).collect(), all().map(clones_of).collect());
        let cloned = all().filter(|port| !clones[port.index()].is_empty()).collect();
        let counts = |port: &PortId| shared.port(*port).arrived().is_counted();
        let counting = all().filter(counts).collect();
        Forwarding {
            shared,
            writers,
            counters,
            staged: Burst::new(),
            intake: Box::default(),
            clones,
            cloned,
            counting,
            arrived: [0; CLASSES],
            dropping: ClassSet::EMPTY,
            stirred: S::EMPTY,
        }
    }

    /// Whether a port has clones.
    #[inline]
    pub(crate) fn has_clones(&self, port: PortId) -> bool {
        self.cloned.contains(port)
    }

    /// Whether flow control counts what comes in by a port.
    #[inline]
    pub(crate) fn counts(&self, port: PortId) -> bool {
        self.counting.contains(port)
    }

    /// Whether a frame of the port whose turn it is may be admitted to this port.
    #[inline]
    pub(crate) fn takes(&self, ingress: QueueId, to: PortId) -> bool {
        !self.dropping.contains(ingress.class()) && self.shared.takes(to, ingress.class())
    }

    /// What follows is of this port.
    #[inline]
    pub(crate) fn take_turn(&mut self, port: PortId) {
        self.dropping = self.shared.dropping(port);
    }

    /// Forwards what a port with clones received, and has each clone receive a copy that goes the same way. What there is
    /// no memory for was received, and is lost.
    #[inline(never)]
    pub(crate) fn handle_copied<O: Onward<P>>(
        &mut self,
        now: Time,
        port: PortId,
        burst: &mut Burst<P>,
        store: &mut impl PacketStore<P>,
        onward: &mut O,
    ) {
        let mut ways: ArrayVec<(Option<Headers>, Way), BURST_MAX> = ArrayVec::new();
        self.take_turn(port);
        // What the peer says of itself, and how many data frames came before it.
        let mut accounts: ArrayVec<(usize, CreditFrame), BURST_MAX> = ArrayVec::new();
        burst.retain(|packet| {
            ways.push(match packet.parse() {
                Parsed::Data(headers) => (Some(headers), self.way_of_copied(now, port, &headers, packet)),
                Parsed::Malformed => (None, Way::Drop(DropReason::Malformed)),
                Parsed::Control(control) => {
                    self.obey::<O>(now, port, control);
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
                    self.drop_packet(now, packet, ingress, *reason, store);
                } else if let Some(copy) = store.copy(packet) {
                    self.forward(now, copy, ingress, *way, store, onward);
                } else {
                    self.drop_packet(now, packet, ingress, DropReason::NoMemory, store);
                }
            }
            self.flush(now, clone, store, onward);
        }
        self.take_turn(port);
        let mut accounts = accounts.iter().peekable();
        for (n, (packet, (headers, way))) in burst.drain(..).zip(ways).enumerate() {
            while let Some((_, frame)) = accounts.next_if(|(behind, _)| *behind <= n) {
                self.compare_counts(port, frame, |_, _| 0);
            }
            let ingress = self.receive(port, headers.as_ref(), packet.frame_bytes());
            self.forward(now, packet, ingress, way, store, onward);
        }
        accounts.for_each(|(_, frame)| self.compare_counts(port, frame, |_, _| 0));
        self.flush(now, port, store, onward);
    }

    /// Forwards a frame that `port`, which has no clones and whose turn it is, received.
    #[inline]
    pub(crate) fn handle_packet<O: Onward<P>>(
        &mut self,
        now: Time,
        port: PortId,
        packet: P,
        store: &mut impl PacketStore<P>,
        onward: &mut O,
    ) {
        let headers = match packet.parse() {
            Parsed::Data(headers) => headers,
            Parsed::Control(control) => {
                self.handle_control::<O>(now, port, &control, |_, _| 0);
                return store.take_back(packet);
            }
            Parsed::Malformed => {
                let ingress = self.receive(port, None, packet.frame_bytes());
                return self.drop_packet(now, &packet, ingress, DropReason::Malformed, store);
            }
        };
        let ingress = self.receive(port, Some(&headers), packet.frame_bytes());
        let way = self.way(now, port, &headers, &packet);
        self.forward(now, packet, ingress, way, store, onward);
    }

    /// Obeys a control frame, and compares the counts that it tells with those of the data before it, of which so much of a class is yet to be
    /// counted as `uncounted` says.
    pub(crate) fn handle_control<O: Onward<P>>(
        &mut self,
        now: Time,
        port: PortId,
        control: &Result<ControlFrame, DecodeError>,
        uncounted: impl FnOnce(Class, &Arrived) -> u32,
    ) {
        self.obey::<O>(now, port, *control);
        if let Ok(ControlFrame::Credit(frame)) = control {
            self.compare_counts(port, frame, uncounted);
        }
    }

    /// Obeys a control frame, unless that was done before.
    fn obey<O: Onward<P>>(&mut self, now: Time, port: PortId, control: Result<ControlFrame, DecodeError>) {
        if O::OBEYS_CONTROL {
            self.stirred.insert(port);
            handle_control(&self.shared, &mut self.counters, now, port, control);
        }
    }

    /// Compares what a port's peer has sent with what came from it, all of which has been handled up to here: and so much of a class is not
    /// even in the sums of this burst as `uncounted` says.
    #[cold]
    fn compare_counts(&self, port: PortId, frame: &CreditFrame, uncounted: impl FnOnce(Class, &Arrived) -> u32) {
        let arrived = self.shared.port(port).arrived();
        arrived.handle_account(frame, |class| self.arrived[class.index()] + uncounted(class, arrived));
    }

    /// Counts a frame as received, and finds its ingress queue; without headers it is in the port's own class.
    // Always: with the copies' side calling it too, the compiler would have every packet pay for a call.
    #[inline(always)]
    pub(crate) fn receive(&mut self, port: PortId, headers: Option<&Headers>, frame_bytes: u32) -> QueueId {
        let classifier = &self.shared.classifier;
        let class = headers.map_or_else(|| classifier.port_class(port), |headers| classifier.class(port, headers));
        let ingress = QueueId::new(port, class);
        self.counters.add_frame(ingress, frame_bytes);
        if self.counts(port) {
            self.arrived[class.index()] += self.shared.port(port).arrived().count_of(frame_bytes);
        }
        ingress
    }

    /// Learns a frame's sender, and says what becomes of the frame.
    #[inline(always)]
    pub(crate) fn way(&self, now: Time, port: PortId, headers: &Headers, packet: &P) -> Way {
        if !self.dropping.is_empty() && self.shared.port(port).is_shut() {
            return Way::Drop(DropReason::PortDown);
        }
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

    /// [`Forwarding::way`] out of line, for frames that pay for copies anyway.
    #[inline(never)]
    fn way_of_copied(&self, now: Time, port: PortId, headers: &Headers, packet: &P) -> Way {
        self.way(now, port, headers, packet)
    }

    /// Stages a frame for admission, or its copies; or drops it.
    #[inline(always)]
    pub(crate) fn forward(
        &mut self,
        now: Time,
        packet: P,
        ingress: QueueId,
        way: Way,
        store: &mut impl PacketStore<P>,
        onward: &mut impl Onward<P>,
    ) {
        match way {
            Way::Drop(reason) => self.drop_packet(now, &packet, ingress, reason, store),
            _ if self.dropping.contains(ingress.class()) => {
                self.drop_packet(now, &packet, ingress, DropReason::PfcWatchdog, store);
            }
            Way::To(to) => self.stage(now, packet, ingress, to, store, onward),
            Way::Flood => self.flood(now, packet, ingress, store, onward),
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
        if self.shared.is_open(ports[chosen]) { ports[chosen] } else { self.next_of(ports, chosen) }
    }

    #[cold]
    fn next_of(&self, ports: &[PortId], chosen: usize) -> PortId {
        let in_turn = ports[chosen..].iter().chain(&ports[..chosen]).copied();
        in_turn.into_iter().find(|port| self.shared.is_open(*port)).unwrap_or(ports[chosen])
    }

    /// Sends a frame to every port but its own: copies to all but the last, itself to the last.
    fn flood(
        &mut self,
        now: Time,
        packet: P,
        ingress: QueueId,
        store: &mut impl PacketStore<P>,
        onward: &mut impl Onward<P>,
    ) {
        let from = self.shared.port(ingress.port()).real_port;
        let mut last = None;
        for to in (0..self.shared.ports().len() as u16).map(PortId) {
            let state = self.shared.port(to);
            if to == from || state.real_port != to || !state.is_open() {
                continue;
            }
            let Some(before) = last.replace(to) else { continue };
            self.counters.add(ingress, queue_stat::EXTRA, 1);
            match store.copy(&packet) {
                Some(copy) => self.stage(now, copy, ingress, before, store, onward),
                None => self.drop_packet(now, &packet, ingress, DropReason::NoMemory, store),
            }
        }
        match last {
            Some(last) => self.stage(now, packet, ingress, last, store, onward),
            None => self.drop_packet(now, &packet, ingress, DropReason::PortDown, store),
        }
    }

    /// In debug builds: whether each frame that was received, or copied, has been handed over or dropped, or is here. Between
    /// any two calls.
    ///
    /// # Panics
    /// If one is not: a fault of the program.
    pub(crate) fn audit(&self) {
        if cfg!(debug_assertions) {
            let total = |stat| self.counters.total(stat);
            let came = total(queue_stat::FRAMES) + total(queue_stat::EXTRA);
            let here = self.staged.len() as u64;
            let went = total(queue_stat::HANDED_OVER) + total(queue_stat::DROPS);
            assert_eq!(came, went + here, "frames that a forwarder received; {here} are staged");
        }
    }

    /// The ports whose peers said something, or may have to be told something, since the last call.
    #[inline]
    pub(crate) fn take_stirred(&mut self) -> S {
        std::mem::take(&mut self.stirred)
    }

    /// Queues a packet for admission.
    #[inline]
    fn stage(
        &mut self,
        now: Time,
        packet: P,
        ingress: QueueId,
        to: PortId,
        store: &mut impl PacketStore<P>,
        onward: &mut impl Onward<P>,
    ) {
        if !self.shared.takes(to, ingress.class()) {
            return self.refuse(now, &packet, ingress, to, store);
        }
        if self.intake.room() == 0 {
            self.flush(now, ingress.port(), store, onward);
        }
        let bytes = self.shared.charge_alone(ingress.class(), packet.frame_bytes());
        self.intake.push(Arrival { ingress, egress: QueueId::new(to, ingress.class()), bytes }, packet.frame_bytes());
        self.staged.push(packet);
    }

    /// Drops a frame whose port of departure takes none, or none of its class.
    #[cold]
    fn refuse(&mut self, now: Time, packet: &P, ingress: QueueId, to: PortId, store: &mut impl PacketStore<P>) {
        let state = self.shared.port(to);
        if !state.is_open() {
            return self.drop_packet(now, packet, ingress, DropReason::PortDown, store);
        }
        if let Some(storms) = state.storms() {
            storms.count_refused(ingress.class());
        }
        self.drop_packet(now, packet, ingress, DropReason::PfcWatchdog, store);
    }

    /// Drops a frame before it was admitted.
    #[cold]
    #[inline(never)]
    fn drop_packet(
        &mut self,
        now: Time,
        packet: &P,
        ingress: QueueId,
        reason: DropReason,
        store: &mut impl PacketStore<P>,
    ) {
        store.note_drop(now, packet, ingress, Direction::Inbound, reason);
        self.drop(ingress, reason);
    }

    fn drop(&mut self, ingress: QueueId, reason: DropReason) {
        drop_arrived(&self.shared, &mut self.counters, ingress, reason);
    }

    /// Admits what is staged, all of it from `port`, and hands on what is kept.
    #[inline]
    pub(crate) fn flush(
        &mut self,
        now: Time,
        port: PortId,
        store: &mut impl PacketStore<P>,
        onward: &mut impl Onward<P>,
    ) {
        if !self.staged.is_empty() {
            let mut staged = std::mem::take(&mut self.staged);
            self.admit(now, port, &mut staged, store, onward);
        }
        self.count_arrived(port);
    }

    /// Counts what came of a port's peer. After the admission: what is counted as arrived is then counted as held, or was
    /// dropped.
    #[inline]
    pub(crate) fn count_arrived(&mut self, port: PortId) {
        if self.counts(port) {
            self.count_arrived_of(port);
        }
    }

    #[inline(never)]
    fn count_arrived_of(&mut self, port: PortId) {
        let arrived = self.shared.port(port).arrived();
        let counts = std::mem::take(&mut self.arrived);
        let classes = Class::ALL.into_iter().zip(counts).filter(|(_, count)| *count > 0);
        classes.for_each(|(class, count)| arrived.count(class, count));
    }

    /// Has the MMU decide on one packet; returns it if it is kept.
    #[inline(always)]
    pub(crate) fn admit_one(&mut self, now: Time, packet: P, charged: Arrival) -> Option<Queued<P>> {
        let port = charged.ingress.port();
        let writer = self.writers[port.index()].as_mut().expect(FORWARDED_HERE);
        let state = self.shared.port(port);
        state.note_admitted(now);
        let (verdict, went_off) = self.shared.mmu.admit_either(writer, now, &charged, packet.is_unscheduled());
        if state.by_length || !went_off.is_empty() {
            self.stirred.insert(state.real_port);
        }
        match verdict {
            Verdict::Keep(_) => {
                if !self.shared.port(port).in_storm().is_empty() {
                    count_kept(&self.shared, charged.ingress);
                }
                self.counters.add(charged.ingress, queue_stat::HANDED_OVER, 1);
                Some(Queued::new(packet, charged))
            }
            Verdict::Drop(reason) => {
                self.drop(charged.ingress, reason.into());
                None
            }
        }
    }

    /// Admits packets, all of `port`, which are those of the intake; hands on what is kept, and leaves none.
    #[inline]
    pub(crate) fn admit(
        &mut self,
        now: Time,
        port: PortId,
        packets: &mut Burst<P>,
        store: &mut impl PacketStore<P>,
        onward: &mut impl Onward<P>,
    ) {
        debug_assert_eq!(packets.len(), self.intake.len());
        let Forwarding { shared, counters, intake, .. } = self;
        let writer = self.writers[port.index()].as_mut().expect(FORWARDED_HERE);
        let state = shared.port(port);
        state.note_admitted(now);
        let went_off = shared.mmu.admit_burst(writer, now, intake);
        if state.by_length || !went_off.is_empty() {
            self.stirred.insert(state.real_port);
        }
        let has_storm = !shared.port(port).in_storm().is_empty();
        if intake.is_kept_whole() && !has_storm {
            for bundle in intake.bundles() {
                counters.add(bundle.ingress, queue_stat::HANDED_OVER, u64::from(bundle.packets));
            }
            onward.take_all(now, packets, intake);
        } else {
            self.sort_out(now, has_storm, packets, store, onward);
        }
        self.intake.clear();
    }

    /// Hands on what is kept of a burst, and drops the rest; `has_storm` says whether a class of its port is in one.
    #[inline(never)]
    fn sort_out(
        &mut self,
        now: Time,
        has_storm: bool,
        packets: &mut Burst<P>,
        store: &mut impl PacketStore<P>,
        onward: &mut impl Onward<P>,
    ) {
        let Forwarding { shared, counters, intake, .. } = self;
        let kept = Queued::all(packets, intake).enumerate().filter_map(|(n, queued)| match intake.verdict(n) {
            Verdict::Keep(_) => {
                let ingress = queued.charged.ingress;
                if has_storm {
                    count_kept(shared, ingress);
                }
                counters.add(ingress, queue_stat::HANDED_OVER, 1);
                Some(queued)
            }
            Verdict::Drop(reason) => {
                let (ingress, reason) = (queued.charged.ingress, reason.into());
                store.note_drop(now, &queued.packet, ingress, Direction::Inbound, reason);
                drop_arrived(shared, counters, ingress, reason);
                None
            }
        });
        onward.take(now, kept);
    }

    /// Answers a reader's request for counters. Called between bursts.
    #[inline]
    pub(crate) fn serve(&mut self) {
        if let Some(request) = self.counters.requested() {
            self.counters.publish(request);
        }
    }

    /// What it has counted, for who has the switch for itself.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Counts a frame that arrived and is given up, and each copy of it.
    pub(crate) fn give_up(&mut self, port: PortId, frame_bytes: u32, reason: DropReason) {
        for n in 0..=self.clones[port.index()].len() {
            let at = if n == 0 { port } else { self.clones[port.index()][n - 1] };
            let queue = self.receive(at, None, frame_bytes);
            self.counters.drop(queue, reason);
        }
    }

    pub(crate) fn published(&self) -> Arc<Published> {
        self.counters.published()
    }
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

/// Counts a frame that is kept, if its class is in a storm.
#[cold]
fn count_kept(shared: &Shared, ingress: QueueId) {
    let state = shared.port(ingress.port());
    if state.in_storm().contains(ingress.class())
        && let Some(storms) = state.storms()
    {
        storms.count_kept(ingress.class());
    }
}

/// Who admits has the port's writer.
const FORWARDED_HERE: &str = "a port that is forwarded here, and only here";
