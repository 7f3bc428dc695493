//! Backend that runs a scenario with real frames: the switches on DPDK lcores, and an emulated host, or an emulated link to
//! another switch, at the far end of each ring port.
//!
//! Switches, hosts and links share one clock, which runs slower than real time by the scenario's dilation, so that a small
//! machine keeps up with fast links. All reported times are scenario times.
//!
//! ```no_run
//! use std::path::Path;
//! use std::sync::atomic::AtomicBool;
//! use std::time::SystemTime;
//! use weir_real::DpdkBackend;
//! use weir_results::run_dir::{Provenance, RunDir};
//! use weir_scenario::file;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runs = file::load(Path::new("scenarios/gfc-ring.toml")).map_err(|errors| errors.render(false))?;
//! let scenario = runs[0].scenario.clone();
//! let provenance = Provenance::new("0.1.0", ["example".to_owned()], SystemTime::now());
//! let run_dir = RunDir::create("out", &provenance)?;
//! // DPDK starts once per process, for all scenarios to be run.
//! let backend = DpdkBackend::start(&[scenario.clone()])?;
//! // Setting `stop` in another thread or a signal handler interrupts the run.
//! let stop = AtomicBool::new(false);
//! let summary = backend.run(&scenario, run_dir, &mut |_| (), &stop)?;
//! assert!(summary.failures.is_empty());
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod attached_host;
mod attachment;
mod connections;
mod delayed_link;
mod fit;
mod host_events;
mod in_flight;
mod instants;
mod real_hosts;
mod real_ranks;
mod recorder;
mod results;
mod run;
mod shared_stats;
mod software;
mod software_channel;
mod switch_link;
mod triggers;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use weir_config::{CatchUpBound, Device, SwitchConfig};
use weir_dpdk_driver::{
    CATCH_UP_BASE, DeviceLocks, DriverError, Memory, Placement, PreparedSwitches, Runtime, RuntimeOptions,
    claim_devices, pci_addresses_of,
};
use weir_dpdk_io::RingEnd;
use weir_hosts::{HostError as RealHostError, RealHostSet};
use weir_nic::host::{Host, HostError};
use weir_results::record::write_configs;
use weir_results::run_dir::{RunDir, RunDirError, Summary};
use weir_scenario::{HostPlan, LinkPlan, PortRef, Scenario, ScenarioError};
use weir_units::{BitRate, Span};

use attached_host::{AttachedHost, HostEnd};
use attachment::Attachment;
use connections::Connections;
use host_events::{EventReceiver, HostReporter};
use in_flight::LinkConfig;
use instants::PortInstants;
use real_ranks::{RankSetup, RealRank};
use recorder::Recorder;
use results::SummaryInputs;
use run::Run;
use shared_stats::SharedStats;
use software::{Software, SoftwareChannels};
use switch_link::{SwitchLink, SwitchLinkEnd};

pub use fit::fitting_dilation;
pub use weir_results::record::Progress;

/// Largest number of CPUs for hosts, if that many are available besides the switches' CPUs.
const HOST_CPUS_MAX: usize = 4;
/// Assumed rate of a ring port without a rate.
const UNSHAPED: BitRate = BitRate::gbps(100);
/// Longest time for the switches to drain.
const DRAIN_WITHIN: Duration = Duration::from_secs(2);

/// Backend on DPDK, which it starts once per process; runs scenarios one after another.
#[derive(Debug)]
pub struct DpdkBackend {
    runtime: Runtime,
    /// CPUs reserved for hosts; empty if hosts share a CPU with the switches.
    host_cpus: Vec<u32>,
    /// Locks held until DPDK's ports are closed.
    _locks: DeviceLocks,
}

