//! Summary of a stopped run.

use std::time::Duration;

use weir_dpdk_driver::Stopped;
use weir_nic::host::{ReceiverStats, SenderStats};
use weir_results::record::{self, NicStats, RunRecord, dropped, kept_away, lost_lossless, overflown_lossless};
use weir_results::run_dir::{Summary, TrafficSummary};
use weir_scenario::Scenario;
use weir_switch_core::Report;
use weir_switch_core::line_time::LineTimeLoss;
use weir_units::{Span, Time};
use weir_wire::rocev2::NakCode;

use super::real_hosts;
use super::run::{EmulationEnd, EmulationResult, HostInterference};
use super::shared_stats::{HostFinalStats, SharedStats};

/// Inputs of the summary.
pub(super) struct SummaryInputs<'a> {
    pub(super) stopped: &'a Stopped,
    pub(super) record: RunRecord,
    pub(super) traffic: Vec<TrafficSummary>,
    pub(super) ended: EmulationResult,
    /// Duration of the run, in real time.
    pub(super) wall: Duration,
}

pub(super) fn summary(scenario: &Scenario, shared_stats: &SharedStats, inputs: SummaryInputs<'_>) -> Summary {
    let SummaryInputs { stopped, record, traffic, ended, wall } = inputs;
    let EmulationResult { end_reason, interference, real } = ended;
    let host_stats: Vec<_> = (0..scenario.hosts.len()).map(|host| shared_stats.host_final_stats(host)).collect();
    let mut sent = vec![SenderStats::default(); scenario.flows.len()];
    let mut arrived = vec![ReceiverStats::default(); scenario.flows.len()];
    // Connections of messages count for gaps only: acknowledgements show whether their whole payload arrived.
    let mut gaps = 0;
    for HostFinalStats { final_stats, sends, receives } in host_stats.iter().flatten() {
        let stats = &final_stats.stats;
        gaps += stats.receivers[receives.len()..].iter().map(|arrived| arrived.lost).sum::<u64>();
        sends.iter().zip(&stats.flows).for_each(|(flow, stats)| sent[*flow] = *stats);
        receives.iter().zip(&stats.receivers).for_each(|(flow, stats)| arrived[*flow] = *stats);
    }
    let all_arrived = sent
        .iter()
        .zip(&arrived)
        .zip(&scenario.flows)
        // A flow with a real end has counters at one end only; an emulated sender knows whether all data was
        // acknowledged.
        .filter(|(_, flow)| !scenario.is_real(flow.from) && !scenario.is_real(flow.to))
        .all(|((sent, arrived), _)| {
            (arrived.lost, arrived.in_order, arrived.payload) == (0, sent.frames, sent.payload)
        });
    let late_hosts = shared_stats.unfinished();
    let is_stuck = record.deadlock().is_some_and(|deadlock| deadlock.persists());
    let (end, interrupted) = match end_reason {
        EmulationEnd::Completed => (scenario.end, None),
        EmulationEnd::Interrupted(at) => (at, Some(record::interrupted(at, scenario.end))),
    };
    let mut notes = Vec::new();
    if !late_hosts.is_empty() && !is_stuck && interrupted.is_none() {
        notes.push(format!("{} did not finish: frames were lost, or a class stays paused", late_hosts.join(", ")));
    }
    gaps += arrived.iter().map(|arrived| arrived.lost).sum::<u64>();
    // Frames held by a deadlock are not lost: the switches still had them when stopped. Neither are frames in flight at
    // an interruption, and those that were kept away from a port.
    let kept_away = kept_away(scenario, &stopped.reports);
    let gaps = gaps.saturating_sub(kept_away);
    let may_be_held = is_stuck || interrupted.is_some() || kept_away > 0;
    let arrived_or_held = gaps == 0 && (may_be_held || all_arrived && late_hosts.is_empty());
    notes.extend(interference_notes(scenario, stopped, &interference));
    let nic = |(host, stats): (usize, &Option<_>)| match stats {
        Some(stats) => nic_stats(stats),
        None => real_hosts::nic_stats(scenario, stopped, host).unwrap_or_default(),
    };
    let nics: Vec<NicStats> = host_stats.iter().enumerate().map(nic).collect();
    let overflown = overflown_lossless(scenario, &nics);
    let lossless = arrived_or_held && dropped(scenario, &stopped.reports, true) == 0 && overflown.is_none();
    let lost: Vec<String> = lost_lossless(scenario, &stopped.reports).into_iter().chain(overflown).collect();
    let failures = (!lost.is_empty())
        .then(|| lost.join("; "))
        .or_else(|| (gaps > 0).then(|| format!("{gaps} lossless frames were lost")))
        .or_else(|| (!lossless).then(|| "not all that was sent has arrived, and no deadlock holds it".to_owned()));
    let refused = scenario.flows.iter().zip(&sent).filter_map(|(flow, sent)| {
        let given_up = NakCode::ALL.into_iter().find(|refusal| sent.refusals[*refusal as usize] > 0)?;
        let to = &scenario.hosts[flow.to].name;
        Some(format!("flow {}: host {to} closed the connection with a NAK: {}", flow.name, given_up.name()))
    });
    let refused: Vec<String> = refused.collect();
    let of_nics = real_hosts::unbalanced(scenario, stopped);
    if let Some(real) = &real {
        real_hosts::fill_stats(scenario, real, &mut sent, &mut arrived);
    }
    let of_host = |host: usize| host_stats[host].as_ref().map(|stats| &stats.final_stats);
    let mut summary = record::summary(
        scenario,
        record::RunResult {
            backend: if scenario.real.is_some() { "hosts" } else { "dpdk" },
            reports: &stopped.reports,
            duration: end.since(Time::ZERO),
            nics,
            host_links: (0..scenario.hosts.len())
                .map(|host| of_host(host).map(|final_stats| final_stats.link))
                .collect(),
            links: (0..scenario.links.len()).map(|link| shared_stats.link_final_stats(link)).collect(),
            sent,
            arrived,
            lossless,
            failures: interrupted.into_iter().chain(failures).chain(refused).chain(of_nics).collect(),
            notes,
        },
        &record,
    );
    if let Some(real) = real {
        real_hosts::add(&mut summary, real, end.since(Time::ZERO));
    }
    let of_hosts = host_stats.iter().flatten().map(|stats| (stats.final_stats.late, stats.final_stats.gap_max));
    let (late, gap) = lateness(&interference, u64::from(scenario.time_dilation()), end.since(Time::ZERO), of_hosts);
    Summary {
        traffic,
        wall_ms: Some(wall.as_millis() as u64),
        late_ns: late.as_nanos(),
        poll_gap_max_ns: Some(gap.as_nanos()),
        ..summary
    }
}

