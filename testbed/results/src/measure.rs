//! Measures of a run: completion times and slowdowns by message size, PAUSEs, and the queue that was nearest to a PAUSE.

mod distribution;
mod ideal_paths;
mod messages;
mod rank;
mod repetitions;
mod survey;

pub use ideal_paths::IdealPaths;
pub use messages::{MessageMeasures, SIZE_BINS, SizeBin};
pub use rank::nearest_rank;
pub use repetitions::repetitions;
pub(crate) use survey::Survey;

use weir_switch_core::Report;
use weir_units::Span;

use crate::run_dir::FlowControlSummary;

/// Sums up the flow control of all switch ports and classes over a run of this duration. Other fields keep their defaults.
pub fn flow_control(reports: &[Report], duration: Span) -> FlowControlSummary {
    let ports = || reports.iter().flat_map(|report| &report.ports);
    let classes = || ports().flat_map(|port| &port.classes);
    let pauses_sent: u64 = classes().map(|class| class.pauses_tx).sum();
    let second = u128::from(Span::from_secs(1).as_picos());
    let per_second = u128::from(pauses_sent) * second / u128::from(duration.as_picos().max(1));
    FlowControlSummary {
        pauses_sent,
        pauses_per_second: per_second as u64,
        paused_ns: classes().map(|class| class.paused_tx).sum::<Span>().as_nanos(),
        messages_sent: ports().map(|port| port.control_tx.messages()).sum(),
        ..FlowControlSummary::default()
    }
}
