//! Streams of data and control frames: the instants of their frames, and statistics.

use weir_units::{Bytes, LINK_OVERHEAD, Time};

use super::frame::{Label, ReceivedLabel, StreamHeaders};
use crate::arrivals::StreamArrivals;
use crate::tester::{Amount, ControlStream, TestStream};

/// Stream of either kind.
#[derive(Debug)]
pub(super) enum WireStreamState {
    Data(Box<WireDataStream>),
    Control(WireControlStream),
}

/// Stream of data frames.
#[derive(Debug)]
pub(super) struct WireDataStream {
    pub(super) stream: TestStream,
    pub(super) arrivals: StreamArrivals,
    headers: StreamHeaders,
    label: u32,
    pub(super) due: Time,
    pub(super) is_stopped: bool,
    /// Whether its class was paused, or its link down, when the next frame was due: that time is not made up.
    pub(super) is_held: bool,
    number: u64,
}

/// Stream of control frames.
#[derive(Debug)]
pub(super) struct WireControlStream {
    pub(super) stream: ControlStream,
    pub(super) due: Time,
    pub(super) is_stopped: bool,
    pub(super) sent: u64,
}

impl WireDataStream {
    pub(super) fn new(stream: &TestStream, headers: StreamHeaders, label: u32, now: Time) -> WireDataStream {
        WireDataStream {
            stream: stream.clone(),
            arrivals: StreamArrivals::default(),
            headers,
            label,
            due: now,
            is_stopped: false,
            is_held: false,
            number: 0,
        }
    }

    /// Whether a frame is to be sent at `now`, by a port that may send or not.
    pub(super) fn is_due(&mut self, now: Time, may_send: bool) -> bool {
        if self.is_stopped || self.due > now {
            return false;
        }
        if !may_send {
            self.is_held = true;
            return false;
        }
        if self.is_held {
            (self.due, self.is_held) = (now, false);
        }
        true
    }

    /// Writes the next frame.
    pub(super) fn write(&self, frame: &mut Vec<u8>) {
        let label = Label { stream: self.label, number: self.number as u32 };
        self.headers.write(label, self.stream.lengths.length_at(self.number), frame);
    }

    /// Records that the next frame was sent, of this length without FCS.
    pub(super) fn on_sent(&mut self, frame_bytes: usize) {
        self.due += self.stream.rate.time_for(wire_bytes(frame_bytes));
        self.number += 1;
        self.arrivals.stats.sent += 1;
        self.is_stopped = matches!(self.stream.amount, Amount::Frames(frames) if self.number >= frames);
    }

    pub(super) fn on_received(&mut self, now: Time, port: usize, frame: &ReceivedLabel, frame_bytes: usize) {
        if port != self.stream.to {
            self.arrivals.stats.misdelivered += 1;
            return;
        }
        let number = u64::from(frame.label.number);
        self.arrivals.on_arrival(now, number, wire_bytes(frame_bytes).get(), frame.ce);
    }
}

impl WireControlStream {
    /// Records that the frame was sent at `now`. A late frame does not bring the next one forward.
    pub(super) fn on_sent(&mut self, now: Time) {
        self.sent += 1;
        match self.stream.period {
            Some(period) => self.due = (self.due + period).max(now),
            None => self.is_stopped = true,
        }
    }
}

fn wire_bytes(frame_bytes: usize) -> Bytes {
    Bytes::new(frame_bytes as u64) + LINK_OVERHEAD
}
