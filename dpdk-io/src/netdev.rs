//! A network interface of the kernel as a port: `AF_PACKET` sockets of our own, without DPDK's driver.
//!
//! Frames arrive by a ring that is shared with the kernel ([`receiver`]) and leave by `sendmmsg` ([`transmitter`]), which reports for
//! each frame whether it left. DPDK's driver puts IPv4 fragments together, writes 0x8100 for any outer tag, and counts neither
//! overruns of the ring nor refused frames.

mod checksum;
mod counters;
mod interface;
mod receiver;
mod ring;
mod transmitter;

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crate::device::{DeviceInfo, FCS_BYTES, LinkStatus, PortStats};
use crate::error::Errno;
use crate::mempool::Mempool;
use crate::runtime::lock;
use counters::{ADVICE, Counters};
use interface::Interface;
use ring::RxRing;

pub(crate) use receiver::Receiver;
pub(crate) use transmitter::Transmitter;

/// Options of [`crate::Port::attach_netdev`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetdevOptions {
    /// The longest payload that frames are received with, in bytes: the 14-byte header, and up to two VLAN tags, come
    /// on top. At most 16000. A longer frame is dropped and counted in [`PortStats::ierrors`].
    pub mtu: u16,
    /// Frames that the receive ring holds for a program that does not poll, at least; see [`ring_slots`].
    pub ring_slots: u32,
}

impl Default for NetdevOptions {
    /// Frames of an MTU of 1500, and 2048 of them in the ring.
    fn default() -> NetdevOptions {
        NetdevOptions { mtu: 1500, ring_slots: RING_SLOTS_MIN }
    }
}

/// Slots of a receive ring that covers a poll gap of `gap_ms` at `rate_bps` (bits a second), with frames of 256 B on average. At least
/// 2048, and at most as many as fit 32 MiB with frames of this MTU.
pub fn ring_slots(rate_bps: u64, gap_ms: u32, mtu: u16) -> u32 {
    let wanted = (rate_bps / 8).saturating_mul(u64::from(gap_ms)) / 1000 / RING_FRAME_BYTES;
    let most = RING_BYTES_MAX / u64::from(ring::slot_bytes(mtu));
    // The bound is far below 2^32.
    wanted.clamp(u64::from(RING_SLOTS_MIN), most.max(u64::from(RING_SLOTS_MIN))) as u32
}

/// Bytes that the kernel keeps for a receive ring of `slots` slots.
pub fn netdev_ring_bytes(mtu: u16, slots: u32) -> u64 {
    u64::from(ring::slot_bytes(mtu)) * u64::from(slots)
}

const RING_SLOTS_MIN: u32 = 2048;
const RING_FRAME_BYTES: u64 = 256;
const RING_BYTES_MAX: u64 = 32 << 20;

/// Speed in Mb/s of the kernel's interface of this name, as its driver reports it: virtual ones make one up. `None` if it has none, or is
/// gone. Takes a lock of the whole kernel's: call it rarely.
pub fn netdev_speed_mbps(name: &str) -> Option<u32> {
    ask_by_name(name, Interface::speed_mbps).filter(|mbps| *mbps > 0)
}

/// Returns true if the kernel's interface of this name is up and has a carrier.
pub fn netdev_is_running(name: &str) -> bool {
    ask_by_name(name, Interface::is_running).unwrap_or(false)
}

fn ask_by_name<T>(name: &str, ask: fn(&Interface, &OwnedFd) -> Result<T, Errno>) -> Option<T> {
    // Any socket will do.
    let socket = OwnedFd::from(UnixDatagram::unbound().ok()?);
    ask(&Interface::find(&socket, name).ok()?, &socket).ok()
}

