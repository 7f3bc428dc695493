//! Record of `weir run`, in a run directory: samples, flow-control frames, events, captures, and the results so far.
//!
//! The control thread writes it. Lcores count, as they do without a record, and copy flow-control frames into rings. A file that can't be
//! written, as on a full disk, is reported once. The switch goes on, and the record resumes after SIGHUP.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use weir_config::SwitchConfig;
use weir_dpdk_driver::{DroppedFrames, PortTap, TapPlan, TappedFrame};
use weir_experiments::Failure;
use weir_experiments::experiment::directory;
use weir_experiments::real_frames::RunArguments;
use weir_flowctl::MessageKind;
use weir_results::record::{self, MessageOrigin, Recorder, RunResult, SampleScope, dropped};
use weir_results::run_dir::{CapturePort, CaptureWriter, EventKind, Ns3Pauses, RunDir, RunFile, Summary};
use weir_scenario::{PortRef, Scenario};
use weir_switch_core::{Direction, Report};
use weir_units::{Class, PortId, Span, Time};
use weir_wire::mac_control::{ControlFrame, PfcFrame};

/// Drops between two samples that are recorded one by one.
const DROPS_MAX: u32 = 1_024;

/// Ports to be captured, and their frames.
pub(crate) struct CaptureSelection {
    ports: BTreeSet<PortRef>,
    data_frames: u32,
}

/// Writes the record while the switches run.
pub(crate) struct Recording<'a> {
    scenario: &'a Scenario,
    run: RunDir,
    recorder: Recorder<'a>,
    pauses: Ns3Pauses<RunFile>,
    captures: Vec<(PortRef, CaptureWriter<RunFile>)>,
    taps: Vec<PortTap>,
    dropped: Vec<DroppedFrames>,
    /// Number of drops that may still be recorded one by one before the next sample.
    drops_left: u32,
    /// Start on the switches' clock.
    began: Time,
    /// True after a file could not be written: nothing is written until the files are opened anew.
    is_broken: bool,
    /// Samples, events and frames that were not written for that.
    missed: u64,
    failures: Vec<String>,
    snapshots: u32,
}

impl CaptureSelection {
    /// The ports that the arguments name.
    ///
    /// # Errors
    /// There is no such port, or it is a clone.
    pub(crate) fn new(arguments: &RunArguments, scenario: &Scenario) -> Result<CaptureSelection, Failure> {
        let real = |place: &PortRef| scenario.switches[place.switch].ports[place.port].clone_of().is_none();
        let ports: Vec<PortRef> = scenario.ports().filter(real).collect();
        let names: Vec<String> = ports.iter().map(|place| scenario.port_name(*place)).collect();
        let find = |name: &String| {
            let found = names.iter().position(|port| port == name).map(|index| ports[index]);
            found.ok_or_else(|| {
                let known = names.join(", ");
                Failure::Argument(format!("--capture: no port with a device is named `{name}`; name one of: {known}"))
            })
        };
        let ports = arguments.capture.iter().map(find).collect::<Result<_, _>>()?;
        Ok(CaptureSelection { ports, data_frames: arguments.capture_frames })
    }

    /// The tap of a port: its data frames are copied if it is captured, flow-control frames always, for the record has them.
    pub(crate) fn tap(&self, place: PortRef) -> TapPlan {
        let data_frames = if self.ports.contains(&place) { self.data_frames } else { 0 };
        TapPlan { data_from: Time::ZERO, data_frames }
    }
}

/// Returns the switches as a scenario whose hosts are outside, for the record.
pub(crate) fn lab(switches: &[SwitchConfig], sample_every: Span) -> Scenario {
    let joined = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join("+");
    let name = joined(switches.iter().map(|switch| switch.name.as_str()).collect());
    let policy = joined(switches.iter().map(|switch| switch.buffer.policy.name()).collect());
    Scenario::lab(&name, &policy, switches.to_vec(), sample_every)
}

