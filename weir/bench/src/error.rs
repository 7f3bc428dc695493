//! Why a measurement gives no figure.

use weir_config::ConfigErrors;
use weir_dpdk_driver::DriverError;

/// Why a measurement gives no figure.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The request makes no sense, or this machine does not have it.
    #[error("{0}")]
    Plan(String),
    /// The switch did not start or stop.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// Something failed on the way.
    #[error("{0}")]
    Run(String),
    /// It was ended before anything was measured.
    #[error("interrupted")]
    Interrupted,
    /// A file of the measurement's own can't be written.
    #[error("a temporary file: {0}")]
    File(#[from] std::io::Error),
}

impl From<weir_dpdk_io::PortError> for BenchError {
    fn from(error: weir_dpdk_io::PortError) -> BenchError {
        BenchError::Driver(error.into())
    }
}

/// The first error of a configuration that arguments made, without the lines of a file that nobody wrote.
pub(crate) fn of_arguments(errors: &ConfigErrors) -> BenchError {
    let said = errors.iter().next().map(|error| match error.help_text() {
        "" => error.message().to_owned(),
        help => format!("{}; {help}", error.message()),
    });
    BenchError::Plan(said.unwrap_or_default())
}
