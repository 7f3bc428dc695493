//! Plan of the lcores: the roles of each.

use std::fmt;

use weir_config::{LcoreLayout, SwitchConfig};
use weir_units::PortId;

/// Assignment of the pipeline to lcores. A port is received on one lcore, forwarded on one and transmitted on one; a clone is forwarded
/// with its port, and neither received nor transmitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LcorePlan {
    /// Layout of the plan; never [`LcoreLayout::Auto`].
    pub layout: LcoreLayout,
    /// Role of each lcore, in their order.
    pub lcores: Vec<LcoreRole>,
}

/// Role of one lcore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LcoreRole {
    /// Ports that it receives on.
    pub receives: Vec<PortId>,
    /// Ports whose frames it classifies, looks up and admits, including clones.
    pub forwards: Vec<PortId>,
    /// Ports that it transmits on.
    pub transmits: Vec<PortId>,
}

/// Error of a layout that needs more lcores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanError {
    layout: LcoreLayout,
    needed: usize,
    given: usize,
}

impl LcorePlan {
    /// Returns the plan of a switch for `lcores` lcores, in its layout, with ports assigned round-robin. [`LcoreLayout::Auto`] is `single`,
    /// whose lcores own ports: frames change lcores only if their egress port belongs to another one.
    ///
    /// Lcores beyond one set share the ports: with four lcores `single` runs four whole pipelines of a quarter of the ports each, with four
    /// `rx-tx` receives on two and transmits on two.
    ///
    /// # Errors
    /// If the layout needs more lcores: [`PlanError`].
    pub fn new(config: &SwitchConfig, lcores: usize) -> Result<LcorePlan, PlanError> {
        let real_ports: Vec<usize> = (0..config.ports.len()).map(|port| config.real_port(port)).collect();
        Self::assign(config.lcores.layout, &real_ports, lcores)
    }

    /// [`LcorePlan::new`] with `real_ports`: for each port the one whose ingress it copies, or itself.
    fn assign(layout: LcoreLayout, real_ports: &[usize], lcores: usize) -> Result<LcorePlan, PlanError> {
        let layout = if layout == LcoreLayout::Auto { LcoreLayout::Single } else { layout };
        let needed = Self::lcores_min(layout);
        if lcores < needed {
            return Err(PlanError { layout, needed, given: lcores });
        }
        let non_clones: Vec<usize> = (0..real_ports.len()).filter(|port| real_ports[*port] == *port).collect();
        // No more lcores of a role than ports.
        let share = |lcores: usize| lcores.clamp(1, non_clones.len().max(1));
        let mut roles = Vec::new();
        let (receive, forward, transmit) = match layout {
            LcoreLayout::Single | LcoreLayout::Auto => {
                roles.resize(share(lcores), LcoreRole::default());
                let all: Vec<usize> = (0..roles.len()).collect();
                (all.clone(), all.clone(), all)
            }
            LcoreLayout::RxTx => {
                let (rx, tx) = (share(lcores.div_ceil(2)), share(lcores / 2));
                roles.resize(rx + tx, LcoreRole::default());
                ((0..rx).collect(), (0..rx).collect(), (rx..rx + tx).collect())
            }
            LcoreLayout::RxFwdTx => {
                let rx = share(lcores / 3);
                let tx = share(lcores - 2 * rx);
                roles.resize(2 * rx + tx, LcoreRole::default());
                let forward: Vec<usize> = (rx..2 * rx).collect();
                ((0..rx).collect::<Vec<_>>(), forward, (2 * rx..2 * rx + tx).collect())
            }
        };
        for (turn, port) in non_clones.iter().enumerate() {
            let id = PortId(*port as u16);
            roles[receive[turn % receive.len()]].receives.push(id);
            roles[transmit[turn % transmit.len()]].transmits.push(id);
        }
        for (port, real) in real_ports.iter().enumerate() {
            let turn = non_clones.iter().position(|port| port == real).expect("a clone has a real port");
            roles[forward[turn % forward.len()]].forwards.push(PortId(port as u16));
        }
        Ok(LcorePlan { layout, lcores: roles })
    }

    /// Returns the minimum number of lcores of a layout.
    pub const fn lcores_min(layout: LcoreLayout) -> usize {
        match layout {
            LcoreLayout::Auto | LcoreLayout::Single => 1,
            LcoreLayout::RxTx => 2,
            LcoreLayout::RxFwdTx => 3,
        }
    }
}

impl fmt::Display for LcoreRole {
    /// Formats the role, such as `RX 0,2 + FWD 0,2 + TX 0,3`, without parts that have no ports.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roles = [("RX", &self.receives), ("FWD", &self.forwards), ("TX", &self.transmits)];
        let texts = roles.iter().filter(|(_, ports)| !ports.is_empty()).map(|(name, ports)| {
            let ports: Vec<String> = ports.iter().map(|port| port.0.to_string()).collect();
            format!("{name} {}", ports.join(","))
        });
        f.pad(&texts.collect::<Vec<_>>().join(" + "))
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.layout {
            LcoreLayout::Auto | LcoreLayout::Single => "single",
            LcoreLayout::RxTx => "rx-tx",
            LcoreLayout::RxFwdTx => "rx-fwd-tx",
        };
        write!(f, "layout \"{name}\" needs {} lcores, {} given", self.needed, self.given)
    }
}

