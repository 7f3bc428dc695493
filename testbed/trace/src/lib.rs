//! Captures of real traffic: read, with the addresses changed that a lab has others of, and with the instant at which each frame is to
//! leave when they are replayed.
//!
//! [`Capture`] reads a file, [`Rewriting`] changes addresses, and [`Schedule`] says when each frame is due. [`Recording`] has what hosts sent
//! each other by those frames. None of it needs DPDK.

#![forbid(unsafe_code)]

mod capture;
mod checksum;
mod headers;
mod messages;
mod rewrite;
mod schedule;

pub use capture::{Capture, CaptureError, Captured, Choice, LeftOut, Stamp};
pub use headers::{Ip, Network, Transport, network};
pub use messages::{Recording, Sent};
pub use rewrite::{Mapping, Rewriting, RewritingError};
pub use schedule::{Due, LineLimit, Schedule};
