//! Scheduler of an egress port: strict priority over deficit weighted round robin, by bytes or by frames.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_config::{QueueConfig, SchedulerKind};
use weir_units::{CLASSES, Class, ClassSet};

/// Scheduler of one port. Strict classes come first, the highest of them; the rest share the remaining rate by DWRR (Shreedhar and Varghese
/// 1995). Each gets its quantum per round, so every backlogged class gets a minimum. Packet round robin counts frames instead: each costs
/// 1, and a quantum is a number of frames.
#[derive(Clone, Debug)]
pub(crate) struct Scheduler {
    /// Quantum of each class per turn, in bytes or frames; shared by the ports of a switch.
    quanta: Arc<[AtomicU32; CLASSES]>,
    unit: DeficitUnit,
    deficit: [u32; CLASSES],
    strict: ClassSet,
    turn: Class,
    /// Whether the class of the current turn has received its quantum.
    granted: bool,
}

/// Unit of the deficit: 0 for bytes, 1 for frames. A number avoids a branch per frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DeficitUnit(u8);

impl DeficitUnit {
    const BYTES: DeficitUnit = DeficitUnit(0);
    const FRAMES: DeficitUnit = DeficitUnit(1);

    /// Returns the cost of a frame of `length` bytes.
    #[inline(always)]
    fn cost(self, length: u32) -> u32 {
        let frames = u32::from(self.0);
        length & frames.wrapping_sub(1) | frames
    }

    /// Returns the cost of frames with `bytes` in total.
    #[inline(always)]
    fn total_cost(self, frames: usize, bytes: u32) -> u32 {
        if self == DeficitUnit::BYTES { bytes } else { frames as u32 }
    }
}

/// Run of consecutive frames of one class, the first of which was scheduled.
#[derive(Debug)]
pub(crate) struct ScheduledRun {
    class: Class,
    is_strict: bool,
    unit: DeficitUnit,
    /// Quantum that the class gets whenever it needs it, while no other class is ready; 0 if others are.
    quantum: u32,
    deficit: u32,
}

impl ScheduledRun {
    /// Returns whether a frame of `length` bytes goes next too. If so, it counts as sent. If not, [`Scheduler::next`] returns the next
    /// class.
    #[inline(always)]
    pub(crate) fn try_extend(&mut self, length: u32) -> bool {
        if self.is_strict {
            return true;
        }
        let cost = self.unit.cost(length);
        while self.deficit < cost {
            if self.quantum == 0 {
                return false;
            }
            self.deficit += self.quantum;
        }
        self.deficit -= cost;
        true
    }
}

impl ScheduledRun {
    /// Returns the number of leading frames of these lengths that go next, as [`ScheduledRun::try_extend`] decides for each, and their bytes.
    /// They count as sent.
    #[inline(always)]
    pub(crate) fn extend(&mut self, lengths: &[u32]) -> (usize, u32) {
        if self.quantum == 0 && !self.is_strict {
            return self.extend_by_parts(lengths);
        }
        let all = (lengths.len(), lengths.iter().sum());
        if self.is_strict {
            return all;
        }
        let total = self.unit.total_cost(all.0, all.1);
        if self.deficit < total {
            // The class gets a quantum whenever it needs one; add as many as the sum needs.
            self.deficit += (total - self.deficit).next_multiple_of(self.quantum);
        }
        self.deficit -= total;
        all
    }

    /// [`ScheduledRun::extend`] within a turn, which may end at any frame: in groups of frames, and the last ones singly.
    #[inline(always)]
    fn extend_by_parts(&mut self, lengths: &[u32]) -> (usize, u32) {
        let before = self.deficit;
        if self.unit == DeficitUnit::FRAMES {
            let count = lengths.len().min(before as usize);
            self.deficit -= count as u32;
            return (count, lengths[..count].iter().sum());
        }
        let (mut count, mut deficit) = (0, before);
        for part in lengths.as_chunks::<PART>().0 {
            let Some(left) = deficit.checked_sub(part.iter().sum()) else { break };
            (count, deficit) = (count + PART, left);
        }
        for length in &lengths[count..] {
            let Some(left) = deficit.checked_sub(*length) else { break };
            (count, deficit) = (count + 1, left);
        }
        self.deficit = deficit;
        (count, before - deficit)
    }
}

const PART: usize = 8;

