//! Estimate φ̂ of the headroom that a queue will need, from its growth (dsh IV-C, Algorithms 2 and 3).
//!
//! All arithmetic is in integers: a gradient is in units of 2^-20 bytes per nanosecond. The estimate has an exact form and a form for chips
//! that neither multiply nor divide.

use weir_units::{Alpha, BitRate, Bytes, PortId, QueueId, Span, Time};

use super::{PortWriter, QueueRegisters};
use crate::sync::{AtomicU64, Ordering};

/// Estimator of φ̂ for every lossless ingress queue, updated by the lcore that admits its packets.
#[derive(Debug)]
pub struct HeadroomEstimator {
    form: EstimatorForm,
    ports: Box<[LinkParameters]>,
    queues: QueueRegisters<REGISTERS>,
}

/// Arithmetic of the estimate.
#[derive(Clone, Debug)]
pub enum EstimatorForm {
    /// Algorithm 2: division and multiplication.
    Exact {
        /// Weight of the newest gradient, w_g.
        w_g: Alpha,
        /// Weight of the newest deviation, w_v.
        w_v: Alpha,
        /// Number of deviations added to the mean.
        k: u32,
    },
    /// Algorithm 3 and Fig. 12: logarithms and powers from tables, shifts, and steps for φ̂.
    Table {
        /// Shift n of w_g = 2^-n.
        w_g_shift: u32,
        /// Shift n of w_v = 2^-n.
        w_v_shift: u32,
        /// Shift n of k = 2^n; `None` is k = 0.
        k_shift: Option<u32>,
        /// Tables of logarithms and powers.
        tables: Box<LogTables>,
    },
}

/// Logarithms and powers of two.
#[derive(Clone, Debug)]
pub struct LogTables {
    /// `log2(1 + n / 64)` in units of 2^-10.
    logarithm: [u16; 64],
    /// `2^(n / 64)` in units of 2^-16.
    power: [u32; 64],
}

#[derive(Debug)]
struct LinkParameters {
    /// C, as a gradient. Relaxed, as are the steps: while C changes, an estimate uses either value.
    rate: AtomicU64,
    /// Φ, the worst case: growth at C until a PAUSE takes effect, D = Φ / C.
    headroom: u64,
    /// Upper gradient of each step of Fig. 12, and φ̂ on that step.
    steps: [(AtomicU64, u64); STEPS],
}

const FRACTION_BITS: u32 = 20;
const STEPS: usize = 32;

const REGISTERS: usize = 5;
const LAST_AT: usize = 0;
const LAST_LENGTH: usize = 1;
const MEAN: usize = 2;
const DEVIATION: usize = 3;
const ESTIMATE: usize = 4;
/// Value of `LAST_AT` before the first arrival.
const NEVER: u64 = u64::MAX;

impl HeadroomEstimator {
    /// Creates an estimator for ports of these rates and worst-case headrooms Φ.
    pub fn new(form: EstimatorForm, ports: &[(BitRate, Bytes)]) -> HeadroomEstimator {
        HeadroomEstimator {
            form,
            ports: ports.iter().map(|(rate, headroom)| LinkParameters::new(*rate, *headroom)).collect(),
            queues: QueueRegisters::new(ports.len(), [NEVER, 0, 0, 0, 0]),
        }
    }

    /// Sets the rate of a port's link. Φ stays.
    pub fn set_rate(&self, port: PortId, rate: BitRate) {
        self.ports[port.index()].set_rate(rate);
    }

    /// Records an arrival after which the queue is `length` bytes long.
    ///
    /// Packets of a burst arrive at one instant and count as one arrival, because a gradient needs elapsed time.
    #[inline]
    pub fn on_arrival(&self, writer: &mut PortWriter, queue: QueueId, now: Time, length: u64) {
        let (last_at, last_length) = (self.queues.get(queue, LAST_AT), self.queues.get(queue, LAST_LENGTH));
        if last_at != NEVER {
            let elapsed = now.since(Time::from_picos(last_at));
            if elapsed == Span::ZERO {
                return;
            }
            self.step(writer, queue, length as i64 - last_length as i64, elapsed);
        }
        self.queues.set(writer, queue.class(), LAST_AT, now.as_picos());
        self.queues.set(writer, queue.class(), LAST_LENGTH, length);
    }

    /// Estimate φ̂ in bytes, from 0 to Φ.
    #[inline]
    pub fn estimate(&self, queue: QueueId) -> u64 {
        self.queues.get(queue, ESTIMATE)
    }

