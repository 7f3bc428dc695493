//! The switch without its ports: plain code that takes packets and `now`, and returns actions.
//!
//! It does no I/O and owns no clock; a driver does (DPDK lcores, a simulation, or a test). Path of a packet:
//!
//! ```text
//!            receive             forwarding                   transmission
//! port ──► MAC control? ──► classify, look up, admit ──► queue, pause, schedule, shape ──► port
//!            │ pauses           (MMU charge)                  │ (MMU release)
//!            └────────────────────────────────────────────────┘ XOFF/XON for the ingress port
//! ```
//!
//! [`Switch`] is the shared state. Two kinds of driver run it, each with its own types:
//!
//! - [`burst`]: lcores that poll in real time and move packets in bursts. [`Switch::into_lcores`] divides the switch for a
//!   [`LcorePlan`](burst::LcorePlan); lcores share only atomics and single-producer rings. The packet path has no lock, no allocation and
//!   no float.
//! - [`single`]: virtual time, where a single lcore runs the switch and frames come one at a time. [`Switch::into_pipeline`] makes it; the
//!   driver serves only ports with work.
//!
//! ```
//! use weir_flowctl::CatchUp;
//! use weir_switch_core::burst::LcorePlan;
//! use weir_switch_core::{PortInfo, DriverConfig, Switch};
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
//! let driver_config = DriverConfig::real_time(CatchUp::NONE);
//! let switch = Switch::new(&config, &[PortInfo::default(); 2], driver_config).unwrap();
//! let plan = LcorePlan::new(&config, LcorePlan::lcores_min(config.lcores.layout)).unwrap();
//! assert_eq!((switch.shared().ports().len(), plan.lcores.len()), (2, 1));
//! // switch.into_lcores(&plan) returns the lcores that a driver polls.
//! ```
//!
//! `examples/two_ports.rs` has a driver, with ports in memory.

#![forbid(unsafe_code)]

pub mod buffer;
mod build_error;
pub mod burst;
pub mod classify;
mod control;
pub mod counters;
mod driver_config;
pub mod ecmp;
mod egress;
pub mod fdb;
pub mod flow_control;
mod forwarding;
pub mod line_time;
#[cfg(all(loom, test))]
mod loom_models;
pub mod packet;
mod path_selection;
mod queues;
mod random;
pub mod report;
mod scheduler;
mod shared;
pub mod single;
mod storm_counters;
mod switch;
mod sync;
mod transmission;
mod utilisation;
mod vlans;
mod watchdog;

pub use build_error::BuildError;
pub use driver_config::{DriverConfig, PortInfo};
pub use packet::{
    BURST_MAX, Burst, Direction, Packet, PacketAllocator, PacketRuns, PortOutput, transmit_runs_as_burst,
};
pub use report::Report;
pub use shared::{FeedbackInstants, PacketContext, RateChange, Shared};
pub use switch::Switch;
pub use vlans::Vlans;
