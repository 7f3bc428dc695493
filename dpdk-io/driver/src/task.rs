//! Tasks polled by lcores.

use weir_dpdk_io::{Clock, RxInterrupt};
use weir_units::Time;

use crate::lcore_work::PacketTally;

/// Task that an lcore polls: one lcore's part of a switch, or emulated hosts.
pub trait Task: Send {
    /// Does a bounded amount of work; returns how many frames moved, and at least 1 while some are overdue: the loop polls on at
    /// once then.
    fn poll(&mut self, clock: &Clock, phase: Phase) -> usize;

    /// Instant of the task's next work if nothing arrives; `None` for a task that must be polled all the time. A task may return an instant
    /// only if its arrivals raise an interrupt ([`Task::rx_interrupts`]), or wait for some hundreds of microseconds without loss.
    fn next_wakeup(&self, _now: Time) -> Option<Time> {
        None
    }

    /// Handles the control thread's requests. Called between two polls after a notification.
    fn on_control(&mut self, _clock: &Clock) {}

    /// Packets that the task took so far; 0 for a task that takes none, or whose work is not a switch's.
    fn packet_tally(&self) -> PacketTally {
        PacketTally::default()
    }

    /// Interrupts that signal arrivals for the task; `None` where only a poll shows them.
    fn rx_interrupts(&self) -> Option<Vec<RxInterrupt>> {
        None
    }
}

/// Phase in the life of the process's switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// Receiving and sending.
    Run,
    /// Reception has ended; buffered frames are still sent.
    Drain,
    /// Frames that are still held are given up, and counted.
    Discard,
    /// The loops end.
    Stop,
}
