//! Packets of hosts as RoCEv2 frames, their stamps in a [`trailer`], and back.

use std::net::Ipv4Addr;

use weir_units::Time;
use weir_wire::digest::Digest;
use weir_wire::flow_hash::udp_flow_hash;
use weir_wire::rocev2::{
    Operation, Packet, PacketPosition, QueuePair, ReadError, Repr, Reth, UDP_PORT, WriteError, source_port,
};
use weir_wire::trailer::{self, Trailer};

use super::packet::HOPS_MAX;
use super::packet::{Ack, Hops, NicPacket, PacketKind, RdmaOperation, Write};
use super::{HostConfig, Peer, RemoteMemory};

/// Returns the flow hash of a connection's frames toward `peer`.
pub(super) fn flow_hash(host: &HostConfig, own: QueuePair, peer: &Peer) -> u32 {
    udp_flow_hash([(host.mac, host.ip), (peer.mac, peer.ip)], [source_port(own, peer.queue_pair), UDP_PORT])
}

/// Destination fields of a frame that its packet lacks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Destination {
    pub(super) ip: Ipv4Addr,
    /// Remote memory of a WRITE.
    pub(super) memory: RemoteMemory,
}

/// Writes a packet from the connection's end `own`; returns the frame's length without FCS. The bytes by
/// which the packet is longer than a RoCEv2 frame are its trailer.
///
/// # Panics
/// Panics if the packet is TCP's.
pub(super) fn encode(
    packet: &NicPacket,
    own_ip: Ipv4Addr,
    own: QueuePair,
    to: Destination,
    payload: &[u8],
    buffer: &mut [u8],
) -> Result<usize, WriteError> {
    let (psn, operation, payload_bytes) = match &packet.kind {
        PacketKind::Write(write) => {
            let RemoteMemory { virtual_address, remote_key } = to.memory;
            let reth = Reth { virtual_address, remote_key, message_bytes: write.message_bytes };
            let Write { psn, is_first, is_last, ack_request, payload_bytes, .. } = *write;
            let part = match (is_first, is_last) {
                (true, true) => PacketPosition::Only(reth),
                (true, false) => PacketPosition::First(reth),
                (false, false) => PacketPosition::Middle,
                (false, true) => PacketPosition::Last,
            };
            let operation = match write.operation {
                RdmaOperation::Write => Operation::Write { position: part, ack_request },
                RdmaOperation::Send => Operation::Send { is_first, is_last, ack_request },
            };
            (psn, operation, usize::from(payload_bytes))
        }
        PacketKind::Ack(ack) => {
            (ack.psn, Operation::Acknowledge { syndrome: ack.syndrome, msn: ack.msn, becn: ack.is_marked }, 0)
        }
        PacketKind::Cnp => (Default::default(), Operation::CongestionNotification, 0),
        PacketKind::Segment(_) | PacketKind::TcpAck(_) => {
            panic!("TCP has no frames on a port: its flows run in virtual time only")
        }
    };
    let repr = Repr {
        destination: packet.destination,
        source: packet.source,
        destination_ip: to.ip,
        source_ip: own_ip,
        dscp: packet.dscp,
        ecn: packet.ecn,
        source_port: source_port(own, packet.queue_pair),
        queue_pair: packet.queue_pair,
        psn,
        operation,
    };
    let end = repr.write(&payload[..payload_bytes], buffer)?;
    let trailer = buffer.get_mut(end..usize::from(packet.frame_bytes)).unwrap_or_default();
    let hops = packet.telemetry.as_deref().map_or(&[][..], |hops| hops);
    match &packet.kind {
        PacketKind::Write(write) => trailer::write(trailer, write.sent_at, packet.telemetry.is_some(), hops),
        PacketKind::Ack(ack) => trailer::write(trailer, ack.echo, false, hops),
        _ => {}
    }
    Ok(end + trailer.len())
}