/// Error that prevents or ends a run.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The scenario is inconsistent.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// DPDK, a port or a switch failed.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// A host can't be built.
    #[error("host {host}: {source}")]
    Host {
        /// Name of the host.
        host: String,
        /// Error of the host's configuration.
        source: HostError,
    },
    /// The run directory can't be written.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// A result file can't be written.
    #[error("the results can't be written: {0}")]
    Write(#[from] std::io::Error),
    /// The port of an emulated host or link is not a ring.
    #[error("port {0}: its peer is in this process, but its device is no ring; write a ring device")]
    NoRing(String),
    /// The ring's far end can't be opened.
    #[error("port {port}: the far end of its ring can't be opened: {source}")]
    FarEnd {
        /// Name of the port.
        port: String,
        /// Error of the ring.
        source: weir_dpdk_io::PortError,
    },
    /// The device of a host can't be opened.
    #[error("host {host}: its device can't be opened: {source}")]
    Device {
        /// Name of the host.
        host: String,
        /// Error of the device.
        source: weir_dpdk_io::PortError,
    },
    /// The real hosts failed.
    #[error(transparent)]
    RealHosts(#[from] RealHostError),
    /// An lcore's loop ended.
    #[error("an lcore stopped during the run")]
    LcoreFailed,
}

impl DpdkBackend {
    /// Starts DPDK with the memory that the largest of `scenarios` needs, and claims their devices.
    ///
    /// Hosts get their own CPUs only if all scenarios run in real time. In a dilated scenario, hosts and switches are
    /// polled in turn on one CPU. If the machine preempts it, only time is lost, and no host sends to a stalled switch.
    pub fn start(scenarios: &[Scenario]) -> Result<DpdkBackend, DriverError> {
        let locks = claim(scenarios)?;
        let allowed = weir_dpdk_io::cpu::allowed();
        let of_switches =
            scenarios.iter().flat_map(|scenario| scenario.switches.iter()).flat_map(|switch| &switch.ports);
        let of_hosts = scenarios.iter().flat_map(|scenario| &scenario.hosts).filter_map(|host| host.device.as_ref());
        let mut pci = pci_addresses_of(of_switches.map(|port| &port.device).chain(of_hosts));
        pci.sort();
        pci.dedup();
        let mut cpus = Vec::new();
        let mut memory_mb = 0;
        for scenario in scenarios {
            let placement = placement(scenario, &allowed)?;
            let mut memory = Memory::for_switches(&scenario.switches, HOST_CPUS_MAX + 3, mbufs_of(scenario));
            memory.for_devices = !pci.is_empty();
            memory_mb = memory_mb.max(memory.megabytes());
            cpus.extend(placement.cpus.into_iter().filter(|cpu| !cpus.contains(cpu)).collect::<Vec<_>>());
        }
        let options = RuntimeOptions { memory_mb, ..RuntimeOptions::default() };
        let in_real_time = scenarios.iter().all(|scenario| scenario.time_dilation() == 1);
        let others = allowed.iter().copied().filter(|cpu| in_real_time && !cpus.contains(cpu));
        let host_cpus: Vec<u32> = others.take(HOST_CPUS_MAX).collect();
        cpus.extend(&host_cpus);
        let runtime = Runtime::start("weir-testbed", &cpus, &pci, &options)?;
        Ok(DpdkBackend { runtime, host_cpus, _locks: locks })
    }

    /// Runs a scenario, writes its results and returns their summary. `observe` is called with the progress at every
    /// sample. Setting `stop` interrupts the run, which then has partial results.
    pub fn run(
        &self,
        scenario: &Scenario,
        run: RunDir,
        observe: &mut dyn FnMut(&Progress),
        stop: &AtomicBool,
    ) -> Result<Summary, BackendError> {
        self.run_with_hosts(scenario, run, None, observe, stop)
    }

    /// Runs a scenario like [`DpdkBackend::run`], with its real hosts.
    pub fn run_with_hosts(
        &self,
        scenario: &Scenario,
        run: RunDir,
        hosts: Option<&mut RealHostSet>,
        observe: &mut dyn FnMut(&Progress),
        stop: &AtomicBool,
    ) -> Result<Summary, BackendError> {
        let started = Instant::now();
        scenario.check()?;
        let scenario = &with_catch_up(scenario.with_static_macs());
        write_configs(scenario, &run)?;
        let shared_stats = Arc::new(SharedStats::new(scenario));
        let PreparedRun { mut prepared, event_receivers, connections, channels, ranks } =
            self.prepare(scenario, &shared_stats)?;
        let dropped = prepared.take_dropped();
        let mut recorder = Recorder::new(scenario, &run, shared_stats.clone(), event_receivers, dropped, connections)?;
        let running = prepared.start()?;
        let software = Software::start(scenario, channels, &shared_stats)?;
        let outcome = Run { scenario, running: &running, software: &software, shared_stats: &shared_stats, stop }
            .conduct(hosts.map(|hosts| (hosts, ranks)), &mut recorder, observe);
        let failures = software.finish();
        let stopped = running.stop(DRAIN_WITHIN)?;
        recorder.collect()?;
        let (record, traffic) = recorder.finish()?;
        let mut ended = outcome?;
        if let Some(real) = &mut ended.real {
            real.failures.extend(failures);
            run.write_hosts(&real.files())?;
        }
        let inputs = SummaryInputs { stopped: &stopped, record, traffic, ended, wall: started.elapsed() };
        let summary = results::summary(scenario, &shared_stats, inputs);
        run.finish(&summary)?;
        Ok(summary)
    }

    /// Opens the ports and attaches hosts and links to their far ends.
    fn prepare(&self, scenario: &Scenario, shared_stats: &Arc<SharedStats>) -> Result<PreparedRun<'_>, BackendError> {
        let mut placement = placement(scenario, &weir_dpdk_io::cpu::allowed())?;
        let of_switches = placement.cpus.len();
        placement.cpus.extend(&self.host_cpus);
        let cpu = |n: usize| match self.host_cpus.len() {
            0 => of_switches - 1,
            cpus => of_switches + n % cpus,
        };
        let mut prepared =
            PreparedSwitches::prepare(&self.runtime, &scenario.switches, &placement, mbufs_of(scenario))?;
        let mut event_receivers = Vec::new();
        let of_host = |n: usize, source| BackendError::Host { host: scenario.hosts[n].name.clone(), source };
        let hosts = (0..scenario.hosts.len()).map(|n| {
            let plan = &scenario.hosts[n];
            let host = match scenario.is_real(n) {
                // Placeholder, so that indices match the scenario's.
                true => Host::new(plan.nic.clone(), &[], &[]),
                false => scenario.host(n, slack(&scenario.switches[plan.switch])),
            };
            host.map_err(|error| of_host(n, error))
        });
        let mut hosts = hosts.collect::<Result<Vec<Host>, _>>()?;
        let connections = Connections::open(scenario, &mut hosts).map_err(|(n, error)| of_host(n, error))?;
        let mut channels = SoftwareChannels::new(scenario);
        let mut triggers = triggers::of_hosts(scenario, &connections);
        let mut ranks = Vec::new();
        for (n, (plan, host)) in scenario.hosts.iter().zip(hosts).enumerate() {
            if scenario.is_real(n) {
                if connections.has_programs(n) {
                    let (reporter, event_receiver) = HostReporter::new(n, triggers[n].take(), None);
                    ranks.push(RealRank { number: n, host, reporter });
                    event_receivers.push(event_receiver);
                }
                continue;
            }
            let attachment = match &plan.device {
                None => Attachment::Ring(far_end(&mut prepared, scenario, plan.place())?),
                Some(device) => {
                    let mtu = scenario.switches[plan.switch].mtu.get() as u16;
                    let opened = prepared.open_device(device, mtu);
                    let (rx, tx) = opened.map_err(|source| BackendError::Device { host: plan.name.clone(), source })?;
                    Attachment::Device(rx, tx)
                }
            };
            let capture = scenario.capture.as_ref().filter(|plan| plan.host == n);
            let (link_config, pool) = (host_link(scenario, plan), prepared.store().data.clone());
            let (port, instants) = (plan.place(), instants(&prepared, plan.place()));
            let (nic_queues, triggers) = (channels.nic_queues[n].take(), triggers[n].take());
            let end = scenario.end;
            let end = HostEnd { number: n, host, port, instants, attachment, nic_queues, triggers, end };
            let (attached, event_receiver) = AttachedHost::new(end, link_config, pool, shared_stats.clone(), capture);
            prepared.add_task(cpu(n), Box::new(attached));
            event_receivers.push(event_receiver);
        }
        for (n, plan) in scenario.links.iter().enumerate().filter(|(_, plan)| scenario.is_emulated(plan)) {
            let mut end = |place| -> Result<SwitchLinkEnd, BackendError> {
                let ring = far_end(&mut prepared, scenario, place)?;
                Ok(SwitchLinkEnd::new(place, instants(&prepared, place), ring))
            };
            let ends = [end(plan.ends[0])?, end(plan.ends[1])?];
            let (link_config, pool) = (switch_link(scenario, plan), prepared.store().data.clone());
            let (wire, event_receiver) = SwitchLink::new(n, ends, link_config, pool, shared_stats.clone());
            prepared.add_task(cpu(scenario.hosts.len() + n), Box::new(wire));
            event_receivers.push(event_receiver);
        }
        let ranks = RankSetup { ranks, connections: connections.real_connections(scenario) };
        Ok(PreparedRun { prepared, event_receivers, connections, channels, ranks })
    }
}

