//! Kernel interfaces: their state and its changes (rtnetlink).

use std::collections::BTreeMap;
use std::io;

use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// An interface of the process's network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Index of the interface, never shared with a later interface of the same name.
    pub index: u32,
    /// Name of the interface.
    pub name: String,
    /// True if the interface is switched on.
    pub is_on: bool,
    /// True if the interface has a carrier.
    pub has_carrier: bool,
    /// Bytes of payload in the largest frame.
    pub mtu: u32,
    /// Kernel's loss counters.
    pub counters: InterfaceCounters,
}

/// Frames lost by an interface since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// `rx_dropped`: nobody in the kernel took them, or the driver had no memory.
    pub rx_dropped: u64,
    /// `rx_missed_errors`: the NIC had no descriptor for them.
    pub rx_missed: u64,
    /// `rx_errors`: damaged.
    pub rx_errors: u64,
    /// `tx_dropped`: frames handed over and not sent; of a veth pair also frames that its peer dropped.
    pub tx_dropped: u64,
    /// `tx_errors`: sending failed, for want of a carrier too.
    pub tx_errors: u64,
}

impl Interface {
    /// The interface of this name; `None` if there is none.
    ///
    /// # Errors
    /// The kernel's, or a message of it that can't be read.
    pub fn by_name(name: &str) -> io::Result<Option<Interface>> {
        let mut link = LinkMessage::default();
        link.attributes.push(LinkAttribute::IfName(name.to_owned()));
        let mut question =
            NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::from(RouteNetlinkMessage::GetLink(link)));
        question.header.flags = NLM_F_REQUEST;
        question.finalize();
        let mut bytes = vec![0; question.buffer_len()];
        question.serialize(&mut bytes);
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.send(&bytes, 0)?;
        let (answer, _) = socket.recv_from_full()?;
        let mut found = None;
        let result = each_message(&answer, |message| {
            if let RouteNetlinkMessage::NewLink(link) = message {
                found = Some(interface_of(&link));
            }
        });
        match result {
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            result => result.map(|()| found),
        }
    }

    /// Whether frames can pass.
    pub fn is_up(&self) -> bool {
        self.is_on && self.has_carrier
    }
}

/// Change of an interface that is watched by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetdevEvent {
    /// The interface was removed, left the namespace, or was renamed.
    Removed,
    /// An interface of the name exists again, a different one.
    Created(Interface),
    /// The carrier, or the administrative state, changed.
    Link(Interface),
    /// The MTU changed.
    Mtu(Interface),
}

/// Watcher of interfaces by name. Never blocks.
#[derive(Debug)]
pub struct NetdevEvents {
    socket: Socket,
    /// Last known state of each watched name; `None` while it does not exist.
    known: BTreeMap<String, Option<Interface>>,
}

impl NetdevEvents {
    /// Watches the interfaces of these names, starting with their current state.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(names: impl IntoIterator<Item = String>) -> io::Result<NetdevEvents> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        // Membership first, so that nothing between the first look and the first message is missed.
        socket.bind(&SocketAddr::new(0, RTMGRP_LINK))?;
        socket.set_non_blocking(true)?;
        let mut events = NetdevEvents { socket, known: names.into_iter().map(|name| (name, None)).collect() };
        let names: Vec<String> = events.known.keys().cloned().collect();
        for name in names {
            let now = Interface::by_name(&name)?;
            events.known.insert(name, now);
        }
        Ok(events)
    }

    /// Last known state of a watched interface; `None` if it does not exist.
    fn interface(&self, name: &str) -> Option<&Interface> {
        self.known.get(name)?.as_ref()
    }

    /// Returns the changes since the last call, with the names, in order.
    ///
    /// # Errors
    /// The kernel's. After a receive buffer overrun the state is read anew, without an error.
    pub fn poll(&mut self) -> io::Result<Vec<(String, NetdevEvent)>> {
        let mut events = Vec::new();
        loop {
            match self.socket.recv_from_full() {
                Ok((bytes, _)) => {
                    each_message(&bytes, |message| self.handle(message, &mut events))?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(events),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The messages overflowed the socket's buffer.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => self.look_again(&mut events)?,
                Err(error) => return Err(error),
            }
        }
    }

    fn handle(&mut self, message: RouteNetlinkMessage, events: &mut Vec<(String, NetdevEvent)>) {
        match message {
            RouteNetlinkMessage::NewLink(link) => {
                let interface = interface_of(&link);
                // It may have had a watched name until now.
                let renamed = self.known.iter().filter(|(name, _)| **name != interface.name);
                let renamed = renamed.filter(|(_, was)| was.as_ref().is_some_and(|was| was.index == interface.index));
                if let Some(name) = renamed.map(|(name, _)| name.clone()).next() {
                    self.record(&name, None, events);
                }
                self.record(&interface.name.clone(), Some(interface), events);
            }
            RouteNetlinkMessage::DelLink(link) => {
                let removed = interface_of(&link);
                let is_known = self.interface(&removed.name).is_some_and(|known| known.index == removed.index);
                if is_known {
                    self.record(&removed.name, None, events);
                }
            }
            _ => {}
        }
    }

    fn look_again(&mut self, events: &mut Vec<(String, NetdevEvent)>) -> io::Result<()> {
        let names: Vec<String> = self.known.keys().cloned().collect();
        for name in names {
            let now = Interface::by_name(&name)?;
            self.record(&name, now, events);
        }
        Ok(())
    }

    /// Records the current state of a name and pushes its differences from the last one.
    fn record(&mut self, name: &str, now: Option<Interface>, events: &mut Vec<(String, NetdevEvent)>) {
        let Some(known) = self.known.get_mut(name) else { return };
        let mut push = |event| events.push((name.to_owned(), event));
        match (known.as_ref(), &now) {
            (Some(was), Some(is)) if was.index == is.index => {
                if was.mtu != is.mtu {
                    push(NetdevEvent::Mtu(is.clone()));
                }
                if was.is_up() != is.is_up() {
                    push(NetdevEvent::Link(is.clone()));
                }
            }
            (was, Some(is)) => {
                if was.is_some() {
                    push(NetdevEvent::Removed);
                }
                push(NetdevEvent::Created(is.clone()));
            }
            (Some(_), None) => push(NetdevEvent::Removed),
            (None, None) => {}
        }
        *known = now;
    }
}

