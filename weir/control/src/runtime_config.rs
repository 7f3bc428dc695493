//! Requests that change a running switch, and their replies.

use serde::{Deserialize, Serialize};

/// Request to set keys, all or none of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetRequest {
    /// The switch, by its name; may be left out where one runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<String>,
    /// Assignments, applied in this order.
    pub changes: Vec<Assignment>,
    /// Duration in milliseconds, after which the old values return. Permanent if left out.
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
    /// Value as in the file; quotes of a text may be left out. `None` sets the key to its default.
    #[serde(default)]
    pub value: Option<String>,
}

/// Selection of the switches of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchSelector {
    /// Name of one switch; all if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<String>,
}

/// Result for a switch's keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeReport {
    /// The switch.
    pub switch: String,
    /// The file that was applied; `None` where a client named the keys.
    pub file: Option<String>,
    /// Keys with a new value, or with a refused one.
    pub changes: Vec<Change>,
    /// Notes on the consequences, in a sentence each.
    pub notes: Vec<String>,
}

/// Result for a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Path of the key.
    pub key: String,
    /// Old value; `None` is the default.
    pub was: Option<String>,
    /// Requested value.
    pub is: Option<String>,
    /// Outcome of the change.
    pub outcome: ChangeOutcome,
    /// Reason why the value was not applied.
    pub why: Option<String>,
}

/// Outcome of setting a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeOutcome {
    /// The value is in force.
    Applied,
    /// The key had this value already.
    Unchanged,
    /// The old value stays in force until a restart.
    NeedsRestart,
    /// The value conflicts with the rest of the running configuration.
    Refused,
}

/// Running configuration of a switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    /// The switch.
    pub switch: String,
    /// The file that it was started with, as an absolute path.
    pub file: String,
    /// Text of the running configuration, with temporary values reverted.
    pub text: String,
    /// Keys with a temporary value.
    pub for_a_time: Vec<String>,
}

/// Differences between a switch's file and its running configuration.
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
    /// Path of the key.
    pub key: String,
    /// Value in the file; `None` is the default.
    pub file: Option<String>,
    /// Value in force.
    pub running: Option<String>,
    /// Reason why the file's value requires a restart; `None` if it does not.
    pub needs_restart: Option<String>,
}
