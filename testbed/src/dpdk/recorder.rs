//! The control thread's notebook: what lcores have noted, and the capture, on their way to the run's files.

use std::fs::File;
use std::io::{self, BufWriter};
use std::sync::Arc;

use weir_switch_core::Report;
use weir_units::Time;

use super::board::Board;
use super::station::{Note, Reader};
use crate::record::{self, Depth, Record};
use crate::run_dir::{CapturePort, CaptureWriter, FctRow, FlowSample, RunDir, RunDirError};
use crate::scenario::Scenario;

/// Writes the files of a run while it runs.
pub(super) struct Recorder<'a> {
    scenario: &'a Scenario,
    board: Arc<Board>,
    readers: Vec<Reader>,
    capture: Option<CaptureWriter<BufWriter<File>>>,
    record: record::Recorder<'a>,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(
        scenario: &'a Scenario,
        run: &RunDir,
        board: Arc<Board>,
        readers: Vec<Reader>,
    ) -> Result<Recorder<'a>, RunDirError> {
        let capture = scenario.capture.map(|plan| {
            let host = &scenario.hosts[plan.host];
            let port = &scenario.switches[host.switch].ports[host.port];
            let rate = port.rate.unwrap_or(host.nic.rate);
            let name = scenario.port_name(host.place());
            run.capture(&CapturePort { name, mac: port.mac.unwrap_or_default(), rate })
        });
        let capture = capture.transpose()?;
        Ok(Recorder { scenario, board, readers, capture, record: record::Recorder::new(scenario, run)? })
    }

    /// When samples are to be taken.
    pub(super) fn schedule(&self) -> Vec<Time> {
        self.record.schedule()
    }

    /// Whether a sample planned for `planned` is still to be taken.
    pub(super) fn is_due(&self, planned: Time) -> bool {
        self.record.is_due(planned)
    }

    /// Writes down what hosts and wires have noted.
    pub(super) fn collect(&mut self) -> io::Result<()> {
        for reader in &mut self.readers {
            while let Ok(note) = reader.notes.pop() {
                match note {
                    Note::Pfc(at, place, frame) => self.record.note_told(at, place, &frame)?,
                    Note::Done(completion) => {
                        let mut of_host = self.scenario.flows.iter().filter(|flow| Some(flow.from) == reader.host);
                        let Some(flow) = of_host.nth(completion.flow) else { continue };
                        self.record.note_completed(&FctRow {
                            flow: &flow.name,
                            from: &self.scenario.hosts[flow.from].name,
                            to: &self.scenario.hosts[flow.to].name,
                            released: completion.released,
                            size: completion.size,
                            fct: completion.fct,
                            ideal: None,
                        })?;
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
        let board = &self.board;
        self.record.sample(at, Depth::All, reports, &flows, |host, class| board.rate(host, class))
    }

    /// Shows the switches as of `at` to the detector.
    pub(super) fn look_for_deadlock(&mut self, at: Time, reports: &[Report]) -> io::Result<()> {
        self.record.look_for_deadlock(at, reports)
    }

    /// Whether queues of the fabric wait for each other without end.
    pub(super) fn is_deadlocked(&self) -> bool {
        self.record.is_deadlocked()
    }

    /// Ends the files, and returns what is left of the samples.
    pub(super) fn finish(self) -> io::Result<Record> {
        let record = self.record.finish()?;
        if let Some(capture) = self.capture {
            capture.finish()?;
        }
        Ok(record)
    }
}
