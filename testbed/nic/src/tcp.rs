//! TCP for emulated hosts: the two ends of a connection, without frames and without a clock.
//!
//! A connection carries data in one direction, from a [`TcpSender`] to a [`TcpReceiver`]. It is established from the
//! start: there is no handshake and no close. Segments have a length and no bytes. The caller carries segments and
//! acknowledgements between the ends, passes CE marks with segments, and calls the ends at their timeouts.
//!
//! Loss is detected and repaired by SACK (RFC 6675) at the pace of proportional rate reduction (RFC 6937), and by a
//! retransmission timeout (RFC 6298) from timestamps (RFC 7323). Congestion control is Reno (RFC 5681), Cubic (RFC
//! 9438) or DCTCP (RFC 8257), each a file with a [`TcpCongestionKind`]; with ECN (RFC 3168) marks act as losses.
//! `docs/TCP.md` has all parameters and omissions.
//!
//! Congestion control computes in `f64`, only with `+ - * /` and a cube root in software: runs are bit-identical on
//! every machine.

mod congestion;
mod cubic;
mod cubic_linux;
mod dctcp;
mod hystart;
mod keys;
mod proportional;
mod ranges;
mod receiver;
mod registry;
mod reno;
mod retransmission;
mod scoreboard;
mod sender;
mod window;

use weir_units::{Bytes, Class, Span, Time};
use weir_wire::rocev2::Dscp;

pub use congestion::{RoundTrip, TcpCongestionChoice, TcpCongestionConfig, TcpCongestionController, TcpCongestionKind};
pub use keys::{GAUGES, TcpKeys, WrongTcp};
pub use receiver::TcpReceiver;
pub use registry::{add, kinds};
pub use sender::{TcpSender, TcpStats};

/// Configuration of a connection, for both of its ends.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// Congestion control of the connection.
    pub control: TcpCongestionChoice,
    /// Whether data is ECN-capable (RFC 3168). Data of DCTCP always is.
    pub ecn: bool,
    /// Payload of a full-sized segment in bytes; not zero.
    pub mss: u32,
    /// The window before the first acknowledgement, in segments (RFC 6928).
    pub initial_window: u32,
    /// Receive window: limit on unacknowledged data. At least one segment is always allowed.
    pub window_max: Bytes,
    /// The retransmission timeout before the first measurement. A real connection has measured its handshake by then.
    pub initial_rto: Span,
    /// Round-trip time measured before the first data; `None` for no measurement.
    pub known_rtt: Option<Span>,
    /// Tick of the timestamp clock that measures round trips; `None` for exact time. A round trip within one tick
    /// counts as [`TcpConfig::WITHIN_TICK`].
    pub timestamp_clock: Option<Span>,
    /// Shortest retransmission timeout.
    pub rto_min: Span,
    /// Longest retransmission timeout, after any number of doublings.
    pub rto_max: Span,
    /// Clock granularity G of RFC 6298: least margin of the timeout over the smoothed round-trip time.
    pub granularity: Span,
    /// Delayed acknowledgement; `None` acknowledges each segment at once.
    pub delayed_ack: Option<DelayedAck>,
    /// Class and code point of acknowledgements; `None` for those of the data.
    pub acks: Option<AckPoint>,
    /// Number of bytes at the start of a connection, retransmissions included, that are marked unscheduled: switches
    /// may use another α for them. In virtual time only.
    pub unscheduled: Bytes,
    /// Whether a sender that was idle for a retransmission timeout restarts with the initial window (RFC 5681,
    /// 4.1).
    pub restart_after_idle: bool,
    /// Whether only the first partial acknowledgement of a recovery restarts the retransmission timer (the "Impatient"
    /// variant of RFC 6582, section 4); otherwise each does.
    pub is_impatient: bool,
    /// Whether the window grows by the advance of the acknowledgement number, SACKed bytes included, also when slow
    /// start crosses its threshold; otherwise by newly arrived bytes.
    pub grows_by_acked: bool,
    /// Whether every timeout cuts the threshold from the current window; otherwise repeated timeouts, and those during
    /// recovery, keep the threshold.
    pub cuts_at_each_timeout: bool,
}

/// Delayed acknowledgement of in-order data (RFC 5681, 4.2). Out-of-order data and a segment with PSH are
/// acknowledged at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayedAck {
    /// Number of segments that trigger an acknowledgement.
    pub every: u32,
    /// Longest delay after the first unacknowledged segment.
    pub at_most: Span,
}

/// Class of acknowledgements, and the code point that switches map to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckPoint {
    /// Class of acknowledgements.
    pub class: Class,
    /// Code point of the class. A file's reader sets the class selector of that number; a caller that knows the
    /// switches' maps replaces it.
    pub dscp: Dscp,
}

/// Data segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Offset of the first byte in the connection. Does not wrap: the wire format wraps it.
    pub seq: u64,
    /// Payload in bytes.
    pub len: u16,
    /// Whether any byte of the segment was sent before.
    pub is_retransmission: bool,
    /// Whether the segment has unscheduled bytes.
    pub is_unscheduled: bool,
    /// Whether the segment ends the data written so far (PSH).
    pub push: bool,
    /// Congestion window reduced (CWR): the sender has reduced its window (RFC 3168, 6.1.2).
    pub cwr: bool,
    /// Whether the segment is ECN-capable. Retransmissions are not (RFC 3168, 6.1.5), except with DCTCP, as in
    /// Linux.
    pub ect: bool,
    /// Value of the timestamp option: the instant of sending.
    pub sent_at: Time,
}

/// Acknowledgement from the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Cumulative acknowledgement: every byte before this offset has arrived.
    pub ack: u64,
    /// ECN echo: CE marks have arrived (RFC 3168; for the marked segments: RFC 8257, 3.2).
    pub ece: bool,
    /// SACK blocks as (start, exclusive end), the most recent first (RFC 2018). As many blocks as fit with
    /// timestamps.
    pub sack: [Option<(u64, u64)>; 3],
    /// Echoed timestamp (RFC 7323, 4.3): that of the first segment acknowledged here, or of the last in-order
    /// segment.
    pub echo: Time,
}

#[cfg(test)]
mod bottleneck;
#[cfg(test)]
mod tests;
