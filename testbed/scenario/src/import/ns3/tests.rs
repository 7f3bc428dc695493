//! Errors in files, with their lines, and cases that no sample has.

use proptest::prelude::*;
use weir_units::{Span, Time};

use super::detect::detect;
use super::*;
use crate::import::ImportError;
use crate::{LinkRef, Scenario};

const LINKS: &str = "3 1 2\n2\n0 2 100Gbps 1us 0\n1 2 100Gbps 1us 0\n";

fn source(name: &str, text: &str) -> SourceFile {
    SourceFile { name: name.to_owned(), text: text.to_owned() }
}

fn topology() -> Topology {
    Topology::parse(&source("t", LINKS)).unwrap()
}

/// Imports a topology and the other files.
fn with(topology: &str, config: &str, flows: &str) -> Result<ImportedScenario, ImportErrors> {
    let sources = Sources {
        config: Some(Config::parse(&source("c", config))?),
        topology: source("t", topology),
        flows: Some(source("f", flows)),
        ..Sources::default()
    };
    import(&sources, &Options { stem: "x".to_owned(), ..Options::default() })
}

fn problems<T: std::fmt::Debug>(result: Result<T, ImportErrors>) -> Vec<(Option<usize>, String)> {
    let errors = result.unwrap_err().errors;
    errors.into_iter().map(|ImportError { line, problem, .. }| (line, problem)).collect()
}

#[test]
fn topologies_are_read() {
    let topology = topology();
    assert_eq!((topology.nodes, &topology.switches[..], topology.links.len()), (3, &[2][..], 2));
    assert_eq!(topology.hosts().collect::<Vec<_>>(), [0, 1]);
    assert!(!topology.is_extended);
    let link = topology.links[1];
    assert_eq!((link.ends, link.rate.as_bps(), link.delay.as_nanos(), link.line), ([1, 2], 100_000_000_000, 1_000, 4));
    let extended = "3 1 1 2 25000000000 100000000000\n2\n0 2 25000000000.0 1us 1e-6\n1 2 25Gbps 1us 0\n\nmore\n";
    let extended = Topology::parse(&source("t", extended)).unwrap();
    assert_eq!((extended.is_extended, extended.left_over, extended.links[0].loss_ppb), (true, 1, 1_000));
}

#[test]
fn wrong_topologies_are_refused_with_their_lines() {
    for (text, line, problem) in [
        ("", 1, "the file is empty"),
        ("3 1\n", 1, "2 values are no topology's first line"),
        ("3 x 2\n", 1, "\"x\" is not the number of switches, a whole number"),
        ("3 4 2\n", 1, "3 nodes of which 4 are switches can't be"),
        ("3 0 2\n", 1, "there is no switch"),
        ("3 1 2\n", 1, "the first line says 1 switch, but 0 are named"),
        ("3 1 2\n7\n", 2, "there is no node 7"),
        ("3 1 2\n1 2\n", 2, "the first line says 1 switch, but 2 are named"),
        ("3 1 2\n2\n0 2 100Gbps 1us 0\n", 3, "the first line says 2 links, but 1 follow"),
        ("3 1 1\n2\n0 2 100Gbps 1us\n", 3, "a link has 5 values, this line 4"),
        ("3 1 1\n2\n0 9 100Gbps 1us 0\n", 3, "there is no node 9"),
        ("3 1 1\n2\n0 2 100GBps 1us 0\n", 3, "\"100GBps\" is not a rate"),
        ("3 1 1\n2\n0 2 100Gbps 1parsec 0\n", 3, "\"1parsec\" is not a delay"),
        ("3 1 1\n2\n0 2 100Gbps 1us 1.1\n", 3, "\"1.1\" is not an error rate"),
        ("3 1 1\n2\n2 2 100Gbps 1us 0\n", 3, "node 2 is linked to itself"),
        ("4 2 1\n2 2\n2 3 100Gbps 1us 0\n", 2, "switch 2 is named twice"),
        ("3 1 3\n2\n0 2 1Gbps 1us 0\n1 2 1Gbps 1us 0\n0 1 1Gbps 1us 0\n", 5, "hosts 0 and 1 are linked to each other"),
        ("4 1 2\n2\n0 2 1Gbps 1us 0\n1 2 1Gbps 1us 0\n", 1, "host 3 has no link"),
        ("2 1 1\n1\n0 1 1Gbps 1us 0\n", 1, "switch 1 has 1 link, and a switch 2 ports or more"),
        (
            "4 2 3\n2 3\n0 2 1Gbps 1us 0\n1 2 1Gbps 1us 0\n2 3 1Gbps 1us 0\n2 3 1Gbps 1us 0\n",
            1,
            "switch 3 has 1 link, and a switch 2 ports or more; the first line says 3 links, and 4 lines follow",
        ),
    ] {
        let found = problems(Topology::parse(&source("t", text)).and_then(|topology| topology.check_ports("t")));
        assert_eq!(found.first(), Some(&(Some(line), problem.to_owned())), "{text}");
    }
}

#[test]
fn a_switch_with_too_many_ports_is_named() {
    let links: String = (1..=4_097).map(|host| format!("0 {host} 100Gbps 1us 0\n")).collect();
    let topology = format!("4098 1 4097\n0\n{links}");
    let around: String = (1..=4_097).map(|host| format!("{host} {} 3 100 1000 2\n", host % 4_097 + 1)).collect();
    let found = problems(with(&topology, "BUFFER_SIZE 32\n", &format!("4097\n{around}")));
    assert_eq!(found, [(Some(4_099), "switch 0 has 4097 links, and a switch 4096 ports at most".to_owned())]);
    // The last idle hosts are left out, with their share of the buffer.
    let imported = with(&topology, "BUFFER_SIZE 320\n", "1\n4097 1 3 100 1000 2\n").unwrap();
    let hosts = imported.scenario.matches("[[hosts]]").count();
    assert_eq!(
        (hosts, imported.scenario.contains("\"H4096\""), imported.scenario.contains("\"H4097\"")),
        (4_096, false, true)
    );
    let approximated: Vec<&str> = imported.report.approximated.iter().map(|note| note.text.as_str()).collect();
    assert!(approximated[0].starts_with("1 host left out, without flows"), "{approximated:?}");
    // 320 MiB - 4096 - 37500 + 4096 ports of 7 classes of 4096 B.
    assert!(imported.scenario.contains("size = \"452943236B\""), "{}", imported.scenario);
}

