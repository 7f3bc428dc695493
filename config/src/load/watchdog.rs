//! `[pfc_watchdog]`.

use weir_reader::{Doc, Key, Problem, Table};
use weir_units::Span;

use crate::keys::pfc_watchdog as keys;
use crate::{PortConfig, SwitchConfig, WatchdogConfig};

/// SONiC's default for all three times; the default grows by this for each further 32 ports.
const TIME_DEFAULT: Span = Span::from_millis(200);
const PORTS_PER_TIME: u64 = 32;

pub(super) fn read(root: &Table<'_>, ports: &[PortConfig]) -> Option<WatchdogConfig> {
    if !root.has("pfc_watchdog") {
        return None;
    }
    let table = root.table("pfc_watchdog", "pfc_watchdog");
    let real_ports = ports.iter().filter(|port| port.clone_of().is_none()).count() as u64;
    let default = TIME_DEFAULT * (real_ports.saturating_sub(1) / PORTS_PER_TIME + 1);
    let time = |key: &Key<Span>| table.given(key).unwrap_or(default);
    let watchdog = WatchdogConfig {
        action: table.get(&keys::ACTION),
        detection_time: time(&keys::DETECTION_TIME),
        restoration_time: time(&keys::RESTORATION_TIME),
        poll_interval: time(&keys::POLL_INTERVAL),
        condition: table.get(&keys::CONDITION),
    };
    at_least_a_poll(&table, keys::DETECTION_TIME.name, watchdog.detection_time, watchdog.poll_interval);
    at_least_a_poll(&table, keys::RESTORATION_TIME.name, watchdog.restoration_time, watchdog.poll_interval);
    Some(watchdog)
}

/// Checks that a time is at least the poll interval, since events between two polls are invisible.
fn at_least_a_poll(table: &Table<'_>, key: &str, time: Span, poll_interval: Span) {
    let poll = keys::POLL_INTERVAL.name;
    if time >= poll_interval || !table.doc().sound(&[&table.key_path(key), &table.key_path(poll)]) {
        return;
    }
    let from = |key| if table.has(key) { "" } else { " (the default)" };
    let message = format!("`{key}` {time}{} must be at least `{poll}` {poll_interval}{}", from(key), from(poll));
    let problem = Problem::new(message, format!("write {key} = \"{poll_interval}\" or more, or a shorter {poll}"));
    table.doc().note(if table.has(key) {
        problem.with_label(table.key_path(key), "").with_label(table.key_path(poll), "the time between two polls")
    } else {
        problem.with_label(table.key_path(poll), "")
    });
}

/// Records an error for a watchdog without any port that receives PFC.
pub(super) fn check(doc: &Doc, config: &SwitchConfig) {
    let may_hear_pfc = |index: usize| {
        let hears = config.ports[index].flow_control.message_kind().has_pfc();
        hears || !doc.sound(&[&format!("ports[{index}].flow_control")])
    };
    let ports = config.ports.len();
    if config.pfc_watchdog.is_none() || ports == 0 || (0..ports).any(may_hear_pfc) {
        return;
    }
    let help = "take [pfc_watchdog] out, or write flow_control = \"pfc\" in a port";
    let problem = Problem::new("[pfc_watchdog] is given, but no port speaks PFC", help);
    doc.note(problem.with_key_label("pfc_watchdog", ""));
}
