//! Path of a value in a TOML or JSON document: `switch.buffer.dt.alpha`, `workloads.0.load`, `flows.F1.throughput_bps`.

use std::borrow::Cow;
use std::fmt;

use toml::{Table, Value};

/// Keys from the outermost inwards. In an array, a key is an index from 0, an element's name, or `*` for each element.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyPath(Vec<String>);

/// Reason why a value can't be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathError {
    pub message: String,
    pub help: String,
}

/// Key for each element of an array.
const EACH: &str = "*";
/// Keys that name an element of an array, in a scenario and in a run's summary.
const NAMES: [&str; 4] = ["name", "sizes", "flow", "port"];

impl KeyPath {
    /// Parses keys separated by dots; a key that contains a dot is quoted. `None` if a key is empty or a quote is open.
    pub(crate) fn parse(text: &str) -> Option<KeyPath> {
        let (mut keys, mut rest) = (Vec::new(), text);
        loop {
            let quote = rest.chars().next().filter(|first| ['"', '\''].contains(first));
            let (key, after) = match quote {
                Some(quote) => rest[1..].split_once(quote)?,
                None => rest.split_at(rest.find('.').unwrap_or(rest.len())),
            };
            if key.is_empty() {
                return None;
            }
            keys.push(key.to_owned());
            if after.is_empty() {
                return Some(KeyPath(keys));
            }
            rest = after.strip_prefix('.')?;
        }
    }

    /// Joins this path and a path below it.
    pub(crate) fn below(&self, key: &KeyPath) -> KeyPath {
        KeyPath(self.0.iter().chain(&key.0).cloned().collect())
    }

    /// Path without its first key; `None` if the first key is another one.
    pub(crate) fn after(&self, first: &str) -> Option<KeyPath> {
        let (key, rest) = self.0.split_first()?;
        (key == first && !rest.is_empty()).then(|| KeyPath(rest.to_vec()))
    }

    pub(crate) fn keys(&self) -> &[String] {
        &self.0
    }

    pub(crate) fn last(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }

    pub(crate) fn is_in(&self, document: &Table) -> bool {
        !self.values_in(document).is_empty()
    }

    pub(crate) fn values_in<'a>(&self, document: &'a Table) -> Vec<&'a Value> {
        let mut at: Vec<&Value> = Vec::new();
        for (depth, key) in self.0.iter().enumerate() {
            at = match depth {
                0 => document.get(key).into_iter().collect(),
                _ => at.into_iter().flat_map(|value| inner(value, key)).collect(),
            };
        }
        at
    }

    /// Paths of all values with this key in a document. Array elements are given by name, or else by index.
    pub(crate) fn all_of(document: &Table, name: &str) -> Vec<KeyPath> {
        let mut found = Vec::new();
        find_all(document, name, &mut Vec::new(), &mut found);
        found
    }

    /// Sets a value and creates missing tables on its path; a missing element of an array is an error.
    pub(crate) fn set(&self, document: &mut Table, value: &Value) -> Result<(), PathError> {
        let (first, rest) = self.0.split_first().expect("a path has a key");
        self.set_in_table(document, first, rest, value)
    }

    fn set_in_table(&self, table: &mut Table, key: &str, rest: &[String], value: &Value) -> Result<(), PathError> {
        let Some((next, after)) = rest.split_first() else {
            table.insert(key.to_owned(), value.clone());
            return Ok(());
        };
        if !table.contains_key(key) && (is_number(next) || next == EACH) {
            let there = self.before(rest.len());
            return Err(PathError {
                message: format!("the scenario has no `{there}`, of which this sets one"),
                help: format!("write [[{there}]] in the scenario, or name a key that it has"),
            });
        }
        let there = table.entry(key.to_owned()).or_insert_with(|| Value::Table(Table::new()));
        self.set_in_value(there, next, after, value)
    }

    fn set_in_value(&self, there: &mut Value, key: &str, rest: &[String], value: &Value) -> Result<(), PathError> {
        match there {
            Value::Table(table) => self.set_in_table(table, key, rest, value),
            Value::Array(elements) => {
                let of = self.before(rest.len() + 1);
                let places = places(elements, key);
                if places.is_empty() {
                    return Err(no_element(&of, elements, key));
                }
                for place in places {
                    match rest.split_first() {
                        None => elements[place] = value.clone(),
                        Some((next, after)) => self.set_in_value(&mut elements[place], next, after, value)?,
                    }
                }
                Ok(())
            }
            other => Err(PathError {
                message: format!(
                    "`{}` is {} in the scenario, with nothing below it",
                    self.before(rest.len() + 1),
                    kind_of(other)
                ),
                help: format!("sweep `{}` itself, with tables as its values if need be", self.before(rest.len() + 1)),
            }),
        }
    }

    /// Path without its last `fewer` keys.
    fn before(&self, fewer: usize) -> KeyPath {
        KeyPath(self.0[..self.0.len() - fewer].to_vec())
    }

    /// Value of a JSON document at this path.
    pub(crate) fn find<'a>(&self, document: &'a serde_json::Value) -> Option<&'a serde_json::Value> {
        self.0.iter().try_fold(document, |value, key| match value {
            serde_json::Value::Object(map) => map.get(key),
            serde_json::Value::Array(elements) => {
                let is_named = |element: &&serde_json::Value| {
                    NAMES.iter().any(|name| element.get(name).and_then(|name| name.as_str()) == Some(key))
                };
                elements.iter().find(is_named).or_else(|| elements.get(key.parse::<usize>().ok()?))
            }
            _ => None,
        })
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, key) in self.0.iter().enumerate() {
            let dot = if n == 0 { "" } else { "." };
            write!(f, "{dot}{}", quoted(key))?;
        }
        Ok(())
    }
}

