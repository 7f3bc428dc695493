//! Sample statistics of queues' gauges in a summary.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_flowctl::FLOW_CONTROLS;
use weir_mmu::policy::{BUFFER_POLICIES, Gauge, Unit};
use weir_reader::distinct_gauges;

/// Returns the gauges of a queue: those of all buffer policies and flow controls of the program, each name once.
pub fn queue_gauges() -> Vec<&'static Gauge> {
    distinct_gauges(BUFFER_POLICIES.gauges().into_iter().chain(FLOW_CONTROLS.gauges()))
}

/// Sample statistics of a queue's gauges, by name, in the order of [`queue_gauges`]. All policies and flow controls of the program
/// are included; a gauge that the queue does not have is `null`.
///
/// | gauge | figures |
/// |---|---|
/// | state: `victim` | `victim_permille`: samples of 1,000 in which the state was on |
/// | bytes: `headroom_estimate_bytes` | last value `headroom_estimate_bytes`, maximum `headroom_estimate_max_bytes` |
/// | number: `n` | last value `n`, maximum `n_max` |
///
/// Windows have no last value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GaugeFigures(Vec<(String, Option<u64>)>);

/// Sample statistics of one gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GaugeSamples {
    /// Number of samples of 1,000 in which the state was on.
    pub(crate) permille: u64,
    /// Last value.
    pub(crate) last: u64,
    /// Highest value.
    pub(crate) max: u64,
}

impl GaugeFigures {
    /// Collects the statistics of a whole run.
    pub(crate) fn of_run(samples: impl Fn(&Gauge) -> Option<GaugeSamples>) -> GaugeFigures {
        GaugeFigures::build(samples, true)
    }

    /// Collects the statistics of a window.
    pub(crate) fn of_window(samples: impl Fn(&Gauge) -> Option<GaugeSamples>) -> GaugeFigures {
        GaugeFigures::build(samples, false)
    }

    /// Returns all names of a run's statistics, without values.
    pub fn names_of_run() -> GaugeFigures {
        GaugeFigures::of_run(|_| None)
    }

    /// Returns all names of a window's statistics, without values.
    pub fn names_of_window() -> GaugeFigures {
        GaugeFigures::of_window(|_| None)
    }

    fn build(samples: impl Fn(&Gauge) -> Option<GaugeSamples>, with_last: bool) -> GaugeFigures {
        let mut figures = Vec::new();
        for gauge in queue_gauges() {
            let (name, samples) = (gauge.name, samples(gauge));
            if let Unit::State { .. } = gauge.unit {
                figures.push((format!("{name}_permille"), samples.map(|samples| samples.permille)));
                continue;
            }
            if with_last {
                figures.push((name.to_owned(), samples.map(|samples| samples.last)));
            }
            let max = match name.strip_suffix("_bytes") {
                Some(stem) => format!("{stem}_max_bytes"),
                None => format!("{name}_max"),
            };
            figures.push((max, samples.map(|samples| samples.max)));
        }
        GaugeFigures(figures)
    }

    /// Returns a statistic by name; `None` without a value or such a name.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.iter().find(|(figure, _)| figure == name).and_then(|(_, value)| *value)
    }

    /// Returns all statistics with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<u64>)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

impl Serialize for GaugeFigures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        self.0.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for GaugeFigures {
    /// Reads all keys without a field of their own: the summary may be of a program with other policies.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GaugeFigures, D::Error> {
        struct Figures;

        impl<'de> Visitor<'de> for Figures {
            type Value = GaugeFigures;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("whole numbers by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<GaugeFigures, A::Error> {
                let mut figures = Vec::new();
                while let Some(figure) = map.next_entry()? {
                    figures.push(figure);
                }
                Ok(GaugeFigures(figures))
            }
        }

        deserializer.deserialize_map(Figures)
    }
}

impl From<BTreeMap<String, u64>> for GaugeFigures {
    fn from(figures: BTreeMap<String, u64>) -> GaugeFigures {
        GaugeFigures(figures.into_iter().map(|(name, value)| (name, Some(value))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_gauges_names() {
        let names = |figures: &GaugeFigures| figures.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
        let run = GaugeFigures::names_of_run();
        assert_eq!(names(&run), ["victim_permille", "headroom_estimate_bytes", "headroom_estimate_max_bytes"]);
        assert_eq!(names(&GaugeFigures::names_of_window()), ["victim_permille", "headroom_estimate_max_bytes"]);
    }

    #[test]
    fn summaries_of_other_programs_are_read() {
        let text = "{\"share_max\":7,\"victim_permille\":null}";
        let figures: GaugeFigures = serde_json::from_str(text).unwrap();
        assert_eq!((figures.get("share_max"), figures.get("victim_permille")), (Some(7), None));
        assert_eq!(serde_json::to_string(&figures).unwrap(), text);
        assert!(serde_json::from_str::<GaugeFigures>("{\"share_max\":\"seven\"}").is_err());
    }
}
