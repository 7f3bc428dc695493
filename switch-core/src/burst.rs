//! Switch on lcores, which poll in real time, move packets in bursts, and share only atomics and rings.
//!
//! ```text
//!              RX                      FWD                        TX
//! port ──► Receiver ──ring──► Forwarder ──────────ring──► Transmitter ──► port
//! port ──────────► RxForwarder ───────────────────ring──► Transmitter ──► port
//! port ──────────► RxForwarder ──────────────────────────► Transmitter ──► port of the same lcore
//! ```
//!
//! An [`LcorePlan`] assigns roles and ports to lcores; [`Switch::into_lcores`](crate::Switch::into_lcores) divides the switch for it. All
//! memory is allocated then: polls allocate nothing and wait for no other lcore.

mod alike;
mod bursts;
mod bypass;
pub(crate) mod chunks;
mod delays;
mod exact_match;
mod forwarder;
mod handoff;
mod lanes;
mod lateness;
mod lcore;
mod own_ports;
mod plain;
mod plan;
mod receiver;
mod staged;
mod transmitter;

pub use handoff::RECEIVED_MAX;
pub use lanes::{classes_of_queue, queue_of_class};
pub use lcore::{Lcore, Lcores, frames_held_max};
pub use plan::{LcorePlan, LcoreRole, PlanError};
