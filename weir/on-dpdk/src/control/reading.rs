//! State of a switch for clients of the control socket, from its report and from the atomics that its lcores share.

use weir_config::{PortConfig, SwitchConfig};
use weir_control::metrics::SwitchMetrics;
use weir_control::protocol::ShowView;
use weir_control::state::{
    BufferConfiguration, BufferPool, BufferQueue, ByClass, Delay, DelayBucket, FlowControlClass, FlowControlPort,
    FrameConservation, Interface, LastPause, LldpPort, Loss, LossPlace, MacEntry, PauseDelays, PfcCounters,
    PolicyQueue, PolicyState, PriorityGroups, Queues, State, Stations, StormPackets, Traffic, WatchedQueue,
};
use weir_dpdk_io::{DeviceLosses, Losses};
use weir_flowctl::{Gauges, MessageKind};
use weir_mmu::PoolUsage;
use weir_nic::model::{ModelDrop, ModelReport};
use weir_switch_core::counters::DropReason;
use weir_switch_core::fdb::{FdbEntry, StationCounters};
use weir_switch_core::report::{self, ClassReport, PortReport};
use weir_switch_core::{Report, Shared};
use weir_units::{BitRate, Bytes, Class, PortId, QueueId, Span, Time};

use super::watermarks::Peaks;
use crate::lldp::LldpAgent;
use crate::losses::frames;

/// State of a switch at an instant, with its counters at the last clear.
pub(crate) struct SwitchReading<'r> {
    pub(crate) config: &'r SwitchConfig,
    pub(crate) shared: &'r Shared,
    pub(crate) report: &'r Report,
    /// Losses of the devices, by port.
    pub(crate) losses: &'r [DeviceLosses],
    /// Index of the switch, and the agent that knows its neighbours.
    pub(crate) lldp: (usize, &'r LldpAgent),
    /// Counters of the NICs in front of hosts, by port.
    pub(crate) nics: Vec<Option<ModelReport>>,
    /// Counters at the last clear; `None` if they count since the start.
    pub(crate) base: Option<&'r CounterBaseline>,
    /// Past peaks of watermarks, and of the persistent ones.
    pub(crate) peaks: [&'r Peaks; 2],
    /// Rates by port, received and sent; `None` before the first interval is over.
    pub(crate) rates: Option<&'r [[TrafficRate; 2]]>,
    pub(crate) now: Time,
    /// `now` in milliseconds since 1970.
    pub(crate) unix_ms: u64,
    /// Indices of the requested ports.
    pub(crate) ports: Vec<usize>,
}

/// Rates of a port in one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TrafficRate {
    bits_per_second: u64,
    frames_per_second: u64,
}

/// Counters as they were when they were cleared.
pub(crate) struct CounterBaseline {
    pub(crate) unix_ms: u64,
    pub(crate) report: Report,
    pub(crate) losses: Vec<DeviceLosses>,
    pub(crate) nics: Vec<Option<ModelReport>>,
}

