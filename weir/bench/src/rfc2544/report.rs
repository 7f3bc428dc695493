//! What came of the tests.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::bed::Tried;
use crate::interrupted::Interrupted;
use crate::latency::Latency;
use crate::machine::{Machine, Neighbours};
use crate::search::Verdict;
use crate::spread::Spread;
use crate::tester::Outcome;

/// What came out.
#[derive(Clone, Debug, Serialize)]
pub struct Rfc2544Report {
    /// Where.
    pub machine: Machine,
    /// Who else had the CPUs.
    pub neighbours: Neighbours,
    /// The switch's name.
    pub switch: String,
    /// Its buffer policy.
    pub policy: &'static str,
    /// The port that frames came in by.
    pub from: String,
    /// The port that they left by.
    pub to: String,
    /// Their class.
    pub class: u8,
    /// Whether that is lossless.
    pub is_lossless: bool,
    /// Each lcore's CPU and what it does.
    pub lcores: Vec<String>,
    /// What to know beside the figures.
    pub warnings: Vec<String>,
    /// What a look at the clock costs, of which a latency has two.
    pub clock_ns: f64,
    /// How long a trial sent, in seconds.
    pub trial_s: f64,
    /// How often a rate was tried before it counted as not carried.
    pub trials_max: u32,
    /// The share of frames that might be lost.
    pub loss_allowed: f64,
    /// What there is, where the measurement was ended before its end: frame sizes.
    pub interrupted: Option<Interrupted>,
    /// Each frame size.
    pub sizes: Vec<SizeReport>,
    /// Data frames that the switch received in all trials.
    pub received: u64,
    /// Data frames that it sent.
    pub sent: u64,
    /// Frames that it dropped, by reason.
    pub drops: BTreeMap<&'static str, u64>,
}

/// One frame size: all of it, or as far as the measurement came.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SizeReport {
    /// Length of a frame, with FCS.
    pub frame_bytes: u16,
    /// Whether it is finished.
    pub is_whole: bool,
    /// Frames a second at the ports' rate.
    pub line_fps: f64,
    /// Frames a second that the generator can do with nothing between its ends.
    pub generator_fps: f64,
    /// The throughput; `None` if not even the lowest rate tried is carried, or while it is searched for.
    pub throughput: Option<Throughput>,
    /// How far a search has come that is not finished.
    pub searched: Option<Searched>,
    /// Trials that the search took.
    pub trials: u32,
    /// Time that others had the switch's CPUs during the search, in milliseconds.
    pub kept_from_cpu_ms: u64,
    /// Latency at shares of the throughput.
    pub latency: Vec<LatencyAt>,
    /// Frames of the longest burst, over all searches.
    pub back_to_back: Option<BackToBack>,
}

/// A throughput's search that was ended before its end.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Searched {
    /// The highest rate that was carried, in frames a second; `None` if none was so far.
    pub carried_fps: Option<f64>,
    /// The lowest that was not, when last tried.
    pub lost_fps: Option<f64>,
}

/// A throughput.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Throughput {
    /// Frames a second.
    pub fps: f64,
    /// As above, on the wire, with preamble and gap, in Gb/s.
    pub gbps: f64,
    /// By the ports' rate, in percent.
    pub line_percent: f64,
    /// What keeps it from being higher.
    pub limit: Limit,
}

/// What keeps a rate from being higher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The switch lost frames above it, or held the generator back.
    Switch,
    /// It is the ports' rate, or the highest asked for.
    Line,
    /// The generator does no more.
    Generator,
}

/// Latency at a share of the throughput.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyAt {
    /// The share, in percent.
    pub percent: u32,
    /// Frames a second.
    pub fps: f64,
    /// Through the switch.
    pub through: Latency,
    /// With nothing between the generator's ends: what it adds itself.
    pub direct: Latency,
    /// Frames sent.
    pub sent: u64,
    /// Frames that the port did not take in time.
    pub refused: u64,
    /// Frames that did not come.
    pub lost: u64,
    /// Frames that came after one sent later.
    pub reordered: u64,
    /// Further copies of frames.
    pub duplicated: u64,
    /// Frames not timed, since the generator was away from its CPU while they were on their way.
    pub untimed: u64,
    /// How long the generator was away, in milliseconds.
    pub generator_away_ms: f64,
    /// Time that others had the switch's CPUs, in milliseconds.
    pub kept_from_cpu_ms: f64,
}

/// Longest bursts of which nothing was lost.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BackToBack {
    /// Frames a second in the burst.
    pub fps: f64,
    /// Frames, over all searches.
    pub frames: Spread,
    /// Whether no longer burst was tried.
    pub is_longest: bool,
}

impl Searched {
    pub(super) fn note(&mut self, fps: f64, verdict: Verdict) {
        match verdict {
            Verdict::Carried => self.carried_fps = Some(self.carried_fps.map_or(fps, |most| most.max(fps))),
            Verdict::Lost => self.lost_fps = Some(self.lost_fps.map_or(fps, |least| least.min(fps))),
        }
    }
}

impl LatencyAt {
    /// What two trials came to: one through the switch, and one with nothing between the generator's ends.
    pub(super) fn of(percent: u32, fps: f64, through: &Tried, direct: &Outcome) -> LatencyAt {
        let outcome = &through.outcome;
        LatencyAt {
            percent,
            fps,
            through: Latency::of(&outcome.latencies),
            direct: Latency::of(&direct.latencies),
            sent: outcome.sent,
            refused: outcome.refused,
            lost: outcome.lost(),
            reordered: outcome.came.reordered,
            duplicated: outcome.came.duplicated,
            untimed: outcome.untimed,
            generator_away_ms: outcome.away.as_secs_f64() * 1e3,
            kept_from_cpu_ms: through.kept_from_cpu.as_secs_f64() * 1e3,
        }
    }
}
