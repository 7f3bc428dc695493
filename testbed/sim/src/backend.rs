//! Runs a scenario in virtual time and leaves a run directory.
//!
//! After the scenario's end no message starts, and the run goes on until all that was sent has arrived. It is given up when no
//! host receives anything for as long as the scenario ran, and at least ten times the longest that anything waits for: a pause,
//! a retransmission timeout, or the delay of a link; or when that time is over and as many frames have been put on links as
//! before the end; or after 10 s. Then every frame must be accounted for.

mod checkpoint;
mod end;
mod ends;
mod outages;
mod words;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_flowctl::Tells;
use weir_results::measure::{MessageMeasures, Ways};
use weir_results::record::{
    self, Depth, Ended, NicWords, Progress, ProgressOf, Recorder, Teller, dropped, overflown_lossless, write_configs,
};
use weir_results::run_dir::{
    FctRow, FlowSample, Ns3Files, Ns3Message, Ns3Nodes, RunDir, RunDirError, RunFile, Speed, Summary, TrafficSummary,
};
use weir_scenario::file::Expectation;
use weir_scenario::workload::Message;
use weir_scenario::{AnyLink, Behind, PortPlace, Scenario};
use weir_switch_core::Report;
use weir_units::archive::Value;
use weir_units::{BitRate, Bytes, Class, PortId, QueueId, Span, Time};
use weir_wire::mac_control::{ControlFrame, PfcFrame};

use super::crew::cpu_time;
use super::forecast::{Forecast, free_memory, memory_shown};
use super::network::Told;
use super::{Done, Sent, Sim, SimError, Threads, balance};
use checkpoint::{Checkpoints, Identity};
use end::{CameTo, drain_time, undrained, until_end};
use ends::FlowEnds;
use outages::Outages;
use words::{host_words, link_words};

pub use checkpoint::CheckpointError;

/// Runs scenarios in virtual time.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimBackend {
    /// The expected outcome of the run; any other is a failure.
    pub expects: Expectation,
    /// Whether to write [`Ns3Files`] too.
    pub ns3_files: bool,
    /// How many threads run it.
    pub threads: Threads,
    /// How often it writes a checkpoint into the run's directory, and when it is interrupted; none if not at all.
    pub checkpoint_every: Option<Duration>,
    /// The program that runs it, with its version: one resumes its own checkpoints alone.
    pub program: &'static str,
}

/// Why a scenario does not run.
#[derive(Debug, thiserror::Error)]
pub enum SimRunError {
    /// The scenario can't be run in virtual time.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// The machine has not the memory.
    #[error(
        "a run of {switches} switches and {hosts} hosts takes about {} of memory, and {} are free: take a smaller fabric, or a machine with more",
        memory_shown(*.needed), memory_shown(*.free)
    )]
    Memory {
        /// How many switches it has.
        switches: usize,
        /// How many hosts.
        hosts: usize,
        /// What it takes,
        needed: Bytes,
        /// and what there is.
        free: Bytes,
    },
    /// There can be no checkpoint, or not this one.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The results can't be written.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// A file of the results can't be written.
    #[error("the results can't be written: {0}")]
    Write(#[from] std::io::Error),
}

/// All switches of a large fabric are looked at no more often than this; those that the series shows are at each sample.
const SURVEY_EVERY: Span = Span::from_micros(250);
/// How long one stretch of virtual time may keep the machine, before progress is told and it is asked whether to stop.
const STRETCH: [Duration; 2] = [Duration::from_millis(40), Duration::from_millis(160)];
/// A run drains for this long at most.
const DRAIN_MAX: Span = Span::from_secs(10);

