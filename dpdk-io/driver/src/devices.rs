//! DPDK ports made of the devices that a configuration names.

use std::collections::HashMap;
use std::path::Path;

use weir_config::{Device, PortConfig, SwitchConfig, TX_DESCRIPTORS};
use weir_dpdk_io::vdev::{self, MemifRole};
use weir_dpdk_io::{
    Mempool, NetdevOptions, Port, PortConfig as DpdkPortConfig, PortError, RingEnd, RxQueue, TxQueue, ring_port,
    ring_slots,
};
use weir_switch_core::flow_control::RATE_UNKNOWN;
use weir_units::{BitRate, FCS_BYTES, FRAME_BYTES_MIN, Span};

use crate::descriptors::{NETDEV_GAP_MS, RING_SLOTS, default_descriptors, rx_descriptors};
use crate::device_pause::{self, DevicePause};
use crate::error::DriverError;
use crate::nics::{DeviceIssue, Sysfs};
use crate::replay;
use crate::socket::{self, OpenError};

/// Binary logarithm of the slots in memif's ring.
const MEMIF_RING_LOG2: u8 = 10;

/// Opens devices; knows the links inside the process, of which the first end makes both.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    /// Far ends of links whose first end is open, not yet opened themselves.
    far_ends: HashMap<String, RingEnd>,
    /// Far end of the last opened port, if it replays a trace.
    replay_end: Option<RingEnd>,
    opened: usize,
    /// The longest time between two polls that NICs' descriptors are to cover.
    poll_gap: Span,
}

/// A port, started, with its queues.
#[derive(Debug)]
pub(crate) struct OpenPort {
    /// Receives.
    pub(crate) rx: RxQueue,
    /// Transmits.
    pub(crate) tx: TxQueue,
    /// The port's queue pairs after the first; only vhost-user ports have any.
    pub(crate) more: Vec<(RxQueue, TxQueue)>,
    /// Transmits control frames, where the device has a queue for them.
    pub(crate) control: Option<TxQueue>,
    /// The port itself, for link, statistics and closing.
    pub(crate) port: Port,
}

impl Devices {
    /// Creates an empty set; NICs' receive descriptors cover this poll gap.
    pub(crate) fn new(poll_gap: Span) -> Devices {
        Devices { poll_gap, ..Devices::default() }
    }

    /// Opens and starts port `index` of a switch, and takes over flow control from the hardware.
    ///
    /// # Panics
    /// If the port is a clone, which has no device.
    pub(crate) fn open(
        &mut self,
        switch: &SwitchConfig,
        index: usize,
        pool: &Mempool,
    ) -> Result<OpenPort, DriverError> {
        let config = &switch.ports[index];
        let key = format!("ports[{index}].{}", config.device.key());
        let mtu = switch.mtu.get() as u16;
        let at_line = |error: PortError| {
            let help = help_for(&config.device);
            DriverError::Config(switch.error_at(&key, format!("port {}: {error}", config.name), help))
        };
        let descriptors = rx_descriptors(config, self.poll_gap);
        let mut open = socket::with_access(&config.device, || {
            let port = self.attach(&config.device, mtu, config.rate)?;
            start(port, pool, &config.device, mtu, descriptors)
        })
        .map_err(|error| match error {
            OpenError::Port(error) => at_line(error),
            OpenError::Socket(error) => DriverError::Config(switch.error_at(
                &key,
                format!("port {}: {}", config.name, error.message),
                error.help,
            )),
        })?;
        if let Some(least) = too_short(config, switch, &open.port) {
            tracing::warn!(switch = %switch.name, port = %config.name, "{least}");
        }
        self.take_over_flow_control(switch, config, &key, &mut open.port)?;
        if let Device::AfPacket(netdev) = &config.device
            && let Ok(interface_mtu) = open.port.mtu()
            && interface_mtu < mtu
        {
            tracing::warn!(
                switch = %switch.name,
                port = %config.name,
                "interface {netdev} has an MTU of {interface_mtu}, the switch one of {mtu}: longer frames can't leave \
                 there; set it with: ip link set {netdev} mtu {mtu}"
            );
        }
        Ok(open)
    }

    /// The link between a switch's port and the NIC in front of its host: the port's end, started, and the NIC's.
    pub(crate) fn open_link(&mut self, mtu: u16, pool: &Mempool) -> Result<(OpenPort, RingEnd), PortError> {
        self.opened += 1;
        let (near, far) = ring_port(&format!("nic{}", self.opened), RING_SLOTS)?;
        let link = Device::Ring(String::new());
        Ok((start(near, pool, &link, mtu, default_descriptors(&link))?, far))
    }

