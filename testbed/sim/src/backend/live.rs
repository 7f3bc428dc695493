//! Control of a run from outside while it goes on.

use weir_scenario::RuntimeChange;
use weir_units::Time;

/// Pace of a run, and changes of its switches' settings that were unknown at its start.
///
/// The run is the same as one whose scenario has these changes from the start.
pub trait LiveControl {
    /// Takes the state after a sample, whose rows and events the run's files have, and returns changes. The run waits for the return.
    ///
    /// Changes must come after the sample's instant; the run panics otherwise.
    fn after_sample(&mut self, state: &LiveSample) -> Vec<RuntimeChange>;
}

/// Sample of a run.
#[derive(Clone, Copy, Debug)]
pub struct LiveSample {
    /// Instant of the sample.
    pub at: Time,
    /// Instant since which a deadlock lasts, if there is one.
    pub deadlock: Option<Time>,
}
