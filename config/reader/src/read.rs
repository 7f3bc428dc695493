//! Reads values from a parsed file; records errors and continues.
//!
//! A [`Format`] lists the tables and keys of a kind of file. [`read_text`] parses a text and passes its top level, a [`Table`], to the
//! reader of that kind. Each invalid value is recorded in the [`Doc`] and reads as if absent.

mod text;

use std::cell::RefCell;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use toml::de::{DeArray, DeTable, DeValue};
use weir_units::{Alpha, BitRate, Bytes, Span, UnitError};

use crate::schema::Schema;
use crate::{ConfigError, ConfigErrors, NAME_RULE, Plugin, Problem, Source, is_name, nearest};

pub use text::{Format, read_file, read_text};

/// File being read, with the errors found so far.
#[derive(Debug)]
pub struct Doc {
    source: Source,
    known: Schema,
    errors: RefCell<Vec<ConfigError>>,
    /// Keys without a valid value. Rules that need one are skipped, since their messages would concern a default that the user never chose.
    invalid: RefCell<Vec<String>>,
}

impl Doc {
    fn new(source: Source, known: Schema) -> Doc {
        Doc { source, known, errors: RefCell::default(), invalid: RefCell::default() }
    }

    /// Text of the file and the positions of its keys.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Adds errors from elsewhere, such as from another file that this one names.
    pub fn include(&self, errors: ConfigErrors) {
        self.errors.borrow_mut().extend(errors);
    }

    /// Records an error that leaves its first key without a value.
    pub fn refuse(&self, problem: Problem) {
        if let Some(mark) = problem.labels.first() {
            self.mark_invalid(mark.key.clone());
        }
        self.note(problem);
    }

    /// Records an error that leaves all values valid, such as a conflict between two.
    pub fn note(&self, problem: Problem) {
        let error = self.source.error(problem);
        self.errors.borrow_mut().push(error);
    }

    fn mark_invalid(&self, key: String) {
        self.invalid.borrow_mut().push(key);
    }

    /// Whether all of these keys, and those below them, have valid values.
    pub fn sound(&self, keys: &[&str]) -> bool {
        let below = |path: &str, root: &str| {
            path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let invalid = self.invalid.borrow();
        !keys.iter().any(|key| invalid.iter().any(|bad| below(bad, key) || below(key, bad)))
    }

    /// Whether the file has this key.
    pub fn has(&self, key: &str) -> bool {
        self.source.has(key)
    }

    fn into_source(self) -> Result<Source, ConfigErrors> {
        match ConfigErrors::from_vec(self.errors.into_inner()) {
            Some(errors) => Err(errors),
            None => Ok(self.source),
        }
    }
}

/// Table of a file; an absent table reads as empty.
#[derive(Debug)]
pub struct Table<'d> {
    doc: &'d Doc,
    entries: Option<&'d DeTable<'d>>,
    name: &'static str,
    path: String,
}

/// Kind of quantity, for the message about a number without a unit.
#[derive(Debug)]
pub struct Quantity {
    noun: &'static str,
    units: &'static [&'static str],
}

/// Sizes in bytes.
pub const SIZE: Quantity = Quantity { noun: "a size", units: &["B", "KB", "MB"] };
/// Rates in bits per second.
pub const RATE: Quantity = Quantity { noun: "a rate", units: &["Mbps", "Gbps"] };
/// Times, from nanoseconds to seconds.
pub const TIME: Quantity = Quantity { noun: "a time", units: &["ns", "us", "s"] };

impl<'d> Table<'d> {
    fn root(doc: &'d Doc, entries: &'d DeTable<'d>) -> Table<'d> {
        Table::new(doc, Some(entries), "", String::new())
    }

    fn new(doc: &'d Doc, entries: Option<&'d DeTable<'d>>, name: &'static str, path: String) -> Table<'d> {
        let table = Table { doc, entries, name, path };
        table.refuse_unknown_keys();
        table
    }

    /// Records unknown keys. Tables whose keys are code points have no key list and are read by [`Table::entries`].
    fn refuse_unknown_keys(&self) {
        let tables = self.doc.known;
        if tables.is_open(self.name) {
            return;
        }
        let known = tables.keys_of(self.name);
        let chosen = tables.chosen_by(self.name).map(|(key, default)| self.word(key).unwrap_or(default));
        for key in self.entries() {
            if known.contains(&key) {
                continue;
            }
            // The user meant this key, so its absence is no further error.
            if let Some(near) = tables.meant(self.name, key) {
                self.doc.mark_invalid(self.key_path(near));
            }
            let message = format!("unknown key `{key}` in {}", tables.bracketed(self.name));
            let help = tables.suggestion(self.name, key, chosen);
            self.doc.note(Problem::new(message, help).with_key_label(self.key_path(key), "not known here"));
        }
    }

