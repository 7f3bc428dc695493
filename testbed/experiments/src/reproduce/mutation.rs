//! Mutations of schemes: `[[mutations]]` of `paper.toml`. A verdict that no mutation changes means nothing.
//!
//! Each mutation overrides settings of the scenario, and one claim must fail then: `mutation_test` runs the points that the
//! claim depends on.

use crate::table::key_path::KeyPath;
use serde::Deserialize;

/// Fault that is put into a scheme on purpose.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mutation {
    /// Fault and its consequence.
    pub what: String,
    /// True for a small fault, as in a real mistake.
    #[serde(default)]
    pub subtle: bool,
    /// Overrides of the scenario, with keys as for `--set`.
    pub set: toml::Table,
    /// Claim, or name of the stated number, that must fail.
    pub fails: String,
}

impl Mutation {
    pub(super) fn overrides(&self) -> Vec<(KeyPath, toml::Value)> {
        let path = |key: &String| KeyPath::parse(key).expect("checked when it was read");
        self.set.iter().map(|(key, value)| (path(key), value.clone())).collect()
    }

    /// Whether the mutation affects this run of the scenario: settings of single runs leave the others unchanged.
    pub(super) fn affects(&self, run: &str) -> bool {
        self.overrides().iter().any(|(path, _)| match path.keys() {
            [first, name, _, ..] if first == "runs" => name == run,
            _ => true,
        })
    }

    /// Overrides in the syntax of `--set`.
    pub(super) fn set(&self) -> Vec<String> {
        let written = |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.set.iter().map(|(key, value)| format!("{key}={}", written(value))).collect()
    }
}
