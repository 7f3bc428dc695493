//! Parsing and checking of a configuration file.

mod address;
mod buffer;
mod classes;
mod clones;
mod device;
mod flow_control;
mod flow_rules;
pub(crate) mod kinds;
mod nic;
mod policy;
mod ports;
mod reserves;
mod rules;
mod switch;
mod vlans;
mod watchdog;

use std::path::Path;

use weir_reader::{Format, Table, read_file, read_text};
use weir_units::{LargePortSet, PortBitmap, PortSet};

use crate::keys::TABLES;
use crate::{ConfigErrors, SwitchConfig};

pub use device::read as read_device;

fn format() -> Format {
    Format { what: "a switch's TOML file", reference: "docs/CONFIGURATION.md", repeated: "[[ports]]", tables: &TABLES }
}

/// Reads and checks a file.
///
/// # Errors
/// All errors of the file; or the file can't be read or is not UTF-8.
pub fn load(path: &Path) -> Result<SwitchConfig, ConfigErrors> {
    let text = read_file(path, &format())?;
    parse(&path.display().to_string(), &text)
}

/// Checks a text. `name` is the file's name in messages, and by default the switch's name.
///
/// # Errors
/// All errors of the text. A syntax error of TOML is reported alone: keys after it can't be trusted.
pub fn parse(name: &str, text: &str) -> Result<SwitchConfig, ConfigErrors> {
    parse_with(PortSet::PORTS_MAX, name, text)
}

/// Checks a text as [`parse`] does, for a switch that runs in virtual time only: up to [`LargePortSet::PORTS_MAX`] ports, where lcores keep
/// their ports in one word, and no VLANs.
///
/// # Errors
/// Those of [`parse`].
pub fn parse_for_virtual_time(name: &str, text: &str) -> Result<SwitchConfig, ConfigErrors> {
    parse_with(LargePortSet::PORTS_MAX, name, text)
}

fn parse_with(ports_max: usize, name: &str, text: &str) -> Result<SwitchConfig, ConfigErrors> {
    let read = |root: &Table<'_>| {
        let config = switch::read(root, name, ports_max);
        rules::check(root.doc(), &config);
        if ports_max > PortSet::PORTS_MAX {
            vlans::refuse(root.doc(), &config);
        }
        config
    };
    let (mut config, source) = read_text(name, text, &format(), read)?;
    config.source = source;
    Ok(config)
}
