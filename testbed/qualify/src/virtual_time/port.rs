//! Ports of the tester.

use std::collections::VecDeque;

use weir_switch_core::Packet;
use weir_units::{BitRate, Bytes, LINK_OVERHEAD, PortId, Span, Time};
use weir_wire::ethernet::{self, Headers, Parsed};
use weir_wire::mac_control::ControlFrame;

use super::link::{FarEnd, TesterFrame, TesterLink};
use super::{EventSchedule, VirtualEvent};
use crate::arrivals::{ControlArrivals, StreamArrivals};
use crate::tester::{
    Amount, ControlStats, ControlStream, Marking, PfcReaction, StreamId, StreamStats, TestStream, station_address,
};

/// Port of the tester, at one port of a switch.
#[derive(Debug)]
pub(super) struct VirtualPort {
    pub(super) switch: usize,
    pub(super) switch_port: PortId,
    pub(super) rate: BitRate,
    pub(super) reaction: PfcReaction,
    link: TesterLink,
    control: VecDeque<TesterFrame>,
    /// Streams of data under way.
    active: Vec<StreamId>,
    /// Instant of the next [`VirtualEvent::Send`]; others are stale.
    sends_at: Time,
    arrivals: ControlArrivals,
}

/// Stream of data or control frames.
#[derive(Debug)]
pub(super) enum StreamState {
    Data(Box<StreamProgress>),
    Control(ControlState),
}

#[derive(Debug)]
pub(super) struct StreamProgress {
    pub(super) stream: TestStream,
    pub(super) arrivals: StreamArrivals,
    headers: Headers,
    /// Instant at which the next frame is due, and its number.
    due: Time,
    number: u64,
}

#[derive(Debug)]
pub(super) struct ControlState {
    pub(super) stream: ControlStream,
    pub(super) is_stopped: bool,
}

impl StreamState {
    pub(super) fn data(stream: &TestStream, now: Time) -> StreamState {
        let (pcp, dscp) = match stream.marking {
            Marking::Dscp(dscp) => (None, Some(dscp)),
            Marking::Pcp(pcp) => (Some(pcp), Some(0)),
        };
        StreamState::Data(Box::new(StreamProgress {
            headers: Headers { destination: station_address(stream.to), pcp, dscp },
            stream: stream.clone(),
            arrivals: StreamArrivals::default(),
            due: now,
            number: 0,
        }))
    }

    pub(super) fn control(stream: &ControlStream) -> StreamState {
        StreamState::Control(ControlState { stream: stream.clone(), is_stopped: false })
    }

    pub(super) fn clear(&mut self) {
        if let StreamState::Data(data) = self {
            data.arrivals.stats = StreamStats::default();
        }
    }

    pub(super) fn stop(&mut self) {
        if let StreamState::Control(control) = self {
            control.is_stopped = true;
        }
    }
}

impl ControlState {
    pub(super) fn frame(&self) -> TesterFrame {
        let bytes = &self.stream.frame;
        let source = bytes.get(..12).map_or_else(Default::default, ethernet::source);
        let parsed = ethernet::parse(bytes);
        TesterFrame { bytes: bytes.len() as u32, parsed, source, stream: usize::MAX, number: 0, ect: false, ce: false }
    }
}

impl StreamProgress {
    fn frame(&mut self, from: usize, stream: StreamId) -> TesterFrame {
        let bytes = self.stream.lengths.length_at(self.number) - weir_units::FCS_BYTES as u32;
        let spacing = self.stream.rate.time_for(Bytes::new(u64::from(bytes)) + LINK_OVERHEAD);
        let frame = TesterFrame {
            bytes,
            parsed: Parsed::Data(self.headers),
            source: station_address(from),
            stream: stream.0,
            number: self.number,
            ect: self.stream.ect,
            ce: false,
        };
        self.due += spacing;
        self.number += 1;
        self.arrivals.stats.sent += 1;
        frame
    }

    fn has_ended(&self) -> bool {
        matches!(self.stream.amount, Amount::Frames(frames) if self.number >= frames)
    }

    fn receive(&mut self, now: Time, port: usize, frame: &TesterFrame) {
        if port != self.stream.to {
            self.arrivals.stats.misdelivered += 1;
            return;
        }
        let wire_bytes = Bytes::new(u64::from(frame.bytes)) + LINK_OVERHEAD;
        self.arrivals.on_arrival(now, frame.number, wire_bytes.get(), frame.ce);
    }
}

impl VirtualPort {
    pub(super) fn new(switch: usize, switch_port: PortId, rate: Option<BitRate>, delay: Span) -> VirtualPort {
        let rate = rate.unwrap_or(BitRate::gbps(10));
        VirtualPort {
            switch,
            switch_port,
            rate,
            reaction: PfcReaction::Obey(Span::ZERO),
            link: TesterLink::new(FarEnd::Switch(switch, switch_port), rate, delay),
            control: VecDeque::new(),
            active: Vec::new(),
            sends_at: Time::NEVER,
            arrivals: ControlArrivals::default(),
        }
    }

