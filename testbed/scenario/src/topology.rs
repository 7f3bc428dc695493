//! Fabrics of switches, hosts and links, and the shortest paths through them, as plain data.
//!
//! A [`Fabric`] is a graph of ports, with each link's rate and delay. Builders make the papers' fabrics ([`SingleSwitch`], [`Dumbbell`],
//! [`Ring`], [`LeafSpine`], [`Clos`], [`FatTree`], [`Rails`]). Others are built with [`Fabric::add_switch`], [`Fabric::add_host`] and
//! [`Fabric::join`], and checked with [`Fabric::check`]. Links fail by name ([`Fabric::fail`]). [`Routes`] has the equal-cost next ports
//! of every switch toward every host.

mod clos;
mod dependencies;
mod failures;
mod ideal;
mod leaf_spine;
mod names;
mod rails;
mod routes;
mod small;
mod wiring;

use weir_units::{BitRate, LargePortSet, PortBitmap, Span};

use self::wiring::Wiring;
use crate::port_ref::{LinkPeer, PortRef};

pub use self::clos::{Clos, FatTree, Uplinks};
pub use self::failures::LinkNameError;
pub(crate) use self::ideal::base_rtt;
pub use self::ideal::{Framing, PathDelay, delivery, ideal_fct};
pub use self::leaf_spine::LeafSpine;
pub use self::rails::{Rails, RailsUplinks};
pub use self::routes::{Routes, Unreachable};
pub use self::small::{Dumbbell, Ring, SingleSwitch};

/// Maximum number of ports of a switch in virtual time; with real frames it is [`PortSet::PORTS_MAX`](weir_units::PortSet::PORTS_MAX).
pub const PORTS_MAX: usize = <LargePortSet as PortBitmap>::PORTS_MAX;
/// Maximum number of ports of a fat-tree's switches, which then has 65,536 hosts.
pub(crate) const K_MAX: usize = 64;
/// Maximum number of switches of a fabric.
pub(crate) const SWITCHES_MAX: usize = 65_534;

/// Graph of switches, hosts and links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fabric {
    /// Switches of the fabric.
    pub switches: Vec<SwitchNode>,
    /// Hosts, each with a link of its own; then the further ports of hosts with several.
    pub hosts: Vec<HostNode>,
    /// Links between switches.
    pub links: Vec<FabricLink>,
}

/// Switch of a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchNode {
    /// Name of the switch.
    pub name: String,
    /// Number of ports, numbered from 0 in the order in which hosts and links were attached: [`PORTS_MAX`] at most.
    pub ports: usize,
}

/// Host, and its link to a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostNode {
    /// Name of the host.
    pub name: String,
    /// The switch's port.
    pub at: PortRef,
    /// The link's rate, both ways.
    pub rate: BitRate,
    /// Propagation delay of the link, one way.
    pub delay: Span,
    /// Index of the host if this is a further port of it, which comes after all hosts.
    pub first_port: Option<usize>,
}

/// Link between two switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricLink {
    /// The ports at its ends.
    pub ends: [PortRef; 2],
    /// Rate of the link, both ways.
    pub rate: BitRate,
    /// Propagation delay of the link, one way.
    pub delay: Span,
    /// Whether the link is up.
    pub is_up: bool,
}

/// Rate and propagation delay of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkSpec {
    /// Rate, both ways.
    pub rate: BitRate,
    /// Propagation delay, one way.
    pub delay: Span,
}

