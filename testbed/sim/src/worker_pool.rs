//! Worker pool that runs logical processes (LPs).

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, RecvError, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_units::Time;

use super::load_balancer::LoadBalancer;
use super::logical_process::BoxedLp;

/// Worker pool, without the calling thread. In each window LPs move to threads by value and return at its end, so they
/// need no lock; the only barrier is the window's end.
#[derive(Debug, Default)]
pub(super) struct WorkerPool {
    workers: Vec<Worker>,
    /// LPs of each thread in a window, the calling thread's first; reused.
    assignments: Vec<LpAssignment>,
    /// LPs in their original order after a window; reused.
    returned: Vec<Option<BoxedLp>>,
    /// Spin time of a waiting thread before it sleeps.
    spin_time: Duration,
}

type LpAssignment = Vec<(u32, BoxedLp)>;

#[derive(Debug)]
struct Worker {
    commands: SyncSender<WorkerCommand>,
    replies: Receiver<WorkerReply>,
    /// Spin policy of the calling thread towards this worker.
    spin_policy: SpinPolicy,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
enum WorkerCommand {
    /// Runs one window: the LPs, the phase, the limit, and the spin time before the next command.
    RunWindow(LpAssignment, usize, Time, Duration),
    /// Asks for the CPU time used.
    CpuTime,
}

#[derive(Debug)]
enum WorkerReply {
    WindowDone(LpAssignment),
    CpuTime(Option<Duration>),
}

/// Spin time of a waiting thread before it sleeps. Windows follow at once, and a wake-up takes as long as a short
/// window. With fewer CPUs than threads a thread sleeps at once.
const SPIN_TIME: Duration = Duration::from_micros(200);
/// Polls of the channel between two reads of the clock.
const POLLS_PER_CLOCK_READ: u32 = 64;
/// Largest number of windows for which a thread sleeps at once. The number starts at 1 after a futile spin and doubles
/// with each further one.
const SLEEPS_MAX: u32 = 64;

/// Spin policy of a waiting thread.
///
/// A spin is futile if other programs occupy the CPU of the awaited thread. Spinning then takes another CPU from it.
#[derive(Debug, Default)]
struct SpinPolicy {
    /// Windows without spinning: the number after the last futile spin, and those left.
    sleeps: u32,
    left: u32,
}

impl WorkerPool {
    pub(super) fn len(&self) -> usize {
        self.workers.len()
    }

    /// Grows the pool to at least `count` workers.
    pub(super) fn grow_to(&mut self, count: usize) {
        while self.workers.len() < count {
            let (commands, command_receiver) = sync_channel(1);
            let (reply_sender, replies) = sync_channel(1);
            let thread = thread::Builder::new().name("weir-sim".to_owned());
            let thread =
                thread.spawn(move || run_worker(&command_receiver, &reply_sender)).expect("the system has threads");
            self.workers.push(Worker { commands, replies, spin_policy: SpinPolicy::default(), thread });
        }
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        self.spin_time = if self.workers.len() < cpus { SPIN_TIME } else { Duration::ZERO };
    }

    /// Runs one window of each LP on its assigned thread; thread 0 is the calling one. Each LP is assigned to a thread.
    ///
    /// # Panics
    /// If a worker panics.
    pub(super) fn run(&mut self, lps: &mut Vec<BoxedLp>, load_balancer: &LoadBalancer, phase: usize, limit: Time) {
        let threads = load_balancer.threads_of(phase);
        debug_assert_eq!(lps.len(), threads.len(), "each LP has a thread");
        self.assignments.resize_with(load_balancer.threads(), Vec::new);
        self.returned.resize_with(lps.len(), || None);
        for ((lp, index), thread) in lps.drain(..).zip(0..).zip(threads) {
            self.assignments[*thread as usize].push((index, lp));
        }
        for worker in 0..self.assignments.len() - 1 {
            let assignment = std::mem::take(&mut self.assignments[worker + 1]);
            if self.workers[worker]
                .commands
                .send(WorkerCommand::RunWindow(assignment, phase, limit, self.spin_time))
                .is_err()
            {
                self.resume_panic(worker);
            }
        }
        run_assignment(&mut self.assignments[0], phase, limit);
        for worker in 0..self.assignments.len() - 1 {
            let Worker { replies, spin_policy, .. } = &mut self.workers[worker];
            match spin_policy.receive(replies, self.spin_time) {
                Ok(WorkerReply::WindowDone(assignment)) => self.assignments[worker + 1] = assignment,
                _ => self.resume_panic(worker),
            }
        }
        for (index, lp) in self.assignments.iter_mut().flat_map(|assignment| assignment.drain(..)) {
            self.returned[index as usize] = Some(lp);
        }
        lps.extend(self.returned.drain(..).flatten());
    }

