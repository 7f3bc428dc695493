//! Counters as text in OpenMetrics' format, for Prometheus and what reads its format.
//!
//! All counts are since the start, whatever was cleared: who scrapes them takes differences. Names begin with `weir_`; labels are
//! `switch`, `port`, `priority` (the class), `reason`, `pool`, `cpu`.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::state::{
    Books, BufferPool, BufferQueue, ByClass, Delay, GapBucket, Interface, Lcore, Loss, LossPlace, PauseDelays,
    PfcCounters, PriorityGroups, Queues, WatchedQueue,
};

/// All that a process knows, counts since the start.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Weir's version.
    pub weir_version: String,
    /// Each switch.
    pub switches: Vec<SwitchMetrics>,
    /// Each lcore.
    pub lcores: Vec<Lcore>,
}

/// All that a switch knows.
#[derive(Clone, Debug)]
pub struct SwitchMetrics {
    /// Its name.
    pub switch: String,
    /// Its books.
    pub books: Books,
    /// Links and losses of ports.
    pub interfaces: Vec<Interface>,
    /// Pauses.
    pub pfc: Vec<PfcCounters>,
    /// Queues that are watched for PFC storms.
    pub watchdog: Vec<WatchedQueue>,
    /// Ingress queues.
    pub priority_groups: Vec<PriorityGroups>,
    /// What bounds them.
    pub limits: Vec<BufferQueue>,
    /// Egress queues.
    pub queues: Vec<Queues>,
    /// Pools.
    pub pools: Vec<BufferPool>,
    /// Lost frames.
    pub losses: Vec<Loss>,
    /// How long messages take.
    pub delays: PauseDelays,
}

impl Metrics {
    /// The text, which ends with `# EOF`.
    pub fn text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Arc::new(self)));
        let mut text = String::new();
        // A string takes all that is written.
        let _ = encode(&mut text, &registry);
        text
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families { encoder: &mut encoder };
        families.gauge(
            "weir_info",
            "The program's version.",
            None,
            [(labels([("version", &self.weir_version)]), 1)],
        )?;
        self.books(&mut families)?;
        self.links(&mut families)?;
        self.traffic(&mut families)?;
        self.pauses(&mut families)?;
        self.delays(&mut families)?;
        self.buffers(&mut families)?;
        self.losses(&mut families)?;
        self.lcores(&mut families)
    }
}

impl Metrics {
    fn books(&self, families: &mut Families<'_, '_>) -> fmt::Result {
        type Count = fn(&Books) -> u64;
        let counters: [(&str, &str, Count); 4] = [
            ("weir_received_frames", "Data frames received by the switch.", |books| books.received),
            ("weir_copied_frames", "Further copies of flooded frames.", |books| books.copied),
            ("weir_sent_frames", "Data frames sent by the switch.", |books| books.sent),
            ("weir_dropped_frames", "Data frames dropped by the switch.", |books| books.dropped),
        ];
        let rows = |count: Count| {
            self.switches.iter().map(move |switch| (labels([("switch", &switch.switch)]), count(&switch.books)))
        };
        for (name, help, count) in counters {
            families.counter(name, help, None, rows(count))?;
        }
        families.gauge("weir_held_frames", "Data frames that the switch holds.", None, rows(|books| books.held))?;
        let balance: Count = |books| u64::from(books.balance);
        families.gauge("weir_books_balance", "Whether every frame is accounted for.", None, rows(balance))
    }

    fn links(&self, families: &mut Families<'_, '_>) -> fmt::Result {
        let ports = || self.switches.iter().flat_map(|switch| switch.interfaces.iter().map(move |port| (switch, port)));
        let of = |switch: &SwitchMetrics, port: &Interface| labels([("switch", &switch.switch), ("port", &port.port)]);
        let up = ports().map(|(switch, port)| (of(switch, port), u64::from(port.link_up)));
        families.gauge("weir_port_link_up", "Whether the port has a link.", None, up)?;
        let rates = ports().filter_map(|(switch, port)| Some((of(switch, port), port.rate_bps? / 8)));
        families.gauge("weir_port_speed", "The port's rate C, in bytes per second.", Some(Unit::Bytes), rates)
    }

