//! Partition of a fabric's nodes into logical processes, and the location of each node.

use std::collections::VecDeque;
use std::time::Duration;

use weir_nic::host::NicFrame;
use weir_results::record::MessageOrigin;
use weir_scenario::PortRef;
use weir_units::Time;

use super::WireSource;
use super::frame::FramePool;
use super::logical_process::{BoxedLp, LogicalProcess};
use super::mailbox::{Mailbox, RemoteEnd};
use super::network::{Network, RecordedEvent};
use super::node::{SimHost, SimSwitch};
use super::phases::Phases;
use super::wire::Wire;

/// Logical processes: one for a single thread, otherwise several. In each window with several: call [`LpPartition::release_until`],
/// then [`LogicalProcess::run_window`] of each logical process, in any order or in parallel.
#[derive(Debug)]
pub(super) struct LpPartition {
    lps: Vec<BoxedLp>,
    /// Locations of switches and hosts, by number in the scenario.
    switches: Box<[NodeLocation]>,
    hosts: Box<[NodeLocation]>,
    /// Phases of all nodes: switches, then hosts.
    phases: Phases,
    /// Source and destination node of each wire, by its number in the fabric.
    ends: Box<[[u32; 2]]>,
    /// Near halves with injected faults.
    faulty: Vec<NearHalf>,
    /// Counts from before the last repartition.
    hops: u64,
    wakeups: u64,
    /// Recorded events from before the last repartition.
    port_events: Vec<RecordedEvent>,
}

/// Location of a node: logical process, and index among its switches or hosts.
#[derive(Clone, Copy, Debug, Default)]
struct NodeLocation {
    lp: u32,
    index: u32,
}

/// Near half of a wire: logical process, and index there.
#[derive(Clone, Copy, Debug)]
struct NearHalf {
    lp: u32,
    wire: u32,
}

/// All nodes and wires in scenario order, during a repartition.
struct GatheredNetwork {
    switches: Vec<Option<SimSwitch>>,
    hosts: Vec<Option<SimHost>>,
    /// Wires by number in the fabric, which their senders hold meanwhile.
    wires: Vec<Option<Wire>>,
    due: Vec<Time>,
    frame_pool: FramePool,
    records_port_events: bool,
}

impl LpPartition {
    /// Creates one logical process with all nodes; each node wakes at [`Time::ZERO`].
    pub(super) fn new(
        switches: Box<[SimSwitch]>,
        hosts: Box<[SimHost]>,
        wires: Box<[Wire]>,
        ends: Box<[[u32; 2]]>,
        phases: Phases,
    ) -> LpPartition {
        let mut partition = LpPartition {
            lps: Vec::new(),
            switches: vec![NodeLocation::default(); switches.len()].into(),
            hosts: vec![NodeLocation::default(); hosts.len()].into(),
            phases,
            ends,
            faulty: Vec::new(),
            hops: 0,
            wakeups: 0,
            port_events: Vec::new(),
        };
        let all = vec![0; switches.len()];
        let gathered = GatheredNetwork {
            due: vec![Time::ZERO; switches.len() + hosts.len()],
            switches: switches.into_iter().map(Some).collect(),
            hosts: hosts.into_iter().map(Some).collect(),
            wires: wires.into_iter().map(Some).collect(),
            frame_pool: FramePool::default(),
            records_port_events: false,
        };
        partition.scatter(gathered, &all, 1);
        partition
    }

    /// Repartitions all nodes into `count` logical processes. `plan` gives the process of each switch; hosts go with
    /// their switch, those of a server with the first one's.
    pub(super) fn repartition(&mut self, plan: &[u32], count: usize) {
        let gathered = self.gather();
        self.scatter(gathered, plan, count);
    }

    pub(super) fn lps_mut(&mut self) -> &mut [BoxedLp] {
        &mut self.lps
    }

