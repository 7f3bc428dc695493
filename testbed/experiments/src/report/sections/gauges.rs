//! Columns of a series that are gauges of buffer policies, flow controls and congestion controls.

use weir_reader::{Gauge, Unit};
use weir_results::run_dir::{FLOW_COLUMNS, QUEUE_COLUMNS, column_names, queue_gauges};

use crate::report::series::SeriesFile;

/// Gauge with a column in a series, with its texts.
pub(super) struct GaugeColumn {
    /// Suffix of the column's name, after port and class.
    pub name: String,
    /// Name in tables.
    pub label: String,
    pub title: String,
    pub about: String,
    /// Name of the state that the gauge reports, for a gauge of a state.
    pub state: Option<String>,
    /// Whether all queues of a port have the same value.
    pub of_port: bool,
}

impl GaugeColumn {
    /// Anchor for links.
    pub(super) fn id(&self) -> String {
        self.name.trim_end_matches("_bytes").replace('_', "-")
    }

    fn known(gauge: &Gauge) -> GaugeColumn {
        GaugeColumn {
            name: gauge.name.to_owned(),
            label: gauge.label.to_owned(),
            title: gauge.title.to_owned(),
            about: gauge.help.to_owned(),
            state: match gauge.unit {
                Unit::State { on, .. } => Some(on.to_owned()),
                Unit::Bytes | Unit::Count => None,
            },
            of_port: gauge.of_port,
        }
    }

    /// Gauge of a policy or flow control that this program lacks: only its name is known.
    fn unknown(name: &str) -> GaugeColumn {
        let label = name.trim_end_matches("_bytes").replace('_', " ");
        GaugeColumn {
            name: name.to_owned(),
            title: label.clone(),
            about: format!("Column {name} of series.csv, of a policy or flow control that this weir does not have."),
            label,
            state: None,
            of_port: false,
        }
    }
}

/// Names of the flows' gauges in the series, without the standard columns.
pub(crate) fn flow_gauge_names<'f>(files: impl Iterator<Item = &'f SeriesFile>, flows: &[String]) -> Vec<String> {
    let mut gauges: Vec<String> = Vec::new();
    for column in files.flat_map(SeriesFile::columns) {
        let Some((flow, name)) = column.name.rsplit_once('.') else { continue };
        let is_gauge =
            !column_names(FLOW_COLUMNS).any(|column| column == name) && !gauges.iter().any(|gauge| gauge == name);
        if is_gauge && flows.iter().any(|other| other == flow) {
            gauges.push(name.to_owned());
        }
    }
    gauges
}

/// Gauges of queues in the series, those that the program knows first.
pub(super) fn queue_gauge_columns<'f>(files: impl Iterator<Item = &'f SeriesFile>) -> Vec<GaugeColumn> {
    let mut gauges: Vec<GaugeColumn> = queue_gauges().into_iter().map(GaugeColumn::known).collect();
    for column in files.flat_map(SeriesFile::columns) {
        let Some((queue, name)) = column.name.rsplit_once('.') else { continue };
        // Columns of flows and pools have no class before their name.
        let is_of_queue = queue.rsplit_once('.').is_some_and(|(_, class)| class.len() == 1 && class < "8");
        if is_of_queue
            && !column_names(QUEUE_COLUMNS).any(|column| column == name)
            && !gauges.iter().any(|gauge| gauge.name == name)
        {
            gauges.push(GaugeColumn::unknown(name));
        }
    }
    gauges
}
