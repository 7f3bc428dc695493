//! Classes: DSCP maps, lossless priorities, schedulers, ECN, the PFC watchdog.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::most_common;
use super::port::Port;
use super::report::ImportOutcome;
use super::tables::{ConfigDb, FieldPath, names, numbers_of, reference};

/// Classes of the files.
#[derive(Debug)]
pub(super) struct Classes {
    /// Lossless classes of all ports together.
    pub(super) lossless: Vec<u8>,
    /// Lossless classes by port.
    pub(super) of_port: BTreeMap<String, Vec<u8>>,
    /// Ports left out, since SONiC would find no profile for their lossless groups.
    pub(super) skipped: Vec<String>,
    /// Whether the lossless classes, and with them the maps, are those of the command line, for want of a PORT_QOS_MAP.
    by_command: bool,
    /// Class of traffic class 0, which frames without the trusted field have.
    default_class: u8,
    /// Class of each DSCP.
    dscp: [u8; 64],
    /// Class of each PCP, where a map is given.
    pcp: Option<[u8; 8]>,
    /// Whether classes come from the PCP.
    trusts_pcp: bool,
    /// Table keys by class.
    queues: BTreeMap<u8, Vec<String>>,
    watchdog: Option<String>,
    /// Ports that are watched, if not all.
    watched: Option<Vec<String>>,
}

const MAP: &str = "PORT_QOS_MAP";
const WITHIN: &str = "a class is here traffic class, priority group and queue in one";

impl Classes {
    /// Finds the lossless classes of each port, by PORT_QOS_MAP or by the command line.
    pub(super) fn with_lossless(tables: &ConfigDb, ports: &[String], given: Option<&[u8]>) -> Result<Classes, String> {
        let mut classes = Classes {
            lossless: Vec::new(),
            of_port: BTreeMap::new(),
            skipped: Vec::new(),
            by_command: false,
            default_class: 0,
            dscp: [0; 64],
            pcp: None,
            trusts_pcp: false,
            queues: BTreeMap::new(),
            watchdog: None,
            watched: None,
        };
        let mut is_given = false;
        for key in tables.keys(MAP) {
            let Some(text) = tables.field(MAP, &key, "pfc_enable") else { continue };
            let numbers = numbers_of(text).filter(|numbers| numbers.iter().all(|number| *number < 8));
            let numbers = numbers.ok_or_else(|| {
                format!("{MAP}|{key}: pfc_enable = \"{text}\" is no list of priorities; write one such as \"3,4\"")
            })?;
            for port in names(&key).into_iter().filter(|port| ports.contains(port)) {
                is_given = true;
                classes.of_port.insert(port, numbers.clone());
            }
        }
        match given {
            Some(_) if is_given => return Err(format!("--lossless: {MAP} has pfc_enable; take the option away")),
            Some(lossless) => {
                let of = |port: &String| (port.clone(), lossless.to_vec());
                classes.of_port = ports.iter().map(of).collect();
                classes.by_command = true;
            }
            None if !is_given && has_lossless_profiles(tables) => {
                return Err(format!(
                    "{}: no imported port has pfc_enable in {MAP}, while the buffer has lossless profiles; add qos.json, or give the lossless \
                     classes with --lossless 3,4 (or none)",
                    tables.file_of(MAP)
                ));
            }
            None => {}
        }
        Ok(classes)
    }

