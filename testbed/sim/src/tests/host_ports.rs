//! Hosts with several ports: rates, bytes of each port, and fail-over while a link is down.

use std::path::Path;

use weir_scenario::workload::Message;
use weir_scenario::{LinkRef, Scenario, TrafficSource, file};
use weir_units::{Bytes, Span, Time};

use crate::{CompletedMessage, Sim, Threads};

/// Eight hosts on leaves L0 and L1, and eight on L2 and L3.
const LEAVES: &str = "kind = 'leaf-spine'\nleaves = 4\nspines = 2\nhosts = 8\nports = 2";
const RAILS: &str =
    "kind = 'rails'\nservers = 4\ngpus = 4\nspines = 4\nports = 2\nnvlink_rate = '800Gbps'\nnvlink_delay = '300ns'";

fn parsed(topology: &str, rest: &str) -> Scenario {
    let text = format!(
        "[scenario]\nend = '10ms'\nrouting_delay = '50us'\n[switch]\nmtu = 4200\n[topology]\n{topology}\nrate = '100Gbps'\n\
         delay = '1us'\n[switch.buffer]\nsize = '16MB'\npolicy = 'dt'\n[switch.classes]\npreset = 'roce'\n[switch.pfc]\n\
         reaction = '0s'\n[nic]\nmtu = 4096\nack_every = 4096\nretransmit = '100us'\n{rest}\n"
    );
    let runs = file::parse(Path::new("ports.toml"), &text);
    runs.unwrap_or_else(|errors| panic!("{}", errors.render(false))).remove(0).scenario
}

const LIST: &str = "[[workloads]]\nkind = 'permutation'\nclass = 3\nsizes = '1MiB'";

/// Messages of 256 full frames from H0 to each of these hosts, all at once.
fn listed(to: impl Iterator<Item = u32>, outages: &str) -> Scenario {
    let mut scenario = parsed(LEAVES, &format!("{LIST}\n{outages}"));
    let message = |to| Message { start: Time::ZERO, from: 0, to, size: Bytes::new(256 * 4_096) };
    scenario.traffic[0].source = TrafficSource::List(to.map(message).collect());
    scenario
}

/// Runs to the end, with the scenario's outages and rerouting.
fn run(scenario: &Scenario, threads: usize) -> (Sim, Vec<CompletedMessage>) {
    let mut sim = Sim::new(scenario).unwrap();
    sim.set_threads(Threads::exactly(threads));
    let (changes, reroutings) = (scenario.link_changes(), scenario.reroutings().at);
    let mut instants: Vec<Time> =
        changes.iter().map(|(at, ..)| *at).chain(reroutings.iter().map(|(at, _)| *at)).collect();
    instants.sort();
    instants.dedup();
    for instant in instants {
        sim.run_until(instant);
        for (_, link, is_cut) in changes.iter().filter(|(at, ..)| *at == instant) {
            match *link {
                LinkRef::ToHost(port) => sim.set_host_link_up(scenario, port, !is_cut),
                LinkRef::Between(link) => sim.set_link_up(scenario, link, !is_cut),
            }
        }
        reroutings.iter().filter(|(at, _)| *at == instant).for_each(|(_, set)| sim.use_routes(*set));
    }
    sim.run_until(scenario.end);
    let done: Vec<_> = sim.drain_completions().collect();
    assert!(sim.is_finished(), "{} messages are done", done.len());
    (sim, done)
}

/// Outages of links to hosts or leaves, in microseconds.
fn outages(all: &[(&str, &str, u64, u64)]) -> String {
    let outage = |(host, switch, at, until): &(&str, &str, u64, u64)| {
        format!("[[outages]]\nlink = ['{host}', '{switch}']\nat = '{at}us'\nuntil = '{until}us'\n")
    };
    all.iter().map(outage).collect()
}

/// Picoseconds of frames with this payload at 100 Gb/s.
fn frames(count: u64, payload: u64) -> u64 {
    count * (payload + 82) * 80
}

