//! Check that overrides have an effect: a value that a run, or a switch's own file, sets instead would be ignored
//! silently.

use std::path::Path;

use toml::{Table, Value};

use super::base::{BaseScenario, set_all, setting};
use super::file::SweepFile;
use super::policies;
use crate::Failure;
use crate::table::key_path::KeyPath;

/// Refuses an override without effect at any of the combinations, or on one of the chosen runs because that sets the
/// key itself.
pub(super) fn check(
    file: &SweepFile,
    base: &BaseScenario,
    combinations: &[Vec<usize>],
    chosen: &[usize],
) -> Result<(), Failure> {
    for (n, (path, value)) in file.overrides.iter().enumerate() {
        let others: Vec<(KeyPath, Value)> =
            file.overrides.iter().enumerate().filter(|(m, _)| *m != n).map(|(_, other)| other.clone()).collect();
        let failure = |why: String| Failure::Argument(format!("--set {path}={}: {why}", written(value)));
        if let Some(run) = hidden_by(path, base, chosen) {
            let name = &base.runs[run].name;
            let value = written(value);
            let own = format!("--set \"{}={value}\" for that run", own(name, path));
            let instead = match policies::of_each_run(path) {
                Some(whichever) => format!("--set \"{whichever}={value}\" for the policies of all runs, or {own}"),
                None => format!("{own}, and likewise for others"),
            };
            return Err(failure(format!("run \"{name}\" of the scenario sets this itself; write {instead}")));
        }
        let with = |overrides: &[(KeyPath, Value)], combination: &Vec<usize>| {
            runs_with(overrides, combination, file, base, chosen)
        };
        let is_idle = |combination: &Vec<usize>| {
            // Without the override the scenario may be invalid.
            with(&others, combination).is_some_and(|without| with(&file.overrides, combination) == Some(without))
        };
        if combinations.iter().all(is_idle) {
            let elsewhere = combinations.first().map_or_else(Vec::new, |first| {
                let without = with(&others, first);
                let changes = |place: &KeyPath| {
                    let more = [&others[..], &[(place.clone(), value.clone())]].concat();
                    with(&more, first).is_some_and(|runs| Some(runs) != without)
                };
                let places = KeyPath::all_of(&base.table, path.last()).into_iter().filter(|place| place != path);
                places.filter(changes).take(PLACES_MAX).collect()
            });
            return Err(failure(why_idle(path, value, file, base, chosen) + &alternatives(path, value, &elsewhere)));
        }
    }
    Ok(())
}

/// Maximum number of alternative keys named in a message.
const PLACES_MAX: usize = 4;

/// Chosen runs of a combination with these overrides; `None` if they are invalid.
fn runs_with(
    overrides: &[(KeyPath, Value)],
    combination: &[usize],
    file: &SweepFile,
    base: &BaseScenario,
    chosen: &[usize],
) -> Option<Vec<String>> {
    let mut table = base.table.clone();
    set_all(&mut table, &setting(file, combination), file.seeds.first().copied(), overrides).ok()?;
    let runs = base.parse(file, &table).ok()?;
    Some(chosen.iter().filter_map(|run| runs.get(*run)).map(|run| format!("{:?}", run.scenario)).collect())
}

/// Part of a message on keys of the same name whose value has an effect.
fn alternatives(path: &KeyPath, value: &Value, places: &[KeyPath]) -> String {
    if places.is_empty() {
        return String::new();
    }
    let sets: Vec<String> = places.iter().map(|place| format!("--set \"{place}={}\"", written(value))).collect();
    format!("; the scenario has `{}` elsewhere: write {}", path.last(), sets.join(", or "))
}

/// Index of the first chosen run that sets the key itself.
fn hidden_by(path: &KeyPath, base: &BaseScenario, chosen: &[usize]) -> Option<usize> {
    let runs = base.table.get("runs").and_then(Value::as_array)?;
    path.after("switch")?;
    chosen.iter().copied().find(|run| runs.get(*run).and_then(Value::as_table).is_some_and(|own| path.is_in(own)))
}

fn why_idle(path: &KeyPath, value: &Value, file: &SweepFile, base: &BaseScenario, chosen: &[usize]) -> String {
    let nothing = "it changes nothing";
    let there = path.values_in(&base.table);
    if !there.is_empty() {
        let is_that = there.iter().all(|there| *there == value);
        return if is_that {
            format!("{nothing}: the scenario has that value")
        } else {
            format!("{nothing}: the scenario has another value there, and no run uses it")
        };
    }
    let Some(below) = path.after("switch") else {
        return format!("{nothing}: no run uses it, or it is so by default");
    };
    match files_of_switches(file, base).into_iter().next() {
        Some(named) => {
            let above = file.scenario.parent().unwrap_or(Path::new(""));
            let text = std::fs::read_to_string(above.join(&named)).unwrap_or_default();
            let is_there = text.parse::<Table>().is_ok_and(|table| below.is_in(&table));
            let names: Vec<String> = chosen.iter().map(|run| format!("\"{}\"", base.runs[*run].name)).collect();
            let sets = if is_there { format!("sets `{below}` itself") } else { "has all of its settings".to_owned() };
            format!(
                "{nothing}: switches are of a file of their own, {named}, which {sets}; write --set \"{}={}\" for a run, of {}",
                own("NAME", path),
                written(value),
                names.join(", ")
            )
        }
        None => format!("{nothing}: no run's switches use it"),
    }
}

/// Files of switches named by the scenario or a varied parameter.
fn files_of_switches(file: &SweepFile, base: &BaseScenario) -> Vec<String> {
    let in_scenario = base.table.get("switches").and_then(Value::as_array).into_iter().flatten();
    let named = in_scenario.filter_map(|switch| switch.get("config")?.as_str().map(str::to_owned));
    let varied =
        file.axes.iter().flat_map(|axis| &axis.parameters).filter(|parameter| parameter.path.last() == "config");
    let varied = varied.flat_map(|parameter| &parameter.values).filter_map(|value| value.as_str().map(str::to_owned));
    varied.chain(named).collect()
}

/// Path of a key within a run.
fn own(run: &str, path: &KeyPath) -> KeyPath {
    let quoted = format!("runs.'{run}'");
    KeyPath::parse(&quoted).map_or_else(|| path.clone(), |above| above.below(path))
}

/// Value as written after `--set PATH=`.
fn written(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
