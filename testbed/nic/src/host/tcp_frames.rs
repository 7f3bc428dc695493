//! Frames of TCP on a host: due acknowledgements, and the host's queue of TCP frames if it has one.

use std::net::Ipv4Addr;

use weir_units::{Class, ClassSet, Time};
use weir_wire::rocev2::{Ecn, QueuePair};

use super::Host;
use super::outgoing::{Outgoing, answer};
use super::packet::{NicFrame, NicPacket, PacketKind};

/// TCP frame in the host's queue.
#[derive(Clone, Debug)]
pub(super) struct QueuedTcpFrame {
    /// Class of the connection's data, in which the frame is scheduled.
    turn: Class,
    /// Class of the frame.
    class: Class,
    packet: NicPacket,
    own: QueuePair,
    peer: Ipv4Addr,
}

/// Number by which the queue of TCP frames is scheduled like a flow.
pub(super) const TCP_QUEUE: u32 = u32::MAX;

impl Host {
    /// Moves all segments that a TCP flow may send now to the host's queue.
    #[cold]
    pub(super) fn queue_segments(&mut self, now: Time, flow: usize) {
        while self.senders[flow].due() <= now
            && let Some((kind, frame_bytes, ecn)) = self.senders[flow].take(now, &self.config.sizes)
        {
            let (packet, class, own, peer) = self.packet_of(now, flow, kind, frame_bytes, ecn);
            self.queue_tcp(now, QueuedTcpFrame { turn: class, class, packet, own, peer });
        }
        self.watch(flow);
        // A segment that is due later is scheduled for then.
        let sender = &mut self.senders[flow];
        let due = sender.due();
        if due > now && due < Time::NEVER {
            sender.has_turn = true;
            self.schedule.add(now, flow as u32, sender.config().class, due);
        }
    }

    /// Moves due TCP acknowledgements to the host's queue.
    #[cold]
    pub(super) fn queue_tcp_acks(&mut self, now: Time) {
        while let Some((outgoing, class, turn)) = self.next_tcp_ack(ClassSet::EMPTY) {
            if let Outgoing { frame: NicFrame::Packet(packet), own, peer } = outgoing {
                self.queue_tcp(now, QueuedTcpFrame { turn, class, packet, own, peer });
            }
        }
    }

    fn queue_tcp(&mut self, now: Time, queued: QueuedTcpFrame) {
        if self.tcp_queue.is_empty() {
            self.schedule.add(now, TCP_QUEUE, queued.turn, now);
        }
        self.tcp_queue.push_back(queued);
    }

    /// Takes the first frame of the TCP queue.
    #[cold]
    pub(super) fn poll_tcp_queue(&mut self, now: Time) -> Option<Outgoing> {
        let QueuedTcpFrame { class, packet, own, peer, .. } = self.tcp_queue.pop_front()?;
        if let Some(next) = self.tcp_queue.front() {
            self.schedule.add(now, TCP_QUEUE, next.turn, now);
        }
        self.record_sent(now, class, u32::from(packet.frame_bytes));
        Some(Outgoing { frame: NicFrame::Packet(packet), own, peer })
    }

    /// Takes a TCP acknowledgement, in its own class or its flow's.
    #[inline]
    pub(super) fn poll_tcp_ack(&mut self, now: Time, held_back: ClassSet) -> Option<Outgoing> {
        while let Some((receiver, generation)) = self.tcp_acks.take_due(now) {
            if self.receivers.generation(receiver) != generation || !self.receivers.is_open(receiver) {
                continue;
            }
            let state = &mut self.receivers[receiver];
            let (class, _) = state.ack_point(&self.config);
            state.handle_delay_over(now, |ack| self.tcp_acks.push(class, receiver, ack));
            if let Some(at) = state.watch() {
                self.tcp_acks.wake(at, receiver, generation);
            }
        }
        if self.config.queues_tcp {
            self.queue_tcp_acks(now);
            return None;
        }
        let (outgoing, class, _) = self.next_tcp_ack(held_back)?;
        self.record_sent(now, class, outgoing.frame.frame_bytes());
        Some(outgoing)
    }

    /// Takes the next TCP acknowledgement of none of the `held_back` classes; returns it with its class and that of its
    /// data.
    #[inline]
    fn next_tcp_ack(&mut self, held_back: ClassSet) -> Option<(Outgoing, Class, Class)> {
        let (class, place, ack) = self.tcp_acks.next(held_back)?;
        let receiver = &mut self.receivers[place];
        receiver.queued -= 1;
        let ((_, dscp), frame_bytes) = (receiver.ack_point(&self.config), self.config.sizes.of_tcp_ack(&ack));
        // Acknowledgements are not ECN-capable (RFC 3168, 6.1.4).
        let mut outgoing = answer(&self.config, receiver, frame_bytes, Ecn::NotCapable, PacketKind::TcpAck(ack));
        if let NicFrame::Packet(packet) = &mut outgoing.frame {
            packet.dscp = dscp;
        }
        let of_data = receiver.class(&self.config);
        self.finish_close(place);
        Some((outgoing, class, of_data))
    }
}
