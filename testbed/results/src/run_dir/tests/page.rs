//! `docs/RUN_DIRECTORY.md` has each column and each key of a run's files, and no other. `lab/tests/test_record.py` checks the
//! further files of a lab switch.

use std::collections::{BTreeMap, BTreeSet};

use crate::run_dir::{EventWriter, FLOW_COLUMNS, FctWriter, POOL_COLUMNS, QUEUE_COLUMNS, QueueWriter};

const PAGE: &str = include_str!("../../../../../docs/RUN_DIRECTORY.md");
const EVENTS: &str = include_str!("../events.rs");

/// Sources of the types of JSON files.
const SOURCES: [&str; 8] = [
    include_str!("../summary.rs"),
    include_str!("../summary/flows.rs"),
    include_str!("../summary/switches.rs"),
    include_str!("../summary/windows.rs"),
    include_str!("../real_hosts.rs"),
    include_str!("../provenance.rs"),
    include_str!("../topology.rs"),
    include_str!("../speed.rs"),
];

/// Headings of the page, and the types whose keys are below them.
const OF_TYPES: [(&str, &str); 42] = [
    ("The whole run", "Summary"),
    ("`deadlock`", "DeadlockSummary"),
    ("`standstill`", "StandstillSummary"),
    ("`flow_control`", "FlowControlSummary"),
    ("`load_balancing`", "LoadBalancingSummary"),
    ("`traffic`", "TrafficSummary"),
    ("`traffic.bins`", "BinSummary"),
    ("`traffic.repetitions`", "RepetitionSummary"),
    ("`traffic.repetitions.critical_path`", "CriticalPathSummary"),
    ("`traffic.repetitions.critical_path.slowest`", "PathMessageSummary"),
    ("Distributions", "Distribution"),
    ("`frames`", "FrameSummary"),
    ("`outages`", "OutageSummary"),
    ("`llr`", "LlrSummary"),
    ("`flows`", "FlowSummary"),
    ("`flows.fct`", "MessageTimes"),
    ("`flows.gauges`", "FlowGauge"),
    ("`flows.tool`", "ToolSummary"),
    ("`flows.tool.connection`", "ConnectionSummary"),
    ("`ports`", "PortSummary"),
    ("`ports.messages`", "MessageSummary"),
    ("`ports.classes`", "ClassSummary"),
    ("`hosts`", "HostSummary"),
    ("`hosts.classes`", "HostClassSummary"),
    ("`real_hosts`", "RealHostSummary"),
    ("`switches`", "SwitchSummary"),
    ("Pools", "PoolSummary"),
    ("`off_queues`", "XoffQueuesSummary"),
    ("`egress_use`", "EgressUseSummary"),
    ("`links`", "LinkDirectionSummary"),
    ("`links.feedback`", "FeedbackSummary"),
    ("`windows`", "Window"),
    ("`windows.flows`", "FlowWindow"),
    ("`windows.ports`", "PortWindow"),
    ("`provenance.json`", "Provenance"),
    ("`machine`", "MachineInfo"),
    ("`topology.json`", "Topology"),
    ("`topology.hosts`", "HostPlace"),
    ("`topology.links`", "SwitchLink"),
    ("`topology.ports`", "PortName"),
    ("`topology.outages`", "OutageTimes"),
    ("`speed.json`", "Speed"),
];

/// Returns the words between backticks in the first cells of the table below each heading.
fn told() -> BTreeMap<&'static str, BTreeSet<String>> {
    let page = PAGE.split("\n## A lab switch's own").next().expect("a page");
    let sections = page.split("\n### ").skip(1);
    let sections = sections.map(|section| section.split_once('\n').expect("a text below its heading"));
    let rows = |text: &'static str| text.lines().filter(|line| line.starts_with("| `"));
    let words = |row: &'static str| {
        let cell = row.split('|').nth(1).expect("a cell");
        cell.split('`').skip(1).step_by(2).map(str::to_owned)
    };
    sections.map(|(heading, text)| (heading, rows(text).flat_map(words).collect())).collect()
}

