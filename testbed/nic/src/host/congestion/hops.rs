//! Telemetry stamps of switches on a frame, and a sender's memory of the last ones (in-band telemetry, INT).

use weir_units::{BitRate, Bytes, Span, Time};
use weir_wire::trailer::TIME_WRAPS;

use crate::host::packet::HOPS_MAX;

/// Longest reordering delay of stamps of a port: an instant further back is of a clock that wrapped.
const LATE_MAX: Span = Span::from_secs(1);

/// Telemetry that a switch's port stamps on a departing frame (HPCC, section 3.1).
pub use weir_wire::trailer::Telemetry as HopTelemetry;

/// Last stamp of each hop. Only changes between stamps have a meaning.
#[derive(Debug)]
pub(super) struct HopHistory {
    hops: [HopTelemetry; HOPS_MAX],
    len: usize,
}

/// Change at a hop between two frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct HopDelta {
    pub before: HopTelemetry,
    pub now: HopTelemetry,
    /// Time between the two stamps; not zero.
    pub span: Span,
}

impl HopHistory {
    pub(super) fn new() -> HopHistory {
        let none = HopTelemetry { at: Time::ZERO, tx_bytes: 0, queue: Bytes::ZERO, rate: BitRate::bps(1) };
        HopHistory { hops: [none; HOPS_MAX], len: 0 }
    }

    /// Stores these hops, and calls `each` with the change at every hop whose time has advanced. Returns false, without
    /// a call, for the first hops and after a change of path.
    ///
    /// A path is identified by the number of its hops and their rates, since stamps have no other identity. On real frames instants and
    /// bytes sent wrap: wrapped instants are corrected, and a step in which the bytes wrapped is skipped.
    pub(super) fn advance(&mut self, hops: &[HopTelemetry], mut each: impl FnMut(HopDelta)) -> bool {
        let hops = &hops[..hops.len().min(HOPS_MAX)];
        let known = &mut self.hops[..hops.len()];
        if self.len != hops.len() || known.iter().zip(hops).any(|(before, now)| before.rate != now.rate) {
            known.copy_from_slice(hops);
            self.len = hops.len();
            return false;
        }
        for (before, now) in known.iter_mut().zip(hops) {
            let span = elapsed(before.at, now.at);
            if span == Span::ZERO {
                continue;
            }
            if now.tx_bytes >= before.tx_bytes {
                each(HopDelta { before: *before, now: *now, span });
            }
            *before = *now;
        }
        true
    }
}

impl HopDelta {
    /// Returns the port's throughput as a fraction of its rate.
    pub(super) fn load(&self) -> f64 {
        let bits_ps = (self.now.tx_bytes - self.before.tx_bytes) as f64 * 8e12;
        bits_ps / self.span.as_picos() as f64 / self.now.rate.as_bps() as f64
    }
}

/// Returns the time from one stamp to another of the same clock; zero if the other is earlier.
fn elapsed(before: Time, now: Time) -> Span {
    let back = before.since(now);
    if back > LATE_MAX { TIME_WRAPS.saturating_sub(back) } else { now.since(before) }
}

/// Returns a size as a fraction of the bytes that a link carries in `span_ps` picoseconds.
pub(super) fn part_of_bdp(bytes: f64, rate: BitRate, span_ps: f64) -> f64 {
    bytes * 8e12 / (rate.as_bps() as f64 * span_ps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(us: u64, tx_bytes: u64) -> HopTelemetry {
        HopTelemetry { at: Time::from_nanos(us * 1_000), tx_bytes, queue: Bytes::ZERO, rate: BitRate::gbps(100) }
    }

    /// Loads of the steps, and whether the path was known.
    fn loads(memory: &mut HopHistory, hops: &[HopTelemetry]) -> (Vec<f64>, bool) {
        let mut loads = Vec::new();
        let known = memory.advance(hops, |step| loads.push(step.load()));
        (loads, known)
    }

    #[test]
    fn a_step_needs_the_same_path_and_time() {
        let mut memory = HopHistory::new();
        assert_eq!(loads(&mut memory, &[hop(1, 0), hop(1, 0)]), (vec![], false));
        // 100 Gb/s are 12,500 B a microsecond.
        assert_eq!(loads(&mut memory, &[hop(2, 12_500), hop(3, 12_500)]), (vec![1.0, 0.5], true));
        assert_eq!(loads(&mut memory, &[hop(2, 12_500), hop(4, 12_500)]), (vec![0.0], true));
        assert_eq!(loads(&mut memory, &[hop(9, 0)]), (vec![], false), "another path");
        let faster = HopTelemetry { rate: BitRate::gbps(400), ..hop(10, 50_000) };
        assert_eq!(loads(&mut memory, &[faster]), (vec![], false), "another port");
        assert_eq!(loads(&mut memory, &[]), (vec![], false));
        // A late stamp is passed over, a counter that began anew is remembered.
        assert_eq!(loads(&mut memory, &[hop(5, 50_000)]), (vec![], false));
        assert_eq!(loads(&mut memory, &[hop(4, 40_000)]), (vec![], true));
        assert_eq!(loads(&mut memory, &[hop(6, 0)]), (vec![], true));
        assert_eq!(loads(&mut memory, &[hop(7, 6_250)]), (vec![0.5], true));
    }

    /// Instants wrap after 2^40 ns, 1,099,511,627.776 us; bytes sent after 2^40.
    #[test]
    fn what_wraps_costs_a_step_at_most() {
        let mut memory = HopHistory::new();
        let wraps = 1 << 40;
        loads(&mut memory, &[hop(1_099_511_627, wraps - 12_500)]);
        assert_eq!(loads(&mut memory, &[hop(1, wraps - 1)]), (vec![12_499.0 / 22_200.0], true), "1.776 us");
        assert_eq!(loads(&mut memory, &[hop(2, 12_499)]), (vec![], true), "the bytes have wrapped");
        assert_eq!(loads(&mut memory, &[hop(4, 24_999)]), (vec![0.5], true));
        // After a pause it does not matter how far the clock has come.
        for pause in [1_000_000, 500_000_000, 1_000_000_000, 1_099_000_000] {
            let at = (4 + pause) % 1_099_511_627;
            loads(&mut memory, &[hop(at, 24_999)]);
            assert_eq!(loads(&mut memory, &[hop(at + 1, 37_499)]), (vec![1.0], true), "{pause} us");
            loads(&mut memory, &[hop(4, 24_999)]);
        }
    }

    /// Stamps of one burst may have one instant, to the nanosecond: the step goes from the first of one to the first of another.
    #[test]
    fn stamps_of_one_instant_are_one_step() {
        let mut memory = HopHistory::new();
        let at = |ns: u64, tx_bytes| HopTelemetry { at: Time::from_nanos(ns), ..hop(0, tx_bytes) };
        loads(&mut memory, &[at(10, 1_000)]);
        assert_eq!(loads(&mut memory, &[at(10, 2_000)]), (vec![], true));
        assert_eq!(loads(&mut memory, &[at(10, 3_000)]), (vec![], true));
        assert_eq!(loads(&mut memory, &[at(250, 4_000)]), (vec![1.0], true));
        assert_eq!(loads(&mut memory, &[at(251, 4_000)]), (vec![0.0], true));
    }

    #[test]
    fn hops_beyond_the_memory_are_left_out() {
        let mut memory = HopHistory::new();
        loads(&mut memory, &[hop(1, 0); 10]);
        assert_eq!(loads(&mut memory, &[hop(2, 12_500); 10]).0.len(), HOPS_MAX);
    }
}