/// Claims the devices of all scenarios: those of switch ports, and hosts' own.
fn claim(scenarios: &[Scenario]) -> Result<DeviceLocks, DriverError> {
    let switches: Vec<SwitchConfig> = scenarios.iter().flat_map(|scenario| scenario.switches.iter().cloned()).collect();
    let mut locks = claim_devices(&switches)?;
    for host in scenarios.iter().flat_map(|scenario| &scenario.hosts) {
        if let Some(device) = &host.device {
            let named = |error| match error {
                DriverError::DeviceInUse(message) => DriverError::DeviceInUse(format!("host {}: {message}", host.name)),
                error => error,
            };
            locks.claim(device).map_err(named)?;
        }
    }
    Ok(locks)
}

struct PreparedRun<'a> {
    prepared: PreparedSwitches<'a>,
    event_receivers: Vec<EventReceiver>,
    connections: Connections,
    channels: SoftwareChannels,
    ranks: RankSetup,
}

fn far_end(prepared: &mut PreparedSwitches<'_>, scenario: &Scenario, place: PortRef) -> Result<RingEnd, BackendError> {
    let Device::Ring(ring) = &scenario.switches[place.switch].ports[place.port].device else {
        return Err(BackendError::NoRing(scenario.port_name(place)));
    };
    prepared.open_far_end(ring).map_err(|source| BackendError::FarEnd { port: scenario.port_name(place), source })
}

