//! Congestion window: its growth and its cuts.

use weir_units::{Span, Time};

use super::{RoundTrip, TcpConfig, TcpCongestionController};

/// Congestion window of a flow, in bytes.
#[derive(Debug)]
pub(super) struct Window {
    mss: f64,
    initial: f64,
    cwnd: f64,
    ssthresh: f64,
    /// Window before the last cut.
    prior: f64,
    /// Growth and cut factors of the congestion control.
    controller: Box<dyn TcpCongestionController>,
}

/// Smallest window after a cut, in segments (RFC 5681, equation 4).
const SEGMENTS_MIN: f64 = 2.0;

impl Window {
    pub(super) fn new(config: &TcpConfig) -> Window {
        let mss = f64::from(config.mss);
        let initial = mss * f64::from(config.initial_window.max(1));
        Window { mss, initial, cwnd: initial, ssthresh: f64::INFINITY, prior: 0.0, controller: config.control.build() }
    }

    /// Returns the window, rounded to the nearest byte.
    pub(super) fn bytes(&self) -> u64 {
        self.cwnd.round() as u64
    }

    /// Returns the slow-start threshold in bytes; `None` while it is infinite.
    pub(super) fn threshold(&self) -> Option<u64> {
        self.ssthresh.is_finite().then_some(self.ssthresh.round() as u64)
    }

    pub(super) fn is_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Passes the controller's gauges to `show`.
    pub(super) fn gauges(&self, show: &mut dyn FnMut(f64)) {
        self.controller.gauges(show);
    }

    /// Passes an acknowledgement to the congestion control; the window is unchanged.
    pub(super) fn handle_ack(&mut self, acked: u64, ece: bool, una: u64, next: u64) {
        self.controller.on_ack(acked, ece, una, next);
    }

    /// Records a round trip, which may end slow start without a cut.
    pub(super) fn handle_round_trip(&mut self, now: Time, rtt: Span, smoothed_rtt: Span, [una, next]: [u64; 2]) {
        let (is_slow_start, cwnd, mss) = (self.is_slow_start(), self.cwnd, self.mss);
        let trip = RoundTrip { now, rtt, smoothed_rtt, is_slow_start, cwnd, mss, una, next };
        if self.controller.on_round_trip(&trip) && is_slow_start {
            self.ssthresh = self.cwnd;
        }
    }

    /// Grows the window by arrived bytes, without congestion and with the window fully used. Slow start counts all of
    /// them, as Linux does, so that delayed acknowledgements do not slow it down.
    pub(super) fn grow(&mut self, now: Time, rtt: Span, arrived: u64) {
        let mut arrived = arrived as f64;
        if self.is_slow_start() {
            let doubled = (self.cwnd + arrived).min(self.ssthresh);
            arrived -= doubled - self.cwnd;
            self.cwnd = doubled;
        }
        if arrived <= 0.0 {
            return;
        }
        self.cwnd = self.controller.grown(now, rtt, arrived, self.cwnd, self.prior, self.mss);
    }

    /// Grows the window by the advance of the acknowledgement number; slow start counts all of it, beyond the threshold too.
    pub(super) fn grow_by_acked(&mut self, now: Time, rtt: Span, acked: u64) {
        let acked = acked as f64;
        self.cwnd = if self.is_slow_start() {
            self.cwnd + acked
        } else {
            self.controller.grown(now, rtt, acked, self.cwnd, self.prior, self.mss)
        };
    }

    /// Cuts the window for a CE mark.
    pub(super) fn cut_for_mark(&mut self) {
        self.cut(self.controller.mark_factor());
    }

    /// Cuts the window for a loss. If a mark already cut it for the same data, both count together as the loss
    /// alone.
    pub(super) fn cut_for_loss(&mut self, already_cut: bool) {
        if already_cut {
            let cut = (self.prior * self.controller.loss_factor()).max(SEGMENTS_MIN * self.mss);
            self.ssthresh = self.ssthresh.min(cut);
            self.cwnd = self.cwnd.min(self.ssthresh);
        } else {
            self.cut(self.controller.loss_factor());
        }
    }

    /// Sets the window to one segment after a timeout. A repeated timeout keeps the threshold (RFC 5681, 3.1).
    pub(super) fn collapse(&mut self, again: bool) {
        if !again {
            self.cut(self.controller.loss_factor());
        }
        self.controller.on_timeout();
        self.cwnd = self.mss;
    }

