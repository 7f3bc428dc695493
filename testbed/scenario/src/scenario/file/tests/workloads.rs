//! `[[workloads]]`.

use std::sync::Arc;

use weir_nic::host::Transport;
use weir_nic::tcp::AckPoint;

use super::*;
use crate::scenario::{TrafficPlan, TrafficSource};
use crate::workload::{ClosedLoop, Message};

/// Four hosts on a switch, 100 Gb/s.
fn four(more: &str) -> Vec<ScenarioRun> {
    good(&format!(
        "[topology]\nkind = \"single\"\nhosts = 4\nrate = \"100Gbps\"\ndelay = \"1us\"\n[switch.classes]\npreset = \"roce\"\n\
         [scenario]\nend = \"10ms\"\n{more}"
    ))
}

fn plan(workload: &str) -> TrafficPlan {
    four(&format!("[[workloads]]\nclass = 3\n{workload}")).remove(0).scenario.traffic.remove(0)
}

fn messages(workload: &str) -> Vec<Message> {
    plan(workload).messages().to_vec()
}

fn list(plan: &TrafficPlan) -> Arc<[Message]> {
    match &plan.source {
        TrafficSource::List(messages) => messages.clone(),
        _ => panic!("{} is no list", plan.name),
    }
}

fn going_round(plan: &TrafficPlan) -> Arc<ClosedLoop> {
    match &plan.source {
        TrafficSource::ClosedLoop(closed) => closed.clone(),
        _ => panic!("{} is no closed loop", plan.name),
    }
}

/// Start in us, sender, receiver, KB.
fn told(messages: &[Message]) -> Vec<(u64, u32, u32, u64)> {
    messages.iter().map(|m| (m.start.as_nanos() / 1_000, m.from, m.to, m.size.get() / 1_000)).collect()
}

#[test]
fn messages_of_a_workload_may_have_one_of_several_classes() {
    let more = "more_classes = [6, 3, 0]\nkind = \"poisson\"\nsizes = \"10KB\"\nload = 0.9\nsenders = [\"H0\"]\n";
    let (one, several) = (plan("kind = \"poisson\"\nsizes = \"10KB\"\nload = 0.9\nsenders = [\"H0\"]\n"), plan(more));
    assert_eq!(one.messages(), several.messages(), "classes change no message");
    let class = |message: &Message| several.flow(message).class.index();
    let mut counts = [0usize; 8];
    several.messages().iter().for_each(|message| counts[class(message)] += 1);
    let all = several.messages().len();
    for class in [0, 3, 6] {
        assert!((all * 3 / 10..all * 11 / 30).contains(&counts[class]), "{counts:?} of {all}");
    }
    assert_eq!(counts.iter().sum::<usize>(), counts[0] + counts[3] + counts[6]);
    for message in several.messages() {
        let flow = several.flow(message);
        assert_eq!(several.flow(message).class, flow.class, "the same each time");
        assert!(several.points.contains(&(flow.class, flow.dscp)));
    }
}

#[test]
fn defaults_of_a_workload() {
    let plan = plan("kind = \"one-to-one\"\nsizes = \"64KB\"\n");
    assert_eq!((plan.name.as_str(), &*plan.points), ("W1", &[(Class::new(3), Dscp::new(26))][..]));
    assert!(!plan.transport.is_tcp() && plan.congestion_control.is_none());
    assert_eq!((plan.ack_every.map(|n| n.get()), plan.retransmission), (Some(1), Some(Span::from_millis(4))));
    assert_eq!(told(plan.messages()), [(0, 0, 2, 64), (0, 1, 3, 64)]);
    let with_nic = four(
        "[nic]\nack_every = 8\nretransmit = \"none\"\n[[workloads]]\nname = \"bg\"\nkind = \"permutation\"\nclass = 3\nsizes = \"1KB\"\n",
    );
    let plan = &with_nic[0].scenario.traffic[0];
    assert_eq!((plan.name.as_str(), plan.ack_every.map(|n| n.get()), plan.retransmission), ("bg", Some(8), None));
}

