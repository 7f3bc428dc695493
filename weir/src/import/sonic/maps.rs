//! Maps of PORT_QOS_MAP: of frames to traffic classes, and of those to queues and priority groups.

use std::collections::{BTreeMap, BTreeSet};
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

/// Maps of received frames to classes: one for most ports, and own ones.
#[derive(Debug, Default)]
pub(super) struct PortMaps {
    /// Map of most ports.
    common: Option<FrameMap>,
    /// Keys of ports with another map, by the port's name in SONiC.
    own: BTreeMap<String, String>,
}

/// Map of received frames to classes, and of those to priority groups and queues.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FrameMap {
    dscp: [u8; 64],
    /// Class of each PCP, where a map is given.
    pcp: Option<[u8; 8]>,
    /// Whether classes come from the PCP.
    trusts_pcp: bool,
    group: [u8; 8],
    queue: [u8; 8],
}

/// Priority group and queue of each traffic class of a port.
struct TrafficClasses {
    group: [u8; CLASSES],
    queue: [u8; CLASSES],
}

impl FrameMap {
    /// Trusted field, with its key and classes.
    fn field(&self) -> (&'static str, &[u8]) {
        match &self.pcp {
            Some(pcp) if self.trusts_pcp => ("pcp", pcp),
            _ => ("dscp", &self.dscp),
        }
    }

    /// Returns the keys of a port with this map in a switch with another one; empty if the trusted fields have equal classes, and classes
    /// equal queues.
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
        text + &self.tables(common.group, common.queue)
    }

    /// Returns the keys of priority groups and queues other than these.
    fn tables(&self, group: [u8; 8], queue: [u8; 8]) -> String {
        let mut text = String::new();
        for (key, own, others) in [("tc_to_pg", self.group, group), ("tc_to_queue", self.queue, queue)] {
            let differs = |class: &usize| own[*class] != others[*class];
            let entries: Vec<String> = (0..8).filter(differs).map(|class| entry((class, class, own[class]))).collect();
            if !entries.is_empty() {
                let _ = writeln!(text, "{key} = {{ {} }}", entries.join(", "));
            }
        }
        text
    }
}

impl PortMaps {
    /// Reads the maps of ports. `lossless` are the lossless classes of each, and `all_lossless` those of all; `by_command`: they are of the
    /// command line, for want of a PORT_QOS_MAP.
    pub(super) fn from_tables(
        tables: &mut ConfigDb,
        ports: &[Port],
        lossless: &BTreeMap<String, Vec<u8>>,
        all_lossless: &[u8],
        by_command: bool,
    ) -> Result<PortMaps, String> {
        let maps_of = |tables: &mut ConfigDb, field, table| maps_of_ports(tables, ports, by_command, field, table);
        let dscp_maps = maps_of(tables, "dscp_to_tc_map", DSCP)?;
        let pcp_maps = maps_of(tables, "dot1p_to_tc_map", PCP)?;
        let queue_maps = maps_of(tables, "tc_to_queue_map", QUEUE)?;
        let group_maps = maps_of(tables, "tc_to_pg_map", GROUP)?;
        let own = |port: &Port| lossless.get(&port.sonic_name).map_or(&[][..], Vec::as_slice);
        for (field, table) in
            [("pfc_to_queue_map", "MAP_PFC_PRIORITY_TO_QUEUE"), ("pfc_to_pg_map", "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP")]
        {
            for (port, map) in ports.iter().zip(maps_of(tables, field, table)?) {
                check_identity(tables, table, map.as_deref(), own(port))?;
            }
        }
        let (mut read, mut replaced): (Vec<FrameMap>, Vec<(String, usize, String)>) = Default::default();
        for (index, port) in ports.iter().enumerate() {
            let [dscp, pcp, groups, queues] =
                [&dscp_maps, &pcp_maps, &group_maps, &queue_maps].map(|maps| maps[index].as_deref());
            let classes = TrafficClasses {
                group: numbers_of_classes(tables, GROUP, groups, "priority group"),
                queue: numbers_of_classes(tables, QUEUE, queues, "queue"),
            };
            let (mut map, used) = frame_map(tables, dscp, pcp, &classes)?;
            for class in used {
                check_lossless(tables, groups, port, &classes, class, own(port))?;
            }
            let is_lossless = |number: u8| all_lossless.contains(&number);
            for (class, (group, queue)) in map.group.iter_mut().zip(map.queue).enumerate() {
                if is_lossless(*group) != is_lossless(queue) {
                    let detail = format!(
                        "class {class} has priority group {queue}, as its queue, at {}: numbers are lossless at all ports",
                        port.name
                    );
                    replaced.push((groups.unwrap_or_default().to_owned(), class, detail));
                    *group = queue;
                }
            }
            read.push(map);
        }
        for (map, class, detail) in replaced {
            tables.account(ImportOutcome::Approximated, FieldPath::new(GROUP, &map, &class.to_string()), detail);
        }
        account_queue_maps(tables, ports, &read);
        let mut up: Vec<&FrameMap> =
            ports.iter().zip(&read).filter(|(port, _)| !port.is_down).map(|(_, map)| map).collect();
        if up.is_empty() {
            up = read.iter().collect();
        }
        let common = most_common(up.into_iter().cloned());
        let keys = ports.iter().zip(&read).map(|(port, map)| (port.sonic_name.clone(), map.port_keys(&common)));
        let own = keys.filter(|(_, keys)| !keys.is_empty()).collect();
        Ok(PortMaps { common: Some(common), own })
    }

