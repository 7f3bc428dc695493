//! Benchmark of packet forwarding: one lcore or several, with ports that receive as fast as they are polled.
//!
//! The ports repeat a capture endlessly, copy each frame into a packet buffer, and drop sent frames.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::Serialize;
use weir_config::SwitchConfig;
use weir_dpdk_driver::{
    CpuUse, Memory, Placement, PreparedSwitches, RunningSwitches, Runtime, RuntimeOptions, Stopped,
};
use weir_dpdk_io::{PORTS_MAX, cpu};
use weir_flowctl::cbfc::Advertiser;
use weir_switch_core::Report;
use weir_units::{BitRate, Bytes, Class, FRAME_BYTES_MIN, PortId, Span, WIRE_OVERHEAD_BYTES};

use crate::error::{BenchError, from_arguments};
use crate::frames::{Formats, LOSSLESS, SenderKind, Traffic};
use crate::interrupted::{Interrupted, NextMeasurement, ProgressCallback};
use crate::machine::{HostInfo, HostLoad, HostLoadMeter, kept_from_cpu};
use crate::ports_alone;
use crate::spread::Spread;
use crate::testbed::check_conservation;

/// Frames and stations of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Name of the case as an argument.
    pub name: &'static str,
    /// Description for reports.
    pub what: &'static str,
    /// DSCPs of the frames, in rotation; the preset `roce` maps them to classes.
    pub dscps: &'static [u8],
    /// Number of stations behind each port, whose frames alternate.
    pub stations: u16,
    /// Frame formats of the stations.
    pub formats: Formats,
    /// Senders of the frames.
    pub senders: SenderKind,
    /// Number of destination ports of a port's frames, with equal shares. An lcore has one port more.
    pub destinations: u8,
    /// Whether all ports of an lcore send to its first one, which sends nothing. They bring more than it takes in a poll.
    pub incast: bool,
    /// Whether there is a switch. Without one each port's bursts are sent by the next port, which is the cost of the ports.
    pub has_switch: bool,
    /// Further keys of the lossless class's queue, in TOML.
    pub queue_keys: &'static str,
    /// Further keys of ports, in TOML.
    pub port_keys: &'static str,
    /// The buffer policy, by its name, if not the plan's.
    pub policy: Option<&'static str>,
    /// The ports' flow control, by its name, if not the plan's.
    pub flow_control: Option<&'static str>,
    /// Number of stations for which the forwarding table has room.
    pub fdb_size: u32,
}

impl Case {
    const fn new(name: &'static str, what: &'static str, dscps: &'static [u8], stations: u16) -> Case {
        Case {
            name,
            what,
            dscps,
            stations,
            formats: Formats::Ipv4,
            senders: SenderKind::Known,
            destinations: 1,
            incast: false,
            has_switch: true,
            queue_keys: "",
            port_keys: "",
            fdb_size: 16_384,
            policy: None,
            flow_control: None,
        }
    }

    /// Returns the number of ports of an lcore.
    fn ports(&self) -> usize {
        usize::from(self.destinations) + 1
    }

    /// Returns whether a port's capture of frames of this length is at most [`CAPTURE_BYTES_MAX`].
    fn fits(&self, frame_bytes: u16) -> bool {
        self.senders.frames(self.stations) as u32 * u32::from(frame_bytes) <= CAPTURE_BYTES_MAX
    }

    const fn lossless(name: &'static str, what: &'static str) -> Case {
        Case::new(name, what, &[26], 1)
    }
}

