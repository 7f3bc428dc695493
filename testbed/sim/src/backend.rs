//! Backend that runs a scenario in virtual time and writes a run directory.
//!
//! After the scenario's end no message starts, and the run drains until all sent data has arrived. A deadlock ends the
//! run at once, and so does a standstill where the scenario expects either outcome. Otherwise draining is allowed the drain time: the scenario's length, or ten times the longest wait (a
//! pause, a retransmission timeout, or a link's delay) if longer, and at least 10 ms. Draining is abandoned after it if:
//! - no host has received anything for the drain time,
//! - more frames have been put on links since the end than before it, or
//! - 10 s have passed since the end.
//!
//! Finally, every frame must be accounted for.

mod critical_paths;
mod end;
mod flow_ends;
mod live;
mod outages;
mod stats;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_flowctl::MessageKind;
use weir_results::measure::{IdealPaths, MessageMeasures, repetitions};
use weir_results::record::{
    self, MessageOrigin, NicStats, Progress, ProgressMeter, Recorder, RunResult, SampleScope, dropped,
    overflown_lossless, write_configs,
};
use weir_results::run_dir::{
    FctRow, FlowSample, Ns3Files, Ns3Message, Ns3Nodes, RepetitionSummary, RunDir, RunDirError, RunFile, Speed,
    Summary, TrafficSummary,
};
use weir_scenario::file::Expectation;
use weir_scenario::workload::Message;
use weir_scenario::{LinkPeer, LinkRef, PortRef, RuntimeChange, Scenario};
use weir_switch_core::Report;
use weir_units::{BitRate, Bytes, Class, PortId, QueueId, Span, Time};
use weir_wire::mac_control::{ControlFrame, PfcFrame};

use super::cost_estimate::{CostEstimate, format_memory, free_memory};
use super::network::{RecordedEvent, RecordedEventKind};
use super::worker_pool::cpu_time;
use super::{CompletedMessage, MessageSource, Sim, SimError, Threads, frame_conservation};
use critical_paths::{PathTimes, PauseTimes};
use end::{SimulationEnd, drain_time, undrained, until_end};
use flow_ends::FlowEnds;
pub use live::{LiveControl, LiveSample};
use outages::Outages;
use stats::{host_stats, link_stats};

/// Backend that runs scenarios in virtual time.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimBackend {
    /// Expected outcome of the run; any other is a failure.
    pub expects: Expectation,
    /// Whether to write [`Ns3Files`] too.
    pub ns3_files: bool,
    /// Number of threads.
    pub threads: Threads,
}

/// Error that prevents or ends a run.
#[derive(Debug, thiserror::Error)]
pub enum SimRunError {
    /// The scenario can't be run in virtual time.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// The machine has too little free memory.
    #[error(
        "a run of {switches} switches and {hosts} hosts takes about {} of memory, and {} are free: take a smaller fabric, or a machine with more",
        format_memory(*.needed), format_memory(*.free)
    )]
    Memory {
        /// Number of switches.
        switches: usize,
        /// Number of hosts.
        hosts: usize,
        /// Estimated memory of the run.
        needed: Bytes,
        /// Free memory of the machine.
        free: Bytes,
    },
    /// A host has more open messages than connections.
    #[error(
        "host {host} has more than {} open messages: write fewer at a time, a later start for some, or kind = \"closed-loop\"",
        weir_nic::host::Connection::OPEN_MAX
    )]
    Connections {
        /// Name of the host.
        host: String,
    },
    /// The run directory can't be written.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// A result file can't be written.
    #[error("the results can't be written: {0}")]
    Write(#[from] std::io::Error),
}

/// Shortest interval between reports of all switches in a large fabric. Switches in the series report at each sample.
const SURVEY_EVERY: Span = Span::from_micros(250);
/// Target range of wall time per call of [`Sim::run_until`], between progress reports and checks for interruption.
const RUN_STEP_TIME: [Duration; 2] = [Duration::from_millis(40), Duration::from_millis(160)];
/// Longest time after the end during which steady progress extends draining.
const DRAIN_MAX: Span = Span::from_secs(10);

