//! Generator: a task on its own lcore that sends numbered frames at a rate and times those that return.
//!
//! The control thread gives the generator one [`TrialSpec`] at a time; the generator answers with [`TrialStats`].
//! Between trials it idles.
//!
//! A frame's payload has a magic, the trial's number, the frame's number and the time of its hand-over to the port. If the port
//! holds the frame back, as a full ring does, the time is the frame's due time: waiting for the port counts as latency.
//!
//! While the tester is off its CPU its schedule stands still, so that it makes up no more than a moment. Frames in flight
//! meanwhile are counted, but not timed.

use hdrhistogram::Histogram;
use rtrb::{Consumer, Producer, RingBuffer};
use weir_dpdk_driver::{Phase, Task};
use weir_dpdk_io::{Batch, Clock, MAX_BURST, Mbuf, Mempool, RingEnd, RxQueue, TxQueue};
use weir_units::{Span, SplitMix64, Time};
use weir_wire::mac_control::ControlFrame;

use crate::frames::{HEADER_BYTES, Station, headers};
use crate::latency::{histogram, record};
use crate::sequence::{Sequence, SequenceCounts};

/// Magic at the start of a payload; the trial's and the frame's number and the time in picoseconds follow.
const MAGIC: [u8; 4] = *b"WEIR";
const PAYLOAD_BYTES: usize = 4 + 2 + 4 + 8;
/// Length of the non-zero part of a frame: the shortest frame, without FCS.
pub(crate) const WRITTEN_BYTES: usize = HEADER_BYTES + PAYLOAD_BYTES;
/// UDP source port.
const SOURCE_PORT: u16 = 0xc000;
/// Number of received frames kept for sending again.
const KEPT: usize = 1_024;
/// Packet buffers that a tester may take: those kept, in hand, in its rings, and in a device's.
pub(crate) const MBUFS: u32 = 16_384;
/// Delay from the frames that announce both ends, by which the switch learns their addresses, to the first frame.
const SETTLE: Span = Span::from_millis(5);
/// Time after the last frame's due time within which the port may accept held-back frames.
const GRACE_PERIOD: Span = Span::from_millis(1);
/// Largest trial number: frames carry it in two bytes.
const TRIALS_MAX: u16 = u16::MAX;

/// Tester's end of a link.
pub(crate) enum TesterPort {
    /// Far end of a switch's ring port.
    Ring(RingEnd),
    /// Device cabled to a switch's port.
    Device(RxQueue, TxQueue),
    /// Memory shared with another process.
    Memif(RxQueue, TxQueue),
}

impl TesterPort {
    #[inline]
    pub(crate) fn receive(&mut self, batch: &mut Batch) -> usize {
        match self {
            TesterPort::Ring(ring) => ring.receive(batch, MAX_BURST),
            TesterPort::Device(rx, _) | TesterPort::Memif(rx, _) => rx.receive(batch, MAX_BURST),
        }
    }

    #[inline]
    pub(crate) fn send(&mut self, batch: &mut Batch) -> usize {
        match self {
            TesterPort::Ring(ring) => ring.send(batch),
            TesterPort::Device(_, tx) | TesterPort::Memif(_, tx) => tx.send(batch),
        }
    }

    /// Returns the gap between polls from which the tester counts as off its CPU; longer than a round of its own
    /// work.
    fn away_from(&self) -> Span {
        match self {
            TesterPort::Ring(_) => Span::from_micros(10),
            // Frames are copied, out of another CPU's cache.
            TesterPort::Memif(..) => Span::from_micros(50),
            // A burst takes system calls.
            TesterPort::Device(..) => Span::from_micros(500),
        }
    }
}

/// Two ends of the path under test: frames are sent at the first and received at the second.
pub(crate) type PortPair = [TesterPort; 2];

/// Frames to send in a trial, and their rate.
pub(crate) struct TrialSpec {
    /// Index of the port pair.
    pub(crate) port_pair: usize,
    /// Length of a frame, without FCS.
    pub(crate) length: u16,
    /// DSCP of the frames.
    pub(crate) dscp: u8,
    /// Number of frames.
    pub(crate) frames: u32,
    /// Interval between frames.
    pub(crate) interval: Interval,
    /// Time that the second end waits for frames after the last was sent.
    pub(crate) wait: Span,
    /// Time limit for sending.
    pub(crate) at_most: Span,
    /// Whether latencies are recorded.
    pub(crate) is_timed: bool,
}

