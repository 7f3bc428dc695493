//! Commands to a running switch and its discovery: `weir clear` here, `weir show` in its own module.

use std::path::PathBuf;

use clap::{ArgMatches, Command, FromArgMatches, Subcommand};
use weir_control::protocol::{ClearRequest, Clearable, Reply, Request};
use weir_control::{Client, ClientError, sockets};
use weir_experiments::Failure;
use weir_experiments::files::json_text;

use crate::command_table::{PathCommand, command_of, has_command, with_commands};

/// Selection of a running switch.
#[derive(Clone, clap::Args)]
pub(crate) struct Target {
    /// The control socket of the run, as `weir run` logs it. Without this, the sockets at the usual places are tried.
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The switch, where several run.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) switch: Option<String>,
}

/// Arguments of `weir clear`.
#[derive(clap::Args)]
pub(crate) struct ClearArguments {
    #[command(flatten)]
    target: Target,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    what: ClearCommand,
}

/// State to clear.
struct ClearCommand(Clearable);

impl FromArgMatches for ClearCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<ClearCommand, clap::Error> {
        command_of(matches, CLEAR).map(|(command, _)| ClearCommand(command.target))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = ClearCommand::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for ClearCommand {
    fn augment_subcommands(command: Command) -> Command {
        with_commands(command, CLEAR, &[], |_| false)
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        ClearCommand::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        has_command(CLEAR, name)
    }
}

const fn clear_command(path: &'static str, clearable: Clearable) -> PathCommand<Clearable> {
    let help = match clearable {
        Clearable::Counters => "Count from 0 for all clients. The run's summary, record and metrics go on.",
        Clearable::Watermarks => "Reset watermarks, except the persistent ones.",
        Clearable::PersistentWatermarks => "Reset persistent watermarks. The run's summary and metrics go on.",
        Clearable::Mac => "Forget the addresses that were learned.",
    };
    PathCommand { path, help, target: clearable }
}

/// Weir's commands, and those of SONiC's sonic-clear. Each clears all counters, all watermarks, or all persistent ones.
#[rustfmt::skip]
static CLEAR: &[PathCommand<Clearable>] = &[
    clear_command("counters", Clearable::Counters),
    clear_command("watermarks", Clearable::Watermarks),
    clear_command("mac", Clearable::Mac),
    clear_command("pfccounters", Clearable::Counters),
    clear_command("queuecounters", Clearable::Counters),
    clear_command("dropcounters", Clearable::Counters),
    clear_command("queue wredcounters", Clearable::Counters),
    clear_command("queue watermark unicast", Clearable::Watermarks),
    clear_command("queue watermark multicast", Clearable::Watermarks),
    clear_command("queue watermark all", Clearable::Watermarks),
    clear_command("priority-group drop counters", Clearable::Counters),
    clear_command("priority-group watermark headroom", Clearable::Watermarks),
    clear_command("priority-group watermark shared", Clearable::Watermarks),
    clear_command("buffer_pool watermark", Clearable::Watermarks),
    clear_command("headroom-pool watermark", Clearable::Watermarks),
    clear_command("fdb all", Clearable::Mac),
    clear_command("queue persistent-watermark unicast", Clearable::PersistentWatermarks),
    clear_command("queue persistent-watermark multicast", Clearable::PersistentWatermarks),
    clear_command("queue persistent-watermark all", Clearable::PersistentWatermarks),
    clear_command("priority-group persistent-watermark headroom", Clearable::PersistentWatermarks),
    clear_command("priority-group persistent-watermark shared", Clearable::PersistentWatermarks),
    clear_command("buffer_pool persistent-watermark", Clearable::PersistentWatermarks),
    clear_command("headroom-pool persistent-watermark", Clearable::PersistentWatermarks),
];

/// Runs `weir clear`: resets counters, watermarks or learned addresses.
pub(crate) fn clear(arguments: &ClearArguments) -> Result<(), Failure> {
    let ClearCommand(what) = arguments.what;
    let mut client = arguments.target.connect()?;
    match client
        .ask(&Request::Clear(ClearRequest { what, switch: arguments.target.switch.clone() }))
        .map_err(failure)?
    {
        Reply::Done(lines) if arguments.json => print!("{}", json_text(&serde_json::json!({ "done": lines }))),
        Reply::Done(lines) => lines.iter().for_each(|line| println!("{line}")),
        _ => return Err(failure(client.unexpected_reply())),
    }
    Ok(())
}

impl Target {
    /// Selects the only switch of the run with this socket.
    pub(crate) fn of_socket(socket: PathBuf) -> Target {
        Target { socket: Some(socket), switch: None }
    }

