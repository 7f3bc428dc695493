//! Buffer: SONiC's pools and profiles as `policy = "sonic"`, or `"static"` where the pool's mode is.
//!
//! A pool's `xoff` is a pool of headroom. Whether a pool's size includes it, and the reservations of priority groups, depends on the
//! [chip](super::chip). A group reserves its profile's `size`. Without a headroom pool, `size` includes the group's `xoff`; with one, `xoff` is the group's limit in that pool.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::chip::{Chip, SharedPool};
use super::classes::Classes;
use super::groups::{GROUP, LosslessGroups, PROFILE};
use super::most_common;
use super::port::Port;
use super::profile::{Profile, Threshold, each_once};
use super::report::ImportOutcome;
use super::resume::ResumeThreshold;
use super::tables::{ConfigDb, FieldPath, LOOKUP, names, reference};

const POOL: &str = "BUFFER_POOL";
const QUEUE: &str = "BUFFER_QUEUE";
const LOSSLESS: &str = "ingress_lossless_pool";
const LOSSY: &str = "ingress_lossy_pool";
const EGRESS_LOSSY: &str = "egress_lossy_pool";
const EGRESS_LOSSLESS: &str = "egress_lossless_pool";

/// Table `[buffer]` as text, with the values that other parts need.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) text: String,
    /// Headroom of ports whose lossless groups need less than `[buffer]` gives.
    pub(super) headroom_of_port: BTreeMap<String, u64>,
}

