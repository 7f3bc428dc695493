//! Columns of a sweep's table, computed or copied from a run's results.

use serde_json::Value;
use weir_reader::{Problem, Table as Keys};
use weir_results::run_dir::{
    BinSummary, ClassSummary, ConnectionSummary, CriticalPathSummary, DeadlockSummary, Distribution, EgressUseSummary,
    FeedbackSummary, FlowControlSummary, FlowGauge, FlowSummary, FlowWindow, FrameSummary, GaugeFigures,
    HostClassSummary, HostSummary, LinkDirectionSummary, LlrSummary, LoadBalancingSummary, MessageTimes, OutageSummary,
    PathMessageSummary, PoolSummary, PortSummary, PortWindow, RealHostSummary, RepetitionSummary, Speed,
    StandstillSummary, Summary, SwitchSummary, ToolSummary, TrafficSummary, Window, XoffQueuesSummary,
};
use weir_scenario::Scenario;

use crate::table::key_path::{KeyPath, quoted};
use crate::table::typed::Cell;

/// Columns that a sweep's file requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ColumnSelection {
    /// Requested columns; `None` for the default ones.
    chosen: Option<Vec<String>>,
    /// Additional columns, after the others.
    more: Vec<String>,
}

/// Column computed from the results.
struct DerivedColumn {
    name: &'static str,
    of: fn(&Summary, &Speed) -> Option<u64>,
}

/// Name of the column that is true if no lossless frame was lost.
const LOSSLESS: &str = "lossless";

/// Computed columns: all are default columns, in this order, after [`LOSSLESS`].
const DERIVED_COLUMNS: &[DerivedColumn] = &[
    DerivedColumn { name: "lossless_frames_dropped", of: |summary, _| Some(summary.lossless_drops()) },
    DerivedColumn { name: "frames_dropped", of: |summary, _| Some(summary.frames.as_ref()?.dropped.values().sum()) },
    DerivedColumn {
        name: "frames_lost_on_links",
        of: |summary, _| summary.frames.as_ref().map(|of| of.faults_lost + of.faults_corrupted + of.lost_link_down),
    },
    DerivedColumn {
        name: "deadlock_since_ns",
        // A cycle that dissolved is no deadlock.
        of: |summary, _| summary.deadlock.as_ref().filter(|it| it.dissolved_ns.is_none()).map(|it| it.since_ns),
    },
    DerivedColumn { name: "deadlock_dissolved_ns", of: |summary, _| summary.deadlock.as_ref()?.dissolved_ns },
    DerivedColumn {
        name: "standstill_since_ns",
        of: |summary, _| summary.standstill.as_ref().filter(|it| it.dissolved_ns.is_none()).map(|it| it.since_ns),
    },
    DerivedColumn { name: "pauses_sent", of: |summary, _| Some(summary.flow_control?.pauses_sent) },
    DerivedColumn { name: "pauses_per_second", of: |summary, _| Some(summary.flow_control?.pauses_per_second) },
    DerivedColumn { name: "paused_ns", of: |summary, _| Some(summary.flow_control?.paused_ns) },
    DerivedColumn {
        name: "ingress_max_bytes",
        of: |summary, _| summary.lossless_classes().map(|class| class.ingress_max_bytes).max(),
    },
    DerivedColumn { name: "shared_max_bytes", of: |summary, _| Some(shared_max(summary)) },
    DerivedColumn {
        name: "flows_throughput_bps",
        of: |summary, _| {
            (!summary.flows.is_empty()).then(|| summary.flows.iter().map(|flow| flow.throughput_bps).sum())
        },
    },
    DerivedColumn { name: "messages_completed", of: |summary, _| messages(summary, |of| of.completed) },
    DerivedColumn { name: "messages_unfinished", of: |summary, _| messages(summary, |of| of.unfinished) },
    DerivedColumn { name: "packet_hops", of: |_, speed| Some(speed.packet_hops) },
];

/// Default columns of each traffic.
const OF_TRAFFIC: &[&str] = &[
    "bins.all.fct_ns.mean",
    "bins.all.fct_ns.p99",
    "bins.all.slowdown_permille.mean",
    "bins.all.slowdown_permille.p50",
    "bins.all.slowdown_permille.p95",
    "bins.all.slowdown_permille.p99",
    "bins.all.slowdown_permille.p999",
];

/// Maximum number of flows with default columns of their own.
const FLOWS_MAX: usize = 8;

impl ColumnSelection {
    /// Selects the given columns, already checked.
    pub(crate) fn only(names: Vec<String>) -> ColumnSelection {
        ColumnSelection { chosen: Some(names), more: Vec::new() }
    }

