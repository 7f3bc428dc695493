//! How long a pause takes to be asked for and to be obeyed, while a port is half loaded.
//!
//! A station sends to another at a share of the port's rate. From time to time the receiver pauses the class. Then the switch obeys,
//! its queue grows, and the arrival that crosses Xoff makes it pause the sender. Each such cycle gives a sample of
//!
//! | delay | from | to | as seen by |
//! |---|---|---|---|
//! | Xoff to PAUSE | the burst with the arrival that crosses Xoff was read from the port | the PAUSE is handed to the port | the switch |
//! | PAUSE to obeyed | the burst with the PAUSE was read | the transmitter no longer starts a frame of the class | the switch |
//! | PAUSE to last frame | the receiver handed the PAUSE to its port | the last data frame that came after it | the receiver |

mod presser;

use std::time::{Duration, Instant};

use serde::Serialize;
use weir_config::SwitchConfig;
use weir_dpdk_driver::Runtime;
use weir_dpdk_io::cpu;
use weir_units::{BitRate, Span};

use crate::bed::{Seats, check_books, lcores_of, start_dpdk, start_with};
use crate::error::{BenchError, of_arguments};
use crate::interrupted::{Interrupted, Next, Tell};
use crate::latency::Latency;
use crate::machine::{Machine, NeighbourWatch, Neighbours, kept_from_cpu};
use crate::tester::End;
use presser::{Load, Presser};

/// How the pipeline is cut, by name.
pub const LAYOUTS: [&str; 3] = ["single", "rx-tx", "rx-fwd-tx"];
const DRAIN: Duration = Duration::from_secs(2);
/// A machine that gives the switch no time meanwhile gets so long for a first sample.
const SAMPLE_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What to measure.
#[derive(Clone, Debug)]
pub struct PausePlan {
    /// Layouts, by their names.
    pub layouts: Vec<String>,
    /// The ports' rate.
    pub rate: BitRate,
    /// The share of it that is sent, in percent.
    pub load_percent: u32,
    /// Length of a frame, with FCS.
    pub frame_bytes: u16,
    /// How often each layout is measured, in turn.
    pub rounds: usize,
    /// How long a round takes.
    pub duration: Span,
}

/// What came out.
#[derive(Clone, Debug, Serialize)]
pub struct PauseReport {
    /// Where.
    pub machine: Machine,
    /// Who else had the CPUs.
    pub neighbours: Neighbours,
    /// The ports' rate, in bits a second.
    pub rate_bps: u64,
    /// The share of it that was sent, in percent.
    pub load_percent: u32,
    /// Length of a frame, with FCS.
    pub frame_bytes: u16,
    /// What there is, where the measurement was ended before its end.
    pub interrupted: Option<Interrupted>,
    /// Each layout.
    pub layouts: Vec<LayoutReport>,
}

/// One layout.
#[derive(Clone, Debug, Serialize)]
pub struct LayoutReport {
    /// Its name.
    pub layout: String,
    /// Each lcore's CPU and what it does.
    pub lcores: Vec<String>,
    /// What to know beside the figures.
    pub warnings: Vec<String>,
    /// Each round.
    pub rounds: Vec<PauseRound>,
}

/// One round.
#[derive(Clone, Debug, Serialize)]
pub struct PauseRound {
    /// From the arrival that crosses Xoff to the PAUSE handed to the port, as the switch tells.
    pub xoff_to_pause: Latency,
    /// From a PAUSE received to its being obeyed, as the switch tells.
    pub pause_to_obeyed: Latency,
    /// From a PAUSE handed to the receiver's port to the last data frame, as the receiver sees it.
    pub pause_to_last_frame: Latency,
    /// Cycles left out since the generator was away from its CPU, or no PAUSE came from the switch in time.
    pub left_out: u64,
    /// Data frames sent to the switch.
    pub sent: u64,
    /// Data frames that came from it.
    pub received: u64,
    /// Lossless frames that it dropped.
    pub dropped: u64,
    /// The share of the switch's polls in which a frame moved, in percent, by lcore.
    pub busy_percent: Vec<f64>,
    /// The longest time between two polls of the switch, in microseconds.
    pub poll_gap_max_us: u64,
    /// Time that others had the switch's CPUs, in milliseconds.
    pub kept_from_cpu_ms: u64,
}

