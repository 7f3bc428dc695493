//! Maps of PORT_QOS_MAP: of frames to traffic classes, and of those to queues and priority groups.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::most_common;
use super::port::Port;
use super::report::ImportOutcome;
use super::tables::{ConfigDb, FieldPath, names, reference};

pub(super) const PORT_QOS_MAP: &str = "PORT_QOS_MAP";
const DSCP: &str = "DSCP_TO_TC_MAP";
const PCP: &str = "DOT1P_TO_TC_MAP";
const QUEUE: &str = "TC_TO_QUEUE_MAP";
const GROUP: &str = "TC_TO_PRIORITY_GROUP_MAP";
/// Number of traffic classes in SAI. SONiC has some beyond the 8 queues, as for DSCP 33 with PCBB.
const CLASSES: usize = 16;
const WITHIN: &str = "a class is here traffic class, priority group and queue in one";

/// Maps of received frames to classes: one for most ports, and own ones.
#[derive(Debug, Default)]
pub(super) struct PortMaps {
    /// Map of most ports.
    common: Option<FrameMap>,
    /// Keys of ports with another map, or with a class of their own for frames without the trusted field, by the port's name in SONiC.
    own: BTreeMap<String, String>,
}

/// Map of received frames to classes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FrameMap {
    dscp: [u8; 64],
    /// Class of each PCP, where a map is given.
    pcp: Option<[u8; 8]>,
    /// Whether classes come from the PCP.
    trusts_pcp: bool,
}

impl FrameMap {
    /// Trusted field, with its key and classes.
    fn field(&self) -> (&'static str, &[u8]) {
        match &self.pcp {
            Some(pcp) if self.trusts_pcp => ("pcp", pcp),
            _ => ("dscp", &self.dscp),
        }
    }

    /// Returns the keys of a port with this map in a switch with another one; empty if the trusted fields have equal classes.
    fn port_keys(&self, common: &FrameMap) -> String {
        let ((field, classes), (other, _)) = (self.field(), common.field());
        let pcp = common.pcp.unwrap_or(IDENTITY);
        let of_switch = if field == "pcp" { &pcp[..] } else { &common.dscp[..] };
        let mut text = if field == other { String::new() } else { format!("trust = \"{field}\"\n") };
        let entries: Vec<String> = runs(classes)
            .into_iter()
            .filter(|(first, last, _)| classes[*first..=*last] != of_switch[*first..=*last])
            .map(entry)
            .collect();
        if !entries.is_empty() {
            let _ = writeln!(text, "{field} = {{ {} }}", entries.join(", "));
        }
        text
    }
}

impl PortMaps {
    /// Reads the maps of ports. `lossless` are the lossless classes of each; `by_command`: they are of the command line, for want of a
    /// PORT_QOS_MAP.
    pub(super) fn from_tables(
        tables: &mut ConfigDb,
        ports: &[Port],
        lossless: &BTreeMap<String, Vec<u8>>,
        by_command: bool,
    ) -> Result<PortMaps, String> {
        let maps_of = |tables: &mut ConfigDb, field, table| maps_of_ports(tables, ports, by_command, field, table);
        let dscp_maps = maps_of(tables, "dscp_to_tc_map", DSCP)?;
        let pcp_maps = maps_of(tables, "dot1p_to_tc_map", PCP)?;
        let queue_maps = maps_of(tables, "tc_to_queue_map", QUEUE)?;
        let queues: Vec<[u8; CLASSES]> = queue_maps.iter().map(|map| queue_of(tables, map.as_deref())).collect();
        account_queue_maps(tables, ports, &queues);
        let group_maps = maps_of(tables, "tc_to_pg_map", GROUP)?;
        let own = |port: &Port| lossless.get(&port.sonic_name).map_or(&[][..], Vec::as_slice);
        for ((port, map), queue_of) in ports.iter().zip(&group_maps).zip(&queues) {
            read_groups(tables, port, map.as_deref(), own(port), queue_of)?;
        }
        for (field, table) in
            [("pfc_to_queue_map", "MAP_PFC_PRIORITY_TO_QUEUE"), ("pfc_to_pg_map", "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP")]
        {
            for (port, map) in ports.iter().zip(maps_of(tables, field, table)?) {
                check_identity(tables, table, map.as_deref(), own(port))?;
            }
        }
        let read: Vec<FrameMap> = dscp_maps
            .iter()
            .zip(&pcp_maps)
            .zip(&queues)
            .map(|((dscp, pcp), queue_of)| frame_map(tables, dscp.as_deref(), pcp.as_deref(), queue_of))
            .collect::<Result<_, _>>()?;
        let mut up: Vec<&FrameMap> =
            ports.iter().zip(&read).filter(|(port, _)| !port.is_down).map(|(_, map)| map).collect();
        if up.is_empty() {
            up = read.iter().collect();
        }
        let common = most_common(up.into_iter().cloned());
        let keys = ports.iter().zip(&read).zip(&queues).map(|((port, map), queue_of)| {
            let priority = if queue_of[0] == 0 { String::new() } else { format!("priority = {}\n", queue_of[0]) };
            (port.sonic_name.clone(), priority + &map.port_keys(&common))
        });
        let own = keys.filter(|(_, keys)| !keys.is_empty()).collect();
        Ok(PortMaps { common: Some(common), own })
    }

