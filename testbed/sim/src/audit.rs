//! Debug-build audit of frame and byte conservation during a run, not only at its end.
//!
//! Each wire checks its frames at every event, and each half of a switch after its window. Checks of bytes and of all
//! counters take longer and run after some windows only. They hold between any two instants, regardless of the time
//! each node has reached.

use weir_units::Time;

use super::{Sim, frame_conservation};

/// Windows per check of one switch's buffer; switches are checked in rotation.
const BUFFER_EVERY: u64 = 32;
/// Windows per check of one switch's frame conservation; switches are checked in rotation.
const SWITCH_EVERY: u64 = 128;
/// Windows per check of the whole network's frame conservation.
const ALL_EVERY: u64 = 1_000;

impl Sim {
    /// Audits the state after a window.
    ///
    /// # Panics
    /// If a frame or byte is unaccounted for: a bug in the program.
    pub(super) fn audit(&mut self) {
        self.audited += 1;
        let windows = self.audited;
        if windows.is_multiple_of(BUFFER_EVERY) {
            let switch = (windows / BUFFER_EVERY) as usize % self.partition.switches();
            let now = self.clock_of(switch);
            let result = self.partition.switch(switch).shared().mmu.check_conservation(now);
            result.unwrap_or_else(|what| panic!("switch {switch} at {now:?}: {what}"));
        }
        if windows.is_multiple_of(SWITCH_EVERY) {
            let switch = (windows / SWITCH_EVERY) as usize % self.partition.switches();
            let now = self.clock_of(switch);
            let report = self.partition.switch_mut(switch).report(now);
            frame_conservation::check_switch(switch, &report).unwrap_or_else(|what| panic!("at {now:?}: {what}"));
        }
        if windows.is_multiple_of(ALL_EVERY) {
            let clocks: Vec<Time> = (0..self.partition.switches()).map(|switch| self.clock_of(switch)).collect();
            let reports: Vec<_> =
                (0..).zip(clocks).map(|(switch, now)| self.partition.switch_mut(switch).report(now)).collect();
            frame_conservation::frames(self, &reports)
                .unwrap_or_else(|what| panic!("between {:?}: {what}", self.clocks));
        }
    }

    /// Returns the time that a switch has reached.
    fn clock_of(&self, switch: usize) -> Time {
        self.clocks[self.partition.phases().node_phase(switch)]
    }
}
