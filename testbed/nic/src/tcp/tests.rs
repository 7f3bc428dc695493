//! Both ends of a connection together.

use std::mem::size_of;

use proptest::prelude::*;
use weir_units::{BitRate, Span, Time};

use super::bottleneck::{Bottleneck, Path};
use super::*;

const MSS: u64 = 1_000;

fn at(us: u64) -> Time {
    Time::from_nanos(1_000 * us)
}

fn config(control: TcpCongestionChoice) -> TcpConfig {
    TcpConfig { mss: MSS as u32, delayed_ack: None, ..TcpConfig::linux(control) }
}

fn cubic() -> TcpCongestionChoice {
    TcpCongestionChoice::cubic()
}

fn dctcp() -> TcpCongestionChoice {
    TcpCongestionChoice::dctcp()
}

#[test]
fn what_is_sent_first_is_unscheduled() {
    let mut pair = Pair::new(TcpConfig { unscheduled: Bytes::new(12 * MSS - 1), ..config(cubic()) }, 30);
    let marked = |sent: &[Segment]| sent.iter().map(|segment| segment.is_unscheduled).collect::<Vec<_>>();
    let first = pair.sent();
    assert_eq!(marked(&first), [true; 10]);
    // A segment that is begun is whole; what is sent again counts too.
    pair.now = 1_000_000;
    pair.sender.handle_timeout(at(pair.now));
    let again = pair.sent();
    assert!(again[0].is_retransmission && again[0].is_unscheduled, "{again:?}");
    let sent = pair.round_trip(&again, false);
    assert_eq!(marked(&sent)[..2], [true, false], "{sent:?}");
    let mut none = Pair::new(config(cubic()), 30);
    assert_eq!(marked(&none.sent()), [false; 10]);
}

/// Two ends and a path of 5 ms each way that carries all but what the test takes out.
struct Pair {
    now: u64,
    sender: TcpSender,
    receiver: TcpReceiver,
}

impl Pair {
    fn new(config: TcpConfig, segments: u64) -> Pair {
        let mut sender = TcpSender::new(&config);
        sender.write(segments * MSS);
        Pair { now: 0, sender, receiver: TcpReceiver::new(&config) }
    }

    /// All segments that may be sent now, by their numbers.
    fn sent(&mut self) -> Vec<Segment> {
        std::iter::from_fn(|| self.sender.poll_segment(at(self.now))).collect()
    }

    /// These segments arrive after 5 ms and their acknowledgements after 10; what each of these makes the sender send.
    fn round_trip(&mut self, segments: &[Segment], is_ce: bool) -> Vec<Segment> {
        let mut acks = Vec::new();
        for segment in segments {
            acks.extend(self.receiver.handle_segment(at(self.now + 5_000), segment, is_ce));
            acks.extend(self.receiver.poll_ack(at(self.now + 5_000)));
        }
        self.now += 10_000;
        let mut sent = Vec::new();
        for ack in acks {
            self.sender.handle_ack(at(self.now), &ack);
            sent.extend(self.sent());
        }
        sent
    }

    /// Runs without losses until all is acknowledged.
    fn finish(&mut self, mut segments: Vec<Segment>) {
        while !segments.is_empty() {
            segments = self.round_trip(&segments, false);
        }
        assert_eq!(self.sender.acked(), self.sender.written());
        assert_eq!((self.receiver.received(), self.receiver.held()), (self.sender.written(), 0));
        assert_eq!((self.sender.in_flight(), self.sender.next_timeout()), (0, Time::NEVER));
    }
}

fn numbers(segments: &[Segment]) -> Vec<u64> {
    segments.iter().map(|segment| segment.seq / MSS).collect()
}

fn without(segments: &[Segment], lost: &[u64]) -> Vec<Segment> {
    segments.iter().copied().filter(|segment| !lost.contains(&(segment.seq / MSS))).collect()
}

#[test]
fn an_idle_connection_is_small() {
    assert!(size_of::<TcpSender>() <= 512, "{}", size_of::<TcpSender>());
    assert!(size_of::<TcpReceiver>() <= 192, "{}", size_of::<TcpReceiver>());
}

