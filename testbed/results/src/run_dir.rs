//! Run directory: the output of a run, with the same files for all backends.
//!
//! | file | content |
//! |---|---|
//! | `provenance.json` | program, date, command line and machine; written first |
//! | `config.toml` | copy of the switch's configuration; with several switches `config-NAME.toml` |
//! | `topology.json` | switches, hosts and links, see [`Topology`] |
//! | `scenario.toml` | text of the scenario's file, if the run has one |
//! | `series.csv` | rates, occupancy, thresholds and pauses over time, see [`SeriesWriter`] |
//! | `events.csv` | events at single instants, see [`EventWriter`] |
//! | `queues.csv` | if asked for, occupancy of all queues at chosen instants, see [`QueueWriter`] |
//! | `fct.csv` | completed and unfinished messages, see [`FctWriter`] |
//! | `PORT.pcapng` | frames of one port, see [`CaptureWriter`] |
//! | `fct.txt`, `pfc.txt`, `qlen.txt` | if asked for, in virtual time: the formats of public ns-3 simulators, see [`Ns3Files`] |
//! | `speed.json` | in virtual time: speed of the run on this machine, see [`Speed`] |
//! | `switches.json` | lab switch: further state, of devices, lcores and each port's messages |
//! | `snapshot-N.json` | lab switch: state at its Nth snapshot, in the format of `switches.json` |
//! | `summary.json.part` | lab switch: results so far, rewritten each half second during the run |
//! | `summary.json` | results; written last, so a directory without it is of a run that did not end |
//!
//! The format has a name and a version, [`Provenance::FORMAT`], the first field of `provenance.json`. A reader rejects others,
//! except [earlier ones](Provenance::is_known) that it still knows.
//!
//! All times are scenario time. In virtual time all files but `provenance.json` and `speed.json` are bit-identical on every
//! machine. The directory of an earlier run is replaced; any other non-empty directory is an error and stays untouched.

mod capture;
mod events;
mod file;
mod gauges;
mod messages;
mod ns3;
mod provenance;
mod queues;
mod real_hosts;
mod series;
mod speed;
mod summary;
#[cfg(test)]
mod tests;
mod topology;

pub use capture::{CapturePort, CaptureWriter};
pub use events::{EventKind, EventWriter, FctRow, FctWriter};
pub use file::{RunFile, complete_lines};
pub(crate) use gauges::GaugeSamples;
pub use gauges::{GaugeFigures, queue_gauges};
pub use messages::{RunMessage, has_messages, read_messages};
pub use ns3::{Ns3Files, Ns3Message, Ns3Nodes, Ns3Pauses};
pub use provenance::{MachineInfo, Provenance};
pub use queues::QueueWriter;
pub use real_hosts::{ConnectionSummary, RealHostSummary, ToolSummary};
pub use series::{
    FLOW_COLUMNS, FlowSample, POOL_COLUMNS, PoolSample, QUEUE_COLUMNS, QueueSample, Series, SeriesColumn,
    SeriesColumns, SeriesWriter, column_names,
};
pub use speed::Speed;
pub(crate) use summary::INTERRUPTED;
pub use summary::{
    BinSummary, ClassSummary, CriticalPathSummary, DeadlockSummary, Distribution, EgressUseSummary, FeedbackSummary,
    FlowControlSummary, FlowGauge, FlowSummary, FlowWindow, FrameSummary, HostClassSummary, HostSummary,
    LinkDirectionSummary, LlrSummary, LoadBalancingSummary, MessageSummary, MessageTimes, OutageSummary,
    PathMessageSummary, PoolSummary, PortSummary, PortWindow, RepetitionSummary, StandstillSummary, Summary,
    SwitchSummary, TrafficSummary, Window, XoffQueuesSummary, throughput,
};
pub use topology::{HostPlace, OutageTimes, PortName, SwitchLink, Topology};

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use weir_units::Time;

const PROVENANCE: &str = "provenance.json";
const CONFIG: &str = "config.toml";
const CONFIG_OF: &str = "config-";
const CONFIG_EXTENSION: &str = ".toml";
/// Folder of real hosts' files.
const HOSTS: &str = "hosts";
const TOPOLOGY: &str = "topology.json";
const SCENARIO: &str = "scenario.toml";
const SERIES: &str = "series.csv";
const EVENTS: &str = "events.csv";
const QUEUES: &str = "queues.csv";
const FCT: &str = "fct.csv";
const SPEED: &str = "speed.json";
const NS3_FCT: &str = "fct.txt";
const NS3_PFC: &str = "pfc.txt";
const NS3_QLEN: &str = "qlen.txt";
const SUMMARY: &str = "summary.json";
const SUMMARY_UNFINISHED: &str = "summary.json.part";
/// Results until they are complete.
const SUMMARY_NEXT: &str = "summary.json.next";
const SWITCHES: &str = "switches.json";
const SNAPSHOT: &str = "snapshot-";
const JSON_EXTENSION: &str = ".json";
const CAPTURE_EXTENSION: &str = "pcapng";