    /// Reads all else, after the lossless classes are settled.
    pub(super) fn read(&mut self, tables: &mut ConfigDb, ports: &[Port]) -> Result<(), String> {
        self.account_lossless(tables);
        let dscp_map = self.chosen_map(tables, ports, "dscp_to_tc_map", "DSCP_TO_TC_MAP")?;
        let pcp_map = self.chosen_map(tables, ports, "dot1p_to_tc_map", "DOT1P_TO_TC_MAP")?;
        let queue_map = self.chosen_map(tables, ports, "tc_to_queue_map", "TC_TO_QUEUE_MAP")?;
        let group_map = self.chosen_map(tables, ports, "tc_to_pg_map", "TC_TO_PRIORITY_GROUP_MAP")?;
        let queue_of = self.queue_of(tables, queue_map.as_deref());
        self.default_class = queue_of[0];
        self.trusts_pcp = dscp_map.is_none() && pcp_map.is_some();
        self.dscp = read_map(tables, "DSCP_TO_TC_MAP", dscp_map.as_deref(), &queue_of, "classes.dscp")?;
        if pcp_map.is_some() {
            let rule = if self.trusts_pcp { "classes.pcp" } else { "classes.pcp, not in force: ports trust the DSCP" };
            self.pcp = Some(read_map(tables, "DOT1P_TO_TC_MAP", pcp_map.as_deref(), &queue_of, rule)?);
        }
        self.check_groups(tables, group_map.as_deref(), &queue_of)?;
        let pfc_map = self.chosen_map(tables, ports, "pfc_to_queue_map", "MAP_PFC_PRIORITY_TO_QUEUE")?;
        self.check_identity(tables, "MAP_PFC_PRIORITY_TO_QUEUE", pfc_map.as_deref())?;
        let pfc_group = self.chosen_map(tables, ports, "pfc_to_pg_map", "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP")?;
        self.check_identity(tables, "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP", pfc_group.as_deref())?;
        let names: Vec<String> = ports.iter().map(|port| port.sonic_name.clone()).collect();
        self.read_queues(tables, &names)?;
        self.read_watchdog(tables, &names)
    }

    /// Whether the PFC watchdog, if there is one, watches the port.
    pub(super) fn is_watched(&self, port: &str) -> bool {
        self.watched.as_ref().is_none_or(|watched| watched.iter().any(|known| known == port))
    }

    /// Class of frames without the trusted field: that of traffic class 0.
    pub(super) fn default_class(&self) -> u8 {
        self.default_class
    }

    fn account_lossless(&mut self, tables: &mut ConfigDb) {
        self.lossless = self
            .of_port
            .iter()
            .filter(|(port, _)| !self.skipped.contains(port))
            .flat_map(|(_, own)| own.clone())
            .collect();
        self.lossless.sort_unstable();
        self.lossless.dedup();
        if self.by_command {
            let detail = format!("classes.lossless = {:?} of --lossless, at all ports", self.lossless);
            tables.account_absent(ImportOutcome::Approximated, FieldPath::new(MAP, "", "pfc_enable"), detail);
        }
        for key in tables.keys(MAP) {
            let at = FieldPath::new(MAP, key.as_str(), "pfc_enable");
            let of = names(&key);
            if !of.iter().any(|port| self.of_port.contains_key(port) && !self.skipped.contains(port)) {
                tables.account(ImportOutcome::Refused, at, "the port is not imported");
                continue;
            }
            let own = of.iter().find_map(|port| self.of_port.get(port)).cloned().unwrap_or_default();
            if own == self.lossless {
                tables.account(ImportOutcome::Taken, at, format!("classes.lossless = {own:?}"));
            } else {
                let all = &self.lossless;
                let detail =
                    format!("classes.lossless = {all:?} at all ports, as classes are lossless in the whole switch");
                tables.account(ImportOutcome::Approximated, at, detail);
            }
            for field in ["pfcwd_sw_enable", "pfc_asym"] {
                let at = FieldPath::new(MAP, key.as_str(), field);
                let (outcome, detail) = match field {
                    "pfc_asym" => (ImportOutcome::Approximated, "PFC is sent and obeyed alike"),
                    _ if tables.keys("PFC_WD").is_empty() => {
                        (ImportOutcome::Taken, "there is no PFC_WD: nothing is watched")
                    }
                    _ if numbers_of(tables.field(MAP, &key, field).unwrap_or_default()).as_ref()
                        == Some(&self.lossless) =>
                    {
                        (ImportOutcome::Taken, "[pfc_watchdog] watches all lossless classes, and these are all")
                    }
                    _ => (ImportOutcome::Approximated, "[pfc_watchdog] watches all lossless classes"),
                };
                tables.account(outcome, at, detail);
            }
        }
    }

