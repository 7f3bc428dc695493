//! Pages generated from declarations in the code: man pages, shell completions, the references of keys, commands, metrics and drop
//! reasons; and the documentation as a site.

mod commands;
mod exit_codes;
mod man;
mod notebook;
mod reference;
mod site;

use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;
use weir_experiments::Failure;

/// Arguments of `weir completions`.
#[derive(clap::Args)]
pub(crate) struct CompletionsArguments {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Arguments of `weir keys`.
#[derive(clap::Args)]
pub(crate) struct KeysArguments {
    /// The table: ports, buffer.spfc, topology. Without it, print the names of all tables.
    #[arg(value_name = "TABLE")]
    table: Option<String>,
}

/// Arguments of `weir pages`.
#[derive(clap::Args)]
#[group(required = true, multiple = true)]
pub(crate) struct PagesArguments {
    /// Write a man page for each command into this directory.
    #[arg(long, value_name = "DIR")]
    man: Option<PathBuf>,
    /// Write README, docs/, the references and the papers' results as HTML to this directory; it needs no network, and every link
    /// resolves.
    #[arg(long, value_name = "DIR")]
    site: Option<PathBuf>,
    /// Folder with the pages of the site.
    #[arg(long, value_name = "DIR", default_value = ".", requires = "site")]
    of: PathBuf,
}

/// Prints the completions of a shell for a command line.
pub(crate) fn completions(arguments: &CompletionsArguments, mut command: Command) {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "weir", &mut script);
    print!("{}", String::from_utf8_lossy(&script));
}

/// Writes the requested pages of a command line.
pub(crate) fn pages(arguments: &PagesArguments, command: Command) -> Result<(), Failure> {
    let command = built(command);
    if let Some(directory) = &arguments.man {
        man::write(&command, directory)?;
    }
    let Some(directory) = &arguments.site else { return Ok(()) };
    let mut references = Vec::new();
    // References belong to the pages that they link to.
    if arguments.of.join("docs/CONFIGURATION.md").is_file() {
        references.extend(reference::pages());
        references.push(("docs/COMMANDS.md", commands::page(&command)));
    }
    site::write(&arguments.of, directory, references)
}

/// Prints the keys of a table of files, or the names of all tables.
pub(crate) fn keys(arguments: &KeysArguments) -> Result<(), Failure> {
    let text = match &arguments.table {
        Some(table) => reference::keys_of(table)?,
        None => reference::tables(),
    };
    print!("{text}");
    Ok(())
}

/// Gives the commands of a command line their full names.
fn built(command: Command) -> Command {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    command
}

/// Returns the visible subcommands of a command.
fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set())
}
