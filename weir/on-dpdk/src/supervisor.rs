//! Notifies a supervisor such as systemd that the switch forwards, lives, and stops.
//!
//! The protocol is sd_notify(3)'s: lines in a datagram to the Unix socket that NOTIFY_SOCKET names.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use weir_dpdk_driver::RunningSwitches;

/// The supervisor, if there is one.
pub(crate) struct Supervisor {
    socket: Option<UnixDatagram>,
    /// Watchdog interval, if the supervisor wants keep-alive messages.
    watchdog: Option<Duration>,
    beat_at: Instant,
    /// Polls of each lcore at the last beat.
    polls: Vec<u64>,
}

/// Beats in the time within which one is due: two may come late.
const BEATS: u32 = 3;

impl Supervisor {
    /// Returns the supervisor that the environment names, or none. If its socket is unreachable, logs that and returns none.
    pub(crate) fn from_environment() -> Supervisor {
        let variable = |name: &str| std::env::var_os(name);
        let socket = variable("NOTIFY_SOCKET").and_then(|address| {
            let socket = connect(&address);
            if let Err(error) = &socket {
                tracing::warn!("NOTIFY_SOCKET={}: {error}: no supervisor is notified", address.display());
            }
            socket.ok()
        });
        let watchdog = interval(variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"), std::process::id());
        Supervisor { socket, watchdog, beat_at: Instant::now(), polls: Vec::new() }
    }

    /// Notifies that the switches forward.
    pub(crate) fn ready(&self, status: &str) {
        self.notify(&format!("READY=1\nSTATUS={status}"));
    }

    /// Sends keep-alive messages while every lcore polls. Call it often.
    pub(crate) fn beat(&mut self, running: &RunningSwitches) {
        let Some(within) = self.watchdog else { return };
        let now = Instant::now();
        if now < self.beat_at {
            return;
        }
        self.beat_at = now + within / BEATS;
        let polls = running.lcores().map(|(_, stats)| stats.polls().0).collect();
        if self.record_polls(polls) {
            self.notify("WATCHDOG=1");
        }
    }

    /// Returns true if every lcore has polled since the last check.
    fn record_polls(&mut self, polls: Vec<u64>) -> bool {
        let last = std::mem::replace(&mut self.polls, polls);
        let stands = |(now, last): (&u64, &u64)| now == last;
        !self.polls.iter().zip(&last).any(stands)
    }

    /// Notifies that the switches stop.
    pub(crate) fn stopping(&self) {
        self.notify("STOPPING=1\nSTATUS=stopping");
    }

    fn notify(&self, lines: &str) {
        // A supervisor that is gone, or that reads nothing, holds no switch up.
        if let Some(socket) = &self.socket {
            let _ = socket.send(lines.as_bytes());
        }
    }
}

/// A path, or with `@` first a name in the abstract namespace.
fn connect(address: &OsString) -> io::Result<UnixDatagram> {
    let address = match address.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(address)?,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a path nor an abstract name")),
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Time within which a beat is due; `None` if nobody waits for one of this process.
fn interval(microseconds: Option<OsString>, process: Option<OsString>, own: u32) -> Option<Duration> {
    let number = |text: OsString| text.to_str()?.parse::<u64>().ok();
    if process.is_some_and(|process| number(process) != Some(u64::from(own))) {
        return None;
    }
    microseconds.and_then(number).filter(|us| *us > 0).map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn supervisor(socket: Option<UnixDatagram>) -> Supervisor {
        Supervisor { socket, watchdog: None, beat_at: Instant::now(), polls: Vec::new() }
    }

    #[test]
    fn a_supervisor_is_named_by_a_path_or_an_abstract_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let name = format!("weir-supervisor-{}", std::process::id());
        let own = SocketAddr::from_abstract_name(&name).unwrap();
        let sockets = [UnixDatagram::bind(&path).unwrap(), UnixDatagram::bind_addr(&own).unwrap()];
        for (socket, address) in sockets.iter().zip([path.into_os_string(), format!("@{name}").into()]) {
            let supervisor = supervisor(Some(connect(&address).unwrap()));
            supervisor.ready("forwarding");
            supervisor.stopping();
            let mut bytes = [0; 100];
            for message in ["READY=1\nSTATUS=forwarding", "STOPPING=1\nSTATUS=stopping"] {
                let n = socket.recv(&mut bytes).unwrap();
                assert_eq!(std::str::from_utf8(&bytes[..n]).unwrap(), message);
            }
        }
        assert!(connect(&"vsock:2:1".into()).is_err() && connect(&"/nonexistent/notify".into()).is_err());
    }

    #[test]
    fn an_lcore_that_does_not_poll_is_no_life() {
        let mut supervisor = supervisor(None);
        let seen = [[1, 1], [2, 2], [3, 2], [4, 3]].map(|polls| supervisor.record_polls(polls.to_vec()));
        assert_eq!(seen, [true, true, false, true]);
    }

    #[test]
    fn beats_are_for_the_process_that_is_named() {
        let text = |text: &str| Some(OsString::from(text));
        assert_eq!(interval(text("5000000"), text("7"), 7), Some(Duration::from_secs(5)));
        assert_eq!(interval(text("5000000"), None, 7), Some(Duration::from_secs(5)));
        assert_eq!(interval(text("5000000"), text("8"), 7), None);
        assert_eq!(
            (interval(None, None, 7), interval(text("0"), None, 7), interval(text("x"), None, 7)),
            (None, None, None)
        );
    }
}
