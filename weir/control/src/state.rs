//! State of a running switch, by view. Frames' bytes are without FCS, buffers' are as charged. Counts are since the start, or since
//! counters were last cleared.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_units::CLASSES;

/// Values by class.
pub type ByClass = [u64; CLASSES];

/// View of a switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ViewReply {
    /// Name of the switch.
    pub switch: String,
    /// Time at which its counters were last cleared, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters_cleared_unix_ms: Option<u64>,
    /// State asked for.
    #[serde(flatten)]
    pub state: State,
}

/// State of one kind.
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
    /// A row for each port under another flow control than PFC or PAUSE.
    FlowControl(Vec<FlowControlPort>),
    /// A row for each place and reason of losses.
    Losses(Vec<Loss>),
    /// A row for each port that speaks LLDP.
    Lldp(Vec<LldpPort>),
}

/// A port's link and traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interface {
    /// Name of the port.
    pub port: String,
    /// Device of the port.
    pub device: String,
    /// Name of the link inside the process that the port is an end of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Whether the port has a link; for a clone, whether its original has.
    pub link_up: bool,
    /// Administrative state: `up`, `down` or `blocked`.
    #[serde(default)]
    pub state: String,
    /// Classes paused at the peer by force, at any occupancy.
    #[serde(default)]
    pub forced_pause: Vec<usize>,
    /// Rate C of the link, as configured or as negotiated.
    pub rate_bps: Option<u64>,
    /// Flow control of the port.
    pub flow_control: String,
    /// Data frames received.
    pub rx: Traffic,
    /// Data frames sent.
    pub tx: Traffic,
    /// Stations behind the port.
    #[serde(default)]
    pub stations: Stations,
}

/// Stations behind a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stations {
    /// Learned stations.
    pub learned: u32,
    /// Maximum of `learned`, if there is one.
    pub max: Option<u32>,
    /// Frames whose sources were not learned, because of the maximum or a full table, since the start; flooded ones
    /// count twice.
    pub refused_frames: u64,
    /// Stations that moved to the port from another one, since the start.
    pub moves: u64,
}

/// Data frames of a port in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// Frames received or sent.
    pub frames: u64,
    /// Bytes of the frames.
    pub bytes: u64,
    /// Rate in the last `stats_interval`, without FCS, preamble and gap; `None` before the first is over.
    pub bits_per_second: Option<u64>,
    /// Rate of frames in the last `stats_interval`.
    #[serde(default)]
    pub frames_per_second: Option<u64>,
    /// Frames dropped by the switch in this direction.
    pub dropped: u64,
    /// Malformed and oversized frames among the dropped ones.
    #[serde(default)]
    pub errors: u64,
    /// Losses counted by the device; `None` where it counted none and does not count all.
    pub lost_at_device: Option<u64>,
}

impl Traffic {
    /// Counts since an earlier reading, `time` ago, and the rate over that time. Counters that were cleared since begin at 0.
    pub fn since(&self, earlier: &Traffic, time: Duration) -> Traffic {
        let since = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        let [frames, bytes] = [since(self.frames, earlier.frames), since(self.bytes, earlier.bytes)];
        let lost = self.lost_at_device.zip(earlier.lost_at_device);
        Traffic {
            frames,
            bytes,
            bits_per_second: Some((bytes as f64 * 8.0 / time.as_secs_f64()) as u64),
            frames_per_second: Some((frames as f64 / time.as_secs_f64()) as u64),
            dropped: since(self.dropped, earlier.dropped),
            errors: since(self.errors, earlier.errors),
            lost_at_device: lost.map_or(self.lost_at_device, |(now, before)| Some(since(now, before))),
        }
    }
}

