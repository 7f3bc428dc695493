//! Names of hosts in several tables.

use std::collections::BTreeMap;

use weir_reader::{Problem, Table};

use super::reading::refuse_unnamed;
use super::topology::Topology;

/// Maximum number of names that an error lists.
const LISTED: usize = 16;

/// Hosts by name, with their indices in the topology.
pub(super) struct HostNames<'t> {
    pub by_name: BTreeMap<&'t str, u32>,
    /// Whether all hosts are known. A host with errors is missing, and was reported.
    pub are_known: bool,
}

impl<'t> HostNames<'t> {
    pub(super) fn new(root: &Table<'_>, topology: &'t Topology) -> HostNames<'t> {
        HostNames {
            by_name: topology.host_names().into_iter().zip(0..).collect(),
            are_known: root.doc().sound(&["topology", "hosts"]),
        }
    }

    /// Returns the hosts that a key lists, or all if the key is missing; `None` after errors.
    pub(super) fn listed(&self, table: &Table<'_>, key: &str) -> Option<Vec<u32>> {
        if !table.has(key) {
            return self.are_known.then(|| (0..self.by_name.len() as u32).collect());
        }
        let names = table.strings(key, "\"H1\", \"H2\"")?;
        if !self.are_known {
            return None;
        }
        if names.is_empty() {
            table.refuse(key, "the list is empty", "name one at least, or take it out for all hosts");
            return None;
        }
        let mut first: BTreeMap<u32, usize> = BTreeMap::new();
        let mut hosts = Vec::new();
        for (n, name) in names.iter().enumerate() {
            let own = format!("{key}[{n}]");
            let Some(host) = self.by_name.get(name).copied() else {
                let mut known: Vec<&str> = self.by_name.keys().copied().collect();
                known.truncate(LISTED);
                refuse_unnamed(table, &own, name, "host", &known);
                continue;
            };
            if let Some(first) = first.insert(host, n) {
                let problem = Problem::new(format!("`{key}` has {name} twice"), "name each host once");
                let again = problem.with_label(table.key_path(&own), "again");
                table.doc().refuse(again.with_label(table.key_path(&format!("{key}[{first}]")), "first here"));
            }
            hosts.push(host);
        }
        table.doc().sound(&[&table.key_path(key)]).then_some(hosts)
    }
}
