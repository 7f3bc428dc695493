//! What both backends leave of a run: samples, events and completion times as they come, and the summary at its end.
//!
//! A backend hands in the reports of its switches at each sample, what its hosts have counted, and single instants; all files
//! of a run directory are written here.

mod counts;
mod messages;
mod off_queues;
mod progress;
mod recorder;
mod results;
mod watched;

pub use crate::ports::Ports;
pub use progress::{Progress, ProgressOf};
pub use recorder::{Depth, Record, Recorder, Teller};
pub use results::{Ended, LinkWords, NicWords, dropped, interrupted, lost_lossless, overflown_lossless, summary};

use weir_scenario::Scenario;

use crate::run_dir::{RunDir, RunDirError, Topology};

/// What runs: copies of the switches' configurations, and what is joined to what.
pub fn write_configs(scenario: &Scenario, run: &RunDir) -> Result<(), RunDirError> {
    run.write_topology(&Topology::of(scenario))?;
    match &scenario.switches[..] {
        [single] => run.write_config(single.source.text()),
        several => several.iter().try_for_each(|switch| run.write_config_of(&switch.name, switch.source.text())),
    }
}