#[test]
fn a_flow_starts_with_ten_segments_and_doubles_them() {
    let mut pair = Pair::new(config(cubic()), 70);
    let first = pair.sent();
    assert_eq!(numbers(&first), (0..10).collect::<Vec<_>>());
    assert_eq!((pair.sender.in_flight(), pair.sender.next_timeout()), (10 * MSS, at(1_000_000)));
    assert!(!pair.sender.can_send());
    let second = pair.round_trip(&first, false);
    assert_eq!(numbers(&second), (10..30).collect::<Vec<_>>());
    assert_eq!(pair.sender.smoothed_rtt(), Some(Span::from_millis(10)));
    assert_eq!(pair.sender.next_timeout(), at(10_000 + 200_000));
    let third = pair.round_trip(&second, false);
    assert_eq!(numbers(&third), (30..70).collect::<Vec<_>>());
    assert_eq!((third[38].push, third[39].push), (false, true));
    pair.finish(third);
    assert_eq!(pair.sender.stats(), TcpStats { segments: 70, ..TcpStats::default() });
}

#[test]
fn the_receivers_window_bounds_what_is_sent() {
    let mut pair = Pair::new(TcpConfig { window_max: Bytes::new(3_500), ..config(cubic()) }, 5);
    let first = pair.sent();
    assert_eq!(numbers(&first), [0, 1, 2], "whole segments");
    assert_eq!(numbers(&pair.round_trip(&first[..1], false)), [3]);
    let mut none = Pair::new(TcpConfig { window_max: Bytes::ZERO, ..config(cubic()) }, 5);
    assert_eq!(numbers(&none.sent()), [0], "one is always allowed");
}

#[test]
fn a_loss_is_repaired_within_a_round_trip_and_cuts_the_window_once() {
    let mut pair = Pair::new(config(cubic()), 40);
    let first = pair.sent();
    let second = pair.round_trip(&first, false);
    // 20 on their way, 10 to 29; 12 is lost. 10 and 11 let four more go, and the first two SACKs one each: limited
    // transmit.
    let third = pair.round_trip(&without(&second, &[12]), false);
    let again: Vec<_> = third.iter().filter(|segment| segment.is_retransmission).map(|s| s.seq / MSS).collect();
    assert_eq!((again, numbers(&third)[..7].to_vec()), (vec![12], vec![30, 31, 32, 33, 34, 35, 12]));
    assert_eq!(pair.sender.window(), 22 * 700, "β times the 22 that two more acknowledgements had made of 20");
    pair.finish(third);
    let stats = TcpStats { segments: 41, retransmissions: 1, fast_recoveries: 1, ..TcpStats::default() };
    assert_eq!(pair.sender.stats(), stats);
}

#[test]
fn many_losses_of_one_window_are_repaired_without_a_timeout() {
    for control in [TcpCongestionChoice::reno(), cubic(), dctcp()] {
        let mut pair = Pair::new(config(control.clone()), 60);
        let first = pair.sent();
        let second = pair.round_trip(&first, false);
        let third = pair.round_trip(&without(&second, &[11, 12, 17, 20, 25]), false);
        assert!(third.iter().any(|segment| segment.seq / MSS == 25 && segment.is_retransmission), "{control:?}");
        pair.finish(third);
        let stats = pair.sender.stats();
        assert_eq!((stats.retransmissions, stats.fast_recoveries, stats.timeouts), (5, 1, 0), "{control:?}");
    }
}

#[test]
fn segments_up_to_two_late_are_not_sent_again() {
    let mut pair = Pair::new(config(cubic()), 10);
    let mut first = pair.sent();
    // 0 after 1 and 2; 5 after 6 and 7; 9 before 8.
    first[..3].rotate_left(1);
    first[5..8].rotate_left(1);
    first.swap(8, 9);
    assert_eq!(numbers(&first), [1, 2, 0, 3, 4, 6, 7, 5, 9, 8]);
    let sent = pair.round_trip(&first, false);
    pair.finish(sent);
    assert_eq!(pair.sender.stats(), TcpStats { segments: 10, ..TcpStats::default() });
    // Three late, and it is taken for lost.
    let mut pair = Pair::new(config(cubic()), 10);
    let mut first = pair.sent();
    first[..4].rotate_left(1);
    let sent = pair.round_trip(&first, false);
    // As nothing is left that is new, the tail may go with it (RFC 6675, NextSeg, rule 4).
    assert_eq!(numbers(&sent), [0, 9]);
    pair.finish(sent);
}

