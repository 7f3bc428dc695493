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
//! a tree, the sides take turns, and a window is two lookaheads long. So nodes may as well be shared out to several threads
//! ([`Sim::set_threads`]), which changes nothing in the results. A node's instants follow each other in order. If several
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
mod build_id;
mod cabling;
mod connections;
mod crew;
mod feedback;
mod forecast;
mod frame;
mod huge_pages;
mod network;
mod node;
mod pace;
mod part;
mod partition;
mod parts;
mod post;
mod roster;
mod shares;
mod sides;
#[cfg(test)]
mod tests;
mod wire;

use std::time::Duration;

use weir_nic::host::{Host, HostError};
use weir_results::deadlock::{Links, SwitchState};
use weir_results::feedback::FeedbackStats;
use weir_results::run_dir::FrameSummary;
use weir_scenario::link::FaultCounters;
use weir_scenario::topology::Routes;
use weir_scenario::workload::Message;
use weir_scenario::{PortPlace, Scenario, ScenarioError};
use weir_switch_core::{BuildError, Report, Shared};
use weir_units::archive::{Archive, State};
use weir_units::{Span, Time};

use connections::Connections;
use crew::Crew;
use network::Told;
use node::{SimHost, SimSwitch};
use pace::Pace;
use partition::Fabric;
use parts::Parts;
use shares::Shares;
use sides::Sides;
use wire::Wire;

pub use backend::{CheckpointError, SimBackend, SimRunError};
pub use build_id::own_build_id;
pub use connections::{Done, Sent};
pub use forecast::{Forecast, free_memory, memory_shown};
pub use huge_pages::begin_with_huge_pages;
pub use pace::Threads;
pub use weir_results::record::Progress;

