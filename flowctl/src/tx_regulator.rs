//! Receiver of a port, for all flow controls: limits transmission as the peer demands.

use weir_units::{BitRate, Class, ClassSet, Span, Time};
use weir_wire::mac_control::ControlFrame;

use crate::gfc::ClassRates;
use crate::pfc::{LastPause, PauseTimers};
use crate::sync::{AtomicU64, Ordering};
use crate::{FlowControlReceiver, Gauges, MessageKind, PortFlowControl, PortParameters, Quantum};

/// Regulator of a port's transmission by its flow control.
///
/// The one lcore that receives on the port calls [`TxRegulator::handle`], the transmitting lcore calls the rest.
// Fields that are read for each frame come first.
#[derive(Debug)]
#[repr(C)]
pub struct TxRegulator {
    /// Pause timers, expired under a flow control without pauses. Read without a virtual call.
    pause_timers: PauseTimers,
    /// Classes whose rates the peer sets.
    rated: ClassSet,
    /// Classes that need credit.
    credited: ClassSet,
    /// Classes whose sent frames are counted.
    counted: ClassSet,
    receiver: Box<dyn FlowControlReceiver>,
    /// Instant of the last obeyed message, in picoseconds.
    last_message_at: AtomicU64,
}

impl TxRegulator {
    /// Creates the regulator of a port of this rate; `classes` are those under GFC or credit.
    pub fn new(flow_control: &PortFlowControl, rate: BitRate, classes: ClassSet) -> TxRegulator {
        let receiver = flow_control.receiver(PortParameters { rate, classes });
        let classes_if = |has: bool| if has { classes } else { ClassSet::EMPTY };
        TxRegulator {
            pause_timers: PauseTimers::new(Quantum::for_rate(rate)),
            rated: classes_if(receiver.rates().is_some()),
            credited: classes_if(receiver.needs_credit()),
            counted: classes_if(receiver.counts_sent()),
            receiver,
            last_message_at: AtomicU64::new(0),
        }
    }

    /// Sets the port's rate from now on; a pause under way keeps its end. Callable from any thread. Not where the flow control [depends
    /// on it](crate::FlowControl::depends_on_rate).
    pub fn set_rate(&self, rate: BitRate) {
        self.pause_timers.set_quantum(Quantum::for_rate(rate));
    }

    /// Obeys a message received at `now`; returns whether it belongs to the port's flow control. Other messages are ignored.
    pub fn handle(&self, now: Time, frame: &ControlFrame) -> bool {
        let is_obeyed = self.receiver.handle(now, frame, &self.pause_timers);
        if is_obeyed {
            // Relaxed: for reports only.
            self.last_message_at.store(now.as_picos(), Ordering::Relaxed);
        }
        is_obeyed
    }

    /// Resets the peer's demands, as the link has gone: no pauses, GFC's classes at the line rate, no credit. Called at `now` by
    /// the lcore that transmits. A message handled concurrently may still take effect.
    pub fn reset(&self, now: Time) {
        self.pause_timers.end_pauses(now);
        self.receiver.reset(now);
    }

    /// Sets the kind of messages to obey: [`FlowControlReceiver::set_message_kind`]. Call [`TxRegulator::reset`] afterwards.
    pub fn set_message_kind(&self, kind: MessageKind) {
        self.receiver.set_message_kind(kind);
    }

    /// Whether the port obeys PFC.
    pub fn obeys_pfc(&self) -> bool {
        self.receiver.obeys_pfc()
    }

    /// Returns the classes paused at `now`.
    #[inline]
    pub fn paused(&self, now: Time) -> ClassSet {
        self.pause_timers.paused(now)
    }

    /// Returns the rates that limit the classes, under GFC.
    #[inline]
    pub fn rates(&self) -> Option<&ClassRates> {
        if self.rated.is_empty() { None } else { self.receiver.rates() }
    }

    /// Returns a class's rate at `now`, under GFC.
    pub fn rate(&self, now: Time, class: Class) -> Option<BitRate> {
        self.rates().map(|rates| rates.rate(now, class))
    }

