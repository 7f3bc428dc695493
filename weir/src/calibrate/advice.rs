//! Advice from measured delays: Φ, Xoff, B_1 and B_0, as lines for a switch's file.

use serde::Serialize;
use weir_config::SwitchConfig;
use weir_flowctl::gfc::{buffer_based_b1_max, conceptual_b0_max};
use weir_results::run_dir::Distribution;
use weir_units::{Bytes, Span, in_cells};

use super::watch::Sample;

/// Delays of some pauses, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct DelayStatistics {
    pub(super) pauses: u64,
    pub(super) min_ns: u64,
    pub(super) p50_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) max_ns: u64,
    /// Most bytes that arrived after a PAUSE.
    pub(super) bytes_max: u64,
}

/// Load, in percent of the rate, from which a link counts as loaded.
const LOADED_PERCENT: f64 = 50.0;

impl DelayStatistics {
    /// Delays of pauses on a loaded link, or on a nearly idle one; `None` without such pauses.
    pub(super) fn for_load(samples: &[Sample], loaded: bool) -> Option<DelayStatistics> {
        DelayStatistics::from_samples(samples.iter().filter(|sample| (sample.load_percent >= LOADED_PERCENT) == loaded))
    }

    /// Delays of all these pauses; `None` without pauses.
    pub(super) fn from_samples<'s>(samples: impl Iterator<Item = &'s Sample> + Clone) -> Option<DelayStatistics> {
        let mut delays: Vec<u64> = samples.clone().map(|sample| sample.last_frame_ns).collect();
        let of_all = Distribution::from_values(&mut delays, 0)?;
        Some(DelayStatistics {
            pauses: delays.len() as u64,
            min_ns: *delays.first()?,
            p50_ns: of_all.p50?,
            p99_ns: of_all.p99?,
            max_ns: of_all.max?,
            bytes_max: samples.map(|sample| sample.bytes).max()?,
        })
    }
}

/// Delay in the switch until its PAUSE was handed to the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct SwitchDelay {
    pub(super) ns: u64,
    /// Whether it was measured: 99.9 % of the delays from Xoff to PAUSE since the start. If not, it is `[pfc] reaction` of the file.
    pub(super) measured: bool,
}

/// Delay τ of a link, and the headroom and thresholds that it requires.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct HeadroomAdvice {
    /// Delay from crossing Xoff to the PAUSE.
    pub(super) before: SwitchDelay,
    /// Longest delay from the PAUSE to the last frame, plus the spacing of frames: the sender may have had another frame in flight.
    pub(super) after_ns: u64,
    /// Delay τ: sum of the delay to the PAUSE and the delay after the PAUSE.
    pub(super) tau_ns: u64,
    /// Φ: C·τ and a frame, which is placed whole, in whole cells.
    pub(super) headroom_bytes: u64,
    /// Headroom Φ of the file.
    pub(super) headroom_now_bytes: Option<u64>,
    /// Percentage of all pauses that take no longer than the longest measured one, with a confidence of 95 %.
    pub(super) covered_percent: f64,
}

impl HeadroomAdvice {
    /// Advice from pauses on a port; `None` without pauses.
    pub(super) fn from_samples(
        switch: &SwitchConfig,
        port: usize,
        samples: &[Sample],
        before: SwitchDelay,
    ) -> Option<HeadroomAdvice> {
        let after_ns = samples.iter().map(|sample| sample.last_frame_ns + sample.spacing_ns).max()?;
        let tau_ns = before.ns + after_ns;
        let rate = switch.ports[port].rate?;
        let wire = rate.bytes_in(Span::from_nanos(tau_ns)) + switch.frame_bytes_max();
        Some(HeadroomAdvice {
            before,
            after_ns,
            tau_ns,
            headroom_bytes: in_cells(wire.get(), switch.buffer.cell_bytes),
            headroom_now_bytes: switch.headroom(port).map(Bytes::get),
            covered_percent: covered_percent(samples.len()),
        })
    }
}

