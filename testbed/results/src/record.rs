//! Record of a run on either backend: samples, events and completion times during the run, and the summary at its end.
//!
//! A backend passes the reports of its switches at each sample, the counters of its hosts, and events. The record writes the
//! files of the run directory.

mod counts;
mod egress_use;
mod messages;
mod progress;
mod recorder;
mod results;
mod sample_summary;
mod xoff_queues;

pub use crate::ports::Ports;
pub use progress::{Progress, ProgressMeter};
pub use recorder::{MessageOrigin, Recorder, RunRecord, SampleScope};
pub use results::{
    LinkStats, NicStats, RunResult, dropped, interrupted, kept_away, lost_lossless, overflown_lossless, summary,
};

use weir_scenario::Scenario;

use crate::run_dir::{RunDir, RunDirError, Topology};

/// Writes the topology, and copies of the switches' configurations.
pub fn write_configs(scenario: &Scenario, run: &RunDir) -> Result<(), RunDirError> {
    run.write_topology(&Topology::from_scenario(scenario))?;
    match &scenario.switches[..] {
        [single] => run.write_config(single.source.text()),
        several => several.iter().try_for_each(|switch| run.write_config_of(&switch.name, switch.source.text())),
    }
}