    /// Reads the columns of `[results]`; `None` if they are invalid.
    pub(crate) fn read(table: &Keys<'_>) -> Option<ColumnSelection> {
        let chosen = table.strings("columns", "\"lossless\", \"pauses_sent\"");
        let more = table.strings("more", "\"frames.hosts_sent\"").unwrap_or_default();
        let mut is_good = true;
        for (key, names) in [("columns", chosen.clone().unwrap_or_default()), ("more", more.clone())] {
            for (n, name) in names.iter().enumerate() {
                let Err((message, help)) = check(name) else { continue };
                let key = format!("{key}[{n}]");
                let problem = Problem::new(format!("`{key}`: {message}"), help).with_label(table.key_path(&key), "");
                table.doc().refuse(problem);
                is_good = false;
            }
        }
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
        is_good.then(|| ColumnSelection { chosen: chosen.map(owned), more: owned(more) })
    }

    pub(crate) fn names<'a>(&self, scenarios: impl Iterator<Item = &'a Scenario>) -> Vec<String> {
        let mut names = self.chosen.clone().unwrap_or_else(|| default(scenarios));
        names.extend(self.more.iter().cloned());
        let mut seen = std::collections::BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        names
    }
}

/// Value of a column; empty if the run lacks it, such as a deadlock.
pub(super) fn cell(name: &str, summary: &Summary, json: &Value, speed: &Speed) -> Cell {
    if name == LOSSLESS {
        return Cell::Bool(summary.lossless);
    }
    if let Some(derived) = DERIVED_COLUMNS.iter().find(|derived| derived.name == name) {
        return (derived.of)(summary, speed).map_or(Cell::Empty, Cell::from_u64);
    }
    let found = KeyPath::parse(name).and_then(|path| path.find(json).cloned());
    found.map_or(Cell::Empty, |value| Cell::of_json(&value))
}

fn default<'a>(scenarios: impl Iterator<Item = &'a Scenario>) -> Vec<String> {
    let mut names: Vec<String> =
        std::iter::once(LOSSLESS).chain(DERIVED_COLUMNS.iter().map(|of| of.name)).map(str::to_owned).collect();
    for scenario in scenarios {
        let flows = scenario.flows.iter().map(|flow| format!("flows.{}.throughput_bps", quoted(&flow.name)));
        if scenario.flows.len() <= FLOWS_MAX {
            names.extend(flows);
        }
        for traffic in &scenario.traffic {
            names.extend(OF_TRAFFIC.iter().map(|what| format!("traffic.{}.{what}", quoted(&traffic.name))));
        }
    }
    names
}

/// Checks the name of a column.
///
/// # Errors
/// Problem and remedy.
pub(crate) fn check(name: &str) -> Result<(), (String, String)> {
    if name == LOSSLESS || DERIVED_COLUMNS.iter().any(|derived| derived.name == name) {
        return Ok(());
    }
    let path = KeyPath::parse(name);
    let root = serde_json::to_value(complete()).expect("a summary is JSON");
    let mut at = &root;
    for key in path.iter().flat_map(KeyPath::keys) {
        at = match at {
            Value::Object(map) => match map.get(key).or(map.get(ANY)) {
                Some(inner) => inner,
                None => return Err(unknown(name, map.keys().map(String::as_str), at == &root)),
            },
            Value::Array(elements) if !elements.is_empty() => &elements[0],
            _ => return Err((format!("\"{name}\" goes below a value"), "name the value".to_owned())),
        };
    }
    match (path, at) {
        (None, _) => Err(unknown(name, std::iter::empty(), true)),
        (_, Value::Object(map)) => {
            let keys: Vec<&str> = map.keys().map(String::as_str).collect();
            Err((format!("\"{name}\" is a whole table"), format!("name one of its values: {name}.{}", keys.join(", "))))
        }
        (_, Value::Array(list)) if list.first().is_some_and(Value::is_object) => {
            let help = format!("name one of them, and a value of it: \"{name}.0.name\"");
            Err((format!("\"{name}\" is a list of tables"), help))
        }
        _ => Ok(()),
    }
}

fn unknown<'a>(name: &str, keys: impl Iterator<Item = &'a str>, is_top: bool) -> (String, String) {
    let own = std::iter::once(LOSSLESS).chain(DERIVED_COLUMNS.iter().map(|of| of.name));
    let known: Vec<&str> = keys.chain(own.filter(|_| is_top)).collect();
    let what = if is_top { "is no column, and nothing in summary.json" } else { "is nothing in summary.json" };
    let nearest = weir_reader::nearest(name, &known);
    let help = match nearest {
        Some(near) => format!("write \"{near}\""),
        None => format!("write one of: {}", known.join(", ")),
    };
    (format!("\"{name}\" {what}"), help)
}