    /// Document that contains the table.
    pub fn doc(&self) -> &'d Doc {
        self.doc
    }

    /// Path of a key of this table.
    pub fn key_path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Path of the table.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether the key exists, with any value.
    pub fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// Keys of the table.
    pub fn entries(&self) -> impl Iterator<Item = &'d str> {
        self.entries.into_iter().flat_map(|entries| entries.keys().map(|key| &**key.get_ref()))
    }

    pub(crate) fn contents(&self) -> Option<&'d DeTable<'d>> {
        self.entries
    }

    fn value(&self, key: &str) -> Option<&'d DeValue<'d>> {
        self.entries?.get(key).map(|value| value.get_ref())
    }

    /// Records that a key's value is invalid.
    pub fn refuse(&self, key: &str, message: impl Display, help: impl Into<String>) {
        let message = format!("`{key}`: {message}");
        self.doc.refuse(Problem::new(message, help).with_label(self.key_path(key), ""));
    }

    fn wrong_type(&self, key: &str, wanted: &str, value: &DeValue<'_>, example: &str) {
        let message = format!("this is {}, but must be {wanted}", with_article(value.type_str()));
        self.refuse(key, message, format!("write {example}"));
    }

    /// Reads a string; `example` is shown in the error for another type.
    pub fn string(&self, key: &str, example: &str) -> Option<&'d str> {
        let value = self.value(key)?;
        if value.as_str().is_none() {
            self.wrong_type(key, "a string", value, &format!("{key} = \"{example}\""));
        }
        value.as_str()
    }

    /// Reads a string; another type is no error.
    pub fn word(&self, key: &str) -> Option<&'d str> {
        self.value(key)?.as_str()
    }

    /// Reads a boolean.
    pub fn boolean(&self, key: &str) -> Option<bool> {
        let value = self.value(key)?;
        if value.as_bool().is_none() {
            self.wrong_type(key, "true or false", value, &format!("{key} = true"));
        }
        value.as_bool()
    }

    /// Reads a string, number or boolean as text, for later parsing.
    pub fn text(&self, key: &str) -> Option<String> {
        match self.value(key)? {
            DeValue::String(text) => Some(text.to_string()),
            value @ DeValue::Integer(n) => Some(to_u64(value).map_or_else(|| n.to_string(), |n| n.to_string())),
            DeValue::Float(number) => Some(number.as_str().to_owned()),
            DeValue::Boolean(is) => Some(is.to_string()),
            other => {
                let example = format!("for example {key} = \"1\"");
                self.wrong_type(key, "a single value", other, &example);
                None
            }
        }
    }

    /// Reads one of a set of words.
    pub fn choice<T: Copy>(&self, key: &str, choices: &[(&'static str, T)]) -> Option<T> {
        let names: Vec<&'static str> = choices.iter().map(|(word, _)| *word).collect();
        let word = self.string(key, names[0])?;
        let chosen = choices.iter().find(|(choice, _)| *choice == word);
        if chosen.is_none() {
            let help = match nearest(word, &names) {
                Some(near) => format!("write {key} = \"{near}\""),
                None => format!("write one of: {}", quoted(&names)),
            };
            self.refuse(key, format!("\"{word}\" is none of {}", quoted(&names)), help);
        }
        chosen.map(|(_, choice)| *choice)
    }

    /// Reads a whole number in a range.
    pub fn integer(&self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.value(key)?;
        let in_range = to_u64(value).filter(|n| range.contains(n));
        if in_range.is_none() {
            let help = format!("write a whole number from {} to {}", range.start(), range.end());
            match value {
                DeValue::Integer(n) => self.refuse(key, format!("{n} is out of range"), help),
                other => self.wrong_type(key, "a whole number", other, &help["write ".len()..]),
            }
        }
        in_range
    }

    /// Reads a number above 0 and at most 1.
    pub fn probability(&self, key: &str) -> Option<f64> {
        let number = self.decimal(key)?;
        let good = number > 0.0 && number <= 1.0;
        if !good {
            let help = format!("write a number above 0 and at most 1, for example {key} = 0.2");
            self.refuse(key, "a probability is above 0 and at most 1", help);
        }
        good.then_some(number)
    }

    /// Reads a number from 0 to 1.
    pub fn share(&self, key: &str) -> Option<f64> {
        let number = self.decimal(key)?;
        let good = (0.0..=1.0).contains(&number);
        if !good {
            let help = format!("write a number from 0 to 1, for example {key} = 0.2");
            self.refuse(key, "a share is from 0 to 1", help);
        }
        good.then_some(number)
    }

    fn decimal(&self, key: &str) -> Option<f64> {
        let value = self.value(key)?;
        match value {
            DeValue::Float(float) => Some(float.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Integer(_) => Some(to_u64(value).map_or(f64::NAN, |n| n as f64)),
            other => {
                self.wrong_type(key, "a number", other, &format!("{key} = 0.2"));
                None
            }
        }
    }

    /// Reads an α: a string with a number or fraction, or a number.
    pub fn alpha(&self, key: &str) -> Option<Alpha> {
        self.number(key, &format!("{key} = \"1/16\" or {key} = 2"))
    }

    /// Reads a number with its own type, bare or in a string; `example` shows the key with a value.
    pub fn number<T: FromStr<Err = UnitError>>(&self, key: &str, example: &str) -> Option<T> {
        let value = self.value(key)?;
        let text = match value {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(n) => n.to_string(),
            DeValue::Float(x) => x.as_str().to_owned(),
            other => {
                self.wrong_type(key, "a number or a string", other, example);
                return None;
            }
        };
        self.converted(key, &text)
    }

    /// Reads a string with a number and a unit.
    pub fn quantity<T>(&self, key: &str, quantity: &Quantity, range: RangeInclusive<T>) -> Option<T>
    where
        T: FromStr<Err = UnitError> + PartialOrd + Display,
    {
        let text = match self.value(key)? {
            DeValue::String(text) => text,
            DeValue::Integer(n) => {
                let examples: Vec<String> = quantity.units.iter().map(|unit| format!("\"{n}{unit}\"")).collect();
                let help = format!("write the unit too: {key} = {}", examples.join(" or "));
                self.refuse(key, format!("{n} is a bare number, but must be {} with its unit", quantity.noun), help);
                return None;
            }
            other => {
                let example = format!("{key} = \"1{}\"", quantity.units[0]);
                self.wrong_type(key, &format!("{} in a string, with its unit", quantity.noun), other, &example);
                return None;
            }
        };
        let value: T = self.converted(key, text)?;
        self.within(key, value, range)
    }

    /// Reads bytes as a bare whole number, as is usual for this key, or as a size with its unit.
    pub fn byte_count(&self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        match self.value(key)? {
            DeValue::Integer(_) => self.integer(key, range),
            _ => {
                let range = Bytes::new(*range.start())..=Bytes::new(*range.end());
                self.quantity(key, &SIZE, range).map(Bytes::get)
            }
        }
    }

    /// Parses a text as a type of its own.
    pub fn converted<T: FromStr<Err = UnitError>>(&self, key: &str, text: &str) -> Option<T> {
        match text.parse() {
            Ok(value) => Some(value),
            Err(UnitError { text, expected, example }) => {
                let help = format!("write for example {key} = \"{example}\"");
                self.refuse(key, format!("\"{text}\" is not {expected}"), help);
                None
            }
        }
    }

    fn within<T: PartialOrd + Display>(&self, key: &str, value: T, range: RangeInclusive<T>) -> Option<T> {
        if range.contains(&value) {
            return Some(value);
        }
        let help = format!("write a value from \"{}\" to \"{}\"", range.start(), range.end());
        self.refuse(key, format!("{value} is out of range"), help);
        None
    }

    /// Reads an array of whole numbers.
    pub fn integers(&self, key: &str, range: RangeInclusive<u64>) -> Option<Vec<u64>> {
        let example = format!("{key} = [{}, {}]", range.start(), range.start() + 1);
        let mut numbers = Vec::new();
        let array = self.array(key, "a list of whole numbers", &example)?;
        for (index, element) in array.iter().enumerate() {
            match to_u64(element.get_ref()).filter(|n| range.contains(n)) {
                Some(n) => numbers.push(n),
                None => {
                    let message = format!("each is a whole number from {} to {}", range.start(), range.end());
                    self.refuse(&format!("{key}[{index}]"), message, format!("write for example {example}"));
                }
            }
        }
        // Omitting an element would shift the indices of the others.
        (numbers.len() == array.len()).then_some(numbers)
    }

    /// Reads an array of strings.
    pub fn strings(&self, key: &str, example: &str) -> Option<Vec<&'d str>> {
        let example = format!("{key} = [{example}]");
        let mut strings = Vec::new();
        let array = self.array(key, "a list of strings", &example)?;
        for (index, element) in array.iter().enumerate() {
            match element.get_ref().as_str() {
                Some(string) => strings.push(string),
                None => {
                    let key = format!("{key}[{index}]");
                    self.wrong_type(&key, "a string", element.get_ref(), &format!("for example {example}"));
                }
            }
        }
        (strings.len() == array.len()).then_some(strings)
    }

    /// Reads an array of arrays of strings; `example` is an inner array.
    pub fn string_lists(&self, key: &str, example: &str) -> Option<Vec<Vec<&'d str>>> {
        let example = format!("{key} = [[{example}]]");
        let array = self.array(key, "a list of lists", &example)?;
        let mut lists = Vec::new();
        for (index, element) in array.iter().enumerate() {
            let strings =
                element.get_ref().as_array().and_then(|list| list.iter().map(|s| s.get_ref().as_str()).collect());
            if strings.is_none() {
                let key = format!("{key}[{index}]");
                self.wrong_type(&key, "a list of strings", element.get_ref(), &format!("for example {example}"));
            }
            lists.extend::<Option<Vec<&str>>>(strings);
        }
        (lists.len() == array.len()).then_some(lists)
    }

    fn array(&self, key: &str, wanted: &str, example: &str) -> Option<&'d DeArray<'d>> {
        let value = self.value(key)?;
        if value.as_array().is_none() {
            self.wrong_type(key, wanted, value, example);
        }
        value.as_array()
    }

    /// Subtable; `name` is its name in the format.
    pub fn table(&self, key: &str, name: &'static str) -> Table<'d> {
        let entries = self.value(key).and_then(|value| {
            if value.as_table().is_none() {
                self.wrong_type(
                    key,
                    "a table",
                    value,
                    &format!("the keys below a line {}", self.doc.known.bracketed(name)),
                );
            }
            value.as_table()
        });
        Table::new(self.doc, entries, name, self.key_path(key))
    }

    /// Subtable of a kind that files select by name.
    pub fn table_of_kind(&self, kind: &(impl Plugin + ?Sized)) -> Table<'d> {
        let name = format!("{}.{}", self.name, kind.id());
        let known = self.doc.known.find(&name).unwrap_or_else(|| panic!("the format has no [{name}]"));
        self.table(kind.id(), known.name)
    }

    /// Subtable that a word may replace, and whether it is a table; otherwise it reads as empty.
    pub fn table_or_word(&self, key: &str, name: &'static str) -> (Table<'d>, bool) {
        let entries = self.value(key).and_then(|value| value.as_table());
        (Table::new(self.doc, entries, name, self.key_path(key)), entries.is_some())
    }

    /// Tables of an array of tables.
    pub fn tables(&self, key: &str, name: &'static str) -> Vec<Table<'d>> {
        let example = format!("one {} for each", self.doc.known.bracketed(name));
        let Some(array) = self.array(key, "an array of tables", &example) else { return Vec::new() };
        let mut tables = Vec::new();
        for (index, element) in array.iter().enumerate() {
            let key = format!("{key}[{index}]");
            match element.get_ref() {
                DeValue::Table(entries) => tables.push(Table::new(self.doc, Some(entries), name, self.key_path(&key))),
                other => self.wrong_type(&key, "a table", other, &example),
            }
        }
        tables
    }
}

/// Records an error for a name that can't be part of a file name.
pub fn check_name(table: &Table<'_>, key: &str, name: &str) {
    if !is_name(name) {
        table.refuse(key, format!("\"{name}\" can't be a name"), format!("write {NAME_RULE}"));
    }
}

fn to_u64(value: &DeValue<'_>) -> Option<u64> {
    let integer = value.as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ")
}

fn with_article(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'i']) { "an" } else { "a" };
    format!("{article} {noun}")
}

/// Range of rates: from the slowest that a limiter supports to twice the fastest Ethernet.
pub const fn rates() -> RangeInclusive<BitRate> {
    BitRate::bps(8_000)..=BitRate::gbps(3_200)
}

/// Range of times up to 11 days, which fits picoseconds.
pub const fn times_from(least: Span) -> RangeInclusive<Span> {
    least..=Span::from_secs(1_000_000)
}
