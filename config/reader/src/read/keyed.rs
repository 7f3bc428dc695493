//! Values of keys with defaults.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use weir_units::{Alpha, UnitError};

use super::{Quantity, Table};
use crate::Key;

/// Readers of keys with defaults. Each reads as the method of [`Table`] without `_or`; a value that is invalid or absent reads as the
/// default.
impl Table<'_> {
    /// Reads a quantity with its unit.
    pub fn quantity_or<T>(&self, key: &Key, quantity: &Quantity, range: RangeInclusive<T>) -> T
    where
        T: FromStr<Err = UnitError> + PartialOrd + Display,
    {
        let default = key.value();
        self.quantity(key.name, quantity, range).unwrap_or(default)
    }

    /// Reads a whole number.
    pub fn integer_or(&self, key: &Key, range: RangeInclusive<u64>) -> u64 {
        let default = key.value();
        self.integer(key.name, range).unwrap_or(default)
    }

    /// Reads an α.
    pub fn alpha_or(&self, key: &Key) -> Alpha {
        let default = key.value();
        self.alpha(key.name).unwrap_or(default)
    }

    /// Reads a number with its own type.
    pub fn number_or<T: FromStr<Err = UnitError>>(&self, key: &Key) -> T {
        let default = key.value();
        // A fraction needs quotes.
        let quotes = if key.default_help.parse::<f64>().is_ok() { "" } else { "\"" };
        self.number(key.name, &format!("{} = {quotes}{}{quotes}", key.name, key.default_help)).unwrap_or(default)
    }

    /// Reads a boolean.
    pub fn boolean_or(&self, key: &Key) -> bool {
        let default = key.value();
        self.boolean(key.name).unwrap_or(default)
    }

    /// Reads one of a set of words, which includes the default.
    pub fn choice_or<T: Copy>(&self, key: &Key, choices: &[(&'static str, T)]) -> T {
        let default = choices.iter().find(|(word, _)| Some(*word) == key.default);
        let (_, default) = default.unwrap_or_else(|| panic!("`{}`: the default is none of its words", key.name));
        self.choice(key.name, choices).unwrap_or(*default)
    }
}

#[cfg(test)]
mod tests {
    use weir_units::Span;

    use super::*;
    use crate::{Format, TIME, TableSchema, read_text};

    const TC: Key = Key::new("tc", "80us", "a window");
    const COUNT: Key = Key::new("count", "5", "a number");
    const ALPHA: Key = Key::new("alpha", "1/4", "a share");
    const ON: Key = Key::new("on", "true", "whether");
    const WORD: Key = Key::new("word", "b", "which");
    static TABLES: &[TableSchema] = &[TableSchema::table("", &["tc", "count", "alpha", "on", "word"])];

    #[test]
    fn missing_keys_have_defaults_and_invalid_ones_are_errors() {
        let format = Format { what: "a file", reference: "docs", repeated: "", tables: TABLES };
        let read = |text: &str| {
            read_text("file", text, &format, |table| {
                (
                    table.quantity_or(&TC, &TIME, Span::ZERO..=Span::from_secs(1)),
                    table.integer_or(&COUNT, 1..=9),
                    table.alpha_or(&ALPHA).to_string(),
                    table.boolean_or(&ON),
                    table.choice_or(&WORD, &[("a", 'A'), ("b", 'B')]),
                )
            })
            .map(|(values, _)| values)
        };
        assert_eq!(read("").unwrap(), (Span::from_micros(80), 5, "1/4".to_owned(), true, 'B'));
        let given = "tc = \"1ms\"\ncount = 2\nalpha = 1\non = false\nword = \"a\"";
        assert_eq!(read(given).unwrap(), (Span::from_millis(1), 2, "1".to_owned(), false, 'A'));
        let errors = read("count = 10\ntc = 5").unwrap_err().render(false);
        assert!(errors.contains("out of range") && errors.contains("unit"), "{errors}");
    }
}
