//! Workloads of SimAI (AICB), as scenarios.

mod schedule;
mod topology;
mod workload;

use std::path::Path;

use weir_units::{Bytes, Time};

use super::fabric::{self, FabricOptions};
use super::{ImportErrors, ImportNote, ImportReport, ImportedScenario, read_text};
use schedule::LayerSchedule;
use workload::{Layer, SimaiWorkload};

/// Inputs of an import.
#[derive(Clone, Debug)]
pub struct SimaiOptions<'p> {
    /// Name of the scenario file without `.toml`, with which the schedule's name begins.
    pub stem: String,
    /// Workload.
    pub workload: &'p Path,
    /// Topology file.
    pub topology: Option<&'p Path>,
    /// Fabric without a topology file.
    pub fabric: FabricOptions,
}

/// CPU of computations, which delay no message.
const COMPUTE_CPU: u8 = 0;
/// CPU of the updates after weight gradients, which delay no computation.
const UPDATE_CPU: u8 = 3;
/// Number of messages of a schedule, and size of one.
const MESSAGES_MAX: u64 = 20_000_000;
const MESSAGE_BYTES_MAX: u64 = 1 << 31;
/// Least size of a collective of the forward pass, if it has one.
const FORWARD_BYTES_MIN: u64 = 4_096;

/// Builds a scenario: one pass of a workload, forward and backward.
///
/// # Errors
/// Errors of the workload, and settings that Weir can't simulate.
pub fn import(options: &SimaiOptions<'_>) -> Result<ImportedScenario, ImportErrors> {
    let mut report = ImportReport::default();
    let file = read_text(options.workload)?;
    let name = &file.name;
    let workload = SimaiWorkload::read(&file)?;
    let topology_file = options.topology.map(read_text).transpose()?;
    let (fabric, per_server) = match &topology_file {
        Some(file) => topology::read(file, &mut report)?,
        None => (options.fabric.fabric(workload.gpus as usize)?, 1),
    };
    if let Some(file) = topology_file.as_ref().filter(|_| fabric.hosts() < workload.gpus as usize) {
        let problem = format!("the topology has {} GPUs, and {name} {}", fabric.hosts(), workload.gpus);
        return Err(ImportErrors::one(&file.name, None, problem, "name files of one job"));
    }
    let mut schedule = LayerSchedule::new(&workload, per_server);
    write_pass(&mut schedule, &workload);
    let refuse = |problem: String, help: &str| Err(ImportErrors::one(name, None, problem, help));
    let (messages, largest) = (schedule.messages(), schedule.message_max());
    if messages > MESSAGES_MAX {
        let problem = format!("the workload has {messages} messages, more than the {MESSAGES_MAX} of a scenario");
        return refuse(problem, "write fewer layers or GPUs");
    }
    if largest > MESSAGE_BYTES_MAX {
        let problem = format!("there are messages of {}, and RDMA has none above 2 GiB", Bytes::new(largest));
        return refuse(problem, "write smaller collectives, or more GPUs");
    }
    let goal = schedule.graph.goal_text();
    let hosts: Vec<u32> = (0..workload.gpus).collect();
    let graph = schedule.graph.build(&hosts, Time::ZERO, Time::NEVER, 1).expect("each message has its receipt");
    let SimaiWorkload { tensor, expert, gpus, ref repeated, .. } = workload;
    let taken = format!(
        "{gpus} GPUs, one a host: tensor parallel {tensor}, expert parallel {expert}; {} layers, {} messages",
        workload.layers.len(),
        graph.messages().count()
    );
    report.taken.push(ImportNote::for_file(name, taken));
    fabric.report_idle(gpus as usize, &mut report);
    if !repeated.is_empty() {
        let text = format!("{}: there is one pass, as in SimAI's simulation", repeated.join(", "));
        report.left.push(ImportNote::for_line(name, 1, text));
    }
    let text = "collectives are rings, all-to-all sends to all peers at once; SimAI has NCCL's trees and NVLS, too";
    report.approximated.push(ImportNote::for_file(name, text));
    if topology_file.is_none() {
        let text = "all links are of the fabric: without a topology there is no NVLink within a server";
        report.approximated.push(ImportNote::for_file(name, text));
    }
    let end = fabric::end_of_graph(&graph, &fabric, name)?;
    let copy = format!("{}-schedule.goal", options.stem);
    let sources: Vec<&str> =
        [name].into_iter().chain(topology_file.as_ref().map(|file| &file.name)).map(String::as_str).collect();
    let scenario = fabric::scenario("simai", &sources, &fabric, end, ["goal", &copy], &report);
    Ok(ImportedScenario { scenario, files: vec![(copy, goal.into_bytes())], report })
}

