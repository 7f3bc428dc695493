//! M/D/1: messages of one packet that many hosts send to one at random.
//!
//! Every packet takes the same time s on each link. Then what a packet waits in all, at its own NIC and at the switch's port,
//! is what it would wait if all hosts shared one queue: a packet that waits at its NIC is s behind the one before it, so the
//! port is never idle because of that. So it is a queue with Poisson arrivals and a fixed service time, however many hosts
//! there are, and its waits follow from the arrivals to the picosecond (Lindley's recursion). With 32 hosts hardly any packet
//! waits at its NIC. Acknowledgements are shorter than what they acknowledge, and never wait.

use weir_nic::host::{CongestionControlChoice, LossRecovery, Transport};
use weir_scenario::topology::{Framing, LinkSpec, Routes, ideal_fct};
use weir_scenario::workload::{self, Load, Message, Peers, Poisson, SizeCdf};
use weir_scenario::{TrafficPlan, TrafficSource};
use weir_units::{BitRate, Bytes, Span, Time};
use weir_wire::rocev2::Dscp;

use super::net::{CLASS, lossless, star};
use crate::Sim;

const RATE: BitRate = BitRate::gbps(100);
const SENDERS: u32 = 32;
const SIZE: Bytes = Bytes::new(1_024);
/// With an RETH, FCS, preamble and gap.
const FRAME: Bytes = Bytes::new(1_122);

/// So many messages of all senders to the last host, at this load of its link.
fn messages(load: f64, count: usize, seed: u64) -> Vec<Message> {
    let framing = workload::LoadFraming { payload: SIZE, overhead: FRAME - SIZE };
    // Each sends to any of the group of the receiver, which is the only one there.
    let hosts: Vec<u32> = (0..=SENDERS).collect();
    let groups: Vec<u32> = hosts.iter().map(|host| u32::from(*host == SENDERS)).collect();
    let poisson = Poisson {
        senders: (0..SENDERS).collect(),
        receivers: Peers::other_groups(&hosts, &groups).unwrap(),
        sizes: SizeCdf::fixed(SIZE).unwrap(),
        load: Load::new(load / f64::from(SENDERS), RATE, framing).unwrap(),
        from: Time::ZERO,
        until: Time::NEVER,
        seed,
    };
    poisson.messages().unwrap().take(count).collect()
}

/// What each packet waits, in the order of arrival.
fn lindley(messages: &[Message]) -> Vec<Span> {
    let service = RATE.time_for(FRAME);
    let mut free_at = Time::ZERO;
    let wait = |message: &Message| {
        let begins = free_at.max(message.start);
        free_at = begins + service;
        begins.since(message.start)
    };
    messages.iter().map(wait).collect()
}

fn mean_in_services(waits: &[Span]) -> f64 {
    let sum: Span = waits.iter().copied().sum();
    sum.as_picos() as f64 / waits.len() as f64 / RATE.time_for(FRAME).as_picos() as f64
}

/// What the messages wait in the simulation: their completion times beyond that of an idle path.
fn waits(messages: Vec<Message>) -> Vec<Span> {
    let fabric = star(SENDERS as usize, LinkSpec::new(RATE, Span::from_micros(1)));
    let mut scenario = lossless(&fabric, "");
    let (count, last) = (messages.len(), messages[messages.len() - 1].start);
    scenario.traffic.push(TrafficPlan {
        name: "M".to_owned(),
        points: [(CLASS, Dscp::new(CLASS.index() as u8))].into(),
        transport: Transport::Rdma,
        congestion_control: CongestionControlChoice::none(),
        ack_every: None,
        retransmission: None,
        loss_recovery: LossRecovery::GoBackN,
        dport: None,
        source: TrafficSource::List(messages.into()),
    });
    let routes = Routes::shortest(&fabric).unwrap();
    let receiver = SENDERS as usize;
    let idle = ideal_fct(
        &routes.path_delay(0, receiver, 0),
        &routes.path_delay(receiver, 0, 0),
        SIZE,
        &Framing::rocev2(SIZE.get() as u16),
    );
    let mut sim = Sim::new(&scenario).unwrap();
    sim.run_until(last + Span::from_millis(1));
    let waits: Vec<Span> = sim.drain_completions().map(|done| done.fct - idle).collect();
    assert_eq!(waits.len(), count);
    let paused: u64 = sim.hosts().map(|host| host.class_stats(sim.now(), CLASS).pauses).sum();
    assert_eq!(paused, 0);
    waits
}

#[test]
fn waits_of_packets_are_those_of_one_queue_to_the_picosecond() {
    for (load, count) in [(0.3, 6_000), (0.5, 6_000), (0.7, 8_000), (0.9, 12_000)] {
        let messages = messages(load, count, 11);
        let expected: Span = lindley(&messages).into_iter().sum();
        let measured = waits(messages);
        // Which of two packets goes first that come at one instant is of no consequence for the sum.
        assert_eq!(measured.iter().copied().sum::<Span>(), expected, "at a load of {load}");
        assert!(mean_in_services(&measured) > 0.0);
    }
}

/// ρ / (2 (1 - ρ)) services (Pollaczek and Khinchin). The queue is that of the test above; the sample is large enough for the
/// standard error, from batches of 20,000 packets, to be under half of the tolerance.
#[test]
fn the_mean_wait_is_that_of_an_m_d_1_queue() {
    for (load, count, tolerance) in
        [(0.3, 200_000, 0.02), (0.5, 400_000, 0.02), (0.7, 800_000, 0.02), (0.9, 3_200_000, 0.02)]
    {
        let waits = lindley(&messages(load, count, 5));
        let expected = load / (2.0 * (1.0 - load));
        let batches: Vec<f64> = waits.chunks(20_000).map(mean_in_services).collect();
        let mean = mean_in_services(&waits);
        let spread: f64 = batches.iter().map(|batch| (batch - mean) * (batch - mean)).sum();
        let of = batches.len() as f64;
        let error = (spread / (of * (of - 1.0))).sqrt();
        assert!(error < expected * tolerance / 2.0, "at a load of {load} the standard error is {error}");
        assert!((mean / expected - 1.0).abs() < tolerance, "at a load of {load} {mean}, not {expected}");
    }
}
