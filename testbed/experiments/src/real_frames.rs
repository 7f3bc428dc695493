//! Access to DPDK: commands use the [`PortBackend`] trait, and `main` registers its provider once.
//!
//! A command calls [`reach`] before it prints or writes anything: a program without DPDK may be replaced by one with
//! DPDK, which executes the command from its start.

mod bench;
mod check_result;
mod machine;
mod replay;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_config::SwitchConfig;
use weir_hosts::RealHostSet;
use weir_qualify::wire::WirePort;
use weir_results::record::Progress;
use weir_results::run_dir::{RunDir, Summary};
use weir_scenario::Scenario;
use weir_units::{BitRate, Span};

use crate::Failure;

pub use check_result::{CheckResult, Health};
pub use machine::{
    CpuAssignment, Lcores, MachineFindings, MachineResources, NicInfo, PacketMemory, PollGap, SwitchResources,
};

pub use bench::{BenchCommand, CommonArguments, ForwardingArguments, IdleArguments, PauseArguments, Rfc2544Arguments};
pub use replay::ReplayArguments;

/// Operations that need DPDK: switches on ports of this machine, and scenarios with real frames.
pub trait PortBackend: Sync {
    /// Runs switches until a signal.
    ///
    /// # Errors
    /// Invalid input, resources that this machine lacks, or losses of the run.
    fn run(&self, arguments: &RunArguments) -> Result<(), Failure>;

    /// Tests the first two ports of a file, which are cabled to each other, with these EAL arguments.
    ///
    /// # Errors
    /// As [`PortBackend::run`]; also devices that are unfit for lossless ports.
    fn try_devices(&self, files: &[PathBuf], eal: &[String], json: bool) -> Result<(), Failure>;

    /// Checks this machine for the requirements of these switches; each problem comes with its fix. Without switches,
    /// checks general requirements.
    fn examine(&self, switches: &[SwitchConfig]) -> Vec<CheckResult>;

    /// Sends frames, PFC frames included, between the first two cabled ports of a file, or over a link inside the
    /// process, and reports which arrived.
    ///
    /// # Errors
    /// As [`PortBackend::try_devices`].
    fn try_loop(&self, file: Option<&Path>, eal: &[String]) -> Result<Vec<CheckResult>, Failure>;

    /// Benchmarks switches on this machine.
    ///
    /// # Errors
    /// As [`PortBackend::run`]; also frames that are not accounted for.
    fn bench(&self, command: &BenchCommand) -> Result<(), Failure>;

    /// Replays captures into ports of a running switch with configuration `switch`, or on devices alone.
    ///
    /// # Errors
    /// As [`PortBackend::run`]; also frames that a port did not take.
    fn replay(&self, arguments: &ReplayArguments, switch: Option<&SwitchConfig>) -> Result<(), Failure>;

    /// Opens ports of a tester, with EAL arguments, and hands them to `test`: Linux interfaces by their names, or NICs by their PCI addresses.
    ///
    /// # Errors
    /// As [`PortBackend::run`], and those of `test`.
    fn with_tester_ports(
        &self,
        ports: &TesterPorts<'_>,
        test: &mut dyn FnMut(Vec<OpenTesterPort>) -> Result<(), Failure>,
    ) -> Result<(), Failure>;

    /// Resources of this machine that these switches use.
    fn machine(&self, switches: &[SwitchConfig]) -> Box<dyn MachineResources>;

    /// Checks that this machine has the resources that the scenarios' switches request.
    ///
    /// # Errors
    /// Missing resources, with the line that requests them.
    fn check_machine(&self, scenarios: &[Scenario]) -> Result<(), Failure>;

    /// Smallest time dilation at which this machine sustains a scenario with links of this rate. Takes a fraction of a
    /// second.
    fn fitting_dilation(&self, rate: BitRate) -> u32;

    /// Starts DPDK with the resources that these scenarios need. Once per process.
    ///
    /// # Errors
    /// Failures of EAL or a device.
    fn start(&self, scenarios: &[Scenario]) -> Result<Box<dyn ScenarioRunner>, Failure>;
}

/// Ports that a tester asks for.
#[derive(Clone, Copy, Debug)]
pub struct TesterPorts<'a> {
    /// Interfaces and PCI addresses.
    pub names: &'a [String],
    /// Length of the longest frame, without FCS.
    pub frame_bytes_max: usize,
    /// EAL arguments.
    pub eal: &'a [String],
}

/// Port of a tester, open.
pub struct OpenTesterPort {
    /// The name that it was asked for by.
    pub name: String,
    /// Speed of its link, unless the device invents one.
    pub speed: Option<BitRate>,
    /// The port.
    pub port: Box<dyn WirePort>,
}