/// Parses the scenario of an import, with its files.
fn run_of(imported: &ImportedScenario) -> Scenario {
    let folder = tempfile::tempdir().unwrap();
    imported.files.iter().for_each(|(name, text)| std::fs::write(folder.path().join(name), text).unwrap());
    let runs = crate::file::parse(&folder.path().join("x.toml"), &imported.scenario);
    runs.unwrap_or_else(|errors| panic!("{errors}")).remove(0).scenario
}

#[test]
fn links_of_a_host_are_its_ports() {
    // The links of host 1 are in another order.
    let topology =
        "4 2 5\n2 3\n0 2 25Gbps 1us 0\n0 3 25Gbps 1us 0\n1 3 25Gbps 1us 0\n1 2 25Gbps 1us 0\n2 3 100Gbps 1us 0\n";
    let flows: String = (0..64).map(|n| format!("0 1 3 100 {} 2\n", 1_000 + 7 * n)).collect();
    let imported = with(topology, "CC_MODE 3\nLINK_DOWN 1000 1 3\n", &format!("64\n{flows}")).unwrap();
    for line in [
        "name = \"H0\"",
        "ports = [\"S2.H0\", \"S3.H0-2\"]",
        "ports = [\"S3.H1\", \"S2.H1-2\"]",
        "base_rtt = \"4640ns\"",
    ] {
        assert!(imported.scenario.lines().any(|other| other == line), "{line} is not in {}", imported.scenario);
    }
    let csv = std::str::from_utf8(&imported.files[0].1).unwrap();
    assert_eq!(csv.matches(",H0,H1,").count(), 64);
    let scenario = run_of(&imported);
    assert_eq!((scenario.hosts.len(), scenario.host_count()), (4, 2));
    // Ports at one switch, as shortest paths, which the simulator's flows take.
    let pairs =
        (0..64).map(|n| scenario.host_ports().choose([0, 1], n).map(|port| scenario.hosts[port as usize].switch));
    let by_first = pairs
        .map(|[from, to]| {
            assert_eq!(from, to);
            from
        })
        .filter(|switch| *switch == 0)
        .count();
    assert!((16..=48).contains(&by_first), "{by_first}");
    assert_eq!(scenario.outages.iter().map(|outage| outage.link).collect::<Vec<_>>(), [LinkRef::ToHost(1)]);
}

#[test]
fn links_that_differ_are_hosts() {
    // Hosts 0 and 1 at switch 3, a server's, and all three at switches 4 and 5.
    let link = |(host, switch, gbps): &(u32, u32, u32)| format!("{host} {switch} {gbps}Gbps 1us 0\n");
    let nics = (0..3).flat_map(|host| [(host, 4, 100), (host, 5, 100)]);
    let links: String = [(0, 3, 400), (1, 3, 400)].into_iter().chain(nics).map(|ends| link(&ends)).collect();
    let flows = "2\n0 1 3 100 64000 2\n0 2 3 100 64000 2\n";
    let imported = with(&format!("6 3 8\n3 4 5\n{links}"), "CC_MODE 3\n", flows).unwrap();
    let csv = std::str::from_utf8(&imported.files[0].1).unwrap();
    assert!(csv.contains(",H0-2,H2,"), "{csv}");
    let scenario = run_of(&imported);
    let names: Vec<&str> = scenario.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names[..5], ["H0", "H1", "H0-2", "H1-2", "H2"]);
    assert_eq!((names.len(), scenario.host_count()), (8, 5));
    // A server's link between those of the NIC.
    let between = "6 3 8\n3 4 5\n0 4 100Gbps 1us 0\n0 3 400Gbps 1us 0\n0 5 100Gbps 1us 0\n1 3 400Gbps 1us 0\n\
                   1 4 100Gbps 1us 0\n1 5 100Gbps 1us 0\n2 4 100Gbps 1us 0\n2 5 100Gbps 1us 0\n";
    let scenario = run_of(&with(between, "CC_MODE 3\n", flows).unwrap());
    let names: Vec<&str> = scenario.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names[..5], ["H0", "H0-3", "H1", "H1-2", "H2"]);
    // Losses are of single links.
    let lossy = "4 2 4\n2 3\n0 2 25Gbps 1us 0.1\n0 3 25Gbps 1us 0\n1 2 25Gbps 1us 0\n1 3 25Gbps 1us 0\n";
    let imported = with(lossy, "CC_MODE 3\n", "1\n0 1 3 100 64000 2\n").unwrap();
    assert_eq!(run_of(&imported).host_count(), 3);
}

#[test]
fn wrong_flows_are_refused_with_their_lines() {
    let parse = |text: &str| FlowList::parse(&source("f", text), &topology(), None, 1_000);
    for (text, line, problem) in [
        ("", 1, "the file is empty"),
        (LINKS, 1, "a flow list begins with the number of flows, not 3 values"),
        ("x\n", 1, "\"x\" is not the number of flows, a whole number"),
        ("2\n0 1 3 100 64000 2\n", 2, "the first line says 2 flows, but 1 follow"),
        ("1\n0 1 3 100\n", 2, "a flow has 6 values, `src dst pg dport bytes start`, this line 4"),
        ("1\n0 2 3 100 64000 2\n", 2, "node 2 is a switch"),
        ("1\n0 7 3 100 64000 2\n", 2, "the topology has no node 7"),
        ("1\n1 1 3 100 64000 2\n", 2, "node 1 is to send to itself"),
        ("1\n0 1 0 100 64000 2\n", 2, "\"0\" is not a flow's priority group"),
        ("1\n0 1 6 100 64000 2\n", 2, "\"6\" is not a flow's priority group"),
        ("1\n0 1 3 x 64000 2\n", 2, "\"x\" is not a destination port"),
        ("1\n0 1 3 70000 640000 2\n", 2, "\"70000\" is not a destination port"),
        ("1\n0 1 3 0 0 2\n", 2, "\"0\" is not a flow's size"),
        ("1\n0 1 3 100 640.5 2\n", 2, "\"640.5\" is not a flow's size"),
        ("1\n0 1 3 100 64000 -2\n", 2, "\"-2\" is not a start"),
    ] {
        assert_eq!(problems(parse(text)).first(), Some(&(Some(line), problem.to_owned())), "{text}");
    }
    let many: String = (0..30).map(|_| "0 1 3\n").collect();
    let errors = parse(&format!("30\n{many}")).unwrap_err();
    assert_eq!((errors.errors.len(), errors.more), (ImportErrors::SHOWN_MAX, 10));
    assert!(errors.to_string().ends_with("\nand 10 more"));
}