/// Takes all measurements. Starts DPDK, once a process. `tell` is told what is measured next, and may end it there.
///
/// # Errors
/// The plan makes no sense, or there is no CPU for the generator; what fails on the way.
pub fn run(plan: &PausePlan, eal: &[String], tell: &mut Tell<'_>) -> Result<PauseReport, BenchError> {
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
        let seats = Seats::new(&switch, &cpus)?;
        Ok((switch, seats))
    });
    let all: Vec<(SwitchConfig, Seats)> = all.collect::<Result<_, BenchError>>()?;
    let most = all.iter().max_by_key(|(_, seats)| seats.placement.cpus.len()).expect("there is a layout");
    // All CPUs that any layout uses: DPDK starts once.
    let mut used: Vec<u32> = all.iter().flat_map(|(_, seats)| seats.placement.cpus.iter().copied()).collect();
    used.sort_unstable();
    used.dedup();
    let runtime = start_dpdk(&used, &most.0, &[], eal)?;
    let watch = NeighbourWatch::start();
    let mut layouts: Vec<LayoutReport> = plan
        .layouts
        .iter()
        .zip(&all)
        .map(|(layout, (_, seats))| LayoutReport {
            layout: layout.clone(),
            lcores: seats.roles(),
            warnings: seats.warnings.clone(),
            rounds: Vec::new(),
        })
        .collect();
    'rounds: for round in 1..=plan.rounds {
        for (index, (told, (switch, seats))) in layouts.iter_mut().zip(&all).enumerate() {
            let what = format!("round {round} of {}: {}", plan.rounds, told.layout);
            let (done, planned) = ((round - 1) * all.len() + index, plan.rounds * all.len());
            if tell(&Next { what: &what, done, planned }).is_break() {
                break 'rounds;
            }
            told.rounds.push(measure(plan, &runtime, switch, seats)?);
        }
    }
    let rounds = layouts.iter().map(|layout| layout.rounds.len());
    let interrupted = Interrupted::after_rounds(plan.rounds, rounds);
    layouts.retain(|layout| !layout.rounds.is_empty());
    Ok(PauseReport {
        machine: Machine::with(&runtime),
        neighbours: watch.read(),
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
    seats: &Seats,
) -> Result<PauseRound, BenchError> {
    let mut prepared = seats.prepare(runtime, switch)?;
    let ends = [prepared.open_far_end("in")?, prepared.open_far_end("out")?].map(End::Ring);
    let load = Load { rate: plan.rate, percent: plan.load_percent, frame_bytes: plan.frame_bytes };
    let (presser, mut handle) = Presser::new(ends, prepared.store().clone(), &load);
    let running = start_with(prepared, seats, Box::new(presser))?;
    std::thread::sleep(Duration::from_nanos(plan.duration.as_nanos()));
    let started = Instant::now();
    // A round without a single sample would say nothing.
    while running.report(0)?.reaction.count == 0 && started.elapsed() < SAMPLE_WITHIN {
        std::thread::sleep(LOOK_EVERY);
    }
    let Some(seen) = handle.finish(|| running.has_failed()) else {
        return Err(BenchError::Run("an lcore has ended: a bug".to_owned()));
    };
    let stopped = check_books(running.stop(DRAIN)?)?;
    let (report, lcores) = (&stopped.reports[0], lcores_of(&stopped, seats));
    Ok(PauseRound {
        xoff_to_pause: Latency::told(&report.message_delay),
        pause_to_obeyed: Latency::told(&report.reaction),
        pause_to_last_frame: Latency::of(&seen.to_last_frame),
        left_out: seen.left_out,
        sent: seen.sent,
        received: seen.received,
        dropped: report.dropped(weir_switch_core::counters::DropReason::HeadroomViolation),
        busy_percent: lcores.iter().map(|(_, stats)| stats.busy_permille() as f64 / 10.0).collect(),
        poll_gap_max_us: lcores.iter().map(|(_, stats)| stats.gap_max().as_micros()).max().unwrap_or(0),
        kept_from_cpu_ms: kept_from_cpu(&lcores).as_millis() as u64,
    })
}

/// A switch with a lossless class and a buffer that a pause soon fills up to Xoff.
fn switch(layout: &str, rate: BitRate) -> Result<SwitchConfig, BenchError> {
    let mut text = format!(
        "[switch]\nname = \"bench\"\nidle = \"poll\"\n[lcores]\nlayout = {layout:?}\n[buffer]\nsize = \"2MB\"\nmean_frame = \"exact\"\nheadroom = \"600KB\"\n\
         policy = \"dt\"\n[classes]\npreset = \"roce\"\n"
    );
    for name in ["in", "out"] {
        text += &format!("[[ports]]\nname = \"{name}\"\nring = \"{name}\"\nrate = \"{}bps\"\n", rate.as_bps());
    }
    for (end, name) in ["in", "out"].into_iter().enumerate() {
        text += &format!("[[static_macs]]\nmac = \"{}\"\nport = \"{name}\"\n", presser::STATIONS[end].mac());
    }
    weir_config::parse("weir bench pause", &text).map_err(|errors| of_arguments(&errors))
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
            let Err(BenchError::Plan(said)) = run(&plan, &[], &mut |_| std::ops::ControlFlow::Continue(())) else {
                panic!("accepted")
            };
            said
        };
        assert!(plan(&|plan| plan.layouts.clear()).contains("nothing to measure"));
        assert!(plan(&|plan| plan.load_percent = 91).contains("--load"));
        assert!(plan(&|plan| plan.frame_bytes = 2_000).contains("--frame-bytes"));
        assert!(plan(&|plan| plan.rate = BitRate::mbps(1)).contains("--rate"));
        assert!(plan(&|plan| plan.layouts = vec!["double".to_owned()]).contains("double"));
    }
}