    fn step(&self, writer: &mut PortWriter, queue: QueueId, grown: i64, elapsed: Span) {
        let link = &self.ports[queue.port().index()];
        let mean = self.queues.get(queue, MEAN) as i64;
        let deviation = self.queues.get(queue, DEVIATION) as i64;
        let (mean, deviation, estimate) = self.form.step(link, mean, deviation, grown, elapsed);
        self.queues.set(writer, queue.class(), MEAN, mean as u64);
        self.queues.set(writer, queue.class(), DEVIATION, deviation as u64);
        self.queues.set(writer, queue.class(), ESTIMATE, estimate);
    }
}

impl EstimatorForm {
    /// Creates the exact form.
    pub fn exact(w_g: Alpha, w_v: Alpha, k: u32) -> EstimatorForm {
        EstimatorForm::Exact { w_g, w_v, k }
    }

    /// Creates the form with shifts and tables; `None` if w_g or w_v is not 2^-n, or k neither 2^n nor 0.
    pub fn table(w_g: Alpha, w_v: Alpha, k: u32) -> Option<EstimatorForm> {
        let shift = |weight: Alpha| (0..=16).find(|shift| Alpha::ratio(1, 1 << shift) == Ok(weight));
        let k_shift = (k != 0).then(|| k.ilog2());
        if !k.is_power_of_two() && k != 0 {
            return None;
        }
        Some(EstimatorForm::Table {
            w_g_shift: shift(w_g)?,
            w_v_shift: shift(w_v)?,
            k_shift,
            tables: Box::new(LogTables::new()),
        })
    }

    /// Computes the next mean gradient, mean deviation and φ̂ of a queue that grew by `grown` bytes in `elapsed`.
    fn step(&self, link: &LinkParameters, mean: i64, deviation: i64, grown: i64, elapsed: Span) -> (i64, i64, u64) {
        match self {
            EstimatorForm::Exact { w_g, w_v, k } => {
                let gradient = link.bounded(exact_gradient(grown, elapsed));
                let off = (mean - gradient).abs();
                let mean = mean + scaled(*w_g, gradient - mean);
                let deviation = deviation + scaled(*w_v, off - deviation);
                let rate = link.rate();
                let estimate = (mean + i64::from(*k) * deviation).clamp(0, rate);
                (mean, deviation, estimate as u64 * link.headroom / rate.max(1) as u64)
            }
            EstimatorForm::Table { w_g_shift, w_v_shift, k_shift, tables } => {
                let gradient = link.bounded(tables.gradient(grown, elapsed));
                let off = (mean - gradient).abs();
                // Algorithm 3, line 4 reads `g_avg - w_g·v`; v there must be the signed difference, as in equation 5.
                let mean = mean + ((gradient - mean) >> w_g_shift);
                let deviation = deviation + ((off - deviation) >> w_v_shift);
                let estimate = mean + k_shift.map_or(0, |shift| deviation << shift);
                (mean, deviation, link.by_steps(estimate))
            }
        }
    }
}

fn exact_gradient(grown: i64, elapsed: Span) -> i64 {
    ((grown * 1_000) << FRACTION_BITS) / elapsed.as_picos().clamp(1, i64::MAX as u64) as i64
}

#[inline]
fn scaled(weight: Alpha, value: i64) -> i64 {
    let size = weight.scale(Bytes::new(value.unsigned_abs())).get() as i64;
    if value < 0 { -size } else { size }
}

impl LogTables {
    fn new() -> LogTables {
        let part = |n: usize| n as f64 / 64.0;
        LogTables {
            logarithm: std::array::from_fn(|n| ((1.0 + part(n)).log2() * 1_024.0).round() as u16),
            power: std::array::from_fn(|n| (part(n).exp2() * 65_536.0).round() as u32),
        }
    }

    /// Gradient `2^(log2 Δq − log2 Δt)`, with the sign of Δq.
    fn gradient(&self, grown: i64, elapsed: Span) -> i64 {
        /// Logarithm log2(1000 · 2^20): from bytes per picosecond to the unit of gradients.
        const UNIT: i64 = 30_685;
        if grown == 0 {
            return 0;
        }
        let exponent = self.log2(grown.unsigned_abs()) - self.log2(elapsed.as_picos().max(1)) + UNIT;
        let size = self.exp2(exponent);
        if grown < 0 { -size } else { size }
    }

    /// Base-2 logarithm in units of 2^-10.
    fn log2(&self, value: u64) -> i64 {
        let exponent = value.ilog2();
        // The six bits below the leading one; lower bits are dropped.
        let mantissa = if exponent >= 6 { value >> (exponent - 6) } else { value << (6 - exponent) };
        i64::from(exponent) << 10 | i64::from(self.logarithm[(mantissa & 63) as usize])
    }

