//! State of a running switch, by view. Frames' bytes are without FCS, buffers' are as charged. Counts are since the start, or since
//! counters were last cleared.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_units::CLASSES;

/// A number of each class.
pub type ByClass = [u64; CLASSES];

/// A switch in one view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// Its name.
    pub switch: String,
    /// When its counters were last cleared, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters_cleared_unix_ms: Option<u64>,
    /// What was asked for.
    #[serde(flatten)]
    pub state: State,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// A row for each port.
    Interfaces(Vec<Interface>),
    /// A row for each port that has a device.
    PfcCounters(Vec<PfcCounters>),
    /// A row for each queue that is watched.
    PfcWatchdog(Vec<WatchedQueue>),
    /// The whole switch.
    PauseDelays(PauseDelays),
    /// A row for each port.
    PriorityGroups(Vec<PriorityGroups>),
    /// A row for each port that has a device.
    Queues(Vec<Queues>),
    /// A row for each pool.
    BufferPools(Vec<BufferPool>),
    /// The whole buffer.
    BufferConfiguration(BufferConfiguration),
    /// A row for each address.
    Mac(Vec<MacEntry>),
    /// A row for each lossless ingress queue.
    Policy(PolicyState),
    /// A row for each port that speaks something else than PFC or PAUSE.
    FlowControl(Vec<FlowControlPort>),
    /// A row for each place and reason that frames were lost at.
    Losses(Vec<Loss>),
}

/// A port's link and traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name.
    pub port: String,
    /// What it is made of.
    pub device: String,
    /// The link inside the process that it is an end of, by its name; the other end has the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Whether it has a link; of a clone, whether its port has.
    pub link_up: bool,
    /// Whether somebody wants it open: `up`, `down` or `blocked`.
    #[serde(default)]
    pub state: String,
    /// Classes that its peer is told to pause whatever the buffer holds.
    #[serde(default)]
    pub forced_pause: Vec<usize>,
    /// C, as configured or as the link tells.
    pub rate_bps: Option<u64>,
    /// The flow control that it speaks.
    pub flow_control: String,
    /// Data frames received.
    pub rx: Traffic,
    /// Data frames sent.
    pub tx: Traffic,
}

/// Data frames of a port in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// Frames received or sent.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Rate in the last `stats_interval`, without FCS, preamble and gap; `None` before the first is over.
    pub bits_per_second: Option<u64>,
    /// Received, or to be sent, and dropped by the switch.
    pub dropped: u64,
    /// Lost by the device, as far as it tells; `None` where it tells of none and can't tell all.
    pub lost_at_device: Option<u64>,
}

/// A port's PFC frames and pauses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PfcCounters {
    /// The port.
    pub port: String,
    /// Frames received that pause or resume the class: SAI's `PFC_n_RX_PKTS`.
    pub rx: ByClass,
    /// Frames sent that do, refreshes included: `PFC_n_TX_PKTS`.
    pub tx: ByClass,
    /// How often the peer paused the class, which was running. 802.3x PAUSE counts for the classes that it pauses.
    pub rx_pauses: ByClass,
    /// For how long, in microseconds: `PFC_n_RX_PAUSE_DURATION_US`.
    pub rx_paused_us: ByClass,
    /// The last pause by the peer since counters were cleared.
    pub rx_last_pause: [Option<LastPause>; CLASSES],
    /// How often the peer was told to pause.
    pub tx_pauses: ByClass,
    /// For how long, in microseconds: `PFC_n_TX_PAUSE_DURATION_US`.
    pub tx_paused_us: ByClass,
    /// Frames received that pause a class which is lossy here, and are ignored for it.
    #[serde(default)]
    pub rx_lossy: u64,
}

/// A pause that was, or is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastPause {
    /// When it began, in milliseconds since 1970.
    pub unix_ms: u64,
    /// For how long the class was paused, so far.
    pub us: u64,
}

/// An egress queue that is watched for PFC storms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedQueue {
    /// The port.
    pub port: String,
    /// The class.
    pub queue: usize,
    /// Whether a storm is under way.
    pub in_storm: bool,
    /// Storms detected.
    pub detected: u64,
    /// Storms that were over.
    pub restored: u64,
    /// Packets during all storms.
    pub all: StormPackets,
    /// Packets during the last one, whenever that was.
    pub last: StormPackets,
}

/// Packets during storms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StormPackets {
    /// Sent from the queue.
    pub tx: u64,
    /// Dropped instead of being sent.
    pub tx_dropped: u64,
    /// Received in the class and accepted.
    pub rx: u64,
    /// Received in the class and dropped.
    pub rx_dropped: u64,
}

