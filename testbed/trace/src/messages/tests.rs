use proptest::prelude::*;
use weir_units::MacAddr;
use weir_wire::rocev2::{Dscp, Ecn, Operation, PacketPosition, Psn, QueuePair, Repr, Reth};

use super::*;
use crate::capture::FrameSelection;
use crate::capture::tests::{ALL, pcap};

const MTU: usize = 256;

/// A packet of an RDMA WRITE to a queue pair.
fn write(queue_pair: u32, psn: u32, part: PacketPosition, payload: usize) -> Vec<u8> {
    let repr = Repr {
        source: MacAddr([2, 0, 0, 0, 0, 1]),
        destination: MacAddr([2, 0, 0, 0, 0, 2]),
        source_ip: [10, 0, 0, 1].into(),
        destination_ip: [10, 0, 0, 2].into(),
        source_port: 49_152,
        dscp: Dscp::new(26),
        ecn: Ecn::Ect0,
        queue_pair: QueuePair::new(queue_pair),
        psn: Psn::new(psn),
        operation: Operation::Write { position: part, ack_request: false },
    };
    let mut frame = vec![0; repr.frame_bytes(payload)];
    repr.write(&vec![7; payload], &mut frame).unwrap();
    frame
}

fn reth(message_bytes: usize) -> Reth {
    Reth { virtual_address: 0, remote_key: 0, message_bytes: message_bytes as u32 }
}

/// As above for SEND, which has no RETH.
fn as_send(mut frame: Vec<u8>, opcode: u8) -> Vec<u8> {
    frame[42] = opcode;
    frame
}

fn tcp(sequence: u32, payload: usize, flags: u8) -> Vec<u8> {
    let ip_bytes = (40 + payload) as u16;
    let mut frame = [&[2; 12][..], &[8, 0, 0x45, 0], &ip_bytes.to_be_bytes(), &[0, 0, 0, 0, 64, 6, 0, 0]].concat();
    frame.extend([10, 0, 0, 3, 10, 0, 0, 4, 1, 0, 2, 0]);
    frame.extend(sequence.to_be_bytes());
    frame.extend([0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
    frame.resize(14 + usize::from(ip_bytes), 9);
    frame
}

fn recorded(captures: &[Vec<(u32, Vec<u8>)>]) -> Recording {
    let captures: Vec<Capture> = captures.iter().map(|frames| captured(frames, usize::MAX)).collect();
    Recording::from_captures(&captures, Span::from_millis(1))
}

/// The frames as a capture has them whose frames are cut at `snaplen`.
fn captured(frames: &[(u32, Vec<u8>)], snaplen: usize) -> Capture {
    let cut = |frame: &Vec<u8>| frame[..frame.len().min(snaplen)].to_vec();
    let frames: Vec<_> = frames.iter().map(|(us, frame)| (0, *us, frame.len() as u32, cut(frame))).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), pcap(0xa1b2_c3d4, &frames)).unwrap();
    Capture::read(file.path(), &FrameSelection { headers_suffice: true, ..ALL }).unwrap()
}

fn told(recording: &Recording) -> Vec<(i128, u64, bool)> {
    recording.messages.iter().map(|sent| (sent.at.0 / 1_000_000, sent.bytes, sent.is_complete)).collect()
}

/// A WRITE of 600 B in three packets, one of 100 B in one.
fn two_writes() -> Vec<(u32, Vec<u8>)> {
    vec![
        (10, write(7, 0xff_fffe, PacketPosition::First(reth(600)), MTU)),
        (11, write(7, 0xff_ffff, PacketPosition::Middle, MTU)),
        (12, write(7, 0, PacketPosition::Last, 88)),
        (20, write(7, 1, PacketPosition::Only(reth(100)), 100)),
    ]
}

#[test]
fn messages_have_their_bytes_and_the_time_of_their_first_packet() {
    let recording = recorded(&[two_writes()]);
    assert_eq!(told(&recording), [(10, 600, true), (20, 100, true)]);
    assert_eq!((recording.packets, recording.sent_again, recording.missing), (4, 0, 0));
    assert_eq!((recording.messages[0].dscp, recording.messages[0].to), (26, IpAddr::from([10, 0, 0, 2])));
}

#[test]
fn what_is_sent_again_counts_once() {
    let mut frames = two_writes();
    // Go-back-N from the second packet on.
    frames.push((30, frames[1].1.clone()));
    frames.push((31, frames[2].1.clone()));
    frames.push((32, frames[3].1.clone()));
    let recording = recorded(&[frames]);
    assert_eq!(told(&recording), [(10, 600, true), (20, 100, true)]);
    assert_eq!((recording.packets, recording.sent_again), (7, 3));
}

