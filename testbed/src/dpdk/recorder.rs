//! The control thread's notebook: samples, events, completion times and the capture, as they come.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, BufWriter};
use std::sync::Arc;

use weir_flowctl::frame::PfcFrame;
use weir_flowctl::wire_bytes;
use weir_switch_core::Report;
use weir_switch_core::counters::DropReason;
use weir_switch_core::report::PortReport;
use weir_units::{Bytes, CLASSES, Class, Span, Time};

use super::board::Board;
use super::is_victim;
use super::messages::MessageRate;
use super::station::{Note, Reader};
use super::watched::Watched;
use crate::deadlock::{Deadlock, Detector, SwitchState};
use crate::run_dir::{
    CapturePort, CaptureWriter, EventKind, EventWriter, FctWriter, FlowSample, PoolSample, QueueSample, RunDir,
    RunDirError, SeriesColumns, SeriesWriter,
};
use crate::scenario::{Behind, PortPlace, Scenario};

type Out = BufWriter<File>;

/// Writes the files of a run while it runs.
pub(super) struct Recorder<'a> {
    scenario: &'a Scenario,
    board: Arc<Board>,
    readers: Vec<Reader>,
    series: SeriesWriter<Out>,
    events: EventWriter<Out>,
    fcts: FctWriter<Out>,
    capture: Option<CaptureWriter<Out>>,
    /// What each port's peer was last told of each class, a time or a stage, and the port's name.
    told: HashMap<PortPlace, (String, [u16; CLASSES])>,
    /// Drops at the sample before, by switch, port, class and reason.
    dropped: Vec<u64>,
    /// Up to where samples have been taken.
    sampled_to: Option<Time>,
    edges: Vec<Edge>,
    /// Window edges not passed yet, the next one last.
    edges_ahead: Vec<Time>,
    /// Of each queue of the series.
    watched: Vec<Watched>,
    /// Of each port, switch by switch.
    messages: Vec<MessageRate>,
    detector: Detector,
}

/// What is left of the samples.
#[derive(Debug)]
pub(super) struct Record {
    /// At the windows' edges.
    pub(super) edges: Vec<Edge>,
    /// Over the whole run, of each queue of the series.
    pub(super) watched: Vec<Watched>,
    /// Of each port, switch by switch.
    pub(super) messages: Vec<MessageRate>,
    /// The deadlock that persists, or else the first one there was.
    pub(super) deadlock: Option<Deadlock>,
}

