//! Emulated host with an RDMA NIC, sans-I/O.
//!
//! A host sends RDMA WRITEs or SENDs over reliable connections, each flow at line rate, at a pace, or under congestion
//! control. It obeys flow control with the switch's own regulator, acknowledges received data, and notifies senders of
//! congestion. Where a flow asks for it, lost packets are retransmitted; otherwise a gap in the sequence counts as a
//! loss. In virtual time a flow may be TCP: its messages are one byte stream, and [`crate::tcp`] sends and acknowledges
//! its segments.
//!
//! A host with a [`ReceiveLimit`] processes data at a limited rate, and pauses the switch's port.
//!
//! One host runs in virtual time, where frames are [`NicFrame`]s without payload, and on a port, where they are RoCEv2:
//! [`Host::handle`] and [`Host::poll`], or [`Host::handle_frame`] and [`Host::poll_transmit`].

mod arrival;
mod codec;
mod config;
pub mod congestion;
mod connection;
mod departure;
mod ends;
pub mod entropy;
mod flow;
mod outgoing;
mod packet;
mod packet_set;
mod programs;
mod receive_buffer;
mod receiver;
mod schedule;
mod selective;
mod sender;
mod sender_stats;
mod slab;
mod stats;
mod stream;
mod tcp_frames;
#[cfg(test)]
mod tests;
mod transport;

pub use config::{AckClass, HostConfig, HostError, Peer, ReceiveLimit, RemoteMemory};
pub use congestion::CongestionControlChoice;
pub use connection::Connection;
pub use flow::{FlowConfig, Repeat};
pub use packet::{Ack, FrameSizes, Hops, NicFrame, NicPacket, PacketKind, RdmaOperation, TcpAck, TelemetryMode, Write};
pub use programs::{OperationCause, ProgramEvent, ServerMessage, ServerPeer};
pub use receiver::{ReceiverConfig, ReceiverStats};
pub use schedule::RoundRobinUnit;
pub use selective::{LossRecovery, SelectiveConfig};
pub use sender_stats::{FctSummary, SenderStats};
pub use stats::{ClassStats, Completion, HostStats, NicCounters, ReorderDepth};
pub use transport::Transport;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::mem::swap;
use std::slice::from_ref;

use prefetch_index::prefetch_index;
use weir_flowctl::{ClassRateLimiters, MessageGenerator, ReceiveAccounting, Shaper, TxRegulator};
use weir_units::{BitRate, Bytes, CLASSES, Class, ClassSet, Time};
use weir_wire::rocev2::{NakCode, QueuePair};

use crate::tcp::TcpSender;
use programs::HostPrograms;
use receive_buffer::HostReceiveBuffer;
use receiver::Receiver;
use schedule::Schedule;
use sender::Sender;
use slab::Slab;
use stream::PendingAcks;
use tcp_frames::QueuedTcpFrame;

/// Emulated host.
///
/// Call [`Host::handle`] for each frame that arrives, then [`Host::poll`] until it returns `None`, and again at
/// [`Host::next_wakeup`]. A polled frame counts as sent: poll only when the link can take it. `now` must never go back. Sending
/// and receiving allocate only after losses, for the SACK ranges of TCP.
#[derive(Debug)]
pub struct Host {
    config: HostConfig,
    regulator: TxRegulator,
    limits: ClassRateLimiters,
    generator: MessageGenerator,
    /// Received frames, as flow control counts them.
    arrived: ReceiveAccounting,
    /// Receive buffer; `None` if frames are processed at once.
    receive_buffer: Option<Box<HostReceiveBuffer>>,
    /// Length of the longest frame in bytes, without FCS.
    frame_bytes_max: u32,
    wire: Shaper,
    senders: Slab<Sender>,
    receivers: Slab<Receiver>,
    /// Ends of the initial connections, sorted by queue pair number.
    ends: Box<[(QueuePair, Endpoint)]>,
    /// Order in which the flows send.
    schedule: Schedule,
    /// Instants at which a sender's acknowledgement may be overdue, by place and generation. Each sender uses the earliest
    /// of its entries, and RDMA has one at most.
    timers: BinaryHeap<Reverse<(Time, u32, u32)>>,
    /// Receivers with a pending acknowledgement, by place: at most once each, or once per packet with its acknowledgement.
    acks_due: VecDeque<(usize, Option<Answer>)>,
    /// Receivers with a pending congestion notification, by place, at most once each.
    cnps_due: VecDeque<usize>,
    /// Pending acknowledgements of TCP receivers.
    tcp_acks: PendingAcks,
    /// Queue of TCP frames, if the host has one; it takes part in the round robin while it holds frames.
    tcp_queue: VecDeque<QueuedTcpFrame>,
    /// Unused telemetry buffers, passed from packet to packet without clearing.
    #[expect(clippy::vec_box)]
    spare_hops: Vec<Box<Hops>>,
    payload: Box<[u8]>,
    completions: Vec<Completion>,
    /// Programs; `None` without any.
    programs: Option<Box<HostPrograms>>,
    counters: NicCounters,
    reordering: ReorderDepth,
    classes: [ClassStats; CLASSES],
}

