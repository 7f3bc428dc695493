//! ABM, extended to lossless classes within SONiC's pools (ABM, SIGCOMM 2022; reverie 2.3 and 4.1).

use std::sync::Arc;

use crossbeam_utils::CachePadded;
use weir_reader::{Key, Named, TIME, Table};
use weir_units::{Alpha, BitRate, Bytes, CLASSES, PortId, QueueId, Span, Time};

use super::congestion::CongestedQueues;
use super::departures::{Departures, Windows};
use super::kind::{CONGESTED, size_or};
use super::pools::{self, Pools};
use super::{
    ALPHA, BuildContext, FileFacts, LayoutNeeds, LiveAlpha, Load, Policy, PolicyError, PolicyKind, PolicySettings,
    PoolLevel, PortRate, PortWriter, QueueView, Sizes, SteadyState, Threshold, sonic,
};
use crate::layout::BufferLayout;
use crate::sync::{AtomicU64, Ordering};

/// `Γ = α_p·(1/n_p)·(b − Q)·μ`, over the ingress pool for lossless ingress queues and over the egress lossy pool for
/// lossy egress queues; μ is the queue's drain rate as a part of its port's rate.
///
/// μ is what departed in the last interval. It counts for queues that are congested and drained more than 2 KiB in it;
/// for others it is 1, as in the public simulator, since a queue that had nothing to drain would never get a share.
#[derive(Debug)]
pub struct Abm {
    alpha: LiveAlpha,
    congested_from: Bytes,
    interval: Span,
    windows: Windows,
    ingress: Side,
    egress: Side,
    /// 2^40 / (C · interval), by port. Relaxed: numbers that stand alone.
    reciprocal: Box<[AtomicU64]>,
}

/// Lossless ingress queues, or lossy egress queues.
#[derive(Debug)]
struct Side {
    congested: CongestedQueues,
    departures: Box<[CachePadded<Departures>]>,
}

/// A queue that drained no more than this in an interval says nothing about its share.
const DRAINED_MIN: u64 = 2_048;

impl Abm {
    /// With α of lossless queues, for ports of these rates; queues from `congested` bytes on are counted in n_p, drain
    /// rates are measured over `interval`. `None` if an interval carries more than [`Windows::BYTES_MAX`] at C.
    pub fn new(alpha: Alpha, congested: Bytes, interval: Span, rates: &[BitRate]) -> Option<Abm> {
        let side = || Side {
            congested: CongestedQueues::new(rates.len(), congested.get()),
            departures: (0..rates.len() * CLASSES).map(|_| CachePadded::default()).collect(),
        };
        Some(Abm {
            alpha: LiveAlpha::new(alpha),
            congested_from: congested,
            interval,
            windows: Windows::of(interval),
            ingress: side(),
            egress: side(),
            reciprocal: rates
                .iter()
                .map(|rate| Some(AtomicU64::new(reciprocal(*rate, interval)?)))
                .collect::<Option<_>>()?,
        })
    }

    #[inline]
    fn side(&self, queue: &QueueView) -> &Side {
        if queue.lossless { &self.ingress } else { &self.egress }
    }

    /// Γ over a pool.
    #[inline]
    fn bound(&self, queue: &QueueView, alpha: Alpha, pool: PoolLevel) -> u64 {
        let n = self.side(queue).congested.count(queue.queue.class());
        let share = alpha.of(Bytes::new(pool.free())).get() / n;
        // Free buffer of 2^31 and α of 2^14 leave 19 bits: μ is cut to 16.
        (share * self.drain_share(queue)) >> 16
    }

    /// μ in units of 2^-16, at most 1.
    #[inline]
    fn drain_share(&self, queue: &QueueView) -> u64 {
        const ONE: u64 = 1 << 16;
        if queue.length < self.congested_from.get() {
            return ONE;
        }
        match self.drained(queue.queue, self.side(queue), queue.now) {
            0..=DRAINED_MIN => ONE,
            drained => {
                let reciprocal = self.reciprocal[queue.queue.port().index()].load(Ordering::Relaxed);
                ((drained * reciprocal) >> 24).min(ONE)
            }
        }
    }

