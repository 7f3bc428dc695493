//! Flow lists and distributions as `[[workloads]]`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use weir_units::{BitRate, Bytes, Span};

use super::Options;
use super::control::CongestionPreset;
use super::flows::{Flow, FlowList};
use super::times::Times;
use super::topology::Topology;
use crate::import::document::decimal_micros;
use crate::import::text::count;
use crate::import::{ImportNote, ImportReport};
use crate::workload::list;

/// Workload, with its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Workload {
    pub name: String,
    pub class: u8,
    /// Destination port of all its flows, if they share one.
    pub dport: Option<u32>,
    /// Rate of its senders' links, if others have another one.
    pub line: Option<BitRate>,
    /// Congestion control for that rate.
    pub control: Option<CongestionPreset>,
    pub traffic: WorkloadTraffic,
    /// Name and text of the file in the scenario's folder.
    pub file: String,
    pub text: String,
}

/// Traffic of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WorkloadTraffic {
    /// Listed messages.
    List,
    /// Messages with sizes of a distribution, and a load in units of 10^-9.
    Drawn(u64),
    /// Random messages between some hosts, or no file.
    Pattern(Pattern),
}

/// Random messages between some hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    /// `poisson`, or `incast`.
    pub kind: &'static str,
    /// Senders and receivers.
    pub hosts: [Vec<String>; 2],
    /// Load in units of 10^-9.
    pub load: u64,
    /// Size of each message; `None` to draw it from the file's distribution.
    pub size: Option<Bytes>,
    /// End: messages start earlier.
    pub until: Span,
    /// TCP transport, and its initial window in segments.
    pub tcp: Option<(&'static str, u64)>,
}

/// Class of generated traffic, as in the simulators' generators.
const CLASS: u8 = 3;
/// Maximum number of destination ports that are taken as kinds of flows.
const KINDS_MAX: usize = 8;

impl Workload {
    pub(super) fn drawn(options: &Options, text: String, load_ppb: u64) -> Workload {
        let file = format!("{}-sizes.txt", options.stem);
        Workload {
            name: "background".to_owned(),
            class: CLASS,
            dport: Some(100),
            line: None,
            control: None,
            traffic: WorkloadTraffic::Drawn(load_ppb),
            file,
            text,
        }
    }
}

/// Flows of a workload: priority group, destination port if ports are kinds, and the senders' rate.
type FlowKind = (u8, Option<u32>, BitRate);

/// Returns a workload for each priority group, kind of flows and rate of senders, without flows that start after the end.
pub(super) fn of_list(
    list: &FlowList,
    topology: &Topology,
    times: &Times,
    options: &Options,
    report: &mut ImportReport,
) -> Vec<Workload> {
    let mut kinds: BTreeMap<(u8, Option<u32>), usize> = BTreeMap::new();
    for flow in &list.flows {
        *kinds.entry((flow.pg, flow.dport)).or_default() += 1;
    }
    let are_kinds = kinds.len() <= KINDS_MAX;
    let rates: BTreeMap<u32, BitRate> =
        topology.links.iter().flat_map(|link| link.ends.map(|node| (node, link.rate))).collect();
    let kind_of = |flow: &Flow| (flow.pg, flow.dport.filter(|_| are_kinds), rates[&flow.from]);
    let mut of_kind: BTreeMap<FlowKind, Vec<&Flow>> = BTreeMap::new();
    let mut late = 0;
    for flow in &list.flows {
        match times.shifted(flow.start) {
            Some(start) if start < times.end => of_kind.entry(kind_of(flow)).or_default().push(flow),
            _ => late += 1,
        }
    }
    if late > 0 {
        report.left.push(ImportNote::general(format!("{} that would start after the end", count(late, "flow"))));
    }
    let has_several_pgs = of_kind.keys().any(|(pg, ..)| Some(pg) != of_kind.keys().next().map(|(pg, ..)| pg));
    // The parameters of a congestion control are for one rate.
    let has_several_rates = of_kind.keys().any(|(.., rate)| Some(rate) != of_kind.keys().next().map(|(.., rate)| rate));
    let several = of_kind.keys().map(|(pg, dport, _)| (pg, dport)).collect::<BTreeSet<_>>().len() > 1;
    let workload = |((pg, dport, rate), flows): (FlowKind, Vec<&Flow>)| {
        let kind = match dport {
            Some(100) if several => "background".to_owned(),
            Some(200) if several => "incast".to_owned(),
            Some(dport) if several => format!("dport-{dport}"),
            _ => "flows".to_owned(),
        };
        let kind = if has_several_pgs { format!("{kind}-pg{pg}") } else { kind };
        let name = if has_several_rates { format!("{kind}-{rate}") } else { kind };
        report.taken.push(ImportNote::general(format!("{}: workload {name}, class {pg}", count(flows.len(), "flow"))));
        let file = format!("{}-{name}.csv", options.stem);
        Workload {
            name,
            class: pg,
            dport,
            line: Some(rate).filter(|_| has_several_rates),
            control: None,
            traffic: WorkloadTraffic::List,
            file,
            text: csv(&flows, topology, times),
        }
    };
    of_kind.into_iter().map(workload).collect()
}

fn csv(flows: &[&Flow], topology: &Topology, times: &Times) -> String {
    let mut text = format!("{}\n", list::HEADER);
    for flow in flows {
        let start = decimal_micros(flow.start.saturating_sub(times.shift));
        let [from, to] = [flow.from, flow.to].map(|host| topology.host_name(host));
        writeln!(text, "{start},{from},{to},{}", flow.size.get()).expect("a String accepts all writes");
    }
    text
}
