//! Removal of devices while switches run: unplugged NICs, and those that the kernel gives to another driver.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use weir_dpdk_io::PortError;
use weir_units::PortId;

use super::RunningSwitches;

/// A step of a device's removal.
#[derive(Debug)]
pub enum Removal {
    /// The device was removed. Its port has no link from now on, and lcores no longer use it.
    Requested,
    /// DPDK has closed the device, and the kernel has it back.
    Released,
    /// DPDK failed to close the device; the port is closed all the same.
    Failed(PortError),
}

/// Removed devices, by switch and port, and whether they are released.
#[derive(Debug, Default)]
pub(super) struct Removals(Mutex<BTreeMap<(usize, usize), bool>>);

impl RunningSwitches {
    /// Releases removed devices once no lcore uses them; returns the steps since the last call, by switch and port. A port
    /// with a NIC in front of its host keeps its device until the end.
    pub fn removals(&self) -> Vec<(usize, PortId, Removal)> {
        let mut known = self.removals.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut news = Vec::new();
        for (index, switch) in self.switches.iter().enumerate() {
            for (number, port) in switch.ports.iter().enumerate() {
                let Some(port) = port.as_ref().filter(|port| port.is_removed()) else { continue };
                let id = PortId(number as u16);
                match known.get(&(index, number)) {
                    Some(true) => {}
                    Some(false) => match port.release() {
                        Ok(false) => {}
                        done => {
                            known.insert((index, number), true);
                            news.push((index, id, done.map_or_else(Removal::Failed, |_| Removal::Released)));
                        }
                    },
                    None => {
                        known.insert((index, number), false);
                        self.control.notify();
                        news.push((index, id, Removal::Requested));
                    }
                }
            }
        }
        news
    }
}
