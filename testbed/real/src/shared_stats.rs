//! State shared between hosts' lcores and the control thread during a run.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use weir_nic::host::{Host, HostStats};
use weir_results::record::LinkStats;
use weir_results::run_dir::FlowSample;
use weir_scenario::workload::MessageGraph;
use weir_scenario::{Scenario, TrafficPlan};
use weir_units::{BitRate, Bytes, CLASSES, Class, Span, Time};
use weir_wire::rocev2::NakCode;

/// Counters of the hosts for samples, final statistics of hosts and links, and the scenario's start.
///
/// Relaxed throughout: values are independent, and a sample may be one poll old. A snapshot is not consistent as a
/// whole; exact values come from the hosts' final statistics.
#[derive(Debug)]
pub(super) struct SharedStats {
    /// Clock reading at the scenario's start, in ps; [`NOT_STARTED`] before it is set.
    start_ps: AtomicU64,
    flows: Box<[FlowCell]>,
    hosts: Box<[HostCell]>,
    /// Final statistics of each link between switches.
    links: Box<[Mutex<Option<LinkStats>>]>,
    /// End of the scenario, from which programs start nothing.
    end: Time,
}

const NOT_STARTED: u64 = u64::MAX;

/// Counters of a flow. Each field has one writer: the sending or the receiving host.
#[derive(Debug, Default)]
struct FlowCell {
    sent: AtomicU64,
    received: AtomicU64,
    /// Acknowledged messages, and whether all messages have been acknowledged.
    messages_done: AtomicU64,
    is_over: AtomicBool,
    /// NAK with which the receiver closed the flow: its index in [`NakCode::ALL`] plus 1; 0 for none.
    refusal: AtomicU8,
    /// Bits of each gauge's value, if the series has gauges.
    gauges: Box<[AtomicU64]>,
}

#[derive(Debug)]
struct HostCell {
    name: String,
    /// Scenario's flows that the host sends and receives, in the host's order.
    sends: Vec<usize>,
    receives: Vec<usize>,
    has_programs: bool,
    finished: AtomicBool,
    /// Rate that the switch grants each class, in bit/s; 0 without rate-based flow control.
    rates: [AtomicU64; CLASSES],
    final_stats: Mutex<Option<FinalStats>>,
}

/// Final statistics of a host.
#[derive(Clone, Debug)]
pub(super) struct FinalStats {
    pub(super) stats: HostStats,
    /// Line time that the host lost because late polls exceeded its catch-up.
    pub(super) late: Span,
    /// Longest time between two polls of the host.
    pub(super) gap_max: Span,
    /// Statistics of the link directions towards the host and towards the switch.
    pub(super) link: LinkStats,
}

pub(super) struct HostFinalStats<'a> {
    pub(super) final_stats: FinalStats,
    /// Indices in the scenario of the flows that the host sends, and of those that it receives.
    pub(super) sends: &'a [usize],
    pub(super) receives: &'a [usize],
}

impl FlowCell {
    fn new(gauges: Option<&Vec<&'static str>>) -> FlowCell {
        let no_value = || AtomicU64::new(f64::NAN.to_bits());
        FlowCell { gauges: gauges.into_iter().flatten().map(|_| no_value()).collect(), ..FlowCell::default() }
    }

    fn publish_gauges(&self, flow: usize, host: &Host) {
        if self.gauges.is_empty() {
            return;
        }
        let mut cells = self.gauges.iter();
        host.show_gauges(flow, &mut |value| {
            if let Some(cell) = cells.next() {
                cell.store(value.to_bits(), Ordering::Relaxed);
            }
        });
    }
}

impl SharedStats {
    pub(super) fn new(scenario: &Scenario) -> SharedStats {
        let mut has_messages = vec![false; scenario.hosts.len()];
        let messages = scenario.traffic.iter().flat_map(|plan| plan.before(scenario.end));
        messages.for_each(|message| has_messages[message.from as usize] = true);
        let ranks = || scenario.traffic.iter().filter_map(TrafficPlan::graph).flat_map(MessageGraph::ranks);
        let hosts = scenario.hosts.iter().enumerate().map(|(n, plan)| {
            let has_programs = ranks().any(|rank| rank.host as usize == n);
            let flows = scenario.flows_of(n);
            HostCell {
                name: plan.name.clone(),
                sends: flows.sends.iter().map(|(flow, _)| *flow).collect(),
                receives: flows.receives.iter().map(|(flow, _)| *flow).collect(),
                has_programs,
                // A host that sends nothing may never publish.
                finished: AtomicBool::new(
                    !has_programs && (scenario.is_real(n) || (flows.sends.is_empty() && !has_messages[n])),
                ),
                rates: Default::default(),
                final_stats: Mutex::new(None),
            }
        });
        let gauges = scenario.flow_gauges();
        SharedStats {
            start_ps: AtomicU64::new(NOT_STARTED),
            flows: (0..scenario.flows.len()).map(|flow| FlowCell::new(gauges.get(flow))).collect(),
            hosts: hosts.collect(),
            links: scenario.links.iter().map(|_| Mutex::new(None)).collect(),
            end: scenario.end,
        }
    }

    /// Sets the clock reading of the scenario's start.
    pub(super) fn set_start(&self, at: Time) {
        self.start_ps.store(at.as_picos(), Ordering::Relaxed);
    }

