//! Scenario of a backend: switches, links between them, hosts on their ports, and flows.

pub mod file;
mod graph_run;
mod host_ports;
mod real_hosts;
mod real_time;
mod traffic;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_config::{Device, SwitchConfig};
use weir_flowctl::kinds::UecCbfcConfig;
use weir_flowctl::wire_bytes;
use weir_load_balancing::{FlowHash, PathSelectorConfig};
use weir_nic::host::{FlowConfig, Host, HostConfig, HostError, Peer, ReceiverConfig, TelemetryMode};
use weir_units::{Alpha, BitRate, Bytes, ClassSet, LINK_OVERHEAD, SerialisationRounding, Span, SplitMix64, Time};
use weir_wire::digest::DigestConfig;
use weir_wire::mac_control::{CreditUpdate, FRAME_BYTES};

use crate::link::{FaultPlan, LlrPlan};
use crate::port_ref::{LinkPeer, PortRef};
use crate::topology::Routes;
pub use graph_run::{GraphConnection, GraphRecord, GraphRun, HostSet, RepetitionTimes};
pub use host_ports::HostPorts;
pub use real_hosts::{FlowTool, HostBackend, PerfTest, RealHost, RealPlan, RealPorts};
pub use traffic::{TrafficPlan, TrafficSource};

/// Retransmission timeout of a flow to a real host: value 18 of a queue pair's timeout, as perftest has for flows between real hosts.
const ROCE_TIMEOUT: Span = Span::from_millis(1_074);

/// Description of an experiment.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Name of the scenario.
    pub name: String,
    /// Name of the buffer policy in reports.
    pub policy: String,
    /// Named parameters that the scenario was built from, for reports only.
    pub parameters: BTreeMap<String, String>,
    /// Switches, with different names. All have the same [`SwitchConfig::time_dilation`], which is also the hosts'.
    pub switches: Arc<[SwitchConfig]>,
    /// Links between switches.
    pub links: Vec<LinkPlan>,
    /// Servers of several hosts; for virtual time only.
    pub servers: Option<ServerPlan>,
    /// Hosts; then the further ports of hosts with several, for virtual time only. A switch's port has one of them or one link at most.
    pub hosts: Vec<HostPlan>,
    /// Flows between hosts.
    pub flows: Vec<FlowPlan>,
    /// Messages that each have a connection of their own.
    pub traffic: Vec<TrafficPlan>,
    /// Routes of all switches, unless their own configurations have static MACs. Equal-cost choices work in virtual time only.
    pub routes: Option<Arc<Routes>>,
    /// Link outages, between switches or to hosts; for virtual time only.
    pub outages: Vec<Outage>,
    /// Changes of the switches' settings during the run, earliest first; for virtual time only.
    pub changes: Vec<RuntimeChange>,
    /// Delay from a change of an inter-switch link until all switches use routes around it; `None` if only the switches at its ends ever
    /// do.
    pub routing_delay: Option<Span>,
    /// Link overhead per frame: FCS 4 B, preamble 8 B and gap 12 B on a real link.
    pub link_overhead: Bytes,
    /// Rounding of serialization times at link rates and at the rates of congestion control.
    pub frame_times: SerialisationRounding,
    /// Whether the feedback delay τ is measured in virtual time; with real frames it always is.
    pub measures_feedback: bool,
    /// Classes that the switches' buffers do not count; for virtual time only.
    pub unbuffered: ClassSet,
    /// Value of α for unscheduled lossy frames; `None` for that of all frames. For virtual time only.
    pub unscheduled_alpha: Option<Alpha>,
    /// Seed of the switches' random numbers in virtual time: ECN marks and randomly chosen ports.
    pub seed: u64,
    /// Seed of ECMP hashing, besides flow and switch; 0 for none.
    pub ecmp_seed: u32,
    /// Warm-up: messages that start earlier are not in the statistics.
    pub warm_up: Time,
    /// Parts of the run with measurements of their own.
    pub windows: Vec<WindowPlan>,
    /// Whether the series has the gauges of each flow's congestion control.
    pub shows_flow_gauges: bool,
    /// Sampling interval of the state.
    pub sample_every: Span,
    /// Instants of the snapshots of all queues of all switches, earliest first.
    pub snapshots: Vec<Time>,
    /// End of the samples. Flows should have stopped by then.
    pub end: Time,
    /// Capture at a port.
    pub capture: Option<CapturePlan>,
    /// Ports whose ingress queues and input rates are plotted.
    pub draw: Vec<PortRef>,
    /// Remarks for readers of the results.
    pub notes: Vec<String>,
    /// Real hosts and tools; only for the backend with real hosts.
    pub real: Option<RealPlan>,
}