    /// Returns the map of all imported ports: their own, or the one of `global`. Ports that are down have no say.
    ///
    /// # Errors
    /// Maps with different content.
    fn chosen_map(
        &self,
        tables: &mut ConfigDb,
        ports: &[Port],
        field: &str,
        table: &str,
    ) -> Result<Option<String>, String> {
        let keys = tables.keys(MAP);
        let named = |key: &String| Some((key.clone(), reference(tables.field(MAP, key, field)?).to_owned()));
        let all: Vec<(String, String)> = keys.iter().filter_map(named).filter(|(_, name)| !name.is_empty()).collect();
        let is_of = |key: &str, port: &Port| names(key).contains(&port.sonic_name);
        let is_ours = |key: &str| key == "global" || ports.iter().any(|port| is_of(key, port));
        let mut ours = all.iter().filter(|(key, _)| is_ours(key));
        if let Some((key, name)) = ours.find(|(_, name)| tables.fields(table, name).is_empty()) {
            let file = tables.file_of(MAP);
            return Err(format!("{file}: {MAP}|{key}: {field} = \"{name}\", and there is no {table}|{name}; add it"));
        }
        let map_of = |port: &Port| {
            let own = all.iter().find(|(key, _)| is_of(key, port));
            let found = own.or_else(|| all.iter().find(|(key, _)| key == "global"));
            found.map(|(_, name)| name.clone())
        };
        let of_ports: Vec<(&Port, Option<String>)> = ports.iter().map(|port| (port, map_of(port))).collect();
        let named = || of_ports.iter().filter(|(_, map)| map.is_some());
        let known = tables.keys(table);
        let chosen = match (named().next().is_none(), &known[..]) {
            (false, _) => {
                let up = || named().filter(|(port, _)| !port.is_down);
                let maps = if up().next().is_some() { up().collect::<Vec<_>>() } else { named().collect() };
                most_common(maps.into_iter().filter_map(|(_, map)| map.clone()))
            }
            // Without PORT_QOS_MAP, the only map of a table is meant.
            (true, [only]) if self.by_command => only.clone(),
            (true, _) => {
                tables.account_rest(ImportOutcome::Refused, table, "no imported port has this map");
                return Ok(None);
            }
        };
        let content = |map: Option<&String>| map_content(tables, table, map.map(String::as_str));
        let differs = |map: &Option<String>| !self.by_command && content(map.as_ref()) != content(Some(&chosen));
        check_one_map(tables, &of_ports, field, &chosen, differs)?;
        let other = format!("{chosen} at all ports: the switch has one map");
        let mut outcomes = Vec::new();
        for (key, name) in &all {
            outcomes.push(if !is_ours(key) {
                (key.clone(), ImportOutcome::Refused, "the port is not imported")
            } else if differs(&Some(name.clone())) {
                (key.clone(), ImportOutcome::Approximated, other.as_str())
            } else {
                (key.clone(), ImportOutcome::Taken, "the map of all ports")
            });
        }
        for (port, _) in of_ports.iter().filter(|(_, map)| map.is_none() && differs(map)) {
            outcomes.push((port.sonic_name.clone(), ImportOutcome::Approximated, other.as_str()));
        }
        for (key, outcome, detail) in outcomes {
            tables.account_absent(outcome, FieldPath::new(MAP, &key, field), detail);
        }
        for other in known.iter().filter(|other| **other != chosen) {
            for field in tables.fields(table, other).into_keys() {
                tables.account(
                    ImportOutcome::Refused,
                    FieldPath::new(table, other, &field),
                    format!("the switch has one map, {chosen}"),
                );
            }
        }
        Ok(Some(chosen))
    }

