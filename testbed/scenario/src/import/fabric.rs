//! Scenario around a workload of another tool: its fabric, switches and hosts.

use weir_units::{BitRate, Bytes, Span, Time};

use super::document::{Document, array, exact_rate, exact_size, exact_span};
use super::ns3::{Names, Topology};
use super::{ImportErrors, ImportNote, ImportReport};
use crate::workload::{Message, MessageGraph};

/// Fabric of an import whose files have none: the smallest fat-tree that holds the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricOptions {
    /// Tiers of switches: 1, 2 or 3.
    pub tiers: u32,
    /// Rate of all links.
    pub rate: BitRate,
    /// Propagation delay of all links.
    pub delay: Span,
}

impl Default for FabricOptions {
    fn default() -> FabricOptions {
        FabricOptions { tiers: 2, rate: BitRate::gbps(100), delay: Span::from_micros(1) }
    }
}

/// Fabric of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImportedFabric {
    pub shape: FabricShape,
    /// Rate and delay of links between leaves or ToRs and the switches above.
    pub links: [LinkTier; 3],
    /// Switches and links of [`FabricShape::Links`].
    pub topology: Option<Topology>,
}

/// Switches and hosts; hosts are counted per leaf or ToR, ToRs and leaves per pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FabricShape {
    Single {
        hosts: usize,
    },
    LeafSpine {
        leaves: usize,
        spines: usize,
        hosts: usize,
        parallel: usize,
    },
    Clos {
        pods: usize,
        tors: usize,
        leaves: usize,
        spines: usize,
        hosts: usize,
    },
    /// GPUs and rails of servers, and ports of a GPU, each on a switch of its rail; `server_link` joins two GPUs of a server.
    Rails {
        servers: usize,
        gpus: usize,
        rails: usize,
        ports: usize,
        spines: usize,
        parallel: usize,
        server_link: Option<LinkTier>,
    },
    /// Links one by one; number of hosts, and of ports of the largest switch.
    Links {
        hosts: usize,
        ports: usize,
        oversubscription: u64,
    },
}

/// Links of a tier: of hosts, of leaves or ToRs, of spines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkTier {
    pub rate: BitRate,
    pub delay: Span,
}

/// Factor of a scenario's length on the time on an idle fabric, for messages that delay each other.
const CONTENTION: u64 = 4;
/// Headers of a frame on the wire, as a share of its payload of 4,096 B.
const HEADERS_PER_MILLE: u64 = 20;
/// Buffer of a switch, at least, and of each of its ports.
const BUFFER_MIN: Bytes = Bytes::mb(16);
const BUFFER_OF_PORT: Bytes = Bytes::mb(1);
const END_MAX: Span = Span::from_secs(1_000);
/// Number of samples of a scenario, at most.
const SAMPLES_MAX: u64 = 1_000;

impl FabricOptions {
    /// Returns the fabric for a number of hosts.
    ///
    /// # Errors
    /// No such fabric holds them.
    pub(super) fn fabric(&self, hosts: usize) -> Result<ImportedFabric, ImportErrors> {
        // htsim's sizes of switches: k²/2 hosts in two tiers, k³/4 in three.
        let half = |holds: fn(usize) -> usize| (1..=2_048).find(|half| holds(*half) >= hosts);
        let shape = match self.tiers {
            1 if hosts <= 4_096 => Some(FabricShape::Single { hosts: hosts.max(2) }),
            2 => half(|half| 2 * half * half).map(|half| FabricShape::LeafSpine {
                leaves: 2 * half,
                spines: half,
                hosts: half,
                parallel: 1,
            }),
            3 => half(|half| 2 * half * half * half).map(|half| FabricShape::Clos {
                pods: 2 * half,
                tors: half,
                leaves: half,
                spines: half * half,
                hosts: half,
            }),
            _ => None,
        };
        let links = [LinkTier { rate: self.rate, delay: self.delay }; 3];
        shape.map(|shape| ImportedFabric { shape, links, topology: None }).ok_or_else(|| {
            let problem = format!("{} tiers of switches don't hold {hosts} hosts", self.tiers);
            ImportErrors::one("--tiers", None, problem, "write --tiers 2 or 3, or --tiers 1 for up to 4096 hosts")
        })
    }
}

impl ImportedFabric {
    /// Returns the rate of a leaf's or a pod's hosts over that of its links up, rounded up.
    fn oversubscription(&self) -> u64 {
        let rate = |count: usize, tier: usize| count as u64 * self.links[tier].rate.as_bps();
        match self.shape {
            FabricShape::Single { .. } => 1,
            FabricShape::LeafSpine { spines, hosts, parallel, .. } => {
                rate(hosts, 0).div_ceil(rate(spines * parallel, 1))
            }
            FabricShape::Clos { tors, leaves, spines, hosts, .. } => {
                let of_pod = rate(tors * hosts, 0).div_ceil(rate(leaves * (spines / leaves).max(1), 2));
                rate(hosts, 0).div_ceil(rate(leaves, 1)).max(of_pod)
            }
            FabricShape::Rails { spines: 0, .. } => 1,
            FabricShape::Rails { servers, gpus, rails, spines, parallel, .. } => {
                rate(servers * gpus / rails, 0).div_ceil(rate(spines * parallel, 1)).max(1)
            }
            FabricShape::Links { oversubscription, .. } => oversubscription,
        }
    }

