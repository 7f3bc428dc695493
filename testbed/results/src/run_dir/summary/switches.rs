//! Summaries of switches, ports, classes and pools.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::feedback::FeedbackStats;
use crate::run_dir::gauges::GaugeFigures;

/// Results of a switch port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortSummary {
    /// Name of the port.
    pub name: String,
    /// Peer of the port: a host, or another switch's port.
    pub host: String,
    /// Name of the port's flow control.
    pub flow_control: String,
    /// Feedback delay τ for which GFC's thresholds are computed; null under other flow controls.
    pub feedback_ns: Option<u64>,
    /// Flow-control messages sent by the port.
    pub messages: MessageSummary,
    /// Classes that saw traffic.
    pub classes: Vec<ClassSummary>,
}

/// Flow-control messages of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageSummary {
    /// Messages sent.
    pub sent: u64,
    /// Share of the link taken by messages over the run, in millionths.
    pub share_ppm: u64,
    /// Highest share of the link in any millisecond, in millionths, from samples (between two samples that are further apart).
    pub share_worst_ppm: u64,
}

/// Results of one of several switches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchSummary {
    /// Name of the switch.
    pub name: String,
    /// Shared segment.
    pub pool: PoolSummary,
    /// Headroom pool, where headroom is pooled.
    pub headroom_pool: Option<PoolSummary>,
    /// Egress lossy pool, in the four-pool model.
    pub egress_lossy_pool: Option<PoolSummary>,
    /// Highest sampled use of all private buffers together.
    #[serde(default)]
    pub private_max_bytes: u64,
    /// Highest sampled use of all headroom together.
    #[serde(default)]
    pub headroom_max_bytes: u64,
    /// Statistics of queues in XOFF, for a switch whose queues are in the series; absent if no sample found headroom in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_queues: Option<XoffQueuesSummary>,
}

/// Statistics of a switch's lossless queues in XOFF, from the samples of the series. A percentile of an empty set is null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XoffQueuesSummary {
    /// Number of queues: the lossless classes of all ports with a link.
    pub queues: u64,
    /// Number of samples that found headroom in use.
    pub samples: u64,
    /// Median number of queues in XOFF over these samples.
    pub off_p50: Option<u64>,
    /// 99th percentile of the number of queues in XOFF.
    pub off_p99: Option<u64>,
    /// Samples with fewer than half of the queues in XOFF, in thousandths of `samples`.
    pub fewer_than_half_permille: u64,
    /// Median of the local maxima of all queues' headroom together.
    pub headroom_peak_p50_bytes: Option<u64>,
    /// 99th percentile of the local maxima of all queues' headroom together.
    pub headroom_peak_p99_bytes: Option<u64>,
    /// Median of the local maxima of each port's headroom.
    pub port_peak_p50_bytes: Option<u64>,
    /// 99th percentile of the local maxima of each port's headroom.
    pub port_peak_p99_bytes: Option<u64>,
    /// Median of the local maxima of each queue's headroom.
    pub queue_peak_p50_bytes: Option<u64>,
    /// 99th percentile of the local maxima of each queue's headroom.
    pub queue_peak_p99_bytes: Option<u64>,
    /// Median arrival rate of a queue over an interval of samples in XOFF, as long as frames arrived.
    pub arrival_p50_bps: Option<u64>,
    /// 90th percentile of the arrival rate.
    pub arrival_p90_bps: Option<u64>,
    /// Median rate at which frames left a queue meanwhile, if it had bytes in headroom.
    pub departure_p50_bps: Option<u64>,
    /// 90th percentile of the departure rate.
    pub departure_p90_bps: Option<u64>,
}

/// Bytes in all egress queues of a switch together, of lossless and of lossy classes, over the samples of all switches with hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EgressUseSummary {
    /// Number of samples, of all these switches.
    pub samples: u64,
    /// Median of the lossless classes' bytes, to 100 B.
    pub lossless_p50_bytes: u64,
    /// 99th percentile of the lossless classes' bytes.
    pub lossless_p99_bytes: u64,
    /// Median of the lossy classes' bytes.
    pub lossy_p50_bytes: u64,
    /// 99th percentile of the lossy classes' bytes.
    pub lossy_p99_bytes: u64,
}

/// Results of one direction of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkDirectionSummary {
    /// Sending port or host.
    pub from: String,
    /// Receiving port or host.
    pub to: String,
    /// Frames delivered.
    pub frames: u64,
    /// Frames lost to an injected fault.
    pub lost: u64,
    /// Frames corrupted by an injected fault, and so dropped for their FCS.
    #[serde(default)]
    pub corrupted: u64,
    /// Frames delivered twice by an injected fault.
    pub duplicated: u64,
    /// Frames delayed by an injected fault.
    pub reordered: u64,
    /// Feedback delay of the data in this direction; none if no message slowed it down.
    pub feedback: Option<FeedbackSummary>,
}