impl SimBackend {
    /// Runs a scenario, writes its results and returns their summary. `observe` is called with the progress now and
    /// then. Setting `stop` interrupts the run, which the results record.
    ///
    /// # Errors
    /// The scenario can't be run, the machine has too little free memory, or a file can't be written.
    pub fn run(
        &self,
        scenario: &Scenario,
        run: RunDir,
        observe: &mut dyn FnMut(&Progress),
        stop: &AtomicBool,
    ) -> Result<Summary, SimRunError> {
        self.conduct(scenario, run, observe, None, stop)
    }

    /// Runs a scenario like [`SimBackend::run`], under the control of `live`.
    ///
    /// # Errors
    /// Those of [`SimBackend::run`].
    pub fn run_live(
        &self,
        scenario: &Scenario,
        run: RunDir,
        live: &mut dyn LiveControl,
        stop: &AtomicBool,
    ) -> Result<Summary, SimRunError> {
        self.conduct(scenario, run, &mut |_| {}, Some(live), stop)
    }

    fn conduct(
        &self,
        scenario: &Scenario,
        run: RunDir,
        observe: &mut dyn FnMut(&Progress),
        live: Option<&mut dyn LiveControl>,
        stop: &AtomicBool,
    ) -> Result<Summary, SimRunError> {
        let clock = (Instant::now(), cpu_time());
        let scenario = &until_end(scenario);
        check_memory(free_memory(), scenario)?;
        let mut sim = Sim::new(scenario)?;
        sim.record_port_events();
        sim.set_threads(self.threads);
        write_configs(scenario, &run)?;
        let ns3 = if self.ns3_files { Some(run.ns3_files()?) } else { None };
        let recorder = Recorder::new(scenario, &run)?;
        let mut running = ActiveRun {
            ends: FlowEnds::new(scenario),
            outages: Outages::new(scenario),
            changes: scenario.changes.iter().rev().cloned().collect(),
            // The closure shortens the trait object's lifetime to the run's.
            live: live.map(|live| -> &mut dyn LiveControl { live }),
            ideal_paths: IdealPaths::new(scenario),
            pauses: scenario.traffic.iter().any(|plan| plan.graph().is_some()).then(PauseTimes::default),
            measures: vec![MessageMeasures::new(); scenario.traffic.len()],
            reports: sim.reports(),
            surveyed: Time::ZERO,
            run_step: scenario.end.since(Time::ZERO).divided_by(1_000).max(Span::from_nanos(1)),
            progress: Progress::default(),
            progress_of: ProgressMeter::default(),
            scenario,
            sim,
            recorder,
            ns3,
            nodes: ns3_nodes(scenario),
            observe,
            stop,
            expects: self.expects,
        };
        let schedule = running.recorder.schedule();
        let end_reason = running.conduct(&schedule)?;
        let (summary, speed) = running.finish(end_reason)?;
        run.write_speed(&Speed {
            wall_ms: clock.0.elapsed().as_millis() as u64,
            ..speed.into_speed(cpu_time().zip(clock.1).map(|(now, before)| now.saturating_sub(before)))
        })?;
        run.finish(&summary)?;
        Ok(summary)
    }
}

/// Numbers a scenario's nodes, as [`Ns3Files`] have them.
fn ns3_nodes(scenario: &Scenario) -> Ns3Nodes {
    let ports = scenario.host_ports();
    let host = |port: usize| (scenario.host_name(port), ports.number(port as u32));
    let hosts: Vec<(&str, usize)> = (0..scenario.hosts.len()).map(host).collect();
    let switches: Vec<&str> = scenario.switches.iter().map(|switch| switch.name.as_str()).collect();
    Ns3Nodes::from_names(&hosts, &switches)
}

/// Rejects a scenario that needs more than the free memory, where that is known.
fn check_memory(free: Option<Bytes>, scenario: &Scenario) -> Result<(), SimRunError> {
    let needed = CostEstimate::for_scenario(scenario).memory;
    match free.filter(|free| *free < needed) {
        None => Ok(()),
        Some(free) => {
            Err(SimRunError::Memory { switches: scenario.switches.len(), hosts: scenario.hosts.len(), needed, free })
        }
    }
}

