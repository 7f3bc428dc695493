//! Scenario files: a topology, its hosts and flows, and runs that differ in the switches' settings.
//!
//! Each run writes the switches' own files from the scenario's, and reads them as any switch file, so that all their rules hold. Errors
//! are reported at the scenario's line. `docs/SCENARIOS.md` is the reference.

mod assemble;
mod build;
mod changes;
mod compose;
mod control;
mod fabrics;
mod faults;
mod forwarding;
mod frame_format;
mod host_backend;
mod host_names;
mod keys;
mod kinds;
mod llr;
mod lossless_paths;
mod message_cache;
mod messages;
mod nic;
mod notes;
mod outages;
mod plan;
mod reading;
mod receive_limits;
mod routing;
mod run_changes;
mod run_diagnostics;
mod slow_receivers;
mod switches;
#[cfg(test)]
mod tests;
mod topology;
mod traffic;
mod workloads;

use std::path::Path;
use std::sync::Arc;

use weir_config::ConfigErrors;
use weir_reader::{Keys, Table, read_file, read_text};

use crate::scenario::{HostBackend, RealPorts, Scenario};
use crate::topology::Fabric;
use keys::format;
pub use message_cache::MessageCache;
use messages::MessageInputs;
use plan::{RunContext, ScenarioPlan};
use run_diagnostics::RunDiagnostics;

/// Expected outcome of a run; any other is a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expectation {
    /// `expect = "flow"`: no deadlock.
    #[default]
    Flow,
    /// `expect = "deadlock"`: a deadlock that lasts.
    Deadlock,
    /// `expect = "either"`.
    Either,
    /// `expect = "loss"`: no deadlock; lossless frames may be lost.
    Loss,
}

/// Returns every table with its keys, in the order of the reference; the file's top level has an empty name.
pub fn known_keys() -> impl Iterator<Item = (&'static str, Keys)> {
    format().tables.iter().map(|table| (table.name, table.keys))
}

/// Whether a name is a key of `[nic]`, flows or workloads, and hence can't name a table of a congestion control.
pub fn is_key(name: &str) -> bool {
    keys::is_reserved(name)
}

/// Run of a scenario file.
#[derive(Clone, Debug)]
pub struct ScenarioRun {
    /// Name of the run.
    pub name: String,
    /// Scenario of the run. If the file has no time dilation, one at which most machines keep up with the fastest link.
    pub scenario: Scenario,
    /// Outcome that the file expects.
    pub expects: Expectation,
    /// Time dilation of the file; `None` leaves it to a caller that knows the machine: [`ScenarioRun::dilated`].
    pub time_dilation: Option<u32>,
    plan: Arc<ScenarioPlan>,
    number: usize,
}

impl ScenarioRun {
    /// Returns the run's scenario at another time dilation. The default of `[pfc] reaction` depends on it, and with it headroom and τ.
    ///
    /// # Errors
    /// Settings that do not fit this time dilation.
    pub fn dilated(&self, time_dilation: u32) -> Result<Scenario, ConfigErrors> {
        self.build_scenario(RunContext { time_dilation, real: None })
    }

    /// Returns the run's scenario at a time dilation, on this machine's `ports`. Hosts that declare their access are real.
    ///
    /// # Errors
    /// Settings that do not fit this time dilation.
    pub fn with_real_hosts(&self, time_dilation: u32, ports: &RealPorts) -> Result<Scenario, ConfigErrors> {
        self.build_scenario(RunContext { time_dilation, real: Some(ports) })
    }

    /// Whether any host declares its access.
    pub fn has_real_hosts(&self) -> bool {
        self.plan.topology.hosts.iter().any(|host| host.real.is_some())
    }

    /// Whether a guest is booted if hosts are real.
    pub fn boots_guests(&self) -> bool {
        let mut real = self.plan.topology.hosts.iter().filter_map(|host| host.real.as_ref());
        real.any(|real| matches!(real.backend, HostBackend::Vm { .. }))
    }