/// Feedback delay τ: from the arrival that made the receiving port slow the sender down to the arrival of the last frame sent
/// before the sender obeyed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeedbackSummary {
    /// Messages measured.
    pub count: u64,
    /// Median of τ, to 1 %.
    pub median_ns: u64,
    /// 99th percentile of τ, to 1 %.
    pub p99_ns: u64,
    /// Longest τ.
    pub max_ns: u64,
}

/// Results of one class of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassSummary {
    /// Class, 0 to 7.
    pub class: u8,
    /// Number of times that the switch paused its peer, refreshes not included.
    pub pauses_sent: u64,
    /// Sum of the ingress queue's occupancy at each of these PAUSEs.
    #[serde(default)]
    pub held_at_pauses_bytes: u64,
    /// Mean occupancy of the ingress queue at a PAUSE; null without PAUSEs.
    #[serde(default)]
    pub held_at_pause_mean_bytes: Option<u64>,
    /// PAUSEs of this class that the switch sent on its other ports, refreshes not included.
    #[serde(default)]
    pub others_pauses_sent: u64,
    /// Sum of the other ports' ingress occupancy at each of their own PAUSEs.
    #[serde(default)]
    pub others_held_at_pauses_bytes: u64,
    /// Mean occupancy of the other ports' ingress queues at their PAUSEs; null without PAUSEs.
    #[serde(default)]
    pub others_held_at_pause_mean_bytes: Option<u64>,
    /// Frames sent that pause the class, refreshes included.
    pub xoff_frames_sent: u64,
    /// Frames sent that resume the class.
    pub xon_frames_sent: u64,
    /// Time for which the switch had its peer paused.
    pub paused_ns: u64,
    /// Time for which the peer (host or switch) was paused by its own clock and timers; null where it is outside of Weir.
    pub host_paused_ns: Option<u64>,
    /// Highest occupancy of the ingress queue.
    pub ingress_max_bytes: u64,
    /// Highest occupancy in the shared segment.
    pub shared_max_bytes: u64,
    /// Highest occupancy in headroom.
    pub headroom_max_bytes: u64,
    /// Highest occupancy of the egress queue.
    pub egress_max_bytes: u64,
    /// Gauges of the policies. Weir's own are: `victim_permille` (SPFC: thousandths of samples with the port in the victim
    /// state), `headroom_estimate_bytes` (DSH: φ̂ at the last sample; adaptive headroom: Φ as measured), and
    /// `headroom_estimate_max_bytes`, the highest of the samples; null under other policies.
    #[serde(flatten)]
    pub gauges: GaugeFigures,
    /// Highest stage of GFC advertised to the peer; none under other flow controls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage_max: Option<u64>,
    /// Whether the class is lossless.
    pub lossless: bool,
    /// Dropped frames, by reason; of frames that arrived here or were to leave here.
    pub drops: BTreeMap<String, u64>,
}

/// Flow-control totals over all ports and classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowControlSummary {
    /// Number of times that a switch paused a peer, refreshes not included.
    pub pauses_sent: u64,
    /// Mean number of PAUSEs per second of the run.
    pub pauses_per_second: u64,
    /// Paused time, summed over all ports and classes.
    pub paused_ns: u64,
    /// Messages sent, of all flow controls.
    pub messages_sent: u64,
    /// Mean share of its link that a port's messages took between two samples, over all ports and samples, in millionths.
    #[serde(default)]
    pub messages_share_mean_ppm: u64,
    /// 99th percentile of that share, by nearest rank, in millionths.
    #[serde(default)]
    pub messages_share_p99_ppm: u64,
    /// Highest share, in millionths.
    #[serde(default)]
    pub messages_share_max_ppm: u64,
    /// Number of times that a host paused its switch's port, refreshes not included. Not part of the numbers above.
    #[serde(default)]
    pub host_pauses_sent: u64,
}

/// Reordering by load balancing, and the spread of PAUSEs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadBalancingSummary {
    /// Packets that others of their connection overtook, where hosts accept packets in any order; retransmitted ones included.
    pub late_packets: u64,
    /// 99th percentile of the number by which a late packet's sequence number is below the highest before it, rounded up to a power of
    /// two less one.
    pub reorder_depth_p99: u64,
    /// Greatest such number.
    pub reorder_depth_max: u64,
    /// Switch ports with a link.
    pub ports: u64,
    /// Switch ports that paused their peers.
    pub pausing_ports: u64,
    /// Switches with such ports.
    pub pausing_switches: u64,
}

/// Size and highest use of a pool: the shared segment, or a separate pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolSummary {
    /// Size of the pool.
    pub capacity_bytes: u64,
    /// Highest use.
    pub used_max_bytes: u64,
}

impl FeedbackSummary {
    /// Builds the summary of a probe's measurements; `None` without any.
    pub fn from_stats(stats: &FeedbackStats) -> Option<FeedbackSummary> {
        (stats.count > 0).then(|| FeedbackSummary {
            count: stats.count,
            median_ns: stats.median.as_nanos(),
            p99_ns: stats.p99.as_nanos(),
            max_ns: stats.longest.as_nanos(),
        })
    }
}
