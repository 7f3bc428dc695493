//! Emulated links: propagation delay and injected faults.
//!
//! Sans-I/O: frames and `now` go in, frames come out.

mod faults;
mod frame;
mod llr;

pub use faults::{ChosenFrames, FaultCounters, FaultPlan, Faults, ReorderDelay};
pub use frame::{LinkFrame, ipv4_dscp};
pub use llr::LlrPlan;
pub use weir_nic::DelayLine;
