//! SONiC's tables from files, and the outcome of each value.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::json::{JsonObject, JsonValue};
use super::report::{FieldMapping, ImportOutcome, natural};

/// CONFIG_DB: tables, their keys, and the fields of each.
#[derive(Debug, Default)]
pub(super) struct ConfigDb {
    tables: BTreeMap<String, BTreeMap<String, BTreeMap<String, String>>>,
    /// File of each field.
    files: BTreeMap<(String, String, String), PathBuf>,
    /// Rows of pg_profile_lookup.ini, by speed in Mb/s and cable.
    pub(super) lookup: BTreeMap<(u64, String), LookupRow>,
    outcomes: BTreeMap<(String, String, String), (ImportOutcome, String)>,
}

/// A row of pg_profile_lookup.ini.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LookupRow {
    pub(super) size: u64,
    pub(super) xon: u64,
    pub(super) xoff: u64,
    pub(super) threshold: i64,
    pub(super) xon_offset: Option<u64>,
}

/// Tables whose values the switch file gets.
const READ: [&str; 22] = [
    "BUFFER_PG",
    "BUFFER_POOL",
    "BUFFER_PORT_EGRESS_PROFILE_LIST",
    "BUFFER_PORT_INGRESS_PROFILE_LIST",
    "BUFFER_PROFILE",
    "BUFFER_QUEUE",
    "CABLE_LENGTH",
    "DEVICE_METADATA",
    "DOT1P_TO_TC_MAP",
    "DSCP_TO_TC_MAP",
    "MAP_PFC_PRIORITY_TO_QUEUE",
    "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP",
    "PFC_WD",
    "PORT",
    "PORT_QOS_MAP",
    "QUEUE",
    "SCHEDULER",
    "TC_TO_PRIORITY_GROUP_MAP",
    "TC_TO_QUEUE_MAP",
    "VLAN",
    "VLAN_MEMBER",
    "WRED_PROFILE",
];

/// Value of a field that is not there.
pub(super) const ABSENT: &str = "absent";

/// Place of a value: table, key and field.
#[derive(Clone, Copy)]
pub(super) struct FieldPath<'a> {
    table: &'a str,
    key: &'a str,
    field: &'a str,
}

impl<'a> FieldPath<'a> {
    pub(super) const fn new(table: &'a str, key: &'a str, field: &'a str) -> FieldPath<'a> {
        FieldPath { table, key, field }
    }
}

impl ConfigDb {
    /// Reads files. A folder stands for its `.json` files and its `pg_profile_lookup.ini`.
    pub(super) fn read(paths: &[PathBuf]) -> Result<ConfigDb, String> {
        let mut files = Vec::new();
        for path in paths {
            let failed = |error| format!("{}: {error}", path.display());
            if path.is_dir() {
                let entries = fs::read_dir(path).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
                let known = |path: &PathBuf| {
                    path.extension().is_some_and(|extension| extension == "json") || path.ends_with(LOOKUP)
                };
                let mut found: Vec<PathBuf> = entries.iter().map(|entry| entry.path()).filter(known).collect();
                if found.is_empty() {
                    let help = "render SONiC's templates first (sonic-cfggen), or name a config_db.json";
                    return Err(format!("{}: there is no .json file in it; {help}", path.display()));
                }
                found.sort();
                files.append(&mut found);
            } else {
                files.push(path.clone());
            }
        }
        let mut tables = ConfigDb::default();
        for file in &files {
            let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
            tables.add(file, &text)?;
        }
        Ok(tables)
    }

