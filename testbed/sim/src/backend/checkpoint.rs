//! Checkpoints of a run, written into its directory, and resumption from them.
//!
//! A file starts with the text line `weir checkpoint 1 by PROGRAM`. Then follow the scenario's identity (u64), the
//! length of the state (u64), the state as an [`Archive`], and the CRC-32 of all preceding bytes. The state has only
//! values that change; the rest is rebuilt from the scenario.

use std::fmt::{self, Debug, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use weir_results::run_dir::{CheckpointSpeed, RunDir};
use weir_scenario::Scenario;
use weir_units::archive::{Archive, State};

use super::{ActiveRun, SimBackend, SimRunError};
use crate::build_id::own_build_id;

/// Error that prevents writing a checkpoint or resuming from one.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Part of the scenario does not expose its state.
    #[error("--checkpoint: {0} does not save its state; implement its `checkpoint`, or leave --checkpoint out")]
    Refused(String),
    /// The file is no checkpoint, or is damaged.
    #[error("{}: no checkpoint, or a damaged one; to start again, leave --resume out", .0.display())]
    Damaged(PathBuf),
    /// Another program or version wrote the checkpoint.
    #[error("{}: another program wrote the checkpoint ({by}, not {own}); resume with that one, or leave --resume out to start again", path.display())]
    OtherProgram {
        /// Path of the checkpoint.
        path: PathBuf,
        /// Program that wrote the checkpoint.
        by: String,
        /// Program that reads the checkpoint.
        own: String,
    },
    /// The checkpoint is of another scenario.
    #[error(
        "{}: the checkpoint is of another scenario, or of other options; resume with those, or leave --resume out to start again",
        .0.display()
    )]
    OtherScenario(PathBuf),
    /// The run's files don't match the checkpoint.
    #[error("{}: {error}; leave --resume out to start again", path.display())]
    Files {
        /// Run directory.
        path: PathBuf,
        /// Mismatch found.
        error: std::io::Error,
    },
}

const MAGIC: &str = "weir checkpoint 1 by ";

/// Identity of the program and the scenario.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    program: String,
    scenario: u64,
}

/// Schedule of checkpoints, and statistics of those written.
#[derive(Debug)]
pub(super) struct Checkpoints {
    every: Option<Duration>,
    last: Instant,
    identity: Identity,
    written: CheckpointSpeed,
}

/// Incremental 64-bit FNV-1a hash, for a text that is never stored as a whole.
struct Hash(u64);

impl Hash {
    const START: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
}

impl Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(Hash::PRIME);
        }
        Ok(())
    }
}

impl Identity {
    /// Creates the identity of this program with a scenario and the options that change results.
    pub(super) fn new(backend: &SimBackend, scenario: &Scenario) -> Identity {
        // Checkpoints of debug builds have additional counters.
        let kind = if cfg!(debug_assertions) { ", with assertions" } else { "" };
        let program = if backend.program.is_empty() { env!("CARGO_PKG_VERSION") } else { backend.program };
        // The build ID distinguishes builds with uncommitted changes, and extensions, which share a version.
        let build = own_build_id().map_or_else(String::new, |id| format!(", build {id}"));
        let mut hash = Hash(Hash::START);
        let options: (&dyn Debug, bool) = (&backend.expects, backend.ns3_files);
        write!(hash, "{options:?} {scenario:?}").expect("a number takes all");
        Identity { program: format!("{program}{build}{kind}"), scenario: hash.0 }
    }

    fn head(&self, length: usize) -> Vec<u8> {
        let mut head = format!("{MAGIC}{}\n", self.program).into_bytes();
        head.extend(self.scenario.to_le_bytes());
        head.extend((length as u64).to_le_bytes());
        head
    }

    /// Reads the state from a run directory.
    pub(super) fn read(&self, run: &RunDir) -> Result<Vec<u8>, SimRunError> {
        let mut bytes = run.read_checkpoint()?;
        let path = run.checkpoint_path();
        let start = self.check(&bytes).map_err(|mismatch| match mismatch {
            CheckpointMismatch::Damaged => CheckpointError::Damaged(path.clone()),
            CheckpointMismatch::OtherProgram(by) => {
                CheckpointError::OtherProgram { path: path.clone(), by, own: self.program.clone() }
            }
            CheckpointMismatch::OtherScenario => CheckpointError::OtherScenario(path.clone()),
        })?;
        bytes.truncate(bytes.len() - CHECKSUM);
        bytes.drain(..start);
        Ok(bytes)
    }

