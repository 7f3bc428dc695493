//! ABM, extended to lossless classes within SONiC's pools (ABM, SIGCOMM 2022; reverie 2.3 and 4.1).

use std::sync::Arc;

use crossbeam_utils::CachePadded;
use weir_reader::{Key, Keys, Plugin, Table};
use weir_units::{Alpha, BitRate, Bytes, CLASSES, PortId, QueueId, Span};

use super::congestion::CongestedQueues;
use super::departures::{Departures, WindowClock, WindowEndLength};
use super::kind::{CONGESTED, CONGESTED_AT, CONGESTED_PARTLY, CongestedAt};
use super::pools::{self, Pools};
use super::{
    ALPHA, AtomicAlpha, BufferPolicy, BufferPolicyConfig, BufferPolicyKind, BufferSizes, BuildContext, ConfigContext,
    LayoutRequirements, OverloadCase, PolicyError, PoolLevel, PortRate, PortWriter, QueueView, SteadyState, Threshold,
    sonic,
};
use crate::layout::BufferLayout;
use crate::sync::{AtomicU64, Ordering};

/// ABM policy: `Γ = α_p·(1/n_p)·(b − Q)·μ`, over the ingress pool for lossless ingress queues and over the egress lossy pool for lossy
/// egress queues. μ is the queue's drain rate as a fraction of its port's rate.
///
/// μ is measured over the last interval, for queues that are congested and drained more than 2 KiB in it. For others μ is 1, as in the
/// public simulator, since a queue without departures would never get a share. A queue's congestion is judged at the threshold query or at
/// the interval's end, as there. μ of a switch's last port may be left unmeasured ([`DrainPorts`]).
#[derive(Debug)]
pub struct Abm {
    alpha: AtomicAlpha,
    config: AbmConfig,
    windows: WindowClock,
    ingress: QueueGroup,
    egress: QueueGroup,
    /// 2^40 / (C · interval), by port. Relaxed: independent numbers.
    reciprocal: Box<[AtomicU64]>,
}

/// State of the lossless ingress queues or of the lossy egress queues.
#[derive(Debug)]
struct QueueGroup {
    congested: CongestedQueues,
    departures: Box<[CachePadded<DrainRate>]>,
}

#[derive(Debug, Default)]
struct DrainRate {
    departures: Departures,
    /// Length at the end of the last window; recorded only for [`DrainScope::CongestedAtEnd`].
    at_end: WindowEndLength,
}

/// Fixed-point value of μ = 1.
const ONE: u64 = 1 << 16;

/// Departures in an interval up to which μ is not measured, in bytes.
const DRAINED_MIN: u64 = 2_048;

impl Abm {
    /// Creates the policy for ports of these rates; `None` if an interval carries more than [`WindowClock::BYTES_MAX`] at C.
    pub fn new(config: &AbmConfig, rates: &[BitRate]) -> Option<Abm> {
        let group = || QueueGroup {
            congested: CongestedQueues::new(rates.len(), config.congested.get()).partial(config.congested_partly),
            departures: (0..rates.len() * CLASSES).map(|_| CachePadded::default()).collect(),
        };
        let interval = config.interval;
        Some(Abm {
            alpha: AtomicAlpha::new(config.alpha),
            config: *config,
            windows: WindowClock::new(interval),
            ingress: group(),
            egress: group(),
            reciprocal: rates
                .iter()
                .map(|rate| Some(AtomicU64::new(reciprocal(*rate, interval)?)))
                .collect::<Option<_>>()?,
        })
    }

    #[inline]
    fn group(&self, queue: &QueueView) -> &QueueGroup {
        if queue.lossless { &self.ingress } else { &self.egress }
    }

    #[inline]
    fn bound(&self, queue: &QueueView, alpha: Alpha, pool: PoolLevel) -> u64 {
        let of_all = alpha.scale(Bytes::new(pool.free())).get();
        let share = self.group(queue).congested.share(queue.queue.class(), of_all);
        match self.drain_share(queue) {
            ONE => share,
            // Free buffer of 2^31 and α of 2^14 leave 19 bits: a μ up to 1 has 17.
            drain if drain < ONE => (share * drain) >> 16,
            drain => u64::try_from((u128::from(share) * u128::from(drain)) >> 16).unwrap_or(u64::MAX),
        }
    }