fn instants(prepared: &PreparedSwitches<'_>, place: PortRef) -> PortInstants {
    PortInstants::new(prepared.shared(place.switch).ports()[place.port].feedback())
}

/// Places switches on CPUs. In a dilated scenario several switches share one CPU, so that none runs while another is
/// stalled (see [`DpdkBackend::start`]).
fn placement(scenario: &Scenario, allowed: &[u32]) -> Result<Placement, DriverError> {
    let names_cores = |switch: &SwitchConfig| !switch.lcores.cores.is_empty();
    let together = scenario.switches.len() > 1 && scenario.time_dilation() > 1;
    let allowed = if together && !scenario.switches.iter().any(names_cores) { &allowed[..1] } else { allowed };
    Placement::new(&scenario.switches, allowed, 0)
}

/// Catch-up of a late poll if all hosts are real, in scenario time: short compared with a round trip, and a burst of
/// 12.5 KB at 10 Gb/s.
const REAL_HOST_CATCH_UP: Span = Span::from_micros(10);

/// Returns the catch-up of a switch's late ports and of their hosts, in scenario time. Hosts with more catch-up would
/// congest a switch that lost the same time. The default is small: ports and hosts polled in turn on one CPU stall
/// together.
fn slack(switch: &SwitchConfig) -> Span {
    let real = match switch.lcores.catch_up {
        CatchUpBound::Auto => CATCH_UP_BASE,
        CatchUpBound::AtMost(most) => most,
    };
    real.divided_by(u64::from(switch.time_dilation))
}

