use proptest::prelude::*;
use weir_units::{PortId, PortSet};

use super::*;

const STANDSTILL: Span = Span::from_micros(100);

fn micros(us: u64) -> Time {
    Time::ZERO + Span::from_micros(us)
}

fn port(switch: usize, port: u16) -> PortRef {
    PortRef { switch, port: usize::from(port) }
}

/// Name of a port: switches count from 1, ports from 0.
fn name(port: PortRef) -> String {
    format!("S{}.p{}", port.switch + 1, port.port)
}

fn described(queues: Vec<EgressQueue>) -> String {
    Deadlock { since: Time::ZERO, declared_at: Time::ZERO, queues, dissolved_at: None }.describe(name)
}

/// Switches without stuck queues.
struct Fabric {
    links: Links,
    switches: Vec<SwitchState>,
}

impl Fabric {
    fn new(switches: usize, ports: usize, links: &[(PortRef, PortRef)]) -> Fabric {
        let mut joined = Links::new();
        links.iter().for_each(|(one, other)| joined.join(*one, *other));
        let idle = SwitchState { ports: vec![std::array::from_fn(|_| EgressState::default()); ports] };
        Fabric { links: joined, switches: vec![idle; switches] }
    }

    /// Creates rings of switches: port 1 of each is linked to port 2 of the next, port 0 to a host.
    fn rings(lengths: &[usize]) -> Fabric {
        let mut links = Vec::new();
        let mut first = 0;
        for length in lengths {
            links.extend((0..*length).map(|i| (port(first + i, 1), port(first + (i + 1) % length, 2))));
            first += length;
        }
        Fabric::new(first, 3, &links)
    }

    fn queue(&mut self, at: PortRef, class: u8) -> &mut EgressState {
        &mut self.switches[at.switch].ports[at.port][usize::from(class)]
    }

    /// Blocks a queue that holds frames from these ingress ports.
    fn stick(&mut self, at: PortRef, class: u8, from: &[u16]) {
        let queue = self.queue(at, class);
        queue.blocked = true;
        queue.backlogged = true;
        queue.holds_from = from.iter().map(|port| QueueId::new(PortId(*port), Class::new(class))).collect();
    }

    /// Blocks the ring of `length` switches from `first` on.
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
    // A ring that moves leaves the other deadlocked.
    fabric.queue(port(1, 1), 3).frames_sent += 1;
    detector.observe(micros(110), &fabric.switches);
    assert_eq!(detector.deadlock().unwrap().describe(name), both[1]);
}

#[test]
fn chain_is_no_cycle() {
    let mut fabric = Fabric::rings(&[4]);
    fabric.stick_ring(0, 4, 3);
    // The last switch holds frames of hosts only.
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
    fabric.queue(port(1, 1), 3).backlogged = false;
    assert_eq!(fabric.cycles(), [""; 0]);
}

/// Two leaves with two hosts each send to a host at the root that pauses: all queues are blocked, without a cycle.
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
    // Frames from the ring leave one switch through another queue, and later fill it again.
    fabric.stick(port(2, 1), 3, &[0]);
    assert_eq!(detector.observe(micros(100), &fabric.switches), None);
    fabric.stick_ring(0, 3, 3);
    assert_eq!(detector.observe(micros(110), &fabric.switches), None);
    assert_eq!(detector.observe(micros(209), &fabric.switches), None);
    assert_eq!(detector.observe(micros(210), &fabric.switches).unwrap().since, micros(110));
}

/// Each observation shows the same cycle, but its queues send in between.
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
    // The cycle persists again: another deadlock.
    assert_eq!(detector.observe(micros(249), &fabric.switches), None);
    assert_eq!(detector.observe(micros(250), &fabric.switches).unwrap().since, micros(150));
    assert_eq!(detector.deadlocks()[0], known);
    assert!(detector.deadlock().unwrap().persists());
}

