//! State of a device's own flow control after the start, and its consequences for the port.

use weir_config::{PortConfig, SwitchConfig};
use weir_dpdk_io::{DeviceFlowControl, MacControlTransmit, PauseState, Port};
use weir_flowctl::MessageKind;

use crate::nics::DeviceIssue;

/// Refuses a port with lossless classes whose driver drops the MAC control frames that it is to send, unless the file says that they
/// leave (`sends = true`).
pub(crate) fn check_control_transmit(
    switch: &SwitchConfig,
    port: &PortConfig,
    sends: MacControlTransmit,
    driver: &str,
) -> Option<DeviceIssue> {
    let speaks = !switch.classes.lossless.is_empty() && port.flow_control.message_kind() != MessageKind::Nothing;
    let is_dropped = sends == MacControlTransmit::DroppedByDevice && !port.device_flow_control.sends;
    (speaks && is_dropped).then(|| DeviceIssue {
        message: format!(
            "port {}: {} will not be sent: the {driver} driver has its NIC drop every MAC control frame (EtherType 0x8808)",
            port.name,
            port.flow_control.label()
        ),
        help: "use another NIC for lossless ports, or write flow_control = \"none\" here; where the NIC's filter is off: \
               device_flow_control = { sends = true }"
            .to_owned(),
    })
}

/// State of the flow control of a port's device. Weir pauses peers and obeys them in software; a device that does so too acts on all
/// classes at once, and without regard to the buffer.
#[derive(Clone, Debug)]
pub(crate) struct DevicePause {
    port: String,
    driver: String,
    netdev: Option<String>,
    found: DeviceFlowControl,
    is_lossless: bool,
}

impl DevicePause {
    /// Reads the device's state.
    pub(crate) fn read(switch: &SwitchConfig, config: &PortConfig, port: &Port) -> DevicePause {
        DevicePause {
            port: config.name.clone(),
            driver: port.driver_name(),
            netdev: config.device.netdev().map(str::to_owned),
            found: port.device_flow_control(),
            is_lossless: !switch.classes.lossless.is_empty()
                && config.flow_control.message_kind() != MessageKind::Nothing,
        }
    }

    /// Off, on or unknown.
    pub(crate) fn state(&self) -> PauseState {
        self.found.state()
    }

    /// Logs the state: as a warning where it endangers lossless classes.
    pub(crate) fn log(&self, switch: &str) {
        let (port, found) = (&self.port, self.found);
        match self.danger() {
            Some(danger) => tracing::warn!(%switch, %port, "{danger}; {}", self.help()),
            None => tracing::info!(%switch, %port, "the device's own flow control: {found}"),
        }
    }

    /// Describes the risk for lossless classes; `None` without risk.
    pub(crate) fn danger(&self) -> Option<String> {
        if !self.is_lossless {
            return None;
        }
        let found = self.found;
        match self.state() {
            PauseState::Off => None,
            PauseState::On => Some(format!(
                "the device's own flow control is on ({found}): it stops all classes for one, and pauses its peer for its own \
                 queue, which no buffer policy sees"
            )),
            PauseState::Unknown => Some(format!(
                "whether the device pauses by itself can't be read ({found}): if it does, it stops all classes for one"
            )),
        }
    }

    /// Command that switches it off.
    pub(crate) fn help(&self) -> String {
        let interface = self.netdev.as_deref().unwrap_or("IFACE");
        if self.netdev.is_some() || self.driver.starts_with("mlx") || self.driver.starts_with("net_mlx") {
            return format!(
                "switch it off: ethtool -A {interface} autoneg off rx off tx off; dcb pfc set dev {interface} prio-pfc all:off \
                 (firmware DCBX may switch it on again: mlxconfig -d DEVICE set LLDP_NB_DCBX_P1=0 DCBX_IEEE_P1=0 DCBX_CEE_P1=0)"
            );
        }
        "switch it off at the peer (ethtool -A IFACE autoneg off rx off tx off there), or use another NIC".to_owned()
    }
}
