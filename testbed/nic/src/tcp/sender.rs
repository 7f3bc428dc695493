//! Sending end of a connection.

use weir_units::{Span, Time};

use super::proportional::ProportionalRateReduction;
use super::retransmission::RtoEstimator;
use super::scoreboard::{AckUpdate, DUPLICATES, Scoreboard};
use super::window::Window;
use super::{Ack, Segment, TcpConfig};

/// Sending end of a connection.
///
/// Any `write` or `handle_*` may change [`TcpSender::can_send`]; call [`TcpSender::poll_segment`]
/// whenever there is room for a frame, and [`TcpSender::handle_timeout`] at [`TcpSender::next_timeout`], which every
/// call may move. Sending allocates only to repair losses, and frees that memory afterwards.
#[derive(Debug)]
pub struct TcpSender {
    mss: u32,
    is_ecn_capable: bool,
    counts_marks: bool,
    restart_after_idle: bool,
    is_impatient: bool,
    grows_by_acked: bool,
    cuts_at_each_timeout: bool,
    timestamp_clock: Option<Span>,
    /// Unscheduled bytes that may still be sent.
    unscheduled: u64,
    window_max: u64,
    /// Offset of the end of the data written by the application.
    written: u64,
    scoreboard: Scoreboard,
    /// [`Scoreboard::pipe`], computed once per acknowledgement.
    pipe: u64,
    window: Window,
    retransmission: RtoEstimator,
    phase: RecoveryPhase,
    /// Acknowledgements since `una` moved that report further data beyond it.
    duplicates: u32,
    /// Timeouts since `una` moved.
    timeouts_in_turn: u32,
    /// Instant at which the retransmission timer expires; [`Time::NEVER`] if it does not run.
    timer: Time,
    last_sent: Time,
    /// Offset below which data was sent before the window was last cut.
    cut_end: u64,
    /// Whether the next new data carries CWR.
    cwr: bool,
    /// Largest flight of this round trip, which shows whether the window was used, and the offset that ends the round
    /// trip.
    flight_max: u64,
    round_end: u64,
    stats: TcpStats,
}

/// Counters of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpStats {
    /// Segments sent, retransmissions included.
    pub segments: u64,
    /// Segments sent with data that was sent before.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Recoveries started by acknowledgements.
    pub fast_recoveries: u64,
    /// Cuts of the window for marks.
    pub ecn_cuts: u64,
}

#[derive(Debug)]
enum RecoveryPhase {
    /// The scoreboard has no known losses.
    Open,
    /// The sender repairs losses until the data sent by the start is acknowledged (RFC 6675, section 5).
    Recovery {
        began_at: u64,
        point: u64,
        rate: ProportionalRateReduction,
        is_rescued: bool,
        /// Whether an acknowledgement has advanced since.
        has_moved_on: bool,
    },
    /// Losses are repaired in slow start after a timeout.
    AfterTimeout { point: u64 },
}

/// Next segment to send, as (start, exclusive end).
#[derive(Clone, Copy)]
enum NextSegment {
    New(u64, u64),
    Again(u64, u64),
    Rescue(u64, u64),
}

impl TcpSender {
    /// Creates the sending end of an established connection without data so far.
    ///
    /// # Panics
    /// With an MSS of zero, or one that no packet has.
    pub fn new(config: &TcpConfig) -> TcpSender {
        assert!(
            (1..=u32::from(u16::MAX)).contains(&config.mss),
            "a segment has a payload, as long as a packet at most"
        );
        let (mut window, mut retransmission) = (Window::new(config), RtoEstimator::new(config));
        if let Some(rtt) = config.known_rtt {
            retransmission.record_rtt(rtt);
            window.handle_round_trip(Time::ZERO, rtt, rtt, [0, 0]);
        }
        TcpSender {
            mss: config.mss,
            is_ecn_capable: config.is_ecn_capable(),
            counts_marks: config.control.counts_marks(),
            restart_after_idle: config.restart_after_idle,
            is_impatient: config.is_impatient,
            grows_by_acked: config.grows_by_acked,
            cuts_at_each_timeout: config.cuts_at_each_timeout,
            timestamp_clock: config.timestamp_clock,
            unscheduled: config.unscheduled.get(),
            window_max: config.window_max.get().max(u64::from(config.mss)),
            written: 0,
            scoreboard: Scoreboard::default(),
            pipe: 0,
            window,
            retransmission,
            phase: RecoveryPhase::Open,
            duplicates: 0,
            timeouts_in_turn: 0,
            timer: Time::NEVER,
            last_sent: Time::ZERO,
            cut_end: 0,
            cwr: false,
            flight_max: 0,
            round_end: 0,
            stats: TcpStats::default(),
        }
    }

