//! Packet memory, sized so that only the MMU, never a lack of mbufs, decides about admission.

use weir_config::{Device, PortConfig, SwitchConfig, TX_DESCRIPTORS};
use weir_dpdk_io::{
    DEFAULT_DATA_ROOM, HEADROOM, MAX_BURST, Mempool, MempoolConfig, MempoolLayout, PIECED_MAX, data_room_for,
    free_hugepage_bytes, mempool_bytes,
};
use weir_switch_core::BURST_MAX;
use weir_switch_core::burst::{RECEIVED_MAX, frames_held_max};
use weir_units::{Bytes, FCS_BYTES};

use crate::descriptors::{POLL_GAP_MAX, RING_SLOTS, default_descriptors, rx_descriptors};
use crate::error::DriverError;
use crate::lldp::{self, POSTED_MAX};
use crate::nic;

/// Additional mbufs of an AF_XDP port: its driver's fill queue, and sent frames in its completion queue.
const AF_XDP_MBUFS: u32 = 2 * 2048;
/// Mbufs that each lcore keeps at hand: DPDK's most. Mbufs in flight in a round of an lcore with up to eight ports then come back to
/// it without passing the store that all lcores share.
pub(crate) const CACHE: u32 = 512;
/// Control mbufs cached by each lcore. Few, as the lcore that allocates an mbuf may not be the lcore that frees it (links inside the
/// process), and a cache keeps half as many again before it returns some.
pub(crate) const CONTROL_CACHE: u32 = 32;
/// Mbufs of each lcore for copies of frames, flooded or for a clone: a burst that waits to be admitted, and two while one is made.
const COPIES: u32 = BURST_MAX as u32 + 2;
/// Mbufs of each lcore of switches with clones, for a burst that is to be copied.
const COPYING: u32 = BURST_MAX as u32;
/// Bytes that drivers need in an mbuf beyond a frame with two tags. virtio puts 12 before it. igb needs most: the FCS, another tag, and
/// two tags again when it compares an MTU's frame with a buffer (`eth_igb_rx_init`).
const DRIVER_BYTES: u32 = 16;
/// NICs (ixgbe, igb, igc: `SRRCTL.BSIZEPACKET`) receive into whole KiB of an mbuf. A longer frame takes two.
const NIC_ROOM_UNIT: u32 = 1_024;
/// Least data room for AF_XDP and NICs, in bytes.
const NIC_ROOM_MIN: u32 = (DEFAULT_DATA_ROOM - HEADROOM) as u32;
/// Mbufs for flow-control frames, for each port.
const CONTROL_FRAMES: u32 = 64;
/// Bytes of an mbuf for a flow-control frame, behind DPDK's headroom.
const CONTROL_FRAME_BYTES: u32 = 64;
/// EAL's own memory, and page fragmentation of pools.
const EAL_BYTES: u64 = 64 << 20;

/// Packet memory of a process's switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Mbufs for the frames that the buffers hold, one each.
    pub buffered: u32,
    /// Mbufs on their way in and out: descriptors, bursts, rings, the lcores' caches.
    pub in_flight: u32,
    /// Bytes of one mbuf's data, with DPDK's headroom.
    pub data_room: u16,
    /// Mbufs for flow-control frames, in a pool of their own.
    pub control: u32,
    /// True if NICs read and write the memory by themselves.
    pub for_devices: bool,
}

impl Memory {
    /// The longest frame, without FCS, that an mbuf holds.
    pub fn frame_bytes_max(&self) -> usize {
        usize::from(self.data_room.saturating_sub(weir_dpdk_io::HEADROOM))
    }

