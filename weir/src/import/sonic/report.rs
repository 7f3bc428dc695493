//! Report on each of SONiC's values; values with the same outcome share a line.

use std::collections::BTreeMap;

use weir_experiments::table::Table;

/// Outcome of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// The file has the same setting.
    Taken,
    /// The file has a similar setting.
    Approximated,
    /// The file has no such setting.
    Refused,
}

impl Outcome {
    pub(super) fn name(self) -> &'static str {
        match self {
            Outcome::Taken => "taken",
            Outcome::Approximated => "approximated",
            Outcome::Refused => "refused",
        }
    }
}

/// Value with its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) table: String,
    pub(super) key: String,
    pub(super) field: String,
    pub(super) value: String,
    pub(super) outcome: Outcome,
    pub(super) said: String,
}

/// Values with the same outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) outcome: Outcome,
    /// `BUFFER_POOL size = 12766208 (ingress_lossless_pool)`.
    pub(super) values: String,
    pub(super) said: String,
}

/// Lines of the report, with values grouped.
pub(super) fn lines(accounts: &[Account]) -> Vec<Line> {
    let mut groups: Vec<Group> = accounts.iter().map(Group::of).collect();
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
    groups.into_iter().map(Group::line).collect()
}

/// The lines as a table.
pub(super) fn told(accounts: &[Account]) -> String {
    let mut table = Table::new(["Outcome", "Value", "What became of it"]).with_text_last();
    for line in lines(accounts) {
        table.row([line.outcome.name().to_owned(), line.values, line.said]);
    }
    table.to_string()
}

/// Values of a table with one outcome and one sentence.
struct Group {
    outcome: Outcome,
    said: String,
    table: String,
    fields: Vec<String>,
    values: Vec<String>,
    keys: Vec<String>,
}

impl Group {
    fn of(account: &Account) -> Group {
        Group {
            outcome: account.outcome,
            said: account.said.clone(),
            table: account.table.clone(),
            fields: vec![account.field.clone()],
            values: vec![account.value.clone()],
            keys: vec![account.key.clone()],
        }
    }

    /// Returns the values to compare groups by; empty if each value equals its field's name.
    fn shape(&self) -> Vec<String> {
        if self.fields == self.values { Vec::new() } else { self.values.clone() }
    }

    fn line(self) -> Line {
        let Group { outcome, said, table, fields, values, keys } = self;
        let are_names = fields.len() > 1 && fields == values;
        let fields = listed(fields, "fields");
        let values = if are_names { "itself".to_owned() } else { listed(values, "values") };
        Line { outcome, values: format!("{table} {fields} = {values} ({})", listed(keys, "keys")), said }
    }
}

/// Joins groups of one table and sentence with equal keys, in their order, from `least` groups on.
fn merged<K: Ord>(
    groups: Vec<Group>,
    least: usize,
    key: impl Fn(&Group) -> K,
    join: impl Fn(&mut Group, Group),
) -> Vec<Group> {
    let of = |group: &Group| (group.outcome, group.table.clone(), group.said.clone(), key(group));
    let mut counts = BTreeMap::new();
    groups.iter().for_each(|group| *counts.entry(of(group)).or_insert(0) += 1);
    let mut places = BTreeMap::new();
    let mut joined: Vec<Group> = Vec::new();
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
    let told = runs.map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run[0].to_string(),
    });
    told.collect::<Vec<_>>().join(", ")
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
