//! The sending end of a connection: messages cut into packets, at a pace or under congestion control, and their completion.

use std::collections::VecDeque;

use weir_units::{BitRate, Bytes, Class, Span, Time};

use super::congestion::{CongestionControl, Controlled};
use super::{HostConfig, HostError, Peer, ReceiverConfig};
use crate::rocev2::{Dscp, Operation, Part, PathMtu, Psn, QueuePair, Reth};
use weir_flowctl::{Shaper, wire_bytes};

/// Messages in flight at most, like the transmit depth of perftest.
const MESSAGES_IN_FLIGHT_MAX: u64 = 128;
/// Packets in flight at most: half the sequence space, so that an acknowledgement has one meaning.
const PACKETS_IN_FLIGHT_MAX: u64 = 1 << 23;
/// Bytes of the largest message (IBA 9.7.2: C9-3).
const MESSAGE_BYTES_MAX: u64 = 1 << 31;
/// Where the peer's memory begins, and the key to it: nobody reads them, but an RETH must name them.
const VIRTUAL_ADDRESS: u64 = 0x1_0000_0000;
const REMOTE_KEY: u32 = 0x1000;

/// A flow: messages over one connection.
#[derive(Clone, Debug)]
pub struct FlowConfig {
    /// The connection's end at the sender, unique on that host.
    pub queue_pair: QueuePair,
    /// Its end at the receiver.
    pub peer: Peer,
    /// Class, for PFC: the one that the switch gives to `dscp`.
    pub class: Class,
    /// Code point of its frames.
    pub dscp: Dscp,
    /// Payload of a message.
    pub message: Bytes,
    /// When the first message is released.
    pub start: Time,
    /// No message is released from here on.
    pub stop: Time,
    /// When the messages after the first are released.
    pub repeat: Repeat,
    /// A pace, counted in bytes on the wire (FCS, preamble and gap included) as the line rate is; none: line rate.
    pub rate: Option<BitRate>,
    /// What controls its rate besides.
    pub congestion_control: CongestionControl,
    /// Payload of all messages together; the last message is cut to it. None: no end.
    pub total: Option<Bytes>,
}

/// When messages are released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Each one when the last frame of the one before has been sent: a long-lived flow.
    BackToBack,
    /// One every so often, whether the ones before are sent or not: repeated bursts.
    Every(Span),
}

/// What a flow has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Frames.
    pub frames: u64,
    /// Their payload.
    pub payload: Bytes,
    /// Their bytes on the wire, with FCS, preamble and gap.
    pub wire: Bytes,
    /// Messages wholly sent.
    pub messages_sent: u64,
    /// Messages acknowledged.
    pub messages_done: u64,
    /// Payload of the messages acknowledged.
    pub payload_done: Bytes,
    /// Their completion times.
    pub fct: FctSummary,
    /// Negative acknowledgements.
    pub naks: u64,
    /// Acknowledgements of what was never sent.
    pub acks_unexpected: u64,
    /// Congestion notifications.
    pub congestion_notifications: u64,
}

/// Flow completion times in a few numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FctSummary {
    /// How many.
    pub count: u64,
    /// All added up.
    pub sum: Span,
    /// The shortest.
    pub min: Span,
    /// The longest.
    pub max: Span,
}

/// One end's state.
#[derive(Debug)]
pub(super) struct Sender {
    config: FlowConfig,
    mtu: PathMtu,
    pacer: Option<Shaper>,
    controlled: Option<Controlled>,
    psn: Psn,
    message: Option<Message>,
    /// When the next message is released; [`Time::NEVER`] if none is, or not before the present one is sent.
    next_release: Time,
    /// Payload that may still be put into messages.
    left: Option<Bytes>,
    in_flight: VecDeque<InFlight>,
    in_flight_max: usize,
    stats: SenderStats,
}

/// A frame's worth of a message.
pub(super) struct Segment {
    pub psn: Psn,
    pub operation: Operation,
    pub payload_bytes: usize,
}

/// The message that is being sent.
#[derive(Debug)]
struct Message {
    size: u64,
    sent: u64,
    released: Time,
}

/// A message sent and not acknowledged.
#[derive(Debug)]
struct InFlight {
    last: Psn,
    size: Bytes,
    released: Time,
}

impl FlowConfig {
    /// The receiving end of this flow, on the host that is its peer.
    pub fn receiver(&self, sender: &HostConfig) -> ReceiverConfig {
        ReceiverConfig {
            queue_pair: self.peer.queue_pair,
            peer: sender.peer(self.queue_pair),
            cnp_interval: self.congestion_control.cnp_interval(),
        }
    }
}

impl FctSummary {
    /// The average, rounded down; zero if there is none.
    pub fn mean(&self) -> Span {
        if self.count == 0 { Span::ZERO } else { self.sum.divided_by(self.count) }
    }

    fn add(&mut self, fct: Span) {
        self.min = if self.count == 0 { fct } else { self.min.min(fct) };
        self.max = self.max.max(fct);
        self.sum += fct;
        self.count += 1;
    }
}