    fn traffic(&self, families: &mut Families<'_, '_>) -> fmt::Result {
        type In = fn(&PriorityGroups) -> &ByClass;
        type Out = fn(&Queues) -> &ByClass;
        let received: [(&str, &str, Option<Unit>, In); 2] = [
            ("weir_port_rx_frames", "Data frames received.", None, |port| &port.frames),
            ("weir_port_rx", "Their bytes, without FCS.", Some(Unit::Bytes), |port| &port.bytes),
        ];
        for (name, help, unit, count) in received {
            families.counter(name, help, unit, self.ingress(count))?;
        }
        let sent: [(&str, &str, Option<Unit>, Out); 3] = [
            ("weir_port_tx_frames", "Data frames sent.", None, |port| &port.frames),
            ("weir_port_tx", "Their bytes, without FCS.", Some(Unit::Bytes), |port| &port.bytes),
            ("weir_port_ecn_marked_frames", "Frames marked CE on departure.", None, |port| &port.ce_marked),
        ];
        for (name, help, unit, count) in sent {
            families.counter(name, help, unit, self.egress(count))?;
        }
        Ok(())
    }

    fn pauses(&self, families: &mut Families<'_, '_>) -> fmt::Result {
        type Count = fn(&PfcCounters) -> &ByClass;
        let rows = |count: Count| {
            self.switches.iter().flat_map(move |switch| {
                switch.pfc.iter().flat_map(move |port| by_class(&switch.switch, &port.port, count(port)))
            })
        };
        let frames: [(&str, &str, Count); 4] = [
            ("weir_pfc_rx_frames", "PFC frames received that pause or resume the class.", |port| &port.rx),
            ("weir_pfc_tx_frames", "PFC frames sent that pause or resume the class.", |port| &port.tx),
            ("weir_pfc_rx_pauses", "How often the peer paused the class.", |port| &port.rx_pauses),
            ("weir_pfc_tx_pauses", "How often the peer was told to pause.", |port| &port.tx_pauses),
        ];
        for (name, help, count) in frames {
            families.counter(name, help, None, rows(count))?;
        }
        let times: [(&str, &str, Count); 2] = [
            ("weir_pfc_rx_pause", "For how long the peer paused the class.", |port| &port.rx_paused_us),
            ("weir_pfc_tx_pause", "For how long the peer was told to pause.", |port| &port.tx_paused_us),
        ];
        for (name, help, count) in times {
            let seconds = rows(count).map(|(labels, us)| (labels, us as f64 / 1e6));
            families.counter_of_seconds(name, help, seconds)?;
        }
        type Storms = fn(&WatchedQueue) -> u64;
        let storms: [(&str, &str, Storms); 2] = [
            ("weir_pfc_storms_detected", "PFC storms that the watchdog found.", |queue| queue.detected),
            ("weir_pfc_storms_restored", "PFC storms that were over.", |queue| queue.restored),
        ];
        for (name, help, count) in storms {
            let rows = self.switches.iter().flat_map(|switch| {
                let of = |queue: &WatchedQueue| class_labels(&switch.switch, &queue.port, queue.queue);
                switch.watchdog.iter().map(move |queue| (of(queue), count(queue)))
            });
            families.counter(name, help, None, rows)?;
        }
        Ok(())
    }