impl Scheduler {
    /// Returns a scheduler for queues served as configured; clone it for further ports.
    pub(crate) fn new(kind: SchedulerKind, queues: &[QueueConfig; CLASSES]) -> Scheduler {
        let strict = Class::ALL.into_iter().filter(|class| queues[class.index()].strict);
        Scheduler {
            quanta: Arc::new(queues.each_ref().map(|queue| queue.quantum.max(1).into())),
            unit: match kind {
                SchedulerKind::Dwrr => DeficitUnit::BYTES,
                SchedulerKind::PacketRr => DeficitUnit::FRAMES,
            },
            deficit: [0; CLASSES],
            strict: ClassSet::from_iter(strict),
            turn: Class::new(0),
            granted: false,
        }
    }

    /// Sets quanta and strict classes, at all ports that share the quanta. Deficits stay.
    pub(crate) fn set(&mut self, quanta: [u32; CLASSES], strict: ClassSet) {
        self.quanta.iter().zip(quanta).for_each(|(word, quantum)| word.store(quantum.max(1), Ordering::Relaxed));
        self.strict = strict;
    }

    #[inline]
    pub(crate) fn strict(&self) -> ClassSet {
        self.strict
    }

    /// Returns a quantum. Relaxed: an independent number, written by this thread.
    #[inline]
    fn quantum(&self, class: Class) -> u32 {
        self.quanta[class.index()].load(Ordering::Relaxed)
    }

    /// Returns the next class among those in `ready` (backlogged and not paused). `head` returns the length of the frame at a queue's head,
    /// in bytes. That frame counts as sent.
    #[inline]
    pub(crate) fn next(&mut self, ready: ClassSet, head: impl Fn(Class) -> u32) -> Option<Class> {
        let strict = ready & self.strict;
        if let Some(class) = strict.last() {
            return Some(class);
        }
        if ready.is_empty() {
            return None;
        }
        if let Some(class) = ready.only() {
            return Some(self.next_of_one(class, head));
        }
        Some(self.next_in_turn(ready, head))
    }

    /// Returns the run of frames of the last class that may follow, while `ready` and the other classes' heads stay the same.
    #[inline]
    pub(crate) fn run(&self, class: Class, ready: ClassSet) -> ScheduledRun {
        let alone = ready.only() == Some(class);
        let quantum = if alone { self.quantum(class) } else { 0 };
        let (is_strict, deficit) = (self.strict.contains(class), self.deficit[class.index()]);
        ScheduledRun { class, is_strict, unit: self.unit, quantum, deficit }
    }

    /// Takes over the deficit after a run.
    #[inline]
    pub(crate) fn end_run(&mut self, run: &ScheduledRun) {
        self.deficit[run.class.index()] = run.deficit;
    }

    #[inline]
    fn next_in_turn(&mut self, ready: ClassSet, head: impl Fn(Class) -> u32) -> Class {
        self.skip_to(ready);
        // A frame longer than the quantum takes several rounds, so this ends after finitely many turns.
        loop {
            let class = self.turn;
            let deficit = &mut self.deficit[class.index()];
            if !self.granted {
                *deficit += self.quanta[class.index()].load(Ordering::Relaxed);
                self.granted = true;
            }
            let cost = self.unit.cost(head(class));
            if cost <= *deficit {
                *deficit -= cost;
                return class;
            }
            self.pass_turn();
            self.skip_to(ready);
        }
    }

    /// Skips the turns of classes that are not ready.
    #[inline]
    fn skip_to(&mut self, ready: ClassSet) {
        let turn = self.turn.number();
        let skipped = ready.bits().rotate_right(u32::from(turn)).trailing_zeros() as u8;
        if skipped > 0 {
            (self.turn, self.granted) = (Class::new(turn + skipped), false);
        }
    }

    /// Serves the only ready class: it gets its quantum as often as needed, since no other class has a turn.
    #[inline]
    fn next_of_one(&mut self, class: Class, head: impl Fn(Class) -> u32) -> Class {
        let quantum = self.quantum(class);
        let deficit = &mut self.deficit[class.index()];
        if self.turn != class || !self.granted {
            *deficit += quantum;
        }
        let cost = self.unit.cost(head(class));
        while *deficit < cost {
            *deficit += quantum;
        }
        *deficit -= cost;
        (self.turn, self.granted) = (class, true);
        class
    }

    /// Clears the deficit of a queue that has run empty.
    #[inline]
    pub(crate) fn handle_empty(&mut self, class: Class) {
        self.deficit[class.index()] = 0;
        if self.turn == class {
            self.pass_turn();
        }
    }