/// Key as written in a path.
pub(crate) fn quoted(key: &str) -> Cow<'_, str> {
    if key.contains('.') { Cow::Owned(format!("'{key}'")) } else { Cow::Borrowed(key) }
}

fn inner<'a>(value: &'a Value, key: &str) -> Vec<&'a Value> {
    match value {
        Value::Table(table) => table.get(key).into_iter().collect(),
        Value::Array(elements) => places(elements, key).into_iter().map(|place| &elements[place]).collect(),
        _ => Vec::new(),
    }
}

fn find_all(table: &Table, name: &str, above: &mut Vec<String>, found: &mut Vec<KeyPath>) {
    for (key, value) in table {
        above.push(key.clone());
        if key == name {
            found.push(KeyPath(above.clone()));
        }
        match value {
            Value::Table(inner) => find_all(inner, name, above, found),
            Value::Array(elements) => {
                for (place, element) in elements.iter().enumerate() {
                    let Value::Table(inner) = element else { continue };
                    above.push(name_of(element).map_or_else(|| place.to_string(), str::to_owned));
                    find_all(inner, name, above, found);
                    above.pop();
                }
            }
            _ => {}
        }
        above.pop();
    }
}

/// Indices of the elements that a key selects. Names have precedence over indices: a host may be called `7`.
fn places(elements: &[Value], key: &str) -> Vec<usize> {
    if key == EACH {
        return (0..elements.len()).collect();
    }
    if let Some(named) = elements.iter().position(|element| name_of(element) == Some(key)) {
        return vec![named];
    }
    key.parse().ok().filter(|place| *place < elements.len()).into_iter().collect()
}

fn name_of(element: &Value) -> Option<&str> {
    element.as_table()?.get("name")?.as_str()
}

fn no_element(of: &KeyPath, elements: &[Value], key: &str) -> PathError {
    let names: Vec<&str> = elements.iter().filter_map(name_of).take(12).collect();
    let last = elements.len().saturating_sub(1);
    let help = match (elements.len(), names.is_empty()) {
        (0, _) => format!("write [[{of}]] in the scenario"),
        (_, true) => format!("write a place from 0 to {last}, or * for all"),
        (_, false) => format!("write a place from 0 to {last}, * for all, or one of the names: {}", names.join(", ")),
    };
    PathError { message: format!("the scenario's `{of}` have no `{key}`"), help }
}

fn is_number(key: &str) -> bool {
    key.bytes().all(|byte| byte.is_ascii_digit())
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a string",
        Value::Integer(_) | Value::Float(_) => "a number",
        _ => "a single value",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> KeyPath {
        KeyPath::parse(text).unwrap()
    }

    #[test]
    fn paths_are_read_and_written_alike() {
        for text in ["a", "switch.buffer.dt.alpha", "hosts.'S1.x'.rate", "runs.PFC, arrival.switch.mtu"] {
            assert_eq!(path(text).to_string(), text);
        }
        assert_eq!(path("hosts.\"S1.x\".rate"), path("hosts.'S1.x'.rate"));
        for text in ["", ".", "a.", ".a", "a..b", "'a", "'a'b", "''"] {
            assert_eq!(KeyPath::parse(text), None, "{text}");
        }
    }

    #[test]
    fn values_are_set_by_place_by_name_and_everywhere() {
        let text = "[[hosts]]\nname = \"H1\"\n[[hosts]]\nname = \"0\"\n[[flows]]\n";
        let mut document: Table = text.parse().unwrap();
        let ten = Value::Integer(10);
        for (at, expected) in [("hosts.H1.rate", [true, false]), ("hosts.0.a", [false, true]), ("hosts.*.b", [true; 2])]
        {
            path(at).set(&mut document, &ten).unwrap();
            let hosts = document["hosts"].as_array().unwrap();
            let has = [0, 1].map(|n: usize| hosts[n].get(path(at).last()) == Some(&ten));
            assert_eq!(has, expected, "{at}");
        }
        path("switch.pfc.quanta").set(&mut document, &ten).unwrap();
        assert_eq!(document["switch"]["pfc"]["quanta"], ten);
        assert!(path("hosts.1.name").is_in(&document) && !path("hosts.1.rate").is_in(&document));
        assert_eq!(KeyPath::all_of(&document, "rate"), [path("hosts.H1.rate")]);
        assert_eq!(KeyPath::all_of(&document, "b"), [path("hosts.H1.b"), path("hosts.0.b")]);
        assert_eq!(KeyPath::all_of(&document, "quanta"), [path("switch.pfc.quanta")]);
        for (at, message) in [
            ("hosts.H2.rate", "the scenario's `hosts` have no `H2`"),
            ("links.0.rate", "the scenario has no `links`, of which this sets one"),
            ("hosts.H1.name.x", "`hosts.H1.name` is a string in the scenario, with nothing below it"),
        ] {
            assert_eq!(path(at).set(&mut document, &ten).unwrap_err().message, message);
        }
    }

    #[test]
    fn results_are_found_by_what_names_them() {
        let summary = serde_json::json!({"traffic": [{"name": "W1", "bins": [{"sizes": "all", "count": 7}]}]});
        for at in ["traffic.W1.bins.all.count", "traffic.0.bins.0.count"] {
            assert_eq!(path(at).find(&summary), Some(&serde_json::json!(7)));
        }
        assert_eq!(path("traffic.W2.bins").find(&summary), None);
    }
}
