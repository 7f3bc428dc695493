//! What a port's device says of itself before the switch is built: its address, and the speed of its link, which is the rate of
//! a NIC's port that has none in its file. A physical link takes seconds to come up, so that is waited for.

use std::time::{Duration, Instant};

use weir_config::{Device, PortConfig, SwitchConfig};
use weir_dpdk_io::{Link, Port};
use weir_switch_core::flow_control::RATE_UNKNOWN;
use weir_switch_core::switch::PortFacts;
use weir_units::{BitRate, MacAddr};

use crate::devices::OpenPort;

/// How long a link may take to come up before a rate is assumed.
const LINK_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The facts of all ports, clones' empty, once the links that give a rate are up or time is over.
pub(crate) fn port_facts(switch: &SwitchConfig, open: &[Option<OpenPort>]) -> Vec<PortFacts> {
    let deadline = Instant::now() + LINK_WITHIN;
    let ports = || switch.ports.iter().zip(open).filter_map(|(config, open)| Some((config, &open.as_ref()?.port)));
    let waits = |(config, port): (&PortConfig, &Port)| follows_link(config) && link_rate(port).is_none();
    while ports().any(waits) && Instant::now() < deadline {
        std::thread::sleep(LOOK_EVERY);
    }
    for (config, port) in ports().filter(|(config, _)| follows_link(config)) {
        let (switch, name) = (&switch.name, &config.name);
        match link_rate(port) {
            Some(rate) => tracing::info!(%switch, port = %name, "the port has its link's rate, {rate}"),
            None => tracing::warn!(
                %switch, port = %name,
                "the link is not up after {} s, so a rate of {RATE_UNKNOWN} is assumed for quanta and thresholds; write the \
                 port's `rate`", LINK_WITHIN.as_secs()
            ),
        }
    }
    let facts = |(config, open): (&PortConfig, &Option<OpenPort>)| {
        open.as_ref().map_or_else(PortFacts::default, |open| PortFacts {
            mac: open.port.mac().map(MacAddr).unwrap_or_default(),
            rate: link_rate(&open.port).filter(|_| is_hardware(config)),
        })
    };
    switch.ports.iter().zip(open).map(facts).collect()
}

/// What is to be told of a link that has come up, if its speed is not the rate that the port was built for.
pub(crate) fn other_rate(config: &PortConfig, built_for: BitRate, link: &Link) -> Option<String> {
    let rate = rate_of(link).filter(|rate| follows_link(config) && *rate != built_for)?;
    Some(format!(
        "the link has come up with {rate}, and quanta and thresholds are those of {built_for}: start weir again, or write the \
         port's `rate`"
    ))
}

/// Devices without hardware report a made-up speed.
fn is_hardware(config: &PortConfig) -> bool {
    matches!(config.device, Device::Pci(_))
}

fn follows_link(config: &PortConfig) -> bool {
    is_hardware(config) && config.rate.is_none()
}

fn link_rate(port: &Port) -> Option<BitRate> {
    rate_of(&port.link().ok()?)
}

fn rate_of(link: &Link) -> Option<BitRate> {
    let mbps = link.speed_mbps.filter(|mbps| link.up && *mbps > 0)?;
    Some(BitRate::mbps(u64::from(mbps)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(device: &str) -> PortConfig {
        let text = format!(
            "[buffer]\nheadroom = \"10KB\"\n[[ports]]\nname = \"a\"\n{device}\n[[ports]]\nname = \"b\"\nring = \"b\"\n"
        );
        weir_config::parse("test.toml", &text).unwrap().ports[0].clone()
    }

    #[test]
    fn only_a_nic_without_a_rate_follows_its_link() {
        let link = |up, speed_mbps| Link { up, speed_mbps, full_duplex: true };
        let nic = port("pci = \"81:00.0\"");
        let told = other_rate(&nic, BitRate::gbps(10), &link(true, Some(1_000))).unwrap();
        assert!(told.contains("with 1Gbps") && told.contains("those of 10Gbps"), "{told}");
        assert_eq!(other_rate(&nic, BitRate::gbps(10), &link(true, Some(10_000))), None);
        assert_eq!(other_rate(&nic, BitRate::gbps(10), &link(false, Some(1_000))), None);
        assert_eq!(other_rate(&nic, BitRate::gbps(10), &link(true, None)), None);
        let fixed = port("pci = \"81:00.0\"\nrate = \"10Gbps\"");
        assert_eq!(other_rate(&fixed, BitRate::gbps(10), &link(true, Some(1_000))), None);
        assert_eq!(other_rate(&port("ring = \"a\""), BitRate::gbps(10), &link(true, Some(1_000))), None);
    }
}
