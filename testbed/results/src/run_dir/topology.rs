//! `topology.json`: the switches, hosts and links of a run, for drawing them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_scenario::{LinkRef, PortRef, Scenario};
use weir_units::Time;

/// Switches, hosts and the links that join them, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Names of the switches.
    pub switches: Vec<String>,
    /// Hosts, each once for each of its ports.
    pub hosts: Vec<HostPlace>,
    /// Links between switches.
    pub links: Vec<SwitchLink>,
    /// Ports that the scenario draws, by their names in `series.csv`.
    pub drawn: Vec<String>,
}

/// Host and its link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostPlace {
    /// Name of the host.
    pub name: String,
    /// Switch port of the host's link.
    pub at: PortName,
    /// Rate of the host's NIC, bits a second.
    pub rate_bps: u64,
    /// Propagation delay of the host's link, one way.
    pub delay_ns: u64,
    /// Number of ports that copy the frames received at the host's port.
    pub copies: u64,
    /// Outages of the host's link.
    pub outages: Vec<OutageTimes>,
}

/// Link between switches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchLink {
    /// Ports at the ends of the link.
    pub ends: [PortName; 2],
    /// Rate of the first end's port, bits a second; null if its configuration sets none.
    pub rate_bps: Option<u64>,
    /// Propagation delay, one way.
    pub delay_ns: u64,
    /// Outages of the link.
    pub outages: Vec<OutageTimes>,
}

/// Port of a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortName {
    /// Name of the switch.
    pub switch: String,
    /// Name of the port.
    pub port: String,
}

/// Outage of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutageTimes {
    /// Start of the outage.
    pub from_ns: u64,
    /// End of the outage; null if permanent.
    pub until_ns: Option<u64>,
}

impl Topology {
    /// Builds the topology of a scenario.
    pub fn from_scenario(scenario: &Scenario) -> Topology {
        let port_name = |place: PortRef| {
            let switch = &scenario.switches[place.switch];
            PortName { switch: switch.name.clone(), port: switch.ports[place.port].name.clone() }
        };
        let outages = |link: LinkRef| {
            let of_link = scenario.outages.iter().filter(move |outage| outage.link == link);
            let until = |until: Time| (until != Time::NEVER).then(|| until.as_nanos());
            of_link.map(|outage| OutageTimes { from_ns: outage.at.as_nanos(), until_ns: until(outage.until) }).collect()
        };
        let mut copies: BTreeMap<(usize, &str), u64> = BTreeMap::new();
        for (switch, config) in scenario.switches.iter().enumerate() {
            for copied in config.ports.iter().filter_map(|port| port.clone_of()) {
                *copies.entry((switch, copied)).or_default() += 1;
            }
        }
        let hosts = scenario.hosts.iter().enumerate().map(|(n, host)| {
            let at = port_name(host.place());
            HostPlace {
                name: scenario.host_name(n).to_owned(),
                rate_bps: host.nic.rate.as_bps(),
                delay_ns: host.link_delay.as_nanos(),
                copies: copies.get(&(host.switch, at.port.as_str())).copied().unwrap_or(0),
                outages: outages(LinkRef::ToHost(n)),
                at,
            }
        });
        let links = scenario.links.iter().enumerate().map(|(n, link)| SwitchLink {
            ends: link.ends.map(port_name),
            rate_bps: scenario.switches[link.ends[0].switch].ports[link.ends[0].port].rate.map(|rate| rate.as_bps()),
            delay_ns: link.delay.as_nanos(),
            outages: outages(LinkRef::Between(n)),
        });
        Topology {
            switches: scenario.switches.iter().map(|switch| switch.name.clone()).collect(),
            hosts: hosts.collect(),
            links: links.collect(),
            drawn: scenario.draw.iter().map(|place| scenario.port_name(*place)).collect(),
        }
    }
}
