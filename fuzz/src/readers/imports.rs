//! Files of other programs: ns-3's simulators, schedules in GOAL, SONiC's tables.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use tempfile::TempDir;
use weir_scenario::import::{FabricOptions, ImportErrors, ImportedScenario, goal as goal_import, ns3 as ns3_import};

use super::texts::check_errors;
use super::{assert_line, bounded, write};
use crate::CaseOutcome;
use crate::input::FuzzInput;
use crate::mutation::{SeedFiles, repository};

/// A folder of files that belong together, of which each input edits one.
#[derive(Debug)]
struct ImportFolder {
    files: Vec<(String, Vec<u8>)>,
}

impl ImportFolder {
    fn read(path: &str) -> ImportFolder {
        let folder = repository().join(path);
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let paths = entries.map(|entry| entry.expect("a folder that can be read").path()).filter(|path| path.is_file());
        let name = |path: &Path| path.file_name().expect("a file's name").to_string_lossy().into_owned();
        let mut files: Vec<_> =
            paths.map(|path| (name(&path), fs::read(&path).expect("a file that can be read"))).collect();
        files.sort();
        ImportFolder { files }
    }

    /// Draws an experiment, and writes its files, with edits of one, into a new folder.
    fn draw(all: &[ImportFolder], input: &mut FuzzInput<'_>) -> (TempDir, Vec<(String, String)>) {
        let folder = TempDir::new().expect("a folder for files");
        let experiment = input.one_of(all);
        let edited = input.below(experiment.files.len());
        let mut texts = Vec::new();
        for (number, (name, content)) in experiment.files.iter().enumerate() {
            let content = if number == edited {
                let others = experiment.files.iter().map(|(_, content)| content.clone());
                // The file itself is the likely one.
                SeedFiles::new(std::iter::repeat_n(content.clone(), 8).chain(others).collect()).draw(input)
            } else {
                content.clone()
            };
            write(&folder.path().join(name), &content);
            texts.push((name.clone(), String::from_utf8_lossy(&content).into_owned()));
        }
        (folder, texts)
    }
}

static NS3: LazyLock<[ImportFolder; 4]> = LazyLock::new(|| {
    ["hpcc", "conweave", "inet-tub", "reverie"]
        .map(|name| ImportFolder::read(&format!("testbed/sim/tests/import/{name}")))
});
static SONIC: LazyLock<[ImportFolder; 4]> = LazyLock::new(|| {
    ["rendered/th", "rendered/td2", "sn2700", "th2"].map(|name| ImportFolder::read(&format!("weir/tests/sonic/{name}")))
});
static GOAL: LazyLock<SeedFiles> = LazyLock::new(|| {
    let text = "num_ranks 3\n\nrank 0 {\nl1: calc 1000\nl2: send 65536b to 1 tag 7 cpu 0 nic 0\nl2 requires l1\nl3: recv 8b from 2 tag 1\n}\n\
                rank 1 {\nl1: recv 65536b from 0 tag 7\nl2: calc 200\nl2 irequires l1\nl3: send 8b to 2\nl3 requires l2\n}\n\
                rank 2 {\nr: recv 8b from 1\ns: send 8b to 0 tag 1\ns requires r\n}\n";
    let two = "num_ranks 2\nrank 0 {\n  l0: send 10b to 1 tag 0\n}\nrank 1 {\n  l0: recv 10b from 0 tag 0\n}\n";
    SeedFiles::new(vec![text.into(), two.into()])
});

/// Imports an experiment of ns-3's simulators.
///
/// # Panics
/// If an invariant does not hold.
pub fn ns3(bytes: &[u8]) -> CaseOutcome {
    let (folder, texts) = ImportFolder::draw(&*NS3, &mut FuzzInput::new(bytes));
    let line = fs::read_to_string(folder.path().join("arguments")).ok();
    bounded(|| {
        let import = || {
            let arguments = line.as_deref().map(ns3_import::Arguments::parse).transpose()?;
            let sources = ns3_import::Sources::find_for(&[folder.path().to_owned()], arguments.as_ref())?;
            let options = ns3_import::Options { stem: "fuzz".to_owned(), arguments, ..ns3_import::Options::default() };
            ns3_import::import(&sources, &options)
        };
        check(import(), &texts)
    })
}

/// Imports a schedule in GOAL, as text or binary.
///
/// # Panics
/// If an invariant does not hold.
pub fn goal(bytes: &[u8]) -> CaseOutcome {
    let content = GOAL.draw(&mut FuzzInput::new(bytes));
    let folder = TempDir::new().expect("a folder for files");
    let schedule = folder.path().join("fuzz.goal");
    write(&schedule, &content);
    let texts = [("fuzz.goal".to_owned(), String::from_utf8_lossy(&content).into_owned())];
    let options =
        goal_import::GoalOptions { stem: "fuzz".to_owned(), schedule: &schedule, fabric: FabricOptions::default() };
    bounded(|| check(goal_import::import(&options), &texts))
}

/// Makes a switch file of SONiC's tables.
///
/// # Panics
/// If an invariant does not hold.
pub fn sonic(bytes: &[u8]) -> CaseOutcome {
    let (folder, _) = ImportFolder::draw(&*SONIC, &mut FuzzInput::new(bytes));
    bounded(|| match weir::sonic_switch_file(&[folder.path().to_owned()], &[]) {
        Ok(text) => {
            assert!(weir_config::parse("sonic", &text).is_ok(), "a switch file with errors was accepted");
            true
        }
        Err(message) => {
            assert!(!message.is_empty());
            false
        }
    })
}

/// Checks that errors are within their files, and reads an imported scenario. Returns whether there is one.
fn check(imported: Result<ImportedScenario, ImportErrors>, texts: &[(String, String)]) -> bool {
    match imported {
        Ok(imported) => {
            let folder = TempDir::new().expect("a folder for files");
            imported.files.iter().for_each(|(name, content)| write(&folder.path().join(name), content));
            let path = folder.path().join("fuzz.toml");
            // Values that the other program takes, and Weir doesn't, are errors of the scenario.
            if let Err(errors) = weir_scenario::file::parse(&path, &imported.scenario) {
                check_errors(&imported.scenario, &path.display().to_string(), &errors);
            }
            true
        }
        Err(errors) => {
            assert!(!errors.to_string().is_empty());
            for error in &errors.errors {
                let text = texts.iter().find(|(name, _)| *name == error.file);
                if let (Some((_, text)), Some(line)) = (text, error.line) {
                    assert_line(text, line, error);
                }
            }
            false
        }
    }
}
