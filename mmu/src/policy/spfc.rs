//! SPFC: selective PFC, which lets victim ports continue to buffer (spfc IV-B, V-A).

use std::sync::Arc;

use crossbeam_utils::CachePadded;
use weir_reader::{Key, Keys, Plugin, Table};
use weir_units::{Alpha, BitRate, Bytes, PortId, QueueId, Span};

use super::departures::{Departures, WindowClock};
use super::{
    ALPHA, BufferPolicy, BufferPolicyConfig, BufferPolicyKind, BuildContext, DynamicThreshold, Gauge, Gauges,
    LayoutRequirements, OverloadCase, PolicyError, PoolLevel, PortRate, QueueView, SteadyState, Threshold, Unit,
};
use crate::layout::BufferLayout;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// SPFC policy. Each ingress port is in one of two states.
///
/// - *Normal*: `T = α·(B − Σ Q)`, the sum over victim and normal ports.
/// - *Victim*: `T` is the size of the memory that victims may use. The port still pauses when that is full.
///
/// [`VictimMemory`] sets that memory: the shared segment, or with it the headroom that OFF queues do not need.
///
/// A port is a victim while its packets depart at `C / K_spfc` or more, measured in windows of TC (the paper's IRC counter, whose result SH
/// holds until the next window ends), and none of its queues is OFF. From a PAUSE to its RESUME the port is normal regardless of the
/// counter. [`VictimAt`] sets when a window's count takes effect.
#[derive(Debug)]
pub struct Spfc {
    threshold: DynamicThreshold,
    /// K_spfc, which [`BufferPolicy::update_config`] may change.
    k_spfc: AtomicU32,
    tc: Span,
    victim_at: VictimAt,
    victim_memory: VictimMemory,
    /// B: bytes of the shared segment without lent headroom.
    shared: u64,
    /// Time that the switch itself may take from an arrival to the PAUSE.
    reaction: Span,
    windows: WindowClock,
    ports: Box<[Port]>,
}

#[derive(Debug)]
struct Port {
    departures: CachePadded<Departures>,
    /// C·TC / K_spfc, in bytes. Relaxed: an independent number.
    victim_from: AtomicU64,
    rate: AtomicU64,
    headroom: Bytes,
    /// Whether the peer is a host, so that the port may lend headroom.
    is_to_host: bool,
    /// Duration of [`in_flight`], in picoseconds.
    in_flight: AtomicU64,
}

impl Spfc {
    /// Creates the policy; `None` if a window of TC carries more than [`WindowClock::BYTES_MAX`] at C.
    pub fn new(config: &SpfcConfig, context: &BuildContext<'_>) -> Option<Spfc> {
        let BuildContext { layout, rates, hosts, reaction, .. } = *context;
        let SpfcConfig { alpha, k_spfc, tc, victim_at, victim_memory } = *config;
        let port = |(n, rate): (usize, &BitRate)| {
            let headroom = layout.ports()[n].headroom_max();
            Some(Port {
                departures: CachePadded::default(),
                victim_from: AtomicU64::new(victim_from(*rate, k_spfc, tc)?),
                rate: AtomicU64::new(rate.as_bps()),
                headroom,
                is_to_host: hosts[n],
                in_flight: AtomicU64::new(in_flight(headroom, *rate, reaction).as_picos()),
            })
        };
        let ports = rates.iter().enumerate().map(port).collect::<Option<_>>()?;
        Some(Spfc {
            threshold: DynamicThreshold::new(alpha),
            k_spfc: AtomicU32::new(k_spfc),
            tc,
            victim_at,
            victim_memory,
            shared: layout.shared().get(),
            reaction,
            windows: WindowClock::new(tc),
            ports,
        })
    }

    fn k_spfc(&self) -> u32 {
        self.k_spfc.load(Ordering::Relaxed)
    }

    /// Threshold of IRC, C·TC / K_spfc: the minimum bytes that depart from a victim in a window.
    pub(crate) fn victim_bytes(rate: BitRate, k_spfc: u32, tc: Span) -> u64 {
        rate.bytes_in(tc).get().div_ceil(u64::from(k_spfc.max(1)))
    }