#[test]
fn each_port_sends_its_messages_at_its_rate() {
    let scenario = listed(std::iter::repeat_n(1, 16), "");
    let ports: Vec<u32> = (0..16).map(|n| scenario.host_ports().choose([0, 1], n)[0]).collect();
    let by_second = ports.iter().filter(|port| **port == 16).count() as u64;
    assert!((4..=12).contains(&by_second) && ports.iter().all(|port| [0, 16].contains(port)), "{ports:?}");
    let (sim, done) = run(&scenario, 1);
    for (port, messages) in [(0, 16 - by_second), (16, by_second)] {
        assert_eq!(sim.host_frames(port), [256 * messages, messages], "port {port}");
        let of_port = done.iter().filter(|message| message.host == port);
        let last = of_port.map(|message| message.fct.as_picos()).max().unwrap();
        // The first frame of a message has 16 B more; the acknowledgement of the last crosses two links.
        let there = messages * frames(256, 4_096) + frames(1, 4_096) + (messages + 1) * 16 * 80;
        let expected = there + 2 * frames(1, 4) + 4_000_000;
        assert_eq!(last, expected, "port {port}");
    }
}

#[test]
fn threads_change_no_result_of_hosts_with_ports() {
    let rest = "[[workloads]]\nkind = 'collective'\nclass = 3\ncollective = 'pairwise-all-to-all'\nbytes = '1600KB'\n\
                [[workloads]]\nkind = 'collective'\nclass = 3\ncollective = 'ring-all-reduce'\nbytes = '1600KB'\nchunks = 3\n\
                [[workloads]]\nkind = 'closed-loop'\nclass = 3\nsizes = '100KB'\noutstanding = 2\nuntil = '1ms'\n\
                [[workloads]]\nkind = 'poisson'\nclass = 3\nsizes = '100KB'\nload = 0.3\nuntil = '500us'";
    for (topology, first) in [(LEAVES, "L1"), (RAILS, "R4")] {
        let cut = outages(&[("H0", first, 100, 600), ("H3", if first == "L1" { "L0" } else { "R3" }, 300, 9_000)]);
        let scenario = parsed(topology, &format!("{rest}\n{cut}"));
        let results = |threads| {
            let (sim, done) = run(&scenario, threads);
            let frames: Vec<_> = (0..scenario.hosts.len()).map(|port| sim.host_frames(port)).collect();
            (done, frames, sim.packet_hops(), sim.failed_over())
        };
        let one = results(1);
        assert!(one.3 > 0, "{topology}");
        assert!(one.0.iter().any(|message| message.host >= 16) && one.0.iter().any(|message| message.host < 16));
        for threads in [2, 3] {
            assert!(results(threads) == one, "{topology}: {threads} threads");
        }
    }
}

/// An all-to-all of 16 ranks: each port carries the messages of its connections, and their acknowledgements.
#[test]
fn ranks_spread_their_connections_over_ports() {
    let scenario = parsed(
        LEAVES,
        "[[workloads]]\nkind = 'collective'\nclass = 3\ncollective = 'pairwise-all-to-all'\nbytes = '1MiB'",
    );
    let (sim, done) = run(&scenario, 1);
    assert_eq!(done.len(), 16 * 15);
    let sent = |port: usize| done.iter().filter(|message| message.host == port).count() as u64;
    let all: u64 = (0..16).map(|host| sent(host) + sent(host + 16)).sum();
    assert_eq!(all, 16 * 15);
    for host in 0..16 {
        assert_eq!(sent(host) + sent(host + 16), 15);
        let [first, second] = [host, host + 16].map(|port| sim.host_frames(port)[0]);
        assert_eq!(first + second, 15 * (16 + 1), "frames of 64 KiB, and an acknowledgement each");
        assert!((2..=13).contains(&sent(host)), "{host}: {}", sent(host));
    }
}