#[test]
fn a_lost_tail_is_sent_again_after_a_timeout() {
    let mut pair = Pair::new(config(cubic()), 10);
    let first = pair.sent();
    let sent = pair.round_trip(&without(&first, &[8, 9]), false);
    assert_eq!((numbers(&sent), pair.sender.next_timeout()), (vec![], at(210_000)));
    pair.sender.handle_timeout(at(209_999));
    assert_eq!(pair.sender.stats().timeouts, 0);
    pair.now = 210_000;
    pair.sender.handle_timeout(at(210_000));
    let again = pair.sent();
    assert_eq!((numbers(&again), pair.sender.window()), (vec![8], MSS));
    // Lost again: twice as long, the same threshold.
    let threshold = pair.sender.slow_start_threshold();
    assert_eq!(pair.sender.next_timeout(), at(610_000));
    pair.now = 610_000;
    pair.sender.handle_timeout(at(610_000));
    assert_eq!(pair.sender.slow_start_threshold(), threshold);
    let again = pair.sent();
    pair.finish(again);
    assert_eq!((pair.sender.stats().timeouts, pair.sender.stats().retransmissions), (2, 3));
}

#[test]
fn after_a_timeout_what_was_sacked_is_not_sent_again() {
    let mut pair = Pair::new(config(cubic()), 10);
    let first = pair.sent();
    // Two beyond: too few for a fast retransmission.
    let sent = pair.round_trip(&without(&first, &[0, 1, 2, 5, 6, 7, 8, 9]), false);
    assert!(sent.is_empty());
    pair.now = 1_000_000;
    pair.sender.handle_timeout(at(1_000_000));
    let mut again = pair.sent();
    let mut order = Vec::new();
    while !again.is_empty() {
        order.extend(numbers(&again));
        again = pair.round_trip(&again, false);
    }
    assert_eq!((order, pair.sender.acked()), (vec![0, 1, 2, 5, 6, 7, 8, 9], 10 * MSS));
}

/// A sender with ten segments on their way, to which an acknowledgement came at 10 ms if a block beyond is said.
fn ten_sent(config: &TcpConfig, sack: Option<(u64, u64)>) -> TcpSender {
    let mut sender = TcpSender::new(config);
    sender.write(30 * MSS);
    while sender.poll_segment(Time::ZERO).is_some() {}
    if let Some(sack) = sack {
        acknowledge(&mut sender, 10, 0, Some(sack));
    }
    sender
}

/// An acknowledgement of so many segments at so many ms; whatever may be sent then is.
fn acknowledge(sender: &mut TcpSender, ms: u64, segments: u64, sack: Option<(u64, u64)>) {
    let sack = sack.map(|(start, end)| (start * MSS, end * MSS));
    let ack = Ack { ack: segments * MSS, ece: false, sack: [sack, None, None], echo: at(1_000 * (ms - 10)) };
    sender.handle_ack(at(1_000 * ms), &ack);
    while sender.poll_segment(at(1_000 * ms)).is_some() {}
}

#[test]
fn in_recovery_each_acknowledgement_that_moves_on_restarts_the_timer_or_the_first_alone() {
    let timeouts = |is_impatient| {
        let mut sender = ten_sent(&TcpConfig { is_impatient, ..config(cubic()) }, Some((4, 7)));
        [(20, 1), (30, 2), (40, 20)].map(|(ms, segments)| {
            acknowledge(&mut sender, ms, segments, Some((4, 7)).filter(|_| segments < 4));
            sender.next_timeout().as_nanos() / 1_000_000
        })
    };
    // The least timeout is 200 ms. The last ends the recovery.
    assert_eq!(timeouts(false)[..2], [220, 230]);
    assert_eq!(timeouts(true)[..2], [220, 220]);
    let mut sender = ten_sent(&TcpConfig { is_impatient: true, ..config(cubic()) }, Some((4, 7)));
    acknowledge(&mut sender, 20, 1, Some((4, 7)));
    acknowledge(&mut sender, 30, 10, None);
    assert_eq!(sender.next_timeout(), at(230_000), "all is repaired");
}

