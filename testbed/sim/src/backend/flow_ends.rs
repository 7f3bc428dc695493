//! Sending and receiving ends of flows.

use weir_nic::host::{ReceiverStats, SenderStats};
use weir_results::run_dir::FlowSample;
use weir_scenario::Scenario;

use crate::Sim;

/// Locations of the flows' ends at their hosts.
pub(super) struct FlowEnds {
    pub(super) sends: Vec<Vec<usize>>,
    /// Sender's host and index there, and the receiver's, of each flow.
    ends: Vec<[(usize, usize); 2]>,
    completed: Vec<usize>,
}

impl FlowEnds {
    pub(super) fn new(scenario: &Scenario) -> FlowEnds {
        let mut sends = vec![Vec::new(); scenario.hosts.len()];
        let mut receives = vec![0; scenario.hosts.len()];
        let mut ends = Vec::new();
        for (number, flow) in scenario.flows.iter().enumerate() {
            ends.push([(flow.from, sends[flow.from].len()), (flow.to, receives[flow.to])]);
            sends[flow.from].push(number);
            receives[flow.to] += 1;
        }
        FlowEnds { sends, completed: vec![0; ends.len()], ends }
    }

    pub(super) fn samples(&self, sim: &Sim) -> impl Iterator<Item = FlowSample> {
        self.ends.iter().map(|[(from, sender), (to, receiver)]| FlowSample {
            sent: sim.host(*from).sender_stats(*sender).payload,
            received: sim.host(*to).receiver_stats(*receiver).payload,
        })
    }

    /// Returns the gauges of all flows, concatenated.
    pub(super) fn gauges(&self, sim: &Sim) -> Vec<f64> {
        let mut values = Vec::new();
        for [(from, sender), _] in &self.ends {
            sim.host(*from).show_gauges(*sender, &mut |value| values.push(value));
        }
        values
    }

    pub(super) fn stats(&mut self, sim: &Sim) -> (Vec<SenderStats>, Vec<ReceiverStats>) {
        let stats = |[(from, sender), (to, receiver)]: &[(usize, usize); 2]| {
            (*sim.host(*from).sender_stats(*sender), *sim.host(*to).receiver_stats(*receiver))
        };
        self.ends.iter().map(stats).unzip()
    }

    /// Counts a completed message of a flow; returns the number before it.
    pub(super) fn count_completed(&mut self, flow: usize) -> usize {
        self.completed[flow] += 1;
        self.completed[flow] - 1
    }
}
