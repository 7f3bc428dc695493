//! Failures of a command, with exit codes: 1 for a failure or loss, 2 for invalid input, 3 if this machine lacks a
//! resource that valid input requests. With 2 and 3 nothing was started.

use std::process::ExitCode;

use weir_config::ConfigErrors;
use weir_results::run_dir::RunDirError;
use weir_sim::SimRunError;

use crate::has_color;

/// Reason for a command's failure.
#[derive(Debug)]
pub enum Failure {
    /// The configuration is invalid.
    Input(ConfigErrors),
    /// An argument of the command is invalid.
    Argument(String),
    /// The configuration is valid, but requests a resource that this machine lacks, permanently or now.
    Lacks(ConfigErrors),
    /// The machine or the build lacks a resource that the command needs.
    Unavailable(String),
    /// A failure during the run, or a run that breaks its guarantees.
    Run(String),
}

impl Failure {
    /// Exit code of the program. `weir pages` writes the table of all codes.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Run(_) => 1,
            Failure::Input(_) | Failure::Argument(_) => 2,
            Failure::Lacks(_) | Failure::Unavailable(_) => 3,
        }
    }

    /// Reason as plain text.
    pub fn into_message(self) -> String {
        match self {
            Failure::Input(errors) | Failure::Lacks(errors) => errors.render(false).trim_end().to_owned(),
            Failure::Argument(message) | Failure::Unavailable(message) | Failure::Run(message) => message,
        }
    }

    /// Prints the reason to stderr; returns the exit code.
    pub fn report(self) -> ExitCode {
        let code = self.exit_code();
        match self {
            Failure::Input(errors) | Failure::Lacks(errors) => {
                eprint!("{}", errors.render(has_color(&std::io::stderr())));
            }
            Failure::Argument(message) | Failure::Unavailable(message) | Failure::Run(message) => {
                eprintln!("weir: {message}");
            }
        }
        ExitCode::from(code)
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
            error @ SimRunError::Memory { .. } => Failure::Unavailable(error.to_string()),
            error @ SimRunError::Connections { .. } => Failure::Argument(error.to_string()),
            error => Failure::Run(error.to_string()),
        }
    }
}

impl From<RunDirError> for Failure {
    fn from(error: RunDirError) -> Failure {
        Failure::Argument(error.to_string())
    }
}