    /// The memory for these switches on this many lcores, and `extra` mbufs for others in the process. Reads the capture files
    /// that ports replay without end.
    pub fn for_switches(switches: &[SwitchConfig], lcores: usize, extra: u32) -> Memory {
        let buffered = switches.iter().map(|switch| frames_held_max(switch) as u64 + 1);
        let all: usize = switches.iter().map(|switch| switch.ports.len()).sum();
        let clones = switches.iter().flat_map(|switch| &switch.ports).filter(|port| port.clone_of().is_some()).count();
        // Clones have no devices and send no control frames.
        let ports = all - clones;
        let with_nics = switches.iter().flat_map(|switch| &switch.ports).filter(|port| port.nic.is_some()).count();
        let own = switches.iter().flat_map(|switch| &switch.ports).filter(|port| port.clone_of().is_none());
        // Drivers free sent mbufs only when their descriptors are used again, which takes control frames in a queue for these alone.
        let nic_ports = own.clone().filter(|port| matches!(port.device, Device::Pci(_))).count();
        let in_control_queues = nic_ports as u32 * u32::from(TX_DESCRIPTORS);
        let nics: u32 =
            switches.iter().flat_map(|switch| switch.real_ports().map(|port| nic::mbufs(switch, port))).sum();
        let at_ports: u32 = own.map(at_port).sum::<u32>() + nics;
        // A receiver that has no forwarder on its lcore passes frames on by a ring; it takes three lcores to have one.
        let handed_over = if lcores > 2 { RECEIVED_MAX as u32 } else { 0 };
        // In an lcore's cache, and outside it during a search for the last ones.
        let per_lcore = CACHE * 3 / 2 + PIECED_MAX + handed_over + COPIES + if clones > 0 { COPYING } else { 0 };
        // Frames of LLDP at each lcore, on their way to the control thread and from it.
        let lldp = if switches.iter().any(|switch| switch.lldp) { lldp::RECEIVED_MAX + POSTED_MAX } else { 0 };
        let in_flight = at_ports + (lcores as u32 + 1) * per_lcore + (lcores * lldp) as u32 + extra;
        let frame_max =
            switches.iter().map(|switch| switch.tagged_frame_bytes_max().get() - FCS_BYTES).max().unwrap_or(0) as u32;
        // Others in the process may have such devices.
        let receives_alone = |port: &PortConfig| matches!(port.device, Device::Pci(_) | Device::AfXdp(_));
        let has_receiving = switches.iter().flat_map(|switch| &switch.ports).any(receives_alone);
        let data_room =
            if has_receiving || extra > 0 { nic_data_room(frame_max) } else { software_data_room(frame_max) };
        Memory {
            buffered: buffered.sum::<u64>().min(u64::from(u32::MAX / 2)) as u32,
            in_flight,
            data_room,
            // A NIC in front of a host sends some too.
            control: (ports + with_nics) as u32 * CONTROL_FRAMES + in_control_queues + control_kept(lcores),
            for_devices: has_nics(switches),
        }
    }

    /// The memory for tasks with devices of their own, and no switch: `mbufs` frames, of this length at most (without FCS).
    pub fn for_tasks(devices: &[Device], frame_bytes_max: usize, mbufs: u32) -> Memory {
        let of = |device: &Device| u32::from(TX_DESCRIPTORS) + u32::from(default_descriptors(device));
        let own = |device: &Device| if matches!(device, Device::AfXdp(_)) { AF_XDP_MBUFS } else { 0 };
        let at_devices: u32 = devices.iter().map(|device| of(device) + own(device) + 2 * MAX_BURST as u32).sum();
        Memory {
            buffered: mbufs,
            in_flight: at_devices + 2 * CACHE,
            data_room: nic_data_room(frame_bytes_max as u32),
            control: CONTROL_FRAMES + control_kept(1),
            for_devices: devices.iter().any(|device| matches!(device, Device::Pci(_))),
        }
    }

    /// All mbufs of the data pool.
    pub fn mbufs(&self) -> u32 {
        self.buffered + self.in_flight
    }

    /// Data room of the control pool's mbufs.
    pub(crate) fn control_data_room(&self) -> u16 {
        data_room_for(CONTROL_FRAME_BYTES).unwrap_or(DEFAULT_DATA_ROOM)
    }

