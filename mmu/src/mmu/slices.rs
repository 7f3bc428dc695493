//! Slices of the buffer, as in chips with several memories: each has an equal part of the shared segment and of the egress lossy pool,
//! for the packets that arrive at its ports. Neighbouring ports have the same slice.
//!
//! A slice is an [`Mmu`] of its pools. It shares ingress queues, ports and headroom with the MMU of the whole buffer, and its egress queues
//! hold the packets of its own ports. The MMU of the whole buffer has no packets in its pools, but their watermarks over all slices; its
//! egress queues hold the packets of all slices.

use std::mem;
use std::sync::Arc;

use arrayvec::ArrayVec;
use weir_units::{Alpha, ClassSet, PortId, Time};

use super::burst_request::{BURST_REQUEST_MAX, BurstRequest, RouteTotal};
use super::{Admission, BufferRelease, BufferRequest, Mmu};
use crate::policy::BufferPolicy;
use crate::pool::Pool;
use crate::single_writer::PortWriter;

impl Mmu {
    /// Divides an empty MMU into slices with one of these policies each, all equal to the MMU's own. An empty list changes nothing.
    ///
    /// # Panics
    /// If the policy depends on more than queue lengths and pools.
    pub fn in_slices(self, policies: Vec<Box<dyn BufferPolicy>>) -> Mmu {
        if policies.is_empty() {
            return self;
        }
        let (layout, xon, alpha) = (self.layout.slice(policies.len() as u32), self.xon.get(), self.lossy_alpha.get());
        let slices = policies.into_iter().map(|policy| Mmu::new(layout.clone(), policy, xon, alpha)).collect();
        self.with_slices(slices)
    }

    /// Adds slices to an MMU without, and shares its queues and ports with them.
    pub(super) fn with_slices(mut self, mut slices: Box<[Mmu]>) -> Mmu {
        if slices.is_empty() {
            return self;
        }
        let flags = &self.flags;
        let goes_beyond = flags.low_pass.is_some() || flags.port_xon_offset.is_some() || flags.lends_headroom;
        assert!(
            !goes_beyond && !flags.observes_packets && !self.policy.adapts_headroom(),
            "a policy of the whole buffer"
        );
        for slice in &mut slices {
            (slice.ingress, slice.ports) = (self.ingress.clone(), self.ports.clone());
            slice.headroom.clone_from(&self.headroom);
        }
        self.slices = slices;
        (self.flags.is_plain, self.flags.is_special, self.flags.may_bypass) = (false, true, false);
        self
    }

    /// Removes the slices, which then share nothing.
    pub(super) fn take_slices(&mut self) -> Box<[Mmu]> {
        let mut slices = mem::take(&mut self.slices);
        for slice in &mut slices {
            (slice.ingress, slice.ports, slice.headroom) = (Arc::default(), Arc::default(), None);
        }
        slices
    }

    #[inline]
    pub(super) fn has_slices(&self) -> bool {
        !self.slices.is_empty()
    }

    fn slice_number(&self, port: PortId) -> usize {
        port.index() * self.slices.len() / self.ports.len()
    }

    /// MMU that decides on packets which arrive at `port`.
    #[inline]
    pub(super) fn of_slice(&self, port: PortId) -> &Mmu {
        if self.has_slices() { &self.slices[self.slice_number(port)] } else { self }
    }

    #[inline(never)]
    pub(super) fn admit_burst_to_slice(
        &self,
        writer: &mut PortWriter,
        now: Time,
        burst: &mut BurstRequest,
    ) -> ClassSet {
        let went_off = self.of_slice(writer.port()).admit_burst(writer, now, burst);
        for (n, packet) in burst.packets().enumerate() {
            self.count_admitted(&packet, burst.verdict(n));
        }
        self.note_levels();
        went_off
    }

    #[inline(never)]
    pub(super) fn admit_to_slice(
        &self,
        writer: &mut PortWriter,
        now: Time,
        arrival: &BufferRequest,
        lossy_alpha: Alpha,
    ) -> (Admission, ClassSet) {
        let (verdict, went_off) = self.of_slice(writer.port()).admit_with_alpha(writer, now, arrival, lossy_alpha);
        self.count_admitted(arrival, verdict);
        self.note_levels();
        (verdict, went_off)
    }

    /// Updates the watermarks of the pools over all slices. Levels include reservations of other lcores for bursts.
    fn note_levels(&self) {
        self.shared.note_level(self.shared_used());
        if let Some(pool) = &self.egress_lossy {
            pool.note_level(self.egress_lossy_used());
        }
    }

    fn count_admitted(&self, packet: &BufferRequest, verdict: Admission) {
        if matches!(verdict, Admission::Admit(_)) {
            self.egress[packet.egress.index()].add(u64::from(packet.bytes));
        }
    }

    #[inline(never)]
    pub(super) fn release_routes_of_slices(&self, now: Time, routes: &[RouteTotal]) {
        for (number, slice) in self.slices.iter().enumerate() {
            let is_own = |route: &&RouteTotal| self.slice_number(route.ingress.port()) == number;
            let own: ArrayVec<RouteTotal, BURST_REQUEST_MAX> = routes.iter().filter(is_own).copied().collect();
            if !own.is_empty() {
                slice.release_routes(now, &own);
            }
        }
        for route in routes {
            self.egress[route.egress.index()].remove(u64::from(route.bytes));
        }
    }

    #[inline(never)]
    pub(super) fn release_of_slice(&self, now: Time, departure: &BufferRelease) {
        self.of_slice(departure.ingress.port()).release_one(now, departure);
        self.egress[departure.egress.index()].remove(u64::from(departure.bytes));
    }

    /// Shared segments of all slices.
    pub(super) fn shared_pools(&self) -> impl Iterator<Item = &Pool> {
        self.parts().map(|mmu| &*mmu.shared)
    }

    /// Egress lossy pools of all slices, in the four-pool model.
    pub(super) fn egress_lossy_pools(&self) -> impl Iterator<Item = &Pool> {
        self.parts().filter_map(|mmu| mmu.egress_lossy.as_deref())
    }

    /// MMUs whose pools have packets.
    fn parts(&self) -> impl Iterator<Item = &Mmu> {
        self.slices.iter().chain((!self.has_slices()).then_some(self))
    }
}
