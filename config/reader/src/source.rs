//! The text of a file and where its keys stand in it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use miette::{MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A configuration file: its name, its text, and the position of every key.
///
/// Cheap to clone. The default has no name and no text, for a configuration that was made in code; errors that point
/// at it show no line.
#[derive(Clone, Default)]
pub struct Source(Arc<Inner>);

#[derive(Default)]
struct Inner {
    name: String,
    text: String,
    places: BTreeMap<String, KeySpan>,
}

/// Where a key and its value stand, in bytes. An element of an array has its own span for both.
#[derive(Clone)]
pub(crate) struct KeySpan {
    pub(crate) key: Range<usize>,
    pub(crate) value: Range<usize>,
}

impl Source {
    /// Deeper than any known key; what lies below is reported as unknown from here.
    const DEPTH_MAX: usize = 6;

    /// A text that no keys are known of yet.
    pub(crate) fn unread(name: &str, text: &str) -> Source {
        Source(Arc::new(Inner { name: name.to_owned(), text: text.to_owned(), places: BTreeMap::new() }))
    }

    /// A text with the keys of the table read from it.
    pub(crate) fn new(name: &str, text: &str, table: &DeTable<'_>) -> Source {
        let mut places = BTreeMap::new();
        note_table(table, "", Self::DEPTH_MAX, &mut places);
        Source(Arc::new(Inner { name: name.to_owned(), text: text.to_owned(), places }))
    }

    /// The name that the file was given by.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The line, from 1, on which a key of the file stands; `None` if neither it nor a table around it is there.
    pub fn line_of(&self, key: &str) -> Option<usize> {
        self.nearest_place(key).map(|(place, _)| self.line_at(place.key.start))
    }

    /// Where a key's value stands, in bytes; of an element of an array and of a table, what the parser takes for it.
    pub(crate) fn span_of(&self, key: &str) -> Option<Range<usize>> {
        self.0.places.get(key).map(|place| place.value.clone())
    }

    /// Whether this is the very same file as another.
    pub(crate) fn is(&self, other: &Source) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether the file has this key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.places.contains_key(key)
    }

    /// The line, from 1, of a byte.
    pub(crate) fn line_at(&self, offset: usize) -> usize {
        let before = &self.0.text.as_bytes()[..offset.min(self.0.text.len())];
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }

    /// The place of a key, or else of the nearest table around it; the flag says which.
    pub(crate) fn nearest_place(&self, key: &str) -> Option<(&KeySpan, bool)> {
        let mut path = key;
        loop {
            if let Some(place) = self.0.places.get(path) {
                return Some((place, path.len() == key.len()));
            }
            path = &path[..path.rfind(['.', '['])?];
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({:?})", self.0.name)
    }
}

impl SourceCode for Source {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        lines_before: usize,
        lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let contents = self.0.text.as_str().read_span(span, lines_before, lines_after)?;
        Ok(Box::new(MietteSpanContents::new_named(
            self.0.name.clone(),
            contents.data(),
            *contents.span(),
            contents.line(),
            contents.column(),
            contents.line_count(),
        )))
    }
}

fn note_table(table: &DeTable<'_>, path: &str, depth: usize, places: &mut BTreeMap<String, KeySpan>) {
    for (key, value) in table {
        let name = key.get_ref();
        let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
        places.insert(path.clone(), KeySpan { key: key.span(), value: value.span() });
        note_below(value, &path, depth, places);
    }
}

fn note_below(value: &Spanned<DeValue<'_>>, path: &str, depth: usize, places: &mut BTreeMap<String, KeySpan>) {
    if depth == 0 {
        return;
    }
    match value.get_ref() {
        DeValue::Table(table) => note_table(table, path, depth - 1, places),
        DeValue::Array(array) => {
            for (index, element) in array.iter().enumerate() {
                let path = format!("{path}[{index}]");
                places.insert(path.clone(), KeySpan { key: element.span(), value: element.span() });
                note_below(element, &path, depth - 1, places);
            }
        }
        _ => {}
    }
}
