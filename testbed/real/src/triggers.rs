//! Triggers among the hosts of this process: a rank's operation starts another rank's, which may be on another lcore.

use rtrb::{Consumer, Producer, RingBuffer};
use weir_nic::host::ProgramEvent;
use weir_nic::program::ProgramStep;
use weir_scenario::workload::MessageGraph;
use weir_scenario::{Scenario, TrafficPlan};
use weir_units::Time;

use super::connections::{Connections, HostProgram};

/// Message of a trigger: its instant, and program and channel at the receiving host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trigger {
    at: Time,
    pub(super) program: u32,
    pub(super) channel: u32,
}

/// Triggers that a host sends and receives.
pub(super) struct HostTriggers {
    programs: Vec<HostProgram>,
    /// Ring to each host, by index; `None` for no triggers.
    to: Vec<Option<Producer<Trigger>>>,
    from: Vec<Consumer<Trigger>>,
}

/// Returns the triggers of each host; `None` where no rank triggers another.
pub(super) fn of_hosts(scenario: &Scenario, connections: &Connections) -> Vec<Option<HostTriggers>> {
    let count = scenario.hosts.len();
    let graphs = || scenario.traffic.iter().filter_map(TrafficPlan::graph);
    if !graphs().any(MessageGraph::has_triggers) {
        return (0..count).map(|_| None).collect();
    }
    // Each operation runs once, so a ring of this capacity is never full.
    let mut capacities = vec![vec![0; count]; count];
    for graph in graphs() {
        for rank in graph.ranks() {
            for step in rank.program.steps() {
                if let ProgramStep::Trigger { rank: to, .. } = step {
                    capacities[rank.host as usize][graph.ranks()[to as usize].host as usize] += 1;
                }
            }
        }
    }
    let empty =
        |host| HostTriggers { programs: connections.programs(scenario, host), to: Vec::new(), from: Vec::new() };
    let mut all: Vec<HostTriggers> = (0..count).map(empty).collect();
    for (from, capacities) in capacities.into_iter().enumerate() {
        for (to, capacity) in capacities.into_iter().enumerate() {
            let (producer, consumer) = (capacity > 0).then(|| RingBuffer::new(capacity)).unzip();
            all[from].to.push(producer);
            all[to].from.extend(consumer);
        }
    }
    all.into_iter().map(Some).collect()
}

impl HostTriggers {
    /// Passes a trigger of the host to its receiver.
    pub(super) fn send(&mut self, event: &ProgramEvent) {
        let HostProgram { program, ranks } = &self.programs[event.program as usize];
        if let ProgramStep::Trigger { rank, channel } = program.step(event.operation) {
            let (host, program) = ranks[rank as usize];
            let ring = self.to[host].as_mut().expect("a host that is triggered has a ring");
            ring.push(Trigger { at: event.at, program, channel }).expect("the ring has room for all triggers");
        }
    }

    /// Takes the next trigger from a host up to `now`: other lcores may be ahead.
    pub(super) fn receive(&mut self, now: Time) -> Option<Trigger> {
        let due = self.from.iter_mut().find(|ring| ring.peek().is_ok_and(|trigger| trigger.at <= now))?;
        due.pop().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_wait_for_their_instants() {
        let (mut producer, consumer) = RingBuffer::new(2);
        let mut triggers = HostTriggers { programs: Vec::new(), to: Vec::new(), from: vec![consumer] };
        for (at, channel) in [(10, 7), (20, 8)] {
            producer.push(Trigger { at: Time::from_nanos(at), program: 0, channel }).unwrap();
        }
        let mut receive = |now| triggers.receive(Time::from_nanos(now)).map(|trigger| trigger.channel);
        assert_eq!([9, 10, 19, 20, 21].map(&mut receive), [None, Some(7), None, Some(8), None]);
    }
}
