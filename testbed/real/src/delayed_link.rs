//! One direction of an emulated link.

use weir_results::feedback::{FeedbackProbe, FeedbackStats};
use weir_results::record::LinkStats;
use weir_scenario::link::{DelayLine, FaultCounters, FaultPlan, Faults, LinkFrame};
use weir_units::{Span, Time};

/// One direction of a link: entering frames undergo faults and leave after the propagation delay.
///
/// Capacity is limited. Callers must check [`DelayedLink::room`] and keep excess frames at the sender, so that only faults
/// lose frames.
#[derive(Debug)]
pub(crate) struct DelayedLink<T> {
    faults: Faults<T>,
    line: DelayLine<T>,
    delivered: u64,
    /// Probe of the feedback delay τ of this direction's data; `None` if not measured.
    probe: Option<FeedbackProbe>,
}

impl<T: LinkFrame> DelayedLink<T> {
    /// Creates a direction with this delay, capacity in frames, and faults.
    pub(crate) fn new(delay: Span, capacity: usize, faults: FaultPlan) -> DelayedLink<T> {
        DelayedLink { faults: Faults::new(faults), line: DelayLine::new(delay, capacity), delivered: 0, probe: None }
    }

    /// Adds a probe of the feedback delay of the data.
    pub(crate) fn with_probe(mut self) -> DelayedLink<T> {
        self.probe = Some(FeedbackProbe::new(self.line.room()));
        self
    }

    /// Returns the probe, for messages that return on the opposite direction.
    pub(crate) fn probe_mut(&mut self) -> Option<&mut FeedbackProbe> {
        self.probe.as_mut()
    }

    pub(crate) fn feedback(&self) -> Option<FeedbackStats> {
        self.probe.as_ref().map(FeedbackProbe::stats)
    }

    /// Returns the largest number of frames in a direction of this capacity, including frames that faults hold back.
    pub(crate) fn frames_max(capacity: usize, faults: &FaultPlan) -> usize {
        capacity + if faults.is_none() { 0 } else { Faults::<T>::HELD_MAX }
    }

    /// Returns the number of frames that can enter now.
    pub(crate) fn room(&self) -> usize {
        let room = self.line.room();
        if self.faults.plan().is_none() { room } else { room / Faults::<T>::OUT_MAX }
    }

    /// Takes a frame that enters at `now`; `now` must not decrease between calls. `copy` duplicates a frame, or returns
    /// `None`.
    ///
    /// # Panics
    /// If the direction has no [room](DelayedLink::room).
    pub(crate) fn handle(&mut self, now: Time, frame: T, copy: impl FnOnce(&T) -> Option<T>) {
        assert!(self.room() > 0, "a frame for a full link");
        let plan = self.faults.plan();
        let is_chosen = !plan.is_none() && plan.frames.includes(&frame);
        let DelayedLink { faults, line, probe, .. } = self;
        faults.handle(now, frame, is_chosen, copy, |frame| enter(line, probe, now, frame));
    }

    /// Returns the next frame that has arrived by `now`.
    pub(crate) fn poll(&mut self, now: Time) -> Option<T> {
        while self.line.room() > 0
            && let Some(frame) = self.faults.poll(now)
        {
            enter(&mut self.line, &mut self.probe, now, frame);
        }
        let frame = self.line.poll(now)?;
        self.delivered += 1;
        if let Some(probe) = &mut self.probe
            && !frame.is_control()
        {
            probe.handle_data_delivered(now);
        }
        Some(frame)
    }

    pub(crate) fn clear(&mut self) {
        while self.faults.poll(Time::NEVER).is_some() {}
        while self.line.poll(Time::NEVER).is_some() {}
    }

    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(crate) fn fault_counters(&self) -> FaultCounters {
        self.faults.counters()
    }
}

fn enter<T: LinkFrame>(line: &mut DelayLine<T>, probe: &mut Option<FeedbackProbe>, now: Time, frame: T) {
    if let Some(probe) = probe
        && !frame.is_control()
    {
        probe.handle_data_entered(now);
    }
    assert!(line.push(now, frame).is_ok(), "there was room");
}

/// Returns the final statistics of a link's two directions.
pub(crate) fn link_stats<F: LinkFrame>(directions: [&DelayedLink<F>; 2]) -> LinkStats {
    LinkStats {
        delivered: directions.map(DelayedLink::delivered),
        faults: directions.map(DelayedLink::fault_counters),
        feedback: directions.map(DelayedLink::feedback),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_scenario::link::ChosenFrames;

    /// Data frame with only a number.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Numbered(u32);

    impl LinkFrame for Numbered {
        fn is_control(&self) -> bool {
            false
        }

        fn dscp(&self) -> Option<u8> {
            None
        }
    }

    fn instant(ns: u64) -> Time {
        Time::from_nanos(ns)
    }

    #[test]
    fn a_full_link_has_no_room_and_loses_nothing() {
        let mut link = DelayedLink::new(Span::from_micros(1), 3, FaultPlan::default());
        for n in 0..3 {
            assert_eq!(link.room(), 3 - n);
            link.handle(instant(0), Numbered(n as u32), |n| Some(*n));
        }
        assert_eq!(
            (link.room(), link.poll(instant(999)), link.poll(instant(1_000)), link.room()),
            (0, None, Some(Numbered(0)), 1)
        );
        link.handle(instant(1_000), Numbered(3), |n| Some(*n));
        let rest: Vec<u32> = std::iter::from_fn(|| link.poll(instant(2_000))).map(|frame| frame.0).collect();
        assert_eq!((rest, link.delivered(), link.poll(Time::NEVER)), (vec![1, 2, 3], 4, None));
    }

    #[test]
    fn there_is_room_for_what_faults_add() {
        let twice = FaultPlan {
            frames: ChosenFrames::Data,
            duplication_ppm: 400_000,
            reordering_ppm: 400_000,
            until: Time::NEVER,
            seed: 3,
            ..FaultPlan::default()
        };
        let mut link = DelayedLink::new(Span::from_micros(5), 16, twice);
        let (mut entered, mut left) = (0u32, 0);
        for now in 0..2_000 {
            if link.room() > 0 {
                link.handle(instant(now * 100), Numbered(entered), |n| Some(*n));
                entered += 1;
            }
            while link.poll(instant(now * 100)).is_some() {
                left += 1;
            }
        }
        while link.poll(instant(1_000_000)).is_some() {
            left += 1;
        }
        let counters = link.fault_counters();
        // Frames held to the end enter the line now.
        left += std::iter::from_fn(|| link.poll(Time::NEVER)).count() as u64;
        assert!(counters.duplicated > 100 && counters.reordered > 100, "{counters:?}");
        assert_eq!(left, u64::from(entered) + counters.duplicated);
    }

    #[test]
    fn a_probe_sees_the_links_own_data() {
        let pause = weir_wire::mac_control::ControlFrame::Pause(9).encode(Default::default());
        let mut link = DelayedLink::new(Span::from_micros(1), 3, FaultPlan::default()).with_probe();
        link.handle(instant(100), Numbered(0), |n| Some(*n));
        let probe = link.probe_mut().unwrap();
        probe.handle_message(instant(200), instant(50), &pause);
        probe.handle_applied(instant(200));
        link.handle(instant(300), Numbered(1), |n| Some(*n));
        assert_eq!((link.poll(instant(1_100)), link.poll(instant(1_300))), (Some(Numbered(0)), Some(Numbered(1))));
        let feedback = link.feedback().unwrap();
        assert_eq!((feedback.count, feedback.longest), (1, Span::from_nanos(1_050)));
    }
}
