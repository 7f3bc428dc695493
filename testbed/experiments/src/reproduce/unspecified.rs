//! Parameters that a paper leaves unspecified: `[[open]]` of `paper.toml`.

use std::collections::BTreeSet;

use crate::table::key_path::KeyPath;
use serde::Deserialize;

/// Parameter that the paper leaves unspecified, with plausible values.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UnspecifiedParameter {
    /// Name for `--pin` and pictures.
    pub name: String,
    /// Reason why these values are plausible.
    pub why: String,
    /// Scenario key of all plain values; `None` if each value names the keys that it sets.
    pub path: Option<String>,
    pub values: Vec<ParameterValue>,
    /// Name of the default value: stated by the paper, else used by `weir reproduce`.
    pub taken: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum ParameterValue {
    Named(NamedValue),
    /// Value of the key `path`.
    Plain(toml::Value),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedValue {
    name: String,
    /// Keys of the scenario; all values of one parameter set the same ones.
    set: toml::Table,
}

/// Error: the key within `[[open]]`, the problem, and the remedy.
pub(super) type Mistake = (String, String, String);

impl UnspecifiedParameter {
    pub(super) fn names(&self) -> Vec<String> {
        self.values.iter().map(ParameterValue::name).collect()
    }

    /// Index of the default value.
    pub(super) fn taken(&self) -> usize {
        self.names().iter().position(|name| *name == self.taken).expect("checked when it was read")
    }

    /// Keys and values that a value sets in the scenario, sorted by key.
    pub(super) fn settings(&self, value: usize) -> Vec<(KeyPath, toml::Value)> {
        let path = |text: &str| KeyPath::parse(text).expect("checked when it was read");
        match &self.values[value] {
            ParameterValue::Plain(value) => self.path.iter().map(|text| (path(text), value.clone())).collect(),
            ParameterValue::Named(named) => named.set.iter().map(|(key, value)| (path(key), value.clone())).collect(),
        }
    }

    /// Copy of the parameter with a subset of its values.
    pub(super) fn pinned(&self, values: &[usize]) -> UnspecifiedParameter {
        UnspecifiedParameter {
            values: values.iter().map(|value| self.values[*value].clone()).collect(),
            ..self.clone()
        }
    }

    /// Errors of the parameter; `others` are the preceding parameters.
    pub(super) fn mistakes(&self, others: &[UnspecifiedParameter]) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        let mut wrong = |key: &str, message: String, help: &str| {
            mistakes.push((key.to_owned(), message, help.to_owned()));
        };
        if others.iter().any(|other| other.name == self.name) || self.name.is_empty() || self.name.contains('=') {
            wrong(".name", format!("\"{}\" can't be its name", self.name), "write a name of its own, without =");
        }
        if self.values.len() < 2 {
            wrong(".values", "one value leaves nothing open".to_owned(), "write two values or more");
        }
        let names = self.names();
        if names.iter().collect::<BTreeSet<_>>().len() < names.len() {
            wrong(".values", "two values have one name".to_owned(), "write name = \"...\" in each");
        }
        if !names.contains(&self.taken) {
            let help = format!("write one of the values' names: {}", names.join(", "));
            wrong(".taken", format!("\"{}\" is none of the values", self.taken), &help);
        }
        let keys = |value: &ParameterValue| -> Vec<String> {
            match value {
                ParameterValue::Plain(_) => self.path.iter().cloned().collect(),
                ParameterValue::Named(named) => named.set.keys().cloned().collect(),
            }
        };
        for (n, value) in self.values.iter().enumerate() {
            let key = format!(".values[{n}]");
            if let Some(bad) = keys(value).iter().find(|key| KeyPath::parse(key).is_none()) {
                wrong(&key, format!("\"{bad}\" is no key of a scenario"), "write keys with dots between them");
            }
            if keys(value).is_empty() {
                let help = "write path = \"switch.buffer.dt.alpha\" beside the values, or name and set in each";
                wrong(&key, "it is not said what this sets".to_owned(), help);
            } else if keys(value) != keys(&self.values[0]) {
                let help = "write the same keys in each, with what the scenario has where nothing changes";
                wrong(&key, "it sets other keys than the first value".to_owned(), help);
            }
        }
        mistakes
    }
}

impl ParameterValue {
    pub(super) fn name(&self) -> String {
        match self {
            ParameterValue::Named(named) => named.name.clone(),
            ParameterValue::Plain(value) => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &str) -> UnspecifiedParameter {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn values_are_plain_ones_of_a_path_or_named_ones_of_several() {
        let tc = open(
            "name = \"TC\"\nwhy = \"\"\npath = \"switch.buffer.spfc.tc\"\nvalues = [\"80us\", \"320us\"]\ntaken = \"320us\"",
        );
        assert_eq!(
            (tc.names(), tc.taken(), tc.mistakes(&[])),
            (vec!["80us".to_owned(), "320us".to_owned()], 1, vec![])
        );
        assert_eq!(tc.settings(0)[0].0.to_string(), "switch.buffer.spfc.tc");
        assert_eq!(tc.pinned(&[1]).names(), ["320us"]);
        let two = open(
            "name = \"CC\"\nwhy = \"\"\ntaken = \"a\"\n\
             values = [{ name = \"a\", set = { x = 1, \"y.z\" = 2 } }, { name = \"b\", set = { x = 3, \"y.z\" = 4 } }]",
        );
        assert_eq!((two.settings(1).len(), two.mistakes(std::slice::from_ref(&tc))), (2, vec![]));
    }

    #[test]
    fn errors_have_messages() {
        let of = |text: &str| {
            let mistakes = open(&format!("why = \"\"\n{text}")).mistakes(&[]);
            mistakes.into_iter().map(|(key, message, _)| format!("{key} {message}")).collect::<Vec<_>>()
        };
        let head = "name = \"a\"\ntaken = \"1\"\n";
        assert_eq!(of(&format!("{head}path = \"x\"\nvalues = [1]")), [".values one value leaves nothing open"]);
        assert_eq!(of(&format!("{head}path = \"x\"\nvalues = [2, 3]")), [".taken \"1\" is none of the values"]);
        assert_eq!(of(&format!("{head}path = \"x..\"\nvalues = [1, 2]")).len(), 2);
        assert_eq!(of(&format!("{head}values = [1, 2]"))[0], ".values[0] it is not said what this sets");
        let other = "values = [{ name = \"1\", set = { x = 1 } }, { name = \"2\", set = { y = 1 } }]";
        assert_eq!(of(&format!("{head}{other}")), [".values[1] it sets other keys than the first value"]);
    }
}
