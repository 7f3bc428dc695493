//! Deadlock in a fabric: a persistent cycle of queues that wait for each other.
//!
//! The queues are the switches' egress queues that are *stuck*: backlogged and blocked (paused, or without credit for
//! their head frame). Let the link of egress queue E lead to ingress port q of switch B. E is blocked because B's ingress
//! queue at q is full. That ingress queue empties only through the egress queues of B that hold its packets: E waits for
//! each of these that is stuck too. The ingress queue has E's class, and the queues that hold its packets have their own.
//!
//! Hosts are left out. The egress queues of a host's NIC wait as a switch's do, but a host forwards nothing: no packet in
//! it is charged to its ingress port, so no queue waits for it, and it is in no cycle. A switch's queue towards a host that
//! pauses it waits for no queue: the host resumes independently of the fabric.
//!
//! A cycle at one instant need not be a deadlock: an ingress queue empties through egress queues outside the cycle
//! too, and a Resume may be in flight. So [`cycles`] returns the cycles at an instant, and a [`Detector`], which observes
//! successive instants, declares a deadlock when a cycle has persisted unchanged for the standstill.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use petgraph::algo::{astar, kosaraju_scc};
use petgraph::graphmap::DiGraphMap;
use weir_scenario::{PortRef, Scenario};
use weir_switch_core::Report;
use weir_switch_core::report::ClassReport;
use weir_units::{Bytes, CLASSES, Class, PortId, QueueId, Span, Time};

/// Egress queue of a switch in the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EgressQueue {
    /// Switch and port of the queue.
    pub place: PortRef,
    /// Class of the queue.
    pub class: Class,
}

/// Links between switches, by the ports at their ends.
///
/// Links to hosts are left out: see the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// Peer of each port, in both directions.
    peers: BTreeMap<PortRef, PortRef>,
}

/// State of a switch's egress queues at an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchState {
    /// Egress queues of each port, by class.
    pub ports: Vec<[EgressState; CLASSES]>,
}

/// State of an egress queue at an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressState {
    /// Whether the queue may not send its head frame: paused, or out of credit.
    pub blocked: bool,
    /// Whether frames wait in the queue.
    pub backlogged: bool,
    /// Ingress queues, lowest first, to which the queue's packets are charged; empty if the queue is not blocked.
    pub holds_from: Box<[QueueId]>,
    /// Frames sent from the queue since the start.
    pub frames_sent: u64,
}

/// Cycle of queues, each waiting for the next, that persisted for the detector's standstill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// Instant of the first observation of the whole cycle. None of its queues sent a frame from then to `declared_at`.
    pub since: Time,
    /// Instant of the observation at which the cycle had persisted for the standstill.
    pub declared_at: Time,
    /// Queues of the cycle, the lowest first: each waits for its successor, the last for the first.
    pub queues: Vec<EgressQueue>,
    /// Instant of the first observation after one of the queues sent a frame; `None` while the deadlock persists.
    pub dissolved_at: Option<Time>,
}

/// Detector of deadlocks, from successive observations of a fabric.
///
/// A wait of one queue for another *stands* from the first observation that shows it, as long as every later observation
/// shows it too and neither queue has sent a frame. A cycle of waits that all stand for the detector's standstill is a
/// deadlock. The switches count frames, so no frame sent between two observations is missed.
///
/// A declared deadlock is evidence, not proof: a queue outside the cycle, such as one towards a slow host, may still hold
/// packets that the cycle waits for, and dissolve it later. See [`Deadlock::dissolved_at`].
#[derive(Clone, Debug)]
pub struct Detector {
    links: Links,
    standstill: Span,
    last_at: Time,
    last: Vec<SwitchState>,
    /// Waits of the last observation, with the instant since which each stands.
    standing: BTreeMap<Wait, Time>,
    deadlocks: Vec<Deadlock>,
}

/// Pair of queues: the first waits for the second.
type Wait = (EgressQueue, EgressQueue);

impl Links {
    /// Creates an empty set of links.
    pub fn new() -> Links {
        Links::default()
    }

    /// Returns the links of a scenario.
    pub fn from_scenario(scenario: &Scenario) -> Links {
        let mut links = Links::new();
        scenario.links.iter().for_each(|link| links.join(link.ends[0], link.ends[1]));
        links
    }

    /// Adds a link.
    ///
    /// # Panics
    /// If one of the ports has a link already.
    pub fn join(&mut self, one: PortRef, other: PortRef) {
        for (from, to) in [(one, other), (other, one)] {
            let before = self.peers.insert(from, to);
            assert!(before.is_none(), "port {} of switch {} has two links", from.port, from.switch);
        }
    }