    /// Queues of traffic classes, which become classes.
    fn queue_of(&self, tables: &mut ConfigDb, map: Option<&str>) -> [u8; 8] {
        let mut queue_of: [u8; 8] = std::array::from_fn(|n| n as u8);
        let Some(map) = map else { return queue_of };
        const TABLE: &str = "TC_TO_QUEUE_MAP";
        for (field, value) in tables.fields(TABLE, map) {
            let at = FieldPath::new(TABLE, map, field.as_str());
            let (Some(class), Some(queue)) = (below_8(&field), below_8(&value)) else {
                tables.account(ImportOutcome::Refused, at, "classes are 0 to 7");
                continue;
            };
            queue_of[usize::from(class)] = queue;
            if class == queue {
                tables.account(ImportOutcome::Taken, at, WITHIN.to_owned());
            } else {
                let detail = format!("traffic class {class} becomes class {queue}, that of its queue: {WITHIN}");
                tables.account(ImportOutcome::Approximated, at, detail);
            }
        }
        queue_of
    }

    /// Checks that queue and priority group of a traffic class are one, if either is lossless.
    fn check_groups(&self, tables: &mut ConfigDb, map: Option<&str>, queue_of: &[u8; 8]) -> Result<(), String> {
        const TABLE: &str = "TC_TO_PRIORITY_GROUP_MAP";
        let groups = map_content(tables, TABLE, map);
        for (class, (group, queue)) in groups.iter().zip(queue_of).enumerate() {
            if group != queue && [group, queue].iter().any(|number| self.lossless.contains(number)) {
                return Err(format!(
                    "{}: {TABLE}: traffic class {class} has priority group {group} and queue {queue}, and PFC is enabled for {:?}: {WITHIN}; \
                     write \"{class}\": \"{queue}\", or another queue into TC_TO_QUEUE_MAP",
                    tables.file_of(TABLE),
                    self.lossless
                ));
            }
        }
        let Some(map) = map else { return Ok(()) };
        for (field, value) in tables.fields(TABLE, map) {
            let at = FieldPath::new(TABLE, map, field.as_str());
            let (outcome, detail) = match (below_8(&field), below_8(&value)) {
                (Some(class), Some(group)) if group == queue_of[usize::from(class)] => (ImportOutcome::Taken, WITHIN),
                (Some(_), Some(_)) => (
                    ImportOutcome::Approximated,
                    "a class has a priority group of its own; lossy ones have no threshold at ingress",
                ),
                _ => (ImportOutcome::Refused, "classes are 0 to 7"),
            };
            tables.account(outcome, at, detail);
        }
        Ok(())
    }

    /// Checks that PFC of a lossless priority is for the class of its number.
    fn check_identity(&self, tables: &mut ConfigDb, table: &str, map: Option<&str>) -> Result<(), String> {
        let Some(map) = map else { return Ok(()) };
        for (field, value) in tables.fields(table, map) {
            let is_lossless = |text: &str| below_8(text).is_some_and(|class| self.lossless.contains(&class));
            if field != value && (is_lossless(&field) || is_lossless(&value)) {
                return Err(format!(
                    "{}: {table}|{map}: priority {field} is for {value}, and PFC is enabled for {:?}: here PFC of a priority is for the class \
                     of its number; write \"{field}\": \"{field}\"",
                    tables.file_of(table),
                    self.lossless
                ));
            }
            let detail = "PFC of a priority is for the class of this number";
            let outcome = if field == value { ImportOutcome::Taken } else { ImportOutcome::Refused };
            tables.account(outcome, FieldPath::new(table, map, &field), detail);
        }
        Ok(())
    }

