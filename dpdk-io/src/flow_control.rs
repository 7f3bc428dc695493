//! Takeover of flow control from the NIC by the program.

use std::ffi::c_int;
use std::fmt;
use std::fs;
use std::path::Path;

use weir_dpdk_sys as sys;

use crate::device::PauseState;
use crate::error::Errno;
use crate::kernel_pause;
use crate::port::Port;

/// Result of [`Port::take_over_flow_control`], by step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowControlReport {
    /// The port's driver.
    pub driver: String,
    /// PAUSE of the whole link off, and not negotiated.
    pub link_pause_off: FlowControlStep,
    /// PFC off for all eight priorities.
    pub priority_pause_off: FlowControlStep,
    /// MAC control frames (EtherType 0x8808) passed to the program.
    pub control_frames_received: FlowControlStep,
    /// Fate of MAC control frames that the program sends.
    pub control_frames_sent: MacControlTransmit,
}

/// Outcome of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowControlStep {
    /// Done.
    Done,
    /// The driver has no such setting: normal for virtual devices, which have
    /// no flow control of their own.
    Unsupported,
    /// The driver refused.
    Failed(Errno),
}

/// Fate of sent frames of EtherType 0x8808 at the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacControlTransmit {
    /// The frames leave the port.
    Sent,
    /// The device drops the frames: this port cannot pause its neighbour.
    DroppedByDevice,
    /// The driver's behaviour is unknown: try it on the wire.
    Unknown,
}

/// A device's own flow control, as read back from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceFlowControl {
    /// PAUSE of the whole link, IEEE 802.3x.
    pub link: PauseState,
    /// PFC, IEEE 802.1Qbb.
    pub priority: PauseState,
}

impl DeviceFlowControl {
    /// Off only if both are.
    pub fn state(self) -> PauseState {
        self.link.max(self.priority)
    }
}

impl fmt::Display for DeviceFlowControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link PAUSE {}, PFC {}", self.link, self.priority)
    }
}

impl fmt::Display for PauseState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PauseState::Off => "off",
            PauseState::Unknown => "unknown",
            PauseState::On => "on",
        })
    }
}

impl FlowControlReport {
    /// Returns true if PFC and GFC in software can work here, according to the steps' results.
    pub fn is_usable(&self) -> bool {
        self.control_frames_sent != MacControlTransmit::DroppedByDevice
            && [self.link_pause_off, self.priority_pause_off, self.control_frames_received]
                .iter()
                .all(|step| !matches!(step, FlowControlStep::Failed(_)))
    }
}

impl fmt::Display for FlowControlReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: link pause off: {}; priority pause off: {}; MAC control frames to the \
             program: {}; MAC control frames from the program: {}",
            self.driver,
            self.link_pause_off,
            self.priority_pause_off,
            self.control_frames_received,
            self.control_frames_sent,
        )
    }
}

impl fmt::Display for FlowControlStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlowControlStep::Done => f.write_str("done"),
            FlowControlStep::Unsupported => f.write_str("the driver has no such setting"),
            FlowControlStep::Failed(errno) => write!(f, "failed ({errno})"),
        }
    }
}

impl fmt::Display for MacControlTransmit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MacControlTransmit::Sent => "sent",
            MacControlTransmit::DroppedByDevice => "dropped by the device",
            MacControlTransmit::Unknown => "not known for this driver",
        })
    }
}

impl Port {
    /// Switches the device's own flow control off and has MAC control frames
    /// passed to the program. Reads the settings before it changes them, for
    /// ixgbe refuses watermarks of 0.
    ///
    /// Call it after every [`Port::start`], which resets some devices, and keep
    /// the port promiscuous: these frames go to a group address.
    pub fn take_over_flow_control(&mut self) -> FlowControlReport {
        if self.netdev().is_some() {
            // The interface's own settings stay its administrator's.
            let unsupported = FlowControlStep::Unsupported;
            return FlowControlReport {
                driver: self.driver_name(),
                link_pause_off: unsupported,
                priority_pause_off: unsupported,
                control_frames_received: unsupported,
                control_frames_sent: self.sends_mac_control(),
            };
        }
        // Priority pause first: the link's setting decides which control frames are passed on.
        let priority_pause_off = self.priority_pause_off();
        self.priority_pause = match priority_pause_off {
            FlowControlStep::Done => PauseState::Off,
            _ => PauseState::Unknown,
        };
        let mut link_pause_off = self.flow_control_off(true);
        let mut control_frames_received = link_pause_off;
        if let FlowControlStep::Failed(errno) = link_pause_off {
            // The driver may refuse only the forwarding.
            link_pause_off = self.flow_control_off(false);
            control_frames_received =
                if errno.is_unsupported() { FlowControlStep::Unsupported } else { FlowControlStep::Failed(errno) };
        } else if link_pause_off == FlowControlStep::Done && !self.forwards_control_frames() {
            // Accepted and ignored.
            control_frames_received = FlowControlStep::Unsupported;
        }
        FlowControlReport {
            driver: self.driver_name(),
            link_pause_off,
            priority_pause_off,
            control_frames_received,
            control_frames_sent: self.sends_mac_control(),
        }
    }

