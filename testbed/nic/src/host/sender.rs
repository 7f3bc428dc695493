//! Sending end of a connection: segmentation of messages into packets, pacing, congestion control, retransmission, and
//! completion.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use weir_flowctl::{Shaper, wire_bytes};
use weir_units::{BitRate, Bytes, Class, Span, Time};
use weir_wire::digest::Digest;
use weir_wire::rocev2::{Dscp, Ecn, NakCode, Psn, QueuePair, Syndrome};

use super::congestion::HopTelemetry;
use super::congestion::{AckSignal, CongestionControlChoice, ControlledFlow};
use super::packet::{Ack, FrameSizes, MSS_MAX, PacketKind, RdmaOperation, TcpAck, TelemetryMode, Write};
use super::packet_set::WINDOW;
use super::selective::{LossRecovery, SelectiveRepeat};
use super::stream::TcpSendSide;
use super::{FlowConfig, HostConfig, HostError, Peer, Repeat, SenderStats, Transport, codec};
use crate::tcp::TcpSender;

/// Limit on messages in flight, like the transmit depth of perftest.
const MESSAGES_IN_FLIGHT_MAX: u64 = 128;
/// Limit on packets in flight: half the sequence space, so that an acknowledgement is unambiguous.
const PACKETS_IN_FLIGHT_MAX: u64 = 1 << 23;
/// Size of the largest message in bytes (IBA 9.7.2: C9-3).
const MESSAGE_BYTES_MAX: u64 = 1 << 31;

/// State of a sending end.
#[derive(Debug)]
pub(super) struct Sender {
    config: SenderConfig,
    /// Whether the peer is still unknown.
    waits: bool,
    payload_max: u64,
    frame_bytes_max: u32,
    /// Hash of the headers of the packet last taken.
    flow_hash: u32,
    pacer: Option<Shaper>,
    controlled: Option<ControlledFlow>,
    /// Packets that arrived and are lost, under selective retransmission.
    selective: Option<Box<SelectiveRepeat>>,
    /// Send side of the TCP connection; `None` with RDMA. With TCP, the fields for sequence numbers and RDMA
    /// messages are unused.
    tcp: Option<Box<TcpSendSide>>,
    /// Sequence number of the next packet to send.
    next: Psn,
    /// Sequence number of the first packet never sent.
    fresh: Psn,
    /// Sequence number of the first unacknowledged packet.
    unacknowledged: Psn,
    /// Payload up to `next`; `fresh_byte` and `acknowledged` are the payload up to `fresh` and `unacknowledged`.
    next_byte: u64,
    fresh_byte: u64,
    acknowledged: u64,
    /// Payload after `acknowledged` that has arrived.
    out_of_order: u64,
    /// Payload of all released messages.
    released: u64,
    /// Whether the next packet is the first after going back. It requests an acknowledgement at any `ack_every`, so that
    /// received packets are not sent repeatedly.
    begins_anew: bool,
    /// Last packet that requested an acknowledgement since the sender last went back.
    asked: Option<Psn>,
    /// End of the wait after an RNR NAK: nothing is sent earlier.
    waits_until: Time,
    /// Reason for which the receiver has given up the connection.
    refusal: Option<NakCode>,
    /// Instant of the last new acknowledgement, or of the first packet after it that requested one.
    progress: Time,
    /// Unacknowledged messages, oldest first; `sending` is the index of the message being sent.
    messages: VecDeque<Message>,
    sending: usize,
    /// Release of the next message; [`Time::NEVER`] if there is none, or not before the present one is sent.
    next_release: Time,
    /// Payload left for further messages; `None` for no limit.
    left: Option<Bytes>,
    messages_max: usize,
    stats: SenderStats,
    /// Whether the flow is in the host's round robin, now or later.
    pub(super) has_turn: bool,
    /// Instant at which the host checks for an overdue acknowledgement; [`Time::NEVER`] for none.
    pub(super) watched_at: Time,
    /// Whether the end closes at its next turn.
    pub(super) is_closing: bool,
}

