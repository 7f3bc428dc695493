//! Proportional rate reduction: how much may be sent while losses are repaired (RFC 6937).
//!
//! For each byte that arrives, the new window's share of the old one is sent, so that the flight shrinks within one
//! round trip without a pause and without a burst. Once it is smaller than the new window, as much is sent as arrives,
//! and a segment more if the acknowledgement shows that a retransmission has arrived and nothing more is lost.

/// State of one recovery.
#[derive(Debug)]
pub(super) struct ProportionalRateReduction {
    /// Bytes in flight at the start of the recovery (RecoverFS).
    flight: u64,
    /// Bytes delivered since the start (prr_delivered).
    delivered: u64,
    /// Bytes sent since the start (prr_out).
    sent: u64,
    /// The window up to the next acknowledgement, for comparison with the pipe.
    window: u64,
}

impl ProportionalRateReduction {
    pub(super) fn new(flight: u64) -> ProportionalRateReduction {
        ProportionalRateReduction { flight: flight.max(1), delivered: 0, sent: 0, window: 0 }
    }

    /// Handles an acknowledgement of `delivered` more bytes; the window approaches `target`.
    pub(super) fn handle_ack(&mut self, delivered: u64, pipe: u64, target: u64, is_safe: bool, mss: u64) {
        self.delivered += delivered;
        let mut allowance = if pipe > target {
            let share = u128::from(self.delivered) * u128::from(target);
            (share.div_ceil(u128::from(self.flight)) as u64).saturating_sub(self.sent)
        } else {
            let arrived = self.delivered.saturating_sub(self.sent).max(delivered);
            (arrived + if is_safe { mss } else { 0 }).min(target - pipe)
        };
        if self.sent == 0 {
            allowance = allowance.max(mss);
        }
        self.window = pipe + allowance;
    }

    pub(super) fn handle_sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    pub(super) fn window(&self) -> u64 {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flight_of_18_shrinks_to_9_by_sending_for_every_other_arrival() {
        // One is lost, and one arrives with each acknowledgement.
        let mut recovery = ProportionalRateReduction::new(18);
        let (mut pipe, mut sent) = (17, Vec::new());
        for round in 0..18 {
            pipe -= 1;
            recovery.handle_ack(1, pipe, 9, false, 1);
            let sends = recovery.window() - pipe;
            recovery.handle_sent(sends);
            pipe += sends;
            sent.push(sends);
            assert!(pipe >= 9, "{round}");
            pipe -= if round == 0 { 1 } else { 0 };
        }
        assert_eq!(sent, [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 1, 1, 1]);
        assert_eq!(pipe, 9);
    }

    #[test]
    fn below_the_target_it_sends_what_arrives_and_one_more_if_safe() {
        let mut recovery = ProportionalRateReduction::new(20);
        recovery.handle_ack(1, 4, 10, false, 1);
        assert_eq!(recovery.window(), 5);
        recovery.handle_sent(1);
        recovery.handle_ack(1, 4, 10, true, 1);
        assert_eq!(recovery.window(), 6);
        recovery.handle_ack(30, 4, 10, true, 1);
        assert_eq!(recovery.window(), 10, "never beyond the target");
    }
}
