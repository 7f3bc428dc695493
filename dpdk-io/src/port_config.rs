//! Configuration of a port.

use crate::mempool::Mempool;

/// Configuration of a [`crate::Port`]: always without RX and TX offloads. Where
/// the driver has the choice, frames are dropped at a full receive queue
/// (`rx_drop_en`) only of a port with several, and otherwise wait in the NIC's
/// packet buffer.
#[derive(Clone, Debug)]
pub struct PortConfig<'a> {
    /// Receive queues; frames are spread over them by RSS where the device can.
    pub rx_queues: u16,
    /// Transmit queues.
    pub tx_queues: u16,
    /// Descriptors of a receive queue, cut to the device's limits.
    pub rx_desc: u16,
    /// Descriptors of a transmit queue, cut to the device's limits. Frames in
    /// there are out of the program's sight: keep it short.
    pub tx_desc: u16,
    /// Bytes of payload in a frame, the 14-byte header, VLAN tags and FCS not
    /// counted; `None` leaves the driver's, mostly 1500. The device's own limit
    /// is two tags higher, where it can be: [`DeviceInfo::mtu_with_tags`](crate::DeviceInfo::mtu_with_tags).
    pub mtu: Option<u16>,
    /// Whether frames to other addresses are received.
    pub promiscuous: bool,
    /// Pool of the mbufs for received frames.
    pub rx_pool: &'a Mempool,
}

impl<'a> PortConfig<'a> {
    /// One queue per direction, 512 receive and 256 transmit descriptors,
    /// promiscuous, the driver's MTU.
    pub fn new(rx_pool: &'a Mempool) -> PortConfig<'a> {
        PortConfig { rx_queues: 1, tx_queues: 1, rx_desc: 512, tx_desc: 256, mtu: None, promiscuous: true, rx_pool }
    }
}
