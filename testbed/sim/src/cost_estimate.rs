//! Estimate of a run's memory and work.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use weir_config::{PortConfig, SwitchConfig};
use weir_nic::host::{Connection, FrameSizes, NicFrame, Transport};
use weir_scenario::workload::{ClosedLoop, GraphRank, Message, MessageGraph};
use weir_scenario::{FlowPlan, HostPlan, Scenario, TrafficPlan, TrafficSource};
use weir_switch_core::report::{PortReport, Report};
use weir_switch_core::single::Pipeline;
use weir_units::{Bytes, Span};

use super::frame::Frame;
use super::node::{SimHost, SimSwitch};
use super::wire::Wire;

/// Estimated memory and work of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostEstimate {
    /// Peak resident memory of the process. A switch of more than 64 ports takes more.
    pub memory: Bytes,
    /// Packet-hops, if endless flows send at their rate and nothing is retransmitted.
    pub packet_hops: u64,
}

/// Memory of a port with its wire, configuration and report, in bytes. The last summand is for names, flow control, and the
/// records of a run.
const PORT_BYTES: u64 =
    (Pipeline::<Frame>::PORT_BYTES + size_of::<Wire>() + size_of::<PortConfig>() + size_of::<PortReport>()) as u64
        + 1_500;
/// Memory of a host without its port, and of a switch without its ports, in bytes.
const HOST_BYTES: u64 = (size_of::<SimHost>() + size_of::<Wire>() + size_of::<HostPlan>()) as u64 + 1_500;
const SWITCH_BYTES: u64 = (size_of::<SimSwitch>() + size_of::<SwitchConfig>() + size_of::<Report>()) as u64 + 5_000;
/// Memory of a port under a workload, in bytes: connections, reports of two classes, and frames in flight and in
/// queues unless messages have fewer.
const BUSY_PORT_BYTES: u64 = 3_700;
const BUSY_PORT_FRAME_BYTES: u64 = 6_300;
/// Memory of a queued frame with its queue entry, in bytes.
const QUEUED_FRAME_BYTES: u64 = (size_of::<NicFrame>() + Pipeline::<Frame>::QUEUED_PACKET_BYTES) as u64 + 26;
/// Memory of a message's start and measurements, in bytes.
const MESSAGE_BYTES: u64 = 60;
/// Memory of an operation of a graph with its state, channel and records, in bytes.
const OPERATION_BYTES: u64 = 150;
/// Memory of a host in the routes of a switch, in bytes, and of a switch with hosts in the scenario's routes.
const ROUTE_BYTES: u64 = 2;
const SWITCH_ROUTE_BYTES: u64 = 6;
/// Links on a path, if routes are unknown.
const LINKS_ASSUMED: u64 = 3;
/// Packet-hops per second on an idle core, and on one shared with other programs.
const PER_SECOND: [u64; 2] = [10_000_000, 3_000_000];
/// Bytes of fabric per second of set-up and final reports, on such cores.
const SET_UP_PER_SECOND: [u64; 2] = [500_000_000, 100_000_000];

impl CostEstimate {
    /// Memory of a process without a fabric.
    pub const PROCESS: Bytes = Bytes::mb(33);

    /// Estimates a run of this scenario.
    pub fn for_scenario(scenario: &Scenario) -> CostEstimate {
        let (switches, hosts) = (scenario.switches.len() as u64, scenario.hosts.len() as u64);
        let ports: u64 = scenario.switches.iter().map(|switch| switch.ports.len() as u64).sum();
        let messages: u64 = scenario.traffic.iter().map(|plan| plan.messages().len() as u64).sum();
        let graph_memory = scenario.traffic.iter().filter_map(TrafficPlan::graph).map(graph_bytes);
        let sets = scenario.routes.as_ref().map_or(0, |_| scenario.reroutings().sets.len() as u64);
        let switches_with_hosts = scenario.hosts.iter().map(|host| host.switch).collect::<BTreeSet<_>>().len() as u64;
        let busy_ports = busy_ports_max(scenario).min(ports);
        let memory = Self::PROCESS.get()
            + ports * PORT_BYTES
            + hosts * HOST_BYTES
            + switches * SWITCH_BYTES
            + busy_ports * BUSY_PORT_BYTES
            + frames_max(scenario).saturating_mul(QUEUED_FRAME_BYTES).min(busy_ports * BUSY_PORT_FRAME_BYTES)
            + queued_frames_max(scenario) * QUEUED_FRAME_BYTES
            + messages * MESSAGE_BYTES
            + graph_memory.sum::<u64>()
            + sets * switches * (hosts * ROUTE_BYTES + switches_with_hosts * SWITCH_ROUTE_BYTES);
        let of_flows = scenario.flows.iter().map(|flow| hops_of_flow(scenario, flow));
        let of_traffic = scenario.traffic.iter().map(|plan| hops_of_traffic(scenario, plan));
        CostEstimate { memory: Bytes::new(memory), packet_hops: of_flows.chain(of_traffic).sum() }
    }

