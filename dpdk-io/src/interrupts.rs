//! DPDK's interrupt thread, which serves events of devices: links, peers that come and go, alarms.

use std::ffi::c_void;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use weir_dpdk_sys as sys;

/// How long the thread may take to answer. It has nothing else to do by then, but the machine may.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the thread is called by.
struct Bell {
    stream: UnixStream,
    heard: Sender<()>,
}

/// Waits until the interrupt thread has done what it was woken for so far. False if it does not answer.
///
/// A port that is closed takes back its handlers, and the thread is woken to look through those that are left. They lie in DPDK's
/// memory, and `rte_eal_cleanup` unmaps that without waiting for the thread. DPDK 22.11's memif leaves the handlers of its
/// listening sockets behind, so that the thread has something to look at. Nothing may wake it after this: an alarm would, when
/// DPDK takes it back in `rte_eal_cleanup`.
///
/// The thread is asked twice. The first answer may come in one round with what woke it before, the second only after that round.
/// What asks stays registered, since to take it back would wake the thread again; it is to be called once a process.
pub(crate) fn settle() -> bool {
    let Ok((rope, stream)) = UnixStream::pair() else { return false };
    let (heard, answers) = channel();
    let fd = stream.as_raw_fd();
    let bell = Box::into_raw(Box::new(Bell { stream, heard }));
    // SAFETY: EAL runs; the bell is never freed, and only the interrupt thread uses it.
    if unsafe { sys::weir_interrupt_register(fd, Some(answer), bell.cast()) } != 0 {
        return false;
    }
    let has_settled = (0..2).all(|_| (&rope).write_all(&[0]).is_ok() && answers.recv_timeout(PATIENCE).is_ok());
    // With this end closed, the other one could always be read.
    std::mem::forget(rope);
    has_settled
}

/// The handler, on the interrupt thread.
unsafe extern "C" fn answer(bell: *mut c_void) {
    // SAFETY: `settle` made it of a bell that is never freed, and this thread alone uses it.
    let bell = unsafe { &mut *bell.cast::<Bell>() };
    if bell.stream.read(&mut [0]).is_ok() {
        // Nobody may be waiting any more.
        let _ = bell.heard.send(());
    }
}
