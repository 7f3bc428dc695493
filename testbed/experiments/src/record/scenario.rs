//! Scenario made of recorded messages.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use weir_config::SwitchConfig;
use weir_results::run_dir::Topology;
use weir_trace::{CapturedMessage, Recording};
use weir_units::{BitRate, Span};

use crate::Failure;

/// Hosts, topology and traffic classes around recorded messages.
pub(super) struct RecordedNetwork {
    hosts: BTreeMap<IpAddr, RecordedHost>,
    /// Scenario without its traffic and its end.
    base: toml::Table,
    /// Whether times count from the start of the recorded run.
    has_start: bool,
}

/// Host of recorded messages.
struct RecordedHost {
    name: String,
    /// Class of its messages by their DSCP: the priority group at its switch's port.
    group_of_dscp: [u8; 64],
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
        let mut configs: BTreeMap<String, Option<SwitchConfig>> = BTreeMap::new();
        let mut hosts = BTreeMap::new();
        for (place, host) in topology.hosts.into_iter().enumerate() {
            // An emulated host's address follows from its index.
            let address = IpAddr::from(Ipv4Addr::from(0x0a00_0000 + place as u32 + 1));
            let config = match configs.entry(host.at.switch.clone()) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    let files = ["config.toml".to_owned(), format!("config-{}.toml", host.at.switch)];
                    let file = files.map(|file| directory.join(file)).into_iter().find(|file| file.exists());
                    entry.insert(file.map(|file| weir_config::load(&file)).transpose()?)
                }
            };
            let group_of_dscp = match config {
                Some(config) => {
                    let port = config.ports.iter().position(|port| port.name == host.at.port);
                    port.map_or(&config.classes.map, |port| config.class_map(port)).group_of_dscp()
                }
                None => usual_classes(),
            };
            hosts.insert(address, RecordedHost { name: host.name, group_of_dscp });
        }
        Ok(Some(RecordedNetwork { hosts, base, has_start: true }))
    }

    /// Single switch with all hosts of a recording.
    pub(super) fn from_recording(recording: &Recording, rate: BitRate, delay: Span) -> RecordedNetwork {
        let between_hosts = recording.messages.iter().filter(|sent| sent.from != sent.to);
        let addresses: BTreeSet<IpAddr> = between_hosts.flat_map(|sent| [sent.from, sent.to]).collect();
        let host = |number: u32| RecordedHost { name: format!("H{number}"), group_of_dscp: usual_classes() };
        let hosts: BTreeMap<IpAddr, RecordedHost> =
            addresses.into_iter().zip(1..).map(|(address, number)| (address, host(number))).collect();
        let table = |pairs: &[(&str, &str)]| -> toml::Table {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect()
        };
        let port = table(&[("rate", &rate.to_string()), ("delay", &delay.to_string())]);
        let mut switch = toml::Table::new();
        switch.insert("buffer".into(), table(&[("size", "16MB")]).into());
        switch.insert("classes".into(), table(&[("preset", "roce")]).into());
        switch.insert("port".into(), port.into());
        let own = |RecordedHost { name, .. }: &RecordedHost| {
            table(&[("name", name), ("port", &format!("S1.{}", name.to_lowercase()))]).into()
        };
        let mut base = toml::Table::new();
        base.insert("switch".into(), switch.into());
        base.insert("switches".into(), vec![toml::Value::from(table(&[("name", "S1")]))].into());
        base.insert("hosts".into(), hosts.values().map(own).collect::<Vec<toml::Value>>().into());
        RecordedNetwork { hosts, base, has_start: false }
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
        // By transport, class, and the DSCP that the scenario gives it, which all senders of a workload have in common.
        let (mut lists, mut left_out, mut last) = (BTreeMap::<(bool, u8, usize), String>::new(), 0, 0);
        for sent in &recording.messages {
            let (Some(from), Some(to)) = (self.hosts.get(&sent.from), self.hosts.get(&sent.to)) else {
                left_out += 1;
                continue;
            };
            if from.name == to.name {
                left_out += 1;
                continue;
            }
            let at = (sent.at.0 - origin).max(0);
            last = last.max(at);
            let class = from.group_of_dscp[usize::from(sent.dscp & 63)];
            let first = from.group_of_dscp.iter().position(|group| *group == class).unwrap_or_default();
            let list =
                lists.entry((sent.is_tcp, class, first)).or_insert_with(|| "start_us,from,to,bytes\n".to_owned());
            let micros = format!("{}.{:06}", at / 1_000_000, at % 1_000_000);
            for bytes in pieces(sent) {
                let _ = writeln!(list, "{micros},{},{},{bytes}", from.name, to.name);
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
        let mut named = None;
        for ((is_tcp, class, first), list) in lists {
            let mut name = format!("{}-{class}", if is_tcp { "tcp" } else { "rdma" });
            if named.replace((is_tcp, class)) == Some((is_tcp, class)) {
                name += &format!("-dscp{first}");
            }
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
            let _ = writeln!(scenario, "# {} is {address}", host.name);
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
    use weir_results::run_dir::{HostPlace, PortName};
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

    /// Two hosts whose ports give class 3 different DSCPs, on two switches.
    #[test]
    fn a_message_has_the_class_of_its_senders_port() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let switch = |name: &str, keys: &str| {
            format!(
                "[switch]\nname = \"{name}\"\n[[ports]]\nname = \"up\"\nnull = {{}}\nrate = \"10Gbps\"\n\
                 [[ports]]\nname = \"h\"\nnull = {{}}\nrate = \"10Gbps\"\n{keys}"
            )
        };
        let keys = "dscp = { 10 = 5, 3 = 1 }\ntc_to_pg = { 5 = 3 }\ntc_to_queue = { 5 = 3 }\n";
        write("config-S1.toml", &switch("S1", ""));
        write("config-S2.toml", &switch("S2", keys));
        let scenario = "[scenario]\nend = \"1ms\"\n\
                        [[switches]]\nname = \"S1\"\nconfig = \"config-S1.toml\"\n\
                        [[switches]]\nname = \"S2\"\nconfig = \"config-S2.toml\"\n\
                        [[links]]\nends = [\"S1.up\", \"S2.up\"]\n\
                        [[hosts]]\nname = \"A\"\nport = \"S1.h\"\n[[hosts]]\nname = \"B\"\nport = \"S2.h\"\n";
        write("scenario.toml", scenario);
        let host = |name: &str, switch: &str| HostPlace {
            name: name.to_owned(),
            at: PortName { switch: switch.to_owned(), port: "h".to_owned() },
            ..HostPlace::default()
        };
        let topology = Topology {
            switches: vec!["S1".to_owned(), "S2".to_owned()],
            hosts: vec![host("A", "S1"), host("B", "S2")],
            ..Topology::default()
        };
        write("topology.json", &serde_json::to_string(&topology).unwrap());
        let address = |host: u8| IpAddr::from([10, 0, 0, host]);
        let from = |host: u8, dscp: u8| CapturedMessage {
            from: address(host),
            to: address(3 - host),
            ..sent(0, 1, 2, dscp, 600)
        };
        let all = vec![from(1, 3), from(2, 10), from(2, 3)];
        let recording = Recording { last: all[0].at, messages: all, ..Recording::default() };
        let network = RecordedNetwork::from_run_dir(folder.path()).unwrap().unwrap();
        let made = network.scenario(&recording, "a.pcap", "made").unwrap();
        let lists: Vec<(&str, &str)> = made
            .data_files
            .iter()
            .map(|(name, list)| (&**name, list.lines().nth(1).unwrap().split_once(',').unwrap().1))
            .collect();
        assert_eq!(
            lists,
            [("made-rdma-1.csv", "B,A,600"), ("made-rdma-3.csv", "A,B,600"), ("made-rdma-3-dscp10.csv", "B,A,600")]
        );
        made.data_files.iter().for_each(|(name, text)| write(name, text));
        write("made.toml", &made.scenario);
        let runs = weir_scenario::file::load(&folder.path().join("made.toml"));
        let runs = runs.unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        let points = runs[0].scenario.traffic.iter().map(|plan| plan.points[0].1.get());
        assert_eq!(points.collect::<Vec<u8>>(), [0, 3, 10]);
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
