//! Reader of the switch files of a command.

use std::path::{Path, PathBuf};

use weir_config::{ConfigErrors, Device, SwitchConfig};
use weir_switch_core::flow_control;

use crate::Failure;

/// Reads all files. Thresholds that break their theorem are invalid input too, before anything starts.
///
/// # Errors
/// Errors of all files together.
pub fn load_all(files: &[PathBuf]) -> Result<Vec<SwitchConfig>, Failure> {
    let switches = load_each(files)?;
    weir_config::check_process(&switches)?;
    check_rings(&switches)?;
    Ok(switches)
}

/// Checks that the two ports of each ring have the values of their flow control in common.
fn check_rings(switches: &[SwitchConfig]) -> Result<(), ConfigErrors> {
    let all = switches.iter().flat_map(|switch| switch.real_ports().map(move |port| (switch, port)));
    let on_rings = all.filter(|(switch, port)| matches!(switch.ports[*port].device, Device::Ring(_)));
    let ends: Vec<(&SwitchConfig, usize)> = on_rings.collect();
    let device = |(switch, port): (&SwitchConfig, usize)| switch.ports[port].device.clone();
    let mut errors = Vec::new();
    for (at, end) in ends.iter().enumerate() {
        let Some(other) = ends[..at].iter().find(|other| device(**other) == device(*end)) else { continue };
        let names = [*other, *end].map(|(switch, port)| format!("{}.{}", switch.name, switch.ports[port].name));
        if let Some((message, help)) = flow_control::difference([*other, *end], [&names[0], &names[1]]) {
            errors.push(end.0.error_at(&format!("ports[{}].flow_control", end.1), message, help));
        }
    }
    ConfigErrors::joined(errors).map_or(Ok(()), Err)
}

/// Reads all files as [`load_all`], for a caller that connects the switches' links otherwise: a ring may have one end
/// only, and nothing is checked between switches.
///
/// # Errors
/// Errors of all files together.
pub fn load_each(files: &[PathBuf]) -> Result<Vec<SwitchConfig>, Failure> {
    let (mut switches, mut errors) = (Vec::new(), Vec::new());
    let kinds: Vec<(&PathBuf, FileKind)> = files.iter().map(|file| (file, FileKind::detect(file))).collect();
    if let Some((scenario, _)) = kinds.iter().find(|(_, kind)| kind.is_scenario) {
        let name = scenario.display();
        return Err(Failure::Argument(format!("{name} is a scenario and not a switch: weir testbed run {name}")));
    }
    if let Some((sweep, _)) = kinds.iter().find(|(_, kind)| kind.is_sweep) {
        let name = sweep.display();
        return Err(Failure::Argument(format!("{name} is a sweep and not a switch: weir sweep {name}")));
    }
    for file in files {
        match weir_config::load(file).and_then(|switch| flow_control::check(&switch).map(|()| switch)) {
            Ok(switch) => switches.push(switch),
            Err(wrong) => errors.push(wrong),
        }
    }
    match ConfigErrors::joined(errors) {
        Some(errors) => Err(errors.into()),
        None => Ok(switches),
    }
}

/// Kind of a file, by its tables; a reader of another kind would only report unknown tables.
pub(crate) struct FileKind {
    pub(crate) is_scenario: bool,
    pub(crate) is_switch: bool,
    pub(crate) is_sweep: bool,
}

impl FileKind {
    /// Determines the kind of a file; all false if it can't be read.
    pub(crate) fn detect(file: &Path) -> FileKind {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let has = |wanted: &[&str]| text.lines().any(|line| wanted.contains(&line.trim()));
        let is_scenario = has(&["[scenario]", "[[switches]]"]);
        FileKind {
            is_scenario,
            is_switch: !is_scenario && has(&["[[ports]]"]),
            is_sweep: !is_scenario && has(&["[parameters]", "[[zip]]"]),
        }
    }
}

/// Refuses a switch's or sweep's file, and names the right command: `command` for a switch's.
pub(crate) fn refuse_other_than_scenario(file: &Path, command: &str) -> Result<(), Failure> {
    let name = file.display();
    let (kind, command) = match FileKind::detect(file) {
        FileKind { is_switch: true, .. } => ("switch", command),
        FileKind { is_sweep: true, .. } => ("sweep", "weir sweep"),
        _ => return Ok(()),
    };
    Err(Failure::Argument(format!("{name} is a {kind} and not a scenario: {command} {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_kind_is_refused_with_its_command() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("x.toml");
        for (text, expected) in [
            ("[[ports]]\nname = \"a\"\n", Some("is a switch and not a scenario: weir run ")),
            ("scenario = \"a.toml\"\n[parameters]\n", Some("is a sweep and not a scenario: weir sweep ")),
            ("[scenario]\nend = \"1ms\"\n[[switches]]\n", None),
        ] {
            std::fs::write(&file, text).unwrap();
            let refused = refuse_other_than_scenario(&file, "weir run").err().map(Failure::into_message);
            match (refused, expected) {
                (None, None) => {}
                (Some(message), Some(expected)) => assert!(message.contains(expected), "{message}"),
                (refused, _) => panic!("{text}: {refused:?}"),
            }
        }
    }

    #[test]
    fn ports_of_a_ring_count_alike() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("lab.toml");
        let loaded = |limits: [&str; 2]| {
            let port = |limit: &str| {
                format!(
                    "[[ports]]\nname = \"p{limit}\"\nring = \"r\"\nrate = \"10Gbps\"\n\
                     flow_control = {{ kind = \"uec-cbfc\", limit = \"{limit}KB\" }}\n"
                )
            };
            let text = "[buffer]\ncell_bytes = 64\n[classes]\nlossless = [3]\n".to_owned();
            std::fs::write(&file, text + &port(limits[0]) + &port(limits[1]).replacen("name = \"p", "name = \"q", 1))
                .unwrap();
            load_all(std::slice::from_ref(&file)).map_err(Failure::into_message)
        };
        assert!(loaded(["64", "64"]).is_ok());
        let message = loaded(["64", "32"]).unwrap_err();
        assert!(message.contains("`limit` is 1,000 cells at lab.p64, but 500 cells at lab.q32"), "{message}");
        assert!(message.contains("lab.toml:14"), "{message}");
    }

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