#[test]
fn a_packet_that_was_lost_and_comes_again_is_no_repetition() {
    let mut frames = two_writes();
    let lost = frames.remove(1);
    frames.push((30, lost.1));
    let recording = recorded(std::slice::from_ref(&frames));
    assert_eq!(told(&recording), [(10, 600, true), (20, 100, true)]);
    assert_eq!((recording.sent_again, recording.missing), (0, 0));
    frames.pop();
    assert_eq!(recorded(&[frames]).missing, 1);
}

#[test]
fn messages_without_a_reth_have_the_bytes_of_their_packets() {
    let send = |psn, opcode, payload| as_send(write(9, psn, PacketPosition::Middle, payload), opcode);
    let frames = vec![(1, send(5, 0x00, MTU)), (2, send(6, 0x01, MTU)), (3, send(7, 0x02, 40)), (4, send(8, 0x04, 12))];
    assert_eq!(told(&recorded(std::slice::from_ref(&frames))), [(1, 2 * 256 + 40, true), (4, 12, true)]);
    // The capture began in the middle, and ended before the end.
    assert_eq!(told(&recorded(&[frames[1..].to_vec()])), [(2, 256 + 40, false), (4, 12, true)]);
    assert_eq!(told(&recorded(&[frames[..2].to_vec()])), [(1, 512, false)]);
}

/// Packets of messages of these bytes to a queue pair from a sequence number on: WRITEs, SENDs or READ responses.
fn packets(queue_pair: u32, first: u32, kinds: &[(usize, usize)]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for (kind, bytes) in kinds {
        let count = bytes.div_ceil(MTU);
        for place in 0..count {
            let psn = first + packets.len() as u32;
            let payload = if place + 1 == count { bytes - place * MTU } else { MTU };
            let (part, opcode) = match (place, place + 1 == count) {
                (0, true) => (PacketPosition::Only(reth(*bytes)), [0, 0x04, 0x10]),
                (0, false) => (PacketPosition::First(reth(*bytes)), [0, 0x00, 0x0d]),
                (_, true) => (PacketPosition::Last, [0, 0x02, 0x0f]),
                (_, false) => (PacketPosition::Middle, [0, 0x01, 0x0e]),
            };
            // Responses have an AETH of 4 B, but for those in the middle.
            let header = if opcode[*kind] == 0x0e { 0 } else { 4 };
            packets.push(match kind {
                0 => write(queue_pair, psn, part, payload),
                1 => as_send(write(queue_pair, psn, PacketPosition::Last, payload), opcode[1]),
                _ => as_send(write(queue_pair, psn, PacketPosition::Last, payload + header), opcode[2]),
            });
        }
    }
    packets
}

/// Queue pairs with sizes of messages, of which each pair has one kind; sequence numbers wrap in some.
fn sent_messages() -> impl Strategy<Value = Vec<(u32, Vec<(usize, usize)>)>> {
    let sizes = proptest::collection::vec(1..5 * MTU, 1..12);
    let pair = (prop_oneof![Just(0xff_fff8), 0u32..0x100_0000], 0usize..3, sizes);
    let with_kinds = pair.prop_map(|(psn, kind, sizes)| (psn, sizes.into_iter().map(|bytes| (kind, bytes)).collect()));
    proptest::collection::vec(with_kinds, 1..4)
}

/// The packets of all queue pairs, in the order of these keys for each: a packet is displaced by up to 8 others of its own.
fn reordered(sent: &[(u32, Vec<(usize, usize)>)], keys: &[usize]) -> Vec<Vec<u8>> {
    let mut key = keys.iter().cycle();
    let mut all = Vec::new();
    for (place, (psn, messages)) in sent.iter().enumerate() {
        let of_pair = packets(place as u32 + 1, *psn, messages).into_iter().enumerate();
        all.extend(of_pair.map(|(number, packet)| (number + key.next().unwrap() % 9, packet)));
    }
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, packet)| packet).collect()
}

fn at_times(frames: Vec<Vec<u8>>) -> Vec<(u32, Vec<u8>)> {
    (1..).zip(frames).collect()
}

fn sizes(sent: &[(u32, Vec<(usize, usize)>)]) -> Vec<u64> {
    let mut sizes: Vec<u64> = sent.iter().flat_map(|(_, messages)| messages).map(|(_, bytes)| *bytes as u64).collect();
    sizes.sort_unstable();
    sizes
}

