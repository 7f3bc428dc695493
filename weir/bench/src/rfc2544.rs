//! Throughput, latency and back-to-back frames of a switch between two of its ports, after RFC 2544.
//!
//! | measured | how |
//! |---|---|
//! | throughput | the highest rate at which no frame is lost, by halving, from the rate of the port or of the generator down |
//! | latency | of all frames at shares of that rate: from handing a frame to the port to taking it from the other |
//! | back-to-back | the longest burst at the highest rate of which no frame is lost |
//!
//! A trial fails if a frame is lost, if the switch sends PAUSE or another MAC control frame, which the generator ignores, or if the
//! port did not accept all frames by the end. Trials are shorter than the RFC's minute by default.

mod report;

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use weir_config::{Device, SwitchConfig};
use weir_dpdk_driver::{PreparedSwitches, check_machine, claim_devices, pci_addresses_of};
use weir_dpdk_io::cpu;
use weir_flowctl::MessageKind;
use weir_switch_core::counters::DropReason;
use weir_units::{BitRate, FCS_BYTES, FRAME_BYTES_MIN, Span, WIRE_OVERHEAD_BYTES};

use crate::cabled::{parse_device, veth_peer};
use crate::error::BenchError;
use crate::interrupted::{Interrupted, NextMeasurement, ProgressCallback};
use crate::machine::{HostInfo, HostLoadMeter};
use crate::search::{Search, SearchResult, TrialVerdict};
use crate::spread::Spread;
use crate::testbed::{CpuPlan, DIRECTLY, THROUGH, Testbed, TrialOutcome, clock_cost_ns, start_dpdk};
use crate::tester::{Interval, TesterPort, TrialSpec, TrialStats};
pub use report::{BackToBack, LatencyAt, LimitCause, Rfc2544Report, SearchState, SizeReport, Throughput};

/// RFC 2544's frame sizes on Ethernet, with FCS.
pub(crate) const FRAME_SIZES: [u16; 7] = [64, 128, 256, 512, 1_024, 1_280, 1_518];
/// Sending time in which the generator measures its own highest rate.
const OWN_RATE_TIME: Span = Span::from_millis(100);
/// Share of its own rate that the generator must reach in a trial.
const OWN_RATE_SHARE: f64 = 0.95;
/// Duration of the longest burst at the highest rate, as in the RFC, in seconds.
const BURST_MAX_S: f64 = 2.0;
/// Lowest rate that is tried, in frames a second.
const RATE_LEAST: f64 = 100.0;
/// Largest number of frames in a trial: frame numbers have 32 bits.
const FRAMES_MAX: f64 = u32::MAX as f64;

/// Plan of the RFC 2544 tests.
#[derive(Clone, Debug)]
pub struct Rfc2544Plan {
    /// Configuration of the switch.
    pub switch: SwitchConfig,
    /// Ingress port of the frames.
    pub from: String,
    /// Egress port of the frames.
    pub to: String,
    /// Devices cabled to the two ports, in this order, if the ports do not determine them: `pci=0000:04:00.1`.
    pub devices: [Option<String>; 2],
    /// Lengths of frames, with FCS; empty for the RFC's.
    pub frame_bytes: Vec<u16>,
    /// DSCP of the frames.
    pub dscp: u8,
    /// Highest rate to try; `None` for the ports' rate.
    pub rate_max: Option<BitRate>,
    /// Sending time of a trial.
    pub duration: Span,
    /// Waiting time for frames after a trial.
    pub wait: Span,
    /// Number of failed trials after which a rate counts as not carried.
    pub trials: u32,
    /// Resolution of the search, as a share of the rate.
    pub resolution: f64,
    /// Tolerated share of lost frames; 0 for the RFC's throughput.
    pub loss: f64,
    /// Shares of the throughput at which latency is measured, in percent.
    pub shares: Vec<u32>,
    /// Number of searches for the longest burst; 0 for none.
    pub bursts: u32,
}

/// Switch under test, with the facts known before DPDK starts.
struct Rfc2544Test<'p> {
    plan: &'p Rfc2544Plan,
    ports: [usize; 2],
    /// Devices of the generator's ends; `None` for a ring's far end.
    devices: [Option<Device>; 2],
    cpu_plan: CpuPlan,
    rate: BitRate,
    frame_bytes: Vec<u16>,
}

