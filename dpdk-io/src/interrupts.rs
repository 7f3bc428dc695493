//! DPDK's interrupt thread, which serves events of devices: links, peers that come and go, alarms.

use std::ffi::c_void;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use weir_dpdk_sys as sys;

/// Longest wait for the interrupt thread's answer. The thread is idle by then, but the machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Socket that wakes the interrupt thread, and channel of its answers.
struct WakeSocket {
    stream: UnixStream,
    sender: Sender<()>,
}

/// Waits until the interrupt thread has handled all wake-ups so far. False if it does not answer.
///
/// Closing a port removes its handlers and wakes the thread, which then scans the handlers that are left. They lie in DPDK's memory, which
/// `rte_eal_cleanup` unmaps without waiting for the thread. DPDK 22.11's memif leaves the handlers of its listening sockets behind, so the
/// scan has something to read. Nothing may wake the thread after this call: an alarm would, when DPDK removes it in `rte_eal_cleanup`.
///
/// The thread is woken twice. The first answer may come in the same round as an earlier wake-up, the second only after that round. The
/// handler stays registered, since removing it would wake the thread again: call this once per process.
pub(crate) fn quiesce() -> bool {
    let Ok((waker, stream)) = UnixStream::pair() else { return false };
    let (sender, answers) = channel();
    let fd = stream.as_raw_fd();
    let wake_socket = Box::into_raw(Box::new(WakeSocket { stream, sender }));
    // SAFETY: EAL runs; the wake socket is never freed, and only the interrupt thread uses it.
    if unsafe { sys::weir_interrupt_register(fd, Some(answer), wake_socket.cast()) } != 0 {
        return false;
    }
    let is_quiescent = (0..2).all(|_| (&waker).write_all(&[0]).is_ok() && answers.recv_timeout(TIMEOUT).is_ok());
    // With this end closed, the other one could always be read.
    std::mem::forget(waker);
    is_quiescent
}

/// The handler, on the interrupt thread.
unsafe extern "C" fn answer(wake_socket: *mut c_void) {
    // SAFETY: `quiesce` made it of a wake socket that is never freed, and this thread alone uses it.
    let wake_socket = unsafe { &mut *wake_socket.cast::<WakeSocket>() };
    if wake_socket.stream.read(&mut [0]).is_ok() {
        // Nobody may be waiting any more.
        let _ = wake_socket.sender.send(());
    }
}