/// Error in a fabric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// The name can't be part of a port's name.
    #[error(
        "\"{0}\" can't name a switch or host: write 1 to 24 letters, digits, _ or -, the first not -, not `to-...`"
    )]
    Name(String),
    /// Two nodes have the same name.
    #[error("two nodes are named {0}: give each switch and each host a name of its own")]
    NameTwice(String),
    /// An element occurs too rarely.
    #[error("{of} takes {fewest} {what} at least, not {given}")]
    TooFew {
        /// Kind of the fabric.
        of: &'static str,
        /// Kind of element that is too few.
        what: &'static str,
        /// Number given.
        given: usize,
        /// Minimum number.
        fewest: usize,
    },
    /// The switch has too many ports.
    #[error("{switch} would have {ports} ports: take fewer hosts, switches or parallel links, for {PORTS_MAX} at most")]
    TooManyPorts {
        /// The switch, or its role in the fabric.
        switch: String,
        /// Number of ports that the switch would have.
        ports: usize,
    },
    /// The fabric has too many switches.
    #[error("{0} switches: take {SWITCHES_MAX} at most")]
    TooManySwitches(usize),
    /// The fat-tree has an impossible number of ports.
    #[error("a fat-tree has no k = {0}: write an even number from 4 to {K_MAX}")]
    FatTree(usize),
    /// The spines can't be divided evenly among leaves.
    #[error(
        "{spines} spines can't be shared out evenly among a pod's {leaves} leaves: write a multiple of {leaves}, or \
         join every leaf with every spine"
    )]
    Planes {
        /// Number of spines.
        spines: usize,
        /// Number of leaves of a pod.
        leaves: usize,
    },
    /// The GPUs can't be divided evenly among rails.
    #[error("{gpus} GPUs can't be shared out evenly among {rails} rails: write a divisor of {gpus}")]
    Rails {
        /// Number of GPUs of a server.
        gpus: usize,
        /// Number of rails.
        rails: usize,
    },
    /// The oversubscription takes a fraction of a link.
    #[error(
        "a rail's links to {spines} spines can't match those to its {hosts} hosts: write `spines` and `oversubscription` that divide their rate"
    )]
    Oversubscription {
        /// Number of hosts of a rail.
        hosts: usize,
        /// Number of spines.
        spines: usize,
    },
    /// The switches can't be divided evenly among the ports of hosts.
    #[error("{switches} {what} can't be shared out among the {ports} ports of hosts: write a multiple of {ports}")]
    Ports {
        /// Kind of switch.
        what: &'static str,
        /// Number of switches.
        switches: usize,
        /// Number of ports of a host.
        ports: usize,
    },
    /// Several pods have no spines.
    #[error("{0} pods without spines are not joined: give them spines, or take one pod")]
    Apart(usize),
    /// The port has no host or link, or several.
    #[error("port {port} of switch {switch} has {links} hosts and links: put one on each port")]
    Port {
        /// Switch, by its place.
        switch: usize,
        /// Port.
        port: usize,
        /// Number of hosts and links on the port: none, or several.
        links: usize,
    },
    /// The port of a host or a link does not exist.
    #[error(
        "a host or link is on port {port} of switch {switch}, which does not exist: raise the switch's number of ports"
    )]
    NoPort {
        /// Switch, by its place.
        switch: usize,
        /// Port.
        port: usize,
    },
    /// The link joins a switch to itself.
    #[error("a link joins {0} with itself: join it with another switch")]
    Loop(String),
}

impl LinkSpec {
    /// Creates a link of this rate and one-way delay.
    pub const fn new(rate: BitRate, delay: Span) -> LinkSpec {
        LinkSpec { rate, delay }
    }
}

impl Fabric {
    /// Creates an empty fabric.
    pub fn new() -> Fabric {
        Fabric::default()
    }

    /// Adds a switch without ports; returns its index.
    pub fn add_switch(&mut self, name: impl Into<String>) -> usize {
        self.switches.push(SwitchNode { name: name.into(), ports: 0 });
        self.switches.len() - 1
    }

    /// Adds a host on the switch's next port; returns its index.
    ///
    /// # Panics
    /// If there is no such switch.
    pub fn add_host(&mut self, name: impl Into<String>, switch: usize, cable: LinkSpec) -> usize {
        let at = self.next_port(switch);
        self.hosts.push(HostNode { name: name.into(), at, rate: cable.rate, delay: cable.delay, first_port: None });
        self.hosts.len() - 1
    }

    /// Joins the next ports of two switches; returns the link's index.
    ///
    /// # Panics
    /// If there is no such switch.
    pub fn join(&mut self, one: usize, other: usize, cable: LinkSpec) -> usize {
        let ends = [self.next_port(one), self.next_port(other)];
        self.links.push(FabricLink { ends, rate: cable.rate, delay: cable.delay, is_up: true });
        self.links.len() - 1
    }

    /// Makes hosts the ports of fewer hosts. `place` gives the host of each, and the number of the port there, from 0.
    pub(crate) fn join_ports(&mut self, place: impl Fn(usize) -> (usize, usize)) {
        let ports = std::mem::take(&mut self.hosts);
        let mut ports: Vec<((usize, usize), HostNode)> = ports
            .into_iter()
            .enumerate()
            .map(|(n, port)| (place(n), port))
            .map(|((host, port), node)| ((port, host), node))
            .collect();
        ports.sort_by_key(|(place, _)| *place);
        self.hosts.extend(ports.into_iter().map(|((port, host), node)| HostNode {
            name: port_name(&format!("H{host}"), port),
            first_port: (port > 0).then_some(host),
            ..node
        }));
    }

    /// Returns the index of the switch of this name.
    pub fn switch(&self, name: &str) -> Option<usize> {
        self.switches.iter().position(|switch| switch.name == name)
    }

    /// Returns the index of the host of this name.
    pub fn host(&self, name: &str) -> Option<usize> {
        self.hosts.iter().position(|host| host.name == name)
    }

    /// Returns the far end of each port's link, switch by switch.
    ///
    /// # Panics
    /// If the fabric is inconsistent ([`Fabric::check`]).
    pub fn peers(&self) -> Vec<Vec<LinkPeer>> {
        Wiring::new(self).switches().map(|wires| wires.iter().map(|wire| wire.peer).collect()).collect()
    }

