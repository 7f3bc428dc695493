//! Lossless priority groups of the imported ports: their profiles, and ports or classes that SONiC would give none.

use std::collections::BTreeMap;

use super::classes::Classes;
use super::port::Port;
use super::profile::{Profile, Threshold};
use super::report::{ImportOutcome, natural};
use super::tables::{ConfigDb, FieldPath, LOOKUP, lookup_key, reference};

pub(super) const PROFILE: &str = "BUFFER_PROFILE";
pub(super) const GROUP: &str = "BUFFER_PG";
const CABLE: &str = "CABLE_LENGTH";

/// Lossless groups.
#[derive(Debug, Default)]
pub(super) struct LosslessGroups {
    /// Profiles of each port's lossless groups.
    pub(super) of_port: BTreeMap<String, Vec<Profile>>,
    /// Ports left out, since nothing says how much headroom they need.
    skipped: Vec<MissingProfile>,
    /// Classes with PFC whose group has no headroom, and is lossy.
    lossy: Vec<MissingProfile>,
}

/// Port, or class of a port, without a lossless profile.
#[derive(Debug)]
struct MissingProfile {
    port: String,
    /// Table, key and field that say so.
    at: [String; 3],
    reason: String,
}

/// Profile of a group of a class with PFC.
enum GroupProfile {
    Lossless(Profile),
    Lossy(MissingProfile),
    Unknown(MissingProfile),
}

impl LosslessGroups {
    /// Finds the profile of each group. Removes ports from `ports` for which SONiC would find none, and classes of `classes` that it would
    /// treat as lossy.
    pub(super) fn from_tables(
        tables: &mut ConfigDb,
        ports: &mut Vec<Port>,
        classes: &mut Classes,
    ) -> Result<LosslessGroups, String> {
        check_profiles(tables, ports)?;
        let mut groups = LosslessGroups::default();
        for port in &*ports {
            let (mut own, mut kept, mut unknown) = (Vec::new(), Vec::new(), None);
            for class in classes.of_port.get(&port.sonic_name).cloned().unwrap_or_default() {
                match profile_of(tables, port, class)? {
                    GroupProfile::Lossless(profile) => {
                        own.push(profile);
                        kept.push(class);
                    }
                    GroupProfile::Lossy(missing) => groups.lossy.push(missing),
                    GroupProfile::Unknown(missing) => unknown = Some(missing),
                }
            }
            match unknown {
                Some(missing) => groups.skipped.push(missing),
                None => {
                    groups.of_port.insert(port.sonic_name.clone(), own);
                    classes.of_port.insert(port.sonic_name.clone(), kept);
                }
            }
        }
        ports.retain(|port| groups.of_port.contains_key(&port.sonic_name));
        if let Some(first) = groups.skipped.first().filter(|_| ports.len() < 2) {
            let (file, count) = (tables.file_of(CABLE), groups.skipped.len());
            return Err(format!(
                "{file}: {}: {}; {count} ports are so, and fewer than 2 are left",
                first.port, first.reason
            ));
        }
        classes.skipped = groups.skipped.iter().map(|missing| missing.port.clone()).collect();
        Ok(groups)
    }

    /// Reports ports that are left out, and classes that are lossy.
    pub(super) fn account_missing(&self, tables: &mut ConfigDb) {
        for (missing, outcome, what) in [
            (&self.skipped, ImportOutcome::Refused, "the port is left out"),
            (&self.lossy, ImportOutcome::Approximated, "lossy there"),
        ] {
            for MissingProfile { at: [table, key, field], reason, .. } in missing {
                tables.account_absent(outcome, FieldPath::new(table, key, field), format!("{what}: {reason}"));
            }
        }
    }
}

/// SONiC's range of n in α = 2^n.
const DYNAMIC_RANGE: std::ops::RangeInclusive<i64> = -8..=8;

/// Checks α of profiles, and that those of imported ports exist and have a pool.
fn check_profiles(tables: &ConfigDb, ports: &[Port]) -> Result<(), String> {
    for name in tables.keys(PROFILE) {
        let n = tables.number::<i64>(PROFILE, &name, "dynamic_th")?;
        in_range(n.unwrap_or(0), || format!("{}: dynamic_th", tables.place(PROFILE, &name)))?;
    }
    for table in [GROUP, "BUFFER_QUEUE"] {
        for key in tables.keys(table) {
            let name = reference(tables.field(table, &key, "profile").unwrap_or_default());
            let of = tables.ports_and_numbers(&key).unwrap_or_default().0;
            if matches!(name, "" | "NULL") || !ports.iter().any(|port| of.contains(&port.sonic_name)) {
                continue;
            }
            if tables.fields(PROFILE, name).is_empty() {
                let place = tables.place(table, &key);
                return Err(format!("{place}: there is no {PROFILE}|{name}; add it"));
            }
            let Some(pool) = tables.field(PROFILE, name, "pool").map(reference).filter(|pool| !pool.is_empty()) else {
                let help = "write pool = \"ingress_lossless_pool\", or the pool that it is of";
                let place = tables.place(PROFILE, name);
                return Err(format!("{place}, of {table}|{key}, has no pool; {help}"));
            };
            if tables.fields("BUFFER_POOL", pool).is_empty() {
                let place = tables.place(PROFILE, name);
                return Err(format!("{place}: there is no BUFFER_POOL|{pool}; add it"));
            }
        }
    }
    Ok(())
}

