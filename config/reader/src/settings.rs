//! Switch settings from parts of other files, overlaid key by key.
//!
//! [`Settings`] keep each value as written, with its position. A [`Draft`] is the switch file that they make together. It is parsed as any
//! other, so that every rule applies, and its errors point at the settings' lines.

mod draft;

pub use draft::Draft;

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::{ConfigErrors, Format, Source, Table, read_file, read_text};

/// Keys and values of a table.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    entries: Vec<Entry>,
    origin: Option<Origin>,
}

/// Position in a file.
#[derive(Clone, Debug)]
pub struct Origin {
    source: Source,
    span: Range<usize>,
}

#[derive(Clone, Debug)]
struct Entry {
    name: String,
    /// Key as written, in quotes where necessary.
    key: Piece,
    setting: Setting,
}

#[derive(Clone, Debug)]
enum Setting {
    Value {
        piece: Piece,
        /// Content, if the value is a string.
        string: Option<String>,
    },
    Table(Settings),
    Tables(Vec<Settings>),
}

/// Fragment of TOML and its position.
#[derive(Clone, Debug)]
struct Piece {
    text: String,
    origin: Option<Origin>,
}

impl Settings {
    /// Settings of a table in a file.
    pub fn of(table: &Table<'_>) -> Settings {
        let origin = Origin::of_table(table);
        let source = table.doc().source();
        table.contents().map_or_else(Settings::default, |contents| settings(source, contents, origin))
    }

    /// Settings of a whole file. Only the syntax is checked.
    ///
    /// # Errors
    /// The file can't be read, or is not TOML.
    pub fn load(path: &Path, what: &'static str) -> Result<Settings, ConfigErrors> {
        let format = Format { what, reference: "docs/CONFIGURATION.md", repeated: "[[ports]]", tables: &[] };
        let text = read_file(path, &format)?;
        read_text(&path.display().to_string(), &text, &format, Settings::of).map(|(settings, _)| settings)
    }

    /// Overlays other settings key by key, also within tables; the others win. Arrays of tables, and the tables at the keys `whole`, are
    /// replaced as a whole.
    pub fn lay_over(&mut self, others: Settings, whole: &[&str]) {
        for entry in others.entries {
            let own = self.entries.iter_mut().find(|own| own.name == entry.name);
            match (own, entry) {
                (
                    Some(Entry { name, setting: Setting::Table(own), .. }),
                    Entry { setting: Setting::Table(other), .. },
                ) if !whole.contains(&name.as_str()) => own.lay_over(other, whole),
                (Some(own), entry) => *own = entry,
                (None, entry) => self.entries.push(entry),
            }
        }
    }

    /// Whether the key exists.
    pub fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// String at a key.
    pub fn string(&self, key: &str) -> Option<&str> {
        match &self.entry(key)?.setting {
            Setting::Value { string, .. } => string.as_deref(),
            _ => None,
        }
    }

    /// Table at a key.
    pub fn table(&self, key: &str) -> Option<&Settings> {
        match &self.entry(key)?.setting {
            Setting::Table(table) => Some(table),
            _ => None,
        }
    }

    /// Tables of the array at a key; empty if there is no such array.
    pub fn tables(&self, key: &str) -> &[Settings] {
        match self.entry(key).map(|entry| &entry.setting) {
            Some(Setting::Tables(tables)) => tables,
            _ => &[],
        }
    }

