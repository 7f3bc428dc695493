//! Class and queues of a frame seen at a port, for captures, which see frames at devices, where no queue is known.

use weir_mmu::QueueLevels;
use weir_units::{Class, PortId, QueueId, Time};
use weir_wire::ethernet::Parsed;

use super::Shared;
use crate::fdb::Destination;
use crate::packet::{Direction, Packet};

/// Class and queues of a frame, derived from its headers and the forwarding table, with the queues' present occupancy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sighting {
    /// Class of the frame; `None` for MAC control frames and malformed ones.
    pub class: Option<Class>,
    /// Ingress queue and its occupancy.
    pub ingress: Option<(QueueId, QueueLevels)>,
    /// Egress queue and the bytes that wait there.
    pub egress: Option<(QueueId, u64)>,
    /// Occupancy of the shared segment, in bytes.
    pub shared_used: u64,
}

impl Shared {
    /// Returns the context of a frame that passes a port. A leaving frame has the class that the port of its source address gives it.
    pub fn sight<P: Packet>(&self, now: Time, at: PortId, direction: Direction, packet: &P) -> Sighting {
        let shared_used = self.mmu.shared_used();
        let Parsed::Data(headers) = packet.parse() else { return Sighting { shared_used, ..Sighting::default() } };
        let behind = |address| match self.fdb.lookup(address, now) {
            Some(Destination::Port(port)) => Some(port),
            Some(Destination::AnyOf(_)) | None => None,
        };
        let (from, to) = match direction {
            Direction::Inbound => (Some(at), behind(headers.destination).filter(|to| *to != at)),
            Direction::Outbound => (behind(packet.source()).filter(|from| *from != at), Some(at)),
        };
        let class = self.classifier.class(from.unwrap_or(at), &headers);
        let queue = |port| QueueId::new(port, class);
        self.sighting(Some(class), from.map(queue), to.map(queue))
    }

    /// Returns the context of a frame with a known queue: the ingress queue to enter (inbound), or the egress queue that it waited in (outbound).
    pub fn sight_in<P: Packet>(&self, now: Time, queue: QueueId, direction: Direction, packet: &P) -> Sighting {
        let seen = self.sight(now, queue.port(), direction, packet);
        let with_class = |port: PortId| QueueId::new(port, queue.class());
        let (ingress, egress) = (seen.ingress.map(|(id, _)| id.port()), seen.egress.map(|(id, _)| id.port()));
        let (ingress, egress) = match direction {
            Direction::Inbound => (Some(queue.port()), egress),
            Direction::Outbound => (ingress, Some(queue.port())),
        };
        self.sighting(Some(queue.class()), ingress.map(with_class), egress.map(with_class))
    }

    fn sighting(&self, class: Option<Class>, ingress: Option<QueueId>, egress: Option<QueueId>) -> Sighting {
        Sighting {
            class,
            ingress: ingress.map(|id| (id, self.mmu.queue_levels(id))),
            egress: egress.map(|id| (id, self.mmu.egress_length(id))),
            shared_used: self.mmu.shared_used(),
        }
    }
}
