//! Simulation backend: runs a scenario in virtual time as a conservative parallel discrete-event simulation. Switches
//! and hosts run the code of Weir's switch and NIC; links are modelled. Nodes are divided into logical processes, which
//! threads run in parallel. The clock counts picoseconds.
//!
//! [`Sim::new`] builds a scenario's switches and hosts; [`Sim::run_until`] runs to an instant and can be called repeatedly;
//! [`Sim::report`] and other getters return the state. [`SimBackend`] does all of it for a run directory.
//!
//! A node (a switch or a host) wakes when a frame arrives, and at instants that it schedules. A frame takes its transmission
//! time, then the propagation delay of the link, and has arrived with its last byte. Frames have no payload: they are the
//! [`NicFrame`]s that hosts send. Switches and hosts react at once: `reaction = "0s"` in `[pfc]`
//! sizes headroom for that. `time_dilation` has no effect.
//!
//! Results are the same on every machine and for any number of threads ([`Sim::set_threads`]). An action of one node
//! affects another only through a frame on a wire. That takes at least the shortest transmission time and propagation
//! delay: the *lookahead*. It follows from the delays of the links. Time is divided into windows of that length, at
//! whose ends the logical processes exchange frames. Within a window nodes run one after the other in any order, each
//! with its state cached, while the state of the next nodes is prefetched (`prefetcher.rs`). If links only join nodes
//! of two groups, as the levels of a tree, the groups run in alternating phases with windows of two lookaheads. A node
//! processes its instants in order. Of several ports of a switch with arrivals at the same instant, each comes first in
//! rotation.
//!
//! ```
//! use std::path::Path;
//! use weir_sim::Sim;
//!
//! // Two hosts send 64 KB each to a third host.
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
//! let balance = sim.report(0).conservation;
//! assert!(balance.holds && balance.received == balance.sent);
//! ```
//!
//! `examples/incast.rs` reads the switch's state during the run.

#![forbid(unsafe_code)]

mod audit;
mod backend;
mod build_id;
mod connections;
mod cost_estimate;
mod critical_path;
mod event_queue;
mod feedback;
mod frame;
mod frame_conservation;
mod huge_pages;
mod llr;
mod llr_port;
mod load_balancer;
mod logical_process;
mod lp_partition;
mod mailbox;
mod network;
mod node;
mod partitioner;
mod phases;
mod prefetcher;
mod server;
mod server_link;
#[cfg(test)]
mod tests;
mod thread_tuner;
mod wakeup_table;
mod wire;
mod wire_map;
mod worker_pool;

use std::time::{Duration, Instant};

use weir_config::SwitchConfig;
use weir_nic::host::{Host, HostError, NicFrame};
use weir_results::deadlock::{Links, SwitchState};
use weir_results::feedback::FeedbackStats;
use weir_results::run_dir::FrameSummary;
use weir_scenario::link::{FaultCounters, LlrPlan};
use weir_scenario::topology::Routes;
use weir_scenario::workload::Message;
use weir_scenario::{LinkRef, PortRef, RepetitionTimes, Scenario, ScenarioError};
use weir_switch_core::{BuildError, Report, Shared};
use weir_units::{Span, Time};

use connections::Connections;
use llr_port::LlrPort;
use load_balancer::LoadBalancer;
use lp_partition::LpPartition;
use network::RecordedEvent;
use node::{SimHost, SimSwitch};
use partitioner::SwitchGraph;
use phases::Phases;
use server_link::ServerPlace;
use thread_tuner::ThreadTuner;
use wire::{LostFrames, Wire};
use worker_pool::WorkerPool;

pub use backend::{LiveControl, LiveSample, SimBackend, SimRunError};
pub use build_id::build_id_of;
pub use connections::{CompletedMessage, MessageSource};
pub use cost_estimate::{CostEstimate, format_memory, free_memory};
pub use critical_path::PathStep;
pub use huge_pages::{huge_page_environment, restart_with_huge_pages};
pub use thread_tuner::Threads;
pub use weir_results::record::Progress;

