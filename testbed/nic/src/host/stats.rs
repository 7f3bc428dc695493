//! Counters of a host.

use weir_units::{Bytes, CLASSES, Span, Time};

use super::packet_set::WINDOW;
use super::{ReceiverStats, SenderStats};

/// Snapshot of all counters of a host.
#[derive(Clone, Debug)]
pub struct HostStats {
    /// Instant of the snapshot.
    pub at: Time,
    /// Counters of each flow that the host sends.
    pub flows: Vec<SenderStats>,
    /// Counters of each connection that the host receives on.
    pub receivers: Vec<ReceiverStats>,
    /// Counters of each class.
    pub classes: [ClassStats; CLASSES],
    /// Counters of frames outside any flow.
    pub counters: NicCounters,
}

/// PFC and receive-buffer counters of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassStats {
    /// Total paused time.
    pub paused_for: Span,
    /// Number of transitions from running to paused.
    pub pauses: u64,
    /// Received PFC frames that pause the class, refreshes included.
    pub xoff_frames: u64,
    /// Received PFC frames that resume the class.
    pub xon_frames: u64,
    /// Number of times that the host paused the class at the switch, without refreshes.
    pub pauses_sent: u64,
    /// Frames of the class dropped because the receive buffer had no room ([`ReceiveLimit`](super::ReceiveLimit)).
    pub receive_overflow: u64,
    /// Highest receive-buffer occupancy of the class.
    pub receive_buffer_max: Bytes,
}

/// Counters of frames that belong to no flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicCounters {
    /// PFC frames and GFC stage frames received.
    pub pfc_frames: u64,
    /// Frames with credit or queue lengths received.
    pub credit_frames: u64,
    /// Frames received of a flow control with its own frame format.
    pub own_frames: u64,
    /// Flow-control messages sent.
    pub control_sent: u64,
    /// Other MAC control frames received, and malformed ones.
    pub control_ignored: u64,
    /// Frames for another MAC address.
    pub foreign: u64,
    /// Frames that are not RoCEv2.
    pub unreadable: u64,
    /// Frames with a wrong ICRC.
    pub bad_icrc: u64,
    /// Frames for a queue pair that the host lacks, or that does not accept the frame.
    pub unknown_queue_pair: u64,
    /// Data frames dropped because the receive buffer had no room ([`ReceiveLimit`](super::ReceiveLimit)).
    pub receive_overflow: u64,
    /// Completions missing from the log, because the log was not drained. The flow's own counters include them.
    pub completions_forgotten: u64,
}

/// Depth of reordering under selective retransmission: the distance in packets of each late packet from the last one that
/// overtook it. Packets sent again are late too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReorderDepth {
    /// Number of late packets by the bits of their depth: element n counts depths from 2^n to 2^(n+1) - 1.
    pub counts: [u64; WINDOW.ilog2() as usize],
    /// Greatest depth.
    pub max: u32,
}

impl ReorderDepth {
    /// Records a late packet, by a depth of 1 or more.
    #[cold]
    pub(super) fn record(&mut self, depth: u32) {
        self.counts[(depth.ilog2() as usize).min(self.counts.len() - 1)] += 1;
        self.max = self.max.max(depth);
    }

    /// Adds the packets of another host.
    pub fn add(&mut self, other: &ReorderDepth) {
        self.counts.iter_mut().zip(other.counts).for_each(|(count, other)| *count += other);
        self.max = self.max.max(other.max);
    }

    /// Returns a depth that `percent` of the late packets do not exceed, rounded up to a power of two less one or the maximum; 0
    /// without late packets.
    pub fn percentile(&self, percent: u64) -> u32 {
        let all: u64 = self.counts.iter().sum();
        let mut so_far = 0;
        let reached = self.counts.iter().position(|count| {
            so_far += count;
            so_far * 100 >= all * percent
        });
        reached.map_or(0, |bits| ((2 << bits) - 1).min(self.max))
    }
}

/// Acknowledged message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Index of the flow in the host.
    pub flow: usize,
    /// Instant at which the message was handed to the NIC.
    pub released: Time,
    /// Payload of the message.
    pub size: Bytes,
    /// Flow completion time: from `released` to the acknowledgement's arrival.
    pub fct: Span,
}
