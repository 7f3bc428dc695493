//! Runs in virtual time, and their run directories.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;
use weir_nic::host::{CongestionControlChoice, LossRecovery, Transport};
use weir_results::record::Progress;
use weir_results::run_dir::{PortSummary, Summary, read_series, read_summary};
use weir_scenario::file::{self, Expectation};
use weir_scenario::link::{ChosenFrames, FaultPlan};
use weir_scenario::topology::{Fabric, FabricLink, HostNode, Routes, SwitchNode};
use weir_scenario::victim::{PolicyChoice, Victim, VictimPolicy};
use weir_scenario::workload::Message;
use weir_scenario::{LinkRef, Outage, Scenario, TrafficPlan, TrafficSource};
use weir_sim::{Sim, SimBackend};
use weir_units::{BitRate, Bytes, Class, Span, SplitMix64, Time};
use weir_wire::rocev2::Dscp;

use crate::run_directory;

const DETERMINISTIC: [&str; 7] =
    ["series.csv", "events.csv", "fct.csv", "summary.json", "fct.txt", "pfc.txt", "qlen.txt"];

fn run_with(
    scenario: &Scenario,
    folder: &Path,
    expects: Expectation,
    observe: &mut dyn FnMut(&Progress),
    stop: &AtomicBool,
) -> Summary {
    let run = run_directory::made(folder);
    let backend = SimBackend { expects, ns3_files: true, ..SimBackend::default() };
    let summary = backend.run(scenario, run, observe, stop).unwrap();
    assert_eq!(read_summary(folder).unwrap(), summary);
    if let Some(frames) = &summary.frames {
        assert_eq!(frames.sides()[0], frames.sides()[1], "{frames:?}");
    }
    summary
}

fn run(scenario: &Scenario, folder: &Path) -> Summary {
    run_with(scenario, folder, Expectation::Flow, &mut |_| (), &AtomicBool::new(false))
}

fn us(us: u64) -> Time {
    Time::from_nanos(us * 1_000)
}

/// Two leaves with four hosts each on 10 Gb/s, and two spines; messages of class 3, sent again where they get lost.
fn leaf_spine(messages: Vec<Message>) -> Scenario {
    let mut text = "[scenario]\nname = \"leaf-spine\"\nend = \"1ms\"\nsample_every = \"20us\"\n[switch]\nmtu = 1500\n\
                    [switch.buffer]\nsize = \"300KB\"\npolicy = \"dt\"\nheadroom = \"12KB\"\nprivate = \"1KB\"\n\
                    [switch.buffer.dt]\nalpha = \"1/8\"\n\
                    [switch.classes]\npreset = \"roce\"\n\
                    [switch.pfc]\nreaction = \"0s\"\n[switch.port]\nrate = \"10Gbps\"\ndelay = \"1us\"\n"
        .to_owned();
    ["L1", "L2", "S1", "S2"].iter().for_each(|name| text += &format!("[[switches]]\nname = \"{name}\"\n"));
    for leaf in 1..=2 {
        for spine in 1..=2 {
            text += &format!("[[links]]\nends = [\"L{leaf}.up{spine}\", \"S{spine}.down{leaf}\"]\n");
        }
        for host in 1..=4 {
            text += &format!("[[hosts]]\nname = \"H{leaf}{host}\"\nport = \"L{leaf}.h{host}\"\n");
        }
    }
    text += "[[flows]]\nfrom = \"H11\"\nto = \"H21\"\nclass = 3\n";
    let runs = file::parse(Path::new("leaf-spine.toml"), &text);
    let mut scenario = runs.unwrap_or_else(|errors| panic!("{}", errors.render(false))).remove(0).scenario;
    scenario.flows.clear();
    let (rate, delay) = (BitRate::gbps(10), Span::from_micros(1));
    let switches = scenario.switches.iter().map(|of| SwitchNode { name: of.name.clone(), ports: of.ports.len() });
    let hosts = scenario.hosts.iter().map(|of| HostNode {
        name: of.name.clone(),
        at: of.place(),
        rate,
        delay,
        first_port: None,
    });
    let links = scenario.links.iter().map(|of| FabricLink { ends: of.ends, rate, delay, is_up: true });
    let fabric = Fabric { switches: switches.collect(), hosts: hosts.collect(), links: links.collect() };
    scenario.routes = Some(Arc::new(Routes::shortest(&fabric).unwrap()));
    Arc::make_mut(&mut scenario.switches).iter_mut().for_each(|switch| switch.static_macs.clear());
    scenario.traffic = vec![TrafficPlan {
        name: "messages".to_owned(),
        points: [(Class::new(3), Dscp::new(26))].into(),
        transport: Transport::Rdma,
        congestion_control: CongestionControlChoice::none(),
        ack_every: None,
        retransmission: Some(Span::from_micros(500)),
        loss_recovery: LossRecovery::GoBackN,
        dport: None,
        source: TrafficSource::List(messages.into()),
    }];
    scenario
}