proptest! {
    #[test]
    fn all_messages_are_found_in_any_order_and_once(
        sent in sent_messages(),
        keys in proptest::collection::vec(0usize..9, 1..40),
        again in proptest::collection::vec((0usize..200, 1usize..20, 0usize..200), 0..4),
    ) {
        let mut frames = reordered(&sent, &keys);
        let mut sent_again = 0;
        // Go-back-N: some packets follow again, later.
        for (from, count, later) in again {
            let from = from % frames.len();
            let copies = frames[from..(from + count).min(frames.len())].to_vec();
            sent_again += copies.len() as u64;
            let to = from + later % (frames.len() - from) + 1;
            frames.splice(to..to, copies);
        }
        let recording = recorded(&[at_times(frames)]);
        let mut found: Vec<u64> = recording.messages.iter().map(|message| message.bytes).collect();
        found.sort_unstable();
        prop_assert_eq!(found, sizes(&sent));
        prop_assert!(recording.messages.iter().all(|message| message.is_complete));
        prop_assert_eq!((recording.sent_again, recording.missing), (sent_again, 0));
    }

    #[test]
    fn a_message_that_is_not_found_has_a_packet_missing(
        sent in sent_messages(),
        keys in proptest::collection::vec(0usize..9, 1..40),
        lost in proptest::collection::vec(any::<bool>(), 1..60),
    ) {
        // A message at each end of a queue pair's is whole: beyond them nothing shows a loss.
        let with_ends = |(psn, messages): &(u32, Vec<(usize, usize)>)| {
            let end = [(messages[0].0, 3)];
            (*psn, [&end[..], messages, &end].concat())
        };
        let sent: Vec<_> = sent.iter().map(with_ends).collect();
        let frames = reordered(&sent, &keys);
        let is_end = |frame: &Vec<u8>| frame.len() < 90;
        let captured: Vec<_> =
            frames.iter().zip(lost.iter().cycle()).filter(|(frame, lost)| is_end(frame) || !**lost).collect();
        let losses = (frames.len() - captured.len()) as u64;
        let recording = recorded(&[at_times(captured.into_iter().map(|(frame, _)| frame.clone()).collect())]);
        let (found, all) = (recording.messages.len() as u64, sizes(&sent).len() as u64);
        prop_assert!(found <= all && all - found <= losses, "{} of {}, {} lost", found, all, losses);
        // Lost READ responses between whole ones may be answers to other requests.
        let are_requests = sent.iter().all(|(_, messages)| messages[0].0 < 2);
        prop_assert!(recording.missing == losses || !are_requests && recording.missing < losses);
    }
}

#[test]
fn messages_of_one_packet_that_changed_places_are_found() {
    let mut frames: Vec<_> =
        (0..10).map(|n| (n, write(7, n, PacketPosition::Only(reth(100 + n as usize)), 100 + n as usize))).collect();
    frames.swap(3, 4);
    let frames: Vec<_> = (0..).zip(frames).map(|(us, (_, frame))| (us, frame)).collect();
    let recording = recorded(&[frames]);
    assert_eq!((recording.messages.len(), recording.missing, recording.sent_again), (10, 0, 0));
    assert_eq!(recording.messages.iter().map(|sent| sent.bytes).sum::<u64>(), 1_045);
}

#[test]
fn reads_take_sequence_numbers_and_their_responses_may_begin_again() {
    let read = |psn, bytes: usize| {
        let mut frame = as_send(write(9, psn, PacketPosition::Last, 16), 0x0c);
        frame[66..70].copy_from_slice(&(bytes as u32).to_be_bytes());
        frame
    };
    let response = |psn, opcode, payload| as_send(write(9, psn, PacketPosition::Last, payload), opcode);
    let frames = vec![
        (1, read(5, 4 * MTU)),
        (2, write(9, 9, PacketPosition::Only(reth(100)), 100)),
        // Responses to this host's own reads, of which the third is lost and requested again.
        (3, response(70, 0x0d, MTU + 4)),
        (4, response(71, 0x0e, MTU)),
        (5, response(73, 0x0f, 40 + 4)),
        (6, response(72, 0x0d, MTU + 4)),
        (7, response(73, 0x0f, 40 + 4)),
        (8, response(80, 0x10, 50 + 4)),
    ];
    let recording = recorded(&[frames]);
    assert_eq!(told(&recording), [(2, 100, true), (3, 3 * 256 + 40, true), (8, 50, true)]);
    assert_eq!((recording.missing, recording.sent_again, recording.answers), (0, 1, 1));
}