/// All cases. The first [`OF_TWO_PORTS`], with two ports and IPv4, also exist for other programs.
pub const CASES: [Case; 24] = [
    Case::lossless("one-class", "a lossless class"),
    Case::new("stations", "a lossless class, 64 stations a port", &[26], 64),
    Case::new("lossy", "a lossy class", &[0], 1),
    Case::new("two-classes", "a lossless and a lossy class, in turn", &[26, 0], 1),
    Case {
        formats: Formats::Mixed,
        destinations: 4,
        ..Case::new(
            "mixed",
            "a lossless and a lossy class in turn, IPv4 and IPv6, with and without a VLAN tag, 64 stations a port, 4 destinations",
            &[26, 0],
            64,
        )
    },
    Case { queue_keys: ECN, ..Case::lossless("ecn", "a lossless class with ECN, nothing to mark") },
    Case {
        queue_keys: ECN_ON_ARRIVAL,
        ..Case::lossless("ecn-arrival", "a lossless class with ECN on arrival, nothing to mark")
    },
    Case {
        queue_keys: ECN_MARKS,
        ..Case::lossless("ecn-marks", "a lossless class with ECN, one frame of 64 B in ten marked")
    },
    Case { queue_keys: ROUND_ROBIN, ..Case::lossless("round-robin", "a lossless class, ingress ports in turn") },
    Case {
        queue_keys: ROUND_ROBIN,
        ..Case::new("beside-round-robin", "a lossy class, beside one whose ingress ports take turns", &[0], 1)
    },
    Case { destinations: 7, ..Case::lossless("ports-8", "a lossless class, 8 ports, each to all others") },
    Case {
        destinations: 7,
        ..Case::new("ports-8-two-classes", "a lossless and a lossy class, 8 ports, each to all others", &[26, 0], 1)
    },
    Case { destinations: 15, ..Case::lossless("ports-16", "a lossless class, 16 ports, each to all others") },
    Case { destinations: 31, ..Case::lossless("ports-32", "a lossless class, 32 ports, each to all others") },
    Case { stations: 1_000, ..Case::lossless("stations-1000", "a lossless class, 1,000 stations a port") },
    Case { stations: 4_096, ..Case::lossless("stations-4096", "a lossless class, 4,096 stations a port") },
    Case {
        stations: 16_384,
        fdb_size: 32_768,
        ..Case::lossless("stations-16384", "a lossless class, 16,384 stations a port")
    },
    Case {
        senders: SenderKind::NewInHalf,
        stations: 64,
        fdb_size: 256,
        ..Case::lossless("new-senders", "a lossless class, 64 stations a port, new ones in half of the frames")
    },
    Case {
        senders: SenderKind::OneMoving,
        stations: 64,
        ..Case::lossless("flapping-mac", "a lossless class, 64 stations a port, one of 64 frames from one that flaps")
    },
    Case {
        policy: Some("static"),
        flow_control: Some(GFC_BY_TIME),
        ..Case::lossless("gfc-time", "a lossless class under GFC by time")
    },
    Case { port_keys: "vlan = 10", ..Case::new("vlans", "a lossless class, 64 stations a port, in a VLAN", &[26], 64) },
    Case { policy: Some("static"), flow_control: Some(CBFC), ..Case::lossless("cbfc", "a lossless class under CBFC") },
    Case {
        destinations: 8,
        incast: true,
        ..Case::lossless("overload", "a lossless class, 8 ports bring twice of what the ninth takes, and obey PFC")
    },
    Case { has_switch: false, ..Case::lossless("io", "no switch: each port's bursts are sent by the other port") },
];

/// Thresholds far above the queues of a switch that keeps up.
const ECN: &str = "ecn = { kmin = \"150KB\", kmax = \"1500KB\", pmax = 0.1 }";
const ECN_ON_ARRIVAL: &str = "ecn = { kmin = \"150KB\", kmax = \"1500KB\", pmax = 0.1, mark_on = \"arrival\" }";
/// A queue of 64 frames of 64 B is marked with probability 0.1.
const ECN_MARKS: &str = "ecn = { kmin = \"1B\", kmax = \"8192B\", pmax = 0.2 }";
const ROUND_ROBIN: &str = "arbitration = \"round-robin\"";

/// Number of cases, from the first on, with two ports and IPv4.
pub const OF_TWO_PORTS: usize = 4;

/// Size of a port's capture file up to which a case is measured: thousands of stations do not send the longest frames.
const CAPTURE_BYTES_MAX: u32 = 10_000_000;
/// The longest frame, with FCS, that a capture file and a packet buffer hold.
const FRAME_BYTES_MAX: u16 = 16_000;
/// Frame length from which the buffer is accounted in cells, so that the shortest frames do not each need a long
/// packet buffer.
const JUMBO_FROM: u16 = 1_519;
/// Name of the flow control whose ports send nothing before their peer has granted credit.
const CBFC: &str = "cbfc";
const GFC_BY_TIME: &str = "gfc-time";
/// Default port rate from which the interval of CBFC messages follows.
pub const CREDIT_AT: BitRate = BitRate::gbps(100);
/// Packet rate of a port that sets the spacing of its peer's messages, one each T. An lcore with two ports forwards
/// about twice as many.
const CREDIT_PACKETS_PER_S: u64 = 40_000_000;
/// Rate C of each port.
const PORT_RATE: BitRate = BitRate::gbps(400);
/// Rate C of each port while its queues fill.
const FILLING_RATE: BitRate = BitRate::mbps(1);
/// Interval between checks of queues that are to grow or shrink, and the time limit for that.
const LOOKED_AT_EVERY: Duration = Duration::from_micros(20);
const TURNED_WITHIN: Duration = Duration::from_secs(20);
/// Time limit for frames in flight to leave.
const DRAIN: Duration = Duration::from_secs(1);
/// Interval between counts of sent frames in a round that ends by their number.
const COUNT_EVERY: Duration = Duration::from_millis(1);
/// Time limit of a round that ends by a number of frames.
const FRAMES_WITHIN: Duration = Duration::from_secs(180);

/// End of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RoundEnd {
    /// Fixed duration.
    Time(Duration),
    /// Number of frames that must have been sent.
    Sent(u64),
}

