//! The real-time driver: the switch on DPDK lcores, ports and packet pools.
//!
//! [`PreparedSwitches`] is the entry point: from configurations of the switches in this process to running lcores, reports, and
//! an orderly stop. Its parts:
//! - [`Frame`], an mbuf as the switch core sees a packet;
//! - [`Memory`], the number of packet buffers needed;
//! - ports made of the devices that a configuration names;
//! - a [`Task`] for each lcore's part of one switch;
//! - the loop that polls tasks, with its idle policy.
//!
//! ```standalone_crate
//! use std::time::Duration;
//! use weir_dpdk_driver::{PreparedSwitches, RuntimeOptions, Memory, Placement, Runtime};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let file = r#"
//! [buffer]
//! size = "200KB"
//!
//! [[ports]]
//! name = "left"
//! ring = "left"
//! rate = "100Mbps"
//!
//! [[ports]]
//! name = "right"
//! ring = "right"
//! rate = "100Mbps"
//!
//! [pfc]
//! reaction = "1ms"
//! "#;
//! let switches = [weir_config::parse("switch.toml", file).map_err(|errors| errors.render(false))?];
//! let placement = Placement::new(&switches, &weir_dpdk_io::cpu::allowed(), 0)?;
//! let memory_mb = Memory::for_switches(&switches, placement.cpus.len(), 0).megabytes();
//! let options = RuntimeOptions { memory_mb, ..RuntimeOptions::default() };
//! // The first local variable: DPDK ends last.
//! let runtime = Runtime::start("example", &placement.cpus, &[], &options)?;
//! let prepared = PreparedSwitches::prepare(&runtime, &switches, &placement, 0)?;
//! let running = prepared.start()?;
//! assert!(running.report(0)?.conservation.holds);
//! let stopped = running.stop(Duration::from_secs(1))?;
//! assert_eq!(stopped.mbufs_missing, 0);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod capture;
mod catch_up;
mod checks;
mod cpu_use;
mod descriptors;
mod device_lock;
mod device_pause;
mod devices;
mod dropped;
mod error;
mod frame;
mod guest_queues;
mod instance;
mod lcore_loop;
mod lcore_timeout;
mod lcore_work;
mod limits;
mod link_rate;
mod lldp;
pub mod loopback_test;
mod losses;
mod memory;
mod netdevs;
mod nic;
mod nics;
mod placement;
pub mod poll_gap;
mod poll_gaps;
mod raw_frame_port;
mod replay;
pub mod replayer;
mod runtime;
mod sleep;
mod socket;
mod switch_lcore;
mod switches;
mod tap;
mod task;

pub use capture::{CAPTURES_MAX, Capture, CaptureFilter, CaptureState, CapturedFrame, FrameFilter, SNAPLEN_MAX};
pub use catch_up::{CATCH_UP_AUTO_MOST, CATCH_UP_BASE, catch_up};
pub use checks::check_machine;
pub use cpu_use::CpuUse;
pub use descriptors::rx_descriptors;
pub use dropped::{DroppedFrame, DroppedFrames};
pub use error::DriverError;
pub use frame::{Frame, FrameStore};
pub use guest_queues::GuestQueues;
pub use instance::{DeviceLocks, check_devices, claim_devices};
pub use lcore_loop::LcoreStats;
pub use lcore_work::{PacketTally, Work};
pub use limits::check_limits;
pub use losses::driver_counters_of;
pub use memory::Memory;
pub use netdevs::PortEvent;
pub use nics::{DeviceIssue, IovaAccess, PciNicInfo, Sysfs};
pub use placement::{Placement, SwitchPlacement};
pub use poll_gaps::{GapCounts, GapReport, PollGaps};
pub use raw_frame_port::RawFramePort;
pub use runtime::{Runtime, RuntimeOptions, pci_addresses, pci_addresses_of};
pub use socket::{check_access, set_access};
pub use switches::{DeviceReport, PortTap, PreparedSwitches, Removal, RunningSwitches, Stopped, TapPlans};
pub use tap::{Tap, TapPlan, Tapped, TappedFrame, tap};
pub use task::{Phase, Task};