    /// Whether a host is a machine that ssh reaches; the run is then in real time.
    pub fn has_machines(&self) -> bool {
        let mut real = self.plan.topology.hosts.iter().filter_map(|host| host.real.as_ref());
        real.any(|real| matches!(real.backend, HostBackend::Ssh { .. }))
    }

    fn build_scenario(&self, context: RunContext<'_>) -> Result<Scenario, ConfigErrors> {
        let mut diagnostics = RunDiagnostics::default();
        let scenario = assemble::scenario(&self.plan, self.number, context, &mut diagnostics);
        match diagnostics.into_errors(&self.plan) {
            Some(errors) => Err(errors),
            None => Ok(scenario.expect("a run that nothing is wrong with")),
        }
    }
}

/// Reads and checks a scenario file, and the switches' files that it names. The runs are in the file's order, at least one.
///
/// # Errors
/// All errors of the file, or that it can't be read.
pub fn load(path: &Path) -> Result<Vec<ScenarioRun>, ConfigErrors> {
    let text = read_file(path, &format())?;
    parse(path, &text)
}

/// Checks the text of the file at `path`; files that the text names are in its folder.
///
/// # Errors
/// Those of [`load`].
pub fn parse(path: &Path, text: &str) -> Result<Vec<ScenarioRun>, ConfigErrors> {
    parse_sharing(path, text, &MessageCache::default())
}

/// Checks a text like [`parse`], and reuses messages that were drawn for another text if this text's are the same: for large sets of
/// texts.
///
/// # Errors
/// Those of [`load`].
pub fn parse_sharing(path: &Path, text: &str, drawn: &MessageCache) -> Result<Vec<ScenarioRun>, ConfigErrors> {
    let name = path.display().to_string();
    let ((plan, scenarios), _) = read_text(&name, text, &format(), |root| read(root, path, drawn))?;
    let plan = Arc::new(plan);
    let run = |(number, scenario): (usize, Scenario)| ScenarioRun {
        name: plan.runs[number].name.clone(),
        expects: plan.runs[number].expects,
        scenario,
        time_dilation: plan.time_dilation,
        plan: plan.clone(),
        number,
    };
    Ok(scenarios.into_iter().enumerate().map(run).collect())
}

/// Returns the fabric of a text's `[topology]`, with its failed links; the rest of the text is not read. For thousands of networks of
/// which few run. `None` if the table is missing or has errors.
pub fn fabric(path: &Path, text: &str) -> Option<Fabric> {
    let read = |root: &Table<'_>| fabrics::fabric(&root.table("topology", "topology"));
    let (fabric, _) = read_text(&path.display().to_string(), text, &format(), read).ok()?;
    fabric
}

/// Reads the file, and builds all its runs if its topology is valid. Errors are in the document.
fn read(root: &Table<'_>, path: &Path, drawn: &MessageCache) -> (ScenarioPlan, Vec<Scenario>) {
    let mut plan = ScenarioPlan::read(root, path);
    let mut scenarios = Vec::new();
    if root.doc().sound(&["topology", "switches", "links", "hosts", "routes"]) {
        let mut diagnostics = RunDiagnostics::default();
        let context = RunContext { time_dilation: plan.dilation(), real: None };
        for run in 0..plan.runs.len() {
            scenarios.extend(assemble::scenario(&plan, run, context, &mut diagnostics));
        }
        if let Some(errors) = diagnostics.into_errors(&plan) {
            root.doc().include(errors);
        }
    }
    if scenarios.len() == plan.runs.len() && root.doc().sound(&["workloads", "nic", "scenario"]) {
        plan.messages = drawn.get_or_draw(root.doc(), MessageInputs::new(&plan, &scenarios[0])).unwrap_or_default();
        for scenario in &mut scenarios {
            let with_messages = scenario.traffic.iter_mut().zip(&*plan.messages);
            with_messages.for_each(|(traffic, sends)| traffic.source = sends.clone());
            let notes = notes::of_traffic(scenario);
            scenario.notes.extend(notes);
        }
    }
    (plan, scenarios)
}