/// Interval between frames.
#[derive(Clone, Copy)]
pub(crate) enum Interval {
    /// Constant interval, in 1/1024 of a picosecond.
    Even(u64),
    /// Random interval of 0.5 to 1.5 times this, so that frames meet a sleeping lcore at any phase.
    Uneven(Span),
}

impl Interval {
    /// Returns the interval for this rate in frames a second.
    pub(crate) fn of_rate(frames_per_second: f64) -> Interval {
        Interval::Even((1e12 * 1_024.0 / frames_per_second.max(1e-3)) as u64)
    }

    /// Interval of zero: frames are sent as fast as possible.
    pub(crate) const NONE: Interval = Interval::Even(0);
}

/// Result of a trial.
pub(crate) struct TrialStats {
    /// Frames that the port accepted.
    pub(crate) sent: u64,
    /// Frames that were due and that the port did not accept in time.
    pub(crate) refused: u64,
    /// Frames that the port accepted late, since it had no room at their due time.
    pub(crate) late: u64,
    /// Counts of received frames.
    pub(crate) sequence: SequenceCounts,
    /// Received frames of other senders or trials, at either end, floods included.
    pub(crate) foreign: u64,
    /// PAUSE and other MAC control frames received at the first end: the switch throttles the tester.
    pub(crate) control: u64,
    /// Time from the first frame's due time to the last frame sent, without the tester's time off its CPU.
    pub(crate) took: Span,
    /// Total time that the tester was off its CPU.
    pub(crate) away: Span,
    /// Frames not timed, since the tester was off its CPU while they were in flight.
    pub(crate) untimed: u64,
    /// Whether packet buffers ran out.
    pub(crate) no_buffers: bool,
    /// Latencies in nanoseconds, of frames that were timed.
    pub(crate) latencies: Histogram<u64>,
}

/// Control thread's side of the tester.
pub(crate) struct TesterHandle {
    specs: Producer<TrialSpec>,
    outcomes: Consumer<Box<TrialStats>>,
}