    /// Shared segment as it is without lent headroom, the B of normal ports.
    #[inline]
    fn without_loans(&self, pool: PoolLevel) -> PoolLevel {
        PoolLevel { capacity: self.shared, ..pool }
    }

    /// Returns whether the port's windows make it a victim; false from a PAUSE to its RESUME.
    #[inline]
    fn is_victim(&self, queue: &QueueView) -> bool {
        let port = &self.ports[queue.queue.port().index()];
        if queue.off || queue.port_off {
            return false;
        }
        let departed = match self.victim_at {
            VictimAt::Count => port.departures.in_last_window_or_this(self.windows, queue.now),
            VictimAt::WindowEnd => port.departures.in_last_window(self.windows, queue.now),
        };
        departed >= port.victim_from.load(Ordering::Relaxed)
    }
}

/// Byte count that makes a victim; `None` if a window carries more than the counter holds.
fn victim_from(rate: BitRate, k_spfc: u32, tc: Span) -> Option<u64> {
    let window = rate.bytes_in(tc).get();
    (window <= WindowClock::BYTES_MAX).then(|| Spfc::victim_bytes(rate, k_spfc, tc).max(1))
}

/// Maximum time after a PAUSE until all frames sent before it have arrived: the time in which the link fills the headroom, which holds
/// these frames, and the switch's own reaction, in which it polls the last of them.
fn in_flight(headroom: Bytes, rate: BitRate, reaction: Span) -> Span {
    rate.time_for(headroom) + reaction
}

impl BufferPolicy for Spfc {
    fn name(&self) -> &'static str {
        SpfcKind.id()
    }

    /// True: a victim stays one unless a queue goes OFF.
    fn has_non_increasing_thresholds(&self) -> bool {
        true
    }

    #[inline]
    fn threshold(&self, queue: &QueueView) -> Threshold {
        Threshold::new(if self.is_victim(queue) {
            queue.shared_pool.capacity
        } else {
            self.threshold.pool_threshold(self.without_loans(queue.shared_pool))
        })
    }

    fn lossy_threshold(&self, queue: &QueueView, alpha: Alpha) -> u64 {
        alpha.scale(Bytes::new(self.without_loans(queue.shared_pool).free())).get()
    }

    fn lends_headroom(&self) -> bool {
        self.victim_memory == VictimMemory::All
    }

    fn in_flight_time(&self, queue: QueueId) -> Option<Span> {
        let port = &self.ports[queue.port().index()];
        port.is_to_host.then(|| Span::from_picos(port.in_flight.load(Ordering::Relaxed)))
    }

    #[inline]
    fn on_release(&self, ingress: QueueId, bytes: u64, queue: &QueueView) {
        let port = &self.ports[ingress.port().index()];
        port.departures.add(self.windows, queue.now, bytes);
    }

    fn set_rate(&self, port: PortId, rate: PortRate) -> bool {
        let count = victim_from(rate.line, self.k_spfc(), self.tc);
        let own = &self.ports[port.index()];
        let set = |count| {
            own.rate.store(rate.line.as_bps(), Ordering::Relaxed);
            own.victim_from.store(count, Ordering::Relaxed);
            // Headroom stays as it is, so that a faster link does not end the wait sooner.
            let in_flight = in_flight(own.headroom, rate.line, self.reaction);
            own.in_flight.fetch_max(in_flight.as_picos(), Ordering::Relaxed);
        };
        count.map(set).is_some()
    }

    /// Re-evaluates each port's state: its window counts are compared with the new K_spfc.
    fn update_config(&self, config: &dyn BufferPolicyConfig, _layout: &BufferLayout) {
        let Some(SpfcConfig { alpha, k_spfc, .. }) = config.downcast() else { return };
        self.threshold.set_alpha(*alpha);
        self.k_spfc.store(*k_spfc, Ordering::Relaxed);
        for port in &self.ports {
            let rate = BitRate::bps(port.rate.load(Ordering::Relaxed));
            if let Some(count) = victim_from(rate, *k_spfc, self.tc) {
                port.victim_from.store(count, Ordering::Relaxed);
            }
        }
    }

    /// Steady state of normal ports: overloaded queues depart too slowly for their ports to be victims.
    fn steady_state(&self, load: &OverloadCase) -> SteadyState {
        self.threshold.steady_state(load)
    }

    fn describe(&self) -> Vec<String> {
        vec![
            format!(
                "SPFC (spfc IV-V): DT with α = {} for normal ports, {} for victims",
                self.threshold.alpha(),
                match self.victim_memory {
                    VictimMemory::Shared => "the whole shared buffer",
                    VictimMemory::All => "the whole shared buffer and the free headroom of paused queues",
                }
            ),
            format!(
                "victim: departs at C / K_spfc or more, K_spfc = {}, in windows of TC = {}; {}",
                self.k_spfc(),
                self.tc,
                match self.victim_at {
                    VictimAt::Count => "from the instant at which a window reaches the count",
                    VictimAt::WindowEnd => "from the end of a window that reaches the count",
                }
            ),
        ]
    }

    /// Describes the departure rate from which the port is a victim, and T of a victim without loans.
    fn describe_port(&self, rate: BitRate, shared: Bytes) -> Option<String> {
        let bytes = Spfc::victim_bytes(rate, self.k_spfc(), self.tc);
        let from = BitRate::bps(rate.as_bps().div_ceil(u64::from(self.k_spfc())));
        Some(format!(
            "is a victim when {} B or more depart in TC = {}, that is C/K_spfc = {from}; T of a victim: {} B{}",
            grouped(bytes),
            self.tc,
            grouped(shared.get()),
            match self.victim_memory {
                VictimMemory::Shared => "",
                VictimMemory::All => ", and lent headroom",
            }
        ))
    }

    fn gauges(&self, queue: &QueueView) -> Gauges {
        Gauges::new([(&VICTIM, u64::from(self.is_victim(queue)))])
    }
}