impl RoundEnd {
    /// Waits for the end of a round.
    ///
    /// # Errors
    /// The frames were not `sent` within [`FRAMES_WITHIN`], or a switch does not report.
    pub(crate) fn wait(self, sent: impl Fn() -> Result<u64, BenchError>) -> Result<(), BenchError> {
        let frames = match self {
            RoundEnd::Time(time) => {
                std::thread::sleep(time);
                return Ok(());
            }
            RoundEnd::Sent(frames) => frames,
        };
        let started = Instant::now();
        while sent()? < frames {
            if started.elapsed() > FRAMES_WITHIN {
                let seconds = FRAMES_WITHIN.as_secs();
                return Err(BenchError::Run(format!("less than {frames} frames were sent in {seconds} s")));
            }
            std::thread::sleep(COUNT_EVERY);
        }
        Ok(())
    }
}

/// Plan of the forwarding measurements.
#[derive(Clone, Debug)]
pub struct ForwardingPlan {
    /// Numbers of lcores.
    pub lcores: Vec<usize>,
    /// Lengths of frames, with FCS.
    pub frame_bytes: Vec<u16>,
    /// Frames and stations.
    pub cases: Vec<Case>,
    /// The buffer policy, by its name.
    pub policy: String,
    /// The ports' flow control, by its name.
    pub flow_control: String,
    /// Whether frames leave by ports of another lcore than they came to, where there are several.
    pub across: bool,
    /// Number of rounds: each measurement is taken once a round.
    pub rounds: usize,
    /// End of a round.
    pub until: RoundEnd,
}

/// Ports by which an lcore's received frames leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paths {
    /// Ports of the receiving lcore.
    Own,
    /// Ports of the next lcore, if there are several.
    Across,
    /// One port of the first lcore. Each lcore has one port that receives.
    ToOne,
}

/// Switch under test. Each lcore has two ports, or as many as the destinations of a [`Case`] require.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// CPUs of the lcores.
    pub lcores: &'a [u32],
    /// Length of a frame, with FCS.
    pub frame_bytes: u16,
    /// Frames and stations.
    pub case: Case,
    /// The buffer policy, by its name.
    pub policy: &'a str,
    /// The ports' flow control, by its name.
    pub flow_control: &'a str,
    /// Ports by which frames leave.
    pub paths: Paths,
    /// Name of the pipeline's layout on lcores.
    pub layout: &'a str,
    /// Whether each egress queue has its own rate limit, above the port's load.
    pub has_limits: bool,
    /// Port rate that sets the interval of CBFC messages: one each 65,535 byte times.
    pub credit_at: BitRate,
}

