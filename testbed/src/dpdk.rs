//! The backend that runs a scenario with real frames: the switch on DPDK lcores, and a host at the far end of each of
//! its ring ports.
//!
//! Switch, hosts and links go by one clock, which runs slower than real time by the scenario's dilation, so that a
//! small machine keeps up with fast links. Every time that is reported is the scenario's.

mod board;
mod capture;
mod fit;
mod recorder;
mod results;
mod station;
mod watched;

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_config::Device;
use weir_dpdk_driver::{DriverError, Fabric, FabricOptions, Memory, Placement, RunningFabric, Runtime, Stopped};
use weir_switch_core::Report;
use weir_switch_core::report::PortReport;
use weir_units::{BitRate, Bytes, Span, Time};

use crate::host::{Host, HostError};
use crate::run_dir::{RunDir, RunDirError, Summary};
use crate::scenario::Scenario;
use board::Board;
pub use fit::fitting_dilation;
use recorder::Recorder;
use station::{Reader, Station};

/// How far a host that was polled late may catch up, in real time: as much as the switch's ports may. With more, hosts
/// would outrun a switch that lost the same time, and congest it.
const HOST_SLACK: Span = Span::from_micros(200);
/// CPUs that hosts are spread over, where there are as many besides the switch's.
const HOST_CPUS_MAX: usize = 4;
/// Between the start of the loops and the scenario's start, in real time.
const LEAD: Duration = Duration::from_millis(20);
/// How often the hosts' notes are collected, in real time.
const COLLECT_EVERY: Duration = Duration::from_millis(2);
/// How long hosts may take to finish after the scenario's end, in real time.
const FINISH_WITHIN: Duration = Duration::from_secs(20);
/// How long the switch may take to send what it holds.
const DRAIN_WITHIN: Duration = Duration::from_secs(2);

/// DPDK, started, to run scenarios one after another. Once a process.
#[derive(Debug)]
pub struct DpdkBackend {
    runtime: Runtime,
    /// CPUs for hosts alone; none where hosts are polled beside the switch.
    host_cpus: Vec<u32>,
}

/// How a run goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Scenario time.
    pub now: Time,
    /// What the first flow delivered since the last sample, in bits a second.
    pub first_flow_bps: u64,
    /// How often the switch has paused the first port's host.
    pub first_port_pauses: u64,
    /// Whether that port is in the victim state; `None` under a policy that has none.
    pub first_port_victim: Option<bool>,
    /// Shared buffer in use.
    pub pool_used: Bytes,
}

/// Makes progress out of samples.
#[derive(Debug, Default)]
struct ProgressOf {
    last: Time,
    received: Bytes,
}

impl ProgressOf {
    fn at(&mut self, now: Time, board: &Board, report: &Report) -> Progress {
        let received = board.flows().next().map_or(Bytes::ZERO, |flow| flow.received);
        let rate = BitRate::of(received.saturating_sub(self.received), now.since(self.last));
        (self.last, self.received) = (now, received);
        let first_port = report.ports.first();
        Progress {
            now,
            first_flow_bps: rate.map_or(0, BitRate::as_bps),
            first_port_pauses: first_port.map_or(0, |port| port.classes.iter().map(|class| class.pauses_tx).sum()),
            first_port_victim: first_port.and_then(is_victim),
            pool_used: report.pool.used,
        }
    }
}

/// Whether a port is in the victim state, under a policy that has one. All its queues say the same.
fn is_victim(port: &PortReport) -> Option<bool> {
    port.classes.iter().find_map(|class| class.ingress.observation.victim)
}

/// Why a scenario does not run.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// DPDK, a port or the switch.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// A host.
    #[error("host {host}: {source}")]
    Host {
        /// Its name.
        host: String,
        /// Why.
        source: HostError,
    },
    /// The results can't be written.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// A file of the results can't be written.
    #[error("the results can't be written: {0}")]
    Write(#[from] std::io::Error),
    /// A host's port is no link inside the process.
    #[error("port {0} has a host in this process, so its device must be a ring")]
    NoRing(String),
    /// Two hosts on a port.
    #[error("the far end of port {port} can't be had: {source}")]
    FarEnd {
        /// The port.
        port: String,
        /// Why.
        source: weir_dpdk_io::PortError,
    },
    /// An lcore's loop ended.
    #[error("an lcore stopped in the middle of the run")]
    LcoreFailed,
}