/// Part of a flow's configuration that its sender keeps, small since hosts may have thousands of senders.
#[derive(Debug)]
pub(super) struct SenderConfig {
    pub queue_pair: QueuePair,
    pub peer: Peer,
    pub class: Class,
    pub dscp: Dscp,
    pub telemetry: TelemetryMode,
    acks_every_packet: bool,
    operation: RdmaOperation,
    message: Bytes,
    stop: Time,
    repeat: Repeat,
    ack_every: Option<NonZeroU32>,
    retransmission: Option<Span>,
}

impl SenderConfig {
    fn from_flow(config: &FlowConfig) -> SenderConfig {
        let feedback = config.congestion_control.feedback();
        SenderConfig {
            queue_pair: config.queue_pair,
            peer: config.peer,
            class: config.class,
            dscp: config.dscp,
            telemetry: feedback.telemetry,
            acks_every_packet: config.acks_every_packet(),
            operation: config.operation,
            message: config.message,
            stop: config.stop,
            repeat: config.repeat,
            ack_every: config.ack_every,
            retransmission: config.retransmission,
        }
    }
}

/// Message from its release to its acknowledgement.
#[derive(Clone, Copy, Debug)]
struct Message {
    first: Psn,
    packets: u32,
    size: u64,
    /// Payload of all earlier messages.
    offset: u64,
    released: Time,
}

impl Sender {
    pub(super) fn new(config: &FlowConfig, host: &HostConfig) -> Result<Sender, HostError> {
        let message = config.message.get();
        let (message_max, tcp) = match &config.transport {
            Transport::Rdma => (MESSAGE_BYTES_MAX, None),
            Transport::Tcp(tcp) if (1..=MSS_MAX).contains(&tcp.mss) => {
                (u64::MAX, Some(Box::new(TcpSendSide::new(tcp))))
            }
            Transport::Tcp(tcp) => return Err(HostError::SegmentSize(config.queue_pair, tcp.mss)),
        };
        if !(1..=message_max).contains(&message) {
            return Err(HostError::MessageSize(config.message));
        }
        if config.total == Some(Bytes::ZERO) {
            return Err(HostError::NoTotal(config.queue_pair));
        }
        if config.repeat == Repeat::Every(Span::ZERO) {
            return Err(HostError::NoPeriod(config.queue_pair));
        }
        let payload_max = u64::from(host.sizes.payload_max);
        let packets = message.div_ceil(payload_max);
        // The largest message at the smallest MTU has 2^23 packets, so at least one fits.
        let fitting = if tcp.is_some() { u64::MAX } else { PACKETS_IN_FLIGHT_MAX / packets };
        let messages_max = fitting.clamp(1, MESSAGES_IN_FLIGHT_MAX) as usize;
        // TCP has its own congestion control and retransmission.
        let config = match &tcp {
            Some(_) => FlowConfig {
                congestion_control: CongestionControlChoice::none(),
                retransmission: None,
                ..config.clone()
            },
            None => config.clone(),
        };
        let flow_hash = codec::flow_hash(host, config.queue_pair, &config.peer);
        let selective = match config.loss_recovery {
            LossRecovery::Selective(selective) if config.is_selective() => {
                Some(Box::new(SelectiveRepeat::new(selective, flow_hash)))
            }
            _ => None,
        };
        let telemetry = config.congestion_control.telemetry();
        let frame_bytes_max =
            tcp.as_ref().map_or(host.frame_bytes_max(telemetry) as u32, |tcp| longest(tcp, &host.sizes));
        // A frame that found the wire busy is late; the next makes up for the delay.
        let slack = |rate: BitRate| host.slack + rate.time_for(wire_bytes(frame_bytes_max, host.link_overhead));
        Ok(Sender {
            payload_max,
            flow_hash,
            pacer: config.rate.map(|rate| Shaper::new(Some(rate), slack(rate))),
            controlled: ControlledFlow::new(&config.congestion_control, host.rate, slack(host.rate))
                .map(|controlled| controlled.timed(host.frame_times)),
            frame_bytes_max,
            selective,
            tcp,
            next: Psn::default(),
            fresh: Psn::default(),
            unacknowledged: Psn::default(),
            next_byte: 0,
            fresh_byte: 0,
            acknowledged: 0,
            out_of_order: 0,
            released: 0,
            begins_anew: false,
            asked: None,
            waits_until: Time::ZERO,
            refusal: None,
            progress: Time::ZERO,
            messages: VecDeque::new(),
            sending: 0,
            next_release: if config.start < config.stop { config.start } else { Time::NEVER },
            left: config.total,
            messages_max,
            stats: SenderStats::default(),
            has_turn: false,
            watched_at: Time::NEVER,
            is_closing: false,
            waits: config.peer == Peer::UNKNOWN,
            config: SenderConfig::from_flow(&config),
        })
    }

