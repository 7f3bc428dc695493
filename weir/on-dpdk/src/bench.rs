//! `weir bench`: measures this machine; tables and JSON.

mod tables;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::Serialize;
use weir_bench::{Interrupted, NextMeasurement, forwarding, idle, pause, rfc2544};
use weir_experiments::real_frames::{
    BenchCommand, ForwardingArguments, IdleArguments, PauseArguments, Rfc2544Arguments,
};
use weir_experiments::switches::load_each;
use weir_experiments::{Failure, experiment};

use crate::fault::Fault;
use crate::screen::Screen;

/// Runs a measurement, prints its tables, and writes its JSON.
pub(crate) fn bench(command: &BenchCommand) -> Result<(), Fault> {
    let common = command.common();
    let eal = &common.eal[..];
    let stop = experiment::stopped_by_signals()?;
    // At once, since the measurement in hand may take a while.
    experiment::once_stopped(stop.clone(), || {
        tracing::warn!("interrupted: the measurement in hand is finished first; a second Ctrl-C ends at once");
    });
    let mut first = None;
    let on_progress = &mut |next: &NextMeasurement<'_>| {
        if stop.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        // Excludes DPDK's start.
        let begun = *first.get_or_insert_with(Instant::now);
        tracing::info!("{}{}", next.what, left(next, begun.elapsed()));
        ControlFlow::Continue(())
    };
    match command {
        BenchCommand::Forwarding(arguments) => {
            let plan = forwarding_plan(arguments)?;
            let json = create_json(common.json.as_deref())?;
            let report = forwarding::run(&plan, eal, on_progress)?;
            let text = (!report.rows.is_empty()).then(|| tables::forwarding(&report));
            finish_as_far_as(report.interrupted.as_ref(), text, &report, json)
        }
        BenchCommand::Rfc2544(arguments) => {
            let plan = rfc2544_plan(arguments)?;
            let json = create_json(common.json.as_deref())?;
            let report = rfc2544::run(&plan, eal, on_progress)?;
            let text = (!report.sizes.is_empty()).then(|| tables::rfc2544(&report));
            finish_as_far_as(report.interrupted.as_ref(), text, &report, json)
        }
        BenchCommand::Pause(arguments) => {
            let plan = pause_plan(arguments);
            let json = create_json(common.json.as_deref())?;
            let report = pause::run(&plan, eal, on_progress)?;
            let text = (!report.layouts.is_empty()).then(|| tables::pause(&report));
            finish_as_far_as(report.interrupted.as_ref(), text, &report, json)
        }
        BenchCommand::Idle(arguments) => {
            let plan = idle_plan(arguments)?;
            let json = create_json(common.json.as_deref())?;
            let report = idle::run(&plan, eal, on_progress)?;
            let text = (!report.modes.is_empty()).then(|| tables::idle(&report));
            finish_as_far_as(report.interrupted.as_ref(), text, &report, json)
        }
    }
}

/// Estimate of the remaining time at the current pace; empty before the first measurement.
fn left(NextMeasurement { done, planned, .. }: &NextMeasurement<'_>, elapsed: Duration) -> String {
    if *done == 0 {
        return String::new();
    }
    let left = elapsed.as_secs_f64() * (planned - done) as f64 / *done as f64;
    if left < 90.0 { format!("; about {left:.0} s left") } else { format!("; about {:.0} min left", left / 60.0) }
}

/// Prints and writes the results, if there are any; after an interruption also how to resume.
fn finish_as_far_as(
    interrupted: Option<&Interrupted>,
    text: Option<String>,
    report: &impl Serialize,
    json: Option<Json<'_>>,
) -> Result<(), Fault> {
    let has_figures = text.is_some();
    if let Some(text) = text {
        finish(&text, report, json)?;
    }
    let Some(Interrupted { done, planned, rounds_left, frame_bytes_left }) = interrupted else { return Ok(()) };
    let again = match rounds_left {
        _ if !has_figures => "the same command begins anew".to_owned(),
        Some(rounds) => format!("for the rest: the same command with --rounds {rounds}"),
        None => {
            let left: Vec<String> = frame_bytes_left.iter().map(u16::to_string).collect();
            format!("for the rest: the same command with --frame-bytes {}", left.join(","))
        }
    };
    Err(Failure::Run(format!("interrupted: {done} of {planned} measurements are finished; {again}")).into())
}

/// JSON output. It is opened before anything starts, since an unwritable file is wrong input. A new file is removed again if there are no
/// results.
pub(crate) struct Json<'p> {
    path: &'p Path,
    file: File,
    is_left_over: bool,
}

pub(crate) fn create_json(path: Option<&Path>) -> Result<Option<Json<'_>>, Failure> {
    let Some(path) = path else { return Ok(None) };
    let is_left_over = !path.exists();
    // The old content is kept until there are results.
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path).map_err(|error| {
        let path = path.display();
        Failure::Argument(format!(
            "--json: the results can't be written to {path}: {error}; name a file in a directory that exists"
        ))
    })?;
    Ok(Some(Json { path, file, is_left_over }))
}

