//! How the command ends: 0 well, 1 something failed or was lost, 2 the input was wrong and nothing was started.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use weir_config::{ConfigErrors, SwitchConfig};
use weir_dpdk_driver::DriverError;
use weir_switch_core::flow_control;

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
                eprint!("{}", errors.render(std::io::stderr().is_terminal()));
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

impl From<DriverError> for Failure {
    fn from(error: DriverError) -> Failure {
        match error {
            DriverError::Config(errors) => Failure::Input(errors),
            DriverError::Taken(message) => Failure::Argument(message),
            error => Failure::Run(error.to_string()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::Run(error.to_string())
    }
}

/// Reads all files, and reports what is wrong in any of them: thresholds that break their theorem too, before anything starts.
pub fn load_all(files: &[PathBuf]) -> Result<Vec<SwitchConfig>, Failure> {
    let (mut switches, mut errors) = (Vec::new(), Vec::new());
    if let Some(scenario) = files.iter().find(|file| is_scenario(file)) {
        let name = scenario.display();
        return Err(Failure::Argument(format!("{name} is a scenario and not a switch: weir testbed run {name}")));
    }
    for file in files {
        match weir_config::load(file).and_then(|switch| flow_control::check(&switch).map(|()| switch)) {
            Ok(switch) => switches.push(switch),
            Err(wrong) => errors.push(wrong),
        }
    }
    match ConfigErrors::joined(errors) {
        Some(errors) => Err(errors.into()),
        None => {
            weir_config::check_together(&switches)?;
            Ok(switches)
        }
    }
}

/// Whether a file is a scenario's, of which a switch's reader would only say that it knows none of its tables.
fn is_scenario(file: &Path) -> bool {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().any(|line| matches!(line.trim(), "[scenario]" | "[[switches]]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_thresholds_are_wrong_input_of_every_command() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("lab.toml");
        let with = |b_1: &str| {
            let gfc = format!("{{ kind = \"gfc-buffer\", tau = \"60us\", b_m = \"300KB\", b_1 = \"{b_1}\" }}");
            let port = |name| {
                format!("[[ports]]\nname = \"{name}\"\ntap = \"{name}\"\nrate = \"10Gbps\"\nflow_control = {gfc}\n")
            };
            std::fs::write(&file, format!("[classes]\nlossless = [3]\n{}{}", port("a"), port("b"))).unwrap();
            load_all(std::slice::from_ref(&file))
        };
        assert!(with("150KB").is_ok());
        let Err(Failure::Input(errors)) = with("151KB") else { panic!("accepted") };
        assert_eq!(errors.iter().map(|error| error.line()).collect::<Vec<_>>(), [Some(7), Some(12)]);
    }
}
