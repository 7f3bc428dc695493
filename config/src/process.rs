//! Rules between the files of one process.

use weir_reader::Problem;

use crate::{ConfigError, ConfigErrors, Device, IdlePolicy, SwitchConfig};

/// Checks switches that run in one process against each other. Their names must differ, and their time dilation must be equal. No device is
/// used twice, every ring has two ends, and only switches that yield or sleep share cores.
///
/// # Errors
/// All conflicts; each points at the later of the two files and names the line of the other.
pub fn check_process(switches: &[SwitchConfig]) -> Result<(), ConfigErrors> {
    let mut errors = Vec::new();
    for (index, switch) in switches.iter().enumerate() {
        for earlier in &switches[..index] {
            clashes(earlier, switch, &mut errors);
        }
    }
    ring_ends(switches, &mut errors);
    ConfigErrors::joined(errors.into_iter().map(ConfigErrors::from)).map_or(Ok(()), Err)
}

/// Records conflicts of a later file with an earlier one.
fn clashes(earlier: &SwitchConfig, later: &SwitchConfig, errors: &mut Vec<ConfigError>) {
    let mut clash = |key: &str, message: String, help: &str| {
        errors.push(later.source.error(Problem::new(message, help).with_label(key, "")));
    };
    if earlier.name == later.name {
        let message =
            format!("the switch is named \"{}\", as is the one in {}", later.name, place(earlier, "switch.name"));
        clash("switch.name", message, "write another name in [switch]");
    }
    if earlier.time_dilation != later.time_dilation {
        let message = format!(
            "`time_dilation` is {}, but {} in {}: the switches of a process share a clock",
            later.time_dilation,
            earlier.time_dilation,
            place(earlier, "switch.time_dilation")
        );
        clash("switch.time_dilation", message, "write the same time_dilation in all files");
    }
    if earlier.idle == IdlePolicy::Poll || later.idle == IdlePolicy::Poll {
        for (index, core) in later.lcores.cores.iter().enumerate() {
            let Some(other) = earlier.lcores.cores.iter().position(|other| other == core) else { continue };
            let message = format!(
                "core {core} is also in `cores` of {}, and a switch with `idle` \"poll\" never gives it up",
                place(earlier, &format!("lcores.cores[{other}]"))
            );
            let help = "name other cores, or write idle = \"yield\" in both files";
            clash(&format!("lcores.cores[{index}]"), message, help);
        }
    }
    for (index, port) in later.ports.iter().enumerate() {
        if matches!(port.device, Device::Ring(_)) {
            continue;
        }
        let duplicate = earlier.ports.iter().position(|other| port.device.shares_with(&other.device));
        if let Some(other) = duplicate {
            let other_key = format!("ports[{other}].{}", earlier.ports[other].device.key());
            let message = format!(
                "{} is the device of port \"{}\" in {} too",
                port.device,
                earlier.ports[other].name,
                place(earlier, &other_key)
            );
            clash(&format!("ports[{index}].{}", port.device.key()), message, "give each port its own device");
        }
    }
}

/// Checks that exactly two ports of all files name each ring.
fn ring_ends(switches: &[SwitchConfig], errors: &mut Vec<ConfigError>) {
    let mut ends: Vec<(&str, &SwitchConfig, usize)> = Vec::new();
    for switch in switches {
        for (index, port) in switch.ports.iter().enumerate() {
            if let Device::Ring(name) = &port.device {
                ends.push((name, switch, index));
            }
        }
    }
    for (at, (name, switch, port)) in ends.iter().enumerate() {
        let count = ends.iter().filter(|(other, ..)| other == name).count();
        let before = ends[..at].iter().filter(|(other, ..)| other == name).count();
        let (message, help) = match (count, before) {
            (1, _) => (
                format!("ring \"{name}\" has this one end only"),
                format!("write ring = \"{name}\" in one more port, of this switch or of another in the same process"),
            ),
            (_, 2..) => (
                format!("a third port is on ring \"{name}\", which has two ends"),
                "give this link another name".to_owned(),
            ),
            _ => continue,
        };
        errors.push(switch.source.error(Problem::new(message, help).with_label(format!("ports[{port}].ring"), "")));
    }
}

fn place(switch: &SwitchConfig, key: &str) -> String {
    match switch.source.line_of(key) {
        Some(line) => format!("{}:{line}", switch.source.name()),
        None if switch.source.name().is_empty() => format!("switch \"{}\"", switch.name),
        None => switch.source.name().to_owned(),
    }
}