/// Returns the keys of each type, without flattened ones, whose names are the policies'.
fn keys_of_types() -> BTreeMap<&'static str, BTreeSet<String>> {
    let mut types = BTreeMap::new();
    for source in SOURCES {
        for (before, rest) in source.match_indices("\npub struct ").map(|(at, start)| source.split_at(at + start.len()))
        {
            let derives = before.rsplit("\n\n").next().expect("what stands before the type");
            if !derives.contains("Serialize") {
                continue;
            }
            let (name, body) = rest.split_once(" {\n").expect("fields");
            let body = body.split("\n}").next().expect("an end");
            let lines = body.lines().map(str::trim);
            let mut is_flattened = false;
            let mut keys = BTreeSet::new();
            for line in lines {
                if let Some(field) = line.strip_prefix("pub ") {
                    let key = field.split(':').next().expect("a name");
                    if !std::mem::take(&mut is_flattened) {
                        keys.insert(key.to_owned());
                    }
                } else {
                    is_flattened |= line == "#[serde(flatten)]";
                }
            }
            types.insert(name, keys);
        }
    }
    types
}

/// Returns the words of a table's first line.
fn header(csv: &[u8]) -> BTreeSet<String> {
    let text = std::str::from_utf8(csv).expect("a text");
    text.lines().next().expect("a header").split(',').map(str::to_owned).collect()
}

#[test]
fn the_page_has_each_key_of_each_type() {
    let (mut told, types) = (told(), keys_of_types());
    for (heading, name) in OF_TYPES {
        let keys = types.get(name).unwrap_or_else(|| panic!("there is no type {name}"));
        assert_eq!(told.remove(heading).as_ref(), Some(keys), "{heading}, {name}");
    }
    let listed: BTreeSet<&str> = OF_TYPES.into_iter().map(|(_, name)| name).collect();
    assert_eq!(types.into_keys().collect::<BTreeSet<_>>(), listed, "types that the page has");
    let tables: BTreeSet<&str> = ["`series.csv`", "`events.csv`", "Events", "`fct.csv`", "`queues.csv`"].into();
    assert_eq!(told.into_keys().collect::<BTreeSet<_>>(), tables, "other headings of the page");
}

#[test]
fn the_page_has_each_column_of_each_table() {
    let told = told();
    let flows = FLOW_COLUMNS.iter().map(|column| (format!("FLOW.{}", column.name), column.help));
    let queues = QUEUE_COLUMNS.iter().map(|column| (format!("PORT.CLASS.{}", column.name), column.help));
    let pools = POOL_COLUMNS.iter().map(|column| (format!("POOL.{}", column.name), column.help));
    let declared: Vec<(String, &str)> = flows.chain(queues).chain(pools).collect();
    for (name, help) in &declared {
        assert!(PAGE.contains(&format!("| `{name}` | {help} |")), "{name}: {help}");
    }
    let others = ["t_us", "FLOW.GAUGE", "PORT.CLASS.GAUGE"].map(str::to_owned);
    let series: BTreeSet<String> = declared.into_iter().map(|(name, _)| name).chain(others).collect();
    assert_eq!(told["`series.csv`"], series);
    let [mut events, mut messages, mut queues] = [const { Vec::new() }; 3];
    EventWriter::new(&mut events).unwrap();
    FctWriter::new(&mut messages).unwrap();
    QueueWriter::new(&mut queues).unwrap();
    assert_eq!(told["`events.csv`"], header(&events));
    assert_eq!(told["`fct.csv`"], header(&messages));
    assert_eq!(told["`queues.csv`"], header(&queues));
}

#[test]
fn the_page_has_each_event() {
    let names = EVENTS.lines().map(str::trim).filter(|line| line.starts_with("EventKind::"));
    let names = names.filter_map(|line| line.split_once(" => \"")?.1.strip_suffix("\","));
    assert_eq!(told()["Events"], names.map(str::to_owned).collect());
}