impl TesterHandle {
    /// Runs a trial. Returns `None` if one is queued already, or once `is_over` returns true.
    pub(crate) fn run_trial(&mut self, spec: TrialSpec, mut is_over: impl FnMut() -> bool) -> Option<TrialStats> {
        self.specs.push(spec).ok()?;
        loop {
            if let Ok(outcome) = self.outcomes.pop() {
                return Some(*outcome);
            }
            if is_over() {
                return None;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
    }
}

/// The generator.
pub(crate) struct Tester {
    port_pairs: Vec<PortPair>,
    pool: Mempool,
    specs: Consumer<TrialSpec>,
    outcomes: Producer<Box<TrialStats>>,
    trial: Option<Trial>,
    number: u16,
    kept: Vec<Mbuf>,
    unsent: Batch,
    received: Batch,
    sequence: Sequence,
    random: SplitMix64,
    last_poll: Time,
    /// Instant of the last check for received frames.
    last_look: Time,
}

/// Trial in progress.
struct Trial {
    spec: TrialSpec,
    template: [u8; WRITTEN_BYTES],
    start: Time,
    next: u32,
    /// Due time of the next frame after the start, in 1/1024 of a picosecond.
    next_due: u64,
    /// Whether the port rejected part of the last burst.
    is_held: bool,
    last_sent: Time,
    /// Instant at which the last frame was sent or given up; from then on the tester waits for frames in flight.
    ended: Option<Time>,
    /// Instant from which frames are timed; earlier ones are not.
    timed_from: Time,
    outcome: Box<TrialStats>,
}

impl Tester {
    /// Returns a tester with these port pairs, and the control thread's side.
    pub(crate) fn new(port_pairs: Vec<PortPair>, pool: Mempool) -> (Tester, TesterHandle) {
        let (give, specs) = RingBuffer::new(1);
        let (outcomes, take) = RingBuffer::new(1);
        let tester = Tester {
            port_pairs,
            pool,
            specs,
            outcomes,
            trial: None,
            number: 0,
            kept: Vec::with_capacity(KEPT),
            unsent: Batch::new(),
            received: Batch::new(),
            sequence: Sequence::default(),
            random: SplitMix64::new(1),
            last_poll: Time::ZERO,
            last_look: Time::ZERO,
        };
        (tester, TesterHandle { specs: give, outcomes: take })
    }

    /// Accepts a trial, announces both ends to the switch, and sets the start.
    fn begin(&mut self, now: Time, spec: TrialSpec) {
        assert!(self.number < TRIALS_MAX, "fewer trials than trial numbers");
        self.number += 1;
        self.sequence.restart();
        // Frames of another length are useless.
        self.kept.clear();
        for end in 0..2 {
            self.introduce(spec.port_pair, end, spec.dscp);
        }
        let [from, to] = STATIONS;
        let mut template = [0; WRITTEN_BYTES];
        template[..HEADER_BYTES].copy_from_slice(&headers(from, to, spec.dscp, SOURCE_PORT, spec.length));
        template[HEADER_BYTES..][..4].copy_from_slice(&MAGIC);
        template[HEADER_BYTES + 4..][..2].copy_from_slice(&self.number.to_be_bytes());
        let start = now + SETTLE;
        (self.last_poll, self.last_look) = (now, now);
        self.trial = Some(Trial {
            spec,
            template,
            start,
            next: 0,
            next_due: 0,
            is_held: false,
            last_sent: start,
            ended: None,
            timed_from: Time::ZERO,
            outcome: Box::new(TrialStats::new()),
        });
    }

    /// Sends a frame from an end's station to itself: the switch learns the station's port, and forwards the frame
    /// to no port.
    fn introduce(&mut self, port_pair: usize, end: usize, dscp: u8) {
        let station = STATIONS[end];
        let Some(mut mbuf) = self.pool.alloc() else { return };
        let Some(bytes) = mbuf.append(WRITTEN_BYTES as u16) else { return };
        bytes.fill(0);
        bytes[..HEADER_BYTES].copy_from_slice(&headers(station, station, dscp, SOURCE_PORT, WRITTEN_BYTES as u16));
        let mut batch = Batch::new();
        if batch.push(mbuf).is_ok() {
            self.port_pairs[port_pair][end].send(&mut batch);
        }
    }

    /// Receives at the ends of all port pairs between trials, so that no queue stays full.
    fn drain(&mut self) -> usize {
        let mut received = 0;
        for end in self.port_pairs.iter_mut().flatten() {
            received += end.receive(&mut self.received);
            self.received.clear();
        }
        received
    }
}

/// Stations at the two ends of a port pair. By default l3fwd, DPDK's example, routes them by its first two ports.
const STATIONS: [Station; 2] = [Station { port: 0, number: 0xbe }, Station { port: 1, number: 0xbe }];

impl TrialStats {
    fn new() -> TrialStats {
        TrialStats {
            sent: 0,
            refused: 0,
            late: 0,
            sequence: SequenceCounts::default(),
            foreign: 0,
            control: 0,
            took: Span::ZERO,
            away: Span::ZERO,
            untimed: 0,
            no_buffers: false,
            latencies: histogram(),
        }
    }

    /// Returns the number of sent frames that did not arrive.
    pub(crate) fn lost(&self) -> u64 {
        self.sequence.lost(self.sent)
    }
}

impl Task for Tester {
    fn poll(&mut self, clock: &Clock, phase: Phase) -> usize {
        if phase > Phase::Run {
            self.trial = None;
            self.unsent.clear();
            self.kept.clear();
            return self.drain();
        }
        let now = time(clock);
        let Some(mut trial) = self.trial.take() else {
            if let Ok(spec) = self.specs.pop() {
                self.begin(now, spec);
                return 1;
            }
            return self.drain();
        };
        let [first, second] = &mut self.port_pairs[trial.spec.port_pair];
        let away_from = first.away_from().max(second.away_from());
        trial.look_whether_away(now, self.last_poll, away_from);
        self.last_poll = now;
        if second.receive(&mut self.received) > 0 {
            let now = time(clock);
            // The arrival time of frames that arrived between polls this far apart is unknown.
            if now.since(self.last_look) > away_from {
                trial.timed_from = now;
            }
            self.last_look = now;
            trial.take(now, self.number, &mut self.received, &mut self.sequence, &mut self.kept);
        } else {
            self.last_look = now;
        }
        if first.receive(&mut self.received) > 0 {
            for mbuf in self.received.iter() {
                let count = if ControlFrame::is_control(mbuf.data()) {
                    &mut trial.outcome.control
                } else {
                    &mut trial.outcome.foreign
                };
                *count += 1;
            }
            self.received.clear();
        }
        trial.fill(now, &mut self.unsent, &mut self.kept, &self.pool, &mut self.random);
        if !self.unsent.is_empty() {
            trial.outcome.sent += first.send(&mut self.unsent) as u64;
            trial.is_held = !self.unsent.is_empty();
            trial.last_sent = now;
        }
        if trial.is_over(now, &mut self.unsent) {
            trial.outcome.sequence = self.sequence.counts();
            // At most one result a trial, so the ring has room.
            let _ = self.outcomes.push(trial.outcome);
        } else {
            self.trial = Some(trial);
        }
        1
    }
}

impl Trial {
    /// Shifts the schedule by the time that the tester was off its CPU.
    #[inline]
    fn look_whether_away(&mut self, now: Time, last_poll: Time, away_from: Span) {
        let gap = now.since(last_poll);
        if gap > away_from && self.ended.is_none() && now > self.start {
            let away = gap.min(now.since(self.start)).saturating_sub(away_from);
            self.start += away;
            self.outcome.away += away;
        }
    }

    /// Counts and times received frames, and keeps their buffers.
    #[inline]
    fn take(
        &mut self,
        now: Time,
        trial_number: u16,
        received: &mut Batch,
        sequence: &mut Sequence,
        kept: &mut Vec<Mbuf>,
    ) {
        for mbuf in received.drain() {
            match probe(mbuf.data(), trial_number) {
                Some((number, stamp)) => {
                    sequence.record(number);
                    if self.spec.is_timed {
                        if stamp >= self.timed_from {
                            record(&mut self.outcome.latencies, now.since(stamp));
                        } else {
                            self.outcome.untimed += 1;
                        }
                    }
                }
                None => self.outcome.foreign += 1,
            }
            let is_alike = mbuf.len() == u32::from(self.spec.length) && mbuf.segment_count() == 1;
            if is_alike && kept.len() < KEPT {
                kept.push(mbuf);
            }
        }
    }

    /// Builds the frames that are due.
    #[inline]
    fn fill(&mut self, now: Time, unsent: &mut Batch, kept: &mut Vec<Mbuf>, pool: &Mempool, random: &mut SplitMix64) {
        if self.ended.is_some() || now < self.start {
            return;
        }
        let elapsed = now.since(self.start);
        if elapsed > self.spec.at_most {
            return;
        }
        while self.next < self.spec.frames && unsent.room() > 0 {
            let due = Span::from_picos(self.next_due >> 10);
            if due > elapsed {
                break;
            }
            let Some(mut mbuf) = kept.pop().or_else(|| fresh(pool, self.spec.length)) else {
                self.outcome.no_buffers = true;
                break;
            };
            let stamp = if self.is_held { self.start + due } else { now };
            self.outcome.late += u64::from(self.is_held && elapsed > due + LATE_FROM);
            let bytes = mbuf.data_mut();
            bytes[..WRITTEN_BYTES].copy_from_slice(&self.template);
            bytes[HEADER_BYTES + 6..][..4].copy_from_slice(&self.next.to_be_bytes());
            bytes[HEADER_BYTES + 10..][..8].copy_from_slice(&stamp.as_picos().to_be_bytes());
            if unsent.push(mbuf).is_err() {
                unreachable!("there is room");
            }
            self.next += 1;
            self.next_due += match self.spec.interval {
                Interval::Even(interval) => interval,
                Interval::Uneven(mean) => {
                    let mean = mean.as_picos();
                    (mean / 2 + random.next_u64() % mean.max(1)) << 10
                }
            };
        }
    }

    /// Whether the trial is finished: nothing left to send or wait for.
    fn is_over(&mut self, now: Time, unsent: &mut Batch) -> bool {
        let Some(ended) = self.ended else {
            if now < self.start {
                return false;
            }
            let elapsed = now.since(self.start);
            let last_due = Span::from_picos(self.next_due >> 10);
            let all_made = self.next == self.spec.frames;
            let is_late = elapsed > self.spec.at_most.min(last_due_of(&self.spec, last_due)) + GRACE_PERIOD;
            if (all_made && unsent.is_empty()) || is_late {
                let due = self.frames_due(elapsed.min(self.spec.at_most));
                self.outcome.refused = due.saturating_sub(self.outcome.sent);
                self.outcome.took = self.last_sent.since(self.start);
                unsent.clear();
                self.ended = Some(now);
            }
            return false;
        };
        now.since(ended) > self.spec.wait
    }

    /// Returns the number of frames due by then. Without an interval no frame is due before the port accepts it.
    fn frames_due(&self, elapsed: Span) -> u64 {
        match self.spec.interval {
            Interval::Even(0) => self.outcome.sent,
            Interval::Even(interval) => {
                let due = (u128::from(elapsed.as_picos()) << 10) / u128::from(interval) + 1;
                due.min(u128::from(self.spec.frames)) as u64
            }
            Interval::Uneven(_) => u64::from(self.next),
        }
    }
}

/// Delay after its due time from which an accepted frame is late.
const LATE_FROM: Span = Span::from_micros(10);

/// Returns the due time of a trial's last frame after its start, given the next frame's.
fn last_due_of(order: &TrialSpec, next_due: Span) -> Span {
    match order.interval {
        Interval::Even(0) => order.at_most,
        Interval::Even(interval) => {
            Span::from_picos(((u128::from(interval) * u128::from(order.frames.saturating_sub(1))) >> 10) as u64)
        }
        Interval::Uneven(mean) => next_due + mean * 2,
    }
}

/// Returns the number and time of a frame of this trial.
#[inline]
fn probe(bytes: &[u8], order: u16) -> Option<(u32, Time)> {
    let payload: &[u8; PAYLOAD_BYTES] = bytes.get(HEADER_BYTES..WRITTEN_BYTES)?.try_into().ok()?;
    if payload[..4] != MAGIC || payload[4..6] != order.to_be_bytes() {
        return None;
    }
    let number = u32::from_be_bytes(payload[6..10].try_into().ok()?);
    let stamp = u64::from_be_bytes(payload[10..].try_into().ok()?);
    Some((number, Time::from_picos(stamp)))
}

/// Allocates a frame of zeros.
pub(crate) fn fresh(pool: &Mempool, length: u16) -> Option<Mbuf> {
    let mut mbuf = pool.alloc()?;
    mbuf.append(length)?.fill(0);
    Some(mbuf)
}

#[inline]
fn time(clock: &Clock) -> Time {
    Time::from_picos(clock.now_ps())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_distinguished_from_other_frames() {
        let mut frame = vec![0; 60];
        assert_eq!((WRITTEN_BYTES, probe(&frame, 3)), (60, None));
        frame[HEADER_BYTES..][..4].copy_from_slice(&MAGIC);
        frame[HEADER_BYTES + 4..][..2].copy_from_slice(&3u16.to_be_bytes());
        frame[HEADER_BYTES + 6..][..4].copy_from_slice(&77u32.to_be_bytes());
        frame[HEADER_BYTES + 10..][..8].copy_from_slice(&5_000u64.to_be_bytes());
        assert_eq!(probe(&frame, 3), Some((77, Time::from_nanos(5))));
        // Another trial's, and a frame cut short.
        assert_eq!((probe(&frame, 4), probe(&frame[..59], 3)), (None, None));
    }

    #[test]
    fn rates_are_kept_to_a_part_in_a_million() {
        for rate in [1.0, 1_000.0, 14_880_952.0, 33_333_333.0] {
            let Interval::Even(interval) = Interval::of_rate(rate) else { panic!("even") };
            let got = 1e12 * 1_024.0 / interval as f64;
            assert!((got - rate).abs() / rate < 1e-4, "{rate}: {got}");
        }
    }
}
