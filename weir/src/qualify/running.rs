//! A switch of this command: `weir run` on a file, by its control socket.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use weir_config::{SchedulerKind, SwitchConfig, WatchdogAction};
use weir_control::protocol::{ClearRequest, Clearable, Reply, Request, ShowRequest, ShowView};
use weir_control::runtime_config::{Assignment, ChangeOutcome, SetRequest, SwitchSelector};
use weir_control::state::{Lcore, LossPlace, State};
use weir_control::{Client, sockets};
use weir_experiments::Failure;
use weir_qualify::{DeviceCounters, DeviceUnderTest, Disturbance, Facts, TestFailure, sonic, virtual_time};
use weir_units::{BitRate, Class, Span};

use crate::control::{Target, failure};
use crate::export;

/// A running switch of a file.
pub(super) struct FileSwitch {
    facts: Facts,
    config: SwitchConfig,
    target: Target,
    /// The process, if this command started it.
    process: Option<SwitchProcess>,
    /// Keys that were set, and their last values. They come back after a time, also when this process is killed.
    set: BTreeMap<String, String>,
    /// Queues whose weights differ from the file's.
    changed_weights: Vec<Class>,
    /// Counters at the last clear.
    cleared: DeviceCounters,
    /// Poll gaps, and losses at devices, at the last restore.
    lcores: Vec<Lcore>,
    lost: u64,
}

/// A process of `weir run`, and its files. It ends with this value.
struct SwitchProcess {
    process: Child,
    folder: tempfile::TempDir,
}

impl FileSwitch {
    /// Finds the run of a file, or starts one that ends with this value.
    pub(super) fn reach(path: &Path, config: &SwitchConfig, stop: &AtomicBool) -> Result<FileSwitch, Failure> {
        let (target, process) = match running(path)? {
            Some(target) => (target, None),
            None => {
                let started = SwitchProcess::new(path, stop)?;
                (Target::of_socket(started.socket()), Some(started))
            }
        };
        let facts = facts(config)?;
        let mut switch = FileSwitch {
            facts,
            config: config.clone(),
            target,
            process,
            set: BTreeMap::new(),
            changed_weights: Vec::new(),
            cleared: DeviceCounters::default(),
            lcores: Vec::new(),
            lost: 0,
        };
        (switch.lcores, switch.lost) = switch.disturbances().map_err(of_test)?;
        Ok(switch)
    }

    fn ask(&self, request: &Request) -> Result<Reply, TestFailure> {
        let mut client = self.target.connect().map_err(broken)?;
        client.ask(request).map_err(|error| broken(failure(error)))
    }

    fn read(&self) -> Result<DeviceCounters, TestFailure> {
        let database = export::of_running(&self.target).map_err(broken)?;
        let ports: Vec<String> = self.facts.ports.iter().map(|port| port.name.clone()).collect();
        sonic::counters(&database.json(), &ports)
    }

    /// Reads the poll gaps, and the frames that devices have lost.
    fn disturbances(&self) -> Result<(Vec<Lcore>, u64), TestFailure> {
        let show = |what| self.ask(&Request::Show(ShowRequest { what, switch: None, ports: Vec::new() }));
        let (Reply::Lcores(lcores), Reply::Switches(shown)) = (show(ShowView::Lcores)?, show(ShowView::Losses)?) else {
            return Err(TestFailure::broken("the switch does not answer for its lcores and losses"));
        };
        let rows = shown.iter().flat_map(|shown| match &shown.state {
            State::Losses(rows) => &rows[..],
            _ => &[],
        });
        let at_devices = rows.filter(|row| matches!(row.place, LossPlace::DeviceReceive | LossPlace::DeviceTransmit));
        Ok((lcores, at_devices.filter_map(|row| row.frames).sum()))
    }

    /// Takes the rates of the links, which the switch takes where its file has none.
    pub(super) fn set_rates(&mut self, rates: &[BitRate]) -> Result<(), Failure> {
        self.config.ports.iter_mut().zip(rates).for_each(|(port, rate)| port.rate = Some(*rate));
        self.facts = facts(&self.config)?;
        Ok(())
    }

    /// Sets keys for longer than a test.
    fn set(&mut self, changes: &[(String, String)]) -> Result<(), TestFailure> {
        let slowest = self.config.ports.iter().filter_map(|port| port.rate).min().map_or(1, BitRate::as_bps);
        let times = (BitRate::mbps(100).as_bps() / slowest.max(1)).clamp(1, 100);
        self.set_for(changes, SET_FOR_MS * times)?;
        self.set.extend(changes.iter().cloned());
        Ok(())
    }

