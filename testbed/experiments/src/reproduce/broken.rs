//! Schemes that are broken on purpose: `[[broken]]` of `paper.toml`. A verdict that none of them changes says nothing.
//!
//! Each lays its settings over the scenario, and one claim must fail then: `breaking` runs the points that it is read off.

use serde::Deserialize;

use crate::sweep::KeyPath;

/// A scheme that is broken on purpose.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Broken {
    /// The fault, and its consequence.
    pub what: String,
    /// Whether it is a small mistake, as one makes it in earnest.
    #[serde(default)]
    pub subtle: bool,
    /// Keys of the scenario, as `--set` lays them over it.
    pub set: toml::Table,
    /// The claim that fails then, or the stated number, by its name.
    pub fails: String,
}

impl Broken {
    pub(super) fn overrides(&self) -> Vec<(KeyPath, toml::Value)> {
        let path = |key: &String| KeyPath::parse(key).expect("checked when it was read");
        self.set.iter().map(|(key, value)| (path(key), value.clone())).collect()
    }

    /// Whether it breaks this run of the scenario: settings of single runs leave the others as they are.
    pub(super) fn breaks(&self, run: &str) -> bool {
        self.overrides().iter().any(|(path, _)| match path.keys() {
            [first, name, _, ..] if first == "runs" => name == run,
            _ => true,
        })
    }

    /// As it is written behind `--set`.
    pub(super) fn set(&self) -> Vec<String> {
        let written = |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.set.iter().map(|(key, value)| format!("{key}={}", written(value))).collect()
    }
}