#[test]
fn flow_lists_that_mean_something_else_are_refused_until_their_columns_are_given() {
    let parse = |lines: &str, columns: Option<&str>| {
        let columns: Option<FlowColumns> = columns.map(|text| text.parse().unwrap());
        let text = format!("{}\n{lines}", lines.lines().count());
        FlowList::parse(&source("f", &text), &topology(), columns.as_ref(), 1_000)
    };
    for (lines, columns, size, start) in [
        // Values of HPCC's and ConWeave's columns too, or alone.
        ("0 1 3 20000 100 2\n1 0 3 30000 100 2.1\n", "src dst pg bytes dport start", 20_000, 2_000_000),
        ("0 1 3 20000 100 2\n1 0 3 30000 100 2.1\n", "src dst pg dport bytes start", 100, 2_000_000),
        ("0 0 1 3 20000 2\n1 1 0 3 30000 2.1\n", "id src dst pg bytes start", 20_000, 2_000_000),
        ("4 0 1 3 20000 2\n5 1 0 3 30000 2.1\n", "id src dst pg bytes start", 20_000, 2_000_000),
        ("0 1 3 10000 2.0 2.5\n", "src dst pg packets start end", 10_000_000, 2_000_000),
        ("0 1 3 10000 2 3\n", "src dst pg packets start end", 10_000_000, 2_000_000),
        ("0 1 3 2.0 9.5\n", "src dst packets start end", 3_000, 2_000_000),
        ("0 1 3 2 9\n", "src dst packets start end", 3_000, 2_000_000),
        ("0 1 3 2 9\n", "src dst pg bytes start", 2, 9_000_000),
        ("0 1 3 100 20000 2000000000\n", "src dst pg dport bytes start-ns", 20_000, 2_000_000),
        ("0 1 3 20000 2000000000\n", "src dst pg bytes start-ns", 20_000, 2_000_000),
        // One message is smaller than its port's number; ports count up.
        ("0 1 3 20000 100 2\n1 0 3 80 100 2.1\n", "src dst pg bytes dport start", 20_000, 2_000_000),
        ("0 1 3 500 10000 2\n1 0 3 600 10001 2.1\n", "src dst pg bytes dport start", 500, 2_000_000),
        // As ports differ and messages do not.
        ("0 1 3 500 10000 2\n1 0 3 600 10000 2.1\n", "src dst pg bytes dport start", 500, 2_000_000),
        // No start is later than 1 ms, and the first one is 0.
        ("0 1 3 100 20000 3000\n1 0 3 100 20000 90000\n", "src dst pg dport bytes start-ns", 20_000, 3),
        ("0 1 3 20000 0\n1 0 3 20000 90000\n", "src dst pg bytes start-ns", 20_000, 0),
        ("4 0 1 20000 2\n5 1 0 30000 2.1\n", "id src dst bytes start", 20_000, 2_000_000),
    ] {
        let refused = parse(lines, None).unwrap_err();
        assert_eq!(refused.errors.len(), 1, "{lines}: {refused}");
        assert!(refused.to_string().contains(&format!("--flows \"{columns}\"")), "{lines}: {refused}");
        let flow = parse(lines, Some(columns)).unwrap().flows[0];
        assert_eq!((flow.size.get(), flow.start.as_micros()), (size, start), "{lines}");
    }
    // After the largest flow number none follows.
    assert!(parse(&format!("{} 0 1 3 20000 2\n0 1 0 3 30000 2.1\n", u64::MAX), None).is_err());
    // These have one meaning alone.
    for lines in [
        "0 1 3 100 64000 2\n1 0 3 100 64000 2\n",
        "0 1 3 10000 200000 0.5\n1 0 3 10001 300 0.6\n",
        "0 1 3 64000 2\n1 0 3 64000 2\n",
        "0 1 1 3 64000 2\n0 1 1 3 64000 2\n",
        // Ports that count up, and smaller messages; kinds of flows, and messages of 64 B or all alike.
        "0 1 3 100 64000 2\n1 0 3 200 64000 2\n",
        "0 1 3 10000 300 0.5\n1 0 3 10001 400 0.6\n",
        "0 1 3 100 64 2\n1 0 3 100 64000 2\n",
        "0 1 3 100 64000 0\n1 0 3 100 64000 3\n",
        "0 1 1 64000 2\n1 0 1 64000 2\n",
    ] {
        parse(lines, None).unwrap_or_else(|refused| panic!("{refused}"));
    }
    for (columns, line, problem) in [
        ("id src dst bytes start", "x 0 1 3000 2", "\"x\" is not a flow's number"),
        ("src dst bytes start end", "0 1 3000 2 soon", "\"soon\" is not an end"),
        ("src dst bytes start end", "0 1 3000 2 1.9", "\"1.9\" is not an end"),
        ("src dst bytes start", "0 1 3 3000 2", "a flow has 4 values, `src dst bytes start`, this line 5"),
    ] {
        let errors = parse(line, Some(columns)).unwrap_err();
        assert_eq!(errors.errors[0].problem, problem);
        assert!(!errors.errors[0].help.contains("dport"), "{errors}");
    }
    let without = Sources { topology: source("t", LINKS), ..Sources::default() };
    let options = Options { flow_columns: Some(FlowColumns::hpcc()), ..Options::default() };
    assert_eq!(problems(import(&without, &options)), [(None, "no flow list is imported".to_owned())]);
    for (columns, problem) in [
        ("src dst pg size start", "\"size\" is no column; "),
        ("src dst src bytes start", "\"src\" is named twice; "),
        ("src dst pg start", "a flow needs bytes or packets, once; "),
        ("src dst bytes packets start", "a flow needs bytes or packets, once; "),
        ("src pg bytes start", "a flow needs dst, once; "),
    ] {
        let refused = columns.parse::<FlowColumns>().unwrap_err();
        assert!(refused.starts_with(problem), "{refused}");
    }
}

