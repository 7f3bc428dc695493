//! `weir calibrate`: measured stop delays of a running switch's links, and the headroom that they require.
//!
//! Pauses a port's peer repeatedly by `ports.PORT.pause`, and captures the frames around each pause. Pauses that the switch or its
//! peers send by themselves are measured too.

mod advice;
mod machine;
mod session;
mod stream;
mod text;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use weir_config::SwitchConfig;
use weir_control::capture::CaptureDirection;
use weir_experiments::Failure;
use weir_experiments::experiment::stopped_by_signals;
use weir_experiments::files::{json_text, write_atomic};
use weir_experiments::progress::{self, ProgressBar};
use weir_units::{Bytes, Class, Span};

use crate::control::Target;
use crate::runtime_config::time;
use advice::{DelayStatistics, HeadroomAdvice, MeasuredPort, SwitchDelay};
use machine::PollGapStatistics;
use session::{MEASURED_KEY, Percentiles, Session};
use watch::{Sample, SkippedPauses, Watch};

/// Arguments of `weir calibrate`.
#[derive(clap::Args)]
pub(crate) struct CalibrateArguments {
    #[command(flatten)]
    target: Target,
    /// Calibrate this port only; repeat it for several. By default all ports that speak PFC or PAUSE and have a link.
    #[arg(short, long, value_name = "PORT")]
    port: Vec<String>,
    /// The class that is paused; without it, the lossless class of which the port received most.
    #[arg(long, value_name = "CLASS", value_parser = clap::value_parser!(u8).range(0..8))]
    class: Option<u8>,
    /// Number of pauses measured at each port. 59 cover 95 % of all pauses with a confidence of 95 %, and 299 cover 99 %.
    #[arg(short = 'n', long, value_name = "PAUSES", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    samples: u32,
    /// Duration of each pause. A sender that has not stopped by then does not obey.
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = time)]
    hold: Duration,
    /// B_m: limit of an ingress queue, from which Xoff, B_1 and B_0 are computed. Without it, its share of the buffer.
    #[arg(long, value_name = "SIZE")]
    b_m: Option<Bytes>,
    /// Apply the longest delay of all ports to adaptive headroom of the running switch, unless the measurement was disturbed.
    #[arg(long)]
    apply: bool,
    /// Write the lines for the switch's file into this file too.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON, with each pause.
    #[arg(long)]
    json: bool,
}

/// Result of a calibration.
#[derive(Debug, Serialize)]
struct Report {
    switch: String,
    hold_ms: u64,
    /// True if ports were named; those must be measured.
    #[serde(skip)]
    are_named: bool,
    /// Poll gaps of the switch during the calibration.
    machine: PollGapStatistics,
    /// Delay from crossing Xoff to the PAUSE, of all ports, since the switch's start.
    message_delay: Option<Percentiles>,
    /// Delay from a peer's PAUSE to obeying it.
    reaction: Option<Percentiles>,
    links: Vec<MeasuredLink>,
    /// Reasons why no advice is given.
    #[serde(rename = "doubts")]
    disturbances: Vec<String>,
    /// Lines for the switch's file.
    fragment: Option<String>,
    /// Delay set for adaptive headroom, with --apply.
    applied_delay_ns: Option<u64>,
}

/// A link.
#[derive(Debug, Serialize)]
struct MeasuredLink {
    port: String,
    #[serde(skip)]
    number: usize,
    class: u8,
    rate_bps: u64,
    /// Lower bounds of a pause, from the file.
    least: MinimumDelays,
    /// Stops of the peer after the switch's PAUSEs.
    peer_stops: StopTimes,
    /// Stops of the switch after the peer's PAUSEs.
    switch_stops: StopTimes,
    /// Pauses whose capture lacks frames.
    incomplete: u64,
    advice: Option<HeadroomAdvice>,
}

/// Parts of a delay that the file determines, in nanoseconds; on a loaded link they add up.
#[derive(Debug, Serialize)]
struct MinimumDelays {
    /// Time of a longest frame that the PAUSE may wait for.
    own_frame_ns: u64,
    /// Propagation delay in both directions: twice `delay`.
    propagation_ns: u64,
    /// Time of a longest frame that the sender has begun.
    peer_frame_ns: u64,
}

/// Time until a sender stops.
#[derive(Debug, Serialize)]
struct StopTimes {
    light: Option<DelayStatistics>,
    loaded: Option<DelayStatistics>,
    left_out: SkippedPauses,
    samples: Vec<Sample>,
}

/// Longest pause that a user may ask for: longer ones are storms to a watchdog.
const HOLD_MAX: Duration = Duration::from_secs(1);
/// Consecutive pauses without a result after which a port is given up.
const IN_VAIN: u32 = 20;

