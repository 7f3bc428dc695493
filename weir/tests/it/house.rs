//! The structure that CONTRIBUTING.md describes: the crates, that each depends on crates further down only, and that no two files of a
//! crate need each other.

mod circles;
mod tokens;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use toml::Table;

use circles::{Modules, circle, first_file};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn manifest(folder: &Path) -> Table {
    fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap()
}

/// Crates with their folders, in the order of the table.
fn documented_crates() -> Vec<(String, String)> {
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
fn every_crate_is_listed_with_its_folder() {
    let workspace = manifest(&repository());
    let members = workspace["workspace"]["members"].as_array().unwrap().iter();
    let mut there: Vec<(String, String)> = members
        .map(|member| member.as_str().unwrap())
        .filter(|folder| !folder.starts_with("examples/"))
        .map(|folder| {
            let name = manifest(&repository().join(folder))["package"]["name"].as_str().unwrap().to_owned();
            (name, folder.to_owned())
        })
        .collect();
    let mut documented_crates = documented_crates();
    there.sort();
    documented_crates.sort();
    assert_eq!(documented_crates, there);
}

#[test]
fn crates_depend_on_crates_further_down() {
    let documented_crates = documented_crates();
    let places: BTreeMap<&str, usize> =
        documented_crates.iter().enumerate().map(|(place, (name, _))| (name.as_str(), place)).collect();
    let mut ties = 0;
    for (place, (name, folder)) in documented_crates.iter().enumerate() {
        let manifest = manifest(&repository().join(folder));
        let Some(needs) = manifest.get("dependencies").and_then(toml::Value::as_table) else { continue };
        for need in needs.keys().filter(|need| need.starts_with("weir")) {
            assert!(places[need.as_str()] > place, "{name} depends on {need}, which stands above it");
            ties += 1;
        }
    }
    assert!(ties > 50, "{ties} ties were found");
}

#[test]
fn no_files_of_a_crate_stand_on_each_other() {
    let (mut files, mut ties, mut found) = (0, 0, Vec::new());
    for (name, folder) in documented_crates() {
        let modules = Modules::read(&first_file(&repository().join(folder)).unwrap());
        let of_crate = modules.ties();
        files += modules.files();
        ties += of_crate.values().map(BTreeMap::len).sum::<usize>();
        found.extend(
            [false, true]
                .into_iter()
                .filter_map(|down| circle(&of_crate, down))
                .map(|circle| format!("{name}: {circle}")),
        );
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(files > 600 && ties > 2_000, "{files} files with {ties} ties were found");
}

/// A cycle of a crate with these files, in both directions.
fn circles_of(files: &[(&str, &str)]) -> [Option<String>; 2] {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let file = folder.path().join("src").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    let ties = Modules::read(&first_file(folder.path()).unwrap()).ties();
    [false, true].map(|down| circle(&ties, down))
}

#[test]
fn files_that_stand_on_each_other_are_found() {
    let by = |a: &str, b: &str| circles_of(&[("lib.rs", "mod a; mod b; pub use a::A;"), ("a.rs", a), ("b.rs", b)]);
    let needs_a = [
        "use crate::A;",
        "use super::{a::{self, A}, c};",
        "fn f() -> crate::a::A {}",
        "use super::a; fn f(_: a::A) {}",
    ];
    for b in needs_a {
        let [up, down] = by("pub struct A; use crate::b::f;", b);
        let cycle = up.clone().unwrap();
        assert!(cycle.contains("a needs b::f") && cycle.contains("b needs "), "{b}: {cycle}");
        assert_eq!(up, down, "{b}");
    }
    let needs_none = [
        "// use crate::A;",
        "/// Of [`crate::A`].\nfn f() -> &'static str { \"crate::A\" }",
        "#[cfg(test)] mod tests { use crate::A; }",
        "#[cfg(all(loom, test))] use crate::{A}; fn f(_: char) { f('\"') } // \"",
        "pub(in crate::a) fn f() { other::a::A::new() }",
        "macro_rules! f { () => { r#\"crate::A\"# } }",
    ];
    for b in needs_none {
        assert_eq!(by("pub struct A; use crate::b::f;", b), [None, None], "{b}");
    }
}

/// A file and its folder's files may need each other; a cycle over others counts if it uses only one direction of these dependencies.
#[test]
fn a_file_and_its_folder_may_need_each_other() {
    let crate_of = |a: &'static str, inner: &'static str, b: &'static str| {
        circles_of(&[("lib.rs", "mod a; mod b;"), ("a.rs", a), ("a/inner.rs", inner), ("b.rs", b)])
    };
    let a = "mod inner; pub struct A; fn f() { inner::g() }";
    assert_eq!(crate_of(a, "use super::A;", "use crate::a::A;"), [None, None]);
    let over_the_folder = crate_of(a, "use crate::b::B;", "pub struct B; use crate::a::A;");
    assert!(over_the_folder[0].is_none() && over_the_folder[1].is_some(), "{over_the_folder:?}");
    let out_of_the_folder =
        crate_of("mod inner; use crate::b::B; pub struct A;", "use super::A;", "pub struct B; use crate::a::inner::g;");
    assert!(out_of_the_folder[0].is_some() && out_of_the_folder[1].is_none(), "{out_of_the_folder:?}");
}
