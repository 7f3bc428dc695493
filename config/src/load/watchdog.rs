//! `[pfc_watchdog]`.

use weir_units::Span;

use crate::read::{TIME, Table};
use crate::{PfcWatchdogConfig, PortConfig, StormCondition, WatchdogAction};

/// SONiC's default for all three times; for each further 32 ports it is added once more.
const TIME_DEFAULT: Span = Span::from_millis(200);
const PORTS_PER_TIME: u64 = 32;

/// Reads the watchdog; `None` where there is no such table.
pub(super) fn read(root: &Table<'_>, ports: &[PortConfig]) -> Option<PfcWatchdogConfig> {
    if !root.has("pfc_watchdog") {
        return None;
    }
    let table = root.table("pfc_watchdog", "pfc_watchdog");
    let real_ports = ports.iter().filter(|port| port.clone_of().is_none()).count() as u64;
    let default = TIME_DEFAULT * (real_ports.saturating_sub(1) / PORTS_PER_TIME + 1);
    let time = |key| table.quantity(key, &TIME, Span::from_micros(1)..=Span::from_secs(1_000)).unwrap_or(default);
    Some(PfcWatchdogConfig {
        action: table
            .choice(
                "action",
                &[
                    ("drop", WatchdogAction::Drop),
                    ("forward", WatchdogAction::Forward),
                    ("alert", WatchdogAction::Alert),
                ],
            )
            .unwrap_or(WatchdogAction::Drop),
        detection_time: time("detection_time"),
        restoration_time: time("restoration_time"),
        poll_interval: time("poll_interval"),
        condition: table
            .choice(
                "condition",
                &[("pfc-received", StormCondition::PfcReceived), ("queue-stalled", StormCondition::QueueStalled)],
            )
            .unwrap_or(StormCondition::PfcReceived),
    })
}
