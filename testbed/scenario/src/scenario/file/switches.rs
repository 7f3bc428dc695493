//! Switches of a run.

use std::collections::BTreeMap;
use std::path::Path;

use weir_config::{ConfigErrors, Device, SwitchConfig};
use weir_reader::settings::MergedFile;

use super::changes::ChangePart;
use super::compose::{Attachment, attachments, draft, mac_of_host, mac_of_port};
use super::plan::{RunContext, ScenarioPlan};
use super::run_diagnostics::RunDiagnostics;

/// Configurations of the switches, and their files. Switches of a fabric with equal ports share a file: only their names differ.
pub(super) struct Switches {
    pub configs: Vec<SwitchConfig>,
    groups: Vec<SwitchGroup>,
    /// Group of each switch.
    group_of: Vec<usize>,
}

struct SwitchGroup {
    draft: MergedFile,
    members: Vec<usize>,
}

impl Switches {
    /// Reads the switches' files after `changes`; `None` if any has errors.
    pub(super) fn read(
        plan: &ScenarioPlan,
        run: usize,
        context: RunContext<'_>,
        changes: &[&ChangePart],
        diagnostics: &mut RunDiagnostics,
    ) -> Option<Switches> {
        let attached = attachments(&plan.topology, context.real);
        let mut groups = Vec::new();
        let mut good = Vec::new();
        for members in alike(plan, &attached) {
            let first = members[0];
            let draft = draft(plan, &plan.runs[run], first, &attached[first], context.time_dilation, changes);
            match draft.read(weir_config::parse_for_virtual_time) {
                Ok(config) => good.push(config),
                Err(errors) => members.iter().for_each(|switch| diagnostics.add(run, Some(*switch), errors.clone())),
            }
            groups.push(SwitchGroup { draft, members });
        }
        if good.len() < groups.len() {
            return None;
        }
        let mut group_of = vec![0; attached.len()];
        groups.iter().enumerate().for_each(|(n, group)| group.members.iter().for_each(|switch| group_of[*switch] = n));
        let config = |(switch, group): (usize, &usize)| {
            let config = good[*group].clone();
            if groups[*group].members[0] == switch && !plan.topology.is_fabric {
                return config;
            }
            let mut config = renamed(config, switch, &plan.topology.switches[switch].name, &attached[switch]);
            add_static_macs(plan, switch, &mut config);
            config
        };
        let configs = group_of.iter().enumerate().map(config).collect();
        Some(Switches { configs, groups, group_of })
    }

    /// Returns one switch of each group. Report its errors with [`Switches::refuse`], for they are the group's.
    pub(super) fn distinct(&self) -> impl Iterator<Item = (usize, &SwitchConfig)> {
        self.groups.iter().map(|group| (group.members[0], &self.configs[group.members[0]]))
    }

    /// Returns the place of a key of a switch's file, without folders: `queues.toml:8`.
    pub(super) fn place_of(&self, switch: usize, key: &str) -> String {
        let draft = &self.groups[self.group_of[switch]].draft;
        let traced = draft.traced(self.configs[switch].error_at(key, "", ""));
        let place = traced.iter().next().map(|error| {
            let file = Path::new(error.file()).file_name().unwrap_or_default().to_string_lossy().into_owned();
            error.line().map_or_else(|| file.clone(), |line| format!("{file}:{line}"))
        });
        place.unwrap_or_default()
    }

    /// Reports errors of a switch, and of all others of its group.
    pub(super) fn refuse(&self, run: usize, switch: usize, errors: ConfigErrors, diagnostics: &mut RunDiagnostics) {
        let SwitchGroup { draft, members } = &self.groups[self.group_of[switch]];
        let traced = draft.traced(errors);
        members.iter().for_each(|member| diagnostics.add(run, Some(*member), traced.clone()));
    }
}

/// Groups switches that share a file. A listed switch may have a file of its own, and its own lines in the scenario file.
fn alike(plan: &ScenarioPlan, attached: &[Vec<Attachment<'_>>]) -> Vec<Vec<usize>> {
    if !plan.topology.is_fabric {
        return (0..attached.len()).map(|switch| vec![switch]).collect();
    }
    let mut groups: BTreeMap<Vec<[Option<&str>; 2]>, Vec<usize>> = BTreeMap::new();
    for (switch, ports) in attached.iter().enumerate() {
        let cables = ports.iter().map(|port| ["rate", "delay"].map(|key| port.settings.string(key))).collect();
        groups.entry(cables).or_default().push(switch);
    }
    let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
    groups.sort();
    groups
}

/// Returns this configuration for a switch of another name, with the ports `attached`.
fn renamed(config: SwitchConfig, switch: usize, name: &str, attached: &[Attachment<'_>]) -> SwitchConfig {
    let mut config = SwitchConfig { name: name.to_owned(), ..config };
    for (number, (port, attached)) in config.ports.iter_mut().zip(attached).enumerate() {
        port.name.clone_from(&attached.port.port);
        port.device = Device::Ring(attached.ring.clone());
        port.mac = Some(mac_of_port(switch, number));
    }
    config
}

/// Adds the static MACs of a fabric's switch, which are not in its group's file.
fn add_static_macs(plan: &ScenarioPlan, switch: usize, config: &mut SwitchConfig) {
    let Some(forwarding) = &plan.forwarding else { return };
    let ports: BTreeMap<&str, usize> = config.ports.iter().zip(0..).map(|(port, n)| (port.name.as_str(), n)).collect();
    let macs = (0..plan.topology.hosts.len()).filter_map(|host| {
        let port = forwarding.port(switch, host)?;
        Some((mac_of_host(host), ports[port]))
    });
    config.static_macs = macs.collect();
}