struct ActiveRun<'a> {
    scenario: &'a Scenario,
    sim: Sim,
    recorder: Recorder<'a>,
    ns3: Option<Ns3Files<RunFile>>,
    nodes: Ns3Nodes,
    ends: FlowEnds,
    outages: Outages,
    /// Changes of the switches' settings still ahead, the next one last.
    changes: Vec<RuntimeChange>,
    live: Option<&'a mut dyn LiveControl>,
    ideal_paths: IdealPaths<'a>,
    /// Pauses, if the scenario has graphs.
    pauses: Option<PauseTimes>,
    measures: Vec<MessageMeasures>,
    reports: Vec<Report>,
    /// Time of the last report of all switches.
    surveyed: Time,
    /// Virtual time per call of [`Sim::run_until`].
    run_step: Span,
    progress: Progress,
    progress_of: ProgressMeter,
    observe: &'a mut dyn FnMut(&Progress),
    stop: &'a AtomicBool,
    expects: Expectation,
}

/// State of draining.
struct Draining {
    end: Time,
    hops_by_end: u64,
    /// Time at which hosts last received a packet, and the number received by then.
    last_received: (Time, u64),
    is_drained: bool,
}

impl ActiveRun<'_> {
    /// Runs from the start to the end.
    fn conduct(&mut self, schedule: &[Time]) -> Result<SimulationEnd, SimRunError> {
        for planned in schedule.iter().copied() {
            if !self.advance(planned)? {
                if self.recorder.is_due(self.sim.now()) {
                    self.sample(self.sim.now(), SampleScope::All)?;
                }
                return Ok(SimulationEnd::Interruption);
            }
            if self.recorder.is_due(planned) {
                self.sample(planned, self.scope_at(planned))?;
            }
        }
        if !self.advance(self.scenario.end)? {
            return Ok(SimulationEnd::Interruption);
        }
        self.drain()
    }

    /// Runs to an instant, applying outages and changes; returns whether it got there without interruption.
    fn advance(&mut self, until: Time) -> Result<bool, SimRunError> {
        loop {
            if self.outages.next() <= self.sim.now() {
                for (link, is_up) in self.outages.apply(self.scenario, &mut self.sim) {
                    let text = format!("{} {}", link_name(self.scenario, link), if is_up { "mended" } else { "cut" });
                    self.recorder.record_mark(self.sim.now(), &text)?;
                }
                if self.outages.reroute(&mut self.sim) {
                    self.recorder.record_mark(self.sim.now(), "all switches know the ways")?;
                }
            }
            while let Some(change) = self.changes.pop_if(|change| change.at <= self.sim.now()) {
                self.sim.set_runtime_config(&change.switches);
                self.recorder.record_mark(self.sim.now(), &format!("set {}={}", change.key, change.value))?;
            }
            if self.stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let now = self.sim.now();
            // Also at the current instant, whose events may be pending.
            let next = until.min(self.next_change()).min(now.saturating_add(self.run_step));
            let before = Instant::now();
            self.sim.run_until(next);
            if let Some(host) = self.sim.full_host() {
                return Err(SimRunError::Connections { host: self.scenario.hosts[host].name.clone() });
            }
            self.collect()?;
            let took = before.elapsed();
            if took < RUN_STEP_TIME[0] && next.since(now) == self.run_step {
                self.run_step = self.run_step * 2;
            } else if took > RUN_STEP_TIME[1] {
                self.run_step = self.run_step.divided_by(2).max(Span::from_nanos(1));
            }
            if took > RUN_STEP_TIME[0] {
                self.report_progress();
            }
            if next == until && self.next_change() > until {
                return Ok(true);
            }
        }
    }

    /// Returns the instant of the next outage or change; [`Time::NEVER`] if there is none.
    fn next_change(&self) -> Time {
        self.outages.next().min(self.changes.last().map_or(Time::NEVER, |change| change.at))
    }

    fn report_progress(&mut self) {
        self.progress.now = self.sim.now();
        self.progress.packet_hops = self.sim.packet_hops();
        self.progress.messages_done = self.measures.iter().map(MessageMeasures::completed).sum();
        (self.observe)(&self.progress);
    }

    /// Writes events since the last call.
    fn collect(&mut self) -> Result<(), SimRunError> {
        let ActiveRun { scenario, sim, recorder, ns3, nodes, pauses, .. } = self;
        let events: Vec<RecordedEvent> = sim.drain_port_events().collect();
        // Frames dropped for the same reason at an instant are one event.
        let is_same = |one: &RecordedEvent, next: &RecordedEvent| {
            matches!(one.kind, RecordedEventKind::Drop(..))
                && (one.at, one.place, one.kind) == (next.at, next.place, next.kind)
        };
        for events in events.chunk_by(is_same) {
            let RecordedEvent { at, place, kind } = events[0];
            match kind {
                RecordedEventKind::ControlFrame { origin, arrives, frame: ControlFrame::Pfc(frame) } => {
                    if let Some(ns3) = ns3 {
                        record_pause(ns3, nodes, scenario, recorder, (origin, place, arrives), &frame);
                    }
                    if let Some(pauses) = pauses {
                        pauses.record(at, (origin, place), &frame);
                    }
                    recorder.record_pfc_frame(at, origin, place, &frame)?;
                }
                RecordedEventKind::ControlFrame { .. } => {}
                RecordedEventKind::Drop(class, reason) => {
                    recorder.record_drop(at, place, class, reason, events.len() as u64)?;
                }
            }
        }
        let completions: Vec<CompletedMessage> = self.sim.drain_completions().collect();
        for completion in &completions {
            self.record_completion(completion)?;
        }
        if let Some(ns3) = &mut self.ns3 {
            ns3.advance(self.sim.now())?;
        }
        Ok(())
    }

    fn record_completion(&mut self, completion: &CompletedMessage) -> Result<(), SimRunError> {
        let scenario = self.scenario;
        let mut servers = None;
        let (flow, [from, to], (transport, control), ports) = match completion.source {
            MessageSource::Flow(n) => {
                let place = self.ends.sends[completion.host][n];
                let plan = &scenario.flows[place];
                let (first, message) = (scenario.traffic.len() + place, self.ends.count_completed(place));
                let carried_by = (&plan.config.transport, &plan.config.congestion_control);
                (&plan.name, [plan.from, plan.to], carried_by, connection_ports(first, message))
            }
            MessageSource::Message(traffic, message) => {
                let plan = &scenario.traffic[traffic as usize];
                let ends = &self.sim.messages(traffic as usize)[message as usize];
                let ends = [ends.from, ends.to].map(|host| host as usize);
                let carried_by = (&plan.transport, &plan.congestion_control);
                servers = scenario.servers_for(plan, ends);
                let [source, destination] = connection_ports(traffic as usize, message as usize);
                (&plan.name, ends, carried_by, [source, plan.dport.unwrap_or(destination)])
            }
        };
        let ideal = match servers {
            Some(servers) => Some(servers.ideal_fct(completion.size)),
            None => self.ideal_paths.ideal_fct([from, to], completion.size, transport, control.telemetry()),
        };
        if let MessageSource::Message(traffic, message) = completion.source {
            let measures = &mut self.measures[traffic as usize];
            measures.record(
                message as usize,
                scenario.warm_up,
                completion.released,
                completion.size,
                completion.fct,
                ideal,
            );
        }
        self.recorder.record_message(&FctRow {
            flow,
            from: scenario.host_name(from),
            to: scenario.host_name(to),
            released: completion.released,
            size: completion.size,
            fct: Some(completion.fct),
            ideal,
        })?;
        if let Some(ns3) = &mut self.ns3 {
            let (start, standalone) = (completion.released, ideal.unwrap_or(completion.fct));
            let [from, to] = [from, to].map(|host| self.nodes.hosts[host][0]);
            ns3.message(&Ns3Message {
                from,
                to,
                ports,
                size: completion.size,
                start,
                fct: completion.fct,
                standalone,
            })?;
        }
        Ok(())
    }

    /// Writes the traffic messages that have started and are incomplete.
    fn record_unfinished(&mut self) -> Result<(), SimRunError> {
        for (number, (plan, measures)) in self.scenario.traffic.iter().zip(&self.measures).enumerate() {
            let unfinished = measures.unfinished(started(&self.sim, number));
            let (transport, stamps) = (&plan.transport, plan.congestion_control.telemetry());
            self.recorder.record_unfinished(plan, unfinished, |message| {
                let ends = [message.from, message.to].map(|host| host as usize);
                match self.scenario.servers_for(plan, ends) {
                    Some(servers) => Some(servers.ideal_fct(message.size)),
                    None => self.ideal_paths.ideal_fct(ends, message.size, transport, stamps),
                }
            })?;
        }
        Ok(())
    }

    /// Returns the scope of a sample planned for an instant, which depends on the scenario alone.
    fn scope_at(&self, planned: Time) -> SampleScope {
        let is_last = planned.saturating_add(self.scenario.sample_every) > self.scenario.end;
        let is_due = !self.recorder.ports().is_large() || planned.since(self.surveyed) >= SURVEY_EVERY;
        if is_due || is_last || self.recorder.is_edge(planned) { SampleScope::All } else { SampleScope::Series }
    }

    fn sample(&mut self, at: Time, depth: SampleScope) -> Result<(), SimRunError> {
        self.report(depth);
        let flows: Vec<FlowSample> = self.ends.samples(&self.sim).collect();
        let hosts =
            |host: usize, class: Class| -> Option<BitRate> { self.sim.host(host).peer_rate(self.sim.now(), class) };
        let gauges = if self.scenario.shows_flow_gauges { self.ends.gauges(&self.sim) } else { Vec::new() };
        self.recorder.sample(at, depth, &self.reports, &flows, &gauges, hosts)?;
        self.progress = self.progress_of.update(at, &flows, &self.reports);
        self.report_progress();
        self.sample_lengths();
        self.update_live(at)
    }

    /// Lets the live control know of a sample, and schedules its changes.
    fn update_live(&mut self, at: Time) -> Result<(), SimRunError> {
        let Some(live) = &mut self.live else { return Ok(()) };
        self.recorder.flush()?;
        let record = self.recorder.so_far();
        let deadlock = record.deadlock().filter(|deadlock| deadlock.persists());
        let changes = live.after_sample(&LiveSample { at, deadlock: deadlock.map(|of| of.since) });
        for change in changes {
            assert!(change.at > at, "a change at {:?}, after the sample at {at:?}", change.at);
            let place = self.changes.partition_point(|other| other.at > change.at);
            self.changes.insert(place, change);
        }
        Ok(())
    }

    /// Updates the reports of all switches, or of those in the series and all pools.
    fn report(&mut self, depth: SampleScope) {
        for (switch, report) in self.reports.iter_mut().enumerate() {
            if depth == SampleScope::All || self.recorder.ports().shows(switch) {
                self.sim.update_report(switch, report);
            } else {
                report.pool = self.sim.shared(switch).mmu.pool_usage();
            }
        }
        if depth == SampleScope::All {
            self.surveyed = self.sim.now();
        }
    }

    /// Writes egress queue lengths to `qlen.txt`.
    fn sample_lengths(&mut self) {
        let Some(ns3) = &mut self.ns3 else { return };
        for port in self.recorder.ports().linked() {
            let (place, mmu) = (port.place, &self.sim.shared(port.place.switch).mmu);
            let length = |class| mmu.egress_length(QueueId::new(PortId(place.port as u16), class));
            let length = Bytes::new(Class::ALL.into_iter().map(length).sum());
            ns3.queue(self.nodes.switches[place.switch], place.port + 1, length);
        }
    }

    /// Drains after the scenario's end, until all sent data has arrived or no more will.
    fn drain(&mut self) -> Result<SimulationEnd, SimRunError> {
        // Frames that no flow waits for have also arrived after a few traversals of the longest link.
        let settling_time = self.scenario.longest_delay() * 4 + Span::from_micros(20);
        let drain_timeout = drain_time(self.scenario);
        let end = self.sim.now();
        let mut draining = Draining {
            end,
            hops_by_end: self.sim.packet_hops(),
            last_received: (end, self.received_by_hosts()),
            is_drained: false,
        };
        loop {
            match self.check_progress(&mut draining, settling_time, drain_timeout)? {
                ControlFlow::Continue(until) if self.advance(until)? => {}
                ControlFlow::Continue(_) => return Ok(SimulationEnd::Interruption),
                ControlFlow::Break(end_reason) => return Ok(end_reason),
            }
        }
    }

    /// Checks the progress of draining: returns the time of the next check, or the outcome.
    fn check_progress(
        &mut self,
        draining: &mut Draining,
        settling_time: Span,
        drain_timeout: Span,
    ) -> Result<ControlFlow<SimulationEnd, Time>, SimRunError> {
        let Draining { end, hops_by_end, last_received, is_drained } = draining;
        self.report(SampleScope::All);
        let now = self.sim.now();
        self.recorder.record_after_end(now, &self.reports)?;
        if self.recorder.is_deadlocked() {
            return Ok(ControlFlow::Break(SimulationEnd::Deadlock));
        }
        if self.expects == Expectation::Either && self.recorder.is_at_standstill() {
            return Ok(ControlFlow::Break(SimulationEnd::Standstill));
        }
        let is_empty = self.reports.iter().all(|report| report.conservation.held() == 0);
        let was_drained = std::mem::replace(is_drained, self.sim.is_finished() && is_empty);
        if *is_drained && was_drained {
            return Ok(ControlFlow::Break(SimulationEnd::Drained));
        }
        let by_now = self.received_by_hosts();
        if by_now > last_received.1 {
            *last_received = (now, by_now);
        }
        let is_slow = self.sim.packet_hops() - *hops_by_end <= *hops_by_end && now.since(*end) < DRAIN_MAX;
        // A message within a server takes a known time.
        let in_server = || self.sim.hosts().any(weir_nic::host::Host::has_server_messages);
        let is_receiving = now.since(last_received.0) < drain_timeout || in_server();
        if !*is_drained && now.since(*end) >= drain_timeout && !(is_slow && is_receiving) {
            return Ok(ControlFlow::Break(SimulationEnd::DrainTimeout));
        }
        let step = if *is_drained { settling_time } else { SURVEY_EVERY.max(self.scenario.sample_every) };
        Ok(ControlFlow::Continue(now + step))
    }

    /// Returns the number of packets that hosts have received, without flow control.
    fn received_by_hosts(&self) -> u64 {
        let host = |host: usize| {
            let counters = self.sim.host(host).counters();
            self.sim.host_frames(host)[1]
                - counters.pfc_frames
                - counters.credit_frames
                - counters.own_frames
                - counters.control_ignored
        };
        (0..self.scenario.hosts.len()).map(host).sum()
    }

    /// Closes the files and returns the summary.
    fn finish(mut self, end_reason: SimulationEnd) -> Result<(Summary, RunCost), SimRunError> {
        self.report(SampleScope::All);
        self.collect()?;
        self.record_unfinished()?;
        let ActiveRun { scenario, mut sim, recorder, ns3, reports, mut ends, measures, expects, .. } = self;
        let (ideal_paths, pauses) = (self.ideal_paths, self.pauses.unwrap_or_default());
        let now = sim.now();
        if let Some(ns3) = ns3 {
            ns3.finish(now)?;
        }
        let frames = frame_conservation::frames(&sim, &reports);
        debug_assert!(frames.is_ok(), "{frames:?}");
        let record = recorder.finish()?;
        let (sent, arrived) = ends.stats(&sim);
        let has_outages = !scenario.outages.is_empty();
        let duration = now.min(scenario.end).since(Time::ZERO);
        let mut failures: Vec<String> = frames.as_ref().err().cloned().into_iter().collect();
        failures.extend(end::failures(scenario, &sim, &reports, record.deadlock(), end_reason, expects));
        let nics: Vec<NicStats> = sim.hosts().map(|host| NicStats::read(host, now)).collect();
        let overflown = overflown_lossless(scenario, &nics);
        failures.extend(overflown.clone());
        if end_reason == SimulationEnd::DrainTimeout {
            failures.push(undrained(scenario, &sim, &reports, &measures));
        }
        let of_traffic = scenario.traffic.iter().zip(&measures).enumerate();
        let paths = PathTimes::new(scenario, &sim, &ideal_paths, &pauses);
        let traffic: Vec<TrafficSummary> = of_traffic
            .map(|(number, (plan, of))| TrafficSummary {
                repetitions: repetitions_with_paths(scenario, &sim, &paths, number),
                ..of.summary(plan, scenario.warm_up, started(&sim, number))
            })
            .collect();
        let mut notes = vec![match end_reason {
            SimulationEnd::Drained => {
                format!("all sent data had arrived {} after the end", now.since(scenario.end))
            }
            SimulationEnd::Deadlock => "frames held by the deadlock were not drained".to_owned(),
            SimulationEnd::Standstill => "frames held by the standstill were not drained".to_owned(),
            SimulationEnd::DrainTimeout | SimulationEnd::Interruption => "frames in flight were not drained".to_owned(),
        }];
        let repeated: u64 = sent.iter().map(|sent| sent.retransmitted).sum();
        if repeated > 0 {
            notes.push(format!("{repeated} frames of flows were retransmitted"));
        }
        let ended = RunResult {
            backend: "sim",
            reports: &reports,
            duration,
            host_links: (0..scenario.hosts.len())
                .map(|host| Some(host_stats(scenario, &sim, &reports, host)))
                .collect(),
            links: (0..scenario.links.len()).map(|link| Some(link_stats(scenario, &sim, &reports, link))).collect(),
            sent,
            arrived,
            lossless: dropped(scenario, &reports, true) == 0 && overflown.is_none(),
            nics,
            failures,
            notes,
        };
        let summary = record::summary(scenario, ended, &record);
        let outages = has_outages.then(|| end::outages(scenario, &sim, &reports));
        let llr = end::llr(&sim);
        let summary = Summary { time_dilation: 1, traffic, frames: frames.ok(), outages, llr, ..summary };
        let cost = RunCost {
            packet_hops: sim.packet_hops(),
            wakeups: sim.wakeups(),
            threads: sim.threads(),
            worker_cpu_time: sim.worker_cpu_time(),
        };
        Ok((summary, cost))
    }
}

