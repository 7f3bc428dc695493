//! Schema of a kind of file: its tables and keys, and suggestions for unknown ones.

use crate::any_key::READ_AT_START;
use crate::{AnyKey, Keys, Plugin};

/// Table that a kind of file may have, with its keys; other keys are unknown.
#[derive(Clone, Copy, Debug)]
pub struct TableSchema {
    /// Name in the reference, `buffer.dt`; empty for the file's top level. The tables of an array share a name.
    pub name: &'static str,
    /// Keys of the table.
    pub keys: Keys,
    /// Whether the table has keys that the reader checks, as code points.
    is_open: bool,
    shape: TableKind,
    chosen: Option<(&'static str, &'static str)>,
    renamed: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy, Debug)]
enum TableKind {
    Table,
    Array,
    Inline(&'static str),
}

impl TableSchema {
    /// Creates a table `[name]`.
    pub const fn table(name: &'static str, keys: Keys) -> TableSchema {
        TableSchema { name, keys, is_open: false, shape: TableKind::Table, chosen: None, renamed: &[] }
    }

    /// Creates a table whose keys the reader checks.
    pub const fn open(name: &'static str) -> TableSchema {
        TableSchema { is_open: true, ..TableSchema::table(name, &[]) }
    }

    /// Creates the table `[above.name]` of a kind that files select by name. Its memory is leaked: once per kind, when a file is first
    /// read.
    pub fn of_kind(above: &str, kind: &(impl Plugin + ?Sized)) -> TableSchema {
        TableSchema::table(format!("{above}.{}", kind.id()).leak(), kind.keys())
    }

    /// Adds the keys of kinds that files select by name, each once. The memory is leaked: once per table, when a file is first read.
    pub fn with_keys_of<K: Plugin + ?Sized>(self, kinds: &[&'static K]) -> TableSchema {
        let mut keys = self.keys.to_vec();
        for key in kinds.iter().flat_map(|kind| kind.keys()) {
            if !has(&keys, key.name()) {
                keys.push(*key);
            }
        }
        TableSchema { keys: keys.leak(), ..self }
    }

    /// Adds a key for the table of each of these kinds. The memory is leaked: once per table, when a file is first read.
    pub fn with_tables_of(self, kinds: impl Iterator<Item = &'static str>) -> TableSchema {
        let table = |name| -> &'static dyn AnyKey { Box::leak(Box::new(KindTable(name))) };
        let keys: Vec<_> = self.keys.iter().copied().chain(kinds.map(table)).collect();
        TableSchema { keys: keys.leak(), ..self }
    }

    /// Creates an array of tables `[[name]]`.
    pub const fn array(name: &'static str, keys: Keys) -> TableSchema {
        TableSchema { shape: TableKind::Array, ..TableSchema::table(name, keys) }
    }

    /// Creates a table that is written as a value; messages call it `shown`.
    pub const fn inline(name: &'static str, shown: &'static str, keys: Keys) -> TableSchema {
        TableSchema { shape: TableKind::Inline(shown), ..TableSchema::table(name, keys) }
    }

    /// Sets the key whose value selects the table below that applies, and its default.
    pub const fn selected_by(self, key: &'static str, default: &'static str) -> TableSchema {
        TableSchema { chosen: Some((key, default)), ..self }
    }

    /// Sets former names of keys, each with today's, which the error for an unknown key suggests.
    pub const fn with_renamed(self, renamed: &'static [(&'static str, &'static str)]) -> TableSchema {
        TableSchema { renamed, ..self }
    }
}

/// Key whose value is the table of a kind.
#[derive(Debug)]
struct KindTable(&'static str);

impl AnyKey for KindTable {
    fn name(&self) -> &'static str {
        self.0
    }

    fn help(&self) -> &'static str {
        "Parameters of the kind of this name."
    }

    fn values(&self) -> String {
        "table".to_owned()
    }
}

/// Tables that a kind of file may have.
#[derive(Clone, Copy, Debug)]
pub struct Schema(pub &'static [TableSchema]);

impl Schema {
    pub(crate) fn find(self, table: &str) -> Option<&'static TableSchema> {
        self.0.iter().find(|known| known.name == table)
    }

    /// Reason why a key needs a restart, as half a sentence; `None` if it can change at run time. An unlisted key needs one.
    pub fn restart_reason(self, table: &str, name: &str) -> Option<&'static str> {
        let key = self.find(table).and_then(|known| known.keys.iter().find(|key| key.name() == name));
        key.map_or(Some(READ_AT_START), |key| key.restart())
    }