    #[inline]
    fn drained(&self, queue: QueueId, side: &Side, now: Time) -> u64 {
        side.departures[queue.index()].in_last_window(self.windows, now)
    }

    #[inline]
    fn note(&self, queue: &QueueView) {
        self.side(queue).congested.note(queue.queue, queue.length);
    }
}

/// 2^40 / (C · interval); `None` if an interval carries more than is counted.
fn reciprocal(rate: BitRate, interval: Span) -> Option<u64> {
    let whole = rate.bytes_in(interval).get();
    (whole <= Windows::BYTES_MAX).then(|| (1 << 40) / whole.max(1))
}

impl Policy for Abm {
    fn name(&self) -> &'static str {
        Kind.name()
    }

    /// μ is of past departures, and only of a queue that is long enough; n_p is counted between bursts.
    fn thresholds_fall(&self) -> bool {
        true
    }

    #[inline]
    fn threshold(&self, queue: &QueueView) -> Threshold {
        Threshold::at(self.bound(queue, self.alpha.get(), queue.shared_pool))
    }

    #[inline]
    fn lossy_threshold(&self, queue: &QueueView, alpha: Alpha) -> u64 {
        self.bound(queue, alpha, queue.egress_lossy_pool)
    }

    #[inline]
    fn admitted(&self, _writer: &mut PortWriter, queue: &QueueView) {
        self.note(queue);
    }

    #[inline]
    fn released(&self, _ingress: QueueId, bytes: u64, queue: &QueueView) {
        self.side(queue).departures[queue.queue.index()].add(self.windows, queue.now, bytes);
        self.note(queue);
    }

    fn set_rate(&self, port: PortId, rate: PortRate) -> bool {
        let set = |reciprocal| self.reciprocal[port.index()].store(reciprocal, Ordering::Relaxed);
        reciprocal(rate.line, self.interval).map(set).is_some()
    }

    fn retune(&self, settings: &dyn PolicySettings, _layout: &BufferLayout) {
        if let Some(AbmSettings { alpha, .. }) = settings.downcast() {
            self.alpha.set(*alpha);
        }
    }

    /// With μ = 1: the queues of a priority share what one would have.
    fn steady_state(&self, load: &Load) -> SteadyState {
        let weight = |queues: u64, alpha: Alpha| if queues > 0 { alpha.as_f64() } else { 0.0 };
        sonic::at_rest(load, weight(load.lossless, self.alpha.get()), weight(load.lossy, load.lossy_alpha))
    }

    fn describe(&self) -> Vec<String> {
        vec![
            format!(
                "ABM extended to lossless (reverie 2.3): Γ = α/n_p (b − Q) μ in the ingress and egress lossy pools, α● = {}",
                self.alpha.get()
            ),
            format!(
                "n_p counts queues of {} or more; μ, the drain rate, is measured over {}",
                self.congested_from, self.interval
            ),
        ]
    }
}

/// `policy = "abm"`.
#[derive(Debug)]
pub(super) struct Kind;

/// `[buffer.abm]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbmSettings {
    /// `alpha`: α of the lossless ingress queues.
    pub alpha: Alpha,
    /// The pools' sizes.
    pub pools: Pools,
    /// `congested`: a queue counts in n_p from this length on.
    pub congested: Bytes,
    /// `interval`: the time over which μ, a queue's rate of departures, is measured.
    pub interval: Span,
}

const INTERVAL: Key = Key::new("interval", "25us", "the time over which μ, a queue's drain rate, is measured");

impl Named for Kind {
    fn name(&self) -> &'static str {
        "abm"
    }

    fn keys(&self) -> &'static [Key] {
        &[ALPHA, pools::INGRESS, pools::HEADROOM, pools::EGRESS_LOSSY, CONGESTED, INTERVAL]
    }
}

