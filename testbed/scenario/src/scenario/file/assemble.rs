//! Assembly of a run's scenario from the file's plan.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use weir_config::{ClassMap, ConfigErrors, Device, PortConfig, SwitchConfig, Trust};
use weir_nic::host::{AckClass, CongestionControlChoice, FlowConfig, FrameSizes, HostConfig, RdmaOperation, Transport};
use weir_nic::parameters::Network;
use weir_nic::tcp::AckPoint;
use weir_reader::Problem;
use weir_switch_core::flow_control::{self, port_flow_control};
use weir_units::{Class, Span};
use weir_wire::rocev2::{Dscp, QueuePair};

use super::build::Build;
use super::compose::mac_of_host;
use super::control::ControlChoice;
use super::llr::LlrLink;
use super::lossless_paths::{self, PathFrames};
use super::nic::TransportConfig;
use super::notes;
use super::plan::{RunContext, ScenarioPlan};
use super::receive_limits;
use super::routing::{self, Routing, StaticRouting};
use super::run_changes;
use super::run_diagnostics::RunDiagnostics;
use super::switches::Switches;
use super::topology::HostPart;
use super::traffic::FlowPart;
use super::workloads::WorkloadKind;
use crate::link::LlrPlan;
use crate::scenario::{
    CapturePlan, FlowPlan, HostPlan, HostPorts, LinkPlan, PortRef, RealPlan, RealPorts, Scenario, TrafficPlan,
    TrafficSource,
};
use crate::topology::Routes;

/// DSCP of acknowledgements and congestion notifications.
const ACK_DSCP: Dscp = Dscp::new(48);
/// An Ethernet header, which the switch's MTU does not count.
const ETHERNET_BYTES: u64 = 14;
/// Maximum number of plots of a fabric, which may have a thousand hosts.
const DRAWN_OF_FABRICS: usize = 8;

/// Builds the scenario of a run; errors go to `diagnostics`.
pub(super) fn scenario<'p>(
    plan: &'p ScenarioPlan,
    run: usize,
    context: RunContext<'p>,
    diagnostics: &mut RunDiagnostics,
) -> Option<Scenario> {
    let before = diagnostics.len();
    let switches = Switches::read(plan, run, context, &[], diagnostics)?;
    let build = Build { plan, run, context, switches };
    build.check_flow_control(diagnostics);
    if !plan.topology.is_fabric {
        build.check_devices(diagnostics);
    }
    let mut hosts = build.hosts(diagnostics);
    // A missing host would shift the indices of the others.
    let all_there = hosts.len() == plan.topology.hosts.len();
    let notes = if all_there { receive_limits::slow_down(&build, &mut hosts, diagnostics) } else { Vec::new() };
    let routing = if all_there { build.routing(&hosts, diagnostics) } else { None };
    let carried = build.carried(&hosts, routing.as_ref(), diagnostics);
    build.check_digests(&carried, diagnostics);
    if diagnostics.len() == before
        && let Some(routing) = &routing
    {
        build.check_paths(&carried, routing, &mut hosts, diagnostics);
    }
    let changes = match diagnostics.len() == before {
        true => run_changes::of_run(plan, run, context, &build.switches, diagnostics),
        false => Vec::new(),
    };
    (diagnostics.len() == before).then(|| Scenario { changes, ..build.scenario(hosts, carried, routing, notes) })
}

#[derive(Default)]
struct FlowsAndTraffic {
    flows: Vec<FlowPlan>,
    traffic: Vec<TrafficPlan>,
}

impl<'p> Build<'p> {
    /// Checks thresholds against their theorems, queues against the buffer, and flow control at both ends of links.
    fn check_flow_control(&self, diagnostics: &mut RunDiagnostics) {
        for (switch, config) in self.switches.distinct() {
            if let Err(errors) = flow_control::check(config) {
                self.refuse_of_switch(switch, errors, diagnostics);
            }
        }
        for link in &self.plan.topology.links {
            let ports = link.ends.each_ref().map(|end| {
                let place = self.place(end);
                (self.config(place.switch), place.port)
            });
            let kinds = ports.map(|(config, port)| config.ports[port].flow_control.label());
            let ends = link.ends.each_ref().map(|end| self.plan.topology.shown(end));
            let refusal = match kinds[0] == kinds[1] {
                true => flow_control::difference(ports, ends.each_ref().map(String::as_str)),
                false => {
                    let message = format!("{} speaks {}, but {} speaks {}", ends[0], kinds[0], ends[1], kinds[1]);
                    Some((message, "give both ports of a link the same flow_control".to_owned()))
                }
            };
            if let Some((message, help)) = refusal {
                let link = format!("links[{}].ends", link.number);
                let problem =
                    Problem::new(message, help).with_label(link, "").with_label("switch.port.flow_control", "");
                diagnostics.add(self.run, None, ConfigErrors::from(self.plan.source.error(problem)));
                // All links of a fabric would have the same error.
                break;
            }
        }
    }