/// Simulation of a scenario in virtual time.
#[derive(Debug)]
pub struct Sim {
    /// Logical processes; together they hold all nodes.
    partition: LpPartition,
    worker_pool: WorkerPool,
    load_balancer: LoadBalancer,
    thread_tuner: ThreadTuner,
    switch_graph: SwitchGraph,
    connections: Connections,
    links: Links,
    /// Shortest time in which an action of one node can affect another node.
    lookahead: Span,
    now: Time,
    /// Time up to which the nodes of each phase have run.
    clocks: [Time; 2],
    /// Index of the hosts' current (or last) window. A window is one lookahead per phase long.
    window: Option<u64>,
    /// Number of injected frames.
    injected: u64,
    /// Windows that were audited, in debug builds.
    audited: u64,
}

/// Node whose wire an [injected](Sim::inject) frame takes, by index in the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireSource {
    /// Host.
    Host(usize),
    /// Port of a switch, also to a host.
    Port(PortRef),
}

/// Error that prevents a scenario from running in virtual time.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The scenario is inconsistent.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A port with a link has no rate, and a simulated port has no device to query.
    #[error("port {0}: no rate; write its `rate`")]
    NoRate(String),
    /// A switch can't be built.
    #[error("switch {switch}: {source}")]
    Switch {
        /// Name of the switch.
        switch: String,
        /// Error of the switch's configuration.
        source: BuildError,
    },
    /// A host can't be built.
    #[error("host {host}: {source}")]
    Host {
        /// Name of the host.
        host: String,
        /// Error of the host's configuration.
        source: HostError,
    },
}

impl Sim {
    /// Creates the simulation at [`Time::ZERO`].
    ///
    /// # Errors
    /// The scenario is inconsistent, a port with a link has no rate, or a switch or host can't be built.
    pub fn new(scenario: &Scenario) -> Result<Sim, SimError> {
        scenario.check()?;
        let (wires, wire_map) = wire_map::build_wires(scenario)?;
        let reroutes = reroute_sets(scenario);
        let routes: Vec<&Routes> = scenario.routes.as_deref().into_iter().chain(&reroutes).collect();
        let switches = scenario.switches.iter().zip(&wire_map.ports).zip(llr_ports(scenario)).enumerate();
        let switches = switches.map(|(number, ((config, wires), llr))| {
            let failed = |source| SimError::Switch { switch: config.name.clone(), source };
            SimSwitch::new(number, config, wires.clone().into(), &llr, &routes, scenario).map_err(failed)
        });
        let switches = switches.collect::<Result<Box<[_]>, _>>()?;
        let mut places = ServerPlace::for_scenario(scenario).into_iter();
        let hosts = (0..scenario.hosts.len()).map(|n| {
            // Lateness is zero: virtual time waits for every node.
            let host = scenario.host(n, Span::ZERO);
            let host = host.map_err(|source| SimError::Host { host: scenario.hosts[n].name.clone(), source })?;
            let measures = scenario.measures_feedback;
            let plan = &scenario.hosts[n];
            let mut host = SimHost::new(n, plan.place(), host, wire_map.hosts[n], plan.llr, measures);
            host.server = places.next().map(Box::new);
            Ok(host)
        });
        let hosts = hosts.collect::<Result<Box<[_]>, SimError>>()?;
        let lookahead = network::lookahead(&wires, scenario.wire_bytes_min());
        let phases = Phases::new(scenario);
        let window = lookahead * phases.count() as u64;
        let mut partition = LpPartition::new(switches, hosts, wires, wire_map.ends, phases);
        let (mut connections, links) = (Connections::new(scenario, window), Links::from_scenario(scenario));
        connections.open_programs(scenario, &mut partition);
        Ok(Sim {
            partition,
            worker_pool: WorkerPool::default(),
            load_balancer: LoadBalancer::new(1, 1),
            thread_tuner: ThreadTuner::default(),
            switch_graph: SwitchGraph::new(scenario),
            connections,
            links,
            lookahead,
            now: Time::ZERO,
            clocks: [Time::ZERO; 2],
            window: None,
            injected: 0,
            audited: 0,
        })
    }

