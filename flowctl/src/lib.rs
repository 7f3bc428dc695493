//! Flow control: what a port tells its peer, and how it obeys what its peer tells it.
//!
//! Each mechanism has two sides, both sans-I/O and both used by the switch and by the emulated hosts alike:
//! - downstream, a **generator** turns the state that the MMU wants (which classes should pause) into frames, and
//!   repeats them in time;
//! - upstream, a **gate** says which classes may send now, or a **limiter** how fast.
//!
//! [`pfc`] stops and starts a class; [`cbfc`] gives it credit; [`gfc`] slows it down and never stops it. Frames are MAC control
//! frames, [`frame`].

#![forbid(unsafe_code)]

pub mod cbfc;
pub mod frame;
pub mod gfc;
pub mod pfc;
mod quanta;
mod rate_limiter;
mod shaper;
mod sync;

#[cfg(all(test, loom))]
mod loom_models;

pub use quanta::Quantum;
pub use rate_limiter::{RATE_MIN, RateLimiter};
pub use shaper::{Shaper, wire_bytes};
