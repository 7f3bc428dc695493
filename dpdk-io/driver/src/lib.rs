//! The real-time driver: the switch's halves on DPDK lcores, ports and packet pools.
//!
//! [`Fabric`] is the whole of it: from configurations of the switches in this process to running lcores, reports, and
//! an orderly stop. What it puts together:
//! - [`Frame`], an mbuf as the switch core sees a packet;
//! - [`Memory`], how many packet buffers that takes;
//! - [`devices`], ports made of the devices that a configuration names;
//! - [`SwitchLcore`], one lcore's part of one switch;
//! - [`Task`] and the loop that polls tasks, with its idle policy.

#![forbid(unsafe_code)]

mod catch_up;
mod checks;
mod cpu_use;
mod device_lock;
mod device_pause;
pub mod devices;
mod error;
mod fabric;
mod frame;
mod guest_queues;
mod instance;
mod lcore_loop;
mod link_rate;
mod losses;
mod memory;
mod netdevs;
mod nics;
mod placement;
pub mod poll_gap;
mod poll_gaps;
mod replay;
mod socket;
mod switch_lcore;
pub mod trial;

pub use catch_up::{CATCH_UP_AUTO_MOST, CATCH_UP_BASE, catch_up};
pub use checks::check_machine;
pub use cpu_use::CpuUse;
pub use error::DriverError;
pub use fabric::{
    DeviceReport, Fabric, FabricOptions, RunningFabric, Runtime, Stopped, pci_addresses, pci_addresses_of,
};
pub use frame::{Frame, FrameStore};
pub use guest_queues::GuestQueues;
pub use instance::{DeviceLocks, check_devices, claim_devices};
pub use lcore_loop::{LcoreStats, LoopControl, Phase, Task};
pub use losses::loss_knowledge;
pub use memory::{Memory, rx_descriptors};
pub use netdevs::PortEvent;
pub use nics::{Access, Finding, NicFacts, System};
pub use placement::{Placement, SwitchPlacement};
pub use poll_gaps::{GapReport, PollGaps};
pub use switch_lcore::SwitchLcore;
