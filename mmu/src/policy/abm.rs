//! ABM, extended to lossless classes within SONiC's pools (ABM, SIGCOMM 2022; reverie 2.3 and 4.1).

use std::sync::Arc;

use crossbeam_utils::CachePadded;
use weir_reader::{Key, Named, TIME, Table};
use weir_units::archive::{Archive, SharedState};
use weir_units::{Alpha, BitRate, Bytes, CLASSES, PortId, QueueId, Span};

use super::congestion::CongestedQueues;
use super::departures::{Departures, LengthAtEnd, Windows};
use super::kind::{CONGESTED, CONGESTED_AT, CONGESTED_AT_WORDS, CONGESTED_PARTLY, CongestedAt, size_or};
use super::pools::{self, Pools};
use super::{
    ALPHA, BuildContext, FileFacts, LayoutNeeds, LiveAlpha, Load, Policy, PolicyError, PolicyKind, PolicySettings,
    PoolLevel, PortRate, PortWriter, QueueView, Sizes, SteadyState, Threshold, sonic,
};
use crate::layout::BufferLayout;
use crate::sync::{AtomicU64, Ordering};

/// ABM policy: `Γ = α_p·(1/n_p)·(b − Q)·μ`, over the ingress pool for lossless ingress queues and over the egress lossy pool for lossy
/// egress queues. μ is the queue's drain rate as a fraction of its port's rate.
///
/// μ is measured over the last interval, for queues that are congested and drained more than 2 KiB in it. For others μ is 1, as in the
/// public simulator, since a queue without departures would never get a share. A queue's congestion is judged at the threshold query or at
/// the interval's end, as there. μ of a switch's last port may be left unmeasured ([`DrainPorts`]).
#[derive(Debug, SharedState)]
pub struct Abm {
    alpha: LiveAlpha,
    #[state(same)]
    settings: AbmSettings,
    #[state(same)]
    windows: Windows,
    ingress: Side,
    egress: Side,
    /// 2^40 / (C · interval), by port. Relaxed: independent numbers.
    reciprocal: Box<[AtomicU64]>,
}

/// State of the lossless ingress queues or of the lossy egress queues.
#[derive(Debug, SharedState)]
struct Side {
    congested: CongestedQueues,
    departures: Box<[CachePadded<Drain>]>,
}

#[derive(Debug, Default, SharedState)]
struct Drain {
    departures: Departures,
    /// Length at the end of the last window; recorded only for [`DrainOf::CongestedAtEnd`].
    at_end: LengthAtEnd,
}

/// Fixed-point value of μ = 1.
const ONE: u64 = 1 << 16;

/// Departures in an interval up to which μ is not measured, in bytes.
const DRAINED_MIN: u64 = 2_048;