    /// Schedulers and WRED profiles of queues: those that most of the imported ports have.
    fn read_queues(&mut self, tables: &mut ConfigDb, ports: &[String]) -> Result<(), String> {
        const TABLE: &str = "QUEUE";
        for (field, profiles) in [("scheduler", "SCHEDULER"), ("wred_profile", "WRED_PROFILE")] {
            let mut of_class: BTreeMap<u8, Vec<(String, String)>> = BTreeMap::new();
            for key in tables.keys(TABLE) {
                let Some((of, numbers)) = tables.ports_and_numbers(&key) else { continue };
                let name = tables.field(TABLE, &key, field).map(reference).unwrap_or_default().to_owned();
                if matches!(name.as_str(), "" | "NULL") {
                    continue;
                }
                let ours = ports.iter().filter(|port| of.contains(port)).count();
                if ours > 0 {
                    if tables.fields(profiles, &name).is_empty() {
                        let file = tables.file_of(profiles);
                        return Err(format!("{file}: {TABLE}|{key}: there is no {profiles}|{name}; add it"));
                    }
                    for class in numbers.into_iter().filter(|class| *class < 8) {
                        let of_port = (key.clone(), name.clone());
                        of_class.entry(class).or_default().extend(std::iter::repeat_n(of_port, ours));
                    }
                }
            }
            for (class, of_ports) in of_class {
                let common = most_common(of_ports.iter().map(|(_, name)| name.clone()));
                for (key, name) in &of_ports {
                    let at = FieldPath::new(TABLE, key.as_str(), field);
                    if *name == common {
                        tables.account(ImportOutcome::Taken, at, "classes.queues");
                    } else {
                        let detail =
                            format!("{common} at all ports, as queues of a class are alike in the whole switch");
                        tables.account(ImportOutcome::Approximated, at, detail);
                    }
                }
                let keys = if profiles == "SCHEDULER" { scheduler(tables, &common)? } else { wred(tables, &common)? };
                self.queues.entry(class).or_default().extend(keys);
            }
            tables.account_rest(ImportOutcome::Refused, profiles, "no queue of an imported port has this profile");
        }
        tables.account_rest(ImportOutcome::Refused, TABLE, "the port is not imported");
        Ok(())
    }

    fn read_watchdog(&mut self, tables: &mut ConfigDb, ports: &[String]) -> Result<(), String> {
        const TABLE: &str = "PFC_WD";
        // Keys are ports, or lists of them, in older releases with classes: `Ethernet0,Ethernet4|3-4`.
        let of = |key: &String| names(key.split('|').next().unwrap_or_default());
        let is_ours = |key: &String| of(key).iter().any(|port| ports.contains(port));
        let watched: Vec<String> = tables.keys(TABLE).into_iter().filter(is_ours).collect();
        if watched.is_empty() {
            tables.account_rest(ImportOutcome::Refused, TABLE, "no imported port is watched");
            return Ok(());
        }
        let watched_ports: Vec<String> = watched.iter().flat_map(of).collect();
        let where_ =
            if ports.iter().all(|port| watched_ports.contains(port)) { "at all ports" } else { "at the watched ports" };
        self.watched = Some(watched_ports);
        let mut text = "\n[pfc_watchdog]\n".to_owned();
        for (field, key) in [("action", "action"), ("detection_time", ""), ("restoration_time", "")] {
            let ours = |key: &String| of(key).iter().filter(|port| ports.contains(port)).count();
            let of_key =
                |key: &String| Some(std::iter::repeat_n(tables.field(TABLE, key, field)?.to_owned(), ours(key)));
            let values: Vec<String> = watched.iter().filter_map(of_key).flatten().collect();
            if values.is_empty() {
                continue;
            }
            let common = most_common(values.into_iter());
            let is_known = if key == "action" {
                ["drop", "forward", "alert"].contains(&common.as_str())
            } else {
                common.parse::<u64>().is_ok_and(|ms| ms > 0)
            };
            if !is_known {
                let help = "write drop, forward or alert, and times in milliseconds";
                return Err(format!("{TABLE}|{}: {field} = \"{common}\" is none that there is; {help}", watched[0]));
            }
            let unit = if key == "action" { "" } else { "ms" };
            let _ = writeln!(text, "{field} = \"{common}{unit}\"");
            for port in &watched {
                let is_same = tables.field(TABLE, port, field) == Some(&common);
                let is_same = is_same && !port.contains('|');
                let outcome = if is_same { ImportOutcome::Taken } else { ImportOutcome::Approximated };
                let detail = format!("pfc_watchdog.{field} = \"{common}{unit}\", {where_}");
                tables.account(outcome, FieldPath::new(TABLE, port, field), detail);
            }
        }
        if let Some(poll) = tables.number::<u64>(TABLE, "GLOBAL", "POLL_INTERVAL")? {
            let _ = writeln!(text, "poll_interval = \"{poll}ms\"");
            let detail = format!("pfc_watchdog.poll_interval = \"{poll}ms\"");
            tables.account(ImportOutcome::Taken, FieldPath::new(TABLE, "GLOBAL", "POLL_INTERVAL"), detail);
        }
        tables.account_rest(ImportOutcome::Refused, TABLE, "the port is not imported, or the field is unknown");
        self.watchdog = Some(text);
        Ok(())
    }

