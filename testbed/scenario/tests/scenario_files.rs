//! Scenario files: every file of `tests/bad` has exactly the errors of its comments, all at once; the reference and the
//! examples are valid.

#[path = "../../../config/tests/it/expectations/mod.rs"]
mod expectations;

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use weir_config::ConfigErrors;
use weir_nic::host::Transport;
use weir_scenario::file::{ScenarioRun, load, parse};
use weir_scenario::{FlowPlan, RealPorts};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn good(path: &Path, text: &str) -> Vec<ScenarioRun> {
    parse(path, text).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

#[test]
fn bad_files_give_the_errors_they_expect() {
    expectations::check(&here("tests/bad"), |path, _| load(path));
}

#[test]
fn examples_of_the_page_are_valid() {
    let text = fs::read_to_string(here("../../docs/SCENARIOS.md")).unwrap();
    let blocks: Vec<&str> = text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= 3);
    for block in blocks {
        for run in good(&here("tests/good/reference.toml"), block) {
            assert_eq!(run.scenario.check(), Ok(()));
        }
    }
}

/// The files of the repository that are scenarios, and not switches.
#[test]
fn the_examples_can_be_run() {
    let mut seen = 0;
    let is_tcp = |flow: &FlowPlan| matches!(flow.config.transport, Transport::Tcp(_));
    for path in expectations::files(&here("../../scenarios")) {
        let text = fs::read_to_string(&path).unwrap();
        if !text.lines().any(|line| line == "[scenario]") {
            continue;
        }
        seen += 1;
        let runs = good(&path, &text);
        let name = expectations::file_name(&path);
        for run in &runs {
            let scenario = &run.scenario;
            assert_eq!(scenario.check(), Ok(()), "{name}");
            assert!(scenario.traffic.iter().all(|plan| plan.source.count() > 0), "{name}");
            let chooses = scenario.routes.as_ref().is_some_and(|routes| routes.have_choices());
            // TCP of emulated hosts takes virtual time, and that of real ones does not.
            let is_emulated_tcp = run.has_real_hosts() && scenario.flows.iter().any(is_tcp);
            assert_eq!(scenario.needs_virtual_time().is_some(), chooses || is_emulated_tcp, "{name}");
            if run.has_real_hosts() {
                let real = run.with_real_hosts(1, &RealPorts { folder: "/run/weir".into(), process: 1 });
                let real = real.unwrap_or_else(|errors| panic!("{}", errors.render(false)));
                assert_eq!((real.check(), real.needs_virtual_time()), (Ok(()), None), "{name}");
            }
        }
    }
    assert!(seen >= 5);
}

#[test]
fn unreadable_files_are_errors() {
    let missing = load(Path::new("/nonexistent/ring.toml")).unwrap_err().to_string();
    assert!(missing.starts_with("/nonexistent/ring.toml: can't read the file: "), "{missing}");
    assert!(missing.ends_with("; name a scenario's TOML file"), "{missing}");
}

fn judge(result: Result<Vec<ScenarioRun>, ConfigErrors>) {
    match result {
        Ok(runs) => assert!(runs.iter().all(|run| run.scenario.check() == Ok(()))),
        Err(errors) => assert!(!errors.render(false).is_empty()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Lines left out, doubled, or with another line's value: no panic, and accepted scenarios are consistent.
    #[test]
    fn no_text_makes_the_reader_panic(edits in edits()) {
        let path = here("../../scenarios/gfc-ring.toml");
        let text = fs::read_to_string(&path).unwrap();
        judge(parse(&path, &edited(&text, edits)));
    }

    #[test]
    fn no_fabric_or_workload_makes_the_reader_panic(edits in edits()) {
        let text = fs::read_to_string(here("../../docs/SCENARIOS.md")).unwrap();
        let blocks = text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
        let block = blocks.clone().find(|block| block.contains("[topology]")).unwrap();
        judge(parse(&here("tests/good/reference.toml"), &edited(block, edits)));
    }
}

/// Changed line, another line, and kind of change.
type Edit = (prop::sample::Index, prop::sample::Index, i32);

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..3), 1..6)
}

fn edited(text: &str, edits: Vec<Edit>) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (at, other, edit) in edits {
        let (at, other) = (at.index(lines.len()), other.index(lines.len()));
        match edit {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[other].clone()),
            _ => {
                let value = lines[other].split_once(" = ").map(|(_, value)| value.to_owned());
                let key = lines[at].split_once(" = ").map(|(key, _)| key.to_owned());
                if let Some((key, value)) = key.zip(value) {
                    lines[at] = format!("{key} = {value}");
                }
            }
        }
    }
    lines.join("\n")
}
