//! Buffer-based GFC: the downstream port tells the stage of each class's queue, the upstream port sends at its rate
//! (gfc 4.2, 5.1).
//!
//! The message is a PFC frame with the stage in Time\[j\]. Stage 0 is time 0, so that what resumes a class under PFC sets it
//! free here; a peer that only knows PFC reads stage k as a pause of k quanta, which is harmless.

use crate::sync::{AtomicU64, Ordering};

use weir_units::{Bytes, CLASSES, Class, Span, Time};

use super::{Rates, StageTable};
use crate::frame::PfcFrame;

/// The downstream side: says which frame is due for the queues' lengths.
///
/// A frame is due when the stage of any class has changed, and again after `refresh` without change, stage 0 included: a
/// stage has no timer that would end it, so a message lost while queues drain would leave the peer slow for ever.
/// The first poll sends one too, which sets a peer right that this port slowed before it was restarted.
///
/// Call [`Generator::poll`], send what it returns, and confirm with [`Generator::handle_sent`]; a frame that could not be sent
/// is due again at the next poll. However often stages changed between two polls, one frame tells the last.
#[derive(Debug)]
pub struct Generator {
    table: StageTable,
    /// Classes under GFC, one bit each.
    classes: u8,
    refresh: Span,
    advertised: [u16; CLASSES],
    refresh_at: Time,
}

impl Generator {
    /// A generator for `classes` (one bit each) that repeats itself after `refresh`.
    ///
    /// # Panics
    /// If `refresh` is zero.
    pub fn new(table: StageTable, classes: u8, refresh: Span) -> Generator {
        assert!(refresh > Span::ZERO, "a message without pause would fill the link");
        Generator { table, classes, refresh, advertised: [0; CLASSES], refresh_at: Time::ZERO }
    }

    /// The frame due at `now` for ingress queues of these lengths; every class under GFC is in it.
    #[inline]
    pub fn poll(&self, now: Time, queues: &[Bytes; CLASSES]) -> Option<PfcFrame> {
        let changed = |class: Class| self.table.stage_of(queues[class.index()]) != self.advertised[class.index()];
        (now >= self.refresh_at || Class::in_mask(self.classes).any(changed)).then(|| self.frame(queues)).flatten()
    }

    fn frame(&self, queues: &[Bytes; CLASSES]) -> Option<PfcFrame> {
        let mut times = [0; CLASSES];
        Class::in_mask(self.classes)
            .for_each(|class| times[class.index()] = self.table.stage_of(queues[class.index()]));
        (self.classes != 0).then_some(PfcFrame { enabled: self.classes, times })
    }

    /// Notes that a frame that [`Generator::poll`] returned has been sent at `now`.
    pub fn handle_sent(&mut self, now: Time, frame: &PfcFrame) {
        self.advertised = frame.times;
        self.refresh_at = now.saturating_add(self.refresh);
    }

    /// The stage that the peer was last told.
    pub fn advertised(&self, class: Class) -> u16 {
        self.advertised[class.index()]
    }

    /// When the last message must be repeated.
    pub fn next_wakeup(&self) -> Time {
        self.refresh_at
    }
}

/// The upstream side: turns received stages into the rates of the classes' limiters.
///
/// Written by the one lcore that receives on the port; the one that transmits reads [`Adjuster::rates`]. A rate holds until
/// the next message: no timer, and no stage that stops the class.
#[derive(Debug)]
pub struct Adjuster {
    table: StageTable,
    rates: Rates,
    stages_above_last: AtomicU64,
}

impl Adjuster {
    /// All classes in stage 0. The table must be that of the peer; of its thresholds only their number counts here.
    pub fn new(table: StageTable) -> Adjuster {
        Adjuster { rates: Rates::new(table.rate(0)), table, stages_above_last: AtomicU64::new(0) }
    }

    /// Obeys a message: each class that it names goes to the rate of its stage, or of the last stage for one that does not
    /// exist. A PAUSE of a peer that speaks PFC slows a class to that rate too.
    pub fn handle_frame(&self, frame: &PfcFrame) {
        for class in Class::in_mask(frame.enabled) {
            let stage = frame.times[class.index()];
            if stage > self.table.stages() {
                // One writer; read for reports only.
                let before = self.stages_above_last.load(Ordering::Relaxed);
                self.stages_above_last.store(before + 1, Ordering::Relaxed);
            }
            self.rates.set(class, self.table.rate(stage));
        }
    }