    /// Keys of a port: its own map, and the class of frames without the trusted field.
    pub(super) fn port_keys(&self, port: &str) -> &str {
        self.own.get(port).map_or("", String::as_str)
    }

    /// Formats `trust`, `[classes.dscp]` and `[classes.pcp]`.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let Some(common) = &self.common else { return text };
        if common.trusts_pcp {
            text += "trust = \"pcp\"\n";
        }
        let maps = [("dscp", Some(&common.dscp[..])), ("pcp", common.pcp.as_ref().map(|map| &map[..]))];
        for (field, map) in maps.into_iter().filter_map(|(field, map)| Some((field, map?))) {
            let _ = writeln!(text, "\n[classes.{field}]");
            runs(map).into_iter().for_each(|run| text += &(entry(run) + "\n"));
        }
        text
    }
}

const IDENTITY: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

/// Splits classes by code point into runs of one class: first and last code point, and the class.
fn runs(classes: &[u8]) -> Vec<(usize, usize, u8)> {
    let mut first = 0;
    let run = |run: &[u8]| {
        let last = first + run.len() - 1;
        (std::mem::replace(&mut first, last + 1), last, run[0])
    };
    classes.chunk_by(|one, next| one == next).map(run).collect()
}

/// Formats a run of code points as a key.
fn entry((first, last, class): (usize, usize, u8)) -> String {
    if first == last { format!("{first} = {class}") } else { format!("\"{first}-{last}\" = {class}") }
}

/// Returns the map of each port: its own, or the one of `global`.
///
/// # Errors
/// A name without a map.
fn maps_of_ports(
    tables: &mut ConfigDb,
    ports: &[Port],
    by_command: bool,
    field: &str,
    table: &str,
) -> Result<Vec<Option<String>>, String> {
    let keys = tables.keys(PORT_QOS_MAP);
    let named = |key: &String| Some((key.clone(), reference(tables.field(PORT_QOS_MAP, key, field)?).to_owned()));
    let all: Vec<(String, String)> = keys.iter().filter_map(named).filter(|(_, name)| !name.is_empty()).collect();
    let key_of = |port: &Port| {
        let own = all.iter().find(|(key, _)| names(key).contains(&port.sonic_name));
        own.or_else(|| all.iter().find(|(key, _)| key == "global"))
    };
    let of_ports: Vec<Option<&(String, String)>> = ports.iter().map(key_of).collect();
    let known = tables.keys(table);
    for of in &all {
        let (key, name) = of;
        let at = FieldPath::new(PORT_QOS_MAP, key, field);
        let is_used = of_ports.contains(&Some(of));
        if (is_used || key == "global") && !known.contains(name) {
            let place = tables.place(PORT_QOS_MAP, key);
            return Err(format!("{place}: {field} = \"{name}\", and there is no {table}|{name}; add it"));
        }
        let (outcome, detail) = match is_used {
            true => (ImportOutcome::Taken, "the map of its ports"),
            false => (ImportOutcome::Refused, "no imported port has this map"),
        };
        tables.account(outcome, at, detail);
    }
    let mut maps: Vec<Option<String>> = of_ports.iter().map(|of| of.map(|(_, name)| name.clone())).collect();
    // Without PORT_QOS_MAP, the only map of a table is meant.
    if let ([only], true, true) = (&known[..], by_command, maps.iter().all(Option::is_none)) {
        maps.fill(Some(only.clone()));
    }
    for map in known.iter().filter(|map| !maps.contains(&Some((*map).clone()))) {
        for field in tables.fields(table, map).into_keys() {
            let at = FieldPath::new(table, map, &field);
            tables.account(ImportOutcome::Refused, at, "no imported port has this map");
        }
    }
    Ok(maps)
}

