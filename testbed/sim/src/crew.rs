//! Threads that run parts of a fabric.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, RecvError, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_units::Time;

use super::part::PartBox;

/// Threads beside the caller's. Each turn a part goes to each, and comes back when it has had its turn: whoever has a part has
/// it for itself, so that nothing is locked. The threads wait for each other at the end of a turn alone.
#[derive(Debug, Default)]
pub(super) struct Crew {
    hands: Vec<Hand>,
    /// For how long who waits looks again and again before it sleeps.
    looks_for: Duration,
}

#[derive(Debug)]
struct Hand {
    orders: SyncSender<Order>,
    done: Receiver<Done>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
enum Order {
    /// To have the part's nodes of a side do what they have to do up to an instant; and for how long to look for the next order.
    Turn(PartBox, usize, Time, Duration),
    /// To tell for how long it was on a CPU.
    CpuTime,
}

#[derive(Debug)]
enum Done {
    Turn(PartBox),
    CpuTime(Option<Duration>),
}

/// For so long a thread looks again and again whether there is something for it, before it sleeps: turns follow each other at
/// once, and being woken takes as long as a short turn. Where there are fewer CPUs than threads it sleeps at once.
const LOOKS_FOR: Duration = Duration::from_micros(200);
/// Looks between two looks at the clock.
const LOOKS: u32 = 64;

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
            self.hands.push(Hand { orders, done, thread });
        }
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        self.looks_for = if self.hands.len() < cpus { LOOKS_FOR } else { Duration::ZERO };
    }

    /// Has each part take its turn: the first on this thread.
    ///
    /// # Panics
    /// If one panics.
    pub(super) fn run(&mut self, parts: &mut Vec<PartBox>, side: usize, limit: Time) {
        let mut waiting = parts.drain(1..);
        let mut given = 0;
        for part in &mut waiting {
            if self.hands[given].orders.send(Order::Turn(part, side, limit, self.looks_for)).is_err() {
                self.fails(given);
            }
            given += 1;
        }
        drop(waiting);
        parts[0].take_turn(side, limit);
        for hand in 0..given {
            match receive(&self.hands[hand].done, self.looks_for) {
                Ok(Done::Turn(part)) => parts.push(part),
                _ => self.fails(hand),
            }
        }
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
        for Hand { orders, done, thread } in self.hands.drain(..) {
            drop((orders, done));
            // It was told of before, or there is another panic under way.
            let _ = thread.join();
        }
    }
}

fn work(orders: &Receiver<Order>, done: &SyncSender<Done>) {
    let mut looks_for = Duration::ZERO;
    while let Ok(order) = receive(orders, looks_for) {
        let did = match order {
            Order::Turn(mut part, side, limit, looks) => {
                looks_for = looks;
                part.take_turn(side, limit);
                Done::Turn(part)
            }
            Order::CpuTime => Done::CpuTime(cpu_time()),
        };
        if done.send(did).is_err() {
            return;
        }
    }
}

/// The next that comes, for which it looks so long before it sleeps.
fn receive<T>(from: &Receiver<T>, looks_for: Duration) -> Result<T, RecvError> {
    if looks_for.is_zero() {
        return from.recv();
    }
    let start = Instant::now();
    loop {
        for _ in 0..LOOKS {
            match from.try_recv() {
                Ok(order) => return Ok(order),
                Err(TryRecvError::Disconnected) => return Err(RecvError),
                Err(TryRecvError::Empty) => std::hint::spin_loop(),
            }
        }
        if start.elapsed() > looks_for {
            return from.recv();
        }
    }
}

/// For how long this thread was on a CPU; `None` if the system does not tell.
pub(super) fn cpu_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}