impl Buffer {
    /// Frames are no longer than `frame_max`.
    pub(super) fn from_tables(
        tables: &mut ConfigDb,
        ports: &[Port],
        classes: &Classes,
        lossless: &LosslessGroups,
        frame_max: u64,
        chip: Option<&Chip>,
    ) -> Result<Buffer, String> {
        let Some(size) = tables.number::<u64>(POOL, LOSSLESS, "size")? else {
            return Err(no_pool(tables));
        };
        let is_static = tables.field(POOL, LOSSLESS, "mode") == Some("static");
        let xoff_pool = tables.number::<u64>(POOL, LOSSLESS, "xoff")?.unwrap_or(0);
        let profiles = &lossless.of_port;
        let groups: Vec<&Profile> = profiles.values().flatten().collect();
        // Reservation of a group, without headroom.
        let own = |profile: &Profile| {
            if xoff_pool > 0 { profile.size } else { profile.size.saturating_sub(profile.xoff) }
        };
        let private = groups.iter().map(|profile| own(profile)).max().unwrap_or(0);
        let port_headroom = |of: &[Profile]| of.iter().map(|profile| profile.xoff).max();
        let headroom = profiles.values().filter_map(|of| port_headroom(of)).max().unwrap_or(0);
        let headroom_of_port = profiles.iter().filter_map(|(port, of)| Some((port.clone(), port_headroom(of)?)));
        let headroom_of_port: BTreeMap<String, u64> = headroom_of_port.filter(|(_, own)| *own < headroom).collect();
        // Reservations of all groups of the switch, imported or not, reduce the shared buffer.
        let reserved: u64 = all_reserved(tables, profiles, classes)?;
        let lossy_pool = tables.number::<u64>(POOL, LOSSY, "size")?.unwrap_or(0);
        let rest = size.saturating_sub(xoff_pool + reserved);
        let rule = chip.map_or(SharedPool::Rest, |chip| chip.pool);
        let slices = if let SharedPool::Full { slices } = rule { slices } else { 1 };
        let shared_lossless = if rule == SharedPool::Rest { rest } else { size };
        if shared_lossless == 0 {
            return Err(format!(
                "{}: size = \"{size}\" leaves nothing to share: {xoff_pool} B are xoff, {reserved} B are reserved by \
                 priority groups; write the pool's full size, or the chip: --chip",
                tables.place(POOL, LOSSLESS)
            ));
        }
        let shared = shared_lossless + lossy_pool;
        let queues = 8 * ports.len() as u64;
        let of_groups = |of: &[Profile]| port_headroom(of).unwrap_or(0) * of.len() as u64;
        let pooled = if xoff_pool > 0 { xoff_pool } else { profiles.values().map(|of| of_groups(of)).sum() };
        let total = private * queues + pooled + shared;

        let mut text = format!("\n[buffer]\nsize = \"{total}B\"\n");
        if let Some(cell_bytes) = chip.and_then(|chip| chip.cell_bytes) {
            let _ = writeln!(text, "cell_bytes = {cell_bytes}");
        }
        if slices > 1 {
            let _ = writeln!(text, "slices = {slices}");
        }
        if private > 0 {
            let _ = writeln!(text, "private = \"{private}B\"");
        }
        if !groups.is_empty() {
            let _ = writeln!(text, "headroom = \"{headroom}B\"");
        }
        let sum = match (rule, chip) {
            (SharedPool::Full { slices: 1 }, _) => format!("{size}, xoff and reservations aside"),
            (SharedPool::Full { slices }, _) => {
                format!("{size}, xoff and reservations aside, in buffer.slices = {slices}: a queue alone has one")
            }
            (SharedPool::Rest, Some(_)) => {
                format!("{size} - {xoff_pool} xoff - {reserved} reserved by priority groups")
            }
            (SharedPool::Rest, None) => format!(
                "{size} - {xoff_pool} xoff - {reserved} reserved by priority groups, as on td2 and td3; on NVIDIA's chips it is {size}, on th \
                 and th2 in 4 slices: the chip is unknown, see --chip"
            ),
        };
        let partition = PoolPartition {
            sum,
            is_known: chip.is_some(),
            xoff_pool,
            lossy_pool,
            shared,
            total,
            pooled,
            private,
            headroom,
        };
        partition.account_pools(tables);
        let threshold = common_threshold(tables, &groups);
        let resume = ResumeThreshold::new(&groups, private, threshold, frame_max);
        resume.write(&mut text);
        partition.account_profiles(tables, profiles);
        resume.account(tables, &groups);
        let lossy_alpha = lossy_alpha(tables, ports)?;
        match threshold {
            Threshold::Static(bytes) if is_static => {
                let slice = shared / slices;
                let limit = if bytes == 0 { slice } else { bytes.min(slice) };
                text += "policy = \"static\"\n";
                let _ = writeln!(text, "lossy_alpha = {lossy_alpha}\n\n[buffer.static]\nthreshold = \"{limit}B\"");
                let at = FieldPath::new(POOL, EGRESS_LOSSY, "size");
                tables.account(ImportOutcome::Refused, at, "lossy queues share the ingress pool under policy static");
                if xoff_pool > 0 {
                    let detail =
                        format!("policy static has {headroom} B of headroom for each queue, and no pool of it");
                    tables.account(ImportOutcome::Approximated, FieldPath::new(POOL, LOSSLESS, "xoff"), detail);
                }
            }
            threshold => {
                let n = if let Threshold::Dynamic(n) = threshold { n } else { 0 };
                text += "policy = \"sonic\"\n";
                let egress = egress_lossy(tables, shared)?;
                let _ = writeln!(
                    text,
                    "lossy_alpha = {lossy_alpha}\n\n[buffer.sonic]\nalpha = {}\ningress_pool = \"{shared}B\"\nheadroom_pool = \
                     \"{pooled}B\"\negress_lossy_pool = \"{egress}B\"",
                    alpha(n)
                );
            }
        }
        account_queues(tables, ports, classes);
        Ok(Buffer { text, headroom_of_port })
    }
}

fn no_pool(tables: &ConfigDb) -> String {
    let (pools, place) = (tables.keys(POOL), tables.place(POOL, LOSSLESS));
    let is_dynamic = tables.field("DEVICE_METADATA", "localhost", "buffer_model") == Some("dynamic");
    if pools.iter().any(|pool| pool == LOSSLESS) && is_dynamic {
        return format!(
            "{place} has no size: the switch reckons it while it runs (buffer_model = \"dynamic\"); take it from there: sonic-db-cli \
             APPL_DB hget BUFFER_POOL_TABLE:{LOSSLESS} size, and write it into the file"
        );
    }
    format!("{place} has no size; it is looked for in config_db.json, or in buffers.json as SONiC renders it")
}