    /// Drain share μ in units of 2^-16; at most 1 unless uncapped.
    #[inline]
    fn drain_share(&self, queue: &QueueView) -> u64 {
        if self.config.drain_ports == DrainPorts::ButLast && self.is_last(queue.queue.port()) {
            return ONE;
        }
        let drain = &self.group(queue).departures[queue.queue.index()];
        let is_judged = match self.config.drain_of {
            DrainScope::Congested => queue.length >= self.config.congested.get(),
            DrainScope::CongestedAtEnd => {
                drain.at_end.at_last_window_end(self.windows, queue.now) > self.config.congested.get()
            }
        };
        if !is_judged {
            return ONE;
        }
        match drain.departures.in_last_window(self.windows, queue.now) {
            0..=DRAINED_MIN => ONE,
            drained => {
                let reciprocal = self.reciprocal[queue.queue.port().index()].load(Ordering::Relaxed);
                let share = (drained * reciprocal) >> 24;
                if self.config.drain_cap { share.min(ONE) } else { share }
            }
        }
    }

    #[inline]
    fn is_last(&self, port: PortId) -> bool {
        port.index() + 1 == self.reciprocal.len()
    }

    #[inline]
    fn note(&self, queue: &QueueView) {
        self.group(queue).congested.note(queue.queue, queue.length);
    }

    /// Records a queue's length after an event, for the end of a window.
    #[inline]
    fn note_length(&self, queue: &QueueView) {
        let group = self.group(queue);
        if self.config.drain_of == DrainScope::CongestedAtEnd {
            group.departures[queue.queue.index()].at_end.note(self.windows, queue.now, queue.length);
        }
    }
}

/// 2^40 / (C · interval); `None` if an interval carries more than the counter holds.
fn reciprocal(rate: BitRate, interval: Span) -> Option<u64> {
    let capacity = rate.bytes_in(interval).get();
    (capacity <= WindowClock::BYTES_MAX).then(|| (1 << 40) / capacity.max(1))
}

impl BufferPolicy for Abm {
    fn name(&self) -> &'static str {
        AbmKind.id()
    }

    /// True: μ depends only on past departures and the queue's length, and n_p is counted between bursts.
    fn has_non_increasing_thresholds(&self) -> bool {
        true
    }

    #[inline]
    fn threshold(&self, queue: &QueueView) -> Threshold {
        Threshold::new(self.bound(queue, self.alpha.get(), queue.shared_pool))
    }

    #[inline]
    fn lossy_threshold(&self, queue: &QueueView, alpha: Alpha) -> u64 {
        self.bound(queue, alpha, queue.egress_lossy_pool)
    }

    #[inline]
    fn on_admit(&self, _writer: &mut PortWriter, queue: &QueueView) {
        self.note_length(queue);
        self.note(queue);
    }

    #[inline]
    fn on_release(&self, _ingress: QueueId, bytes: u64, queue: &QueueView) {
        self.group(queue).departures[queue.queue.index()].departures.add(self.windows, queue.now, bytes);
        self.note_length(queue);
        if self.config.congested_at.departures_of(queue) {
            self.note(queue);
        }
    }

    fn set_rate(&self, port: PortId, rate: PortRate) -> bool {
        let set = |reciprocal| self.reciprocal[port.index()].store(reciprocal, Ordering::Relaxed);
        reciprocal(rate.line, self.config.interval).map(set).is_some()
    }

    fn update_config(&self, config: &dyn BufferPolicyConfig, _layout: &BufferLayout) {
        if let Some(AbmConfig { alpha, .. }) = config.downcast() {
            self.alpha.set(*alpha);
        }
    }

    /// Steady state with μ = 1: the queues of a priority share the buffer of a single one.
    fn steady_state(&self, load: &OverloadCase) -> SteadyState {
        let weight = |queues: u64, alpha: Alpha| if queues > 0 { alpha.as_f64() } else { 0.0 };
        sonic::at_rest(load, weight(load.lossless, self.alpha.get()), weight(load.lossy, load.lossy_alpha))
    }

    fn describe(&self) -> Vec<String> {
        let AbmConfig { congested, interval, .. } = self.config;
        let mut lines = vec![
            format!(
                "ABM extended to lossless (reverie 2.3): Γ = α/n_p (b − Q) μ in the ingress and egress lossy pools, α● = {}",
                self.alpha.get()
            ),
            format!("n_p counts queues of {congested} or more; μ, the drain rate, is measured over {interval}"),
        ];
        let others = self.config.deviations();
        if !others.is_empty() {
            lines.push(format!("as in the public simulator: {}", others.join("; ")));
        }
        lines
    }
}

