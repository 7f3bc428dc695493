//! What lcores poll.

use weir_dpdk_io::{Arrival, Clock};
use weir_units::Time;

use crate::lcore_work::Taken;

/// Something that an lcore polls: one lcore's part of a switch, or emulated hosts.
pub trait Task: Send {
    /// Does a bounded amount of work; returns how many frames moved, and at least 1 while some are overdue: the loop polls on at
    /// once then.
    fn poll(&mut self, clock: &Clock, phase: Phase) -> usize;

    /// When the task will have something to do though nothing has arrived, for a task that may be left alone until then: what
    /// arrives for it either can be waited for ([`Task::arrivals`]), or waits itself, for some hundreds of microseconds, without
    /// being lost. `None` for one that is to be polled all the time.
    fn rests_until(&self, _now: Time) -> Option<Time> {
        None
    }

    /// Looks for what the control thread has for it. Called between two polls, when it is told that there is something.
    fn attend(&mut self) {}

    /// Packets that the task took so far. One that takes none, or whose work is not a switch's, has none to tell.
    fn taken(&self) -> Taken {
        Taken::default()
    }

    /// What tells that something has arrived for the task; `None` where only a poll does.
    fn arrivals(&self) -> Option<Vec<Arrival>> {
        None
    }
}

/// Where the switches of the process are in their life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// Receiving and sending.
    Run,
    /// No longer receiving; what is held is still sent.
    Drain,
    /// Frames that are still held are given up, and counted.
    Discard,
    /// The loops end.
    Stop,
}
