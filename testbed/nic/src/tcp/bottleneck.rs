//! Flows through one queue, for tests: drop-tail or marked above a threshold, with a fixed delay each way.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use weir_units::{BitRate, Bytes, Span, Time};

use super::{Ack, Segment, TcpConfig, TcpReceiver, TcpSender};

/// Bottleneck link and its queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub rate: BitRate,
    /// Round-trip delay without queueing.
    pub rtt: Span,
    /// Capacity of the queue in segments.
    pub room: usize,
    /// Queue length in segments from which arriving segments are CE-marked.
    pub mark_at: usize,
    /// Number of new segments of which the last is lost, at any queue length.
    pub lose_each: u64,
}

/// Flows, the queue, and the segments and acknowledgements in flight.
pub(super) struct Bottleneck {
    pub now: Time,
    pub senders: Vec<TcpSender>,
    pub receivers: Vec<TcpReceiver>,
    path: Path,
    /// Queued segments; the first is being sent.
    queue: VecDeque<(usize, Segment, bool)>,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    /// Data and acknowledgements between the ends, by number.
    in_flight: VecDeque<(usize, InFlight)>,
    first: u64,
    order: u64,
    /// Instants of the scheduled wake-ups of each flow's sender and receiver, so that none is scheduled twice.
    wake_ups: Vec<[Time; 2]>,
    new_segments: u64,
    pub drops: u64,
    /// The queue's lengths, in segments, at each arrival since [`Bottleneck::measure`].
    pub lengths: Vec<usize>,
    received_before: Vec<u64>,
    since: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The wire has sent the segment in front.
    Sent,
    /// A segment or acknowledgement, by number, arrives at the other end.
    Arrives(u64),
    /// The timer of a flow's sender (0) or receiver (1) expires.
    Wake(usize, usize),
}

#[derive(Clone, Copy, Debug)]
enum InFlight {
    Data(Segment, bool),
    Ack(Ack),
}

/// Overhead of a frame on the wire in bytes: headers, FCS, preamble and gap.
const HEADERS: u64 = 90;

impl Bottleneck {
    pub(super) fn new(path: Path, flows: &[TcpConfig]) -> Bottleneck {
        Bottleneck {
            now: Time::ZERO,
            senders: flows.iter().map(TcpSender::new).collect(),
            receivers: flows.iter().map(TcpReceiver::new).collect(),
            path,
            queue: VecDeque::new(),
            events: BinaryHeap::new(),
            in_flight: VecDeque::new(),
            first: 0,
            order: 0,
            wake_ups: vec![[Time::NEVER; 2]; flows.len()],
            new_segments: 0,
            drops: 0,
            lengths: Vec::new(),
            received_before: vec![0; flows.len()],
            since: Time::ZERO,
        }
    }

    /// Gives a flow unlimited data from now on.
    pub(super) fn start(&mut self, flow: usize) {
        self.write(flow, 1 << 40);
    }

    pub(super) fn write(&mut self, flow: usize, bytes: u64) {
        self.senders[flow].write(bytes);
        self.serve(flow);
    }

    pub(super) fn run_for(&mut self, span: Span) {
        let until = self.now + span;
        while let Some(Reverse((at, _, event))) = self.events.peek().copied()
            && at <= until
        {
            self.events.pop();
            self.now = at;
            self.handle_event(event);
        }
        self.now = until;
    }

    /// Starts the measurement of goodput and queue lengths.
    pub(super) fn measure(&mut self) {
        self.since = self.now;
        self.received_before = self.receivers.iter().map(TcpReceiver::received).collect();
        self.lengths.clear();
    }

    /// Returns each flow's share of the link capacity since [`Bottleneck::measure`].
    pub(super) fn shares(&self, mss: u32) -> Vec<f64> {
        let frames = self.now.since(self.since).as_picos() as f64 / self.service(mss).as_picos() as f64;
        let received = self.receivers.iter().map(TcpReceiver::received).zip(&self.received_before);
        received.map(|(after, before)| (after - before) as f64 / f64::from(mss) / frames).collect()
    }

    fn service(&self, len: u32) -> Span {
        self.path.rate.time_for(Bytes::new(u64::from(len) + HEADERS))
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Sent => {
                let (flow, segment, is_ce) = self.queue.pop_front().unwrap();
                self.carry(flow, InFlight::Data(segment, is_ce));
                self.begin();
            }
            Event::Arrives(number) => {
                assert_eq!(number, self.first, "delays are fixed");
                self.first += 1;
                let (flow, carried) = self.in_flight.pop_front().unwrap();
                match carried {
                    InFlight::Ack(ack) => self.senders[flow].handle_ack(self.now, &ack),
                    InFlight::Data(segment, is_ce) => {
                        if let Some(ack) = self.receivers[flow].handle_segment(self.now, &segment, is_ce) {
                            self.carry(flow, InFlight::Ack(ack));
                        }
                    }
                }
                self.serve(flow);
            }
            Event::Wake(flow, end) => {
                self.wake_ups[flow][end] = Time::NEVER;
                self.senders[flow].handle_timeout(self.now);
                self.serve(flow);
            }
        }
    }

    /// Sends a segment or acknowledgement to the other end: half of the round trip each way.
    fn carry(&mut self, flow: usize, carried: InFlight) {
        let number = self.first + self.in_flight.len() as u64;
        self.in_flight.push_back((flow, carried));
        self.schedule(self.now + self.path.rtt.divided_by(2), Event::Arrives(number));
    }

    fn serve(&mut self, flow: usize) {
        while let Some(ack) = self.receivers[flow].poll_ack(self.now) {
            self.carry(flow, InFlight::Ack(ack));
        }
        while let Some(segment) = self.senders[flow].poll_segment(self.now) {
            self.enqueue(flow, segment);
        }
        let due = [self.senders[flow].next_timeout(), self.receivers[flow].next_timeout()];
        for (end, at) in due.into_iter().enumerate() {
            // A postponed timer is checked at its earlier instant.
            if at < self.wake_ups[flow][end] {
                self.wake_ups[flow][end] = at;
                self.schedule(at, Event::Wake(flow, end));
            }
        }
    }

    fn enqueue(&mut self, flow: usize, segment: Segment) {
        let length = self.queue.len();
        self.lengths.push(length);
        self.new_segments += u64::from(!segment.is_retransmission);
        let is_lost = !segment.is_retransmission && self.new_segments.is_multiple_of(self.path.lose_each);
        if is_lost || length >= self.path.room {
            self.drops += 1;
            return;
        }
        self.queue.push_back((flow, segment, segment.ect && length >= self.path.mark_at));
        if length == 0 {
            self.begin();
        }
    }

    fn begin(&mut self) {
        if let Some((_, segment, _)) = self.queue.front() {
            let sent = self.now + self.service(u32::from(segment.len));
            self.schedule(sent, Event::Sent);
        }
    }

    fn schedule(&mut self, at: Time, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, event)));
    }
}
