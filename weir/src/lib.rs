//! The command `weir`, as a library: a program's `main` chooses the source of real frames, and calls [`main`].
//!
//! A program with plug-ins, such as a buffer policy or a flow control, adds them with [`Extensions`]. In all other respects it
//! is the command `weir`.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! fn main() -> ExitCode {
//!     weir::Extensions::new().main(weir::BackendSource::NotBuilt)
//! }
//! ```

#![forbid(unsafe_code)]

mod calibrate;
mod capture;
mod check;
mod command_table;
mod compare;
mod control;
mod demo;
mod doctor;
pub mod dpdk_exec;
mod export;
mod extensions;
mod import;
mod log;
mod new;
mod pages;
mod play;
mod qualify;
#[cfg(feature = "dpdk")]
mod replay;
mod runtime_config;
mod show;
#[cfg(feature = "top")]
mod top;
mod version;
mod vm;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use tracing::Level;
use tracing_subscriber::filter::Targets;
use weir_experiments::real_frames::{self, LogFormat, PortBackend};
use weir_experiments::sweep::{self, plot};
use weir_experiments::{Failure, record, report, reproduce, run as testbed};
use weir_sim::restart_with_huge_pages;

pub use extensions::Extensions;
pub use import::sonic::sonic_switch_file;
pub use weir_experiments::real_frames::BackendSource;

