//! Chakra traces of a job, with ASTRA-sim's system and network, as scenarios.

mod schedule;
mod system;
mod trace;

use std::path::Path;

use super::fabric::{self, FabricOptions};
use super::{ImportErrors, ImportNote, ImportReport, ImportedScenario};
use schedule::JobSchedule;
use system::{AstraNetwork, AstraSystem};
use trace::TraceOperation;

/// Inputs of an import.
#[derive(Clone, Debug)]
pub struct ChakraOptions<'p> {
    /// Name of the scenario file without `.toml`, with which the schedule's name begins.
    pub stem: String,
    /// Name of the traces without rank and ending.
    pub prefix: &'p Path,
    /// System file of ASTRA-sim; without one collectives are rings of one chunk, without delays.
    pub system: Option<&'p Path>,
    /// Network file of ASTRA-sim.
    pub network: Option<&'p Path>,
    /// File of groups of ranks.
    pub groups: Option<&'p Path>,
    /// Fabric without a network file that has one; `None` for the default.
    pub fabric: Option<FabricOptions>,
}

/// Builds a scenario.
///
/// # Errors
/// Errors of a file, and settings that Weir can't simulate.
pub fn import(options: &ChakraOptions<'_>) -> Result<ImportedScenario, ImportErrors> {
    let mut report = ImportReport::default();
    let traces = trace::read(options.prefix)?;
    let name = traces[0].file.as_str();
    let system = options.system.map(|path| AstraSystem::read(path, &mut report)).transpose()?;
    let system = system.unwrap_or_else(AstraSystem::rings);
    let network = options.network.map(|path| AstraNetwork::read(path, &mut report)).transpose()?;
    let groups = options.groups.map(|path| system::read_groups(path, &mut report)).transpose()?.unwrap_or_default();
    if let Some(AstraNetwork { file, dims, .. }) = &network {
        let ranks: u32 = dims.iter().product();
        if ranks as usize != traces.len() {
            let problem = format!("the network has {ranks} ranks, and there are traces of {}", traces.len());
            return Err(ImportErrors::one(file, None, problem, "name files of one job"));
        }
    }
    let job = JobSchedule::new(&traces, &system, network.as_ref(), &groups).build()?;
    let fabric = match network.and_then(|network| Some((network.fabric?, network.file))) {
        Some((_, file)) if options.fabric.is_some() => {
            let help = "take --tiers, --rate and --delay out, or the network";
            return Err(ImportErrors::one(&file, None, "its switch is the fabric, of which there can be one", help));
        }
        Some((fabric, _)) => fabric,
        None => options.fabric.unwrap_or_default().fabric(traces.len())?,
    };
    let nodes: usize = traces.iter().map(|trace| trace.nodes.len()).sum();
    let (ranks, messages) = (traces.len(), job.graph.messages().count());
    let taken =
        format!("{ranks} ranks, one a host: {nodes} nodes, {} collectives, {messages} messages", job.collectives);
    report.taken.push(ImportNote::for_file(name, taken));
    fabric.report_idle(ranks, &mut report);
    report_differences(name, &traces, &mut report);
    let end = fabric::end_of_graph(&job.graph, &fabric, name)?;
    let copy = format!("{}-schedule.goal", options.stem);
    let scenario = fabric::scenario("chakra", &[name], &fabric, end, ["goal", &copy], &report);
    Ok(ImportedScenario { scenario, files: vec![(copy, job.text.into_bytes())], report })
}

fn report_differences(name: &str, traces: &[trace::ChakraTrace], report: &mut ImportReport) {
    let operations = || traces.iter().flat_map(|trace| &trace.nodes).map(|node| &node.operation);
    let count = |is: fn(&TraceOperation) -> bool| operations().filter(|operation| is(operation)).count();
    let broadcasts = count(|operation| matches!(operation, TraceOperation::Broadcast { .. }));
    if broadcasts > 0 {
        let text = format!("{broadcasts} broadcasts last as long as in the trace, and send nothing, as in ASTRA-sim");
        report.approximated.push(ImportNote::for_file(name, text));
    }
    for text in [
        "communications of a rank that wait for nothing run at once; in ASTRA-sim one after the other",
        "a send ends with its acknowledgement",
    ] {
        report.approximated.push(ImportNote::for_file(name, text));
    }
}

#[cfg(test)]
mod tests;
