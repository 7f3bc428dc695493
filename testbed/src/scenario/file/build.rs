//! A run's scenario, made of the file's plan.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use weir_config::settings::Draft;
use weir_config::{ConfigErrors, Device, SwitchConfig, Trust};
use weir_flowctl::Mechanism;
use weir_switch_core::flow_control::{self, mechanism};
use weir_units::{BitRate, Class, Span, Time};

use super::complaints::Complaints;
use super::compose::{draft, mac_of_host};
use super::plan::Plan;
use super::topology::{HostPart, PortName};
use super::traffic::FlowPart;
use crate::host::{CongestionControl, DcqcnConfig, FlowConfig, FrameSizes, HostConfig, Transport};
use crate::rocev2::{Dscp, OVERHEAD_BYTES_MAX, PathMtu, QueuePair};
use crate::scenario::{CapturePlan, FlowPlan, HostPlan, LinkPlan, PortPlace, REAL_LINK_OVERHEAD, Scenario};

/// Code point of acknowledgements and congestion notifications.
const ACK_DSCP: Dscp = Dscp::new(48);
/// An Ethernet header, which the switch's MTU does not count.
const ETHERNET_BYTES: usize = 14;

/// Makes the scenario of a run; what is wrong goes to `complaints`.
pub(super) fn scenario(plan: &Plan, run: usize, time_dilation: u32, complaints: &mut Complaints) -> Option<Scenario> {
    let before = complaints.len();
    let switches = switches(plan, run, time_dilation, complaints)?;
    let build = Build { plan, run, switches };
    build.check_flow_control(complaints);
    build.check_devices(complaints);
    let hosts = build.hosts(complaints);
    let flows = build.flows(&hosts, complaints);
    (complaints.len() == before).then(|| build.scenario(hosts, flows))
}

/// Reads the switches' files; none if any of them has errors.
fn switches(
    plan: &Plan,
    run: usize,
    time_dilation: u32,
    complaints: &mut Complaints,
) -> Option<Vec<(SwitchConfig, Draft)>> {
    let mut read = Vec::new();
    for switch in 0..plan.topology.switches.len() {
        let draft = draft(plan, &plan.runs[run], switch, time_dilation);
        match draft.read() {
            Ok(config) => read.push((config, draft)),
            Err(errors) => complaints.add(run, Some(switch), errors),
        }
    }
    (read.len() == plan.topology.switches.len()).then_some(read)
}

/// A run whose switches are good.
struct Build<'p> {
    plan: &'p Plan,
    run: usize,
    switches: Vec<(SwitchConfig, Draft)>,
}

