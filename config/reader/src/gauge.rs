//! What kinds show while they run.

/// A number that a kind shows while it runs: a buffer policy of a lossless ingress queue, a flow control of a class that it obeys
/// on, what controls a flow of that flow. Samples take it, and from its name and unit come the columns of series, the figures of
/// summaries and the sections of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauge {
    /// What its columns and figures are called after port and class, or flow: small letters, digits and `_`, with the unit last,
    /// as in `headroom_estimate_bytes`, `rate_bps`, `alpha`.
    pub name: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// What tables call it: `headroom estimate`.
    pub label: &'static str,
    /// The heading of its plots.
    pub title: &'static str,
    /// What it is, with the paper's symbol: the note of its plots.
    pub about: &'static str,
    /// Whether all queues of a port say the same.
    pub of_port: bool,
}

/// What a gauge counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes; the gauge's name ends with `_bytes`.
    Bytes,
    /// A bare number.
    Count,
    /// Whether the queue is in a state, 1 or 0.
    State {
        /// What tables say of a queue that is in the state.
        on: &'static str,
        /// What tables say of a queue that is not.
        off: &'static str,
    },
}

impl Gauge {
    /// A gauge that tables and plots call by its name; it counts bytes if the name ends with `_bytes`.
    pub const fn plain(name: &'static str, about: &'static str) -> Gauge {
        let unit =
            if matches!(name.as_bytes(), [.., b'_', b'b', b'y', b't', b'e', b's']) { Unit::Bytes } else { Unit::Count };
        Gauge::new(name, unit, name, about)
    }

    /// A gauge of each queue or flow.
    pub const fn new(name: &'static str, unit: Unit, label: &'static str, about: &'static str) -> Gauge {
        Gauge { name, unit, label, title: label, about, of_port: false }
    }

    /// All queues of a port say the same.
    pub const fn of_port(self) -> Gauge {
        Gauge { of_port: true, ..self }
    }

    /// With this heading.
    pub const fn titled(self, title: &'static str) -> Gauge {
        Gauge { title, ..self }
    }

    /// Whether its name can be a column's: small letters, digits and `_`, with `_bytes` last if and only if it counts bytes.
    pub fn is_well_named(&self) -> bool {
        let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let is_plain = self.name.starts_with(|c: char| c.is_ascii_lowercase()) && self.name.bytes().all(is_good);
        is_plain && self.name.ends_with("_bytes") == (self.unit == Unit::Bytes)
    }
}

/// What a kind shows of a queue: [its gauges](crate::Named::gauges) with their values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges([Option<(&'static Gauge, u64)>; Gauges::MAX]);

impl Gauges {
    /// The most gauges that a buffer policy or a flow control has.
    pub const MAX: usize = 4;
    /// Nothing to see.
    pub const NONE: Gauges = Gauges([None; Gauges::MAX]);

    /// These gauges. More than [`Gauges::MAX`] do not compile.
    pub fn of<const N: usize>(values: [(&'static Gauge, u64); N]) -> Gauges {
        const { assert!(N <= Gauges::MAX, "a kind has up to four gauges") };
        let mut gauges = Gauges::NONE;
        gauges.0.iter_mut().zip(values).for_each(|(place, value)| *place = Some(value));
        gauges
    }

    /// Each gauge with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Gauge, u64)> {
        self.0.into_iter().flatten()
    }

    /// The value of the gauge of this name.
    pub fn value(&self, name: &str) -> Option<u64> {
        self.iter().find(|(gauge, _)| gauge.name == name).map(|(_, value)| value)
    }
}

/// These gauges, each name once, as different kinds may show the same.
pub fn distinct_gauges<'g>(gauges: impl Iterator<Item = &'g Gauge>) -> Vec<&'g Gauge> {
    let mut distinct: Vec<&Gauge> = Vec::new();
    for gauge in gauges {
        if !distinct.iter().any(|other| other.name == gauge.name) {
            distinct.push(gauge);
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: Gauge = Gauge::plain("share_bytes", "A share.");

    #[test]
    fn names_are_columns() {
        let named = |name, unit| Gauge::new(name, unit, "label", "about").is_well_named();
        assert!(named("share_bytes", Unit::Bytes) && named("n_p", Unit::Count));
        for name in ["", "Share", "a.b", "a,b", "_bytes", "share"] {
            assert!(!named(name, Unit::Bytes), "{name}");
        }
        assert!(!named("share_bytes", Unit::Count));
    }

    #[test]
    fn values_are_found_by_name() {
        const N: Gauge = Gauge::new("n", Unit::Count, "n", "A number.");
        let gauges = Gauges::of([(&SHARE, 5), (&N, 7)]);
        assert_eq!([gauges.value("n"), gauges.value("m"), Gauges::NONE.value("n")], [Some(7), None, None]);
        assert_eq!(gauges.iter().map(|(gauge, _)| gauge.name).collect::<Vec<_>>(), ["share_bytes", "n"]);
    }
}