#[test]
fn a_queue_pair_that_connects_again_has_other_messages() {
    let of = |sizes: &[(usize, usize)]| packets(7, 0, sizes);
    let frames = [of(&[(0, 700), (0, 20)]), of(&[(0, 30), (0, 700), (0, 20)])].concat();
    let recording = recorded(&[at_times(frames)]);
    assert_eq!(told(&recording).iter().map(|(_, bytes, _)| *bytes).collect::<Vec<_>>(), [700, 20, 30, 700, 20]);
}

#[test]
fn headers_alone_tell_all_bytes() {
    let send = |psn, opcode, payload| as_send(write(9, psn, PacketPosition::Middle, payload), opcode);
    let mut frames = two_writes();
    frames.extend([(21, send(5, 0x00, MTU)), (22, send(6, 0x02, 40)), (23, tcp(1, 0, SYN)), (24, tcp(2, 900, 0x10))]);
    let sent = [(10, 600, true), (20, 100, true), (21, 256 + 40, true), (24, 900, true)];
    assert_eq!(told(&recorded(std::slice::from_ref(&frames))), sent);
    // 64 B end in the RETH, before the length of its message.
    for snaplen in [128, 70, 64] {
        let capture = captured(&frames, snaplen);
        assert_eq!((capture.skipped().rejected(), capture.frames()[0].length), (0, frames[0].1.len()));
        assert_eq!(told(&Recording::from_captures(&[capture], Span::from_millis(1))), sent, "cut at {snaplen} B");
    }
    // The BTH ends at 54 B: longer frames lack it then, and are named.
    let capture = captured(&[vec![(1, vec![2; 60])], frames].concat(), 53);
    assert_eq!(capture.skipped().truncated.first[0], (2, two_writes()[0].1.len()));
    assert_eq!(capture.frames().len(), 1);
}

#[test]
fn cooked_captures_have_the_same_messages() {
    let whole = told(&recorded(&[two_writes()]));
    let sll = |frame: &[u8]| [&[0, 0, 0, 1, 0, 6][..], &frame[6..12], &[0, 0], &frame[12..]].concat();
    let sll2 = |frame: &[u8]| {
        [&frame[12..14], &[0, 0, 0, 0, 0, 3, 0, 1, 4, 6][..], &frame[6..12], &[0, 0], &frame[14..]].concat()
    };
    for (link, bytes, cook) in [(113u32, 2, &sll as &dyn Fn(&[u8]) -> Vec<u8>), (276, 6, &sll2)] {
        // Whole packets, and headers alone.
        for snaplen in [usize::MAX, 80] {
            let cooked = |(us, frame): &(u32, Vec<u8>)| {
                let frame = cook(frame);
                (0, *us, frame.len() as u32, frame[..frame.len().min(snaplen)].to_vec())
            };
            let mut file = pcap(0xa1b2_c3d4, &two_writes().iter().map(cooked).collect::<Vec<_>>());
            file[20..24].copy_from_slice(&link.to_le_bytes());
            let of = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(of.path(), file).unwrap();
            let capture = Capture::read(of.path(), &FrameSelection { headers_suffice: true, ..ALL }).unwrap();
            assert!(capture.skipped().is_complete(), "{}", capture.skipped().describe());
            assert_eq!(cook(&two_writes()[0].1).len(), two_writes()[0].1.len() + bytes);
            assert_eq!(
                told(&Recording::from_captures(&[capture], Span::from_millis(1))),
                whole,
                "{link} at {snaplen} B"
            );
            // Shorter than the cooked header.
            let mut short = pcap(0xa1b2_c3d4, &[(0, 1, 10, vec![0; 10])]);
            short[20..24].copy_from_slice(&link.to_le_bytes());
            let of_short = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(of_short.path(), short).unwrap();
            let headers = FrameSelection { headers_suffice: true, ..ALL };
            let refused = Capture::read(of_short.path(), &headers).unwrap_err().to_string();
            assert!(refused.ends_with("without a header: 1 (number 1 of 10 B)"), "{refused}");
            // A frame without a destination can't be sent.
            let sent = Capture::read(of.path(), &ALL).unwrap_err().to_string();
            assert!(sent.contains("and none of Ethernet"), "{sent}");
        }
    }
}

