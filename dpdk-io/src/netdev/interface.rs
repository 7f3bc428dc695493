//! Queries of a kernel interface through a socket, in the socket's network namespace. The interface is known by its index, so a rename
//! makes no difference.

use std::ffi::c_ulong;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use crate::device::text;
use crate::error::Errno;

/// An interface by its index, and the name that it was found by.
#[derive(Debug)]
pub(super) struct Interface {
    index: AtomicI32,
    found_by: String,
}

impl Interface {
    /// The interface of this name now.
    pub(super) fn find(socket: &OwnedFd, name: &str) -> Result<Interface, Errno> {
        Ok(Interface { index: AtomicI32::new(index_of(socket, name)?), found_by: name.to_owned() })
    }

    /// Moves to the interface that has the name now, if the old one is gone. False if the old one is still there.
    pub(super) fn find_again(&self, socket: &OwnedFd) -> Result<bool, Errno> {
        if self.named(socket).is_ok() {
            return Ok(false);
        }
        // Relaxed: a number that guards nothing.
        self.index.store(index_of(socket, &self.found_by)?, Ordering::Relaxed);
        Ok(true)
    }

    pub(super) fn index(&self) -> u32 {
        // The kernel's indices are positive.
        self.index.load(Ordering::Relaxed) as u32
    }

    /// Current name of the interface.
    pub(super) fn name(&self, socket: &OwnedFd) -> Result<String, Errno> {
        Ok(text(&self.named(socket)?.ifr_name))
    }

    /// Returns true if the interface is up and has a carrier. The driver is asked for that where it answers: the kernel sets
    /// `IFF_RUNNING`, and sends its messages, up to a second later.
    pub(super) fn is_running(&self, socket: &OwnedFd) -> Result<bool, Errno> {
        let request = self.ask(socket, libc::SIOCGIFFLAGS)?;
        // SAFETY: the call wrote this member of the union.
        let flags = i32::from(unsafe { request.ifr_ifru.ifru_flags });
        let has_carrier = || self.has_carrier(socket).unwrap_or(flags & libc::IFF_RUNNING != 0);
        Ok(flags & libc::IFF_UP != 0 && has_carrier())
    }

    fn has_carrier(&self, socket: &OwnedFd) -> Result<bool, Errno> {
        let mut carrier = EthtoolValue { command: ETHTOOL_GLINK, value: 0 };
        let mut request = self.named(socket)?;
        request.ifr_ifru.ifru_data = (&raw mut carrier).cast();
        ioctl(socket, libc::SIOCETHTOOL as c_ulong, &mut request)?;
        Ok(carrier.value != 0)
    }

    /// Speed in Mb/s as the driver reports it; virtual ones make one up.
    pub(super) fn speed_mbps(&self, socket: &OwnedFd) -> Result<u32, Errno> {
        let mut settings = EthtoolSettings { command: ETHTOOL_GSET, ..EthtoolSettings::default() };
        let mut request = self.named(socket)?;
        request.ifr_ifru.ifru_data = (&raw mut settings).cast();
        ioctl(socket, libc::SIOCETHTOOL as c_ulong, &mut request)?;
        let speed = u32::from(settings.speed_high) << 16 | u32::from(settings.speed);
        Ok(if matches!(speed, 0xffff | u32::MAX) { 0 } else { speed })
    }

    pub(super) fn mac(&self, socket: &OwnedFd) -> Result<[u8; 6], Errno> {
        let request = self.ask(socket, libc::SIOCGIFHWADDR)?;
        // SAFETY: the call wrote this member of the union.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr };
        let mut mac = [0; 6];
        for (to, from) in mac.iter_mut().zip(address.sa_data) {
            *to = from as u8;
        }
        Ok(mac)
    }

    pub(super) fn mtu(&self, socket: &OwnedFd) -> Result<u16, Errno> {
        let request = self.ask(socket, libc::SIOCGIFMTU)?;
        // SAFETY: the call wrote this member of the union.
        Ok(u16::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or(u16::MAX))
    }

    fn ask(&self, socket: &OwnedFd, what: c_ulong) -> Result<libc::ifreq, Errno> {
        let mut request = self.named(socket)?;
        ioctl(socket, what, &mut request)?;
        Ok(request)
    }

    /// A request with the name that the interface has now; ENODEV if it is gone.
    fn named(&self, socket: &OwnedFd) -> Result<libc::ifreq, Errno> {
        let mut request = empty_request();
        request.ifr_ifru.ifru_ifindex = self.index.load(Ordering::Relaxed);
        ioctl(socket, libc::SIOCGIFNAME, &mut request)?;
        Ok(request)
    }
}

fn index_of(socket: &OwnedFd, name: &str) -> Result<i32, Errno> {
    let mut request = empty_request();
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains('\0') {
        return Err(Errno(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    ioctl(socket, libc::SIOCGIFINDEX, &mut request)?;
    // SAFETY: the call wrote this member of the union.
    Ok(unsafe { request.ifr_ifru.ifru_ifindex })
}

fn ioctl(socket: &OwnedFd, what: c_ulong, request: &mut libc::ifreq) -> Result<(), Errno> {
    // SAFETY: the request is readable and writable; where it holds a pointer, that is to a live structure.
    let ret = unsafe { libc::ioctl(socket.as_raw_fd(), what as _, request) };
    if ret < 0 { Err(Errno::of_system()) } else { Ok(()) }
}

fn empty_request() -> libc::ifreq {
    // SAFETY: plain data; all zero is a valid value.
    unsafe { std::mem::zeroed() }
}

/// `ETHTOOL_GSET` and its `struct ethtool_cmd` (linux/ethtool.h): old, and answered by every kernel.
const ETHTOOL_GSET: u32 = 1;

#[repr(C)]
#[derive(Default)]
struct EthtoolSettings {
    command: u32,
    supported: u32,
    advertising: u32,
    speed: u16,
    duplex: u8,
    port: u8,
    phy_address: u8,
    transceiver: u8,
    autoneg: u8,
    mdio_support: u8,
    max_tx_packets: u32,
    max_rx_packets: u32,
    speed_high: u16,
    mdix: u8,
    mdix_control: u8,
    link_partner: u32,
    reserved: [u32; 2],
}

const _: () = assert!(size_of::<EthtoolSettings>() == 44);

/// `ETHTOOL_GLINK` and its `struct ethtool_value`.
const ETHTOOL_GLINK: u32 = 0xa;

#[repr(C)]
struct EthtoolValue {
    command: u32,
    value: u32,
}
