//! Injected faults: frames that a link loses, corrupts, duplicates, or delivers out of order.

use std::collections::VecDeque;

use weir_units::{Span, Time};
use weir_wire::rocev2::Dscp;

use super::LinkFrame;
use crate::workload::Rng;

/// Faults in one direction of a link; none by default.
///
/// A frame has at most one fault. The probabilities are shares of one random number; if their sum exceeds a million, the later ones are
/// cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// Frames that may have faults.
    pub frames: ChosenFrames,
    /// Lost frames, in a million.
    pub loss_ppm: u32,
    /// Corrupted frames, in a million: the MAC at the far end drops them by their FCS.
    pub corruption_ppm: u32,
    /// Duplicated frames, in a million.
    pub duplication_ppm: u32,
    /// Frames held back, in a million.
    pub reordering_ppm: u32,
    /// Delay of frames that are held back.
    pub reorder_delay: ReorderDelay,
    /// Start of the faults: earlier frames have none.
    pub from: Time,
    /// End of the faults; a frame that is held back leaves at its own time, even after this.
    pub until: Time,
    /// Seed: the same seed and frames have the same faults.
    pub seed: u64,
}

/// Selection of the frames that may have faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChosenFrames {
    /// MAC control frames: PAUSE, PFC, credits.
    #[default]
    Control,
    /// All other frames.
    Data,
    /// All frames.
    All,
    /// IPv4 frames with this DSCP.
    DataWith(Dscp),
}

/// Delay of a frame that is to arrive out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReorderDelay {
    /// The frame leaves after the next chosen frame, or after this time at the latest. Only one frame is held at a time.
    UntilNext(Span),
    /// Fixed delay; other frames pass meanwhile.
    For(Span),
}

/// Counters of faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounters {
    /// Frames that might have had a fault.
    pub chosen: u64,
    /// Frames lost.
    pub lost: u64,
    /// Frames corrupted: they take the link's time, and nobody receives them.
    pub corrupted: u64,
    /// Frames duplicated.
    pub duplicated: u64,
    /// Frames held back.
    pub reordered: u64,
}

/// Fault injector of one direction of a link.
///
/// Call [`Faults::handle`] for each frame that enters, and [`Faults::poll`] until it returns `None`, again at [`Faults::next_wakeup`].
/// Nothing is allocated per frame.
#[derive(Debug)]
pub struct Faults<T> {
    plan: FaultPlan,
    throws: Rng,
    /// Frames held back, each with the latest instant of its release, the first one first.
    held: VecDeque<(Time, T)>,
    counters: FaultCounters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultAction {
    Pass,
    Lose,
    Corrupt,
    Double,
    Delay,
}

const MILLION: u32 = 1_000_000;

impl FaultPlan {
    /// Whether the plan has no faults.
    pub fn is_none(&self) -> bool {
        let faulty_ppm = [self.loss_ppm, self.corruption_ppm, self.duplication_ppm, self.reordering_ppm];
        faulty_ppm == [0; 4] || self.until <= self.from
    }

    /// Returns the longest time for which a frame may be held back.
    pub(crate) fn longest_hold(&self) -> Span {
        let span = self.reorder_delay.span();
        if self.is_none() || self.reordering_ppm == 0 { Span::ZERO } else { span }
    }
}

impl ChosenFrames {
    /// Whether a frame is selected.
    pub fn includes(self, frame: &impl LinkFrame) -> bool {
        match self {
            ChosenFrames::Control => frame.is_control(),
            ChosenFrames::Data => !frame.is_control(),
            ChosenFrames::All => true,
            ChosenFrames::DataWith(dscp) => frame.dscp() == Some(dscp.get()),
        }
    }
}

impl<T> Faults<T> {
    /// Maximum number of frames that leave for one that enters: that one, its duplicate, and one that was held back for it.
    pub const OUT_MAX: usize = 3;
    /// Maximum number of frames held back. While it is reached, other frames are not held.
    pub const HELD_MAX: usize = 64;

    /// Creates an injector for this plan.
    pub fn new(plan: FaultPlan) -> Faults<T> {
        let held = if plan.is_none() { 0 } else { Self::HELD_MAX };
        Faults {
            plan,
            throws: Rng::new(plan.seed),
            held: VecDeque::with_capacity(held),
            counters: FaultCounters::default(),
        }
    }

    /// Takes a frame that enters at `now`, and passes to `out` the frames that go on. `now` must not be earlier than in the call before.
    /// `is_chosen`: [`FaultPlan::frames`] includes the frame; `copy` duplicates it, or can't.
    pub fn handle(
        &mut self,
        now: Time,
        frame: T,
        is_chosen: bool,
        copy: impl FnOnce(&T) -> Option<T>,
        mut out: impl FnMut(T),
    ) {
        if !is_chosen || self.plan.is_none() {
            return out(frame);
        }
        match self.draw_action(now) {
            FaultAction::Lose => {
                self.counters.lost += 1;
                return;
            }
            FaultAction::Corrupt => {
                self.counters.corrupted += 1;
                return;
            }
            FaultAction::Delay => {
                let span = self.plan.reorder_delay.span();
                self.counters.reordered += 1;
                return self.held.push_back((now.saturating_add(span), frame));
            }
            FaultAction::Double => {
                let double = copy(&frame);
                self.counters.duplicated += u64::from(double.is_some());
                out(frame);
                double.into_iter().for_each(&mut out);
            }
            FaultAction::Pass => out(frame),
        }
        if let ReorderDelay::UntilNext(_) = self.plan.reorder_delay {
            self.held.drain(..).for_each(|(_, frame)| out(frame));
        }
    }

