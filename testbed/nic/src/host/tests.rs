//! Hosts over links with delay, in virtual time.

mod queue;
mod stamps;

use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::ops::Range;

use crate::DelayLine;
use proptest::prelude::*;
use weir_units::{LINK_OVERHEAD, MacAddr, Span};
use weir_wire::mac_control::{ControlFrame, PfcFrame};
use weir_wire::rocev2::{Dscp, Ecn, Operation, Packet, PacketPosition, Psn, Repr, Reth, Syndrome};

use super::*;

const RATE: BitRate = BitRate::gbps(100);
const DELAY: Span = Span::from_micros(1);
const LOSSLESS: Class = Class::new(3);

fn config(n: u8) -> HostConfig {
    let mut config = HostConfig::new(MacAddr([2, 0, 0, 0, 0, n]), Ipv4Addr::new(10, 0, 0, n), RATE);
    config.group_of_dscp[3] = LOSSLESS.number();
    config
}

/// A flow from host 1 to host 2 without an end, its queue pairs numbered by `n`.
fn flow(n: u32) -> FlowConfig {
    FlowConfig {
        message: Bytes::kb(64),
        ..FlowConfig::new(QueuePair::new(0x100 + n), config(2).peer(QueuePair::new(0x200 + n)), LOSSLESS, Dscp::new(3))
    }
}

fn at(ns: u64) -> Time {
    Time::from_nanos(ns)
}

fn pfc(class: Class, quanta: u16) -> [u8; 60] {
    ControlFrame::Pfc(PfcFrame { enabled: class.alone(), times: [quanta; CLASSES] }).encode(MacAddr([2, 0, 0, 0, 1, 0]))
}

/// Sets CE, as a congested switch does.
fn mark(frame: &mut [u8]) {
    let packet = Packet::new(frame).unwrap();
    let marked = Repr { ecn: Ecn::Ce, ..Repr::read(&packet).unwrap() };
    let payload = packet.payload().to_vec();
    marked.write(&payload, frame).unwrap();
}

/// Host 1 sends, host 2 receives; the links between them lose what `loses` names.
struct Pair {
    sender: Host,
    receiver: Host,
    there: DelayLine<Vec<u8>>,
    back: DelayLine<Vec<u8>>,
    now: Time,
    /// Frames sent there: when, and how long.
    sent: Vec<(Time, usize)>,
    loses: Vec<usize>,
    /// From when to when every frame is marked on its way, as by a congested switch.
    marks: Range<Time>,
    /// What else happens to a frame on its way there.
    meddler: Option<Meddler>,
}

/// Changes frames.
type Meddler = Box<dyn FnMut(Time, &mut Vec<u8>)>;

impl Pair {
    fn new(flows: &[FlowConfig]) -> Pair {
        let receivers: Vec<ReceiverConfig> = flows.iter().map(|flow| flow.receiver(&config(1))).collect();
        Pair {
            sender: Host::new(config(1), flows, &[]).unwrap(),
            receiver: Host::new(config(2), &[], &receivers).unwrap(),
            there: DelayLine::new(DELAY, 10_000),
            back: DelayLine::new(DELAY, 10_000),
            now: Time::ZERO,
            sent: Vec::new(),
            loses: Vec::new(),
            marks: Time::ZERO..Time::ZERO,
            meddler: None,
        }
    }

    /// Goes from event to event until `end`.
    fn run_until(&mut self, end: Time) {
        let mut buffer = [0; 2_000];
        while self.now <= end {
            while let Some(frame) = self.there.poll(self.now) {
                self.receiver.handle_frame(self.now, &frame);
            }
            while let Some(frame) = self.back.poll(self.now) {
                self.sender.handle_frame(self.now, &frame);
            }
            while let Some(length) = self.sender.poll_transmit(self.now, &mut buffer) {
                if !self.loses.contains(&self.sent.len()) {
                    let mut frame = buffer[..length].to_vec();
                    if self.marks.contains(&self.now) {
                        mark(&mut frame);
                    }
                    if let Some(meddler) = &mut self.meddler {
                        meddler(self.now, &mut frame);
                    }
                    self.there.push(self.now, frame).unwrap();
                }
                self.sent.push((self.now, length));
            }
            while let Some(length) = self.receiver.poll_transmit(self.now, &mut buffer) {
                self.back.push(self.now, buffer[..length].to_vec()).unwrap();
            }
            let hosts = [&self.sender, &self.receiver].map(|host| host.next_wakeup(self.now));
            let links = [self.there.next_wakeup(), self.back.next_wakeup()];
            let next = hosts.into_iter().chain(links).min().unwrap();
            assert!(next > self.now, "a wakeup that changes nothing");
            self.now = next;
        }
        self.now = end;
    }
}