/// What windows are measured from.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    /// When the sample was to be taken.
    pub(super) planned: Time,
    /// When it was.
    pub(super) at: Time,
    /// How far each flow was.
    pub(super) flows: Vec<FlowSample>,
    /// How often and for how long each port had paused its peer, over all classes, by switch and port.
    pub(super) pauses: Vec<Vec<(u64, Span)>>,
    /// The samples up to there, of each queue of the series.
    pub(super) watched: Vec<Watched>,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(
        scenario: &'a Scenario,
        run: &RunDir,
        board: Arc<Board>,
        readers: Vec<Reader>,
    ) -> Result<Recorder<'a>, RunDirError> {
        let columns = SeriesColumns {
            flows: scenario.flows.iter().map(|flow| flow.name.clone()).collect(),
            queues: queues(scenario).map(|(place, class)| (scenario.port_name(place), class)).collect(),
            pools: scenario.pool_names(),
        };
        let capture = scenario.capture.map(|plan| {
            let host = &scenario.hosts[plan.host];
            let port = &scenario.switches[host.switch].ports[host.port];
            let rate = port.rate.unwrap_or(host.nic.rate);
            let name = scenario.port_name(host.place());
            run.capture(&CapturePort { name, mac: port.mac.unwrap_or_default(), rate })
        });
        let edges: BTreeSet<Time> = scenario.windows.iter().flat_map(|window| [window.from, window.to]).collect();
        Ok(Recorder {
            scenario,
            board,
            readers,
            series: run.series(Time::ZERO, &columns)?,
            events: run.events()?,
            fcts: run.fcts()?,
            capture: capture.transpose()?,
            told: scenario.ports().map(|place| (place, (scenario.port_name(place), [0; CLASSES]))).collect(),
            dropped: vec![0; scenario.ports().count() * Class::ALL.len() * DropReason::ALL.len()],
            sampled_to: None,
            edges: Vec::new(),
            edges_ahead: edges.into_iter().rev().collect(),
            watched: queues(scenario).map(|_| Watched::default()).collect(),
            messages: scenario.ports().map(|_| MessageRate::default()).collect(),
            detector: Detector::of(scenario),
        })
    }

    /// When samples are to be taken: at regular times, and at the windows' edges.
    pub(super) fn schedule(&self) -> Vec<Time> {
        let (step, end) = (self.scenario.sample_every.as_picos().max(1), self.scenario.end.as_picos());
        let regular = (1..=end / step).map(|n| Time::from_picos(n * step));
        let all: BTreeSet<Time> = regular.chain(self.edges_ahead.iter().copied()).collect();
        all.into_iter().collect()
    }

    /// Whether a sample planned for `planned` is still to be taken: not if the one before came so late that it is past.
    pub(super) fn is_due(&self, planned: Time) -> bool {
        self.sampled_to.is_none_or(|sampled_to| sampled_to < planned)
    }

    /// Writes down what hosts and wires have noted.
    pub(super) fn collect(&mut self) -> io::Result<()> {
        for reader in &mut self.readers {
            while let Ok(note) = reader.notes.pop() {
                match note {
                    Note::Pfc(at, place, frame) => {
                        let (port, told) = self.told.get_mut(&place).expect("a port of the scenario");
                        let config = &self.scenario.switches[place.switch].ports[place.port];
                        note_frame(&mut self.events, at, port, told, &frame, config.flow_control.tells_stages())?;
                    }
                    Note::Done(completion) => {
                        let mut of_host = self.scenario.flows.iter().filter(|flow| Some(flow.from) == reader.host);
                        let own = of_host.nth(completion.flow);
                        self.fcts.write(own.map_or("", |flow| &flow.name), &completion)?;
                    }
                }
            }
            if let (Some(ring), Some(capture)) = (&mut reader.capture, &mut self.capture) {
                while let Some((at, direction, frame)) = ring.next() {
                    capture.write(at, direction, &frame)?;
                }
            }
        }
        Ok(())
    }

    /// Takes a sample: the switches' reports as of `at`, and the hosts' counters now.
    pub(super) fn sample(&mut self, at: Time, reports: &[Report]) -> io::Result<()> {
        let flows: Vec<FlowSample> = self.board.flows().collect();
        let samples: Vec<QueueSample> = queues(self.scenario)
            .map(|(place, class)| {
                let port = &reports[place.switch].ports[place.port];
                let peer_rate = match self.scenario.behind(place) {
                    Some(Behind::Host(host)) => self.board.rate(host, class),
                    Some(Behind::Port(peer)) => reports[peer.switch].ports[peer.port].classes[class.index()].rate_rx,
                    None => None,
                };
                let class = &port.classes[class.index()];
                let ingress = &class.ingress;
                // Counted without FCS.
                let received = Bytes::new(class.rx_bytes) + wire_bytes(0) * class.rx_frames;
                QueueSample {
                    received,
                    ingress: ingress.private + ingress.shared + ingress.headroom,
                    headroom: ingress.headroom,
                    threshold: Some(ingress.threshold),
                    egress: class.egress,
                    paused: ingress.off,
                    paused_for: class.paused_tx,
                    peer_rate,
                    victim: is_victim(port),
                    headroom_estimate: ingress.observation.headroom_estimate,
                }
            })
            .collect();
        let pools: Vec<PoolSample> = reports
            .iter()
            .map(|report| PoolSample { used: report.pool.used, capacity: report.pool.capacity })
            .collect();
        self.series.write(at, &flows, &samples, &pools)?;
        self.note_drops(at, reports)?;
        for (place, messages) in self.scenario.ports().zip(&mut self.messages) {
            let sent = reports[place.switch].ports[place.port].control_tx;
            messages.note(at, sent.pfc + sent.pause + sent.credit);
        }
        self.look_for_deadlock(at, reports)?;
        self.watched.iter_mut().zip(&samples).for_each(|(watched, sample)| watched.note(sample));
        self.sampled_to = Some(at);
        while let Some(planned) = self.edges_ahead.pop_if(|edge| *edge <= at) {
            let of_port = |port: &PortReport| {
                let classes = port.classes.iter();
                (classes.clone().map(|class| class.pauses_tx).sum(), classes.map(|class| class.paused_tx).sum())
            };
            let pauses = reports.iter().map(|report| report.ports.iter().map(of_port).collect());
            let watched = self.watched.clone();
            self.edges.push(Edge { planned, at, flows: flows.clone(), pauses: pauses.collect(), watched });
        }
        Ok(())
    }

    fn note_drops(&mut self, at: Time, reports: &[Report]) -> io::Result<()> {
        let mut before = self.dropped.iter_mut();
        for place in self.scenario.ports() {
            let port = &reports[place.switch].ports[place.port];
            for (class, counters) in Class::ALL.into_iter().zip(&port.classes) {
                for reason in DropReason::ALL {
                    let now = counters.dropped(reason);
                    let before = before.next().expect("a counter for each port, class and reason");
                    if now > *before {
                        let kind = EventKind::Drop { reason: reason.name(), frames: now - *before };
                        self.events.write(at, &self.scenario.port_name(place), Some(class), kind)?;
                    }
                    *before = now;
                }
            }
        }
        Ok(())
    }

    /// Shows the switches as of `at` to the detector.
    pub(super) fn look_for_deadlock(&mut self, at: Time, reports: &[Report]) -> io::Result<()> {
        let states: Vec<SwitchState> = reports.iter().map(SwitchState::of).collect();
        if let Some(deadlock) = self.detector.observe(at, &states) {
            let cycle = deadlock.cycle_in(self.scenario);
            self.events.write(at, "", None, EventKind::Deadlock(&cycle))?;
        }
        Ok(())
    }

    /// Whether queues of the fabric wait for each other without end.
    pub(super) fn is_deadlocked(&self) -> bool {
        self.detector.deadlock().is_some_and(Deadlock::persists)
    }

    /// Ends the files, and returns what is left of the samples.
    pub(super) fn finish(self) -> io::Result<Record> {
        self.series.finish()?;
        self.events.finish()?;
        self.fcts.finish()?;
        if let Some(capture) = self.capture {
            capture.finish()?;
        }
        let deadlock = self.detector.deadlock().cloned();
        Ok(Record { edges: self.edges, watched: self.watched, messages: self.messages, deadlock })
    }
}

