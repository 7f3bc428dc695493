//! Flow-control messages that were late for want of packet memory, a fault of the set-up: logged once for each switch.

use weir_config::SwitchConfig;
use weir_switch_core::Report;

/// The switches whose late messages were logged.
#[derive(Debug, Default)]
pub(crate) struct MemoryLog {
    logged: Vec<usize>,
}

impl MemoryLog {
    /// Logs that messages of a switch were late, once for each switch.
    pub(crate) fn log(&mut self, index: usize, config: &SwitchConfig, report: &Report) {
        let put_off: u64 = report.ports.iter().map(|port| port.control_tx.put_off).sum();
        if put_off > 0 && !self.logged.contains(&index) {
            self.logged.push(index);
            tracing::error!(
                switch = %config.name,
                "messages of flow control had no packet memory in {put_off} rounds of lcores, and came late, which Weir's layout of memory rules out: please \
                 report it, with the configuration"
            );
        }
    }
}