impl Abm {
    /// Creates the policy for ports of these rates; `None` if an interval carries more than [`Windows::BYTES_MAX`] at C.
    pub fn new(settings: &AbmSettings, rates: &[BitRate]) -> Option<Abm> {
        let side = || Side {
            congested: CongestedQueues::new(rates.len(), settings.congested.get()).partial(settings.congested_partly),
            departures: (0..rates.len() * CLASSES).map(|_| CachePadded::default()).collect(),
        };
        let interval = settings.interval;
        Some(Abm {
            alpha: LiveAlpha::new(settings.alpha),
            settings: *settings,
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

    #[inline]
    fn bound(&self, queue: &QueueView, alpha: Alpha, pool: PoolLevel) -> u64 {
        let of_all = alpha.of(Bytes::new(pool.free())).get();
        let share = self.side(queue).congested.share(queue.queue.class(), of_all);
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
        if self.settings.drain_ports == DrainPorts::ButLast && self.is_last(queue.queue.port()) {
            return ONE;
        }
        let drain = &self.side(queue).departures[queue.queue.index()];
        let is_judged = match self.settings.drain_of {
            DrainOf::Congested => queue.length >= self.settings.congested.get(),
            DrainOf::CongestedAtEnd => drain.at_end.before(self.windows, queue.now) > self.settings.congested.get(),
        };
        if !is_judged {
            return ONE;
        }
        match drain.departures.in_last_window(self.windows, queue.now) {
            0..=DRAINED_MIN => ONE,
            drained => {
                let reciprocal = self.reciprocal[queue.queue.port().index()].load(Ordering::Relaxed);
                let share = (drained * reciprocal) >> 24;
                if self.settings.drain_cap { share.min(ONE) } else { share }
            }
        }
    }

    #[inline]
    fn is_last(&self, port: PortId) -> bool {
        port.index() + 1 == self.reciprocal.len()
    }

    #[inline]
    fn note(&self, queue: &QueueView) {
        self.side(queue).congested.note(queue.queue, queue.length);
    }

    /// Records a queue's length after an event, for the end of a window.
    #[inline]
    fn note_length(&self, queue: &QueueView) {
        let side = self.side(queue);
        if self.settings.drain_of == DrainOf::CongestedAtEnd {
            side.departures[queue.queue.index()].at_end.note(self.windows, queue.now, queue.length);
        }
    }
}

/// 2^40 / (C · interval); `None` if an interval carries more than the counter holds.
fn reciprocal(rate: BitRate, interval: Span) -> Option<u64> {
    let whole = rate.bytes_in(interval).get();
    (whole <= Windows::BYTES_MAX).then(|| (1 << 40) / whole.max(1))
}

impl Policy for Abm {
    fn name(&self) -> &'static str {
        Kind.name()
    }

    fn checkpoint(&self, archive: &mut Archive) {
        self.shared_state(archive);
    }

    /// True: μ depends only on past departures and the queue's length, and n_p is counted between bursts.
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
        self.note_length(queue);
        self.note(queue);
    }

    #[inline]
    fn released(&self, _ingress: QueueId, bytes: u64, queue: &QueueView) {
        self.side(queue).departures[queue.queue.index()].departures.add(self.windows, queue.now, bytes);
        self.note_length(queue);
        if self.settings.congested_at.departures_of(queue) {
            self.note(queue);
        }
    }

    fn set_rate(&self, port: PortId, rate: PortRate) -> bool {
        let set = |reciprocal| self.reciprocal[port.index()].store(reciprocal, Ordering::Relaxed);
        reciprocal(rate.line, self.settings.interval).map(set).is_some()
    }

    fn retune(&self, settings: &dyn PolicySettings, _layout: &BufferLayout) {
        if let Some(AbmSettings { alpha, .. }) = settings.downcast() {
            self.alpha.set(*alpha);
        }
    }

    /// Steady state with μ = 1: the queues of a priority share the buffer of a single one.
    fn steady_state(&self, load: &Load) -> SteadyState {
        let weight = |queues: u64, alpha: Alpha| if queues > 0 { alpha.as_f64() } else { 0.0 };
        sonic::at_rest(load, weight(load.lossless, self.alpha.get()), weight(load.lossy, load.lossy_alpha))
    }

    fn describe(&self) -> Vec<String> {
        let AbmSettings { congested, interval, .. } = self.settings;
        let mut lines = vec![
            format!(
                "ABM extended to lossless (reverie 2.3): Γ = α/n_p (b − Q) μ in the ingress and egress lossy pools, α● = {}",
                self.alpha.get()
            ),
            format!("n_p counts queues of {congested} or more; μ, the drain rate, is measured over {interval}"),
        ];
        let others = self.settings.other_than_the_usual();
        if !others.is_empty() {
            lines.push(format!("as in the public simulator: {}", others.join("; ")));
        }
        lines
    }
}

#[derive(Debug)]
pub(super) struct Kind;

/// Settings of `[buffer.abm]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbmSettings {
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
    pub drain_of: DrainOf,
    /// `drain_cap`: whether μ is at most 1.
    pub drain_cap: bool,
    /// `drain_ports`: ports whose queues' μ is measured.
    pub drain_ports: DrainPorts,
}

/// Queues whose μ is measured; μ is 1 for all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainOf {
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