/// Writes the forward pass, layer by layer, then the backward pass. Collectives of weight gradients delay nothing.
fn write_pass(schedule: &mut LayerSchedule, workload: &SimaiWorkload) {
    for Layer { forward, .. } in &workload.layers {
        schedule.compute(forward.compute, COMPUTE_CPU);
        let bytes = if forward.bytes > 0 { forward.bytes.max(FORWARD_BYTES_MIN) } else { 0 };
        schedule.collective(forward, bytes);
    }
    for Layer { input_gradient, weight_gradient, update, .. } in workload.layers.iter().rev() {
        schedule.compute(input_gradient.compute, COMPUTE_CPU);
        schedule.collective(input_gradient, input_gradient.bytes);
        schedule.compute(weight_gradient.compute, COMPUTE_CPU);
        let before = schedule.position();
        schedule.collective(weight_gradient, weight_gradient.bytes);
        if weight_gradient.collective.is_some() {
            schedule.compute(*update, UPDATE_CPU);
        }
        schedule.resume_from(before);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use weir_units::{BitRate, Span};

    use super::*;
    use crate::scenario::{Scenario, TrafficSource};

    fn imported(text: &str) -> Result<(Scenario, String), String> {
        imported_on(text, None).map(|(scenario, goal, _)| (scenario, goal))
    }

    /// Imports a workload and a topology; returns the scenario, its schedule and its text.
    fn imported_on(text: &str, topology: Option<&str>) -> Result<(Scenario, String, String), String> {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("w.txt"), text).unwrap();
        topology.iter().for_each(|text| fs::write(path("topology"), text).unwrap());
        let topology = topology.map(|_| path("topology"));
        let fabric = FabricOptions { tiers: 1, rate: BitRate::gbps(100), delay: Span::from_micros(1) };
        let options =
            SimaiOptions { stem: "s".to_owned(), workload: &path("w.txt"), topology: topology.as_deref(), fabric };
        let imported = import(&options).map_err(|errors| errors.to_string())?;
        imported.files.iter().for_each(|(name, content)| fs::write(path(name), content).unwrap());
        let runs = crate::file::parse(&path("s.toml"), &imported.scenario);
        let scenario = runs.unwrap_or_else(|errors| panic!("{}", errors.render(false))).remove(0).scenario;
        Ok((scenario, String::from_utf8(imported.files[0].1.clone()).unwrap(), imported.scenario))
    }

    fn header(groups: &str) -> String {
        format!("HYBRID_TRANSFORMER_FWD_IN_BCKWD {groups} pp: 1 vpp: 1 ga: 1 checkpoints: 0 checkpoint_initiates: 0\n")
    }

    /// Sizes and receivers of a rank's messages.
    fn sends(scenario: &Scenario, rank: u32) -> Vec<(u32, u64)> {
        let TrafficSource::Graph(graph) = &scenario.traffic[0].source else { panic!("no graph") };
        let of_rank = graph.messages().filter(|message| message.from == rank);
        of_rank.map(|message| (message.to, message.size.get())).collect()
    }

    #[test]
    fn layers_that_no_schedule_holds_are_refused() {
        let groups = header("model_parallel_NPU_group: 1 ep: 1 all_gpus: 2");
        for (layer, error) in [
            (
                "1 NONE 0 1 NONE 0 1 ALLREDUCE 14000000000 100",
                "w.txt: there are messages of 7000MB, and RDMA has none above 2 GiB",
            ),
            (
                "18500000000000000000 NONE 0 1 NONE 0 1 NONE 0 100",
                "w.txt:3: \"18500000000000000000\" is not a time in ns; write",
            ),
        ] {
            let errors = imported(&format!("{groups}1\nL0\t-1 {layer}\n")).unwrap_err();
            assert!(errors.starts_with(error), "{errors}");
        }
    }

    #[test]
    fn groups_are_tensor_then_expert_then_data_parallel() {
        let groups = header("model_parallel_NPU_group: 2 ep: 2 all_gpus: 8");
        let layer = |collective: &str| format!("{groups}1\nL0\t-1 1000 NONE 0 1 NONE 0 1 {collective} 8000 100\n");
        let peers = |collective: &str| -> Vec<u32> {
            let mut peers: Vec<u32> =
                sends(&imported(&layer(collective)).unwrap().0, 1).iter().map(|send| send.0).collect();
            peers.sort();
            peers.dedup();
            peers
        };
        // Data-parallel ranks of 1 are 1, 3, 5, 7; of those 1 and 3 are an expert-parallel group.
        assert_eq!(peers("ALLTOALL"), [3, 5, 7]);
        assert_eq!((peers("ALLTOALL_EP"), peers("ALLTOALL_DP_EP")), (vec![3], vec![5]));
        let forward = format!("{groups}1\nL0 -1 1000 ALLTOALL 8000 1 NONE 0 1 NONE 0 100\n");
        assert_eq!(sends(&imported(&forward).unwrap().0, 1), [(0, 4_000)]);
    }

    #[test]
    fn groups_in_several_servers_have_a_ring_for_each_rank_of_a_server() {
        let layer = |tensor: u32| {
            let groups = header(&format!("model_parallel_NPU_group: {tensor} ep: 1 all_gpus: 8"));
            format!("{groups}1\nL0\t-1 1000 ALLGATHER 64000 1 NONE 0 1 NONE 0 100\n")
        };
        let topology = topology(8, 2, 3, |gpu| vec![gpu % 2]);
        let sent = |tensor: u32, rank: u32| {
            let mut sent = sends(&imported_on(&layer(tensor), Some(&topology)).unwrap().0, rank);
            sent.sort();
            sent.chunk_by(|one, other| one == other).map(|same| (same[0], same.len())).collect::<Vec<_>>()
        };
        // Servers of two. Half of the bytes go round from server to server by even ranks, which are second there, half by odd ones.
        assert_eq!(sent(8, 1), [((0, 4_000), 7), ((2, 4_000), 7)]);
        assert_eq!(sent(8, 6), [((1, 4_000), 7), ((7, 4_000), 7)]);
        assert_eq!(sent(2, 1), [((0, 32_000), 1)]);
    }

    #[test]
    fn a_pass_goes_forward_and_back() {
        let groups = header("model_parallel_NPU_group: 2 ep: 1 all_gpus: 4");
        let text = format!(
            "{groups}2\nL0 -1 1000 ALLGATHER 16384 10 REDUCESCATTER 8192 20 ALLREDUCE 2048 7\n\
             L1 -1 2000 ALLREDUCE 100 30 NONE 0 40 NONE 0 7\n"
        );
        let (scenario, goal) = imported(&text).unwrap();
        // Forward: half of 16,384 B, twice half of 4,096 B. Back: half of 8,192 B; twice half of 2,048 B to rank 2.
        assert_eq!(sends(&scenario, 0), [(1, 8_192), (1, 2_048), (1, 2_048), (1, 4_096), (2, 1_024), (2, 1_024)]);
        let durations: Vec<&str> = goal
            .split("rank 1 {")
            .next()
            .unwrap()
            .lines()
            .filter(|line| line.contains("calc") && !line.contains("calc 0 "))
            .collect();
        let durations: Vec<&str> = durations.iter().map(|line| line.split_whitespace().nth(2).unwrap()).collect();
        assert_eq!(durations, ["1000", "2000", "30", "40", "10", "20", "7"]);
    }

    /// Topology as SimAI's generator writes it: GPUs `0..gpus` in servers of two with an NVSwitch each, then ASWs, then PSWs. `nic` has the
    /// ASWs of a GPU.
    fn topology(gpus: u32, asws: u32, psws: u32, nic: impl Fn(u32) -> Vec<u32>) -> String {
        let (servers, switches) = (gpus / 2, asws + psws);
        let first = gpus + servers;
        let mut links = Vec::new();
        for gpu in 0..gpus {
            links.push(format!("{gpu} {} 2880Gbps 0.000025ms 0", gpus + gpu / 2));
            links.extend(nic(gpu).iter().map(|asw| format!("{gpu} {} 100Gbps 0.0005ms 0", first + asw)));
        }
        for asw in 0..asws {
            links.extend((0..psws).map(|psw| format!("{} {} 400Gbps 0.0005ms 0", first + asw, first + asws + psw)));
        }
        let numbers: Vec<String> = (gpus..first + switches).map(|switch| switch.to_string()).collect();
        let head = format!("{} 2 {servers} {switches} {} A100", first + switches, links.len());
        format!("{head}\n{}\n{}\n", numbers.join(" "), links.join("\n"))
    }

    #[test]
    fn a_topology_is_of_rails_or_of_links() {
        let groups = header("model_parallel_NPU_group: 2 ep: 1 all_gpus: 8");
        let workload = format!("{groups}1\nL0\t-1 1000 ALLREDUCE 8000 1 NONE 0 1 ALLREDUCE 8000 100\n");
        let (rails, _, text) = imported_on(&workload, Some(&topology(8, 2, 3, |gpu| vec![gpu % 2]))).unwrap();
        let expected = "kind = \"rails\"\nservers = 4\ngpus = 2\nrails = 2\nspines = 3\nparallel = 1\n\
                        nvlink_rate = \"2880Gbps\"\nnvlink_delay = \"50ns\"\nrate = \"400Gbps\"\ndelay = \"500ns\"\n\
                        host_rate = \"100Gbps\"\nhost_delay = \"500ns\"\n";
        assert!(text.contains(expected), "{text}");
        assert_eq!((rails.hosts.len(), rails.switches.len(), rails.links.len()), (8, 5, 6));
        assert!(rails.servers.is_some());
        // Servers 0 and 1 on one switch, 2 and 3 on the other.
        let (links, _, text) = imported_on(&workload, Some(&topology(8, 2, 3, |gpu| vec![gpu / 4]))).unwrap();
        assert!(text.contains("# - topology: NVLink: fabrics of rails alone have it\n"), "{text}");
        assert!(text.contains("name = \"H7\"\nport = \"S13.H7\"\nrate = \"100Gbps\"\ndelay = \"500ns\"\n"), "{text}");
        assert_eq!((links.hosts.len(), links.switches.len(), links.links.len()), (8, 5, 6));
        let names: Vec<&str> = links.hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names, ["H0", "H1", "H2", "H3", "H4", "H5", "H6", "H7"]);
        for (file, error) in [
            (
                topology(4, 2, 1, |gpu| vec![gpu % 2]),
                "topology: the topology has 4 GPUs, and w.txt 8; name files of one job",
            ),
            ("3 1 2\n2\n".to_owned(), "topology:1: the first line has 3 values, not 6; write nodes"),
            (topology(8, 2, 3, |_| Vec::new()), "topology: GPU 0 has no link to a switch; write its NIC's link"),
            // NVSwitches are no GPUs.
            (
                topology(6, 2, 3, |gpu| vec![gpu / 4]),
                "topology: the topology has 6 GPUs, and w.txt 8; name files of one job",
            ),
        ] {
            let found = imported_on(&workload, Some(&file)).unwrap_err();
            assert!(found.starts_with(error), "{found}");
        }
    }

    #[test]
    fn gpus_have_ports_on_two_switches() {
        let groups = header("model_parallel_NPU_group: 2 ep: 1 all_gpus: 8").replace("vpp: 1 ga: 1", "vpp: 2 ga: 4");
        let workload = format!("{groups}1\nL0\t-1 1000 ALLREDUCE 8000 1 NONE 0 1 ALLREDUCE 8000 100\n");
        // AlibabaHPN: rails, each on two switches.
        let hpn = topology(8, 4, 3, |gpu| vec![gpu % 2, 2 + gpu % 2]);
        let (rails, _, text) = imported_on(&workload, Some(&hpn)).unwrap();
        let expected = "kind = \"rails\"\nservers = 4\ngpus = 2\nrails = 2\nspines = 3\nports = 2\nparallel = 1\n\
                        nvlink_rate = \"2880Gbps\"\n";
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("# - w.txt:1: vpp: 2, ga: 4: there is one pass, as in SimAI's simulation\n"), "{text}");
        assert_eq!((rails.host_count(), rails.hosts.len(), rails.switches.len(), rails.links.len()), (8, 16, 7, 12));
        let switches = |scenario: &Scenario, host: u32| -> Vec<usize> {
            scenario.host_ports().ports(host).map(|port| scenario.hosts[port as usize].switch).collect()
        };
        assert_eq!([switches(&rails, 0), switches(&rails, 7)], [[0, 2], [1, 3]]);
        // DCN+: two servers on each pair of switches.
        let dcn = topology(8, 4, 3, |gpu| vec![gpu / 4, 2 + gpu / 4]);
        let (pairs, _, text) = imported_on(&workload, Some(&dcn)).unwrap();
        assert!(text.contains("name = \"H7\"\nports = [\"S13.H7\", \"S15.H7-2\"]\nrate = \"100Gbps\"\n"), "{text}");
        assert_eq!((pairs.host_count(), pairs.hosts.len(), pairs.links.len()), (8, 16, 12));
        assert_eq!([switches(&pairs, 0), switches(&pairs, 7)], [[0, 2], [1, 3]]);
        // Two planes, each with switches of its own above.
        let planes =
            hpn.lines().filter(|line| !["12 17 ", "13 17 ", "14 16 ", "15 16 "].iter().any(|it| line.starts_with(it)));
        let planes = planes.collect::<Vec<_>>().join("\n").replacen(" 36 A100", " 32 A100", 1);
        let (planes, ..) = imported_on(&workload, Some(&planes)).unwrap();
        assert_eq!((planes.host_count(), planes.servers.is_none()), (8, true));
        let slower = dcn.replacen("0 14 100Gbps", "0 14 50Gbps", 1);
        let error = "topology: GPU 0 has links of different rates, delays or losses to switches; write equal ones for its ports";
        assert!(imported_on(&workload, Some(&slower)).unwrap_err().starts_with(error));
    }

    #[test]
    fn errors_name_the_line() {
        let good = header("model_parallel_NPU_group: 2 ep: 1 all_gpus: 4");
        let layer = "L0 -1 1 NONE 0 1 NONE 0 1 NONE 0 1\n";
        for (text, error) in [
            (format!("{good}2\n{layer}"), "w.txt:2: there are 1 layers, not 2; write 1"),
            (
                format!("{good}1\nL0 -1 1 NONE 0\n"),
                "w.txt:3: a layer has 12 fields, this one 5; write name, dependency",
            ),
            (
                format!("{good}1\n{}", layer.replacen("NONE", "ALLREDUCEALLTOALL", 1)),
                "w.txt:3: ALLREDUCEALLTOALL is read by SimAI as an all-reduce without a group; write ALLREDUCE and",
            ),
            (
                format!("{good}1\n{}", layer.replacen("NONE", "GATHER", 1)),
                "w.txt:3: there is no collective GATHER; write",
            ),
            (
                format!("{}1\n{layer}", good.replace("pp: 1", "pp: 2")),
                "w.txt:1: pipeline stages (pp: 2) are not simulated, as by SimAI; write pp: 1",
            ),
            (
                format!("{}1\n{layer}", good.replace("checkpoints: 0", "checkpoints: 1 0")),
                "w.txt:1: recomputation from checkpoints is not simulated; write checkpoints: 0",
            ),
            (
                format!("{}1\n{layer}", good.replace("ep: 1", "ep: one")),
                "w.txt:1: `ep: one` is no setting with a number from 0; write settings as ep: 1",
            ),
            (
                format!("{}1\n{layer}", good.replace("HYBRID_TRANSFORMER_FWD_IN_BCKWD", "HYBRID_DLRM")),
                "w.txt:1: workloads of kind HYBRID_DLRM are not imported",
            ),
            (
                format!("{}1\n{layer}", good.replace("all_gpus: 4", "all_gpus: 5")),
                "w.txt:1: 5 GPUs are no multiple of 2 · 1",
            ),
            (
                format!("{}1\n{layer}", good.replace("all_gpus: 4", "")),
                "w.txt:1: all_gpus: is missing or 0; write all_gpus: 8",
            ),
        ] {
            let found = imported(&text).unwrap_err();
            assert!(found.starts_with(error), "{found}");
        }
    }
}