/// Acknowledgement and the telemetry that it echoes.
type Answer = (Ack, Option<Box<Hops>>);

#[derive(Clone, Copy, Debug)]
enum Endpoint {
    Sender(usize),
    Receiver(usize),
}

impl Host {
    /// Returns a host with these flows to send and these connections to receive on.
    pub fn new(config: HostConfig, flows: &[FlowConfig], receivers: &[ReceiverConfig]) -> Result<Host, HostError> {
        let senders = flows.iter().map(|flow| Sender::new(flow, &config)).collect::<Result<Vec<Sender>, _>>()?;
        let of_flows = flows.iter().enumerate().map(|(n, flow)| (flow.queue_pair, Endpoint::Sender(n)));
        let of_receivers = receivers.iter().enumerate().map(|(n, end)| (end.queue_pair, Endpoint::Receiver(n)));
        let mut ends: Vec<(QueuePair, Endpoint)> = of_flows.chain(of_receivers).collect();
        ends.sort_by_key(|(number, _)| *number);
        if let Some(twice) = ends.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(HostError::QueuePairTwice(twice[0].0));
        }
        let (mechanism, lossless) = (&config.flow_control, config.lossless);
        let regulator = TxRegulator::new(mechanism, config.rate, lossless);
        let mut host = Host {
            limits: ClassRateLimiters::new(config.rate, config.slack, [None; CLASSES], &regulator),
            regulator,
            generator: MessageGenerator::new(mechanism, config.rate, lossless),
            arrived: mechanism.receive_accounting(config.link_overhead),
            receive_buffer: config.receive.map(|limit| Box::new(HostReceiveBuffer::new(limit, lossless))),
            frame_bytes_max: longest(&senders, receivers, &config),
            wire: Shaper::timed(Some(config.rate), config.slack, config.frame_times),
            senders: Slab::new(senders),
            receivers: Slab::new(receivers.iter().map(|end| Receiver::new(end, &config))),
            ends: ends.into(),
            schedule: Schedule::new(config.round_robin),
            timers: BinaryHeap::new(),
            acks_due: VecDeque::with_capacity(receivers.len()),
            cnps_due: VecDeque::with_capacity(receivers.len()),
            tcp_acks: PendingAcks::default(),
            tcp_queue: VecDeque::new(),
            spare_hops: Vec::new(),
            payload: (0..config.sizes.payload_max).map(|n| n as u8).collect(),
            completions: Vec::new(),
            programs: None,
            counters: NicCounters::default(),
            reordering: ReorderDepth::default(),
            classes: [ClassStats::default(); CLASSES],
            config,
        };
        (0..flows.len()).for_each(|flow| host.give_turn(Time::ZERO, flow));
        Ok(host)
    }

    /// Prefetches the host's state.
    #[inline]
    pub fn prefetch(&self) {
        prefetch_index(from_ref(&self.config), 0);
        prefetch_index(from_ref(&self.wire), 0);
        prefetch_index(from_ref(&self.generator), 0);
        prefetch_index(from_ref(&self.regulator), 0);
        prefetch_index(from_ref(&self.senders), 0);
        prefetch_index(from_ref(&self.schedule), 0);
        prefetch_index(from_ref(&self.timers), 0);
        prefetch_index(from_ref(&self.acks_due), 0);
        prefetch_index(from_ref(&self.tcp_acks), 0);
        prefetch_index(from_ref(&self.limits), 0);
        prefetch_index(from_ref(&self.counters), 0);
        prefetch_index(from_ref(&self.receive_buffer), 0);
    }

    /// Exchanges the ports of two NICs: the pace of their wires, and flow control in both directions.
    pub fn exchange_port(&mut self, other: &mut Host) {
        swap(&mut self.regulator, &mut other.regulator);
        swap(&mut self.limits, &mut other.limits);
        swap(&mut self.generator, &mut other.generator);
        swap(&mut self.arrived, &mut other.arrived);
        swap(&mut self.wire, &mut other.wire);
    }

    /// Whether all flows have sent all their data, all of it is acknowledged, and programs are idle.
    pub fn is_finished(&self) -> bool {
        self.programs.as_ref().is_none_or(|programs| programs.is_idle()) && self.senders.iter().all(Sender::is_finished)
    }

    /// Whether a flow, by its place, has sent all its data and has it acknowledged, or has been [refused](Host::refusal).
    pub fn is_flow_finished(&self, flow: usize) -> bool {
        self.senders[flow].is_finished()
    }

    /// Returns the reason for which a flow's peer refused it, by the flow's place; `None` if it did not.
    pub fn refusal(&self, flow: usize) -> Option<NakCode> {
        self.senders[flow].refusal()
    }

    /// Returns the length in bytes of the longest frame that the host sends, without FCS.
    pub fn frame_bytes_max(&self) -> usize {
        self.frame_bytes_max as usize
    }

    /// Returns the configuration of the host.
    pub fn config(&self) -> &HostConfig {
        &self.config
    }

    /// Returns the counters of a flow's sender, by its place among those given to [`Host::new`].
    pub fn sender_stats(&self, flow: usize) -> &SenderStats {
        self.senders[flow].stats()
    }

    /// Returns the counters of a connection's receiver, by its place among those given to [`Host::new`].
    pub fn receiver_stats(&self, receiver: usize) -> &ReceiverStats {
        self.receivers[receiver].stats()
    }

    /// Returns the TCP connection of a flow, by its place among those given to [`Host::new`]; `None` for RDMA.
    pub fn tcp_sender(&self, flow: usize) -> Option<&TcpSender> {
        self.senders[flow].tcp()
    }

    /// Passes the value of each gauge of a flow to `show`, in the order of [`FlowConfig::gauges`]; NaN for no value. `flow` is its
    /// place among those given to [`Host::new`].
    pub fn show_gauges(&self, flow: usize, show: &mut dyn FnMut(f64)) {
        self.senders[flow].gauges(show);
    }

    /// Returns the bytes of a class in the buffer that a [`ReceiveLimit`] drains, as of the last call.
    pub fn receive_buffer(&self, class: Class) -> Bytes {
        self.receive_buffer.as_ref().map_or(Bytes::ZERO, |buffer| buffer.held(class))
    }

    /// Returns a class's PFC counters as of `now`.
    pub fn class_stats(&self, now: Time, class: Class) -> ClassStats {
        let (paused_for, pauses) = self.regulator.pause_time(now, class);
        ClassStats { paused_for, pauses, ..self.classes[class.index()] }
    }

    /// Returns the classes that may not send at `now`.
    pub fn paused(&self, now: Time) -> ClassSet {
        self.regulator.paused(now)
    }

    /// Returns the rate that the peer sets for a class under GFC, as of `now`.
    pub fn peer_rate(&self, now: Time, class: Class) -> Option<BitRate> {
        self.regulator.rate(now, class)
    }

    /// Returns the counters of the host that belong to no single flow.
    pub fn counters(&self) -> &NicCounters {
        &self.counters
    }

    /// Returns the depth of reordering of all received packets under selective retransmission.
    pub fn reordering(&self) -> &ReorderDepth {
        &self.reordering
    }

    /// Returns a copy of all counters as of `now`.
    pub fn stats(&self, now: Time) -> HostStats {
        HostStats {
            at: now,
            flows: self.senders.iter().map(|sender| *sender.stats()).collect(),
            receivers: self.receivers.iter().map(|receiver| *receiver.stats()).collect(),
            classes: Class::ALL.map(|class| self.class_stats(now, class)),
            counters: self.counters,
        }
    }

    /// Returns whether [`Host::drain_completions`] would return completions.
    #[inline]
    pub fn has_completions(&self) -> bool {
        !self.completions.is_empty()
    }

    /// Removes and returns the messages completed since the last call, oldest first.
    pub fn drain_completions(&mut self) -> impl Iterator<Item = Completion> {
        self.completions.drain(..)
    }
}

/// Returns the length of the longest frame of a host with these senders and receivers.
fn longest(senders: &[Sender], receivers: &[ReceiverConfig], host: &HostConfig) -> u32 {
    let answers = receivers.iter().map(|receiver| longest_answer(receiver.telemetry, host));
    let all = senders.iter().map(Sender::frame_bytes_max).chain(answers);
    all.fold(host.frame_bytes_max(TelemetryMode::None) as u32, u32::max)
}

/// Returns the length of the longest acknowledgement or notification of an RDMA receiver.
fn longest_answer(stamps: TelemetryMode, host: &HostConfig) -> u32 {
    u32::from(host.sizes.with_telemetry(stamps).ack)
}
