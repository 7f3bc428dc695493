//! Switch configuration from parts of other files, overlaid key by key.
//!
//! A [`ConfigTable`] keeps each value as written, with its position. A [`MergedFile`] is the switch file made of one. It is parsed as any
//! other, so that every rule applies, and its errors point at the original lines.

mod merged_file;

pub use merged_file::MergedFile;

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::{ConfigErrors, Format, Source, Table, read_file, read_text};

/// Keys and values of a table.
#[derive(Clone, Debug, Default)]
pub struct ConfigTable {
    entries: Vec<Entry>,
    origin: Option<SourceSpan>,
}

/// Position in a file.
#[derive(Clone, Debug)]
pub struct SourceSpan {
    source: Source,
    span: Range<usize>,
}

#[derive(Clone, Debug)]
struct Entry {
    name: String,
    /// Key as written, in quotes where necessary.
    key: Fragment,
    setting: ConfigValue,
}

#[derive(Clone, Debug)]
enum ConfigValue {
    Value {
        fragment: Fragment,
        /// Content, if the value is a string.
        string: Option<String>,
    },
    Table(ConfigTable),
    Tables(Vec<ConfigTable>),
}

/// Fragment of TOML and its position.
#[derive(Clone, Debug)]
struct Fragment {
    text: String,
    origin: Option<SourceSpan>,
}

impl ConfigTable {
    /// Reads a table of a file.
    pub fn from_table(table: &Table<'_>) -> ConfigTable {
        let origin = SourceSpan::of_table(table);
        let source = table.doc().source();
        table.contents().map_or_else(ConfigTable::default, |contents| settings(source, contents, origin))
    }

    /// Reads a file. Only the syntax is checked.
    ///
    /// # Errors
    /// The file can't be read, or is not TOML.
    pub fn load(path: &Path, what: &'static str) -> Result<ConfigTable, ConfigErrors> {
        let format = Format { what, reference: "docs/CONFIGURATION.md", repeated: "[[ports]]", tables: &[] };
        let text = read_file(path, &format)?;
        read_text(&path.display().to_string(), &text, &format, ConfigTable::from_table).map(|(settings, _)| settings)
    }

    /// Overlays another table key by key, also within tables; the other wins. Arrays of tables, and the tables at the keys `replaced`, are
    /// replaced.
    pub fn overlay(&mut self, others: ConfigTable, replaced: &[&str]) {
        for entry in others.entries {
            let own = self.entries.iter_mut().find(|own| own.name == entry.name);
            match (own, entry) {
                (
                    Some(Entry { name, setting: ConfigValue::Table(own), .. }),
                    Entry { setting: ConfigValue::Table(other), .. },
                ) if !replaced.contains(&name.as_str()) => own.overlay(other, replaced),
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
            ConfigValue::Value { string, .. } => string.as_deref(),
            _ => None,
        }
    }

    /// Value at a key: a string's content, or else TOML; `None` for a table.
    pub fn text(&self, key: &str) -> Option<&str> {
        match &self.entry(key)?.setting {
            ConfigValue::Value { string: Some(string), .. } => Some(string),
            ConfigValue::Value { fragment, .. } => Some(&fragment.text),
            _ => None,
        }
    }

    /// Table at a key.
    pub fn table(&self, key: &str) -> Option<&ConfigTable> {
        match &self.entry(key)?.setting {
            ConfigValue::Table(table) => Some(table),
            _ => None,
        }
    }

    /// Tables of the array at a key; empty if there is no such array.
    pub fn tables(&self, key: &str) -> &[ConfigTable] {
        match self.entry(key).map(|entry| &entry.setting) {
            Some(ConfigValue::Tables(tables)) => tables,
            _ => &[],
        }
    }

    /// Names of all keys whose value is a table.
    pub fn table_names(&self) -> impl Iterator<Item = &str> {
        self.entries
            .iter()
            .filter(|entry| matches!(entry.setting, ConfigValue::Table(_)))
            .map(|entry| entry.name.as_str())
    }

    /// Returns the table at a key; creates it if absent.
    pub fn table_mut(&mut self, key: &str) -> &mut ConfigTable {
        let entry = self.entry_or(key, ConfigValue::Table(ConfigTable::default()));
        if !matches!(entry.setting, ConfigValue::Table(_)) {
            entry.setting = ConfigValue::Table(ConfigTable::default());
        }
        let ConfigValue::Table(table) = &mut entry.setting else { unreachable!("just made a table") };
        table
    }

    /// Returns the tables of the array at a key; creates it if absent.
    pub fn tables_mut(&mut self, key: &str) -> &mut Vec<ConfigTable> {
        let entry = self.entry_or(key, ConfigValue::Tables(Vec::new()));
        if !matches!(entry.setting, ConfigValue::Tables(_)) {
            entry.setting = ConfigValue::Tables(Vec::new());
        }
        let ConfigValue::Tables(tables) = &mut entry.setting else { unreachable!("just made an array") };
        tables
    }

    /// Removes a key and its value.
    pub fn remove(&mut self, key: &str) {
        self.take(key);
    }

    /// Removes and returns a table; an empty one if absent.
    pub fn take_table(&mut self, key: &str) -> ConfigTable {
        match self.take(key) {
            Some(Entry { setting: ConfigValue::Table(table), .. }) => table,
            _ => ConfigTable::default(),
        }
    }

    /// Moves some keys to a table of their own.
    pub fn take_keys<'k>(&mut self, keys: impl IntoIterator<Item = &'k str>) -> ConfigTable {
        let entries = keys.into_iter().filter_map(|key| self.take(key)).collect();
        ConfigTable { entries, origin: self.origin.clone() }
    }

