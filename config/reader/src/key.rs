//! Declarations of keys: name, type, range, default and description of a key, in one place.
//!
//! Readers take values by the declaration ([`Table::get`], [`Table::given`]); the check for unknown keys, messages and the reference of
//! keys show the same one ([`AnyKey`]).

use std::fmt::{Debug, Display};
use std::ops::RangeInclusive;
use std::str::FromStr;

use weir_units::{Alpha, BitRate, Bytes, Span, UnitError};

use crate::any_key::READ_AT_START;
use crate::{AnyKey, RATE, SIZE, TIME, Table};

/// Key of a table in a file, with values of type `T`.
///
/// ```
/// use weir_reader::{AnyKey, Key};
/// use weir_units::{Bytes, Span};
///
/// const TC: Key<Span> =
///     Key::time("tc", Span::from_nanos(1)..=Span::from_secs(1), "TC: window in which departures are counted").or("80us");
/// const THRESHOLD: Key<Bytes> =
///     Key::size("threshold", Bytes::new(1)..=Bytes::mb(9), "T of each queue").or_else("the buffer over the ports");
/// assert_eq!((TC.default, THRESHOLD.default), (Some("80us"), None));
/// assert_eq!(TC.values(), "time, 1ns to 1s");
/// ```
#[derive(Debug)]
pub struct Key<T: 'static> {
    /// Name in the file.
    pub name: &'static str,
    /// Description with the paper's symbol, for the reference.
    pub help: &'static str,
    /// Default in the file's syntax; `None` if it depends on the rest of the file, or there is none.
    pub default: Option<&'static str>,
    /// Default in words, equal to `default` if that is given; empty if there is none.
    pub default_help: &'static str,
    /// Reason why the value needs a restart, as half a sentence; `None` if it can change at run time.
    pub restart: Option<&'static str>,
    keyword: Option<&'static str>,
    range: Option<(T, T)>,
    choices: &'static [(&'static str, T)],
    value_type: ValueType<T>,
}

impl<T: Copy> Clone for Key<T> {
    fn clone(&self) -> Key<T> {
        *self
    }
}

impl<T: Copy> Copy for Key<T> {}

/// Type of a key's values: name, and functions that read and show a value.
#[derive(Clone, Copy, Debug)]
struct ValueType<T: 'static> {
    name: &'static str,
    read: fn(&Table<'_>, &Key<T>) -> Option<T>,
    parse: fn(&str, &Key<T>) -> Option<T>,
    show: fn(&T) -> String,
}

impl<T: Debug + Sync> AnyKey for Key<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn help(&self) -> &'static str {
        self.help
    }

    fn default(&self) -> Option<&'static str> {
        self.default
    }

    fn default_help(&self) -> &'static str {
        self.default_help
    }

    fn restart(&self) -> Option<&'static str> {
        self.restart
    }

    fn values(&self) -> String {
        Key::values(self)
    }
}

