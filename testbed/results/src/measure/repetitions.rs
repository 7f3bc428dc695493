//! Results of a graph's repetitions.

use weir_scenario::workload::Message;
use weir_scenario::{RepetitionTimes, Scenario, TrafficPlan};
use weir_units::Span;

use crate::run_dir::RepetitionSummary;

/// Returns the results of a traffic's repetitions, if it is a graph.
pub fn repetitions(scenario: &Scenario, plan: &TrafficPlan, times: &[RepetitionTimes]) -> Vec<RepetitionSummary> {
    let Some(graph) = plan.graph() else { return Vec::new() };
    let ranks = graph.ranks();
    let on_fabric = |message: &Message| {
        let ends = [message.from, message.to].map(|host| host as usize);
        scenario.servers_for(plan, ends).is_none()
    };
    let payload: u64 = graph.messages().filter(on_fabric).map(|message| message.size.get()).sum();
    let ports = scenario.host_ports();
    let ports = ranks.iter().flat_map(|rank| ports.ports(rank.host));
    let rate: u64 = ports.map(|port| scenario.hosts[port as usize].nic.rate.as_bps()).sum();
    // Time in which all links together carry the payload of a repetition.
    let busy = u128::from(payload) * 8_000_000_000_000 / u128::from(rate.max(1) * u64::from(graph.repetitions.max(1)));
    let summary = |times: &RepetitionTimes| {
        let time = (times.ended as usize == ranks.len()).then(|| times.end.since(times.start));
        let idle = |time: Span| 1_000_u128.saturating_sub(busy * 1_000 / u128::from(time.as_picos().max(1)));
        RepetitionSummary {
            start_ns: times.start.as_nanos(),
            completion_ns: time.map(Span::as_nanos),
            bus_bytes_per_second: time.and_then(|time| graph.bus_bandwidth(time)),
            slowest: time.map(|_| scenario.hosts[ranks[times.slowest as usize].host as usize].name.clone()),
            idle_permille: time.map(|time| idle(time) as u64),
            critical_path: None,
        }
    };
    times.iter().map(summary).collect()
}
