//! Quick runs of the papers' experiments: each keeps its verdict, and a mutation of the scheme fails one of its claims.
//!
//! Minutes of virtual time, and so not among the tests that are run with all others: `make papers`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Verdicts of the quick runs. A change is a change of Weir's behaviour: understand it before recording it.
const VERDICTS: &[(&str, &str)] = &[
    ("gfc.5", "holds"),
    ("gfc.9", "does-not-hold"),
    ("gfc.10", "does-not-hold"),
    ("gfc.12", "does-not-hold"),
    ("gfc.13", "does-not-hold"),
    ("gfc.14", "does-not-hold"),
    ("gfc.19", "does-not-hold"),
    ("gfc.20", "does-not-hold"),
    ("gfc.T1", "does-not-hold"),
    ("dsh.4", "arithmetic"),
    ("dsh.5", "does-not-hold"),
    ("dsh.6", "does-not-hold"),
    ("dsh.8", "does-not-hold"),
    ("dsh.14", "holds-in-part"),
    ("dsh.15", "holds"),
    ("dsh.16", "does-not-hold"),
    ("reverie.4", "holds"),
    ("reverie.5", "holds"),
    ("reverie.7", "does-not-hold"),
    ("reverie.8", "does-not-hold"),
    ("reverie.9", "holds-in-part"),
    ("reverie.10", "does-not-hold"),
    ("reverie.11", "does-not-hold"),
    ("reverie.12", "does-not-hold"),
    ("spfc.4", "does-not-hold"),
    ("spfc.5", "does-not-hold"),
    ("spfc.6", "does-not-hold"),
    ("spfc.9", "holds"),
    ("spfc.11", "does-not-hold"),
    ("spfc.12", "does-not-hold"),
    ("spfc.13", "does-not-hold"),
    ("spfc.14", "does-not-hold"),
    ("spfc.17", "does-not-hold"),
    ("spfc.18", "does-not-hold"),
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
fn each_comes_to_its_verdict_and_its_mutations_to_another() {
    let (directory, verdicts) = reproduce(&["all", "--mutations"]);
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
    // The command fails if a mutation is not detected; here, that each has some, a subtle one among them.
    for id in found.keys() {
        let text = fs::read_to_string(directory.path().join(id).join("mutations.json")).unwrap();
        let told: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
        assert!(told.len() >= 2 && told.iter().any(|one| one["subtle"] == true), "{id}: {told:#?}");
        for one in &told {
            let sides = [&one["sound"]["judgement"], &one["mutated"]["judgement"]];
            assert!(sides[0] != sides[1] && sides[1] == "fails", "{id}: {one:#}");
        }
    }
}

#[test]
#[ignore = "minutes of virtual time: make papers"]
fn all_points_of_the_full_sweeps_are_good_scenarios() {
    let all: Vec<&str> = VERDICTS.iter().map(|(id, _)| *id).collect();
    let has_farm = |id: &&str| {
        let paper = id.split('.').next().unwrap();
        papers().join(paper).join(id).join("farm.toml").is_file()
    };
    let farms: Vec<&str> = all.iter().copied().filter(has_farm).collect();
    assert!(!farms.is_empty());
    for (ids, farm) in [(all, &[][..]), (farms, &["--farm", "none"][..])] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.arg("reproduce").args(&ids).arg("--dry-run").args(farm).arg("--papers").arg(papers());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        for id in ids {
            assert!(said.contains(&format!("\n{id}: ")), "{id}: {said}");
        }
    }
}

/// Real frames may run experiments that a testbed can.
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