#[test]
fn comments_marks_and_equal_signs_are_read_as_meant() {
    let plain = with(LINKS, "CC_MODE 3\nBUFFER_SIZE 16\nSIMULATOR_STOP_TIME 2.1\n", "1\n0 1 3 100 64000 2\n").unwrap();
    let config = "\u{feff}# of May\nCC_MODE=3\n//CC_MODE 1\nBUFFER_SIZE = 16// MB\nSIMULATOR_STOP_TIME 2.1\n";
    let flows = "\u{feff}1# flow\n// src dst pg dport bytes start\n0 1 3 100 64000 2#first\n";
    let links = format!("// a star\n{LINKS}");
    assert_eq!(with(&links, config, flows).unwrap().scenario, plain.scenario);
    // SimAI's runs have no end.
    let endless = with(LINKS, "CC_MODE 3\nSIMULATOR_STOP_TIME 40000000000000.00\n", "1\n0 1 3 100 64000 2\n").unwrap();
    let end = "SIMULATOR_STOP_TIME is too late: the run ends at 50ms";
    assert!(endless.report.approximated.iter().any(|note| note.text == end), "{:?}", endless.report.approximated);
}

#[test]
fn planes_that_nothing_joins_are_ports_of_hosts() {
    // Hosts 0 and 1 at switches 2 and 3.
    let planes = "4 2 4\n2 3\n0 2 100Gbps 1us 0\n1 2 100Gbps 1us 0\n0 3 100Gbps 1us 0\n1 3 100Gbps 1us 0\n";
    let imported = with(planes, "CC_MODE 3\nBUFFER_SIZE 16\n", "2\n0 1 3 100 64000 2\n1 0 3 100 64000 2\n").unwrap();
    let scenario = run_of(&imported);
    assert_eq!((scenario.host_count(), scenario.hosts.len(), scenario.traffic[0].messages().len()), (2, 4, 2));
    let islands = "6 2 4\n4 5\n0 4 100Gbps 1us 0\n1 4 100Gbps 1us 0\n2 5 100Gbps 1us 0\n3 5 100Gbps 1us 0\n";
    let refused = with(islands, "CC_MODE 3\n", "1\n0 2 3 100 64000 2\n");
    assert_eq!(problems(refused), [(Some(2), "no path joins nodes 0 and 2".to_owned())]);
}

#[test]
fn simais_topologies_count_nvswitches_apart() {
    // Two servers of two GPUs, an NVSwitch (4), and two more switches.
    let text = "7 2 1 2 8 A100\n4 5 6\n0 4 2400Gbps 25ns 0\n1 4 2400Gbps 25ns 0\n0 5 100Gbps 1us 0\n1 5 100Gbps 1us 0\n\
                2 6 100Gbps 1us 0\n3 6 100Gbps 1us 0\n5 6 100Gbps 1us 0\n5 6 100Gbps 1us 0\n";
    let topology = Topology::parse(&source("t", text)).unwrap();
    assert_eq!((topology.switches.len(), topology.links.len(), topology.is_extended), (3, 8, false));
}

#[test]
fn wrong_configurations_and_trace_lists_are_refused_with_their_lines() {
    let config = |text: &str| problems(Config::parse(&source("c", text)));
    for (text, problem) in [
        ("\nenable_qcn 1\n", "\"enable_qcn\" is no key"),
        ("\nCC_MODE {nothing}\n", "CC_MODE has no value"),
        ("\nCC_MODE dcqcn\n", "CC_MODE \"dcqcn\" is not a whole number"),
        ("\nRP_TIMER 55us\n", "RP_TIMER \"55us\" is not a time"),
        ("\nRATE_AI fast\n", "RATE_AI \"fast\" is not a rate"),
        ("\nEWMA_GAIN 2\n", "EWMA_GAIN \"2\" is not a share"),
        ("\nKMAX_MAP 2 100000000000 400\n", "KMAX_MAP \"2 100000000000 400\" is not a map of rates"),
        ("\nKMAX_MAP 1 100000000000\n", "KMAX_MAP \"1 100000000000\" is not a map of rates"),
        ("\nLINK_DOWN 1000\n", "LINK_DOWN \"1000\" is not a link's failure"),
        ("\nSIMULATOR_STOP_TIME soon\n", "SIMULATOR_STOP_TIME \"soon\" is not a time"),
    ] {
        assert_eq!(config(text), [(Some(2), problem.to_owned())]);
    }
    let trace = |text: &str| problems(TraceList::parse(&source("t", text), &topology()));
    assert_eq!(trace(""), [(Some(1), "the file is empty".to_owned())]);
    assert_eq!(trace("2\n0\n"), [(Some(2), "the first line says 2 nodes, but 1 follow".to_owned())]);
    assert_eq!(trace("1\nx\n"), [(Some(2), "\"x\" is not a node, a whole number".to_owned())]);
}

#[test]
fn all_switches_know_of_a_failed_link_at_once() {
    // Host 0 at leaf 2, host 1 at leaf 3, spines 4 and 5.
    let hosts = "0 2 100Gbps 1us 0\n1 3 100Gbps 1us 0\n";
    let spines = "2 4 100Gbps 1us 0\n2 5 100Gbps 1us 0\n3 4 100Gbps 1us 0\n3 5 100Gbps 1us 0\n";
    let topology = format!("6 4 6\n2 3 4 5\n{hosts}{spines}");
    let folder = tempfile::tempdir().unwrap();
    let scenario = |config: &str| {
        let config = format!("BUFFER_SIZE 32\nSIMULATOR_STOP_TIME 4\n{config}");
        let imported = with(&topology, &config, "1\n0 1 3 100 64000 2.5\n").unwrap();
        imported.files.iter().for_each(|(name, text)| std::fs::write(folder.path().join(name), text).unwrap());
        let parsed = crate::file::parse(&folder.path().join("x.toml"), &imported.scenario);
        parsed.unwrap_or_else(|errors| panic!("{}", errors.render(false))).remove(0).scenario
    };
    let cut = scenario("LINK_DOWN 600000 3 4\n");
    // Half a second and 100 ms after the first flow, the start of the scenario.
    assert_eq!(cut.reroutings().at, [(Time::ZERO + Span::from_millis(100), 1)]);
    assert_eq!(scenario("").reroutings().at, []);
}