    /// The far end of the link to the port that was opened last, if that replays a trace.
    pub(crate) fn take_replay_end(&mut self) -> Option<RingEnd> {
        self.replay_end.take()
    }

    /// The far end of a link inside the process that no switch has taken, for something else in the process.
    pub(crate) fn open_far_end(&mut self, ring: &str) -> Result<RingEnd, PortError> {
        self.far_ends.remove(ring).ok_or_else(|| PortError::NotFound(ring.to_owned()))
    }

    /// A device that is no switch's port, for something else in the process. Its hardware is kept out of flow control too.
    pub(crate) fn open_device(&mut self, device: &Device, mtu: u16, pool: &Mempool) -> Result<OpenPort, PortError> {
        let mut open = socket::with_access(device, || {
            let port = self.attach(device, mtu, None)?;
            start(port, pool, device, mtu, default_descriptors(device))
        })
        .map_err(|error| match error {
            OpenError::Port(error) => error,
            OpenError::Socket(error) => PortError::Access { device: device.to_string(), reason: error.message },
        })?;
        let report = open.port.take_over_flow_control();
        tracing::debug!(%device, "flow control: {report}");
        Ok(open)
    }

    fn attach(&mut self, device: &Device, mtu: u16, rate: Option<BitRate>) -> Result<Port, PortError> {
        self.opened += 1;
        let name = self.opened.to_string();
        let devargs = match device {
            Device::Pci(pci) => pci.with_devargs(),
            Device::AfPacket(netdev) => {
                let ring_slots = ring_slots_of(rate, mtu);
                return Port::attach_netdev(netdev, NetdevOptions { mtu, ring_slots });
            }
            Device::AfXdp(netdev) => vdev::af_xdp(&name, netdev, 1)?,
            Device::Tap(netdev) => vdev::tap(&name, netdev)?,
            Device::VhostUser(vhost) => {
                vdev::vhost(&name, Path::new(&vhost.socket), vhost.client, u16::from(vhost.queues))?
            }
            Device::Memif { socket, id, server, .. } => {
                let role = if *server { MemifRole::Server } else { MemifRole::Client };
                vdev::memif(&name, Path::new(socket), *id, role, MEMIF_RING_LOG2)?
            }
            // The device receives and sends nothing: see `start`.
            Device::Pcap { tx: None, infinite: true, .. } => vdev::null(&name, FRAME_BYTES_MIN as u16, false)?,
            Device::Pcap { rx, tx, infinite } => {
                let rx = rx.as_deref().filter(|_| !infinite);
                vdev::pcap(&name, rx.map(Path::new), tx.as_deref().map(Path::new))?
            }
            Device::Null { frame_bytes } => vdev::null(&name, *frame_bytes, false)?,
            Device::Ring(link) => {
                if let Some(far_end) = self.far_ends.remove(link) {
                    return far_end.into_port();
                }
                let (near, far) = ring_port(&format!("link{name}"), RING_SLOTS)?;
                self.far_ends.insert(link.clone(), far);
                return Ok(near);
            }
            Device::Replay(_) => {
                let (near, far) = ring_port(&format!("replay{name}"), RING_SLOTS)?;
                self.replay_end = Some(far);
                return Ok(near);
            }
            Device::CloneOf(port) => unreachable!("a clone of {port} has no device"),
        };
        Port::attach(&devargs)
    }

    /// Weir makes its own PAUSE frames and obeys its peers' itself, so the hardware must do neither.
    fn take_over_flow_control(
        &self,
        switch: &SwitchConfig,
        config: &PortConfig,
        key: &str,
        port: &mut Port,
    ) -> Result<(), DriverError> {
        let report = port.take_over_flow_control();
        if let Device::Pci(pci) = &config.device {
            tracing::info!(switch = %switch.name, port = %config.name, "flow control taken over: {report}");
            let facts = Sysfs::here().nic(&pci.address);
            if let Some(found) = facts.and_then(|facts| facts.virtual_function(&port.driver_name())) {
                tracing::warn!(switch = %switch.name, port = %config.name, "{}; {}", found.message, found.help);
            }
        } else {
            tracing::debug!(switch = %switch.name, port = %config.name, "flow control: {report}");
        }
        let found = DevicePause::read(switch, config, port);
        found.log(&switch.name);
        if config.device_flow_control.requires_off
            && let Some(danger) = found.danger()
        {
            let key = key.replace(config.device.key(), "device_flow_control");
            return Err(switch.error_at(&key, danger, found.help()).into());
        }
        let sends = report.control_frames_sent;
        device_pause::check_control_transmit(switch, config, sends, &port.driver_name())
            .map_or(Ok(()), |DeviceIssue { message, help }| Err(switch.error_at(key, message, help).into()))
    }
}

