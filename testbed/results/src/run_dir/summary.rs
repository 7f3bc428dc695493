//! `summary.json`: a run's results.

mod flows;
mod switches;
mod windows;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_units::{BitRate, Bytes, Span};

use super::real_hosts::RealHostSummary;
pub use flows::{FlowGauge, FlowSummary, MessageTimes};
pub use switches::{
    ClassSummary, EgressUseSummary, FeedbackSummary, FlowControlSummary, LinkDirectionSummary, LoadBalancingSummary,
    MessageSummary, PoolSummary, PortSummary, SwitchSummary, XoffQueuesSummary,
};
pub use windows::{FlowWindow, PortWindow, Window};

/// Results of a run. Times are scenario time unless stated otherwise. Bytes of flows are payload; bytes of queues are as the buffer
/// charges them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Reasons that make the run invalid, in sentences: lossless loss, deadlock, interruption. Empty for a good run.
    #[serde(default)]
    pub failures: Vec<String>,
    /// Name of the scenario.
    pub scenario: String,
    /// Backend: `dpdk`, `sim` or `hosts`.
    pub backend: String,
    /// Buffer policy.
    pub policy: String,
    /// Parameters of the scenario, by name, as written.
    pub parameters: BTreeMap<String, String>,
    /// Factor by which the scenario ran slower than real time.
    pub time_dilation: u64,
    /// Duration of the run.
    pub duration_ns: u64,
    /// Duration in real time, in milliseconds; none in virtual time, where `speed.json` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
    /// Most line time that a host or a switch port lost because the machine polled it too late. Where this is no small part of
    /// the duration, rates are the machine's and not the scenario's.
    pub late_ns: u64,
    /// Longest time between two polls of a host or a switch, in scenario time; none in virtual time.
    ///
    /// A gap as long as a round trip takes little line time, but all frames in flight then arrive at once. Congestion controls
    /// take that for a queue, and some recover slowly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_gap_max_ns: Option<u64>,
    /// Whether no lossless frame was lost, in switches and in hosts' receive buffers. In virtual time, losses to injected faults
    /// and outages do not count.
    pub lossless: bool,
    /// Deadlock of the run, if any.
    pub deadlock: Option<DeadlockSummary>,
    /// Standstill of the run without a deadlock, if any.
    #[serde(default)]
    pub standstill: Option<StandstillSummary>,
    /// Flow-control totals, over all ports and classes.
    #[serde(default)]
    pub flow_control: Option<FlowControlSummary>,
    /// Results of load balancing, unless each flow keeps to one path and hosts go back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancing: Option<LoadBalancingSummary>,
    /// Completion times of each traffic's messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<TrafficSummary>,
    /// Frame conservation; in virtual time only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<FrameSummary>,
    /// Link layer retry, if a link has it; in virtual time only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llr: Option<LlrSummary>,
    /// Frames that outages took, if the scenario has any; in virtual time only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outages: Option<OutageSummary>,
    /// Results of each flow.
    pub flows: Vec<FlowSummary>,
    /// Results of each switch port with a host or a link.
    pub ports: Vec<PortSummary>,
    /// Results of each host whose receive rate is below its link's rate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostSummary>,
    /// Results of each real host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub real_hosts: Vec<RealHostSummary>,
    /// Results of each switch, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<SwitchSummary>,
    /// Results of each direction of the links, where there are several switches or faults were injected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkDirectionSummary>,
    /// Shared segment; with several switches, that of the first.
    pub pool: PoolSummary,
    /// Headroom pool, where headroom is pooled.
    pub headroom_pool: Option<PoolSummary>,
    /// Egress lossy pool, in the four-pool model.
    pub egress_lossy_pool: Option<PoolSummary>,
    /// Statistics of queues in XOFF, with a single switch; see [`SwitchSummary`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_queues: Option<XoffQueuesSummary>,
    /// Bytes in egress queues, from the samples; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_use: Option<EgressUseSummary>,
    /// Windows of the run that are measured separately.
    pub windows: Vec<Window>,
    /// Remarks for the reader, in sentences.
    pub notes: Vec<String>,
}

