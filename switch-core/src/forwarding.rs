//! Forwarding, on lcores and in virtual time: classify, learn, look up, admit, and hand over to the port's transmission.

use std::sync::Arc;

use arrayvec::ArrayVec;
use weir_flowctl::{RateLimiter, ReceiveAccounting, wire_bytes};
use weir_load_balancing::PathRequest;
use weir_mmu::{Admission, BURST_REQUEST_MAX, BufferRequest, BurstRequest, PortWriter};
use weir_units::{BitRate, CLASSES, Class, ClassSet, PortBitmap, PortId, PortSet, QueueId, Span, Time};
use weir_wire::ethernet::{Headers, Parsed, TAG_BYTES};
use weir_wire::mac_control::{ControlFrame, DecodeError};

use crate::classify::FrameClass;
use crate::control::handle_control;
use crate::counters::{CounterSnapshot, Counters, DropReason, queue_stat};
use crate::ecmp;
use crate::fdb::Destination;
use crate::packet::{BURST_MAX, Burst, Direction, Packet, PacketAllocator, QueuedPacket};
use crate::path_selection::{PathSelection, open_port};
use crate::shared::Shared;
use crate::vlans::Vlans;

/// Forwarder of the frames of some ports, and of a copy for each clone. Fields that each frame touches come first, and bursts last.
///
/// For each port, call [`Forwarding::set_current_port`], then [`Forwarding::handle_packet`] for each received frame, then
/// [`Forwarding::flush`]. Frames of a port with clones go to [`Forwarding::handle_copied`] instead.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Forwarding<P, S = PortSet> {
    pub(crate) shared: Arc<Shared>,
    /// Writers of the MMU, by port; `None` for ports that are forwarded elsewhere.
    writers: Box<[Option<PortWriter>]>,
    /// Ports whose transmission may have new work.
    pending_ports: S,
    /// Ports whose flow control counts received data.
    counting: S,
    cloned: S,
    /// Egress queues whose frames are dropped when they arrive at the current port, because of a storm or a closed port, as of
    /// [`Forwarding::set_current_port`].
    pub(crate) dropping: ClassSet,
    pub(crate) counters: Counters,
    /// Storm control of each port; empty where nothing is learned, so that no frame is flooded.
    storm_control: Box<[RateLimiter]>,
    /// Clones of each port that is forwarded here; mostly empty.
    clones: Box<[Box<[PortId]>]>,
    /// Selector among ports of equal cost; `None` for the hash of the flow.
    path_selection: Option<Box<PathSelection>>,
    /// Received data that is not yet counted, by class: of the current port, if its flow control counts.
    pub(crate) arrived: [u32; CLASSES],
    /// Packets that wait for admission. `request` holds their requests to the MMU.
    pub(crate) staged: Burst<P>,
    pub(crate) request: Box<BurstRequest>,
}

const _: () = assert!(BURST_MAX == BURST_REQUEST_MAX);

/// Time whose worth of its rate a port may flood at once, such as the ARP requests of hosts that start together.
const STORM_CONTROL_BURST: Span = Span::from_millis(100);

/// Next stage of admitted frames.
pub(crate) trait AdmittedSink<P> {
    /// Whether this side obeys control frames. If a receiver on another lcore does, its forwarder only compares the credit counts in the
    /// frames with those of the data before them.
    const OBEYS_CONTROL: bool;

    /// Takes admitted frames, oldest first.
    fn take(&mut self, now: Time, admitted: impl Iterator<Item = QueuedPacket<P>>);

    /// Takes a burst that was admitted without exception.
    #[inline]
    fn take_all(&mut self, now: Time, packets: &mut Burst<P>, request: &BurstRequest)
    where
        P: Packet,
    {
        self.take(now, QueuedPacket::all(packets, request));
    }
}

/// Forwarding decision (802.1Q 8.6), made once per frame and shared by its copies.
#[derive(Clone, Copy)]
pub(crate) enum ForwardingDecision {
    To(PortId),
    Flood,
    Drop(DropReason),
}

