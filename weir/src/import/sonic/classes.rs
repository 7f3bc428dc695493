//! Classes: DSCP maps, lossless priorities, schedulers, ECN, the PFC watchdog.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::most_common;
use super::report::ImportOutcome;
use super::tables::{ConfigDb, FieldPath, numbers_of, ports_and_numbers, reference};

/// Classes of the files.
#[derive(Debug, Default)]
pub(super) struct Classes {
    /// Lossless classes of all ports together.
    pub(super) lossless: Vec<u8>,
    /// Lossless classes by port.
    pub(super) of_port: BTreeMap<String, Vec<u8>>,
    dscp: Vec<(u8, u8)>,
    /// Table keys by class.
    queues: BTreeMap<u8, Vec<String>>,
    watchdog: Option<String>,
}

const MAP: &str = "PORT_QOS_MAP";
const WITHIN: &str = "a class is here traffic class, priority group and queue in one";

impl Classes {
    pub(super) fn from_tables(tables: &mut ConfigDb, ports: &[String]) -> Result<Classes, String> {
        let mut classes = Classes::default();
        classes.find_lossless(tables, ports)?;
        let dscp_map = chosen_map(tables, ports, "dscp_to_tc_map", "DSCP_TO_TC_MAP");
        let queue_map = chosen_map(tables, ports, "tc_to_queue_map", "TC_TO_QUEUE_MAP");
        let group_map = chosen_map(tables, ports, "tc_to_pg_map", "TC_TO_PRIORITY_GROUP_MAP");
        let queue_of = classes.queue_of(tables, queue_map.as_deref())?;
        classes.read_dscp(tables, dscp_map.as_deref(), &queue_of)?;
        classes.check_groups(tables, group_map.as_deref())?;
        let pfc_map = chosen_map(tables, ports, "pfc_to_queue_map", "MAP_PFC_PRIORITY_TO_QUEUE");
        check_identity(tables, "MAP_PFC_PRIORITY_TO_QUEUE", pfc_map.as_deref());
        let pfc_group = chosen_map(tables, ports, "pfc_to_pg_map", "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP");
        check_identity(tables, "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP", pfc_group.as_deref());
        classes.read_queues(tables, ports)?;
        classes.read_watchdog(tables, ports)?;
        Ok(classes)
    }