/// Bytes that all priority groups of the switch reserve. Ports that are not imported have those of an imported one.
fn all_reserved(
    tables: &ConfigDb,
    profiles: &BTreeMap<String, Vec<Profile>>,
    classes: &Classes,
) -> Result<u64, String> {
    let of_lossless: u64 = profiles.values().flatten().map(|profile| profile.size).sum();
    let with_groups = profiles.values().filter(|of| !of.is_empty()).count();
    let per_port = of_lossless / with_groups.max(1) as u64;
    let all = tables.keys("PORT_QOS_MAP");
    let enabled = |key: &&String| tables.field("PORT_QOS_MAP", key, "pfc_enable").is_some_and(|text| !text.is_empty());
    let is_other = |port: &String| !profiles.contains_key(port) && !classes.skipped.contains(port);
    let mut others: Vec<String> = all.iter().filter(enabled).flat_map(|key| names(key)).filter(is_other).collect();
    others.sort();
    others.dedup();
    let mut lossy = 0;
    for key in tables.keys(GROUP) {
        let Some((of, numbers)) = tables.ports_and_numbers(&key) else { continue };
        let name = reference(tables.field(GROUP, &key, "profile").unwrap_or_default());
        let is_lossless = tables.field(PROFILE, name, "xoff").is_some();
        let pool = reference(tables.field(PROFILE, name, "pool").unwrap_or_default());
        if !is_lossless && pool == LOSSLESS {
            let size = tables.number::<u64>(PROFILE, name, "size")?.unwrap_or(0);
            lossy += size * (of.len() * numbers.len()) as u64;
        }
    }
    Ok(of_lossless + per_port * others.len() as u64 + lossy)
}

/// Partition of SONiC's buffer, and of Weir's, in bytes.
struct PoolPartition {
    /// Origin of `shared` in SONiC's values.
    sum: String,
    is_known: bool,
    xoff_pool: u64,
    lossy_pool: u64,
    /// Weir's ingress pool.
    shared: u64,
    /// `[buffer] size`.
    total: u64,
    /// Weir's pool of headroom.
    pooled: u64,
    /// Private buffer of each queue.
    private: u64,
    /// Headroom of each queue.
    headroom: u64,
}

impl PoolPartition {
    fn account_pools(&self, tables: &mut ConfigDb) {
        let PoolPartition { ref sum, is_known, xoff_pool: xoff, lossy_pool: lossy, shared, total, pooled, .. } = *self;
        let at = FieldPath::new(POOL, LOSSLESS, "size");
        if lossy == 0 {
            let outcome = if is_known { ImportOutcome::Taken } else { ImportOutcome::Approximated };
            tables.account(outcome, at, format!("buffer.sonic.ingress_pool = {shared} = {sum}; buffer.size = {total}"));
        } else {
            let detail = format!(
                "ingress_pool = {shared} = {sum}, + {lossy} of {LOSSY}: lossless and lossy classes share one pool here"
            );
            tables.account(ImportOutcome::Approximated, at, detail.clone());
            tables.account(ImportOutcome::Approximated, FieldPath::new(POOL, LOSSY, "size"), detail);
            tables.account(
                ImportOutcome::Approximated,
                FieldPath::new(POOL, LOSSY, "mode"),
                "lossy queues have their threshold at egress",
            );
            tables.account(ImportOutcome::Taken, FieldPath::new(POOL, LOSSY, "type"), "ingress");
        }
        if xoff > 0 {
            tables.account(
                ImportOutcome::Taken,
                FieldPath::new(POOL, LOSSLESS, "xoff"),
                format!("buffer.sonic.headroom_pool = {pooled}"),
            );
        } else {
            tables.account(
                ImportOutcome::Taken,
                FieldPath::new(POOL, LOSSLESS, "xoff"),
                "0: headroom is each group's own",
            );
        }
        for (field, detail) in [("mode", "the policy"), ("type", "ingress")] {
            tables.account(ImportOutcome::Taken, FieldPath::new(POOL, LOSSLESS, field), detail);
        }
        tables.account(ImportOutcome::Taken, FieldPath::new(POOL, EGRESS_LOSSY, "type"), "egress");
        tables.account(
            ImportOutcome::Taken,
            FieldPath::new(POOL, EGRESS_LOSSY, "mode"),
            "a threshold at each egress queue",
        );
        for (field, detail) in
            [("size", "the whole buffer: it bounds nothing"), ("mode", "no limit"), ("type", "egress")]
        {
            tables.account(ImportOutcome::Approximated, FieldPath::new(POOL, EGRESS_LOSSLESS, field), detail);
        }
    }