#[test]
fn poisson_offers_its_load_of_what_counts() {
    // Four hosts send half of 100 Gb/s each for 10 ms: 250 MB, in messages of 10 KB with 82 B for each of 10 frames.
    let count = messages("kind = \"poisson\"\nsizes = \"10KB\"\nload = 0.5\n").len();
    let expected = 250_000_000 / (10_000 + 10 * 82);
    assert!(count.abs_diff(expected) < 4 * 152, "{count} of {expected}: four standard deviations");
    // As the simulators count, payload alone, and half of the hosts.
    let text = "link_overhead = \"0B\"\n[nic]\nframes = \"ns3\"\n[[workloads]]\nkind = \"poisson\"\nclass = 3\n\
                sizes = \"10KB\"\nload = 0.5\nsenders = [\"H1\", \"H3\"]\nreceivers = [\"H0\"]\nfrom = \"2ms\"\nuntil = \"6ms\"\n";
    let scenario = four(text).remove(0).scenario;
    let messages = scenario.traffic[0].messages();
    assert!(messages.len().abs_diff(5_000) < 4 * 71, "{}", messages.len());
    assert!(messages.iter().all(|m| m.to == 0 && [1, 3].contains(&m.from)));
    assert!(
        messages[0].start >= Time::from_nanos(2_000_000)
            && messages.last().unwrap().start < Time::from_nanos(6_000_000)
    );
    assert_eq!(scenario.link_overhead, Bytes::ZERO);
}

#[test]
fn bursts_come_once_or_every_so_often_or_at_a_load() {
    let once = messages("kind = \"incast\"\nsizes = \"2MB\"\nreceivers = [\"H2\"]\nfrom = \"5us\"\n");
    let mut senders: Vec<u32> = once.iter().map(|m| m.from).collect();
    senders.sort_unstable();
    assert_eq!(senders, [0, 1, 3]);
    assert!(once.iter().all(|m| (m.start, m.to, m.size) == (Time::from_nanos(5_000), 2, Bytes::mb(2))));
    let every = messages("kind = \"incast\"\nsizes = \"1KB\"\nfan_in = 2\nevery = \"1ms\"\nuntil = \"3ms\"\n");
    assert_eq!(every.len(), 6);
    let counted =
        messages("kind = \"incast\"\nsizes = \"1KB\"\nfan_in = 2\nevery = \"1us\"\ntimes = 4\nfrom = \"5us\"\n");
    let starts: Vec<u64> = counted.iter().map(|m| m.start.as_nanos()).collect();
    assert_eq!(starts, [5_000, 5_000, 6_000, 6_000, 7_000, 7_000, 8_000, 8_000]);
    let own = "kind = \"incast\"\nsizes = \"web-search\"\nevery = \"1ms\"\ntimes = 9\nreceivers = [\"H0\"]\n";
    let alike = |messages: &[Message]| messages.chunks(3).filter(|b| b.iter().all(|m| m.size == b[0].size)).count();
    assert_eq!(alike(&messages(own)), 0);
    assert_eq!(alike(&messages(&format!("{own}equal_sizes = true\n"))), 9);
    // The last message that starts before the end.
    let to_the_end = messages("kind = \"one-to-one\"\nsizes = \"1KB\"\nevery = \"3ms\"\ntimes = 4\n");
    assert_eq!(to_the_end.last().map(|m| m.start), Some(Time::from_nanos(9_000_000)));
    // A load of 0.5 of 4 x 100 Gb/s: 250 MB in 10 ms, in bursts of 2 x 104 KB, of 102 frames.
    let at_load = messages("kind = \"incast\"\nsizes = \"104KB\"\nfan_in = 2\nload = 0.5\n").len();
    let expected = 250_000_000 / (104_000 + 102 * 82);
    assert!(at_load.abs_diff(expected) < 2 * 4 * 34, "{at_load} of {expected}");
}

