//! The backend that runs a scenario in virtual time: the switches' own code, the hosts' own code, and links, as discrete
//! events on a clock of picoseconds.
//!
//! [`Sim::new`] builds a scenario's switches and hosts; [`Sim::run_until`] runs them up to an instant, as often as one likes;
//! [`Sim::report`] and the others tell how things stand then. [`SimBackend`] does all of it for a run directory.
//!
//! A node (a switch or a host) is woken when a frame arrives for it, and at the instant that it named itself. A frame takes
//! its time on its sender's wire, then the propagation delay of the link, and has
//! arrived with its last byte. Frames have no payload: they are the [`NicFrame`](weir_nic::host::NicFrame)s that hosts hand over.
//! Switches and hosts react at once: `reaction = "0s"` in `[pfc]` sizes headroom for that.
//!
//! A scenario gives one run, on every machine. Nothing that a node does reaches another one before a frame has come over a
//! wire, which takes the shortest propagation delay at least: the *lookahead*. Time is cut into windows that long. In a window
//! each node does all of its work, one node after the other in any order, while the cache has what it needs; meanwhile the
//! memory of the next nodes is fetched (`ahead.rs`). Where links join only nodes of two sides, as the levels of
//! a tree, the sides take turns, and a window is two lookaheads long. A node's instants follow each other in order. If several
//! ports of a switch have an arrival at one instant, they take turns in being first. `time_dilation` has no meaning
//! here.
//!
//! ```
//! use std::path::Path;
//! use weir_sim::Sim;
//!
//! // Two hosts send 64 KB each to a third one.
//! let text = r#"
//! [scenario]
//! end = "1ms"
//! [topology]
//! kind = "single"
//! hosts = 3
//! rate = "25Gbps"
//! delay = "1us"
//! [switch.buffer]
//! size = "1MB"
//! [switch.classes]
//! preset = "roce"
//! [switch.pfc]
//! reaction = "0s"
//! [[workloads]]
//! kind = "incast"
//! class = 3
//! sizes = "64KB"
//! receivers = ["H2"]
//! "#;
//! let runs = weir_scenario::file::parse(Path::new("incast.toml"), text).map_err(|errors| errors.render(false)).unwrap();
//! let scenario = &runs[0].scenario;
//! let mut sim = Sim::new(scenario).unwrap();
//! sim.run_until(scenario.end);
//! assert_eq!(sim.drain_completions().count(), 2);
//! let balance = sim.report(0).balance;
//! assert!(balance.holds && balance.received == balance.sent);
//! ```
//!
//! `examples/incast.rs` looks at the switch while it runs.

#![forbid(unsafe_code)]

mod agenda;
mod ahead;
mod audit;
mod backend;
mod balance;
mod connections;
mod frame;
mod network;
mod node;
mod roster;
mod sides;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::Arc;

use weir_nic::host::{Host, HostError};
use weir_results::deadlock::{Links, SwitchState};
use weir_results::run_dir::FrameSummary;
use weir_scenario::link::FaultCounters;
use weir_scenario::{PortPlace, Scenario, ScenarioError};
use weir_switch_core::{BuildError, Report, Shared};
use weir_units::{BitRate, Serialiser, Span, Time};

use ahead::{Ahead, Later};
use connections::Connections;
use network::{Network, Told};
use node::{SimHost, SimSwitch};
use sides::Sides;
use wire::{FarEnd, Wire, WireParameters};

pub use backend::{SimBackend, SimRunError};
pub use connections::{Done, Sent};
pub use weir_results::record::Progress;

/// A scenario under way in virtual time.
#[derive(Debug)]
pub struct Sim {
    network: Network,
    /// In this order, switches and hosts are the nodes of the network.
    switches: Box<[SimSwitch]>,
    hosts: Box<[SimHost]>,
    connections: Connections,
    links: Links,
    now: Time,
    /// How far the nodes of each side have got.
    clocks: [Time; 2],
    /// The window that the hosts are in, or were last: so many lookaheads long as there are sides, from the start.
    window: Option<u64>,
    /// Instants at which any node did something.
    woken: u64,
    /// Windows that were looked at, in debug builds.
    audited: u64,
    /// Memory for the nodes that are due in a turn.
    due: Vec<u32>,
}