#[test]
fn a_clock_that_goes_back_a_little_loses_nothing() {
    let send = |psn, opcode, payload| as_send(write(9, psn, PacketPosition::Middle, payload), opcode);
    // Two messages, of which the second begins before the first ends, by their times.
    let frames = vec![
        (10, send(5, 0x00, MTU)),
        (17, send(6, 0x02, 40)),
        (12, send(7, 0x00, MTU)),
        (13, send(8, 0x01, MTU)),
        (18, send(9, 0x02, 52)),
    ];
    let recording = recorded(std::slice::from_ref(&frames));
    assert_eq!(told(&recording), [(10, 256 + 40, true), (17, 2 * 256 + 52, true)]);
    assert_eq!((recording.sent_again, recording.missing), (0, 0));
    let left = captured(&frames, usize::MAX).skipped().clone();
    assert_eq!((left.stepped_back, left.out_of_order), (2, 0));
    assert!(left.describe().contains("2 at the time of the frame before"), "{}", left.describe());
    // Files that were put behind each other have the order of their times.
    let later: Vec<_> = two_writes().into_iter().map(|(us, frame)| (us + 1_000, frame)).collect();
    let appended = captured(&[later, frames].concat(), usize::MAX);
    assert_eq!((appended.skipped().out_of_order, appended.skipped().stepped_back), (1, 2));
    assert_eq!(appended.frames()[0].number, 5);
}

#[test]
fn a_frame_that_two_captures_have_counts_once() {
    let later: Vec<_> = two_writes().into_iter().map(|(at, frame)| (at + 3, frame)).collect();
    let recording = recorded(&[later, two_writes()]);
    assert_eq!(told(&recording), [(10, 600, true), (20, 100, true)]);
    // The last packet passed the second place after the first capture's end, and is known by its sequence number.
    assert_eq!((recording.seen_elsewhere, recording.sent_again), (3, 1));
}

#[test]
fn the_files_of_a_rotated_capture_are_one() {
    let mut frames = two_writes();
    frames.extend([(23, tcp(1, 0, SYN)), (24, tcp(2, 500, 0x10)), (25, tcp(502, 400, 0x10))]);
    for cut in 1..frames.len() {
        let (first, rest) = frames.split_at(cut);
        let recording = recorded(&[rest.to_vec(), first.to_vec()]);
        assert_eq!(told(&recording), [(10, 600, true), (20, 100, true), (24, 900, true)], "cut after {cut}");
        assert_eq!((recording.seen_elsewhere, recording.packets, recording.missing), (0, 6, 0));
    }
}

#[test]
fn captures_that_overlap_lose_nothing() {
    let only = |us: u32, psn| (us, write(7, psn, PacketPosition::Only(reth(100)), 100));
    // The second file begins before the first ends.
    let rotated = recorded(&[vec![only(0, 0), only(1_000, 1), only(1_002, 3)], vec![only(1_001, 2), only(2_000, 4)]]);
    assert_eq!((rotated.messages.len(), rotated.missing, rotated.seen_elsewhere), (5, 0, 0));
    // One host's capture ends in the middle of the other's.
    let both: Vec<_> = (0..10).map(|n| only(n * 1_000, n)).collect();
    let halves = recorded(&[both[..5].to_vec(), both.clone()]);
    assert_eq!((halves.messages.len(), halves.missing, halves.seen_elsewhere), (10, 0, 5));
}

#[test]
fn a_queue_pair_of_a_second_run_has_messages_of_its_own() {
    let run = |from_us: u32, from: u32| {
        (0..100).map(move |n| (from_us + n, write(7, from + n, PacketPosition::Only(reth(100)), 100)))
    };
    let later: Vec<_> = run(0, 0).chain(run(60_000_000, 0)).collect();
    assert_eq!(recorded(&[later]).messages.len(), 200);
    let behind: Vec<_> = run(0, 100_000).chain(run(1_000, 0)).collect();
    assert_eq!(recorded(&[behind]).messages.len(), 200);
}

#[test]
fn packets_far_from_each_other_are_of_two_messages() {
    let send = |psn, opcode, payload| as_send(write(9, psn, PacketPosition::Middle, payload), opcode);
    let recording = recorded(&[vec![(1, send(5, 0x00, MTU)), (2, send(100_005, 0x02, 40))]]);
    assert_eq!(told(&recording), [(1, 256, false), (2, 40, false)]);
}

#[test]
fn tcp_has_a_message_for_each_stretch_of_data() {
    let start = u32::MAX - 500;
    let at = |offset: u32| start.wrapping_add(1 + offset);
    let frames = vec![
        (1, tcp(start, 0, SYN)),
        (2, tcp(at(0), 400, 0x10)),
        (3, tcp(at(400), 400, 0x10)),
        // Again, and half of it new.
        (4, tcp(at(400), 400, 0x10)),
        (5, tcp(at(600), 400, 0x10)),
        (5_000, tcp(at(1_000), 100, 0x18)),
    ];
    let recording = recorded(&[frames]);
    assert_eq!(told(&recording), [(2, 1_000, true), (5_000, 100, true)]);
    assert_eq!((recording.packets, recording.sent_again, recording.answers), (5, 2, 1));
}

const SYN: u8 = 2;
