//! Report on each of SONiC's values; values with the same outcome share a line.

use std::collections::BTreeMap;

use weir_experiments::table::Table;

/// Outcome of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ImportOutcome {
    /// The file has the same setting.
    Taken,
    /// The file has a similar setting.
    Approximated,
    /// The file has no such setting.
    Refused,
}

impl ImportOutcome {
    pub(super) fn name(self) -> &'static str {
        match self {
            ImportOutcome::Taken => "taken",
            ImportOutcome::Approximated => "approximated",
            ImportOutcome::Refused => "refused",
        }
    }
}

/// Value with its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldMapping {
    pub(super) table: String,
    pub(super) key: String,
    pub(super) field: String,
    pub(super) value: String,
    pub(super) outcome: ImportOutcome,
    pub(super) detail: String,
}

/// Values with the same outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReportLine {
    pub(super) outcome: ImportOutcome,
    /// `BUFFER_POOL size = 12766208 (ingress_lossless_pool)`.
    pub(super) values: String,
    pub(super) detail: String,
}

/// Lines of the report, with values grouped.
pub(super) fn lines(mappings: &[FieldMapping]) -> Vec<ReportLine> {
    let mut groups: Vec<MappingGroup> = mappings.iter().map(MappingGroup::from_mapping).collect();
    // Merges equal values of several keys, then of several fields, then several values of a field.
    groups = merged(groups, 1, |of| (of.fields.clone(), of.values.clone()), |into, of| into.keys.extend(of.keys));
    groups = merged(
        groups,
        1,
        |of| (of.keys.clone(), of.shape()),
        |into, of| {
            into.fields.extend(of.fields);
            into.values.extend(of.values);
        },
    );
    groups = merged(
        groups,
        FEW,
        |of| of.fields.clone(),
        |into, of| {
            into.keys.extend(of.keys);
            into.values.extend(of.values);
        },
    );
    groups.sort_by_key(|group| group.outcome);
    groups.into_iter().map(MappingGroup::line).collect()
}

/// The lines as a table.
pub(super) fn report_text(mappings: &[FieldMapping]) -> String {
    let mut table = Table::new(["Outcome", "Value", "What became of it"]).with_text_last();
    for line in lines(mappings) {
        table.row([line.outcome.name().to_owned(), line.values, line.detail]);
    }
    table.to_string()
}

/// Values of a table with one outcome and one sentence.
struct MappingGroup {
    outcome: ImportOutcome,
    detail: String,
    table: String,
    fields: Vec<String>,
    values: Vec<String>,
    keys: Vec<String>,
}

impl MappingGroup {
    fn from_mapping(mapping: &FieldMapping) -> MappingGroup {
        MappingGroup {
            outcome: mapping.outcome,
            detail: mapping.detail.clone(),
            table: mapping.table.clone(),
            fields: vec![mapping.field.clone()],
            values: vec![mapping.value.clone()],
            keys: vec![mapping.key.clone()],
        }
    }

    /// Returns the values to compare groups by; empty if each value equals its field's name.
    fn shape(&self) -> Vec<String> {
        if self.fields == self.values { Vec::new() } else { self.values.clone() }
    }

    fn line(self) -> ReportLine {
        let MappingGroup { outcome, detail, table, fields, values, keys } = self;
        let are_names = fields.len() > 1 && fields == values;
        let fields = listed(fields, "fields");
        let values = if are_names { "itself".to_owned() } else { listed(values, "values") };
        let keys = listed(keys, "keys");
        let [space, fields] = [if fields.is_empty() { "" } else { " " }, &fields];
        let keys = if keys.is_empty() { keys } else { format!(" ({keys})") };
        let values = format!("{table}{space}{fields} = {values}{keys}");
        ReportLine { outcome, values: in_a_line(&values), detail: in_a_line(&detail) }
    }
}

/// Escapes line breaks and other control characters, which would end a comment of the switch file.
fn in_a_line(text: &str) -> String {
    let escaped =
        |letter: char| if letter.is_control() { letter.escape_default().to_string() } else { letter.to_string() };
    text.chars().map(escaped).collect()
}

/// Joins groups of one table and sentence with equal keys, in their order, from `least` groups on.
fn merged<K: Ord>(
    groups: Vec<MappingGroup>,
    least: usize,
    key: impl Fn(&MappingGroup) -> K,
    join: impl Fn(&mut MappingGroup, MappingGroup),
) -> Vec<MappingGroup> {
    let of = |group: &MappingGroup| (group.outcome, group.table.clone(), group.detail.clone(), key(group));
    let mut counts = BTreeMap::new();
    groups.iter().for_each(|group| *counts.entry(of(group)).or_insert(0) += 1);
    let mut places = BTreeMap::new();
    let mut joined: Vec<MappingGroup> = Vec::new();
    for group in groups {
        let alike = of(&group);
        if counts[&alike] < least {
            joined.push(group);
            continue;
        }
        let place = *places.entry(alike).or_insert(joined.len());
        match joined.get_mut(place) {
            Some(into) => join(into, group),
            None => joined.push(group),
        }
    }
    joined
}

/// Least values of a field that share a line; fewer have a line each, which shows their keys.
const FEW: usize = 4;

/// Abbreviates a list of names: numbers as ranges, others as the first, the last and their number.
fn listed(mut names: Vec<String>, what: &str) -> String {
    names.sort_by_key(|name| natural(name));
    names.dedup();
    let numbers: Option<Vec<u64>> = names.iter().map(|name| name.parse().ok()).collect();
    match (&names[..], numbers) {
        (_, Some(numbers)) if what == "fields" => ranges(&numbers),
        ([], _) | ([_], _) => names.concat(),
        ([first, second], _) => format!("{first}, {second}"),
        ([first, .., last], _) => format!("{first} to {last}, {} {what}", names.len()),
    }
}

/// Formats numbers as ranges: `0-2, 6, 9-45`.
fn ranges(numbers: &[u64]) -> String {
    let runs = numbers.chunk_by(|one, next| one + 1 == *next);
    let texts = runs.map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run[0].to_string(),
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// Text and numbers by turns, so that Ethernet4 comes before Ethernet12.
pub(super) fn natural(key: &str) -> Vec<(String, u64)> {
    let is_digit = |letter: char| letter.is_ascii_digit();
    let mut parts = Vec::new();
    let mut rest = key;
    while !rest.is_empty() {
        let (text, after) = rest.split_at(rest.find(is_digit).unwrap_or(rest.len()));
        let (digits, after) = after.split_at(after.find(|letter| !is_digit(letter)).unwrap_or(after.len()));
        parts.push((text.to_owned(), digits.parse().unwrap_or(0)));
        rest = after;
    }
    parts
}