#[test]
fn the_window_grows_by_what_arrives_or_by_what_the_number_moves_on() {
    let windows = |grows_by_acked| {
        let mut sender = ten_sent(&TcpConfig { grows_by_acked, ..config(TcpCongestionChoice::reno()) }, Some((4, 6)));
        sender.handle_timeout(at(1_000_000));
        assert_eq!((sender.window(), sender.slow_start_threshold()), (MSS, Some(5 * MSS)));
        while sender.poll_segment(at(1_000_000)).is_some() {}
        // Two of nine segments were SACKed before; slow start goes to 5 of them.
        acknowledge(&mut sender, 1_010, 9, None);
        sender.window()
    };
    let by_arrived = windows(false);
    assert!((5 * MSS..6 * MSS).contains(&by_arrived), "{by_arrived}");
    assert_eq!(windows(true), 10 * MSS);
    // Nothing while something else is missing, and at the end of a recovery all of the last acknowledgement, in avoidance.
    let mut sender = ten_sent(&TcpConfig { grows_by_acked: true, ..config(TcpCongestionChoice::reno()) }, None);
    acknowledge(&mut sender, 10, 1, Some((2, 3)));
    assert_eq!(sender.window(), 10 * MSS);
    acknowledge(&mut sender, 11, 1, Some((2, 5)));
    assert_eq!((sender.window(), sender.stats().fast_recoveries), (5 * MSS, 1));
    acknowledge(&mut sender, 20, 12, None);
    assert!(sender.window() > 6 * MSS, "5 + 11 / 5: {}", sender.window());
}

#[test]
fn a_timeout_in_turn_leaves_the_threshold_or_cuts_again() {
    let thresholds = |cuts_at_each_timeout, sack| {
        let mut sender = ten_sent(&TcpConfig { cuts_at_each_timeout, ..config(cubic()) }, sack);
        [1_000_000, 4_000_000].map(|us| {
            sender.handle_timeout(at(us));
            while sender.poll_segment(at(us)).is_some() {}
            sender.slow_start_threshold().unwrap() / 100
        })
    };
    assert_eq!((thresholds(false, None), thresholds(true, None)), ([70, 70], [70, 20]));
    // In recovery: 7 after the cut and 4.9 after another; six segments were on their way at the end, and one was sent.
    assert_eq!(thresholds(false, Some((4, 7)))[0], 49);
    let each = thresholds(true, Some((4, 7)))[0];
    assert!((20..49).contains(&each), "{each}");
}

#[test]
fn marks_cut_once_a_window_and_are_answered() {
    let mut pair = Pair::new(TcpConfig { ecn: true, ..config(cubic()) }, 100);
    let first = pair.sent();
    assert!(first.iter().all(|segment| segment.ect && !segment.cwr));
    let second = pair.round_trip(&first, true);
    assert_eq!((pair.sender.window(), pair.sender.stats().ecn_cuts), (7 * MSS, 1), "each acknowledgement has ECE");
    // The first three make room for nothing.
    assert_eq!(numbers(&second), (10..17).collect::<Vec<_>>());
    assert_eq!(second.iter().filter(|segment| segment.cwr).count(), 1);
    assert!(second[0].cwr);
    // CWR has arrived: no further ECE.
    let third = pair.round_trip(&second, false);
    assert_eq!((pair.sender.window() / MSS, pair.sender.stats().ecn_cuts), (7, 1));
    assert!(third.iter().all(|segment| !segment.cwr));
    pair.round_trip(&third, true);
    assert_eq!(pair.sender.stats().ecn_cuts, 2);
}

#[test]
fn only_dctcp_lets_retransmissions_be_marked() {
    for (control, expected) in [(cubic(), false), (dctcp(), true)] {
        let mut pair = Pair::new(TcpConfig { ecn: true, ..config(control) }, 10);
        let first = pair.sent();
        let sent = pair.round_trip(&without(&first, &[0]), false);
        assert_eq!(sent.iter().map(|s| (s.seq, s.ect, s.is_retransmission)).collect::<Vec<_>>(), [(0, expected, true)]);
    }
}

