//! Congestion control of a configuration's CC_MODE, and its differences from Weir's.

use weir_nic::host::congestion::{self, DcqcnNs3Config};
use weir_units::{BitRate, Bytes, Span};

use super::Simulator;
use super::config::Config;
use super::round_trips::RoundTrips;
use crate::import::document::{exact_rate, exact_size, exact_span, quoted, share};
use crate::import::{ImportErrors, ImportNote, ImportReport};

/// Congestion control: a preset, and values that override it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CongestionPreset {
    pub preset: String,
    /// The kind's table in `[nic]`.
    pub kind: &'static str,
    /// Keys of that table, with values as written in the file.
    pub keys: Vec<(&'static str, String)>,
}

/// Chooses the preset for hosts on a line of this rate. The caller's choice precedes the configuration's. `has_line`: a command line has
/// set the mode.
pub(super) fn choose(
    config: &Config,
    simulator: Simulator,
    line: BitRate,
    trips: &RoundTrips,
    wanted: Option<&str>,
    has_line: bool,
    report: &mut ImportReport,
) -> Result<CongestionPreset, ImportErrors> {
    let plain = |preset: &str| CongestionPreset { preset: preset.to_owned(), kind: "", keys: Vec::new() };
    if let Some(name) = wanted {
        let Some((name, _)) = congestion::presets().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = congestion::presets().map(|(name, _)| name).collect();
            let problem = format!("there is no congestion control \"{name}\"");
            let help = format!("write one of: {}", known.join(", "));
            return Err(ImportErrors::one("--congestion-control", None, problem, help));
        };
        report.taken.push(ImportNote::general(format!("congestion control {name}, as asked for")));
        return Ok(plain(name));
    }
    let Some(mode) = config.numbers.get("CC_MODE") else {
        let text = "no CC_MODE: congestion control dcqcn-hpcc, as the HPCC simulator's run.py sets it";
        report.approximated.push(ImportNote::general(text));
        return Ok(plain("dcqcn-hpcc"));
    };
    let at = config.line("CC_MODE").unwrap_or(1);
    let mut differs = PresetDifferences { config, found: Vec::new(), keys: Vec::new() };
    let (preset, kind) = match mode {
        1 => (dcqcn(config, simulator, line, &mut differs), "dcqcn-ns3"),
        3 => (hpcc(config, line, trips, &mut differs), "hpcc"),
        7 => (timely(config, line, &mut differs), "timely"),
        8 => (dctcp(config, &mut differs), "dctcp"),
        10 => (hpcc_pint(config, line, trips, &mut differs)?, "hpcc-pint"),
        other => {
            let problem = format!("CC_MODE {other} is none of Weir's congestion controls for RDMA");
            let help = "write 1, 3, 7, 8 or 10, or give --congestion-control";
            return Err(ImportErrors::one(&config.file, Some(at), problem, help));
        }
    };
    differs.window(*mode, trips, report);
    let is_of_file = config.has("CC_MODE") && config.text("CC_MODE") == Some(mode.to_string().as_str());
    report.taken.push(match is_of_file {
        true => ImportNote::for_line(&config.file, at, format!("CC_MODE {mode}: congestion control {preset}")),
        false => ImportNote::general(format!("CC_MODE {mode}: congestion control {preset}")),
    });
    if simulator == Simulator::InetTub && !has_line {
        let text = format!("CC_MODE {mode} counts, though this simulator's command line may choose another");
        report.approximated.push(ImportNote::for_line(&config.file, at, text));
    }
    report
        .approximated
        .extend(differs.found.into_iter().map(|(line, text)| ImportNote::for_line(&config.file, line, text)));
    for (key, name, value) in &differs.keys {
        if let Some(line) = config.line(key) {
            report.taken.push(ImportNote::for_line(&config.file, line, format!("{key}: {name} = {value}")));
        }
    }
    let keys = differs.keys.into_iter().map(|(_, name, value)| (name, value)).collect();
    Ok(CongestionPreset { preset: preset.to_owned(), kind, keys })
}