/// Cycle of queues that wait for each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadlockSummary {
    /// Cycle, in which each port's egress queue waits for the next: `S1.p1 -> S2.p1 -> S1.p1, class 3`.
    pub cycle: String,
    /// Instant from which no queue of the cycle moved.
    pub since_ns: u64,
    /// Instant at which a queue of the cycle sent a frame after all; null if none did.
    pub dissolved_ns: Option<u64>,
}

/// Period in which queues between switches hold frames and hardly send, without a deadlock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandstillSummary {
    /// Egress queues that stood: `S1.next, class 3`.
    pub queues: Vec<String>,
    /// Start of the first window with a standing queue.
    pub since_ns: u64,
    /// First sample at which no queue stands; null if one did to the end.
    pub dissolved_ns: Option<u64>,
}

/// Results of a host whose receive rate is below its link's rate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSummary {
    /// Name of the host.
    pub name: String,
    /// Rate at which the host takes data in, counted as on the wire.
    pub receive_rate_bps: u64,
    /// Buffer occupancy at which a lossless class is paused.
    pub xoff_bytes: u64,
    /// Buffer occupancy at or below which the class is resumed.
    pub xon_bytes: u64,
    /// Size of a class's receive buffer.
    pub receive_buffer_bytes: u64,
    /// Flow-control messages sent by the host, of all kinds, refreshes included.
    pub messages_sent: u64,
    /// Classes that used the receive buffer.
    pub classes: Vec<HostClassSummary>,
}

/// Results of a class in a host's receive buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostClassSummary {
    /// Class, 0 to 7.
    pub class: u8,
    /// Whether the class is lossless.
    pub lossless: bool,
    /// Number of times that the host paused this class at the switch's port, refreshes not included.
    pub pauses_sent: u64,
    /// Highest occupancy of the buffer.
    pub receive_buffer_max_bytes: u64,
    /// Frames dropped because the buffer was full.
    pub receive_overflow: u64,
}

/// Results of a traffic's messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficSummary {
    /// Name of the traffic.
    pub name: String,
    /// Class of the traffic.
    pub class: u8,
    /// Messages started.
    pub started: u64,
    /// Started messages that were acknowledged.
    pub completed: u64,
    /// Started messages that were not acknowledged.
    pub unfinished: u64,
    /// Completed messages that started before the end of the warm-up, and are in no bin.
    pub warm_up: u64,
    /// Messages by size, unfinished ones included. The first bin holds all; empty bins are left out.
    pub bins: Vec<BinSummary>,
    /// Repetitions of a collective operation or a schedule that have started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repetitions: Vec<RepetitionSummary>,
}

/// Results of a repetition of a collective operation or a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepetitionSummary {
    /// Start at the first rank.
    pub start_ns: u64,
    /// Time from the start until all ranks have ended; null if one has not.
    pub completion_ns: Option<u64>,
    /// Bus bandwidth in bytes a second, as NCCL's tests compute it; null if unfinished or no collective.
    pub bus_bytes_per_second: Option<u64>,
    /// Host of the rank that ended last; null if unfinished.
    pub slowest: Option<String>,
    /// Share of the completion time, in thousandths, in which the ranks' links carry no payload of it, on average; null if
    /// unfinished.
    pub idle_permille: Option<u64>,
    /// Critical path; null if unfinished, or on real ports.
    pub critical_path: Option<CriticalPathSummary>,
}

/// Critical path of a repetition: the chain of computations and messages from the last rank's end back to the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CriticalPathSummary {
    /// Time of computations.
    pub compute_ns: u64,
    /// Time of the messages in an empty fabric.
    pub transmission_ns: u64,
    /// Further time of the messages.
    pub queueing_ns: u64,
    /// Part of the further time in which a link of the message's path was paused; null if paths are unknown, or without PFC.
    pub paused_ns: Option<u64>,
    /// Number of messages.
    pub messages: u64,
    /// Messages with the most further time, at most five.
    pub slowest: Vec<PathMessageSummary>,
}

