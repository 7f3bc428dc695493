//! Errors of the driver as failures of the command.

use std::io;

use weir_bench::BenchError;
use weir_config::ConfigErrors;
use weir_dpdk_driver::DriverError;
use weir_experiments::Failure;
use weir_real::BackendError;

/// A [`Failure`] that the driver's errors turn into by `?`; neither type is this crate's.
pub struct Fault(Failure);

impl From<Fault> for Failure {
    fn from(Fault(failure): Fault) -> Failure {
        failure
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Fault {
        Fault(failure)
    }
}

impl From<DriverError> for Fault {
    fn from(error: DriverError) -> Fault {
        Fault(match error {
            DriverError::Config(errors) => return errors.into(),
            DriverError::DeviceInUse(message) => Failure::Unavailable(message),
            error @ DriverError::Shortages(_) => Failure::Unavailable(error.to_string()),
            error => Failure::Run(error.to_string()),
        })
    }
}

impl From<BenchError> for Fault {
    fn from(error: BenchError) -> Fault {
        match error {
            BenchError::Plan(message) => Fault(Failure::Argument(message)),
            BenchError::Driver(error) => error.into(),
            error => Fault(Failure::Run(error.to_string())),
        }
    }
}

impl From<BackendError> for Fault {
    fn from(error: BackendError) -> Fault {
        match error {
            BackendError::Driver(error) => error.into(),
            error => Fault(Failure::Run(error.to_string())),
        }
    }
}

/// Converts a driver's error to a lack of this machine: faults on any machine were reported when the file was read.
impl From<ConfigErrors> for Fault {
    fn from(errors: ConfigErrors) -> Fault {
        Fault(Failure::Lacks(errors))
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault(error.into())
    }
}
