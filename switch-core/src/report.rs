//! Report of a switch: the counters of all stages of its pipeline, added up, and the conservation of frames.

use std::sync::Arc;

use weir_flowctl::Gauges;
use weir_flowctl::pfc::{LastPause, StormCounters};
use weir_mmu::{PoolUsage, QueueUsage};
use weir_units::{BitRate, Bytes, CLASSES, Class, ClassSet, PortId, PortSet, QueueId, Span, Time};

use crate::counters::{CounterSnapshot, Counters, DropReason, gauge, port_stat, queue_stat};
use crate::line_time::LineTimeLoss;
use crate::shared::Shared;

/// Collector of the counters of all pipeline stages.
#[derive(Debug)]
pub struct StatsCollector {
    shared: Arc<Shared>,
    receivers: Vec<Arc<CounterSnapshot>>,
    forwarders: Vec<Arc<CounterSnapshot>>,
    transmitters: Vec<Arc<CounterSnapshot>>,
}

/// Report of one switch at one instant.
#[derive(Clone, Debug)]
pub struct Report {
    /// Instant of the request.
    pub at: Time,
    /// Reports of the ports.
    pub ports: Vec<PortReport>,
    /// Usage of the shared segment.
    pub pool: PoolUsage,
    /// Usage of the headroom pool, if headroom is pooled.
    pub headroom_pool: Option<PoolUsage>,
    /// Usage of the egress lossy pool, in the four-pool model.
    pub egress_lossy_pool: Option<PoolUsage>,
    /// Conservation of frames.
    pub conservation: FrameConservation,
    /// Delay from the arrival that crossed Xoff, or raised a GFC stage, to the message's handover to the port.
    pub message_delay: DelayStats,
    /// Delay from the arrival of a peer's message that pauses a class or changes its rate, until the transmitter obeys it.
    pub reaction: DelayStats,
}

/// Frame conservation, in data frames: `received + copied = sent + dropped + held`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameConservation {
    /// Data frames received; a frame that clones copy counts at each clone too.
    pub received: u64,
    /// Further copies of flooded frames.
    pub copied: u64,
    /// Data frames sent.
    pub sent: u64,
    /// Frames dropped, for any reason.
    pub dropped: u64,
    /// Frames in egress queues and bursts, as the transmitters count them.
    pub queued: u64,
    /// Frames in rings between lcores.
    pub in_rings: u64,
    /// Whether each pipeline stage is consistent: every received frame was handed over, dropped or is held.
    pub holds: bool,
}

/// Histogram and percentiles of a delay, in nanoseconds of the switch's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayStats {
    /// Number of measured delays.
    pub count: u64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Longest delay.
    pub max: u64,
    /// Sum of all delays.
    pub sum: u64,
    /// Number of delays in each bin: longer than the previous bin's bound, and at most [`DelayStats::bin_upper_bound`].
    pub bins: [u64; gauge::LENGTHS],
}

/// Report of one port.
#[derive(Clone, Debug)]
pub struct PortReport {
    /// Name of the port.
    pub name: String,
    /// Whether the port has a link; for a clone, whether its real port has.
    pub link_up: bool,
    /// Speed of the link as last reported; `None` where the driver reports none.
    pub link_rate: Option<BitRate>,
    /// Reports of the classes. Classes without frames share one report, as they mostly have equal ones.
    pub classes: [Arc<ClassReport>; CLASSES],
    /// Control frames received.
    pub control_rx: ControlReport,
    /// Control frames sent.
    pub control_tx: ControlReport,
    /// Obeyed messages with invalid contents: stages above the last, pauses taken for stages, credit limits that go back or exceed the
    /// buffer.
    pub invalid_messages: u64,
    /// Counters of a flow-control mismatch with the peer.
    pub mismatch: ProtocolMismatch,
    /// Use of the line time; `None` for a port that is not shaped, and in virtual time, where no poll is late.
    pub line_time: Option<LineTimeLoss>,
}

/// Counters of a flow-control mismatch between a port and its peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProtocolMismatch {
    /// Ignored frames of a flow control other than the port's. At a port that obeys stages, PFC's pauses count too; they slow a class for
    /// their pause time.
    pub foreign: u64,
    /// Frames with credit for more than the buffer: the peer has a larger one, was restarted, or did not send them.
    pub excessive_credits: u64,
    /// Resynchronisations of credit counts with the peer's, after frames were lost on the link or an end was restarted.
    pub resyncs: u64,
    /// Returns of a class to the line rate because the peer's last message had aged (GFC).
    pub aged: u64,
    /// Arrival of the last obeyed message; the clock's start if there was none.
    pub heard_at: Time,
}