/// Runs all tests. Starts DPDK, which is possible once a process. `on_progress` receives the next step and may stop the tests.
///
/// # Errors
/// The plan does not match the file, this machine or the generator, or a step fails.
pub fn run(
    plan: &Rfc2544Plan,
    eal: &[String],
    on_progress: &mut ProgressCallback<'_>,
) -> Result<Rfc2544Report, BenchError> {
    let test = Rfc2544Test::new(plan)?;
    let switches = std::slice::from_ref(&plan.switch);
    check_machine(switches).map_err(weir_dpdk_driver::DriverError::from)?;
    // Held until the ports are closed.
    let mut locks = claim_devices(switches).map_err(weir_dpdk_driver::DriverError::from)?;
    for device in test.devices.iter().flatten() {
        locks.claim(device)?;
    }
    let devices = plan.switch.ports.iter().map(|port| &port.device).chain(test.devices.iter().flatten());
    let pci = pci_addresses_of(devices);
    let runtime = start_dpdk(&test.cpu_plan.placement.cpus, &plan.switch, &pci, eal)?;
    let mut prepared = test.cpu_plan.prepare(&runtime, &plan.switch)?;
    let clock_ns = clock_cost_ns(&prepared.clock());
    let mtu = plan.switch.mtu.get() as u16;
    let ends = [test.end(0, &mut prepared, mtu)?, test.end(1, &mut prepared, mtu)?];
    let watch = HostLoadMeter::start();
    let mut testbed = Testbed::start(prepared, &test.cpu_plan, ends, mtu)?;
    let mut sizes = Vec::new();
    let mut interrupted = None;
    for (done, frame_bytes) in test.frame_bytes.iter().enumerate() {
        let mut size = SizeReport { frame_bytes: *frame_bytes, ..SizeReport::default() };
        let planned = test.frame_bytes.len();
        let measured =
            test.size(&mut testbed, &mut size, &mut |what| on_progress(&NextMeasurement { what, done, planned }));
        size.is_complete = measured.is_ok();
        if size.is_complete || size.throughput.is_some() || size.searched.is_some() {
            sizes.push(size);
        }
        match measured {
            Err(BenchError::Interrupted) => {
                interrupted = Some(Interrupted::after_sizes(&test.frame_bytes, done));
                break;
            }
            measured => measured?,
        }
    }
    let stopped = testbed.stop()?;
    let report = &stopped.reports[0];
    let drops = DropReason::ALL.into_iter().map(|reason| (reason.name(), report.dropped(reason)));
    let class = plan.switch.class_map(test.ports[0]).group_of_dscp()[usize::from(plan.dscp)];
    Ok(Rfc2544Report {
        machine: HostInfo::with_dpdk(&runtime),
        host_load: watch.read(),
        switch: plan.switch.name.clone(),
        policy: plan.switch.buffer.policy.name(),
        from: plan.from.clone(),
        to: plan.to.clone(),
        class,
        is_lossless: plan.switch.classes.lossless.contains(weir_units::Class::new(class)),
        lcores: test.cpu_plan.roles(),
        warnings: test.cpu_plan.warnings.clone(),
        clock_ns,
        trial_s: plan.duration.as_secs_f64(),
        trials_max: plan.trials,
        loss_allowed: plan.loss,
        interrupted,
        sizes,
        received: report.conservation.received,
        sent: report.conservation.sent,
        drops: drops.filter(|(_, frames)| *frames > 0).collect(),
    })
}

/// Progress callback of a frame size's tests: receives the next step and returns whether to continue.
type StepCallback<'t> = dyn FnMut(&str) -> ControlFlow<()> + 't;

fn go_on(on_step: &mut StepCallback<'_>, next: &str) -> Result<(), BenchError> {
    if on_step(next).is_break() { Err(BenchError::Interrupted) } else { Ok(()) }
}

