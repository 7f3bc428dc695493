//! Ports that a thread polls, as a [`TrafficTester`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_flowctl::Quantum;
use weir_units::{BitRate, MacAddr, Span, Time};

use super::ports::{PortSetting, StreamPorts, WirePort};
use crate::tester::{ControlStats, ControlStream, PfcReaction, StreamId, StreamStats, TestStream, TrafficTester};
use crate::{Disturbance, TestFailure};

/// Tester in real time.
#[derive(Debug)]
pub struct WireTester {
    stream_ports: Arc<Mutex<StreamPorts>>,
    started: Instant,
    settings: Vec<PortSetting>,
    /// Longest time by which [`WireTester::run_for`] was late since the last reset.
    late: Span,
    is_ending: Arc<AtomicBool>,
    /// Set by a signal.
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl WireTester {
    /// Starts a tester with these ports, which lets no time pass once `stop` is set. `prepare` is called in the thread that polls them.
    ///
    /// # Errors
    /// If there is no thread.
    pub fn start(
        ports: Vec<(PortSetting, Box<dyn WirePort>)>,
        stop: Arc<AtomicBool>,
        prepare: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<WireTester> {
        let started = Instant::now();
        let settings: Vec<PortSetting> = ports.iter().map(|(setting, _)| setting.clone()).collect();
        let poll_every = poll_every(settings.iter().map(|setting| setting.rate).max());
        let stream_ports = Arc::new(Mutex::new(StreamPorts::new(ports)));
        let is_ending = Arc::new(AtomicBool::new(false));
        let (of_thread, ending) = (stream_ports.clone(), is_ending.clone());
        let thread = std::thread::Builder::new().name("weir-tester".to_owned()).spawn(move || {
            prepare();
            // Relaxed: it guards nothing.
            while !ending.load(Ordering::Relaxed) {
                let (moved, due) = {
                    let mut stream_ports = lock(&of_thread);
                    (stream_ports.poll(&|| time_since(started)), stream_ports.next_due())
                };
                let idle = due.as_nanos().saturating_sub(time_since(started).as_nanos());
                if !moved && idle > 0 {
                    std::thread::sleep(Duration::from_nanos(idle).min(poll_every));
                }
            }
        })?;
        Ok(WireTester { stream_ports, started, settings, late: Span::ZERO, is_ending, stop, thread: Some(thread) })
    }

    fn streams(&self) -> MutexGuard<'_, StreamPorts> {
        lock(&self.stream_ports)
    }
}

impl TrafficTester for WireTester {
    fn ports(&self) -> usize {
        self.settings.len()
    }

    fn rate(&self, port: usize) -> BitRate {
        self.settings[port].rate
    }

    fn station(&self, port: usize) -> MacAddr {
        self.settings[port].station
    }

    fn now(&self) -> Time {
        time_since(self.started)
    }

    fn run_for(&mut self, span: Span) -> Result<(), TestFailure> {
        let end = self.now() + span;
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(TestFailure::Interrupted);
            }
            let left = Duration::from_nanos(end.since(self.now()).as_nanos());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(STOP_WITHIN));
        }
        self.late = self.late.max(self.now().since(end));
        match &self.thread {
            Some(thread) if !thread.is_finished() => Ok(()),
            _ => Err(TestFailure::broken("the tester's thread has ended")),
        }
    }

    fn start(&mut self, stream: &TestStream) -> Result<StreamId, TestFailure> {
        let now = self.now();
        Ok(self.streams().start(stream, now))
    }

    fn stop(&mut self, stream: StreamId) -> Result<(), TestFailure> {
        self.streams().stop(stream);
        Ok(())
    }

    fn stats(&mut self, stream: StreamId) -> Result<StreamStats, TestFailure> {
        Ok(self.streams().stats(stream))
    }

    fn send_control(&mut self, control: &ControlStream) -> Result<StreamId, TestFailure> {
        let now = self.now();
        self.streams().send_control(control, now)
    }

    fn control_stats(&mut self, port: usize) -> Result<ControlStats, TestFailure> {
        let now = self.now();
        Ok(self.streams().control_stats(port, now))
    }

    fn clear_stats(&mut self) -> Result<(), TestFailure> {
        self.streams().clear_stats();
        Ok(())
    }

    fn set_pfc_reaction(&mut self, port: usize, reaction: PfcReaction) -> Result<(), TestFailure> {
        self.streams().set_pfc_reaction(port, reaction);
        Ok(())
    }

    fn set_link_up(&mut self, port: usize, up: bool) -> Result<(), TestFailure> {
        self.streams().set_link_up(port, up)
    }

    fn reset(&mut self) -> Result<(), TestFailure> {
        self.late = Span::ZERO;
        self.streams().reset()
    }

    fn disturbance(&mut self) -> Disturbance {
        let disturbance = self.streams().disturbance();
        Disturbance { late: disturbance.late.max(self.late), ..disturbance }
    }
}

impl Drop for WireTester {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
    }
}

fn lock(stream_ports: &Mutex<StreamPorts>) -> MutexGuard<'_, StreamPorts> {
    stream_ports.lock().unwrap_or_else(PoisonError::into_inner)
}

fn time_since(started: Instant) -> Time {
    Time::from_nanos(started.elapsed().as_nanos() as u64)
}

/// Longest sleep of the thread, by which a frame may arrive unseen: a 64th of the fastest port's longest pause, at most 100 us.
fn poll_every(fastest: Option<BitRate>) -> Duration {
    let pause = fastest.map_or(Span::ZERO, |rate| Quantum::for_rate(rate).times(u16::MAX));
    Duration::from_nanos(pause.divided_by(64).as_nanos()).min(Duration::from_micros(100))
}

/// Longest time until a signal ends a test.
const STOP_WITHIN: Duration = Duration::from_millis(50);
