//! Parts of a run.

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Span};

use super::throughput;
use crate::run_dir::gauges::GaugeFigures;

/// A part of the run: before the burst, the burst, after it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Its name.
    pub name: String,
    /// When it begins.
    pub from_ns: u64,
    /// When it ends.
    pub to_ns: u64,
    /// Each flow in it.
    pub flows: Vec<FlowWindow>,
    /// Each port in it.
    pub ports: Vec<PortWindow>,
}

/// A flow in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowWindow {
    /// Its name.
    pub flow: String,
    /// Payload received.
    pub bytes_received: u64,
    /// Mean throughput of that payload over the window, in bits a second.
    pub throughput_bps: u64,
}

/// A port in a window, over all lossless classes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortWindow {
    /// Its name.
    pub port: String,
    /// Payload of the host there that arrived at any receiver, in bits a second; 0 of a port with a switch behind it.
    pub throughput_bps: u64,
    /// How often the switch paused the peer there, refreshes not included.
    pub pauses_sent: u64,
    /// For how long.
    pub paused_ns: u64,
    /// What came in of lossless classes, as on the wire, in bits a second.
    pub rx_bps: u64,
    /// The ingress queues of lossless classes, in the window's samples: the least of any,
    pub ingress_min_bytes: u64,
    /// the mean of the longest one,
    pub ingress_mean_bytes: u64,
    /// and the most of any.
    pub ingress_max_bytes: u64,
    /// GFC: the mean of the rates that the peer was set; null under other flow controls.
    pub peer_rate_bps: Option<u64>,
    /// Time-based GFC: the queue that this rate stands for, which is the queue as the sender reckons it,
    /// B − (FCCL − FCTBS), with what is on the wire and was sent meanwhile; null under other flow controls.
    pub reckoned_queue_bytes: Option<u64>,
    /// The policies' gauges: as in [`ClassSummary`](super::ClassSummary), of the window's samples, the most of any class.
    #[serde(flatten)]
    pub gauges: GaugeFigures,
}

impl FlowWindow {
    /// What a flow delivered in a window of this length.
    pub fn new(flow: &str, received: Bytes, window: Span) -> FlowWindow {
        FlowWindow {
            flow: flow.to_owned(),
            bytes_received: received.get(),
            throughput_bps: throughput(received, window),
        }
    }
}