/// Change of a setting of all switches during a run, as by `weir set`.
#[derive(Clone, Debug)]
pub struct RuntimeChange {
    /// Instant of the change.
    pub at: Time,
    /// Key of a switch's file, as `weir set` has it: `buffer.dt.alpha`.
    pub key: String,
    /// Value of the key from then on; a string without its quotes.
    pub value: String,
    /// Configurations of all switches from then on.
    pub switches: Arc<[SwitchConfig]>,
}

/// Capture at one port: every flow-control frame, and a number of data frames.
#[derive(Clone, Copy, Debug)]
pub struct CapturePlan {
    /// Index of the host at the port.
    pub host: usize,
    /// Start of the data capture.
    pub data_from: Time,
    /// Maximum number of captured data frames.
    pub data_frames: u32,
}

/// A host and its link.
#[derive(Clone, Debug)]
pub struct HostPlan {
    /// Name of the host.
    pub name: String,
    /// Index of the switch in the scenario.
    pub switch: usize,
    /// Index of the port in the switch's configuration.
    pub port: usize,
    /// Index of the host if this is a further port of it.
    pub first_port: Option<usize>,
    /// Device of the host, if a real wire joins it to the switch's port; `None` for an emulated link.
    pub device: Option<Device>,
    /// Propagation delay of the emulated link, one way.
    pub link_delay: Span,
    /// Faults of the link: toward the host, and toward the switch.
    pub faults: [FaultPlan; 2],
    /// Link layer retry of the link.
    pub llr: Option<LlrPlan>,
    /// The NIC.
    pub nic: HostConfig,
}

/// Servers of consecutive hosts, and the link among the hosts of each, such as NVLink.
///
/// The link carries messages of ranks; other messages take the fabric. It has no flow control and loses nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerPlan {
    /// Number of hosts of a server.
    pub hosts: usize,
    /// Rate at which a host sends and receives.
    pub rate: BitRate,
    /// Delay from one host to another, one way.
    pub delay: Span,
}

/// Link between two switches, or two ports of one. A link between ports on rings is emulated; between other devices it is a real wire.
#[derive(Clone, Debug)]
pub struct LinkPlan {
    /// The ports at its ends.
    pub ends: [PortRef; 2],
    /// Propagation delay of an emulated link, one way.
    pub delay: Span,
    /// Faults of the link: in frames from the first end, and from the second.
    pub faults: [FaultPlan; 2],
    /// Link layer retry of the link.
    pub llr: Option<LlrPlan>,
}

/// Error in a scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// The scenario has no switch.
    #[error("a scenario has one switch at least")]
    NoSwitch,
    /// Two switches have the same name.
    #[error("two switches are named {0}: write different names")]
    SwitchTwice(String),
    /// Two switches have different time dilations.
    #[error("{0} and {1} differ in time_dilation: all switches of a scenario have one clock")]
    Dilation(String, String),
    /// A host or a link is on a clone, or on a port that does not exist.
    #[error("switch {switch}, port {port}: there is no such port with a link of its own")]
    NoPort {
        /// Index of the switch.
        switch: usize,
        /// Index of the port.
        port: usize,
    },
    /// A port has two links.
    #[error("port {0} has more than one host or link")]
    PortTwice(String),
}

/// Flow between two hosts.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// Name of the flow.
    pub name: String,
    /// Index of the sending host, or of its port that sends.
    pub from: usize,
    /// Index of the receiving host, or of its port that receives.
    pub to: usize,
    /// Sender's configuration. The peer is one of the receiving host's queue pairs.
    pub config: FlowConfig,
}