/// Differences of a configuration from a preset.
struct PresetDifferences<'c> {
    config: &'c Config,
    /// Differences without a key in Weir, by line.
    found: Vec<(usize, String)>,
    /// Key of the configuration, and Weir's key with its value.
    keys: Vec<(&'static str, &'static str, String)>,
}

impl PresetDifferences<'_> {
    /// Records that a key differs from the preset, if it is there: as Weir's key `name`, with its value as text of a scenario.
    fn key<T: PartialEq + Copy>(
        &mut self,
        key: &'static str,
        name: &'static str,
        written: Option<T>,
        preset: T,
        to_text: impl Fn(T) -> String,
    ) {
        if let Some(written) = written.filter(|written| *written != preset) {
            self.keys.push((key, name, to_text(written)));
        }
    }

    fn rate(&mut self, key: &'static str, name: &'static str, preset: BitRate) {
        let written = self.config.rates.get(key).copied();
        self.key(key, name, written, preset, |rate| quoted(exact_rate(rate)));
    }

    fn timer(&mut self, key: &'static str, name: &'static str, preset: Span) {
        let written = self.config.timers.get(key).copied();
        self.key(key, name, written, preset, |time| quoted(exact_span(time)));
    }

    fn number(&mut self, key: &'static str, name: &'static str, preset: u64) {
        let written = self.config.numbers.get(key).copied();
        self.key(key, name, written, preset, |number| number.to_string());
    }

    /// Records that a key without a counterpart differs from Weir's behaviour.
    fn fixed(&mut self, key: &str, here: u64, how: &str) {
        if let Some(written) = self.config.numbers.get(key).filter(|written| **written != here) {
            let line = self.config.line(key).unwrap_or(1);
            self.found.push((line, format!("{key} is {written}: {how}")));
        }
    }

    /// HAS_WIN, VAR_WIN and GLOBAL_T: a window in addition to the rate; HPCC always has one.
    fn window(&mut self, mode: u64, trips: &RoundTrips, report: &mut ImportReport) {
        let has_window = self.config.is_on("HAS_WIN", false);
        let follows_rate = self.config.is_on("VAR_WIN", false);
        let line = self.config.line("HAS_WIN");
        match mode {
            1 | 7 | 8 if has_window => {
                self.keys.push(("HAS_WIN", "window", quoted(exact_size(trips.bdp))));
                // By default DCTCP's window follows the rate, the others' do not.
                if follows_rate != (mode == 8) {
                    self.keys.push(("VAR_WIN", "window_follows_rate", follows_rate.to_string()));
                }
                let how = "the window is the largest pair's of the network for all, not each pair's own";
                self.fixed("GLOBAL_T", 1, how);
            }
            3 | 10 if !has_window && line.is_some() => {
                let text = "HAS_WIN 0: HPCC's window is kept nevertheless".to_owned();
                self.found.push((line.unwrap_or(1), text));
            }
            8 => self.keys.push(("HAS_WIN", "window", quoted("none".to_owned()))),
            1 | 7 if line.is_some() => {
                let text = "HAS_WIN 0: the sender has no window";
                report.taken.push(ImportNote::for_line(&self.config.file, line.unwrap_or(1), text));
            }
            _ => {}
        }
    }
}

