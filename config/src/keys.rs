//! Known tables and keys of a kind of file, and what to write for one that is not known.

use crate::PolicyConfig;

/// A table that a kind of file may have, with its keys: what is not among them is unknown.
#[derive(Clone, Copy, Debug)]
pub struct KnownTable {
    /// Its name as the reference writes it, `buffer.dt`; empty for the file's top level. The tables of an array share one.
    pub name: &'static str,
    /// Its keys; none where they are code points or the like, which whoever reads them checks.
    pub keys: &'static [&'static str],
    shape: Shape,
    chosen: Option<(&'static str, &'static str)>,
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Table,
    Array,
    Inline(&'static str),
}

impl KnownTable {
    /// `[name]`.
    pub const fn table(name: &'static str, keys: &'static [&'static str]) -> KnownTable {
        KnownTable { name, keys, shape: Shape::Table, chosen: None }
    }

    /// `[[name]]`.
    pub const fn array(name: &'static str, keys: &'static [&'static str]) -> KnownTable {
        KnownTable { shape: Shape::Array, ..KnownTable::table(name, keys) }
    }

    /// A table that is written as a value; messages call it `shown`.
    pub const fn inline(name: &'static str, shown: &'static str, keys: &'static [&'static str]) -> KnownTable {
        KnownTable { shape: Shape::Inline(shown), ..KnownTable::table(name, keys) }
    }

    /// The word at `key`, by default this one, names the table below that counts.
    const fn choosing(self, key: &'static str, default: &'static str) -> KnownTable {
        KnownTable { chosen: Some((key, default)), ..self }
    }
}

/// All tables and keys of a switch's file.
pub(crate) const TABLES: &[KnownTable] = &[
    KnownTable::table("", &["switch", "lcores", "buffer", "classes", "pfc", "pfc_watchdog", "ports", "static_macs"]),
    KnownTable::table("switch", &["name", "idle", "time_dilation", "mtu", "mac_ageing", "stats_interval", "telemetry"]),
    KnownTable::table("lcores", &["layout", "cores", "catch_up"]),
    KnownTable::table(
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
    )
    .choosing("policy", PolicyConfig::DEFAULT_NAME),
    KnownTable::table("buffer.static", &["threshold"]),
    KnownTable::table("buffer.dt", &["alpha"]),
    KnownTable::table("buffer.spfc", &["alpha", "k_spfc", "tc"]),
    KnownTable::table("buffer.sih", &["alpha"]),
    KnownTable::table("buffer.oversubscribed", &["alpha", "headroom_percent"]),
    KnownTable::table("buffer.adaptive", &["alpha", "samples"]),
    KnownTable::table(
        "buffer.dsh",
        &["alpha", "estimator", "w_g", "w_v", "k", "window", "port_xon_offset", "insurance", "shared_headroom"],
    ),
    KnownTable::table("buffer.sonic", &["alpha", "ingress_pool", "headroom_pool", "egress_lossy_pool"]),
    KnownTable::table(
        "buffer.abm",
        &["alpha", "ingress_pool", "headroom_pool", "egress_lossy_pool", "congested", "interval"],
    ),
    KnownTable::table("buffer.reverie", &["alpha", "gamma", "congested"]),
    KnownTable::table("classes", &["preset", "lossless", "trust", "dscp", "pcp", "queues"]),
    // The keys of these two are code points.
    KnownTable::table("classes.dscp", &[]),
    KnownTable::table("classes.pcp", &[]),
    KnownTable::array(
        "classes.queues",
        &["class", "strict", "quantum", "weight", "rate", "ecn", "arbitration", "arbitration_burst"],
    ),
    KnownTable::inline("classes.queues.ecn", "`ecn` of [[classes.queues]]", &["kmin", "kmax", "pmax"]),
    KnownTable::table("pfc", &["quanta", "refresh_percent", "reaction"]),
    KnownTable::table("pfc_watchdog", &["action", "detection_time", "restoration_time", "poll_interval", "condition"]),
    KnownTable::array(
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
            "device_flow_control",
            "rx_descriptors",
            "priority",
        ],
    ),
    KnownTable::inline("ports.pci", "`pci` of [[ports]]", &["address", "devargs"]),
    KnownTable::inline("ports.device_flow_control", "`device_flow_control` of [[ports]]", &["require"]),
    KnownTable::inline(
        "ports.vhost_user",
        "`vhost_user` of [[ports]]",
        &["socket", "client", "queues", "mode", "group"],
    ),
    KnownTable::inline("ports.memif", "`memif` of [[ports]]", &["socket", "id", "role", "mode", "group"]),
    KnownTable::inline("ports.pcap", "`pcap` of [[ports]]", &["rx", "tx", "infinite"]),
    KnownTable::inline("ports.null", "`null` of [[ports]]", &["frame_bytes"]),
    KnownTable::table(
        "ports.flow_control",
        &[
            "kind",
            "tau",
            "b_m",
            "b_1",
            "b_0",
            "refresh",
            "ageing",
            "period",
            "peer",
            "pulse_period",
            "buffer",
            "unsafe_thresholds",
        ],
    ),
    KnownTable::array("static_macs", &["mac", "port"]),
];

