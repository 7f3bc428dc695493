//! How a command ends: 0 well, 1 something failed or was lost, 2 the input was wrong and nothing was started.

use std::process::ExitCode;

use weir_config::ConfigErrors;
use weir_results::run_dir::RunDirError;
use weir_sim::SimRunError;

use crate::has_color;

/// Why the command fails.
#[derive(Debug)]
pub enum Failure {
    /// The configuration is wrong, or asks for what this machine does not have.
    Input(ConfigErrors),
    /// An argument of the command is wrong.
    Argument(String),
    /// Something failed later, or a run did not keep what it promises.
    Run(String),
}

impl Failure {
    /// Prints the reason to stderr; gives the exit code.
    pub fn report(self) -> ExitCode {
        match self {
            Failure::Input(errors) => {
                eprint!("{}", errors.render(has_color(&std::io::stderr())));
                ExitCode::from(2)
            }
            Failure::Argument(message) => {
                eprintln!("weir: {message}");
                ExitCode::from(2)
            }
            Failure::Run(message) => {
                eprintln!("weir: {message}");
                ExitCode::FAILURE
            }
        }
    }
}

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Failure {
        Failure::Input(errors)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::Run(error.to_string())
    }
}

impl From<SimRunError> for Failure {
    fn from(error: SimRunError) -> Failure {
        match error {
            SimRunError::Sim(error) => Failure::Argument(error.to_string()),
            error => Failure::Run(error.to_string()),
        }
    }
}

impl From<RunDirError> for Failure {
    fn from(error: RunDirError) -> Failure {
        Failure::Argument(error.to_string())
    }
}
