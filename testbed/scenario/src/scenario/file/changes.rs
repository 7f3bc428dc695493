//! `[[changes]]`: settings of the switches that change during a run.

use weir_reader::Table;
use weir_reader::settings::{ConfigTable, SourceSpan};
use weir_units::Time;

use super::reading::{instant, named, require};

/// Table of `[[changes]]`.
#[derive(Debug)]
pub(super) struct ChangePart {
    pub at: Time,
    /// Key of a switch's file, as `weir set` has it: `buffer.dt.alpha`, `classes.queues.3.weight`.
    pub key: String,
    /// The table, whose key `value` is the value.
    table: ConfigTable,
    origin: Option<SourceSpan>,
    /// Run that it is for; `None` for all.
    pub run: Option<usize>,
    pub number: usize,
}

/// Reads the changes, earliest first; `runs` are the names of the runs.
pub(super) fn read(root: &Table<'_>, runs: &[&str], end: Time) -> Vec<ChangePart> {
    let tables = root.tables("changes", "changes");
    let part = |(number, table): (usize, &Table<'_>)| {
        require(table, "at", "a change", "at = \"1ms\"");
        require(table, "key", "a change", "key = \"buffer.dt.alpha\"");
        require(table, "value", "a change", "value = \"1/8\"");
        let run = if table.has("run") { Some(named(table, "run", "run", runs)?) } else { None };
        let key = table.string("key", "buffer.dt.alpha")?;
        let is_word = |part: &str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        };
        let parts: Vec<&str> = key.split('.').collect();
        let is_class = |part: &str| matches!(part.as_bytes(), [b'0'..=b'7']);
        let is_known = match parts[..] {
            ["buffer", _, ..] => true,
            ["classes", "queues", class, _, ..] => is_class(class),
            _ => false,
        };
        if !is_known || parts.len() > KEY_PARTS_MAX || !parts.iter().all(|part| is_word(part)) {
            let message = format!("`{key}` does not change during a run");
            table.refuse("key", message, "write a key such as buffer.dt.alpha or classes.queues.3.weight");
            return None;
        }
        Some(ChangePart {
            at: instant(table, "at", Time::ZERO, end),
            key: key.to_owned(),
            table: ConfigTable::from_table(table),
            origin: SourceSpan::of_key(table, "value"),
            run,
            number,
        })
    };
    let mut parts: Vec<ChangePart> = tables.iter().enumerate().filter_map(part).collect();
    parts.sort_by_key(|part| part.at);
    parts
}

/// Deeper than any key.
const KEY_PARTS_MAX: usize = 6;

impl ChangePart {
    /// Returns the value; a string without its quotes.
    pub(super) fn value(&self) -> &str {
        self.table.text("value").unwrap_or_default()
    }

    /// Makes the change in a switch's file.
    pub(super) fn apply(&self, file: &mut ConfigTable) {
        let parts: Vec<&str> = self.key.split('.').collect();
        let (table, path) = match parts[..] {
            ["classes", "queues", class, ref path @ ..] => {
                let queues = file.table_mut("classes").tables_mut("queues");
                let place = queues.iter().position(|queue| queue.text("class") == Some(class));
                let place = place.unwrap_or_else(|| {
                    let mut queue = ConfigTable::default().with_origin(self.origin.clone());
                    queue.set("class", class, self.origin.as_ref());
                    queues.push(queue);
                    queues.len() - 1
                });
                (&mut queues[place], path)
            }
            ref path => (file, path),
        };
        let [tables @ .., last] = path else { return };
        tables.iter().fold(table, |table, key| table.table_mut(key)).set_from(last, &self.table, "value");
    }
}