/// Link outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Link that is cut.
    pub link: LinkRef,
    /// Instant of the cut.
    pub at: Time,
    /// Instant of the repair; [`Time::NEVER`] for none.
    pub until: Time,
}

/// Route changes of a fabric's switches over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RerouteSchedule {
    /// Instants of the changes, each with the number of the route set in use from then on.
    pub at: Vec<(Time, usize)>,
    /// Links that each set avoids: between switches, or to a port of a host with others. Set 0 avoids none.
    pub sets: Vec<Vec<LinkRef>>,
}

/// Link, by index in the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkRef {
    /// Link between switches.
    Between(usize),
    /// Link to a host, or to a further port of one.
    ToHost(usize),
}

/// Part of the run with measurements of its own.
#[derive(Clone, Debug)]
pub struct WindowPlan {
    /// Name of the part.
    pub name: String,
    /// Start of the part.
    pub from: Time,
    /// End of the part.
    pub to: Time,
}

/// Flow ends at one host.
#[derive(Clone, Debug, Default)]
pub struct HostFlows {
    /// Senders at the host, each with the index of its flow.
    pub sends: Vec<(usize, FlowConfig)>,
    /// Receivers at the host, each with the index of its flow.
    pub receives: Vec<(usize, ReceiverConfig)>,
}

impl Scenario {
    /// Ends the scenario early: flows stop and windows end at `end`, and later messages are left out. If no window is left, the last
    /// quarter becomes one.
    pub fn end_at(&mut self, end: Time) {
        self.end = self.end.min(end);
        for flow in &mut self.flows {
            flow.config.stop = flow.config.stop.min(end);
        }
        for plan in &mut self.traffic {
            plan.end_at(end);
        }
        self.snapshots.retain(|at| *at <= end);
        self.changes.retain(|change| change.at <= end);
        self.windows.retain(|window| window.from < end);
        self.windows.iter_mut().for_each(|window| window.to = window.to.min(end));
        if self.windows.is_empty() {
            let from = Time::ZERO + (self.end.since(Time::ZERO) * 3).divided_by(4);
            self.windows.push(WindowPlan { name: "last-quarter".to_owned(), from, to: self.end });
        }
        self.sample_every = self.sample_every.min(self.end.since(Time::ZERO));
    }

    /// Returns the instants at which links go down (`true`) or up, earliest first: by outages, and as a switch that has lost its links to
    /// all others takes down those to hosts with other ports.
    pub fn link_changes(&self) -> Vec<(Time, LinkRef, bool)> {
        let mut changes = self.outage_changes();
        let RerouteSchedule { at, sets } = self.reroutings();
        let mut down = Vec::new();
        for (at, set) in at {
            let next = self.links_of_isolated(&sets[set]);
            let up = down.iter().filter(|link| !next.contains(link)).map(|link| (at, *link, false));
            changes.extend(up.chain(next.iter().filter(|link| !down.contains(link)).map(|link| (at, *link, true))));
            down = next;
        }
        changes.sort_by_key(|(at, ..)| *at);
        changes
    }

    /// Returns the instants at which outages take links down (`true`) and up. A link that retries goes down after its timeout, and not in
    /// shorter outages.
    fn outage_changes(&self) -> Vec<(Time, LinkRef, bool)> {
        let changes = |outage: &Outage| {
            let timeout = self.llr(outage.link).map_or(Span::ZERO, |llr| llr.pcs_lost_timeout);
            let down = outage.at.saturating_add(timeout);
            let is_down = down < outage.until;
            [(down, outage.link, true), (outage.until, outage.link, false)].into_iter().filter(move |_| is_down)
        };
        let mut changes: Vec<_> = self.outages.iter().flat_map(changes).filter(|(at, ..)| *at < Time::NEVER).collect();
        changes.sort_by_key(|(at, ..)| *at);
        changes
    }