/// Gauge of the victim state of a port.
pub const VICTIM: Gauge = Gauge::new(
    "victim",
    Unit::State { on: "victim", off: "normal" },
    "port state",
    "SPFC: green while the port is in the victim state, as samples show it.",
)
.titled("Port states (SPFC)")
.of_port();

#[derive(Debug)]
pub(super) struct SpfcKind;

/// Settings of `[buffer.spfc]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpfcConfig {
    /// `alpha`: α of the normal ports.
    pub alpha: Alpha,
    /// `k_spfc`: a port is a victim from `C / K_spfc` on.
    pub k_spfc: u32,
    /// `tc`: TC, the window over which a port's departures are counted; 4 RTT or more.
    pub tc: Span,
    /// `victim_at`: instant at which a window's count makes the port a victim.
    pub victim_at: VictimAt,
    /// `victim_memory`: memory that a victim may fill before it is paused.
    pub victim_memory: VictimMemory,
}

/// Memory that a victim may fill before it is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VictimMemory {
    /// Shared segment.
    Shared,
    /// Shared segment, and the free headroom of OFF queues of ports to hosts after their in-flight time, which they lend
    /// ([`BufferPolicy::lends_headroom`]). Their RESUME waits until it is back.
    All,
}

/// Instant at which a window of TC with the required count makes the port a victim. The state holds until the next window ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VictimAt {
    /// Instant at which the count is reached, as the output of IRC (spfc V-A).
    Count,
    /// End of the window: up to a window later.
    WindowEnd,
}

/// Key of α of ports that are no victims.
const ALPHA_OF_OTHERS: Key<Alpha> = ALPHA.with_help("α: factor of the thresholds of ports that are no victims");
const K_SPFC: Key<u32> =
    Key::<u32>::integer("k_spfc", 1..=64, "K_spfc: a port is a victim from C/K_spfc on; 1: almost none, as under DT")
        .or("5")
        .live();
const TC: Key<Span> = Key::time(
    "tc",
    Span::from_micros(1)..=Span::from_secs(1),
    "TC: window in which a port's departures are counted; at least 4 RTT",
)
.or("80us");
const VICTIM_AT: Key<VictimAt> = Key::choice(
    "victim_at",
    &[("count", VictimAt::Count), ("window-end", VictimAt::WindowEnd)],
    "instant from which a port is a victim, until the next window ends: when its count of departures is reached, as \
     in the circuit of spfc V-A, or at the window's end, up to TC later",
)
.or("count");

