//! Ranks on real hosts: a thread for each host runs its programs, and exchanges their messages.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weir_dpdk_io::Clock;
use weir_hosts::{RankArrival, RankConnection, RankEnds, RankHost, RankNetwork};
use weir_nic::host::Host;
use weir_scenario::Scenario;
use weir_units::Time;

use super::host_events::HostReporter;
use super::shared_stats::SharedStats;

/// Longest wait of a rank's thread. Triggers and the run's end wake none.
const WAIT_MAX: Duration = Duration::from_micros(500);
/// Interval between checks of whether the scenario has started.
const START_EVERY: Duration = Duration::from_millis(1);

/// Real host with ranks, before the run.
pub(super) struct RealRank {
    pub(super) number: usize,
    pub(super) host: Host,
    pub(super) reporter: HostReporter,
}

/// Real hosts with ranks before the run, and their connections.
pub(super) struct RankSetup {
    pub(super) ranks: Vec<RealRank>,
    pub(super) connections: Vec<RankConnection>,
}

/// Running threads of all real hosts with ranks. Dropping it stops them.
pub(super) struct RealRanks {
    state: Arc<RanksState>,
    threads: Vec<JoinHandle<()>>,
}

/// State that the threads share with the control thread.
#[derive(Debug, Default)]
struct RanksState {
    stop: AtomicBool,
    /// Hosts whose connections are not open yet.
    unconnected: AtomicUsize,
    /// Hosts whose programs go on, or whose messages are not acknowledged.
    unfinished: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

/// Thread of a host.
struct RankThread {
    rank: RealRank,
    network: Arc<RankNetwork>,
    shared_stats: Arc<SharedStats>,
    state: Arc<RanksState>,
    clock: Clock,
    end: Time,
    dilation: u64,
}

impl RealRanks {
    /// Starts the threads, which open the connections and wait for the scenario's start. `hosts` has each host by its index in the
    /// scenario.
    pub(super) fn start(
        scenario: &Scenario,
        setup: RankSetup,
        hosts: Vec<Option<RankHost>>,
        shared_stats: &Arc<SharedStats>,
        clock: Clock,
    ) -> io::Result<RealRanks> {
        let RankSetup { ranks, connections } = setup;
        let network = Arc::new(RankNetwork::new(connections, hosts, scenario.time_dilation()));
        let state = Arc::new(RanksState::default());
        state.unconnected.store(ranks.len(), Ordering::Relaxed);
        state.unfinished.store(ranks.len(), Ordering::Relaxed);
        let mut all = RealRanks { state, threads: Vec::new() };
        for rank in ranks {
            let name = scenario.hosts[rank.number].name.clone();
            let (network, state, shared_stats) = (network.clone(), all.state.clone(), shared_stats.clone());
            let (end, dilation) = (scenario.end, u64::from(scenario.time_dilation()));
            let thread = RankThread { rank, network, shared_stats, state, clock, end, dilation };
            let run = move || {
                let state = thread.state.clone();
                // Ranks that leave a finished run close their connections.
                if let Err(error) = thread.run()
                    && state.unfinished.load(Ordering::Relaxed) > 0
                    && !state.stop.swap(true, Ordering::Relaxed)
                {
                    let why = format!("the rank on host {name} has failed: {error}");
                    state.failures.lock().expect("nobody panics with it").push(why);
                }
            };
            all.threads.push(thread::Builder::new().name("weir-rank".to_owned()).spawn(run)?);
        }
        Ok(all)
    }

    /// Whether all connections are open, or a rank has failed.
    pub(super) fn are_connected(&self) -> bool {
        self.state.unconnected.load(Ordering::Relaxed) == 0 || self.are_done()
    }

    /// Whether all threads have ended.
    pub(super) fn are_done(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Stops all ranks, without waiting for them.
    pub(super) fn stop(&self) {
        self.state.stop.store(true, Ordering::Relaxed);
    }

    /// Stops the ranks, and returns their failures.
    pub(super) fn finish(mut self) -> Vec<String> {
        self.stop();
        self.threads.drain(..).for_each(|thread| _ = thread.join());
        std::mem::take(&mut self.state.failures.lock().expect("nobody panics with it"))
    }
}

impl Drop for RealRanks {
    fn drop(&mut self) {
        self.stop();
    }
}

impl RankThread {
    fn run(mut self) -> io::Result<()> {
        let mut ends = self.network.open(self.rank.number, &self.state.stop)?;
        self.state.unconnected.fetch_sub(1, Ordering::Relaxed);
        let mut is_finished = false;
        while !self.state.stop.load(Ordering::Relaxed) && self.state.unfinished.load(Ordering::Relaxed) > 0 {
            let Some(now) = self.now() else {
                thread::sleep(START_EVERY);
                continue;
            };
            let has_moved = self.advance(now, &mut ends)?;
            self.shared_stats.publish_end(now, self.rank.number, &self.rank.host);
            // From the end on the programs start nothing.
            if !is_finished && now >= self.end && self.rank.host.is_finished() {
                is_finished = true;
                self.state.unfinished.fetch_sub(1, Ordering::Relaxed);
            }
            if !has_moved {
                let left = self.rank.host.next_program_wakeup().max(now).since(now);
                let most = Duration::from_nanos(left.as_nanos().saturating_mul(self.dilation));
                ends.wait(most.min(WAIT_MAX));
            }
        }
        Ok(())
    }

    /// Runs the programs up to `now`, and exchanges their messages; returns whether anything moved.
    fn advance(&mut self, now: Time, ends: &mut RankEnds) -> io::Result<bool> {
        let RankThread { rank: RealRank { host, reporter, .. }, .. } = self;
        let taken = reporter.take_triggers(now, host);
        host.advance_programs(now);
        host.drain_server_messages().for_each(|message| ends.send(message));
        let mut arrivals = Vec::new();
        let has_moved = ends.exchange(|arrival| arrivals.push(arrival))?;
        // Read after the exchange: no arrival is earlier than its message's start.
        let now = self.now().unwrap_or(now).max(now);
        let RankThread { rank: RealRank { host, reporter, .. }, .. } = self;
        for arrival in arrivals {
            match arrival {
                RankArrival::Message(message) => host.handle_server_message(now, &message),
                RankArrival::Ack(message) => host.handle_server_ack(now, &message),
            }
        }
        reporter.report(host);
        Ok(has_moved || taken > 0)
    }

    fn now(&self) -> Option<Time> {
        self.shared_stats.scenario_time(Time::from_picos(self.clock.now_ps()))
    }
}
