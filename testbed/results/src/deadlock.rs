//! Deadlock in a fabric: a cycle of queues that wait for each other, and that stays.
//!
//! The queues are the switches' egress queues that are *stuck*: backlogged and blocked (paused, or without credit for
//! their head frame). Say that the link of queue E leads to ingress port q of switch B. E is blocked as B's ingress
//! queue at q is full, and that one empties only through the egress queues of B that hold its packets: E waits for
//! each of those that is stuck too. Classes never wait for each other, as they are paused apart.
//!
//! Hosts are left out. A host's NIC has egress queues that wait as a switch's do, but it forwards nothing: no packet
//! in it is charged to a port of its own, hence nobody waits for it, and it is in no cycle. A switch's queue towards a
//! host that pauses it waits for nobody here: the host takes frames again when it likes, whatever the fabric does.
//!
//! A cycle at one instant need not be a deadlock: an ingress queue empties through egress queues outside the cycle
//! too, and a Resume may be on its way. So [`cycles`] says what an instant looks like, and a [`Detector`], shown one
//! instant after the other, declares a deadlock when a cycle has stood unchanged for long.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Display;

use petgraph::algo::{astar, kosaraju_scc};
use petgraph::graphmap::DiGraphMap;
use weir_scenario::{PortPlace, Scenario};
use weir_switch_core::Report;
use weir_switch_core::report::ClassReport;
use weir_units::archive::{Archive, Blank, State, Value};
use weir_units::{Bytes, CLASSES, Class, PortId, Span, Time};

/// An egress queue of a switch in the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Value)]
pub struct EgressQueue {
    /// The port.
    pub place: PortPlace,
    /// The class.
    pub class: Class,
}

/// Which ports are joined by the links between switches.
///
/// Links to hosts are not in it: see the module's text.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// Both ways.
    peers: BTreeMap<PortPlace, PortPlace>,
}

/// A switch at an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Value)]
pub struct SwitchState {
    /// The egress queues of each port, by class.
    pub ports: Vec<[EgressState; CLASSES]>,
}

/// An egress queue at an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressState {
    /// Whether it may not send its head frame: paused, or out of credit.
    pub blocked: bool,
    /// Whether frames wait in it.
    pub backlogged: bool,
    /// The ingress ports, lowest first, to which packets are charged that it holds, in this class.
    pub holds_from: Box<[PortId]>,
    /// Frames sent from the queue since the start.
    pub frames_sent: u64,
}

/// A cycle of queues, each waiting for the next, that stood for as long as the detector was told to wait for.
#[derive(Clone, Debug, PartialEq, Eq, Value)]
pub struct Deadlock {
    /// The first observation at which the cycle was as it is; none of its queues sent a frame since.
    pub since: Time,
    /// The observation at which it had stood for long enough.
    pub declared_at: Time,
    /// The cycle: each queue waits for the one after it, the last for the first, which is the lowest of them.
    pub queues: Vec<EgressQueue>,
    /// The first observation after one of the queues sent a frame all the same; `None` while the deadlock persists.
    pub dissolved_at: Option<Time>,
}

/// Looks at a fabric from time to time and finds what stands still.
///
/// A wait of one queue for another *stands* from the first observation that shows it, for as long as every later one
/// shows it too and neither queue has sent a frame. A cycle of waits that all stand for the detector's standstill is a
/// deadlock. As frames are counted by the switches, no frame sent between two observations escapes.
///
/// A deadlock found so is evidence, not proof: a queue outside the cycle, such as one towards a slow host, may still hold
/// packets that the cycle waits for, and free it after longer than the standstill. [`Deadlock::dissolved_at`] tells.
#[derive(Clone, Debug, State)]
pub struct Detector {
    #[state(same)]
    links: Links,
    #[state(same)]
    standstill: Span,
    last_at: Time,
    last: Vec<SwitchState>,
    /// Each wait that the last observation showed, and since when it stands.
    standing: BTreeMap<Wait, Time>,
    deadlocks: Vec<Deadlock>,
}

/// The first queue waits for the second.
type Wait = (EgressQueue, EgressQueue);

impl State for EgressState {
    fn state(&mut self, archive: &mut Archive) {
        let EgressState { blocked, backlogged, holds_from, frames_sent } = self;
        blocked.state(archive);
        backlogged.state(archive);
        let mut ports = std::mem::take(holds_from).into_vec();
        ports.state(archive);
        *holds_from = ports.into();
        frames_sent.state(archive);
    }
}

impl Blank for EgressState {
    fn blank() -> EgressState {
        EgressState::default()
    }
}

impl Links {
    /// No link yet.
    pub fn new() -> Links {
        Links::default()
    }

    /// The links of a scenario.
    pub fn of(scenario: &Scenario) -> Links {
        let mut links = Links::new();
        scenario.links.iter().for_each(|link| links.join(link.ends[0], link.ends[1]));
        links
    }

    /// Adds a link.
    ///
    /// # Panics
    /// If one of the ports has a link already.
    pub fn join(&mut self, one: PortPlace, other: PortPlace) {
        for (from, to) in [(one, other), (other, one)] {
            let before = self.peers.insert(from, to);
            assert!(before.is_none(), "port {} of switch {} has two links", from.port, from.switch);
        }
    }

    /// What the port is joined with; `None` if that is a host, or nothing.
    pub fn peer(&self, port: PortPlace) -> Option<PortPlace> {
        self.peers.get(&port).copied()
    }
}

