//! Counters of a netdev port: frames received, sent, and lost by cause.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::PortStats;
use crate::netdev::ring;
use crate::runtime::lock;

/// A counter with one writer.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    // Relaxed: readers want the number only; a snapshot of several is not consistent.
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// The writer alone adds, so it is no read-modify-write for the CPU.
    #[inline(always)]
    pub(super) fn add(&self, n: u64) {
        self.0.store(self.get().wrapping_add(n), Ordering::Relaxed);
    }
}

/// Written by the receive queue's thread.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct RxCounters {
    pub frames: Counter,
    pub bytes: Counter,
    /// Frames whose checksum a local sender had left to the device, and was completed here.
    pub checksums: Counter,
    /// Several segments in one (GSO, GRO, LRO), which no wire carries: dropped.
    pub superframes: Counter,
    /// Longer than the ring or an mbuf can hold: dropped.
    pub too_long: Counter,
    /// Dropped frames whose offloaded checksum is no 16-bit sum (SCTP's) or lies outside the frame.
    pub bad_checksums: Counter,
    /// Frames that no protocol of the kernel's takes once it has taken their VLAN tag off: received here, and among the interface's
    /// `rx_dropped`.
    pub no_protocol: Counter,
    /// Polls that found a frame, and no free mbuf for it. The frame waits in the ring.
    pub no_mbuf: Counter,
}

/// Written by the transmit queue's thread.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct TxCounters {
    pub frames: Counter,
    pub bytes: Counter,
    /// Longer than the interface's MTU allows: dropped.
    pub too_long: Counter,
    /// Frames dropped after the device had refused them again and again.
    pub refused: Counter,
    /// Frames dropped for any other error of the kernel.
    pub failed: Counter,
    /// Calls of which the interface refused a frame, and may have counted it as dropped. The frame stays with the program.
    pub busy: Counter,
    /// Calls that found the socket's memory full. The interface did not see the frame, which stays with the program.
    pub socket_full: Counter,
    /// 1 during a call whose frames are in no other counter yet.
    pending: AtomicU64,
    /// Calls that found the interface down or gone. The frame stays with the program.
    pub down: Counter,
}

impl TxCounters {
    /// Begins a call that sends.
    pub(super) fn begin_call(&self) {
        self.pending.store(1, Ordering::Relaxed);
    }

    /// Ends the call, whose frames are counted.
    pub(super) fn end_call(&self) {
        // Pairs with the load of `pending`: a reader that finds no call also finds the counters of the last one.
        self.pending.store(0, Ordering::Release);
    }

    fn pending(&self) -> u64 {
        self.pending.load(Ordering::Acquire)
    }
}

/// Entries of [`Counters::with_advice`].
pub(super) const ADVICE: usize = 5;

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub rx: RxCounters,
    pub tx: TxCounters,
    /// Frames that the kernel has put into the ring. Any thread adds.
    ringed: AtomicU64,
    /// Frames that found the ring full, as the kernel counts them. Any thread adds.
    missed: AtomicU64,
    /// Counters at the last reset.
    base: Mutex<PortStats>,
}

impl Counters {
    pub(super) fn add_from_kernel(&self, counted: ring::RingCounts) {
        self.ringed.fetch_add(u64::from(counted.ringed), Ordering::Relaxed);
        self.missed.fetch_add(u64::from(counted.missed), Ordering::Relaxed);
    }

    /// Frames in the ring, and those taken out during this call. To be read before `no_protocol`.
    fn in_ring(&self) -> u64 {
        let rx = &self.rx;
        let taken = rx.frames.get() + rx.superframes.get() + rx.too_long.get() + rx.bad_checksums.get();
        self.ringed.load(Ordering::Relaxed).saturating_sub(taken)
    }

    pub(super) fn port_stats(&self) -> PortStats {
        let all = self.since_start();
        let base = *lock(&self.base);
        PortStats {
            ipackets: all.ipackets - base.ipackets,
            opackets: all.opackets - base.opackets,
            ibytes: all.ibytes - base.ibytes,
            obytes: all.obytes - base.obytes,
            imissed: all.imissed - base.imissed,
            ierrors: all.ierrors - base.ierrors,
            oerrors: all.oerrors - base.oerrors,
            rx_nombuf: 0,
            q_errors: 0,
        }
    }

    /// The counters have one writer each, so that a reset only notes where they stand.
    pub(super) fn reset(&self) {
        *lock(&self.base) = self.since_start();
    }

    fn since_start(&self) -> PortStats {
        let (rx, tx) = (&self.rx, &self.tx);
        PortStats {
            ipackets: rx.frames.get(),
            opackets: tx.frames.get(),
            ibytes: rx.bytes.get(),
            obytes: tx.bytes.get(),
            imissed: self.missed.load(Ordering::Relaxed),
            ierrors: rx.superframes.get() + rx.too_long.get() + rx.bad_checksums.get(),
            oerrors: tx.too_long.get() + tx.refused.get() + tx.failed.get(),
            // Frames wait in the ring for mbufs: if any is lost, then as missed.
            rx_nombuf: 0,
            q_errors: 0,
        }
    }

    /// Losses that an operator can prevent, with advice.
    pub(super) fn with_advice(&self) -> [(u64, &'static str); ADVICE] {
        let (rx, tx) = (&self.rx, &self.tx);
        [
            (
                rx.superframes.get(),
                "frames received with several segments in one were dropped, since no wire carries such; switch off \
                 what makes them: ethtool -K IFACE gro off lro off here, and ethtool -K IFACE tso off gso off at the \
                 other end of a veth pair",
            ),
            (rx.too_long.get(), "frames received are longer than the switch's MTU allows and were dropped"),
            (
                rx.bad_checksums.get(),
                "frames received without their checksum were dropped; at the other end of a veth pair: ethtool -K \
                 IFACE tx off",
            ),
            (
                tx.too_long.get(),
                "frames were longer than the interface's MTU and one 802.1Q tag, which the kernel does not send; set \
                 its MTU to the switch's, or 8 more for frames with two tags or 802.1ad",
            ),
            (
                tx.refused.get(),
                "frames were given up, since the device did not take them; is the MTU of a veth pair's other end as \
                 large, and is that end up?",
            ),
        ]
    }

    /// Named counters since start, not affected by resets. A call is read before its counters.
    pub(super) fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let (rx, tx) = (&self.rx, &self.tx);
        let pending = tx.pending();
        [
            ("rx_good_packets", rx.frames.get()),
            ("rx_good_bytes", rx.bytes.get()),
            ("rx_missed_errors", self.missed.load(Ordering::Relaxed)),
            ("rx_superframes", rx.superframes.get()),
            ("rx_too_long", rx.too_long.get()),
            ("rx_bad_checksums", rx.bad_checksums.get()),
            ("rx_checksums_completed", rx.checksums.get()),
            ("rx_in_ring", self.in_ring()),
            ("rx_no_protocol", rx.no_protocol.get()),
            ("rx_waits_for_mbufs", rx.no_mbuf.get()),
            ("tx_good_packets", tx.frames.get()),
            ("tx_good_bytes", tx.bytes.get()),
            ("tx_too_long", tx.too_long.get()),
            ("tx_refused", tx.refused.get()),
            ("tx_failed", tx.failed.get()),
            ("tx_busy", tx.busy.get()),
            ("tx_socket_full", tx.socket_full.get()),
            ("tx_pending", pending),
            ("tx_interface_down", tx.down.get()),
        ]
        .into_iter()
    }
}