    /// Checks that no two ports or hosts share a device.
    fn check_devices(&self, diagnostics: &mut RunDiagnostics) {
        let mut seen: Vec<(&Device, Option<(usize, usize)>)> = Vec::new();
        let of_switches = self.switches.configs.iter().enumerate().flat_map(|(switch, config)| {
            let devices = config.ports.iter().map(|port| &port.device).enumerate();
            devices.map(move |(port, device)| (device, Some((switch, port)), 0))
        });
        let of_hosts =
            self.plan.topology.hosts.iter().filter_map(|host| Some((host.device.as_ref()?, None, host.number)));
        for (device, of_port, host) in of_switches.chain(of_hosts) {
            // A device shared by two ports of one file is reported with that file.
            let is_reported = |other: &Option<(usize, usize)>| matches!((of_port, other), (Some((switch, _)), Some((other, _))) if switch == *other);
            if seen.iter().any(|(other, at)| device.shares_with(other) && !is_reported(at)) {
                let message = format!("{device} is used twice");
                let help = "give each port and host its own device";
                match of_port {
                    Some((switch, port)) => {
                        let key = format!("ports[{port}].{}", device.key());
                        let errors = self.config(switch).error_at(&key, message, help);
                        self.refuse_of_switch(switch, errors, diagnostics);
                    }
                    None => self.refuse(&format!("hosts[{host}].device"), message, help, diagnostics),
                }
            }
            seen.push((device, of_port));
        }
    }

    fn hosts(&self, diagnostics: &mut RunDiagnostics) -> Vec<HostPlan> {
        self.check_llr(diagnostics);
        let hosts = self.plan.topology.hosts.iter().enumerate();
        hosts.filter_map(|(number, host)| self.host(number, host, diagnostics)).collect()
    }

    fn host(&self, number: usize, host: &HostPart, diagnostics: &mut RunDiagnostics) -> Option<HostPlan> {
        let place = self.place(&host.port);
        let config = self.config(place.switch);
        let port = &config.ports[place.port];
        let Some(rate) = port.rate else {
            let message = format!("host {} has no `rate`", host.name);
            let help = "write rate = \"10Gbps\" in [[hosts]] or [switch.port]";
            self.refuse(&format!("hosts[{}].rate", host.number), message, help, diagnostics);
            return None;
        };
        if number == 0 || !self.plan.topology.is_fabric {
            self.check_mtu(host, config, diagnostics);
        }
        // Violated theorems are reported with the switch.
        let flow_control = port_flow_control(config, place.port, rate).ok()?.for_host();
        let map = config.class_map(place.port);
        let group_of_dscp = map.group_of_dscp();
        let link_delay = if host.device.is_none() { port.delay } else { Span::ZERO };
        let llr = self.llr(host.has_llr, [place; 2]);
        Some(HostPlan {
            name: host.name.clone(),
            switch: place.switch,
            port: place.port,
            first_port: host.first_port,
            device: host.device.clone(),
            link_delay,
            faults: host.faults,
            llr,
            nic: HostConfig {
                mac: mac_of_host(number),
                // 10.0.0.1 and on.
                ip: Ipv4Addr::from(0x0a00_0001 + number as u32),
                rate,
                link_overhead: self.plan.link_overhead,
                frame_times: self.plan.frame_times,
                sizes: self.plan.nic.sizes(host.mtu),
                ack_dscp: ACK_DSCP,
                ack_class: Class::new(group_of_dscp[usize::from(ACK_DSCP.get())]),
                acks: self.plan.nic.acks,
                round_robin: self.plan.nic.turns,
                queues_tcp: self.plan.nic.queues_tcp,
                slack: Span::ZERO,
                flow_control,
                lossless: config.classes.lossless,
                group_of_dscp,
                queue_of_dscp: map.queue_of_dscp(),
                receive: None,
            },
        })
    }