    #[inline]
    fn pass_turn(&mut self) {
        self.turn = Class::new(self.turn.index() as u8 + 1);
        self.granted = false;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_config::ArbiterChoice;

    use super::*;

    fn queue(strict: bool, quantum: u32) -> QueueConfig {
        QueueConfig { strict, quantum, rate: None, ecn: None, arbitration: ArbiterChoice::default() }
    }

    /// Serves `n` frames from queues that never run empty; returns the bytes of each class.
    fn serve(scheduler: &mut Scheduler, ready: ClassSet, lengths: [u32; 8], n: usize) -> [u64; 8] {
        let mut bytes = [0; 8];
        for _ in 0..n {
            let class = scheduler.next(ready, |class| lengths[class.index()]).unwrap();
            bytes[class.index()] += u64::from(lengths[class.index()]);
        }
        bytes
    }

    #[test]
    fn packets_take_turns_whatever_their_lengths() {
        let mut queues: [QueueConfig; 8] = std::array::from_fn(|_| queue(false, 1));
        queues[4].quantum = 3;
        let mut scheduler = Scheduler::new(SchedulerKind::PacketRr, &queues);
        let lengths = [60, 9_000, 0, 60, 1_500, 0, 0, 0];
        let mut order = Vec::new();
        let ready = ClassSet::from_bits(0b0001_1011);
        (0..12).for_each(|_| order.push(scheduler.next(ready, |class| lengths[class.index()]).unwrap().index()));
        assert_eq!(order, [0, 1, 3, 4, 4, 4, 0, 1, 3, 4, 4, 4]);
        // A run gets the rest of the turn: two more frames of class 4, none of class 0. A class alone goes on.
        let first: Vec<_> =
            (0..4).map(|_| scheduler.next(ready, |class| lengths[class.index()]).unwrap().index()).collect();
        assert_eq!(first, [0, 1, 3, 4]);
        let mut row = scheduler.run(Class::new(4), ready);
        assert_eq!((row.extend(&[1_500, 9_000, 60]), row.try_extend(60)), ((2, 10_500), false));
        scheduler.end_run(&row);
        assert_eq!(scheduler.next(ready, |class| lengths[class.index()]), Some(Class::new(0)));
        assert_eq!(scheduler.run(Class::new(0), ready).extend(&[60]), (0, 0));
        assert_eq!(scheduler.run(Class::new(0), Class::new(0).alone()).extend(&[60, 60]), (2, 120));
    }

    #[test]
    fn strict_goes_first_highest_first() {
        let mut queues = std::array::from_fn(|_| queue(false, 1_600));
        queues[6] = queue(true, 1_600);
        queues[7] = queue(true, 1_600);
        let mut scheduler = Scheduler::new(SchedulerKind::Dwrr, &queues);
        assert_eq!(scheduler.next(ClassSet::from_bits(0b1100_1000), |_| 64), Some(Class::new(7)));
        assert_eq!(scheduler.next(ClassSet::from_bits(0b0100_1000), |_| 64), Some(Class::new(6)));
        assert_eq!(scheduler.next(ClassSet::from_bits(0b0000_1000), |_| 64), Some(Class::new(3)));
        assert_eq!(scheduler.next(ClassSet::EMPTY, |_| 64), None);
    }

    #[test]
    fn bytes_are_shared_by_quantum_whatever_the_frames() {
        let mut queues = std::array::from_fn(|_| queue(false, 1_600));
        queues[4] = queue(false, 4_800);
        let mut scheduler = Scheduler::new(SchedulerKind::Dwrr, &queues);
        let bytes = serve(&mut scheduler, ClassSet::from_bits(0b0001_1001), [1_500, 0, 0, 64, 700, 0, 0, 0], 100_000);
        let share = |class: usize| bytes[class] as f64 / bytes[0] as f64;
        assert!((share(3) - 1.0).abs() < 0.01, "equal quanta, frames of 64 B against 1,500 B: {bytes:?}");
        assert!((share(4) - 3.0).abs() < 0.03, "three times the quantum: {bytes:?}");
    }

    #[test]
    fn a_frame_longer_than_the_quantum_still_leaves() {
        let mut scheduler = Scheduler::new(SchedulerKind::Dwrr, &std::array::from_fn(|_| queue(false, 100)));
        let bytes = serve(&mut scheduler, ClassSet::from_bits(0b11), [9_000, 100, 0, 0, 0, 0, 0, 0], 1_000);
        let share = bytes[0] as f64 / bytes[1] as f64;
        assert!((share - 1.0).abs() < 0.15, "{bytes:?}");
    }

    proptest! {
        /// A run schedules frames in bulk as it does singly.
        #[test]
        fn a_row_at_once_is_as_each_by_itself(
            (strict, quantum, deficit) in (any::<bool>(), prop::sample::select(vec![0, 1, 300, 1_500, 1_518, 64_000]), 0..5_000u32),
            unit in prop::sample::select(vec![DeficitUnit::BYTES, DeficitUnit::FRAMES]),
            lengths in prop::collection::vec(60..1_515u32, 0..64),
        ) {
            let row = || ScheduledRun { class: Class::new(3), is_strict: strict, unit, quantum, deficit };
            let (mut at_once, mut each) = (row(), row());
            let count = lengths.iter().take_while(|length| each.try_extend(**length)).count();
            let bytes = lengths[..count].iter().sum();
            prop_assert_eq!(at_once.extend(&lengths), (count, bytes));
            prop_assert_eq!(at_once.deficit, each.deficit);
        }

        #[test]
        fn one_class_alone_is_served_as_if_turns_were_taken(
            calls in prop::collection::vec((0..8u8, any::<u8>(), 1..9_000u32, any::<bool>()), 1..200),
        ) {
            let queues: [QueueConfig; 8] = std::array::from_fn(|class| queue(false, 200 + 700 * class as u32));
            let (mut scheduler, mut in_turn) = (Scheduler::new(SchedulerKind::Dwrr, &queues), Scheduler::new(SchedulerKind::Dwrr, &queues));
            for (alone, others, length, runs_empty) in calls {
                // Mostly one class alone.
                let ready = ClassSet::from_bits(1 << alone | if others < 64 { others << 2 } else { 0 });
                let class = scheduler.next(ready, |_| length).unwrap();
                prop_assert_eq!(class, in_turn.next_in_turn(ready, |_| length));
                if runs_empty {
                    scheduler.handle_empty(class);
                    in_turn.handle_empty(class);
                }
            }
        }
    }

    proptest! {
        /// Scheduling by runs equals scheduling by frames.
        #[test]
        fn a_row_is_as_its_frames(
            lengths in prop::collection::vec(1..9_000u32, 1..300),
            ready in 1..=255u8,
            strict in any::<u8>(),
        ) {
            let mut queues: [QueueConfig; 8] = std::array::from_fn(|class| queue(false, 200 + 700 * class as u32));
            queues.iter_mut().enumerate().for_each(|(class, queue)| queue.strict = strict >> class & strict >> 4 & 1 != 0);
            let (mut rows, mut frames, ready) = (Scheduler::new(SchedulerKind::Dwrr, &queues), Scheduler::new(SchedulerKind::Dwrr, &queues), ClassSet::from_bits(ready));
            // Each class has its own sequence of lengths.
            let mut heads = [0; 8];
            let head = |heads: [usize; 8], class: Class| lengths[(heads[class.index()] * 8 + class.index()) % lengths.len()];
            let mut row: Option<(Class, ScheduledRun)> = None;
            for _ in 0..lengths.len() {
                let by_frame = frames.next(ready, |class| head(heads, class)).unwrap();
                let try_extend = row.take_if(|(class, row)| row.try_extend(head(heads, *class)));
                let (by_row, on) = try_extend.unwrap_or_else(|| {
                    let class = rows.next(ready, |class| head(heads, class)).unwrap();
                    (class, rows.run(class, ready))
                });
                prop_assert_eq!(by_row, by_frame);
                heads[by_frame.index()] += 1;
                rows.end_run(&on);
                row = Some((by_row, on));
            }
        }
    }

    #[test]
    fn an_empty_queue_saves_nothing_up() {
        let mut scheduler = Scheduler::new(SchedulerKind::Dwrr, &std::array::from_fn(|_| queue(false, 1_600)));
        for _ in 0..100 {
            assert_eq!(scheduler.next(ClassSet::from_bits(1), |_| 64), Some(Class::new(0)));
            scheduler.handle_empty(Class::new(0));
        }
        let bytes = serve(&mut scheduler, ClassSet::from_bits(0b11), [64; 8], 1_000);
        assert!(bytes[0].abs_diff(bytes[1]) <= 1_600, "{bytes:?}");
    }
}
