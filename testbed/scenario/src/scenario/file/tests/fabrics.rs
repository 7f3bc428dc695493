//! `[topology]`, equal-cost paths, and outages.

use std::collections::BTreeSet;

use weir_load_balancing::{FlowletConfig, PathSelectorChoice};
use weir_nic::host::{LossRecovery, SelectiveConfig, Transport};

use super::*;
use crate::link::LlrPlan;
use crate::scenario::{LinkRef, Outage};

/// A fabric with PFC on class 3.
fn fabric(topology: &str, more: &str) -> Vec<ScenarioRun> {
    good(&format!(
        "[scenario]\nend = \"1ms\"\n[switch.classes]\npreset = \"roce\"\n[switch.pfc]\nreaction = \"0s\"\n\
         [topology]\n{topology}\n{more}"
    ))
}

fn one(topology: &str, more: &str) -> Scenario {
    let scenario = fabric(topology, more).remove(0).scenario;
    assert_eq!(scenario.check(), Ok(()));
    scenario
}

const LEAF_SPINE: &str =
    "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts = 2\nrate = \"100Gbps\"\ndelay = \"2us\"\n";

#[test]
fn each_kind_has_its_switches_hosts_and_links() {
    let links = "rate = \"40Gbps\"\ndelay = \"1us\"\n";
    let host_links = "host_rate = \"10Gbps\"\nhost_delay = \"500ns\"\n";
    for (keys, sizes, host) in [
        ("kind = \"single\"\nhosts = 64\n".to_owned(), (1, 64, 0), (40, 1_000)),
        ("kind = \"dumbbell\"\nleft = 3\nright = 1\nbottleneck_rate = \"10Gbps\"\n".to_owned(), (2, 4, 1), (40, 1_000)),
        (format!("kind = \"ring\"\nswitches = 5\nhosts = 2\n{host_links}"), (5, 10, 5), (10, 500)),
        (
            format!("kind = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts = 3\nparallel = 2\n{host_links}"),
            (6, 12, 16),
            (10, 500),
        ),
        (
            "kind = \"clos\"\npods = 2\ntors = 2\nleaves = 2\nspines = 4\nhosts = 3\nuplinks = \"planes\"\n\
             spine_rate = \"100Gbps\"\n"
                .to_owned(),
            (12, 12, 16),
            (40, 1_000),
        ),
        (format!("kind = \"fat-tree\"\nk = 4\n{host_links}"), (20, 16, 32), (10, 500)),
        (
            "kind = \"rails\"\nservers = 4\ngpus = 4\nrails = 2\nspines = 2\noversubscription = 2\n\
             nvlink_rate = \"7200Gbps\"\nnvlink_delay = \"1us\"\n"
                .to_owned(),
            (4, 16, 8),
            (40, 1_000),
        ),
    ] {
        let scenario = one(&format!("{keys}{links}"), "");
        let counts = (scenario.switches.len(), scenario.hosts.len(), scenario.links.len());
        assert_eq!(counts, sizes, "{keys}");
        let plan = &scenario.hosts[0];
        assert_eq!((plan.nic.rate, plan.link_delay), (BitRate::gbps(host.0), Span::from_nanos(host.1)), "{keys}");
        let routes = scenario.routes.as_ref().unwrap();
        assert_eq!(routes.ports(plan.switch, 0), [plan.port as u16], "{keys}");
        assert!(scenario.switches.iter().all(|switch| switch.static_macs.is_empty()));
    }
}

#[test]
fn switches_learn_of_outages_after_the_routing_delay() {
    let scenario = |key: &str| {
        let text = format!(
            "[scenario]\nend = \"1ms\"\n{key}\n[switch.classes]\npreset = \"roce\"\n[switch.pfc]\nreaction = \"0s\"\n\
             [topology]\n{LEAF_SPINE}\n[[outages]]\nlink = [\"L1\", \"S0\"]\nat = \"100us\"\nuntil = \"300us\"\n\
             [[outages]]\nlink = [\"L1\", \"H2\"]\nat = \"150us\"\nuntil = \"200us\"\n\
             [[outages]]\nlink = [\"L0\", \"S0\"]\nat = \"250us\"\n"
        );
        good(&text).remove(0).scenario
    };
    let us = |us| Time::ZERO + Span::from_micros(us);
    let never = scenario("").reroutings();
    assert_eq!((never.at, never.sets), (Vec::new(), vec![Vec::new()]));
    assert_eq!(scenario("routing_delay = \"none\"").reroutings().at, []);
    let known = scenario("routing_delay = \"30us\"").reroutings();
    // A host's link has no alternative path.
    assert_eq!(known.at, [(us(130), 1), (us(280), 2), (us(330), 3)]);
    assert_eq!(known.sets.iter().map(Vec::len).collect::<Vec<_>>(), [0, 1, 2, 1]);
}

