//! Real frames carry the telemetry that congestion controls require, and acknowledgements echo it.

use weir_wire::trailer::{self, Telemetry, Trailer};

use super::*;
use crate::parameters::Network;

/// Twice 1 us, for a frame has arrived with its first byte, and what an acknowledgement may wait for another one.
const BASE_RTT: Span = Span::from_picos(2_000_000 + 182 * 80);

/// A flow under a preset with other values.
fn under(name: &str, values: &[(&str, &str)]) -> FlowConfig {
    let network = Network { line: RATE, base_rtt: BASE_RTT };
    let congestion_control = CongestionControlChoice::parse(name, values, network).expect("a preset, and good values");
    FlowConfig { congestion_control, ..flow(0) }
}

fn hpcc() -> FlowConfig {
    under("hpcc", &[])
}

fn powertcp() -> FlowConfig {
    under("powertcp", &[])
}

/// A port that stamps frames, each `switches` times, with a queue of 250 KB from the first of these instants to the second.
fn stamping(switches: usize, congested: Range<Time>) -> Option<Meddler> {
    let mut tx_bytes = 0;
    Some(Box::new(move |at, frame| {
        let queue = Bytes::kb(if congested.contains(&at) { 250 } else { 0 });
        (0..switches).for_each(|_| trailer::stamp(frame, &Telemetry { at, tx_bytes, queue, rate: RATE }));
        tx_bytes += weir_flowctl::wire_bytes(frame.len() as u32, LINK_OVERHEAD).get();
    }))
}

/// What part of the line a pair's flow fills from one instant to another.
fn filled(pair: &mut Pair, from: u64, to: u64) -> f64 {
    pair.run_until(at(from));
    let before = pair.sender.sender_stats(0).wire;
    pair.run_until(at(to));
    (pair.sender.sender_stats(0).wire - before).get() as f64 / RATE.bytes_in(Span::from_nanos(to - from)).get() as f64
}

#[test]
fn what_ports_stamp_sets_the_senders_window() {
    for flow in [hpcc(), powertcp()] {
        let name = flow.congestion_control.name();
        let mut pair = Pair::new(&[flow]);
        pair.meddler = stamping(3, at(100_000)..at(200_000));
        let free = filled(&mut pair, 50_000, 100_000);
        // Ten times what is in flight is waiting.
        let congested = filled(&mut pair, 120_000, 200_000);
        // HPCC takes five frames at the lowest rate, a frame each 96 us, before it jumps.
        let again = filled(&mut pair, 1_400_000, 1_500_000);
        assert!(free > 0.9 && congested < 0.2 && again > 0.9, "{name}: {free} {congested} {again}");
        assert_eq!(pair.receiver.receiver_stats(0).lost, 0);
    }
}

#[test]
fn acknowledgements_may_have_the_class_of_their_data() {
    for (acks, dscp) in [(AckClass::Own, 48), (AckClass::WithData, flow(0).dscp.get())] {
        let mut pair = Pair::new(&[FlowConfig { message: Bytes::new(64), ..flow(0) }]);
        pair.receiver.config.acks = acks;
        pair.run_until(at(999));
        let arrived = pair.there.poll(at(2_000)).unwrap();
        pair.receiver.handle_frame(at(2_000), &arrived);
        let class = if acks == AckClass::Own { pair.receiver.config.ack_class } else { flow(0).class };
        assert_eq!(pair.receiver.answer_class(), class);
        let mut buffer = [0; 2_000];
        assert!(pair.receiver.poll_transmit(at(2_000), &mut buffer).is_some());
        // The type of service, behind Ethernet's header.
        assert_eq!(buffer[15] >> 2, dscp, "{acks:?}");
    }
}

#[test]
fn stamps_take_what_they_do_in_the_simulators() {
    let lengths = |stamps| {
        let FrameSizes { header, ack, .. } = FrameSizes::ns3_stamped(1_000).with_telemetry(stamps);
        (header, ack)
    };
    assert_eq!(
        [TelemetryMode::None, TelemetryMode::Time, TelemetryMode::Digest, TelemetryMode::Hops].map(lengths),
        [(48, 60), (56, 60), (50, 60), (90, 88)]
    );
}

#[test]
fn frames_are_as_long_as_their_trailers_make_them() {
    let lengths = |flow: FlowConfig| {
        let mut pair = Pair::new(&[FlowConfig { message: Bytes::new(1_025), ..flow }]);
        pair.run_until(at(999));
        let sent: Vec<usize> = pair.sent.iter().take(2).map(|(_, length)| *length).collect();
        let arrived = pair.there.poll(at(2_000)).unwrap();
        pair.receiver.handle_frame(at(2_000), &arrived);
        let mut buffer = [0; 2_000];
        let answer = pair.receiver.poll_transmit(at(2_000), &mut buffer).map(|length| buffer[..length].to_vec());
        (sent, pair.sender.frame_bytes_max(), answer)
    };
    let (sent, longest, answer) = lengths(flow(0));
    assert_eq!((sent, longest, answer), (vec![1_098, 62], 1_098, None), "the last packet is answered");
    let timely = under("timely", &[]);
    for (flow, trailer_bytes) in [(timely, 16), (hpcc(), 96)] {
        let (sent, longest, answer) = lengths(flow);
        assert_eq!((sent, longest), (vec![1_098 + trailer_bytes, 62 + trailer_bytes], 1_098 + trailer_bytes));
        let answer = answer.unwrap();
        assert_eq!(answer.len(), 62 + trailer_bytes);
        let trailer = Trailer::read(&answer[62..]).unwrap();
        assert_eq!((trailer.sent_at(), trailer.collects(), trailer.hops().len()), (Time::ZERO, false, 0));
        assert!(!trailer::has_place(&answer));
    }
}