    /// Bytes of the pools on the page size that will be used.
    pub fn bytes(&self) -> Bytes {
        let dense = self.bytes_with(MempoolLayout::Dense);
        if !self.for_devices || free_hugepage_bytes() >= u64::from(to_ask_for(dense)) << 20 {
            return dense;
        }
        self.bytes_with(MempoolLayout::WithinPages)
    }

    /// Returns true if the free hugepages hold the packet memory, false if it will lie in ordinary pages.
    pub fn fits_hugepages(&self) -> bool {
        free_hugepage_bytes() >= u64::from(self.megabytes()) << 20
    }

    /// Hugepages of 2 MiB for the packet memory.
    pub fn hugepages(&self) -> u32 {
        to_ask_for(self.bytes_with(MempoolLayout::Dense)).div_ceil(2)
    }

    /// Memory to request from EAL, in MiB: the pools, a fifth for pages not filled, and EAL's own.
    pub fn megabytes(&self) -> u32 {
        to_ask_for(self.bytes())
    }

    fn bytes_with(&self, layout: MempoolLayout) -> Bytes {
        let data = mempool_bytes(self.mbufs(), self.data_room, layout);
        Bytes::new(data + mempool_bytes(self.control, self.control_data_room(), layout))
    }
}

/// Data room for frames of drivers that copy, or that receive into all of an mbuf. Lengths are without FCS.
fn software_data_room(frame_bytes_max: u32) -> u16 {
    data_room_for(frame_bytes_max + DRIVER_BYTES).unwrap_or(u16::MAX)
}

/// Data room with which NICs receive each frame into one mbuf. Lengths are without FCS.
fn nic_data_room(frame_bytes_max: u32) -> u16 {
    let room = (frame_bytes_max + DRIVER_BYTES).next_multiple_of(NIC_ROOM_UNIT).max(NIC_ROOM_MIN);
    data_room_for(room).unwrap_or(u16::MAX)
}

/// Most control mbufs that the caches of the lcores and one other task thread hold: the pool has as many more, so caches never keep a
/// transmitter from a message.
const fn control_kept(lcores: usize) -> u32 {
    (lcores as u32 + 1) * CONTROL_CACHE * 3 / 2
}

/// Mbufs held by a port's device: descriptors, frames on a link inside the process, a burst each way.
fn at_port(port: &PortConfig) -> u32 {
    let own = match port.device {
        Device::AfXdp(_) => AF_XDP_MBUFS,
        Device::Ring(_) => 2 * RING_SLOTS,
        // The replayer holds a burst of the trace.
        Device::Replay(_) => 2 * RING_SLOTS + MAX_BURST as u32,
        _ => 0,
    };
    let descriptors = u32::from(TX_DESCRIPTORS) + u32::from(rx_descriptors(port, POLL_GAP_MAX));
    own + descriptors + 2 * MAX_BURST as u32
}

fn to_ask_for(pools: Bytes) -> u32 {
    ((pools.get() * 6 / 5 + EAL_BYTES) >> 20) as u32 + 1
}

fn has_nics(switches: &[SwitchConfig]) -> bool {
    switches.iter().flat_map(|switch| &switch.ports).any(|port| matches!(port.device, Device::Pci(_)))
}

/// Creates a pool of `count` mbufs, with `cache` of them cached per lcore.
pub(crate) fn pool(
    name: &str,
    count: u32,
    cache: u32,
    data_room: u16,
    for_devices: bool,
) -> Result<Mempool, DriverError> {
    Ok(Mempool::new(name, MempoolConfig { count, cache, data_room, socket: None, for_devices })?)
}

#[cfg(test)]
mod tests {
    use weir_units::Span;

    use super::*;

    fn switch(buffer: &str) -> SwitchConfig {
        let text = format!(
            "[buffer]\n{buffer}\n[[ports]]\nname = \"a\"\nring = \"a\"\nrate = \"10Gbps\"\n[[ports]]\nname = \"b\"\nring = \"b\"\nrate = \"10Gbps\"\n"
        );
        weir_config::parse("test.toml", &text).unwrap()
    }