#[test]
fn ports_are_named_and_paced_after_their_cables() {
    let scenario = one(&format!("{LEAF_SPINE}host_rate = \"25Gbps\"\nhost_delay = \"1us\"\n"), "");
    let ports = |switch: usize| {
        let ports = scenario.switches[switch].ports.iter();
        ports.map(|port| (port.name.as_str(), port.rate.unwrap().as_bps() / 1_000_000_000)).collect::<Vec<_>>()
    };
    let names: Vec<&str> = scenario.switches.iter().map(|switch| switch.name.as_str()).collect();
    assert_eq!(names, ["L0", "L1", "S0", "S1"]);
    assert_eq!(ports(1), [("H2", 25), ("H3", 25), ("to-S0", 100), ("to-S1", 100)]);
    assert_eq!(ports(3), [("to-L0", 100), ("to-L1", 100)]);
    let leaf = &scenario.switches[1];
    let place = |port| scenario.peer(PortRef { switch: 1, port }).map(|behind| scenario.peer_name(behind));
    assert_eq!([place(1), place(3)], [Some("H3".to_owned()), Some("S1.to-L1".to_owned())]);
    // Each port has an address and a ring of its own.
    let all = || scenario.switches.iter().flat_map(|switch| &switch.ports);
    let macs: std::collections::BTreeSet<_> = all().map(|port| port.mac.unwrap().0).collect();
    let rings: std::collections::BTreeSet<_> = all().map(|port| port.device.to_string()).collect();
    assert_eq!((macs.len(), rings.len()), (12, 12));
    assert_eq!((leaf.ports[0].delay, leaf.ports[2].delay), (Span::from_micros(1), Span::from_micros(2)));
    assert_eq!(scenario.links[0].delay, Span::from_micros(2));
}

#[test]
fn hosts_beyond_255_have_addresses_of_their_own() {
    let scenario = one("kind = \"fat-tree\"\nk = 16\nrate = \"100Gbps\"\ndelay = \"1us\"\n", "");
    assert_eq!((scenario.switches.len(), scenario.hosts.len()), (320, 1_024));
    let last = &scenario.hosts[1_023].nic;
    assert_eq!((last.mac, last.ip.octets()), (MacAddr([2, 0, 0, 0, 4, 0]), [10, 0, 4, 0]));
    assert!(scenario.switches.iter().all(|switch| switch.ports.len() == 16));
    assert_eq!(scenario.switches[0].ports[8].name, "to-SA1");
    assert_eq!(scenario.draw.len(), 8);
}

#[test]
fn runs_of_a_fabric_differ_in_their_switches_settings() {
    let runs = fabric(
        LEAF_SPINE,
        "[[runs]]\nname = \"DT\"\n[[runs]]\nname = \"small\"\n[runs.switch.buffer]\nsize = \"1MB\"\n",
    );
    let size = |run: usize| runs[run].scenario.switches.iter().map(|switch| switch.buffer.size).collect::<Vec<_>>();
    assert_eq!((size(0), size(1)), (vec![Bytes::mb(12); 4], vec![Bytes::mb(1); 4]));
    let errors = runs[1].dilated(1);
    assert!(errors.is_ok(), "reaction is given");
}

#[test]
fn what_is_wrong_with_a_fabrics_switches_is_said_once() {
    let text = format!(
        "[scenario]\nend = \"1ms\"\n[switch.buffer]\nsize = \"100KB\"\n[switch.classes]\npreset = \"roce\"\n[topology]\n{LEAF_SPINE}"
    );
    let errors = parse(&here("tests/good/text.toml"), &text).unwrap_err();
    let messages: Vec<&str> = errors.iter().map(|error| error.message()).collect();
    assert!(messages.iter().all(|message| message.contains("`size` 100KB must be more than")), "{messages:?}");
    // Leaves and spines have different headroom.
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(messages[0].starts_with("switch L0 and 1 more: "), "{messages:?}");
}

#[test]
fn failed_links_are_on_no_way() {
    let scenario = one(&format!("{LEAF_SPINE}failed = [[\"S0\", \"L1\"]]\n"), "");
    let routes = scenario.routes.as_ref().unwrap();
    // Ports 2 and 3 of L0 lead to S0 and S1.
    assert_eq!((routes.ports(0, 2), routes.ports(0, 1)), (&[3][..], &[1][..]));
    assert_eq!(scenario.links.len(), 4);
    let static_one = good(&format!(
        "[scenario]\nend = \"1ms\"\nforwarding = \"static\"\n[topology]\n{LEAF_SPINE}failed = [[\"S0\", \"L1\"]]\n"
    ));
    let macs = &static_one[0].scenario.switches[0].static_macs;
    assert_eq!(macs[2], (MacAddr([2, 0, 0, 0, 0, 3]), 3));
    assert!(static_one[0].scenario.needs_virtual_time().is_none());
}

