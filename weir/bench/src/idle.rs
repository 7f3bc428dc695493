//! Benchmark of idle policies: CPU cost of an idle lcore, and added latency of a lone frame.

use std::time::Duration;

use serde::Serialize;
use weir_config::{IdlePolicy, SwitchConfig};
use weir_dpdk_driver::Runtime;
use weir_dpdk_io::cpu;
use weir_units::{FCS_BYTES, Span};

use crate::error::{BenchError, from_arguments};
use crate::interrupted::{Interrupted, NextMeasurement, ProgressCallback};
use crate::latency::Latency;
use crate::machine::{HostInfo, HostLoad, HostLoadMeter, kept_from_cpu};
use crate::spread::Spread;
use crate::testbed::{CpuPlan, DIRECTLY, THROUGH, Testbed, clock_cost_ns, lcores_of, start_dpdk};
use crate::tester::{Interval, TesterPort, TrialSpec};

/// All idle policies, with their names in files.
pub const MODES: [(&str, IdlePolicy); 3] =
    [("poll", IdlePolicy::Poll), ("yield", IdlePolicy::Yield), ("sleep", IdlePolicy::Sleep)];
/// Time limit for the last frame.
const WAIT: Span = Span::from_millis(200);
const MTU: u16 = 1_500;

/// Plan of the idle measurements.
#[derive(Clone, Debug)]
pub struct IdlePlan {
    /// Idle policies with their names.
    pub modes: Vec<(&'static str, IdlePolicy)>,
    /// Number of rounds; policies alternate within a round.
    pub rounds: usize,
    /// Duration of each of a round's two parts: without frames, and with lone frames.
    pub duration: Span,
    /// Mean interval between lone frames.
    pub interval: Span,
    /// Length of a frame, with FCS.
    pub frame_bytes: u16,
}

/// Report of the idle measurements.
#[derive(Clone, Debug, Serialize)]
pub struct IdleReport {
    /// Machine that ran the measurements.
    pub machine: HostInfo,
    /// Load on the machine by other processes.
    pub host_load: HostLoad,
    /// CPU and task of each lcore.
    pub lcores: Vec<String>,
    /// Warnings about the validity of the figures.
    pub warnings: Vec<String>,
    /// Cost of a clock read in nanoseconds; a latency includes two.
    pub clock_ns: f64,
    /// Mean interval between lone frames, in microseconds.
    pub interval_us: u64,
    /// Length of a frame, with FCS.
    pub frame_bytes: u16,
    /// Latency with the generator's ends connected directly, one a round: the generator's own share.
    pub direct: Vec<Latency>,
    /// Progress at the interruption, if the measurement was interrupted.
    pub interrupted: Option<Interrupted>,
    /// Results, one an idle policy.
    pub modes: Vec<ModeReport>,
}

/// Results of an idle policy.
#[derive(Clone, Debug, Serialize)]
pub struct ModeReport {
    /// Name of the idle policy.
    pub mode: &'static str,
    /// CPU time of the switch's lcore without frames, in percent of a CPU.
    pub cpu_percent: Spread,
    /// CPU time of the switch's lcore with lone frames, in percent of a CPU.
    pub cpu_percent_lone: Spread,
    /// Latency of a lone frame through the switch, one a round.
    pub latency: Vec<Latency>,
    /// Lone frames sent and received, over all rounds.
    pub frames: [u64; 2],
    /// Time that other tasks had the lcore's CPU, in milliseconds.
    pub kept_from_cpu_ms: u64,
}

#[derive(Default)]
struct Rounds {
    cpu: Vec<f64>,
    cpu_lone: Vec<f64>,
    latency: Vec<Latency>,
    frames: [u64; 2],
    kept: Duration,
}

/// Takes all measurements. Starts DPDK, at most once a process. `on_progress` receives the next measurement and may end the run.
///
/// # Errors
/// The plan is invalid, there is no CPU for the generator, or a measurement fails.
pub fn run(plan: &IdlePlan, eal: &[String], on_progress: &mut ProgressCallback<'_>) -> Result<IdleReport, BenchError> {
    let wrong = |message: &str| Err(BenchError::Plan(message.to_owned()));
    if plan.modes.is_empty() || plan.rounds == 0 || plan.duration == Span::ZERO || plan.interval == Span::ZERO {
        return wrong("nothing to measure: give at least one mode and round, and times above 0");
    }
    if !(64..=MTU + 18).contains(&plan.frame_bytes) {
        return wrong("--frame-bytes: frames have 64 to 1518 B, with FCS");
    }
    if plan.interval * 2 > plan.duration {
        return wrong("--interval must be less than half of --duration, or no frame is sent");
    }
    let switches: Vec<SwitchConfig> = plan.modes.iter().map(|(mode, _)| switch(mode)).collect::<Result<_, _>>()?;
    let cpu_plan = CpuPlan::new(&switches[0], &cpu::allowed())?;
    let runtime = start_dpdk(&cpu_plan.placement.cpus, &switches[0], &[], eal)?;
    let watch = HostLoadMeter::start();
    let mut clock_ns = f64::INFINITY;
    let mut direct = Vec::new();
    let mut modes: Vec<Rounds> = plan.modes.iter().map(|_| Rounds::default()).collect();
    'rounds: for round in 1..=plan.rounds {
        for (index, (switch, rounds)) in switches.iter().zip(&mut modes).enumerate() {
            let what = format!("round {round} of {}: {}", plan.rounds, plan.modes[index].0);
            let (done, planned) = ((round - 1) * switches.len() + index, plan.rounds * switches.len());
            if on_progress(&NextMeasurement { what: &what, done, planned }).is_break() {
                break 'rounds;
            }
            let test = IdleTest { plan, runtime: &runtime, cpu_plan: &cpu_plan, switch };
            test.without_frames(rounds)?;
            let (alone, cost) = test.with_lone_frames(rounds, index == 0)?;
            direct.extend(alone);
            clock_ns = clock_ns.min(cost);
        }
    }
    let report = |((mode, _), rounds): (&(&'static str, IdlePolicy), Rounds)| ModeReport {
        mode,
        cpu_percent: Spread::from_values(rounds.cpu),
        cpu_percent_lone: Spread::from_values(rounds.cpu_lone),
        latency: rounds.latency,
        frames: rounds.frames,
        kept_from_cpu_ms: rounds.kept.as_millis() as u64,
    };
    let rounds = modes.iter().map(|rounds| rounds.latency.len());
    let interrupted = Interrupted::after_rounds(plan.rounds, rounds);
    Ok(IdleReport {
        machine: HostInfo::with_dpdk(&runtime),
        host_load: watch.read(),
        lcores: cpu_plan.roles(),
        warnings: cpu_plan.warnings.clone(),
        clock_ns,
        interval_us: plan.interval.as_micros(),
        frame_bytes: plan.frame_bytes,
        direct,
        interrupted,
        modes: plan.modes.iter().zip(modes).filter(|(_, rounds)| !rounds.latency.is_empty()).map(report).collect(),
    })
}

/// Returns a switch with two ports, connected to the generator's two ends.
fn switch(mode: &str) -> Result<SwitchConfig, BenchError> {
    let port = |name: &str| format!("[[ports]]\nname = \"{name}\"\nring = \"{name}\"\nrate = \"10Gbps\"\n");
    let text = format!(
        "[switch]\nname = \"bench\"\nidle = \"{mode}\"\n[lcores]\nlayout = \"single\"\n[buffer]\nsize = \"1MB\"\nmean_frame = \"exact\"\n\
         [classes]\npreset = \"roce\"\n{}{}",
        port("a"),
        port("b")
    );
    weir_config::parse("weir bench idle", &text).map_err(|errors| from_arguments(&errors))
}

struct IdleTest<'t> {
    plan: &'t IdlePlan,
    runtime: &'t Runtime,
    cpu_plan: &'t CpuPlan,
    switch: &'t SwitchConfig,
}

