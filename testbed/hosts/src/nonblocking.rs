//! Streams that are read and written without waiting.

use std::io::{self, ErrorKind};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Returns the bytes moved by a read or a write; `None` if none can move now. `ended` is the message of a stream that the peer has closed.
///
/// # Errors
/// The stream has ended, or failed.
pub(crate) fn bytes_moved(moved: io::Result<usize>, ended: &str) -> io::Result<Option<usize>> {
    match moved {
        Ok(0) => Err(io::Error::new(ErrorKind::UnexpectedEof, ended)),
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the events of a stream to wait for.
pub(crate) fn events(is_sending: bool) -> PollFlags {
    if is_sending { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN }
}

/// Waits for an event of these streams, for this long at most. Interrupted or not, the caller looks at all of them.
pub(crate) fn wait(streams: &mut [PollFd<'_>], most: Duration) {
    let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
    let _ = poll(streams, Some(&most));
}