    #[test]
    fn mbufs_for_the_buffer_follow_the_mean_frame() {
        let memory = |mean_frame: &str, lossless: &str| {
            let keys =
                format!("size = \"16MB\"\nheadroom = \"100KB\"\n{mean_frame}\n[classes]\nlossless = [{lossless}]");
            Memory::for_switches(&[switch(&keys)], 1, 0)
        };
        let exact = memory("mean_frame = \"exact\"", "3, 4");
        assert_eq!(exact.buffered, 250_001);
        assert!(exact.bytes() > Bytes::mb(400), "{}", exact.bytes());
        let lossy = memory("", "");
        assert_eq!(lossy.buffered, 62_501);
        assert!(lossy.bytes() < Bytes::mb(150), "{}", lossy.bytes());
        // Headroom of two ports and classes has an mbuf for each 64 B, the rest for each 256 B.
        let lossless = memory("", "3, 4");
        assert_eq!(lossless.buffered, (16_000_000 - 400_000) / 256 + 400_000 / 64 + 1);
        assert_eq!(lossless.in_flight, exact.in_flight);
    }

    #[test]
    fn mbufs_hold_the_longest_frame_and_what_nics_receive_into() {
        let room = |port: &str| {
            let text = format!(
                "[buffer]\nheadroom = \"10KB\"\n[[ports]]\nname = \"a\"\n{port}\n[[ports]]\nname = \"b\"\nring = \"b\"\n"
            );
            Memory::for_switches(&[weir_config::parse("test.toml", &text).unwrap()], 1, 0).frame_bytes_max()
        };
        let software = room("ring = \"a\"");
        assert!((1_518..1_700).contains(&software), "{software}");
        assert_eq!(room("pci = \"81:00.0\""), 2_048);
        assert_eq!(room("af_xdp = \"eth0\""), 2_048);
    }

    /// Checks against the drivers' own sums: `ixgbe_dev_rx_init`, `eth_igb_rx_init`, `igc_rx_init` of DPDK 22.11.
    #[test]
    fn nics_receive_the_longest_frame_into_one_mbuf() {
        for mtu in [1_500, 3_000, 4_200, 9_000, 9_216, 16_000] {
            let text = format!(
                "[switch]\nmtu = {mtu}\n[buffer]\nsize = \"16MB\"\nheadroom = \"100KB\"\n[[ports]]\nname = \"a\"\npci = \"81:00.0\"\n\
                 [[ports]]\nname = \"b\"\nring = \"b\"\n"
            );
            let memory = Memory::for_switches(&[weir_config::parse("test.toml", &text).unwrap()], 1, 0);
            let buffer = memory.frame_bytes_max() >> 10 << 10;
            let tags = 8;
            // The MTU that the device is set to, less by the tags that its driver counts by itself.
            let ixgbe = mtu + tags + 18 + tags;
            let igb = mtu + (tags - 4) + 22 + tags;
            let igc = (mtu + 26).max(1_527);
            assert!(buffer >= ixgbe.max(igb).max(igc), "{mtu}: {buffer}");
            assert!(buffer < mtu + 38 + 1_024 || buffer == 2_048, "{mtu}: {buffer} is no more than needed");
        }
    }

    #[test]
    fn a_nic_has_mbufs_for_all_that_it_may_hold() {
        let memory = |nic: &str| {
            let port = |name: &str, nic: &str| {
                format!("[[ports]]\nname = \"{name}\"\ntap = \"{name}\"\nrate = \"1Gbps\"\n{nic}\n")
            };
            let text =
                format!("[classes]\nlossless = [3]\n[pfc]\nreaction = \"0s\"\n{}{}", port("a", nic), port("b", ""));
            Memory::for_switches(&[weir_config::parse("test.toml", &text).unwrap()], 1, 0)
        };
        let (without, with) =
            (memory(""), memory("nic = { send_buffer = \"32KB\", receive_buffer = \"64KB\", xoff = \"32KB\" }"));
        // 126 frames a class and a burst to be sent, 1,001 and 501 for the host, 64 on the link each way, which is in rings, three batches.
        let frames = 8 * 126 + 32 + 1_001 + 501 + 2 * 64 + 2 * 256 + 3 * 32;
        assert_eq!((with.in_flight - without.in_flight, with.control - without.control), (frames, CONTROL_FRAMES));
    }

