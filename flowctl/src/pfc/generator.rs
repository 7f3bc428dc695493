//! Initiator of PFC and PAUSE: frames for the MMU's XOFF classes.

use weir_units::{CLASSES, Class, ClassSet, Span, Time};
use weir_wire::mac_control::{ControlFrame, PfcFrame};

use crate::Quantum;

/// Generator of PFC or PAUSE frames: compares the classes in XOFF with those last advertised.
///
/// Frames depend on state, not on events: after several changes between two polls, one frame has the last state. A PAUSE
/// is repeated before it expires while its class stays in XOFF; a RESUME is sent once, since the peer's timer
/// would end the pause anyway.
///
/// Call [`PfcGenerator::poll`], send the returned frame, and confirm with [`PfcGenerator::handle_sent`]; a frame that could
/// not be sent is returned again by the next poll.
#[derive(Debug)]
pub struct PfcGenerator {
    /// Pause time, in quanta.
    quanta: u16,
    /// Share of the pause time after which a PAUSE is repeated.
    refresh_percent: u8,
    /// Refresh interval: `refresh_percent` of the pause time.
    refresh: Span,
    /// Sends one 802.3x PAUSE for all classes instead of PFC.
    is_global_pause: bool,
    advertised: ClassSet,
    refresh_at: Time,
}

impl PfcGenerator {
    /// Creates a generator of PFC frames with pauses of `quanta`, repeated after `refresh_percent` of the pause time.
    ///
    /// # Panics
    /// If `quanta` is zero, which would resume, or the share is not within 1 to 99.
    pub fn pfc(quantum: Quantum, quanta: u16, refresh_percent: u8) -> PfcGenerator {
        assert!(quanta > 0, "a pause of no quanta is a RESUME");
        assert!((1..100).contains(&refresh_percent), "a PAUSE is refreshed before it ends");
        let refresh = share(quantum, quanta, refresh_percent);
        PfcGenerator {
            quanta,
            refresh_percent,
            refresh,
            is_global_pause: false,
            advertised: ClassSet::EMPTY,
            refresh_at: Time::NEVER,
        }
    }

    /// Sets the quantum for the link's rate from `now` on. A PAUSE in effect is due again at once: the rest of it may be
    /// shorter at the peer, or gone with the link.
    pub fn set_quantum(&mut self, now: Time, quantum: Quantum) {
        self.refresh = share(quantum, self.quanta, self.refresh_percent);
        if !self.advertised.is_empty() {
            self.refresh_at = self.refresh_at.min(now);
        }
    }

    /// Creates a generator of 802.3x PAUSE frames: the link is paused while any class is in XOFF.
    ///
    /// # Panics
    /// As [`PfcGenerator::pfc`].
    pub fn pause(quantum: Quantum, quanta: u16, refresh_percent: u8) -> PfcGenerator {
        PfcGenerator { is_global_pause: true, ..PfcGenerator::pfc(quantum, quanta, refresh_percent) }
    }

    /// Returns the frame due at `now` for the XOFF classes `off`.
    #[inline]
    pub fn poll(&self, now: Time, off: ClassSet) -> Option<ControlFrame> {
        if off == self.advertised && now < self.refresh_at { None } else { self.frame(off) }
    }

    fn frame(&self, off: ClassSet) -> Option<ControlFrame> {
        if self.is_global_pause {
            return (!off.is_empty() || !self.advertised.is_empty())
                .then_some(ControlFrame::Pause(if off.is_empty() { 0 } else { self.quanta }));
        }
        // A change of one class is as good a moment as any to refresh the others.
        let enabled = off | self.advertised;
        let time = |class: usize| if off.contains(Class::ALL[class]) { self.quanta } else { 0 };
        let times: [u16; CLASSES] = std::array::from_fn(time);
        (!enabled.is_empty()).then_some(ControlFrame::Pfc(PfcFrame { enabled, times }))
    }

    /// Records that the frame that [`PfcGenerator::poll`] returned for `off` has been sent at `now`.
    pub fn handle_sent(&mut self, now: Time, off: ClassSet) {
        self.advertised = off;
        self.refresh_at = if off.is_empty() { Time::NEVER } else { now.saturating_add(self.refresh) };
    }

    /// Resets the advertised state to the start.
    pub(crate) fn restart(&mut self) {
        (self.advertised, self.refresh_at) = (ClassSet::EMPTY, Time::NEVER);
    }

    /// Returns the classes that the peer believes paused.
    pub fn advertised(&self) -> ClassSet {
        self.advertised
    }

    /// Returns the instant at which a PAUSE must be repeated; [`Time::NEVER`] without a PAUSE.
    pub fn next_wakeup(&self) -> Time {
        self.refresh_at
    }
}

fn share(quantum: Quantum, quanta: u16, percent: u8) -> Span {
    (quantum.times(quanta) * u64::from(percent)).divided_by(100)
}

#[cfg(test)]
mod tests {
    use weir_units::BitRate;

    use super::*;

