//! Text of the scenario file.

use std::collections::BTreeMap;

use weir_units::Bytes;
use weir_units::Span;

use super::control::CongestionPreset;
use super::inet_tub;
use super::switches::Ecn;
use super::times::Times;
use super::topology::{Link, Topology};
use super::workloads::WorkloadTraffic;
use super::{Ns3Experiment, Simulator, Sources, sorted};
use crate::import::document::{Document, array, exact_rate, exact_size, exact_span, quoted, share};
use crate::import::{ImportNote, ImportReport};

/// Instant of the simulation from which LINK_DOWN's times count.
const LINK_DOWN_BASE: Span = Span::from_secs(2);

/// Writes the scenario's text, and reports settings that it can't express.
pub(super) fn scenario(experiment: &Ns3Experiment, sources: &Sources, report: &mut ImportReport) -> String {
    let names = Names::new(&experiment.topology);
    let outage = outage(experiment, &names, report);
    let mut document = Document::default();
    introduce(&mut document, sources, &experiment.times, report);
    head(&mut document, experiment, &names, outage.is_some());
    switch(&mut document, experiment);
    for (number, switch) in experiment.topology.switches.iter().enumerate() {
        document.table("[[switches]]");
        document.word("name", format!("S{switch}"));
        if let Some(size) = experiment.switches.size_of(number) {
            document.word("buffer_size", exact_size(size));
        }
    }
    for (number, link) in experiment.topology.links.iter().enumerate() {
        wire(&mut document, experiment, number, link, &names);
    }
    for workload in &experiment.workloads {
        document.table("[[workloads]]");
        document.word("name", &workload.name);
        match &workload.traffic {
            WorkloadTraffic::List => {
                document.word("kind", "list");
                document.word("file", &workload.file);
            }
            WorkloadTraffic::Pattern(_) => {}
            WorkloadTraffic::Drawn(load) => {
                document.word("kind", "poisson");
                document.bare("sizes", format!("{{ file = {} }}", quoted(&workload.file)));
                document.bare("load", share(*load));
            }
        }
        if let WorkloadTraffic::Pattern(pattern) = &workload.traffic {
            let [senders, receivers] = &pattern.hosts;
            document.word("kind", pattern.kind);
            document.bare("senders", array(senders));
            document.bare("receivers", array(receivers));
            match pattern.size {
                Some(size) => document.word("sizes", exact_size(size)),
                None => document.bare("sizes", format!("{{ file = {} }}", quoted(&workload.file))),
            }
            document.bare("load", share(pattern.load));
            document.word("until", exact_span(pattern.until));
            if let Some((transport, window)) = pattern.tcp {
                document.bare("class", workload.class);
                document.word("transport", transport);
                document.bare("tcp", format!("{{ initial_window = {window} }}"));
                continue;
            }
        }
        document.bare("class", workload.class);
        if let Some(dport) = workload.dport.filter(|dport| (1..=65_535).contains(dport)) {
            document.bare("dport", dport);
        }
        let control = workload.control.as_ref().unwrap_or(&experiment.control);
        document.word("congestion_control", &control.preset);
        if workload.control.is_some() {
            congestion_control(&mut document, "workloads", control);
        }
    }
    if let Some((link, at)) = outage {
        document.table("[[outages]]");
        document.bare("link", array(link));
        document.word("at", exact_span(at));
    }
    document.into_text()
}

/// Writes the introduction: the sources, and the differences from them.
fn introduce(document: &mut Document, sources: &Sources, times: &Times, report: &ImportReport) {
    let config = sources.config.as_ref().map(|config| &config.file);
    let others = [Some(&sources.topology), sources.flows.as_ref(), sources.trace.as_ref(), sources.sizes.as_ref()];
    let files: Vec<&str> =
        config.into_iter().chain(others.into_iter().flatten().map(|source| &source.name)).map(String::as_str).collect();
    document.comment(&format!("Made by `weir import ns3` from {}.", files.join(", ")));
    if times.shift > Span::ZERO {
        document.comment(&format!("Instants are {} earlier than there.", exact_span(times.shift)));
    }
    document.notes(report);
}