    /// Returns the time for set-up and packet-hops on one core: on an idle one, and on one shared with other programs.
    pub fn core_time(&self) -> [Span; 2] {
        let time = |count: u64, per_second: u64| Span::from_micros(count.saturating_mul(1_000_000) / per_second);
        let fabric = (self.memory - Self::PROCESS).get();
        [0, 1].map(|core| time(fabric, SET_UP_PER_SECOND[core]) + time(self.packet_hops, PER_SECOND[core]))
    }
}

/// Formats memory in GB, or in MB below 1 GB.
pub fn format_memory(memory: Bytes) -> String {
    match memory.get() {
        bytes @ ..1_000_000_000 => format!("{:.0} MB", bytes as f64 / 1e6),
        bytes => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// Returns the memory available to this process: the machine's free memory, or the rest of its control group's limit if
/// lower; `None` if the system does not report it.
pub fn free_memory() -> Option<Bytes> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let of_machine = available(&meminfo)?;
    let of_group = fs::read_to_string("/proc/self/cgroup").ok().and_then(|groups| {
        let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let folder = Path::new("/sys/fs/cgroup").join(path);
        let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
        Some(Bytes::new(number("memory.max")?.saturating_sub(number("memory.current")?)))
    });
    Some(of_group.map_or(of_machine, |of_group| of_group.min(of_machine)))
}

fn available(meminfo: &str) -> Option<Bytes> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(Bytes::new(kib * 1_024))
}

/// Returns the number of ports that messages take, if no two take the same one.
fn busy_ports_max(scenario: &Scenario) -> u64 {
    let of_plan = |plan: &TrafficPlan| match &plan.source {
        TrafficSource::ClosedLoop(_) => u64::MAX,
        TrafficSource::Graph(graph) => {
            let of_rank = |rank: &GraphRank| -> u64 {
                let host = |to: &u32| graph.ranks()[*to as usize].host as usize;
                rank.connections.iter().map(|to| links(scenario, [rank.host as usize, host(to)])).sum()
            };
            graph.ranks().iter().map(of_rank).sum()
        }
        TrafficSource::List(_) => plan.messages().iter().map(|message| links_of(scenario, message)).sum(),
    };
    scenario.traffic.iter().map(of_plan).fold(0, u64::saturating_add)
}

/// Returns the number of data frames of all messages.
fn frames_max(scenario: &Scenario) -> u64 {
    let payload = payload_max(scenario);
    let of_plan = |plan: &TrafficPlan| match &plan.source {
        TrafficSource::ClosedLoop(_) => u64::MAX,
        TrafficSource::Graph(graph) => graph.messages().map(|message| message.size.get().div_ceil(payload)).sum(),
        TrafficSource::List(_) => plan.messages().iter().map(|message| message.size.get().div_ceil(payload)).sum(),
    };
    scenario.traffic.iter().map(of_plan).fold(0, u64::saturating_add)
}

/// Returns the payload of a full frame, in bytes.
fn payload_max(scenario: &Scenario) -> u64 {
    scenario.hosts.first().map_or(1, |host| u64::from(host.nic.sizes.payload_max).max(1))
}

/// Returns the largest number of queued frames: half of those that start at the same instant, as bursts do, since they
/// meet on their paths. The limit is the buffer that flow control admits, if known.
fn queued_frames_max(scenario: &Scenario) -> u64 {
    let of_plan = |plan: &TrafficPlan| {
        let together = plan.messages().chunk_by(|one, other| one.start == other.start).filter(|burst| burst.len() > 1);
        let of_burst = |burst: &[Message]| -> u64 { burst.iter().map(|message| message.size.get()).sum() };
        together.map(of_burst).max().unwrap_or(0)
    };
    let begins: u64 = scenario.traffic.iter().map(of_plan).sum();
    let room: u64 = scenario.switches.iter().map(|switch| room(switch, &scenario.traffic).get()).sum();
    (begins / 2).min(room) / payload_max(scenario)
}

/// Returns the bytes of this traffic that a switch holds before all its ports pause their peers. It is the buffer size
/// if thresholds are dynamic or some class is lossy.
fn room(switch: &SwitchConfig, traffic: &[TrafficPlan]) -> Bytes {
    let is_lossless =
        traffic.iter().flat_map(|plan| &*plan.points).all(|(class, _)| switch.classes.lossless.contains(*class));
    let queues = switch.ports.len() as u64 * u64::from(switch.lossless_classes());
    let held = switch.static_threshold().filter(|_| is_lossless).map(|threshold| threshold * queues);
    held.map_or(switch.buffer.size, |held| held.min(switch.buffer.size))
}

