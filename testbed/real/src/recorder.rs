//! Recorder of the control thread: writes events from lcores, and captured frames, to the run's files.

use std::io;
use std::sync::Arc;

use weir_dpdk_driver::{DroppedFrame, DroppedFrames};
use weir_nic::host::Completion;
use weir_results::record::{self, RunRecord, SampleScope};
use weir_results::run_dir::{
    CapturePort, CaptureWriter, FctRow, FlowSample, RunDir, RunDirError, RunFile, TrafficSummary,
};
use weir_scenario::workload::Message;
use weir_scenario::{PortRef, Scenario};
use weir_switch_core::Report;
use weir_units::Time;

use super::connections::Connections;
use super::host_events::{EventReceiver, HostEvent};
use super::shared_stats::SharedStats;

/// Recorder that writes a run's files during the run.
pub(super) struct Recorder<'a> {
    scenario: &'a Scenario,
    shared_stats: Arc<SharedStats>,
    event_receivers: Vec<EventReceiver>,
    dropped: Vec<DroppedFrames>,
    connections: Connections,
    capture: Option<CaptureWriter<RunFile>>,
    record: record::Recorder<'a>,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(
        scenario: &'a Scenario,
        run: &RunDir,
        shared_stats: Arc<SharedStats>,
        event_receivers: Vec<EventReceiver>,
        dropped: Vec<DroppedFrames>,
        connections: Connections,
    ) -> Result<Recorder<'a>, RunDirError> {
        let capture = scenario.capture.map(|plan| {
            let host = &scenario.hosts[plan.host];
            let port = &scenario.switches[host.switch].ports[host.port];
            let rate = Some(port.rate.unwrap_or(host.nic.rate));
            let name = scenario.port_name(host.place());
            run.capture(&CapturePort { name, mac: port.mac.unwrap_or_default(), rate })
        });
        let capture = capture.transpose()?;
        Ok(Recorder {
            scenario,
            shared_stats,
            event_receivers,
            dropped,
            connections,
            capture,
            record: record::Recorder::new(scenario, run)?,
        })
    }

    /// Returns the planned times of samples.
    pub(super) fn schedule(&self) -> Vec<Time> {
        self.record.schedule()
    }

    /// Whether the sample planned for `planned` is still to be taken.
    pub(super) fn is_due(&self, planned: Time) -> bool {
        self.record.is_due(planned)
    }

    /// Writes the events that hosts and links have sent, and drops of switches.
    pub(super) fn collect(&mut self) -> io::Result<()> {
        for receiver in &mut self.event_receivers {
            while let Ok(event) = receiver.events.try_recv() {
                match event {
                    HostEvent::Pfc(at, origin, place, frame) => {
                        self.record.record_pfc_frame(at, origin, place, &frame)?
                    }
                    HostEvent::Program(event) => {
                        let Some(host) = receiver.host else { continue };
                        self.connections.record_event(self.scenario, host, &event);
                    }
                    HostEvent::Completed(completion) => {
                        let Some(host) = receiver.host else { continue };
                        record_completion(self.scenario, &mut self.connections, &mut self.record, host, &completion)?;
                    }
                }
            }
            if let (Some(ring), Some(capture)) = (&mut receiver.capture, &mut self.capture) {
                for frame in ring {
                    capture.write(frame.at, frame.direction, &frame.bytes)?;
                }
            }
        }
        for frames in &mut self.dropped {
            let (switch, dropped): (_, Vec<_>) = (frames.switch, frames.by_ref().collect());
            for frames in dropped.chunk_by(|one, next| one == next) {
                let DroppedFrame { at, queue, reason } = frames[0];
                // Before the scenario starts, the first sample has them.
                let Some(at) = self.shared_stats.scenario_time(at) else { continue };
                let place = PortRef { switch, port: queue.port().index() };
                self.record.record_drop(at, place, queue.class(), reason, frames.len() as u64)?;
            }
        }
        Ok(())
    }

    /// Takes a sample: the switches' reports as of `at`, and the hosts' current counters.
    pub(super) fn sample(&mut self, at: Time, reports: &[Report]) -> io::Result<()> {
        // The reports' drops have times of their own.
        self.collect()?;
        let flows: Vec<FlowSample> = self.shared_stats.flows().collect();
        let shared_stats = &self.shared_stats;
        self.record.sample(at, SampleScope::All, reports, &flows, &self.shared_stats.gauges(), |host, class| {
            shared_stats.rate(host, class)
        })
    }

    /// Passes the switches' state as of `at` to the deadlock detector.
    pub(super) fn look_for_deadlock(&mut self, at: Time, reports: &[Report]) -> io::Result<()> {
        self.record.detect_deadlock(at, reports)
    }

    pub(super) fn is_deadlocked(&self) -> bool {
        self.record.is_deadlocked()
    }

    /// Writes the traffic messages that are incomplete.
    fn record_unfinished(&mut self) -> io::Result<()> {
        let scenario = self.scenario;
        for (number, plan) in scenario.traffic.iter().enumerate() {
            self.record.record_unfinished(plan, self.connections.unfinished(scenario, number), |_| None)?;
        }
        Ok(())
    }

    /// Closes the files; returns the record of the samples, and the traffic summaries.
    pub(super) fn finish(mut self) -> io::Result<(RunRecord, Vec<TrafficSummary>)> {
        self.record_unfinished()?;
        let traffic = self.connections.summaries(self.scenario);
        let record = self.record.finish()?;
        if let Some(capture) = self.capture {
            capture.finish()?;
        }
        Ok((record, traffic))
    }
}

/// Records a completed message of a flow or traffic.
///
/// The ideal completion time is not recorded. A frame arrives with its first byte here, so the measured time could be
/// shorter.
fn record_completion(
    scenario: &Scenario,
    connections: &mut Connections,
    record: &mut record::Recorder<'_>,
    host: usize,
    completion: &Completion,
) -> io::Result<()> {
    let Completion { flow: end, released, size, fct } = *completion;
    let sends = scenario.flows.iter().filter(|flow| flow.from == host);
    // Flows of real hosts are not the programs'.
    let of_flows = if scenario.is_real(host) { 0 } else { sends.clone().count() };
    let (flow, ends) = match end.checked_sub(of_flows) {
        None => {
            let Some(flow) = sends.clone().nth(end) else { return Ok(()) };
            (&flow.name, [flow.from, flow.to])
        }
        Some(end) => {
            let Some((traffic, message)) = connections.complete(scenario, host, end) else { return Ok(()) };
            connections.measures(traffic).record(message, scenario.warm_up, released, size, fct, None);
            let Message { from, to, .. } = connections.messages(scenario, traffic)[message];
            (&scenario.traffic[traffic].name, [from, to].map(|host| host as usize))
        }
    };
    let [from, to] = ends.map(|host| scenario.hosts[host].name.as_str());
    record.record_message(&FctRow { flow, from, to, released, size, fct: Some(fct), ideal: None })
}
