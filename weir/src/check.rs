//! `weir check`: derived values of a configuration, as text or as JSON.

mod buffer;
mod flow_control;
mod machine;
mod nics;
mod ports;
#[cfg(test)]
mod tests;
mod warnings;

use std::path::PathBuf;

use serde::Serialize;
use weir_config::{PortConfig, SwitchConfig, Trust};
use weir_experiments::files::json_text;
use weir_experiments::real_frames::{MachineFindings, MachineResources, SwitchResources};
use weir_experiments::switches::load_all;
use weir_experiments::{Failure, real_frames};
use weir_reader::Gauge;
use weir_switch_core::buffer::{buffer_layout, buffer_policy};
use weir_switch_core::flow_control::RATE_UNKNOWN;

/// Options of a check.
#[derive(Clone, Copy)]
pub(crate) struct Options {
    /// The files alone, and not this machine.
    pub files_only: bool,
    pub json: bool,
}

/// Complete result.
#[derive(Serialize)]
struct CheckReport {
    switches: Vec<SwitchChecked>,
    /// Findings on this machine; none with `files_only`.
    machine: Option<MachineFindings>,
}

/// Derived values of a switch's file.
#[derive(Serialize)]
struct SwitchChecked {
    name: String,
    classes: Classes,
    buffer: buffer::BufferPartition,
    policy: buffer::PolicyChecked,
    ports: Vec<ports::PortChecked>,
    vlans: Vec<ports::VlanChecked>,
    nics: Vec<nics::NicChecked>,
    flow_control: Vec<flow_control::FlowControlDescription>,
    /// Needs of the switch on this machine; none with `files_only`.
    on_this_machine: Option<SwitchResources>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Classes {
    by: &'static str,
    /// Ports with a map of their own.
    own: Vec<OwnMap>,
    lossless: Vec<usize>,
}

/// Checks the files and prints their derived values.
pub(crate) fn check(files: &[PathBuf], options: Options) -> Result<(), Failure> {
    let real_frames = (!options.files_only).then(real_frames::reach);
    let switches = load_all(files)?;
    let (machine, missing) = match real_frames {
        None => (None, None),
        Some(Ok(real_frames)) => (Some(real_frames.machine(&switches)), None),
        Some(Err(missing)) => (None, Some(missing)),
    };
    let mut checked = Vec::new();
    for (index, switch) in switches.iter().enumerate() {
        checked.push(of_switch(index, switch, machine.as_deref())?);
    }
    if !options.json {
        checked.iter().for_each(SwitchChecked::print);
    }
    // The derived values help even where this machine lacks a device, so the machine comes last.
    let machine = machine.map(|machine| machine.of_all(&switches));
    if options.json {
        let checked = CheckReport { switches: checked, machine };
        print!("{}", json_text(&checked));
        return checked.machine.map_or(Ok(()), MachineFindings::verdict);
    }
    if let Some(missing) = missing {
        println!("lcores, memory and devices were not checked: {missing}");
    }
    machine.map_or(Ok(()), |findings| {
        print!("{}", machine::text(&findings));
        findings.verdict()
    })
}

fn of_switch(
    index: usize,
    switch: &SwitchConfig,
    machine: Option<&dyn MachineResources>,
) -> Result<SwitchChecked, Failure> {
    let layout = buffer_layout(switch).map_err(|error| error.at_line(switch))?;
    let rates: Vec<_> = switch.ports.iter().map(|port| port.rate.unwrap_or(RATE_UNKNOWN)).collect();
    let policy = buffer_policy(switch, &layout, &rates).map_err(|error| error.at_line(switch))?;
    Ok(SwitchChecked {
        name: switch.name.clone(),
        classes: Classes {
            by: field_of(switch.classes.map.trust),
            own: own_maps(switch),
            lossless: switch.classes.lossless.iter().map(|class| class.index()).collect(),
        },
        buffer: buffer::partition(switch, &layout),
        policy: buffer::policy(switch, &layout, &*policy),
        ports: ports::ports(switch, &layout),
        vlans: ports::vlans(switch),
        nics: nics::nics(switch),
        flow_control: flow_control::flow_control(switch).map_err(|error| error.at_line(switch))?,
        on_this_machine: machine.map(|machine| machine.of_switch(index, switch)),
        warnings: warnings::warnings(switch, &layout)
            .into_iter()
            .chain(warnings::no_lender(switch, &*policy))
            .collect(),
    })
}

/// Port with its own map to classes.
#[derive(Serialize)]
struct OwnMap {
    port: String,
    by: &'static str,
}

fn own_maps(switch: &SwitchConfig) -> Vec<OwnMap> {
    let own = |port: &PortConfig| {
        let by = field_of(port.class_map.as_ref()?.trust);
        Some(OwnMap { port: port.name.clone(), by })
    };
    switch.ports.iter().filter_map(own).collect()
}

fn field_of(trust: Trust) -> &'static str {
    match trust {
        Trust::Dscp => "DSCP",
        Trust::Pcp => "PCP",
        Trust::Port => "port",
    }
}

impl SwitchChecked {
    fn print(&self) {
        let lossless: Vec<String> = self.classes.lossless.iter().map(usize::to_string).collect();
        let lossless = if lossless.is_empty() { "none".to_owned() } else { lossless.join(", ") };
        println!("{}: {} ports", self.name, self.ports.len());
        println!("  classes by {}; lossless: {lossless}", self.classes.by);
        for OwnMap { port, by } in &self.classes.own {
            println!("  classes of {port} by {by}, with a map of its own");
        }
        print!("{}{}{}", self.buffer, self.policy, ports::table(&self.ports, &self.buffer));
        print!("{}", ports::vlan_lines(&self.vlans));
        let nics = nics::table(&self.nics);
        if !nics.is_empty() {
            print!("{nics}");
        }
        print!("{}", flow_control::text(&self.flow_control));
        if let Some(machine) = &self.on_this_machine {
            print!("{}", machine::switch_text(machine));
        }
        for warning in &self.warnings {
            println!("  warning: {warning}");
        }
        println!();
    }
}

/// Lines of a kind's run-time gauges, one each.
fn gauge_lines(gauges: &[GaugeNamed]) -> String {
    let line = |gauge: &GaugeNamed| format!("    gauge {} ({}) in series and summaries\n", gauge.name, gauge.label);
    gauges.iter().map(line).collect()
}

/// A gauge, by its names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct GaugeNamed {
    name: &'static str,
    label: &'static str,
}

impl GaugeNamed {
    fn all(gauges: &[Gauge]) -> Vec<GaugeNamed> {
        gauges.iter().map(|gauge| GaugeNamed { name: gauge.name, label: gauge.label }).collect()
    }
}