/// Any key of a map.
const ANY: &str = "*";

/// Summary with every optional part, to check names against.
fn complete() -> Summary {
    let any = || std::iter::once((ANY.to_owned(), 0)).collect();
    let gauges = GaugeFigures::names_of_run();
    let class = ClassSummary { gauges, stage_max: Some(0), drops: any(), ..ClassSummary::default() };
    let bin = BinSummary { slowdown_permille: Some(Distribution::default()), ..BinSummary::default() };
    let pools = Some(PoolSummary::default());
    let off_queues = Some(XoffQueuesSummary::default());
    let critical_path =
        CriticalPathSummary { slowest: vec![PathMessageSummary::default()], ..CriticalPathSummary::default() };
    let tool = ToolSummary {
        retransmits: Some(0),
        connection: Some(ConnectionSummary::default()),
        times_ns: any(),
        ..ToolSummary::default()
    };
    Summary {
        parameters: std::iter::once((ANY.to_owned(), String::new())).collect(),
        deadlock: Some(DeadlockSummary::default()),
        standstill: Some(StandstillSummary::default()),
        flow_control: Some(FlowControlSummary::default()),
        load_balancing: Some(LoadBalancingSummary::default()),
        traffic: vec![TrafficSummary {
            bins: vec![bin],
            repetitions: vec![RepetitionSummary { critical_path: Some(critical_path), ..RepetitionSummary::default() }],
            ..TrafficSummary::default()
        }],
        frames: Some(FrameSummary { dropped: any(), llr_sent: 1, llr_taken: 1, ..FrameSummary::default() }),
        outages: Some(OutageSummary::default()),
        llr: Some(LlrSummary::default()),
        flows: vec![FlowSummary {
            fct: Some(MessageTimes::default()),
            naks: any(),
            gauges: std::iter::once((ANY.to_owned(), FlowGauge::default())).collect(),
            tool: Some(tool),
            ..FlowSummary::default()
        }],
        ports: vec![PortSummary { classes: vec![class], ..PortSummary::default() }],
        hosts: vec![HostSummary { classes: vec![HostClassSummary::default()], ..HostSummary::default() }],
        real_hosts: vec![RealHostSummary { counters: any(), ..RealHostSummary::default() }],
        switches: vec![SwitchSummary {
            headroom_pool: pools,
            egress_lossy_pool: pools,
            off_queues,
            ..SwitchSummary::default()
        }],
        links: vec![LinkDirectionSummary {
            feedback: Some(FeedbackSummary::default()),
            ..LinkDirectionSummary::default()
        }],
        headroom_pool: pools,
        egress_lossy_pool: pools,
        off_queues,
        egress_use: Some(EgressUseSummary::default()),
        windows: vec![Window {
            flows: vec![FlowWindow::default()],
            ports: vec![PortWindow { gauges: GaugeFigures::names_of_window(), ..PortWindow::default() }],
            ..Window::default()
        }],
        ..Summary::default()
    }
}

/// Peak usage of the shared segment, the maximum over all switches.
fn shared_max(summary: &Summary) -> u64 {
    let of_switches = summary.switches.iter().map(|switch| switch.pool.used_max_bytes);
    of_switches.chain([summary.pool.used_max_bytes]).max().unwrap_or(0)
}

