//! Running switches, as the control thread queries them: reports of switches and devices.

use std::sync::Arc;

use weir_dpdk_io::{Clock, DeviceLosses, Port};
use weir_nic::model::ModelReport;
use weir_switch_core::Shared;
use weir_switch_core::report::Report;
use weir_units::Time;

use super::{DeviceReport, RunningSwitches, Stopped};
use crate::error::DriverError;
use crate::lcore_loop::LcoreStats;
use crate::lcore_timeout::LcoreTimeout;
use crate::nic::NicStatsCell;
use crate::replayer::ReplayReport;
use crate::switch_lcore::DeviceBacklog;
use crate::task::Phase;

impl RunningSwitches {
    /// Returns a copy of the switches' clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Now, on the switches' clock.
    pub fn now(&self) -> Time {
        Time::from_picos(self.clock.now_ps())
    }

    /// Frequency of the clock's time-stamp counter, in Hz.
    pub fn counter_hz(&self) -> u64 {
        self.clock.frequency_hz()
    }

    /// A report of switch `index`.
    pub fn report(&self, index: usize) -> Result<Report, DriverError> {
        let timeout = self.lcore_timeout();
        let report = self.switches[index].reporter.collect(self.now(), || self.waits(&timeout));
        report.ok_or_else(|| self.stuck("no counters", &timeout))
    }

    pub(super) fn lcore_timeout(&self) -> LcoreTimeout {
        LcoreTimeout::new(self.lcores.iter().map(|(cpu, _, stats)| (*cpu, stats.clone())).collect())
    }

    /// Waits a little for lcores to answer. Returns false once the time is over, the lcores were stopped, or a loop has ended.
    pub(super) fn waits(&self, timeout: &LcoreTimeout) -> bool {
        timeout.wait() && !self.lcores.is_empty() && !self.has_failed()
    }

    pub(super) fn stuck(&self, what: &str, timeout: &LcoreTimeout) -> DriverError {
        DriverError::Stuck(match self.has_failed() {
            true => "its loop has ended".to_owned(),
            false => format!("{what} {}", timeout.describe()),
        })
    }

    /// A report of each switch.
    pub fn reports(&self) -> Result<Vec<Report>, DriverError> {
        (0..self.switches.len()).map(|index| self.report(index)).collect()
    }

    /// Returns the report of [`RunningSwitches::stop`] as of now. Frames in flight are no leak, so no mbufs are missing.
    pub fn so_far(&self) -> Result<Stopped, DriverError> {
        Ok(Stopped {
            reports: self.reports()?,
            lcores: self.lcores.iter().map(|(cpu, _, stats)| (*cpu, stats.clone())).collect(),
            mbufs_missing: 0,
            devices: (0..self.switches.len()).map(|index| self.device_reports(index)).collect(),
            replay: self.replay_report(),
        })
    }

    /// Statistics of the replay of traces; `None` without one.
    pub(crate) fn replay_report(&self) -> Option<ReplayReport> {
        let timeout = self.lcore_timeout();
        self.replays.as_ref().map(|stats| stats.collect(|| self.waits(&timeout)))
    }

    /// Whether all frames of traces have left; `None` where none are replayed.
    pub fn replay_is_done(&self) -> Option<bool> {
        self.replays.as_ref().map(|stats| stats.is_done())
    }

    /// State shared by the lcores of switch `index`.
    pub fn shared(&self, index: usize) -> &Arc<Shared> {
        &self.switches[index].shared
    }

    /// Each lcore's CPU and its loop's statistics.
    pub fn lcores(&self) -> impl Iterator<Item = (u32, &LcoreStats)> {
        self.lcores.iter().map(|(cpu, _, stats)| (*cpu, &**stats))
    }

    /// Whether an lcore's loop has ended, which before [`RunningSwitches::stop`] only a bug makes it do.
    pub fn has_failed(&self) -> bool {
        self.lcores.iter().any(|(_, handle, _)| handle.is_finished())
    }

    /// Losses at each port's device of switch `index` since the start; none for a clone. Call it about every second, see
    /// [`weir_dpdk_io::LossMeter::read`].
    pub fn device_losses(&self, index: usize) -> Vec<DeviceLosses> {
        let switch = &self.switches[index];
        switch.losses.read(&switch.ports)
    }

    /// Counters of the NIC in front of the host at each port of switch `index`; `None` without one.
    pub fn nic_reports(&self, index: usize) -> Vec<Option<ModelReport>> {
        let timeout = self.lcore_timeout();
        let report =
            |stats: &Option<Arc<NicStatsCell>>| stats.as_ref().map(|stats| stats.collect(|| self.waits(&timeout)));
        self.switches[index].nics.iter().map(report).collect()
    }

    /// Frames that NICs still have for their hosts.
    pub(super) fn held_for_hosts(&self) -> u64 {
        let reports = (0..self.switches.len()).flat_map(|index| self.nic_reports(index));
        reports.flatten().map(|report| report.to_host.held).sum()
    }

    /// Report of each port's device of switch `index`; empty for a clone.
    pub(crate) fn device_reports(&self, index: usize) -> Vec<DeviceReport> {
        let switch = &self.switches[index];
        let report = |(((port, backlog), losses), nic): (((&Option<Port>, &Arc<DeviceBacklog>), _), _)| {
            let frames = backlog.frames_max();
            // The registers of a NIC that is unplugged are all ones.
            let there = port.as_ref().filter(|port| !port.is_removed());
            let stats = there.and_then(|port| port.stats().ok());
            let queue_fallbacks = backlog.fallbacks();
            DeviceReport { stats, backlog_max: (frames > 0).then_some(frames), queue_fallbacks, losses, nic }
        };
        switch
            .ports
            .iter()
            .zip(&switch.backlogs)
            .zip(self.device_losses(index))
            .zip(self.nic_reports(index))
            .map(report)
            .collect()
    }
}

impl Drop for RunningSwitches {
    fn drop(&mut self) {
        self.control.enter(Phase::Stop);
    }
}
