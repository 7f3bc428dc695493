//! What was looked at, and how it is: the lines of `weir doctor`.

use serde::Serialize;

/// Something that was looked at for `weir doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub about: String,
    /// How it is.
    pub state: Health,
    /// What was found, in a sentence.
    pub said: String,
    /// What mends it, where something does.
    pub mend: Option<String>,
}

/// How something is that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// As it should be.
    Good,
    /// It will do, but not well.
    Warning,
    /// It keeps something from working.
    Lacking,
}

impl Finding {
    /// A finding that needs no mending.
    pub fn good(about: impl Into<String>, said: impl Into<String>) -> Finding {
        Finding { about: about.into(), state: Health::Good, said: said.into(), mend: None }
    }

    /// One that does.
    pub fn bad(state: Health, about: impl Into<String>, said: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding { about: about.into(), state, said: said.into(), mend: Some(mend.into()) }
    }
}
