//! Graph of a job's traces.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use weir_units::{Bytes, Span, Time};

use super::system::{AstraNetwork, AstraSystem, DimList};
use super::trace::{ChakraTrace, TraceNode, TraceOperation};
use crate::import::ImportErrors;
use crate::import::collectives::{CollectiveAlgorithm, CollectiveKind};
use crate::workload::{GraphDraft, GraphError, MessageGraph, RankSteps, ReceiveCost};

/// CPUs of a rank: of the host's and the GPU's computations, of messages, of empty computations, and of the chunks' delays.
const HOST_CPU: u8 = 0;
const GPU_CPU: u8 = 1;
const MESSAGE_CPU: u8 = 2;
const JOIN_CPU: u8 = 3;
const DELAY_CPUS: std::ops::RangeInclusive<u8> = 4..=u8::MAX;
/// Number of messages of a scenario, and size of one.
const MESSAGES_MAX: u64 = 20_000_000;
const MESSAGE_BYTES_MAX: u64 = 1 << 31;
/// Delay of a group without all ranks, for which ASTRA-sim ignores the system's.
const GROUP_DELAY: Span = Span::from_nanos(10);

/// Tag and bytes of messages: as in ASTRA-sim, a receipt takes none of another size.
type MessageKey = (u64, u64);

/// Graph under construction.
pub(super) struct JobSchedule<'j> {
    traces: &'j [ChakraTrace],
    system: &'j AstraSystem,
    dims: Vec<u32>,
    groups: &'j HashMap<String, Vec<u32>>,
    graph: GraphDraft,
    /// First operations of nodes, with these, by rank.
    owners: Vec<Vec<(u32, usize)>>,
    /// Tags of messages between two ranks, by tag and bytes in the traces, and the next tag.
    tags: HashMap<MessageKey, u32>,
    next_tag: u32,
    messages: u64,
    /// Number of chunks on a tree, of which every second one is mirrored.
    trees: u64,
}

/// Schedule in GOAL, and its graph.
pub(super) struct JobGraph {
    pub text: String,
    pub graph: MessageGraph,
    pub collectives: usize,
}

/// Collective of a group.
struct JobCollective {
    kind: CollectiveKind,
    bytes: u64,
    /// Members, by place; all ranks in order if `is_job`.
    members: Vec<u32>,
    is_job: bool,
    dims: Option<Vec<bool>>,
    /// Nodes of the members so far, in the order of ranks.
    nodes: Vec<JobNode>,
}

/// Node of a rank, its first and its last operation.
struct JobNode {
    rank: u32,
    node: usize,
    begin: u32,
    end: u32,
}

/// Part of a collective in one dimension of the network.
struct CollectivePhase {
    kind: CollectiveKind,
    algorithm: CollectiveAlgorithm,
    /// Groups that work independently of each other.
    groups: Vec<Vec<u32>>,
    bytes: u64,
}

/// Sends and receipts of a channel, and a node of it.
#[derive(Default)]
struct ChannelBalance {
    sent: u64,
    received: u64,
    node: (usize, usize),
}