#[derive(Debug)]
pub(super) struct AbmKind;

/// Settings of `[buffer.abm]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbmConfig {
    /// `alpha`: α of the lossless ingress queues.
    pub alpha: Alpha,
    /// Sizes of the pools.
    pub pools: Pools,
    /// `congested`: length from which a queue counts in n_p.
    pub congested: Bytes,
    /// `congested_partly`: whether a shorter queue counts in proportion to its length.
    pub congested_partly: bool,
    /// `congested_at`: events at which a queue's share of n_p is updated.
    pub congested_at: CongestedAt,
    /// `interval`: window over which μ is measured.
    pub interval: Span,
    /// `drain_of`: queues whose μ is measured.
    pub drain_of: DrainScope,
    /// `drain_cap`: whether μ is at most 1.
    pub drain_cap: bool,
    /// `drain_ports`: ports whose queues' μ is measured.
    pub drain_ports: DrainPorts,
}

/// Queues whose μ is measured; μ is 1 for all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainScope {
    /// Queues that are congested at the threshold query.
    Congested,
    /// Queues that were longer than `congested` at the end of the measured interval.
    CongestedAtEnd,
}

/// Ports whose queues' μ is measured; μ is 1 at others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainPorts {
    /// All ports.
    All,
    /// All ports but the last one in the switch file's order: the public simulator numbers ports from 1, and measures those below their
    /// number.
    ButLast,
}

const INTERVAL: Key<Span> = Key::time(
    "interval",
    Span::from_micros(1)..=Span::from_secs(1),
    "time over which μ, a queue's drain rate, is measured",
)
.or("25us");
const DRAIN_OF: Key<DrainScope> = Key::choice(
    "drain_of",
    &[("congested", DrainScope::Congested), ("congested-at-end", DrainScope::CongestedAtEnd)],
    "queues whose μ is measured: those congested now, or at the interval's end; μ of others is 1",
)
.or("congested");
const DRAIN_CAP: Key<bool> =
    Key::boolean("drain_cap", "whether μ is at most 1; several ports may drain a queue faster").or("true");
const DRAIN_PORTS: Key<DrainPorts> = Key::choice(
    "drain_ports",
    &[("all", DrainPorts::All), ("but-last", DrainPorts::ButLast)],
    "ports whose queues' μ is measured: all, or all but the file's last one, where μ is 1",
)
.or("all");

impl Plugin for AbmKind {
    fn id(&self) -> &'static str {
        "abm"
    }

    fn keys(&self) -> Keys {
        &[
            &ALPHA,
            &pools::INGRESS,
            &pools::HEADROOM,
            &pools::EGRESS_LOSSY,
            &CONGESTED,
            &CONGESTED_PARTLY,
            &CONGESTED_AT,
            &INTERVAL,
            &DRAIN_OF,
            &DRAIN_CAP,
            &DRAIN_PORTS,
        ]
    }
}

impl BufferPolicyKind for AbmKind {
    fn parse(&self, table: &Table<'_>) -> Arc<dyn BufferPolicyConfig> {
        Arc::new(AbmConfig {
            alpha: table.get(&ALPHA),
            pools: Pools::read(table),
            congested: table.get(&CONGESTED),
            congested_partly: table.get(&CONGESTED_PARTLY),
            congested_at: table.get(&CONGESTED_AT),
            interval: table.get(&INTERVAL),
            drain_of: table.get(&DRAIN_OF),
            drain_cap: table.get(&DRAIN_CAP),
            drain_ports: table.get(&DRAIN_PORTS),
        })
    }
}