/// Measures the delays, and prints the advice.
pub(crate) fn calibrate(arguments: &CalibrateArguments) -> Result<(), Failure> {
    if arguments.hold > HOLD_MAX {
        return Err(Failure::Argument("--hold: a second at most; longer pauses are storms to a watchdog".to_owned()));
    }
    if arguments.b_m == Some(Bytes::ZERO) {
        return Err(Failure::Argument("--b-m: what an ingress queue may hold, such as 1MB".to_owned()));
    }
    // Checked before any peer is paused.
    if let Some(path) = &arguments.output {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if path.is_dir() || !folder.is_dir() {
            let message = format!("--output {}: name a file in a directory that exists", path.display());
            return Err(Failure::Argument(message));
        }
    }
    let mut session = Session::begin(&arguments.target)?;
    let switch = session.switch.clone();
    let policy = switch.buffer.policy.name();
    if arguments.apply && !switch.buffer.policy.is_live(MEASURED_KEY) {
        return Err(Failure::Argument(format!(
            "--apply: policy \"{policy}\" has its headroom from the start; adaptive headroom alone changes it, and the lines for the file \
             do after a restart"
        )));
    }
    let ports = session.ports(&arguments.port, arguments.class)?;
    let stop = stopped_by_signals()?;
    let before = session.lcores()?;
    let pauses = u64::from(arguments.samples);
    let bar = progress::bar(ports.len() as u64 * pauses, 0, "{prefix} [{bar:32}] {pos} of {len} pauses, {left} left");
    let links = measure_all(&mut session, &ports, arguments, &bar, &stop);
    bar.finish_and_clear();
    let links = links?;
    let machine = PollGapStatistics::between(&before.0, &session.lcores()?.0, before.1.elapsed().as_millis() as u64);
    let [message_delay, reaction] = session.delays()?;
    let mut report = Report::new(&switch, arguments, machine, [message_delay, reaction], links);
    let was_stopped = stop.load(Ordering::Relaxed);
    if let Some(delay) = report.delay_for_adaptive(&switch).filter(|_| arguments.apply && !was_stopped) {
        session.set_adaptive_delay(delay)?;
        report.applied_delay_ns = Some(delay.as_nanos());
    }
    if let (Some(path), Some(fragment)) = (&arguments.output, &report.fragment) {
        write_atomic(path, |part| std::fs::write(part, fragment))
            .map_err(|error| Failure::Argument(format!("--output {}: {error}", path.display())))?;
    }
    if arguments.json {
        print!("{}", json_text(&report));
    } else {
        print!("{report}");
    }
    report.verdict(was_stopped)
}