    /// Connects to the selected run.
    ///
    /// # Errors
    /// If no run matches, or several do.
    pub(crate) fn connect(&self) -> Result<Client, Failure> {
        if let Some(path) = &self.socket {
            return Client::connect(path).map_err(failure);
        }
        let (mut runs, mut silent) = (Vec::new(), Vec::new());
        for path in sockets() {
            match Client::connect(&path).and_then(|mut client| Ok((client.hello()?, client))) {
                Ok((hello, client)) => {
                    runs.push(RunningProcess { path, switches: hello.switches, process: hello.process, client })
                }
                // A socket that a killed process left is not reported.
                Err(ClientError::Connect { error, .. }) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
                Err(error) => silent.push(error.to_string()),
            }
        }
        let wanted = self.switch.as_ref();
        let is_wanted = |run: &RunningProcess| wanted.is_none_or(|name| run.switches.contains(name));
        let (mut meant, others): (Vec<RunningProcess>, Vec<RunningProcess>) = runs.into_iter().partition(is_wanted);
        match (meant.pop(), meant.is_empty()) {
            (Some(run), true) => Ok(run.client),
            (Some(last), false) => {
                meant.push(last);
                let help = if wanted.is_some() { "--socket PATH" } else { "--switch NAME or --socket PATH" };
                Err(Failure::Argument(format!("several runs are meant: {}; choose one with {help}", listed(&meant))))
            }
            (None, _) => Err(Failure::Argument(no_match_error(wanted, &others, &silent))),
        }
    }
}

/// Process that answered.
struct RunningProcess {
    path: PathBuf,
    switches: Vec<String>,
    process: u32,
    client: Client,
}

/// `lab (process 77, /run/weir/lab.control), left+right (…)`.
fn listed(runs: &[RunningProcess]) -> String {
    let run =
        |run: &RunningProcess| format!("{} (process {}, {})", run.switches.join("+"), run.process, run.path.display());
    runs.iter().map(run).collect::<Vec<_>>().join(", ")
}

fn no_match_error(wanted: Option<&String>, others: &[RunningProcess], silent: &[String]) -> String {
    let mut text = match (wanted, others) {
        (Some(name), []) => format!("no running switch is named `{name}`, and no other one answers"),
        (Some(name), others) => format!("no running switch is named `{name}`; there is {}", listed(others)),
        (None, _) => "no switch runs here that this user may ask".to_owned(),
    };
    silent.iter().for_each(|message| text += &format!("; {message}"));
    text + ": start one with `weir run FILE`, or name its socket with --socket PATH"
}

/// Maps a client's error to wrong input, or to a failed run.
pub(crate) fn failure(error: ClientError) -> Failure {
    if error.is_failure() { Failure::Run(error.to_string()) } else { Failure::Argument(error.to_string()) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: ClearArguments,
    }

    #[test]
    fn sonics_commands_clear_counters_or_watermarks() {
        for (line, expected) in [
            ("clear counters", Clearable::Counters),
            ("clear pfccounters", Clearable::Counters),
            ("clear queuecounters", Clearable::Counters),
            ("clear dropcounters", Clearable::Counters),
            ("clear priority-group drop counters", Clearable::Counters),
            ("clear priority-group watermark shared", Clearable::Watermarks),
            ("clear queue watermark unicast", Clearable::Watermarks),
            ("clear buffer_pool watermark", Clearable::Watermarks),
            ("clear headroom-pool watermark", Clearable::Watermarks),
            ("clear queue persistent-watermark unicast", Clearable::PersistentWatermarks),
            ("clear priority-group persistent-watermark headroom", Clearable::PersistentWatermarks),
            ("clear buffer_pool persistent-watermark", Clearable::PersistentWatermarks),
            ("clear fdb all", Clearable::Mac),
        ] {
            let parsed = Line::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(parsed.arguments.what.0, expected, "{line}");
        }
        assert!(Line::try_parse_from(["clear"]).is_err() && Line::try_parse_from(["clear", "queue"]).is_err());
    }
}
