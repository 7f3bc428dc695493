//! Quick runs of the papers' experiments: each keeps its verdict, and a mutation of the scheme fails one of its claims.
//!
//! Minutes of virtual time, and so not among the tests that are run with all others: `make papers`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Conclusions of the quick runs. A change is a change of Weir's behaviour: understand it before recording it.
const VERDICTS: &[(&str, &str)] = &[
    ("gfc.5", "reproduced"),
    ("gfc.9", "partly"),
    ("gfc.10", "partly"),
    ("gfc.12", "partly"),
    ("gfc.13", "partly"),
    ("gfc.14", "partly"),
    ("gfc.16", "reproduced"),
    ("gfc.17", "partly"),
    ("gfc.18", "reproduced"),
    ("gfc.19", "not"),
    ("gfc.20", "reproduced"),
    ("gfc.T1", "reproduced"),
    ("dsh.4", "arithmetic"),
    ("dsh.5", "reproduced"),
    ("dsh.6", "reproduced"),
    ("dsh.8", "reproduced"),
    ("dsh.14", "reproduced"),
    ("dsh.15", "reproduced"),
    ("dsh.16", "partly"),
    ("dsh.17", "partly"),
    ("dsh.20", "partly"),
    ("dsh.21", "reproduced"),
    ("dsh.22", "partly"),
    ("dsh.23", "partly"),
    ("dsh.24", "partly"),
    ("dsh.25", "partly"),
    ("reverie.4", "reproduced"),
    ("reverie.5", "reproduced"),
    ("reverie.7", "partly"),
    ("reverie.8", "partly"),
    ("reverie.9", "partly"),
    ("reverie.10", "reproduced"),
    ("reverie.11", "reproduced"),
    ("reverie.12", "reproduced"),
    ("spfc.4", "reproduced"),
    ("spfc.5", "reproduced"),
    ("spfc.6", "partly"),
    ("spfc.9", "reproduced"),
    ("spfc.11", "reproduced"),
    ("spfc.12", "reproduced"),
    ("spfc.13", "partly"),
    ("spfc.14", "partly"),
    ("spfc.15", "partly"),
    ("spfc.16", "partly"),
    ("spfc.17", "reproduced"),
    ("spfc.18", "reproduced"),
    ("spfc.T3", "partly"),
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

/// Runs these experiments, and compares their conclusions with [`VERDICTS`].
fn compare(expected: &BTreeMap<&str, &str>, options: &[&str]) -> TempDir {
    let ids: Vec<&str> = expected.keys().copied().collect();
    let (directory, verdicts) = reproduce(&[&ids[..], options].concat());
    let found: BTreeMap<&str, &str> =
        verdicts.iter().map(|(id, outcome)| (id.as_str(), outcome["conclusions"].as_str().unwrap())).collect();
    let reasons: Vec<String> = verdicts.iter().map(|(id, outcome)| format!("{id}: {:#}", outcome["reasons"])).collect();
    assert_eq!(found, *expected, "{}", reasons.join("\n"));
    for id in found.keys() {
        for figure in
            ["figure.svg", "figure.png"].into_iter().filter(|name| cfg!(feature = "png") || !name.ends_with("png"))
        {
            assert!(directory.path().join(id).join(figure).is_file(), "{id} has no {figure}");
        }
    }
    directory
}

#[test]
#[ignore = "a minute of virtual time: make papers-verdicts"]
fn short_ones_come_to_their_verdicts() {
    let short: BTreeMap<&str, &str> = VERDICTS.iter().copied().filter(|(id, _)| quick_seconds(id) <= 6.0).collect();
    assert!(short.len() > 20, "{short:?}");
    compare(&short, &[]);
}

/// CPU seconds of the quick run, by its `paper.toml`.
fn quick_seconds(id: &str) -> f64 {
    let paper = id.split('.').next().unwrap();
    let text = fs::read_to_string(papers().join(paper).join(id).join("paper.toml")).unwrap();
    let table: toml::Table = text.parse().unwrap();
    let takes = &table["takes"];
    // Some have no reduced form.
    takes.get("quick").unwrap_or(&takes["full"]).as_str().unwrap().trim_end_matches('s').parse().unwrap()
}

#[test]
#[ignore = "minutes of virtual time: make papers"]
fn each_mutation_brings_another_verdict() {
    let directory = compare(&VERDICTS.iter().copied().collect(), &["--mutations"]);
    // The command fails if a mutation is not detected; here, that each has some, a subtle one among them.
    for (id, _) in VERDICTS {
        let text = fs::read_to_string(directory.path().join(id).join("mutations.json")).unwrap();
        let told: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
        assert!(told.len() >= 2 && told.iter().any(|one| one["subtle"] == true), "{id}: {told:#?}");
        for one in &told {
            let sides = [&one["sound"]["judgement"], &one["mutated"]["judgement"]];
            assert!(sides[0] != sides[1] && (sides[1] == "fails" || sides[1] == "not-exercised"), "{id}: {one:#}");
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

#[test]
fn all_maps_have_good_settings() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let output = command.args(["explore", "all", "--dry-run", "--papers"]).arg(papers()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("dsh.16: 36 settings"), "{said}");
}

#[test]
fn experiments_with_collectives_have_good_points_and_settings() {
    let folder = papers().join("../ai-fabrics");
    for (command, mode) in [("reproduce", None), ("reproduce", Some("--quick")), ("explore", None)] {
        let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
        let output = weir.arg(command).arg(&folder).arg("--dry-run").args(mode).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("ai.3: "), "{said}");
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

#[test]
fn every_conclusion_that_does_not_come_out_has_a_cause() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let output = command.args(["reproduce", "--list", "--json", "--papers"]).arg(papers()).output().unwrap();
    let all: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert!(all.len() >= 47, "{}", all.len());
    for figure in all {
        let comes_out = ["reproduced", "arithmetic"].map(Into::into).contains(&figure["conclusions"]);
        assert_eq!(comes_out, figure["cause"].is_null(), "{figure}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["reproduce", "--list", "gfc.19", "--papers"])
        .arg(papers())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("gfc.19: Why not all main claims come out: each change") && !said.contains("gfc.9 "),
        "{said}"
    );
}
