//! Upstream side of a port, for all flow controls: limits transmission as the peer demands.

use weir_units::archive::SharedState;
use weir_units::{BitRate, Class, ClassSet, Span, Time};
use weir_wire::mac_control::ControlFrame;

use crate::gfc::Rates;
use crate::pfc::{Gate, LastPause};
use crate::sync::{AtomicU64, Ordering};
use crate::{Gauges, Mechanism, Quantum, Side, Tells, Upstream};

/// Receiver of a port's flow control.
///
/// The one lcore that receives on the port calls [`Regulator::handle`], the transmitting lcore calls the rest.
// Fields that are read for each frame come first.
#[derive(Debug, SharedState)]
#[repr(C)]
pub struct Regulator {
    /// Pause timers, open under a flow control without pauses. Read without a virtual call.
    gate: Gate,
    /// Classes whose rates the peer sets.
    #[state(same)]
    rated: ClassSet,
    /// Classes that need credit.
    #[state(same)]
    credited: ClassSet,
    /// Classes whose sent frames are counted.
    #[state(same)]
    counted: ClassSet,
    upstream: Box<dyn Upstream>,
    /// Instant of the last obeyed message, in picoseconds.
    heard_at: AtomicU64,
}

impl Regulator {
    /// Creates the regulator of a port of this rate; `classes` are those under GFC or credit.
    pub fn new(mechanism: &Mechanism, rate: BitRate, classes: ClassSet) -> Regulator {
        let upstream = mechanism.upstream(Side { rate, classes });
        let classes_if = |has: bool| if has { classes } else { ClassSet::EMPTY };
        Regulator {
            gate: Gate::new(Quantum::at(rate)),
            rated: classes_if(upstream.rates().is_some()),
            credited: classes_if(upstream.needs_credit()),
            counted: classes_if(upstream.counts_sent()),
            upstream,
            heard_at: AtomicU64::new(0),
        }
    }

    /// Sets the port's rate from now on; a pause under way keeps its end. Callable from any thread. Not where the mechanism [is
    /// made for a rate](crate::Protocol::is_made_for_a_rate).
    pub fn set_rate(&self, rate: BitRate) {
        self.gate.set_quantum(Quantum::at(rate));
    }

    /// Obeys a message received at `now`; returns whether it belongs to the port's flow control. Other messages are ignored.
    pub fn handle(&self, now: Time, frame: &ControlFrame) -> bool {
        let is_obeyed = self.upstream.handle(now, frame, &self.gate);
        if is_obeyed {
            // Relaxed: for reports only.
            self.heard_at.store(now.as_picos(), Ordering::Relaxed);
        }
        is_obeyed
    }

    /// Resets the peer's demands, as the link has gone: no pauses, GFC's classes at the line rate, no credit. Called at `now` by
    /// the lcore that transmits. A message handled concurrently may still take effect.
    pub fn forget(&self, now: Time) {
        self.gate.end_pauses(now);
        self.upstream.forget(now);
    }

    /// Sets the kind of messages to obey: [`Upstream::obey`]. Call [`Regulator::forget`] afterwards.
    pub fn obey(&self, tells: Tells) {
        self.upstream.obey(tells);
    }

    /// Whether the port obeys PFC.
    pub fn obeys_pfc(&self) -> bool {
        self.upstream.obeys_pfc()
    }

    /// Returns the classes paused at `now`.
    #[inline]
    pub fn paused(&self, now: Time) -> ClassSet {
        self.gate.paused(now)
    }

    /// Returns the rates that limit the classes, under GFC.
    #[inline]
    pub fn rates(&self) -> Option<&Rates> {
        if self.rated.is_empty() { None } else { self.upstream.rates() }
    }

    /// Returns a class's rate at `now`, under GFC.
    pub fn rate(&self, now: Time, class: Class) -> Option<BitRate> {
        self.rates().map(|rates| rates.at(now, class))
    }

    /// Returns the classes limited by [`Regulator::rates`].
    pub fn rated_classes(&self) -> ClassSet {
        self.rated
    }

    /// Returns the classes that need credit.
    #[inline]
    pub fn credit_classes(&self) -> ClassSet {
        self.credited
    }

