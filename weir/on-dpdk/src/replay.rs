//! `weir replay`: captures into ports of a switch that runs elsewhere.

mod summary;

use std::path::Path;
use std::time::{Duration, Instant};

use weir_bench::cabled::{parse_device, veth_peer};
use weir_bench::machine::{HostInfo, HostLoadMeter};
use weir_config::{ClassMap, Device, ReplayConfig, ReplayPace, SwitchConfig};
use weir_dpdk_driver::replayer::{ReplayStream, ReplayTarget, Trace, TraceEnd, streams};
use weir_dpdk_driver::{
    Memory, PreparedSwitches, RunningSwitches, Runtime, RuntimeOptions, claim_devices, pci_addresses_of,
};
use weir_dpdk_io::cpu;
use weir_experiments::real_frames::ReplayArguments;
use weir_experiments::table::count;
use weir_experiments::{Failure, progress};
use weir_trace::{Capture, Rewriting};
use weir_units::{BitRate, FCS_BYTES, Span};

use crate::bench::{create_json, finish};
use crate::fault::Fault;
use crate::signals::Signals;
pub(crate) use summary::{ReplaySummary, replay_text};

/// Mbufs for a burst on each trace, and for devices beyond their descriptors.
const MBUFS: u32 = 4_096;
const TICK: Duration = Duration::from_millis(20);
/// Longest time for a port to send the last frames, and for returning frames.
const DRAIN: Duration = Duration::from_millis(200);
/// Default classes of a switch without a file: RDMA in DSCP 26 is class 3.
const CLASSES: &str = "[classes]\npreset = \"roce\"\n[[ports]]\nname = \"a\"\nring = \"a\"\nrate = \"10Gbps\"\n\
                       [[ports]]\nname = \"b\"\nring = \"b\"\nrate = \"10Gbps\"\n";

/// Trace with its destination.
struct Target<'s> {
    name: String,
    device: Device,
    config: ReplayConfig,
    switch: &'s SwitchConfig,
    class_map: &'s ClassMap,
    priority: u8,
    rate: Option<BitRate>,
}

/// Replays captures.
pub(crate) fn replay(arguments: &ReplayArguments, running: Option<&SwitchConfig>) -> Result<(), Fault> {
    let rewriting = rewriting(arguments)?;
    let plain = weir_config::parse("weir-replay", CLASSES).map_err(Failure::from)?;
    let targets = targets(arguments, running, &plain)?;
    let traces: Vec<Trace<'_>> = targets.iter().map(|target| target.trace(&rewriting)).collect();
    let captures: Vec<Capture> = traces.iter().map(read).collect::<Result<_, _>>()?;
    let json = create_json(arguments.json.as_deref())?;
    // Until the devices are closed.
    let mut locks = claim_devices(&[])?;
    for target in &targets {
        locks.claim(&target.device)?;
    }
    let cpus = [core(arguments)?];
    let devices: Vec<Device> = targets.iter().map(|target| target.device.clone()).collect();
    let longest = traces.iter().map(|trace| trace.frame_bytes_max).max().unwrap_or_default();
    let memory = Memory::for_tasks(&devices, longest, MBUFS);
    let signals = Signals::new()?;
    let options =
        RuntimeOptions { eal_args: arguments.eal.clone(), memory_mb: memory.megabytes(), ..RuntimeOptions::default() };
    let runtime = Runtime::start("weir-replay", &cpus, &pci_addresses_of(devices.iter()), &options)?;
    let mut prepared = PreparedSwitches::without_switches(&runtime, &cpus, &memory)?;
    let mut ends: Vec<TraceEnd<'_>> = Vec::new();
    let (mut refused, mut left_out) = (Vec::new(), Vec::new());
    for (((trace, capture), target), device) in traces.into_iter().zip(captures).zip(&targets).zip(&devices) {
        let mtu = target.switch.mtu.get() as u16;
        let (rx, tx) = prepared.open_device(device, mtu).map_err(|error| {
            Failure::Argument(format!("{}: {error}; is the interface up, and may this user have it?", target.name))
        })?;
        refused.push(capture.skipped().rejected());
        left_out.push(capture.skipped().describe());
        ends.push((trace, capture, ReplayTarget::Device(rx, tx)));
    }
    let streams = streams(ends);
    let lasts = lasts(&streams);
    prepared.add_replay(0, streams);
    let watch = HostLoadMeter::start();
    let running = prepared.start()?;
    tracing::info!("replaying on CPU {}; stop with SIGINT or SIGTERM", cpus[0]);
    wait(&running, &signals, lasts);
    let stopped = running.stop(DRAIN)?;
    let Some(report) = &stopped.replay else {
        return Err(Failure::Run("the replay has no report: a bug".into()).into());
    };
    let mut summary = ReplaySummary::new(report, &stopped.lcores);
    summary.name_left_out(&refused, &left_out);
    let text = format!("{}\n{}\n{}", HostInfo::with_dpdk(&runtime), watch.read(), replay_text(&summary));
    finish(&text, &summary, json)?;
    match summary.fault() {
        Some(fault) => Err(Failure::Run(fault).into()),
        None if signals.stop() && summary.left() > 0 => {
            let message =
                format!("interrupted: {} frames had not left; the same command replays all", count(summary.left()));
            Err(Failure::Run(message).into())
        }
        None => Ok(()),
    }
}