impl SwitchState {
    /// As a switch reports itself. Frames of a queue that is not blocked are of no interest here, and it does not tell who
    /// they are from.
    pub fn of(report: &Report) -> SwitchState {
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
    /// Whether it has something to send and may not.
    pub fn is_stuck(&self) -> bool {
        self.blocked && self.backlogged
    }

    fn holds_any_from(&self, ingress: usize) -> bool {
        self.holds_from.binary_search(&PortId(ingress as u16)).is_ok()
    }
}

impl Deadlock {
    /// The cycle in words, with the names that the scenario's ports have.
    pub fn cycle_in(&self, scenario: &Scenario) -> String {
        self.describe(|place| scenario.port_name(place))
    }

    /// Whether none of the queues has sent a frame yet.
    pub fn persists(&self) -> bool {
        self.dissolved_at.is_none()
    }

    /// The cycle in words, such as `S1.p1 -> S2.p1 -> S3.p1 -> S1.p1, class 3`, with the names that `port_name` gives.
    pub fn describe<N: Display>(&self, port_name: impl Fn(PortPlace) -> N) -> String {
        let around = self.queues.iter().chain(self.queues.first());
        let names: Vec<String> = around.map(|queue| port_name(queue.place).to_string()).collect();
        // Waits stay within a class.
        let class = self.queues[0].class.index();
        format!("{}, class {class}", names.join(" -> "))
    }
}

impl EgressQueue {
    fn state(self, switches: &[SwitchState]) -> &EgressState {
        &switches[self.place.switch].ports[self.place.port][self.class.index()]
    }
}

impl Detector {
    /// A detector for switches joined by `links` that calls a deadlock what stands still for `standstill`.
    ///
    /// Take more than a few feedback delays and refreshes of a pause: as long as feedback may be on its way, a cycle
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

    /// A detector for a scenario's switches. What stands still for far longer than any message is under way is a deadlock.
    pub fn of(scenario: &Scenario) -> Detector {
        let standstill = (scenario.longest_delay() * 20).max(Span::from_millis(1));
        Detector::new(Links::of(scenario), standstill)
    }

    /// Takes in the switches as they are at `now`, and answers with the deadlock that is declared by it, if any.
    ///
    /// Each deadlock is declared once, even if more queues join it. If several are declared at once, this is the one
    /// with the lowest queue; all are in [`deadlocks`](Detector::deadlocks).
    ///
    /// # Panics
    /// If `now` is before the last observation, or a switch or port is missing that is in the links or was there then.
    pub fn observe(&mut self, now: Time, switches: &[SwitchState]) -> Option<&Deadlock> {
        assert!(self.last_at <= now, "an observation at {now:?} after one at {:?}", self.last_at);
        // Asked only of queues that the last observation showed.
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

    /// The deadlock declared first of those that persist; if none does, of all.
    pub fn deadlock(&self) -> Option<&Deadlock> {
        self.deadlocks.iter().find(|deadlock| deadlock.persists()).or(self.deadlocks.first())
    }

    /// All deadlocks found so far, in the order in which they were declared.
    pub fn deadlocks(&self) -> &[Deadlock] {
        &self.deadlocks
    }

    /// Declares what has stood for long enough, but for what has only joined a deadlock that persists.
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

/// The cycles at an instant: one for each set of stuck queues that all wait, one through the other, for each other.
///
/// The cycle is a shortest one through the set's lowest queue; each queue waits for the one after it,
/// and the last for the first.
///
/// # Panics
/// If a switch or port is missing that is in the links.
pub fn cycles(links: &Links, switches: &[SwitchState]) -> Vec<Vec<EgressQueue>> {
    let graph = WaitForGraph::new(waits(links, switches));
    graph.components().iter().map(|component| graph.cycle(component)).collect()
}

/// Who waits for whom at an instant.
fn waits(links: &Links, switches: &[SwitchState]) -> impl Iterator<Item = Wait> {
    let between = links.peers.iter().flat_map(|link| Class::ALL.map(|class| (link, class)));
    let at = |place: &PortPlace, class: Class| EgressQueue { place: *place, class };
    between.filter(move |((from, _), class)| at(from, *class).state(switches).is_stuck()).flat_map(
        move |((from, to), class)| {
            let ports = 0..switches[to.switch].ports.len();
            let egress = ports.map(move |port| at(&PortPlace { port, ..*to }, class));
            let awaited = egress.filter(|queue| {
                let state = queue.state(switches);
                state.is_stuck() && state.holds_any_from(to.port)
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

    /// The largest sets of queues that wait for each other, each set and all of them from the lowest queue up.
    fn components(&self) -> Vec<Vec<EgressQueue>> {
        // Not Tarjan's, which petgraph does by recursion: chains may be as long as the fabric is large.
        let mut components = kosaraju_scc(&self.0);
        components.retain(|queues| queues.len() > 1 || self.0.contains_edge(queues[0], queues[0]));
        components.iter_mut().for_each(|queues| queues.sort());
        components.sort();
        components
    }

    /// A shortest cycle through the lowest queue of a component.
    fn cycle(&self, component: &[EgressQueue]) -> Vec<EgressQueue> {
        let lowest = component[0];
        let closes = |queue| self.0.contains_edge(queue, lowest);
        let path = astar(&self.0, lowest, closes, |_| 1_u32, |_| 0);
        path.expect("a queue of a component reaches itself").1
    }
}