/// Directory of a run, open for writing.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    /// Files written during the run.
    files: Mutex<Vec<RunFile>>,
}

/// Error of creating, writing or reading a run's directory.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// The operating system reported an error.
    #[error("{}: {action}: {source}", path.display())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// Failed action.
        action: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The directory holds a file that no run wrote.
    #[error(
        "{} is not empty, and `{entry}` in it is not a run's file: name another directory, or empty this one",
        path.display()
    )]
    Occupied {
        /// The directory.
        path: PathBuf,
        /// Name of one such file.
        entry: String,
    },
    /// The path is a file.
    #[error("{} is a file: name a directory for the run", path.display())]
    NoDirectory {
        /// The path.
        path: PathBuf,
    },
    /// A JSON file does not match its type.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Position and error.
        source: serde_json::Error,
    },
    /// A row of a table does not match the format.
    #[error("{}:{line}: {what}", path.display())]
    Row {
        /// The table.
        path: PathBuf,
        /// Line of the row.
        line: u64,
        /// Error message.
        what: String,
    },
    /// The port's name cannot be a file's name.
    #[error("a capture can't be named after the port `{port}`: use letters, digits, `_`, `-` and `.`")]
    PortName {
        /// The name.
        port: String,
    },
    /// The switch's name cannot be a file's name.
    #[error("a file can't be named after the switch `{switch}`: use letters, digits, `_`, `-` and `.`")]
    SwitchName {
        /// The name.
        switch: String,
    },
}

impl RunDir {
    /// Creates the directory with its parents and writes the provenance. Removes the files of an earlier run.
    pub fn create(path: impl Into<PathBuf>, provenance: &Provenance) -> Result<RunDir, RunDirError> {
        let path = path.into();
        if path.exists() {
            clear_earlier_run(&path)?;
        } else {
            fs::create_dir_all(&path).map_err(io_at(&path, "can't be made"))?;
        }
        let run = RunDir { path, files: Mutex::default() };
        run.write_json(PROVENANCE, provenance)?;
        Ok(run)
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn write_config(&self, toml: &str) -> Result<(), RunDirError> {
        self.write_text(CONFIG, toml)
    }

    /// Writes the configuration of one of several switches.
    pub(crate) fn write_config_of(&self, switch: &str, toml: &str) -> Result<(), RunDirError> {
        if !is_plain(switch) {
            return Err(RunDirError::SwitchName { switch: switch.to_owned() });
        }
        self.write_text(&format!("{CONFIG_OF}{switch}{CONFIG_EXTENSION}"), toml)
    }

    pub(crate) fn write_topology(&self, topology: &Topology) -> Result<(), RunDirError> {
        // One line: large fabrics have thousands of links, and every point of a sweep has this file.
        let path = self.path.join(TOPOLOGY);
        let text = serde_json::to_string(topology).map_err(|source| RunDirError::Json { path, source })?;
        self.write_text(TOPOLOGY, &(text + "\n"))
    }

    /// Writes real hosts' texts and tables into their folder, by file name: `H0.before.txt`, `counters.csv`.
    pub fn write_hosts(&self, files: &BTreeMap<String, String>) -> Result<(), RunDirError> {
        if files.is_empty() {
            return Ok(());
        }
        let folder = self.path.join(HOSTS);
        fs::create_dir_all(&folder).map_err(io_at(&folder, "can't be made"))?;
        files.keys().for_each(|name| debug_assert!(is_file_of_hosts(name), "{name} would not be known again"));
        files.iter().try_for_each(|(name, text)| self.write_text(&format!("{HOSTS}/{name}"), text))
    }

    /// Writes a copy of the scenario's file.
    pub fn write_scenario(&self, toml: &str) -> Result<(), RunDirError> {
        self.write_text(SCENARIO, toml)
    }

    fn write_text(&self, name: &str, toml: &str) -> Result<(), RunDirError> {
        let path = self.path.join(name);
        fs::write(&path, toml).map_err(io_at(&path, "can't be written"))
    }

    /// Creates the time series; the first row's rates count from `start`.
    pub fn series(&self, start: Time, columns: &SeriesColumns) -> Result<SeriesWriter<RunFile>, RunDirError> {
        self.running_file(SERIES, |file| SeriesWriter::new(file, start, columns))
    }

    /// Creates the list of events.
    pub fn events(&self) -> Result<EventWriter<RunFile>, RunDirError> {
        self.running_file(EVENTS, EventWriter::new)
    }

    /// Creates the file of queues at chosen instants.
    pub fn queues(&self) -> Result<QueueWriter<RunFile>, RunDirError> {
        self.running_file(QUEUES, QueueWriter::new)
    }

    /// Creates the list of messages.
    pub fn fcts(&self) -> Result<FctWriter<RunFile>, RunDirError> {
        self.running_file(FCT, FctWriter::new)
    }

    /// Creates the capture of a port.
    pub fn capture(&self, port: &CapturePort) -> Result<CaptureWriter<RunFile>, RunDirError> {
        if port.name.starts_with('.') || !is_plain(&port.name) {
            return Err(RunDirError::PortName { port: port.name.clone() });
        }
        self.running_file(&format!("{}.{CAPTURE_EXTENSION}", port.name), |file| CaptureWriter::new(file, port))
    }

    /// Creates the files in the formats of public ns-3 simulators.
    pub fn ns3_files(&self) -> Result<Ns3Files<RunFile>, RunDirError> {
        let [fct, pfc, qlen] = [NS3_FCT, NS3_PFC, NS3_QLEN].map(|name| self.running_file(name, Ok));
        Ok(Ns3Files::new(fct?, pfc?, qlen?))
    }

    /// Creates `pfc.txt` alone.
    pub fn ns3_pauses(&self) -> Result<Ns3Pauses<RunFile>, RunDirError> {
        Ok(Ns3Pauses::new(self.running_file(NS3_PFC, Ok)?))
    }

    /// Flushes the files' handles. Flush buffered writers first.
    ///
    /// # Errors
    /// The first file that cannot be written; all others are flushed.
    pub fn flush(&self) -> io::Result<()> {
        self.on_files(|file| file.clone().flush())
    }

    /// Reopens all files of the running run, as after a log rotation: a new file begins with its header, an existing one is
    /// appended to. Flush buffered writers first.
    ///
    /// # Errors
    /// As [`RunDir::flush`].
    pub fn reopen(&self) -> io::Result<()> {
        self.on_files(RunFile::reopen)
    }

    fn on_files(&self, act: impl Fn(&RunFile) -> io::Result<()>) -> io::Result<()> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.iter().map(act).fold(Ok(()), io::Result::and)
    }