    /// Returns the logical processes for the worker pool, which restores their order.
    pub(super) fn as_mut_vec(&mut self) -> &mut Vec<BoxedLp> {
        &mut self.lps
    }

    pub(super) fn phases(&self) -> &Phases {
        &self.phases
    }

    /// Returns the earliest wake-up time of all nodes, or the earliest arrival that a fault holds back, if sooner.
    #[inline]
    pub(super) fn first_due(&mut self) -> Time {
        let earliest = self.lps.iter_mut().map(|lp| lp.network.first_due()).min().unwrap_or(Time::NEVER);
        let held = self
            .faulty
            .iter()
            .map(|near_half| self.lps[near_half.lp as usize].network.wires[near_half.wire as usize].next_arrival());
        held.min().unwrap_or(Time::NEVER).min(earliest)
    }

    /// Moves frames between logical processes that injected faults held back and that arrive by `limit` at nodes of the
    /// phase run next. Called per window, because until then the other phase may still send frames that overtake them.
    pub(super) fn release_until(&mut self, phase: usize, limit: Time) {
        for near_half in &self.faulty {
            let RemoteEnd { lp, wire } = self.lps[near_half.lp as usize].network.mailbox.remote_end(near_half.wire);
            if self.lps[lp as usize].network.destination_phase(wire) != phase {
                continue;
            }
            let mut frames = VecDeque::new();
            let near = &mut self.lps[near_half.lp as usize].network;
            near.wires[near_half.wire as usize].release_until(limit);
            near.wires[near_half.wire as usize].hand_over(&mut frames);
            self.lps[lp as usize].network.put(wire, &mut frames);
        }
    }

    /// Returns the duration of each logical process's last window.
    pub(super) fn window_durations(&self) -> impl Iterator<Item = Duration> {
        self.lps.iter().map(|lp| lp.window_duration)
    }

    /// Equalises the free frame memory, which migrates with frames between logical processes.
    pub(super) fn balance_memory(&mut self) {
        let all: usize = self.lps.iter().map(|lp| lp.network.frame_pool.len()).sum();
        let each = all / self.lps.len();
        let mut over = FramePool::default();
        for lp in &mut self.lps {
            over.take_from(&mut lp.network.frame_pool, each);
        }
        for lp in &mut self.lps {
            let missing = each.saturating_sub(lp.network.frame_pool.len());
            let kept = over.len().saturating_sub(missing);
            lp.network.frame_pool.take_from(&mut over, kept);
        }
        self.lps[0].network.frame_pool.take_from(&mut over, 0);
    }

    pub(super) fn switches(&self) -> usize {
        self.switches.len()
    }

    pub(super) fn hosts(&self) -> usize {
        self.hosts.len()
    }

    pub(super) fn switch(&self, number: usize) -> &SimSwitch {
        let NodeLocation { lp, index } = self.switches[number];
        &self.lps[lp as usize].switches[index as usize]
    }

    pub(super) fn switch_mut(&mut self, number: usize) -> &mut SimSwitch {
        let NodeLocation { lp, index } = self.switches[number];
        &mut self.lps[lp as usize].switches[index as usize]
    }

    pub(super) fn host(&self, number: usize) -> &SimHost {
        let NodeLocation { lp, index } = self.hosts[number];
        &self.lps[lp as usize].hosts[index as usize]
    }

    pub(super) fn host_mut(&mut self, number: usize) -> &mut SimHost {
        let NodeLocation { lp, index } = self.hosts[number];
        &mut self.lps[lp as usize].hosts[index as usize]
    }

    /// Returns two distinct hosts.
    ///
    /// # Panics
    /// If both numbers are equal.
    pub(super) fn two_hosts(&mut self, numbers: [usize; 2]) -> [&mut SimHost; 2] {
        const TWO: &str = "a message has two hosts";
        let [one, other] = numbers.map(|number| self.hosts[number]);
        if one.lp == other.lp {
            let hosts = &mut self.lps[one.lp as usize].hosts;
            return hosts.get_disjoint_mut([one.index as usize, other.index as usize]).expect(TWO);
        }
        let lps = self.lps.get_disjoint_mut([one.lp as usize, other.lp as usize]).expect(TWO);
        let [of_one, of_other] = lps;
        [&mut of_one.hosts[one.index as usize], &mut of_other.hosts[other.index as usize]]
    }