    /// Whether the reader checks a table's keys; true for an unlisted name.
    pub(crate) fn is_open(self, table: &str) -> bool {
        self.find(table).is_none_or(|known| known.is_open)
    }

    /// Names of a table's keys; empty for an unlisted name.
    pub fn keys_of(self, table: &str) -> Vec<&'static str> {
        self.find(table).map_or_else(Vec::new, |known| known.keys.iter().map(|key| key.name()).collect())
    }

    /// Selecting key of a table, and its default.
    pub(crate) fn chosen_by(self, table: &str) -> Option<(&'static str, &'static str)> {
        self.find(table)?.chosen
    }

    /// Suggestion for a key that `table` does not have. If several tables have the key, the selected one, such as the buffer's
    /// policy, is preferred.
    pub fn suggestion(self, table: &str, key: &str, chosen: Option<&str>) -> String {
        if let Some(near) = self.meant(table, key) {
            return format!("write `{near}`");
        }
        let others = self.0.iter().filter(|known| known.name != table && has(known.keys, key));
        let homes: Vec<&str> = others.map(|known| known.name).collect();
        let is_chosen = |home: &&str| chosen.is_some_and(|chosen| child_name(home, table) == Some(chosen));
        let home = match (homes.iter().copied().find(is_chosen), &homes[..]) {
            (Some(home), _) | (None, &[home]) => self.bracketed(home),
            (None, &[home, other]) => format!("{} or {}", self.bracketed(home), self.bracketed(other)),
            (None, &[home, ..]) => format!("a table such as {}", self.bracketed(home)),
            (None, []) => match self.keys_of(table) {
                keys if keys.is_empty() => return "take it out".to_owned(),
                keys => return format!("take it out; {} has: {}", self.bracketed(table), keys.join(", ")),
            },
        };
        format!("`{key}` belongs in {home}; or take it out")
    }

    /// Key of `table` that an unknown key is a former name or probably a misspelling of; `None` for a key of a table below.
    pub fn meant(self, table: &str, key: &str) -> Option<&'static str> {
        let renamed = self.find(table).map_or(&[][..], |known| known.renamed);
        if let Some((_, today)) = renamed.iter().find(|(former, _)| *former == key) {
            return Some(today);
        }
        let is_of_below = self.0.iter().any(|known| child_name(known.name, table).is_some() && has(known.keys, key));
        if is_of_below { None } else { nearest(key, &self.keys_of(table)) }
    }

    /// Formats a table as in a file: `[buffer]`, `[[ports]]`.
    pub(crate) fn bracketed(self, table: &str) -> String {
        match self.find(table).map_or(TableKind::Table, |known| known.shape) {
            _ if table.is_empty() => "the top level".to_owned(),
            TableKind::Table => format!("[{table}]"),
            TableKind::Array => format!("[[{table}]]"),
            TableKind::Inline(shown) => shown.to_owned(),
        }
    }
}

/// Whether one of the keys has this name.
fn has(keys: &[&dyn AnyKey], name: &str) -> bool {
    keys.iter().any(|key| key.name() == name)
}

/// Part of a table's name below its parent: `spfc` of `buffer.spfc` below `buffer`.
fn child_name<'n>(name: &'n str, table: &str) -> Option<&'n str> {
    name.strip_prefix(table)?.strip_prefix('.')
}

/// Known word that `word` is probably a misspelling of, if any is near enough.
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let same = |a: &str, b: &str| a.to_lowercase().replace('-', "_") == b.replace('-', "_");
    if let Some(near) = known.iter().find(|near| same(word, near)) {
        return Some(near);
    }
    // The distance is quadratic in the length; longer words are no misspellings.
    if word.len() > 40 {
        return None;
    }
    let distance = |near: &&str| strsim::damerau_levenshtein(word, near);
    let near = known.iter().copied().min_by_key(distance)?;
    let length = near.len().min(word.len());
    let same_start = word.chars().next() == near.chars().next();
    let slips_allowed = (length / if same_start { 2 } else { 3 }).clamp(1, 3);
    (distance(&near) <= slips_allowed && near.len() > 1).then_some(near)
}
