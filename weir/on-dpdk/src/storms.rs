//! Logs the start and the end of PFC storms.

use std::collections::BTreeMap;

use weir_config::{SwitchConfig, WatchdogAction};
use weir_dpdk_driver::RunningSwitches;
use weir_results::run_dir::EventKind;
use weir_units::{Class, PortId};

use crate::event_sink::EventSink;

/// Logged storms of each watched (switch, port, class): detected and restored.
#[derive(Default)]
pub(crate) struct StormLog(BTreeMap<(usize, usize, usize), (u64, u64)>);

impl StormLog {
    /// Logs and records the changes since the last call, even storms that ended meanwhile.
    pub(crate) fn log(&mut self, switches: &[SwitchConfig], running: &RunningSwitches, sink: EventSink<'_>) {
        for (index, config) in switches.iter().enumerate() {
            let Some(watchdog) = &config.pfc_watchdog else { continue };
            for (number, port) in running.shared(index).ports().iter().enumerate() {
                for class in Class::ALL {
                    let Some(storms) = port.storm_counters(class) else { continue };
                    let is = (storms.deadlock_detected, storms.deadlock_restored);
                    let was = self.0.insert((index, number, class.index()), is).unwrap_or_default();
                    let (id, of) = (PortId(number as u16), Some(class));
                    let (switch, port, class) = (&config.name, &port.name, class.index());
                    if is.0 > was.0 {
                        sink(index, id, of, EventKind::StormDetected(is.0 - was.0));
                        let what = consequence(watchdog.action);
                        tracing::warn!(switch = %switch, port = %port, class, "PFC storm detected: {what}");
                    }
                    if is.1 > was.1 {
                        sink(index, id, of, EventKind::StormRestored(is.1 - was.1));
                        tracing::info!(switch = %switch, port = %port, class, "PFC storm over: the queue is restored");
                    }
                }
            }
        }
    }
}

fn consequence(action: WatchdogAction) -> &'static str {
    match action {
        WatchdogAction::Drop => "the queue's frames are dropped, and those that arrive in its class",
        WatchdogAction::Forward => "the queue ignores PFC",
        WatchdogAction::Alert => "the queue stays paused",
    }
}
