//! Transmit queue: sends mbufs to the interface by `sendmmsg`, one call a burst.
//!
//! A transmit ring (`PACKET_TX_RING`, as in DPDK's driver) costs more, as the kernel copies its pages again at the end of a veth pair. It
//! also reports frames as sent that the device refused. `sendmmsg` returns the error of the first frame that did not leave, so that the
//! frame can stay with the program.
//!
//! `PACKET_QDISC_BYPASS` hands frames to the device itself. A full device returns ENOBUFS, and no frame waits in a kernel queue that the
//! switch does not see.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use crate::batch::{Batch, MAX_BURST};
use crate::clock::read_ns;
use crate::error::Errno;
use crate::netdev::counters::Counters;
use crate::netdev::ring::{bind, set_option};

/// Makes a packet socket one that sends to this interface, and receives nothing.
pub(super) fn prepare(socket: &OwnedFd, interface: u32) -> Result<(), Errno> {
    let one: c_int = 1;
    set_option(socket, libc::SOL_PACKET, PACKET_QDISC_BYPASS, &one)?;
    bind(socket, interface, 0)
}

/// Bounds the memory of frames that a device has taken and not sent yet.
pub(super) fn limit_in_flight(socket: &OwnedFd, frames: u32, frame_bytes: u32) {
    let bytes = frames.saturating_mul(frame_bytes + SKB_BYTES).min(i32::MAX as u32 / 2) as c_int;
    // Beyond the system's bound only with CAP_NET_ADMIN; the bound itself will do.
    if set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes).is_err() {
        let _ = set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes);
    }
}

/// The sending part of a netdev port.
#[derive(Debug)]
pub(crate) struct Transmitter {
    socket: Arc<OwnedFd>,
    send_batch: Box<SendBatch>,
    counters: Arc<Counters>,
    failure: SendFailure,
}

/// Arguments of `sendmmsg`. They point to mbufs only during a call.
#[derive(Debug)]
struct SendBatch {
    messages: [libc::mmsghdr; MAX_BURST],
    segments: [libc::iovec; SEGMENTS],
}

// SAFETY: the pointers in there are written before each call and not followed after it.
unsafe impl Send for SendBatch {}

/// State of the front frame's failures to be sent.
#[derive(Debug, Default)]
struct SendFailure {
    /// Instant of the front frame's first refusal, and refusals in a row (0 if it was not refused).
    since_ns: u64,
    times: u32,
    /// Frames from this length on were given up on, and none has left since.
    given_up_bytes: Option<u32>,
}

impl Transmitter {
    pub(super) fn new(socket: Arc<OwnedFd>, counters: Arc<Counters>) -> Transmitter {
        let no_segment = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: plain data; all zero is a valid value.
        let no_message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        let send_batch = SendBatch { messages: [no_message; MAX_BURST], segments: [no_segment; SEGMENTS] };
        Transmitter { socket, send_batch: Box::new(send_batch), counters, failure: SendFailure::default() }
    }

    /// Sends from the front of the batch; returns how many frames are gone: sent, or lost and counted.
    pub(crate) fn send(&mut self, batch: &mut Batch) -> usize {
        let before = batch.len();
        while !batch.is_empty() {
            let frames = self.send_batch.point_to(batch);
            if frames == 0 {
                self.lose_front(batch, |counters| counters.tx.failed.add(1));
                continue;
            }
            let flags = libc::MSG_DONTWAIT;
            self.counters.tx.begin_call();
            // SAFETY: the first `frames` messages point to segments that point to the batch's bytes, all alive.
            let sent = unsafe {
                libc::sendmmsg(
                    self.socket.as_raw_fd(),
                    self.send_batch.messages.as_mut_ptr(),
                    frames as u32,
                    flags as _,
                )
            };
            let goes_on = if sent > 0 {
                self.has_left(batch, sent as usize);
                true
            } else {
                self.handle_error(batch, Errno::of_system())
            };
            self.counters.tx.end_call();
            if !goes_on {
                break;
            }
        }
        before - batch.len()
    }

    fn has_left(&mut self, batch: &mut Batch, frames: usize) {
        let (mut bytes, mut longest) = (0, 0);
        for mbuf in &batch.as_slice()[..frames] {
            bytes += u64::from(mbuf.len());
            longest = longest.max(mbuf.len());
        }
        batch.free_front(frames);
        self.counters.tx.frames.add(frames as u64);
        self.counters.tx.bytes.add(bytes);
        self.failure.times = 0;
        if self.failure.given_up_bytes.is_some_and(|given_up| longest >= given_up) {
            self.failure.given_up_bytes = None;
        }
    }

