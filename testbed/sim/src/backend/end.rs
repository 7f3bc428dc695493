//! End of a scenario: sources stop, frames in flight arrive, and undelivered ones are reported.

use weir_flowctl::MessageKind;
use weir_nic::host::Transport;
use weir_results::deadlock::Deadlock;
use weir_results::measure::MessageMeasures;
use weir_results::record::{interrupted, lost_lossless};
use weir_results::run_dir::{LlrSummary, OutageSummary};
use weir_scenario::Scenario;
use weir_scenario::file::Expectation;
use weir_switch_core::Report;
use weir_switch_core::counters::DropReason;
use weir_units::{Bytes, Class, Span, Time};

use crate::Sim;

/// Factor on the longest wait of the scenario, in the drain time.
const WAITS: u64 = 10;
const DRAIN_TIME_MIN: Span = Span::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SimulationEnd {
    /// All sent data has arrived.
    Drained,
    /// The drain time ran out.
    DrainTimeout,
    /// Queues wait for each other permanently.
    Deadlock,
    /// Queues hold frames and hardly send, and the scenario allows it.
    Standstill,
    /// The run was interrupted.
    Interruption,
}

/// Returns the scenario with all sources stopped at its end.
pub(super) fn until_end(scenario: &Scenario) -> Scenario {
    let mut scenario = scenario.clone();
    let end = scenario.end;
    for traffic in &mut scenario.traffic {
        traffic.end_at(end);
    }
    scenario.flows.iter_mut().for_each(|flow| flow.config.stop = flow.config.stop.min(end));
    scenario
}

/// Returns the drain time: how long no host may receive anything before draining is abandoned.
pub(super) fn drain_time(scenario: &Scenario) -> Span {
    let ports = scenario.switches.iter().flat_map(|switch| &switch.ports);
    let messages = ports.filter(|port| port.flow_control.message_kind() != MessageKind::Nothing).filter_map(|port| {
        // A pause of 65535 quanta of 512 bit times, or a lost message.
        let pause = port.rate?.time_for(Bytes::new(u64::from(u16::MAX) * 64));
        Some(port.flow_control.repetition(port.rate?).map_or(pause, |repetition| repetition.max(pause)))
    });
    let links = scenario.links.iter().map(|link| link.llr).chain(scenario.hosts.iter().map(|host| host.llr));
    let of_llr = links.flatten().map(|llr| llr.replay_timer * u64::from(llr.replay_count + 1));
    let timeouts = scenario.traffic.iter().map(|plan| (plan.retransmission, &plan.transport));
    let timeouts =
        timeouts.chain(scenario.flows.iter().map(|flow| (flow.config.retransmission, &flow.config.transport)));
    let timeouts = timeouts.filter_map(|(retransmission, transport)| match transport {
        Transport::Rdma => retransmission,
        Transport::Tcp(tcp) => Some(tcp.rto_min.max(tcp.initial_rto)),
    });
    let longest = messages.chain(of_llr).chain(timeouts).chain([scenario.longest_delay()]).max().unwrap_or(Span::ZERO);
    (longest * WAITS).max(DRAIN_TIME_MIN).max(scenario.end.since(Time::ZERO))
}

/// Returns the run's failures, except incomplete draining.
pub(super) fn failures(
    scenario: &Scenario,
    sim: &Sim,
    reports: &[Report],
    deadlock: Option<&Deadlock>,
    end_reason: SimulationEnd,
    expects: Expectation,
) -> Vec<String> {
    let mut failures = Vec::new();
    if end_reason == SimulationEnd::Interruption {
        failures.push(interrupted(sim.now(), scenario.end));
    }
    if expects != Expectation::Loss {
        failures.extend(lost_lossless(scenario, reports));
    }
    match (deadlock.filter(|deadlock| deadlock.persists()), expects) {
        (Some(deadlock), Expectation::Flow | Expectation::Loss) => {
            let since = deadlock.since.since(Time::ZERO);
            failures.push(format!("deadlock from {since} on, for good: {}", deadlock.cycle_in(scenario)));
        }
        (None, Expectation::Deadlock) if end_reason != SimulationEnd::Interruption => {
            failures.push("no deadlock, and the scenario expects one".to_owned());
        }
        _ => {}
    }
    failures
}

/// Returns the frames that outages took.
pub(super) fn outages(scenario: &Scenario, sim: &Sim, reports: &[Report]) -> OutageSummary {
    let on_links = sim.lost_for_good();
    let mut outages = OutageSummary {
        reroutes: scenario.routing_delay.is_some(),
        lossless_frames_lost: on_links.lossless.into(),
        other_frames_lost: on_links.others.into(),
        failed_over_frames: sim.failed_over(),
    };
    for (config, report) in scenario.switches.iter().zip(reports) {
        let classes = report.ports.iter().flat_map(|port| Class::ALL.into_iter().zip(&port.classes));
        for (class, counters) in classes {
            let frames = counters.dropped(DropReason::PortDown);
            match config.classes.lossless.contains(class) {
                true => outages.lossless_frames_lost += frames,
                false => outages.other_frames_lost += frames,
            }
        }
    }
    outages
}

/// Returns the totals of link layer retry on all links; `None` if no link has it.
pub(super) fn llr(sim: &Sim) -> Option<LlrSummary> {
    let all = sim.llr_ports().map(|port| port.counters(sim.now()));
    all.map(|counters| LlrSummary {
        replays: counters.replays,
        replayed_frames: counters.replayed_frames,
        replayed_bytes: counters.replayed_bytes,
        frames_given_up: counters.given_up,
        buffer_full_ns: counters.full_for.as_nanos(),
    })
    .reduce(|sum, port| LlrSummary {
        replays: sum.replays + port.replays,
        replayed_frames: sum.replayed_frames + port.replayed_frames,
        replayed_bytes: sum.replayed_bytes + port.replayed_bytes,
        frames_given_up: sum.frames_given_up + port.frames_given_up,
        buffer_full_ns: sum.buffer_full_ns + port.buffer_full_ns,
    })
}

/// Describes the remaining work of a run that did not drain.
pub(super) fn undrained(scenario: &Scenario, sim: &Sim, reports: &[Report], measures: &[MessageMeasures]) -> String {
    let held: u64 = reports.iter().map(|report| report.conservation.held()).sum();
    let all: usize = (0..scenario.traffic.len()).map(|traffic| sim.messages(traffic).len()).sum();
    let done: u64 = measures.iter().map(MessageMeasures::completed).sum();
    let waiting = sim.hosts().filter(|host| !host.is_finished()).count();
    format!(
        "not drained {} after the end: messages unfinished: {}; hosts that have more to send, or wait for acknowledgements: \
         {waiting}; frames held by switches: {held}",
        sim.now().since(scenario.end),
        all as u64 - done
    )
}
