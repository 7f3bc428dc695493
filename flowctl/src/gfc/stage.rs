//! Buffer-based GFC: the downstream port advertises the stage of each class's queue, and the upstream port sends at its rate (gfc
//! 4.2, 5.1).
//!
//! The message is a PFC frame with the stage in Time\[j\]. Stage 0 is time 0, so that a PFC RESUME restores the line rate
//! here; a PFC-only peer reads stage k as a pause of k quanta, which is harmless.

use weir_units::{Bytes, CLASSES, Class, ClassSet, Span, Time};
use weir_wire::mac_control::PfcFrame;

use super::{ClassRates, StageTable};
use crate::Quantum;
use crate::pfc::PauseTimers;
use crate::sync::{AtomicU64, Ordering};

/// Message generator of the downstream side: decides which frame is due for the queues' lengths.
///
/// A frame is due when the stage of any class has changed, and again after `refresh` without change, stage 0 included. A
/// stage expires at the peer unless repeated, and a message lost while queues drain would leave the peer slow until then.
/// The first poll sends a frame too, for a peer that this port slowed before a restart.
///
/// Call [`StageGenerator::poll`], send the returned frame, and confirm with [`StageGenerator::handle_sent`]; a frame that could not be sent
/// is due again at the next poll. After several changes between two polls, one frame advertises the last stage.
#[derive(Debug)]
pub struct StageGenerator {
    table: StageTable,
    classes: ClassSet,
    refresh: Span,
    advertised: [u16; CLASSES],
    refresh_at: Time,
}

impl StageGenerator {
    /// Creates a generator for `classes` that repeats its message after `refresh`.
    ///
    /// # Panics
    /// If `refresh` is zero.
    pub fn new(table: StageTable, classes: ClassSet, refresh: Span) -> StageGenerator {
        assert!(refresh > Span::ZERO, "a message without pause would fill the link");
        StageGenerator { table, classes, refresh, advertised: [0; CLASSES], refresh_at: Time::ZERO }
    }

    /// Returns the frame due at `now` for these queue lengths; all classes under GFC are in it.
    #[inline]
    pub fn poll(&self, now: Time, queues: &[Bytes; CLASSES]) -> Option<PfcFrame> {
        let changed = |class: Class| self.table.stage_of(queues[class.index()]) != self.advertised[class.index()];
        (now >= self.refresh_at || self.classes.iter().any(changed)).then(|| self.frame(queues)).flatten()
    }

    fn frame(&self, queues: &[Bytes; CLASSES]) -> Option<PfcFrame> {
        let mut times = [0; CLASSES];
        self.classes.iter().for_each(|class| times[class.index()] = self.table.stage_of(queues[class.index()]));
        (!self.classes.is_empty()).then_some(PfcFrame { enabled: self.classes, times })
    }

    /// Records that a frame from [`StageGenerator::poll`] was sent at `now`.
    pub fn handle_sent(&mut self, now: Time, frame: &PfcFrame) {
        self.advertised = frame.times;
        self.refresh_at = now.saturating_add(self.refresh);
    }

    /// Resets the state to the start, with the first message due at `at`.
    pub(crate) fn restart(&mut self, at: Time) {
        (self.advertised, self.refresh_at) = ([0; CLASSES], at);
    }

    /// Returns the stage last advertised.
    pub fn advertised(&self, class: Class) -> u16 {
        self.advertised[class.index()]
    }

    /// Returns the instant at which the last message must be repeated.
    pub fn next_wakeup(&self) -> Time {
        self.refresh_at
    }
}

/// Rate adjuster of the upstream side: turns received stages into the rates of the classes' limiters.
///
/// Written by the one lcore that receives on the port; the transmitting lcore reads [`StageRateAdjuster::rates`]. A rate holds until
/// the next message, or until the stage expires. Only the [stop](StageTable::with_stop) of a table, its stage above N, stops the
/// class; it is enforced as a pause.
#[derive(Debug)]
pub struct StageRateAdjuster {
    table: StageTable,
    /// Lifetime of a stage that is not repeated.
    ageing: Span,
    quantum: Quantum,
    rates: ClassRates,
    stages_above_last: AtomicU64,
    pauses: AtomicU64,
}