/// The failed links depend on `failure_seed` alone, not on the scenario's seed.
#[test]
fn links_fail_by_chance_besides_those_that_are_named() {
    let ways = |more: &str, scenario: &str| {
        let topology = "kind = \"fat-tree\"\nk = 4\nrate = \"10Gbps\"\ndelay = \"1us\"\n";
        let text = format!("[scenario]\nend = \"1ms\"\n{scenario}[topology]\n{topology}{more}");
        let scenario = good(&text).remove(0).scenario;
        let routes = scenario.routes.as_ref().unwrap();
        // From all switches to those with hosts.
        let all = (0..20).flat_map(|from| (0..8).map(move |to| (from, to)));
        all.map(|(from, to)| routes.ports(from, to).to_vec()).collect::<Vec<_>>()
    };
    let by_chance = |seed: u32| format!("failure_probability = 0.1\nfailure_seed = {seed}\n");
    let sets: Vec<_> = (1..=4).map(|seed| ways(&by_chance(seed), "")).collect();
    assert!(sets.iter().all(|set| *set != ways("", "")) && sets[1] != sets[0], "{sets:?}");
    assert_eq!(ways(&by_chance(3), "seed = 7\n"), sets[2]);
    // Port 2 of SE1 leads to SA1.
    let both = ways(&format!("failed = [[\"SE1\", \"SA1\"]]\n{}", by_chance(1)), "");
    assert!(both[..8].iter().all(|ports| !ports.contains(&2)), "{both:?}");
    assert!(sets.iter().any(|set| set[..8].iter().any(|ports| ports.contains(&2))), "{sets:?}");
}

#[test]
fn static_and_equal_cost_ways_lead_to_the_same_hosts() {
    let pair = pair("[[links]]\nends = [\"S1.second\", \"S2.second\"]\n").remove(0).scenario;
    let text = std::fs::read_to_string(here("../../scenarios/gfc-ring.toml")).unwrap();
    let text = text.lines().filter(|line| !line.starts_with("path")).collect::<Vec<_>>().join("\n");
    let ecmp = text.replacen("[scenario]", "[scenario]\nforwarding = \"ecmp\"", 1);
    let [of_static, of_ecmp] = [text, ecmp].map(|text| good(&text).remove(0).scenario);
    assert!(of_static.routes.is_none() && of_ecmp.switches.iter().all(|switch| switch.static_macs.is_empty()));
    let routes = of_ecmp.routes.as_ref().unwrap();
    for (number, switch) in of_static.switches.iter().enumerate() {
        for (host, (_, port)) in switch.static_macs.iter().enumerate() {
            assert_eq!(routes.ports(number, host), [*port as u16], "{} to {host}", switch.name);
        }
    }
    // Ports have the file's order, in which the second link is the last.
    let names: Vec<&str> = pair.switches[0].ports.iter().map(|port| port.name.as_str()).collect();
    assert_eq!(names, ["h1", "next", "second"]);
}

/// With real frames a switch keeps its ports in a word.
#[test]
fn more_than_64_ports_take_virtual_time() {
    let star = |hosts: usize| {
        let text = format!(
            "scenario.end = \"1ms\"\n[topology]\nkind = \"single\"\nhosts = {hosts}\nrate = \"10Gbps\"\ndelay = \"1us\"\n"
        );
        good(&text).remove(0).scenario
    };
    assert_eq!(star(64).needs_virtual_time(), None);
    let wide = star(300);
    assert_eq!(
        wide.needs_virtual_time().unwrap(),
        "switch S0 has 300 ports, and with real frames a switch has 64 at most: more take virtual time"
    );
    let macs: BTreeSet<_> = wide.switches[0].ports.iter().map(|port| port.mac.unwrap()).collect();
    assert_eq!(macs.len(), 300, "each port has an address of its own");
}

#[test]
fn listed_switches_may_have_ways_of_equal_cost() {
    let text = "[[links]]\nends = [\"S1.second\", \"S2.second\"]\n[[hosts]]\nname = \"H3\"\nport = \"S2.h3\"\n";
    let runs = good(&format!(
        "scenario.end = \"10ms\"\nscenario.forwarding = \"ecmp\"\nswitch.port.rate = \"10Gbps\"\n[[switches]]\nname = \"S1\"\n\
         [[switches]]\nname = \"S2\"\n[[hosts]]\nname = \"H1\"\nport = \"S1.h1\"\n[[hosts]]\nname = \"H2\"\nport = \"S2.h2\"\n\
         [[links]]\nends = [\"S1.next\", \"S2.prev\"]\n{text}"
    ));
    let scenario = &runs[0].scenario;
    let routes = scenario.routes.as_ref().unwrap();
    let names = |host: usize| {
        let ports = routes.ports(0, host).iter();
        ports.map(|port| scenario.switches[0].ports[usize::from(*port)].name.as_str()).collect::<Vec<_>>()
    };
    assert_eq!((names(0), names(1), names(2)), (vec!["h1"], vec!["next", "second"], vec!["next", "second"]));
    assert_eq!(
        scenario.needs_virtual_time().unwrap(),
        "its switches choose among ports of equal cost, which takes virtual time"
    );
}

