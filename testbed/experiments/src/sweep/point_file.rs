//! A point of a sweep, as it is written down.

use serde::{Deserialize, Serialize};

/// One run of the scenario with values for its parameters, as it is written down beside its results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Point {
    /// From 1.
    pub number: usize,
    /// The scenario's run, by its place and its name.
    pub run: usize,
    pub run_name: String,
    /// The sweep's own, if it has seeds.
    pub seed: Option<u32>,
    /// The parameters by their paths, in the sweep's order.
    pub parameters: Vec<(String, serde_json::Value)>,
    /// A hash of the scenario's text, of the files that it names, and of the run.
    pub hash: String,
    /// The name of its folder, with the number in front.
    pub folder: String,
    #[serde(skip)]
    pub(super) setting: usize,
}
