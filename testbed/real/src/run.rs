//! Sequence of a run: prepare real hosts, start the scenario, sample it, and end it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_dpdk_driver::{DriverError, RunningSwitches};
use weir_hosts::{RealHostSet, RealHostsResult};
use weir_results::record::{Progress, ProgressMeter};
use weir_results::run_dir::FlowSample;
use weir_scenario::Scenario;
use weir_switch_core::Report;
use weir_units::{Bytes, Span, Time};

use crate::BackendError;
use crate::real_hosts::RealHosts;
use crate::real_ranks::{RankSetup, RealRanks};
use crate::recorder::Recorder;
use crate::shared_stats::SharedStats;
use crate::software::Software;

/// Time between the start of the polling loops and the scenario's start, in real time.
const LEAD: Duration = Duration::from_millis(20);
/// Interval at which events are collected, in real time.
const COLLECT_EVERY: Duration = Duration::from_millis(2);
/// Longest time for hosts to finish after the scenario's end, in real time.
const FINISH_WITHIN: Duration = Duration::from_secs(20);
/// Longest time for connections between emulated and real hosts to close, in real time.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// Run of a scenario whose switches are started.
#[derive(Clone, Copy)]
pub(super) struct Run<'r> {
    pub(super) scenario: &'r Scenario,
    pub(super) running: &'r RunningSwitches,
    pub(super) software: &'r Software,
    pub(super) shared_stats: &'r Arc<SharedStats>,
    /// Interrupts the run if set.
    pub(super) stop: &'r AtomicBool,
}

/// Outcome of a run, with the results of its real hosts.
pub(super) struct EmulationResult {
    pub(super) end_reason: EmulationEnd,
    /// Effects of the machine on the switches up to the end.
    pub(super) interference: HostInterference,
    pub(super) real: Option<RealHostsResult>,
}

/// Effects of the machine on the switches during the scenario. Excludes the time before, when guests boot, and after,
/// when their programs end.
#[derive(Debug, Default)]
pub(super) struct HostInterference {
    /// Switch reports at the scenario's start; empty without real hosts, as emulated ones do nothing before.
    pub(super) before: Vec<Report>,
    pub(super) after: Vec<Report>,
    /// Longest time between two polls of an lcore during the scenario, in real time.
    pub(super) gap_max: Span,
}

/// Outcome of a run, in scenario time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EmulationEnd {
    Completed,
    Interrupted(Time),
}