impl<P: Packet, S: PortBitmap> Forwarding<P, S> {
    /// Memory of a port without clones, besides its counters.
    pub(crate) const PORT_BYTES: usize = size_of::<Option<PortWriter>>() + size_of::<Box<[PortId]>>();

    pub(crate) fn new(shared: Arc<Shared>, ports: &[PortId], counters: Counters) -> Forwarding<P, S> {
        let is_here = |port: PortId| ports.contains(&port);
        let writer = |port: PortId| if is_here(port) { shared.mmu.writer(port) } else { None };
        let clones_of = |port: PortId| shared.clones_of(port).filter(|_| is_here(port)).collect();
        let all = || (0..shared.ports().len() as u16).map(PortId);
        let (writers, clones): (_, Box<[Box<[PortId]>]>) =
            (all().map(writer).collect(), all().map(clones_of).collect());
        let cloned = all().filter(|port| !clones[port.index()].is_empty()).collect();
        let counts = |port: &PortId| shared.port(*port).receive_accounting().is_counted();
        let counting = all().filter(counts).collect();
        let flooding = all().filter(|_| shared.learns);
        let limiter = |_| {
            let mut limiter = RateLimiter::new(BitRate::bps(u64::MAX), STORM_CONTROL_BURST);
            shared.storm_control().into_iter().for_each(|rate| limiter.set_rate(Time::ZERO, rate));
            limiter
        };
        let storm_control = flooding.map(limiter).collect();
        let path_selection = PathSelection::new(&shared, ports[0]);
        Forwarding {
            shared,
            writers,
            counters,
            staged: Burst::new(),
            request: Box::default(),
            clones,
            cloned,
            counting,
            path_selection,
            arrived: [0; CLASSES],
            storm_control,
            dropping: ClassSet::EMPTY,
            pending_ports: S::EMPTY,
        }
    }

    #[inline]
    pub(crate) fn has_clones(&self, port: PortId) -> bool {
        self.cloned.contains(port)
    }

    /// Returns whether flow control counts the data received by a port.
    #[inline]
    pub(crate) fn counts(&self, port: PortId) -> bool {
        self.counting.contains(port)
    }

    /// Returns whether a frame of the current port may be admitted to an egress queue of the port `to`.
    #[inline]
    pub(crate) fn accepts(&self, to: PortId, queue: Class) -> bool {
        !self.dropping.contains(queue) && self.shared.accepts(to, queue)
    }

    #[inline]
    pub(crate) fn set_current_port(&mut self, port: PortId) {
        self.dropping = self.shared.dropping(port);
    }

