//! Names that releases of one minor version keep: keys of files, commands and their options, columns, JSON fields, metrics.
//!
//! `cargo test -p weir --test commands print_names -- --ignored --nocapture` prints the present ones.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Scenario whose results have fields of flows, workloads, collectives, congestion control and snapshots.
const SCENARIO: &str = r#"
[scenario]
name = "names"
end = "400us"
sample_every = "20us"
snapshots = ["100us"]
[switch]
mtu = 1500
[switch.buffer]
size = "400KB"
policy = "dt"
[switch.classes]
preset = "roce"
[[switch.classes.queues]]
class = 3
ecn = { kmin = "5KB", kmax = "200KB", pmax = 0.01 }
[switch.pfc]
reaction = "0s"
[nic]
congestion_control = "dcqcn"
[topology]
kind = "single"
hosts = 4
rate = "10Gbps"
delay = "1us"
[[flows]]
name = "bulk"
from = "H1"
to = "H0"
class = 0
transport = "tcp-cubic"
[[workloads]]
name = "incast"
kind = "incast"
class = 3
sizes = "60KB"
receivers = ["H0"]
fan_in = 3
[[workloads]]
name = "ring"
kind = "collective"
class = 3
collective = "ring-all-reduce"
bytes = "40KB"
"#;

#[test]
fn names_of_the_release_are_kept() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/KEPT_NAMES.txt");
    let kept = fs::read_to_string(file).unwrap();
    let kept: BTreeSet<&str> = kept.lines().filter(|line| !line.starts_with('#') && !of_other_tests(line)).collect();
    let present = names();
    let missing: Vec<&&str> = kept.iter().filter(|name| !present.contains(**name)).collect();
    assert!(kept.len() > 800, "{} names only", kept.len());
    assert!(missing.is_empty(), "0.1.x keeps these names of docs/KEPT_NAMES.txt: {missing:#?}");
}

#[test]
#[ignore = "prints the list for the next minor version"]
fn print_names() {
    names().iter().for_each(|name| println!("{name}"));
}

/// Whether a line's name is held by the Python package's tests, or by the wire tests, which have a running switch.
fn of_other_tests(line: &str) -> bool {
    ["python ", "show "].iter().any(|kind| line.starts_with(kind))
}

fn names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    add_keys(&mut names);
    add_commands(&mut names, &[]);
    add_results(&mut names);
    add_metrics(&mut names);
    names
}

fn weir(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn add_keys(names: &mut BTreeSet<String>) {
    for table in weir(&["keys"]).lines().filter_map(|line| line.strip_prefix("  ")) {
        // Keys are two blanks in, what they mean six.
        let keys = weir(&["keys", table]);
        let keys = keys.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
        names.extend(keys.map(|line| format!("key {table}.{}", line.split(':').next().unwrap())));
    }
}

fn add_commands(names: &mut BTreeSet<String>, command: &[&str]) {
    let help = weir(&[command, &["-h"]].concat());
    let mut are_commands = false;
    for line in help.lines() {
        if !line.starts_with(' ') {
            are_commands = line == "Commands:";
            continue;
        }
        let mut words = line.split_whitespace();
        if are_commands && line.starts_with("  ") && !line.starts_with("   ") {
            let name = words.next().unwrap();
            if name != "help" {
                names.insert(["command"].iter().chain(command).chain([&name]).copied().collect::<Vec<_>>().join(" "));
                add_commands(names, &[command, &[name]].concat());
            }
        } else if let Some(option) = words.find(|word| !word.starts_with('-') || word.starts_with("--"))
            && option.starts_with("--")
            && !["--help", "--version"].contains(&option)
        {
            let words = ["option"].iter().chain(command).chain([&option]).copied().collect::<Vec<_>>();
            names.insert(words.join(" "));
        }
    }
}

fn add_results(names: &mut BTreeSet<String>) {
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("names.toml");
    fs::write(&scenario, SCENARIO).unwrap();
    let runs = folder.path().join("runs");
    let to = runs.to_str().unwrap();
    weir(&["testbed", "run", scenario.to_str().unwrap(), "--backend", "sim", "-o", to, "--seeds", "2"]);
    let files =
        |folder: &Path| -> Vec<PathBuf> { fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect() };
    for path in files(&runs.join("names-seed-1")).into_iter().chain([runs.join("seeds.json")]) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        if name.ends_with(".csv") {
            // Columns of series.csv are FLOW.column and PORT.CLASS.column.
            let columns = text.lines().next().unwrap().split(',').map(|column| column.rsplit('.').next().unwrap());
            names.extend(columns.map(|column| format!("column {name} {column}")));
        } else if name.ends_with(".json") {
            add_fields(names, &format!("json {name} "), "", &serde_json::from_str(&text).unwrap());
        }
    }
}

/// Adds the paths of all fields: `.traffic[].bins[].count`.
fn add_fields(names: &mut BTreeSet<String>, of: &str, path: &str, value: &Value) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| add_fields(names, of, &format!("{path}[]"), value)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            let path = format!("{path}.{name}");
            names.insert(format!("{of}{path}"));
            add_fields(names, of, &path, value);
        }),
        _ => {}
    }
}

fn add_metrics(names: &mut BTreeSet<String>) {
    let folder = tempfile::tempdir().unwrap();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    weir(&["pages", "--site", folder.path().to_str().unwrap(), "--of", repository.to_str().unwrap()]);
    let page = fs::read_to_string(folder.path().join("docs/METRICS.html")).unwrap();
    let codes = page.split("<code>").skip(1).map(|rest| rest.split('<').next().unwrap());
    names.extend(codes.filter(|code| code.starts_with("weir_")).map(|code| format!("metric {code}")));
}