/// Lossless-Ethernet lab switch on DPDK: shared-buffer MMU, PFC, GFC, CBFC, and the same switch in virtual time.
#[derive(Parser)]
#[command(
    name = "weir",
    bin_name = "weir",
    version = version::SHORT,
    long_version = version::LONG.as_str(),
    after_help = version::features(),
    arg_required_else_help = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the switches of these files until SIGINT or SIGTERM.
    ///
    /// Several files are several switches in one process. Arguments after `--` go to DPDK's EAL.
    #[cfg(feature = "dpdk")]
    Run(real_frames::RunArguments),
    /// Runs switches where this command is built with DPDK, which it is not.
    #[cfg(not(feature = "dpdk"))]
    #[command(name = "run", hide = true)]
    NoRun {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _arguments: Vec<String>,
    },
    /// Measure this machine: forwarding, RFC 2544, delays of PAUSE, idle policies.
    ///
    /// Each prints a table, with the machine and the CPU time that other processes took. docs/PERFORMANCE.md says how to read them.
    #[cfg(feature = "dpdk")]
    #[command(subcommand)]
    Bench(real_frames::BenchCommand),
    /// Measures this machine where this command is built with DPDK, which it is not.
    #[cfg(not(feature = "dpdk"))]
    #[command(name = "bench", hide = true)]
    NoBench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _arguments: Vec<String>,
    },
    /// Replay captures into ports of a running switch, each frame at its own time.
    ///
    /// All captures share one clock. PFC and PAUSE are obeyed. A summary reports late frames and the reasons. The exit code is 1 if a port
    /// did not take frames. docs/REPLAY.md has more; a port of a switch's file can replay too.
    #[cfg(feature = "dpdk")]
    Replay(replay::Arguments),
    /// Replays captures where this command is built with DPDK, which it is not.
    #[cfg(not(feature = "dpdk"))]
    #[command(name = "replay", hide = true)]
    NoReplay {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _arguments: Vec<String>,
    },
    /// Show counters, watermarks, queues, addresses and losses of a running switch.
    Show(show::ShowArguments),
    /// Watch a running switch in the terminal: ports, queues, pauses and buffers, each second.
    #[cfg(feature = "top")]
    Top(top::TopArguments),
    /// Clear counters, watermarks or learned addresses of a running switch.
    Clear(control::ClearArguments),
    /// Change a running switch: thresholds, rates, weights, ECN, static addresses, ports, PAUSE.
    ///
    /// Keys are those of the switch's file. docs/OPERATING.md lists those that can be set.
    Set(runtime_config::SetArguments),
    /// Reload the file of a running switch and apply the keys that can change; SIGHUP does too.
    Reload(runtime_config::ReloadArguments),
    /// Print, save or compare the configuration of a running switch.
    Config(runtime_config::ConfigArguments),
    /// Capture frames of a running switch as pcapng: received, sent, flow control alone, or dropped ones with the reason.
    ///
    /// Each frame has a comment: its class, and the occupancy of its queues and of the shared segment. Ends at Ctrl-C.
    Capture(capture::CaptureArguments),
    /// Measure how long the peers of a running switch take to stop after a PAUSE, and print headroom and thresholds.
    ///
    /// Each port repeatedly pauses a class of its peer for a moment and times the frames that still arrive. Hosts must send meanwhile. The
    /// exit code is 1 if a peer does not stop or sends nothing, and 3 if the switch had too little CPU time for any advice.
    Calibrate(calibrate::CalibrateArguments),
    /// Run the SPFC paper's victim experiment with emulated RDMA hosts and real frames: no NIC, no root, no hugepages.
    Demo(demo::DemoArguments),
    /// Run or check a scenario: several switches, links and hosts.
    #[command(subcommand)]
    Testbed(testbed::Command),
    /// Make a scenario of the messages in captures or a run directory.
    ///
    /// Messages of RoCEv2 and data of TCP, with class, bytes and start; retransmissions count once. docs/REPLAY.md has more.
    Record(record::RecordArguments),
    /// Run a scenario many times in virtual time, with parameters varied, into one table.
    ///
    /// Each point is a run in a process of its own, and all cores are at work. Repeat the command to resume a sweep that was
    /// stopped. The exit code is 1 if a point failed, or some are left.
    Sweep(sweep::SweepArguments),
    /// Reproduce a paper's figure: the paper's numbers, Weir's, and a verdict.
    ///
    /// A finding that does not hold is a result: the exit code is 1 only if the command itself failed or was interrupted.
    Reproduce(reproduce::ReproduceArguments),
    /// Explore where a paper's claims hold, over the settings that it leaves open.
    ///
    /// Prints the share of settings in which each claim holds, with an interval, and the setting that decides. A claim that holds nowhere is a
    /// result: the exit code is 1 only if the command itself failed or was interrupted.
    Explore(reproduce::explore::ExploreArguments),
    /// Plot columns of a sweep, a line for each policy or parameter, seeds pooled with their intervals.
    ///
    /// Writes SVG, PNG, PDF and CSV into the sweep's folder. A column's name may be cut short where it stays unique.
    Plot(plot::PlotArguments),
    /// Write the results of runs as one HTML page: summary, plots, topology, configuration.
    ///
    /// Several runs stand side by side. With --text, print the summary and tables on the terminal.
    Report(report::ReportArguments),
    /// Boot guests with Soft-RoCE, perftest and iperf3 at a switch's vhost-user ports, run commands in them, end them.
    #[command(subcommand)]
    Vm(vm::Command),
    /// Play runs in a browser: links, queues, pauses, states, at any speed.
    ///
    /// Takes a directory of runs, or a scenario, which runs in virtual time first.
    Play(play::PlayArguments),
    /// Create a buffer policy of your own: a program that is this command with one more policy.
    #[command(subcommand)]
    New(new::NewCommand),
    /// Print the keys of a table of switches' or scenarios' files: values, defaults, meaning.
    Keys(pages::KeysArguments),
    /// Print completions of a shell: source <(weir completions bash)
    Completions(pages::CompletionsArguments),
    /// Writes man pages, for packages, and the documentation as a site.
    #[command(hide = true)]
    Pages(pages::PagesArguments),
    /// Import a scenario from another simulator's files, or a switch file from SONiC's tables.
    #[command(subcommand)]
    Import(import::Command),
    /// Compare runs with results of other tools, or an experiment's results by backend.
    #[command(subcommand)]
    Compare(compare::Command),
    /// Export counters of a switch for other tools.
    #[command(subcommand)]
    Export(export::Command),
    /// Diagnose this machine and, over ssh, the hosts: print each problem with the command that fixes it, and pass a PFC frame.
    ///
    /// Works with a file or without one. The exit code is 1 if a check failed.
    Doctor(doctor::DoctorArguments),
    /// Qualify a lossless switch by SONiC's test plans for PFC and QoS.
    ///
    /// Each test reports criterion, tolerance, measured value and verdict: pass, fail, or not possible here and why. The exit code is 1 if a
    /// test failed. docs/QUALIFY.md lists the tests.
    Qualify(qualify::QualifyArguments),
    /// Check files and print the derived buffer partition, thresholds, headroom, lcores and memory.
    ///
    /// The exit code is 2 if a file is wrong, and 3 if the files are valid, but this machine does not meet their requirements.
    #[cfg_attr(
        feature = "dpdk",
        doc = "",
        doc = "With --try it starts DPDK and tries the first two ports of a file, which are cabled to each other: frames of all",
        doc = "lengths and tags both ways, PFC and PAUSE, link and counters. It prints a row for the table in docs/DEVICES.md; the",
        doc = "exit code is 1 if the devices are not fit for lossless ports."
    )]
    Check {
        /// Configurations of the switches.
        #[arg(required = true, value_name = "SWITCH.toml")]
        files: Vec<PathBuf>,
        /// Print JSON: all numbers of the tables, and unmet requirements of this machine; with --try, the findings.
        #[arg(long)]
        json: bool,
        /// Check the files alone, without this machine's devices and memory: for a switch that runs elsewhere.
        #[arg(long)]
        files_only: bool,
        /// Try the first two ports, which are cabled to each other.
        #[cfg(feature = "dpdk")]
        #[arg(long = "try", conflicts_with = "files_only")]
        try_devices: bool,
        /// Arguments for DPDK's EAL, with --try.
        #[cfg(feature = "dpdk")]
        #[arg(last = true, value_name = "EAL ARGS", requires = "try_devices")]
        eal: Vec<String>,
    },
}

