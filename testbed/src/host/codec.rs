//! Packets of hosts as RoCEv2 frames, and back.

use std::net::Ipv4Addr;

use weir_switch_core::parse::udp_flow_hash;

use super::packet::{Ack, NicPacket, Says, Write};
use super::{HostConfig, Peer};
use crate::rocev2::{
    Operation, Packet, Part, QueuePair, ReadError, Repr, Reth, Syndrome, UDP_PORT, WriteError, source_port,
};
use weir_units::Time;

/// Where the peer's memory begins, and the key to it: nobody reads them, but an RETH must name them.
const VIRTUAL_ADDRESS: u64 = 0x1_0000_0000;
const REMOTE_KEY: u32 = 0x1000;

/// The hash of a connection's frames toward `peer`.
pub(super) fn flow_hash(host: &HostConfig, own: QueuePair, peer: &Peer) -> u32 {
    udp_flow_hash([(host.mac, host.ip), (peer.mac, peer.ip)], [source_port(own, peer.queue_pair), UDP_PORT])
}

/// Writes a packet that goes to `peer_ip` from the connection's end `own`; returns the frame's length without FCS.
///
/// # Panics
/// If it is TCP's.
pub(super) fn encode(
    packet: &NicPacket,
    (own_ip, own): (Ipv4Addr, QueuePair),
    peer_ip: Ipv4Addr,
    payload: &[u8],
    buffer: &mut [u8],
) -> Result<usize, WriteError> {
    let (psn, operation, payload_bytes) = match &packet.says {
        Says::Write(write) => {
            let reth =
                Reth { virtual_address: VIRTUAL_ADDRESS, remote_key: REMOTE_KEY, message_bytes: write.message_bytes };
            let part = match (write.is_first, write.is_last) {
                (true, true) => Part::Only(reth),
                (true, false) => Part::First(reth),
                (false, false) => Part::Middle,
                (false, true) => Part::Last,
            };
            (write.psn, Operation::Write { part, ack_request: write.ack_request }, usize::from(write.payload_bytes))
        }
        Says::Ack(ack) => {
            let syndrome = if ack.is_negative { Syndrome::SequenceError } else { Syndrome::ACK };
            (ack.psn, Operation::Acknowledge { syndrome, msn: ack.msn }, 0)
        }
        Says::Cnp => (Default::default(), Operation::CongestionNotification, 0),
        Says::Segment(_) | Says::TcpAck(_) => panic!("TCP has no frames on a port: its flows run in virtual time only"),
    };
    let repr = Repr {
        destination: packet.destination,
        source: packet.source,
        destination_ip: peer_ip,
        source_ip: own_ip,
        dscp: packet.dscp,
        ecn: packet.ecn,
        source_port: source_port(own, packet.queue_pair),
        queue_pair: packet.queue_pair,
        psn,
        operation,
    };
    repr.write(&payload[..payload_bytes], buffer)
}

/// Reads a frame whose checksum holds.
pub(super) fn decode(frame: &Packet<'_>, frame_bytes: usize) -> Result<NicPacket, ReadError> {
    let repr = Repr::read(frame)?;
    let says = match repr.operation {
        Operation::Write { part, ack_request } => Says::Write(Write {
            psn: repr.psn,
            message_bytes: if let Part::Only(reth) | Part::First(reth) = part { reth.message_bytes } else { 0 },
            payload_bytes: frame.payload().len() as u16,
            is_first: matches!(part, Part::Only(_) | Part::First(_)),
            is_last: matches!(part, Part::Only(_) | Part::Last),
            ack_request,
            sent_at: Time::NEVER,
        }),
        Operation::Acknowledge { syndrome, msn } => Says::Ack(Ack {
            psn: repr.psn,
            msn,
            is_negative: syndrome == Syndrome::SequenceError,
            is_marked: false,
            echo: Time::NEVER,
        }),
        Operation::CongestionNotification => Says::Cnp,
    };
    Ok(NicPacket {
        destination: repr.destination,
        source: repr.source,
        flow_hash: udp_flow_hash(
            [(repr.source, repr.source_ip), (repr.destination, repr.destination_ip)],
            [repr.source_port, UDP_PORT],
        ),
        frame_bytes: frame_bytes as u16,
        dscp: repr.dscp,
        ecn: repr.ecn,
        queue_pair: repr.queue_pair,
        says,
        telemetry: None,
    })
}