    /// Handles a front frame that did not leave. Returns true if the next one is to be tried.
    #[cold]
    fn handle_error(&mut self, batch: &mut Batch, error: Errno) -> bool {
        match error.0 {
            libc::EINTR => {}
            libc::EAGAIN => {
                self.counters.tx.socket_full.add(1);
                return false;
            }
            libc::ENETDOWN | libc::ENXIO | libc::ENODEV => {
                self.counters.tx.down.add(1);
                return false;
            }
            libc::ENOBUFS => {
                self.counters.tx.busy.add(1);
                if !self.failure.should_give_up(batch[0].len(), read_ns(libc::CLOCK_MONOTONIC)) {
                    return false;
                }
                self.lose_front(batch, |counters| counters.tx.refused.add(1));
            }
            libc::EMSGSIZE => self.lose_front(batch, |counters| counters.tx.too_long.add(1)),
            _ => self.lose_front(batch, |counters| counters.tx.failed.add(1)),
        }
        true
    }

    fn lose_front(&mut self, batch: &mut Batch, count: impl FnOnce(&Counters)) {
        batch.free_front(1);
        self.failure.times = 0;
        count(&self.counters);
    }
}

impl SendFailure {
    /// Whether a frame of this length, refused once more, is to be given up.
    ///
    /// A full queue empties; but ENOBUFS also means that the far end of a veth pair will never take the frame, as it is
    /// longer than that end's MTU, or the end is down. So a frame waits for [`TIMEOUT_NS`], and after one that was
    /// waited for in vain, those at least as long have only a few tries, until one of them passes.
    fn should_give_up(&mut self, bytes: u32, now_ns: u64) -> bool {
        if self.times == 0 {
            self.since_ns = now_ns;
        }
        self.times += 1;
        let is_hopeless = self.given_up_bytes.is_some_and(|given_up| bytes >= given_up);
        let is_final = if is_hopeless {
            self.times >= TRIES_WHEN_HOPELESS
        } else {
            self.times >= TRIES && now_ns.saturating_sub(self.since_ns) >= TIMEOUT_NS
        };
        if is_final && !is_hopeless {
            self.given_up_bytes = Some(bytes);
        }
        is_final
    }
}

impl SendBatch {
    /// Describes the batch's frames from the front on, as many as there are segments for; 0 if not even one.
    #[inline]
    fn point_to(&mut self, batch: &mut Batch) -> usize {
        let mut used = 0;
        for (index, (message, mbuf)) in self.messages.iter_mut().zip(batch.as_slice()).enumerate() {
            let count = usize::from(mbuf.segment_count());
            let Some(segments) = self.segments.get_mut(used..used + count) else { return index };
            used += count;
            for (segment, bytes) in segments.iter_mut().zip(mbuf.segments()) {
                *segment = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast::<c_void>(), iov_len: bytes.len() };
            }
            message.msg_hdr.msg_iov = segments.as_mut_ptr();
            message.msg_hdr.msg_iovlen = count as _;
        }
        batch.len()
    }
}

/// Pieces of frames in one call; a burst of frames of four pieces.
const SEGMENTS: usize = MAX_BURST * 4;
/// Approximate bytes that the kernel counts for a frame in addition to its length.
const SKB_BYTES: u32 = 1024;
/// Least time (real time) and least number of attempts for a frame that the device refuses.
const TIMEOUT_NS: u64 = 10_000_000;
const TRIES: u32 = 16;
const TRIES_WHEN_HOPELESS: u32 = 4;
/// Socket option of linux/if_packet.h.
const PACKET_QDISC_BYPASS: c_int = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_waited_for_once_and_its_like_no_more() {
        let mut failure = SendFailure::default();
        assert!(!failure.should_give_up(1000, 5));
        assert!((0..100).all(|n| !failure.should_give_up(1000, 6 + n)), "time has not passed");
        assert!(failure.should_give_up(1000, 5 + TIMEOUT_NS));
        failure.times = 0;
        assert!((1..TRIES_WHEN_HOPELESS).all(|_| !failure.should_give_up(1200, 0)));
        assert!(failure.should_give_up(1200, 0));
        failure.times = 0;
        assert!((0..100).all(|_| !failure.should_give_up(999, 0)), "a shorter one may pass");
    }

    /// The interface has not seen the frame, so none of the drops that it counts is this one.
    #[test]
    fn a_full_socket_is_no_refusal_of_the_interface() {
        let socket = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let counters = Arc::new(Counters::default());
        let mut transmitter = Transmitter::new(Arc::new(socket), Arc::clone(&counters));
        assert!(!transmitter.handle_error(&mut Batch::new(), Errno(libc::EAGAIN)));
        let value = |name| counters.named().find(|(counter, _)| *counter == name).map(|(_, value)| value);
        assert_eq!([value("tx_busy"), value("tx_socket_full")], [Some(0), Some(1)]);
    }
}