/// Returns the queues of traffic classes, which become classes.
fn queue_of(tables: &mut ConfigDb, map: Option<&str>) -> [u8; CLASSES] {
    for (field, value) in map.map(|map| tables.fields(QUEUE, map)).unwrap_or_default() {
        let at = FieldPath::new(QUEUE, map.unwrap_or_default(), field.as_str());
        let (Some(class), Some(queue)) = (below(CLASSES, &field), below(8, &value)) else {
            tables.account(ImportOutcome::Refused, at, "queues are 0 to 7");
            continue;
        };
        if class == queue {
            tables.account(ImportOutcome::Taken, at, WITHIN);
        } else {
            let detail = format!("traffic class {class} becomes class {queue}, that of its queue: {WITHIN}");
            tables.account(ImportOutcome::Approximated, at, detail);
        }
    }
    account_absent_classes(tables, QUEUE, map, "queue");
    map_content(tables, QUEUE, map)
}

/// Reports traffic classes that a map lacks, and those of ports without a map.
fn account_absent_classes(tables: &mut ConfigDb, table: &str, map: Option<&str>, number: &str) {
    let Some(map) = map else {
        for class in 0..8 {
            let detail =
                format!("no map: each traffic class has the {number} of its number, where SONiC leaves it to the chip");
            let field = class.to_string();
            tables.account_absent(ImportOutcome::Approximated, FieldPath::new(table, "", &field), detail);
        }
        return;
    };
    let mapped: Vec<u8> = tables.fields(table, map).keys().filter_map(|field| below(CLASSES, field)).collect();
    for class in (1..8).filter(|class| !mapped.contains(class)) {
        let detail = format!("traffic class {class} has {number} 0, as in SAI");
        tables.account_absent(ImportOutcome::Taken, FieldPath::new(table, map, &class.to_string()), detail);
    }
}

/// Reports maps to queues that differ between ports.
fn account_queue_maps(tables: &mut ConfigDb, ports: &[Port], queues: &[[u8; CLASSES]]) {
    if queues.iter().all(|of| *of == queues[0]) {
        return;
    }
    let is_imported = |key: &String| ports.iter().any(|port| names(key).contains(&port.sonic_name));
    for key in tables.keys(PORT_QOS_MAP).into_iter().filter(is_imported) {
        let at = FieldPath::new(PORT_QOS_MAP, &key, "tc_to_queue_map");
        let detail = "a frame has the queue of its ingress port's map, where SONiC has that of the egress port's";
        tables.account(ImportOutcome::Approximated, at, detail);
    }
}

/// Reads the priority groups of a port's traffic classes. Queue and group of one are equal, if either is lossless.
fn read_groups(
    tables: &mut ConfigDb,
    port: &Port,
    map: Option<&str>,
    lossless: &[u8],
    queue_of: &[u8; CLASSES],
) -> Result<(), String> {
    account_absent_classes(tables, GROUP, map, "priority group");
    let groups = map_content(tables, GROUP, map);
    for (class, (group, queue)) in groups.iter().zip(queue_of).enumerate() {
        if group != queue && [group, queue].iter().any(|number| lossless.contains(number)) {
            return Err(format!(
                "{}: traffic class {class} has priority group {group} and queue {queue}, and PFC is enabled for {lossless:?} at {}: {WITHIN}; \
                 write \"{class}\": \"{queue}\", or another queue into {QUEUE}",
                tables.place(GROUP, map.unwrap_or_default()),
                port.sonic_name,
            ));
        }
    }
    let Some(map) = map else { return Ok(()) };
    for (field, value) in tables.fields(GROUP, map) {
        let (outcome, detail) = match (below(CLASSES, &field), below(8, &value)) {
            (Some(class), Some(group)) if group == queue_of[usize::from(class)] => (ImportOutcome::Taken, WITHIN),
            (Some(_), Some(_)) => (
                ImportOutcome::Approximated,
                "a class has a priority group of its own; lossy ones have no threshold at ingress",
            ),
            _ => (ImportOutcome::Refused, "groups are 0 to 7"),
        };
        tables.account(outcome, FieldPath::new(GROUP, map, &field), detail);
    }
    Ok(())
}