const VICTIM_MEMORY: Key<VictimMemory> = Key::choice(
    "victim_memory",
    &[("shared", VictimMemory::Shared), ("all", VictimMemory::All)],
    "memory that a victim may fill before it is paused: the shared buffer, or also the free headroom of paused queues \
     at ports to hosts (`peer`), lent at the latest instant at which frames sent before the PAUSE arrive: Φ / C and the reaction after Xoff. Such a \
     queue resumes only when its headroom is back, so the host may wait for the victims' egress ports. A host that \
     forgets the PAUSE, as by a link failure, may lose frames. No effect without ports to hosts",
)
.or("shared");

impl Plugin for SpfcKind {
    fn id(&self) -> &'static str {
        "spfc"
    }

    fn keys(&self) -> Keys {
        &[&ALPHA_OF_OTHERS, &K_SPFC, &TC, &VICTIM_AT, &VICTIM_MEMORY]
    }

    fn gauges(&self) -> &'static [Gauge] {
        &[VICTIM]
    }
}

impl BufferPolicyKind for SpfcKind {
    fn parse(&self, table: &Table<'_>) -> Arc<dyn BufferPolicyConfig> {
        Arc::new(SpfcConfig {
            alpha: table.get(&ALPHA_OF_OTHERS),
            k_spfc: table.get(&K_SPFC),
            tc: table.get(&TC),
            victim_at: table.get(&VICTIM_AT),
            victim_memory: table.get(&VICTIM_MEMORY),
        })
    }
}

impl BufferPolicyConfig for SpfcConfig {
    fn kind(&self) -> &'static dyn BufferPolicyKind {
        &SpfcKind
    }

    fn layout_requirements(&self) -> LayoutRequirements {
        LayoutRequirements::PER_QUEUE
    }

    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn BufferPolicy>, PolicyError> {
        match Spfc::new(self, context) {
            Some(spfc) => Ok(Box::new(spfc)),
            None => Err(PolicyError::window(&TC, context.rates)),
        }
    }

    fn window_key(&self) -> Option<&'static Key<Span>> {
        Some(&TC)
    }
}

/// Formats a number with thousands separators: `20,000`.
fn grouped(n: u64) -> String {
    if n < 1_000 { n.to_string() } else { format!("{},{:03}", grouped(n / 1_000), n % 1_000) }
}