fn head(document: &mut Document, experiment: &Ns3Experiment, names: &Names, has_outage: bool) {
    let (config, times) = (&experiment.config, &experiment.times);
    document.table("[scenario]");
    document.word("end", exact_span(times.end));
    if let Some(every) = times.sample_every {
        document.word("sample_every", exact_span(every));
    }
    if let Some(warm_up) = times.warm_up {
        document.word("warm_up", exact_span(warm_up));
    }
    document.word("forwarding", "ecmp");
    if has_outage {
        // In that simulator all switches have new tables at the instant of the failure.
        document.word("routing_delay", "0s");
    }
    document.word("link_overhead", "0B");
    if experiment.cuts_times {
        // inet-tub's simulator divides integers.
        document.word("frame_times", if experiment.simulator == Simulator::InetTub { "whole-ns" } else { "ns3" });
    }
    if let Some(policy) = experiment.switches.policy.as_ref().filter(|_| !experiment.tcp.is_empty()) {
        document.bare("unbuffered_classes", format!("[{}]", inet_tub::TCP_ACK_CLASS));
        if policy.has_unscheduled {
            document.bare("unscheduled_alpha", inet_tub::UNSCHEDULED_ALPHA);
        }
    }
    if let Some(seed) = config.numbers.get("RANDOM_SEED") {
        document.bare("seed", seed);
    }
    if !experiment.trace.is_empty() && config.is_on("ENABLE_TRACE", true) {
        document.bare("plot_ports", array(names.ports_of(&experiment.trace, &experiment.topology)));
    }
    document.table("[nic]");
    document.word("frames", "ns3-stamped");
    document.bare("mtu", experiment.payload);
    document.bare("ack_every", 1);
    if let Some(acks) = experiment.acks {
        document.word("ack_class", acks);
    }
    if experiment.switches.policy.is_some() {
        document.word("round_robin", "classes");
        document.word("tcp_queueing", "queued");
    }
    document.word("retransmit", exact_span(experiment.retransmission));
    if experiment.config.has_irn() {
        document.word("loss_recovery", "selective");
        document.bare("reordering", 1);
    }
    if experiment.workloads.iter().all(|workload| workload.control.is_none()) {
        congestion_control(document, "nic", &experiment.control);
    }
    for (table, keys) in &experiment.tcp {
        document.table(table);
        keys.iter().for_each(|(key, value)| document.bare(key, value));
    }
}

/// Writes the parameters of a congestion control in a table of this one.
fn congestion_control(document: &mut Document, table: &str, control: &CongestionPreset) {
    if !control.keys.is_empty() {
        document.table(&format!("[{table}.{}]", control.kind));
        control.keys.iter().for_each(|(key, value)| document.bare(key, value));
    }
}