/// Why a scenario can't be run in virtual time.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The scenario does not hold together.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A port with a link and no rate: there is no device to ask.
    #[error("port {0} has no rate, which its wire needs")]
    NoRate(String),
    /// A switch can't be built.
    #[error("switch {switch}: {source}")]
    Switch {
        /// Its name.
        switch: String,
        /// Why.
        source: BuildError,
    },
    /// A host can't be.
    #[error("host {host}: {source}")]
    Host {
        /// Its name.
        host: String,
        /// Why.
        source: HostError,
    },
}

impl Sim {
    /// The scenario before its first instant.
    pub fn new(scenario: &Scenario) -> Result<Sim, SimError> {
        scenario.check()?;
        let (wires, leaving) = wires(scenario)?;
        let switches = scenario.switches.iter().zip(&leaving.ports).enumerate();
        let switches = switches.map(|(number, (config, wires))| {
            let failed = |source| SimError::Switch { switch: config.name.clone(), source };
            let routes = scenario.routes.as_ref().map(|routes| {
                let ports = (0..scenario.hosts.len()).map(move |host| routes.ports(number, host));
                (scenario.hosts[0].nic.mac, ports)
            });
            SimSwitch::new(number, config, wires.clone().into(), routes, scenario).map_err(failed)
        });
        let switches = switches.collect::<Result<Box<[_]>, _>>()?;
        let hosts = (0..scenario.hosts.len()).map(|n| {
            // Nobody is ever late.
            let host = scenario.host(n, Span::ZERO);
            let host = host.map_err(|source| SimError::Host { host: scenario.hosts[n].name.clone(), source })?;
            Ok(SimHost::new(switches.len() + n, scenario.hosts[n].place(), host, leaving.hosts[n]))
        });
        let hosts = hosts.collect::<Result<Box<[_]>, SimError>>()?;
        let (nodes, sides) = (switches.len() + hosts.len(), Sides::new(scenario));
        let network = Network::new(wires, nodes, sides, scenario.frame_bytes_min());
        let (connections, links) = (Connections::new(scenario), Links::of(scenario));
        Ok(Sim {
            network,
            switches,
            hosts,
            connections,
            links,
            now: Time::ZERO,
            clocks: [Time::ZERO; 2],
            window: None,
            woken: 0,
            audited: 0,
            due: Vec::new(),
        })
    }

    /// Goes on until `until`, with what happens at that instant.
    ///
    /// # Panics
    /// If that is past.
    pub fn run_until(&mut self, until: Time) {
        assert!(self.now <= until, "{until:?} is past: it is {:?}", self.now);
        let lookahead = self.network.lookahead().as_picos();
        let mut turn = 0;
        loop {
            let next = self.network.first_due().min(self.connections.next_start());
            // Never is no instant.
            if next > until || next == Time::NEVER {
                break;
            }
            // All that is before `next` has been done: so turns in which nothing would be are left out.
            turn = turn.max(next.as_picos() / lookahead);
            let end = Time::from_picos((turn + 1) * lookahead);
            let side = self.network.sides().turn(turn);
            if side == self.network.sides().of_hosts() {
                let window = turn / self.network.sides().count() as u64;
                if self.window != Some(window) {
                    self.window = Some(window);
                    self.connections.close_completed(&mut self.hosts);
                    self.connections.open_before(end, &mut self.hosts, &mut self.network, self.switches.len());
                }
            }
            let limit = until.min(Time::from_picos(end.as_picos() - 1));
            self.run_side(side, limit);
            self.clocks[side] = limit;
            if cfg!(debug_assertions) {
                self.audit();
            }
            turn += 1;
        }
        self.clocks = [until; 2];
        self.now = until;
    }