impl SwitchReading<'_> {
    /// A view of the switch; `None` for views of the whole process.
    pub(crate) fn state(&self, what: ShowView) -> Option<State> {
        Some(match what {
            ShowView::Interfaces => State::Interfaces(self.interfaces()),
            ShowView::PfcCounters => State::PfcCounters(self.pfc_counters()),
            ShowView::PfcWatchdog => State::PfcWatchdog(self.watched()),
            ShowView::PauseDelays => State::PauseDelays(self.delays()),
            ShowView::PriorityGroups => State::PriorityGroups(self.priority_groups()),
            ShowView::Queues => State::Queues(self.queues()),
            ShowView::BufferPools => State::BufferPools(self.pools()),
            ShowView::BufferConfiguration => State::BufferConfiguration(self.buffer()),
            ShowView::Mac => State::Mac(self.macs()),
            ShowView::Policy => State::Policy(self.policy()),
            ShowView::FlowControl => State::FlowControl(self.flow_control()),
            ShowView::Losses => State::Losses(self.lost()),
            ShowView::Lldp => State::Lldp(self.lldp()),
            ShowView::Lcores | ShowView::Events | ShowView::Metrics => return None,
        })
    }

    /// Returns the metrics of a scrape.
    pub(crate) fn metrics(&self) -> SwitchMetrics {
        let balance = self.report.conservation;
        SwitchMetrics {
            switch: self.config.name.clone(),
            frame_conservation: FrameConservation {
                received: balance.received,
                copied: balance.copied,
                sent: balance.sent,
                dropped: balance.dropped,
                held: balance.held(),
                conserved: balance.holds,
            },
            interfaces: self.interfaces(),
            pfc: self.pfc_counters(),
            watchdog: self.watched(),
            priority_groups: self.priority_groups(),
            limits: self.buffer().queues,
            queues: self.queues(),
            pools: self.pools(),
            policy: self.policy(),
            flow_control: self.flow_control(),
            losses: self.lost(),
            lldp: self.lldp(),
            delays: self.delays(),
        }
    }

    /// Requested ports: index, configuration, report.
    fn ports(&self) -> impl Iterator<Item = (usize, &PortConfig, &PortReport)> {
        self.ports.iter().map(|port| (*port, &self.config.ports[*port], &self.report.ports[*port]))
    }

    /// Returns the requested ports without clones, which send nothing.
    fn real_ports(&self) -> impl Iterator<Item = (usize, &PortConfig, &PortReport)> {
        self.ports().filter(|(_, config, _)| config.clone_of().is_none())
    }

    /// Returns a count since counters were cleared.
    fn count(&self, port: usize, count: impl Fn(&PortReport) -> u64) -> u64 {
        let before = self.base.map_or(0, |base| count(&base.report.ports[port]));
        count(&self.report.ports[port]).saturating_sub(before)
    }

    fn by_class(&self, port: usize, count: impl Fn(&ClassReport) -> u64) -> ByClass {
        std::array::from_fn(|class| self.count(port, |report| count(&report.classes[class])))
    }

    fn interfaces(&self) -> Vec<Interface> {
        let interface = |(number, config, report): (usize, &PortConfig, &PortReport)| {
            let sum = |count: fn(&ClassReport) -> u64| self.by_class(number, count).iter().sum::<u64>();
            let lost = self.lost_at_device(number);
            let rate = |direction: usize| self.rates.map(|rates| rates[number][direction]);
            Interface {
                port: config.name.clone(),
                device: config.device.to_string(),
                link: config.ring().map(str::to_owned),
                link_up: report.link_up,
                state: self.shared.ports()[self.config.real_port(number)].admin_state().name().to_owned(),
                forced_pause: self.shared.ports()[number].forced_pause().iter().map(Class::index).collect(),
                rate_bps: config.rate.or(report.link_rate).map(BitRate::as_bps),
                flow_control: config.flow_control.kind().to_owned(),
                stations: self.stations(number),
                rx: Traffic {
                    frames: sum(|class| class.rx_frames),
                    bytes: sum(|class| class.rx_bytes),
                    bits_per_second: rate(0).map(|rate| rate.bits_per_second),
                    frames_per_second: rate(0).map(|rate| rate.frames_per_second),
                    dropped: sum(|class| class.rx_drops.iter().sum()),
                    errors: sum(|class| errors(&class.rx_drops)),
                    lost_at_device: lost.map_or(Some(0), |lost| frames(&lost.receive)),
                },
                tx: Traffic {
                    frames: sum(|class| class.tx_frames),
                    bytes: sum(|class| class.tx_bytes),
                    bits_per_second: rate(1).map(|rate| rate.bits_per_second),
                    frames_per_second: rate(1).map(|rate| rate.frames_per_second),
                    dropped: sum(|class| class.tx_drops.iter().sum()),
                    errors: sum(|class| errors(&class.tx_drops)),
                    lost_at_device: lost.map_or(Some(0), |lost| frames(&lost.transmit)),
                },
            }
        };
        self.ports().map(interface).collect()
    }

    /// Returns the losses of the device since counters were cleared; `None` of a clone, which has no device.
    fn lost_at_device(&self, port: usize) -> Option<DeviceLosses> {
        let now = self.losses.get(port).filter(|_| self.config.ports[port].clone_of().is_none())?;
        Some(match self.base.and_then(|base| base.losses.get(port)) {
            Some(before) => DeviceLosses {
                receive: now.receive.since(&before.receive),
                transmit: now.transmit.since(&before.transmit),
            },
            None => *now,
        })
    }

    fn pfc_counters(&self) -> Vec<PfcCounters> {
        let counters = |(number, config, report): (usize, &PortConfig, &PortReport)| {
            // At a port that speaks PAUSE these count PAUSE frames.
            let speaks_pfc = config.flow_control.message_kind() != MessageKind::Pause;
            PfcCounters {
                port: config.name.clone(),
                rx: self.by_class(number, |class| class.xoff_rx + class.xon_rx),
                tx: self.by_class(number, |class| if speaks_pfc { class.xoff_tx + class.xon_tx } else { 0 }),
                rx_pauses: self.by_class(number, |class| class.pauses_rx),
                rx_paused_us: self.by_class(number, |class| class.paused_rx.as_micros()),
                rx_last_pause: std::array::from_fn(|class| self.last_pause(&report.classes[class])),
                tx_pauses: self.by_class(number, |class| class.pauses_tx),
                tx_paused_us: self.by_class(number, |class| class.paused_tx.as_micros()),
                rx_lossy: report
                    .control_rx
                    .lossy_pauses
                    .saturating_sub(self.base.map_or(0, |base| base.report.ports[number].control_rx.lossy_pauses)),
            }
        };
        self.real_ports().map(counters).collect()
    }

    /// A class's last pause in Unix time, unless it was over when counters were cleared.
    fn last_pause(&self, class: &ClassReport) -> Option<LastPause> {
        let last = class.last_pause_rx?;
        let real_ms = |span: Span| (span * u64::from(self.config.time_dilation)).as_micros() / 1_000;
        let unix_ms = self.unix_ms.saturating_sub(real_ms(self.now.since(last.began)));
        let ended = unix_ms + real_ms(last.lasted);
        let is_new = self.base.is_none_or(|base| ended > base.unix_ms);
        is_new.then_some(LastPause { unix_ms, us: last.lasted.as_micros() })
    }

    fn delays(&self) -> PauseDelays {
        PauseDelays { message: delay(&self.report.message_delay), reaction: delay(&self.report.reaction) }
    }

    fn watched(&self) -> Vec<WatchedQueue> {
        let mut watched = Vec::new();
        for (number, config, report) in self.ports() {
            for (queue, class) in report.classes.iter().enumerate() {
                let Some(storms) = class.storms else { continue };
                let before = self.base.and_then(|base| base.report.ports[number].classes[queue].storms);
                let before = before.unwrap_or_default();
                let since = |now: u64, before: u64| now.saturating_sub(before);
                watched.push(WatchedQueue {
                    port: config.name.clone(),
                    queue,
                    in_storm: storms.in_storm(),
                    detected: since(storms.deadlock_detected, before.deadlock_detected),
                    restored: since(storms.deadlock_restored, before.deadlock_restored),
                    all: StormPackets {
                        tx: since(storms.all.tx, before.all.tx),
                        tx_dropped: since(storms.all.tx_dropped, before.all.tx_dropped),
                        rx: since(storms.all.rx, before.all.rx),
                        rx_dropped: since(storms.all.rx_dropped, before.all.rx_dropped),
                    },
                    last: StormPackets {
                        tx: storms.last.tx,
                        tx_dropped: storms.last.tx_dropped,
                        rx: storms.last.rx,
                        rx_dropped: storms.last.rx_dropped,
                    },
                });
            }
        }
        watched
    }

    fn priority_groups(&self) -> Vec<PriorityGroups> {
        let groups = |(number, config, report): (usize, &PortConfig, &PortReport)| {
            let now = |value: fn(&ClassReport) -> Bytes| report.classes.each_ref().map(|class| value(class).get());
            let marks = |peaks: &Peaks| Class::ALL.map(|class| peaks.queue(&self.shared.mmu, queue(number, class)));
            let [marks, persistent] = self.peaks.map(marks);
            PriorityGroups {
                port: config.name.clone(),
                frames: self.by_class(number, |class| class.rx_frames),
                bytes: self.by_class(number, |class| class.rx_bytes),
                private_bytes: now(|class| class.ingress.private),
                shared_bytes: now(|class| class.ingress.shared),
                headroom_bytes: now(|class| class.ingress.headroom),
                shared_watermark_bytes: marks.map(|of| of.shared.get()),
                headroom_watermark_bytes: marks.map(|of| of.headroom.get()),
                shared_persistent_watermark_bytes: persistent.map(|of| of.shared.get()),
                headroom_persistent_watermark_bytes: persistent.map(|of| of.headroom.get()),
                dropped: self.by_class(number, |class| {
                    let of = |reason: DropReason| class.rx_drops[reason as usize];
                    of(DropReason::HeadroomViolation) + of(DropReason::SharedFull)
                }),
            }
        };
        self.ports().map(groups).collect()
    }

    fn queues(&self) -> Vec<Queues> {
        let marks = |peaks: &Peaks, port| {
            Class::ALL.map(|class| peaks.queue(&self.shared.mmu, queue(port, class)).egress.get())
        };
        let queues = |(number, config, report): (usize, &PortConfig, &PortReport)| Queues {
            port: config.name.clone(),
            frames: self.by_class(number, |class| class.tx_frames),
            bytes: self.by_class(number, |class| class.tx_bytes),
            ce_marked: self.by_class(number, |class| class.ce_marked),
            dropped: self.by_class(number, |class| class.tx_drops.iter().sum()),
            held_bytes: report.classes.each_ref().map(|class| class.egress.get()),
            watermark_bytes: marks(self.peaks[0], number),
            persistent_watermark_bytes: marks(self.peaks[1], number),
        };
        self.real_ports().map(queues).collect()
    }

    fn pools(&self) -> Vec<BufferPool> {
        let [marks, persistent] = self.peaks.map(|peaks| peaks.pools(&self.shared.mmu));
        let pool = |name: &str, of: PoolUsage, marks: [Bytes; 2]| BufferPool {
            pool: name.to_owned(),
            size_bytes: of.capacity.get(),
            used_bytes: of.used.get(),
            watermark_bytes: marks[0].get(),
            persistent_watermark_bytes: marks[1].get(),
        };
        let mut pools = vec![pool("shared", self.report.pool, [marks.shared, persistent.shared])];
        let both = |marks: [Option<Bytes>; 2]| marks.map(Option::unwrap_or_default);
        let headroom = both([marks.headroom, persistent.headroom]);
        pools.extend(self.report.headroom_pool.map(|of| pool("headroom", of, headroom)));
        let egress = both([marks.egress_lossy, persistent.egress_lossy]);
        pools.extend(self.report.egress_lossy_pool.map(|of| pool("egress_lossy", of, egress)));
        pools
    }

    fn buffer(&self) -> BufferConfiguration {
        let layout = self.shared.mmu.layout();
        let mut queues = Vec::new();
        for (number, config, report) in self.ports() {
            for (class, of) in Class::ALL.into_iter().zip(&report.classes) {
                queues.push(BufferQueue {
                    port: config.name.clone(),
                    class: class.index(),
                    lossless: layout.is_lossless(PortId(number as u16), class),
                    private_bytes: layout.ports()[number].private[class.index()].get(),
                    threshold_bytes: of.ingress.threshold.get(),
                    // In bytes, as in the switch's file and in the sum below: it may hold more charges than the buffer.
                    headroom_bytes: layout.of_headroom(of.ingress.headroom_limit).get(),
                });
            }
        }
        BufferConfiguration {
            policy: self.config.buffer.policy.name().to_owned(),
            size_bytes: layout.size().get(),
            private_bytes: layout.private().get(),
            headroom_bytes: layout.headroom().get(),
            shared_bytes: layout.shared().get(),
            queues,
        }
    }

    fn macs(&self) -> Vec<MacEntry> {
        let mut entries = self.shared.fdb.entries(self.now);
        entries.retain(|entry| self.ports.contains(&entry.port.index()));
        entries.sort_by_key(|entry| (entry.vlan_index, entry.address.to_u64()));
        let entry = |entry: FdbEntry| MacEntry {
            vlan: self.shared.vlans.as_ref().and_then(|vlans| vlans.id(entry.vlan_index)),
            mac: entry.address.to_string(),
            port: self.config.ports[entry.port.index()].name.clone(),
            is_static: entry.is_static,
        };
        entries.into_iter().map(entry).collect()
    }

    fn stations(&self, port: usize) -> Stations {
        let StationCounters { stations, refused, moves } = self.shared.fdb.station_counters(PortId(port as u16));
        Stations { learned: stations, max: self.config.ports[port].stations_max, refused_frames: refused, moves }
    }

    fn policy(&self) -> PolicyState {
        let mut queues = Vec::new();
        for (number, config, report) in self.ports() {
            for (class, of) in Class::ALL.into_iter().zip(&report.classes) {
                if !self.shared.mmu.layout().is_lossless(PortId(number as u16), class) {
                    continue;
                }
                queues.push(PolicyQueue {
                    port: config.name.clone(),
                    class: class.index(),
                    shared_bytes: of.ingress.shared.get(),
                    headroom_bytes: of.ingress.headroom.get(),
                    threshold_bytes: of.ingress.threshold.get(),
                    headroom_limit_bytes: of.ingress.headroom_limit.get(),
                    off: of.ingress.off,
                    port_off: of.ingress.port_off,
                    gauges: named(&of.ingress.gauges),
                });
            }
        }
        PolicyState { policy: self.config.buffer.policy.name().to_owned(), queues }
    }

    fn flow_control(&self) -> Vec<FlowControlPort> {
        let speaks_more = |config: &PortConfig| {
            let message_kind = config.flow_control.message_kind();
            !message_kind.advertises_xoff() && message_kind != MessageKind::Nothing
        };
        let port_state = |(number, config, report): (usize, &PortConfig, &PortReport)| FlowControlPort {
            port: config.name.clone(),
            flow_control: config.flow_control.kind().to_owned(),
            messages_rx: self.count(number, |port| port.control_rx.messages()),
            messages_tx: self.count(number, |port| port.control_tx.messages()),
            invalid: self.count(number, |port| port.invalid_messages),
            foreign: self.count(number, |port| port.mismatch.foreign),
            aged: self.count(number, |port| port.mismatch.aged),
            resyncs: self.count(number, |port| port.mismatch.resyncs),
            rate_bps: config.rate.or(report.link_rate).map(BitRate::as_bps),
            classes: report
                .classes
                .iter()
                .enumerate()
                .filter(|(_, class)| is_active(class))
                .map(|(class, report)| flow_control_class(class, report))
                .collect(),
        };
        self.real_ports().filter(|(_, config, _)| speaks_more(config)).map(port_state).collect()
    }

    fn lldp(&self) -> Vec<LldpPort> {
        let (index, agent) = self.lldp;
        let ports = self.real_ports().filter_map(|(number, ..)| {
            let frames =
                [self.count(number, |port| port.control_rx.lldp), self.count(number, |port| port.control_tx.lldp)];
            agent.port(index, self.config, number, frames)
        });
        ports.collect()
    }

    fn lost(&self) -> Vec<Loss> {
        type Drops = fn(&ClassReport) -> &[u64; DropReason::ALL.len()];
        let places: [(LossPlace, Drops); 2] =
            [(LossPlace::Ingress, |class| &class.rx_drops), (LossPlace::Egress, |class| &class.tx_drops)];
        let mut lost = Vec::new();
        for (number, config, _) in self.ports() {
            let port = &config.name;
            for (place, drops) in places {
                for reason in DropReason::ALL {
                    let by_class = self.by_class(number, |class| drops(class)[reason as usize]);
                    for (class, frames) in by_class.into_iter().enumerate().filter(|(_, frames)| *frames > 0) {
                        let reason = reason.name().to_owned();
                        lost.push(Loss { port: port.clone(), place, class: Some(class), reason, frames: Some(frames) });
                    }
                }
            }
            if let Some(of_device) = self.lost_at_device(number) {
                lost.extend(at_device(port, LossPlace::DeviceReceive, &of_device.receive));
                lost.extend(at_device(port, LossPlace::DeviceTransmit, &of_device.transmit));
            }
            lost.extend(self.lost_in_nic(number, port));
        }
        lost
    }

    /// Returns the drops of the NIC in front of a port's host: by class where its receive buffer was full, in sum for other reasons.
    fn lost_in_nic(&self, number: usize, port: &str) -> Vec<Loss> {
        let Some(Some(now)) = self.nics.get(number) else { return Vec::new() };
        let before = self.base.and_then(|base| *base.nics.get(number)?).unwrap_or_default();
        let mut lost = Vec::new();
        let mut note = |place, class, why: ModelDrop, frames: u64| {
            if frames > 0 {
                lost.push(Loss {
                    port: port.to_owned(),
                    place,
                    class,
                    reason: why.name().to_owned(),
                    frames: Some(frames),
                });
            }
        };
        for why in ModelDrop::ALL {
            let since = |now: &[u64; ModelDrop::COUNT], before: &[u64; ModelDrop::COUNT]| {
                now[why as usize].saturating_sub(before[why as usize])
            };
            note(LossPlace::NicToSwitch, None, why, since(&now.to_switch.dropped, &before.to_switch.dropped));
            if why != ModelDrop::ReceiveBufferFull {
                note(LossPlace::NicToHost, None, why, since(&now.to_host.dropped, &before.to_host.dropped));
                continue;
            }
            for (class, (now, before)) in now.classes.iter().zip(&before.classes).enumerate() {
                note(LossPlace::NicToHost, Some(class), why, since(&now.dropped, &before.dropped));
            }
        }
        lost
    }
}