/// Upper bound on the stages of a table: the rates of the fastest links (3.2 Tb/s) reach [`RATE_MIN`](crate::RATE_MIN) after 29, and a
/// buffer of 2^63 B the last length after 64. A larger time in a message is a pause of a peer that uses PFC.
pub const STAGES_MAX: u16 = 64;

impl StageRateAdjuster {
    /// Creates an adjuster with all classes in stage 0, on a link with this pause quantum. The table must be that of the peer; only
    /// the number of its thresholds matters here.
    pub fn new(table: StageTable, ageing: Span, quantum: Quantum) -> StageRateAdjuster {
        let rates = ClassRates::new(table.rate(0));
        StageRateAdjuster {
            table,
            ageing,
            quantum,
            rates,
            stages_above_last: AtomicU64::new(0),
            pauses: AtomicU64::new(0),
        }
    }

    /// Obeys a message received at `now`: each class in it gets the rate of its stage until the stage expires. A stage above the
    /// last counts as the last.
    ///
    /// A PAUSE of a peer that uses PFC slows a class to the last stage's rate for the pause time, if that is shorter. A PAUSE
    /// of up to [`STAGES_MAX`] quanta is indistinguishable from a stage.
    pub fn handle_frame(&self, now: Time, frame: &PfcFrame) {
        for class in frame.enabled.iter() {
            let stage = frame.times[class.index()];
            let mut holds = self.ageing;
            // One writer; read for reports only.
            let add = |count: &AtomicU64| count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            if stage > STAGES_MAX.max(self.table.last()) {
                add(&self.pauses);
                holds = holds.min(self.quantum.times(stage));
            } else if stage > self.table.last() {
                add(&self.stages_above_last);
            }
            self.rates.set(class, self.table.rate(stage), now.saturating_add(holds));
        }
    }

    /// Pauses each class of the message whose stage is the stop, until the stage expires, and resumes its other classes. Called for
    /// a table with a [stop](StageTable::with_stop), in addition to [`StageRateAdjuster::handle_frame`].
    pub(crate) fn obey_stops(&self, now: Time, frame: &PfcFrame, pause_timers: &PauseTimers) {
        let Some(stop) = self.table.stop() else { return };
        for class in frame.enabled.iter() {
            let holds = if frame.times[class.index()] == stop { self.ageing } else { Span::ZERO };
            pause_timers.hold(now, class, now.saturating_add(holds));
        }
    }

    /// Sets all classes to the line rate from `now` on; called by the transmitter.
    pub fn reset(&self, now: Time) {
        self.rates.expire_all(now);
    }

    /// Returns the classes' rates.
    pub fn rates(&self) -> &ClassRates {
        &self.rates
    }

    /// Returns the number of received stages above the last: the peer has other thresholds, or speaks PFC.
    pub(crate) fn stages_above_last(&self) -> u64 {
        self.stages_above_last.load(Ordering::Relaxed)
    }

