//! Configuration errors: message, position and help.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::Source;

/// Configuration error: message, file, spans and a help text.
#[derive(Clone, Debug)]
pub struct ConfigError {
    source: Source,
    message: String,
    help: String,
    labels: Vec<(Range<usize>, String)>,
}

impl ConfigError {
    pub(crate) fn new(
        source: Source,
        message: String,
        help: String,
        labels: Vec<(Range<usize>, String)>,
    ) -> ConfigError {
        ConfigError { source, message, help, labels }
    }

    /// Error message, a sentence.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Suggested correction; may be empty.
    pub fn help_text(&self) -> &str {
        &self.help
    }

    /// Name of the file.
    pub fn file(&self) -> &str {
        self.source.name()
    }

    /// Line number, from 1; `None` for an error without a position.
    pub fn line(&self) -> Option<usize> {
        self.labels.first().map(|(span, _)| self.source.line_at(span.start))
    }

    /// Text that the error points at; empty for an error without a position.
    pub fn spanned_text(&self) -> &str {
        self.labels.first().and_then(|(span, _)| self.source.text().get(span.clone())).unwrap_or("")
    }

    /// Labelled spans, in bytes; the error's own position comes first.
    pub(crate) fn spans(&self) -> &[(Range<usize>, String)] {
        &self.labels
    }

    /// Prepends a prefix to the message.
    pub fn prefixed(mut self, prefix: &str) -> ConfigError {
        self.message.insert_str(0, prefix);
        self
    }

    /// Whether another error has the same message, file and position.
    pub fn is_duplicate_of(&self, other: &ConfigError) -> bool {
        self.message == other.message && self.file() == other.file() && self.offset() == other.offset()
    }

    /// Message, source lines with the labels, and help.
    fn report(&self) -> Group<'_> {
        let message = Level::ERROR.primary_title(self.to_string());
        let annotations = self.labels.iter().enumerate().map(|(index, (span, label))| {
            let kind = if index == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
            kind.span(span.clone()).label((!label.is_empty()).then_some(label.as_str()))
        });
        let lines = Snippet::source(self.source.text()).path(self.file()).annotations(annotations);
        let help = (!self.help.is_empty()).then(|| Level::HELP.message(self.help.as_str()));
        Group::with_title(message).elements((!self.labels.is_empty()).then_some(lines)).elements(help)
    }

    /// Byte offset of the error, the sort key within its file.
    fn offset(&self) -> usize {
        self.labels.first().map_or(usize::MAX, |(span, _)| span.start)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The snippet's frame names the file; without a snippet, the message must.
        if self.labels.is_empty() && !self.file().is_empty() {
            write!(f, "{}: ", self.file())?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for ConfigError {}

/// Errors of one configuration, at least one, in file order.
#[derive(Clone, Debug)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// Maximum number of errors in [`ConfigErrors::render`].
    const SHOWN_MAX: usize = 20;

    /// Sorts errors by position and removes duplicates; `None` if there are none.
    pub fn from_vec(mut errors: Vec<ConfigError>) -> Option<ConfigErrors> {
        errors.sort_by_key(ConfigError::offset);
        errors.dedup_by(|a, b| a.is_duplicate_of(b));
        (!errors.is_empty()).then_some(ConfigErrors(errors))
    }

    /// Concatenates the errors of several checks or files; `None` if there are none.
    pub fn joined(all: impl IntoIterator<Item = ConfigErrors>) -> Option<ConfigErrors> {
        let errors: Vec<ConfigError> = all.into_iter().flat_map(|errors| errors.0).collect();
        (!errors.is_empty()).then_some(ConfigErrors(errors))
    }

    /// Iterates over the errors.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.0.iter()
    }

    /// Renders the errors for the command line, each with its source lines and help, as rustc does. In colour for a terminal.
    pub fn render(&self, color: bool) -> String {
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let shown: Vec<String> =
            self.0.iter().take(Self::SHOWN_MAX).map(|error| renderer.render(&[error.report()]) + "\n").collect();
        let mut text = shown.join("\n");
        if self.0.len() > Self::SHOWN_MAX {
            text.push_str(&format!("\nand {} more errors\n", self.0.len() - Self::SHOWN_MAX));
        }
        text
    }
}

impl IntoIterator for ConfigErrors {
    type Item = ConfigError;
    type IntoIter = std::vec::IntoIter<ConfigError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> ConfigErrors {
        ConfigErrors(vec![error])
    }
}

impl fmt::Display for ConfigErrors {
    /// Formats one line per error, for logs: `lab.toml:12: message; help`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            match error.line() {
                Some(line) => write!(f, "{}:{line}: {error}", error.file())?,
                None => write!(f, "{error}")?,
            }
            if !error.help.is_empty() {
                write!(f, "; {}", error.help)?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// Error whose keys are not resolved to positions yet.
#[derive(Clone, Debug)]
pub struct Problem {
    pub(crate) message: String,
    pub(crate) help: String,
    pub(crate) labels: Vec<SourceLabel>,
}

#[derive(Clone, Debug)]
pub(crate) struct SourceLabel {
    pub(crate) key: String,
    pub(crate) label: String,
    pub(crate) on_key: bool,
}

impl Problem {
    /// Creates an error without a position; `message` states the fault, `help` the correction.
    pub fn new(message: impl Into<String>, help: impl Into<String>) -> Problem {
        Problem { message: message.into(), help: help.into(), labels: Vec::new() }
    }

    /// Adds a label at a value. The first label is the error's own position; others show conflicting values.
    pub fn with_label(mut self, key: impl Into<String>, label: impl Into<String>) -> Problem {
        self.labels.push(SourceLabel { key: key.into(), label: label.into(), on_key: false });
        self
    }

    /// Adds a label at a key.
    pub fn with_key_label(mut self, key: impl Into<String>, label: impl Into<String>) -> Problem {
        self.labels.push(SourceLabel { key: key.into(), label: label.into(), on_key: true });
        self
    }
}

/// Creation of errors at positions of a file.
impl Source {
    /// Creates an error at a key, for a check that needs more than the file: `ports[2].af_packet`, `lcores.cores[0]`, `buffer.size`. Array
    /// indices count from 0 in file order. A key that is not in the file points at the table that it belongs to.
    ///
    /// `message` states the fault, `help` the correction; an empty `help` is omitted.
    pub fn error_at(&self, key: &str, message: impl Into<String>, help: impl Into<String>) -> ConfigErrors {
        ConfigErrors::from(self.error(Problem::new(message, help).with_label(key, "")))
    }

    /// Creates an error at a byte range, for a check by another parser of the same file.
    pub fn error_in(&self, bytes: Range<usize>, message: impl Into<String>, help: impl Into<String>) -> ConfigErrors {
        let end = bytes.end.min(self.text().len());
        let labels = vec![(bytes.start.min(end)..end, String::new())];
        ConfigErrors::from(ConfigError::new(self.clone(), message.into(), help.into(), labels))
    }

    /// Resolves a problem's keys to positions.
    pub fn error(&self, problem: Problem) -> ConfigError {
        let mut labels = Vec::new();
        for (index, label) in problem.labels.iter().enumerate() {
            let Some((place, exact)) = self.nearest_place(&label.key) else { continue };
            // Further labels show conflicting values; the enclosing table would show nothing.
            if index > 0 && !exact {
                continue;
            }
            let span = if label.on_key || !exact { place.key.clone() } else { place.value.clone() };
            labels.push((span, label.label.clone()));
        }
        ConfigError::new(self.clone(), problem.message, problem.help, labels)
    }
}