#[test]
fn the_last_of_two_equal_keys_holds() {
    let config = Config::parse(&source("c", "CC_MODE 1\nCC_MODE 3 {HPCC}\n")).unwrap();
    assert_eq!((config.numbers["CC_MODE"], config.line("CC_MODE")), (3, Some(2)));
}

#[test]
fn congestion_controls_are_the_nearest_presets() {
    let preset = |config: &str| {
        let imported = with(LINKS, config, "1\n0 1 3 100 64000 2\n").unwrap();
        let differing: Vec<String> = imported.report.approximated.iter().map(|note| note.text.clone()).collect();
        let line = imported.scenario.lines().find_map(|line| line.strip_prefix("congestion_control = ")).unwrap();
        (line.trim_matches('"').to_owned(), differing)
    };
    let dcqcn = "CC_MODE 1\nRATE_AI 20Mb/s\nRATE_HAI 200Mb/s\nMIN_RATE 1000Mb/s\n";
    for (config, name, differs) in [
        (format!("{dcqcn}RP_TIMER 300\nRATE_DECREASE_INTERVAL 4\nALPHA_RESUME_INTERVAL 1\n"), "dcqcn-hpcc", None),
        (
            format!("{dcqcn}RP_TIMER 55\nRATE_DECREASE_INTERVAL 50\nALPHA_RESUME_INTERVAL 50\n"),
            "dcqcn-hpcc-paper",
            None,
        ),
        (format!("{dcqcn}RP_TIMER 300\nHAS_WIN 1\n"), "dcqcn-hpcc", None),
        ("CC_MODE 1\nRATE_AI 40Mb/s\nRATE_HAI 100Mb/s\nMIN_RATE 100Mb/s\n".to_owned(), "dcqcn-conweave", None),
        (
            "CC_MODE 1\nRP_TIMER 900\nRATE_AI 50Mb/s\nRATE_HAI 100Mb/s\nMIN_RATE 100Mb/s\n".to_owned(),
            "dcqcn-reverie",
            None,
        ),
        ("CC_MODE 3\nRATE_AI 40Mb/s\nMI_THRESH 0\nMIN_RATE 1000Mb/s\n".to_owned(), "hpcc-simulator", None),
        ("CC_MODE 3\nRATE_AI 80Mb/s\nMI_THRESH 5\nMIN_RATE 100Mb/s\n".to_owned(), "hpcc", None),
        ("CC_MODE 7\nRATE_AI 100Mb/s\nRATE_HAI 500Mb/s\nMIN_RATE 1000Mb/s\n".to_owned(), "timely-hpcc", None),
        ("CC_MODE 10\nRATE_AI 40Mb/s\nMI_THRESH 0\nMIN_RATE 1000Mb/s\n".to_owned(), "hpcc-pint-simulator", None),
        ("CC_MODE 10\nMI_THRESH 5\n".to_owned(), "hpcc-pint", None),
        ("CC_MODE 8\nDCTCP_RATE_AI 615Mb/s\nMIN_RATE 1000Mb/s\n".to_owned(), "dctcp-hpcc", None),
    ] {
        let (found, differing) = preset(&config);
        assert_eq!(found, name, "{config}");
        let of_keys: Vec<&String> = differing
            .iter()
            .filter(|text| {
                text.contains(" in ") && text.contains("is ") && text.contains(", but") || text.contains("HAS_WIN")
            })
            .collect();
        assert_eq!(of_keys.first().map(|text| text.as_str()), differs, "{config}");
    }
    for (config, problem) in [
        ("CC_MODE 10\nPINT_LOG_BASE 1\n", "PINT_LOG_BASE 1 is no base of a code"),
        ("CC_MODE 10\nPINT_LOG_BASE 3\n", "PINT_LOG_BASE \"3\" is not a share"),
        ("CC_MODE 10\nPINT_PROB 0\n", "PINT_PROB 0 leaves no packet with a digest"),
    ] {
        assert_eq!(problems(with(LINKS, config, "1\n0 1 3 100 64000 2\n")), [(Some(2), problem.to_owned())]);
    }
    let found = problems(with(LINKS, "CC_MODE 9\n", "1\n0 1 3 100 64000 2\n"));
    assert_eq!(found, [(Some(1), "CC_MODE 9 is none of Weir's congestion controls for RDMA".to_owned())]);
}