impl BufferPolicyConfig for AbmConfig {
    fn kind(&self) -> &'static dyn BufferPolicyKind {
        &AbmKind
    }

    fn layout_requirements(&self) -> LayoutRequirements {
        self.pools.layout_requirements()
    }

    fn check_sizes(&self, file: &ConfigContext<'_>, sizes: &BufferSizes<'_>) {
        self.pools.check(self, file, sizes);
    }

    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn BufferPolicy>, PolicyError> {
        match Abm::new(self, context.rates) {
            Some(abm) => Ok(Box::new(abm)),
            None => Err(PolicyError::window(&INTERVAL, context.rates)),
        }
    }

    fn window_key(&self) -> Option<&'static Key<Span>> {
        Some(&INTERVAL)
    }
}

impl AbmConfig {
    /// Creates settings with these parameters and the defaults otherwise.
    pub fn paper(alpha: Alpha, pools: Pools, congested: Bytes, interval: Span) -> AbmConfig {
        let (congested_partly, congested_at) = (false, CongestedAt::Events);
        let (drain_of, drain_cap, drain_ports) = (DrainScope::Congested, true, DrainPorts::All);
        AbmConfig {
            alpha,
            pools,
            congested,
            congested_partly,
            congested_at,
            interval,
            drain_of,
            drain_cap,
            drain_ports,
        }
    }

    /// Deviations from the defaults, as in the public simulator.
    fn deviations(&self) -> Vec<&'static str> {
        let parts = [
            (self.congested_partly, "shorter queues count in n_p in proportion to their length"),
            (self.congested_at == CongestedAt::Arrivals, "a queue counts as it did at its last arrival"),
            (
                self.drain_of == DrainScope::CongestedAtEnd,
                "μ is measured for queues that were congested at the interval's end",
            ),
            (!self.drain_cap, "μ may exceed 1"),
            (self.drain_ports == DrainPorts::ButLast, "μ of the last port's queues is 1"),
        ];
        parts.into_iter().filter(|(is_so, _)| *is_so).map(|(_, what)| what).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::policy::tests::view;
    use weir_units::{PortId, Time};

    fn abm() -> Abm {
        abm_with(|config| config)
    }

    fn abm_with(change: impl Fn(AbmConfig) -> AbmConfig) -> Abm {
        let config = AbmConfig::paper(Alpha::ONE, Pools::default(), Bytes::new(20_480), Span::from_micros(25));
        Abm::new(&change(config), &[BitRate::gbps(100); 4]).unwrap()
    }

    fn at(port: u16, us: u64) -> QueueView {
        QueueView { length: 100_000, now: Time::from_nanos(us * 1_000), ..view(port, 10_000_000, 2_000_000) }
    }

    fn depart(abm: &Abm, queue: &QueueView, bytes: u64) {
        abm.on_release(queue.queue, bytes, queue);
    }

    #[test]
    fn a_share_for_each_congested_queue() {
        let abm = abm();
        let mut writer = PortWriter::new(PortId(0));
        for port in 0..4 {
            abm.on_admit(&mut writer, &at(port, 0));
        }
        assert_eq!(abm.threshold(&at(0, 0)), Threshold::new(2_000_000));
        abm.on_admit(&mut writer, &QueueView { length: 0, ..at(3, 0) });
        assert_eq!(abm.threshold(&at(0, 0)), Threshold::new(8_000_000 / 3));
    }

    #[test]
    fn a_queue_may_count_as_at_its_last_arrival() {
        let abm = abm_with(|config| AbmConfig { congested_at: CongestedAt::Arrivals, ..config });
        let mut writer = PortWriter::new(PortId(0));
        (0..4).for_each(|port| abm.on_admit(&mut writer, &at(port, 0)));
        let threshold = || abm.threshold(&at(0, 0)).xoff;
        // The queue is empty, and no threshold is queried.
        let drained = QueueView { length: 0, ..at(3, 0) };
        depart(&abm, &drained, 1_000);
        assert_eq!(threshold(), 2_000_000);
        depart(&abm, &QueueView { off: true, headroom: 1_000, ..drained }, 1_000);
        assert_eq!(threshold(), 2_000_000);
        // The queue is OFF with empty headroom: the RESUME query updates its share.
        depart(&abm, &QueueView { off: true, ..drained }, 1_000);
        assert_eq!(threshold(), 8_000_000 / 3);
        abm.on_admit(&mut writer, &QueueView { length: 1_000, ..at(2, 0) });
        assert_eq!(threshold(), 4_000_000);
        assert!(abm.describe()[2].ends_with("a queue counts as it did at its last arrival"));
    }

