//! Generator at the two interfaces of a memif socket, connected to a forwarder in another process: Weir, or any DPDK program.
//!
//! Order of calls: [`MemifTester::start`], start of the forwarder, [`MemifTester::wait_until_forwarded`], trials,
//! [`MemifTester::stop`]. Stop the forwarder last: DPDK's memif unmaps the memory of a peer that has gone while it is polled.

use std::path::Path;
use std::time::{Duration, Instant};

use weir_config::{Device, SocketAccess};
use weir_dpdk_driver::{Memory, Placement, PreparedSwitches, Runtime};
use weir_units::{FCS_BYTES, FRAME_BYTES_MIN, Span};

use crate::error::BenchError;
use crate::latency::Latency;
use crate::testbed::{CpuPlan, THROUGH, Testbed};
use crate::tester::{Interval, MBUFS, TesterPort, TrialSpec, TrialStats};

/// Ids of the two interfaces on the socket. Frames go from the first to the second.
pub const INTERFACES: [u32; 2] = [0, 1];
const MTU: u16 = 1_500;
const LENGTH: u16 = FRAME_BYTES_MIN as u16 - FCS_BYTES as u16;
/// Waiting time for the last frames of a trial.
const WAIT: Span = Span::from_millis(50);
/// Number of probe frames in each attempt to detect the forwarder.
const PROBES: u32 = 10;
/// Time limit for sending the probe frames, and waiting time for their return.
const PROBE_TIME: Span = Span::from_millis(20);

/// Generator of 64 B frames of a lossy class that measures their latency.
pub struct MemifTester {
    testbed: Testbed,
}

/// Rate of an overloaded forwarder.
#[derive(Clone, Copy, Debug)]
pub struct OverloadRate {
    /// Received frames a second.
    pub fps: f64,
    /// Share of frames that waited for room at the forwarder.
    pub held: f64,
    /// Share of frames that the forwarder accepted and lost. If `held` and `lost` are small, the generator limits the rate.
    pub lost: f64,
}

/// Latency and losses of frames sent at a rate.
#[derive(Clone, Debug)]
pub struct TrialLatency {
    /// Latency from the hand-over of a frame to the port, or its due time if the port had no room, to its receipt.
    pub latency: Latency,
    /// Frames due.
    pub due: u64,
    /// Frames lost, or not accepted by the port in time.
    pub missing: u64,
    /// Frames not timed, since the generator was off its CPU while they were in flight.
    pub untimed: u64,
}

impl MemifTester {
    /// Returns the DPDK memory that a tester needs.
    pub fn memory(socket: &Path) -> Memory {
        Memory::for_tasks(&devices(socket), usize::from(MTU), MBUFS)
    }

    /// Listens on a new socket and starts the generator, idle, on this CPU.
    ///
    /// # Errors
    /// A port can't be opened.
    pub fn start(runtime: &Runtime, cpu: u32, socket: &Path) -> Result<MemifTester, BenchError> {
        let mut prepared = PreparedSwitches::without_switches(runtime, &[cpu], &MemifTester::memory(socket))?;
        let mut open = |device: &Device| {
            let (rx, tx) = prepared.open_device(device, MTU)?;
            Ok::<_, BenchError>(TesterPort::Memif(rx, tx))
        };
        let [first, second] = devices(socket);
        let ends = [open(&first)?, open(&second)?];
        let placement = Placement { cpus: vec![cpu], switches: Vec::new(), replayer: None };
        let cpu_plan = CpuPlan { placement, tester: 0, warnings: Vec::new() };
        Ok(MemifTester { testbed: Testbed::start(prepared, &cpu_plan, ends, MTU)? })
    }

    /// Sends probe frames until one returns; false if none does within `timeout`.
    ///
    /// # Errors
    /// The generator's lcore has ended.
    pub fn wait_until_forwarded(&mut self, timeout: Duration) -> Result<bool, BenchError> {
        let started = Instant::now();
        while started.elapsed() < timeout {
            let outcome =
                self.try_it(TrialSpec { wait: PROBE_TIME, ..trial_spec(PROBES, Interval::NONE, PROBE_TIME) })?;
            if outcome.sequence.received > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Offers as many frames as the port accepts, for `time`.
    ///
    /// # Errors
    /// The generator's lcore has ended.
    pub fn overload_rate(&mut self, time: Span) -> Result<OverloadRate, BenchError> {
        let outcome = self.try_it(trial_spec(u32::MAX, Interval::NONE, time))?;
        let sent = outcome.sent.max(1) as f64;
        Ok(OverloadRate {
            // While the generator is off its CPU, the forwarder continues with the frames that it has.
            fps: outcome.sequence.received as f64 / (outcome.took + outcome.away).as_secs_f64().max(1e-9),
            held: outcome.late as f64 / sent,
            lost: outcome.lost() as f64 / sent,
        })
    }

    /// Sends lone frames for `time`, at random intervals with this mean.
    ///
    /// # Errors
    /// The generator's lcore has ended.
    pub fn lone_frames(&mut self, interval: Span, time: Span) -> Result<TrialLatency, BenchError> {
        let frames = time.as_picos() / interval.as_picos().max(1);
        self.timed(frames, Interval::Uneven(interval))
    }

    /// Sends frames at this rate for `time`.
    ///
    /// # Errors
    /// The generator's lcore has ended.
    pub fn at_rate(&mut self, fps: f64, time: Span) -> Result<TrialLatency, BenchError> {
        self.timed((fps * time.as_secs_f64()) as u64, Interval::of_rate(fps))
    }

    /// Stops the generator and closes the ports.
    ///
    /// # Errors
    /// The generator's lcore does not end.
    pub fn stop(self) -> Result<(), BenchError> {
        self.testbed.stop().map(drop)
    }

    fn timed(&mut self, frames: u64, interval: Interval) -> Result<TrialLatency, BenchError> {
        let frames = frames.clamp(1, u64::from(u32::MAX)) as u32;
        let outcome = self.try_it(TrialSpec { is_timed: true, ..trial_spec(frames, interval, Span::from_secs(60)) })?;
        Ok(TrialLatency {
            latency: Latency::from_histogram(&outcome.latencies),
            due: outcome.sent + outcome.refused,
            missing: outcome.lost() + outcome.refused,
            untimed: outcome.untimed,
        })
    }

    fn try_it(&mut self, spec: TrialSpec) -> Result<TrialStats, BenchError> {
        Ok(self.testbed.run_trial(spec)?.stats)
    }
}

fn trial_spec(frames: u32, interval: Interval, at_most: Span) -> TrialSpec {
    TrialSpec { port_pair: THROUGH, length: LENGTH, dscp: 0, frames, interval, wait: WAIT, at_most, is_timed: false }
}

fn devices(socket: &Path) -> [Device; 2] {
    let socket = socket.display().to_string();
    INTERFACES.map(|id| Device::Memif { socket: socket.clone(), id, server: true, access: SocketAccess::default() })
}