    /// Sets the number of threads, including the calling thread; 1 until the first call. Results don't depend on it.
    pub fn set_threads(&mut self, threads: Threads) {
        self.thread_tuner.set_threads(threads, self.switch_graph.threads_max());
        if let Some(threads) = self.thread_tuner.required_threads(self.load_balancer.threads()) {
            self.repartition(threads);
        }
    }

    /// Runs to `until`, including events at that instant.
    ///
    /// # Panics
    /// If `until` is before [`Sim::now`].
    pub fn run_until(&mut self, until: Time) {
        assert!(self.now <= until, "{until:?} is past: it is {:?}", self.now);
        let lookahead = self.lookahead.as_picos();
        let mut interval = 0;
        self.thread_tuner.begin();
        loop {
            let next = self.partition.first_due().min(self.connections.next_start());
            // `Time::NEVER` is no instant, so `until` must not reach it.
            if next > until || next == Time::NEVER {
                break;
            }
            // All events before `next` are done, so empty windows are skipped.
            interval = interval.max(next.as_picos() / lookahead);
            let end = Time::from_picos((interval + 1) * lookahead);
            let phase = self.partition.phases().interval(interval);
            if phase == self.partition.phases().host_phase() {
                let window = interval / self.partition.phases().count() as u64;
                if self.window != Some(window) {
                    self.window = Some(window);
                    self.connections.close_completed(&mut self.partition);
                    self.connections.open_before(end, &mut self.partition);
                }
            }
            let limit = until.min(Time::from_picos(end.as_picos() - 1));
            if phase == self.partition.phases().host_phase() && self.connections.has_triggers() {
                self.run_instants(phase, limit);
            } else {
                self.run_window(phase, limit);
            }
            self.clocks[phase] = limit;
            if cfg!(debug_assertions) {
                self.audit();
            }
            interval += 1;
        }
        self.thread_tuner.end();
        self.clocks = [until; 2];
        self.now = until;
    }

    /// Runs all nodes of phase `phase` up to `limit`, each logical process on its assigned thread.
    fn run_window(&mut self, phase: usize, limit: Time) {
        let Sim { partition, worker_pool, load_balancer, connections, thread_tuner, .. } = self;
        match partition.lps_mut() {
            [all] => all.run_phase(phase, limit),
            _ => {
                partition.release_until(phase, limit);
                worker_pool.run(partition.as_mut_vec(), load_balancer, phase, limit);
                thread_tuner.record_window(load_balancer.record_durations(phase, partition.window_durations()));
            }
        }
        connections.record_events(partition);
        if thread_tuner.is_review_due() {
            let (threads, woken) = (load_balancer.threads(), partition.wakeups());
            if let Some(threads) = thread_tuner.review(threads, woken) {
                self.repartition(threads);
            }
            self.partition.balance_memory();
        }
    }

    /// Runs all nodes of phase `phase` up to `limit`, instant by instant, on this thread. After each one, hosts trigger
    /// others.
    fn run_instants(&mut self, phase: usize, limit: Time) {
        let Sim { partition, connections, .. } = self;
        let is_divided = partition.lps_mut().len() > 1;
        if is_divided {
            partition.release_until(phase, limit);
            partition.lps_mut().iter_mut().for_each(|lp| lp.network.deliver());
        }
        loop {
            let first = partition.lps_mut().iter_mut().map(|lp| lp.network.first_due_in(phase)).min();
            let Some(instant) = first.filter(|instant| *instant <= limit) else { break };
            for lp in partition.lps_mut() {
                lp.run_phase(phase, instant);
            }
            connections.record_events(partition);
        }
        if is_divided {
            partition.lps_mut().iter_mut().for_each(|lp| lp.network.hand_over());
        }
    }

