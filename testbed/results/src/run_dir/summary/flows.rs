//! Flows: what they sent, and what arrived.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_nic::host::{FctSummary, ReceiverStats, SenderStats};
use weir_units::Span;
use weir_units::archive::Value;

use super::throughput;
use crate::run_dir::real_hosts::ToolSummary;

/// A flow's part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSummary {
    /// Its name.
    pub name: String,
    /// The sending host.
    pub from: String,
    /// The receiving host.
    pub to: String,
    /// Its class.
    pub class: u8,
    /// Frames sent.
    pub frames_sent: u64,
    /// Frames received, duplicates included.
    pub frames_received: u64,
    /// Payload sent.
    pub bytes_sent: u64,
    /// Payload received.
    pub bytes_received: u64,
    /// Payload received over the run's time, in bits a second.
    pub throughput_bps: u64,
    /// Sequence numbers missing at the receiver.
    pub lost: u64,
    /// Frames that came late.
    pub reordered: u64,
    /// Frames that came twice.
    pub duplicates: u64,
    /// Frames received that a switch marked CE.
    pub frames_marked: u64,
    /// Congestion notifications that the sender got.
    pub congestion_notifications: u64,
    /// Negative acknowledgements that the sender got, by their kinds: `sequence error`, `receiver not ready`, `remote access error`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub naks: BTreeMap<String, u64>,
    /// Messages wholly sent.
    pub messages_sent: u64,
    /// Messages acknowledged.
    pub messages_done: u64,
    /// Their completion times; none if none completed.
    pub fct: Option<MessageTimes>,
    /// With `flow_gauges`, what samples showed of each gauge of what controls the flow.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gauges: BTreeMap<String, FlowGauge>,
    /// What the program told that sent it between real hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolSummary>,
}

/// What samples showed of a flow's gauge; nothing where it had no value in any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, Value)]
#[serde(deny_unknown_fields)]
pub struct FlowGauge {
    /// The last value.
    pub last: Option<f64>,
    /// The mean of all.
    pub mean: Option<f64>,
    /// The highest.
    pub max: Option<f64>,
    /// How many samples had one.
    #[serde(skip)]
    samples: u64,
}

/// Flow completion times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageTimes {
    /// How many.
    pub count: u64,
    /// Their average.
    pub mean_ns: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl FlowGauge {
    /// Takes a sample: of no value where it is not a number.
    pub(crate) fn note(&mut self, value: f64) {
        if value.is_nan() {
            return;
        }
        self.samples += 1;
        let mean = self.mean.unwrap_or(0.0);
        self.last = Some(value);
        self.mean = Some(mean + (value - mean) / self.samples as f64);
        self.max = Some(self.max.map_or(value, |max| max.max(value)));
    }
}

impl FlowSummary {
    /// The summary of a flow as its two ends counted it over `duration`.
    pub fn new(name: &str, sent: &SenderStats, arrived: &ReceiverStats, duration: Span) -> FlowSummary {
        FlowSummary {
            name: name.to_owned(),
            frames_sent: sent.frames,
            frames_received: arrived.frames,
            bytes_sent: sent.payload.get(),
            bytes_received: arrived.payload.get(),
            throughput_bps: throughput(arrived.payload, duration),
            lost: arrived.lost,
            reordered: arrived.reordered,
            duplicates: arrived.duplicates,
            frames_marked: arrived.congestion_experienced,
            congestion_notifications: sent.congestion_notifications,
            naks: sent.naks_by_kind().map(|(kind, count)| (kind.to_owned(), count)).collect(),
            messages_sent: sent.messages_sent,
            messages_done: sent.messages_done,
            fct: MessageTimes::of(&sent.fct),
            ..FlowSummary::default()
        }
    }
}

impl MessageTimes {
    fn of(fct: &FctSummary) -> Option<MessageTimes> {
        (fct.count > 0).then(|| MessageTimes {
            count: fct.count,
            mean_ns: fct.mean().as_nanos(),
            min_ns: fct.min.as_nanos(),
            max_ns: fct.max.as_nanos(),
        })
    }
}
