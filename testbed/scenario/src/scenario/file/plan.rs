//! Contents of a scenario file before its runs are built.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use weir_config::Source;
use weir_nic::host::TelemetryMode;
use weir_reader::settings::{ConfigTable, SourceSpan};
use weir_reader::{Problem, TIME, Table};
use weir_switch_core::flow_control::RATE_UNKNOWN;
use weir_units::{Alpha, BitRate, Bytes, ClassSet, SerialisationRounding, Span, Time};

use super::Expectation;
use super::changes::{self, ChangePart};
use super::fabrics;
use super::forwarding::StaticForwarding;
use super::keys::{others, scenario as keys};
use super::llr::LlrPart;
use super::nic::{Nic, TransportConfig};
use super::outages;
use super::reading::{END_MAX, classes, instant, name, named, refuse_duplicates, require, time_range};
use super::slow_receivers::{self, SlowReceivers};
use super::topology::{FaultDraw, PortName, Topology, port_named};
use super::traffic::{self, FlowPart};
use super::workloads::{self, WorkloadPart};
use crate::scenario::{Outage, RealPorts, TrafficSource, WindowPlan};

const SAMPLE_EVERY_DEFAULT: Span = Span::from_micros(50);
/// Placeholder for an end that is missing or wrong, so that no other time is compared with it.
const END_UNKNOWN: Time = Time::from_picos(END_MAX.as_picos());
/// Rate per link in real time at which even a small machine carries a dozen links.
const REAL_RATE: BitRate = BitRate::mbps(100);

/// Contents of a scenario file.
#[derive(Debug)]
pub(super) struct ScenarioPlan {
    pub source: Source,
    pub name: String,
    pub end: Time,
    pub sample_every: Span,
    pub snapshots: Vec<Time>,
    pub shows_flow_gauges: bool,
    pub time_dilation: Option<u32>,
    /// Place of the dilation in the file.
    pub clock: Option<SourceSpan>,
    /// `[switch]`.
    pub common: ConfigTable,
    pub topology: Topology,
    pub nic: Nic,
    pub flows: Vec<FlowPart>,
    pub workloads: Vec<WorkloadPart>,
    /// Messages of each workload, the same in every run.
    pub messages: Arc<[TrafficSource]>,
    /// Static MACs; `None` for ECMP.
    pub forwarding: Option<StaticForwarding>,
    pub outages: Vec<Outage>,
    /// Changes of the switches' settings during the runs, earliest first.
    pub changes: Vec<ChangePart>,
    pub llr: LlrPart,
    pub slow_receivers: Vec<SlowReceivers>,
    pub seed: u64,
    pub ecmp_seed: u32,
    pub routing_delay: Option<Span>,
    pub warm_up: Time,
    pub link_overhead: Bytes,
    pub frame_times: SerialisationRounding,
    pub measures_feedback: bool,
    pub unbuffered: ClassSet,
    pub unscheduled_alpha: Option<Alpha>,
    pub windows: Vec<WindowPlan>,
    /// Ports that are plotted, if the file names them.
    pub draw: Option<Vec<PortName>>,
    pub capture: Option<CapturePart>,
    /// Runs, at least one.
    pub runs: Vec<RunPart>,
}

/// Table `[capture]`: the host, and the selection of its data frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct CapturePart {
    /// Index of the host in the topology.
    pub host: usize,
    pub data_from: Time,
    pub data_frames: u32,
}

/// Circumstances of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunContext<'a> {
    pub time_dilation: u32,
    /// Location of the real hosts' ports; hosts that declare their access are then real.
    pub real: Option<&'a RealPorts>,
}

/// Run, with the settings that override the common ones.
#[derive(Debug)]
pub(super) struct RunPart {
    pub name: String,
    pub expects: Expectation,
    /// Overrides that of the scenario.
    pub unscheduled_alpha: Option<Alpha>,
    pub settings: ConfigTable,
}

