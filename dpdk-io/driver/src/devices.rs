//! DPDK ports made of the devices that a configuration names.

use std::collections::HashMap;
use std::path::Path;

use weir_config::{Device, DeviceFlowControl, PortConfig, SwitchConfig, TX_DESCRIPTORS};
use weir_dpdk_io::vdev::{self, MemifRole};
use weir_dpdk_io::{
    DeviceInfo, MacControlTransmit, Mempool, NetdevOptions, Port, PortConfig as DpdkPortConfig, PortError, RingEnd,
    RxQueue, TxQueue, ring_port, ring_slots,
};
use weir_flowctl::Tells;
use weir_switch_core::flow_control::RATE_UNKNOWN;
use weir_units::{BitRate, Span};

use crate::descriptors::{NETDEV_GAP_MS, RING_SLOTS, default_descriptors, rx_descriptors};
use crate::device_pause::DevicePause;
use crate::error::DriverError;
use crate::socket::{self, OpenError};

/// memif's ring has this power of two of places.
const MEMIF_RING_LOG2: u8 = 10;

/// Opens devices; knows the links inside the process, of which the first end makes both.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    /// Made with the other end, and not asked for yet.
    far_ends: HashMap<String, RingEnd>,
    /// For the port that was opened last, if it replays a trace.
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
    /// With NICs' receive descriptors for this poll gap.
    pub(crate) fn new(poll_gap: Span) -> Devices {
        Devices { poll_gap, ..Devices::default() }
    }

    /// Opens and starts port `index` of a switch, and takes the flow control out of the hardware's hands.
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
                let rate = rate.unwrap_or(RATE_UNKNOWN);
                let ring_slots = ring_slots(rate.as_bps(), NETDEV_GAP_MS, mtu);
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
            Device::Pcap { rx, tx, infinite } => {
                vdev::pcap(&name, rx.as_deref().map(Path::new), tx.as_deref().map(Path::new), *infinite)?
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
        if matches!(config.device, Device::Pci(_)) {
            tracing::info!(switch = %switch.name, port = %config.name, "flow control taken over: {report}");
        } else {
            tracing::debug!(switch = %switch.name, port = %config.name, "flow control: {report}");
        }
        let found = DevicePause::read(switch, config, port);
        found.tell(&switch.name);
        if config.device_flow_control == DeviceFlowControl::RequireOff
            && let Some(danger) = found.danger()
        {
            let key = key.replace(config.device.key(), "device_flow_control");
            return Err(switch.error_at(&key, danger, found.help()).into());
        }
        if config.flow_control.tells() != Tells::Nothing
            && report.control_frames_sent == MacControlTransmit::DroppedByDevice
        {
            let message = format!(
                "port {}: the {} driver drops every MAC control frame it is to send",
                config.name,
                port.driver_name()
            );
            let help = "use another NIC for lossless ports, or write flow_control = \"none\" here".to_owned();
            return Err(switch.error_at(key, message, help).into());
        }
        Ok(())
    }
}

/// Closes a port. All is counted by then, so that an error of its driver is a line in the log and no result is lost to it.
pub(crate) fn close(port: Port) {
    if let Err(error) = port.close() {
        tracing::warn!("{error}");
    }
}

/// Ring, pcap and null ports have no MTU to set; a netdev keeps its own.
fn device_mtu(device: &Device, mtu: u16) -> Option<u16> {
    matches!(device, Device::Pci(_)).then_some(mtu)
}

fn start(mut port: Port, pool: &Mempool, device: &Device, mtu: u16, rx_desc: u16) -> Result<OpenPort, PortError> {
    let (mtu, queues) = (device_mtu(device, mtu), u16::from(device.queues()));
    let has_control = has_control_queue(&port.device_info()?);
    let tx_queues = queues + u16::from(has_control);
    let counts = DpdkPortConfig { rx_queues: queues, tx_queues, ..DpdkPortConfig::new(pool) };
    let (rx, mut tx) = port.configure(DpdkPortConfig { rx_desc, tx_desc: TX_DESCRIPTORS, mtu, ..counts })?;
    port.start()?;
    let control = if has_control { tx.pop() } else { None };
    let mut pairs = rx.into_iter().zip(tx);
    let (rx, tx) = pairs.next().ok_or_else(|| PortError::NotFound("queue 0".to_owned()))?;
    Ok(OpenPort { rx, tx, more: pairs.collect(), control, port })
}

/// DPDK's drivers whose NICs send by several queues, and need not receive by as many. All NICs of a driver named here have them.
///
/// Not here: `net_e1000_em`, which says two for NICs with one too (82540; em_ethdev.c `eth_em_infos_get`); `net_virtio`, which has the
/// other end send to as many queues as there are (virtio_ethdev.c `virtio_dev_start`).
const CONTROL_QUEUE_DRIVERS: [&str; 7] =
    ["net_ixgbe", "net_e1000_igb", "net_igc", "net_i40e", "net_ice", "mlx5_pci", "net_vmxnet3"];

/// Whether control frames have a transmit queue of their own, so that they wait for no data that the device has not fetched yet.
fn has_control_queue(info: &DeviceInfo) -> bool {
    info.max_tx_queues > 1 && CONTROL_QUEUE_DRIVERS.contains(&info.driver.as_str())
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
        let has = |driver: &str, max_tx_queues| {
            has_control_queue(&DeviceInfo {
                driver: driver.to_owned(),
                bus: "pci".to_owned(),
                max_rx_queues: 1,
                max_tx_queues,
                rx_desc: (32, 4_096),
                tx_desc: (32, 4_096),
                mtu: (68, 9_216),
                if_index: None,
            })
        };
        assert!(has("net_ixgbe", 64) && has("mlx5_pci", 1_024));
        assert!(!has("net_ixgbe", 1), "one that has no other");
        assert!(!has("net_e1000_em", 2) && !has("net_virtio", 8) && !has("net_vhost", 4));
    }
}