    /// Has all nodes of a side do what they have to do up to `limit`. What others do in the meantime makes none of them due.
    fn run_side(&mut self, side: usize, limit: Time) {
        let Sim { network, switches, hosts, connections, woken, due, .. } = self;
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
                    *woken += node.run_until(limit, network, |network| _ = ahead.next(&later, network));
                    later
                }
                Some((number, Some(host))) => {
                    let (node, hosts) = hosts[host..].split_first_mut().expect("a host");
                    let later = Later { first_switch: number, switches: &[], first_host: number + 1, hosts };
                    *woken += node.run_until(limit, network, |network| _ = ahead.next(&later, network));
                    if node.host.has_completions() {
                        connections.note_completed(host, &mut node.host);
                    }
                    later
                }
            };
            while ahead.next(&later, network) {}
        }
    }

    /// Goes on for so long.
    pub fn run_for(&mut self, span: Span) {
        self.run_until(self.now() + span);
    }

    /// The instant up to which the scenario has run.
    pub fn now(&self) -> Time {
        self.now
    }

    /// A report of a switch, by its place in the scenario.
    pub fn report(&mut self, switch: usize) -> Report {
        self.switches[switch].report(self.now)
    }

    /// Reports of all switches.
    pub fn reports(&mut self) -> Vec<Report> {
        (0..self.switches.len()).map(|switch| self.report(switch)).collect()
    }

    /// What a switch shares with its readers, its buffer and what its peers let it send: for what is asked too often for a report.
    pub fn shared(&self, switch: usize) -> &Shared {
        self.switches[switch].shared()
    }

    /// A host, by its place in the scenario.
    pub fn host(&self, host: usize) -> &Host {
        &self.hosts[host].host
    }

    /// All hosts, in the order of the scenario.
    pub fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter().map(|node| &node.host)
    }

    /// The messages that were completed since the last call, oldest first.
    pub fn drain_completions(&mut self) -> impl Iterator<Item = Done> {
        self.connections.drain_done()
    }

    /// Cuts a link of a host, or mends it. What is on it is lost, the switch drops what it has for it, and flow control of both
    /// ends starts anew.
    pub fn set_host_link_up(&mut self, scenario: &Scenario, host: usize, is_up: bool) {
        let place = scenario.hosts[host].place();
        self.network.wires[self.hosts[host].wire()].set_up(is_up);
        self.hosts[host].set_link_up(self.now, is_up);
        self.network.wake(self.switches.len() + host, self.now);
        self.set_port_up(place, is_up);
    }

    /// Cuts a link between switches, by its place in the scenario, or mends it. What is on it is lost, and both switches drop
    /// what they have for it; of several ways of equal cost, they take another.
    pub fn set_link_up(&mut self, scenario: &Scenario, link: usize, is_up: bool) {
        scenario.links[link].ends.into_iter().for_each(|end| self.set_port_up(end, is_up));
    }

    fn set_port_up(&mut self, place: PortPlace, is_up: bool) {
        let switch = &mut self.switches[place.switch];
        switch.set_link_up(self.now, place.port, is_up);
        if let Some(wire) = switch.wire(place.port) {
            self.network.wires[wire].set_up(is_up);
        }
        self.network.wake(place.switch, self.now);
    }

    /// What injected faults have done, on all links together.
    pub fn fault_counters(&self) -> FaultCounters {
        let of_wires = self.network.wires.iter().map(Wire::fault_counters);
        of_wires.fold(FaultCounters::default(), |sum, of_wire| FaultCounters {
            chosen: sum.chosen + of_wire.chosen,
            lost: sum.lost + of_wire.lost,
            corrupted: sum.corrupted + of_wire.corrupted,
            doubled: sum.doubled + of_wire.doubled,
            reordered: sum.reordered + of_wire.reordered,
        })
    }

    /// Frames lost because a link was cut.
    pub fn cut_off(&self) -> u64 {
        self.network.wires.iter().map(Wire::cut_off).sum()
    }

    /// Where all frames have gone that were ever put on a link.
    ///
    /// # Errors
    /// Which books do not balance: a fault of the program.
    pub fn frames(&mut self) -> Result<FrameSummary, String> {
        let reports = self.reports();
        balance::frames(self, &reports)
    }

    /// Frames that a host has put on its link, and taken from it, flow control's too.
    pub fn host_frames(&self, host: usize) -> [u64; 2] {
        self.hosts[host].frames
    }

    /// What injected faults have done to what a switch's port sends.
    fn faults_of_port(&self, place: PortPlace) -> FaultCounters {
        let wire = self.switches[place.switch].wire(place.port);
        wire.map_or_else(FaultCounters::default, |wire| self.network.wires[wire].fault_counters())
    }

    /// What injected faults have done to what a host sends.
    fn faults_of_host(&self, host: usize) -> FaultCounters {
        self.network.wires[self.hosts[host].wire()].fault_counters()
    }

    /// From now on, the flow-control frames that are sent are kept for [`Sim::drain_told`].
    fn keep_told(&mut self) {
        self.network.told = Some(Vec::new());
    }

    /// The kept frames that the switches' ports have come to know of since the last call, in that order.
    fn drain_told(&mut self) -> impl Iterator<Item = Told> {
        let (now, told) = (self.now, self.network.told.as_mut());
        told.into_iter().flat_map(move |told| {
            told.retain(|told| told.at < Time::NEVER);
            told.sort_by_key(|told| (told.at, told.place, told.by));
            let known = told.partition_point(|told| told.at <= now);
            told.drain(..known)
        })
    }

    /// The links between switches, for a [`Detector`](weir_results::deadlock::Detector).
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// The egress queues as they are, for a [`Detector`](weir_results::deadlock::Detector).
    pub fn snapshot(&mut self) -> Vec<SwitchState> {
        self.reports().iter().map(SwitchState::of).collect()
    }

    /// Frames put on any link so far, flow control's too: a packet that crosses a switch counts two.
    pub fn packet_hops(&self) -> u64 {
        self.network.hops()
    }

    /// Frames on their way on any link.
    pub fn under_way(&self) -> usize {
        self.network.wires.iter().map(Wire::under_way).sum()
    }

    /// Whether all flows have sent all that they will ever send, and have it acknowledged.
    pub fn is_finished(&self) -> bool {
        self.connections.next_start() == Time::NEVER && self.hosts().all(Host::is_finished)
    }

    /// How often any node was woken: what a run costs.
    pub fn wakeups(&self) -> u64 {
        self.woken
    }
}