impl SimBackend {
    /// Runs a scenario and writes its results; returns them too. `observe` is told how it goes now and then. When `stop` becomes
    /// true the run ends there, and says so in its results. Nothing is begun that the machine's memory can't hold.
    ///
    /// In a directory that [is resumed](RunDir::resume) the run goes on from its checkpoint, which is taken away when it has ended.
    pub fn run(
        &self,
        scenario: &Scenario,
        run: RunDir,
        observe: &mut dyn FnMut(&Progress),
        stop: &AtomicBool,
    ) -> Result<Summary, SimRunError> {
        let clock = (Instant::now(), cpu_time());
        let scenario = &until_end(scenario);
        refuse_more_than(free_memory(), scenario)?;
        let identity = Identity::of(self, scenario);
        let resumed = if run.is_resumed() { Some(identity.read(&run)?) } else { None };
        let mut sim = Sim::new(scenario)?;
        sim.keep_told();
        sim.set_threads(self.threads);
        write_configs(scenario, &run)?;
        let ns3 = if self.ns3_files { Some(run.ns3_files()?) } else { None };
        let recorder = Recorder::new(scenario, &run)?;
        let mut running = Running {
            ends: FlowEnds::of(scenario),
            outages: Outages::of(scenario),
            ways: Ways::of(scenario),
            measures: vec![MessageMeasures::new(); scenario.traffic.len()],
            reports: sim.reports(),
            surveyed: Time::ZERO,
            stretch: scenario.end.since(Time::ZERO).divided_by(1_000).max(Span::from_nanos(1)),
            progress: Progress::default(),
            progress_of: ProgressOf::default(),
            scenario,
            sim,
            recorder,
            ns3,
            nodes: Ns3Nodes::of(
                scenario.hosts.iter().map(|host| host.name.as_str()),
                scenario.switches.iter().map(|switch| switch.name.as_str()),
            ),
            observe,
            stop,
            run: &run,
            course: Course::default(),
            checkpoints: Checkpoints::new(self.checkpoint_every, identity),
        };
        let schedule = running.recorder.schedule();
        match resumed {
            Some(payload) => running.resume(payload)?,
            None => running.refuse_what_has_no_checkpoint()?,
        }
        let came_to = running.conduct(&schedule)?;
        let written = running.checkpoints.written();
        let (summary, speed) = running.finish(came_to, self.expects)?;
        run.write_speed(&Speed {
            wall_ms: clock.0.elapsed().as_millis() as u64,
            checkpoints: written,
            ..speed.taking(cpu_time().zip(clock.1).map(|(now, before)| now.saturating_sub(before)))
        })?;
        let path = run.finish(&summary)?;
        if came_to != CameTo::Interruption {
            RunDir::remove_checkpoint(&path)?;
        }
        Ok(summary)
    }
}

/// Refuses a scenario that takes more memory than there is, where that is known.
fn refuse_more_than(free: Option<Bytes>, scenario: &Scenario) -> Result<(), SimRunError> {
    let needed = Forecast::of(scenario).memory;
    match free.filter(|free| *free < needed) {
        None => Ok(()),
        Some(free) => {
            Err(SimRunError::Memory { switches: scenario.switches.len(), hosts: scenario.hosts.len(), needed, free })
        }
    }
}

/// A run under way.
struct Running<'a> {
    scenario: &'a Scenario,
    sim: Sim,
    recorder: Recorder<'a>,
    ns3: Option<Ns3Files<RunFile>>,
    nodes: Ns3Nodes,
    ends: FlowEnds,
    outages: Outages,
    ways: Ways<'a>,
    /// The measures of messages, traffic by traffic.
    measures: Vec<MessageMeasures>,
    /// The last report of each switch.
    reports: Vec<Report>,
    /// When all switches were last looked at.
    surveyed: Time,
    /// How much virtual time is taken at once.
    stretch: Span,
    progress: Progress,
    progress_of: ProgressOf,
    observe: &'a mut dyn FnMut(&Progress),
    stop: &'a AtomicBool,
    run: &'a RunDir,
    course: Course,
    checkpoints: Checkpoints,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, Value)]
enum Course {
    /// To the sample of this number, of those that are planned.
    Sampling(usize),
    /// To the scenario's end.
    Ending,
    Draining(Draining),
}

/// What a run goes by that drains.
#[derive(Clone, Copy, Debug, Value)]
struct Draining {
    end: Time,
    hops_by_end: u64,
    /// When hosts last received a packet, and how many they had then.
    heard: (Time, u64),
    at_rest: bool,
    /// Up to where it goes on before it is looked at again; none if it is looked at now.
    until: Option<Time>,
}

impl Default for Course {
    fn default() -> Course {
        Course::Sampling(0)
    }
}