#[test]
fn routes_without_a_choice_are_static_macs_too() {
    let text = "scenario.end = \"1ms\"\n[topology]\nkind = \"dumbbell\"\nleft = 2\nright = 3\nrate = \"10Gbps\"\ndelay = \"1us\"\n";
    let scenario = good(text).remove(0).scenario;
    assert_eq!((scenario.routes.is_some(), scenario.needs_virtual_time()), (true, None));
    let with = |keys: &str| good(&text.replace("end = \"1ms\"", &format!("end = \"1ms\"\n{keys}"))).remove(0).scenario;
    let unbuffered = with("scenario.unbuffered_classes = [0, 6]");
    assert_eq!(unbuffered.unbuffered.iter().map(Class::index).collect::<Vec<_>>(), [0, 6]);
    let why = unbuffered.needs_virtual_time().unwrap();
    assert_eq!(why, "its switches' buffers do not count all classes, which takes virtual time");
    let unscheduled = with("scenario.unscheduled_alpha = 1024");
    assert_eq!(unscheduled.unscheduled_alpha, Some("1024".parse().unwrap()));
    let runs = "[[runs]]\nname = \"own\"\nunscheduled_alpha = 8\n[[runs]]\nname = \"common\"\n[topology]";
    let runs = good(&text.replace("[topology]", runs)).into_iter().map(|run| run.scenario.unscheduled_alpha);
    assert_eq!(runs.collect::<Vec<_>>(), [Some("8".parse().unwrap()), None]);
    let why = unscheduled.needs_virtual_time().unwrap();
    assert_eq!(why, "its switches distinguish unscheduled frames, which takes virtual time");
    let timed = text.replace("end = \"1ms\"", "end = \"1ms\"\nscenario.frame_times = \"whole-ns\"");
    let timed = good(&timed).remove(0).scenario;
    assert_eq!(
        (scenario.frame_times, timed.frame_times),
        (SerialisationRounding::Exact, SerialisationRounding::Nanoseconds)
    );
    assert!(timed.needs_virtual_time().unwrap().starts_with("its frames take whole nanoseconds"));
    let pinned = scenario.with_static_macs();
    assert!(pinned.routes.is_none());
    let told = |switch: usize| {
        let of = &pinned.switches[switch];
        let macs = of.static_macs.iter().zip(&pinned.hosts).map(|((mac, port), host)| {
            assert_eq!(*mac, host.nic.mac);
            of.ports[*port].name.as_str()
        });
        macs.collect::<Vec<_>>()
    };
    assert_eq!(told(0), ["H0", "H1", "to-S1", "to-S1", "to-S1"]);
    assert_eq!(told(1), ["to-S0", "to-S0", "R1", "R2", "R3"]);
    let chooses = one(LEAF_SPINE, "").with_static_macs();
    assert!(chooses.routes.is_some() && chooses.switches.iter().all(|switch| switch.static_macs.is_empty()));
}

#[test]
fn flows_are_pinned_where_forwarding_is_static() {
    let scenario = good(
        "[scenario]\nend = \"1ms\"\nforwarding = \"static\"\n[topology]\nkind = \"fat-tree\"\nk = 4\nrate = \"10Gbps\"\n\
         delay = \"1us\"\n[[flows]]\nfrom = \"H0\"\nto = \"H4\"\npath = [\"SE1\", \"SA2\", \"SC3\", \"SA4\", \"SE3\"]\nclass = 3\n",
    )
    .remove(0)
    .scenario;
    let port = |switch: &str| {
        let switch = scenario.switches.iter().find(|other| other.name == switch).unwrap();
        let (mac, port) = switch.static_macs[4];
        assert_eq!(mac, scenario.hosts[4].nic.mac);
        switch.ports[port].name.clone()
    };
    assert_eq!(["SE1", "SA2", "SC3", "SA4", "SE3"].map(port), ["to-SA2", "to-SC3", "to-SA4", "to-SE3", "H4"]);
    assert!(scenario.routes.is_none());
}

#[test]
fn links_are_cut_by_the_names_of_their_ends() {
    let cut = |link: &str| {
        let more = format!("[[outages]]\nlink = {link}\nat = \"10us\"\nuntil = \"20us\"\n");
        let scenario = one(&format!("{LEAF_SPINE}parallel = 2\n"), &more);
        scenario.outages.iter().map(|outage| outage.link).collect::<Vec<_>>()
    };
    // L0-S0 twice, L0-S1 twice, L1-S0 twice, ...
    assert_eq!(cut("[\"S0\", \"L1\"]"), [LinkRef::Between(4), LinkRef::Between(5)]);
    assert_eq!(cut("[\"L1\", \"S0.1\"]"), [LinkRef::Between(5)]);
    assert_eq!(cut("[\"S1.to-L0.1\", \"L0\"]"), [LinkRef::Between(3)]);
    assert_eq!(cut("[\"L1\", \"H2\"]"), [LinkRef::ToHost(2)]);
    let scenario = one(LEAF_SPINE, "[[outages]]\nlink = [\"S0\", \"L1\"]\nat = \"10us\"\n");
    let at = Time::from_nanos(10_000);
    assert_eq!(scenario.outages, [Outage { link: LinkRef::Between(2), at, until: Time::NEVER }]);
}