impl ScenarioPlan {
    /// Reads the file at the path `file`.
    pub(super) fn read(root: &Table<'_>, file: &Path) -> ScenarioPlan {
        let scenario = root.table("scenario", "scenario");
        require(&scenario, "end", "a scenario", "end = \"20ms\" in [scenario]");
        let given_end = scenario.given(&keys::END);
        let end = given_end.map_or(END_UNKNOWN, |end| Time::ZERO + end);
        let sample_every = scenario.quantity("sample_every", &TIME, Span::from_nanos(1)..=end.since(Time::ZERO));
        let name = scenario_name(&scenario, file);
        let seed = scenario.get(&keys::SEED);
        let ecmp_seed = match scenario.is_keyword(&keys::ECMP_SEED) {
            // No seed exceeds `u32::MAX`.
            true => seed as u32,
            false => scenario.get(&keys::ECMP_SEED),
        };
        let nic = Nic::read(root);
        let folder = file.parent().unwrap_or(Path::new(""));
        let topology = match root.has("topology") {
            true => fabrics::read(root, &nic, FaultDraw { end, seed })
                .unwrap_or(Topology { is_fabric: true, ..Topology::default() }),
            false => Topology::read(root, folder, &nic, end, seed),
        };
        let flows = traffic::read(root, &topology, &nic, end);
        let runs = runs(root, &name);
        ScenarioPlan {
            source: root.doc().source().clone(),
            shows_flow_gauges: scenario.get(&keys::FLOW_GAUGES),
            sample_every: sample_every.unwrap_or(SAMPLE_EVERY_DEFAULT.min(end.since(Time::ZERO))),
            snapshots: snapshots(&scenario, end),
            time_dilation: scenario.given(&keys::TIME_DILATION),
            clock: SourceSpan::of_key(&scenario, "time_dilation").or(SourceSpan::of_table(&scenario)),
            common: switch_settings(root, "switch", "switch", "switch.port"),
            workloads: workloads::read(root, &topology, &nic, folder, end, seed),
            messages: Arc::default(),
            forwarding: forwarding(root, &scenario, &topology, &flows),
            outages: outages::read(root, &topology, end),
            llr: LlrPart::read(root, &topology),
            slow_receivers: slow_receivers::read(root, &topology, end),
            warm_up: instant(&scenario, "warm_up", Time::ZERO, end),
            link_overhead: scenario.get(&keys::LINK_OVERHEAD),
            frame_times: scenario.get(&keys::FRAME_TIMES),
            measures_feedback: scenario.get(&keys::FEEDBACK_DELAY),
            unbuffered: classes(&scenario, "unbuffered_classes"),
            unscheduled_alpha: scenario.given(&keys::UNSCHEDULED_ALPHA),
            windows: windows(root, end),
            draw: draw(&scenario, &topology),
            capture: capture(root, &topology, end),
            changes: changes::read(root, &run_names(&runs), end),
            runs,
            name,
            seed,
            ecmp_seed,
            routing_delay: routing_delay(&scenario, &topology),
            end,
            topology,
            nic,
            flows,
        }
    }

    /// Returns the file's dilation, or else one at which most machines keep up.
    pub(super) fn dilation(&self) -> u32 {
        self.time_dilation.unwrap_or_else(|| usual_dilation(self))
    }

    /// Returns the transport of each flow and workload.
    pub(super) fn transports(&self) -> impl Iterator<Item = &TransportConfig> {
        let of_flows = self.flows.iter().map(|flow| &flow.transport);
        of_flows.chain(self.workloads.iter().map(|workload| &workload.transport))
    }

    /// Returns the longest stamps of any frame.
    pub(super) fn stamps(&self) -> TelemetryMode {
        self.transports().map(TransportConfig::stamps).max().unwrap_or_default()
    }
}

/// Returns a dilation at which most machines keep up with the fastest link of the file.
fn usual_dilation(plan: &ScenarioPlan) -> u32 {
    let topology = &plan.topology;
    let of_ports =
        topology.links.iter().map(|link| &*link.settings).chain(topology.hosts.iter().map(|host| &*host.settings));
    let of_files =
        topology.switches.iter().filter_map(|switch| switch.file.as_ref()).flat_map(|file| file.tables("ports"));
    let common =
        [&plan.common].into_iter().chain(plan.runs.iter().map(|run| &run.settings)).filter_map(|all| all.table("port"));
    let rates = of_ports.chain(of_files).chain(common).filter_map(|settings| settings.string("rate")?.parse().ok());
    let fastest = rates.max().unwrap_or(RATE_UNKNOWN);
    (fastest.as_bps() / REAL_RATE.as_bps()).clamp(1, 1_000_000) as u32
}

