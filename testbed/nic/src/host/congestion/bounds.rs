//! Bounds of a congestion window, and its conversion to a rate.

use weir_units::{BitRate, Bytes, Span};

use super::clamped_rate;
use crate::parameters::{Parameters, window};
use weir_reader::Key;

/// Bounds of a flow whose window W and rate R are coupled: R = W / T, with the base round-trip time T.
///
/// The largest window is the bandwidth-delay product of the line and T. Windows are in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowBounds {
    line: u64,
    rate_min: u64,
    base_rtt_ps: f64,
}

/// Window in addition to a rate, as in the public ns-3 simulators for controls that set only rates (HAS_WIN, VAR_WIN).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OptionalWindow {
    /// Window at line rate; `None` for no window.
    size: Option<Bytes>,
    /// Whether the window is proportional to the rate.
    follows_rate: bool,
}

pub(super) const WINDOW: Key<Option<Bytes>> =
    window("window", "window of payload beside the rate, such as `100KB` or `bdp` (HAS_WIN of the public simulators)")
        .or("none");
pub(super) const WINDOW_FOLLOWS_RATE: Key<bool> =
    Key::boolean("window_follows_rate", "whether that window is proportional to rate / line rate (VAR_WIN)")
        .or("false");

impl OptionalWindow {
    pub(super) fn parse(parameters: &Parameters<'_>) -> OptionalWindow {
        let (size, follows_rate) = (parameters.window(&WINDOW), parameters.boolean(&WINDOW_FOLLOWS_RATE));
        if follows_rate && size.is_none() {
            let help = "write a `window`, for example \"bdp\", or take `window_follows_rate` out";
            parameters.refuse(&WINDOW_FOLLOWS_RATE, "there is no `window` to follow the rate", help);
        }
        OptionalWindow { size, follows_rate }
    }

    /// Returns a window of this size; `follows_rate` has no effect without a size.
    pub(super) fn new(size: Option<Bytes>, follows_rate: bool) -> OptionalWindow {
        OptionalWindow { size, follows_rate }
    }

    /// Returns the window at a rate, given in bit/s like the line's.
    #[inline]
    pub(super) fn window_at(&self, rate: u64, line: u64) -> Option<Bytes> {
        let size = self.size?;
        if !self.follows_rate {
            return Some(size);
        }
        let bytes = u128::from(size.get()) * u128::from(rate) / u128::from(line.max(1));
        Some(Bytes::new((bytes as u64).max(1)))
    }
}

/// Bits in a byte times picoseconds in a second.
const BIT_PS: f64 = 8e12;

impl WindowBounds {
    pub(super) fn new(line: BitRate, rate_min: BitRate, base_rtt: Span) -> WindowBounds {
        let line = line.as_bps();
        let base_rtt_ps = base_rtt.as_picos().max(1) as f64;
        WindowBounds { line, rate_min: rate_min.as_bps().min(line), base_rtt_ps }
    }

    /// Returns T in picoseconds.
    pub(super) fn base_rtt_ps(&self) -> f64 {
        self.base_rtt_ps
    }

    pub(super) fn largest(&self) -> f64 {
        self.line as f64 * self.base_rtt_ps / BIT_PS
    }

    /// Returns the nearest allowed window; the smallest for NaN.
    pub(super) fn clamp(&self, window: f64) -> f64 {
        window.max(self.rate_min as f64 * self.base_rtt_ps / BIT_PS).min(self.largest())
    }

    pub(super) fn rate(&self, window: f64) -> BitRate {
        BitRate::bps(clamped_rate(window * BIT_PS / self.base_rtt_ps, self.rate_min, self.line))
    }

    /// Returns the window in bytes, at least 1, so that a frame can be sent.
    pub(super) fn bytes(window: f64) -> Bytes {
        Bytes::new((window as u64).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_and_rates_go_together() {
        let bounds = WindowBounds::new(BitRate::gbps(100), BitRate::mbps(100), Span::from_micros(10));
        assert_eq!(bounds.largest(), 125_000.0);
        assert_eq!(bounds.rate(12_500.0), BitRate::gbps(10));
        assert_eq!(
            [0.0, f64::NAN, 1_000.0, f64::INFINITY].map(|w| bounds.clamp(w)),
            [125.0, 125.0, 1_000.0, 125_000.0]
        );
        assert_eq!(bounds.rate(1.0), BitRate::mbps(100));
        assert_eq!(WindowBounds::bytes(0.5), Bytes::new(1));
        let slow = WindowBounds::new(BitRate::mbps(10), BitRate::gbps(1), Span::ZERO);
        assert_eq!(slow.rate(slow.clamp(1e9)), BitRate::mbps(10), "a floor above the line is the line");
    }

    #[test]
    fn an_optional_window_may_follow_the_rate() {
        let network = crate::parameters::Network { line: BitRate::gbps(100), base_rtt: Span::from_micros(8) };
        let read = |given: &[(&str, &str)]| {
            let parameters = Parameters::new(network, given, &[]);
            (OptionalWindow::parse(&parameters), parameters.into_wrong().len())
        };
        let [half, line] = [50_000_000_000, 100_000_000_000];
        let (none, wrong) = read(&[]);
        assert_eq!((none.window_at(half, line), wrong), (None, 0));
        let (fixed, _) = read(&[("window", "bdp")]);
        assert_eq!([half, line].map(|rate| fixed.window_at(rate, line)), [Some(Bytes::kb(100)); 2]);
        let (following, _) = read(&[("window", "60KB"), ("window_follows_rate", "true")]);
        assert_eq!(
            [0, half, line].map(|rate| following.window_at(rate, line)),
            [1, 30_000, 60_000].map(|n| Some(Bytes::new(n)))
        );
        assert_eq!(read(&[("window_follows_rate", "true")]).1, 1, "nothing to follow the rate");
        assert_eq!((read(&[("window", "0B")]).1, read(&[("window", "wide")]).1), (1, 1));
    }
}