/// Returns the results of a traffic's repetitions and their critical paths, if it is a graph.
fn repetitions_with_paths(
    scenario: &Scenario,
    sim: &Sim,
    paths: &PathTimes<'_>,
    traffic: usize,
) -> Vec<RepetitionSummary> {
    let plan = &scenario.traffic[traffic];
    let mut all = repetitions(scenario, plan, sim.repetitions(traffic));
    for (summary, steps) in all.iter_mut().zip(sim.critical_paths(traffic)) {
        summary.critical_path = steps.map(|steps| paths.summary(plan, &steps));
    }
    all
}

/// Returns the messages of a traffic that have started.
fn started(sim: &Sim, traffic: usize) -> &[Message] {
    let messages = sim.messages(traffic);
    &messages[..messages.partition_point(|message| message.start <= sim.now())]
}

/// Work of a run, and the CPU time of its worker threads.
#[derive(Clone, Copy, Debug)]
struct RunCost {
    packet_hops: u64,
    wakeups: u64,
    threads: usize,
    worker_cpu_time: Option<Duration>,
}

impl RunCost {
    /// Adds the calling thread's CPU time.
    fn into_speed(self, own: Option<Duration>) -> Speed {
        let cpu = own.zip(self.worker_cpu_time).map(|(own, workers)| own + workers);
        let per_second = |cpu: Duration| u128::from(self.packet_hops) * 1_000_000_000 / cpu.as_nanos().max(1);
        Speed {
            wall_ms: 0,
            cpu_ms: cpu.map(|cpu| cpu.as_millis() as u64),
            packet_hops: self.packet_hops,
            packet_hops_per_cpu_second: cpu.map(|cpu| per_second(cpu) as u64),
            wakeups: self.wakeups,
            threads: self.threads,
        }
    }
}