    /// Repartitions all nodes for this number of threads, by the work of each node since the last repartition.
    fn repartition(&mut self, threads: usize) {
        let started = Instant::now();
        let count = self.switch_graph.lp_count(threads);
        let plan = self.switch_graph.partition(count, self.partition.phases(), &self.partition.work());
        self.partition.repartition(&plan, count);
        self.load_balancer = LoadBalancer::new(count, threads);
        self.worker_pool.grow_to(threads - 1);
        self.thread_tuner.record_repartition(started.elapsed());
    }

    /// Runs for `span` of virtual time.
    pub fn run_for(&mut self, span: Span) {
        self.run_until(self.now() + span);
    }

    /// Returns the virtual time up to which the scenario has run.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the report of a switch, by index in the scenario.
    pub fn report(&mut self, switch: usize) -> Report {
        self.partition.switch_mut(switch).report(self.now)
    }

    /// Updates the report of a switch if anything but its instant would change.
    fn update_report(&mut self, switch: usize, report: &mut Report) {
        if !self.partition.switch(switch).is_current(report) {
            *report = self.report(switch);
        }
    }

    /// Returns the reports of all switches.
    pub fn reports(&mut self) -> Vec<Report> {
        (0..self.partition.switches()).map(|switch| self.report(switch)).collect()
    }

    /// Returns the state that a switch shares with readers: its buffer and flow control. Cheaper than a report, for
    /// frequent reads.
    pub fn shared(&self, switch: usize) -> &Shared {
        self.partition.switch(switch).shared()
    }

    /// Returns a host, by index in the scenario.
    pub fn host(&self, host: usize) -> &Host {
        &self.partition.host(host).host
    }

    /// Returns all hosts in scenario order.
    pub fn hosts(&self) -> impl Iterator<Item = &Host> {
        (0..self.partition.hosts()).map(|host| self.host(host))
    }

    /// Returns the messages completed since the last call, oldest first.
    pub fn drain_completions(&mut self) -> impl Iterator<Item = CompletedMessage> {
        self.connections.drain_completed()
    }

    /// Returns the messages of a traffic plan, by index in the scenario: all of a list, or those of others that have been
    /// opened.
    pub fn messages(&self, traffic: usize) -> &[Message] {
        self.connections.messages(traffic)
    }

    /// Returns the times of the repetitions of a graph, by index of its traffic plan, that have started.
    pub fn repetitions(&self, traffic: usize) -> &[RepetitionTimes] {
        self.connections.repetitions(traffic)
    }

    /// Returns a host with more open messages than a NIC has connections: the run is invalid, as further ones were not sent.
    pub fn full_host(&self) -> Option<usize> {
        self.connections.full_host()
    }

    /// Returns the critical path of each of these repetitions, last step first; `None` for one that has not ended.
    pub fn critical_paths(&self, traffic: usize) -> Vec<Option<Vec<PathStep>>> {
        self.connections.critical_paths(traffic, |host| self.host(host))
    }

    /// Sets the link of a host or of a further port up or down. Going down loses the frames in flight, the switch drops the frames queued for the
    /// link, and flow control restarts at both ends.
    pub fn set_host_link_up(&mut self, scenario: &Scenario, host: usize, is_up: bool) {
        let place = scenario.hosts[host].place();
        self.partition.set_host_link_up(self.now, host, is_up);
        self.partition.set_port_up(self.now, place, is_up);
    }

    /// Sets a link between switches up or down, by index in the scenario. Going down loses the frames in flight, and
    /// both switches drop the frames queued for the link. Equal-cost multipath avoids it.
    pub fn set_link_up(&mut self, scenario: &Scenario, link: usize, is_up: bool) {
        scenario.links[link].ends.into_iter().for_each(|end| self.partition.set_port_up(self.now, end, is_up));
    }

    /// Changes parameters of a running switch that a control thread may change, such as α or a port's rate, from [`Sim::now`] on.
    pub fn update_config(&mut self, switch: usize, change: impl FnOnce(&Shared)) {
        change(self.shared(switch));
        self.partition.wake_switch(self.now, switch);
    }

