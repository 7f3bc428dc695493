//! An emulated host with an RDMA NIC, sans-I/O.
//!
//! It sends RDMA WRITEs over reliable connections as RoCEv2 frames, each flow at line rate, at a pace, or under congestion
//! control; obeys PFC with the switch's own gate; acknowledges what it receives, and notifies senders of congestion. There
//! is no retransmission: a gap in the sequence is counted as a loss. Frames are real, so the same host runs in virtual time
//! and on a port.

mod congestion;
mod dcqcn;
mod receiver;
mod sender;
mod stats;
#[cfg(test)]
mod tests;

pub use congestion::CongestionControl;
pub use dcqcn::DcqcnConfig;
pub use receiver::{ReceiverConfig, ReceiverStats};
pub use sender::{FctSummary, FlowConfig, Repeat, SenderStats};
pub use stats::{ClassStats, Completion, HostStats, NicCounters};

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use weir_flowctl::Quantum;
use weir_flowctl::frame::ControlFrame;
use weir_flowctl::pfc::Gate;
use weir_units::{BitRate, Bytes, CLASSES, Class, MacAddr, Span, Time};

use crate::rocev2::{
    Dscp, Ecn, OVERHEAD_BYTES_MAX, Operation, Packet, PathMtu, QueuePair, Repr, Syndrome, source_port,
};
use receiver::Receiver;
use sender::Sender;
use weir_flowctl::Shaper;

/// Completions kept until they are drained; later ones are counted and forgotten.
const COMPLETIONS_MAX: usize = 16_384;

/// A host's NIC.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Its MAC address.
    pub mac: MacAddr,
    /// Its IP address.
    pub ip: Ipv4Addr,
    /// Line rate. A frame takes its bytes, FCS, preamble and gap at this rate.
    pub rate: BitRate,
    /// Payload of a full packet.
    pub mtu: PathMtu,
    /// Code point of acknowledgements and congestion notifications.
    pub ack_dscp: Dscp,
    /// Class of both, for PFC: the one that the switch gives to `ack_dscp`.
    pub ack_class: Class,
    /// How far a late poll may catch up on rates: zero in virtual time.
    pub slack: Span,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// MAC address: of the host, for hosts are on one network.
    pub mac: MacAddr,
    /// IP address.
    pub ip: Ipv4Addr,
    /// Its queue pair.
    pub queue_pair: QueuePair,
}

/// Why a host can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Two ends of connections with one number.
    #[error("{0:?} is used twice on one host")]
    QueuePairTwice(QueuePair),
    /// A message of no bytes, or of more than a WRITE can carry.
    #[error("a message of {0} can't be sent: it has 1 to 2147483648 bytes")]
    MessageSize(Bytes),
    /// A flow of no bytes.
    #[error("{0:?} has a total of no bytes")]
    NoTotal(QueuePair),
    /// A burst that repeats without time passing.
    #[error("{0:?} repeats its message after no time")]
    NoPeriod(QueuePair),
}

/// An emulated host.
///
/// Call [`Host::handle_frame`] for each frame that arrives, then [`Host::poll_transmit`] until it returns `None`, and
/// again at [`Host::next_wakeup`]. What `poll_transmit` returns counts as sent: poll only when the link takes it.
/// `now` must never go back. Nothing is allocated on the way of a packet.
#[derive(Debug)]
pub struct Host {
    config: HostConfig,
    gate: Gate,
    wire: Shaper,
    senders: Box<[Sender]>,
    receivers: Box<[Receiver]>,
    /// Ends of connections by number, sorted.
    ends: Box<[(QueuePair, End)]>,
    /// The sender whose turn it is, if it may.
    turn: usize,
    /// Receivers that owe an acknowledgement; each stands here once at most.
    acks_due: VecDeque<usize>,
    /// Receivers that owe a congestion notification, alike.
    cnps_due: VecDeque<usize>,
    payload: Box<[u8]>,
    completions: Vec<Completion>,
    counters: NicCounters,
    classes: [ClassStats; CLASSES],
}

