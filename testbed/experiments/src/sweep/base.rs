//! Scenario that a sweep varies, with functions that set values.

use std::fmt::Display;
use std::fs;

use toml::{Table, Value};
use weir_config::ConfigErrors;
use weir_scenario::file::{self as scenario_file, MessageCache, ScenarioRun};

use super::file::{SEED, SweepFile};
use super::policies;
use crate::Failure;
use crate::table::key_path::{KeyPath, PathError};

/// Scenario before any change by the sweep.
pub(super) struct BaseScenario {
    pub table: Table,
    pub runs: Vec<ScenarioRun>,
    /// Messages drawn so far, shared by combinations that differ in nothing that affects messages.
    pub drawn: MessageCache,
}

impl BaseScenario {
    /// Reads the scenario, which must be valid by itself.
    pub(super) fn load(file: &SweepFile) -> Result<BaseScenario, Failure> {
        let path = &file.scenario;
        let failed = |error: &dyn Display| Failure::Argument(format!("{}: {error}", path.display()));
        let (runs, text) = match &file.scenario_text {
            Some(text) => (scenario_file::parse(path, text)?, text.clone()),
            None => (scenario_file::load(path)?, fs::read_to_string(path).map_err(|error| failed(&error))?),
        };
        let table = text.parse().map_err(|error| failed(&error))?;
        Ok(BaseScenario { table, runs, drawn: MessageCache::default() })
    }

    /// Parses and checks the modified table as a scenario.
    pub(super) fn parse(&self, file: &SweepFile, table: &Table) -> Result<Vec<ScenarioRun>, ConfigErrors> {
        scenario_file::parse_sharing(&file.scenario, &text_of(table), &self.drawn)
    }
}

/// Parameters of a combination with their values.
pub(super) fn setting(file: &SweepFile, combination: &[usize]) -> Vec<(KeyPath, Value)> {
    let of_axis = file.axes.iter().zip(combination);
    let parameters = of_axis.flat_map(|(axis, place)| axis.parameters.iter().map(move |parameter| (parameter, *place)));
    parameters.map(|(parameter, place)| (parameter.path.clone(), parameter.values[place].clone())).collect()
}

/// Sets all values.
///
/// # Errors
/// Index of the first value that can't be set, among parameters, seed and overrides.
pub(super) fn set_all(
    table: &mut Table,
    setting: &[(KeyPath, Value)],
    seed: Option<u32>,
    overrides: &[(KeyPath, Value)],
) -> Result<(), (usize, PathError)> {
    let mut order: Vec<usize> = (0..setting.len()).collect();
    order.sort_by_key(|n| policies::rank(&setting[*n].0));
    for n in order {
        let (path, value) = &setting[n];
        policies::set(path, table, value).map_err(|wrong| (n, wrong))?;
    }
    if let Some(seed) = seed {
        let path = KeyPath::parse(SEED).expect("two keys");
        path.set(table, &Value::Integer(i64::from(seed))).map_err(|wrong| (setting.len(), wrong))?;
    }
    overrides
        .iter()
        .try_for_each(|(path, value)| policies::set(path, table, value))
        .map_err(|wrong| (setting.len() + usize::from(seed.is_some()), wrong))
}

/// Formats a table as TOML.
pub(super) fn text_of(table: &Table) -> String {
    toml::to_string(table).expect("what was read from TOML can be written")
}
