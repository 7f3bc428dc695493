//! Threads that run parts of a fabric.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, RecvError, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_units::Time;

use super::part::PartBox;
use super::shares::Shares;

/// Threads beside the caller's. Each turn some parts go to each, and come back when they have had their turn: whoever has a part has
/// it for itself, so that nothing of it is locked. The threads wait for each other at the end of a turn alone.
#[derive(Debug, Default)]
pub(super) struct Crew {
    hands: Vec<Hand>,
    /// By thread, the caller's first: memory for what each runs in a turn.
    given: Vec<Share>,
    /// Memory in which parts come back to their places.
    back: Vec<Option<PartBox>>,
    /// For how long who waits looks again and again before it sleeps.
    looks_for: Duration,
}

/// Parts with their places among all.
type Share = Vec<(u32, PartBox)>;

#[derive(Debug)]
struct Hand {
    orders: SyncSender<Order>,
    done: Receiver<Done>,
    /// The caller's thread's, for what comes back.
    patience: Patience,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
enum Order {
    /// To have the parts' nodes of a side do what they have to do up to an instant; and for how long to look for the next order.
    Turn(Share, usize, Time, Duration),
    /// To tell for how long it was on a CPU.
    CpuTime,
}

#[derive(Debug)]
enum Done {
    Turn(Share),
    CpuTime(Option<Duration>),
}

/// For so long a thread looks again and again whether there is something for it, before it sleeps: turns follow each other at
/// once, and being woken takes as long as a short turn. Where there are fewer CPUs than threads it sleeps at once.
const LOOKS_FOR: Duration = Duration::from_micros(200);
/// Looks between two looks at the clock.
const LOOKS: u32 = 64;
/// After vain looks a thread sleeps at once for one turn, after more of them for twice as many each time up to this.
const SLEEPS_MAX: u32 = 64;

/// Whether a thread that waits looks before it sleeps.
///
/// Looks are vain where others have the CPU of the thread that is waited for: they keep it from that one CPU more.
#[derive(Debug, Default)]
struct Patience {
    /// Turns for which it sleeps at once, after the last vain looks and from now on.
    sleeps: u32,
    left: u32,
}

impl Crew {
    /// How many they are.
    pub(super) fn len(&self) -> usize {
        self.hands.len()
    }

    /// Has at least so many.
    pub(super) fn grow_to(&mut self, count: usize) {
        while self.hands.len() < count {
            let (orders, to_do) = sync_channel(1);
            let (finished, done) = sync_channel(1);
            let thread = thread::Builder::new().name("weir-sim".to_owned());
            let thread = thread.spawn(move || work(&to_do, &finished)).expect("the system has threads");
            self.hands.push(Hand { orders, done, patience: Patience::default(), thread });
        }
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        self.looks_for = if self.hands.len() < cpus { LOOKS_FOR } else { Duration::ZERO };
    }

    /// Has each part take its turn on the thread that it is shared out to; 0 is this one. Each thread has a part.
    ///
    /// # Panics
    /// If one panics.
    pub(super) fn run(&mut self, parts: &mut Vec<PartBox>, shares: &Shares, side: usize, limit: Time) {
        let threads = shares.threads_of(side);
        debug_assert_eq!(parts.len(), threads.len(), "each part has a thread");
        self.given.resize_with(shares.threads(), Vec::new);
        self.back.resize_with(parts.len(), || None);
        for ((part, at), thread) in parts.drain(..).zip(0..).zip(threads) {
            self.given[*thread as usize].push((at, part));
        }
        for hand in 0..self.given.len() - 1 {
            let share = std::mem::take(&mut self.given[hand + 1]);
            if self.hands[hand].orders.send(Order::Turn(share, side, limit, self.looks_for)).is_err() {
                self.fails(hand);
            }
        }
        take_turns(&mut self.given[0], side, limit);
        for hand in 0..self.given.len() - 1 {
            let Hand { done, patience, .. } = &mut self.hands[hand];
            match patience.receive(done, self.looks_for) {
                Ok(Done::Turn(share)) => self.given[hand + 1] = share,
                _ => self.fails(hand),
            }
        }
        for (at, part) in self.given.iter_mut().flat_map(|share| share.drain(..)) {
            self.back[at as usize] = Some(part);
        }
        parts.extend(self.back.drain(..).flatten());
    }

