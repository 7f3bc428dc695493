//! Keys with their defaults: name, value and meaning in one place.

use std::str::FromStr;

/// Parameter of a kind that files select by name, such as a buffer policy.
///
/// ```
/// use weir_reader::Key;
///
/// const TC: Key = Key::new("tc", "80us", "TC: the window over which a port's departures are counted");
/// const THRESHOLD: Key = Key::without_default("threshold", "the buffer over the ports", "T of each queue");
/// assert_eq!((TC.default, THRESHOLD.default), (Some("80us"), None));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Name in the file.
    pub name: &'static str,
    /// Default in the file's syntax; `None` if it depends on the rest of the file.
    pub default: Option<&'static str>,
    /// Description of the default.
    pub default_help: &'static str,
    /// Description with the paper's symbol, for the list of keys.
    pub help: &'static str,
}

impl Key {
    /// Creates a key with a default.
    pub const fn new(name: &'static str, default: &'static str, help: &'static str) -> Key {
        Key { name, default: Some(default), default_help: default, help }
    }

    /// Creates a key whose default depends on the rest of the file; `default_help` describes it.
    pub const fn without_default(name: &'static str, default_help: &'static str, help: &'static str) -> Key {
        Key { name, default: None, default_help, help }
    }

    /// Parses the default.
    ///
    /// # Panics
    /// If there is no default, or it is invalid: a programming error, which the first reading of any file reveals.
    pub fn value<T: FromStr>(&self) -> T {
        let default = self.default.unwrap_or_else(|| panic!("`{}` has no default", self.name));
        default.parse().unwrap_or_else(|_| panic!("`{}`: the default \"{default}\" is no such value", self.name))
    }
}
