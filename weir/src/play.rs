//! `weir play`: scenarios of a menu that run live in virtual time, or runs that have ended, in a browser.

mod live_scenario;
mod live_site;
mod session;
mod tail_reader;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_experiments::report::RecordedRuns;
use weir_experiments::run::{self, RunArguments};
use weir_experiments::{Failure, experiment};
use weir_units::Span;
use weir_web::{HttpListener, RecordedSite, Site, http_address, is_local};

use live_site::{LiveRunsSite, SPEED_DEFAULT};

/// Arguments of `weir play`.
#[derive(clap::Args)]
pub(crate) struct PlayArguments {
    /// Directories of runs, as `weir run -o`, `weir testbed run`, `weir demo` and `weir sweep` leave them, or folders of several such;
    /// or one scenario, whose runs then first run in virtual time. Without it, a menu of five scenarios, which run live, with sliders.
    #[arg(value_name = "DIR | SCENARIO.toml")]
    what: Vec<PathBuf>,
    /// Play only this run of a scenario, by the beginning of its name; repeat it for several.
    #[arg(long = "run", value_name = "NAME")]
    runs: Vec<String>,
    /// The directory of a scenario's results; by default runs/ and the scenario's name, or runs/play for those of the menu.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Time of a run that plays in a second, as 1ms or 50us; without it, a run takes about 20 s, and the menu's have 1ms. The page can
    /// change it.
    #[arg(long, value_name = "TIME")]
    speed: Option<Span>,
    /// Serve the page at this address: an IP address and a port, or the port alone, for this machine; 0 takes a free port.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9180")]
    http: String,
}

/// Interval of checks for a signal.
const TICK: Duration = Duration::from_millis(100);

/// Serves the page until SIGINT or SIGTERM.
pub(crate) fn play(arguments: &PlayArguments) -> Result<(), Failure> {
    if arguments.speed == Some(Span::ZERO) {
        return Err(Failure::Argument("--speed 0s: nothing would move; write a time such as 1ms".to_owned()));
    }
    let wrong = |message: String| Failure::Argument(format!("--http {}: {message}", arguments.http));
    let bound =
        HttpListener::bind(http_address(&arguments.http).map_err(wrong)?).map_err(|error| wrong(error.to_string()))?;
    if arguments.what.is_empty() {
        return serve_live(arguments, bound);
    }
    let runs = RecordedRuns::read(&arguments.directories()?)?;
    let without = runs.without_samples();
    if without.len() == runs.labels().len() {
        return Err(Failure::Argument(format!(
            "{}: there is no series.csv, and so nothing to play; weir testbed run and weir run -o write one",
            without.join(", ")
        )));
    }
    let (title, labels) = (runs.title(), runs.labels());
    let count = if labels.len() == 1 { "one run".to_owned() } else { format!("{} runs", labels.len()) };
    let speed = arguments.speed.map(|span| span.as_nanos() as f64 / 1e6);
    let site = RecordedSite::new(title, labels, speed, Box::new(move |run| runs.json(run)));
    serve(bound, Box::new(site), &count, "sees these runs")
}

/// Serves the scenarios of the menu, which run live.
fn serve_live(arguments: &PlayArguments, bound: HttpListener) -> Result<(), Failure> {
    if !arguments.runs.is_empty() {
        let message = "--run is for a scenario's file: name it, or take --run out for the menu";
        return Err(Failure::Argument(message.to_owned()));
    }
    let output = arguments.output.clone().unwrap_or_else(|| PathBuf::from("runs/play"));
    let site = LiveRunsSite::new(output, arguments.speed.unwrap_or(SPEED_DEFAULT));
    let served = serve(bound, Box::new(site.clone()), "scenarios live", "sees and changes the runs");
    site.stop();
    served
}

/// Serves a site until a signal. Messages name its content (`count`) and the power of other machines over it (`others`).
fn serve(bound: HttpListener, site: Box<dyn Site>, count: &str, others: &str) -> Result<(), Failure> {
    let stop = experiment::stopped_by_signals()?;
    let server = bound.serve(site)?;
    let address = server.address();
    if !is_local(&address) {
        eprintln!("weir: --http {address}: who reaches this address from other machines {others}, without a password");
    }
    println!("{count}: open http://{address}/ in a browser; Ctrl-C ends this");
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(TICK);
    }
    Ok(())
}

impl PlayArguments {
    /// The runs' directories; those of a scenario are made first.
    fn directories(&self) -> Result<Vec<PathBuf>, Failure> {
        let is_file = |path: &&PathBuf| path.is_file();
        let Some(file) = self.what.iter().find(is_file) else {
            if !self.runs.is_empty() || self.output.is_some() {
                let message = "--run and --output are for a scenario: a directory's runs are chosen in the page, or by their own directories";
                return Err(Failure::Argument(message.to_owned()));
            }
            return Ok(self.what.clone());
        };
        if self.what.len() > 1 {
            let message =
                format!("{} is a file: a scenario is played alone, and so are directories of runs", file.display());
            return Err(Failure::Argument(message));
        }
        if !is_toml(file) {
            let message =
                format!("{} is no scenario: name a scenario's TOML file, or a run's directory", file.display());
            return Err(Failure::Argument(message));
        }
        let arguments = RunArguments::in_virtual_time(file.clone(), self.runs.clone(), self.output.clone());
        let directory = arguments.directory()?;
        match run::run(&arguments) {
            // The page shows the runs' results.
            Ok(()) => {}
            Err(Failure::Run(message)) => eprintln!("weir: {message}"),
            Err(failure) => return Err(failure),
        }
        println!();
        Ok(vec![directory])
    }
}

fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "toml")
}
