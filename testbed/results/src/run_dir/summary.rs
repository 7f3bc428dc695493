//! `summary.json`: a run's results.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_nic::host::{FctSummary, ReceiverStats, SenderStats};
use weir_units::archive::Value;
use weir_units::{BitRate, Bytes, Span};

use super::gauges::GaugeFigures;
use super::real_hosts::{RealHostSummary, ToolSummary};
use crate::feedback::FeedbackStats;

/// The results of a run. Times are scenario time unless said otherwise; bytes of flows are payload, bytes of queues
/// are as the buffer charges them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Why the run is no good, in sentences: what it lost, that it stands still, that it was interrupted. None of a good run.
    #[serde(default)]
    pub failures: Vec<String>,
    /// The scenario's name.
    pub scenario: String,
    /// What ran it: `dpdk`, `sim` or `hosts`.
    pub backend: String,
    /// The buffer's policy.
    pub policy: String,
    /// The scenario's parameters, by name, as written.
    pub parameters: BTreeMap<String, String>,
    /// How many times slower than real time the scenario ran.
    pub time_dilation: u64,
    /// How long it ran.
    pub duration_ns: u64,
    /// How long it ran in real time, in milliseconds; none in virtual time, where `speed.json` tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
    /// Line time that a host or a switch's port lost at most, because the machine polled it too late: where this is no small part of
    /// the duration, rates are the machine's and not the scenario's.
    pub late_ns: u64,
    /// The longest time between two polls of a host or of a switch, in the scenario's time; none in virtual time. One gap that is as long as a round
    /// trip takes little line time, and yet all that is under way arrives at once after it: congestion controls take that for a queue,
    /// and some are slow to forget it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_gap_max_ns: Option<u64>,
    /// Whether no lossless frame was lost anywhere, in switches and in the receive buffers of hosts; in virtual time, but for what
    /// injected faults and outages took.
    pub lossless: bool,
    /// Queues that waited for each other without end, if any did.
    pub deadlock: Option<DeadlockSummary>,
    /// Flow control, over all ports and classes.
    #[serde(default)]
    pub flow_control: Option<FlowControlSummary>,
    /// Each traffic: how long its messages took.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<TrafficSummary>,
    /// Where all frames have gone; in virtual time only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<FrameSummary>,
    /// Each flow.
    pub flows: Vec<FlowSummary>,
    /// Each port of the switches that has a host or a link.
    pub ports: Vec<PortSummary>,
    /// Each host that takes data in more slowly than its link brings it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostSummary>,
    /// Each real host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub real_hosts: Vec<RealHostSummary>,
    /// Each switch, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<SwitchSummary>,
    /// Each direction of the links, where there are several switches or something was to go wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LaneSummary>,
    /// The shared segment; of several switches, the first one's.
    pub pool: PoolSummary,
    /// The headroom pool, where headroom is one.
    pub headroom_pool: Option<PoolSummary>,
    /// The egress lossy pool, in the four-pool model.
    pub egress_lossy_pool: Option<PoolSummary>,
    /// What queues did while they were OFF, of the only switch; see [`SwitchSummary`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_queues: Option<OffQueuesSummary>,
    /// Parts of the run that are measured by themselves.
    pub windows: Vec<Window>,
    /// What a reader should know about this run, in words.
    pub notes: Vec<String>,
}

/// A deadlock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadlockSummary {
    /// The cycle: each port's egress queue waits for the next one's, `S1.p1 -> S2.p1 -> S1.p1, class 3`.
    pub cycle: String,
    /// From when on nothing moved.
    pub since_ns: u64,
    /// When a queue of it sent a frame all the same; null if none ever did.
    pub dissolved_ns: Option<u64>,
}

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

/// A host that takes data in more slowly than its link brings it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSummary {
    /// Its name.
    pub name: String,
    /// How fast it takes data in, counted as on the wire.
    pub receive_rate_bps: u64,
    /// A lossless class is paused with so much in its buffer,
    pub xoff_bytes: u64,
    /// and goes on with no more than that.
    pub xon_bytes: u64,
    /// The whole buffer of a class.
    pub receive_buffer_bytes: u64,
    /// Messages of flow control that it sent, of whatever kind, refreshes included.
    pub messages_sent: u64,
    /// The classes that stood in its buffer.
    pub classes: Vec<HostClassSummary>,
}

/// A class in a host's receive buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostClassSummary {
    /// 0 to 7.
    pub class: u8,
    /// Whether the class is lossless.
    pub lossless: bool,
    /// How often the host paused it at the switch's port, refreshes not included.
    pub pauses_sent: u64,
    /// The most that stood in the buffer.
    pub receive_buffer_max_bytes: u64,
    /// Frames dropped because they found no room there.
    pub receive_overflow: u64,
}

/// What became of a traffic's messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficSummary {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: u8,
    /// Messages started.
    pub started: u64,
    /// Started messages that were acknowledged.
    pub completed: u64,
    /// Started messages that were not.
    pub unfinished: u64,
    /// Completed messages that started before the warm-up's end: they are in no bin.
    pub warm_up: u64,
    /// Messages by size, first all of them, with those that did not finish; without sizes that none has.
    pub bins: Vec<BinSummary>,
}