fn messages(summary: &Summary, what: fn(&TrafficSummary) -> u64) -> Option<u64> {
    (!summary.traffic.is_empty()).then(|| summary.traffic.iter().map(what).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_checked_before_anything_runs() {
        for good in [
            "lossless",
            "pauses_sent",
            "deadlock.cycle",
            "failures",
            "flows.F1.fct.mean_ns",
            "flows.F1.gauges.alpha.mean",
            "traffic.web-search.bins.'10KB-100KB'.slowdown_permille.p99",
            "traffic.ring.repetitions.0.completion_ns",
            "ports.'S1.h1'.classes.0.drops.admission",
            "windows.last-quarter.ports.0.ingress_max_bytes",
            "switches.L0.off_queues.headroom_peak_p50_bytes",
            "egress_use.lossless_p99_bytes",
            "outages.lossless_frames_lost",
            "llr.replays",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, message) in [
            ("deadlock", "\"deadlock\" is a whole table"),
            ("flows", "\"flows\" is a list of tables"),
            ("flows.F1.throughput", "\"flows.F1.throughput\" is nothing in summary.json"),
            ("pauses", "\"pauses\" is no column, and nothing in summary.json"),
            ("lossless.x", "\"lossless.x\" goes below a value"),
            ("", "\"\" is no column, and nothing in summary.json"),
        ] {
            assert_eq!(check(bad).unwrap_err().0, message);
        }
    }

    /// Each table of the page that has the heading of its path.
    #[test]
    fn columns_name_each_value_of_a_summary() {
        let page = include_str!("../../../../docs/RUN_DIRECTORY.md");
        let page = page.split("## Results: `summary.json`").nth(1).unwrap().split("\n## ").next().unwrap();
        let root = serde_json::to_value(complete()).unwrap();
        let mut tables = 0;
        for section in page.split("\n### ").skip(1) {
            let (heading, rows) = section.split_once('\n').unwrap();
            let Some(path) = heading.strip_prefix('`') else { continue };
            let (mut at, mut name) = (&root, String::new());
            for key in path.trim_end_matches('`').split('.') {
                at = &at[key];
                name += &format!("{key}.");
                if at.is_array() || at.get(ANY).is_some() {
                    at = if at.is_array() { &at[0] } else { &at[ANY] };
                    name += "0.";
                }
            }
            let cells = rows.lines().filter(|line| line.starts_with("| `")).map(|row| row.split('|').nth(1).unwrap());
            for key in cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)) {
                assert!(at.get(key).is_some(), "{name}{key}");
                let is_inner = at[key].is_object() || at[key].get(0).is_some_and(serde_json::Value::is_object);
                assert_eq!(check(&format!("{name}{key}")).is_ok(), !is_inner, "{name}{key}");
            }
            tables += 1;
        }
        assert!(tables >= 28, "{tables}");
        for map in ["parameters.x", "flows.F1.naks.x", "flows.F1.tool.times_ns.x", "real_hosts.H1.counters.x"] {
            assert_eq!(check(map), Ok(()), "{map}");
        }
    }

    #[test]
    fn cells_are_of_the_run() {
        let mut summary = complete();
        summary.flow_control = Some(FlowControlSummary { pauses_sent: 7, ..FlowControlSummary::default() });
        summary.ports[0].classes[0].lossless = true;
        summary.ports[0].classes[0].drops = [("admission".to_owned(), 3), ("shutdown".to_owned(), 5)].into();
        summary.deadlock = None;
        let json = serde_json::to_value(&summary).unwrap();
        let speed = Speed { packet_hops: 9, ..Speed::default() };
        let of = |name: &str| cell(name, &summary, &json, &speed);
        assert_eq!(of("pauses_sent"), Cell::Integer(7));
        assert_eq!(of("lossless_frames_dropped"), Cell::Integer(3));
        assert_eq!(of("packet_hops"), Cell::Integer(9));
        assert_eq!(of("lossless"), Cell::Bool(false));
        assert_eq!([of("deadlock_since_ns"), of("deadlock.since_ns")], [Cell::Empty, Cell::Empty]);
        assert_eq!(of("flow_control.pauses_sent"), Cell::Integer(7));
    }

    #[test]
    fn a_cycle_that_dissolved_is_no_deadlock() {
        let of = |dissolved_ns: Option<u64>, name: &str| {
            let deadlock = DeadlockSummary { since_ns: 5, dissolved_ns, ..DeadlockSummary::default() };
            let summary = Summary { deadlock: Some(deadlock), ..Summary::default() };
            cell(name, &summary, &serde_json::to_value(&summary).unwrap(), &Speed::default())
        };
        assert_eq!([of(None, "deadlock_since_ns"), of(None, "deadlock_dissolved_ns")], [Cell::Integer(5), Cell::Empty]);
        assert_eq!(
            [of(Some(9), "deadlock_since_ns"), of(Some(9), "deadlock_dissolved_ns")],
            [Cell::Empty, Cell::Integer(9)]
        );
    }

    #[test]
    fn a_standstill_that_dissolved_has_no_column() {
        let of = |dissolved_ns: Option<u64>| {
            let standstill = StandstillSummary { since_ns: 5, dissolved_ns, ..StandstillSummary::default() };
            let summary = Summary { standstill: Some(standstill), ..Summary::default() };
            cell("standstill_since_ns", &summary, &serde_json::to_value(&summary).unwrap(), &Speed::default())
        };
        assert_eq!([of(None), of(Some(9))], [Cell::Integer(5), Cell::Empty]);
    }
}