    /// Number of hosts.
    pub(super) fn hosts(&self) -> usize {
        match self.shape {
            FabricShape::Single { hosts } => hosts,
            FabricShape::LeafSpine { leaves, hosts, .. } => leaves * hosts,
            FabricShape::Clos { pods, tors, hosts, .. } => pods * tors * hosts,
            FabricShape::Rails { servers, gpus, .. } => servers * gpus,
            FabricShape::Links { hosts, .. } => hosts,
        }
    }

    /// Returns the number of ports of the largest switch.
    fn ports_max(&self) -> u64 {
        let ports = match self.shape {
            FabricShape::Single { hosts } => hosts,
            FabricShape::LeafSpine { leaves, spines, hosts, parallel } => {
                (hosts + spines * parallel).max(leaves * parallel)
            }
            FabricShape::Clos { pods, tors, leaves, spines, hosts } => {
                (hosts + leaves).max(tors + spines / leaves.max(1)).max(pods)
            }
            FabricShape::Rails { servers, gpus, rails, ports, spines, parallel, .. } => {
                (servers * gpus / rails + spines * parallel).max(rails * ports * parallel)
            }
            FabricShape::Links { ports, .. } => ports,
        };
        ports as u64
    }

    /// Returns the time of a message and its acknowledgement over the longest path, if it is idle.
    pub(super) fn idle_time(&self, size: u32) -> Span {
        let tiers = match self.shape {
            FabricShape::Single { .. } => 1,
            FabricShape::LeafSpine { .. } | FabricShape::Rails { .. } => 2,
            FabricShape::Clos { .. } | FabricShape::Links { .. } => 3,
        };
        let used = &self.links[..tiers];
        let delay: Span = used.iter().map(|tier| tier.delay * 4).sum();
        let slowest = used.iter().map(|tier| tier.rate).min().expect("there is a tier");
        let frame = slowest.time_for(Bytes::new(u64::from(size.min(4_096)) + 82));
        delay + slowest.time_for(with_headers(u64::from(size))) + frame * (2 * tiers as u64)
    }

    /// Adds a note on hosts without a rank.
    pub(super) fn report_idle(&self, ranks: usize, report: &mut ImportReport) {
        let hosts = self.hosts();
        if hosts > ranks {
            let text = format!("the fabric has {hosts} hosts, of which the first {ranks} take part");
            report.taken.push(ImportNote::general(text));
        }
    }

    fn write(&self, document: &mut Document) {
        if let Some(topology) = &self.topology {
            return write_links(topology, document);
        }
        document.table("[topology]");
        let mut counts = |kind: &str, counts: &[(&str, usize)]| {
            document.word("kind", kind);
            counts.iter().for_each(|(key, count)| document.bare(key, count));
        };
        match self.shape {
            FabricShape::Single { hosts } => counts("single", &[("hosts", hosts)]),
            FabricShape::LeafSpine { leaves, spines, hosts, parallel } => counts(
                "leaf-spine",
                &[("leaves", leaves), ("spines", spines), ("hosts", hosts), ("parallel", parallel)],
            ),
            FabricShape::Clos { pods, tors, leaves, spines, hosts } => {
                counts(
                    "clos",
                    &[("pods", pods), ("tors", tors), ("leaves", leaves), ("spines", spines), ("hosts", hosts)],
                );
                document.word("uplinks", "planes");
            }
            FabricShape::Rails { servers, gpus, rails, ports, spines, parallel, server_link } => {
                let all = [("servers", servers), ("gpus", gpus), ("rails", rails), ("spines", spines)];
                counts("rails", &all);
                if ports > 1 {
                    document.bare("ports", ports);
                }
                if spines > 0 {
                    document.bare("parallel", parallel);
                }
                if let Some(LinkTier { rate, delay }) = server_link {
                    document.word("nvlink_rate", exact_rate(rate));
                    document.word("nvlink_delay", exact_span(delay));
                }
            }
            FabricShape::Links { .. } => unreachable!("its topology is written"),
        }
        let [hosts, leaves, spines] = self.links;
        let links = if matches!(self.shape, FabricShape::Single { .. }) { hosts } else { leaves };
        let mut tier = |keys: [&str; 2], tier: LinkTier| {
            document.word(keys[0], exact_rate(tier.rate));
            document.word(keys[1], exact_span(tier.delay));
        };
        tier(["rate", "delay"], links);
        if hosts != links {
            tier(["host_rate", "host_delay"], hosts);
        }
        if spines != links && matches!(self.shape, FabricShape::Clos { .. }) {
            tier(["spine_rate", "spine_delay"], spines);
        }
    }
}