    /// Sets the receiver's end and the number of the first packet. Called once, on a sender with an unknown peer.
    pub(super) fn connect(&mut self, peer: Peer, first: Psn, host: &HostConfig) {
        debug_assert!(self.waits, "the peer is known already");
        self.waits = false;
        self.config.peer = peer;
        self.flow_hash = codec::flow_hash(host, self.config.queue_pair, &peer);
        (self.next, self.fresh, self.unacknowledged) = (first, first, first);
        if let Some(selective) = &mut self.selective {
            selective.connect(self.flow_hash, first);
        }
    }

    /// Returns the earliest instant of the flow's next frame, apart from wire and flow control; [`Time::NEVER`] if the
    /// flow waits for an acknowledgement or has nothing to send.
    #[inline]
    pub(super) fn due(&self) -> Time {
        if self.waits || self.refusal.is_some() {
            return Time::NEVER;
        }
        if let Some(selective) = &self.selective
            && (selective.next_lost().is_some() || self.next.ahead_of(self.unacknowledged) as u32 >= WINDOW)
        {
            return self.due_selective(selective);
        }
        let released = match (&self.tcp, self.messages.get(self.sending)) {
            (None, Some(message)) => message.released,
            (None, None) if self.messages.len() == self.messages_max => return Time::NEVER,
            (Some(tcp), _) if tcp.end.can_send() => Time::ZERO,
            (Some(tcp), _) if tcp.messages() == self.messages_max => return Time::NEVER,
            _ => self.next_release,
        };
        let released = released.max(self.waits_until);
        let paced = self.pacer.as_ref().map_or(released, |pacer| released.max(pacer.free_at()));
        let Some(controlled) = &self.controlled else { return paced };
        let in_flight = Bytes::new(self.next_byte - self.acknowledged - self.out_of_order);
        if !controlled.has_room(in_flight) {
            return Time::NEVER;
        }
        paced.max(controlled.free_at())
    }

    /// Returns the earliest instant of a lost packet's repetition: it has left the window. [`Time::NEVER`] if none is lost, so that a full
    /// window stops the flow.
    #[inline(never)]
    fn due_selective(&self, selective: &SelectiveRepeat) -> Time {
        if selective.next_lost().is_none() {
            return Time::NEVER;
        }
        let paced = self.pacer.as_ref().map_or(Time::ZERO, Shaper::free_at);
        self.controlled.as_ref().map_or(paced, |controlled| paced.max(controlled.free_at()))
    }

    /// Takes the next packet, with the length of its frame and its ECN field. Called when the flow is due. Returns
    /// `None` if only a message became due that has no room in the window.
    #[inline]
    pub(super) fn take(&mut self, now: Time, sizes: &FrameSizes) -> Option<(PacketKind, u16, Ecn)> {
        if self.tcp.is_some() {
            return self.take_segment(now, sizes);
        }
        let write = if self.selective.is_some() { self.take_selective(now) } else { self.take_packet(now) };
        let frame_bytes = sizes.of_write(write.operation, write.payload_bytes, write.is_first)
            + sizes.of_stamps(self.config.telemetry);
        Some((PacketKind::Write(write), frame_bytes, Ecn::Ect0))
    }

    fn take_segment(&mut self, now: Time, sizes: &FrameSizes) -> Option<(PacketKind, u16, Ecn)> {
        while let Some(tcp) = &self.tcp
            && self.next_release <= now
            && tcp.messages() < self.messages_max
        {
            let (released, size) = self.next_message();
            self.tcp.as_mut()?.write(released, size.get());
        }
        let tcp = self.tcp.as_mut()?;
        let segment = tcp.end.poll_segment(now)?;
        let messages_sent = tcp.handle_sent(&segment);
        self.stats.payload += Bytes::new(u64::from(segment.len));
        self.stats.retransmitted += u64::from(segment.is_retransmission);
        (0..messages_sent).for_each(|_| self.finish_message(now));
        let ecn = if segment.ect { Ecn::Ect0 } else { Ecn::NotCapable };
        Some((PacketKind::Segment(segment), sizes.of_segment(u32::from(segment.len)), ecn))
    }

