//! Checks and their results: the lines of `weir doctor`.

use serde::Serialize;

/// Result of a check of `weir doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Subject of the check.
    pub about: String,
    /// Severity of the result.
    pub state: Health,
    /// Finding, in a sentence.
    pub said: String,
    /// Fix, if there is one.
    pub mend: Option<String>,
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
    Lacking,
}

impl Finding {
    /// Creates the result of a passed check.
    pub fn good(about: impl Into<String>, said: impl Into<String>) -> Finding {
        Finding { about: about.into(), state: Health::Good, said: said.into(), mend: None }
    }

    /// Creates a result with a fix.
    pub fn bad(state: Health, about: impl Into<String>, said: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding { about: about.into(), state, said: said.into(), mend: Some(mend.into()) }
    }
}
