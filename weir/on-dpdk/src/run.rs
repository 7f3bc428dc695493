//! `weir run`: the switches, until a signal.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use weir_config::{PortConfig, SwitchConfig};
use weir_dpdk_driver::{
    DriverError, Memory, Placement, PreparedSwitches, Removal, RunningSwitches, Runtime, RuntimeOptions, Stopped,
};
use weir_experiments::Failure;
use weir_experiments::files::json_text;
use weir_experiments::real_frames::RunArguments;
use weir_experiments::switches::load_all;
use weir_flowctl::MessageKind;
use weir_mmu::policy::{Gauges, Unit};
use weir_results::run_dir::EventKind;
use weir_scenario::PortRef;
use weir_switch_core::Report;
use weir_switch_core::report::PortReport;
use weir_units::{BitRate, Bytes};

use crate::below_rate::{self, RateLog};
use crate::control::{self, Control, ControlContext, ControlEndpoints};
use crate::event_sink::EventSink;
use crate::fault::Fault;
use crate::lldp::LldpAgent;
use crate::losses::{self, DropLog, LossLog};
use crate::netdevs;
use crate::nics::NicLog;
use crate::packet_memory::MemoryLog;
use crate::peers::PeerLog;
use crate::recording::{self, CaptureSelection, Recording};
use crate::screen::Screen;
use crate::signals::Signals;
use crate::stations::StationLog;
use crate::storms::StormLog;
use crate::summary::{RunSummary, summary_text};
use crate::supervisor::Supervisor;

/// Longest time for buffered frames to leave when the switch is stopped.
const DRAIN_WITHIN: Duration = Duration::from_secs(2);
/// Interval at which the control thread checks links, storms, losses and signals.
const TICK: Duration = Duration::from_millis(20);
/// Time of each round in which clients are answered, at least, however short `--sample-every` is.
const FOR_CLIENTS: Duration = Duration::from_micros(500);
/// Interval at which the record's files are flushed: kill -9 loses at most the data since.
const WRITE_OUT_EVERY: Duration = Duration::from_millis(500);

/// Runs the switches.
pub(crate) fn run(arguments: &RunArguments) -> Result<(), Fault> {
    let switches = load_all(&arguments.files)?;
    weir_dpdk_driver::check_machine(&switches)?;
    // Until the ports are closed.
    let _locks = weir_dpdk_driver::claim_devices(&switches)?;
    let placement = Placement::new(&switches, &weir_dpdk_io::cpu::allowed(), 0)?;
    let memory = Memory::for_switches(&switches, placement.cpus.len(), 0);
    weir_dpdk_driver::check_limits(&switches, &memory)?;
    let endpoints = ControlEndpoints {
        socket: control::claim(arguments.control.as_deref(), arguments.control_group.as_deref(), &switches)?,
        http: control::claim_http(arguments.http.as_deref())?,
    };
    // Opened before anything starts: a summary that can't be written is wrong input.
    let is_json = arguments.json.as_deref() == Some(Path::new("-"));
    let json = arguments.json.as_deref().filter(|_| !is_json).map(create_json).transpose()?;
    let lab = recording::lab(&switches, arguments.sample_every);
    let captures = CaptureSelection::new(arguments, &lab)?;
    let signals = Signals::new()?;
    let options = RuntimeOptions {
        eal_args: arguments.eal.clone(),
        file_prefix: arguments.file_prefix.clone(),
        memory_mb: memory.megabytes(),
    };
    let pci = weir_dpdk_driver::pci_addresses(&switches);
    let runtime =
        Runtime::start("weir", &placement.cpus, &pci, &options).map_err(|error| start_failure(arguments, error))?;
    match weir_dpdk_io::pdump_init(runtime.eal()) {
        Ok(()) => tracing::info!("packet capture by dpdk-dumpcap is possible"),
        Err(error) => tracing::debug!("{error}"),
    }
    // Not before devices and DPDK are ours: an earlier record in the directory is replaced.
    let path = arguments.output.as_deref();
    let mut record = path.map(|path| Recording::new(&lab, path, &captures)).transpose()?;
    let is_recorded = record.is_some();
    let taps = |switch, port| is_recorded.then(|| captures.tap(PortRef { switch, port }));
    let mut fabric = PreparedSwitches::prepare_tapped(&runtime, &switches, &placement, 0, &taps)?;
    let (taps, dropped) = (fabric.take_taps(), fabric.take_dropped());
    for (switch, placed) in switches.iter().zip(&placement.switches) {
        let roles =
            placed.plan.lcores.iter().zip(&placed.on).map(|(role, on)| format!("CPU {}: {role}", placement.cpus[*on]));
        let of_nic = |(port, on): (&PortConfig, &Option<usize>)| {
            on.map(|on| format!("CPU {}: NIC of {}", placement.cpus[on], port.name))
        };
        let roles = roles.chain(switch.ports.iter().zip(&placed.nics).filter_map(of_nic));
        tracing::info!(switch = %switch.name, "{}", roles.collect::<Vec<_>>().join("; "));
        tracing::info!(switch = %switch.name, "{}", below_rate::catch_up(switch));
    }
    let running = fabric.start()?;
    if let Some(record) = &mut record {
        record.begin(running.now(), taps, dropped);
    }
    let control = Control::begin(endpoints, &switches)?;
    let mut session = Session {
        arguments,
        switches: &switches,
        placement: &placement,
        signals,
        started: Instant::now(),
        screen: if is_json { Screen::silent() } else { Screen::default() },
        record,
        control,
        supervisor: Supervisor::from_environment(),
    };
    tracing::info!("forwarding; stop with SIGINT or SIGTERM");
    session.supervisor.ready(&forwarding(&switches));
    let watched = session.watch(&running);
    session.supervisor.stopping();
    session.control.close();
    let stopped = running.stop(DRAIN_WITHIN)?;
    watched?;
    Ok(session.finish(&stopped, json)?)
}

