//! Streams on ports, poll by poll.

use std::fmt;

use weir_flowctl::Quantum;
use weir_units::{BitRate, Class, MacAddr, Span, Time};
use weir_wire::mac_control::ControlFrame;

use super::frame::{self, StreamHeaders};
use super::stream::{WireControlStream, WireDataStream, WireStreamState};
use crate::arrivals::ControlArrivals;
use crate::tester::{ControlStats, ControlStream, PfcReaction, StreamId, StreamStats, TestStream};
use crate::{Disturbance, TestFailure};

/// Port of a tester: sends and receives frames, from the destination address on, without FCS.
pub trait WirePort: Send {
    /// Hands a frame over; false if there is no room now.
    fn send(&mut self, frame: &[u8]) -> bool;

    /// Calls `each` with the frames that have arrived.
    fn receive(&mut self, each: &mut dyn FnMut(&[u8]));

    /// Returns the frames that the port has lost so far, both ways.
    fn lost(&mut self) -> u64;

    /// Returns true if frames shorter than 60 bytes arrive as they were sent.
    fn sends_short_frames(&self) -> bool;

    /// Takes the link down, or up.
    ///
    /// # Errors
    /// If the port has no power over it.
    fn set_link_up(&mut self, up: bool) -> Result<(), TestFailure>;
}

/// Setting of a port.
#[derive(Clone, Debug)]
pub struct PortSetting {
    /// Name of the port, for messages.
    pub name: String,
    /// Speed of the link, which quanta are of.
    pub rate: BitRate,
    /// Address of the station behind the port.
    pub station: MacAddr,
}

/// Ports of a tester and streams.
pub struct StreamPorts {
    ports: Vec<StreamPort>,
    streams: Vec<WireStreamState>,
    /// Label of the first stream: labels are not used twice.
    first_label: u32,
    polled_at: Option<Time>,
    /// Longest delay of a frame or poll since the last reset.
    late: Span,
    /// All delays of polls together.
    late_total: Span,
    frame: Vec<u8>,
}

struct StreamPort {
    setting: PortSetting,
    port: Box<dyn WirePort>,
    reaction: PfcReaction,
    arrivals: ControlArrivals,
    is_up: bool,
    /// Losses before the last reset, or that a link that was taken down explains.
    lost: u64,
}

impl StreamPorts {
    /// Creates a set of these ports, without streams.
    pub fn new(ports: Vec<(PortSetting, Box<dyn WirePort>)>) -> StreamPorts {
        let ports = ports.into_iter().map(|(setting, mut port)| StreamPort {
            lost: port.lost(),
            setting,
            port,
            reaction: PfcReaction::Obey(Span::ZERO),
            arrivals: ControlArrivals::default(),
            is_up: true,
        });
        StreamPorts {
            ports: ports.collect(),
            streams: Vec::new(),
            first_label: 0,
            polled_at: None,
            late: Span::ZERO,
            late_total: Span::ZERO,
            frame: Vec::new(),
        }
    }

    /// Receives arrived frames, and sends frames that are due. Returns true if a frame moved.
    pub fn poll(&mut self, clock: &dyn Fn() -> Time) -> bool {
        let now = clock();
        if let Some(before) = self.polled_at.replace(now) {
            let gap = now.since(before);
            self.late = self.late.max(gap);
            if gap >= LATE_FROM {
                self.late_total += gap;
            }
        }
        let mut moved = false;
        for port in 0..self.ports.len() {
            moved |= self.receive(port, clock);
        }
        moved | self.send(clock)
    }

    fn receive(&mut self, number: usize, clock: &dyn Fn() -> Time) -> bool {
        let StreamPorts { ports, streams, first_label, .. } = self;
        let stations: Vec<MacAddr> = ports.iter().map(|port| port.setting.station).collect();
        let StreamPort { port, arrivals, reaction, setting, .. } = &mut ports[number];
        let quantum = Quantum::for_rate(setting.rate);
        let mut moved = false;
        port.receive(&mut |bytes| {
            let now = clock();
            moved = true;
            if let Some(found) = frame::read(bytes) {
                let index = found.label.stream.wrapping_sub(*first_label) as usize;
                if let Some(WireStreamState::Data(data)) = streams.get_mut(index) {
                    data.on_received(now, number, &found, bytes.len());
                }
            } else if ControlFrame::is_control(bytes) {
                if frame::source(bytes).is_some_and(|source| stations.contains(&source)) {
                    arrivals.stats.forwarded += 1;
                    return;
                }
                match ControlFrame::decode(bytes) {
                    Ok(ControlFrame::Pfc(pfc)) => arrivals.on_pfc(now, *reaction, &pfc, |quanta| quantum.times(quanta)),
                    Ok(ControlFrame::Pause(_)) => arrivals.stats.pause_frames += 1,
                    _ => {}
                }
            }
        });
        moved
    }

    fn send(&mut self, clock: &dyn Fn() -> Time) -> bool {
        let mut moved = false;
        for index in 0..self.streams.len() {
            for _ in 0..FRAMES_A_POLL {
                if !self.send_one(index, clock()) {
                    break;
                }
                moved = true;
            }
        }
        moved
    }

    /// Sends a frame of a stream, if one is due. Returns true if it was sent.
    fn send_one(&mut self, index: usize, now: Time) -> bool {
        let StreamPorts { ports, streams, frame, late, .. } = self;
        match &mut streams[index] {
            WireStreamState::Control(control) => {
                let StreamPort { port, is_up, .. } = &mut ports[control.stream.from];
                if control.is_stopped || control.due > now || !*is_up || !port.send(&control.stream.frame) {
                    return false;
                }
                *late = (*late).max(now.since(control.due));
                control.on_sent(now);
            }
            WireStreamState::Data(data) => {
                let port = &mut ports[data.stream.from];
                if !data.is_due(now, port.may_send(data.stream.class, now)) {
                    return false;
                }
                *late = (*late).max(now.since(data.due));
                data.write(frame);
                if !port.port.send(frame) {
                    return false;
                }
                data.on_sent(frame.len());
            }
        }
        true
    }