fn hops_of_flow(scenario: &Scenario, flow: &FlowPlan) -> u64 {
    let config = &flow.config;
    let host = &scenario.hosts[flow.from].nic;
    let sent = config.stop.min(scenario.end).since(config.start.min(config.stop).min(scenario.end));
    let at_rate = config.rate.unwrap_or(host.rate).min(host.rate).bytes_in(sent);
    let bytes = config.total.map_or(at_rate, |total| total.min(at_rate));
    let messages = bytes.get() / config.message.get().max(1);
    let (frames, each) = frames(&host.sizes, &config.transport, bytes, config.ack_every.map(|every| every.get()));
    (frames + each.unwrap_or(messages)) * links(scenario, [flow.from, flow.to])
}

fn hops_of_traffic(scenario: &Scenario, plan: &TrafficPlan) -> u64 {
    let of_message = |message: &Message| {
        let sizes = &scenario.hosts[message.from as usize].nic.sizes;
        let (frames, acks) = frames(sizes, &plan.transport, message.size, plan.ack_every.map(|every| every.get()));
        (frames + acks.unwrap_or(1).max(1)) * links_of(scenario, message)
    };
    let of_loop = plan.closed_loop().map_or(0, |closed| hops_of_loop(scenario, plan, closed));
    let of_graph = plan.graph().map_or(0, |graph| graph.messages().map(|message| of_message(&message)).sum());
    plan.messages().iter().map(of_message).sum::<u64>() + of_loop + of_graph
}

/// Returns the memory of a graph: operations and their states, started messages, and connections.
fn graph_bytes(graph: &MessageGraph) -> u64 {
    let of_rank = |rank: &GraphRank| {
        rank.program.len() as u64 * OPERATION_BYTES + rank.connections.len() as u64 * Connection::BYTES as u64
    };
    graph.ranks().iter().map(of_rank).sum()
}

/// Returns an upper bound of the packet-hops: all senders send at their links' rates.
fn hops_of_loop(scenario: &Scenario, plan: &TrafficPlan, closed: &ClosedLoop) -> u64 {
    let mean = closed.sizes().mean().max(1.0);
    let of_sender = |sender: &u32| {
        let host = &scenario.hosts[*sender as usize].nic;
        let span = closed.until().min(scenario.end).since(closed.from().min(scenario.end));
        let most = closed.times().map_or(u64::MAX, |times| (f64::from(times) * mean) as u64);
        let bytes = host.rate.bytes_in(span).get().min(most);
        let every = plan.ack_every.map(|every| every.get());
        let (frames, acks) = frames(&host.sizes, &plan.transport, Bytes::new(bytes), every);
        (frames + acks.unwrap_or((bytes as f64 / mean) as u64)) * LINKS_ASSUMED
    };
    closed.senders().iter().map(of_sender).sum()
}

/// Returns the number of data frames, and of acknowledgements if they are per frames.
fn frames(sizes: &FrameSizes, transport: &Transport, bytes: Bytes, ack_every: Option<u32>) -> (u64, Option<u64>) {
    let (payload, ack_every) = match transport {
        Transport::Rdma => (u64::from(sizes.payload_max), ack_every),
        Transport::Tcp(tcp) => (u64::from(tcp.mss), Some(tcp.delayed_ack.map_or(1, |ack| ack.every))),
    };
    let frames = bytes.get().div_ceil(payload.max(1));
    (frames, ack_every.map(|every| frames / u64::from(every.max(1))))
}

fn links_of(scenario: &Scenario, message: &Message) -> u64 {
    links(scenario, [message.from, message.to].map(|host| host as usize))
}

