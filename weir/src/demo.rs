//! `weir demo`: the SPFC paper's victim experiment on this machine, with emulated RDMA hosts and real frames.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use indicatif::{ProgressBar, ProgressStyle};
use weir_config::ConfigErrors;
use weir_testbed::dpdk::{BackendError, DpdkBackend, Progress, fitting_dilation};
use weir_testbed::run_dir::{PortWindow, Provenance, RunDir, RunDirError, Summary, Window};
use weir_testbed::scenario::Scenario;
use weir_testbed::victim::{Victim, VictimPolicy};
use weir_units::BitRate;

use crate::exit::Failure;
use crate::table::{Table, count};

/// Arguments of `weir demo`.
#[derive(clap::Args)]
pub struct DemoArguments {
    /// N: hosts that send bursts of 64 KB messages, 0 to 13; several are run one after another.
    #[arg(long, value_delimiter = ',', default_value = "9", value_name = "LIST", value_parser = clap::value_parser!(u8).range(0..=13))]
    bursts: Vec<u8>,
    /// Policies to compare: st, or dt:ALPHA (dt:1, dt:1/8).
    #[arg(long, value_delimiter = ',', default_value = "st,dt:1", value_name = "LIST", value_parser = policy)]
    policies: Vec<VictimPolicy>,
    /// The paper's testbed (nine ports of 10 Gb/s, 2.5 MB) in place of its simulation (100 Gb/s, 16 MB).
    #[arg(long)]
    testbed: bool,
    /// How many times slower than real time; by default what this machine can follow.
    #[arg(long, value_name = "FACTOR", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    dilation: Option<u32>,
    /// Directory of the results; each policy gets one of its own in it.
    #[arg(short, long, default_value = "runs/demo", value_name = "DIR")]
    output: PathBuf,
}

/// A host that was polled too late for more than this share of the run makes its rates the machine's.
const LATE_PERCENT_MAX: f64 = 5.0;

/// Runs the experiment under each policy and prints the comparison.
pub fn demo(arguments: &DemoArguments) -> Result<(), Failure> {
    let like = if arguments.testbed { Victim::testbed } else { Victim::simulation };
    let rate = like(0, VictimPolicy::Static).rate;
    let dilation = arguments.dilation.unwrap_or_else(|| fitting_dilation(rate));
    let (mut scenarios, mut labels) = (Vec::new(), Vec::new());
    for bursts in &arguments.bursts {
        for policy in &arguments.policies {
            let victim = Victim { time_dilation: dilation, capture: true, ..like(usize::from(*bursts), *policy) };
            scenarios.push(victim.scenario().map_err(|errors| too_fast(dilation, &errors))?);
            let label = policy.name();
            labels.push(if arguments.bursts.len() > 1 { format!("{label} N={bursts}") } else { label });
        }
    }
    let runs = labels.iter().map(|label| run_dir(label, &arguments.output)).collect::<Result<Vec<_>, _>>()?;
    introduce(arguments, &scenarios, (rate, dilation));
    let backend = DpdkBackend::start(&scenarios)?;
    let mut summaries = Vec::new();
    for ((scenario, label), run) in scenarios.iter().zip(&labels).zip(runs) {
        summaries.push(run_one(&backend, scenario, label, run)?);
    }
    print_table(&summaries, &labels);
    println!(
        "results: {}/*/ (summary.json, series.csv, events.csv, a capture of P0, config.toml)",
        arguments.output.display()
    );
    verdict(&summaries)
}

/// The faster the clock, the more arrives while this machine reacts, and the more headroom that takes.
fn too_fast(dilation: u32, errors: &ConfigErrors) -> Failure {
    Failure::Argument(format!(
        "--dilation {dilation}: the headroom for this machine's reaction does not fit a buffer; write a larger one, \
         or leave it out\n{errors}"
    ))
}

fn run_dir(label: &str, output: &Path) -> Result<RunDir, RunDirError> {
    let provenance = Provenance::new(env!("CARGO_PKG_VERSION"), std::env::args(), SystemTime::now());
    RunDir::create(output.join(label.replace('/', "_").replace(" N=", "-n")), &provenance)
}

fn introduce(arguments: &DemoArguments, scenarios: &[Scenario], (rate, dilation): (BitRate, u32)) {
    let bursts: Vec<String> = arguments.bursts.iter().map(u8::to_string).collect();
    println!(
        "The victim experiment (SPFC, III-A): H0 sends F1 to R1 and F2 to R2, N = {} hosts burst to R2.",
        bursts.join(", ")
    );
    println!("Every host and the switch have ports of {rate}; one clock runs {dilation} times slower than real time.");
    println!("F1 shares no congested port, and is held up all the same whenever the switch pauses H0 on P0.");
    let seconds: f64 =
        scenarios.iter().map(|scenario| scenario.end.as_nanos() as f64 * 1e-9 * f64::from(dilation)).sum();
    let runs = if scenarios.len() == 1 { "One run".to_owned() } else { format!("{} runs", scenarios.len()) };
    println!("{runs}, about {seconds:.0} s in all.\n");
}