/// Returns the DCQCN preset that the fewest keys differ from, the simulator's own first.
fn dcqcn(config: &Config, simulator: Simulator, line: BitRate, differs: &mut PresetDifferences<'_>) -> &'static str {
    let mut presets = ["dcqcn-hpcc", "dcqcn-hpcc-paper", "dcqcn-conweave", "dcqcn-reverie"];
    match simulator {
        Simulator::Hpcc => {}
        Simulator::ConWeave => presets.swap(0, 2),
        Simulator::InetTub => presets.swap(0, 3),
    }
    let compared = presets.map(|name| {
        let preset = DcqcnNs3Config::preset(name, line).expect("DCQCN as in ns-3");
        let mut differs = PresetDifferences { config, found: Vec::new(), keys: Vec::new() };
        differs.timer("ALPHA_RESUME_INTERVAL", "alpha_interval", preset.alpha_interval);
        differs.timer("RATE_DECREASE_INTERVAL", "decrease_interval", preset.decrease_interval);
        differs.timer("RP_TIMER", "increase_timer", preset.increase_timer);
        differs.gain(preset.gain_shift);
        differs.number("FAST_RECOVERY_TIMES", "fast_recovery", u64::from(preset.fast_recovery));
        let clamps = config.numbers.get("CLAMP_TARGET_RATE").map(|clamps| *clamps != 0);
        differs.key("CLAMP_TARGET_RATE", "clamps_target", clamps, preset.clamps_target, |clamps| clamps.to_string());
        differs.rate("RATE_AI", "rate_ai", preset.additive_increase);
        differs.rate("RATE_HAI", "rate_hai", preset.hyper_increase);
        differs.rate("MIN_RATE", "rate_min", preset.rate_min);
        (name, differs)
    });
    let differing = |differs: &PresetDifferences<'_>| differs.keys.len() + differs.found.len();
    let nearest = compared.into_iter().min_by_key(|(_, differs)| differing(differs));
    let (name, found) = nearest.expect("there are four");
    differs.found.extend(found.found);
    differs.keys.extend(found.keys);
    name
}

impl PresetDifferences<'_> {
    /// Converts EWMA_GAIN, which Weir has as 1 over a power of two.
    fn gain(&mut self, preset: u8) {
        let Some(ppb) = self.config.shares.get("EWMA_GAIN").copied() else { return };
        // The file's decimals, to the ninth.
        let nearest = (0..=16u8).min_by_key(|shift| (1_000_000_000u64 >> shift).abs_diff(ppb)).unwrap_or(preset);
        if (1_000_000_000u64 >> nearest).abs_diff(ppb) > 1 {
            let line = self.config.line("EWMA_GAIN").unwrap_or(1);
            let text = format!(
                "EWMA_GAIN is {}: 1/{} here, as a gain is 1 over a power of two",
                ppb as f64 / 1e9,
                1u32 << nearest
            );
            self.found.push((line, text));
        }
        self.key("EWMA_GAIN", "g", Some(nearest), preset, |shift| quoted(format!("1/{}", 1u32 << shift)));
    }
}