impl Setup<'_> {
    /// Returns a switch with one lcore that owns its ports.
    pub fn of_one_lcore(lcore: &[u32], case: Case) -> Setup<'_> {
        Setup {
            lcores: lcore,
            frame_bytes: 64,
            case,
            policy: case.policy.unwrap_or("dt"),
            flow_control: case.flow_control.unwrap_or("pfc"),
            paths: Paths::Own,
            layout: "single",
            has_limits: false,
            credit_at: CREDIT_AT,
        }
    }

    /// Returns the number of ports.
    fn ports(&self) -> usize {
        let lcores = self.lcores.len();
        match self.paths {
            Paths::ToOne => lcores + 1,
            Paths::Own | Paths::Across => lcores * self.case.ports(),
        }
    }

    /// Returns the destination ports of a port's frames.
    fn destinations(&self, port: usize) -> Vec<u8> {
        let (lcores, ports) = (self.lcores.len(), self.ports());
        if self.case.incast {
            let first = port % lcores;
            return vec![if port == first { first + lcores } else { first } as u8];
        }
        // Ports are assigned to lcores in rotation: with N lcores port p is on lcore p mod N.
        let (row, lcore) = (port / lcores, port % lcores);
        let next = if self.paths == Paths::Across { (lcore + 1) % lcores } else { lcore };
        let destination = |n: usize| match self.paths {
            Paths::ToOne if port == lcores => 0,
            Paths::ToOne => lcores,
            Paths::Own | Paths::Across => (row + n) * lcores % ports + next,
        };
        (1..=usize::from(self.case.destinations)).map(|n| destination(n) as u8).collect()
    }

    /// Whether a port replays its frames endlessly. The destination of all frames receives only the frames
    /// that announce its station.
    fn is_endless(&self, port: usize) -> bool {
        match self.paths {
            Paths::ToOne => port < self.lcores.len(),
            Paths::Own | Paths::Across => !self.case.incast || port >= self.lcores.len(),
        }
    }

    /// Writes the capture files of all ports into a directory, as `NAME-PORT.pcap`, in the order of the ports.
    ///
    /// # Errors
    /// A file can't be written.
    pub fn write_captures(&self, directory: &Path, name: &str) -> Result<Vec<PathBuf>, BenchError> {
        let capture = |port: usize| {
            let traffic = Traffic {
                from: port as u8,
                to: &self.destinations(port),
                frame_bytes: self.frame_bytes,
                dscps: self.case.dscps,
                stations: self.case.stations,
                formats: self.case.formats,
                senders: self.case.senders,
                credit_after: (self.flow_control == CBFC).then(|| self.rounds_to_credit()),
                is_ecn_capable: self.case.queue_keys.starts_with("ecn"),
            };
            Ok(traffic.write_capture(directory, &format!("{name}-{port}"))?)
        };
        (0..self.ports()).map(capture).collect()
    }

    /// Returns CBFC's T, the time between two messages.
    fn credit_period(&self) -> Span {
        Advertiser::period_by_default(self.credit_at)
    }

    /// Returns the number of replays of a port's 64 frames between two messages of its peer, so that messages are one
    /// [period](Setup::credit_period) apart at [`CREDIT_PACKETS_PER_S`].
    fn rounds_to_credit(&self) -> u16 {
        let frames = CREDIT_PACKETS_PER_S * self.credit_period().as_nanos() / 1_000_000_000;
        (frames.div_ceil(64)).clamp(1, 1_000) as u16
    }

    /// Returns the configuration of the switch, whose ports replay these files.
    ///
    /// # Errors
    /// The policy or the flow control is unknown, or needs settings.
    pub fn switch(&self, captures: &[PathBuf]) -> Result<SwitchConfig, BenchError> {
        let is_jumbo = self.frame_bytes >= JUMBO_FROM;
        let mtu = if is_jumbo { format!("mtu = {}\n", self.frame_bytes - 18) } else { String::new() };
        let memory = match (is_jumbo, self.flow_control) {
            // Both count blocks of 64 B, which must be whole cells.
            (true, CBFC | GFC_BY_TIME) => "cell_bytes = 64".to_owned(),
            (true, _) => "cell_bytes = 256\nmean_frame = \"exact\"".to_owned(),
            (false, _) => "mean_frame = \"exact\"".to_owned(),
        };
        let mut text = format!(
            "[switch]\nname = \"bench\"\nidle = \"poll\"\nmac_ageing = \"100h\"\nfdb_size = {}\n{mtu}[buffer]\nsize = \"{}MB\"\n{memory}\npolicy = {:?}\n[lcores]\nlayout = {:?}\n\
             cores = {:?}\n[classes]\npreset = \"roce\"\n[pfc]\nreaction = \"1us\"\n",
            self.case.fdb_size,
            // 2 MB for each port, and 16 MB at most for an lcore, of which memory the usual hugepages have; 2 MB where queues stand, so that
            // they fit its cache, unless headroom for long frames takes more.
            match self.case.incast {
                true if !is_jumbo => 2 * self.lcores.len(),
                _ => (2 * self.ports().next_multiple_of(2)).min(16 * self.lcores.len()),
            },
            self.policy,
            self.layout,
            self.lcores
        );
        for class in Class::ALL {
            let rate = if self.has_limits { "rate = \"399Gbps\"" } else { "" };
            let keys = if class == LOSSLESS { self.case.queue_keys } else { "" };
            if !rate.is_empty() || !keys.is_empty() {
                text += &format!("[[classes.queues]]\nclass = {}\n{rate}\n{keys}\n", class.index());
            }
        }
        let flow_control = match self.flow_control {
            // The port's rate would give a message each 1.3 us.
            CBFC => format!("{{ kind = \"{CBFC}\", period = \"{}ns\" }}", self.credit_period().as_nanos()),
            name => format!("{name:?}"),
        };
        for (port, file) in captures.iter().enumerate() {
            // Above the load, so that the rate never limits.
            text += &format!(
                "[[ports]]\nname = \"p{port}\"\npcap = {{ rx = \"{}\", infinite = {} }}\nrate = \"{PORT_RATE}\"\nflow_control = {flow_control}\n{}\n",
                file.display(),
                self.is_endless(port),
                self.case.port_keys
            );
        }
        weir_config::parse("weir bench forwarding", &text).map_err(|errors| from_arguments(&errors))
    }
}

/// Counts of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forwarded {
    /// Frames received from the ports.
    pub received: u64,
    /// Further copies of frames that were flooded before their station was learned.
    pub copied: u64,
    /// Frames sent.
    pub sent: u64,
    /// Frames dropped.
    pub dropped: u64,
    /// PFC frames sent, which pause or resume a class.
    pub pfc_frames: u64,
    /// CPU time of the switch's lcores.
    pub cpu: Duration,
    /// Time that lcores were runnable while other tasks had their CPUs.
    pub kept_from_cpu: Duration,
}

impl Forwarded {
    /// Sums the counts of stopped switches.
    pub(crate) fn from_stopped(stopped: &Stopped) -> Forwarded {
        let sum = |of: fn(&Report) -> u64| stopped.reports.iter().map(of).sum();
        Forwarded {
            received: sum(|report| report.conservation.received),
            copied: sum(|report| report.conservation.copied),
            sent: sum(|report| report.conservation.sent),
            dropped: sum(|report| report.conservation.dropped),
            pfc_frames: sum(pfc_frames),
            cpu: Duration::from_nanos(stopped.lcores.iter().map(|(_, stats)| stats.cpu_time_ns()).sum()),
            kept_from_cpu: kept_from_cpu(&stopped.lcores),
        }
    }

