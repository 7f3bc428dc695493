//! Notes on traffic that a scenario allows and probably does not mean.

use weir_config::{ClassMap, SwitchConfig};
use weir_load_balancing::PATH_SELECTORS;
use weir_nic::host::{CongestionControlChoice, LossRecovery, TelemetryMode};
use weir_units::{Bytes, Class, SplitMix64, count};
use weir_wire::rocev2::Dscp;

use crate::link::{ChosenFrames, FaultPlan};
use crate::scenario::{LinkRef, Scenario, TrafficSource};

/// RDMA of a flow or a workload.
struct RdmaTraffic<'t> {
    kind: &'static str,
    name: &'t str,
    /// Priority groups at the senders' ports, with their DSCPs.
    points: Vec<(Class, Dscp)>,
    congestion_control: &'t CongestionControlChoice,
    retransmits: bool,
    loss_recovery: LossRecovery,
}

/// Returns the RDMA flows, then the RDMA workloads.
fn rdma_traffic(scenario: &Scenario) -> Vec<RdmaTraffic<'_>> {
    let flows = scenario.flows.iter().filter(|flow| !flow.config.transport.is_tcp()).map(|flow| RdmaTraffic {
        kind: "flow",
        name: &flow.name,
        points: vec![(flow.config.class, flow.config.dscp)],
        congestion_control: &flow.config.congestion_control,
        retransmits: flow.config.retransmission.is_some(),
        loss_recovery: flow.config.loss_recovery,
    });
    let workloads = scenario.traffic.iter().filter(|plan| !plan.transport.is_tcp()).map(|plan| RdmaTraffic {
        kind: "workload",
        name: &plan.name,
        points: plan.points.to_vec(),
        congestion_control: &plan.congestion_control,
        retransmits: plan.retransmission.is_some(),
        loss_recovery: plan.loss_recovery,
    });
    flows.chain(workloads).collect()
}

/// Returns notes on flows and workloads that suffer where frames of a flow overtake each other.
pub(super) fn of_load_balancing(scenario: &Scenario) -> Vec<String> {
    let kind = |switch: &SwitchConfig| PATH_SELECTORS.find(switch.load_balancing.kind());
    let reorders = |switch: &&SwitchConfig| kind(switch).is_some_and(|kind| kind.reorders());
    let switch = scenario.switches.iter().find(reorders);
    let by_switch = switch.map(|switch| format!("load balancing \"{}\"", switch.load_balancing.kind()));
    let by_sender = |rdma: &RdmaTraffic<'_>| match rdma.loss_recovery {
        LossRecovery::Selective(config) if config.entropy.selector(SplitMix64::new(0)).is_some() => {
            Some(format!("entropy \"{}\"", config.entropy.id()))
        }
        _ => None,
    };
    let has_choice = scenario.routes.is_some();
    let notes = rdma_traffic(scenario).into_iter().filter(|_| has_choice).flat_map(|rdma| {
        let cause = by_switch.clone().or_else(|| by_sender(&rdma));
        let start = cause.map(|cause| format!("{cause}: {} {}", rdma.kind, rdma.name));
        let goes_back = rdma.retransmits && !rdma.loss_recovery.is_selective();
        let dropped = start.clone().filter(|_| goes_back).map(|start| {
            format!("{start} takes overtaken packets for lost; write loss_recovery = \"selective\" in [nic]")
        });
        let measures_path = rdma.congestion_control.telemetry() != TelemetryMode::None;
        let mixed = start.filter(|_| measures_path);
        let mixed = mixed.map(|start| format!("{start} measures paths, of which each packet takes another"));
        let by_hash = |switch: &SwitchConfig| switch.load_balancing.selector().is_none();
        let is_idle = !scenario.switches.iter().any(by_hash);
        let idle = by_sender(&rdma).filter(|_| is_idle).map(|entropy| {
            format!(
                "{entropy}: {} {} takes the paths that switches choose; write load_balancing = \"flow-hash\"",
                rdma.kind, rdma.name
            )
        });
        dropped.into_iter().chain(mixed).chain(idle)
    });
    notes.collect()
}

