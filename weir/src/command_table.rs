//! Commands of several words, such as `show queue watermark unicast`, from one table.

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, error::ErrorKind};

/// Command with its words.
pub(crate) struct PathCommand<T: 'static> {
    /// Words after the first command's. A last word that begins with `--` is an option.
    pub(crate) path: &'static str,
    pub(crate) help: &'static str,
    pub(crate) target: T,
}

/// Adds the table's commands as subcommands. Those without further words take a port if `has_ports`.
/// Words may be abbreviated, as in SONiC.
pub(crate) fn with_commands<T>(
    parent: Command,
    table: &'static [PathCommand<T>],
    groups: &'static [(&'static str, &'static str)],
    has_ports: fn(&T) -> bool,
) -> Command {
    let node = |parent: Command, prefix: &str| add(parent, prefix, table, groups, has_ports);
    node(parent, "").infer_subcommands(true).subcommand_required(true).arg_required_else_help(true)
}

fn add<T>(
    parent: Command,
    prefix: &str,
    table: &'static [PathCommand<T>],
    groups: &'static [(&'static str, &'static str)],
    has_ports: fn(&T) -> bool,
) -> Command {
    let mut command = parent;
    let (mut done, mut options): (Vec<&'static str>, Vec<&'static str>) = Default::default();
    for rest in table.iter().filter_map(|of| of.path.strip_prefix(prefix)) {
        let rest = rest.trim_start();
        let Some(word) = rest.split(' ').next().filter(|word| !word.is_empty() && !done.contains(word)) else {
            continue;
        };
        done.push(word);
        let path = format!("{prefix}{word}");
        let own = table.iter().find(|of| of.path == path);
        let help = || own.map_or_else(|| group(groups, &path), |of| of.help);
        if let Some(option) = word.strip_prefix("--") {
            let arg = Arg::new(option).long(option).action(ArgAction::SetTrue).help(help().trim_end_matches('.'));
            let arg = match option {
                // SONiC's short forms.
                "printall" | "all" => arg.short('a'),
                "trim" => arg.short('T'),
                "empty" => arg.short('e'),
                _ => arg,
            };
            command = command.arg(arg);
            options.push(option);
            continue;
        }
        let below = format!("{path} ");
        let has_more = table.iter().any(|of| of.path.strip_prefix(&below).is_some_and(|rest| !rest.starts_with("--")));
        let child = Command::new(word).about(help().trim_end_matches('.')).infer_subcommands(true);
        let mut child = add(child, &below, table, groups, has_ports);
        if own.is_none() {
            child = child.subcommand_required(true).arg_required_else_help(true);
        } else if own.is_some_and(|of| has_ports(&of.target)) && !has_more {
            child = child.arg(Arg::new(INTERFACE).value_name("PORT").help("Show this port only"));
        }
        command = command.subcommand(child);
    }
    // Options exclude each other.
    if options.is_empty() { command } else { command.group(ArgGroup::new("options").args(options)) }
}

/// Command of parsed arguments, and the arguments after its last word.
pub(crate) fn command_of<'a, T>(
    matches: &'a ArgMatches,
    table: &'static [PathCommand<T>],
) -> Result<(&'static PathCommand<T>, &'a ArgMatches), clap::Error> {
    let (mut names, mut own) = (Vec::new(), matches);
    while let Some((word, below)) = own.subcommand() {
        names.push(word.to_owned());
        own = below;
    }
    let path = names.join(" ");
    let is_option = |of: &&PathCommand<T>| {
        let option = of.path.strip_prefix(&path).and_then(|rest| rest.strip_prefix(" --"));
        option.is_some_and(|option| own.try_get_one::<bool>(option).ok().flatten() == Some(&true))
    };
    let found = table.iter().find(is_option).or_else(|| table.iter().find(|of| of.path == path));
    found.map(|found| (found, own)).ok_or_else(|| clap::Error::new(ErrorKind::MissingSubcommand))
}

/// Whether a command of the table begins with this word.
pub(crate) fn has_command<T>(table: &'static [PathCommand<T>], word: &str) -> bool {
    table.iter().any(|of| of.path.split(' ').next() == Some(word))
}

/// Argument of the port that a command is asked of.
pub(crate) const INTERFACE: &str = "interface";

fn group(groups: &'static [(&'static str, &'static str)], path: &str) -> &'static str {
    groups.iter().find(|(of, _)| *of == path).map_or("", |(_, help)| help)
}