fn run_one(backend: &DpdkBackend, scenario: &Scenario, label: &str, run: RunDir) -> Result<Summary, Failure> {
    let bar = ProgressBar::new(scenario.end.as_nanos() / 1_000);
    let style =
        ProgressStyle::with_template("{prefix:>8} [{bar:32}] {pos:>6} of {len} us  {msg}").expect("a valid template");
    bar.set_style(style.progress_chars("=> "));
    bar.set_prefix(label.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    let summary = backend.run(scenario, run, &mut |progress: &Progress| {
        bar.set_position(progress.now.as_nanos() / 1_000);
        bar.set_message(format!(
            "F1 {:5.1} Gb/s  PAUSE on P0 {}  shared buffer {:.1} MB",
            progress.first_flow_bps as f64 / 1e9,
            progress.first_port_pauses,
            progress.pool_used.get() as f64 / 1e6
        ));
    })?;
    bar.finish_and_clear();
    Ok(summary)
}

fn print_table(summaries: &[Summary], labels: &[String]) {
    let head = std::iter::once("").chain(labels.iter().map(String::as_str));
    let mut table = Table::new(head);
    let mut row = |name: &str, cell: &dyn Fn(&Summary) -> String| {
        table.row(std::iter::once(name.to_owned()).chain(summaries.iter().map(cell)));
    };
    row("F1 before the burst, Gb/s", &|summary| gbps(flow_bps(summary, "before")));
    row("F1 during the burst, Gb/s", &|summary| gbps(flow_bps(summary, "burst")));
    row("F1 after the burst, Gb/s", &|summary| gbps(flow_bps(summary, "after")));
    row("PAUSEs on P0", &|summary| count(first_port(summary).map_or(0, |port| port.pauses_sent)));
    row("P0 paused in the burst, us", &|summary| {
        pause_time(summary, first_port(summary).map_or(0, |port| port.paused_ns))
    });
    row("PAUSEs on a burst port, mean", &|summary| format!("{:.1}", burst_mean(summary, |port| port.pauses_sent)));
    row("a burst port paused, mean us", &|summary| {
        pause_time(summary, burst_mean(summary, |port| port.paused_ns) as u64)
    });
    row("peak of the shared buffer, B", &|summary| count(summary.pool.used_max_bytes));
    row("of a shared buffer of, B", &|summary| count(summary.pool.capacity_bytes));
    row("peak of any headroom, B", &|summary| count(headroom_max(summary)));
    row("lossless frames lost", &|summary| count(lost(summary)));
    row("frames out of order", &|summary| count(summary.flows.iter().map(|flow| flow.reordered).sum()));
    println!("{table}");
    for (summary, label) in summaries.iter().zip(labels) {
        let late = summary.late_ns as f64 * 100.0 / summary.duration_ns.max(1) as f64;
        if late > LATE_PERCENT_MAX {
            println!(
                "{}: a host lost {late:.1} % of its line time to the machine; a larger --dilation makes the rates truer",
                label
            );
        }
    }
}

/// Losses make the demonstration fail.
fn verdict(summaries: &[Summary]) -> Result<(), Failure> {
    match summaries.iter().find(|summary| !summary.lossless) {
        Some(summary) => Err(Failure::Run(format!("{}: {} lossless frames were lost", summary.policy, lost(summary)))),
        None => Ok(()),
    }
}

fn window<'a>(summary: &'a Summary, name: &str) -> Option<&'a Window> {
    summary.windows.iter().find(|window| window.name == name)
}

fn flow_bps(summary: &Summary, name: &str) -> u64 {
    window(summary, name).and_then(|window| window.flows.first()).map_or(0, |flow| flow.throughput_bps)
}

fn first_port(summary: &Summary) -> Option<&PortWindow> {
    window(summary, "burst")?.ports.first()
}

/// The mean over the burst hosts' ports: all but the first (H0's) and the last two (the receivers').
fn burst_mean(summary: &Summary, value: impl Fn(&PortWindow) -> u64) -> f64 {
    let ports = window(summary, "burst").map_or(&[][..], |window| &window.ports);
    let burst = ports.get(1..ports.len().saturating_sub(2)).unwrap_or(&[]);
    burst.iter().map(value).sum::<u64>() as f64 / burst.len().max(1) as f64
}

/// `9,020 (82.0 %)`: the time, and its share of the burst.
fn pause_time(summary: &Summary, nanos: u64) -> String {
    let length = window(summary, "burst").map_or(0, |window| window.to_ns - window.from_ns);
    format!("{} ({:.0} %)", count(nanos / 1_000), nanos as f64 * 100.0 / length.max(1) as f64)
}

fn headroom_max(summary: &Summary) -> u64 {
    let classes = summary.ports.iter().flat_map(|port| &port.classes);
    classes.map(|class| class.headroom_max_bytes).max().unwrap_or(0)
}

/// Frames that a receiver misses, and frames that the switch dropped.
fn lost(summary: &Summary) -> u64 {
    let missed: u64 = summary.flows.iter().map(|flow| flow.lost).sum();
    let classes = summary.ports.iter().flat_map(|port| &port.classes);
    let dropped: u64 = classes.flat_map(|class| class.drops.values()).sum();
    missed.max(dropped)
}

fn gbps(bps: u64) -> String {
    format!("{:.1}", bps as f64 / 1e9)
}

fn policy(text: &str) -> Result<VictimPolicy, String> {
    match text.split_once(':') {
        None if text == "st" => Ok(VictimPolicy::Static),
        Some(("dt", alpha)) => alpha.parse().map(VictimPolicy::Dynamic).map_err(|error| format!("{error}")),
        _ => Err("write st, or dt:ALPHA, for example dt:1 or dt:1/8".to_owned()),
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Failure {
        match error {
            BackendError::Driver(error) => error.into(),
            error => Failure::Run(error.to_string()),
        }
    }
}

impl From<RunDirError> for Failure {
    fn from(error: RunDirError) -> Failure {
        Failure::Argument(error.to_string())
    }
}
