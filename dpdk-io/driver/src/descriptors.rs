//! Descriptors and ring slots of ports.

use weir_config::{Device, PortConfig};
use weir_switch_core::flow_control::RATE_UNKNOWN;
use weir_units::{Bytes, LINK_OVERHEAD, Span};

/// Receive descriptors of a port, mbufs that wait for frames, where nothing asks for more.
pub(crate) const RX_DESCRIPTORS: u16 = 512;
/// Largest receive ring of common NICs (ixgbe, igb, e1000: 4096); other drivers cut it to theirs.
const RX_DESCRIPTORS_MAX: u16 = 4_096;
/// Longest poll gap taken into account.
pub(crate) const POLL_GAP_MAX: Span = Span::from_secs(1);
/// Frames that descriptors are chosen for: smaller ones fill them sooner.
const RX_FRAME: Bytes = Bytes::new(512);
/// Receive descriptors of an AF_XDP port.
pub(crate) const AF_XDP_RX_DESCRIPTORS: u16 = 2048;
/// Ring slots in each direction of a link inside the process: frames "on the wire".
pub(crate) const RING_SLOTS: u32 = 256;
/// Poll gap (real time) that an `af_packet` port's receive ring covers at line rate: longer than the poll gaps of a busy machine. The ring
/// is the kernel's memory, and its size is bounded.
pub(crate) const NETDEV_GAP_MS: u32 = 50;

/// Receive descriptors of a port, as configured. By default a NIC gets enough for frames of 512 B at line rate during the longest poll gap,
/// from 512 to 4096. A NIC without a free descriptor drops frames, of lossless classes too, before any PAUSE.
pub fn rx_descriptors(port: &PortConfig, poll_gap: Span) -> u16 {
    if !matches!(port.device, Device::Pci(_)) {
        return default_descriptors(&port.device);
    }
    port.rx_descriptors.unwrap_or_else(|| {
        let rate = port.rate.unwrap_or(RATE_UNKNOWN);
        let gap = poll_gap.min(POLL_GAP_MAX);
        let frames = rate.bytes_in(gap).get() / (RX_FRAME + LINK_OVERHEAD).get();
        frames.next_power_of_two().clamp(u64::from(RX_DESCRIPTORS), u64::from(RX_DESCRIPTORS_MAX)) as u16
    })
}

/// Receive descriptors of a device where nothing asks for others.
pub(crate) fn default_descriptors(device: &Device) -> u16 {
    if matches!(device, Device::AfXdp(_)) { AF_XDP_RX_DESCRIPTORS } else { RX_DESCRIPTORS }
}
