//! Messages of the file's workloads, drawn once for all runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_reader::{Doc, Problem};
use weir_units::{BitRate, Span, Time};

use super::plan::ScenarioPlan;
use super::reading::split_fix;
use super::workloads::{BurstSenders, BurstStarts, LoopPart, MESSAGES_MAX, Pattern, WorkloadKind, WorkloadPart};
use crate::scenario::{HostPlan, Scenario, TrafficSource};
use crate::workload::{
    ClosedLoop, ClosedLoopConfig, Incast, Instants, Load, LoadFraming, Message, Pairs, Peers, Poisson, Senders,
    SizeCdf, WorkloadError, merge,
};

/// Inputs that the messages of a file's workloads depend on.
#[derive(Debug, PartialEq)]
pub(super) struct MessageInputs(Vec<WorkloadInputs>);

/// Inputs that one workload's messages depend on, besides the number of earlier workloads' messages.
#[derive(Debug, PartialEq)]
struct WorkloadInputs {
    /// Index among the workloads of the file.
    number: usize,
    name: String,
    seed: u64,
    kind: Arc<WorkloadKind>,
    /// Link of each host, by its number.
    links: Vec<HostLink>,
}

/// Properties of a host's link that loads depend on.
#[derive(Clone, Copy, Debug, PartialEq)]
struct HostLink {
    rate: BitRate,
    framing: LoadFraming,
}

impl MessageInputs {
    /// Returns the inputs of a file's workloads. Loads are shares of the links of `scenario`, a run of the file.
    pub(super) fn new(plan: &ScenarioPlan, scenario: &Scenario) -> MessageInputs {
        let terms = |workload: &WorkloadPart| {
            let transport = &workload.transport.transport;
            let link = |host: &HostPlan| HostLink {
                rate: host.nic.rate,
                framing: plan.nic.framing(&host.nic.sizes, transport, plan.link_overhead),
            };
            let mut links: Vec<HostLink> = scenario.hosts.iter().map(link).collect();
            let ports = scenario.host_ports();
            for host in ports.hosts() {
                let rates = ports.ports(host).map(|port| links[port as usize].rate.as_bps());
                links[host as usize].rate = BitRate::bps(rates.sum());
            }
            WorkloadInputs {
                number: workload.number,
                name: workload.name.clone(),
                seed: workload.seed,
                kind: workload.kind.clone(),
                links,
            }
        };
        MessageInputs(plan.workloads.iter().map(terms).collect())
    }

    /// Draws the messages of each workload; `None`, with an error, if that fails.
    pub(super) fn draw(&self, doc: &Doc) -> Option<Vec<TrafficSource>> {
        let mut left = MESSAGES_MAX;
        let mut all = Vec::new();
        for workload in &self.0 {
            let maker = MessageGenerator { workload, left };
            let key = |key: &str| format!("workloads[{}].{key}", workload.number);
            match maker.sent() {
                Ok(sent) => {
                    left -= sent.count();
                    all.push(sent);
                }
                Err(DrawError::TooMany) => {
                    let others = if left < MESSAGES_MAX { "with those before it, " } else { "" };
                    let message = format!("{others}workload {} has more than {MESSAGES_MAX} messages", workload.name);
                    doc.refuse(Problem::new(message, maker.what_to_lower()).with_label(key(maker.key_of_count()), ""));
                    return None;
                }
                Err(DrawError::Wrong(error)) => {
                    let (message, help) = split_fix(&error.to_string());
                    let message = format!("workload {}: {message}", workload.name);
                    doc.refuse(Problem::new(message, help).with_label(key("kind"), ""));
                    return None;
                }
            }
        }
        Some(all)
    }
}

/// Error in drawing messages.
enum DrawError {
    TooMany,
    Wrong(WorkloadError),
}

impl From<WorkloadError> for DrawError {
    fn from(error: WorkloadError) -> DrawError {
        DrawError::Wrong(error)
    }
}

/// Generator of a workload's messages; a list has at most `left`.
struct MessageGenerator<'t> {
    workload: &'t WorkloadInputs,
    left: usize,
}

