//! Errors between a configuration and a running switch.

use weir_config::ConfigErrors;
use weir_dpdk_io::{EalError, LcorePanic, MempoolError, PortError};
use weir_switch_core::burst::PlanError;

use crate::nics::DeviceIssue;

/// Reason why switches do not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The configuration does not fit this machine; points at the line.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// A device that is no switch's port is another process's, or can't be locked.
    #[error("{0}")]
    DeviceInUse(String),
    /// Memory or limits of this process that are too small, each with the command that ends the shortage.
    #[error("{}", lines(.0))]
    Shortages(Vec<DeviceIssue>),
    /// DPDK does not start.
    #[error("DPDK does not start: {0}")]
    Eal(#[from] EalError),
    /// The packet memory could not be allocated.
    #[error("no packet memory: {0}; make [buffer] size smaller or cell_bytes larger, or reserve hugepages")]
    Memory(#[from] MempoolError),
    /// A port failed after it was there.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The layout does not fit the lcores.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// An lcore's code panicked: a bug.
    #[error("an lcore stopped by a bug: {0}")]
    Panicked(#[from] LcorePanic),
    /// An lcore did not answer in time.
    #[error("an lcore does not answer: {0}")]
    Stuck(String),
}

/// Joins issues, one a line.
fn lines(findings: &[DeviceIssue]) -> String {
    findings.iter().map(|found| format!("{}; {}", found.message, found.help)).collect::<Vec<_>>().join("\n")
}
