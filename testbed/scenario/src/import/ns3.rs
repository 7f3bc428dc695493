//! Experiments of the public RDMA simulators on ns-3, as scenarios: HPCC's (alibaba-edu/High-Precision-Congestion-Control),
//! ConWeave's (conweave-project/conweave-ns3) and those of inet-tub/ns3-datacenter.
//!
//! ```no_run
//! use weir_scenario::import::ns3::{Options, Sources, import};
//!
//! let sources = Sources::find(&["mix".into()])?;
//! let imported = import(&sources, &Options { stem: "clos".to_owned(), ..Options::default() })?;
//! # Ok::<(), weir_scenario::import::ImportErrors>(())
//! ```
//!
//! `docs/IMPORT.md` lists how each key is mapped.

mod arguments;
mod columns;
mod config;
mod control;
mod detect;
mod flows;
mod inet_tub;
mod round_trips;
mod sources;
mod switches;
#[cfg(test)]
mod tests;
mod times;
mod topology;
mod workloads;
mod write;

use super::document::share;
use super::{ImportErrors, ImportNote, ImportReport, ImportedScenario, SourceFile};
use crate::import::text::{ErrorCollector, count};
use crate::workload::SizeCdf;
use columns::FlowField;
use config::Config;
use flows::{FlowList, TraceList};
use std::collections::BTreeSet;
use times::Times;
pub(super) use topology::{Link, Topology};
use weir_units::{Span, SplitMix64};
use workloads::Workload;
pub(super) use write::Names;

pub use arguments::Arguments;
pub use columns::FlowColumns;
pub use sources::Sources;

/// Options of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Name of the scenario file without `.toml`; the names of its further files begin with it.
    pub stem: String,
    /// Preset of [`CongestionControlChoice`](weir_nic::host::CongestionControlChoice) in place of CC_MODE.
    pub congestion_control: Option<String>,
    /// Command line of inet-tub's program, which precedes the configuration.
    pub arguments: Option<Arguments>,
    /// Columns of the flow list, if they are not HPCC's or ConWeave's.
    pub flow_columns: Option<FlowColumns>,
    /// Whether serialization times are cut to whole nanoseconds, as in the simulator.
    pub cuts_times: bool,
}

/// Simulator that the files are for. Each has built-in settings of its switches and hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Simulator {
    /// HPCC's simulator, and simulators derived from it without another's marks.
    Hpcc,
    /// ConWeave's simulator: FLOWGEN_START_TIME, LB_MODE, flows without a dport.
    ConWeave,
    /// Simulator of inet-tub, whose topology has a longer first line.
    InetTub,
}

/// Inputs of an import.
struct Ns3Experiment {
    simulator: Simulator,
    config: Config,
    topology: Topology,
    trace: Vec<u32>,
    control: control::CongestionPreset,
    switches: switches::SwitchSettings,
    /// Payload of a full packet.
    payload: u64,
    times: Times,
    workloads: Vec<Workload>,
    /// Classes of flows, which are lossless under PFC.
    classes: Vec<u8>,
    /// Timeout of retransmissions.
    retransmission: Span,
    /// `ack_class` of `[nic]`, if acknowledgements are queued with data in switches.
    acks: Option<&'static str>,
    cuts_times: bool,
    /// TCP tables of `[nic]`, if there is TCP.
    tcp: Vec<(&'static str, Vec<(&'static str, String)>)>,
}