    /// Returns whether credit lets a frame of this length (without FCS) be sent.
    #[inline]
    pub fn has_credit(&self, class: Class, frame_bytes: u32) -> bool {
        !self.credited.contains(class) || self.upstream.has_credit(class, frame_bytes)
    }

    /// Returns whether [`Regulator::handle_sent`] must be called for each frame.
    #[inline]
    pub fn counts_sent(&self) -> bool {
        !self.counted.is_empty()
    }

    /// Counts a sent frame of this length (without FCS).
    #[inline]
    pub fn handle_sent(&self, class: Class, frame_bytes: u32) {
        if self.counted.contains(class) {
            self.upstream.handle_sent(class, frame_bytes);
        }
    }

    /// Returns whether credit surely covers all these frames, with `bytes` in total, one after the other.
    #[inline]
    pub fn has_credit_for(&self, class: Class, frames: &[u32], bytes: u32) -> bool {
        !self.credited.contains(class) || self.upstream.has_credit_for(class, frames, bytes)
    }

    /// Counts frames sent at once, as [`Regulator::handle_sent`].
    #[inline]
    pub fn handle_all_sent(&self, class: Class, frames: &[u32]) {
        if self.counted.contains(class) {
            self.upstream.handle_all_sent(class, frames);
        }
    }

    /// Returns FCTBS, the blocks of a class counted as sent; 0 where none are counted.
    #[inline]
    pub fn sent_total(&self, class: Class) -> u32 {
        self.upstream.sent_total(class)
    }

    /// Returns the earliest instant after `now` at which a pause ends; `None` without a pause.
    pub fn next_wakeup(&self, now: Time) -> Option<Time> {
        self.gate.next_wakeup(now)
    }

    /// Returns the total paused time of a class until `now`, and its number of changes from running to paused.
    pub fn pause_time(&self, now: Time, class: Class) -> (Span, u64) {
        self.gate.pause_time(now, class)
    }

    /// Returns the last pause of a class as of `now`; `None` if there was none.
    pub fn last_pause(&self, now: Time, class: Class) -> Option<LastPause> {
        self.gate.last_pause(now, class)
    }

    /// Returns the instant of the last obeyed message.
    pub fn heard_at(&self) -> Time {
        Time::from_picos(self.heard_at.load(Ordering::Relaxed))
    }

    /// Returns the number of invalid messages: [`Upstream::odd_messages`].
    pub fn odd_messages(&self) -> u64 {
        self.upstream.odd_messages()
    }

    /// Returns the number of invalid messages of another flow control: [`Upstream::foreign_messages`].
    pub fn foreign_messages(&self) -> u64 {
        self.upstream.foreign_messages()
    }

    /// Returns the number of messages with more credit than the buffer: [`Upstream::excessive_credits`].
    pub fn excessive_credits(&self) -> u64 {
        self.upstream.excessive_credits()
    }

    /// Returns the gauges of a class at `now`: [`Upstream::gauges`].
    pub fn gauges(&self, now: Time, class: Class) -> Gauges {
        self.upstream.gauges(now, class)
    }
}

#[cfg(test)]
mod tests {
    use weir_units::Bytes;

    use super::*;
    use crate::gfc::{Mapping, StageTable};
    use crate::kinds::{Cbfc, GfcBuffer, GfcConceptual, GfcPulse, GfcTime, NoFlowControl, Pause, Pfc};
    use weir_wire::mac_control::{CreditFrame, PfcFrame, QueueFrame};

