//! Text that settings make.

use std::ops::Range;

use super::{Origin, Piece, Setting, Settings};
use crate::{ConfigError, ConfigErrors};

/// Switch file made of settings, with the origin of each span of its text.
#[derive(Clone, Debug)]
pub struct Draft {
    name: String,
    text: String,
    /// Origins in text order, without gaps between those of one line.
    stretches: Vec<Stretch>,
    /// Position for errors that no line of the text caused.
    whole: Option<Origin>,
}

#[derive(Clone, Debug)]
struct Stretch {
    at: Range<usize>,
    origin: Origin,
}

impl Draft {
    /// Creates the file of these settings. `name` is its name in messages and in its first line.
    pub fn new(name: &str, settings: &Settings) -> Draft {
        let mut draft = Draft {
            name: name.to_owned(),
            text: format!("# {}\n", name.replace(char::is_control, " ")),
            stretches: Vec::new(),
            whole: settings.origin().cloned(),
        };
        draft.write_table("", settings);
        draft
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
        ConfigErrors::of(traced).expect("as many as there were")
    }

    fn traced_error(&self, error: ConfigError) -> ConfigError {
        let mut places = error.spans().iter().map(|(span, label)| Some((self.origin(span)?, label.clone())));
        let first = match places.next() {
            Some(Some((origin, label))) => Some((origin, label)),
            Some(None) => None,
            None => self.whole.clone().map(|origin| (origin, String::new())),
        };
        let Some((own, label)) = first else { return error };
        // An error shows one file; its message names positions in other files.
        let others = places.flatten().filter(|(origin, _)| origin.source.is(&own.source) && origin.span != own.span);
        let labels = [(own.span.clone(), label)];
        let labels = labels.into_iter().chain(others.map(|(origin, label)| (origin.span, label))).collect();
        ConfigError::new(own.source, error.message().to_owned(), error.help_text().to_owned(), labels)
    }

    /// Origin of a span: character by character if it was copied, otherwise the whole source span.
    fn origin(&self, span: &Range<usize>) -> Option<Origin> {
        let at = self.stretches.partition_point(|stretch| stretch.at.end <= span.start);
        let Stretch { at, origin } = self.stretches.get(at).filter(|stretch| stretch.at.start <= span.start)?;
        let is_copy = at.len() == origin.span.len() && span.end <= at.end;
        let span = if is_copy {
            let moved = |offset: usize| offset - at.start + origin.span.start;
            moved(span.start)..moved(span.end)
        } else {
            origin.span.clone()
        };
        Some(Origin { source: origin.source.clone(), span })
    }

    fn write_table(&mut self, path: &str, settings: &Settings) {
        for entry in &settings.entries {
            if let Setting::Value { piece, .. } = &entry.setting {
                self.write_piece(&entry.key);
                self.text += " = ";
                self.write_piece(piece);
                self.text += "\n";
            }
        }
        for entry in &settings.entries {
            let path = if path.is_empty() { entry.key.text.clone() } else { format!("{path}.{}", entry.key.text) };
            match &entry.setting {
                Setting::Value { .. } => {}
                Setting::Table(table) => {
                    self.write_header(format!("[{path}]"), entry.key.origin.clone());
                    self.write_table(&path, table);
                }
                Setting::Tables(tables) => {
                    for table in tables {
                        self.write_header(format!("[[{path}]]"), table.origin.clone());
                        self.write_table(&path, table);
                    }
                }
            }
        }
    }

    fn write_header(&mut self, text: String, origin: Option<Origin>) {
        self.text += "\n";
        self.write_piece(&Piece { text, origin });
        self.text += "\n";
    }

    fn write_piece(&mut self, piece: &Piece) {
        let start = self.text.len();
        self.text += &piece.text;
        if let Some(origin) = &piece.origin {
            self.stretches.push(Stretch { at: start..self.text.len(), origin: origin.clone() });
        }
    }
}