    /// Adds bytes written by the application.
    pub fn write(&mut self, bytes: u64) {
        self.written = self.written.saturating_add(bytes);
    }

    /// Whether a segment can be sent now.
    pub fn can_send(&self) -> bool {
        self.next().is_some()
    }

    /// Takes the next segment to send; it counts as sent.
    pub fn poll_segment(&mut self, now: Time) -> Option<Segment> {
        let next = self.next()?;
        self.wake_up(now);
        let (start, end) = next.range();
        let is_new = matches!(next, NextSegment::New(..));
        let len = end - start;
        match next {
            NextSegment::New(..) => self.scoreboard.handle_sent(len),
            NextSegment::Again(..) => self.scoreboard.handle_retransmitted(end),
            NextSegment::Rescue(..) => {}
        }
        if let RecoveryPhase::Recovery { rate, is_rescued, .. } = &mut self.phase {
            rate.handle_sent(len);
            *is_rescued |= matches!(next, NextSegment::Rescue(..));
        }
        self.pipe += len;
        if self.scoreboard.una() >= self.round_end || self.pipe > self.flight_max {
            (self.flight_max, self.round_end) = (self.pipe, self.scoreboard.next());
        }
        if self.timer == Time::NEVER {
            self.timer = now.saturating_add(self.retransmission.timeout());
        }
        self.last_sent = now;
        let is_unscheduled = self.unscheduled > 0;
        self.unscheduled = self.unscheduled.saturating_sub(len);
        self.stats.segments += 1;
        self.stats.retransmissions += u64::from(!is_new);
        Some(Segment {
            seq: start,
            len: len as u16,
            is_retransmission: !is_new,
            is_unscheduled,
            push: end == self.written,
            cwr: is_new && std::mem::take(&mut self.cwr),
            ect: self.is_ecn_capable && (is_new || self.counts_marks),
            sent_at: now,
        })
    }

    /// Handles an acknowledgement; one of data that was never sent is ignored.
    pub fn handle_ack(&mut self, now: Time, ack: &Ack) {
        if ack.ack > self.scoreboard.next() {
            return;
        }
        let was_cut_at = self.cut_end;
        let update = self.scoreboard.handle_ack(ack, u64::from(self.mss));
        self.window.handle_ack(update.acked, ack.ece, self.scoreboard.una(), self.scoreboard.next());
        if update.acked > 0 {
            self.handle_progress(now, ack.echo);
        } else if update.arrived > 0 {
            self.duplicates += 1;
        }
        let was_in_recovery = matches!(self.phase, RecoveryPhase::Recovery { .. });
        let grows = if self.grows_by_acked { self.grown_by_acked(update) } else { 0 };
        self.end_recovery();
        if let RecoveryPhase::Open = self.phase {
            if self.scoreboard.is_first_lost() || self.duplicates >= DUPLICATES {
                self.begin_recovery();
            } else if ack.ece && self.is_ecn_capable && self.scoreboard.una() > self.cut_end {
                self.window.cut_for_mark();
                self.handle_cut();
                self.stats.ecn_cuts += 1;
            }
        }
        self.pipe = self.scoreboard.pipe();
        // ECE indicates a full path (RFC 3168, 6.1.2).
        let is_free = !ack.ece && self.cut_end == was_cut_at;
        if let RecoveryPhase::Recovery { rate, .. } = &mut self.phase {
            let is_safe = update.acked > 0 && !update.is_more_lost;
            rate.handle_ack(update.arrived, self.pipe, self.window.bytes(), is_safe, u64::from(self.mss));
        } else if self.grows_by_acked {
            if grows > 0 && is_free {
                self.window.grow_by_acked(now, self.rtt(), grows);
            }
        } else if is_free && update.acked > 0 && !was_in_recovery && self.is_window_used() {
            self.window.grow(now, self.rtt(), update.arrived);
        }
    }

