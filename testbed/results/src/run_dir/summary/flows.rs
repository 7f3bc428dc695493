//! Summaries of flows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_nic::host::{FctSummary, ReceiverStats, SenderStats};
use weir_units::Span;

use super::throughput;
use crate::run_dir::real_hosts::ToolSummary;

/// Results of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSummary {
    /// Name of the flow.
    pub name: String,
    /// Sending host.
    pub from: String,
    /// Receiving host.
    pub to: String,
    /// Class of the flow.
    pub class: u8,
    /// Frames sent.
    pub frames_sent: u64,
    /// Frames received, duplicates included.
    pub frames_received: u64,
    /// Payload sent.
    pub bytes_sent: u64,
    /// Payload received.
    pub bytes_received: u64,
    /// Mean throughput of received payload over the run, in bits a second.
    pub throughput_bps: u64,
    /// Sequence numbers missing at the receiver.
    pub lost: u64,
    /// Frames received out of order.
    pub reordered: u64,
    /// Frames received twice.
    pub duplicates: u64,
    /// Frames received with a CE mark.
    pub frames_marked: u64,
    /// Congestion notifications received by the sender.
    pub congestion_notifications: u64,
    /// Negative acknowledgements received by the sender, by kind: `sequence error`, `receiver not ready`, `remote access error`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub naks: BTreeMap<String, u64>,
    /// Messages sent completely.
    pub messages_sent: u64,
    /// Messages acknowledged.
    pub messages_done: u64,
    /// Completion times of acknowledged messages; none without any.
    pub fct: Option<MessageTimes>,
    /// Sample statistics of each gauge of the flow's congestion control, by name; only with `flow_gauges`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gauges: BTreeMap<String, FlowGauge>,
    /// Report of the program that sent the flow between real hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolSummary>,
}

/// Sample statistics of a flow's gauge; empty if no sample had a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowGauge {
    /// Last value.
    pub last: Option<f64>,
    /// Mean of all values.
    pub mean: Option<f64>,
    /// Highest value.
    pub max: Option<f64>,
    /// Number of samples with a value.
    #[serde(skip)]
    samples: u64,
}

/// Statistics of flow completion times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageTimes {
    /// Number of messages.
    pub count: u64,
    /// Mean.
    pub mean_ns: u64,
    /// Shortest.
    pub min_ns: u64,
    /// Longest.
    pub max_ns: u64,
}

impl FlowGauge {
    /// Adds a sample; a NaN is no value and is ignored.
    pub(crate) fn record(&mut self, value: f64) {
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
    /// Builds the summary of a flow from its two ends' counters over `duration`.
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
            fct: MessageTimes::from_fct(&sent.fct),
            ..FlowSummary::default()
        }
    }
}

impl MessageTimes {
    fn from_fct(fct: &FctSummary) -> Option<MessageTimes> {
        (fct.count > 0).then(|| MessageTimes {
            count: fct.count,
            mean_ns: fct.mean().as_nanos(),
            min_ns: fct.min.as_nanos(),
            max_ns: fct.max.as_nanos(),
        })
    }
}
