//! Fabrics of AI servers: each GPU has a NIC of its own on the switch of its rail.

use super::{Fabric, LinkSpec, TopologyError, check_fewest, check_ports};

/// Rail-optimized fabric: hosts H0, H1, ... are the GPUs, server by server. GPU g of every server is on the switch of rail g mod
/// `rails`: R0, R1, ... Each rail is joined with each spine, S0, S1, ..., by parallel links.
///
/// A rail's hosts are on its first ports, then come its links to S0, to S1 and so on. Switches are numbered rails first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rails {
    /// Number of servers.
    pub servers: usize,
    /// Number of GPUs of a server.
    pub gpus: usize,
    /// Number of rails, which divides the GPUs evenly.
    pub rails: usize,
    /// Number of spines; without any, GPUs of different rails are not joined.
    pub spines: usize,
    /// Links from each rail to each spine.
    pub uplinks: RailsUplinks,
    /// The hosts' links.
    pub host_cable: LinkSpec,
    /// Links between rails and spines.
    pub fabric_link: LinkSpec,
}

/// Number of links from each rail to each spine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RailsUplinks {
    /// Rate of a rail's links to its hosts over that of its links to spines.
    Oversubscription(u64),
    /// Number.
    Parallel(usize),
}

impl Rails {
    /// Builds the fabric.
    ///
    /// # Errors
    /// There are no servers, GPUs or rails, GPUs or links can't be shared out evenly, or a switch has too many ports.
    pub fn fabric(&self) -> Result<Fabric, TopologyError> {
        let of = "a fabric of rails";
        check_fewest(of, "servers", self.servers, 1)?;
        check_fewest(of, "GPUs in each server", self.gpus, 1)?;
        check_fewest(of, "rails", self.rails, 1)?;
        if !self.gpus.is_multiple_of(self.rails) {
            return Err(TopologyError::Rails { gpus: self.gpus, rails: self.rails });
        }
        let hosts_per_rail = self.servers.saturating_mul(self.gpus / self.rails);
        check_ports("each rail", hosts_per_rail)?;
        let parallel = self.parallel(hosts_per_rail)?;
        check_ports("each rail", hosts_per_rail.saturating_add(self.spines.saturating_mul(parallel)))?;
        check_ports("each spine", self.rails.saturating_mul(parallel))?;
        let mut fabric = Fabric::new();
        (0..self.rails).for_each(|rail| _ = fabric.add_switch(format!("R{rail}")));
        for host in 0..self.servers * self.gpus {
            fabric.add_host(format!("H{host}"), host % self.gpus % self.rails, self.host_cable);
        }
        let spines: Vec<usize> = (0..self.spines).map(|spine| fabric.add_switch(format!("S{spine}"))).collect();
        for rail in 0..self.rails {
            for spine in &spines {
                (0..parallel).for_each(|_| _ = fabric.join(rail, *spine, self.fabric_link));
            }
        }
        Ok(fabric)
    }

    /// Returns the number of links from each rail to each spine.
    fn parallel(&self, hosts_per_rail: usize) -> Result<usize, TopologyError> {
        if self.spines == 0 {
            return Ok(0);
        }
        let oversubscription = match self.uplinks {
            RailsUplinks::Parallel(links) => return Ok(links),
            RailsUplinks::Oversubscription(oversubscription) => u128::from(oversubscription),
        };
        let down = u128::from(self.host_cable.rate.as_bps()) * hosts_per_rail as u128;
        let up = u128::from(self.fabric_link.rate.as_bps()) * self.spines as u128 * oversubscription;
        match down.checked_rem(up) {
            Some(0) if down > 0 => Ok((down / up) as usize),
            _ => Err(TopologyError::Oversubscription { hosts: hosts_per_rail, spines: self.spines }),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_units::{BitRate, Span};

    use super::*;

    const CABLE: LinkSpec = LinkSpec::new(BitRate::gbps(400), Span::from_micros(1));
    const RAILS: Rails = Rails {
        servers: 4,
        gpus: 8,
        rails: 8,
        spines: 2,
        uplinks: RailsUplinks::Oversubscription(1),
        host_cable: CABLE,
        fabric_link: CABLE,
    };

    #[test]
    fn gpus_are_on_the_switches_of_their_rails() {
        let fabric = RAILS.fabric().unwrap();
        assert_eq!(fabric.check(), Ok(()));
        assert_eq!((fabric.switches.len(), fabric.hosts.len(), fabric.links.len()), (10, 32, 8 * 4));
        let names = fabric.port_names();
        assert_eq!(names[3].join(" "), "H3 H11 H19 H27 to-S0.0 to-S0.1 to-S1.0 to-S1.1");
        // Two GPUs of each server on a rail, and a quarter of the capacity upward.
        let four = Rails { rails: 4, uplinks: RailsUplinks::Oversubscription(4), ..RAILS }.fabric().unwrap();
        assert_eq!(four.port_names()[1].join(" "), "H1 H5 H9 H13 H17 H21 H25 H29 to-S0 to-S1");
        let single = Rails { uplinks: RailsUplinks::Parallel(1), ..RAILS }.fabric().unwrap();
        assert_eq!(single.port_names()[3].join(" "), "H3 H11 H19 H27 to-S0 to-S1");
        let alone = Rails { spines: 0, ..RAILS }.fabric().unwrap();
        assert_eq!((alone.check(), alone.links.len()), (Ok(()), 0));
    }

    #[test]
    fn what_is_uneven_is_refused() {
        let refused = |rails: Rails| rails.fabric().unwrap_err().to_string();
        let uneven = "8 GPUs can't be shared out evenly among 3 rails: write a divisor of 8";
        assert_eq!(refused(Rails { rails: 3, ..RAILS }), uneven);
        let spines = "a rail's links to 3 spines can't match those to its 4 hosts: write `spines` and `oversubscription` that \
                      divide their rate";
        assert_eq!(refused(Rails { spines: 3, ..RAILS }), spines);
        let wide = Rails { servers: 5_000, ..RAILS }.fabric();
        assert_eq!(wide, Err(TopologyError::TooManyPorts { switch: "each rail".into(), ports: 5_000 }));
    }
}