    /// Returns the CPU time of all workers; `None` if the system does not report it.
    pub(super) fn cpu_time(&mut self) -> Option<Duration> {
        let mut all = Duration::ZERO;
        for worker in 0..self.workers.len() {
            if self.workers[worker].commands.send(WorkerCommand::CpuTime).is_err() {
                self.resume_panic(worker);
            }
            match self.workers[worker].replies.recv() {
                Ok(WorkerReply::CpuTime(time)) => all += time?,
                _ => self.resume_panic(worker),
            }
        }
        Some(all)
    }

    /// Joins a failed worker and resumes its panic here.
    fn resume_panic(&mut self, worker: usize) -> ! {
        match self.workers.swap_remove(worker).thread.join() {
            Err(panic) => resume_unwind(panic),
            Ok(()) => unreachable!("a worker ends when its channel closes, or panics"),
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        for Worker { commands, replies, thread, .. } in self.workers.drain(..) {
            drop((commands, replies));
            // A worker's panic was reported already, or another panic is unwinding.
            let _ = thread.join();
        }
    }
}

fn run_worker(commands: &Receiver<WorkerCommand>, replies: &SyncSender<WorkerReply>) {
    let (mut spin_time, mut spin_policy) = (Duration::ZERO, SpinPolicy::default());
    while let Ok(command) = spin_policy.receive(commands, spin_time) {
        let reply = match command {
            WorkerCommand::RunWindow(mut assignment, phase, limit, next_spin_time) => {
                spin_time = next_spin_time;
                run_assignment(&mut assignment, phase, limit);
                WorkerReply::WindowDone(assignment)
            }
            WorkerCommand::CpuTime => WorkerReply::CpuTime(cpu_time()),
        };
        if replies.send(reply).is_err() {
            return;
        }
    }
}

fn run_assignment(assignment: &mut LpAssignment, phase: usize, limit: Time) {
    assignment.iter_mut().for_each(|(_, lp)| lp.run_window(phase, limit));
}

impl SpinPolicy {
    /// Receives the next value. Spins up to `spin_time` first, unless spins were futile recently.
    fn receive<T>(&mut self, from: &Receiver<T>, spin_time: Duration) -> Result<T, RecvError> {
        if spin_time.is_zero() || !self.should_spin() {
            return from.recv();
        }
        let start = Instant::now();
        loop {
            for _ in 0..POLLS_PER_CLOCK_READ {
                match from.try_recv() {
                    Ok(value) => {
                        self.record_spin(true);
                        return Ok(value);
                    }
                    Err(TryRecvError::Disconnected) => return Err(RecvError),
                    Err(TryRecvError::Empty) => std::hint::spin_loop(),
                }
            }
            if start.elapsed() > spin_time {
                self.record_spin(false);
                return from.recv();
            }
        }
    }

    /// Whether to spin in this window.
    fn should_spin(&mut self) -> bool {
        let spins = self.left == 0;
        self.left = self.left.saturating_sub(1);
        spins
    }

    /// Records whether a spin succeeded.
    fn record_spin(&mut self, found: bool) {
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
    fn slept(spin_policy: &mut SpinPolicy) -> u32 {
        let mut turns = 0;
        while !spin_policy.should_spin() {
            turns += 1;
        }
        turns
    }

    #[test]
    fn who_looks_in_vain_sleeps_at_once_for_longer_and_longer() {
        let mut spin_policy = SpinPolicy::default();
        assert_eq!(slept(&mut spin_policy), 0);
        for turns in [1, 2, 4, 8, 16, 32, 64, 64] {
            spin_policy.record_spin(false);
            assert_eq!(slept(&mut spin_policy), turns);
        }
        spin_policy.record_spin(true);
        assert_eq!([0; 3].map(|_| slept(&mut spin_policy)), [0; 3]);
        spin_policy.record_spin(false);
        assert_eq!(slept(&mut spin_policy), 1);
    }

    #[test]
    fn what_comes_is_received_whether_it_is_looked_for_or_not() {
        let (orders, to_do) = sync_channel(1);
        let looks_for = Duration::from_millis(1);
        let mut spin_policy = SpinPolicy::default();
        let late = thread::spawn(move || {
            for order in 0..4 {
                thread::sleep(10 * looks_for);
                orders.send(order).unwrap();
            }
        });
        for order in 0..4 {
            assert_eq!(spin_policy.receive(&to_do, looks_for), Ok(order));
        }
        late.join().unwrap();
        assert_eq!(spin_policy.receive(&to_do, looks_for), Err(RecvError));
    }
}