    /// Schedules a wake-up of a host at `at` or earlier.
    pub(super) fn wake_host(&mut self, number: usize, at: Time) {
        let location = self.hosts[number];
        let lp = &mut self.lps[location.lp as usize];
        lp.hosts[location.index as usize].wake(at);
        lp.network.wake(lp.switches.len() + location.index as usize, at);
    }

    /// Sets a host's end of its link up or down, with the wire that leaves it.
    pub(super) fn set_host_link_up(&mut self, now: Time, number: usize, is_up: bool) {
        let NodeLocation { lp, index } = self.hosts[number];
        let LogicalProcess { network, hosts, .. } = &mut *self.lps[lp as usize];
        hosts[index as usize].set_link_up(now, is_up, network);
        self.wake_host(number, now);
        let hosts = &mut self.lps[lp as usize].hosts;
        // Other ports of the host take over its frames, or no longer.
        let members = hosts[index as usize].members(index as usize);
        hosts[members].iter_mut().for_each(|host| host.wake(now));
        self.set_host_wire_up(number, is_up);
    }

    /// Sets a switch's end of a link up or down, with the wire that leaves it.
    pub(super) fn set_port_up(&mut self, now: Time, place: PortRef, is_up: bool) {
        let NodeLocation { lp, index } = self.switches[place.switch];
        let LogicalProcess { network, switches, .. } = &mut *self.lps[lp as usize];
        switches[index as usize].set_link_up(now, place.port, is_up, network);
        self.lps[lp as usize].network.wake(index as usize, now);
        self.set_port_wire_up(place, is_up);
    }

    /// Makes a switch serve all its ports at `now`.
    pub(super) fn wake_switch(&mut self, now: Time, number: usize) {
        let NodeLocation { lp, index } = self.switches[number];
        let LogicalProcess { network, switches, .. } = &mut *self.lps[lp as usize];
        switches[index as usize].wake(now);
        network.wake(index as usize, now);
    }

    /// Puts a frame on the wire that leaves a node, between two windows; returns whether there is one.
    pub(super) fn inject(&mut self, now: Time, source: WireSource, frame: NicFrame) -> bool {
        let (lp, wire, place, origin) = match source {
            WireSource::Host(host) => {
                let sender = self.host(host);
                (self.hosts[host].lp, Some(sender.wire()), sender.place(), MessageOrigin::Host)
            }
            WireSource::Port(place) => {
                let wire = self.switch(place.switch).wire(place.port);
                (self.switches[place.switch].lp, wire, place, MessageOrigin::Port)
            }
        };
        let Some(wire) = wire else { return false };
        let is_divided = self.lps.len() > 1;
        if is_divided {
            self.lps.iter_mut().for_each(|lp| lp.network.deliver());
        }
        let network = &mut self.lps[lp as usize].network;
        let frame = network.frame_pool.allocate(frame);
        network.send(now, wire as u32, frame, origin, place);
        if is_divided {
            self.lps.iter_mut().for_each(|lp| lp.network.hand_over());
        }
        true
    }

    /// Sets the wire that leaves a switch's port up or down.
    pub(super) fn set_port_wire_up(&mut self, place: PortRef, is_up: bool) {
        if let Some(wire) = self.switch(place.switch).wire(place.port) {
            self.set_wire_up(self.switches[place.switch].lp, wire, is_up);
        }
    }

    /// Sets the wire that leaves a host up or down.
    pub(super) fn set_host_wire_up(&mut self, number: usize, is_up: bool) {
        self.set_wire_up(self.hosts[number].lp, self.host(number).wire(), is_up);
    }

