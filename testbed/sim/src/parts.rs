//! Partition of a fabric's nodes into logical processes, and the location of each node.

use std::collections::VecDeque;
use std::time::Duration;

use weir_scenario::PortPlace;
use weir_units::Time;
use weir_units::archive::{Archive, State};

use super::frame::Spare;
use super::network::{Network, Told};
use super::node::{SimHost, SimSwitch};
use super::part::{Part, PartBox};
use super::post::{Away, Post};
use super::sides::Sides;
use super::wire::Wire;

/// Logical processes: one for a single thread, otherwise several. In each window with several: call [`Parts::let_go`],
/// then [`Part::take_turn`] of each logical process, in any order or in parallel.
#[derive(Debug)]
pub(super) struct Parts {
    parts: Vec<PartBox>,
    /// Locations of switches and hosts, by number in the scenario.
    switches: Box<[Place]>,
    hosts: Box<[Place]>,
    /// Phases of all nodes: switches, then hosts.
    sides: Sides,
    /// Source and destination node of each wire, by its number in the fabric.
    ends: Box<[[u32; 2]]>,
    /// Near halves with injected faults.
    faulty: Vec<Half>,
    /// Counts from before the last repartition.
    hops: u64,
    woken: u64,
    /// Recorded flow control from before the last repartition.
    told: Vec<Told>,
}

/// Location of a node: logical process, and index among its switches or hosts.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    part: u32,
    at: u32,
}

/// Near half of a wire: logical process, and index there.
#[derive(Clone, Copy, Debug)]
struct Half {
    part: u32,
    wire: u32,
}

/// All nodes and wires in scenario order, during a repartition.
struct Pile {
    switches: Vec<Option<SimSwitch>>,
    hosts: Vec<Option<SimHost>>,
    /// Wires by number in the fabric, which their senders hold meanwhile.
    wires: Vec<Option<Wire>>,
    due: Vec<Time>,
    spare: Spare,
    tells: bool,
}

impl Parts {
    /// Creates one logical process with all nodes; each node wakes at [`Time::ZERO`].
    pub(super) fn new(
        switches: Box<[SimSwitch]>,
        hosts: Box<[SimHost]>,
        wires: Box<[Wire]>,
        ends: Box<[[u32; 2]]>,
        sides: Sides,
    ) -> Parts {
        let mut parts = Parts {
            parts: Vec::new(),
            switches: vec![Place::default(); switches.len()].into(),
            hosts: vec![Place::default(); hosts.len()].into(),
            sides,
            ends,
            faulty: Vec::new(),
            hops: 0,
            woken: 0,
            told: Vec::new(),
        };
        let all = vec![0; switches.len()];
        let pile = Pile {
            due: vec![Time::ZERO; switches.len() + hosts.len()],
            switches: switches.into_iter().map(Some).collect(),
            hosts: hosts.into_iter().map(Some).collect(),
            wires: wires.into_iter().map(Some).collect(),
            spare: Spare::default(),
            tells: false,
        };
        parts.spread(pile, &all, 1);
        parts
    }

    /// Repartitions all nodes into `count` logical processes. `plan` gives the process of each switch; hosts go with
    /// their switch.
    pub(super) fn deal(&mut self, plan: &[u32], count: usize) {
        let pile = self.gather();
        self.spread(pile, plan, count);
    }

    /// Saves or loads all nodes and wires in scenario order, independent of the partition; then repartitions as in
    /// [`Parts::deal`].
    pub(super) fn checkpoint(&mut self, archive: &mut Archive, plan: &[u32], count: usize) {
        let mut pile = self.gather();
        let Pile { switches, hosts, wires, due, spare: _, tells: _ } = &mut pile;
        archive.fixed(switches.iter_mut().flatten().collect::<Vec<_>>().into_iter());
        archive.fixed(hosts.iter_mut().flatten().collect::<Vec<_>>().into_iter());
        archive.fixed(wires.iter_mut().flatten().collect::<Vec<_>>().into_iter());
        archive.fixed(due.iter_mut());
        let Parts { parts: _, switches: _, hosts: _, sides: _, ends: _, faulty: _, hops, woken, told } = self;
        hops.state(archive);
        woken.state(archive);
        told.state(archive);
        self.spread(pile, plan, count);
    }

