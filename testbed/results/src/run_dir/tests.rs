mod page;

use std::time::UNIX_EPOCH;

use tempfile::TempDir;
use weir_nic::host::{ReceiverStats, SenderStats};
use weir_units::{BitRate, Bytes, Class, MacAddr, Span};

use super::*;

fn provenance() -> Provenance {
    Provenance::new("0.1.0", ["weir", "testbed"].map(str::to_owned), UNIX_EPOCH)
}

fn summary() -> Summary {
    let sent = SenderStats { payload: Bytes::mb(2), frames: 2_000, ..SenderStats::default() };
    let arrived = ReceiverStats { payload: Bytes::mb(1), lost: 3, ..ReceiverStats::default() };
    let class = ClassSummary { class: 3, drops: [("headroom_violation".to_owned(), 2)].into(), ..Default::default() };
    Summary {
        scenario: "victim".into(),
        backend: "dpdk".into(),
        policy: "dt".into(),
        parameters: [("alpha".to_owned(), "1/16".to_owned())].into(),
        time_dilation: 100,
        flows: vec![FlowSummary::new("F1", &sent, &arrived, Span::from_millis(1))],
        ports: vec![PortSummary {
            name: "p0".into(),
            host: "H0".into(),
            flow_control: "PFC".into(),
            classes: vec![class],
            ..PortSummary::default()
        }],
        windows: vec![Window {
            name: "burst".into(),
            flows: vec![FlowWindow::new("F1", Bytes::mb(1), Span::from_millis(1))],
            ports: vec![PortWindow::default()],
            ..Window::default()
        }],
        notes: vec!["two CPUs for all".into()],
        ..Summary::default()
    }
}

fn topology() -> Topology {
    let at = PortName { switch: "a".into(), port: "p0".into() };
    let outages = vec![OutageTimes { from_ns: 5, until_ns: None }];
    let host = HostPlace { name: "H0".into(), at, rate_bps: 1_000, outages, ..HostPlace::default() };
    Topology { switches: vec!["a".into()], hosts: vec![host], ..Topology::default() }
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Creates a run with every file.
fn whole_run(path: &Path) -> PathBuf {
    let run = RunDir::create(path, &provenance()).unwrap();
    run.write_config("[switch]\nname = \"a\"\n").unwrap();
    run.write_topology(&topology()).unwrap();
    run.write_scenario("[scenario]\n").unwrap();
    let mut series = run.series(Time::ZERO, &SeriesColumns::default()).unwrap();
    series.flush().unwrap();
    let mut events = run.events().unwrap();
    events.write(Time::ZERO, "p0", Some(Class::new(3)), EventKind::ResumeSent).unwrap();
    events.flush().unwrap();
    let mut fcts = run.fcts().unwrap();
    let (released, size, fct) = (Time::ZERO, Bytes::kb(64), Span::from_micros(9));
    fcts.write(&FctRow { flow: "F1", from: "H1", to: "H2", released, size, fct: Some(fct), ideal: None }).unwrap();
    fcts.flush().unwrap();
    let port = CapturePort { name: "p0".into(), mac: MacAddr::default(), rate: Some(BitRate::gbps(10)) };
    run.capture(&port).unwrap().finish().unwrap();
    run.finish(&summary()).unwrap()
}

const ALL: [&str; 9] = [
    "config.toml",
    "events.csv",
    "fct.csv",
    "p0.pcapng",
    "provenance.json",
    "scenario.toml",
    "series.csv",
    "summary.json",
    "topology.json",
];

#[test]
fn a_run_leaves_its_files_and_they_are_read_back() {
    let folder = TempDir::new().unwrap();
    let path = whole_run(&folder.path().join("runs/deep/name"));
    assert_eq!(names(&path), ALL);
    assert_eq!(read_summary(&path).unwrap(), summary());
    assert_eq!(read_provenance(&path).unwrap(), provenance());
    assert_eq!(read_topology(&path).unwrap(), topology());
    assert_eq!(summary().flows[0].throughput_bps, 8_000_000_000);
}

#[test]
fn an_earlier_run_is_replaced_whole() {
    let folder = TempDir::new().unwrap();
    let path = whole_run(&folder.path().join("run"));
    RunDir::create(&path, &provenance()).unwrap();
    assert_eq!(names(&path), ["provenance.json"], "nothing of the earlier run is left");
    assert!(read_summary(&path).unwrap_err().to_string().contains("summary.json: can't be read"));
}

#[test]
fn what_hosts_told_is_replaced_too_and_nothing_else_in_their_folder() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run");
    let made = RunDir::create(&path, &provenance()).unwrap();
    let files = [("H0.before.txt", "@nstat\n"), ("counters.csv", "host,counter,before,after\n")];
    made.write_hosts(&files.map(|(name, text)| (name.to_owned(), text.to_owned())).into()).unwrap();
    assert_eq!(fs::read_to_string(path.join("hosts/H0.before.txt")).unwrap(), "@nstat\n");
    RunDir::create(&path, &provenance()).unwrap();
    assert_eq!(names(&path), ["provenance.json"]);
    fs::create_dir(path.join("hosts")).unwrap();
    fs::write(path.join("hosts/thesis.tex"), "").unwrap();
    let error = RunDir::create(&path, &provenance()).unwrap_err();
    assert!(error.to_string().contains("`hosts/thesis.tex` in it is not a run's file"), "{error}");
    assert!(path.join("hosts/thesis.tex").exists() && path.join("provenance.json").exists());
}

#[test]
fn what_is_no_run_is_left_alone() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("thesis.tex"), "all I have").unwrap();
    let error = RunDir::create(folder.path(), &provenance()).unwrap_err();
    assert!(error.to_string().contains("`thesis.tex` in it is not a run's file"), "{error}");
    assert_eq!(names(folder.path()), ["thesis.tex"]);
}

#[test]
fn a_run_with_something_added_is_left_alone() {
    let folder = TempDir::new().unwrap();
    let path = whole_run(&folder.path().join("run"));
    fs::write(path.join("notes.txt"), "").unwrap();
    let error = RunDir::create(&path, &provenance()).unwrap_err();
    assert!(matches!(&error, RunDirError::Occupied { entry, .. } if entry == "notes.txt"), "{error}");
    assert_eq!(names(&path).len(), ALL.len() + 1);
}

#[test]
fn files_with_a_runs_names_but_no_provenance_are_left_alone() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("config.toml"), "mine").unwrap();
    assert!(matches!(RunDir::create(folder.path(), &provenance()), Err(RunDirError::Occupied { .. })));
    fs::write(folder.path().join("provenance.json"), "{}").unwrap();
    assert!(matches!(RunDir::create(folder.path(), &provenance()), Err(RunDirError::Occupied { .. })));
}

#[test]
fn what_can_not_be_made_is_named() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let text = RunDir::create(&file, &provenance()).unwrap_err().to_string();
    assert!(text.ends_with("file is a file: name a directory for the run"), "{text}");
    let text = RunDir::create(file.join("below"), &provenance()).unwrap_err().to_string();
    assert!(text.contains("file/below: can't be made: "), "{text}");
    let run = RunDir::create(folder.path().join("run"), &provenance()).unwrap();
    let port = CapturePort { name: "../p0".into(), mac: MacAddr::default(), rate: Some(BitRate::gbps(10)) };
    assert!(matches!(run.capture(&port), Err(RunDirError::PortName { .. })));
}

#[test]
fn times_keep_their_digits() {
    assert_eq!(micros(Time::from_picos(1_234_567_890_123)), "1234567.890123");
    assert_eq!(micros(Time::from_picos(5)), "0.000005");
}