    /// Returns the links that switches take down while these links are cut: a switch that has lost its links to all others, those to hosts
    /// that have another port.
    fn links_of_isolated(&self, cut: &[LinkRef]) -> Vec<LinkRef> {
        let (ports, routes) = (self.host_ports(), self.routes.as_ref());
        let Some(routes) = routes.filter(|_| ports.hosts().next().is_some()) else { return Vec::new() };
        let isolated = routes.isolated(&self.ends_between(cut));
        let is_isolated = |port: &u32| isolated.contains(&self.hosts[*port as usize].switch);
        let is_up = |port: u32| !is_isolated(&port) && !cut.contains(&LinkRef::ToHost(port as usize));
        let hosts = ports.hosts().map(|host| ports.ports(host)).filter(|of_host| of_host.clone().any(is_up));
        hosts.flatten().filter(is_isolated).map(|port| LinkRef::ToHost(port as usize)).collect()
    }

    /// Returns the ends of those of the links that are between switches.
    fn ends_between(&self, links: &[LinkRef]) -> Vec<[PortRef; 2]> {
        let ends = links.iter().filter_map(|link| match link {
            LinkRef::Between(link) => Some(self.links[*link].ends),
            LinkRef::ToHost(_) => None,
        });
        ends.collect()
    }

    /// Returns the link layer retry of a link.
    pub fn llr(&self, link: LinkRef) -> Option<&LlrPlan> {
        match link {
            LinkRef::Between(link) => self.links[link].llr.as_ref(),
            LinkRef::ToHost(host) => self.hosts[host].llr.as_ref(),
        }
    }

    /// Returns the routes while these links are cut: around links between switches, and to a host by another of its ports.
    ///
    /// # Panics
    /// If the scenario has no routes.
    pub fn routes_around(&self, cut: &[LinkRef]) -> Routes {
        let routes = self.routes.as_ref().expect("a scenario with routes");
        let mut around = routes.around(&self.ends_between(cut));
        let (ports, isolated) = (self.host_ports(), self.links_of_isolated(cut));
        let is_cut = |port: &u32| {
            let link = LinkRef::ToHost(*port as usize);
            cut.contains(&link) || isolated.contains(&link)
        };
        for of_host in ports.hosts().map(|host| ports.ports(host)) {
            let Some(up) = of_host.clone().find(|port| !is_cut(port)) else { continue };
            of_host.filter(is_cut).for_each(|port| around.replace_end(port as usize, up as usize));
        }
        around
    }

    /// Returns the instants at which all switches learn of cut or repaired links, earliest first. Empty unless there are routes and a
    /// [`Scenario::routing_delay`].
    pub fn reroutings(&self) -> RerouteSchedule {
        let mut reroutings = RerouteSchedule { at: Vec::new(), sets: vec![Vec::new()] };
        let Some(delay) = self.routing_delay.filter(|_| self.routes.is_some()) else { return reroutings };
        let ports = self.host_ports();
        let has_others = |port: usize| ports.count(ports.host(port as u32)) > 1;
        let mut outages_of: BTreeMap<LinkRef, usize> = BTreeMap::new();
        for changes in self.outage_changes().chunk_by(|one, next| one.0 == next.0) {
            for (_, link, is_cut) in changes {
                if matches!(link, LinkRef::ToHost(port) if !has_others(*port)) {
                    continue;
                }
                let outages = outages_of.entry(*link).or_default();
                *outages = if *is_cut { *outages + 1 } else { *outages - 1 };
            }
            let cut: Vec<LinkRef> =
                outages_of.iter().filter(|(_, outages)| **outages > 0).map(|(link, _)| *link).collect();
            let set = reroutings.sets.iter().position(|set| *set == cut).unwrap_or_else(|| {
                reroutings.sets.push(cut);
                reroutings.sets.len() - 1
            });
            if reroutings.at.last().map_or(0, |(_, set)| *set) != set {
                reroutings.at.push((changes[0].0.saturating_add(delay), set));
            }
        }
        reroutings
    }

    /// Whether frames of a flow may take several paths, or hosts accept packets in any order.
    pub fn reorders(&self) -> bool {
        self.switches.iter().any(|switch| switch.load_balancing.kind() != FlowHash.kind()) || self.is_selective()
    }

    /// Whether hosts accept packets of a flow or workload in any order.
    pub fn is_selective(&self) -> bool {
        self.flows.iter().any(|flow| flow.config.is_selective())
            || self.traffic.iter().any(|plan| plan.loss_recovery.is_selective())
    }

