//! Connections of a scenario's messages, which on DPDK are open from the start: one for each message, and in a graph one for each
//! pair of ranks with messages.

use std::sync::Arc;

use weir_hosts::RankConnection;
use weir_nic::host::{Connection, Host, HostError, ProgramEvent, ServerPeer};
use weir_nic::program::RankProgram;
use weir_results::measure::{MessageMeasures, repetitions};
use weir_results::run_dir::TrafficSummary;
use weir_scenario::workload::{Message, MessageGraph};
use weir_scenario::{GraphRun, HostSet, Scenario};

/// Messages of each host's sending ends, runs of graphs, and measurements of messages.
#[derive(Debug)]
pub(super) struct Connections {
    /// Traffic and message, or a graph's connection, of each host's sending ends, after those of its flows.
    of_hosts: Box<[Vec<(usize, usize)>]>,
    /// Traffic and rank of each host's programs.
    programs: Box<[Vec<(usize, u32)>]>,
    /// Run of each traffic that is a graph; empty for others.
    graphs: Box<[GraphRun]>,
    measures: Box<[MessageMeasures]>,
}

/// Program of a host.
pub(super) struct HostProgram {
    pub(super) program: Arc<RankProgram>,
    /// Host of each rank of the graph, and number of its program there.
    pub(super) ranks: Box<[(usize, u32)]>,
}

/// Hosts before the run.
struct IdleHosts<'h>(&'h mut [Host]);

impl HostSet for IdleHosts<'_> {
    fn host_mut(&mut self, host: usize) -> &mut Host {
        &mut self.0[host]
    }

    fn two_hosts(&mut self, hosts: [usize; 2]) -> [&mut Host; 2] {
        self.0.get_disjoint_mut(hosts).expect("a message has two hosts")
    }
}

impl Connections {
    /// Opens the connections of graphs, and one for each message that starts before the scenario's end.
    ///
    /// # Errors
    /// Index of the host that can't open a connection, and the reason.
    pub(super) fn open(scenario: &Scenario, hosts: &mut [Host]) -> Result<Connections, (usize, HostError)> {
        let (mut of_hosts, mut hosts) = (vec![Vec::new(); hosts.len()], IdleHosts(hosts));
        let mut programs = vec![Vec::new(); of_hosts.len()];
        let mut graphs = Vec::new();
        for (number, plan) in scenario.traffic.iter().enumerate() {
            let run = GraphRun::open(scenario, number, &mut hosts)?;
            let ranks = plan.graph().into_iter().flat_map(|graph| graph.ranks());
            (0..).zip(ranks).for_each(|(rank, of)| programs[of.host as usize].push((number, rank)));
            for (connection, opened) in run.connections().iter().enumerate() {
                let [from, to] = opened.hosts;
                of_hosts[from].push((number, connection));
                if scenario.is_real(from) {
                    let peer = ServerPeer { host: to as u32, receiver: opened.ends.receiver as u32 };
                    hosts.host_mut(from).set_server_peer(opened.ends.sender, peer);
                }
            }
            graphs.push(run);
        }
        for (number, plan) in scenario.traffic.iter().enumerate() {
            for (n, message) in plan.before(scenario.end).iter().enumerate() {
                let ends = [message.from, message.to].map(|host| host as usize);
                Connection::open(hosts.two_hosts(ends), &plan.flow(message)).map_err(|error| (ends[0], error))?;
                of_hosts[ends[0]].push((number, n));
            }
        }
        Ok(Connections {
            of_hosts: of_hosts.into(),
            programs: programs.into(),
            graphs: graphs.into(),
            measures: vec![MessageMeasures::new(); scenario.traffic.len()].into(),
        })
    }

    /// Returns the programs of a host, by number.
    pub(super) fn programs(&self, scenario: &Scenario, host: usize) -> Vec<HostProgram> {
        let program = |(traffic, rank): &(usize, u32)| {
            let ranks = scenario.traffic[*traffic].graph().map_or(&[][..], MessageGraph::ranks);
            let places = (0..).zip(ranks).map(|(n, of_rank)| (of_rank.host as usize, self.graphs[*traffic].program(n)));
            HostProgram { program: ranks[*rank as usize].program.clone(), ranks: places.collect() }
        };
        self.programs[host].iter().map(program).collect()
    }

    /// Whether a host has programs.
    pub(super) fn has_programs(&self, host: usize) -> bool {
        !self.programs[host].is_empty()
    }

    /// Returns the connections of ranks on real hosts.
    pub(super) fn real_connections(&self, scenario: &Scenario) -> Vec<RankConnection> {
        let all = self.graphs.iter().flat_map(GraphRun::connections);
        let real = all.filter(|opened| scenario.is_real(opened.hosts[0]));
        real.map(|opened| RankConnection { hosts: opened.hosts, ends: opened.ends, dscp: opened.dscp }).collect()
    }

    /// Records an event of a host's program.
    pub(super) fn record_event(&mut self, scenario: &Scenario, host: usize, event: &ProgramEvent) {
        let (traffic, rank) = self.programs[host][event.program as usize];
        if let Some(graph) = scenario.traffic[traffic].graph() {
            self.graphs[traffic].record_event(graph, rank, event);
        }
    }

    /// Returns the traffic and message that a host's sending end, counted from the first after those of its flows, has completed.
    pub(super) fn complete(&mut self, scenario: &Scenario, host: usize, end: usize) -> Option<(usize, usize)> {
        let (traffic, number) = self.of_hosts[host].get(end).copied()?;
        let is_graph = scenario.traffic[traffic].graph().is_some();
        Some((traffic, if is_graph { self.graphs[traffic].complete(number) as usize } else { number }))
    }

    /// Returns the messages of a traffic: those of a graph that have started, or all of a list before the scenario's end.
    pub(super) fn messages<'c>(&'c self, scenario: &'c Scenario, traffic: usize) -> &'c [Message] {
        let plan = &scenario.traffic[traffic];
        if plan.graph().is_some() { self.graphs[traffic].started() } else { plan.before(scenario.end) }
    }

    pub(super) fn measures(&mut self, traffic: usize) -> &mut MessageMeasures {
        &mut self.measures[traffic]
    }

    /// Returns the messages of a traffic that are incomplete.
    pub(super) fn unfinished<'c>(
        &'c self,
        scenario: &'c Scenario,
        traffic: usize,
    ) -> impl Iterator<Item = &'c Message> + 'c {
        self.measures[traffic].unfinished(self.messages(scenario, traffic))
    }

    pub(super) fn summaries(&self, scenario: &Scenario) -> Vec<TrafficSummary> {
        let summary = |(number, measures): (usize, &MessageMeasures)| {
            let plan = &scenario.traffic[number];
            TrafficSummary {
                repetitions: repetitions(scenario, plan, self.graphs[number].repetitions()),
                ..measures.summary(plan, scenario.warm_up, self.messages(scenario, number))
            }
        };
        self.measures.iter().enumerate().map(summary).collect()
    }
}