    fn buffers(&self, families: &mut Families<'_, '_>) -> fmt::Result {
        type In = fn(&PriorityGroups) -> &ByClass;
        let ingress: [(&str, &str, In); 6] = [
            ("weir_priority_group_shared", "Shared bytes of the ingress queue, w_s.", |port| &port.shared_bytes),
            ("weir_priority_group_headroom", "Headroom bytes of the ingress queue, w_h.", |port| &port.headroom_bytes),
            ("weir_priority_group_shared_watermark", "Highest w_s since watermarks were cleared.", |port| {
                &port.shared_watermark_bytes
            }),
            ("weir_priority_group_headroom_watermark", "Highest w_h since watermarks were cleared.", |port| {
                &port.headroom_watermark_bytes
            }),
            ("weir_priority_group_shared_persistent_watermark", "Highest w_s since the start.", |port| {
                &port.shared_persistent_watermark_bytes
            }),
            ("weir_priority_group_headroom_persistent_watermark", "Highest w_h since the start.", |port| {
                &port.headroom_persistent_watermark_bytes
            }),
        ];
        for (name, help, value) in ingress {
            families.gauge(name, help, Some(Unit::Bytes), self.ingress(value))?;
        }
        let limits = self.switches.iter().flat_map(|switch| {
            let of = |queue: &BufferQueue| class_labels(&switch.switch, &queue.port, queue.class);
            switch.limits.iter().map(move |queue| (of(queue), queue.threshold_bytes))
        });
        families.gauge("weir_priority_group_threshold", "Xoff of the ingress queue.", Some(Unit::Bytes), limits)?;
        type Out = fn(&Queues) -> &ByClass;
        let egress: [(&str, &str, Out); 3] = [
            ("weir_queue_held", "Bytes in the egress queue.", |port| &port.held_bytes),
            ("weir_queue_watermark", "Highest of these since watermarks were cleared.", |port| &port.watermark_bytes),
            ("weir_queue_persistent_watermark", "Highest of these since the start.", |port| {
                &port.persistent_watermark_bytes
            }),
        ];
        for (name, help, value) in egress {
            families.gauge(name, help, Some(Unit::Bytes), self.egress(value))?;
        }
        type Level = fn(&BufferPool) -> u64;
        let pools: [(&str, &str, Level); 4] = [
            ("weir_buffer_pool_size", "Size of the pool.", |pool| pool.size_bytes),
            ("weir_buffer_pool_used", "Bytes of the pool in use.", |pool| pool.used_bytes),
            ("weir_buffer_pool_watermark", "The most since watermarks were cleared.", |pool| pool.watermark_bytes),
            ("weir_buffer_pool_persistent_watermark", "The most since the start.", |pool| {
                pool.persistent_watermark_bytes
            }),
        ];
        for (name, help, level) in pools {
            let rows = self.switches.iter().flat_map(|switch| {
                let of = |pool: &BufferPool| labels([("switch", &switch.switch), ("pool", &pool.pool)]);
                switch.pools.iter().map(move |pool| (of(pool), level(pool)))
            });
            families.gauge(name, help, Some(Unit::Bytes), rows)?;
        }
        Ok(())
    }