impl Running<'_> {
    /// From where it stands until nothing is left to do.
    fn conduct(&mut self, schedule: &[Time]) -> Result<CameTo, SimRunError> {
        while let Course::Sampling(number) = self.course {
            let Some(planned) = schedule.get(number).copied() else {
                self.course = Course::Ending;
                break;
            };
            if !self.advance(planned)? {
                // After the checkpoint: a run that goes on has no such sample.
                if self.recorder.is_due(self.sim.now()) {
                    self.sample(self.sim.now(), Depth::All)?;
                }
                return Ok(CameTo::Interruption);
            }
            if self.recorder.is_due(planned) {
                self.sample(planned, self.depth_at(planned))?;
            }
            self.course = Course::Sampling(number + 1);
        }
        let draining = match self.course {
            Course::Draining(draining) => draining,
            Course::Sampling(_) | Course::Ending => {
                if !self.advance(self.scenario.end)? {
                    return Ok(CameTo::Interruption);
                }
                let (end, hops_by_end) = (self.sim.now(), self.sim.packet_hops());
                Draining { end, hops_by_end, heard: (end, self.heard_by_hosts()), at_rest: false, until: None }
            }
        };
        self.drain(draining)
    }

    /// Goes on to an instant, with outages on the way. Returns whether it got there.
    fn advance(&mut self, until: Time) -> Result<bool, SimRunError> {
        loop {
            if self.outages.next() <= self.sim.now() {
                for (link, is_up) in self.outages.apply(self.scenario, &mut self.sim) {
                    let text = format!("{} {}", link_name(self.scenario, link), if is_up { "mended" } else { "cut" });
                    self.recorder.note_mark(self.sim.now(), &text)?;
                }
                if self.outages.reroute(&mut self.sim) {
                    self.recorder.note_mark(self.sim.now(), "all switches know the ways")?;
                }
            }
            let stops = self.stop.load(Ordering::Relaxed);
            if self.checkpoints.is_due(stops) {
                self.write_checkpoint()?;
            }
            if stops {
                return Ok(false);
            }
            let now = self.sim.now();
            // Also at the instant where it stands: what happens there may not have happened yet.
            let next = until.min(self.outages.next()).min(now.saturating_add(self.stretch));
            let before = Instant::now();
            self.sim.run_until(next);
            self.collect()?;
            let took = before.elapsed();
            if took < STRETCH[0] && next.since(now) == self.stretch {
                self.stretch = self.stretch * 2;
            } else if took > STRETCH[1] {
                self.stretch = self.stretch.divided_by(2).max(Span::from_nanos(1));
            }
            if took > STRETCH[0] {
                self.tell_progress();
            }
            if next == until && self.outages.next() > until {
                return Ok(true);
            }
        }
    }

    fn tell_progress(&mut self) {
        self.progress.now = self.sim.now();
        self.progress.packet_hops = self.sim.packet_hops();
        self.progress.messages_done = self.measures.iter().map(MessageMeasures::completed).sum();
        (self.observe)(&self.progress);
    }

    /// Writes down what has happened since the last time.
    fn collect(&mut self) -> Result<(), SimRunError> {
        let Running { scenario, sim, recorder, ns3, nodes, .. } = self;
        for told in sim.drain_told() {
            let ControlFrame::Pfc(frame) = told.frame else { continue };
            if let Some(ns3) = ns3 {
                note_pause(ns3, nodes, scenario, recorder, &told, &frame);
            }
            recorder.note_told(told.at, told.by, told.place, &frame)?;
        }
        let done: Vec<Done> = self.sim.drain_completions().collect();
        for done in &done {
            self.note_done(done)?;
        }
        if let Some(ns3) = &mut self.ns3 {
            ns3.advance(self.sim.now())?;
        }
        Ok(())
    }

    fn note_done(&mut self, done: &Done) -> Result<(), SimRunError> {
        let scenario = self.scenario;
        let (flow, [from, to], (transport, control), ports) = match done.of {
            Sent::Flow(n) => {
                let place = self.ends.sends[done.host][n];
                let plan = &scenario.flows[place];
                let (first, message) = (scenario.traffic.len() + place, self.ends.note_message(place));
                let carried_by = (&plan.config.transport, &plan.config.congestion_control);
                (&plan.name, [plan.from, plan.to], carried_by, numbers(first, message))
            }
            Sent::Message(traffic, message) => {
                let plan = &scenario.traffic[traffic as usize];
                let ends = &self.sim.messages(traffic as usize)[message as usize];
                let ends = [ends.from, ends.to].map(|host| host as usize);
                let carried_by = (&plan.transport, &plan.congestion_control);
                let [source, destination] = numbers(traffic as usize, message as usize);
                (&plan.name, ends, carried_by, [source, plan.dport.unwrap_or(destination)])
            }
        };
        let ideal = self.ways.ideal_fct([from, to], done.size, transport, control.stamps());
        if let Sent::Message(traffic, message) = done.of {
            let measures = &mut self.measures[traffic as usize];
            measures.note(message as usize, scenario.warm_up, done.released, done.size, done.fct, ideal);
        }
        self.recorder.note_message(&FctRow {
            flow,
            from: &scenario.hosts[from].name,
            to: &scenario.hosts[to].name,
            released: done.released,
            size: done.size,
            fct: Some(done.fct),
            ideal,
        })?;
        if let Some(ns3) = &mut self.ns3 {
            let (start, standalone) = (done.released, ideal.unwrap_or(done.fct));
            let [from, to] = [from, to].map(|host| self.nodes.hosts[host]);
            ns3.message(&Ns3Message { from, to, ports, size: done.size, start, fct: done.fct, standalone })?;
        }
        Ok(())
    }

    /// Writes down the traffic's messages that have started and were not completed.
    fn note_unfinished(&mut self) -> Result<(), SimRunError> {
        for (number, (plan, measures)) in self.scenario.traffic.iter().zip(&self.measures).enumerate() {
            let unfinished = measures.unfinished(started(&self.sim, number));
            let (transport, stamps) = (&plan.transport, plan.congestion_control.stamps());
            self.recorder.note_unfinished(plan, unfinished, |message| {
                let ends = [message.from, message.to].map(|host| host as usize);
                self.ways.ideal_fct(ends, message.size, transport, stamps)
            })?;
        }
        Ok(())
    }

    /// How much a sample that is planned for an instant looks at. It hangs on the scenario alone, and not on when the run is stopped.
    fn depth_at(&self, planned: Time) -> Depth {
        let is_last = planned.saturating_add(self.scenario.sample_every) > self.scenario.end;
        let is_due = !self.recorder.ports().is_large() || planned.since(self.surveyed) >= SURVEY_EVERY;
        if is_due || is_last || self.recorder.is_edge(planned) { Depth::All } else { Depth::Series }
    }

    fn sample(&mut self, at: Time, depth: Depth) -> Result<(), SimRunError> {
        self.report(depth);
        let flows: Vec<FlowSample> = self.ends.samples(&self.sim).collect();
        let hosts =
            |host: usize, class: Class| -> Option<BitRate> { self.sim.host(host).peer_rate(self.sim.now(), class) };
        let gauges = if self.scenario.shows_flow_gauges { self.ends.gauges(&self.sim) } else { Vec::new() };
        self.recorder.sample(at, depth, &self.reports, &flows, &gauges, hosts)?;
        self.progress = self.progress_of.at(at, &flows, &self.reports);
        self.tell_progress();
        self.sample_lengths();
        Ok(())
    }

    /// Has switches report: all, or those that the series shows, and pools.
    fn report(&mut self, depth: Depth) {
        for (switch, report) in self.reports.iter_mut().enumerate() {
            if depth == Depth::All || self.recorder.ports().shows(switch) {
                *report = self.sim.report(switch);
            } else {
                report.pool = self.sim.shared(switch).mmu.pool_use();
            }
        }
        if depth == Depth::All {
            self.surveyed = self.sim.now();
        }
    }

    /// Egress queues, for `qlen.txt`.
    fn sample_lengths(&mut self) {
        let Some(ns3) = &mut self.ns3 else { return };
        for port in self.recorder.ports().linked() {
            let (place, mmu) = (port.place, &self.sim.shared(port.place.switch).mmu);
            let length = |class| mmu.egress_length(QueueId::new(PortId(place.port as u16), class));
            let length = Bytes::new(Class::ALL.into_iter().map(length).sum());
            ns3.queue(self.nodes.switches[place.switch], place.port + 1, length);
        }
    }

    /// Goes on after the scenario's end, until all has arrived or nothing more will.
    fn drain(&mut self, mut draining: Draining) -> Result<CameTo, SimRunError> {
        // Frames that nobody waits for any more are at their end, too, when each has had its time on all links.
        let settle = self.scenario.longest_delay() * 4 + Span::from_micros(20);
        let patience = drain_time(self.scenario);
        loop {
            let until = match draining.until {
                Some(until) => until,
                None => match self.look(&mut draining, settle, patience)? {
                    ControlFlow::Continue(until) => until,
                    ControlFlow::Break(came_to) => return Ok(came_to),
                },
            };
            draining.until = Some(until);
            self.course = Course::Draining(draining);
            if !self.advance(until)? {
                return Ok(CameTo::Interruption);
            }
            draining.until = None;
        }
    }

    /// Looks how a run stands that drains: up to where it goes on, or what it has come to.
    fn look(
        &mut self,
        draining: &mut Draining,
        settle: Span,
        patience: Span,
    ) -> Result<ControlFlow<CameTo, Time>, SimRunError> {
        let Draining { end, hops_by_end, heard, at_rest, .. } = draining;
        self.report(Depth::All);
        let now = self.sim.now();
        self.recorder.note_after_end(now, &self.reports)?;
        if self.recorder.is_deadlocked() {
            return Ok(ControlFlow::Break(CameTo::Deadlock));
        }
        let is_empty = self.reports.iter().all(|report| report.balance.held() == 0);
        let was_at_rest = std::mem::replace(at_rest, self.sim.is_finished() && is_empty);
        if *at_rest && was_at_rest {
            return Ok(ControlFlow::Break(CameTo::Rest));
        }
        let by_now = self.heard_by_hosts();
        if by_now > heard.1 {
            *heard = (now, by_now);
        }
        let is_slow = self.sim.packet_hops() - *hops_by_end <= *hops_by_end && now.since(*end) < DRAIN_MAX;
        let has_patience = now.since(heard.0) < patience;
        if now.since(*end) >= patience && !(is_slow && has_patience) {
            return Ok(ControlFlow::Break(CameTo::Bound));
        }
        let step = if *at_rest { settle } else { SURVEY_EVERY.max(self.scenario.sample_every) };
        Ok(ControlFlow::Continue(now + step))
    }

    /// Packets that hosts have received, flow control aside.
    fn heard_by_hosts(&self) -> u64 {
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

    /// Ends the files, and puts the summary together.
    fn finish(mut self, came_to: CameTo, expects: Expectation) -> Result<(Summary, Work), SimRunError> {
        self.report(Depth::All);
        self.collect()?;
        self.note_unfinished()?;
        let Running { scenario, mut sim, recorder, ns3, reports, mut ends, measures, .. } = self;
        let now = sim.now();
        if let Some(ns3) = ns3 {
            ns3.finish(now)?;
        }
        let frames = balance::frames(&sim, &reports);
        debug_assert!(frames.is_ok(), "{frames:?}");
        let record = recorder.finish()?;
        let (sent, arrived) = ends.stats(&sim);
        let has_outages = !scenario.outages.is_empty();
        let duration = now.min(scenario.end).since(Time::ZERO);
        let mut failures: Vec<String> = frames.as_ref().err().cloned().into_iter().collect();
        failures.extend(end::failures(scenario, &sim, &reports, record.deadlock(), came_to, expects));
        let nics: Vec<NicWords> = sim.hosts().map(|host| NicWords::of(host, now)).collect();
        let overflown = overflown_lossless(scenario, &nics);
        failures.extend(overflown.clone());
        if came_to == CameTo::Bound {
            failures.push(undrained(scenario, &sim, &reports, &measures));
        }
        let of_traffic = scenario.traffic.iter().zip(&measures).enumerate();
        let traffic: Vec<TrafficSummary> =
            of_traffic.map(|(number, (plan, of))| of.summary(plan, scenario.warm_up, started(&sim, number))).collect();
        let mut notes = vec![match came_to {
            CameTo::Rest => format!("all that was sent had arrived {} after the end", now.since(scenario.end)),
            CameTo::Deadlock => "what the deadlock holds was left where it is".to_owned(),
            CameTo::Bound | CameTo::Interruption => "what was under way was left where it is".to_owned(),
        }];
        let repeated: u64 = sent.iter().map(|sent| sent.retransmitted).sum();
        if repeated > 0 {
            notes.push(format!("{repeated} frames of flows were sent again"));
        }
        let ended = Ended {
            backend: "sim",
            reports: &reports,
            duration,
            host_links: (0..scenario.hosts.len())
                .map(|host| Some(host_words(scenario, &sim, &reports, host)))
                .collect(),
            links: (0..scenario.links.len()).map(|link| Some(link_words(scenario, &sim, &reports, link))).collect(),
            sent,
            arrived,
            lossless: dropped(scenario, &reports, true, has_outages) == 0 && overflown.is_none(),
            nics,
            failures,
            notes,
        };
        let summary = record::summary(scenario, ended, &record);
        let summary = Summary { time_dilation: 1, traffic, frames: frames.ok(), ..summary };
        let work = Work {
            packet_hops: sim.packet_hops(),
            wakeups: sim.wakeups(),
            threads: sim.threads(),
            crew: sim.crew_time(),
        };
        Ok((summary, work))
    }
}

