//! `[[slow_receivers]]`: hosts that receive data more slowly than their links deliver it.

use weir_reader::{Problem, Table};
use weir_units::{BitRate, Bytes, Time};

use super::host_names::HostNames;
use super::keys::others as keys;
use super::reading::{instant, require, time_range};
use super::topology::Topology;

#[derive(Clone, Debug)]
pub(super) struct SlowReceivers {
    /// Index among the tables of the file.
    pub number: usize,
    /// Indices of the hosts in the topology.
    pub hosts: Vec<u32>,
    pub rate: BitRate,
    pub buffer: Option<Bytes>,
    pub xoff: Option<Bytes>,
    pub xon: Option<Bytes>,
    pub from: Time,
    pub until: Time,
}

/// Reads the tables, and leaves out those with errors.
pub(super) fn read(root: &Table<'_>, topology: &Topology, end: Time) -> Vec<SlowReceivers> {
    let tables = root.tables("slow_receivers", "slow_receivers");
    let names = HostNames::new(root, topology);
    let mut all: Vec<SlowReceivers> = Vec::new();
    for (number, table) in tables.iter().enumerate() {
        let Some(slow) = one(table, number, &names, end) else { continue };
        let twice = all.iter().find_map(|earlier| {
            let host = slow.hosts.iter().find(|host| earlier.hosts.contains(host))?;
            Some((earlier, &topology.hosts[*host as usize].name))
        });
        if let Some((earlier, name)) = twice {
            let key = |table: &Table<'_>| table.key_path(if table.has("hosts") { "hosts" } else { "rate" });
            let problem = Problem::new(format!("host {name} is in two of [[slow_receivers]]"), "name each host in one")
                .with_label(key(table), "again")
                .with_label(key(&tables[earlier.number]), "first here");
            table.doc().note(problem);
        }
        all.push(slow);
    }
    all
}

fn one(table: &Table<'_>, number: usize, names: &HostNames<'_>, end: Time) -> Option<SlowReceivers> {
    require(table, "rate", "a slow receiver", "rate = \"40Gbps\"");
    let rate = table.given(&keys::RATE);
    let hosts = names.listed(table, "hosts");
    let (buffer, xoff, xon) = (table.given(&keys::BUFFER), table.given(&keys::XOFF), table.given(&keys::XON));
    check_order(table, "xon", xon, "xoff", xoff);
    check_order(table, "xoff", xoff, "buffer", buffer);
    if xoff.is_none() {
        check_order(table, "xon", xon, "buffer", buffer);
    }
    let time = match table.has("until") {
        true => time_range(table, ["from", "until"], Time::ZERO..end, end),
        false => Some((instant(table, "from", Time::ZERO, end), Time::NEVER)),
    };
    let (from, until) = time.filter(|_| table.doc().sound(&[table.path()]))?;
    Some(SlowReceivers { number, hosts: hosts?, rate: rate?, buffer, xoff, xon, from, until })
}

/// Checks that the first is less than the second, if both are given.
fn check_order(table: &Table<'_>, low_key: &str, low: Option<Bytes>, high_key: &str, high: Option<Bytes>) {
    let (Some(low), Some(high)) = (low, high) else { return };
    if low >= high {
        let message = format!("`{low_key}` {low} must be less than `{high_key}` {high}");
        let problem = Problem::new(message, format!("write a smaller `{low_key}` or a larger `{high_key}`"));
        table.doc().refuse(
            problem.with_label(table.key_path(low_key), "").with_label(table.key_path(high_key), "the larger one"),
        );
    }
}