#[test]
fn a_burst_may_come_from_one_group_of_the_senders() {
    let bursts = "kind = \"incast\"\nsizes = \"1KB\"\ngroups_of = 2\nevery = \"100us\"\n";
    let messages = messages(bursts);
    assert_eq!(messages.len(), 2 * 100);
    let mut groups = [0; 2];
    for burst in messages.chunks(2) {
        let group = burst[0].from / 2;
        assert!(
            burst[1].from / 2 == group && burst[0].from != burst[1].from && burst[0].to == burst[1].to,
            "{burst:?}"
        );
        assert_ne!(burst[0].to / 2, group, "{burst:?}");
        groups[group as usize] += 1;
    }
    assert!(groups.iter().all(|count| *count > 25), "{groups:?}");
    // Groups follow the senders' order; a receiver outside all groups gets bursts from each.
    let told = told(plan(&format!("{bursts}senders = [\"H3\", \"H1\"]\nreceivers = [\"H0\"]\ntimes = 2\n")).messages());
    let mut senders: Vec<u32> = told.iter().map(|(_, from, ..)| *from).collect();
    senders.sort_unstable();
    assert_eq!(senders, [1, 1, 3, 3]);
    // A load is of all senders: 250 MB in 10 ms, in bursts of 2 x 104 KB, of 102 frames.
    let at_load = plan("kind = \"incast\"\nsizes = \"104KB\"\ngroups_of = 2\nload = 0.5\n").messages().len();
    let expected = 250_000_000 / (104_000 + 102 * 82);
    assert!(at_load.abs_diff(expected) < 2 * 4 * 34, "{at_load} of {expected}");
}

#[test]
fn pairs_are_all_or_some() {
    let two = "sizes = \"5KB\"\nsenders = [\"H1\", \"H0\"]\n";
    let one_to_one = messages(&format!("kind = \"one-to-one\"\n{two}receivers = [\"H0\", \"H3\"]\nevery = \"5ms\"\n"));
    assert_eq!(told(&one_to_one), [(0, 1, 0, 5), (0, 0, 3, 5), (5_000, 1, 0, 5), (5_000, 0, 3, 5)]);
    assert_eq!(told(&messages(&format!("kind = \"all-to-all\"\n{two}"))), [(0, 1, 0, 5), (0, 0, 1, 5)]);
    assert_eq!(messages("kind = \"all-to-all\"\nsizes = \"5KB\"\n").len(), 12);
    let permutation = messages("kind = \"permutation\"\nsizes = \"5KB\"\nevery = \"5ms\"\n");
    assert_eq!(permutation.len(), 8);
}

#[test]
fn sizes_and_lists_come_from_files_beside_the_scenario() {
    let drawn = messages("kind = \"poisson\"\nsizes = { file = \"sizes.txt\" }\nload = 0.5\nuntil = \"1ms\"\n");
    let small = drawn.iter().filter(|m| m.size == Bytes::kb(1)).count() as f64 / drawn.len() as f64;
    assert!((small - 0.5).abs() < 0.05, "{small}");
    let listed = messages("kind = \"list\"\nfile = \"flows.csv\"\n");
    assert_eq!(told(&listed), [(12, 1, 2, 1), (20, 0, 3, 64)]);
}

#[test]
fn every_run_has_the_same_messages() {
    let text = "[[workloads]]\nkind = \"poisson\"\nclass = 3\nsizes = \"web-search\"\nload = 0.5\n[[runs]]\nname = \"A\"\n\
                [[runs]]\nname = \"B\"\n[runs.switch.buffer]\nsize = \"4MB\"\n";
    let runs = four(text);
    let of = |scenario: &Scenario| list(&scenario.traffic[0]);
    assert!(!of(&runs[0].scenario).is_empty());
    assert!(Arc::ptr_eq(&of(&runs[0].scenario), &of(&runs[1].scenario)));
    assert!(Arc::ptr_eq(&of(&runs[0].scenario), &of(&runs[1].dilated(7).unwrap())));
}