impl<T> Key<T> {
    /// Sets the default, in the file's syntax.
    #[must_use]
    pub const fn or(mut self, default: &'static str) -> Key<T>
    where
        T: Copy,
    {
        self.default = Some(default);
        self.default_help = default;
        self
    }

    /// Describes a default that depends on the rest of the file, in place of a constant one.
    #[must_use]
    pub const fn or_else(mut self, default_help: &'static str) -> Key<T>
    where
        T: Copy,
    {
        self.default = None;
        self.default_help = default_help;
        self
    }

    /// Replaces the description, for the same key of another table.
    #[must_use]
    pub const fn with_help(mut self, help: &'static str) -> Key<T>
    where
        T: Copy,
    {
        self.help = help;
        self
    }

    /// Permits a keyword in place of a value: [`Table::is_keyword`].
    #[must_use]
    pub const fn or_keyword(mut self, keyword: &'static str) -> Key<T>
    where
        T: Copy,
    {
        self.keyword = Some(keyword);
        self
    }

    /// Keyword that the key permits in place of a value.
    pub const fn keyword(&self) -> Option<&'static str> {
        self.keyword
    }

    /// Declares that the value can change at run time.
    #[must_use]
    pub const fn live(mut self) -> Key<T>
    where
        T: Copy,
    {
        self.restart = None;
        self
    }

    /// Sets the reason why the value needs a restart.
    #[must_use]
    pub const fn restart(mut self, reason: &'static str) -> Key<T>
    where
        T: Copy,
    {
        self.restart = Some(reason);
        self
    }

    /// Least and greatest valid value, if there are any.
    pub const fn range(&self) -> Option<&(T, T)> {
        self.range.as_ref()
    }

    /// Raises the least valid value.
    #[must_use]
    pub fn at_least(mut self, least: T) -> Key<T>
    where
        T: Copy,
    {
        self.range = self.range.map(|(_, most)| (least, most));
        self
    }

    /// Valid values.
    ///
    /// # Panics
    /// If the key was declared without a range.
    pub fn valid(&self) -> RangeInclusive<T>
    where
        T: Copy,
    {
        let (least, most) = self.range.expect("a range is declared");
        least..=most
    }

    /// Words that select a value; empty for other types.
    pub const fn choices(&self) -> &'static [(&'static str, T)] {
        self.choices
    }

    /// Type and range in words: `time, 1ns to 1s`.
    pub fn values(&self) -> String {
        let words: Vec<String> = self.choices.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        let values = match &self.range {
            _ if !words.is_empty() => words.join(", "),
            Some((least, most)) => {
                let show = self.value_type.show;
                format!("{}, {} to {}", self.value_type.name, show(least), show(most))
            }
            None => self.value_type.name.to_owned(),
        };
        match self.keyword {
            Some(keyword) => format!("`\"{keyword}\"` or {values}"),
            None => values,
        }
    }

    /// Default value.
    ///
    /// # Panics
    /// If there is no default, or it is invalid: a programming error, which the first reading of any file reveals.
    pub fn value(&self) -> T {
        let default = self.default.unwrap_or_else(|| panic!("`{}` has no default", self.name));
        (self.value_type.parse)(default, self)
            .unwrap_or_else(|| panic!("`{}`: the default \"{default}\" is no such value", self.name))
    }

    /// Whether the default, if there is one, is a value of the key and in its range.
    pub fn has_valid_default(&self) -> bool
    where
        T: PartialOrd,
    {
        let Some(default) = self.default else { return true };
        let in_range = |value: T| self.range.as_ref().is_none_or(|(least, most)| (least..=most).contains(&&value));
        (self.value_type.parse)(default, self).is_some_and(in_range)
    }

    const fn new(
        name: &'static str,
        range: Option<(T, T)>,
        choices: &'static [(&'static str, T)],
        help: &'static str,
        value_type: ValueType<T>,
    ) -> Key<T>
    where
        T: Copy,
    {
        let restart = Some(READ_AT_START);
        Key { name, help, default: None, default_help: "", restart, keyword: None, range, choices, value_type }
    }

