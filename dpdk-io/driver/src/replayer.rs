//! Task that replays captures, each on an end of a link, all by one clock.
//!
//! Each class of a trace has its own cursor in the schedule, so that a paused class delays no other.
//!
//! A frame's delay has one of four causes, which are recorded separately. The line was busy with earlier frames: that is part of the
//! [schedule](weir_trace::Schedule). Its class was paused, or the pause had left a backlog: then the frame leaves as soon as an ideal
//! sender's would. The port had no room for it. The remaining delay is the machine's: the task was late on its CPU.
//!
//! After an absence longer than `CATCH_UP` the clock of all traces stops for the excess, so that no burst arises that the traces do not
//! have.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_config::PausedAction;
use weir_dpdk_io::{Batch, Clock, MAX_BURST, Mempool, RingEnd, RxQueue, TxQueue};
use weir_flowctl::Quantum;
use weir_flowctl::pfc::PauseTimers;
use weir_trace::Schedule;
use weir_units::{
    BitRate, Bytes, CLASSES, Class, ClassSet, FCS_BYTES, SerialisationDelay, Span, Time, WIRE_OVERHEAD_BYTES,
};
use weir_wire::mac_control::ControlFrame;

use crate::task::{Phase, Task};

mod stats;
mod traces;

use stats::FrameTiming;
pub(crate) use stats::ReplayStats;
pub use stats::{ClockStall, ReplayDelays, ReplayReport, StreamReport};
pub(crate) use traces::NO_REWRITING;
pub use traces::{Trace, TraceEnd, streams};

/// Longest absence that the task makes up; for the excess the traces' clock stops.
pub(crate) const CATCH_UP: Span = Span::from_micros(200);
/// A task that is due so soon is polled at once, and its CPU given to nobody in between.
const SOON: Span = Span::from_micros(50);
/// Frames of paused classes that one poll drops at most.
const DROPS: usize = 256;

/// Destination of a trace: the end of a link that leads to a switch's port.
#[derive(Debug)]
pub enum ReplayTarget {
    /// The far end of a ring port.
    Ring(RingEnd),
    /// A device that is cabled to a port.
    Device(RxQueue, TxQueue),
}

impl ReplayTarget {
    #[inline]
    fn receive(&mut self, batch: &mut Batch) -> usize {
        match self {
            ReplayTarget::Ring(ring) => ring.receive(batch, MAX_BURST),
            ReplayTarget::Device(rx, _) => rx.receive(batch, MAX_BURST),
        }
    }

    #[inline]
    fn send(&mut self, batch: &mut Batch) -> usize {
        match self {
            ReplayTarget::Ring(ring) => ring.send(batch),
            ReplayTarget::Device(_, tx) => tx.send(batch),
        }
    }
}

/// Trace with its destination.
#[derive(Debug)]
pub struct ReplayStream {
    /// Name in the report.
    pub name: String,
    /// Frames and their due times.
    pub schedule: Schedule,
    /// The class of each frame.
    pub classes: Vec<Class>,
    /// The end of the link.
    pub end: ReplayTarget,
    /// The link's rate, where it is known.
    pub rate: Option<BitRate>,
    /// Action on frames of a paused class.
    pub when_paused: PausedAction,
    /// Number of repetitions; `None`: endless.
    pub loops: Option<u64>,
    /// Delay from the first poll to the start.
    pub after: Span,
}

/// The task.
pub(crate) struct Replayer {
    streams: Vec<ActiveStream>,
    /// Duration of one pass of all traces.
    period: Span,
    pool: Mempool,
    /// The traces' zero; `None` before the first poll.
    start: Option<Time>,
    last_poll: Time,
    clock_stall: ClockStall,
    received: Batch,
    stats: Arc<ReplayStats>,
}

/// Stream being replayed.
struct ActiveStream {
    schedule: Schedule,
    end: ReplayTarget,
    line: Option<SerialisationDelay>,
    when_paused: PausedAction,
    loops: Option<u64>,
    after: Span,
    gate: PauseTimers,
    /// The frames of each class, by their places in the schedule.
    order: [Vec<u32>; CLASSES],
    /// The classes that have any left.
    left: ClassSet,
    next: [StreamCursor; CLASSES],
    paused: ClassSet,
    /// Instant of each class's last observed change from paused to not paused.
    open_since: [Time; CLASSES],
    /// Instant at which an ideal sender's line is free.
    free: Time,
    unsent: Batch,
    /// Due time, an ideal sender's send time, and class of each frame in `unsent`.
    offered: [(Time, Time, Class); MAX_BURST],
    /// Instant at which the frames in `unsent` were first offered.
    offered_at: Time,
    /// Instant at which the port last accepted frames that it had refused.
    room_since: Time,
    counts: StreamReport,
}

/// Cursor of a class in its trace.
#[derive(Clone, Copy, Default)]
struct StreamCursor {
    at: usize,
    /// Times that the trace was replayed before.
    pass: u64,
}