impl MessageGenerator<'_> {
    fn sent(&self) -> Result<TrafficSource, DrawError> {
        let seed = self.workload.seed;
        let messages = match &*self.workload.kind {
            WorkloadKind::ClosedLoop(terms) => return self.closed_loop(terms),
            WorkloadKind::Graph(graph) if graph.messages().count() > self.left => return Err(DrawError::TooMany),
            WorkloadKind::Graph(graph) => return Ok(TrafficSource::Graph(graph.clone())),
            WorkloadKind::List(messages) if messages.len() > self.left => return Err(DrawError::TooMany),
            WorkloadKind::List(messages) => messages.clone(),
            WorkloadKind::Poisson { senders, receivers, sizes, load, from, until } => {
                self.poisson(senders, receivers, sizes, *load, [*from, *until])?
            }
            WorkloadKind::Incast { senders, choice, receivers, sizes, equal_sizes, when } => {
                let is_among = receivers.iter().all(|receiver| senders.contains(receiver));
                let count = match choice {
                    BurstSenders::All => senders.len() - usize::from(is_among),
                    BurstSenders::Some(count) | BurstSenders::Group(count) => *count,
                };
                let instants = self.instants(*when, senders, count, sizes)?;
                let senders = match choice {
                    BurstSenders::All => Senders::These(senders.clone()),
                    BurstSenders::Some(count) => Senders::Several(Peers::others(senders)?, *count),
                    BurstSenders::Group(size) => {
                        Senders::OneGroup(Peers::other_groups(senders, &groups(senders, receivers, *size))?)
                    }
                };
                let (receivers, sizes, jitter) = (receivers.clone(), sizes.clone(), Span::ZERO);
                let equal_sizes = *equal_sizes;
                Incast { instants, receivers, senders, sizes, equal_sizes, jitter, seed }.messages()?
            }
            WorkloadKind::Pairs { pairs, sizes, when } => {
                let (hosts, count) = match pairs {
                    Pattern::Each(pairs) => (&[][..], pairs.len()),
                    Pattern::AllToAll(hosts) => (&hosts[..], hosts.len() * (hosts.len() - 1)),
                    Pattern::Permutation(hosts) => (&hosts[..], hosts.len()),
                };
                let instants = self.instants(*when, hosts, count, sizes)?;
                let pairs = match pairs {
                    Pattern::Each(pairs) => Pairs::new(pairs.clone())?,
                    Pattern::AllToAll(hosts) => Pairs::all_to_all(hosts)?,
                    Pattern::Permutation(hosts) => Pairs::permutation(hosts, seed)?,
                };
                pairs.messages(sizes, instants, seed)?
            }
        };
        Ok(TrafficSource::List(messages.into()))
    }

    fn closed_loop(&self, terms: &LoopPart) -> Result<TrafficSource, DrawError> {
        let LoopPart { senders, receivers, sizes, outstanding, times, from, until } = terms.clone();
        let expected = senders.len() as f64 * f64::from(times.map_or(outstanding, |times| times.min(outstanding)));
        self.check_count(expected)?;
        let (receivers, seed) = (Peers::others(&receivers)?, self.workload.seed);
        let terms = ClosedLoopConfig { senders, receivers, sizes, outstanding, times, from, until, seed };
        Ok(TrafficSource::ClosedLoop(Arc::new(ClosedLoop::new(terms)?)))
    }

    /// Senders on equal links are one source; their messages do not depend on other senders.
    fn poisson(
        &self,
        senders: &[u32],
        receivers: &[u32],
        sizes: &SizeCdf,
        load: f64,
        [from, until]: [Time; 2],
    ) -> Result<Vec<Message>, DrawError> {
        let mut alike: BTreeMap<_, (Load, Vec<u32>)> = BTreeMap::new();
        for sender in senders {
            let HostLink { rate, framing } = self.link(*sender);
            let load = Load::new(load, rate, framing)?;
            let key = (rate, framing.payload);
            alike.entry(key).or_insert_with(|| (load, Vec::new())).1.push(*sender);
        }
        let receivers = Peers::others(receivers)?;
        let span = until.since(from).as_picos() as f64;
        let expected = |(load, senders): &(Load, Vec<u32>)| senders.len() as f64 * span / load.mean_gap_ps(sizes);
        self.check_count(alike.values().map(expected).sum())?;
        let source = |(load, senders)| {
            let (sizes, seed) = (sizes.clone(), self.workload.seed);
            Poisson { senders, receivers: receivers.clone(), sizes, load, from, until, seed }.messages()
        };
        let sources = alike.into_values().map(source).collect::<Result<Vec<_>, _>>()?;
        let messages: Vec<Message> = merge(sources).take(self.left + 1).collect();
        if messages.len() > self.left { Err(DrawError::TooMany) } else { Ok(messages) }
    }

    /// Returns the bursts, of `count` messages each; a load is a share of these senders' links.
    fn instants(
        &self,
        when: BurstStarts,
        senders: &[u32],
        count: usize,
        sizes: &SizeCdf,
    ) -> Result<Instants, DrawError> {
        let bursts = |span: Span, every: f64| (span.as_picos() as f64 / every).ceil();
        let (instants, bursts) = match when {
            BurstStarts::Once(at) => (Instants::Once(at), 1.0),
            BurstStarts::Every { from, every, until } => {
                (Instants::Every { from, every, until }, bursts(until.since(from), every.as_picos() as f64))
            }
            BurstStarts::AtLoad { from, load, until } => {
                let rates = senders.iter().map(|sender| self.link(*sender).rate.as_bps());
                let mean = BitRate::bps(rates.sum::<u64>() / senders.len() as u64);
                let load = Load::new(load, mean, self.link(senders[0]).framing)?;
                let gap = load.mean_gap_ps(sizes) * count as f64 / senders.len() as f64;
                let instants = Instants::poisson_at(&load, senders.len(), count, sizes, [from, until])?;
                (instants, bursts(until.since(from), gap))
            }
        };
        self.check_count(bursts * count as f64)?;
        Ok(instants)
    }

    fn check_count(&self, expected: f64) -> Result<(), DrawError> {
        if expected > self.left as f64 { Err(DrawError::TooMany) } else { Ok(()) }
    }

    fn link(&self, host: u32) -> HostLink {
        self.workload.links[host as usize]
    }

    /// Returns the key that sets the number of messages.
    fn key_of_count(&self) -> &'static str {
        match &*self.workload.kind {
            WorkloadKind::Poisson { .. } => "load",
            WorkloadKind::List(_) => "file",
            WorkloadKind::Graph(graph) if graph.bus_bytes.is_some() => "collective",
            WorkloadKind::Graph(_) => "file",
            WorkloadKind::ClosedLoop(_) => "outstanding",
            WorkloadKind::Incast { when, .. } | WorkloadKind::Pairs { when, .. } => match when {
                BurstStarts::Once(_) => "senders",
                BurstStarts::Every { .. } => "every",
                BurstStarts::AtLoad { .. } => "load",
            },
        }
    }

    fn what_to_lower(&self) -> &'static str {
        match self.key_of_count() {
            "load" => "write a lower `load`, an earlier `until` or fewer `senders`",
            "every" => "write a longer `every`, an earlier `until` or fewer `senders`",
            "senders" => "write fewer `senders`",
            "collective" => "write fewer `times`, `chunks` or `senders`",
            "outstanding" => "write fewer of them, or fewer `senders`",
            _ => "take some of them out",
        }
    }
}

/// Group of each host, by its number: `size` senders each, in order. Receivers that do not send have no group.
fn groups(senders: &[u32], receivers: &[u32], size: usize) -> Vec<u32> {
    let last = senders.iter().chain(receivers).max().map_or(0, |host| *host as usize);
    let mut groups = vec![u32::MAX; last + 1];
    for (place, sender) in senders.iter().enumerate() {
        groups[*sender as usize] = (place / size) as u32;
    }
    groups
}
