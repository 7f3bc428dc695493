use std::net::Ipv4Addr;

use proptest::prelude::*;
use weir_units::MacAddr;

use super::*;

fn repr(operation: Operation) -> Repr {
    Repr {
        destination: MacAddr([2, 0, 0, 0, 0, 2]),
        source: MacAddr([2, 0, 0, 0, 0, 1]),
        destination_ip: Ipv4Addr::new(10, 0, 0, 2),
        source_ip: Ipv4Addr::new(10, 0, 0, 1),
        dscp: Dscp::new(3),
        ecn: Ecn::Ect0,
        source_port: 0xc123,
        queue_pair: QueuePair::new(0x11_2233),
        psn: Psn::new(0x44_5566),
        operation,
    }
}

fn written(repr: &Repr, payload: &[u8]) -> Vec<u8> {
    let mut buffer = vec![0xaa; 5_000];
    let length = repr.write(payload, &mut buffer).unwrap();
    buffer.truncate(length);
    buffer
}

const RETH: Reth = Reth { virtual_address: 0x1122_3344_5566_7788, remote_key: 0x99aa_bbcc, message_bytes: 5 };

#[test]
fn a_write_only_frame_byte_by_byte() {
    let frame =
        written(&repr(Operation::Write { position: PacketPosition::Only(RETH), ack_request: true }), &[1, 2, 3, 4, 5]);
    assert_eq!(frame.len(), 14 + 20 + 8 + 12 + 16 + 8 + 4);
    assert_eq!(frame[12..24], [0x08, 0x00, 0x45, 3 << 2 | 2, 0, 68, 0, 0, 0x40, 0, 64, 17]);
    assert_eq!(frame[34..42], [0xc1, 0x23, 0x12, 0xb7, 0, 48, 0, 0]);
    let bth = [0x0a, 0x40 | 3 << 4, 0xff, 0xff, 0, 0x11, 0x22, 0x33, 0x80, 0x44, 0x55, 0x66];
    assert_eq!(frame[42..54], bth);
    assert_eq!(frame[70..78], [1, 2, 3, 4, 5, 0, 0, 0], "padded with zeros");
}

/// A CNP as a ConnectX-4 Lx sent it (a capture published with scapy's RoCE layer): the fields, and the ICRC that the
/// card computed.
#[test]
fn the_icrc_is_the_one_that_a_nic_computes() {
    let cnp = Repr {
        destination_ip: Ipv4Addr::new(10, 0, 18, 1),
        source_ip: Ipv4Addr::new(10, 0, 17, 1),
        source_port: 0,
        dscp: Dscp::new(48),
        queue_pair: QueuePair::new(0x118),
        psn: Psn::new(0),
        ..repr(Operation::CongestionNotification)
    };
    let mut frame = written(&cnp, &[]);
    assert_eq!(frame.len(), 74);
    // The identification is the one covered field that the writer has no value for.
    frame[18..20].copy_from_slice(&[0x71, 0x8c]);
    assert_eq!(icrc::icrc(&frame[..70]), [0x82, 0xfd, 0x00, 0x2a]);
}

