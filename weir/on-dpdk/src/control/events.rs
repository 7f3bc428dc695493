//! Recent events, for `weir show events`.

use std::collections::{BTreeMap, VecDeque};
use std::time::{SystemTime, UNIX_EPOCH};

use weir_config::names_port;
use weir_control::state::Event;

/// The last events of the switches, and the last changes by their operators, each up to [`EventLog::MOST`]: neither displaces the other.
#[derive(Default)]
pub(crate) struct EventLog {
    events: VecDeque<NumberedEvent>,
    changes: VecDeque<NumberedEvent>,
    recorded: u64,
}

/// Event with its number, in the order of records.
type NumberedEvent = (u64, Event);

impl EventLog {
    /// Number of events kept, and of changes.
    const MOST: usize = 1_000;
    /// Kinds of events that are changes: of keys, and by `weir clear`.
    const CHANGES: [&'static str; 6] =
        ["key_set", "key_needs_restart", "key_refused", "counters_cleared", "watermarks_cleared", "mac_cleared"];

    /// Records an event with the current time. A full log loses its oldest event of the most frequent kind.
    pub(crate) fn record(
        &mut self,
        switch: &str,
        port: Option<&str>,
        class: Option<usize>,
        event: &str,
        detail: String,
    ) {
        let log = if Self::CHANGES.contains(&event) { &mut self.changes } else { &mut self.events };
        if log.len() == Self::MOST {
            let mut counts = BTreeMap::new();
            log.iter().for_each(|(_, event)| *counts.entry(event.event.as_str()).or_insert(0) += 1);
            let kind = counts.into_iter().max_by_key(|(_, count)| *count).map(|(kind, _)| kind.to_owned());
            let oldest = log.iter().position(|(_, event)| Some(&event.event) == kind.as_ref());
            oldest.and_then(|oldest| log.remove(oldest));
        }
        let (switch, event) = (switch.to_owned(), event.to_owned());
        let event = Event { unix_ms: unix_ms(), switch, port: port.map(str::to_owned), class, event, detail };
        self.recorded += 1;
        log.push_back((self.recorded, event));
    }

    /// The events of these switches, and these ports if any is named; oldest first.
    pub(crate) fn matching(&self, switches: &[&str], ports: &[String]) -> Vec<Event> {
        let is_wanted = |event: &&Event| {
            switches.contains(&event.switch.as_str())
                && (ports.is_empty()
                    || event.port.as_ref().is_some_and(|port| ports.iter().any(|name| names_port(name, port))))
        };
        let mut all: Vec<&NumberedEvent> = self.events.iter().chain(&self.changes).collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, event)| event).filter(is_wanted).cloned().collect()
    }
}

/// Now, in milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_events_are_dropped() {
        let mut log = EventLog::default();
        for n in 0..EventLog::MOST + 3 {
            let port = if n % 2 == 0 { Some("p0") } else { None };
            log.record("lab", port, None, "link_up", n.to_string());
        }
        let all = log.matching(&["lab"], &[]);
        assert_eq!((all.len(), all[0].detail.as_str()), (EventLog::MOST, "3"));
        assert_eq!(log.matching(&["lab"], &["p0".to_owned()]).len(), EventLog::MOST / 2);
        assert!(log.matching(&["other"], &[]).is_empty());
    }

    #[test]
    fn sets_drop_no_events_of_other_kinds() {
        let mut log = EventLog::default();
        for n in 0..700 {
            log.record("lab", Some("p0"), Some(3), "drop", format!("shared_full {n}"));
        }
        log.record("lab", Some("p0"), Some(3), "storm_detected", String::new());
        for n in 0..1_500 {
            for change in EventLog::CHANGES {
                log.record("lab", None, None, change, n.to_string());
            }
            log.record("lab", Some("p1"), None, if n % 2 == 0 { "link_up" } else { "link_down" }, n.to_string());
        }
        let all = log.matching(&["lab"], &[]);
        let count = |kind: &str| all.iter().filter(|event| event.event == kind).count();
        assert_eq!((all.len(), count("storm_detected")), (2 * EventLog::MOST, 1));
        // Three frequent kinds share the rest.
        assert!(["drop", "link_up", "link_down"].iter().all(|kind| count(kind) >= 332), "{}", count("drop"));
        assert_eq!(all.first().map(|event| event.event.as_str()), Some("drop"));
        assert_eq!(all.last().map(|event| (event.event.as_str(), event.detail.as_str())), Some(("link_down", "1499")));
    }
}
