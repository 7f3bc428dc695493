//! Times of critical paths: computations, transmission, queueing, and the PAUSEs of the links that messages crossed.

use std::collections::BTreeMap;

use weir_flowctl::MessageKind;
use weir_results::measure::IdealPaths;
use weir_results::record::MessageOrigin;
use weir_results::run_dir::{CriticalPathSummary, PathMessageSummary};
use weir_scenario::workload::Message;
use weir_scenario::{LinkPeer, PortRef, Scenario, TrafficPlan};
use weir_switch_core::ecmp;
use weir_units::{Class, Span, Time};
use weir_wire::mac_control::PfcFrame;

use crate::{PathStep, Sim};

/// Sender of PAUSEs for a link and class: a port to its peer, or the host on a port to it.
type PauseSource = (MessageOrigin, PortRef, Class);

/// Pauses of a run with graphs.
#[derive(Debug, Default)]
pub(super) struct PauseTimes {
    /// Beginnings and ends, in order; the last end may be [`Time::NEVER`].
    pauses: BTreeMap<PauseSource, Vec<[Time; 2]>>,
}

impl PauseTimes {
    pub(super) fn record(&mut self, at: Time, (origin, place): (MessageOrigin, PortRef), frame: &PfcFrame) {
        for class in frame.enabled.iter() {
            let pauses = self.pauses.entry((origin, place, class)).or_default();
            let is_paused = pauses.last().is_some_and(|[_, end]| *end == Time::NEVER);
            match frame.times[class.index()] {
                0 if is_paused => pauses.last_mut().expect("it is the open one")[1] = at,
                0 => {}
                _ if is_paused => {}
                _ => pauses.push([at, Time::NEVER]),
            }
        }
    }

    /// Returns the time of a source's PAUSEs between two instants.
    fn time_between(&self, source: &PauseSource, [from, until]: [Time; 2]) -> Span {
        let Some(pauses) = self.pauses.get(source) else { return Span::ZERO };
        let first = pauses.partition_point(|[_, end]| *end <= from);
        let within = pauses[first..].iter().take_while(|[begin, _]| *begin < until);
        within.map(|[begin, end]| (*end).min(until).since((*begin).max(from))).sum()
    }
}

/// Times of critical paths.
pub(super) struct PathTimes<'r> {
    scenario: &'r Scenario,
    sim: &'r Sim,
    ideal: &'r IdealPaths<'r>,
    pauses: &'r PauseTimes,
    /// Whether all ports have PFC.
    has_pfc: bool,
    /// Whether all frames of a connection take one path.
    is_by_flow: bool,
}

/// Number of messages of a summary.
const SLOWEST: usize = 5;

