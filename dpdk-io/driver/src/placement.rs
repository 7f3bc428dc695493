//! Placement of the switches' lcores on the allowed CPUs.

use weir_config::{Device, LcoreLayout, SwitchConfig};
use weir_switch_core::burst::LcorePlan;
use weir_units::PortId;

use crate::error::DriverError;

/// Every switch's plan, and the CPUs.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The CPUs in use, one EAL worker lcore each.
    pub cpus: Vec<u32>,
    /// Each switch's part, in the order of the configurations.
    pub switches: Vec<SwitchPlacement>,
    /// The position of the CPU that replays traces, where a port has one.
    pub replayer: Option<usize>,
}

/// One switch's plan, and where its lcores run.
#[derive(Clone, Debug)]
pub struct SwitchPlacement {
    /// Plan of the switch's lcores.
    pub plan: LcorePlan,
    /// Positions in [`Placement::cpus`] of the plan's lcores.
    pub on: Vec<usize>,
    /// Position of the CPU that runs the NIC in front of each port's host, if the port has one.
    pub nics: Vec<Option<usize>>,
}

impl Placement {
    /// Places the switches on the CPUs that the process may use (`allowed`), leaving out `reserved` of them where there
    /// are more.
    ///
    /// A switch with `[lcores] cores` gets exactly these. One without has its layout distributed over all CPUs in rotation; a
    /// layout that needs more lcores than there are CPUs runs several of its roles on one CPU, in turn.
    pub fn new(switches: &[SwitchConfig], allowed: &[u32], reserved: usize) -> Result<Placement, DriverError> {
        let free = &allowed[reserved.min(allowed.len().saturating_sub(1))..];
        let mut cpus: Vec<u32> = Vec::new();
        let mut next = 0;
        let mut placed = Vec::new();
        for switch in switches {
            let wanted: Vec<u32> = if switch.lcores.cores.is_empty() {
                let lcores = lcores_for(switch.lcores.layout, free.len());
                let chosen = (0..lcores).map(|n| free[(next + n) % free.len()]).collect();
                next += lcores;
                chosen
            } else {
                for (n, core) in switch.lcores.cores.iter().enumerate() {
                    if !allowed.contains(&(*core as u32)) {
                        let help = format!("this process may use CPUs {}", list(allowed));
                        let key = format!("lcores.cores[{n}]");
                        return Err(switch.error_at(&key, format!("there is no CPU {core} to run on"), help).into());
                    }
                }
                switch.lcores.cores.iter().map(|core| *core as u32).collect()
            };
            let plan = LcorePlan::new(switch, wanted.len())?;
            let mut place = |cpu: u32| {
                cpus.iter().position(|known| *known == cpu).unwrap_or_else(|| {
                    cpus.push(cpu);
                    cpus.len() - 1
                })
            };
            let on: Vec<usize> = plan.lcores.iter().zip(wanted).map(|(_, cpu)| place(cpu)).collect();
            let mut nics = vec![None; switch.ports.len()];
            for (port, config) in switch.ports.iter().enumerate() {
                let Some(nic) = config.nic else { continue };
                let transmitter = plan.lcores.iter().position(|role| role.transmits.contains(&PortId(port as u16)));
                nics[port] = match nic.core {
                    Some(core) if !allowed.contains(&core) => {
                        let help = format!("this process may use CPUs {}", list(allowed));
                        let key = format!("ports[{port}].nic.core");
                        return Err(switch.error_at(&key, format!("there is no CPU {core} to run on"), help).into());
                    }
                    Some(core) => Some(place(core)),
                    None => transmitter.map(|lcore| on[lcore]),
                };
            }
            placed.push(SwitchPlacement { plan, on, nics });
        }
        let replayer = replayer_cpu(switches, allowed, &cpus)?.map(|cpu| {
            cpus.iter().position(|known| *known == cpu).unwrap_or_else(|| {
                cpus.push(cpu);
                cpus.len() - 1
            })
        });
        Ok(Placement { cpus, switches: placed, replayer })
    }
}

impl Placement {
    /// The CPU on which a switch transmits on a port; `None` for a clone, which sends nothing.
    ///
    /// # Panics
    /// If there is no switch of this index.
    pub fn transmits_on(&self, switch: usize, port: PortId) -> Option<u32> {
        let SwitchPlacement { plan, on, .. } = &self.switches[switch];
        let lcore = plan.lcores.iter().position(|role| role.transmits.contains(&port))?;
        Some(self.cpus[on[lcore]])
    }
}

