//! A scenario as a file: a topology, its hosts and flows, and runs that differ in the switches' settings.
//!
//! Each run makes the switches' own files out of the scenario's, and reads them as any switch's file is read, so that every rule
//! of theirs holds; what is wrong is told at the scenario's line. `docs/SCENARIOS.md` is the reference.

mod assemble;
mod build;
mod complaints;
mod compose;
mod control;
mod drawn;
mod fabrics;
mod faults;
mod forwarding;
mod host_names;
mod keys;
mod kinds;
mod messages;
mod nic;
mod outages;
mod plan;
mod reach;
mod reading;
mod receive_limits;
mod slow_receivers;
mod switches;
#[cfg(test)]
mod tests;
mod topology;
mod traffic;
mod ways;
mod workloads;

use std::path::Path;
use std::sync::Arc;

use weir_config::ConfigErrors;
use weir_reader::{Table, read_file, read_text};

use crate::scenario::{Reach, RealPorts, Scenario};
use crate::topology::Fabric;
use complaints::Complaints;
pub use drawn::Drawn;
use keys::format;
use messages::Terms;
use plan::{Ground, ScenarioPlan};

/// The expected outcome of a run; any other is a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expectation {
    /// `expect = "flow"`: no deadlock.
    #[default]
    Flow,
    /// `expect = "deadlock"`: a deadlock that lasts.
    Deadlock,
    /// `expect = "either"`.
    Either,
}

/// Every table with its keys, in the order of the reference; the file's top level has an empty name.
pub fn known_keys() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    format().tables.iter().map(|table| (table.name, table.keys))
}

/// Whether a name is a key of `[nic]`, flows or workloads, so that no kind of congestion control can have a table of that name.
pub fn is_key(name: &str) -> bool {
    keys::is_beside_kinds(name)
}

/// One run of a scenario's file.
#[derive(Clone, Debug)]
pub struct ScenarioRun {
    /// Its name, in words.
    pub name: String,
    /// What runs. Where the file has no time dilation, it has one by which most machines follow the fastest link.
    pub scenario: Scenario,
    /// What the file expects to come of it.
    pub expects: Expectation,
    /// The time dilation that the file asks for; `None` leaves it to whoever knows the machine: [`ScenarioRun::dilated`].
    pub time_dilation: Option<u32>,
    plan: Arc<ScenarioPlan>,
    number: usize,
}

impl ScenarioRun {
    /// This run at another time dilation, on which the default of `[pfc] reaction` depends, and with it headroom and τ.
    ///
    /// # Errors
    /// What no longer fits.
    pub fn dilated(&self, time_dilation: u32) -> Result<Scenario, ConfigErrors> {
        self.on(Ground { time_dilation, real: None })
    }

    /// This run at a time dilation with the hosts real that say how they are reached, on ports of this machine.
    ///
    /// # Errors
    /// What no longer fits.
    pub fn with_real_hosts(&self, time_dilation: u32, ports: &RealPorts) -> Result<Scenario, ConfigErrors> {
        self.on(Ground { time_dilation, real: Some(ports) })
    }

    /// Whether any host says how it is reached.
    pub fn has_real_hosts(&self) -> bool {
        self.plan.topology.hosts.iter().any(|host| host.real.is_some())
    }

    /// Whether a guest is booted for it, where its hosts are real.
    pub fn boots_guests(&self) -> bool {
        let mut real = self.plan.topology.hosts.iter().filter_map(|host| host.real.as_ref());
        real.any(|real| matches!(real.reach, Reach::Vm { .. }))
    }

    /// Whether a machine is reached by ssh, where its hosts are real: it goes by real time.
    pub fn has_machines(&self) -> bool {
        let mut real = self.plan.topology.hosts.iter().filter_map(|host| host.real.as_ref());
        real.any(|real| matches!(real.reach, Reach::Ssh { .. }))
    }

    fn on(&self, ground: Ground<'_>) -> Result<Scenario, ConfigErrors> {
        let mut complaints = Complaints::default();
        let scenario = assemble::scenario(&self.plan, self.number, ground, &mut complaints);
        match complaints.into_errors(&self.plan) {
            Some(errors) => Err(errors),
            None => Ok(scenario.expect("a run that nothing is wrong with")),
        }
    }
}

/// Reads and checks a scenario's file, and the switches' files that it names. The runs stand in its order; there is one at
/// least.
///
/// # Errors
/// All that is wrong with it, or that a file can't be read.
pub fn load(path: &Path) -> Result<Vec<ScenarioRun>, ConfigErrors> {
    let text = read_file(path, &format())?;
    parse(path, &text)
}

/// Checks a text that stands for the file at `path`: files that it names are beside that one.
///
/// # Errors
/// As [`load`].
pub fn parse(path: &Path, text: &str) -> Result<Vec<ScenarioRun>, ConfigErrors> {
    parse_sharing(path, text, &Drawn::default())
}

/// Does what [`parse`] does, with messages that were drawn for another text if this text's are the same: for texts of which there are many.
///
/// # Errors
/// As [`load`].
pub fn parse_sharing(path: &Path, text: &str, drawn: &Drawn) -> Result<Vec<ScenarioRun>, ConfigErrors> {
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

/// The fabric of a text's `[topology]`, with the links that failed, and nothing else of the text: for thousands of networks of which few run.
/// `None` if there is none, or with anything that is wrong with it.
pub fn fabric(path: &Path, text: &str) -> Option<Fabric> {
    let read = |root: &Table<'_>| fabrics::fabric(&root.table("topology", "topology"));
    let (fabric, _) = read_text(&path.display().to_string(), text, &format(), read).ok()?;
    fabric
}

/// Reads the file, and makes all its runs where its topology is good. Faults are in the document.
fn read(root: &Table<'_>, path: &Path, drawn: &Drawn) -> (ScenarioPlan, Vec<Scenario>) {
    let mut plan = ScenarioPlan::read(root, path);
    let mut scenarios = Vec::new();
    if root.doc().sound(&["topology", "switches", "links", "hosts", "routes"]) {
        let mut complaints = Complaints::default();
        let ground = Ground { time_dilation: plan.dilation(), real: None };
        for run in 0..plan.runs.len() {
            scenarios.extend(assemble::scenario(&plan, run, ground, &mut complaints));
        }
        if let Some(errors) = complaints.into_errors(&plan) {
            root.doc().include(errors);
        }
    }
    if scenarios.len() == plan.runs.len() && root.doc().sound(&["workloads", "nic", "scenario"]) {
        plan.messages = drawn.sent(root.doc(), Terms::of(&plan, &scenarios[0])).unwrap_or_default();
        for scenario in &mut scenarios {
            let with_messages = scenario.traffic.iter_mut().zip(&*plan.messages);
            with_messages.for_each(|(traffic, sends)| traffic.sends = sends.clone());
        }
    }
    (plan, scenarios)
}