/// A port's PFC frames and pauses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PfcCounters {
    /// The port.
    pub port: String,
    /// Frames received that pause or resume the class: SAI's `PFC_n_RX_PKTS`.
    pub rx: ByClass,
    /// Frames sent that pause or resume the class, refreshes included: `PFC_n_TX_PKTS`.
    pub tx: ByClass,
    /// Pauses of the running class by the peer. 802.3x PAUSE counts for the classes that it pauses.
    pub rx_pauses: ByClass,
    /// Time for which the peer paused the class, in microseconds: `PFC_n_RX_PAUSE_DURATION_US`.
    pub rx_paused_us: ByClass,
    /// The last pause by the peer since counters were cleared.
    pub rx_last_pause: [Option<LastPause>; CLASSES],
    /// Pauses of the peer's class by this port.
    pub tx_pauses: ByClass,
    /// Time for which this port paused the peer's class, in microseconds: `PFC_n_TX_PAUSE_DURATION_US`.
    pub tx_paused_us: ByClass,
    /// Frames received that pause a class which is lossy here, and are ignored for it.
    #[serde(default)]
    pub rx_lossy: u64,
}

/// Past or current pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastPause {
    /// Start of the storm, in milliseconds since 1970.
    pub unix_ms: u64,
    /// Time for which the class has been paused so far.
    pub us: u64,
}

/// An egress queue that is watched for PFC storms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedQueue {
    /// The port.
    pub port: String,
    /// The class.
    pub queue: usize,
    /// Whether a storm is active.
    pub in_storm: bool,
    /// Storms detected.
    pub detected: u64,
    /// Storms that were over.
    pub restored: u64,
    /// Packets during all storms.
    pub all: StormPackets,
    /// Packets during the last storm.
    pub last: StormPackets,
}

/// Packets during storms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StormPackets {
    /// Sent from the queue.
    pub tx: u64,
    /// Dropped instead of being sent.
    pub tx_dropped: u64,
    /// Received by the port for queues of its number, and accepted.
    pub rx: u64,
    /// Received by the port for queues of its number, and dropped.
    pub rx_dropped: u64,
}

/// A port's ingress queues: SONiC's priority groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriorityGroups {
    /// The port.
    pub port: String,
    /// Frames received.
    pub frames: ByClass,
    /// Bytes of the frames.
    pub bytes: ByClass,
    /// Private buffer, now.
    pub private_bytes: ByClass,
    /// Current occupancy w_s of the shared segment.
    pub shared_bytes: ByClass,
    /// Current headroom occupancy w_h.
    pub headroom_bytes: ByClass,
    /// Highest w_s since watermarks were cleared.
    pub shared_watermark_bytes: ByClass,
    /// Highest w_h since watermarks were cleared.
    pub headroom_watermark_bytes: ByClass,
    /// Highest w_s since persistent watermarks were cleared.
    pub shared_persistent_watermark_bytes: ByClass,
    /// Highest w_h since persistent watermarks were cleared.
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
    /// Bytes of the frames.
    pub bytes: ByClass,
    /// Frames marked CE.
    pub ce_marked: ByClass,
    /// Frames dropped from the queue.
    pub dropped: ByClass,
    /// Current occupancy.
    pub held_bytes: ByClass,
    /// Highest of these since watermarks were cleared.
    pub watermark_bytes: ByClass,
    /// Highest of these since persistent watermarks were cleared.
    pub persistent_watermark_bytes: ByClass,
}

/// A pool of the buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferPool {
    /// `shared`, `headroom` or `egress_lossy`.
    pub pool: String,
    /// Size of the pool.
    pub size_bytes: u64,
    /// Bytes in use now.
    pub used_bytes: u64,
    /// Watermark since watermarks were cleared.
    pub watermark_bytes: u64,
    /// Watermark since persistent watermarks were cleared.
    pub persistent_watermark_bytes: u64,
}

/// Partition of the buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferConfiguration {
    /// The buffer's policy.
    pub policy: String,
    /// Buffer size B.
    pub size_bytes: u64,
    /// Total of the private buffers.
    pub private_bytes: u64,
    /// Total of the headroom.
    pub headroom_bytes: u64,
    /// Size B_s of the shared segment.
    pub shared_bytes: u64,
    /// Each ingress queue.
    pub queues: Vec<BufferQueue>,
}

/// Limits of an ingress queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferQueue {
    /// The port.
    pub port: String,
    /// The class.
    pub class: usize,
    /// Whether the class is lossless there.
    pub lossless: bool,
    /// Private buffer ρ of the queue.
    pub private_bytes: u64,
    /// Current Xoff: T(t), or the policy's own threshold.
    pub threshold_bytes: u64,
    /// Current Φ, in bytes (not charges).
    pub headroom_bytes: u64,
}