    /// Puts a frame on the wire that leaves a node, as if a station on the link had forged it. Counts as a frame of a host.
    pub fn inject(&mut self, source: WireSource, frame: NicFrame) {
        self.injected += u64::from(self.partition.inject(self.now, source, frame));
    }

    /// Cuts or mends the wires of a link that retries: its ports see no change.
    pub(crate) fn set_wires_up(&mut self, scenario: &Scenario, link: LinkRef, is_up: bool) {
        match link {
            LinkRef::Between(link) => {
                scenario.links[link].ends.into_iter().for_each(|end| self.partition.set_port_wire_up(end, is_up));
            }
            LinkRef::ToHost(host) => {
                self.partition.set_host_wire_up(host, is_up);
                self.partition.set_port_wire_up(scenario.hosts[host].place(), is_up);
            }
        }
    }

    /// Changes the settings of all switches that may change at run time to those of `configs`, by index in the scenario.
    pub fn set_runtime_config(&mut self, configs: &[SwitchConfig]) {
        for (switch, config) in configs.iter().enumerate() {
            self.update_config(switch, |shared| {
                shared.mmu.update_config(&*config.buffer.policy, config.xon(), config.buffer.lossy_alpha);
                shared.set_queues(&config.classes.queues);
            });
        }
    }

    /// Makes all switches route by this set of the scenario's [`reroutings`](weir_scenario::Scenario::reroutings) from
    /// now on.
    ///
    /// # Panics
    /// If the set does not exist.
    pub(crate) fn use_routes(&mut self, set: usize) {
        (0..self.partition.switches()).for_each(|switch| self.shared(switch).fdb.use_routes(set));
    }

    /// Returns the counters of injected faults, summed over all links.
    pub fn fault_counters(&self) -> FaultCounters {
        let of_wires = self.partition.wires().map(Wire::fault_counters);
        of_wires.fold(FaultCounters::default(), |sum, of_wire| FaultCounters {
            chosen: sum.chosen + of_wire.chosen,
            lost: sum.lost + of_wire.lost,
            corrupted: sum.corrupted + of_wire.corrupted,
            duplicated: sum.duplicated + of_wire.duplicated,
            reordered: sum.reordered + of_wire.reordered,
        })
    }

    /// Returns the number of frames lost because a link was down.
    pub fn lost_link_down(&self) -> u64 {
        self.partition.wires().map(|wire| wire.lost_link_down().total()).sum()
    }

    /// Returns the number of frames that hosts sent by another port, as their own link was down.
    fn failed_over(&self) -> u64 {
        (0..self.partition.hosts())
            .filter_map(|host| Some(self.partition.host(host).server.as_ref()?.failed_over))
            .sum()
    }

    /// Returns the frames lost for good because a link was down, or that link layer retry gave up.
    fn lost_for_good(&self) -> LostFrames {
        let plain = self.partition.wires().filter(|wire| !wire.has_llr()).map(Wire::lost_link_down);
        plain.chain(self.llr_ports().map(|port| port.traffic().lost)).sum()
    }

    /// Returns the number of corrupted frames that link layer retry sees arrive.
    fn bad_fcs_on_llr_links(&self) -> u64 {
        self.partition.wires().filter(|wire| wire.has_llr()).map(|wire| wire.fault_counters().corrupted).sum()
    }

    /// Returns the link layer retry of all ports.
    fn llr_ports(&self) -> impl Iterator<Item = &LlrPort> {
        let switches = (0..self.partition.switches()).flat_map(|switch| self.partition.switch(switch).llr());
        switches.chain((0..self.partition.hosts()).filter_map(|host| self.partition.host(host).llr()))
    }

    /// Returns the frame conservation summary: the final state of every frame that was put on a link.
    ///
    /// # Errors
    /// Describes the counters that do not balance: a bug in the program.
    pub fn frames(&mut self) -> Result<FrameSummary, String> {
        let reports = self.reports();
        frame_conservation::frames(self, &reports)
    }