    /// Reasons that occurred.
    fn losses(&self, families: &mut Families<'_, '_>) -> fmt::Result {
        let rows = |family: &'static str| {
            let losses = self.switches.iter().flat_map(|switch| switch.losses.iter().map(move |loss| (switch, loss)));
            losses.filter_map(move |(switch, loss)| {
                let direction = match loss.place {
                    LossPlace::Ingress | LossPlace::DeviceReceive | LossPlace::NicToSwitch => "rx",
                    LossPlace::Egress | LossPlace::DeviceTransmit | LossPlace::NicToHost => "tx",
                };
                let of = [("switch", &switch.switch), ("port", &loss.port), ("reason", &loss.reason)];
                let mut labels = labels(of);
                labels.push(("direction", direction.to_owned()));
                labels.extend(loss.class.map(|class| ("priority", class.to_string())));
                let of_family = match loss.place {
                    LossPlace::Ingress | LossPlace::Egress => PORT_DROPS,
                    LossPlace::DeviceReceive | LossPlace::DeviceTransmit => DEVICE_LOSSES,
                    LossPlace::NicToSwitch | LossPlace::NicToHost => NIC_DROPS,
                };
                (of_family == family).then_some((labels, loss.frames?))
            })
        };
        families.counter(PORT_DROPS, "Frames dropped by the switch, by reason.", None, rows(PORT_DROPS))?;
        families.counter(
            NIC_DROPS,
            "Frames dropped by the NIC in front of the port's host, by reason.",
            None,
            rows(NIC_DROPS),
        )?;
        families.counter(DEVICE_LOSSES, "Frames lost by the port's device, by cause.", None, rows(DEVICE_LOSSES))
    }

    fn lcores(&self, families: &mut Families<'_, '_>) -> fmt::Result {
        type Count = fn(&Lcore) -> u64;
        let rows = |count: Count| {
            self.lcores.iter().map(move |lcore| (labels([("cpu", &lcore.cpu.to_string())]), count(lcore)))
        };
        families.counter("weir_lcore_polls", "Polls of the lcore.", None, rows(|lcore| lcore.polls))?;
        let busy: Count = |lcore| lcore.busy_polls;
        families.counter("weir_lcore_busy_polls", "Polls in which a frame moved, or was overdue.", None, rows(busy))?;
        let help = "Packets that the lcore received; of one that receives none, those that it got of other lcores.";
        families.counter("weir_lcore_packets", help, None, rows(|lcore| lcore.work.packets))?;
        families.counter("weir_lcore_bursts", "Bursts that they came in.", None, rows(|lcore| lcore.work.bursts))?;
        let gaps =
            self.lcores.iter().map(|of| (labels([("cpu", &of.cpu.to_string())]), LengthHistogram::of_gaps(&of.gaps)));
        let help = "Time between two polls; the sum is up to a quarter too high.";
        families.family("weir_lcore_poll_gap", help, Some(Unit::Seconds), MetricType::Histogram, gaps)?;
        let longest = self.lcores.iter().map(|of| (labels([("cpu", &of.cpu.to_string())]), of.gap_max_ns as f64 / 1e9));
        families.gauge_of_seconds("weir_lcore_poll_gap_max", "The longest time between two polls.", longest)
    }

    fn delays(&self, families: &mut Families<'_, '_>) -> fmt::Result {
        type Of = fn(&PauseDelays) -> &Delay;
        let delays: [(&str, &str, &str, Of); 2] = [
            (
                "weir_pause_message_delay",
                "weir_pause_message_delay_max",
                "From crossing Xoff, or a stage, to the message",
                |of| &of.message,
            ),
            ("weir_pause_reaction", "weir_pause_reaction_max", "From a peer's message to obeying it", |of| {
                &of.reaction
            }),
        ];
        for (name, longest, what, of) in delays {
            let label = |switch: &SwitchMetrics| labels([("switch", &switch.switch)]);
            let rows =
                self.switches.iter().map(|switch| (label(switch), LengthHistogram::of_delay(of(&switch.delays))));
            families.family(name, &format!("{what}."), Some(Unit::Seconds), MetricType::Histogram, rows)?;
            let rows = self.switches.iter().map(|switch| (label(switch), of(&switch.delays).max_ns as f64 / 1e9));
            families.gauge_of_seconds(longest, &format!("{what}: the longest."), rows)?;
        }
        Ok(())
    }

    fn ingress(&self, value: fn(&PriorityGroups) -> &ByClass) -> impl Iterator<Item = (Labels, u64)> {
        self.switches.iter().flat_map(move |switch| {
            switch.priority_groups.iter().flat_map(move |port| by_class(&switch.switch, &port.port, value(port)))
        })
    }

    fn egress(&self, value: fn(&Queues) -> &ByClass) -> impl Iterator<Item = (Labels, u64)> {
        self.switches.iter().flat_map(move |switch| {
            switch.queues.iter().flat_map(move |port| by_class(&switch.switch, &port.port, value(port)))
        })
    }
}

/// Times by length.
#[derive(Debug)]
struct LengthHistogram {
    sum: f64,
    count: u64,
    /// Upper bounds in seconds, the same at any time, and how many are in each.
    buckets: Vec<(f64, u64)>,
}

impl LengthHistogram {
    fn of_delay(delay: &Delay) -> LengthHistogram {
        let bound = |up_to_ns: Option<u64>| up_to_ns.map_or(f64::INFINITY, |ns| ns as f64 / 1e9);
        let buckets = delay.lengths.iter().map(|of| (bound(of.up_to_ns), of.messages)).collect();
        LengthHistogram { sum: delay.sum_ns as f64 / 1e9, count: delay.count, buckets }
    }