    #[test]
    fn what_lcores_keep_leaves_control_frames_for_each_port() {
        for lcores in [1, 2, 3, 16] {
            let memory = Memory::for_switches(&[switch("size = \"2MB\"")], lcores, 0);
            // DPDK's cache takes half as many again before it gives all back. The thread that starts lcores has one too.
            let kept = (lcores as u32 + 1) * (CONTROL_CACHE + CONTROL_CACHE / 2);
            assert!(memory.control >= kept + 2 * CONTROL_FRAMES, "{lcores} lcores: {memory:?}");
        }
    }

    #[test]
    fn a_nics_queue_of_control_frames_keeps_what_it_sent() {
        let control = |device: &str| {
            let text = format!(
                "[[ports]]\nname = \"a\"\n{device}\nrate = \"10Gbps\"\n[[ports]]\nname = \"b\"\nring = \"b\"\nrate = \"10Gbps\"\n"
            );
            Memory::for_switches(&[weir_config::parse("test.toml", &text).unwrap()], 1, 0).control
        };
        assert_eq!(control("pci = \"81:00.0\"") - control("tap = \"a\""), u32::from(TX_DESCRIPTORS));
    }

    #[test]
    fn clones_take_only_the_copies_of_a_burst() {
        let plain = switch("size = \"16MB\"\nmean_frame = \"exact\"");
        let text = "[buffer]\nsize = \"16MB\"\nmean_frame = \"exact\"\n[[ports]]\nname = \"a\"\nring = \"a\"\nrate = \"10Gbps\"\n\
                    [[ports]]\nname = \"b\"\nring = \"b\"\nrate = \"10Gbps\"\n";
        let clones: String = (0..5).map(|n| format!("[[ports]]\nname = \"c{n}\"\nclone_of = \"a\"\n")).collect();
        let cloned = weir_config::parse("test.toml", &format!("{text}{clones}")).unwrap();
        let (plain, cloned) = (Memory::for_switches(&[plain], 2, 0), Memory::for_switches(&[cloned], 2, 0));
        assert_eq!(cloned.in_flight, plain.in_flight + 3 * COPYING);
        assert_eq!((cloned.buffered, cloned.control), (plain.buffered, plain.control));
    }

    #[test]
    fn cells_save_memory() {
        let memory = Memory::for_switches(&[switch("size = \"16MB\"\ncell_bytes = 250\nmean_frame = \"exact\"")], 1, 0);
        assert_eq!(memory.buffered, 64_001);
    }

    #[test]
    fn descriptors_cover_the_poll_gap() {
        let config = |port: &str| {
            let text = format!(
                "[buffer]\nheadroom = \"10KB\"\n[[ports]]\nname = \"a\"\n{port}\n[[ports]]\nname = \"b\"\nring = \"b\"\n"
            );
            weir_config::parse("test.toml", &text).unwrap().ports[0].clone()
        };
        let nic = config("pci = \"81:00.0\"\nrate = \"10Gbps\"");
        let chosen = |us| rx_descriptors(&nic, Span::from_micros(us));
        // 532 B on the wire each: 2350 frames in a millisecond.
        assert_eq!(
            (chosen(0), chosen(100), chosen(400), chosen(1_000), chosen(50_000)),
            (512, 512, 1_024, 4_096, 4_096)
        );
        assert_eq!(rx_descriptors(&config("pci = \"81:00.0\"\nrx_descriptors = 128"), Span::ZERO), 128);
        assert_eq!(rx_descriptors(&config("ring = \"a\""), Span::from_secs(1)), 512);
    }
}
