//! Scenario made of recorded messages.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use weir_results::run_dir::Topology;
use weir_trace::{CapturedMessage, Recording};
use weir_units::{BitRate, Span};

use crate::Failure;

/// Hosts, topology and traffic classes around recorded messages.
pub(super) struct RecordedNetwork {
    /// Names of the hosts.
    hosts: BTreeMap<IpAddr, String>,
    /// Scenario without its traffic and its end.
    base: toml::Table,
    class_of_dscp: [u8; 64],
    /// Whether times count from the start of the recorded run.
    has_start: bool,
}

/// Generated scenario, with the files that it names.
pub(super) struct GeneratedScenario {
    pub(super) scenario: String,
    pub(super) data_files: Vec<(String, String)>,
    pub(super) messages: u64,
    pub(super) hosts: usize,
    /// Omitted messages: of unknown hosts, or to the sending host.
    pub(super) left_out: u64,
}

/// Switch with the usual classes of RDMA hosts.
const CLASSES: &str = "[classes]\npreset = \"roce\"\n[[ports]]\nname = \"a\"\nring = \"a\"\nrate = \"10Gbps\"\n\
                       [[ports]]\nname = \"b\"\nring = \"b\"\nrate = \"10Gbps\"\n";

/// Keys of a scenario that define traffic or refer to it.
const TRAFFIC: [&str; 5] = ["flows", "workloads", "capture", "windows", "runs"];

impl RecordedNetwork {
    /// Reads the parts from a run directory of `weir testbed run`; `None` for another directory.
    pub(super) fn from_run_dir(directory: &Path) -> Result<Option<RecordedNetwork>, Failure> {
        let wrong = |file: &str, what: String| Failure::Argument(format!("{}: {what}", directory.join(file).display()));
        let Ok(text) = fs::read_to_string(directory.join("scenario.toml")) else { return Ok(None) };
        let mut base: toml::Table =
            text.parse().map_err(|error: toml::de::Error| wrong("scenario.toml", error.to_string()))?;
        TRAFFIC.iter().for_each(|key| drop(base.remove(*key)));
        let text = fs::read_to_string(directory.join("topology.json"));
        let text = text.map_err(|error| wrong("topology.json", error.to_string()))?;
        let topology: Topology =
            serde_json::from_str(&text).map_err(|error| wrong("topology.json", error.to_string()))?;
        // An emulated host's address follows from its index.
        let address = |place: usize| IpAddr::from(Ipv4Addr::from(0x0a00_0000 + place as u32 + 1));
        let hosts = topology.hosts.into_iter().enumerate().map(|(place, host)| (address(place), host.name)).collect();
        let files = ["config.toml".to_owned()].into_iter();
        let files = files.chain(topology.switches.iter().map(|switch| format!("config-{switch}.toml")));
        let config = files.map(|file| directory.join(file)).find(|file| file.exists());
        let class_of_dscp = match config {
            Some(file) => weir_config::load(&file)?.classes.map.group_of_dscp(),
            None => usual_classes(),
        };
        Ok(Some(RecordedNetwork { hosts, base, class_of_dscp, has_start: true }))
    }

    /// Single switch with all hosts of a recording.
    pub(super) fn from_recording(recording: &Recording, rate: BitRate, delay: Span) -> RecordedNetwork {
        let between_hosts = recording.messages.iter().filter(|sent| sent.from != sent.to);
        let addresses: BTreeSet<IpAddr> = between_hosts.flat_map(|sent| [sent.from, sent.to]).collect();
        let hosts: BTreeMap<IpAddr, String> =
            addresses.into_iter().zip(1..).map(|(address, number)| (address, format!("H{number}"))).collect();
        let table = |pairs: &[(&str, &str)]| -> toml::Table {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect()
        };
        let port = table(&[("rate", &rate.to_string()), ("delay", &delay.to_string())]);
        let mut switch = toml::Table::new();
        switch.insert("buffer".into(), table(&[("size", "16MB")]).into());
        switch.insert("classes".into(), table(&[("preset", "roce")]).into());
        switch.insert("port".into(), port.into());
        let own = |name: &String| table(&[("name", name), ("port", &format!("S1.{}", name.to_lowercase()))]).into();
        let mut base = toml::Table::new();
        base.insert("switch".into(), switch.into());
        base.insert("switches".into(), vec![toml::Value::from(table(&[("name", "S1")]))].into());
        base.insert("hosts".into(), hosts.values().map(own).collect::<Vec<toml::Value>>().into());
        RecordedNetwork { hosts, base, class_of_dscp: usual_classes(), has_start: false }
    }

