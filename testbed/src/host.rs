//! An emulated host with an RDMA NIC, sans-I/O.
//!
//! It sends RDMA WRITEs over reliable connections as RoCEv2 frames, each flow at line rate, at a pace, or under congestion
//! control; obeys PFC with the switch's own gate; acknowledges what it receives, and notifies senders of congestion. There
//! is no retransmission: a gap in the sequence is counted as a loss. Frames are real, so the same host runs in virtual time
//! and on a port.

pub mod congestion;
mod receiver;
mod sender;
mod stats;
#[cfg(test)]
mod tests;

pub use congestion::{CongestionControl, DcqcnConfig};
pub use receiver::{ReceiverConfig, ReceiverStats};
pub use sender::{FctSummary, FlowConfig, Repeat, SenderStats};
pub use stats::{ClassStats, Completion, HostStats, NicCounters};

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use weir_flowctl::frame::{ControlFrame, FRAME_BYTES};
use weir_flowctl::{Arrived, ClassLimits, Demand, Mechanism, MessageGenerator, Regulator, Shaper};
use weir_units::{BitRate, Bytes, CLASSES, Class, MacAddr, Span, Time};

use crate::rocev2::{
    Dscp, Ecn, OVERHEAD_BYTES_MAX, Operation, Packet, PathMtu, QueuePair, Repr, Syndrome, source_port,
};
use receiver::Receiver;
use sender::Sender;