    /// Forwards the received frames of a port with clones, and a copy for each clone by the same decision. A copy that finds no memory
    /// counts as received and dropped.
    #[inline(never)]
    pub(crate) fn handle_copied<Sink: AdmittedSink<P>>(
        &mut self,
        now: Time,
        port: PortId,
        burst: &mut Burst<P>,
        allocator: &mut impl PacketAllocator<P>,
        sink: &mut Sink,
    ) {
        let mut decisions: ArrayVec<(Option<Headers>, ForwardingDecision), BURST_MAX> = ArrayVec::new();
        self.set_current_port(port);
        // Frames with the peer's count, each with the number of data frames before it.
        let mut accounts: ArrayVec<(usize, ControlFrame), BURST_MAX> = ArrayVec::new();
        burst.retain(|packet| {
            decisions.push(match packet.parse() {
                Parsed::Data(headers) => (Some(headers), self.decide_for_copies(now, port, &headers, packet)),
                Parsed::Malformed => (None, ForwardingDecision::Drop(DropReason::Malformed)),
                Parsed::Control(control) => {
                    self.obey::<Sink>(now, port, control);
                    if let Ok(frame) = control
                        && ReceiveAccounting::has_account(&frame)
                    {
                        accounts.push((decisions.len(), frame));
                    }
                    return false;
                }
            });
            true
        });
        for n in 0..self.clones[port.index()].len() {
            let clone = self.clones[port.index()][n];
            self.set_current_port(clone);
            for (packet, (headers, decision)) in burst.iter().zip(&decisions) {
                let (ingress, queue) = self.receive(clone, headers.as_ref(), packet.frame_bytes());
                if let ForwardingDecision::Drop(reason) = decision {
                    self.drop_packet(now, packet, ingress, queue, *reason, allocator);
                } else if let Some(copy) = allocator.copy(packet) {
                    self.forward(now, copy, ingress, queue, *decision, allocator, sink);
                } else {
                    self.drop_packet(now, packet, ingress, queue, DropReason::NoMemory, allocator);
                }
            }
            self.flush(now, clone, allocator, sink);
        }
        self.set_current_port(port);
        let mut accounts = accounts.iter().peekable();
        for (n, (packet, (headers, decision))) in burst.drain(..).zip(decisions).enumerate() {
            while let Some((_, frame)) = accounts.next_if(|(behind, _)| *behind <= n) {
                self.compare_counts(port, frame, |_, _| 0);
            }
            let (ingress, queue) = self.receive(port, headers.as_ref(), packet.frame_bytes());
            self.forward(now, packet, ingress, queue, decision, allocator, sink);
        }
        accounts.for_each(|(_, frame)| self.compare_counts(port, frame, |_, _| 0));
        self.flush(now, port, allocator, sink);
    }

    /// Forwards a frame received by `port`, which is the current port and has no clones.
    #[inline]
    pub(crate) fn handle_packet<Sink: AdmittedSink<P>>(
        &mut self,
        now: Time,
        port: PortId,
        packet: P,
        allocator: &mut impl PacketAllocator<P>,
        sink: &mut Sink,
    ) {
        let headers = match packet.parse() {
            Parsed::Data(headers) => headers,
            Parsed::Control(control) => {
                self.handle_control::<Sink>(now, port, &control, |_, _| 0);
                return allocator.recycle(packet);
            }
            Parsed::Malformed => {
                let (ingress, queue) = self.receive(port, None, packet.frame_bytes());
                return self.drop_packet(now, &packet, ingress, queue, DropReason::Malformed, allocator);
            }
        };
        let (ingress, queue) = self.receive(port, Some(&headers), packet.frame_bytes());
        let decision = self.decide(now, port, &headers, &packet);
        self.forward(now, packet, ingress, queue, decision, allocator, sink);
    }

    /// Obeys a control frame, and compares its credit counts with those of the data before it. `uncounted` returns the part of a class that
    /// is not counted yet.
    pub(crate) fn handle_control<Sink: AdmittedSink<P>>(
        &mut self,
        now: Time,
        port: PortId,
        control: &Result<ControlFrame, DecodeError>,
        uncounted: impl Fn(Class, &ReceiveAccounting) -> u32,
    ) {
        self.obey::<Sink>(now, port, *control);
        if let Ok(frame) = control
            && ReceiveAccounting::has_account(frame)
        {
            self.compare_counts(port, frame, uncounted);
        }
    }

    /// Obeys a control frame, unless a receiver did.
    fn obey<Sink: AdmittedSink<P>>(&mut self, now: Time, port: PortId, control: Result<ControlFrame, DecodeError>) {
        if Sink::OBEYS_CONTROL {
            self.pending_ports.insert(port);
            handle_control(&self.shared, &mut self.counters, now, port, control);
        }
    }

    /// Compares the counts of a port's peer with those of the data received from it, all of which has been handled. `uncounted` returns the
    /// part of a class that is not even in this burst's sums.
    #[cold]
    fn compare_counts(&self, port: PortId, frame: &ControlFrame, uncounted: impl Fn(Class, &ReceiveAccounting) -> u32) {
        let arrived = self.shared.port(port).receive_accounting();
        arrived.handle_account(frame, |class| self.arrived[class.index()] + uncounted(class, arrived));
    }