    fn set_for(&self, changes: &[(String, String)], ms: u64) -> Result<(), TestFailure> {
        let changes =
            changes.iter().map(|(key, value)| Assignment { key: key.clone(), value: Some(value.clone()) }).collect();
        let switch = Some(self.config.name.clone());
        let set = SetRequest { switch, changes, for_ms: Some(ms) };
        let Reply::Changed(reports) = self.ask(&Request::Set(set))? else {
            return Err(TestFailure::broken("the switch does not answer for its keys"));
        };
        let mut changes = reports.iter().flat_map(|report| &report.changes);
        let refused =
            changes.find(|change| matches!(change.outcome, ChangeOutcome::Refused | ChangeOutcome::NeedsRestart));
        refused.map_or(Ok(()), |change| {
            let why = change.why.clone().unwrap_or_default();
            Err(TestFailure::impossible(format!("{} can't be set while the switch runs: {why}", change.key)))
        })
    }

    /// Keys of a queue's share, of which a file may have either.
    fn share_keys(&self, class: Class, share: u32) -> [(String, String); 2] {
        let (set, other) = match self.config.classes.scheduler {
            SchedulerKind::Dwrr => ("quantum", "weight"),
            SchedulerKind::PacketRr => ("weight", "quantum"),
        };
        let key = |name: &str| format!("classes.queues.{}.{name}", class.number());
        [(key(set), share.to_string()), (key(other), "default".to_owned())]
    }
}

impl DeviceUnderTest for FileSwitch {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn counters(&mut self) -> Result<DeviceCounters, TestFailure> {
        Ok(sonic::since(&self.read()?, &self.cleared))
    }

    fn clear(&mut self) -> Result<(), TestFailure> {
        let switch = Some(self.config.name.clone());
        self.ask(&Request::Clear(ClearRequest { what: Clearable::Watermarks, switch }))?;
        self.cleared = self.read()?;
        Ok(())
    }

    fn set_watchdog(&mut self, on: bool, drops: bool) -> Result<(), TestFailure> {
        let Some(watchdog) = &self.config.pfc_watchdog else {
            return Err(TestFailure::impossible("the switch has no PFC watchdog: [pfc_watchdog] in its file"));
        };
        let (time, action) = match (on, drops) {
            (true, true) => (watchdog.detection_time, WatchdogAction::Drop),
            (true, false) => (watchdog.detection_time, WatchdogAction::Forward),
            (false, _) => (NEVER, WatchdogAction::Alert),
        };
        self.set(&watchdog_keys(time, action))
    }

    fn set_weight(&mut self, class: Class, weight: u32) -> Result<(), TestFailure> {
        self.set(&self.share_keys(class, weight))?;
        self.changed_weights.push(class);
        Ok(())
    }

    fn restore(&mut self) -> Result<(), TestFailure> {
        let changed = std::mem::take(&mut self.changed_weights);
        let queues = &self.config.classes.queues;
        let shares: Vec<_> =
            changed.into_iter().flat_map(|class| self.share_keys(class, queues[class.index()].quantum)).collect();
        if !shares.is_empty() {
            self.set(&shares)?;
        }
        if self.config.pfc_watchdog.is_some() {
            self.set_watchdog(false, true)?;
        }
        (self.lcores, self.lost) = self.disturbances()?;
        Ok(())
    }

    fn disturbance(&mut self) -> Disturbance {
        let Ok((lcores, lost)) = self.disturbances() else { return Disturbance::default() };
        let of_lcores = lcores.iter().zip(&self.lcores).map(|(now, before)| gaps_since(now, before));
        let (late, late_total) =
            of_lcores.fold((0, 0), |(late, all), (longest, total)| (longest.max(late), total.max(all)));
        let lost = lost.saturating_sub(self.lost);
        let losses = (lost > 0).then(|| format!("the switch's devices lost {lost} frames"));
        Disturbance {
            late: Span::from_nanos(late),
            late_total: Span::from_nanos(late_total),
            losses: losses.into_iter().collect(),
        }
    }

    /// Lcores publish their counters between bursts, and take over settings there.
    fn settling_time(&self) -> Span {
        Span::from_millis(20)
    }
}

/// A switch that goes on has its values back at once.
impl Drop for FileSwitch {
    fn drop(&mut self) {
        let set: Vec<(String, String)> = std::mem::take(&mut self.set).into_iter().collect();
        if self.process.is_none()
            && !set.is_empty()
            && let Err(failure) = self.set_for(&set, 1)
        {
            tracing::warn!("the switch's watchdog and weights come back later: {failure}");
        }
    }
}

