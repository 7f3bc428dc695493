//! Switches: their ports, classes and pools.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::feedback::FeedbackStats;
use crate::run_dir::gauges::GaugeFigures;

/// A switch port's part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortSummary {
    /// Its name.
    pub name: String,
    /// The host behind it, or the other switch's port.
    pub host: String,
    /// Which flow control it speaks.
    pub flow_control: String,
    /// τ that the thresholds of GFC are made for; null under other flow controls.
    pub feedback_ns: Option<u64>,
    /// The flow-control messages that it sent.
    pub messages: MessageSummary,
    /// The classes that saw traffic.
    pub classes: Vec<ClassSummary>,
}

/// Flow-control messages of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageSummary {
    /// How many were sent.
    pub sent: u64,
    /// The share of the link that they took, in millionths.
    pub share_ppm: u64,
    /// The share in the worst millisecond, in millionths, as samples show it (between two of them, where they are further apart).
    pub share_worst_ppm: u64,
}

/// One of several switches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchSummary {
    /// Its name.
    pub name: String,
    /// Its shared segment.
    pub pool: PoolSummary,
    /// Its headroom pool, where headroom is one.
    pub headroom_pool: Option<PoolSummary>,
    /// Its egress lossy pool, in the four-pool model.
    pub egress_lossy_pool: Option<PoolSummary>,
    /// The most in use of all private buffers together, as samples show it.
    #[serde(default)]
    pub private_max_bytes: u64,
    /// The most in use of all headroom together, as samples show it.
    #[serde(default)]
    pub headroom_max_bytes: u64,
    /// What its queues did while they were OFF, of a switch whose queues the series shows; absent if no sample found headroom in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_queues: Option<OffQueuesSummary>,
}

/// What the lossless queues of a switch did while they were OFF, by the samples of the series. A percentile of nothing is null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OffQueuesSummary {
    /// How many queues there are: the lossless classes of the ports that something is cabled to.
    pub queues: u64,
    /// How many samples found headroom in use.
    pub samples: u64,
    /// How many queues were OFF in such a sample.
    pub off_p50: Option<u64>,
    /// And so many in 99 % of them, or fewer.
    pub off_p99: Option<u64>,
    /// In how many of a thousand of them fewer than half of the queues were OFF.
    pub fewer_than_half_permille: u64,
    /// Local maxima of what all queues together had in headroom.
    pub headroom_peak_p50_bytes: Option<u64>,
    /// Their 99th percentile.
    pub headroom_peak_p99_bytes: Option<u64>,
    /// Local maxima of what each queue had in headroom.
    pub queue_peak_p50_bytes: Option<u64>,
    /// Their 99th percentile.
    pub queue_peak_p99_bytes: Option<u64>,
    /// How fast a queue filled in a stretch of samples in which it was OFF, as long as anything came.
    pub arrival_p50_bps: Option<u64>,
    /// And so fast or less fast in 90 %.
    pub arrival_p90_bps: Option<u64>,
    /// How fast what a queue held left it in such a stretch, if it had something in headroom.
    pub departure_p50_bps: Option<u64>,
    /// And so fast or less fast in 90 %.
    pub departure_p90_bps: Option<u64>,
}

/// One direction of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaneSummary {
    /// The port or host that sends.
    pub from: String,
    /// The port or host that receives.
    pub to: String,
    /// Frames delivered.
    pub frames: u64,
    /// Frames that an injected fault took.
    pub lost: u64,
    /// Frames that an injected fault corrupted, so that they were dropped for their FCS.
    #[serde(default)]
    pub corrupted: u64,
    /// Frames that an injected fault delivered twice.
    pub doubled: u64,
    /// Frames that an injected fault held back.
    pub reordered: u64,
    /// The feedback delay of the data in this direction; none if no message slowed it down.
    pub feedback: Option<FeedbackSummary>,
}

