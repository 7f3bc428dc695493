//! Switches in virtual time, driven as a simulation drives them.

use weir_config::{QueueConfig, SwitchConfig, WatchdogAction, WatchdogConfig};
use weir_flowctl::CatchUp;
use weir_switch_core::report::{ClassReport, Report};
use weir_switch_core::single::Pipeline;
use weir_switch_core::{BuildError, Burst, DriverConfig, PacketAllocator, PortInfo, PortOutput, Shared, Switch};
use weir_units::{CLASSES, Class, DropReason, MacAddr, PortId, PortSet, QueueId, Span, Time};
use weir_wire::ethernet::Parsed;
use weir_wire::mac_control::{ControlFrame, FRAME_BYTES};

use super::EventSchedule;
use super::link::{TesterFrame, TesterLink};
use crate::device::{ClassCounters, DeviceCounters, PoolCounters, PortCounters};

/// One switch, with the links that leave its ports.
#[derive(Debug)]
pub(super) struct SwitchUnderTest {
    pipeline: Pipeline<TesterFrame>,
    pub(super) links: Vec<TesterLink>,
    wakeups: Vec<Time>,
    next: Time,
    sweep_at: Time,
    /// Report at the last clearing of counters.
    cleared: Report,
}

/// Interval at which queues that are OFF are compared with thresholds, as in simulations.
const SWEEP: Span = Span::from_micros(1);

struct SwitchPorts<'s> {
    now: Time,
    links: &'s mut [TesterLink],
    events: &'s mut EventSchedule,
}

impl TesterFrame {
    /// Number of frames that a switch makes itself.
    pub(super) const OF_DEVICE: u64 = u64::MAX;
}

impl SwitchUnderTest {
    pub(super) fn new(
        number: usize,
        config: &SwitchConfig,
        links: Vec<TesterLink>,
    ) -> Result<SwitchUnderTest, BuildError> {
        let mac = |port: usize| MacAddr([2, 1, 0, number as u8, 0, port as u8]);
        let ports = config.ports.len();
        let infos: Vec<PortInfo> = (0..ports).map(|port| PortInfo { mac: mac(port), ..PortInfo::default() }).collect();
        let driver_config = DriverConfig { takes_mbufs: false, ..DriverConfig::real_time(CatchUp::NONE) };
        let mut pipeline = Switch::new(config, &infos, driver_config)?.into_pipeline();
        (0..ports).for_each(|port| pipeline.shared().set_link_up(PortId(port as u16), true));
        let cleared = pipeline.report(Time::ZERO);
        let mut node = SwitchUnderTest {
            pipeline,
            links,
            wakeups: vec![Time::ZERO; ports],
            next: Time::ZERO,
            sweep_at: Time::NEVER,
            cleared,
        };
        if let Some(watchdog) = &config.pfc_watchdog {
            node.set_watchdog(Time::ZERO, watchdog, false, true);
        }
        Ok(node)
    }

    pub(super) fn shared(&self) -> &Shared {
        self.pipeline.shared()
    }

    pub(super) fn enter(&self, station: MacAddr, port: PortId) {
        let is_entered = self.shared().enter_static(station, port);
        assert!(is_entered, "the forwarding table has room for the tester's stations");
    }

    pub(super) fn next_wakeup(&self) -> Time {
        self.next
    }

    pub(super) fn handle(&mut self, now: Time, port: PortId, frame: TesterFrame, events: &mut EventSchedule) {
        let SwitchUnderTest { pipeline, links, .. } = self;
        pipeline.handle(now, port, frame, false, &mut SwitchPorts { now, links, events });
        self.next = now;
    }

    /// Serves the ports with work, as [`Pipeline`] asks for.
    pub(super) fn run(&mut self, now: Time, events: &mut EventSchedule) {
        if self.next > now {
            return;
        }
        let SwitchUnderTest { pipeline, links, wakeups, sweep_at, .. } = self;
        let mut ports = SwitchPorts { now, links, events };
        let mut due: PortSet = pipeline.take_pending_ports();
        if *sweep_at <= now {
            due |= *pipeline.off_ports();
            *sweep_at = Time::NEVER;
        }
        loop {
            let is_due = |(_, at): &(usize, &Time)| **at <= now;
            due |= wakeups.iter().enumerate().filter(is_due).map(|(port, _)| PortId(port as u16)).collect::<PortSet>();
            if due.is_empty() && !pipeline.has_pending_ports() {
                break;
            }
            for port in pipeline.run_ports(now, due, &mut ports).iter() {
                wakeups[port.index()] = pipeline.next_wakeup_of(now, port);
            }
            due = PortSet::EMPTY;
        }
        if !pipeline.off_ports().is_empty() && *sweep_at == Time::NEVER {
            *sweep_at = now + SWEEP;
        }
        self.next = self.wakeups.iter().copied().min().unwrap_or(Time::NEVER).min(self.sweep_at);
    }