#[test]
fn a_flow_fills_the_line_exactly() {
    let mut pair = Pair::new(&[flow(0)]);
    pair.run_until(at(100_000));
    let wire = pair.sender.sender_stats(0).wire;
    let line = RATE.bytes_in(Span::from_micros(100));
    assert!(wire >= line && wire < line + Bytes::new(1_122), "{wire:?} in the time of {line:?}");
    let stats = pair.receiver.receiver_stats(0);
    assert_eq!((stats.lost, stats.gaps, stats.duplicates, stats.frames), (0, 0, 0, stats.in_order));
    assert!(stats.messages > 15);
}

#[test]
fn flows_take_turns() {
    let mut pair = Pair::new(&[flow(0), flow(1), flow(2)]);
    pair.run_until(at(50_000));
    let frames = [0, 1, 2].map(|n| pair.sender.sender_stats(n).frames);
    assert!(frames.iter().max().unwrap() - frames.iter().min().unwrap() <= 1, "{frames:?}");
}

#[test]
fn a_paced_flow_keeps_to_its_rate_and_leaves_the_rest() {
    let paced = FlowConfig { rate: Some(BitRate::gbps(25)), ..flow(0) };
    let mut pair = Pair::new(&[paced, flow(1)]);
    pair.run_until(at(100_000));
    let wire = [0, 1].map(|n| pair.sender.sender_stats(n).wire.get());
    let quarter = BitRate::gbps(25).bytes_in(Span::from_micros(100)).get();
    // It may be a frame ahead and a frame behind, however often it finds the line busy.
    assert!(wire[0].abs_diff(quarter) <= 2 * 1_122, "{wire:?}");
    assert!(wire[0] + wire[1] >= 4 * quarter);
}

fn dcqcn(n: u32) -> FlowConfig {
    FlowConfig {
        congestion_control: CongestionControlChoice::preset("dcqcn", RATE, Span::ZERO).expect("a preset"),
        ..flow(n)
    }
}

#[test]
fn marks_slow_a_controlled_flow_down_and_leave_the_line_to_others() {
    let mut pair = Pair::new(&[dcqcn(0), flow(1)]);
    pair.marks = at(100_000)..at(1_100_000);
    pair.run_until(at(1_100_000));
    let (notified, told) = (pair.sender.sender_stats(0), pair.receiver.receiver_stats(0));
    // One at once, and one each 50 us as long as the flow sends often enough: a frame takes 90 us at the lowest rate.
    assert!((12..=21).contains(&told.congestion_notifications), "{told:?}");
    assert_eq!(notified.congestion_notifications, told.congestion_notifications);
    let other = pair.receiver.receiver_stats(1);
    assert!(other.congestion_experienced > 5_000, "the other flow is marked as well");
    assert_eq!(other.congestion_notifications, 0, "and nobody controls it");
    let before = [0, 1].map(|n| pair.sender.sender_stats(n).wire);
    pair.run_until(at(1_110_000));
    let sent = [0, 1].map(|n| (pair.sender.sender_stats(n).wire - before[n]).get());
    let line = RATE.bytes_in(Span::from_micros(10)).get();
    assert!(sent[0] * 50 < line && sent[1] * 100 > line * 97, "{sent:?} of {line}");
}