/// Report of one (port, class).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassReport {
    /// Data frames received.
    pub rx_frames: u64,
    /// Bytes of the received data frames, without FCS.
    pub rx_bytes: u64,
    /// Data frames sent.
    pub tx_frames: u64,
    /// Bytes of the sent data frames, without FCS.
    pub tx_bytes: u64,
    /// Frames marked CE on departure.
    pub ce_marked: u64,
    /// Copies made of frames received here.
    pub copied: u64,
    /// Frames that arrived here and were dropped, by reason.
    pub rx_drops: [u64; DropReason::ALL.len()],
    /// Frames that were to leave here and were dropped, by reason.
    pub tx_drops: [u64; DropReason::ALL.len()],
    /// Frames received that pause this class.
    pub xoff_rx: u64,
    /// Frames received that resume this class.
    pub xon_rx: u64,
    /// Frames sent that pause this class, refreshes included.
    pub xoff_tx: u64,
    /// Frames sent that resume this class.
    pub xon_tx: u64,
    /// Transitions of the peer from running to paused; refreshes do not count.
    pub pauses_tx: u64,
    /// Sum of the ingress queue's occupancy at each pause of the peer.
    pub held_at_pauses: Bytes,
    /// Time for which the peer was paused.
    pub paused_tx: Span,
    /// Transitions of this class from running to paused by the peer.
    pub pauses_rx: u64,
    /// Time for which the peer paused this class.
    pub paused_rx: Span,
    /// Last pause of this class by the peer.
    pub last_pause_rx: Option<LastPause>,
    /// Rate that the peer sets for this class, under GFC.
    pub rate_rx: Option<BitRate>,
    /// Gauges of the port's flow control for the class.
    pub gauges: Gauges,
    /// Ingress queues, in ascending order, of the frames in the egress queue while the peer blocks it: at each port that frames came by, all of
    /// the frames' priority groups that this port's classes with this queue have. Empty for a queue that is empty or may send.
    pub blocked_from: Box<[QueueId]>,
    /// Counters of the egress queue's PFC watchdog; `None` if the queue is not watched. Frames that another lcore drops just after a
    /// storm's end are missing.
    pub storms: Option<StormCounters>,
    /// Occupancy and watermarks of the ingress queue.
    pub ingress: QueueUsage,
    /// Occupancy of the egress queue, in charged bytes.
    pub egress: Bytes,
    /// Watermark of the egress queue's occupancy.
    pub egress_max: Bytes,
}

/// Control frames of a port, in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlReport {
    /// PFC frames.
    pub pfc: u64,
    /// 802.3x PAUSE frames.
    pub pause: u64,
    /// Frames with credit or queue lengths.
    pub credit: u64,
    /// Sent messages with credit that were ordered sets, below the MAC.
    pub ordered_sets: u64,
    /// Raw control frames, of flow controls with a format of their own; if received, only the obeyed ones.
    pub own: u64,
    /// Received frames with an unknown opcode, or of another flow control than the port's.
    pub ignored: u64,
    /// Malformed control frames.
    pub malformed: u64,
    /// Due frames that found no memory, counted at each attempt. The frame is due again in the next round.
    pub put_off: u64,
    /// Received PFC frames that pause a lossy class. They are ignored for that class alone.
    pub lossy_pauses: u64,
    /// LLDP frames.
    pub lldp: u64,
}

impl ControlReport {
    /// Returns the number of flow-control messages of all kinds.
    pub fn messages(&self) -> u64 {
        self.pfc + self.pause + self.credit + self.own
    }
}

impl StatsCollector {
    pub(crate) fn new(
        shared: Arc<Shared>,
        receivers: Vec<Arc<CounterSnapshot>>,
        forwarders: Vec<Arc<CounterSnapshot>>,
        transmitters: Vec<Arc<CounterSnapshot>>,
    ) -> StatsCollector {
        StatsCollector { shared, receivers, forwarders, transmitters }
    }