/// Returns the connection's ports in `fct.txt`.
fn connection_ports(traffic: usize, message: usize) -> [u16; 2] {
    /// First ports that ns-3 scripts use.
    const SOURCE_MIN: usize = 10_000;
    const DESTINATION_MIN: usize = 100;
    let source = SOURCE_MIN + message % (usize::from(u16::MAX) + 1 - SOURCE_MIN);
    [source as u16, (DESTINATION_MIN + traffic).min(usize::from(u16::MAX)) as u16]
}

/// Writes a frame that changes a pause to `pfc.txt`.
fn record_pause(
    ns3: &mut Ns3Files<RunFile>,
    nodes: &Ns3Nodes,
    scenario: &Scenario,
    recorder: &Recorder<'_>,
    (origin, place, arrives): (MessageOrigin, PortRef, Time),
    frame: &PfcFrame,
) {
    if scenario.switches[place.switch].ports[place.port].flow_control.message_kind() == MessageKind::Stages {
        return;
    }
    let port = |place: PortRef| (nodes.switches[place.switch], true, place.port + 1);
    let (node, is_switch, interface) = match (origin, recorder.ports().port(place).peer) {
        (MessageOrigin::Host, _) => port(place),
        (MessageOrigin::Port, Some(LinkPeer::Host(host))) => {
            let [node, interface] = nodes.hosts[host];
            (node, false, interface)
        }
        (MessageOrigin::Port, Some(LinkPeer::Port(peer))) => port(peer),
        (MessageOrigin::Port, None) => return,
    };
    for class in recorder.changes(origin, place, frame) {
        ns3.pauses().pause(arrives, node, is_switch, interface, frame.times[class.index()] > 0);
    }
}