/// Texts share messages exactly if the inputs are equal; shared messages must be the same.
#[test]
fn texts_whose_messages_depend_on_the_same_share_them() {
    const TEXT: &str = "[scenario]\nend = \"10ms\"\nseed = 7\n[switch]\nmtu = 1500\n[switch.buffer]\nsize = \"16MB\"\n\
        [switch.classes]\npreset = \"roce\"\n[topology]\nkind = \"fat-tree\"\nk = 4\nrate = \"10Gbps\"\ndelay = \"1us\"\n\
        failure_probability = 0.05\nfailure_seed = 1\n[nic]\nframes = \"rocev2\"\n\
        [[workloads]]\nname = \"P\"\nkind = \"poisson\"\nclass = 3\nsizes = \"100KB\"\nload = 0.1\n\
        [[workloads]]\nname = \"I\"\nkind = \"incast\"\nclass = 3\nsizes = \"10KB\"\nfan_in = 3\nload = 0.1\nreceivers = [\"H0\"]\n\
        [[workloads]]\nname = \"C\"\nkind = \"closed-loop\"\nclass = 3\nsizes = \"10KB\"\nreceivers = [\"H1\", \"H2\"]\n";
    let path = here("tests/good/text.toml");
    let drawn = MessageCache::default();
    let read =
        |text: &str| parse_sharing(&path, text, &drawn).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    let first = read(TEXT).remove(0).scenario;
    assert!(first.traffic[0].messages().len() > 100 && first.traffic[2].closed_loop().is_some());
    let cases = [
        ("", "", true),
        ("failure_seed = 1", "failure_seed = 2", true),
        ("end = \"10ms\"", "end = \"10ms\"\nname = \"other\"\necmp_seed = 3", true),
        ("\"16MB\"", "\"8MB\"", true),
        ("mtu = 1500", "mtu = 9000", true),
        ("delay = \"1us\"", "delay = \"2us\"", true),
        ("[switch.classes]", "policy = \"dsh\"\n[switch.classes]", true),
        ("[nic]", "[nic]\ncongestion_control = \"dcqcn\"", true),
        ("seed = 7", "seed = 8", false),
        ("end = \"10ms\"", "end = \"11ms\"", false),
        ("end = \"10ms\"", "end = \"10ms\"\nlink_overhead = \"0B\"", false),
        ("\"rocev2\"", "\"rocev2\"\nmtu = 512", false),
        ("k = 4", "k = 6", false),
        ("\"10Gbps\"", "\"25Gbps\"", false),
        ("\"rocev2\"", "\"ns3\"", false),
        ("load = 0.1\n[[", "load = 0.2\n[[", false),
        ("\"100KB\"", "\"200KB\"", false),
        ("fan_in = 3", "fan_in = 4", false),
        ("[\"H1\", \"H2\"]", "[\"H1\", \"H3\"]", false),
        ("name = \"P\"", "name = \"P\"\nseed = 9", false),
        ("name = \"P\"", "name = \"P\"\ntransport = \"tcp-cubic\"", false),
    ];
    for (from, to, shares) in cases {
        let text = TEXT.replacen(from, to, 1);
        assert!(from == to || text != TEXT, "{from}");
        let (read, alone) = (read(&text).remove(0).scenario, good(&text).remove(0).scenario);
        let is_same = |n: usize| Arc::ptr_eq(&list(&read.traffic[n]), &list(&first.traffic[n]));
        assert_eq!(is_same(0) && is_same(1), shares, "{to}");
        assert_eq!(format!("{:?}", read.traffic), format!("{:?}", alone.traffic), "{to}");
    }
}

