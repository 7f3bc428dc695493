//! Checks and their results: the lines of `weir doctor`.

use serde::Serialize;

/// Result of a check of `weir doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckResult {
    /// Subject of the check.
    pub subject: String,
    /// Severity of the result.
    pub state: Health,
    /// Finding, in a sentence.
    pub message: String,
    /// Fix, if there is one.
    pub fix: Option<String>,
}

/// Severity of a check's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// The check passed.
    Good,
    /// The subject works, but not well.
    Warning,
    /// The subject prevents something from working.
    Error,
}

impl CheckResult {
    /// Creates the result of a passed check.
    pub fn good(subject: impl Into<String>, message: impl Into<String>) -> CheckResult {
        CheckResult { subject: subject.into(), state: Health::Good, message: message.into(), fix: None }
    }

    /// Creates a result with a fix.
    pub fn bad(
        state: Health,
        subject: impl Into<String>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> CheckResult {
        CheckResult { subject: subject.into(), state, message: message.into(), fix: Some(fix.into()) }
    }
}
