//! What changes a running switch, and what it says to that.

use serde::{Deserialize, Serialize};

/// New values of keys, all or none of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Set {
    /// The switch, by its name; may be left out where one runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<String>,
    /// In the order in which they are written.
    pub changes: Vec<Assignment>,
    /// For so many milliseconds; then what was before comes back. For good, if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
}

/// A key of a switch's file, and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assignment {
    /// The path of the key, with names in place of numbers: `buffer.dt.alpha`, `ports.p0.rate`, `classes.queues.3.weight`,
    /// `static_macs.02:00:00:00:00:01`.
    pub key: String,
    /// As in the file; quotes of a text may be left out. `None` leaves the key to its default.
    #[serde(default)]
    pub value: Option<String>,
}

/// The switches that a request is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chosen {
    /// This switch alone, by its name; all, if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<String>,
}

/// What became of a switch's keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The switch.
    pub switch: String,
    /// The file that was applied; `None` where a client named the keys.
    pub file: Option<String>,
    /// Each key that has, or was to have, another value.
    pub changes: Vec<Change>,
    /// What follows, in a sentence each.
    pub notes: Vec<String>,
}

/// What became of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Its path.
    pub key: String,
    /// Its value before; `None` is the default.
    pub was: Option<String>,
    /// The value that it was to have.
    pub is: Option<String>,
    /// What became of that.
    pub outcome: Outcome,
    /// Why it was not applied.
    pub why: Option<String>,
}

/// What became of a new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is in force.
    Applied,
    /// It was so before.
    Unchanged,
    /// The switch goes on with the value before until it is started anew.
    NeedsRestart,
    /// It does not go together with what the switch goes on with.
    Refused,
}

/// The configuration that a switch runs with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    /// The switch.
    pub switch: String,
    /// The file that it was started with, as an absolute path.
    pub file: String,
    /// A switch's file: what is in force, and will be when what was set for a time has come back.
    pub text: String,
    /// Keys that have another value for a time.
    pub for_a_time: Vec<String>,
}

/// How a switch's file differs from what is in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Differences {
    /// The switch.
    pub switch: String,
    /// The file, as an absolute path.
    pub file: String,
    /// Each key that differs.
    pub keys: Vec<Difference>,
}

/// A key whose value in the file is not in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Its path.
    pub key: String,
    /// In the file; `None` is the default.
    pub file: Option<String>,
    /// In force.
    pub running: Option<String>,
    /// Why the file's value can't come into force while the switch runs; `None` where it can.
    pub needs_restart: Option<String>,
}
