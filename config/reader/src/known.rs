//! Known tables and keys of a kind of file, and what to write for one that is not known.

use crate::Named;

/// A table that a kind of file may have, with its keys: what is not among them is unknown.
#[derive(Clone, Copy, Debug)]
pub struct KnownTable {
    /// Its name as the reference writes it, `buffer.dt`; empty for the file's top level. The tables of an array share one.
    pub name: &'static str,
    /// Its keys; none where they are code points or the like, which whoever reads them checks.
    pub keys: &'static [&'static str],
    shape: Shape,
    chosen: Option<(&'static str, &'static str)>,
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Table,
    Array,
    Inline(&'static str),
}

impl KnownTable {
    /// `[name]`.
    pub const fn table(name: &'static str, keys: &'static [&'static str]) -> KnownTable {
        KnownTable { name, keys, shape: Shape::Table, chosen: None }
    }

    /// The table `[above.name]` of a kind that files choose by name. What it allocates stays until the program ends: once for a
    /// kind, when a file is first read.
    pub fn of_kind(above: &str, kind: &(impl Named + ?Sized)) -> KnownTable {
        let keys: Vec<&'static str> = kind.keys().iter().map(|key| key.name).collect();
        KnownTable::table(format!("{above}.{}", kind.name()).leak(), keys.leak())
    }

    /// The table with the keys of kinds as well that files choose by name, each once. What it allocates stays until the program
    /// ends: once for a table, when a file is first read.
    pub fn with_keys_of<K: Named + ?Sized>(self, kinds: &[&'static K]) -> KnownTable {
        let mut keys = self.keys.to_vec();
        for key in kinds.iter().flat_map(|kind| kind.keys()) {
            if !keys.contains(&key.name) {
                keys.push(key.name);
            }
        }
        KnownTable { keys: keys.leak(), ..self }
    }

    /// `[[name]]`.
    pub const fn array(name: &'static str, keys: &'static [&'static str]) -> KnownTable {
        KnownTable { shape: Shape::Array, ..KnownTable::table(name, keys) }
    }

    /// A table that is written as a value; messages call it `shown`.
    pub const fn inline(name: &'static str, shown: &'static str, keys: &'static [&'static str]) -> KnownTable {
        KnownTable { shape: Shape::Inline(shown), ..KnownTable::table(name, keys) }
    }

    /// The word at `key`, by default this one, names the table below that counts.
    pub const fn choosing(self, key: &'static str, default: &'static str) -> KnownTable {
        KnownTable { chosen: Some((key, default)), ..self }
    }
}

/// The tables that a kind of file may have.
#[derive(Clone, Copy, Debug)]
pub struct Known(pub &'static [KnownTable]);

impl Known {
    pub(crate) fn find(self, table: &str) -> Option<&'static KnownTable> {
        self.0.iter().find(|known| known.name == table)
    }

    /// The keys of a table. An unlisted name has none.
    pub fn keys_of(self, table: &str) -> &'static [&'static str] {
        self.find(table).map_or(&[], |known| known.keys)
    }

    /// The key of a table whose word names the table below that counts, and the word where there is none.
    pub(crate) fn chosen_by(self, table: &str) -> Option<(&'static str, &'static str)> {
        self.find(table)?.chosen
    }

    /// What to write in place of a key that `table` does not have. Where several tables have it, the one of the chosen
    /// name, such as the buffer's policy, is meant, where that is known.
    pub fn suggestion(self, table: &str, key: &str, chosen: Option<&str>) -> String {
        if let Some(near) = self.meant(table, key) {
            return format!("write `{near}`");
        }
        let others = self.0.iter().filter(|known| known.name != table && known.keys.contains(&key));
        let homes: Vec<&str> = others.map(|known| known.name).collect();
        let is_chosen = |home: &&str| chosen.is_some_and(|chosen| below(home, table) == Some(chosen));
        let home = match (homes.iter().copied().find(is_chosen), &homes[..]) {
            (Some(home), _) | (None, &[home]) => self.bracketed(home),
            (None, &[home, other]) => format!("{} or {}", self.bracketed(home), self.bracketed(other)),
            (None, &[home, ..]) => format!("a table such as {}", self.bracketed(home)),
            (None, []) => match self.keys_of(table) {
                [] => return "take it out".to_owned(),
                keys => return format!("take it out; {} has: {}", self.bracketed(table), keys.join(", ")),
            },
        };
        format!("`{key}` belongs in {home}; or take it out")
    }

    /// The key of `table` that an unknown one is a slip of. A key that a table below has is none.
    pub fn meant(self, table: &str, key: &str) -> Option<&'static str> {
        let is_of_below = self.0.iter().any(|known| below(known.name, table).is_some() && known.keys.contains(&key));
        if is_of_below { None } else { nearest(key, self.keys_of(table)) }
    }

    /// A table as it stands in a file: `[buffer]`, `[[ports]]`.
    pub(crate) fn bracketed(self, table: &str) -> String {
        match self.find(table).map_or(Shape::Table, |known| known.shape) {
            _ if table.is_empty() => "the top level".to_owned(),
            Shape::Table => format!("[{table}]"),
            Shape::Array => format!("[[{table}]]"),
            Shape::Inline(shown) => shown.to_owned(),
        }
    }
}

/// The part of a table's name after its parent's: `spfc` of `buffer.spfc` below `buffer`.
fn below<'n>(name: &'n str, table: &str) -> Option<&'n str> {
    name.strip_prefix(table)?.strip_prefix('.')
}

/// The known word that `word` most likely should have been, if one is near enough.
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let same = |a: &str, b: &str| a.to_lowercase().replace('-', "_") == b.replace('-', "_");
    if let Some(near) = known.iter().find(|near| same(word, near)) {
        return Some(near);
    }
    // The distance is quadratic in the length; nothing this long is a slip of a known word.
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
