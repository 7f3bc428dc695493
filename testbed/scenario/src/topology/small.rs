//! Small fabrics: one switch, two switches, or a ring.

use weir_units::{BitRate, Span};

use super::{Fabric, LinkSpec, SWITCHES_MAX, TopologyError, check_fewest, check_ports};

/// One switch S0 with senders H0, H1, ... on its first ports and receivers R1, R2, ... on the next ones, named as in the SPFC paper's
/// Fig. 3. The flows decide on the direction: the two kinds of hosts differ in their links alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SingleSwitch {
    /// Number of senders.
    pub senders: usize,
    /// Links of the senders.
    pub sender_cable: LinkSpec,
    /// Number of receivers.
    pub receivers: usize,
    /// Links of the receivers.
    pub receiver_cable: LinkSpec,
}

/// Two switches with a bottleneck link between them: senders H0, H1, ... on S0, receivers R1, R2, ... on S1. Each switch's hosts are on
/// its first ports, the bottleneck on the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dumbbell {
    /// Number of senders.
    pub senders: usize,
    /// Number of receivers.
    pub receivers: usize,
    /// The hosts' links.
    pub host_cable: LinkSpec,
    /// Link between the switches.
    pub bottleneck: LinkSpec,
}

/// Switches S1, S2, ... in a ring, with hosts H1, H2, ... in the switches' order: the GFC paper's Fig. 1 for three switches with a host
/// each.
///
/// A switch's hosts are on its first ports. The link from switch n to the next one is link n. S1 has the link to S2 on the next port and
/// that to the last switch after it; all others have the link from the previous switch first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Number of switches.
    pub switches: usize,
    /// Number of hosts on each switch.
    pub hosts_per_switch: usize,
    /// The hosts' links.
    pub host_cable: LinkSpec,
    /// Links between switches.
    pub ring_link: LinkSpec,
}

impl SingleSwitch {
    /// Fabric of the SPFC paper's Fig. 3(a): 30 senders 9 us away and two receivers 1 us away, at 100 Gb/s.
    pub fn spfc() -> SingleSwitch {
        let cable = |us| LinkSpec::new(BitRate::gbps(100), Span::from_micros(us));
        SingleSwitch { senders: 30, sender_cable: cable(9), receivers: 2, receiver_cable: cable(1) }
    }

    /// Builds the fabric.
    ///
    /// # Errors
    /// There are fewer than two hosts, or more than a switch has ports.
    pub fn fabric(&self) -> Result<Fabric, TopologyError> {
        let hosts = self.senders.saturating_add(self.receivers);
        check_fewest("a switch", "hosts", hosts, 2)?;
        check_ports("the switch", hosts)?;
        let mut fabric = Fabric::new();
        let switch = fabric.add_switch("S0");
        add_senders(&mut fabric, switch, self.senders, self.sender_cable);
        add_receivers(&mut fabric, switch, self.receivers, self.receiver_cable);
        Ok(fabric)
    }
}

impl Dumbbell {
    /// Builds the fabric.
    ///
    /// # Errors
    /// There are no senders or receivers, or more than a switch has ports.
    pub fn fabric(&self) -> Result<Fabric, TopologyError> {
        check_fewest("a dumbbell", "senders", self.senders, 1)?;
        check_fewest("a dumbbell", "receivers", self.receivers, 1)?;
        check_ports("the senders' switch", self.senders.saturating_add(1))?;
        check_ports("the receivers' switch", self.receivers.saturating_add(1))?;
        let mut fabric = Fabric::new();
        let [one, other] = ["S0", "S1"].map(|name| fabric.add_switch(name));
        add_senders(&mut fabric, one, self.senders, self.host_cable);
        add_receivers(&mut fabric, other, self.receivers, self.host_cable);
        fabric.join(one, other, self.bottleneck);
        Ok(fabric)
    }
}