    /// State that the lcores of the switch share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Collects a report as of `now`. `wait` is called while an lcore has not answered; if it returns `false`, the result is `None`.
    ///
    /// Transmitters are asked first and receivers last, so that frames counted as sent were counted as received too.
    pub fn collect(&self, now: Time, mut wait: impl FnMut() -> bool) -> Option<Report> {
        let sums = [&self.transmitters, &self.forwarders, &self.receivers].map(|halves| {
            let requests: Vec<_> = halves.iter().map(|half| half.request()).collect();
            while !halves.iter().zip(&requests).all(|(half, request)| half.is_served(*request)) {
                if !wait() {
                    return None;
                }
            }
            Some(CounterSums::from_published(halves, self.shared.ports().len()))
        });
        let [Some(transmitted), Some(forwarded), Some(received)] = sums else { return None };
        Some(self.report(now, &transmitted, &forwarded, &received))
    }

    /// Returns a report as of `now` from the counters of a switch that runs on one lcore.
    pub(crate) fn report_of(&self, now: Time, transmitted: &Counters, forwarded: &Counters) -> Report {
        let ports = self.shared.ports().len();
        let [transmitted, forwarded] =
            [transmitted, forwarded].map(|counters| CounterSums::from_counters(counters, ports));
        self.report(now, &transmitted, &forwarded, &CounterSums::zero(ports))
    }

    fn report(&self, now: Time, transmitted: &CounterSums, forwarded: &CounterSums, received: &CounterSums) -> Report {
        let mut idle_classes = IdleClasses::default();
        let ports = self.shared.ports().iter().enumerate().map(|(index, state)| {
            let port = PortId(index as u16);
            // With an lcore for RX, control frames are counted there.
            let count = |stat: usize| forwarded.port(port, stat) + received.port(port, stat);
            PortReport {
                name: state.name.clone(),
                link_up: self.shared.port(state.real_port).link_up(),
                link_rate: state.link_rate(),
                classes: Class::ALL.map(|class| {
                    idle_classes.share(self.class_report(now, port, class, transmitted, forwarded, received))
                }),
                control_rx: ControlReport {
                    pfc: count(port_stat::PFC),
                    pause: count(port_stat::PAUSE),
                    credit: count(port_stat::CREDIT),
                    ordered_sets: 0,
                    own: count(port_stat::OWN),
                    ignored: count(port_stat::IGNORED),
                    malformed: count(port_stat::MALFORMED),
                    put_off: 0,
                    lossy_pauses: count(port_stat::LOSSY_PAUSES),
                    lldp: count(port_stat::LLDP),
                },
                control_tx: ControlReport {
                    pfc: transmitted.port(port, port_stat::PFC),
                    pause: transmitted.port(port, port_stat::PAUSE),
                    credit: transmitted.port(port, port_stat::CREDIT),
                    ordered_sets: transmitted.port(port, port_stat::ORDERED_SETS),
                    own: transmitted.port(port, port_stat::OWN),
                    ignored: 0,
                    malformed: 0,
                    put_off: transmitted.port(port, port_stat::PUT_OFF),
                    lossy_pauses: 0,
                    lldp: transmitted.port(port, port_stat::LLDP),
                },
                invalid_messages: state.regulator.invalid_messages(),
                mismatch: ProtocolMismatch {
                    foreign: count(port_stat::FOREIGN) + state.regulator.mismatched_messages(),
                    excessive_credits: state.regulator.excessive_credits(),
                    resyncs: state.receive_accounting().resyncs(),
                    aged: transmitted.port(port, port_stat::AGED),
                    heard_at: state.regulator.last_message_at(),
                },
                line_time: state.line_time(),
            }
        });
        Report {
            at: now,
            ports: ports.collect(),
            pool: self.shared.mmu.pool_usage(),
            headroom_pool: self.shared.mmu.headroom_pool_usage(),
            egress_lossy_pool: self.shared.mmu.egress_lossy_pool_usage(),
            conservation: self.conservation(transmitted, forwarded, received),
            message_delay: transmitted.message_delay,
            reaction: transmitted.reaction,
        }
    }