    /// Returns the fate of sent frames of EtherType 0x8808, as known for the port's driver.
    pub fn sends_mac_control(&self) -> MacControlTransmit {
        let nic = || InterfaceNic::find(Path::new("/sys"), &self.interface()?);
        let of_driver = mac_control_of(&self.driver_name());
        // A NIC below the interface may drop frames that DPDK's driver sends.
        match of_driver {
            MacControlTransmit::Sent => nic().map_or(of_driver, |nic| nic.sends_mac_control()),
            _ => of_driver,
        }
    }

    /// The kernel's interface behind the port.
    fn interface(&self) -> Option<String> {
        self.device_info().ok()?.if_index.and_then(kernel_pause::interface_name)
    }

    /// Reads back the device's own flow control. A link that comes up may negotiate anew: read again then.
    pub fn device_flow_control(&self) -> DeviceFlowControl {
        if let Some(interface) = self.interface() {
            return DeviceFlowControl {
                link: kernel_pause::link_pause(&interface),
                priority: kernel_pause::priority_pause(&interface),
            };
        }
        let driver = self.driver_name();
        if HAVE_NO_PAUSE.contains(&driver.as_str()) {
            return DeviceFlowControl { link: PauseState::Off, priority: PauseState::Off };
        }
        // DPDK can set PFC but not read it back.
        let priority = if HAVE_NO_PFC.contains(&driver.as_str()) { PauseState::Off } else { self.priority_pause };
        DeviceFlowControl { link: self.link_pause(), priority }
    }

    /// The mode in the device's registers, where its driver reads them.
    fn link_pause(&self) -> PauseState {
        match self.flow_control_settings() {
            Some(settings) if settings.mode == 0 => PauseState::Off,
            Some(_) => PauseState::On,
            None => PauseState::Unknown,
        }
    }

    fn flow_control_settings(&self) -> Option<sys::weir_flow_control> {
        let mut settings = sys::weir_flow_control::default();
        // SAFETY: `settings` is writable.
        let ret = unsafe { sys::weir_flow_control_get(self.id(), &mut settings) };
        (ret == 0).then_some(settings)
    }

    fn flow_control_off(&mut self, forward: bool) -> FlowControlStep {
        // SAFETY: the port is ours.
        step(unsafe { sys::weir_flow_control_off(self.id(), c_int::from(forward)) })
    }

    fn priority_pause_off(&mut self) -> FlowControlStep {
        for priority in 0..8 {
            // SAFETY: the port is ours.
            let ret = unsafe { sys::weir_priority_flow_control_off(self.id(), priority) };
            let outcome = step(ret);
            if outcome != FlowControlStep::Done {
                return outcome;
            }
        }
        FlowControlStep::Done
    }

    fn forwards_control_frames(&self) -> bool {
        self.flow_control_settings().is_some_and(|settings| settings.mac_ctrl_frame_fwd != 0)
    }
}

/// The NIC of a kernel interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceNic {
    /// The kernel's driver, e.g. `ixgbe`.
    pub driver: String,
    /// PCI vendor and device; `None` on another bus.
    pci: Option<(u16, u16)>,
}

impl InterfaceNic {
    /// The NIC of an interface, or of one below it (bond, bridge port, VLAN), as `sys`, which is `/sys`, has it. `None` where there
    /// is none.
    pub fn find(sys: &Path, interface: &str) -> Option<InterfaceNic> {
        let folder = sys.join("class/net").join(interface);
        let device = folder.join("device");
        let Ok(driver) = fs::read_link(device.join("driver")) else {
            let entries = fs::read_dir(&folder).ok()?.flatten();
            let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
            let below: Vec<InterfaceNic> =
                names.filter_map(|name| InterfaceNic::find(sys, name.strip_prefix("lower_")?)).collect();
            // One NIC that drops them is enough.
            let drops = |nic: &&InterfaceNic| nic.sends_mac_control() == MacControlTransmit::DroppedByDevice;
            return below.iter().find(drops).or(below.first()).cloned();
        };
        let number =
            |file| u16::from_str_radix(fs::read_to_string(device.join(file)).ok()?.trim().strip_prefix("0x")?, 16).ok();
        Some(InterfaceNic {
            driver: driver.file_name()?.to_string_lossy().into_owned(),
            pci: number("vendor").zip(number("device")),
        })
    }

