//! DCTCP's estimate of the share of marked data (RFC 8257, 3.3).

use std::sync::Arc;

use weir_reader::{Gauge, Key, Keys, Plugin};

use super::{TcpCongestionConfig, TcpCongestionController, TcpCongestionKind};
use crate::parameters::{Gain, Parameters, gain};

/// Kind of `transport = "tcp-dctcp"`.
#[derive(Debug)]
pub(super) struct DctcpKind;

/// DCTCP's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DctcpConfig {
    /// Exponent of g = 2^-`gain_shift`, the weight of the last window in α. At most 32 counts.
    gain_shift: u8,
}

/// State of a flow.
#[derive(Debug)]
struct Dctcp {
    gain_shift: u8,
    /// Estimate α, in units of 2^-32.
    alpha: u64,
    /// DCTCP.BytesAcked of this window of data; `marked` is DCTCP.BytesMarked.
    acked: u64,
    marked: u64,
    /// End of this window of data.
    window_end: u64,
}

/// Value 1 of α.
const ONE: u64 = 1 << 32;

const G: Key<Gain> = gain("g", "g: weight of the last window in α, which starts at 1 (RFC 8257, 4)").or("1/16");

impl Plugin for DctcpKind {
    fn id(&self) -> &'static str {
        "tcp-dctcp"
    }

    fn keys(&self) -> Keys {
        &[&G]
    }

    fn gauges(&self) -> &'static [Gauge] {
        const { &[Gauge::plain("alpha", "α: the share of data that is marked, on average")] }
    }
}

impl TcpCongestionKind for DctcpKind {
    fn parse(&self, parameters: &Parameters<'_>) -> Arc<dyn TcpCongestionConfig> {
        Arc::new(DctcpConfig { gain_shift: parameters.gain(&G) })
    }
}

impl TcpCongestionConfig for DctcpConfig {
    fn counts_marks(&self) -> bool {
        true
    }

    fn build(&self) -> Box<dyn TcpCongestionController> {
        Box::new(Dctcp::new(self))
    }
}

impl Dctcp {
    /// Starts with α = 1, so that a flow's first mark counts like a loss (4.1).
    fn new(config: &DctcpConfig) -> Dctcp {
        Dctcp { gain_shift: config.gain_shift.min(32), alpha: ONE, acked: 0, marked: 0, window_end: 0 }
    }

    /// Returns α as a fraction.
    fn alpha(&self) -> f64 {
        self.alpha as f64 / ONE as f64
    }
}

impl TcpCongestionController for Dctcp {
    /// Updates α once a window from the share of bytes acknowledged with ECE.
    fn on_ack(&mut self, acked: u64, ece: bool, una: u64, next: u64) {
        self.acked += acked;
        self.marked += if ece { acked } else { 0 };
        if una <= self.window_end || self.acked == 0 {
            return;
        }
        let share = (u128::from(self.marked) << 32) / u128::from(self.acked);
        // Rounds down, so that α reaches zero.
        let change = (share as i64 - self.alpha as i64) >> self.gain_shift;
        self.alpha = self.alpha.saturating_add_signed(change);
        (self.acked, self.marked, self.window_end) = (0, 0, next);
    }

    fn mark_factor(&self) -> f64 {
        1.0 - self.alpha() / 2.0
    }

    fn gauges(&self, show: &mut dyn FnMut(f64)) {
        show(self.alpha());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns α after windows of ten segments, the first `marked` of which are marked.
    fn alpha_after(flow: &mut Dctcp, windows: u64, marked: u64) -> f64 {
        let mut una = flow.window_end;
        for _ in 0..windows {
            let next = una + 10_000;
            for n in 0..10 {
                una += 1_000;
                // The first acknowledgement of a window ends the one before.
                flow.on_ack(1_000, (n + 9) % 10 < marked, una, next);
            }
        }
        flow.alpha()
    }

    #[test]
    fn alpha_by_hand() {
        let mut flow = Dctcp::new(&DctcpConfig { gain_shift: 4 });
        assert_eq!(flow.alpha(), 1.0);
        flow.on_ack(1_000, false, 1_000, 10_000);
        assert_eq!(flow.alpha(), 15.0 / 16.0);
        // Until 10,000 is passed: 10 segments, 4 of them marked. 15/16 · 15/16 + 1/16 · 4/10.
        (2..=10).for_each(|n| flow.on_ack(1_000, n <= 5, n * 1_000, 20_000));
        assert_eq!(flow.alpha(), 15.0 / 16.0);
        flow.on_ack(1_000, false, 11_000, 21_000);
        assert!((flow.alpha() - (225.0 / 256.0 + 0.025)).abs() < 1e-9);
    }

    #[test]
    fn alpha_converges_to_the_share_of_marks() {
        let mut flow = Dctcp::new(&DctcpConfig { gain_shift: 4 });
        assert!((alpha_after(&mut flow, 200, 3) - 0.3).abs() < 1e-5);
        assert!((alpha_after(&mut flow, 200, 10) - 1.0).abs() < 1e-5);
        // The first of these acknowledgements ends a window with nine marks of ten; nine windows have none.
        let expected = (15.0 / 16.0 + 0.9 / 16.0) * f64::powi(15.0 / 16.0, 9);
        assert!((alpha_after(&mut flow, 10, 0) - expected).abs() < 1e-5);
        assert_eq!(alpha_after(&mut flow, 1_000, 0), 0.0);
    }
}