impl Json<'_> {
    fn write(&mut self, report: &impl Serialize) -> io::Result<()> {
        let json = serde_json::to_string_pretty(report)?;
        // A terminal or a pipe has no length.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        writeln!(self.file, "{json}")?;
        self.is_left_over = false;
        Ok(())
    }
}

impl Drop for Json<'_> {
    fn drop(&mut self) {
        if self.is_left_over {
            let _ = fs::remove_file(self.path);
        }
    }
}

/// Prints a text, and writes results as JSON.
pub(crate) fn finish(text: &str, report: &impl Serialize, json: Option<Json<'_>>) -> Result<(), Fault> {
    Screen::default().print(text);
    let Some(mut json) = json else { return Ok(()) };
    let path = json.path.display();
    json.write(report).map_err(|error| Fault::from(Failure::Run(format!("{path}: {error}"))))?;
    tracing::info!("results written to {path}");
    Ok(())
}

fn forwarding_plan(arguments: &ForwardingArguments) -> Result<forwarding::ForwardingPlan, Failure> {
    let known: Vec<&str> = forwarding::CASES.iter().map(|case| case.name).collect();
    let case = |name: &String| {
        let found = forwarding::CASES.iter().find(|case| case.name == name);
        found.copied().ok_or_else(|| not_known("--case", name, &known))
    };
    let cases = match &arguments.cases[..] {
        [] => forwarding::CASES.to_vec(),
        names => names.iter().map(case).collect::<Result<_, _>>()?,
    };
    let lcores = match &arguments.lcores[..] {
        [] => (1..=weir_dpdk_io::cpu::allowed().len()).collect(),
        lcores => lcores.to_vec(),
    };
    Ok(forwarding::ForwardingPlan {
        lcores,
        frame_bytes: arguments.frame_bytes.clone(),
        cases,
        policy: arguments.policy.clone(),
        flow_control: arguments.flow_control.clone(),
        across: arguments.across,
        rounds: arguments.rounds,
        until: match arguments.frames {
            Some(frames) => forwarding::RoundEnd::Sent(frames),
            None => forwarding::RoundEnd::Time(Duration::from_nanos(arguments.duration.as_nanos())),
        },
    })
}

fn rfc2544_plan(arguments: &Rfc2544Arguments) -> Result<rfc2544::Rfc2544Plan, Failure> {
    let switch = load_each(std::slice::from_ref(&arguments.file))?.remove(0);
    Ok(rfc2544::Rfc2544Plan {
        switch,
        from: arguments.from.clone(),
        to: arguments.to.clone(),
        devices: [arguments.from_device.clone(), arguments.to_device.clone()],
        frame_bytes: arguments.frame_bytes.clone(),
        dscp: arguments.dscp,
        rate_max: arguments.max_rate,
        duration: arguments.duration,
        wait: arguments.wait,
        trials: arguments.trials,
        resolution: arguments.resolution / 100.0,
        loss: arguments.loss / 100.0,
        shares: arguments.shares.clone(),
        bursts: arguments.bursts,
    })
}

fn pause_plan(arguments: &PauseArguments) -> pause::PausePlan {
    let layouts = match &arguments.layouts[..] {
        [] => pause::LAYOUTS.map(str::to_owned).to_vec(),
        layouts => layouts.to_vec(),
    };
    pause::PausePlan {
        layouts,
        rate: arguments.rate,
        load_percent: arguments.load,
        frame_bytes: arguments.frame_bytes,
        rounds: arguments.rounds,
        duration: arguments.duration,
    }
}

fn idle_plan(arguments: &IdleArguments) -> Result<idle::IdlePlan, Failure> {
    let known = idle::MODES.map(|(name, _)| name);
    let mode = |name: &String| {
        let found = idle::MODES.iter().find(|(known, _)| known == name);
        found.copied().ok_or_else(|| not_known("--mode", name, &known))
    };
    let modes = match &arguments.modes[..] {
        [] => idle::MODES.to_vec(),
        names => names.iter().map(mode).collect::<Result<_, _>>()?,
    };
    Ok(idle::IdlePlan {
        modes,
        rounds: arguments.rounds,
        duration: arguments.duration,
        interval: arguments.interval,
        frame_bytes: arguments.frame_bytes,
    })
}

fn not_known(argument: &str, name: &str, known: &[&str]) -> Failure {
    Failure::Argument(format!("{argument} {name}: unknown name; write one of {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_estimated_by_what_was_measured() {
        let next = |done, planned| NextMeasurement { what: "", done, planned };
        assert_eq!(left(&next(0, 15), Duration::from_secs(9)), "");
        assert_eq!(left(&next(3, 15), Duration::from_secs(9)), "; about 36 s left");
        assert_eq!(left(&next(1, 15), Duration::from_secs(9)), "; about 2 min left");
    }
}