impl<'p> Rfc2544Test<'p> {
    fn new(plan: &'p Rfc2544Plan) -> Result<Rfc2544Test<'p>, BenchError> {
        let wrong = |message: String| Err(BenchError::Plan(message));
        let switch = &plan.switch;
        if switch.time_dilation != 1 {
            return wrong(format!(
                "the file has time_dilation = {}: its figures would be those of a slowed-down clock; take it out",
                switch.time_dilation
            ));
        }
        let ports = [port(switch, "--from", &plan.from)?, port(switch, "--to", &plan.to)?];
        if ports[0] == ports[1] {
            return wrong(format!("--from and --to are both {}: a switch sends no frame back", plan.from));
        }
        for at in ports {
            let message_kind = switch.ports[at].flow_control.message_kind();
            if matches!(message_kind, MessageKind::LengthsOrCredits | MessageKind::Custom) {
                return wrong(format!(
                    "port {} has a flow control by which it sends only what its peer has told it to have room for, and the generator \
                     tells nothing: write flow_control = \"pfc\" or \"none\" there",
                    switch.ports[at].name
                ));
            }
        }
        let rates = ports.map(|at| switch.ports[at].rate);
        let Some(rate) = plan.rate_max.or(rates.into_iter().flatten().min()) else {
            return wrong(
                "neither port has a rate in the file: give the highest to try, as in --max-rate 10Gbps".into(),
            );
        };
        let devices = [0, 1].map(|end| tester_device(&switch.ports[ports[end]].device, plan, end));
        let [from, to] = devices;
        let (devices, frame_bytes) = ([from?, to?], frame_sizes(plan)?);
        check_links(switch, ports)?;
        if plan.dscp > 63 {
            return wrong(format!("--dscp {}: a DSCP is 0 to 63", plan.dscp));
        }
        if let Some(share) = plan.shares.iter().find(|share| !(1..=100).contains(*share)) {
            return wrong(format!("--shares {share}: shares of the throughput are 1 to 100 percent"));
        }
        if plan.duration == Span::ZERO || plan.trials == 0 {
            return wrong("--duration and --trials must be more than 0".to_owned());
        }
        if plan.resolution <= 0.0 || plan.resolution >= 1.0 || !(0.0..1.0).contains(&plan.loss) {
            return wrong("--resolution is a percentage above 0 and below 100, --loss one of at least 0".to_owned());
        }
        Ok(Rfc2544Test { plan, ports, devices, cpu_plan: CpuPlan::new(switch, &cpu::allowed())?, rate, frame_bytes })
    }

    /// Opens the generator's end of a link.
    fn end(&self, end: usize, prepared: &mut PreparedSwitches<'_>, mtu: u16) -> Result<TesterPort, BenchError> {
        if let Some(device) = &self.devices[end] {
            let (rx, tx) = prepared.open_device(device, mtu)?;
            return Ok(TesterPort::Device(rx, tx));
        }
        match &self.plan.switch.ports[self.ports[end]].device {
            Device::Ring(link) => Ok(TesterPort::Ring(prepared.open_far_end(link)?)),
            device => Err(BenchError::Run(format!("{device} has no far end"))),
        }
    }

    /// Runs all tests with one frame size. `report` has the finished results, also after an error.
    fn size(
        &self,
        testbed: &mut Testbed,
        report: &mut SizeReport,
        on_step: &mut StepCallback<'_>,
    ) -> Result<(), BenchError> {
        let (plan, frame_bytes) = (self.plan, report.frame_bytes);
        let wire_bits = (u64::from(frame_bytes) + WIRE_OVERHEAD_BYTES) * 8;
        let line_fps = self.rate.as_bps() as f64 / wire_bits as f64;
        report.line_fps = line_fps;
        go_on(on_step, &format!("{frame_bytes} B: the generator's own rate"))?;
        let own = testbed.run_trial(TrialSpec {
            port_pair: DIRECTLY,
            frames: u32::MAX,
            interval: Interval::NONE,
            at_most: OWN_RATE_TIME,
            ..self.trial_spec(frame_bytes, line_fps)
        })?;
        let generator_fps = own.stats.sent as f64 / own.stats.took.as_secs_f64().max(1e-9);
        report.generator_fps = generator_fps;
        let top = line_fps.min(generator_fps * OWN_RATE_SHARE);
        let mut kept = Duration::ZERO;
        let search = Search { resolution: plan.resolution, trials: plan.trials, least: RATE_LEAST.min(top) };
        let found: SearchResult = search.highest(top, |fps| {
            let trial = testbed.run_trial(self.trial_spec(frame_bytes, fps))?;
            kept += trial.kept_from_cpu;
            report.trials += 1;
            report.kept_from_cpu_ms = kept.as_millis() as u64;
            let verdict = verdict(&trial.stats, plan.loss);
            report.searched.get_or_insert_default().record(fps, verdict);
            go_on(on_step, &format!("{frame_bytes} B: {:.4} M frames a second: {}", fps / 1e6, describe(&trial)))?;
            Ok::<_, BenchError>(verdict)
        })?;
        report.searched = None;
        report.throughput = found.value.map(|fps| Throughput {
            fps,
            gbps: fps * wire_bits as f64 / 1e9,
            line_percent: fps * 100.0 / line_fps,
            limit: match found.is_top {
                false => LimitCause::Switch,
                true if top < line_fps => LimitCause::Generator,
                true => LimitCause::Line,
            },
        });
        for percent in plan.shares.iter().filter(|_| found.value.is_some()) {
            let fps = found.value.unwrap_or_default() * f64::from(*percent) / 100.0;
            go_on(on_step, &format!("{frame_bytes} B: latency at {percent} %, {:.3} M frames a second", fps / 1e6))?;
            let timed = |port_pair| TrialSpec { port_pair, is_timed: true, ..self.trial_spec(frame_bytes, fps) };
            let direct = testbed.run_trial(timed(DIRECTLY))?;
            report.latency.push(LatencyAt::from_trials(
                *percent,
                fps,
                &testbed.run_trial(timed(THROUGH))?,
                &direct.stats,
            ));
        }
        self.back_to_back(testbed, report, top, on_step)
    }

    fn back_to_back(
        &self,
        testbed: &mut Testbed,
        report: &mut SizeReport,
        fps: f64,
        on_step: &mut StepCallback<'_>,
    ) -> Result<(), BenchError> {
        let frame_bytes = report.frame_bytes;
        let longest = (fps * BURST_MAX_S).min(FRAMES_MAX).floor();
        let search = Search { resolution: self.plan.resolution, trials: 1, least: 1.0 };
        let (mut frames, mut is_longest) = (Vec::new(), true);
        for turn in 1..=self.plan.bursts {
            go_on(on_step, &format!("{frame_bytes} B: the longest burst, search {turn} of {}", self.plan.bursts))?;
            let found = search.highest(longest, |burst| {
                let frames = burst.floor() as u32;
                let trial = testbed.run_trial(TrialSpec { frames, ..self.trial_spec(frame_bytes, fps) })?;
                let outcome = &trial.stats;
                let is_carried = outcome.late == 0 && verdict(outcome, 0.0) == TrialVerdict::Carried;
                go_on(on_step, &format!("{frame_bytes} B: a burst of {frames} frames: {}", describe(&trial)))?;
                Ok::<_, BenchError>(if is_carried { TrialVerdict::Carried } else { TrialVerdict::Lost })
            })?;
            is_longest &= found.is_top;
            frames.push(found.value.unwrap_or(0.0).floor());
            report.back_to_back = Some(BackToBack { fps, frames: Spread::from_values(frames.clone()), is_longest });
        }
        Ok(())
    }

    /// Returns the spec of a trial at this rate.
    fn trial_spec(&self, frame_bytes: u16, fps: f64) -> TrialSpec {
        let frames = (fps * self.plan.duration.as_secs_f64()).ceil().clamp(1.0, FRAMES_MAX) as u32;
        TrialSpec {
            port_pair: THROUGH,
            length: frame_bytes - FCS_BYTES as u16,
            dscp: self.plan.dscp,
            frames,
            interval: Interval::of_rate(fps),
            wait: self.plan.wait,
            at_most: Span::from_secs(3_600),
            is_timed: false,
        }
    }
}

/// Returns [`TrialVerdict::Carried`] if frames were sent, at most the share `loss` is missing, and the switch sent no control frame.
fn verdict(outcome: &TrialStats, loss: f64) -> TrialVerdict {
    let due = (outcome.sent + outcome.refused) as f64;
    let missing = (outcome.lost() + outcome.refused) as f64;
    if missing <= due * loss && outcome.control == 0 && outcome.sent > 0 {
        TrialVerdict::Carried
    } else {
        TrialVerdict::Lost
    }
}

/// Describes the result of a trial.
fn describe(TrialOutcome { stats: outcome, kept_from_cpu }: &TrialOutcome) -> String {
    let counts = [
        (outcome.lost(), "lost"),
        (outcome.refused, "not taken by the port"),
        (outcome.control, "PAUSE or the like from the switch"),
        (u64::from(outcome.no_buffers), "times no packet buffer"),
    ];
    let counts = counts.iter().filter(|(frames, _)| *frames > 0).map(|(frames, what)| format!("{frames} {what}"));
    let counts = counts.collect::<Vec<_>>().join(", ");
    let counts = if counts.is_empty() { "all arrived".to_owned() } else { counts };
    let [kept, away] = [kept_from_cpu.as_secs_f64(), outcome.away.as_secs_f64()].map(|seconds| seconds * 1e3);
    format!("{counts}; others had the switch's CPUs for {kept:.1} ms, and the generator's for {away:.1} ms")
}

/// Returns the index of the port with this name.
fn port(switch: &SwitchConfig, argument: &str, name: &str) -> Result<usize, BenchError> {
    let real: Vec<usize> = switch.real_ports().collect();
    real.iter().copied().find(|at| switch.ports[*at].name == name).ok_or_else(|| {
        let names: Vec<&str> = real.iter().map(|at| switch.ports[*at].name.as_str()).collect();
        let what =
            if switch.ports.iter().any(|port| port.name == name) { "is a clone" } else { "is none of its ports" };
        BenchError::Plan(format!("{argument} {name}: that {what}; ports with a link are {}", names.join(", ")))
    })
}

/// Checks that all links except the generator's have two ends.
fn check_links(switch: &SwitchConfig, ports: [usize; 2]) -> Result<(), BenchError> {
    let mut others = switch.clone();
    for at in ports {
        if matches!(others.ports[at].device, Device::Ring(_)) {
            others.ports[at].device = Device::Null { frame_bytes: FRAME_BYTES_MIN as u16 };
        }
    }
    Ok(weir_config::check_process(&[others]).map_err(weir_dpdk_driver::DriverError::from)?)
}

/// Returns the plan's frame sizes, or those of the RFC that the switch's MTU allows.
fn frame_sizes(plan: &Rfc2544Plan) -> Result<Vec<u16>, BenchError> {
    // An untagged frame.
    let longest = plan.switch.mtu.get() + 18;
    if plan.frame_bytes.is_empty() {
        return Ok(FRAME_SIZES.into_iter().filter(|bytes| u64::from(*bytes) <= longest).collect());
    }
    match plan.frame_bytes.iter().find(|bytes| !(FRAME_BYTES_MIN..=longest).contains(&u64::from(**bytes))) {
        Some(bytes) => Err(BenchError::Plan(format!(
            "--frame-bytes {bytes}: frames through this switch have {FRAME_BYTES_MIN} to {longest} B, with FCS, by its mtu of {}",
            plan.switch.mtu.get()
        ))),
        None => Ok(plan.frame_bytes.clone()),
    }
}

/// Returns the device cabled to a port: the plan's, or a veth's peer; `None` for a ring's far end.
fn tester_device(own: &Device, plan: &Rfc2544Plan, end: usize) -> Result<Option<Device>, BenchError> {
    let (name, argument) = [(&plan.from, "--from-device"), (&plan.to, "--to-device")][end];
    if let Some(text) = &plan.devices[end] {
        return parse_device(argument, text).map(Some);
    }
    match own {
        Device::Ring(link) => {
            let joined =
                plan.switch.ports.iter().filter(|port| matches!(&port.device, Device::Ring(other) if other == link));
            if joined.count() > 1 {
                return Err(BenchError::Plan(format!(
                    "port {name} is joined to another port by ring {link}: the generator has no end of it; give it a ring of its own"
                )));
            }
            Ok(None)
        }
        Device::AfPacket(netdev) | Device::AfXdp(netdev) => match veth_peer(Path::new("/sys/class/net"), netdev) {
            Some(peer) => Ok(Some(Device::AfPacket(peer))),
            None => Err(BenchError::Plan(format!(
                "port {name}: what is cabled to {netdev} is not known, as it is no veth whose peer is in this network namespace; give \
                 it, as in {argument} af_packet=eth1"
            ))),
        },
        device => Err(BenchError::Plan(format!(
            "port {name} ({device}): give what is cabled to it, as in {argument} pci=0000:04:00.1"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(ports: &str) -> Rfc2544Plan {
        Rfc2544Plan {
            switch: weir_config::parse("test.toml", ports).unwrap(),
            from: "a".to_owned(),
            to: "b".to_owned(),
            devices: [None, None],
            frame_bytes: Vec::new(),
            dscp: 0,
            rate_max: None,
            duration: Span::from_secs(1),
            wait: Span::from_millis(100),
            trials: 1,
            resolution: 0.01,
            loss: 0.0,
            shares: vec![50],
            bursts: 1,
        }
    }

    fn two_rings() -> Rfc2544Plan {
        plan(
            "[[ports]]\nname = \"a\"\nring = \"a\"\nrate = \"10Gbps\"\n[[ports]]\nname = \"b\"\nring = \"b\"\nrate = \"1Gbps\"\n\
             [[ports]]\nname = \"c\"\nclone_of = \"a\"\n",
        )
    }

    fn refused(change: impl Fn(&mut Rfc2544Plan)) -> String {
        let mut plan = two_rings();
        change(&mut plan);
        let Err(BenchError::Plan(message)) = Rfc2544Test::new(&plan) else { panic!("accepted") };
        message
    }

    #[test]
    fn plans_that_make_no_sense_are_refused_with_what_to_write() {
        assert!(
            refused(|plan| plan.from = "x".into())
                .contains("--from x: that is none of its ports; ports with a link are a, b")
        );
        assert!(refused(|plan| plan.to = "c".into()).contains("--to c: that is a clone"));
        assert!(refused(|plan| plan.to = "a".into()).contains("are both a"));
        assert!(
            refused(|plan| plan.frame_bytes = vec![64, 1_519])
                .contains("--frame-bytes 1519: frames through this switch")
        );
        assert!(refused(|plan| plan.dscp = 64).contains("--dscp 64"));
        assert!(refused(|plan| plan.shares = vec![0]).contains("--shares 0"));
        assert!(refused(|plan| plan.trials = 0).contains("--trials"));
        assert!(refused(|plan| plan.loss = 1.0).contains("--loss"));
        assert!(refused(|plan| plan.switch.time_dilation = 10).contains("time_dilation = 10"));
        assert!(
            refused(|plan| plan.devices[0] = Some("eth0".into())).contains("--from-device eth0: write pci=ADDRESS")
        );
        assert!(
            refused(|plan| plan.devices[1] = Some("af_packet=nosuch0".into())).contains("no network interface nosuch0")
        );
        assert!(
            refused(|plan| plan.switch.ports[1].device = Device::Null { frame_bytes: 60 }).contains("--to-device pci=")
        );
        assert!(
            refused(|plan| {
                let rate = None;
                plan.switch.ports.iter_mut().for_each(|port| port.rate = rate);
            })
            .contains("--max-rate 10Gbps")
        );
    }

    #[test]
    fn joined_rings_leave_no_end_to_the_generator() {
        let mut plan = two_rings();
        plan.switch.ports[1].device = Device::Ring("a".to_owned());
        let Err(error) = tester_device(&plan.switch.ports[0].device, &plan, 0) else { panic!("accepted") };
        assert!(error.to_string().contains("joined to another port by ring a"), "{error}");
    }

    #[test]
    fn another_ring_with_one_end_is_refused_at_its_line() {
        let mut plan = two_rings();
        let rings =
            ["a", "b", "d"].map(|name| format!("[[ports]]\nname = \"{name}\"\nring = \"{name}\"\nrate = \"10Gbps\"\n"));
        plan.switch = weir_config::parse("test.toml", &rings.concat()).unwrap();
        let Err(error) = Rfc2544Test::new(&plan) else { panic!("accepted") };
        assert!(error.to_string().contains("test.toml:11"), "{error}");
    }

    #[test]
    fn the_rfcs_sizes_are_those_that_fit() {
        let mut plan = two_rings();
        assert_eq!(frame_sizes(&plan).unwrap(), FRAME_SIZES);
        plan.switch.mtu = weir_units::Bytes::new(1_000);
        assert_eq!(frame_sizes(&plan).unwrap(), [64, 128, 256, 512]);
    }
}