    /// Builds the scenario; `stem` is the name prefix of its other files.
    pub(super) fn scenario(
        mut self,
        recording: &Recording,
        sources: &str,
        stem: &str,
    ) -> Result<GeneratedScenario, Failure> {
        let origin = match self.has_start {
            true => 0,
            false => recording.messages.iter().map(|sent| sent.at.0).min().unwrap_or(0),
        };
        let (mut lists, mut left_out, mut last) = (BTreeMap::<(bool, u8), String>::new(), 0, 0);
        for sent in &recording.messages {
            let (Some(from), Some(to)) = (self.hosts.get(&sent.from), self.hosts.get(&sent.to)) else {
                left_out += 1;
                continue;
            };
            if from == to {
                left_out += 1;
                continue;
            }
            let at = (sent.at.0 - origin).max(0);
            last = last.max(at);
            let class = self.class_of_dscp[usize::from(sent.dscp & 63)];
            let list = lists.entry((sent.is_tcp, class)).or_insert_with(|| "start_us,from,to,bytes\n".to_owned());
            let micros = format!("{}.{:06}", at / 1_000_000, at % 1_000_000);
            for bytes in pieces(sent) {
                let _ = writeln!(list, "{micros},{from},{to},{bytes}");
            }
        }
        if lists.is_empty() {
            return Err(Failure::Argument(format!(
                "none of {} messages is between two hosts; those of a run directory have the addresses 10.0.0.1 and so on",
                recording.messages.len()
            )));
        }
        let messages = lists.values().map(|list| list.lines().count() as u64 - 1).sum();
        // A tenth longer than the recording; no message starts at the end or later.
        let lasts = (recording.last.0 - origin).max(last);
        let end = (lasts + lasts / 10) / 1_000_000 + 1_000;
        let scenario = self.base.entry("scenario").or_insert_with(|| toml::Table::new().into());
        if let Some(scenario) = scenario.as_table_mut() {
            scenario.insert("end".into(), format!("{end}us").into());
            scenario.remove("warm_up");
        }
        let mut data_files = Vec::new();
        let mut workloads: Vec<toml::Value> = Vec::new();
        for ((is_tcp, class), list) in lists {
            let name = format!("{}-{class}", if is_tcp { "tcp" } else { "rdma" });
            let file = format!("{stem}-{name}.csv");
            let mut workload = toml::Table::new();
            workload.insert("name".into(), name.into());
            workload.insert("kind".into(), "list".into());
            workload.insert("class".into(), i64::from(class).into());
            workload.insert("file".into(), file.clone().into());
            if is_tcp {
                workload.insert("transport".into(), "tcp-cubic".into());
            }
            workloads.push(workload.into());
            data_files.push((file, list));
        }
        self.base.insert("workloads".into(), workloads.into());
        let text = toml::to_string(&self.base).map_err(|error| Failure::Run(error.to_string()))?;
        let mut scenario = format!("# What was sent in {sources}, as weir record read it.\n");
        for (address, host) in &self.hosts {
            let _ = writeln!(scenario, "# {host} is {address}");
        }
        Ok(GeneratedScenario {
            scenario: scenario + "\n" + &text,
            data_files,
            messages,
            hosts: self.hosts.len(),
            left_out,
        })
    }
}

/// Sizes of the messages that carry a recorded message's bytes: one, or several above a scenario's maximum.
fn pieces(sent: &CapturedMessage) -> impl Iterator<Item = u64> {
    const MOST: u64 = 2 << 30;
    let bytes = sent.bytes;
    (0..bytes.div_ceil(MOST)).map(move |piece| (bytes - piece * MOST).min(MOST))
}

fn usual_classes() -> [u8; 64] {
    weir_config::parse("recorded", CLASSES).map_or([0; 64], |switch| switch.classes.map.dscp)
}

#[cfg(test)]
mod tests {
    use weir_trace::CaptureTime;

    use super::*;

    fn sent(at_ns: i128, from: u8, to: u8, dscp: u8, bytes: u64) -> CapturedMessage {
        let address = |host: u8| IpAddr::from([192, 168, 7, host]);
        let at = CaptureTime(5_000_000_000_000 + at_ns * 1_000);
        CapturedMessage {
            at,
            from: address(from),
            to: address(to),
            dscp,
            bytes,
            connection: 0,
            is_complete: true,
            is_tcp: false,
        }
    }

    /// The text is a scenario with the messages that were sent.
    #[test]
    fn a_recording_is_a_scenario_that_loads() {
        let all = vec![sent(0, 9, 3, 26, 600), sent(1_500, 3, 9, 26, 64_000), sent(2_000, 9, 5, 0, 100)];
        let recording = Recording { last: all[2].at, messages: all, ..Recording::default() };
        let around = RecordedNetwork::from_recording(&recording, BitRate::gbps(25), Span::from_micros(2));
        let made = around.scenario(&recording, "a.pcap", "made").unwrap();
        assert_eq!((made.messages, made.hosts, made.left_out), (3, 3, 0));
        assert!(made.scenario.contains("# H1 is 192.168.7.3"), "{}", made.scenario);
        assert_eq!(made.data_files[1].1, "start_us,from,to,bytes\n0.000000,H3,H1,600\n1.500000,H1,H3,64000\n");
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in made.data_files.iter().chain([&("made.toml".to_owned(), made.scenario.clone())]) {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let runs = weir_scenario::file::load(&folder.path().join("made.toml"));
        let runs = runs.unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        assert_eq!((runs.len(), runs[0].scenario.hosts.len()), (1, 3));
    }

    #[test]
    fn what_a_host_sends_to_itself_is_left_out() {
        let all = vec![sent(0, 9, 9, 26, 600), sent(1, 9, 3, 26, 700)];
        let recording = Recording { last: all[1].at, messages: all, ..Recording::default() };
        let around = |recording| RecordedNetwork::from_recording(recording, BitRate::gbps(25), Span::from_micros(2));
        let made = around(&recording).scenario(&recording, "a.pcap", "made").unwrap();
        assert_eq!((made.messages, made.hosts, made.left_out), (1, 2, 1));
        let alone = Recording { messages: recording.messages[..1].to_vec(), ..recording };
        assert!(around(&alone).scenario(&alone, "a.pcap", "made").is_err());
    }

    #[test]
    fn a_message_that_is_too_large_for_one_is_several() {
        let one = sent(0, 1, 2, 26, 5 << 30);
        assert_eq!(pieces(&one).collect::<Vec<_>>(), [2 << 30, 2 << 30, 1 << 30]);
    }
}
