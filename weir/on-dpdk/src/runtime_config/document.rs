//! Switch file as text that is changed key by key, and keeps its comments.
//!
//! A key is the path of the file's tables. A list's element is named by its distinguishing value in place of its index. Examples:
//!
//! - `buffer.dt.alpha`
//! - `ports.p0.rate` (a port's name)
//! - `classes.queues.3.weight` (its class)
//! - `buffer.rates.25Gbps.headroom` (the ports' rate)
//! - `static_macs.02:00:00:00:00:01` (whose value is the port)
//!
//! Values are as in the file; the quotes of a text may be left out.

use std::collections::BTreeMap;

use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, TomlError, Value};
use weir_config::port_of_key;

/// The text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Document(DocumentMut);

/// A list whose elements have names of their own.
struct NamedList {
    path: &'static [&'static str],
    /// Key whose value distinguishes the list's elements.
    named_by: &'static str,
    /// The one other key, where it is the element's value.
    value: Option<&'static str>,
}

const LISTS: [NamedList; 4] = [
    NamedList { path: &["ports"], named_by: "name", value: None },
    NamedList { path: &["classes", "queues"], named_by: "class", value: None },
    NamedList { path: &["buffer", "rates"], named_by: "rate", value: None },
    NamedList { path: &["static_macs"], named_by: "mac", value: Some("port") },
];

/// Deeper than any key.
const DEPTH_MAX: usize = 8;

impl Document {
    /// A text of TOML.
    pub(crate) fn parse(text: &str) -> Result<Document, TomlError> {
        text.parse().map(Document)
    }

    /// Returns the text with the changes.
    pub(crate) fn text(&self) -> String {
        self.0.to_string()
    }

    /// All keys with their values, as in the file.
    pub(crate) fn keys(&self) -> BTreeMap<String, String> {
        let mut keys = BTreeMap::new();
        collect_keys(self.0.as_table(), &mut Vec::new(), "", &mut keys);
        keys
    }

    /// The value of a key, as in the file; `None` where it is left to its default.
    pub(crate) fn get(&self, key: &str) -> Option<String> {
        self.keys().remove(&self.written(key))
    }

    /// The names of the ports, in the order of the file.
    pub(crate) fn ports(&self) -> Vec<String> {
        let Some(ports) = self.0.get("ports") else { return Vec::new() };
        elements(ports).into_iter().filter_map(|port| name_of(port, "name")).collect()
    }

    /// Sets a key to a value, or to its default.
    ///
    /// # Errors
    /// The key is malformed. Wrong values and unknown keys are errors of the text's reader.
    pub(crate) fn set(&mut self, key: &str, value: Option<&str>) -> Result<(), String> {
        let path = self.path(key)?;
        match path {
            KeyLocation::Plain(path) => set_in(self.0.as_table_mut(), &path, value.map(value_of), true),
            KeyLocation::InList { list, name, rest } => self.set_in_list(&LISTS[list], &name, &rest, value),
        }
        .map_err(|why| format!("`{key}`: {why}"))
    }

    /// The key as [`Document::keys`] has it.
    pub(crate) fn written(&self, key: &str) -> String {
        let Ok(KeyLocation::InList { list, name, rest }) = self.path(key) else { return key.to_owned() };
        let all = LISTS[list].path.iter().copied().chain([name.as_str()]).chain(rest.iter().map(String::as_str));
        all.collect::<Vec<_>>().join(".")
    }

    fn path(&self, key: &str) -> Result<KeyLocation, String> {
        for (number, list) in LISTS.iter().enumerate() {
            let prefix = list.path.join(".") + ".";
            let Some(rest) = key.strip_prefix(&prefix) else { continue };
            let (name, rest) = match (list.named_by, list.value) {
                ("name", _) => self.port_and_rest(rest)?,
                (_, Some(_)) => (rest.to_ascii_lowercase(), Vec::new()),
                _ => {
                    let mut parts = rest.split('.').map(str::to_owned);
                    (parts.next().unwrap_or_default(), parts.collect())
                }
            };
            if list.value.is_none() && rest.is_empty() {
                let message = format!("`{key}` is no key, but a table of keys: write for example {key}.rate");
                return Err(message);
            }
            return Ok(KeyLocation::InList { list: number, name, rest: checked(key, rest)? });
        }
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        Ok(KeyLocation::Plain(checked(key, path)?))
    }

