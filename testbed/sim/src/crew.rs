//! Worker pool that runs logical processes (LPs).

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, RecvError, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_units::Time;

use super::part::PartBox;
use super::shares::Shares;

/// Worker pool, without the calling thread. In each window LPs move to threads by value and return at its end, so they
/// need no lock; the only barrier is the window's end.
#[derive(Debug, Default)]
pub(super) struct Crew {
    hands: Vec<Hand>,
    /// LPs of each thread in a window, the calling thread's first; reused.
    given: Vec<Share>,
    /// LPs in their original order after a window; reused.
    back: Vec<Option<PartBox>>,
    /// Spin time of a waiting thread before it sleeps.
    looks_for: Duration,
}

type Share = Vec<(u32, PartBox)>;

#[derive(Debug)]
struct Hand {
    orders: SyncSender<Order>,
    done: Receiver<Done>,
    /// Spin policy of the calling thread towards this worker.
    patience: Patience,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
enum Order {
    /// Runs one window: the LPs, the phase, the limit, and the spin time before the next command.
    Turn(Share, usize, Time, Duration),
    /// Asks for the CPU time used.
    CpuTime,
}

#[derive(Debug)]
enum Done {
    Turn(Share),
    CpuTime(Option<Duration>),
}

/// Spin time of a waiting thread before it sleeps. Windows follow at once, and a wake-up takes as long as a short
/// window. With fewer CPUs than threads a thread sleeps at once.
const LOOKS_FOR: Duration = Duration::from_micros(200);
/// Polls of the channel between two reads of the clock.
const LOOKS: u32 = 64;
/// Largest number of windows for which a thread sleeps at once. The number starts at 1 after a futile spin and doubles
/// with each further one.
const SLEEPS_MAX: u32 = 64;

/// Spin policy of a waiting thread.
///
/// A spin is futile if other programs occupy the CPU of the awaited thread. Spinning then takes another CPU from it.
#[derive(Debug, Default)]
struct Patience {
    /// Windows without spinning: the number after the last futile spin, and those left.
    sleeps: u32,
    left: u32,
}

impl Crew {
    pub(super) fn len(&self) -> usize {
        self.hands.len()
    }

    /// Grows the pool to at least `count` workers.
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

    /// Runs one window of each LP on its assigned thread; thread 0 is the calling one. Each LP is assigned to a thread.
    ///
    /// # Panics
    /// If a worker panics.
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

    /// Returns the CPU time of all workers; `None` if the system does not report it.
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

    /// Joins a failed worker and resumes its panic here.
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
            // A worker's panic was reported already, or another panic is unwinding.
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
    /// Receives the next value. Spins up to `looks_for` first, unless spins were futile recently.
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

    /// Whether to spin in this window.
    fn looks(&mut self) -> bool {
        let looks = self.left == 0;
        self.left = self.left.saturating_sub(1);
        looks
    }

    /// Records whether a spin succeeded.
    fn note(&mut self, found: bool) {
        self.sleeps = if found { 0 } else { (2 * self.sleeps).clamp(1, SLEEPS_MAX) };
        self.left = self.sleeps;
    }
}

/// Returns the CPU time of this thread; `None` if the system does not report it.
pub(super) fn cpu_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of windows without spinning before the next spin.
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
