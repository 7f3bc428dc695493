//! `[[workloads]]` of the file. Their messages are drawn when the rates of the links are known.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use weir_nic::host::Connection;
use weir_reader::{Problem, SIZE, Table, nearest};
use weir_units::{Bytes, Class, ClassSet, Span, Time, UnitError};

use super::host_names::HostNames;
use super::keys::{self as limits, MESSAGE_BYTES_MAX, workload as keys};
use super::nic::{Nic, TransportConfig};
use super::reading::{classes, name, refuse_duplicates, refuse_foreign_keys, refuse_with_fix, require, time_range};
use super::topology::Topology;
use crate::data_file;
use crate::workload::{
    Collective, CollectiveConfig, ConnectionMatrix, GoalSchedule, GraphRank, Message, MessageGraph, Rng, ScheduleError,
    SizeCdf, list,
};

pub(super) const MESSAGES_MAX: usize = limits::MESSAGES_MAX as usize;

#[derive(Debug)]
pub(super) struct WorkloadPart {
    /// Index among the workloads of the file.
    pub number: usize,
    pub name: String,
    /// Class of `class`.
    pub class: Class,
    /// Further classes.
    pub more_classes: ClassSet,
    pub transport: TransportConfig,
    pub seed: u64,
    pub dport: Option<u16>,
    pub kind: Arc<WorkloadKind>,
}

/// Traffic pattern of a workload. Hosts are given by index in the topology.
#[derive(Debug, PartialEq)]
pub(super) enum WorkloadKind {
    Poisson {
        senders: Vec<u32>,
        receivers: Vec<u32>,
        sizes: SizeCdf,
        load: f64,
        from: Time,
        until: Time,
    },
    Incast {
        senders: Vec<u32>,
        choice: BurstSenders,
        receivers: Vec<u32>,
        sizes: SizeCdf,
        equal_sizes: bool,
        when: BurstStarts,
    },
    Pairs {
        pairs: Pattern,
        sizes: SizeCdf,
        when: BurstStarts,
    },
    ClosedLoop(LoopPart),
    List(Vec<Message>),
    Graph(Arc<MessageGraph>),
}

/// Closed loop: hosts with a constant number of outstanding messages.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LoopPart {
    pub senders: Vec<u32>,
    pub receivers: Vec<u32>,
    pub sizes: SizeCdf,
    pub outstanding: u32,
    pub times: Option<u32>,
    pub from: Time,
    pub until: Time,
}

/// Selection of a burst's senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BurstSenders {
    All,
    /// A number of senders, drawn for each burst.
    Some(usize),
    /// All senders of one group. Groups have this many hosts each, in the senders' order.
    Group(usize),
}

/// Pairs of hosts.
#[derive(Debug, PartialEq)]
pub(super) enum Pattern {
    /// Listed pairs.
    Each(Vec<(u32, u32)>),
    /// All ordered pairs of these hosts.
    AllToAll(Vec<u32>),
    /// A permutation: each of these hosts with another one.
    Permutation(Vec<u32>),
}

/// Starts of bursts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum BurstStarts {
    Once(Time),
    Every {
        from: Time,
        every: Span,
        until: Time,
    },
    /// Random instants that make this load.
    AtLoad {
        from: Time,
        load: f64,
        until: Time,
    },
}

impl WorkloadKind {
    /// Returns the sending hosts, each once.
    pub(super) fn senders(&self) -> BTreeSet<u32> {
        match self {
            WorkloadKind::Poisson { senders, .. }
            | WorkloadKind::Incast { senders, .. }
            | WorkloadKind::ClosedLoop(LoopPart { senders, .. }) => senders.iter().copied().collect(),
            WorkloadKind::Pairs { pairs: Pattern::Each(pairs), .. } => pairs.iter().map(|(from, _)| *from).collect(),
            WorkloadKind::Pairs { pairs: Pattern::AllToAll(hosts) | Pattern::Permutation(hosts), .. } => {
                hosts.iter().copied().collect()
            }
            WorkloadKind::List(messages) => messages.iter().map(|message| message.from).collect(),
            WorkloadKind::Graph(graph) => graph.ranks().iter().map(|rank| rank.host).collect(),
        }
    }

