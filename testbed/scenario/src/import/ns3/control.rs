//! Which of Weir's congestion controls a configuration's CC_MODE is, and in what it differs.

use weir_nic::host::congestion::{self, DcqcnNs3Config};
use weir_units::{BitRate, Span};

use super::Simulator;
use super::config::Config;
use crate::import::{ImportErrors, Note, Report};

/// Chooses the preset for hosts on a line of this rate; `wanted` goes before what the configuration says.
pub(super) fn choose(
    config: &Config,
    simulator: Simulator,
    line: BitRate,
    wanted: Option<&str>,
    report: &mut Report,
) -> Result<String, ImportErrors> {
    if let Some(name) = wanted {
        let Some((name, _)) = congestion::presets().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = congestion::presets().map(|(name, _)| name).collect();
            let problem = format!("there is no congestion control \"{name}\"");
            let help = format!("write one of: {}", known.join(", "));
            return Err(ImportErrors::one("--congestion-control", None, problem, help));
        };
        report.taken.push(Note::on_nothing(format!("congestion control {name}, as asked for")));
        return Ok(name.to_owned());
    }
    let Some(mode) = config.numbers.get("CC_MODE") else {
        let text = "no CC_MODE: congestion control dcqcn-hpcc, as the HPCC simulator's run.py sets it";
        report.approximated.push(Note::on_nothing(text));
        return Ok("dcqcn-hpcc".to_owned());
    };
    let at = config.line("CC_MODE").unwrap_or(1);
    let mut differs = Differences { config, found: Vec::new() };
    let preset = match mode {
        1 => dcqcn(config, simulator, line, &mut differs),
        3 => hpcc(config, line, &mut differs),
        7 => timely(line, &mut differs),
        10 => {
            differs.found.push((at, "CC_MODE 10, HPCC-PINT, runs as HPCC with whole telemetry".to_owned()));
            hpcc(config, line, &mut differs)
        }
        other => {
            let what = if *other == 8 { ", DCTCP over RDMA," } else { "" };
            let problem = format!("CC_MODE {other}{what} is none of Weir's congestion controls for RDMA");
            let help = "write 1, 3, 7 or 10, or give --congestion-control";
            return Err(ImportErrors::one(&config.file, Some(at), problem, help));
        }
    };
    differs.window(*mode);
    report.taken.push(Note::at(&config.file, at, format!("CC_MODE {mode}: congestion control {preset}")));
    if simulator == Simulator::InetTub {
        let text = format!("CC_MODE {mode} counts, though this simulator's command line may choose another");
        report.approximated.push(Note::at(&config.file, at, text));
    }
    report.approximated.extend(differs.found.into_iter().map(|(line, text)| Note::at(&config.file, line, text)));
    Ok(preset.to_owned())
}

/// What a configuration says otherwise than a preset.
struct Differences<'c> {
    config: &'c Config,
    found: Vec<(usize, String)>,
}

impl Differences<'_> {
    /// Notes that a key has another value than the preset, if it is there.
    fn compare<T: PartialEq + ToString>(&mut self, key: &str, written: Option<T>, preset: (&str, T)) {
        if let Some(written) = written.filter(|written| *written != preset.1) {
            let line = self.config.line(key).unwrap_or(1);
            let text = format!("{key} is {}, but {} in {}", written.to_string(), preset.1.to_string(), preset.0);
            self.found.push((line, text));
        }
    }

    fn rate(&mut self, key: &str, preset: (&str, BitRate)) {
        self.compare(key, self.config.rates.get(key).copied(), preset);
    }

    fn timer(&mut self, key: &str, preset: (&str, Span)) {
        self.compare(key, self.config.timers.get(key).copied(), preset);
    }

    fn number(&mut self, key: &str, preset: (&str, u64)) {
        self.compare(key, self.config.numbers.get(key).copied(), preset);
    }

    fn share(&mut self, key: &str, name: &str, ppb: u64) {
        let written = self.config.shares.get(key).map(|ppb| *ppb as f64 / 1e9);
        self.compare(key, written, (name, ppb as f64 / 1e9));
    }

    /// Rate-based controls have no window in Weir, and HPCC always has one.
    fn window(&mut self, mode: u64) {
        let Some(line) = self.config.line("HAS_WIN") else { return };
        let has_window = self.config.is_on("HAS_WIN", false);
        let text = match (mode, has_window) {
            (1 | 7, true) => "HAS_WIN: the window beside the rate is left out",
            (3 | 10, false) => "HAS_WIN 0: HPCC's window is kept nevertheless",
            _ => return,
        };
        self.found.push((line, text.to_owned()));
    }
}