#[test]
fn dctcp_learns_the_share_of_marks_through_both_ends() {
    let mut pair = Pair::new(TcpConfig { window_max: Bytes::new(10 * MSS), ..config(dctcp()) }, 10_000);
    let mut segments = pair.sent();
    for n in 0..4_000u64 {
        // Every fifth.
        let one = segments.remove(0);
        let acks = [pair.receiver.handle_segment(at(n), &one, n % 5 == 0), pair.receiver.poll_ack(at(n))];
        acks.iter().flatten().for_each(|ack| pair.sender.handle_ack(at(n), ack));
        pair.now = n;
        segments.extend(pair.sent());
    }
    let alpha = {
        let mut shown = Vec::new();
        pair.sender.gauges(&mut |value| shown.push(value));
        shown.pop().expect("DCTCP's last gauge is α")
    };
    assert!((0.12..0.3).contains(&alpha), "1/5, give or take what a window of few segments has: {alpha}");
}

#[test]
fn after_a_pause_the_initial_window() {
    let mut pair = Pair::new(config(TcpCongestionChoice::reno()), 30);
    let sent = pair.sent();
    pair.finish(sent);
    let window = pair.sender.window();
    assert!(window >= 20 * MSS);
    for (pause, expected) in [(100_000, window), (1_000_000, 10 * MSS)] {
        pair.now += pause;
        pair.sender.write(MSS);
        let sent = pair.sent();
        assert_eq!(pair.sender.window(), expected);
        pair.finish(sent);
    }
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut pair = Pair::new(config(cubic()), 2);
    for _ in 0..20 {
        let sent = pair.sent();
        pair.finish(sent);
        pair.sender.write(2 * MSS);
    }
    assert_eq!(pair.sender.window(), 10 * MSS);
}

/// 10 Mb/s and 40 ms: 43 segments are on their way.
fn slow_path(room: usize) -> Path {
    Path { rate: BitRate::mbps(10), rtt: Span::from_millis(40), room, mark_at: usize::MAX, lose_each: u64::MAX }
}

/// 1 Gb/s and 200 us.
fn fast_path(mark_at: usize) -> Path {
    Path { rate: BitRate::gbps(1), rtt: Span::from_micros(200), room: 1_000, mark_at, lose_each: u64::MAX }
}

fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>())
}

#[test]
fn cubic_alone_fills_the_link_and_keeps_seven_tenths_after_a_loss() {
    let linux = TcpConfig::linux(cubic());
    let mut path = Bottleneck::new(slow_path(40), std::slice::from_ref(&linux));
    path.start(0);
    path.run_for(Span::from_secs(4));
    path.measure();
    let (mut windows, mut recoveries) = (Vec::new(), path.senders[0].stats().fast_recoveries);
    for _ in 0..16_000 {
        let before = path.senders[0].window();
        path.run_for(Span::from_millis(1));
        if path.senders[0].stats().fast_recoveries > recoveries {
            recoveries += 1;
            windows.push(path.senders[0].window() as f64 / before as f64);
        }
    }
    let stats = path.senders[0].stats();
    assert!(path.shares(linux.mss)[0] > 0.95, "{:?}", path.shares(linux.mss));
    assert!(windows.len() > 1 && windows.iter().all(|kept| (0.69..0.72).contains(kept)), "{windows:?}");
    assert_eq!((stats.timeouts, stats.retransmissions), (0, path.drops), "nothing is sent again that has arrived");
}

#[test]
fn what_slow_start_loses_beyond_a_long_path_is_repaired() {
    // 1 Gb/s and 20 ms: 1650 segments, and a queue of 200.
    let long = Path { rate: BitRate::gbps(1), rtt: Span::from_millis(20), ..slow_path(200) };
    let mut path = Bottleneck::new(long, &[TcpConfig { window_max: Bytes::mb(64), ..TcpConfig::linux(cubic()) }]);
    path.start(0);
    path.run_for(Span::from_millis(300));
    let stats = path.senders[0].stats();
    assert!(path.drops > 200, "{}", path.drops);
    assert_eq!((stats.timeouts, stats.fast_recoveries, stats.retransmissions), (0, 1, path.drops), "each once");
}

#[test]
fn hystart_lets_slow_start_overshoot_by_less() {
    // 1650 segments and a queue of 600. Rounds begin in the midst of a window's acknowledgements, where the window was 16
    // segments, so a train is seen from there on only: the queue overflows with HyStart too, by what half a window more brings.
    let long = Path { rate: BitRate::gbps(1), rtt: Span::from_millis(20), ..slow_path(600) };
    let drops = ["true", "false"].map(|hystart| {
        let kind = kinds().find(|kind| kind.id() == "tcp-cubic").unwrap();
        let connection = [("preset", "linux"), ("window_max", "64MB")];
        let config = TcpConfig::parse(kind, &connection, &[("hystart", hystart)]).unwrap();
        let mut path = Bottleneck::new(long, &[config]);
        path.start(0);
        path.run_for(Span::from_millis(300));
        path.drops
    });
    assert!(drops[0] > 0 && 2 * drops[0] < drops[1], "{drops:?}");
}