/// All others send 60 KB to the first host at once, and again.
fn incasts() -> Vec<Message> {
    let burst = |start| (1..8).map(move |from| Message { start: us(start), from, to: 0, size: Bytes::kb(60) });
    [0, 500].into_iter().flat_map(burst).collect()
}

#[test]
fn the_ring_deadlocks_and_that_is_no_failure_where_it_is_expected() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/gfc-ring.toml");
    let mut scenario = file::load(&path).unwrap().remove(0).scenario;
    scenario.end = us(8_000);
    scenario.windows.clear();
    let folder = TempDir::new().unwrap();
    let stop = AtomicBool::new(false);
    let mut instants = Vec::new();
    let summary = run_with(
        &scenario,
        &folder.path().join("expected"),
        Expectation::Deadlock,
        &mut |progress| instants.push(progress.now),
        &stop,
    );
    let deadlock = summary.deadlock.clone().unwrap();
    assert_eq!(deadlock.cycle, "S1.next -> S2.next -> S3.next -> S1.next, class 3");
    assert_eq!((summary.backend.as_str(), summary.lossless, deadlock.dissolved_ns), ("sim", true, None));
    assert_eq!(summary.failures, [""; 0]);
    assert!(summary.frames.as_ref().unwrap().held > 100, "what the ring holds is accounted for");
    assert!(summary.flow_control.unwrap().pauses_sent > 0 && instants.is_sorted() && instants.len() > 100);
    let of_link = summary.links.iter().find(|lane| lane.to == "S2.prev").unwrap();
    assert!(of_link.frames > 1_000);

    let unexpected = run(&scenario, &folder.path().join("unexpected"));
    assert!(unexpected.failures[0].starts_with("deadlock from "), "{:?}", unexpected.failures);
    let events = fs::read_to_string(folder.path().join("unexpected/events.csv")).unwrap();
    assert!(events.contains(",S1.prev,3,pause_sent,65535\n"), "{events}");
}

#[test]
fn a_lone_message_takes_the_ideal_time() {
    let messages = vec![Message { start: us(50), from: 1, to: 6, size: Bytes::kb(64) }];
    let folder = TempDir::new().unwrap();
    let summary = run(&leaf_spine(messages), folder.path());
    assert_eq!(summary.failures, [""; 0]);
    let traffic = &summary.traffic[0];
    assert_eq!((traffic.started, traffic.completed, traffic.unfinished), (1, 1, 0));
    let names: Vec<&str> = traffic.bins.iter().map(|bin| bin.sizes.as_str()).collect();
    assert_eq!(names, ["all", "10KB-100KB"]);
    let slowdown = traffic.bins[0].slowdown_permille.unwrap();
    assert_eq!((slowdown.mean, slowdown.p50, slowdown.max), (Some(1_000), Some(1_000), Some(1_000)));
    assert!(summary.notes.iter().any(|note| note.starts_with("no PAUSE was sent: ")), "{:?}", summary.notes);
    let row = fs::read_to_string(folder.path().join("fct.csv")).unwrap().lines().nth(1).unwrap().to_owned();
    let cells: Vec<&str> = row.split(',').collect();
    assert_eq!((cells[0], cells[1], cells[4], cells[5]), ("messages", "50.000000", "H12", "H23"));
    assert_eq!(cells[3], cells[6], "FCT and ideal FCT");
}

#[test]
fn a_run_without_pauses_says_how_near_one_was() {
    let messages = (1..3).map(|from| Message { start: us(50), from, to: 0, size: Bytes::kb(20) }).collect();
    let folder = TempDir::new().unwrap();
    let summary = run(&leaf_spine(messages), folder.path());
    let note = summary.notes.iter().find(|note| note.starts_with("no PAUSE was sent")).unwrap();
    assert!(note.contains(" % of its threshold (L1.h") && note.contains(" class 3, "), "{note}");
}

#[test]
fn the_same_scenario_leaves_the_same_files() {
    let mut scenario = leaf_spine(incasts());
    scenario.warm_up = us(100);
    let folder = TempDir::new().unwrap();
    let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
    let summary = run(&scenario, &one);
    run(&scenario, &other);
    for name in DETERMINISTIC {
        let [one, other] = [&one, &other].map(|run| fs::read(run.join(name)).unwrap());
        assert!(!one.is_empty() && one == other, "{name} differs");
    }
    assert!(one.join("speed.json").exists());
    assert_eq!(summary.failures, [""; 0], "{:?}", summary.notes);
    let traffic = &summary.traffic[0];
    assert_eq!((traffic.completed, traffic.warm_up, traffic.bins[0].count), (14, 7, 7));
    assert!(traffic.bins[0].slowdown_permille.unwrap().p50 > Some(2_000), "seven senders share a link");
    let paused = summary.flow_control.unwrap();
    assert!(paused.pauses_sent > 0 && paused.paused_ns > 0);
    assert_eq!(paused.pauses_per_second, paused.pauses_sent * 1_000);
    assert!(read_series(&one).unwrap().column("L1.h2.3.paused").is_some());
}