    fn exp2(&self, exponent: i64) -> i64 {
        let (integer, part) = (exponent >> 10, (exponent & 1_023) >> 4);
        let power = i64::from(self.power[part as usize]);
        match integer {
            16..=46 => power << (integer - 16),
            -16..=15 => power >> (16 - integer),
            ..=-17 => 0,
            _ => i64::MAX >> 8,
        }
    }
}

impl LinkParameters {
    fn new(rate: BitRate, headroom: Bytes) -> LinkParameters {
        let headroom = headroom.get();
        let steps = std::array::from_fn(|n| (AtomicU64::new(0), (headroom * (n as u64 + 1)).div_ceil(STEPS as u64)));
        let link = LinkParameters { rate: AtomicU64::new(0), headroom, steps };
        link.set_rate(rate);
        link
    }

    fn set_rate(&self, rate: BitRate) {
        let scale = 8u128 * 1_000_000_000;
        // Every gradient fits an i64.
        let rate = ((u128::from(rate.as_bps()) << FRACTION_BITS) / scale).max(1) as u64;
        self.rate.store(rate, Ordering::Relaxed);
        for ((end, _), n) in self.steps.iter().zip(1..) {
            end.store(rate * n / STEPS as u64, Ordering::Relaxed);
        }
    }

    #[inline]
    fn rate(&self) -> i64 {
        self.rate.load(Ordering::Relaxed) as i64
    }

    /// Caps a gradient at the link's rate, which polling may make it exceed.
    #[inline]
    fn bounded(&self, gradient: i64) -> i64 {
        gradient.min(self.rate())
    }