/// Queues that start to wait later neither delay a deadlock nor count as another.
#[test]
fn deadlock_may_grow() {
    // A ring of three, and a fourth switch joined with the first two by ports 3.
    let mut links: Vec<_> = (0..3).map(|i| (port(i, 1), port((i + 1) % 3, 2))).collect();
    links.extend([(port(0, 3), port(3, 0)), (port(3, 1), port(1, 3))]);
    let mut fabric = Fabric::new(4, 4, &links);
    fabric.stick_ring(0, 3, 3);
    let mut detector = Detector::new(fabric.links.clone(), STANDSTILL);
    detector.observe(micros(0), &fabric.switches);
    // The first switch also reaches the second through the fourth.
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

/// Frames that arrive in class 3 and leave in class 2.
#[test]
fn cycle_leads_through_the_ingress_queues_of_its_frames() {
    let mut fabric = Fabric::rings(&[3]);
    fabric.stick_ring(0, 3, 3);
    fabric.queue(port(1, 1), 3).blocked = false;
    fabric.stick(port(1, 1), 2, &[2]);
    assert_eq!(fabric.cycles(), [""; 0], "the queue of class 2 holds frames of class 2");
    fabric.queue(port(1, 1), 2).holds_from = [QueueId::new(PortId(2), Class::new(3))].into();
    assert_eq!(fabric.cycles(), [""; 0], "no frame arrives in class 2");
    fabric.queue(port(2, 1), 3).holds_from = [2, 3].map(|class| QueueId::new(PortId(2), Class::new(class))).into();
    assert_eq!(fabric.cycles(), ["S1.p1 -> S2.p1 -> S3.p1 -> S1.p1, class 2 and 3"]);
}

#[test]
#[should_panic(expected = "port 1 of switch 0 has two links")]
fn port_has_one_link() {
    Fabric::new(3, 2, &[(port(0, 1), port(1, 1)), (port(2, 1), port(0, 1))]);
}

const SWITCHES: usize = 4;
const PORTS: usize = 3;
/// Two classes.
const OF_CLASSES: [u8; 2] = [0, 5];

/// Random links between ports; the rest lead to hosts.
fn random_links() -> impl Strategy<Value = Links> {
    let ports: Vec<_> = (0..SWITCHES).flat_map(|switch| (0..PORTS as u16).map(move |p| port(switch, p))).collect();
    (Just(ports).prop_shuffle(), 0..=SWITCHES * PORTS / 2).prop_map(|(ports, count)| {
        let mut links = Links::new();
        ports.chunks(2).take(count).for_each(|pair| links.join(pair[0], pair[1]));
        links
    })
}

/// Switches with mostly stuck queues; otherwise cycles are rare.
fn random_switches() -> impl Strategy<Value = Vec<SwitchState>> {
    // Mostly of the queue's own class.
    let ingress = (0_u64..1 << PORTS, prop::bool::weighted(0.2));
    let queue = (prop::bool::weighted(0.8), prop::bool::weighted(0.8), ingress);
    prop::collection::vec(queue, SWITCHES * PORTS * OF_CLASSES.len()).prop_map(|queues| {
        let mut queues = queues.into_iter();
        let mut switches = Fabric::new(SWITCHES, PORTS, &[]).switches;
        for queues_of_port in switches.iter_mut().flat_map(|switch| &mut switch.ports) {
            for class in OF_CLASSES {
                let (blocked, backlogged, (ports, is_other)) = queues.next().unwrap();
                let group = if is_other { OF_CLASSES[0] + OF_CLASSES[1] - class } else { class };
                let ports = PortSet::from_bits(ports);
                let holds_from = ports.iter().map(|port| QueueId::new(port, Class::new(group))).collect();
                queues_of_port[usize::from(class)] = EgressState { blocked, backlogged, holds_from, frames_sent: 0 };
            }
        }
        switches
    })
}

fn all_queues() -> Vec<EgressQueue> {
    let mut queues = Vec::new();
    for switch in 0..SWITCHES {
        for p in 0..PORTS as u16 {
            queues.extend(OF_CLASSES.map(|class| EgressQueue { place: port(switch, p), class: Class::new(class) }));
        }
    }
    queues
}

/// Whether one queue waits for the other, by the module's definition.
fn is_wait(links: &Links, switches: &[SwitchState], one: EgressQueue, other: EgressQueue) -> bool {
    let stuck = |queue: EgressQueue| {
        let state = &switches[queue.place.switch].ports[queue.place.port][queue.class.index()];
        state.blocked && state.backlogged
    };
    let Some(ingress) = links.peer(one.place) else { return false };
    let holds = &switches[other.place.switch].ports[other.place.port][other.class.index()].holds_from;
    stuck(one)
        && stuck(other)
        && other.place.switch == ingress.switch
        && holds.contains(&QueueId::new(PortId(ingress.port as u16), one.class))
}

/// Transitive closure of the waits (Warshall).
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

/// Lowest queue of each set whose queues reach each other.
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

    /// Compares the detector with a search of all observations for waits that persist for 100 us.
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
                switches[queue.place.switch].ports[queue.place.port][queue.class.index()].frames_sent = *sent;
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

/// Change between two observations.
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

/// Whether one queue waits for the other in all observations, and neither sends a frame.
fn has_stood(links: &Links, seen: &[(Time, Vec<SwitchState>)], one: EgressQueue, other: EgressQueue) -> bool {
    let sent = |switches| (one.state(switches).frames_sent, other.state(switches).frames_sent);
    let last = seen.last().map(|(_, switches)| sent(switches));
    seen.iter().all(|(_, switches)| is_wait(links, switches, one, other) && Some(sent(switches)) == last)
}