#[test]
fn a_controlled_flow_recovers_when_marks_end() {
    let mut pair = Pair::new(&[dcqcn(0)]);
    pair.marks = at(100_000)..at(150_000);
    pair.run_until(at(2_000_000));
    let before = pair.sender.sender_stats(0).wire;
    pair.run_until(at(2_100_000));
    let sent = (pair.sender.sender_stats(0).wire - before).get();
    let line = RATE.bytes_in(Span::from_micros(100)).get();
    assert!(sent * 100 > line * 90, "{sent} of {line}");
    let stats = pair.receiver.receiver_stats(0);
    assert_eq!((stats.lost, stats.congestion_notifications), (0, 1));
}

/// Sender and receiver of a message of one frame, which was marked and has arrived.
fn after_a_marked_frame(flow: FlowConfig) -> [Host; 2] {
    let one = FlowConfig { message: Bytes::new(100), total: Some(Bytes::new(100)), ..flow };
    let mut sender = Host::new(config(1), std::slice::from_ref(&one), &[]).unwrap();
    let mut receiver = Host::new(config(2), &[], &[one.receiver(&config(1))]).unwrap();
    let mut buffer = [0; 2_000];
    let length = sender.poll_transmit(at(0), &mut buffer).unwrap();
    mark(&mut buffer[..length]);
    receiver.handle_frame(at(1), &buffer[..length]);
    [sender, receiver]
}

#[test]
fn notifications_go_before_acknowledgements_and_obey_pfc() {
    let [mut sender, mut receiver] = after_a_marked_frame(dcqcn(0));
    let mut buffer = [0; 2_000];
    receiver.handle_frame(at(1), &pfc(Class::new(6), 1_000));
    assert_eq!((receiver.poll_transmit(at(1), &mut buffer), receiver.next_wakeup(at(1))), (None, at(5_121)));
    let mut said = Vec::new();
    let mut now = at(5_121);
    while let Some(length) = receiver.poll_transmit(now, &mut buffer) {
        let repr = Repr::read(&Packet::new(&buffer[..length]).unwrap()).unwrap();
        said.push((repr.operation == Operation::CongestionNotification, repr.ecn, repr.dscp.get()));
        sender.handle_frame(now, &buffer[..length]);
        now = receiver.next_wakeup(now).min(now + Span::from_micros(1));
    }
    assert_eq!(said, [(true, Ecn::NotCapable, 48), (false, Ecn::Ect0, 48)]);
    assert_eq!(sender.sender_stats(0).congestion_notifications, 1);
}

#[test]
fn a_burst_is_released_on_time_and_its_completion_time_is_exact() {
    let burst =
        FlowConfig { start: at(10_000), stop: at(110_000), repeat: Repeat::Every(Span::from_micros(50)), ..flow(0) };
    let mut pair = Pair::new(&[burst]);
    assert_eq!(pair.sender.next_wakeup(Time::ZERO), at(10_000));
    pair.run_until(at(1_000_000));
    assert!(pair.sender.is_finished());
    // 63 frames: 1024 B of payload with RETH, 61 without, and 512 B, at 80 ps a byte on the wire.
    let last_starts = Span::from_picos((1_122 + 61 * 1_106) * 80);
    let done: Vec<Completion> = pair.sender.drain_completions().collect();
    let released: Vec<Time> = done.iter().map(|completion| completion.released).collect();
    assert_eq!(released, [at(10_000), at(60_000)], "110 us is past the end");
    for completion in done {
        assert_eq!((completion.size, completion.fct), (Bytes::kb(64), last_starts + DELAY * 2));
    }
    let stats = pair.sender.sender_stats(0);
    assert_eq!((stats.frames, stats.payload, stats.fct.count), (126, Bytes::kb(128), 2));
    assert_eq!(stats.fct.mean(), stats.fct.max);
}

#[test]
fn bursts_that_come_faster_than_the_line_queue_up() {
    let burst = FlowConfig { stop: at(10_000), repeat: Repeat::Every(Span::from_micros(1)), ..flow(0) };
    let mut pair = Pair::new(&[burst]);
    pair.run_until(at(1_000_000));
    let fcts: Vec<Span> = pair.sender.drain_completions().map(|completion| completion.fct).collect();
    assert_eq!(fcts.len(), 10);
    assert!(fcts.is_sorted(), "each waits for those before it");
}

