//! Tables of Markdown.

use std::fmt::Write as _;

/// Appends the head of a table, with an empty line before it.
pub(super) fn head<S: AsRef<str>>(text: &mut String, cells: impl IntoIterator<Item = S>) {
    let cells: Vec<String> = cells.into_iter().map(|cell| escaped(cell.as_ref())).collect();
    let _ = writeln!(text, "\n| {} |\n|{}", cells.join(" | "), "---|".repeat(cells.len()));
}

/// Appends a row of a table.
pub(super) fn row<S: AsRef<str>>(text: &mut String, cells: impl IntoIterator<Item = S>) {
    let cells: Vec<String> = cells.into_iter().map(|cell| escaped(cell.as_ref())).collect();
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
