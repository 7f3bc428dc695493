//! TCP for emulated hosts: the two ends of a connection, without frames and without a clock.
//!
//! A connection carries data one way, from a [`TcpSender`] to a [`TcpReceiver`]. It is established from the start:
//! there is no handshake, and nothing closes it. Segments have a length and no bytes. Whoever runs the ends carries
//! segments and acknowledgements between them, says which segments came with a CE mark, and calls back at their
//! timeouts.
//!
//! Loss is found and repaired by SACK (RFC 6675) at the pace of proportional rate reduction (RFC 6937), and by a
//! retransmission timeout (RFC 6298) from timestamps (RFC 7323). The window is governed by Reno (RFC 5681), Cubic
//! (RFC 9438) or DCTCP (RFC 8257), each a file with a [`TcpControlKind`]; with ECN (RFC 3168) marks stand for losses. `docs/TCP.md`
//! has all parameters, and lists what is left out.
//!
//! Window laws compute in `f64`, but with `+ - * /` and a cube root in software only, so that a run is the same to the
//! bit on every machine.

mod control;
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

use weir_units::archive::Value;
use weir_units::{Bytes, Class, Span, Time};
use weir_wire::rocev2::Dscp;

pub use control::{Control, RoundTrip, TcpControlKind, WindowControl, WindowLaw};
pub use keys::{GAUGES, TcpKeys, WrongTcp};
pub use receiver::TcpReceiver;
pub use registry::{add, kinds};
pub use sender::{TcpSender, TcpStats};

/// A connection, as both of its ends see it.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// What governs the window.
    pub control: Control,
    /// Whether data may be marked (RFC 3168). Data of DCTCP always may.
    pub ecn: bool,
    /// Payload of a full-sized segment in bytes; not zero.
    pub mss: u32,
    /// The window before the first acknowledgement, in segments (RFC 6928).
    pub initial_window: u32,
    /// The receiver's window: data not acknowledged at most. At least one segment is always allowed.
    pub window_max: Bytes,
    /// The retransmission timeout before the first measurement. A real connection has measured its handshake by then.
    pub initial_rto: Span,
    /// A round trip that was measured before the first data; `None` for none.
    pub known_rtt: Option<Span>,
    /// The ticks of timestamps, by which round trips are measured; `None` if these are exact. Within a tick a round trip counts as
    /// [`TcpConfig::WITHIN_TICK`].
    pub timestamp_clock: Option<Span>,
    /// The shortest retransmission timeout,
    pub rto_min: Span,
    /// and the longest, however often it was doubled.
    pub rto_max: Span,
    /// G of RFC 6298: the timeout exceeds the smoothed round-trip time by that much at least.
    pub granularity: Span,
    /// None: each segment is acknowledged at once.
    pub delayed_ack: Option<DelayedAck>,
    /// What acknowledgements travel as; `None` for the class and the code point of the data.
    pub acks: Option<AckPoint>,
    /// So much of a connection's data is marked unscheduled, from its beginning and with what is sent again: switches may have
    /// another α for it. In virtual time.
    pub unscheduled: Bytes,
    /// Whether a sender that was silent for a retransmission timeout starts with the initial window again (RFC 5681,
    /// 4.1).
    pub restart_after_idle: bool,
    /// Whether, of the acknowledgements that move on while losses are repaired, the first alone restarts the retransmission timer
    /// (the "Impatient" variant of RFC 6582, section 4); else each does.
    pub is_impatient: bool,
    /// Whether the window grows by what the acknowledgement number moves on, SACKed before or not, and slow start beyond its threshold;
    /// else by what arrives.
    pub grows_by_acked: bool,
    /// Whether each timeout cuts the window that there is by then; else a timeout in turn, and one while losses are repaired, leave
    /// the threshold.
    pub cuts_at_each_timeout: bool,
}

/// When data in order is acknowledged (RFC 5681, 4.2). Anything out of order is at once, and so is the end of what was
/// written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayedAck {
    /// With that many segments,
    pub every: u32,
    /// and so long after the first of them at the latest.
    pub at_most: Span,
}

/// A class for acknowledgements, and the code point that switches give it to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckPoint {
    /// The class.
    pub class: Class,
    /// Its code point. As read from a file it is the class selector of that number; who knows the switches' maps sets it.
    pub dscp: Dscp,
}

/// Data on its way to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Value)]
pub struct Segment {
    /// The offset of its first byte. It does not wrap; that is a matter of the wire.
    pub seq: u64,
    /// Its bytes of payload.
    pub len: u16,
    /// Whether any of it was sent before.
    pub is_retransmission: bool,
    /// Whether it is unscheduled.
    pub is_unscheduled: bool,
    /// Whether nothing was written beyond its end (PSH).
    pub push: bool,
    /// The sender has reduced its window (RFC 3168, 6.1.2).
    pub cwr: bool,
    /// Whether it may be marked. Data that is sent again may not (RFC 3168, 6.1.5), but for DCTCP, where it may, as in
    /// Linux.
    pub ect: bool,
    /// The timestamp option.
    pub sent_at: Time,
}

/// What the receiver tells the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// All bytes before this offset have arrived.
    pub ack: u64,
    /// Marks have arrived (RFC 3168; of which segments: RFC 8257, 3.2).
    pub ece: bool,
    /// What else has arrived, from and to (exclusive): first what came last (RFC 2018). As many blocks as fit beside
    /// timestamps.
    pub sack: [Option<(u64, u64)>; 3],
    /// The timestamp that is echoed (RFC 7323, 4.3): of the first segment that this acknowledges, or of the last that
    /// came in order.
    pub echo: Time,
}

#[cfg(test)]
mod bottleneck;
#[cfg(test)]
mod tests;