/// Messages of one size range.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BinSummary {
    /// `all`, or `10KB-100KB`.
    pub sizes: String,
    /// Messages of this size at least,
    pub from_bytes: u64,
    /// and of less than this; null for no end.
    pub below_bytes: Option<u64>,
    /// How many, those that did not finish among them.
    pub count: u64,
    /// How many of these had not finished when the run was over.
    #[serde(default)]
    pub unfinished: u64,
    /// Flow completion times.
    pub fct_ns: Distribution,
    /// Flow completion times in thousandths of the ideal one: 1000 in an empty fabric. Null if no way is known.
    pub slowdown_permille: Option<Distribution>,
}

/// A distribution. Percentiles are exact, by nearest rank: the least value that so many of a hundred do not exceed.
/// What did not finish exceeds every value: a percentile that falls on it is null, and so are the mean and the greatest, if there was any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// The average, rounded down.
    pub mean: Option<u64>,
    /// The median.
    pub p50: Option<u64>,
    /// The 95th percentile.
    pub p95: Option<u64>,
    /// The 99th.
    pub p99: Option<u64>,
    /// The 99.9th.
    pub p999: Option<u64>,
    /// The greatest.
    pub max: Option<u64>,
}

/// Where all frames have gone, flow control's included. What went in is what came out:
/// `hosts_sent + control_sent + copied + doubled = hosts_received + control_received + dropped + faults_lost + faults_corrupted +
/// cut_off + held + on_links`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameSummary {
    /// Sent by hosts.
    pub hosts_sent: u64,
    /// Received by hosts, which may have dropped them for want of room.
    pub hosts_received: u64,
    /// Flow-control frames that switches sent,
    pub control_sent: u64,
    /// and received.
    pub control_received: u64,
    /// Copies that switches made of frames for unknown hosts, and for clones of the port that they came by.
    pub copied: u64,
    /// Frames that injected faults delivered twice.
    pub doubled: u64,
    /// Dropped by switches, by reason, in whatever class.
    pub dropped: BTreeMap<String, u64>,
    /// Taken by injected faults,
    pub faults_lost: u64,
    /// and corrupted by them, so that they were dropped for their FCS.
    #[serde(default)]
    pub faults_corrupted: u64,
    /// Lost on links that were cut.
    pub cut_off: u64,
    /// In the switches at the end.
    pub held: u64,
    /// On their way on links at the end.
    pub on_links: u64,
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
    /// The policies' gauges: as in [`ClassSummary`], of the window's samples, the most of any class.
    #[serde(flatten)]
    pub gauges: GaugeFigures,
}

/// How a failure begins that tells of a run that was told to stop.
pub(crate) const INTERRUPTED: &str = "interrupted at ";

impl Summary {
    /// Where the machine takes more than this of a run, in percent of its time, rates are the machine's and not the scenario's.
    pub const LATE_PERCENT_MAX: f64 = 5.0;

    /// Whether the run was told to stop before its end.
    pub fn is_interrupted(&self) -> bool {
        self.failures.iter().any(|failure| failure.starts_with(INTERRUPTED))
    }

    /// What ports have counted of lossless classes.
    pub fn lossless_classes(&self) -> impl Iterator<Item = &ClassSummary> {
        self.ports.iter().flat_map(|port| &port.classes).filter(|class| class.lossless)
    }

    /// Frames of lossless classes that switches dropped while they ran.
    pub fn lossless_drops(&self) -> u64 {
        let drops = self.lossless_classes().flat_map(|class| &class.drops);
        drops.filter(|(reason, _)| *reason != "shutdown").map(|(_, frames)| frames).sum()
    }

    /// Frames of lossless classes that switches dropped while they ran, or hosts for want of room.
    pub fn lossless_drops_with_hosts(&self) -> u64 {
        let of_hosts = self.hosts.iter().flat_map(|host| &host.classes).filter(|class| class.lossless);
        self.lossless_drops() + of_hosts.map(|class| class.receive_overflow).sum::<u64>()
    }

    /// The line time that a host or a switch's port lost at most, in percent of the run.
    pub fn late_percent(&self) -> f64 {
        self.percent_of_run(self.late_ns)
    }

    /// What the machine took of the run at most, in percent of its time: line time that a host or a switch's port lost, or the longest
    /// time in which one of them was not polled, whichever is more. While nobody polls, frames that come are not seen to wait, and so a
    /// long gap may lose no line time and is lost all the same. 0 in virtual time.
    pub fn lost_percent(&self) -> f64 {
        self.percent_of_run(self.late_ns.max(self.poll_gap_max_ns.unwrap_or(0)))
    }

    fn percent_of_run(&self, ns: u64) -> f64 {
        ns as f64 * 100.0 / self.duration_ns.max(1) as f64
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

impl FrameSummary {
    /// What went in, and what came out or is there still.
    pub fn sides(&self) -> [u64; 2] {
        let dropped: u64 = self.dropped.values().sum();
        let taken = self.faults_lost + self.faults_corrupted + self.cut_off;
        let gone = self.hosts_received + self.control_received + dropped + taken;
        [self.hosts_sent + self.control_sent + self.copied + self.doubled, gone + self.held + self.on_links]
    }
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

/// Bits a second, rounded down; 0 over no time.
pub fn throughput(payload: Bytes, span: Span) -> u64 {
    BitRate::of(payload, span).map_or(0, BitRate::as_bps)
}
