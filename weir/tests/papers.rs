//! The papers' experiments, quick: each comes to the verdict that it had, and to another one where the scheme is broken on purpose.
//!
//! In release builds alone, since they are minutes of virtual time.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// What the quick runs come to. A change here is a change of what Weir does, and is to be understood before it is written down.
const VERDICTS: &[(&str, &str)] = &[];

fn papers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/papers")
}

/// The verdicts by id.
fn reproduce(arguments: &[&str]) -> (TempDir, BTreeMap<String, serde_json::Value>) {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("reproduce").args(arguments).arg("--quick").arg("--experiments").arg(papers());
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
#[cfg_attr(debug_assertions, ignore = "in release builds")]
fn each_comes_to_its_verdict() {
    let (directory, verdicts) = reproduce(&["all"]);
    let found: BTreeMap<&str, &str> =
        verdicts.iter().map(|(id, outcome)| (id.as_str(), outcome["verdict"].as_str().unwrap())).collect();
    let reasons: Vec<String> = verdicts.iter().map(|(id, outcome)| format!("{id}: {:#}", outcome["reasons"])).collect();
    assert_eq!(found, VERDICTS.iter().copied().collect(), "{}", reasons.join("\n"));
    for id in found.keys() {
        for figure in ["figure.svg", "figure.png"] {
            assert!(directory.path().join(id).join(figure).is_file(), "{id} has no {figure}");
        }
    }
}

/// Each with what to lay over it.
const BROKEN: &[(&str, &[&str])] = &[];

#[test]
#[cfg_attr(debug_assertions, ignore = "in release builds")]
fn a_scheme_that_is_broken_on_purpose_does_not_hold() {
    for (id, settings) in BROKEN {
        let set: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
        let (_directory, verdicts) = reproduce(&[&[*id], set.as_slice()].concat());
        let outcome = &verdicts[*id];
        assert_eq!(outcome["verdict"], "does-not-hold", "{id} with {settings:?}: {outcome:#}");
    }
}

#[test]
fn every_experiment_says_where_it_is_from_and_is_in_order() {
    // Reads and checks all paper.toml files, scenarios not.
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let output = command.args(["reproduce", "--list", "--experiments"]).arg(papers()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    for (id, _) in VERDICTS {
        assert!(said.contains(&format!("  {id} ")), "{id}: {said}");
    }
}