    fn port_and_rest(&self, text: &str) -> Result<(String, Vec<String>), String> {
        let ports = self.ports();
        match port_of_key(text, &ports) {
            Some((number, rest)) => Ok((ports[number].clone(), rest.split('.').map(str::to_owned).collect())),
            None => {
                let named = text.split('.').next().unwrap_or_default();
                Err(format!("no port is named `{named}`; the ports are: {}", ports.join(", ")))
            }
        }
    }

    fn set_in_list(
        &mut self,
        list: &NamedList,
        name: &str,
        rest: &[String],
        value: Option<&str>,
    ) -> Result<(), String> {
        let parent = list.path[..list.path.len() - 1].iter().try_fold(self.0.as_table_mut(), |table, key| {
            let item = table.entry(key).or_insert_with(|| Item::Table(implicit()));
            item.as_table_mut().ok_or(())
        });
        let own = list.path[list.path.len() - 1];
        let Ok(parent) = parent else {
            return Err(format!("`{}` is written inline in the file; write it as a table of its own", list.path[0]));
        };
        let item = parent.entry(own).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        let place = elements(item).iter().position(|element| name_of(*element, list.named_by).as_deref() == Some(name));
        let (path, value) = match list.value {
            Some(key) => (vec![key.to_owned()], value),
            None => (rest.to_vec(), value),
        };
        if list.value.is_some() && value.is_none() {
            place.into_iter().for_each(|place| remove(item, place));
            return Ok(());
        }
        let place = match place {
            Some(place) => place,
            None if value.is_none() => return Ok(()),
            None => push(item, list, name),
        };
        let element = element_mut(item, place).ok_or("the list is not one of tables")?;
        set_in(element, &path, value.map(value_of), false)?;
        // A port is one with its name alone, and an element of another list says nothing then.
        if value.is_none() && element.len() == 1 && list.named_by != "name" {
            remove(item, place);
        }
        Ok(())
    }
}

enum KeyLocation {
    Plain(Vec<String>),
    InList {
        /// Index in [`LISTS`].
        list: usize,
        name: String,
        rest: Vec<String>,
    },
}

fn checked(key: &str, path: Vec<String>) -> Result<Vec<String>, String> {
    let is_word = |part: &String| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    if path.len() > DEPTH_MAX || !path.iter().all(is_word) {
        return Err(format!("`{key}` is no key: write a path such as buffer.dt.alpha or ports.p0.rate"));
    }
    Ok(path)
}

/// A value as it may be typed: TOML, or a text without its quotes.
fn value_of(text: &str) -> Value {
    let text = text.trim();
    match text.parse::<Value>() {
        // A time of day is a text here: no key has dates.
        Ok(Value::Datetime(_)) | Err(_) => Value::from(text),
        Ok(value) => value.decorated(" ", ""),
    }
}

fn implicit() -> Table {
    let mut table = Table::new();
    table.set_implicit(true);
    table
}

/// Sets a value at a path, with the tables that it needs; an empty one is left behind by none.
fn set_in(table: &mut dyn TableLike, path: &[String], value: Option<Value>, in_tables: bool) -> Result<(), String> {
    let Some((key, rest)) = path.split_first() else { return Ok(()) };
    if rest.is_empty() {
        match (value, table.get_mut(key)) {
            (None, _) => drop(table.remove(key)),
            (Some(mut value), Some(Item::Value(old))) => {
                *value.decor_mut() = old.decor().clone();
                *old = value;
            }
            (Some(value), _) => drop(table.insert(key, Item::Value(value))),
        }
        return Ok(());
    }
    if table.get(key).is_none() {
        if value.is_none() {
            return Ok(());
        }
        let new = if in_tables { Item::Table(Table::new()) } else { Item::Value(InlineTable::new().into()) };
        table.insert(key, new);
    }
    let inner = table.get_mut(key).and_then(Item::as_table_like_mut);
    let inner = inner.ok_or_else(|| format!("`{key}` has a value of its own and no keys; set `{key}` as a whole"))?;
    set_in(inner, rest, value, in_tables)?;
    if inner.is_empty() {
        table.remove(key);
    }
    Ok(())
}