impl<'j> JobSchedule<'j> {
    pub(super) fn new(
        traces: &'j [ChakraTrace],
        system: &'j AstraSystem,
        network: Option<&AstraNetwork>,
        groups: &'j HashMap<String, Vec<u32>>,
    ) -> JobSchedule<'j> {
        JobSchedule {
            traces,
            system,
            dims: network.map_or_else(|| vec![traces.len() as u32], |network| network.dims.clone()),
            groups,
            graph: GraphDraft::new(traces.len()),
            owners: vec![Vec::new(); traces.len()],
            tags: HashMap::new(),
            next_tag: 0,
            messages: 0,
            trees: 0,
        }
    }

    /// Builds the graph.
    pub(super) fn build(mut self) -> Result<JobGraph, ImportErrors> {
        // By group and place: collectives of a group pair by their order.
        let mut collectives: BTreeMap<(String, usize), JobCollective> = BTreeMap::new();
        let mut balances: BTreeMap<(u32, u32, MessageKey), ChannelBalance> = BTreeMap::new();
        for rank in 0..self.traces.len() {
            self.add_rank(rank, &mut collectives, &mut balances)?;
        }
        for ((from, to, (tag, bytes)), balance) in &balances {
            if balance.sent != balance.received {
                let (rank, node) = balance.node;
                let problem = format!(
                    "rank {from} sends {} messages of {bytes} B with tag {tag} to rank {to}, which receives {} of them",
                    balance.sent, balance.received
                );
                return Err(self.refuse(rank, node, &problem, "name traces of one complete job"));
            }
        }
        for collective in collectives.values() {
            let absent = collective.members.iter().find(|rank| collective.nodes.iter().all(|node| node.rank != **rank));
            if let Some(absent) = absent {
                let JobNode { rank, node, .. } = collective.nodes[0];
                let problem = format!("rank {absent} of its group does not take part");
                return Err(self.refuse(rank as usize, node, &problem, "name traces of one complete job"));
            }
            self.add_collective(collective)?;
        }
        let text = self.graph.goal_text();
        let hosts: Vec<u32> = (0..self.traces.len() as u32).collect();
        let (traces, owners) = (self.traces, &self.owners);
        let graph = self.graph.build(&hosts, Time::ZERO, Time::NEVER, 1);
        let graph = graph.and_then(|graph| graph.idle_time(|_| Span::ZERO).map(|_| graph));
        let graph = graph.map_err(|error| match error {
            GraphError::Cycle { rank, operation } | GraphError::Deadlock { rank, operation } => {
                let node = owner(&owners[rank as usize], operation).unwrap_or(0);
                let problem = "it never starts, as ranks wait for each other";
                refuse(&traces[rank as usize], node, problem, "take a dependency out")
            }
            GraphError::Unmatched { .. } => unreachable!("each receipt has its message"),
        })?;
        Ok(JobGraph { text, graph, collectives: collectives.len() })
    }

    /// Adds a rank's nodes, in an order of their dependencies in which lower ids go first.
    fn add_rank(
        &mut self,
        rank: usize,
        collectives: &mut BTreeMap<(String, usize), JobCollective>,
        balances: &mut BTreeMap<(u32, u32, MessageKey), ChannelBalance>,
    ) -> Result<(), ImportErrors> {
        let trace = &self.traces[rank];
        let mut counts: HashMap<String, usize> = HashMap::new();
        let mut ends: Vec<Option<u32>> = vec![None; trace.nodes.len()];
        let order = order(trace)?;
        let number = rank as u32;
        for (place, before) in order {
            let node = &trace.nodes[place];
            let next = self.graph.operations(number);
            self.owners[rank].push((next, place));
            let (first, last) = match &node.operation {
                TraceOperation::Metadata => self.single(number, Span::ZERO, JOIN_CPU),
                TraceOperation::Compute { micros, is_on_host } => {
                    if self.system.has_roofline && !is_on_host {
                        let problem = "computations of the roofline model (roofline-enabled) can't be simulated";
                        return Err(self.refuse(rank, place, problem, "write 0 for roofline-enabled"));
                    }
                    let cpu = if *is_on_host { HOST_CPU } else { GPU_CPU };
                    self.single(number, self.duration(rank, place, *micros)?, cpu)
                }
                TraceOperation::Broadcast { micros } => {
                    self.single(number, self.duration(rank, place, *micros)?, MESSAGE_CPU)
                }
                TraceOperation::Send { to, tag, bytes } => {
                    let peer = self.peer(rank, place, *to)?;
                    if *bytes > MESSAGE_BYTES_MAX {
                        return Err(self.too_large(rank, place, *bytes));
                    }
                    let key = (*tag, *bytes);
                    let balance = balances.entry((number, peer, key)).or_default();
                    (balance.sent, balance.node) = (balance.sent + 1, (rank, place));
                    let tag = self.tag(key);
                    self.count(1, rank, place)?;
                    let send = self.graph.send(number, peer, tag, (*bytes).max(1) as u32, MESSAGE_CPU);
                    (send, send)
                }
                TraceOperation::Receive { from, tag, bytes } => {
                    let peer = self.peer(rank, place, *from)?;
                    let key = (*tag, *bytes);
                    let balance = balances.entry((peer, number, key)).or_default();
                    (balance.received, balance.node) = (balance.received + 1, (rank, place));
                    let tag = self.tag(key);
                    let receive = self.graph.receive(number, peer, tag, MESSAGE_CPU);
                    (receive, receive)
                }
                TraceOperation::Collective { kind, bytes, group, dims } => {
                    let begin = self.graph.compute(number, Span::ZERO, JOIN_CPU);
                    let end = self.graph.compute(number, Span::ZERO, JOIN_CPU);
                    let (name, members) = self.members(rank, place, group)?;
                    let count = counts.entry(name.clone()).or_default();
                    let key = (name, *count);
                    *count += 1;
                    let is_job = members.len() == self.traces.len();
                    let collective = collectives.entry(key).or_insert_with(|| JobCollective {
                        kind: *kind,
                        bytes: *bytes,
                        members,
                        is_job,
                        dims: dims.clone(),
                        nodes: Vec::new(),
                    });
                    if (collective.kind, collective.bytes, &collective.dims) != (*kind, *bytes, dims) {
                        let problem = format!(
                            "it is number {count} of its group, {kind:?} of {bytes} B, and that of another rank is {:?} of {} B",
                            collective.kind, collective.bytes
                        );
                        let help = "name traces of one job, in which ranks run collectives of a group in one order";
                        return Err(self.refuse(rank, place, &problem, help));
                    }
                    collective.nodes.push(JobNode { rank: number, node: place, begin, end });
                    (begin, end)
                }
            };
            ends[place] = Some(last);
            for before in before {
                let before = ends[before].expect("it is earlier in order");
                self.graph.require(number, first, before);
            }
        }
        Ok(())
    }

    fn single(&mut self, rank: u32, duration: Span, cpu: u8) -> (u32, u32) {
        let compute = self.graph.compute(rank, duration, cpu);
        (compute, compute)
    }

    /// Returns the duration of a node: as in ASTRA-sim, 1 ns at least.
    fn duration(&self, rank: usize, node: usize, micros: u64) -> Result<Span, ImportErrors> {
        let picos = if micros == 0 { Some(1_000) } else { micros.checked_mul(1_000_000) };
        picos.map(Span::from_picos).ok_or_else(|| self.refuse(rank, node, "it takes over half a year", "write less"))
    }

    fn peer(&self, rank: usize, node: usize, peer: u64) -> Result<u32, ImportErrors> {
        if peer == rank as u64 {
            return Err(self.refuse(
                rank,
                node,
                "its message is to its own rank",
                "write another comm_dst or comm_src",
            ));
        }
        u32::try_from(peer).ok().filter(|peer| (*peer as usize) < self.traces.len()).ok_or_else(|| {
            let help = format!("name the traces of ranks 0 to {peer}");
            self.refuse(rank, node, &format!("there is no trace of rank {peer}"), &help)
        })
    }

    /// Returns the members of a node's group, by place, and a name for the group: members, for ranks may name groups differently.
    fn members(&self, rank: usize, node: usize, group: &str) -> Result<(String, Vec<u32>), ImportErrors> {
        let all = || (0..self.traces.len() as u32).collect::<Vec<u32>>();
        // Both names are those of all ranks.
        let group = if group == "0" { "" } else { group };
        let of_trace = self.traces[rank].groups.iter().rev().find(|(name, _)| name == group).map(|(_, ranks)| ranks);
        let members = match of_trace.or(self.groups.get(group)) {
            _ if group.is_empty() => all(),
            Some(ranks) if ranks.is_empty() => all(),
            Some(ranks) => ranks.clone(),
            None => {
                let help = "name a file with the group by --groups";
                return Err(self.refuse(rank, node, &format!("there is no group {group}"), help));
            }
        };
        let mut sorted = members.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let last = sorted.last().copied().unwrap_or(0) as usize;
        if sorted.len() < members.len() || last >= self.traces.len() || !sorted.contains(&(rank as u32)) {
            let problem = format!("group {group} has a rank twice, one without a trace, or not rank {rank}");
            return Err(self.refuse(rank, node, &problem, "write each rank of the group once"));
        }
        // All ranks: ASTRA-sim takes them in order.
        let members = if members.len() == self.traces.len() { all() } else { members };
        Ok((format!("{group} {members:?}"), members))
    }

    fn tag(&mut self, key: MessageKey) -> u32 {
        let next = &mut self.next_tag;
        *self.tags.entry(key).or_insert_with(|| {
            *next += 1;
            *next - 1
        })
    }

    fn count(&mut self, messages: u64, rank: usize, node: usize) -> Result<(), ImportErrors> {
        self.messages = self.messages.saturating_add(messages);
        if self.messages <= MESSAGES_MAX {
            return Ok(());
        }
        let problem =
            format!("with it the job has {} messages, and a scenario no more than {MESSAGES_MAX}", self.messages);
        Err(self.refuse(rank, node, &problem, "name fewer ranks, or write a smaller preferred-dataset-splits"))
    }

    /// Adds the messages of a collective, chunk by chunk.
    fn add_collective(&mut self, collective: &JobCollective) -> Result<(), ImportErrors> {
        let JobNode { rank, node, .. } = collective.nodes[0];
        let rank = rank as usize;
        // As in ASTRA-sim, chunks are of equal size, of a byte for each rank at least, and one more has the rest.
        let (mut chunk, mut bytes) = (collective.bytes / self.system.chunks, collective.bytes);
        let ranks = self.traces.len() as u64;
        if collective.kind != CollectiveKind::AllGather && chunk < ranks {
            (chunk, bytes) = (ranks, ranks * self.system.chunks);
        }
        if chunk == 0 {
            let problem = format!("its {} B have less than a byte for each of {} chunks", bytes, self.system.chunks);
            return Err(self.refuse(rank, node, &problem, "write a smaller preferred-dataset-splits"));
        }
        let mut last: Vec<Vec<Vec<u32>>> = Vec::new();
        for number in 0..bytes.div_ceil(chunk) {
            let phases =
                self.phases(collective, chunk).map_err(|(problem, help)| self.refuse(rank, node, &problem, &help))?;
            let mut before: Vec<u32> = collective.nodes.iter().map(|node| node.begin).collect();
            let mut ends = Vec::new();
            for (place, phase) in phases.iter().enumerate() {
                let n = phase.groups[0].len() as u32;
                let largest = phase.algorithm.message_max(phase.kind, n, phase.bytes);
                if largest > MESSAGE_BYTES_MAX {
                    return Err(self.too_large(rank, node, largest));
                }
                let messages = phase.algorithm.messages(phase.kind, n).saturating_mul(u64::from(n));
                self.count(messages.saturating_mul(phase.groups.len() as u64), rank, node)?;
                // Chunks follow each other in a phase.
                let earlier = number.checked_sub(self.system.active_chunks as u64);
                let earlier = earlier.map(|earlier| &last[earlier as usize][place]);
                before = self.add_phase(collective, phase, number, &before, earlier);
                ends.push(before.clone());
            }
            self.trees += 1;
            for (JobNode { rank, end, .. }, before) in collective.nodes.iter().zip(&before) {
                self.graph.require(*rank, *end, *before);
            }
            last.push(ends);
        }
        Ok(())
    }

    /// Adds a phase of a chunk after the operations `before` of its ranks and `earlier`; returns their last operations.
    fn add_phase(
        &mut self,
        collective: &JobCollective,
        phase: &CollectivePhase,
        chunk: u64,
        before: &[u32],
        earlier: Option<&Vec<u32>>,
    ) -> Vec<u32> {
        let delay = match collective.is_job || self.system.endpoint_delay == Span::ZERO {
            true => self.system.endpoint_delay,
            false => GROUP_DELAY,
        };
        let cpus = u64::from(DELAY_CPUS.end() - DELAY_CPUS.start()) + 1;
        let cpu = DELAY_CPUS.start() + (chunk % cpus) as u8;
        let memory_rate = self.system.memory_rate;
        let cost = (delay > Span::ZERO || memory_rate.is_some()).then_some(ReceiveCost { delay, memory_rate, cpu });
        let mut bounds = Vec::new();
        for (place, rank) in collective.nodes.iter().map(|node| node.rank).enumerate() {
            let start = self.graph.compute(rank, delay, cpu);
            for before in [Some(&before[place]), earlier.map(|earlier| &earlier[place])].into_iter().flatten() {
                self.graph.require(rank, start, *before);
            }
            bounds.push((rank, start, self.graph.operations(rank)));
        }
        for ranks in &phase.groups {
            let mut steps = RankSteps { graph: &mut self.graph, ranks, tag: self.next_tag, cpu: MESSAGE_CPU, cost };
            phase.algorithm.add(phase.kind, phase.bytes, &mut steps);
        }
        self.next_tag += 2;
        let end = |(rank, start, first): (u32, u32, u32)| {
            let operations = first..self.graph.operations(rank);
            let end = self.graph.compute(rank, Span::ZERO, JOIN_CPU);
            self.graph.bound(rank, operations, start, end);
            end
        };
        bounds.into_iter().map(end).collect()
    }

    /// Returns the phases of a chunk, or a problem and its fix.
    fn phases(&self, collective: &JobCollective, chunk: u64) -> Result<Vec<CollectivePhase>, (String, String)> {
        let JobCollective { kind, members, is_job, .. } = collective;
        let list = self.system.dim_lists.get(kind).ok_or_else(|| {
            (format!("the system file has no implementation of {kind:?}"), "write it, as in [\"ring\"]".to_owned())
        })?;
        let phase = |kind, algorithm, groups, bytes| CollectivePhase { kind, algorithm, groups, bytes };
        let involved = collective.dims.as_deref().unwrap_or(&[]);
        let is_by_dim = *is_job && !list.is_flat;
        if !is_by_dim && involved.contains(&false) {
            let problem = "involved_dim leaves out dimensions of a collective that is not simulated by dimensions";
            let fix =
                format!("write an implementation for each dimension in {}, and the network's dimensions", list.key);
            return Err((problem.to_owned(), fix));
        }
        if is_by_dim && !involved.is_empty() && (involved.len() < self.dims.len() || !involved.contains(&true)) {
            let problem =
                format!("involved_dim {involved:?} has no dimension, or fewer than the network's {}", self.dims.len());
            return Err((problem, "name the file of the network that the trace was made for".to_owned()));
        }
        let phases = if !*is_job {
            // As in ASTRA-sim, a smaller group is a ring if the list is for several dimensions.
            let single = list.dims.len() == 1;
            let algorithm = if single { list.dims[0] } else { CollectiveAlgorithm::Ring };
            vec![phase(*kind, algorithm, vec![members.clone()], chunk)]
        } else if list.is_flat {
            vec![phase(*kind, list.dims[0], vec![members.clone()], chunk)]
        } else {
            self.phases_by_dim(collective, list, chunk)?
        };
        let phases: Vec<_> = phases.into_iter().filter(|phase| phase.groups[0].len() > 1).collect();
        for phase in &phases {
            let n = phase.groups[0].len();
            let problem = match phase.algorithm {
                CollectiveAlgorithm::HalvingDoubling if phase.kind == CollectiveKind::AllToAll => {
                    "halvingDoubling of an all-to-all".to_owned()
                }
                CollectiveAlgorithm::HalvingDoubling if !n.is_power_of_two() => {
                    format!("halvingDoubling of {n} ranks, no power of two,")
                }
                CollectiveAlgorithm::DoubleBinaryTree { .. }
                    if !is_job
                        || phases.len() > 1
                        || phase.kind != CollectiveKind::AllReduce
                        || !n.is_power_of_two() =>
                {
                    "doubleBinaryTree of another than an all-reduce in one dimension, of all ranks, a power of two,"
                        .to_owned()
                }
                _ => continue,
            };
            return Err((format!("{problem} can't be simulated"), format!("write ring or direct in {}", list.key)));
        }
        Ok(phases)
    }

    /// Returns the phases of a collective of all ranks, dimension by dimension.
    fn phases_by_dim(
        &self,
        collective: &JobCollective,
        list: &DimList,
        chunk: u64,
    ) -> Result<Vec<CollectivePhase>, (String, String)> {
        if list.dims.len() != self.dims.len() {
            let problem =
                format!("{} has {} dimensions, and the network {}", list.key, list.dims.len(), self.dims.len());
            return Err((problem, "write an implementation for each dimension".to_owned()));
        }
        let takes_part = |dim: &usize| {
            let involved = collective.dims.as_ref().is_none_or(|dims| dims.get(*dim).copied().unwrap_or(false));
            involved && self.dims[*dim] > 1
        };
        let mut dims: Vec<usize> = (0..self.dims.len()).filter(takes_part).collect();
        let mut bytes = chunk;
        let mut phase = |kind: CollectiveKind, dim: usize| {
            let algorithm = match list.dims[dim] {
                CollectiveAlgorithm::DoubleBinaryTree { .. } => {
                    CollectiveAlgorithm::DoubleBinaryTree { mirrored: self.trees.is_multiple_of(2) }
                }
                other => other,
            };
            let phase = CollectivePhase { kind, algorithm, groups: self.groups_of(dim), bytes };
            match kind {
                CollectiveKind::ReduceScatter => bytes /= u64::from(self.dims[dim]),
                CollectiveKind::AllGather => bytes = bytes.saturating_mul(u64::from(self.dims[dim])),
                CollectiveKind::AllReduce | CollectiveKind::AllToAll => {}
            }
            phase
        };
        Ok(match collective.kind {
            CollectiveKind::AllReduce if self.system.scatters => {
                let Some(last) = dims.pop() else { return Ok(Vec::new()) };
                let mut phases: Vec<_> = dims.iter().map(|dim| phase(CollectiveKind::ReduceScatter, *dim)).collect();
                phases.push(phase(CollectiveKind::AllReduce, last));
                phases.extend(dims.iter().rev().map(|dim| phase(CollectiveKind::AllGather, *dim)));
                phases
            }
            CollectiveKind::AllGather => dims.iter().rev().map(|dim| phase(CollectiveKind::AllGather, *dim)).collect(),
            kind => dims.iter().map(|dim| phase(kind, *dim)).collect(),
        })
    }

    /// Returns the groups of ranks that differ in this dimension alone.
    fn groups_of(&self, dim: usize) -> Vec<Vec<u32>> {
        let stride: u32 = self.dims[..dim].iter().product();
        let count = self.dims[dim];
        let leaders = (0..self.traces.len() as u32).filter(|rank| (rank / stride).is_multiple_of(count));
        leaders.map(|leader| (0..count).map(|member| leader + member * stride).collect()).collect()
    }

    fn refuse(&self, rank: usize, node: usize, problem: &str, help: &str) -> ImportErrors {
        refuse(&self.traces[rank], node, problem, help)
    }

    fn too_large(&self, rank: usize, node: usize, bytes: u64) -> ImportErrors {
        let problem = format!("there is a message of {}, and RDMA has none above 2 GiB", Bytes::new(bytes));
        self.refuse(rank, node, &problem, "write a larger preferred-dataset-splits, or a smaller comm_size")
    }
}

