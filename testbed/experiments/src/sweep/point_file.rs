//! Stored form of a sweep's point.

use serde::{Deserialize, Serialize};

/// Run of the scenario with values of the sweep's parameters, stored with its results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Point {
    /// Number, from 1.
    pub number: usize,
    /// Index of the scenario's run, with its name in `run_name`.
    pub run: usize,
    pub run_name: String,
    /// Seed set by the sweep.
    pub seed: Option<u32>,
    /// Parameters by path, in the sweep's order.
    pub parameters: Vec<(String, serde_json::Value)>,
    /// Hash of the scenario's text, of the files that it names, and of the run.
    pub hash: String,
    /// Name of the folder, which starts with the number.
    pub folder: String,
    #[serde(skip)]
    pub(super) setting: usize,
}