    fn set_wire_up(&mut self, lp: u32, wire: usize, is_up: bool) {
        let network = &mut self.lps[lp as usize].network;
        network.wires[wire].set_up(is_up);
        if let Some(RemoteEnd { lp, wire }) = network.mailbox.get_remote_end(wire as u32) {
            let network = &mut self.lps[lp as usize].network;
            network.deliver();
            let far = &mut network.wires[wire as usize];
            // Going down loses the frames in flight; only the near half stays down.
            far.set_up(is_up);
            far.set_up(true);
        }
    }

    /// Returns all wires, and the halves of split ones. Each half counts its own faults and losses.
    pub(super) fn wires(&self) -> impl Iterator<Item = &Wire> {
        self.lps.iter().flat_map(|lp| &lp.network.wires)
    }

    /// Returns the wire that leaves a port, or its near half.
    pub(super) fn wire_of_port(&self, place: PortRef) -> Option<&Wire> {
        let wire = self.switch(place.switch).wire(place.port)?;
        Some(&self.lps[self.switches[place.switch].lp as usize].network.wires[wire])
    }

    /// Returns the wire that leaves a host, or its near half.
    pub(super) fn wire_of_host(&self, host: usize) -> &Wire {
        &self.lps[self.hosts[host].lp as usize].network.wires[self.host(host).wire()]
    }

    pub(super) fn frames_in_flight(&self) -> usize {
        let between: usize = self.lps.iter().map(|lp| lp.network.mailbox.undelivered_frames()).sum();
        between + self.wires().map(Wire::frames_in_flight).sum::<usize>()
    }

    pub(super) fn hops(&self) -> u64 {
        self.hops + self.lps.iter().map(|lp| lp.network.hops()).sum::<u64>()
    }

    pub(super) fn wakeups(&self) -> u64 {
        self.wakeups + self.lps.iter().map(|lp| lp.wakeups).sum::<u64>()
    }

    /// Returns the wake-ups of each node since the last repartition.
    pub(super) fn work(&self) -> Vec<u64> {
        let lp_of = |location: &NodeLocation| &self.lps[location.lp as usize];
        let switches = self.switches.iter().map(|location| lp_of(location).work[location.index as usize]);
        let hosts = self.hosts.iter().map(|location| {
            let lp = lp_of(location);
            lp.work[lp.switches.len() + location.index as usize]
        });
        switches.chain(hosts).collect()
    }

    /// Starts recording events of switch ports.
    pub(super) fn record_port_events(&mut self) {
        self.lps.iter_mut().for_each(|lp| lp.network.port_events = Some(Vec::new()));
    }

    /// Returns the recorded events of switch ports by `now` since the last call, in time order.
    pub(super) fn drain_port_events(&mut self, now: Time) -> impl Iterator<Item = RecordedEvent> {
        let LpPartition { lps, port_events, .. } = self;
        // Events of one node keep their order: since the last repartition they are all from one logical process.
        lps.iter_mut()
            .filter_map(|lp| lp.network.port_events.as_mut())
            .for_each(|recorded| port_events.append(recorded));
        port_events.retain(|event| event.at < Time::NEVER);
        port_events.sort_by_key(RecordedEvent::order);
        let known = port_events.partition_point(|event| event.at <= now);
        port_events.drain(..known)
    }