/// A link that retries goes down ten timers after it is cut, and not in shorter outages.
#[test]
fn links_that_retry() {
    let outages = "[[outages]]\nlink = [\"S0\", \"L1\"]\nat = \"10us\"\nuntil = \"60us\"\n\
                   [[outages]]\nlink = [\"S0\", \"L1\"]\nat = \"100us\"\nuntil = \"300us\"\n";
    let retrying = format!("{LEAF_SPINE}llr = true\ncorruption = 0.001\n");
    let scenario = one(&retrying, &format!("{outages}[llr]\nreplay_timer = \"6us\"\n"));
    let link = LinkRef::Between(2);
    let us = |us: u64| Time::from_nanos(1_000 * us);
    assert_eq!(scenario.link_changes(), [(us(160), link, true), (us(300), link, false)]);
    assert_eq!(one(LEAF_SPINE, outages).link_changes().len(), 4);
    let llr = *scenario.llr(link).unwrap();
    assert_eq!((llr.replay_count, llr.outstanding_frames), (3, LlrPlan::FRAMES_MAX));
    let faults = scenario.links[0].faults;
    assert_eq!((faults[0].corruption_ppm, faults[0].frames), (1_000, ChosenFrames::All));
    assert_ne!(faults[0].seed, faults[1].seed);
    let refused = |topology: &str, more: &str| {
        let text =
            format!("[scenario]\nend = \"1ms\"\n[switch.classes]\npreset = \"roce\"\n[topology]\n{topology}{more}");
        parse(Path::new("llr.toml"), &text).unwrap_err().render(false)
    };
    let unused = refused(LEAF_SPINE, "[llr]\nreplay_count = 2\n");
    assert!(unused.contains("no link has `llr`") && unused.contains("write llr = true in [topology]"), "{unused}");
    let off = refused(&format!("{LEAF_SPINE}llr = false\n"), "[llr]\nreplay_count = 2\n");
    assert!(off.contains("no link has `llr`"), "{off}");
    let early = refused(&retrying, "[llr]\nreplay_timer = \"4us\"\n");
    let told =
        "an acknowledgement may take 4.41us on a link of 100Gbps and 2us: frames that arrived would be sent again";
    assert!(early.contains(told) && early.contains("write replay_timer = \"4411ns\" or more"), "{early}");
    let small = refused(&retrying, "[llr]\noutstanding_bytes = \"1KB\"\n");
    assert!(small.contains("a replay buffer holds the longest frame"), "{small}");
    let single = one("kind = \"single\"\nhosts = 2\nrate = \"10Gbps\"\ndelay = \"1us\"\nllr = true\n", "");
    let why = single.needs_virtual_time().unwrap();
    assert_eq!(why, "its links send lost frames again (`llr`), which takes virtual time");
}

/// A lost XOFF waits for 6 us at 100 Gb/s, 75,000 B, and each end's replay buffer holds 64,000 B. The rule has 2 (25,000 + 1,522) + 3,840 B.
#[test]
fn headroom_of_links_that_retry() {
    let notes = |corruption: &str, headroom: &str| {
        let text = format!("{LEAF_SPINE}llr = true\ncorruption = {corruption}\n");
        let llr = "[llr]\nreplay_timer = \"6us\"\noutstanding_bytes = \"64KB\"\n";
        let buffer = format!("[switch.buffer]\nsize = \"64MB\"\nheadroom = \"{headroom}\"\n");
        one(&text, &format!("{llr}{buffer}")).notes
    };
    assert_eq!((notes("0", "auto").len(), notes("0.001", "262KB").len()), (0, 0));
    let note = notes("0.001", "auto").pop().unwrap();
    assert!(note.ends_with("headroom for one such loss is 259,884 B at L1.H3, and it has less"), "{note}");
}

#[test]
fn a_link_may_fail_again_and_again() {
    let cut = |keys: &str| {
        let more = format!("[[outages]]\nlink = [\"S0\", \"L1\"]\nat = \"10us\"\n{keys}\n");
        let us = |at: Time| at.as_nanos() / 1_000;
        one(LEAF_SPINE, &more).outages.iter().map(|outage| (us(outage.at), us(outage.until))).collect::<Vec<_>>()
    };
    let every = "every = \"30us\"\nfor = \"5us\"\n";
    assert_eq!(cut(&format!("{every}until = \"100us\"")), [(10, 15), (40, 45), (70, 75)]);
    assert_eq!(cut(&format!("{every}until = \"103us\"")).last(), Some(&(100, 103)));
    // To the end, 1 ms.
    assert_eq!(cut(every).len(), 33);
    assert_eq!(cut("until = \"20us\""), [(10, 20)]);
    // Another outage in between; each end may have the link's number.
    let between = "[[outages]]\nlink = [\"S0.0\", \"L1.0\"]\nat = \"20us\"\nuntil = \"39us\"";
    assert_eq!(cut(&format!("{every}until = \"100us\"\n{between}")), [(10, 15), (40, 45), (70, 75), (20, 39)]);
}

#[test]
fn hosts_frames_may_be_those_of_simulators() {
    let scenario = one(LEAF_SPINE, "[nic]\nframes = \"ns3\"\n");
    assert_eq!(scenario.hosts[3].nic.sizes, FrameSizes::ns3(1_000));
    assert!(scenario.needs_virtual_time().unwrap().contains("ports of equal cost"));
    let listed = pair("[nic]\nmtu = 256\nack_every = 4\n[[flows]]\nfrom = \"H1\"\nto = \"H2\"\nclass = 3\n").remove(0);
    assert_eq!(listed.scenario.hosts[0].nic.sizes, FrameSizes::rocev2(256));
    assert_eq!(listed.scenario.flows[0].config.ack_every.map(|every| every.get()), Some(4));
    assert_eq!(listed.scenario.flows[0].config.retransmission, None);
    assert_eq!(listed.scenario.needs_virtual_time(), None);
    let made_up = pair("[nic]\nframes = \"ns3\"\nmtu = 1234\n").remove(0).scenario;
    assert_eq!(made_up.hosts[0].nic.sizes, FrameSizes::ns3(1_234));
    assert!(made_up.needs_virtual_time().unwrap().starts_with("its frames have lengths"));
}