#[test]
fn cubic_does_as_reno_does_over_a_short_path() {
    // One of a hundred is lost: sqrt(3/2 · 100) = 12.2 segments a round trip of 10 ms, for Reno and for AIMD with β = 0.7
    // and α = 3 · 0.3 / 1.7 (RFC 9438, 4.3), less what whole segments and a round trip without growth at each loss take.
    // The cubic function alone would keep 1.05 (0.01 / 0.01)^(3/4) = 1.1.
    let short = Path { rtt: Span::from_millis(10), rate: BitRate::gbps(1), lose_each: 100, ..slow_path(1_000) };
    let rates = [cubic(), TcpCongestionChoice::reno()].map(|control| {
        let mut path = Bottleneck::new(short, &[TcpConfig { delayed_ack: None, ..TcpConfig::linux(control) }]);
        path.start(0);
        path.run_for(Span::from_secs(2));
        let before = path.receivers[0].received();
        path.run_for(Span::from_secs(10));
        assert_eq!(path.senders[0].stats().timeouts, 0);
        (path.receivers[0].received() - before) as f64 / 1_448.0 / 1_000.0
    });
    assert!(rates.iter().all(|rate| (10.0..12.2).contains(rate)), "{rates:?}");
    assert!((0.95..1.05).contains(&(rates[0] / rates[1])), "{rates:?}");
}

#[test]
fn cubics_flows_share_fairly() {
    let linux = TcpConfig::linux(cubic());
    let mut path = Bottleneck::new(slow_path(40), &vec![linux.clone(); 4]);
    for flow in 0..4 {
        path.start(flow);
        path.run_for(Span::from_millis(503));
    }
    path.run_for(Span::from_secs(4));
    path.measure();
    path.run_for(Span::from_secs(30));
    let shares = path.shares(linux.mss);
    assert!(jain(&shares) > 0.95 && shares.iter().sum::<f64>() > 0.95, "{shares:?}");
}

#[test]
fn dctcp_keeps_the_queue_near_its_threshold_and_the_link_full() {
    for flows in [1, 2, 4] {
        let config = TcpConfig::datacentre(dctcp());
        let mut path = Bottleneck::new(fast_path(20), &vec![config.clone(); flows]);
        for flow in 0..flows {
            path.start(flow);
            path.run_for(Span::from_millis(2));
        }
        path.run_for(Span::from_millis(40));
        path.measure();
        path.run_for(Span::from_millis(100));
        let shares = path.shares(config.mss);
        assert!(shares.iter().sum::<f64>() > 0.99, "{flows}: {shares:?}");
        assert!(jain(&shares) > 0.95, "{flows}: {shares:?}");
        // Q_max = K + N, and A = 1/2 sqrt(2 N (C · RTT + K)) (SIGCOMM 2010, section 3.3), in segments, of which 16 are on
        // their way; a delayed acknowledgement lets two go at once.
        let n = flows as f64;
        let amplitude = 0.5 * (2.0 * n * (16.3 + 20.0)).sqrt();
        let (low, high) = (path.lengths.iter().min().unwrap(), path.lengths.iter().max().unwrap());
        assert!(*high as f64 <= 20.0 + 2.0 * n + 1.0, "{flows}: {low}..{high}");
        assert!(*low as f64 >= 20.0 - amplitude - 3.0 * n, "{flows}: {low}..{high}, A = {amplitude}");
        assert_eq!((path.drops, path.senders[0].stats().retransmissions), (0, 0));
    }
}

#[test]
fn a_run_is_the_same_again() {
    let run = || {
        let mut path = Bottleneck::new(slow_path(20), &[TcpConfig::linux(cubic()), TcpConfig::linux(dctcp())]);
        [0, 1].into_iter().for_each(|flow| path.start(flow));
        path.run_for(Span::from_secs(3));
        (path.senders.iter().map(|sender| (sender.window(), sender.stats())).collect::<Vec<_>>(), path.drops)
    };
    assert_eq!(run(), run());
}