/// H0 sends 64 messages, 30 to 34 of them by its second port, whose link fails. Then its first one fails too, and both come back.
#[test]
fn a_host_goes_on_by_its_other_port() {
    let last = |done: &[CompletedMessage]| done.iter().map(|message| message.fct).max().unwrap();
    let ended = |all: &[(&str, &str, u64, u64)]| {
        let scenario = listed((0..64).map(|n| 8 + n % 8), &outages(all));
        let (sim, done) = run(&scenario, 1);
        assert_eq!(done.len(), 64);
        let frames = [0, 16].map(|port| sim.host_frames(port)[0]);
        (sim.failed_over(), frames, last(&done))
    };
    let (none, intact, whole) = ended(&[]);
    assert_eq!((none, intact[0] + intact[1]), (0, 64 * 256));
    let (failed_over, frames, halved) = ended(&[("H0", "L1", 200, 9_000)]);
    // By 200 us a port has sent 598 frames.
    assert!((590..600).contains(&frames[1]), "{frames:?}");
    let rest = frames[0] - intact[0];
    assert_eq!(failed_over, rest);
    // Those lost or not acknowledged by then are sent again.
    assert!((0..64 * 4).contains(&(frames[0] + frames[1] - 64 * 256)), "{frames:?}");
    assert!(halved < whole * 2 && halved > whole + whole.divided_by(2), "{whole} {halved}");
    let (_, _, apart) = ended(&[("H0", "L1", 200, 900), ("H0", "L0", 500, 1_200)]);
    assert!(apart > whole + Span::from_micros(500), "{apart}");
}

/// Messages that are done before a port's link fails: credit that the port's own NIC advertises there afterwards is nobody else's.
#[test]
fn flow_control_of_a_port_is_no_fail_over() {
    let cbfc = "[switch.port]\nflow_control = { kind = 'cbfc', buffer = '200KB', period = '10us' }\n";
    let scenario = listed([8, 9].into_iter(), &format!("{cbfc}{}", outages(&[("H0", "L1", 400, 900)])));
    let (sim, done) = run(&scenario, 1);
    assert!(done.iter().all(|message| message.fct < Span::from_micros(400)), "{done:?}");
    let data = 2 * 256;
    assert!(sim.host_frames(0)[0] > data, "the NIC advertises credit: {:?}", sim.host_frames(0));
    assert_eq!(sim.failed_over(), 0);
}

/// L1 loses both uplinks for a while, and takes down its links to hosts, which are on L0 too.
#[test]
fn hosts_leave_a_leaf_without_uplinks() {
    let uplinks = outages(&[("L1", "S0", 200, 9_000), ("S1", "L1", 100, 9_000)]);
    let scenario = listed((0..64).map(|n| if n % 2 == 0 { 8 + n % 8 } else { 1 + n % 7 }), &uplinks);
    let changes: Vec<_> =
        scenario.link_changes().into_iter().map(|(at, link, is_cut)| (at.as_nanos() / 1_000, link, is_cut)).collect();
    let of_ports = |at: u64, is_cut: bool| (16..24).map(move |port| (at, LinkRef::ToHost(port), is_cut));
    let expected: Vec<_> = of_ports(250, true).chain(of_ports(9_050, false)).collect();
    assert_eq!(
        changes.into_iter().filter(|(_, link, _)| matches!(link, LinkRef::ToHost(_))).collect::<Vec<_>>(),
        expected
    );
    let (sim, done) = run(&scenario, 1);
    assert_eq!(done.len(), 64);
    assert!(done.iter().all(|message| message.fct < Span::from_millis(9)));
    assert!(sim.failed_over() > 0);
    // Both ToRs of a pair: none of them has anything better.
    let both = outages(&["L0", "L1"].map(|leaf| ["S0", "S1"].map(|spine| (leaf, spine, 200, 9_000))).concat());
    let changes = listed([8].into_iter(), &both).link_changes();
    assert!(changes.iter().all(|(_, link, _)| matches!(link, LinkRef::Between(_))), "{changes:?}");
}
