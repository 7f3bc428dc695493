//! Receive buffer of a host that processes data at a limited rate, and the classes that it has the switch pause.

use std::collections::VecDeque;

use weir_flowctl::wire_bytes;
use weir_units::archive::State;
use weir_units::{Bytes, CLASSES, Class, ClassSet, FCS_BYTES, Serialiser, Time};

use super::ReceiveLimit;

/// Buffer of received frames that are not processed yet.
#[derive(Debug, State)]
pub(super) struct Intake {
    #[state(same)]
    limit: ReceiveLimit,
    /// Lossless classes, which may use headroom and are paused.
    #[state(same)]
    lossless: ClassSet,
    #[state(same)]
    serialiser: Serialiser,
    /// Frames in arrival order: instant at which processing ends, class, and bytes in the buffer.
    frames: VecDeque<(Time, Class, Bytes)>,
    /// Bytes of each class in the buffer.
    held: [Bytes; CLASSES],
    /// Classes that are OFF.
    off: ClassSet,
    /// Instant at which the last buffered frame is processed.
    empty_at: Time,
}

impl Intake {
    /// Returns an empty buffer.
    pub(super) fn new(limit: ReceiveLimit, lossless: ClassSet) -> Intake {
        Intake {
            limit,
            lossless,
            serialiser: Serialiser::new(limit.rate),
            frames: VecDeque::new(),
            held: [Bytes::ZERO; CLASSES],
            off: ClassSet::EMPTY,
            empty_at: Time::ZERO,
        }
    }

    /// Takes a frame of this length (without FCS) from a link with this overhead. Returns whether there is room;
    /// otherwise the frame is dropped.
    pub(super) fn take(&mut self, now: Time, class: Class, frame_bytes: u32, link_overhead: Bytes) -> bool {
        self.drain(now);
        if now < self.limit.from || now >= self.limit.until {
            return true;
        }
        let is_lossless = self.lossless.contains(class);
        let room = if is_lossless { self.limit.buffer + self.limit.headroom } else { self.limit.buffer };
        let size = Bytes::new(u64::from(frame_bytes) + FCS_BYTES);
        let held = self.held[class.index()] + size;
        if held > room {
            return false;
        }
        self.held[class.index()] = held;
        let takes = self.serialiser.time_for(wire_bytes(frame_bytes, link_overhead));
        self.empty_at = (self.empty_at.max(now) + takes).min(self.limit.until);
        self.frames.push_back((self.empty_at, class, size));
        if is_lossless && held >= self.limit.buffer {
            self.off.insert(class);
        }
        true
    }

    /// Returns the classes that are OFF at `now`.
    pub(super) fn off(&mut self, now: Time) -> ClassSet {
        self.drain(now);
        self.off
    }

    /// Returns the classes that are OFF as of the last call.
    pub(super) fn off_so_far(&self) -> ClassSet {
        self.off
    }

    /// Returns the bytes of a class in the buffer, as of the last call.
    pub(super) fn held(&self, class: Class) -> Bytes {
        self.held[class.index()]
    }

    /// Returns the instant at which the next frame leaves the buffer, which may end a pause; [`Time::NEVER`] if it is empty.
    pub(super) fn next_wakeup(&self) -> Time {
        self.frames.front().map_or(Time::NEVER, |(taken_in, ..)| *taken_in)
    }

    fn drain(&mut self, now: Time) {
        while let Some((taken_in, class, size)) = self.frames.front().copied()
            && taken_in <= now
        {
            self.frames.pop_front();
            let held = &mut self.held[class.index()];
            *held -= size;
            if *held <= self.limit.xon {
                self.off.remove(class);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_units::{BitRate, LINK_OVERHEAD};

    use super::*;

    const LOSSLESS: Class = Class::new(3);
    const LOSSY: Class = Class::new(0);

    /// A frame of 1,000 B with FCS has 1,020 on the wire: 816 ns.
    fn intake() -> Intake {
        within(Time::ZERO, Time::NEVER)
    }

    fn within(from: Time, until: Time) -> Intake {
        let [buffer, xon, headroom] = [3_000, 1_000, 2_000].map(Bytes::new);
        Intake::new(ReceiveLimit { rate: BitRate::gbps(10), buffer, xon, headroom, from, until }, LOSSLESS.alone())
    }

    fn at(ns: u64) -> Time {
        Time::from_nanos(ns)
    }

    #[test]
    fn a_class_is_off_from_its_buffer_to_its_xon() {
        let mut intake = intake();
        let off: Vec<ClassSet> = (0..3)
            .map(|_| {
                assert!(intake.take(at(0), LOSSLESS, 996, LINK_OVERHEAD));
                intake.off(at(0))
            })
            .collect();
        assert_eq!(off, [ClassSet::EMPTY, ClassSet::EMPTY, LOSSLESS.alone()]);
        assert_eq!(
            (intake.off(at(815)), intake.held(LOSSLESS), intake.next_wakeup()),
            (ClassSet::from_bits(8), Bytes::kb(3), at(816))
        );
        assert_eq!(
            (intake.off(at(816)), intake.held(LOSSLESS), intake.next_wakeup()),
            (ClassSet::from_bits(8), Bytes::kb(2), at(1_632))
        );
        assert_eq!((intake.off(at(1_632)), intake.held(LOSSLESS)), (ClassSet::EMPTY, Bytes::kb(1)));
        assert_eq!((intake.off(at(2_448)), intake.next_wakeup()), (ClassSet::EMPTY, Time::NEVER));
    }

    #[test]
    fn classes_share_the_rate_and_only_lossless_ones_have_headroom() {
        let mut intake = intake();
        let taken =
            |intake: &mut Intake, class| (0..6).filter(|_| intake.take(at(0), class, 996, LINK_OVERHEAD)).count();
        assert_eq!((taken(&mut intake, LOSSY), taken(&mut intake, LOSSLESS)), (3, 5));
        assert_eq!(intake.off(at(0)), LOSSLESS.alone(), "the other class has nothing to pause");
        // The lossy ones came first.
        assert_eq!((intake.off(at(3 * 816)), intake.held(LOSSY)), (LOSSLESS.alone(), Bytes::ZERO));
        assert_eq!(intake.held(LOSSLESS), Bytes::kb(5));
        assert!(
            intake.take(at(4 * 816), LOSSLESS, 996, LINK_OVERHEAD)
                && !intake.take(at(4 * 816), LOSSLESS, 996, LINK_OVERHEAD)
        );
    }

    #[test]
    fn it_is_slow_for_its_time_alone() {
        let mut intake = within(at(1_000), at(2_000));
        let take = |intake: &mut Intake, now, frames: usize| {
            let taken = (0..frames).filter(|_| intake.take(at(now), LOSSLESS, 996, LINK_OVERHEAD)).count();
            (taken, intake.off(at(now)), intake.held(LOSSLESS).get())
        };
        assert_eq!(take(&mut intake, 999, 10), (10, ClassSet::EMPTY, 0));
        assert_eq!(take(&mut intake, 1_000, 6), (5, LOSSLESS.alone(), 5_000));
        // The first is taken in by then, the second would be at 2,632 ns.
        assert_eq!(
            (intake.off(at(1_999)), intake.held(LOSSLESS), intake.next_wakeup()),
            (ClassSet::from_bits(8), Bytes::kb(4), at(2_000))
        );
        assert_eq!(take(&mut intake, 2_000, 10), (10, ClassSet::EMPTY, 0));
        assert_eq!(intake.next_wakeup(), Time::NEVER);
    }
}
