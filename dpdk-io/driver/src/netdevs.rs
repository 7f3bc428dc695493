//! The kernel's interfaces below ports, while the switches run.

use std::sync::{Mutex, PoisonError};

use weir_dpdk_io::{NetdevEvent, NetdevEvents};

/// Change of the interface below a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortEvent {
    /// The switch's number.
    pub switch: usize,
    /// The port's number.
    pub port: usize,
    /// The interface's name.
    pub interface: String,
    /// The change.
    pub event: NetdevEvent,
    /// Whether the port was reattached, to an interface that was made again.
    pub attached: bool,
}

/// Watches the interfaces; knows which ports have lost theirs.
#[derive(Debug)]
pub(crate) struct Netdevs(Mutex<State>);

#[derive(Debug)]
struct State {
    /// `None` where there is nothing to watch, or the kernel does not let us.
    events: Option<NetdevEvents>,
    /// Interface names by switch and port.
    ports: Vec<Vec<Option<String>>>,
    removed: Vec<Vec<bool>>,
    /// Pending events, not yet returned.
    pending_events: Vec<PortEvent>,
}

impl Netdevs {
    pub(crate) fn new(ports: Vec<Vec<Option<String>>>) -> Netdevs {
        let names: Vec<String> = ports.iter().flatten().flatten().cloned().collect();
        let events = (!names.is_empty()).then(|| NetdevEvents::new(names));
        let events = events
            .and_then(|events| events.inspect_err(|error| tracing::warn!("interfaces are not watched: {error}")).ok());
        let removed = ports.iter().map(|ports| vec![false; ports.len()]).collect();
        Netdevs(Mutex::new(State { events, ports, removed, pending_events: Vec::new() }))
    }

    /// Returns the events since the last call.
    pub(crate) fn poll(&self) -> Vec<PortEvent> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.look();
        std::mem::take(&mut state.pending_events)
    }

    /// Reads the kernel's messages, for [`Netdevs::is_there`].
    pub(crate) fn look(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).look();
    }

    /// Records that the port was reattached to the interface that has the name now.
    pub(crate) fn record_reattached(&self, switch: usize, port: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).removed[switch][port] = false;
    }

    /// Returns true unless the port's watched interface is gone.
    pub(crate) fn is_there(&self, switch: usize, port: usize) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).removed[switch][port]
    }
}

impl State {
    fn look(&mut self) {
        let Some(events) = &mut self.events else { return };
        let events = events.poll().unwrap_or_else(|error| {
            tracing::warn!("interfaces can't be watched: {error}");
            Vec::new()
        });
        for (interface, event) in events {
            let port_events = self.handle(&interface, &event);
            self.pending_events.extend(port_events);
        }
    }

    fn handle(&mut self, interface: &str, event: &NetdevEvent) -> Vec<PortEvent> {
        let mut port_events = Vec::new();
        for (switch, ports) in self.ports.iter().enumerate() {
            for (port, _) in ports.iter().enumerate().filter(|(_, name)| name.as_deref() == Some(interface)) {
                // The port's sockets are bound to the interface that was there; one of the same name is another.
                self.removed[switch][port] |= *event == NetdevEvent::Removed;
                port_events.push(PortEvent {
                    switch,
                    port,
                    interface: interface.to_owned(),
                    event: event.clone(),
                    attached: false,
                });
            }
        }
        port_events
    }
}
