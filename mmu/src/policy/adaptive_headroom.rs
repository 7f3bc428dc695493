//! Adaptive headroom (IEEE 802.1Qdt; dsh V-B): Φ from the measured delay, not from the worst case.

use std::sync::Arc;

use weir_reader::{Key, Named, TIME, Table};
use weir_units::archive::{Archive, SharedState};
use weir_units::{Alpha, BitRate, Bytes, QueueId, Span};

use super::{
    ALPHA, BuildContext, DynamicThreshold, FileFacts, Gauge, Gauges, HEADROOM_ESTIMATE, LayoutNeeds, LiveBytes, Load,
    Policy, PolicyError, PolicyKind, PolicySettings, PortWriter, QueueView, QueueWords, SteadyState, Threshold,
};
use crate::layout::{BufferLayout, PortLayout};
use crate::sync::{AtomicU64, Ordering};

/// SIH with headroom that follows the link. Every queue starts with Φ by the rule. From each PAUSE to its RESUME the policy measures the
/// delay τ until the last arrival, that is, until the PAUSE took effect. After some PAUSEs, Φ is set to the bytes that C carries in the
/// longest τ, plus a quarter, two frames, and the bytes that arrive during the switch's own reaction (`reaction`). The rest goes to the
/// shared segment. A later, longer delay takes headroom back, as far as there is room.
///
/// The switch's own reaction is configured and not learned. A software switch is nearly always polled in time, but now and then loses its
/// CPU for milliseconds: a thousand PAUSEs do not reveal that one.
///
/// 802.1Qdt measures the cable with PTP messages, which needs the peer's support. This measurement needs none, and includes the peer's
/// reaction. It relies on the past: a delay longer than any before can still lose packets.
///
/// A delay that was measured by other means (`measured_delay`) applies to every queue at once, regardless of its number of PAUSEs.
#[derive(Debug, SharedState)]
pub struct AdaptiveHeadroom {
    threshold: DynamicThreshold,
    #[state(same)]
    samples: u32,
    #[state(same)]
    frame_max: Bytes,
    /// `measured_delay` in picoseconds, for [`Policy::describe`].
    told: AtomicU64,
    ports: Box<[Link]>,
    queues: QueueWords<WORDS>,
}

#[derive(Debug, SharedState)]
struct Link {
    #[state(same)]
    rate: BitRate,
    /// Headroom Φ by the rule: initial value and upper bound.
    #[state(same)]
    headroom: Bytes,
    /// Part of Φ for the switch's own reaction.
    #[state(same)]
    own: Bytes,
    /// Headroom Φ by `measured_delay`; [`NONE`] without. [`Policy::retune`] may change it.
    told: LiveBytes,
}

/// Placeholder for an unknown Φ; the rule's applies.
const NONE: Bytes = Bytes::new(u64::MAX);

/// Number of counters per queue; times are in picoseconds.
const WORDS: usize = 5;
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
    /// `settings.samples` PAUSEs of a queue, or at once to `settings.measured_delay`.
    pub fn new(
        settings: &AdaptiveSettings,
        frame_max: Bytes,
        layout: &BufferLayout,
        rates: &[BitRate],
        reaction: Span,
    ) -> AdaptiveHeadroom {
        let link = |(rate, port): (&BitRate, &PortLayout)| Link {
            rate: *rate,
            headroom: port.headroom_max(),
            own: rate.bytes_in(reaction),
            told: LiveBytes::new(NONE),
        };
        let policy = AdaptiveHeadroom {
            threshold: DynamicThreshold::new(settings.alpha),
            samples: settings.samples,
            frame_max,
            told: AtomicU64::new(0),
            ports: rates.iter().zip(layout.ports()).map(link).collect(),
            queues: QueueWords::new(rates.len(), [ON, 0, 0, 0, NONE.get()]),
        };
        policy.tell(settings.measured_delay);
        policy
    }

    /// Sets the delay that was measured by other means; zero is none.
    fn tell(&self, delay: Span) {
        self.told.store(delay.as_picos(), Ordering::Relaxed);
        for link in &self.ports {
            link.told.set(if delay == Span::ZERO { NONE } else { link.headroom_for(delay, self.frame_max) });
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

impl Link {
    /// Headroom Φ for a delay: the bytes that C carries in it, a quarter more, two frames (the frame under way at either end at the PAUSE),
    /// and the switch's own part. At most Φ by the rule.
    fn headroom_for(&self, delay: Span, frame_max: Bytes) -> Bytes {
        let in_flight = self.rate.bytes_in(delay);
        (self.own + in_flight + in_flight.divided_by(4) + frame_max * 2).min(self.headroom)
    }
}

impl Policy for AdaptiveHeadroom {
    fn name(&self) -> &'static str {
        Kind.name()
    }

    fn checkpoint(&self, archive: &mut Archive) {
        self.shared_state(archive);
    }

    fn thresholds_fall(&self) -> bool {
        true
    }

    #[inline]
    fn threshold(&self, queue: &QueueView) -> Threshold {
        self.threshold.threshold(queue)
    }

    #[inline]
    fn arrive(&self, writer: &mut PortWriter, queue: &QueueView, _bytes: u64) {
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
    fn admitted(&self, writer: &mut PortWriter, queue: &QueueView) {
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
        let (own, told) = (Bytes::new(self.queues.get(queue, HEADROOM)), self.ports[queue.port().index()].told.get());
        // The longer delay applies.
        if own == NONE || told == NONE { own.min(told) } else { own.max(told) }
    }

    fn retune(&self, settings: &dyn PolicySettings, _layout: &BufferLayout) {
        if let Some(AdaptiveSettings { alpha, measured_delay, .. }) = settings.downcast() {
            self.threshold.set_alpha(*alpha);
            self.tell(*measured_delay);
        }
    }

    fn steady_state(&self, load: &Load) -> SteadyState {
        self.threshold.steady_state(load)
    }

    fn describe(&self) -> Vec<String> {
        let mut sentences = vec![
            format!(
                "adaptive headroom (802.1Qdt, dsh V-B): DT with α = {}, Φ starts at the rule's",
                self.threshold.alpha()
            ),
            format!(
                "after {} PAUSEs of a queue its Φ follows the longest delay measured, and has C·reaction beside",
                self.samples
            ),
        ];
        let told = Span::from_picos(self.told.load(Ordering::Relaxed));
        if told > Span::ZERO {
            sentences.push(format!("a delay of {told} was measured, which counts for all queues from now on"));
        }
        sentences
    }

    fn observe(&self, queue: &QueueView) -> Gauges {
        let most = self.ports[queue.queue.port().index()].headroom;
        let headroom = self.headroom(queue.queue).min(most);
        Gauges::of([(&HEADROOM_ESTIMATE, headroom.get())])
    }
}

#[derive(Debug)]
pub(super) struct Kind;

/// Settings of `[buffer.adaptive]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveSettings {
    /// `alpha`: α of DT.
    pub alpha: Alpha,
    /// `samples`: PAUSEs measured on a queue before its headroom follows the measured delay.
    pub samples: u32,
    /// `measured_delay`: delay from PAUSE to the last packet, measured by other means, for all queues at once; zero if unknown.
    pub measured_delay: Span,
}

const NEEDED: Key = Key::new("samples", "8", "PAUSEs measured on a queue before its headroom follows the delay");
const MEASURED: Key =
    Key::new("measured_delay", "0s", "a delay that `weir calibrate` measured: headroom follows it at once");
/// Maximum of `measured_delay`; no link has a longer delay.
const DELAY_MAX_READ: Span = Span::from_secs(1);

impl Named for Kind {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn keys(&self) -> &'static [Key] {
        &[ALPHA, NEEDED, MEASURED]
    }

    fn gauges(&self) -> &'static [Gauge] {
        &[HEADROOM_ESTIMATE]
    }
}