/// Reads the forwarding: static MACs for `forwarding = "static"`, `None` for ECMP.
fn forwarding(
    root: &Table<'_>,
    scenario: &Table<'_>,
    topology: &Topology,
    flows: &[FlowPart],
) -> Option<StaticForwarding> {
    let is_static = scenario.given(&keys::FORWARDING);
    let several_ports = topology.hosts.iter().find(|host| host.first_port.is_some());
    if is_static.unwrap_or(!topology.is_fabric) {
        if let Some(port) = several_ports {
            let message = "a host with several ports takes routes, but `forwarding` is \"static\"";
            let problem = Problem::new(message, "write forwarding = \"ecmp\" in [scenario]");
            let key =
                if topology.is_fabric { "topology.ports".to_owned() } else { format!("hosts[{}].ports", port.number) };
            root.doc().note(problem.with_label(key, ""));
        }
        return Some(StaticForwarding::read(root, topology, flows));
    }
    let given = if scenario.has("forwarding") { "" } else { ", as it is by default with [topology]" };
    let refuse = |key: String, what: &str, out: &str| {
        let help = match several_ports {
            Some(_) => format!("take {out} out: hosts with several ports take routes"),
            None => format!("write forwarding = \"static\" in [scenario], or take {out} out"),
        };
        let problem = Problem::new(format!("{what}, but `forwarding` is \"ecmp\"{given}"), help);
        root.doc().refuse(problem.with_label(key, "").with_label("scenario.forwarding", "the forwarding"));
    };
    for flow in flows.iter().filter(|flow| flow.path.is_some()) {
        refuse(format!("flows[{}].path", flow.number), "a path is made of static MACs", "`path`");
    }
    for number in 0..root.tables("routes", "routes").len() {
        refuse(format!("routes[{number}]"), "a route is a static MAC", "it");
    }
    for (number, _) in topology.switches.iter().enumerate().filter(|(_, switch)| switch.file.is_some()) {
        refuse(format!("switches[{number}].config"), "a switch of its own file has static MACs", "`config`");
    }
    None
}

/// Reads the instants of the snapshots, each once, in order.
fn snapshots(scenario: &Table<'_>, end: Time) -> Vec<Time> {
    let texts = scenario.strings("snapshots", "\"1ms\"").unwrap_or_default();
    let mut instants = BTreeSet::new();
    for (n, text) in texts.into_iter().enumerate() {
        let key = format!("snapshots[{n}]");
        match text.parse::<Span>() {
            Err(_) => {
                scenario.refuse(&key, format!("\"{text}\" is no time"), "write for example snapshots = [\"1ms\"]")
            }
            Ok(span) if Time::ZERO + span > end => {
                let message = format!("{span} is after the end, {}", end.since(Time::ZERO));
                scenario.refuse(&key, message, "write an earlier instant, or a later `end`");
            }
            Ok(span) => {
                instants.insert(Time::ZERO + span);
            }
        }
    }
    instants.into_iter().collect()
}

/// Reads the delay until all switches know of a cut or repaired link; without the key, or with `"none"`, they never do.
fn routing_delay(scenario: &Table<'_>, topology: &Topology) -> Option<Span> {
    if !scenario.has(keys::ROUTING_DELAY.name) || scenario.is_keyword(&keys::ROUTING_DELAY) {
        return None;
    }
    let delay = scenario.given(&keys::ROUTING_DELAY)?;
    let is_static = scenario.given(&keys::FORWARDING);
    if is_static.unwrap_or(!topology.is_fabric) {
        let message = "static MACs do not change when a link fails, but `routing_delay` is set";
        let problem = Problem::new(message, "write forwarding = \"ecmp\" in [scenario], or take `routing_delay` out");
        scenario.doc().note(problem.with_label(scenario.key_path("routing_delay"), ""));
        return None;
    }
    Some(delay)
}

fn scenario_name(scenario: &Table<'_>, file: &Path) -> String {
    if scenario.has("name") {
        return name(scenario, "a scenario", "ring").unwrap_or_default();
    }
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or("");
    if !weir_reader::is_name(stem) {
        let message = format!("the scenario has no `name`, and the file's own, \"{stem}\", can't stand for it");
        let help = "write name = \"ring\" in [scenario]: 1 to 31 letters, digits, _, . or -, the first no . or -";
        scenario.doc().note(Problem::new(message, help).with_label("scenario.name", ""));
    }
    stem.to_owned()
}

/// Reads `[switch]` or `[runs.switch]`, and checks the names of keys and tables only; the switch's file is checked later.
fn switch_settings(parent: &Table<'_>, key: &str, name: &'static str, port: &'static str) -> ConfigTable {
    let table = parent.table(key, name);
    table.table("port", port);
    ConfigTable::from_table(&table)
}

