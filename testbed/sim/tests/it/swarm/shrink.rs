//! Shrinks the file of a case that fails: drops events, flows, hosts, switches, tables and keys for as long as it fails in the same way.

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use toml::{Table, Value};

use super::draw::Case;
use super::events::Event;

/// Files that are tried at most.
const TRIES: u32 = 600;

/// Why a case fails: its panic, without the numbers in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure(String);

impl Failure {
    /// What this panics with, if it does.
    pub(crate) fn of(does: impl FnOnce()) -> Option<Failure> {
        let panic = catch_unwind(AssertUnwindSafe(does)).err()?;
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        let words = text.unwrap_or("a panic").chars().filter(|letter| !letter.is_ascii_digit());
        Some(Failure(words.take(60).collect()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The smallest file found that fails as `text` does, by `judge`; a file that is wrong does not fail.
pub(crate) fn shrink(text: &str, failure: &Failure, judge: impl Fn(&Case)) -> String {
    let tries = Cell::new(0);
    let _quiet = Quiet::new();
    let fails = |file: &File| {
        tries.set(tries.get() + 1);
        let text = file.text();
        let found = Failure::of(|| {
            if let Ok(case) = Case::read(0, &text) {
                judge(&case);
            }
        });
        found.as_ref() == Some(failure)
    };
    let mut file = File { tables: text.parse().expect("a file"), events: Event::all_of(text) };
    loop {
        let before = file.text();
        for (path, count) in file.lists() {
            let mut chunk = count;
            while chunk > 0 && tries.get() < TRIES {
                let mut at = 0;
                while at < file.list(&path).map_or(0, |list| list.len()) && tries.get() < TRIES {
                    let smaller = file.without(&path, at..at + chunk);
                    if fails(&smaller) { file = smaller } else { at += chunk }
                }
                chunk /= 2;
            }
        }
        for event in (0..file.events.len()).rev() {
            let mut smaller = file.clone();
            smaller.events.remove(event);
            if fails(&smaller) {
                file = smaller;
            }
        }
        for path in file.keys() {
            let mut smaller = file.clone();
            let is_there = smaller
                .table(&path[..path.len() - 1])
                .is_some_and(|table| table.remove(&path[path.len() - 1]).is_some());
            if is_there && tries.get() < TRIES && fails(&smaller) {
                file = smaller;
            }
        }
        if file.text() == before || tries.get() >= TRIES {
            return file.text();
        }
    }
}

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Keeps this thread's panics from being printed.
struct Quiet;

impl Quiet {
    fn new() -> Quiet {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = take_hook();
            set_hook(Box::new(move |panic| {
                if !IS_QUIET.get() {
                    before(panic)
                }
            }));
        });
        IS_QUIET.set(true);
        Quiet
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        IS_QUIET.set(false);
    }
}

#[derive(Clone)]
struct File {
    tables: Table,
    events: Vec<Event>,
}

/// Names of keys, with the number of an element in its list.
type Path = Vec<String>;

impl File {
    fn text(&self) -> String {
        let events: Vec<String> = self.events.iter().map(Event::line).collect();
        format!("{}{}\n", self.tables, events.join("\n"))
    }

    fn value(&mut self, path: &[String]) -> Option<&mut Value> {
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.tables.get_mut(first)?, |value, key| match value {
            Value::Table(table) => table.get_mut(key),
            Value::Array(list) => list.get_mut(key.parse::<usize>().ok()?),
            _ => None,
        })
    }

    fn table(&mut self, path: &[String]) -> Option<&mut Table> {
        if path.is_empty() { Some(&mut self.tables) } else { self.value(path)?.as_table_mut() }
    }

    fn list(&mut self, path: &[String]) -> Option<&mut Vec<Value>> {
        self.value(path)?.as_array_mut()
    }

    /// The lists of tables, each with its length.
    fn lists(&self) -> Vec<(Path, usize)> {
        let mut lists = Vec::new();
        visit(&self.tables, &mut Vec::new(), &mut |path, value| {
            if let Value::Array(list) = value
                && list.first().is_some_and(Value::is_table)
            {
                lists.push((path.to_vec(), list.len()));
            }
        });
        lists
    }

    fn keys(&self) -> Vec<Path> {
        let mut keys = Vec::new();
        visit(&self.tables, &mut Vec::new(), &mut |path, _| keys.push(path.to_vec()));
        keys
    }

    /// Without these elements of a list, and all that names them.
    fn without(&self, path: &[String], which: std::ops::Range<usize>) -> File {
        let mut file = self.clone();
        let Some(list) = file.list(path) else { return file };
        let dropped: Vec<Value> = list.drain(which.start..which.end.min(list.len())).collect();
        let mut names: Vec<String> = dropped.iter().filter_map(name_of).collect();
        while let Some(name) = names.pop() {
            file.events.retain(|event| !event.line().split(' ').any(|word| is_of(word, &name)));
            for (_, value) in file.tables.iter_mut() {
                let Value::Array(list) = value else { continue };
                list.iter_mut().for_each(|element| drop_from_lists(element, &name));
                let gone = list.extract_if(.., |element| mentions(element, &name));
                names.extend(gone.filter_map(|element| name_of(&element)));
            }
        }
        file.tables.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
        file
    }
}

fn visit(table: &Table, path: &mut Path, see: &mut impl FnMut(&[String], &Value)) {
    for (key, value) in table {
        path.push(key.clone());
        see(path, value);
        match value {
            Value::Table(table) => visit(table, path, see),
            Value::Array(list) => {
                for (at, element) in list.iter().enumerate() {
                    if let Value::Table(table) = element {
                        path.push(at.to_string());
                        visit(table, path, see);
                        path.pop();
                    }
                }
            }
            _ => {}
        }
        path.pop();
    }
}

fn name_of(element: &Value) -> Option<String> {
    Some(element.get("name")?.as_str()?.to_owned())
}

/// Whether a word is a switch or host of this name, or a port of the switch.
fn is_of(word: &str, name: &str) -> bool {
    word == name || word.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
}

/// Whether a table has the name in a key other than lists of hosts.
fn mentions(element: &Value, name: &str) -> bool {
    let Value::Table(table) = element else { return false };
    table.iter().any(|(key, value)| match value {
        Value::String(text) => key != "name" && is_of(text, name),
        Value::Array(list) if LISTS_OF_HOSTS.contains(&key.as_str()) => list.is_empty(),
        Value::Array(list) => list.iter().any(|value| value.as_str().is_some_and(|text| is_of(text, name))),
        _ => false,
    })
}

const LISTS_OF_HOSTS: [&str; 3] = ["hosts", "receivers", "senders"];

fn drop_from_lists(element: &mut Value, name: &str) {
    for key in LISTS_OF_HOSTS {
        if let Some(list) = element.get_mut(key).and_then(Value::as_array_mut) {
            list.retain(|host| host.as_str() != Some(name));
        }
    }
}
