//! How a command ends: 0 well, 1 something failed or was lost, 2 the input was wrong, 3 this machine lacks what right input asks for.
//! With 2 and 3 nothing was started.

use std::process::ExitCode;

use weir_config::ConfigErrors;
use weir_results::run_dir::RunDirError;
use weir_sim::SimRunError;

use crate::has_color;

/// Why the command fails.
#[derive(Debug)]
pub enum Failure {
    /// The configuration is wrong.
    Input(ConfigErrors),
    /// An argument of the command is wrong.
    Argument(String),
    /// The configuration is right, and asks for what this machine does not have, or not now.
    Lacks(ConfigErrors),
    /// This machine, or this build, lacks what the command needs.
    Unavailable(String),
    /// Something failed later, or a run did not keep what it promises.
    Run(String),
}

impl Failure {
    /// What the program ends with. `weir pages` writes the table of all codes for people.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Run(_) => 1,
            Failure::Input(_) | Failure::Argument(_) => 2,
            Failure::Lacks(_) | Failure::Unavailable(_) => 3,
        }
    }

    /// The reason, as plain text.
    pub fn into_message(self) -> String {
        match self {
            Failure::Input(errors) | Failure::Lacks(errors) => errors.render(false).trim_end().to_owned(),
            Failure::Argument(message) | Failure::Unavailable(message) | Failure::Run(message) => message,
        }
    }

    /// Prints the reason to stderr; gives the exit code.
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
            SimRunError::Checkpoint(error) => Failure::Argument(error.to_string()),
            error @ SimRunError::Memory { .. } => Failure::Unavailable(error.to_string()),
            error => Failure::Run(error.to_string()),
        }
    }
}

impl From<RunDirError> for Failure {
    fn from(error: RunDirError) -> Failure {
        Failure::Argument(error.to_string())
    }
}
