//! Sender and receiver of link layer retry (LLR) at one end of a link, sans-I/O. Source: UEC 1.0, 5.1.
//!
//! The sender numbers frames and keeps a copy of each until the receiver acknowledges it. The receiver takes frames in sequence and
//! reports a gap or a bad FCS once, with a NACK; the sender then goes back to the first frame that is not acknowledged, as it does
//! when the replay timer expires. If replays bring no progress, the sender gives up its copies and starts anew (SAI: FLUSH, then INIT).
//!
//! The public texts (SAI and SONiC) leave open, and Weir takes:
//! - Acknowledgements go out as soon as their spacing allows, also for the last frame and for duplicates, after which a gap is reported
//!   again.
//! - The replay timer begins with the last byte of the first copy, and anew with progress and after a replay.
//! - Replays by NACK and by timer count alike, until one brings progress. They go on while the link is cut.
//! - After giving up, no frame is sent until the peer has echoed the INIT, which is repeated at the replay timer.

use std::collections::VecDeque;

use weir_scenario::link::LlrPlan;
use weir_units::{Span, Time};

/// Message between the ends of a link: a control ordered set of 8 B, below the MAC. Numbers are those of the next frame in sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LlrMessage {
    /// All earlier frames were received.
    Ack(u16),
    /// All earlier frames were received, and later ones are discarded.
    Nack(u16),
    /// The sender starts anew with this number.
    Init(u16),
    /// The receiver expects this number since the INIT.
    Echo(u16),
}

/// Reason for which a sender frees a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyEnd {
    Acknowledged,
    GivenUp,
}

/// Counters of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LlrCounters {
    pub(super) replays: u64,
    pub(super) replayed_frames: u64,
    pub(super) replayed_bytes: u64,
    /// Frames given up after replays without progress, or as the link went down.
    pub(super) given_up: u64,
    /// Time for which a frame waited for room in the replay buffer.
    pub(super) full_for: Span,
}

/// Sending end. Order of calls at an instant: [`LlrSender::handle`] for each message that has arrived, [`LlrSender::handle_timer`],
/// then [`LlrSender::poll_message`] and [`LlrSender::replay`] while the wire is free, and [`LlrSender::send`] if neither has a frame.
#[derive(Debug)]
pub(super) struct LlrSender<F> {
    plan: LlrPlan,
    state: SenderState,
    /// Replay buffer: frames without acknowledgement, each with its length.
    copies: VecDeque<(F, u32)>,
    bytes: u64,
    /// Number of the first copy, or of the next frame if there is none.
    first: u16,
    /// Replays since the last progress.
    attempts: u32,
    timer: Time,
    full_since: Option<Time>,
    counters: LlrCounters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SenderState {
    Advance,
    /// The copy at this index is sent next.
    Replay(usize),
    /// The INIT is to be sent, or was and is not echoed yet.
    Init {
        is_due: bool,
    },
}

impl<F> LlrSender<F> {
    pub(super) fn new(plan: LlrPlan) -> LlrSender<F> {
        LlrSender {
            plan,
            state: SenderState::Advance,
            copies: VecDeque::new(),
            bytes: 0,
            first: 0,
            attempts: 0,
            timer: Time::NEVER,
            full_since: None,
            counters: LlrCounters::default(),
        }
    }

    /// Whether a new frame of any length may be sent.
    pub(super) fn is_open(&self) -> bool {
        self.state == SenderState::Advance && self.has_room()
    }

    fn has_room(&self) -> bool {
        self.bytes + u64::from(self.plan.frame_bytes_max) <= self.plan.outstanding_bytes.get()
            && self.copies.len() < self.plan.outstanding_frames as usize
    }

    /// Takes the copy of a new frame with [that number](LlrSender::next_number), whose last byte leaves at `until`.
    pub(super) fn send(&mut self, until: Time, copy: F, frame_bytes: u32) {
        debug_assert!(self.is_open(), "frames are sent only if they may be");
        if self.copies.is_empty() {
            self.timer = until + self.plan.replay_timer;
        }
        self.copies.push_back((copy, frame_bytes));
        self.bytes += u64::from(frame_bytes);
    }

    /// Returns the number of the next new frame.
    pub(super) fn next_number(&self) -> u16 {
        self.first.wrapping_add(self.copies.len() as u16)
    }

