//! Connections of a scenario's messages, which on DPDK are open from the start.

use weir_nic::host::{Connection, Host, HostError};
use weir_results::measure::MessageMeasures;
use weir_results::run_dir::TrafficSummary;
use weir_scenario::Scenario;

/// Message of each host's sending ends, and measurements of messages.
#[derive(Debug)]
pub(super) struct Connections {
    /// Traffic and message of each host's sending ends, after those of its flows.
    of_hosts: Box<[Vec<(usize, usize)>]>,
    measures: Box<[MessageMeasures]>,
}

impl Connections {
    /// Opens a connection for each message that starts before the scenario's end.
    ///
    /// # Errors
    /// Index of the host that can't open a connection, and the reason.
    pub(super) fn open(scenario: &Scenario, hosts: &mut [Host]) -> Result<Connections, (usize, HostError)> {
        let mut of_hosts = vec![Vec::new(); hosts.len()];
        for (number, plan) in scenario.traffic.iter().enumerate() {
            for (n, message) in plan.before(scenario.end).iter().enumerate() {
                let ends = [message.from, message.to].map(|host| host as usize);
                let both = hosts.get_disjoint_mut(ends).expect("a message has two hosts");
                Connection::open(both, &plan.flow(message)).map_err(|error| (ends[0], error))?;
                of_hosts[ends[0]].push((number, n));
            }
        }
        Ok(Connections {
            of_hosts: of_hosts.into(),
            measures: vec![MessageMeasures::new(); scenario.traffic.len()].into(),
        })
    }

    /// Returns the traffic and message of a host's sending end, counted from the first after those of its flows.
    pub(super) fn message(&self, host: usize, end: usize) -> Option<(usize, usize)> {
        self.of_hosts[host].get(end).copied()
    }

    pub(super) fn measures(&mut self, traffic: usize) -> &mut MessageMeasures {
        &mut self.measures[traffic]
    }

    pub(super) fn summaries(&self, scenario: &Scenario) -> Vec<TrafficSummary> {
        let plans = scenario.traffic.iter().zip(&self.measures);
        plans.map(|(plan, measures)| measures.summary(plan, scenario.warm_up, plan.before(scenario.end))).collect()
    }
}
