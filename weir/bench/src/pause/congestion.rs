//! Stations of a pause measurement: a sender that obeys PFC, and a receiver that pauses the sender through the switch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hdrhistogram::Histogram;
use rtrb::{Consumer, Producer, RingBuffer};
use weir_dpdk_driver::{FrameStore, Phase, Task};
use weir_dpdk_io::{Batch, Clock, MAX_BURST, Mbuf};
use weir_flowctl::Quantum;
use weir_flowctl::pfc::PauseTimers;
use weir_units::{BitRate, Bytes, Class, FCS_BYTES, SerialisationDelay, Span, SplitMix64, Time, WIRE_OVERHEAD_BYTES};
use weir_wire::mac_control::{ControlFrame, PfcFrame};

use crate::frames::{HEADER_BYTES, Station, headers};
use crate::latency::{histogram, record};
use crate::tester::{TesterPort, fresh};

/// Sender and receiver.
pub(super) const STATIONS: [Station; 2] = [Station { port: 0xe1, number: 1 }, Station { port: 0xe2, number: 1 }];
/// Lossless class of the preset `roce`.
const CLASS: Class = Class::new(3);
/// DSCP of the class.
const DSCP: u8 = 26;
/// Time without a frame after which the class counts as stopped.
const QUIET: Span = Span::from_micros(50);
/// Bytes whose time at the port's rate is the shortest gap between two pauses; the longest gap is twice that. A pause holds back
/// fewer bytes.
const BETWEEN: Bytes = Bytes::kb(500);
/// Gap between polls, longer than a round of work, from which the task counts as off its CPU: arrival times are then unknown.
const AWAY_FROM: Span = Span::from_micros(10);
/// Upper bound on the time that a late sender makes up.
const SLACK: Span = Span::from_micros(50);
const UDP_PORT: u16 = 0xc001;
/// Number of frames kept for sending again: more of the smallest frames than a pause holds back.
const KEPT: usize = 8_192;

/// Load of the sender.
pub(super) struct Load {
    /// Rate of the ports.
    pub(super) rate: BitRate,
    /// Share of the rate, in percent.
    pub(super) percent: u32,
    /// Frame length, with FCS.
    pub(super) frame_bytes: u16,
}

/// Results of the measurement.
pub(super) struct PauseMeasurement {
    /// Delay from the hand-over of a PAUSE to the receiver's port to the last data frame, in nanoseconds.
    pub(super) to_last_frame: Histogram<u64>,
    pub(super) left_out: u64,
    pub(super) sent: u64,
    pub(super) received: u64,
}

/// Control thread's end of the measurement.
pub(super) struct CongestionHandle {
    is_over: Arc<AtomicBool>,
    measurement: Consumer<Box<PauseMeasurement>>,
}

/// Both stations, polled in turn by one lcore.
pub(super) struct CongestionSource {
    sender: TesterPort,
    receiver: TesterPort,
    store: FrameStore,
    header: [u8; HEADER_BYTES],
    length: u16,
    /// Interval between frames.
    interval: Span,
    between: Span,
    /// Longest pause cycle: half the longest pause time.
    cycle_max: Span,
    gate: PauseTimers,
    due: Time,
    unsent: Batch,
    batch: Batch,
    /// Received frames, kept for sending again: their memory is in the cache, unlike the pool's next buffer.
    kept: Vec<Mbuf>,
    state: State,
    random: SplitMix64,
    /// Instant of the receiver's last poll.
    last_look: Time,
    is_over: Arc<AtomicBool>,
    result: Producer<Box<PauseMeasurement>>,
    /// `None` once handed over.
    measurement: Option<Box<PauseMeasurement>>,
}

/// Phase of the receiver's cycle.
enum State {
    /// Frames flow until the receiver pauses the class at `until`; [`Time::NEVER`] before the first frame.
    Flowing { until: Time },
    /// The receiver paused the class at `at`. `is_left_out` if the arrival time of the last frame is unknown.
    Pausing { at: Time, last_frame: Time, is_left_out: bool },
}