/// The keys of `[[ports]]` that name a device; a port has exactly one of them.
pub const DEVICE_KEYS: &[&str] =
    &["pci", "af_packet", "af_xdp", "tap", "vhost_user", "memif", "ring", "pcap", "null", "clone_of"];

/// Every table of a switch's file with its keys, in the order of the reference; the file's top level has an empty name.
pub fn known_keys() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    TABLES.iter().map(|table| (table.name, table.keys))
}

/// The tables that a kind of file may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known(pub(crate) &'static [KnownTable]);

impl Known {
    fn find(self, table: &str) -> Option<&'static KnownTable> {
        self.0.iter().find(|known| known.name == table)
    }

    /// The keys of a table. An unlisted name has none.
    pub(crate) fn keys_of(self, table: &str) -> &'static [&'static str] {
        self.find(table).map_or(&[], |known| known.keys)
    }

    /// The key of a table whose word names the table below that counts, and the word where there is none.
    pub(crate) fn chosen_by(self, table: &str) -> Option<(&'static str, &'static str)> {
        self.find(table)?.chosen
    }

    /// What to write in place of a key that `table` does not have. Of several tables that have it, the one of the chosen
    /// name, such as the buffer's policy, is meant, where that is known.
    pub(crate) fn suggestion(self, table: &str, key: &str, chosen: Option<&str>) -> String {
        if let Some(near) = self.meant(table, key) {
            return format!("write `{near}`");
        }
        let others = self.0.iter().filter(|known| known.name != table && known.keys.contains(&key));
        let homes: Vec<&str> = others.map(|known| known.name).collect();
        let is_chosen = |home: &&str| chosen.is_some_and(|chosen| below(home, table) == Some(chosen));
        let home = match (homes.iter().copied().find(is_chosen), &homes[..]) {
            (Some(home), _) | (None, &[home]) => self.bracketed(home),
            (None, &[home, other]) => format!("{} or {}", self.bracketed(home), self.bracketed(other)),
            (None, &[home, ..]) => format!("a table such as {}", self.bracketed(home)),
            (None, []) => match self.keys_of(table) {
                [] => return "take it out".to_owned(),
                keys => return format!("take it out; {} has: {}", self.bracketed(table), keys.join(", ")),
            },
        };
        format!("`{key}` belongs in {home}; or take it out")
    }

    /// The key of `table` that an unknown one is a slip of. A key that a table below has is none.
    pub(crate) fn meant(self, table: &str, key: &str) -> Option<&'static str> {
        let is_of_below = self.0.iter().any(|known| below(known.name, table).is_some() && known.keys.contains(&key));
        if is_of_below { None } else { nearest(key, self.keys_of(table)) }
    }

    /// A table as it stands in a file: `[buffer]`, `[[ports]]`.
    pub(crate) fn bracketed(self, table: &str) -> String {
        match self.find(table).map_or(Shape::Table, |known| known.shape) {
            _ if table.is_empty() => "the top level".to_owned(),
            Shape::Table => format!("[{table}]"),
            Shape::Array => format!("[[{table}]]"),
            Shape::Inline(shown) => shown.to_owned(),
        }
    }
}

/// What the name of a table has after that of a table that it is below.
fn below<'n>(name: &'n str, table: &str) -> Option<&'n str> {
    name.strip_prefix(table)?.strip_prefix('.')
}

/// The known word that `word` most likely should have been, if one is near enough.
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn keys_of(table: &str) -> &'static [&'static str] {
        Known(TABLES).keys_of(table)
    }

    fn suggestion(table: &str, key: &str, policy: Option<&str>) -> String {
        Known(TABLES).suggestion(table, key, policy)
    }

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