    /// Returns the classes limited by [`TxRegulator::rates`].
    pub fn rated_classes(&self) -> ClassSet {
        self.rated
    }

    /// Returns the classes that need credit.
    #[inline]
    pub fn credit_classes(&self) -> ClassSet {
        self.credited
    }

    /// Returns the classes that share their credit; none if each has its own.
    pub fn credit_sharing(&self) -> ClassSet {
        if self.receiver.shares_credit() { self.credited } else { ClassSet::EMPTY }
    }

    /// Returns whether credit lets a frame of this length (without FCS) be sent.
    #[inline]
    pub fn has_credit(&self, class: Class, frame_bytes: u32) -> bool {
        !self.credited.contains(class) || self.receiver.has_credit(class, frame_bytes)
    }

    /// Returns whether [`TxRegulator::handle_sent`] must be called for each frame.
    #[inline]
    pub fn counts_sent(&self) -> bool {
        !self.counted.is_empty()
    }

    /// Counts a sent frame of this length (without FCS).
    #[inline]
    pub fn handle_sent(&self, class: Class, frame_bytes: u32) {
        if self.counted.contains(class) {
            self.receiver.handle_sent(class, frame_bytes);
        }
    }

    /// Returns whether credit surely covers all these frames, with `bytes` in total, one after the other.
    #[inline]
    pub fn has_credit_for(&self, class: Class, frames: &[u32], bytes: u32) -> bool {
        !self.credited.contains(class) || self.receiver.has_credit_for(class, frames, bytes)
    }

    /// Counts frames sent at once, as [`TxRegulator::handle_sent`].
    #[inline]
    pub fn handle_all_sent(&self, class: Class, frames: &[u32]) {
        if self.counted.contains(class) {
            self.receiver.handle_all_sent(class, frames);
        }
    }

    /// Returns FCTBS, the blocks of a class counted as sent; 0 where none are counted.
    #[inline]
    pub fn sent_total(&self, class: Class) -> u32 {
        self.receiver.sent_total(class)
    }

    /// Returns the earliest instant after `now` at which a pause ends; `None` without a pause.
    pub fn next_wakeup(&self, now: Time) -> Option<Time> {
        self.pause_timers.next_wakeup(now)
    }

    /// Whether pauses, rates or gauges may change after `now` even if no message arrives.
    pub fn depends_on_time(&self, now: Time) -> bool {
        let rates = self.rates();
        let ends = |rates: &ClassRates, class| (now..Time::NEVER).contains(&rates.advertised(class).until);
        let may_change =
            |class| rates.is_some_and(|rates| ends(rates, class)) || self.gauges(now, class).iter().next().is_some();
        self.next_wakeup(now).is_some() || Class::ALL.into_iter().any(may_change)
    }

    /// Returns the total paused time of a class until `now`, and its number of changes from running to paused.
    pub fn pause_time(&self, now: Time, class: Class) -> (Span, u64) {
        self.pause_timers.pause_time(now, class)
    }

    /// Returns the last pause of a class as of `now`; `None` if there was none.
    pub fn last_pause(&self, now: Time, class: Class) -> Option<LastPause> {
        self.pause_timers.last_pause(now, class)
    }

    /// Returns the instant of the last obeyed message.
    pub fn last_message_at(&self) -> Time {
        Time::from_picos(self.last_message_at.load(Ordering::Relaxed))
    }

    /// Returns the number of invalid messages: [`FlowControlReceiver::invalid_messages`].
    pub fn invalid_messages(&self) -> u64 {
        self.receiver.invalid_messages()
    }

    /// Returns the number of invalid messages of another flow control: [`FlowControlReceiver::mismatched_messages`].
    pub fn mismatched_messages(&self) -> u64 {
        self.receiver.mismatched_messages()
    }

    /// Returns the number of messages with more credit than the buffer: [`FlowControlReceiver::excessive_credits`].
    pub fn excessive_credits(&self) -> u64 {
        self.receiver.excessive_credits()
    }

