//! Flow control: what a port tells its peer, and how it obeys what its peer tells it.
//!
//! Each mechanism has two sides, both sans-I/O and both used by the switch and by the emulated hosts alike:
//! - downstream, a [`MessageGenerator`] turns what the buffer asks for (classes that should pause, queues' lengths, free
//!   blocks) into frames, and repeats them in time;
//! - upstream, a [`Regulator`] says which classes may send now: by a gate, by credit, or by rates that [`ClassLimits`] follow.
//!
//! Both are made from a [`Mechanism`]. [`pfc`] stops and starts a class; [`cbfc`] gives it credit; [`gfc`] slows it down and never
//! stops it. Frames are MAC control frames, [`weir_wire::mac_control`].
//!
//! ```
//! use weir_flowctl::{Mechanism, Regulator};
//! use weir_units::{BitRate, Class, ClassSet, MacAddr, Span, Time};
//! use weir_wire::mac_control::{ControlFrame, PfcFrame};
//!
//! let class = Class::new(3).alone();
//! // A peer pauses class 3 for 1,000 quanta, 51.2 us at 10 Gb/s.
//! let pause = ControlFrame::Pfc(PfcFrame { enabled: class, times: [1_000; 8] });
//! let bytes = pause.encode(MacAddr::default());
//! let mechanism = Mechanism::Pfc { quanta: u16::MAX, refresh_percent: 50 };
//! let regulator = Regulator::new(&mechanism, BitRate::gbps(10), class);
//! regulator.handle(Time::ZERO, &ControlFrame::decode(&bytes).unwrap());
//! assert_eq!(regulator.paused(Time::ZERO), class);
//! assert_eq!(regulator.paused(Time::ZERO + Span::from_nanos(51_200)), ClassSet::EMPTY);
//! ```
//!
//! `examples/pfc_frame.rs` shows the frame's bytes as well.

#![forbid(unsafe_code)]

mod catch_up;
pub mod cbfc;
mod class_limits;
pub mod gfc;
mod mechanism;
mod message_generator;
pub mod pfc;
mod quanta;
mod rate_limiter;
mod regulator;
mod shaper;
mod sync;

#[cfg(all(test, loom))]
mod loom_models;

pub use catch_up::{CATCH_UP_PEAK, CatchUp, Claim, LatePolls, Peak};
pub use class_limits::{ClassLimits, Followed};
pub use mechanism::Mechanism;
pub use message_generator::{Arrived, Demand, MessageGenerator};
pub use quanta::Quantum;
pub use rate_limiter::{RATE_MIN, RateLimiter};
pub use regulator::Regulator;
pub use shaper::{Shaper, wire_bytes};