    /// Returns the switch port at the other end of a port's link; `None` if there is no link, or a host.
    pub fn peer(&self, port: PortRef) -> Option<PortRef> {
        self.peers.get(&port).copied()
    }
}

impl SwitchState {
    /// Reads a switch's report. Reports name the ingress ports of blocked queues only; others are irrelevant here.
    pub fn from_report(report: &Report) -> SwitchState {
        let queue = |class: &ClassReport| EgressState {
            blocked: !class.blocked_from.is_empty(),
            backlogged: class.egress > Bytes::ZERO,
            holds_from: class.blocked_from.clone(),
            frames_sent: class.tx_frames,
        };
        SwitchState {
            ports: report.ports.iter().map(|port| port.classes.each_ref().map(|class| queue(class))).collect(),
        }
    }
}

impl EgressState {
    /// Whether the queue is blocked with frames waiting.
    pub fn is_stuck(&self) -> bool {
        self.blocked && self.backlogged
    }

    fn holds_any_from(&self, ingress: QueueId) -> bool {
        self.holds_from.binary_search(&ingress).is_ok()
    }
}

impl Deadlock {
    /// Describes the cycle, with the scenario's port names.
    pub fn cycle_in(&self, scenario: &Scenario) -> String {
        self.describe(|place| scenario.port_name(place))
    }

    /// Whether none of the queues has sent a frame since.
    pub fn persists(&self) -> bool {
        self.dissolved_at.is_none()
    }

    /// Describes the cycle, such as `S1.p1 -> S2.p1 -> S3.p1 -> S1.p1, class 3`, with port names from `port_name`.
    pub fn describe<N: Display>(&self, port_name: impl Fn(PortRef) -> N) -> String {
        let around = self.queues.iter().chain(self.queues.first());
        let names: Vec<String> = around.map(|queue| port_name(queue.place).to_string()).collect();
        let classes: BTreeSet<String> = self.queues.iter().map(|queue| queue.class.index().to_string()).collect();
        let classes: Vec<String> = classes.into_iter().collect();
        format!("{}, class {}", names.join(" -> "), classes.join(" and "))
    }
}

impl EgressQueue {
    fn state(self, switches: &[SwitchState]) -> &EgressState {
        &switches[self.place.switch].ports[self.place.port][self.class.index()]
    }
}

impl Detector {
    /// Creates a detector for switches joined by `links`. A cycle that persists for `standstill` is a deadlock.
    ///
    /// The standstill should exceed several feedback delays and pause refresh intervals: while feedback is in flight, a cycle
    /// may be about to dissolve.
    pub fn new(links: Links, standstill: Span) -> Detector {
        Detector {
            links,
            standstill,
            last_at: Time::ZERO,
            last: Vec::new(),
            standing: BTreeMap::new(),
            deadlocks: Vec::new(),
        }
    }

    /// Creates a detector for a scenario's switches. The standstill is 20 times the longest delay, and at least 1 ms.
    pub fn for_scenario(scenario: &Scenario) -> Detector {
        let standstill = (scenario.longest_delay() * 20).max(Span::from_millis(1));
        Detector::new(Links::from_scenario(scenario), standstill)
    }

    /// Observes the switches at `now`; returns the deadlock that this observation declares, if any.
    ///
    /// Each deadlock is declared once, even if more queues join it. If several are declared at once, returns the deadlock with
    /// the lowest queue; all are in [`deadlocks`](Detector::deadlocks).
    ///
    /// # Panics
    /// If `now` is before the last observation, or if a switch or port of the links or of the last observation is missing.
    pub fn observe(&mut self, now: Time, switches: &[SwitchState]) -> Option<&Deadlock> {
        assert!(self.last_at <= now, "an observation at {now:?} after one at {:?}", self.last_at);
        // Called only for queues of the last observation.
        let has_sent = |queue: EgressQueue| queue.state(switches).frames_sent != queue.state(&self.last).frames_sent;
        for deadlock in self.deadlocks.iter_mut().filter(|deadlock| deadlock.persists()) {
            if deadlock.queues.iter().any(|queue| has_sent(*queue)) {
                deadlock.dissolved_at = Some(now);
            }
        }
        let stands_since = |(waiting, awaited): Wait| {
            let since = self.standing.get(&(waiting, awaited)).copied();
            since.filter(|_| !has_sent(waiting) && !has_sent(awaited)).unwrap_or(now)
        };
        self.standing = waits(&self.links, switches).map(|wait| (wait, stands_since(wait))).collect();
        let known = self.deadlocks.len();
        self.declare(now);
        switches.clone_into(&mut self.last);
        self.last_at = now;
        self.deadlocks.get(known)
    }

