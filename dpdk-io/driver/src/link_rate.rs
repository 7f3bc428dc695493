//! Speeds of ports' links, which are the rates of ports that have none in their file, at the start and while the switch runs.
//!
//! A NIC's port is also shaped to it; the start waits the seconds that a physical link takes to come up. The kernel's interfaces
//! report a speed too, which virtual ones make up: their ports count quanta by it and are not shaped.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_config::{Device, Headroom, PortConfig, SwitchConfig};
use weir_dpdk_io::{LinkStatus, Port, netdev_speed_mbps};
use weir_flowctl::MessageKind;
use weir_mmu::policy::longest_window;
use weir_switch_core::flow_control::RATE_UNKNOWN;
use weir_switch_core::{PortInfo, RateChange};
use weir_units::{BitRate, MacAddr};

use crate::devices::OpenPort;

/// Longest wait for a link to come up before a rate is assumed.
const LINK_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Interval at which the kernel is asked for the speed of its interfaces; the query takes a kernel lock.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Speed that TAP interfaces of older kernels always report.
const MADE_UP_MBPS: u32 = 10;

/// Returns the [`PortInfo`] of all ports (clones' empty) once the links that give a rate are up, or the time limit is over.
pub(crate) fn port_info(switch: &SwitchConfig, open: &[Option<OpenPort>]) -> Vec<PortInfo> {
    let deadline = Instant::now() + LINK_WITHIN;
    let ports = || switch.ports.iter().zip(open).filter_map(|(config, open)| Some((config, &open.as_ref()?.port)));
    let waits = |(config, port): (&PortConfig, &Port)| {
        is_hardware(config) && config.rate.is_none() && rate_now(config, port).is_none()
    };
    while ports().any(waits) && Instant::now() < deadline {
        std::thread::sleep(LOOK_EVERY);
    }
    let facts = |(config, open): (&PortConfig, &Option<OpenPort>)| {
        let Some(OpenPort { port, .. }) = open else { return PortInfo::default() };
        let rate = rate_now(config, port);
        if config.rate.is_none() {
            log_initial(switch, config, rate);
        }
        PortInfo {
            mac: port.mac().map(MacAddr).unwrap_or_default(),
            rate,
            shaped: is_hardware(config) && config.rate.is_none(),
        }
    };
    switch.ports.iter().zip(open).map(facts).collect()
}

/// Instant of the next query of the kernel's interfaces.
#[derive(Debug, Default)]
pub(crate) struct LinkRates(Mutex<Option<Instant>>);

/// One poll of all links.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkPoll {
    asks_kernel: bool,
}

impl LinkRates {
    /// Begins a poll of all links.
    pub(crate) fn start_poll(&self) -> LinkPoll {
        let mut next = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let asks_kernel = next.is_none_or(|next| now >= next);
        if asks_kernel {
            *next = Some(now + ASK_EVERY);
        }
        LinkPoll { asks_kernel }
    }
}

impl LinkPoll {
    /// Speed of a port's link, if it is up and due to be read.
    pub(crate) fn rate(self, config: &PortConfig, link: &LinkStatus, comes_up: bool) -> Option<BitRate> {
        if is_hardware(config) {
            return rate_of(link);
        }
        if self.asks_kernel || comes_up { netdev_rate(config).filter(|_| link.up) } else { None }
    }
}

/// Logs that a port has its link's rate, and settings that can't follow.
pub(crate) fn log_change(switch: &SwitchConfig, config: &PortConfig, rate: BitRate, change: &RateChange) {
    let (switch_name, port) = (&switch.name, &config.name);
    if rate == change.before {
        tracing::info!(switch = %switch_name, %port, "the port has its link's rate, {rate}, as was assumed");
    } else {
        tracing::info!(switch = %switch_name, %port, "the port has its link's new rate, {rate} (was {})", change.before);
    }
    if rate >= change.before {
        warn_of_headroom(switch, config, rate);
    }
    if !change.policy_follows {
        tracing::warn!(switch = %switch_name, %port, "{}", policy_stays(switch, rate));
    }
}

fn log_initial(switch: &SwitchConfig, config: &PortConfig, rate: Option<BitRate>) {
    let (switch_name, port) = (&switch.name, &config.name);
    match rate {
        Some(rate) => {
            tracing::info!(switch = %switch_name, %port, "the port has its link's rate, {rate}");
            if is_hardware(config) {
                warn_of_headroom(switch, config, rate);
            }
        }
        None if is_hardware(config) => tracing::warn!(
            switch = %switch_name, %port,
            "the link is not up after {} s: until it is, a rate of {RATE_UNKNOWN} is assumed for quanta and thresholds, and the \
             port is not shaped", LINK_WITHIN.as_secs()
        ),
        None => {}
    }
}

/// Warns of headroom that is too small for the rate: its size is fixed at the start.
fn warn_of_headroom(switch: &SwitchConfig, config: &PortConfig, rate: BitRate) {
    if let Some(warning) = short_headroom(switch, config, rate) {
        tracing::warn!(switch = %switch.name, port = %config.name, "{warning}");
    }
}

