//! Gauges that kinds report at run time.

/// Gauge that a kind reports at run time: a buffer policy for a lossless ingress queue, a flow control for a class that it obeys, a
/// congestion control for a flow. Samples record it. Its name and unit make the columns of series, the figures of summaries and the
/// sections of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauge {
    /// Name in columns and figures, after port and class, or flow. Lower-case letters, digits and `_`, with the unit last, as in
    /// `headroom_estimate_bytes`, `rate_bps`, `alpha`.
    pub name: &'static str,
    /// Unit of the value.
    pub unit: Unit,
    /// Label in tables, as in `headroom estimate`.
    pub label: &'static str,
    /// Heading of its plots.
    pub title: &'static str,
    /// Description with the paper's symbol: the note of its plots.
    pub help: &'static str,
    /// Whether all queues of a port have the same value.
    pub of_port: bool,
}

/// Unit of a gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes; the gauge's name ends with `_bytes`.
    Bytes,
    /// Dimensionless number.
    Count,
    /// State of the queue, 1 or 0.
    State {
        /// Label in tables of a queue that is in the state.
        on: &'static str,
        /// Label in tables of a queue that is not in the state.
        off: &'static str,
    },
}

impl Gauge {
    /// Creates a gauge with its name as label and title. Its unit is bytes if the name ends with `_bytes`.
    pub const fn plain(name: &'static str, help: &'static str) -> Gauge {
        let unit =
            if matches!(name.as_bytes(), [.., b'_', b'b', b'y', b't', b'e', b's']) { Unit::Bytes } else { Unit::Count };
        Gauge::new(name, unit, name, help)
    }

    /// Creates a gauge of each queue or flow.
    pub const fn new(name: &'static str, unit: Unit, label: &'static str, help: &'static str) -> Gauge {
        Gauge { name, unit, label, title: label, help, of_port: false }
    }

    /// Marks the gauge as equal for all queues of a port.
    pub const fn of_port(self) -> Gauge {
        Gauge { of_port: true, ..self }
    }

    /// Sets the title.
    pub const fn titled(self, title: &'static str) -> Gauge {
        Gauge { title, ..self }
    }

    /// Whether the name is valid for a column: lower-case letters, digits and `_`, with `_bytes` last if and only if the unit is bytes.
    pub fn is_well_named(&self) -> bool {
        let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let is_plain = self.name.starts_with(|c: char| c.is_ascii_lowercase()) && self.name.bytes().all(is_good);
        is_plain && self.name.ends_with("_bytes") == (self.unit == Unit::Bytes)
    }
}

/// Values of [a kind's gauges](crate::Plugin::gauges) for a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges([Option<(&'static Gauge, u64)>; Gauges::MAX]);

impl Gauges {
    /// Maximum number of gauges of a buffer policy or a flow control.
    pub const MAX: usize = 4;
    /// Empty set of gauges.
    pub const NONE: Gauges = Gauges([None; Gauges::MAX]);

    /// Creates a set of gauges. More than [`Gauges::MAX`] do not compile.
    pub fn new<const N: usize>(values: [(&'static Gauge, u64); N]) -> Gauges {
        const { assert!(N <= Gauges::MAX, "a kind has up to four gauges") };
        let mut gauges = Gauges::NONE;
        gauges.0.iter_mut().zip(values).for_each(|(place, value)| *place = Some(value));
        gauges
    }

    /// Returns each gauge with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Gauge, u64)> {
        self.0.into_iter().flatten()
    }

    /// Value of the gauge of this name.
    pub fn value(&self, name: &str) -> Option<u64> {
        self.iter().find(|(gauge, _)| gauge.name == name).map(|(_, value)| value)
    }
}

/// Gauges with distinct names, as different kinds may share a gauge.
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
        let named = |name, unit| Gauge::new(name, unit, "label", "help").is_well_named();
        assert!(named("share_bytes", Unit::Bytes) && named("n_p", Unit::Count));
        for name in ["", "Share", "a.b", "a,b", "_bytes", "share"] {
            assert!(!named(name, Unit::Bytes), "{name}");
        }
        assert!(!named("share_bytes", Unit::Count));
    }

    #[test]
    fn values_are_found_by_name() {
        const N: Gauge = Gauge::new("n", Unit::Count, "n", "A number.");
        let gauges = Gauges::new([(&SHARE, 5), (&N, 7)]);
        assert_eq!([gauges.value("n"), gauges.value("m"), Gauges::NONE.value("n")], [Some(7), None, None]);
        assert_eq!(gauges.iter().map(|(gauge, _)| gauge.name).collect::<Vec<_>>(), ["share_bytes", "n"]);
    }
}
