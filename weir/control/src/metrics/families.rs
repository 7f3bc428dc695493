//! Families of values: a name, a type, a line of help, and a value for each set of labels.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use crate::state::ByClass;

/// Labels of one value.
pub(super) type Labels = Vec<(&'static str, String)>;

pub(super) fn labels<const N: usize>(pairs: [(&'static str, &String); N]) -> Labels {
    pairs.into_iter().map(|(name, value)| (name, value.clone())).collect()
}

pub(super) fn class_labels(switch: &str, port: &str, class: usize) -> Labels {
    vec![("switch", switch.to_owned()), ("port", port.to_owned()), ("priority", class.to_string())]
}

pub(super) fn by_class(switch: &str, port: &str, values: &ByClass) -> impl Iterator<Item = (Labels, u64)> {
    let rows = values.iter().enumerate().map(|(class, value)| (class_labels(switch, port, class), *value));
    rows.collect::<Vec<_>>().into_iter()
}

/// Writes families of values, each with its type and help.
pub(super) struct Families<'f, 'e> {
    pub(super) encoder: &'f mut DescriptorEncoder<'e>,
}

impl Families<'_, '_> {
    pub(super) fn counter<N: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        rows: impl IntoIterator<Item = (Labels, N)>,
    ) -> fmt::Result {
        self.family(name, help, unit, MetricType::Counter, rows.into_iter().map(|(of, n)| (of, ConstCounter::new(n))))
    }

    pub(super) fn gauge<N: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        rows: impl IntoIterator<Item = (Labels, N)>,
    ) -> fmt::Result {
        self.family(name, help, unit, MetricType::Gauge, rows.into_iter().map(|(of, n)| (of, ConstGauge::new(n))))
    }

    pub(super) fn family<M: EncodeMetric>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        kind: MetricType,
        rows: impl Iterator<Item = (Labels, M)>,
    ) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
        for (labels, value) in rows {
            value.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
