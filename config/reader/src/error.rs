//! Errors of a configuration: what is wrong, where, and what to write instead.

use std::fmt;
use std::ops::Range;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, SourceCode};

use crate::Source;

/// One error of a configuration: a [`Diagnostic`] with the file, the spans in it and a help text.
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

    /// The fault, in a sentence.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to write instead; may be empty.
    pub fn help_text(&self) -> &str {
        &self.help
    }

    /// The name of the file.
    pub fn file(&self) -> &str {
        self.source.name()
    }

    /// The line, from 1; `None` for an error that no line of the file caused.
    pub fn line(&self) -> Option<usize> {
        self.labels.first().map(|(span, _)| self.source.line_at(span.start))
    }

    /// The text that the error points at; empty for an error that no text caused.
    pub fn spanned_text(&self) -> &str {
        self.labels.first().and_then(|(span, _)| self.source.text().get(span.clone())).unwrap_or("")
    }

    /// What the error points at, in bytes, its own place first, each with what is said of it there.
    pub(crate) fn spans(&self) -> &[(Range<usize>, String)] {
        &self.labels
    }

    /// This error with something said before its message.
    pub fn prefixed(mut self, prefix: &str) -> ConfigError {
        self.message.insert_str(0, prefix);
        self
    }

    /// Whether another error says the same about the same place.
    pub fn is_twin_of(&self, other: &ConfigError) -> bool {
        self.message == other.message && self.file() == other.file() && self.offset() == other.offset()
    }

    /// Where the error stands among those of its file.
    fn offset(&self) -> usize {
        self.labels.first().map_or(usize::MAX, |(span, _)| span.start)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The frame of the snippet names the file; without a snippet this must.
        if self.labels.is_empty() && !self.file().is_empty() {
            write!(f, "{}: ", self.file())?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for ConfigError {}

impl Diagnostic for ConfigError {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        (!self.help.is_empty()).then(|| Box::new(&self.help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        (!self.labels.is_empty()).then_some(&self.source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let span = |(index, (span, label)): (usize, &(Range<usize>, String))| {
            let label = (!label.is_empty()).then(|| label.clone());
            let place = (span.start, span.len());
            if index == 0 {
                LabeledSpan::new_primary_with_span(label, place)
            } else {
                LabeledSpan::new_with_span(label, place)
            }
        };
        (!self.labels.is_empty())
            .then(|| Box::new(self.labels.iter().enumerate().map(span)) as Box<dyn Iterator<Item = LabeledSpan>>)
    }
}

/// All errors found in one configuration, in the order of the file; never none.
#[derive(Clone, Debug)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// More than this says nothing new to whoever mends the file.
    const SHOWN_MAX: usize = 20;

    /// The errors, if there are any, sorted by place; one that is found twice is kept once.
    pub fn of(mut errors: Vec<ConfigError>) -> Option<ConfigErrors> {
        errors.sort_by_key(ConfigError::offset);
        errors.dedup_by(|a, b| a.is_twin_of(b));
        (!errors.is_empty()).then_some(ConfigErrors(errors))
    }

    /// The errors of several checks or files as one; `None` if there are none.
    pub fn joined(all: impl IntoIterator<Item = ConfigErrors>) -> Option<ConfigErrors> {
        let errors: Vec<ConfigError> = all.into_iter().flat_map(|errors| errors.0).collect();
        (!errors.is_empty()).then_some(ConfigErrors(errors))
    }

    /// Each error.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.0.iter()
    }

    /// For the command line: each error with the lines it points at and what to write instead. In colour and with
    /// line-drawing characters for a terminal, else in plain ASCII.
    pub fn render(&self, color: bool) -> String {
        let theme = if color { GraphicalTheme::unicode() } else { GraphicalTheme::none() };
        let handler = GraphicalReportHandler::new_themed(theme).with_width(100).with_context_lines(1);
        let mut text = String::new();
        for error in self.0.iter().take(Self::SHOWN_MAX) {
            let mut report = String::new();
            // It fails only on a span outside the text.
            if handler.render_report(&mut report, error).is_err() {
                report = format!("{error}\n{}\n", error.help);
            }
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(report.trim_start_matches('\n'));
        }
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
    /// A line an error, for logs: `lab.toml:12: what is wrong; what to write`.
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

impl Diagnostic for ConfigErrors {
    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.0.iter().map(|error| error as &dyn Diagnostic)))
    }
}

/// An error before its keys are looked up in the text.
#[derive(Clone, Debug)]
pub struct Problem {
    pub(crate) message: String,
    pub(crate) help: String,
    pub(crate) marks: Vec<Mark>,
}

/// A key to point at.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) key: String,
    pub(crate) label: String,
    /// Points at the key itself and not at its value.
    pub(crate) on_key: bool,
}

impl Problem {
    /// An error with no place in the file yet; `message` says what is wrong, `help` what to write instead.
    pub fn new(message: impl Into<String>, help: impl Into<String>) -> Problem {
        Problem { message: message.into(), help: help.into(), marks: Vec::new() }
    }

    /// Points at a value. The first mark is the error's own place, others show what it clashes with.
    pub fn at(mut self, key: impl Into<String>, label: impl Into<String>) -> Problem {
        self.marks.push(Mark { key: key.into(), label: label.into(), on_key: false });
        self
    }

    /// Points at a key.
    pub fn at_key(mut self, key: impl Into<String>, label: impl Into<String>) -> Problem {
        self.marks.push(Mark { key: key.into(), label: label.into(), on_key: true });
        self
    }
}

/// Errors at places of a file.
impl Source {
    /// An error at a key, for a check that needs more than the file: `ports[2].af_packet`, `lcores.cores[0]`,
    /// `buffer.size`. Ports and other arrays count from 0 in the order of the file. A key that is not in the file
    /// (its default did the harm) points at the table it would stand in.
    ///
    /// `message` says what is wrong, `help` what to write instead; an empty `help` is left out.
    pub fn error_at(&self, key: &str, message: impl Into<String>, help: impl Into<String>) -> ConfigErrors {
        ConfigErrors::from(self.error(Problem::new(message, help).at(key, "")))
    }

    /// An error at a stretch of the text, in bytes, for a check by another parser of the same file.
    pub fn error_in(&self, bytes: Range<usize>, message: impl Into<String>, help: impl Into<String>) -> ConfigErrors {
        let end = bytes.end.min(self.text().len());
        let labels = vec![(bytes.start.min(end)..end, String::new())];
        ConfigErrors::from(ConfigError::new(self.clone(), message.into(), help.into(), labels))
    }

    /// The problem with its keys' places filled in.
    pub fn error(&self, problem: Problem) -> ConfigError {
        let mut labels = Vec::new();
        for (index, mark) in problem.marks.iter().enumerate() {
            let Some((place, exact)) = self.nearest_place(&mark.key) else { continue };
            // A second mark is there to show what clashes; a table around it would show nothing.
            if index > 0 && !exact {
                continue;
            }
            let span = if mark.on_key || !exact { place.key.clone() } else { place.value.clone() };
            labels.push((span, mark.label.clone()));
        }
        ConfigError::new(self.clone(), problem.message, problem.help, labels)
    }
}