    /// Returns the hosts that receive messages.
    pub(super) fn receivers(&self) -> BTreeSet<u32> {
        match self {
            WorkloadKind::Poisson { receivers, .. }
            | WorkloadKind::Incast { receivers, .. }
            | WorkloadKind::ClosedLoop(LoopPart { receivers, .. }) => receivers.iter().copied().collect(),
            WorkloadKind::Pairs { pairs: Pattern::Each(pairs), .. } => pairs.iter().map(|(_, to)| *to).collect(),
            WorkloadKind::Pairs { pairs: Pattern::AllToAll(hosts) | Pattern::Permutation(hosts), .. } => {
                hosts.iter().copied().collect()
            }
            WorkloadKind::List(messages) => messages.iter().map(|message| message.to).collect(),
            WorkloadKind::Graph(graph) => graph.ranks().iter().map(|rank| rank.host).collect(),
        }
    }

    /// Calls `visit` with each sender and receiver that the workload may pair, some more than once.
    pub(super) fn for_each_pair(&self, mut visit: impl FnMut(u32, u32)) {
        let mut across = |senders: &[u32], receivers: &[u32]| {
            let pairs = senders.iter().flat_map(|from| receivers.iter().map(move |to| (*from, *to)));
            pairs.filter(|(from, to)| from != to).for_each(|(from, to)| visit(from, to));
        };
        match self {
            WorkloadKind::Poisson { senders, receivers, .. }
            | WorkloadKind::Incast { senders, receivers, .. }
            | WorkloadKind::ClosedLoop(LoopPart { senders, receivers, .. }) => across(senders, receivers),
            WorkloadKind::Pairs { pairs: Pattern::AllToAll(hosts) | Pattern::Permutation(hosts), .. } => {
                across(hosts, hosts);
            }
            WorkloadKind::Pairs { pairs: Pattern::Each(pairs), .. } => {
                pairs.iter().for_each(|(from, to)| visit(*from, *to));
            }
            WorkloadKind::List(messages) => messages.iter().for_each(|message| visit(message.from, message.to)),
            WorkloadKind::Graph(graph) => graph.ranks().iter().for_each(|rank| {
                rank.connections.iter().for_each(|to| visit(rank.host, graph.ranks()[*to as usize].host));
            }),
        }
    }

    /// Returns a sender and a receiver that the workload may pair, of which `reaches` is false. Hosts of one `kind` reach the same hosts.
    pub(super) fn apart<K: Ord>(
        &self,
        reaches: impl Fn(u32, u32) -> bool,
        kind: impl Fn(u32) -> K,
    ) -> Option<(u32, u32)> {
        let of_each_kind = |hosts: &[u32]| -> Vec<u32> {
            let mut kinds = BTreeSet::new();
            hosts.iter().copied().filter(|host| kinds.insert(kind(*host))).collect()
        };
        let across = |senders: &[u32], receivers: &[u32]| {
            let (senders, receivers) = (of_each_kind(senders), of_each_kind(receivers));
            let mut pairs = senders.iter().flat_map(|from| receivers.iter().map(move |to| (*from, *to)));
            pairs.find(|(from, to)| !reaches(*from, *to))
        };
        match self {
            WorkloadKind::Poisson { senders, receivers, .. }
            | WorkloadKind::Incast { senders, receivers, .. }
            | WorkloadKind::ClosedLoop(LoopPart { senders, receivers, .. }) => across(senders, receivers),
            WorkloadKind::Pairs { pairs: Pattern::Each(pairs), .. } => {
                pairs.iter().copied().find(|(from, to)| !reaches(*from, *to))
            }
            WorkloadKind::Pairs { pairs: Pattern::AllToAll(hosts) | Pattern::Permutation(hosts), .. } => {
                across(hosts, hosts)
            }
            WorkloadKind::List(messages) => {
                messages.iter().map(|message| (message.from, message.to)).find(|(from, to)| !reaches(*from, *to))
            }
            WorkloadKind::Graph(graph) => {
                let host = |rank: &u32| graph.ranks()[*rank as usize].host;
                let of_rank = |rank: &'_ GraphRank| -> Vec<(u32, u32)> {
                    rank.connections.iter().map(|to| (rank.host, host(to))).collect()
                };
                graph.ranks().iter().flat_map(of_rank).find(|(from, to)| !reaches(*from, *to))
            }
        }
    }
}

