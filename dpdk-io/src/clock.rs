//! Time from the time-stamp counter, calibrated against `CLOCK_MONOTONIC`.

use std::time::Duration;

/// Picoseconds since the clock was made, from the CPU's time-stamp counter.
///
/// One reading costs a counter read, one multiplication and one shift: no division, no floating point, no system call. Copies agree with
/// each other on every CPU, as long as the counter is invariant ([`Clock::is_invariant`]).
///
/// # Accuracy
/// The frequency is measured once, since DPDK's own figure is rounded (0.15 % off on some machines). The remaining error is fixed, some
/// parts per million; NTP also slews `CLOCK_MONOTONIC`. Over an hour the two may drift apart by tens of milliseconds.
///
/// [`Clock::recalibrated`] measures again over the whole life of the clock: the longer the clock ran, the smaller the error. It keeps the
/// origin, so readings of the old and the new clock may differ by that drift: switch only between experiments.
///
/// # Range
/// 213 days, then readings wrap.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin_tsc: u64,
    origin_ns: u64,
    /// Picoseconds per tick, times 2^[`SHIFT`].
    multiplier: u64,
    dilation: u32,
}

impl Clock {
    /// Calibrates for 50 ms, sleeping.
    pub fn new() -> Clock {
        Clock::calibrate(Duration::from_millis(50))
    }

    /// Calibrates for this long. The error is about 1 us over the window, plus interruptions by the machine. A window of less than 1 ms
    /// counts as 1 ms.
    pub fn calibrate(window: Duration) -> Clock {
        let start = Sample::take();
        let window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
        let end_ns = start.ns.saturating_add(window_ns.max(1_000_000));
        loop {
            let now_ns = read_ns(libc::CLOCK_MONOTONIC);
            if now_ns >= end_ns {
                break;
            }
            std::thread::park_timeout(Duration::from_nanos(end_ns - now_ns));
        }
        Clock::between(start, Sample::take(), 1)
    }

    /// A clock of the same origin and dilation, with the frequency measured
    /// over all the time since the clock was made.
    pub fn recalibrated(&self) -> Clock {
        let start = Sample { tsc: self.origin_tsc, ns: self.origin_ns };
        Clock::between(start, Sample::take(), self.dilation)
    }

    /// A clock with the same origin on which time passes `factor` times more
    /// slowly than in reality, so that a slow machine can act a fast network.
    ///
    /// # Panics
    /// If `factor` is 0.
    pub fn with_dilation(self, factor: u32) -> Clock {
        assert!(factor > 0, "time cannot be dilated by a factor of 0");
        Clock { multiplier: self.multiplier * u64::from(self.dilation) / u64::from(factor), dilation: factor, ..self }
    }

    /// Picoseconds since the clock was made (dilated ones, if it is).
    #[inline(always)]
    pub fn now_ps(&self) -> u64 {
        self.ps_at(tsc())
    }

    /// Ticks of the time-stamp counter, for [`Clock::ps_at`].
    #[inline(always)]
    pub fn ticks(&self) -> u64 {
        tsc()
    }

    /// Converts a reading of the counter. Readings from before the origin,
    /// which another CPU's counter may give, count as 0.
    #[inline(always)]
    pub fn ps_at(&self, ticks: u64) -> u64 {
        let elapsed = ticks.saturating_sub(self.origin_tsc);
        ((u128::from(elapsed) * u128::from(self.multiplier)) >> SHIFT) as u64
    }

    /// Factor by which this clock runs slower than real time.
    pub fn dilation(&self) -> u32 {
        self.dilation
    }

    /// Counter frequency in Hz as measured.
    pub fn frequency_hz(&self) -> u64 {
        let undilated = u128::from(self.multiplier) * u128::from(self.dilation);
        ((PS_PER_SECOND << SHIFT) / undilated) as u64
    }

