//! Readers that several tables of a scenario file share.

use std::ops::Range;

use weir_reader::{Keys, Problem, TIME, Table, is_name, nearest};
use weir_units::{Class, ClassSet, Span, Time};

/// Maximum length of a scenario; far below the range of picoseconds.
pub(super) const END_MAX: Span = Span::from_secs(1_000);

/// Reports a missing key, unless a wrong value of it was reported; `example` is the key with a value.
pub(super) fn require(table: &Table<'_>, key: &str, what: &str, example: &str) {
    if !table.has(key) && table.doc().sound(&[&table.key_path(key)]) {
        let problem = Problem::new(format!("{what} needs `{key}`"), format!("write {example}"));
        table.doc().refuse(problem.with_label(table.key_path(key), ""));
    }
}

/// Reads the classes that a key lists.
pub(super) fn classes(table: &Table<'_>, key: &str) -> ClassSet {
    let listed = table.integers(key, 0..=7).unwrap_or_default();
    listed.into_iter().map(|class| Class::new(class as u8)).collect()
}

/// Reads the name of a switch, host, flow or window, which is unique and part of file names.
pub(super) fn name(table: &Table<'_>, what: &str, example: &str) -> Option<String> {
    require(table, "name", what, &format!("name = \"{example}\""));
    let name = table.string("name", example)?;
    weir_reader::check_name(table, "name", name);
    is_name(name).then(|| name.to_owned())
}

/// Reports each name that an earlier table has. Each table has at most one.
pub(super) fn refuse_duplicates<'t>(tables: &[Table<'_>], what: &str, names: impl Iterator<Item = Option<&'t str>>) {
    let names: Vec<Option<&str>> = names.collect();
    for (index, name) in names.iter().enumerate() {
        let Some(name) = name else { continue };
        let Some(first) = names[..index].iter().position(|other| other == &Some(*name)) else { continue };
        let (table, earlier) = (&tables[index], &tables[first]);
        let problem = Problem::new(format!("two {what} are named \"{name}\""), "give each its own name");
        table.doc().note(
            problem.with_label(table.key_path("name"), "again").with_label(earlier.key_path("name"), "first here"),
        );
    }
}

/// Returns the index of a key's value in `names`; `what` is the noun in messages.
pub(super) fn named(table: &Table<'_>, key: &str, what: &str, names: &[&str]) -> Option<usize> {
    let name = table.string(key, names.first().unwrap_or(&"H1"))?;
    let found = position(name, names);
    if found.is_none() {
        refuse_unnamed(table, key, name, what, names);
    }
    found
}

pub(super) fn position(name: &str, names: &[&str]) -> Option<usize> {
    names.iter().position(|other| *other == name)
}

/// Reports an unknown name.
pub(super) fn refuse_unnamed(table: &Table<'_>, key: &str, name: &str, what: &str, names: &[&str]) {
    let mut names: Vec<&str> = names.iter().copied().filter(|name| !name.is_empty()).collect();
    names.dedup();
    // Maximum length of names that are not compared for similarity: they all resemble each other.
    const SHORT: usize = 3;
    let help = match nearest(name, &names).filter(|_| name.len() > SHORT) {
        Some(near) => format!("write \"{near}\""),
        None if names.is_empty() => format!("write a {what} of that name"),
        None => format!("write one of: {}", names.join(", ")),
    };
    table.refuse(key, format!("no {what} is named \"{name}\""), help);
}

/// Reads an instant of the scenario.
pub(super) fn instant(table: &Table<'_>, key: &str, default: Time, end: Time) -> Time {
    table.quantity(key, &TIME, Span::ZERO..=end.since(Time::ZERO)).map_or(default, |span| Time::ZERO + span)
}

/// Reads the instants of two keys, with defaults, up to `end`. `None`, with an error, unless the second is later.
pub(super) fn time_range(
    table: &Table<'_>,
    [from_key, to_key]: [&str; 2],
    default: Range<Time>,
    end: Time,
) -> Option<(Time, Time)> {
    let (from, to) = (instant(table, from_key, default.start, end), instant(table, to_key, default.end, end));
    let sound = table.doc().sound(&[&table.key_path(from_key), &table.key_path(to_key)]);
    if from < to || !sound {
        return sound.then_some((from, to));
    }
    let span = |time: Time| time.since(Time::ZERO);
    let given = |key| if table.has(key) { "" } else { " (the default)" };
    let message = format!(
        "`{from_key}` {}{} must be before `{to_key}` {}{}",
        span(from),
        given(from_key),
        span(to),
        given(to_key)
    );
    let key = if table.has(from_key) { from_key } else { to_key };
    let problem = Problem::new(message, format!("write an earlier `{from_key}` or a later `{to_key}`"));
    table.doc().refuse(problem.with_label(table.key_path(key), "").with_label(table.key_path(to_key), "the end"));
    None
}

/// Reports keys of another kind of table. `what` is the noun for this kind, `all` the keys of each kind together.
pub(super) fn refuse_foreign_keys(table: &Table<'_>, what: &str, all: Keys, keys: &[&str]) {
    // Keys that no kind has were reported already.
    let is_known = |key: &str| all.iter().any(|known| known.name() == key);
    for key in table.entries().filter(|key| is_known(key) && !keys.contains(key)) {
        let help = format!("take it out; there is: {}", keys.join(", "));
        table.doc().note(Problem::new(format!("{what} has no `{key}`"), help).with_key_label(table.key_path(key), ""));
    }
}

/// Reports an error whose text has its fix after the last `: ` or `; `.
pub(super) fn refuse_with_fix(table: &Table<'_>, key: &str, error: &str) {
    let (message, help) = split_fix(error);
    table.doc().refuse(Problem::new(message, help).with_label(table.key_path(key), ""));
}

/// Splits an error's text into message and fix.
pub(super) fn split_fix(error: &str) -> (String, String) {
    let at = error.find("; ").or_else(|| error.rfind(": "));
    let (message, help) = at.map_or((error, ""), |at| (&error[..at], &error[at + 2..]));
    (message.to_owned(), help.to_owned())
}
