//! Recorder of a run: writes samples, events and completion times as they come.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use weir_flowctl::{Gauge, MessageKind};
use weir_scenario::workload::Message;
use weir_scenario::{LinkPeer, PortRef, Scenario, TrafficPlan};
use weir_switch_core::Report;
use weir_switch_core::counters::DropReason;
use weir_switch_core::report::PortReport;
use weir_units::{BitRate, Bytes, CLASSES, Class, Span, Time};
use weir_wire::mac_control::PfcFrame;

use super::egress_use::EgressUse;
use super::messages::{MessageRates, SentMessages};
use super::sample_summary::SampleSummary;
use super::xoff_queues::XoffQueueStats;
use crate::deadlock::{Deadlock, Detector};
use crate::measure::Survey;
use crate::ports::{Ports, SeriesQueue};
use crate::run_dir::{
    EventKind, EventWriter, FctRow, FctWriter, FlowGauge, FlowSample, PoolSample, QueueSample, QueueWriter, RunDir,
    RunDirError, RunFile, SeriesColumns, SeriesWriter,
};
use crate::standstill::{Standstill, StandstillDetector};

/// Writer of a run's files while the run goes on.
pub struct Recorder<'a> {
    scenario: &'a Scenario,
    series: SeriesWriter<RunFile>,
    events: EventWriter<RunFile>,
    fcts: FctWriter<RunFile>,
    /// Writer of all queues at chosen instants, if any were chosen.
    queues: Option<QueueWriter<RunFile>>,
    /// Snapshot instants still ahead, the next one last.
    snapshots_ahead: Vec<Time>,
    /// Pause time or stage last advertised, by origin, port and class.
    advertised: [Vec<[u16; CLASSES]>; 2],
    /// Recorded drops by port, class and reason; without those that are 0.
    dropped: BTreeMap<(usize, Class, &'static str), u64>,
    /// Instant of the last sample.
    sampled_to: Option<Time>,
    /// Instant of the last evaluation of all switches.
    surveyed_to: Option<Time>,
    /// Window edges still ahead, the next one last.
    edges_ahead: Vec<Time>,
    record: RunRecord,
}

/// Origin of a flow-control message at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessageOrigin {
    /// The switch's port, to its peer.
    Port,
    /// The host on the port, to the port.
    Host,
}

/// Scope of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleScope {
    /// All reports hold at this instant. One of an earlier instant has not changed since.
    All,
    /// Reports of the switches in the series, and the pools of all switches, hold at this instant.
    Series,
}

/// Record built from a run's samples.
#[derive(Debug)]
pub struct RunRecord {
    pub(crate) ports: Ports,
    /// Counters of each flow at the last sample.
    pub(crate) flows: Vec<FlowSample>,
    /// Statistics of each flow's gauges, flow by flow in the order of [`Scenario::flow_gauges`].
    pub(crate) flow_gauges: Vec<FlowGauge>,
    /// Counters at the windows' edges.
    pub(crate) edges: Vec<WindowEdge>,
    /// Statistics of each queue of the series since the last edge.
    watched: Vec<SampleSummary>,
    /// Messages sent by each port, switch by switch.
    pub(crate) messages: MessageRates,
    /// Highest stage of GFC that each port advertised, by class.
    pub(crate) stages: Vec<[u16; CLASSES]>,
    /// Statistics over the samples of all switches.
    pub(crate) survey: Survey,
    pub(crate) egress_use: EgressUse,
    /// Statistics of queues in XOFF, over the samples of the series.
    pub(crate) xoff_queues: XoffQueueStats,
    detector: Detector,
    standstills: StandstillDetector,
}

/// Counters at a window's edge.
#[derive(Clone, Debug)]
pub(crate) struct WindowEdge {
    /// Planned instant of the sample.
    pub(crate) planned: Time,
    /// Actual instant of the sample.
    pub(crate) at: Time,
    /// Counters of each flow.
    pub(crate) flows: Vec<FlowSample>,
    /// Number and total time of each port's pauses of its peer, over all classes.
    pub(crate) pauses: Vec<(u64, Span)>,
    /// Statistics of each queue of the series since the previous edge.
    watched: Vec<SampleSummary>,
}