impl Sender {
    pub(super) fn new(config: &FlowConfig, host: &HostConfig) -> Result<Sender, HostError> {
        let message = config.message.get();
        if !(1..=MESSAGE_BYTES_MAX).contains(&message) {
            return Err(HostError::MessageSize(config.message));
        }
        if config.total == Some(Bytes::ZERO) {
            return Err(HostError::NoTotal(config.queue_pair));
        }
        if config.repeat == Repeat::Every(Span::ZERO) {
            return Err(HostError::NoPeriod(config.queue_pair));
        }
        let packets = message.div_ceil(host.mtu.get() as u64);
        // The largest message at the smallest MTU has 2^23 packets, so at least one fits.
        let in_flight_max = (PACKETS_IN_FLIGHT_MAX / packets).min(MESSAGES_IN_FLIGHT_MAX) as usize;
        // A frame that found the wire busy is late, and the one after it makes up for that.
        let slack = |rate: BitRate| host.slack + rate.time_for(wire_bytes(host.frame_bytes_max() as u32));
        Ok(Sender {
            mtu: host.mtu,
            pacer: config.rate.map(|rate| Shaper::new(Some(rate), slack(rate))),
            controlled: Controlled::new(&config.congestion_control, host.rate, slack(host.rate)),
            psn: Psn::default(),
            message: None,
            next_release: if config.start < config.stop { config.start } else { Time::NEVER },
            left: config.total,
            in_flight: VecDeque::with_capacity(in_flight_max),
            in_flight_max,
            stats: SenderStats::default(),
            config: config.clone(),
        })
    }

    /// When the flow's next frame may be sent, wire and PFC apart; [`Time::NEVER`] if it waits for an
    /// acknowledgement, or for nothing.
    #[inline]
    pub(super) fn due(&self) -> Time {
        let released = match &self.message {
            Some(message) => message.released,
            None if self.in_flight.len() == self.in_flight_max => Time::NEVER,
            None => self.next_release,
        };
        let paced = self.pacer.as_ref().map_or(released, |pacer| released.max(pacer.free_at()));
        self.controlled.as_ref().map_or(paced, |controlled| paced.max(controlled.free_at()))
    }

    /// The next frame's content. To be called when the flow is due.
    pub(super) fn take_segment(&mut self, now: Time) -> Segment {
        debug_assert!(self.due() <= now, "a flow is asked before it is due");
        if self.message.is_none() {
            self.release();
        }
        let message = self.message.as_mut().expect("just released");
        let payload = (message.size - message.sent).min(self.mtu.get() as u64);
        let reth =
            Reth { virtual_address: VIRTUAL_ADDRESS, remote_key: REMOTE_KEY, message_bytes: message.size as u32 };
        let is_first = message.sent == 0;
        message.sent += payload;
        let is_last = message.sent == message.size;
        let part = match (is_first, is_last) {
            (true, true) => Part::Only(reth),
            (true, false) => Part::First(reth),
            (false, false) => Part::Middle,
            (false, true) => Part::Last,
        };
        let segment = Segment {
            psn: self.psn,
            operation: Operation::Write { part, ack_request: is_last },
            payload_bytes: payload as usize,
        };
        if is_last {
            self.finish_message(now);
        }
        self.psn = self.psn.plus(1);
        self.stats.payload += Bytes::new(payload);
        segment
    }

    /// Makes the next message the present one, and fixes when the one after it comes.
    fn release(&mut self) {
        let size = self.left.map_or(self.config.message, |left| left.min(self.config.message));
        self.message = Some(Message { size: size.get(), sent: 0, released: self.next_release });
        self.left = self.left.map(|left| left - size);
        self.next_release = match self.config.repeat {
            Repeat::BackToBack => Time::NEVER,
            Repeat::Every(period) => self.unless_ended(self.next_release.saturating_add(period)),
        };
    }

    fn finish_message(&mut self, now: Time) {
        let message = self.message.take().expect("a message was being sent");
        self.in_flight.push_back(InFlight {
            last: self.psn,
            size: Bytes::new(message.size),
            released: message.released,
        });
        self.stats.messages_sent += 1;
        if self.config.repeat == Repeat::BackToBack {
            self.next_release = self.unless_ended(now);
        }
    }

    fn unless_ended(&self, release: Time) -> Time {
        if release < self.config.stop && self.left != Some(Bytes::ZERO) { release } else { Time::NEVER }
    }

    /// Notes the frame that carried the segment last taken.
    pub(super) fn handle_sent(&mut self, now: Time, frame_bytes: usize) {
        self.stats.frames += 1;
        self.stats.wire += wire_bytes(frame_bytes as u32);
        if let Some(pacer) = &mut self.pacer {
            pacer.send(now, frame_bytes as u32);
        }
        if let Some(controlled) = &mut self.controlled {
            controlled.handle_sent(now, wire_bytes(frame_bytes as u32));
        }
    }

    /// Takes an acknowledgement: of all messages whose last packet is `psn` or before it. Calls `done` with the
    /// release and the size of each.
    pub(super) fn handle_ack(&mut self, now: Time, psn: Psn, is_ack: bool, mut done: impl FnMut(Time, Bytes)) {
        if !is_ack {
            self.stats.naks += 1;
            return;
        }
        if psn.ahead_of(self.psn) >= 0 {
            self.stats.acks_unexpected += 1;
            return;
        }
        while let Some(message) = self.in_flight.front()
            && psn.ahead_of(message.last) >= 0
        {
            self.stats.messages_done += 1;
            self.stats.payload_done += message.size;
            self.stats.fct.add(now.since(message.released));
            done(message.released, message.size);
            self.in_flight.pop_front();
        }
    }

    pub(super) fn handle_cnp(&mut self, now: Time) {
        self.stats.congestion_notifications += 1;
        if let Some(controlled) = &mut self.controlled {
            controlled.handle_cnp(now);
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.message.is_none() && self.next_release == Time::NEVER && self.in_flight.is_empty()
    }

    pub(super) fn config(&self) -> &FlowConfig {
        &self.config
    }

    pub(super) fn stats(&self) -> &SenderStats {
        &self.stats
    }
}