impl PolicyKind for Kind {
    fn read(&self, table: &Table<'_>) -> Arc<dyn PolicySettings> {
        Arc::new(AdaptiveSettings {
            alpha: table.alpha_or(&ALPHA),
            samples: table.integer_or(&NEEDED, 1..=1_000_000) as u32,
            measured_delay: table.quantity_or(&MEASURED, &TIME, Span::ZERO..=DELAY_MAX_READ),
        })
    }
}

impl PolicySettings for AdaptiveSettings {
    fn kind(&self) -> &'static dyn PolicyKind {
        &Kind
    }

    fn needs(&self) -> LayoutNeeds {
        LayoutNeeds::PER_QUEUE
    }

    fn check(&self, file: &FileFacts<'_>) {
        file.refuse_given_headroom("\"adaptive\" starts from the headroom by the rule");
    }

    fn live_keys(&self) -> &'static [&'static str] {
        &[ALPHA.name, MEASURED.name]
    }

    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, PolicyError> {
        let BuildContext { layout, fill_rates, frame_max, reaction, .. } = *context;
        Ok(Box::new(AdaptiveHeadroom::new(self, frame_max, layout, fill_rates, reaction)))
    }

    fn warning(&self) -> Option<&'static str> {
        Some("adaptive headroom trusts the delays measured so far: after a longer one lossless frames can be lost")
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
        let layout = LayoutNeeds::PER_QUEUE.cut(Bytes::mb(1), vec![port]).unwrap();
        let settings = AdaptiveSettings { alpha: Alpha::ONE, samples: 8, measured_delay };
        AdaptiveHeadroom::new(&settings, Bytes::new(1_522), &layout, &[BitRate::gbps(10)], reaction)
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
    fn a_delay_that_is_told_counts_at_once_and_a_longer_one_of_its_own_more() {
        let policy = policy(Span::ZERO, Span::ZERO);
        let tell = |measured_delay| {
            let settings = AdaptiveSettings { alpha: Alpha::ONE, samples: 8, measured_delay };
            policy.retune(&settings, &LayoutNeeds::PER_QUEUE.cut(Bytes::mb(1), vec![PortLayout::default()]).unwrap());
            policy.headroom(QUEUE)
        };
        assert_eq!(policy.headroom(QUEUE), NONE, "the rule's");
        let of = |micros: u64| Bytes::new(micros * 1_250 + micros * 1_250 / 4 + 2 * 1_522);
        assert_eq!(tell(Span::from_micros(8)), of(8));
        assert_eq!(tell(Span::from_millis(1)), Bytes::kb(100), "no more than by the rule");
        pause(&policy, Span::from_micros(16));
        assert_eq!(tell(Span::from_micros(8)), of(16));
        assert_eq!(tell(Span::from_micros(24)), of(24));
        assert_eq!(tell(Span::ZERO), of(16), "what was learned stays");
    }
}
