//! Provenance of a run.

use std::fs;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// Provenance of a run: format, program, command line, start and machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// Name and version of the file format: [`Provenance::FORMAT`].
    pub format: String,
    /// Version of the program.
    pub version: String,
    /// Program and arguments.
    pub command_line: Vec<String>,
    /// Start of the run, in UTC (RFC 3339).
    pub started: String,
    /// Machine of the run.
    pub machine: MachineInfo,
}

/// Machine, by the properties that determine its speed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineInfo {
    /// Model name of the CPU; "unknown" if the system does not report it.
    pub cpu: String,
    /// CPUs that the process may use.
    pub cores: usize,
    /// Operating system and kernel release.
    pub kernel: String,
    /// Memory in MiB; 0 if the system does not report it.
    pub memory_mib: u64,
}

impl Provenance {
    /// Format of this version's run directories.
    pub const FORMAT: &str = "weir-run-2";
    /// Earlier formats that this version reads: `weir-run-1` has no record of a lab switch.
    const EARLIER: &[&str] = &["weir-run-1"];

    /// Creates the provenance of a run on this machine. The first word of `command_line` is the program.
    pub fn new(version: &str, command_line: impl IntoIterator<Item = String>, started: SystemTime) -> Provenance {
        let started = jiff::Timestamp::try_from(started).map_or_else(|_| "unknown".to_owned(), |time| time.to_string());
        Provenance {
            format: Provenance::FORMAT.to_owned(),
            version: version.to_owned(),
            command_line: command_line.into_iter().collect(),
            started,
            machine: MachineInfo::here(),
        }
    }

    /// Whether this version reads the format.
    pub fn is_known(&self) -> bool {
        self.format == Provenance::FORMAT || Provenance::EARLIER.contains(&self.format.as_str())
    }
}

impl MachineInfo {
    /// Reads the properties of this machine.
    pub fn here() -> MachineInfo {
        let unknown = || "unknown".to_owned();
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
        let memory_kib = value_of(&meminfo, "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        MachineInfo {
            cpu: value_of(&cpuinfo, "model name").map_or_else(unknown, str::to_owned),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: release.map_or_else(unknown, |release| format!("{} {}", std::env::consts::OS, release.trim())),
            memory_mib: memory_kib.unwrap_or(0) / 1_024,
        }
    }
}

/// The value of the first `name : value` line.
fn value_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(key, value)| (key.trim(), value.trim())).find(|(key, _)| *key == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn start_is_in_utc() {
        let provenance = Provenance::new("0.1.0", ["weir".to_owned()], UNIX_EPOCH + Duration::from_secs(86_400));
        assert_eq!(provenance.started, "1970-01-02T00:00:00Z");
    }

    #[test]
    fn proc_files_are_read() {
        let text = "processor\t: 0\nmodel name\t: A CPU @ 3.60GHz\nmodel name\t: B\n";
        assert_eq!(value_of(text, "model name"), Some("A CPU @ 3.60GHz"));
        assert_eq!(value_of("MemTotal:       24594912 kB\n", "MemTotal"), Some("24594912 kB"));
        assert!(MachineInfo::here().cores > 0);
    }
}
