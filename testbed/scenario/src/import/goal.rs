//! Schedules in GOAL, as scenarios.

use std::path::Path;

use weir_units::Time;

use super::fabric::{self, FabricOptions};
use super::{ImportErrors, ImportNote, ImportReport, ImportedScenario, read_file};
use crate::workload::GoalSchedule;

/// Inputs of an import.
#[derive(Clone, Debug)]
pub struct GoalOptions<'p> {
    /// Name of the scenario file without `.toml`, with which the schedule's name begins.
    pub stem: String,
    /// Schedule, text or binary.
    pub schedule: &'p Path,
    /// Fabric.
    pub fabric: FabricOptions,
}

/// Builds a scenario.
///
/// # Errors
/// Errors of the schedule, and operations that Weir can't simulate.
pub fn import(options: &GoalOptions<'_>) -> Result<ImportedScenario, ImportErrors> {
    let mut report = ImportReport::default();
    let (name, content) = read_file(options.schedule)?;
    let refuse = |error| ImportErrors::of_schedule(&name, &error, "write it as LogGOPSim reads it");
    let schedule = GoalSchedule::read(&content).map_err(refuse)?;
    let ranks = schedule.ranks();
    let fabric = options.fabric.fabric(ranks)?;
    let hosts: Vec<u32> = (0..ranks as u32).collect();
    let graph = schedule.graph(&hosts, Time::ZERO, Time::NEVER).map_err(refuse)?;
    let text = format!("{ranks} ranks, one a host, with {} messages", graph.messages().count());
    report.taken.push(ImportNote::for_file(&name, text));
    fabric.report_idle(ranks, &mut report);
    let differences = "a send ends with its acknowledgement, of any size, and takes no time of its CPU; in LogGOPSim small ones end after o";
    report.approximated.push(ImportNote::for_file(&name, differences));
    let end = fabric::end_of_graph(&graph, &fabric, &name)?;
    let copy = format!("{}-schedule.goal", options.stem);
    let scenario = fabric::scenario("goal", &[&name], &fabric, end, ["goal", &copy], &report);
    Ok(ImportedScenario { scenario, files: vec![(copy, content)], report })
}