/// Returns the number of frames that were malformed or too long.
fn errors(drops: &[u64]) -> u64 {
    [DropReason::Malformed, DropReason::Oversize].iter().map(|reason| drops[*reason as usize]).sum()
}

/// Returns true if a class was used, or holds frames that its peer pauses.
fn is_active(class: &ClassReport) -> bool {
    class.is_used() || class.egress > Bytes::ZERO
}

fn flow_control_class(class: usize, report: &ClassReport) -> FlowControlClass {
    FlowControlClass {
        class,
        ingress_bytes: (report.ingress.private + report.ingress.shared + report.ingress.headroom).get(),
        egress_bytes: report.egress.get(),
        rate_rx_bps: report.rate_rx.map(BitRate::as_bps),
        gauges: named(&report.gauges),
    }
}

/// Returns the counted causes of losses, and the losses that the device does not count.
fn at_device(port: &str, place: LossPlace, losses: &Losses) -> Vec<Loss> {
    let loss =
        |reason: &str, frames| Loss { port: port.to_owned(), place, class: None, reason: reason.to_owned(), frames };
    let counted = losses.causes().map(|(cause, frames)| loss(cause.name(), Some(frames)));
    counted.chain(losses.uncounted.map(|uncounted| loss(uncounted, None))).collect()
}