    /// Formats the tables `[classes]`, `[[classes.queues]]` and `[pfc_watchdog]`.
    pub(super) fn text(&self) -> String {
        let mut text = format!("\n[classes]\nlossless = {:?}\n", self.lossless);
        if self.trusts_pcp {
            text += "trust = \"pcp\"\n";
        }
        let maps = [("dscp", Some(&self.dscp[..])), ("pcp", self.pcp.as_ref().map(|map| &map[..]))];
        for (field, map) in maps.into_iter().filter_map(|(field, map)| Some((field, map?))) {
            let _ = writeln!(text, "\n[classes.{field}]");
            let mut first = 0;
            for run in map.chunk_by(|one, next| one == next) {
                let (last, class) = (first + run.len() - 1, run[0]);
                let _ = match first == last {
                    true => writeln!(text, "{first} = {class}"),
                    false => writeln!(text, "\"{first}-{last}\" = {class}"),
                };
                first = last + 1;
            }
        }
        for (class, keys) in self.queues.iter().filter(|(_, keys)| !keys.is_empty()) {
            let _ = writeln!(text, "\n[[classes.queues]]\nclass = {class}\n{}", keys.join("\n"));
        }
        text + self.watchdog.as_deref().unwrap_or_default()
    }
}

fn scheduler(tables: &mut ConfigDb, name: &str) -> Result<Vec<String>, String> {
    const TABLE: &str = "SCHEDULER";
    let mut keys = Vec::new();
    let kind = tables.field(TABLE, name, "type").unwrap_or("DWRR").to_owned();
    match kind.as_str() {
        "DWRR" => tables.account(ImportOutcome::Taken, FieldPath::new(TABLE, name, "type"), "DWRR"),
        "WRR" => tables.account(
            ImportOutcome::Approximated,
            FieldPath::new(TABLE, name, "type"),
            "DWRR: bytes in turn, where WRR has frames",
        ),
        "STRICT" => {
            tables.account(ImportOutcome::Taken, FieldPath::new(TABLE, name, "type"), "strict = true");
            keys.push("strict = true".to_owned());
        }
        other => {
            return Err(format!("{TABLE}|{name}: type = \"{other}\" is none that there is; write DWRR, WRR or STRICT"));
        }
    }
    if let Some(weight) = tables.number::<u64>(TABLE, name, "weight")? {
        if kind == "STRICT" {
            tables.account(
                ImportOutcome::Refused,
                FieldPath::new(TABLE, name, "weight"),
                "a strict queue has no weight",
            );
        } else {
            let kept = weight.clamp(1, 1_000);
            let outcome = if kept == weight { ImportOutcome::Taken } else { ImportOutcome::Approximated };
            tables.account(outcome, FieldPath::new(TABLE, name, "weight"), format!("weight = {kept}"));
            keys.push(format!("weight = {kept}"));
        }
    }
    // Weir's rates are in bytes per second; it has no rates in frames per second.
    if tables.field(TABLE, name, "meter_type").is_some_and(|kind| kind != "bytes") {
        tables.account(
            ImportOutcome::Refused,
            FieldPath::new(TABLE, name, "pir"),
            "rates of queues are of bytes, not of frames",
        );
        tables.account(
            ImportOutcome::Refused,
            FieldPath::new(TABLE, name, "meter_type"),
            "rates of queues are of bytes",
        );
    } else if let Some(pir) = tables.number::<u64>(TABLE, name, "pir")?.filter(|pir| *pir > 0) {
        let rate = format!("rate = \"{}bps\"", pir.saturating_mul(8));
        tables.account(ImportOutcome::Taken, FieldPath::new(TABLE, name, "pir"), rate.clone());
        tables.account(ImportOutcome::Taken, FieldPath::new(TABLE, name, "meter_type"), "bytes");
        keys.push(rate);
    }
    for field in ["cir", "cbs", "pbs"] {
        tables.account(
            ImportOutcome::Refused,
            FieldPath::new(TABLE, name, field),
            "a queue has one rate, without bursts and without a guarantee",
        );
    }
    Ok(keys)
}

