//! What a policy lets be seen of a queue while it runs.

use weir_reader::is_column_name;

/// A number of a policy's own, of a lossless ingress queue, as samples take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauge {
    /// What its columns and figures are called after port and class: small letters, digits and `_`, with the unit last, as in
    /// `headroom_estimate_bytes`.
    pub name: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// What tables call it: `headroom estimate`.
    pub label: &'static str,
    /// The heading of its plots.
    pub title: &'static str,
    /// What it is, in a sentence: the note of its plots.
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
        /// What tables say of one that is.
        on: &'static str,
        /// Of one that is not.
        off: &'static str,
    },
}

impl Gauge {
    /// A gauge of each queue.
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
        let is_plain = self.name.starts_with(|c: char| c.is_ascii_lowercase()) && is_column_name(self.name);
        is_plain && self.name.ends_with("_bytes") == (self.unit == Unit::Bytes)
    }
}

/// What a policy shows of a queue: gauges of its [kind](super::PolicyKind::gauges) with their values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges([Option<(&'static Gauge, u64)>; Gauges::MAX]);

impl Gauges {
    /// The most gauges that a policy has.
    pub const MAX: usize = 4;
    /// Nothing to see.
    pub const NONE: Gauges = Gauges([None; Gauges::MAX]);

    /// These gauges. More than [`Gauges::MAX`] do not compile.
    pub fn of<const N: usize>(values: [(&'static Gauge, u64); N]) -> Gauges {
        const { assert!(N <= Gauges::MAX, "a policy has up to four gauges") };
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

/// The headroom that a queue needs, as DSH and adaptive headroom reckon it.
pub const HEADROOM_ESTIMATE: Gauge = Gauge::new(
    "headroom_estimate_bytes",
    Unit::Bytes,
    "headroom estimate",
    "DSH: the estimate φ̂ of each queue; adaptive headroom: Φ as measured.",
)
.titled("Headroom as the policy reckons it");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_columns() {
        let named = |name, unit| Gauge::new(name, unit, "label", "about").is_well_named();
        assert!(named("headroom_estimate_bytes", Unit::Bytes) && named("n_p", Unit::Count));
        for name in ["", "Share", "a.b", "a,b", "_bytes", "share"] {
            assert!(!named(name, Unit::Bytes), "{name}");
        }
        assert!(!named("share_bytes", Unit::Count));
    }

    #[test]
    fn values_are_found_by_name() {
        const N: Gauge = Gauge::new("n", Unit::Count, "n", "A number.");
        let gauges = Gauges::of([(&HEADROOM_ESTIMATE, 5), (&N, 7)]);
        assert_eq!([gauges.value("n"), gauges.value("m"), Gauges::NONE.value("n")], [Some(7), None, None]);
        assert_eq!(gauges.iter().map(|(gauge, _)| gauge.name).collect::<Vec<_>>(), ["headroom_estimate_bytes", "n"]);
    }
}