#[derive(Clone, Copy)]
enum WorkloadKeyword {
    Poisson,
    Incast,
    OneToOne,
    AllToAll,
    Permutation,
    ClosedLoop,
    List,
    Collective,
    Goal,
    ConnectionMatrix,
}

const OF_ALL: &[&str] = &["name", "kind", "class", "congestion_control", "transport", "seed", "dport"];

/// Keys of workloads whose file has ranks.
const GRAPH_FILE: &[&str] = &["file", "senders", "from", "until"];

/// Kinds of workloads, and the keys of each besides the common ones.
const KINDS: [(&str, WorkloadKeyword, &[&str]); 10] = [
    ("poisson", WorkloadKeyword::Poisson, &["more_classes", "sizes", "load", "senders", "receivers", "from", "until"]),
    (
        "incast",
        WorkloadKeyword::Incast,
        &[
            "more_classes",
            "sizes",
            "equal_sizes",
            "load",
            "senders",
            "receivers",
            "fan_in",
            "groups_of",
            "every",
            "times",
            "from",
            "until",
        ],
    ),
    (
        "one-to-one",
        WorkloadKeyword::OneToOne,
        &["more_classes", "sizes", "senders", "receivers", "every", "times", "from", "until"],
    ),
    ("all-to-all", WorkloadKeyword::AllToAll, &["more_classes", "sizes", "senders", "every", "times", "from", "until"]),
    (
        "permutation",
        WorkloadKeyword::Permutation,
        &["more_classes", "sizes", "senders", "every", "times", "from", "until"],
    ),
    (
        "closed-loop",
        WorkloadKeyword::ClosedLoop,
        &["more_classes", "sizes", "senders", "receivers", "outstanding", "times", "from", "until"],
    ),
    ("list", WorkloadKeyword::List, &["more_classes", "file"]),
    (
        "collective",
        WorkloadKeyword::Collective,
        &["collective", "bytes", "chunks", "compute", "senders", "times", "from", "until"],
    ),
    ("goal", WorkloadKeyword::Goal, GRAPH_FILE),
    ("connection-matrix", WorkloadKeyword::ConnectionMatrix, GRAPH_FILE),
];

/// Reads the workloads, and leaves out those with errors. Files are in `folder`; `seed` is the scenario's.
pub(super) fn read(
    root: &Table<'_>,
    topology: &Topology,
    nic: &Nic,
    folder: &Path,
    end: Time,
    seed: u64,
) -> Vec<WorkloadPart> {
    let tables = root.tables("workloads", "workloads");
    let hosts = HostNames::new(root, topology);
    let mut workloads = Vec::new();
    let mut names = Vec::new();
    for (number, table) in tables.iter().enumerate() {
        let name = match table.has("name") {
            true => name(table, "a workload", "background"),
            false => Some(format!("W{}", number + 1)),
        };
        names.push(name.clone());
        let reader = WorkloadReader { table, hosts: &hosts, folder, end };
        let kind = reader.kind();
        require(table, "class", "a workload", "class = 3");
        let class = table.given(&keys::CLASS);
        let transport = TransportConfig::of_workload(table, nic);
        if matches!(kind, Some(WorkloadKind::Graph(_))) && transport.tcp_payload().is_some() {
            let message = "messages that start on receipts are RDMA's";
            table.refuse("transport", message, "write transport = \"rdma\"");
        }
        let own_seed = table.given(&keys::SEED);
        let seed = own_seed.unwrap_or_else(|| Rng::stream(seed, number as u64).next_u64());
        let dport = table.given(&keys::DPORT);
        if let (Some(name), Some(class), Some(kind)) = (name, class, kind) {
            let (class, kind) = (Class::new(class), Arc::new(kind));
            let more_classes = classes(table, "more_classes") - class.alone();
            workloads.push(WorkloadPart { number, name, class, more_classes, transport, seed, dport, kind });
        }
    }
    refuse_duplicates(&tables, "workloads", names.iter().map(Option::as_deref));
    refuse_connections(&tables, &workloads, Connection::OPEN_MAX);
    workloads
}