/// Errors in drawing are reported for each text that has them, and for no other.
#[test]
fn a_text_that_shares_messages_has_its_own_faults() {
    const TEXT: &str = "[scenario]\nend = \"40ms\"\n[topology]\nkind = \"single\"\nhosts = 3\nrate = \"10Gbps\"\ndelay = \"1us\"\n\
        [switch.classes]\npreset = \"roce\"\n[[workloads]]\nname = \"W\"\nkind = \"incast\"\nclass = 3\nsizes = \"1KB\"\n\
        receivers = [\"H0\"]\nevery = \"1ms\"\n";
    let drawn = MessageCache::default();
    let read = |text: &str| parse_sharing(&here("tests/good/text.toml"), text, &drawn);
    let said = |text: &str| read(text).unwrap_err().to_string();
    read(TEXT).unwrap();
    let often = TEXT.replace("\"1ms\"", "\"3ns\"");
    for _ in 0..2 {
        assert!(said(&often).contains("text.toml:16: workload W has more than 20000000 messages"), "{}", said(&often));
    }
    assert!(said(&TEXT.replace("\"H0\"", "\"H7\"")).contains("\"H7\""));
    assert!(said(&TEXT.replace("\"roce\"", "\"rice\"")).contains("\"rice\""));
    read(TEXT).unwrap();
}

#[test]
fn a_seed_makes_the_messages() {
    let with = |scenario: &str, workload: &str| {
        let one = "[[workloads]]\nkind = \"poisson\"\nclass = 3\nsizes = \"web-search\"\nload = 0.5\n";
        let runs = four(&format!("{scenario}\n{one}{workload}\n{one}"));
        let [first, second] = &runs[0].scenario.traffic[..] else { panic!("two workloads") };
        [first.messages().to_vec(), second.messages().to_vec()]
    };
    let [first, second] = with("", "");
    assert_ne!(first, second);
    assert_eq!(with("seed = 1", ""), [first.clone(), second.clone()]);
    let [other_first, other_second] = with("seed = 2", "");
    assert!(first != other_first && second != other_second);
    // A seed of its own leaves the other workload unchanged.
    let [own, still] = with("", "seed = 7");
    assert!(own != first && still == second);
    assert_eq!(with("seed = 2", "seed = 7")[0], own);
}

#[test]
fn workloads_have_presets_and_transports() {
    let at = |text: &str| plan(&format!("kind = \"permutation\"\nsizes = \"1KB\"\n{text}"));
    let hpcc = at("congestion_control = \"hpcc\"\n");
    // Two links of 1 us there, a full frame and an acknowledgement, both with a trailer of 96 B.
    let t = Span::from_micros(4) + Span::from_picos((1_202 + 182) * 80 * 2);
    let expected = CongestionControlChoice::preset("hpcc", BitRate::gbps(100), t).unwrap();
    assert_eq!(format!("{:?}", hpcc.congestion_control), format!("{expected:?}"));
    assert!(at("transport = \"tcp-cubic\"\n").transport.is_tcp());
}

#[test]
fn acknowledgements_of_tcp_may_have_a_class() {
    let acks = |class: &str| {
        let workload = "kind = \"permutation\"\nsizes = \"1KB\"\ntransport = \"tcp-cubic\"\n";
        match plan(&format!("{workload}tcp = {{ ack_class = {class} }}\n")).transport {
            Transport::Tcp(tcp) => tcp.acks,
            Transport::Rdma => panic!("TCP"),
        }
    };
    // The first code points of these classes in the preset `roce`.
    assert_eq!(acks("6"), Some(AckPoint { class: Class::new(6), dscp: Dscp::new(48) }));
    assert_eq!(acks("\"0\""), Some(AckPoint { class: Class::new(0), dscp: Dscp::new(0) }));
    assert_eq!(acks("\"data\""), None);
}