impl Build<'_> {
    fn config(&self, switch: usize) -> &SwitchConfig {
        &self.switches[switch].0
    }

    /// The place of a port, which each of the switches' files has that was read from the plan.
    fn place(&self, port: &PortName) -> PortPlace {
        let ports = &self.config(port.switch).ports;
        let place = ports.iter().position(|other| other.name == port.port);
        PortPlace { switch: port.switch, port: place.expect("the file was made with this port") }
    }

    fn refuse_of_switch(&self, switch: usize, errors: ConfigErrors, complaints: &mut Complaints) {
        complaints.add(self.run, Some(switch), self.switches[switch].1.traced(errors));
    }

    fn refuse(&self, key: &str, message: String, help: impl Into<String>, complaints: &mut Complaints) {
        complaints.add(self.run, None, self.plan.source.error_at(key, message, help));
    }

    /// Thresholds that break their theorem, queues that the buffer does not keep enough for, and links whose ends do not understand each other.
    fn check_flow_control(&self, complaints: &mut Complaints) {
        for (switch, (config, _)) in self.switches.iter().enumerate() {
            if let Err(errors) = flow_control::check(config) {
                self.refuse_of_switch(switch, errors, complaints);
            }
        }
        for link in &self.plan.topology.links {
            let kinds = link.ends.each_ref().map(|end| {
                let place = self.place(end);
                self.config(place.switch).ports[place.port].flow_control.name()
            });
            if kinds[0] != kinds[1] {
                let ends = link.ends.each_ref().map(|end| self.plan.topology.shown(end));
                let message = format!("{} speaks {}, but {} speaks {}", ends[0], kinds[0], ends[1], kinds[1]);
                let help = "give both ports of a link the same flow_control";
                self.refuse(&format!("links[{}].ends", link.number), message, help, complaints);
            }
        }
    }

    /// Devices that two ports or hosts share.
    fn check_devices(&self, complaints: &mut Complaints) {
        let mut seen: Vec<(&Device, Option<(usize, usize)>)> = Vec::new();
        let of_switches = self.switches.iter().enumerate().flat_map(|(switch, (config, _))| {
            let devices = config.ports.iter().map(|port| &port.device).enumerate();
            devices.map(move |(port, device)| (device, Some((switch, port)), 0))
        });
        let of_hosts =
            self.plan.topology.hosts.iter().filter_map(|host| Some((host.device.as_ref()?, None, host.number)));
        for (device, of_port, host) in of_switches.chain(of_hosts) {
            // What two ports of one file share was told with it.
            let is_told = |other: &Option<(usize, usize)>| matches!((of_port, other), (Some((switch, _)), Some((other, _))) if switch == *other);
            if seen.iter().any(|(other, at)| device.shares_with(other) && !is_told(at)) {
                let message = format!("{device} is used twice");
                let help = "give each port and host its own device";
                match of_port {
                    Some((switch, port)) => {
                        let key = format!("ports[{port}].{}", device.key());
                        let errors = self.config(switch).error_at(&key, message, help);
                        self.refuse_of_switch(switch, errors, complaints);
                    }
                    None => self.refuse(&format!("hosts[{host}].device"), message, help, complaints),
                }
            }
            seen.push((device, of_port));
        }
    }

    fn hosts(&self, complaints: &mut Complaints) -> Vec<HostPlan> {
        let hosts = self.plan.topology.hosts.iter().enumerate();
        hosts.filter_map(|(number, host)| self.host(number, host, complaints)).collect()
    }

    fn host(&self, number: usize, host: &HostPart, complaints: &mut Complaints) -> Option<HostPlan> {
        let place = self.place(&host.port);
        let config = self.config(place.switch);
        let port = &config.ports[place.port];
        let Some(rate) = port.rate else {
            let message = format!("host {} has no `rate`", host.name);
            let help = "write rate = \"10Gbps\" in [[hosts]] or [switch.port]";
            self.refuse(&format!("hosts[{}].rate", host.number), message, help, complaints);
            return None;
        };
        self.check_mtu(host, config, complaints);
        // What breaks a theorem was told of the switch.
        let flow_control = match mechanism(config, place.port, rate).ok()? {
            // A host is what the pulses are for: it knows PFC alone.
            Mechanism::GfcPulse { .. } => {
                Mechanism::Pfc { quanta: config.pfc.quanta, refresh_percent: config.pfc.refresh_percent }
            }
            other => other,
        };
        let class_of_dscp = config.classes.dscp;
        let is_emulated = host.device.is_none();
        Some(HostPlan {
            name: host.name.clone(),
            switch: place.switch,
            port: place.port,
            device: host.device.clone(),
            link_delay: if is_emulated { port.delay } else { Span::ZERO },
            faults: host.faults,
            nic: HostConfig {
                mac: mac_of_host(number),
                // 10.0.0.1 and on.
                ip: Ipv4Addr::from(0x0a00_0001 + number as u32),
                rate,
                sizes: FrameSizes::rocev2(host.mtu.get() as u16),
                ack_dscp: ACK_DSCP,
                ack_class: Class::new(class_of_dscp[usize::from(ACK_DSCP.get())]),
                slack: Span::ZERO,
                flow_control,
                lossless: config.classes.lossless,
                class_of_dscp,
                receive: None,
            },
        })
    }

    fn check_mtu(&self, host: &HostPart, config: &SwitchConfig, complaints: &mut Complaints) {
        let payload = |mtu: PathMtu| (mtu.get() + OVERHEAD_BYTES_MAX - ETHERNET_BYTES) as u64;
        if payload(host.mtu) <= config.mtu.get() {
            return;
        }
        let message = format!(
            "frames of host {} carry {} B with the headers of a path MTU of {} B, but the switch's `mtu` is {}",
            host.name,
            payload(host.mtu),
            host.mtu.get(),
            config.mtu.get()
        );
        let help = format!("write mtu = {} or more in [switch], or a smaller mtu in [[hosts]]", payload(host.mtu));
        self.refuse(&format!("hosts[{}].mtu", host.number), message, help, complaints);
    }

    fn flows(&self, hosts: &[HostPlan], complaints: &mut Complaints) -> Vec<FlowPlan> {
        if self.plan.flows.is_empty() || !self.trusts_dscp(complaints) {
            return Vec::new();
        }
        // With a host left out the others would have wrong places.
        let all_there = hosts.len() == self.plan.topology.hosts.len();
        let with_dscp = self.plan.flows.iter().map(|flow| (flow, self.dscp(flow, complaints))).collect::<Vec<_>>();
        let flow = |(flow, dscp): (&FlowPart, Option<Dscp>)| Some(flow_plan(flow, dscp?, hosts));
        if all_there { with_dscp.into_iter().filter_map(flow).collect() } else { Vec::new() }
    }

    /// Hosts tag no frame, so that only a code point tells its class.
    fn trusts_dscp(&self, complaints: &mut Complaints) -> bool {
        let mut all = true;
        for (switch, (config, _)) in self.switches.iter().enumerate() {
            if config.classes.trust != Trust::Dscp {
                let message = "emulated hosts tell the class of a frame by its DSCP, which `trust` does not read";
                let errors = config.error_at("classes.trust", message, "write trust = \"dscp\"");
                self.refuse_of_switch(switch, errors, complaints);
                all = false;
            }
        }
        all
    }

    /// The first code point that all switches give a flow's class to.
    fn dscp(&self, flow: &FlowPart, complaints: &mut Complaints) -> Option<Dscp> {
        let class = flow.class.index();
        let maps = || self.switches.iter().map(|(config, _)| &config.classes.dscp);
        let has_class = |map: &[u8; 64], point: usize| usize::from(map[point]) == class;
        let common = (0..64).find(|point| maps().all(|map| has_class(map, *point)));
        if common.is_none() {
            let without =
                self.switches.iter().find(|(config, _)| !(0..64).any(|point| has_class(&config.classes.dscp, point)));
            let message = match without {
                Some((config, _)) => format!("switch {} gives class {class} to no DSCP", config.name),
                None => format!("the switches give class {class} to different DSCPs"),
            };
            let help = format!("write another class, or {class} for a DSCP in [switch.classes.dscp]: 40 = {class}");
            self.refuse(&format!("flows[{}].class", flow.number), message, help, complaints);
        }
        common.map(|point| Dscp::new(point as u8))
    }

    fn scenario(self, hosts: Vec<HostPlan>, flows: Vec<FlowPlan>) -> Scenario {
        let plan = self.plan;
        let links = plan.topology.links.iter().map(|link| {
            let ends = link.ends.each_ref().map(|end| self.place(end));
            let delays = ends.map(|end| self.config(end.switch).ports[end.port].delay);
            let is_emulated = link.devices.is_none();
            LinkPlan {
                ends,
                delay: if is_emulated { delays[0].max(delays[1]) } else { Span::ZERO },
                faults: link.faults,
            }
        });
        let draw = match &plan.draw {
            Some(ports) => ports.iter().map(|port| self.place(port)).collect(),
            None => hosts.iter().map(HostPlan::place).collect(),
        };
        Scenario {
            name: plan.name.clone(),
            policy: self.all_of(|config| config.buffer.policy.name()),
            parameters: self.parameters(),
            links: links.collect(),
            capture: plan.capture.map(|capture| CapturePlan {
                host: capture.host,
                data_from: capture.data_from,
                data_frames: capture.data_frames,
            }),
            draw,
            hosts,
            flows,
            traffic: Vec::new(),
            routes: None,
            outages: Vec::new(),
            link_overhead: REAL_LINK_OVERHEAD,
            warm_up: Time::ZERO,
            windows: plan.windows.clone(),
            sample_every: plan.sample_every,
            end: plan.end,
            notes: Vec::new(),
            switches: self.switches.into_iter().map(|(config, _)| config).collect(),
        }
    }

    fn parameters(&self) -> BTreeMap<String, String> {
        let flow_control = self.all_of(|config| config.ports.first().map_or("", |port| port.flow_control.name()));
        [("run", self.plan.runs[self.run].name.clone()), ("flow_control", flow_control)]
            .map(|(name, value)| (name.to_owned(), value))
            .into()
    }

    /// What the switches have, each thing once.
    fn all_of(&self, what: impl Fn(&SwitchConfig) -> &'static str) -> String {
        let mut all: Vec<&str> = Vec::new();
        for (config, _) in &self.switches {
            let one = what(config);
            if !all.contains(&one) {
                all.push(one);
            }
        }
        all.join(", ")
    }
}

fn flow_plan(flow: &FlowPart, dscp: Dscp, hosts: &[HostPlan]) -> FlowPlan {
    // A queue pair's number tells the flow, and which of its ends it is.
    let number = |end: usize| QueuePair::new((end << 16 | flow.number) as u32);
    let line: BitRate = hosts[flow.from].nic.rate;
    let config = FlowConfig {
        queue_pair: number(1),
        peer: hosts[flow.to].nic.peer(number(2)),
        class: flow.class,
        dscp,
        message: flow.message,
        start: flow.start,
        stop: flow.stop,
        repeat: flow.repeat,
        rate: flow.rate,
        congestion_control: match flow.has_dcqcn {
            true => CongestionControl::Dcqcn(DcqcnConfig::paper(line)),
            false => CongestionControl::None,
        },
        total: flow.total,
        ack_every: None,
        retransmission: None,
        transport: Transport::Rdma,
    };
    FlowPlan { name: flow.name.clone(), from: flow.from, to: flow.to, config }
}
