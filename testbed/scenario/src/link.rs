//! A link: its propagation delay, and what is made to go wrong on it.
//!
//! Sans-I/O: frames and `now` go in, frames come out.

mod delay_line;
mod faults;
mod frame;

pub use delay_line::DelayLine;
pub use faults::{ChosenFrames, FaultCounters, FaultPlan, Faults, HoldBack};
pub use frame::{LinkFrame, ipv4_dscp};
