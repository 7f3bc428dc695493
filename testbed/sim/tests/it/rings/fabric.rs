//! Fabrics of switches, hosts and flows in a few words, made into scenarios.

use std::fmt::Write;
use std::net::Ipv4Addr;

use weir_config::SwitchConfig;
use weir_nic::host::{FlowConfig, FrameSizes, HostConfig};
use weir_scenario::link::FaultPlan;
use weir_scenario::{FlowPlan, HostPlan, LinkPlan, PortRef, Scenario};
use weir_sim::Sim;
use weir_switch_core::flow_control::port_flow_control;
use weir_units::{BitRate, Bytes, Class, MacAddr, Span, Time};
use weir_wire::rocev2::{Dscp, PathMtu, QueuePair};

/// The class of all data.
pub(crate) const CLASS: Class = Class::new(3);

/// Switches S1, S2, … with hosts H1, H2, … and the links between them.
#[derive(Clone, Debug)]
pub(crate) struct Fabric {
    pub switches: usize,
    pub mtu: PathMtu,
    pub message: Bytes,
    pub cell_bytes: u32,
    /// Keys of the data class's queues.
    pub queue: String,
    /// T of the policy `static`, Φ, and δ.
    pub threshold: Bytes,
    pub headroom: Bytes,
    pub xon_offset: Bytes,
    /// Extra tables.
    pub extra: String,
    /// Between switches. Frames go along links from the first end to the second where that leads to where they are to go.
    pub links: Vec<Joint>,
    /// Each at its switch.
    pub hosts: Vec<(usize, Joint)>,
    pub flows: Vec<Flow>,
}

/// A link: the switches at its ends (a host's has but one), and what both ends speak.
#[derive(Clone, Debug)]
pub(crate) struct Joint {
    pub ends: [usize; 2],
    pub rate: BitRate,
    pub delay: Span,
    /// `flow_control` of the ports at its ends.
    pub flow_control: String,
    pub faults: [FaultPlan; 2],
}

/// Back-to-back messages from one host to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub from: usize,
    pub to: usize,
    pub start: Time,
    pub stop: Time,
}

impl Joint {
    pub(crate) fn new(ends: [usize; 2], rate: BitRate, delay: Span, flow_control: &str) -> Joint {
        Joint { ends, rate, delay, flow_control: flow_control.to_owned(), faults: Default::default() }
    }
}

impl Fabric {
    /// `n` switches in a ring, links leading on from each to the next, and a host at each.
    pub(crate) fn ring(n: usize, rate: BitRate, delay: Span, flow_control: &str) -> Fabric {
        Fabric {
            switches: n,
            mtu: PathMtu::BYTES_1024,
            message: Bytes::kb(256),
            cell_bytes: 1,
            queue: String::new(),
            threshold: Bytes::mb(1),
            headroom: Bytes::kb(10),
            xon_offset: Bytes::kb(3),
            extra: String::new(),
            links: (0..n).map(|at| Joint::new([at, (at + 1) % n], rate, delay, flow_control)).collect(),
            hosts: (0..n).map(|at| (at, Joint::new([at, at], rate, delay, flow_control))).collect(),
            flows: Vec::new(),
        }
    }