impl Replayer {
    /// Creates a task that replays these traces by one clock, and the cell of its reports.
    pub(crate) fn new(streams: Vec<ReplayStream>, pool: Mempool) -> (Replayer, Arc<ReplayStats>) {
        let period = streams.iter().map(|stream| stream.schedule.period()).max().unwrap_or(Span::ZERO);
        let streams: Vec<ActiveStream> = streams.into_iter().map(ActiveStream::new).collect();
        let stats = Arc::new(ReplayStats::new(streams.iter().map(|stream| stream.counts.clone()).collect()));
        let replayer = Replayer {
            streams,
            period,
            pool,
            start: None,
            last_poll: Time::ZERO,
            clock_stall: ClockStall::default(),
            received: Batch::new(),
            stats: stats.clone(),
        };
        (replayer, stats)
    }

    /// Stops the traces' clock for the task's absence beyond `CATCH_UP`, if frames were due.
    fn stop_clock_if_late(&mut self, now: Time, start: Time) -> Time {
        let gap = now.since(self.last_poll);
        if gap <= CATCH_UP {
            return start;
        }
        let overdue = self.streams.iter().filter_map(|stream| stream.overdue(now, start, self.period)).max();
        let Some(overdue) = overdue.filter(|overdue| *overdue > CATCH_UP) else { return start };
        let stands = gap.min(overdue).saturating_sub(CATCH_UP);
        self.clock_stall.times += 1;
        self.clock_stall.total += stands;
        self.clock_stall.longest = self.clock_stall.longest.max(stands);
        self.streams.iter_mut().for_each(|stream| stream.free += stands);
        start + stands
    }

    fn give_up(&mut self) -> usize {
        let mut taken = 0;
        for stream in &mut self.streams {
            stream.counts.not_taken += stream.unsent.len() as u64;
            stream.unsent.clear();
            taken += stream.end.receive(&mut self.received);
            self.received.clear();
        }
        taken
    }
}

impl Task for Replayer {
    fn poll(&mut self, clock: &Clock, phase: Phase) -> usize {
        if phase > Phase::Run {
            let taken = self.give_up();
            self.stats.publish_if_requested(self.streams.iter().map(|stream| &stream.counts), self.clock_stall);
            return taken;
        }
        let now = time(clock);
        let start = self.start.map_or(now, |start| self.stop_clock_if_late(now, start));
        self.start = Some(start);
        self.last_poll = now;
        let (mut moved, mut soon, mut is_done) = (0, false, true);
        for stream in &mut self.streams {
            stream.receive(now, &mut self.received);
            moved += stream.send(now, start, self.period, &self.pool);
            soon |= stream.overdue(now + SOON, start, self.period).is_some();
            is_done &= stream.left.is_empty() && stream.unsent.is_empty();
        }
        if is_done {
            self.stats.is_done.store(true, Ordering::Relaxed);
        }
        self.stats.publish_if_requested(self.streams.iter().map(|stream| &stream.counts), self.clock_stall);
        moved.max(usize::from(soon))
    }
}

impl ActiveStream {
    fn new(stream: ReplayStream) -> ActiveStream {
        let loops = stream.loops;
        let mut order: [Vec<u32>; CLASSES] = Default::default();
        for (place, class) in stream.classes.iter().enumerate() {
            order[class.index()].push(place as u32);
        }
        let left = ClassSet::from_iter(Class::ALL.into_iter().filter(|class| !order[class.index()].is_empty()));
        let frames = stream.schedule.frames().len() as u64;
        // At a port of unknown rate, pauses are counted in the quanta of 10 Gb/s.
        let quantum = Quantum::for_rate(stream.rate.unwrap_or(BitRate::gbps(10)));
        let counts = StreamReport::new(stream.name, loops.map(|loops| loops.saturating_mul(frames)), &stream.schedule);
        ActiveStream {
            schedule: stream.schedule,
            end: stream.end,
            line: stream.rate.map(SerialisationDelay::new),
            when_paused: stream.when_paused,
            loops,
            after: stream.after,
            gate: PauseTimers::new(quantum),
            order,
            left,
            next: [StreamCursor::default(); CLASSES],
            paused: ClassSet::EMPTY,
            open_since: [Time::ZERO; CLASSES],
            free: Time::ZERO,
            unsent: Batch::new(),
            offered: [(Time::ZERO, Time::ZERO, Class::new(0)); MAX_BURST],
            offered_at: Time::ZERO,
            room_since: Time::ZERO,
            counts,
        }
    }