/// Describes a NIC's longest frame where it is shorter than the switch's.
fn too_short(config: &PortConfig, switch: &SwitchConfig, port: &Port) -> Option<String> {
    let takes = port.frame_bytes_max().filter(|_| matches!(config.device, Device::Pci(_)))?;
    let longest = (switch.tagged_frame_bytes_max().get() - FCS_BYTES) as u32;
    (takes < longest).then(|| {
        format!(
            "the device takes frames of up to {takes} B without FCS, the switch's with two VLAN tags have {longest} B: such tagged \
             frames pass up to mtu = {}",
            switch.mtu.get() - u64::from(longest - takes)
        )
    })
}

/// Closes a port, and logs an error of its driver. Everything is counted by then, so that no result is lost.
pub(crate) fn close(port: Port) {
    if let Err(error) = port.close() {
        tracing::warn!("{error}");
    }
}

/// Slots of the receive ring of an interface with this rate.
pub(crate) fn ring_slots_of(rate: Option<BitRate>, mtu: u16) -> u32 {
    ring_slots(rate.unwrap_or(RATE_UNKNOWN).as_bps(), NETDEV_GAP_MS, mtu)
}

/// Ring, pcap and null ports have no MTU to set; a netdev keeps its own.
fn device_mtu(device: &Device, mtu: u16) -> Option<u16> {
    matches!(device, Device::Pci(_)).then_some(mtu)
}

fn start(mut port: Port, pool: &Mempool, device: &Device, mtu: u16, rx_desc: u16) -> Result<OpenPort, PortError> {
    let (mtu, queues) = (device_mtu(device, mtu), u16::from(device.queues()));
    let info = port.device_info()?;
    let has_control = has_control_queue(&info.driver, info.max_tx_queues);
    let tx_queues = queues + u16::from(has_control);
    let counts = DpdkPortConfig { rx_queues: queues, tx_queues, ..DpdkPortConfig::new(pool) };
    let (rx, mut tx) = port.configure(DpdkPortConfig { rx_desc, tx_desc: TX_DESCRIPTORS, mtu, ..counts })?;
    if let Device::Pcap { rx, tx, infinite } = device
        && (*infinite || tx.is_none())
    {
        let mut frames = Vec::new();
        if let Some(file) = rx.as_deref().filter(|_| *infinite) {
            replay::read(file, &mut |frame| frames.push(frame.to_vec()))
                .map_err(|error| PortError::Access { device: device.to_string(), reason: error.to_string() })?;
        }
        port.replay(&frames, tx.is_none())?;
    }
    port.start()?;
    let control = if has_control { tx.pop() } else { None };
    let mut pairs = rx.into_iter().zip(tx);
    let (rx, tx) = pairs.next().ok_or_else(|| PortError::NotFound("queue 0".to_owned()))?;
    Ok(OpenPort { rx, tx, more: pairs.collect(), control, port })
}

/// DPDK's drivers whose NICs all have several transmit queues, and may have fewer receive queues.
///
/// Left out: `net_e1000_em`, which reports two for NICs with one too (82540; em_ethdev.c `eth_em_infos_get`); `net_virtio`, which has
/// the other end send to as many queues (virtio_ethdev.c `virtio_dev_start`).
const CONTROL_QUEUE_DRIVERS: [&str; 7] =
    ["net_ixgbe", "net_e1000_igb", "net_igc", "net_i40e", "net_ice", "mlx5_pci", "net_vmxnet3"];

/// Returns whether control frames have a transmit queue of their own, so that they wait for no data that the device has not fetched yet.
fn has_control_queue(driver: &str, tx_queues: u32) -> bool {
    tx_queues > 1 && CONTROL_QUEUE_DRIVERS.contains(&driver)
}

fn help_for(device: &Device) -> &'static str {
    match device {
        Device::Pci(_) => "see dpdk-devbind.py --status-dev net; DPDK's own messages stand above",
        Device::AfXdp(_) => "is the driver librte_net_af_xdp installed, and the interface up?",
        Device::AfPacket(_) => "is the interface there, and is there kernel memory for its receive ring?",
        _ => "DPDK's own messages stand above; is the driver installed (dpdk-pmdinfo.py, /usr/lib/*/dpdk/pmds-*)?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_frames_have_a_queue_where_all_nics_of_a_driver_have_several() {
        assert!(has_control_queue("net_ixgbe", 64) && has_control_queue("mlx5_pci", 1_024));
        assert!(!has_control_queue("net_ixgbe", 1), "one that has no other");
        assert!(
            !has_control_queue("net_e1000_em", 2)
                && !has_control_queue("net_virtio", 8)
                && !has_control_queue("net_vhost", 4)
        );
    }
}