fn hpcc(config: &Config, line: BitRate, trips: &RoundTrips, differs: &mut PresetDifferences<'_>) -> &'static str {
    let of_line = |parts: u64| BitRate::bps((line.as_bps() / parts).max(1));
    let (name, stages, rate_min) = match config.numbers.get("MI_THRESH") {
        Some(stages) if *stages > 0 => ("hpcc", 5, of_line(1_000)),
        _ => ("hpcc-simulator", 0, BitRate::gbps(1)),
    };
    // All windows begin with the bandwidth-delay product of the largest pair.
    let round_trip = trips.of_window(line);
    differs.keys.push(("GLOBAL_T", "base_rtt", quoted(exact_span(round_trip))));
    let eta = config.shares.get("U_TARGET").copied();
    differs.key("U_TARGET", "eta", eta, 950_000_000, share);
    differs.number("MI_THRESH", "max_stage", stages);
    // W_AI is a step per round trip, RATE_AI the corresponding rate.
    if let Some(rate) = config.rates.get("RATE_AI") {
        let step = rate.bytes_in(round_trip).max(Bytes::new(1));
        differs.keys.push(("RATE_AI", "w_ai", quoted(exact_size(step))));
    }
    differs.rate("MIN_RATE", "rate_min", rate_min);
    differs.fixed("GLOBAL_T", 1, "the round trip is the network's longest for all, not each pair's own");
    differs.fixed("VAR_WIN", 1, "the window varies with the rate nevertheless");
    differs.fixed("FAST_REACT", 1, "each acknowledgement counts at once nevertheless");
    differs.fixed("SAMPLE_FEEDBACK", 0, "each acknowledgement counts nevertheless");
    differs.fixed("MULTI_RATE", 0, "one rate for all hops nevertheless");
    name
}

/// Chooses HPCC-PINT, which ignores FAST_REACT, SAMPLE_FEEDBACK and MULTI_RATE. A missing PINT_LOG_BASE is the program's.
fn hpcc_pint(
    config: &Config,
    line: BitRate,
    trips: &RoundTrips,
    differs: &mut PresetDifferences<'_>,
) -> Result<&'static str, ImportErrors> {
    let of_line = |parts: u64| BitRate::bps((line.as_bps() / parts).max(1));
    let (name, stages, rate_ai, rate_min, log_base) = match config.numbers.get("MI_THRESH") {
        Some(stages) if *stages > 0 => ("hpcc-pint", 5, of_line(2_000), of_line(1_000), 1_050_000_000),
        _ => ("hpcc-pint-simulator", 0, of_line(2_500), BitRate::gbps(1), 1_010_000_000),
    };
    differs.keys.push(("GLOBAL_T", "base_rtt", quoted(exact_span(trips.base_rtt))));
    differs.key("U_TARGET", "eta", config.shares.get("U_TARGET").copied(), 950_000_000, share);
    differs.number("MI_THRESH", "max_stage", stages);
    differs.rate("RATE_AI", "rate_ai", rate_ai);
    differs.rate("MIN_RATE", "rate_min", rate_min);
    let base = config.shares.get("PINT_LOG_BASE").copied();
    if base.is_some_and(|base| base < 1_001_000_000) {
        let problem =
            format!("PINT_LOG_BASE {} is no base of a code", config.text("PINT_LOG_BASE").unwrap_or_default());
        let line = config.line("PINT_LOG_BASE");
        return Err(ImportErrors::one(&config.file, line, problem, "write a number from 1.001 to 2, like 1.05"));
    }
    differs.key("PINT_LOG_BASE", "log_base", Some(base.unwrap_or(1_050_000_000)), log_base, share);
    let sampled = config.shares.get("PINT_PROB").copied();
    if sampled.is_some_and(|sampled| sampled < 1_000) {
        let problem = "PINT_PROB 0 leaves no packet with a digest";
        let line = config.line("PINT_PROB");
        return Err(ImportErrors::one(&config.file, line, problem, "write a share above 0, like 1.0"));
    }
    differs.key("PINT_PROB", "sampled", sampled, 1_000_000_000, share);
    differs.fixed("GLOBAL_T", 1, "the window is that of the network's longest round trip for all, not each pair's own");
    differs.fixed("VAR_WIN", 1, "the window varies with the rate nevertheless");
    Ok(name)
}

/// Chooses DCTCP, which has fewer keys: a missing DCTCP_RATE_AI is the program's.
fn dctcp(config: &Config, differs: &mut PresetDifferences<'_>) -> &'static str {
    differs.gain(4);
    match config.rates.get("DCTCP_RATE_AI") {
        Some(_) => differs.rate("DCTCP_RATE_AI", "rate_ai", BitRate::mbps(615)),
        None => differs.keys.push(("DCTCP_RATE_AI", "rate_ai", quoted(exact_rate(BitRate::gbps(1))))),
    }
    differs.rate("MIN_RATE", "rate_min", BitRate::gbps(1));
    "dctcp-hpcc"
}

fn timely(config: &Config, line: BitRate, differs: &mut PresetDifferences<'_>) -> &'static str {
    let step = BitRate::bps((line.as_bps() / 1_000).max(1));
    differs.rate("RATE_AI", "delta", step);
    differs.rate("MIN_RATE", "rate_min", BitRate::gbps(1));
    let step = config.rates.get("RATE_AI").copied().unwrap_or(step);
    if let Some(hyper) = config.rates.get("RATE_HAI").filter(|hyper| **hyper != step * 5) {
        let at = config.line("RATE_HAI").unwrap_or(1);
        let text = format!("RATE_HAI is {}, but 5 steps of RATE_AI here, {}", exact_rate(*hyper), exact_rate(step * 5));
        differs.found.push((at, text));
    }
    "timely-hpcc"
}