    /// Estimate φ̂ by Fig. 12: zero for a queue that does not grow, otherwise that of the first step not exceeded.
    fn by_steps(&self, gradient: i64) -> u64 {
        if gradient <= 0 {
            return 0;
        }
        let step = self.steps.partition_point(|(end, _)| (end.load(Ordering::Relaxed) as i64) < gradient);
        self.steps.get(step).map_or(self.headroom, |(_, headroom)| *headroom)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use weir_units::{Class, PortId};

    const CLASS: Class = Class::new(3);
    const PHI: Bytes = Bytes::new(56_840);

    fn quarter() -> Alpha {
        "1/4".parse().unwrap()
    }

    fn estimator(form: EstimatorForm) -> (HeadroomEstimator, PortWriter) {
        (HeadroomEstimator::new(form, &[(BitRate::gbps(100), PHI)]), PortWriter::new(PortId(0)))
    }

    /// Algorithm 2 in floating point, for queue lengths at intervals of `step`.
    fn reference(lengths: &[u64], step: Span) -> f64 {
        let (mut mean, mut deviation) = (0.0, 0.0f64);
        let rate = 12.5;
        let mut estimate = 0.0;
        for pair in lengths.windows(2) {
            let g = ((pair[1] as f64 - pair[0] as f64) * 1_000.0 / step.as_picos() as f64).min(rate);
            let v = (mean - g).abs();
            mean += 0.25 * (g - mean);
            deviation += 0.25 * (v - deviation);
            estimate = ((mean + 4.0 * deviation) / rate).clamp(0.0, 1.0) * PHI.get() as f64;
        }
        estimate
    }

    fn run(form: EstimatorForm, lengths: &[u64], step: Span) -> u64 {
        let (estimator, mut writer) = estimator(form);
        let queue = QueueId::new(PortId(0), CLASS);
        let mut now = Time::ZERO;
        for length in lengths {
            estimator.on_arrival(&mut writer, queue, now, *length);
            now += step;
        }
        estimator.estimate(queue)
    }

    /// Queues that grow at all rates, shrink, and oscillate.
    fn histories() -> impl Iterator<Item = Vec<u64>> {
        let ramps = (0..40u64).map(|n| (0..60).map(|step| step * n * 40).collect::<Vec<_>>());
        let falls = (1..20u64).map(|n| (0..60).map(|step| 200_000 - step * n * 50).collect::<Vec<_>>());
        let swings = (1..30u64).map(|n| {
            (0..200u64).map(|step| 100_000 + (step * 7_919 * n) % (n * 300) + step * n * 3).collect::<Vec<_>>()
        });
        ramps.chain(falls).chain(swings)
    }

    #[test]
    fn the_exact_form_is_algorithm_2() {
        let step = Span::from_nanos(123);
        for lengths in histories() {
            for end in [2, 5, lengths.len()] {
                let is = run(EstimatorForm::exact(quarter(), quarter(), 4), &lengths[..end], step);
                let expected = reference(&lengths[..end], step);
                assert!((is as f64 - expected).abs() <= 2.0 + expected * 1e-4, "{is} for {expected}");
            }
        }
    }

    #[test]
    fn the_table_form_is_near_the_exact_one() {
        // Tolerance: a step of Fig. 12, and the loss of six bits of a logarithm on one gradient, three times the deviation's share.
        let allowed = PHI.get() / STEPS as u64 + PHI.get() * 6 / 100;
        let step = Span::from_nanos(123);
        let mut worst = 0;
        for lengths in histories() {
            for end in [2, 5, lengths.len()] {
                let exact = run(EstimatorForm::exact(quarter(), quarter(), 4), &lengths[..end], step);
                let table = run(EstimatorForm::table(quarter(), quarter(), 4).unwrap(), &lengths[..end], step);
                worst = worst.max(exact.abs_diff(table));
            }
        }
        assert!(worst <= allowed, "{worst} B apart, {allowed} B allowed");
        assert!(worst > 0, "two forms that never differ are one");
    }

    #[test]
    fn growth_at_line_rate_needs_the_worst_case() {
        // 1,538 bytes every 123 ns is 100 Gb/s.
        let lengths: Vec<u64> = (0..100).map(|n| n * 1_538).collect();
        for form in
            [EstimatorForm::exact(quarter(), quarter(), 0), EstimatorForm::table(quarter(), quarter(), 0).unwrap()]
        {
            let estimate = run(form, &lengths, Span::from_nanos(123));
            assert!(estimate.abs_diff(PHI.get()) <= PHI.get() / 25, "{estimate}");
        }
    }

    #[test]
    fn another_rate_makes_another_worst_case() {
        let queue = QueueId::new(PortId(0), CLASS);
        for form in
            [EstimatorForm::exact(quarter(), quarter(), 0), EstimatorForm::table(quarter(), quarter(), 0).unwrap()]
        {
            let (estimator, mut writer) = estimator(form);
            let (mut now, mut length) = (Time::ZERO, 0);
            // 1,538 bytes every 1,230 ns are 10 Gb/s.
            let mut grow = |estimator: &HeadroomEstimator| {
                for _ in 0..100 {
                    (now, length) = (now + Span::from_nanos(1_230), length + 1_538);
                    estimator.on_arrival(&mut writer, queue, now, length);
                }
                estimator.estimate(queue)
            };
            let of_100 = grow(&estimator);
            assert!(of_100.abs_diff(PHI.get() / 10) <= PHI.get() / 25, "{of_100}");
            estimator.set_rate(PortId(0), BitRate::gbps(10));
            assert!(grow(&estimator).abs_diff(PHI.get()) <= PHI.get() / 25);
            estimator.set_rate(PortId(0), BitRate::gbps(100));
            assert_eq!(grow(&estimator), of_100);
        }
    }

    #[test]
    fn a_queue_that_stays_needs_none() {
        let lengths = [5_000; 100];
        for form in
            [EstimatorForm::exact(quarter(), quarter(), 4), EstimatorForm::table(quarter(), quarter(), 4).unwrap()]
        {
            assert_eq!(run(form, &lengths, Span::from_nanos(123)), 0);
        }
    }

    #[test]
    fn a_burst_at_one_instant_is_one_arrival() {
        let (estimator, mut writer) = estimator(EstimatorForm::exact(quarter(), quarter(), 4));
        let queue = QueueId::new(PortId(0), CLASS);
        estimator.on_arrival(&mut writer, queue, Time::ZERO, 1_000);
        estimator.on_arrival(&mut writer, queue, Time::ZERO, 9_000);
        assert_eq!(estimator.estimate(queue), 0);
        // The growth within the burst counts at the next arrival.
        estimator.on_arrival(&mut writer, queue, Time::from_nanos(1_000), 1_000);
        assert_eq!(estimator.estimate(queue), 0);
        estimator.on_arrival(&mut writer, queue, Time::from_nanos(2_000), 6_000);
        assert!(estimator.estimate(queue) > 0);
    }

    #[test]
    fn shifts_must_be_shifts() {
        assert!(EstimatorForm::table("1/3".parse().unwrap(), quarter(), 4).is_none());
        assert!(EstimatorForm::table(quarter(), quarter(), 3).is_none());
        assert!(EstimatorForm::table(quarter(), Alpha::ONE, 0).is_some());
    }
}
