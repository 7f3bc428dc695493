//! Ports whose devices do not count all losses.

use weir_config::{Device, SwitchConfig};
use weir_dpdk_driver::driver_counters_of;
use weir_experiments::table::group_by_text;

/// Returns a sentence for each kind of unknown loss, with the ports.
pub(super) fn unknown_losses(switch: &SwitchConfig) -> Vec<String> {
    let reasons = switch.ports.iter().flat_map(|port| {
        let is_pci = matches!(port.device, Device::Pci(_));
        let at_start = "which frames the NIC takes (mtu, tags) and which losses it counts depends on DPDK's driver for it: weir check \
                        --try says so, and the log at the start";
        let unknown = driver_counters_of(&port.device).map_or([None, None], |driver_counters| driver_counters.uncounted());
        let unknown = ["receive", "transmit"].into_iter().zip(unknown).filter_map(|(direction, uncounted)| {
            Some(format!("losses at the device on {direction} are unknown: it does not count {}", uncounted?))
        });
        let reasons = unknown.chain(is_pci.then(|| at_start.to_owned()));
        reasons.map(|what| (what, port.name.as_str())).collect::<Vec<_>>()
    });
    group_by_text(reasons).into_iter().map(|(what, ports)| format!("{ports}: {what}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_with_uncounted_losses_are_named() {
        let port = |name, device| format!("[[ports]]\nname = \"{name}\"\n{device}\nrate = \"1Gbps\"\n");
        let text = [("a", "af_packet = \"x\""), ("b", "tap = \"y\""), ("c", "pci = \"0000:01:00.0\"")]
            .map(|(name, device)| port(name, device))
            .concat();
        let sentences = unknown_losses(&weir_config::parse("lab", &text).unwrap());
        assert!(
            sentences.iter().any(|line| line.starts_with("c: ") && line.contains("weir check --try")),
            "{sentences:?}"
        );
        assert!(!sentences.iter().any(|line| line.starts_with("b") || line.contains(", b")), "{sentences:?}");
    }
}