/// SONiC's tools besides `show`, in words of `show` and `clear`.
const SONICS_TOOLS: [(&[&str], &[&str]); 8] = [
    (&["sonic-clear"], &["clear"]),
    (&["pfcwd", "show"], &["show", "pfcwd"]),
    (&["pfc", "show"], &["show", "pfc"]),
    (&["ecnconfig", "-l"], &["show", "ecn"]),
    (&["queuestat", "-c"], &["clear", "counters"]),
    (&["queuestat"], &["show", "queue", "counters"]),
    (&["pfcstat", "-c"], &["clear", "counters"]),
    (&["pfcstat"], &["show", "pfc", "counters"]),
];

/// Options of portstat, in words of `show interfaces counters`.
const PORT_COUNTER_OPTIONS: [([&str; 2], &str); 6] = [
    (["-a", "--all"], "--printall"),
    (["-e", "--errors"], "errors"),
    (["-f", "--fec-stats"], "fec-stats"),
    (["-l", "--detail"], "detailed"),
    (["-R", "--rate"], "rates"),
    (["-T", "--trim"], "trim"),
];

/// Replaces the options of portstat, and the port of its option `-l`. Without a port, that option has no effect, as in SONiC.
fn replace_counter_options(options: &mut Vec<OsString>) {
    let position =
        |options: &[OsString], names: [&str; 2]| options.iter().position(|own| names.iter().any(|name| own == name));
    if let Some(clear) = position(options, ["-c", "--clear"]) {
        options.remove(clear);
        options.splice(0..0, ["clear", "counters"].map(OsString::from));
        return;
    }
    let mut command = ["show", "interfaces", "counters"].map(OsString::from).to_vec();
    for (names, word) in PORT_COUNTER_OPTIONS {
        let Some(at) = position(options, names) else { continue };
        options.remove(at);
        let port = position(options, ["-i", "--interface"]).filter(|at| at + 1 < options.len());
        match (word, port) {
            ("detailed", None) => {}
            ("detailed", Some(at)) => {
                command.extend([word.into(), options.drain(at..at + 2).next_back().unwrap_or_default()])
            }
            _ => command.push(word.into()),
        }
    }
    options.splice(0..0, command);
}

