//! Taking flow control away from the NIC, so that the program does it.

use std::ffi::c_int;
use std::fmt;

use weir_dpdk_sys as sys;

use crate::device::PauseState;
use crate::error::Errno;
use crate::kernel_pause;
use crate::port::Port;

/// What [`Port::take_over_flow_control`] could do.
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
    /// Whether the program can send MAC control frames.
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

/// Whether frames of EtherType 0x8808 leave the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacControlTransmit {
    /// They do.
    Sent,
    /// The driver's initialisation makes the NIC drop them (i40e): this port
    /// cannot pause its neighbour.
    DroppedByDevice,
    /// Not known for this driver: try it on the wire.
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
    /// Whether PFC and GFC in software can work here, as far as is known.
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
        // Priority pause first: the link's setting has the last word on which
        // control frames are passed on.
        let priority_pause_off = self.priority_pause_off();
        self.priority_pause = match priority_pause_off {
            FlowControlStep::Done => PauseState::Off,
            _ => PauseState::Unknown,
        };
        let mut link_pause_off = self.flow_control_off(true);
        let mut control_frames_received = link_pause_off;
        if let FlowControlStep::Failed(errno) = link_pause_off {
            // Maybe it is only the forwarding that the driver refuses.
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

    /// Whether frames of EtherType 0x8808 that the program sends leave the
    /// port, by what is known of its driver.
    pub fn sends_mac_control(&self) -> MacControlTransmit {
        mac_control_of(&self.driver_name())
    }

    /// Reads back what the device does by itself. Links that come up may
    /// negotiate anew, so ask again then.
    pub fn device_flow_control(&self) -> DeviceFlowControl {
        let interface = self.device_info().ok().and_then(|info| info.if_index).and_then(kernel_pause::interface_name);
        if let Some(interface) = interface {
            return DeviceFlowControl {
                link: kernel_pause::link_pause(&interface),
                priority: kernel_pause::priority_pause(&interface),
            };
        }
        let driver = self.driver_name();
        if HAVE_NO_PAUSE.contains(&driver.as_str()) {
            return DeviceFlowControl { link: PauseState::Off, priority: PauseState::Off };
        }
        // DPDK can set PFC and cannot ask for it.
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