/// Message of a critical path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathMessageSummary {
    /// Sending host.
    pub from: String,
    /// Receiving host.
    pub to: String,
    /// Payload.
    pub bytes: u64,
    /// Start.
    pub start_ns: u64,
    /// Time to its receipt, or to its acknowledgement if the next step waited for that.
    pub flight_ns: u64,
    /// Further time than in an empty fabric.
    pub queueing_ns: u64,
    /// Port whose PAUSEs held it up longest, and their time during the flight; null without any.
    pub paused_by: Option<String>,
    /// Time of these PAUSEs.
    pub paused_by_ns: u64,
}

/// Results of the messages in one size range.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BinSummary {
    /// Label of the range: `all`, or `10KB-100KB`.
    pub sizes: String,
    /// Lower bound of the message size, inclusive.
    pub from_bytes: u64,
    /// Upper bound of the message size, exclusive; null if unbounded.
    pub below_bytes: Option<u64>,
    /// Number of messages, unfinished ones included.
    pub count: u64,
    /// Messages unfinished at the end of the run.
    #[serde(default)]
    pub unfinished: u64,
    /// Flow completion times.
    pub fct_ns: Distribution,
    /// Slowdown: flow completion times in thousandths of the ideal one (1000 in an empty fabric). Null if no path is known.
    pub slowdown_permille: Option<Distribution>,
}

/// Mean, percentiles and maximum of a set of values. Percentiles are exact, by nearest rank.
///
/// An unfinished message exceeds every value: a percentile that falls on one is null. The mean and the maximum are null if any
/// message is unfinished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// Mean, rounded down.
    pub mean: Option<u64>,
    /// Median.
    pub p50: Option<u64>,
    /// 95th percentile.
    pub p95: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// 99.9th percentile.
    pub p999: Option<u64>,
    /// Maximum.
    pub max: Option<u64>,
}

/// Frame conservation, flow-control frames included:
///
/// `hosts_sent + control_sent + copied + duplicated + llr_sent = hosts_received + control_received + dropped + faults_lost +
/// faults_corrupted + lost_link_down + llr_taken + held + on_links`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameSummary {
    /// Frames sent by hosts.
    pub hosts_sent: u64,
    /// Frames received by hosts, those dropped for lack of buffer included.
    pub hosts_received: u64,
    /// Flow-control frames sent by switches.
    pub control_sent: u64,
    /// Flow-control frames received by switches.
    pub control_received: u64,
    /// Copies made by switches, of frames for unknown hosts and for clones of the ingress port.
    pub copied: u64,
    /// Frames that injected faults delivered twice.
    pub duplicated: u64,
    /// Frames dropped by switches in all classes, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Frames lost to injected faults.
    pub faults_lost: u64,
    /// Frames corrupted by injected faults, and so dropped for their FCS.
    #[serde(default)]
    pub faults_corrupted: u64,
    /// Frames lost on links that went down.
    pub lost_link_down: u64,
    /// Messages and replayed frames that link layer retry sent, and frames with a bad FCS that it saw.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub llr_sent: u64,
    /// Messages, frames out of sequence and frames with a bad FCS that link layer retry took.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub llr_taken: u64,
    /// Frames in the switches at the end.
    pub held: u64,
    /// Frames in flight on links at the end.
    pub on_links: u64,
}

/// Frames lost on links that were down, or dropped by switches without another port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutageSummary {
    /// Whether all switches reroute; else only those at a link's ends do.
    pub reroutes: bool,
    /// Data frames of lossless classes.
    pub lossless_frames_lost: u64,
    /// Other frames, flow control included.
    pub other_frames_lost: u64,
    /// Frames that hosts sent by another port.
    #[serde(default)]
    pub failed_over_frames: u64,
}

/// Totals of link layer retry on all links.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LlrSummary {
    /// Times that an end went back to the first frame without acknowledgement.
    pub replays: u64,
    /// Frames sent again.
    pub replayed_frames: u64,
    /// Bytes sent again, without FCS.
    pub replayed_bytes: u64,
    /// Frames given up after replays without progress, or as their link went down.
    pub frames_given_up: u64,
    /// Time for which ports waited for room in replay buffers, summed.
    pub buffer_full_ns: u64,
}

/// Prefix of the failure of an interrupted run.
pub(crate) const INTERRUPTED: &str = "interrupted at ";

