//! Losses at ports' devices, and drivers that do not count all of them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_config::Device;
use weir_dpdk_io::{DeviceLosses, DriverCounters, LossMeter, Port, driver_counters};

/// The meters of a switch's ports, for the control thread.
#[derive(Debug, Default)]
pub(crate) struct LossMeters(Mutex<Vec<Option<LossMeter>>>);

impl LossMeters {
    /// Counts the losses of one more port from now on; nothing for a clone, which has no device.
    pub(crate) fn add(&self, device: &Device, port: Option<&Port>) {
        self.lock().push(port.map(|port| LossMeter::new(port, device.netdev())));
    }

    /// Reads the devices of `ports`, which are the ports that were added, in their order.
    pub(crate) fn read(&self, ports: &[Option<Port>]) -> Vec<DeviceLosses> {
        let mut meters = self.lock();
        let read = |(meter, port): (&mut Option<LossMeter>, &Option<Port>)| match (meter, port) {
            (Some(meter), Some(port)) => meter.read(port),
            _ => DeviceLosses::default(),
        };
        meters.iter_mut().zip(ports).map(read).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<LossMeter>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Loss counters of a device's driver, known before the start. `None` for clones, and for PCI devices, whose driver only the start shows.
pub fn driver_counters_of(device: &Device) -> Option<&'static DriverCounters> {
    let driver = match device {
        Device::AfPacket(_) => "af_packet",
        Device::AfXdp(_) => "net_af_xdp",
        Device::Tap(_) => "net_tap",
        Device::VhostUser(_) => "net_vhost",
        Device::Memif { .. } => "net_memif",
        Device::Ring(_) | Device::Replay(_) => "net_ring",
        Device::Pcap { .. } => "net_pcap",
        Device::Null { .. } => "net_null",
        Device::Pci(_) | Device::CloneOf(_) => return None,
    };
    Some(driver_counters(driver))
}

#[cfg(test)]
mod tests {
    use weir_config::{SocketAccess, VhostUser};

    use super::*;

    #[test]
    fn drivers_without_hardware_have_a_row() {
        let devices = [
            Device::AfPacket("a".into()),
            Device::AfXdp("a".into()),
            Device::Tap("a".into()),
            Device::VhostUser(VhostUser::server("a")),
            Device::Memif { socket: "a".into(), id: 0, server: true, access: SocketAccess::default() },
            Device::Ring("a".into()),
            Device::Pcap { rx: None, tx: None, infinite: false },
            Device::Replay(weir_config::ReplayConfig::new("a")),
            Device::Null { frame_bytes: 60 },
        ];
        for device in devices {
            assert!(!driver_counters_of(&device).expect("known").driver.is_empty(), "{device}");
        }
    }
}