/// Refuses the graph with which a host has more than `most` sending or receiving connections.
fn refuse_connections(tables: &[Table<'_>], workloads: &[WorkloadPart], most: usize) {
    let mut counts: HashMap<u32, [usize; 2]> = HashMap::new();
    for workload in workloads {
        let WorkloadKind::Graph(graph) = &*workload.kind else { continue };
        for rank in graph.ranks() {
            counts.entry(rank.host).or_default()[0] += rank.connections.len();
            for to in &rank.connections {
                counts.entry(graph.ranks()[*to as usize].host).or_default()[1] += 1;
            }
        }
        let count = counts.values().flatten().max().copied().unwrap_or(0);
        if count > most {
            let message = format!("a host has {count} connections in one direction, more than the {most} of a NIC");
            tables[workload.number].refuse("kind", message, "write ranks with fewer peers, or fewer workloads");
            return;
        }
    }
}

/// Reader of one workload.
struct WorkloadReader<'r, 'd> {
    table: &'r Table<'d>,
    hosts: &'r HostNames<'r>,
    folder: &'r Path,
    end: Time,
}

impl WorkloadReader<'_, '_> {
    fn kind(&self) -> Option<WorkloadKind> {
        let table = self.table;
        require(table, "kind", "a workload", "kind = \"poisson\"");
        let kinds = KINDS.map(|(name, word, keys)| (name, (name, word, keys)));
        let (name, word, keys) = table.choice("kind", &kinds)?;
        refuse_foreign_keys(table, &format!("a workload of kind \"{name}\""), keys::KEYS, &[OF_ALL, keys].concat());
        match word {
            WorkloadKeyword::Poisson => self.poisson(),
            WorkloadKeyword::Incast => self.incast(),
            WorkloadKeyword::ClosedLoop => self.closed_loop(),
            WorkloadKeyword::List => self.list(),
            WorkloadKeyword::Collective => self.collective(),
            WorkloadKeyword::Goal => self.goal(),
            WorkloadKeyword::ConnectionMatrix => self.connection_matrix(),
            WorkloadKeyword::OneToOne => self.pairs(self.one_to_one()),
            WorkloadKeyword::AllToAll => self.pairs(self.several("senders").map(Pattern::AllToAll)),
            WorkloadKeyword::Permutation => self.pairs(self.several("senders").map(Pattern::Permutation)),
        }
    }

    fn poisson(&self) -> Option<WorkloadKind> {
        require(self.table, "load", "a workload of kind \"poisson\"", "load = 0.5");
        let (sizes, load) = (self.sizes(), self.load());
        let (senders, receivers) = (self.hosts("senders"), self.hosts("receivers"));
        let stretch = time_range(self.table, ["from", "until"], Time::ZERO..self.end, self.end);
        let (senders, receivers, (from, until)) = (senders?, receivers?, stretch?);
        self.check_others(&senders, &receivers)?;
        Some(WorkloadKind::Poisson { senders, receivers, sizes: sizes?, load: load?, from, until })
    }

    fn closed_loop(&self) -> Option<WorkloadKind> {
        let table = self.table;
        let sizes = self.sizes();
        let (senders, receivers) = (self.hosts("senders"), self.hosts("receivers"));
        let outstanding = table.get(&keys::OUTSTANDING);
        let times = table.given(&keys::TIMES);
        let stretch = time_range(table, ["from", "until"], Time::ZERO..self.end, self.end);
        let (senders, receivers, (from, until)) = (senders?, receivers?, stretch?);
        self.check_others(&senders, &receivers)?;
        Some(WorkloadKind::ClosedLoop(LoopPart { senders, receivers, sizes: sizes?, outstanding, times, from, until }))
    }

    fn incast(&self) -> Option<WorkloadKind> {
        let (sizes, when) = (self.sizes(), self.when());
        let (senders, receivers) = (self.hosts("senders"), self.hosts("receivers"));
        let (senders, receivers) = (senders?, receivers?);
        self.check_others(&receivers, &senders)?;
        let choice = if self.table.has("groups_of") {
            self.groups(&senders, &receivers)
        } else {
            self.fan_in(&senders, &receivers)
        };
        let equal_sizes = self.table.get(&keys::EQUAL_SIZES);
        Some(WorkloadKind::Incast { senders, choice: choice?, receivers, sizes: sizes?, equal_sizes, when: when? })
    }

    fn fan_in(&self, senders: &[u32], receivers: &[u32]) -> Option<BurstSenders> {
        if !self.table.has("fan_in") {
            return Some(BurstSenders::All);
        }
        let fan_in = self.table.given(&keys::FAN_IN)? as usize;
        let others = |receiver: &u32| senders.len() - usize::from(senders.contains(receiver));
        let fewest = receivers.iter().map(others).min().unwrap_or(0);
        if fan_in > fewest {
            let message = format!("a receiver has {fewest} senders besides itself, not {fan_in}");
            self.table.refuse("fan_in", message, format!("write {fewest} at most, or more `senders`"));
            return None;
        }
        Some(BurstSenders::Some(fan_in))
    }

    /// Divides the senders into groups of equal size, and checks that no receiver is in the only one.
    fn groups(&self, senders: &[u32], receivers: &[u32]) -> Option<BurstSenders> {
        let table = self.table;
        if table.has("fan_in") {
            let problem =
                Problem::new("`fan_in` and `groups_of` both set the senders of a burst", "take one of them out");
            table.doc().refuse(
                problem.with_label(table.key_path("fan_in"), "").with_label(table.key_path("groups_of"), "the groups"),
            );
            return None;
        }
        let size = table.given(&keys::GROUPS_OF)? as usize;
        if !senders.len().is_multiple_of(size) {
            let message = format!("{} senders are no groups of {size}", senders.len());
            table.refuse("groups_of", message, "write a number that divides that of `senders`");
            return None;
        }
        if size == senders.len() && receivers.iter().any(|receiver| senders.contains(receiver)) {
            let help = "write a smaller number, or `receivers` that do not send";
            table.refuse("groups_of", "a receiver is in the only group, and has no senders", help);
            return None;
        }
        Some(BurstSenders::Group(size))
    }

    fn pairs(&self, pairs: Option<Pattern>) -> Option<WorkloadKind> {
        let (sizes, when) = (self.sizes(), self.when());
        Some(WorkloadKind::Pairs { pairs: pairs?, sizes: sizes?, when: when? })
    }

    /// Reads the halves of a list, or two lists.
    fn one_to_one(&self) -> Option<Pattern> {
        let senders = self.hosts("senders")?;
        if !self.table.has("receivers") {
            if senders.len() % 2 == 1 {
                let message = format!("{} hosts can't be halved", senders.len());
                let help = "write an even number of `senders`, or `receivers` too";
                self.table.refuse("senders", message, help);
                return None;
            }
            let (first, second) = senders.split_at(senders.len() / 2);
            return Some(Pattern::Each(first.iter().copied().zip(second.iter().copied()).collect()));
        }
        let receivers = self.hosts("receivers")?;
        if senders.len() != receivers.len() {
            let message = format!("there are {} receivers, but {} senders", receivers.len(), senders.len());
            self.table.refuse("receivers", message, "write as many of both: each sender has its own receiver");
            return None;
        }
        let pairs: Vec<(u32, u32)> = senders.into_iter().zip(receivers).collect();
        if let Some(place) = pairs.iter().position(|(from, to)| from == to) {
            self.table.refuse(&format!("receivers[{place}]"), "a host is to send to itself", "write another host");
            return None;
        }
        Some(Pattern::Each(pairs))
    }

    fn list(&self) -> Option<WorkloadKind> {
        require(self.table, "file", "a workload of kind \"list\"", "file = \"flows.csv\"");
        let file = self.table.string("file", "flows.csv")?;
        let text = self.text_of(self.table, "file", file)?;
        if !self.hosts.are_known {
            return None;
        }
        let host = |name: &str| {
            let by_number = || name.parse().ok().filter(|number| (*number as usize) < self.hosts.by_name.len());
            self.hosts.by_name.get(name).copied().or_else(by_number)
        };
        let messages = match list::read(&text, host) {
            Ok(messages) => messages,
            Err(error) => {
                refuse_with_fix(self.table, "file", &format!("{file}, {error}"));
                return None;
            }
        };
        self.refuse_late(file, &messages);
        if let Some(message) = messages.iter().find(|message| message.size > MESSAGE_BYTES_MAX) {
            self.refuse_size("file", message.size);
        }
        Some(WorkloadKind::List(messages))
    }

    fn collective(&self) -> Option<WorkloadKind> {
        let table = self.table;
        for (key, example) in [("collective", "collective = \"ring-all-reduce\""), ("bytes", "bytes = \"32MiB\"")] {
            require(table, key, "a workload of kind \"collective\"", example);
        }
        let collective = table.choice("collective", &Collective::NAMES);
        let (bytes, chunks) = (table.given(&keys::BYTES), table.get(&keys::CHUNKS));
        let (repetitions, compute) = (table.given(&keys::TIMES).unwrap_or(1), table.get(&keys::COMPUTE));
        let hosts = self.several("senders");
        let stretch = time_range(table, ["from", "until"], Time::ZERO..self.end, self.end);
        let (collective, bytes, hosts, (from, until)) = (collective?, bytes?, hosts?, stretch?);
        let ranks = hosts.len();
        if collective.needs_power_of_two() && !ranks.is_power_of_two() {
            let message = format!("halving-doubling takes 2, 4, 8, ... ranks, and here are {ranks}");
            table.refuse("collective", message, "write a power of two of `senders`, or another collective");
            return None;
        }
        let largest = collective.message_max(ranks, bytes, chunks);
        if largest > MESSAGE_BYTES_MAX {
            self.refuse_size("bytes", largest);
            return None;
        }
        let count = collective.messages(ranks).saturating_mul(u64::from(chunks) * u64::from(repetitions));
        if count > MESSAGES_MAX as u64 {
            let message = format!("the collective has {count} messages, and a file no more than {MESSAGES_MAX}");
            table.refuse("collective", message, "write fewer `times`, `chunks` or `senders`");
            return None;
        }
        if compute >= until.since(from) {
            let message = format!("`compute` {compute} lasts as long as the workload, {}", until.since(from));
            table.refuse("compute", message, "write a shorter time, or no message starts");
            return None;
        }
        let config = CollectiveConfig { collective, hosts, bytes, chunks, repetitions, compute, from, until };
        Some(WorkloadKind::Graph(Arc::new(config.graph())))
    }

    fn goal(&self) -> Option<WorkloadKind> {
        let table = self.table;
        require(table, "file", "a workload of kind \"goal\"", "file = \"schedule.goal\"");
        let stretch = time_range(table, ["from", "until"], Time::ZERO..self.end, self.end);
        let hosts = self.hosts("senders");
        let file = table.string("file", "schedule.goal")?;
        let schedule = match data_file::read(&self.folder.join(file)) {
            Ok(bytes) => GoalSchedule::read(&bytes),
            Err(error) => {
                self.refuse_unreadable(table, "file", file, &error);
                return None;
            }
        };
        let refuse = |error: ScheduleError| refuse_with_fix(table, "file", &format!("{file}, {error}"));
        let schedule = schedule.map_err(refuse).ok()?;
        let (hosts, (from, until)) = (self.hosts_of_ranks(file, hosts?, schedule.ranks())?, stretch?);
        Some(WorkloadKind::Graph(Arc::new(schedule.graph(&hosts, from, until).map_err(refuse).ok()?)))
    }

    fn connection_matrix(&self) -> Option<WorkloadKind> {
        let table = self.table;
        require(table, "file", "a workload of kind \"connection-matrix\"", "file = \"matrix.cm\"");
        let stretch = time_range(table, ["from", "until"], Time::ZERO..self.end, self.end);
        let hosts = self.hosts("senders");
        let file = table.string("file", "matrix.cm")?;
        let text = self.text_of(table, "file", file)?;
        let refuse = |error: ScheduleError| refuse_with_fix(table, "file", &format!("{file}, {error}"));
        let matrix = ConnectionMatrix::read(&text).map_err(refuse).ok()?;
        let (hosts, (from, until)) = (self.hosts_of_ranks(file, hosts?, matrix.nodes())?, stretch?);
        let mut messages = matrix.messages(&hosts, from);
        if !table.has("until") {
            self.refuse_late(file, &messages);
        }
        if matrix.is_list() {
            messages.retain(|message| message.start < until);
            return Some(WorkloadKind::List(messages));
        }
        Some(WorkloadKind::Graph(Arc::new(matrix.graph(&hosts, from, until).map_err(refuse).ok()?)))
    }

    /// Refuses messages of a file that start after the scenario.
    fn refuse_late(&self, file: &str, messages: &[Message]) {
        let since = |time: Time| time.since(Time::ZERO);
        if let Some(message) = messages.iter().find(|message| message.start >= self.end) {
            let text = format!("{file} has a message that starts at {}", since(message.start));
            let help = format!("write a later `end` than {} in [scenario]", since(message.start));
            self.table.refuse("file", format!("{text}, but the scenario ends at {}", since(self.end)), help);
        }
    }

    /// Returns the hosts of a file's ranks: `senders`, by default the first ones.
    fn hosts_of_ranks(&self, file: &str, mut hosts: Vec<u32>, ranks: usize) -> Option<Vec<u32>> {
        if !self.table.has("senders") && hosts.len() > ranks {
            hosts.truncate(ranks);
        }
        if hosts.len() != ranks {
            let message = format!("{file} has {ranks} ranks, and there are {} hosts for them", hosts.len());
            self.table.refuse("file", message, "write a larger topology, or a host in `senders` for each rank");
            return None;
        }
        Some(hosts)
    }

    fn when(&self) -> Option<BurstStarts> {
        let table = self.table;
        let stretch = time_range(table, ["from", "until"], Time::ZERO..self.end, self.end);
        let every = table.given(&keys::EVERY);
        let load = if table.has("load") { self.load() } else { None };
        if table.has("times") && !table.has("every") {
            let help = "write every = \"1ms\" too, or take `times` out";
            table.refuse("times", "the period of messages is missing", help);
        }
        match (table.has("every"), table.has("load")) {
            (true, true) => {
                let problem =
                    Problem::new("`every` and `load` both set the instants of bursts", "take one of them out");
                table.doc().refuse(
                    problem.with_label(table.key_path("every"), "").with_label(table.key_path("load"), "the load"),
                );
                None
            }
            (true, false) => {
                let ((from, until), every) = stretch.zip(every)?;
                let until = self.after_times(from, every, until)?;
                Some(BurstStarts::Every { from, every, until })
            }
            (false, true) => stretch.zip(load).map(|((from, until), load)| BurstStarts::AtLoad { from, load, until }),
            (false, false) => {
                if table.has("until") {
                    let help = "write every = \"1ms\" too, or take `until` out";
                    table.refuse("until", "messages that are sent once have no end", help);
                }
                stretch.map(|(from, _)| BurstStarts::Once(from))
            }
        }
    }

    /// Returns the end of `times` periods of `every`; without `times`, `until`.
    fn after_times(&self, from: Time, every: Span, until: Time) -> Option<Time> {
        let table = self.table;
        if !table.has("times") {
            return Some(until);
        }
        if table.has("until") {
            let problem = Problem::new("`times` and `until` both set the end", "take one of them out");
            table
                .doc()
                .refuse(problem.with_label(table.key_path("times"), "").with_label(table.key_path("until"), "the end"));
            return None;
        }
        let times = u64::from(table.given(&keys::TIMES)?);
        let last = from.saturating_add(Span::from_picos(every.as_picos().saturating_mul(times - 1)));
        if last >= self.end {
            let ends = self.end.since(Time::ZERO);
            let message = format!(
                "the last of {times} would begin at {}, but the scenario ends at {ends}",
                last.since(Time::ZERO)
            );
            table.refuse("times", message, "write fewer, a shorter `every`, or a later `end` in [scenario]");
            return None;
        }
        Some(last.saturating_add(every).min(self.end))
    }

    fn load(&self) -> Option<f64> {
        self.table.number::<Share>("load", "load = 0.5").map(|share| share.0)
    }

    /// Reads a distribution by its name or file, or a single size.
    fn sizes(&self) -> Option<SizeCdf> {
        let table = self.table;
        let (file_table, is_file) = table.table_or_word("sizes", "workloads.sizes");
        if is_file {
            require(&file_table, "file", "a distribution of sizes", "sizes = { file = \"sizes.txt\" }");
            let file = file_table.string("file", "sizes.txt")?;
            let text = self.text_of(&file_table, "file", file)?;
            let sizes = SizeCdf::parse(&text);
            if let Err(error) = &sizes {
                refuse_with_fix(&file_table, "file", &format!("{file}, {error}"));
            }
            return sizes.ok().filter(|sizes| self.check_largest(sizes));
        }
        require(table, "sizes", "a workload", "sizes = \"web-search\" or sizes = \"64KB\"");
        let word = table.string("sizes", "web-search")?;
        if let Some(sizes) = SizeCdf::built_in(word) {
            return Some(sizes).filter(|sizes| self.check_largest(sizes));
        }
        if word.starts_with(|first: char| first.is_ascii_digit()) {
            let size = table.quantity("sizes", &SIZE, Bytes::new(1)..=MESSAGE_BYTES_MAX)?;
            return SizeCdf::fixed(size).ok();
        }
        let names: Vec<&str> = SizeCdf::names().collect();
        let help = match nearest(word, &names) {
            Some(near) => format!("write sizes = \"{near}\""),
            None => {
                format!("write a size such as \"64KB\", {{ file = \"sizes.txt\" }}, or one of: {}", names.join(", "))
            }
        };
        table.refuse("sizes", format!("\"{word}\" is neither a size nor a distribution of sizes"), help);
        None
    }

    fn check_largest(&self, sizes: &SizeCdf) -> bool {
        let largest = sizes.largest();
        if largest > MESSAGE_BYTES_MAX {
            self.refuse_size("sizes", largest);
        }
        largest <= MESSAGE_BYTES_MAX
    }

    fn refuse_size(&self, key: &str, size: Bytes) {
        let message = format!("there are messages of {size}, and RDMA has none above {MESSAGE_BYTES_MAX}");
        self.table.refuse(key, message, "write smaller sizes");
    }

    fn text_of(&self, table: &Table<'_>, key: &str, file: &str) -> Option<String> {
        let text = data_file::read_text(&self.folder.join(file));
        if let Err(error) = &text {
            self.refuse_unreadable(table, key, file, error);
        }
        text.ok()
    }

    fn refuse_unreadable(&self, table: &Table<'_>, key: &str, file: &str, error: &io::Error) {
        let help = "name a file, as seen from the scenario's folder";
        table.refuse(key, format!("\"{file}\" can't be read: {error}"), help);
    }

    /// Reads the hosts of a key; all hosts by default.
    fn hosts(&self, key: &str) -> Option<Vec<u32>> {
        self.hosts.listed(self.table, key)
    }

    /// Reads the hosts of a key, at least two.
    fn several(&self, key: &str) -> Option<Vec<u32>> {
        let hosts = self.hosts(key)?;
        if hosts.len() < 2 {
            self.table.refuse(key, "one host has nobody to send to", "name two at least, or take it out for all hosts");
            return None;
        }
        Some(hosts)
    }

    /// Checks that each of `hosts` has another host among `others`.
    fn check_others(&self, hosts: &[u32], others: &[u32]) -> Option<()> {
        let [only] = others else { return Some(()) };
        if hosts.contains(only) {
            let key = if self.table.has("receivers") { "receivers" } else { "senders" };
            self.table.refuse(key, "a host has only itself to send to", "write another host");
            return None;
        }
        Some(())
    }
}

/// Share of a link's rate.
struct Share(f64);

impl FromStr for Share {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Share, UnitError> {
        let share = text.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0);
        share.map(Share).ok_or_else(|| UnitError::new(text, "a share of the links' rate, above 0 and up to 1", "0.5"))
    }
}
