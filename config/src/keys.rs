//! Every table and key of the file, once: what is not here is unknown.

/// A table's name as the reference writes it, and its keys. The table without a name is the file's top level.
pub(crate) type KnownTable = (&'static str, &'static [&'static str]);

/// All tables and keys.
pub(crate) const TABLES: &[KnownTable] = &[
    ("", &["switch", "lcores", "buffer", "classes", "pfc", "pfc_watchdog", "ports", "static_macs"]),
    ("switch", &["name", "idle", "time_dilation", "mtu", "mac_ageing", "stats_interval"]),
    ("lcores", &["layout", "cores"]),
    (
        "buffer",
        &[
            "size",
            "cell_bytes",
            "private",
            "headroom",
            "xon_offset",
            "policy",
            "lossy_alpha",
            "static",
            "dt",
            "spfc",
            "sih",
            "oversubscribed",
            "adaptive",
            "dsh",
            "sonic",
            "abm",
            "reverie",
        ],
    ),
    ("buffer.static", &["threshold"]),
    ("buffer.dt", &["alpha"]),
    ("buffer.spfc", &["alpha", "k_spfc", "tc"]),
    ("buffer.sih", &["alpha"]),
    ("buffer.oversubscribed", &["alpha", "headroom_percent"]),
    ("buffer.adaptive", &["alpha", "samples"]),
    (
        "buffer.dsh",
        &["alpha", "estimator", "w_g", "w_v", "k", "window", "port_xon_offset", "insurance", "shared_headroom"],
    ),
    ("buffer.sonic", &["alpha", "ingress_pool", "headroom_pool", "egress_lossy_pool"]),
    ("buffer.abm", &["alpha", "ingress_pool", "headroom_pool", "egress_lossy_pool", "congested", "interval"]),
    ("buffer.reverie", &["alpha", "gamma", "congested"]),
    ("classes", &["preset", "lossless", "trust", "dscp", "pcp", "queues"]),
    // The keys of these two are code points.
    ("classes.dscp", &[]),
    ("classes.pcp", &[]),
    ("classes.queues", &["class", "strict", "quantum", "weight", "rate", "ecn", "arbitration", "arbitration_burst"]),
    ("classes.queues.ecn", &["kmin", "kmax", "pmax"]),
    ("pfc", &["quanta", "refresh_percent", "reaction"]),
    ("pfc_watchdog", &["action", "detection_time", "restoration_time", "poll_interval", "condition"]),
    (
        "ports",
        &[
            "name",
            "pci",
            "af_packet",
            "af_xdp",
            "tap",
            "vhost_user",
            "memif",
            "ring",
            "pcap",
            "null",
            "clone_of",
            "rate",
            "delay",
            "mac",
            "flow_control",
            "priority",
        ],
    ),
    ("ports.memif", &["socket", "id", "role"]),
    ("ports.pcap", &["rx", "tx", "infinite"]),
    ("ports.null", &["frame_bytes"]),
    (
        "ports.flow_control",
        &[
            "kind",
            "tau",
            "b_m",
            "b_1",
            "b_0",
            "refresh",
            "period",
            "peer",
            "pulse_period",
            "buffer",
            "unsafe_thresholds",
        ],
    ),
    ("static_macs", &["mac", "port"]),
];

/// The keys of `[[ports]]` that name a device; a port has exactly one of them.
pub(crate) const DEVICE_KEYS: &[&str] =
    &["pci", "af_packet", "af_xdp", "tap", "vhost_user", "memif", "ring", "pcap", "null", "clone_of"];

/// Every table with its keys, in the order of the reference; the file's top level has an empty name.
pub fn known_keys() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    TABLES.iter().copied()
}

/// The keys of a table. An unlisted name has none.
pub(crate) fn keys_of(table: &str) -> &'static [&'static str] {
    TABLES.iter().find(|(name, _)| *name == table).map_or(&[], |(_, keys)| keys)
}