/// A station's address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MacEntry {
    /// VLAN in which it was learned; none in a switch without VLANs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// The address.
    pub mac: String,
    /// The port that the station is behind.
    pub port: String,
    /// True if the address is configured, not learned.
    pub is_static: bool,
}

/// LLDP at a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LldpPort {
    /// The port.
    pub port: String,
    /// Frames of LLDP and the loop guard received.
    pub rx: u64,
    /// Frames of LLDP and the loop guard sent.
    pub tx: u64,
    /// Received frames that break the format, since the start.
    pub malformed: u64,
    /// PFC classes that the port announces.
    pub pfc: Vec<usize>,
    /// Neighbours.
    pub neighbours: Vec<LldpNeighbour>,
}

/// Neighbour of a port, by its last LLDPDU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LldpNeighbour {
    /// Chassis ID.
    pub chassis_id: String,
    /// Port ID.
    pub port_id: String,
    /// Seconds for which an LLDPDU is valid.
    pub ttl: u16,
    /// Seconds since the first LLDPDU.
    pub known_for_s: u64,
    /// Description of the port.
    pub port_description: Option<String>,
    /// Name of the system.
    pub system_name: Option<String>,
    /// Description of the system.
    pub system_description: Option<String>,
    /// Enabled capabilities, as the bitmap of 802.1AB.
    pub capabilities: u16,
    /// Classes with PFC; `None` without DCBX.
    pub pfc: Option<Vec<usize>>,
    /// Whether the neighbour adopts its peer's PFC classes.
    pub pfc_willing: bool,
    /// Comparison of its PFC classes with the port's.
    pub pfc_comparison: PfcComparison,
    /// Shares of the bandwidth by traffic class, in percent.
    pub ets_percent: Option<[u8; CLASSES]>,
    /// Class of RoCEv2.
    pub rocev2_class: Option<usize>,
}

/// Comparison of a neighbour's PFC classes with a port's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PfcComparison {
    /// The neighbour announces no PFC configuration.
    #[default]
    Unknown,
    /// The classes are equal.
    Equal,
    /// The classes differ, and the neighbour adopts the port's.
    Willing,
    /// The classes differ, and stay so.
    Mismatch,
}

/// Gauges of the buffer policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyState {
    /// The policy.
    pub policy: String,
    /// Each lossless ingress queue.
    pub queues: Vec<PolicyQueue>,
}

/// State of an ingress queue under the buffer policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyQueue {
    /// The port.
    pub port: String,
    /// The class.
    pub class: usize,
    /// Occupancy w_s of the shared segment.
    pub shared_bytes: u64,
    /// Headroom occupancy w_h.
    pub headroom_bytes: u64,
    /// Xoff now.
    pub threshold_bytes: u64,
    /// Φ now.
    pub headroom_limit_bytes: u64,
    /// Whether the queue is OFF: its sender is to pause.
    pub off: bool,
    /// Whether the queue is OFF because its port is.
    pub port_off: bool,
    /// The policy's gauges, by name.
    pub gauges: BTreeMap<String, u64>,
}

/// Flow-control messages between a port and its peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowControlPort {
    /// The port.
    pub port: String,
    /// Flow control of the port.
    pub flow_control: String,
    /// Messages received.
    pub messages_rx: u64,
    /// Messages sent.
    pub messages_tx: u64,
    /// Invalid messages that were obeyed.
    #[serde(rename = "odd")]
    pub invalid: u64,
    /// Messages of another flow control.
    pub foreign: u64,
    /// Number of times that a class returned to the line rate because the peer's last message had aged.
    pub aged: u64,
    /// Number of credit resynchronisations.
    pub resyncs: u64,
    /// Rate C of the link.
    pub rate_bps: Option<u64>,
    /// Classes that were used.
    pub classes: Vec<FlowControlClass>,
}

/// A class under flow control.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowControlClass {
    /// The class.
    pub class: usize,
    /// Occupancy of the ingress queue.
    pub ingress_bytes: u64,
    /// Occupancy of the egress queue.
    pub egress_bytes: u64,
    /// Rate that the peer sets for the class.
    pub rate_rx_bps: Option<u64>,
    /// The flow control's gauges, by name.
    pub gauges: BTreeMap<String, u64>,
}

