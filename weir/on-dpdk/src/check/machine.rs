//! What the switches take of this machine: lcores, memory, devices.

use weir_config::SwitchConfig;
use weir_dpdk_driver::{DriverError, Memory, Placement};
use weir_experiments::table::count;
use weir_experiments::{Failure, real_frames};

use super::{losses, nics};
use crate::below_rate;
use crate::fault::Fault;

/// This machine, and where the switches' lcores are on it, if it has the CPUs for them.
pub(crate) struct Machine {
    placement: Result<Placement, DriverError>,
}

impl Machine {
    /// The machine for these switches.
    pub(crate) fn new(switches: &[SwitchConfig]) -> Machine {
        Machine { placement: Placement::new(switches, &weir_dpdk_io::cpu::allowed(), 0) }
    }
}

impl real_frames::Machine for Machine {
    fn print_switch(&self, index: usize, switch: &SwitchConfig) {
        if let Ok(placement) = &self.placement {
            print_lcores(placement, index, switch);
        }
        println!("  {}", below_rate::catch_up(switch));
        for unknown in losses::unknown_losses(switch) {
            println!("  {unknown}");
        }
    }

    fn conclude(self: Box<Self>, switches: &[SwitchConfig]) -> Result<(), Failure> {
        let placement = self.placement;
        let lcores = placement.as_ref().map_or(1, |placement| placement.cpus.len());
        let memory = Memory::of(switches, lcores, 0);
        print_memory(switches, memory);
        nics::print_nics(switches, memory, placement.as_ref().map_or(&[], |placement| &placement.cpus));
        placement.map_err(Fault::from)?;
        weir_dpdk_driver::check_machine(switches).map_err(Fault::from)?;
        for socket in weir_dpdk_driver::check_devices(switches).map_err(Fault::from)? {
            println!("{} is left by an instance that is dead; weir run removes it", socket.display());
        }
        println!("everything that the configuration names is on this machine");
        Ok(())
    }
}

fn print_lcores(placement: &Placement, index: usize, switch: &SwitchConfig) {
    let placed = &placement.switches[index];
    println!("  lcores ({}):", layout_name(placed.plan.layout));
    for (role, on) in placed.plan.lcores.iter().zip(&placed.on) {
        println!("    CPU {}: {role}", placement.cpus[*on]);
    }
    for (port, on) in switch.ports.iter().zip(&placed.nics).filter_map(|(port, on)| Some((port, (*on)?))) {
        println!("    CPU {}: NIC of {}", placement.cpus[on], port.name);
    }
}

fn print_memory(switches: &[SwitchConfig], memory: Memory) {
    let by = match switches.iter().filter_map(|switch| switch.buffer.least_mean_frame()).max() {
        None => "as many as the smallest frames fill it with, so it is always full before they run out".to_owned(),
        Some(mean) => format!("enough for frames of {mean} in the mean; what finds none is dropped as pool_empty"),
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
        weir_config::Layout::Single => "lcores own ports",
        weir_config::Layout::RxTx => "RX+FWD / TX",
        weir_config::Layout::RxFwdTx => "RX / FWD / TX",
    }
}
