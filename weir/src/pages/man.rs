//! Man pages: one for each command, with sections that clap does not generate.

use std::fs;
use std::io::Write;
use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use weir_experiments::Failure;
use weir_experiments::files::with_path;

use super::exit_codes::{EXIT_CODES, one_means};
use super::shown;
use crate::version;

const ENVIRONMENT: [(&str, &str); 5] = [
    ("WEIR_LOG", "what is logged: error, warn, info, debug, trace, or such a level for a part: weir_on_dpdk=debug."),
    ("NO_COLOR", "set to anything: no colours."),
    ("TERM", "dumb: no colours."),
    ("XDG_RUNTIME_DIR", "where control sockets of switches are that root does not run, in weir/ below it."),
    ("NOTIFY_SOCKET", "socket for systemd's notifications: a switch forwards, and is alive."),
];

const FILES: [(&str, &str); 3] = [
    ("/etc/weir/NAME.toml", "the switch that the unit weir@NAME.service runs."),
    ("/run/weir/NAME.control", "the control socket of root's switches, and of those that systemd runs."),
    ("/usr/share/doc/weir/", "documentation and examples."),
];

/// Writes the pages of a command and all its subcommands.
pub(super) fn write(command: &Command, directory: &Path) -> Result<(), Failure> {
    fs::create_dir_all(directory).map_err(with_path(directory))?;
    let mut pages = vec![command];
    while let Some(command) = pages.pop() {
        let (name, text) = page(command);
        let path = directory.join(name);
        fs::write(&path, text).map_err(with_path(&path))?;
        pages.extend(shown(command));
    }
    Ok(())
}

/// Returns the page's file name and text.
fn page(command: &Command) -> (String, Vec<u8>) {
    let man = Man::new(command.clone()).manual("Weir").source(format!("weir {}", version::SHORT));
    let name = man.get_filename();
    let mut text = Vec::new();
    render(&man, command, &mut text).expect("memory takes all");
    (name, text)
}

fn render(man: &Man, command: &Command, to: &mut dyn Write) -> std::io::Result<()> {
    man.render_title(to)?;
    man.render_name_section(to)?;
    man.render_synopsis_section(to)?;
    man.render_description_section(to)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(to)?;
    }
    if shown(command).next().is_some() {
        man.render_subcommands_section(to)?;
    }
    let is_root_command = command.get_bin_name() == Some("weir");
    to.write_all(exit_status(command).as_bytes())?;
    if is_root_command {
        to.write_all(list("ENVIRONMENT", &ENVIRONMENT).as_bytes())?;
        to.write_all(list("FILES", &FILES).as_bytes())?;
        man.render_extra_section(to)?;
    } else {
        let mut also = Roff::new();
        also.control("SH", ["SEE ALSO"]);
        also.text([bold("weir"), roman("(1)")]);
        to.write_all(also.to_roff().as_bytes())?;
    }
    Ok(())
}

fn exit_status(command: &Command) -> String {
    let own = command.get_bin_name().and_then(|name| one_means(name.trim_start_matches("weir ")));
    let all = EXIT_CODES.map(|of| {
        let means = if of.code == 1 { own.unwrap_or(of.means) } else { of.means };
        (of.code.to_string(), format!("{means}."))
    });
    list("EXIT STATUS", &all)
}

/// A section with a list.
fn list(title: &str, entries: &[(impl AsRef<str>, impl AsRef<str>)]) -> String {
    let mut section = Roff::new();
    section.control("SH", [title]);
    for (name, what) in entries {
        section.control("TP", []);
        section.text([bold(name.as_ref())]);
        section.text([roman(what.as_ref())]);
    }
    section.to_roff()
}