    /// Returns the instant for [`TcpSender::handle_timeout`]; [`Time::NEVER`] if the timer does not run.
    pub fn next_timeout(&self) -> Time {
        self.timer
    }

    /// Handles the retransmission timer; does nothing before it expires. All outstanding data that is not SACKed is
    /// retransmitted (RFC 6298, 5.4 to 5.7).
    pub fn handle_timeout(&mut self, now: Time) {
        if now < self.timer {
            return;
        }
        // The timer restarts when the first segment is retransmitted.
        self.timer = Time::NEVER;
        if self.scoreboard.una() == self.scoreboard.next() {
            return;
        }
        self.retransmission.back_off();
        match &self.phase {
            _ if !self.cuts_at_each_timeout => self.window.collapse(self.timeouts_in_turn > 0),
            RecoveryPhase::Recovery { rate, .. } => self.window.collapse_from(rate.window()),
            _ => self.window.collapse(false),
        }
        self.scoreboard.mark_all_lost();
        self.pipe = self.scoreboard.pipe();
        self.phase = RecoveryPhase::AfterTimeout { point: self.scoreboard.next() };
        self.duplicates = 0;
        self.handle_cut();
        self.timeouts_in_turn += 1;
        self.stats.timeouts += 1;
    }

    /// Returns the number of acknowledged bytes: all before this offset.
    pub fn acked(&self) -> u64 {
        self.scoreboard.una()
    }

    /// Returns the number of bytes written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns the estimated bytes in flight (pipe of RFC 6675).
    pub fn in_flight(&self) -> u64 {
        self.pipe
    }

    /// Returns the congestion window in bytes; during recovery, its value after the recovery.
    pub fn window(&self) -> u64 {
        self.window.bytes()
    }

    /// Returns the slow-start threshold in bytes; `None` before the first cut.
    pub fn slow_start_threshold(&self) -> Option<u64> {
        self.window.threshold()
    }

    /// Passes the value of each gauge to `show`, in the order of [`TcpConfig::gauges`]; NaN for no value.
    pub fn gauges(&self, show: &mut dyn FnMut(f64)) {
        show(self.window() as f64);
        show(self.slow_start_threshold().map_or(f64::NAN, |threshold| threshold as f64));
        show(self.in_flight() as f64);
        show(self.smoothed_rtt().map_or(f64::NAN, |rtt| rtt.as_picos() as f64 / 1e6));
        self.window.gauges(show);
    }

    /// Returns the smoothed round-trip time; `None` before the first measurement.
    pub fn smoothed_rtt(&self) -> Option<Span> {
        self.retransmission.smoothed_rtt()
    }

    /// Returns the sender's counters.
    pub fn stats(&self) -> TcpStats {
        self.stats
    }

    fn next(&self) -> Option<NextSegment> {
        let mss = u64::from(self.mss);
        let again = |(start, end): (u64, u64)| NextSegment::Again(start, end.min(start + mss));
        let (next, limit) = match &self.phase {
            RecoveryPhase::Open => (self.new_data(), self.window.bytes()),
            RecoveryPhase::AfterTimeout { .. } => {
                (self.scoreboard.lost().map(again).or_else(|| self.new_data()), self.window.bytes())
            }
            RecoveryPhase::Recovery { began_at, rate, is_rescued, .. } => {
                let rescue = || {
                    let is_due = !is_rescued && self.scoreboard.una() > *began_at;
                    self.scoreboard.tail(mss).filter(|_| is_due).map(|(start, end)| NextSegment::Rescue(start, end))
                };
                let next = self.scoreboard.lost().map(again);
                let next = next.or_else(|| self.new_data()).or_else(|| self.scoreboard.doubtful().map(again));
                (next.or_else(rescue), rate.window())
            }
        };
        let (start, end) = next?.range();
        // At least one segment is always in flight, at any window.
        if self.pipe == 0 || self.pipe + (end - start) <= limit { next } else { None }
    }

    /// Returns the next new segment, if it fits the receive window whole.
    fn new_data(&self) -> Option<NextSegment> {
        let start = self.scoreboard.next();
        let len = (self.written - start).min(u64::from(self.mss));
        let fits = start + len <= self.scoreboard.una() + self.window_max;
        (len > 0 && fits).then_some(NextSegment::New(start, start + len))
    }

