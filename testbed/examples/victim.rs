//! The victim experiment on DPDK ring ports, over several N and policies, with a table of what happened to port P0.
//!
//! `cargo run --release -p weir-testbed --example victim -- --hosts 0,4,9 --policies st,dt:1,dt:4 -o runs/victim`

use std::path::PathBuf;
use std::time::SystemTime;

use clap::Parser;
use weir_testbed::dpdk::DpdkBackend;
use weir_testbed::run_dir::{Provenance, RunDir, Summary};
use weir_testbed::victim::{Victim, VictimPolicy};

#[derive(Parser)]
struct Arguments {
    /// N, hosts that send bursts; several are run one after another.
    #[arg(long, value_delimiter = ',', default_value = "0,4,9")]
    hosts: Vec<usize>,
    /// st, or dt:ALPHA.
    #[arg(long, value_delimiter = ',', default_value = "st,dt:1", value_parser = policy)]
    policies: Vec<VictimPolicy>,
    /// Ten-gigabit ports and 2.5 MB, as on the paper's testbed.
    #[arg(long)]
    testbed: bool,
    /// How many times slower than real time.
    #[arg(long)]
    dilation: Option<u32>,
    /// Capture the frames of P0.
    #[arg(long)]
    capture: bool,
    /// The directory that gets one directory for each run.
    #[arg(short, long, default_value = "runs/victim")]
    output: PathBuf,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let mut victims = Vec::new();
    for policy in &arguments.policies {
        for hosts in &arguments.hosts {
            let mut victim =
                if arguments.testbed { Victim::testbed(*hosts, *policy) } else { Victim::simulation(*hosts, *policy) };
            victim.time_dilation = arguments.dilation.unwrap_or(victim.time_dilation);
            victim.capture = arguments.capture;
            victims.push(victim);
        }
    }
    let scenarios = victims.iter().map(Victim::scenario).collect::<Result<Vec<_>, _>>()?;
    let backend = DpdkBackend::start(&scenarios)?;
    println!(
        "{:>6} {:>3}  {:>22}  {:>22}  {:>14}  {:>6}  lossless",
        "policy", "N", "P0 Gb/s before/burst", "F1 Gb/s before/burst", "PAUSEs on P0", "late"
    );
    for (victim, scenario) in victims.iter().zip(&scenarios) {
        let directory =
            arguments.output.join(format!("{}-n{}", victim.policy.name(), victim.burst_hosts).replace('/', "_"));
        let provenance = Provenance::new(env!("CARGO_PKG_VERSION"), std::env::args(), SystemTime::now());
        let summary = backend.run(scenario, RunDir::create(directory, &provenance)?, &mut |_| {})?;
        print_row(victim, &summary);
    }
    Ok(())
}

fn print_row(victim: &Victim, summary: &Summary) {
    let gbps = |bps: u64| bps as f64 / 1e9;
    let window =
        |name: &str| summary.windows.iter().find(|window| window.name == name).expect("a window of the scenario");
    let (before, burst) = (window("before"), window("burst"));
    println!(
        "{:>6} {:>3}  {:>10.2} {:>10.2}   {:>10.2} {:>10.2}   {:>14}  {:>5.1}%  {}",
        victim.policy.name(),
        victim.burst_hosts,
        gbps(before.ports[0].throughput_bps),
        gbps(burst.ports[0].throughput_bps),
        gbps(before.flows[0].throughput_bps),
        gbps(burst.flows[0].throughput_bps),
        burst.ports[0].pauses_sent,
        summary.late_ns as f64 * 100.0 / summary.duration_ns as f64,
        summary.lossless
    );
}

fn policy(text: &str) -> Result<VictimPolicy, String> {
    match text.split_once(':') {
        None if text == "st" => Ok(VictimPolicy::Static),
        Some(("dt", alpha)) => alpha.parse().map(VictimPolicy::Dynamic).map_err(|error| format!("{error}")),
        _ => Err("st, or dt:ALPHA".to_owned()),
    }
}