    pub(super) fn count(&self) -> usize {
        self.parts.len()
    }

    pub(super) fn all_mut(&mut self) -> &mut [PartBox] {
        &mut self.parts
    }

    /// Returns the logical processes for the worker pool, which restores their order.
    pub(super) fn as_crew(&mut self) -> &mut Vec<PartBox> {
        &mut self.parts
    }

    pub(super) fn sides(&self) -> &Sides {
        &self.sides
    }

    /// Returns the earliest wake-up time of all nodes.
    #[inline]
    pub(super) fn first_due(&mut self) -> Time {
        let parts = self.parts.iter_mut().map(|part| part.network.first_due()).min().unwrap_or(Time::NEVER);
        let held = self
            .faulty
            .iter()
            .map(|half| self.parts[half.part as usize].network.wires[half.wire as usize].next_arrival());
        held.min().unwrap_or(Time::NEVER).min(parts)
    }

    /// Moves frames between logical processes that injected faults held back and that arrive by `limit` at nodes of the
    /// phase run next. Called per window, because until then the other phase may still send frames that overtake them.
    pub(super) fn let_go(&mut self, side: usize, limit: Time) {
        for half in &self.faulty {
            let Away { part, wire } = self.parts[half.part as usize].network.post.away(half.wire);
            if self.parts[part as usize].network.side_of(wire) != side {
                continue;
            }
            let mut frames = VecDeque::new();
            let near = &mut self.parts[half.part as usize].network;
            near.wires[half.wire as usize].let_go(limit);
            near.wires[half.wire as usize].hand_over(&mut frames);
            self.parts[part as usize].network.put(wire, &mut frames);
        }
    }

    /// Returns the duration of each logical process's last window.
    pub(super) fn took(&self) -> impl Iterator<Item = Duration> {
        self.parts.iter().map(|part| part.took)
    }

    /// Equalises the free frame memory, which migrates with frames between logical processes.
    pub(super) fn level_memory(&mut self) {
        let all: usize = self.parts.iter().map(|part| part.network.spare.len()).sum();
        let each = all / self.parts.len();
        let mut over = Spare::default();
        for part in &mut self.parts {
            over.take_from(&mut part.network.spare, each);
        }
        for part in &mut self.parts {
            let missing = each.saturating_sub(part.network.spare.len());
            let kept = over.len().saturating_sub(missing);
            part.network.spare.take_from(&mut over, kept);
        }
        self.parts[0].network.spare.take_from(&mut over, 0);
    }

    pub(super) fn switches(&self) -> usize {
        self.switches.len()
    }

    pub(super) fn hosts(&self) -> usize {
        self.hosts.len()
    }

    pub(super) fn switch(&self, number: usize) -> &SimSwitch {
        let Place { part, at } = self.switches[number];
        &self.parts[part as usize].switches[at as usize]
    }

    pub(super) fn switch_mut(&mut self, number: usize) -> &mut SimSwitch {
        let Place { part, at } = self.switches[number];
        &mut self.parts[part as usize].switches[at as usize]
    }

    pub(super) fn host(&self, number: usize) -> &SimHost {
        let Place { part, at } = self.hosts[number];
        &self.parts[part as usize].hosts[at as usize]
    }

    pub(super) fn host_mut(&mut self, number: usize) -> &mut SimHost {
        let Place { part, at } = self.hosts[number];
        &mut self.parts[part as usize].hosts[at as usize]
    }

