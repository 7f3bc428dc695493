//! A link: its propagation delay, what goes wrong on it, and how long flow control takes across it.
//!
//! Sans-I/O: frames and `now` go in, frames come out.

mod delay_line;
mod faults;
mod feedback;
mod lane;

pub use delay_line::DelayLine;
pub use faults::{ChosenFrames, FaultCounters, FaultPlan, Faults, HoldBack};
pub use feedback::{FeedbackProbe, FeedbackStats};
pub use lane::{Lane, LinkFrame, ipv4_dscp};