    /// Returns the seed of a switch's ECMP hash, by switch index.
    pub fn hash_seed(&self, switch: usize) -> u32 {
        match self.ecmp_seed {
            0 => switch as u32,
            seed => SplitMix64::mix(u64::from(seed) << 32 | switch as u64) as u32,
        }
    }

    /// Creates a scenario of 1 ms on real links, without traffic. `policy` is the name in reports.
    pub fn new(name: &str, policy: &str, switches: Vec<SwitchConfig>, hosts: Vec<HostPlan>) -> Scenario {
        Scenario {
            name: name.to_owned(),
            policy: policy.to_owned(),
            parameters: BTreeMap::new(),
            switches: switches.into(),
            links: Vec::new(),
            servers: None,
            hosts,
            flows: Vec::new(),
            traffic: Vec::new(),
            routes: None,
            outages: Vec::new(),
            changes: Vec::new(),
            routing_delay: None,
            link_overhead: LINK_OVERHEAD,
            frame_times: SerialisationRounding::Exact,
            measures_feedback: false,
            unbuffered: ClassSet::EMPTY,
            unscheduled_alpha: None,
            seed: 1,
            ecmp_seed: 0,
            warm_up: Time::ZERO,
            windows: Vec::new(),
            shows_flow_gauges: false,
            sample_every: Span::from_millis(1),
            snapshots: Vec::new(),
            end: Time::from_nanos(1_000_000),
            capture: None,
            draw: Vec::new(),
            notes: Vec::new(),
            real: None,
        }
    }

    /// Creates a scenario of switches whose ports lead to external devices, without an end.
    pub fn lab(name: &str, policy: &str, switches: Vec<SwitchConfig>, sample_every: Span) -> Scenario {
        Scenario { sample_every, end: Time::NEVER, ..Scenario::new(name, policy, switches, Vec::new()) }
    }

    /// Whether all ports lead outside of Weir: the scenario has neither hosts nor links.
    pub fn is_lab(&self) -> bool {
        self.hosts.is_empty() && self.links.is_empty()
    }

    /// Returns the servers if their links carry a traffic's messages between these hosts.
    pub fn servers_for(&self, plan: &TrafficPlan, [from, to]: [usize; 2]) -> Option<ServerPlan> {
        let in_server = |servers: &ServerPlan| servers.number_in_server(from, to).is_some();
        self.servers.filter(|servers| plan.graph().is_some() && in_server(servers))
    }

    /// Whether this host is real.
    pub fn is_real(&self, host: usize) -> bool {
        self.real.as_ref().is_some_and(|real| real.is_real(host))
    }

    /// Whether guests are booted for the scenario.
    pub fn boots_guests(&self) -> bool {
        let mut real = self.real.iter().flat_map(|real| real.hosts.iter().flatten());
        real.any(|host| matches!(host.backend, HostBackend::Vm { .. }))
    }

    /// Returns the tool that sends this flow if an end of it is real; it also determines the verb of an emulated end.
    pub fn tool(&self, flow: usize) -> FlowTool {
        self.real.as_ref().and_then(|real| real.flows.get(flow)).copied().unwrap_or_default()
    }

