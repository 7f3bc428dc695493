//! Marks and stamps of frames on lcores. Frames that come or leave together are marked by one length of their queue; up to K_min, that
//! costs one comparison. Stamped frames leave one by one.

use weir_flowctl::wire_bytes;
use weir_mmu::BurstRequest;
use weir_units::{ClassSet, PortId, QueueId, Time, bits};

use super::burst_output::BurstOutput;
use super::chunks::{ChunkCursor, ContiguousRun};
use crate::counters::queue_stat;
use crate::packet::{Burst, Packet};
use crate::transmission::Transmission;

impl<P: Packet> Transmission<P, BurstOutput<P>> {
    /// Marks the frames of an admitted burst by the lengths of their queues, which include the burst.
    #[inline(never)]
    pub(super) fn mark_arrivals(&mut self, packets: &mut Burst<P>, request: &BurstRequest) {
        for (route, members) in request.routes_with_packets() {
            if !self.arrival_marked.contains(route.egress.class()) {
                continue;
            }
            let Some(marks) = self.mark_decision(route.egress) else { continue };
            let marked = bits(members).filter(|n| marks(self.random.next()) && packets[*n].mark_ce()).count();
            self.counters.add(route.egress, queue_stat::EXTRA, marked as u64);
        }
    }

    /// Marks frames that leave their queue together, by its length with them.
    #[inline(never)]
    pub(super) fn mark_departures(&mut self, queue: QueueId, at: ChunkCursor, count: usize) {
        let Some(marks) = self.mark_decision(queue) else { return };
        let Transmission { queues, random, counters, .. } = self;
        let packets = queues.fifos().run(at, count).packets.iter_mut().flatten();
        let marked = packets.map(|packet| u64::from(marks(random.next()) && packet.mark_ce())).sum();
        counters.add(queue, queue_stat::EXTRA, marked);
    }

    /// Returns whether frames of these classes may be marked at their departure from a port.
    #[inline(never)]
    pub(super) fn may_mark_departures(&self, port: PortId, classes: ClassSet) -> bool {
        (classes & self.departure_marked).iter().any(|class| self.mark_decision(QueueId::new(port, class)).is_some())
    }

    /// Stamps a queue's first frame, which leaves now.
    #[inline(never)]
    pub(super) fn stamp_front(&mut self, now: Time, index: usize, queue: QueueId) {
        let Transmission { shared, queues, ports, random, link_overhead, .. } = self;
        let port = &mut ports[index];
        let (at, _) = queues.front(queue, 1);
        let ContiguousRun { packets: [Some(packet)], bytes: [charged], lengths: [frame_bytes], .. } =
            queues.fifos().run(at, 1)
        else {
            return;
        };
        let left = || shared.stamped_length(queue).saturating_sub(u64::from(*charged));
        port.stamp(now, packet, left, shared, random);
        port.record_for_digests(now, wire_bytes(*frame_bytes, *link_overhead), shared);
    }

    /// Returns the marking decision on a frame of a queue, given a random number; `None` if the queue is not longer than K_min.
    #[inline(always)]
    fn mark_decision(&self, queue: QueueId) -> Option<impl Fn(u32) -> bool + use<P>> {
        let marker = self.markers[queue.class().index()]?;
        let scale = self.ports[self.position_of[queue.port().index()]].ecn_scale;
        let length = self.shared.mmu.egress_length(queue);
        marker.may_mark_on(scale, length).then_some(move |random| marker.marks_on(scale, length, random))
    }
}
