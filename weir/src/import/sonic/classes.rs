//! Classes: lossless priorities, schedulers, ECN, the PFC watchdog.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::maps::{PORT_QOS_MAP, PortMaps};
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
    /// Maps of frames to classes.
    pub(super) maps: PortMaps,
    /// Table keys by class.
    queues: BTreeMap<u8, Vec<String>>,
    watchdog: Option<String>,
    /// Ports that are watched, if not all.
    watched: Option<Vec<String>>,
}

impl Classes {
    /// Finds the lossless classes of each port, by PORT_QOS_MAP or by the command line.
    pub(super) fn with_lossless(tables: &ConfigDb, ports: &[String], given: Option<&[u8]>) -> Result<Classes, String> {
        let mut classes = Classes {
            lossless: Vec::new(),
            of_port: BTreeMap::new(),
            skipped: Vec::new(),
            by_command: false,
            maps: PortMaps::default(),
            queues: BTreeMap::new(),
            watchdog: None,
            watched: None,
        };
        let mut is_given = false;
        for key in tables.keys(PORT_QOS_MAP) {
            let Some(text) = tables.field(PORT_QOS_MAP, &key, "pfc_enable") else { continue };
            let numbers = numbers_of(text).filter(|numbers| numbers.iter().all(|number| *number < 8));
            let numbers = numbers.ok_or_else(|| {
                let place = tables.place(PORT_QOS_MAP, &key);
                format!("{place}: pfc_enable = \"{text}\" is no list of priorities; write one such as \"3,4\"")
            })?;
            for port in names(&key).into_iter().filter(|port| ports.contains(port)) {
                is_given = true;
                classes.of_port.insert(port, numbers.clone());
            }
        }
        match given {
            Some(_) if is_given => {
                return Err(format!("--lossless: {PORT_QOS_MAP} has pfc_enable; take the option away"));
            }
            Some(lossless) => {
                let of = |port: &String| (port.clone(), lossless.to_vec());
                classes.of_port = ports.iter().map(of).collect();
                classes.by_command = true;
            }
            None if !is_given && has_lossless_profiles(tables) => {
                return Err(format!(
                    "{}: no imported port has pfc_enable in {PORT_QOS_MAP}, while the buffer has lossless profiles; add qos.json, or give the lossless \
                     classes with --lossless 3,4 (or none)",
                    tables.file_of(PORT_QOS_MAP)
                ));
            }
            None => {}
        }
        Ok(classes)
    }

    /// Reads all else, after the lossless classes are settled.
    pub(super) fn read(&mut self, tables: &mut ConfigDb, ports: &[Port]) -> Result<(), String> {
        self.account_lossless(tables);
        self.maps = PortMaps::from_tables(tables, ports, &self.of_port, &self.lossless, self.by_command)?;
        let names: Vec<String> = ports.iter().map(|port| port.sonic_name.clone()).collect();
        self.read_queues(tables, &names)?;
        self.read_watchdog(tables, &names)
    }

    /// Whether the PFC watchdog, if there is one, watches the port.
    pub(super) fn is_watched(&self, port: &str) -> bool {
        self.watched.as_ref().is_none_or(|watched| watched.iter().any(|known| known == port))
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
            tables.account_absent(ImportOutcome::Approximated, FieldPath::new(PORT_QOS_MAP, "", "pfc_enable"), detail);
        }
        for key in tables.keys(PORT_QOS_MAP) {
            let at = FieldPath::new(PORT_QOS_MAP, key.as_str(), "pfc_enable");
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
                let at = FieldPath::new(PORT_QOS_MAP, key.as_str(), field);
                let (outcome, detail) = match field {
                    "pfc_asym" => (ImportOutcome::Approximated, "PFC is sent and obeyed alike"),
                    _ if tables.keys("PFC_WD").is_empty() => {
                        (ImportOutcome::Taken, "there is no PFC_WD: nothing is watched")
                    }
                    _ if numbers_of(tables.field(PORT_QOS_MAP, &key, field).unwrap_or_default()).as_ref()
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
                        let place = tables.place(TABLE, &key);
                        return Err(format!("{place}: there is no {profiles}|{name}; add it"));
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
                let place = tables.place(TABLE, &watched[0]);
                return Err(format!("{place}: {field} = \"{common}\" is none that there is; {help}"));
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
        text += &self.maps.text();
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
            let place = tables.place(TABLE, name);
            return Err(format!("{place}: type = \"{other}\" is none that there is; write DWRR, WRR or STRICT"));
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
        let place = tables.place(TABLE, name);
        return Err(format!("{place}: green_min_threshold and green_max_threshold are missing; write both in bytes"));
    };
    let percent = percent?.unwrap_or(100);
    if kmin > kmax || percent > 100 {
        let help = "write a minimum up to the maximum, and a probability of 0 to 100 percent";
        let place = tables.place(TABLE, name);
        return Err(format!("{place}: {kmin} to {kmax} at {percent} % is no marking; {help}"));
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

/// Whether the files have buffers of lossless groups or queues.
fn has_lossless_profiles(tables: &ConfigDb) -> bool {
    let profiles = tables.keys("BUFFER_PROFILE");
    !tables.lookup.is_empty() || profiles.iter().any(|name| tables.field("BUFFER_PROFILE", name, "xoff").is_some())
}