    /// What the classes may send at.
    pub fn rates(&self) -> &Rates {
        &self.rates
    }

    /// Received stages above the last: the peer has other thresholds, or speaks PFC.
    pub fn stages_above_last(&self) -> u64 {
        self.stages_above_last.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_units::BitRate;

    use super::*;
    use crate::frame::ControlFrame;

    const RATE: BitRate = BitRate::gbps(10);

    fn table() -> StageTable {
        StageTable::new(Bytes::mb(1), Bytes::kb(750), RATE, Span::from_micros(90)).unwrap()
    }

    fn generator() -> Generator {
        Generator::new(table(), 0b1000, Span::from_micros(50))
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
                assert_eq!(frame.enabled, 0b1000);
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
        let generator = Generator::new(table(), 0, Span::from_micros(50));
        assert_eq!(generator.poll(at(1_000), &queue(999)), None);
    }

    #[test]
    fn stage_zero_is_a_resume_to_pfc_and_a_stage_a_few_quanta() {
        let mut generator = generator();
        let slow = generator.poll(at(0), &queue(999)).unwrap();
        generator.handle_sent(at(0), &slow);
        let free = generator.poll(at(1), &queue(0)).unwrap();
        assert_eq!((slow.paused(), slow.times[3]), (0b1000, 8));
        assert_eq!((free.paused(), free.resumed()), (0, 0b1000));
    }

    #[test]
    fn a_peer_that_only_knows_pfc_stops_for_a_microsecond_at_most() {
        let (generator, gate) = (generator(), crate::pfc::Gate::new(crate::Quantum::at(RATE)));
        let frame = generator.poll(at(0), &[Bytes::mb(2); CLASSES]).unwrap();
        gate.handle_pfc(at(10), &frame);
        assert_eq!((gate.paused(at(10)), gate.paused(at(11))), (0b1000, 0));
    }

    #[test]
    fn the_named_classes_get_the_rate_of_their_stage() {
        let adjuster = Adjuster::new(table());
        adjuster.handle_frame(&PfcFrame { enabled: 0b110, times: [9, 1, 3, 9, 9, 9, 9, 9] });
        let rates = [0, 1, 2, 3].map(|class| adjuster.rates().rate(Class::new(class)));
        assert_eq!(rates, [RATE, BitRate::gbps(5), BitRate::mbps(1_250), RATE]);
        assert_eq!(adjuster.stages_above_last(), 0);
    }

    #[test]
    fn a_stage_that_does_not_exist_is_the_last_and_counted() {
        let adjuster = Adjuster::new(table());
        adjuster.handle_frame(&PfcFrame { enabled: 1, times: [u16::MAX; CLASSES] });
        assert_eq!(adjuster.rates().rate(Class::new(0)), table().rate(19));
        assert_eq!(adjuster.stages_above_last(), 1);
    }

    proptest! {
        /// Whatever is lost, one refresh period after the losses end the peer has the rate of the queue's stage.
        #[test]
        fn lost_messages_heal_in_a_refresh_period(kbs in prop::collection::vec((0..1_000u64, any::<bool>()), 1..200)) {
            let (mut generator, adjuster) = (generator(), Adjuster::new(table()));
            let mut now = at(0);
            let mut step = |queues: &[Bytes; CLASSES], lost: bool| {
                now += Span::from_micros(7);
                let Some(frame) = generator.poll(now, queues) else { return };
                generator.handle_sent(now, &frame);
                let bytes = ControlFrame::Pfc(frame).encode(Default::default());
                if let (Ok(ControlFrame::Pfc(frame)), false) = (ControlFrame::decode(&bytes), lost) {
                    adjuster.handle_frame(&frame);
                }
            };
            for (kb, lost) in &kbs {
                step(&queue(*kb), *lost);
            }
            let last = queue(kbs.last().unwrap().0);
            (0..8).for_each(|_| step(&last, false));
            let stage = table().stage_of(last[3]);
            prop_assert_eq!(adjuster.rates().rate(Class::new(3)), table().rate(stage));
        }
    }
}