#[test]
fn a_total_cuts_the_last_message() {
    let mut pair = Pair::new(&[FlowConfig { total: Some(Bytes::new(64_000 + 100)), ..flow(0) }]);
    pair.run_until(at(1_000_000));
    let stats = pair.sender.sender_stats(0);
    assert_eq!((stats.payload, stats.messages_done), (Bytes::new(64_100), 2));
    assert_eq!((pair.sender.is_finished(), pair.sender.next_wakeup(pair.now)), (true, Time::NEVER));
}

#[test]
fn pfc_holds_its_class_and_no_other() {
    let other = FlowConfig { class: Class::new(4), dscp: Dscp::new(4), ..flow(1) };
    let mut pair = Pair::new(&[flow(0), other]);
    pair.run_until(at(5_000));
    let before = [0, 1].map(|n| pair.sender.sender_stats(n).frames);
    // 1,000 quanta at 100 Gb/s are 5.12 us.
    pair.sender.handle_frame(pair.now, &pfc(LOSSLESS, 1_000));
    pair.run_until(at(10_119));
    assert_eq!(pair.sender.sender_stats(0).frames, before[0]);
    assert!(pair.sender.sender_stats(1).frames > before[1] + 50);
    pair.run_until(at(12_000));
    assert!(pair.sender.sender_stats(0).frames > before[0]);
    let class = pair.sender.class_stats(pair.now, LOSSLESS);
    assert_eq!((class.pauses, class.paused_for, class.xoff_frames), (1, Span::from_nanos(5_120), 1));
}

#[test]
fn a_paused_host_wakes_when_the_pause_ends_or_is_ended() {
    let mut pair = Pair::new(&[flow(0)]);
    pair.sender.handle_frame(at(0), &pfc(LOSSLESS, 1_000));
    // Another class's timer, which ends earlier, is no reason to wake.
    pair.sender.handle_frame(at(0), &pfc(Class::new(5), 10));
    assert_eq!(pair.sender.next_wakeup(at(0)), at(5_120));
    pair.sender.handle_frame(at(2_000), &pfc(LOSSLESS, 0));
    assert_eq!(pair.sender.next_wakeup(at(2_000)), at(2_000));
    assert_eq!(pair.sender.class_stats(at(2_000), LOSSLESS).xon_frames, 1);
}

#[test]
fn acknowledgements_obey_pfc_in_their_own_class() {
    let mut pair = Pair::new(&[FlowConfig { total: Some(Bytes::kb(64)), ..flow(0) }]);
    pair.receiver.handle_frame(at(0), &pfc(Class::new(6), 10_000));
    pair.run_until(at(51_000));
    assert_eq!(pair.sender.sender_stats(0).messages_done, 0);
    assert_eq!(pair.receiver.next_wakeup(pair.now), at(51_200));
    pair.run_until(at(53_000));
    assert_eq!(pair.sender.sender_stats(0).messages_done, 1);
    // With their data: in its class, or in none.
    for (acks, done) in [(AckClass::WithData, 0), (AckClass::WithDataUnpaused, 1)] {
        let mut pair = Pair::new(&[FlowConfig { total: Some(Bytes::kb(64)), ..flow(0) }]);
        pair.receiver.config.acks = acks;
        pair.receiver.handle_frame(at(0), &pfc(LOSSLESS, 10_000));
        pair.run_until(at(51_000));
        assert_eq!(pair.sender.sender_stats(0).messages_done, done, "{acks:?}");
    }
}

#[test]
fn a_lost_frame_is_a_gap_and_a_lost_acknowledgement_is_not() {
    let mut pair = Pair::new(&[FlowConfig { total: Some(Bytes::kb(192)), ..flow(0) }]);
    // One within the first message; the last frame of the second, so that nothing asks for its acknowledgement.
    pair.loses = vec![10, 125];
    pair.run_until(at(1_000_000));
    let (sent, arrived) = (pair.sender.sender_stats(0), pair.receiver.receiver_stats(0));
    assert_eq!((arrived.lost, arrived.gaps, arrived.in_order), (2, 2, 189 - 4));
    assert_eq!((arrived.messages, sent.messages_done), (2, 3), "the third acknowledgement covers the second");
}