    /// Returns two distinct hosts.
    ///
    /// # Panics
    /// If both numbers are equal.
    pub(super) fn two_hosts(&mut self, numbers: [usize; 2]) -> [&mut SimHost; 2] {
        const TWO: &str = "a message goes to another host";
        let [one, other] = numbers.map(|number| self.hosts[number]);
        if one.part == other.part {
            let hosts = &mut self.parts[one.part as usize].hosts;
            return hosts.get_disjoint_mut([one.at as usize, other.at as usize]).expect(TWO);
        }
        let parts = self.parts.get_disjoint_mut([one.part as usize, other.part as usize]).expect(TWO);
        let [of_one, of_other] = parts;
        [&mut of_one.hosts[one.at as usize], &mut of_other.hosts[other.at as usize]]
    }

    /// Schedules a wake-up of a host at `at` or earlier.
    pub(super) fn wake_host(&mut self, number: usize, at: Time) {
        let place = self.hosts[number];
        let part = &mut self.parts[place.part as usize];
        part.hosts[place.at as usize].wake(at);
        part.network.wake(part.switches.len() + place.at as usize, at);
    }

    /// Sets a host's end of its link up or down, with the wire that leaves it.
    pub(super) fn set_host_link_up(&mut self, now: Time, number: usize, is_up: bool) {
        self.host_mut(number).set_link_up(now, is_up);
        self.wake_host(number, now);
        let wire = self.host(number).wire();
        self.set_wire_up(self.hosts[number].part, wire, is_up);
    }

    /// Sets a switch's end of a link up or down, with the wire that leaves it.
    pub(super) fn set_port_up(&mut self, now: Time, place: PortPlace, is_up: bool) {
        let Place { part, at } = self.switches[place.switch];
        let switch = self.switch_mut(place.switch);
        switch.set_link_up(now, place.port, is_up);
        if let Some(wire) = switch.wire(place.port) {
            self.set_wire_up(part, wire, is_up);
        }
        self.parts[part as usize].network.wake(at as usize, now);
    }

    fn set_wire_up(&mut self, part: u32, wire: usize, is_up: bool) {
        let network = &mut self.parts[part as usize].network;
        network.wires[wire].set_up(is_up);
        if let Some(Away { part, wire }) = network.post.is_away(wire as u32) {
            let network = &mut self.parts[part as usize].network;
            network.deliver();
            let far = &mut network.wires[wire as usize];
            far.set_up(is_up);
            far.set_up(true);
        }
    }

    /// Returns all wires, and the halves of split ones. Each half counts its own faults and losses.
    pub(super) fn wires(&self) -> impl Iterator<Item = &Wire> {
        self.parts.iter().flat_map(|part| &part.network.wires)
    }

    /// Returns the wire that leaves a port, or its near half.
    pub(super) fn wire_of_port(&self, place: PortPlace) -> Option<&Wire> {
        let wire = self.switch(place.switch).wire(place.port)?;
        Some(&self.parts[self.switches[place.switch].part as usize].network.wires[wire])
    }

    /// Returns the wire that leaves a host, or its near half.
    pub(super) fn wire_of_host(&self, host: usize) -> &Wire {
        &self.parts[self.hosts[host].part as usize].network.wires[self.host(host).wire()]
    }

    pub(super) fn under_way(&self) -> usize {
        let between: usize = self.parts.iter().map(|part| part.network.post.under_way()).sum();
        between + self.wires().map(Wire::under_way).sum::<usize>()
    }

    pub(super) fn hops(&self) -> u64 {
        self.hops + self.parts.iter().map(|part| part.network.hops()).sum::<u64>()
    }

    pub(super) fn woken(&self) -> u64 {
        self.woken + self.parts.iter().map(|part| part.woken).sum::<u64>()
    }

    /// Returns the wake-ups of each node since the last repartition.
    pub(super) fn work(&self) -> Vec<u64> {
        let of_part = |place: &Place| &self.parts[place.part as usize];
        let switches = self.switches.iter().map(|place| of_part(place).work[place.at as usize]);
        let hosts = self.hosts.iter().map(|place| {
            let part = of_part(place);
            part.work[part.switches.len() + place.at as usize]
        });
        switches.chain(hosts).collect()
    }