/// Distribution-free bound: n pauses are all below the share q of the distribution with probability q^n.
fn covered_percent(pauses: usize) -> f64 {
    0.05f64.powf(1.0 / pauses.max(1) as f64) * 100.0
}

/// A port's τ, for the fragment.
#[derive(Clone, Debug)]
pub(super) struct MeasuredPort<'c> {
    pub(super) port: usize,
    pub(super) advice: &'c HeadroomAdvice,
}

/// Lines for the switch's file: Φ for all its ports, and the matching static threshold of PFC and thresholds of GFC. `b_m` is the limit of
/// an ingress queue; by default its share of the buffer.
pub(super) fn fragment(switch: &SwitchConfig, measured: &[MeasuredPort<'_>], b_m: Option<Bytes>) -> Option<String> {
    let most = measured.iter().max_by_key(|measured| measured.advice.headroom_bytes)?;
    let phi = Bytes::new(most.advice.headroom_bytes);
    let covered = measured.iter().map(|measured| measured.advice.covered_percent).fold(100.0, f64::min);
    let name = &switch.ports[most.port].name;
    let queues = switch.ports.len() as u64 * u64::from(switch.lossless_classes().max(1));
    let private = switch.private_size();
    let share = switch.buffer.size.saturating_sub(private).divided_by(queues);
    let b_m = b_m.unwrap_or(share);
    let mut text = format!(
        "# Measured by `weir calibrate`; {covered:.1} % of pauses are covered, with a confidence of 95 %.\n[buffer]\n\
         headroom = \"{phi}\"    # Φ: C τ and a frame, by port {name}, whose τ is {}\n",
        super::shown(most.advice.tau_ns)
    );
    if phi * queues + private >= switch.buffer.size {
        text += &format!(
            "# Does not fit: {queues} lossless ingress queues take {} of it, and `size` is {}.\n",
            phi * queues,
            switch.buffer.size
        );
    }
    text += &format!("\n# With B_m = {b_m} for each lossless ingress queue:\n");
    match b_m.checked_sub(phi).filter(|xoff| *xoff > Bytes::ZERO) {
        Some(xoff) => {
            text +=
                &format!("# PFC: policy = \"static\", and [buffer.static] threshold = \"{xoff}\" is Xoff = B_m - Φ\n")
        }
        None => text += "# PFC: B_m is less than Φ, so there is no Xoff\n",
    }
    for MeasuredPort { port, advice } in measured {
        let port = &switch.ports[*port];
        let Some(rate) = port.rate else { continue };
        let (tau, name) = (Span::from_nanos(advice.tau_ns), &port.name);
        match buffer_based_b1_max(b_m, rate, tau) {
            Some(b_1) => {
                text += &format!(
                    "# port {name}: flow_control = {{ kind = \"gfc-buffer\", b_m = \"{b_m}\", tau = \"{}ns\", b_1 = \"{b_1}\" }}\n",
                    advice.tau_ns
                );
            }
            None => text += &format!("# port {name}: gfc-buffer takes B_m above 2 C τ = {}\n", rate.bytes_in(tau * 2)),
        }
        match conceptual_b0_max(b_m, rate, tau) {
            Some(b_0) => {
                text += &format!(
                    "# port {name}: flow_control = {{ kind = \"gfc-conceptual\", b_m = \"{b_m}\", tau = \"{}ns\", b_0 = \"{b_0}\" }}\n",
                    advice.tau_ns
                );
            }
            None => {
                text += &format!("# port {name}: gfc-conceptual takes B_m above 4 C τ = {}\n", rate.bytes_in(tau * 4))
            }
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(last_frame_ns: u64, load_percent: f64) -> Sample {
        Sample { at_ns: 0, last_frame_ns, spacing_ns: 1_000, frames: 1, bytes: last_frame_ns, load_percent }
    }

    fn switch(size: &str) -> SwitchConfig {
        let port = |name: &str| format!("[[ports]]\nname = \"{name}\"\nring = \"{name}\"\nrate = \"10Gbps\"\n");
        let text = format!("[buffer]\nsize = \"{size}\"\n[classes]\nlossless = [3]\n{}{}", port("a"), port("b"));
        weir_config::parse("test.toml", &text).unwrap()
    }

    #[test]
    fn spreads_are_parted_by_load() {
        let samples: Vec<Sample> =
            (1..=100).map(|n| sample(n * 10, 90.0)).chain([sample(7, 3.0), sample(5, 49.9)]).collect();
        let loaded =
            DelayStatistics { pauses: 100, min_ns: 10, p50_ns: 500, p99_ns: 990, max_ns: 1_000, bytes_max: 1_000 };
        assert_eq!(DelayStatistics::for_load(&samples, true), Some(loaded));
        let light = DelayStatistics { pauses: 2, min_ns: 5, p50_ns: 5, p99_ns: 7, max_ns: 7, bytes_max: 7 };
        assert_eq!(DelayStatistics::for_load(&samples, false), Some(light));
        assert_eq!(DelayStatistics::for_load(&samples[..100], false), None);
    }

    #[test]
    fn headroom_holds_what_comes_in_tau_and_a_frame() {
        let switch = switch("2MB");
        let before = SwitchDelay { ns: 4_000, measured: true };
        let advice =
            HeadroomAdvice::from_samples(&switch, 0, &[sample(2_000, 90.0), sample(15_000, 90.0)], before).unwrap();
        // 20 us at 10 Gb/s are 25,000 B.
        assert_eq!((advice.after_ns, advice.tau_ns), (16_000, 20_000));
        assert_eq!(advice.headroom_bytes, 25_000 + switch.frame_bytes_max().get());
        assert_eq!(HeadroomAdvice::from_samples(&switch, 0, &[], before), None);
        assert!((covered_percent(59) - 95.05).abs() < 0.1 && (covered_percent(299) - 99.0).abs() < 0.1);
    }

    #[test]
    fn a_fragment_is_part_of_a_file() {
        let switch = switch("2MB");
        let before = SwitchDelay { ns: 4_000, measured: true };
        let advice = HeadroomAdvice::from_samples(&switch, 1, &[sample(15_000, 90.0)], before).unwrap();
        let measured = [MeasuredPort { port: 1, advice: &advice }];
        let text = fragment(&switch, &measured, None).unwrap();
        // B_m is half of 2 MB; 2 C tau is 50,000 B.
        for expected in ["b_m = \"1MB\"", "b_1 = \"950KB\"", "b_0 = \"900KB\"", "is Xoff = B_m - Φ"] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        // In a file with two ports the lines give the advised values.
        let port = |name: &str| format!("[[ports]]\nname = \"{name}\"\nring = \"{name}\"\nrate = \"10Gbps\"\n");
        let file = format!("{text}[classes]\nlossless = [3]\n{}{}", port("a"), port("b"));
        let read = weir_config::parse("fragment.toml", &file).unwrap();
        assert_eq!(read.headroom(0).map(Bytes::get), Some(advice.headroom_bytes));
        // The lines in comments are valid too.
        for line in text.lines().filter_map(|line| line.strip_prefix("# port b: ")) {
            let file = format!("{text}[classes]\nlossless = [3]\n{}{}{line}\n", port("a"), port("b"));
            let file = file.replace("[buffer]\n", "[buffer]\npolicy = \"static\"\nsize = \"4MB\"\n");
            assert!(
                weir_config::parse("gfc.toml", &file).is_ok(),
                "{:?}\n{file}",
                weir_config::parse("gfc.toml", &file).err()
            );
        }
        let small = fragment(&switch, &measured, Some(Bytes::kb(20))).unwrap();
        assert!(
            small.contains("no Xoff") && small.contains("above 2 C τ = 50KB") && small.contains("4 C τ = 100KB"),
            "{small}"
        );
        let mut tight = switch.clone();
        tight.buffer.size = Bytes::kb(50);
        assert!(fragment(&tight, &measured, None).unwrap().contains("Does not fit"));
        assert_eq!(fragment(&switch, &[], None), None);
    }
}