    /// Packets sent per CPU-second of an lcore.
    pub fn rate(&self) -> f64 {
        self.sent as f64 / self.cpu.as_secs_f64().max(1e-9)
    }
}

/// Runs switches between ports that receive as fast as they are polled. The counts are summed over all switches.
///
/// # Errors
/// A switch does not start or stop, frames are not accounted for, or packet buffers were not returned.
pub fn forward(runtime: &Runtime, switches: &[SwitchConfig], until: RoundEnd) -> Result<Forwarded, BenchError> {
    let placement = Placement::new(switches, &cpu::allowed(), 0)?;
    let running = PreparedSwitches::prepare(runtime, switches, &placement, 0)?.start()?;
    until.wait(|| sent_by(&running))?;
    Ok(Forwarded::from_stopped(&check_conservation(running.stop(DRAIN)?)?))
}

/// Runs the switch of a case like [`forward`], or its ports alone.
///
/// # Errors
/// As of [`forward`].
pub fn forward_case(
    runtime: &Runtime,
    case: &Case,
    switch: &SwitchConfig,
    until: RoundEnd,
) -> Result<Forwarded, BenchError> {
    if case.has_switch {
        return forward(runtime, std::slice::from_ref(switch), until);
    }
    let (sent, stopped) = ports_alone::run(runtime, switch, |sent| until.wait(|| Ok(sent.load(Ordering::Relaxed))))?;
    Ok(Forwarded { received: sent, sent, ..Forwarded::from_stopped(&stopped) })
}

/// Returns the number of frames that switches sent so far.
///
/// # Errors
/// A switch does not report.
pub(crate) fn sent_by(running: &RunningSwitches) -> Result<u64, BenchError> {
    Ok(running.reports()?.iter().map(|report| report.conservation.sent).sum())
}

fn pfc_frames(report: &Report) -> u64 {
    let classes = report.ports.iter().flat_map(|port| &port.classes);
    classes.map(|class| class.xoff_tx + class.xon_tx).sum()
}

/// Runs a switch with about this many bytes in its queues, so that each frame has left the CPU cache before it is sent. With 0, queue
/// lengths are left to the load.
///
/// Ports send faster than frames arrive until the queues are 3 % shorter, then nothing until they are 3 % longer. The result spans whole
/// cycles, so that arrivals equal departures.
///
/// # Errors
/// As [`forward`]; the queues do not reach the length in time.
pub fn forward_from_standing_queues(
    runtime: &Runtime,
    switch: &SwitchConfig,
    standing: Bytes,
    time: Duration,
) -> Result<Forwarded, BenchError> {
    let switches = std::slice::from_ref(switch);
    let placement = Placement::new(switches, &cpu::allowed(), 0)?;
    let running = PreparedSwitches::prepare(runtime, switches, &placement, 0)?.start()?;
    let (most, least) = (standing + standing.divided_by(32), standing - standing.divided_by(32));
    let turn_to = |rate, is_there: &dyn Fn(Bytes) -> bool| {
        for port in 0..switch.ports.len() {
            running.shared(0).set_rate(PortId(port as u16), Some(rate));
        }
        let started = Instant::now();
        while !is_there(running.report(0)?.pool.used) {
            if started.elapsed() > TURNED_WITHIN {
                return Err(BenchError::Run(format!("queues never held {most}, or never {least}")));
            }
            std::thread::sleep(LOOKED_AT_EVERY);
        }
        Ok(())
    };
    let stands = standing > Bytes::ZERO;
    let fill = || if stands { turn_to(FILLING_RATE, &|used| used >= most) } else { Ok(()) };
    fill()?;
    let (before, cpu_before, started) = (running.report(0)?.conservation, cpu_use(&running), Instant::now());
    while started.elapsed() < time {
        if stands {
            turn_to(PORT_RATE, &|used| used <= least)?;
            fill()?;
        } else {
            std::thread::sleep(time);
        }
    }
    let (after, cpu_after) = (running.report(0)?.conservation, cpu_use(&running));
    check_conservation(running.stop(DRAIN)?)?;
    let uses = cpu_after.iter().zip(&cpu_before).map(|(after, before)| after.since(before));
    Ok(Forwarded {
        received: after.received - before.received,
        copied: after.copied - before.copied,
        sent: after.sent - before.sent,
        dropped: after.dropped - before.dropped,
        pfc_frames: 0,
        cpu: uses.clone().filter_map(|cpu| cpu.ran).sum(),
        kept_from_cpu: uses.map(|cpu| cpu.kept_from_cpu()).sum(),
    })
}

fn cpu_use(running: &RunningSwitches) -> Vec<CpuUse> {
    running.lcores().map(|(cpu, stats)| stats.cpu_use(cpu)).collect()
}