    /// Starts recording sent flow-control frames.
    pub(super) fn keep_told(&mut self) {
        self.parts.iter_mut().for_each(|part| part.network.told = Some(Vec::new()));
    }

    /// Returns the recorded frames that switch ports sent or received by `now` since the last call, in time order.
    pub(super) fn drain_told(&mut self, now: Time) -> impl Iterator<Item = Told> {
        let Parts { parts, told, .. } = self;
        // Frames of one node keep their order: since the last repartition they are all from one logical process.
        parts.iter_mut().filter_map(|part| part.network.told.as_mut()).for_each(|of_part| told.append(of_part));
        told.retain(|told| told.at < Time::NEVER);
        told.sort_by_key(|told| (told.at, told.place, told.by));
        let known = told.partition_point(|told| told.at <= now);
        told.drain(..known)
    }

    /// Dissolves all logical processes.
    fn gather(&mut self) -> Pile {
        let nodes = self.switches.len() + self.hosts.len();
        let mut pile = Pile {
            switches: self.switches.iter().map(|_| None).collect(),
            hosts: self.hosts.iter().map(|_| None).collect(),
            wires: self.ends.iter().map(|_| None).collect(),
            due: vec![Time::NEVER; nodes],
            spare: Spare::default(),
            tells: false,
        };
        let mut near_halves = Vec::new();
        for part in self.parts.drain(..) {
            let Part { mut network, switches, hosts, wire_names, woken, .. } = *part;
            network.deliver();
            self.hops += network.hops();
            self.woken += woken;
            pile.spare.take_from(&mut network.spare, 0);
            pile.tells |= network.told.is_some();
            network.told.iter_mut().for_each(|told| self.told.append(told));
            let name = |wire: u32| wire_names[wire as usize];
            let first_host = switches.len();
            for (node, mut switch) in switches.into_iter().enumerate() {
                switch.around.wires.iter_mut().flatten().for_each(|wire| *wire = name(*wire));
                pile.due[switch.number()] = network.due(node);
                let number = switch.number();
                pile.switches[number] = Some(switch);
            }
            for (node, mut host) in (first_host..).zip(hosts) {
                let (number, wire) = (host.number(), name(host.wire() as u32));
                host.settle(0, wire);
                pile.due[self.switches.len() + number] = network.due(node);
                pile.hosts[number] = Some(host);
            }
            for (name, wire) in wire_names.into_iter().zip(network.wires) {
                if wire.leads_elsewhere() {
                    near_halves.push((name, wire));
                } else {
                    pile.wires[name as usize] = Some(wire);
                }
            }
        }
        for (name, near) in near_halves {
            let whole = &mut pile.wires[name as usize];
            let far = whole.take().expect("a near half has a far one");
            *whole = Some(Wire::join([near, far]));
        }
        pile
    }