#[test]
fn what_a_queue_holds_at_its_pauses_is_its_threshold_and_little_more() {
    let text = "[scenario]\nend = \"2ms\"\nsample_every = \"1us\"\n[topology]\nkind = \"single\"\nhosts = 5\nrate = \"10Gbps\"\ndelay = \"8us\"\n\
                [switch.buffer]\nsize = \"1MB\"\nprivate = \"0B\"\nheadroom = \"32KB\"\npolicy = \"static\"\n\
                [switch.buffer.static]\nthreshold = \"20KB\"\n[switch.classes]\npreset = \"roce\"\n\
                [[workloads]]\nkind = \"incast\"\nclass = 3\nsizes = \"200KB\"\nreceivers = [\"H0\"]\n";
    let runs = file::parse(Path::new("single.toml"), text);
    let scenario = runs.unwrap_or_else(|errors| panic!("{}", errors.render(false))).remove(0).scenario;
    let folder = TempDir::new().unwrap();
    let summary = run(&scenario, folder.path());
    assert_eq!(summary.failures, [""; 0]);
    let classes: Vec<_> = summary.lossless_classes().filter(|class| class.class == 3).collect();
    let paused: Vec<_> = classes.iter().filter(|class| class.pauses_sent > 0).collect();
    assert_eq!(paused.len(), 4, "each sender's port");
    for class in &paused {
        let mean = class.held_at_pauses_bytes / class.pauses_sent;
        // A frame may be on its way out when the class turns OFF, and the message goes behind it; then more has come in.
        assert!((20_000 - 1_100..20_000 + 2 * 1_100).contains(&mean), "{mean} B of {}", class.pauses_sent);
    }
    // Four senders' queues, filled at 10 Gb/s for the round trip after their PAUSEs, and drained at a quarter of that.
    let off = summary.off_queues.unwrap();
    assert_eq!((off.queues, off.off_p99), (5, Some(4)));
    assert!((5_000_000_000..10_100_000_000).contains(&off.arrival_p50_bps.unwrap()), "{off:?}");
    assert!((1_500_000_000..3_500_000_000).contains(&off.departure_p50_bps.unwrap()), "{off:?}");
    assert!((10_000..32_000).contains(&off.queue_peak_p50_bytes.unwrap()), "{off:?}");
    assert!(off.headroom_peak_p99_bytes >= off.port_peak_p99_bytes, "{off:?}");
    // The receiver's egress queue holds all four ingress queues, and no lossy frame comes.
    let egress = summary.egress_use.unwrap();
    assert!((60_000..4 * (20_000 + 32_000)).contains(&egress.lossless_p99_bytes), "{egress:?}");
    assert_eq!((egress.samples, egress.lossy_p99_bytes), (2_000, 0), "{egress:?}");
    // The senders have a port each, and one class.
    assert_eq!(
        (off.port_peak_p50_bytes, off.port_peak_p99_bytes),
        (off.queue_peak_p50_bytes, off.queue_peak_p99_bytes)
    );
    let messages = summary.flow_control.as_ref().unwrap();
    let [mean, p99, most] =
        [messages.messages_share_mean_ppm, messages.messages_share_p99_ppm, messages.messages_share_max_ppm];
    assert!(0 < mean && mean < most && p99 <= most && most < 200_000, "{mean}, {p99}, {most} ppm");
    let [pauses, held] = [
        classes.iter().map(|class| class.pauses_sent).sum::<u64>(),
        classes.iter().map(|class| class.held_at_pauses_bytes).sum::<u64>(),
    ];
    for class in &classes {
        assert_eq!(class.pauses_sent + class.others_pauses_sent, pauses);
        assert_eq!(class.held_at_pauses_bytes + class.others_held_at_pauses_bytes, held);
        assert_eq!(class.held_at_pause_mean_bytes, class.held_at_pauses_bytes.checked_div(class.pauses_sent));
    }
}

#[test]
fn the_ways_vary_with_their_seed_alone() {
    // Four hosts send through two spines: which of them share one decides how long they take.
    let messages = (0..4).map(|from| Message { start: us(0), from, to: from + 4, size: Bytes::kb(60) }).collect();
    let mut scenario = leaf_spine(messages);
    let mut fcts = |ecmp_seed, seed| {
        (scenario.ecmp_seed, scenario.seed) = (ecmp_seed, seed);
        let folder = TempDir::new().unwrap();
        run(&scenario, folder.path());
        fs::read_to_string(folder.path().join("fct.csv")).unwrap()
    };
    let found: std::collections::BTreeSet<String> = (0..6).map(|ecmp_seed| fcts(ecmp_seed, 1)).collect();
    assert!(found.len() > 1, "{found:?}");
    assert_eq!(fcts(0, 1), fcts(0, 2));
}