impl Summary {
    /// Highest [`lost_percent`](Summary::lost_percent) of a valid run. Above it, rates are the machine's and not the scenario's.
    pub const LATE_PERCENT_MAX: f64 = 5.0;

    /// Describes a standstill that lasts to the end, without a full stop.
    pub fn standstill_text(&self) -> Option<String> {
        let standstill = self.standstill.as_ref().filter(|it| it.dissolved_ns.is_none())?;
        let since = Span::from_nanos(standstill.since_ns);
        let queues = standstill.queues.join("; ");
        Some(format!(
            "standstill from {since} on, without a deadlock: queues hold frames and send below 1 % of their rate: {queues}"
        ))
    }

    /// Describes the frames that outages took, if any, without a full stop.
    pub fn outage_text(&self) -> Option<String> {
        let has_any = |of: &&OutageSummary| of.lossless_frames_lost + of.other_frames_lost + of.failed_over_frames > 0;
        let outages = self.outages.as_ref().filter(has_any)?;
        let switches = match outages.reroutes {
            true => "all switches reroute",
            false => "without `routing_delay` only switches at a link's ends reroute",
        };
        let OutageSummary { lossless_frames_lost, other_frames_lost, failed_over_frames, .. } = outages;
        let by_others = match failed_over_frames {
            0 => String::new(),
            frames => format!("hosts sent {frames} by other ports; "),
        };
        Some(format!(
            "outages took {lossless_frames_lost} lossless and {other_frames_lost} other frames; {by_others}{switches}"
        ))
    }

    /// Whether the run was stopped before its end.
    pub fn is_interrupted(&self) -> bool {
        self.failures.iter().any(|failure| failure.starts_with(INTERRUPTED))
    }

    /// Returns the results of all ports' lossless classes.
    pub fn lossless_classes(&self) -> impl Iterator<Item = &ClassSummary> {
        self.ports.iter().flat_map(|port| &port.classes).filter(|class| class.lossless)
    }

    /// Returns the number of lossless frames that switches dropped while they ran.
    pub fn lossless_drops(&self) -> u64 {
        let drops = self.lossless_classes().flat_map(|class| &class.drops);
        drops.filter(|(reason, _)| *reason != "shutdown").map(|(_, frames)| frames).sum()
    }

    /// Returns the number of lossless frames that switches dropped while they ran, or hosts for lack of buffer.
    pub fn lossless_drops_with_hosts(&self) -> u64 {
        let of_hosts = self.hosts.iter().flat_map(|host| &host.classes).filter(|class| class.lossless);
        self.lossless_drops() + of_hosts.map(|class| class.receive_overflow).sum::<u64>()
    }

    /// Returns the most line time that a host or a switch port lost, in percent of the run.
    pub fn late_percent(&self) -> f64 {
        self.percent_of_run(self.late_ns)
    }

    /// Returns the largest loss to the machine, in percent of the run: the greater of lost line time and longest poll gap.
    /// The wait of frames that arrive during a poll gap is unseen, so a long gap may lose no line time and still invalidate the run.
    /// 0 in virtual time.
    pub fn lost_percent(&self) -> f64 {
        self.percent_of_run(self.late_ns.max(self.poll_gap_max_ns.unwrap_or(0)))
    }

    fn percent_of_run(&self, ns: u64) -> f64 {
        ns as f64 * 100.0 / self.duration_ns.max(1) as f64
    }
}

impl FrameSummary {
    /// Returns both sides of frame conservation: frames that entered, and frames that left or are still there.
    pub fn sides(&self) -> [u64; 2] {
        let dropped: u64 = self.dropped.values().sum();
        let taken = self.faults_lost + self.faults_corrupted + self.lost_link_down;
        let departed = self.hosts_received + self.control_received + dropped + taken + self.llr_taken;
        let entered = self.hosts_sent + self.control_sent + self.copied + self.duplicated + self.llr_sent;
        [entered, departed + self.held + self.on_links]
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Returns the rate in bits a second, rounded down; 0 over an empty span.
pub fn throughput(payload: Bytes, span: Span) -> u64 {
    BitRate::average(payload, span).map_or(0, BitRate::as_bps)
}
