//! Choice and sending of frames that bypass the queues of their ports.

use std::mem;

use weir_flowctl::TxRegulator;
use weir_mmu::{BufferRequest, BurstRequest, RouteTotal};
use weir_units::{Bytes, ClassSet, PortId, QueueId, Span, Time, bits};

use super::{NOT_TAKEN, QueueBypass};
use crate::burst::burst_output::{BurstOutput, BurstPort, WaitReason};
use crate::burst::handoff::OVERFULL;
use crate::counters::queue_stat;
use crate::packet::{BURST_MAX, Burst, Packet, PortOutput, QueuedPacket};
use crate::transmission::{PortTransmitter, Transmission, TransmitMode, ingress_ports_among};

impl<P: Packet> Transmission<P, BurstOutput<P>> {
    /// Lets packets of a burst that was admitted without exception, all to one port, bypass the port's queues, if all of them may; returns
    /// whether they do.
    #[inline(always)]
    pub(in crate::burst) fn try_bypass(&mut self, to: PortId, packets: &mut Burst<P>, request: &BurstRequest) -> bool {
        let classes =
            request.routes().iter().fold(ClassSet::EMPTY, |classes, route| classes | route.egress.class().alone());
        let port = &mut self.ports[self.position_of[to.index()]];
        let may = !self.stamps && port.may_bypass(classes, packets.len());
        if may {
            port.backlog |= classes;
            port.own.bypass.record(classes, request.each_charged());
            port.own.bypass.put_all(packets, request);
        }
        may
    }

    /// Passes on the packets of a burst that was admitted without exception, to several ports: those of each route past the queues of their
    /// port, if all of them may bypass these, or else into their queue.
    #[inline(never)]
    pub(in crate::burst) fn pass_by_route(&mut self, packets: &mut Burst<P>, request: &BurstRequest) {
        let Transmission { queues, ports, counters, position_of, pending_ports, mode, .. } = self;
        // All places are taken below, so there is nothing to drop.
        let from = &mut *mode.picked;
        from.iter_mut().zip(packets.drain(..)).for_each(|(place, packet)| mem::forget(place.replace(packet)));
        for (route, members) in request.routes_with_packets() {
            let RouteTotal { ingress, egress, packets, .. } = *route;
            counters.add(egress, queue_stat::HANDED_OVER, u64::from(packets));
            let port = &mut ports[position_of[egress.port().index()]];
            if port.may_bypass(egress.class().alone(), packets as usize) {
                port.backlog.insert(egress.class());
                port.own.bypass.record(egress.class().alone(), request.each_charged());
                port.own.bypass.put(route, members, from, request.bytes());
                continue;
            }
            BurstOutput::flush_bypass(&mut port.own, queues);
            if !port.backlog.contains(egress.class()) {
                port.backlog.insert(egress.class());
                pending_ports.insert(egress.port());
            }
            for n in bits(members) {
                let packet = from[n].take().expect(NOT_TAKEN);
                let charged = BufferRequest { ingress, egress, bytes: request.bytes()[n] };
                assert!(queues.push(QueuedPacket::new(packet, charged)).is_ok(), "{OVERFULL}");
            }
        }
        debug_assert!(from.iter().all(Option::is_none), "each packet has a route");
    }

