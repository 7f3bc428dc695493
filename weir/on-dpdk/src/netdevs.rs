//! Logs changes of the kernel's interfaces below ports.

use weir_config::SwitchConfig;
use weir_dpdk_driver::RunningSwitches;
use weir_dpdk_io::NetdevEvent;

/// Logs the changes since the last call.
pub(crate) fn log(switches: &[SwitchConfig], running: &RunningSwitches) {
    for port_event in running.netdev_events() {
        let config = &switches[port_event.switch];
        let (switch, port, interface) = (&config.name, &config.ports[port_event.port].name, &port_event.interface);
        match port_event.event {
            NetdevEvent::Removed => tracing::error!(
                switch = %switch, port = %port,
                "the interface {interface} is gone: frames for the port are dropped as port_down"
            ),
            NetdevEvent::Created(_) if port_event.attached => {
                tracing::info!(switch = %switch, port = %port, "there is an interface {interface} again: the port uses it");
            }
            NetdevEvent::Created(_) => tracing::warn!(
                switch = %switch, port = %port,
                "there is an interface {interface} again, and the port is not attached to it: start weir again to use it"
            ),
            NetdevEvent::Mtu(now) if u64::from(now.mtu) < config.mtu.get() => tracing::warn!(
                switch = %switch, port = %port,
                "the MTU of {interface} is {} now, less than the switch's {}: longer frames are lost at the device",
                now.mtu, config.mtu.get()
            ),
            NetdevEvent::Mtu(now) => {
                tracing::info!(switch = %switch, port = %port, "the MTU of {interface} is {} now", now.mtu);
            }
            // The port's own log reports its link.
            NetdevEvent::Link(_) => {}
        }
    }
}
