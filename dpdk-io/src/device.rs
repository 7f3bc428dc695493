//! A device's description: what it can do, its link, its counters.

use std::ffi::{CStr, c_char};

/// What a device is and can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Driver name, e.g. `net_ixgbe`.
    pub driver: String,
    /// Bus, e.g. `pci` or `vdev`.
    pub bus: String,
    /// Most receive queues.
    pub max_rx_queues: u32,
    /// Most transmit queues.
    pub max_tx_queues: u32,
    /// Descriptors of a receive queue, least and most.
    pub rx_desc: (u32, u32),
    /// Descriptors of a transmit queue, least and most.
    pub tx_desc: (u32, u32),
    /// Smallest and largest MTU.
    pub mtu: (u16, u16),
    /// Index of the kernel's interface behind the port, if there is one.
    pub if_index: Option<u32>,
}

/// State of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Whether frames can pass.
    pub up: bool,
    /// Speed in Mb/s; `None` if unknown. Virtual devices mostly say 10000.
    pub speed_mbps: Option<u32>,
    /// Whether both directions work at once.
    pub full_duplex: bool,
}

/// What a device's own flow control was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PauseState {
    /// Off, or the device has none.
    Off,
    /// The device cannot be asked.
    Unknown,
    /// The device pauses its peer, or obeys its peer's PAUSE, by itself.
    On,
}

/// The counters that every driver has, since start or reset. Byte counts are
/// the driver's: most leave out the FCS, none counts preamble and gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Frames received.
    pub ipackets: u64,
    /// Frames sent.
    pub opackets: u64,
    /// Bytes received.
    pub ibytes: u64,
    /// Bytes sent.
    pub obytes: u64,
    /// Frames dropped because the receive queue was full.
    pub imissed: u64,
    /// Frames received damaged; of a netdev port also those longer than it
    /// takes, and several segments in one.
    pub ierrors: u64,
    /// Frames that could not be sent. Drivers of DPDK's count here what
    /// [`crate::TxQueue::send`] left in the batch too, if at all. A netdev port
    /// counts each frame that it took and lost: longer than the interface's MTU,
    /// or refused by the device again and again.
    pub oerrors: u64,
    /// Frames dropped because the receive pool was empty.
    pub rx_nombuf: u64,
}

/// A C array up to its NUL, or all of it.
pub(crate) fn text(bytes: &[c_char]) -> String {
    // SAFETY: `c_char` is a byte.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<u8>(), bytes.len()) };
    CStr::from_bytes_until_nul(bytes)
        .map_or_else(|_| String::from_utf8_lossy(bytes).into_owned(), |text| text.to_string_lossy().into_owned())
}