/// The queues that a series shows: the lossless classes of each port that has a host or a link, and of those that copy such a
/// port.
pub(super) fn queues(scenario: &Scenario) -> impl Iterator<Item = (PortPlace, Class)> + '_ {
    let is_linked = |place: &PortPlace| {
        let real = scenario.switches[place.switch].real_port(place.port);
        scenario.behind(PortPlace { port: real, ..*place }).is_some()
    };
    scenario.ports().filter(is_linked).flat_map(|place| {
        Class::in_mask(scenario.switches[place.switch].classes.lossless).map(move |class| (place, class))
    })
}

/// Notes a frame that tells pauses, or stages of GFC where `is_staged`. Of a stage told again there is nothing to say.
fn note_frame(
    events: &mut EventWriter<Out>,
    at: Time,
    port: &str,
    told: &mut [u16; CLASSES],
    frame: &PfcFrame,
    is_staged: bool,
) -> io::Result<()> {
    for class in Class::in_mask(frame.enabled) {
        let time = frame.times[class.index()];
        let before = std::mem::replace(&mut told[class.index()], time);
        let kind = match (time, before) {
            (stage, before) if is_staged && stage == before => continue,
            (stage, _) if is_staged => EventKind::StageSent(stage),
            (0, _) => EventKind::ResumeSent,
            (quanta, 0) => EventKind::PauseSent(quanta),
            (quanta, _) => EventKind::PauseRefreshed(quanta),
        };
        events.write(at, port, Some(class), kind)?;
    }
    Ok(())
}