fn collect_keys(table: &dyn TableLike, path: &mut Vec<String>, shown: &str, keys: &mut BTreeMap<String, String>) {
    for (key, item) in table.iter() {
        let shown = if shown.is_empty() { key.to_owned() } else { format!("{shown}.{key}") };
        path.push(key.to_owned());
        note(item, path, &shown, keys);
        path.pop();
    }
}

fn note(item: &Item, path: &mut Vec<String>, shown: &str, keys: &mut BTreeMap<String, String>) {
    if let Some(table) = item.as_table_like() {
        return collect_keys(table, path, shown, keys);
    }
    let list = LISTS.iter().find(|list| list.path.iter().copied().eq(path.iter().map(String::as_str)));
    let Some(list) = list else {
        let text = item.as_value().map_or_else(String::new, |value| value.clone().decorated("", "").to_string());
        keys.insert(shown.to_owned(), text);
        return;
    };
    for element in elements(item) {
        let Some(name) = name_of(element, list.named_by) else { continue };
        let shown = format!("{shown}.{name}");
        for (key, item) in element.iter().filter(|(key, _)| *key != list.named_by) {
            let shown = if list.value == Some(key) { shown.clone() } else { format!("{shown}.{key}") };
            path.push(key.to_owned());
            note(item, path, &shown, keys);
            path.pop();
        }
    }
}

/// The elements of a list, written either way.
fn elements(item: &Item) -> Vec<&dyn TableLike> {
    match item {
        Item::ArrayOfTables(tables) => tables.iter().map(|table| table as &dyn TableLike).collect(),
        Item::Value(Value::Array(array)) => {
            array.iter().filter_map(Value::as_inline_table).map(|table| table as &dyn TableLike).collect()
        }
        _ => Vec::new(),
    }
}

fn element_mut(item: &mut Item, place: usize) -> Option<&mut dyn TableLike> {
    match item {
        Item::ArrayOfTables(tables) => tables.get_mut(place).map(|table| table as &mut dyn TableLike),
        Item::Value(Value::Array(array)) => {
            array.get_mut(place).and_then(Value::as_inline_table_mut).map(|table| table as &mut dyn TableLike)
        }
        _ => None,
    }
}

fn remove(item: &mut Item, place: usize) {
    match item {
        Item::ArrayOfTables(tables) => drop(tables.remove(place)),
        Item::Value(Value::Array(array)) => drop(array.remove(place)),
        _ => {}
    }
}

/// Adds an element; returns its place.
fn push(item: &mut Item, list: &NamedList, name: &str) -> usize {
    let name = name.parse::<i64>().map_or_else(|_| Value::from(name), Value::from);
    let push_inline = |array: &mut Array| {
        let mut table = InlineTable::new();
        table.insert(list.named_by, name.clone());
        array.push(table);
        array.len() - 1
    };
    match item {
        Item::Value(Value::Array(array)) => push_inline(array),
        item => {
            if !item.is_array_of_tables() {
                *item = Item::ArrayOfTables(ArrayOfTables::new());
            }
            let Item::ArrayOfTables(tables) = item else { return 0 };
            let mut table = Table::new();
            table.insert(list.named_by, Item::Value(name));
            tables.push(table);
            tables.len() - 1
        }
    }
}

