//! Live standstill in a fabric: queues that hold frames and hardly send, without a deadlock.
//!
//! GFC never stops a queue, but it may slow down all queues of a cycle again and again. None of these queues is blocked, so
//! no [deadlock](crate::deadlock) is found. An egress queue towards another switch *stands* after a window of [`WINDOW`] in
//! which it held frames of a lossless class at each observation, and sent below 1/[`RATE_DIVISOR`] of its port's rate.
//! Windows do not overlap. A new window starts where the queue is empty, its link is down, or a deadlock persists.

#[cfg(test)]
mod tests;

use weir_scenario::{PortRef, Scenario};
use weir_switch_core::Report;
use weir_units::{BitRate, Bytes, Class, Span, Time};

use crate::deadlock::EgressQueue;

/// Shortest window in which a queue is judged.
pub const WINDOW: Span = Span::from_millis(5);
/// Port rate divided by the rate below which a queue stands.
pub const RATE_DIVISOR: u64 = 100;

/// Period in which at least one queue stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standstill {
    /// Start of the first window of a standing queue.
    pub since: Time,
    /// Queues that have stood, in ascending order.
    pub queues: Vec<EgressQueue>,
    /// First observation at which no queue stands; `None` while one does.
    pub dissolved_at: Option<Time>,
}

/// Detector of standstills, from successive reports of all switches.
#[derive(Clone, Debug)]
pub struct StandstillDetector {
    queues: Vec<QueueWindow>,
    standstills: Vec<Standstill>,
}

#[derive(Clone, Debug)]
struct QueueWindow {
    queue: EgressQueue,
    /// Configured rate of the port; `None` to take the reported one.
    rate: Option<BitRate>,
    window_start: Time,
    /// Bytes sent by the start of the window.
    sent_before: u64,
    stands_since: Option<Time>,
}

/// State of a queue at an observation.
#[derive(Clone, Copy, Debug)]
struct QueueState {
    /// Whether frames wait and the link is up.
    is_waiting: bool,
    sent_bytes: u64,
    link_rate: Option<BitRate>,
}

impl Standstill {
    /// Whether a queue still stands.
    pub fn persists(&self) -> bool {
        self.dissolved_at.is_none()
    }

    /// Returns the queues with the scenario's port names, such as `S1.next, class 3`.
    pub fn queues_in(&self, scenario: &Scenario) -> Vec<String> {
        let name = |queue: &EgressQueue| format!("{}, class {}", scenario.port_name(queue.place), queue.class.index());
        self.queues.iter().map(name).collect()
    }
}

impl StandstillDetector {
    /// Creates a detector for the lossless queues between a scenario's switches.
    pub fn for_scenario(scenario: &Scenario) -> StandstillDetector {
        let places = scenario.links.iter().flat_map(|link| link.ends);
        let of_place = |place: PortRef| {
            let switch = &scenario.switches[place.switch];
            let rate = switch.ports[place.port].rate;
            let classes = Class::ALL.into_iter().filter(|class| switch.classes.lossless.contains(*class));
            classes.map(move |class| QueueWindow::new(EgressQueue { place, class }, rate))
        };
        StandstillDetector { queues: places.flat_map(of_place).collect(), standstills: Vec::new() }
    }

    /// Observes the switches at `now`. A persisting deadlock explains all standing queues, so it ends the standstill.
    pub fn observe(&mut self, now: Time, reports: &[Report], is_deadlocked: bool) {
        self.observe_states(now, |queue| {
            let port = &reports[queue.place.switch].ports[queue.place.port];
            let class = &port.classes[queue.class.index()];
            QueueState {
                is_waiting: port.link_up && class.egress > Bytes::ZERO && !is_deadlocked,
                sent_bytes: class.tx_bytes,
                link_rate: port.link_rate,
            }
        });
    }

    fn observe_states(&mut self, now: Time, state: impl Fn(EgressQueue) -> QueueState) {
        for observed in &mut self.queues {
            observed.observe(now, state(observed.queue));
        }
        let standing: Vec<&QueueWindow> = self.queues.iter().filter(|it| it.stands_since.is_some()).collect();
        let since = standing.iter().filter_map(|observed| observed.stands_since).min();
        let persisting = self.standstills.last_mut().filter(|standstill| standstill.persists());
        match (persisting, since) {
            (Some(standstill), None) => standstill.dissolved_at = Some(now),
            (Some(standstill), Some(_)) => {
                standstill.queues.extend(standing.iter().map(|observed| observed.queue));
                standstill.queues.sort();
                standstill.queues.dedup();
            }
            (None, Some(since)) => {
                let mut queues: Vec<EgressQueue> = standing.iter().map(|observed| observed.queue).collect();
                queues.sort();
                self.standstills.push(Standstill { since, queues, dissolved_at: None });
            }
            (None, None) => {}
        }
    }

    /// Returns the standstill that persists, or else the first of all.
    pub fn standstill(&self) -> Option<&Standstill> {
        self.standstills.last().filter(|last| last.persists()).or(self.standstills.first())
    }
}

impl QueueWindow {
    fn new(queue: EgressQueue, rate: Option<BitRate>) -> QueueWindow {
        QueueWindow { queue, rate, window_start: Time::ZERO, sent_before: 0, stands_since: None }
    }

    fn observe(&mut self, now: Time, state: QueueState) {
        let window = now.since(self.window_start);
        if !state.is_waiting {
            self.stands_since = None;
        } else if window < WINDOW {
            return;
        } else {
            let sent = Bytes::new(state.sent_bytes - self.sent_before);
            let rate = self.rate.or(state.link_rate);
            let is_slow = rate.is_some_and(|rate| sent * RATE_DIVISOR < rate.bytes_in(window));
            self.stands_since = is_slow.then(|| self.stands_since.unwrap_or(self.window_start));
        }
        (self.window_start, self.sent_before) = (now, state.sent_bytes);
    }
}