    /// Returns the names of each flow's gauges in the series; empty unless [`Scenario::shows_flow_gauges`] is set.
    pub fn flow_gauges(&self) -> Vec<Vec<&'static str>> {
        let names = |flow: &FlowPlan| flow.config.gauges().iter().map(|gauge| gauge.name).collect();
        if self.shows_flow_gauges { self.flows.iter().map(names).collect() } else { Vec::new() }
    }

    /// Returns the number of hosts, each counted once.
    pub fn host_count(&self) -> usize {
        self.hosts.iter().filter(|host| host.first_port.is_none()).count()
    }

    /// Returns the name of the host that a port belongs to, by the port's index.
    pub fn host_name(&self, port: usize) -> &str {
        &self.hosts[self.hosts[port].first_port.unwrap_or(port)].name
    }

    /// Returns the ports of the hosts that have several.
    pub fn host_ports(&self) -> HostPorts {
        HostPorts::new(&self.hosts, self.routes.as_ref(), self.ecmp_seed)
    }

    /// Returns the flows that begin or end at a host.
    pub fn flows_of(&self, host: usize) -> HostFlows {
        let numbered = || self.flows.iter().enumerate();
        let sends = numbered().filter(|(_, flow)| flow.from == host).map(|(n, flow)| (n, self.sender(n, flow)));
        let receives = numbered().filter(|(_, flow)| flow.to == host).map(|(n, flow)| (n, self.receiver(flow)));
        HostFlows { sends: sends.collect(), receives: receives.collect() }
    }

    /// Returns a flow's sender. A real receiver announces its queue pair when the run begins, and accepts no frame out of order.
    fn sender(&self, n: usize, flow: &FlowPlan) -> FlowConfig {
        let config = flow.config.clone();
        if !self.is_real(flow.to) {
            return config;
        }
        let timeout = ROCE_TIMEOUT.divided_by(u64::from(self.time_dilation()));
        let verb = self.tool(n).test.verb();
        FlowConfig {
            peer: Peer::UNKNOWN,
            operation: verb,
            retransmission: config.retransmission.or(Some(timeout)),
            ..config
        }
    }

    /// Returns a flow's receiver. A real sender repeats frames on request, and stamps none.
    fn receiver(&self, flow: &FlowPlan) -> ReceiverConfig {
        let config = flow.config.receiver(&self.hosts[flow.from].nic);
        if !self.is_real(flow.from) {
            return config;
        }
        let (answers_each, echoes_ecn, stamps) = (false, false, TelemetryMode::None);
        ReceiverConfig {
            peer: Peer::UNKNOWN,
            retransmits: true,
            acks_every_packet: answers_each,
            echoes_ecn,
            telemetry: stamps,
            ..config
        }
    }

    /// Builds a host with the flows that begin or end there; its transmissions may be late by `slack`.
    pub fn host(&self, host: usize, slack: Span) -> Result<Host, HostError> {
        let HostFlows { sends, receives } = self.flows_of(host);
        let sends: Vec<_> = sends.into_iter().map(|(_, flow)| flow).collect();
        let receives: Vec<_> = receives.into_iter().map(|(_, receiver)| receiver).collect();
        let Scenario { link_overhead, frame_times, .. } = *self;
        Host::new(HostConfig { slack, link_overhead, frame_times, ..self.hosts[host].nic.clone() }, &sends, &receives)
    }

    /// Returns a lower bound of the bytes that a frame, or a message below the MAC, has on the wire.
    pub fn wire_bytes_min(&self) -> Bytes {
        let of_hosts = self.hosts.iter().map(|host| u32::from(host.nic.sizes.frame_min()));
        let shortest = wire_bytes(of_hosts.fold(FRAME_BYTES as u32, u32::min), self.link_overhead);
        let mut ports = self.switches.iter().flat_map(|switch| &switch.ports);
        let has_ordered_sets = ports.any(|port| port.flow_control.downcast::<UecCbfcConfig>().is_some());
        if has_ordered_sets { shortest.min(CreditUpdate::ORDERED_SET) } else { shortest }
    }

    /// Checks the scenario's consistency. Backends call this; callers that build a scenario by hand should, too.
    pub fn check(&self) -> Result<(), ScenarioError> {
        let first = self.switches.first().ok_or(ScenarioError::NoSwitch)?;
        let mut names = BTreeSet::new();
        for switch in &*self.switches {
            if !names.insert(&switch.name) {
                return Err(ScenarioError::SwitchTwice(switch.name.clone()));
            }
            if switch.time_dilation != first.time_dilation {
                return Err(ScenarioError::Dilation(first.name.clone(), switch.name.clone()));
            }
        }
        let mut taken = BTreeSet::new();
        for place in self.hosts.iter().map(HostPlan::place).chain(self.links.iter().flat_map(|link| link.ends)) {
            let port = self.switches.get(place.switch).and_then(|switch| switch.ports.get(place.port));
            if port.is_none_or(|port| port.clone_of().is_some()) {
                return Err(ScenarioError::NoPort { switch: place.switch, port: place.port });
            }
            if !taken.insert(place) {
                return Err(ScenarioError::PortTwice(self.port_name(place)));
            }
        }
        Ok(())
    }

    /// Returns the scenario with its routes as static MACs, if the routes have no choices.
    pub fn with_static_macs(&self) -> Scenario {
        let mut scenario = self.clone();
        if let Some(routes) = self.routes.as_ref().filter(|routes| !routes.have_choices()) {
            for (number, switch) in Arc::make_mut(&mut scenario.switches).iter_mut().enumerate() {
                let port = |host: usize| routes.ports(number, host).first().copied();
                let macs =
                    self.hosts.iter().enumerate().filter_map(|(n, host)| Some((host.nic.mac, usize::from(port(n)?))));
                switch.static_macs.extend(macs);
            }
            scenario.routes = None;
        }
        scenario
    }

    /// Returns the digest configuration that the flows' congestion control requires; the first if there are several.
    pub fn digest(&self) -> Option<DigestConfig> {
        let of_flows = self.flows.iter().map(|flow| &flow.config.congestion_control);
        let of_traffic = self.traffic.iter().map(|plan| &plan.congestion_control);
        of_flows.chain(of_traffic).find_map(|control| control.feedback().digest)
    }

    /// Returns the time dilation: the factor by which the scenario runs slower than real time.
    pub fn time_dilation(&self) -> u32 {
        self.switches.first().map_or(1, |switch| switch.time_dilation)
    }

    /// Whether the drawn ports are those of the hosts, the default.
    pub fn has_default_draw(&self) -> bool {
        self.draw.iter().copied().eq(self.hosts.iter().map(HostPlan::place))
    }

    /// Returns a port's name: `p0` with a single switch, `S1.p0` with several.
    pub fn port_name(&self, place: PortRef) -> String {
        let switch = &self.switches[place.switch];
        let port = &switch.ports[place.port].name;
        if self.switches.len() == 1 { port.clone() } else { format!("{}.{port}", switch.name) }
    }

    /// Returns the names of the shared buffer pools: `pool` with a single switch, `S1.pool` with several.
    pub fn pool_names(&self) -> Vec<String> {
        match &self.switches[..] {
            [_] => vec!["pool".to_owned()],
            several => several.iter().map(|switch| format!("{}.pool", switch.name)).collect(),
        }
    }

    /// Returns all ports, switch by switch.
    pub fn ports(&self) -> impl Iterator<Item = PortRef> + '_ {
        let switches = self.switches.iter().enumerate();
        switches.flat_map(|(switch, config)| (0..config.ports.len()).map(move |port| PortRef { switch, port }))
    }

    /// Returns the far end of a port's link; `None` for a port without host or link, such as a clone.
    pub fn peer(&self, place: PortRef) -> Option<LinkPeer> {
        let host = self.hosts.iter().position(|host| host.place() == place).map(LinkPeer::Host);
        let across = |link: &LinkPlan| {
            let end = link.ends.iter().position(|end| *end == place)?;
            Some(LinkPeer::Port(link.ends[1 - end]))
        };
        host.or_else(|| self.links.iter().find_map(across))
    }

    /// Returns the name of a port's peer: a host, or another switch's port.
    pub fn peer_name(&self, peer: LinkPeer) -> String {
        match peer {
            LinkPeer::Host(host) => self.hosts[host].name.clone(),
            LinkPeer::Port(place) => self.port_name(place),
        }
    }

    /// Whether a link is emulated, between the far ends of two rings. Other links are a cable, or a ring that both ends name.
    pub fn is_emulated(&self, link: &LinkPlan) -> bool {
        let [one, other] = link.ends.map(|end| &self.switches[end.switch].ports[end.port].device);
        matches!((one, other), (Device::Ring(one), Device::Ring(other)) if one != other)
    }

    /// Maximum time of a frame on any link, faults included.
    pub fn longest_delay(&self) -> Span {
        let of_hosts = self.hosts.iter().map(|host| (host.link_delay, &host.faults));
        let of_links = self.links.iter().map(|link| (link.delay, &link.faults));
        let longest = |(delay, faults): (Span, &[FaultPlan; 2])| {
            delay + faults.iter().map(FaultPlan::longest_hold).max().unwrap_or(Span::ZERO)
        };
        of_hosts.chain(of_links).map(longest).max().unwrap_or(Span::ZERO)
    }
}