    /// Returns the frames that a host has sent and received, including flow control.
    pub(crate) fn host_frames(&self, host: usize) -> [u64; 2] {
        self.partition.host(host).frames
    }

    /// Returns the counters of injected faults on frames that a switch's port sends.
    fn faults_of_port(&self, place: PortRef) -> FaultCounters {
        self.partition.wire_of_port(place).map_or_else(FaultCounters::default, Wire::fault_counters)
    }

    /// Returns the counters of injected faults on frames that a host sends.
    fn faults_of_host(&self, host: usize) -> FaultCounters {
        self.partition.wire_of_host(host).fault_counters()
    }

    /// Returns the feedback delay τ of flow control that a switch's port sends.
    fn feedback_of_port(&self, place: PortRef) -> Option<FeedbackStats> {
        self.partition.switch(place.switch).feedback(place.port)
    }

    /// Returns the feedback delay τ of flow control that a host sends.
    fn feedback_of_host(&self, host: usize) -> Option<FeedbackStats> {
        self.partition.host(host).feedback()
    }

    /// Starts recording events of switch ports for [`Sim::drain_port_events`].
    fn record_port_events(&mut self) {
        self.partition.record_port_events();
    }

    /// Returns the recorded events of switch ports since the last call, in time order.
    fn drain_port_events(&mut self) -> impl Iterator<Item = RecordedEvent> {
        self.partition.drain_port_events(self.now)
    }

    /// Returns the links between switches, for a [`Detector`](weir_results::deadlock::Detector).
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// Returns the state of the egress queues, for a [`Detector`](weir_results::deadlock::Detector).
    pub fn snapshot(&mut self) -> Vec<SwitchState> {
        self.reports().iter().map(SwitchState::from_report).collect()
    }

    /// Returns the number of frames put on any link, including flow control. A packet that crosses one switch counts
    /// twice.
    pub fn packet_hops(&self) -> u64 {
        self.partition.hops()
    }

    /// Returns the number of frames in flight on all links.
    pub fn frames_in_flight(&self) -> usize {
        self.partition.frames_in_flight()
    }

    /// Whether all flows have sent all their data and received all acknowledgements.
    pub fn is_finished(&self) -> bool {
        self.connections.next_start() == Time::NEVER && self.hosts().all(Host::is_finished)
    }

    /// Returns the number of node wake-ups, a measure of the run's cost.
    pub fn wakeups(&self) -> u64 {
        self.partition.wakeups()
    }

    /// Returns the largest number of threads used so far.
    pub fn threads(&self) -> usize {
        self.worker_pool.len() + 1
    }

    /// Returns the CPU time of the worker threads; `None` if the system does not report it.
    fn worker_cpu_time(&mut self) -> Option<Duration> {
        self.worker_pool.cpu_time()
    }
}

/// Returns the link layer retry of each switch's ports; none for a switch if no port has it.
fn llr_ports(scenario: &Scenario) -> Vec<Vec<Option<LlrPlan>>> {
    let of_hosts = scenario.hosts.iter().map(|host| (host.place(), host.llr));
    let of_links = scenario.links.iter().flat_map(|link| link.ends.map(|end| (end, link.llr)));
    let mut all = vec![Vec::new(); scenario.switches.len()];
    for (PortRef { switch, port }, llr) in of_hosts.chain(of_links).filter(|(_, llr)| llr.is_some()) {
        all[switch].resize(scenario.switches[switch].ports.len(), None);
        all[switch][port] = llr;
    }
    all
}

/// Returns the routes that avoid the failed links of each of the scenario's [`reroutings`](Scenario::reroutings), from
/// set 1 on.
fn reroute_sets(scenario: &Scenario) -> Vec<Routes> {
    scenario.reroutings().sets[1..].iter().map(|cut| scenario.routes_around(cut)).collect()
}
