//! Transmission: flow-control messages first, then acknowledgements and notifications, then flows round robin.

use std::cmp::Reverse;
use std::net::Ipv4Addr;

use weir_flowctl::{BufferState, wire_bytes};
use weir_units::{Bytes, Class, ClassSet, Time};
use weir_wire::mac_control::{ControlFrame, FRAME_BYTES};
use weir_wire::rocev2::{Ecn, QueuePair};

use super::config::{AckClass, RemoteMemory};
use super::outgoing::{Outgoing, answer};
use super::packet::{NicFrame, NicPacket, PacketKind, TelemetryMode};
use super::programs::PROGRAMS;
use super::tcp_frames::TCP_QUEUE;
use super::{Endpoint, Host, codec};

impl Host {
    /// Writes the next frame to send at `now` into `buffer`; returns its length without FCS, or `None` if the wire is
    /// busy or flow control allows no due frame.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Host::frame_bytes_max`], the lengths of frames are not RoCEv2's, or a flow is TCP's,
    /// which is for virtual time only.
    pub fn poll_transmit(&mut self, now: Time, buffer: &mut [u8]) -> Option<usize> {
        assert!(buffer.len() >= self.frame_bytes_max(), "a frame may be longer than the buffer");
        let Outgoing { frame, own, peer: peer_ip } = self.poll_outgoing::<false>(now)?;
        let packet = match frame {
            NicFrame::Control(frame) => {
                buffer[..FRAME_BYTES].copy_from_slice(&frame.encode(self.config.mac));
                return Some(FRAME_BYTES);
            }
            NicFrame::Packet(packet) => packet,
        };
        let memory = match (&packet.kind, self.endpoint(own)) {
            (PacketKind::Write(_), Some(Endpoint::Sender(flow))) => self.senders[flow].config().peer.memory,
            _ => RemoteMemory::EMULATED,
        };
        let to = codec::Destination { ip: peer_ip, memory };
        let written = codec::encode(&packet, self.config.ip, own, to, &self.payload, buffer);
        assert_eq!(written, Ok(usize::from(packet.frame_bytes)), "a frame of RoCEv2's length");
        self.spare_hops.extend(packet.telemetry);
        written.ok()
    }

    /// Returns the next frame to send at `now` in virtual time, where a message may be an
    /// [ordered set](ControlFrame::ordered_set); `None` if the wire is busy or flow control
    /// allows no due frame.
    ///
    /// Flow control goes first, then congestion notifications, then acknowledgements, RDMA's before TCP's; flows are
    /// served round robin, a frame each.
    #[inline]
    pub fn poll(&mut self, now: Time) -> Option<NicFrame> {
        self.poll_outgoing::<true>(now).map(|outgoing| outgoing.frame)
    }

    /// Whether a frame of the host's own software may be sent at `now`: the wire is free, and flow control allows its
    /// class. If so, it counts as sent.
    pub fn try_send_software_frame(&mut self, now: Time, class: Class, frame_bytes: u32) -> bool {
        self.limits.follow(now, &self.regulator);
        if now < self.wire.free_at() || self.held_back(now).contains(class) {
            return false;
        }
        self.record_sent(now, class, frame_bytes);
        self.wire.send(now, wire_bytes(frame_bytes, self.config.link_overhead));
        true
    }

    #[inline]
    fn poll_outgoing<const HAS_ORDERED_SETS: bool>(&mut self, now: Time) -> Option<Outgoing> {
        if now < self.wire.free_at() {
            return None;
        }
        self.limits.follow(now, &self.regulator);
        let outgoing = self.poll_control(now).or_else(|| {
            let held_back = self.held_back(now);
            let answer = if self.may_answer(held_back) { self.poll_answer(now) } else { None };
            answer.or_else(|| self.poll_tcp_ack(now, held_back)).or_else(|| self.poll_flows(now, held_back))
        })?;
        let wire = match &outgoing.frame {
            NicFrame::Control(frame) => self.message_wire_bytes::<HAS_ORDERED_SETS>(frame),
            NicFrame::Packet(packet) => wire_bytes(u32::from(packet.frame_bytes), self.config.link_overhead),
        };
        self.wire.send(now, wire);
        Some(outgoing)
    }