#[test]
fn keys_of_a_congestion_control_are_taken() {
    let scenario = |config: &str| {
        let links = LINKS.replace("100Gbps", "25Gbps");
        with(&links, &format!("BUFFER_SIZE 16\n{config}"), "1\n0 1 3 100 64000 2\n").unwrap().scenario
    };
    let has = |config: &str, lines: &[&str]| {
        let text = scenario(config);
        for line in lines {
            assert!(text.lines().any(|other| other == *line), "{line} is not in {text}");
        }
    };
    // Two links of 1 us there and back, and 1000 B on each at 25 Gb/s: 4640 ns, 14.5 KB.
    has(
        "CC_MODE 1\nRP_TIMER 700\nCLAMP_TARGET_RATE 1\nEWMA_GAIN 0.00390625\nHAS_WIN 1\nVAR_WIN 1\nRATE_AI 7Mb/s\n",
        &[
            "[nic.dcqcn-ns3]",
            "increase_timer = \"700us\"",
            "clamps_target = true",
            "rate_ai = \"7Mbps\"",
            "window = \"14500B\"",
            "window_follows_rate = true",
            "ack_class = \"with-data\"",
            "frames = \"ns3-stamped\"",
        ],
    );
    has("CC_MODE 3\nRATE_AI 50Mb/s\n", &["[nic.hpcc]", "base_rtt = \"4640ns\"", "w_ai = \"29B\""]);
    has("CC_MODE 7\nRATE_AI 30Mb/s\nRATE_HAI 150Mb/s\n", &["[nic.timely]", "delta = \"30Mbps\""]);
    has(
        "CC_MODE 8\nDCTCP_RATE_AI 400Mb/s\nEWMA_GAIN 0.03125\nMIN_RATE 100Mb/s\nHAS_WIN 1\nVAR_WIN 0\n",
        &[
            "[nic.dctcp]",
            "g = \"1/32\"",
            "rate_ai = \"400Mbps\"",
            "rate_min = \"100Mbps\"",
            "window = \"14500B\"",
            "window_follows_rate = false",
            "frames = \"ns3-stamped\"",
        ],
    );
    // The settings of run.py: only the window differs from the preset; it is computed as in the simulator.
    let run = "CC_MODE 8\nDCTCP_RATE_AI 615Mb/s\nEWMA_GAIN 0.0625\nMIN_RATE 1000Mb/s\nHAS_WIN 1\nVAR_WIN 1\n";
    let text = scenario(run);
    let table: Vec<&str> =
        text.lines().skip_while(|line| *line != "[nic.dctcp]").skip(1).take_while(|line| !line.is_empty()).collect();
    assert_eq!(table, ["window = \"14500B\""]);
    has(
        "CC_MODE 10\nRATE_AI 30Mb/s\nPINT_LOG_BASE 1.02\nPINT_PROB 0.0625\nU_TARGET 0.9\n",
        &[
            "[nic.hpcc-pint]",
            "base_rtt = \"4640ns\"",
            "rate_ai = \"30Mbps\"",
            "log_base = 1.02",
            "sampled = 0.0625",
            "eta = 0.9",
            "frames = \"ns3-stamped\"",
        ],
    );
    // The programs' default.
    has("CC_MODE 10\n", &["log_base = 1.05"]);
    has("CC_MODE 8\n", &["rate_ai = \"1Gbps\"", "window = \"none\""]);
    assert!(!scenario("CC_MODE 1\nEWMA_GAIN 0.00390625\n").contains("\ng = "));
    has("CC_MODE 1\nEWMA_GAIN 0.0625\n", &["g = \"1/16\""]);
}

#[test]
fn switches_are_as_the_configuration_has_them() {
    let flows = "1\n0 1 5 100 64000 2\n";
    let huge = with(LINKS, "BUFFER_SIZE 4000\n", flows).unwrap().report.approximated;
    let none = with(LINKS, "BUFFER_SIZE 0\n", flows).unwrap().report.approximated;
    assert!(
        none.iter().any(|note| note.to_string().starts_with("c:1: BUFFER_SIZE 0 is no buffer: 32 MiB, ")),
        "{none:?}"
    );
    let text = "BUFFER_SIZE 4000: 1800 MiB, the largest buffer of a switch";
    assert!(huge.iter().any(|note| note.text == text), "{huge:?}");
    let config = "BUFFER_SIZE 4\nACK_HIGH_PRIO 1\nKMAX_MAP 1 100000000000 400\nKMIN_MAP 1 100000000000 100\nPMAX_MAP 1 100000000000 0\n";
    let scenario = with(LINKS, config, flows).unwrap().scenario;
    // 4 MiB, and 7 classes of 4 KiB at 2 ports; 3 x 100 Gb/s x 1 us; nothing is marked below K_max.
    for line in [
        "size = \"4152KiB\"",
        "headroom = \"37500B\"",
        "ack_class = \"with-data-unpaused\"",
        "lossless = [5]",
        "40 = 5",
        "ecn = { kmin = \"400KB\", kmax = \"400KB\", pmax = 1.0 }",
    ] {
        assert!(scenario.lines().any(|other| other == line), "{line} is not in {scenario}");
    }
    let off = with(LINKS, "ENABLE_PFC 0\nENABLE_QCN 0\n", flows).unwrap().scenario;
    assert!(off.contains("lossless = []") && off.contains("flow_control = \"none\"") && !off.contains("ecn"), "{off}");
    // Pairs beyond the announced number do not count, and ports of their rate have thresholds of 0.
    let maps = |announced: u32| {
        let map = |key: &str, values: [&str; 2]| {
            format!("{key} {announced} 25000000000 {} 100000000000 {}\n", values[0], values[1])
        };
        map("KMAX_MAP", ["100", "400"]) + &map("KMIN_MAP", ["50", "200"]) + &map("PMAX_MAP", ["0.2", "0.2"])
    };
    let marks = |announced: u32| {
        let imported = with(LINKS, &maps(announced), flows).unwrap();
        let told =
            imported.report.taken.iter().filter(|note| note.text.contains("more pairs than its first number")).count();
        let ecn = imported.scenario.lines().find(|line| line.starts_with("ecn = ")).unwrap().to_owned();
        (ecn, told)
    };
    assert_eq!(marks(2), ("ecn = { kmin = \"200KB\", kmax = \"400KB\", pmax = 0.2 }".to_owned(), 0));
    assert_eq!(marks(1), ("ecn = { kmin = \"1B\", kmax = \"1B\", pmax = 1.0 }".to_owned(), 3));
    let found = problems(with(LINKS, "KMAX_MAP 1 1000 4\nKMIN_MAP 1 1000 1\nPMAX_MAP 1 1000 1\n", flows));
    assert_eq!(found, [(Some(2), "KMIN_MAP has nothing for links of 100Gbps".to_owned())]);
    let wide = LINKS.replace("1us", "1ms");
    let found = problems(with(&wide, "BUFFER_SIZE 16\n", flows));
    assert_eq!(found[0].0, Some(1));
    assert!(
        found[0].1.starts_with("private buffers and headroom of switch 2, with 2 ports, take 75065536 B"),
        "{found:?}"
    );
}