/// Builds a scenario.
///
/// # Errors
/// Errors of a file, and settings that Weir can't simulate.
pub fn import(sources: &Sources, options: &Options) -> Result<ImportedScenario, ImportErrors> {
    let mut report = ImportReport { left: sources.left.clone(), ..ImportReport::default() };
    let mut topology = Topology::parse(&sources.topology)?;
    let arguments = options.arguments.as_ref();
    let mut config = sources.config.clone().unwrap_or_default();
    let listed = sources.flows.as_ref().filter(|_| arguments.is_none());
    let in_packets = payload(&config)?;
    let columns = options.flow_columns.as_ref();
    if columns.is_some() && listed.is_none() {
        let help = "take it out, or name the flow list too";
        return Err(ImportErrors::one("--flows", None, "no flow list is imported", help));
    }
    let parsed = listed.map(|source| FlowList::parse(source, &topology, columns, in_packets));
    let mut flows = parsed.transpose()?;
    let trace = sources.trace.as_ref().map(|source| TraceList::parse(source, &topology)).transpose()?;
    let simulator = match arguments {
        Some(arguments) => {
            inet_tub::override_config(&mut config, arguments);
            Simulator::InetTub
        }
        None => Simulator::detect(&config, &topology, flows.as_ref()),
    };
    report_files(sources, simulator, &topology, flows.as_ref(), trace.as_ref(), &mut report);
    let payload = payload(&config)?;
    let trips = round_trips::RoundTrips::new(&topology, payload);
    let idle = fit_hosts(&sources.topology.name, &mut topology, flows.as_mut(), &mut report)?;

    let line = topology.nic_rate();
    let wanted = options.congestion_control.as_deref();
    let power_tcp = arguments.filter(|_| wanted.is_none()).and_then(|arguments| inet_tub::control(arguments, &trips));
    let control = match power_tcp {
        Some(control) => control,
        None => control::choose(&config, simulator, line, &trips, wanted, arguments.is_some(), &mut report)?,
    };
    let times = match arguments {
        Some(arguments) => Times::of_arguments(arguments, &mut report),
        None => Times::from_files(sources, &config, flows.as_ref(), simulator, &mut report)?,
    };
    let alphas = arguments.map(|_| inet_tub::Alphas::read(sources.alphas.as_ref(), &mut report)).transpose()?;
    let mut workloads = match (&flows, &sources.sizes) {
        _ if arguments.is_some() => {
            let arguments = arguments.expect("it is there");
            if let Some(flows) = &sources.flows {
                report.left.push(ImportNote::for_file(
                    &flows.name,
                    "the program sends what its command line says, and none of a list",
                ));
            }
            inet_tub::report_differences(arguments, &mut report);
            let (file, sizes) = (&sources.topology.name, sources.sizes.as_ref());
            inet_tub::workloads(arguments, &topology, file, sizes, &trips, options, &mut report)?
        }
        (Some(list), sizes) => {
            if let Some(sizes) = sizes {
                report.left.push(ImportNote::for_file(&sizes.name, "the flow list says the sizes"));
            }
            workloads::of_list(list, &topology, &times, options, &mut report)
        }
        (None, Some(sizes)) => vec![of_sizes(sizes, &config, options, &mut report)?],
        (None, None) => {
            report.left.push(ImportNote::general("there is no flow list: write [[workloads]] or [[flows]]"));
            Vec::new()
        }
    };
    for workload in &mut workloads {
        if let Some(line) = workload.line {
            let quiet = &mut ImportReport::default();
            workload.control = Some(control::choose(&config, simulator, line, &trips, wanted, false, quiet)?);
        }
    }
    let lossless = workloads.iter().map(|workload| workload.class);
    // The program keeps headroom for the queue of acknowledgements too.
    let mut classes: Vec<u8> = match arguments {
        Some(_) => vec![3, inet_tub::TCP_ACK_CLASS],
        None => lossless.collect(),
    };
    // ACK_HIGH_PRIO reaches hosts only; ConWeave's switches have it on.
    let acks = match config.is_on("ACK_HIGH_PRIO", false) {
        _ if simulator == Simulator::ConWeave => None,
        true => Some("with-data-unpaused"),
        false => Some("with-data"),
    };
    classes.extend(Some(3).filter(|_| classes.is_empty()));
    classes.sort();
    classes.dedup();
    let given = switches::SwitchInputs { lossless: classes.len(), idle, line: arguments.zip(alphas.as_ref()) };
    let switches = switches::settings(&config, &topology, simulator, payload, &trips, given, &mut report)?;
    let has_tcp = workloads.iter().any(|workload| workload.class == inet_tub::TCP_CLASS);
    let tcp = arguments.filter(|_| has_tcp).map_or(Vec::new(), |arguments| inet_tub::tcp_tables(arguments, payload));
    let experiment = Ns3Experiment {
        simulator,
        trace: trace.map_or(Vec::new(), |trace| trace.nodes),
        control,
        switches,
        payload,
        times,
        workloads,
        classes,
        retransmission: simulator.retransmission(trips.base_rtt),
        acks,
        cuts_times: options.cuts_times,
        tcp,
        config,
        topology,
    };
    experiment.report_links(&sources.topology.name, &mut report);
    experiment.report_keys(&mut report);
    let scenario = write::scenario(&experiment, sources, &mut report);
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for Workload { file, text, .. } in experiment.workloads {
        // Several workloads may draw from one distribution.
        if !file.is_empty() && !files.iter().any(|(name, _)| *name == file) {
            files.push((file, text.into_bytes()));
        }
    }
    Ok(ImportedScenario { scenario, files, report })
}

