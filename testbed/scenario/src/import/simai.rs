//! Workloads of SimAI (AICB), as scenarios.

mod schedule;
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
    /// Fabric.
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
    let fabric = options.fabric.fabric(workload.gpus as usize)?;
    let mut schedule = LayerSchedule::new(&workload);
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
    let text = schedule.graph.goal_text();
    let hosts: Vec<u32> = (0..workload.gpus).collect();
    let graph = schedule.graph.build(&hosts, Time::ZERO, Time::NEVER, 1).expect("each message has its receipt");
    let SimaiWorkload { tensor, expert, gpus, .. } = workload;
    let taken = format!(
        "{gpus} GPUs, one a host: tensor parallel {tensor}, expert parallel {expert}; {} layers, {} messages",
        workload.layers.len(),
        graph.messages().count()
    );
    report.taken.push(ImportNote::for_file(name, taken));
    fabric.report_idle(gpus as usize, &mut report);
    for text in [
        "collectives are single rings, all-to-all sends to all peers at once; SimAI has NCCL's channels, trees and NVLS",
        "all links are of the fabric: there is no NVLink within a server",
    ] {
        report.approximated.push(ImportNote::for_file(name, text));
    }
    let end = fabric::end_of_graph(&graph, &fabric, name)?;
    let copy = format!("{}-schedule.goal", options.stem);
    let scenario = fabric::scenario("simai", &[name], &fabric, end, ["goal", &copy], &report);
    Ok(ImportedScenario { scenario, files: vec![(copy, text.into_bytes())], report })
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
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("w.txt"), text).unwrap();
        let fabric = FabricOptions { tiers: 1, rate: BitRate::gbps(100), delay: Span::from_micros(1) };
        let options = SimaiOptions { stem: "s".to_owned(), workload: &path("w.txt"), fabric };
        let imported = import(&options).map_err(|errors| errors.to_string())?;
        imported.files.iter().for_each(|(name, content)| fs::write(path(name), content).unwrap());
        let runs = crate::file::parse(&path("s.toml"), &imported.scenario);
        let scenario = runs.unwrap_or_else(|errors| panic!("{}", errors.render(false))).remove(0).scenario;
        Ok((scenario, String::from_utf8(imported.files[0].1.clone()).unwrap()))
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