    /// Instant of the next frame to send. A paused stream has the end of its pause, and one whose link is down has none.
    pub(super) fn next_due(&self) -> Time {
        let due = self.streams.iter().map(|stream| match stream {
            WireStreamState::Data(data) if !data.is_stopped && self.ports[data.stream.from].is_up => {
                let resumed = self.ports[data.stream.from].arrivals.paused_until(data.stream.class);
                if data.is_held { data.due.max(resumed) } else { data.due }
            }
            WireStreamState::Control(control) if !control.is_stopped && self.ports[control.stream.from].is_up => {
                control.due
            }
            _ => Time::NEVER,
        });
        due.min().unwrap_or(Time::NEVER)
    }

    pub(super) fn start(&mut self, stream: &TestStream, now: Time) -> StreamId {
        let headers = StreamHeaders {
            source: self.ports[stream.from].setting.station,
            destination: self.ports[stream.to].setting.station,
            marking: stream.marking,
            ect: stream.ect,
        };
        let label = self.first_label.wrapping_add(self.streams.len() as u32);
        self.add(WireStreamState::Data(Box::new(WireDataStream::new(stream, headers, label, now))))
    }

    pub(super) fn send_control(&mut self, control: &ControlStream, now: Time) -> Result<StreamId, TestFailure> {
        let port = &self.ports[control.from];
        if control.frame.len() < FRAME_BYTES_MIN && !port.port.sends_short_frames() {
            let message = format!("{}: the device pads frames that are shorter than 60 B", port.setting.name);
            return Err(TestFailure::impossible(message));
        }
        let state = WireControlStream { stream: control.clone(), due: now, is_stopped: false, sent: 0 };
        Ok(self.add(WireStreamState::Control(state)))
    }

    fn add(&mut self, stream: WireStreamState) -> StreamId {
        self.streams.push(stream);
        StreamId(self.streams.len() - 1)
    }

    pub(super) fn stop(&mut self, id: StreamId) {
        match &mut self.streams[id.0] {
            WireStreamState::Data(data) => data.is_stopped = true,
            WireStreamState::Control(control) => control.is_stopped = true,
        }
    }

    pub(super) fn stats(&self, id: StreamId) -> StreamStats {
        match &self.streams[id.0] {
            WireStreamState::Data(data) => data.arrivals.stats,
            WireStreamState::Control(control) => StreamStats { sent: control.sent, ..StreamStats::default() },
        }
    }

    pub(super) fn control_stats(&self, port: usize, now: Time) -> ControlStats {
        self.ports[port].arrivals.stats_at(now)
    }

    pub(super) fn clear_stats(&mut self) {
        for stream in &mut self.streams {
            match stream {
                WireStreamState::Data(data) => data.arrivals.stats = StreamStats::default(),
                WireStreamState::Control(control) => control.sent = 0,
            }
        }
        for port in &mut self.ports {
            port.arrivals.stats = ControlStats::default();
        }
    }

    pub(super) fn set_pfc_reaction(&mut self, port: usize, reaction: PfcReaction) {
        self.ports[port].reaction = reaction;
    }

    /// A link that goes down ends the device's pauses.
    pub(super) fn set_link_up(&mut self, number: usize, up: bool) -> Result<(), TestFailure> {
        let port = &mut self.ports[number];
        if up == port.is_up {
            return Ok(());
        }
        port.port.set_link_up(up)?;
        port.is_up = up;
        port.arrivals.end_pauses();
        port.lost = port.port.lost();
        Ok(())
    }

    /// Stops all streams and forgets them.
    pub(super) fn reset(&mut self) -> Result<(), TestFailure> {
        self.first_label = self.first_label.wrapping_add(self.streams.len() as u32);
        self.streams.clear();
        self.clear_stats();
        (self.late, self.late_total) = (Span::ZERO, Span::ZERO);
        for number in 0..self.ports.len() {
            self.set_link_up(number, true)?;
            let port = &mut self.ports[number];
            port.reaction = PfcReaction::Obey(Span::ZERO);
            port.lost = port.port.lost();
        }
        Ok(())
    }

    /// Returns lateness of the tester, and losses of its ports, since the last reset.
    pub(super) fn disturbance(&mut self) -> Disturbance {
        let lost = self.ports.iter_mut().filter(|port| port.is_up).filter_map(|port| {
            let frames = port.port.lost().saturating_sub(port.lost);
            (frames > 0).then(|| format!("the tester's port {} lost {frames} frames", port.setting.name))
        });
        let losses = lost.collect();
        Disturbance { late: self.late, late_total: self.late_total, losses }
    }
}

impl StreamPort {
    fn may_send(&self, class: Class, now: Time) -> bool {
        self.is_up && !self.arrivals.stops(class, now, self.reaction)
    }
}

impl fmt::Debug for StreamPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.ports.iter().map(|port| port.setting.name.as_str()).collect();
        f.debug_struct("StreamPorts")
            .field("ports", &names)
            .field("streams", &self.streams.len())
            .finish_non_exhaustive()
    }
}

/// Poll gap that counts as a delay.
const LATE_FROM: Span = Span::from_millis(1);
/// Frames of a stream in one poll, so that other streams and arrivals are not late.
const FRAMES_A_POLL: usize = 32;
/// Least length of a frame, without FCS.
const FRAME_BYTES_MIN: usize = 60;