/// A port's ingress queues: SONiC's priority groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriorityGroups {
    /// The port.
    pub port: String,
    /// Frames received.
    pub frames: ByClass,
    /// Their bytes.
    pub bytes: ByClass,
    /// Private buffer, now.
    pub private_bytes: ByClass,
    /// w_s, now.
    pub shared_bytes: ByClass,
    /// w_h, now.
    pub headroom_bytes: ByClass,
    /// Highest w_s since watermarks were cleared.
    pub shared_watermark_bytes: ByClass,
    /// Highest w_h since watermarks were cleared.
    pub headroom_watermark_bytes: ByClass,
    /// Highest w_s since the start.
    pub shared_persistent_watermark_bytes: ByClass,
    /// Highest w_h since the start.
    pub headroom_persistent_watermark_bytes: ByClass,
    /// Frames that found no room at ingress.
    pub dropped: ByClass,
}

/// A port's egress queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queues {
    /// The port.
    pub port: String,
    /// Frames sent.
    pub frames: ByClass,
    /// Their bytes.
    pub bytes: ByClass,
    /// Frames marked CE.
    pub ce_marked: ByClass,
    /// Frames that were in the queue and were dropped.
    pub dropped: ByClass,
    /// Bytes that wait, now.
    pub held_bytes: ByClass,
    /// Highest of these since watermarks were cleared.
    pub watermark_bytes: ByClass,
    /// Highest of these since the start.
    pub persistent_watermark_bytes: ByClass,
}

/// A pool of the buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferPool {
    /// `shared`, `headroom` or `egress_lossy`.
    pub pool: String,
    /// Its size.
    pub size_bytes: u64,
    /// In use now.
    pub used_bytes: u64,
    /// The most since watermarks were cleared.
    pub watermark_bytes: u64,
    /// The most since the start.
    pub persistent_watermark_bytes: u64,
}

/// How the buffer is cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferConfiguration {
    /// The buffer's policy.
    pub policy: String,
    /// B.
    pub size_bytes: u64,
    /// What private buffers take.
    pub private_bytes: u64,
    /// What headroom takes.
    pub headroom_bytes: u64,
    /// B_s.
    pub shared_bytes: u64,
    /// Each ingress queue.
    pub queues: Vec<BufferQueue>,
}

/// What bounds an ingress queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferQueue {
    /// The port.
    pub port: String,
    /// The class.
    pub class: usize,
    /// Whether the class is lossless there.
    pub lossless: bool,
    /// ρ.
    pub private_bytes: u64,
    /// Xoff now: T(t), or what the policy compares instead.
    pub threshold_bytes: u64,
    /// Φ now.
    pub headroom_bytes: u64,
}

/// A station's address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MacEntry {
    /// The address.
    pub mac: String,
    /// The port that the station is behind.
    pub port: String,
    /// Whether it stands in the configuration, and was not learned.
    pub is_static: bool,
}

/// What the buffer policy makes of its queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyState {
    /// The policy.
    pub policy: String,
    /// Each lossless ingress queue.
    pub queues: Vec<PolicyQueue>,
}

/// An ingress queue, as its policy sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyQueue {
    /// The port.
    pub port: String,
    /// The class.
    pub class: usize,
    /// w_s.
    pub shared_bytes: u64,
    /// w_h.
    pub headroom_bytes: u64,
    /// Xoff now.
    pub threshold_bytes: u64,
    /// Φ now.
    pub headroom_limit_bytes: u64,
    /// Whether its sender is to pause.
    pub off: bool,
    /// Whether that is so because the whole port is OFF.
    pub port_off: bool,
    /// The policy's gauges, by name.
    pub gauges: BTreeMap<String, u64>,
}

/// What a port and its peer told each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowControlPort {
    /// The port.
    pub port: String,
    /// The flow control that it speaks.
    pub flow_control: String,
    /// Messages received.
    pub messages_rx: u64,
    /// Messages sent.
    pub messages_tx: u64,
    /// Messages obeyed that say what they should not.
    pub odd: u64,
    /// Messages of another flow control.
    pub foreign: u64,
    /// How often a class went back to the line rate since the peer's word had aged.
    pub aged: u64,
    /// How often counts of credit were set anew.
    pub resyncs: u64,
    /// C.
    pub rate_bps: Option<u64>,
    /// Each class that was used.
    pub classes: Vec<FlowControlClass>,
}

/// A class under flow control.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowControlClass {
    /// The class.
    pub class: usize,
    /// What its ingress queue holds.
    pub ingress_bytes: u64,
    /// What its egress queue holds.
    pub egress_bytes: u64,
    /// The rate that the peer sets it.
    pub rate_rx_bps: Option<u64>,
    /// The flow control's gauges, by name.
    pub gauges: BTreeMap<String, u64>,
}

/// Lost frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// The port.
    pub port: String,
    /// Where.
    pub place: LossPlace,
    /// The class; devices tell none.
    pub class: Option<usize>,
    /// The reason.
    pub reason: String,
    /// How many; `None` where the device can't tell.
    pub frames: Option<u64>,
}

