//! Keys that own their default: name, value and meaning written once.

use std::str::FromStr;

/// A parameter of a kind that files choose by name, such as a buffer policy.
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
    /// As a file has it.
    pub name: &'static str,
    /// What it is where a file does not give it, as a file would; `None` if that depends on the rest of the file.
    pub default: Option<&'static str>,
    /// What it is then, in words.
    pub otherwise: &'static str,
    /// What it means, with the paper's symbol; the list of keys shows it.
    pub about: &'static str,
}

impl Key {
    /// A key with a default.
    pub const fn new(name: &'static str, default: &'static str, about: &'static str) -> Key {
        Key { name, default: Some(default), otherwise: default, about }
    }

    /// A key whose default depends on the rest of the file; `otherwise` says how.
    pub const fn without_default(name: &'static str, otherwise: &'static str, about: &'static str) -> Key {
        Key { name, default: None, otherwise, about }
    }

    /// The default as a value.
    ///
    /// # Panics
    /// If there is none, or it is no such value: a mistake in the program, which the first reading of any file tells.
    pub fn value<T: FromStr>(&self) -> T {
        let default = self.default.unwrap_or_else(|| panic!("`{}` has no default", self.name));
        default.parse().unwrap_or_else(|_| panic!("`{}`: the default \"{default}\" is no such value", self.name))
    }
}