/// Writes switches, hosts and links.
fn write_links(topology: &Topology, document: &mut Document) {
    let names = Names::new(topology);
    for switch in &topology.switches {
        document.table("[[switches]]");
        document.word("name", format!("S{switch}"));
    }
    for (number, link) in topology.links.iter().enumerate() {
        match link.ends.into_iter().find(|node| !topology.is_switch(*node)) {
            Some(nic) if topology.host_of_nic(nic) != nic => continue,
            Some(host) => {
                document.table("[[hosts]]");
                document.word("name", topology.host_name(host));
                names.write_ports(host, topology, document);
            }
            None => {
                document.table("[[links]]");
                document.bare("ends", array(names.link_ends(number, link)));
            }
        }
        document.word("rate", exact_rate(link.rate));
        document.word("delay", exact_span(link.delay));
    }
}

/// Returns a time that contains all starts of a graph, unless messages delay each other greatly.
///
/// # Errors
/// It is longer than a scenario; `file` is the file's name.
pub(super) fn end_of_graph(graph: &MessageGraph, fabric: &ImportedFabric, file: &str) -> Result<Span, ImportErrors> {
    let idle = graph.idle_time(|size| fabric.idle_time(size)).unwrap_or(Span::ZERO);
    end(idle.max(busiest(graph.messages(), fabric)), file)
}

/// Returns a time that contains the starts of messages, and that of their transmission.
///
/// # Errors
/// It is longer than a scenario; `file` is the file's name.
pub(super) fn end_of_list(messages: &[Message], fabric: &ImportedFabric, file: &str) -> Result<Span, ImportErrors> {
    let last = messages.iter().map(|message| message.start).max().unwrap_or(Time::ZERO);
    end(last.since(Time::ZERO).max(busiest(messages.iter().copied(), fabric)), file)
}

/// Returns the time in which the busiest host sends or receives its messages, if all go through the fabric.
fn busiest(messages: impl Iterator<Item = Message>, fabric: &ImportedFabric) -> Span {
    let mut bytes = vec![[0u64; 2]; fabric.hosts()];
    for Message { from, to, size, .. } in messages {
        bytes[from as usize][0] += size.get();
        bytes[to as usize][1] += size.get();
    }
    let most = bytes.iter().flatten().max().copied().unwrap_or(0);
    fabric.links[0].rate.time_for(with_headers(most.saturating_mul(fabric.oversubscription())))
}

fn with_headers(payload: u64) -> Bytes {
    Bytes::new(payload.saturating_add(payload / 1_000 * HEADERS_PER_MILLE))
}

/// Returns the scenario's length for a time on an idle fabric: whole milliseconds.
fn end(idle: Span, file: &str) -> Result<Span, ImportErrors> {
    if idle >= END_MAX {
        let problem = format!("it takes {idle} at least, longer than a scenario, {END_MAX}");
        return Err(ImportErrors::one(
            file,
            None,
            problem,
            "write earlier starts, shorter computations or fewer messages",
        ));
    }
    let millisecond = Span::from_millis(1);
    let length = u128::from(idle.as_picos()) * u128::from(CONTENTION);
    let milliseconds = length.div_ceil(u128::from(millisecond.as_picos())).max(1);
    Ok(u64::try_from(milliseconds).map_or(END_MAX, |count| END_MAX.min(millisecond * count.min(1_000_000))))
}

/// Writes a scenario with one workload, and the differences from its source.
pub(super) fn scenario(
    command: &str,
    sources: &[&str],
    fabric: &ImportedFabric,
    end: Span,
    [kind, file]: [&str; 2],
    report: &ImportReport,
) -> String {
    let mut document = Document::default();
    document.comment(&format!("Made by `weir import {command}` from {}.", sources.join(", ")));
    document.notes(report);
    document.table("[scenario]");
    document.word("end", exact_span(end));
    if end > Span::from_micros(50) * SAMPLES_MAX {
        document.word("sample_every", exact_span(end.divided_by(SAMPLES_MAX)));
    }
    if fabric.topology.is_some() {
        document.word("forwarding", "ecmp");
    }
    document.table("[switch]");
    document.bare("mtu", 4_200);
    document.table("[switch.buffer]");
    document.word("size", exact_size(BUFFER_MIN.max(BUFFER_OF_PORT * fabric.ports_max())));
    document.word("policy", "dt");
    document.table("[switch.classes]");
    document.word("preset", "roce");
    document.table("[switch.pfc]");
    document.word("reaction", "0s");
    // The end allows for contention: a quarter of it is the time on an idle fabric.
    document.table("[[windows]]");
    document.word("name", "idle-fabric-time");
    document.word("from", "0ps");
    document.word("to", exact_span(end.divided_by(CONTENTION)));
    fabric.write(&mut document);
    document.table("[nic]");
    document.bare("mtu", 4_096);
    document.table("[[workloads]]");
    document.word("name", kind);
    document.word("kind", kind);
    document.word("file", file);
    document.bare("class", 3);
    document.into_text()
}