/// Where frames are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossPlace {
    /// In the switch, when they had arrived at the port.
    Ingress,
    /// In the switch, when they were to leave by the port.
    Egress,
    /// At the port's device, before the switch had them.
    DeviceReceive,
    /// At the port's device, after the switch handed them over.
    DeviceTransmit,
    /// In the NIC in front of the port's host, on the way to the switch.
    NicToSwitch,
    /// In the NIC in front of the port's host, on the way to the host.
    NicToHost,
}

/// What a loop of polls does, on its CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lcore {
    /// The CPU.
    pub cpu: u32,
    /// What it has to do, of each switch.
    pub roles: Vec<String>,
    /// Polls.
    pub polls: u64,
    /// Polls in which a frame moved, or was overdue.
    pub busy_polls: u64,
    /// What it did in them.
    #[serde(default)]
    pub work: LcoreWork,
    /// The times between two polls.
    pub gap_p50_ns: u64,
    /// Their 99th percentile.
    pub gap_p99_ns: u64,
    /// Their 99.9th percentile.
    pub gap_p999_ns: u64,
    /// The longest of them.
    pub gap_max_ns: u64,
    /// How many there were of each length.
    pub gaps: Vec<GapBucket>,
    /// For how long others had the CPU while the loop was ready to run; `None` where the kernel does not tell.
    pub cpu_waited_ms: Option<u64>,
    /// How often the CPU was taken from it.
    pub cpu_preempted: Option<u64>,
    /// How long a hypervisor had the CPU.
    pub cpu_stolen_ms: Option<u64>,
}

/// The packets of an lcore: those that it received; of one that receives none, those that it got of other lcores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LcoreWork {
    /// Packets.
    pub packets: u64,
    /// Bursts that they came in, none of them empty.
    pub bursts: u64,
    /// Packets whose time was taken: all but those of polls that were interrupted for a millisecond.
    pub timed_packets: u64,
    /// The time of all polls with frames, but for such ones.
    pub timed_ns: u64,
    /// How fast the CPU's time-stamp counter runs.
    pub tsc_hz: u64,
}

impl LcoreWork {
    /// Packets a burst; `None` if there was none.
    pub fn packets_a_burst(&self) -> Option<f64> {
        (self.bursts > 0).then(|| self.packets as f64 / self.bursts as f64)
    }

    /// Nanoseconds a packet.
    pub fn ns_a_packet(&self) -> Option<f64> {
        (self.timed_packets > 0).then(|| self.timed_ns as f64 / self.timed_packets as f64)
    }

    /// Cycles of the time-stamp counter a packet.
    pub fn cycles_a_packet(&self) -> Option<f64> {
        Some(self.ns_a_packet()? * self.tsc_hz as f64 / 1e9)
    }

    /// What was done since an earlier look.
    pub fn since(&self, earlier: &LcoreWork) -> LcoreWork {
        LcoreWork {
            packets: self.packets.saturating_sub(earlier.packets),
            bursts: self.bursts.saturating_sub(earlier.bursts),
            timed_packets: self.timed_packets.saturating_sub(earlier.timed_packets),
            timed_ns: self.timed_ns.saturating_sub(earlier.timed_ns),
            tsc_hz: self.tsc_hz,
        }
    }
}

/// Gaps of about one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapBucket {
    /// Their longest.
    pub up_to_ns: u64,
    /// How many.
    pub polls: u64,
}

/// How long messages of flow control take, whichever the ports speak; since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseDelays {
    /// From the arrival that crossed Xoff, or made a GFC stage rise, to the message handed to the port.
    pub message: Delay,
    /// From the arrival of a peer's message that slows a class down to the transmitter's obeying it.
    pub reaction: Delay,
}

/// A delay, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delay {
    /// How many were measured.
    pub count: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// All together.
    pub sum_ns: u64,
    /// How many there were of each length, shortest first: all lengths that are told apart.
    pub lengths: Vec<DelayBucket>,
}

/// Delays of about one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelayBucket {
    /// The longest that counts here; `None`: all that is longer than the others.
    pub up_to_ns: Option<u64>,
    /// How many.
    pub messages: u64,
}

/// Frames of a switch, since the start: `received + copied = sent + dropped + held`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Books {
    /// Data frames received.
    pub received: u64,
    /// Further copies of flooded frames.
    pub copied: u64,
    /// Data frames sent.
    pub sent: u64,
    /// Frames dropped by the switch.
    pub dropped: u64,
    /// Frames that it holds.
    pub held: u64,
    /// Whether they balance.
    pub balance: bool,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The switch.
    pub switch: String,
    /// The port, if it was at one.
    pub port: Option<String>,
    /// The class, if it was of one.
    pub class: Option<usize>,
    /// What: `link_up`, `storm_detected`, `counters_cleared` and so on.
    pub event: String,
    /// More of that.
    pub detail: String,
}
