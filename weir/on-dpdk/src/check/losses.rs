//! Ports whose devices do not count all losses.

use weir_config::{Device, SwitchConfig};
use weir_dpdk_driver::loss_knowledge;
use weir_experiments::table::put_together;

/// Returns a sentence for each kind of unknown loss, with the ports.
pub(super) fn unknown_losses(switch: &SwitchConfig) -> Vec<String> {
    let said = switch.ports.iter().flat_map(|port| {
        let told_at_start = matches!(port.device, Device::Pci(_));
        let at_start = "which frames the NIC takes (mtu, tags) and which losses it counts depends on DPDK's driver for it: weir check \
                        --try says so, and the log at the start";
        let unknown = loss_knowledge(&port.device).map_or([None, None], |knowledge| knowledge.uncounted());
        let unknown = ["receive", "transmit"].into_iter().zip(unknown).filter_map(|(direction, uncounted)| {
            Some(format!("losses at the device on {direction} are unknown: it does not tell of {}", uncounted?))
        });
        let said = unknown.chain(told_at_start.then(|| at_start.to_owned()));
        said.map(|what| (what, port.name.as_str())).collect::<Vec<_>>()
    });
    put_together(said).into_iter().map(|(what, ports)| format!("{ports}: {what}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_can_not_tell_are_named() {
        let port = |name, device| format!("[[ports]]\nname = \"{name}\"\n{device}\nrate = \"1Gbps\"\n");
        let text = [("a", "af_packet = \"x\""), ("b", "tap = \"y\""), ("c", "pci = \"0000:01:00.0\"")]
            .map(|(name, device)| port(name, device))
            .concat();
        let told = unknown_losses(&weir_config::parse("lab", &text).unwrap());
        assert!(told.iter().any(|line| line.starts_with("c: ") && line.contains("weir check --try")), "{told:?}");
        assert!(!told.iter().any(|line| line.starts_with("b") || line.contains(", b")), "{told:?}");
    }
}
