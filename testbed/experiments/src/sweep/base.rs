//! The scenario that a sweep varies, and values that are set in it.

use std::fs;
use std::path::Path as FilePath;

use toml::{Table, Value};
use weir_config::ConfigErrors;
use weir_scenario::file::{self as scenario_file, Drawn, ScenarioRun};

use super::file::{SEED, SweepFile};
use super::path::{NoPlace, Path};
use super::policies;
use crate::Failure;

/// The scenario as it is without the sweep.
pub(super) struct Base {
    pub table: Table,
    pub runs: Vec<ScenarioRun>,
    /// Most combinations differ in what changes no message.
    pub drawn: Drawn,
}

impl Base {
    /// The scenario must be good by itself.
    pub(super) fn load(path: &FilePath) -> Result<Base, Failure> {
        let runs = scenario_file::load(path)?;
        let text =
            fs::read_to_string(path).map_err(|error| Failure::Argument(format!("{}: {error}", path.display())))?;
        let table = text.parse().map_err(|error| Failure::Argument(format!("{}: {error}", path.display())))?;
        Ok(Base { table, runs, drawn: Drawn::default() })
    }

    /// Has the scenario's reader check what became of the table.
    pub(super) fn parse(&self, file: &SweepFile, table: &Table) -> Result<Vec<ScenarioRun>, ConfigErrors> {
        scenario_file::parse_sharing(&file.scenario, &text_of(table), &self.drawn)
    }
}

/// The parameters' values of a combination.
pub(super) fn setting(file: &SweepFile, combination: &[usize]) -> Vec<(Path, Value)> {
    let of_axis = file.axes.iter().zip(combination);
    let parameters = of_axis.flat_map(|(axis, place)| axis.parameters.iter().map(move |parameter| (parameter, *place)));
    parameters.map(|(parameter, place)| (parameter.path.clone(), parameter.values[place].clone())).collect()
}

/// Sets all values; of the first that can't be set, its place among parameters, seed and overrides.
pub(super) fn set_all(
    table: &mut Table,
    setting: &[(Path, Value)],
    seed: Option<u32>,
    overrides: &[(Path, Value)],
) -> Result<(), (usize, NoPlace)> {
    let mut order: Vec<usize> = (0..setting.len()).collect();
    order.sort_by_key(|n| policies::rank(&setting[*n].0));
    for n in order {
        let (path, value) = &setting[n];
        policies::set(path, table, value).map_err(|wrong| (n, wrong))?;
    }
    if let Some(seed) = seed {
        let path = Path::parse(SEED).expect("two keys");
        path.set(table, &Value::Integer(i64::from(seed))).map_err(|wrong| (setting.len(), wrong))?;
    }
    overrides
        .iter()
        .try_for_each(|(path, value)| policies::set(path, table, value))
        .map_err(|wrong| (setting.len() + usize::from(seed.is_some()), wrong))
}

/// A table as a file has it.
pub(super) fn text_of(table: &Table) -> String {
    toml::to_string(table).expect("what was read from TOML can be written")
}
