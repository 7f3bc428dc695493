//! Bypass for frames that leave at the instant of their arrival: no frame waits before them, no limit holds them back, and no message is
//! due. Queues and buffer would end in the same state, so they are left unchanged.

use weir_mmu::BufferRequest;
use weir_units::{PortBitmap, Time};

use super::per_frame_output::PerFrameOutput;
use crate::counters::queue_stat;
use crate::packet::{Packet, PortOutput};
use crate::transmission::Transmission;

impl<P: Packet, S: PortBitmap> Transmission<P, PerFrameOutput<P, S>> {
    /// Returns whether a frame that arrives at `now`, when no port is due, would leave at once and leave the buffer in the same state. If
    /// so, the buffer's watermarks include it. `index` is the position of its egress port.
    #[inline(always)]
    fn may_bypass(&self, now: Time, index: usize, frame: &BufferRequest) -> bool {
        let port = &self.ports[index];
        let is_idle = port.backlog.is_empty() && port.own.is_none() && port.shaper.is_free(now);
        let is_free = port.limits.are_none() && port.credit_classes.is_empty() && !port.counts_sent;
        // A departure may make a message due at a port whose peer depends on it.
        let is_quiet = self.pending_ports.is_empty() && self.off_ports.is_empty() && self.by_length.is_empty();
        // The peer's messages were taken over on arrival; but the end of a pause by timeout is still to be recorded.
        let paused = || port.paused(now, &self.shared.port(port.id).regulator);
        debug_assert!(!port.paused.is_empty() || paused().is_empty(), "a peer's message that was not taken over");
        let is_open = port.paused.is_empty() || paused() == port.paused && !port.paused.contains(frame.egress.class());
        is_idle && is_free && is_quiet && is_open && self.shared.mmu.bypass_buffer(now, frame)
    }

    /// Sends a frame that arrives at `now`, when no port is due, if it may bypass. Otherwise, or if the port does not accept it, returns it
    /// for admission.
    #[inline]
    pub(super) fn bypass<D: PortOutput<P>>(
        &mut self,
        now: Time,
        mut packet: P,
        frame: BufferRequest,
        driver: &mut D,
    ) -> Option<P> {
        let (queue, class) = (frame.egress, frame.egress.class());
        let index = self.position_of[queue.port().index()];
        if !self.may_bypass(now, index, &frame) {
            return Some(packet);
        }
        let Transmission { shared, ports, counters, markers, random, stamps, link_overhead, .. } = self;
        let port = &mut ports[index];
        let frame_bytes = packet.frame_bytes();
        // The queue would hold this frame alone.
        let is_marked = match &markers[class.index()] {
            Some(marker) => marker.marks_on(port.ecn_scale, u64::from(frame.bytes), random.next()) && packet.mark_ce(),
            None => false,
        };
        if *stamps {
            port.stamp(now, &mut packet, || 0, shared, random);
        }
        if let Err(packet) = driver.transmit_one(port.id, packet) {
            return Some(packet);
        }
        let wire = port.put_on_wire(now, frame_bytes, *link_overhead);
        if *stamps {
            port.record_for_digests(now, wire, shared);
        }
        port.scheduler.next(class.alone(), |_| frame_bytes);
        port.scheduler.handle_empty(class);
        counters.add(queue, queue_stat::HANDED_OVER, 1);
        counters.add(queue, queue_stat::EXTRA, u64::from(is_marked));
        counters.add_frame(queue, frame_bytes);
        None
    }
}