/// The preset that the fewest keys differ from, the simulator's own first.
fn dcqcn(config: &Config, simulator: Simulator, line: BitRate, differs: &mut Differences<'_>) -> &'static str {
    let mut presets = ["dcqcn-hpcc", "dcqcn-hpcc-paper", "dcqcn-conweave", "dcqcn-reverie"];
    match simulator {
        Simulator::Hpcc => {}
        Simulator::ConWeave => presets.swap(0, 2),
        Simulator::InetTub => presets.swap(0, 3),
    }
    let compared = presets.map(|name| {
        let preset = DcqcnNs3Config::preset(name, line).expect("DCQCN as in ns-3");
        let mut differs = Differences { config, found: Vec::new() };
        differs.timer("ALPHA_RESUME_INTERVAL", (name, preset.alpha_interval));
        differs.timer("RATE_DECREASE_INTERVAL", (name, preset.decrease_interval));
        differs.timer("RP_TIMER", (name, preset.increase_timer));
        differs.share("EWMA_GAIN", name, 1_000_000_000 >> preset.gain_shift);
        differs.number("FAST_RECOVERY_TIMES", (name, u64::from(preset.fast_recovery)));
        differs.number("CLAMP_TARGET_RATE", (name, u64::from(preset.clamps_target)));
        differs.rate("RATE_AI", (name, preset.additive_increase));
        differs.rate("RATE_HAI", (name, preset.hyper_increase));
        differs.rate("MIN_RATE", (name, preset.rate_min));
        (name, differs.found)
    });
    let (name, found) = compared.into_iter().min_by_key(|(_, found)| found.len()).expect("there are four");
    differs.found.extend(found);
    name
}

fn hpcc(config: &Config, line: BitRate, differs: &mut Differences<'_>) -> &'static str {
    let of_line = |parts: u64| BitRate::bps((line.as_bps() / parts).max(1));
    // The additive step W_AI as a rate, which is a step a round trip.
    let (name, stages, additive, rate_min) = match config.numbers.get("MI_THRESH") {
        Some(stages) if *stages > 0 => ("hpcc", 5, of_line(2_000), of_line(1_000)),
        _ => ("hpcc-simulator", 0, of_line(2_500), BitRate::gbps(1)),
    };
    differs.share("U_TARGET", name, 950_000_000);
    differs.number("MI_THRESH", (name, stages));
    differs.rate("RATE_AI", (name, additive));
    differs.rate("MIN_RATE", (name, rate_min));
    differs.number("GLOBAL_T", (name, 1));
    differs.number("VAR_WIN", (name, 1));
    differs.number("FAST_REACT", (name, 1));
    differs.number("SAMPLE_FEEDBACK", (name, 0));
    name
}

fn timely(line: BitRate, differs: &mut Differences<'_>) -> &'static str {
    let name = "timely-hpcc";
    let step = BitRate::bps((line.as_bps() / 1_000).max(1));
    differs.rate("RATE_AI", (name, step));
    differs.rate("RATE_HAI", (name, step * 5));
    differs.rate("MIN_RATE", (name, BitRate::gbps(1)));
    name
}