    /// Writes the results so far of an unfinished run.
    pub fn write_so_far(&self, summary: &Summary) -> Result<(), RunDirError> {
        self.write_atomically(SUMMARY_UNFINISHED, summary)
    }

    /// Writes a lab switch's further state.
    pub fn write_switches(&self, content: &impl serde::Serialize) -> Result<(), RunDirError> {
        self.write_json(SWITCHES, content)
    }

    /// Writes a lab switch's snapshot, numbered from 1; returns its path.
    pub fn write_snapshot(&self, number: u32, content: &impl serde::Serialize) -> Result<PathBuf, RunDirError> {
        let name = format!("{SNAPSHOT}{number}{JSON_EXTENSION}");
        self.write_json(&name, content)?;
        Ok(self.path.join(name))
    }

    /// Writes the speed of the run.
    pub fn write_speed(&self, speed: &Speed) -> Result<(), RunDirError> {
        self.write_json(SPEED, speed)
    }

    /// Writes the final results, and removes the results so far.
    pub fn finish(self, summary: &Summary) -> Result<PathBuf, RunDirError> {
        self.write_atomically(SUMMARY, summary)?;
        let so_far = self.path.join(SUMMARY_UNFINISHED);
        match fs::remove_file(&so_far) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_at(&so_far, "can't be removed")(error)),
            _ => Ok(self.path),
        }
    }

    /// Writes results atomically, so that a full disk keeps the old ones.
    fn write_atomically(&self, name: &str, summary: &Summary) -> Result<(), RunDirError> {
        self.write_json(SUMMARY_NEXT, summary)?;
        let path = self.path.join(name);
        fs::rename(self.path.join(SUMMARY_NEXT), &path).map_err(io_at(&path, "can't be written"))
    }

    /// Opens a file written during the run; `begin` writes its header.
    fn running_file<W>(&self, name: &str, begin: impl FnOnce(RunFile) -> io::Result<W>) -> Result<W, RunDirError> {
        let path = self.path.join(name);
        let file = RunFile::create(&path).map_err(io_at(&path, "can't be written"))?;
        let writer = begin(file.clone()).map_err(io_at(&path, "can't be written"))?;
        file.end_header();
        self.files.lock().unwrap_or_else(PoisonError::into_inner).push(file);
        Ok(writer)
    }

    fn write_json(&self, name: &str, content: &impl serde::Serialize) -> Result<(), RunDirError> {
        let path = self.path.join(name);
        let text =
            serde_json::to_string_pretty(content).map_err(|source| RunDirError::Json { path: path.clone(), source })?;
        fs::write(&path, text + "\n").map_err(io_at(&path, "can't be written"))
    }
}

