//! Description of a device: capabilities, link, counters.

use std::ffi::{CStr, c_char};

use crate::mempool::FRAME_OVERHEAD;

/// Identity and capabilities of a device.
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
    /// Smallest and largest MTU that the driver takes.
    pub mtu: (u16, u16),
    /// Bytes of an MTU's longest frame over that MTU, FCS included. Drivers count different tags: ixgbe none (18), igb one (22), igc
    /// and i40e two (26).
    pub mtu_overhead: u32,
    /// Smallest receive buffer, in bytes.
    pub receive_buffer_min: u32,
    /// Index of the kernel's interface behind the port, if there is one.
    pub if_index: Option<u32>,
}

impl DeviceInfo {
    /// The MTU to set for frames of a payload of `mtu` bytes and two VLAN tags; the device's largest where that is less.
    pub fn mtu_with_tags(&self, mtu: u16) -> u16 {
        let tags = (FRAME_OVERHEAD + FCS_BYTES).saturating_sub(self.mtu_overhead) as u16;
        let with_tags = mtu.saturating_add(tags);
        // Up to the ordinary MTU, Intel's drivers leave the device at ordinary frames, even if they count tags.
        let is_long = mtu > ORDINARY_MTU - TWO_TAGS;
        // The kernel's ixgbe switches off the receiver of a virtual function of an 82599 that asks for more than ordinary frames, unless
        // it has jumbo frames itself (`ixgbe_set_vf_lpe`). Tags have room of their own there.
        if self.driver == IXGBE_VF && mtu <= ORDINARY_MTU {
            return mtu;
        }
        if is_long { with_tags.max(ORDINARY_MTU + 1) } else { with_tags }.min(self.mtu.1)
    }

    /// The longest frame, in bytes without FCS, that the device takes with this MTU set.
    pub fn frame_bytes_max(&self, mtu: u16) -> u32 {
        u32::from(mtu) + self.mtu_overhead.saturating_sub(FCS_BYTES)
    }

    /// Reads the limits as `rte_eth_dev_configure` does (`eth_dev_get_overhead_len`): a driver without a largest MTU has none but that
    /// of its longest frame.
    pub(crate) fn limits(min_mtu: u16, max_mtu: u16, max_rx_pktlen: u32) -> ((u16, u16), u32) {
        let overhead = match max_rx_pktlen.checked_sub(u32::from(max_mtu)) {
            Some(overhead) if max_mtu != u16::MAX => overhead,
            _ => 14 + FCS_BYTES,
        };
        let largest = max_rx_pktlen.saturating_sub(overhead).min(u32::from(max_mtu)) as u16;
        ((min_mtu, if max_rx_pktlen == 0 { max_mtu } else { largest }), overhead)
    }
}

/// Bytes of the frame check sequence.
pub(crate) const FCS_BYTES: u32 = 4;
/// `RTE_ETHER_MTU`, above which drivers have their devices take long frames.
const ORDINARY_MTU: u16 = 1_500;
const TWO_TAGS: u16 = 8;
const IXGBE_VF: &str = "net_ixgbe_vf";

/// State of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    /// Whether frames can pass.
    pub up: bool,
    /// Speed in Mb/s; `None` if unknown. Virtual devices mostly report 10000.
    pub speed_mbps: Option<u32>,
    /// Whether both directions work at once.
    pub full_duplex: bool,
}

/// State of a device's own flow control, as found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PauseState {
    /// Off, or the device has none.
    Off,
    /// The device does not report it.
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
    /// Frames that could not be sent. DPDK's drivers may count here also frames that [`crate::TxQueue::send`] left in the batch. A netdev
    /// port counts each frame that it took and lost: longer than the interface's MTU, or refused by the device again and again.
    pub oerrors: u64,
    /// Frames dropped because the receive pool was empty.
    pub rx_nombuf: u64,
    /// Frames dropped at receive queues, as drivers count them by queue.
    pub q_errors: u64,
}

/// A C array up to its NUL, or all of it.
pub(crate) fn text(bytes: &[c_char]) -> String {
    // SAFETY: `c_char` is a byte.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<u8>(), bytes.len()) };
    CStr::from_bytes_until_nul(bytes)
        .map_or_else(|_| String::from_utf8_lossy(bytes).into_owned(), |text| text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Limits as drivers of DPDK 22.11 report them.
    fn info(max_mtu: u16, max_rx_pktlen: u32) -> DeviceInfo {
        let (mtu, mtu_overhead) = DeviceInfo::limits(68, max_mtu, max_rx_pktlen);
        DeviceInfo {
            driver: String::new(),
            bus: "pci".to_owned(),
            max_rx_queues: 1,
            max_tx_queues: 1,
            rx_desc: (32, 4_096),
            tx_desc: (32, 4_096),
            mtu,
            mtu_overhead,
            receive_buffer_min: 1_024,
            if_index: None,
        }
    }

    #[test]
    fn two_tags_pass_at_the_full_mtu() {
        // ixgbe_dev_info_get, eth_igb_infos_get, eth_igc_infos_get, i40e_dev_info_get.
        for (driver, max_mtu, max_rx_pktlen, overhead) in [
            ("ixgbe", 15_854, 15_872, 18),
            ("igb", 16_361, 16_383, 22),
            ("igc", 9_702, 9_728, 26),
            ("i40e", 9_702, 9_728, 26),
        ] {
            let device = info(max_mtu, max_rx_pktlen);
            assert_eq!((device.mtu.1, device.mtu_overhead), (max_mtu, overhead), "{driver}");
            for mtu in [1_500, 3_000, 9_000, 9_216] {
                let set = device.mtu_with_tags(mtu);
                let longest = device.frame_bytes_max(set);
                assert!(longest == u32::from(mtu) + 22 || (set, longest) == (1_501, 1_523), "{driver}: {set}");
                assert!(set > 1_500, "{driver}: the device is left at ordinary frames");
            }
        }
    }

    #[test]
    fn a_device_with_less_takes_what_it_can() {
        // eth_em_infos_get gives no largest MTU; 82574.
        let device = info(u16::MAX, 0x2412);
        assert_eq!((device.mtu.1, device.mtu_overhead), (9_216, 18));
        assert_eq!(device.frame_bytes_max(device.mtu_with_tags(9_000)), 9_022);
        assert_eq!(device.frame_bytes_max(device.mtu_with_tags(9_216)), 9_230, "untagged at the full MTU");
        // ixgbevf_dev_info_get: 9,728 B of frame.
        let function = DeviceInfo { driver: IXGBE_VF.to_owned(), ..info(9_710, 9_728) };
        assert_eq!([1_000, 1_500, 1_501].map(|mtu| function.mtu_with_tags(mtu)), [1_000, 1_500, 1_509]);
        // virtio: the overhead of its frames has nothing to do with tags.
        let device = info(1_500, 9_728);
        assert_eq!(device.mtu_with_tags(1_500), 1_500);
    }
}