    /// Observes the switches at `now` by their reports. Without a stuck queue that costs little.
    pub fn observe_reports(&mut self, now: Time, reports: &[Report]) -> Option<&Deadlock> {
        let is_waiting = !self.standing.is_empty() || self.deadlocks.iter().any(Deadlock::persists);
        let is_new = |report: &&Report| report.at > self.last_at;
        if !is_waiting && !reports.iter().filter(is_new).any(has_stuck_queue) {
            self.last_at = now;
            return None;
        }
        let states: Vec<SwitchState> = reports.iter().map(SwitchState::from_report).collect();
        self.observe(now, &states)
    }

    /// Returns the first declared deadlock that persists, or else the first of all.
    pub fn deadlock(&self) -> Option<&Deadlock> {
        self.deadlocks.iter().find(|deadlock| deadlock.persists()).or(self.deadlocks.first())
    }

    /// Returns all deadlocks so far, in order of declaration.
    pub fn deadlocks(&self) -> &[Deadlock] {
        &self.deadlocks
    }

    /// Declares the cycles that have persisted for the standstill, except those that joined a persisting deadlock.
    fn declare(&mut self, now: Time) {
        let old = self.standing.iter().filter(|(_, since)| now.since(**since) >= self.standstill);
        let graph = WaitForGraph::new(old.map(|(wait, _)| *wait));
        for component in graph.components() {
            let mut persisting = self.deadlocks.iter().filter(|deadlock| deadlock.persists());
            if persisting.any(|known| known.queues.iter().any(|queue| component.contains(queue))) {
                continue;
            }
            let queues = graph.cycle(&component);
            let next = queues.iter().skip(1).chain(queues.first());
            let since = queues.iter().zip(next).map(|(from, to)| self.standing[&(*from, *to)]).max();
            let since = since.expect("a cycle has queues");
            self.deadlocks.push(Deadlock { since, declared_at: now, queues, dissolved_at: None });
        }
    }
}

fn has_stuck_queue(report: &Report) -> bool {
    let mut queues = report.ports.iter().flat_map(|port| &port.classes);
    queues.any(|class| !class.blocked_from.is_empty() && class.egress > Bytes::ZERO)
}

/// Returns the cycles at an instant, one for each maximal set of stuck queues that wait for each other, directly or indirectly.
///
/// The cycle is a shortest cycle through the set's lowest queue. Each queue waits for its successor, and the last for the first.
///
/// # Panics
/// If a switch or port of the links is missing.
pub fn cycles(links: &Links, switches: &[SwitchState]) -> Vec<Vec<EgressQueue>> {
    let graph = WaitForGraph::new(waits(links, switches));
    graph.components().iter().map(|component| graph.cycle(component)).collect()
}

/// Returns all waits at an instant.
fn waits(links: &Links, switches: &[SwitchState]) -> impl Iterator<Item = Wait> {
    let between = links.peers.iter().flat_map(|link| Class::ALL.map(|class| (link, class)));
    let at = |place: &PortRef, class: Class| EgressQueue { place: *place, class };
    between.filter(move |((from, _), class)| at(from, *class).state(switches).is_stuck()).flat_map(
        move |((from, to), class)| {
            let ports = 0..switches[to.switch].ports.len();
            let places = ports.map(move |port| PortRef { port, ..*to });
            let egress = places.flat_map(move |place| Class::ALL.map(|own| at(&place, own)));
            let ingress = QueueId::new(PortId(to.port as u16), class);
            let awaited = egress.filter(move |queue| {
                let state = queue.state(switches);
                state.is_stuck() && state.holds_any_from(ingress)
            });
            awaited.map(move |queue| (at(from, class), queue))
        },
    )
}

struct WaitForGraph(DiGraphMap<EgressQueue, ()>);

impl WaitForGraph {
    fn new(waits: impl Iterator<Item = Wait>) -> WaitForGraph {
        WaitForGraph(DiGraphMap::from_edges(waits))
    }

    /// Returns the maximal sets of queues that wait for each other. Queues in a set and the sets are in ascending order.
    fn components(&self) -> Vec<Vec<EgressQueue>> {
        // Not Tarjan's algorithm: petgraph's is recursive, and chains may be as long as the fabric is large.
        let mut components = kosaraju_scc(&self.0);
        components.retain(|queues| queues.len() > 1 || self.0.contains_edge(queues[0], queues[0]));
        components.iter_mut().for_each(|queues| queues.sort());
        components.sort();
        components
    }

    /// Returns a shortest cycle through the lowest queue of a component.
    fn cycle(&self, component: &[EgressQueue]) -> Vec<EgressQueue> {
        let lowest = component[0];
        let closes = |queue| self.0.contains_edge(queue, lowest);
        let path = astar(&self.0, lowest, closes, |_| 1_u32, |_| 0);
        path.expect("a queue of a component reaches itself").1
    }
}
