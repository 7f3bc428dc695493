//! How the program comes by DPDK: what needs it is behind [`RealFrames`], and `main` says once where that is.
//!
//! A command calls [`reach`] before it prints or writes anything, because a program without DPDK may then be replaced by one with
//! it, which begins the command anew.

mod bench;
mod finding;
mod machine;
mod replay;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_config::SwitchConfig;
use weir_hosts::Experiment;
use weir_results::record::Progress;
use weir_results::run_dir::{RunDir, Summary};
use weir_scenario::Scenario;
use weir_units::{BitRate, Span};

use crate::Failure;

pub use finding::{Finding, Health};
pub use machine::{Lcores, Machine, MachineFindings, NicFound, OnCpu, PacketMemory, PollGap, SwitchOnMachine};

pub use bench::{BenchCommand, CommonArguments, ForwardingArguments, IdleArguments, PauseArguments, Rfc2544Arguments};
pub use replay::ReplayArguments;

/// What only DPDK can do: switches on ports of this machine, and scenarios with real frames.
pub trait RealFrames: Sync {
    /// Runs switches until a signal.
    ///
    /// # Errors
    /// Wrong input, what this machine lacks, or what the run lost.
    fn run(&self, arguments: &RunArguments) -> Result<(), Failure>;

    /// Tries the first two ports of a file, which are cabled to each other, with these arguments for EAL.
    ///
    /// # Errors
    /// As [`RealFrames::run`]; devices that are not fit for lossless ports.
    fn try_devices(&self, files: &[PathBuf], eal: &[String], json: bool) -> Result<(), Failure>;

    /// What there is of this machine that such switches need, and what is lacking, each with what mends it. Without switches, what any
    /// would need.
    fn examine(&self, switches: &[SwitchConfig]) -> Vec<Finding>;

    /// Sends frames, PFC among them, between the first two ports of a file, which are cabled to each other, or over a link inside the
    /// process, and tells what arrived.
    ///
    /// # Errors
    /// As [`RealFrames::try_devices`].
    fn try_loop(&self, file: Option<&Path>, eal: &[String]) -> Result<Vec<Finding>, Failure>;

    /// Measures switches on this machine.
    ///
    /// # Errors
    /// As [`RealFrames::run`]; frames that are not accounted for.
    fn bench(&self, command: &BenchCommand) -> Result<(), Failure>;

    /// Replays captures into ports of a running switch, which is configured like this, or on devices alone.
    ///
    /// # Errors
    /// As [`RealFrames::run`]; frames that a port did not take.
    fn replay(&self, arguments: &ReplayArguments, switch: Option<&SwitchConfig>) -> Result<(), Failure>;

    /// This machine, as these switches would use it.
    fn machine(&self, switches: &[SwitchConfig]) -> Box<dyn Machine>;

    /// Whether this machine has what the scenarios' switches ask for.
    ///
    /// # Errors
    /// What it lacks, with the line that asks for it.
    fn check_machine(&self, scenarios: &[Scenario]) -> Result<(), Failure>;

    /// How many times slower than real time a scenario with links of this rate must run to be true on this machine. Takes a
    /// fraction of a second.
    fn fitting_dilation(&self, rate: BitRate) -> u32;

    /// Starts DPDK with what these scenarios need. Once a process.
    ///
    /// # Errors
    /// What EAL or a device refuses.
    fn start(&self, scenarios: &[Scenario]) -> Result<Box<dyn Backend>, Failure>;
}

/// DPDK, started for scenarios.
pub trait Backend {
    /// Runs one of the scenarios to its end, or until `stop` is set. Its files go to `run`; `observe` is told how far it is.
    ///
    /// # Errors
    /// What fails in the run or in writing its files.
    fn run(
        &self,
        scenario: &Scenario,
        run: RunDir,
        observe: &mut dyn FnMut(&Progress),
        stop: &AtomicBool,
    ) -> Result<Summary, Failure> {
        self.run_with_hosts(scenario, run, None, observe, stop)
    }

    /// As [`Backend::run`], with the real hosts of the scenario.
    ///
    /// # Errors
    /// As [`Backend::run`]; what real hosts fail to do.
    fn run_with_hosts(
        &self,
        scenario: &Scenario,
        run: RunDir,
        hosts: Option<&mut Experiment>,
        observe: &mut dyn FnMut(&Progress),
        stop: &AtomicBool,
    ) -> Result<Summary, Failure>;
}