/// Arguments with the name of SONiC's tool at their beginning replaced.
fn without_sonics_tools(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.get(1).is_some_and(|command| command == "portstat") {
        let mut options = arguments.split_off(1);
        options.remove(0);
        replace_counter_options(&mut options);
        arguments.extend(options);
    }
    let after = arguments.get(1..).unwrap_or_default();
    let is_meant = |tool: &&[&str]| after.len() >= tool.len() && after.iter().zip(*tool).all(|(own, word)| own == word);
    if let Some((tool, replacement)) = SONICS_TOOLS.iter().find(|(tool, _)| is_meant(tool)) {
        arguments.splice(1..=tool.len(), replacement.iter().map(OsString::from));
    }
    if arguments.get(1).is_some_and(|command| command == "show") {
        // Short options of several letters.
        for (short, long) in [("-nz", "--nonzero"), ("--non_zero", "--nonzero"), ("-vv", "--verbose")] {
            arguments.iter_mut().filter(|argument| *argument == short).for_each(|argument| *argument = long.into());
        }
    }
    arguments
}

/// Runs the command of the program's arguments, with real frames from this source. The exit code is 0 for success, 1 if
/// something failed or was lost, and 2 for wrong input.
pub fn main(real_frames: BackendSource) -> ExitCode {
    real_frames::set_source(real_frames);
    end_quietly_without_reader();
    let arguments = Arguments::parse_from(without_sonics_tools(std::env::args_os().collect()));
    if arguments.command.may_simulate() {
        restart_with_huge_pages();
    }
    log::begin(arguments.command.default_log_filter(), arguments.command.log_format());
    let result = match arguments.command {
        // Returns the exit code of the command in the guest.
        Command::Vm(command) => return vm::vm(&command).map_or_else(Failure::report, ExitCode::from),
        #[cfg(feature = "dpdk")]
        Command::Run(arguments) => reached(|real_frames| real_frames.run(&arguments)),
        #[cfg(not(feature = "dpdk"))]
        Command::NoRun { .. } => reached(|_| Ok(())),
        #[cfg(feature = "dpdk")]
        Command::Bench(command) => reached(|real_frames| real_frames.bench(&command)),
        #[cfg(not(feature = "dpdk"))]
        Command::NoBench { .. } => reached(|_| Ok(())),
        #[cfg(feature = "dpdk")]
        Command::Replay(arguments) => replay::replay(&arguments),
        #[cfg(not(feature = "dpdk"))]
        Command::NoReplay { .. } => reached(|_| Ok(())),
        Command::Show(arguments) => show::show(&arguments),
        #[cfg(feature = "top")]
        Command::Top(arguments) => top::top(&arguments),
        Command::Clear(arguments) => control::clear(&arguments),
        Command::Set(arguments) => runtime_config::set(&arguments),
        Command::Reload(arguments) => runtime_config::reload(&arguments),
        Command::Config(arguments) => runtime_config::config(&arguments),
        Command::Capture(arguments) => capture::capture(&arguments),
        Command::Calibrate(arguments) => calibrate::calibrate(&arguments),
        Command::Demo(arguments) => demo::demo(&arguments),
        Command::Testbed(testbed::Command::Run(arguments)) => testbed::run(&arguments),
        Command::Record(arguments) => record::record(&arguments),
        Command::Testbed(testbed::Command::Check(arguments)) => testbed::check(&arguments),
        Command::Sweep(arguments) => sweep::sweep(&arguments),
        Command::Reproduce(arguments) => reproduce::reproduce(&arguments),
        Command::Explore(arguments) => reproduce::explore::explore(&arguments),
        Command::Plot(arguments) => plot::plot(&arguments),
        Command::Report(arguments) => report::report(&arguments),
        Command::Play(arguments) => play::play(&arguments),
        Command::Completions(arguments) => {
            pages::completions(&arguments, Arguments::command());
            Ok(())
        }
        Command::New(new::NewCommand::Policy(arguments)) => new::policy(&arguments),
        Command::Keys(arguments) => pages::keys(&arguments),
        Command::Pages(arguments) => pages::pages(&arguments, Arguments::command()),
        Command::Import(import::Command::Ns3(arguments)) => import::ns3(&arguments),
        Command::Import(import::Command::Htsim(arguments)) => import::htsim(&arguments),
        Command::Import(import::Command::Goal(arguments)) => import::goal(&arguments),
        Command::Import(import::Command::Simai(arguments)) => import::simai(&arguments),
        Command::Import(import::Command::Chakra(arguments)) => import::chakra(&arguments),
        Command::Import(import::Command::Sonic(arguments)) => import::sonic::sonic(&arguments),
        Command::Compare(compare::Command::Ns3(arguments)) => weir_experiments::compare::ns3(&arguments),
        Command::Compare(compare::Command::Backends(arguments)) => {
            weir_experiments::reproduce::backends::compare(&arguments)
        }
        Command::Doctor(arguments) => doctor::doctor(&arguments),
        Command::Qualify(arguments) => qualify::qualify(&arguments),
        Command::Export(export::Command::SonicCounters(arguments)) => export::sonic_counters(&arguments),
        #[cfg(feature = "dpdk")]
        Command::Check { files, try_devices: true, eal, json, .. } => {
            reached(|real_frames| real_frames.try_devices(&files, &eal, json))
        }
        Command::Check { files, json, files_only, .. } => check::check(&files, check::Options { files_only, json }),
    };
    result.map_or_else(Failure::report, |()| ExitCode::SUCCESS)
}

