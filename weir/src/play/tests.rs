use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use weir_results::run_dir::{Provenance, RunDir};
use weir_scenario::file;
use weir_sim::{SimBackend, Threads};
use weir_web::Server;

use super::*;

/// Site of live runs that begin in a pause, in a folder of its own.
struct LiveRuns {
    server: Server,
    folder: tempfile::TempDir,
}

impl LiveRuns {
    fn new() -> LiveRuns {
        let folder = tempfile::tempdir().unwrap();
        let site = LiveRunsSite::new(folder.path().to_owned(), Span::ZERO);
        let server = HttpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap().serve(Box::new(site)).unwrap();
        LiveRuns { server, folder }
    }

    /// Status and body of an answer.
    fn ask(&self, method: &str, target: &str) -> (u16, String) {
        let mut client = connect(self.server.address(), method, target);
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_owned())
    }

    fn change(&self, target: &str) -> (u16, String) {
        self.ask("POST", target)
    }

    /// Follows the stream until a run's rows and events fulfil a condition.
    fn follow(&self, is_enough: impl Fn(&Follower) -> bool) -> Follower {
        let mut lines = BufReader::new(connect(self.server.address(), "GET", "/api/stream")).lines();
        let mut follower = Follower::default();
        while !is_enough(&follower) {
            let line = lines.next().expect("the stream goes on").unwrap();
            if let Some(data) = line.strip_prefix("data: ") {
                follower.take(&serde_json::from_str(data).unwrap());
            }
        }
        follower
    }
}