impl std::error::Error for PlanError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(layout: LcoreLayout, ports: usize, lcores: usize) -> Result<LcorePlan, PlanError> {
        LcorePlan::assign(layout, &(0..ports).collect::<Vec<_>>(), lcores)
    }

    fn assert_covers(plan: &LcorePlan, ports: usize) {
        let role = |lcore: &LcoreRole, n: usize| [&lcore.receives, &lcore.forwards, &lcore.transmits][n].clone();
        for n in 0..3 {
            let mut all: Vec<_> = plan.lcores.iter().flat_map(|lcore| role(lcore, n)).map(PortId::index).collect();
            all.sort_unstable();
            assert_eq!(all, (0..ports).collect::<Vec<_>>(), "{plan:?}");
        }
    }

    #[test]
    fn every_port_has_one_lcore_in_each_role() {
        for layout in [LcoreLayout::Auto, LcoreLayout::Single, LcoreLayout::RxTx, LcoreLayout::RxFwdTx] {
            for ports in 2..10 {
                for lcores in LcorePlan::lcores_min(layout)..12 {
                    let plan = plan(layout, ports, lcores).unwrap();
                    assert!(plan.lcores.len() <= lcores, "{plan:?}");
                    assert_covers(&plan, ports);
                }
            }
        }
    }

    #[test]
    fn a_port_is_forwarded_where_its_receiver_hands_it() {
        // The n-th receiver feeds the n-th forwarder, with all its ports.
        let plan = plan(LcoreLayout::RxFwdTx, 9, 9).unwrap();
        let receivers: Vec<_> = plan.lcores.iter().filter(|r| !r.receives.is_empty()).map(|r| &r.receives).collect();
        let forwarders: Vec<_> = plan.lcores.iter().filter(|r| !r.forwards.is_empty()).map(|r| &r.forwards).collect();
        assert_eq!(receivers, forwarders);
    }

    #[test]
    fn a_clone_is_only_forwarded_and_with_its_port() {
        // Ports 1, 3 and 4 are one link; ports 0, 2 and 5 have one each.
        let real_ports = [0, 1, 2, 1, 1, 5];
        for layout in [LcoreLayout::Single, LcoreLayout::RxTx, LcoreLayout::RxFwdTx] {
            for lcores in LcorePlan::lcores_min(layout)..12 {
                let plan = LcorePlan::assign(layout, &real_ports, lcores).unwrap();
                let all = |role: fn(&LcoreRole) -> &Vec<PortId>| {
                    let mut ports: Vec<_> = plan.lcores.iter().flat_map(role).map(|port| port.index()).collect();
                    ports.sort_unstable();
                    ports
                };
                assert_eq!(all(|lcore| &lcore.receives), [0, 1, 2, 5], "{plan:?}");
                assert_eq!(all(|lcore| &lcore.forwards), [0, 1, 2, 3, 4, 5], "{plan:?}");
                assert_eq!(all(|lcore| &lcore.transmits), [0, 1, 2, 5], "{plan:?}");
                let with_port = |lcore: &&LcoreRole| lcore.forwards.contains(&PortId(1));
                let forwards = &plan.lcores.iter().find(with_port).unwrap().forwards;
                assert!(forwards.contains(&PortId(3)) && forwards.contains(&PortId(4)), "{plan:?}");
                assert!(plan.lcores.iter().all(|lcore| *lcore != LcoreRole::default()), "an idle lcore: {plan:?}");
            }
        }
        let plan = LcorePlan::assign(LcoreLayout::RxFwdTx, &real_ports, 3).unwrap();
        let texts: Vec<_> = plan.lcores.iter().map(LcoreRole::to_string).collect();
        assert_eq!(texts, ["RX 0,1,2,5", "FWD 0,1,2,3,4,5", "TX 0,1,2,5"]);
    }

    #[test]
    fn auto_has_lcores_own_ports() {
        let lcores = |lcores| {
            let plan = plan(LcoreLayout::Auto, 4, lcores).unwrap();
            assert_eq!(plan.layout, LcoreLayout::Single);
            assert!(
                plan.lcores.iter().all(|lcore| lcore.receives == lcore.transmits && lcore.receives == lcore.forwards)
            );
            plan.lcores.len()
        };
        assert_eq!([1, 2, 3, 8].map(lcores), [1, 2, 3, 4]);
    }

    #[test]
    fn too_few_lcores_are_refused() {
        let error = plan(LcoreLayout::RxFwdTx, 4, 2).unwrap_err();
        assert_eq!(error.to_string(), "layout \"rx-fwd-tx\" needs 3 lcores, 2 given");
    }

    #[test]
    fn roles_print() {
        let plan = plan(LcoreLayout::RxTx, 3, 2).unwrap();
        assert_eq!(plan.lcores[0].to_string(), "RX 0,1,2 + FWD 0,1,2");
        assert_eq!(plan.lcores[1].to_string(), "TX 0,1,2");
    }
}