    /// Returns the gauges of a class at `now`: [`FlowControlReceiver::gauges`].
    pub fn gauges(&self, now: Time, class: Class) -> Gauges {
        self.receiver.gauges(now, class)
    }
}

#[cfg(test)]
mod tests {
    use weir_units::Bytes;

    use super::*;
    use crate::gfc::{RateMapping, StageTable};
    use crate::kinds::{Cbfc, GfcBuffer, GfcConceptual, GfcPulse, GfcTime, NoFlowControl, Pause, Pfc};
    use weir_wire::mac_control::{CreditFrame, PfcFrame, QueueLengthFrame};

    const RATE: BitRate = BitRate::gbps(10);
    const CLASS: Class = Class::new(3);

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1_000)
    }

    fn regulator(flow_control: &PortFlowControl) -> TxRegulator {
        TxRegulator::new(flow_control, RATE, CLASS.alone())
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

    fn all() -> [PortFlowControl; 8] {
        let (buffer, period) = (Bytes::mb(1), Span::from_micros(50));
        let mapping = RateMapping::without_guarantee(buffer, Bytes::kb(492), RATE).unwrap();
        let ageing = period * 64;
        [
            PortFlowControl::new(NoFlowControl),
            PortFlowControl::new(Pfc { quanta: 100, refresh_percent: 50 }),
            PortFlowControl::new(Pause { quanta: 100, refresh_percent: 50 }),
            PortFlowControl::new(GfcBuffer { stages: stages(), refresh: period, ageing }),
            PortFlowControl::new(GfcPulse {
                stages: stages(),
                period,
                peer_pfc: Pfc { quanta: 100, refresh_percent: 50 },
            }),
            PortFlowControl::new(GfcTime { mapping, buffer, period, ageing, stops: false }),
            PortFlowControl::new(Cbfc { buffer, period }),
            PortFlowControl::new(GfcConceptual { mapping, period, refresh: period, ageing }),
        ]
    }

    #[test]
    fn each_obeys_what_it_speaks_and_nothing_else() {
        let obeyed = |frame: ControlFrame| all().map(|flow_control| regulator(&flow_control).handle(at(1), &frame));
        assert_eq!(obeyed(pfc(1)), [false, true, false, true, true, false, false, false]);
        assert_eq!(obeyed(ControlFrame::Pause(1)), [false, false, true, false, false, false, false, false]);
        assert_eq!(obeyed(credit(1)), [false, false, false, false, false, true, true, false]);
        let queue = ControlFrame::Queue(QueueLengthFrame { enabled: CLASS.alone(), lengths: [1; 8] });
        assert_eq!(obeyed(queue), [false, false, false, false, false, false, false, true]);
    }

    /// A GFC stage pauses a port under PFC for some quanta, and a PAUSE slows a port under GFC without stopping it.
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
        assert_eq!((rate(at(1)), gfc.invalid_messages(), gfc.mismatched_messages()), (stages().rate(u16::MAX), 1, 1));
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
        assert_eq!((port.last_message_at(), port.credit_classes()), (at(1), CLASS.alone()));
    }

    #[test]
    fn gfc_that_stops_at_b_m_holds_a_class_by_a_pause_or_for_want_of_credit() {
        let (buffer, period) = (Bytes::mb(1), Span::from_micros(50));
        let (refresh, ageing) = (period, period * 64);
        let by_stages = regulator(&PortFlowControl::new(GfcBuffer { stages: stages().with_stop(), refresh, ageing }));
        assert!(by_stages.handle(at(0), &pfc(20)));
        assert_eq!((by_stages.paused(at(1)), by_stages.invalid_messages()), (CLASS.alone(), 0));
        by_stages.handle(at(2), &pfc(19));
        assert_eq!(by_stages.paused(at(2)), ClassSet::EMPTY);
        by_stages.handle(at(3), &pfc(20));
        by_stages.reset(at(4));
        assert_eq!(by_stages.paused(at(4)), ClassSet::EMPTY);
        let mapping = RateMapping::without_guarantee(buffer, Bytes::kb(492), RATE).unwrap();
        let by_time = regulator(&PortFlowControl::new(GfcTime { mapping, buffer, period, ageing, stops: true }));
        assert!(!by_time.has_credit(CLASS, 60), "as under CBFC, a peer gives no credit before its first message");
        by_time.handle(at(1), &credit(1));
        assert!(by_time.has_credit(CLASS, 60) && by_time.rate(at(1), CLASS).unwrap() < BitRate::mbps(2));
        by_time.handle_sent(CLASS, 60);
        assert!(!by_time.has_credit(CLASS, 60) && by_time.has_credit(Class::new(0), 60));
    }

    #[test]
    fn reset_forgets_earlier_messages_and_obeys_later_ones() {
        let queue = |length| ControlFrame::Queue(QueueLengthFrame { enabled: CLASS.alone(), lengths: [length; 8] });
        let all = all();
        let may_send = |port: &TxRegulator| {
            let has_rate = port.rate(at(2), CLASS).is_none_or(|rate| rate == RATE);
            port.paused(at(2)) == ClassSet::EMPTY && has_rate && port.has_credit(CLASS, 1_514)
        };
        for (flow_control, slow) in [(1, pfc(1_000)), (2, ControlFrame::Pause(1_000)), (3, pfc(1)), (7, queue(900_000))]
        {
            let port = regulator(&all[flow_control]);
            for now in [0, 2] {
                port.handle(at(now), &slow);
                assert!(!may_send(&port), "{:?}", all[flow_control]);
                if now == 0 {
                    port.reset(at(1));
                    assert!(may_send(&port), "{:?}", all[flow_control]);
                }
            }
        }
        for flow_control in [&all[5], &all[6]] {
            let port = regulator(flow_control);
            port.handle(at(0), &credit(300));
            port.handle_sent(CLASS, 1_514);
            port.reset(at(1));
            assert_eq!((port.sent_total(CLASS), port.rate(at(1), CLASS).unwrap_or(RATE)), (0, RATE));
            assert_eq!(port.has_credit(CLASS, 60), flow_control.downcast::<GfcTime>().is_some());
            port.handle(at(2), &credit(30));
            assert_eq!(port.invalid_messages(), 0, "the peer's counts restart too");
        }
    }

    /// One forged PAUSE on a port whose peer sends no further message.
    #[test]
    fn no_single_message_holds_a_gfc_class_for_good() {
        let queue = ControlFrame::Queue(QueueLengthFrame { enabled: ClassSet::ALL, lengths: [u32::MAX; 8] });
        let none =
            ControlFrame::Credit(CreditFrame { enabled: ClassSet::ALL, limits: [0; 8], ..CreditFrame::default() });
        for (flow_control, forged) in [(&all()[3], pfc(u16::MAX)), (&all()[5], none), (&all()[7], queue)] {
            let port = regulator(flow_control);
            port.handle_sent(CLASS, 1_000_000);
            assert!(port.handle(at(0), &forged));
            assert!(port.rate(at(3_199), CLASS).unwrap() < BitRate::mbps(1), "{flow_control:?}");
            assert_eq!(port.rate(at(3_200), CLASS), Some(RATE), "{flow_control:?}");
        }
    }

    /// One forged credit of 2^31 - 1 blocks.
    #[test]
    fn no_single_message_gives_more_credit_than_the_buffer() {
        let port = regulator(&all()[6]);
        let credit_bytes = 15_625 * 64 - 4;
        for limit in [(1 << 31) - 1, 1 << 30, 15_626] {
            port.handle(at(0), &credit(limit));
            assert!(!port.has_credit(CLASS, 60), "{limit}: beyond the peer's buffer");
        }
        port.handle(at(0), &credit(15_625));
        assert!(port.has_credit(CLASS, credit_bytes) && !port.has_credit(CLASS, credit_bytes + 1));
        assert_eq!((port.invalid_messages(), port.excessive_credits()), (3, 3));
    }
}