fn short_headroom(switch: &SwitchConfig, config: &PortConfig, rate: BitRate) -> Option<String> {
    let Headroom::Fixed(given) = switch.buffer.headroom else { return None };
    let at_rate = PortConfig { rate: Some(rate), ..config.clone() };
    let rule = switch.headroom_by_rule(&at_rate).filter(|rule| given < *rule)?;
    let is_lossless = !switch.classes.lossless.is_empty() && config.flow_control.message_kind() != MessageKind::Nothing;
    is_lossless.then(|| {
        format!(
            "headroom is {given}, less than the {rule} that the rule asks for at {rate}, and can't grow while the switch runs: \
             lossless frames can be lost; write headroom = \"{rule}\" in [buffer]"
        )
    })
}

fn policy_stays(switch: &SwitchConfig, rate: BitRate) -> String {
    let policy = &switch.buffer.policy;
    let name = policy.name();
    match policy.window_key().map(|key| key.name) {
        Some(key) => format!(
            "policy \"{name}\" goes on with the rate before: it can't count what departs at {rate} in `{key}`; write a {key} of at \
             most {} in [buffer.{name}]",
            longest_window(&[rate])
        ),
        None => format!("policy \"{name}\" goes on with the rate before: it can't work at {rate}"),
    }
}

fn is_hardware(config: &PortConfig) -> bool {
    matches!(config.device, Device::Pci(_))
}

fn rate_now(config: &PortConfig, port: &Port) -> Option<BitRate> {
    if is_hardware(config) { rate_of(&port.link().ok()?) } else { netdev_rate(config) }
}

fn rate_of(link: &LinkStatus) -> Option<BitRate> {
    let mbps = link.speed_mbps.filter(|mbps| link.up && *mbps > 0)?;
    Some(BitRate::mbps(u64::from(mbps)))
}

/// The speed of the kernel's interface below a port without a rate; one with a rate does not go by it.
fn netdev_rate(config: &PortConfig) -> Option<BitRate> {
    let interface = config.device.netdev().filter(|_| config.rate.is_none())?;
    let mbps = netdev_speed_mbps(interface).filter(|mbps| *mbps != MADE_UP_MBPS)?;
    Some(BitRate::mbps(u64::from(mbps)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(device: &str, more: &str) -> SwitchConfig {
        let text = format!(
            "[buffer]\nheadroom = \"20KB\"\n{more}[pfc]\nreaction = \"0s\"\n\
             [[ports]]\nname = \"a\"\n{device}\n[[ports]]\nname = \"b\"\nring = \"b\"\n"
        );
        weir_config::parse("test.toml", &text).unwrap()
    }

    fn port(device: &str) -> PortConfig {
        switch(device, "").ports[0].clone()
    }

    #[test]
    fn a_nics_speed_is_looked_at_each_time_while_it_is_up() {
        let link = |up, speed_mbps| LinkStatus { up, speed_mbps, full_duplex: true };
        let poll = LinkPoll { asks_kernel: false };
        for nic in [port("pci = \"81:00.0\""), port("pci = \"81:00.0\"\nrate = \"10Gbps\"")] {
            let rate = |link| poll.rate(&nic, &link, false);
            assert_eq!(rate(link(true, Some(1_000))), Some(BitRate::gbps(1)));
            assert_eq!([link(false, Some(1_000)), link(true, None), link(true, Some(0))].map(rate), [None; 3]);
        }
    }

    /// `lo` has no speed, nor has an interface that is not there.
    #[test]
    fn the_kernel_is_asked_in_its_turn_and_only_for_ports_without_a_rate() {
        let rates = LinkRates::default();
        assert_eq!([rates.start_poll().asks_kernel, rates.start_poll().asks_kernel], [true, false]);
        let up = LinkStatus { up: true, speed_mbps: Some(10_000), full_duplex: true };
        let asked = |device| LinkPoll { asks_kernel: true }.rate(&port(device), &up, true);
        for device in ["ring = \"a\"", "af_packet = \"lo\"", "af_packet = \"lo\"\nrate = \"1Gbps\""] {
            assert_eq!(asked(device), None, "{device}");
        }
    }

    #[test]
    fn headroom_too_small_for_the_new_rate_is_a_warning() {
        let warning_for =
            |more, rate| short_headroom(&switch("pci = \"81:00.0\"", more), &port("pci = \"81:00.0\""), rate);
        assert_eq!(warning_for("", BitRate::gbps(1)), None);
        let warning = warning_for("", BitRate::gbps(400)).unwrap();
        assert!(warning.starts_with("headroom is 20KB, less than the ") && warning.contains("at 400Gbps"), "{warning}");
        assert_eq!(warning_for("[classes]\nlossless = []\n", BitRate::gbps(400)), None);
    }

    #[test]
    fn an_unchanged_policy_has_a_reason() {
        let spfc = switch("pci = \"81:00.0\"", "policy = \"spfc\"\n[buffer.spfc]\ntc = \"1ms\"\n");
        let message = policy_stays(&spfc, BitRate::gbps(400));
        assert!(message.contains("at 400Gbps in `tc`; write a tc of at most 335us in [buffer.spfc]"), "{message}");
    }
}