impl RunRecord {
    /// Merges the statistics of one queue of the series, from after the first `after` edges up to the edge before `until`.
    pub(crate) fn window_summary(&self, queue: usize, after: usize, until: usize) -> SampleSummary {
        let mut watched = SampleSummary::default();
        self.edges[after..until].iter().for_each(|edge| watched.append(&edge.watched[queue]));
        watched
    }

    /// Returns the bytes received at one queue of the series up to an edge, as on the wire.
    pub(crate) fn received(&self, queue: usize, edge: usize) -> Bytes {
        self.edges[edge].watched[queue].received()
    }

    /// Merges the statistics of one queue of the series over the whole run.
    pub(crate) fn queue_summary(&self, queue: usize) -> SampleSummary {
        let mut watched = self.window_summary(queue, 0, self.edges.len());
        watched.append(&self.watched[queue]);
        watched
    }

    /// Returns the deadlock that persists, or else the first.
    pub fn deadlock(&self) -> Option<&Deadlock> {
        self.detector.deadlock()
    }

    /// Returns the standstill that persists at the last sample, or else the first.
    pub fn standstill(&self) -> Option<&Standstill> {
        self.standstills.standstill()
    }
}

impl<'a> Recorder<'a> {
    /// Creates the sample files of a run in its directory.
    pub fn new(scenario: &'a Scenario, run: &RunDir) -> Result<Recorder<'a>, RunDirError> {
        let ports = Ports::new(scenario);
        let columns = SeriesColumns {
            flows: scenario.flows.iter().map(|flow| flow.name.clone()).collect(),
            flow_gauges: scenario.flow_gauges(),
            queues: ports.queues().iter().map(|queue| (ports.port(queue.place).name.clone(), queue.class)).collect(),
            gauges: ports.queues().iter().map(|queue| gauges_of(scenario, queue)).collect(),
            pools: scenario.pool_names(),
        };
        let edges: BTreeSet<Time> = scenario.windows.iter().flat_map(|window| [window.from, window.to]).collect();
        Ok(Recorder {
            scenario,
            series: run.series(Time::ZERO, &columns)?,
            events: run.events()?,
            fcts: run.fcts()?,
            queues: if scenario.snapshots.is_empty() { None } else { Some(run.queues()?) },
            snapshots_ahead: scenario.snapshots.iter().rev().copied().collect(),
            advertised: [vec![[0; CLASSES]; ports.len()], vec![[0; CLASSES]; ports.len()]],
            dropped: BTreeMap::new(),
            sampled_to: None,
            surveyed_to: None,
            edges_ahead: edges.into_iter().rev().collect(),
            record: RunRecord {
                flows: vec![FlowSample::default(); scenario.flows.len()],
                flow_gauges: vec![FlowGauge::default(); columns.flow_gauges.iter().map(Vec::len).sum()],
                edges: Vec::new(),
                watched: vec![SampleSummary::default(); ports.queues().len()],
                messages: MessageRates::default(),
                stages: vec![[0; CLASSES]; ports.len()],
                survey: Survey::new(scenario),
                egress_use: EgressUse::new(scenario),
                xoff_queues: XoffQueueStats::new(scenario, &ports),
                detector: Detector::for_scenario(scenario),
                standstills: StandstillDetector::for_scenario(scenario),
                ports,
            },
        })
    }

    /// Returns the instants of samples: regular times, windows' edges and snapshots.
    pub fn schedule(&self) -> Vec<Time> {
        let (step, end) = (self.scenario.sample_every.as_picos().max(1), self.scenario.end.as_picos());
        let regular = (1..=end / step).map(|n| Time::from_picos(n * step));
        let all: BTreeSet<Time> =
            regular.chain(self.edges_ahead.iter().chain(&self.snapshots_ahead).copied()).collect();
        all.into_iter().collect()
    }

    /// Whether the sample planned for `planned` is still to be taken. False if the previous sample came later than that.
    pub fn is_due(&self, planned: Time) -> bool {
        self.sampled_to.is_none_or(|sampled_to| sampled_to < planned)
    }

    /// Whether a window edge or a snapshot is due by `at`. Such a sample must cover all switches.
    pub fn is_edge(&self, at: Time) -> bool {
        let next = [&self.edges_ahead, &self.snapshots_ahead].map(|ahead| ahead.last());
        next.into_iter().flatten().any(|next| *next <= at)
    }

    /// Returns the ports of all switches.
    pub fn ports(&self) -> &Ports {
        &self.record.ports
    }

    /// Records a pause or GFC-stage frame sent by a port, or received from its host. A repeated stage writes no event.
    pub fn record_pfc_frame(
        &mut self,
        at: Time,
        by: MessageOrigin,
        place: PortRef,
        frame: &PfcFrame,
    ) -> io::Result<()> {
        let number = self.record.ports.number(place);
        let config = &self.scenario.switches[place.switch].ports[place.port];
        let is_staged = config.flow_control.message_kind() == MessageKind::Stages;
        for class in frame.enabled.iter() {
            let time = frame.times[class.index()];
            let before = std::mem::replace(&mut self.advertised[by as usize][number][class.index()], time);
            let kind = match (by, time, before) {
                (_, stage, before) if is_staged && stage == before => continue,
                (MessageOrigin::Port, stage, _) if is_staged => {
                    let highest = &mut self.record.stages[number][class.index()];
                    *highest = stage.max(*highest);
                    EventKind::StageSent(stage)
                }
                (MessageOrigin::Port, 0, _) => EventKind::ResumeSent,
                (MessageOrigin::Port, quanta, 0) => EventKind::PauseSent(quanta),
                (MessageOrigin::Port, quanta, _) => EventKind::PauseRefreshed(quanta),
                (MessageOrigin::Host, stage, _) if is_staged => EventKind::StageReceived(stage),
                (MessageOrigin::Host, 0, _) => EventKind::ResumeReceived,
                (MessageOrigin::Host, quanta, _) => EventKind::PauseReceived(quanta),
            };
            self.events.write(at, &self.record.ports.port(place).name, Some(class), kind)?;
        }
        Ok(())
    }

    /// Returns the classes that a pause frame switches between paused and running, compared with the previous frame.
    pub fn changes(&self, by: MessageOrigin, place: PortRef, frame: &PfcFrame) -> impl Iterator<Item = Class> {
        let (advertised, frame) = (self.advertised[by as usize][self.record.ports.number(place)], *frame);
        frame.enabled.iter().filter(move |class| (advertised[class.index()] > 0) != (frame.times[class.index()] > 0))
    }

    /// Records frames that a switch dropped at `at`, before the next sample. That sample records further drops, if there were any.
    pub fn record_drop(
        &mut self,
        at: Time,
        place: PortRef,
        class: Class,
        reason: DropReason,
        frames: u64,
    ) -> io::Result<()> {
        let (number, reason) = (self.record.ports.number(place), reason.name());
        *self.dropped.entry((number, class, reason)).or_insert(0) += frames;
        self.record_event(at, place, Some(class), EventKind::Drop { reason, frames })
    }

    /// Records a message, completed or, after the run's end, unfinished.
    pub fn record_message(&mut self, row: &FctRow<'_>) -> io::Result<()> {
        self.fcts.write(row)
    }

    /// Records a traffic's unfinished messages after the run's end. `ideal` returns a message's completion time in an empty
    /// fabric, if known.
    pub fn record_unfinished<'m>(
        &mut self,
        plan: &TrafficPlan,
        unfinished: impl Iterator<Item = &'m Message>,
        mut ideal: impl FnMut(&Message) -> Option<Span>,
    ) -> io::Result<()> {
        let scenario = self.scenario;
        for message in unfinished {
            let [from, to] = [message.from, message.to].map(|host| scenario.hosts[host as usize].name.as_str());
            let (flow, released, size) = (plan.name.as_str(), message.start, message.size);
            self.record_message(&FctRow { flow, from, to, released, size, fct: None, ideal: ideal(message) })?;
        }
        Ok(())
    }