fn wred(tables: &mut ConfigDb, name: &str) -> Result<Vec<String>, String> {
    const TABLE: &str = "WRED_PROFILE";
    let marks = tables.field(TABLE, name, "ecn").unwrap_or("ecn_none").to_owned();
    for color in ["yellow", "red"] {
        for field in ["min_threshold", "max_threshold", "drop_probability"] {
            let detail = "frames have no colour: those of green hold for all";
            tables.account(ImportOutcome::Refused, FieldPath::new(TABLE, name, &format!("{color}_{field}")), detail);
        }
        tables.account(
            ImportOutcome::Refused,
            FieldPath::new(TABLE, name, &format!("wred_{color}_enable")),
            "frames have no colour",
        );
    }
    let fields = ["green_min_threshold", "green_max_threshold", "green_drop_probability"];
    if !matches!(marks.as_str(), "ecn_all" | "ecn_green" | "ecn_green_yellow" | "ecn_green_red") {
        for field in fields.iter().chain(&["ecn", "wred_green_enable"]) {
            tables.account(
                ImportOutcome::Refused,
                FieldPath::new(TABLE, name, field),
                "Weir marks, and drops nothing at random",
            );
        }
        return Ok(Vec::new());
    }
    let outcome = if marks == "ecn_all" { ImportOutcome::Taken } else { ImportOutcome::Approximated };
    tables.account(outcome, FieldPath::new(TABLE, name, "ecn"), "frames that can be marked are, whatever their colour");
    let detail = "frames that can be marked are marked; others are not dropped at random";
    tables.account(ImportOutcome::Approximated, FieldPath::new(TABLE, name, "wred_green_enable"), detail);
    let [kmin, kmax, percent] = fields.map(|field| tables.number::<u64>(TABLE, name, field));
    let (Some(kmin), Some(kmax)) = (kmin?, kmax?) else {
        return Err(format!(
            "{TABLE}|{name}: green_min_threshold and green_max_threshold are missing; write both in bytes"
        ));
    };
    let percent = percent?.unwrap_or(100);
    if kmin > kmax || percent > 100 {
        let help = "write a minimum up to the maximum, and a probability of 0 to 100 percent";
        return Err(format!("{TABLE}|{name}: {kmin} to {kmax} at {percent} % is no marking; {help}"));
    }
    // Without marks up to the maximum, the marking is a step there.
    let (kmin, percent) = if percent == 0 { (kmax, 100) } else { (kmin, percent) };
    tables.account(ImportOutcome::Taken, FieldPath::new(TABLE, name, fields[0]), format!("ecn.kmin = \"{kmin}B\""));
    tables.account(ImportOutcome::Taken, FieldPath::new(TABLE, name, fields[1]), format!("ecn.kmax = \"{kmax}B\""));
    tables.account(
        ImportOutcome::Taken,
        FieldPath::new(TABLE, name, fields[2]),
        format!("ecn.pmax = {}", f64::from(percent as u32) / 100.0),
    );
    let pmax = f64::from(percent as u32) / 100.0;
    Ok(vec![format!("ecn = {{ kmin = \"{kmin}B\", kmax = \"{kmax}B\", pmax = {pmax:?} }}")])
}

