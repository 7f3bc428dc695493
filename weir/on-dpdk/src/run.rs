//! `weir run`: the switches, until a signal.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_config::{FlowControl, SwitchConfig};
use weir_dpdk_driver::{
    DriverError, Memory, Placement, PreparedSwitches, RunningSwitches, Runtime, RuntimeOptions, Stopped,
};
use weir_experiments::Failure;
use weir_experiments::real_frames::RunArguments;
use weir_experiments::switches::load_all;
use weir_switch_core::Report;
use weir_switch_core::counters::DropReason;
use weir_switch_core::report::PortReport;
use weir_units::{BitRate, Bytes};

use crate::below_rate::{self, RateLog};
use crate::fault::Fault;
use crate::losses::LossLog;
use crate::netdevs;
use crate::peers::{PeerLog, overrun};
use crate::storms::StormLog;
use crate::summary::{RunSummary, print_summary};

/// How long what is held may take to leave when the switch is stopped.
const DRAIN_WITHIN: Duration = Duration::from_secs(2);
/// How often the control thread looks at signals and links.
const TICK: Duration = Duration::from_millis(20);

/// Runs the switches.
pub(crate) fn run(arguments: &RunArguments) -> Result<(), Fault> {
    let switches = load_all(&arguments.files)?;
    weir_dpdk_driver::check_machine(&switches)?;
    // Until the ports are closed.
    let _locks = weir_dpdk_driver::claim_devices(&switches)?;
    let placement = Placement::new(&switches, &weir_dpdk_io::cpu::allowed(), 0)?;
    let memory = Memory::of(&switches, placement.cpus.len(), 0);
    // Opened before anything starts: a summary that can't be written is wrong input.
    let json = arguments.json.as_deref().map(create_json).transpose()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let options = RuntimeOptions {
        eal_args: arguments.eal.clone(),
        file_prefix: arguments.file_prefix.clone(),
        memory_mb: memory.megabytes(),
    };
    let pci = weir_dpdk_driver::pci_addresses(&switches);
    let runtime =
        Runtime::start("weir", &placement.cpus, &pci, &options).map_err(|error| start_failure(arguments, error))?;
    match weir_dpdk_io::pdump_init(runtime.eal()) {
        Ok(()) => tracing::info!("packet capture by dpdk-dumpcap is possible"),
        Err(error) => tracing::debug!("{error}"),
    }
    let fabric = PreparedSwitches::prepare(&runtime, &switches, &placement, 0)?;
    for (switch, placed) in switches.iter().zip(&placement.switches) {
        let roles =
            placed.plan.lcores.iter().zip(&placed.on).map(|(role, on)| format!("CPU {}: {role}", placement.cpus[*on]));
        tracing::info!(switch = %switch.name, "{}", roles.collect::<Vec<_>>().join("; "));
        tracing::info!(switch = %switch.name, "{}", below_rate::catch_up(switch));
    }
    let running = fabric.start()?;
    let started = Instant::now();
    tracing::info!("forwarding; stop with SIGINT or SIGTERM");
    let watched = watch(arguments, (&switches, &placement), &running, &stop, started);
    let stopped = running.stop(DRAIN_WITHIN)?;
    watched?;
    Ok(finish((&switches, &placement), &stopped, started.elapsed(), json)?)
}

fn create_json(path: &Path) -> Result<(&Path, File), Failure> {
    let file = File::create(path).map_err(|error| {
        Failure::Argument(format!(
            "--json: the summary can't be written to {}: {error}; name a file in a directory that exists",
            path.display()
        ))
    })?;
    Ok((path, file))
}

/// EAL does not tell whether it was its arguments; where the user gave some, they are the likely reason.
fn start_failure(arguments: &RunArguments, error: DriverError) -> Fault {
    match error {
        DriverError::Eal(error) if !arguments.eal.is_empty() => Fault::from(Failure::Argument(format!(
            "DPDK does not start with the arguments after `--` ({}): {error}; its own messages stand above",
            arguments.eal.join(" ")
        ))),
        error => error.into(),
    }
}

/// Prints rates, follows links, tells of storms and of ports below their rate until it is time to stop.
fn watch(
    arguments: &RunArguments,
    (switches, placement): (&[SwitchConfig], &Placement),
    running: &RunningSwitches,
    stop: &AtomicBool,
    started: Instant,
) -> Result<(), Fault> {
    let interval = switches.iter().map(|switch| switch.stats_interval).min().unwrap_or_default();
    let interval = Duration::from_nanos(interval.as_nanos());
    let mut last: Vec<Report> = (0..switches.len()).map(|index| running.report(index)).collect::<Result<_, _>>()?;
    let mut next = Instant::now() + interval;
    let mut warned = false;
    let (mut storms, mut peers) = (StormLog::default(), PeerLog::default());
    let mut rates = RateLog::new();
    let mut losses = LossLog::new(switches, running);
    while !stop.load(Ordering::Relaxed) && arguments.duration.is_none_or(|s| started.elapsed().as_secs() < s) {
        std::thread::park_timeout(TICK);
        if running.has_failed() {
            return Ok(());
        }
        netdevs::tell(switches, running);
        for (index, port, up) in running.update_links() {
            let name = &running.shared(index).ports()[port.index()].name;
            tracing::info!(switch = %switches[index].name, port = %name, "link {}", if up { "up" } else { "down" });
        }
        for guest in running.guest_queues() {
            let (switch, port) = (&switches[guest.switch].name, &switches[guest.switch].ports[guest.port.index()].name);
            if guest.is_warning() {
                tracing::warn!(%switch, %port, "{guest}");
            } else {
                tracing::info!(%switch, %port, "{guest}");
            }
        }
        storms.tell(switches, running);
        rates.tell(switches, placement, running);
        losses.tell(switches, running);
        if Instant::now() < next {
            continue;
        }
        next += interval;
        for (index, last) in last.iter_mut().enumerate() {
            let report = running.report(index)?;
            if !arguments.quiet {
                println!("{}{}", rates_line(&switches[index], last, &report), losses.in_line(index));
                std::io::stdout().flush()?;
            }
            if !warned && let Some((port, violations)) = overrun_port(&report) {
                warned = true;
                let (what, look_at) = overrun(&switches[index].ports[port].flow_control);
                tracing::error!(
                    switch = %switches[index].name, port = %report.ports[port].name,
                    "{violations} lossless frames dropped: {what}; {look_at}"
                );
            }
            peers.tell(index, &switches[index], &report);
            if !report.balance.holds {
                tracing::error!(switch = %switches[index].name, "the books do not balance: {:?}", report.balance);
            }
            *last = report;
        }
    }
    Ok(())
}

