//! Commands to a running switch and its discovery: `weir clear` here, `weir show` in its own module.

use std::path::PathBuf;

use weir_control::protocol::{ClearRequest, Clearable, Reply, Request};
use weir_control::{Client, ClientError, sockets};
use weir_experiments::Failure;
use weir_experiments::files::json_text;

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

#[derive(Clone, Copy, clap::Subcommand)]
enum ClearCommand {
    /// Count from 0 for all clients. The run's summary, record and metrics go on.
    Counters,
    /// Reset watermarks, except the persistent ones.
    Watermarks,
    /// Forget the addresses that were learned.
    Mac,
}

/// Runs `weir clear`: resets counters, watermarks or learned addresses.
pub(crate) fn clear(arguments: &ClearArguments) -> Result<(), Failure> {
    let what = match arguments.what {
        ClearCommand::Counters => Clearable::Counters,
        ClearCommand::Watermarks => Clearable::Watermarks,
        ClearCommand::Mac => Clearable::Mac,
    };
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
