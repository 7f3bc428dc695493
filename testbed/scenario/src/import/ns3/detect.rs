//! Detection of a file's kind by its text.

use super::config::{is_key, setting};
use crate::import::text::{TextLine, decimal, lines};

/// Kind of a simulator's input file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FileKind {
    /// Keys and values.
    Config,
    /// Nodes and links.
    Topology,
    /// A flow list.
    Flows,
    /// A list of traced nodes.
    Trace,
    /// A distribution of flow sizes.
    Sizes,
}

impl FileKind {
    /// Returns the kind's name in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            FileKind::Config => "a configuration",
            FileKind::Topology => "a topology",
            FileKind::Flows => "a flow list",
            FileKind::Trace => "a list of traced nodes",
            FileKind::Sizes => "a distribution of flow sizes",
        }
    }
}

/// Description of the kinds, for messages.
pub(super) const EXPECTED: &str = "a configuration begins with a key and a value, a topology with `nodes switches links`, \
     a flow list with its number of flows and lines of 4 values or more, a trace list with its number of nodes, \
     a distribution of sizes has a size and a share on each line";

/// Detects a text's kind by its beginning; `None` if it matches none. The file's name decides between a short flow list and a short list
/// of traced nodes.
pub(super) fn detect(name: &str, text: &str) -> Option<FileKind> {
    let mut lines = lines(text);
    let first = lines.next()?;
    if is_config(text) {
        return Some(FileKind::Config);
    }
    let second = lines.next();
    // SimAI's line ends with the name of a GPU.
    if first.fields.len() == 6
        && is_numeric(&first.fields[..5])
        && second.as_ref().is_some_and(|line| is_numeric(&line.fields))
    {
        return Some(FileKind::Topology);
    }
    if !is_numeric(&first.fields) {
        return None;
    }
    match first.fields.len() {
        3 | 4 if second.as_ref().is_some_and(|line| is_numeric(&line.fields)) => Some(FileKind::Topology),
        2 if ends_like_a_distribution(text) => Some(FileKind::Sizes),
        1 => count_of(name, text, &first, second.as_ref()),
        _ => None,
    }
}

/// Detects a list that begins with its length.
fn count_of(name: &str, text: &str, first: &TextLine<'_>, second: Option<&TextLine<'_>>) -> Option<FileKind> {
    let announced: usize = first.fields[0].parse().ok()?;
    let Some(second) = second.filter(|_| announced > 0) else {
        return Some(if name.contains("flow") { FileKind::Flows } else { FileKind::Trace });
    };
    if !is_numeric(&second.fields) {
        return None;
    }
    let values = text.split_whitespace().count() - 1;
    // A flow has 4 values at least.
    let is_trace = values == announced || second.fields.len() < 4;
    Some(if is_trace { FileKind::Trace } else { FileKind::Flows })
}

fn is_numeric(fields: &[&str]) -> bool {
    fields.iter().all(|field| decimal(field, 0).is_some())
}

/// Whether most lines of a text have a key and a value: a configuration with wrong lines is one.
fn is_config(text: &str) -> bool {
    let has_setting =
        |line: &TextLine<'_>| setting(&line.fields).is_some_and(|(key, value)| is_key(key) && !value.is_empty());
    let (settings, others) = lines(text).fold((0, 0), |(settings, others), line| match has_setting(&line) {
        true => (settings + 1, others),
        false => (settings, others + 1),
    });
    settings > others
}

fn ends_like_a_distribution(text: &str) -> bool {
    let last = lines(text).last();
    let share = last.filter(|line| line.fields.len() == 2).and_then(|line| decimal(line.fields[1], 6));
    matches!(share, Some(1_000_000 | 100_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_detected_by_their_beginning() {
        for (name, text, kind) in [
            ("a.txt", "\nENABLE_QCN 1\nCC_MODE 3\n", Some(FileKind::Config)),
            ("a.txt", "\u{feff}# of May\nENABLE_QCN 1\nCC_MODE 3 # HPCC\n", Some(FileKind::Config)),
            ("a.txt", "ENABLE_QCN=1\n//CC_MODE 3\nCC_MODE = 1\n", Some(FileKind::Config)),
            ("a.txt", "buffers\nENABLE_QCN 1\nCC_MODE 3\n", Some(FileKind::Config)),
            ("a.txt", "18 8 1 9 20 A100\n8\n", Some(FileKind::Topology)),
            ("a.txt", "1\n0 0 1 3 100 64000 2\n", Some(FileKind::Flows)),
            ("a.txt", "3 1 2\n2\n0 2 100Gbps 1us 0\n1 2 100Gbps 1us 0\n", Some(FileKind::Topology)),
            ("a.txt", "3 1 1 2 25000000000 100000000000\n2\n", Some(FileKind::Topology)),
            ("a.txt", "3 1 1 2\n2\n", Some(FileKind::Topology)),
            ("a.txt", "1\n0 1 3 100 64000 2\n", Some(FileKind::Flows)),
            ("a.txt", "2\n0 1 3 64000 2.000000003\n1 0 3 64000 2.1\n", Some(FileKind::Flows)),
            ("a.txt", "2\n0\n1\n", Some(FileKind::Trace)),
            ("a.txt", "6\n0 1 2 3 4 5\n", Some(FileKind::Trace)),
            ("trace.txt", "0\n", Some(FileKind::Trace)),
            ("flow.txt", "0\n", Some(FileKind::Flows)),
            ("a.txt", "0 0\n10000 15\n30000000 100\n", Some(FileKind::Sizes)),
            ("a.txt", "0 0\n10000 .15\n30000000 1.0\n", Some(FileKind::Sizes)),
            ("fct.txt", "0b000001 0b000101 10000 100 64000 2000000000 9000 8000\n", None),
            ("pfc.txt", "2000004000 320 1 5 1\n", None),
            ("qlen.txt", "time: 2000000000\n320 1 5 6\n", None),
            ("a.txt", "0 0\n10 20\n", None),
            ("a.txt", "", None),
            ("a.txt", "# a README", None),
        ] {
            assert_eq!(detect(name, text), kind, "{text}");
        }
    }
}
