//! Scenarios that need virtual time.

use weir_nic::host::{FrameSizes, Transport};
use weir_units::{LINK_OVERHEAD, PortSet, SerialisationRounding};

use super::{FlowPlan, HostPlan, Scenario, TrafficPlan};
use crate::workload::MessageGraph;

/// Maximum number of workloads' messages with real frames.
const REAL_MESSAGES_MAX: usize = 10_000;

impl Scenario {
    /// Describes the scenario's features that need virtual time, in a sentence; `None` if the scenario can run in real time.
    pub fn needs_virtual_time(&self) -> Option<String> {
        let of_routes = || {
            let what = "its switches choose among ports of equal cost, which takes virtual time";
            self.routes.as_ref().filter(|routes| routes.have_choices()).map(|_| what.to_owned())
        };
        let of_ports = || {
            let wide = self.switches.iter().find(|switch| switch.ports.len() > PortSet::PORTS_MAX)?;
            Some(format!(
                "switch {} has {} ports, and with real frames a switch has {} at most: more take virtual time",
                wide.name,
                wide.ports.len(),
                PortSet::PORTS_MAX
            ))
        };
        let of_hosts = || {
            let port = self.hosts.iter().find(|host| host.first_port.is_some())?;
            Some(format!("host {} has several ports, which takes virtual time", self.hosts[port.first_port?].name))
        };
        let of_outages = || self.outages.first().map(|_| "its links are cut in virtual time only".to_owned());
        let of_changes =
            || self.changes.first().map(|_| "its switches' settings change in virtual time only".to_owned());
        let of_llr = || {
            let has_llr =
                self.links.iter().any(|link| link.llr.is_some()) || self.hosts.iter().any(|host| host.llr.is_some());
            has_llr.then(|| "its links send lost frames again (`llr`), which takes virtual time".to_owned())
        };
        let of_frames = || {
            let is_real = |host: &HostPlan| host.nic.sizes == FrameSizes::rocev2(host.nic.sizes.payload_max);
            let is_made_up = self.link_overhead != LINK_OVERHEAD || !self.hosts.iter().all(is_real);
            is_made_up.then(|| "its frames have lengths that real ones have not: they take virtual time".to_owned())
        };
        let of_times = || {
            let is_made_up = self.frame_times != SerialisationRounding::Exact;
            is_made_up.then(|| "its frames take whole nanoseconds on links, which takes virtual time".to_owned())
        };
        let of_buffers = || {
            if !self.unbuffered.is_empty() {
                return Some("its switches' buffers do not count all classes, which takes virtual time".to_owned());
            }
            let is_so = self.unscheduled_alpha.is_some();
            is_so.then(|| "its switches distinguish unscheduled frames, which takes virtual time".to_owned())
        };
        let of_flows = || {
            let is_emulated = |flow: &&FlowPlan| !self.is_real(flow.from);
            let is_tcp = |flow: &&FlowPlan| matches!(flow.config.transport, Transport::Tcp(_));
            let over_tcp = self.flows.iter().filter(is_emulated).find(is_tcp)?;
            Some(format!("flow {} is over TCP, which takes virtual time", over_tcp.name))
        };
        let of_traffic = || {
            let over_tcp = self.traffic.iter().find(|plan| matches!(plan.transport, Transport::Tcp(_)))?;
            Some(format!("workload {} is over TCP, which takes virtual time", over_tcp.name))
        };
        let of_selective = || {
            let flow =
                self.flows.iter().find(|flow| flow.config.is_selective()).map(|flow| format!("flow {}", flow.name));
            let is_selective = |plan: &&TrafficPlan| plan.loss_recovery.is_selective();
            let traffic = || self.traffic.iter().find(is_selective).map(|plan| format!("workload {}", plan.name));
            let name = flow.or_else(traffic)?;
            Some(format!("{name} has `loss_recovery` \"selective\", which takes virtual time"))
        };
        let of_loops = || {
            let closed = self.traffic.iter().find(|plan| plan.closed_loop().is_some())?;
            Some(format!("workload {} is a closed loop, which takes virtual time", closed.name))
        };
        let of_graph = || {
            let crosses_no_port = |plan: &&TrafficPlan| {
                let mut messages = plan.graph().into_iter().flat_map(MessageGraph::messages);
                messages.any(|message| {
                    self.servers_for(plan, [message.from, message.to].map(|host| host as usize)).is_some()
                })
            };
            let graph = self.traffic.iter().find(crosses_no_port)?;
            Some(format!(
                "messages of workload {} stay within a server, on a link that exists in virtual time only",
                graph.name
            ))
        };
        let of_digests = || {
            self.digest().map(|_| "its switches write load digests (hpcc-pint), which takes virtual time".to_owned())
        };
        let of_messages = || {
            let messages: usize = self.traffic.iter().map(|plan| plan.messages().len()).sum();
            (messages > REAL_MESSAGES_MAX).then(|| {
                format!(
                    "its workloads have {messages} messages, and with real frames no more than {REAL_MESSAGES_MAX} are possible, \
                     as the connection of each is open from the start: they take virtual time"
                )
            })
        };
        of_ports()
            .or_else(of_hosts)
            .or_else(of_routes)
            .or_else(of_outages)
            .or_else(of_changes)
            .or_else(of_llr)
            .or_else(of_frames)
            .or_else(of_times)
            .or_else(of_buffers)
            .or_else(of_flows)
            .or_else(of_traffic)
            .or_else(of_selective)
            .or_else(of_loops)
            .or_else(of_graph)
            .or_else(of_digests)
            .or_else(of_messages)
    }
}