    /// Receives frames from the port: pauses are obeyed, other frames counted.
    fn receive(&mut self, now: Time, batch: &mut Batch) {
        if self.end.receive(batch) > 0 {
            for mbuf in batch.iter() {
                match ControlFrame::decode(mbuf.data()) {
                    Ok(ControlFrame::Pfc(pfc)) => self.gate.handle_pfc(now, &pfc),
                    Ok(ControlFrame::Pause(quanta)) => self.gate.handle_pause(now, quanta),
                    _ => {
                        self.counts.other_frames_received += 1;
                        continue;
                    }
                }
                self.counts.pauses_received += 1;
            }
            batch.clear();
        }
        if self.when_paused == PausedAction::Ignore {
            return;
        }
        let paused = self.gate.paused(now);
        for class in self.paused.iter().filter(|class| !paused.contains(*class)) {
            self.open_since[class.index()] = now;
        }
        self.paused = paused;
    }

    /// Due time of a class's next frame.
    fn due(&self, class: Class, start: Time, period: Span) -> Time {
        let StreamCursor { at, pass } = self.next[class.index()];
        let due = &self.schedule.frames()[self.order[class.index()][at] as usize];
        start + self.after + period * pass + due.at
    }

    /// The class whose frame is due first of those that may send, and when that is; in a trace, frames of one instant have their order.
    fn first(&self, classes: ClassSet, start: Time, period: Span) -> Option<(Class, Time)> {
        let key = |class: &Class| {
            let StreamCursor { at, .. } = self.next[class.index()];
            (self.due(*class, start, period), self.order[class.index()][at])
        };
        let class = classes.iter().min_by_key(key)?;
        Some((class, self.due(class, start, period)))
    }

    /// Time for which an unpaused frame has been overdue.
    fn overdue(&self, now: Time, start: Time, period: Span) -> Option<Span> {
        let open = self.left & !self.paused;
        let (class, due) = self.first(open, start, period)?;
        let due = due.max(self.open_since[class.index()]).max(self.free);
        (due <= now && self.schedule.is_timed()).then(|| now.since(due))
    }

    /// Goes on to a class's next frame.
    fn advance(&mut self, class: Class) {
        let next = &mut self.next[class.index()];
        next.at += 1;
        if next.at == self.order[class.index()].len() {
            *next = StreamCursor { at: 0, pass: next.pass + 1 };
            if self.loops.is_some_and(|loops| next.pass >= loops) {
                self.left.remove(class);
            }
        }
    }

    fn send(&mut self, now: Time, start: Time, period: Span, pool: &Mempool) -> usize {
        if self.when_paused == PausedAction::Drop {
            self.drop_paused(now, start, period);
        }
        if self.unsent.is_empty() {
            self.fill(now, start, period, pool);
        }
        if self.unsent.is_empty() {
            return 0;
        }
        let offered = self.unsent.len();
        let sent = self.end.send(&mut self.unsent);
        for (due, ideal, class) in self.offered[..sent].iter().copied() {
            self.counts.sent[class.index()] += 1;
            if self.schedule.is_timed() {
                self.counts
                    .delays
                    .record(now, FrameTiming { due, ideal, room: self.room_since, offered: self.offered_at });
            }
        }
        if sent < offered {
            self.offered.copy_within(sent..offered, 0);
        } else if now > self.offered_at {
            self.room_since = now;
        }
        sent
    }

    /// Makes the frames that are due.
    fn fill(&mut self, now: Time, start: Time, period: Span, pool: &Mempool) {
        self.offered_at = now;
        while self.unsent.room() > 0 {
            let Some((class, due)) = self.first(self.left & !self.paused, start, period) else { return };
            // An ideal sender waits for the end of a pause, and for its line.
            let open = self.open_since[class.index()];
            let ideal = if self.line.is_some() { due.max(open).max(self.free) } else { due.max(open) };
            if ideal > now {
                return;
            }
            let place = self.order[class.index()][self.next[class.index()].at] as usize;
            let frame = self.schedule.frames()[place];
            let Some(mut mbuf) = pool.alloc() else {
                self.counts.no_buffers += 1;
                return;
            };
            let Some(room) = mbuf.append(frame.bytes as u16) else { unreachable!("longer frames were left out") };
            room.copy_from_slice(self.schedule.bytes(&frame));
            self.offered[self.unsent.len()] = (due, ideal, class);
            if self.unsent.push(mbuf).is_err() {
                unreachable!("there is room");
            }
            self.counts.sent_bytes += u64::from(frame.bytes) + FCS_BYTES;
            if let Some(line) = self.line {
                let on_wire = Bytes::new(u64::from(frame.bytes) + FCS_BYTES + WIRE_OVERHEAD_BYTES);
                self.free = ideal + line.time_for(on_wire);
            }
            self.advance(class);
        }
    }

    fn drop_paused(&mut self, now: Time, start: Time, period: Span) {
        for class in (self.left & self.paused).iter() {
            for _ in 0..DROPS {
                if !self.left.contains(class) || self.due(class, start, period) > now {
                    break;
                }
                self.counts.dropped_paused[class.index()] += 1;
                self.advance(class);
            }
        }
    }
}

#[inline]
fn time(clock: &Clock) -> Time {
    Time::from_picos(clock.now_ps())
}