    #[cold]
    fn message_wire_bytes<const HAS_ORDERED_SETS: bool>(&self, message: &ControlFrame) -> Bytes {
        let ordered_set = if HAS_ORDERED_SETS { message.ordered_set() } else { None };
        ordered_set.unwrap_or(wire_bytes(FRAME_BYTES as u32, self.config.link_overhead))
    }

    /// Returns a flow-control message if one is due.
    #[inline]
    fn poll_control(&mut self, now: Time) -> Option<Outgoing> {
        let off = self.receive_buffer.as_mut().map_or(ClassSet::EMPTY, |buffer| buffer.off(now));
        let held = |class| self.receive_buffer.as_ref().map_or(Bytes::ZERO, |buffer| buffer.held(class));
        let demand = BufferState {
            xoff: off,
            occupancy: held,
            blocks_sent: |class| self.regulator.sent_total(class),
            arrived: &self.arrived,
        };
        let frame = self.generator.poll(now, demand)?;
        let before = self.generator.advertised_off();
        self.generator.handle_sent(now, &frame, demand);
        self.counters.control_sent += 1;
        let paused = (self.generator.advertised_off() - before).iter();
        paused.for_each(|class| self.classes[class.index()].pauses_sent += 1);
        Some(Outgoing { frame: NicFrame::Control(frame), own: QueuePair::new(0), peer: self.config.ip })
    }

    /// Returns the class of the first pending acknowledgement or notification.
    #[inline]
    pub(super) fn answer_class(&self) -> Class {
        match self.acks_due.front() {
            Some((place, _)) if self.config.acks != AckClass::Own && self.cnps_due.is_empty() => {
                self.receivers[*place].class(&self.config)
            }
            _ => self.config.ack_class,
        }
    }

    /// Returns whether the first answer may leave while flow control holds back these classes.
    #[inline]
    fn may_answer(&self, held_back: ClassSet) -> bool {
        !held_back.contains(self.answer_class()) || self.config.acks == AckClass::WithDataUnpaused
    }

    #[inline]
    fn poll_answer(&mut self, now: Time) -> Option<Outgoing> {
        if self.acks_due.is_empty() && self.cnps_due.is_empty() {
            return None;
        }
        let class = self.answer_class();
        let outgoing = self.poll_cnp().or_else(|| self.poll_ack())?;
        self.record_sent(now, class, outgoing.frame.frame_bytes());
        Some(outgoing)
    }

    #[inline]
    pub(super) fn record_sent(&mut self, now: Time, class: Class, frame_bytes: u32) {
        self.regulator.handle_sent(class, frame_bytes);
        self.limits.send(now, class, wire_bytes(frame_bytes, self.config.link_overhead));
    }