#[test]
fn each_switch_has_the_files_buffer_and_each_rate_its_alpha() {
    // The first link is of host 1, the first host has 25 Gb/s.
    let topology = "5 2 4\n3 4\n1 3 100Gbps 1us 0\n0 3 25Gbps 1us 0\n2 4 25Gbps 1us 0\n3 4 400Gbps 1us 0\n";
    let flows = "2\n0 2 3 100 64000 2\n0 2 4 100 64000 2\n";
    let imported = with(topology, "BUFFER_SIZE 4\nCC_MODE 3\n", flows).unwrap();
    // Classes beyond the first reserve 7 x 4 KiB a port, and 3 x C x D of one more lossless class.
    let beyond = |ports: u64, headroom: u64| (4 << 20) + ports * 7 * 4_096 + headroom;
    let (s3, s4) = (beyond(3, 37_500 + 9_375 + 150_000), beyond(2, 9_375 + 150_000));
    for lines in [
        format!("[[switches]]\nname = \"S3\"\nbuffer_size = \"{s3}B\"\n\n[[switches]]\nname = \"S4\"\n\n"),
        format!("[switch.buffer]\nsize = \"{s4}B\"\n"),
        "[[switch.buffer.rates]]\nrate = \"100Gbps\"\nalpha = \"1/2\"\n".to_owned(),
        "[[switch.buffer.rates]]\nrate = \"400Gbps\"\nalpha = \"1\"\n".to_owned(),
    ] {
        assert!(imported.scenario.contains(&lines), "{lines} is not in {}", imported.scenario);
    }
    let folder = tempfile::tempdir().unwrap();
    imported.files.iter().for_each(|(name, text)| std::fs::write(folder.path().join(name), text).unwrap());
    let runs = crate::file::parse(&folder.path().join("x.toml"), &imported.scenario);
    let switches = runs.unwrap_or_else(|errors| panic!("{}", errors.render(false))).remove(0).scenario.switches;
    assert_eq!(switches.iter().map(|switch| switch.buffer.size.get()).collect::<Vec<_>>(), [s3, s4]);
    let timeouts =
        [Simulator::Hpcc, Simulator::ConWeave].map(|simulator| simulator.retransmission(Span::from_millis(5)));
    assert_eq!(timeouts.map(Span::as_micros), [40_000, 4_000]);
}

#[test]
fn times_of_frames_are_cut_if_that_is_asked_for() {
    // A longer first line is inet-tub's.
    let of_inet_tub = LINKS.replacen("3 1 2", "3 1 1 2", 1);
    let imported = |cuts_times, links: &str| {
        let sources = Sources { topology: source("t", links), ..Sources::default() };
        let options = Options { stem: "x".to_owned(), cuts_times, ..Options::default() };
        let imported = import(&sources, &options).unwrap();
        let is_told = imported.report.taken.iter().any(|note| note.text.starts_with("times of frames are cut"));
        let runs = crate::file::parse(std::path::Path::new("x.toml"), &imported.scenario);
        let scenario = runs.unwrap_or_else(|errors| panic!("{}", errors.render(false))).remove(0).scenario;
        (is_told, scenario.frame_times, scenario.needs_virtual_time().is_some())
    };
    use weir_units::SerialisationRounding::{Exact, Nanoseconds, Ns3};
    assert_eq!((imported(false, LINKS), imported(true, LINKS)), ((false, Exact, true), (true, Ns3, true)));
    assert_eq!(imported(true, &of_inet_tub), (true, Nanoseconds, true));
}

