//! TOML files: a switch's, and a scenario's.

use std::sync::LazyLock;

use weir_config::ConfigErrors;
use weir_switch_core::{DriverConfig, PortInfo, Switch};

use super::{assert_line, bounded};
use crate::CaseOutcome;
use crate::input::FuzzInput;
use crate::mutation::{SeedFiles, repository};

/// Switches' files, with and without errors.
static SWITCHES: LazyLock<SeedFiles> = LazyLock::new(|| {
    SeedFiles::read(&[
        ("config/tests", "toml"),
        ("scenarios/bounced-back", "toml"),
        ("scenarios/papers/spfc/spfc.12", "toml"),
        ("scenarios/server-82599.toml", ""),
        ("scenarios/server-82599.toml", ""),
        ("scenarios/server-connectx.toml", ""),
        ("scenarios/lab-veth-4.toml", ""),
        ("scenarios/lab-gfc-veth-4.toml", ""),
        ("scenarios/spfc-testbed-82599.toml", ""),
    ])
});
static SCENARIOS: LazyLock<SeedFiles> = LazyLock::new(|| {
    SeedFiles::read(&[("scenarios", "toml"), ("testbed/scenario/tests", "toml"), ("examples", "toml")])
});

/// Checks a switch's file, and builds its switch.
///
/// # Panics
/// If an invariant does not hold.
pub fn configuration(bytes: &[u8]) -> CaseOutcome {
    let file = SWITCHES.draw(&mut FuzzInput::new(bytes));
    let Ok(text) = String::from_utf8(file) else { return CaseOutcome { is_refused: true, ..CaseOutcome::default() } };
    bounded(|| {
        if let Err(errors) = weir_config::parse_for_virtual_time("fuzz.toml", &text) {
            check_errors(&text, "fuzz.toml", &errors);
        }
        match weir_config::parse("fuzz.toml", &text) {
            Ok(config) => {
                let infos = vec![PortInfo::default(); config.ports.len()];
                // A switch without rates of its ports is an error here.
                let _ = Switch::new(&config, &infos, DriverConfig::real_time(weir_flowctl::CatchUp::NONE));
                let again = weir_config::parse("fuzz.toml", &text).expect("a text that was accepted");
                assert_eq!(format!("{config:?}"), format!("{again:?}"));
                true
            }
            Err(errors) => {
                check_errors(&text, "fuzz.toml", &errors);
                false
            }
        }
    })
}

/// Checks a scenario's file, and builds its runs.
///
/// # Panics
/// If an invariant does not hold.
pub fn scenario(bytes: &[u8]) -> CaseOutcome {
    let file = SCENARIOS.draw(&mut FuzzInput::new(bytes));
    let Ok(text) = String::from_utf8(file) else { return CaseOutcome { is_refused: true, ..CaseOutcome::default() } };
    // Other files that it names are found.
    let path = repository().join("scenarios/fuzz.toml");
    bounded(|| match weir_scenario::file::parse(&path, &text) {
        Ok(runs) => {
            assert!(!runs.is_empty());
            runs.iter().for_each(|run| drop(run.scenario.check()));
            true
        }
        Err(errors) => {
            check_errors(&text, &path.display().to_string(), &errors);
            false
        }
    })
}

/// Checks that errors can be shown, and that those of this text are within it.
pub(super) fn check_errors(text: &str, name: &str, errors: &ConfigErrors) {
    assert!(errors.iter().next().is_some() && !errors.render(false).is_empty() && !errors.to_string().is_empty());
    for error in errors.iter().filter(|error| error.file() == name) {
        assert!(!error.message().is_empty());
        error.line().into_iter().for_each(|line| assert_line(text, line, error));
    }
}