/// Hands over the messages in a datagram.
fn each_message(datagram: &[u8], mut each: impl FnMut(RouteNetlinkMessage)) -> io::Result<()> {
    let mut rest = datagram;
    while rest.len() >= NETLINK_HEADER_BYTES {
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        let length = (message.header.length as usize).next_multiple_of(4);
        match message.payload {
            NetlinkPayload::InnerMessage(inner) => each(inner),
            NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
            _ => {}
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(())
}

fn interface_of(link: &LinkMessage) -> Interface {
    let flags = link.header.flags;
    let mut interface = Interface {
        index: link.header.index,
        name: String::new(),
        is_on: flags.contains(LinkFlags::Up),
        has_carrier: flags.contains(LinkFlags::LowerUp),
        mtu: 0,
        counters: InterfaceCounters::default(),
    };
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => interface.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => interface.mtu = *mtu,
            LinkAttribute::Stats64(stats) => {
                interface.counters = InterfaceCounters {
                    rx_dropped: stats.rx_dropped,
                    rx_missed: stats.rx_missed_errors,
                    rx_errors: stats.rx_errors,
                    tx_dropped: stats.tx_dropped,
                    tx_errors: stats.tx_errors,
                };
            }
            _ => {}
        }
    }
    interface
}

/// The multicast group of link changes.
const RTMGRP_LINK: u32 = 1;
const NETLINK_HEADER_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(index: u32, mtu: u32, has_carrier: bool) -> Interface {
        let counters = InterfaceCounters::default();
        Interface { index, name: "veth0".to_owned(), is_on: true, has_carrier, mtu, counters }
    }

    fn watching() -> NetdevEvents {
        let socket = Socket::new(NETLINK_ROUTE).unwrap();
        NetdevEvents { socket, known: BTreeMap::from([("veth0".to_owned(), Some(interface(3, 1500, true)))]) }
    }

    #[test]
    fn each_change_is_one_event() {
        let mut watching = watching();
        let mut changes = |now: Option<Interface>| {
            let mut events = Vec::new();
            watching.record("veth0", now.clone(), &mut events);
            watching.record("veth0", now, &mut events);
            events.into_iter().map(|(_, event)| event).collect::<Vec<_>>()
        };
        assert_eq!(changes(Some(interface(3, 1500, true))), []);
        assert_eq!(changes(Some(interface(3, 1500, false))), [NetdevEvent::Link(interface(3, 1500, false))]);
        assert_eq!(changes(Some(interface(3, 900, false))), [NetdevEvent::Mtu(interface(3, 900, false))]);
        assert_eq!(changes(None), [NetdevEvent::Removed]);
        assert_eq!(changes(Some(interface(7, 900, true))), [NetdevEvent::Created(interface(7, 900, true))]);
        // Removed and made again between two looks.
        let again = interface(8, 900, true);
        assert_eq!(changes(Some(again.clone())), [NetdevEvent::Removed, NetdevEvent::Created(again)]);
    }

    #[test]
    fn a_renamed_interface_is_removed() {
        let mut watching = watching();
        let mut link = LinkMessage::default();
        link.header.index = 3;
        link.attributes.push(LinkAttribute::IfName("other".to_owned()));
        let mut events = Vec::new();
        watching.handle(RouteNetlinkMessage::NewLink(link), &mut events);
        assert_eq!(events, [("veth0".to_owned(), NetdevEvent::Removed)]);
    }

    #[test]
    fn the_loopback_is_found_and_nothing_else_is_made_up() {
        let lo = Interface::by_name("lo").unwrap().expect("every namespace has it");
        assert_eq!((lo.name.as_str(), lo.mtu > 0), ("lo", true));
        assert_eq!(Interface::by_name("nosuch0").unwrap(), None);
    }
}
