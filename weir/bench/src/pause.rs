//! Benchmark of the delay until a PAUSE is sent, and until one is obeyed, at a half-loaded port.
//!
//! A station sends to another at a share of the port's rate. From time to time the receiver pauses the class. The switch obeys, its queue
//! grows, and the arrival that crosses Xoff makes the switch pause the sender. Each such cycle gives a sample of these delays:
//!
//! | delay | from | to | as seen by |
//! |---|---|---|---|
//! | Xoff to PAUSE | the burst with the arrival that crosses Xoff was read from the port | the PAUSE is handed to the port | the switch |
//! | PAUSE to obeyed | the burst with the PAUSE was read | the transmitter no longer starts a frame of the class | the switch |
//! | PAUSE to last frame | the receiver handed the PAUSE to its port | the last data frame that came after it | the receiver |

mod congestion;

use std::time::{Duration, Instant};

use serde::Serialize;
use weir_config::SwitchConfig;
use weir_dpdk_driver::Runtime;
use weir_dpdk_io::cpu;
use weir_units::{BitRate, Span};

use crate::error::{BenchError, from_arguments};
use crate::interrupted::{Interrupted, NextMeasurement, ProgressCallback};
use crate::latency::Latency;
use crate::machine::{HostInfo, HostLoad, HostLoadMeter, kept_from_cpu};
use crate::testbed::{CpuPlan, check_conservation, lcores_of, start_dpdk, start_with};
use crate::tester::TesterPort;
use congestion::{CongestionSource, Load};

/// Names of the pipeline's layouts on lcores.
pub const LAYOUTS: [&str; 3] = ["single", "rx-tx", "rx-fwd-tx"];
const DRAIN: Duration = Duration::from_secs(2);
/// Time limit for a first sample, on a machine that gives the switch no CPU time meanwhile.
const SAMPLE_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Plan of the pause measurements.
#[derive(Clone, Debug)]
pub struct PausePlan {
    /// Names of the layouts.
    pub layouts: Vec<String>,
    /// Rate of the ports.
    pub rate: BitRate,
    /// Load in percent of the rate.
    pub load_percent: u32,
    /// Length of a frame, with FCS.
    pub frame_bytes: u16,
    /// Number of rounds; layouts alternate within a round.
    pub rounds: usize,
    /// Duration of a round.
    pub duration: Span,
}

/// Report of the pause measurements.
#[derive(Clone, Debug, Serialize)]
pub struct PauseReport {
    /// Machine that ran the measurements.
    pub machine: HostInfo,
    /// Load on the machine by other processes.
    pub host_load: HostLoad,
    /// Rate of the ports in bit/s.
    pub rate_bps: u64,
    /// Load in percent of the rate.
    pub load_percent: u32,
    /// Length of a frame, with FCS.
    pub frame_bytes: u16,
    /// Progress at the interruption, if the measurement was interrupted.
    pub interrupted: Option<Interrupted>,
    /// Results, one a layout.
    pub layouts: Vec<LayoutReport>,
}

/// Results of a layout.
#[derive(Clone, Debug, Serialize)]
pub struct LayoutReport {
    /// Name of the layout.
    pub layout: String,
    /// CPU and task of each lcore.
    pub lcores: Vec<String>,
    /// Warnings about the validity of the figures.
    pub warnings: Vec<String>,
    /// Results, one a round.
    pub rounds: Vec<PauseRound>,
}

/// Results of a round.
#[derive(Clone, Debug, Serialize)]
pub struct PauseRound {
    /// Delay from the arrival that crosses Xoff to handing the PAUSE to the port, as measured by the switch.
    pub xoff_to_pause: Latency,
    /// Delay from receiving a PAUSE to obeying it, as measured by the switch.
    pub pause_to_obeyed: Latency,
    /// Delay from handing a PAUSE to the receiver's port to the last data frame, as measured by the receiver.
    pub pause_to_last_frame: Latency,
    /// Cycles omitted, since the generator was off its CPU or the switch sent no PAUSE in time.
    pub left_out: u64,
    /// Data frames sent to the switch.
    pub sent: u64,
    /// Data frames received from the switch.
    pub received: u64,
    /// Lossless frames that the switch dropped.
    pub dropped: u64,
    /// Polls of the switch in which a frame moved, in percent, one value an lcore.
    pub busy_percent: Vec<f64>,
    /// The longest time between two polls of the switch, in microseconds.
    pub poll_gap_max_us: u64,
    /// Time that other tasks had the switch's CPUs, in milliseconds.
    pub kept_from_cpu_ms: u64,
}