    /// Gathers all nodes and wires, and dissolves the logical processes.
    fn gather(&mut self) -> GatheredNetwork {
        let nodes = self.switches.len() + self.hosts.len();
        let mut gathered = GatheredNetwork {
            switches: self.switches.iter().map(|_| None).collect(),
            hosts: self.hosts.iter().map(|_| None).collect(),
            wires: self.ends.iter().map(|_| None).collect(),
            due: vec![Time::NEVER; nodes],
            frame_pool: FramePool::default(),
            records_port_events: false,
        };
        let mut near_halves = Vec::new();
        for lp in self.lps.drain(..) {
            let LogicalProcess { mut network, switches, hosts, wire_numbers, wakeups: woken, .. } = *lp;
            network.deliver();
            self.hops += network.hops();
            self.wakeups += woken;
            gathered.frame_pool.take_from(&mut network.frame_pool, 0);
            gathered.records_port_events |= network.port_events.is_some();
            network.port_events.iter_mut().for_each(|frames| self.port_events.append(frames));
            let number_of = |wire: u32| wire_numbers[wire as usize];
            let first_host = switches.len();
            for (node, mut switch) in switches.into_iter().enumerate() {
                switch.map_wires(number_of);
                gathered.due[switch.number()] = network.due(node);
                let number = switch.number();
                gathered.switches[number] = Some(switch);
            }
            for (node, mut host) in (first_host..).zip(hosts) {
                let (number, wire) = (host.number(), number_of(host.wire() as u32));
                host.set_local_numbers(0, wire);
                gathered.due[self.switches.len() + number] = network.due(node);
                gathered.hosts[number] = Some(host);
            }
            for (number, wire) in wire_numbers.into_iter().zip(network.wires) {
                if wire.is_near_half() {
                    near_halves.push((number, wire));
                } else {
                    gathered.wires[number as usize] = Some(wire);
                }
            }
        }
        for (number, near) in near_halves {
            let wire = &mut gathered.wires[number as usize];
            let far = wire.take().expect("a near half has a far one");
            *wire = Some(Wire::join([near, far]));
        }
        gathered
    }

    /// Builds `count` logical processes from the gathered network; `plan` is as in [`LpPartition::repartition`].
    fn scatter(&mut self, gathered: GatheredNetwork, plan: &[u32], count: usize) {
        let GatheredNetwork { switches, hosts, wires, mut due, mut frame_pool, records_port_events } = gathered;
        let host = |number: usize| hosts[number].as_ref().expect("all nodes and wires are gathered");
        // Members of a server stay together, and follow each other.
        let lp_of_host = |number: usize| plan[host(host(number).order().0).switch()];
        let lp_of: Vec<u32> = plan.iter().copied().chain((0..hosts.len()).map(lp_of_host)).collect();
        let mut nodes: Vec<Vec<u32>> = vec![Vec::new(); count];
        let mut index_of = vec![0; lp_of.len()];
        let first_host = self.switches.len();
        let mut order: Vec<u32> = (0..lp_of.len() as u32).collect();
        order[first_host..].sort_by_key(|node| host(*node as usize - first_host).order());
        for node in order {
            let nodes = &mut nodes[lp_of[node as usize] as usize];
            index_of[node as usize] = nodes.len() as u32;
            nodes.push(node);
        }
        let mut assignment = WireAssignment::new(count);
        // A wire between logical processes is split. Near halves come last, grouped by node.
        let mut split = Vec::new();
        let mut wires: Vec<(u32, Option<Wire>)> = (0..).zip(wires).collect();
        wires.sort_by_key(|(number, _)| index_of[self.ends[*number as usize][1] as usize]);
        for (number, wire) in wires {
            let (mut wire, [from, to]) = (wire.expect("all nodes and wires are gathered"), self.ends[number as usize]);
            wire.set_destination_node(index_of[to as usize]);
            // The receiver's wake-up excludes frames that faults held back on a near half.
            due[to as usize] = due[to as usize].min(wire.next_arrival());
            let lp = lp_of[to as usize];
            if lp_of[from as usize] == lp {
                assignment.assign(lp, number, wire);
            } else {
                let [near, far] = wire.split();
                let index = assignment.assign(lp, number, far);
                split.push((from, number, near, RemoteEnd { lp, wire: index }));
            }
        }
        split.sort_by_key(|(from, number, ..)| (*from, *number));
        self.faulty.clear();
        for (from, number, near, remote_end) in split {
            let (lp, is_faulty) = (lp_of[from as usize], near.is_faulty());
            let wire = assignment.assign_near_half(lp, number, near, remote_end);
            if is_faulty {
                self.faulty.push(NearHalf { lp, wire });
            }
        }
        let outgoing = assignment.outgoing_indices(&self.ends, &lp_of);
        let (mut switches, mut hosts) = (switches, hosts);
        let share = frame_pool.len() / count;
        let wires_of = |lp: &mut LpWires| (lp.wires.len() - lp.remote_ends.len(), std::mem::take(&mut lp.remote_ends));
        let mailboxes = Mailbox::for_lps(assignment.lps.iter_mut().map(wires_of).collect());
        for (lp, ((nodes, wires), mailbox)) in nodes.iter().zip(assignment.lps).zip(mailboxes).enumerate() {
            let LpWires { wires, numbers, .. } = wires;
            let mut network = Network::new(wires.into(), mailbox, self.phases.subset(nodes));
            let kept = frame_pool.len().saturating_sub(if lp + 1 == count { frame_pool.len() } else { share });
            network.frame_pool.take_from(&mut frame_pool, kept);
            network.port_events = records_port_events.then(Vec::new);
            let (mut own_switches, mut own_hosts) = (Vec::new(), Vec::new());
            for (index, node) in (0..).zip(nodes) {
                let number = *node as usize;
                network.wake(index as usize, due[number]);
                let lp = lp as u32;
                match number.checked_sub(first_host) {
                    None => {
                        let mut switch = switches[number].take().expect("each node has one logical process");
                        switch.map_wires(|wire| outgoing[wire as usize]);
                        switch.set_local_number(index);
                        self.switches[number] = NodeLocation { lp, index };
                        own_switches.push(switch);
                    }
                    Some(number) => {
                        let mut host = hosts[number].take().expect("each node has one logical process");
                        host.set_local_numbers(index, outgoing[host.wire()]);
                        self.hosts[number] = NodeLocation { lp, index: own_hosts.len() as u32 };
                        own_hosts.push(host);
                    }
                }
            }
            self.lps.push(Box::new(LogicalProcess::new(
                network,
                own_switches.into(),
                own_hosts.into(),
                numbers.into(),
            )));
        }
    }
}