#[test]
fn flows_have_presets_and_transports() {
    let flow = |more: &str| {
        let text = format!("[[flows]]\nfrom = \"H1\"\nto = \"H2\"\nclass = 3\n{more}");
        let scenario = pair(&text).remove(0).scenario;
        (scenario.flows[0].config.clone(), scenario.needs_virtual_time())
    };
    let (dcqcn, why) = flow("congestion_control = \"dcqcn\"\nretransmit = \"1ms\"\n");
    assert_eq!((dcqcn.congestion_control.name(), dcqcn.retransmission), ("dcqcn", Some(Span::from_millis(1))));
    assert_eq!(why, None);
    let (timely, why) = flow("congestion_control = \"timely-hpcc\"\n");
    assert_eq!(timely.congestion_control.name(), "timely");
    assert_eq!(why, None);
    let (tcp, why) = flow("transport = \"tcp-dctcp\"\n");
    assert!(matches!(tcp.transport, Transport::Tcp(tcp) if tcp.is_ecn_capable()));
    assert_eq!(why.unwrap(), "flow F1 is over TCP, which takes virtual time");
}

/// HPCC's T: twice three links of 2 us, a full frame of 1,024 + 82 B and an acknowledgement of 62 + 24 B on each, both with a trailer of
/// 96 B. In the simulators' frames stamps take nothing.
#[test]
fn windows_are_made_for_the_longest_round_trip() {
    let scenario = one(
        &format!("{LEAF_SPINE}host_delay = \"1us\"\n"),
        "[[flows]]\nfrom = \"H0\"\nto = \"H1\"\nclass = 3\ncongestion_control = \"hpcc\"\n",
    );
    let told = |flow: &crate::FlowPlan| format!("{:?}", flow.config.congestion_control);
    let line = BitRate::gbps(100);
    let t = Span::from_micros(2 * 6) + Span::from_picos((1_202 + 182) * 80 * 4);
    assert_eq!(told(&scenario.flows[0]), format!("{:?}", CongestionControlChoice::preset("hpcc", line, t).unwrap()));
    assert!(scenario.switches.iter().all(|switch| switch.telemetry));
    let scenario = one(
        &format!("{LEAF_SPINE}host_delay = \"1us\"\n"),
        "[nic]\nframes = \"ns3\"\n[[flows]]\nfrom = \"H0\"\nto = \"H1\"\nclass = 3\ncongestion_control = \"hpcc\"\n",
    );
    let t = Span::from_micros(2 * 6) + Span::from_picos((1_072 + 84) * 80 * 4);
    assert_eq!(told(&scenario.flows[0]), format!("{:?}", CongestionControlChoice::preset("hpcc", line, t).unwrap()));
    assert!(scenario.switches.iter().all(|switch| switch.telemetry));
    // By the ring's static MACs frames go clockwise: over four links of 40 us, and acknowledgements over three.
    let text = std::fs::read_to_string(here("../../scenarios/gfc-ring.toml")).unwrap();
    let scenario =
        good(&text.replacen("class = 3", "class = 3\ncongestion_control = \"powertcp\"", 3)).remove(0).scenario;
    let tau = Span::from_micros(7 * 40) + Span::from_picos((4 * 1_202 + 3 * 182) * 800);
    let expected = CongestionControlChoice::preset("powertcp", BitRate::gbps(10), tau).unwrap();
    assert!(scenario.flows.iter().any(|flow| told(flow) == format!("{expected:?}")));
}

#[test]
fn ports_have_headroom_private_buffer_and_alpha_by_their_rate() {
    let text = "scenario.end = \"1ms\"\n[switch.buffer]\nsize = \"16MB\"\nprivate = \"2KB\"\nheadroom = \"60KB\"\npolicy = \"dt\"\n\
         [[switch.buffer.rates]]\nrate = \"400Gbps\"\nheadroom = \"200KB\"\nprivate = \"8KB\"\nalpha = \"1/2\"\n\
         [switch.port]\ndelay = \"1us\"\n[[switches]]\nname = \"A\"\n[[switches]]\nname = \"B\"\n\
         [[links]]\nends = [\"A.up\", \"B.up\"]\nrate = \"400Gbps\"\n\
         [[hosts]]\nname = \"H1\"\nport = \"A.h\"\nrate = \"100Gbps\"\nprivate = \"1KB\"\nalpha = \"1/16\"\n\
         [[hosts]]\nname = \"H2\"\nport = \"B.h\"\nrate = \"100Gbps\"\n\
         [[runs]]\nname = \"as it is\"\n[[runs]]\nname = \"less\"\n\
         [[runs.switch.buffer.rates]]\nrate = \"400Gbps\"\nheadroom = \"150KB\"\n";
    let runs = good(text);
    let of = |run: usize, switch: usize| {
        let config = &runs[run].scenario.switches[switch];
        let port = |name: &str| config.ports.iter().position(|port| port.name == name).unwrap();
        [port("up"), port("h")].map(|port| {
            let alpha = config.given_alpha(port).map(|alpha| alpha.to_string());
            (config.headroom(port).unwrap().get(), config.private(port).get(), alpha)
        })
    };
    let alpha = |text: &str| Some(text.to_owned());
    assert_eq!(of(0, 0), [(200_000, 8_000, alpha("1/2")), (60_000, 1_000, alpha("1/16"))]);
    assert_eq!(of(0, 1), [(200_000, 8_000, alpha("1/2")), (60_000, 2_000, None)]);
    assert_eq!(
        of(1, 1),
        [(150_000, 2_000, None), (60_000, 2_000, None)],
        "a run's list takes the place of the common one"
    );
}

