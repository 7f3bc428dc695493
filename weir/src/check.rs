//! `weir check`: what follows from a configuration.

mod buffer;
mod flow_control;
mod losses;
mod nics;
#[cfg(test)]
mod tests;
mod trial;
mod warnings;

pub use trial::try_devices;

use std::path::PathBuf;

use weir_config::{SwitchConfig, Trust};
use weir_dpdk_driver::{Memory, Placement};
use weir_experiments::Failure;
use weir_experiments::table::{Table, count};
use weir_mmu::{BufferLayout, Headroom};
use weir_switch_core::buffer::{buffer_layout, buffer_policy};
use weir_switch_core::flow_control::RATE_UNKNOWN;
use weir_units::{Bytes, Class};

use crate::below_rate;
use crate::switches::load_all;

/// Checks the files and prints what they mean.
pub fn check(files: &[PathBuf]) -> Result<(), Failure> {
    let switches = load_all(files)?;
    // What the file says is of interest even where this machine lacks what it names, so that comes last.
    let placement = Placement::new(&switches, &weir_dpdk_io::cpu::allowed(), 0);
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
        if let Ok(placement) = &placement {
            print_lcores(placement, index);
        }
        println!("  {}", below_rate::catch_up(switch));
        for unknown in losses::unknown_losses(switch) {
            println!("  {unknown}");
        }
        for warning in warnings::warnings(switch, &layout) {
            println!("  warning: {warning}");
        }
        println!();
    }
    let lcores = placement.as_ref().map_or(1, |placement| placement.cpus.len());
    let memory = Memory::of(&switches, lcores, 0);
    print_memory(&switches, memory);
    nics::print_nics(&switches, memory, placement.as_ref().map_or(&[], |placement| &placement.cpus));
    placement?;
    weir_dpdk_driver::check_machine(&switches)?;
    for socket in weir_dpdk_driver::check_devices(&switches)? {
        println!("{} is left by an instance that is dead; weir run removes it", socket.display());
    }
    println!("everything that the configuration names is on this machine");
    Ok(())
}

fn print_lcores(placement: &Placement, switch: usize) {
    let placed = &placement.switches[switch];
    println!("  lcores ({}):", layout_name(placed.plan.layout));
    for (role, on) in placed.plan.lcores.iter().zip(&placed.on) {
        println!("    CPU {}: {role}", placement.cpus[*on]);
    }
}

fn print_classes(switch: &SwitchConfig) {
    let trust = match switch.classes.trust {
        Trust::Dscp => "DSCP",
        Trust::Pcp => "PCP",
        Trust::Port => "port",
    };
    let lossless: Vec<String> =
        Class::in_mask(switch.classes.lossless).map(|class| class.index().to_string()).collect();
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
}

/// What is said of several, once, with all their names: `p0, p1`.
pub(crate) fn put_together<'n>(said: impl IntoIterator<Item = (String, &'n str)>) -> Vec<(String, String)> {
    let mut together: Vec<(String, String)> = Vec::new();
    for (what, name) in said {
        match together.iter_mut().find(|(known, _)| *known == what) {
            Some((_, names)) => *names += &format!(", {name}"),
            None => together.push((what, name.to_owned())),
        }
    }
    together
}

fn print_memory(switches: &[SwitchConfig], memory: Memory) {
    let by = if switches.iter().all(|switch| switch.buffer.cell_bytes == 1) {
        "one for each smallest frame (64 B) that the buffer holds, since accounting is in bytes"
    } else {
        "one for each cell of the buffer, so the cells and never the mbufs run out"
    };
    let replayed = match memory.replayed {
        0 => String::new(),
        frames => format!(", {} for the capture files that are replayed without end", count(u64::from(frames))),
    };
    println!(
        "packet memory: {} mbufs for the buffer ({by}), {} on their way in and out{replayed}, {} for control frames: {} in all",
        count(u64::from(memory.buffered)),
        count(u64::from(memory.in_flight)),
        count(u64::from(memory.control)),
        format_args!("{} MiB", memory.bytes().get() >> 20)
    );
}

fn layout_name(layout: weir_config::Layout) -> &'static str {
    match layout {
        weir_config::Layout::Auto => "auto",
        weir_config::Layout::Single => "all on one lcore",
        weir_config::Layout::RxTx => "RX+FWD / TX",
        weir_config::Layout::RxFwdTx => "RX / FWD / TX",
    }
}
