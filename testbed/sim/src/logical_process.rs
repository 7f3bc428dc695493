//! Logical process (LP): nodes, the wires that lead to them, and their event queues. One thread owns it at a time.

use std::time::{Duration, Instant};

use weir_nic::host::{Completion, ProgramEvent};
use weir_units::Time;

use super::network::Network;
use super::node::{SimHost, SimSwitch};
use super::prefetcher::{self, PendingNodes, Prefetcher};
use super::server;

/// Logical process: a subset of the nodes, switches first, then hosts, each in scenario order.
#[derive(Debug)]
pub(super) struct LogicalProcess {
    pub(super) network: Network,
    pub(super) switches: Box<[SimSwitch]>,
    pub(super) hosts: Box<[SimHost]>,
    /// Number in the fabric of each wire here.
    pub(super) wire_numbers: Box<[u32]>,
    /// Messages that hosts completed in a window, with the hosts' numbers in the scenario.
    pub(super) completed: Vec<(u32, Completion)>,
    /// Events of the hosts' programs in a window, with the hosts' numbers in the scenario.
    pub(super) program_events: Vec<(u32, ProgramEvent)>,
    pub(super) work: Box<[u64]>,
    pub(super) wakeups: u64,
    pub(super) window_duration: Duration,
    /// Scratch list of the nodes due in a window.
    due: Vec<u32>,
}

/// Box, so that moving a logical process between threads moves one pointer.
pub(super) type BoxedLp = Box<LogicalProcess>;

impl LogicalProcess {
    pub(super) fn new(
        network: Network,
        switches: Box<[SimSwitch]>,
        hosts: Box<[SimHost]>,
        wire_numbers: Box<[u32]>,
    ) -> LogicalProcess {
        let work = vec![0; switches.len() + hosts.len()].into();
        let (completed, due) = (Vec::new(), Vec::new());
        LogicalProcess {
            network,
            switches,
            hosts,
            wire_numbers,
            completed,
            program_events: Vec::new(),
            work,
            wakeups: 0,
            window_duration: Duration::ZERO,
            due,
        }
    }

    /// Runs one window of this logical process among several: receives frames from channels, runs the nodes of phase
    /// `phase` up to `limit`, and hands over frames for other processes.
    pub(super) fn run_window(&mut self, phase: usize, limit: Time) {
        let start = Instant::now();
        self.network.deliver();
        self.run_phase(phase, limit);
        self.network.hand_over();
        // Computed here so that the result is cached for the barrier at the window's end.
        self.network.first_due();
        self.window_duration = start.elapsed();
    }

    /// Runs all nodes of phase `phase` up to `limit`. Within a window no node makes another node of the phase due.
    pub(super) fn run_phase(&mut self, phase: usize, limit: Time) {
        let LogicalProcess { network, switches, hosts, completed, program_events, work, wakeups: woken, due, .. } =
            self;
        network.list_due(phase, limit, due);
        let first_host = switches.len();
        // All hosts are in servers, or none is. A host with one port may be the only member.
        let in_servers = hosts.first().is_some_and(|host| host.server.is_some());
        for at in 0..due.len() + prefetcher::STEPS {
            let mut prefetcher = Prefetcher::new(due, at);
            let node = at.checked_sub(prefetcher::STEPS).map(|at| due[at] as usize);
            // Nodes are listed in order, so the later ones follow the current one.
            let pending = match node.map(|node| (node, node.checked_sub(first_host))) {
                None => PendingNodes { first_switch: 0, switches, first_host, hosts },
                Some((number, None)) => {
                    let (node, switches) = switches[number..].split_first_mut().expect("a switch");
                    let pending = PendingNodes { first_switch: number + 1, switches, first_host, hosts };
                    let instants = node.run_until(limit, network, |network| _ = prefetcher.next(&pending, network));
                    *woken += instants;
                    work[number] += instants;
                    pending
                }
                Some((number, Some(host))) if in_servers => {
                    let members = hosts[host].members(host);
                    let instants = server::run_until(&mut hosts[members.clone()], limit, network);
                    *woken += instants;
                    work[number] += instants;
                    hosts[members].iter_mut().for_each(|node| collect(node, completed, program_events));
                    let hosts = &hosts[host + 1..];
                    PendingNodes { first_switch: number, switches: &[], first_host: number + 1, hosts }
                }
                Some((number, Some(host))) => {
                    let (node, hosts) = hosts[host..].split_first_mut().expect("a host");
                    let pending = PendingNodes { first_switch: number, switches: &[], first_host: number + 1, hosts };
                    let instants = node.run_until(limit, network, |network| _ = prefetcher.next(&pending, network));
                    *woken += instants;
                    work[number] += instants;
                    collect(node, completed, program_events);
                    pending
                }
            };
            while prefetcher.next(&pending, network) {}
        }
    }
}

/// Takes over a host's completed messages and the events of its programs.
#[inline]
fn collect(node: &mut SimHost, completed: &mut Vec<(u32, Completion)>, program_events: &mut Vec<(u32, ProgramEvent)>) {
    let number = node.number() as u32;
    if node.host.has_completions() {
        completed.extend(node.host.drain_completions().map(|completion| (number, completion)));
    }
    if node.host.has_program_events() {
        program_events.extend(node.host.drain_program_events().map(|event| (number, event)));
    }
}
