//! Messages of flow control that had no packet memory and came late, which should not be: told once of each switch while it runs.

use weir_config::SwitchConfig;
use weir_switch_core::Report;

/// The switches that were told of.
#[derive(Debug, Default)]
pub(crate) struct MemoryLog {
    told: Vec<usize>,
}

impl MemoryLog {
    /// Tells of a switch whose messages have come late, if it was not told of.
    pub(crate) fn tell(&mut self, index: usize, config: &SwitchConfig, report: &Report) {
        let put_off: u64 = report.ports.iter().map(|port| port.control_tx.put_off).sum();
        if put_off > 0 && !self.told.contains(&index) {
            self.told.push(index);
            tracing::error!(
                switch = %config.name,
                "messages of flow control had no packet memory in {put_off} rounds of lcores, and came late: a bug"
            );
        }
    }
}