/// The port at which most lossless frames found no room, if any did, and how many.
fn overrun_port(report: &Report) -> Option<(usize, u64)> {
    let dropped =
        |port: &PortReport| port.classes.iter().map(|class| class.dropped(DropReason::HeadroomViolation)).sum();
    report.ports.iter().map(dropped).enumerate().max_by_key(|(_, n)| *n).filter(|(_, n)| *n > 0)
}

/// `lab  rx 1.2 Mpps 9.8 Gb/s  tx …  held 12  PAUSE sent 3 received 3  dropped 0`
fn rates_line(switch: &SwitchConfig, before: &Report, now: &Report) -> String {
    let name = &switch.name;
    let span = now.at.since(before.at);
    let sums = |report: &Report| {
        let classes = report.ports.iter().flat_map(|port| &port.classes);
        classes.fold([0u64; 4], |[rx, rxb, tx, txb], class| {
            [rx + class.rx_frames, rxb + class.rx_bytes, tx + class.tx_frames, txb + class.tx_bytes]
        })
    };
    let (was, is) = (sums(before), sums(now));
    let delta = |n: usize| is[n] - was[n];
    let rate = |bytes: u64| BitRate::of(Bytes::new(bytes), span).map_or("0bps".to_owned(), |rate| rate.to_string());
    let seconds = span.as_secs_f64().max(1e-12);
    let kpps = |frames: u64| frames as f64 / seconds / 1e3;
    let policy = policy_state(now);
    format!(
        "{name}  rx {:.1} kpps {}  tx {:.1} kpps {}  held {} frames {}{}  dropped {}{policy}",
        kpps(delta(0)),
        rate(delta(1)),
        kpps(delta(2)),
        rate(delta(3)),
        now.balance.held(),
        now.pool.used,
        told(switch, before, now),
        now.balance.dropped - before.balance.dropped,
    )
}

/// What ports and their peers told each other: pauses, stages and credits, as far as ports speak these.
fn told(switch: &SwitchConfig, before: &Report, now: &Report) -> String {
    type Count = fn(&PortReport) -> [u64; 2];
    type Speaks = fn(&FlowControl) -> bool;
    let kinds: [(&str, Speaks, Count); 3] = [
        ("PAUSE", FlowControl::tells_pauses, |port| {
            port.classes.iter().fold([0; 2], |[sent, got], class| [sent + class.pauses_tx, got + class.xoff_rx])
        }),
        ("stages", FlowControl::tells_stages, |port| [port.control_tx.pfc, port.control_rx.pfc]),
        ("credits", FlowControl::tells_room, |port| [port.control_tx.credit, port.control_rx.credit]),
    ];
    let mut text = String::new();
    for (name, speaks, count) in kinds {
        let ports: Vec<usize> = switch.real_ports().filter(|port| speaks(&switch.ports[*port].flow_control)).collect();
        let sum = |report: &Report, way: usize| ports.iter().map(|port| count(&report.ports[*port])[way]).sum::<u64>();
        if !ports.is_empty() {
            let [sent, received] = [0, 1].map(|way| sum(now, way) - sum(before, way));
            text += &format!("  {name} sent {sent} received {received}");
        }
    }
    text
}

/// What the policy makes of its queues just now, if it says: SPFC's victims, the highest headroom that one is estimated to
/// need.
fn policy_state(now: &Report) -> String {
    let classes = |port: &PortReport| port.classes.map(|class| class.ingress.observation);
    let has_victims = now.ports.iter().any(|port| classes(port).iter().any(|class| class.victim.is_some()));
    let victims = now.ports.iter().filter(|port| classes(port).iter().any(|class| class.victim == Some(true)));
    let victims: Vec<&str> = victims.map(|port| port.name.as_str()).collect();
    let estimate = now.ports.iter().flat_map(classes).filter_map(|class| class.headroom_estimate).max();
    let mut text = String::new();
    if has_victims {
        text += &format!("  victims {}", if victims.is_empty() { "none".to_owned() } else { victims.join(",") });
    }
    if let Some(estimate) = estimate {
        text += &format!("  headroom estimate up to {estimate}");
    }
    text
}

/// Prints and writes the summary; a run that lost what it must not lose fails.
fn finish(
    (switches, placement): (&[SwitchConfig], &Placement),
    stopped: &Stopped,
    ran_for: Duration,
    json: Option<(&Path, File)>,
) -> Result<(), Failure> {
    let summary = RunSummary::new(switches, placement, stopped, ran_for);
    print_summary(&summary);
    if let Some((path, mut file)) = json {
        let text = serde_json::to_string_pretty(&summary).map_err(|error| Failure::Run(error.to_string()))?;
        writeln!(file, "{text}")?;
        tracing::info!("summary written to {}", path.display());
    }
    match summary.fault() {
        Some(fault) => Err(Failure::Run(fault)),
        None => Ok(()),
    }
}
