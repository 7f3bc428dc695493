//! Ports of the tester.

use std::collections::VecDeque;

use weir_switch_core::Packet;
use weir_units::{BitRate, Bytes, CLASSES, ClassSet, LINK_OVERHEAD, PortId, Span, Time};
use weir_wire::ethernet::{self, Headers, Parsed};
use weir_wire::mac_control::{ControlFrame, PfcFrame};

use super::link::{FarEnd, TesterFrame, TesterLink};
use super::{EventSchedule, VirtualEvent, station_address};
use crate::tester::{
    Amount, ControlStats, ControlStream, Gap, Marking, PfcReaction, StreamId, StreamStats, TestStream,
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
    stats: ControlStats,
    /// Pause of each class: its end, and the instant from which on streams obey it.
    pauses: [ClassPause; CLASSES],
}

#[derive(Clone, Copy, Debug, Default)]
struct ClassPause {
    obeyed_from: Time,
    until: Time,
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
    pub(super) stats: StreamStats,
    headers: Headers,
    /// Instant at which the next frame is due, and its number.
    due: Time,
    number: u64,
    /// Number that the next frame to arrive should have.
    expected: u64,
    last_arrival: Option<Time>,
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
            stats: StreamStats::default(),
            due: now,
            number: 0,
            expected: 0,
            last_arrival: None,
        }))
    }

    pub(super) fn control(stream: &ControlStream) -> StreamState {
        StreamState::Control(ControlState { stream: stream.clone(), is_stopped: false })
    }

    pub(super) fn clear(&mut self) {
        if let StreamState::Data(data) = self {
            data.stats = StreamStats::default();
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
        self.stats.sent += 1;
        frame
    }

    fn has_ended(&self) -> bool {
        matches!(self.stream.amount, Amount::Frames(frames) if self.number >= frames)
    }

    fn receive(&mut self, now: Time, port: usize, frame: &TesterFrame) {
        let StreamProgress { stats, .. } = self;
        if port != self.stream.to {
            stats.misdelivered += 1;
            return;
        }
        stats.received += 1;
        stats.received_wire_bytes += (Bytes::new(u64::from(frame.bytes)) + LINK_OVERHEAD).get();
        stats.ce += u64::from(frame.ce);
        stats.out_of_order += u64::from(frame.number < self.expected);
        self.expected = self.expected.max(frame.number + 1);
        stats.first.get_or_insert(now);
        stats.last = Some(now);
        if let Some(from) = self.last_arrival.replace(now) {
            let gap = Gap { from, to: now };
            stats.longest_gap = stats.longest_gap.filter(|longest| longest.length() >= gap.length()).or(Some(gap));
        }
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
            stats: ControlStats::default(),
            pauses: Default::default(),
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
    pub(super) fn set_link_up(&mut self, now: Time, up: bool) {
        self.link.is_up = up;
        if !up {
            self.pauses = [ClassPause { obeyed_from: now, until: now }; CLASSES];
        }
    }

    pub(super) fn clear(&mut self) {
        self.stats = ControlStats::default();
    }

    pub(super) fn reset(&mut self) {
        self.active.clear();
        self.control.clear();
        self.reaction = PfcReaction::Obey(Span::ZERO);
        self.clear();
    }

    pub(super) fn control_stats(&self, now: Time) -> ControlStats {
        let paused = weir_units::Class::ALL.into_iter().filter(|class| self.pauses[class.index()].until > now);
        ControlStats { paused: paused.collect(), ..self.stats }
    }

    /// Classes that streams do not send now.
    fn obeyed(&self, now: Time) -> ClassSet {
        let is_obeyed = |pause: &ClassPause| pause.obeyed_from <= now && now < pause.until;
        weir_units::Class::ALL.into_iter().filter(|class| is_obeyed(&self.pauses[class.index()])).collect()
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
            self.stats.forwarded += 1;
        }
        match frame.parsed {
            Parsed::Control(Ok(ControlFrame::Pfc(pfc))) => self.receive_pfc(now, &pfc),
            Parsed::Control(Ok(ControlFrame::Pause(_))) => self.stats.pause_frames += 1,
            _ => {}
        }
    }

    fn receive_pfc(&mut self, now: Time, pfc: &PfcFrame) {
        self.stats.pfc_frames += 1;
        for class in pfc.enabled.iter() {
            let n = class.index();
            self.stats.pfc[n] += 1;
            self.stats.last_pfc[n] = Some(now);
            let quanta = pfc.times[n];
            let pause = &mut self.pauses[n];
            if quanta == 0 {
                *pause = ClassPause { obeyed_from: now, until: now };
                continue;
            }
            self.stats.xoff[n] += 1;
            self.stats.first_xoff[n].get_or_insert(now);
            if pause.until <= now {
                pause.obeyed_from = match self.reaction {
                    PfcReaction::Obey(delay) => now + delay,
                    PfcReaction::Ignore => Time::NEVER,
                };
            }
            pause.until = now + self.rate.time_for(Bytes::new(64 * u64::from(quanta)));
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
                let pause = self.pauses[data.stream.class.index()];
                let is_paused = pause.obeyed_from <= at && at < pause.until && self.reaction != PfcReaction::Ignore;
                Some(if is_paused { pause.until } else { at })
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
        let paused = if self.reaction == PfcReaction::Ignore { ClassSet::EMPTY } else { self.obeyed(now) };
        let mut first: Option<(Time, StreamId)> = None;
        for id in &self.active {
            let StreamState::Data(data) = &mut streams[id.0] else { continue };
            if data.due > now {
                continue;
            }
            if paused.contains(data.stream.class) {
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