impl Simulator {
    fn detect(config: &Config, topology: &Topology, flows: Option<&FlowList>) -> Simulator {
        let has_no_dport = flows.is_some_and(|list| list.columns.is_conweaves());
        if topology.is_extended {
            Simulator::InetTub
        } else if has_no_dport || config.is_conweaves() {
            Simulator::ConWeave
        } else {
            Simulator::Hpcc
        }
    }

    /// Returns the timeout of retransmissions. HPCC's simulator has none: it must not end before a reply that waited in a PAUSE.
    fn retransmission(self, base_rtt: Span) -> Span {
        let least = Span::from_millis(4);
        if self == Simulator::ConWeave { least } else { least.max(base_rtt * 8) }
    }

    /// Returns the simulator's name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Simulator::Hpcc => "HPCC's simulator",
            Simulator::ConWeave => "ConWeave's simulator",
            Simulator::InetTub => "inet-tub's simulator",
        }
    }
}

/// Turns each further link of a host into a port or a host of its own, and leaves out idle ones for which a switch has no port. Returns the
/// number left out.
fn fit_hosts(
    file: &str,
    topology: &mut Topology,
    flows: Option<&mut FlowList>,
    report: &mut ImportReport,
) -> Result<usize, ImportErrors> {
    let [with_ports, several] = topology.part_nics();
    if with_ports > 0 {
        let text = format!(
            "{} with several equal links, its ports: a hash chooses those of a flow; in the simulator one chooses the sender's, and the ways \
             through the fabric the receiver's",
            count(with_ports, "host")
        );
        report.approximated.push(ImportNote::for_file(file, text));
    }
    if several > 0 {
        let text = format!(
            "{} with several links that differ or lose frames: each kind is a host of its own, H5 and H5-2, and a flow is given a joined pair of \
             them, at one switch if there is one, by its number",
            count(several, "host")
        );
        report.approximated.push(ImportNote::for_file(file, text));
    }
    let Some(list) = flows else {
        topology.check_ports(file)?;
        return Ok(0);
    };
    let mut busy = BTreeSet::new();
    let (parts, switch_of) = (topology.parts(), topology.switches_of_hosts());
    let mut complaints = ErrorCollector::new(&list.file);
    for (n, flow) in (0u64..).zip(&mut list.flows) {
        let [senders, receivers] = [flow.from, flow.to].map(|host| topology.nics_of(host));
        let all = senders.iter().flat_map(|from| receivers.iter().map(move |to| (*from, *to)));
        let meet = |(from, to): (u32, u32), is_one: &dyn Fn(u32, u32) -> bool| {
            let [from, to] = [from, to].map(|host| topology.ports_of(host));
            from.iter().any(|one| to.iter().any(|other| is_one(*one, *other)))
        };
        let in_part = |one: u32, other: u32| parts[one as usize] == parts[other as usize];
        let joined: Vec<(u32, u32)> = all.filter(|pair| meet(*pair, &in_part)).collect();
        let is_near = |pair: &&(u32, u32)| meet(**pair, &|one, other| switch_of.get(&one) == switch_of.get(&other));
        let near: Vec<(u32, u32)> = joined.iter().filter(is_near).copied().collect();
        let pairs = if near.is_empty() { joined } else { near };
        match pairs.len() as u64 {
            0 => complaints.add(
                flow.line,
                format!("no path joins nodes {} and {}", flow.from, flow.to),
                "add a link to the topology, or name another node",
            ),
            count => (flow.from, flow.to) = pairs[(SplitMix64::mix(n) % count) as usize],
        }
    }
    complaints.result(())?;
    list.flows.iter().for_each(|flow| busy.extend([flow.from, flow.to]));
    let idle = topology.leave_out_idle(&busy);
    if !idle.is_empty() {
        let names: Vec<String> = idle.iter().map(|host| topology.host_name(*host)).collect();
        let text = format!(
            "{} left out, without flows, as a switch has too many ports: {}; the buffer is smaller by their share",
            count(idle.len(), "host"),
            names.join(", ")
        );
        report.approximated.push(ImportNote::for_file(file, text));
    }
    topology.check_ports(file)?;
    Ok(idle.len())
}