impl PolicyKind for Kind {
    fn read(&self, table: &Table<'_>) -> Arc<dyn PolicySettings> {
        Arc::new(AbmSettings {
            alpha: table.alpha_or(&ALPHA),
            pools: Pools::read(table),
            congested: size_or(table, &CONGESTED),
            interval: table.quantity_or(&INTERVAL, &TIME, Span::from_micros(1)..=Span::from_secs(1)),
        })
    }
}

impl PolicySettings for AbmSettings {
    fn kind(&self) -> &'static dyn PolicyKind {
        &Kind
    }

    fn needs(&self) -> LayoutNeeds {
        self.pools.needs()
    }

    fn check_sizes(&self, file: &FileFacts<'_>, sizes: &Sizes<'_>) {
        self.pools.check(self, file, sizes);
    }

    fn live_keys(&self) -> &'static [&'static str] {
        &[ALPHA.name]
    }

    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, PolicyError> {
        match Abm::new(self.alpha, self.congested, self.interval, context.rates) {
            Some(abm) => Ok(Box::new(abm)),
            None => Err(PolicyError::window(&INTERVAL, context.rates)),
        }
    }

    fn window_key(&self) -> Option<&'static Key> {
        Some(&INTERVAL)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::policy::tests::view;
    use weir_units::PortId;

    fn abm() -> Abm {
        Abm::new(Alpha::ONE, Bytes::new(20_480), Span::from_micros(25), &[BitRate::gbps(100); 4]).unwrap()
    }

    fn at(port: u16, us: u64) -> QueueView {
        QueueView { length: 100_000, now: Time::from_nanos(us * 1_000), ..view(port, 10_000_000, 2_000_000) }
    }

    fn depart(abm: &Abm, queue: &QueueView, bytes: u64) {
        abm.released(queue.queue, bytes, queue);
    }

    #[test]
    fn a_share_for_each_congested_queue() {
        let abm = abm();
        let mut writer = PortWriter::new(PortId(0));
        for port in 0..4 {
            abm.admitted(&mut writer, &at(port, 0));
        }
        assert_eq!(abm.threshold(&at(0, 0)), Threshold::at(2_000_000));
        abm.admitted(&mut writer, &QueueView { length: 0, ..at(3, 0) });
        assert_eq!(abm.threshold(&at(0, 0)), Threshold::at(8_000_000 / 3));
    }

    #[test]
    fn slow_queues_get_less() {
        let abm = abm();
        // 100 Gb/s over 25 us is 312,500 B; a quarter of it departs.
        depart(&abm, &at(0, 10), 78_125);
        assert_eq!(abm.threshold(&at(0, 20)), Threshold::at(8_000_000), "the interval is not over");
        let quarter = abm.threshold(&at(0, 30)).xoff;
        assert!(quarter.abs_diff(2_000_000) <= 2_000, "{quarter}");
        // At 25 Gb/s that is all that the port can.
        let rate = |gbps| PortRate { line: BitRate::gbps(gbps), fill: BitRate::gbps(gbps) };
        assert!(abm.set_rate(PortId(0), rate(25)));
        assert!(abm.threshold(&at(0, 30)).xoff.abs_diff(8_000_000) <= 2_000);
        assert!(abm.set_rate(PortId(0), rate(100)) && !abm.set_rate(PortId(0), rate(100_000)));
        assert_eq!(abm.threshold(&at(0, 30)).xoff, quarter, "what can't be counted changes nothing");
        // A queue that is not congested, or drained next to nothing, is not judged.
        assert_eq!(abm.threshold(&QueueView { length: 20_000, ..at(0, 30) }), Threshold::at(8_000_000));
        depart(&abm, &at(0, 110), 2_048);
        assert_eq!(abm.threshold(&at(0, 130)), Threshold::at(8_000_000));
    }

    #[test]
    fn lossy_queues_share_their_own_pool() {
        let abm = abm();
        let lossy = QueueView {
            lossless: false,
            egress_lossy_pool: PoolLevel { capacity: 4_000_000, used: 1_000_000 },
            ..at(0, 0)
        };
        assert_eq!(abm.lossy_threshold(&lossy, Alpha::ONE), 3_000_000);
    }
}
