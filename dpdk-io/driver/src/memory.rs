//! Packet memory: sized so that the MMU, and never a lack of mbufs, decides what is kept.

use weir_config::{Device, SwitchConfig};
use weir_dpdk_io::{DEFAULT_DATA_ROOM, MAX_BURST, data_room_for, mempool_bytes};
use weir_mmu::Charge;
use weir_switch_core::{BURST_MAX, RECEIVED_MAX};
use weir_units::Bytes;

/// Receive descriptors of a port: mbufs that wait for frames.
pub(crate) const RX_DESCRIPTORS: u16 = 512;
/// The same of an AF_XDP port.
pub(crate) const AF_XDP_RX_DESCRIPTORS: u16 = 2048;
/// Mbufs that an AF_XDP port takes beside: its driver's fill queue, and sent frames in its completion queue.
const AF_XDP_MBUFS: u32 = 2 * 2048;
/// Transmit descriptors of a port. Frames in there are out of the MMU's sight, so there are few.
pub(crate) const TX_DESCRIPTORS: u16 = 128;
/// Places in each direction of a link inside the process: what is "on the wire".
pub(crate) const RING_SLOTS: u32 = 256;
/// How long an `af_packet` port's receive ring takes all that its link brings, in real time, if the port is not polled:
/// longer than the poll gaps of a busy machine. The ring is the kernel's memory, and its size is bounded.
pub(crate) const NETDEV_GAP_MS: u32 = 50;
/// Mbufs that each lcore keeps at hand; at least twice the burst.
pub(crate) const CACHE: u32 = 256;
/// For each lcore of switches with clones: a burst that is to be copied, one clone's copies of it that wait to be admitted,
/// and two in hand while one is flooded.
const COPYING: u32 = 2 * BURST_MAX as u32 + 2;
/// Mbufs for flow-control frames, for each port.
const CONTROL_FRAMES: u32 = 64;
/// Bytes of an mbuf for a flow-control frame, behind DPDK's headroom.
const CONTROL_FRAME_BYTES: u32 = 64;
/// EAL's own, and what pools lose to pages.
const EAL_BYTES: u64 = 64 << 20;

/// What the switches of a process need of packet memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Mbufs that hold what the buffers hold: as many as the smallest frames fill them with.
    pub buffered: u32,
    /// Mbufs on their way in and out: descriptors, bursts, rings, the lcores' caches.
    pub in_flight: u32,
    /// Bytes of one mbuf's data, with DPDK's headroom.
    pub data_room: u16,
    /// Mbufs for flow-control frames, in a pool of their own.
    pub control: u32,
}

impl Memory {
    /// The memory for these switches on this many lcores, and `extra` mbufs for others in the process.
    pub fn of(switches: &[SwitchConfig], lcores: usize, extra: u32) -> Memory {
        let buffered =
            switches.iter().map(|switch| Charge::in_cells(switch.buffer.cell_bytes).frames_max(switch.buffer.size) + 1);
        let all: usize = switches.iter().map(|switch| switch.ports.len()).sum();
        let clones = switches.iter().flat_map(|switch| &switch.ports).filter(|port| port.clone_of().is_some()).count();
        // Clones have no devices and send no control frames.
        let ports = all - clones;
        let per_port = u32::from(RX_DESCRIPTORS) + u32::from(TX_DESCRIPTORS) + 2 * RING_SLOTS + 2 * MAX_BURST as u32;
        let per_lcore = CACHE * 3 / 2 + RECEIVED_MAX as u32 + if clones > 0 { COPYING } else { 0 };
        let all_ports = switches.iter().flat_map(|switch| &switch.ports);
        let xdp = all_ports.filter(|port| matches!(port.device, Device::AfXdp(_))).count();
        let per_xdp = u32::from(AF_XDP_RX_DESCRIPTORS) + AF_XDP_MBUFS;
        let in_flight = ports as u32 * per_port + xdp as u32 * per_xdp + (lcores as u32 + 1) * per_lcore + extra;
        let frame_max = switches.iter().map(|switch| switch.frame_bytes_max().get()).max().unwrap_or(0);
        let data_room = data_room_for(frame_max as u32).unwrap_or(u16::MAX).max(DEFAULT_DATA_ROOM);
        Memory {
            buffered: buffered.sum::<u64>().min(u64::from(u32::MAX / 2)) as u32,
            in_flight,
            data_room,
            control: ports as u32 * CONTROL_FRAMES + 2 * CACHE,
        }
    }

    /// All mbufs of the data pool.
    pub fn mbufs(&self) -> u32 {
        self.buffered + self.in_flight
    }

    /// Data room of the control pool's mbufs.
    pub fn control_data_room(&self) -> u16 {
        data_room_for(CONTROL_FRAME_BYTES).unwrap_or(DEFAULT_DATA_ROOM)
    }

    /// What the pools take.
    pub fn bytes(&self) -> Bytes {
        let data = mempool_bytes(self.mbufs(), self.data_room);
        Bytes::new(data + mempool_bytes(self.control, self.control_data_room()))
    }

    /// What to ask EAL for, in MiB: the pools, a fifth for pages not filled, and EAL's own.
    pub fn megabytes(&self) -> u32 {
        ((self.bytes().get() * 6 / 5 + EAL_BYTES) >> 20) as u32 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(buffer: &str) -> SwitchConfig {
        let text = format!(
            "[buffer]\n{buffer}\n[[ports]]\nname = \"a\"\nring = \"a\"\nrate = \"10Gbps\"\n[[ports]]\nname = \"b\"\nring = \"b\"\nrate = \"10Gbps\"\n"
        );
        weir_config::parse("test.toml", &text).unwrap()
    }

    #[test]
    fn the_smallest_frames_fill_the_buffer_before_the_pool_is_empty() {
        let memory = Memory::of(&[switch("size = \"16MB\"")], 1, 0);
        assert_eq!(memory.buffered, 250_001);
        assert!(memory.bytes() > Bytes::mb(500), "{}", memory.bytes());
    }

    #[test]
    fn clones_take_only_the_copies_of_a_burst() {
        let plain = switch("size = \"16MB\"");
        let text = "[buffer]\nsize = \"16MB\"\n[[ports]]\nname = \"a\"\nring = \"a\"\nrate = \"10Gbps\"\n\
                    [[ports]]\nname = \"b\"\nring = \"b\"\nrate = \"10Gbps\"\n";
        let clones: String = (0..5).map(|n| format!("[[ports]]\nname = \"c{n}\"\nclone_of = \"a\"\n")).collect();
        let cloned = weir_config::parse("test.toml", &format!("{text}{clones}")).unwrap();
        let (plain, cloned) = (Memory::of(&[plain], 2, 0), Memory::of(&[cloned], 2, 0));
        assert_eq!(cloned.in_flight, plain.in_flight + 3 * COPYING);
        assert_eq!((cloned.buffered, cloned.control), (plain.buffered, plain.control));
    }

    #[test]
    fn cells_save_memory() {
        let memory = Memory::of(&[switch("size = \"16MB\"\ncell_bytes = 250")], 1, 0);
        assert_eq!(memory.buffered, 64_001);
    }
}