fn link_name(scenario: &Scenario, link: LinkRef) -> String {
    match link {
        LinkRef::Between(link) => {
            let [one, other] = scenario.links[link].ends.map(|end| scenario.port_name(end));
            format!("link {one} - {other}")
        }
        LinkRef::ToHost(host) => format!("link to {}", scenario.hosts[host].name),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Ten times the longest wait: for a CC_Update, a credit message, or the replays of a lost frame.
    #[test]
    fn draining_waits_for_messages_and_replay() {
        let drained = |flow_control: &str, more: &str| {
            let text = format!(
                "[scenario]\nend = \"1ms\"\n[switch.classes]\npreset = \"roce\"\n[switch.pfc]\nreaction = \"0s\"\n\
                 [switch.buffer]\ncell_bytes = 64\npolicy = \"static\"\nheadroom = \"60KB\"\n\
                 [switch.port]\nflow_control = {flow_control}\n\
                 [topology]\nkind = \"single\"\nhosts = 2\nrate = \"100Gbps\"\ndelay = \"1us\"\nllr = true\n{more}"
            );
            let runs = weir_scenario::file::parse(Path::new("drain.toml"), &text);
            drain_time(&runs.unwrap_or_else(|errors| panic!("{}", errors.render(false))).remove(0).scenario)
        };
        assert_eq!(drained("\"pfc\"", ""), Span::from_millis(10));
        assert_eq!(drained("{ kind = \"uec-cbfc\", cc_period = \"250ms\" }", ""), Span::from_millis(2_500));
        assert_eq!(drained("{ kind = \"cbfc\", period = \"100ms\" }", ""), Span::from_millis(1_000));
        let llr = "[llr]\nreplay_timer = \"20ms\"\nreplay_count = 4\n";
        assert_eq!(drained("\"pfc\"", llr), Span::from_millis(1_000));
    }

    #[test]
    fn a_run_that_takes_more_memory_than_there_is_is_refused_with_both() {
        let text = "[scenario]\nend = \"1ms\"\n[switch.classes]\npreset = \"roce\"\n[switch.pfc]\nreaction = \"0s\"\n\
                    [topology]\nkind = \"fat-tree\"\nk = 24\nrate = \"100Gbps\"\ndelay = \"1us\"\n";
        let scenario = weir_scenario::file::parse(Path::new("tree.toml"), text).unwrap().remove(0).scenario;
        assert!(check_memory(None, &scenario).is_ok());
        assert!(check_memory(Some(Bytes::mb(4_000)), &scenario).is_ok());
        let message = check_memory(Some(Bytes::mb(50)), &scenario).unwrap_err().to_string();
        let needed = format_memory(CostEstimate::for_scenario(&scenario).memory);
        let expected =
            format!("a run of 720 switches and 3456 hosts takes about {needed} of memory, and 50 MB are free");
        assert!(message.starts_with(&expected), "{message}");
    }
}