#[test]
fn load_balancing_and_loss_recovery_are_read_and_doubtful_pairs_noted() {
    let text = |switch: &str, nic: &str, workload: &str| {
        format!(
            "scenario.end = \"1ms\"\n[switch]\n{switch}\n[switch.classes]\npreset = \"roce\"\n[switch.pfc]\nreaction = \"0s\"\n\
             [topology]\n{LEAF_SPINE}\n[nic]\n{nic}\n\
             [[workloads]]\nkind = \"all-to-all\"\nclass = 3\nsizes = \"1KB\"\n{workload}"
        )
    };
    let read = |switch: &str, nic: &str, workload: &str| good(&text(switch, nic, workload)).remove(0).scenario;
    let flowlet = "load_balancing = \"flowlet\"\nflowlet_gap = \"20us\"";
    let (selective, scenario) = ("loss_recovery = \"selective\"", read(flowlet, "", ""));
    let expected = PathSelectorChoice::new(FlowletConfig { gap: Span::from_micros(20) });
    assert_eq!(format!("{:?}", scenario.switches[0].load_balancing), format!("{expected:?}"));
    assert_eq!(
        scenario.notes,
        [
            "load balancing \"flowlet\": workload W1 takes overtaken packets for lost; write loss_recovery = \"selective\" in \
          [nic]"
        ]
    );
    let scenario = read(flowlet, selective, "");
    assert_eq!(scenario.notes, [""; 0]);
    let read_as = |nic: &str| match read("", nic, "").traffic[0].loss_recovery {
        LossRecovery::Selective(SelectiveConfig { reordering, entropy }) => Some((reordering, entropy.id())),
        LossRecovery::GoBackN => None,
    };
    assert!(scenario.is_selective());
    assert_eq!([selective, ""].map(read_as), [Some((256, "flow")), None]);
    assert_eq!(read_as(&format!("{selective}\nreordering = 9\nentropy = \"reps\"")), Some((9, "reps")));
    let [note] = &read(flowlet, selective, "congestion_control = \"timely\"\n").notes[..] else { panic!("one note") };
    assert!(note.ends_with("workload W1 measures paths, of which each packet takes another"), "{note}");
    let reps = format!("{selective}\nentropy = \"reps\"");
    let [note] = &read("", &reps, "congestion_control = \"timely\"\n").notes[..] else { panic!("one note") };
    assert_eq!(note, "entropy \"reps\": workload W1 measures paths, of which each packet takes another");
    let [note] = &read("load_balancing = \"drill\"", &reps, "").notes[..] else { panic!("one note") };
    assert!(note.starts_with("entropy \"reps\": workload W1 takes the paths that switches choose; write"), "{note}");
    assert_eq!(read("", "", "").notes, [""; 0]);
    for (switch, nic, wrong) in [
        ("load_balancing = \"flow\"", "", "\"flow\" is none of \"flow-hash\", \"random\""),
        ("flowlet_gap = \"20us\"", "", "`flowlet_gap` has no effect: a flow keeps the port that its hash picks"),
        (
            "load_balancing = \"random\"\nflowlet_gap = \"20us\"",
            "",
            "`load_balancing` \"random\" has no `flowlet_gap`; write load_balancing = \"flowlet\" too, or take it out",
        ),
        ("", "reordering = 3", "`reordering` has no effect: go-back-N drops overtaken packets"),
        ("", "entropy = \"reps\"", "`entropy` \"reps\" lets packets overtake each other, which go-back-N drops"),
        ("", "loss_recovery = \"selective\"\nack_every = 16", "`ack_every` has no effect: with `loss_recovery`"),
        ("", "entropy = \"rep\"", "\"rep\" is none of \"flow\", \"per-packet\", \"bitmap\", \"reps\""),
        (
            "",
            "loss_recovery = \"selective\"\nretransmit = \"none\"",
            "nothing is sent again with `retransmit` \"none\"",
        ),
    ] {
        let errors = parse(Path::new("test.toml"), &text(switch, nic, "")).expect_err(wrong).to_string();
        assert!(errors.contains(wrong), "{errors}");
    }
}

/// Names of the first switches' ports, and the hosts.
fn ports(scenario: &Scenario, switches: usize) -> (Vec<String>, Vec<&str>) {
    let of_switch = |switch: &weir_config::SwitchConfig| {
        let names = switch.ports.iter().map(|port| port.name.as_str());
        format!("{}: {}", switch.name, names.collect::<Vec<_>>().join(" "))
    };
    let hosts = scenario.hosts.iter().map(|host| host.name.as_str()).collect();
    (scenario.switches[..switches].iter().map(of_switch).collect(), hosts)
}