fn in_range(n: i64, place: impl FnOnce() -> String) -> Result<(), String> {
    let (from, to) = (DYNAMIC_RANGE.start(), DYNAMIC_RANGE.end());
    if DYNAMIC_RANGE.contains(&n) {
        return Ok(());
    }
    Err(format!("{} = {n} is outside SONiC's range; write n of {from} to {to}, for alpha = 2^n", place()))
}

/// Profile of one group: from BUFFER_PG, or from the lookup table by speed and cable, as buffermgrd does it.
fn profile_of(tables: &mut ConfigDb, port: &Port, class: u8) -> Result<GroupProfile, String> {
    let missing = |at: [&str; 3], reason: String| MissingProfile {
        port: port.sonic_name.clone(),
        at: at.map(str::to_owned),
        reason,
    };
    for key in tables.keys(GROUP) {
        let Some((of, numbers)) = tables.ports_and_numbers(&key) else { continue };
        if !of.contains(&port.sonic_name) || !numbers.contains(&class) {
            continue;
        }
        let name = reference(tables.field(GROUP, &key, "profile").unwrap_or_default()).to_owned();
        if name == "NULL" || name.is_empty() {
            break;
        }
        if tables.field(PROFILE, &name, "size").is_none() {
            let place = tables.place(GROUP, &key);
            return Err(format!("{place}: there is no {PROFILE}|{name} with a size"));
        }
        if tables.field(PROFILE, &name, "xoff").is_none() {
            let reason = format!("PFC is enabled for class {class}, whose profile {name} has no xoff");
            return Ok(GroupProfile::Lossy(missing([GROUP, &key, "profile"], reason)));
        }
        tables.account(
            ImportOutcome::Taken,
            FieldPath::new(GROUP, &key, "profile"),
            "private, headroom and threshold of lossless queues",
        );
        let number = |field| tables.number::<u64>(PROFILE, &name, field);
        let threshold = match (tables.number::<i64>(PROFILE, &name, "dynamic_th")?, number("static_th")?) {
            (Some(n), _) => Threshold::Dynamic(n),
            (None, Some(bytes)) => Threshold::Static(bytes),
            (None, None) => {
                let place = tables.place(PROFILE, &name);
                return Err(format!("{place} has neither dynamic_th nor static_th; write one of them"));
            }
        };
        return Ok(GroupProfile::Lossless(Profile {
            size: number("size")?.unwrap_or(0),
            xon: number("xon")?.unwrap_or(0),
            xoff: number("xoff")?.unwrap_or(0),
            xon_offset: number("xon_offset")?,
            threshold,
            table: PROFILE,
            name,
        }));
    }
    from_lookup(tables, port, class).map(|found| {
        found.unwrap_or_else(|(at, reason)| GroupProfile::Unknown(missing(at.each_ref().map(String::as_str), reason)))
    })
}

/// Row of the lookup table for a port, or the place of the missing value and the reason.
fn from_lookup(
    tables: &ConfigDb,
    port: &Port,
    class: u8,
) -> Result<Result<GroupProfile, ([String; 3], String)>, String> {
    let name = &port.sonic_name;
    let cable_key = tables.keys(CABLE).into_iter().next().unwrap_or_else(|| "AZURE".to_owned());
    let unknown = |at: [&str; 3], what: &str, help: &str| {
        let reason =
            format!("{what}: SONiC finds no profile for its lossless class {class}; {help}, or a profile into {GROUP}");
        Ok(Err((at.map(str::to_owned), reason)))
    };
    let at_cable = [CABLE, &cable_key, name];
    let Some(cable) = &port.cable else {
        let what =
            if tables.keys(CABLE).is_empty() { "there is no CABLE_LENGTH" } else { "CABLE_LENGTH lacks the port" };
        return unknown(at_cable, what, &format!("write CABLE_LENGTH|{cable_key}, {name} = \"5m\""));
    };
    let Some(speed) = port.speed else {
        let help = format!("write PORT|{name}, speed = \"100000\"");
        return unknown(["PORT", name, "speed"], "the port has no speed", &help);
    };
    if cable == "0m" {
        return Ok(Ok(GroupProfile::Lossy(MissingProfile {
            port: name.clone(),
            at: at_cable.map(str::to_owned),
            reason: "SONiC makes no lossless group for a cable of 0m".to_owned(),
        })));
    }
    let Some(row) = tables.lookup.get(&(speed, cable.clone())) else {
        let mut known: Vec<String> = tables.lookup.keys().map(|(speed, cable)| format!("{speed} {cable}")).collect();
        known.sort_by_key(|row| natural(row));
        let what = match known.is_empty() {
            true => format!("there is no pg_profile_lookup.ini, for speed {speed} and cable {cable}"),
            false => format!("pg_profile_lookup.ini has no row {speed} {cable}, but {}", known.join(", ")),
        };
        return unknown(at_cable, &what, "add the row");
    };
    let is_static = tables.field("BUFFER_POOL", "ingress_lossless_pool", "mode") == Some("static");
    if !is_static {
        in_range(row.threshold, || format!("{}: threshold", tables.place(LOOKUP, &lookup_key(speed, cable))))?;
    }
    let threshold = match is_static {
        true => Threshold::Static(row.threshold.max(0) as u64),
        false => Threshold::Dynamic(row.threshold),
    };
    Ok(Ok(GroupProfile::Lossless(Profile {
        table: LOOKUP,
        name: lookup_key(speed, cable),
        size: row.size,
        xon: row.xon,
        xoff: row.xoff,
        xon_offset: row.xon_offset,
        threshold,
    })))
}