    /// Creates a key of another type, which `values` describes; its reader does not use [`Table::get`].
    pub const fn other(name: &'static str, values: &'static str, help: &'static str) -> Key<T>
    where
        T: Copy,
    {
        let value_type =
            ValueType { name: values, read: Key::read_elsewhere, parse: |_, _| None, show: |_| String::new() };
        Key::new(name, None, &[], help, value_type)
    }

    /// Creates a key of another type with a range, which `values` describes; its reader does not use [`Table::get`].
    pub const fn other_in(name: &'static str, values: &'static str, range: (T, T), help: &'static str) -> Key<T>
    where
        T: Copy + Display,
    {
        let value_type = ValueType { name: values, read: Key::read_elsewhere, parse: |_, _| None, show: T::to_string };
        Key::new(name, Some(range), &[], help, value_type)
    }

    fn read_elsewhere(_: &Table<'_>, key: &Key<T>) -> Option<T> {
        panic!("`{}` has a reader of its own", key.name)
    }

    /// Creates a key whose value is one of these words.
    pub const fn choice(name: &'static str, choices: &'static [(&'static str, T)], help: &'static str) -> Key<T>
    where
        T: Copy,
    {
        let value_type = ValueType {
            name: "",
            read: |table, key| table.choice(key.name, key.choices),
            parse: |text, key| key.choices.iter().find(|(word, _)| *word == text).map(|(_, value)| *value),
            show: |_| String::new(),
        };
        Key::new(name, None, choices, help, value_type)
    }

    /// Creates a key whose value is a number with its own type, bare or in a string; `values` names the type.
    pub const fn number(name: &'static str, values: &'static str, help: &'static str) -> Key<T>
    where
        T: Copy + FromStr<Err = UnitError>,
    {
        fn read<T: FromStr<Err = UnitError>>(table: &Table<'_>, key: &Key<T>) -> Option<T> {
            // A fraction needs quotes.
            let quotes = if key.default_help.parse::<f64>().is_ok() { "" } else { "\"" };
            table.number(key.name, &format!("{} = {quotes}{}{quotes}", key.name, key.default_help))
        }
        let value_type = ValueType { name: values, read, parse: |text, _| text.parse().ok(), show: |_| String::new() };
        Key::new(name, None, &[], help, value_type)
    }
}

impl<T: Copy + Display + FromStr> Key<T> {
    /// Creates a key of a type that parses and shows its own texts.
    const fn parsed(
        name: &'static str,
        type_name: &'static str,
        range: Option<(T, T)>,
        help: &'static str,
        read: fn(&Table<'_>, &Key<T>) -> Option<T>,
    ) -> Key<T> {
        let value_type = ValueType { name: type_name, read, parse: |text, _| text.parse().ok(), show: T::to_string };
        Key::new(name, range, &[], help, value_type)
    }
}

impl Key<Span> {
    /// Creates a key whose value is a time with its unit.
    pub const fn time(name: &'static str, range: RangeInclusive<Span>, help: &'static str) -> Key<Span> {
        let read = |table: &Table<'_>, key: &Key<Span>| table.quantity(key.name, &TIME, key.valid());
        Key::parsed(name, "time", Some((*range.start(), *range.end())), help, read)
    }
}

impl Key<Bytes> {
    /// Creates a key whose value is a size with its unit.
    pub const fn size(name: &'static str, range: RangeInclusive<Bytes>, help: &'static str) -> Key<Bytes> {
        let read = |table: &Table<'_>, key: &Key<Bytes>| table.quantity(key.name, &SIZE, key.valid());
        Key::parsed(name, "size", Some((*range.start(), *range.end())), help, read)
    }

    /// Creates a key whose value is a size, with its unit or as a bare number of bytes.
    pub const fn byte_count(name: &'static str, range: RangeInclusive<Bytes>, help: &'static str) -> Key<Bytes> {
        let read = |table: &Table<'_>, key: &Key<Bytes>| {
            let valid = key.valid();
            table.byte_count(key.name, valid.start().get()..=valid.end().get()).map(Bytes::new)
        };
        let parse = |text: &str, _: &Key<Bytes>| match text.parse() {
            Ok(bytes) => Some(Bytes::new(bytes)),
            Err(_) => text.parse().ok(),
        };
        let value_type = ValueType { name: "bytes", read, parse, show: |bytes| bytes.get().to_string() };
        Key::new(name, Some((*range.start(), *range.end())), &[], help, value_type)
    }
}

impl Key<BitRate> {
    /// Creates a key whose value is a rate with its unit.
    pub const fn rate(name: &'static str, range: RangeInclusive<BitRate>, help: &'static str) -> Key<BitRate> {
        let read = |table: &Table<'_>, key: &Key<BitRate>| table.quantity(key.name, &RATE, key.valid());
        Key::parsed(name, "rate", Some((*range.start(), *range.end())), help, read)
    }
}

impl Key<bool> {
    /// Creates a key whose value is true or false.
    pub const fn boolean(name: &'static str, help: &'static str) -> Key<bool> {
        Key::parsed(name, "boolean", None, help, |table, key| table.boolean(key.name))
    }
}

impl Key<Alpha> {
    /// Creates a key whose value is an α.
    pub const fn alpha(name: &'static str, help: &'static str) -> Key<Alpha> {
        Key::parsed(name, "α", None, help, |table, key| table.alpha(key.name))
    }
}

impl Key<f64> {
    /// Creates a key whose value is a number above 0 and at most 1.
    pub const fn probability(name: &'static str, help: &'static str) -> Key<f64> {
        Key::parsed(name, "number above 0, at most 1", None, help, |table, key| table.probability(key.name))
    }

    /// Creates a key whose value is a number from 0 to 1.
    pub const fn share(name: &'static str, help: &'static str) -> Key<f64> {
        Key::parsed(name, "number from 0 to 1", None, help, |table, key| table.share(key.name))
    }
}

/// Keys whose values are whole numbers of one type.
macro_rules! integer_keys {
    ($($integer:ty),*) => {$(
        impl Key<$integer> {
            /// Creates a key whose value is a whole number.
            pub const fn integer(
                name: &'static str,
                range: RangeInclusive<$integer>,
                help: &'static str,
            ) -> Key<$integer> {
                let read = |table: &Table<'_>, key: &Key<$integer>| {
                    let (least, most) = key.range?;
                    let value = table.integer(key.name, u64::from(least)..=u64::from(most))?;
                    <$integer>::try_from(value).ok()
                };
                Key::parsed(name, "integer", Some((*range.start(), *range.end())), help, read)
            }
        }
    )*};
}

integer_keys!(u8, u16, u32, u64);

impl Table<'_> {
    /// Reads a key; its default if it is absent or invalid.
    ///
    /// # Panics
    /// If the key has no valid default: a programming error.
    pub fn get<T>(&self, key: &Key<T>) -> T {
        let default = key.value();
        self.given(key).unwrap_or(default)
    }

    /// Whether the value is the key's keyword.
    pub fn is_keyword<T>(&self, key: &Key<T>) -> bool {
        key.keyword.is_some() && self.word(key.name) == key.keyword
    }

    /// Reads a key; `None` if it is absent or invalid.
    pub fn given<T>(&self, key: &Key<T>) -> Option<T> {
        (key.value_type.read)(self, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, TableSchema, read_text};

    const TC: Key<Span> = Key::time("tc", Span::ZERO..=Span::from_secs(1), "a window").or("80us");
    const COUNT: Key<u64> = Key::<u64>::integer("count", 1..=9, "a number").or("5");
    const ALPHA: Key<Alpha> = Key::alpha("alpha", "a share").or("1/4");
    const ON: Key<bool> = Key::boolean("on", "whether").or("true");
    const WORD: Key<char> = Key::choice("word", &[("a", 'A'), ("b", 'B')], "which").or("b");
    static TABLES: &[TableSchema] = &[TableSchema::table("", &[&TC, &COUNT, &ALPHA, &ON, &WORD])];

    #[test]
    fn missing_keys_have_defaults_and_invalid_ones_are_errors() {
        let format = Format { what: "a file", reference: "docs", repeated: "", tables: TABLES };
        let read = |text: &str| {
            read_text("file", text, &format, |table| {
                (table.get(&TC), table.get(&COUNT), table.get(&ALPHA).to_string(), table.get(&ON), table.get(&WORD))
            })
            .map(|(values, _)| values)
        };
        assert_eq!(read("").unwrap(), (Span::from_micros(80), 5, "1/4".to_owned(), true, 'B'));
        let given = "tc = \"1ms\"\ncount = 2\nalpha = 1\non = false\nword = \"a\"";
        assert_eq!(read(given).unwrap(), (Span::from_millis(1), 2, "1".to_owned(), false, 'A'));
        let errors = read("count = 10\ntc = 5").unwrap_err().render(false);
        assert!(errors.contains("out of range") && errors.contains("unit"), "{errors}");
    }

    #[test]
    fn values_are_described() {
        const TIME: Key<Span> = Key::time("t", Span::from_nanos(1)..=Span::from_secs(1), "").or("80us");
        const SIDE: Key<u8> = Key::choice("side", &[("left", 1), ("right", 2)], "").or("right");
        const COUNT: Key<u16> = Key::<u16>::integer("n", 1..=64, "").or("2");
        const ONE_OF: Key<()> = Key::other("device", "`auto` or size", "");
        assert_eq!(TIME.values(), "time, 1ns to 1s");
        assert_eq!((SIDE.values().as_str(), SIDE.value()), ("\"left\", \"right\"", 2));
        assert_eq!((COUNT.values().as_str(), COUNT.value()), ("integer, 1 to 64", 2));
        assert_eq!(ONE_OF.values(), "`auto` or size");
        assert_eq!(TIME.or_keyword("auto").values(), "`\"auto\"` or time, 1ns to 1s");
        assert_eq!(Key::byte_count("mtu", Bytes::new(64)..=Bytes::kb(16), "").or("1500").value(), Bytes::new(1_500));
        assert_eq!(Key::byte_count("mtu", Bytes::new(64)..=Bytes::kb(16), "").or("2KB").values(), "bytes, 64 to 16000");
    }

    #[test]
    #[should_panic(expected = "`n`: the default \"two\" is no such value")]
    fn an_invalid_default_is_a_programming_error() {
        let _ = Key::<u32>::integer("n", 1..=64, "").or("two").value();
    }
}
