//! Notes on traffic that a scenario allows and probably does not mean.

use weir_config::SwitchConfig;
use weir_nic::host::{CongestionControlChoice, Transport};
use weir_units::{Class, Span};

use crate::scenario::{Scenario, TrafficSource};

/// RDMA of a flow, or of one class of a workload.
struct RdmaTraffic<'t> {
    name: &'t str,
    class: Class,
    congestion_control: &'t CongestionControlChoice,
    retransmission: Option<Span>,
}

/// Returns a note for each kind of traffic that is probably not meant, with the names of its flows and workloads.
pub(super) fn of_traffic(scenario: &Scenario) -> Vec<String> {
    let Scenario { flows, traffic, switches, .. } = scenario;
    let of_flows =
        flows.iter().filter(|flow| matches!(flow.config.transport, Transport::Rdma)).map(|flow| RdmaTraffic {
            name: &flow.name,
            class: flow.config.class,
            congestion_control: &flow.config.congestion_control,
            retransmission: flow.config.retransmission,
        });
    let of_workloads =
        traffic.iter().filter(|workload| matches!(workload.transport, Transport::Rdma)).flat_map(|workload| {
            workload.points.iter().map(|&(class, _)| RdmaTraffic {
                name: &workload.name,
                class,
                congestion_control: &workload.congestion_control,
                retransmission: workload.retransmission,
            })
        });
    let all: Vec<RdmaTraffic<'_>> = of_flows.chain(of_workloads).collect();
    let unmarked = named(&all, |rdma| {
        let feedback = rdma.congestion_control.feedback();
        let follows_marks = feedback.cnp_interval.is_some() || feedback.echoes_ecn;
        let is_marked = |switch: &SwitchConfig| switch.classes.queues[rdma.class.index()].ecn.is_some();
        (follows_marks && !switches.iter().any(is_marked)).then(|| {
            format!(
                "congestion control {} waits for ECN marks, and no switch marks class {}: set ecn of that class in switch.classes.queues, or no congestion control",
                rdma.congestion_control.name(),
                rdma.class.index()
            )
        })
    });
    let lossy = named(&all, |rdma| {
        let is_lossy = |switch: &SwitchConfig| !switch.classes.lossless.contains(rdma.class);
        let (is_lossy, repeats) = (switches.iter().any(is_lossy), rdma.retransmission.is_some());
        is_lossy.then(|| {
            let outcome = if repeats {
                "each loss starts go-back-N"
            } else {
                "a message that loses a frame never ends, without a retransmission timeout"
            };
            format!("RDMA in class {}, which is lossy: {outcome}", rdma.class.index())
        })
    });
    let early = traffic.iter().filter(|workload| match &workload.source {
        TrafficSource::List(messages) => messages.last().is_some_and(|message| message.start < scenario.warm_up),
        TrafficSource::ClosedLoop(_) | TrafficSource::Graph(_) => false,
    });
    let early = early.map(|workload| {
        format!(
            "workload {}: all messages start before the end of warm_up, so none is in its statistics",
            workload.name
        )
    });
    unmarked.into_iter().chain(lossy).chain(early).collect()
}

/// Returns each distinct note once, after the name of the first flow or workload that it concerns.
fn named(all: &[RdmaTraffic<'_>], note: impl Fn(&RdmaTraffic<'_>) -> Option<String>) -> Vec<String> {
    let mut notes: Vec<(String, Vec<&str>)> = Vec::new();
    for rdma in all {
        let Some(text) = note(rdma) else { continue };
        match notes.iter_mut().find(|(known, _)| *known == text) {
            Some((_, names)) if names.contains(&rdma.name) => {}
            Some((_, names)) => names.push(rdma.name),
            None => notes.push((text, vec![rdma.name])),
        }
    }
    let shown = |(text, names): (String, Vec<&str>)| match names.len() {
        1 => format!("{}: {text}", names[0]),
        n => format!("{} and {} more: {text}", names[0], n - 1),
    };
    notes.into_iter().map(shown).collect()
}
