//! Retransmission by RDMA hosts: go-back-N from the lost packet on, and nothing else.

use std::num::NonZeroU32;

use weir_nic::host::{FlowConfig, ReceiverStats, SenderStats};
use weir_scenario::Scenario;
use weir_scenario::link::{ChosenFrames, FaultPlan, ReorderDelay};
use weir_scenario::topology::LinkSpec;
use weir_units::{BitRate, Bytes, Span, Time};

use super::net::{all_to_last, lossless, star};
use crate::Sim;

const RATE: BitRate = BitRate::gbps(100);
const DELAY: Span = Span::from_micros(1);
const RTO: Span = Span::from_micros(200);
/// A round trip of a full frame: 1,106 B and 86 B, twice each at 80 ps, and four delays.
const RTT: Span = Span::from_picos(2 * (1_106 + 86) * 80 + 4_000_000);

/// A sender and a receiver; what the sender's link does to data.
fn pair(faults: FaultPlan, change: impl Fn(&mut FlowConfig)) -> Scenario {
    let mut scenario = lossless(&star(1, LinkSpec::new(RATE, DELAY)), "");
    all_to_last(&mut scenario, |_, flow| {
        flow.retransmission = Some(RTO);
        change(flow);
    });
    scenario.hosts[0].faults[1] = FaultPlan { frames: ChosenFrames::Data, ..faults };
    scenario
}

fn ended(scenario: &Scenario) -> (Sim, SenderStats, ReceiverStats) {
    let mut sim = Sim::new(scenario).unwrap();
    sim.run_until(Time::from_nanos(50_000_000));
    assert!(sim.is_finished());
    let (sent, arrived) = (*sim.host(0).sender_stats(0), *sim.host(1).receiver_stats(0));
    (sim, sent, arrived)
}

/// One message of ten full packets, the first with 1,122 B and the others with 1,106 B on the wire.
fn ten_packets(flow: &mut FlowConfig) {
    (flow.message, flow.total) = (Bytes::new(10_240), Some(Bytes::new(10_240)));
}

/// The first takes its time on both links, and the others follow without a gap on the second.
const TEN_PACKETS_FCT: Span = Span::from_picos((2 * 1_122 + 9 * 1_106 + 2 * 86) * 80 + 4_000_000);

/// A part of the time in which all data that leaves the sender is lost: that of these packets of [`ten_packets`].
fn losing(first: u64, last: u64) -> FaultPlan {
    // Faults come at the end of the wire, when the last byte leaves.
    let leaves = |packet: u64| Time::from_picos((1_122 + packet * 1_106) * 80);
    let half = Span::from_picos(553 * 80);
    FaultPlan {
        loss_ppm: 1_000_000,
        from: leaves(first).saturating_sub(half),
        until: leaves(last) + half,
        ..FaultPlan::default()
    }
}

#[test]
fn whatever_is_lost_doubled_or_reordered_everything_arrives_once() {
    for (seed, ack_every) in [(1, None), (2, NonZeroU32::new(16)), (3, NonZeroU32::new(1))] {
        let faults = FaultPlan {
            loss_ppm: 10_000,
            duplication_ppm: 5_000,
            reordering_ppm: 10_000,
            reorder_delay: ReorderDelay::For(Span::from_micros(3)),
            until: Time::NEVER,
            seed,
            ..FaultPlan::default()
        };
        let mut scenario = pair(faults, |flow| {
            (flow.message, flow.total, flow.ack_every) = (Bytes::kb(50), Some(Bytes::kb(2_025)), ack_every);
        });
        // Acknowledgements are lost, too.
        scenario.hosts[0].faults[0] = FaultPlan { reordering_ppm: 0, seed: seed + 10, ..scenario.hosts[0].faults[1] };
        let (sim, sent, arrived) = ended(&scenario);
        let faults = sim.fault_counters();
        assert!(faults.lost > 15 && faults.duplicated > 5 && faults.reordered > 15, "{faults:?}");
        assert_eq!((sent.payload_done, arrived.payload), (Bytes::kb(2_025), Bytes::kb(2_025)));
        assert_eq!((sent.messages_done, arrived.messages, sent.fct.count), (41, 41, 41));
        // 40 messages of 49 packets and one of 25: each taken in once, and in order.
        assert_eq!((arrived.in_order, arrived.lost, arrived.reordered), (40 * 49 + 25, 0, 0));
        assert_eq!(sent.frames - sent.retransmitted, 40 * 49 + 25);
        assert!(sent.naks > 5 && sent.retransmitted > 500, "{sent:?}");
    }
}

