//! An emulated host with an RDMA NIC, sans-I/O.
//!
//! It sends RDMA WRITEs, or SENDs, over reliable connections, each flow at line rate, at a pace, or under congestion control; obeys flow
//! control with the switch's own gate; acknowledges what it receives, and notifies senders of congestion. Where a flow asks for
//! it, what got lost is sent again; else a gap in the sequence is counted as a loss. In virtual time a flow may be TCP instead:
//! its messages are one stream of bytes then, and what it sends and acknowledges is up to [`crate::tcp`].
//!
//! A host with a [`ReceiveLimit`] takes data in more slowly than it comes, and has the switch's port pause.
//!
//! One host runs in virtual time, where frames are [`NicFrame`]s without payload, and on a port, where they are RoCEv2:
//! [`Host::handle`] and [`Host::poll`], or [`Host::handle_frame`] and [`Host::poll_transmit`].

mod codec;
mod config;
pub mod congestion;
mod connection;
mod intake;
mod packet;
mod receiver;
mod schedule;
mod sender;
mod slots;
mod stats;
mod stream;
#[cfg(test)]
mod tests;
mod transport;

pub use config::{HostConfig, HostError, Peer, ReceiveLimit, RemoteMemory};
pub use congestion::CongestionControl;
pub use connection::Connection;
pub use packet::{Ack, FrameSizes, Hops, NicFrame, NicPacket, Says, Stamps, TcpAck, Verb, Write};
pub use receiver::{ReceiverConfig, ReceiverStats};
pub use schedule::Turns;
pub use sender::{FctSummary, FlowConfig, Repeat, SenderStats};
pub use stats::{ClassStats, Completion, HostStats, NicCounters};
pub use transport::Transport;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::Ipv4Addr;
use std::slice::from_ref;

use prefetch_index::prefetch_index;
use weir_flowctl::{Arrived, ClassLimits, Demand, MessageGenerator, Regulator, Shaper, wire_bytes};
use weir_units::archive::{Archive, State, Value};
use weir_units::{BitRate, Bytes, CLASSES, Class, ClassSet, Time};
use weir_wire::ethernet;
use weir_wire::ethernet::Parsed;
use weir_wire::mac_control::{ControlFrame, FRAME_BYTES};
use weir_wire::rocev2::{Ecn, Packet, Psn, QueuePair, Refusal};

use crate::tcp::TcpSender;
use intake::Intake;
use receiver::Receiver;
use schedule::Schedule;
use sender::Sender;
use slots::{Opened, Slots};
use stream::Acks;

/// Completions kept until they are drained; later ones are counted and forgotten.
const COMPLETIONS_MAX: usize = 16_384;

/// An emulated host.
///
/// Call [`Host::handle`] for each frame that arrives, then [`Host::poll`] until it returns `None`, and again at
/// [`Host::next_wakeup`]. What `poll` returns counts as sent: poll only when the link takes it. `now` must never go back. Nothing
/// is allocated on the way of a packet, but what losses make necessary: the SACK blocks of TCP.
#[derive(Debug, State)]
pub struct Host {
    #[state(same)]
    config: HostConfig,
    #[state(shared)]
    regulator: Regulator,
    limits: ClassLimits,
    generator: MessageGenerator,
    /// What came in.
    #[state(shared)]
    arrived: Arrived,
    /// What stands there until it is taken in, if that takes time.
    #[state(fixed)]
    intake: Option<Box<Intake>>,
    /// The longest frame.
    frame_bytes_max: u32,
    wire: Shaper,
    senders: Slots<Sender>,
    receivers: Slots<Receiver>,
    /// Ends of the connections that there are from the start by number, sorted.
    #[state(same)]
    ends: Box<[(QueuePair, End)]>,
    /// Whose turn it is to send.
    schedule: Schedule,
    /// When to look whether the acknowledgement of a sender, by place and generation, is overdue. Each looks at the earliest
    /// of its entries, and RDMA has one at most.
    timers: BinaryHeap<Reverse<(Time, u32, u32)>>,
    /// Receivers that owe an acknowledgement: by place, once at most, or with the acknowledgement, where each packet has its own.
    acks_due: VecDeque<(usize, Option<Answer>)>,
    /// Receivers that owe a congestion notification, alike.
    cnps_due: VecDeque<usize>,
    /// What receivers of TCP owe.
    tcp_acks: Acks,
    /// Frames of TCP that wait for the line, where they have a queue. It has a turn as long as something is in it.
    tcp_queue: VecDeque<Queued>,
    /// Memory for telemetry that has come back; it goes from packet to packet as it is.
    #[expect(clippy::vec_box)]
    #[state(same)]
    spare_hops: Vec<Box<Hops>>,
    #[state(same)]
    payload: Box<[u8]>,
    completions: Vec<Completion>,
    counters: NicCounters,
    classes: [ClassStats; CLASSES],
}

/// An acknowledgement and the telemetry that it brings back.
type Answer = (Ack, Option<Box<Hops>>);