/// The messages of a traffic that have started.
fn started(sim: &Sim, traffic: usize) -> &[Message] {
    let messages = sim.messages(traffic);
    &messages[..messages.partition_point(|message| message.start <= sim.now())]
}

/// What a run had to do, and who did it beside this thread.
#[derive(Clone, Copy, Debug)]
struct Work {
    packet_hops: u64,
    wakeups: u64,
    threads: usize,
    crew: Option<Duration>,
}

impl Work {
    /// With the time that this thread took.
    fn taking(self, own: Option<Duration>) -> Speed {
        let cpu = own.zip(self.crew).map(|(own, crew)| own + crew);
        let per_second = |cpu: Duration| u128::from(self.packet_hops) * 1_000_000_000 / cpu.as_nanos().max(1);
        Speed {
            wall_ms: 0,
            cpu_ms: cpu.map(|cpu| cpu.as_millis() as u64),
            packet_hops: self.packet_hops,
            packet_hops_per_cpu_second: cpu.map(|cpu| per_second(cpu) as u64),
            wakeups: self.wakeups,
            threads: self.threads,
            checkpoints: None,
        }
    }
}

/// The connection's numbers in `fct.txt`.
fn numbers(traffic: usize, message: usize) -> [u16; 2] {
    /// The first that ns-3 scripts use.
    const SOURCE_MIN: usize = 10_000;
    const DESTINATION_MIN: usize = 100;
    let source = SOURCE_MIN + message % (usize::from(u16::MAX) + 1 - SOURCE_MIN);
    [source as u16, (DESTINATION_MIN + traffic).min(usize::from(u16::MAX)) as u16]
}

