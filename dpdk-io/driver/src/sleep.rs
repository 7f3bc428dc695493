//! Sleep of an lcore that has been idle for a while.

use std::time::Duration;

use weir_dpdk_io::{Clock, RxInterrupts, WakeReason};
use weir_units::{Span, Time};

use crate::task::Task;

/// Sleep of a loop that must poll for arrivals, as nothing wakes it.
const NAP: Duration = Duration::from_micros(30);
/// Waits shorter than this use naps: the kernel's timers are late by about as much.
const TOO_SHORT: Duration = Duration::from_micros(100);
/// Longest sleep, frames or not: bounds the delay until the loop sees the control thread's requests.
const LONGEST: Duration = Duration::from_millis(2);
/// Time without a frame after which naps, too, grow to the longest.
const QUIET: Duration = Duration::from_millis(10);

/// Sleeps of a loop.
#[derive(Debug)]
pub(crate) struct Sleeper {
    /// Interrupts of the loop's tasks; `None` if some frames can't be waited for.
    rx_interrupts: Option<RxInterrupts>,
    /// Instant of the last frame, on the loop's clock.
    last_moved: Time,
}

impl Sleeper {
    /// Creates the sleeper of a loop that polls these tasks.
    pub(crate) fn new(tasks: &[Box<dyn Task>], now: Time) -> Sleeper {
        let rx_interrupts: Option<Vec<_>> = tasks.iter().map(|task| task.rx_interrupts()).collect();
        let rx_interrupts = rx_interrupts.map(|all| RxInterrupts::new(all.into_iter().flatten().collect()));
        Sleeper { rx_interrupts, last_moved: now }
    }

    /// Records that a frame moved.
    pub(crate) fn record_moved(&mut self, now: Time) {
        self.last_moved = now;
    }

    /// Sleeps. Returns the instant since which the loop may be late: the sleep's end, or the earlier instant at which a frame woke it.
    pub(crate) fn sleep(&mut self, tasks: &[Box<dyn Task>], clock: &Clock, now: Time) -> Time {
        let dilation = u64::from(clock.dilation());
        let real = |span: Span| Duration::from_nanos(span.as_nanos().saturating_mul(dilation));
        let wakeups = tasks.iter().map(|task| task.next_wakeup(now));
        // A task that is to be polled all the time comes first.
        let free = wakeups.min().flatten().map_or(Duration::ZERO, |until| real(until.since(now)));
        if free < TOO_SHORT {
            nap(NAP);
        } else if let Some(rx_interrupts) = &mut self.rx_interrupts {
            let meant = free.min(LONGEST);
            let end = now + Span::from_nanos(meant.as_nanos() as u64 / dilation);
            match rx_interrupts.wait(meant) {
                // After the end it was kept from its CPU, whether for the frame or before.
                WakeReason::Frame => return Time::from_picos(clock.now_ps()).min(end),
                WakeReason::Timeout => return end,
                WakeReason::Error => nap(NAP),
            }
        } else if real(now.since(self.last_moved)) >= QUIET {
            nap(free.min(LONGEST));
        } else {
            nap(NAP);
        }
        now
    }
}

fn nap(time: Duration) {
    std::thread::park_timeout(time);
}
