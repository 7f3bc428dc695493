//! Real hosts of a run. Their links are polled while they boot, their flows are sampled from switch counters, and their
//! results are added to the summary.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_dpdk_driver::{RunningSwitches, Stopped};
use weir_hosts::{HostError, RealHostSet, RealHostsResult, Session};
use weir_nic::host::{ClassStats, ReceiverStats, SenderStats, Transport};
use weir_nic::model::{ModelDrop, ModelReport};
use weir_results::record::NicStats;
use weir_results::run_dir::{FlowSample, Summary, throughput};
use weir_scenario::workload::MessageGraph;
use weir_scenario::{PortRef, Scenario, TrafficPlan};
use weir_switch_core::Report;
use weir_units::{Bytes, CLASSES, Class, Span};
use weir_wire::rocev2::Dscp;

use crate::real_ranks::RealRanks;
use crate::software::Software;

/// Interval between checks of links and hosts during setup, in real time.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Headers of a RoCEv2 frame, without FCS: Ethernet 14 B, IPv4 20 B, UDP 8 B, BTH 12 B, ICRC 4 B.
const ROCE_HEADERS: u64 = 58;
/// Headers of a TCP frame with timestamps, without FCS: Ethernet 14 B, IPv4 20 B, TCP 32 B.
const TCP_HEADERS: u64 = 66;

pub(super) struct RealHosts {
    session: Session,
    ranks: Option<RealRanks>,
    /// Counters that identify each flow's frames at switch ports; `None` if other flows or ranks share them.
    measurable_flows: Vec<Option<MeasurableFlow>>,
}

/// Flow that has a priority group to itself at its sender's port, a queue at its receiver's port, or both.
#[derive(Clone, Copy)]
struct MeasurableFlow {
    from: Option<(PortRef, Class)>,
    to: Option<(PortRef, Class)>,
    headers: u64,
}

impl RealHosts {
    /// Boots the guests and prepares all hosts. Returns `None` if `stop` is set meanwhile.
    pub(super) fn prepare(
        experiment: &mut RealHostSet,
        scenario: &Scenario,
        running: &RunningSwitches,
        software: &Software,
        stop: &AtomicBool,
    ) -> Result<Option<RealHosts>, HostError> {
        experiment.boot()?;
        while !experiment.is_up()? {
            running.update_links();
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            std::thread::park_timeout(LOOK_EVERY);
        }
        let session = experiment.session(scenario);
        while !session.is_ready() {
            running.update_links();
            if stop.load(Ordering::Relaxed) {
                session.stop();
                let _ = session.finish();
                return Ok(None);
            }
            if session.is_done() {
                session.finish()?;
                return Err(HostError::Scenario("all real hosts ended before the scenario's start".to_owned()));
            }
            std::thread::park_timeout(LOOK_EVERY);
        }
        // Connects emulated hosts before the scenario begins, so that their flows start in time.
        software.connect();
        while !software.is_connected() && !session.is_done() {
            if stop.load(Ordering::Relaxed) {
                session.stop();
                let _ = session.finish();
                return Ok(None);
            }
            std::thread::park_timeout(LOOK_EVERY);
        }
        Ok(Some(RealHosts { session, ranks: None, measurable_flows: measurable_flows(scenario) }))
    }

    /// Waits until the ranks have opened their connections, or `stop` is set. Call before [`RealHosts::begin`].
    pub(super) fn connect_ranks(
        mut self,
        ranks: RealRanks,
        running: &RunningSwitches,
        stop: &AtomicBool,
    ) -> Result<RealHosts, HostError> {
        self.session.set_ranks(true);
        while !ranks.are_connected() && !self.session.is_done() && !stop.load(Ordering::Relaxed) {
            running.update_links();
            std::thread::park_timeout(LOOK_EVERY);
        }
        let have_failed = ranks.are_done();
        self.ranks = Some(ranks);
        match have_failed {
            true => Err(HostError::Scenario(self.finish(true)?.failures.join("; "))),
            false => Ok(self),
        }
    }

    /// Asks the running programs to end, without waiting for them.
    pub(super) fn stop(&self) {
        self.session.stop();
        self.give_up();
    }

    /// Stops the ranks, whose messages take too long.
    pub(super) fn give_up(&self) {
        self.ranks.iter().for_each(RealRanks::stop);
    }

    /// Announces the scenario's start; returns the real time until then.
    pub(super) fn begin(&self) -> Duration {
        self.session.begin(Instant::now() + Session::LEAD);
        Session::LEAD
    }

