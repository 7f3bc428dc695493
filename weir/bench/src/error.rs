//! Errors of a measurement.

use weir_config::ConfigErrors;
use weir_dpdk_driver::DriverError;

/// Error of a measurement without a result.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The plan is invalid, or this machine lacks a resource for it.
    #[error("{0}")]
    Plan(String),
    /// The switch did not start or stop.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The measurement failed while running.
    #[error("{0}")]
    Run(String),
    /// The measurement was interrupted before its first result.
    #[error("interrupted")]
    Interrupted,
    /// A temporary file can't be written.
    #[error("a temporary file: {0}")]
    File(#[from] std::io::Error),
}

impl From<weir_dpdk_io::PortError> for BenchError {
    fn from(error: weir_dpdk_io::PortError) -> BenchError {
        BenchError::Driver(error.into())
    }
}

/// Converts the first error of a configuration made from arguments; omits the source lines, since no file has them.
pub(crate) fn from_arguments(errors: &ConfigErrors) -> BenchError {
    let message = errors.iter().next().map(|error| match error.help_text() {
        "" => error.message().to_owned(),
        help => format!("{}; {help}", error.message()),
    });
    BenchError::Plan(message.unwrap_or_default())
}
