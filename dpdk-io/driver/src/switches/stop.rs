//! Stop of running switches: buffered frames are sent or dropped, and the final counters reported.

use std::mem;
use std::thread;
use std::time::{Duration, Instant};

use weir_nic::model::ModelReport;
use weir_switch_core::report::Report;

use super::{RunningSwitches, Stopped};
use crate::devices::close;
use crate::error::DriverError;
use crate::task::Phase;

impl RunningSwitches {
    /// Stops the switches. No more frames are received, buffered frames are sent for up to `drain`, the rest is dropped and counted.
    pub fn stop(mut self, drain: Duration) -> Result<Stopped, DriverError> {
        self.control.enter(Phase::Drain);
        let deadline = Instant::now() + drain;
        while Instant::now() < deadline && !self.has_failed() {
            let held: u64 = (0..self.switches.len())
                .map(|index| self.report(index).map_or(0, |report| report.conservation.held()))
                .sum();
            if held == 0 && self.held_for_hosts() == 0 {
                break;
            }
            thread::park_timeout(Duration::from_millis(1));
        }
        self.control.enter(Phase::Discard);
        let reports = (0..self.switches.len()).map(|index| self.report_discarded(index)).collect::<Result<Vec<_>, _>>();
        (0..self.switches.len()).for_each(|index| self.wait_for_nics(index));
        self.lcores.iter().for_each(|(cpu, _, stats)| stats.record_last_cpu_use(*cpu));
        // The first answer may be of a poll that began before.
        self.replay_report();
        let replay = self.replay_report();
        self.control.enter(Phase::Stop);
        let mut lcores = Vec::new();
        let mut panicked = Ok(());
        for (cpu, handle, stats) in mem::take(&mut self.lcores) {
            if let Err(panic) = handle.join() {
                panicked = Err(panic);
            }
            lcores.push((cpu, stats));
        }
        panicked?;
        let devices = (0..self.switches.len()).map(|index| self.device_reports(index)).collect();
        let others = mem::take(&mut self.other_ports);
        let ports = mem::take(&mut self.switches).into_iter().flat_map(|switch| switch.ports).flatten();
        let mut kept_max = 0;
        for port in ports.chain(others) {
            kept_max += port.mbufs_kept_max();
            close(port);
        }
        let mbufs_missing = self.store.data.in_use().saturating_sub(kept_max) + self.store.control.in_use();
        Ok(Stopped { reports: reports?, lcores, mbufs_missing, devices, replay })
    }

    /// Waits until NICs have dropped their frames; their last report stays.
    fn wait_for_nics(&self, index: usize) {
        // The first answer may be of a poll that began before, and so is thrown away.
        self.nic_reports(index);
        let has_any = |report: &ModelReport| report.to_switch.held + report.to_host.held > 0;
        for _ in 0..100 {
            if !self.nic_reports(index).iter().flatten().any(has_any) {
                break;
            }
        }
    }

    /// Reports until no frames are left that lcores hand each other while they discard.
    fn report_discarded(&self, index: usize) -> Result<Report, DriverError> {
        for _ in 0..100 {
            let report = self.report(index)?;
            if report.conservation.held() == 0 {
                return Ok(report);
            }
        }
        self.report(index)
    }
}