    /// Records that the scenario reached a named point.
    pub fn record_mark(&mut self, at: Time, text: &str) -> io::Result<()> {
        self.events.write(at, "", None, EventKind::Mark(text))
    }

    /// Records any other event of a port.
    pub fn record_event(
        &mut self,
        at: Time,
        place: PortRef,
        class: Option<Class>,
        kind: EventKind<'_>,
    ) -> io::Result<()> {
        self.events.write(at, &self.record.ports.port(place).name, class, kind)
    }

    /// Takes a sample from the switches' reports as of `at`, the flows' counters, their gauges in the order of
    /// [`Scenario::flow_gauges`], and the rates that hosts have been set.
    pub fn sample(
        &mut self,
        at: Time,
        scope: SampleScope,
        reports: &[Report],
        flows: &[FlowSample],
        flow_gauges: &[f64],
        rate: impl Fn(usize, Class) -> Option<BitRate>,
    ) -> io::Result<()> {
        let link_overhead = self.scenario.link_overhead;
        let sample = |queue: &SeriesQueue| {
            let peer_rate = match queue.peer {
                Some(LinkPeer::Host(host)) => rate(host, queue.class),
                Some(LinkPeer::Port(peer)) => {
                    reports[peer.switch].ports[peer.port].classes[queue.class.index()].rate_rx
                }
                None => None,
            };
            queue_sample(&reports[queue.place.switch].ports[queue.place.port], queue.class, peer_rate, link_overhead)
        };
        let samples: Vec<QueueSample> = self.record.ports.queues().iter().map(sample).collect();
        let pools: Vec<PoolSample> = reports
            .iter()
            .map(|report| PoolSample { used: report.pool.used, capacity: report.pool.capacity })
            .collect();
        self.series.write(at, flows, flow_gauges, &samples, &pools)?;
        self.record.watched.iter_mut().zip(&samples).for_each(|(watched, sample)| watched.record(sample));
        self.record.xoff_queues.record(at, reports, is_after(self.sampled_to));
        self.record.flows.copy_from_slice(flows);
        self.record.flow_gauges.iter_mut().zip(flow_gauges).for_each(|(gauge, value)| gauge.record(*value));
        self.sampled_to = Some(at);
        if scope == SampleScope::Series {
            return Ok(());
        }
        self.survey(at, reports)?;
        self.record_queues(at, reports)?;
        while let Some(planned) = self.edges_ahead.pop_if(|edge| *edge <= at) {
            let of_port = |port: &PortReport| {
                let classes = port.classes.iter();
                (classes.clone().map(|class| class.pauses_tx).sum(), classes.map(|class| class.paused_tx).sum())
            };
            let pauses = reports.iter().flat_map(|report| report.ports.iter().map(of_port)).collect();
            let watched = self.record.watched.iter_mut().map(SampleSummary::end).collect();
            self.record.edges.push(WindowEdge { planned, at, flows: flows.to_vec(), pauses, watched });
        }
        Ok(())
    }

