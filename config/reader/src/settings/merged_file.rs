//! File made of a [`ConfigTable`].

use std::ops::Range;

use super::{ConfigTable, ConfigValue, Fragment, SourceSpan};
use crate::{ConfigError, ConfigErrors};

/// Switch file made of a [`ConfigTable`], with the origin of each span of its text.
#[derive(Clone, Debug)]
pub struct MergedFile {
    name: String,
    text: String,
    /// Origins in text order, without gaps between those of one line.
    span_mappings: Vec<SpanMapping>,
    /// Position for errors that no line of the text caused.
    fallback: Option<SourceSpan>,
}

#[derive(Clone, Debug)]
struct SpanMapping {
    at: Range<usize>,
    origin: SourceSpan,
}

impl MergedFile {
    /// Creates the file of a table. `name` is its name in messages and in its first line.
    pub fn new(name: &str, settings: &ConfigTable) -> MergedFile {
        let mut merged = MergedFile {
            name: name.to_owned(),
            text: format!("# {}\n", name.replace(char::is_control, " ")),
            span_mappings: Vec::new(),
            fallback: settings.origin().cloned(),
        };
        merged.write_table("", settings);
        merged
    }

    /// Parses the file with `parse`; errors point at the origins of its parts.
    ///
    /// # Errors
    /// All errors of `parse`.
    pub fn read<T>(&self, parse: impl FnOnce(&str, &str) -> Result<T, ConfigErrors>) -> Result<T, ConfigErrors> {
        parse(&self.name, &self.text).map_err(|errors| self.traced(errors))
    }

    /// Maps errors of this file to the origins of its text. An error whose own position has no origin is unchanged.
    pub fn traced(&self, errors: ConfigErrors) -> ConfigErrors {
        let traced = errors.into_iter().map(|error| self.traced_error(error)).collect();
        ConfigErrors::from_vec(traced).expect("as many as there were")
    }

    fn traced_error(&self, error: ConfigError) -> ConfigError {
        let mut places = error.spans().iter().map(|(span, label)| Some((self.origin(span)?, label.clone())));
        let first = match places.next() {
            Some(Some((origin, label))) => Some((origin, label)),
            Some(None) => None,
            None => self.fallback.clone().map(|origin| (origin, String::new())),
        };
        let Some((own, label)) = first else { return error };
        // An error shows one file; its message names positions in other files.
        let others = places.flatten().filter(|(origin, _)| origin.source.is(&own.source) && origin.span != own.span);
        let labels = [(own.span.clone(), label)];
        let labels = labels.into_iter().chain(others.map(|(origin, label)| (origin.span, label))).collect();
        ConfigError::new(own.source, error.message().to_owned(), error.help_text().to_owned(), labels)
    }

    /// Origin of a span: character by character if it was copied, otherwise the whole source span.
    fn origin(&self, span: &Range<usize>) -> Option<SourceSpan> {
        let at = self.span_mappings.partition_point(|mapping| mapping.at.end <= span.start);
        let SpanMapping { at, origin } = self.span_mappings.get(at).filter(|mapping| mapping.at.start <= span.start)?;
        let is_copy = at.len() == origin.span.len() && span.end <= at.end;
        let span = if is_copy {
            let moved = |offset: usize| offset - at.start + origin.span.start;
            moved(span.start)..moved(span.end)
        } else {
            origin.span.clone()
        };
        Some(SourceSpan { source: origin.source.clone(), span })
    }

    fn write_table(&mut self, path: &str, settings: &ConfigTable) {
        for entry in &settings.entries {
            if let ConfigValue::Value { fragment, .. } = &entry.setting {
                self.write_fragment(&entry.key);
                self.text += " = ";
                self.write_fragment(fragment);
                self.text += "\n";
            }
        }
        for entry in &settings.entries {
            let path = if path.is_empty() { entry.key.text.clone() } else { format!("{path}.{}", entry.key.text) };
            match &entry.setting {
                ConfigValue::Value { .. } => {}
                ConfigValue::Table(table) => {
                    self.write_header(format!("[{path}]"), entry.key.origin.clone());
                    self.write_table(&path, table);
                }
                ConfigValue::Tables(tables) => {
                    for table in tables {
                        self.write_header(format!("[[{path}]]"), table.origin.clone());
                        self.write_table(&path, table);
                    }
                }
            }
        }
    }

    fn write_header(&mut self, text: String, origin: Option<SourceSpan>) {
        self.text += "\n";
        self.write_fragment(&Fragment { text, origin });
        self.text += "\n";
    }

    fn write_fragment(&mut self, fragment: &Fragment) {
        let start = self.text.len();
        self.text += &fragment.text;
        if let Some(origin) = &fragment.origin {
            self.span_mappings.push(SpanMapping { at: start..self.text.len(), origin: origin.clone() });
        }
    }
}