/// Report of the forwarding measurements.
#[derive(Clone, Debug, Serialize)]
pub struct ForwardingReport {
    /// Machine that ran the measurements.
    pub machine: HostInfo,
    /// Load on the machine by other processes.
    pub host_load: HostLoad,
    /// The buffer policy.
    pub policy: String,
    /// The ports' flow control.
    pub flow_control: String,
    /// Whether frames crossed from lcore to lcore.
    pub across: bool,
    /// Number of rounds planned.
    pub rounds: usize,
    /// Progress at the interruption, if the measurement was interrupted.
    pub interrupted: Option<Interrupted>,
    /// Results, one row a measurement.
    pub rows: Vec<ForwardingRow>,
}

/// Result of a measurement over all rounds.
#[derive(Clone, Debug, Serialize)]
pub struct ForwardingRow {
    /// Name of the case.
    pub case: &'static str,
    /// Description of the case.
    pub what: &'static str,
    /// Length of a frame, with FCS.
    pub frame_bytes: u16,
    /// Number of lcores.
    pub lcores: usize,
    /// Frames received in all rounds.
    pub received: u64,
    /// Further copies of frames that were flooded before their station was learned.
    pub copied: u64,
    /// Frames sent in all rounds.
    pub sent: u64,
    /// Frames dropped in all rounds.
    pub dropped: u64,
    /// PFC frames sent in all rounds, which pause or resume a class.
    pub pfc_frames: u64,
    /// Million packets per CPU-second of an lcore.
    pub mpps: Spread,
    /// Nanoseconds of CPU time a packet.
    pub ns: Spread,
    /// Throughput of an lcore on the wire, with preamble and gap, in Gb/s.
    pub gbps: Spread,
    /// Rate of an lcore relative to a single lcore's, in each round; `None` if a single lcore was not measured.
    pub efficiency: Option<Spread>,
    /// Rate relative to that of the first case with as many lcores and bytes, in each round; `None` if that was not measured.
    pub relative: Option<Spread>,
    /// Time that other tasks had the lcores' CPUs, in percent of the lcores' CPU time.
    pub kept_from_cpu_percent: f64,
}

/// Takes all measurements, interleaved in each round. Starts DPDK, at most once a process. `on_progress` receives the next measurement and
/// may end the run.
///
/// # Errors
/// The plan needs more than this machine or the configuration has, or a measurement fails.
pub fn run(
    plan: &ForwardingPlan,
    eal: &[String],
    on_progress: &mut ProgressCallback<'_>,
) -> Result<ForwardingReport, BenchError> {
    check(plan)?;
    let allowed = cpu::allowed();
    let directory = tempfile::tempdir()?;
    let mut setups = Vec::new();
    for case in &plan.cases {
        for frame_bytes in plan.frame_bytes.iter().filter(|bytes| case.fits(**bytes)) {
            // A case with many ports is measured with as many lcores as DPDK has ports for.
            let fits = |lcores: usize| lcores * case.ports() <= PORTS_MAX && (case.has_switch || lcores == 1);
            for lcores in plan.lcores.iter().filter(|lcores| fits(**lcores)) {
                let setup = Setup {
                    // The first CPU also runs the control thread.
                    lcores: &allowed[allowed.len() - lcores..],
                    frame_bytes: *frame_bytes,
                    case: *case,
                    policy: case.policy.unwrap_or(&plan.policy),
                    flow_control: case.flow_control.unwrap_or(&plan.flow_control),
                    paths: if plan.across { Paths::Across } else { Paths::Own },
                    layout: "single",
                    has_limits: false,
                    credit_at: CREDIT_AT,
                };
                let captures = setup.write_captures(directory.path(), &format!("{}", setups.len()))?;
                setups.push((setup, setup.switch(&captures)?));
            }
        }
    }
    let megabytes = |(setup, switch): &(Setup<'_>, SwitchConfig)| {
        Memory::for_switches(std::slice::from_ref(switch), setup.lcores.len(), 0).megabytes()
    };
    let memory_mb = setups.iter().map(megabytes).max().unwrap_or(0);
    let most = *plan.lcores.iter().max().expect("checked");
    let options = RuntimeOptions { memory_mb, eal_args: eal.to_vec(), ..RuntimeOptions::default() };
    let runtime = Runtime::start("weir-bench", &allowed[allowed.len() - most..], &[], &options)?;
    let watch = HostLoadMeter::start();
    let mut rounds: Vec<Vec<Forwarded>> = vec![Vec::new(); setups.len()];
    let mut done = 0;
    'rounds: for round in 1..=plan.rounds {
        for ((setup, switch), forwarded) in setups.iter().zip(&mut rounds) {
            let Setup { frame_bytes, case, lcores, .. } = setup;
            let what =
                format!("round {round} of {}: {}, {frame_bytes} B, {} lcores", plan.rounds, case.what, lcores.len());
            if on_progress(&NextMeasurement { what: &what, done, planned: plan.rounds * setups.len() }).is_break() {
                break 'rounds;
            }
            done += 1;
            forwarded.push(forward_case(&runtime, case, switch, plan.until)?);
        }
    }
    let measured = setups.iter().zip(&rounds).filter(|(_, forwarded)| !forwarded.is_empty());
    let rows = measured.map(|((setup, _), forwarded)| {
        let other = |case: &Case, lcores: usize| {
            let mut measured = setups.iter().zip(&rounds).filter(|(_, rounds)| !rounds.is_empty());
            let other = measured.find(|((other, _), _)| {
                (&other.case, other.lcores.len(), other.frame_bytes) == (case, lcores, setup.frame_bytes)
            });
            other.map(|(_, forwarded)| &forwarded[..])
        };
        let first = other(&plan.cases[0], setup.lcores.len());
        row(setup, forwarded, other(&setup.case, 1), first)
    });
    Ok(ForwardingReport {
        machine: HostInfo::with_dpdk(&runtime),
        host_load: watch.read(),
        policy: plan.policy.clone(),
        flow_control: plan.flow_control.clone(),
        across: plan.across,
        rounds: plan.rounds,
        interrupted: Interrupted::after_rounds(plan.rounds, rounds.iter().map(Vec::len)),
        rows: rows.collect(),
    })
}