/// Notes a frame that changes a pause, for `pfc.txt`.
fn note_pause(
    ns3: &mut Ns3Files<RunFile>,
    nodes: &Ns3Nodes,
    scenario: &Scenario,
    recorder: &Recorder<'_>,
    told: &Told,
    frame: &PfcFrame,
) {
    let (by, place) = (told.by, told.place);
    if scenario.switches[place.switch].ports[place.port].flow_control.tells() == Tells::Stages {
        return;
    }
    let port = |place: PortPlace| (nodes.switches[place.switch], true, place.port + 1);
    let (node, is_switch, interface) = match (by, recorder.ports().at(place).behind) {
        (Teller::Host, _) => port(place),
        (Teller::Port, Some(Behind::Host(host))) => (nodes.hosts[host], false, 1),
        (Teller::Port, Some(Behind::Port(peer))) => port(peer),
        (Teller::Port, None) => return,
    };
    for class in recorder.changes(by, place, frame) {
        ns3.pauses().pause(told.arrives, node, is_switch, interface, frame.times[class.index()] > 0);
    }
}

fn link_name(scenario: &Scenario, link: AnyLink) -> String {
    match link {
        AnyLink::Between(link) => {
            let [one, other] = scenario.links[link].ends.map(|end| scenario.port_name(end));
            format!("link {one} - {other}")
        }
        AnyLink::ToHost(host) => format!("link to {}", scenario.hosts[host].name),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_run_that_takes_more_memory_than_there_is_is_refused_with_both() {
        let text = "[scenario]\nend = \"1ms\"\n[switch.classes]\npreset = \"roce\"\n[switch.pfc]\nreaction = \"0s\"\n\
                    [topology]\nkind = \"fat-tree\"\nk = 24\nrate = \"100Gbps\"\ndelay = \"1us\"\n";
        let scenario = weir_scenario::file::parse(Path::new("tree.toml"), text).unwrap().remove(0).scenario;
        assert!(refuse_more_than(None, &scenario).is_ok());
        assert!(refuse_more_than(Some(Bytes::mb(4_000)), &scenario).is_ok());
        let told = refuse_more_than(Some(Bytes::mb(200)), &scenario).unwrap_err().to_string();
        let expected = "a run of 720 switches and 3456 hosts takes about 215 MB of memory, and 200 MB are free";
        assert!(told.starts_with(expected), "{told}");
    }
}