    pub(super) fn add(&mut self, stream: StreamId) {
        self.active.push(stream);
    }

    pub(super) fn remove(&mut self, stream: StreamId) {
        self.active.retain(|active| *active != stream);
    }

    pub(super) fn queue_control(&mut self, frame: TesterFrame) {
        self.control.push_back(frame);
    }

    pub(super) fn is_up(&self) -> bool {
        self.link.is_up
    }

    /// A link that goes down ends the device's pauses.
    pub(super) fn set_link_up(&mut self, up: bool) {
        self.link.is_up = up;
        if !up {
            self.arrivals.end_pauses();
        }
    }

    pub(super) fn clear(&mut self) {
        self.arrivals.stats = ControlStats::default();
    }

    pub(super) fn reset(&mut self) {
        self.active.clear();
        self.control.clear();
        self.reaction = PfcReaction::Obey(Span::ZERO);
        self.clear();
    }

    pub(super) fn control_stats(&self, now: Time) -> ControlStats {
        self.arrivals.stats_at(now)
    }

    pub(super) fn receive(&mut self, now: Time, port: usize, frame: &TesterFrame, streams: &mut [StreamState]) {
        if !frame.is_control() {
            if let Some(StreamState::Data(data)) = streams.get_mut(frame.stream) {
                data.receive(now, port, frame);
            }
            return;
        }
        // Frames of the device itself have no stream, as those of the tester have.
        if frame.number != TesterFrame::OF_DEVICE {
            self.arrivals.stats.forwarded += 1;
        }
        match frame.parsed {
            Parsed::Control(Ok(ControlFrame::Pfc(pfc))) => {
                let pause = |quanta| self.rate.time_for(Bytes::new(64 * u64::from(quanta)));
                self.arrivals.on_pfc(now, self.reaction, &pfc, pause);
            }
            Parsed::Control(Ok(ControlFrame::Pause(_))) => self.arrivals.stats.pause_frames += 1,
            _ => {}
        }
    }

    pub(super) fn is_scheduled_for(&self, now: Time) -> bool {
        self.sends_at == now
    }

    /// Schedules the port's next sending, unless one is due earlier.
    pub(super) fn schedule(&mut self, now: Time, port: usize, streams: &[StreamState], events: &mut EventSchedule) {
        let at = self.next_send(now, streams);
        if at < Time::NEVER && (self.sends_at < now || at < self.sends_at || self.sends_at == Time::NEVER) {
            self.sends_at = at;
            events.schedule(at, VirtualEvent::Send(port));
        }
    }

    fn next_send(&self, now: Time, streams: &[StreamState]) -> Time {
        let free_at = self.link.free_at().max(now);
        if !self.control.is_empty() {
            return free_at;
        }
        let ready = self.active.iter().filter_map(|id| match &streams[id.0] {
            StreamState::Data(data) => {
                let at = data.due.max(free_at);
                let class = data.stream.class;
                let is_stopped = self.arrivals.stops(class, at, self.reaction);
                Some(if is_stopped { self.arrivals.paused_until(class) } else { at })
            }
            StreamState::Control(_) => None,
        });
        ready.min().unwrap_or(Time::NEVER)
    }

    pub(super) fn send(&mut self, now: Time, port: usize, streams: &mut [StreamState], events: &mut EventSchedule) {
        self.sends_at = Time::NEVER;
        if self.link.free_at() <= now {
            let frame = self.control.pop_front().or_else(|| self.next_frame(now, port, streams));
            if let Some(frame) = frame {
                self.link.send(now, frame, events);
            }
        }
        self.schedule(now, port, streams, events);
    }

    /// Returns the data frame that has been due for longest, of a class that is not paused. A paused stream makes up nothing.
    fn next_frame(&mut self, now: Time, port: usize, streams: &mut [StreamState]) -> Option<TesterFrame> {
        let mut first: Option<(Time, StreamId)> = None;
        for id in &self.active {
            let StreamState::Data(data) = &mut streams[id.0] else { continue };
            if data.due > now {
                continue;
            }
            if self.arrivals.stops(data.stream.class, now, self.reaction) {
                data.due = now;
            } else if first.is_none_or(|(due, _)| data.due < due) {
                first = Some((data.due, *id));
            }
        }
        let (_, id) = first?;
        let StreamState::Data(data) = &mut streams[id.0] else { return None };
        let frame = data.frame(port, id);
        if data.has_ended() {
            self.remove(id);
        }
        Some(frame)
    }
}