#[test]
fn strange_frames_are_counted_and_ignored() {
    let mut host = Host::new(config(2), &[], &[flow(0).receiver(&config(1))]).unwrap();
    let mut sender = Host::new(config(1), &[flow(0), flow(1)], &[]).unwrap();
    let mut buffer = [0; 2_000];
    let length = sender.poll_transmit(Time::ZERO, &mut buffer).unwrap();
    let good = buffer[..length].to_vec();
    let mut damaged = good.clone();
    damaged[100] ^= 1;
    let mut foreign = good.clone();
    foreign[5] = 77;
    let length = sender.poll_transmit(at(1_000), &mut buffer).unwrap();
    for frame in [&good[..], &damaged, &foreign, &good[..40], &[], &buffer[..length], &pfc(LOSSLESS, 1)[..20]] {
        host.handle_frame(at(2_000), frame);
    }
    let expected = NicCounters {
        control_ignored: 1,
        foreign: 2,
        unreadable: 1,
        bad_icrc: 1,
        unknown_queue_pair: 1,
        ..NicCounters::default()
    };
    assert_eq!((*host.counters(), host.receiver_stats(0).frames), (expected, 1));
}

#[test]
fn what_makes_no_host_is_refused() {
    let refused = |flows: &[FlowConfig]| Host::new(config(1), flows, &[]).unwrap_err();
    assert_eq!(refused(&[flow(0), flow(0)]), HostError::QueuePairTwice(QueuePair::new(0x100)));
    let empty = FlowConfig { message: Bytes::ZERO, ..flow(0) };
    assert_eq!(refused(&[empty]), HostError::MessageSize(Bytes::ZERO));
    let no_period = FlowConfig { repeat: Repeat::Every(Span::ZERO), ..flow(0) };
    assert_eq!(refused(&[no_period]), HostError::NoPeriod(QueuePair::new(0x100)));
    let no_total = FlowConfig { total: Some(Bytes::ZERO), ..flow(0) };
    assert_eq!(refused(&[no_total]), HostError::NoTotal(QueuePair::new(0x100)));
}