impl CongestionHandle {
    /// Ends the measurement and waits for the results; `None` once `has_failed` returns true.
    pub(super) fn finish(&mut self, has_failed: impl Fn() -> bool) -> Option<PauseMeasurement> {
        self.is_over.store(true, Ordering::Relaxed);
        loop {
            if let Ok(measurement) = self.measurement.pop() {
                return Some(*measurement);
            }
            if has_failed() {
                return None;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
    }
}

impl CongestionSource {
    pub(super) fn new(
        [sender, receiver]: [TesterPort; 2],
        store: FrameStore,
        load: &Load,
    ) -> (CongestionSource, CongestionHandle) {
        let (result, measurement) = RingBuffer::new(1);
        let is_over = Arc::new(AtomicBool::new(false));
        let length = load.frame_bytes - FCS_BYTES as u16;
        let wire = Bytes::new(u64::from(load.frame_bytes) + WIRE_OVERHEAD_BYTES);
        let interval = (SerialisationDelay::new(load.rate).time_for(wire) * 100).divided_by(u64::from(load.percent));
        let quantum_max = load.rate.time_for(Bytes::new(64)) * u64::from(u16::MAX);
        let source = CongestionSource {
            sender,
            receiver,
            store,
            header: headers(STATIONS[0], STATIONS[1], DSCP, UDP_PORT, length),
            length,
            interval,
            between: load.rate.time_for(BETWEEN),
            cycle_max: quantum_max.divided_by(2),
            gate: PauseTimers::new(Quantum::for_rate(load.rate)),
            due: Time::ZERO,
            unsent: Batch::new(),
            batch: Batch::new(),
            kept: Vec::with_capacity(KEPT),
            state: State::Flowing { until: Time::NEVER },
            random: SplitMix64::new(7),
            last_look: Time::ZERO,
            is_over: is_over.clone(),
            result,
            measurement: Some(Box::new(PauseMeasurement {
                to_last_frame: histogram(),
                left_out: 0,
                sent: 0,
                received: 0,
            })),
        };
        (source, CongestionHandle { is_over, measurement })
    }

    /// Sends a PFC frame for the class to the switch; false if the port does not accept it now.
    fn send_pfc(&mut self, quanta: u16) -> bool {
        let mut times = [0; 8];
        times[CLASS.index()] = quanta;
        let frame = ControlFrame::Pfc(PfcFrame { enabled: CLASS.alone(), times }).encode(STATIONS[1].mac());
        let Some(mut mbuf) = self.store.control.alloc() else { return false };
        let Some(bytes) = mbuf.append(frame.len() as u16) else { return false };
        bytes.copy_from_slice(&frame);
        let mut batch = Batch::new();
        batch.push(mbuf).is_ok() && self.receiver.send(&mut batch) == 1
    }

    /// Polls the sender: obeys PFC frames of the switch, and sends the frames due.
    fn send(&mut self, now: Time, measurement: &mut PauseMeasurement) {
        if self.sender.receive(&mut self.batch) > 0 {
            for mbuf in self.batch.iter() {
                if let Ok(ControlFrame::Pfc(pfc)) = ControlFrame::decode(mbuf.data()) {
                    self.gate.handle_pfc(now, &pfc);
                }
            }
            self.batch.clear();
        }
        if self.gate.paused(now).contains(CLASS) {
            return;
        }
        self.due = self.due.max(now.saturating_sub(SLACK));
        while self.due <= now && self.unsent.len() < MAX_BURST {
            let Some(mut mbuf) = self.kept.pop().or_else(|| fresh(&self.store.data, self.length)) else { break };
            mbuf.data_mut()[..HEADER_BYTES].copy_from_slice(&self.header);
            if self.unsent.push(mbuf).is_err() {
                unreachable!("there is room");
            }
            self.due += self.interval;
        }
        if !self.unsent.is_empty() {
            measurement.sent += self.sender.send(&mut self.unsent) as u64;
        }
    }

    /// Polls the receiver: counts frames, and advances the pause cycle.
    fn receive(&mut self, clock: &Clock, measurement: &mut PauseMeasurement) {
        let frames = self.receiver.receive(&mut self.batch);
        let now = time(clock);
        let was_away = now.since(self.last_look) > AWAY_FROM;
        self.last_look = now;
        let mut data = 0;
        if frames > 0 {
            for mbuf in self.batch.drain().filter(|mbuf| !ControlFrame::is_control(mbuf.data())) {
                data += 1;
                if mbuf.len() == u32::from(self.length) && self.kept.len() < KEPT {
                    self.kept.push(mbuf);
                }
            }
        }
        measurement.received += data as u64;
        match self.state {
            // The first frame starts the cycle.
            State::Flowing { until: Time::NEVER } if data > 0 => self.flow_on(now),
            State::Flowing { until } if now >= until && !self.gate.paused(now).contains(CLASS) => {
                // Read before the hand-over, so that the whole delay counts.
                let at = time(clock);
                if self.send_pfc(u16::MAX) {
                    self.state = State::Pausing { at, last_frame: at, is_left_out: false };
                }
            }
            State::Flowing { .. } => {}
            State::Pausing { at, last_frame, is_left_out } => {
                let (last_frame, is_left_out) = if data > 0 { (now, was_away) } else { (last_frame, is_left_out) };
                self.state = State::Pausing { at, last_frame, is_left_out };
                let is_quiet = now.since(last_frame) > QUIET;
                let is_too_long = now.since(at) > self.cycle_max;
                let is_congested = is_quiet && self.gate.paused(now).contains(CLASS);
                if (is_congested || is_too_long) && self.send_pfc(0) {
                    if is_left_out || is_too_long {
                        measurement.left_out += 1;
                    } else {
                        record(&mut measurement.to_last_frame, last_frame.since(at));
                    }
                    self.flow_on(now);
                }
            }
        }
    }

    fn flow_on(&mut self, now: Time) {
        let more = Span::from_picos(self.random.next_u64() % self.between.as_picos());
        self.state = State::Flowing { until: now + self.between + more };
    }
}

impl Task for CongestionSource {
    fn poll(&mut self, clock: &Clock, phase: Phase) -> usize {
        let Some(mut measurement) = self.measurement.take() else {
            let taken = self.sender.receive(&mut self.batch) + self.receiver.receive(&mut self.batch);
            self.batch.clear();
            return taken;
        };
        let now = time(clock);
        self.send(now, &mut measurement);
        self.receive(clock, &mut measurement);
        if phase > Phase::Run || self.is_over.load(Ordering::Relaxed) {
            // Paused frames may leave.
            self.send_pfc(0);
            self.unsent.clear();
            self.kept.clear();
            // One result, so there is room.
            let _ = self.result.push(measurement);
        } else {
            self.measurement = Some(measurement);
        }
        1
    }
}

fn time(clock: &Clock) -> Time {
    Time::from_picos(clock.now_ps())
}