    fn draw_action(&mut self, now: Time) -> FaultAction {
        if now < self.plan.from || now >= self.plan.until {
            return FaultAction::Pass;
        }
        self.counters.chosen += 1;
        let held_max = if let ReorderDelay::UntilNext(_) = self.plan.reorder_delay { 1 } else { Self::HELD_MAX };
        let mut throw = below_million(&mut self.throws);
        for (action, ppm) in [
            (FaultAction::Lose, self.plan.loss_ppm),
            (FaultAction::Corrupt, self.plan.corruption_ppm),
            (FaultAction::Double, self.plan.duplication_ppm),
            (FaultAction::Delay, self.plan.reordering_ppm),
        ] {
            match throw.checked_sub(ppm) {
                Some(rest) => throw = rest,
                None if action == FaultAction::Delay && self.held.len() >= held_max => return FaultAction::Pass,
                None => return action,
            }
        }
        FaultAction::Pass
    }

    /// Returns the number of frames held back.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Returns the next frame whose delay is over.
    pub fn poll(&mut self, now: Time) -> Option<T> {
        let (until, _) = self.held.front()?;
        if *until <= now { self.held.pop_front().map(|(_, frame)| frame) } else { None }
    }

    /// Returns the instant at which the next frame is released; [`Time::NEVER`] if none is held.
    pub fn next_wakeup(&self) -> Time {
        self.held.front().map_or(Time::NEVER, |(until, _)| *until)
    }

    /// Plan of the link's faults.
    pub fn plan(&self) -> &FaultPlan {
        &self.plan
    }