    /// Reports lossless profiles, except for their queues' resume thresholds.
    fn account_profiles(&self, tables: &mut ConfigDb, profiles: &BTreeMap<String, Vec<Profile>>) {
        let PoolPartition { private, headroom, xoff_pool, .. } = *self;
        let groups: Vec<&Profile> = profiles.values().flatten().collect();
        // Excess of a port's headroom over this profile's, due to another group of the port.
        let more = |profile: &Profile| {
            let ports = profiles.values().filter(|of| of.contains(profile));
            ports.flatten().map(|other| other.xoff.saturating_sub(profile.xoff)).max().unwrap_or(0)
        };
        for profile in each_once(&groups) {
            let at = |field| FieldPath::new(profile.table, profile.name.as_str(), field);
            tables.account(ImportOutcome::Taken, at("pool"), "the ingress pool");
            let own = if xoff_pool > 0 { profile.size } else { profile.size.saturating_sub(profile.xoff) };
            let detail = format!("buffer.private = {private} B, for lossy queues too: buffer.size is larger by theirs");
            let outcome = if own == private { ImportOutcome::Taken } else { ImportOutcome::Approximated };
            tables.account(outcome, at("size"), if private > 0 { detail } else { "all of it is headroom".to_owned() });
            let own = profile.xoff;
            let (outcome, detail) = match more(profile) {
                0 if own == headroom => (ImportOutcome::Taken, format!("buffer.headroom = {own} B")),
                0 => (ImportOutcome::Taken, format!("headroom = {own} B of its ports")),
                more => (
                    ImportOutcome::Approximated,
                    format!("headroom = {} B of its ports, {more} B more, as for another group there", own + more),
                ),
            };
            tables.account(outcome, at("xoff"), detail);
        }
    }
}

/// Returns the threshold of most lossless groups.
fn common_threshold(tables: &mut ConfigDb, groups: &[&Profile]) -> Threshold {
    if groups.is_empty() {
        return Threshold::Dynamic(0);
    }
    let common = most_common(groups.iter().map(|profile| profile.threshold));
    for profile in groups {
        for (field, mine) in [
            ("dynamic_th", matches!(profile.threshold, Threshold::Dynamic(_))),
            ("static_th", matches!(profile.threshold, Threshold::Static(_))),
            ("threshold", profile.table == LOOKUP),
        ] {
            if !mine {
                continue;
            }
            let detail = match (common, profile.threshold) {
                (Threshold::Dynamic(n), Threshold::Dynamic(_)) => {
                    format!("buffer.sonic.alpha = {} = 2^{n} of what is free in the pool", alpha(n))
                }
                (Threshold::Static(0), Threshold::Static(_)) => "no limit but the pool".to_owned(),
                (Threshold::Static(bytes), Threshold::Static(_)) => format!("buffer.static.threshold = {bytes} B"),
                _ => "all queues have a threshold of one kind, that of most groups".to_owned(),
            };
            let outcome = if common == profile.threshold { ImportOutcome::Taken } else { ImportOutcome::Approximated };
            let detail = if outcome == ImportOutcome::Taken { detail } else { format!("{detail}, at all ports") };
            tables.account(outcome, FieldPath::new(profile.table, &profile.name, field), detail);
        }
    }
    common
}

/// Returns α° of lossy egress queues.
fn lossy_alpha(tables: &mut ConfigDb, ports: &[Port]) -> Result<String, String> {
    let Some(name) = egress_lossy_profile(tables, ports) else { return Ok("1".to_owned()) };
    tables.account(ImportOutcome::Taken, FieldPath::new(PROFILE, &name, "pool"), "the egress lossy pool");
    if tables.number::<u64>(PROFILE, &name, "size")? == Some(0) {
        tables.account(ImportOutcome::Taken, FieldPath::new(PROFILE, &name, "size"), "nothing is reserved");
    } else {
        tables.account(ImportOutcome::Refused, FieldPath::new(PROFILE, &name, "size"), "egress queues reserve nothing");
    }
    if let Some(n) = tables.number::<i64>(PROFILE, &name, "dynamic_th")? {
        let detail = format!("buffer.lossy_alpha = {} = 2^{n} of what is free in the pool", alpha(n));
        tables.account(ImportOutcome::Taken, FieldPath::new(PROFILE, &name, "dynamic_th"), detail);
        return Ok(alpha(n));
    }
    let limit = tables.number::<u64>(PROFILE, &name, "static_th")?.unwrap_or(0);
    let pool = tables.number::<u64>(POOL, EGRESS_LOSSY, "size")?.unwrap_or(limit);
    let at = FieldPath::new(PROFILE, name.as_str(), "static_th");
    if limit == 0 || limit >= pool {
        tables.account(ImportOutcome::Approximated, at, "buffer.lossy_alpha = 128: a queue alone has 99 % of the pool");
        return Ok("128".to_owned());
    }
    // Steady state of a single queue: α (pool - limit) = limit.
    let n = (limit as f64 / (pool - limit) as f64).log2().round().clamp(-7.0, 7.0) as i64;
    let alone = pool as f64 * 2f64.powi(n as i32) / (1.0 + 2f64.powi(n as i32));
    let detail = format!("buffer.lossy_alpha = {}: a queue alone has up to {alone:.0} B, with others less", alpha(n));
    tables.account(ImportOutcome::Approximated, at, detail);
    Ok(alpha(n))
}