/// Which wire leaves where.
struct Leaving {
    /// By switch and port.
    ports: Vec<Vec<Option<u32>>>,
    hosts: Vec<u32>,
}

/// Both directions of all links, in the order of the nodes and ports that they lead to: a node whose turn begins looks at
/// all that lead to it.
fn wires(scenario: &Scenario) -> Result<(Box<[Wire]>, Leaving), SimError> {
    let mut wires = Vec::new();
    let mut kinds: Vec<Arc<WireParameters>> = Vec::new();
    let mut kind = |rate: BitRate, delay: Span| {
        let kind = WireParameters { rate: Serialiser::new(rate), overhead: scenario.link_overhead, delay };
        let known = kinds.iter().find(|known| ***known == kind).cloned();
        known.unwrap_or_else(|| {
            kinds.push(Arc::new(kind));
            kinds[kinds.len() - 1].clone()
        })
    };
    let mut leaving = Leaving {
        ports: scenario.switches.iter().map(|switch| vec![None; switch.ports.len()]).collect(),
        hosts: Vec::new(),
    };
    let far = |place: PortPlace| FarEnd { node: place.switch as u32, port: place.port as u16 };
    let rate = |place: PortPlace| {
        let rate = scenario.switches[place.switch].ports[place.port].rate;
        rate.ok_or_else(|| SimError::NoRate(scenario.port_name(place)))
    };
    for (n, plan) in scenario.hosts.iter().enumerate() {
        let place = plan.place();
        let [to_host, to_switch] = plan.faults;
        leaving.ports[place.switch][place.port] = Some(wires.len() as u32);
        let node = (scenario.switches.len() + n) as u32;
        wires.push(Wire::new(kind(rate(place)?, plan.link_delay), to_host, FarEnd { node, port: 0 }));
        leaving.hosts.push(wires.len() as u32);
        wires.push(Wire::new(kind(plan.nic.rate, plan.link_delay), to_switch, far(place)));
    }
    for plan in &scenario.links {
        for (from, to, faults) in [(0, 1, plan.faults[0]), (1, 0, plan.faults[1])] {
            let (from, to) = (plan.ends[from], plan.ends[to]);
            leaving.ports[from.switch][from.port] = Some(wires.len() as u32);
            wires.push(Wire::new(kind(rate(from)?, plan.delay), faults, far(to)));
        }
    }
    let mut numbered: Vec<(u32, Wire)> = (0..).zip(wires).collect();
    numbered.sort_by_key(|(_, wire)| wire.to());
    let mut place_of = vec![0; numbered.len()];
    (0..).zip(&numbered).for_each(|(place, (number, _))| place_of[*number as usize] = place);
    let of_ports = leaving.ports.iter_mut().flatten().flatten();
    of_ports.chain(&mut leaving.hosts).for_each(|wire| *wire = place_of[*wire as usize]);
    Ok((numbered.into_iter().map(|(_, wire)| wire).collect(), leaving))
}