    /// Sends the port's bypassing frames if the wire, limits and credit let all of them leave now, unmarked; returns the number sent. `None`
    /// if any has to wait or may be marked: all then go into the queues.
    #[inline(always)]
    pub(in crate::burst) fn send_bypass<D: PortOutput<P>>(
        &mut self,
        now: Time,
        index: usize,
        held: ClassSet,
        missed: Span,
        driver: &mut D,
    ) -> Option<usize> {
        let port = &self.ports[index];
        if !(port.own.bypass.classes & self.departure_marked).is_empty()
            && self.may_mark_departures(port.id, port.own.bypass.classes)
        {
            return None;
        }
        let Transmission { shared, ports, counters, mode, link_overhead, .. } = self;
        let port = &mut ports[index];
        let (id, regulator) = (port.id, &shared.port(port.id).regulator);
        if !port.put_bypass_on_wire(now, held, *link_overhead, regulator) {
            return None;
        }
        let BurstPort { bypass, staged, .. } = &mut port.own;
        port.backlog -= bypass.classes;
        let sent = driver.transmit_runs(id, &mut &mut bypass.packets[..bypass.len]);
        let are_all = sent == bypass.len;
        if !are_all {
            bypass.stage_rest(sent, staged.get_or_insert_with(|| mode.take_spare()));
        }
        match bypass.classes.only() {
            Some(class) if are_all => {
                counters.add_frames(QueueId::new(id, class), sent as u64, u64::from(bypass.frame_bytes));
            }
            _ => bypass.routes.iter().for_each(|RouteTotal { egress, packets, frame_bytes, .. }| {
                counters.add_frames(*egress, u64::from(*packets), u64::from(*frame_bytes));
            }),
        }
        let candidates = self.off_ports | self.by_length;
        self.pending_ports |= ingress_ports_among(shared, candidates, bypass.routes.iter().map(|route| route.ingress));
        bypass.release(now, &shared.mmu, candidates.is_empty().then_some(&mut mode.pending_bytes));
        bypass.clear();
        if are_all && missed == Span::ZERO {
            port.own.wait_reason = WaitReason::Nothing;
            port.own.open = ClassSet::EMPTY;
        } else {
            self.record_waiting(now, index, held, missed, sent);
        }
        Some(sent)
    }
}

impl<P: Packet> PortTransmitter<BurstPort<P>> {
    /// Returns whether packets of a burst may bypass the port's queues, behind other bypassing ones.
    #[inline(always)]
    fn may_bypass(&self, classes: ClassSet, packets: usize) -> bool {
        let own = &self.own;
        let finds_none = !own.bypass.is_empty()
            || self.backlog.is_empty() && own.staged.is_none() && !own.is_multi_queue && own.bypass.backoff == 0;
        finds_none && own.bypass.len + packets <= BURST_MAX && self.may_mix(own.bypass.classes | classes)
    }

    /// Returns whether frames of these classes may leave in order of arrival.
    #[inline(always)]
    fn may_mix(&self, classes: ClassSet) -> bool {
        let may = if classes.only().is_some() { ClassSet::ALL } else { self.plain - self.scheduler.strict() };
        ((classes - may) | (classes & self.paused)).is_empty()
    }

    /// Counts down the rounds without bypass.
    #[inline(always)]
    pub(in crate::burst) fn count_down_backoff(&mut self) {
        self.own.bypass.backoff = self.own.bypass.backoff.saturating_sub(1);
    }

    /// Puts the bypassing frames on the wire, if it would be free at `now` even behind all of them, and nothing else holds a frame back.
    /// Otherwise nothing is changed. Returns whether it did.
    #[inline(always)]
    fn put_bypass_on_wire(&mut self, now: Time, held: ClassSet, link_overhead: Bytes, regulator: &TxRegulator) -> bool {
        let QueueBypass { classes, frame_bytes, len, .. } = *self.own.bypass;
        // The classes' configuration may have changed since.
        if !(classes & held).is_empty() || !self.may_mix(classes) {
            return false;
        }
        let wire = Bytes::new(u64::from(frame_bytes) + link_overhead.get() * len as u64);
        let (mut shaper, mut peak) = (self.shaper.clone(), self.own.peak.clone());
        shaper.send(now, wire);
        peak.send(wire);
        if !shaper.is_free(now) || !peak.is_free(now) {
            return false;
        }
        if !(classes - self.plain).is_empty() && !self.count_limited(now, wire, regulator) {
            return false;
        }
        (self.shaper, self.own.peak) = (shaper, peak);
        self.count_wire(wire);
        true
    }

    /// Counts the bypassing frames, of one class, against its rate and its credit, if both let all of them leave.
    #[inline(never)]
    fn count_limited(&mut self, now: Time, wire: Bytes, regulator: &TxRegulator) -> bool {
        let bypass = &self.own.bypass;
        let Some(class) = bypass.classes.only() else { return false };
        let mut lengths = [0; BURST_MAX];
        // Only credit needs the length of each frame.
        let lengths = if self.counts_sent || self.credit_classes.contains(class) {
            bypass.lengths(&mut lengths)
        } else {
            &[][..]
        };
        if !self.limits.waiting(now, class.alone()).is_empty()
            || !regulator.has_credit_for(class, lengths, bypass.frame_bytes)
            || !self.limits.send_all(now, class, wire)
        {
            return false;
        }
        if self.counts_sent {
            regulator.handle_all_sent(class, lengths);
        }
        true
    }
}
