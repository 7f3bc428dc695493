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

mod burst_output;
pub(crate) mod chunks;
mod delay_histogram;
mod exact_match;
mod fast_path;
mod forwarder;
mod grouping;
mod handoff;
mod lateness;
mod lcore;
mod local_output;
mod marking;
mod plan;
mod queue_bypass;
mod receiver;
mod transmitter;
mod tx_batch;
mod tx_queues;

pub use handoff::RECEIVED_MAX;
pub use lcore::{Lcore, Lcores, frames_held_max};
pub use plan::{LcorePlan, LcoreRole, PlanError};
pub use tx_queues::{classes_of_queue, queue_of_class};