    /// Refuses a replay buffer that is too small for a link, and a replay timer that is too short.
    fn check_llr(&self, diagnostics: &mut RunDiagnostics) {
        let topology = &self.plan.topology;
        let hosts = topology.hosts.iter().filter(|host| host.has_llr).map(|host| [&host.port; 2]);
        let links = topology.links.iter().filter(|link| link.has_llr).map(|link| link.ends.each_ref());
        let all = hosts.chain(links).filter_map(|ends| self.llr_link(ends.map(|end| self.place(end))));
        let all: Vec<LlrLink> = all.collect();
        let longest = all.iter().map(|link| link.frame_bytes_max).max();
        if let Some(longest) = longest.filter(|longest| !self.plan.llr.holds(*longest)) {
            let message = format!("a replay buffer holds the longest frame, {longest}B");
            let help = format!("write outstanding_bytes = \"{longest}B\" or more, or a smaller `mtu` in [switch]");
            self.refuse("llr.outstanding_bytes", message, help, diagnostics);
        }
        let slowest = all.iter().max_by_key(|link| link.acknowledgement_time());
        if let Some(slowest) = slowest.filter(|slowest| !self.plan.llr.waits_for(**slowest)) {
            let least = slowest.acknowledgement_time();
            let message = format!(
                "an acknowledgement may take {least} on a link of {} and {}: frames that arrived would be sent again",
                slowest.rates[0], slowest.delay
            );
            let help =
                format!("write replay_timer = \"{}ns\" or more, or take it out", least.as_picos().div_ceil(1_000));
            self.refuse("llr.replay_timer", message, help, diagnostics);
        }
    }

    /// Returns the longest frame of a switch, without FCS.
    fn frame_bytes_max(&self, switch: usize) -> u32 {
        (self.config(switch).mtu.get() + ETHERNET_BYTES) as u32
    }

    /// Returns the emulated link between two ports, or between a port and its host, for link layer retry; `None` without a rate.
    fn llr_link(&self, ends: [PortRef; 2]) -> Option<LlrLink> {
        let [one, other] = ends.map(|end| &self.config(end.switch).ports[end.port]);
        let [first, second] = ends.map(|end| self.frame_bytes_max(end.switch));
        let frame_bytes_max = first.max(second);
        let (rates, delay) = ([one.rate?, other.rate?], one.delay.max(other.delay));
        Some(LlrLink { rates, delay, frame_bytes_max, overhead: self.plan.link_overhead })
    }

    /// Returns the link layer retry of a link; `None` without it.
    fn llr(&self, has_llr: bool, ends: [PortRef; 2]) -> Option<LlrPlan> {
        Some(self.plan.llr.plan(self.llr_link(ends).filter(|_| has_llr)?))
    }

    fn check_mtu(&self, host: &HostPart, config: &SwitchConfig, diagnostics: &mut RunDiagnostics) {
        let sizes = self.plan.nic.sizes(host.mtu).with_telemetry(self.plan.stamps());
        let payload = |sizes: &FrameSizes| sizes.frame_max() as u64 - ETHERNET_BYTES;
        let (all, mtu) = (payload(&sizes), host.mtu);
        if all > config.mtu.get() {
            let (name, of_switch) = (&host.name, config.mtu.get());
            let with = if sizes == self.plan.nic.sizes(mtu) { "headers" } else { "headers and telemetry trailer" };
            let message = format!(
                "frames of host {name} carry {all} B with the {with} of a path MTU of {mtu} B, but the switch's `mtu` is {of_switch}"
            );
            let help = format!("write mtu = {all} or more in [switch], or a smaller mtu in [[hosts]] or [nic]");
            let own = format!("hosts[{}].mtu", host.number);
            let is_nics = !host.has_own_mtu && self.plan.source.line_of("nic").is_some();
            let key = if is_nics || self.plan.topology.is_fabric { "nic.mtu" } else { &own };
            self.refuse(key, message, help, diagnostics);
        }
    }