    #[test]
    fn slow_queues_get_less() {
        let abm = abm();
        // 100 Gb/s over 25 us is 312,500 B; a quarter departs.
        depart(&abm, &at(0, 10), 78_125);
        assert_eq!(abm.threshold(&at(0, 20)), Threshold::new(8_000_000), "the interval is not over");
        let quarter = abm.threshold(&at(0, 30)).xoff;
        assert!(quarter.abs_diff(2_000_000) <= 2_000, "{quarter}");
        // At 25 Gb/s these departures are the port's full rate.
        let rate = |gbps| PortRate { line: BitRate::gbps(gbps), fill: BitRate::gbps(gbps) };
        assert!(abm.set_rate(PortId(0), rate(25)));
        assert!(abm.threshold(&at(0, 30)).xoff.abs_diff(8_000_000) <= 2_000);
        assert!(abm.set_rate(PortId(0), rate(100)) && !abm.set_rate(PortId(0), rate(100_000)));
        assert_eq!(abm.threshold(&at(0, 30)).xoff, quarter, "what can't be counted changes nothing");
        // μ = 1 for a queue that is not congested, or drained next to nothing.
        assert_eq!(abm.threshold(&QueueView { length: 20_000, ..at(0, 30) }), Threshold::new(8_000_000));
        depart(&abm, &at(0, 110), 2_048);
        assert_eq!(abm.threshold(&at(0, 130)), Threshold::new(8_000_000));
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

    #[test]
    fn the_drain_rate_may_be_of_queues_congested_at_the_intervals_end() {
        let abm = abm_with(|config| AbmConfig { drain_of: DrainScope::CongestedAtEnd, ..config });
        let mut writer = PortWriter::new(PortId(0));
        let long = |us| QueueView { length: 20_481, ..at(0, us) };
        let short = |us| QueueView { length: 20_480, ..at(0, us) };
        let threshold = |us| abm.threshold(&short(us)).xoff;
        // A quarter departs of a queue that is long at 25 us; later lengths do not count.
        depart(&abm, &long(10), 78_125);
        assert_eq!(threshold(20), 8_000_000);
        assert!(threshold(30).abs_diff(2_000_000) <= 2_000);
        abm.on_admit(&mut writer, &short(31));
        assert!(threshold(32).abs_diff(2_000_000) <= 2_000);
        // Short at 50 us, and long a moment later.
        depart(&abm, &short(49), 78_125);
        abm.on_admit(&mut writer, &long(51));
        assert_eq!((threshold(52), abm.threshold(&long(52)).xoff), (8_000_000, 8_000_000));
        // Long at 75 us and ever since, without a later event.
        depart(&abm, &long(74), 78_125);
        assert!(threshold(76).abs_diff(2_000_000) <= 2_000);
    }

    #[test]
    fn the_last_port_may_go_unmeasured() {
        let abm = abm_with(|config| AbmConfig { drain_ports: DrainPorts::ButLast, ..config });
        for port in [2, 3] {
            depart(&abm, &at(port, 10), 78_125);
        }
        // Two queues are congested; a quarter of the line rate departs of each.
        assert!(abm.threshold(&at(2, 30)).xoff.abs_diff(1_000_000) <= 1_000);
        assert_eq!(abm.threshold(&at(3, 30)), Threshold::new(4_000_000));
        let lossy = QueueView { lossless: false, egress_lossy_pool: at(3, 0).shared_pool, ..at(3, 10) };
        depart(&abm, &lossy, 78_125);
        let later = QueueView { now: at(3, 30).now, ..lossy };
        assert_eq!(abm.lossy_threshold(&later, Alpha::ONE), 8_000_000);
        assert!(abm.describe()[2].ends_with("μ of the last port's queues is 1"));
    }

    #[test]
    fn the_drain_rate_may_exceed_the_ports() {
        let more_than_all = |drain_cap| {
            let abm = abm_with(|config| AbmConfig { drain_cap, ..config });
            depart(&abm, &at(0, 10), 625_000);
            abm.threshold(&at(0, 30)).xoff
        };
        assert_eq!(more_than_all(true), 8_000_000);
        assert!(more_than_all(false).abs_diff(16_000_000) <= 4_000, "{}", more_than_all(false));
    }
}
