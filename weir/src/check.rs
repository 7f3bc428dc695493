//! `weir check`: what follows from a configuration.

mod buffer;
mod flow_control;
mod nics;
#[cfg(test)]
mod tests;
mod warnings;

use std::path::PathBuf;

use weir_config::{SwitchConfig, Trust};
use weir_experiments::switches::load_all;
use weir_experiments::table::{Table, count};
use weir_experiments::{Failure, real_frames};
use weir_mmu::{BufferLayout, Headroom};
use weir_reader::Gauge;
use weir_switch_core::buffer::{buffer_layout, buffer_policy};
use weir_switch_core::flow_control::RATE_UNKNOWN;
use weir_units::Bytes;

/// Checks the files and prints what they mean.
pub(crate) fn check(files: &[PathBuf]) -> Result<(), Failure> {
    let real_frames = real_frames::reach();
    let switches = load_all(files)?;
    // What the file says is of interest even where this machine lacks what it names, so that comes last.
    let machine = real_frames.map(|real_frames| real_frames.machine(&switches));
    for (index, switch) in switches.iter().enumerate() {
        let layout = buffer_layout(switch).map_err(|error| error.at_line(switch))?;
        let rates: Vec<_> = switch.ports.iter().map(|port| port.rate.unwrap_or(RATE_UNKNOWN)).collect();
        let policy = buffer_policy(switch, &layout, &rates).map_err(|error| error.at_line(switch))?;
        println!("{}: {} ports", switch.name, switch.ports.len());
        print_classes(switch);
        print!("{}", buffer::partition(switch, &layout));
        print!("{}", buffer::thresholds(switch, &layout, &*policy));
        print_ports(switch, &layout);
        print!("{}", flow_control::flow_control(switch).map_err(|error| error.at_line(switch))?);
        if let Ok(machine) = &machine {
            machine.print_switch(index, switch);
        }
        for warning in warnings::warnings(switch, &layout) {
            println!("  warning: {warning}");
        }
        println!();
    }
    match machine {
        Ok(machine) => machine.conclude(&switches),
        Err(missing) => {
            println!("lcores, memory and devices were not checked: {missing}");
            Ok(())
        }
    }
}

/// What a kind shows while it runs, a line each.
fn gauge_lines(gauges: &[Gauge]) -> String {
    let line = |gauge: &Gauge| format!("    gauge {} ({}) in series and summaries\n", gauge.name, gauge.label);
    gauges.iter().map(line).collect()
}

fn print_classes(switch: &SwitchConfig) {
    let trust = match switch.classes.trust {
        Trust::Dscp => "DSCP",
        Trust::Pcp => "PCP",
        Trust::Port => "port",
    };
    let lossless: Vec<String> = switch.classes.lossless.iter().map(|class| class.index().to_string()).collect();
    println!(
        "  classes by {trust}; lossless: {}",
        if lossless.is_empty() { "none".to_owned() } else { lossless.join(", ") }
    );
}

fn print_ports(switch: &SwitchConfig, layout: &BufferLayout) {
    let headroom = match layout.headroom_from() {
        Headroom::PerQueue => "Headroom B",
        Headroom::Pool(_) => "Headroom up to B",
        Headroom::PerPort => "Insurance B",
        Headroom::Uninsured => "Φ B, not kept",
    };
    let mut table = Table::new(["Port", "Device", "Rate", "Delay", "Flow control", headroom, "By rule B"]);
    for (index, port) in switch.ports.iter().enumerate() {
        let headroom = layout.ports()[index].headroom.iter().copied().max().unwrap_or(Bytes::ZERO);
        table.row([
            port.name.clone(),
            port.device.to_string(),
            port.rate.map_or("device's".to_owned(), |rate| rate.to_string()),
            port.delay.to_string(),
            port.flow_control.name().to_owned(),
            count(headroom.get()),
            switch.headroom_by_rule(port).map_or("-".to_owned(), |rule| count(rule.get())),
        ]);
    }
    print!("{table}");
    let nics = nics::table(switch);
    if !nics.is_empty() {
        print!("{nics}");
    }
}