    /// Names of all keys whose value is a table.
    pub fn table_names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter(|entry| matches!(entry.setting, Setting::Table(_))).map(|entry| entry.name.as_str())
    }

    /// Returns the table at a key; creates it if absent.
    pub fn table_mut(&mut self, key: &str) -> &mut Settings {
        let entry = self.entry_or(key, Setting::Table(Settings::default()));
        if !matches!(entry.setting, Setting::Table(_)) {
            entry.setting = Setting::Table(Settings::default());
        }
        let Setting::Table(table) = &mut entry.setting else { unreachable!("just made a table") };
        table
    }

    /// Returns the tables of the array at a key; creates it if absent.
    pub fn tables_mut(&mut self, key: &str) -> &mut Vec<Settings> {
        let entry = self.entry_or(key, Setting::Tables(Vec::new()));
        if !matches!(entry.setting, Setting::Tables(_)) {
            entry.setting = Setting::Tables(Vec::new());
        }
        let Setting::Tables(tables) = &mut entry.setting else { unreachable!("just made an array") };
        tables
    }

    /// Removes a key and its value.
    pub fn remove(&mut self, key: &str) {
        self.take(key);
    }

    /// Removes and returns a table; an empty one if absent.
    pub fn take_table(&mut self, key: &str) -> Settings {
        match self.take(key) {
            Some(Entry { setting: Setting::Table(table), .. }) => table,
            _ => Settings::default(),
        }
    }

    /// Moves some keys to settings of their own.
    pub fn take_keys(&mut self, keys: &[&str]) -> Settings {
        let entries = keys.iter().filter_map(|key| self.take(key)).collect();
        Settings { entries, origin: self.origin.clone() }
    }

    /// Sets a key to a value in TOML; `origin` is the position that errors point at.
    pub fn set(&mut self, key: &str, value: &str, origin: Option<&Origin>) {
        let piece = |text: &str| Piece { text: text.to_owned(), origin: origin.cloned() };
        let setting = Setting::Value { piece: piece(value), string: None };
        self.take(key);
        self.entries.push(Entry { name: key.to_owned(), key: piece(key), setting });
    }

    /// Sets a key to a string, which must have no quotes or control characters.
    pub fn set_string(&mut self, key: &str, value: &str, origin: Option<&Origin>) {
        self.set(key, &format!("\"{value}\""), origin);
    }

    /// Sets a key to a table.
    pub fn put_table(&mut self, key: &str, table: Settings) {
        *self.table_mut(key) = table;
    }

    /// Position of the table; `None` for one that was created in code.
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// Sets the position of the table.
    pub fn at(self, origin: Option<Origin>) -> Settings {
        Settings { origin, ..self }
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == key)
    }

    fn entry_or(&mut self, key: &str, setting: Setting) -> &mut Entry {
        let at = self.entries.iter().position(|entry| entry.name == key).unwrap_or_else(|| {
            let key_piece = Piece { text: key.to_owned(), origin: self.origin.clone() };
            self.entries.push(Entry { name: key.to_owned(), key: key_piece, setting });
            self.entries.len() - 1
        });
        &mut self.entries[at]
    }

    fn take(&mut self, key: &str) -> Option<Entry> {
        let at = self.entries.iter().position(|entry| entry.name == key)?;
        Some(self.entries.remove(at))
    }
}

impl Origin {
    /// Position of a key's value in the document; `None` if it is absent.
    pub fn of(table: &Table<'_>, key: &str) -> Option<Origin> {
        let source = table.doc().source();
        Some(Origin { source: source.clone(), span: source.span_of(&table.at(key))? })
    }

    /// Position of a table, for a table of an array its header; `None` if it is absent.
    pub fn of_table(table: &Table<'_>) -> Option<Origin> {
        let source = table.doc().source();
        Some(Origin { source: source.clone(), span: source.span_of(table.path())? })
    }

    /// Offset from the beginning of the file, in bytes.
    pub fn offset(&self) -> usize {
        self.span.start
    }
}

fn settings(source: &Source, table: &DeTable<'_>, origin: Option<Origin>) -> Settings {
    // The parser sorts keys by name; this restores the order of the file.
    let mut in_order: Vec<(&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)> = table.iter().collect();
    in_order.sort_by_key(|(key, _)| key.span().start);
    let entry = |(key, value): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| Entry {
        name: key.get_ref().to_string(),
        key: piece(source, key.span()),
        setting: setting(source, key.span(), value),
    };
    Settings { entries: in_order.into_iter().map(entry).collect(), origin }
}

fn setting(source: &Source, key: Range<usize>, value: &Spanned<DeValue<'_>>) -> Setting {
    let place = |span| Some(Origin { source: source.clone(), span });
    match value.get_ref() {
        DeValue::Table(table) => Setting::Table(settings(source, table, place(key))),
        DeValue::Array(array) if !array.is_empty() && array.iter().all(|element| element.get_ref().is_table()) => {
            let tables = array.iter().filter_map(|element| Some((element.span(), element.get_ref().as_table()?)));
            Setting::Tables(tables.map(|(span, table)| settings(source, table, place(span))).collect())
        }
        other => Setting::Value { piece: piece(source, value.span()), string: other.as_str().map(str::to_owned) },
    }
}

fn piece(source: &Source, span: Range<usize>) -> Piece {
    let text = source.text().get(span.clone()).unwrap_or("").to_owned();
    Piece { text, origin: Some(Origin { source: source.clone(), span }) }
}