impl Command {
    /// Whether the command may run scenarios in virtual time.
    fn may_simulate(&self) -> bool {
        matches!(
            self,
            Command::Testbed(testbed::Command::Run(_))
                | Command::Sweep(_)
                | Command::Reproduce(_)
                | Command::Explore(_)
                | Command::Play(_)
        )
    }

    /// Default filter of the log, without WEIR_LOG.
    fn default_log_filter(&self) -> Targets {
        match self {
            // A benchmark starts and stops dozens of switches.
            #[cfg(feature = "dpdk")]
            Command::Bench(_) => Targets::new().with_default(Level::WARN).with_target("weir_on_dpdk", Level::INFO),
            // Omits messages on switches, hosts and devices that the command itself creates.
            Command::Demo(_) | Command::Testbed(_) | Command::Doctor(_) => Targets::new().with_default(Level::WARN),
            _ => Targets::new().with_default(Level::INFO),
        }
    }

    fn log_format(&self) -> LogFormat {
        match self {
            #[cfg(feature = "dpdk")]
            Command::Run(arguments) => arguments.log_format,
            _ => LogFormat::Text,
        }
    }
}

/// Runs an action that needs real frames, where a backend is available.
fn reached(act: impl FnOnce(&dyn PortBackend) -> Result<(), Failure>) -> Result<(), Failure> {
    act(real_frames::reach()?)
}

/// Ends the program silently when a pipe that it prints to has no reader, as in `weir ... | head`, instead of a panic.
fn end_quietly_without_reader() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload().downcast_ref::<String>();
        if message.is_some_and(|message| message.starts_with("failed printing to stderr: ")) {
            std::process::exit(1);
        }
        if let Some(error) = message.and_then(|message| message.strip_prefix("failed printing to stdout: ")) {
            if !error.contains("Broken pipe") {
                eprintln!("weir: standard output: {error}");
            }
            std::process::exit(1);
        }
        usual(panic);
    }));
}
