//! The receive ring that a packet socket shares with the kernel, `TPACKET_V2`.
//!
//! `TPACKET_V3` hands over blocks of frames, when they are full or after milliseconds, which is too late for a PAUSE. V2 has a word in each
//! slot that names its owner.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::Errno;

/// A socket for whole frames that receives nothing yet (needs CAP_NET_RAW).
pub(super) fn packet_socket() -> Result<OwnedFd, Errno> {
    // SAFETY: no memory is handed over.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(Errno::of_system());
    }
    // SAFETY: a new descriptor that nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Receives frames of this protocol from the interface; of none with 0, which still lets it send.
pub(super) fn bind(socket: &OwnedFd, interface: u32, protocol: u16) -> Result<(), Errno> {
    // SAFETY: plain data; all zero is a valid value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = interface as c_int;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address is readable, of the length given.
    checked(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) })
}

/// Frames to any address, for as long as the socket lives.
pub(super) fn set_promiscuous(socket: &OwnedFd, interface: u32, on: bool) -> Result<(), Errno> {
    let request = libc::packet_mreq {
        mr_ifindex: interface as c_int,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    let option = if on { libc::PACKET_ADD_MEMBERSHIP } else { libc::PACKET_DROP_MEMBERSHIP };
    set_option(socket, libc::SOL_PACKET, option, &request)
}

/// The kernel's counters of a ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingCounts {
    /// Frames that the kernel put into the ring.
    pub ringed: u32,
    /// Frames that found the ring full.
    pub missed: u32,
}

/// Reads the counts since the last call; the kernel starts from 0 again.
pub(super) fn counted_since_last(socket: RawFd) -> RingCounts {
    // `struct tpacket_stats` (linux/if_packet.h): frames, those dropped among them.
    let mut statistics = [0u32; 2];
    let mut len = size_of_val(&statistics) as libc::socklen_t;
    // SAFETY: the array is writable, of the length given.
    let ret = unsafe {
        let to = (&raw mut statistics).cast::<c_void>();
        libc::getsockopt(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS, to, &mut len)
    };
    let [all, missed] = if ret < 0 { [0, 0] } else { statistics };
    RingCounts { ringed: all.saturating_sub(missed), missed }
}

pub(super) fn set_option<T>(socket: &OwnedFd, level: c_int, name: c_int, value: &T) -> Result<(), Errno> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value is readable, of the length given.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const *value).cast(), len) })
}

fn checked(ret: c_int) -> Result<(), Errno> {
    if ret < 0 { Err(Errno::of_system()) } else { Ok(()) }
}

/// The program's end of the ring.
#[derive(Debug)]
pub(super) struct RxRing {
    memory: NonNull<u8>,
    bytes: usize,
    slot_bytes: usize,
    slots_per_block: usize,
    blocks: usize,
    /// The next slot, as its block, its number in there, and its address.
    block: usize,
    in_block: usize,
    next: NonNull<u8>,
    /// Closed after the memory is unmapped, at the latest.
    socket: Arc<OwnedFd>,
}

// SAFETY: the memory belongs to this value alone, on the program's side.
unsafe impl Send for RxRing {}

/// A received frame, in place.
#[derive(Debug)]
pub(super) struct Received<'a> {
    /// Frame from the destination address on, without a tag that the kernel took out. May be truncated, see `len`.
    pub bytes: &'a [u8],
    /// The frame's length, in bytes, of which `bytes` has as much as fits the slot.
    pub len: u32,
    /// The outer VLAN tag that the kernel took out: type and control word.
    pub tag: Option<[u16; 2]>,
    /// Start of the checksummed bytes, and offset of the checksum field from there, if the checksum was left to the device.
    pub checksum: Option<[u16; 2]>,
    /// Several segments in one.
    pub superframe: bool,
}

