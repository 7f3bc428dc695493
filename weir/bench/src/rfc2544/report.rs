//! Report of the tests.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::interrupted::Interrupted;
use crate::latency::Latency;
use crate::machine::{HostInfo, HostLoad};
use crate::search::TrialVerdict;
use crate::spread::Spread;
use crate::testbed::TrialOutcome;
use crate::tester::TrialStats;

/// Report of the RFC 2544 tests.
#[derive(Clone, Debug, Serialize)]
pub struct Rfc2544Report {
    /// Machine that ran the tests.
    pub machine: HostInfo,
    /// Load on the machine by other processes.
    pub host_load: HostLoad,
    /// Name of the switch.
    pub switch: String,
    /// Buffer policy of the switch.
    pub policy: &'static str,
    /// Ingress port of the frames.
    pub from: String,
    /// Egress port of the frames.
    pub to: String,
    /// Class of the frames.
    pub class: u8,
    /// Whether the class is lossless.
    pub is_lossless: bool,
    /// CPU and task of each lcore.
    pub lcores: Vec<String>,
    /// Warnings about the validity of the figures.
    pub warnings: Vec<String>,
    /// Cost of a clock read in nanoseconds; a latency includes two.
    pub clock_ns: f64,
    /// Sending time of a trial, in seconds.
    pub trial_s: f64,
    /// Number of failed trials after which a rate counts as not carried.
    pub trials_max: u32,
    /// Tolerated share of lost frames.
    pub loss_allowed: f64,
    /// Progress at the interruption in frame sizes, if the measurement was interrupted.
    pub interrupted: Option<Interrupted>,
    /// Results, one a frame size.
    pub sizes: Vec<SizeReport>,
    /// Data frames that the switch received in all trials.
    pub received: u64,
    /// Data frames that the switch sent in all trials.
    pub sent: u64,
    /// Frames that the switch dropped, by reason.
    pub drops: BTreeMap<&'static str, u64>,
}

/// Results of a frame size; partial after an interruption.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SizeReport {
    /// Length of a frame, with FCS.
    pub frame_bytes: u16,
    /// Whether all tests of the size are finished.
    pub is_complete: bool,
    /// Frames a second at the ports' rate.
    pub line_fps: f64,
    /// Frame rate of the generator with its ends connected directly.
    pub generator_fps: f64,
    /// Throughput; `None` if not even the lowest rate tried is carried, or during the search.
    pub throughput: Option<Throughput>,
    /// State of an unfinished search.
    pub searched: Option<SearchState>,
    /// Number of trials in the search.
    pub trials: u32,
    /// Time that other tasks had the switch's CPUs during the search, in milliseconds.
    pub kept_from_cpu_ms: u64,
    /// Latency at shares of the throughput.
    pub latency: Vec<LatencyAt>,
    /// Frames of the longest burst, over all searches.
    pub back_to_back: Option<BackToBack>,
}

/// State of a throughput search that was interrupted.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct SearchState {
    /// Highest rate carried so far, in frames a second; `None` if no rate was.
    pub carried_fps: Option<f64>,
    /// Lowest rate that lost frames in its last trial.
    pub lost_fps: Option<f64>,
}

/// Throughput of a frame size.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Throughput {
    /// Rate in frames a second.
    pub fps: f64,
    /// Rate on the wire, with preamble and gap, in Gb/s.
    pub gbps: f64,
    /// Rate in percent of the ports' rate.
    pub line_percent: f64,
    /// Cause that limits the rate.
    pub limit: LimitCause,
}

/// Cause that limits a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitCause {
    /// The switch loses frames at a higher rate, or holds the generator back.
    Switch,
    /// The rate is the ports' rate, or the highest requested.
    Line,
    /// The generator is at its maximum rate.
    Generator,
}

/// Latency at a share of the throughput.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyAt {
    /// The share, in percent.
    pub percent: u32,
    /// Frames a second.
    pub fps: f64,
    /// Latency through the switch.
    pub through: Latency,
    /// Latency with the generator's ends connected directly: the generator's own share.
    pub direct: Latency,
    /// Frames sent.
    pub sent: u64,
    /// Frames that the port did not accept in time.
    pub refused: u64,
    /// Frames that did not arrive.
    pub lost: u64,
    /// Frames that arrived after a frame sent later.
    pub reordered: u64,
    /// Further copies of frames.
    pub duplicated: u64,
    /// Frames not timed, since the generator lost its CPU while they were in flight.
    pub untimed: u64,
    /// Time that the generator was off its CPU, in milliseconds.
    pub generator_away_ms: f64,
    /// Time that other tasks had the switch's CPUs, in milliseconds.
    pub kept_from_cpu_ms: f64,
}

/// Longest burst without loss.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BackToBack {
    /// Frame rate in the burst.
    pub fps: f64,
    /// Number of frames, over all searches.
    pub frames: Spread,
    /// Whether the burst is the longest that was tried.
    pub is_longest: bool,
}

impl SearchState {
    pub(super) fn record(&mut self, fps: f64, verdict: TrialVerdict) {
        match verdict {
            TrialVerdict::Carried => self.carried_fps = Some(self.carried_fps.map_or(fps, |most| most.max(fps))),
            TrialVerdict::Lost => self.lost_fps = Some(self.lost_fps.map_or(fps, |least| least.min(fps))),
        }
    }
}

impl LatencyAt {
    /// Combines two trials: through the switch, and with the generator's ends connected directly.
    pub(super) fn from_trials(percent: u32, fps: f64, through: &TrialOutcome, direct: &TrialStats) -> LatencyAt {
        let outcome = &through.stats;
        LatencyAt {
            percent,
            fps,
            through: Latency::from_histogram(&outcome.latencies),
            direct: Latency::from_histogram(&direct.latencies),
            sent: outcome.sent,
            refused: outcome.refused,
            lost: outcome.lost(),
            reordered: outcome.sequence.reordered,
            duplicated: outcome.sequence.duplicated,
            untimed: outcome.untimed,
            generator_away_ms: outcome.away.as_secs_f64() * 1e3,
            kept_from_cpu_ms: through.kept_from_cpu.as_secs_f64() * 1e3,
        }
    }
}