    /// Builds `count` logical processes from a pile.
    fn spread(&mut self, pile: Pile, plan: &[u32], count: usize) {
        let Pile { switches, hosts, wires, mut due, mut spare, tells } = pile;
        let switch_of = |host: &Option<SimHost>| host.as_ref().expect("all are there").switch();
        let part_of: Vec<u32> = plan.iter().copied().chain(hosts.iter().map(|host| plan[switch_of(host)])).collect();
        let mut nodes: Vec<Vec<u32>> = vec![Vec::new(); count];
        let mut place_of = vec![0; part_of.len()];
        for (node, part) in (0..).zip(&part_of) {
            let nodes = &mut nodes[*part as usize];
            place_of[node as usize] = nodes.len() as u32;
            nodes.push(node);
        }
        let first_host = self.switches.len();
        let mut laid = Laid::new(count);
        // A wire between logical processes is split. Near halves come last, grouped by node.
        let mut split = Vec::new();
        for (name, wire) in (0..).zip(wires) {
            let (mut wire, [from, to]) = (wire.expect("all are there"), self.ends[name as usize]);
            wire.lead_to(place_of[to as usize]);
            // The receiver's wake-up excludes frames that faults held back on a near half.
            due[to as usize] = due[to as usize].min(wire.next_arrival());
            let part = part_of[to as usize];
            if part_of[from as usize] == part {
                laid.lay(part, name, wire);
            } else {
                let [near, far] = wire.split();
                let at = laid.lay(part, name, far);
                split.push((from, name, near, Away { part, wire: at }));
            }
        }
        split.sort_by_key(|(from, name, ..)| (*from, *name));
        self.faulty.clear();
        for (from, name, near, away) in split {
            let (part, is_faulty) = (part_of[from as usize], near.is_faulty());
            let wire = laid.lay_near(part, name, near, away);
            if is_faulty {
                self.faulty.push(Half { part, wire });
            }
        }
        let leaving = laid.leaving(&self.ends, &part_of);
        let (mut switches, mut hosts) = (switches, hosts);
        let share = spare.len() / count;
        let of_part = |part: &mut OfPart| (part.wires.len() - part.away.len(), std::mem::take(&mut part.away));
        let posts = Post::of_parts(laid.parts.iter_mut().map(of_part).collect());
        for (part, ((nodes, wires), post)) in nodes.iter().zip(laid.parts).zip(posts).enumerate() {
            let OfPart { wires, names, .. } = wires;
            let mut network = Network::new(wires.into(), post, self.sides.of_part(nodes));
            let kept = spare.len().saturating_sub(if part + 1 == count { spare.len() } else { share });
            network.spare.take_from(&mut spare, kept);
            network.told = tells.then(Vec::new);
            let (mut own_switches, mut own_hosts) = (Vec::new(), Vec::new());
            for (at, node) in (0..).zip(nodes) {
                let number = *node as usize;
                network.wake(at as usize, due[number]);
                let part = part as u32;
                match number.checked_sub(first_host) {
                    None => {
                        let mut switch = switches[number].take().expect("it is there");
                        switch.around.wires.iter_mut().flatten().for_each(|wire| *wire = leaving[*wire as usize]);
                        switch.settle(at);
                        self.switches[number] = Place { part, at };
                        own_switches.push(switch);
                    }
                    Some(number) => {
                        let mut host = hosts[number].take().expect("it is there");
                        host.settle(at, leaving[host.wire()]);
                        self.hosts[number] = Place { part, at: own_hosts.len() as u32 };
                        own_hosts.push(host);
                    }
                }
            }
            self.parts.push(Box::new(Part::new(network, own_switches.into(), own_hosts.into(), names.into())));
        }
    }
}

/// Wires assigned to logical processes.
struct Laid {
    parts: Vec<OfPart>,
}

#[derive(Default)]
struct OfPart {
    wires: Vec<Wire>,
    /// Numbers of the wires in the fabric.
    names: Vec<u32>,
    /// Remote ends of the near halves, which are the last wires.
    away: Vec<Away>,
}

impl Laid {
    fn new(parts: usize) -> Laid {
        Laid { parts: (0..parts).map(|_| OfPart::default()).collect() }
    }

    /// Appends a wire to a logical process; returns its index there.
    fn lay(&mut self, part: u32, name: u32, wire: Wire) -> u32 {
        let OfPart { wires, names, .. } = &mut self.parts[part as usize];
        wires.push(wire);
        names.push(name);
        wires.len() as u32 - 1
    }

    fn lay_near(&mut self, part: u32, name: u32, wire: Wire, away: Away) -> u32 {
        self.parts[part as usize].away.push(away);
        self.lay(part, name, wire)
    }

    /// Returns the index of each wire in the logical process of its source node, by number in the fabric.
    fn leaving(&self, ends: &[[u32; 2]], part_of: &[u32]) -> Vec<u32> {
        let mut leaving = vec![0; ends.len()];
        for (part, OfPart { names, .. }) in (0..).zip(&self.parts) {
            for (at, name) in (0..).zip(names) {
                if part_of[ends[*name as usize][0] as usize] == part {
                    leaving[*name as usize] = at;
                }
            }
        }
        leaving
    }
}
