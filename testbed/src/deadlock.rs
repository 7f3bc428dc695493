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

use std::collections::BTreeMap;
use std::fmt::Display;

use petgraph::algo::{astar, kosaraju_scc};
use petgraph::graphmap::DiGraphMap;
use weir_units::{CLASSES, Class, PortId, Span, Time};

/// An egress queue of a switch in the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EgressQueue {
    /// The switch, by its position in the fabric.
    pub switch: usize,
    /// The port of the switch.
    pub port: PortId,
    /// The class.
    pub class: Class,
}

/// A port of a switch in the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FabricPort {
    /// The switch, by its position in the fabric.
    pub switch: usize,
    /// The port of the switch.
    pub port: PortId,
}

/// Which ports are joined by the links between switches.
///
/// Links to hosts are not in it: see the module's text.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// Both ways.
    peers: BTreeMap<FabricPort, FabricPort>,
}

/// A switch at an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchState {
    /// The egress queues of each port, by class.
    pub ports: Vec<[EgressState; CLASSES]>,
}

/// An egress queue at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EgressState {
    /// Whether it may not send its head frame: paused, or out of credit.
    pub blocked: bool,
    /// How many frames wait in it.
    pub backlog_frames: u64,
    /// Bit i: it holds a packet that is charged to ingress port i, in this class.
    pub holds_from: u64,
    /// How many frames it has sent since the start.
    pub frames_sent: u64,
}

/// A cycle of queues, each waiting for the next, that stood for as long as the detector was told to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
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
/// That is evidence, no proof: a queue outside the cycle, such as one towards a slow host, may still hold packets that
/// the cycle waits for, and free it after longer than the standstill. [`Deadlock::dissolved_at`] tells.
#[derive(Clone, Debug)]
pub struct Detector {
    links: Links,
    standstill: Span,
    last_at: Time,
    last: Vec<SwitchState>,
    /// Each wait that the last observation showed, and since when it stands.
    standing: BTreeMap<Wait, Time>,
    deadlocks: Vec<Deadlock>,
}

/// The first queue waits for the second.
type Wait = (EgressQueue, EgressQueue);

impl Links {
    /// No link yet.
    pub fn new() -> Links {
        Links::default()
    }

    /// Adds a link.
    ///
    /// # Panics
    /// If one of the ports has a link already, or is one that [`EgressState::holds_from`] has no bit for.
    pub fn join(&mut self, one: FabricPort, other: FabricPort) {
        for (from, to) in [(one, other), (other, one)] {
            assert!(from.port.index() < u64::BITS as usize, "port {} of switch {}", from.port.index(), from.switch);
            let before = self.peers.insert(from, to);
            assert!(before.is_none(), "port {} of switch {} has two links", from.port.index(), from.switch);
        }
    }

    /// What the port is joined with; `None` if that is a host, or nothing.
    pub fn peer(&self, port: FabricPort) -> Option<FabricPort> {
        self.peers.get(&port).copied()
    }
}

impl EgressState {
    /// Whether it has something to send and may not.
    pub fn is_stuck(&self) -> bool {
        self.blocked && self.backlog_frames > 0
    }

    fn holds_any_from(&self, ingress: PortId) -> bool {
        self.holds_from & (1 << ingress.index()) != 0
    }
}

impl Deadlock {
    /// Whether none of the queues has sent a frame yet.
    pub fn persists(&self) -> bool {
        self.dissolved_at.is_none()
    }

    /// The cycle in words, such as `S1.p1 -> S2.p1 -> S3.p1 -> S1.p1, class 3`, with the names that `port_name` gives.
    pub fn describe<N: Display>(&self, port_name: impl Fn(FabricPort) -> N) -> String {
        let around = self.queues.iter().chain(self.queues.first());
        let names: Vec<String> = around.map(|queue| port_name(queue.fabric_port()).to_string()).collect();
        // Waits stay within a class.
        let class = self.queues[0].class.index();
        format!("{}, class {class}", names.join(" -> "))
    }
}