fn windows(root: &Table<'_>, end: Time) -> Vec<WindowPlan> {
    let tables = root.tables("windows", "windows");
    let names: Vec<Option<String>> = tables.iter().map(|table| name(table, "a window", "steady")).collect();
    refuse_duplicates(&tables, "windows", names.iter().map(Option::as_deref));
    let spans = tables.iter().map(|table| time_range(table, ["from", "to"], Time::ZERO..end, end));
    let window = |(name, span): (Option<String>, Option<(Time, Time)>)| {
        let (from, to) = span?;
        Some(WindowPlan { name: name?, from, to })
    };
    let windows: Vec<WindowPlan> = names.into_iter().zip(spans).filter_map(window).collect();
    if !tables.is_empty() || root.has("windows") {
        return windows;
    }
    let from = Time::ZERO + (end.since(Time::ZERO) * 3).divided_by(4);
    vec![WindowPlan { name: "last-quarter".to_owned(), from, to: end }]
}

fn draw(scenario: &Table<'_>, topology: &Topology) -> Option<Vec<PortName>> {
    let names = scenario.strings("plot_ports", "\"S1.h1\"").filter(|_| scenario.doc().sound(&["topology"]))?;
    let used = |port: &PortName| {
        let of_hosts = topology.hosts.iter().map(|host| &host.port);
        let of_links = topology.links.iter().flat_map(|link| &link.ends);
        of_links.chain(of_hosts).any(|other| (other.switch, &other.port) == (port.switch, &port.port))
    };
    let mut ports = Vec::new();
    for (n, name) in names.into_iter().enumerate() {
        let key = format!("plot_ports[{n}]");
        let Some(port) = port_named(scenario, &key, name, &topology.switches) else { continue };
        if used(&port) {
            ports.push(port);
        } else if scenario.doc().sound(&["topology", "links", "hosts"]) {
            let message = format!("no link or host is on port {name}");
            scenario.refuse(&key, message, "name a port of [[links]] or [[hosts]]");
        }
    }
    Some(ports)
}

fn capture(root: &Table<'_>, topology: &Topology, end: Time) -> Option<CapturePart> {
    if !root.has("capture") {
        return None;
    }
    let table = root.table("capture", "capture");
    require(&table, "host", "a capture", "host = \"H1\" in [capture]");
    let is_sound = root.doc().sound(&["topology"]);
    let host = if is_sound { named(&table, "host", "host", &topology.host_names()) } else { None };
    let data_from = instant(&table, "data_from", Time::ZERO, end);
    let data_frames = table.get(&others::DATA_FRAMES);
    Some(CapturePart { host: host?, data_from, data_frames })
}

fn run_names(runs: &[RunPart]) -> Vec<&str> {
    runs.iter().map(|run| run.name.as_str()).collect()
}

/// Reads the runs; by default there is one, with the scenario's name.
fn runs(root: &Table<'_>, scenario: &str) -> Vec<RunPart> {
    let tables = root.tables("runs", "runs");
    let name = |table: &Table<'_>| {
        require(table, "name", "a run", "name = \"PFC\"");
        let name = table.string("name", "PFC")?;
        let good = (1..=60).contains(&name.chars().count()) && !name.contains(char::is_control) && name.trim() == name;
        if !good {
            let help = "write 1 to 60 characters in a line, with no space before or after them";
            table.refuse("name", format!("\"{name}\" can't be the name of a run"), help);
        }
        Some(name.to_owned())
    };
    let names: Vec<Option<String>> = tables.iter().map(name).collect();
    refuse_duplicates(&tables, "runs", names.iter().map(Option::as_deref));
    let run = |(table, name): (&Table<'_>, Option<String>)| RunPart {
        name: name.unwrap_or_default(),
        expects: table.get(&others::EXPECT),
        unscheduled_alpha: table.given(&others::RUN_UNSCHEDULED_ALPHA),
        settings: switch_settings(table, "switch", "runs.switch", "runs.switch.port"),
    };
    let mut runs: Vec<RunPart> = tables.iter().zip(names).map(run).collect();
    if runs.is_empty() {
        runs.push(RunPart {
            name: scenario.to_owned(),
            expects: Expectation::default(),
            unscheduled_alpha: None,
            settings: ConfigTable::default(),
        });
    }
    runs
}