/// Duration of the traces if no frame is late; `None` for endless replay.
fn lasts(streams: &[ReplayStream]) -> Option<Span> {
    let pass = streams.iter().map(|stream| stream.schedule.period()).max().unwrap_or_default();
    let ends: Option<Vec<Span>> = streams.iter().map(|stream| Some(stream.after + pass * stream.loops?)).collect();
    ends?.into_iter().max()
}

/// Waits until all frames have left, those of paused classes included, or until a signal.
fn wait(running: &RunningSwitches, signals: &Signals, lasts: Option<Span>) {
    // By the clock: to ask the lcore how far it is would make frames late.
    let (began, ms) = (Instant::now(), lasts.map(|lasts| lasts.as_micros() / 1_000));
    let bar = ms
        .map(|ms| progress::bar(ms, 0, "replaying [{bar:32}] {elapsed} gone, {left} left, and what PAUSEs add  {msg}"));
    while running.replay_is_done() == Some(false) && !signals.stop() && !running.has_failed() {
        std::thread::park_timeout(TICK);
        if let Some((bar, ms)) = bar.as_ref().zip(ms) {
            let elapsed = began.elapsed().as_millis() as u64;
            bar.set_position(elapsed.min(ms));
            if elapsed > ms {
                bar.set_message("(frames are late)");
            }
        }
    }
    bar.inspect(|bar| bar.finish_and_clear());
    // The last frames may still be on their way into the port.
    let until = Instant::now() + TICK;
    while Instant::now() < until && !signals.stop() {
        std::thread::park_timeout(until.saturating_duration_since(Instant::now()));
    }
}

impl<'s> Target<'s> {
    fn trace<'t>(&'t self, rewriting: &'t Rewriting) -> Trace<'t> {
        Trace {
            name: self.name.clone(),
            config: &self.config,
            rewriting,
            class_map: self.class_map,
            priority: self.priority,
            rate: self.rate,
            frame_bytes_max: (self.switch.frame_bytes_max().get() - FCS_BYTES) as usize,
        }
    }
}

fn read(trace: &Trace<'_>) -> Result<Capture, Failure> {
    let capture = trace.read().map_err(|error| Failure::Argument(error.to_string()))?;
    let left = capture.skipped();
    let message =
        format!("{}: {} frames; not sent as they are: {}", trace.config.file, capture.frames().len(), left.describe());
    if !left.is_complete() {
        tracing::warn!("{message}")
    } else {
        tracing::info!("{message}")
    }
    Ok(capture)
}

fn rewriting(arguments: &ReplayArguments) -> Result<Rewriting, Failure> {
    let mapping = |text: &String| text.parse().map_err(|error| Failure::Argument(format!("--map {text}: {error}")));
    Ok(Rewriting {
        mappings: arguments.mappings.iter().map(mapping).collect::<Result<_, _>>()?,
        source: arguments.source_mac,
        destination: arguments.destination_mac,
    })
}

