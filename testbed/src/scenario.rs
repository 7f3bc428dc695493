//! A switch, the hosts on its ports, and their flows: what a backend runs.

use std::collections::BTreeMap;

use weir_config::SwitchConfig;
use weir_units::{Span, Time};

use crate::host::{FlowConfig, HostConfig, ReceiverConfig};

/// An experiment with one switch.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// The buffer's policy, as reports name it.
    pub policy: String,
    /// What it was made from, by name: for reports only.
    pub parameters: BTreeMap<String, String>,
    /// The switch. Its clock is the scenario's: [`SwitchConfig::time_dilation`] counts for the hosts too.
    pub switch: SwitchConfig,
    /// The hosts, one at most on each port.
    pub hosts: Vec<HostPlan>,
    /// The flows.
    pub flows: Vec<FlowPlan>,
    /// Parts of the run that are measured by themselves.
    pub windows: Vec<WindowPlan>,
    /// How often the state is sampled.
    pub sample_every: Span,
    /// When the samples end. Flows should have stopped by then.
    pub end: Time,
    /// The port whose frames are captured.
    pub capture: Option<CapturePlan>,
    /// What a reader of the results should know, in words.
    pub notes: Vec<String>,
}

/// What is captured of one port: every flow-control frame, and a stretch of data.
#[derive(Clone, Copy, Debug)]
pub struct CapturePlan {
    /// The host behind the port, by its place in the scenario's hosts.
    pub host: usize,
    /// Data frames are captured from then on,
    pub data_from: Time,
    /// and no more than this many.
    pub data_frames: u32,
}

/// A host and its link.
#[derive(Clone, Debug)]
pub struct HostPlan {
    /// Its name.
    pub name: String,
    /// The switch's port, by its place in the configuration.
    pub port: usize,
    /// Propagation delay of the link, one way.
    pub link_delay: Span,
    /// The NIC.
    pub nic: HostConfig,
}

/// A flow and its ends.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// Its name.
    pub name: String,
    /// The sending host, by its place.
    pub from: usize,
    /// The receiving host, by its place.
    pub to: usize,
    /// What it sends. The peer is one of the receiving host's queue pairs.
    pub config: FlowConfig,
}

/// A part of the run.
#[derive(Clone, Debug)]
pub struct WindowPlan {
    /// Its name.
    pub name: String,
    /// When it begins.
    pub from: Time,
    /// When it ends.
    pub to: Time,
}

/// The ends of flows that one host has.
#[derive(Clone, Debug, Default)]
pub struct HostFlows {
    /// What it sends, and each one's place among the scenario's flows.
    pub sends: Vec<(usize, FlowConfig)>,
    /// What it receives on, and each one's place among the scenario's flows.
    pub receives: Vec<(usize, ReceiverConfig)>,
}

impl Scenario {
    /// The flows that begin or end at a host.
    pub fn flows_of(&self, host: usize) -> HostFlows {
        let numbered = || self.flows.iter().enumerate();
        let sends = numbered().filter(|(_, flow)| flow.from == host).map(|(n, flow)| (n, flow.config.clone()));
        let receives = numbered()
            .filter(|(_, flow)| flow.to == host)
            .map(|(n, flow)| (n, flow.config.receiver(&self.hosts[flow.from].nic)));
        HostFlows { sends: sends.collect(), receives: receives.collect() }
    }

    /// The name of a host's port.
    pub fn port_name(&self, host: usize) -> &str {
        &self.switch.ports[self.hosts[host].port].name
    }
}