    /// Returns the number of pauses received as stages: the peer speaks PFC.
    pub fn pauses(&self) -> u64 {
        self.pauses.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_units::BitRate;

    use super::*;
    use crate::gfc::AdvertisedRate;
    use weir_wire::mac_control::ControlFrame;

    const RATE: BitRate = BitRate::gbps(10);

    fn table() -> StageTable {
        StageTable::new(Bytes::mb(1), Bytes::kb(750), RATE, Span::from_micros(90)).unwrap()
    }

    fn generator() -> StageGenerator {
        StageGenerator::new(table(), ClassSet::from_bits(0b1000), Span::from_micros(50))
    }

    fn queue(kb: u64) -> [Bytes; CLASSES] {
        [Bytes::kb(kb); CLASSES]
    }

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1_000)
    }

    #[test]
    fn a_message_on_every_change_of_stage_and_none_within_one() {
        let mut generator = generator();
        let mut sent = Vec::new();
        for (us, kb) in [0, 700, 749, 750, 800, 874, 875, 940, 969, 900, 760, 749, 0].into_iter().enumerate() {
            if let Some(frame) = generator.poll(at(us as u64), &queue(kb)) {
                generator.handle_sent(at(us as u64), &frame);
                assert_eq!(frame.enabled, ClassSet::from_bits(0b1000));
                sent.push((kb, frame.times[3]));
            }
        }
        assert_eq!(sent, [(0, 0), (750, 1), (875, 2), (940, 3), (969, 4), (900, 2), (760, 1), (749, 0)]);
    }

    #[test]
    fn the_last_message_is_repeated_even_stage_zero() {
        let mut generator = generator();
        for kb in [800, 100] {
            let frame = generator.poll(at(0), &queue(kb)).unwrap();
            generator.handle_sent(at(0), &frame);
            assert_eq!(generator.poll(at(49), &queue(kb)), None);
            assert_eq!(generator.next_wakeup(), at(50));
            assert_eq!(generator.poll(at(50), &queue(kb)), Some(frame));
        }
    }

    #[test]
    fn a_port_without_gfc_sends_nothing() {
        let generator = StageGenerator::new(table(), ClassSet::EMPTY, Span::from_micros(50));
        assert_eq!(generator.poll(at(1_000), &queue(999)), None);
    }

    #[test]
    fn stage_zero_is_a_resume_to_pfc_and_a_stage_a_few_quanta() {
        let mut generator = generator();
        let slow = generator.poll(at(0), &queue(999)).unwrap();
        generator.handle_sent(at(0), &slow);
        let free = generator.poll(at(1), &queue(0)).unwrap();
        assert_eq!((slow.paused(), slow.times[3]), (ClassSet::from_bits(0b1000), 8));
        assert_eq!((free.paused(), free.resumed()), (ClassSet::EMPTY, ClassSet::from_bits(0b1000)));
    }

    #[test]
    fn a_peer_that_only_knows_pfc_stops_for_a_microsecond_at_most() {
        let (generator, pause_timers) = (generator(), crate::pfc::PauseTimers::new(crate::Quantum::for_rate(RATE)));
        let frame = generator.poll(at(0), &[Bytes::mb(2); CLASSES]).unwrap();
        pause_timers.handle_pfc(at(10), &frame);
        assert_eq!(
            (pause_timers.paused(at(10)), pause_timers.paused(at(11))),
            (ClassSet::from_bits(0b1000), ClassSet::EMPTY)
        );
    }

    const AGEING: Span = Span::from_micros(400);

    fn adjuster() -> StageRateAdjuster {
        StageRateAdjuster::new(table(), AGEING, Quantum::for_rate(RATE))
    }

    #[test]
    fn the_named_classes_get_the_rate_of_their_stage() {
        let adjuster = adjuster();
        adjuster
            .handle_frame(at(1), &PfcFrame { enabled: ClassSet::from_bits(0b110), times: [9, 1, 3, 9, 9, 9, 9, 9] });
        let rates = [0, 1, 2, 3].map(|class| adjuster.rates().rate(at(2), Class::new(class)));
        assert_eq!(rates, [RATE, BitRate::gbps(5), BitRate::mbps(1_250), RATE]);
        assert_eq!((adjuster.stages_above_last(), adjuster.pauses()), (0, 0));
    }

    #[test]
    fn a_stage_that_does_not_exist_is_the_last_and_counted() {
        let adjuster = adjuster();
        adjuster.handle_frame(at(0), &PfcFrame { enabled: ClassSet::from_bits(1), times: [STAGES_MAX; CLASSES] });
        assert_eq!(
            adjuster.rates().advertised(Class::new(0)),
            AdvertisedRate { rate: table().rate(19), until: Time::ZERO + AGEING }
        );
        assert_eq!((adjuster.stages_above_last(), adjuster.pauses()), (1, 0));
    }

    #[test]
    fn a_stage_ages_unless_it_is_advertised_again() {
        let (adjuster, class) = (adjuster(), Class::new(3));
        let stage = PfcFrame { enabled: class.alone(), times: [2; CLASSES] };
        let rate = |us| adjuster.rates().rate(at(us), class);
        adjuster.handle_frame(at(10), &stage);
        assert_eq!([409, 410].map(rate), [BitRate::mbps(2_500), RATE]);
        adjuster.handle_frame(at(300), &stage);
        assert_eq!([410, 699, 700].map(rate), [BitRate::mbps(2_500), BitRate::mbps(2_500), RATE]);
        // Another class's message is none of this one's.
        adjuster.handle_frame(at(690), &PfcFrame { enabled: ClassSet::from_bits(1), times: [2; CLASSES] });
        assert_eq!(rate(700), RATE);
    }

    #[test]
    fn a_queue_of_b_m_stops_its_class_until_it_is_shorter_or_the_stage_has_aged() {
        let mut generator =
            StageGenerator::new(table().with_stop(), ClassSet::from_bits(0b1000), Span::from_micros(50));
        let adjuster = StageRateAdjuster::new(table().with_stop(), AGEING, Quantum::for_rate(RATE));
        let (pause_timers, class) = (PauseTimers::new(Quantum::for_rate(RATE)), Class::new(3));
        let mut advertised = |us, kb| {
            let frame = generator.poll(at(us), &queue(kb)).unwrap();
            generator.handle_sent(at(us), &frame);
            adjuster.handle_frame(at(us), &frame);
            adjuster.obey_stops(at(us), &frame, &pause_timers);
            (frame.times[3], pause_timers.paused(at(us)))
        };
        assert_eq!(advertised(0, 1_000), (20, class.alone()));
        assert_eq!(advertised(10, 999), (8, ClassSet::EMPTY));
        assert_eq!(advertised(20, 1_200), (20, class.alone()));
        assert_eq!([419, 420].map(|us| pause_timers.paused(at(us))), [class.alone(), ClassSet::EMPTY]);
        assert_eq!((adjuster.stages_above_last(), adjuster.pauses()), (0, 0));
        assert_eq!(adjuster.rates().advertised(class).rate, table().rate(19));
    }

    /// A PAUSE of 1,000 quanta is 51.2 us at 10 Gb/s.
    #[test]
    fn a_pause_of_pfc_slows_for_as_long_as_it_asks_for() {
        let (adjuster, class) = (adjuster(), Class::new(3));
        let pause = |quanta| PfcFrame { enabled: class.alone(), times: [quanta; CLASSES] };
        let rate = |us| adjuster.rates().rate(at(us), class);
        adjuster.handle_frame(at(0), &pause(1_000));
        assert_eq!([51, 52].map(rate), [table().rate(19), RATE]);
        adjuster.handle_frame(at(100), &pause(u16::MAX));
        assert_eq!([499, 500].map(rate), [table().rate(19), RATE], "no longer than a stage");
        adjuster.handle_frame(at(120), &pause(0));
        assert_eq!((rate(120), adjuster.pauses(), adjuster.stages_above_last()), (RATE, 2, 0));
    }

    proptest! {
        /// One refresh period after any lost and forged messages the peer has the rate of the queue's stage. Without further
        /// messages it has the line rate when the stage expires.
        #[test]
        fn lost_and_forged_messages_heal_in_a_refresh_period(
            steps in prop::collection::vec((0..1_000u64, any::<bool>(), prop::option::weighted(0.1, any::<u16>())), 1..200),
        ) {
            let (mut generator, adjuster) = (generator(), adjuster());
            let mut now = at(0);
            let mut step = |queues: &[Bytes; CLASSES], lost: bool, forged: Option<u16>| {
                now += Span::from_micros(7);
                if let Some(time) = forged {
                    adjuster.handle_frame(now, &PfcFrame { enabled: ClassSet::ALL, times: [time; CLASSES] });
                }
                let Some(frame) = generator.poll(now, queues) else { return now };
                generator.handle_sent(now, &frame);
                let bytes = ControlFrame::Pfc(frame).encode(Default::default());
                if let (Ok(ControlFrame::Pfc(frame)), false) = (ControlFrame::decode(&bytes), lost) {
                    adjuster.handle_frame(now, &frame);
                }
                now
            };
            for (kb, lost, forged) in &steps {
                step(&queue(*kb), *lost, *forged);
            }
            let last = queue(steps.last().unwrap().0);
            let now = (0..8).map(|_| step(&last, false, None)).last().unwrap();
            let stage = table().stage_of(last[3]);
            prop_assert_eq!(adjuster.rates().rate(now, Class::new(3)), table().rate(stage));
            prop_assert_eq!(adjuster.rates().rate(now + AGEING, Class::new(3)), RATE);
        }
    }
}