    fn add(&mut self, file: &Path, text: &str) -> Result<(), String> {
        let at = file.display();
        let text = text.trim_start_matches('\u{feff}');
        if file.extension().is_some_and(|extension| extension == "ini") {
            return self.add_lookup(file, text).map_err(|what| format!("{at}: {what}"));
        }
        let json = serde_json::from_str::<JsonValue>(text).map_err(|error| {
            if file.extension().is_some_and(|extension| extension == "j2") || text.contains("{%") {
                let help = "render it first: sonic-cfggen -j config_db.json -t buffers.json.j2";
                return format!("{at}: this is a template, and no JSON; {help}");
            }
            format!("{at}: this is no JSON: {error}")
        })?;
        let JsonValue::Object(tables) = json else {
            let help =
                "write CONFIG_DB's form, {\"BUFFER_POOL\": {\"ingress_lossless_pool\": {\"size\": \"12766208\"}}}";
            return Err(format!("{at}: this is no object of tables; {help}"));
        };
        let twice = |place: &str, key: String| format!("{at}: {place}{key} is there twice; leave one");
        for (table, rows) in tables.entries().map_err(|table| twice("", table))? {
            let is_read = READ.contains(&table.as_str());
            let rows = match rows {
                JsonValue::Object(rows) => rows,
                JsonValue::Other(_) if is_read => {
                    return Err(format!("{at}: {table} is no table: write {{KEY: {{FIELD: VALUE}}}}"));
                }
                JsonValue::Other(value) => JsonObject::with_value(value),
            };
            for (key, fields) in rows.entries().map_err(|key| twice(&format!("{table}|"), key))? {
                let fields = match fields {
                    JsonValue::Object(fields) => fields,
                    JsonValue::Other(_) if is_read => {
                        return Err(format!("{at}: {table}|{key} has no fields: write {{FIELD: VALUE}}"));
                    }
                    JsonValue::Other(value) => JsonObject::with_value(value),
                };
                self.tables.entry(table.clone()).or_default().entry(key.clone()).or_default();
                for (field, value) in fields.entries().map_err(|field| twice(&format!("{table}|{key}: "), field))? {
                    let value = match value {
                        JsonValue::Other(value) => plain(&value),
                        JsonValue::Object(_) => "an object".to_owned(),
                    };
                    self.add_field(file, &table, &key, field, value)?;
                }
            }
        }
        Ok(())
    }

    /// Adds a field. A field that another file gives another value is an error; of fields that are not read, the first value is kept.
    fn add_field(&mut self, file: &Path, table: &str, key: &str, field: String, value: String) -> Result<(), String> {
        let row = self.tables.entry(table.to_owned()).or_default().entry(key.to_owned()).or_default();
        if let Some(other) = row.get(&field) {
            if *other != value && (READ.contains(&table) || table == LOOKUP) {
                let first = self.files[&(table.to_owned(), key.to_owned(), field.clone())].display();
                return Err(format!(
                    "{}: {table}|{key}: {field} is \"{value}\", and \"{other}\" in {first}; keep one of them, or name the files to read",
                    file.display()
                ));
            }
            return Ok(());
        }
        self.files.insert((table.to_owned(), key.to_owned(), field.clone()), file.to_owned());
        row.insert(field, value);
        Ok(())
    }

    fn add_lookup(&mut self, file: &Path, text: &str) -> Result<(), String> {
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let columns: Vec<&str> = line.split_whitespace().collect();
            let help = "write: speed cable size xon xoff threshold [xon_offset]";
            let wrong = || format!("line {number}: `{line}` is no row of a lookup table; {help}");
            let [speed, cable, size, xon, xoff, threshold, ref rest @ ..] = columns[..] else { return Err(wrong()) };
            let number_of = |text: &str| text.parse::<u64>().map_err(|_| wrong());
            let row = LookupRow {
                size: number_of(size)?,
                xon: number_of(xon)?,
                xoff: number_of(xoff)?,
                threshold: threshold.parse().map_err(|_| wrong())?,
                xon_offset: rest.first().map(|text| number_of(text)).transpose()?,
            };
            self.lookup.insert((number_of(speed)?, cable.to_owned()), row);
            // Values of the lookup file are accounted for like those of tables.
            let names = ["size", "xon", "xoff", "threshold", "xon_offset"];
            for (name, value) in names.iter().zip(&columns[2..]) {
                self.add_field(file, LOOKUP, &lookup_key(speed, cable), (*name).to_owned(), (*value).to_owned())
                    .map_err(|what| format!("line {number}: {what}"))?;
            }
        }
        Ok(())
    }