    /// Counts a frame as received; returns its ingress queue, and its queue at any egress port. Without headers the port's default class
    /// applies.
    #[inline(always)]
    pub(crate) fn receive(&mut self, port: PortId, headers: Option<&Headers>, frame_bytes: u32) -> (QueueId, Class) {
        let classifier = &self.shared.classifier;
        let FrameClass { group, queue } =
            headers.map_or_else(|| classifier.port_class(port), |headers| classifier.class(port, headers));
        let ingress = QueueId::new(port, group);
        self.counters.add_frame(ingress, frame_bytes);
        if self.counts(port) {
            self.arrived[group.index()] += self.shared.port(port).receive_accounting().count_of(frame_bytes);
        }
        (ingress, queue)
    }

    /// Learns a frame's source address, and returns the forwarding decision.
    #[inline(always)]
    pub(crate) fn decide(&mut self, now: Time, port: PortId, headers: &Headers, packet: &P) -> ForwardingDecision {
        if !self.dropping.is_empty() && self.shared.port(port).is_shut() {
            return ForwardingDecision::Drop(DropReason::PortDown);
        }
        if packet.frame_bytes() > self.shared.frame_bytes_max {
            return ForwardingDecision::Drop(DropReason::Oversize);
        }
        if headers.destination.is_link_local() {
            return ForwardingDecision::Drop(DropReason::LinkLocal);
        }
        if self.shared.learns {
            if let Some(vlans) = &self.shared.vlans {
                return self.decide_in_vlan(vlans, now, port, headers, packet);
            }
            self.shared.fdb.learn(packet.source(), port, now);
        }
        match self.destination(port, headers, packet, now) {
            // In a fabric whose routes have changed the way may lead back.
            Some(to) if to == port && self.shared.learns => ForwardingDecision::Drop(DropReason::SamePort),
            Some(to) => ForwardingDecision::To(to),
            None => ForwardingDecision::Flood,
        }
    }

    /// [`Forwarding::decide`] with VLANs: filters by the frame's VLAN, in which it learns and looks up.
    #[inline(never)]
    fn decide_in_vlan(
        &self,
        vlans: &Vlans,
        now: Time,
        port: PortId,
        headers: &Headers,
        packet: &P,
    ) -> ForwardingDecision {
        let tag = packet.tag();
        // A port that sends it with a tag must not need a longer frame.
        if tag.is_none() && packet.frame_bytes() + TAG_BYTES as u32 > self.shared.frame_bytes_max {
            return ForwardingDecision::Drop(DropReason::Oversize);
        }
        let Some(vlan) = vlans.of_frame(port, tag) else { return ForwardingDecision::Drop(DropReason::VlanFilter) };
        let fdb = &self.shared.fdb;
        fdb.learn_number(vlan.key(packet.source()).to_u64(), port, now);
        if headers.destination.is_group() {
            return ForwardingDecision::Flood;
        }
        match fdb.lookup_number(vlan.key(headers.destination).to_u64(), now) {
            Some(Destination::Port(to)) if to == port => ForwardingDecision::Drop(DropReason::SamePort),
            Some(Destination::Port(to)) => ForwardingDecision::To(to),
            Some(Destination::AnyOf(_)) | None => ForwardingDecision::Flood,
        }
    }

    /// Runs [`Forwarding::decide`] out of line, for frames that pay for copies anyway.
    #[inline(never)]
    fn decide_for_copies(&mut self, now: Time, port: PortId, headers: &Headers, packet: &P) -> ForwardingDecision {
        self.decide(now, port, headers, packet)
    }