#[test]
fn other_simulators_files_say_the_same() {
    let scenario = leaf_spine(incasts());
    let folder = TempDir::new().unwrap();
    let summary = run(&scenario, folder.path());
    let numbers = |name: &str, radix: u32| -> Vec<Vec<u64>> {
        let text = fs::read_to_string(folder.path().join(name)).unwrap();
        let fields = |line: &str| line.split(' ').map(|field| u64::from_str_radix(field, radix).unwrap()).collect();
        text.lines().filter(|line| !line.starts_with("time: ")).map(fields).collect()
    };
    let fcts = fs::read_to_string(folder.path().join("fct.txt")).unwrap();
    assert_eq!(fcts.lines().count(), 14);
    let last: Vec<&str> = fcts.lines().last().unwrap().split(' ').collect();
    assert_eq!((last[1], last[3], last[4], last[5]), ("0b000001", "100", "60000", "500000"));
    let pauses = numbers("pfc.txt", 10);
    assert!(pauses.iter().map(|line| line[0]).is_sorted() && !pauses.is_empty());
    // Pauses of a node's interface begin and end in turn, and there are as many as were sent.
    let mut paused: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for line in &pauses {
        assert_eq!(line[2], u64::from(line[1] >= 8), "hosts come first: {line:?}");
        let before = paused.insert((line[1], line[3]), line[4]).unwrap_or(0);
        assert_ne!(before, line[4], "{line:?}");
    }
    let begun = pauses.iter().filter(|line| line[4] == 1).count() as u64;
    assert_eq!(begun, summary.flow_control.unwrap().pauses_sent);
    let lengths = numbers("qlen.txt", 10);
    assert_eq!(lengths.len(), 8 + 2 * 4, "each linked port of the switches has a line");
    assert!(
        lengths.iter().all(|line| line[2..].iter().sum::<u64>() == 51),
        "a sample every 20 us, and at 750 us, where a window begins"
    );
}

#[test]
fn what_hosts_tell_ports_is_told_when_it_has_arrived() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/slow-receiver.toml");
    let mut scenario = file::load(&path).unwrap().remove(0).scenario;
    scenario.end = us(2_000);
    scenario.windows.clear();
    let folder = TempDir::new().unwrap();
    let summary = run(&scenario, folder.path());
    let events = fs::read_to_string(folder.path().join("events.csv")).unwrap();
    let rows: Vec<Vec<&str>> = events.lines().skip(1).map(|line| line.split(',').collect()).collect();
    assert!(rows.iter().map(|row| row[0].parse::<f64>().unwrap()).is_sorted(), "in order of time");
    let received: Vec<&Vec<&str>> = rows.iter().filter(|row| row[3].ends_with("_received")).collect();
    assert!(received.iter().all(|row| row[1] == "S1.R1" && row[2] == "3"), "{received:?}");
    let pauses = received.iter().filter(|row| row[3] == "pause_received").count() as u64;
    let told = summary.flow_control.unwrap();
    assert!(told.host_pauses_sent > 1 && pauses == told.host_pauses_sent, "{pauses} rows, {told:?}");
    assert!(received.windows(2).all(|pair| pair[0][3] != pair[1][3]), "{received:?}");

    // `pfc.txt` has these pauses under the second switch's interface, and the switches' own pauses, too.
    let text = fs::read_to_string(folder.path().join("pfc.txt")).unwrap();
    let port = scenario.switches[1].ports.iter().position(|port| port.name == "R1").unwrap();
    let of_port = format!(" {} 1 {} ", scenario.hosts.len() + 1, port + 1);
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(&of_port)).collect();
    let row = |row: &&Vec<&str>| {
        let whole = row[0].replace('.', "").parse::<u64>().unwrap() / 1_000;
        format!("{whole}{of_port}{}", u8::from(row[3] == "pause_received"))
    };
    assert_eq!(lines, received.iter().map(row).collect::<Vec<String>>());
    let begun = text.lines().filter(|line| line.ends_with(" 1")).count() as u64;
    assert_eq!(begun, told.pauses_sent + told.host_pauses_sent);
}

#[test]
fn a_run_that_is_stopped_leaves_what_there_is() {
    let scenario = leaf_spine(incasts());
    let folder = TempDir::new().unwrap();
    let stop = AtomicBool::new(false);
    let mut stop_later = |progress: &Progress| stop.store(progress.now >= us(520), Ordering::Relaxed);
    let summary = run_with(&scenario, folder.path(), Expectation::Flow, &mut stop_later, &stop);
    assert!(summary.failures[0].starts_with("interrupted at 520us of 1ms"), "{:?}", summary.failures);
    assert_eq!(summary.duration_ns, 520_000);
    let traffic = &summary.traffic[0];
    assert_eq!((traffic.started, traffic.completed + traffic.unfinished), (14, 14));
    assert!(traffic.unfinished > 0 && summary.windows.is_empty());
    assert!(read_series(folder.path()).unwrap().column("t_us").unwrap().count() == 26);
}

