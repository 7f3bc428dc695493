//! Sleeping until a frame arrives.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// File descriptor that becomes readable when a receive queue has a frame. See [`crate::RxQueue::rx_interrupt`].
#[derive(Debug)]
pub struct RxInterrupt(pub(crate) OwnedFd);

/// RX interrupts of several queues, waited for together.
#[derive(Debug)]
pub struct RxInterrupts {
    /// Descriptors, closed with this value; `polled` holds their numbers.
    _open: Vec<RxInterrupt>,
    polled: Vec<libc::pollfd>,
}

/// Reason why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeReason {
    /// A frame is there.
    Frame,
    /// Timeout: no frame arrived in the time given.
    Timeout,
    /// A device has an error, such as an interface that went down; the error may persist.
    Error,
}

impl RxInterrupts {
    /// Combines the interrupts of several queues.
    pub fn new(interrupts: Vec<RxInterrupt>) -> RxInterrupts {
        let polled = interrupts.iter().map(|interrupt| libc::pollfd {
            fd: interrupt.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        });
        RxInterrupts { polled: polled.collect(), _open: interrupts }
    }

    /// Sleeps until a frame is there, at most this long. Signals end it early.
    pub fn wait(&mut self, at_most: Duration) -> WakeReason {
        let timeout = libc::timespec {
            tv_sec: libc::time_t::try_from(at_most.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: at_most.subsec_nanos().into(),
        };
        let number = self.polled.len() as libc::nfds_t;
        // SAFETY: the array is writable and of the length given, the time is readable, and no signal mask is handed over.
        let ready = unsafe { libc::ppoll(self.polled.as_mut_ptr(), number, &timeout, std::ptr::null()) };
        if ready <= 0 {
            return WakeReason::Timeout;
        }
        if self.polled.iter().any(|polled| polled.revents & libc::POLLIN != 0) {
            return WakeReason::Frame;
        }
        for polled in self.polled.iter().filter(|polled| polled.revents != 0) {
            take_error(polled.fd);
        }
        WakeReason::Error
    }
}

/// A socket reports its error on every wait until it is read.
fn take_error(fd: libc::c_int) {
    let mut error: libc::c_int = 0;
    let mut len = size_of_val(&error) as libc::socklen_t;
    // SAFETY: the value is writable, of the length given. A descriptor that is no socket gives an error, which changes nothing.
    unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, (&raw mut error).cast(), &mut len) };
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_wait_ends_with_what_arrives_or_with_its_time() {
        let (mut here, there) = UnixStream::pair().expect("a pair of sockets");
        let mut interrupts = RxInterrupts::new(vec![RxInterrupt(there.into())]);
        assert_eq!(interrupts.wait(Duration::from_millis(1)), WakeReason::Timeout);
        here.write_all(&[1]).expect("room for a byte");
        assert_eq!(interrupts.wait(Duration::from_secs(60)), WakeReason::Frame);
    }
}