    /// Stages a frame or its copies for admission, or drops the frame.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the frame's queues, and both sides of the driver")]
    pub(crate) fn forward(
        &mut self,
        now: Time,
        packet: P,
        ingress: QueueId,
        queue: Class,
        decision: ForwardingDecision,
        allocator: &mut impl PacketAllocator<P>,
        sink: &mut impl AdmittedSink<P>,
    ) {
        match decision {
            ForwardingDecision::Drop(reason) => self.drop_packet(now, &packet, ingress, queue, reason, allocator),
            _ if self.dropping.contains(queue) => {
                self.drop_packet(now, &packet, ingress, queue, DropReason::PfcWatchdog, allocator);
            }
            ForwardingDecision::To(to) => {
                self.stage(now, packet, ingress, QueueId::new(to, queue), allocator, sink);
            }
            ForwardingDecision::Flood => self.flood(now, packet, ingress, queue, allocator, sink),
        }
    }

    /// Returns the egress port of a frame from `port`; `None` to flood.
    #[inline(always)]
    fn destination(&mut self, port: PortId, headers: &Headers, packet: &P, now: Time) -> Option<PortId> {
        if headers.destination.is_group() {
            return None;
        }
        let Forwarding { shared, path_selection, .. } = self;
        match (shared.fdb.lookup(headers.destination, now)?, path_selection) {
            (Destination::Port(to), _) => Some(to),
            (Destination::AnyOf(ports), None) => Some(ecmp_port(shared, ports, packet.flow_hash())),
            (Destination::AnyOf(ports), Some(selection)) => {
                let FrameClass { queue, .. } = shared.classifier.class(port, headers);
                let flow_hash = ecmp::at_switch(packet.flow_hash(), shared.hash_seed);
                let request = PathRequest { now, flow_hash, frame_bytes: packet.frame_bytes() };
                Some(selection.select(shared, request, queue, ports))
            }
        }
    }

    /// Returns whether storm control drops a frame that is to be flooded: broadcast, multicast, or to an unknown station.
    fn exceeds_storm_control(&mut self, now: Time, port: PortId, frame_bytes: u32) -> bool {
        let Some(rate) = self.shared.storm_control() else { return false };
        let Some(limiter) = self.storm_control.get_mut(port.index()) else { return false };
        limiter.set_rate(now, rate);
        let exceeds = !limiter.is_free(now);
        if !exceeds {
            limiter.send(now, wire_bytes(frame_bytes, self.shared.link_overhead));
        }
        exceeds
    }

    /// Floods a frame to every port of its VLAN but its own: copies to all but the last, and the frame itself to the last. Copies are whole, so
    /// that each can have a tag of its own. A frame of the switch's loop guard, sent by a port of that VLAN, goes no further.
    fn flood(
        &mut self,
        now: Time,
        packet: P,
        ingress: QueueId,
        queue: Class,
        allocator: &mut impl PacketAllocator<P>,
        sink: &mut impl AdmittedSink<P>,
    ) {
        let from = self.shared.port(ingress.port()).real_port;
        let vlan = self.shared.vlans.as_ref().and_then(|vlans| vlans.of_frame(from, packet.tag())).copied();
        if packet.is_of_loop_guard()
            && let Some(sender) = self.shared.port_of_mac(packet.source())
            && vlan.is_none_or(|vlan| vlan.contains(sender))
        {
            return self.take_or_drop(now, &packet, ingress, queue, allocator);
        }
        if self.exceeds_storm_control(now, ingress.port(), packet.frame_bytes()) {
            return self.drop_packet(now, &packet, ingress, queue, DropReason::StormControl, allocator);
        }
        let (mut last, mut has_members) = (None, vlan.is_none());
        for to in (0..self.shared.ports().len() as u16).map(PortId) {
            let state = self.shared.port(to);
            if to == from || state.real_port != to || vlan.is_some_and(|vlan| !vlan.contains(to)) {
                continue;
            }
            has_members = true;
            if !state.is_open() {
                continue;
            }
            let Some(before) = last.replace(to) else { continue };
            self.counters.add(ingress, queue_stat::EXTRA, 1);
            match allocator.copy(&packet) {
                Some(copy) => self.stage(now, copy, ingress, QueueId::new(before, queue), allocator, sink),
                None => self.drop_packet(now, &packet, ingress, queue, DropReason::NoMemory, allocator),
            }
        }
        match last {
            Some(last) => self.stage(now, packet, ingress, QueueId::new(last, queue), allocator, sink),
            None => {
                let reason = if has_members { DropReason::PortDown } else { DropReason::VlanFilter };
                self.drop_packet(now, &packet, ingress, queue, reason, allocator);
            }
        }
    }

