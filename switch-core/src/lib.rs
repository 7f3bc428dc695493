//! The switch, without its ports: plain code that takes packets and `now`, and answers what to do.
//!
//! It does no I/O and owns no clock; a driver does (DPDK lcores, or a test). A packet's way:
//!
//! ```text
//!            Receiver            Forwarder                    Transmitter
//! port ──► MAC control? ──► classify, look up, admit ──► queue, gate, schedule, shape ──► port
//!            │ gates            (MMU charge)                  │ (MMU release)
//!            └────────────────────────────────────────────────┘ PAUSE/RESUME for the port of arrival
//! ```
//!
//! [`Switch`] builds the halves for a [`Plan`] of lcores: on each, a loop of [`Forwarder::handle_burst`] (or
//! [`Receiver::handle_burst`] where RX stands alone) and [`Transmitter::run_once`]. Halves on different lcores meet
//! only in atomics and single-producer rings: no lock, no allocation, no float on a packet's way. A driver in virtual time
//! knows which ports have something to do, and serves those alone: [`Transmitter::run_ports`].

#![forbid(unsafe_code)]

pub mod buffer;
mod build_error;
pub mod classify;
pub mod counters;
pub mod ecmp;
mod egress;
pub mod fdb;
pub mod flow_control;
mod forwarder;
mod handoff;
pub mod line_time;
mod link_rate;
pub mod packet;
pub mod plan;
mod queues;
mod random;
mod receiver;
pub mod report;
mod scheduler;
mod shared;
mod storm_tally;
pub mod switch;
mod transmitter;
mod watchdog;

pub use build_error::BuildError;
pub use forwarder::Forwarder;
pub use handoff::RECEIVED_MAX;
pub use link_rate::RateChange;
pub use packet::{BURST_MAX, Burst, Packet, PacketStore, PortOutput};
pub use plan::{LcoreRole, Plan, PlanError};
pub use receiver::Receiver;
pub use report::Report;
pub use shared::{Feedback, Shared};
pub use switch::{Halves, Lcore, Memory, PortFacts, Surroundings, Switch};
pub use transmitter::Transmitter;
pub use transmitter::queue_of_class;