fn links(scenario: &Scenario, [from, to]: [usize; 2]) -> u64 {
    match &scenario.routes {
        Some(routes) if from != to => routes.hops(from, to) as u64,
        _ if scenario.switches.len() == 1 => 2,
        _ => LINKS_ASSUMED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sim;

    fn fabric(topology: &str, workload: &str) -> Scenario {
        let text = format!(
            "[scenario]\nend = \"1ms\"\n[switch.classes]\npreset = \"roce\"\n[switch.pfc]\nreaction = \"0s\"\n\
             [topology]\n{topology}\nrate = \"100Gbps\"\ndelay = \"1us\"\n[nic]\nmtu = 1024\n{workload}"
        );
        let runs = weir_scenario::file::parse(Path::new("fabric.toml"), &text);
        runs.unwrap_or_else(|errors| panic!("{}", errors.render(false))).remove(0).scenario
    }

    #[test]
    fn packet_hops_are_those_of_the_run_where_nothing_is_lost() {
        let all = "[[workloads]]\nkind = \"all-to-all\"\nclass = 3\nsizes = \"20KB\"\n";
        let scenario = fabric("kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts = 2", all);
        // 12 messages with 20 frames and 20 acknowledgements each: 4 over two links, 8 over four.
        assert_eq!(CostEstimate::for_scenario(&scenario).packet_hops, 40 * (4 * 2 + 8 * 4));
        let mut sim = Sim::new(&scenario).unwrap();
        sim.run_until(scenario.end);
        assert_eq!((sim.drain_completions().count(), sim.packet_hops()), (12, 1_600));
        let endless = "[[flows]]\nfrom = \"H0\"\nto = \"H1\"\nclass = 3\nmessage = \"1MB\"\nrate = \"10Gbps\"\n";
        let of_flow = CostEstimate::for_scenario(&fabric("kind = \"single\"\nhosts = 2", endless));
        // 1.25 MB in 1 ms, and one acknowledgement of a message.
        assert_eq!(of_flow.packet_hops, (1_250_000_u64.div_ceil(1_024) + 1) * 2);
        let tcp = "[nic.tcp]\nmss = 1000\n[[flows]]\nfrom = \"H0\"\nto = \"H1\"\nclass = 0\ntotal = \"10KB\"\ntransport = \"tcp-reno\"\n";
        assert_eq!(CostEstimate::for_scenario(&fabric("kind = \"single\"\nhosts = 2", tcp)).packet_hops, (10 + 5) * 2);
        let of_hops = CostEstimate { memory: CostEstimate::PROCESS, packet_hops: 3_000 };
        assert_eq!(of_hops.core_time(), [300, 1_000].map(Span::from_micros));
        let of_fabric = CostEstimate { memory: CostEstimate::PROCESS + Bytes::mb(3_000), packet_hops: 0 };
        assert_eq!(of_fabric.core_time(), [6, 30].map(Span::from_secs));
    }

    #[test]
    fn memory_grows_with_ports_and_hosts() {
        let of =
            |k: u32| CostEstimate::for_scenario(&fabric(&format!("kind = \"fat-tree\"\nk = {k}"), "")).memory.get();
        // 80 switches of 8 ports and 128 hosts.
        assert_eq!(
            of(8),
            CostEstimate::PROCESS.get()
                + 640 * PORT_BYTES
                + 128 * HOST_BYTES
                + 80 * SWITCH_BYTES
                + 80 * (128 * ROUTE_BYTES + 32 * SWITCH_ROUTE_BYTES)
        );
        assert!(of(16) - CostEstimate::PROCESS.get() > 7 * (of(8) - CostEstimate::PROCESS.get()));
    }

    #[test]
    fn half_of_what_begins_together_stands_but_no_more_than_switches_let_in() {
        let of = |buffer: &str, workload: &str| {
            let workload = format!("[[workloads]]\nclass = 3\nsizes = \"1MB\"\n{workload}[switch.buffer]\n{buffer}");
            queued_frames_max(&fabric("kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts = 2", &workload))
        };
        let (burst, large) = ("kind = \"permutation\"\n", "size = \"8MB\"\npolicy = \"dt\"\n");
        assert_eq!(of(large, burst), 2_000_000 / 1_024);
        // Four switches, of which each holds 400 KB.
        assert_eq!(of("size = \"400KB\"\npolicy = \"dt\"\n", burst), 1_600_000 / 1_024);
        // Each of four ports at a leaf and two at a spine pauses its peer at 10 KB.
        let early = "size = \"8MB\"\npolicy = \"static\"\nstatic.threshold = \"10KB\"\n";
        assert_eq!(of(early, burst), (8 + 4) * 10_000 / 1_024);
        assert_eq!(of(large, "kind = \"poisson\"\nload = 0.5\n"), 0, "one after the other");
    }

    #[test]
    fn memory_is_formatted_in_the_unit_that_fits() {
        assert_eq!(
            [999_400_000, 1_000_000_000, 12_340_000_000].map(|bytes| format_memory(Bytes::new(bytes))),
            ["999 MB", "1.0 GB", "12.3 GB"]
        );
    }

    #[test]
    fn free_memory_is_read() {
        assert_eq!(available("MemTotal: 1 kB\nMemAvailable:    2048 kB\n"), Some(Bytes::new(2 << 20)));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
        assert!(free_memory().is_none_or(|free| free > Bytes::ZERO));
    }
}