    /// Of gaps as lcores count them, into a bucket for each doubling.
    fn of_gaps(gaps: &[GapBucket]) -> LengthHistogram {
        let bound = |n: usize| 128u64 << n;
        let mut buckets: Vec<(f64, u64)> = (0..GAP_BUCKETS).map(|n| (bound(n) as f64 / 1e9, 0)).collect();
        buckets.push((f64::INFINITY, 0));
        let (mut sum, mut count) = (0.0, 0);
        for gap in gaps {
            let place = (0..GAP_BUCKETS).find(|n| gap.up_to_ns <= bound(*n)).unwrap_or(GAP_BUCKETS);
            buckets[place].1 += gap.polls;
            count += gap.polls;
            sum += gap.up_to_ns as f64 / 1e9 * gap.polls as f64;
        }
        LengthHistogram { sum, count, buckets }
    }
}

impl EncodeMetric for LengthHistogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_histogram::<NoLabelSet>(self.sum, self.count, &self.buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

/// From 128 ns to 8.6 s.
const GAP_BUCKETS: usize = 27;

/// OpenMetrics' text in the older format of Prometheus, which names counters otherwise.
pub fn plain(text: &str) -> String {
    let is_counter = |name: &str| text.contains(&format!("# TYPE {name} counter\n"));
    let mut plain = String::with_capacity(text.len());
    for line in text.lines() {
        let described = ["# HELP ", "# TYPE "].into_iter().find_map(|kind| Some((kind, line.strip_prefix(kind)?)));
        match described.and_then(|(kind, rest)| Some((kind, rest.split_once(' ')?))) {
            Some((kind, (name, rest))) if is_counter(name) => plain += &format!("{kind}{name}_total {rest}\n"),
            _ if line.starts_with("# UNIT ") || line == "# EOF" => {}
            _ => {
                plain += line;
                plain.push('\n');
            }
        }
    }
    plain
}

/// Labels of one value.
type Labels = Vec<(&'static str, String)>;

fn labels<const N: usize>(pairs: [(&'static str, &String); N]) -> Labels {
    pairs.into_iter().map(|(name, value)| (name, value.clone())).collect()
}

fn class_labels(switch: &str, port: &str, class: usize) -> Labels {
    vec![("switch", switch.to_owned()), ("port", port.to_owned()), ("priority", class.to_string())]
}

fn by_class(switch: &str, port: &str, values: &ByClass) -> impl Iterator<Item = (Labels, u64)> {
    let rows = values.iter().enumerate().map(|(class, value)| (class_labels(switch, port, class), *value));
    rows.collect::<Vec<_>>().into_iter()
}

/// Writes families of values, each with its type and help.
struct Families<'f, 'e> {
    encoder: &'f mut DescriptorEncoder<'e>,
}

impl Families<'_, '_> {
    fn counter(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        rows: impl IntoIterator<Item = (Labels, u64)>,
    ) -> fmt::Result {
        self.family(name, help, unit, MetricType::Counter, rows.into_iter().map(|(of, n)| (of, ConstCounter::new(n))))
    }

    fn counter_of_seconds(&mut self, name: &str, help: &str, rows: impl Iterator<Item = (Labels, f64)>) -> fmt::Result {
        let rows = rows.map(|(of, seconds)| (of, ConstCounter::new(seconds)));
        self.family(name, help, Some(Unit::Seconds), MetricType::Counter, rows)
    }

    fn gauge(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        rows: impl IntoIterator<Item = (Labels, u64)>,
    ) -> fmt::Result {
        self.family(name, help, unit, MetricType::Gauge, rows.into_iter().map(|(of, n)| (of, ConstGauge::new(n))))
    }

    fn gauge_of_seconds(&mut self, name: &str, help: &str, rows: impl Iterator<Item = (Labels, f64)>) -> fmt::Result {
        let rows = rows.map(|(of, seconds)| (of, ConstGauge::new(seconds)));
        self.family(name, help, Some(Unit::Seconds), MetricType::Gauge, rows)
    }

    fn family<M: EncodeMetric>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        kind: MetricType,
        rows: impl Iterator<Item = (Labels, M)>,
    ) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
        for (labels, value) in rows {
            value.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

/// Families of lost frames, by who lost them.
const PORT_DROPS: &str = "weir_port_drops";
const NIC_DROPS: &str = "weir_nic_drops";
const DEVICE_LOSSES: &str = "weir_device_losses";