fn refuse(trace: &ChakraTrace, node: usize, problem: &str, help: &str) -> ImportErrors {
    let TraceNode { id, name, .. } = &trace.nodes[node];
    ImportErrors::one(&trace.file, None, format!("node {id} ({name}): {problem}"), help)
}

/// Returns the node of an operation.
fn owner(owners: &[(u32, usize)], operation: u32) -> Option<usize> {
    let after = owners.partition_point(|(first, _)| *first <= operation);
    owners.get(after.checked_sub(1)?).map(|(_, node)| *node)
}

/// Returns nodes in an order of their dependencies, each with these, by place; of several that may go first, the lowest id does.
fn order(trace: &ChakraTrace) -> Result<Vec<(usize, Vec<usize>)>, ImportErrors> {
    let mut places: HashMap<u64, usize> = HashMap::new();
    for (place, node) in trace.nodes.iter().enumerate() {
        if places.insert(node.id, place).is_some() {
            return Err(refuse(trace, place, "there are two nodes with this id", "write another id"));
        }
    }
    let mut before: Vec<Vec<usize>> = Vec::new();
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); trace.nodes.len()];
    for (place, node) in trace.nodes.iter().enumerate() {
        let find = |id: &u64| {
            let problem = format!("it waits for node {id}, which the trace lacks");
            places.get(id).copied().ok_or_else(|| refuse(trace, place, &problem, "name a complete trace"))
        };
        let dependencies: Vec<usize> = node.dependencies.iter().map(find).collect::<Result<_, _>>()?;
        dependencies.iter().for_each(|earlier| after[*earlier].push(place));
        before.push(dependencies);
    }
    let mut waits: Vec<usize> = before.iter().map(Vec::len).collect();
    let mut ready: BinaryHeap<Reverse<(u64, usize)>> = (0..waits.len())
        .filter(|place| waits[*place] == 0)
        .map(|place| Reverse((trace.nodes[place].id, place)))
        .collect();
    let mut order = Vec::new();
    while let Some(Reverse((_, place))) = ready.pop() {
        order.push((place, std::mem::take(&mut before[place])));
        for later in &after[place] {
            waits[*later] -= 1;
            if waits[*later] == 0 {
                ready.push(Reverse((trace.nodes[*later].id, *later)));
            }
        }
    }
    match waits.iter().position(|waits| *waits > 0) {
        Some(place) => Err(refuse(trace, place, "it waits for itself", "take a dependency out of the cycle")),
        None => Ok(order),
    }
}
