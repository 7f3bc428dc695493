//! Resources of this machine for the switches: lcores, memory, devices.

use weir_config::{ConfigErrors, SwitchConfig};
use weir_dpdk_driver::{DriverError, Memory, Placement};
use weir_experiments::real_frames::{self, CpuAssignment, Lcores, MachineFindings, PacketMemory, SwitchResources};

use weir_switch_core::fdb::ForwardingTable;
use weir_units::Bytes;

use super::{interfaces, losses, nics};
use crate::below_rate;

/// Placement of the switches' lcores on this machine, if it has the CPUs for them.
pub(crate) struct MachinePlacement {
    placement: Result<Placement, DriverError>,
}

impl MachinePlacement {
    /// The machine for these switches.
    pub(crate) fn new(switches: &[SwitchConfig]) -> MachinePlacement {
        MachinePlacement { placement: Placement::new(switches, &weir_dpdk_io::cpu::allowed(), 0) }
    }
}

impl real_frames::MachineResources for MachinePlacement {
    fn of_switch(&self, index: usize, switch: &SwitchConfig) -> SwitchResources {
        SwitchResources {
            lcores: self.placement.as_ref().ok().map(|placement| lcores(placement, index, switch)),
            late_polls: below_rate::catch_up(switch),
            forwarding_table: forwarding_table(switch),
            unknown_losses: losses::unknown_losses(switch),
        }
    }

    fn of_all(&self, switches: &[SwitchConfig]) -> MachineFindings {
        let cpus = self.placement.as_ref().map_or(&[][..], |placement| &placement.cpus);
        let memory = Memory::for_switches(switches, cpus.len().max(1), 0);
        let nics = nics::found(switches, memory, cpus);
        let (left_sockets, devices) = match weir_dpdk_driver::check_devices(switches) {
            Ok(left) => (left, None),
            Err(errors) => (Vec::new(), Some(errors)),
        };
        let mut warnings = nics.warnings;
        for (switch, port) in switches.iter().flat_map(|switch| switch.ports.iter().map(move |port| (switch, port))) {
            let found = interfaces::warnings(switch, port).into_iter();
            warnings.extend(found.map(|issue| format!("{}: {}; {}", port.name, issue.message, issue.help)));
        }
        let (placement, misfit) = match &self.placement {
            Ok(_) => (None, None),
            Err(DriverError::Config(errors)) => (Some(errors.clone()), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let machine = weir_dpdk_driver::check_machine(switches).err();
        let limits = weir_dpdk_driver::check_limits(switches, &memory).err().map(|error| error.to_string());
        MachineFindings {
            packet_memory: packet_memory(memory),
            nics: nics.nics,
            poll_gap: nics.poll_gap,
            warnings,
            left_sockets,
            lacks: ConfigErrors::joined([placement, machine, devices].into_iter().flatten()),
            misfit: misfit.or(limits),
        }
    }
}

fn lcores(placement: &Placement, index: usize, switch: &SwitchConfig) -> Lcores {
    let placed = &placement.switches[index];
    let roles = placed.plan.lcores.iter().zip(&placed.on);
    let roles = roles.map(|(role, on)| CpuAssignment { cpu: placement.cpus[*on], does: role.to_string() });
    let nics = switch.ports.iter().zip(&placed.nics).filter_map(|(port, on)| Some((port, (*on)?)));
    let nics = nics.map(|(port, on)| CpuAssignment { cpu: placement.cpus[on], does: format!("NIC of {}", port.name) });
    Lcores { layout: layout_name(placed.plan.layout), cpus: roles.chain(nics).collect() }
}

fn forwarding_table(switch: &SwitchConfig) -> String {
    let (table, cache) = ForwardingTable::memory(switch.fdb_size);
    let kib = |bytes: Bytes| bytes.get() >> 10;
    format!(
        "forwarding table: room for {} stations in {} KiB, and {} KiB on each lcore that forwards",
        switch.fdb_size,
        kib(table),
        kib(cache)
    )
}

fn packet_memory(memory: Memory) -> PacketMemory {
    PacketMemory {
        buffered_mbufs: memory.buffered,
        in_flight_mbufs: memory.in_flight,
        control_mbufs: memory.control,
        bytes: memory.bytes().get(),
        in_hugepages: memory.fits_hugepages(),
    }
}

fn layout_name(layout: weir_config::LcoreLayout) -> &'static str {
    match layout {
        weir_config::LcoreLayout::Auto => "auto",
        weir_config::LcoreLayout::Single => "lcores own ports",
        weir_config::LcoreLayout::RxTx => "RX+FWD / TX",
        weir_config::LcoreLayout::RxFwdTx => "RX / FWD / TX",
    }
}