    #[inline]
    fn take_packet(&mut self, now: Time) -> Write {
        debug_assert!(self.due() <= now, "a flow is polled before it is due");
        if self.sending == self.messages.len() {
            self.release();
        }
        let message = self.messages[self.sending];
        let mut write = self.packet(now, &message, self.next);
        write.ack_request |= std::mem::take(&mut self.begins_anew);
        let (payload, is_last) = (u64::from(write.payload_bytes), write.is_last);
        if write.ack_request {
            if !self.awaits_ack() {
                self.progress = now;
            }
            self.asked = Some(self.next);
        }
        self.next = self.next.plus(1);
        self.next_byte += payload;
        let is_fresh = self.next.ahead_of(self.fresh) > 0;
        if is_fresh {
            self.fresh = self.next;
            self.fresh_byte = self.next_byte;
        } else {
            self.stats.retransmitted += 1;
        }
        self.stats.payload += Bytes::new(payload);
        self.sending += usize::from(is_last);
        if is_last && is_fresh {
            self.finish_message(now);
        }
        write
    }

    /// Takes a lost packet or the next one, and selects its entropy value.
    #[inline(never)]
    fn take_selective(&mut self, now: Time) -> Write {
        let write = match self.selective.as_ref().and_then(|selective| selective.next_lost()) {
            Some(lost) => self.repeat_packet(now, lost),
            None => self.take_packet(now),
        };
        if let Some(flow_hash) = self.selective.as_mut().and_then(|selective| selective.select_entropy(write.psn)) {
            self.flow_hash = flow_hash;
        }
        write
    }

    /// Takes a packet that is lost, and sent again.
    fn repeat_packet(&mut self, now: Time, psn: Psn) -> Write {
        let holds = |message: &&Message| (0..message.packets as i32).contains(&psn.ahead_of(message.first));
        let message = *self.messages.iter().find(holds).expect("an unacknowledged packet is of a message");
        if let Some(selective) = &mut self.selective {
            selective.handle_repeated(now);
        }
        let write = self.packet(now, &message, psn);
        self.stats.retransmitted += 1;
        self.stats.payload += Bytes::new(u64::from(write.payload_bytes));
        write
    }

    /// Returns a packet of a message.
    #[inline(always)]
    fn packet(&self, now: Time, message: &Message, psn: Psn) -> Write {
        let number = psn.ahead_of(message.first) as u32;
        let (is_first, is_last) = (number == 0, number + 1 == message.packets);
        let payload = if is_last { message.size - u64::from(number) * self.payload_max } else { self.payload_max };
        let is_every = self.config.ack_every.is_some_and(|every| (number + 1).is_multiple_of(every.get()));
        Write {
            operation: self.config.operation,
            psn,
            message_bytes: message.size as u32,
            payload_bytes: payload as u16,
            is_first,
            is_last,
            ack_request: is_last || is_every || self.config.acks_every_packet,
            sent_at: now,
            digest: if self.config.telemetry == TelemetryMode::Digest { Digest::LEAST } else { Digest::NONE },
        }
    }

    /// Releases the next message.
    fn release(&mut self) {
        let (released, size) = self.next_message();
        self.submit(released, size.get());
    }

    /// Adds a message of a program to those to send; `released` is not in the future.
    pub(super) fn submit(&mut self, released: Time, size: u64) {
        let first = self.messages.back().map_or(self.fresh, |last| last.first.plus(last.packets));
        let packets = size.div_ceil(self.payload_max) as u32;
        self.messages.push_back(Message { first, packets, size, offset: self.released, released });
        self.released += size;
    }