impl FabricPort {
    fn queue(self, class: Class) -> EgressQueue {
        EgressQueue { switch: self.switch, port: self.port, class }
    }
}

impl EgressQueue {
    fn fabric_port(self) -> FabricPort {
        FabricPort { switch: self.switch, port: self.port }
    }

    fn state(self, switches: &[SwitchState]) -> &EgressState {
        &switches[self.switch].ports[self.port.index()][self.class.index()]
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
/// Of the cycles in such a set it is a shortest one through the lowest queue; each queue waits for the one after it,
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
    between.filter(|((from, _), class)| from.queue(*class).state(switches).is_stuck()).flat_map(
        |((from, to), class)| {
            let ports = (0..switches[to.switch].ports.len() as u16).map(PortId);
            let egress = ports.map(move |port| EgressQueue { switch: to.switch, port, class });
            let awaited = egress.filter(|queue| {
                let state = queue.state(switches);
                state.is_stuck() && state.holds_any_from(to.port)
            });
            awaited.map(move |queue| (from.queue(class), queue))
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STANDSTILL: Span = Span::from_micros(100);

    fn micros(us: u64) -> Time {
        Time::ZERO + Span::from_micros(us)
    }

    fn port(switch: usize, port: u16) -> FabricPort {
        FabricPort { switch, port: PortId(port) }
    }

    /// Names from 1 for switches and from 0 for ports.
    fn name(port: FabricPort) -> String {
        format!("S{}.p{}", port.switch + 1, port.port.index())
    }

    fn described(queues: Vec<EgressQueue>) -> String {
        Deadlock { since: Time::ZERO, declared_at: Time::ZERO, queues, dissolved_at: None }.describe(name)
    }

    /// Switches of which nothing is stuck, to be changed queue by queue.
    struct Fabric {
        links: Links,
        switches: Vec<SwitchState>,
    }

    impl Fabric {
        fn new(switches: usize, ports: usize, links: &[(FabricPort, FabricPort)]) -> Fabric {
            let mut joined = Links::new();
            links.iter().for_each(|(one, other)| joined.join(*one, *other));
            let idle = SwitchState { ports: vec![[EgressState::default(); CLASSES]; ports] };
            Fabric { links: joined, switches: vec![idle; switches] }
        }

        /// Rings of switches, one after the other, port 1 of each joined with port 2 of the next; hosts at port 0.
        fn rings(lengths: &[usize]) -> Fabric {
            let mut links = Vec::new();
            let mut first = 0;
            for length in lengths {
                links.extend((0..*length).map(|i| (port(first + i, 1), port(first + (i + 1) % length, 2))));
                first += length;
            }
            Fabric::new(first, 3, &links)
        }

        fn queue(&mut self, at: FabricPort, class: u8) -> &mut EgressState {
            &mut self.switches[at.switch].ports[at.port.index()][usize::from(class)]
        }

        /// The queue holds frames from these ingress ports and may not send.
        fn stick(&mut self, at: FabricPort, class: u8, from: &[u16]) {
            let queue = self.queue(at, class);
            queue.blocked = true;
            queue.backlog_frames = 10;
            queue.holds_from = from.iter().fold(0, |bits, port| bits | 1 << port);
        }

        /// As [`stick`](Fabric::stick), all around the ring of `length` switches from `first` on.
        fn stick_ring(&mut self, first: usize, length: usize, class: u8) {
            (first..first + length).for_each(|switch| self.stick(port(switch, 1), class, &[0, 2]));
        }

        fn cycles(&self) -> Vec<String> {
            cycles(&self.links, &self.switches).into_iter().map(described).collect()
        }
    }

    #[test]
    fn ring_of_three_is_a_deadlock_once_it_has_stood() {
        let mut fabric = Fabric::rings(&[3]);
        let mut detector = Detector::new(fabric.links.clone(), STANDSTILL);
        assert_eq!(detector.observe(micros(0), &fabric.switches), None);
        fabric.stick_ring(0, 3, 3);
        assert_eq!(detector.observe(micros(10), &fabric.switches), None);
        assert_eq!(detector.observe(micros(109), &fabric.switches), None);
        let found = detector.observe(micros(110), &fabric.switches).cloned().expect("has stood for 100 us");
        assert_eq!((found.since, found.declared_at), (micros(10), micros(110)));
        assert_eq!(found.describe(name), "S1.p1 -> S2.p1 -> S3.p1 -> S1.p1, class 3");
        assert!(found.persists());
        assert_eq!(detector.observe(micros(300), &fabric.switches), None, "is declared once");
        assert_eq!(detector.deadlock(), Some(&found));
    }

    #[test]
    fn two_rings_are_two_deadlocks() {
        let mut fabric = Fabric::rings(&[3, 4]);
        fabric.stick_ring(0, 3, 3);
        fabric.stick_ring(3, 4, 3);
        let both = ["S1.p1 -> S2.p1 -> S3.p1 -> S1.p1, class 3", "S4.p1 -> S5.p1 -> S6.p1 -> S7.p1 -> S4.p1, class 3"];
        assert_eq!(fabric.cycles(), both);
        let mut detector = Detector::new(fabric.links.clone(), STANDSTILL);
        detector.observe(micros(0), &fabric.switches);
        assert_eq!(detector.observe(micros(100), &fabric.switches).unwrap().describe(name), both[0]);
        assert_eq!(detector.deadlocks().iter().map(|found| found.describe(name)).collect::<Vec<_>>(), both);
        // One that goes on leaves the other.
        fabric.queue(port(1, 1), 3).frames_sent += 1;
        detector.observe(micros(110), &fabric.switches);
        assert_eq!(detector.deadlock().unwrap().describe(name), both[1]);
    }

    #[test]
    fn chain_is_no_cycle() {
        let mut fabric = Fabric::rings(&[4]);
        fabric.stick_ring(0, 4, 3);
        // The last has room for what it takes from hosts only.
        fabric.stick(port(3, 1), 3, &[0]);
        assert_eq!(fabric.cycles(), [""; 0]);
        assert_eq!(waits(&fabric.links, &fabric.switches).count(), 3);
    }

    #[test]
    fn queue_that_may_send_breaks_the_cycle() {
        let mut fabric = Fabric::rings(&[3]);
        fabric.stick_ring(0, 3, 3);
        fabric.queue(port(1, 1), 3).blocked = false;
        assert_eq!(fabric.cycles(), [""; 0]);
        fabric.stick_ring(0, 3, 3);
        fabric.queue(port(1, 1), 3).backlog_frames = 0;
        assert_eq!(fabric.cycles(), [""; 0]);
    }

    /// Two leaves with two hosts each send to a host at the root that pauses: all is blocked, and nothing is wrong.
    #[test]
    fn incast_tree_is_no_cycle() {
        let (root, leaves) = (0, [1, 2]);
        let links: Vec<_> = leaves.iter().map(|leaf| (port(*leaf, 0), port(root, *leaf as u16))).collect();
        let mut fabric = Fabric::new(3, 3, &links);
        fabric.stick(port(root, 0), 3, &[1, 2]);
        leaves.iter().for_each(|leaf| fabric.stick(port(*leaf, 0), 3, &[1, 2]));
        assert_eq!(waits(&fabric.links, &fabric.switches).count(), 2);
        let mut detector = Detector::new(fabric.links.clone(), STANDSTILL);
        (0..10).for_each(|i| assert_eq!(detector.observe(micros(i * 100), &fabric.switches), None));
        assert_eq!(detector.deadlock(), None);
    }

    #[test]
    fn cycle_that_dissolves_early_is_no_deadlock() {
        let mut fabric = Fabric::rings(&[3]);
        let mut detector = Detector::new(fabric.links.clone(), STANDSTILL);
        fabric.stick_ring(0, 3, 3);
        detector.observe(micros(0), &fabric.switches);
        detector.observe(micros(90), &fabric.switches);
        // What one of them held from the ring has left through another queue; later it is back.
        fabric.stick(port(2, 1), 3, &[0]);
        assert_eq!(detector.observe(micros(100), &fabric.switches), None);
        fabric.stick_ring(0, 3, 3);
        assert_eq!(detector.observe(micros(110), &fabric.switches), None);
        assert_eq!(detector.observe(micros(209), &fabric.switches), None);
        assert_eq!(detector.observe(micros(210), &fabric.switches).unwrap().since, micros(110));
    }

    /// Each observation shows the same cycle, but it moves in between.
    #[test]
    fn cycle_that_creeps_is_no_deadlock() {
        let mut fabric = Fabric::rings(&[3]);
        fabric.stick_ring(0, 3, 3);
        let mut detector = Detector::new(fabric.links.clone(), STANDSTILL);
        for i in 0..20 {
            fabric.queue(port(i as usize % 3, 1), 3).frames_sent += 1;
            assert_eq!(detector.observe(micros(i * 99), &fabric.switches), None);
        }
    }

    #[test]
    fn frame_sent_ends_a_deadlock_which_stays_known() {
        let mut fabric = Fabric::rings(&[3]);
        fabric.stick_ring(0, 3, 3);
        let mut detector = Detector::new(fabric.links.clone(), STANDSTILL);
        detector.observe(micros(0), &fabric.switches);
        detector.observe(micros(100), &fabric.switches).expect("has stood for 100 us");
        fabric.queue(port(2, 1), 3).frames_sent += 1;
        assert_eq!(detector.observe(micros(150), &fabric.switches), None);
        let known = detector.deadlock().cloned().unwrap();
        assert_eq!((known.since, known.dissolved_at, known.persists()), (micros(0), Some(micros(150)), false));
        // It stands again: another deadlock, after a standstill of its own.
        assert_eq!(detector.observe(micros(249), &fabric.switches), None);
        assert_eq!(detector.observe(micros(250), &fabric.switches).unwrap().since, micros(150));
        assert_eq!(detector.deadlocks()[0], known);
        assert!(detector.deadlock().unwrap().persists());
    }

    /// Queues that come to wait later neither delay a deadlock nor make another of it.
    #[test]
    fn deadlock_may_grow() {
        // A ring of three, and a fourth switch joined with the first two by ports 3.
        let mut links: Vec<_> = (0..3).map(|i| (port(i, 1), port((i + 1) % 3, 2))).collect();
        links.extend([(port(0, 3), port(3, 0)), (port(3, 1), port(1, 3))]);
        let mut fabric = Fabric::new(4, 4, &links);
        fabric.stick_ring(0, 3, 3);
        let mut detector = Detector::new(fabric.links.clone(), STANDSTILL);
        detector.observe(micros(0), &fabric.switches);
        // The first switch has more for the second, by way of the fourth.
        fabric.stick(port(0, 3), 3, &[2]);
        fabric.stick(port(3, 1), 3, &[0]);
        fabric.stick(port(1, 1), 3, &[0, 2, 3]);
        detector.observe(micros(50), &fabric.switches);
        let found = detector.observe(micros(100), &fabric.switches).expect("the ring has stood").clone();
        assert_eq!(found.describe(name), "S1.p1 -> S2.p1 -> S3.p1 -> S1.p1, class 3");
        assert_eq!(detector.observe(micros(500), &fabric.switches), None);
        assert_eq!(detector.deadlocks(), [found]);
    }

    #[test]
    fn classes_are_kept_apart() {
        let mut fabric = Fabric::rings(&[3]);
        fabric.stick(port(0, 1), 3, &[2]);
        fabric.stick(port(1, 1), 3, &[2]);
        fabric.stick(port(2, 1), 4, &[2]);
        assert_eq!(fabric.cycles(), [""; 0]);
        fabric.stick_ring(0, 3, 3);
        fabric.stick_ring(0, 3, 4);
        let of = |class| format!("S1.p1 -> S2.p1 -> S3.p1 -> S1.p1, class {class}");
        assert_eq!(fabric.cycles(), [of(3), of(4)]);
    }

    #[test]
    #[should_panic(expected = "port 1 of switch 0 has two links")]
    fn port_has_one_link() {
        Fabric::new(3, 2, &[(port(0, 1), port(1, 1)), (port(2, 1), port(0, 1))]);
    }

    const SWITCHES: usize = 4;
    const PORTS: usize = 3;
    /// Two classes suffice to tell whether they mix.
    const OF_CLASSES: [u8; 2] = [0, 5];

    /// Ports joined at random, two by two; some are left for hosts.
    fn random_links() -> impl Strategy<Value = Links> {
        let ports: Vec<_> = (0..SWITCHES).flat_map(|switch| (0..PORTS as u16).map(move |p| port(switch, p))).collect();
        (Just(ports).prop_shuffle(), 0..=SWITCHES * PORTS / 2).prop_map(|(ports, count)| {
            let mut links = Links::new();
            ports.chunks(2).take(count).for_each(|pair| links.join(pair[0], pair[1]));
            links
        })
    }

    /// Mostly stuck, and holding much, as cycles are rare otherwise.
    fn random_switches() -> impl Strategy<Value = Vec<SwitchState>> {
        let queue = (prop::bool::weighted(0.8), 0_u64..5, 0_u64..1 << PORTS);
        prop::collection::vec(queue, SWITCHES * PORTS * OF_CLASSES.len()).prop_map(|queues| {
            let mut queues = queues.into_iter();
            let mut switches = Fabric::new(SWITCHES, PORTS, &[]).switches;
            for queues_of_port in switches.iter_mut().flat_map(|switch| &mut switch.ports) {
                for class in OF_CLASSES {
                    let (blocked, backlog_frames, holds_from) = queues.next().unwrap();
                    queues_of_port[usize::from(class)] =
                        EgressState { blocked, backlog_frames, holds_from, frames_sent: 0 };
                }
            }
            switches
        })
    }

    fn all_queues() -> Vec<EgressQueue> {
        let mut queues = Vec::new();
        for switch in 0..SWITCHES {
            for p in 0..PORTS as u16 {
                queues.extend(OF_CLASSES.map(|class| port(switch, p).queue(Class::new(class))));
            }
        }
        queues
    }

    /// Whether the one waits for the other, word for word as the module says.
    fn is_wait(links: &Links, switches: &[SwitchState], one: EgressQueue, other: EgressQueue) -> bool {
        let stuck = |queue: EgressQueue| {
            let state = &switches[queue.switch].ports[queue.port.index()][queue.class.index()];
            state.blocked && state.backlog_frames > 0
        };
        let Some(ingress) = links.peer(port(one.switch, one.port.0)) else { return false };
        let holds = switches[other.switch].ports[other.port.index()][other.class.index()].holds_from;
        stuck(one)
            && stuck(other)
            && one.class == other.class
            && other.switch == ingress.switch
            && holds >> ingress.port.index() & 1 == 1
    }

    /// For each pair of queues whether a way leads from the one to the other, by trying all waypoints.
    fn reach(queues: &[EgressQueue], is_edge: impl Fn(EgressQueue, EgressQueue) -> bool) -> Vec<Vec<bool>> {
        let row = |one| queues.iter().map(|other| is_edge(one, *other)).collect();
        let mut reach: Vec<Vec<bool>> = queues.iter().map(|one| row(*one)).collect();
        for via in 0..queues.len() {
            for from in 0..queues.len() {
                for to in 0..queues.len() {
                    reach[from][to] |= reach[from][via] && reach[via][to];
                }
            }
        }
        reach
    }

    /// The lowest queue of each set whose queues reach each other.
    fn lowest_on_cycles(queues: &[EgressQueue], reach: &[Vec<bool>]) -> Vec<EgressQueue> {
        let is_lowest = |i: usize| reach[i][i] && !(0..i).any(|lower| reach[i][lower] && reach[lower][i]);
        (0..queues.len()).filter(|i| is_lowest(*i)).map(|i| queues[i]).collect()
    }

    proptest! {
        #[test]
        fn cycles_are_those_of_a_plain_search(links in random_links(), switches in random_switches()) {
            let queues = all_queues();
            let reach = reach(&queues, |one, other| is_wait(&links, &switches, one, other));
            let found = cycles(&links, &switches);
            let lowest: Vec<EgressQueue> = found.iter().map(|cycle| cycle[0]).collect();
            prop_assert_eq!(lowest, lowest_on_cycles(&queues, &reach));
            for cycle in found {
                for (i, one) in cycle.iter().enumerate() {
                    prop_assert!(is_wait(&links, &switches, *one, cycle[(i + 1) % cycle.len()]));
                    prop_assert!(!cycle[..i].contains(one), "a queue comes twice");
                }
            }
        }

        /// Against the waits that have stood over the last 100 us, found by going through all observations again.
        #[test]
        fn deadlock_is_declared_when_a_cycle_has_stood(
            links in random_links(),
            usual in random_switches(),
            other in random_switches(),
            steps in prop::collection::vec(random_step(), 1..12),
        ) {
            let queues = all_queues();
            let mut detector = Detector::new(links.clone(), STANDSTILL);
            let mut seen: Vec<(Time, Vec<SwitchState>)> = Vec::new();
            let mut now = Time::ZERO;
            let mut sent = vec![0; queues.len()];
            for step in steps {
                now += step.after;
                step.sender.into_iter().for_each(|sender| sent[sender.index(queues.len())] += 1);
                let mut switches = if step.is_usual { usual.clone() } else { other.clone() };
                for (queue, sent) in queues.iter().zip(&sent) {
                    switches[queue.switch].ports[queue.port.index()][queue.class.index()].frames_sent = *sent;
                }
                seen.push((now, switches.clone()));
                let declared = detector.observe(now, &switches);
                let start = seen.iter().rposition(|(at, _)| now.since(*at) >= STANDSTILL);
                let is_cycle_since = |start| {
                    let reach = reach(&queues, |one, other| has_stood(&links, &seen[start..], one, other));
                    !lowest_on_cycles(&queues, &reach).is_empty()
                };
                prop_assert_eq!(declared.is_some(), start.is_some_and(is_cycle_since));
                if let Some(deadlock) = declared {
                    let around = deadlock.queues.iter().zip(deadlock.queues.iter().cycle().skip(1));
                    let stood = |seen| around.clone().all(|(one, other)| has_stood(&links, seen, *one, *other));
                    let start = (0..seen.len()).find(|start| stood(&seen[*start..]));
                    prop_assert_eq!(Some(deadlock.since), start.map(|start| seen[start].0));
                    break;
                }
            }
        }
    }

    /// From one observation to the next.
    #[derive(Clone, Copy, Debug)]
    struct Step {
        after: Span,
        is_usual: bool,
        sender: Option<prop::sample::Index>,
    }

    fn random_step() -> impl Strategy<Value = Step> {
        let sender = prop::option::weighted(0.3, any::<prop::sample::Index>());
        (0_u64..60, prop::bool::weighted(0.9), sender).prop_map(|(after, is_usual, sender)| {
            let after = Span::from_micros(after);
            Step { after, is_usual, sender }
        })
    }

    /// Whether the one waits for the other in all observations, and neither sends a frame from first to last.
    fn has_stood(links: &Links, seen: &[(Time, Vec<SwitchState>)], one: EgressQueue, other: EgressQueue) -> bool {
        let sent = |switches| (one.state(switches).frames_sent, other.state(switches).frames_sent);
        let last = seen.last().map(|(_, switches)| sent(switches));
        seen.iter().all(|(_, switches)| is_wait(links, switches, one, other) && Some(sent(switches)) == last)
    }
}
