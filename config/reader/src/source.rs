//! Text of a file and the positions of its keys.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Configuration file: name, text, and the position of every key.
///
/// Cheap to clone. The default has neither name nor text, for a configuration created in code; its errors show no line.
#[derive(Clone, Default)]
pub struct Source(Arc<Inner>);

#[derive(Default)]
struct Inner {
    name: String,
    text: String,
    places: BTreeMap<String, KeySpan>,
}

/// Byte ranges of a key and its value; equal for an element of an array.
#[derive(Clone)]
pub(crate) struct KeySpan {
    pub(crate) key: Range<usize>,
    pub(crate) value: Range<usize>,
}

impl Source {
    /// Maximum depth, above that of any known key; deeper keys are reported as unknown from here.
    const DEPTH_MAX: usize = 6;

    pub(crate) fn unread(name: &str, text: &str) -> Source {
        Source(Arc::new(Inner { name: name.to_owned(), text: text.to_owned(), places: BTreeMap::new() }))
    }

    pub(crate) fn new(name: &str, text: &str, table: &DeTable<'_>) -> Source {
        let mut places = BTreeMap::new();
        note_table(table, "", Self::DEPTH_MAX, &mut places);
        Source(Arc::new(Inner { name: name.to_owned(), text: text.to_owned(), places }))
    }

    /// Name under which the file was opened.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Whole text.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// Line number, from 1, of a key; `None` if neither the key nor an enclosing table exists.
    pub fn line_of(&self, key: &str) -> Option<usize> {
        self.nearest_place(key).map(|(place, _)| self.line_at(place.key.start))
    }

    /// Whether a key is in the file.
    pub fn has(&self, key: &str) -> bool {
        self.0.places.contains_key(key)
    }

    /// Byte range of a key's value; for a table or an element of an array, the parser's span.
    pub(crate) fn span_of(&self, key: &str) -> Option<Range<usize>> {
        self.0.places.get(key).map(|place| place.value.clone())
    }

    pub(crate) fn is(&self, other: &Source) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn line_at(&self, offset: usize) -> usize {
        let before = &self.0.text.as_bytes()[..offset.min(self.0.text.len())];
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }

    /// Position of a key, or of the nearest enclosing table; the flag is true for the key itself.
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
