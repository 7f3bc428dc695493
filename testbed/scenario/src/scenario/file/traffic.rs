//! `[[flows]]`.

use weir_nic::host::Repeat;
use weir_reader::{Problem, Table};
use weir_units::{BitRate, Bytes, Class, Time};

use super::host_backend;
use super::keys::flow;
use super::nic::{Nic, TransportConfig};
use super::reading::{name, named, position, refuse_duplicates, refuse_unnamed, require, time_range};
use super::topology::Topology;
use crate::scenario::FlowTool;

/// Flow of the file; its DSCP depends on the switches' maps.
#[derive(Debug)]
pub(super) struct FlowPart {
    /// Index among the flows of the file.
    pub number: usize,
    pub name: String,
    /// Index of the sending host in the topology; `to` is the receiving one.
    pub from: usize,
    pub to: usize,
    /// Switches of the flow's path, if the file names them.
    pub path: Option<Vec<usize>>,
    pub class: Class,
    pub start: Time,
    pub stop: Time,
    pub message: Bytes,
    pub repeat: Repeat,
    pub rate: Option<BitRate>,
    pub total: Option<Bytes>,
    pub transport: TransportConfig,
    /// Tool that sends the flow, if its hosts are real.
    pub tool: FlowTool,
}

/// Reads the flows, and leaves out those with errors.
pub(super) fn read(root: &Table<'_>, topology: &Topology, nic: &Nic, end: Time) -> Vec<FlowPart> {
    let tables = root.tables("flows", "flows");
    let mut flows = Vec::new();
    let mut names = Vec::new();
    for (number, table) in tables.iter().enumerate() {
        let name = match table.has("name") {
            true => name(table, "a flow", "F1"),
            false => Some(format!("F{}", number + 1)),
        };
        names.push(name.clone());
        flows.extend(read_flow(table, number, name, topology, nic, end));
    }
    refuse_duplicates(&tables, "flows", names.iter().map(Option::as_deref));
    flows
}

fn read_flow(
    table: &Table<'_>,
    number: usize,
    name: Option<String>,
    topology: &Topology,
    nic: &Nic,
    end: Time,
) -> Option<FlowPart> {
    let doc = table.doc();
    let hosts = topology.host_names();
    let ends = ["from", "to"].map(|key| {
        require(table, key, "a flow", &format!("{key} = \"{}\"", hosts.first().unwrap_or(&"H1")));
        // A host with errors is missing, and was reported.
        if doc.sound(&["hosts", "topology"]) { named(table, key, "host", &hosts) } else { None }
    });
    if let [Some(from), Some(to)] = ends
        && from == to
    {
        let problem = Problem::new("a flow goes to another host", "write another host in `from` or `to`");
        doc.refuse(problem.with_label(table.key_path("to"), "").with_label(table.key_path("from"), "from here"));
    }
    require(table, "class", "a flow", "class = 3");
    let class = table.given(&flow::CLASS);
    let stretch = time_range(table, ["start", "stop"], Time::ZERO..end, end);
    let message = table.get(&flow::MESSAGE);
    let every = table.given(&flow::EVERY);
    let rate = table.given(&flow::RATE);
    let total = table.given(&flow::TOTAL);
    let transport = TransportConfig::of_flow(table, nic);
    let tool = host_backend::of_flow(table);
    let path = path(table, topology);
    let ((start, stop), [from, to]) = (stretch?, ends);
    Some(FlowPart {
        number,
        name: name?,
        from: from?,
        to: to.filter(|to| Some(*to) != from)?,
        path,
        class: Class::new(class?),
        start,
        stop,
        message,
        repeat: every.map_or(Repeat::BackToBack, Repeat::Every),
        rate,
        total,
        transport,
        tool,
    })
}

/// Reads the switches of `path`. The forwarding checks that they are joined.
fn path(table: &Table<'_>, topology: &Topology) -> Option<Vec<usize>> {
    if !table.doc().sound(&["topology"]) {
        return None;
    }
    let switches = topology.switch_names();
    let mut path = Vec::new();
    for (n, name) in table.strings("path", "\"S1\", \"S2\"")?.into_iter().enumerate() {
        let key = format!("path[{n}]");
        let Some(switch) = position(name, &switches) else {
            refuse_unnamed(table, &key, name, "switch", &switches);
            continue;
        };
        if path.contains(&switch) {
            table.refuse(&key, format!("the path comes to {name} twice"), "name each switch once");
        }
        path.push(switch);
    }
    table.doc().sound(&[&table.key_path("path")]).then_some(path)
}
