//! Cooked captures of Linux (`tcpdump -i any`): SLL (LINKTYPE_LINUX_SLL) and SLL2 (LINKTYPE_LINUX_SLL2), whose headers lack the destination.

use pcap_file::DataLink;
use weir_config::ReplayDirection;

/// Places in a cooked header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CookedLayout {
    /// Bytes of the header.
    pub(crate) bytes: usize,
    /// Byte of the packet's type: 4 is outgoing.
    packet_type: usize,
    address: usize,
    protocol: usize,
}

const OUTGOING: u8 = 4;

/// Returns the layout of a link type's header; `None` for links that are not cooked.
pub(crate) fn layout(link: DataLink) -> Option<CookedLayout> {
    match link {
        DataLink::LINUX_SLL => Some(CookedLayout { bytes: 16, packet_type: 1, address: 6, protocol: 14 }),
        DataLink::LINUX_SLL2 => Some(CookedLayout { bytes: 20, packet_type: 10, address: 12, protocol: 0 }),
        _ => None,
    }
}

impl CookedLayout {
    /// Returns the packet behind an Ethernet header to 00:00:00:00:00:00.
    ///
    /// # Panics
    /// If the packet is shorter than the header.
    pub(crate) fn ethernet(&self, cooked: &[u8]) -> Vec<u8> {
        let (address, protocol) = (&cooked[self.address..][..6], &cooked[self.protocol..][..2]);
        [&[0; 6], address, protocol, &cooked[self.bytes..]].concat()
    }

    /// Returns whether the host sent or received the packet.
    pub(crate) fn direction(&self, cooked: &[u8]) -> Option<ReplayDirection> {
        Some(if cooked[self.packet_type] == OUTGOING { ReplayDirection::Out } else { ReplayDirection::In })
    }
}
