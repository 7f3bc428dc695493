//! Reports of switches and their ports' devices.

use std::sync::Arc;

use weir_dpdk_io::{DeviceLosses, PortStats};
use weir_nic::model::ModelReport;
use weir_switch_core::report::Report;
use weir_units::Span;

use crate::lcore_loop::LcoreStats;
use crate::replayer::ReplayReport;

/// Final reports of stopped switches.
#[derive(Debug)]
pub struct Stopped {
    /// Each switch's last report, after all mbufs were returned.
    pub reports: Vec<Report>,
    /// Each lcore's CPU and its loop's statistics.
    pub lcores: Vec<(u32, Arc<LcoreStats>)>,
    /// Mbufs that did not return: above 0 is a leak. Mbufs that devices keep when they are closed are not counted
    /// ([`weir_dpdk_io::Port::mbufs_kept_max`]), so a smaller leak next to an AF_XDP port is not seen.
    pub mbufs_missing: u32,
    /// Each switch's ports' devices at the end.
    pub devices: Vec<Vec<DeviceReport>>,
    /// Statistics of the replay of traces, if there was one.
    pub replay: Option<ReplayReport>,
}

impl Stopped {
    /// The longest time between two polls of any lcore, in real time.
    pub fn gap_max(&self) -> Span {
        self.lcores.iter().map(|(_, stats)| stats.gap_max()).max().unwrap_or_default()
    }
}

/// Report of a port's device.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceReport {
    /// Statistics of the device, if it keeps any.
    pub stats: Option<PortStats>,
    /// The most frames that stood in its transmit queue, out of the MMU's sight; `None` where it is not known.
    pub backlog_max: Option<u32>,
    /// Frames that left by queue 0 as the guest takes none from their own; 0 for a port with one queue.
    pub queue_fallbacks: u64,
    /// Losses of the device.
    pub losses: DeviceLosses,
    /// Counters of the NIC between device and switch; `None` without one.
    pub nic: Option<ModelReport>,
}