    fn generator() -> PfcGenerator {
        PfcGenerator::pfc(Quantum::for_rate(BitRate::gbps(10)), 1_000, 50)
    }

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1_000)
    }

    fn pfc(frame: Option<ControlFrame>) -> PfcFrame {
        match frame {
            Some(ControlFrame::Pfc(pfc)) => pfc,
            other => panic!("no PFC frame: {other:?}"),
        }
    }

    #[test]
    fn pause_refresh_resume() {
        let mut generator = generator();
        assert_eq!(generator.poll(at(0), ClassSet::EMPTY), None);
        let pause = pfc(generator.poll(at(1), ClassSet::from_bits(0b1000)));
        assert_eq!(
            (pause.enabled, pause.paused(), pause.times[3]),
            (ClassSet::from_bits(0b1000), ClassSet::from_bits(0b1000), 1_000)
        );
        generator.handle_sent(at(1), ClassSet::from_bits(0b1000));
        // 1,000 quanta are 51.2 us; the refresh is due after half of it.
        assert_eq!(generator.poll(at(26), ClassSet::from_bits(0b1000)), None);
        assert_eq!(generator.next_wakeup(), at(1) + Span::from_nanos(25_600));
        assert_eq!(pfc(generator.poll(at(27), ClassSet::from_bits(0b1000))).paused(), ClassSet::from_bits(0b1000));
        generator.handle_sent(at(27), ClassSet::from_bits(0b1000));
        let resume = pfc(generator.poll(at(28), ClassSet::EMPTY));
        assert_eq!(
            (resume.enabled, resume.paused(), resume.resumed()),
            (ClassSet::from_bits(0b1000), ClassSet::EMPTY, ClassSet::from_bits(0b1000))
        );
        generator.handle_sent(at(28), ClassSet::EMPTY);
        assert_eq!(generator.poll(at(1_000), ClassSet::EMPTY), None);
        assert_eq!(generator.next_wakeup(), Time::NEVER);
    }

    #[test]
    fn at_another_rate_a_pause_is_repeated_at_once_and_then_in_its_quanta() {
        let mut generator = generator();
        generator.set_quantum(at(0), Quantum::for_rate(BitRate::gbps(1)));
        assert_eq!(
            (generator.poll(at(0), ClassSet::EMPTY), generator.next_wakeup()),
            (None, Time::NEVER),
            "nothing is out"
        );
        generator.handle_sent(at(1), ClassSet::from_bits(1));
        assert_eq!(generator.next_wakeup(), at(1 + 256));
        generator.set_quantum(at(5), Quantum::for_rate(BitRate::gbps(100)));
        assert_eq!(pfc(generator.poll(at(5), ClassSet::from_bits(1))).times[0], 1_000, "the same quanta");
        generator.handle_sent(at(5), ClassSet::from_bits(1));
        assert_eq!(generator.next_wakeup(), at(5) + Span::from_nanos(2_560));
    }

    #[test]
    fn a_frame_not_sent_is_due_again() {
        let generator = generator();
        assert_eq!(generator.poll(at(1), ClassSet::from_bits(1)), generator.poll(at(2), ClassSet::from_bits(1)));
    }

    #[test]
    fn a_change_and_back_between_polls_sends_nothing() {
        let mut generator = generator();
        generator.handle_sent(at(0), ClassSet::from_bits(0b0100));
        assert_eq!(generator.poll(at(1), ClassSet::from_bits(0b0100)), None);
    }

    #[test]
    fn one_frame_pauses_one_class_and_resumes_another() {
        let mut generator = generator();
        generator.handle_sent(at(0), ClassSet::from_bits(0b0001));
        let frame = pfc(generator.poll(at(1), ClassSet::from_bits(0b1000)));
        assert_eq!((frame.paused(), frame.resumed()), (ClassSet::from_bits(0b1000), ClassSet::from_bits(0b0001)));
    }

    #[test]
    fn global_pause_covers_all_classes() {
        let mut generator = PfcGenerator::pause(Quantum::for_rate(BitRate::gbps(10)), 77, 50);
        assert_eq!(generator.poll(at(0), ClassSet::from_bits(0b10)), Some(ControlFrame::Pause(77)));
        generator.handle_sent(at(0), ClassSet::from_bits(0b10));
        assert_eq!(generator.poll(at(1), ClassSet::EMPTY), Some(ControlFrame::Pause(0)));
    }

    /// The peer's timer keeps a class in XOFF paused without a gap, over 2,000 polls.
    #[test]
    fn the_peer_never_runs_while_its_class_is_off() {
        let quantum = Quantum::for_rate(BitRate::gbps(10));
        let gate = super::super::PauseTimers::new(quantum);
        let mut generator = PfcGenerator::pfc(quantum, 1_000, 50);
        for us in 0..2_000 {
            let off = Class::new(1).alone();
            if let Some(ControlFrame::Pfc(frame)) = generator.poll(at(us), off) {
                gate.handle_pfc(at(us), &frame);
                generator.handle_sent(at(us), off);
            }
            assert_eq!(gate.paused(at(us)), off);
        }
    }
}