/// Arguments of `weir run`.
#[derive(clap::Args)]
pub struct RunArguments {
    /// Configurations of the switches.
    #[arg(required = true, value_name = "SWITCH.toml")]
    pub files: Vec<PathBuf>,
    /// Keep a record of the run in this directory: time series, events, pauses, captures and results, as `weir report` reads them.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// How often the record samples counters, thresholds and queues: 1ms or longer.
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "output", value_parser = sampling_of)]
    pub sample_every: Span,
    /// Capture all flow-control frames of this port and its first data frames; SWITCH.PORT where there are several switches. May
    /// be given more than once.
    #[arg(long, value_name = "PORT", requires = "output")]
    pub capture: Vec<String>,
    /// How many data frames of each captured port, in each direction.
    #[arg(long, value_name = "FRAMES", default_value_t = 1_000, requires = "capture")]
    pub capture_frames: u32,
    /// Write the final summary to this file as JSON; `-`: to standard output, in place of all else that is printed there.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// Where `weir show` reaches this run; `none`: nowhere. Without this, what `[control]` of the files says, or the usual place.
    #[arg(long, value_name = "PATH|none")]
    pub control: Option<String>,
    /// Let the members of this group ask and change the run, where `[control]` of the files names none.
    #[arg(long, value_name = "GROUP")]
    pub control_group: Option<String>,
    /// Serve /metrics for Prometheus, the state as JSON and a page of it at this address: 127.0.0.1:9111, or the port alone, which is
    /// for this machine; 0 takes a free port.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub http: Option<String>,
    /// Stop by itself after this time, such as 500ms, 10s or 2h; a bare number counts seconds.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// No line of rates each second.
    #[arg(long)]
    pub quiet: bool,
    /// How log lines on standard error look: as text; or json, an object a line with timestamp, level, message and fields.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// Let dpdk-dumpcap and dpdk-telemetry find this process under this name; needs hugepages and root.
    #[arg(long, value_name = "NAME")]
    pub file_prefix: Option<String>,
    /// Arguments for DPDK's EAL.
    #[arg(last = true, value_name = "EAL ARGS")]
    pub eal: Vec<String>,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// An object a line.
    Json,
}

/// From one sample to the next. The control thread asks all lcores for each.
fn sampling_of(text: &str) -> Result<Span, String> {
    let every: Span = text.parse().map_err(|_| "this is no time; write for example 100ms".to_owned())?;
    if every < Span::from_millis(1) { Err("write 1ms or more".to_owned()) } else { Ok(every) }
}

/// A time with its unit; a bare number counts seconds.
///
/// # Errors
/// What to write instead.
pub fn duration(text: &str) -> Result<Duration, String> {
    let is_bare = text.parse::<f64>().is_ok();
    let span = if is_bare { format!("{text}s") } else { text.to_owned() }.parse::<Span>();
    let span = span.ok().filter(|span| *span > Span::ZERO);
    let span = span.ok_or_else(|| format!("{text} is no time above 0; write it with its unit: 500ms, 10s, 2h"))?;
    Ok(Duration::from_nanos(span.as_nanos()))
}

/// Where real frames are.
#[derive(Clone, Copy)]
pub enum Source {
    /// Built into this program.
    BuiltIn(&'static dyn RealFrames),
    /// In another program, which takes this one's place: the function returns only if it can't.
    Elsewhere(fn() -> Missing),
    /// Nowhere: left out when this program was built.
    LeftOut,
}

/// Why there are no real frames, in a sentence.
#[derive(Debug)]
pub struct Missing(pub String);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Missing> for Failure {
    fn from(missing: Missing) -> Failure {
        Failure::Unavailable(missing.0)
    }
}

/// What [`come_from`] said. A program has one main function, and what it links does not change.
static SOURCE: OnceLock<Source> = OnceLock::new();

/// Says where real frames are, before any command runs; without it they are left out.
///
/// # Panics
/// If called twice.
pub fn come_from(source: Source) {
    assert!(SOURCE.set(source).is_ok(), "where real frames are is said once");
}

/// Whether they are there or in another program, so that they are what commands take if nothing else is asked for.
pub(crate) fn are_built() -> bool {
    !matches!(source(), Source::LeftOut)
}

/// Real frames. Call it before anything is printed or written: another program may begin the command anew.
///
/// # Errors
/// Why there are none, and what to do about it.
pub fn reach() -> Result<&'static dyn RealFrames, Missing> {
    match source() {
        Source::BuiltIn(real_frames) => Ok(real_frames),
        Source::Elsewhere(replace_this) => Err(replace_this()),
        Source::LeftOut => Err(Missing(
            "ports and real frames need DPDK, and this weir is built without it: install libdpdk and clang (make setup does) and \
             build with the feature `dpdk`, which is the default; virtual time needs none: --backend sim"
                .to_owned(),
        )),
    }
}

fn source() -> Source {
    SOURCE.get().copied().unwrap_or(Source::LeftOut)
}