#[test]
fn what_outages_and_faults_take_is_accounted_for() {
    let messages = (1..8).map(|from| Message { start: us(0), from, to: 0, size: Bytes::kb(200) }).collect();
    let mut scenario = leaf_spine(messages);
    let cut = |link, at, until| Outage { link, at: us(at), until: us(until) };
    scenario.outages =
        vec![cut(LinkRef::Between(0), 100, 200), cut(LinkRef::Between(0), 150, 250), cut(LinkRef::ToHost(1), 50, 300)];
    scenario.links[1].faults[1] = FaultPlan {
        frames: ChosenFrames::Data,
        loss_ppm: 20_000,
        corruption_ppm: 20_000,
        duplication_ppm: 20_000,
        until: Time::NEVER,
        seed: 3,
        ..FaultPlan::default()
    };
    let folder = TempDir::new().unwrap();
    let summary = run(&scenario, folder.path());
    let frames = summary.frames.clone().unwrap();
    assert!(
        frames.lost_link_down > 0 && frames.faults_lost > 0 && frames.faults_corrupted > 0 && frames.duplicated > 0,
        "{frames:?}"
    );
    assert_eq!((frames.held, frames.on_links, summary.lossless), (0, 0, true), "{:?}", summary.failures);
    assert_eq!(summary.traffic[0].completed, 7, "what was lost is sent again");
    let events = fs::read_to_string(folder.path().join("events.csv")).unwrap();
    let marks: Vec<&str> = events.lines().filter(|line| line.contains(",mark,")).collect();
    let link = "link L1.up1 - S1.down1";
    assert_eq!(
        marks,
        [
            "50.000000,,,mark,link to H12 cut".to_owned(),
            format!("100.000000,,,mark,{link} cut"),
            format!("250.000000,,,mark,{link} mended"),
            "300.000000,,,mark,link to H12 mended".to_owned(),
        ]
    );
}

#[test]
fn snapshots_show_all_queues_at_their_instants() {
    let mut scenario = leaf_spine(incasts());
    // One between two samples.
    scenario.snapshots = vec![us(107), us(111)];
    let folder = TempDir::new().unwrap();
    run(&scenario, folder.path());
    let text = fs::read_to_string(folder.path().join("queues.csv")).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|row| row.split(',').collect()).collect();
    let instants: std::collections::BTreeSet<&str> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(instants.into_iter().collect::<Vec<_>>(), ["107.000000", "111.000000"]);
    let number = |row: &[&str], column: usize| row[column].parse::<u64>().unwrap();
    // What came in is what is to go out, switch by switch.
    for at in ["107.000000", "111.000000"] {
        for switch in ["L1", "L2", "S1", "S2"] {
            let of_switch = || rows.iter().filter(|row| row[0] == at && row[1].starts_with(&format!("{switch}.")));
            let came: u64 = of_switch().map(|row| number(row, 3) + number(row, 4) + number(row, 5)).sum();
            assert_eq!(came, of_switch().map(|row| number(row, 8)).sum::<u64>(), "{at} {switch}");
        }
        assert!(rows.iter().any(|row| row[0] == at && number(row, 8) > 0), "{text}");
    }
    // A snapshot adds a sample, and changes nothing else.
    scenario.snapshots.clear();
    let without = TempDir::new().unwrap();
    run(&scenario, without.path());
    let fcts = |folder: &TempDir| fs::read_to_string(folder.path().join("fct.csv")).unwrap();
    assert_eq!(fcts(&folder), fcts(&without));
    assert!(!without.path().join("queues.csv").exists());
}

/// Lossless frames that a port dropped for links that were down.
fn port_down(port: &PortSummary) -> u64 {
    let lossless = port.classes.iter().filter(|class| class.lossless);
    lossless.filter_map(|class| class.drops.get("port_down")).sum()
}