/// Decodes a frame with a valid checksum, and its trailer. `memory` provides a buffer if the frame has telemetry.
pub(super) fn decode(
    packet: &Packet<'_>,
    frame: &[u8],
    memory: impl FnOnce() -> Box<Hops>,
) -> Result<NicPacket, ReadError> {
    let repr = Repr::read(packet)?;
    let trailer = frame.get(packet.end()..).and_then(Trailer::read);
    let stamped_at = trailer.map_or(Time::NEVER, |trailer| trailer.sent_at());
    let kind = match repr.operation {
        Operation::Write { position: part, ack_request } => PacketKind::Write(Write {
            operation: RdmaOperation::Write,
            psn: repr.psn,
            message_bytes: if let PacketPosition::Only(reth) | PacketPosition::First(reth) = part {
                reth.message_bytes
            } else {
                0
            },
            payload_bytes: packet.payload().len() as u16,
            is_first: matches!(part, PacketPosition::Only(_) | PacketPosition::First(_)),
            is_last: matches!(part, PacketPosition::Only(_) | PacketPosition::Last),
            ack_request,
            sent_at: stamped_at,
            digest: Digest::NONE,
        }),
        Operation::Send { is_first, is_last, ack_request } => PacketKind::Write(Write {
            operation: RdmaOperation::Send,
            psn: repr.psn,
            message_bytes: 0,
            payload_bytes: packet.payload().len() as u16,
            is_first,
            is_last,
            ack_request,
            sent_at: stamped_at,
            digest: Digest::NONE,
        }),
        Operation::Acknowledge { syndrome, msn, becn } => PacketKind::Ack(Ack {
            psn: repr.psn,
            ahead: 0,
            msn,
            syndrome,
            is_marked: becn,
            echo: stamped_at,
            digest: Digest::NONE,
        }),
        Operation::CongestionNotification => PacketKind::Cnp,
    };
    Ok(NicPacket {
        destination: repr.destination,
        source: repr.source,
        flow_hash: udp_flow_hash(
            [(repr.source, repr.source_ip), (repr.destination, repr.destination_ip)],
            [repr.source_port, UDP_PORT],
        ),
        frame_bytes: frame.len() as u16,
        dscp: repr.dscp,
        ecn: repr.ecn,
        queue_pair: repr.queue_pair,
        kind,
        telemetry: trailer.filter(|trailer| trailer.hops().len() > 0).map(|trailer| {
            let mut hops = memory();
            hops.clear();
            hops.extend(trailer.hops().take(HOPS_MAX));
            hops
        }),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_units::{BitRate, Bytes, Class, MacAddr};
    use weir_wire::trailer::Telemetry;

    use super::super::{FlowConfig, FrameSizes, TelemetryMode};
    use super::*;
    use weir_wire::rocev2::{Dscp, Ecn, NakCode, Psn, Syndrome};

    const SIZES: FrameSizes = FrameSizes::rocev2(1_024);

    fn any_stamps() -> impl Strategy<Value = (TelemetryMode, Time, Option<Box<Hops>>)> {
        let hop =
            (0..1u64 << 40, 0..1u64 << 40, 0..1u64 << 24, 1..1u64 << 24).prop_map(|(ns, tx_bytes, queue, mbps)| {
                Telemetry { at: Time::from_nanos(ns), tx_bytes, queue: Bytes::new(queue), rate: BitRate::mbps(mbps) }
            });
        let hops = prop::collection::vec(hop, 1..6).prop_map(|hops| Box::new(hops.into_iter().collect::<Hops>()));
        let instant = || (0..1u64 << 50).prop_map(Time::from_nanos);
        prop_oneof![
            Just((TelemetryMode::None, Time::NEVER, None)),
            instant().prop_map(|at| (TelemetryMode::Time, at, None)),
            (instant(), prop::option::of(hops)).prop_map(|(at, hops)| (TelemetryMode::Hops, at, hops)),
        ]
    }

    /// Packets of every kind, with the lengths that hosts give them.
    fn any_packet() -> impl Strategy<Value = NicPacket> {
        let flags = (any::<bool>(), any::<bool>(), any::<bool>());
        let numbers = (0..1u32 << 24, 0..1u32 << 24, 1..1u32 << 31, 1..257u16);
        (flags, numbers, 0..3u8, any_stamps()).prop_map(
            |((first, last, flag), (psn, msn, message_bytes, blocks), kind, (stamps, at, hops))| {
                let psn = Psn::new(psn);
                let (kind, frame_bytes, telemetry) = match kind {
                    0 => {
                        let operation = if msn % 2 == 0 { RdmaOperation::Write } else { RdmaOperation::Send };
                        let write = Write {
                            operation,
                            psn,
                            message_bytes: if first && operation == RdmaOperation::Write { message_bytes } else { 0 },
                            payload_bytes: blocks * 4 - u16::from(last),
                            is_first: first,
                            is_last: last,
                            ack_request: flag,
                            sent_at: at,
                            digest: Digest::NONE,
                        };
                        let sizes = SIZES.with_telemetry(stamps);
                        (PacketKind::Write(write), sizes.of_write(operation, write.payload_bytes, first), hops)
                    }
                    1 => {
                        let syndrome = match (first, flag) {
                            (false, _) => Syndrome::ACK,
                            (true, false) => Syndrome::SequenceError,
                            (true, true) if last => Syndrome::RnrNak { timer: (msn % 32) as u8 },
                            (true, true) => Syndrome::Nak(NakCode::ALL[msn as usize % 4]),
                        };
                        let (is_marked, echo, digest) = (last, at, Digest::NONE);
                        let ack = Ack { psn, ahead: 0, msn, syndrome, is_marked, echo, digest };
                        (PacketKind::Ack(ack), SIZES.with_telemetry(stamps).ack, hops)
                    }
                    _ => (PacketKind::Cnp, SIZES.cnp, None),
                };
                let packet = packet(kind, frame_bytes);
                NicPacket { telemetry, ..packet }
            },
        )
    }

    fn host(n: u8) -> HostConfig {
        HostConfig::new(MacAddr([2, 0, 0, 0, 0, n]), Ipv4Addr::new(10, 0, 0, n), BitRate::gbps(10))
    }

    const OWN: QueuePair = QueuePair::new(0x11);
    const PEER: QueuePair = QueuePair::new(0x22);

    fn packet(kind: PacketKind, frame_bytes: u16) -> NicPacket {
        let flow = FlowConfig::new(OWN, host(2).peer(PEER), Class::new(3), Dscp::new(26));
        NicPacket {
            destination: host(2).mac,
            source: host(1).mac,
            flow_hash: flow_hash(&host(1), OWN, &flow.peer),
            frame_bytes,
            dscp: Dscp::new(26),
            ecn: Ecn::Ect0,
            queue_pair: PEER,
            kind,
            telemetry: None,
        }
    }

    fn written(packet: &NicPacket) -> Vec<u8> {
        let mut buffer = vec![0xaa; 2_000];
        let to = Destination { ip: host(2).ip, memory: RemoteMemory::EMULATED };
        let length = encode(packet, host(1).ip, OWN, to, &[7; 1_024], &mut buffer).unwrap();
        buffer.truncate(length);
        buffer
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(packet in any_packet()) {
            let frame = written(&packet);
            prop_assert_eq!(frame.len(), usize::from(packet.frame_bytes));
            let view = Packet::new(&frame).unwrap();
            prop_assert!(view.icrc_holds());
            prop_assert_eq!(decode(&view, &frame, Box::default), Ok(packet));
        }
    }

    #[test]
    fn an_acknowledgement_under_hpcc_byte_by_byte() {
        let syndrome = Syndrome::ACK;
        let ack = Ack {
            psn: Psn::new(5),
            ahead: 0,
            msn: 1,
            syndrome,
            is_marked: true,
            echo: Time::from_nanos(0x1234),
            digest: Digest::NONE,
        };
        let hop = Telemetry {
            at: Time::from_nanos(0x99),
            tx_bytes: 0x1_0000,
            queue: Bytes::new(0x2233),
            rate: BitRate::gbps(25),
        };
        let hops = Some(Box::new([hop].into_iter().collect::<Hops>()));
        let frame = written(&NicPacket { telemetry: hops, ..packet(PacketKind::Ack(ack), 62 + 96) });
        assert_eq!((frame.len(), frame[46]), (158, 0x40));
        assert_eq!(frame[62..78], [b'W', b'I', b'N', b'T', 1, 1, 5, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34]);
        assert_eq!(frame[78..94], [0, 0, 0, 0, 0x99, 0, 0, 1, 0, 0, 0, 0x22, 0x33, 0, 0x61, 0xa8]);
        assert_eq!(frame[94..], [0; 64]);
        // The IP packet excludes the trailer.
        assert_eq!(frame[16..18], [0, 48]);
    }

    const HOP_LEFT: Telemetry =
        Telemetry { at: Time::from_nanos(9), tx_bytes: 9, queue: Bytes::new(9), rate: BitRate::gbps(9) };

    /// Memory of returned stamps is reused for the next packet that carries stamps.
    #[test]
    fn memory_for_stamps_is_used_again() {
        let syndrome = Syndrome::ACK;
        let psn = Psn::new(5);
        let ack = Ack { psn, ahead: 0, msn: 1, syndrome, is_marked: false, echo: Time::ZERO, digest: Digest::NONE };
        let hop = Telemetry { at: Time::ZERO, tx_bytes: 0, queue: Bytes::ZERO, rate: BitRate::gbps(25) };
        let hops = Some(Box::new([hop].into_iter().collect::<Hops>()));
        let frame = written(&NicPacket { telemetry: hops, ..packet(PacketKind::Ack(ack), 62 + 96) });
        let read =
            |frame: &[u8], memory: fn() -> Box<Hops>| decode(&Packet::new(frame).unwrap(), frame, memory).unwrap();
        let used = read(&frame, || Box::new([HOP_LEFT; 3].into_iter().collect()));
        assert_eq!(used.telemetry.unwrap().as_slice(), [hop]);
        let bare = written(&packet(PacketKind::Ack(ack), 62));
        assert_eq!(read(&bare, || panic!("nothing was stamped")).telemetry, None);
    }
}