    /// Writes all queues, if a snapshot is due.
    fn record_queues(&mut self, at: Time, reports: &[Report]) -> io::Result<()> {
        let Some(queues) = &mut self.queues else { return Ok(()) };
        let mut is_due = false;
        while self.snapshots_ahead.pop_if(|instant| *instant <= at).is_some() {
            is_due = true;
        }
        if !is_due {
            return Ok(());
        }
        for port in self.record.ports.iter() {
            let of_port = &reports[port.place.switch].ports[port.place.port];
            for (class, report) in Class::ALL.into_iter().zip(&of_port.classes) {
                queues.write(at, &port.name, class, report)?;
            }
        }
        queues.flush()
    }

    /// Evaluates all switches' reports as of `at`: drops, messages, occupancy, deadlock, standstill.
    fn survey(&mut self, at: Time, reports: &[Report]) -> io::Result<()> {
        self.record_drops(at, reports)?;
        let is_new = is_after(self.surveyed_to.replace(at));
        let RunRecord { ports, messages, survey, egress_use, .. } = &mut self.record;
        for (switch, report) in reports.iter().enumerate().filter(|(_, report)| is_new(report)) {
            for (number, port) in ports.of_switch(switch) {
                let sent = &report.ports[port.place.port].control_tx;
                messages.set_sent(number, SentMessages::new(sent, self.scenario.link_overhead));
            }
        }
        messages.record(at);
        survey.record(at, reports, is_new);
        egress_use.record(reports, is_new);
        self.detect_deadlock(at, reports)?;
        let is_deadlocked = self.is_deadlocked();
        self.record.standstills.observe(at, reports, is_deadlocked);
        Ok(())
    }

