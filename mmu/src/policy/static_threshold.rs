//! ST: a constant threshold (spfc III, where it is the buffer over the number of ports).

use std::sync::Arc;

use weir_reader::{Key, Keys, Plugin, Problem, Table};
use weir_units::Bytes;

use super::kind::SIZES;
use super::{
    AtomicBytes, BufferPolicy, BufferPolicyConfig, BufferPolicyKind, BufferSizes, BuildContext, ConfigContext,
    ConstantThreshold, LayoutRequirements, OverloadCase, PolicyError, QueueView, SteadyState, Threshold, each,
};
use crate::layout::BufferLayout;

/// Static policy: T is the same constant for each ingress queue.
#[derive(Debug)]
pub struct StaticThreshold {
    threshold: AtomicBytes,
}

impl StaticThreshold {
    /// Creates the policy with this `threshold`.
    pub fn new(threshold: Bytes) -> StaticThreshold {
        StaticThreshold { threshold: AtomicBytes::new(threshold) }
    }

    /// Creates the policy with the shared segment divided evenly by the ports: B_s / N_p.
    pub fn even(shared: Bytes, ports: usize) -> StaticThreshold {
        StaticThreshold::new(shared.divided_by(ports.max(1) as u64))
    }
}

impl BufferPolicy for StaticThreshold {
    fn name(&self) -> &'static str {
        StaticThresholdKind.id()
    }

    fn has_non_increasing_thresholds(&self) -> bool {
        true
    }

    fn observes_packets(&self) -> bool {
        false
    }

    #[inline]
    fn threshold(&self, _queue: &QueueView) -> Threshold {
        Threshold::new(self.threshold.get().get())
    }

    fn update_config(&self, config: &dyn BufferPolicyConfig, layout: &BufferLayout) {
        if let Some(StaticThresholdConfig { threshold }) = config.downcast() {
            let even = || layout.shared().divided_by(layout.ports().len().max(1) as u64);
            self.threshold.set(threshold.unwrap_or_else(even));
        }
    }

    fn steady_state(&self, load: &OverloadCase) -> SteadyState {
        let lossless = self.threshold.get() * load.lossless;
        let weight = load.lossy as f64 * load.lossy_alpha.as_f64();
        let left = load.shared.saturating_sub(lossless).get() as f64;
        SteadyState {
            lossless: self.threshold.get().min(load.shared.divided_by(load.lossless.max(1))),
            lossy: each(left * weight / (1.0 + weight), load.lossy),
        }
    }

    fn describe(&self) -> Vec<String> {
        vec![format!("ST, static threshold (spfc III): T = {}", self.threshold.get())]
    }
}

#[derive(Debug)]
pub(super) struct StaticThresholdKind;

/// Settings of `[buffer.static]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticThresholdConfig {
    /// `threshold`; `None` divides the shared buffer evenly by the ports: `B_s / N_p`.
    pub threshold: Option<Bytes>,
}

const THRESHOLD: Key<Bytes> = Key::size("threshold", SIZES, "T: threshold of each lossless ingress queue")
    .or_else("B_s / N_p, the shared buffer over the ports")
    .live();

impl Plugin for StaticThresholdKind {
    fn id(&self) -> &'static str {
        "static"
    }

    fn keys(&self) -> Keys {
        &[&THRESHOLD]
    }
}

impl BufferPolicyKind for StaticThresholdKind {
    fn parse(&self, table: &Table<'_>) -> Arc<dyn BufferPolicyConfig> {
        Arc::new(StaticThresholdConfig { threshold: table.given(&THRESHOLD) })
    }
}

impl BufferPolicyConfig for StaticThresholdConfig {
    fn kind(&self) -> &'static dyn BufferPolicyKind {
        &StaticThresholdKind
    }

    fn layout_requirements(&self) -> LayoutRequirements {
        LayoutRequirements::PER_QUEUE
    }

    fn takes_slices(&self) -> bool {
        true
    }

    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn BufferPolicy>, PolicyError> {
        Ok(Box::new(match self.threshold {
            Some(threshold) => StaticThreshold::new(threshold),
            None => StaticThreshold::even(context.layout.shared(), context.layout.ports().len()),
        }))
    }

    fn constant_threshold(&self) -> Option<ConstantThreshold> {
        Some(self.threshold.map_or(ConstantThreshold::EvenShare, ConstantThreshold::Given))
    }

    /// Checks T: a threshold above the shared buffer never pauses, and a threshold not above δ never resumes early.
    fn check_sizes(&self, file: &ConfigContext<'_>, sizes: &BufferSizes<'_>) {
        if !sizes.fit || !file.doc.sound(&["buffer.static", "buffer.xon_offset", "buffer.xon_floor"]) {
            return;
        }
        let shared = sizes.shared;
        let slice = sizes.shared_of_slice;
        if let Some(threshold) = self.threshold.filter(|threshold| *threshold > slice) {
            let per_slice = if slice < shared { ", divided by `slices`" } else { "" };
            let message = format!(
                "`threshold` {threshold} is above the shared buffer of {slice}, which is `size` {} less private buffers \
                 and headroom{per_slice}",
                file.size
            );
            let problem = Problem::new(message, format!("write threshold = \"{slice}\" or less, or a larger `size`"));
            file.doc
                .note(problem.with_label("buffer.static.threshold", "").with_label("buffer.size", "the whole buffer"));
            return;
        }
        let xoff = self.threshold.unwrap_or_else(|| shared.divided_by(sizes.ports.len() as u64));
        self.check_hysteresis(file, xoff);
        check_floor(file, xoff);
    }
}

impl StaticThresholdConfig {
    fn check_hysteresis(&self, file: &ConfigContext<'_>, xoff: Bytes) {
        let delta = file.xon.offset;
        if delta < xoff {
            return;
        }
        let given = file.doc.has("buffer.xon_offset");
        let threshold_from =
            if self.threshold.is_some() { "" } else { " (the shared buffer over the ports, the default)" };
        let delta_from = if given { "" } else { " (2 frames, the default)" };
        let message = format!(
            "`xon_offset` {delta}{delta_from} must be less than `threshold` {xoff}{threshold_from}: a queue resumes at \
             threshold - xon_offset"
        );
        let problem =
            Problem::new(message, format!("write xon_offset below \"{xoff}\" in [buffer], or a larger threshold"));
        file.doc.note(if given {
            problem.with_label("buffer.xon_offset", "").with_label("buffer.static.threshold", "the threshold")
        } else {
            problem.with_label("buffer.static.threshold", "")
        });
    }
}

/// Checks `xon_floor`: a floor at the threshold would make each frame pause and resume the sender.
fn check_floor(file: &ConfigContext<'_>, xoff: Bytes) {
    let floor = file.xon.floor;
    if floor >= xoff {
        let message = format!(
            "`xon_floor` {floor} must be less than the threshold, {xoff}: a queue that has passed it would resume at once"
        );
        file.doc.note(
            Problem::new(message, format!("write xon_floor below \"{xoff}\" in [buffer]"))
                .with_label("buffer.xon_floor", ""),
        );
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::policy::tests::{load, view};

    #[test]
    fn constant_whatever_the_pool_holds() {
        let st = StaticThreshold::even(Bytes::mb(16), 32);
        assert_eq!(st.threshold(&view(0, 16_000_000, 0)), Threshold::new(500_000));
        assert_eq!(st.threshold(&view(0, 16_000_000, 16_000_000)), Threshold::new(500_000));
        assert_eq!(st.steady_state(&load(16_000_000, 8, 0)).lossless, Bytes::new(500_000));
    }
}
