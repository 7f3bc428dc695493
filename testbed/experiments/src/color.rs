//! Detection of terminals with colours.

use std::io::IsTerminal;

/// Whether a stream shows colours: a terminal does, unless `NO_COLOR` is set to anything (no-color.org), or `TERM` is `dumb`.
pub fn has_color(stream: &impl IsTerminal) -> bool {
    let variable = |name| std::env::var_os(name).unwrap_or_default();
    stream.is_terminal() && variable("NO_COLOR").is_empty() && variable("TERM") != "dumb"
}
