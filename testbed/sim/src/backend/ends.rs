//! The two ends of each flow.

use weir_nic::host::{ReceiverStats, SenderStats};
use weir_results::run_dir::FlowSample;
use weir_scenario::Scenario;
use weir_units::archive::State;

use crate::Sim;

/// Where the ends of the scenario's flows are at its hosts.
#[derive(State)]
pub(super) struct FlowEnds {
    /// By host, the flows that it sends.
    #[state(same)]
    pub(super) sends: Vec<Vec<usize>>,
    /// Ends of each flow: its sender's host and place there, and its receiver's.
    #[state(same)]
    ends: Vec<[(usize, usize); 2]>,
    /// Messages that each has completed.
    completed: Vec<usize>,
}

impl FlowEnds {
    pub(super) fn of(scenario: &Scenario) -> FlowEnds {
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

    /// What each flow shows, one after the other.
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

    /// A flow has completed one more message; how many it had before.
    pub(super) fn note_message(&mut self, flow: usize) -> usize {
        self.completed[flow] += 1;
        self.completed[flow] - 1
    }
}
