//! Class and queues of a frame seen at a port, for captures, which see frames at devices, where no queue is known.

use weir_mmu::QueueOccupancy;
use weir_units::{Class, PortId, QueueId, Time};
use weir_wire::ethernet::Parsed;

use super::Shared;
use crate::classify::FrameClass;
use crate::fdb::{Destination, FdbKey};
use crate::packet::{Direction, Packet};

/// Class and queues of a frame, derived from its headers and the forwarding table, with the queues' present occupancy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketContext {
    /// Number of the frame's ingress queue where it arrives, and of its egress queue where it leaves; `None` for MAC control frames and
    /// malformed ones.
    pub class: Option<Class>,
    /// Ingress queue and its occupancy.
    pub ingress: Option<(QueueId, QueueOccupancy)>,
    /// Egress queue and the bytes that wait there.
    pub egress: Option<(QueueId, u64)>,
    /// Occupancy of the shared segment, in bytes.
    pub shared_used: u64,
}

impl Shared {
    /// Returns the context of a frame that passes a port. A leaving frame has the class that the port of its source address gives it.
    pub fn packet_context<P: Packet>(&self, now: Time, at: PortId, direction: Direction, packet: &P) -> PacketContext {
        let shared_used = self.mmu.shared_used();
        let Parsed::Data(headers) = packet.parse() else {
            return PacketContext { shared_used, ..PacketContext::default() };
        };
        // A frame of a VLAN has the same tag both ways.
        let key = |address| match &self.vlans {
            None => Some(FdbKey::from(address)),
            Some(vlans) => Some(vlans.of_frame(at, packet.tag())?.key(address)),
        };
        let behind = |address| match self.fdb.lookup_number(key(address)?.to_u64(), now) {
            Some(Destination::Port(port)) => Some(port),
            Some(Destination::AnyOf(_)) | None => None,
        };
        let (from, to) = match direction {
            Direction::Inbound => (Some(at), behind(headers.destination).filter(|to| *to != at)),
            Direction::Outbound => (behind(packet.source()).filter(|from| *from != at), Some(at)),
        };
        let FrameClass { group, queue } = self.classifier.class(from.unwrap_or(at), &headers);
        let class = if direction == Direction::Inbound { group } else { queue };
        let (ingress, egress) = (from.map(|port| QueueId::new(port, group)), to.map(|port| QueueId::new(port, queue)));
        self.context(Some(class), ingress, egress)
    }

    /// Returns the context of a frame with a known queue: the ingress queue that it enters, or the egress queue that it left.
    pub fn packet_context_in_queue<P: Packet>(
        &self,
        now: Time,
        queue: QueueId,
        direction: Direction,
        packet: &P,
    ) -> PacketContext {
        let context = self.packet_context(now, queue.port(), direction, packet);
        let (ingress, egress) = match direction {
            Direction::Inbound => (Some(queue), context.egress.map(|(id, _)| id)),
            Direction::Outbound => (context.ingress.map(|(id, _)| id), Some(queue)),
        };
        self.context(Some(queue.class()), ingress, egress)
    }

    fn context(&self, class: Option<Class>, ingress: Option<QueueId>, egress: Option<QueueId>) -> PacketContext {
        PacketContext {
            class,
            ingress: ingress.map(|id| (id, self.mmu.queue_occupancy(id))),
            egress: egress.map(|id| (id, self.mmu.egress_length(id))),
            shared_used: self.mmu.shared_used(),
        }
    }
}
