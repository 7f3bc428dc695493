//! Recent events, for `weir show events`.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use weir_control::state::Event;

/// The last events, up to [`EventLog::MOST`].
#[derive(Default)]
pub(crate) struct EventLog(VecDeque<Event>);

impl EventLog {
    /// Number of events kept.
    const MOST: usize = 1_000;

    /// Records an event with the current time.
    pub(crate) fn record(
        &mut self,
        switch: &str,
        port: Option<&str>,
        class: Option<usize>,
        event: &str,
        detail: String,
    ) {
        if self.0.len() == Self::MOST {
            self.0.pop_front();
        }
        let (switch, event) = (switch.to_owned(), event.to_owned());
        self.0.push_back(Event { unix_ms: unix_ms(), switch, port: port.map(str::to_owned), class, event, detail });
    }

    /// The events of these switches, and these ports if any is named; oldest first.
    pub(crate) fn matching(&self, switches: &[&str], ports: &[String]) -> Vec<Event> {
        let is_wanted = |event: &&Event| {
            switches.contains(&event.switch.as_str())
                && (ports.is_empty() || event.port.as_ref().is_some_and(|port| ports.contains(port)))
        };
        self.0.iter().filter(is_wanted).cloned().collect()
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
}