    fn find_lossless(&mut self, tables: &mut ConfigDb, ports: &[String]) -> Result<(), String> {
        for key in tables.keys(MAP) {
            let Some(text) = tables.field(MAP, &key, "pfc_enable").map(str::to_owned) else { continue };
            let numbers = numbers_of(&text).filter(|numbers| numbers.iter().all(|number| *number < 8));
            let numbers = numbers.ok_or_else(|| {
                format!("{MAP}|{key}: pfc_enable = \"{text}\" is no list of priorities; write one such as \"3,4\"")
            })?;
            for port in key.split(',').filter(|port| ports.iter().any(|known| known == port)) {
                self.of_port.insert(port.to_owned(), numbers.clone());
                self.lossless.extend(&numbers);
            }
        }
        self.lossless.sort_unstable();
        self.lossless.dedup();
        for key in tables.keys(MAP) {
            let at = FieldPath::new(MAP, key.as_str(), "pfc_enable");
            if !key.split(',').any(|port| self.of_port.contains_key(port)) {
                tables.account(ImportOutcome::Refused, at, "the port is not imported");
                continue;
            }
            let own = key.split(',').find_map(|port| self.of_port.get(port)).cloned().unwrap_or_default();
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
        Ok(())
    }

    /// Queues of traffic classes, which become classes.
    fn queue_of(&self, tables: &mut ConfigDb, map: Option<&str>) -> Result<[u8; 8], String> {
        let mut queue_of: [u8; 8] = std::array::from_fn(|n| n as u8);
        let Some(map) = map else { return Ok(queue_of) };
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
        Ok(queue_of)
    }

    fn read_dscp(&mut self, tables: &mut ConfigDb, map: Option<&str>, queue_of: &[u8; 8]) -> Result<(), String> {
        const TABLE: &str = "DSCP_TO_TC_MAP";
        let Some(map) = map else { return Ok(()) };
        for (field, value) in tables.fields(TABLE, map) {
            let (Some(dscp), Some(class)) = (field.parse::<u8>().ok().filter(|dscp| *dscp < 64), below_8(&value))
            else {
                tables.account(
                    ImportOutcome::Refused,
                    FieldPath::new(TABLE, map, &field),
                    "code points are 0 to 63, classes 0 to 7",
                );
                continue;
            };
            let to = queue_of[usize::from(class)];
            let outcome = if to == class { ImportOutcome::Taken } else { ImportOutcome::Approximated };
            tables.account(outcome, FieldPath::new(TABLE, map, &field), format!("classes.dscp: class {to}"));
            self.dscp.push((dscp, to));
        }
        self.dscp.sort_unstable();
        Ok(())
    }

    fn check_groups(&self, tables: &mut ConfigDb, map: Option<&str>) -> Result<(), String> {
        const TABLE: &str = "TC_TO_PRIORITY_GROUP_MAP";
        let Some(map) = map else { return Ok(()) };
        for (field, value) in tables.fields(TABLE, map) {
            let at = FieldPath::new(TABLE, map, field.as_str());
            let is_lossless = below_8(&field).is_some_and(|class| self.lossless.contains(&class));
            let (outcome, detail) = match (field == value, is_lossless) {
                (true, _) => (ImportOutcome::Taken, WITHIN.to_owned()),
                (false, false) => (
                    ImportOutcome::Approximated,
                    "a class has a priority group of its own; lossy ones have no threshold at ingress".to_owned(),
                ),
                (false, true) => (
                    ImportOutcome::Approximated,
                    format!("lossless class {field} is paused by its own length, and not by that of group {value}"),
                ),
            };
            tables.account(outcome, at, detail);
        }
        Ok(())
    }

    /// Schedulers and WRED profiles of queues: those that most of the imported ports have.
    fn read_queues(&mut self, tables: &mut ConfigDb, ports: &[String]) -> Result<(), String> {
        const TABLE: &str = "QUEUE";
        for (field, profiles) in [("scheduler", "SCHEDULER"), ("wred_profile", "WRED_PROFILE")] {
            let mut of_class: BTreeMap<u8, Vec<(String, String)>> = BTreeMap::new();
            for key in tables.keys(TABLE) {
                let Some((of, numbers)) = ports_and_numbers(&key) else { continue };
                let Some(name) = tables.field(TABLE, &key, field) else { continue };
                let name = reference(name).to_owned();
                if of.iter().any(|port| ports.iter().any(|known| known == port)) {
                    for class in numbers.into_iter().filter(|class| *class < 8) {
                        of_class.entry(class).or_default().push((key.clone(), name.clone()));
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
        let watched: Vec<String> = tables.keys(TABLE);
        let watched: Vec<String> = watched.into_iter().filter(|key| ports.contains(key)).collect();
        if watched.is_empty() {
            tables.account_rest(ImportOutcome::Refused, TABLE, "no imported port is watched");
            return Ok(());
        }
        let mut text = "\n[pfc_watchdog]\n".to_owned();
        for (field, key) in [("action", "action"), ("detection_time", ""), ("restoration_time", "")] {
            let values = watched.iter().filter_map(|port| tables.field(TABLE, port, field).map(str::to_owned));
            let values: Vec<String> = values.collect();
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
                let outcome = if is_same { ImportOutcome::Taken } else { ImportOutcome::Approximated };
                let detail = format!("pfc_watchdog.{field} = \"{common}{unit}\", at all ports");
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
        if !self.dscp.is_empty() {
            text += "\n[classes.dscp]\n";
            for run in self.dscp.chunk_by(|one, next| one.1 == next.1 && one.0 + 1 == next.0) {
                let (first, last, class) = (run[0].0, run[run.len() - 1].0, run[0].1);
                let _ = match first == last {
                    true => writeln!(text, "{first} = {class}"),
                    false => writeln!(text, "\"{first}-{last}\" = {class}"),
                };
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
        tables.account(ImportOutcome::Taken, FieldPath::new(TABLE, name, "pir"), format!("rate = \"{}bps\"", pir * 8));
        tables.account(ImportOutcome::Taken, FieldPath::new(TABLE, name, "meter_type"), "bytes");
        keys.push(format!("rate = \"{}bps\"", pir * 8));
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
    if kmin > kmax || !(1..=100).contains(&percent) {
        let help = "write a minimum up to the maximum, and a probability of 1 to 100 percent";
        return Err(format!("{TABLE}|{name}: {kmin} to {kmax} at {percent} % is no marking; {help}"));
    }
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

/// Returns the map of most imported ports, or of all by `global`.
fn chosen_map(tables: &mut ConfigDb, ports: &[String], field: &str, table: &str) -> Option<String> {
    let keys = tables.keys(MAP);
    let named = |key: &String| Some((key.clone(), reference(tables.field(MAP, key, field)?).to_owned()));
    let all: Vec<(String, String)> = keys.iter().filter_map(named).collect();
    let is_ours = |key: &str| key == "global" || key.split(',').any(|port| ports.iter().any(|known| known == port));
    let ours: Vec<&(String, String)> = all.iter().filter(|(key, _)| is_ours(key)).collect();
    // The only map of a table applies even if no port names it.
    let alone = tables.keys(table);
    let chosen = match (ours.is_empty(), &alone[..]) {
        (false, _) => most_common(ours.iter().map(|(_, name)| name.clone())),
        (true, [only]) => only.clone(),
        (true, _) => return None,
    };
    for (key, name) in &all {
        let at = FieldPath::new(MAP, key.as_str(), field);
        if !is_ours(key) {
            tables.account(ImportOutcome::Refused, at, "the port is not imported");
        } else if *name == chosen {
            tables.account(ImportOutcome::Taken, at, "the map of all ports");
        } else {
            tables.account(ImportOutcome::Approximated, at, format!("{chosen} at all ports: the switch has one map"));
        }
    }
    for other in alone.iter().filter(|other| **other != chosen) {
        for field in tables.fields(table, other).into_keys() {
            tables.account(
                ImportOutcome::Refused,
                FieldPath::new(table, other, &field),
                format!("the switch has one map, {chosen}"),
            );
        }
    }
    Some(chosen)
}

fn check_identity(tables: &mut ConfigDb, table: &str, map: Option<&str>) {
    let Some(map) = map else { return };
    for (field, value) in tables.fields(table, map) {
        let detail = "PFC of a priority is for the class of this number";
        let outcome = if field == value { ImportOutcome::Taken } else { ImportOutcome::Refused };
        tables.account(outcome, FieldPath::new(table, map, &field), detail);
    }
}

fn below_8(text: &str) -> Option<u8> {
    text.parse().ok().filter(|number| *number < 8)
}
