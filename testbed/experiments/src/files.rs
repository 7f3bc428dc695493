//! Files that commands leave: whole or not at all, and with their names in what goes wrong.

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

use crate::Failure;

/// Has a file written beside its place, and then put there; what was written of one that failed is removed.
pub fn whole(path: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = Path::new(&part);
    let written = write(part).and_then(|()| fs::rename(part, path));
    if written.is_err() {
        let _ = fs::remove_file(part);
    }
    written
}

/// Plain data as JSON, for people too.
pub fn json_text(content: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(content).expect("plain data is JSON");
    text.push('\n');
    text
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// An error with the file that it is about.
pub fn at(path: &Path) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure::Run(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_a_shell_reads_them() {
        assert_eq!(
            ["runs/a-1.toml", "GFC, arrival", "it's", ""].map(quoted),
            ["runs/a-1.toml", "'GFC, arrival'", r"'it'\''s'", "''"]
        );
    }
}