/// Returns the largest line time lost by a host or switch port, and the longest time between polls, both limited to the
/// run's `duration`. `hosts` are such pairs too.
fn lateness(
    interference: &HostInterference,
    dilation: u64,
    duration: Span,
    hosts: impl Iterator<Item = (Span, Span)>,
) -> (Span, Span) {
    let lines = |reports: &[Report]| -> Vec<LineTimeLoss> {
        reports.iter().flat_map(|report| &report.ports).map(|port| port.line_time.unwrap_or_default()).collect()
    };
    let mut before = lines(&interference.before).into_iter();
    let since = lines(&interference.after).into_iter().map(|line| line.since(&before.next().unwrap_or_default()));
    let of_ports = since.map(|line| line.lost_late).max().unwrap_or_default();
    // The machine's gap is in real time.
    let of_lcores = interference.gap_max.divided_by(dilation);
    let (late, gap) = hosts.fold((of_ports, of_lcores), |most, of_host| (most.0.max(of_host.0), most.1.max(of_host.1)));
    // A gap may begin before the run, and ports are read a moment after its end.
    (late.min(duration), gap.min(duration))
}

/// Returns the final statistics of a host's NIC.
fn nic_stats(stats: &HostFinalStats<'_>) -> NicStats {
    let stats = &stats.final_stats.stats;
    NicStats { classes: stats.classes, control_sent: stats.counters.control_sent, ..NicStats::default() }
}

/// Returns notes on the machine's effect on the run.
fn interference_notes(scenario: &Scenario, stopped: &Stopped, interference: &HostInterference) -> Vec<String> {
    let mut notes = vec![format!("longest time between two polls, real: {}", interference.gap_max)];
    for (config, report) in scenario.switches.iter().zip(&stopped.reports) {
        let of = if scenario.switches.len() == 1 { String::new() } else { format!("{}: ", config.name) };
        notes.push(format!(
            "{of}from Xoff, or the start of a stage, to the message handed to the port, scenario time: median {} ns, 99 % {} ns, longest {} ns",
            report.message_delay.p50, report.message_delay.p99, report.message_delay.max
        ));
        let reaction = report.reaction;
        if reaction.count > 0 {
            notes.push(format!(
                "{of}from a peer's message received to obeyed, scenario time: median {} ns, 99 % {} ns, longest {} ns",
                reaction.p50, reaction.p99, reaction.max
            ));
        }
        if !report.conservation.holds {
            notes.push(format!("{of}frames of the switch are not conserved: {:?}", report.conservation));
        }
    }
    if stopped.mbufs_missing > 0 {
        notes.push(format!("{} packet buffers were not freed", stopped.mbufs_missing));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_takes_no_more_of_a_run_than_all_of_it() {
        let ms = Span::from_millis;
        let machine = HostInterference { gap_max: ms(5_870), ..HostInterference::default() };
        let taken = |hosts: &[(Span, Span)]| lateness(&machine, 100, ms(50), hosts.iter().copied());
        assert_eq!(taken(&[]), (Span::ZERO, ms(50)), "a gap of 58.7 ms on the scenario's clock");
        assert_eq!(taken(&[(ms(7), ms(2)), (ms(68), ms(9))]), (ms(50), ms(50)));
    }
}