const INTERVAL: Key = Key::new("interval", "25us", "the time over which μ, a queue's drain rate, is measured");

const DRAIN_OF: Key = Key::new(
    "drain_of",
    "congested",
    "whose μ counts: of queues congested now, or at the interval's end (congested-at-end)",
);
const DRAIN_CAP: Key = Key::new("drain_cap", "true", "whether μ is 1 at most");
const DRAIN_PORTS: Key = Key::new(
    "drain_ports",
    "all",
    "the ports whose queues' μ is measured: all, or all but the last one (but-last), where it is 1",
);

impl Named for Kind {
    fn name(&self) -> &'static str {
        "abm"
    }

    fn keys(&self) -> &'static [Key] {
        &[
            ALPHA,
            pools::INGRESS,
            pools::HEADROOM,
            pools::EGRESS_LOSSY,
            CONGESTED,
            CONGESTED_PARTLY,
            CONGESTED_AT,
            INTERVAL,
            DRAIN_OF,
            DRAIN_CAP,
            DRAIN_PORTS,
        ]
    }
}

impl PolicyKind for Kind {
    fn read(&self, table: &Table<'_>) -> Arc<dyn PolicySettings> {
        Arc::new(AbmSettings {
            alpha: table.alpha_or(&ALPHA),
            pools: Pools::read(table),
            congested: size_or(table, &CONGESTED),
            congested_partly: table.boolean_or(&CONGESTED_PARTLY),
            congested_at: table.choice_or(&CONGESTED_AT, CONGESTED_AT_WORDS),
            interval: table.quantity_or(&INTERVAL, &TIME, Span::from_micros(1)..=Span::from_secs(1)),
            drain_of: table.choice_or(
                &DRAIN_OF,
                &[("congested", DrainOf::Congested), ("congested-at-end", DrainOf::CongestedAtEnd)],
            ),
            drain_cap: table.boolean_or(&DRAIN_CAP),
            drain_ports: table.choice_or(&DRAIN_PORTS, &[("all", DrainPorts::All), ("but-last", DrainPorts::ButLast)]),
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
        match Abm::new(self, context.rates) {
            Some(abm) => Ok(Box::new(abm)),
            None => Err(PolicyError::window(&INTERVAL, context.rates)),
        }
    }

    fn window_key(&self) -> Option<&'static Key> {
        Some(&INTERVAL)
    }
}

impl AbmSettings {
    /// Creates settings with these parameters and the defaults otherwise.
    pub fn paper(alpha: Alpha, pools: Pools, congested: Bytes, interval: Span) -> AbmSettings {
        let (congested_partly, congested_at) = (false, CongestedAt::Events);
        let (drain_of, drain_cap, drain_ports) = (DrainOf::Congested, true, DrainPorts::All);
        AbmSettings {
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
    fn other_than_the_usual(&self) -> Vec<&'static str> {
        let parts = [
            (self.congested_partly, "shorter queues count in n_p by their part"),
            (self.congested_at == CongestedAt::Arrivals, "a queue counts as it did at its last arrival"),
            (self.drain_of == DrainOf::CongestedAtEnd, "μ is of queues that were congested at the interval's end"),
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
        abm_with(|settings| settings)
    }

    fn abm_with(change: impl Fn(AbmSettings) -> AbmSettings) -> Abm {
        let settings = AbmSettings::paper(Alpha::ONE, Pools::default(), Bytes::new(20_480), Span::from_micros(25));
        Abm::new(&change(settings), &[BitRate::gbps(100); 4]).unwrap()
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
    fn a_queue_may_count_as_at_its_last_arrival() {
        let abm = abm_with(|settings| AbmSettings { congested_at: CongestedAt::Arrivals, ..settings });
        let mut writer = PortWriter::new(PortId(0));
        (0..4).for_each(|port| abm.admitted(&mut writer, &at(port, 0)));
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
        abm.admitted(&mut writer, &QueueView { length: 1_000, ..at(2, 0) });
        assert_eq!(threshold(), 4_000_000);
        assert!(abm.describe()[2].ends_with("a queue counts as it did at its last arrival"));
    }

    #[test]
    fn slow_queues_get_less() {
        let abm = abm();
        // 100 Gb/s over 25 us is 312,500 B; a quarter departs.
        depart(&abm, &at(0, 10), 78_125);
        assert_eq!(abm.threshold(&at(0, 20)), Threshold::at(8_000_000), "the interval is not over");
        let quarter = abm.threshold(&at(0, 30)).xoff;
        assert!(quarter.abs_diff(2_000_000) <= 2_000, "{quarter}");
        // At 25 Gb/s these departures are the port's full rate.
        let rate = |gbps| PortRate { line: BitRate::gbps(gbps), fill: BitRate::gbps(gbps) };
        assert!(abm.set_rate(PortId(0), rate(25)));
        assert!(abm.threshold(&at(0, 30)).xoff.abs_diff(8_000_000) <= 2_000);
        assert!(abm.set_rate(PortId(0), rate(100)) && !abm.set_rate(PortId(0), rate(100_000)));
        assert_eq!(abm.threshold(&at(0, 30)).xoff, quarter, "what can't be counted changes nothing");
        // μ = 1 for a queue that is not congested, or drained next to nothing.
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

    #[test]
    fn the_drain_rate_may_be_of_queues_congested_at_the_intervals_end() {
        let abm = abm_with(|settings| AbmSettings { drain_of: DrainOf::CongestedAtEnd, ..settings });
        let mut writer = PortWriter::new(PortId(0));
        let long = |us| QueueView { length: 20_481, ..at(0, us) };
        let short = |us| QueueView { length: 20_480, ..at(0, us) };
        let threshold = |us| abm.threshold(&short(us)).xoff;
        // A quarter departs of a queue that is long at 25 us; later lengths do not count.
        depart(&abm, &long(10), 78_125);
        assert_eq!(threshold(20), 8_000_000);
        assert!(threshold(30).abs_diff(2_000_000) <= 2_000);
        abm.admitted(&mut writer, &short(31));
        assert!(threshold(32).abs_diff(2_000_000) <= 2_000);
        // Short at 50 us, and long a moment later.
        depart(&abm, &short(49), 78_125);
        abm.admitted(&mut writer, &long(51));
        assert_eq!((threshold(52), abm.threshold(&long(52)).xoff), (8_000_000, 8_000_000));
        // Long at 75 us and ever since, without a later event.
        depart(&abm, &long(74), 78_125);
        assert!(threshold(76).abs_diff(2_000_000) <= 2_000);
    }

    #[test]
    fn the_last_port_may_go_unmeasured() {
        let abm = abm_with(|settings| AbmSettings { drain_ports: DrainPorts::ButLast, ..settings });
        for port in [2, 3] {
            depart(&abm, &at(port, 10), 78_125);
        }
        // Two queues are congested; a quarter of the line rate departs of each.
        assert!(abm.threshold(&at(2, 30)).xoff.abs_diff(1_000_000) <= 1_000);
        assert_eq!(abm.threshold(&at(3, 30)), Threshold::at(4_000_000));
        let lossy = QueueView { lossless: false, egress_lossy_pool: at(3, 0).shared_pool, ..at(3, 10) };
        depart(&abm, &lossy, 78_125);
        let later = QueueView { now: at(3, 30).now, ..lossy };
        assert_eq!(abm.lossy_threshold(&later, Alpha::ONE), 8_000_000);
        assert!(abm.describe()[2].ends_with("μ of the last port's queues is 1"));
    }

    #[test]
    fn the_drain_rate_may_exceed_the_ports() {
        let more_than_all = |drain_cap| {
            let abm = abm_with(|settings| AbmSettings { drain_cap, ..settings });
            depart(&abm, &at(0, 10), 625_000);
            abm.threshold(&at(0, 30)).xoff
        };
        assert_eq!(more_than_all(true), 8_000_000);
        assert!(more_than_all(false).abs_diff(16_000_000) <= 4_000, "{}", more_than_all(false));
    }
}