/// A path that loses, doubles and delays at random.
struct Weather {
    state: u64,
    losses: u64,
    doubles: u64,
    late: u64,
}

impl Weather {
    fn below(&mut self, bound: u64) -> u64 {
        // xorshift64* (Vigna, 2016).
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }

    /// When what is sent now arrives: never, once, or twice.
    fn arrivals(&mut self, now: u64) -> Vec<u64> {
        if self.below(100) < self.losses {
            return vec![];
        }
        let copies = if self.below(100) < self.doubles { 2 } else { 1 };
        let arrival = |weather: &mut Weather| {
            let late = if weather.below(100) < weather.late { weather.below(3_000) } else { 0 };
            now + 1_000 + late
        };
        (0..copies).map(|_| arrival(self)).collect()
    }
}

#[derive(Clone, Copy)]
enum Carried {
    Data(Segment, bool),
    Ack(Ack),
}

/// Writes in pieces, through the weather. Returns the sender's statistics.
fn through(config: TcpConfig, mut weather: Weather, writes: &[u64]) -> TcpStats {
    let (mut sender, mut receiver) = (TcpSender::new(&config), TcpReceiver::new(&config));
    let mut path: Vec<(u64, usize, Carried)> = Vec::new();
    let (mut now, mut order, mut writes) = (0, 0, writes.iter());
    loop {
        sender.handle_timeout(at(now));
        let mut out = Vec::new();
        out.extend(receiver.poll_ack(at(now)).map(Carried::Ack));
        while let Some(index) = path.iter().position(|carried| carried.0 <= now) {
            match path.remove(index).2 {
                Carried::Ack(ack) => sender.handle_ack(at(now), &ack),
                Carried::Data(segment, is_ce) => {
                    out.extend(receiver.handle_segment(at(now), &segment, is_ce).map(Carried::Ack));
                    out.extend(receiver.poll_ack(at(now)).map(Carried::Ack));
                }
            }
            assert!(sender.acked() <= receiver.received() && receiver.received() <= sender.written());
        }
        if sender.acked() == sender.written() {
            match writes.next() {
                Some(bytes) => sender.write(*bytes),
                None => break,
            }
        }
        while let Some(segment) = sender.poll_segment(at(now)) {
            assert!(segment.len > 0 && u32::from(segment.len) <= config.mss && segment.sent_at == at(now));
            let is_ce = segment.ect && weather.below(10) == 0;
            out.push(Carried::Data(segment, is_ce));
        }
        for carried in out {
            for arrival in weather.arrivals(now) {
                order += 1;
                path.push((arrival, order, carried));
            }
        }
        path.sort_by_key(|carried| (carried.0, carried.1));
        let timers = sender.next_timeout().min(receiver.next_timeout());
        let next = path.first().map_or(Time::NEVER, |carried| at(carried.0)).min(timers);
        assert!(next < Time::NEVER, "it stands still: {sender:?} {receiver:?}");
        now = (next.as_nanos().div_ceil(1_000)).max(now);
    }
    assert_eq!((receiver.received(), receiver.held()), (sender.written(), 0));
    assert_eq!((sender.in_flight(), sender.next_timeout(), sender.can_send()), (0, Time::NEVER, false));
    sender.stats()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever is lost, doubled or late: all of it arrives, once, and both ends agree.
    #[test]
    fn everything_arrives(
        control in prop::sample::select(vec![TcpCongestionChoice::reno(), cubic(), dctcp()]),
        faults in prop::array::uniform3(0..=20u64),
        writes in prop::collection::vec(1..60_000u64, 1..4),
        delayed: bool,
        seed in 1..u64::MAX,
    ) {
        let delayed_ack = delayed.then_some(DelayedAck { every: 2, at_most: Span::from_micros(700) });
        let config = TcpConfig { mss: 1_000, delayed_ack, ecn: true, ..TcpConfig::datacentre(control) };
        let weather = Weather { state: seed, losses: faults[0], doubles: faults[1], late: faults[2] };
        let stats = through(config, weather, &writes);
        if faults[0] == 0 && faults[2] == 0 {
            prop_assert_eq!((stats.retransmissions, stats.timeouts), (0, 0));
        }
    }
}