    /// Handles the peer's message; copies that are needed no longer go to `free`.
    pub(super) fn handle(&mut self, now: Time, message: LlrMessage, mut free: impl FnMut(F, CopyEnd)) {
        match (message, self.state) {
            (LlrMessage::Echo(number), SenderState::Init { .. }) if number == self.first => {
                (self.state, self.timer) = (SenderState::Advance, Time::NEVER);
                self.end_full(now);
            }
            (LlrMessage::Ack(next), SenderState::Advance | SenderState::Replay(_)) => {
                self.free_before(now, next, &mut free);
            }
            (LlrMessage::Nack(next), SenderState::Advance | SenderState::Replay(_)) => {
                self.free_before(now, next, &mut free);
                self.start_replay(now, free);
            }
            _ => {}
        }
    }

    /// Frees the copies before number `next`.
    fn free_before(&mut self, now: Time, next: u16, free: &mut impl FnMut(F, CopyEnd)) {
        let count = usize::from(next.wrapping_sub(self.first));
        if count == 0 || count > self.copies.len() {
            return;
        }
        for (copy, frame_bytes) in self.copies.drain(..count) {
            self.bytes -= u64::from(frame_bytes);
            free(copy, CopyEnd::Acknowledged);
        }
        (self.first, self.attempts) = (next, 0);
        match self.state {
            _ if self.copies.is_empty() => (self.state, self.timer) = (SenderState::Advance, Time::NEVER),
            SenderState::Replay(at) => self.state = SenderState::Replay(at.saturating_sub(count)),
            _ => self.timer = now + self.plan.replay_timer,
        }
        self.end_full(now);
    }

    /// Goes back to the first copy, or gives up all copies after the most replays.
    fn start_replay(&mut self, now: Time, free: impl FnMut(F, CopyEnd)) {
        if self.copies.is_empty() {
            return;
        }
        if self.attempts == self.plan.replay_count {
            self.give_up(now, free);
            self.state = SenderState::Init { is_due: true };
            return;
        }
        self.attempts += 1;
        self.counters.replays += 1;
        (self.state, self.timer) = (SenderState::Replay(0), Time::NEVER);
    }

    /// Gives up all copies.
    fn give_up(&mut self, now: Time, mut free: impl FnMut(F, CopyEnd)) {
        self.first = self.next_number();
        self.counters.given_up += self.copies.len() as u64;
        self.copies.drain(..).for_each(|(copy, _)| free(copy, CopyEnd::GivenUp));
        (self.bytes, self.attempts, self.timer) = (0, 0, Time::NEVER);
        self.end_full(now);
    }

    /// Gives up all copies, and starts anew with number 0 as the peer does, when the link goes down or comes up.
    pub(super) fn reset(&mut self, now: Time, free: impl FnMut(F, CopyEnd)) {
        self.give_up(now, free);
        (self.first, self.state) = (0, SenderState::Advance);
    }

    /// Handles the replay timer if it has expired.
    pub(super) fn handle_timer(&mut self, now: Time, free: impl FnMut(F, CopyEnd)) {
        if now < self.timer {
            return;
        }
        self.timer = Time::NEVER;
        match self.state {
            SenderState::Init { .. } => self.state = SenderState::Init { is_due: true },
            _ => self.start_replay(now, free),
        }
    }

    /// Returns the instant at which the replay timer expires.
    pub(super) fn timer(&self) -> Time {
        self.timer
    }

    /// Whether a message or a replay waits for the wire.
    pub(super) fn is_due(&self) -> bool {
        matches!(self.state, SenderState::Init { is_due: true } | SenderState::Replay(_))
    }

    /// Returns the message to be sent at `now`, if one is due.
    pub(super) fn poll_message(&mut self, now: Time) -> Option<LlrMessage> {
        if self.state != (SenderState::Init { is_due: true }) {
            return None;
        }
        (self.state, self.timer) = (SenderState::Init { is_due: false }, now + self.plan.replay_timer);
        Some(LlrMessage::Init(self.first))
    }