impl IdleTest<'_> {
    /// Starts the switch; also returns the cost of a clock read, in nanoseconds.
    fn start(&self) -> Result<(Testbed, f64), BenchError> {
        let mut prepared = self.cpu_plan.prepare(self.runtime, self.switch)?;
        let clock_ns = clock_cost_ns(&prepared.clock());
        let ends = [prepared.open_far_end("a")?, prepared.open_far_end("b")?].map(TesterPort::Ring);
        Ok((Testbed::start(prepared, self.cpu_plan, ends, MTU)?, clock_ns))
    }

    /// Stops the switch; returns its lcore's CPU time, in percent of the time since `started`.
    fn stop(&self, testbed: Testbed, started: std::time::Instant, rounds: &mut Rounds) -> Result<f64, BenchError> {
        let ran = started.elapsed();
        let stopped = testbed.stop()?;
        let lcores = lcores_of(&stopped, self.cpu_plan);
        let cpu_ns: u64 = lcores.iter().map(|(_, stats)| stats.cpu_time_ns()).sum();
        rounds.kept += kept_from_cpu(&lcores);
        Ok(cpu_ns as f64 * 100.0 / ran.as_nanos() as f64)
    }

    fn without_frames(&self, rounds: &mut Rounds) -> Result<(), BenchError> {
        let (testbed, _) = self.start()?;
        let started = std::time::Instant::now();
        std::thread::sleep(Duration::from_nanos(self.plan.duration.as_nanos()));
        let cpu = self.stop(testbed, started, rounds)?;
        rounds.cpu.push(cpu);
        Ok(())
    }

    /// Measures lone frames. Returns the latency with the generator's ends connected directly, if requested, and
    /// the cost of a clock read.
    fn with_lone_frames(&self, rounds: &mut Rounds, is_first: bool) -> Result<(Option<Latency>, f64), BenchError> {
        let (mut testbed, clock_ns) = self.start()?;
        let started = std::time::Instant::now();
        let through = testbed.run_trial(self.trial_spec(THROUGH))?.stats;
        rounds.latency.push(Latency::from_histogram(&through.latencies));
        rounds.frames[0] += through.sent;
        rounds.frames[1] += through.sequence.received;
        let alone = match is_first {
            true => Some(Latency::from_histogram(&testbed.run_trial(self.trial_spec(DIRECTLY))?.stats.latencies)),
            false => None,
        };
        let cpu = self.stop(testbed, started, rounds)?;
        rounds.cpu_lone.push(cpu);
        Ok((alone, clock_ns))
    }

    fn trial_spec(&self, port_pair: usize) -> TrialSpec {
        let frames = self.plan.duration.as_picos() / self.plan.interval.as_picos();
        TrialSpec {
            port_pair,
            length: self.plan.frame_bytes - FCS_BYTES as u16,
            dscp: 26,
            frames: frames.clamp(1, u64::from(u32::MAX)) as u32,
            interval: Interval::Uneven(self.plan.interval),
            wait: WAIT,
            at_most: Span::from_secs(3_600),
            is_timed: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_has_a_switch_that_idles_so() {
        for (name, idle) in MODES {
            assert_eq!(switch(name).unwrap().idle, idle);
        }
    }

    #[test]
    fn plans_that_make_no_sense_are_refused() {
        let plan = |change: &dyn Fn(&mut IdlePlan)| {
            let mut plan = IdlePlan {
                modes: MODES.to_vec(),
                rounds: 1,
                duration: Span::from_secs(1),
                interval: Span::from_millis(1),
                frame_bytes: 64,
            };
            change(&mut plan);
            let Err(BenchError::Plan(message)) = run(&plan, &[], &mut |_| std::ops::ControlFlow::Continue(())) else {
                panic!("accepted")
            };
            message
        };
        assert!(plan(&|plan| plan.rounds = 0).contains("nothing to measure"));
        assert!(plan(&|plan| plan.frame_bytes = 63).contains("--frame-bytes"));
        assert!(plan(&|plan| plan.interval = Span::from_secs(1)).contains("--interval"));
    }
}
