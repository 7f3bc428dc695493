//! The house as CONTRIBUTING.md tells it: which crates there are, and that each stands on crates further down.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use toml::Table;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn manifest(folder: &Path) -> Table {
    fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap()
}

/// Crates with their folders, in the order of the table.
fn told() -> Vec<(String, String)> {
    let text = fs::read_to_string(repository().join("CONTRIBUTING.md")).unwrap();
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let name = cells.next()?.strip_suffix('`')?;
        let folder = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
        name.starts_with("weir").then(|| (name.to_owned(), folder.trim_end_matches('/').to_owned()))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn every_crate_is_told_with_its_folder() {
    let workspace = manifest(&repository());
    let members = workspace["workspace"]["members"].as_array().unwrap().iter();
    let mut there: Vec<(String, String)> = members
        .map(|member| {
            let folder = member.as_str().unwrap();
            let name = manifest(&repository().join(folder))["package"]["name"].as_str().unwrap().to_owned();
            (name, folder.to_owned())
        })
        .collect();
    let mut told = told();
    there.sort();
    told.sort();
    assert_eq!(told, there);
}

#[test]
fn crates_depend_on_crates_further_down() {
    let told = told();
    let places: BTreeMap<&str, usize> =
        told.iter().enumerate().map(|(place, (name, _))| (name.as_str(), place)).collect();
    let mut ties = 0;
    for (place, (name, folder)) in told.iter().enumerate() {
        let manifest = manifest(&repository().join(folder));
        let Some(needs) = manifest.get("dependencies").and_then(toml::Value::as_table) else { continue };
        for need in needs.keys().filter(|need| need.starts_with("weir")) {
            assert!(places[need.as_str()] > place, "{name} depends on {need}, which stands above it");
            ties += 1;
        }
    }
    assert!(ties > 50, "{ties} ties were found");
}