impl DpdkBackend {
    /// Starts DPDK with the memory that the largest of `scenarios` needs; only scenarios of that size can run.
    ///
    /// Hosts get CPUs of their own only where all scenarios run in real time. A dilated scenario has the time to poll
    /// its hosts in turn with the switch on one CPU, and should: when the machine takes that CPU away, everybody stands
    /// still together, and only time is lost. On CPUs of their own, hosts would go on sending to a switch that stands.
    pub fn start(scenarios: &[Scenario]) -> Result<DpdkBackend, DriverError> {
        let allowed = weir_dpdk_io::cpu::allowed();
        let mut cpus = Vec::new();
        let mut memory_mb = 0;
        for scenario in scenarios {
            let placement = placement(scenario, &allowed)?;
            let memory = Memory::of(std::slice::from_ref(&scenario.switch), HOST_CPUS_MAX + 3, mbufs_of(scenario));
            memory_mb = memory_mb.max(memory.megabytes());
            cpus.extend(placement.cpus.into_iter().filter(|cpu| !cpus.contains(cpu)).collect::<Vec<_>>());
        }
        let options = FabricOptions { memory_mb, ..FabricOptions::default() };
        let in_real_time = scenarios.iter().all(|scenario| scenario.switch.time_dilation == 1);
        let others = allowed.iter().copied().filter(|cpu| in_real_time && !cpus.contains(cpu));
        let host_cpus: Vec<u32> = others.take(HOST_CPUS_MAX).collect();
        cpus.extend(&host_cpus);
        Ok(DpdkBackend { runtime: Runtime::start("weir-testbed", &cpus, &[], &options)?, host_cpus })
    }

    /// Runs a scenario and writes its results; returns them too. `observe` is told how it goes at every sample.
    pub fn run(
        &self,
        scenario: &Scenario,
        run: RunDir,
        observe: &mut dyn FnMut(&Progress),
    ) -> Result<Summary, BackendError> {
        let started = Instant::now();
        run.write_config(scenario.switch.source.text())?;
        let board = Arc::new(Board::new(scenario));
        let (fabric, readers) = self.prepare(scenario, &board)?;
        let mut recorder = Recorder::new(scenario, &run, board.clone(), readers)?;
        let running = fabric.start()?;
        let outcome = conduct(scenario, &running, &board, &mut recorder, observe);
        let stopped = running.stop(DRAIN_WITHIN)?;
        recorder.collect()?;
        let record = recorder.finish()?;
        outcome?;
        let summary = results::summary(scenario, &board, &stopped, record, started.elapsed());
        run.finish(&summary)?;
        Ok(summary)
    }

