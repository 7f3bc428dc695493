//! Windows of a run.

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Span};

use super::throughput;
use crate::run_dir::gauges::GaugeFigures;

/// Results of a window of the run, such as before, during and after a burst.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Name of the window.
    pub name: String,
    /// Start.
    pub from_ns: u64,
    /// End.
    pub to_ns: u64,
    /// Results of each flow.
    pub flows: Vec<FlowWindow>,
    /// Results of each port.
    pub ports: Vec<PortWindow>,
}

/// Results of a flow in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowWindow {
    /// Name of the flow.
    pub flow: String,
    /// Payload received.
    pub bytes_received: u64,
    /// Mean throughput of that payload over the window, in bits a second.
    pub throughput_bps: u64,
}

/// Results of a port in a window, over all lossless classes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortWindow {
    /// Name of the port.
    pub port: String,
    /// Payload from the port's host that arrived at any receiver, in bits a second; 0 of a port linked to a switch.
    pub throughput_bps: u64,
    /// Number of times that the switch paused the port's peer, refreshes not included.
    pub pauses_sent: u64,
    /// Time for which the peer was paused.
    pub paused_ns: u64,
    /// Lossless traffic received, as on the wire, in bits a second.
    pub rx_bps: u64,
    /// Lowest occupancy of any lossless ingress queue, over the window's samples.
    pub ingress_min_bytes: u64,
    /// Mean occupancy of the longest lossless ingress queue.
    pub ingress_mean_bytes: u64,
    /// Highest occupancy of any lossless ingress queue.
    pub ingress_max_bytes: u64,
    /// GFC: mean of the rates that the peer was set; null under other flow controls.
    pub peer_rate_bps: Option<u64>,
    /// Time-based GFC: queue length that the mean rate corresponds to. This is the queue as the sender estimates it, B − (FCCL −
    /// FCTBS), with bytes on the wire and bytes sent meanwhile; null under other flow controls.
    pub reckoned_queue_bytes: Option<u64>,
    /// Gauges of the policies as in [`ClassSummary`](super::ClassSummary), over the window's samples; the maximum over all
    /// classes.
    #[serde(flatten)]
    pub gauges: GaugeFigures,
}

impl FlowWindow {
    /// Builds the results of a flow over a window of this length.
    pub fn new(flow: &str, received: Bytes, window: Span) -> FlowWindow {
        FlowWindow {
            flow: flow.to_owned(),
            bytes_received: received.get(),
            throughput_bps: throughput(received, window),
        }
    }
}