#[test]
fn a_host_has_ports_on_switches_of_their_own() {
    let rest = "rate = \"100Gbps\"\ndelay = \"2us\"\nports = 2\n";
    let leaves = format!("kind = \"leaf-spine\"\nleaves = 4\nspines = 1\nhosts = 2\n{rest}");
    let list = "[[workloads]]\nkind = \"poisson\"\nclass = 3\nsizes = \"1MB\"\nload = 0.5\n";
    let scenario = one(&leaves, list);
    let expected = ["L0: H0 H1 to-S0", "L1: H0-2 H1-2 to-S0", "L2: H2 H3 to-S0", "L3: H2-2 H3-2 to-S0"];
    let hosts = ["H0", "H1", "H2", "H3", "H0-2", "H1-2", "H2-2", "H3-2"];
    assert_eq!(ports(&scenario, 4), (expected.map(str::to_owned).into(), hosts.into()));
    assert_eq!((scenario.host_count(), scenario.host_name(6)), (4, "H2"));
    let senders: BTreeSet<u32> = scenario.traffic[0].messages().iter().map(|message| message.from).collect();
    assert_eq!(senders, (0..4).collect(), "workloads are of hosts");
    // Half of both ports' 200 Gb/s for 1 ms, at 1,024 B a frame.
    let count = scenario.traffic[0].messages().len();
    assert!((30..70).contains(&count), "{count}");
    let refusal = scenario.needs_virtual_time().unwrap();
    assert_eq!(refusal, "host H0 has several ports, which takes virtual time");

    let clos = format!("kind = \"clos\"\npods = 2\ntors = 2\nleaves = 1\nspines = 1\nhosts = 1\n{rest}");
    let expected = ["T0: H0 to-L0", "T1: H0-2 to-L0", "T2: H1 to-L1", "T3: H1-2 to-L1"];
    assert_eq!(ports(&one(&clos, ""), 4).0, expected);

    let rails = format!("kind = \"rails\"\nservers = 2\ngpus = 4\nrails = 2\nspines = 4\n{rest}");
    let expected = ["R0: H0 H2 H4 H6", "R1: H1 H3 H5 H7", "R2: H0-2 H2-2 H4-2 H6-2", "R3: H1-2 H3-2 H5-2 H7-2"];
    let scenario = one(&rails, "");
    let (names, _) = ports(&scenario, 4);
    let is_so = |(name, expected): (&String, &str)| name.starts_with(&format!("{expected} to-S0"));
    assert!(names.iter().zip(expected).all(is_so), "{names:?}");
    assert_eq!(scenario.hosts[10].first_port, Some(2));
}

#[test]
fn hosts_list_their_ports() {
    let text = "scenario.end = \"1ms\"\nscenario.forwarding = \"ecmp\"\nscenario.routing_delay = \"10us\"\n\
                switch.port.rate = \"10Gbps\"\n[[switches]]\nname = \"L0\"\n[[switches]]\nname = \"L1\"\n\
                [[links]]\nends = [\"L0.up\", \"L1.up\"]\n\
                [[hosts]]\nname = \"H1\"\nports = [\"L0.a\", \"L1.a\"]\n[[hosts]]\nname = \"H2\"\nport = \"L1.b\"\n\
                [[hosts]]\nname = \"H3\"\nports = [\"L1.c\", \"L0.c\", \"L0.d\"]\n\
                [[outages]]\nlink = [\"H3\", \"L0\"]\nat = \"100us\"\nuntil = \"200us\"\n\
                [[outages]]\nlink = [\"L0\", \"H3-3\"]\nat = \"300us\"\n\
                [[outages]]\nlink = [\"H2\", \"L1\"]\nat = \"100us\"\n[switch.classes]\npreset = \"roce\"\n\
                [[flows]]\nfrom = \"H1\"\nto = \"H3\"\nclass = 3\n[[flows]]\nfrom = \"H3\"\nto = \"H2\"\nclass = 3\n";
    let scenario = good(text).remove(0).scenario;
    assert_eq!(scenario.check(), Ok(()));
    let names: Vec<&str> = scenario.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["H1", "H2", "H3", "H1-2", "H3-2", "H3-3"]);
    let ends: Vec<_> =
        scenario.flows.iter().map(|flow| [flow.from, flow.to].map(|port| scenario.host_name(port))).collect();
    assert_eq!(ends, [["H1", "H3"], ["H3", "H2"]]);
    // Both links of H3 to L0, but not the only one of H2, which has no other.
    let reroutings = scenario.reroutings();
    let ports = [4, 5].map(LinkRef::ToHost);
    assert_eq!(reroutings.sets, [vec![], ports.to_vec(), vec![ports[1]]]);
    let place = |switch: usize, port: &str| {
        scenario.switches[switch].ports.iter().position(|other| other.name == port).unwrap() as u16
    };
    let around = scenario.routes_around(&reroutings.sets[1]);
    for port in [2, 4, 5] {
        assert_eq!(
            (around.ports(0, port), around.ports(1, port)),
            ([place(0, "up")].as_slice(), [place(1, "c")].as_slice())
        );
    }
    assert_eq!(around.ports(0, 0), [place(0, "a")]);
}