impl RxRing {
    /// Makes the ring of a new socket: at least `slots` frames of a payload of `mtu` bytes.
    pub(super) fn new(socket: Arc<OwnedFd>, mtu: u16, slots: u32) -> Result<RxRing, Errno> {
        let slot_bytes = slot_bytes(mtu) as usize;
        let slots_per_block = BLOCK_BYTES / slot_bytes;
        let blocks = (slots.max(1) as usize).div_ceil(slots_per_block);
        let one: c_int = 1;
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V2 as c_int))?;
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &one)?;
        set_option(&socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &one)?;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: slot_bytes as u32,
            tp_frame_nr: (blocks * slots_per_block) as u32,
        };
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let bytes = blocks * BLOCK_BYTES;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, socket.as_raw_fd(), 0) };
        if memory == libc::MAP_FAILED {
            return Err(Errno::of_system());
        }
        let memory = NonNull::new(memory.cast::<u8>()).ok_or(Errno(libc::ENOMEM))?;
        Ok(RxRing { memory, bytes, slot_bytes, slots_per_block, blocks, block: 0, in_block: 0, next: memory, socket })
    }

    /// Readable while a frame is there.
    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Returns true if a frame is ready: one load, of memory that stays in the CPU's cache while the ring is empty.
    #[inline(always)]
    pub(super) fn has_frame(&self) -> bool {
        // Acquire: pairs with the kernel's barrier between writing the frame and this word.
        self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// The frame that came first. Call it only if there is one; it stays until [`RxRing::release`].
    #[inline]
    pub(super) fn frame(&self) -> Received<'_> {
        debug_assert!(self.has_frame());
        let slot = self.next.as_ptr();
        // SAFETY: the slot begins with this header, which the kernel has written; it leaves a slot of the program's alone.
        let header = unsafe { slot.cast::<libc::tpacket2_hdr>().read() };
        let (mac, snaplen) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        let within = mac >= VNET_BYTES && mac + snaplen <= self.slot_bytes;
        assert!(within, "the kernel placed a frame outside of its slot");
        // SAFETY: within the slot, see above; the kernel writes there only after `release`, which needs `&mut self`.
        let (bytes, vnet) = unsafe {
            let vnet = slot.add(mac - VNET_BYTES).cast::<VirtioNetHeader>().read_unaligned();
            (std::slice::from_raw_parts(slot.add(mac), snaplen), vnet)
        };
        let status = header.tp_status;
        let tag = (status & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
            let has_type = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            [if has_type { header.tp_vlan_tpid } else { libc::ETH_P_8021Q as u16 }, header.tp_vlan_tci]
        });
        let wants_checksum = vnet.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM != 0;
        Received {
            bytes,
            len: header.tp_len,
            tag,
            checksum: wants_checksum.then_some([vnet.checksum_start, vnet.checksum_offset]),
            superframe: vnet.gso_type != VIRTIO_NET_HDR_GSO_NONE,
        }
    }

    /// Prefetches the start of the slot after the next, for [`RxRing::frame`] and a copy.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let ahead = self.next.as_ptr().wrapping_add(self.slot_bytes);
            // SAFETY: hints; they may point anywhere.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
                _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(64).cast());
            }
        }
    }

    /// Gives the slot of [`RxRing::frame`] back to the kernel.
    #[inline(always)]
    pub(super) fn release(&mut self) {
        // Release: the kernel sees the slot as free after it was read.
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.in_block += 1;
        if self.in_block < self.slots_per_block {
            // SAFETY: another slot of this block.
            self.next = unsafe { self.next.add(self.slot_bytes) };
            return;
        }
        self.in_block = 0;
        self.block = if self.block + 1 == self.blocks { 0 } else { self.block + 1 };
        // SAFETY: the first slot of a block of the mapping.
        self.next = unsafe { self.memory.add(self.block * BLOCK_BYTES) };
    }

    #[inline(always)]
    fn status(&self) -> &AtomicU32 {
        // SAFETY: a slot, which is aligned to 64 bytes, begins with the status; the mapping lives as long as `self`.
        unsafe { AtomicU32::from_ptr(self.next.as_ptr().cast()) }
    }
}

impl Drop for RxRing {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and this is its end.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}

/// Bytes of a slot: the kernel's headers and a frame with two tags, in whole cache lines.
pub(super) fn slot_bytes(mtu: u16) -> u32 {
    (HEADERS_BYTES + u32::from(mtu) + crate::mempool::FRAME_OVERHEAD).next_multiple_of(64)
}

/// `TPACKET2_HDRLEN` and 16 for the Ethernet header, in whole 16s; then the header that `PACKET_VNET_HDR` asks for.
const HEADERS_BYTES: u32 = 80 + VNET_BYTES as u32;
const BLOCK_BYTES: usize = 1 << 16;

/// `struct virtio_net_hdr` (linux/virtio_net.h), in the machine's byte order.
#[repr(C)]
#[derive(Clone, Copy)]
struct VirtioNetHeader {
    flags: u8,
    gso_type: u8,
    header_bytes: u16,
    gso_bytes: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

const VNET_BYTES: usize = size_of::<VirtioNetHeader>();
const VIRTIO_NET_HDR_F_NEEDS_CSUM: u8 = 1;
const VIRTIO_NET_HDR_GSO_NONE: u8 = 0;
/// Socket option since Linux 4.20 (linux/if_packet.h).
const PACKET_IGNORE_OUTGOING: c_int = 23;

const _: () = assert!(VNET_BYTES == 10 && size_of::<libc::tpacket2_hdr>() == 32);
const _: () = assert!(BLOCK_BYTES / (HEADERS_BYTES as usize + super::MTU_MAX as usize + 22 + 63) >= 4);
