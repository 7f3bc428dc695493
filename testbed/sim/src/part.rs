//! A part of a fabric: stations, the wires that lead to them, and what runs them. One thread has it at a time.

use std::time::{Duration, Instant};

use weir_nic::host::Completion;
use weir_units::Time;

use super::ahead::{self, Ahead, Later};
use super::network::Network;
use super::node::{SimHost, SimSwitch};

/// Some of the nodes, or all: first switches, then hosts, each in the order of the scenario.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) network: Network,
    pub(super) switches: Box<[SimSwitch]>,
    pub(super) hosts: Box<[SimHost]>,
    /// By its wires' numbers here, their numbers in the fabric.
    pub(super) wire_names: Box<[u32]>,
    /// What hosts have completed in a turn, with their places in the scenario.
    pub(super) completed: Vec<(u32, Completion)>,
    /// Instants at which each node did something.
    pub(super) work: Box<[u64]>,
    /// Instants at which any did.
    pub(super) woken: u64,
    /// How long its last turn took.
    pub(super) took: Duration,
    /// Memory for the nodes that are due in a turn.
    due: Vec<u32>,
}

/// A part goes from thread to thread, and only a pointer of it.
pub(super) type PartBox = Box<Part>;

impl Part {
    pub(super) fn new(
        network: Network,
        switches: Box<[SimSwitch]>,
        hosts: Box<[SimHost]>,
        wire_names: Box<[u32]>,
    ) -> Part {
        let work = vec![0; switches.len() + hosts.len()].into();
        let (completed, due) = (Vec::new(), Vec::new());
        Part { network, switches, hosts, wire_names, completed, work, woken: 0, took: Duration::ZERO, due }
    }

    /// A turn of one part among several: what has come for it, what its nodes of a side have to do up to `limit`, and what is
    /// for others then.
    pub(super) fn take_turn(&mut self, side: usize, limit: Time) {
        let start = Instant::now();
        self.network.deliver();
        self.run_side(side, limit);
        self.network.hand_over();
        // Looked up here, it is at hand where all threads are waited for.
        self.network.first_due();
        self.took = start.elapsed();
    }

    /// Has all nodes of a side do what they have to do up to `limit`. What others do in the meantime makes none of them due.
    pub(super) fn run_side(&mut self, side: usize, limit: Time) {
        let Part { network, switches, hosts, completed, work, woken, due, .. } = self;
        network.list_due(side, limit, due);
        let first_host = switches.len();
        for at in 0..due.len() + ahead::STEPS {
            let mut ahead = Ahead::new(due, at);
            let node = at.checked_sub(ahead::STEPS).map(|at| due[at] as usize);
            // They are listed in order, so that those that are to come stand behind the one whose turn it is.
            let later = match node.map(|node| (node, node.checked_sub(first_host))) {
                None => Later { first_switch: 0, switches, first_host, hosts },
                Some((number, None)) => {
                    let (node, switches) = switches[number..].split_first_mut().expect("a switch");
                    let later = Later { first_switch: number + 1, switches, first_host, hosts };
                    let instants = node.run_until(limit, network, |network| _ = ahead.next(&later, network));
                    *woken += instants;
                    work[number] += instants;
                    later
                }
                Some((number, Some(host))) => {
                    let (node, hosts) = hosts[host..].split_first_mut().expect("a host");
                    let later = Later { first_switch: number, switches: &[], first_host: number + 1, hosts };
                    let instants = node.run_until(limit, network, |network| _ = ahead.next(&later, network));
                    *woken += instants;
                    work[number] += instants;
                    if node.host.has_completions() {
                        let name = node.number() as u32;
                        completed.extend(node.host.drain_completions().map(|of| (name, of)));
                    }
                    later
                }
            };
            while ahead.next(&later, network) {}
        }
    }
}