#[test]
fn flows_of_a_kind_are_a_workload() {
    let kinds = |flows: &str| {
        let imported = with(LINKS, "SIMULATOR_STOP_TIME 3\n", flows).unwrap();
        imported.files.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(kinds("2\n0 1 3 100 1000 2\n1 0 3 100 1000 2\n"), ["x-flows.csv"]);
    assert_eq!(kinds("2\n0 1 3 100 70000 2\n1 0 3 300 70000 2\n"), ["x-background.csv", "x-dport-300.csv"]);
    assert_eq!(kinds("2\n0 1 3 100 1000 2\n1 0 4 100 1000 2\n"), ["x-background-pg3.csv", "x-background-pg4.csv"]);
    let rates = LINKS.replacen("100Gbps", "25Gbps", 1);
    let imported = with(&rates, "CC_MODE 1\nBUFFER_SIZE 16\n", "2\n0 1 3 100 1000 2\n1 0 3 100 1000 2\n").unwrap();
    let folder = tempfile::tempdir().unwrap();
    imported.files.iter().for_each(|(name, text)| std::fs::write(folder.path().join(name), text).unwrap());
    let runs = crate::file::parse(&folder.path().join("x.toml"), &imported.scenario);
    let traffic = runs.unwrap_or_else(|errors| panic!("{}", errors.render(false))).remove(0).scenario.traffic;
    assert_eq!(traffic.iter().map(|plan| &*plan.name).collect::<Vec<_>>(), ["flows-25Gbps", "flows-100Gbps"]);
    // RATE_AI is the preset's at one of the rates alone; the window of 13,750 B is sent in 4,400 and 1,100 ns.
    let keys_of = |config: &str, kind: &str, key: &str| {
        let flows = "3\n0 1 3 100 1000 2\n1 0 3 100 1000 2\n1 0 4 100 1000 2\n";
        let scenario = with(&rates, &format!("BUFFER_SIZE 16\n{config}"), flows).unwrap().scenario;
        let scenario: toml::Table = scenario.parse().unwrap();
        assert_eq!(scenario["switch"]["classes"]["scheduler"].as_str(), Some("packet-rr"));
        let of_workload = |table: &toml::Value| Some(table.get(kind)?.get(key)?.as_str()?.to_owned());
        scenario["workloads"].as_array().unwrap()[..2].iter().map(of_workload).collect::<Vec<_>>()
    };
    let some = |value: &str| Some(value.to_owned());
    assert_eq!(keys_of("CC_MODE 1\nRATE_AI 20Mb/s\n", "dcqcn-ns3", "rate_ai"), [some("20Mbps"), None]);
    assert_eq!(keys_of("CC_MODE 3\n", "hpcc", "base_rtt"), [some("4400ns"), some("1100ns")]);
    let ports: String = (0..9).map(|port| format!("0 1 3 {} 100000 2\n", 10_000 + port)).collect();
    assert_eq!(kinds(&format!("9\n{ports}")), ["x-flows.csv"]);
    let found = problems(with(LINKS, "SIMULATOR_STOP_TIME 1\n", "1\n0 1 3 100 1000 2\n"));
    assert_eq!(
        found,
        [(Some(1), "SIMULATOR_STOP_TIME lets the simulation end at 1s, before its first flow".to_owned())]
    );
}

#[test]
fn files_are_found_by_what_is_in_them() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let find = |paths: &[std::path::PathBuf]| Sources::find(paths).map_err(|errors| errors.to_string());
    let all = [folder.path().to_owned()];
    assert!(find(&all).unwrap_err().ends_with(": there is no topology; name its file, or its folder, too"));
    let net = write("net.txt", LINKS);
    let load = write("load.txt", "1\n0 1 3 100 64000 2\n");
    let found = find(&all).unwrap();
    assert_eq!((&*found.topology.name, found.flows.map(|flows| flows.name)), ("net.txt", Some("load.txt".to_owned())));
    let other = write("other.txt", LINKS);
    assert!(find(&all).unwrap_err().contains("other.txt: this is a topology, and so is net.txt; name one of them"));
    assert_eq!(find(&[other.clone(), load.clone()]).unwrap().topology.name, "other.txt");
    // Named files precede the configuration's files, and these the rest of the folder.
    let config = write("config.txt", "TOPOLOGY_FILE mix/net.txt\nTRACE_FILE mix/trace.txt\n");
    assert_eq!(find(&all).unwrap().topology.name, "net.txt");
    assert_eq!(find(&[config.clone(), other]).unwrap().topology.name, "other.txt");
    let left: Vec<String> = find(&all).unwrap().left.iter().map(ImportNote::to_string).collect();
    let expected = [
        "config.txt:2: TRACE_FILE mix/trace.txt is not there",
        "other.txt: a topology, but the configuration names another",
    ];
    assert_eq!(left, expected);
    write("config.txt", "FLOW_FILE mix/none.txt\n");
    let missing = "config.txt:1: FLOW_FILE mix/none.txt is neither there nor in the configuration's folder";
    assert!(find(&[config.clone(), net.clone()]).unwrap_err().starts_with(missing));
    // ConWeave's run.py draws the flows; their file may be missing.
    write("config.txt", "FLOWGEN_START_TIME 2.0\nFLOW_FILE config/none.txt\n");
    let found = find(&[config, net]).unwrap();
    assert_eq!(
        (found.flows, &*found.left[0].to_string()),
        (None, "config.txt:2: FLOW_FILE config/none.txt is not there")
    );
    // The folders of ConWeave's run.py.
    let run = folder.path().join("mix/output/7");
    std::fs::create_dir_all(&run).unwrap();
    std::fs::create_dir(folder.path().join("config")).unwrap();
    write("config/clos.txt", LINKS);
    write("config/load.txt", "1\n0 1 3 64000 2\n");
    let of_run = write("mix/output/7/config.txt", "TOPOLOGY_FILE config/clos.txt\nFLOW_FILE config/load.txt\n");
    let found = find(&[of_run]).unwrap();
    assert_eq!((&*found.topology.name, found.flows.map(|flows| flows.name)), ("clos.txt", Some("load.txt".to_owned())));
    // Without a configuration and α on the command line, the program's default files precede others.
    write("config.txt", "TOPOLOGY_FILE net.txt\n");
    write("config-workload.txt", "TOPOLOGY_FILE other.txt\n");
    write("alphas", "1\n");
    assert!(find(&all).unwrap_err().contains("this is a configuration, and so is config-workload.txt"));
    let of_line = |line: &str| Sources::find_for(&all, Some(&Arguments::parse(line).unwrap())).unwrap();
    let found = of_line("--rdmaload=0.4");
    assert_eq!((found.topology.name, found.alphas.unwrap().name), ("other.txt".to_owned(), "alphas".to_owned()));
    assert_eq!(of_line("--conf=x/config.txt").topology.name, "net.txt");
    let fct = write("fct.txt", "0b000001 0b000101 10000 100 64000 2000000000 9000 8000\n");
    let refused = find(&[fct, load]).unwrap_err();
    assert!(
        refused.contains("fct.txt:1: this is no input file of the simulators; a configuration begins"),
        "{refused}"
    );
}

/// ConWeave's `run.py` writes the configuration to `mix/output/ID/`, and its files to `config/`.
#[test]
fn conweaves_mix_is_read_from_its_configuration_also_without_flows() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    };
    write("config/net.txt", LINKS);
    let config = "TOPOLOGY_FILE config/net.txt\nFLOW_FILE config/load.txt\nFLOWGEN_START_TIME 2.0\nFLOWGEN_STOP_TIME 2.01\n\
                  BUFFER_SIZE 9\nCC_MODE 1\nLB_MODE 0\n";
    let config = write("mix/output/1/config.txt", config);
    let imported = || import(&Sources::find(std::slice::from_ref(&config)).unwrap(), &Options::default()).unwrap();
    let without = imported();
    let left: Vec<String> = without.report.left.iter().map(ImportNote::to_string).collect();
    assert!(left.contains(&"config.txt:2: FLOW_FILE config/load.txt is not there".to_owned()), "{left:?}");
    assert!(left.iter().any(|note| note.starts_with("there is no flow list: ")), "{left:?}");
    let runs = crate::file::parse(std::path::Path::new("mix.toml"), &without.scenario)
        .unwrap_or_else(|errors| panic!("{errors}"));
    assert!(runs[0].scenario.hosts.len() > 1 && runs[0].scenario.traffic.is_empty());
    write("config/load.txt", "1\n0 1 3 64000 2\n");
    assert_eq!(imported().files.len(), 1, "with its flows, once they are drawn");
    let text = std::fs::read_to_string(&config).unwrap().replace("LB_MODE 0", "LB_MODE 6\nENABLE_IRN 1");
    std::fs::write(&config, text).unwrap();
    let sprayed = imported();
    for line in ["load_balancing = \"flowlet\"", "loss_recovery = \"selective\"", "reordering = 1"] {
        assert!(sprayed.scenario.contains(line), "{}", sprayed.scenario);
    }
    let taken: Vec<String> = sprayed.report.taken.iter().map(ImportNote::to_string).collect();
    assert!(taken.contains(&"config.txt:7: LB_MODE 6: load_balancing = \"flowlet\"".to_owned()), "{taken:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics(text in "([0-9. ]{0,9}(Gbps|us|e-?|[A-Z_]{0,6})?[ \n]){0,24}") {
        let source = source("x.txt", &text);
        let _ = (detect("x.txt", &text), Config::parse(&source), Topology::parse(&source));
        let _ = (FlowList::parse(&source, &topology(), None, 1_000), TraceList::parse(&source, &topology()));
    }
}