    /// Returns the offset of the state.
    fn check(&self, bytes: &[u8]) -> Result<usize, CheckpointMismatch> {
        let (content, sum) = bytes.split_last_chunk::<CHECKSUM>().ok_or(CheckpointMismatch::Damaged)?;
        if u32::from_le_bytes(*sum) != crc32fast::hash(content) {
            return Err(CheckpointMismatch::Damaged);
        }
        let end = content.iter().position(|byte| *byte == b'\n').ok_or(CheckpointMismatch::Damaged)?;
        let line = std::str::from_utf8(&content[..end]).map_err(|_| CheckpointMismatch::Damaged)?;
        let by = line.strip_prefix(MAGIC).ok_or_else(|| CheckpointMismatch::OtherProgram(line.to_owned()))?;
        if by != self.program {
            return Err(CheckpointMismatch::OtherProgram(by.to_owned()));
        }
        let (scenario, rest) = content[end + 1..].split_first_chunk().ok_or(CheckpointMismatch::Damaged)?;
        if u64::from_le_bytes(*scenario) != self.scenario {
            return Err(CheckpointMismatch::OtherScenario);
        }
        let (length, state) = rest.split_first_chunk().ok_or(CheckpointMismatch::Damaged)?;
        let is_complete = u64::from_le_bytes(*length) == state.len() as u64;
        if is_complete { Ok(content.len() - state.len()) } else { Err(CheckpointMismatch::Damaged) }
    }
}

const CHECKSUM: usize = 4;

enum CheckpointMismatch {
    Damaged,
    OtherProgram(String),
    OtherScenario,
}

impl Checkpoints {
    pub(super) fn new(every: Option<Duration>, identity: Identity) -> Checkpoints {
        Checkpoints { every, last: Instant::now(), identity, written: CheckpointSpeed::default() }
    }

    /// Whether a checkpoint is due, by time or because the run stops.
    pub(super) fn is_due(&self, stops: bool) -> bool {
        self.every.is_some_and(|every| stops || self.last.elapsed() >= every)
    }

    /// Returns statistics of written checkpoints; `None` if checkpoints are disabled.
    pub(super) fn written(&self) -> Option<CheckpointSpeed> {
        self.every.map(|_| self.written)
    }
}

impl ActiveRun<'_> {
    /// Saves or loads all values that change.
    fn state(&mut self, archive: &mut Archive) {
        let ActiveRun {
            sim,
            recorder,
            ns3,
            ends,
            outages,
            measures,
            surveyed,
            progress_of,
            stage,
            // Given by the scenario or this process, or rebuilt.
            scenario: _,
            nodes: _,
            ideal_paths: _,
            reports: _,
            run_step: _,
            progress: _,
            observe: _,
            stop: _,
            run: _,
            checkpoints: _,
        } = self;
        sim.checkpoint(archive);
        recorder.state(archive);
        archive.fixed(ns3.iter_mut());
        ends.state(archive);
        outages.state(archive);
        archive.fixed(measures.iter_mut());
        surveyed.state(archive);
        progress_of.state(archive);
        stage.state(archive);
    }

    /// Rejects a run that needs checkpoints if part of its state is unsupported.
    pub(super) fn check_checkpoint_support(&mut self) -> Result<(), SimRunError> {
        if self.checkpoints.every.is_none() {
            return Ok(());
        }
        self.save_state(Vec::new()).map(drop)
    }

    fn save_state(&mut self, mut files: Vec<(String, u64)>) -> Result<Vec<u8>, SimRunError> {
        let mut archive = Archive::to_save();
        files.state(&mut archive);
        self.state(&mut archive);
        match archive.unsupported() {
            Some(what) => Err(CheckpointError::Refused(what.to_owned()).into()),
            None => Ok(archive.into_bytes()),
        }
    }

    /// Writes a checkpoint, after flushing all files to the matching length.
    pub(super) fn write_checkpoint(&mut self) -> Result<(), SimRunError> {
        let began = Instant::now();
        self.recorder.flush()?;
        let files = self.run.sync()?;
        let state = self.save_state(files)?;
        let head = self.checkpoints.identity.head(state.len());
        let mut sum = crc32fast::Hasher::new();
        sum.update(&head);
        sum.update(&state);
        self.run.write_checkpoint(&[&head, &state, &sum.finalize().to_le_bytes()])?;
        let Checkpoints { last, written, .. } = &mut self.checkpoints;
        *last = Instant::now();
        written.count += 1;
        written.bytes_max = written.bytes_max.max((head.len() + state.len() + CHECKSUM) as u64);
        written.ms_max = written.ms_max.max(began.elapsed().as_millis() as u64);
        Ok(())
    }

    pub(super) fn resume(&mut self, state: Vec<u8>) -> Result<(), SimRunError> {
        let mut archive = Archive::to_load(state);
        let mut files: Vec<(String, u64)> = Vec::new();
        files.state(&mut archive);
        self.state(&mut archive);
        if !archive.is_at_end() {
            return Err(CheckpointError::Damaged(self.run.checkpoint_path()).into());
        }
        let cut = self.run.truncate(&files);
        cut.map_err(|error| CheckpointError::Files { path: self.run.path().to_owned(), error })?;
        self.reports = self.sim.reports();
        Ok(())
    }
}