/// Takes all measurements. Starts DPDK, at most once a process. `on_progress` receives the next measurement and may end the run.
///
/// # Errors
/// The plan is invalid, there is no CPU for the generator, or a measurement fails.
pub fn run(
    plan: &PausePlan,
    eal: &[String],
    on_progress: &mut ProgressCallback<'_>,
) -> Result<PauseReport, BenchError> {
    let wrong = |message: &str| Err(BenchError::Plan(message.to_owned()));
    if plan.layouts.is_empty() || plan.rounds == 0 || plan.duration == Span::ZERO {
        return wrong("nothing to measure: give at least one layout and round, and a time above 0");
    }
    if !(1..=90).contains(&plan.load_percent) {
        return wrong("--load: 1 to 90 percent of the rate, so that what a pause held back can leave after it");
    }
    if !(64..=1_518).contains(&plan.frame_bytes) {
        return wrong("--frame-bytes: frames have 64 to 1518 B, with FCS");
    }
    if !(BitRate::mbps(100)..=BitRate::gbps(100)).contains(&plan.rate) {
        return wrong("--rate: 100Mbps to 100Gbps; a pause lasts 65,535 times as long as 512 bits do");
    }
    let cpus = cpu::allowed();
    let all = plan.layouts.iter().map(|layout| {
        let switch = switch(layout, plan.rate)?;
        let cpu_plan = CpuPlan::new(&switch, &cpus)?;
        Ok((switch, cpu_plan))
    });
    let all: Vec<(SwitchConfig, CpuPlan)> = all.collect::<Result<_, BenchError>>()?;
    let most = all.iter().max_by_key(|(_, cpu_plan)| cpu_plan.placement.cpus.len()).expect("there is a layout");
    // Union of all layouts' CPUs, since DPDK starts only once.
    let mut used: Vec<u32> = all.iter().flat_map(|(_, cpu_plan)| cpu_plan.placement.cpus.iter().copied()).collect();
    used.sort_unstable();
    used.dedup();
    let runtime = start_dpdk(&used, &most.0, &[], eal)?;
    let watch = HostLoadMeter::start();
    let mut layouts: Vec<LayoutReport> = plan
        .layouts
        .iter()
        .zip(&all)
        .map(|(layout, (_, cpu_plan))| LayoutReport {
            layout: layout.clone(),
            lcores: cpu_plan.roles(),
            warnings: cpu_plan.warnings.clone(),
            rounds: Vec::new(),
        })
        .collect();
    'rounds: for round in 1..=plan.rounds {
        for (index, (layout_report, (switch, cpu_plan))) in layouts.iter_mut().zip(&all).enumerate() {
            let what = format!("round {round} of {}: {}", plan.rounds, layout_report.layout);
            let (done, planned) = ((round - 1) * all.len() + index, plan.rounds * all.len());
            if on_progress(&NextMeasurement { what: &what, done, planned }).is_break() {
                break 'rounds;
            }
            layout_report.rounds.push(measure(plan, &runtime, switch, cpu_plan)?);
        }
    }
    let rounds = layouts.iter().map(|layout| layout.rounds.len());
    let interrupted = Interrupted::after_rounds(plan.rounds, rounds);
    layouts.retain(|layout| !layout.rounds.is_empty());
    Ok(PauseReport {
        machine: HostInfo::with_dpdk(&runtime),
        host_load: watch.read(),
        rate_bps: plan.rate.as_bps(),
        load_percent: plan.load_percent,
        frame_bytes: plan.frame_bytes,
        interrupted,
        layouts,
    })
}