    /// Keys of a table, in the order of the numbers in them.
    pub(super) fn keys(&self, table: &str) -> Vec<String> {
        let mut keys: Vec<String> = self.tables.get(table).into_iter().flat_map(|rows| rows.keys().cloned()).collect();
        keys.sort_by_key(|key| natural(key));
        keys
    }

    /// Returns a field, if present.
    pub(super) fn field(&self, table: &str, key: &str, field: &str) -> Option<&str> {
        self.tables.get(table)?.get(key)?.get(field).map(String::as_str)
    }

    /// Returns all fields of a key.
    pub(super) fn fields(&self, table: &str, key: &str) -> BTreeMap<String, String> {
        self.tables.get(table).and_then(|rows| rows.get(key)).cloned().unwrap_or_default()
    }

    /// A field's number.
    pub(super) fn number<N: std::str::FromStr>(
        &self,
        table: &str,
        key: &str,
        field: &str,
    ) -> Result<Option<N>, String> {
        let Some(text) = self.field(table, key, field) else { return Ok(None) };
        let wrong = || {
            let place = self.place(table, key);
            format!("{place}: {field} = \"{text}\" is no number; write one such as \"1248\"")
        };
        text.trim().parse().map(Some).map_err(|_| wrong())
    }

    /// File that has a table, or that the ports are in.
    pub(super) fn file_of(&self, table: &str) -> String {
        let of = |table: &str| self.files.iter().find(|((of, ..), _)| of == table).map(|(_, file)| file);
        let file = of(table).or_else(|| of("PORT")).or(self.files.values().next());
        file.map_or("config_db.json".to_owned(), |file| file.display().to_string())
    }

    /// Place of a key, for errors: the file that has it, table and key.
    pub(super) fn place(&self, table: &str, key: &str) -> String {
        let file =
            self.files.iter().find(|((of, in_table, _), _)| of == table && in_table == key).map(|(_, file)| file);
        let file = file.map_or_else(|| self.file_of(table), |file| file.display().to_string());
        if key.is_empty() { format!("{file}: {table}") } else { format!("{file}: {table}|{key}") }
    }

    /// Ports and numbers of a key, as `Ethernet0,Ethernet4|3-4`. Keys of a VOQ chassis, `sw1|Asic0|Ethernet0|3-4`, have the ports of this
    /// line card and ASIC.
    pub(super) fn ports_and_numbers(&self, key: &str) -> Option<(Vec<String>, Vec<u8>)> {
        let (ports, numbers) = key.rsplit_once('|')?;
        let numbers = numbers_of(numbers)?;
        let Some((system, ports)) = ports.rsplit_once('|') else { return Some((names(ports), numbers)) };
        let (host, asic) = system.split_once('|')?;
        let is_own = |field, name: &str| {
            self.field("DEVICE_METADATA", "localhost", field).is_none_or(|own| own.eq_ignore_ascii_case(name))
        };
        let is_ours = is_own("hostname", host) && is_own("asic_name", asic);
        Some((if is_ours { names(ports) } else { Vec::new() }, numbers))
    }

    /// Checks that keys of a VOQ chassis are of one line card, or that the file says of which one it is.
    pub(super) fn check_system_ports(&self) -> Result<(), String> {
        let keys = ["QUEUE", "BUFFER_QUEUE"]
            .iter()
            .flat_map(|table| self.keys(table).into_iter().map(move |key| (table, key)));
        let mut first: Option<String> = None;
        for (table, key) in keys.filter(|(_, key)| key.matches('|').count() > 1) {
            let [host, asic, ..] = key.split('|').collect::<Vec<_>>()[..] else { continue };
            for (field, own) in [("hostname", host), ("asic_name", asic)] {
                let is_known = self.field("DEVICE_METADATA", "localhost", field).is_some();
                let of_first = first.get_or_insert_with(|| key.clone());
                if !is_known && !of_first.split('|').any(|part| part == own) {
                    return Err(format!(
                        "{}: {table}|{key} and {table}|{of_first} are of two line cards or ASICs; write this switch's into \
                         DEVICE_METADATA|localhost, {field} = \"{own}\"",
                        self.file_of(table)
                    ));
                }
            }
        }
        Ok(())
    }