/// Reads PACKET_PAYLOAD_SIZE, which frames of any Ethernet must carry.
fn payload(config: &Config) -> Result<u64, ImportErrors> {
    let payload = config.numbers.get("PACKET_PAYLOAD_SIZE").copied().unwrap_or(1_000);
    if (64..=9_000).contains(&payload) {
        return Ok(payload);
    }
    let problem = format!("PACKET_PAYLOAD_SIZE {payload} is no payload of an Ethernet frame");
    let line = config.line("PACKET_PAYLOAD_SIZE");
    Err(ImportErrors::one(&config.file, line, problem, "write 64 to 9000, like 1000"))
}

/// Returns Poisson arrivals with the sizes of a distribution, for lack of a list.
fn of_sizes(
    sizes: &SourceFile,
    config: &Config,
    options: &Options,
    report: &mut ImportReport,
) -> Result<Workload, ImportErrors> {
    check_sizes(sizes)?;
    let load = config.shares.get("LOAD").map(|share| share / 100).filter(|ppb| *ppb > 0);
    let how = match load {
        Some(load) => format!("at a load of {}", share(load)),
        None => "at a load of 0.5, which no file sets".to_owned(),
    };
    let text = format!("no flow list: Poisson arrivals of its sizes {how}, between all hosts");
    report.approximated.push(ImportNote::for_file(&sizes.name, text));
    Ok(Workload::drawn(options, sizes.text.clone(), load.unwrap_or(500_000_000)))
}

fn check_sizes(sizes: &SourceFile) -> Result<(), ImportErrors> {
    let refused = |error| {
        let problem = format!("this is no distribution of sizes: {error}");
        ImportErrors::one(&sizes.name, None, problem, "write a size and a cumulative share on each line")
    };
    SizeCdf::parse(&sizes.text).map(drop).map_err(refused)
}

fn report_files(
    sources: &Sources,
    simulator: Simulator,
    topology: &Topology,
    flows: Option<&FlowList>,
    trace: Option<&TraceList>,
    report: &mut ImportReport,
) {
    match &sources.config {
        Some(config) => {
            report.taken.push(ImportNote::for_file(&config.file, format!("the configuration, of {}", simulator.name())))
        }
        None => report
            .approximated
            .push(ImportNote::general(format!("no configuration: as {} is by default", simulator.name()))),
    }
    let text = format!(
        "{}, {} and {}",
        count(topology.switches.len(), "switch"),
        count(topology.hosts().count(), "host"),
        count(topology.links.len(), "link")
    );
    report.taken.push(ImportNote::for_file(&sources.topology.name, text));
    if topology.left_over > 0 {
        let text = format!("{} after the last link", count(topology.left_over, "line"));
        report.left.push(ImportNote::for_file(&sources.topology.name, text));
    }
    if let (Some(source), Some(list)) = (&sources.flows, flows)
        && list.columns.has(FlowField::End)
    {
        let text = "the flows' ends: each message is sent whole, and in the simulator until its end";
        report.approximated.push(ImportNote::for_file(&source.name, text));
    }
    if let (Some(source), Some(list)) = (&sources.flows, flows)
        && list.left_over > 0
    {
        let text = format!("{} after the last flow", count(list.left_over, "line"));
        report.left.push(ImportNote::for_file(&source.name, text));
    }
    if let (Some(source), Some(trace)) = (&sources.trace, trace) {
        let is_on = sources.config.as_ref().is_none_or(|config| config.is_on("ENABLE_TRACE", true));
        match is_on {
            true => {
                let text = format!("the ports of {} are drawn", count(trace.nodes.len(), "node"));
                report.taken.push(ImportNote::for_file(&source.name, text));
            }
            false => report.left.push(ImportNote::for_file(&source.name, "ENABLE_TRACE is 0")),
        }
        if !trace.unknown.is_empty() {
            let unknown: Vec<String> = trace.unknown.iter().take(8).map(u32::to_string).collect();
            let more = trace.unknown.len() - unknown.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            report.left.push(ImportNote::for_file(&source.name, format!("no nodes: {}{more}", unknown.join(", "))));
        }
    }
}

impl Ns3Experiment {
    /// Loss rate of a link's packets, in units of 10^-9.
    fn loss_ppb(&self, link: &Link) -> u64 {
        let of_all = self.config.shares.get("ERROR_RATE_PER_LINK").copied().unwrap_or(0);
        if link.loss_ppb > 0 { link.loss_ppb } else { of_all }
    }