/// Returns a note on the port whose headroom falls short by the most under link layer retry. Until a lost PAUSE is replayed the peer sends
/// on, and the replay buffers of both ends are sent after it.
pub(super) fn of_llr_headroom(scenario: &Scenario) -> Option<String> {
    let is_cut = |link: LinkRef| scenario.outages.iter().any(|outage| outage.link == link);
    let loses = |faults: &FaultPlan| {
        let of_data = matches!(faults.frames, ChosenFrames::Data | ChosenFrames::DataWith(_));
        !of_data && faults.loss_ppm + faults.corruption_ppm + faults.reordering_ppm > 0
    };
    // A PAUSE has the faults of the direction in which its end sends.
    let between = scenario.links.iter().enumerate().flat_map(|(n, link)| {
        let ends = link.ends.into_iter().zip(&link.faults);
        let lossy = ends.filter(move |(_, faults)| is_cut(LinkRef::Between(n)) || loses(faults));
        lossy.map(|(end, _)| (end, link.llr))
    });
    let to_hosts = scenario.hosts.iter().enumerate();
    let to_hosts = to_hosts.filter(|(n, host)| is_cut(LinkRef::ToHost(*n)) || loses(&host.faults[0]));
    let all = between.chain(to_hosts.map(|(_, host)| (host.place(), host.llr)));
    let short = all.filter_map(|(place, llr)| {
        let (llr, config) = (llr?, &scenario.switches[place.switch]);
        let port = &config.ports[place.port];
        let by_headroom = port.flow_control.message_kind().advertises_xoff() && !config.classes.lossless.is_empty();
        let more = port.rate?.bytes_in(llr.replay_timer) + llr.outstanding_bytes * 2;
        let least = config.headroom_by_rule(port)? + more;
        let missing = least.saturating_sub(config.headroom(place.port)?);
        (by_headroom && missing > Bytes::ZERO).then(|| (missing, least, format!("{}.{}", config.name, port.name)))
    });
    let (_, least, port) = short.max_by_key(|(missing, ..)| *missing)?;
    Some(format!(
        "links with `llr`: a lost PAUSE waits for `replay_timer`, and replay buffers are sent after it; headroom for one such loss is {} B \
         at {port}, and it has less",
        count(least.get())
    ))
}

/// Returns a note for each kind of traffic that is probably not meant, with the names of its flows and workloads.
pub(super) fn of_traffic(scenario: &Scenario) -> Vec<String> {
    let (all, switches) = (rdma_traffic(scenario), &scenario.switches);
    let unmarked = named(&all, |rdma, (class, dscp)| {
        let feedback = rdma.congestion_control.feedback();
        let follows_marks = feedback.cnp_interval.is_some() || feedback.echoes_ecn;
        let is_marked = |switch: &SwitchConfig| {
            let marks = |(map, _): (&ClassMap, u8)| {
                let queue = map.queue_of_dscp()[usize::from(dscp.get())];
                switch.classes.queues[usize::from(queue)].ecn.is_some()
            };
            switch.class_maps().any(marks)
        };
        (follows_marks && !switches.iter().any(is_marked)).then(|| {
            format!(
                "congestion control {} waits for ECN marks, and no switch marks class {}: set ecn of that class in switch.classes.queues, or no congestion control",
                rdma.congestion_control.name(),
                class.index()
            )
        })
    });
    let lossy = named(&all, |rdma, (class, dscp)| {
        let is_lossy = |switch: &SwitchConfig| {
            let drops = |(map, _): (&ClassMap, u8)| {
                let group = map.group_of_dscp()[usize::from(dscp.get())];
                !switch.classes.lossless.contains(Class::new(group))
            };
            switch.class_maps().any(drops)
        };
        switches.iter().any(is_lossy).then(|| {
            let outcome = match (rdma.retransmits, rdma.loss_recovery.is_selective()) {
                (true, false) => "each loss starts go-back-N",
                (true, true) => "lost packets are sent again",
                (false, _) => "a message that loses a frame never ends, without a retransmission timeout",
            };
            format!("RDMA in class {}, which is lossy: {outcome}", class.index())
        })
    });
    let early = scenario.traffic.iter().filter(|workload| match &workload.source {
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
fn named(all: &[RdmaTraffic<'_>], note: impl Fn(&RdmaTraffic<'_>, (Class, Dscp)) -> Option<String>) -> Vec<String> {
    let mut notes: Vec<(String, Vec<&str>)> = Vec::new();
    for (rdma, point) in all.iter().flat_map(|rdma| rdma.points.iter().map(move |point| (rdma, *point))) {
        let Some(text) = note(rdma, point) else { continue };
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