    /// Records the meaning of a field's absence.
    pub(super) fn account_absent(&mut self, outcome: ImportOutcome, at: FieldPath<'_>, detail: impl Into<String>) {
        let FieldPath { table, key, field } = at;
        self.outcomes.insert((table.to_owned(), key.to_owned(), field.to_owned()), (outcome, detail.into()));
    }

    /// Records the outcome of a field. The last call wins.
    pub(super) fn account(&mut self, outcome: ImportOutcome, at: FieldPath<'_>, detail: impl Into<String>) {
        let FieldPath { table, key, field } = at;
        if self.field(table, key, field).is_some() {
            self.outcomes.insert((table.to_owned(), key.to_owned(), field.to_owned()), (outcome, detail.into()));
        }
    }

    /// Whether a field has an outcome.
    pub(super) fn is_accounted(&self, table: &str, key: &str, field: &str) -> bool {
        self.outcomes.contains_key(&(table.to_owned(), key.to_owned(), field.to_owned()))
    }

    /// Records the outcome for all fields of a table without one.
    pub(super) fn account_rest(&mut self, outcome: ImportOutcome, table: &str, detail: &str) {
        for key in self.keys(table) {
            for field in self.fields(table, &key).into_keys() {
                let at = (table.to_owned(), key.clone(), field);
                self.outcomes.entry(at).or_insert_with(|| (outcome, detail.to_owned()));
            }
        }
    }

    /// Names of the tables.
    pub(super) fn names(&self) -> Vec<String> {
        self.tables.keys().cloned().collect()
    }

    /// Number of values.
    #[cfg(test)]
    pub(super) fn values(&self) -> usize {
        self.tables.values().flat_map(|rows| rows.values()).map(BTreeMap::len).sum()
    }

    /// Outcomes of all values; a value without a record counts as refused.
    pub(super) fn mappings(&mut self) -> Vec<FieldMapping> {
        for table in self.names() {
            self.account_rest(ImportOutcome::Refused, &table, "Weir has nothing of this kind");
        }
        let mapping =
            |((table, key, field), (outcome, detail)): (&(String, String, String), &(ImportOutcome, String))| {
                FieldMapping {
                    table: table.clone(),
                    key: key.clone(),
                    field: field.clone(),
                    value: self.field(table, key, field).unwrap_or(ABSENT).to_owned(),
                    outcome: *outcome,
                    detail: detail.clone(),
                }
            };
        self.outcomes.iter().map(mapping).collect()
    }
}

/// The lookup table's rows, as a table.
pub(super) const LOOKUP: &str = "pg_profile_lookup.ini";

/// Key of a row of the lookup table.
pub(super) fn lookup_key(speed: impl std::fmt::Display, cable: &str) -> String {
    format!("{speed} {cable}")
}

/// `[BUFFER_PROFILE|egress_lossy_profile]`, as older files have it, or the name alone.
pub(super) fn reference(text: &str) -> &str {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    inner.rsplit('|').next().unwrap_or(inner)
}

/// Parses `Ethernet0,Ethernet4`.
pub(super) fn names(list: &str) -> Vec<String> {
    list.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

/// Parses `3-4`, `0,2`, or `5` into numbers.
pub(super) fn numbers_of(text: &str) -> Option<Vec<u8>> {
    let mut numbers = Vec::new();
    for part in text.split(',').filter(|part| !part.trim().is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (from.trim().parse::<u8>().ok()?, to.trim().parse::<u8>().ok()?);
        if from > to || to > 63 {
            return None;
        }
        numbers.extend(from..=to);
    }
    numbers.sort_unstable();
    numbers.dedup();
    Some(numbers)
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}
