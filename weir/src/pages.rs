//! Pages generated from the command line's description: man pages, shell completions, the table in docs/COMMANDS.md; and the
//! documentation as a site.

mod commands;
mod exit_codes;
mod man;
mod site;

use std::io;
use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;
use weir_experiments::Failure;
use weir_experiments::report::write;

/// Arguments of `weir completions`.
#[derive(clap::Args)]
pub(crate) struct CompletionsArguments {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Arguments of `weir pages`.
#[derive(clap::Args)]
pub(crate) struct PagesArguments {
    /// Write a man page for each command into this directory.
    #[arg(long, value_name = "DIR", required_unless_present_any = ["commands", "site"])]
    man: Option<PathBuf>,
    /// Write the table of commands and exit codes, docs/COMMANDS.md, to this file.
    #[arg(long, value_name = "FILE")]
    commands: Option<PathBuf>,
    /// Write README, docs/ and the papers' results as HTML to this directory; it needs no network, and every link resolves.
    #[arg(long, value_name = "DIR")]
    site: Option<PathBuf>,
    /// Folder with the pages of the site.
    #[arg(long, value_name = "DIR", default_value = ".", requires = "site")]
    of: PathBuf,
}

/// Prints the completions of a shell for a command line.
pub(crate) fn completions(arguments: &CompletionsArguments, mut command: Command) {
    clap_complete::generate(arguments.shell, &mut command, "weir", &mut io::stdout());
}

/// Writes the requested pages of a command line.
pub(crate) fn pages(arguments: &PagesArguments, command: Command) -> Result<(), Failure> {
    let command = built(command);
    if let Some(directory) = &arguments.man {
        man::write(&command, directory)?;
    }
    if let Some(file) = &arguments.commands {
        write(file, &commands::page(&command))?;
    }
    match &arguments.site {
        Some(directory) => site::write(&arguments.of, directory),
        None => Ok(()),
    }
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