/// Pauses one port after another, until `stop` is set.
fn measure_all(
    session: &mut Session,
    ports: &[(usize, u8)],
    arguments: &CalibrateArguments,
    bar: &ProgressBar,
    stop: &AtomicBool,
) -> Result<Vec<MeasuredLink>, Failure> {
    let pauses = u64::from(arguments.samples);
    let mut links = Vec::new();
    for (number, (port, class)) in (0..).zip(ports.iter().copied()) {
        let name = session.switch.ports[port].name.clone();
        progress::above(|| eprintln!("{name}: class {class}, {pauses} pauses of {:?}", arguments.hold));
        bar.set_prefix(name);
        let seen_so_far = |samples: usize| bar.set_position(number * pauses + samples as u64);
        links.push(measure(session, port, Class::new(class), arguments, &seen_so_far, stop)?);
        // A port whose measurement was abandoned counts as finished too.
        bar.set_position((number + 1) * pauses);
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(links)
}

/// Pauses one port until there are enough results, the port is given up, or `stop` is set.
fn measure(
    session: &mut Session,
    port: usize,
    class: Class,
    arguments: &CalibrateArguments,
    seen_so_far: &dyn Fn(usize),
    stop: &AtomicBool,
) -> Result<MeasuredLink, Failure> {
    let switch = session.switch.clone();
    let config = &switch.ports[port];
    let rate = config.rate.ok_or_else(|| Failure::Argument(format!("port {} has no rate in its file", config.name)))?;
    let hold = Span::from_nanos(arguments.hold.as_nanos() as u64);
    let [mut peer, mut own] =
        [CaptureDirection::In, CaptureDirection::Out].map(|direction| Watch::new(direction, rate, hold));
    let (mut incomplete, mut in_vain) = (0, 0);
    while peer.samples.len() < arguments.samples as usize && in_vain < IN_VAIN && !stop.load(Ordering::Relaxed) {
        let (lcores, begun) = session.lcores()?;
        let seen = session.pause_once(port, class, rate, arguments.hold)?;
        let gaps = PollGapStatistics::between(&lcores, &session.lcores()?.0, begun.elapsed().as_millis() as u64);
        let had = peer.samples.len();
        if seen.missed > 0 {
            incomplete += 1;
        } else {
            peer.away(gaps.away());
            own.away(gaps.away());
            for frame in seen.frames {
                peer.see(frame);
                own.see(frame);
            }
            peer.end();
            own.end();
        }
        seen_so_far(peer.samples.len());
        in_vain = if peer.samples.len() > had { 0 } else { in_vain + 1 };
    }
    let frame_ns = rate.time_for(switch.frame_bytes_max()).as_nanos();
    Ok(MeasuredLink {
        port: config.name.clone(),
        number: port,
        class: class.index() as u8,
        rate_bps: rate.as_bps(),
        least: MinimumDelays {
            own_frame_ns: frame_ns,
            propagation_ns: (config.delay * 2).as_nanos(),
            peer_frame_ns: frame_ns,
        },
        peer_stops: StopTimes::from_watch(peer),
        switch_stops: StopTimes::from_watch(own),
        incomplete,
        advice: None,
    })
}

impl StopTimes {
    fn from_watch(watch: Watch) -> StopTimes {
        StopTimes {
            light: DelayStatistics::for_load(&watch.samples, false),
            loaded: DelayStatistics::for_load(&watch.samples, true),
            left_out: watch.left_out,
            samples: watch.samples,
        }
    }
}

impl Report {
    fn new(
        switch: &SwitchConfig,
        arguments: &CalibrateArguments,
        machine: PollGapStatistics,
        [message_delay, reaction]: [Option<Percentiles>; 2],
        mut links: Vec<MeasuredLink>,
    ) -> Report {
        let before = message_delay.map_or_else(
            || SwitchDelay { ns: switch.pfc.reaction.as_nanos(), measured: false },
            |delay| SwitchDelay { ns: delay.p999_ns, measured: true },
        );
        let mut disturbances = Vec::new();
        for link in &mut links {
            let (samples, left_out) = (&link.peer_stops.samples, link.peer_stops.left_out);
            let all = DelayStatistics::from_samples(samples.iter());
            let touched = all.as_ref().and_then(|all| machine.disturbance(all.pauses, all.p50_ns, all.max_ns));
            match touched.or_else(|| machine.late_poll_disturbance(left_out.unpolled)) {
                Some(disturbance) => disturbances.push(format!("port {}: {disturbance}", link.port)),
                None if all.is_none() || left_out.never_stopped > 0 => {}
                None => link.advice = HeadroomAdvice::from_samples(switch, link.number, samples, before),
            }
        }
        let measured =
            links.iter().filter_map(|link| Some(MeasuredPort { port: link.number, advice: link.advice.as_ref()? }));
        // A common headroom requires valid measurements of all ports.
        let fragment = if disturbances.is_empty() {
            advice::fragment(switch, &measured.collect::<Vec<_>>(), arguments.b_m)
        } else {
            None
        };
        Report {
            switch: switch.name.clone(),
            are_named: !arguments.port.is_empty(),
            hold_ms: arguments.hold.as_millis() as u64,
            machine,
            message_delay,
            reaction,
            links,
            disturbances,
            fragment,
            applied_delay_ns: None,
        }
    }

    /// Delay for adaptive headroom at all ports: the longest time from PAUSE to the last frame, plus the switch's own delay beyond `[pfc]
    /// reaction`, which has separate headroom. `None` if any result is in doubt.
    fn delay_for_adaptive(&self, switch: &SwitchConfig) -> Option<Span> {
        let obey = self.links.iter().all(|link| link.peer_stops.left_out.never_stopped == 0);
        let reaction = switch.pfc.reaction.as_nanos();
        let delay = |advice: &HeadroomAdvice| advice.after_ns + advice.before.ns.saturating_sub(reaction);
        let longest = self.links.iter().filter_map(|link| link.advice.as_ref()).map(delay).max()?;
        (obey && self.disturbances.is_empty()).then(|| Span::from_nanos(longest))
    }

    /// Result of the command: unmeasured ports, with reasons.
    fn verdict(&self, was_stopped: bool) -> Result<(), Failure> {
        let mut faults = Vec::new();
        let has_samples = self.links.iter().any(|link| !link.peer_stops.samples.is_empty());
        for MeasuredLink { port, class, peer_stops, incomplete, .. } in &self.links {
            let SkippedPauses { idle, never_stopped, unpolled, .. } = peer_stops.left_out;
            if never_stopped > 0 {
                faults.push(format!(
                    "port {port}: frames of class {class} kept coming through {never_stopped} pauses of {} ms: its peer does not obey \
                     PFC for that class, or takes longer (--hold)",
                    self.hold_ms
                ));
            } else if peer_stops.samples.is_empty() && unpolled == 0 && !was_stopped && (self.are_named || !has_samples)
            {
                faults.push(if idle > 0 {
                    format!("port {port}: no frames of class {class} arrived, so no stop was measured; have its host send some")
                } else if *incomplete > 0 {
                    format!("port {port}: no capture was complete: too many frames arrived; have its host send less")
                } else {
                    format!("port {port}: no pause was seen from its begin to its end")
                });
            }
        }
        if was_stopped {
            let seen: usize = self.links.iter().map(|link| link.peer_stops.samples.len()).sum();
            faults
                .push(format!("interrupted after {seen} pauses; the same command measures all, and --samples N fewer"));
        }
        match (faults.is_empty(), self.disturbances.is_empty()) {
            (false, _) => Err(Failure::Run(faults.join("; "))),
            (true, false) => Err(Failure::Unavailable(format!(
                "nothing is advised: the machine took the switch's time: {}; give lcores CPUs of their own (isolcpus, taskset)",
                self.disturbances.join("; ")
            ))),
            (true, true) => Ok(()),
        }
    }
}

/// Nanoseconds with the unit that they are read in.
fn shown(ns: u64) -> String {
    Span::from_nanos(ns).to_string()
}