    /// Returns the forwarding of the switches; `None` after errors.
    fn routing(&self, hosts: &[HostPlan], diagnostics: &mut RunDiagnostics) -> Option<Routing<'p>> {
        if let Some(forwarding) = &self.plan.forwarding {
            return Some(Routing::Static(StaticRouting::new(self, forwarding)));
        }
        let routes = Arc::new(Routes::partial(&routing::fabric(self)));
        self.check_joined(&routes, hosts, diagnostics).then_some(Routing::Routes(routes))
    }

    /// Checks that a path joins the hosts of each flow, and those that each workload may pair.
    fn check_joined(&self, routes: &Routes, hosts: &[HostPlan], diagnostics: &mut RunDiagnostics) -> bool {
        let mut are_joined = true;
        let ports = HostPorts::new(hosts, None, 0);
        let parts: Vec<Vec<usize>> = (0..hosts.len() as u32)
            .map(|host| {
                let mut parts: Vec<usize> = ports.ports(host).map(|port| routes.part(port as usize)).collect();
                parts.sort();
                parts.dedup();
                parts
            })
            .collect();
        let are_reached = |from: usize, to: usize| parts[from].iter().any(|part| parts[to].contains(part));
        let mut refuse = |key: String, (from, to): (usize, usize), traffic: String| {
            are_joined = false;
            let [from, to] = [from, to].map(|host| &self.plan.topology.hosts[host].name);
            let message = format!("no path joins {from} and {to}, between which {traffic}");
            self.refuse(&key, message, "bring a link up, join their switches, or name other hosts", diagnostics);
        };
        for flow in self.plan.flows.iter().filter(|flow| !are_reached(flow.from, flow.to)) {
            refuse(format!("flows[{}].to", flow.number), (flow.from, flow.to), format!("flow {} goes", flow.name));
        }
        for workload in &self.plan.workloads {
            let servers = self.plan.topology.servers.filter(|_| matches!(*workload.kind, WorkloadKind::Graph(_)));
            let reaches = |from: u32, to: u32| {
                let [from, to] = [from, to].map(|host| host as usize);
                let in_server = servers.is_some_and(|plan| plan.number_in_server(from, to).is_some());
                in_server || are_reached(from, to)
            };
            if let Some((from, to)) = workload.kind.apart(reaches, |host| &parts[host as usize]) {
                let (key, does) = match &*workload.kind {
                    WorkloadKind::List(_) => ("file", "has a message"),
                    _ => ("kind", "may send"),
                };
                let traffic = format!("workload {} {does}", workload.name);
                refuse(format!("workloads[{}].{key}", workload.number), (from as usize, to as usize), traffic);
            }
        }
        are_joined
    }

    /// Builds the flows, and the traffic without its messages; leaves out those with errors.
    fn carried(
        &self,
        hosts: &[HostPlan],
        routing: Option<&Routing<'_>>,
        diagnostics: &mut RunDiagnostics,
    ) -> FlowsAndTraffic {
        let plan = self.plan;
        if plan.flows.is_empty() && plan.workloads.is_empty() || !self.trusts_dscp(diagnostics) {
            return FlowsAndTraffic::default();
        }
        let mut point = |key: String, class: Class, senders: &BTreeSet<u32>, transport: &TransportConfig| {
            self.check_tcp(transport, &key, diagnostics);
            self.dscp(class, senders, ClassUse::Data, &format!("{key}.class"), diagnostics)
        };
        let of_flows = plan.flows.iter().map(|flow| {
            let key = format!("flows[{}]", flow.number);
            point(key, flow.class, &BTreeSet::from([flow.from as u32]), &flow.transport)
        });
        let of_flows: Vec<Option<Dscp>> = of_flows.collect();
        let of_workloads = plan.workloads.iter().map(|workload| {
            let key = format!("workloads[{}]", workload.number);
            let classes = std::iter::once(workload.class).chain(workload.more_classes.iter());
            let senders = workload.kind.senders();
            classes.map(|class| Some((class, point(key.clone(), class, &senders, &workload.transport)?))).collect()
        });
        let of_workloads: Vec<Option<Vec<(Class, Dscp)>>> = of_workloads.collect();
        let Some(routing) = routing else { return FlowsAndTraffic::default() };
        let base_rtt = match plan.transports().any(|transport| !transport.control.is_none()) {
            true => routing.base_rtt(hosts, plan.link_overhead.get() as u32, plan.stamps()),
            false => Span::ZERO,
        };
        let ports = HostPorts::new(hosts, routing.routes(), plan.ecmp_seed);
        let mut carried = FlowsAndTraffic::default();
        for (flow, dscp) in plan.flows.iter().zip(of_flows) {
            carried
                .flows
                .extend(dscp.and_then(|dscp| self.flow_plan(flow, dscp, (hosts, &ports), base_rtt, diagnostics)));
        }
        for (number, points) in of_workloads.into_iter().enumerate() {
            let plan = points.and_then(|points| self.traffic_plan(number, &points, hosts, base_rtt, diagnostics));
            carried.traffic.extend(plan);
        }
        carried
    }

    /// Checks that lossless frames leave switches by queues that their neighbours pause, and sets the priorities by which hosts pause frames.
    fn check_paths(
        &self,
        carried: &FlowsAndTraffic,
        routing: &Routing<'_>,
        hosts: &mut [HostPlan],
        diagnostics: &mut RunDiagnostics,
    ) {
        let mut dscps = BTreeSet::new();
        let of_flows = carried.flows.iter().map(|flow| (flow.config.dscp, &flow.config.transport));
        let of_traffic = carried
            .traffic
            .iter()
            .flat_map(|traffic| traffic.points.iter().map(|(_, dscp)| (*dscp, &traffic.transport)));
        for (dscp, transport) in of_flows.chain(of_traffic) {
            dscps.insert(dscp);
            dscps.extend(self.answer_dscps(dscp, transport));
        }
        if lossless_paths::have_one_number(self, &dscps) {
            return;
        }
        let mut frames = BTreeSet::new();
        let mut add = |from: usize, to: usize, dscp: Dscp, transport: &Transport| {
            frames.insert(PathFrames { from, to, dscp });
            frames.extend(self.answer_dscps(dscp, transport).map(|dscp| PathFrames { from: to, to: from, dscp }));
        };
        for flow in &carried.flows {
            add(flow.from, flow.to, flow.config.dscp, &flow.config.transport);
        }
        let ports = HostPorts::new(hosts, routing.routes(), self.plan.ecmp_seed);
        for (workload, traffic) in self.plan.workloads.iter().zip(&carried.traffic) {
            workload.kind.for_each_pair(|from, to| {
                let pairs = ports.ports(from).flat_map(|from| ports.ports(to).map(move |to| (from, to)));
                for ((from, to), (_, dscp)) in
                    pairs.flat_map(|pair| traffic.points.iter().map(move |point| (pair, point)))
                {
                    add(from as usize, to as usize, *dscp, &traffic.transport);
                }
            });
        }
        lossless_paths::follow(self, routing, frames, hosts, diagnostics);
    }

    /// Returns the DSCPs of a receiver's acknowledgements and notifications for data of a DSCP.
    fn answer_dscps(&self, data: Dscp, transport: &Transport) -> impl Iterator<Item = Dscp> + use<> {
        let (own, with_data) = match transport {
            Transport::Rdma => (Some(ACK_DSCP), self.plan.nic.acks != AckClass::Own),
            Transport::Tcp(tcp) => (tcp.acks.map(|acks| acks.dscp), tcp.acks.is_none()),
        };
        own.into_iter().chain(with_data.then_some(data))
    }

    /// Checks that one digest configuration suits all flows.
    fn check_digests(&self, carried: &FlowsAndTraffic, diagnostics: &mut RunDiagnostics) {
        let flows = self.plan.flows.iter().zip(&carried.flows);
        let of_flows = flows.map(|(flow, plan)| (format!("flows[{}]", flow.number), &plan.config.congestion_control));
        let workloads = self.plan.workloads.iter().zip(&carried.traffic);
        let of_workloads =
            workloads.map(|(workload, plan)| (format!("workloads[{}]", workload.number), &plan.congestion_control));
        let mut all = of_flows.chain(of_workloads).filter_map(|(key, control)| Some((key, control.feedback().digest?)));
        let Some((_, first)) = all.next() else { return };
        if let Some((key, _)) = all.find(|(_, digest)| *digest != first) {
            let message =
                "switches digest all frames by one `base_rtt` and one `log_base`, and here flows differ in them";
            let help = "write them once, in [nic.hpcc-pint]";
            self.refuse(&format!("{key}.congestion_control"), message.to_owned(), help, diagnostics);
        }
    }

    /// Checks that the switches' MTU admits TCP segments, whose length is fixed.
    fn check_tcp(&self, transport: &TransportConfig, key: &str, diagnostics: &mut RunDiagnostics) {
        let Some(payload) = transport.tcp_payload() else { return };
        if let Some((_, config)) = self.switches.distinct().find(|(_, config)| config.mtu.get() < payload) {
            let message = format!("TCP's frames carry {payload} B, but the switch's `mtu` is {}", config.mtu.get());
            let help = format!("write mtu = {payload} or more in [switch]");
            self.refuse(&format!("{key}.transport"), message, help, diagnostics);
        }
    }

    /// Returns the transport of messages to these hosts, with the DSCP of acknowledgements that have a class of their own.
    fn transport(
        &self,
        transport: &TransportConfig,
        receivers: &BTreeSet<u32>,
        key: &str,
        diagnostics: &mut RunDiagnostics,
    ) -> Option<Transport> {
        let Some(class) = transport.ack_class() else { return Some(transport.transport.clone()) };
        let place = transport.ack_class_place.as_deref().unwrap_or(key);
        let dscp = self.dscp(class, receivers, ClassUse::Acks, place, diagnostics)?;
        Some(transport.with_acks(AckPoint { class, dscp }))
    }

    fn traffic_plan(
        &self,
        number: usize,
        points: &[(Class, Dscp)],
        hosts: &[HostPlan],
        base_rtt: Span,
        diagnostics: &mut RunDiagnostics,
    ) -> Option<TrafficPlan> {
        let workload = &self.plan.workloads[number];
        let transport = &workload.transport;
        let rates = workload.kind.senders().into_iter().map(|sender| hosts[sender as usize].nic.rate);
        let line = match routing::common_rate(rates) {
            Ok(line) => line,
            Err(_) if transport.control.is_none() => None,
            Err([one, other]) => {
                let message = format!(
                    "senders of workload {} have links of {one} and of {other}, but the parameters of \"{}\" are for one rate",
                    workload.name, transport.control.name
                );
                let help = "write a workload for the senders of each rate";
                let key = format!("workloads[{}].congestion_control", workload.number);
                self.refuse(&key, message, help, diagnostics);
                return None;
            }
        };
        let key = format!("workloads[{}]", workload.number);
        let congestion_control = match line {
            Some(line) => self.control(&transport.control, Network { line, base_rtt }, &key, diagnostics)?,
            None => CongestionControlChoice::none(),
        };
        Some(TrafficPlan {
            name: workload.name.clone(),
            points: points.into(),
            transport: self.transport(transport, &workload.kind.receivers(), &key, diagnostics)?,
            congestion_control,
            ack_every: transport.ack_every,
            retransmission: transport.retransmission,
            loss_recovery: transport.loss_recovery,
            dport: workload.dport,
            // Drawn after the first run's scenario is built.
            source: self.plan.messages.get(number).cloned().unwrap_or_else(|| TrafficSource::List(Arc::from([]))),
        })
    }

    /// Returns a congestion control for a line of this rate; `key` is the path of the choice in the file.
    fn control(
        &self,
        choice: &ControlChoice,
        network: Network,
        key: &str,
        diagnostics: &mut RunDiagnostics,
    ) -> Option<CongestionControlChoice> {
        match choice.in_network(network) {
            Ok(control) => Some(control),
            Err(wrong) => {
                for wrong in wrong {
                    let message = format!("`{}`: {}", wrong.key, wrong.message);
                    self.refuse(choice.place_of(wrong.key).unwrap_or(key), message, wrong.help, diagnostics);
                }
                None
            }
        }
    }

    fn flow_plan(
        &self,
        flow: &FlowPart,
        dscp: Dscp,
        (hosts, ports): (&[HostPlan], &HostPorts),
        base_rtt: Span,
        diagnostics: &mut RunDiagnostics,
    ) -> Option<FlowPlan> {
        // A queue pair's number identifies the flow and its end.
        let number = |end: usize| QueuePair::new((end << 16 | flow.number) as u32);
        let [from, to] = ports.choose([flow.from as u32, flow.to as u32], flow.number as u64).map(|port| port as usize);
        let network = Network { line: hosts[from].nic.rate, base_rtt };
        let key = format!("flows[{}]", flow.number);
        let config = FlowConfig {
            queue_pair: number(1),
            peer: hosts[to].nic.peer(number(2)),
            class: flow.class,
            dscp,
            operation: RdmaOperation::Write,
            message: flow.message,
            start: flow.start,
            stop: flow.stop,
            repeat: flow.repeat,
            rate: flow.rate,
            congestion_control: self.control(&flow.transport.control, network, &key, diagnostics)?,
            total: flow.total,
            ack_every: flow.transport.ack_every,
            retransmission: flow.transport.retransmission,
            loss_recovery: flow.transport.loss_recovery,
            transport: self.transport(&flow.transport, &BTreeSet::from([flow.to as u32]), &key, diagnostics)?,
        };
        Some(FlowPlan { name: flow.name.clone(), from, to, config })
    }

    /// Checks that switches trust the DSCP: hosts send no VLAN tag, so that only the DSCP carries the class.
    fn trusts_dscp(&self, diagnostics: &mut RunDiagnostics) -> bool {
        let mut all = true;
        for (switch, config) in self.switches.distinct() {
            let trusts_other = |port: &usize| config.class_map(*port).trust != Trust::Dscp;
            if let Some(port) = (0..config.ports.len()).find(trusts_other) {
                let (key, who) = match &config.ports[port].class_map {
                    Some(_) => (format!("ports[{port}].trust"), format!("port {}", config.ports[port].name)),
                    None => ("classes.trust".to_owned(), "the switch".to_owned()),
                };
                let message = format!("emulated hosts classify frames by DSCP, and {who} trusts another field");
                let errors = config.error_at(&key, message, "write trust = \"dscp\"");
                self.refuse_of_switch(switch, errors, diagnostics);
                all = false;
            }
        }
        all
    }

    /// Returns the first DSCP of a class; `place` is the path of the class in the file. All switches give the DSCP that class; or, where
    /// classes have other priority groups or queues, the ports of the `senders` of its frames give it this priority group.
    fn dscp(
        &self,
        class: Class,
        senders: &BTreeSet<u32>,
        class_use: ClassUse,
        place: &str,
        diagnostics: &mut RunDiagnostics,
    ) -> Option<Dscp> {
        let class = class.index();
        let of_switches = self.switches.distinct().flat_map(|(_, config)| config.class_maps());
        let mut maps: Vec<&ClassMap> = of_switches.map(|(map, _)| map).collect();
        let is_identity = maps.iter().all(|map| map.is_identity());
        if !is_identity {
            maps = self.sender_ports(senders).map(|at| self.config(at.switch).class_map(at.port)).collect();
        }
        let maps: Vec<[u8; 64]> = maps.into_iter().map(ClassMap::group_of_dscp).collect();
        let has_class = |map: &[u8; 64], point: usize| usize::from(map[point]) == class;
        let common = (0..64).find(|point| maps.iter().all(|map| has_class(map, *point)));
        if common.is_none() {
            let (message, help) = match is_identity {
                true => self.no_class(class, class_use),
                false => self.no_group(class, senders, class_use),
            };
            self.refuse(place, message, help, diagnostics);
        }
        common.map(|point| Dscp::new(point as u8))
    }

    /// Returns the ports of these hosts.
    fn sender_ports(&self, senders: &BTreeSet<u32>) -> impl Iterator<Item = PortRef> {
        let hosts = self.plan.topology.hosts.iter().enumerate();
        let is_sender = |(n, host): &(usize, &HostPart)| senders.contains(&(host.first_port.unwrap_or(*n) as u32));
        hosts.filter(is_sender).map(|(_, host)| self.place(&host.port))
    }

    /// Returns the reason for which no DSCP has a class at all switches, with the correction.
    fn no_class(&self, class: usize, class_use: ClassUse) -> (String, String) {
        let without = self
            .switches
            .distinct()
            .find(|(_, config)| !config.class_maps().any(|(map, _)| map.dscp.contains(&(class as u8))));
        let apart = self.switches.distinct().find_map(|(_, config)| Some((config, port_apart(config, class)?)));
        let other = class_use.key();
        let help = format!("write another {other}, or {class} for a DSCP in [switch.classes.dscp]: 40 = {class}");
        match (without, apart) {
            (Some((_, config)), _) => (format!("switch {} gives class {class} to no DSCP", config.name), help),
            (None, Some((config, port))) => (
                format!("switch {}, port {port}: its `dscp` gives class {class} to other DSCPs", config.name),
                format!("write another {other}, or {class} for a DSCP that has it in [classes.dscp]"),
            ),
            (None, None) => (format!("the switches give class {class} to different DSCPs"), help),
        }
    }

    /// Returns the reason for which no DSCP has a priority group at the ports of the frames' senders, with the correction.
    fn no_group(&self, group: usize, senders: &BTreeSet<u32>, class_use: ClassUse) -> (String, String) {
        let lacks_it =
            |at: &PortRef| !self.config(at.switch).class_map(at.port).group_of_dscp().contains(&(group as u8));
        let other = class_use.key();
        let Some(at) = self.sender_ports(senders).find(lacks_it) else {
            let (who, apart) = match class_use {
                ClassUse::Data => ("senders", "the senders of each DSCP"),
                ClassUse::Acks => ("receivers, which send TCP's acknowledgements,", "the receivers of each DSCP"),
            };
            return (
                format!("the ports of the {who} have different DSCPs in priority group {group}"),
                format!("write another {other}, or {apart} into a flow or workload of their own"),
            );
        };
        let (config, map) = (self.config(at.switch), self.config(at.switch).class_map(at.port));
        let help = match map.group.iter().position(|other| usize::from(*other) == group) {
            Some(class) => format!("give a DSCP class {class}, whose priority group it is: dscp = {{ 40 = {class} }}"),
            None => format!("give the class of a DSCP that group: tc_to_pg = {{ {group} = {group} }}"),
        };
        let key = config.class_map_key(at.port, &["tc_to_pg", "dscp"]);
        let (switch, port) = (&config.name, &config.ports[at.port].name);
        let message = format!(
            "switch {switch}, port {port}: no DSCP has priority group {group}, which is {}; its map is in {}",
            class_use.label(),
            self.switches.place_of(at.switch, &key),
        );
        (message, format!("write another {other}, or {help}"))
    }

    fn scenario(
        self,
        hosts: Vec<HostPlan>,
        carried: FlowsAndTraffic,
        routing: Option<Routing<'_>>,
        notes: Vec<String>,
    ) -> Scenario {
        let plan = self.plan;
        let links = plan.topology.links.iter().map(|link| {
            let ends = link.ends.each_ref().map(|end| self.place(end));
            let ports = ends.map(|end| &self.config(end.switch).ports[end.port]);
            let [one, other] = ports.map(|port| port.delay);
            let delay = if link.devices.is_none() { one.max(other) } else { Span::ZERO };
            let llr = self.llr(link.has_llr, ends);
            LinkPlan { ends, delay, faults: link.faults, llr }
        });
        let draw = match &plan.draw {
            Some(ports) => ports.iter().map(|port| self.place(port)).collect(),
            None if plan.topology.is_fabric => hosts.iter().take(DRAWN_OF_FABRICS).map(HostPlan::place).collect(),
            None => hosts.iter().map(HostPlan::place).collect(),
        };
        let mut scenario = Scenario {
            name: plan.name.clone(),
            policy: self.all_of(|config| config.buffer.policy.name()),
            parameters: self.parameters(),
            links: links.collect(),
            servers: plan.topology.servers,
            capture: plan.capture.map(|capture| CapturePlan {
                host: capture.host,
                data_from: capture.data_from,
                data_frames: capture.data_frames,
            }),
            draw,
            hosts,
            flows: carried.flows,
            traffic: carried.traffic,
            routes: match routing {
                Some(Routing::Routes(routes)) => Some(routes),
                _ => None,
            },
            outages: plan.outages.clone(),
            changes: Vec::new(),
            routing_delay: plan.routing_delay,
            link_overhead: plan.link_overhead,
            frame_times: plan.frame_times,
            measures_feedback: plan.measures_feedback,
            unbuffered: plan.unbuffered,
            unscheduled_alpha: plan.runs[self.run].unscheduled_alpha.or(plan.unscheduled_alpha),
            seed: plan.seed,
            ecmp_seed: plan.ecmp_seed,
            warm_up: plan.warm_up,
            windows: plan.windows.clone(),
            shows_flow_gauges: plan.shows_flow_gauges,
            sample_every: plan.sample_every,
            snapshots: plan.snapshots.clone(),
            end: plan.end,
            notes,
            real: self.context.real.map(|ports| self.real_plan(ports)),
            switches: self.switches.configs.into(),
        };
        scenario.notes.extend(notes::of_load_balancing(&scenario));
        scenario.notes.extend(notes::of_llr_headroom(&scenario));
        scenario
    }

    fn real_plan(&self, ports: &RealPorts) -> RealPlan {
        RealPlan {
            hosts: self.plan.topology.hosts.iter().map(|host| host.real.clone()).collect(),
            flows: self.plan.flows.iter().map(|flow| flow.tool).collect(),
            ports: ports.clone(),
        }
    }

    fn parameters(&self) -> BTreeMap<String, String> {
        let flow_control = self.all_of(|config| config.ports.first().map_or("", |port| port.flow_control.label()));
        [("run", self.plan.runs[self.run].name.clone()), ("flow_control", flow_control)]
            .map(|(name, value)| (name.to_owned(), value))
            .into()
    }

    /// Lists the different values of the switches, each once.
    fn all_of(&self, what: impl Fn(&SwitchConfig) -> &'static str) -> String {
        let mut all: Vec<&str> = Vec::new();
        for config in &self.switches.configs {
            let one = what(config);
            if !all.contains(&one) {
                all.push(one);
            }
        }
        all.join(", ")
    }
}

/// Frames that a class is for.
#[derive(Clone, Copy)]
enum ClassUse {
    /// Messages of a flow or workload.
    Data,
    /// Acknowledgements of TCP that have a class of their own.
    Acks,
}

impl ClassUse {
    /// Name of the key.
    fn key(self) -> &'static str {
        match self {
            ClassUse::Data => "class",
            ClassUse::Acks => "ack_class",
        }
    }

    fn label(self) -> &'static str {
        match self {
            ClassUse::Data => "a flow's class",
            ClassUse::Acks => "`ack_class`, that of TCP's acknowledgements",
        }
    }
}

/// Returns the first port whose own map gives no DSCP the class that the switch's map gives it.
fn port_apart(config: &SwitchConfig, class: usize) -> Option<&str> {
    let has_class = |map: &ClassMap, point: usize| usize::from(map.dscp[point]) == class;
    let is_apart = |port: &&PortConfig| {
        let own = port.class_map.as_deref();
        own.is_some_and(|own| !(0..64).any(|point| has_class(own, point) && has_class(&config.classes.map, point)))
    };
    config.ports.iter().find(is_apart).map(|port| port.name.as_str())
}