    /// Returns the classes that flow control holds back now. A class without credit for the longest frame waits, even
    /// if its next frame is shorter.
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
        // Notifications are not ECN-capable.
        let outgoing = answer(&self.config, receiver, self.config.sizes.cnp, Ecn::NotCapable, PacketKind::Cnp);
        self.finish_close(place);
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
            None => (receiver.take_ack().expect("each queued receiver has a pending acknowledgement"), None),
        };
        let sizes = &self.config.sizes;
        let frame_bytes = sizes.ack + sizes.of_stamps_back(receiver.config().telemetry);
        let mut outgoing = answer(&self.config, receiver, frame_bytes, Ecn::Ect0, PacketKind::Ack(ack));
        if let NicFrame::Packet(packet) = &mut outgoing.frame {
            packet.telemetry = telemetry;
            if self.config.acks != AckClass::Own {
                packet.dscp = receiver.config().dscp;
            }
        }
        self.finish_close(place);
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
        let (flow, kind, frame_bytes, ecn) = loop {
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
                && let Some((kind, frame_bytes, ecn)) = sender.take(now, &self.config.sizes)
            {
                break (flow, kind, frame_bytes, ecn);
            }
            // Its next packet has been acknowledged meanwhile, its pace has changed, or its window has no room.
            self.give_turn(now, flow);
        };
        let (packet, class, own, peer) = self.packet_of(now, flow, kind, frame_bytes, ecn);
        self.watch(flow);
        self.give_turn(now, flow);
        self.record_sent(now, class, u32::from(frame_bytes));
        Some(Outgoing { frame: NicFrame::Packet(packet), own, peer })
    }

    /// Returns a flow's packet, sent now, with its class, its own end, and the peer's address.
    #[inline(always)]
    pub(super) fn packet_of(
        &mut self,
        now: Time,
        flow: usize,
        kind: PacketKind,
        frame_bytes: u16,
        ecn: Ecn,
    ) -> (NicPacket, Class, QueuePair, Ipv4Addr) {
        let sender = &mut self.senders[flow];
        sender.handle_sent(now, wire_bytes(u32::from(frame_bytes), self.config.link_overhead));
        let config = sender.config();
        let (own, peer, class) = (config.queue_pair, config.peer, config.class);
        let packet = NicPacket {
            destination: peer.mac,
            source: self.config.mac,
            flow_hash: sender.flow_hash(),
            frame_bytes,
            dscp: config.dscp,
            ecn,
            queue_pair: peer.queue_pair,
            kind,
            telemetry: (config.telemetry == TelemetryMode::Hops).then(|| {
                let mut hops = self.spare_hops.pop().unwrap_or_default();
                hops.clear();
                hops
            }),
        };
        (packet, class, own, peer.ip)
    }

    /// Gives a flow its turn, now or later, if it has something to send and no turn yet.
    #[inline]
    pub(super) fn give_turn(&mut self, now: Time, flow: usize) {
        let sender = &mut self.senders[flow];
        let due = sender.due();
        if !sender.has_turn && due < Time::NEVER {
            if due <= now && self.config.queues_tcp && sender.tcp().is_some() {
                return self.queue_segments(now, flow);
            }
            sender.has_turn = true;
            self.schedule.add(now, flow as u32, sender.config().class, due);
        }
    }

    /// Schedules a check of a sender at its acknowledgement's deadline. A postponed deadline is found at the check.
    #[inline]
    pub(super) fn watch(&mut self, flow: usize) {
        let sender = &mut self.senders[flow];
        let deadline = sender.deadline();
        if deadline < sender.watched_at {
            sender.watched_at = deadline;
            self.timers.push(Reverse((deadline, flow as u32, self.senders.generation(flow))));
        }
    }

    /// Handles the timeouts of senders whose acknowledgement is overdue.
    #[inline]
    fn look_at_timers(&mut self, now: Time) {
        while let Some(Reverse((at, flow, generation))) = self.timers.peek().copied()
            && at <= now
        {
            self.timers.pop();
            if flow == PROGRAMS {
                self.handle_program_timer(now);
                continue;
            }
            let flow = flow as usize;
            if self.senders.generation(flow) != generation || !self.senders.is_open(flow) {
                continue;
            }
            let sender = &mut self.senders[flow];
            if at != sender.watched_at {
                // An earlier check replaced this one.
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

    /// Returns the earliest instant, `now` or later, at which [`Host::poll`] may return a frame if nothing arrives;
    /// [`Time::NEVER`] if there is none.
    #[inline(always)]
    pub fn next_wakeup(&self, now: Time) -> Time {
        let free = self.wire.free_at().max(now);
        let has_answers = !self.acks_due.is_empty() || !self.cnps_due.is_empty();
        if has_answers && self.config.acks == AckClass::WithDataUnpaused {
            return free;
        }
        let own = if has_answers { self.answer_class().alone() } else { ClassSet::EMPTY };
        let ready = self.schedule.ready_classes() | own | self.tcp_acks.classes();
        let opens = ready.iter().map(|class| self.opens_at(free, class)).min().unwrap_or(Time::NEVER);
        let timer = self.timers.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at);
        let buffer = self.receive_buffer.as_ref().map_or(Time::NEVER, |buffer| {
            let demand = BufferState {
                xoff: buffer.off_so_far(),
                occupancy: |class| buffer.held(class),
                blocks_sent: |class| self.regulator.sent_total(class),
                arrived: &self.arrived,
            };
            if self.generator.poll(now, demand).is_some() { now } else { buffer.next_wakeup() }
        });
        let later = self.schedule.next_due().min(timer).min(self.tcp_acks.next_due());
        let later = later.min(buffer).min(self.generator.next_wakeup(now));
        opens.min(later.max(free))
    }

    /// Returns the first instant, `from` or later, at which flow control allows a class to send; [`Time::NEVER`] if
    /// only a message can allow it.
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
}