    pub(crate) fn sim(&self) -> Sim {
        Sim::new(&self.scenario()).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn scenario(&self) -> Scenario {
        let switches: Vec<SwitchConfig> = (0..self.switches).map(|at| self.switch(at)).collect();
        let hosts: Vec<HostPlan> = (0..self.hosts.len()).map(|n| self.host(n, &switches)).collect();
        let flows = self.flows.iter().zip(0..).map(|(flow, n)| {
            let peer = hosts[flow.to].nic.peer(QueuePair::new(2_000 + n));
            FlowPlan {
                name: format!("F{}", n + 1),
                from: flow.from,
                to: flow.to,
                config: FlowConfig {
                    message: self.message,
                    start: flow.start,
                    stop: flow.stop,
                    ..FlowConfig::new(QueuePair::new(1_000 + n), peer, CLASS, Dscp::new(3))
                },
            }
        });
        let links = self.links.iter().enumerate().map(|(n, joint)| LinkPlan {
            ends: [0, 1].map(|end| PortRef { switch: joint.ends[end], port: self.port_of_link(n, end) }),
            delay: joint.delay,
            faults: joint.faults,
            llr: None,
        });
        Scenario {
            links: links.collect(),
            flows: flows.collect(),
            end: Time::NEVER,
            ..Scenario::new("fabric", "static", switches, hosts)
        }
    }

    fn host(&self, n: usize, switches: &[SwitchConfig]) -> HostPlan {
        let (switch, joint) = &self.hosts[n];
        let (config, port) = (&switches[*switch], self.port_of_host(n));
        let mut nic = HostConfig::new(mac(n), Ipv4Addr::new(10, 0, 0, n as u8 + 1), joint.rate);
        nic.sizes = FrameSizes::rocev2(self.mtu.get() as u16);
        nic.flow_control = port_flow_control(config, port, joint.rate).unwrap().for_host();
        nic.lossless = config.classes.lossless;
        nic.queue_of_dscp = config.classes.map.dscp;
        nic.group_of_dscp = nic.queue_of_dscp;
        HostPlan {
            name: format!("H{}", n + 1),
            switch: *switch,
            port,
            first_port: None,
            link_delay: joint.delay,
            faults: joint.faults,
            llr: None,
            nic,
            device: None,
        }
    }

    /// The ports of a switch: its hosts', then those of links, in order.
    pub(crate) fn port_of_host(&self, n: usize) -> usize {
        self.hosts[..n].iter().filter(|(switch, _)| *switch == self.hosts[n].0).count()
    }

    pub(crate) fn port_of_link(&self, n: usize, end: usize) -> usize {
        let at = self.links[n].ends[end];
        let hosts = self.hosts.iter().filter(|(switch, _)| *switch == at).count();
        let before =
            self.links[..n].iter().flat_map(|joint| joint.ends).chain(self.links[n].ends[..end].iter().copied());
        hosts + before.filter(|switch| *switch == at).count()
    }

    fn switch(&self, at: usize) -> SwitchConfig {
        let of_hosts = self.hosts.iter().filter(|(switch, _)| *switch == at).map(|(_, joint)| joint);
        let of_links = self.links.iter().flat_map(|joint| joint.ends.map(|end| (end, joint)));
        let of_links = of_links.filter(|(end, _)| *end == at).map(|(_, joint)| joint);
        let ports: Vec<&Joint> = of_hosts.chain(of_links).collect();
        let frame = self.mtu.get() + 74;
        let size = (self.threshold + self.headroom) * ports.len() as u64 + Bytes::mb(1);
        let mut text = format!(
            "[switch]\nname = \"S{}\"\nmtu = {frame}\n[buffer]\nsize = \"{size}\"\ncell_bytes = {}\nheadroom = \"{}\"\n\
             xon_offset = \"{}\"\npolicy = \"static\"\n[buffer.static]\nthreshold = \"{}\"\n[classes]\nlossless = [3]\n\
             [[classes.queues]]\nclass = 6\nstrict = true\n[[classes.queues]]\nclass = 3\nquantum = 9000\n{}\n\
             [pfc]\nreaction = \"0s\"\n{}\n",
            at + 1,
            self.cell_bytes,
            self.headroom,
            self.xon_offset,
            self.threshold,
            self.queue,
            self.extra,
        );
        for (port, Joint { rate, delay, flow_control, .. }) in ports.into_iter().enumerate() {
            writeln!(
                text,
                "[[ports]]\nname = \"p{port}\"\nring = \"s{at}p{port}\"\nrate = \"{rate}\"\ndelay = \"{delay}\"\n\
                 flow_control = {flow_control}"
            )
            .unwrap();
        }
        for (n, (switch, _)) in self.hosts.iter().enumerate() {
            let port = if *switch == at { self.port_of_host(n) } else { self.port_toward(at, *switch) };
            writeln!(text, "[[static_macs]]\nmac = \"{}\"\nport = \"p{port}\"", mac(n)).unwrap();
        }
        weir_config::parse("fabric.toml", &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
    }

    /// Along the links that lead on, else back.
    fn port_toward(&self, at: usize, to: usize) -> usize {
        let leading_on = |from: usize| (0..self.links.len()).find(|n| self.links[*n].ends[0] == from);
        let mut reached = at;
        for _ in 0..self.switches {
            let Some(n) = leading_on(reached) else { break };
            reached = self.links[n].ends[1];
            if reached == to {
                return self.port_of_link(leading_on(at).expect("the first of the way"), 0);
            }
        }
        let back = (0..self.links.len()).find(|n| self.links[*n].ends[1] == at).expect("a link that leads here");
        self.port_of_link(back, 1)
    }
}

fn mac(host: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, host as u8 + 1])
}