impl<'r> PathTimes<'r> {
    pub(super) fn new(
        scenario: &'r Scenario,
        sim: &'r Sim,
        ideal: &'r IdealPaths<'r>,
        pauses: &'r PauseTimes,
    ) -> PathTimes<'r> {
        let mut ports = scenario.switches.iter().flat_map(|switch| &switch.ports);
        let has_pfc = ports.all(|port| port.flow_control.message_kind() == MessageKind::Pfc);
        let is_by_flow = !scenario.reorders() && scenario.outages.is_empty();
        PathTimes { scenario, sim, ideal, pauses, has_pfc, is_by_flow }
    }

    /// Returns the times of a path of a traffic plan.
    pub(super) fn summary(&self, plan: &TrafficPlan, steps: &[PathStep]) -> CriticalPathSummary {
        let [mut compute, mut transmission, mut queueing] = [Span::ZERO; 3];
        let mut paused = Some(Span::ZERO);
        let mut messages = Vec::new();
        for step in steps {
            match step {
                PathStep::Compute { duration, .. } => compute += *duration,
                PathStep::Message { message, sender, end, is_acknowledged } => {
                    let flight = end.since(message.start);
                    let ideal = self.ideal_time(plan, message, *is_acknowledged).unwrap_or(flight).min(flight);
                    let waited = flight - ideal;
                    let class = plan.connection(message).class;
                    let links = self.links(plan, message, *sender);
                    let by_link = links.map(|links| {
                        let time = |(origin, place): (MessageOrigin, PortRef)| {
                            let source = (origin, place, class);
                            (self.pauses.time_between(&source, [message.start, *end]), source)
                        };
                        links.into_iter().map(time).filter(|(time, _)| *time > Span::ZERO).collect::<Vec<_>>()
                    });
                    let longest = by_link.as_ref().and_then(|links| links.iter().max_by_key(|(time, _)| *time));
                    // Links in series may be paused at once, and pauses may delay no frame of the message.
                    let held =
                        by_link.as_ref().map(|links| links.iter().map(|(time, _)| *time).sum::<Span>().min(waited));
                    paused = paused.zip(held).map(|(paused, held)| paused + held);
                    transmission += ideal;
                    queueing += waited;
                    messages.push(self.message(message, flight, waited, longest));
                }
            }
        }
        let count = messages.len() as u64;
        messages.sort_by_key(|message| std::cmp::Reverse(message.queueing_ns));
        messages.truncate(SLOWEST);
        CriticalPathSummary {
            compute_ns: compute.as_nanos(),
            transmission_ns: transmission.as_nanos(),
            queueing_ns: queueing.as_nanos(),
            paused_ns: paused.map(Span::as_nanos),
            messages: count,
            slowest: messages,
        }
    }

    fn message(
        &self,
        message: &Message,
        flight: Span,
        waited: Span,
        longest: Option<&(Span, PauseSource)>,
    ) -> PathMessageSummary {
        let name = |host: u32| self.scenario.hosts[host as usize].name.clone();
        let source = |(origin, place, _): PauseSource| match (origin, self.ideal.peer(place)) {
            (MessageOrigin::Host, Some(LinkPeer::Host(host))) => self.scenario.hosts[host].name.clone(),
            _ => {
                let switch = &self.scenario.switches[place.switch];
                format!("{}.{}", switch.name, switch.ports[place.port].name)
            }
        };
        PathMessageSummary {
            from: name(message.from),
            to: name(message.to),
            bytes: message.size.get(),
            start_ns: message.start.as_nanos(),
            flight_ns: flight.as_nanos(),
            queueing_ns: waited.as_nanos(),
            paused_by: longest.map(|(_, of)| source(*of)),
            paused_by_ns: longest.map_or(0, |(time, _)| time.as_nanos()),
        }
    }

    fn ideal_time(&self, plan: &TrafficPlan, message: &Message, is_acknowledged: bool) -> Option<Span> {
        let ends = [message.from, message.to].map(|host| host as usize);
        let stamps = plan.congestion_control.telemetry();
        match self.scenario.servers_for(plan, ends) {
            Some(servers) if is_acknowledged => Some(servers.ideal_fct(message.size)),
            Some(servers) => Some(servers.ideal_fct(message.size) - servers.delay),
            None if is_acknowledged => self.ideal.ideal_fct_between(ends, message.size, &plan.transport, stamps),
            None => self.ideal.ideal_delivery(ends, message.size, stamps),
        }
    }

    /// Returns the sources of PAUSEs for the links that a message crossed; `None` if its path is unknown, or another flow control than PFC
    /// held it.
    fn links(&self, plan: &TrafficPlan, message: &Message, sender: u32) -> Option<Vec<(MessageOrigin, PortRef)>> {
        let [from, to] = [message.from, message.to].map(|host| host as usize);
        if self.scenario.servers_for(plan, [from, to]).is_some() {
            return Some(Vec::new());
        }
        if !self.has_pfc {
            return None;
        }
        let hash = self.sim.host(from).sender_flow_hash(sender as usize);
        let mut place = self.scenario.hosts[from].place();
        let mut links = vec![(MessageOrigin::Port, place)];
        loop {
            place.port = match &self.scenario.routes {
                Some(routes) => {
                    let ports = routes.ports(place.switch, to);
                    if ports.len() != 1 && !self.is_by_flow {
                        return None;
                    }
                    let number = ecmp::choose(hash, self.scenario.hash_seed(place.switch), ports.len());
                    usize::from(*ports.get(number)?)
                }
                None => self.ideal.static_port(place.switch, to)?,
            };
            match self.ideal.peer(place)? {
                LinkPeer::Host(_) => {
                    links.push((MessageOrigin::Host, place));
                    return Some(links);
                }
                LinkPeer::Port(next) => {
                    place = next;
                    links.push((MessageOrigin::Port, place));
                }
            }
        }
    }
}
