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
//! [`Switch`] builds the halves for a [`LcorePlan`] of lcores: on each, a loop of [`Forwarder::handle_burst`] (or
//! [`Receiver::handle_burst`] where RX stands alone) and [`Transmitter::run_once`]. Halves on different lcores meet
//! only in atomics and single-producer rings: no lock, no allocation, no float on a packet's way. A driver in virtual time
//! knows which ports have something to do, and serves those alone: [`Transmitter::run_ports`].
//!
//! ```
//! use weir_flowctl::CatchUp;
//! use weir_switch_core::{LcorePlan, PortFacts, Surroundings, Switch};
//!
//! let file = r#"
//! [buffer]
//! size = "1MB"
//!
//! [[ports]]
//! name = "left"
//! ring = "left"
//! rate = "10Gbps"
//!
//! [[ports]]
//! name = "right"
//! ring = "right"
//! rate = "10Gbps"
//! "#;
//! let config = weir_config::parse("switch.toml", file).map_err(|errors| errors.render(false)).unwrap();
//! let surroundings = Surroundings::real_time(CatchUp::NONE);
//! let switch = Switch::new(&config, &[PortFacts::default(); 2], surroundings).unwrap();
//! let plan = LcorePlan::new(&config, LcorePlan::lcores_min(config.lcores.layout)).unwrap();
//! assert_eq!((switch.shared().ports().len(), plan.lcores.len()), (2, 1));
//! // switch.into_halves(&plan) are the halves that a driver polls.
//! ```
//!
//! `examples/two_ports.rs` has a driver, with ports in memory.

#![forbid(unsafe_code)]

pub mod buffer;
mod build_error;
pub mod classify;
mod control;
pub mod counters;
pub mod ecmp;
mod egress;
pub mod fdb;
pub mod flow_control;
mod forwarder;
mod handoff;
pub mod line_time;
pub mod packet;
pub mod plan;
mod queues;
mod random;
mod receiver;
pub mod report;
mod scheduler;
mod shared;
mod storm_tally;
mod surroundings;
mod switch;
mod transmitter;
mod watchdog;

pub use build_error::BuildError;
pub use forwarder::Forwarder;
pub use handoff::RECEIVED_MAX;
pub use packet::{BURST_MAX, Burst, Packet, PacketStore, PortOutput};
pub use plan::{LcorePlan, LcoreRole, PlanError};
pub use receiver::Receiver;
pub use report::Report;
pub use shared::{Feedback, RateChange, Shared};
pub use surroundings::{Memory, PortFacts, Surroundings};
pub use switch::{Halves, Lcore, Switch};
pub use transmitter::Transmitter;
pub use transmitter::queue_of_class;