    pub(super) fn are_done(&self) -> bool {
        if self.ranks.as_ref().is_some_and(RealRanks::are_done) {
            self.session.set_ranks(false);
        }
        self.session.is_done()
    }

    /// Returns the progress of a flow, by index, from switch counters; `None` if other flows share them.
    pub(super) fn sample(&self, flow: usize, reports: &[Report]) -> Option<FlowSample> {
        let measurable = self.measurable_flows[flow]?;
        let of = |(place, class): (PortRef, Class)| &reports[place.switch].ports[place.port].classes[class.index()];
        let payload = |bytes: u64, frames: u64| Bytes::new(bytes.saturating_sub(frames * measurable.headers));
        let sent = measurable.from.map(|from| payload(of(from).rx_bytes, of(from).rx_frames));
        let received = measurable.to.map(|to| payload(of(to).tx_bytes, of(to).tx_frames));
        // Counters of a single end stand for both ends.
        Some(FlowSample { sent: sent.or(received)?, received: received.or(sent)? })
    }

    /// Waits for the hosts' programs, which are stopped first if interrupted, and returns their results.
    pub(super) fn finish(self, is_interrupted: bool) -> Result<RealHostsResult, HostError> {
        if is_interrupted {
            self.session.stop();
        }
        let failures = self.ranks.map(RealRanks::finish).unwrap_or_default();
        self.session.set_ranks(false);
        let mut result = self.session.finish()?;
        result.failures.extend(failures);
        Ok(result)
    }
}

/// Returns the flows that switch counters can identify: those with a priority group to themselves at the sender, or a queue at the receiver.
fn measurable_flows(scenario: &Scenario) -> Vec<Option<MeasurableFlow>> {
    let place = |host: usize| scenario.hosts[host].place();
    let queue_at =
        |host: usize, dscp: Dscp| Class::new(scenario.hosts[host].nic.queue_of_dscp[usize::from(dscp.get())]);
    let has_rank = |host: usize, is_meant: &dyn Fn(Class, Dscp) -> bool| {
        let of_class =
            scenario.traffic.iter().filter(|plan| plan.points.iter().any(|(class, dscp)| is_meant(*class, *dscp)));
        let mut ranks = of_class.filter_map(TrafficPlan::graph).flat_map(MessageGraph::ranks);
        ranks.any(|rank| rank.host as usize == host)
    };
    let others =
        |n: usize| scenario.flows.iter().enumerate().filter(move |(other, _)| *other != n).map(|(_, flow)| flow);
    let from = |n: usize| {
        let (host, class) = (scenario.flows[n].from, scenario.flows[n].config.class);
        let has_others = others(n).any(|flow| (flow.from, flow.config.class) == (host, class));
        (!has_others && !has_rank(host, &|of, _| of == class)).then(|| (place(host), class))
    };
    let to = |n: usize| {
        let host = scenario.flows[n].to;
        let queue = queue_at(host, scenario.flows[n].config.dscp);
        let has_others = others(n).any(|flow| flow.to == host && queue_at(host, flow.config.dscp) == queue);
        (!has_others && !has_rank(host, &|_, dscp| queue_at(host, dscp) == queue)).then(|| (place(host), queue))
    };
    let of_flow = |n: usize| {
        let flow = &scenario.flows[n];
        let is_real = scenario.is_real(flow.from) || scenario.is_real(flow.to);
        if !is_real {
            return None;
        }
        let (from, to) = (from(n), to(n));
        let headers = if matches!(flow.config.transport, Transport::Tcp(_)) { TCP_HEADERS } else { ROCE_HEADERS };
        (from.is_some() || to.is_some()).then_some(MeasurableFlow { from, to, headers })
    };
    (0..scenario.flows.len()).map(of_flow).collect()
}

/// Fills in the statistics that the programs counted for each flow, in place of emulated hosts' statistics.
pub(super) fn fill_stats(
    scenario: &Scenario,
    outcome: &RealHostsResult,
    sent: &mut [SenderStats],
    arrived: &mut [ReceiverStats],
) {
    for (n, flow) in scenario.flows.iter().enumerate() {
        if !scenario.is_real(flow.from) && scenario.is_real(flow.to) {
            // Soft-RoCE counts no payload, but data that it has acknowledged has arrived.
            arrived[n].payload = sent[n].payload_done;
        }
    }
    for (n, flow) in outcome.flows.iter().enumerate().filter_map(|(n, flow)| Some((n, flow.as_ref()?))) {
        let (messages_sent, messages_done) = (flow.messages, flow.messages);
        sent[n] =
            SenderStats { payload: Bytes::new(flow.sent), messages_sent, messages_done, ..SenderStats::default() };
        if scenario.is_real(scenario.flows[n].to) {
            arrived[n] = ReceiverStats { payload: Bytes::new(flow.received), ..ReceiverStats::default() };
        }
    }
}

