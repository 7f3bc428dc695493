//! What switches and their ports' devices tell of themselves.

use std::sync::Arc;

use weir_dpdk_io::{DeviceLosses, PortStats};
use weir_nic::model::ModelReport;
use weir_switch_core::report::Report;
use weir_units::Span;

use crate::lcore_loop::LcoreStats;
use crate::replayer::ReplayReport;

/// The last word of switches that have stopped.
#[derive(Debug)]
pub struct Stopped {
    /// Each switch's last report, everything given back.
    pub reports: Vec<Report>,
    /// Each lcore's CPU and what its loop tells.
    pub lcores: Vec<(u32, Arc<LcoreStats>)>,
    /// Mbufs that did not come back: 0, or a leak. Mbufs that devices keep when they are closed are not counted
    /// ([`weir_dpdk_io::Port::mbufs_kept_max`]), so that a smaller leak beside an AF_XDP port is not seen.
    pub mbufs_missing: u32,
    /// Each switch's ports' devices at the end.
    pub devices: Vec<Vec<DeviceReport>>,
    /// What the replay of traces came to, where there was one.
    pub replay: Option<ReplayReport>,
}

impl Stopped {
    /// The longest time between two polls of any lcore, in real time.
    pub fn gap_max(&self) -> Span {
        self.lcores.iter().map(|(_, stats)| stats.gap_max()).max().unwrap_or_default()
    }
}

/// What a port's device tells of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceReport {
    /// Its own statistics, where it keeps any.
    pub stats: Option<PortStats>,
    /// The most frames that stood in its transmit queue, out of the MMU's sight; `None` where it does not tell.
    pub backlog_max: Option<u32>,
    /// Frames that left by queue 0 as the guest takes none from their own; 0 for a port with one queue.
    pub queue_fallbacks: u64,
    /// What it lost.
    pub losses: DeviceLosses,
    /// What the NIC between it and the switch has counted; `None` where there is none.
    pub nic: Option<ModelReport>,
}