#[derive(Clone, Copy, Debug)]
enum End {
    Sender(usize),
    Receiver(usize),
}

impl HostConfig {
    /// A NIC with an MTU of 1024 B, acknowledgements at DSCP 48 in class 6, and no slack.
    pub fn new(mac: MacAddr, ip: Ipv4Addr, rate: BitRate) -> HostConfig {
        HostConfig {
            mac,
            ip,
            rate,
            mtu: PathMtu::BYTES_1024,
            ack_dscp: Dscp::new(48),
            ack_class: Class::new(6),
            slack: Span::ZERO,
        }
    }

    /// This host as the other end of a connection.
    pub fn peer(&self, queue_pair: QueuePair) -> Peer {
        Peer { mac: self.mac, ip: self.ip, queue_pair }
    }

    /// The longest frame that the host sends, without FCS.
    pub fn frame_bytes_max(&self) -> usize {
        self.mtu.get() + OVERHEAD_BYTES_MAX
    }
}

impl Host {
    /// A host with these flows to send and these connections to receive on.
    pub fn new(config: HostConfig, flows: &[FlowConfig], receivers: &[ReceiverConfig]) -> Result<Host, HostError> {
        let senders = flows.iter().map(|flow| Sender::new(flow, &config)).collect::<Result<Box<[Sender]>, _>>()?;
        let of_flows = flows.iter().enumerate().map(|(n, flow)| (flow.queue_pair, End::Sender(n)));
        let of_receivers = receivers.iter().enumerate().map(|(n, end)| (end.queue_pair, End::Receiver(n)));
        let mut ends: Vec<(QueuePair, End)> = of_flows.chain(of_receivers).collect();
        ends.sort_by_key(|(number, _)| *number);
        if let Some(twice) = ends.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(HostError::QueuePairTwice(twice[0].0));
        }
        Ok(Host {
            gate: Gate::new(Quantum::at(config.rate)),
            wire: Shaper::new(Some(config.rate), config.slack),
            senders,
            receivers: receivers.iter().map(Receiver::new).collect(),
            ends: ends.into(),
            turn: 0,
            acks_due: VecDeque::with_capacity(receivers.len()),
            cnps_due: VecDeque::with_capacity(receivers.len()),
            payload: (0..config.mtu.get()).map(|n| n as u8).collect(),
            completions: Vec::with_capacity(COMPLETIONS_MAX),
            counters: NicCounters::default(),
            classes: [ClassStats::default(); CLASSES],
            config,
        })
    }

    /// Takes a frame (without FCS) that has arrived at `now`.
    pub fn handle_frame(&mut self, now: Time, frame: &[u8]) {
        if ControlFrame::is_control(frame) {
            return self.handle_control(now, frame);
        }
        if frame.get(..6) != Some(&self.config.mac.0) {
            self.counters.foreign += 1;
            return;
        }
        let Ok(packet) = Packet::new(frame) else {
            self.counters.unreadable += 1;
            return;
        };
        if !packet.icrc_holds() {
            self.counters.bad_icrc += 1;
            return;
        }
        match Repr::read(&packet) {
            Ok(repr) => self.handle_packet(now, &repr, packet.payload().len()),
            Err(_) => self.counters.unreadable += 1,
        }
    }

    fn handle_control(&mut self, now: Time, frame: &[u8]) {
        let Ok(ControlFrame::Pfc(pfc)) = ControlFrame::decode(frame) else {
            self.counters.control_ignored += 1;
            return;
        };
        self.counters.pfc_frames += 1;
        Class::in_mask(pfc.paused()).for_each(|class| self.classes[class.index()].xoff_frames += 1);
        Class::in_mask(pfc.resumed()).for_each(|class| self.classes[class.index()].xon_frames += 1);
        self.gate.handle_pfc(now, &pfc);
    }

    fn handle_packet(&mut self, now: Time, repr: &Repr, payload_bytes: usize) {
        let place = self.ends.binary_search_by_key(&repr.queue_pair, |(number, _)| *number);
        match (place.map(|place| self.ends[place].1), repr.operation) {
            (Ok(End::Receiver(receiver)), Operation::Write { part, ack_request }) => {
                let state = &mut self.receivers[receiver];
                let owed_before = state.ack_due().is_some();
                let is_marked = repr.ecn == Ecn::Ce;
                state.handle_write(now, repr.psn, part, ack_request, payload_bytes, is_marked);
                if is_marked && state.handle_marked(now) {
                    self.cnps_due.push_back(receiver);
                }
                if state.ack_due().is_some() && !owed_before {
                    self.acks_due.push_back(receiver);
                }
            }
            (Ok(End::Sender(flow)), Operation::Acknowledge { syndrome, .. }) => {
                let is_ack = syndrome != Syndrome::SequenceError;
                let (completions, counters) = (&mut self.completions, &mut self.counters);
                self.senders[flow].handle_ack(now, repr.psn, is_ack, |released, size| {
                    if completions.len() < COMPLETIONS_MAX {
                        completions.push(Completion { flow, released, size, fct: now.since(released) });
                    } else {
                        counters.completions_forgotten += 1;
                    }
                });
            }
            (Ok(End::Sender(flow)), Operation::CongestionNotification) => self.senders[flow].handle_cnp(now),
            _ => self.counters.unknown_queue_pair += 1,
        }
    }

    /// Writes the next frame that may be sent at `now` into `buffer` and returns its length without FCS; `None` if
    /// the wire is busy, or nothing is due that PFC lets pass.
    ///
    /// Congestion notifications go first, then acknowledgements; flows take turns, a frame each.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`HostConfig::frame_bytes_max`].
    pub fn poll_transmit(&mut self, now: Time, buffer: &mut [u8]) -> Option<usize> {
        assert!(buffer.len() >= self.config.frame_bytes_max(), "a frame may be longer than the buffer");
        if now < self.wire.free_at() {
            return None;
        }
        let paused = self.gate.paused(now);
        let control = if paused & self.config.ack_class.bit() == 0 {
            self.poll_cnp(buffer).or_else(|| self.poll_ack(buffer))
        } else {
            None
        };
        let frame_bytes = control.or_else(|| self.poll_flows(now, paused, buffer))?;
        self.wire.send(now, frame_bytes as u32);
        Some(frame_bytes)
    }

    fn poll_cnp(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let receiver = &mut self.receivers[self.cnps_due.pop_front()?];
        receiver.handle_cnp_sent();
        let (own, peer) = (receiver.config().queue_pair, receiver.config().peer);
        let operation = Operation::CongestionNotification;
        // No switch is to mark it.
        let repr = Repr { ecn: Ecn::NotCapable, ..repr_to(&self.config, own, peer, self.config.ack_dscp, operation) };
        Some(repr.write(&[], buffer).expect("the buffer holds any frame"))
    }

    fn poll_ack(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let receiver = &mut self.receivers[self.acks_due.pop_front()?];
        let (psn, msn) = receiver.take_ack().expect("only those that owe an acknowledgement stand in the queue");
        let operation = Operation::Acknowledge { syndrome: Syndrome::ACK, msn };
        let (own, peer) = (receiver.config().queue_pair, receiver.config().peer);
        let repr = Repr { psn, ..repr_to(&self.config, own, peer, self.config.ack_dscp, operation) };
        Some(repr.write(&[], buffer).expect("the buffer holds any frame"))
    }

    fn poll_flows(&mut self, now: Time, paused: u8, buffer: &mut [u8]) -> Option<usize> {
        let flows = self.senders.len();
        let in_turn = (self.turn..flows).chain(0..self.turn);
        let may_send = |flow: &usize| {
            let sender = &self.senders[*flow];
            sender.due() <= now && paused & sender.config().class.bit() == 0
        };
        let flow = in_turn.into_iter().find(may_send)?;
        self.turn = if flow + 1 == flows { 0 } else { flow + 1 };
        let sender = &mut self.senders[flow];
        let segment = sender.take_segment(now);
        let FlowConfig { queue_pair, peer, dscp, .. } = *sender.config();
        let repr = Repr { psn: segment.psn, ..repr_to(&self.config, queue_pair, peer, dscp, segment.operation) };
        let payload = &self.payload[..segment.payload_bytes];
        let frame_bytes = repr.write(payload, buffer).expect("the buffer holds any frame");
        sender.handle_sent(now, frame_bytes);
        Some(frame_bytes)
    }

    /// The earliest instant, `now` or later, at which [`Host::poll_transmit`] has a frame if nothing arrives before;
    /// [`Time::NEVER`] if there is none.
    pub fn next_wakeup(&self, now: Time) -> Time {
        let free = self.wire.free_at().max(now);
        let owes = !self.acks_due.is_empty() || !self.cnps_due.is_empty();
        let control = owes.then(|| self.opens_at(free, self.config.ack_class));
        let flows = self.senders.iter().filter(|sender| sender.due() < Time::NEVER);
        let flows = flows.map(|sender| self.opens_at(sender.due().max(free), sender.config().class));
        flows.chain(control).min().unwrap_or(Time::NEVER)
    }

    /// The first instant, `from` or later, at which a class is not paused.
    fn opens_at(&self, from: Time, class: Class) -> Time {
        let mut at = from;
        while self.gate.paused(at) & class.bit() != 0 {
            at = self.gate.next_wakeup(at).expect("a paused class has a timer");
        }
        at
    }

    /// Whether all flows have sent all that they will ever send, and have it acknowledged.
    pub fn is_finished(&self) -> bool {
        self.senders.iter().all(Sender::is_finished)
    }

    /// How the host was configured.
    pub fn config(&self) -> &HostConfig {
        &self.config
    }

    /// What a flow has sent, by its place among those given to [`Host::new`].
    pub fn sender_stats(&self, flow: usize) -> &SenderStats {
        self.senders[flow].stats()
    }

    /// What arrived on a connection, by its place among those given to [`Host::new`].
    pub fn receiver_stats(&self, receiver: usize) -> &ReceiverStats {
        self.receivers[receiver].stats()
    }

    /// A class's PFC counters as of `now`.
    pub fn class_stats(&self, now: Time, class: Class) -> ClassStats {
        let (paused_for, pauses) = self.gate.pause_time(now, class);
        ClassStats { paused_for, pauses, ..self.classes[class.index()] }
    }

    /// The classes that may not send at `now`, one bit each.
    pub fn paused(&self, now: Time) -> u8 {
        self.gate.paused(now)
    }

    /// What concerns no single flow.
    pub fn counters(&self) -> &NicCounters {
        &self.counters
    }

    /// All counters as of `now`, in a copy.
    pub fn stats(&self, now: Time) -> HostStats {
        HostStats {
            at: now,
            flows: self.senders.iter().map(|sender| *sender.stats()).collect(),
            receivers: self.receivers.iter().map(|receiver| *receiver.stats()).collect(),
            classes: Class::ALL.map(|class| self.class_stats(now, class)),
            counters: self.counters,
        }
    }

    /// The messages completed since the last call, oldest first.
    pub fn drain_completions(&mut self) -> impl Iterator<Item = Completion> {
        self.completions.drain(..)
    }
}

/// A frame over a connection; its PSN is yet to be set where it has one.
fn repr_to(host: &HostConfig, own: QueuePair, peer: Peer, dscp: Dscp, operation: Operation) -> Repr {
    Repr {
        destination: peer.mac,
        source: host.mac,
        destination_ip: peer.ip,
        source_ip: host.ip,
        dscp,
        ecn: Ecn::Ect0,
        source_port: source_port(own, peer.queue_pair),
        queue_pair: peer.queue_pair,
        psn: Default::default(),
        operation,
    }
}