fn switch(document: &mut Document, experiment: &Ns3Experiment) {
    let switches = &experiment.switches;
    document.table("[switch]");
    document.bare("mtu", switches.mtu);
    if let Some(name) = experiment.config.load_balancing() {
        document.word("load_balancing", name);
    }
    document.table("[switch.buffer]");
    document.word("size", exact_size(switches.size));
    document.word("private", exact_size(switches.private));
    document.word("headroom", exact_size(switches.headroom));
    document.word("xon_offset", exact_size(switches.xon_offset));
    match &switches.policy {
        Some(policy) => {
            document.bare("lossy_alpha", quoted(&policy.lossy_alpha));
            document.word("policy", policy.name);
            document.table(&format!("[switch.buffer.{}]", policy.name));
            policy.keys.iter().for_each(|(key, value)| document.bare(key, value));
        }
        None => {
            document.word("policy", "dt");
            document.table("[switch.buffer.dt]");
            document.word("alpha", switches.alpha);
            for (rate, alpha) in &switches.alphas {
                document.table("[[switch.buffer.rates]]");
                document.word("rate", exact_rate(*rate));
                document.word("alpha", alpha);
            }
        }
    }
    document.table("[switch.classes]");
    document.word("preset", "roce");
    if switches.policy.is_some() || experiment.classes.len() > 1 {
        document.word("scheduler", "packet-rr");
    }
    let lossless: Vec<String> = experiment.classes.iter().filter(|_| switches.has_pfc).map(u8::to_string).collect();
    document.bare("lossless", format!("[{}]", lossless.join(", ")));
    // The preset has code points for class 3; others have 8 times the class.
    // TCP's data is lossy.
    let tcp = Some(inet_tub::TCP_CLASS).filter(|_| !experiment.tcp.is_empty());
    let carried = || experiment.classes.iter().copied().chain(tcp);
    let mut points: Vec<(u8, u8)> = carried().filter(|class| *class != 3).map(|class| (class * 8, class)).collect();
    points.sort();
    if !points.is_empty() {
        document.table("[switch.classes.dscp]");
        points.iter().for_each(|(point, class)| document.bare(&point.to_string(), class));
    }
    if let Some(Ecn { kmin, kmax, pmax_ppb, at_rate }) = switches.ecn {
        let least = Bytes::new(1);
        let [kmin, kmax] = [kmin, kmax].map(|size| quoted(exact_size(size.max(least))));
        for class in carried().filter(|class| *class != inet_tub::TCP_ACK_CLASS) {
            document.table("[[switch.classes.queues]]");
            document.bare("class", class);
            let at_rate = at_rate.map_or(String::new(), |rate| format!(", at_rate = {}", quoted(exact_rate(rate))));
            let pmax = share(pmax_ppb);
            document.bare("ecn", format!("{{ kmin = {kmin}, kmax = {kmax}, pmax = {pmax}{at_rate} }}"));
        }
    }
    if switches.policy.is_some() {
        document.table("[[switch.classes.queues]]");
        document.bare("class", inet_tub::TCP_ACK_CLASS);
        document.bare("strict", true);
    }
    document.table("[switch.pfc]");
    document.word("reaction", "0s");
    if !switches.has_pfc {
        document.table("[switch.port]");
        document.word("flow_control", "none");
    }
}

/// Writes a link between switches, or a host.
fn wire(document: &mut Document, experiment: &Ns3Experiment, number: usize, link: &Link, names: &Names) {
    let topology = &experiment.topology;
    let host = link.ends.into_iter().find(|node| !topology.is_switch(*node));
    let (table, toward) = match host {
        Some(nic) if topology.host_of_nic(nic) != nic => return,
        Some(host) => {
            document.table("[[hosts]]");
            let name = topology.host_name(host);
            document.word("name", &name);
            ("hosts", [name, names.write_ports(host, topology, document)])
        }
        None => {
            let ends = names.link_ends(number, link);
            document.table("[[links]]");
            document.bare("ends", array(&ends));
            ("links", ends)
        }
    };
    document.word("rate", exact_rate(link.rate));
    document.word("delay", exact_span(link.delay));
    if let Some(headroom) = experiment.switches.headroom_of(link) {
        document.word("headroom", exact_size(headroom));
    }
    let loss = experiment.loss_ppb(link);
    for end in toward.iter().filter(|_| loss > 0) {
        document.table(&format!("[[{table}.faults]]"));
        document.word("toward", end);
        document.word("frames", "data");
        document.bare("loss", share(loss));
    }
}

/// Returns the link of LINK_DOWN by its ends, and the instant of its cut.
fn outage(experiment: &Ns3Experiment, names: &Names, report: &mut ImportReport) -> Option<([String; 2], Span)> {
    let config = &experiment.config;
    let (after, [one, other]) = config.link_down?;
    let at = |text: String| ImportNote::for_line(&config.file, config.line("LINK_DOWN").unwrap_or(1), text);
    let links = experiment.topology.links.iter().enumerate();
    let mut joining = links
        .filter(|(_, link)| {
            sorted(link.ends.map(|node| experiment.topology.node_of_file(node))) == sorted([one, other])
        })
        .collect::<Vec<_>>();
    let Some((number, link)) = joining.pop() else {
        report.left.push(at(format!("LINK_DOWN: no link joins {one} and {other}")));
        return None;
    };
    let Some(when) = experiment.times.shifted(LINK_DOWN_BASE + after).filter(|when| *when < experiment.times.end)
    else {
        report.left.push(at("LINK_DOWN: that is before the scenario begins or after it ends".to_owned()));
        return None;
    };
    let is_host = |node: &u32| !experiment.topology.is_switch(*node);
    let ends = match joining.is_empty() || link.ends.iter().any(is_host) {
        true => {
            let name = |node: u32| match is_host(&node) {
                true => experiment.topology.host_name(experiment.topology.host_of_nic(node)),
                false => format!("S{node}"),
            };
            link.ends.map(name)
        }
        // The last one of parallel links.
        false => names.link_ends(number, link),
    };
    report.taken.push(at(format!("LINK_DOWN: {} and {} are parted at {}", ends[0], ends[1], exact_span(when))));
    let text =
        "LINK_DOWN: frames queued for the link are lost; in the simulator they keep their buffer, and flows may hang";
    report.approximated.push(at(text.to_owned()));
    Some((ends, when))
}