    /// Returns the release and the size of the next message, and schedules the one after it.
    fn next_message(&mut self) -> (Time, Bytes) {
        let size = self.left.map_or(self.config.message, |left| left.min(self.config.message));
        let released = self.next_release;
        self.left = self.left.map(|left| left - size);
        self.next_release = match self.config.repeat {
            Repeat::BackToBack => Time::NEVER,
            Repeat::Every(period) => self.unless_ended(released.saturating_add(period)),
        };
        (released, size)
    }

    /// Handles the first sending of a message's last packet.
    fn finish_message(&mut self, now: Time) {
        self.stats.messages_sent += 1;
        if self.config.repeat == Repeat::BackToBack {
            self.next_release = self.unless_ended(now);
        }
    }

    fn unless_ended(&self, release: Time) -> Time {
        if release < self.config.stop && self.left != Some(Bytes::ZERO) { release } else { Time::NEVER }
    }

    /// Records the frame of the packet last taken, which takes `wire` bytes on the link.
    #[inline]
    pub(super) fn handle_sent(&mut self, now: Time, wire: Bytes) {
        self.stats.frames += 1;
        self.stats.wire += wire;
        if let Some(pacer) = &mut self.pacer {
            pacer.send(now, wire);
        }
        if let Some(controlled) = &mut self.controlled {
            controlled.handle_sent(now, wire);
        }
    }

    /// Counts a NAK.
    fn count(&mut self, syndrome: Syndrome) {
        match syndrome {
            Syndrome::Ack { .. } => {}
            Syndrome::SequenceError => self.stats.naks += 1,
            Syndrome::RnrNak { .. } => self.stats.rnr_naks += 1,
            Syndrome::Nak(refusal) => self.stats.refusals[refusal as usize] += 1,
        }
    }

    /// Handles an acknowledgement. Calls `done` with the release and the size of each message that it completes.
    pub(super) fn handle_ack(
        &mut self,
        now: Time,
        ack: &Ack,
        hops: &[HopTelemetry],
        mut done: impl FnMut(Time, Bytes),
    ) {
        // A NAK acknowledges all packets before its own number.
        let after = if ack.syndrome.is_negative() { ack.psn } else { ack.psn.plus(1) };
        self.count(ack.syndrome);
        if self.refusal.is_some() {
            return;
        }
        if after.ahead_of(self.fresh) > 0 {
            self.stats.acks_unexpected += 1;
            return;
        }
        if ack.syndrome == Syndrome::SequenceError && self.config.retransmission.is_none() {
            return;
        }
        if let Syndrome::Nak(refusal) = ack.syndrome {
            self.refusal = Some(refusal);
        }
        self.waits_until = self.waits_until.max(now.saturating_add(ack.syndrome.wait()));
        if after.ahead_of(self.unacknowledged) > 0 {
            self.unacknowledged = after;
            self.progress = now;
        }
        if let Some(selective) = &mut self.selective {
            let arrived = ack.psn.plus(i32::from(ack.ahead) as u32);
            selective.handle_ack(now, self.unacknowledged, arrived, ack.is_marked);
        }
        while let Some(message) = self.messages.front()
            && self.unacknowledged.ahead_of(message.first.plus(message.packets - 1)) > 0
        {
            self.stats.record_completion(now, message.released, message.size);
            done(message.released, Bytes::new(message.size));
            self.messages.pop_front();
            self.sending = self.sending.saturating_sub(1);
        }
        self.acknowledged = match self.messages.front() {
            Some(message) => {
                message.offset + self.unacknowledged.ahead_of(message.first).max(0) as u64 * self.payload_max
            }
            None => self.released,
        };
        if let Some(selective) = &self.selective {
            let arrived = u64::from(selective.arrived()) * self.payload_max;
            // The last packet of a message may be short.
            self.out_of_order = arrived.min(self.next_byte - self.acknowledged);
        }
        if ack.syndrome.is_negative() || self.next.ahead_of(self.unacknowledged) < 0 {
            self.go_back();
        }
        if let Some(controlled) = &mut self.controlled
            && (ack.echo != Time::NEVER || self.config.telemetry == TelemetryMode::None)
        {
            let (acked, sent, rtt) = (self.acknowledged, self.fresh_byte, now.since(ack.echo));
            let (is_marked, digest) = (ack.is_marked, ack.digest.code());
            controlled.handle_ack(now, &AckSignal { acked, sent, rtt, is_marked, hops, digest });
        }
    }