/// The interface behind a port, from attaching to closing. Its queues have their own state.
#[derive(Debug)]
pub(crate) struct Netdev {
    interface: Interface,
    /// Sends, and queries the interface's state. It receives nothing.
    socket: Arc<OwnedFd>,
    options: NetdevOptions,
    counters: Arc<Counters>,
    /// The ring's socket while queues are configured. Closed by the port, when no queue is left.
    receiving: Mutex<Option<Arc<OwnedFd>>>,
    promiscuous: AtomicBool,
    /// The speed in Mb/s as of when the link came up, 0 if unknown; asking takes a lock of the whole kernel's.
    speed_mbps: AtomicU32,
    was_up: AtomicBool,
    /// Flags of the advice that was logged already.
    advised: [AtomicBool; ADVICE],
}

impl Netdev {
    /// Finds the interface and opens the socket that sends.
    pub(crate) fn open(name: &str, options: NetdevOptions) -> Result<Netdev, Errno> {
        let socket = ring::packet_socket()?;
        let interface = Interface::find(&socket, name)?;
        transmitter::prepare(&socket, interface.index())?;
        Ok(Netdev {
            interface,
            socket: Arc::new(socket),
            options,
            counters: Arc::default(),
            receiving: Mutex::new(None),
            promiscuous: AtomicBool::new(false),
            speed_mbps: AtomicU32::new(0),
            was_up: AtomicBool::new(false),
            advised: [const { AtomicBool::new(false) }; ADVICE],
        })
    }

    /// Creates both queues, for frames from `pool`; `in_flight` bounds the sent frames that the kernel holds.
    pub(crate) fn queues(&self, pool: &Mempool, in_flight: u16) -> Result<(Receiver, Transmitter), Errno> {
        let receiving = Arc::new(ring::packet_socket()?);
        let ring = RxRing::new(Arc::clone(&receiving), self.options.mtu, self.options.ring_slots)?;
        let frame_bytes = u32::from(self.options.mtu) + crate::mempool::FRAME_OVERHEAD;
        transmitter::limit_in_flight(&self.socket, u32::from(in_flight), frame_bytes);
        *lock(&self.receiving) = Some(receiving);
        // A new socket has no memberships.
        // Relaxed: set by the port's owner, who also reads it.
        self.promiscuous.store(false, Ordering::Relaxed);
        let receiver = Receiver::new(ring, pool.clone(), Arc::clone(&self.counters));
        let transmitter = Transmitter::new(Arc::clone(&self.socket), Arc::clone(&self.counters));
        Ok((receiver, transmitter))
    }

    /// Starts filling the receive ring.
    pub(crate) fn start(&self) -> Result<(), Errno> {
        match &*lock(&self.receiving) {
            Some(socket) => ring::bind(socket, self.interface.index(), libc::ETH_P_ALL as u16),
            None => Err(Errno(libc::EINVAL)),
        }
    }

    /// Moves both sockets to the interface that has the name now, if the old one was removed; the queues keep running. False if nothing was
    /// to be done.
    pub(crate) fn reattach(&self, started: bool) -> Result<bool, Errno> {
        if !self.interface.find_again(&self.socket)? {
            return Ok(false);
        }
        ring::bind(&self.socket, self.interface.index(), 0)?;
        if let Some(receiving) = &*lock(&self.receiving) {
            // The membership went with the interface.
            if self.promiscuous() {
                ring::set_promiscuous(receiving, self.interface.index(), true)?;
            }
            if started {
                ring::bind(receiving, self.interface.index(), libc::ETH_P_ALL as u16)?;
            }
        }
        self.was_up.store(false, Ordering::Relaxed);
        Ok(true)
    }

    /// Stops reception. The queues are gone.
    pub(crate) fn stop(&self) {
        self.count_missed();
        *lock(&self.receiving) = None;
    }

    pub(crate) fn promiscuous(&self) -> bool {
        self.promiscuous.load(Ordering::Relaxed)
    }

    /// Sets promiscuous mode while the queues live; the kernel counts memberships, so other processes keep theirs.
    pub(crate) fn set_promiscuous(&self, on: bool) -> Result<(), Errno> {
        if on == self.promiscuous() {
            return Ok(());
        }
        match &*lock(&self.receiving) {
            Some(socket) => ring::set_promiscuous(socket, self.interface.index(), on)?,
            None => return Err(Errno(libc::EINVAL)),
        }
        self.promiscuous.store(on, Ordering::Relaxed);
        Ok(())
    }

