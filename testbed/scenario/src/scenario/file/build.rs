//! Intermediate state of a run's assembly.

use weir_config::{ConfigErrors, SwitchConfig};

use super::plan::{RunContext, ScenarioPlan};
use super::run_diagnostics::RunDiagnostics;
use super::switches::Switches;
use super::topology::PortName;
use crate::scenario::PortRef;

/// A run with valid switches: the input for its hosts, paths and traffic.
pub(super) struct Build<'p> {
    pub plan: &'p ScenarioPlan,
    pub switches: Switches,
    pub run: usize,
    pub context: RunContext<'p>,
}

impl Build<'_> {
    pub(super) fn config(&self, switch: usize) -> &SwitchConfig {
        &self.switches.configs[switch]
    }

    /// Returns the reference of a port. The switches' files, read from the plan, have all its ports.
    pub(super) fn place(&self, port: &PortName) -> PortRef {
        let ports = &self.config(port.switch).ports;
        let place = port.place.or_else(|| ports.iter().position(|other| other.name == port.port));
        PortRef { switch: port.switch, port: place.expect("the file was made with this port") }
    }

    pub(super) fn refuse_of_switch(&self, switch: usize, errors: ConfigErrors, diagnostics: &mut RunDiagnostics) {
        self.switches.refuse(self.run, switch, errors, diagnostics);
    }

    pub(super) fn refuse(&self, key: &str, message: String, help: impl Into<String>, diagnostics: &mut RunDiagnostics) {
        diagnostics.add(self.run, None, self.plan.source.error_at(key, message, help));
    }
}