    /// Handles a TCP acknowledgement. Calls `done` as [`Sender::handle_ack`] does.
    pub(super) fn handle_tcp_ack(&mut self, now: Time, ack: &TcpAck, mut done: impl FnMut(Time, Bytes)) {
        let Some(tcp) = &mut self.tcp else {
            self.stats.acks_unexpected += 1;
            return;
        };
        tcp.end.handle_ack(now, &ack.into());
        while let Some(message) = tcp.take_done() {
            self.stats.record_completion(now, message.released, message.size);
            done(message.released, Bytes::new(message.size));
        }
    }

    /// Returns whether a requested acknowledgement is outstanding.
    #[inline]
    fn awaits_ack(&self) -> bool {
        self.asked.is_some_and(|asked| asked.ahead_of(self.unacknowledged) >= 0)
    }

    /// Goes back to the first unacknowledged packet.
    fn go_back(&mut self) {
        self.asked = None;
        self.begins_anew = true;
        self.next = self.unacknowledged;
        self.next_byte = self.acknowledged;
        let is_next = |message: &Message| {
            let ahead = self.next.ahead_of(message.first);
            (0..message.packets as i32).contains(&ahead)
        };
        self.sending = self.messages.iter().position(is_next).unwrap_or(self.messages.len());
    }

    /// Returns the instant from which an acknowledgement is overdue; [`Time::NEVER`] if none is outstanding.
    #[inline]
    pub(super) fn deadline(&self) -> Time {
        if let Some(tcp) = &self.tcp {
            return tcp.end.next_timeout();
        }
        match self.config.retransmission {
            Some(timeout) if self.awaits_ack() && self.refusal.is_none() => self.progress.saturating_add(timeout),
            _ => Time::NEVER,
        }
    }

    /// Handles an overdue acknowledgement at `now`: all unacknowledged packets are sent again.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        self.stats.timeouts += 1;
        match &mut self.tcp {
            Some(tcp) => tcp.end.handle_timeout(now),
            None => {
                self.progress = now;
                match &mut self.selective {
                    Some(selective) => selective.handle_timeout(self.fresh),
                    None => self.go_back(),
                }
            }
        }
    }

    pub(super) fn handle_cnp(&mut self, now: Time) {
        self.stats.congestion_notifications += 1;
        if let Some(controlled) = &mut self.controlled {
            controlled.handle_cnp(now);
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        if self.refusal.is_some() {
            return true;
        }
        let is_acknowledged = self.messages.is_empty() && self.tcp.as_ref().is_none_or(|tcp| tcp.messages() == 0);
        is_acknowledged && self.next_release == Time::NEVER
    }

    /// Returns the reason for which the receiver has given up the connection.
    pub(super) fn refusal(&self) -> Option<NakCode> {
        self.refusal
    }

    /// Returns the TCP connection; `None` with RDMA.
    pub(super) fn tcp(&self) -> Option<&TcpSender> {
        self.tcp.as_ref().map(|tcp| &tcp.end)
    }

    /// Shows the gauges of TCP or of congestion control.
    pub(super) fn gauges(&self, show: &mut dyn FnMut(f64)) {
        match (&self.tcp, &self.controlled) {
            (Some(tcp), _) => tcp.end.gauges(show),
            (None, Some(controlled)) => controlled.gauges(show),
            (None, None) => {}
        }
    }

    /// Returns the length of the flow's longest frame, without FCS.
    pub(super) fn frame_bytes_max(&self) -> u32 {
        self.frame_bytes_max
    }

    /// Returns the hash of the headers of the packet last taken.
    pub(super) fn flow_hash(&self) -> u32 {
        self.flow_hash
    }

    pub(super) fn config(&self) -> &SenderConfig {
        &self.config
    }

    pub(super) fn stats(&self) -> &SenderStats {
        &self.stats
    }
}

/// Returns the length of a TCP connection's longest frame, without FCS.
fn longest(tcp: &TcpSendSide, sizes: &FrameSizes) -> u32 {
    u32::from(sizes.of_segment(tcp.mss))
}