/// A frame of TCP in the host's queue.
#[derive(Clone, Debug, Value)]
struct Queued {
    /// The class of its connection's data, in which it takes its turn,
    turn: Class,
    /// and its own.
    class: Class,
    packet: NicPacket,
    own: QueuePair,
    peer: Ipv4Addr,
}

/// The flow that the queue of TCP's frames is to the schedule.
const TCP_QUEUE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
enum End {
    Sender(usize),
    Receiver(usize),
}

/// A frame to be sent, and what is needed to write a packet as a frame: the connection's end here, and the peer's address.
type Outgoing = (NicFrame, QueuePair, Ipv4Addr);

impl Host {
    /// A host with these flows to send and these connections to receive on.
    pub fn new(config: HostConfig, flows: &[FlowConfig], receivers: &[ReceiverConfig]) -> Result<Host, HostError> {
        let senders = flows.iter().map(|flow| Sender::new(flow, &config)).collect::<Result<Vec<Sender>, _>>()?;
        let of_flows = flows.iter().enumerate().map(|(n, flow)| (flow.queue_pair, End::Sender(n)));
        let of_receivers = receivers.iter().enumerate().map(|(n, end)| (end.queue_pair, End::Receiver(n)));
        let mut ends: Vec<(QueuePair, End)> = of_flows.chain(of_receivers).collect();
        ends.sort_by_key(|(number, _)| *number);
        if let Some(twice) = ends.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(HostError::QueuePairTwice(twice[0].0));
        }
        let (mechanism, lossless) = (&config.flow_control, config.lossless);
        let regulator = Regulator::new(mechanism, config.rate, lossless);
        let mut host = Host {
            limits: ClassLimits::new(config.rate, config.slack, [None; CLASSES], &regulator),
            regulator,
            generator: MessageGenerator::new(mechanism, config.rate, lossless),
            arrived: mechanism.arrived(config.link_overhead),
            intake: config.receive.map(|limit| Box::new(Intake::new(limit, lossless))),
            frame_bytes_max: longest(&senders, receivers, &config),
            wire: Shaper::timed(Some(config.rate), config.slack, config.frame_times),
            senders: Slots::new(senders),
            receivers: Slots::new(receivers.iter().map(|end| Receiver::new(end, &config))),
            ends: ends.into(),
            schedule: Schedule::of(config.turns),
            timers: BinaryHeap::new(),
            acks_due: VecDeque::with_capacity(receivers.len()),
            cnps_due: VecDeque::with_capacity(receivers.len()),
            tcp_acks: Acks::default(),
            tcp_queue: VecDeque::new(),
            spare_hops: Vec::new(),
            payload: (0..config.sizes.payload_max).map(|n| n as u8).collect(),
            completions: Vec::new(),
            counters: NicCounters::default(),
            classes: [ClassStats::default(); CLASSES],
            config,
        };
        (0..flows.len()).for_each(|flow| host.give_turn(Time::ZERO, flow));
        Ok(host)
    }

    /// Opens a connection to receive on while the host runs; the number of its end, and its place.
    pub fn open_receiver(&mut self, config: &ReceiverConfig) -> (QueuePair, usize) {
        let host = &self.config;
        let make =
            |queue_pair| Ok::<_, HostError>(Receiver::new(&ReceiverConfig { queue_pair, ..config.clone() }, host));
        let place = self.receivers.open(false, make).expect("a receiver can always be made");
        self.frame_bytes_max = self.frame_bytes_max.max(longest_answer(config.stamps, host));
        (self.receivers[place].config().queue_pair, place)
    }

    /// Opens a connection's sending end while the host runs; the number of its end, and its place, by which its completions
    /// name it. `config`'s own queue pair is not looked at.
    pub fn open_sender(&mut self, now: Time, config: &FlowConfig) -> Result<(QueuePair, usize), HostError> {
        let host = &self.config;
        let make = |queue_pair| Sender::new(&FlowConfig { queue_pair, ..config.clone() }, host);
        let place = self.senders.open(true, make)?;
        self.frame_bytes_max = self.frame_bytes_max.max(self.senders[place].frame_bytes_max());
        self.give_turn(now, place);
        Ok((self.senders[place].terms().queue_pair, place))
    }

    /// Makes ends of connections that were opened on the way, to be overwritten from an archive: behind those that the host has from
    /// the start, in the order of their places.
    pub fn refill(
        &mut self,
        senders: impl Iterator<Item = FlowConfig>,
        receivers: impl Iterator<Item = ReceiverConfig>,
    ) -> Result<(), HostError> {
        let Host { config, senders: of_senders, receivers: of_receivers, .. } = self;
        for flow in senders {
            of_senders.refill(Sender::new(&flow, config)?);
        }
        receivers.for_each(|end| of_receivers.refill(Receiver::new(&end, config)));
        Ok(())
    }

    /// Shows an archive what the host would keep of a flow, for what can't be taken down of it.
    pub fn try_flow(&self, flow: &FlowConfig, archive: &mut Archive) {
        if let Ok(mut sender) = Sender::new(flow, &self.config) {
            sender.state(archive);
        }
    }

    /// Asks for itself, ahead of its use.
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
        prefetch_index(from_ref(&self.intake), 0);
    }

    /// Tells a receiving end, by its place, who sends to it.
    pub fn set_sender(&mut self, receiver: usize, queue_pair: QueuePair) {
        self.receivers[receiver].set_peer(queue_pair, &self.config);
    }

    /// Names the sender of a receiving end, by its place, that had none, and the number of the first packet that it sends: what
    /// two hosts tell each other before they use a reliable connection.
    pub fn connect_receiver(&mut self, place: usize, peer: Peer, first: Psn) {
        self.receivers[place].connect(peer, first, &self.config);
    }

    /// Names the receiver of a flow, by its place, whose peer was [`Peer::UNKNOWN`], and the number of its first packet. It sends
    /// from now on, or from its start.
    pub fn connect_sender(&mut self, now: Time, place: usize, peer: Peer, first: Psn) {
        self.senders[place].connect(peer, first, &self.config);
        self.give_turn(now, place);
    }

    /// Whether another frame than those of [`Host::poll_transmit`], which the host's own software sends, may go at `now`: the wire
    /// is free, and flow control lets its class send. It counts as sent then.
    pub fn send_beside(&mut self, now: Time, class: Class, frame_bytes: u32) -> bool {
        self.limits.follow(now, &self.regulator);
        if now < self.wire.free_at() || self.held_back(now).contains(class) {
            return false;
        }
        self.note_sent(now, class, frame_bytes);
        self.wire.send(now, wire_bytes(frame_bytes, self.config.link_overhead));
        true
    }

    /// Closes a receiving end; what comes for it from now on is for nobody.
    pub fn close_receiver(&mut self, place: usize) {
        // While it stands in a queue its place is not used again.
        let receiver = &mut self.receivers[place];
        receiver.is_closing = receiver.owes();
        if !receiver.is_closing {
            self.receivers.close(place);
        }
    }

    /// Closes a sending end.
    pub fn close_sender(&mut self, place: usize) {
        let sender = &mut self.senders[place];
        sender.is_closing = sender.has_turn;
        if !sender.is_closing {
            self.senders.close(place);
        }
    }

    /// A sender's turn has come. Returns whether it is there still.
    #[inline]
    fn take_turn(&mut self, flow: usize) -> bool {
        let sender = &mut self.senders[flow];
        sender.has_turn = false;
        if sender.is_closing {
            self.senders.close(flow);
            return false;
        }
        true
    }

    /// A receiver has sent what it owed.
    #[inline]
    fn let_go(&mut self, receiver: usize) {
        let state = &self.receivers[receiver];
        if state.is_closing && !state.owes() {
            self.receivers.close(receiver);
        }
    }

    /// Takes a frame (without FCS) that has arrived at `now`, as bytes.
    pub fn handle_frame(&mut self, now: Time, frame: &[u8]) {
        if ControlFrame::is_control(frame) {
            return match ControlFrame::decode(frame) {
                Ok(frame) => self.handle_control(now, &frame),
                Err(_) => self.counters.control_ignored += 1,
            };
        }
        if let Parsed::Data(headers) = ethernet::parse(frame) {
            self.count_arrival(headers.dscp, frame.len() as u32);
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
        match codec::decode(&packet, frame, || self.spare_hops.pop().unwrap_or_default()) {
            Ok(mut packet) => {
                self.handle_packet(now, &mut packet);
                self.spare_hops.extend(packet.telemetry);
            }
            Err(_) => self.counters.unreadable += 1,
        }
    }

    /// Reads a frame that has arrived at `now`, and takes its telemetry. The rest of it may be thrown away.
    #[inline]
    pub fn handle(&mut self, now: Time, frame: &mut NicFrame) {
        match frame {
            NicFrame::Control(frame) => self.handle_control(now, frame),
            NicFrame::Packet(packet) => {
                self.count_arrival(Some(packet.dscp.get()), u32::from(packet.frame_bytes));
                if packet.destination == self.config.mac {
                    self.handle_packet(now, packet);
                } else {
                    self.counters.foreign += 1;
                }
            }
        }
    }

    fn handle_control(&mut self, now: Time, frame: &ControlFrame) {
        if !self.regulator.handle(now, frame) {
            self.counters.control_ignored += 1;
            return;
        }
        self.limits.follow(now, &self.regulator);
        if let ControlFrame::Credit(credit) = frame {
            self.arrived.handle_account(credit, |_| 0);
        }
        match frame {
            ControlFrame::Pfc(pfc) => {
                self.counters.pfc_frames += 1;
                pfc.paused().iter().for_each(|class| self.classes[class.index()].xoff_frames += 1);
                pfc.resumed().iter().for_each(|class| self.classes[class.index()].xon_frames += 1);
            }
            ControlFrame::Credit(_) | ControlFrame::Queue(_) => self.counters.credit_frames += 1,
            ControlFrame::Own(_) => self.counters.own_frames += 1,
            ControlFrame::Pause(_) => {}
        }
    }

    /// The link comes or goes, at `now`: flow control starts anew with it, as the switch's does. A frame that is sent without a link
    /// is lost on it.
    pub fn set_link_up(&mut self, now: Time, is_up: bool) {
        if !is_up {
            self.regulator.forget(now);
            self.arrived.forget();
            self.limits.follow(now, &self.regulator);
        }
        self.generator.restart(if is_up { now } else { Time::NEVER });
    }

    /// Counts a frame in the class that its sender counts it in.
    #[inline]
    fn count_arrival(&self, dscp: Option<u8>, frame_bytes: u32) {
        // A frame that is no IP has no code point, and is in no lossless class.
        if self.arrived.is_counted()
            && let Some(dscp) = dscp
        {
            let class = Class::new(self.config.class_of_dscp[usize::from(dscp)]);
            self.arrived.count(class, self.arrived.count_of(frame_bytes));
        }
    }

    fn handle_packet(&mut self, now: Time, packet: &mut NicPacket) {
        if let Some(intake) = &mut self.intake
            && matches!(packet.says, Says::Write(_) | Says::Segment(_))
        {
            let class = Class::new(self.config.class_of_dscp[usize::from(packet.dscp.get())]);
            if !intake.take(now, class, u32::from(packet.frame_bytes), self.config.link_overhead) {
                self.counters.receive_overflow += 1;
                self.classes[class.index()].receive_overflow += 1;
                return;
            }
            let most = &mut self.classes[class.index()].receive_buffer_max;
            *most = intake.held(class).max(*most);
        }
        match (self.end(packet.queue_pair), &packet.says) {
            (Some(End::Receiver(receiver)), Says::Write(write)) => {
                let state = &mut self.receivers[receiver];
                let owed_before = state.owes_ack();
                let is_marked = packet.ecn == Ecn::Ce;
                state.handle_write(now, write, is_marked);
                if is_marked && state.handle_marked(now) {
                    self.cnps_due.push_back(receiver);
                }
                if !state.config().answers_each {
                    if state.owes_ack() && !owed_before {
                        self.acks_due.push_back((receiver, None));
                    }
                } else if let Some(ack) = state.take_ack() {
                    state.queued += 1;
                    self.acks_due.push_back((receiver, Some((ack, packet.telemetry.take()))));
                }
            }
            (Some(End::Sender(flow)), Says::Ack(ack)) => {
                let hops = packet.telemetry.as_ref().map_or(&[][..], |hops| hops);
                let done = completed(&mut self.completions, &mut self.counters, now, flow);
                self.senders[flow].handle_ack(now, ack, hops, done);
                self.spare_hops.extend(packet.telemetry.take());
                self.give_turn(now, flow);
            }
            (Some(End::Sender(flow)), Says::Cnp) => self.senders[flow].handle_cnp(now),
            (Some(End::Receiver(receiver)), Says::Segment(segment)) => {
                let generation = self.receivers.generation(receiver);
                let state = &mut self.receivers[receiver];
                let (class, _) = state.ack_point();
                let answer = |ack| self.tcp_acks.push(class, receiver, ack);
                state.handle_segment(now, segment, packet.ecn == Ecn::Ce, answer);
                if let Some(at) = state.watch() {
                    self.tcp_acks.wake(at, receiver, generation);
                }
                if self.config.queues_tcp {
                    self.queue_tcp_acks(now);
                }
            }
            (Some(End::Sender(flow)), Says::TcpAck(ack)) => {
                let done = completed(&mut self.completions, &mut self.counters, now, flow);
                self.senders[flow].handle_tcp_ack(now, ack, done);
                self.watch(flow);
                self.give_turn(now, flow);
            }
            _ => self.counters.unknown_queue_pair += 1,
        }
    }

    #[inline]
    fn end(&self, queue_pair: QueuePair) -> Option<End> {
        match Opened::of(queue_pair) {
            Some(opened) if opened.sends => self.senders.place(opened).map(End::Sender),
            Some(opened) => self.receivers.place(opened).map(End::Receiver),
            None => {
                let place = self.ends.binary_search_by_key(&queue_pair, |(number, _)| *number).ok()?;
                Some(self.ends[place].1)
            }
        }
    }

    /// Gives a flow its turn, now or later, if it has something to send and no turn yet.
    #[inline]
    fn give_turn(&mut self, now: Time, flow: usize) {
        let sender = &mut self.senders[flow];
        let due = sender.due();
        if !sender.has_turn && due < Time::NEVER {
            if due <= now && self.config.queues_tcp && sender.tcp().is_some() {
                return self.queue_segments(now, flow);
            }
            sender.has_turn = true;
            self.schedule.add(now, flow as u32, sender.terms().class, due);
        }
    }

    /// The next frame that may be sent at `now`, written into `buffer`: its length without FCS; `None` if the wire is busy, or
    /// nothing is due that flow control lets pass.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Host::frame_bytes_max`], the lengths of frames are not RoCEv2's, or a flow is TCP's,
    /// which is for virtual time only.
    pub fn poll_transmit(&mut self, now: Time, buffer: &mut [u8]) -> Option<usize> {
        assert!(buffer.len() >= self.frame_bytes_max(), "a frame may be longer than the buffer");
        let (frame, own, peer_ip) = self.poll_outgoing(now)?;
        let packet = match frame {
            NicFrame::Control(frame) => {
                buffer[..FRAME_BYTES].copy_from_slice(&frame.encode(self.config.mac));
                return Some(FRAME_BYTES);
            }
            NicFrame::Packet(packet) => packet,
        };
        let memory = match (&packet.says, self.end(own)) {
            (Says::Write(_), Some(End::Sender(flow))) => self.senders[flow].terms().peer.memory,
            _ => RemoteMemory::EMULATED,
        };
        let to = codec::Destination { ip: peer_ip, memory };
        let written = codec::encode(&packet, self.config.ip, own, to, &self.payload, buffer);
        assert_eq!(written, Ok(usize::from(packet.frame_bytes)), "a frame of RoCEv2's length");
        self.spare_hops.extend(packet.telemetry);
        written.ok()
    }

    /// The next frame that may be sent at `now`; `None` if the wire is busy, or nothing is due that flow control lets pass.
    ///
    /// Flow control goes first, then congestion notifications, then acknowledgements, RDMA's before TCP's; flows take turns, a
    /// frame each.
    #[inline]
    pub fn poll(&mut self, now: Time) -> Option<NicFrame> {
        self.poll_outgoing(now).map(|(frame, ..)| frame)
    }

    #[inline]
    fn poll_outgoing(&mut self, now: Time) -> Option<Outgoing> {
        if now < self.wire.free_at() {
            return None;
        }
        self.limits.follow(now, &self.regulator);
        let outgoing = self.poll_control(now).or_else(|| {
            let held_back = self.held_back(now);
            let answer = if !held_back.contains(self.answer_class()) { self.poll_answer(now) } else { None };
            answer.or_else(|| self.poll_tcp_ack(now, held_back)).or_else(|| self.poll_flows(now, held_back))
        })?;
        let frame_bytes = outgoing.0.frame_bytes();
        self.wire.send(now, wire_bytes(frame_bytes, self.config.link_overhead));
        Some(outgoing)
    }

    /// A message of flow control, if one is due: how much room there is, or that no queue grows.
    #[inline]
    fn poll_control(&mut self, now: Time) -> Option<Outgoing> {
        let off = self.intake.as_mut().map_or(ClassSet::EMPTY, |intake| intake.off(now));
        let held = |class| self.intake.as_ref().map_or(Bytes::ZERO, |intake| intake.held(class));
        let demand = Demand { off, held, sent: |class| self.regulator.sent_total(class), arrived: &self.arrived };
        let frame = self.generator.poll(now, demand)?;
        let before = self.generator.advertised_off();
        self.generator.handle_sent(now, &frame, demand);
        self.counters.control_sent += 1;
        let paused = (self.generator.advertised_off() - before).iter();
        paused.for_each(|class| self.classes[class.index()].pauses_sent += 1);
        Some((NicFrame::Control(frame), QueuePair::new(0), self.config.ip))
    }

    /// The class of the answer that goes first.
    #[inline]
    fn answer_class(&self) -> Class {
        match self.acks_due.front() {
            Some((place, _)) if self.config.acks_with_data && self.cnps_due.is_empty() => {
                self.receivers[*place].config().class
            }
            _ => self.config.ack_class,
        }
    }

    #[inline]
    fn poll_answer(&mut self, now: Time) -> Option<Outgoing> {
        if self.acks_due.is_empty() && self.cnps_due.is_empty() {
            return None;
        }
        let class = self.answer_class();
        let outgoing = self.poll_cnp().or_else(|| self.poll_ack())?;
        self.note_sent(now, class, outgoing.0.frame_bytes());
        Some(outgoing)
    }

    #[inline]
    fn note_sent(&mut self, now: Time, class: Class, frame_bytes: u32) {
        self.regulator.handle_sent(class, frame_bytes);
        self.limits.send(now, class, wire_bytes(frame_bytes, self.config.link_overhead));
    }

    /// The classes that flow control lets send nothing now. Without credit for the longest frame a class waits,
    /// whatever its next one is.
    #[inline]
    fn held_back(&self, now: Time) -> ClassSet {
        let paused = self.regulator.paused(now) | self.limits.waiting(now, ClassSet::ALL);
        let on_credit = self.regulator.credit_classes();
        if on_credit.is_empty() {
            return paused;
        }
        let longest = self.frame_bytes_max;
        let unpaid = on_credit.iter().filter(|class| !self.regulator.has_credit(*class, longest));
        paused | ClassSet::from_iter(unpaid)
    }

    fn poll_cnp(&mut self) -> Option<Outgoing> {
        let place = self.cnps_due.pop_front()?;
        let receiver = &mut self.receivers[place];
        receiver.handle_cnp_sent();
        // No switch is to mark it.
        let outgoing = answer(&self.config, receiver, self.config.sizes.cnp, Ecn::NotCapable, Says::Cnp);
        self.let_go(place);
        Some(outgoing)
    }

    #[inline]
    fn poll_ack(&mut self) -> Option<Outgoing> {
        let (place, own) = self.acks_due.pop_front()?;
        let receiver = &mut self.receivers[place];
        let (ack, telemetry) = match own {
            Some(own) => {
                receiver.queued -= 1;
                own
            }
            None => (receiver.take_ack().expect("only those that owe an acknowledgement stand in the queue"), None),
        };
        let sizes = &self.config.sizes;
        let frame_bytes = sizes.ack + sizes.of_stamps_back(receiver.config().stamps);
        let mut outgoing = answer(&self.config, receiver, frame_bytes, Ecn::Ect0, Says::Ack(ack));
        if let NicFrame::Packet(packet) = &mut outgoing.0 {
            packet.telemetry = telemetry;
            if self.config.acks_with_data {
                packet.dscp = receiver.config().dscp;
            }
        }
        self.let_go(place);
        Some(outgoing)
    }

    #[inline]
    fn poll_flows(&mut self, now: Time, held_back: ClassSet) -> Option<Outgoing> {
        self.look_at_timers(now);
        while let Some(flow) = self.schedule.take_due(now) {
            if self.take_turn(flow as usize) {
                self.give_turn(now, flow as usize);
            }
        }
        let (flow, says, frame_bytes, ecn) = loop {
            let flow = self.schedule.next(held_back)?;
            if flow == TCP_QUEUE {
                return self.poll_tcp_queue(now);
            }
            let flow = flow as usize;
            if !self.take_turn(flow) {
                continue;
            }
            let sender = &mut self.senders[flow];
            if sender.due() <= now
                && let Some((says, frame_bytes, ecn)) = sender.take(now, &self.config.sizes)
            {
                break (flow, says, frame_bytes, ecn);
            }
            // What it was to send has been acknowledged meanwhile, its pace has changed, or its window has no room.
            self.give_turn(now, flow);
        };
        let (packet, class, own, peer) = self.packet_of(now, flow, says, frame_bytes, ecn);
        self.watch(flow);
        self.give_turn(now, flow);
        self.note_sent(now, class, u32::from(frame_bytes));
        Some((NicFrame::Packet(packet), own, peer))
    }

    /// A flow's packet that is sent now, with the flow's class, its end here, and the peer's address.
    #[inline(always)]
    fn packet_of(
        &mut self,
        now: Time,
        flow: usize,
        says: Says,
        frame_bytes: u16,
        ecn: Ecn,
    ) -> (NicPacket, Class, QueuePair, Ipv4Addr) {
        let sender = &mut self.senders[flow];
        sender.handle_sent(now, wire_bytes(u32::from(frame_bytes), self.config.link_overhead));
        let terms = sender.terms();
        let (own, peer, class) = (terms.queue_pair, terms.peer, terms.class);
        let packet = NicPacket {
            destination: peer.mac,
            source: self.config.mac,
            flow_hash: sender.flow_hash(),
            frame_bytes,
            dscp: terms.dscp,
            ecn,
            queue_pair: peer.queue_pair,
            says,
            telemetry: (terms.stamps == Stamps::Hops).then(|| {
                let mut hops = self.spare_hops.pop().unwrap_or_default();
                hops.clear();
                hops
            }),
        };
        (packet, class, own, peer.ip)
    }

    /// Puts all that a flow of TCP may send now into the host's queue.
    #[cold]
    fn queue_segments(&mut self, now: Time, flow: usize) {
        while self.senders[flow].due() <= now
            && let Some((says, frame_bytes, ecn)) = self.senders[flow].take(now, &self.config.sizes)
        {
            let (packet, class, own, peer) = self.packet_of(now, flow, says, frame_bytes, ecn);
            self.queue_tcp(now, Queued { turn: class, class, packet, own, peer });
        }
        self.watch(flow);
        // What it has to send later it has its turn for then.
        let sender = &mut self.senders[flow];
        let due = sender.due();
        if due > now && due < Time::NEVER {
            sender.has_turn = true;
            self.schedule.add(now, flow as u32, sender.terms().class, due);
        }
    }

    /// Puts acknowledgements of TCP that are due into the host's queue.
    #[cold]
    fn queue_tcp_acks(&mut self, now: Time) {
        while let Some((outgoing, class, turn)) = self.next_tcp_ack(ClassSet::EMPTY) {
            if let (NicFrame::Packet(packet), own, peer) = outgoing {
                self.queue_tcp(now, Queued { turn, class, packet, own, peer });
            }
        }
    }

    fn queue_tcp(&mut self, now: Time, queued: Queued) {
        if self.tcp_queue.is_empty() {
            self.schedule.add(now, TCP_QUEUE, queued.turn, now);
        }
        self.tcp_queue.push_back(queued);
    }

    /// The first frame of TCP's queue, whose turn it is.
    #[cold]
    fn poll_tcp_queue(&mut self, now: Time) -> Option<Outgoing> {
        let Queued { class, packet, own, peer, .. } = self.tcp_queue.pop_front()?;
        if let Some(next) = self.tcp_queue.front() {
            self.schedule.add(now, TCP_QUEUE, next.turn, now);
        }
        self.note_sent(now, class, u32::from(packet.frame_bytes));
        Some((NicFrame::Packet(packet), own, peer))
    }

    /// Looks at a sender again when its acknowledgement is overdue. A deadline that was put off is found out then.
    #[inline]
    fn watch(&mut self, flow: usize) {
        let sender = &mut self.senders[flow];
        let deadline = sender.deadline();
        if deadline < sender.watched_at {
            sender.watched_at = deadline;
            self.timers.push(Reverse((deadline, flow as u32, self.senders.generation(flow))));
        }
    }

    /// Has senders whose acknowledgement is overdue send again.
    #[inline]
    fn look_at_timers(&mut self, now: Time) {
        while let Some(Reverse((at, flow, generation))) = self.timers.peek().copied()
            && at <= now
        {
            self.timers.pop();
            let flow = flow as usize;
            if self.senders.generation(flow) != generation || !self.senders.is_open(flow) {
                continue;
            }
            let sender = &mut self.senders[flow];
            if at != sender.watched_at {
                // An earlier look has taken this one's place.
                continue;
            }
            sender.watched_at = Time::NEVER;
            if sender.deadline() <= now {
                sender.handle_timeout(now);
            }
            self.watch(flow);
            self.give_turn(now, flow);
        }
    }

    /// An acknowledgement of TCP, in its own class or its flow's.
    #[inline]
    fn poll_tcp_ack(&mut self, now: Time, held_back: ClassSet) -> Option<Outgoing> {
        while let Some((receiver, generation)) = self.tcp_acks.take_due(now) {
            if self.receivers.generation(receiver) != generation || !self.receivers.is_open(receiver) {
                continue;
            }
            let state = &mut self.receivers[receiver];
            let (class, _) = state.ack_point();
            state.handle_delay_over(now, |ack| self.tcp_acks.push(class, receiver, ack));
            if let Some(at) = state.watch() {
                self.tcp_acks.wake(at, receiver, generation);
            }
        }
        if self.config.queues_tcp {
            self.queue_tcp_acks(now);
            return None;
        }
        let (outgoing, class, _) = self.next_tcp_ack(held_back)?;
        self.note_sent(now, class, outgoing.0.frame_bytes());
        Some(outgoing)
    }

    /// The next acknowledgement of TCP of none of the `held_back` classes, with its class and the one of its data.
    #[inline]
    fn next_tcp_ack(&mut self, held_back: ClassSet) -> Option<(Outgoing, Class, Class)> {
        let (class, place, ack) = self.tcp_acks.next(held_back)?;
        let receiver = &mut self.receivers[place];
        receiver.queued -= 1;
        let ((_, dscp), frame_bytes) = (receiver.ack_point(), self.config.sizes.of_tcp_ack(&ack));
        // No switch is to mark it (RFC 3168, 6.1.4).
        let mut outgoing = answer(&self.config, receiver, frame_bytes, Ecn::NotCapable, Says::TcpAck(ack));
        if let NicFrame::Packet(packet) = &mut outgoing.0 {
            packet.dscp = dscp;
        }
        let of_data = receiver.config().class;
        self.let_go(place);
        Some((outgoing, class, of_data))
    }

    /// The earliest instant, `now` or later, at which [`Host::poll`] may have a frame if nothing arrives before;
    /// [`Time::NEVER`] if there is none.
    #[inline]
    pub fn next_wakeup(&self, now: Time) -> Time {
        let free = self.wire.free_at().max(now);
        let owes = !self.acks_due.is_empty() || !self.cnps_due.is_empty();
        let own = if owes { self.answer_class().alone() } else { ClassSet::EMPTY };
        let ready = self.schedule.ready_classes() | own | self.tcp_acks.classes();
        let opens = ready.iter().map(|class| self.opens_at(free, class)).min().unwrap_or(Time::NEVER);
        let timer = self.timers.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at);
        let intake = self.intake.as_ref().map_or(Time::NEVER, |intake| {
            let demand = Demand {
                off: intake.off_so_far(),
                held: |class| intake.held(class),
                sent: |class| self.regulator.sent_total(class),
                arrived: &self.arrived,
            };
            if self.generator.poll(now, demand).is_some() { now } else { intake.next_wakeup() }
        });
        let later = self.schedule.next_due().min(timer).min(self.tcp_acks.next_due());
        let later = later.min(intake).min(self.generator.next_wakeup(now));
        opens.min(later.max(free))
    }

    /// The first instant, `from` or later, at which flow control lets a class send; [`Time::NEVER`] if that takes a message.
    #[inline]
    fn opens_at(&self, from: Time, class: Class) -> Time {
        let longest = self.frame_bytes_max;
        if !self.regulator.has_credit(class, longest) {
            return Time::NEVER;
        }
        let mut at = from;
        while self.regulator.paused(at).contains(class) {
            at = self.regulator.next_wakeup(at).expect("a paused class has a timer");
        }
        if !self.limits.waiting(at, class.alone()).is_empty() {
            self.limits.next_wakeup(class.alone(), &self.regulator)
        } else {
            at
        }
    }

    /// Whether all flows have sent all that they will ever send, and have it acknowledged.
    pub fn is_finished(&self) -> bool {
        self.senders.iter().all(Sender::is_finished)
    }

    /// Whether a flow, by its place, has sent all that it will ever send, and has it acknowledged, or has been [refused](Host::refusal).
    pub fn is_flow_finished(&self, flow: usize) -> bool {
        self.senders[flow].is_finished()
    }

    /// Why a flow's peer has given it up, by the flow's place.
    pub fn refusal(&self, flow: usize) -> Option<Refusal> {
        self.senders[flow].refusal()
    }

    /// No frame that the host sends is longer, without FCS.
    pub fn frame_bytes_max(&self) -> usize {
        self.frame_bytes_max as usize
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

    /// The TCP connection that carries a flow, by its place among those given to [`Host::new`]; `None` if RDMA does.
    pub fn tcp_sender(&self, flow: usize) -> Option<&TcpSender> {
        self.senders[flow].tcp()
    }

    /// Shows the value of each gauge of a flow, in the order of [`FlowConfig::gauges`]; not a number for none. The flow is told by its
    /// place among those given to [`Host::new`].
    pub fn show_gauges(&self, flow: usize, show: &mut dyn FnMut(f64)) {
        self.senders[flow].gauges(show);
    }

    /// What a class has in the buffer that a [`ReceiveLimit`] drains, as of the last call.
    pub fn receive_buffer(&self, class: Class) -> Bytes {
        self.intake.as_ref().map_or(Bytes::ZERO, |intake| intake.held(class))
    }

    /// A class's PFC counters as of `now`.
    pub fn class_stats(&self, now: Time, class: Class) -> ClassStats {
        let (paused_for, pauses) = self.regulator.pause_time(now, class);
        ClassStats { paused_for, pauses, ..self.classes[class.index()] }
    }

    /// The classes that may not send at `now`.
    pub fn paused(&self, now: Time) -> ClassSet {
        self.regulator.paused(now)
    }

    /// The rate that the peer sets a class, as of `now`, under GFC.
    pub fn peer_rate(&self, now: Time, class: Class) -> Option<BitRate> {
        self.regulator.rate(now, class)
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

    /// Whether [`Host::drain_completions`] has any.
    #[inline]
    pub fn has_completions(&self) -> bool {
        !self.completions.is_empty()
    }

    /// The messages completed since the last call, oldest first.
    pub fn drain_completions(&mut self) -> impl Iterator<Item = Completion> {
        self.completions.drain(..)
    }
}

/// A packet back to the sender of a connection.
#[inline]
fn answer(host: &HostConfig, receiver: &Receiver, frame_bytes: u16, ecn: Ecn, says: Says) -> Outgoing {
    let (own, peer) = (receiver.config().queue_pair, receiver.config().peer);
    let packet = NicPacket {
        destination: peer.mac,
        source: host.mac,
        flow_hash: receiver.flow_hash(),
        frame_bytes,
        dscp: host.ack_dscp,
        ecn,
        queue_pair: peer.queue_pair,
        says,
        telemetry: None,
    };
    (NicFrame::Packet(packet), own, peer.ip)
}

/// The longest frame of a host with these senders and receivers.
fn longest(senders: &[Sender], receivers: &[ReceiverConfig], host: &HostConfig) -> u32 {
    let answers = receivers.iter().map(|receiver| longest_answer(receiver.stamps, host));
    let all = senders.iter().map(Sender::frame_bytes_max).chain(answers);
    all.fold(host.frame_bytes_max(Stamps::None) as u32, u32::max)
}

/// The longest answer of a receiver of RDMA.
fn longest_answer(stamps: Stamps, host: &HostConfig) -> u32 {
    u32::from(host.sizes.bringing(stamps).ack)
}

/// Notes messages of a flow that are completed at `now`.
fn completed<'h>(
    completions: &'h mut Vec<Completion>,
    counters: &'h mut NicCounters,
    now: Time,
    flow: usize,
) -> impl FnMut(Time, Bytes) + 'h {
    move |released, size| {
        if completions.len() < COMPLETIONS_MAX {
            completions.push(Completion { flow, released, size, fct: now.since(released) });
        } else {
            counters.completions_forgotten += 1;
        }
    }
}