/// What to write in place of a key that `table` does not have. Of several tables that have it, the one of the chosen
/// buffer policy is meant, where that is known.
pub(crate) fn suggestion(table: &str, key: &str, policy: Option<&str>) -> String {
    if let Some(near) = meant(table, key) {
        return format!("write `{near}`");
    }
    let homes: Vec<&str> =
        TABLES.iter().filter(|(name, keys)| *name != table && keys.contains(&key)).map(|(name, _)| *name).collect();
    let of_policy = |home: &&str| policy.is_some_and(|policy| home.strip_prefix("buffer.") == Some(policy));
    let home = match (homes.iter().copied().find(of_policy), &homes[..]) {
        (Some(home), _) | (None, &[home]) => bracketed(home),
        (None, &[home, other]) => format!("{} or {}", bracketed(home), bracketed(other)),
        (None, &[home, ..]) => format!("a table such as {}", bracketed(home)),
        (None, []) => match keys_of(table) {
            [] => return "take it out".to_owned(),
            keys => return format!("take it out; {} has: {}", bracketed(table), keys.join(", ")),
        },
    };
    format!("`{key}` belongs in {home}; or take it out")
}

/// The key of `table` that an unknown one is a slip of. A key that a table below has is none.
pub(crate) fn meant(table: &str, key: &str) -> Option<&'static str> {
    let below = |name: &str| name.strip_prefix(table).is_some_and(|rest| rest.starts_with('.'));
    let is_of_below = TABLES.iter().any(|(name, keys)| below(name) && keys.contains(&key));
    if is_of_below { None } else { nearest(key, keys_of(table)) }
}

/// The known word that `word` most likely should have been, if one is near enough.
pub(crate) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let same = |a: &str, b: &str| a.to_lowercase().replace('-', "_") == b.replace('-', "_");
    if let Some(near) = known.iter().find(|near| same(word, near)) {
        return Some(near);
    }
    // The distance is quadratic in the length; nothing this long is a slip of a known word.
    if word.len() > 40 {
        return None;
    }
    let distance = |near: &&str| strsim::damerau_levenshtein(word, near);
    let near = known.iter().copied().min_by_key(distance)?;
    let length = near.len().min(word.len());
    let same_start = word.chars().next() == near.chars().next();
    let slips_allowed = (length / if same_start { 2 } else { 3 }).clamp(1, 3);
    (distance(&near) <= slips_allowed && near.len() > 1).then_some(near)
}

/// A table as it stands in a file: `[buffer]`, `[[ports]]`.
pub(crate) fn bracketed(table: &str) -> String {
    match table {
        "" => "the top level".to_owned(),
        "ports" | "static_macs" | "classes.queues" => format!("[[{table}]]"),
        "classes.queues.ecn" => "`ecn` of [[classes.queues]]".to_owned(),
        "ports.memif" | "ports.pcap" | "ports.null" => {
            format!("`{}` of [[ports]]", table.trim_start_matches("ports."))
        }
        _ => format!("[{table}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_find_their_key() {
        assert_eq!(nearest("polcy", keys_of("buffer")), Some("policy"));
        assert_eq!(nearest("xon-offset", keys_of("buffer")), Some("xon_offset"));
        assert_eq!(nearest("alfa", keys_of("buffer.dt")), Some("alpha"));
        assert_eq!(nearest("Rate", keys_of("ports")), Some("rate"));
        assert_eq!(nearest("quantum", keys_of("ports")), None);
    }

    #[test]
    fn a_key_of_another_table_is_sent_home() {
        let home = |table, key| suggestion(table, key, None);
        assert_eq!(home("buffer", "threshold"), "`threshold` belongs in [buffer.static]; or take it out");
        assert_eq!(home("switch", "rate"), "`rate` belongs in [[classes.queues]] or [[ports]]; or take it out");
        assert_eq!(home("buffer.dt", "gamma"), "`gamma` belongs in [buffer.reverie]; or take it out");
        // Near as `tap` is.
        assert_eq!(home("ports", "tau"), "`tau` belongs in [ports.flow_control]; or take it out");
    }

    #[test]
    fn of_several_homes_the_chosen_policys_is_meant() {
        let home = |table, key, policy| suggestion(table, key, Some(policy));
        assert_eq!(home("buffer", "alpha", "spfc"), "`alpha` belongs in [buffer.spfc]; or take it out");
        assert_eq!(home("buffer", "alpha", "static"), "`alpha` belongs in a table such as [buffer.dt]; or take it out");
        assert_eq!(
            home("buffer", "congested", "dt"),
            "`congested` belongs in [buffer.abm] or [buffer.reverie]; or take it out"
        );
    }
}