/// Four leaves, two spines. While L3 has no link to S0 each other leaf must know, or what it sends to S0 for L3 ends there.
#[test]
fn the_whole_fabric_routes_around_an_outage_after_the_routing_delay() {
    let run_with_delay = |key: &str| {
        let text = format!(
            "[scenario]\nend = \"2ms\"\n{key}\n[switch.classes]\npreset = \"roce\"\n[switch.pfc]\nreaction = \"0s\"\n\
             [topology]\nkind = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts = 2\nrate = \"100Gbps\"\ndelay = \"2us\"\n\
             [nic]\nretransmit = \"100us\"\n\
             [[workloads]]\nkind = \"all-to-all\"\nclass = 3\nsizes = \"20KB\"\nevery = \"100us\"\nuntil = \"1500us\"\n\
             [[outages]]\nlink = [\"L3\", \"S0\"]\nat = \"500us\"\nuntil = \"1ms\"\n"
        );
        let runs =
            file::parse(Path::new("outage.toml"), &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        let folder = TempDir::new().unwrap();
        let summary = run(&runs[0].scenario, folder.path());
        assert_eq!((summary.lossless, summary.traffic[0].unfinished), (true, 0), "{:?}", summary.failures);
        let (outages, frames) = (summary.outages.unwrap(), summary.frames.unwrap());
        assert_eq!(outages.reroutes, !key.is_empty());
        let lost = outages.lossless_frames_lost + outages.other_frames_lost;
        assert_eq!(lost, frames.lost_link_down + frames.dropped.get("port_down").copied().unwrap_or(0));
        assert!(outages.lossless_frames_lost >= summary.ports.iter().map(port_down).sum(), "{outages:?}");
        let dropped = frames.dropped;
        // Frames on a way that has ended turn back.
        assert_eq!(dropped.get("same_port").copied().unwrap_or(0), 0, "{dropped:?}");
        let dropped: u64 = dropped.values().sum();
        let events = fs::read_to_string(folder.path().join("events.csv")).unwrap();
        let marks: Vec<String> =
            events.lines().filter(|line| line.contains("know the ways")).map(|line| line[..6].to_owned()).collect();
        (dropped, marks)
    };
    let (never, marks) = run_with_delay("");
    assert_eq!(marks.len(), 0);
    let (late, marks) = run_with_delay("routing_delay = \"100us\"");
    assert_eq!(marks, ["600.00", "1100.0"]);
    let (at_once, _) = run_with_delay("routing_delay = \"0s\"");
    // For a fifth of the outage, and for all of it.
    assert!(at_once < late / 2 && late > 0 && late < never / 2, "{at_once} {late} {never}");
}

#[test]
fn a_class_gets_its_first_rate_during_a_run() {
    // 2 MB take 1.7 ms at the line's rate; at a tenth from half a millisecond on, 12 ms more for what is left.
    let text = "[scenario]\nend = \"3ms\"\n[topology]\nkind = \"single\"\nhosts = 2\nrate = \"10Gbps\"\ndelay = \"1us\"\n\
                [switch.buffer]\nsize = \"1MB\"\n[switch.classes]\npreset = \"roce\"\n[switch.pfc]\nreaction = \"0s\"\n\
                [[workloads]]\nkind = \"incast\"\nclass = 3\nsizes = \"2MB\"\nreceivers = [\"H0\"]\n";
    let change = "[[changes]]\nat = \"500us\"\nkey = \"classes.queues.3.rate\"\nvalue = \"1Gbps\"\n";
    for (text, within_us) in [(text.to_owned(), 1_700.0..1_800.0), (format!("{text}{change}"), 12_000.0..13_500.0)] {
        let runs = file::parse(Path::new("rate.toml"), &text);
        let scenario = runs.unwrap_or_else(|errors| panic!("{}", errors.render(false))).remove(0).scenario;
        let folder = TempDir::new().unwrap();
        run(&scenario, folder.path());
        let messages = fs::read_to_string(folder.path().join("fct.csv")).unwrap();
        let fct_us: f64 = messages.lines().nth(1).unwrap().split(',').nth(3).unwrap().parse().unwrap();
        assert!(within_us.contains(&fct_us), "{messages}");
    }
}

/// Random links of several fabrics fail and come back, some periodically. A frame that no longer has another way turns back: no
/// lossless frame is dropped, but at a link that is down.
#[test]
fn no_reroute_drops_a_lossless_frame() {
    let link = "rate = \"100Gbps\"\ndelay = \"1us\"\n";
    let leaf_spine = |parallel: usize| {
        format!("kind = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts = 2\nparallel = {parallel}\n{link}")
    };
    let clos = "kind = \"clos\"\npods = 2\ntors = 2\nleaves = 2\nspines = 4\nhosts = 2\nuplinks = \"planes\"\n";
    let tree = format!("kind = \"fat-tree\"\nk = 4\n{link}");
    let fabrics = [leaf_spine(1), leaf_spine(2), format!("{clos}{link}"), tree];
    for (seed, fabric) in (0..24).zip(fabrics.iter().cycle()) {
        let mut random = SplitMix64::new(seed);
        let mut below = |n: u64| random.next_u64() % n;
        let delay = [0, 5, 40][below(3) as usize];
        let [balancing, recovery] = [["flow-hash", "go-back-n"], ["random", "selective"]][below(2) as usize];
        let text = format!(
            "[scenario]\nend = \"500us\"\nrouting_delay = \"{delay}us\"\n\
             [switch]\nload_balancing = \"{balancing}\"\n[switch.classes]\npreset = \"roce\"\n\
             [switch.buffer]\nsize = \"16MB\"\n[switch.pfc]\nreaction = \"0s\"\n[topology]\n{fabric}\
             [nic]\nretransmit = \"200us\"\nloss_recovery = \"{recovery}\"\n\
             [[workloads]]\nkind = \"permutation\"\nclass = 3\n\
             sizes = \"60KB\"\nevery = \"20us\"\nuntil = \"400us\"\nseed = {seed}\n"
        );
        let runs = file::parse(Path::new("draw.toml"), &text);
        let runs = runs.unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        let mut scenario = runs.into_iter().next().unwrap().scenario;
        for _ in 0..=below(3) {
            let link = LinkRef::Between(below(scenario.links.len() as u64) as usize);
            let (from, length) = (below(300), 20 + below(150));
            let outage = |n: u64| Outage { link, at: us(from + n * 200), until: us(from + n * 200 + length) };
            scenario.outages.extend((0..=below(2)).map(outage));
        }
        let folder = TempDir::new().unwrap();
        let summary = run(&scenario, folder.path());
        assert_eq!((&summary.failures, summary.lossless), (&Vec::new(), true), "seed {seed}");
        let dropped = summary.frames.unwrap().dropped;
        assert!(dropped.keys().all(|reason| reason == "port_down"), "seed {seed}: {dropped:?}");
    }
}

#[test]
fn what_is_lost_or_left_behind_fails_the_run() {
    let message = |start, from, kb| Message { start: us(start), from, to: 0, size: Bytes::kb(kb) };
    // The first and the last get through; what H12 sends after 10 us does not, and that includes the rest of its message.
    let mut scenario = leaf_spine(vec![message(0, 2, 20), message(0, 1, 64), message(20, 1, 20), message(500, 3, 20)]);
    scenario.outages = vec![Outage { link: LinkRef::ToHost(1), at: us(10), until: Time::NEVER }];
    let folder = TempDir::new().unwrap();
    let summary = run(&scenario, folder.path());
    assert!(summary.failures[0].starts_with("not drained 33.75ms after the end"), "{:?}", summary.failures);
    let traffic = &summary.traffic[0];
    assert_eq!((traffic.started, traffic.completed, traffic.unfinished), (4, 2, 2));
    // They are in no figure as if they had not been: half of all finished, and of the means none.
    let told = traffic.bins.iter().map(|bin| {
        let slowdown = bin.slowdown_permille.unwrap();
        let finite = [bin.fct_ns.mean, bin.fct_ns.p50, bin.fct_ns.p99, slowdown.mean, slowdown.p50, slowdown.p99];
        (bin.sizes.as_str(), bin.count, bin.unfinished, finite.map(|value| value.is_some()))
    });
    let half = [false, true, false, false, true, false];
    assert_eq!(told.collect::<Vec<_>>(), [("all", 4, 2, half), ("10KB-100KB", 4, 2, half)]);
    let rows = fs::read_to_string(folder.path().join("fct.csv")).unwrap();
    let rows: Vec<Vec<&str>> = rows.lines().skip(1).map(|row| row.split(',').collect()).collect();
    assert_eq!(rows.len(), 4);
    assert!(rows[..2].iter().all(|row| !row[3].is_empty()), "{rows:?}");
    assert_eq!(rows[2][..6], ["messages", "0.000000", "64000", "", "H12", "H11"]);
    assert_eq!(rows[3][..6], ["messages", "20.000000", "20000", "", "H12", "H11"]);
}

/// Six ports that burst, of which five copy the first: one host fills the buffer as six do, and is paused for any of them.
#[test]
fn clones_receive_copies_and_every_copy_is_accounted_for() {
    let victim = Victim {
        congestion_control: CongestionControlChoice::none(),
        burst_start: us(500),
        burst_stop: us(2_000),
        end: us(2_000),
        sample_every: Span::from_micros(50),
        ..Victim::testbed(0, VictimPolicy::new(PolicyChoice::Dynamic))
    };
    let scenario = victim.copied(6).in_virtual_time().scenario().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let summary = run(&scenario, &folder.path().join("run"));
    assert_eq!((summary.failures.len(), summary.lossless), (0, true), "{:?}", summary.failures);
    let burst = summary.flows.iter().find(|flow| flow.name == "B1").unwrap();
    assert!(burst.messages_done > 0 && burst.messages_done == burst.messages_sent, "{burst:?}");
    assert_eq!((burst.frames_received, burst.duplicates), (6 * burst.frames_sent, 5 * burst.frames_sent));
    assert_eq!(summary.frames.unwrap().copied, 5 * burst.frames_sent);
    let paused = summary.ports.iter().find(|port| port.host == "H1").unwrap();
    assert!(paused.classes.iter().any(|class| class.pauses_sent > 0 && class.host_paused_ns > Some(0)), "{paused:?}");
}

#[test]
fn a_fabric_carries_its_workloads() {
    let text = "[scenario]\nend = \"1ms\"\n[switch.classes]\npreset = \"roce\"\n[switch.pfc]\nreaction = \"0s\"\n\
                [topology]\nkind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts = 2\nrate = \"100Gbps\"\ndelay = \"2us\"\n\
                [[workloads]]\nkind = \"all-to-all\"\nclass = 3\nsizes = \"20KB\"\ncongestion_control = \"dcqcn\"\n";
    let runs = file::parse(Path::new("fabric.toml"), text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    let scenario = &runs[0].scenario;
    let mut sim = Sim::new(scenario).unwrap();
    sim.run_until(scenario.end);
    assert_eq!(sim.drain_completions().count(), 12);
}

/// At 1,170 ns nine frames follow one that exceeds Xoff, 41,600 B: 110 B more than without its own bytes.
#[test]
fn headroom_by_the_rule_has_room_for_long_frames() {
    for (delay, size) in [(1_170, "1MB"), (1_337, "800KB")] {
        let text = format!(
            "[scenario]\nend = \"1ms\"\n[topology]\nkind = \"single\"\nhosts = 9\nrate = \"100Gbps\"\ndelay = \"{delay}ns\"\n\
             [switch]\nmtu = 4200\n[switch.buffer]\nsize = \"{size}\"\npolicy = \"dt\"\n[switch.buffer.dt]\nalpha = \"1/8\"\n\
             [switch.classes]\npreset = \"roce\"\n[switch.pfc]\nreaction = \"0s\"\n[nic]\nmtu = 4096\nack_every = 256\n\
             [[workloads]]\nkind = \"poisson\"\nname = \"w\"\nclass = 3\nsizes = \"256KiB\"\nload = 0.9\n"
        );
        let runs =
            file::parse(Path::new("jumbo.toml"), &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        let folder = tempfile::tempdir().unwrap();
        let summary = run(&runs[0].scenario, folder.path());
        assert!(summary.lossless, "{delay} ns: {:?}", summary.failures);
        assert!(summary.flow_control.unwrap().pauses_sent > 100, "{delay} ns");
    }
}

#[test]
fn an_ablation_may_lose_lossless_frames() {
    let text = "[scenario]\nname = \"loss\"\nend = \"200us\"\n[topology]\nkind = \"single\"\nhosts = 8\nrate = \"10Gbps\"\n\
                delay = \"1us\"\n[switch.buffer]\nsize = \"100KB\"\npolicy = \"dsh\"\nheadroom = \"12KB\"\n\
                [switch.buffer.dsh]\nalpha = 4\ninsurance = false\nshared_headroom = false\n[switch.classes]\n\
                preset = \"roce\"\n[switch.pfc]\nreaction = \"0s\"\n[[workloads]]\nkind = \"incast\"\nclass = 3\n\
                sizes = \"60KB\"\nreceivers = [\"H0\"]\n[[runs]]\nname = \"lossless\"\n[[runs]]\nname = \"lossy\"\n\
                expect = \"loss\"\n";
    let runs = file::parse(Path::new("loss.toml"), text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    let summaries = runs.iter().map(|one| {
        let folder = tempfile::tempdir().unwrap();
        run_with(&one.scenario, folder.path(), one.expects, &mut |_| (), &AtomicBool::new(false))
    });
    let [lossless, lossy] = summaries.collect::<Vec<_>>().try_into().unwrap();
    let lost = lossy.lossless_drops();
    assert!(lost > 0 && !lossy.lossless && lossy.failures.is_empty(), "{lost}: {:?}", lossy.failures);
    assert_eq!(lossless.failures, [format!("{lost} lossless frames were lost: {lost} headroom_violation")]);
}

/// Seven hosts send frames to one, whose queue takes half of the buffer. With 1,106 B on the wire, each frame arrives 0.8848 us after the one
/// before.
#[test]
fn each_drop_has_the_instant_of_its_frame() {
    let text = "[scenario]\nend = \"50us\"\nsample_every = \"20us\"\n[topology]\nkind = \"single\"\nhosts = 8\n\
                rate = \"10Gbps\"\ndelay = \"1us\"\n[switch.buffer]\nsize = \"40KB\"\npolicy = \"static\"\nlossy_alpha = 1\n\
                headroom = \"1KB\"\n[switch.classes]\npreset = \"roce\"\n[switch.pfc]\nreaction = \"0s\"\n\
                [[workloads]]\nkind = \"incast\"\nclass = 0\nsizes = \"60KB\"\nreceivers = [\"H0\"]\n";
    let runs = file::parse(Path::new("drops.toml"), text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    let folder = tempfile::tempdir().unwrap();
    let summary = run(&runs[0].scenario, folder.path());
    let events = fs::read_to_string(folder.path().join("events.csv")).unwrap();
    let drops: Vec<Vec<&str>> =
        events.lines().filter(|row| row.contains(",drop,")).map(|row| row.split(',').collect()).collect();
    let frames = drops.iter().map(|row| row[4].strip_prefix("egress_threshold ").unwrap().parse::<u64>().unwrap());
    assert_eq!(frames.sum::<u64>(), summary.frames.unwrap().dropped["egress_threshold"]);
    let picos = |row: &[&str]| row[0].replace('.', "").parse::<u64>().unwrap();
    let first = picos(&drops[0]);
    let during: Vec<u64> = drops.iter().map(|row| picos(row) - first).filter(|after| *after < 40_000_000).collect();
    assert!(during.len() > 200 && during.iter().all(|after| after % 884_800 == 0), "{events}");
}