    /// Checks, in debug builds, that each received or copied frame has been handed over, dropped, or is staged. Holds between any two
    /// calls.
    ///
    /// # Panics
    /// If a frame is missing, which is a bug.
    pub(crate) fn audit(&self) {
        if cfg!(debug_assertions) {
            let total = |stat| self.counters.total(stat);
            let received = total(queue_stat::FRAMES) + total(queue_stat::EXTRA);
            let here = self.staged.len() as u64;
            let departed = total(queue_stat::HANDED_OVER) + total(queue_stat::DROPS);
            assert_eq!(received, departed + here, "frames that a forwarder received; {here} are staged");
        }
    }

    /// Takes the ports whose peers sent a message, or may be due one, since the last call.
    #[inline]
    pub(crate) fn take_pending_ports(&mut self) -> S {
        std::mem::take(&mut self.pending_ports)
    }

    #[inline]
    fn stage(
        &mut self,
        now: Time,
        mut packet: P,
        ingress: QueueId,
        egress: QueueId,
        allocator: &mut impl PacketAllocator<P>,
        sink: &mut impl AdmittedSink<P>,
    ) {
        if !self.shared.accepts(egress.port(), egress.class()) {
            return self.refuse(now, &packet, ingress, egress, allocator);
        }
        if let Some(vlans) = &self.shared.vlans
            && !vlans.set_tag(ingress.port(), egress, &mut packet)
        {
            return self.drop_packet(now, &packet, ingress, egress.class(), DropReason::NoMemory, allocator);
        }
        if self.request.room() == 0 {
            self.flush(now, ingress.port(), allocator, sink);
        }
        let bytes = self.shared.charge_alone(ingress.class(), packet.frame_bytes());
        self.request.push(BufferRequest { ingress, egress, bytes }, packet.frame_bytes());
        self.staged.push(packet);
    }

    /// Drops a frame whose egress port is closed, or drops its class.
    #[cold]
    fn refuse(
        &mut self,
        now: Time,
        packet: &P,
        ingress: QueueId,
        egress: QueueId,
        allocator: &mut impl PacketAllocator<P>,
    ) {
        let state = self.shared.port(egress.port());
        if !state.is_open() {
            return self.drop_packet(now, packet, ingress, egress.class(), DropReason::PortDown, allocator);
        }
        if let Some(storms) = state.storms() {
            storms.count_refused(egress.class());
        }
        self.drop_packet(now, packet, ingress, egress.class(), DropReason::PfcWatchdog, allocator);
    }

    #[cold]
    #[inline(never)]
    fn drop_packet(
        &mut self,
        now: Time,
        packet: &P,
        ingress: QueueId,
        queue: Class,
        reason: DropReason,
        allocator: &mut impl PacketAllocator<P>,
    ) {
        if reason == DropReason::LinkLocal {
            self.remove_arrived(ingress, packet.frame_bytes());
            return self.take_or_drop(now, packet, ingress, queue, allocator);
        }
        allocator.on_drop(now, packet, ingress, Direction::Inbound, reason);
        self.count_drop(ingress, queue, reason);
    }

    /// Passes a frame to the control thread, or drops it if that takes none.
    fn take_or_drop(
        &mut self,
        now: Time,
        packet: &P,
        ingress: QueueId,
        queue: Class,
        allocator: &mut impl PacketAllocator<P>,
    ) {
        if allocator.take_lldp(ingress.port(), packet) {
            return self.counters.count_lldp(ingress, packet.frame_bytes());
        }
        allocator.on_drop(now, packet, ingress, Direction::Inbound, DropReason::LinkLocal);
        self.count_drop(ingress, queue, DropReason::LinkLocal);
    }