/// Run of switches, owned by the control thread.
struct Session<'a> {
    arguments: &'a RunArguments,
    switches: &'a [SwitchConfig],
    placement: &'a Placement,
    signals: Signals,
    started: Instant,
    screen: Screen,
    record: Option<Recording<'a>>,
    control: Control,
    supervisor: Supervisor,
}

/// Status for a supervisor, as `forwarding between 4 ports (lab)`.
fn forwarding(switches: &[SwitchConfig]) -> String {
    let ports: usize = switches.iter().map(|switch| switch.ports.len()).sum();
    let names: Vec<&str> = switches.iter().map(|switch| switch.name.as_str()).collect();
    format!("forwarding between {ports} ports ({})", names.join(", "))
}

fn create_json(path: &Path) -> Result<(&Path, File), Failure> {
    let file = File::create(path).map_err(|error| {
        Failure::Argument(format!(
            "--json: the summary can't be written to {}: {error}; name a file in a directory that exists",
            path.display()
        ))
    })?;
    Ok((path, file))
}

/// Error of a failed start. EAL does not report whether its arguments were the cause; where the user gave some, they are the likely one.
fn start_failure(arguments: &RunArguments, error: DriverError) -> Fault {
    match error {
        DriverError::Eal(error) if !arguments.eal.is_empty() => Fault::from(Failure::Argument(format!(
            "DPDK does not start with the arguments after `--` ({}): {error}; its own messages stand above",
            arguments.eal.join(" ")
        ))),
        error => error.into(),
    }
}