#[test]
fn an_acknowledgement_brings_the_stamps_back_as_they_were() {
    let mut pair = Pair::new(&[hpcc()]);
    pair.meddler = stamping(7, Time::ZERO..Time::NEVER);
    pair.run_until(at(999));
    let arrived = pair.there.poll(at(1_200)).unwrap();
    let stamped: Vec<Telemetry> = Trailer::read(&arrived[1_098..]).unwrap().hops().collect();
    assert_eq!(stamped, [Telemetry { at: at(0), tx_bytes: 0, queue: Bytes::kb(250), rate: RATE }; 5], "of 7");
    pair.receiver.handle_frame(at(1_200), &arrived);
    let mut buffer = [0; 2_000];
    let length = pair.receiver.poll_transmit(at(1_200), &mut buffer).unwrap();
    let brought: Vec<Telemetry> = Trailer::read(&buffer[62..length]).unwrap().hops().collect();
    assert_eq!(brought, stamped);
}

/// With T_high below the round trip each acknowledgement tells TIMELY of congestion, with T_low above it none does.
#[test]
fn timely_is_told_its_round_trip() {
    let fills = |t_low, t_high| {
        let mut pair = Pair::new(&[under("timely", &[("t_low", t_low), ("t_high", t_high)])]);
        filled(&mut pair, 500_000, 1_000_000)
    };
    let (above, below) = (fills("500ns", "1us"), fills("3us", "500us"));
    assert!(above < 0.1 && below > 0.95, "{above} {below}");
}

#[test]
fn theta_powertcp_is_told_its_round_trip() {
    let fills = |values| filled(&mut Pair::new(&[under("theta-powertcp", values)]), 200_000, 400_000);
    let (right, short) = (fills(&[]), fills(&[("base_rtt", "1us")]));
    assert!(right > 0.9 && short < 0.5, "{right} {short}");
}

#[test]
fn marks_come_back_on_acknowledgements_where_they_are_asked_for() {
    let mut pair = Pair::new(&[under("dcqcn-hpcc", &[]), flow(1)]);
    pair.marks = at(50_000)..at(500_000);
    let before = filled(&mut pair, 10_000, 50_000);
    let marked = filled(&mut pair, 400_000, 500_000);
    assert!(before > 0.45 && marked < 0.05, "{before} {marked}");
    assert!(pair.sent.iter().all(|(_, length)| *length <= 1_098), "no trailer");
    assert_eq!(pair.receiver.receiver_stats(0).congestion_notifications, 0);
}

#[test]
fn other_receivers_echo_no_mark() {
    for flow in [flow(0), dcqcn(0), hpcc()] {
        let [_, mut receiver] = after_a_marked_frame(flow);
        let mut buffer = [0; 2_000];
        let mut now = at(1);
        while let Some(length) = receiver.poll_transmit(now, &mut buffer) {
            let packet = Packet::new(&buffer[..length]).unwrap();
            let operation = Repr::read(&packet).unwrap().operation;
            assert_eq!(packet.becn(), operation == Operation::CongestionNotification, "{operation:?}");
            now = receiver.next_wakeup(now).min(now + Span::from_micros(1));
        }
    }
}

/// As of a peer that does not know trailers, and of bytes that are none.
#[test]
fn without_a_trailer_nothing_is_told_and_nothing_breaks() {
    let cut: fn(Time, &mut Vec<u8>) = |_, frame| frame.truncate(frame.len() - 96);
    let spoil: fn(Time, &mut Vec<u8>) = |_, frame| {
        let at = frame.len() - 96;
        frame[at] ^= 1;
    };
    for meddler in [cut, spoil] {
        let mut pair = Pair::new(&[hpcc()]);
        pair.meddler = Some(Box::new(meddler));
        pair.run_until(at(200_000));
        let (sent, arrived) = (pair.sender.sender_stats(0), pair.receiver.receiver_stats(0));
        assert!(sent.messages_done > 20 && arrived.lost == 0 && arrived.gaps == 0, "{sent:?}");
        assert_eq!((pair.sender.counters().unreadable, pair.receiver.counters().bad_icrc), (0, 0));
    }
}

/// The memory for stamps goes from frame to frame.
#[test]
fn stamps_need_no_more_memory_the_longer_they_come() {
    let mut pair = Pair::new(&[hpcc()]);
    pair.meddler = stamping(2, Time::ZERO..Time::ZERO);
    let spare = |pair: &mut Pair, ns| {
        pair.run_until(at(ns));
        [&pair.sender, &pair.receiver].map(|host| host.spare_hops.len())
    };
    let before = spare(&mut pair, 100_000);
    assert!(before.iter().all(|boxes| (1..4).contains(boxes)), "{before:?}");
    assert_eq!(spare(&mut pair, 1_000_000), before);
}