/// Where a frame without a VLAN tag has its ethertype, and an IPv4 header its code point.
const ETHERTYPE: std::ops::Range<usize> = 12..14;
const IP_TOS: usize = 15;
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
    /// What it speaks with the switch's port, which must speak the same.
    pub flow_control: Mechanism,
    /// The classes under GFC or credit, one bit each: the switch's lossless ones.
    pub lossless: u8,
    /// The class that the switch gives to each code point: both ends of a link must count credit alike.
    pub class_of_dscp: [u8; 64],
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
    regulator: Regulator,
    limits: ClassLimits,
    generator: MessageGenerator,
    /// What came in.
    arrived: Arrived,
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
    /// A NIC with an MTU of 1024 B that obeys PFC, acknowledgements at DSCP 48 in class 6, and no slack.
    pub fn new(mac: MacAddr, ip: Ipv4Addr, rate: BitRate) -> HostConfig {
        HostConfig {
            mac,
            ip,
            rate,
            mtu: PathMtu::BYTES_1024,
            ack_dscp: Dscp::new(48),
            ack_class: Class::new(6),
            slack: Span::ZERO,
            flow_control: Mechanism::Pfc { quanta: u16::MAX, refresh_percent: 50 },
            lossless: 0,
            class_of_dscp: [0; 64],
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
        let (mechanism, lossless) = (&config.flow_control, config.lossless);
        let regulator = Regulator::new(mechanism, config.rate, lossless);
        Ok(Host {
            limits: ClassLimits::new(config.rate, config.slack, [None; CLASSES], &regulator),
            regulator,
            generator: MessageGenerator::new(mechanism, config.rate, lossless),
            arrived: Arrived::new(mechanism),
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
        self.count_arrival(frame);
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
        let Ok(frame) = ControlFrame::decode(frame) else {
            self.counters.control_ignored += 1;
            return;
        };
        if !self.regulator.handle(now, &frame) {
            self.counters.control_ignored += 1;
            return;
        }
        self.limits.follow(now, &self.regulator);
        match frame {
            ControlFrame::Pfc(pfc) => {
                self.counters.pfc_frames += 1;
                Class::in_mask(pfc.paused()).for_each(|class| self.classes[class.index()].xoff_frames += 1);
                Class::in_mask(pfc.resumed()).for_each(|class| self.classes[class.index()].xon_frames += 1);
            }
            ControlFrame::Credit(_) => self.counters.credit_frames += 1,
            ControlFrame::Pause(_) => {}
        }
    }

    /// Counts a frame in the class that its sender counts it in. What is asked of the host finds that it holds nothing.
    fn count_arrival(&self, frame: &[u8]) {
        if !self.arrived.is_counted() {
            return;
        }
        // What is no IPv4 has no code point, and is in no lossless class.
        if frame.get(ETHERTYPE) == Some(&[0x08, 0x00])
            && let Some(tos) = frame.get(IP_TOS)
        {
            let class = Class::new(self.config.class_of_dscp[usize::from(tos >> 2)]);
            self.arrived.count(class, self.arrived.count_of(frame.len() as u32));
        }
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
    /// the wire is busy, or nothing is due that flow control lets pass.
    ///
    /// Flow control goes first, then congestion notifications, then acknowledgements; flows take turns, a frame each.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`HostConfig::frame_bytes_max`].
    pub fn poll_transmit(&mut self, now: Time, buffer: &mut [u8]) -> Option<usize> {
        assert!(buffer.len() >= self.config.frame_bytes_max(), "a frame may be longer than the buffer");
        if now < self.wire.free_at() {
            return None;
        }
        let frame_bytes = self.poll_control(now, buffer).or_else(|| {
            let held_back = self.held_back(now);
            let answer =
                if held_back & self.config.ack_class.bit() == 0 { self.poll_answer(now, buffer) } else { None };
            answer.or_else(|| self.poll_flows(now, held_back, buffer))
        })?;
        self.wire.send(now, frame_bytes as u32);
        Some(frame_bytes)
    }

    /// A message of flow control, if one is due: how much room there is, or that no queue grows.
    fn poll_control(&mut self, now: Time, buffer: &mut [u8]) -> Option<usize> {
        let demand = Demand { off: 0, held: |_| Bytes::ZERO, arrived: &self.arrived };
        let frame = self.generator.poll(now, demand)?;
        self.generator.handle_sent(now, &frame, demand);
        buffer[..FRAME_BYTES].copy_from_slice(&frame.encode(self.config.mac));
        self.counters.control_sent += 1;
        Some(FRAME_BYTES)
    }

    fn poll_answer(&mut self, now: Time, buffer: &mut [u8]) -> Option<usize> {
        let frame_bytes = self.poll_cnp(buffer).or_else(|| self.poll_ack(buffer))?;
        self.note_sent(now, self.config.ack_class, frame_bytes);
        Some(frame_bytes)
    }

    fn note_sent(&mut self, now: Time, class: Class, frame_bytes: usize) {
        self.regulator.handle_sent(class, frame_bytes as u32);
        self.limits.send(now, class, frame_bytes as u32);
    }

    /// The classes that flow control lets send nothing now, one bit each. Without credit for the longest frame a class waits,
    /// whatever its next one is.
    fn held_back(&self, now: Time) -> u8 {
        let longest = self.config.frame_bytes_max() as u32;
        let unpaid = Class::in_mask(self.regulator.credit_classes());
        let unpaid = unpaid.filter(|class| !self.regulator.has_credit(*class, longest));
        let unpaid = Class::mask_of(unpaid);
        self.regulator.paused(now) | self.limits.waiting(now, 0xff) | unpaid
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

    fn poll_flows(&mut self, now: Time, held_back: u8, buffer: &mut [u8]) -> Option<usize> {
        let flows = self.senders.len();
        let in_turn = (self.turn..flows).chain(0..self.turn);
        let may_send = |flow: &usize| {
            let sender = &self.senders[*flow];
            sender.due() <= now && held_back & sender.config().class.bit() == 0
        };
        let flow = in_turn.into_iter().find(may_send)?;
        self.turn = if flow + 1 == flows { 0 } else { flow + 1 };
        let sender = &mut self.senders[flow];
        let segment = sender.take_segment(now);
        let FlowConfig { queue_pair, peer, dscp, class, .. } = *sender.config();
        let repr = Repr { psn: segment.psn, ..repr_to(&self.config, queue_pair, peer, dscp, segment.operation) };
        let payload = &self.payload[..segment.payload_bytes];
        let frame_bytes = repr.write(payload, buffer).expect("the buffer holds any frame");
        sender.handle_sent(now, frame_bytes);
        self.note_sent(now, class, frame_bytes);
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
        let message = self.generator.next_wakeup(now).max(free);
        flows.chain(control).min().unwrap_or(Time::NEVER).min(message)
    }

    /// The first instant, `from` or later, at which flow control lets a class send; [`Time::NEVER`] if that takes a message.
    fn opens_at(&self, from: Time, class: Class) -> Time {
        let longest = self.config.frame_bytes_max() as u32;
        if !self.regulator.has_credit(class, longest) {
            return Time::NEVER;
        }
        let mut at = from;
        while self.regulator.paused(at) & class.bit() != 0 {
            at = self.regulator.next_wakeup(at).expect("a paused class has a timer");
        }
        if self.limits.waiting(at, class.bit()) != 0 { self.limits.next_wakeup(class.bit()) } else { at }
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
        let (paused_for, pauses) = self.regulator.pause_time(now, class);
        ClassStats { paused_for, pauses, ..self.classes[class.index()] }
    }

    /// The classes that may not send at `now`, one bit each.
    pub fn paused(&self, now: Time) -> u8 {
        self.regulator.paused(now)
    }

    /// The rate that the peer sets a class, under GFC.
    pub fn peer_rate(&self, class: Class) -> Option<BitRate> {
        self.regulator.rates().map(|rates| rates.rate(class))
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