impl Session<'_> {
    /// Runs the control loop until the stop: prints rates, answers clients, follows links, logs storms and ports below their rate, keeps
    /// the record.
    fn watch(&mut self, running: &RunningSwitches) -> Result<(), Fault> {
        let (switches, placement) = (self.switches, self.placement);
        let mut interval = self.stats_interval();
        let mut printing = Timer::new(interval);
        let mut look_at = Instant::now() + TICK;
        let mut sampling = Timer::new(Duration::from_nanos(self.arguments.sample_every.as_nanos()));
        let mut writing = Timer::new(WRITE_OUT_EVERY);
        let mut last = running.reports()?;
        if let Some(record) = &mut self.record {
            record.write_out(&last);
        }
        let mut is_replaying = running.replay_is_done().is_some();
        let (mut storms, mut peers, mut memory) = (StormLog::default(), PeerLog::default(), MemoryLog::default());
        let mut rates = RateLog::new();
        let (mut losses, mut drops) = (LossLog::new(switches, running), DropLog::default());
        let mut dropping = Timer::new(losses::INTERVAL);
        let mut nics = NicLog::new(switches);
        let mut stations = StationLog::new(switches);
        let mut lldp = LldpAgent::new(switches);
        while !self.signals.stop() && !self.is_over() {
            let context = ControlContext { switches, placement, running, losses: &losses, lldp: &lldp };
            let next = if self.record.is_some() { look_at.min(sampling.next) } else { look_at };
            self.control.answer_until(next.max(Instant::now() + FOR_CLIENTS), context);
            self.supervisor.beat(running);
            if running.has_failed() {
                return Ok(());
            }
            if Instant::now() >= look_at {
                netdevs::log(switches, running);
                self.follow_removals(running);
                self.follow_links(running);
                self.exchange_lldp(&mut lldp, running);
                log_guest_queues(switches, running);
                if is_replaying && running.replay_is_done() == Some(true) {
                    is_replaying = false;
                    tracing::info!("all traces have been replayed");
                }
                let configs = self.control.configs();
                self.emit_events(running, &mut |sink| storms.log(&configs, running, sink));
                rates.log(switches, placement, running);
                self.emit_events(running, &mut |sink| losses.log(switches, running, sink));
                if dropping.is_due() {
                    let reports = running.reports()?;
                    self.emit_events(running, &mut |sink| stations.log(switches, running, &reports, sink));
                    // The record has drops of its own.
                    drops.log(switches, &reports, &mut |switch, port, class, kind| {
                        self.control.record_event(&switches[switch], port, class, &kind);
                    });
                }
                look_at = Instant::now() + TICK;
            }
            if let Some(record) = &mut self.record {
                record.collect();
            }
            self.answer_signals(running)?;
            let is_sample = self.record.is_some() && sampling.is_due();
            let is_writing = self.record.is_some() && writing.is_due();
            if interval != self.stats_interval() {
                interval = self.stats_interval();
                printing = Timer::new(interval);
            }
            let is_line = printing.is_due();
            if !is_sample && !is_writing && !is_line {
                continue;
            }
            let reports = running.reports()?;
            if let Some(record) = &mut self.record {
                if is_sample {
                    record.sample(&reports);
                }
                if is_writing {
                    record.write_out(&reports);
                }
            }
            if !is_line {
                continue;
            }
            let configs = self.control.configs();
            for (index, (last, report)) in last.iter_mut().zip(reports).enumerate() {
                if !self.arguments.quiet {
                    let line = format!("{}{}\n", rates_line(&switches[index], last, &report), losses.in_line(index));
                    self.screen.print(&line);
                }
                self.control.record_rates(index, last, &report);
                peers.log(index, &configs[index], &report);
                memory.log(index, &switches[index], &report);
                memory.log_full_table(index, &switches[index], running.shared(index).fdb.replaced());
                nics.log(index, &switches[index], running);
                if !report.conservation.holds {
                    tracing::error!(switch = %switches[index].name, "frames are not conserved: {:?}", report.conservation);
                }
                *last = report;
            }
        }
        lldp.withdraw(running);
        Ok(())
    }

    /// Sends and receives LLDP and frames of the loop guard, and closes ports that hear each other.
    fn exchange_lldp(&mut self, lldp: &mut LldpAgent, running: &RunningSwitches) {
        let configs = self.control.configs();
        let mut loops = Vec::new();
        self.emit_events(running, &mut |sink| loops = lldp.poll(&configs, running, sink));
        for found in loops {
            if self.control.close_loop(found, running) {
                let other = &configs[found.switch].ports[found.other.index()].name;
                self.emit_events(running, &mut |sink| sink(found.switch, found.port, None, EventKind::PortLoop(other)));
            }
        }
    }

    /// Logs and records the links that have come up or gone down.
    fn follow_links(&mut self, running: &RunningSwitches) {
        for (index, port, up) in running.update_links() {
            let name = &running.shared(index).ports()[port.index()].name;
            tracing::info!(switch = %self.switches[index].name, port = %name, "link {}", if up { "up" } else { "down" });
            let kind = if up { EventKind::LinkUp } else { EventKind::LinkDown };
            self.emit_events(running, &mut |sink| sink(index, port, None, kind));
        }
    }

    /// Logs and records the devices that were removed.
    fn follow_removals(&mut self, running: &RunningSwitches) {
        for (index, port, removal) in running.removals() {
            let (switch, config) = (&self.switches[index].name, &self.switches[index].ports[port.index()]);
            let (port_name, device) = (&config.name, &config.device);
            match removal {
                Removal::Requested => {
                    tracing::error!(
                        switch = %switch, port = %port_name,
                        "{device} is taken away: frames for the port are dropped as port_down; start weir again to use it anew"
                    );
                    self.emit_events(running, &mut |sink| sink(index, port, None, EventKind::DeviceRemoved));
                }
                Removal::Released => tracing::info!(switch = %switch, port = %port_name, "{device} is released"),
                Removal::Failed(error) => {
                    tracing::error!(switch = %switch, port = %port_name, "{device} can't be released: {error}");
                }
            }
        }
    }

    /// Interval of printed rates: the shortest of the switches'.
    fn stats_interval(&self) -> Duration {
        let interval = self.control.configs().iter().map(|switch| switch.stats_interval).min();
        Duration::from_nanos(interval.unwrap_or_default().as_nanos())
    }

    fn is_over(&self) -> bool {
        self.arguments.duration.is_some_and(|duration| self.started.elapsed() >= duration)
    }

    /// Passes the events of `source` to clients and to the record, if there is one, as of now.
    fn emit_events(&mut self, running: &RunningSwitches, source: &mut dyn FnMut(EventSink<'_>)) {
        let now = running.now();
        let Session { switches, control, record, .. } = self;
        source(&mut |switch, port, class, kind| {
            control.record_event(&switches[switch], port, class, &kind);
            if let Some(record) = record {
                record.record_event(now, switch, port, class, kind);
            }
        });
    }

    /// SIGHUP opens the record's files anew, and applies switches' files that have changed; SIGQUIT and SIGUSR1 show the state.
    fn answer_signals(&mut self, running: &RunningSwitches) -> Result<(), Fault> {
        if self.signals.take_reopen() {
            match &mut self.record {
                Some(record) => record.reopen(running.now()),
                None => tracing::info!("SIGHUP: no record is kept (--output), nothing to open anew"),
            }
            self.control.reload_changed(running);
        }
        if self.signals.take_snapshot() {
            let so_far = running.so_far()?;
            let summary = RunSummary::new(&self.control.configs(), self.placement, &so_far, self.started.elapsed());
            self.screen.print(&summary_text(&summary));
            if let Some(path) = self.record.as_mut().and_then(|record| record.snapshot(&summary)) {
                tracing::info!("snapshot written to {}", path.display());
            }
        }
        Ok(())
    }

    /// Prints and writes the summary; a run with losses of lossless frames fails.
    fn finish(mut self, stopped: &Stopped, json: Option<(&Path, File)>) -> Result<(), Failure> {
        let summary = RunSummary::new(&self.control.configs(), self.placement, stopped, self.started.elapsed());
        if self.arguments.json.as_deref() == Some(Path::new("-")) {
            Screen::default().print(&json_text(&summary));
        } else {
            self.screen.print(&summary_text(&summary));
        }
        let fault = summary.fault();
        let mut faults: Vec<String> = fault.clone().into_iter().collect();
        if let Some((path, mut file)) = json {
            let text = serde_json::to_string_pretty(&summary).map_err(|error| Failure::Run(error.to_string()))?;
            match writeln!(file, "{text}") {
                Ok(()) => tracing::info!("summary written to {}", path.display()),
                Err(error) => faults.push(format!("{}: {error}", path.display())),
            }
        }
        if let Some(record) = self.record {
            let lossless = !summary.devices_lost_lossless();
            faults.extend(record.finish(&stopped.reports, fault.as_deref(), lossless, &summary));
        }
        if faults.is_empty() { Ok(()) } else { Err(Failure::Run(faults.join("; "))) }
    }
}