fn core(arguments: &ReplayArguments) -> Result<u32, Failure> {
    let allowed = cpu::allowed();
    match arguments.core {
        Some(core) if !allowed.contains(&core) => {
            let list = allowed.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            Err(Failure::Argument(format!("--core {core}: this process may use CPUs {list}")))
        }
        Some(core) => Ok(core),
        None => Ok(allowed.last().copied().unwrap_or(0)),
    }
}

/// Returns the target of each trace.
fn targets<'s>(
    arguments: &ReplayArguments,
    running: Option<&'s SwitchConfig>,
    plain: &'s SwitchConfig,
) -> Result<Vec<Target<'s>>, Failure> {
    let traces = arguments.traces.len();
    let (ports, devices) = (&arguments.ports, &arguments.devices);
    if ports.is_empty() && devices.is_empty() {
        let help = "give --port, a port of a running switch, or --device, what is cabled to one, for each trace";
        return Err(Failure::Argument(format!("the traces have no destination: {help}")));
    }
    for (option, given) in [("--port", ports.len()), ("--device", devices.len())] {
        if given > 0 && given != traces {
            return Err(Failure::Argument(format!(
                "{traces} traces and {given} times {option}: give it once for each trace, in their order"
            )));
        }
    }
    let mut targets: Vec<Target<'_>> = Vec::new();
    for (index, file) in arguments.traces.iter().enumerate() {
        let port = running.zip(ports.get(index)).and_then(|(switch, name)| {
            let number = switch.ports.iter().position(|port| port.name == *name)?;
            Some((switch, number))
        });
        let device = match (devices.get(index), port) {
            (Some(text), _) => parse_device("--device", text).map_err(|error| Failure::Argument(error.to_string()))?,
            (None, Some((switch, number))) => far_device(switch, number)?,
            (None, None) => unreachable!("there are as many of one of them as traces"),
        };
        if let Some(duplicate) = targets.iter().find(|target| target.device == device) {
            return Err(Failure::Argument(format!(
                "two traces go to {device} ({}): give each its own",
                duplicate.name
            )));
        }
        let own = port.map(|(switch, number)| &switch.ports[number]);
        targets.push(Target {
            name: own.map_or_else(|| device.to_string(), |port| port.name.clone()),
            config: ReplayConfig {
                pace: arguments.rate.map_or(arguments.speed, ReplayPace::Rate),
                loops: arguments.loops,
                after: arguments.after,
                when_paused: arguments.when_paused,
                direction: arguments.direction,
                with_mac_control: arguments.mac_control,
                ..ReplayConfig::new(file.display().to_string())
            },
            switch: port.map_or(plain, |(switch, _)| switch),
            class_map: port.map_or(&plain.classes.map, |(switch, number)| switch.class_map(number)),
            priority: own.map_or(0, |port| port.priority),
            rate: arguments.line_rate.or(own.and_then(|port| port.rate)),
            device,
        });
    }
    Ok(targets)
}

/// The end that is cabled to a port of a running switch.
fn far_device(switch: &SwitchConfig, number: usize) -> Result<Device, Failure> {
    let port = &switch.ports[number];
    let name = &port.name;
    let wrong = |message: String| Err(Failure::Argument(format!("--port {name} ({}): {message}", port.device)));
    match &port.device {
        Device::AfPacket(netdev) | Device::AfXdp(netdev) => match veth_peer(Path::new("/sys/class/net"), netdev) {
            Some(peer) => Ok(Device::AfPacket(peer)),
            None => wrong(
                "what is cabled to it is not known, as it is no veth whose peer is in this network namespace; name it, as in --device \
                 af_packet=eth1"
                    .to_owned(),
            ),
        },
        Device::Tap(netdev) => wrong(format!("frames for the switch are sent on its interface: --device af_packet={netdev}")),
        Device::Memif { socket, id, server, access } => {
            Ok(Device::Memif { socket: socket.clone(), id: *id, server: !server, access: access.clone() })
        }
        Device::Ring(_) | Device::Pcap { .. } | Device::Null { .. } | Device::Replay(_) | Device::CloneOf(_) => {
            wrong("nothing outside the switch leads there; write `replay` as a port's device in the switch's file".to_owned())
        }
        Device::Pci(_) | Device::VhostUser(_) => {
            wrong("name what is cabled to it, as in --device pci=0000:04:00.1".to_owned())
        }
    }
}