/// A scenario under way in virtual time.
#[derive(Debug)]
pub struct Sim {
    /// All nodes, some in each part.
    parts: Parts,
    /// The threads that run parts beside the caller's.
    crew: Crew,
    shares: Shares,
    pace: Pace,
    fabric: Fabric,
    connections: Connections,
    links: Links,
    /// The shortest time in which what a node does reaches another one.
    lookahead: Span,
    now: Time,
    /// How far the nodes of each side have got.
    clocks: [Time; 2],
    /// Index of the hosts' current (or last) window. A window is `sides.count()` lookaheads long.
    window: Option<u64>,
    /// Windows whose nodes were audited, in debug builds.
    audited: u64,
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
        let (wires, leaving) = cabling::wires(scenario)?;
        let around = sets_around(scenario);
        let routes: Vec<&Routes> = scenario.routes.as_deref().into_iter().chain(&around).collect();
        let switches = scenario.switches.iter().zip(&leaving.ports).enumerate();
        let switches = switches.map(|(number, (config, wires))| {
            let failed = |source| SimError::Switch { switch: config.name.clone(), source };
            SimSwitch::new(number, config, wires.clone().into(), &routes, scenario).map_err(failed)
        });
        let switches = switches.collect::<Result<Box<[_]>, _>>()?;
        let hosts = (0..scenario.hosts.len()).map(|n| {
            // Nobody is ever late.
            let host = scenario.host(n, Span::ZERO);
            let host = host.map_err(|source| SimError::Host { host: scenario.hosts[n].name.clone(), source })?;
            let measures = scenario.measures_feedback;
            Ok(SimHost::new(n, scenario.hosts[n].place(), host, leaving.hosts[n], measures))
        });
        let hosts = hosts.collect::<Result<Box<[_]>, SimError>>()?;
        let lookahead = network::lookahead(&wires, scenario.frame_bytes_min());
        let sides = Sides::new(scenario);
        let window = lookahead * sides.count() as u64;
        let parts = Parts::new(switches, hosts, wires, leaving.ends, sides);
        let (connections, links) = (Connections::new(scenario, window), Links::of(scenario));
        Ok(Sim {
            parts,
            crew: Crew::default(),
            shares: Shares::of(1, 1),
            pace: Pace::default(),
            fabric: Fabric::of(scenario),
            connections,
            links,
            lookahead,
            now: Time::ZERO,
            clocks: [Time::ZERO; 2],
            window: None,
            audited: 0,
        })
    }

    /// How many threads run it from now on, the caller's among them; only that one before the first call. The results are the
    /// same for any number.
    pub fn set_threads(&mut self, threads: Threads) {
        self.pace.set_threads(threads, self.fabric.most_threads());
        if let Some(threads) = self.pace.at_once(self.shares.threads()) {
            self.deal(threads);
        }
    }

    /// Goes on until `until`, with what happens at that instant.
    ///
    /// # Panics
    /// If that is past.
    pub fn run_until(&mut self, until: Time) {
        assert!(self.now <= until, "{until:?} is past: it is {:?}", self.now);
        let lookahead = self.lookahead.as_picos();
        let mut turn = 0;
        self.pace.begin();
        loop {
            let next = self.parts.first_due().min(self.connections.next_start());
            // Never is no instant.
            if next > until || next == Time::NEVER {
                break;
            }
            // All that is before `next` has been done: so turns in which nothing would be are left out.
            turn = turn.max(next.as_picos() / lookahead);
            let end = Time::from_picos((turn + 1) * lookahead);
            let side = self.parts.sides().turn(turn);
            if side == self.parts.sides().of_hosts() {
                let window = turn / self.parts.sides().count() as u64;
                if self.window != Some(window) {
                    self.window = Some(window);
                    self.connections.close_completed(&mut self.parts);
                    self.connections.open_before(end, &mut self.parts);
                }
            }
            let limit = until.min(Time::from_picos(end.as_picos() - 1));
            self.take_turn(side, limit);
            self.clocks[side] = limit;
            if cfg!(debug_assertions) {
                self.audit();
            }
            turn += 1;
        }
        self.pace.end();
        self.clocks = [until; 2];
        self.now = until;
    }

    /// Has all nodes of a side do what they have to do up to `limit`, each part on the thread that has it in this turn.
    fn take_turn(&mut self, side: usize, limit: Time) {
        let Sim { parts, crew, shares, connections, pace, .. } = self;
        match parts.all_mut() {
            [all] => all.run_side(side, limit),
            _ => {
                parts.let_go(side, limit);
                crew.run(parts.as_crew(), shares, side, limit);
                pace.note_turn(shares.note(side, parts.took()));
            }
        }
        for part in parts.all_mut() {
            connections.note_completed(part.completed.drain(..));
        }
        if pace.is_review_due() {
            let (threads, woken) = (shares.threads(), parts.woken());
            if let Some(threads) = pace.review(threads, woken) {
                self.deal(threads);
            }
            self.parts.level_memory();
        }
    }

    /// Deals all nodes out anew, to parts for so many threads, by what each has had to do since the last time.
    fn deal(&mut self, threads: usize) {
        let count = self.fabric.parts_for(threads);
        let plan = self.fabric.partition(count, self.parts.sides(), &self.parts.work());
        self.parts.deal(&plan, count);
        self.shares = Shares::of(count, threads);
        self.crew.grow_to(threads - 1);
    }

    /// Goes over all that changes, between two calls of [`Sim::run_until`]: an archive takes it down, or has what is here overwritten
    /// with what another one of the same scenario was, however many threads either has.
    ///
    /// A file that is [damaged](Archive::is_damaged), or [refused](Archive::refused) as there is an extension that does not show its state,
    /// the archive says.
    pub fn checkpoint(&mut self, archive: &mut Archive) {
        let count = self.parts.count();
        let plan = self.fabric.partition(count, self.parts.sides(), &self.parts.work());
        let Sim {
            parts,
            connections,
            now,
            clocks,
            window,
            // Built from the scenario, or of this machine and this moment.
            crew: _,
            shares: _,
            pace: _,
            fabric: _,
            links: _,
            lookahead: _,
            audited: _,
        } = self;
        connections.checkpoint(archive, parts);
        if !archive.is_damaged() {
            parts.checkpoint(archive, &plan, count);
        }
        now.state(archive);
        clocks.state(archive);
        window.state(archive);
        if !archive.is_loading() {
            // Flows that are to come are kept too.
            let mut tried = Archive::to_save();
            connections.try_flows(&mut tried, parts);
            tried.refused().into_iter().for_each(|what| archive.refuse(what));
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
        self.parts.switch_mut(switch).report(self.now)
    }

    /// Reports of all switches.
    pub fn reports(&mut self) -> Vec<Report> {
        (0..self.parts.switches()).map(|switch| self.report(switch)).collect()
    }

    /// What a switch shares with its readers, its buffer and what its peers let it send: for what is asked too often for a report.
    pub fn shared(&self, switch: usize) -> &Shared {
        self.parts.switch(switch).shared()
    }

    /// A host, by its place in the scenario.
    pub fn host(&self, host: usize) -> &Host {
        &self.parts.host(host).host
    }

    /// All hosts, in the order of the scenario.
    pub fn hosts(&self) -> impl Iterator<Item = &Host> {
        (0..self.parts.hosts()).map(|host| self.host(host))
    }

    /// The messages that were completed since the last call, oldest first.
    pub fn drain_completions(&mut self) -> impl Iterator<Item = Done> {
        self.connections.drain_done()
    }

    /// The messages of a traffic of the scenario, by its place: all of a list, and those that have started of a closed loop, with some
    /// that start next.
    pub fn messages(&self, traffic: usize) -> &[Message] {
        self.connections.messages(traffic)
    }

    /// Cuts a link of a host, or mends it. Frames on it are lost, the switch drops what it has for it, and flow control of both
    /// ends starts anew.
    pub fn set_host_link_up(&mut self, scenario: &Scenario, host: usize, is_up: bool) {
        let place = scenario.hosts[host].place();
        self.parts.set_host_link_up(self.now, host, is_up);
        self.parts.set_port_up(self.now, place, is_up);
    }

    /// Cuts a link between switches, by its place in the scenario, or mends it. Frames on it are lost, and both switches drop
    /// what they have for it; of several ways of equal cost, they take another.
    pub fn set_link_up(&mut self, scenario: &Scenario, link: usize, is_up: bool) {
        scenario.links[link].ends.into_iter().for_each(|end| self.parts.set_port_up(self.now, end, is_up));
    }

    /// Has all switches choose among the ways of this set of the scenario's
    /// [`reroutings`](weir_scenario::Scenario::reroutings) from now on.
    ///
    /// # Panics
    /// If there is no such set.
    pub(crate) fn use_routes(&mut self, set: usize) {
        (0..self.parts.switches()).for_each(|switch| self.shared(switch).fdb.use_routes(set));
    }

    /// What injected faults have done, on all links together.
    pub fn fault_counters(&self) -> FaultCounters {
        let of_wires = self.parts.wires().map(Wire::fault_counters);
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
        self.parts.wires().map(Wire::cut_off).sum()
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
    pub(crate) fn host_frames(&self, host: usize) -> [u64; 2] {
        self.parts.host(host).frames
    }

    /// What injected faults have done to what a switch's port sends.
    fn faults_of_port(&self, place: PortPlace) -> FaultCounters {
        self.parts.wire_of_port(place).map_or_else(FaultCounters::default, Wire::fault_counters)
    }

    /// What injected faults have done to what a host sends.
    fn faults_of_host(&self, host: usize) -> FaultCounters {
        self.parts.wire_of_host(host).fault_counters()
    }

    /// τ of what a switch's port sends.
    fn feedback_of_port(&self, place: PortPlace) -> Option<FeedbackStats> {
        self.parts.switch(place.switch).feedback(place.port)
    }

    /// τ of what a host sends.
    fn feedback_of_host(&self, host: usize) -> Option<FeedbackStats> {
        self.parts.host(host).feedback()
    }

    /// From now on, the flow-control frames that are sent are kept for [`Sim::drain_told`].
    fn keep_told(&mut self) {
        self.parts.keep_told();
    }

    /// The kept frames that the switches' ports have come to know of since the last call, in that order.
    fn drain_told(&mut self) -> impl Iterator<Item = Told> {
        self.parts.drain_told(self.now)
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
        self.parts.hops()
    }

    /// Frames on their way on any link.
    pub fn under_way(&self) -> usize {
        self.parts.under_way()
    }

    /// Whether all flows have sent all that they will ever send, and have it acknowledged.
    pub fn is_finished(&self) -> bool {
        self.connections.next_start() == Time::NEVER && self.hosts().all(Host::is_finished)
    }

    /// How often any node was woken: what a run costs.
    pub fn wakeups(&self) -> u64 {
        self.parts.woken()
    }

    /// The most threads that have run it at once so far.
    pub fn threads(&self) -> usize {
        self.crew.len() + 1
    }

    /// How long the threads beside the caller's were on a CPU; `None` if the system does not tell.
    fn crew_time(&mut self) -> Option<Duration> {
        self.crew.cpu_time()
    }
}

/// The ways around the links of each of the scenario's [`reroutings`](Scenario::reroutings), from set 1 on.
fn sets_around(scenario: &Scenario) -> Vec<Routes> {
    let Some(routes) = &scenario.routes else { return Vec::new() };
    let ends = |link: &usize| scenario.links[*link].ends;
    let around = |cut: &Vec<usize>| routes.around(&cut.iter().map(ends).collect::<Vec<_>>());
    scenario.reroutings().sets[1..].iter().map(around).collect()
}