#[test]
fn nothing_is_sent_again_that_was_not_lost() {
    // Three senders fill one port: PFC holds them, for less than the timeout.
    let mut scenario = lossless(&star(3, LinkSpec::new(RATE, DELAY)), "[buffer]\nsize = \"400KB\"\n");
    all_to_last(&mut scenario, |_, flow| {
        (flow.retransmission, flow.ack_every) = (Some(RTO), NonZeroU32::new(32));
        (flow.message, flow.total) = (Bytes::kb(500), Some(Bytes::mb(1)));
    });
    let mut sim = Sim::new(&scenario).unwrap();
    sim.run_until(Time::from_nanos(1_000_000));
    assert!(sim.is_finished());
    let pauses: u64 = sim.hosts().map(|host| host.class_stats(sim.now(), super::net::CLASS).pauses).sum();
    assert!(pauses > 3, "{pauses}");
    for sender in 0..3 {
        let stats = sim.host(sender).sender_stats(0);
        assert_eq!((stats.retransmitted, stats.naks, stats.timeouts), (0, 0, 0));
        let arrived = sim.host(3).receiver_stats(sender);
        assert_eq!((arrived.payload, arrived.duplicates, arrived.gaps), (Bytes::mb(1), 0, 0));
    }
}

#[test]
fn a_lost_last_packet_is_found_by_the_timeout_and_not_before() {
    let (mut sim, sent, arrived) = ended(&pair(losing(9, 9), ten_packets));
    assert_eq!((sent.timeouts, sent.naks, sent.retransmitted), (1, 0, 10), "nothing was acknowledged");
    assert_eq!((arrived.in_order, arrived.duplicates, arrived.payload), (10, 9, Bytes::new(10_240)));
    // The timer runs since the last packet was sent, which asks for the acknowledgement.
    let last_sent = Span::from_picos((1_122 + 8 * 1_106) * 80);
    let done: Vec<Span> = sim.drain_completions().map(|done| done.fct).collect();
    assert_eq!(done, [last_sent + RTO + TEN_PACKETS_FCT]);
}

#[test]
fn an_acknowledgement_puts_the_timeout_off() {
    let scenario = pair(losing(9, 9), |flow| {
        ten_packets(flow);
        flow.ack_every = NonZeroU32::new(3);
    });
    let (mut sim, sent, arrived) = ended(&scenario);
    assert_eq!((sent.timeouts, sent.retransmitted, arrived.duplicates), (1, 1, 0), "the other nine are acknowledged");
    // That of the ninth packet arrives a round trip after it was sent, and the 16 B later that the first one is longer.
    let ninth_sent = Span::from_picos((1_122 + 7 * 1_106 + 16) * 80);
    let done: Vec<Span> = sim.drain_completions().map(|done| done.fct).collect();
    assert_eq!(done, [ninth_sent + RTT + RTO + RTT]);
}

#[test]
fn a_packet_in_between_is_asked_for_at_once() {
    let (mut sim, sent, arrived) = ended(&pair(losing(4, 4), ten_packets));
    // The sender has sent all when it is asked: it goes back to the fifth packet.
    assert_eq!((sent.timeouts, sent.naks, sent.retransmitted), (0, 1, 6));
    assert_eq!((arrived.in_order, arrived.gaps, arrived.duplicates), (10, 5, 0), "five came too early");
    // The sixth packet asks for the fifth, a round trip after it was sent; six packets follow.
    let sixth_sent = Span::from_picos((1_122 + 4 * 1_106) * 80);
    let again = Span::from_picos(5 * 1_106 * 80);
    let done: Vec<Span> = sim.drain_completions().map(|done| done.fct).collect();
    assert_eq!(done, [sixth_sent + RTT + again + RTT]);
}

#[test]
fn a_packet_that_is_lost_again_and_again_is_sent_every_timeout() {
    let first = |flow: &mut FlowConfig| (flow.message, flow.total) = (Bytes::new(1_024), Some(Bytes::new(1_024)));
    let until = Time::from_nanos(590_000);
    let faults = FaultPlan { loss_ppm: 1_000_000, until, ..FaultPlan::default() };
    let (mut sim, sent, arrived) = ended(&pair(faults, first));
    assert_eq!((sent.timeouts, sent.retransmitted, arrived.frames), (3, 3, 1));
    let fct = Span::from_picos(2 * (1_122 + 86) * 80) + DELAY * 4;
    assert_eq!(sim.drain_completions().map(|done| done.fct).collect::<Vec<_>>(), [RTO * 3 + fct]);
}
