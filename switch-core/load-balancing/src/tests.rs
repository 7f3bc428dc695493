//! Numbers worked out by hand for each load balancing.

use super::*;

use weir_units::Span;

/// Ports with these queues; drawn numbers count up.
struct Ports {
    ports: Vec<PortId>,
    queues: Vec<u64>,
    held: Vec<usize>,
    drawn: u32,
}

impl EqualCostPorts for Ports {
    fn ports(&self) -> &[PortId] {
        &self.ports
    }

    fn queue_bytes(&self, index: usize) -> u64 {
        self.queues[index]
    }

    fn is_held(&self, index: usize) -> bool {
        self.held.contains(&index)
    }

    fn below(&mut self, n: u32) -> u32 {
        self.drawn += 1;
        (self.drawn - 1) % n
    }
}

fn ports(queues: &[u64], held: &[usize]) -> Ports {
    let ports = (0..queues.len() as u16).map(|port| PortId(10 + port)).collect();
    Ports { ports, queues: queues.to_vec(), held: held.to_vec(), drawn: 0 }
}

fn selector(config: impl PathSelectorConfig) -> Box<dyn PathSelector> {
    config.selector().unwrap()
}

fn frame(us: u64, flow_hash: u32) -> PathRequest {
    PathRequest { now: Time::ZERO + Span::from_micros(us), flow_hash, frame_bytes: 1_082 }
}

fn selected<const N: usize>(selector: &mut dyn PathSelector, ports: &mut Ports) -> [usize; N] {
    std::array::from_fn(|_| selector.select(frame(1, 7), ports))
}

#[test]
fn a_flow_hash_has_no_selector() {
    assert!(PathSelectorChoice::default().selector().is_none());
    assert_eq!(PATH_SELECTORS.all().iter().filter(|kind| !kind.reorders()).count(), 1);
}

#[test]
fn ports_are_drawn_or_take_turns() {
    assert_eq!(selected(&mut *selector(random::KIND), &mut ports(&[0; 3], &[])), [0, 1, 2, 0]);
    let mut in_turn = selector(round_robin::KIND);
    assert_eq!(selected(&mut *in_turn, &mut ports(&[9, 0, 9], &[1])), [1, 2, 0, 1]);
    assert_eq!(selected(&mut *in_turn, &mut ports(&[0; 2], &[])), [1, 0]);
}

#[test]
fn the_shortest_queue_that_can_send_is_taken_and_equal_ones_in_turn() {
    let mut shortest = selector(shortest_queue::KIND);
    assert_eq!(selected(&mut *shortest, &mut ports(&[5, 5, 5], &[])), [1, 2, 0, 1]);
    assert_eq!(selected(&mut *shortest, &mut ports(&[5, 9, 4], &[])), [2, 2]);
    assert_eq!(selected(&mut *shortest, &mut ports(&[5, 9, 4], &[2])), [0, 0]);
    assert_eq!(selected(&mut *shortest, &mut ports(&[5, 9, 4], &[0, 1, 2])), [2]);
    assert_eq!(selected(&mut *shortest, &mut ports(&[5, 5], &[])), [1, 0]);
}

#[test]
fn drill_compares_two_drawn_queues_and_the_last_best() {
    let mut drill = selector(drill::KIND);
    // Drawn: 0 and 1, then 2 and 3, then 0 and 1.
    assert_eq!(selected(&mut *drill, &mut ports(&[9, 5, 7, 6], &[])), [1, 1, 1]);
    assert_eq!(selected(&mut *drill, &mut ports(&[9, 5, 7, 6], &[1])), [0, 3, 3]);
    // The remembered port is none of two.
    assert_eq!(selected(&mut *drill, &mut ports(&[9, 5], &[])), [1]);
}

#[test]
fn a_flow_changes_its_port_only_after_a_gap() {
    let mut flowlets = selector(FlowletConfig { gap: Span::from_micros(50) });
    let mut three = ports(&[0; 3], &[]);
    let mut at = |us, hash, ports: &mut Ports| flowlets.select(frame(us, hash), ports);
    assert_eq!([0, 49, 98, 148, 197].map(|us| at(us, 7, &mut three)), [0, 0, 0, 1, 1]);
    assert_eq!(at(198, 8, &mut three), 2, "another flow draws its own");
    assert_eq!(at(199, 7, &mut three), 1);
    let mut others = Ports { ports: vec![PortId(3), PortId(4)], ..ports(&[0; 2], &[]) };
    assert_eq!(at(200, 7, &mut others), 0, "a flow to other ports shares the entry");
}