impl Run<'_> {
    /// Runs and samples the scenario until all hosts have finished or timed out, or `stop` is set.
    pub(super) fn conduct(
        &self,
        hosts: Option<(&mut RealHostSet, RankSetup)>,
        recorder: &mut Recorder<'_>,
        observe: &mut dyn FnMut(&Progress),
    ) -> Result<EmulationResult, BackendError> {
        let real = match hosts {
            None => None,
            Some((experiment, setup)) => {
                let Run { scenario, running, software, shared_stats, stop } = *self;
                let Some(real) = RealHosts::prepare(experiment, scenario, running, software, stop)? else {
                    let end_reason = EmulationEnd::Interrupted(Time::ZERO);
                    return Ok(EmulationResult { end_reason, interference: HostInterference::default(), real: None });
                };
                let hosts = (0..scenario.hosts.len()).map(|host| experiment.rank_host(host)).collect();
                Some(match setup.ranks.is_empty() {
                    true => real,
                    false => {
                        let ranks = RealRanks::start(scenario, setup, hosts, shared_stats, running.clock())?;
                        real.connect_ranks(ranks, running, stop)?
                    }
                })
            }
        };
        // Real hosts send frames before the scenario and after it.
        let reports = || real.as_ref().map_or(Ok(Vec::new()), |_| self.running.reports());
        let before = reports()?;
        self.gap_since_last();
        let (end_reason, interference) = self.sample_all(real.as_ref(), before, recorder, observe)?;
        let is_interrupted = end_reason != EmulationEnd::Completed || recorder.is_deadlocked();
        Ok(EmulationResult {
            end_reason,
            interference,
            real: real.map(|real| real.finish(is_interrupted)).transpose()?,
        })
    }

    /// Samples the scenario from its start, which is now, to its end; returns the outcome, and the machine's effects.
    fn sample_all(
        &self,
        real: Option<&RealHosts>,
        before: Vec<Report>,
        recorder: &mut Recorder<'_>,
        observe: &mut dyn FnMut(&Progress),
    ) -> Result<(EmulationEnd, HostInterference), BackendError> {
        let Run { scenario, running, software, shared_stats, stop } = *self;
        let mut progress = ProgressMeter::default();
        let dilation = u64::from(scenario.time_dilation());
        let real_lead = real.map_or(LEAD, RealHosts::begin);
        let lead = Span::from_nanos(real_lead.as_nanos() as u64).divided_by(dilation);
        shared_stats.set_start(running.now() + lead);
        let publish = |reports: &[Report]| {
            let Some(real) = real else { return };
            running.update_links();
            for flow in 0..scenario.flows.len() {
                let [Some(now), Some(start)] = [reports, &before].map(|reports| real.sample(flow, reports)) else {
                    continue;
                };
                let since = |now: Bytes, start: Bytes| now.saturating_sub(start);
                // An emulated end publishes its own counters.
                let [from, to] =
                    [scenario.flows[flow].from, scenario.flows[flow].to].map(|host| scenario.is_real(host));
                let (sent, received) = (since(now.sent, start.sent), since(now.received, start.received));
                shared_stats.set_flow(flow, from.then_some(sent), to.then_some(received));
            }
        };
        // The end need not be a sample's time.
        let times = recorder.schedule().into_iter().map(Some).chain([None]);
        for next in times {
            loop {
                let left =
                    next.unwrap_or(scenario.end).since(shared_stats.scenario_time(running.now()).unwrap_or(Time::ZERO));
                if left == Span::ZERO {
                    break;
                }
                if stop.load(Ordering::Relaxed) {
                    let (now, reports) = self.reports()?;
                    recorder.sample(now, &reports)?;
                    let interference = HostInterference { before, after: reports, gap_max: self.gap_since_last() };
                    return Ok((EmulationEnd::Interrupted(now), interference));
                }
                let left = Duration::from_nanos((left * dilation).as_nanos().max(1_000));
                std::thread::park_timeout(left.min(COLLECT_EVERY));
                recorder.collect()?;
            }
            if running.has_failed() {
                return Err(BackendError::LcoreFailed);
            }
            if next.is_some_and(|next| recorder.is_due(next)) {
                let (now, reports) = self.reports()?;
                publish(&reports);
                recorder.sample(now, &reports)?;
                let flows: Vec<FlowSample> = shared_stats.flows().collect();
                observe(&progress.update(now, &flows, &reports));
            }
        }
        let after = running.reports()?;
        let interference = HostInterference { before, after, gap_max: self.gap_since_last() };
        let deadline = Instant::now() + FINISH_WITHIN;
        // Real hosts end by themselves.
        let are_awaited =
            || (!shared_stats.all_finished() && Instant::now() < deadline) || real.is_some_and(|real| !real.are_done());
        while are_awaited() && !recorder.is_deadlocked() && !stop.load(Ordering::Relaxed) {
            std::thread::park_timeout(COLLECT_EVERY);
            if Instant::now() > deadline {
                software.give_up();
                real.iter().for_each(|real| real.give_up());
            }
            // The other end of a failed flow would wait for it.
            if let Some(real) = real.filter(|_| software.has_failed()) {
                real.stop();
            }
            recorder.collect()?;
            let (now, reports) = self.reports()?;
            recorder.look_for_deadlock(now, &reports)?;
        }
        // Connections of ended programs are still closing.
        let close_deadline = Instant::now() + CLOSE_WITHIN;
        while !software.is_done() && Instant::now() < close_deadline && !stop.load(Ordering::Relaxed) {
            std::thread::park_timeout(COLLECT_EVERY);
            recorder.collect()?;
        }
        // RESUME frames may follow the last acknowledgement, in flight for a link's delay.
        let settle = Duration::from_nanos((scenario.longest_delay() * 2 * dilation).as_nanos());
        std::thread::park_timeout(settle + Duration::from_millis(10));
        Ok((EmulationEnd::Completed, interference))
    }

    /// Returns the longest time between two polls of an lcore since the last call, in real time.
    fn gap_since_last(&self) -> Span {
        self.running.lcores().map(|(_, stats)| stats.gaps().take_recent_max()).max().unwrap_or_default()
    }

    /// Returns the switches' reports, and the scenario time of the first.
    fn reports(&self) -> Result<(Time, Vec<Report>), DriverError> {
        let reports = self.running.reports()?;
        let now = reports.first().and_then(|report| self.shared_stats.scenario_time(report.at)).unwrap_or(Time::ZERO);
        Ok((now, reports))
    }
}