#[test]
fn a_closed_loop_has_no_list_and_the_same_messages_in_each_run() {
    let text = "[[workloads]]\nkind = \"closed-loop\"\nclass = 3\nsizes = \"web-search\"\nsenders = [\"H2\", \"H0\"]\n\
                outstanding = 3\nfrom = \"1ms\"\nuntil = \"4ms\"\n[[runs]]\nname = \"a\"\n[[runs]]\nname = \"b\"\n";
    let runs = four(text);
    let of = |run: usize| going_round(&runs[run].scenario.traffic[0]);
    let drawn = |closed: &crate::workload::ClosedLoop| {
        let mut source = closed.source(2);
        (0..20).map(|_| closed.next(2, &mut source, closed.from())).collect::<Vec<Message>>()
    };
    let closed = of(0);
    assert_eq!((closed.senders(), closed.first(), closed.times()), (&[0, 2][..], 3, None));
    assert_eq!([closed.from(), closed.until()], [1_000_000, 4_000_000].map(Time::from_nanos));
    assert!(closed.goes_on(1_000_000, Time::from_nanos(3_999_999)) && !closed.goes_on(0, closed.until()));
    assert_eq!(drawn(&closed), drawn(&of(1)));
    let to: std::collections::BTreeSet<u32> = drawn(&closed).iter().map(|message| message.to).collect();
    assert_eq!(to, [0, 1, 3].into(), "any host but itself");
    let mut scenario = runs[0].scenario.clone();
    assert!(scenario.traffic[0].messages().is_empty());
    assert_eq!(scenario.needs_virtual_time().unwrap(), "workload W1 is a closed loop, which takes virtual time");
    scenario.end_at(Time::from_nanos(2_000_000));
    assert_eq!(going_round(&scenario.traffic[0]).until(), Time::from_nanos(2_000_000));
    // Defaults: one at a time, until the end; never more at a time than in total.
    let plan = going_round(&plan("kind = \"closed-loop\"\nsizes = \"1KB\"\n"));
    assert_eq!((plan.first(), plan.until()), (1, Time::from_nanos(10_000_000)));
    let few = going_round(&self::plan("kind = \"closed-loop\"\nsizes = \"1KB\"\noutstanding = 8\ntimes = 5\n"));
    assert_eq!((few.first(), few.goes_on(4, few.from()), few.goes_on(5, few.from())), (5, true, false));
}

#[test]
fn warm_up_is_part_of_the_scenario() {
    let scenario = four("warm_up = \"2ms\"\n").remove(0).scenario;
    assert_eq!(scenario.warm_up, Time::from_nanos(2_000_000));
    assert_eq!(four("")[0].scenario.warm_up, Time::ZERO);
}

#[test]
fn doubtful_traffic_has_a_note() {
    let workload = |name: &str, more: &str| {
        format!("[[workloads]]\nname = \"{name}\"\nkind = \"poisson\"\nsizes = \"10KB\"\nload = 0.5\n{more}\n")
    };
    let notes = |more: &str| four(more).remove(0).scenario.notes;
    let dcqcn = "class = 3\ncongestion_control = \"dcqcn\"";
    let unmarked = notes(&(workload("a", dcqcn) + &workload("b", dcqcn)));
    assert_eq!(unmarked.len(), 1, "{unmarked:?}");
    assert!(unmarked[0].starts_with("a and 1 more: congestion control dcqcn waits for ECN marks"), "{unmarked:?}");
    let ecn = "[[switch.classes.queues]]\nclass = 3\necn = { kmin = \"40KB\", kmax = \"160KB\", pmax = 0.1 }\n";
    let by_delay = workload("b", "class = 3\ncongestion_control = \"timely\"");
    assert_eq!(notes(&(workload("a", dcqcn) + &by_delay + ecn)), [""; 0]);
    let lossy = notes(&(workload("a", "class = 0") + &workload("t", "class = 0\ntransport = \"tcp-cubic\"")));
    assert_eq!(lossy, ["a: RDMA in class 0, which is lossy: each loss starts go-back-N"]);
    let list = "[[workloads]]\nname = \"l\"\nkind = \"incast\"\nclass = 3\nsizes = \"10KB\"\nreceivers = [\"H3\"]\n";
    let early = notes(&format!("warm_up = \"2ms\"\n{list}"));
    assert_eq!(early, ["workload l: all messages start before the end of warm_up, so none is in its statistics"]);
    assert_eq!(notes(list), [""; 0]);
}

