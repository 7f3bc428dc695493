//! ECN marking by the egress queue's length (RED-like for DCQCN, a step for DCTCP).

use weir_units::{BitRate, Bytes};

/// ECN marker: never marks up to K_min, always marks above K_max, and marks between them with a probability that rises linearly from 0 to
/// P_max. K_min = K_max is DCTCP's step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnMarker {
    kmin: u64,
    kmax: u64,
    /// Probability per byte above K_min, times 2^32 (the range of the random number) and 2^16 more.
    slope_q48: u64,
    /// Whether the thresholds are those of a port of [`EcnMarker::REFERENCE`], to be scaled by rate.
    is_by_rate: bool,
    marks_at_enqueue: bool,
}

impl EcnMarker {
    /// Creates a marker; P_max is in millionths, at most 1,000,000.
    ///
    /// # Panics
    /// If K_min exceeds K_max or P_max exceeds one.
    pub fn new(kmin: Bytes, kmax: Bytes, pmax_ppm: u32) -> EcnMarker {
        assert!(kmin <= kmax, "K_min must not exceed K_max");
        assert!(pmax_ppm <= 1_000_000, "P_max is a probability");
        let range = (kmax.get() - kmin.get()).max(1);
        let slope_q48 = (u128::from(pmax_ppm) << 48) / 1_000_000 / u128::from(range);
        EcnMarker {
            kmin: kmin.get(),
            kmax: kmax.get(),
            slope_q48: slope_q48 as u64,
            is_by_rate: false,
            marks_at_enqueue: false,
        }
    }

    /// Reference rate of thresholds in proportion to a port's rate.
    const REFERENCE: BitRate = BitRate::gbps(100);

    /// Creates a marker whose thresholds apply to ports of `at_rate` and scale with the rate of others.
    ///
    /// # Panics
    /// Those of [`EcnMarker::new`].
    pub fn at_rate(kmin: Bytes, kmax: Bytes, pmax_ppm: u32, at_rate: BitRate) -> EcnMarker {
        let scaled = |threshold: Bytes| {
            let bytes = u128::from(threshold.get()) * u128::from(Self::REFERENCE.as_bps());
            Bytes::new((bytes / u128::from(at_rate.as_bps().max(1))).min(1 << 40) as u64)
        };
        EcnMarker { is_by_rate: true, ..EcnMarker::new(scaled(kmin), scaled(kmax), pmax_ppm) }
    }

    /// Sets marking at enqueue instead of dequeue.
    #[must_use]
    pub fn at_enqueue(self) -> EcnMarker {
        EcnMarker { marks_at_enqueue: true, ..self }
    }

    /// Returns whether frames are marked at enqueue.
    #[inline]
    pub fn marks_at_enqueue(&self) -> bool {
        self.marks_at_enqueue
    }

    /// Scale of a port of this rate, for [`EcnMarker::marks_on`].
    pub fn scale_of(rate: BitRate) -> u64 {
        let scale = (u128::from(Self::REFERENCE.as_bps()) << 16) / u128::from(rate.as_bps().max(1));
        scale.clamp(1, 1 << 32) as u64
    }

    /// Returns whether [`EcnMarker::marks`] holds on a port with this [scale](EcnMarker::scale_of).
    #[inline]
    pub fn marks_on(&self, scale: u64, length: u64, random: u32) -> bool {
        self.marks(self.scaled(scale, length), random)
    }

    /// Returns whether [`EcnMarker::marks_on`] holds for any random number: the length exceeds K_min.
    #[inline]
    pub fn may_mark_on(&self, scale: u64, length: u64) -> bool {
        self.scaled(scale, length) > self.kmin
    }

    #[inline]
    fn scaled(&self, scale: u64, length: u64) -> u64 {
        // A queue is below 2^31 B, so the product fits.
        if self.is_by_rate { (length * scale) >> 16 } else { length }
    }

    /// Returns whether to mark a packet at an egress queue of `length` bytes, itself included; `random` is uniform.
    #[inline]
    pub fn marks(&self, length: u64, random: u32) -> bool {
        if length > self.kmax {
            true
        } else if length <= self.kmin {
            false
        } else {
            // Below 2^48 · range / range, so the product fits.
            u64::from(random) << 16 < (length - self.kmin) * self.slope_q48
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_ramp_is_linear() {
        let marker = EcnMarker::new(Bytes::kb(100), Bytes::kb(400), 200_000);
        let share = |length| {
            let marked = (0..100_000u64).filter(|i| marker.marks(length, (i * (1u64 << 32) / 100_000) as u32)).count();
            marked as f64 / 100_000.0
        };
        assert_eq!(share(100_000), 0.0);
        assert!((share(250_000) - 0.1).abs() < 1e-3);
        assert!((share(400_000) - 0.2).abs() < 1e-3);
        assert_eq!(share(400_001), 1.0);
    }

    #[test]
    fn thresholds_follow_a_ports_rate() {
        let marker = EcnMarker::at_rate(Bytes::kb(100), Bytes::kb(100), 1_000_000, BitRate::gbps(25));
        for (gbps, kb) in [(25, 100), (100, 400), (400, 1_600), (10, 40)] {
            let marks = |length: u64| marker.marks_on(EcnMarker::scale_of(BitRate::gbps(gbps)), length, 0);
            // Tolerance: the loss by a scale of 16 digits.
            assert!(!marks(kb * 1_000) && marks(kb * 1_000 + 40), "{gbps} Gb/s");
        }
        let fixed = EcnMarker::new(Bytes::kb(100), Bytes::kb(100), 1_000_000);
        assert!(fixed.marks_on(1, 100_001, 0) && !fixed.marks_on(1 << 20, 100_000, 0));
    }

    #[test]
    fn equal_bounds_are_a_step() {
        let marker = EcnMarker::new(Bytes::kb(30), Bytes::kb(30), 1_000_000);
        assert!(!marker.marks(30_000, 0));
        assert!(marker.marks(30_001, u32::MAX));
    }
}