/// Periodic timer.
struct Timer {
    every: Duration,
    next: Instant,
}

impl Timer {
    fn new(every: Duration) -> Timer {
        Timer { every, next: Instant::now() + every }
    }

    /// Returns true if the timer is due, and sets its next time. Missed times are not made up.
    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        if now < self.next {
            return false;
        }
        self.next = (self.next + self.every).max(now);
        true
    }
}

fn log_guest_queues(switches: &[SwitchConfig], running: &RunningSwitches) {
    for guest in running.guest_queues() {
        let (switch, port) = (&switches[guest.switch].name, &switches[guest.switch].ports[guest.port.index()].name);
        if guest.is_warning() {
            tracing::warn!(%switch, %port, "{guest}");
        } else {
            tracing::info!(%switch, %port, "{guest}");
        }
    }
}

/// `lab  rx 1.2 Mpps 9.8 Gb/s  tx …  held 12  PAUSE sent 3 received 3  dropped 0`
fn rates_line(switch: &SwitchConfig, before: &Report, now: &Report) -> String {
    let name = &switch.name;
    let span = now.at.since(before.at);
    let sums = |report: &Report| {
        let classes = report.ports.iter().flat_map(|port| &port.classes);
        classes.fold([0u64; 4], |[rx, rxb, tx, txb], class| {
            [rx + class.rx_frames, rxb + class.rx_bytes, tx + class.tx_frames, txb + class.tx_bytes]
        })
    };
    let (was, is) = (sums(before), sums(now));
    let delta = |n: usize| is[n] - was[n];
    let rate =
        |bytes: u64| BitRate::average(Bytes::new(bytes), span).map_or("0bps".to_owned(), |rate| rate.to_string());
    let seconds = span.as_secs_f64().max(1e-12);
    let kpps = |frames: u64| frames as f64 / seconds / 1e3;
    let policy = policy_state(now);
    format!(
        "{name}  rx {:.1} kpps {}  tx {:.1} kpps {}  held {} frames {}{}  dropped {}{policy}",
        kpps(delta(0)),
        rate(delta(1)),
        kpps(delta(2)),
        rate(delta(3)),
        now.conservation.held(),
        now.pool.used,
        message_counts(switch, before, now),
        now.conservation.dropped - before.conservation.dropped,
    )
}