/// Checks the plan before anything starts.
fn check(plan: &ForwardingPlan) -> Result<(), BenchError> {
    let wrong = |message: String| Err(BenchError::Plan(message));
    let cpus = cpu::allowed().len();
    if plan.rounds == 0 || plan.lcores.is_empty() || plan.frame_bytes.is_empty() || plan.cases.is_empty() {
        return wrong("nothing to measure: give at least one round, number of lcores, frame and case".to_owned());
    }
    if let Some(lcores) = plan.lcores.iter().find(|lcores| **lcores == 0 || **lcores > cpus) {
        return wrong(format!(
            "--lcores {lcores}: this process may use {cpus} CPUs, and two lcores on one would share its time: write 1 to {cpus}"
        ));
    }
    let ports = plan.cases.iter().map(Case::ports).min().unwrap_or(2);
    let lcores_max = PORTS_MAX / ports;
    if let Some(lcores) = plan.lcores.iter().find(|lcores| **lcores > lcores_max) {
        return wrong(format!(
            "--lcores {lcores}: each has {ports} ports, and DPDK as it is built here has {PORTS_MAX}: write at most {lcores_max}"
        ));
    }
    let legal = FRAME_BYTES_MIN as u16..=FRAME_BYTES_MAX;
    if let Some(bytes) = plan.frame_bytes.iter().find(|bytes| !legal.contains(bytes)) {
        return wrong(format!("--frame-bytes {bytes}: frames have {FRAME_BYTES_MIN} to {FRAME_BYTES_MAX} B, with FCS"));
    }
    Ok(())
}

