//! Flow-control messages that were late for want of packet memory, a fault of the set-up, and full forwarding tables: logged once for each
//! switch.

use weir_config::SwitchConfig;
use weir_switch_core::Report;

/// The switches whose late messages were logged, and those whose full tables were.
#[derive(Debug, Default)]
pub(crate) struct MemoryLog {
    logged: Vec<usize>,
    full_tables: Vec<usize>,
}

impl MemoryLog {
    /// Logs that the forwarding table of a switch was too small, once for each switch. `replaced`: number of stations that it replaced.
    pub(crate) fn log_full_table(&mut self, index: usize, config: &SwitchConfig, replaced: u64) {
        if replaced > 0 && !self.full_tables.contains(&index) {
            self.full_tables.push(index);
            tracing::warn!(
                switch = %config.name,
                "the forwarding table, with room for {} stations, was full and has replaced {replaced} that it knew, to which frames are \
                 flooded until they send: write a larger fdb_size in [switch]",
                config.fdb_size
            );
        }
    }

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