    fn wake_all(&mut self, now: Time) {
        self.wakeups.fill(now);
        self.next = now;
    }

    pub(super) fn set_link_up(&mut self, now: Time, port: PortId, up: bool) {
        self.links[port.index()].is_up = up;
        self.shared().set_link_up(port, up);
        self.wake_all(now);
    }

    pub(super) fn set_queues(&mut self, now: Time, queues: &[QueueConfig; CLASSES]) {
        self.shared().set_queues(queues);
        self.wake_all(now);
    }

    /// Sets the watchdog's action; one that is off never detects anything.
    pub(super) fn set_watchdog(&mut self, now: Time, config: &WatchdogConfig, on: bool, drops: bool) {
        let action = if drops { WatchdogAction::Drop } else { WatchdogAction::Forward };
        let detection_time = if on { config.detection_time } else { Span::from_secs(1_000_000) };
        self.shared().set_watchdog(&WatchdogConfig { action, detection_time, ..*config });
        self.wake_all(now);
    }

    pub(super) fn clear(&mut self, now: Time) {
        self.cleared = self.pipeline.report(now);
        self.shared().mmu.restart_watermarks();
    }

    pub(super) fn counters(&mut self, now: Time) -> DeviceCounters {
        let report = self.pipeline.report(now);
        let mmu = &self.shared().mmu;
        let ports = report.ports.iter().zip(&self.cleared.ports).zip(0..).map(|((port, cleared), number)| {
            let classes = Class::ALL.map(|class| {
                let marks = mmu.queue_watermarks(QueueId::new(PortId(number), class));
                let mut counters = difference(&port.classes[class.index()], &cleared.classes[class.index()]);
                counters.group_shared_max = Some(marks.shared.get());
                counters.group_headroom_max = Some(marks.headroom.get());
                counters.queue_max = Some(marks.egress.get());
                counters
            });
            let other = port.control_rx.malformed + port.control_rx.ignored;
            let before = cleared.control_rx.malformed + cleared.control_rx.ignored;
            PortCounters { classes, other_drops: Some(other - before) }
        });
        let marks = mmu.pool_watermarks();
        let headroom_max = marks.headroom.map(|bytes| bytes.get());
        DeviceCounters {
            ports: ports.collect(),
            pools: PoolCounters { shared_max: Some(marks.shared.get()), headroom_max },
        }
    }
}

/// Counters of a class since an earlier report; without watermarks.
fn difference(now: &ClassReport, before: &ClassReport) -> ClassCounters {
    let drops = |report: &[u64; DropReason::ALL.len()]| report.iter().sum::<u64>();
    let storms = |report: &ClassReport| report.storms.unwrap_or_default();
    let held = now.ingress.private + now.ingress.shared + now.ingress.headroom;
    ClassCounters {
        rx_pfc: Some(now.xoff_rx + now.xon_rx - before.xoff_rx - before.xon_rx),
        tx_pfc: Some(now.xoff_tx + now.xon_tx - before.xoff_tx - before.xon_tx),
        rx_frames: Some(now.rx_frames - before.rx_frames),
        tx_frames: Some(now.tx_frames - before.tx_frames),
        group_drops: Some(drops(&now.rx_drops) - drops(&before.rx_drops)),
        queue_drops: Some(drops(&now.tx_drops) - drops(&before.tx_drops)),
        group_bytes: Some(held.get()),
        storms_detected: now.storms.map(|now| now.deadlock_detected - storms(before).deadlock_detected),
        storms_restored: now.storms.map(|now| now.deadlock_restored - storms(before).deadlock_restored),
        group_shared_max: None,
        group_headroom_max: None,
        queue_max: None,
    }
}

impl PacketAllocator<TesterFrame> for SwitchPorts<'_> {
    fn copy(&mut self, packet: &TesterFrame) -> Option<TesterFrame> {
        Some(packet.clone())
    }

    fn control(&mut self, frame: &ControlFrame, source: MacAddr) -> Option<TesterFrame> {
        Some(TesterFrame {
            bytes: FRAME_BYTES as u32,
            parsed: Parsed::Control(Ok(*frame)),
            source,
            stream: usize::MAX,
            number: TesterFrame::OF_DEVICE,
            ect: false,
            ce: false,
        })
    }
}

impl PortOutput<TesterFrame> for SwitchPorts<'_> {
    fn transmit(&mut self, port: PortId, burst: &mut Burst<TesterFrame>) -> usize {
        let SwitchPorts { now, links, events } = self;
        let sent = burst.len();
        burst.drain(..).for_each(|frame| {
            links[port.index()].send(*now, frame, events);
        });
        sent
    }
}