/// Describes messages between ports and their peers: pauses, stages and credits, for the flow controls in use.
fn message_counts(switch: &SwitchConfig, before: &Report, now: &Report) -> String {
    type Count = fn(&PortReport) -> [u64; 2];
    type MessageKindFilter = fn(MessageKind) -> bool;
    let kinds: [(&str, MessageKindFilter, Count); 4] = [
        ("PAUSE", MessageKind::pauses, |port| {
            port.classes.iter().fold([0; 2], |[sent, got], class| [sent + class.pauses_tx, got + class.xoff_rx])
        }),
        (
            "stages",
            |message_kind| message_kind == MessageKind::Stages,
            |port| [port.control_tx.pfc, port.control_rx.pfc],
        ),
        (
            "credits",
            |message_kind| message_kind == MessageKind::LengthsOrCredits,
            |port| [port.control_tx.credit, port.control_rx.credit],
        ),
        (
            "messages",
            |message_kind| message_kind == MessageKind::Custom,
            |port| [port.control_tx.own, port.control_rx.own],
        ),
    ];
    let mut text = String::new();
    for (name, speaks, count) in kinds {
        let ports: Vec<usize> =
            switch.real_ports().filter(|port| speaks(switch.ports[*port].flow_control.message_kind())).collect();
        let sum = |report: &Report, direction: usize| {
            ports.iter().map(|port| count(&report.ports[*port])[direction]).sum::<u64>()
        };
        if !ports.is_empty() {
            let [sent, received] = [0, 1].map(|direction| sum(now, direction) - sum(before, direction));
            text += &format!("  {name} sent {sent} received {received}");
        }
    }
    text
}

/// Describes the policy's gauges of its queues, if there are any. For a state, as SPFC's victims, it names the ports; for other gauges, as
/// an estimated headroom, the highest value.
fn policy_state(now: &Report) -> String {
    let shown = |port: &PortReport| port.classes.each_ref().map(|class| class.ingress.gauges);
    let Some(first) = now.ports.iter().flat_map(shown).find(|gauges| *gauges != Gauges::NONE) else {
        return String::new();
    };
    let mut text = String::new();
    for (gauge, _) in first.iter() {
        let value = |gauges: Gauges| gauges.value(gauge.name);
        match gauge.unit {
            Unit::State { on, .. } => {
                let is_on = |port: &&PortReport| shown(port).into_iter().filter_map(value).any(|value| value > 0);
                let ports: Vec<&str> = now.ports.iter().filter(is_on).map(|port| port.name.as_str()).collect();
                text += &format!("  {on}s {}", if ports.is_empty() { "none".to_owned() } else { ports.join(",") });
            }
            Unit::Bytes | Unit::Count => {
                let most = now.ports.iter().flat_map(shown).filter_map(value).max().unwrap_or(0);
                let most = if gauge.unit == Unit::Bytes { Bytes::new(most).to_string() } else { most.to_string() };
                text += &format!("  {} up to {most}", gauge.label);
            }
        }
    }
    text
}
