//! The small experiments of `tests/import`, in the formats of the public simulators, become just these scenarios. After a
//! change that is meant, `WEIR_BLESS=1` writes them anew.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use weir_scenario::file::parse;
use weir_scenario::import::ns3::{Arguments, Options, Sources, import};
use weir_scenario::import::{ImportNote, ImportedScenario};
use weir_scenario::workload::{SizeCdf, list};
use weir_sim::Sim;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import").join(path)
}

fn imported(folder: &str) -> ImportedScenario {
    imported_by(folder, fs::read_to_string(here(folder).join("arguments")).ok().as_deref())
}

/// By this command line.
fn imported_by(folder: &str, line: Option<&str>) -> ImportedScenario {
    let arguments = line.map(|line| Arguments::parse(line).unwrap_or_else(|errors| panic!("{errors}")));
    let sources = Sources::find_for(&[here(folder)], arguments.as_ref()).unwrap_or_else(|errors| panic!("{errors}"));
    let options = Options { stem: folder.to_owned(), arguments, ..Options::default() };
    import(&sources, &options).unwrap_or_else(|errors| panic!("{errors}"))
}

/// As the file beside the folder has it.
fn check(name: &str, text: &str) {
    let path = here(name);
    if std::env::var_os("WEIR_BLESS").is_some() {
        fs::write(&path, text).unwrap();
    }
    assert_eq!(text, fs::read_to_string(&path).unwrap(), "{name}");
}

fn report(imported: &ImportedScenario) -> String {
    let report = &imported.report;
    let all = [("taken", &report.taken), ("approximated", &report.approximated), ("left", &report.left)];
    let lines = |(title, notes): (&str, &Vec<ImportNote>)| {
        let notes: String = notes.iter().map(|note| format!("  {note}\n")).collect();
        format!("{title}\n{notes}")
    };
    all.map(lines).concat()
}

#[test]
fn each_experiment_becomes_its_scenario() {
    for folder in ["hpcc", "conweave", "inet-tub", "reverie"] {
        let imported = imported(folder);
        check(&format!("{folder}.toml"), &imported.scenario);
        check(&format!("{folder}.report.txt"), &report(&imported));
        for (name, text) in &imported.files {
            check(name, std::str::from_utf8(text).unwrap());
        }
    }
}

#[test]
fn abm_is_as_the_program_has_it() {
    let line = fs::read_to_string(here("reverie/arguments")).unwrap();
    let line = line.replace("--bufferModel=reverie", "--bufferModel=sonic").replace("=111", "=110");
    let imported = imported_by("reverie", Some(&line));
    let scenario: toml::Table = imported.scenario.parse().unwrap();
    let buffer = &scenario["switch"]["buffer"];
    assert_eq!(buffer["policy"].as_str(), Some("abm"));
    let keys = r#"
        alpha = "1.0"
        congested_partly = true
        congested_at = "arrivals"
        interval = "17280ns"
        drain_of = "congested-at-end"
        drain_cap = false
        drain_ports = "but-last"
    "#;
    assert_eq!(buffer["abm"].as_table(), Some(&keys.parse().unwrap()));
    // The last port is that of the topology's last link.
    let beside = TempDir::new().unwrap();
    imported.files.iter().for_each(|(name, text)| fs::write(beside.path().join(name), text).unwrap());
    let runs = parse(&beside.path().join("x.toml"), &imported.scenario)
        .unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    let last = |switch: usize| runs[0].scenario.switches[switch].ports.last().unwrap().name.as_str();
    assert_eq!([0, 1, 2].map(last), ["to-S6", "to-S6", "to-S5"]);
}

/// Found by fuzzing: a share that is no number was written into the scenario, and a missing α had a line that the file lacks.
#[test]
fn errors_of_the_program_s_further_files_name_them_and_a_line_that_they_have() {
    let beside = TempDir::new().unwrap();
    let line = fs::read_to_string(here("reverie/arguments")).unwrap();
    for entry in fs::read_dir(here("reverie")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, beside.path().join(path.file_name().unwrap())).unwrap();
    }
    let arguments = Arguments::parse(&line).unwrap();
    let refused = |file: &str, text: &str| {
        let before = fs::read(beside.path().join(file)).unwrap();
        fs::write(beside.path().join(file), text).unwrap();
        let options = Options { stem: "x".to_owned(), arguments: Some(arguments.clone()), ..Options::default() };
        let sources = Sources::find_for(&[beside.path().to_owned()], Some(&arguments));
        let errors = sources.and_then(|sources| import(&sources, &options)).unwrap_err();
        fs::write(beside.path().join(file), before).unwrap();
        (errors.errors[0].file.clone(), errors.errors[0].line, errors.to_string())
    };
    let (file, line, message) = refused("alphas", "1\n1\n");
    assert_eq!((file.as_str(), line), ("alphas", Some(2)), "{message}");
    let sizes = fs::read_to_string(here("reverie/websearch.txt")).unwrap();
    let last = sizes.trim_end().lines().last().unwrap();
    let (file, line, message) =
        refused("websearch.txt", &sizes.replace(last, &last.replace(last.split_whitespace().nth(1).unwrap(), "true")));
    assert!(
        file.ends_with("websearch.txt") && line.is_some() && message.contains("this is no input file"),
        "{message}"
    );
}

#[test]
fn what_is_written_can_be_read() {
    for folder in ["hpcc", "conweave", "inet-tub", "reverie"] {
        let imported = imported(folder);
        let scenario: toml::Table = imported.scenario.parse().unwrap();
        let names = |key: &str| -> Vec<String> {
            let tables = scenario[key].as_array().unwrap().iter();
            tables.map(|table| table["name"].as_str().unwrap().to_owned()).collect()
        };
        let hosts = names("hosts");
        for workload in scenario["workloads"].as_array().unwrap() {
            let Some(file) = workload.get("file").or_else(|| workload["sizes"].get("file")) else { continue };
            let file = file.as_str().unwrap();
            let (_, content) = imported.files.iter().find(|(name, _)| name == file).unwrap();
            let text = std::str::from_utf8(content).unwrap();
            if workload["kind"].as_str() == Some("list") {
                let place = |name: &str| hosts.iter().position(|host| host == name).map(|n| n as u32);
                assert!(!list::read(text, place).unwrap().is_empty());
            } else {
                SizeCdf::parse(text).unwrap();
            }
        }
    }
}

#[test]
fn each_experiment_runs_and_its_messages_arrive() {
    for (folder, switches, links, hosts) in
        [("hpcc", 4, 5, 6), ("conweave", 4, 4, 4), ("inet-tub", 2, 1, 4), ("reverie", 3, 2, 4)]
    {
        let imported = imported(folder);
        let beside = TempDir::new().unwrap();
        for (name, text) in &imported.files {
            fs::write(beside.path().join(name), text).unwrap();
        }
        let runs = parse(&beside.path().join("x.toml"), &imported.scenario)
            .unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        let scenario = &runs[0].scenario;
        assert_eq!(scenario.check(), Ok(()));
        assert_eq!((scenario.switches.len(), scenario.links.len(), scenario.hosts.len()), (switches, links, hosts));
        let messages: usize = scenario.traffic.iter().map(|plan| plan.messages().len()).sum();
        let mut sim = Sim::new(scenario).unwrap();
        sim.run_until(scenario.end);
        let done = sim.drain_completions().count();
        assert!(messages > 0 && done * 10 > messages * 9, "{folder}: {done} of {messages}");
    }
}