/// Name of an element: a text, or a number.
fn name_of(element: &dyn TableLike, key: &str) -> Option<String> {
    let value = element.get(key)?.as_value()?;
    let text = value.as_str().map(str::to_owned).or_else(|| value.as_integer().map(|number| number.to_string()))?;
    Some(if key == "mac" { text.to_ascii_lowercase() } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"# A lab.
[buffer]
size = "1MB" # all of it
policy = "dt"

[[classes.queues]]
class = 3
weight = 2

[[ports]]
name = "p0"
af_packet = "veth0"
rate = "1Gbps" # of the cable

[[ports]]
name = "p0.1"
ring = "a"
flow_control = { kind = "gfc-time", b0 = "5KB" }

[[static_macs]]
mac = "02:00:00:00:00:0A"
port = "p0"
"#;

    fn document() -> Document {
        Document::parse(FILE).unwrap()
    }

    fn changed(changes: &[(&str, Option<&str>)]) -> Document {
        let mut document = document();
        changes.iter().for_each(|(key, value)| document.set(key, *value).unwrap());
        // The text reads as it was set.
        let again = Document::parse(&document.text()).unwrap();
        assert_eq!(again.keys(), document.keys());
        document
    }

    #[test]
    fn keys_have_names_in_place_of_numbers() {
        let keys = document().keys();
        let expected = [
            ("buffer.policy", "\"dt\""),
            ("buffer.size", "\"1MB\""),
            ("classes.queues.3.weight", "2"),
            ("ports.p0.1.flow_control.b0", "\"5KB\""),
            ("ports.p0.1.flow_control.kind", "\"gfc-time\""),
            ("ports.p0.1.ring", "\"a\""),
            ("ports.p0.af_packet", "\"veth0\""),
            ("ports.p0.rate", "\"1Gbps\""),
            ("static_macs.02:00:00:00:00:0a", "\"p0\""),
        ];
        assert_eq!(keys, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    }

    #[test]
    fn settings_by_rate_are_named_by_it() {
        let text = "[[buffer.rates]]\nrate = \"2.5Gbps\"\nalpha = \"1/2\"\n[[buffer.rates]]\nrate = \"25Gbps\"\nheadroom = \"9KB\"\n";
        let keys = Document::parse(text).unwrap().keys();
        let expected = [("buffer.rates.2.5Gbps.alpha", "\"1/2\""), ("buffer.rates.25Gbps.headroom", "\"9KB\"")];
        assert_eq!(keys, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    }

    #[test]
    fn a_value_changes_in_its_line_and_comments_stay() {
        let text = changed(&[("ports.p0.rate", Some("5Mbps")), ("buffer.size", Some("\"2MB\""))]).text();
        assert_eq!(text, FILE.replace("1Gbps", "5Mbps").replace("1MB", "2MB"));
    }

    #[test]
    fn tables_and_elements_are_made_and_unmade() {
        let document = changed(&[
            ("buffer.dt.alpha", Some("1/8")),
            ("classes.queues.5.ecn.kmin", Some("10KB")),
            ("classes.queues.5.ecn.kmax", Some("20KB")),
            ("pfc_watchdog.action", Some("alert")),
            ("static_macs.02:00:00:00:00:0B", Some("p0.1")),
            ("static_macs.02:00:00:00:00:0a", Some("p0.1")),
            ("ports.p0.1.rate", Some("1Gbps")),
        ]);
        let get = |key| document.get(key);
        assert_eq!(get("buffer.dt.alpha").as_deref(), Some("\"1/8\""));
        assert_eq!(get("classes.queues.5.ecn.kmax").as_deref(), Some("\"20KB\""));
        assert_eq!(get("static_macs.02:00:00:00:00:0B").as_deref(), Some("\"p0.1\""));
        assert_eq!(get("static_macs.02:00:00:00:00:0A").as_deref(), Some("\"p0.1\""));
        assert_eq!(
            (get("ports.p0.1.rate").as_deref(), get("ports.p0.rate").as_deref()),
            (Some("\"1Gbps\""), Some("\"1Gbps\""))
        );
        let mut back = document;
        for key in [
            "buffer.dt.alpha",
            "classes.queues.5.ecn.kmin",
            "classes.queues.5.ecn.kmax",
            "pfc_watchdog.action",
            "ports.p0.1.rate",
        ] {
            back.set(key, None).unwrap();
        }
        back.set("static_macs.02:00:00:00:00:0b", None).unwrap();
        back.set("static_macs.02:00:00:00:00:0A", Some("p0")).unwrap();
        assert!(!back.text().contains("class = 5"), "{}", back.text());
        assert_eq!(back.keys(), document_keys());
        // A key that is not there may be left to its default.
        back.set("pfc.quanta", None).unwrap();
        back.set("static_macs.02:00:00:00:00:0c", None).unwrap();
        assert_eq!(back.keys(), document_keys());
    }

    fn document_keys() -> BTreeMap<String, String> {
        document().keys()
    }

    #[test]
    fn lists_may_be_written_inline() {
        let text = "ports = [{ name = \"a\", ring = \"a\" }, { name = \"b\", ring = \"b\" }]\n";
        let mut document = Document::parse(text).unwrap();
        document.set("ports.b.rate", Some("1Gbps")).unwrap();
        document.set("classes.queues.3.weight", Some("2")).unwrap();
        let keys = Document::parse(&document.text()).unwrap().keys();
        assert_eq!(keys["ports.b.rate"], "\"1Gbps\"");
        assert_eq!(keys["classes.queues.3.weight"], "2");
    }

    #[test]
    fn values_are_toml_or_bare_texts() {
        for (typed, written) in [
            ("3", "3"),
            ("0.5", "0.5"),
            ("true", "true"),
            ("1/16", "\"1/16\""),
            ("10Gbps", "\"10Gbps\""),
            ("\"10Gbps\"", "\"10Gbps\""),
            ("pfc", "\"pfc\""),
            ("2026-01-01", "\"2026-01-01\""),
            ("{ kmin = \"1KB\" }", "{ kmin = \"1KB\" }"),
            ("a \"b\" \\ \n", "'a \"b\" \\'"),
        ] {
            assert_eq!(value_of(typed).decorated("", "").to_string(), written, "{typed}");
        }
    }

    #[test]
    fn invalid_keys_are_errors() {
        for (key, message) in [
            ("", "is no key"),
            ("buffer..alpha", "is no key"),
            ("buffer.dt.alpha\n[x]", "is no key"),
            ("ports.p9.rate", "no port is named `p9`; the ports are: p0, p0.1"),
            ("ports.p0", "no port is named"),
            ("classes.queues.3", "a table of keys"),
            ("buffer.size.x", "has a value of its own"),
            (&"a.".repeat(20), "is no key"),
        ] {
            let error = document().set(key, Some("1")).unwrap_err();
            assert!(error.contains(message), "{key:?}: {error}");
        }
    }

    proptest::proptest! {
        /// Client input of any kind leaves valid TOML, which contains the set values.
        #[test]
        fn any_key_and_value_leave_a_text_that_reads(
            changes in proptest::collection::vec((key(), proptest::option::of(value())), 1..6),
        ) {
            let mut document = document();
            for (key, value) in &changes {
                let _ = document.set(key, value.as_deref());
            }
            let again = Document::parse(&document.text());
            proptest::prop_assert!(again.is_ok(), "{}", document.text());
            proptest::prop_assert_eq!(again.unwrap().keys(), document.keys());
        }
    }

    fn key() -> impl proptest::strategy::Strategy<Value = String> {
        use proptest::prelude::*;
        let part = prop::sample::select(vec![
            "buffer",
            "dt",
            "alpha",
            "size",
            "ports",
            "p0",
            "p0.1",
            "name",
            "rate",
            "classes",
            "queues",
            "3",
            "4",
            "class",
            "ecn",
            "kmin",
            "static_macs",
            "02:00:00:00:00:0a",
            "mac",
            "flow_control",
            "kind",
            "x",
        ]);
        prop_oneof![
            4 => prop::collection::vec(part, 1..5).prop_map(|parts| parts.join(".")),
            1 => ".{0,12}",
        ]
    }

    fn value() -> impl proptest::strategy::Strategy<Value = String> {
        use proptest::prelude::*;
        let typed = [
            "1",
            "1/8",
            "{ a = 1 }",
            "[1, 2]",
            "[{ name = \"p0\" }]",
            "\"a\\nb\"",
            "'x",
            "1 # no",
            "\n[x]\ny=1",
            "true",
            "p0",
        ];
        prop_oneof![3 => prop::sample::select(typed.map(str::to_owned).to_vec()), 1 => ".{0,12}"]
    }
}
