//! Declarations of keys, as schemas and references use them.

use std::fmt::Debug;

/// Reason for a restart of keys that declare no other.
pub(crate) const READ_AT_START: &str = "it is read at the start";

/// Declaration of a key, without the type of its values.
pub trait AnyKey: Debug + Sync {
    /// Name in the file.
    fn name(&self) -> &'static str;

    /// Description.
    fn help(&self) -> &'static str;

    /// Default in the file's syntax; `None` if there is none.
    fn default(&self) -> Option<&'static str> {
        None
    }

    /// Default in words; empty if there is none.
    fn default_help(&self) -> &'static str {
        ""
    }

    /// Reason why the value needs a restart, as half a sentence; `None` if it can change at run time.
    fn restart(&self) -> Option<&'static str> {
        Some(READ_AT_START)
    }

    /// Type and range in words: `time, 1ns to 1s`.
    fn values(&self) -> String;

    /// Whether the value can change at run time.
    fn is_live(&self) -> bool {
        self.restart().is_none()
    }
}

/// Declarations of keys, as tables and kinds list them.
pub type Keys = &'static [&'static dyn AnyKey];