    fn class_report(
        &self,
        now: Time,
        port: PortId,
        class: Class,
        tx: &CounterSums,
        fwd: &CounterSums,
        rx: &CounterSums,
    ) -> ClassReport {
        let queue = QueueId::new(port, class);
        let state = self.shared.port(port);
        let (paused_rx, pauses_rx) = state.regulator.pause_time(now, class);
        let rated = state.regulator.rated_classes().contains(class);
        let blocked_from = PortSet::from_bits(tx.queue(queue, queue_stat::BLOCKED_FROM));
        let blocked_groups = ClassSet::from_bits(tx.queue(queue, queue_stat::BLOCKED_GROUPS) as u8);
        let by_class = |sum: &CounterSums, stat: usize| sum.port(port, stat + class.index());
        ClassReport {
            rx_frames: fwd.queue(queue, queue_stat::FRAMES),
            rx_bytes: fwd.queue(queue, queue_stat::BYTES),
            tx_frames: tx.queue(queue, queue_stat::FRAMES),
            tx_bytes: tx.queue(queue, queue_stat::BYTES),
            ce_marked: tx.queue(queue, queue_stat::EXTRA),
            copied: fwd.queue(queue, queue_stat::EXTRA),
            rx_drops: std::array::from_fn(|reason| fwd.queue(queue, queue_stat::DROPS + reason)),
            tx_drops: std::array::from_fn(|reason| tx.queue(queue, queue_stat::DROPS + reason)),
            xoff_rx: by_class(fwd, port_stat::XOFF) + by_class(rx, port_stat::XOFF),
            xon_rx: by_class(fwd, port_stat::XON) + by_class(rx, port_stat::XON),
            xoff_tx: by_class(tx, port_stat::XOFF),
            xon_tx: by_class(tx, port_stat::XON),
            pauses_tx: by_class(tx, port_stat::PAUSES),
            held_at_pauses: Bytes::new(by_class(tx, port_stat::HELD_AT_PAUSES)),
            paused_tx: Span::from_picos(by_class(tx, port_stat::OFF_PICOS)),
            pauses_rx,
            paused_rx,
            last_pause_rx: state.regulator.last_pause(now, class),
            rate_rx: rated.then(|| state.regulator.rate(now, class)).flatten(),
            gauges: state.regulator.gauges(now, class),
            storms: state.storm_counters(class),
            blocked_from: self.shared.ingress_queues(blocked_from.iter(), blocked_groups, class),
            ingress: self.shared.mmu.ingress_usage(queue, now),
            egress: Bytes::new(self.shared.mmu.egress_length(queue)),
            egress_max: self.shared.mmu.egress_length_max(queue),
        }
    }

    fn conservation(&self, tx: &CounterSums, fwd: &CounterSums, rx: &CounterSums) -> FrameConservation {
        let ports = || (0..).map(PortId).zip(self.shared.ports());
        let (received_here, handed_over) = (fwd.total(queue_stat::FRAMES), fwd.total(queue_stat::HANDED_OVER));
        let (copied, taken) = (fwd.total(queue_stat::EXTRA), tx.total(queue_stat::HANDED_OVER));
        let sent = tx.total(queue_stat::FRAMES);
        let queued = tx.gauge(gauge::HELD);
        let received = if self.receivers.is_empty() {
            received_here
        } else {
            // The forwarder makes the frames that clones receive; no receiver has seen them.
            let clones = ports().filter(|(port, state)| state.real_port != *port);
            let by_clones: u64 = clones.map(|(port, _)| fwd.port_total(port, queue_stat::FRAMES)).sum();
            let passed_on = |port| rx.port(port, port_stat::PASSED_ON) - fwd.port(port, port_stat::LLDP);
            ports().map(|(port, _)| passed_on(port)).sum::<u64>() + by_clones
        };
        FrameConservation {
            received,
            copied,
            sent,
            dropped: fwd.dropped() + tx.dropped(),
            queued,
            in_rings: (received - received_here.min(received)) + (handed_over - taken.min(handed_over)),
            holds: received_here + copied == handed_over + fwd.dropped()
                && taken == sent + tx.dropped() + queued
                && received >= received_here
                && handed_over >= taken,
        }
    }
}

impl Report {
    /// Returns the frames dropped for a reason, over all ports and classes.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        let classes = self.ports.iter().flat_map(|port| &port.classes);
        classes.map(|class| class.dropped(reason)).sum()
    }
}

impl ClassReport {
    /// Returns the frames of the class dropped for a reason, received or to be sent.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.rx_drops[reason as usize] + self.tx_drops[reason as usize]
    }

    /// Whether the class has any frames, pauses or drops.
    pub fn is_used(&self) -> bool {
        let drops: u64 = self.rx_drops.iter().chain(&self.tx_drops).sum();
        self.rx_frames + self.tx_frames + self.xoff_rx + self.xoff_tx + self.xon_tx + drops > 0
    }
}

