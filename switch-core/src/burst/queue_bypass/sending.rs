//! Choice and sending of frames that bypass the queues of their ports.

use std::mem;

use arrayvec::ArrayVec;
use weir_flowctl::TxRegulator;
use weir_mmu::{BurstRequest, RouteTotal};
use weir_units::{Bytes, ClassSet, PortSet, Span, Time};

use super::{PortDemand, QueueBypass};
use crate::burst::burst_output::{BurstOutput, BurstPort, WaitReason};
use crate::packet::{BURST_MAX, Burst, Packet, PortOutput};
use crate::transmission::{PortTransmitter, Transmission, ingress_ports_among};

impl<P: Packet> Transmission<P, BurstOutput<P>> {
    /// Lets packets of a burst that was admitted without exception bypass the queues of their ports, if all of them may; returns whether
    /// they do.
    #[inline(always)]
    pub(in crate::burst) fn try_bypass(&mut self, packets: &mut Burst<P>, request: &BurstRequest) -> bool {
        if self.stamps {
            return false;
        }
        let Some(first) = request.routes().first() else { return true };
        let to = first.egress.port();
        let (mut classes, mut frame_bytes, mut differ) = (ClassSet::EMPTY, 0, false);
        for route in request.routes() {
            classes.insert(route.egress.class());
            frame_bytes += route.frame_bytes;
            differ |= route.egress.port() != to;
        }
        if differ {
            return self.try_bypass_to_several(packets, request);
        }
        let index = self.position_of[to.index()];
        let port = &mut self.ports[index];
        let demand = PortDemand { index, classes, packets: packets.len(), frame_bytes };
        let may = port.may_bypass(&demand);
        if may {
            port.backlog |= classes;
            port.own.bypass.record(&demand, request.each_charged());
            port.own.bypass.put_all(packets, request);
        }
        may
    }

    /// [`Transmission::try_bypass`] of packets to several ports.
    #[inline(never)]
    fn try_bypass_to_several(&mut self, packets: &mut Burst<P>, request: &BurstRequest) -> bool {
        let mut ports: ArrayVec<PortDemand, BURST_MAX> = ArrayVec::new();
        // Index of each port's demand; for a port without one, that of another's.
        let mut demand_of = [0; PortSet::PORTS_MAX];
        for RouteTotal { egress, packets, frame_bytes, .. } in request.routes() {
            let index = self.position_of[egress.port().index()];
            let (classes, packets, frame_bytes) = (egress.class().alone(), *packets as usize, *frame_bytes);
            match ports.get_mut(usize::from(demand_of[index])) {
                Some(port) if port.index == index => {
                    port.classes |= classes;
                    port.packets += packets;
                    port.frame_bytes += frame_bytes;
                }
                _ => {
                    demand_of[index] = ports.len() as u8;
                    ports.push(PortDemand { index, classes, packets, frame_bytes });
                }
            }
        }
        if !ports.iter().all(|demand| self.ports[demand.index].may_bypass(demand)) {
            return false;
        }
        for demand in &ports {
            let port = &mut self.ports[demand.index];
            port.backlog |= demand.classes;
            port.own.bypass.record(demand, request.each_charged());
        }
        // All places are taken below, so there is nothing to drop.
        let from = &mut *self.mode.picked;
        from.iter_mut().zip(packets.drain(..)).for_each(|(place, packet)| mem::forget(place.replace(packet)));
        for (route, members) in request.routes_with_packets() {
            let index = self.position_of[route.egress.port().index()];
            self.ports[index].own.bypass.put(route, members, from, request.bytes());
        }
        debug_assert!(from.iter().all(Option::is_none), "each packet has a route");
        true
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
        for RouteTotal { egress, packets, frame_bytes, .. } in &bypass.routes {
            counters.add_frames(*egress, u64::from(*packets), u64::from(*frame_bytes));
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
    fn may_bypass(&self, demand: &PortDemand) -> bool {
        let PortDemand { classes, packets, .. } = *demand;
        let own = &self.own;
        let finds_none = !own.bypass.is_empty()
            || self.backlog.is_empty() && own.staged.is_none() && !own.is_multi_queue && own.bypass.backoff == 0;
        finds_none && own.bypass.has_room(packets) && self.may_mix(own.bypass.classes | classes)
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