    /// How long they were on a CPU together; `None` if the system does not tell.
    pub(super) fn cpu_time(&mut self) -> Option<Duration> {
        let mut all = Duration::ZERO;
        for hand in 0..self.hands.len() {
            if self.hands[hand].orders.send(Order::CpuTime).is_err() {
                self.fails(hand);
            }
            match self.hands[hand].done.recv() {
                Ok(Done::CpuTime(time)) => all += time?,
                _ => self.fails(hand),
            }
        }
        Some(all)
    }

    /// Panics as the thread has.
    fn fails(&mut self, hand: usize) -> ! {
        match self.hands.swap_remove(hand).thread.join() {
            Err(panic) => resume_unwind(panic),
            Ok(()) => unreachable!("a thread ends when it is told to, or panics"),
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for Hand { orders, done, thread, .. } in self.hands.drain(..) {
            drop((orders, done));
            // It was told of before, or there is another panic under way.
            let _ = thread.join();
        }
    }
}

fn work(orders: &Receiver<Order>, done: &SyncSender<Done>) {
    let (mut looks_for, mut patience) = (Duration::ZERO, Patience::default());
    while let Ok(order) = patience.receive(orders, looks_for) {
        let did = match order {
            Order::Turn(mut share, side, limit, looks) => {
                looks_for = looks;
                take_turns(&mut share, side, limit);
                Done::Turn(share)
            }
            Order::CpuTime => Done::CpuTime(cpu_time()),
        };
        if done.send(did).is_err() {
            return;
        }
    }
}

fn take_turns(share: &mut Share, side: usize, limit: Time) {
    share.iter_mut().for_each(|(_, part)| part.take_turn(side, limit));
}

impl Patience {
    /// The next that comes, for which it looks so long before it sleeps, if looks are of use.
    fn receive<T>(&mut self, from: &Receiver<T>, looks_for: Duration) -> Result<T, RecvError> {
        if looks_for.is_zero() || !self.looks() {
            return from.recv();
        }
        let start = Instant::now();
        loop {
            for _ in 0..LOOKS {
                match from.try_recv() {
                    Ok(order) => {
                        self.note(true);
                        return Ok(order);
                    }
                    Err(TryRecvError::Disconnected) => return Err(RecvError),
                    Err(TryRecvError::Empty) => std::hint::spin_loop(),
                }
            }
            if start.elapsed() > looks_for {
                self.note(false);
                return from.recv();
            }
        }
    }

    /// Whether it looks in this turn.
    fn looks(&mut self) -> bool {
        let looks = self.left == 0;
        self.left = self.left.saturating_sub(1);
        looks
    }

    /// Notes whether looks found what they were for.
    fn note(&mut self, found: bool) {
        self.sleeps = if found { 0 } else { (2 * self.sleeps).clamp(1, SLEEPS_MAX) };
        self.left = self.sleeps;
    }
}

/// For how long this thread was on a CPU; `None` if the system does not tell.
pub(super) fn cpu_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For how many turns it sleeps at once before it looks again.
    fn slept(patience: &mut Patience) -> u32 {
        let mut turns = 0;
        while !patience.looks() {
            turns += 1;
        }
        turns
    }

    #[test]
    fn who_looks_in_vain_sleeps_at_once_for_longer_and_longer() {
        let mut patience = Patience::default();
        assert_eq!(slept(&mut patience), 0);
        for turns in [1, 2, 4, 8, 16, 32, 64, 64] {
            patience.note(false);
            assert_eq!(slept(&mut patience), turns);
        }
        patience.note(true);
        assert_eq!([0; 3].map(|_| slept(&mut patience)), [0; 3]);
        patience.note(false);
        assert_eq!(slept(&mut patience), 1);
    }

    #[test]
    fn what_comes_is_received_whether_it_is_looked_for_or_not() {
        let (orders, to_do) = sync_channel(1);
        let looks_for = Duration::from_millis(1);
        let mut patience = Patience::default();
        let late = thread::spawn(move || {
            for order in 0..4 {
                thread::sleep(10 * looks_for);
                orders.send(order).unwrap();
            }
        });
        for order in 0..4 {
            assert_eq!(patience.receive(&to_do, looks_for), Ok(order));
        }
        late.join().unwrap();
        assert_eq!(patience.receive(&to_do, looks_for), Err(RecvError));
    }
}