    /// Checks the fabric's consistency. Builders' fabrics are consistent; check those that are built by hand.
    pub fn check(&self) -> Result<(), TopologyError> {
        if self.switches.len() > SWITCHES_MAX {
            return Err(TopologyError::TooManySwitches(self.switches.len()));
        }
        names::check(self)?;
        for switch in &self.switches {
            check_ports(&switch.name, switch.ports)?;
        }
        let loops = |link: &&FabricLink| link.ends[0].switch == link.ends[1].switch;
        if let Some(name) = self.links.iter().find(loops).and_then(|link| self.switches.get(link.ends[0].switch)) {
            return Err(TopologyError::Loop(name.name.clone()));
        }
        let mut cables: Vec<Vec<usize>> = self.switches.iter().map(|switch| vec![0; switch.ports]).collect();
        for PortRef { switch, port } in self.places() {
            match cables.get_mut(switch).and_then(|ports| ports.get_mut(port)) {
                Some(cables) => *cables += 1,
                None => return Err(TopologyError::NoPort { switch, port }),
            }
        }
        for (switch, ports) in cables.iter().enumerate() {
            if let Some(port) = ports.iter().position(|cables| *cables != 1) {
                return Err(TopologyError::Port { switch, port, links: ports[port] });
            }
        }
        Ok(())
    }

    /// Returns the ports of hosts and links.
    fn places(&self) -> impl Iterator<Item = PortRef> + '_ {
        self.hosts.iter().map(|host| host.at).chain(self.links.iter().flat_map(|link| link.ends))
    }

    fn next_port(&mut self, switch: usize) -> PortRef {
        let node = &mut self.switches[switch];
        node.ports += 1;
        PortRef { switch, port: node.ports - 1 }
    }
}

impl HostNode {
    /// Returns the link's rate and delay.
    pub fn cable(&self) -> LinkSpec {
        LinkSpec { rate: self.rate, delay: self.delay }
    }
}

impl FabricLink {
    /// Returns the link's rate and delay.
    pub fn cable(&self) -> LinkSpec {
        LinkSpec { rate: self.rate, delay: self.delay }
    }
}

/// Returns the name of a host's port, from 0: the first has the host's name.
pub(crate) fn port_name(host: &str, port: usize) -> String {
    if port == 0 { host.to_owned() } else { format!("{host}-{}", port + 1) }
}

fn check_ports(switch: &str, ports: usize) -> Result<(), TopologyError> {
    let too_many = || TopologyError::TooManyPorts { switch: switch.to_owned(), ports };
    if ports > PORTS_MAX { Err(too_many()) } else { Ok(()) }
}

fn check_fewest(of: &'static str, what: &'static str, given: usize, fewest: usize) -> Result<(), TopologyError> {
    if given < fewest { Err(TopologyError::TooFew { of, what, given, fewest }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CABLE: LinkSpec = LinkSpec::new(BitRate::gbps(10), Span::from_micros(1));

    fn pair() -> Fabric {
        let mut fabric = Fabric::new();
        let [one, other] = ["one", "other"].map(|name| fabric.add_switch(name));
        fabric.add_host("a", one, CABLE);
        fabric.join(one, other, CABLE);
        fabric.add_host("b", other, CABLE);
        fabric.join(one, other, CABLE);
        fabric
    }

    #[test]
    fn ports_are_numbered_as_they_are_attached() {
        let fabric = pair();
        assert_eq!(fabric.check(), Ok(()));
        let place = |switch, port| PortRef { switch, port };
        let (host, port) = (LinkPeer::Host, |switch, port| LinkPeer::Port(place(switch, port)));
        assert_eq!(fabric.peers()[0], [host(0), port(1, 0), port(1, 2)]);
        assert_eq!(fabric.peers()[1], [port(0, 1), host(1), port(0, 2)]);
        assert_eq!((fabric.switch("other"), fabric.host("b"), fabric.host("one")), (Some(1), Some(1), None));
    }

    #[test]
    fn what_does_not_hold_together_is_refused() {
        let refused = |change: &dyn Fn(&mut Fabric)| {
            let mut fabric = pair();
            change(&mut fabric);
            fabric.check().unwrap_err()
        };
        let twice = refused(&|fabric| fabric.hosts[1].at = fabric.hosts[0].at);
        assert_eq!(twice, TopologyError::Port { switch: 0, port: 0, links: 2 });
        let missing = refused(&|fabric| fabric.links[0].ends[1] = PortRef { switch: 2, port: 0 });
        assert_eq!(missing, TopologyError::NoPort { switch: 2, port: 0 });
        let open = refused(&|fabric| fabric.switches[1].ports = 4);
        assert_eq!(open, TopologyError::Port { switch: 1, port: 3, links: 0 });
        let wide = refused(&|fabric| fabric.switches[0].ports = 4_097);
        assert_eq!(
            wide.to_string(),
            "one would have 4097 ports: take fewer hosts, switches or parallel links, for 4096 at most"
        );
        let around = refused(&|fabric| {
            fabric.join(1, 1, CABLE);
        });
        assert_eq!(around, TopologyError::Loop("other".into()));
        assert_eq!(refused(&|fabric| fabric.hosts[0].name = "one".into()), TopologyError::NameTwice("one".into()));
        let crowd = refused(&|fabric| fabric.switches.extend(vec![fabric.switches[0].clone(); SWITCHES_MAX]));
        assert_eq!(crowd, TopologyError::TooManySwitches(SWITCHES_MAX + 2));
    }
}