    /// Opens the ports and puts the hosts behind them.
    fn prepare(&self, scenario: &Scenario, board: &Arc<Board>) -> Result<(Fabric<'_>, Vec<Reader>), BackendError> {
        let mut placement = placement(scenario, &weir_dpdk_io::cpu::allowed())?;
        let of_switch = placement.cpus.len();
        placement.cpus.extend(&self.host_cpus);
        let switches = std::slice::from_ref(&scenario.switch);
        let mut fabric = Fabric::prepare(&self.runtime, switches, &placement, mbufs_of(scenario))?;
        let mut readers = Vec::new();
        for (n, plan) in scenario.hosts.iter().enumerate() {
            let port = &scenario.switch.ports[plan.port];
            let Device::Ring(ring) = &port.device else { return Err(BackendError::NoRing(port.name.clone())) };
            let queues =
                fabric.open_far_end(ring).map_err(|source| BackendError::FarEnd { port: port.name.clone(), source })?;
            let slack = HOST_SLACK.divided_by(u64::from(scenario.switch.time_dilation));
            let flows = scenario.flows_of(n);
            let (sends, receives) = (flows.sends.iter(), flows.receives.iter());
            let host = Host::new(
                crate::host::HostConfig { slack, ..plan.nic.clone() },
                &sends.map(|(_, flow)| flow.clone()).collect::<Vec<_>>(),
                &receives.map(|(_, receiver)| *receiver).collect::<Vec<_>>(),
            )
            .map_err(|source| BackendError::Host { host: plan.name.clone(), source })?;
            let capture = scenario.capture.as_ref().filter(|plan| plan.host == n);
            let line = line_frames(scenario, n);
            let link = (plan.link_delay, line);
            let (station, reader) =
                Station::new(host, n, link, queues, fabric.store().data.clone(), board.clone(), capture);
            let cpu = if self.host_cpus.is_empty() { of_switch - 1 } else { of_switch + n % self.host_cpus.len() };
            fabric.add_task(cpu, Box::new(station));
            readers.push(reader);
        }
        Ok((fabric, readers))
    }
}

/// Lets the scenario run, and samples it, until all hosts have finished or take too long.
fn conduct(
    scenario: &Scenario,
    running: &RunningFabric,
    board: &Board,
    recorder: &mut Recorder<'_>,
    observe: &mut dyn FnMut(&Progress),
) -> Result<(), BackendError> {
    let mut progress = ProgressOf::default();
    let dilation = u64::from(scenario.switch.time_dilation);
    let lead = Span::from_nanos(LEAD.as_nanos() as u64).divided_by(dilation);
    board.begin(running.now() + lead);
    for next in recorder.schedule() {
        loop {
            let left = next.since(board.scenario_time(running.now()).unwrap_or(Time::ZERO));
            if left == Span::ZERO {
                break;
            }
            let left = Duration::from_nanos((left * dilation).as_nanos().max(1_000));
            std::thread::park_timeout(left.min(COLLECT_EVERY));
            recorder.collect()?;
        }
        if running.has_failed() {
            return Err(BackendError::LcoreFailed);
        }
        if recorder.is_due(next) {
            let report = running.report(0)?;
            let now = board.scenario_time(report.at).unwrap_or(Time::ZERO);
            recorder.sample(now, &report)?;
            observe(&progress.at(now, board, &report));
        }
    }
    let deadline = Instant::now() + FINISH_WITHIN;
    while !board.all_finished() && Instant::now() < deadline {
        std::thread::park_timeout(COLLECT_EVERY);
        recorder.collect()?;
    }
    // What is behind the last acknowledgement: RESUME frames, on their way for a link's delay.
    let longest = scenario.hosts.iter().map(|host| host.link_delay).max().unwrap_or(Span::ZERO);
    let settle = Duration::from_nanos((longest * 2 * dilation).as_nanos());
    std::thread::park_timeout(settle + Duration::from_millis(10));
    Ok(())
}

fn placement(scenario: &Scenario, allowed: &[u32]) -> Result<Placement, DriverError> {
    Placement::new(std::slice::from_ref(&scenario.switch), allowed, 0)
}

/// Frames that a host's link holds in each direction: the delay and a late poll at line rate, in frames a quarter of the
/// usual size.
fn line_frames(scenario: &Scenario, host: usize) -> usize {
    const FRAME_BYTES: u64 = 256;
    let plan = &scenario.hosts[host];
    let late = (HOST_SLACK * 4).divided_by(u64::from(scenario.switch.time_dilation));
    (plan.nic.rate.bytes_in(plan.link_delay + late).get() / FRAME_BYTES) as usize + station::BURST * 2
}

/// Mbufs that the hosts and their links hold.
fn mbufs_of(scenario: &Scenario) -> u32 {
    let lines: usize = (0..scenario.hosts.len()).map(|host| 2 * line_frames(scenario, host)).sum();
    (lines + scenario.hosts.len() * 4 * station::BURST) as u32
}