    /// Accounts for an idle period before new data, if no data was in flight: the window may be outdated.
    fn wake_up(&mut self, now: Time) {
        let next = self.scoreboard.next();
        if next > 0 && self.scoreboard.una() == next {
            let idle = now.since(self.last_sent);
            self.window.handle_idle(idle, self.restart_after_idle && idle > self.retransmission.timeout());
        }
    }

    /// Returns a round trip, measured by the timestamp clock.
    fn measured_rtt(&self, sent: Time, received: Time) -> Span {
        let Some(tick) = self.timestamp_clock else { return received.since(sent) };
        let ticks = |at: Time| at.as_picos() / tick.as_picos();
        match ticks(received) - ticks(sent) {
            0 => TcpConfig::WITHIN_TICK,
            ticks => tick * ticks,
        }
    }

    /// Handles an advance of the acknowledgement number: measures the round trip and restarts the timer.
    fn handle_progress(&mut self, now: Time, echo: Time) {
        if echo <= now {
            let rtt = self.measured_rtt(echo, now);
            self.retransmission.record_rtt(rtt);
            if !matches!(self.phase, RecoveryPhase::Recovery { .. }) {
                let smoothed = self.retransmission.smoothed_rtt().unwrap_or(rtt);
                self.window.handle_round_trip(now, rtt, smoothed, [self.scoreboard.una(), self.scoreboard.next()]);
            }
        }
        self.duplicates = 0;
        self.timeouts_in_turn = 0;
        let una = self.scoreboard.una();
        let restarts = match &mut self.phase {
            RecoveryPhase::Recovery { point, has_moved_on, .. } if una < *point => {
                !std::mem::replace(has_moved_on, true) || !self.is_impatient
            }
            _ => true,
        };
        if una == self.scoreboard.next() {
            self.timer = Time::NEVER;
        } else if restarts {
            self.timer = now.saturating_add(self.retransmission.timeout());
        }
    }

    /// Returns the window growth in bytes by an advance of the acknowledgement number. Zero during recovery, or while
    /// new SACK blocks arrive; all newly acknowledged bytes at its end; after a timeout, those beyond its recovery point.
    fn grown_by_acked(&self, update: AckUpdate) -> u64 {
        let una = self.scoreboard.una();
        match self.phase {
            RecoveryPhase::Open if update.sacked > 0 => 0,
            RecoveryPhase::Recovery { point, .. } if una < point => 0,
            RecoveryPhase::AfterTimeout { point } if una >= point => una - point,
            _ => update.acked,
        }
    }

    fn rtt(&self) -> Span {
        self.retransmission.smoothed_rtt().unwrap_or(Span::ZERO)
    }

    fn begin_recovery(&mut self) {
        let una = self.scoreboard.una();
        self.window.cut_for_loss(una < self.cut_end);
        self.scoreboard.mark_first_lost(u64::from(self.mss));
        let (point, flight) = (self.scoreboard.next(), self.pipe);
        let rate = ProportionalRateReduction::new(flight);
        self.phase = RecoveryPhase::Recovery { began_at: una, point, rate, is_rescued: false, has_moved_on: false };
        self.handle_cut();
        self.stats.fast_recoveries += 1;
    }

    fn end_recovery(&mut self) {
        if let RecoveryPhase::Recovery { point, .. } | RecoveryPhase::AfterTimeout { point } = self.phase
            && self.scoreboard.una() >= point
        {
            self.phase = RecoveryPhase::Open;
        }
    }

    /// Records a cut of the window, so that data in flight causes no further cut.
    fn handle_cut(&mut self) {
        self.cut_end = self.scoreboard.next();
        self.cwr = self.is_ecn_capable;
    }

    /// Whether the window limited the data in flight in this round trip.
    fn is_window_used(&self) -> bool {
        let window = self.window.bytes();
        self.flight_max + u64::from(self.mss) > window || (self.window.is_slow_start() && 2 * self.flight_max > window)
    }
}

impl NextSegment {
    fn range(self) -> (u64, u64) {
        let (NextSegment::New(start, end) | NextSegment::Again(start, end) | NextSegment::Rescue(start, end)) = self;
        (start, end)
    }
}
