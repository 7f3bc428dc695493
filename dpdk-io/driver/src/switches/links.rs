//! Links, interfaces and guests of running switches' ports, which come, go and change.

use weir_config::Device;
use weir_dpdk_io::{LinkStatus, NetdevEvent, Port, netdev_is_running};
use weir_units::PortId;

use super::RunningSwitches;
use crate::device_pause::DevicePause;
use crate::guest_queues::GuestQueues;
use crate::link_rate;
use crate::netdevs::PortEvent;

impl RunningSwitches {
    /// Returns changes of the kernel's interfaces below ports since the last call. A port whose interface is gone has no link until an
    /// interface of its name exists again; netdev ports then reattach to that. Call it before [`RunningSwitches::update_links`].
    pub fn netdev_events(&self) -> Vec<PortEvent> {
        let mut events = self.netdevs.poll();
        for port_event in events.iter_mut().filter(|port_event| matches!(port_event.event, NetdevEvent::Created(_))) {
            let port = self.switches[port_event.switch].ports[port_event.port].as_ref();
            match port.map(Port::reattach) {
                Some(Ok(true)) => {
                    port_event.attached = true;
                    self.netdevs.record_reattached(port_event.switch, port_event.port);
                }
                Some(Err(error)) => tracing::debug!("{error}"),
                Some(Ok(false)) | None => {}
            }
        }
        events
    }

    /// Reads every port's link and speed and updates the pipeline; returns the ports whose link changed. Rate changes are logged.
    pub fn update_links(&self) -> Vec<(usize, PortId, bool)> {
        let mut changed = Vec::new();
        let poll = self.rates.start_poll();
        self.netdevs.look();
        for (index, switch) in self.switches.iter().enumerate() {
            for (state, (number, port)) in switch.shared.ports().iter().zip(switch.ports.iter().enumerate()) {
                let no_link = LinkStatus { up: false, speed_mbps: None, full_duplex: false };
                let link = port.as_ref().map(|port| if port.is_removed() { Ok(no_link) } else { port.link() });
                let Some(Ok(mut link)) = link else { continue };
                let (id, config) = (PortId(number as u16), &switch.config.ports[number]);
                // One source alone reports each port's carrier, as two would report a change at different times. DPDK's AF_XDP driver
                // reports every link as up.
                if let Device::AfXdp(interface) = &config.device {
                    link.up = netdev_is_running(interface);
                }
                link.up &= self.netdevs.is_there(index, number);
                let comes_up = link.up && !state.has_carrier();
                if let Some(rate) = poll.rate(config, &link, comes_up)
                    && let Some(change) = switch.shared.set_link_rate(id, rate)
                {
                    link_rate::log_change(&switch.config, config, rate, &change);
                }
                if link.up != state.has_carrier() {
                    switch.shared.set_link_up(id, link.up);
                    if link.up
                        && let Some(port) = port
                    {
                        // A link that comes up may have negotiated PAUSE.
                        let found = DevicePause::read(&switch.config, config, port);
                        if found.danger().is_some() {
                            found.log(&switch.config.name);
                        }
                    }
                    changed.push((index, id, link.up));
                }
            }
        }
        changed
    }

    /// Returns changes of the guests' enabled queues at vhost-user ports since the last call.
    pub fn guest_queues(&self) -> Vec<GuestQueues> {
        let mut news = Vec::new();
        for (index, switch) in self.switches.iter().enumerate() {
            for (number, (port, config)) in switch.ports.iter().zip(&switch.config.ports).enumerate() {
                let Some(peers) = port.as_ref().and_then(Port::enabled_queues) else { continue };
                let id = PortId(number as u16);
                news.extend(self.guests.update(
                    index,
                    id,
                    GuestQueues::from_enabled(index, id, config.device.queues(), peers),
                ));
            }
        }
        news
    }
}
