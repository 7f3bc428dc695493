//! Receive buffer of a host that processes data at a limited rate, and the classes that it has the switch pause.

use std::collections::VecDeque;

use weir_units::{Bytes, CLASSES, Class, ClassSet, SerialisationDelay, Time};

use super::ReceiveLimit;

/// Buffer of received frames that are not processed yet.
#[derive(Debug)]
pub(super) struct HostReceiveBuffer {
    limit: ReceiveLimit,
    /// Lossless classes, which may use headroom and are paused.
    lossless: ClassSet,
    serialiser: SerialisationDelay,
    /// Frames in arrival order: instant at which processing ends, class, and bytes in the buffer.
    frames: VecDeque<(Time, Class, Bytes)>,
    /// Bytes of each class in the buffer.
    held: [Bytes; CLASSES],
    /// Classes that are OFF.
    off: ClassSet,
    /// Instant at which the last buffered frame is processed.
    empty_at: Time,
}

impl HostReceiveBuffer {
    /// Returns an empty buffer.
    pub(super) fn new(limit: ReceiveLimit, lossless: ClassSet) -> HostReceiveBuffer {
        HostReceiveBuffer {
            limit,
            lossless,
            serialiser: SerialisationDelay::new(limit.rate),
            frames: VecDeque::new(),
            held: [Bytes::ZERO; CLASSES],
            off: ClassSet::EMPTY,
            empty_at: Time::ZERO,
        }
    }

    /// Takes a frame that is stored in `size` bytes and had `wire` bytes on the link. Returns whether there is room; otherwise the frame is
    /// dropped.
    pub(super) fn take(&mut self, now: Time, class: Class, size: Bytes, wire: Bytes) -> bool {
        self.drain(now);
        if now < self.limit.from || now >= self.limit.until {
            return true;
        }
        let is_lossless = self.lossless.contains(class);
        let room = if is_lossless { self.limit.buffer + self.limit.headroom } else { self.limit.buffer };
        let held = self.held[class.index()] + size;
        if held > room {
            return false;
        }
        self.held[class.index()] = held;
        let takes = self.serialiser.time_for(wire);
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
    use weir_units::BitRate;

    use super::*;

    const LOSSLESS: Class = Class::new(3);
    const LOSSY: Class = Class::new(0);
    const STORED: Bytes = Bytes::kb(1);
    const WIRE: Bytes = Bytes::new(1_020);

    /// A frame of 1,000 B with FCS has 1,020 on the wire: 816 ns.
    fn buffer() -> HostReceiveBuffer {
        within(Time::ZERO, Time::NEVER)
    }

    fn within(from: Time, until: Time) -> HostReceiveBuffer {
        let [buffer, xon, headroom] = [3_000, 1_000, 2_000].map(Bytes::new);
        HostReceiveBuffer::new(
            ReceiveLimit { rate: BitRate::gbps(10), buffer, xon, headroom, from, until },
            LOSSLESS.alone(),
        )
    }

    fn instant(ns: u64) -> Time {
        Time::from_nanos(ns)
    }

    #[test]
    fn a_class_is_off_from_its_buffer_to_its_xon() {
        let mut buffer = buffer();
        let off: Vec<ClassSet> = (0..3)
            .map(|_| {
                assert!(buffer.take(instant(0), LOSSLESS, STORED, WIRE));
                buffer.off(instant(0))
            })
            .collect();
        assert_eq!(off, [ClassSet::EMPTY, ClassSet::EMPTY, LOSSLESS.alone()]);
        assert_eq!(
            (buffer.off(instant(815)), buffer.held(LOSSLESS), buffer.next_wakeup()),
            (ClassSet::from_bits(8), Bytes::kb(3), instant(816))
        );
        assert_eq!(
            (buffer.off(instant(816)), buffer.held(LOSSLESS), buffer.next_wakeup()),
            (ClassSet::from_bits(8), Bytes::kb(2), instant(1_632))
        );
        assert_eq!((buffer.off(instant(1_632)), buffer.held(LOSSLESS)), (ClassSet::EMPTY, Bytes::kb(1)));
        assert_eq!((buffer.off(instant(2_448)), buffer.next_wakeup()), (ClassSet::EMPTY, Time::NEVER));
    }

    #[test]
    fn classes_share_the_rate_and_only_lossless_ones_have_headroom() {
        let mut buffer = buffer();
        let taken = |buffer: &mut HostReceiveBuffer, class| {
            (0..6).filter(|_| buffer.take(instant(0), class, STORED, WIRE)).count()
        };
        assert_eq!((taken(&mut buffer, LOSSY), taken(&mut buffer, LOSSLESS)), (3, 5));
        assert_eq!(buffer.off(instant(0)), LOSSLESS.alone(), "the other class has nothing to pause");
        // The lossy ones came first.
        assert_eq!((buffer.off(instant(3 * 816)), buffer.held(LOSSY)), (LOSSLESS.alone(), Bytes::ZERO));
        assert_eq!(buffer.held(LOSSLESS), Bytes::kb(5));
        assert!(
            buffer.take(instant(4 * 816), LOSSLESS, STORED, WIRE)
                && !buffer.take(instant(4 * 816), LOSSLESS, STORED, WIRE)
        );
    }

    #[test]
    fn it_is_slow_for_its_time_alone() {
        let mut buffer = within(instant(1_000), instant(2_000));
        let take = |buffer: &mut HostReceiveBuffer, now, frames: usize| {
            let taken = (0..frames).filter(|_| buffer.take(instant(now), LOSSLESS, STORED, WIRE)).count();
            (taken, buffer.off(instant(now)), buffer.held(LOSSLESS).get())
        };
        assert_eq!(take(&mut buffer, 999, 10), (10, ClassSet::EMPTY, 0));
        assert_eq!(take(&mut buffer, 1_000, 6), (5, LOSSLESS.alone(), 5_000));
        // The first is taken in by then, the second would be at 2,632 ns.
        assert_eq!(
            (buffer.off(instant(1_999)), buffer.held(LOSSLESS), buffer.next_wakeup()),
            (ClassSet::from_bits(8), Bytes::kb(4), instant(2_000))
        );
        assert_eq!(take(&mut buffer, 2_000, 10), (10, ClassSet::EMPTY, 0));
        assert_eq!(buffer.next_wakeup(), Time::NEVER);
    }
}
