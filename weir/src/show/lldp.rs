//! Neighbours by LLDP, as SONiC's `show lldp table` and `show lldp neighbors`, with their PFC configuration.

use weir_control::state::{LldpNeighbour, LldpPort, PfcComparison};
use weir_experiments::table::Table;

use super::tables::NOT_KNOWN;

/// SONiC's `show lldp table`. The last two columns are Weir's.
pub(super) fn table_text(ports: &[LldpPort]) -> String {
    let mut table =
        Table::new(["LocalPort", "RemoteDevice", "RemotePortID", "Capability", "RemotePortDescr", "PFC", "Local PFC"]);
    let mut entries = 0;
    for port in ports {
        for neighbour in &port.neighbours {
            entries += 1;
            table.row([
                port.port.clone(),
                neighbour.system_name.clone().unwrap_or_else(|| neighbour.chassis_id.clone()),
                neighbour.port_id.clone(),
                capabilities(neighbour).map(|(code, _)| code).collect(),
                neighbour.port_description.clone().unwrap_or_default(),
                neighbour.pfc.as_deref().map_or(NOT_KNOWN.to_owned(), classes),
                format!("{}, {}", classes(&port.pfc), comparison(neighbour)),
            ]);
        }
    }
    format!(
        "Capability codes: (R) Router, (B) Bridge, (O) Other\n{table}{}\nTotal entries displayed:  {entries}\n",
        "-".repeat(50)
    )
}

/// SONiC's `show lldp neighbors`, in the form of lldpd.
pub(super) fn neighbours_text(ports: &[LldpPort]) -> String {
    let rule = "-".repeat(79);
    let mut text = format!("{rule}\nLLDP neighbors:\n{rule}\n");
    for port in ports {
        for (number, neighbour) in (1..).zip(&port.neighbours) {
            text += &neighbour_text(port, number, neighbour);
            text += &format!("{rule}\n");
        }
    }
    text
}

fn neighbour_text(port: &LldpPort, number: usize, neighbour: &LldpNeighbour) -> String {
    let seconds = neighbour.known_for_s;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    let mut lines = vec![
        format!(
            "Interface:    {}, via: LLDP, RID: {number}, Time: {days} day, {hours:02}:{minutes:02}:{:02}",
            port.port,
            seconds % 60
        ),
        "  Chassis:".to_owned(),
        format!("    ChassisID:    {}", neighbour.chassis_id),
    ];
    let optional = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("    {name:<13} {value}"));
    lines.extend(optional("SysName:", &neighbour.system_name));
    lines.extend(optional("SysDescr:", &neighbour.system_description));
    lines.extend(capabilities(neighbour).map(|(_, name)| format!("    Capability:   {name}, on")));
    lines.extend(["  Port:".to_owned(), format!("    PortID:       {}", neighbour.port_id)]);
    lines.extend(optional("PortDescr:", &neighbour.port_description));
    lines.push(format!("    TTL:          {}", neighbour.ttl));
    if let Some(pfc) = &neighbour.pfc {
        let willing = if neighbour.pfc_willing { "yes" } else { "no" };
        lines.extend([
            "  DCBX:".to_owned(),
            format!("    PFC:          {}, willing: {willing}", classes(pfc)),
            format!("    Local PFC:    {}, {}", classes(&port.pfc), comparison(neighbour)),
        ]);
    }
    if let Some(percent) = neighbour.ets_percent {
        lines.push(format!("    ETS:          {}", percent.map(|share| format!("{share}%")).join(" ")));
    }
    lines.extend(neighbour.rocev2_class.map(|class| format!("    RoCEv2:       {class}")));
    lines.join("\n") + "\n"
}

/// Enabled capabilities: SONiC's code, and lldpd's name.
fn capabilities(neighbour: &LldpNeighbour) -> impl Iterator<Item = (&'static str, &'static str)> {
    let enabled = neighbour.capabilities;
    let known = [
        (0, "O", "Other"),
        (1, "O", "Repeater"),
        (2, "B", "Bridge"),
        (3, "O", "Wlan"),
        (4, "R", "Router"),
        (5, "O", "Tel"),
        (6, "O", "Docsis"),
        (7, "O", "Station"),
    ];
    known.into_iter().filter(move |(bit, ..)| enabled >> bit & 1 != 0).map(|(_, code, name)| (code, name))
}

fn classes(classes: &[usize]) -> String {
    if classes.is_empty() {
        "none".to_owned()
    } else {
        classes.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
    }
}

fn comparison(neighbour: &LldpNeighbour) -> &'static str {
    match neighbour.pfc_comparison {
        PfcComparison::Unknown => "unknown",
        PfcComparison::Equal => "equal",
        PfcComparison::Willing => "to be adopted",
        PfcComparison::Mismatch => "MISMATCH",
    }
}
