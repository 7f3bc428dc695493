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
    ClassSummary, FeedbackSummary, FlowControlSummary, LaneSummary, MessageSummary, OffQueuesSummary, PoolSummary,
    PortSummary, SwitchSummary,
};
pub use windows::{FlowWindow, PortWindow, Window};

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

impl FrameSummary {
    /// What went in, and what came out or is there still.
    pub fn sides(&self) -> [u64; 2] {
        let dropped: u64 = self.dropped.values().sum();
        let taken = self.faults_lost + self.faults_corrupted + self.cut_off;
        let gone = self.hosts_received + self.control_received + dropped + taken;
        [self.hosts_sent + self.control_sent + self.copied + self.doubled, gone + self.held + self.on_links]
    }
}

/// Bits a second, rounded down; 0 over no time.
pub fn throughput(payload: Bytes, span: Span) -> u64 {
    BitRate::of(payload, span).map_or(0, BitRate::as_bps)
}
