//! Frames to send.

use std::net::Ipv4Addr;

use weir_wire::rocev2::{Ecn, QueuePair};

use super::config::HostConfig;
use super::packet::{NicFrame, NicPacket, PacketKind};
use super::receiver::Receiver;

/// Frame to send, with the addresses that its encoding needs.
pub(super) struct Outgoing {
    pub(super) frame: NicFrame,
    /// End of the connection on this host.
    pub(super) own: QueuePair,
    pub(super) peer: Ipv4Addr,
}

/// Returns a packet to the sender of a connection.
#[inline]
pub(super) fn answer(host: &HostConfig, receiver: &Receiver, frame_bytes: u16, ecn: Ecn, kind: PacketKind) -> Outgoing {
    let (own, peer) = (receiver.config().queue_pair, receiver.config().peer);
    let packet = NicPacket {
        destination: peer.mac,
        source: host.mac,
        flow_hash: receiver.flow_hash(),
        frame_bytes,
        dscp: host.ack_dscp,
        ecn,
        queue_pair: peer.queue_pair,
        kind,
        telemetry: None,
    };
    Outgoing { frame: NicFrame::Packet(packet), own, peer: peer.ip }
}