/// Bounds, both excluded, of the K_spfc that separate victims from burst ports in the fluid model: `N+1 > K > (N+1) / ((1−ε)(N+1) + 1)`,
/// for N burst ports and a share ε of congested traffic at the victim (spfc, appendix A).
pub fn k_spfc_bounds(burst_ports: u32, congested_share: f64) -> (f64, f64) {
    let ports = f64::from(burst_ports) + 1.0;
    (ports / ((1.0 - congested_share) * ports + 1.0), ports)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::layout::PortLayout;
    use crate::policy::tests::view;
    use weir_units::{Class, PortId, Time};

    const QUEUE: QueueId = QueueId::new(PortId(0), Class::new(3));
    const SHARED: u64 = 1_000_000;
    /// Bytes of C·TC at 10 Gb/s over 80 us.
    const WINDOW_BYTES: u64 = 100_000;

    fn config(victim_at: VictimAt) -> SpfcConfig {
        SpfcConfig {
            alpha: Alpha::ONE,
            k_spfc: 5,
            tc: Span::from_micros(80),
            victim_at,
            victim_memory: VictimMemory::Shared,
        }
    }

    fn build(config: &SpfcConfig, rates: &[BitRate]) -> Option<Spfc> {
        let ports = vec![PortLayout::default(); rates.len()];
        build_over(config, Bytes::new(SHARED), ports, rates, &vec![false; rates.len()], Span::ZERO)
    }

    fn build_over(
        config: &SpfcConfig,
        size: Bytes,
        ports: Vec<PortLayout>,
        rates: &[BitRate],
        hosts: &[bool],
        reaction: Span,
    ) -> Option<Spfc> {
        let layout = &LayoutRequirements::PER_QUEUE.partition(size, ports).unwrap();
        let (frame_max, xon_offset) = (Bytes::new(1_522), Bytes::ZERO);
        let fill_rates = rates;
        Spfc::new(
            config,
            &BuildContext { layout, rates, alphas: &[], hosts, fill_rates, frame_max, xon_offset, reaction },
        )
    }

    fn spfc(victim_at: VictimAt) -> Spfc {
        build(&config(victim_at), &[BitRate::gbps(10); 2]).unwrap()
    }

    fn both() -> [Spfc; 2] {
        [VictimAt::Count, VictimAt::WindowEnd].map(spfc)
    }

    fn at(us: u64, off: bool, port_off: bool) -> QueueView {
        QueueView { off, port_off, now: Time::from_nanos(us * 1_000), ..view(0, SHARED, SHARED / 2) }
    }

    fn depart(spfc: &Spfc, us: u64, bytes: u64) {
        spfc.on_release(QUEUE, bytes, &at(us, false, false));
    }

    const VICTIM: Threshold = Threshold { admit: SHARED, xoff: SHARED };
    const NORMAL: Threshold = Threshold { admit: SHARED / 2, xoff: SHARED / 2 };

    #[test]
    fn starts_normal() {
        for spfc in both() {
            assert_eq!(spfc.threshold(&at(0, false, false)), NORMAL);
        }
    }

    #[test]
    fn by_the_windows_end_a_fast_window_makes_a_victim_when_it_has_ended() {
        let spfc = spfc(VictimAt::WindowEnd);
        depart(&spfc, 10, WINDOW_BYTES / 5);
        assert_eq!(spfc.threshold(&at(79, false, false)), NORMAL, "TC has not run out");
        assert_eq!(spfc.threshold(&at(80, false, false)), VICTIM);
        assert_eq!(spfc.threshold(&at(159, false, false)), VICTIM, "SH holds the last window's verdict");
    }

    #[test]
    fn by_the_count_a_victim_is_one_as_soon_as_it_is_reached_and_until_the_next_window_ends() {
        let spfc = spfc(VictimAt::Count);
        depart(&spfc, 10, WINDOW_BYTES / 5 - 1);
        assert_eq!(spfc.threshold(&at(10, false, false)), NORMAL);
        depart(&spfc, 20, 1);
        assert_eq!(spfc.threshold(&at(20, false, false)), VICTIM);
        assert_eq!(spfc.threshold(&at(30, true, true)), NORMAL, "reset by a PAUSE");
        assert_eq!(spfc.threshold(&at(159, false, false)), VICTIM, "SH holds the verdict when IRC is cleared");
        assert_eq!(spfc.threshold(&at(160, false, false)), NORMAL);
    }

    #[test]
    fn one_byte_below_the_count_is_normal() {
        for spfc in both() {
            depart(&spfc, 10, WINDOW_BYTES / 5 - 1);
            assert_eq!(spfc.threshold(&at(80, false, false)), NORMAL);
        }
    }

    #[test]
    fn a_slow_window_ends_the_victim_state() {
        for spfc in both() {
            depart(&spfc, 10, WINDOW_BYTES);
            depart(&spfc, 90, WINDOW_BYTES / 5 - 1);
            assert_eq!(spfc.threshold(&at(100, false, false)), VICTIM);
            assert_eq!(spfc.threshold(&at(160, false, false)), NORMAL);
        }
    }

    #[test]
    fn reset_from_pause_to_resume_whatever_departs() {
        for spfc in both() {
            depart(&spfc, 10, WINDOW_BYTES);
            assert_eq!(spfc.threshold(&at(80, true, true)), NORMAL, "this queue is OFF");
            assert_eq!(spfc.threshold(&at(80, false, true)), NORMAL, "another queue of the port is OFF");
            depart(&spfc, 90, WINDOW_BYTES);
            assert_eq!(spfc.threshold(&at(170, true, true)), NORMAL);
            assert_eq!(spfc.threshold(&at(170, false, false)), VICTIM, "after RESUME the held verdict counts again");
        }
    }

    #[test]
    fn the_count_follows_the_ports_rate() {
        for spfc in both() {
            let rate = |gbps| PortRate { line: BitRate::gbps(gbps), fill: BitRate::gbps(gbps) };
            depart(&spfc, 10, WINDOW_BYTES / 50);
            assert_eq!(spfc.threshold(&at(80, false, false)), NORMAL, "a fiftieth of 10 Gb/s");
            assert!(spfc.set_rate(PortId(0), rate(1)));
            assert_eq!(spfc.threshold(&at(80, false, false)), VICTIM, "a fifth of 1 Gb/s");
            assert!(spfc.set_rate(PortId(1), rate(25)) && spfc.set_rate(PortId(0), rate(10)));
            assert_eq!(spfc.threshold(&at(80, false, false)), NORMAL);
            assert!(!spfc.set_rate(PortId(0), rate(10_000)), "100 MB a window can't be counted");
            depart(&spfc, 90, WINDOW_BYTES / 5);
            assert_eq!(spfc.threshold(&at(160, false, false)), VICTIM, "it goes on with 10 Gb/s");
        }
    }

    #[test]
    fn other_ports_departures_do_not_count() {
        for spfc in both() {
            depart(&spfc, 10, WINDOW_BYTES);
            let other = QueueView { queue: QueueId::new(PortId(1), QUEUE.class()), ..at(80, false, false) };
            assert_eq!(spfc.threshold(&other), NORMAL);
        }
    }

    #[test]
    fn only_victims_may_fill_lent_headroom() {
        let config = SpfcConfig { victim_memory: VictimMemory::All, ..config(VictimAt::Count) };
        let spfc = build(&config, &[BitRate::gbps(10); 2]).unwrap();
        let lent =
            |used| QueueView { shared_pool: PoolLevel { capacity: SHARED + 200_000, used }, ..at(20, false, false) };
        assert_eq!(spfc.threshold(&lent(SHARED / 2)), NORMAL, "of the shared segment without loans");
        assert_eq!(spfc.threshold(&lent(SHARED + 100_000)), Threshold::new(0));
        assert_eq!(spfc.lossy_threshold(&lent(SHARED + 100_000), Alpha::ONE), 0);
        depart(&spfc, 10, WINDOW_BYTES / 5);
        assert_eq!(spfc.threshold(&lent(SHARED + 100_000)), Threshold::new(SHARED + 200_000));
    }

    #[test]
    fn ports_to_hosts_lend_when_the_link_has_filled_their_headroom() {
        let rates = [BitRate::gbps(10); 2];
        let port =
            PortLayout { headroom: [Bytes::kb(50); 8], lossless: QUEUE.class().alone(), ..PortLayout::default() };
        let build = |victim_memory| {
            let config = SpfcConfig { victim_memory, ..config(VictimAt::Count) };
            let ports = vec![port; 2];
            build_over(&config, Bytes::mb(2), ports, &rates, &[true, false], Span::from_micros(5)).unwrap()
        };
        let spfc = build(VictimMemory::All);
        assert!(spfc.lends_headroom() && !build(VictimMemory::Shared).lends_headroom());
        assert_eq!(spfc.in_flight_time(QUEUE), Some(Span::from_micros(40 + 5)));
        assert_eq!(spfc.in_flight_time(QueueId::new(PortId(1), QUEUE.class())), None, "a switch may wait for others");
        for (gbps, micros) in [(20, 40), (5, 80)] {
            let rate = BitRate::gbps(gbps);
            assert!(spfc.set_rate(PortId(0), PortRate { line: rate, fill: rate }));
            assert_eq!(spfc.in_flight_time(QUEUE), Some(Span::from_micros(micros + 5)), "headroom stays as it is");
        }
    }

    #[test]
    fn a_window_must_be_countable() {
        let long = SpfcConfig { tc: Span::from_millis(100), ..config(VictimAt::Count) };
        assert!(build(&long, &[BitRate::gbps(100)]).is_none());
    }

    #[test]
    fn the_bounds_of_k() {
        // Misjudged if N < K − 1.
        assert!(k_spfc_bounds(3, 0.5).1 < 5.0 && k_spfc_bounds(4, 0.5).1 <= 5.0 && k_spfc_bounds(5, 0.5).1 > 5.0);
        // Misjudged if ε > 1 − 1/K + 1/(N+1): 0.8 + 1/(N+1) at K = 5.
        for n in [9, 24, 29] {
            let limit = 0.8 + 1.0 / f64::from(n + 1);
            assert!(k_spfc_bounds(n, limit - 0.001).0 < 5.0, "N = {n}");
            assert!(k_spfc_bounds(n, limit + 0.001).0 > 5.0, "N = {n}");
        }
    }
}