    /// Records drops and deadlocks after the last sample.
    pub fn record_after_end(&mut self, at: Time, reports: &[Report]) -> io::Result<()> {
        self.record_drops(at, reports)?;
        self.detect_deadlock(at, reports)
    }

    /// Records the drops since [`Recorder::record_drop`] and the previous sample.
    fn record_drops(&mut self, at: Time, reports: &[Report]) -> io::Result<()> {
        let is_new = is_after(self.surveyed_to);
        for (switch, report) in reports.iter().enumerate().filter(|(_, report)| is_new(report)) {
            for (number, of_port) in self.record.ports.of_switch(switch) {
                let counters = &report.ports[of_port.place.port].classes;
                for (class, counters) in Class::ALL.into_iter().zip(counters) {
                    for (reason, now) in DropReason::ALL.map(|reason| (reason.name(), counters.dropped(reason))) {
                        if now == 0 {
                            continue;
                        }
                        let recorded = self.dropped.entry((number, class, reason)).or_insert(0);
                        if now > *recorded {
                            let kind = EventKind::Drop { reason, frames: now - *recorded };
                            *recorded = now;
                            self.events.write(at, &of_port.name, Some(class), kind)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Feeds the switches' state as of `at` to the deadlock detector.
    pub fn detect_deadlock(&mut self, at: Time, reports: &[Report]) -> io::Result<()> {
        if let Some(deadlock) = self.record.detector.observe_reports(at, reports) {
            let cycle = deadlock.cycle_in(self.scenario);
            self.events.write(at, "", None, EventKind::Deadlock(&cycle))?;
        }
        Ok(())
    }

    /// Whether a deadlock of the fabric persists.
    pub fn is_deadlocked(&self) -> bool {
        self.record.deadlock().is_some_and(Deadlock::persists)
    }

    /// Whether a standstill persisted at the last sample.
    pub fn is_at_standstill(&self) -> bool {
        self.record.standstill().is_some_and(Standstill::persists)
    }

    /// Flushes all files.
    pub fn flush(&mut self) -> io::Result<()> {
        // All are flushed, even if one fails.
        let queues = self.queues.as_mut().map_or(Ok(()), QueueWriter::flush);
        self.series.flush().and(self.events.flush()).and(self.fcts.flush()).and(queues)
    }

    /// Returns the record of the samples so far.
    pub fn so_far(&self) -> &RunRecord {
        &self.record
    }

    /// Flushes the files and returns the record.
    pub fn finish(mut self) -> io::Result<RunRecord> {
        self.flush()?;
        Ok(self.record)
    }
}

/// Returns whether a report may differ from that of an earlier sample, if there was one.
fn is_after(sample: Option<Time>) -> impl Fn(&Report) -> bool + Copy {
    move |report| sample.is_none_or(|sample| report.at > sample)
}

fn queue_sample(port: &PortReport, class: Class, peer_rate: Option<BitRate>, link_overhead: Bytes) -> QueueSample {
    let class = &port.classes[class.index()];
    let ingress = &class.ingress;
    QueueSample {
        // Counted without FCS.
        received: Bytes::new(class.rx_bytes) + link_overhead * class.rx_frames,
        ingress: ingress.private + ingress.shared + ingress.headroom,
        headroom: ingress.headroom,
        threshold: Some(ingress.threshold),
        egress: class.egress,
        paused: ingress.off,
        paused_for: class.paused_tx,
        peer_rate,
        gauges: ingress.gauges,
        control_gauges: class.gauges,
    }
}

fn gauges_of(scenario: &Scenario, queue: &SeriesQueue) -> &'static [Gauge] {
    scenario.switches[queue.place.switch].ports[queue.place.port].flow_control.gauges()
}