    /// Handles a timeout as one of a window of this many bytes.
    pub(super) fn collapse_from(&mut self, window: u64) {
        self.cwnd = window as f64;
        self.collapse(false);
    }

    /// Handles an idle period; with `restart`, the window is at most the initial one afterwards.
    pub(super) fn handle_idle(&mut self, idle: Span, restart: bool) {
        if restart {
            self.cwnd = self.cwnd.min(self.initial);
        }
        self.controller.on_idle(idle);
    }

    fn cut(&mut self, factor: f64) {
        self.controller.on_cut(self.cwnd);
        self.prior = self.cwnd;
        self.ssthresh = (self.cwnd * factor).max(SEGMENTS_MIN * self.mss);
        self.cwnd = self.ssthresh;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::TcpCongestionChoice;

    fn window(control: TcpCongestionChoice) -> Window {
        Window::new(&TcpConfig { mss: 1_000, ..TcpConfig::linux(control) })
    }

    fn grow(window: &mut Window, arrived: u64) {
        window.grow(Time::from_nanos(1), Span::from_millis(1), arrived);
    }

    #[test]
    fn slow_start_doubles_up_to_the_threshold_and_avoidance_adds_a_segment() {
        let mut window = window(TcpCongestionChoice::reno());
        assert_eq!((window.bytes(), window.threshold()), (10_000, None));
        grow(&mut window, 10_000);
        assert_eq!(window.bytes(), 20_000);
        window.cut_for_loss(false);
        assert_eq!((window.bytes(), window.threshold(), window.is_slow_start()), (10_000, Some(10_000), false));
        (0..10).for_each(|_| grow(&mut window, 1_000));
        assert!((10_950..=11_000).contains(&window.bytes()), "{}", window.bytes());
    }

    #[test]
    fn what_is_left_after_cuts() {
        let cuts: [(TcpCongestionChoice, u64, u64); 3] = [
            (TcpCongestionChoice::reno(), 5_000, 5_000),
            (TcpCongestionChoice::cubic(), 7_000, 7_000),
            // α = 1 at first.
            (TcpCongestionChoice::dctcp(), 5_000, 5_000),
        ];
        for (control, after_loss, after_mark) in cuts {
            let (mut lost, mut marked) = (window(control.clone()), window(control.clone()));
            lost.cut_for_loss(false);
            marked.cut_for_mark();
            assert_eq!((lost.bytes(), marked.bytes()), (after_loss, after_mark), "{control:?}");
            (0..20).for_each(|_| lost.cut_for_loss(false));
            assert_eq!(lost.bytes(), 2_000);
        }
    }

    #[test]
    fn dctcp_cuts_by_half_of_alpha_and_a_loss_in_the_same_window_makes_it_half_in_all() {
        let mut window = window(TcpCongestionChoice::dctcp());
        // Two windows without marks: α = 225/256.
        window.handle_ack(1_000, false, 1_000, 2_000);
        window.handle_ack(2_000, false, 3_000, 4_000);
        window.cut_for_mark();
        assert_eq!(window.bytes(), 5_605, "10,000 (1 - 225/512)");
        window.cut_for_loss(true);
        assert_eq!((window.bytes(), window.threshold()), (5_000, Some(5_000)));
    }

    #[test]
    fn a_timeout_leaves_one_segment_and_repeats_leave_the_threshold() {
        let mut window = window(TcpCongestionChoice::cubic());
        window.collapse(false);
        assert_eq!((window.bytes(), window.threshold()), (1_000, Some(7_000)));
        window.collapse(true);
        assert_eq!((window.bytes(), window.threshold()), (1_000, Some(7_000)));
        // Slow start to the threshold; the rest of the acknowledgement counts for avoidance.
        grow(&mut window, 7_000);
        assert!((7_000..7_200).contains(&window.bytes()), "{}", window.bytes());
    }

    #[test]
    fn after_idle_the_initial_window() {
        let mut window = window(TcpCongestionChoice::reno());
        grow(&mut window, 30_000);
        window.handle_idle(Span::from_secs(1), false);
        assert_eq!(window.bytes(), 40_000);
        window.handle_idle(Span::from_secs(1), true);
        assert_eq!(window.bytes(), 10_000);
    }
}
