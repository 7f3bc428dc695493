//! `backend` of `[[hosts]]`, and the keys of `[[flows]]` that only real hosts use.

use weir_reader::{Problem, Table};

use super::keys::{flow as flow_keys, names, nodes};
use crate::scenario::{FlowTool, HostBackend, PerfTest, RealHost};

/// Kinds of access, with their keys.
const ACCESS_KINDS: [(&str, &[&str]); 3] =
    [("vm", &["memory", "queues", "nic"]), ("netns", &["nic"]), ("ssh", &["to", "interface", "rdma", "ip"])];

/// Reads the access to a real host; `None` for a host that all backends emulate.
pub(super) fn of_host(host: &Table<'_>) -> Option<RealHost> {
    if !host.has("backend") {
        return None;
    }
    let (table, is_table) = host.table_or_word("backend", "hosts.backend");
    let (table, key) = if is_table { (&table, "by") } else { (host, "backend") };
    if is_table && !table.has(key) {
        let problem = Problem::new("`backend` needs `by`", "write backend = { by = \"vm\" }, \"netns\" or \"ssh\"");
        table.doc().refuse(problem.with_label(table.path(), ""));
    }
    let kind = table.choice(key, &[("vm", 0), ("netns", 1), ("ssh", 2)])?;
    if is_table {
        let (name, keys) = ACCESS_KINDS[kind];
        for other in table.entries().filter(|other| {
            names(nodes::BACKEND_KEYS).any(|key| key == *other) && *other != "by" && !keys.contains(other)
        }) {
            let help = format!("take it out; there is: {}", keys.join(", "));
            let message = format!("a host that is reached by \"{name}\" has no `{other}`");
            table.doc().note(Problem::new(message, help).with_key_label(table.key_path(other), ""));
        }
    }
    // Keys of the host are not keys of this table.
    let given = is_table.then_some(table);
    let backend = match kind {
        0 => HostBackend::Vm {
            memory_mb: given.map_or_else(|| nodes::MEMORY.value(), |table| table.get(&nodes::MEMORY)).get() / 1_000_000,
            queues: given.map_or_else(|| nodes::QUEUES.value(), |table| table.get(&nodes::QUEUES)),
        },
        1 => HostBackend::Netns,
        _ => ssh(host, given)?,
    };
    let has_own = matches!(backend, HostBackend::Ssh { .. });
    let has_nic_model = !has_own && given.map_or_else(|| nodes::NIC.value(), |table| table.get(&nodes::NIC));
    Some(RealHost { backend, has_nic_model })
}

fn ssh(host: &Table<'_>, given: Option<&Table<'_>>) -> Option<HostBackend> {
    let example = "backend = { by = \"ssh\", to = \"root@server1\", interface = \"ens1np0\" }";
    let complete = given.filter(|table| table.has("to") && table.has("interface"));
    let Some(table) = complete else {
        let problem =
            Problem::new("a host that is reached by \"ssh\" needs `to` and `interface`", format!("write {example}"));
        host.doc().refuse(problem.with_label(host.key_path("backend"), ""));
        return None;
    };
    if !host.has("port_device") {
        let help = "write port_device = { pci = \"0000:81:00.0\" }, the switch's end of the host's cable";
        let problem = Problem::new("a host that is reached by \"ssh\" is on a cable", help);
        host.doc().refuse(problem.with_label(host.key_path("backend"), ""));
    }
    // The words become arguments of programs.
    let word = |key: &str, example: &str| {
        let text = table.string(key, example)?;
        let is_good = !text.starts_with('-')
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-@:%[]".contains(c))
            && !text.is_empty();
        if !is_good {
            table.refuse(key, format!("\"{text}\" can't be used"), format!("write for example {key} = \"{example}\""));
        }
        is_good.then(|| text.to_owned())
    };
    let ip = table.string("ip", "192.168.1.10").and_then(|text| {
        let parsed = text.parse().ok();
        if parsed.is_none() {
            table.refuse("ip", format!("\"{text}\" is no IPv4 address"), "write for example ip = \"192.168.1.10\"");
        }
        parsed
    });
    Some(HostBackend::Ssh {
        target: word("to", "root@server1")?,
        interface: word("interface", "ens1np0")?,
        rdma: word("rdma", "mlx5_0"),
        ip,
    })
}

/// Reads the tool of a flow between real hosts.
pub(super) fn of_flow(flow: &Table<'_>) -> FlowTool {
    let test = flow.get(&flow_keys::PERFTEST);
    let queue_pairs = flow.get(&flow_keys::QPS);
    let receive_depth = flow.given(&flow_keys::RECEIVE_DEPTH);
    if receive_depth.is_some() && test != PerfTest::SendBw {
        let help = "take it out, or write perftest = \"ib_send_bw\"";
        flow.refuse("receive_depth", format!("{} has no buffers for messages", test.name()), help);
    }
    FlowTool { test, queue_pairs, receive_depth }
}