impl FrameConservation {
    /// Returns the frames held by the switch.
    pub fn held(&self) -> u64 {
        self.queued + self.in_rings
    }
}

/// Deduplicated reports of classes without frames.
#[derive(Default)]
struct IdleClasses(Vec<Arc<ClassReport>>);

impl IdleClasses {
    /// Largest number of different reports: a lossless and a lossy class, at ports of two rates.
    const MOST: usize = 4;

    /// Returns the shared report that equals this one, if its class saw no frame.
    fn share(&mut self, report: ClassReport) -> Arc<ClassReport> {
        if report.is_used() {
            return Arc::new(report);
        }
        if let Some(same) = self.0.iter().find(|other| ***other == report) {
            return same.clone();
        }
        let report = Arc::new(report);
        if self.0.len() < IdleClasses::MOST {
            self.0.push(report.clone());
        }
        report
    }
}

/// Sums of the counters of all pipeline stages of one kind.
#[derive(Default)]
struct CounterSums {
    ports: usize,
    values: Vec<u64>,
    message_delay: DelayStats,
    reaction: DelayStats,
}

impl CounterSums {
    fn zero(ports: usize) -> CounterSums {
        let rows = ports * (CLASSES * queue_stat::WIDTH + port_stat::WIDTH);
        CounterSums { ports, values: vec![0; rows + gauge::WIDTH], ..CounterSums::default() }
    }

    fn from_published(halves: &[Arc<CounterSnapshot>], ports: usize) -> CounterSums {
        let mut sum = CounterSums::zero(ports);
        let of_gauges = sum.values.len() - gauge::WIDTH;
        for half in halves {
            let values: Vec<_> = half.values().collect();
            sum.values.iter_mut().zip(&values).for_each(|(sum, value)| *sum += value);
            sum.merge_delays(&values[of_gauges..]);
        }
        sum
    }

    fn from_counters(counters: &Counters, ports: usize) -> CounterSums {
        let mut sum = CounterSums::zero(ports);
        counters.add_to(&mut sum.values);
        sum.merge_delays(counters.gauges());
        sum
    }

    fn merge_delays(&mut self, gauges: &[u64]) {
        self.message_delay.merge(&gauges[gauge::MESSAGE_DELAYS..]);
        self.reaction.merge(&gauges[gauge::REACTIONS..]);
    }

    fn queue(&self, queue: QueueId, stat: usize) -> u64 {
        self.values[queue.index() * queue_stat::WIDTH + stat]
    }

    fn port(&self, port: PortId, stat: usize) -> u64 {
        self.values[self.ports * CLASSES * queue_stat::WIDTH + port.index() * port_stat::WIDTH + stat]
    }

    /// Sums a queue counter over the queues of a port.
    fn port_total(&self, port: PortId, stat: usize) -> u64 {
        Class::ALL.iter().map(|class| self.queue(QueueId::new(port, *class), stat)).sum()
    }

    fn gauge(&self, gauge: usize) -> u64 {
        self.values[self.values.len() - gauge::WIDTH + gauge]
    }

    fn total(&self, stat: usize) -> u64 {
        self.queues().map(|row| row[stat]).sum()
    }

    fn dropped(&self) -> u64 {
        self.queues().flat_map(|row| &row[queue_stat::DROPS..]).sum()
    }

    fn queues(&self) -> impl Iterator<Item = &[u64; queue_stat::WIDTH]> {
        let (queues, _) = self.values[..self.ports * CLASSES * queue_stat::WIDTH].as_chunks();
        queues.iter()
    }
}

impl DelayStats {
    /// Returns the upper bound of a bin of [`DelayStats::bins`], in nanoseconds; `None` for the last bin, which is unbounded.
    pub fn bin_upper_bound(length: usize) -> Option<u64> {
        gauge::length_up_to(length)
    }

    /// Adds the delays of another lcore. Each percentile becomes the worse of the two, as a port may have to wait that long.
    fn merge(&mut self, gauges: &[u64]) {
        self.count += gauges[gauge::COUNT];
        self.p50 = self.p50.max(gauges[1]);
        self.p99 = self.p99.max(gauges[2]);
        self.p999 = self.p999.max(gauges[3]);
        self.max = self.max.max(gauges[4]);
        self.sum += gauges[gauge::SUM];
        self.bins.iter_mut().zip(&gauges[gauge::BY_LENGTH..]).for_each(|(sum, count)| *sum += count);
    }
}