/// The feedback delay τ: from the arrival that made the receiving port slow the sender down to the arrival of the last frame
/// that was sent before the sender obeyed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeedbackSummary {
    /// Messages measured.
    pub count: u64,
    /// Their median, to 1 %.
    pub median_ns: u64,
    /// 99 % took no longer, to 1 %.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// One port and class's part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassSummary {
    /// 0 to 7.
    pub class: u8,
    /// How often the switch paused its peer, refreshes not included.
    pub pauses_sent: u64,
    /// What the ingress queue held at each of these PAUSEs, added up,
    #[serde(default)]
    pub held_at_pauses_bytes: u64,
    /// and on average; null if there was none.
    #[serde(default)]
    pub held_at_pause_mean_bytes: Option<u64>,
    /// How often the switch paused the peers of its other ports, in this class,
    #[serde(default)]
    pub others_pauses_sent: u64,
    /// what those ports' ingress queues held at each of their own PAUSEs, added up,
    #[serde(default)]
    pub others_held_at_pauses_bytes: u64,
    /// and on average; null if there was none.
    #[serde(default)]
    pub others_held_at_pause_mean_bytes: Option<u64>,
    /// Frames sent that pause the class, refreshes included.
    pub xoff_frames_sent: u64,
    /// Frames sent that resume it.
    pub xon_frames_sent: u64,
    /// For how long the switch had its peer paused.
    pub paused_ns: u64,
    /// For how long the peer, a host or a switch, by its own clock and timers, was paused; null where it is outside of Weir.
    pub host_paused_ns: Option<u64>,
    /// Most that the ingress queue held.
    pub ingress_max_bytes: u64,
    /// Most of that in the shared segment.
    pub shared_max_bytes: u64,
    /// Most in headroom.
    pub headroom_max_bytes: u64,
    /// Most that the egress queue held.
    pub egress_max_bytes: u64,
    /// The policies' gauges. Weir's own are: `victim_permille` (SPFC: in how many of a thousand samples the port was in the victim
    /// state), `headroom_estimate_bytes` (DSH: φ̂ at the last sample; adaptive headroom: Φ as measured), and
    /// `headroom_estimate_max_bytes`, the highest of the samples; null under other policies.
    #[serde(flatten)]
    pub gauges: GaugeFigures,
    /// GFC: the highest stage that the switch told its peer; none under other flow controls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage_max: Option<u64>,
    /// Whether the class is lossless.
    pub lossless: bool,
    /// Frames dropped that arrived or were to leave here, by reason.
    pub drops: BTreeMap<String, u64>,
}

/// Flow control over all ports and classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowControlSummary {
    /// How often a switch paused a peer, refreshes not included.
    pub pauses_sent: u64,
    /// Pauses sent in a second of the run, on average.
    pub pauses_per_second: u64,
    /// For how long, all ports and classes added up.
    pub paused_ns: u64,
    /// Messages sent, of whatever flow control.
    pub messages_sent: u64,
    /// The share of its link that a port's messages took between two samples, in millionths: the mean over all ports and samples,
    #[serde(default)]
    pub messages_share_mean_ppm: u64,
    /// what 99 % do not exceed, by nearest rank,
    #[serde(default)]
    pub messages_share_p99_ppm: u64,
    /// and the most.
    #[serde(default)]
    pub messages_share_max_ppm: u64,
    /// How often a host paused its switch's port, refreshes not included: in none of the numbers above.
    #[serde(default)]
    pub host_pauses_sent: u64,
}

/// A pool: the shared segment, or one beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolSummary {
    /// Its size.
    pub capacity_bytes: u64,
    /// Most in use.
    pub used_max_bytes: u64,
}

impl FeedbackSummary {
    /// The summary of what a probe measured; `None` if that is nothing.
    pub fn of(stats: &FeedbackStats) -> Option<FeedbackSummary> {
        (stats.count > 0).then(|| FeedbackSummary {
            count: stats.count,
            median_ns: stats.median.as_nanos(),
            p99_ns: stats.p99.as_nanos(),
            max_ns: stats.longest.as_nanos(),
        })
    }
}