    /// Down if the interface is, has no carrier, or is gone; never an error.
    pub(crate) fn link(&self) -> LinkStatus {
        let up = self.interface.is_running(&self.socket).unwrap_or(false);
        if up && !self.was_up.swap(true, Ordering::Relaxed) {
            let speed = self.interface.speed_mbps(&self.socket).unwrap_or(0);
            self.speed_mbps.store(speed, Ordering::Relaxed);
        } else if !up {
            self.was_up.store(false, Ordering::Relaxed);
        }
        let speed = self.speed_mbps.load(Ordering::Relaxed);
        LinkStatus { up, speed_mbps: (up && speed > 0).then_some(speed), full_duplex: true }
    }

    /// The payload that frames are received with.
    pub(crate) fn frame_mtu(&self) -> u16 {
        self.options.mtu
    }

    pub(crate) fn mac(&self) -> Result<[u8; 6], Errno> {
        self.interface.mac(&self.socket)
    }

    pub(crate) fn mtu(&self) -> Result<u16, Errno> {
        self.interface.mtu(&self.socket)
    }

    pub(crate) fn info(&self) -> DeviceInfo {
        let slots = (self.options.ring_slots, self.options.ring_slots);
        DeviceInfo {
            driver: DRIVER.to_owned(),
            bus: "kernel".to_owned(),
            max_rx_queues: 1,
            max_tx_queues: 1,
            rx_desc: slots,
            tx_desc: (1, u32::from(u16::MAX)),
            mtu: (68, MTU_MAX),
            mtu_overhead: crate::mempool::FRAME_OVERHEAD + FCS_BYTES,
            receive_buffer_min: 0,
            if_index: Some(self.interface.index()),
        }
    }

    /// Returns the counters. Logs advice at the first loss of each cause.
    pub(crate) fn stats(&self) -> PortStats {
        self.count_missed();
        for ((lost, advice), advised) in self.counters.with_advice().into_iter().zip(&self.advised) {
            // Relaxed: at worst it is logged twice.
            if lost > 0 && !advised.swap(true, Ordering::Relaxed) {
                let name = self.interface.name(&self.socket).unwrap_or_else(|_| "that is gone".to_owned());
                tracing::warn!("interface {name}: {lost} {advice}");
            }
        }
        self.counters.port_stats()
    }

    pub(crate) fn reset_stats(&self) {
        self.count_missed();
        self.counters.reset();
    }

    pub(crate) fn xstats(&self) -> Vec<(String, u64)> {
        self.count_missed();
        self.counters.named().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The kernel forgets its counters when they are read, so they are added up here.
    fn count_missed(&self) {
        if let Some(socket) = &*lock(&self.receiving) {
            self.counters.add_from_kernel(ring::counted_since_last(socket.as_raw_fd()));
        }
    }
}

/// Driver name of netdev ports in [`crate::Port::driver_name`]; DPDK's own driver is `net_af_packet`.
pub(crate) const DRIVER: &str = "af_packet";
/// Frames of this and two tags fit the 16 bits of an mbuf's length, and four slots a block.
pub(crate) const MTU_MAX: u16 = 16_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_follow_the_rate_within_a_bound() {
        assert_eq!(ring_slots(10_000_000, 50, 1500), RING_SLOTS_MIN);
        assert_eq!(ring_slots(200_000_000, 50, 1500), 4_882);
        assert_eq!(ring_slots(1_000_000_000, 50, 1500), 20_164);
        let (gigabit, fast) = (ring_slots(1_000_000_000, 50, 9000), ring_slots(400_000_000_000, 50, 9000));
        assert_eq!(gigabit, fast, "both at the bound");
        assert!(u64::from(fast) * u64::from(ring::slot_bytes(9000)) <= RING_BYTES_MAX);
        assert_eq!(ring_slots(u64::MAX, u32::MAX / 2, 16_000), 2_080);
    }
}