    /// Sets a key to a value in TOML; `origin` is the position that errors point at.
    pub fn set(&mut self, key: &str, value: &str, origin: Option<&SourceSpan>) {
        let fragment = |text: &str| Fragment { text: text.to_owned(), origin: origin.cloned() };
        let setting = ConfigValue::Value { fragment: fragment(value), string: None };
        self.take(key);
        self.entries.push(Entry { name: key.to_owned(), key: fragment(key), setting });
    }

    /// Sets a key to a string, which must have no quotes or control characters.
    pub fn set_string(&mut self, key: &str, value: &str, origin: Option<&SourceSpan>) {
        self.set(key, &format!("\"{value}\""), origin);
    }

    /// Sets a key to the value of another table's key `from`, if that exists. Errors point at that value.
    pub fn set_from(&mut self, key: &str, other: &ConfigTable, from: &str) {
        let Some(Entry { key: Fragment { origin, .. }, setting, .. }) = other.entry(from) else { return };
        let key_piece = Fragment { text: key.to_owned(), origin: origin.clone() };
        let entry = Entry { name: key.to_owned(), key: key_piece, setting: setting.clone() };
        self.take(key);
        self.entries.push(entry);
    }

    /// Sets a key to a table.
    pub fn put_table(&mut self, key: &str, table: ConfigTable) {
        *self.table_mut(key) = table;
    }

    /// Position of the table; `None` for one that was created in code.
    pub fn origin(&self) -> Option<&SourceSpan> {
        self.origin.as_ref()
    }

    /// Sets the position of the table.
    pub fn with_origin(self, origin: Option<SourceSpan>) -> ConfigTable {
        ConfigTable { origin, ..self }
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == key)
    }

    fn entry_or(&mut self, key: &str, setting: ConfigValue) -> &mut Entry {
        let at = self.entries.iter().position(|entry| entry.name == key).unwrap_or_else(|| {
            let key_piece = Fragment { text: key.to_owned(), origin: self.origin.clone() };
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

impl SourceSpan {
    /// Position of a key's value in the document; `None` if it is absent.
    pub fn of_key(table: &Table<'_>, key: &str) -> Option<SourceSpan> {
        let source = table.doc().source();
        Some(SourceSpan { source: source.clone(), span: source.span_of(&table.key_path(key))? })
    }

    /// Position of a table, for a table of an array its header; `None` if it is absent.
    pub fn of_table(table: &Table<'_>) -> Option<SourceSpan> {
        let source = table.doc().source();
        Some(SourceSpan { source: source.clone(), span: source.span_of(table.path())? })
    }

    /// Offset from the beginning of the file, in bytes.
    pub fn offset(&self) -> usize {
        self.span.start
    }
}

fn settings(source: &Source, table: &DeTable<'_>, origin: Option<SourceSpan>) -> ConfigTable {
    // The parser sorts keys by name; this restores the order of the file.
    let mut in_order: Vec<(&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)> = table.iter().collect();
    in_order.sort_by_key(|(key, _)| key.span().start);
    let entry = |(key, value): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| Entry {
        name: key.get_ref().to_string(),
        key: fragment(source, key.span()),
        setting: setting(source, key.span(), value),
    };
    ConfigTable { entries: in_order.into_iter().map(entry).collect(), origin }
}

fn setting(source: &Source, key: Range<usize>, value: &Spanned<DeValue<'_>>) -> ConfigValue {
    let place = |span| Some(SourceSpan { source: source.clone(), span });
    match value.get_ref() {
        DeValue::Table(table) => ConfigValue::Table(settings(source, table, place(key))),
        DeValue::Array(array) if !array.is_empty() && array.iter().all(|element| element.get_ref().is_table()) => {
            let tables = array.iter().filter_map(|element| Some((element.span(), element.get_ref().as_table()?)));
            ConfigValue::Tables(tables.map(|(span, table)| settings(source, table, place(span))).collect())
        }
        other => {
            ConfigValue::Value { fragment: fragment(source, value.span()), string: other.as_str().map(str::to_owned) }
        }
    }
}

fn fragment(source: &Source, span: Range<usize>) -> Fragment {
    let text = source.text().get(span.clone()).unwrap_or("").to_owned();
    Fragment { text, origin: Some(SourceSpan { source: source.clone(), span }) }
}