    /// Returns the fault counters.
    pub fn counters(&self) -> FaultCounters {
        self.counters
    }
}

impl ReorderDelay {
    /// Maximum delay.
    fn span(self) -> Span {
        match self {
            ReorderDelay::UntilNext(span) | ReorderDelay::For(span) => span,
        }
    }
}

impl Default for ReorderDelay {
    fn default() -> ReorderDelay {
        ReorderDelay::UntilNext(Span::from_micros(100))
    }
}

/// Random number below a million.
fn below_million(throws: &mut Rng) -> u32 {
    (((throws.next_u64() >> 32) * u64::from(MILLION)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use crate::link::ipv4_dscp;
    use proptest::prelude::*;

    use super::*;

    fn time_at(ns: u64) -> Time {
        Time::from_nanos(ns)
    }

    fn always(plan: FaultPlan) -> FaultPlan {
        FaultPlan { until: Time::NEVER, ..plan }
    }

    /// Returns the frames that leave for frames 0, 1, ... that enter a microsecond apart, then those that remain.
    fn passage(plan: FaultPlan, frames: u32) -> (Vec<u32>, FaultCounters) {
        let mut faults = Faults::new(plan);
        let mut out = Vec::new();
        for n in 0..frames {
            let now = time_at(u64::from(n) * 1_000);
            while let Some(frame) = faults.poll(now) {
                out.push(frame);
            }
            faults.handle(now, n, true, |n| Some(*n), |frame| out.push(frame));
        }
        while let Some(frame) = faults.poll(Time::NEVER) {
            out.push(frame);
        }
        (out, faults.counters())
    }

    #[test]
    fn without_a_plan_everything_passes() {
        let plan = FaultPlan::default();
        assert!(plan.is_none() && FaultPlan { loss_ppm: MILLION, ..plan }.is_none(), "the time window is empty");
        assert_eq!(passage(plan, 5), ((0..5).collect(), FaultCounters::default()));
    }

    #[test]
    fn certain_faults() {
        let (out, counters) = passage(always(FaultPlan { loss_ppm: MILLION, ..FaultPlan::default() }), 4);
        assert_eq!((out, counters.lost, counters.corrupted), (vec![], 4, 0));
        let (out, counters) = passage(always(FaultPlan { corruption_ppm: MILLION, ..FaultPlan::default() }), 4);
        assert_eq!((out, counters.lost, counters.corrupted), (vec![], 0, 4));
        let (out, counters) = passage(always(FaultPlan { duplication_ppm: MILLION, ..FaultPlan::default() }), 3);
        assert_eq!((out, counters.duplicated), (vec![0, 0, 1, 1, 2, 2], 3));
        let (out, counters) = passage(always(FaultPlan { reordering_ppm: MILLION, ..FaultPlan::default() }), 5);
        assert_eq!((out, counters.reordered), (vec![1, 0, 3, 2, 4], 3), "every other frame is overtaken");
    }

    #[test]
    fn a_frame_held_for_a_time_is_overtaken_by_all_that_pass_meanwhile() {
        let plan = always(FaultPlan {
            reordering_ppm: MILLION,
            reorder_delay: ReorderDelay::For(Span::from_nanos(2_500)),
            until: Time::NEVER,
            ..FaultPlan::default()
        });
        let mut faults = Faults::new(FaultPlan { until: time_at(1), ..plan });
        faults.handle(time_at(0), 'a', true, |_| None, |_| panic!("held back"));
        let mut passed = Vec::new();
        for (now, frame) in [(1_000, 'b'), (2_000, 'c')] {
            faults.handle(time_at(now), frame, true, |_| None, |frame| passed.push(frame));
        }
        assert_eq!((passed, faults.poll(time_at(2_499)), faults.next_wakeup()), (vec!['b', 'c'], None, time_at(2_500)));
        assert_eq!((faults.poll(time_at(2_500)), faults.next_wakeup()), (Some('a'), Time::NEVER));
    }

    #[test]
    fn a_frame_that_no_other_follows_goes_on_after_its_time() {
        let reorder_delay = ReorderDelay::UntilNext(Span::from_micros(7));
        let plan = always(FaultPlan { reordering_ppm: MILLION, reorder_delay, ..FaultPlan::default() });
        let mut faults = Faults::new(plan);
        faults.handle(time_at(1_000), 'a', true, |_| None, |_| panic!("held back"));
        assert_eq!((faults.poll(time_at(7_999)), faults.poll(time_at(8_000))), (None, Some('a')));
        assert_eq!(plan.longest_hold(), Span::from_micros(7));
    }

    #[test]
    fn frames_are_chosen_by_what_they_are() {
        struct Frame(Option<u8>);
        impl LinkFrame for Frame {
            fn is_control(&self) -> bool {
                self.0.is_none()
            }
            fn dscp(&self) -> Option<u8> {
                self.0
            }
        }
        let mut bytes = [0; 60];
        bytes[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        bytes[15] = 3 << 2 | 2;
        assert_eq!((ipv4_dscp(&bytes), ipv4_dscp(&[0; 60]), ipv4_dscp(&bytes[..15])), (Some(3), None, None));
        let [pause, data] = [None, ipv4_dscp(&bytes)].map(Frame);
        let [dscp_3, dscp_4] = [3, 4].map(|dscp| ChosenFrames::DataWith(Dscp::new(dscp)));
        for (frames, of_control, of_data) in [
            (ChosenFrames::Control, true, false),
            (ChosenFrames::Data, false, true),
            (dscp_3, false, true),
            (dscp_4, false, false),
        ] {
            assert_eq!((frames.includes(&pause), frames.includes(&data)), (of_control, of_data), "{frames:?}");
        }
    }

    proptest! {
        /// Output equals input minus losses plus duplicates, by the counters, for any plan. Outside the time window all frames pass. The
        /// same seed has the same faults.
        #[test]
        fn every_frame_is_accounted_for(
            shares in prop::array::uniform4(0..400_000u32), seed: u64, hold in 1..20_000u64, until_next: bool, window in (0..200u64, 0..200u64),
        ) {
            let span = Span::from_nanos(hold);
            let plan = FaultPlan {
                frames: ChosenFrames::Control,
                loss_ppm: shares[0],
                duplication_ppm: shares[1],
                reordering_ppm: shares[2],
                corruption_ppm: shares[3],
                reorder_delay: if until_next { ReorderDelay::UntilNext(span) } else { ReorderDelay::For(span) },
                from: time_at(window.0 * 1_000),
                until: time_at(window.1 * 1_000),
                seed,
            };
            let (out, counters) = passage(plan, 200);
            prop_assert_eq!(out.len() as u64, 200 - counters.lost - counters.corrupted + counters.duplicated);
            prop_assert_eq!(counters.chosen, window.1.saturating_sub(window.0));
            let mut times = [0u64; 200];
            out.iter().for_each(|frame| times[*frame as usize] += 1);
            let missing = counters.lost + counters.corrupted;
            prop_assert_eq!(times.iter().filter(|times| **times == 0).count() as u64, missing);
            prop_assert_eq!(times.iter().filter(|times| **times == 2).count() as u64, counters.duplicated);
            for (n, times) in times.iter().enumerate() {
                prop_assert!(*times == 1 || (window.0..window.1).contains(&(n as u64)));
            }
            if counters.reordered == 0 {
                prop_assert!(out.is_sorted());
            }
            prop_assert_eq!(passage(plan, 200), (out, counters));
        }

        #[test]
        fn shares_are_kept(ppm in 0..=MILLION, seed: u64) {
            let (_, counters) = passage(always(FaultPlan { loss_ppm: ppm, seed, ..FaultPlan::default() }), 20_000);
            // Eight standard deviations of 20,000 draws, at most.
            prop_assert!(counters.lost.abs_diff(u64::from(ppm) * 20_000 / u64::from(MILLION)) < 570);
        }
    }
}
