//! Received frames: flow control is obeyed; data and acknowledgements go to their connection's end.

use weir_flowctl::wire_bytes;
use weir_units::{Bytes, Class, Time};
use weir_wire::ethernet::{self, Parsed};
use weir_wire::mac_control::ControlFrame;
use weir_wire::rocev2::{Ecn, Packet};

use super::packet::{NicFrame, NicPacket, PacketKind};
use super::stats::{Completion, NicCounters};
use super::{Endpoint, Host, codec};

/// Largest number of completions kept until they are drained; further ones are only counted.
const COMPLETIONS_MAX: usize = 16_384;

impl Host {
    /// Handles the bytes of a frame (without FCS) that has arrived at `now`.
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

    /// Handles a frame that has arrived at `now`, and takes its telemetry. The rest may be discarded.
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
        self.arrived.handle_account(frame, |_| 0);
        match frame {
            ControlFrame::Pfc(pfc) => {
                self.counters.pfc_frames += 1;
                pfc.paused().iter().for_each(|class| self.classes[class.index()].xoff_frames += 1);
                pfc.resumed().iter().for_each(|class| self.classes[class.index()].xon_frames += 1);
            }
            ControlFrame::Credit(_) | ControlFrame::Queue(_) | ControlFrame::Update(_) => {
                self.counters.credit_frames += 1
            }
            ControlFrame::Raw(_) => self.counters.own_frames += 1,
            ControlFrame::Pause(_) => {}
        }
    }

    /// Sets the link up or down at `now`: flow control restarts, as the switch's does. A frame sent while the link is
    /// down is lost.
    pub fn set_link_up(&mut self, now: Time, is_up: bool) {
        if !is_up {
            self.regulator.reset(now);
            self.arrived.reset();
            self.limits.follow(now, &self.regulator);
        }
        self.generator.restart(if is_up { now } else { Time::NEVER });
    }

    /// Counts a frame in its sender's class.
    #[inline]
    fn count_arrival(&self, dscp: Option<u8>, frame_bytes: u32) {
        // A frame without IP has no code point, and is in no lossless class.
        if self.arrived.is_counted()
            && let Some(dscp) = dscp
        {
            let class = Class::new(self.config.queue_of_dscp[usize::from(dscp)]);
            self.arrived.count(class, self.arrived.count_of(frame_bytes));
        }
    }

    fn handle_packet(&mut self, now: Time, packet: &mut NicPacket) {
        if let Some(buffer) = &mut self.receive_buffer
            && matches!(packet.kind, PacketKind::Write(_) | PacketKind::Segment(_))
        {
            let class = Class::new(self.config.queue_of_dscp[usize::from(packet.dscp.get())]);
            let frame_bytes = u32::from(packet.frame_bytes);
            let wire = wire_bytes(frame_bytes, self.config.link_overhead);
            if !buffer.take(now, class, self.arrived.stored(frame_bytes), wire) {
                self.counters.receive_overflow += 1;
                self.classes[class.index()].receive_overflow += 1;
                return;
            }
            let most = &mut self.classes[class.index()].receive_buffer_max;
            *most = buffer.held(class).max(*most);
        }
        match (self.endpoint(packet.queue_pair), &packet.kind) {
            (Some(Endpoint::Receiver(receiver)), PacketKind::Write(write)) => {
                let state = &mut self.receivers[receiver];
                let was_pending = state.has_pending_ack();
                let is_marked = packet.ecn == Ecn::Ce;
                let depth = state.handle_write(now, write, is_marked);
                if depth > 0 {
                    self.reordering.record(depth);
                }
                if is_marked && state.handle_marked(now) {
                    self.cnps_due.push_back(receiver);
                }
                if !state.config().acks_every_packet {
                    if state.has_pending_ack() && !was_pending {
                        self.acks_due.push_back((receiver, None));
                    }
                } else if let Some(ack) = state.take_ack() {
                    state.queued += 1;
                    self.acks_due.push_back((receiver, Some((ack, packet.telemetry.take()))));
                }
                if self.programs.is_some() {
                    self.handle_program_receives(now, receiver);
                }
            }
            (Some(Endpoint::Sender(flow)), PacketKind::Ack(ack)) => {
                let hops = packet.telemetry.as_ref().map_or(&[][..], |hops| hops);
                let before = self.completions.len();
                let done = completed(&mut self.completions, &mut self.counters, now, flow);
                self.senders[flow].handle_ack(now, ack, hops, done);
                self.spare_hops.extend(packet.telemetry.take());
                self.give_turn(now, flow);
                if self.programs.is_some() {
                    self.handle_program_acks(now, flow, self.completions.len() - before);
                }
            }
            (Some(Endpoint::Sender(flow)), PacketKind::Cnp) => self.senders[flow].handle_cnp(now),
            (Some(Endpoint::Receiver(receiver)), PacketKind::Segment(segment)) => {
                let generation = self.receivers.generation(receiver);
                let state = &mut self.receivers[receiver];
                let (class, _) = state.ack_point(&self.config);
                let answer = |ack| self.tcp_acks.push(class, receiver, ack);
                state.handle_segment(now, segment, packet.ecn == Ecn::Ce, answer);
                if let Some(at) = state.watch() {
                    self.tcp_acks.wake(at, receiver, generation);
                }
                if self.config.queues_tcp {
                    self.queue_tcp_acks(now);
                }
            }
            (Some(Endpoint::Sender(flow)), PacketKind::TcpAck(ack)) => {
                let done = completed(&mut self.completions, &mut self.counters, now, flow);
                self.senders[flow].handle_tcp_ack(now, ack, done);
                self.watch(flow);
                self.give_turn(now, flow);
            }
            _ => self.counters.unknown_queue_pair += 1,
        }
    }
}

/// Returns the callback that records messages of a flow completed at `now`.
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