/// Checks that PFC of a priority that is lossless at the port is for the class of its number.
fn check_identity(tables: &mut ConfigDb, table: &str, map: Option<&str>, lossless: &[u8]) -> Result<(), String> {
    let Some(map) = map else { return Ok(()) };
    for (field, value) in tables.fields(table, map) {
        let is_lossless = |text: &str| below(8, text).is_some_and(|class| lossless.contains(&class));
        if field != value && (is_lossless(&field) || is_lossless(&value)) {
            return Err(format!(
                "{}: priority {field} is for {value}, and PFC is enabled for {lossless:?}: here PFC of a priority is for the class of its \
                 number; write \"{field}\": \"{field}\"",
                tables.place(table, map)
            ));
        }
        let detail = "PFC of a priority is for the class of this number";
        let outcome = if field == value { ImportOutcome::Taken } else { ImportOutcome::Refused };
        tables.account(outcome, FieldPath::new(table, map, &field), detail);
    }
    Ok(())
}

/// Reads the map of a port. Ports with a DSCP map trust the DSCP.
fn frame_map(
    tables: &mut ConfigDb,
    dscp: Option<&str>,
    pcp: Option<&str>,
    queue_of: &[u8; CLASSES],
) -> Result<FrameMap, String> {
    let trusts_pcp = dscp.is_none() && pcp.is_some();
    let rule = if trusts_pcp { "classes by PCP" } else { "not in force: ports trust the DSCP" };
    let pcp = pcp.map(|pcp| read_map(tables, PCP, Some(pcp), queue_of, rule)).transpose()?;
    let dscp = match trusts_pcp {
        true => [queue_of[0]; 64],
        false => read_map(tables, DSCP, dscp, queue_of, "classes by DSCP")?,
    };
    Ok(FrameMap { dscp, pcp, trusts_pcp })
}

/// Reads a map from code points to classes. As in SAI, code points that it lacks have traffic class 0.
fn read_map<const N: usize>(
    tables: &mut ConfigDb,
    table: &str,
    map: Option<&str>,
    queue_of: &[u8; CLASSES],
    rule: &str,
) -> Result<[u8; N], String> {
    let mut classes = [queue_of[0]; N];
    let mut is_absent = [true; N];
    let map = map.unwrap_or_default();
    for (field, value) in tables.fields(table, map) {
        let at = FieldPath::new(table, map, &field);
        let (Some(point), Some(class)) =
            (field.parse::<usize>().ok().filter(|point| *point < N), below(CLASSES, &value))
        else {
            let place = tables.place(table, map);
            let most = N - 1;
            return Err(format!(
                "{place}: {field:?}: {value:?}: write a code point from 0 to {most} and a traffic class from 0 to 15"
            ));
        };
        let to = queue_of[usize::from(class)];
        let outcome = if to == class { ImportOutcome::Taken } else { ImportOutcome::Approximated };
        tables.account(outcome, at, format!("{rule}: class {to}"));
        (classes[point], is_absent[point]) = (to, false);
    }
    for point in (0..N).filter(|point| is_absent[*point]) {
        let detail = format!("{rule}: class {}, that of traffic class 0, as in SAI", queue_of[0]);
        tables.account_absent(ImportOutcome::Taken, FieldPath::new(table, map, &point.to_string()), detail);
    }
    Ok(classes)
}

/// Numbers that a map gives traffic classes: without an entry 0, as in SAI, and without a map their own up to class 7.
fn map_content(tables: &ConfigDb, table: &str, map: Option<&str>) -> [u8; CLASSES] {
    let mut content = std::array::from_fn(|class| if map.is_none() && class < 8 { class as u8 } else { 0 });
    for (field, value) in map.map(|map| tables.fields(table, map)).unwrap_or_default() {
        if let (Some(class), Some(number)) = (below(CLASSES, &field), below(8, &value)) {
            content[usize::from(class)] = number;
        }
    }
    content
}

fn below(most: usize, text: &str) -> Option<u8> {
    text.trim().parse().ok().filter(|number| usize::from(*number) < most)
}
