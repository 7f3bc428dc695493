//! What a host has counted.

use weir_units::archive::Value;
use weir_units::{Bytes, CLASSES, Span, Time};

use super::{ReceiverStats, SenderStats};

/// All counters of a host.
#[derive(Clone, Debug)]
pub struct HostStats {
    /// As of when.
    pub at: Time,
    /// Each flow that the host sends.
    pub flows: Vec<SenderStats>,
    /// Each connection that the host receives on.
    pub receivers: Vec<ReceiverStats>,
    /// Each class.
    pub classes: [ClassStats; CLASSES],
    /// What concerns no single flow.
    pub counters: NicCounters,
}

/// How PFC held a class, and how its receive buffer went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Value)]
pub struct ClassStats {
    /// For how long it was paused.
    pub paused_for: Span,
    /// How often it went from running to paused.
    pub pauses: u64,
    /// PFC frames received that pause it, refreshes included.
    pub xoff_frames: u64,
    /// PFC frames received that resume it.
    pub xon_frames: u64,
    /// How often the host paused it at the switch, refreshes not included.
    pub pauses_sent: u64,
    /// Frames of it dropped because the receive buffer had no room ([`ReceiveLimit`](super::ReceiveLimit)).
    pub receive_overflow: u64,
    /// The most of it that stood in the receive buffer.
    pub receive_buffer_max: Bytes,
}

/// Frames that belong to no flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Value)]
pub struct NicCounters {
    /// PFC frames, and GFC's stages.
    pub pfc_frames: u64,
    /// Frames with credit or queues' lengths.
    pub credit_frames: u64,
    /// Messages of a flow control with frames of its own.
    pub own_frames: u64,
    /// Messages of flow control sent.
    pub control_sent: u64,
    /// Other MAC control frames, and broken ones.
    pub control_ignored: u64,
    /// For another MAC address.
    pub foreign: u64,
    /// No RoCEv2 frames.
    pub unreadable: u64,
    /// With a wrong ICRC.
    pub bad_icrc: u64,
    /// For a queue pair that the host does not have, or that does not take such a frame.
    pub unknown_queue_pair: u64,
    /// Data frames dropped because the receive buffer had no room ([`ReceiveLimit`](super::ReceiveLimit)).
    pub receive_overflow: u64,
    /// Completions that were not logged, because nobody drained them. They are counted in the flow's own numbers.
    pub completions_forgotten: u64,
}

/// A message that was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Value)]
pub struct Completion {
    /// The flow, by its place in the host.
    pub flow: usize,
    /// When it was handed to the NIC.
    pub released: Time,
    /// Its payload.
    pub size: Bytes,
    /// Flow completion time: from then until its acknowledgement arrived.
    pub fct: Span,
}