/// DPDK, started for scenarios.
pub trait ScenarioRunner {
    /// Executes a scenario to its end, or until `stop` is set. Files go to `run`; `observe` receives progress.
    ///
    /// # Errors
    /// Failures of the run or of writing its files.
    fn run(
        &self,
        scenario: &Scenario,
        run: RunDir,
        observe: &mut dyn FnMut(&Progress),
        stop: &AtomicBool,
    ) -> Result<Summary, Failure> {
        self.run_with_hosts(scenario, run, None, observe, stop)
    }

    /// Executes a scenario as [`ScenarioRunner::run`], with its real hosts.
    ///
    /// # Errors
    /// As [`ScenarioRunner::run`]; also failures of real hosts.
    fn run_with_hosts(
        &self,
        scenario: &Scenario,
        run: RunDir,
        hosts: Option<&mut RealHostSet>,
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
    /// Interval at which the record samples counters, thresholds and queues: 1ms or longer.
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "output", value_parser = sampling_of)]
    pub sample_every: Span,
    /// Capture all flow-control frames of this port and its first data frames; SWITCH.PORT where there are several switches. May
    /// be given more than once.
    #[arg(long, value_name = "PORT", requires = "output")]
    pub capture: Vec<String>,
    /// Number of data frames of each captured port, in each direction.
    #[arg(long, value_name = "FRAMES", default_value_t = 1_000, requires = "capture")]
    pub capture_frames: u32,
    /// Write the final summary to this file as JSON; `-`: to standard output, in place of all else that is printed there.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// Socket of `weir show` for this run; `none` for no socket. By default that of `[control]` in the files, or the standard one.
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
    /// Print no line of rates each second.
    #[arg(long)]
    pub quiet: bool,
    /// Format of log lines on standard error: text; or json, an object a line with timestamp, level, message and fields.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// Let dpdk-dumpcap and dpdk-telemetry find this process under this name; needs hugepages and root.
    #[arg(long, value_name = "NAME")]
    pub file_prefix: Option<String>,
    /// Arguments for DPDK's EAL.
    #[arg(last = true, value_name = "EAL ARGS")]
    pub eal: Vec<String>,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// JSON, an object a line.
    Json,
}

/// Parses a sampling interval, 1 ms or more: the control thread queries all lcores for each sample.
fn sampling_of(text: &str) -> Result<Span, String> {
    let every: Span = text.parse().map_err(|_| "this is no time; write for example 100ms".to_owned())?;
    if every < Span::from_millis(1) { Err("write 1ms or more".to_owned()) } else { Ok(every) }
}

/// Parses a time with its unit; a bare number is in seconds.
///
/// # Errors
/// Text with the accepted form.
pub fn duration(text: &str) -> Result<Duration, String> {
    let is_bare = text.parse::<f64>().is_ok();
    let span = if is_bare { format!("{text}s") } else { text.to_owned() }.parse::<Span>();
    let span = span.ok().filter(|span| *span > Span::ZERO);
    let span = span.ok_or_else(|| format!("{text} is no time above 0; write it with its unit: 500ms, 10s, 2h"))?;
    Ok(Duration::from_nanos(span.as_nanos()))
}

/// Provider of real frames.
#[derive(Clone, Copy)]
pub enum BackendSource {
    /// Implementation linked into this program.
    BuiltIn(&'static dyn PortBackend),
    /// Another program that replaces this process: the function returns only on failure.
    External(fn() -> BackendUnavailable),
    /// Build without DPDK.
    NotBuilt,
}

/// Reason for missing real frames, in a sentence.
#[derive(Debug)]
pub struct BackendUnavailable(pub String);

impl fmt::Display for BackendUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<BackendUnavailable> for Failure {
    fn from(missing: BackendUnavailable) -> Failure {
        Failure::Unavailable(missing.0)
    }
}

/// Provider set by [`set_source`]. A program has one main function, and its linked libraries do not change.
static SOURCE: OnceLock<BackendSource> = OnceLock::new();

/// Sets the provider of real frames, before any command runs; without a call there is none.
///
/// # Panics
/// If called twice.
pub fn set_source(source: BackendSource) {
    assert!(SOURCE.set(source).is_ok(), "`set_source` is called once");
}

/// Whether this program or another one provides real frames, so that commands use them by default.
pub(crate) fn is_available() -> bool {
    !matches!(source(), BackendSource::NotBuilt)
}

/// Returns the implementation of real frames. Call before printing or writing: another program may execute the command
/// from its start.
///
/// # Errors
/// Reason for missing real frames, and the remedy.
pub fn reach() -> Result<&'static dyn PortBackend, BackendUnavailable> {
    match source() {
        BackendSource::BuiltIn(real_frames) => Ok(real_frames),
        BackendSource::External(replace_this) => Err(replace_this()),
        BackendSource::NotBuilt => Err(BackendUnavailable(
            "ports and real frames need DPDK, and this weir is built without it: install libdpdk and clang (make setup does) and \
             build with the feature `dpdk`, which is the default; virtual time needs none: --backend sim"
                .to_owned(),
        )),
    }
}

fn source() -> BackendSource {
    SOURCE.get().copied().unwrap_or(BackendSource::NotBuilt)
}