/// A flow of up to 40 messages with some pace and start.
fn any_flow(n: u32) -> impl Strategy<Value = FlowConfig> {
    let repeat = prop_oneof![Just(Repeat::BackToBack), (1..20u64).prop_map(|us| Repeat::Every(Span::from_micros(us)))];
    let sizes = (1..10_000u64, 1..40_000u64);
    (sizes, 0..20_000u64, repeat, prop::option::of(1..100u64), 3..5u8).prop_map(
        move |((message, total), start, repeat, rate, class)| FlowConfig {
            message: Bytes::new(message),
            total: Some(Bytes::new(total.min(40 * message))),
            start: at(start),
            repeat,
            rate: rate.map(BitRate::gbps),
            class: Class::new(class),
            ..flow(n)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the flows and the pauses: frames never overlap on the wire, no paused class sends, and in the end
    /// everything has arrived in order and is acknowledged.
    #[test]
    fn everything_arrives_whatever_is_paused(
        flows in (any_flow(0), any_flow(1), any_flow(2)),
        pauses in prop::collection::vec((0..200_000u64, 3..7u8, 0..2_000u16), 0..20),
    ) {
        let flows = [flows.0, flows.1, flows.2];
        let mut pair = Pair::new(&flows);
        let mut pauses = pauses;
        pauses.sort();
        for (ns, class, quanta) in pauses {
            pair.run_until(at(ns));
            let sent = pair.sent.len();
            pair.sender.handle_frame(pair.now, &pfc(Class::new(class), quanta));
            pair.receiver.handle_frame(pair.now, &pfc(Class::new(class), quanta));
            prop_assert_eq!(pair.sender.paused(pair.now).contains(Class::new(class)), quanta > 0);
            prop_assert_eq!(pair.sent.len(), sent);
        }
        pair.run_until(at(3_000_000));
        prop_assert!(pair.sender.is_finished());
        for pairs in pair.sent.windows(2) {
            let wire = RATE.time_for(weir_flowctl::wire_bytes(pairs[0].1 as u32, LINK_OVERHEAD));
            prop_assert!(pairs[0].0 + wire <= pairs[1].0);
        }
        for (n, flow) in flows.iter().enumerate() {
            let (sent, arrived) = (pair.sender.sender_stats(n), pair.receiver.receiver_stats(n));
            prop_assert_eq!(Some(sent.payload), flow.total);
            prop_assert_eq!((arrived.payload, arrived.in_order), (sent.payload, sent.frames));
            prop_assert_eq!((sent.messages_done, arrived.messages), (sent.messages_sent, sent.messages_sent));
        }
    }
}

/// An emulated host and a real one that chooses its own numbers.
#[test]
fn ends_that_are_told_of_each_other_later_begin_where_they_are_told() {
    let first = Psn::new(0xff_fff0);
    let waiting = FlowConfig { peer: Peer::UNKNOWN, total: Some(Bytes::kb(64)), ..flow(0) };
    let mut pair = Pair::new(&[flow(0)]);
    pair.sender = Host::new(config(1), &[waiting], &[]).unwrap();
    pair.run_until(at(10_000));
    assert!(pair.sent.is_empty() && !pair.sender.is_finished());
    pair.receiver.connect_receiver(0, config(1).peer(QueuePair::new(0x100)), first);
    let memory = RemoteMemory { virtual_address: 0x7f00_dead_0000, remote_key: 0x2f7 };
    pair.sender.connect_sender(pair.now, 0, Peer { memory, ..config(2).peer(QueuePair::new(0x200)) }, first);
    let mut buffer = [0; 2_000];
    let length = pair.sender.poll_transmit(pair.now, &mut buffer).unwrap();
    let repr = Repr::read(&Packet::new(&buffer[..length]).unwrap()).unwrap();
    let reth = Reth { virtual_address: 0x7f00_dead_0000, remote_key: 0x2f7, message_bytes: 64_000 };
    assert_eq!((repr.psn, repr.queue_pair), (first, QueuePair::new(0x200)));
    assert_eq!(repr.operation, Operation::Write { position: PacketPosition::First(reth), ack_request: false });
    pair.receiver.handle_frame(pair.now, &buffer[..length]);
    pair.run_until(at(1_000_000));
    let (sent, arrived) = (pair.sender.sender_stats(0), pair.receiver.receiver_stats(0));
    assert!(pair.sender.is_finished() && sent.messages_done == 1, "{sent:?}");
    assert_eq!((arrived.in_order, arrived.payload, arrived.lost), (sent.frames, Bytes::kb(64), 0));
}

/// Frames of a host's own software are serialised on the wire, and are paused with their class.
#[test]
fn other_frames_take_turns_on_the_wire() {
    let mut host = Host::new(config(1), &[flow(0)], &[]).unwrap();
    let mut buffer = [0; 2_000];
    let best_effort = Class::new(0);
    assert!(host.try_send_software_frame(at(0), best_effort, 1_000));
    assert!(
        !host.try_send_software_frame(at(1), best_effort, 1_000) && host.poll_transmit(at(1), &mut buffer).is_none()
    );
    let free = at(82);
    assert!(host.poll_transmit(free, &mut buffer).is_some());
    host.handle_frame(free, &pfc(best_effort, 1_000));
    assert!(
        !host.try_send_software_frame(at(1_000), best_effort, 1_000)
            && host.try_send_software_frame(at(1_000), LOSSLESS, 1_000)
    );
}

/// An acknowledgement of the second host's to the first one's flow 0, as a NIC would write it.
fn acknowledgement(syndrome: Syndrome, psn: u32) -> Vec<u8> {
    let repr = Repr {
        destination: config(1).mac,
        source: config(2).mac,
        destination_ip: config(1).ip,
        source_ip: config(2).ip,
        dscp: config(2).ack_dscp,
        ecn: Ecn::NotCapable,
        source_port: 0xc000,
        queue_pair: QueuePair::new(0x100),
        psn: Psn::new(psn),
        operation: Operation::Acknowledge { syndrome, msn: 0, becn: false },
    };
    let mut buffer = vec![0; 100];
    let length = repr.write(&[], &mut buffer).unwrap();
    buffer.truncate(length);
    buffer
}

/// The sequence numbers of what a host sends until an instant.
fn psns_until(host: &mut Host, from: Time, until: Time) -> Vec<(Time, u32)> {
    let (mut now, mut sent, mut buffer) = (from, Vec::new(), [0; 2_000]);
    loop {
        now = host.next_wakeup(now);
        if now >= until {
            return sent;
        }
        if let Some(length) = host.poll_transmit(now, &mut buffer) {
            sent.push((now, Repr::read(&Packet::new(&buffer[..length]).unwrap()).unwrap().psn.get()));
        }
    }
}

#[test]
fn a_receiver_without_a_buffer_is_waited_for() {
    let mut host = Host::new(config(1), &[FlowConfig { total: Some(Bytes::kb(64)), ..flow(0) }], &[]).unwrap();
    let sent = psns_until(&mut host, at(0), at(5_000));
    assert!((1..60).contains(&sent.len()), "{sent:?}");
    // 640 us, and packets 0 and 1 have come.
    host.handle_frame(at(5_000), &acknowledgement(Syndrome::RnrNak { timer: 12 }, 2));
    let again = psns_until(&mut host, at(5_000), at(2_000_000));
    assert_eq!(again[0], (at(645_000), 2));
    assert_eq!(again.iter().map(|(_, psn)| *psn).collect::<Vec<_>>(), (2..63).collect::<Vec<_>>());
    host.handle_frame(at(2_000_000), &acknowledgement(Syndrome::ACK, 62));
    let stats = host.sender_stats(0);
    assert_eq!((stats.rnr_naks, stats.naks, stats.messages_done), (1, 0, 1));
    assert!(host.is_finished() && host.refusal(0).is_none());
}

#[test]
fn a_receiver_that_refuses_ends_the_flow() {
    for refusal in NakCode::ALL {
        let retransmission = Some(Span::from_millis(1));
        let endless = FlowConfig { ack_every: NonZeroU32::new(4), retransmission, ..flow(0) };
        let mut host = Host::new(config(1), &[endless], &[]).unwrap();
        assert!(psns_until(&mut host, at(0), at(5_000)).len() > 1);
        host.handle_frame(at(5_000), &acknowledgement(Syndrome::Nak(refusal), 1));
        assert_eq!(psns_until(&mut host, at(5_000), at(50_000_000)), [], "{refusal:?}");
        let stats = host.sender_stats(0);
        assert_eq!((host.refusal(0), host.is_flow_finished(0), stats.timeouts), (Some(refusal), true, 0));
        assert_eq!((stats.refusals.iter().sum::<u64>(), stats.refusals[refusal as usize]), (1, 1));
        assert_eq!((host.counters().unreadable, host.counters().unknown_queue_pair), (0, 0));
    }
}

/// SENDs are shorter by the RETH of the first packet, and arrive as WRITEs do.
#[test]
fn messages_may_be_sends() {
    let mut pair = Pair::new(&[FlowConfig { operation: RdmaOperation::Send, total: Some(Bytes::kb(128)), ..flow(0) }]);
    let mut buffer = [0; 2_000];
    let length = pair.sender.poll_transmit(Time::ZERO, &mut buffer).unwrap();
    let repr = Repr::read(&Packet::new(&buffer[..length]).unwrap()).unwrap();
    assert_eq!((length, repr.psn), (1_024 + 58, Psn::new(0)));
    assert_eq!(repr.operation, Operation::Send { is_first: true, is_last: false, ack_request: false });
    pair.receiver.handle_frame(at(1_000), &buffer[..length]);
    pair.run_until(at(1_000_000));
    let (sent, arrived) = (pair.sender.sender_stats(0), pair.receiver.receiver_stats(0));
    assert_eq!((sent.messages_done, arrived.messages, arrived.payload), (2, 2, Bytes::kb(128)));
    assert_eq!((arrived.in_order, arrived.lost), (sent.frames, 0));
}