    /// Whether the CPU promises a counter of constant rate; without that,
    /// readings follow the CPU's frequency and cannot be trusted.
    pub fn is_invariant() -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::__cpuid;
            // `cpuid` is there on every x86-64 CPU.
            #[allow(unused_unsafe, reason = "safe in newer toolchains only")]
            // SAFETY: see above.
            let invariant =
                unsafe { __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0 };
            invariant
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            true
        }
    }

    fn between(start: Sample, end: Sample, dilation: u32) -> Clock {
        let ticks = u128::from(end.tsc.saturating_sub(start.tsc).max(1));
        let ps = u128::from(end.ns - start.ns) * 1000;
        let multiplier = (ps << SHIFT) / (ticks * u128::from(dilation));
        Clock {
            origin_tsc: start.tsc,
            origin_ns: start.ns,
            multiplier: u64::try_from(multiplier).expect("a counter of more than 1 MHz"),
            dilation,
        }
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

/// Counter and system time at the same instant.
#[derive(Clone, Copy)]
struct Sample {
    tsc: u64,
    ns: u64,
}

impl Sample {
    /// The tightest of several attempts: one interrupted in between is wide.
    fn take() -> Sample {
        let mut best: Option<(u64, Sample)> = None;
        for _ in 0..16 {
            let before = tsc();
            let ns = read_ns(libc::CLOCK_MONOTONIC);
            let width = tsc().wrapping_sub(before);
            if best.as_ref().is_none_or(|(least, _)| width < *least) {
                let tsc = before.wrapping_add(width / 2);
                best = Some((width, Sample { tsc, ns }));
            }
        }
        best.expect("16 attempts were made").1
    }
}

#[inline(always)]
fn tsc() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 CPU has `rdtsc`, and Linux leaves it enabled.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        // SAFETY: reads a counter register.
        unsafe { weir_dpdk_sys::weir_rdtsc() }
    }
}

pub(crate) fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable; a clock that does not exist leaves it as it is.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Fixed-point shift. At 1 GHz the multiplier is 1000 << 40, which leaves 14 bits for slower counters; a dilation of 1000 leaves 40
/// significant bits.
const SHIFT: u32 = 40;
const PS_PER_SECOND: u128 = 1_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn elapsed_ratio_ppm(clock: Clock, expected: impl Fn(u64) -> u64) -> u64 {
        let (start_ps, start) = (clock.now_ps(), Sample::take());
        std::thread::park_timeout(Duration::from_millis(100));
        let (end_ps, end) = (clock.now_ps(), Sample::take());
        let wanted = expected((end.ns - start.ns) * 1000);
        (end_ps - start_ps).abs_diff(wanted) * 1_000_000 / wanted
    }

    #[test]
    fn follows_the_monotonic_clock() {
        let clock = Clock::new();
        // A stolen CPU between the two readings is the machine's, not the clock's.
        let error = (0..5).map(|_| elapsed_ratio_ppm(clock, |ps| ps)).min();
        assert!(error < Some(1000), "{error:?} ppm off");
        let error = (0..5).map(|_| elapsed_ratio_ppm(clock.recalibrated(), |ps| ps)).min();
        assert!(error < Some(1000), "{error:?} ppm off after recalibration");
    }

    #[test]
    fn dilated_time_is_slower() {
        let clock = Clock::new().with_dilation(100);
        let error = (0..5).map(|_| elapsed_ratio_ppm(clock, |ps| ps / 100)).min();
        assert!(error < Some(1000), "{error:?} ppm off");
        let real = clock.with_dilation(1);
        assert!(real.frequency_hz().abs_diff(clock.frequency_hz()) < 1000);
    }

    #[test]
    fn never_goes_back() {
        let clock = Clock::calibrate(Duration::from_millis(1));
        let mut last = 0;
        for _ in 0..100_000 {
            let now = clock.now_ps();
            assert!(now >= last);
            last = now;
        }
    }
}