/// Names of ports: `S320.to-S321`, with a number for parallel links; `S320.H0`.
pub(in crate::import) struct Names {
    /// Number of each parallel link, by link index.
    parallel: BTreeMap<usize, usize>,
    /// Index of the link of each NIC.
    links_of_nics: BTreeMap<u32, usize>,
}

impl Names {
    pub(in crate::import) fn new(topology: &Topology) -> Names {
        let mut bundles: BTreeMap<[u32; 2], Vec<usize>> = BTreeMap::new();
        for (number, link) in topology.links.iter().enumerate() {
            bundles.entry(sorted(link.ends)).or_default().push(number);
        }
        let several = bundles.into_values().filter(|bundle| bundle.len() > 1);
        let numbered = several.flat_map(|bundle| bundle.into_iter().enumerate().map(|(n, link)| (link, n)));
        let of_link = |(number, link): (usize, &Link)| link.ends.map(|node| (node, number));
        let ends = topology.links.iter().enumerate().flat_map(of_link);
        let links_of_nics = ends.filter(|(node, _)| !topology.is_switch(*node)).collect();
        Names { parallel: numbered.collect(), links_of_nics }
    }

    /// Returns the ports at both ends of a link between switches.
    pub(in crate::import) fn link_ends(&self, number: usize, link: &Link) -> [String; 2] {
        let [one, other] = link.ends;
        let suffix = self.parallel.get(&number).map_or(String::new(), |n| format!(".{n}"));
        [format!("S{one}.to-S{other}{suffix}"), format!("S{other}.to-S{one}{suffix}")]
    }

    /// Returns the switch's port of a host.
    fn host_port(&self, host: u32, link: &Link, topology: &Topology) -> String {
        let switch = if link.ends[0] == host { link.ends[1] } else { link.ends[0] };
        format!("S{switch}.{}", topology.host_name(host))
    }

    /// Writes the switches' ports of a host; returns the first one.
    pub(in crate::import) fn write_ports(&self, host: u32, topology: &Topology, document: &mut Document) -> String {
        let port = |nic: u32| self.host_port(nic, &topology.links[self.links_of_nics[&nic]], topology);
        let mut ports: Vec<String> = topology.ports_of(host).into_iter().map(port).collect();
        match &ports[..] {
            [port] => document.word("port", port),
            several => document.bare("ports", array(several)),
        }
        ports.swap_remove(0)
    }

    /// Returns the switch ports at these nodes, each once: all of a switch, and the one of a host.
    pub(in crate::import) fn ports_of(&self, nodes: &[u32], topology: &Topology) -> Vec<String> {
        let mut ports = Vec::new();
        for (number, link) in topology.links.iter().enumerate() {
            match link.ends.iter().find(|node| !topology.is_switch(**node)) {
                Some(host) if link.ends.iter().any(|node| nodes.contains(node)) => {
                    ports.push(self.host_port(*host, link, topology))
                }
                Some(_) => {}
                None => {
                    let ends = self.link_ends(number, link);
                    let at_node = ends.into_iter().zip(link.ends).filter(|(_, node)| nodes.contains(node));
                    ports.extend(at_node.map(|(port, _)| port));
                }
            }
        }
        ports
    }
}