    /// Returns whether frames of EtherType 0x8808 leave the interface, from the drivers' sources (Linux 6.1).
    pub fn sends_mac_control(&self) -> MacControlTransmit {
        match self.driver.as_str() {
            // i40e_add_filter_to_drop_tx_flow_control_frames.
            "i40e" => MacControlTransmit::DroppedByDevice,
            // ice_fltr_add_eth: ETH_P_PAUSE, ICE_FLTR_TX, ICE_DROP_PACKET.
            "ice" => MacControlTransmit::DroppedByDevice,
            // The physical function's ETQF_FILTER_FC with TX_ANTISPOOF, set while `spoofchk` is on.
            "ixgbevf" if self.is_x550_function() => MacControlTransmit::DroppedByDevice,
            "ixgbe" | "ixgbevf" | "igb" | "igc" | "e1000" | "e1000e" | "vmxnet3" | "virtio_net" => {
                MacControlTransmit::Sent
            }
            _ => MacControlTransmit::Unknown,
        }
    }

    /// Virtual functions of X550, X550EM_X and X550EM_A, and as Hyper-V has them.
    fn is_x550_function(&self) -> bool {
        matches!(self.pci, Some((0x8086, 0x1564 | 0x1565 | 0x15a8 | 0x15a9 | 0x15b4 | 0x15c5)))
    }
}

/// Drivers of devices that are memory: they can't pause a peer, nor be paused.
const HAVE_NO_PAUSE: [&str; 11] = [
    "af_packet",
    "net_ring",
    "net_null",
    "net_pcap",
    "net_af_packet",
    "net_af_xdp",
    "net_tap",
    "net_memif",
    "net_vhost",
    "net_virtio",
    "net_vmxnet3",
];
/// Drivers of NICs whose hardware knows no PFC.
const HAVE_NO_PFC: [&str; 3] = ["net_e1000_igb", "net_e1000_em", "net_igc"];

fn step(ret: c_int) -> FlowControlStep {
    match Errno::from_return(ret) {
        Errno(0) => FlowControlStep::Done,
        errno if errno.is_unsupported() => FlowControlStep::Unsupported,
        errno => FlowControlStep::Failed(errno),
    }
}

fn mac_control_of(driver: &str) -> MacControlTransmit {
    match driver {
        // Its initialisation installs a drop filter for the EtherType.
        "net_i40e" => MacControlTransmit::DroppedByDevice,
        "af_packet" | "net_ring" | "net_null" | "net_pcap" | "net_af_packet" | "net_af_xdp" | "net_tap"
        | "net_memif" | "net_vhost" | "net_virtio_user" => MacControlTransmit::Sent,
        // ixgbe filters them only for virtual functions of X550.
        "net_ixgbe" => MacControlTransmit::Sent,
        _ => MacControlTransmit::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interface's folder as `/sys` has it.
    fn interface(sys: &Path, name: &str, driver: &str, device: &str) {
        let nic = sys.join("class/net").join(name).join("device");
        fs::create_dir_all(&nic).unwrap();
        std::os::unix::fs::symlink(format!("../drivers/{driver}"), nic.join("driver")).unwrap();
        fs::write(nic.join("vendor"), "0x8086\n").unwrap();
        fs::write(nic.join("device"), format!("{device}\n")).unwrap();
    }

    #[test]
    fn interfaces_whose_driver_drops_control_frames_are_known() {
        let sys = tempfile::tempdir().unwrap();
        for (name, driver, device, expected) in [
            ("xl710", "i40e", "0x1583", MacControlTransmit::DroppedByDevice),
            ("e810", "ice", "0x1593", MacControlTransmit::DroppedByDevice),
            ("x550vf", "ixgbevf", "0x1565", MacControlTransmit::DroppedByDevice),
            ("82599vf", "ixgbevf", "0x10ed", MacControlTransmit::Sent),
            ("82599", "ixgbe", "0x10fb", MacControlTransmit::Sent),
            ("cx5", "mlx5_core", "0x1017", MacControlTransmit::Unknown),
        ] {
            interface(sys.path(), name, driver, device);
            let nic = InterfaceNic::find(sys.path(), name).unwrap();
            assert_eq!((nic.driver.as_str(), nic.sends_mac_control()), (driver, expected));
        }
        let bond = sys.path().join("class/net/bond0");
        fs::create_dir_all(bond.join("lower_82599")).unwrap();
        fs::create_dir_all(bond.join("lower_e810")).unwrap();
        assert_eq!(InterfaceNic::find(sys.path(), "bond0").map(|nic| nic.driver), Some("ice".to_owned()));
        fs::create_dir_all(sys.path().join("class/net/veth0")).unwrap();
        assert_eq!(InterfaceNic::find(sys.path(), "veth0"), None);
    }

    #[test]
    fn i40e_is_recognised() {
        let report = FlowControlReport {
            driver: "net_i40e".to_owned(),
            link_pause_off: FlowControlStep::Done,
            priority_pause_off: FlowControlStep::Unsupported,
            control_frames_received: FlowControlStep::Done,
            control_frames_sent: mac_control_of("net_i40e"),
        };
        assert!(!report.is_usable());
        assert!(report.to_string().ends_with("dropped by the device"));
    }
}