fn measure(
    plan: &PausePlan,
    runtime: &Runtime,
    switch: &SwitchConfig,
    cpu_plan: &CpuPlan,
) -> Result<PauseRound, BenchError> {
    let mut prepared = cpu_plan.prepare(runtime, switch)?;
    let ends = [prepared.open_far_end("in")?, prepared.open_far_end("out")?].map(TesterPort::Ring);
    let load = Load { rate: plan.rate, percent: plan.load_percent, frame_bytes: plan.frame_bytes };
    let (source, mut handle) = CongestionSource::new(ends, prepared.store().clone(), &load);
    let running = start_with(prepared, cpu_plan, Box::new(source))?;
    std::thread::sleep(Duration::from_nanos(plan.duration.as_nanos()));
    let started = Instant::now();
    // A round without a sample is useless.
    while running.report(0)?.reaction.count == 0 && started.elapsed() < SAMPLE_WITHIN {
        std::thread::sleep(LOOK_EVERY);
    }
    let Some(measurement) = handle.finish(|| running.has_failed()) else {
        return Err(BenchError::Run("an lcore has ended: a bug".to_owned()));
    };
    let stopped = check_conservation(running.stop(DRAIN)?)?;
    let (report, lcores) = (&stopped.reports[0], lcores_of(&stopped, cpu_plan));
    Ok(PauseRound {
        xoff_to_pause: Latency::from_delay(&report.message_delay),
        pause_to_obeyed: Latency::from_delay(&report.reaction),
        pause_to_last_frame: Latency::from_histogram(&measurement.to_last_frame),
        left_out: measurement.left_out,
        sent: measurement.sent,
        received: measurement.received,
        dropped: report.dropped(weir_switch_core::counters::DropReason::HeadroomViolation),
        busy_percent: lcores.iter().map(|(_, stats)| stats.busy_permille() as f64 / 10.0).collect(),
        poll_gap_max_us: lcores.iter().map(|(_, stats)| stats.gap_max().as_micros()).max().unwrap_or(0),
        kept_from_cpu_ms: kept_from_cpu(&lcores).as_millis() as u64,
    })
}

/// Returns a switch with a lossless class, and a buffer that a pause soon fills up to Xoff.
fn switch(layout: &str, rate: BitRate) -> Result<SwitchConfig, BenchError> {
    let mut text = format!(
        "[switch]\nname = \"bench\"\nidle = \"poll\"\n[lcores]\nlayout = {layout:?}\n[buffer]\nsize = \"2MB\"\nmean_frame = \"exact\"\nheadroom = \"600KB\"\n\
         policy = \"dt\"\n[classes]\npreset = \"roce\"\n"
    );
    for name in ["in", "out"] {
        text += &format!("[[ports]]\nname = \"{name}\"\nring = \"{name}\"\nrate = \"{}bps\"\n", rate.as_bps());
    }
    for (end, name) in ["in", "out"].into_iter().enumerate() {
        text += &format!("[[static_macs]]\nmac = \"{}\"\nport = \"{name}\"\n", congestion::STATIONS[end].mac());
    }
    weir_config::parse("weir bench pause", &text).map_err(|errors| from_arguments(&errors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layout_and_rate_has_a_switch() {
        for layout in LAYOUTS {
            for rate in [BitRate::mbps(100), BitRate::gbps(10), BitRate::gbps(100)] {
                assert!(switch(layout, rate).is_ok(), "{layout} {rate}: {:?}", switch(layout, rate).err());
            }
        }
        assert!(switch("double", BitRate::gbps(1)).is_err());
    }

    #[test]
    fn plans_that_make_no_sense_are_refused() {
        let plan = |change: &dyn Fn(&mut PausePlan)| {
            let mut plan = PausePlan {
                layouts: vec!["single".to_owned()],
                rate: BitRate::gbps(1),
                load_percent: 50,
                frame_bytes: 64,
                rounds: 1,
                duration: Span::from_secs(1),
            };
            change(&mut plan);
            let Err(BenchError::Plan(message)) = run(&plan, &[], &mut |_| std::ops::ControlFlow::Continue(())) else {
                panic!("accepted")
            };
            message
        };
        assert!(plan(&|plan| plan.layouts.clear()).contains("nothing to measure"));
        assert!(plan(&|plan| plan.load_percent = 91).contains("--load"));
        assert!(plan(&|plan| plan.frame_bytes = 2_000).contains("--frame-bytes"));
        assert!(plan(&|plan| plan.rate = BitRate::mbps(1)).contains("--rate"));
        assert!(plan(&|plan| plan.layouts = vec!["double".to_owned()]).contains("double"));
    }
}