/// The profile of most of the ports' queues that are in the egress lossy pool.
fn egress_lossy_profile(tables: &ConfigDb, ports: &[Port]) -> Option<String> {
    let is_lossy =
        |name: &String| tables.field(PROFILE, name, "pool").is_some_and(|pool| reference(pool) == EGRESS_LOSSY);
    let of_key = |key: &String| {
        let name = reference(tables.field(QUEUE, key, "profile")?).to_owned();
        let (of, numbers) = tables.ports_and_numbers(key)?;
        let ours = ports.iter().filter(|port| of.contains(&port.sonic_name)).count();
        Some(std::iter::repeat_n(name, ours * numbers.len()))
    };
    let of_queues: Vec<String> = tables.keys(QUEUE).iter().filter_map(of_key).flatten().filter(is_lossy).collect();
    if of_queues.is_empty() {
        return tables.keys(PROFILE).into_iter().find(is_lossy);
    }
    Some(most_common(of_queues.into_iter()))
}

fn egress_lossy(tables: &mut ConfigDb, shared: u64) -> Result<u64, String> {
    let Some(own) = tables.number::<u64>(POOL, EGRESS_LOSSY, "size")? else { return Ok(shared) };
    let kept = own.min(shared);
    if kept == own {
        let detail = format!("buffer.sonic.egress_lossy_pool = {kept}");
        tables.account(ImportOutcome::Taken, FieldPath::new(POOL, EGRESS_LOSSY, "size"), detail);
    } else {
        let detail = format!(
            "buffer.sonic.egress_lossy_pool = {kept}, {} B less: it is no larger than the ingress pool, which all frames are in",
            own - kept
        );
        tables.account(ImportOutcome::Approximated, FieldPath::new(POOL, EGRESS_LOSSY, "size"), detail);
    }
    Ok(kept)
}

/// Reports queues' profiles and those of lossy groups.
fn account_queues(tables: &mut ConfigDb, ports: &[Port], classes: &Classes) {
    let is_ours = |of: &[String]| of.iter().any(|port| ports.iter().any(|known| known.sonic_name == *port));
    for table in [QUEUE, GROUP] {
        for key in tables.keys(table) {
            let Some((of, numbers)) = tables.ports_and_numbers(&key) else { continue };
            let at = FieldPath::new(table, key.as_str(), "profile");
            let name = reference(tables.field(table, &key, "profile").unwrap_or_default()).to_owned();
            let pool = reference(tables.field(PROFILE, &name, "pool").unwrap_or_default()).to_owned();
            let are_lossless = numbers.iter().all(|number| classes.lossless.contains(number));
            let (outcome, detail) = match (table, pool.as_str()) {
                _ if !is_ours(&of) => (ImportOutcome::Refused, "the port is not imported"),
                (QUEUE, EGRESS_LOSSLESS) if are_lossless => {
                    (ImportOutcome::Taken, "lossless queues have no limit at egress")
                }
                (QUEUE, EGRESS_LOSSLESS) => {
                    (ImportOutcome::Approximated, "a class that is not lossless has the threshold of lossy ones")
                }
                (QUEUE, EGRESS_LOSSY) => (ImportOutcome::Taken, "buffer.lossy_alpha and the egress lossy pool"),
                (QUEUE, _) => (ImportOutcome::Approximated, "buffer.lossy_alpha and the egress lossy pool"),
                // Lossless groups are accounted for where their profiles are read.
                (_, _) if are_lossless && tables.is_accounted(table, &key, "profile") => continue,
                (_, _) => (
                    ImportOutcome::Approximated,
                    "lossy classes have no threshold at ingress, and that of egress queues",
                ),
            };
            tables.account(outcome, at, detail);
        }
    }
    tables.account_rest(ImportOutcome::Refused, LOOKUP, "no imported port has this speed and cable");
    account_egress_lossless(tables);
    let port_list_profiles = account_port_lists(tables);
    for name in tables.keys(PROFILE) {
        let pool = reference(tables.field(PROFILE, &name, "pool").unwrap_or_default()).to_owned();
        let (outcome, detail) = match pool.as_str() {
            EGRESS_LOSSLESS => (
                ImportOutcome::Approximated,
                "lossless egress queues have no limit: what bounds them is the ingress side",
            ),
            _ if port_list_profiles.contains(&name) && !is_of_queues(tables, &name) => {
                (ImportOutcome::Refused, "a limit of whole ports: what bounds here is each queue's")
            }
            LOSSLESS | LOSSY if tables.field(PROFILE, &name, "xoff").is_none() => {
                (ImportOutcome::Approximated, "lossy classes have no threshold at ingress, and that of egress queues")
            }
            _ => (ImportOutcome::Refused, "no lossless group of an imported port has this profile"),
        };
        for field in tables.fields(PROFILE, &name).into_keys() {
            if !tables.is_accounted(PROFILE, &name, &field) {
                tables.account(outcome, FieldPath::new(PROFILE, &name, &field), detail);
            }
        }
    }
}