/// Reads a map from code points to classes. As in SAI, code points that it lacks have traffic class 0.
fn read_map<const N: usize>(
    tables: &mut ConfigDb,
    table: &str,
    map: Option<&str>,
    queue_of: &[u8; 8],
    rule: &str,
) -> Result<[u8; N], String> {
    let mut classes = [queue_of[0]; N];
    let mut is_absent = [true; N];
    for (field, value) in map.map(|map| tables.fields(table, map)).unwrap_or_default() {
        let at = FieldPath::new(table, map.unwrap_or_default(), &field);
        let (Some(point), Some(class)) = (field.parse::<usize>().ok().filter(|point| *point < N), below_8(&value))
        else {
            let file = tables.file_of(table);
            let map = map.unwrap_or_default();
            let most = N - 1;
            return Err(format!(
                "{file}: {table}|{map} {field:?}: {value:?}: write a code point from 0 to {most} and a traffic class from 0 to 7"
            ));
        };
        let to = queue_of[usize::from(class)];
        let outcome = if to == class { ImportOutcome::Taken } else { ImportOutcome::Approximated };
        tables.account(outcome, at, format!("{rule}: class {to}"));
        (classes[point], is_absent[point]) = (to, false);
    }
    for point in (0..N).filter(|point| is_absent[*point]) {
        let detail = format!("{rule}: class {}, that of traffic class 0, as in SAI", queue_of[0]);
        let point = point.to_string();
        tables.account_absent(ImportOutcome::Taken, FieldPath::new(table, map.unwrap_or_default(), &point), detail);
    }
    Ok(classes)
}

/// Numbers that a map gives each code point or class. Without an entry, code points have traffic class 0, and others their own number.
fn map_content(tables: &ConfigDb, table: &str, map: Option<&str>) -> Vec<u8> {
    let mut content = match table {
        "DSCP_TO_TC_MAP" => vec![0; 64],
        "DOT1P_TO_TC_MAP" => vec![0; 8],
        _ => (0..8).collect(),
    };
    for (field, value) in map.map(|map| tables.fields(table, map)).unwrap_or_default() {
        let place = field.parse().ok().and_then(|point: usize| content.get_mut(point));
        if let (Some(place), Some(number)) = (place, below_8(&value)) {
            *place = number;
        }
    }
    content
}

/// Refuses maps of ports that differ from the chosen one; ports that are down may have any.
fn check_one_map(
    tables: &ConfigDb,
    of_ports: &[(&Port, Option<String>)],
    field: &str,
    chosen: &str,
    differs: impl Fn(&Option<String>) -> bool,
) -> Result<(), String> {
    let mut others: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (port, map) in of_ports.iter().filter(|(port, map)| !port.is_down && differs(map)) {
        others.entry(map.as_deref().unwrap_or("none")).or_default().push(&port.sonic_name);
    }
    if others.is_empty() {
        return Ok(());
    }
    let others: Vec<String> = others.iter().map(|(map, ports)| format!("{map} at {}", ports.join(","))).collect();
    Err(format!(
        "{}: {MAP}: {field} is {}, and {chosen} at most ports, with other classes: the switch has one map for all ports; leave those ports \
         out with --port, or give all ports one map",
        tables.file_of(MAP),
        others.join("; ")
    ))
}

/// Whether the files have buffers of lossless groups or queues.
fn has_lossless_profiles(tables: &ConfigDb) -> bool {
    let profiles = tables.keys("BUFFER_PROFILE");
    !tables.lookup.is_empty() || profiles.iter().any(|name| tables.field("BUFFER_PROFILE", name, "xoff").is_some())
}

fn below_8(text: &str) -> Option<u8> {
    text.trim().parse().ok().filter(|number| *number < 8)
}