/// Reads the results of a run.
pub fn read_summary(run: &Path) -> Result<Summary, RunDirError> {
    read_json(&run.join(SUMMARY))
}

/// Reads the results so far of an unfinished run; `None` if there are none.
pub fn read_so_far(run: &Path) -> Result<Option<Summary>, RunDirError> {
    let path = run.join(SUMMARY_UNFINISHED);
    if path.exists() { read_json(&path).map(Some) } else { Ok(None) }
}

/// Reads the time series of a run.
pub fn read_series(run: &Path) -> Result<Series, RunDirError> {
    let path = run.join(SERIES);
    let lines = complete_lines(&path).map_err(io_at(&path, "can't be read"))?;
    Series::read(lines).map_err(io_at(&path, "can't be read"))
}

/// Reads the topology of a run.
pub fn read_topology(run: &Path) -> Result<Topology, RunDirError> {
    read_json(&run.join(TOPOLOGY))
}

/// Reads the speed of a run.
pub fn read_speed(run: &Path) -> Result<Speed, RunDirError> {
    read_json(&run.join(SPEED))
}

/// Reads the provenance of a run.
pub fn read_provenance(run: &Path) -> Result<Provenance, RunDirError> {
    read_json(&run.join(PROVENANCE))
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, RunDirError> {
    let text = fs::read_to_string(path).map_err(io_at(path, "can't be read"))?;
    serde_json::from_str(&text).map_err(|source| RunDirError::Json { path: path.to_owned(), source })
}

/// Empties a directory that holds only an earlier run's files. Otherwise removes nothing.
fn clear_earlier_run(path: &Path) -> Result<(), RunDirError> {
    if !path.is_dir() {
        return Err(RunDirError::NoDirectory { path: path.to_owned() });
    }
    let names = names_in(path)?;
    let is_run = names.is_empty() || read_provenance(path).is_ok_and(|earlier| earlier.is_known());
    if let Some(entry) = names.iter().find(|name| !is_run || !is_run_file(name)) {
        return Err(RunDirError::Occupied { path: path.to_owned(), entry: entry.clone() });
    }
    let hosts = path.join(HOSTS);
    let of_hosts = if hosts.is_dir() { names_in(&hosts)? } else { Vec::new() };
    if let Some(entry) = of_hosts.iter().find(|name| !is_file_of_hosts(name)) {
        return Err(RunDirError::Occupied { path: path.to_owned(), entry: format!("{HOSTS}/{entry}") });
    }
    let removed = "is of an earlier run and can't be removed";
    for file in of_hosts.iter().map(|name| hosts.join(name)) {
        fs::remove_file(&file).map_err(io_at(&file, removed))?;
    }
    for name in names {
        let file = path.join(name);
        let is_folder = file.is_dir();
        let remove = if is_folder { fs::remove_dir } else { fs::remove_file };
        remove(&file).map_err(io_at(&file, removed))?;
    }
    Ok(())
}

/// Lists the entries of a folder, sorted by name.
fn names_in(path: &Path) -> Result<Vec<String>, RunDirError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(io_at(path, "can't be listed"))? {
        let entry = entry.map_err(io_at(path, "can't be listed"))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Whether a name in the folder [`HOSTS`] is of a run's file.
fn is_file_of_hosts(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "txt" || extension == "csv")
}

fn is_run_file(name: &str) -> bool {
    let is_config = name.starts_with(CONFIG_OF) && name.ends_with(CONFIG_EXTENSION);
    let fixed = [
        PROVENANCE,
        CONFIG,
        HOSTS,
        TOPOLOGY,
        SCENARIO,
        SERIES,
        EVENTS,
        QUEUES,
        FCT,
        NS3_FCT,
        NS3_PFC,
        NS3_QLEN,
        SPEED,
        SWITCHES,
        SUMMARY,
        SUMMARY_UNFINISHED,
        SUMMARY_NEXT,
    ];
    let is_snapshot = name.starts_with(SNAPSHOT) && name.ends_with(JSON_EXTENSION);
    is_config
        || is_snapshot
        || fixed.contains(&name)
        || Path::new(name).extension().is_some_and(|extension| extension == CAPTURE_EXTENSION)
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
}

fn io_at(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> RunDirError {
    let path = path.to_owned();
    move |source| RunDirError::Io { path, action, source }
}

/// Formats an instant in microseconds with all digits, without floating point.
fn micros(at: Time) -> String {
    let ps = at.as_picos();
    format!("{}.{:06}", ps / 1_000_000, ps % 1_000_000)
}

/// Converts an error of the CSV writer. Only I/O errors occur, as all rows of a file have the same length.
fn csv_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}