/// Returns the CPU that replays all traces: one that a port names, or one that no switch uses, so that no frame waits for the switch.
/// Without a free CPU the replayer shares the first switch's lcore.
fn replayer_cpu(switches: &[SwitchConfig], allowed: &[u32], used: &[u32]) -> Result<Option<u32>, DriverError> {
    let mut replays = false;
    for switch in switches {
        for (port, config) in switch.ports.iter().enumerate() {
            let Device::Replay(replay) = &config.device else { continue };
            replays = true;
            match replay.core {
                Some(core) if !allowed.contains(&core) => {
                    let help = format!("this process may use CPUs {}", list(allowed));
                    let key = format!("ports[{port}].replay.core");
                    return Err(switch.error_at(&key, format!("there is no CPU {core} to run on"), help).into());
                }
                Some(core) => return Ok(Some(core)),
                None => {}
            }
        }
    }
    let free = allowed.iter().copied().find(|cpu| !used.contains(cpu));
    Ok(replays.then(|| free.or(used.first().copied())).flatten())
}

/// Lcores for `auto`, at most: each of them takes a CPU that somebody else may want.
const AUTO_LCORES_MAX: usize = 4;

/// Default lcores of a layout: its minimum, and for `auto` the number of CPUs, up to four. A plan has at most as many as its switch has
/// ports.
fn lcores_for(layout: LcoreLayout, cpus: usize) -> usize {
    match layout {
        LcoreLayout::Auto => cpus.clamp(1, AUTO_LCORES_MAX),
        layout => LcorePlan::lcores_min(layout),
    }
}

fn list(cpus: &[u32]) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(lcores: &str) -> SwitchConfig {
        let text = format!(
            "[lcores]\n{lcores}\n[[ports]]\nname = \"a\"\nring = \"a\"\nrate = \"10Gbps\"\n[[ports]]\nname = \"b\"\nring = \"b\"\nrate = \"10Gbps\"\n"
        );
        weir_config::parse("test.toml", &text).unwrap()
    }

    #[test]
    fn named_cores_are_used() {
        let placement = Placement::new(&[switch("layout = \"rx-tx\"\ncores = [5, 3]")], &[3, 4, 5], 1).unwrap();
        assert_eq!(placement.cpus, [5, 3]);
        assert_eq!(placement.switches[0].on, [0, 1]);
        assert_eq!([0, 1, 2].map(|port| placement.transmits_on(0, PortId(port))), [Some(3), Some(3), None]);
    }

    #[test]
    fn a_core_that_is_not_there_is_refused_with_its_line() {
        let error = Placement::new(&[switch("layout = \"single\"\ncores = [7]")], &[0, 1], 0).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("test.toml:3") && text.contains("no CPU 7") && text.contains("0, 1"), "{text}");
    }

    #[test]
    fn three_roles_share_two_cpus() {
        let placement = Placement::new(&[switch("layout = \"rx-fwd-tx\"")], &[0, 1], 0).unwrap();
        assert_eq!(placement.switches[0].on, [0, 1, 0]);
        assert_eq!(placement.cpus, [0, 1]);
    }

    #[test]
    fn a_nic_runs_on_its_ports_transmitter_or_on_its_own_core() {
        let with_nic = |lcores: &str, nic: &str| {
            let text = format!(
                "[lcores]\n{lcores}\n[[ports]]\nname = \"a\"\ntap = \"a\"\nrate = \"10Gbps\"\n\
                 [[ports]]\nname = \"b\"\ntap = \"b\"\nrate = \"10Gbps\"\nnic = {nic}\n"
            );
            weir_config::parse("test.toml", &text).unwrap()
        };
        let on = |lcores: &str, nic: &str| {
            let placed = Placement::new(&[with_nic(lcores, nic)], &[0, 3, 4], 0).unwrap();
            (placed.switches[0].nics[0], placed.switches[0].nics[1].map(|on| placed.cpus[on]), placed.cpus)
        };
        assert_eq!(on("layout = \"rx-tx\"\ncores = [3, 4]", "{}"), (None, Some(4), vec![3, 4]));
        assert_eq!(on("layout = \"single\"\ncores = [3]", "{ core = 4 }"), (None, Some(4), vec![3, 4]));
        let error = Placement::new(&[with_nic("", "{ core = 7 }")], &[0], 0).unwrap_err().to_string();
        assert!(error.contains("no CPU 7 to run on") && error.contains("test.toml:11"), "{error}");
    }

    #[test]
    fn a_clone_gets_no_lcore_of_its_own() {
        let mut config = switch("layout = \"single\"\ncores = [0, 1, 2, 3]");
        let mut clone = config.ports[1].clone();
        (clone.name, clone.device) = ("c".into(), weir_config::Device::CloneOf("b".into()));
        config.ports.push(clone);
        let placement = Placement::new(&[config], &[0, 1, 2, 3], 0).unwrap();
        assert_eq!(placement.cpus, [0, 1]);
        let texts: Vec<_> = placement.switches[0].plan.lcores.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["RX 0 + FWD 0 + TX 0", "RX 1 + FWD 1,2 + TX 1"]);
    }

    #[test]
    fn switches_are_spread() {
        let placement =
            Placement::new(&[switch("layout = \"single\""), switch("layout = \"single\"")], &[0, 1], 0).unwrap();
        assert_eq!((&placement.switches[0].on[..], &placement.switches[1].on[..]), (&[0][..], &[1][..]));
    }
}