#[test]
fn parameters_lie_over_each_other() {
    let nic = "[nic]\ncongestion_control = \"dcqcn-conweave\"\n[nic.dcqcn-ns3]\nrate_ai = \"80Mbps\"\nfast_recovery = 3\n\
               [nic.dcqcn]\nrate_ai = \"1Gbps\"\n[nic.tcp]\npreset = \"linux\"\nrto_min = \"5ms\"\n[nic.tcp-dctcp]\ng = \"1/8\"\n";
    let control = |more: &str| {
        let workload = format!("[[workloads]]\nkind = \"permutation\"\nclass = 3\nsizes = \"1KB\"\n{more}");
        let plan = four(&format!("{nic}{workload}")).remove(0).scenario.traffic.remove(0);
        (format!("{:?}", plan.congestion_control), format!("{:?}", plan.transport))
    };
    let has = |told: &str, parts: &[&str]| parts.iter().for_each(|part| assert!(told.contains(part), "{part}: {told}"));
    // The file's values, the preset's lowest rate, and a default.
    let (of_nic, _) = control("");
    let preset = ["hyper_increase: 100Mbps", "rate_min: 100Mbps", "alpha_interval: 1us"];
    has(&of_nic, &[&preset[..], &["additive_increase: 80Mbps", "fast_recovery: 3"]].concat());
    let (own, _) = control("[workloads.dcqcn-ns3]\nrate_ai = \"line/100\"\n");
    has(&own, &[&preset[..], &["additive_increase: 1Gbps", "fast_recovery: 3"]].concat());
    let (other, _) = control("congestion_control = \"dcqcn\"\n");
    has(&other, &["dcqcn(", "additive_increase: 1Gbps", "byte_counter: 10000000 B", "fast_recovery: 5"]);
    let (none, tcp) = control("transport = \"tcp-dctcp\"\ntcp = { initial_window = 4 }\n");
    assert_eq!(none, "none", "what [nic] says of RDMA is not TCP's");
    has(&tcp, &["gain_shift: 3", "rto_min: 5ms", "initial_rto: 1s", "initial_window: 4", "mss: 1448"]);
}

/// 17 workloads, in each of which all hosts send to the first.
#[test]
fn a_host_has_as_many_connections_as_its_nic() {
    let folder = tempfile::tempdir().unwrap();
    let receipts: String = (1..4_096).map(|rank| format!("recv 1b from {rank}\n")).collect();
    let others: String = (1..4_096).map(|rank| format!("rank {rank} {{ send 1b to 0 }}\n")).collect();
    std::fs::write(folder.path().join("in.goal"), format!("num_ranks 4096\nrank 0 {{\n{receipts}}}\n{others}"))
        .unwrap();
    let of = |workloads: usize| {
        let workloads = "[[workloads]]\nclass = 3\nkind = 'goal'\nfile = 'in.goal'\n".repeat(workloads);
        let text = format!(
            "[scenario]\nend = '1ms'\n[switch]\nmtu = 1500\n[switch.classes]\npreset = 'roce'\n[switch.pfc]\nreaction = '0s'\n\
             [switch.buffer]\nsize = '1GB'\n[topology]\nkind = 'single'\nhosts = 4096\nrate = '10Gbps'\ndelay = '1us'\n{workloads}"
        );
        parse(&folder.path().join("in.toml"), &text).map(drop).map_err(|errors| errors.render(false))
    };
    assert_eq!(of(16), Ok(()));
    let error = "a host has 69615 connections in one direction, more than the 65536 of a NIC";
    assert!(of(17).unwrap_err().contains(error));
}
