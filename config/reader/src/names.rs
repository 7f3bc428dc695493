//! Names that can be part of a file name.

/// Rule of [`is_name`], for messages.
pub const NAME_RULE: &str = "1 to 31 letters, digits, _, . or -, the first no . or -";

/// Whether a text is a valid name: names become names of files and of counters.
pub fn is_name(name: &str) -> bool {
    (1..=31).contains(&name.len())
        && !name.starts_with(['.', '-'])
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}
