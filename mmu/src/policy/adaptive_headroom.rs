//! Adaptive headroom (IEEE 802.1Qdt; dsh V-B): Φ from the measured delay, not from the worst case.

use std::sync::Arc;

use weir_reader::{Key, Keys, Plugin, Table};
use weir_units::{Alpha, BitRate, Bytes, QueueId, Span};

use super::{
    ALPHA, AtomicBytes, BufferPolicy, BufferPolicyConfig, BufferPolicyKind, BuildContext, ConfigContext,
    DynamicThreshold, Gauge, Gauges, HEADROOM_ESTIMATE, LayoutRequirements, OverloadCase, PolicyError, PortWriter,
    QueueRegisters, QueueView, SteadyState, Threshold,
};
use crate::layout::{BufferLayout, PortLayout};
use crate::sync::{AtomicU64, Ordering};

/// SIH with headroom that follows the link. Every queue starts with Φ by the rule. From each PAUSE to its RESUME the policy measures the
/// delay τ until the last arrival, that is, until the PAUSE took effect. After some PAUSEs, Φ is set to the bytes that C carries in the
/// longest τ, plus a quarter, two frames, and the bytes that arrive during the switch's own reaction (`reaction`). The rest goes to the
/// shared segment. A later, longer delay takes headroom back from the free part of the shared segment.
///
/// The switch's own reaction is configured and not learned. A software switch is nearly always polled in time, but now and then loses its
/// CPU for milliseconds: a thousand PAUSEs do not reveal that one.
///
/// 802.1Qdt measures the cable with PTP messages, which needs the peer's support. This measurement needs none, and includes the peer's
/// reaction. It relies on the past: a delay longer than any before can still lose packets. So can a queue that shares its link with others:
/// its last arrival before the PAUSE takes effect may be early in each sample.
///
/// A delay that was measured by other means (`measured_delay`) applies to every queue at once, regardless of its number of PAUSEs.
#[derive(Debug)]
pub struct AdaptiveHeadroom {
    threshold: DynamicThreshold,
    samples: u32,
    frame_max: Bytes,
    /// `measured_delay` in picoseconds, for [`BufferPolicy::describe`].
    configured_delay: AtomicU64,
    ports: Box<[LinkHeadroom]>,
    queues: QueueRegisters<REGISTERS>,
}

#[derive(Debug)]
struct LinkHeadroom {
    rate: BitRate,
    /// Headroom Φ by the rule: initial value and upper bound.
    headroom: Bytes,
    /// Part of Φ for the switch's own reaction.
    own: Bytes,
    /// Headroom Φ by `measured_delay`; [`NONE`] without. [`BufferPolicy::update_config`] may change it.
    configured_headroom: AtomicBytes,
}

/// Placeholder for an unknown Φ; the rule's applies.
const NONE: Bytes = Bytes::new(u64::MAX);

/// Number of counters per queue; times are in picoseconds.
const REGISTERS: usize = 5;
/// Instant at which the queue went OFF; [`ON`] while it is ON.
const OFF_AT: usize = 0;
/// Last arrival since `OFF_AT`.
const LAST_AT: usize = 1;
/// Longest delay so far.
const DELAY_MAX: usize = 2;
const SAMPLES: usize = 3;
const HEADROOM: usize = 4;
const ON: u64 = u64::MAX;

impl AdaptiveHeadroom {
    /// Creates the policy over a partition whose headroom is the rule's. `rates` are the rates at which the ports' links fill the buffer,
    /// `frame_max` is the maximum charge of a frame, and `reaction` the switch's own reaction from an arrival to the PAUSE. Adapts after
    /// `config.samples` PAUSEs of a queue, or at once to `config.measured_delay`.
    pub fn new(
        config: &AdaptiveHeadroomConfig,
        frame_max: Bytes,
        layout: &BufferLayout,
        rates: &[BitRate],
        reaction: Span,
    ) -> AdaptiveHeadroom {
        let link = |(rate, port): (&BitRate, &PortLayout)| LinkHeadroom {
            rate: *rate,
            headroom: port.headroom_max(),
            own: rate.bytes_in(reaction),
            configured_headroom: AtomicBytes::new(NONE),
        };
        let policy = AdaptiveHeadroom {
            threshold: DynamicThreshold::new(config.alpha),
            samples: config.samples,
            frame_max,
            configured_delay: AtomicU64::new(0),
            ports: rates.iter().zip(layout.ports()).map(link).collect(),
            queues: QueueRegisters::new(rates.len(), [ON, 0, 0, 0, NONE.get()]),
        };
        policy.set_delay(config.measured_delay);
        policy
    }

    /// Sets the delay that was measured by other means; zero is none.
    fn set_delay(&self, delay: Span) {
        self.configured_delay.store(delay.as_picos(), Ordering::Relaxed);
        for link in &self.ports {
            link.configured_headroom.set(if delay == Span::ZERO {
                NONE
            } else {
                link.headroom_for(delay, self.frame_max)
            });
        }
    }