impl<'a> Recording<'a> {
    /// Makes the directory and its files. To be called before anything starts.
    ///
    /// # Errors
    /// The directory has something else in it, or a file can't be written.
    pub(crate) fn new(
        scenario: &'a Scenario,
        path: &Path,
        captures: &CaptureSelection,
    ) -> Result<Recording<'a>, Failure> {
        let wrong = |error: weir_results::run_dir::RunDirError| Failure::Argument(format!("--output: {error}"));
        let run = directory(path).map_err(wrong)?;
        record::write_configs(scenario, &run).map_err(wrong)?;
        let recorder = Recorder::new(scenario, &run).map_err(wrong)?;
        let pauses = run.ns3_pauses().map_err(wrong)?;
        let capture = |place: &PortRef| {
            let port = &scenario.switches[place.switch].ports[place.port];
            let (name, mac) = (scenario.port_name(*place), port.mac.unwrap_or_default());
            let about = CapturePort { name, mac, rate: port.rate };
            run.capture(&about).map(|writer| (*place, writer))
        };
        let captures = captures.ports.iter().map(capture).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        run.flush().map_err(|error| Failure::Argument(format!("--output: {error}")))?;
        Ok(Recording {
            scenario,
            run,
            recorder,
            pauses,
            captures,
            taps: Vec::new(),
            dropped: Vec::new(),
            drops_left: DROPS_MAX,
            began: Time::ZERO,
            is_broken: false,
            missed: 0,
            failures: Vec::new(),
            snapshots: 0,
        })
    }

    /// Begins the record: the switches start at `began` on their clock, the taps give copies of frames, and `dropped` gives lcores' drops.
    pub(crate) fn begin(&mut self, began: Time, taps: Vec<PortTap>, dropped: Vec<DroppedFrames>) {
        (self.began, self.taps, self.dropped) = (began, taps, dropped);
    }

    /// Writes down the frames that have passed or were dropped since the last call. To be called often, or the taps' rings overflow.
    pub(crate) fn collect(&mut self) {
        let mut frames: Vec<(PortRef, TappedFrame)> = Vec::new();
        for PortTap { switch, port, tapped } in &mut self.taps {
            let place = PortRef { switch: *switch, port: port.index() };
            frames.extend(tapped.map(|frame| (place, frame)));
        }
        frames.sort_by_key(|(_, frame)| frame.at);
        for (place, frame) in &frames {
            self.write_down(|record| record.write_frame(*place, frame));
        }
        self.collect_dropped();
    }

    /// Writes down dropped frames, those of a poll and a reason together. The next sample has those beyond [`DROPS_MAX`].
    fn collect_dropped(&mut self) {
        let mut dropped = Vec::new();
        for frames in &mut self.dropped {
            let switch = frames.switch;
            dropped.extend(frames.map(|frame| (frame.at, switch, frame)));
        }
        dropped.truncate(self.drops_left as usize);
        self.drops_left -= dropped.len() as u32;
        dropped.sort_by_key(|(at, ..)| *at);
        for frames in dropped.chunk_by(|one, next| one == next) {
            let (at, switch, frame) = frames[0];
            let (at, queue, number) = (self.since_began(at), frame.queue, frames.len() as u64);
            let place = PortRef { switch, port: queue.port().index() };
            self.write_down(|record| record.recorder.record_drop(at, place, queue.class(), frame.reason, number));
        }
    }

    fn write_frame(&mut self, place: PortRef, frame: &TappedFrame) -> io::Result<()> {
        let at = self.since_began(frame.at);
        if let Ok(ControlFrame::Pfc(pfc)) = ControlFrame::decode(&frame.bytes) {
            let by = match frame.direction {
                Direction::Inbound => MessageOrigin::Host,
                Direction::Outbound => MessageOrigin::Port,
            };
            self.record_pause(at, by, place, &pfc);
            self.recorder.record_pfc_frame(at, by, place, &pfc)?;
        }
        if let Some((_, capture)) = self.captures.iter_mut().find(|(captured, _)| *captured == place) {
            capture.write(at, frame.direction, &frame.bytes)?;
        }
        Ok(())
    }

    /// Writes a line of `pfc.txt`. Peers of ports are numbered in the ports' order, followed by the switches.
    fn record_pause(&mut self, at: Time, by: MessageOrigin, place: PortRef, frame: &PfcFrame) {
        if self.scenario.switches[place.switch].ports[place.port].flow_control.message_kind() == MessageKind::Stages {
            return;
        }
        let peers = || self.recorder.ports().linked();
        let (node, is_switch, interface) = match by {
            MessageOrigin::Host => (peers().count() + place.switch, true, place.port + 1),
            MessageOrigin::Port => (peers().position(|port| port.place == place).unwrap_or(0), false, 1),
        };
        for class in self.recorder.changes(by, place, frame) {
            self.pauses.pause(at, node, is_switch, interface, frame.times[class.index()] > 0);
        }
    }

    /// Records an event of a port at `at` on the switches' clock.
    pub(crate) fn record_event(
        &mut self,
        at: Time,
        switch: usize,
        port: PortId,
        class: Option<Class>,
        kind: EventKind<'_>,
    ) {
        let place = PortRef { switch, port: port.index() };
        let at = self.since_began(at);
        self.write_down(|record| record.recorder.record_event(at, place, class, kind));
    }

    /// Takes a sample.
    pub(crate) fn sample(&mut self, reports: &[Report]) {
        self.collect();
        let Some(at) = reports.first().map(|report| self.since_began(report.at)) else { return };
        self.write_down(|record| {
            record.recorder.sample(at, SampleScope::All, reports, &[], &[], |_, _| None)?;
            record.pauses.advance(at)
        });
        self.drops_left = DROPS_MAX;
    }

    /// Writes out all there is, with the results so far: a process that is killed leaves them.
    pub(crate) fn write_out(&mut self, reports: &[Report]) {
        let Some(at) = reports.first().map(|report| self.since_began(report.at)) else { return };
        self.attempt(|record| {
            record.flush()?;
            let failures =
                vec!["the run did not end, or could not write its results: these are those so far".to_owned()];
            let summary = record.summary(at, reports, failures, true);
            record.run.write_so_far(&summary).map_err(io::Error::other)
        });
    }

    /// Opens all files anew, as after a log rotation, or when there is room again.
    pub(crate) fn reopen(&mut self, now: Time) {
        self.collect();
        let flushed = if self.is_broken { Ok(()) } else { self.flush() };
        let reopened = self.run.reopen();
        let was_broken = std::mem::replace(&mut self.is_broken, false);
        // Files that refused writes before may accept them now, if there is room again.
        self.attempt(|_| if was_broken { reopened } else { flushed.and(reopened) });
        if self.is_broken {
            return;
        }
        tracing::info!("the files of {} are opened anew", self.run.path().display());
        if was_broken {
            let at = self.since_began(now);
            let missed = format!("record resumed, {} samples, events and frames missed so far", self.missed);
            self.attempt(|record| record.recorder.record_mark(at, &missed));
        }
    }

    /// Writes a snapshot; returns its file.
    pub(crate) fn snapshot(&mut self, content: &impl Serialize) -> Option<PathBuf> {
        let number = self.snapshots + 1;
        let mut path = None;
        self.attempt(|record| {
            record.flush()?;
            path = Some(record.run.write_snapshot(number, content).map_err(io::Error::other)?);
            Ok(())
        });
        self.snapshots += u32::from(path.is_some());
        path
    }

    /// Ends the record with the switches' last reports. `fault` is the reason why the run failed, if it did; `switches` is further state of
    /// the switches. Returns the reason why the record is incomplete, if it is.
    pub(crate) fn finish(
        mut self,
        reports: &[Report],
        fault: Option<&str>,
        lossless: bool,
        switches: &impl Serialize,
    ) -> Option<String> {
        self.collect();
        let at = reports.first().map_or(Time::ZERO, |report| self.since_began(report.at));
        let missed: u64 = self.taps.iter().map(|tap| tap.tapped.missed()).sum();
        if missed > 0 {
            self.failures
                .push(format!("{missed} frames are in no capture or event, as the machine came too late for them"));
        }
        self.attempt(|record| {
            record.recorder.record_after_end(at, reports)?;
            record.pauses.advance(at)?;
            record.flush()
        });
        if self.missed > 0 {
            self.failures.push(format!("{} samples, events and frames were not written", self.missed));
        }
        let failures = fault.map(str::to_owned).into_iter().chain(self.failures.clone()).collect();
        let summary = self.summary(at, reports, failures, lossless);
        let path = self.run.path().to_owned();
        let written = self.run.write_switches(switches).and_then(|()| self.run.finish(&summary));
        match written {
            Ok(path) => tracing::info!("the record is in {0}: weir report {0}", path.display()),
            Err(error) => self.failures.push(error.to_string()),
        }
        (!self.failures.is_empty()).then(|| format!("the record in {}: {}", path.display(), self.failures.join("; ")))
    }

    fn summary(&self, at: Time, reports: &[Report], failures: Vec<String>, lossless: bool) -> Summary {
        let ended = RunResult {
            backend: "dpdk",
            reports,
            duration: at.since(Time::ZERO),
            sent: Vec::new(),
            arrived: Vec::new(),
            nics: Vec::new(),
            host_links: Vec::new(),
            links: Vec::new(),
            lossless: lossless && dropped(self.scenario, reports, true) == 0,
            failures,
            notes: Vec::new(),
        };
        record::summary(self.scenario, ended, self.recorder.so_far())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.recorder.flush().and(self.run.flush())
    }

    fn since_began(&self, at: Time) -> Time {
        Time::ZERO + at.since(self.began)
    }

    /// Writes data that occurs only once; counts it as missed if a file can't be written.
    fn write_down(&mut self, write: impl FnOnce(&mut Recording<'a>) -> io::Result<()>) {
        self.missed += u64::from(self.is_broken);
        self.attempt(write);
    }

    /// Writes, unless the record is broken; the first failure is reported.
    fn attempt(&mut self, write: impl FnOnce(&mut Recording<'a>) -> io::Result<()>) {
        if self.is_broken {
            return;
        }
        if let Err(error) = write(self) {
            self.is_broken = true;
            tracing::error!("{error}: the record stops here, the switch goes on; SIGHUP goes on with the record");
            self.failures.push(error.to_string());
        }
    }
}
