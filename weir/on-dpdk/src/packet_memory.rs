//! Frames that found no packet memory: a fault of the run if lossless ones were lost, and otherwise one line in the log. And messages
//! of flow control that had none and came late, which should not be.

use weir_config::SwitchConfig;
use weir_switch_core::Report;
use weir_switch_core::counters::DropReason;
use weir_units::Class;

/// Frames of lossless classes, or of the others, that a switch dropped because it held as many as it has packet memory for.
pub(crate) fn frames_without(config: &SwitchConfig, report: &Report, lossless: bool) -> u64 {
    let classes = || Class::ALL.into_iter().filter(|class| config.classes.lossless.contains(*class) == lossless);
    let ports = report.ports.iter();
    ports.flat_map(|port| classes().map(|class| port.classes[class.index()].dropped(DropReason::PoolEmpty))).sum()
}

/// What that was, and what to do about it.
pub(crate) fn cause(config: &SwitchConfig) -> String {
    let frames = config.buffer.frames_max();
    format!(
        "the buffer held {frames} frames, as many as there is packet memory for, with bytes to spare; give [buffer] a smaller \
         mean_frame, or mean_frame = \"exact\""
    )
}

/// The switches that were told of.
#[derive(Debug, Default)]
pub(crate) struct MemoryLog {
    told: Vec<usize>,
    told_of_messages: Vec<usize>,
}

impl MemoryLog {
    /// Tells of a switch that has run out of packet memory, if it was not told of.
    pub(crate) fn tell(&mut self, index: usize, config: &SwitchConfig, report: &Report) {
        let put_off: u64 = report.ports.iter().map(|port| port.control_tx.put_off).sum();
        if put_off > 0 && !self.told_of_messages.contains(&index) {
            self.told_of_messages.push(index);
            tracing::error!(
                switch = %config.name,
                "messages of flow control had no packet memory in {put_off} rounds of lcores, and came late: a bug"
            );
        }
        let lossy = frames_without(config, report, false);
        if lossy > 0 && !self.told.contains(&index) {
            self.told.push(index);
            tracing::warn!(switch = %config.name, "{lossy} frames dropped (pool_empty): {}", cause(config));
        }
    }
}