    /// Keys of a port: its own map.
    pub(super) fn port_keys(&self, port: &str) -> &str {
        self.own.get(port).map_or("", String::as_str)
    }

    /// Formats `trust`, `tc_to_pg`, `tc_to_queue`, `[classes.dscp]` and `[classes.pcp]`.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let Some(common) = &self.common else { return text };
        if common.trusts_pcp {
            text += "trust = \"pcp\"\n";
        }
        text += &common.tables(IDENTITY, IDENTITY);
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

/// Returns the priority groups or queues of traffic classes.
fn numbers_of_classes(tables: &mut ConfigDb, table: &str, map: Option<&str>, number: &str) -> [u8; CLASSES] {
    for (field, value) in map.map(|map| tables.fields(table, map)).unwrap_or_default() {
        let at = FieldPath::new(table, map.unwrap_or_default(), field.as_str());
        match (below(CLASSES, &field), below(8, &value)) {
            (Some(_), Some(_)) => tables.account(ImportOutcome::Taken, at, format!("the class's {number}")),
            _ => tables.account(ImportOutcome::Refused, at, format!("a {number} is 0 to 7")),
        }
    }
    account_absent_classes(tables, table, map, number);
    map_content(tables, table, map)
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
fn account_queue_maps(tables: &mut ConfigDb, ports: &[Port], maps: &[FrameMap]) {
    if maps.iter().all(|of| of.queue == maps[0].queue) {
        return;
    }
    let is_imported = |key: &String| ports.iter().any(|port| names(key).contains(&port.sonic_name));
    for key in tables.keys(PORT_QOS_MAP).into_iter().filter(is_imported) {
        let at = FieldPath::new(PORT_QOS_MAP, &key, "tc_to_queue_map");
        let detail = "a frame has the queue of its ingress port's map, where SONiC has that of the egress port's";
        tables.account(ImportOutcome::Approximated, at, detail);
    }
}

/// Checks that both queues of a port's traffic class are lossless there, or neither.
fn check_lossless(
    tables: &ConfigDb,
    map: Option<&str>,
    port: &Port,
    classes: &TrafficClasses,
    class: u8,
    lossless: &[u8],
) -> Result<(), String> {
    let [group, queue] = [classes.group, classes.queue].map(|numbers| numbers[usize::from(class)]);
    if lossless.contains(&group) == lossless.contains(&queue) {
        return Ok(());
    }
    Err(format!(
        "{}: traffic class {class} has priority group {group} and queue {queue}, one of which alone is lossless: PFC is enabled for \
         {lossless:?} at {}; write \"{class}\": \"{queue}\", or another queue into {QUEUE}",
        tables.place(GROUP, map.unwrap_or_default()),
        port.sonic_name,
    ))
}

/// Checks that PFC of a priority that is lossless at the port is for the priority group and the queue of its number.
fn check_identity(tables: &mut ConfigDb, table: &str, map: Option<&str>, lossless: &[u8]) -> Result<(), String> {
    let Some(map) = map else { return Ok(()) };
    for (field, value) in tables.fields(table, map) {
        let is_lossless = |text: &str| below(8, text).is_some_and(|class| lossless.contains(&class));
        if field != value && (is_lossless(&field) || is_lossless(&value)) {
            return Err(format!(
                "{}: priority {field} is for {value}, and PFC is enabled for {lossless:?}: here PFC of a priority is for the priority \
                 group and the queue of its number; write \"{field}\": \"{field}\"",
                tables.place(table, map)
            ));
        }
        let detail = "PFC of a priority is for the priority group and the queue of this number";
        let outcome = if field == value { ImportOutcome::Taken } else { ImportOutcome::Refused };
        tables.account(outcome, FieldPath::new(table, map, &field), detail);
    }
    Ok(())
}

/// Reads the map of a port, and returns the traffic classes that its frames have. Ports with a DSCP map trust the DSCP.
fn frame_map(
    tables: &mut ConfigDb,
    dscp: Option<&str>,
    pcp: Option<&str>,
    classes: &TrafficClasses,
) -> Result<(FrameMap, BTreeSet<u8>), String> {
    let trusts_pcp = dscp.is_none() && pcp.is_some();
    let rule = if trusts_pcp { "classes by PCP" } else { "not in force: ports trust the DSCP" };
    let mut pcp = pcp.map(|pcp| read_map(tables, PCP, Some(pcp), rule)).transpose()?;
    let mut dscp = match trusts_pcp {
        true => [0; 64],
        false => read_map(tables, DSCP, dscp, "classes by DSCP")?,
    };
    let trusted = if trusts_pcp { pcp.iter().flatten().copied().collect() } else { dscp.to_vec() };
    // Frames without the trusted field have traffic class 0.
    let used: BTreeSet<u8> = trusted.into_iter().chain([0]).collect();
    let (mut group, mut queue) = (IDENTITY, IDENTITY);
    for class in 0..8 {
        (group[class], queue[class]) = (classes.group[class], classes.queue[class]);
    }
    let mut taken = used.clone();
    for class in used.iter().copied().filter(|class| *class >= 8) {
        let own = (classes.group[usize::from(class)], classes.queue[usize::from(class)]);
        let same = (0..8).find(|other: &u8| (group[usize::from(*other)], queue[usize::from(*other)]) == own);
        let Some(place) = same.or_else(|| (0..8).find(|other| !taken.contains(other))) else {
            return Err(format!(
                "{GROUP}, {QUEUE}: traffic class {class} has priority group {} and queue {}, as no other has, and here are 8 classes; give it \
                 those of another",
                own.0, own.1
            ));
        };
        taken.insert(place);
        (group[usize::from(place)], queue[usize::from(place)]) = own;
        let points = dscp.iter_mut().chain(pcp.iter_mut().flatten());
        points.filter(|of| **of == class).for_each(|of| *of = place);
    }
    // Classes of a map that is not in force.
    pcp.iter_mut().flatten().filter(|class| **class >= 8).for_each(|class| *class = 0);
    Ok((FrameMap { dscp, pcp, trusts_pcp, group, queue }, used))
}

/// Reads a map from code points to traffic classes. As in SAI, code points that it lacks have traffic class 0.
fn read_map<const N: usize>(
    tables: &mut ConfigDb,
    table: &str,
    map: Option<&str>,
    rule: &str,
) -> Result<[u8; N], String> {
    let mut classes = [0; N];
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
        let detail = match class {
            0..8 => format!("{rule}: class {class}"),
            _ => format!("{rule}: a class with the priority group and the queue of traffic class {class}"),
        };
        tables.account(ImportOutcome::Taken, at, detail);
        (classes[point], is_absent[point]) = (class, false);
    }
    for point in (0..N).filter(|point| is_absent[*point]) {
        let detail = format!("{rule}: traffic class 0, as in SAI");
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
