//! What a run leaves behind: one directory with the same files whatever the backend was.
//!
//! | file | is |
//! |---|---|
//! | `provenance.json` | what ran, when, how it was called and on which machine; written first |
//! | `config.toml` | a copy of the switch's configuration; of several switches `config-NAME.toml` |
//! | `topology.json` | its switches, hosts and links, see [`Topology`] |
//! | `scenario.toml` | the text of the scenario's file, of a run that has one |
//! | `series.csv` | rates, occupancy, thresholds and pauses over time, see [`SeriesWriter`] |
//! | `events.csv` | what happened at single instants, see [`EventWriter`] |
//! | `fct.csv` | each completed message, see [`FctWriter`] |
//! | `PORT.pcapng` | frames of one port, see [`CaptureWriter`] |
//! | `fct.txt`, `pfc.txt`, `qlen.txt` | if asked for, of a run in virtual time: as public ns-3 simulators write them, see [`Ns3Files`] |
//! | `speed.json` | of a run in virtual time, how long this machine took for it, see [`Speed`] |
//! | `summary.json` | the results; written last, so that a directory without it is of a run that did not end |
//!
//! All times are scenario time. In virtual time all files but `provenance.json` and `speed.json` are the same, byte by byte,
//! whenever and wherever the scenario runs. A directory of an earlier run is replaced; anything else is left alone, with an error.

mod capture;
mod events;
mod ns3;
mod provenance;
mod series;
mod speed;
mod summary;
#[cfg(test)]
mod tests;
mod topology;

pub use capture::{CapturePort, CaptureWriter, Direction};
pub use events::{EventKind, EventWriter, FctRow, FctWriter};
pub use ns3::{Ns3Files, Ns3Message};
pub use provenance::{Machine, Provenance};
pub use series::{FlowSample, PoolSample, QueueSample, Series, SeriesColumns, SeriesWriter};
pub use speed::Speed;
pub(crate) use summary::throughput;
pub use summary::{
    BinSummary, ClassSummary, DeadlockSummary, Distribution, FeedbackSummary, FlowControlSummary, FlowSummary,
    FlowWindow, FrameSummary, HostClassSummary, HostSummary, LaneSummary, MessageSummary, MessageTimes, PoolSummary,
    PortSummary, PortWindow, Summary, SwitchSummary, TrafficSummary, Window,
};
pub use topology::{HostPlace, OutageTimes, PortName, SwitchLink, Topology};

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use weir_units::Time;

const PROVENANCE: &str = "provenance.json";
const CONFIG: &str = "config.toml";
const CONFIG_OF: &str = "config-";
const CONFIG_EXTENSION: &str = ".toml";
const TOPOLOGY: &str = "topology.json";
const SCENARIO: &str = "scenario.toml";
const SERIES: &str = "series.csv";
const EVENTS: &str = "events.csv";
const FCT: &str = "fct.csv";
const SPEED: &str = "speed.json";
const NS3_FCT: &str = "fct.txt";
const NS3_PFC: &str = "pfc.txt";
const NS3_QLEN: &str = "qlen.txt";
const SUMMARY: &str = "summary.json";
const SUMMARY_UNFINISHED: &str = "summary.json.part";
const CAPTURE_EXTENSION: &str = "pcapng";

/// A run's directory, open for writing.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
}

/// Why a run's directory can't be made, written or read.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// The operating system says no.
    #[error("{}: {action}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The directory holds something that no run wrote.
    #[error(
        "{} is not empty, and `{entry}` in it is nothing that a run wrote: name another directory, or empty this one",
        path.display()
    )]
    Occupied {
        /// The directory.
        path: PathBuf,
        /// One of the files in it.
        entry: String,
    },
    /// The path is a file.
    #[error("{} is a file: name a directory for the run", path.display())]
    NoDirectory {
        /// The path.
        path: PathBuf,
    },
    /// A JSON file does not say what it should.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where, and what is wrong.
        source: serde_json::Error,
    },
    /// A port whose name can't be a file's.
    #[error("a capture can't be named after the port `{port}`: use letters, digits, `_`, `-` and `.`")]
    PortName {
        /// The name.
        port: String,
    },
    /// A switch whose name can't be a file's.
    #[error("a file can't be named after the switch `{switch}`: use letters, digits, `_`, `-` and `.`")]
    SwitchName {
        /// The name.
        switch: String,
    },
}

