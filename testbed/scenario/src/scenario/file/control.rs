//! Congestion control of flows and workloads, with its parameters.
//!
//! Values are found in the flow's own table of the kind, then in `[nic]`'s, then in the preset. They are kept as texts, for the value of
//! `line/1000` depends on the sender's line. Each is checked when the file is read, at its own line.

use std::collections::BTreeMap;

use weir_nic::host::CongestionControlChoice;
use weir_nic::host::congestion;
use weir_nic::parameters::{Network, WrongValue};
use weir_nic::tcp::{self, TcpConfig, TcpCongestionKind, TcpKeys};
use weir_reader::{Plugin as _, Problem, Table};
use weir_units::{BitRate, Span};

use super::keys::name_of;
use super::kinds::kinds;

/// Value as written in the file.
#[derive(Clone, Debug)]
struct RawValue {
    key: &'static str,
    text: String,
    /// Path of the key in the file.
    place: String,
}

/// Values of a table's subtables, by kind.
#[derive(Clone, Debug, Default)]
pub(super) struct KindTables(BTreeMap<&'static str, Vec<RawValue>>);

/// Choice of a congestion control, with parameters as text.
#[derive(Clone, Debug)]
pub(super) struct ControlChoice {
    /// Name of a kind or a preset.
    pub name: &'static str,
    given: Vec<RawValue>,
}

/// Placeholder for the network while a file is read.
const ANY: Network = Network { line: BitRate::gbps(100), base_rtt: Span::from_micros(10) };

impl KindTables {
    /// Reads a table's tables of kinds; `above` is the table's name in the reference: `nic`.
    pub(super) fn read(table: &Table<'_>, above: &str) -> KindTables {
        let mut tables = BTreeMap::new();
        for kind in kinds().filter(|kind| table.has(kind.id())) {
            let of_kind = table.table(kind.id(), name_of(above, kind.id()));
            let given =
                |key: &'static str| Some(RawValue { key, text: of_kind.text(key)?, place: of_kind.key_path(key) });
            tables.insert(kind.id(), kind.keys().iter().filter_map(|key| given(key.name())).collect());
        }
        KindTables(tables)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns these tables, with missing values taken from `others`.
    pub(super) fn with_defaults(&self, others: &KindTables) -> KindTables {
        let mut tables = self.0.clone();
        for (kind, given) in &others.0 {
            tables.entry(kind).or_default().extend(given.iter().cloned());
        }
        KindTables(tables)
    }

    /// Checks tables that nothing has chosen yet: a sweep may choose them.
    pub(super) fn check(&self, table: &Table<'_>) {
        for kind in congestion::kinds().filter(|kind| self.0.contains_key(kind.id())) {
            self.control(table, kind.id());
        }
        let has_connection = self.0.contains_key(TcpKeys.id());
        tcp::kinds().filter(|kind| has_connection || self.0.contains_key(kind.id())).for_each(|kind| {
            self.tcp(table, kind);
        });
    }

    /// Returns the congestion control of this name with these values; reports errors.
    pub(super) fn control(&self, table: &Table<'_>, name: &'static str) -> ControlChoice {
        let kind = congestion::find(name).map(|(kind, _)| kind.id());
        let choice = ControlChoice { name, given: kind.map_or_else(Vec::new, |kind| self.values(kind)) };
        match choice.in_network(ANY) {
            Ok(_) => choice,
            Err(wrong) => {
                refuse(table, &choice.given, wrong);
                ControlChoice { name, given: Vec::new() }
            }
        }
    }

    /// Returns TCP with these values; reports errors.
    pub(super) fn tcp(&self, table: &Table<'_>, kind: &'static dyn TcpCongestionKind) -> TcpConfig {
        let (connection, control) = (self.values(TcpKeys.id()), self.values(kind.id()));
        TcpConfig::parse(kind, &texts(&connection), &texts(&control)).unwrap_or_else(|wrong| {
            refuse(table, &connection, wrong.connection);
            refuse(table, &control, wrong.control);
            TcpConfig::parse(kind, &[], &[]).expect("defaults are good")
        })
    }

    /// Path in the file of a key that all of TCP has, if it is there.
    pub(super) fn place_of_tcp(&self, key: &str) -> Option<String> {
        let given = self.0.get(TcpKeys.id())?.iter().find(|given| given.key == key)?;
        Some(given.place.clone())
    }

    fn values(&self, kind: &str) -> Vec<RawValue> {
        self.0.get(kind).cloned().unwrap_or_default()
    }
}

impl ControlChoice {
    /// Whether there is no congestion control.
    pub(super) fn is_none(&self) -> bool {
        self.name == congestion::NONE
    }

    /// Returns the congestion control in this network.
    ///
    /// # Errors
    /// Values that are wrong in this network. Weir's own kinds have none after a check in another network.
    pub(super) fn in_network(&self, network: Network) -> Result<CongestionControlChoice, Vec<WrongValue>> {
        CongestionControlChoice::parse(self.name, &texts(&self.given), network)
    }

    /// Returns the congestion control in any network, for properties that do not depend on it.
    pub(super) fn anywhere(&self) -> CongestionControlChoice {
        self.in_network(ANY).unwrap_or_default()
    }

    /// Path of a key in the file, if it is there.
    pub(super) fn place_of(&self, key: &str) -> Option<&str> {
        self.given.iter().find(|given| given.key == key).map(|given| given.place.as_str())
    }
}

fn texts(given: &[RawValue]) -> Vec<(&str, &str)> {
    given.iter().map(|given| (given.key, given.text.as_str())).collect()
}

/// Reports wrong values at their lines, each once, even if many flows take it from one table.
fn refuse(table: &Table<'_>, given: &[RawValue], wrong: Vec<WrongValue>) {
    for WrongValue { key, message, help } in wrong {
        // Two clashing keys are reported at the one in the file.
        let place = given.iter().find(|given| given.key == key).or(given.first()).map(|given| given.place.as_str());
        let place = place.unwrap_or(table.path());
        if table.doc().sound(&[place]) {
            table.doc().refuse(Problem::new(format!("`{key}`: {message}"), help).with_label(place, ""));
        }
    }
}