    /// Records the delay of a PAUSE that has ended.
    fn note_delay(&self, writer: &mut PortWriter, queue: QueueId, delay: u64) {
        let longest = self.queues.get(queue, DELAY_MAX).max(delay);
        let samples = self.queues.get(queue, SAMPLES) + 1;
        self.queues.set(writer, queue.class(), DELAY_MAX, longest);
        self.queues.set(writer, queue.class(), SAMPLES, samples);
        if samples >= u64::from(self.samples) {
            let headroom = self.ports[queue.port().index()].headroom_for(Span::from_picos(longest), self.frame_max);
            self.queues.set(writer, queue.class(), HEADROOM, headroom.get());
        }
    }
}

impl LinkHeadroom {
    /// Headroom Φ for a delay: the bytes that C carries in it, a quarter more, two frames (the frame under way at either end at the PAUSE),
    /// and the switch's own part. At most Φ by the rule.
    fn headroom_for(&self, delay: Span, frame_max: Bytes) -> Bytes {
        let in_flight = self.rate.bytes_in(delay);
        (self.own + in_flight + in_flight.divided_by(4) + frame_max * 2).min(self.headroom)
    }
}

impl BufferPolicy for AdaptiveHeadroom {
    fn name(&self) -> &'static str {
        AdaptiveHeadroomKind.id()
    }

    fn has_non_increasing_thresholds(&self) -> bool {
        true
    }

    #[inline]
    fn threshold(&self, queue: &QueueView) -> Threshold {
        self.threshold.threshold(queue)
    }

    #[inline]
    fn on_arrival(&self, writer: &mut PortWriter, queue: &QueueView, _bytes: u64) {
        let off_at = self.queues.get(queue.queue, OFF_AT);
        if off_at == ON {
            return;
        }
        if queue.off {
            self.queues.set(writer, queue.queue.class(), LAST_AT, queue.now.as_picos());
        } else {
            let delay = self.queues.get(queue.queue, LAST_AT).saturating_sub(off_at);
            self.queues.set(writer, queue.queue.class(), OFF_AT, ON);
            self.note_delay(writer, queue.queue, delay);
        }
    }

    #[inline]
    fn on_admit(&self, writer: &mut PortWriter, queue: &QueueView) {
        if queue.lossless && queue.off && self.queues.get(queue.queue, OFF_AT) == ON {
            self.queues.set(writer, queue.queue.class(), OFF_AT, queue.now.as_picos());
            self.queues.set(writer, queue.queue.class(), LAST_AT, queue.now.as_picos());
        }
    }

    fn adapts_headroom(&self) -> bool {
        true
    }

    #[inline]
    fn headroom(&self, queue: QueueId) -> Bytes {
        let (own, configured) =
            (Bytes::new(self.queues.get(queue, HEADROOM)), self.ports[queue.port().index()].configured_headroom.get());
        // The longer delay applies.
        if own == NONE || configured == NONE { own.min(configured) } else { own.max(configured) }
    }

    fn update_config(&self, config: &dyn BufferPolicyConfig, _layout: &BufferLayout) {
        if let Some(AdaptiveHeadroomConfig { alpha, measured_delay, .. }) = config.downcast() {
            self.threshold.set_alpha(*alpha);
            self.set_delay(*measured_delay);
        }
    }

    fn steady_state(&self, load: &OverloadCase) -> SteadyState {
        self.threshold.steady_state(load)
    }

    fn describe(&self) -> Vec<String> {
        let mut sentences = vec![
            format!(
                "adaptive headroom (802.1Qdt, dsh V-B): DT with α = {}, Φ starts at the rule's",
                self.threshold.alpha()
            ),
            format!(
                "after {} PAUSEs of a queue its Φ follows the longest measured delay, plus C·reaction",
                self.samples
            ),
        ];
        let configured_delay = Span::from_picos(self.configured_delay.load(Ordering::Relaxed));
        if configured_delay > Span::ZERO {
            sentences.push(format!("measured_delay {configured_delay} applies to all queues at once"));
        }
        sentences
    }

    fn depends_on_time(&self) -> bool {
        false
    }

    fn gauges(&self, queue: &QueueView) -> Gauges {
        let most = self.ports[queue.queue.port().index()].headroom;
        let headroom = self.headroom(queue.queue).min(most);
        Gauges::new([(&HEADROOM_ESTIMATE, headroom.get())])
    }
}

#[derive(Debug)]
pub(super) struct AdaptiveHeadroomKind;

/// Settings of `[buffer.adaptive]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveHeadroomConfig {
    /// `alpha`: α of DT.
    pub alpha: Alpha,
    /// `samples`: PAUSEs measured on a queue before its headroom follows the measured delay.
    pub samples: u32,
    /// `measured_delay`: delay from PAUSE to the last packet, measured by other means, for all queues at once; zero if unknown.
    pub measured_delay: Span,
}

const NEEDED: Key<u32> =
    Key::<u32>::integer("samples", 1..=1_000_000, "PAUSEs measured on a queue before its headroom adapts").or("8");