    /// Takes a link-local frame from the data received from the peer: the peer counts none against credit, as bridges forward none.
    fn remove_arrived(&mut self, ingress: QueueId, frame_bytes: u32) {
        if self.counts(ingress.port()) {
            let arrived = self.shared.port(ingress.port()).receive_accounting();
            self.arrived[ingress.class().index()] -= arrived.count_of(frame_bytes);
        }
    }

    fn count_drop(&mut self, ingress: QueueId, queue: Class, reason: DropReason) {
        count_inbound_drop(&self.shared, &mut self.counters, ingress, queue, reason);
    }

    /// Admits the staged frames, all of `port`, and hands over the admitted ones.
    #[inline]
    pub(crate) fn flush(
        &mut self,
        now: Time,
        port: PortId,
        allocator: &mut impl PacketAllocator<P>,
        sink: &mut impl AdmittedSink<P>,
    ) {
        if !self.staged.is_empty() {
            let mut staged = std::mem::take(&mut self.staged);
            self.admit(now, port, &mut staged, allocator, sink);
        }
        self.count_arrived(port);
    }

    /// Counts the data received from a port's peer. Call it after the admission, so that data counted as arrived is counted as held or
    /// dropped.
    #[inline]
    pub(crate) fn count_arrived(&mut self, port: PortId) {
        if self.counts(port) {
            self.count_arrived_of(port);
        }
    }

    #[inline(never)]
    fn count_arrived_of(&mut self, port: PortId) {
        let arrived = self.shared.port(port).receive_accounting();
        let counts = std::mem::take(&mut self.arrived);
        let classes = Class::ALL.into_iter().zip(counts).filter(|(_, count)| *count > 0);
        classes.for_each(|(class, count)| arrived.count(class, count));
    }

    /// Admits one packet; returns it if the MMU admits it.
    #[inline(always)]
    pub(crate) fn admit_one(
        &mut self,
        now: Time,
        packet: P,
        charged: BufferRequest,
        allocator: &mut impl PacketAllocator<P>,
    ) -> Option<QueuedPacket<P>> {
        let port = charged.ingress.port();
        let writer = self.writers[port.index()].as_mut().expect(FORWARDED_HERE);
        let state = self.shared.port(port);
        state.record_admitted(now);
        let (verdict, went_off) = self.shared.mmu.admit_either(writer, now, &charged, packet.is_unscheduled());
        if state.by_length || !went_off.is_empty() {
            self.pending_ports.insert(state.real_port);
        }
        match verdict {
            Admission::Admit(_) => {
                if !self.shared.port(port).in_storm().is_empty() {
                    count_admitted_in_storm(&self.shared, &charged);
                }
                self.counters.add(charged.ingress, queue_stat::HANDED_OVER, 1);
                Some(QueuedPacket::new(packet, charged))
            }
            Admission::Drop(reason) => {
                allocator.on_drop(now, &packet, charged.ingress, Direction::Inbound, reason);
                self.count_drop(charged.ingress, charged.egress.class(), reason);
                None
            }
        }
    }

    /// Admits packets of `port`, whose requests are in `self.request`. Hands over the admitted ones and leaves both empty.
    #[inline]
    pub(crate) fn admit(
        &mut self,
        now: Time,
        port: PortId,
        packets: &mut Burst<P>,
        allocator: &mut impl PacketAllocator<P>,
        sink: &mut impl AdmittedSink<P>,
    ) {
        debug_assert_eq!(packets.len(), self.request.len());
        let Forwarding { shared, counters, request, .. } = self;
        let writer = self.writers[port.index()].as_mut().expect(FORWARDED_HERE);
        let state = shared.port(port);
        state.record_admitted(now);
        let went_off = shared.mmu.admit_burst(writer, now, request);
        if state.by_length || !went_off.is_empty() {
            self.pending_ports.insert(state.real_port);
        }
        let has_storm = !shared.port(port).in_storm().is_empty();
        if request.is_admitted() && !has_storm {
            match request.ingress() {
                Some(ingress) => counters.add(ingress, queue_stat::HANDED_OVER, request.len() as u64),
                None => request.routes().iter().for_each(|route| {
                    counters.add(route.ingress, queue_stat::HANDED_OVER, u64::from(route.packets));
                }),
            }
            sink.take_all(now, packets, request);
        } else {
            self.hand_over_admitted(now, has_storm, packets, allocator, sink);
        }
        self.request.clear();
    }