fn row(
    setup: &Setup<'_>,
    rounds: &[Forwarded],
    alone: Option<&[Forwarded]>,
    first: Option<&[Forwarded]>,
) -> ForwardingRow {
    let sum = |of: fn(&Forwarded) -> u64| rounds.iter().map(of).sum();
    let rates = Spread::from_values(rounds.iter().map(Forwarded::rate));
    let bits = (u64::from(setup.frame_bytes) + WIRE_OVERHEAD_BYTES) * 8;
    let seconds = |of: fn(&Forwarded) -> Duration| rounds.iter().map(of).sum::<Duration>().as_secs_f64();
    let ratios = |others: &[Forwarded]| {
        Spread::from_values(rounds.iter().zip(others).map(|(own, other)| own.rate() / other.rate()))
    };
    ForwardingRow {
        case: setup.case.name,
        what: setup.case.what,
        frame_bytes: setup.frame_bytes,
        lcores: setup.lcores.len(),
        received: sum(|round| round.received),
        copied: sum(|round| round.copied),
        sent: sum(|round| round.sent),
        dropped: sum(|round| round.dropped),
        pfc_frames: sum(|round| round.pfc_frames),
        mpps: rates.map(|rate| rate / 1e6),
        ns: rates.map(|rate| 1e9 / rate),
        gbps: rates.map(|rate| rate * bits as f64 / 1e9),
        efficiency: alone.map(ratios),
        relative: first.map(ratios),
        kept_from_cpu_percent: seconds(|round| round.kept_from_cpu) * 100.0 / seconds(|round| round.cpu).max(1e-9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> ForwardingPlan {
        ForwardingPlan {
            lcores: vec![1],
            frame_bytes: vec![64],
            cases: CASES.to_vec(),
            policy: "dt".to_owned(),
            flow_control: "pfc".to_owned(),
            across: false,
            rounds: 1,
            until: RoundEnd::Sent(1),
        }
    }

    #[test]
    fn frames_stay_on_their_lcore_or_cross_to_another() {
        let cpus: Vec<u32> = (0..9).collect();
        for lcores in 1..9 {
            let to = |case, paths, port| {
                let setup = Setup { paths, ..Setup::of_one_lcore(&cpus[..lcores], case) };
                setup.destinations(port).into_iter().map(usize::from).collect::<Vec<_>>()
            };
            for port in 0..2 * lcores {
                let [stays] = to(CASES[0], Paths::Own, port)[..] else { panic!("one") };
                assert_eq!((stays % lcores, to(CASES[0], Paths::Own, stays)), (port % lcores, vec![port]));
                let [crosses] = to(CASES[0], Paths::Across, port)[..] else { panic!("one") };
                assert!(
                    crosses < 2 * lcores && (lcores == 1 || crosses % lcores != port % lcores),
                    "{port} of {lcores}"
                );
            }
            let overload = CASES.iter().find(|case| case.incast).copied().unwrap();
            assert!((lcores..9 * lcores).all(|port| to(overload, Paths::Own, port) == [port % lcores]));
            for port in 0..5 * lcores {
                let mut all = to(CASES[4], Paths::Own, port);
                all.push(port);
                all.sort_unstable();
                let own: Vec<usize> = (0..5).map(|n| port % lcores + n * lcores).collect();
                assert_eq!(all, own, "each other port of the lcore");
                let across = to(CASES[4], Paths::Across, port);
                assert!(across.iter().all(|to| to % lcores == (port + 1) % lcores && *to < 5 * lcores), "{across:?}");
            }
            assert!((0..lcores).all(|port| to(CASES[0], Paths::ToOne, port) == [lcores]));
        }
    }

    #[test]
    fn every_case_has_a_switch_for_every_usual_length() {
        for (case, frame_bytes) in CASES.iter().flat_map(|case| [64, 512, 1518, 9000].map(|bytes| (*case, bytes))) {
            for lcores in [&[0][..], &[0, 1]] {
                let setup = Setup { lcores, frame_bytes, ..Setup::of_one_lcore(lcores, case) };
                let captures = vec![PathBuf::from("capture.pcap"); setup.ports()];
                let switch = setup.switch(&captures);
                assert!(switch.is_ok(), "{} with {frame_bytes} B: {}", case.name, switch.unwrap_err());
            }
        }
    }

    #[test]
    fn plans_that_make_no_sense_are_refused_with_what_to_write() {
        let refused = |change: &dyn Fn(&mut ForwardingPlan)| {
            let mut plan = plan();
            change(&mut plan);
            check(&plan).unwrap_err().to_string()
        };
        assert!(check(&plan()).is_ok());
        assert!(refused(&|plan| plan.lcores = vec![1, 5_000]).contains("--lcores 5000"));
        assert!(refused(&|plan| plan.lcores = vec![0]).contains("--lcores 0"));
        assert!(refused(&|plan| plan.frame_bytes = vec![64, 63]).contains("--frame-bytes 63: frames have 64 to"));
        assert!(refused(&|plan| plan.rounds = 0).contains("nothing to measure"));
    }

    #[test]
    fn names_that_are_not_known_are_refused() {
        let setup = |policy, flow_control| {
            let setup = Setup { policy, flow_control, ..Setup::of_one_lcore(&[0], CASES[0]) };
            setup.switch(&["a.pcap".into(), "b.pcap".into()]).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(setup("dt", "pfc"), Ok(()));
        assert!(setup("dtt", "pfc").unwrap_err().contains("dtt"));
        assert!(setup("dt", "psc").unwrap_err().contains("psc"));
    }

    #[test]
    fn all_frames_and_policies_have_a_switch() {
        for frame_bytes in [64, 512, 1_518, 1_519, 9_000, FRAME_BYTES_MAX] {
            let setup = Setup { frame_bytes, ..Setup::of_one_lcore(&[0], CASES[0]) };
            let switch = setup.switch(&["a.pcap".into(), "b.pcap".into()]).unwrap();
            assert!(switch.frame_bytes_max().get() >= u64::from(frame_bytes));
        }
    }

    #[test]
    fn efficiency_is_taken_round_by_round() {
        let round = |sent, cpu_ms| Forwarded {
            received: sent,
            copied: 0,
            sent,
            dropped: 0,
            pfc_frames: 0,
            cpu: Duration::from_millis(cpu_ms),
            kept_from_cpu: Duration::from_millis(cpu_ms / 10),
        };
        let setup = Setup::of_one_lcore(&[0, 1], CASES[0]);
        let alone = [round(10_000_000, 1_000), round(5_000_000, 1_000), round(20_000_000, 1_000)];
        let both = [round(18_000_000, 2_000), round(5_000_000, 2_000), round(40_000_000, 2_000)];
        let row = row(&setup, &both, Some(&alone), Some(&both));
        assert_eq!(row.efficiency, Some(Spread { min: 0.5, median: 0.9, max: 1.0 }));
        assert_eq!(row.relative, Some(Spread { min: 1.0, median: 1.0, max: 1.0 }));
        assert_eq!(row.mpps, Spread { min: 2.5, median: 9.0, max: 20.0 });
        assert_eq!((row.ns.min, row.ns.max, row.sent), (50.0, 400.0, 63_000_000));
        assert!((row.gbps.max - 13.44).abs() < 1e-9 && (row.kept_from_cpu_percent - 10.0).abs() < 1e-9);
    }
}