/// Wires assigned to logical processes.
struct WireAssignment {
    lps: Vec<LpWires>,
}

#[derive(Default)]
struct LpWires {
    wires: Vec<Wire>,
    /// Numbers of the wires in the fabric.
    numbers: Vec<u32>,
    /// Remote ends of the near halves, which are the last wires.
    remote_ends: Vec<RemoteEnd>,
}

impl WireAssignment {
    fn new(count: usize) -> WireAssignment {
        WireAssignment { lps: (0..count).map(|_| LpWires::default()).collect() }
    }

    /// Appends a wire to a logical process; returns its index there.
    fn assign(&mut self, lp: u32, number: u32, wire: Wire) -> u32 {
        let LpWires { wires, numbers, .. } = &mut self.lps[lp as usize];
        wires.push(wire);
        numbers.push(number);
        wires.len() as u32 - 1
    }

    fn assign_near_half(&mut self, lp: u32, number: u32, wire: Wire, remote_end: RemoteEnd) -> u32 {
        self.lps[lp as usize].remote_ends.push(remote_end);
        self.assign(lp, number, wire)
    }

    /// Returns the index of each wire in the logical process of its source node, by number in the fabric.
    fn outgoing_indices(&self, ends: &[[u32; 2]], lp_of: &[u32]) -> Vec<u32> {
        let mut outgoing = vec![0; ends.len()];
        for (lp, LpWires { numbers, .. }) in (0..).zip(&self.lps) {
            for (index, number) in (0..).zip(numbers) {
                if lp_of[ends[*number as usize][0] as usize] == lp {
                    outgoing[*number as usize] = index;
                }
            }
        }
        outgoing
    }
}