/// Sets the switches' automatic catch-up. If all hosts are real, none stalls together with a switch, so it catches up
/// more.
fn with_catch_up(mut scenario: Scenario) -> Scenario {
    let is_apart = scenario.links.is_empty() && (0..scenario.hosts.len()).all(|host| scenario.is_real(host));
    for switch in Arc::make_mut(&mut scenario.switches) {
        if switch.lcores.catch_up == CatchUpBound::Auto {
            let apart = REAL_HOST_CATCH_UP * u64::from(switch.time_dilation);
            switch.lcores.catch_up =
                CatchUpBound::AtMost(if is_apart { apart.max(CATCH_UP_BASE) } else { CATCH_UP_BASE });
        }
    }
    scenario
}

/// Returns the largest poll delay for which a link has capacity.
fn late(scenario: &Scenario) -> Span {
    scenario.switches.iter().map(slack).max().unwrap_or(Span::ZERO) * 4
}

fn host_link(scenario: &Scenario, plan: &HostPlan) -> LinkConfig {
    // A device has its own cable.
    let delay = if plan.device.is_some() { Span::ZERO } else { plan.link_delay };
    LinkConfig::new(plan.nic.rate, delay, late(scenario), plan.faults)
}

fn switch_link(scenario: &Scenario, plan: &LinkPlan) -> LinkConfig {
    let rates = plan.ends.iter().filter_map(|end| scenario.switches[end.switch].ports[end.port].rate);
    let rate = rates.max().unwrap_or(UNSHAPED);
    LinkConfig::new(rate, plan.delay, late(scenario), plan.faults)
}

/// Returns the number of mbufs that hosts and links hold.
fn mbufs_of(scenario: &Scenario) -> u32 {
    let of_hosts = scenario.hosts.iter().map(|plan| host_link(scenario, plan));
    let of_links = scenario.links.iter().map(|plan| switch_link(scenario, plan));
    of_hosts.chain(of_links).map(|link_config| link_config.mbufs()).sum::<usize>() as u32
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use weir_scenario::RealPorts;
    use weir_scenario::file::load;

    use super::*;

    #[test]
    fn a_late_poll_makes_up_more_where_all_hosts_are_real() {
        let made_up = |name: &str, time_dilation: u32, is_real: bool| {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name);
            let run = &load(&file).unwrap_or_else(|errors| panic!("{}", errors.render(false)))[0];
            let scenario = match is_real {
                true => run.with_real_hosts(time_dilation, &RealPorts::default()),
                false => run.dilated(time_dilation),
            };
            with_catch_up(scenario.unwrap()).switches[0].lcores.catch_up
        };
        let (little, guests) = (CatchUpBound::AtMost(CATCH_UP_BASE), "spfc-testbed-guests.toml");
        assert_eq!(made_up(guests, 500, true), CatchUpBound::AtMost(Span::from_millis(5)));
        assert_eq!(made_up(guests, 1, true), little);
        assert_eq!(made_up(guests, 500, false), little, "emulated hosts stand still with the switch");
        assert_eq!(made_up("emulated-meets-real.toml", 500, true), little, "as one of these does");
    }
}
