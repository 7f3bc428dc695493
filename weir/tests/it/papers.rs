//! The papers' experiments, quick: each comes to the verdict that it had, and to another one where the scheme is broken on purpose.
//!
//! Minutes of virtual time, and so not among the tests that are run with all others: `make papers`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// What the quick runs come to. A change here is a change of what Weir does, and is to be understood before it is written down.
const VERDICTS: &[(&str, &str)] = &[
    ("gfc.5", "holds"),
    ("gfc.9", "holds-in-part"),
    ("gfc.10", "holds-in-part"),
    ("gfc.12", "holds-in-part"),
    ("gfc.13", "holds-in-part"),
    ("gfc.14", "holds-in-part"),
    ("gfc.20", "does-not-hold"),
    ("dsh.4", "arithmetic"),
    ("dsh.14", "holds-in-part"),
    ("dsh.15", "holds"),
    ("dsh.16", "does-not-hold"),
    ("reverie.4", "holds"),
    ("reverie.5", "holds"),
    ("reverie.10", "does-not-hold"),
    ("spfc.4", "does-not-hold"),
    ("spfc.5", "does-not-hold"),
    ("spfc.6", "does-not-hold"),
    ("spfc.9", "holds"),
    ("spfc.11", "does-not-hold"),
    ("spfc.12", "does-not-hold"),
    ("spfc.13", "does-not-hold"),
    ("spfc.14", "does-not-hold"),
];

/// A scheme that is broken on purpose: the experiment, what to lay over its scenario, and a claim that fails then.
const BROKEN: &[(&str, &[&str], &str)] = &[
    // B_1 above its bound: a sender is slowed down too late, and frames are lost.
    (
        "gfc.9",
        &[
            "runs.'GFC in turn'.switch.port.flow_control.b_1=990KB",
            "runs.'GFC in turn'.switch.port.flow_control.unsafe_thresholds=true",
        ],
        "GFC lets H1 send at 5 Gb/s, with each input in turn",
    ),
    // Each input has the share that it brings, and the ring fills up.
    (
        "gfc.9",
        &["runs.'GFC in turn'.switch.classes.queues=[{class=3, arbitration=\"arrival\"}]"],
        "GFC lets H1 send at 5 Gb/s, with each input in turn",
    ),
    (
        "gfc.12",
        &["runs.'GFC in turn'.switch.classes.queues=[{class=3, arbitration=\"arrival\"}]"],
        "F1 has 5 Gb/s under GFC, with each input in turn",
    ),
    (
        "gfc.13",
        &["runs.'GFC in turn'.switch.classes.queues=[{class=3, arbitration=\"arrival\"}]"],
        "F1 has 5 Gb/s under GFC, with each input in turn",
    ),
    (
        "gfc.14",
        &["runs.'GFC by time in turn'.switch.classes.queues=[{class=3, arbitration=\"arrival\"}]"],
        "F5 has its share of 5 Gb/s under GFC by time, with each input in turn",
    ),
    // A threshold that is 6 KB off.
    ("gfc.5", &["runs.GFC.switch.port.flow_control.b_0=56KB"], "under GFC the queue settles: it stays below 78 KB"),
    // With K_spfc = 1 no port is a victim.
    ("spfc.5", &["switch.buffer.spfc.k_spfc=1"], "SPFC sends no PAUSE on P0 (SIGCOMM)"),
    // Without insurance a queue has no headroom of its own.
    ("dsh.4", &["runs.DSH.switch.buffer.dsh.insurance=false"], "DSH's insurance takes an eighth of it"),
    // A filter that takes the queue as it is filters nothing.
    ("reverie.10", &["switch.buffer.reverie.gamma=0"], "PAUSEs fall dramatically as gamma goes to 1"),
];

fn papers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/papers")
}

/// The verdicts by id.
fn reproduce(arguments: &[&str]) -> (TempDir, BTreeMap<String, serde_json::Value>) {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("reproduce").args(arguments).arg("--quick").arg("--papers").arg(papers());
    let output = command.arg("-o").arg(directory.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    let mut verdicts = BTreeMap::new();
    for entry in fs::read_dir(directory.path()).unwrap() {
        let folder = entry.unwrap().path();
        let text = fs::read_to_string(folder.join("verdict.json")).unwrap();
        let id = folder.file_name().unwrap().to_string_lossy().into_owned();
        verdicts.insert(id, serde_json::from_str(&text).unwrap());
    }
    (directory, verdicts)
}

#[test]
#[ignore = "minutes of virtual time: make papers"]
fn each_comes_to_its_verdict_and_what_is_broken_on_purpose_to_another() {
    let (directory, verdicts) = reproduce(&["all"]);
    let found: BTreeMap<&str, &str> =
        verdicts.iter().map(|(id, outcome)| (id.as_str(), outcome["verdict"].as_str().unwrap())).collect();
    let reasons: Vec<String> = verdicts.iter().map(|(id, outcome)| format!("{id}: {:#}", outcome["reasons"])).collect();
    assert_eq!(found, VERDICTS.iter().copied().collect(), "{}", reasons.join("\n"));
    for id in found.keys() {
        for figure in
            ["figure.svg", "figure.png"].into_iter().filter(|name| cfg!(feature = "png") || !name.ends_with("png"))
        {
            assert!(directory.path().join(id).join(figure).is_file(), "{id} has no {figure}");
        }
    }
    for (id, settings, claim) in BROKEN {
        let set: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
        let (_directory, broken) = reproduce(&[&[*id], set.as_slice()].concat());
        let judged = |outcome: &serde_json::Value| {
            let claims = outcome["claims"].as_array().unwrap();
            let found = claims.iter().find(|one| one["says"] == *claim);
            found.unwrap_or_else(|| panic!("{id} claims no \"{claim}\""))["judgement"].clone()
        };
        let (sound, broken) = (&verdicts[*id], &broken[*id]);
        let was = if sound["verdict"] == "arithmetic" { "arithmetic" } else { "holds" };
        assert_eq!((judged(sound), judged(broken)), (was.into(), "fails".into()), "{id}: {broken:#}");
        assert_ne!(broken["verdict"], "holds", "{id} with {settings:?}");
    }
}

#[test]
#[ignore = "minutes of virtual time: make papers"]
fn all_points_of_the_full_sweeps_are_good_scenarios() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let output = command.args(["reproduce", "all", "--dry-run", "--papers"]).arg(papers()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    for (id, _) in VERDICTS {
        assert!(said.contains(&format!("\n{id}: ")), "{id}: {said}");
    }
}

/// What the papers have on testbeds, or could have had, real frames may run.
#[test]
#[cfg(feature = "dpdk")]
fn real_frames_may_run_six_of_them() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let arguments = ["reproduce", "all", "--backend", "dpdk", "--dry-run", "--papers"];
    let output = command.args(arguments).arg(papers()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let runs: Vec<&str> = said.lines().filter(|line| line.ends_with(" runs")).collect();
    let ids: Vec<&str> = runs.iter().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(ids, ["gfc.9", "gfc.10", "dsh.14", "spfc.4", "spfc.5", "spfc.12"], "{said}");
}

#[test]
fn every_experiment_says_where_it_is_from_and_is_in_order() {
    // Reads and checks all paper.toml files, scenarios not.
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let output = command.args(["reproduce", "--list", "--papers"]).arg(papers()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    for (id, _) in VERDICTS {
        assert!(said.contains(&format!("  {id} ")), "{id}: {said}");
    }
}