    const RATE: BitRate = BitRate::gbps(10);
    const CLASS: Class = Class::new(3);

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1_000)
    }

    fn regulator(mechanism: &Mechanism) -> Regulator {
        Regulator::new(mechanism, RATE, CLASS.alone())
    }

    fn pfc(time: u16) -> ControlFrame {
        ControlFrame::Pfc(PfcFrame { enabled: CLASS.alone(), times: [time; 8] })
    }

    fn credit(limit: u32) -> ControlFrame {
        ControlFrame::Credit(CreditFrame { enabled: CLASS.alone(), limits: [limit; 8], ..CreditFrame::default() })
    }

    fn stages() -> StageTable {
        StageTable::new(Bytes::mb(1), Bytes::kb(750), RATE, Span::from_micros(90)).unwrap()
    }

    fn all() -> [Mechanism; 8] {
        let (buffer, period) = (Bytes::mb(1), Span::from_micros(50));
        let mapping = Mapping::without_guarantee(buffer, Bytes::kb(492), RATE).unwrap();
        let ageing = period * 64;
        [
            Mechanism::new(NoFlowControl),
            Mechanism::new(Pfc { quanta: 100, refresh_percent: 50 }),
            Mechanism::new(Pause { quanta: 100, refresh_percent: 50 }),
            Mechanism::new(GfcBuffer { stages: stages(), refresh: period, ageing }),
            Mechanism::new(GfcPulse { stages: stages(), period, of_a_nic: Pfc { quanta: 100, refresh_percent: 50 } }),
            Mechanism::new(GfcTime { mapping, buffer, period, ageing, stops: false }),
            Mechanism::new(Cbfc { buffer, period }),
            Mechanism::new(GfcConceptual { mapping, period, refresh: period, ageing }),
        ]
    }

    #[test]
    fn each_obeys_what_it_speaks_and_nothing_else() {
        let obeyed = |frame: ControlFrame| all().map(|mechanism| regulator(&mechanism).handle(at(1), &frame));
        assert_eq!(obeyed(pfc(1)), [false, true, false, true, true, false, false, false]);
        assert_eq!(obeyed(ControlFrame::Pause(1)), [false, false, true, false, false, false, false, false]);
        assert_eq!(obeyed(credit(1)), [false, false, false, false, false, true, true, false]);
        let queue = ControlFrame::Queue(QueueFrame { enabled: CLASS.alone(), lengths: [1; 8] });
        assert_eq!(obeyed(queue), [false, false, false, false, false, false, false, true]);
    }

    /// A GFC stage at a gate that only knows PFC pauses for some quanta, and a PAUSE at a GFC port slows it and does not
    /// stop it.
    #[test]
    fn gfc_and_pfc_do_each_other_no_harm() {
        let legacy = regulator(&all()[1]);
        for stage in 0..=stages().stages() {
            legacy.handle(at(0), &pfc(stage));
            assert_eq!(legacy.paused(at(0)) != ClassSet::EMPTY, stage > 0);
            assert_eq!(
                legacy.paused(at(1)),
                ClassSet::EMPTY,
                "stage {stage} holds for less than a microsecond at 10 Gb/s"
            );
        }
        let gfc = regulator(&all()[3]);
        gfc.handle(at(0), &pfc(u16::MAX));
        assert_eq!(gfc.paused(at(1)), ClassSet::EMPTY);
        let rate = |now| gfc.rate(now, CLASS).unwrap();
        assert_eq!((rate(at(1)), gfc.odd_messages(), gfc.foreign_messages()), (stages().rate(u16::MAX), 1, 1));
        assert!(rate(at(1)) >= crate::RATE_MIN);
        gfc.handle(at(2), &pfc(0));
        assert_eq!(rate(at(2)), RATE, "RESUME is stage 0");
    }

    #[test]
    fn credit_holds_only_its_classes() {
        let port = regulator(&all()[6]);
        assert!(!port.has_credit(CLASS, 60) && port.has_credit(Class::new(0), 60));
        port.handle(at(1), &credit(1));
        assert!(port.has_credit(CLASS, 60));
        port.handle_sent(CLASS, 60);
        assert!(!port.has_credit(CLASS, 60));
        assert_eq!((port.heard_at(), port.credit_classes()), (at(1), CLASS.alone()));
    }

    #[test]
    fn gfc_that_stops_at_b_m_holds_a_class_by_a_pause_or_for_want_of_credit() {
        let (buffer, period) = (Bytes::mb(1), Span::from_micros(50));
        let (refresh, ageing) = (period, period * 64);
        let by_stages = regulator(&Mechanism::new(GfcBuffer { stages: stages().with_stop(), refresh, ageing }));
        assert!(by_stages.handle(at(0), &pfc(20)));
        assert_eq!((by_stages.paused(at(1)), by_stages.odd_messages()), (CLASS.alone(), 0));
        by_stages.handle(at(2), &pfc(19));
        assert_eq!(by_stages.paused(at(2)), ClassSet::EMPTY);
        by_stages.handle(at(3), &pfc(20));
        by_stages.forget(at(4));
        assert_eq!(by_stages.paused(at(4)), ClassSet::EMPTY);
        let mapping = Mapping::without_guarantee(buffer, Bytes::kb(492), RATE).unwrap();
        let by_time = regulator(&Mechanism::new(GfcTime { mapping, buffer, period, ageing, stops: true }));
        assert!(!by_time.has_credit(CLASS, 60), "as under CBFC, a peer that has said nothing has given none");
        by_time.handle(at(1), &credit(1));
        assert!(by_time.has_credit(CLASS, 60) && by_time.rate(at(1), CLASS).unwrap() < BitRate::mbps(2));
        by_time.handle_sent(CLASS, 60);
        assert!(!by_time.has_credit(CLASS, 60) && by_time.has_credit(Class::new(0), 60));
    }

    #[test]
    fn what_the_peer_said_is_forgotten_and_what_it_says_then_is_not() {
        let queue = |length| ControlFrame::Queue(QueueFrame { enabled: CLASS.alone(), lengths: [length; 8] });
        let all = all();
        let may_send = |port: &Regulator| {
            let has_rate = port.rate(at(2), CLASS).is_none_or(|rate| rate == RATE);
            port.paused(at(2)) == ClassSet::EMPTY && has_rate && port.has_credit(CLASS, 1_514)
        };
        for (mechanism, slow) in [(1, pfc(1_000)), (2, ControlFrame::Pause(1_000)), (3, pfc(1)), (7, queue(900_000))] {
            let port = regulator(&all[mechanism]);
            for now in [0, 2] {
                port.handle(at(now), &slow);
                assert!(!may_send(&port), "{:?}", all[mechanism]);
                if now == 0 {
                    port.forget(at(1));
                    assert!(may_send(&port), "{:?}", all[mechanism]);
                }
            }
        }
        for mechanism in [&all[5], &all[6]] {
            let port = regulator(mechanism);
            port.handle(at(0), &credit(300));
            port.handle_sent(CLASS, 1_514);
            port.forget(at(1));
            assert_eq!((port.sent_total(CLASS), port.rate(at(1), CLASS).unwrap_or(RATE)), (0, RATE));
            assert_eq!(port.has_credit(CLASS, 60), mechanism.downcast::<GfcTime>().is_some());
            port.handle(at(2), &credit(30));
            assert_eq!(port.odd_messages(), 0, "the peer's counts start anew too");
        }
    }

    /// One forged PAUSE on a port whose peer says nothing more.
    #[test]
    fn no_single_message_holds_a_gfc_class_for_good() {
        let queue = ControlFrame::Queue(QueueFrame { enabled: ClassSet::ALL, lengths: [u32::MAX; 8] });
        let none =
            ControlFrame::Credit(CreditFrame { enabled: ClassSet::ALL, limits: [0; 8], ..CreditFrame::default() });
        for (mechanism, forged) in [(&all()[3], pfc(u16::MAX)), (&all()[5], none), (&all()[7], queue)] {
            let port = regulator(mechanism);
            port.handle_sent(CLASS, 1_000_000);
            assert!(port.handle(at(0), &forged));
            assert!(port.rate(at(3_199), CLASS).unwrap() < BitRate::mbps(1), "{mechanism:?}");
            assert_eq!(port.rate(at(3_200), CLASS), Some(RATE), "{mechanism:?}");
        }
    }

    /// One forged credit of 2^31 - 1 blocks.
    #[test]
    fn no_single_message_gives_more_credit_than_the_buffer() {
        let port = regulator(&all()[6]);
        let whole = 15_625 * 64 - 4;
        for limit in [(1 << 31) - 1, 1 << 30, 15_626] {
            port.handle(at(0), &credit(limit));
            assert!(!port.has_credit(CLASS, 60), "{limit}: beyond what the peer's buffer has");
        }
        port.handle(at(0), &credit(15_625));
        assert!(port.has_credit(CLASS, whole) && !port.has_credit(CLASS, whole + 1));
        assert_eq!((port.odd_messages(), port.excessive_credits()), (3, 3));
    }
}
