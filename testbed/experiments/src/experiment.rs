//! Common parts of all experiments: directories of runs, expected duration, and progress.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use indicatif::ProgressBar;
use weir_results::record::Progress;
use weir_results::run_dir::{Provenance, RunDir, RunDirError, Summary};
use weir_scenario::Scenario;
use weir_units::{Span, Time};

use crate::{Failure, progress, real_frames};

/// The backend that runs scenarios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// Virtual time.
    #[default]
    Sim,
    /// Real frames, emulated hosts.
    Dpdk,
    /// Real frames, real hosts.
    Hosts,
}

/// Version of the program, with the commit that it is built from.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("WEIR_COMMIT"), ")");

impl Backend {
    /// Real frames if built in, else virtual time.
    pub fn best() -> Backend {
        if real_frames::is_available() { Backend::Dpdk } else { Backend::Sim }
    }

    /// Name of the backend in options.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Sim => "sim",
            Backend::Dpdk => "dpdk",
            Backend::Hosts => "hosts",
        }
    }

    /// Whether the backend runs in real time, by this machine's clock.
    pub fn is_real(self) -> bool {
        self != Backend::Sim
    }
}

/// Number of cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Flag that SIGINT and SIGTERM set, for a run that ends itself. A second signal ends the process at once, with exit
/// code 1.
pub fn stopped_by_signals() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in STOPS {
        signal_hook::flag::register_conditional_shutdown(signal, 1, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// Starts a thread that calls `act` as soon as signals have set `stop`.
pub fn once_stopped(stop: Arc<AtomicBool>, act: impl FnOnce() + Send + 'static) {
    thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(LOOK_EVERY);
        }
        act();
    });
}

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Ignores SIGINT and SIGTERM, so that the parent of a job's process handles them.
pub(crate) fn ignore_signals() -> io::Result<()> {
    STOPS.iter().try_for_each(|signal| signal_hook::flag::register(*signal, Arc::default()).map(drop))
}

const STOPS: [i32; 2] = [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];

/// Creates a directory for the results of a run of this command.
pub fn directory(path: &Path) -> Result<RunDir, RunDirError> {
    let provenance = Provenance::new(VERSION, std::env::args(), SystemTime::now());
    RunDir::create(path, &provenance)
}

/// Boot time of guests without KVM, on two CPUs, for any number of guests.
pub(crate) const GUEST_BOOT: Duration = Duration::from_secs(30);

/// Number of runs and their duration in a sentence: `3 runs, about 64 s in all.` Guests boot once for all runs.
pub fn outlook(scenarios: &[Scenario]) -> String {
    let seconds: f64 = scenarios
        .iter()
        .map(|scenario| scenario.end.as_nanos() as f64 * 1e-9 * f64::from(scenario.time_dilation()))
        .sum();
    let runs = if scenarios.len() == 1 { "One run".to_owned() } else { format!("{} runs", scenarios.len()) };
    if !scenarios.iter().any(Scenario::boots_guests) {
        return format!("{runs}, about {seconds:.0} s in all.");
    }
    let boot = GUEST_BOOT.as_secs();
    format!("{runs}, about {:.0} s in all, {boot} s of it for guests to boot (without KVM).", seconds + boot as f64)
}

/// Executes a scenario with a progress bar on the terminal, which ends with the text of `message`; names are padded to
/// `width`. `run` starts the backend and passes it the callback for progress.
pub fn run_with_bar(
    name: &str,
    width: usize,
    scenario: &Scenario,
    message: impl Fn(&Progress) -> String,
    run: impl FnOnce(&mut dyn FnMut(&Progress)) -> Result<Summary, Failure>,
) -> Result<Summary, Failure> {
    let bar = progress_bar(name, width, scenario.end.since(Time::ZERO));
    let summary = run(&mut |progress: &Progress| {
        bar.set_position(progress.now.as_nanos() / 1_000);
        bar.set_message(message(progress));
    });
    bar.finish_and_clear();
    summary
}

/// Progress bar for a run, in microseconds of scenario time; `length` is the whole run, and names are padded to
/// `width`.
fn progress_bar(name: &str, width: usize, length: Span) -> ProgressBar {
    let template = format!("{{prefix:>{width}}} [{{bar:32}}] {{pos:>6}} of {{len}} us, {{left}} left  {{msg}}");
    let bar = progress::bar(length.as_micros(), 0, &template);
    bar.set_prefix(name.to_owned());
    bar
}

#[cfg(test)]
mod tests {
    use weir_scenario::RealPorts;
    use weir_scenario::file::load;

    use super::*;

    #[test]
    fn guests_boot_once_for_all_runs() {
        let file = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/rdma-beside-tcp-pools.toml"));
        let runs = load(file).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        let ports = RealPorts { folder: "/run/weir".into(), process: 1 };
        let real: Vec<Scenario> = runs.iter().map(|run| run.with_real_hosts(10, &ports).unwrap()).collect();
        let seconds = |text: &str| -> u64 {
            let after = text.split("about ").nth(1).unwrap_or_else(|| panic!("{text}"));
            after.split(' ').next().unwrap().parse().unwrap()
        };
        let emulated: Vec<Scenario> = real.iter().map(|scenario| Scenario { real: None, ..scenario.clone() }).collect();
        let (with, without) = (outlook(&real), outlook(&emulated));
        assert!(
            with.starts_with(&format!("{} runs, about ", runs.len())) && with.contains("30 s of it for guests to boot"),
            "{with}"
        );
        assert_eq!(seconds(&with), seconds(&without) + 30);
        assert!(without.ends_with(" s in all."), "{without}");
    }
}