fn connect(address: SocketAddr, method: &str, target: &str) -> TcpStream {
    let mut client = TcpStream::connect(address).unwrap();
    write!(client, "{method} {target} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    client
}

/// News of a session, put together.
#[derive(Default)]
struct Follower {
    last: Value,
    runs: Vec<FollowedRun>,
}

#[derive(Default)]
struct FollowedRun {
    about: Value,
    header: Vec<String>,
    rows: Vec<Vec<Option<f64>>>,
    events: Vec<Vec<String>>,
}

impl Follower {
    fn take(&mut self, news: &Value) {
        let runs = news["runs"].as_array().cloned().unwrap_or_default();
        self.runs.resize_with(runs.len(), FollowedRun::default);
        for (run, news) in self.runs.iter_mut().zip(runs) {
            if news["about"].is_object() {
                run.about = news["about"].clone();
                run.header = serde_json::from_value(news["header"].clone()).unwrap();
            }
            run.rows.extend(serde_json::from_value::<Vec<_>>(news["rows"].clone()).unwrap());
            run.events.extend(serde_json::from_value::<Vec<_>>(news["events"].clone()).unwrap());
        }
        self.last = news.clone();
    }

    fn is_over(&self) -> bool {
        !self.runs.is_empty()
            && self.last["runs"].as_array().is_some_and(|runs| runs.iter().all(|run| run["outcome"].is_array()))
    }
}

impl FollowedRun {
    fn column(&self, name: &str) -> Vec<f64> {
        let place = self.header.iter().position(|column| column == name).unwrap_or_else(|| panic!("{name}"));
        self.rows.iter().filter_map(|row| row[place]).collect()
    }

    fn marks(&self) -> Vec<&str> {
        self.events.iter().filter(|event| event[3] == "mark").map(|event| event[4].as_str()).collect()
    }
}

/// Asserts that the scenario that a live run's directory has makes the same files again.
fn assert_repeats(directory: &Path) {
    let runs = file::load(&directory.join("scenario.toml")).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    let name = |run: &str| run.to_lowercase().replace(' ', "-");
    let run = runs.iter().find(|run| directory.ends_with(name(&run.name))).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let again = folder.path().join("again");
    let provenance = Provenance::new("test", std::env::args(), std::time::UNIX_EPOCH);
    let threads = Threads::Exactly(std::num::NonZeroUsize::MIN);
    let backend = SimBackend { expects: run.expects, ns3_files: false, threads };
    let run_dir = RunDir::create(&again, &provenance).unwrap();
    backend.run(&run.scenario, run_dir, &mut |_| {}, &AtomicBool::new(false)).unwrap();
    for file in ["series.csv", "events.csv", "fct.csv", "summary.json", "topology.json"] {
        let [live, repeated] = [directory, &again].map(|of| fs::read(of.join(file)).unwrap());
        assert!(live == repeated, "{file} of {} differs", directory.display());
    }
}

#[test]
fn alpha_changes_the_running_switch_and_the_record_repeats_the_run() {
    let live = LiveRuns::new();
    assert_eq!(live.change("/api/set?name=alpha&value=1/8"), (400, "nothing runs: start a scenario\n".to_owned()));
    assert_eq!(live.change("/api/start?scenario=incast").0, 200);
    // In a pause the first sample is there, and no other.
    let paused = live.follow(|follower| follower.runs.iter().any(|run| !run.rows.is_empty()));
    assert_eq!((paused.runs.len(), paused.runs[0].rows.len()), (1, 1));
    assert_eq!(paused.runs[0].rows[0][0], Some(50.0));
    let (status, body) = live.change("/api/set?name=alpha&value=1%2F64");
    assert_eq!((status, body.as_str()), (200, "{\"at_ms\":0.051}"), "a microsecond after the last sample");
    assert_eq!(live.change("/api/speed?value=1s").0, 200);
    let over = live.follow(Follower::is_over);
    let run = &over.runs[0];
    let thresholds = run.column("H1.3.threshold_bytes");
    let capacity = run.column("pool.capacity_bytes")[0];
    // T = α (B - Q): 1/2 of the buffer while little is used, and no more than 1/64 from the change on.
    assert!(thresholds[0] > capacity / 4.0, "{}", thresholds[0]);
    let later = thresholds[1..].iter().copied().fold(0.0, f64::max);
    assert!(later <= capacity / 64.0 && later > capacity / 128.0, "{later} of {capacity}");
    assert_eq!(run.marks(), ["set buffer.dt.alpha=1/64"]);
    assert_eq!(over.last["values"]["alpha"], "1/64");
    let (status, why) = live.change("/api/set?name=alpha&value=1");
    assert!(status == 400 && why.contains("at their end"), "{why}");
    assert_repeats(&live.folder.path().join("incast-1/incast"));
}

#[test]
fn two_runs_go_side_by_side_and_only_one_deadlocks() {
    let live = LiveRuns::new();
    assert_eq!(live.change("/api/start?scenario=ring").0, 200);
    assert_eq!(live.change("/api/speed?value=1s").0, 200);
    let over = live.follow(Follower::is_over);
    let labels: Vec<&Value> = over.runs.iter().map(|run| &run.about["label"]).collect();
    assert_eq!(labels, ["PFC", "GFC"]);
    let deadlocks = over.runs.iter().map(|run| run.events.iter().filter(|event| event[3] == "deadlock").count());
    assert_eq!(deadlocks.collect::<Vec<_>>(), [1, 0]);
    let states = over.last["runs"].as_array().unwrap();
    assert!(states[0]["deadlock_ms"].as_f64().is_some_and(|at| at < 10.0) && states[1]["deadlock_ms"].is_null());
    let received = |run: &FollowedRun| run.column("F1.received_bps").last().copied();
    assert!(received(&over.runs[0]) == Some(0.0) && received(&over.runs[1]) > Some(0.0));
    // A key that is fixed while a switch runs starts the runs again, with the values of the others.
    assert_eq!(live.change("/api/speed?value=0s").0, 200);
    let (status, body) = live.change("/api/set?name=b_1&value=500KB");
    assert_eq!((status, body.as_str()), (200, "{\"session\":2}"));
    let again = live.follow(|follower| follower.last["session"] == 2);
    assert_eq!(again.last["values"], serde_json::json!({ "xoff": "800KB", "b_1": "500KB" }));
    assert!(live.folder.path().join("ring-2/gfc/scenario.toml").exists());
}

#[test]
fn wrong_values_get_a_message_without_a_file_and_change_nothing() {
    let live = LiveRuns::new();
    assert_eq!(live.change("/api/start?scenario=headroom").0, 200);
    live.follow(|follower| follower.runs.iter().any(|run| !run.rows.is_empty()));
    for (target, message) in [
        ("set?name=xoff&value=12", "`threshold`: \"12\" is not a size with its unit"),
        ("set?name=xoff&value=900MB", "threshold"),
        ("set?name=headroom&value=0.5", "headroom"),
        ("set?name=delay&value=10%0A", "is no value"),
        ("set?name=alpha&value=1", "no parameter of headroom: there are xoff, headroom, delay"),
        ("start?scenario=fog", "no scenario is named `fog`: there are incast, ring, victim, headroom, ecn"),
        ("speed?value=2s", "no virtual time per second"),
    ] {
        let (status, why) = live.change(&format!("/api/{target}"));
        assert!(status == 400 && why.contains(message), "{target}: {status} {why}");
        assert!(!why.contains(".toml") && !why.contains("-->"), "{target}: {why}");
    }
    assert_eq!(live.change("/api/stop").0, 404);
    assert_eq!(live.ask("GET", "/api/set?name=xoff&value=20KB").0, 404, "a look changes nothing");
    let now = live.follow(|follower| !follower.runs.is_empty());
    assert_eq!((&now.last["session"], &now.last["values"]["xoff"]), (&1.into(), &"150KB".into()));
    assert_eq!(now.runs[0].rows.len(), 1);
}