    /// Returns the scenario's time at a clock reading; `None` before its start.
    #[inline]
    pub(super) fn scenario_time(&self, clock: Time) -> Option<Time> {
        clock.as_picos().checked_sub(self.start_ps.load(Ordering::Relaxed)).map(Time::from_picos)
    }

    /// Publishes the counters of a host's flows.
    pub(super) fn publish(&self, now: Time, host: usize, state: &Host) {
        let cell = &self.hosts[host];
        for (n, flow) in cell.sends.iter().enumerate() {
            self.flows[*flow].sent.store(state.sender_stats(n).payload.get(), Ordering::Relaxed);
            self.flows[*flow].messages_done.store(state.sender_stats(n).messages_done, Ordering::Relaxed);
            let refusal = state.refusal(n).map_or(0, |refusal| refusal as u8 + 1);
            self.flows[*flow].refusal.store(refusal, Ordering::Relaxed);
            self.flows[*flow].is_over.store(state.is_flow_finished(n), Ordering::Relaxed);
            self.flows[*flow].publish_gauges(n, state);
        }
        for (n, flow) in cell.receives.iter().enumerate() {
            self.flows[*flow].received.store(state.receiver_stats(n).payload.get(), Ordering::Relaxed);
        }
        for class in state.config().lossless.iter() {
            let rate = state.peer_rate(now, class).map_or(0, BitRate::as_bps);
            cell.rates[class.index()].store(rate, Ordering::Relaxed);
        }
        self.publish_end(now, host, state);
    }

    /// Publishes whether a host has finished.
    pub(super) fn publish_end(&self, now: Time, host: usize, state: &Host) {
        let cell = &self.hosts[host];
        // Until the end a receipt may start more.
        let is_over = !cell.has_programs || now >= self.end;
        cell.finished.store(is_over && state.is_finished(), Ordering::Relaxed);
    }

    /// Returns the rate that the switch grants a host's class, under GFC.
    pub(super) fn rate(&self, host: usize, class: Class) -> Option<BitRate> {
        let bps = self.hosts[host].rates[class.index()].load(Ordering::Relaxed);
        (bps > 0).then(|| BitRate::bps(bps))
    }

    /// Stores the final statistics of a host.
    pub(super) fn store_host_stats(&self, host: usize, final_stats: FinalStats) {
        *self.hosts[host].final_stats.lock().expect("nobody panics with this lock held") = Some(final_stats);
    }

    pub(super) fn host_final_stats(&self, host: usize) -> Option<HostFinalStats<'_>> {
        let cell = &self.hosts[host];
        let final_stats = cell.final_stats.lock().expect("nobody panics with this lock held").clone()?;
        Some(HostFinalStats { final_stats, sends: &cell.sends, receives: &cell.receives })
    }

    /// Stores the final statistics of a link.
    pub(super) fn store_link_stats(&self, link: usize, final_stats: LinkStats) {
        *self.links[link].lock().expect("nobody panics with this lock held") = Some(final_stats);
    }

    pub(super) fn link_final_stats(&self, link: usize) -> Option<LinkStats> {
        *self.links[link].lock().expect("nobody panics with this lock held")
    }

    /// Sets the progress of a flow at its real ends.
    pub(super) fn set_flow(&self, flow: usize, sent: Option<Bytes>, received: Option<Bytes>) {
        let set = |cell: &AtomicU64, bytes: Bytes| cell.store(bytes.get(), Ordering::Relaxed);
        sent.into_iter().for_each(|sent| set(&self.flows[flow].sent, sent));
        received.into_iter().for_each(|received| set(&self.flows[flow].received, received));
    }

    /// Returns the acknowledged messages of an emulated sender's flow, and whether the flow is over.
    pub(super) fn acknowledged(&self, flow: usize) -> (u64, bool) {
        let cell = &self.flows[flow];
        (cell.messages_done.load(Ordering::Relaxed), cell.is_over.load(Ordering::Relaxed))
    }

    /// Returns the NAK with which the receiver closed an emulated sender's flow.
    pub(super) fn refusal(&self, flow: usize) -> Option<NakCode> {
        let place = self.flows[flow].refusal.load(Ordering::Relaxed).checked_sub(1)?;
        NakCode::ALL.get(usize::from(place)).copied()
    }

    /// Returns the payload that an emulated sender's flow has sent.
    pub(super) fn sent(&self, flow: usize) -> Bytes {
        Bytes::new(self.flows[flow].sent.load(Ordering::Relaxed))
    }

    pub(super) fn flows(&self) -> impl Iterator<Item = FlowSample> {
        self.flows.iter().map(|flow| FlowSample {
            sent: Bytes::new(flow.sent.load(Ordering::Relaxed)),
            received: Bytes::new(flow.received.load(Ordering::Relaxed)),
        })
    }

    /// Returns the gauges of all flows, concatenated.
    pub(super) fn gauges(&self) -> Vec<f64> {
        let cells = self.flows.iter().flat_map(|flow| &flow.gauges);
        cells.map(|cell| f64::from_bits(cell.load(Ordering::Relaxed))).collect()
    }

    pub(super) fn all_finished(&self) -> bool {
        self.hosts.iter().all(|host| host.finished.load(Ordering::Relaxed))
    }

    pub(super) fn unfinished(&self) -> Vec<String> {
        let late = self.hosts.iter().filter(|host| !host.finished.load(Ordering::Relaxed));
        late.map(|host| host.name.clone()).collect()
    }
}