/// Reports the limits of whole ports as refused; returns the names of their profiles.
fn account_port_lists(tables: &mut ConfigDb) -> Vec<String> {
    let mut named = Vec::new();
    for table in ["BUFFER_PORT_INGRESS_PROFILE_LIST", "BUFFER_PORT_EGRESS_PROFILE_LIST"] {
        for key in tables.keys(table) {
            let list = tables.field(table, &key, "profile_list").unwrap_or_default();
            named.extend(list.split(',').map(|name| reference(name.trim()).to_owned()));
        }
        tables.account_rest(
            ImportOutcome::Refused,
            table,
            "a port as a whole has no limit here: what bounds are its queues'",
        );
    }
    named.sort();
    named.dedup();
    named
}

/// Whether a priority group or an egress queue has this profile.
fn is_of_queues(tables: &ConfigDb, name: &str) -> bool {
    [QUEUE, GROUP].into_iter().any(|table| {
        let names =
            |key: &String| tables.field(table, key, "profile").is_some_and(|profile| reference(profile) == name);
        tables.keys(table).iter().any(names)
    })
}

/// Reports the limits of SONiC's lossless egress queues, which Weir does not have, with their distance from the pool size.
fn account_egress_lossless(tables: &mut ConfigDb) {
    let size = tables.field(POOL, EGRESS_LOSSLESS, "size").and_then(|size| size.parse::<u64>().ok());
    for name in tables.keys(PROFILE) {
        if tables.field(PROFILE, &name, "pool").map(reference) != Some(EGRESS_LOSSLESS) {
            continue;
        }
        let number = |field| tables.field(PROFILE, &name, field).and_then(|value| value.parse::<i64>().ok());
        let (fixed, dynamic) = (number("static_th"), number("dynamic_th"));
        let at = |field| FieldPath::new(PROFILE, name.as_str(), field);
        if let Some(bytes) = fixed {
            let is_none = bytes == 0 || size.is_some_and(|size| bytes as u64 >= size);
            let outcome = if is_none { ImportOutcome::Taken } else { ImportOutcome::Approximated };
            let detail = if is_none {
                "no limit"
            } else {
                "lossless egress queues have no limit: frames beyond it wait in place of being dropped"
            };
            tables.account(outcome, at("static_th"), detail);
        }
        if let Some(n) = dynamic {
            let alone = 100.0 / (1.0 + 2f64.powi(-n.clamp(-10, 10) as i32));
            let detail = format!("no limit, where a queue alone has up to {alone:.1} % of the pool in SONiC");
            tables.account(ImportOutcome::Approximated, at("dynamic_th"), detail);
        }
        tables.account(ImportOutcome::Taken, at("pool"), "lossless queues at egress");
        if tables.field(PROFILE, &name, "size") == Some("0") {
            tables.account(ImportOutcome::Taken, at("size"), "nothing is reserved");
        }
    }
}

/// Formats α = 2^n for a switch file, with n limited to ±10: a larger n makes no difference.
fn alpha(n: i64) -> String {
    let n = n.clamp(-10, 10);
    if n >= 0 { (1u64 << n).to_string() } else { format!("\"1/{}\"", 1u64 << -n) }
}