    fn report_links(&self, file: &str, report: &mut ImportReport) {
        let lossy = self.topology.links.iter().filter(|link| self.loss_ppb(link) > 0);
        let (count_lossy, is_rounded) =
            lossy.fold((0, false), |(n, rounded), link| (n + 1, rounded || !self.loss_ppb(link).is_multiple_of(1_000)));
        if count_lossy > 0 {
            let mut text = format!(
                "{} lose data frames, but none of flow control's, which the simulator loses too",
                count(count_lossy, "link")
            );
            if is_rounded {
                text += "; shares are rounded to 0.000001";
            }
            report.approximated.push(ImportNote::for_file(file, text));
        }
        let between = |link: &&Link| link.ends.iter().all(|node| self.topology.is_switch(*node));
        let mut pairs: Vec<[u32; 2]> =
            self.topology.links.iter().filter(between).map(|link| sorted(link.ends)).collect();
        pairs.sort();
        let parallel = pairs.windows(2).filter(|pair| pair[0] == pair[1]).count();
        if parallel > 0 {
            let text = format!(
                "{} parallel to another: all of them carry flows, in the simulator the last one alone",
                count(parallel, "link")
            );
            report.approximated.push(ImportNote::for_file(file, text));
        }
    }

    /// Reports the keys that no other part reports.
    fn report_keys(&self, report: &mut ImportReport) {
        let config = &self.config;
        let line = |key: &str| config.line(key).unwrap_or(1);
        let number = |key: &str| config.numbers.get(key).copied();
        if let Some(mode) = number("LB_MODE").filter(|mode| *mode != 0) {
            let (sort, text) = match config.load_balancing() {
                Some(name) => (&mut report.taken, format!("LB_MODE {mode}: load_balancing = \"{name}\"")),
                None => {
                    (&mut report.approximated, format!("LB_MODE {mode}: Weir balances by flow, with equal-cost paths"))
                }
            };
            sort.push(ImportNote::for_line(&config.file, line("LB_MODE"), text));
        }
        if config.has_irn() {
            let text =
                "ENABLE_IRN 1: selective retransmission, without IRN's limit of a bandwidth-delay product in flight";
            report.approximated.push(ImportNote::for_line(&config.file, line("ENABLE_IRN"), text));
        }
        if self.cuts_times {
            let text = "times of frames are cut to whole nanoseconds, as in the simulator (--ns3-rounding)";
            report.taken.push(ImportNote::general(text));
        }
        if let Some(interval) = number("L2_ACK_INTERVAL") {
            let text =
                format!("L2_ACK_INTERVAL {interval}: each packet is acknowledged, as in the simulator at any value");
            report.taken.push(ImportNote::for_line(&config.file, line("L2_ACK_INTERVAL"), text));
        }
        if config.is_on("L2_BACK_TO_ZERO", false) {
            let text = "L2_BACK_TO_ZERO 1: senders go back N, and not to the beginning of a chunk";
            report.approximated.push(ImportNote::for_line(&config.file, line("L2_BACK_TO_ZERO"), text));
        }
        if self.simulator != Simulator::ConWeave {
            let text = format!(
                "senders retransmit after {} too, and not on a NACK alone: a lost last packet does not hang a flow",
                self.retransmission
            );
            report.approximated.push(ImportNote::general(text));
        }
        match self.acks {
            Some(_) => {
                let text = "acknowledgements wait with the data of their priority group in switches";
                report.taken.push(ImportNote::general(text));
            }
            None => {
                let text =
                    "acknowledgements go first in class 6, through the buffer, which they bypass in the simulator";
                report.approximated.push(ImportNote::general(text));
            }
        }
        if self.acks.is_some() && config.is_on("ACK_HIGH_PRIO", false) {
            let text = "ACK_HIGH_PRIO 1: reaches hosts only, whose acknowledgements no PAUSE stops there";
            report.taken.push(ImportNote::for_line(&config.file, line("ACK_HIGH_PRIO"), text));
        }
        let here: Vec<&str> = config::OTHERS.iter().copied().filter(|key| config.has(key)).collect();
        for (keys, why) in
            [(here, "count for nothing here"), (config.of_output(), "Weir's run directory has its own results")]
        {
            if !keys.is_empty() {
                report.left.push(ImportNote::for_file(&config.file, format!("{}: {why}", keys.join(", "))));
            }
        }
        for key in config.unknown() {
            report.left.push(ImportNote::for_line(&config.file, line(key), format!("{key} is not known")));
        }
    }
}

fn sorted(mut ends: [u32; 2]) -> [u32; 2] {
    ends.sort();
    ends
}