/// Key of a delay measured by other means; no link has one of more than a second.
const MEASURED: Key<Span> = Key::time(
    "measured_delay",
    Span::ZERO..=Span::from_secs(1),
    "delay from a PAUSE to the last packet, as `weir calibrate --apply` measures it, which headroom follows at once \
     until a queue has a longer one; zero: none",
)
.or("0s")
.live();

impl Plugin for AdaptiveHeadroomKind {
    fn id(&self) -> &'static str {
        "adaptive"
    }

    fn keys(&self) -> Keys {
        &[&ALPHA, &NEEDED, &MEASURED]
    }

    fn gauges(&self) -> &'static [Gauge] {
        &[HEADROOM_ESTIMATE]
    }
}

impl BufferPolicyKind for AdaptiveHeadroomKind {
    fn parse(&self, table: &Table<'_>) -> Arc<dyn BufferPolicyConfig> {
        Arc::new(AdaptiveHeadroomConfig {
            alpha: table.get(&ALPHA),
            samples: table.get(&NEEDED),
            measured_delay: table.get(&MEASURED),
        })
    }
}

impl BufferPolicyConfig for AdaptiveHeadroomConfig {
    fn kind(&self) -> &'static dyn BufferPolicyKind {
        &AdaptiveHeadroomKind
    }

    fn layout_requirements(&self) -> LayoutRequirements {
        LayoutRequirements::PER_QUEUE
    }

    fn check(&self, file: &ConfigContext<'_>) {
        file.refuse_given_headroom("\"adaptive\" starts from the headroom by the rule");
    }

    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn BufferPolicy>, PolicyError> {
        let BuildContext { layout, fill_rates, frame_max, reaction, .. } = *context;
        Ok(Box::new(AdaptiveHeadroom::new(self, frame_max, layout, fill_rates, reaction)))
    }

    fn warning(&self) -> Option<&'static str> {
        Some("adaptive headroom relies on past delays: a longer delay can lose lossless frames")
    }
}

#[cfg(test)]
mod tests {
    use weir_units::{Class, ClassSet, PortId};

    use super::*;

    const CLASS: Class = Class::new(3);
    const QUEUE: QueueId = QueueId::new(PortId(0), CLASS);

    /// Policy at 10 Gb/s, with 100 KB by the rule.
    fn policy(reaction: Span, measured_delay: Span) -> AdaptiveHeadroom {
        let lossless = ClassSet::from_iter([CLASS]);
        let headroom = Class::ALL.map(|class| if class == CLASS { Bytes::kb(100) } else { Bytes::ZERO });
        let port = PortLayout { headroom, lossless, ..PortLayout::default() };
        let layout = LayoutRequirements::PER_QUEUE.partition(Bytes::mb(1), vec![port]).unwrap();
        let config = AdaptiveHeadroomConfig { alpha: Alpha::ONE, samples: 8, measured_delay };
        AdaptiveHeadroom::new(&config, Bytes::new(1_522), &layout, &[BitRate::gbps(10)], reaction)
    }

    /// Records eight PAUSEs with this delay.
    fn pause(policy: &AdaptiveHeadroom, delay: Span) {
        let mut writer = PortWriter::new(PortId(0));
        (0..8).for_each(|_| policy.note_delay(&mut writer, QUEUE, delay.as_picos()));
    }

    #[test]
    fn the_time_that_the_switch_may_take_is_not_learned() {
        let learned = |reaction| {
            let policy = policy(reaction, Span::ZERO);
            pause(&policy, Span::from_micros(2));
            policy.headroom(QUEUE)
        };
        // 2,500 B in 2 us, a quarter more, two frames.
        let link = Bytes::new(2_500 + 625 + 2 * 1_522);
        assert_eq!(learned(Span::ZERO), link);
        assert_eq!(learned(Span::from_micros(50)), link + Bytes::new(62_500));
        assert_eq!(learned(Span::from_millis(20)), Bytes::kb(100), "no more than by the rule");
    }

    #[test]
    fn a_configured_delay_applies_at_once() {
        let policy = policy(Span::ZERO, Span::ZERO);
        let set_delay = |measured_delay| {
            let config = AdaptiveHeadroomConfig { alpha: Alpha::ONE, samples: 8, measured_delay };
            policy.update_config(
                &config,
                &LayoutRequirements::PER_QUEUE.partition(Bytes::mb(1), vec![PortLayout::default()]).unwrap(),
            );
            policy.headroom(QUEUE)
        };
        assert_eq!(policy.headroom(QUEUE), NONE, "the rule's");
        let of = |micros: u64| Bytes::new(micros * 1_250 + micros * 1_250 / 4 + 2 * 1_522);
        assert_eq!(set_delay(Span::from_micros(8)), of(8));
        assert_eq!(set_delay(Span::from_millis(1)), Bytes::kb(100), "no more than by the rule");
        pause(&policy, Span::from_micros(16));
        assert_eq!(set_delay(Span::from_micros(8)), of(16));
        assert_eq!(set_delay(Span::from_micros(24)), of(24));
        assert_eq!(set_delay(Span::ZERO), of(16), "what was learned stays");
    }
}