#[test]
fn marking_ce_and_routing_leave_the_icrc_alone() {
    let mut frame =
        written(&repr(Operation::Write { position: PacketPosition::Middle, ack_request: false }), &[7; 1024]);
    frame[field::IP_TOS] |= 0b11;
    frame[field::IP_TTL] -= 1;
    frame[field::IP_CHECKSUM].fill(0);
    let checksum = ipv4_checksum(&frame[field::IP]);
    frame[field::IP_CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
    let packet = Packet::new(&frame).unwrap();
    assert_eq!((packet.ecn(), packet.icrc_holds()), (Ecn::Ce, true));
    frame[100] ^= 1;
    assert!(!Packet::new(&frame).unwrap().icrc_holds());
}

#[test]
fn an_acknowledgement_may_echo_a_mark_outside_its_icrc() {
    let ack = |becn| written(&repr(Operation::Acknowledge { syndrome: Syndrome::ACK, msn: 7, becn }), &[]);
    let (unmarked, mut marked) = (ack(false), ack(true));
    assert_eq!((unmarked[46], marked[46], marked.len()), (0, 0x40, 62));
    assert_eq!(unmarked[54..], marked[54..], "of one ICRC");
    marked[46] = 0;
    assert_eq!(marked, unmarked);
}

#[test]
fn odd_frames_are_refused_with_their_reason() {
    let good = written(&repr(Operation::Write { position: PacketPosition::Last, ack_request: true }), &[7; 64]);
    let changed = |byte: usize, value: u8| {
        let mut frame = good.clone();
        frame[byte] = value;
        if field::IP.contains(&byte) && !field::IP_CHECKSUM.contains(&byte) {
            frame[field::IP_CHECKSUM].fill(0);
            let checksum = ipv4_checksum(&frame[field::IP]);
            frame[field::IP_CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
        }
        Packet::new(&frame).map(|_| ()).unwrap_err()
    };
    assert_eq!(Packet::new(&good[..57]).unwrap_err(), ReadError::Truncated);
    assert_eq!(Packet::new(&good[..good.len() - 1]).unwrap_err(), ReadError::Truncated);
    assert_eq!(changed(12, 0x86), ReadError::NotIpv4);
    assert_eq!(changed(14, 0x46), ReadError::NotIpv4);
    assert_eq!(changed(20, 0x20), ReadError::Fragment);
    assert_eq!(changed(24, 0xff), ReadError::Checksum);
    assert_eq!(changed(23, 6), ReadError::NotRoce);
    assert_eq!(changed(37, 0xb8), ReadError::NotRoce);
    assert_eq!(changed(17, 40), ReadError::Length);
    assert_eq!(changed(43, 0x41), ReadError::Version);
    assert_eq!(changed(42, 0x0c), ReadError::Opcode(0x0c));
    assert_eq!(changed(42, 0x11), ReadError::Payload);
}

#[test]
fn what_may_follow_the_packet_is_no_payload() {
    let mut frame = written(&repr(Operation::Write { position: PacketPosition::Last, ack_request: true }), &[7; 4]);
    frame.extend([0xee; 9]);
    let packet = Packet::new(&frame).unwrap();
    assert_eq!((packet.payload(), packet.icrc_holds(), packet.end()), (&[7; 4][..], true, 62));
}

#[test]
fn illegal_payloads_are_not_written() {
    let mut buffer = [0; 200];
    let middle = repr(Operation::Write { position: PacketPosition::Middle, ack_request: false });
    assert_eq!(middle.write(&[0; 5], &mut buffer), Err(WriteError::Payload));
    assert_eq!(middle.write(&[], &mut buffer), Err(WriteError::Payload));
    assert_eq!(middle.write(&[0; 200], &mut buffer), Err(WriteError::BufferTooSmall { needed: 258 }));
    assert_eq!(repr(Operation::CongestionNotification).write(&[0; 4], &mut buffer), Err(WriteError::Payload));
}

#[test]
fn source_ports_spread_and_stay_in_range() {
    let ports: std::collections::BTreeSet<u16> =
        (1..200).map(|n| source_port(QueuePair::new(0x100 + n), QueuePair::new(0x200 + n))).collect();
    assert!(ports.iter().all(|port| *port >= 0xc000));
    assert!(ports.len() > 190, "{} ports of 199 flows", ports.len());
}

fn any_operation() -> impl Strategy<Value = Operation> {
    let reth = (any::<u64>(), any::<u32>(), any::<u32>())
        .prop_map(|(virtual_address, remote_key, message_bytes)| Reth { virtual_address, remote_key, message_bytes });
    let position = prop_oneof![
        reth.clone().prop_map(PacketPosition::Only),
        reth.prop_map(PacketPosition::First),
        Just(PacketPosition::Middle),
        Just(PacketPosition::Last),
    ];
    let syndrome = prop_oneof![
        (0..32u8).prop_map(|credits| Syndrome::Ack { credits }),
        (0..32u8).prop_map(|timer| Syndrome::RnrNak { timer }),
        Just(Syndrome::SequenceError),
        prop::sample::select(&NakCode::ALL[..]).prop_map(Syndrome::Nak),
    ];
    prop_oneof![
        (position, any::<bool>()).prop_map(|(position, ack_request)| Operation::Write { position, ack_request }),
        any::<[bool; 3]>().prop_map(|[is_first, is_last, ack_request]| Operation::Send {
            is_first,
            is_last,
            ack_request
        }),
        (syndrome, 0..1u32 << 24, any::<bool>()).prop_map(|(syndrome, msn, becn)| Operation::Acknowledge {
            syndrome,
            msn,
            becn
        }),
        Just(Operation::CongestionNotification),
    ]
}

fn any_repr() -> impl Strategy<Value = Repr> {
    let addresses = (any::<[u8; 6]>(), any::<[u8; 6]>(), any::<u32>(), any::<u32>());
    (addresses, any::<u8>(), any::<u8>(), any::<u16>(), any::<u32>(), any::<u32>(), any_operation()).prop_map(
        |((destination, source, destination_ip, source_ip), dscp, ecn, source_port, queue_pair, psn, operation)| Repr {
            destination: MacAddr(destination),
            source: MacAddr(source),
            destination_ip: destination_ip.into(),
            source_ip: source_ip.into(),
            dscp: Dscp::new(dscp),
            ecn: Ecn::from_bits(ecn),
            source_port,
            queue_pair: QueuePair::new(queue_pair),
            psn: Psn::new(psn),
            operation,
        },
    )
}

/// A payload that the operation may carry, of about this length.
fn payload_for(operation: &Operation, bytes: usize) -> Vec<u8> {
    let bytes = match operation {
        Operation::Write { position: PacketPosition::First(_) | PacketPosition::Middle, .. }
        | Operation::Send { is_last: false, .. } => bytes.next_multiple_of(4).max(4),
        Operation::Write { .. } | Operation::Send { .. } => bytes.max(1),
        _ => 0,
    };
    (0..bytes).map(|n| n as u8).collect()
}

proptest! {
    #[test]
    fn what_is_written_is_read(repr in any_repr(), bytes in 0..4_200usize) {
        let payload = payload_for(&repr.operation, bytes);
        let frame = written(&repr, &payload);
        prop_assert_eq!(frame.len(), repr.frame_bytes(payload.len()));
        prop_assert!(frame.len() >= 60, "no frame needs padding to Ethernet's minimum");
        let packet = Packet::new(&frame).unwrap();
        prop_assert!(packet.icrc_holds());
        prop_assert_eq!(packet.payload(), payload);
        prop_assert_eq!(Repr::read(&packet), Ok(repr));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        if let Ok(packet) = Packet::new(&bytes) {
            let _ = (Repr::read(&packet), packet.payload(), packet.icrc_holds());
        }
    }

    /// Frames that are nearly right get further than arbitrary bytes do.
    #[test]
    fn damaged_frames_are_read_or_refused(
        repr in any_repr(),
        bytes in 0..80usize,
        damage in prop::collection::vec((0..160usize, any::<u8>()), 0..4),
        cut in 0..160usize,
    ) {
        let mut frame = written(&repr, &payload_for(&repr.operation, bytes));
        for (byte, value) in damage {
            if let Some(byte) = frame.get_mut(byte) {
                *byte = value;
            }
        }
        frame.truncate(cut.max(34));
        frame[field::IP_CHECKSUM].fill(0);
        let checksum = ipv4_checksum(&frame[field::IP]);
        frame[field::IP_CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
        if let Ok(packet) = Packet::new(&frame) {
            let _ = (Repr::read(&packet), packet.payload(), packet.icrc_holds());
        }
    }
}
