//! Final statistics of links.

use weir_results::record::LinkStats;
use weir_scenario::{PortRef, Scenario};
use weir_switch_core::Report;

use crate::Sim;

/// Returns the number of frames that a switch port has received from its link.
fn taken(reports: &[Report], place: PortRef) -> u64 {
    let port = &reports[place.switch].ports[place.port];
    let control = port.control_rx;
    let data: u64 = port.classes.iter().map(|class| class.rx_frames).sum();
    data + control.messages() + control.ignored + control.malformed
}

pub(super) fn host_stats(scenario: &Scenario, sim: &Sim, reports: &[Report], host: usize) -> LinkStats {
    let place = scenario.hosts[host].place();
    let [_, received] = sim.host_frames(host);
    LinkStats {
        delivered: [received, taken(reports, place)],
        faults: [sim.faults_of_port(place), sim.faults_of_host(host)],
        feedback: [sim.feedback_of_port(place), sim.feedback_of_host(host)],
    }
}

pub(super) fn link_stats(scenario: &Scenario, sim: &Sim, reports: &[Report], link: usize) -> LinkStats {
    let [one, other] = scenario.links[link].ends;
    LinkStats {
        delivered: [other, one].map(|end| taken(reports, end)),
        faults: [one, other].map(|end| sim.faults_of_port(end)),
        feedback: [one, other].map(|end| sim.feedback_of_port(end)),
    }
}