impl RunDir {
    /// Makes the directory, with its parents, and writes the provenance. The files of an earlier run are removed.
    pub fn create(path: impl Into<PathBuf>, provenance: &Provenance) -> Result<RunDir, RunDirError> {
        let path = path.into();
        if path.exists() {
            clear_earlier_run(&path)?;
        } else {
            fs::create_dir_all(&path).map_err(io_at(&path, "can't be made"))?;
        }
        let run = RunDir { path };
        run.write_json(PROVENANCE, provenance)?;
        Ok(run)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the copy of the configuration.
    pub fn write_config(&self, toml: &str) -> Result<(), RunDirError> {
        self.write_text(CONFIG, toml)
    }

    /// Writes the copy of the configuration of one of several switches.
    pub fn write_config_of(&self, switch: &str, toml: &str) -> Result<(), RunDirError> {
        if !is_plain(switch) {
            return Err(RunDirError::SwitchName { switch: switch.to_owned() });
        }
        self.write_text(&format!("{CONFIG_OF}{switch}{CONFIG_EXTENSION}"), toml)
    }

    /// Writes what is joined to what.
    pub fn write_topology(&self, topology: &Topology) -> Result<(), RunDirError> {
        // In one line: large fabrics have thousands of links, and every point of a sweep has this file.
        let path = self.path.join(TOPOLOGY);
        let text = serde_json::to_string(topology).map_err(|source| RunDirError::Json { path, source })?;
        self.write_text(TOPOLOGY, &(text + "\n"))
    }

    /// Keeps the text of the scenario's file.
    pub fn write_scenario(&self, toml: &str) -> Result<(), RunDirError> {
        self.write_text(SCENARIO, toml)
    }

    fn write_text(&self, name: &str, toml: &str) -> Result<(), RunDirError> {
        let path = self.path.join(name);
        fs::write(&path, toml).map_err(io_at(&path, "can't be written"))
    }

    /// Starts the time series; the first row's rates count from `start`.
    pub fn series(&self, start: Time, columns: &SeriesColumns) -> Result<SeriesWriter<BufWriter<File>>, RunDirError> {
        let (path, file) = self.new_file(SERIES)?;
        SeriesWriter::new(file, start, columns).map_err(io_at(&path, "can't be written"))
    }

    /// Starts the list of events.
    pub fn events(&self) -> Result<EventWriter<BufWriter<File>>, RunDirError> {
        let (path, file) = self.new_file(EVENTS)?;
        EventWriter::new(file).map_err(io_at(&path, "can't be written"))
    }

    /// Starts the list of completed messages.
    pub fn fcts(&self) -> Result<FctWriter<BufWriter<File>>, RunDirError> {
        let (path, file) = self.new_file(FCT)?;
        FctWriter::new(file).map_err(io_at(&path, "can't be written"))
    }

    /// Starts the capture of a port.
    pub fn capture(&self, port: &CapturePort) -> Result<CaptureWriter<BufWriter<File>>, RunDirError> {
        if port.name.starts_with('.') || !is_plain(&port.name) {
            return Err(RunDirError::PortName { port: port.name.clone() });
        }
        let (path, file) = self.new_file(&format!("{}.{CAPTURE_EXTENSION}", port.name))?;
        CaptureWriter::new(file, port).map_err(io_at(&path, "can't be written"))
    }

    /// Starts the files that public ns-3 simulators write.
    pub fn ns3_files(&self) -> Result<Ns3Files<BufWriter<File>>, RunDirError> {
        let [fct, pfc, qlen] = [NS3_FCT, NS3_PFC, NS3_QLEN].map(|name| self.new_file(name));
        Ok(Ns3Files::new(fct?.1, pfc?.1, qlen?.1))
    }

    /// Writes how fast the run was.
    pub fn write_speed(&self, speed: &Speed) -> Result<(), RunDirError> {
        self.write_json(SPEED, speed)
    }

    /// Writes the results, and with them ends the run.
    pub fn finish(self, summary: &Summary) -> Result<PathBuf, RunDirError> {
        self.write_json(SUMMARY_UNFINISHED, summary)?;
        let path = self.path.join(SUMMARY);
        fs::rename(self.path.join(SUMMARY_UNFINISHED), &path).map_err(io_at(&path, "can't be written"))?;
        Ok(self.path)
    }

    fn new_file(&self, name: &str) -> Result<(PathBuf, BufWriter<File>), RunDirError> {
        let path = self.path.join(name);
        let file = File::create(&path).map_err(io_at(&path, "can't be written"))?;
        Ok((path, BufWriter::new(file)))
    }

    fn write_json(&self, name: &str, content: &impl serde::Serialize) -> Result<(), RunDirError> {
        let (path, mut file) = self.new_file(name)?;
        let text =
            serde_json::to_string_pretty(content).map_err(|source| RunDirError::Json { path: path.clone(), source })?;
        writeln!(file, "{text}").and_then(|()| file.flush()).map_err(io_at(&path, "can't be written"))
    }
}

/// Reads the results of the run in a directory.
pub fn read_summary(run: &Path) -> Result<Summary, RunDirError> {
    read_json(&run.join(SUMMARY))
}

/// Reads the time series of the run in a directory.
pub fn read_series(run: &Path) -> Result<Series, RunDirError> {
    let path = run.join(SERIES);
    let file = File::open(&path).map_err(io_at(&path, "can't be read"))?;
    Series::read(file).map_err(io_at(&path, "can't be read"))
}

/// Reads what the run in a directory had joined to what.
pub fn read_topology(run: &Path) -> Result<Topology, RunDirError> {
    read_json(&run.join(TOPOLOGY))
}

/// Reads how fast the run in a directory was.
pub fn read_speed(run: &Path) -> Result<Speed, RunDirError> {
    read_json(&run.join(SPEED))
}

/// Reads where the run in a directory came from.
pub fn read_provenance(run: &Path) -> Result<Provenance, RunDirError> {
    read_json(&run.join(PROVENANCE))
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, RunDirError> {
    let text = fs::read_to_string(path).map_err(io_at(path, "can't be read"))?;
    serde_json::from_str(&text).map_err(|source| RunDirError::Json { path: path.to_owned(), source })
}

/// Empties a directory if all that is in it is an earlier run's; else removes nothing.
fn clear_earlier_run(path: &Path) -> Result<(), RunDirError> {
    if !path.is_dir() {
        return Err(RunDirError::NoDirectory { path: path.to_owned() });
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(io_at(path, "can't be listed"))? {
        let entry = entry.map_err(io_at(path, "can't be listed"))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let is_run = names.is_empty() || read_provenance(path).is_ok_and(|earlier| earlier.format == Provenance::FORMAT);
    if let Some(entry) = names.iter().find(|name| !is_run || !is_run_file(name)) {
        return Err(RunDirError::Occupied { path: path.to_owned(), entry: entry.clone() });
    }
    for name in names {
        let file = path.join(name);
        fs::remove_file(&file).map_err(io_at(&file, "is of an earlier run and can't be removed"))?;
    }
    Ok(())
}

fn is_run_file(name: &str) -> bool {
    let is_config = name.starts_with(CONFIG_OF) && name.ends_with(CONFIG_EXTENSION);
    let fixed = [
        PROVENANCE,
        CONFIG,
        TOPOLOGY,
        SCENARIO,
        SERIES,
        EVENTS,
        FCT,
        NS3_FCT,
        NS3_PFC,
        NS3_QLEN,
        SPEED,
        SUMMARY,
        SUMMARY_UNFINISHED,
    ];
    is_config
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

/// An instant in microseconds with all its digits, without a float on the way.
fn micros(at: Time) -> String {
    let ps = at.as_picos();
    format!("{}.{:06}", ps / 1_000_000, ps % 1_000_000)
}

/// As the CSV writer's errors are about I/O only, as all rows of a file have the same length.
fn csv_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}