impl Ring {
    /// Fabric of the GFC paper's Fig. 1(a) with the links of its section 6.2: three switches with a host each, 10 Gb/s, 1 us.
    pub fn gfc() -> Ring {
        let cable = LinkSpec::new(BitRate::gbps(10), Span::from_micros(1));
        Ring { switches: 3, hosts_per_switch: 1, host_cable: cable, ring_link: cable }
    }

    /// Builds the fabric.
    ///
    /// # Errors
    /// There are fewer than three switches or no hosts, or too many of them.
    pub fn fabric(&self) -> Result<Fabric, TopologyError> {
        check_fewest("a ring", "switches", self.switches, 3)?;
        check_fewest("a ring", "hosts on each switch", self.hosts_per_switch, 1)?;
        check_ports("each switch", self.hosts_per_switch.saturating_add(2))?;
        if self.switches > SWITCHES_MAX {
            return Err(TopologyError::TooManySwitches(self.switches));
        }
        let mut fabric = Fabric::new();
        for switch in 0..self.switches {
            fabric.add_switch(format!("S{}", switch + 1));
            for _ in 0..self.hosts_per_switch {
                fabric.add_host(format!("H{}", fabric.hosts.len() + 1), switch, self.host_cable);
            }
        }
        for switch in 0..self.switches {
            fabric.join(switch, (switch + 1) % self.switches, self.ring_link);
        }
        Ok(fabric)
    }
}

fn add_senders(fabric: &mut Fabric, switch: usize, count: usize, cable: LinkSpec) {
    for n in 0..count {
        fabric.add_host(format!("H{n}"), switch, cable);
    }
}

fn add_receivers(fabric: &mut Fabric, switch: usize, count: usize, cable: LinkSpec) {
    for n in 1..=count {
        fabric.add_host(format!("R{n}"), switch, cable);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CABLE: LinkSpec = LinkSpec::new(BitRate::gbps(10), Span::from_micros(1));

    #[test]
    fn the_switch_of_the_spfc_paper_has_32_ports() {
        let fabric = SingleSwitch::spfc().fabric().unwrap();
        assert_eq!((fabric.check(), fabric.switches[0].ports, fabric.links.len()), (Ok(()), 32, 0));
        let far = |name: &str| fabric.hosts[fabric.host(name).unwrap()].delay.as_micros();
        assert_eq!((far("H0"), far("H29"), far("R1"), far("R2")), (9, 9, 1, 1));
    }

    #[test]
    fn a_dumbbell_has_its_bottleneck_on_the_last_ports() {
        let dumbbell = Dumbbell { senders: 8, receivers: 1, host_cable: CABLE, bottleneck: CABLE };
        let fabric = dumbbell.fabric().unwrap();
        assert_eq!(fabric.check(), Ok(()));
        assert_eq!((fabric.hosts.len(), fabric.links.len()), (9, 1));
        assert_eq!(fabric.links[0].ends.map(|end| (end.switch, end.port)), [(0, 8), (1, 1)]);
        let too_many = Dumbbell { senders: 4_096, ..dumbbell }.fabric();
        assert_eq!(too_many, Err(TopologyError::TooManyPorts { switch: "the senders' switch".into(), ports: 4_097 }));
    }

    #[test]
    fn a_ring_closes() {
        let fabric = Ring { switches: 5, hosts_per_switch: 2, ..Ring::gfc() }.fabric().unwrap();
        assert_eq!(fabric.check(), Ok(()));
        assert_eq!((fabric.switches.len(), fabric.hosts.len(), fabric.links.len()), (5, 10, 5));
        assert_eq!(fabric.port_names()[0], ["H1", "H2", "to-S2", "to-S5"]);
        assert_eq!(fabric.port_names()[4], ["H9", "H10", "to-S4", "to-S1"]);
        let short = Ring { switches: 2, ..Ring::gfc() }.fabric().unwrap_err();
        assert_eq!(short.to_string(), "a ring takes 3 switches at least, not 2");
        assert!(SingleSwitch { senders: usize::MAX, ..SingleSwitch::spfc() }.fabric().is_err());
    }
}