fn watchdog_keys(detection_time: Span, action: WatchdogAction) -> [(String, String); 2] {
    let time = format!("{}us", detection_time.as_micros());
    [("pfc_watchdog.detection_time".to_owned(), time), ("pfc_watchdog.action".to_owned(), action.name().to_owned())]
}

/// Longest poll gap since an earlier reading, and all of a millisecond and more together, in nanoseconds: each counts as the end of its
/// bucket.
fn gaps_since(now: &Lcore, before: &Lcore) -> (u64, u64) {
    let polls_before =
        |up_to_ns: u64| before.gaps.iter().find(|gap| gap.up_to_ns == up_to_ns).map_or(0, |gap| gap.polls);
    let grown = now.gaps.iter().map(|gap| (gap.up_to_ns.min(now.gap_max_ns), gap.polls - polls_before(gap.up_to_ns)));
    let grown = grown.filter(|(_, polls)| *polls > 0);
    grown.fold((0, 0), |(longest, total), (ns, polls)| {
        let long = if ns >= LATE_FROM_NS { ns * polls } else { 0 };
        (longest.max(ns), total + long)
    })
}

/// The run of a file, if there is one.
fn running(path: &Path) -> Result<Option<Target>, Failure> {
    let file = fs::canonicalize(path)?;
    let request = Request::Configuration(SwitchSelector { switch: None });
    for socket in sockets() {
        // A socket may be of a process that is gone.
        let Ok(Reply::Configurations(all)) = Client::connect(&socket).and_then(|mut client| client.ask(&request))
        else {
            continue;
        };
        if all.len() == 1 && Path::new(&all[0].file) == file {
            return Ok(Some(Target::of_socket(socket)));
        }
    }
    Ok(None)
}

impl SwitchProcess {
    /// Starts `weir run`, and waits until it answers, or a signal sets `stop`.
    fn new(path: &Path, stop: &AtomicBool) -> Result<SwitchProcess, Failure> {
        let folder = tempfile::Builder::new().prefix("weir-qualify-").tempdir()?;
        let log = File::create(folder.path().join("log"))?;
        let mut started = Command::new(std::env::current_exe()?);
        started.arg("run").arg(path).arg("--quiet").arg("--control").arg(folder.path().join(SOCKET));
        started.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut started = SwitchProcess { process: started.spawn()?, folder };
        let deadline = Instant::now() + START_WITHIN;
        loop {
            if Client::connect(&started.socket()).and_then(|mut client| client.hello()).is_ok() {
                return Ok(started);
            }
            if stop.load(Ordering::Relaxed) {
                return Err(of_test(TestFailure::Interrupted));
            }
            let ended = started.process.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                let log = fs::read_to_string(started.folder.path().join("log")).unwrap_or_default();
                return Err(Failure::Run(format!("weir run {} does not start:\n{}", path.display(), log.trim_end())));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join(SOCKET)
    }
}

impl Drop for SwitchProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let _ = self.process.wait();
    }
}

/// Facts of a switch on wires, from its file.
fn facts(config: &SwitchConfig) -> Result<Facts, Failure> {
    let wrong = |failure: TestFailure| Failure::Argument(failure.to_string());
    let (_, device) = virtual_time::new(std::slice::from_ref(config)).map_err(wrong)?;
    let mut facts = device.facts().clone();
    for port in &mut facts.ports {
        // Headroom also covers the switch's own delay, and by how much that varies is not known.
        port.peer_delay_ns = None;
    }
    if let Some(buffer) = &mut facts.buffer {
        buffer.margin_frames += BURST;
    }
    Ok(facts)
}

fn broken(failure: Failure) -> TestFailure {
    TestFailure::broken(failure.into_message())
}

pub(super) fn of_test(failure: TestFailure) -> Failure {
    Failure::Run(failure.to_string())
}

const SOCKET: &str = "control";
/// Detection time of a watchdog that detects nothing: the longest that a file may have.
const NEVER: Span = Span::from_secs(1_000);
/// Time for which a key is set at 100 Mb/s and more: each test sets the watchdog anew.
const SET_FOR_MS: u64 = 600_000;
/// Frames of a burst, by which other lcores see a pool fuller than it is.
const BURST: u64 = 64;
/// Poll gap that counts as a delay.
const LATE_FROM_NS: u64 = 1_000_000;
const START_WITHIN: Duration = Duration::from_secs(60);
