//! The loop that an lcore runs: poll every task in turn, idle when there is nothing to do.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use weir_config::IdlePolicy;
use weir_dpdk_io::{Clock, cpu};
use weir_units::{Span, Time};

use crate::cpu_use::CpuUse;
use crate::lcore_work::{Work, WorkCount, WorkStats};
use crate::poll_gaps::PollGaps;
use crate::sleep::Sleeper;
use crate::task::{Phase, Task};

/// Control word of all loops, which each loop reads in every round: the phase in the lowest byte, the number of notifications above.
#[derive(Debug, Default)]
pub(crate) struct LoopControl(AtomicU32);

/// One notification.
const NOTIFICATION: u32 = 1 << 8;

/// Statistics of a polling loop.
#[derive(Debug, Default)]
pub struct LcoreStats {
    /// Polls of all tasks.
    loops: AtomicU64,
    /// Polls in which a frame moved, or was overdue.
    busy_loops: AtomicU64,
    /// The times between two polls.
    gaps: PollGaps,
    work: WorkStats,
    /// The loop's thread; 0 before it has begun.
    thread: AtomicU32,
    /// Scheduler statistics when the loop began, and before it was stopped.
    cpu_use: [OnceLock<CpuUse>; 2],
    /// CPU time that the loop's thread used, in nanoseconds.
    cpu_time: AtomicU64,
}

/// Empty polls before a loop sleeps.
const POLLS_BEFORE_SLEEP: u32 = 64;

impl LoopControl {
    /// Enters a later phase.
    pub(crate) fn enter(&self, phase: Phase) {
        let later = |word: u32| (phase_of(word) < phase).then_some(word & !(NOTIFICATION - 1) | phase as u32);
        // Nothing to be done where it is later already.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    }

    /// Notifies all tasks, which handle requests before their next poll ([`Task::on_control`]).
    pub(crate) fn notify(&self) {
        // Release: tasks see the control thread's earlier writes, such as a device's removal.
        self.0.fetch_add(NOTIFICATION, Ordering::Release);
    }
}

#[inline]
fn phase_of(word: u32) -> Phase {
    match word & (NOTIFICATION - 1) {
        0 => Phase::Run,
        1 => Phase::Drain,
        2 => Phase::Discard,
        _ => Phase::Stop,
    }
}

impl LcoreStats {
    /// Share of the loops in which a frame moved or was overdue, in thousandths.
    pub fn busy_permille(&self) -> u64 {
        let loops = self.loops.load(Ordering::Relaxed);
        (self.busy_loops.load(Ordering::Relaxed) * 1_000).checked_div(loops).unwrap_or(0)
    }

    /// Polls so far, and in how many of them a frame moved or was overdue.
    pub fn polls(&self) -> (u64, u64) {
        // Busy ones first: they are never more than all.
        let busy = self.busy_loops.load(Ordering::Relaxed);
        (self.loops.load(Ordering::Relaxed).max(busy), busy)
    }

    /// Longest time between two polls, in real time: latency added by the machine, not the switch.
    pub fn gap_max(&self) -> Span {
        self.gaps.max()
    }

    /// The times between two polls, in real time.
    pub fn gaps(&self) -> &PollGaps {
        &self.gaps
    }

    /// Packets that its tasks took, and the time that they took.
    pub fn work(&self) -> Work {
        self.work.read()
    }

    /// Scheduler statistics since the loop began; until the stop, once it is stopped.
    pub fn cpu_use(&self, cpu: u32) -> CpuUse {
        let [before, last] = &self.cpu_use;
        let now = last.get().copied().unwrap_or_else(|| CpuUse::read(self.thread.load(Ordering::Relaxed), cpu));
        before.get().map_or(CpuUse::default(), |before| now.since(before))
    }

    /// Records the statistics while the loop still runs: they vanish with its thread.
    pub(crate) fn record_last_cpu_use(&self, cpu: u32) {
        self.cpu_use[1].get_or_init(|| CpuUse::read(self.thread.load(Ordering::Relaxed), cpu));
    }

    /// CPU time that the loop's thread used, in nanoseconds; known when the loop has ended, since asking is a system call.
    pub fn cpu_time_ns(&self) -> u64 {
        self.cpu_time.load(Ordering::Relaxed)
    }
}

/// Polls `tasks` until the last phase.
pub(crate) fn run(
    mut tasks: Vec<Box<dyn Task>>,
    clock: Clock,
    idle: IdlePolicy,
    control: &LoopControl,
    stats: &Arc<LcoreStats>,
) {
    let (mut loops, mut busy, mut empty_polls) = (0u64, 0u64, 0u32);
    let thread = cpu::thread_id();
    stats.thread.store(thread, Ordering::Relaxed);
    stats.cpu_use[0].get_or_init(|| CpuUse::read(thread, cpu::current().unwrap_or(u32::MAX)));
    let dilation = u64::from(clock.dilation());
    let mut last = Time::from_picos(clock.now_ps());
    // When this poll began: others may have had the CPU between it and the last.
    let mut began = last;
    let mut work = WorkCount::default();
    let mut sleeper = Sleeper::new(&tasks, last);
    let started = cpu::thread_time_ns();
    let mut seen = 0;
    loop {
        // Acquire: pairs with the Release of a notification. Phases only go forward, and the reports' requests order them
        // and data.
        let word = control.0.load(Ordering::Acquire);
        let phase = phase_of(word);
        if word != seen {
            seen = word;
            tasks.iter_mut().for_each(|task| task.on_control(&clock));
        }
        let moved: usize = tasks.iter_mut().map(|task| task.poll(&clock, phase)).sum();
        loops += 1;
        // One writer, so plain stores; the readers want only the numbers.
        stats.loops.store(loops, Ordering::Relaxed);
        let now = Time::from_picos(clock.now_ps());
        stats.gaps.record(now.since(last) * dilation);
        last = now;
        if moved > 0 {
            busy += 1;
            empty_polls = 0;
            sleeper.record_moved(now);
            stats.busy_loops.store(busy, Ordering::Relaxed);
            work.record(tasks.iter().map(|task| task.packet_tally()).sum(), now.since(began) * dilation, &stats.work);
        } else {
            empty_polls = empty_polls.saturating_add(1);
        }
        if phase == Phase::Stop {
            break;
        }
        began = now;
        if moved == 0 {
            match idle {
                IdlePolicy::Poll => cpu::pause(),
                IdlePolicy::Sleep if empty_polls >= POLLS_BEFORE_SLEEP => {
                    last = sleeper.sleep(&tasks, &clock, now);
                    stats.gaps.record_slept(last.since(now) * dilation);
                    began = last;
                }
                IdlePolicy::Yield | IdlePolicy::Sleep => {
                    std::thread::yield_now();
                    began = Time::from_picos(clock.now_ps());
                }
            }
        }
    }
    stats.cpu_time.store(cpu::thread_time_ns() - started, Ordering::Relaxed);
}