    /// Hands over the admitted packets of a burst, and drops the rest. `has_storm`: a class of the port is in a storm.
    #[inline(never)]
    fn hand_over_admitted(
        &mut self,
        now: Time,
        has_storm: bool,
        packets: &mut Burst<P>,
        allocator: &mut impl PacketAllocator<P>,
        sink: &mut impl AdmittedSink<P>,
    ) {
        let Forwarding { shared, counters, request, .. } = self;
        let admitted =
            QueuedPacket::all(packets, request).enumerate().filter_map(|(n, queued)| match request.verdict(n) {
                Admission::Admit(_) => {
                    let ingress = queued.charged.ingress;
                    if has_storm {
                        count_admitted_in_storm(shared, &queued.charged);
                    }
                    counters.add(ingress, queue_stat::HANDED_OVER, 1);
                    Some(queued)
                }
                Admission::Drop(reason) => {
                    let (ingress, reason) = (queued.charged.ingress, reason);
                    allocator.on_drop(now, &queued.packet, ingress, Direction::Inbound, reason);
                    count_inbound_drop(shared, counters, ingress, queued.charged.egress.class(), reason);
                    None
                }
            });
        sink.take(now, admitted);
    }

    /// Answers a reader's request for counters. Call it between bursts.
    #[inline]
    pub(crate) fn serve(&mut self) {
        if let Some(request) = self.counters.requested() {
            self.counters.publish(request);
        }
    }

    /// Returns the live counters, for a caller that owns the whole switch.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Counts an arrived frame and its copies for the clones as dropped.
    pub(crate) fn count_discarded(&mut self, port: PortId, frame_bytes: u32, reason: DropReason) {
        for n in 0..=self.clones[port.index()].len() {
            let at = if n == 0 { port } else { self.clones[port.index()][n - 1] };
            let (ingress, _) = self.receive(at, None, frame_bytes);
            self.counters.count_drop(ingress, reason);
        }
    }

    pub(crate) fn published(&self) -> Arc<CounterSnapshot> {
        self.counters.published()
    }
}

/// Returns the flow's port of several by ECMP; if that is closed, the next open one.
#[inline]
fn ecmp_port(shared: &Shared, ports: &[PortId], flow_hash: u32) -> PortId {
    open_port(shared, ports, ecmp::choose(flow_hash, shared.hash_seed, ports.len()))
}

/// Counts a dropped frame, also in the storm counters if its queue is in a storm at the port that received it.
#[cold]
#[inline(never)]
fn count_inbound_drop(shared: &Shared, counters: &mut Counters, ingress: QueueId, queue: Class, reason: DropReason) {
    counters.count_drop(ingress, reason);
    let state = shared.port(ingress.port());
    if state.in_storm().contains(queue)
        && let Some(storms) = state.storms()
    {
        storms.count_dropped(queue);
    }
}

/// Counts an admitted frame in the storm counters, if its queue is in a storm at the port that received it.
#[cold]
fn count_admitted_in_storm(shared: &Shared, charged: &BufferRequest) {
    let (state, queue) = (shared.port(charged.ingress.port()), charged.egress.class());
    if state.in_storm().contains(queue)
        && let Some(storms) = state.storms()
    {
        storms.count_admitted(queue);
    }
}

const FORWARDED_HERE: &str = "a port that is forwarded here, and only here";