impl ServerPlan {
    /// Returns the number of host `to` in its server if it is also that of host `from`.
    pub fn number_in_server(&self, from: usize, to: usize) -> Option<usize> {
        (from / self.hosts == to / self.hosts).then(|| to % self.hosts)
    }

    /// Returns a message's completion time on an idle link.
    pub fn ideal_fct(&self, size: Bytes) -> Span {
        self.rate.time_for(size) + self.delay * 2
    }
}

impl HostPlan {
    /// Returns the host's port.
    pub fn place(&self) -> PortRef {
        PortRef { switch: self.switch, port: self.port }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::victim::{PolicyChoice, Victim, VictimPolicy};

    /// Ring of victim-experiment switches, one for each name: the last port of each is linked to the next one's next-to-last.
    fn ring(names: &[&str]) -> Scenario {
        let victim = Victim::testbed(3, VictimPolicy::new(PolicyChoice::Dynamic));
        let mut scenario = victim.scenario().unwrap();
        let switch = scenario.switches[0].clone();
        scenario.hosts.truncate(4);
        scenario.flows.truncate(2);
        scenario.switches = names.iter().map(|name| SwitchConfig { name: (*name).into(), ..switch.clone() }).collect();
        scenario.links = (0..names.len())
            .map(|n| LinkPlan {
                ends: [PortRef { switch: n, port: 5 }, PortRef { switch: (n + 1) % names.len(), port: 4 }],
                delay: Span::from_micros(2),
                faults: Default::default(),
                llr: None,
            })
            .collect();
        scenario
    }

    #[test]
    fn ports_are_named_with_their_switch_where_there_are_several() {
        let (one, three) = (ring(&["S1"]), ring(&["S1", "S2", "S3"]));
        assert_eq!((one.check(), three.check()), (Ok(()), Ok(())));
        let place = PortRef { switch: 0, port: 5 };
        assert_eq!((one.port_name(place), three.port_name(place)), ("p5".to_owned(), "S1.p5".to_owned()));
        assert_eq!((one.pool_names(), three.pool_names()[2].as_str()), (vec!["pool".to_owned()], "S3.pool"));
        assert_eq!(three.ports().count(), 18);
    }

    #[test]
    fn both_ends_of_a_link_know_each_other() {
        let three = ring(&["S1", "S2", "S3"]);
        let [last, first] = [PortRef { switch: 2, port: 5 }, PortRef { switch: 0, port: 4 }];
        assert_eq!((three.peer(last), three.peer(first)), (Some(LinkPeer::Port(first)), Some(LinkPeer::Port(last))));
        let of_host = PortRef { switch: 0, port: 1 };
        assert_eq!(three.peer(of_host).map(|peer| three.peer_name(peer)), Some("R1".to_owned()));
        assert_eq!(three.peer_name(LinkPeer::Port(first)), "S1.p4");
        assert_eq!(three.peer(PortRef { switch: 1, ..of_host }), None);
        assert_eq!(three.longest_delay(), Span::from_micros(2));
    }

    #[test]
    fn what_does_not_hold_together_is_refused() {
        assert_eq!(ring(&[]).check(), Err(ScenarioError::NoSwitch));
        assert_eq!(ring(&["S1", "S1"]).check(), Err(ScenarioError::SwitchTwice("S1".into())));
        let mut clocks = ring(&["S1", "S2"]);
        Arc::make_mut(&mut clocks.switches)[1].time_dilation += 1;
        assert_eq!(clocks.check(), Err(ScenarioError::Dilation("S1".into(), "S2".into())));
        let mut missing = ring(&["S1", "S2"]);
        missing.hosts[0].port = 6;
        assert_eq!(missing.check(), Err(ScenarioError::NoPort { switch: 0, port: 6 }));
        let mut twice = ring(&["S1", "S2"]);
        twice.hosts[3].port = 5;
        assert_eq!(twice.check(), Err(ScenarioError::PortTwice("S1.p5".into())));
    }
}