fn named(gauges: &Gauges) -> std::collections::BTreeMap<String, u64> {
    gauges.iter().map(|(gauge, value)| (gauge.name.to_owned(), value)).collect()
}

fn delay(of: &report::DelayStats) -> Delay {
    let bucket = |(length, messages): (usize, &u64)| DelayBucket {
        up_to_ns: report::DelayStats::bin_upper_bound(length),
        messages: *messages,
    };
    Delay {
        count: of.count,
        p50_ns: of.p50,
        p99_ns: of.p99,
        p999_ns: of.p999,
        max_ns: of.max,
        sum_ns: of.sum,
        lengths: of.bins.iter().enumerate().map(bucket).collect(),
    }
}

fn queue(port: usize, class: Class) -> QueueId {
    QueueId::new(PortId(port as u16), class)
}

/// Rates between two reports, received and sent, by port.
pub(crate) fn rates(before: &Report, now: &Report) -> Vec<[TrafficRate; 2]> {
    let span = now.at.since(before.at);
    let rate = |now: &PortReport, before: &PortReport, count: fn(&ClassReport) -> [u64; 2]| {
        let sums = |port: &PortReport| {
            port.classes
                .iter()
                .map(|class| count(class))
                .fold([0; 2], |[frames, bytes], [more, of]| [frames + more, bytes + of])
        };
        let ([frames, bytes], [frames_before, bytes_before]) = (sums(now), sums(before));
        let frames = u128::from(frames - frames_before) * u128::from(Span::from_secs(1).as_picos());
        TrafficRate {
            bits_per_second: BitRate::average(Bytes::new(bytes - bytes_before), span).map_or(0, BitRate::as_bps),
            frames_per_second: frames.checked_div(u128::from(span.as_picos())).unwrap_or(0) as u64,
        }
    };
    let pairs = before.ports.iter().zip(&now.ports);
    let both = |(before, now)| {
        [
            rate(now, before, |class| [class.rx_frames, class.rx_bytes]),
            rate(now, before, |class| [class.tx_frames, class.tx_bytes]),
        ]
    };
    pairs.map(both).collect()
}