/// Returns the statistics of the NIC model of a real host; `None` without one.
pub(super) fn nic_stats(scenario: &Scenario, stopped: &Stopped, host: usize) -> Option<NicStats> {
    let place = scenario.hosts[host].place();
    let report = stopped.devices.get(place.switch)?.get(place.port)?.nic?;
    let full = ModelDrop::ReceiveBufferFull as usize;
    let mut stats = NicStats::default();
    for n in 0..CLASSES {
        let class = &report.classes[n];
        stats.classes[n] = ClassStats {
            paused_for: class.paused_for,
            pauses: class.pauses,
            pauses_sent: class.pauses_sent,
            receive_overflow: class.dropped[full],
            receive_buffer_max: Bytes::new(class.receive_bytes_max),
            ..ClassStats::default()
        };
    }
    stats.control_sent = report.to_switch.generated;
    Some(stats)
}

/// Returns a failure for each NIC model of a real host whose frame conservation does not hold.
pub(super) fn unbalanced<'a>(scenario: &'a Scenario, stopped: &'a Stopped) -> impl Iterator<Item = String> + 'a {
    let real = scenario.hosts.iter().enumerate().filter(|(n, _)| scenario.is_real(*n));
    real.filter_map(|(_, host)| {
        let report: ModelReport = stopped.devices.get(host.switch)?.get(host.port)?.nic?;
        (!report.balances()).then(|| format!("the NIC in front of {} does not conserve frames", host.name))
    })
}

pub(super) fn add(summary: &mut Summary, outcome: RealHostsResult, duration: Span) {
    for (flow, result) in summary.flows.iter_mut().zip(&outcome.flows) {
        let Some(result) = result else { continue };
        // The program's rate replaces the switches' if they could not identify the flow.
        if flow.throughput_bps == 0 {
            flow.throughput_bps = throughput(Bytes::new(result.received), duration);
        }
        flow.tool = Some(result.tool.clone());
    }
    let errors = |host: &weir_results::run_dir::RealHostSummary| {
        host.counter("rdma.rcvd_seq_err") + host.counter("rdma.out_of_seq_request")
    };
    let missed =
        outcome.hosts.iter().filter(|host| errors(host) > 0).map(|host| format!("{} {}", host.name, errors(host)));
    let missed: Vec<String> = missed.collect();
    if !missed.is_empty() {
        summary
            .notes
            .push(format!("RDMA hosts missed packets (rcvd_seq_err and out_of_seq_request): {}", missed.join(", ")));
    }
    summary.failures.extend(outcome.failures);
    summary.real_hosts = outcome.hosts;
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use weir_scenario::RealPorts;
    use weir_scenario::file;

    use super::*;

    #[test]
    fn flows_that_share_their_class_with_ranks_are_not_measured_at_ports() {
        let start = "[scenario]\nname = 'n'\nend = '1s'\n[switch.classes]\npreset = 'roce'\n[switch.port]\nrate = '1Gbps'\n[[switches]]\nname = 'S'\n";
        let host = |name| format!("[[hosts]]\nname = '{name}'\nport = 'S.{name}'\nbackend = 'netns'\n");
        let flow = |class| {
            format!("[[flows]]\nname = 'f{class}'\nfrom = 'A'\nto = 'B'\nclass = {class}\ntransport = 'tcp-cubic'\n")
        };
        let ranks = "[[workloads]]\nkind = 'collective'\nclass = 3\ncollective = 'ring-all-reduce'\nbytes = '1KB'\n";
        let text = [start, &host("A"), &host("B"), &flow(0), &flow(3), ranks].concat();
        let runs = file::parse(Path::new("n.toml"), &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        let scenario = runs[0].with_real_hosts(1, &RealPorts::default()).unwrap();
        let measured: Vec<bool> = measurable_flows(&scenario).iter().map(Option::is_some).collect();
        assert_eq!(measured, [true, false]);
    }
}