    /// Passes the next frame to be replayed to `put` with its number, if there is one; `put` returns the instant at which its last
    /// byte leaves. Returns whether there was one.
    pub(super) fn replay(&mut self, put: impl FnOnce(u16, &F) -> Time) -> bool {
        let SenderState::Replay(at) = self.state else { return false };
        let (copy, frame_bytes) = &self.copies[at];
        let until = put(self.first.wrapping_add(at as u16), copy);
        self.counters.replayed_frames += 1;
        self.counters.replayed_bytes += u64::from(*frame_bytes);
        match at + 1 == self.copies.len() {
            true => (self.state, self.timer) = (SenderState::Advance, until + self.plan.replay_timer),
            false => self.state = SenderState::Replay(at + 1),
        }
        true
    }

    /// Records that a frame waits because the replay buffer has no room.
    pub(super) fn record_waiting(&mut self, now: Time) {
        if self.state == SenderState::Advance && !self.has_room() {
            self.full_since.get_or_insert(now);
        }
    }

    fn end_full(&mut self, now: Time) {
        if self.has_room()
            && let Some(since) = self.full_since.take()
        {
            self.counters.full_for += now.since(since);
        }
    }

    /// Returns the counters as of `now`, with a wait that has not ended.
    pub(super) fn counters(&self, now: Time) -> LlrCounters {
        let waiting = self.full_since.map_or(Span::ZERO, |since| now.since(since));
        LlrCounters { full_for: self.counters.full_for + waiting, ..self.counters }
    }
}

/// Receiving end. Call [`LlrReceiver::receive`] for each frame that arrives, then [`LlrReceiver::poll_message`] while the wire back is
/// free, and again at [`LlrReceiver::next_wakeup`].
#[derive(Debug, Default)]
pub(super) struct LlrReceiver {
    /// Number of the next frame in sequence.
    expected: u16,
    /// Whether a NACK was sent or is due, and the expected frame has not arrived since.
    is_behind: bool,
    is_ack_due: bool,
    is_nack_due: bool,
    is_echo_due: bool,
    /// First instant at which an acknowledgement may be sent.
    ack_from: Time,
}

impl LlrReceiver {
    /// Handles a frame; returns whether it is the next one in sequence. All others are to be discarded.
    pub(super) fn receive(&mut self, number: u16) -> bool {
        match number.wrapping_sub(self.expected) as i16 {
            0 => {
                self.expected = number.wrapping_add(1);
                (self.is_behind, self.is_nack_due, self.is_ack_due) = (false, false, true);
                true
            }
            1.. => {
                self.record_missing();
                false
            }
            // The peer replays, and the acknowledgement or the NACK may be lost.
            _ => {
                (self.is_behind, self.is_ack_due) = (false, true);
                false
            }
        }
    }

    /// Records a frame with a bad FCS, or one that is missing.
    pub(super) fn record_missing(&mut self) {
        if !self.is_behind {
            (self.is_behind, self.is_nack_due, self.is_ack_due) = (true, true, false);
        }
    }

    /// Handles the INIT of a sender that starts anew with this number.
    pub(super) fn handle_init(&mut self, number: u16) {
        *self = LlrReceiver { expected: number, is_echo_due: true, ack_from: self.ack_from, ..LlrReceiver::default() };
    }

    /// Returns the message to be sent at `now`, if one is due.
    pub(super) fn poll_message(&mut self, now: Time) -> Option<LlrMessage> {
        if std::mem::take(&mut self.is_echo_due) {
            return Some(LlrMessage::Echo(self.expected));
        }
        if std::mem::take(&mut self.is_nack_due) {
            return Some(LlrMessage::Nack(self.expected));
        }
        let is_due = self.is_ack_due && self.ack_from <= now;
        is_due.then(|| {
            self.is_ack_due = false;
            LlrMessage::Ack(self.expected)
        })
    }

    /// Records that a message was sent: no acknowledgement follows before `ack_from`.
    pub(super) fn record_sent(&mut self, ack_from: Time) {
        self.ack_from = ack_from;
    }

    /// Returns the instant at which a message is due.
    pub(super) fn next_wakeup(&self) -> Time {
        match (self.is_echo_due || self.is_nack_due, self.is_ack_due) {
            (true, _) => Time::ZERO,
            (false, true) => self.ack_from,
            (false, false) => Time::NEVER,
        }
    }
}

#[cfg(test)]
mod tests;