/// Lost frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// The port.
    pub port: String,
    /// Place of the loss.
    pub place: LossPlace,
    /// The class; `None` for a loss at a device.
    pub class: Option<usize>,
    /// The reason.
    pub reason: String,
    /// Lost frames; `None` where the device can't count them.
    pub frames: Option<u64>,
}

/// Place where frames are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossPlace {
    /// Loss in the switch, after arrival at the port.
    Ingress,
    /// Loss in the switch, before leaving by the port.
    Egress,
    /// Loss at the port's device, before the switch received the frames.
    DeviceReceive,
    /// Loss at the port's device, after the switch handed the frames over.
    DeviceTransmit,
    /// Loss in the NIC in front of the port's host, on the path to the switch.
    NicToSwitch,
    /// Loss in the NIC in front of the port's host, on the path to the host.
    NicToHost,
}

/// Statistics of an lcore's polling loop and CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lcore {
    /// The CPU.
    pub cpu: u32,
    /// Roles of the lcore in each switch.
    pub roles: Vec<String>,
    /// Polls.
    pub polls: u64,
    /// Polls in which a frame moved, or was overdue.
    pub busy_polls: u64,
    /// Work done in the polls.
    #[serde(default)]
    pub work: LcoreWork,
    /// Median of the gaps between polls.
    pub gap_p50_ns: u64,
    /// 99th percentile of the gaps.
    pub gap_p99_ns: u64,
    /// 99.9th percentile of the gaps.
    pub gap_p999_ns: u64,
    /// Longest gap.
    pub gap_max_ns: u64,
    /// Histogram of the gaps.
    pub gaps: Vec<GapBucket>,
    /// Time for which others had the CPU while the loop was ready to run; `None` where the kernel does not report it.
    pub cpu_waited_ms: Option<u64>,
    /// Involuntary context switches.
    pub cpu_preempted: Option<u64>,
    /// Time for which a hypervisor had the CPU.
    pub cpu_stolen_ms: Option<u64>,
}

/// Packets of an lcore: those received, or, for an lcore without receive stage, those from other lcores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LcoreWork {
    /// Packets.
    pub packets: u64,
    /// Non-empty bursts of these packets.
    pub bursts: u64,
    /// Packets of timed polls: all but those interrupted for a millisecond.
    pub timed_packets: u64,
    /// Time of the timed polls with frames.
    pub timed_ns: u64,
    /// Frequency of the CPU's time-stamp counter, in Hz.
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

    /// Difference from an earlier state.
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
    /// Longest gap of the bucket.
    pub up_to_ns: u64,
    /// Number of gaps.
    pub polls: u64,
}

/// Delays of flow-control messages since the start, for any flow control.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseDelays {
    /// Delay from the arrival that crossed Xoff, or raised a GFC stage, to the message handed to the port.
    pub message: Delay,
    /// Delay from the arrival of a peer's message that slows a class down until the transmitter obeys it.
    pub reaction: Delay,
}

/// A delay, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delay {
    /// Number of measured delays.
    pub count: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Sum of the delays.
    pub sum_ns: u64,
    /// Histogram of the delays, shortest first, with all buckets.
    pub lengths: Vec<DelayBucket>,
}

/// Delays of about one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelayBucket {
    /// Longest delay of the bucket; `None`: all longer delays.
    pub up_to_ns: Option<u64>,
    /// Number of messages.
    pub messages: u64,
}

/// Frames of a switch, since the start: `received + copied = sent + dropped + held`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameConservation {
    /// Data frames received.
    pub received: u64,
    /// Further copies of flooded frames.
    pub copied: u64,
    /// Data frames sent.
    pub sent: u64,
    /// Frames dropped by the switch.
    pub dropped: u64,
    /// Frames buffered in the switch.
    pub held: u64,
    /// Whether the equation holds.
    pub conserved: bool,
}

/// Event of a switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Time of the event, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The switch.
    pub switch: String,
    /// The port, for an event of a port.
    pub port: Option<String>,
    /// The class, for an event of a class.
    pub class: Option<usize>,
    /// Kind of event: `link_up`, `storm_detected`, `counters_cleared` and so on.
    pub event: String,
    /// Detail of the event.
    pub detail: String,
}
