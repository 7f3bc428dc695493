//! Counters as OpenMetrics text, for Prometheus.
//!
//! All counts are since the start, independent of clears: scrapers take differences. Names begin with `weir_`; labels are
//! `switch`, `port`, `priority` (the class), `segment` (of the buffer), `reason`, `pool`, `cpu`.

mod control;
mod families;
mod histogram;

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::state::{
    BufferPool, BufferQueue, ByClass, Delay, FlowControlPort, FrameConservation, Interface, Lcore, LldpPort, Loss,
    LossPlace, PauseDelays, PfcComparison, PfcCounters, PolicyState, PriorityGroups, Queues, WatchedQueue,
};

use families::{Families, Labels, by_class, class_labels, labels};
use histogram::LengthHistogram;

/// Metrics of a process; counters count since its start.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Version of Weir.
    pub weir_version: String,
    /// Switches of the process.
    pub switches: Vec<SwitchMetrics>,
    /// Lcores of the process.
    pub lcores: Vec<Lcore>,
}

/// Metrics of a switch.
#[derive(Clone, Debug)]
pub struct SwitchMetrics {
    /// Name of the switch.
    pub switch: String,
    /// Frame conservation: received, sent, dropped and held frames.
    pub frame_conservation: FrameConservation,
    /// Links and losses of ports.
    pub interfaces: Vec<Interface>,
    /// PFC frames and pauses of ports.
    pub pfc: Vec<PfcCounters>,
    /// Queues that are watched for PFC storms.
    pub watchdog: Vec<WatchedQueue>,
    /// Ingress queues.
    pub priority_groups: Vec<PriorityGroups>,
    /// Thresholds and headroom limits of ingress queues.
    pub limits: Vec<BufferQueue>,
    /// Egress queues.
    pub queues: Vec<Queues>,
    /// Pools of the buffer.
    pub pools: Vec<BufferPool>,
    /// States and gauges of the buffer policy, by ingress queue.
    pub policy: PolicyState,
    /// Flow-control messages of ports under GFC or CBFC.
    pub flow_control: Vec<FlowControlPort>,
    /// Lost frames.
    pub losses: Vec<Loss>,
    /// Delays of flow-control messages.
    pub delays: PauseDelays,
    /// LLDP by port.
    pub lldp: Vec<LldpPort>,
}

impl Metrics {
    /// Returns the OpenMetrics text, which ends with `# EOF`.
    pub fn text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Arc::new(self)));
        let mut text = String::new();
        // Writing to a string can't fail.
        let _ = encode(&mut text, &registry);
        text
    }
}

/// Family of metrics, as the reference lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricFamily {
    /// Name, without the suffix that OpenMetrics adds to samples of counters.
    pub name: String,
    /// Type: `counter`, `gauge`, `histogram` or `info`.
    pub kind: String,
    /// Description.
    pub help: String,
}

/// Returns all families, in their order.
pub fn families() -> Vec<MetricFamily> {
    let text = Metrics::default().text();
    let described = |kind: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_default().to_owned()
    };
    let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    names
        .map(|name| MetricFamily {
            name: name.to_owned(),
            kind: described("# TYPE ", name),
            help: described("# HELP ", name),
        })
        .collect()
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
        self.frame_conservation(&mut families)?;
        self.links(&mut families)?;
        self.traffic(&mut families)?;
        self.pauses(&mut families)?;
        self.delays(&mut families)?;
        self.buffers(&mut families)?;
        self.policies(&mut families)?;
        self.flow_controls(&mut families)?;
        self.losses(&mut families)?;
        self.lldp(&mut families)?;
        self.lcores(&mut families)
    }
}

impl Metrics {
    fn frame_conservation(&self, families: &mut Families<'_, '_>) -> fmt::Result {
        type Count = fn(&FrameConservation) -> u64;
        let counters: [(&str, &str, Count); 4] = [
            ("weir_received_frames", "Data frames received by the switch.", |frames| frames.received),
            ("weir_copied_frames", "Further copies of flooded frames.", |frames| frames.copied),
            ("weir_sent_frames", "Data frames sent by the switch.", |frames| frames.sent),
            ("weir_dropped_frames", "Data frames dropped by the switch.", |frames| frames.dropped),
        ];
        let rows = |count: Count| {
            self.switches
                .iter()
                .map(move |switch| (labels([("switch", &switch.switch)]), count(&switch.frame_conservation)))
        };
        for (name, help, count) in counters {
            families.counter(name, help, None, rows(count))?;
        }
        families.gauge("weir_held_frames", "Data frames that the switch holds.", None, rows(|frames| frames.held))?;
        let conserved: Count = |frames| u64::from(frames.conserved);
        families.gauge("weir_frames_conserved", "Whether every frame is accounted for.", None, rows(conserved))
    }

    fn links(&self, families: &mut Families<'_, '_>) -> fmt::Result {
        let ports = || self.switches.iter().flat_map(|switch| switch.interfaces.iter().map(move |port| (switch, port)));
        let of = |switch: &SwitchMetrics, port: &Interface| labels([("switch", &switch.switch), ("port", &port.port)]);
        let up = ports().map(|(switch, port)| (of(switch, port), u64::from(port.link_up)));
        families.gauge("weir_port_link_up", "Whether the port has a link.", None, up)?;
        let open = ports().map(|(switch, port)| (of(switch, port), u64::from(port.state == "up")));
        let help = "Whether the port is neither down nor blocked, by a command or by the loop guard.";
        families.gauge("weir_port_admin_up", help, None, open)?;
        let rates = ports().filter_map(|(switch, port)| Some((of(switch, port), port.rate_bps? / 8)));
        families.gauge("weir_port_speed", "The port's rate C, in bytes per second.", Some(Unit::Bytes), rates)?;
        let stations = ports().map(|(switch, port)| (of(switch, port), u64::from(port.stations.learned)));
        families.gauge("weir_port_stations", "Learned stations behind the port.", None, stations)?;
        let moves = ports().map(|(switch, port)| (of(switch, port), port.stations.moves));
        families.counter(
            "weir_port_station_moves",
            "Stations that moved to the port from another one.",
            None,
            moves,
        )?;
        let refused = ports().map(|(switch, port)| (of(switch, port), port.stations.refused_frames));
        let help = "Frames whose sources were not learned, as the port had its maximum of stations, or its share of a full table; flooded ones \
                    count twice.";
        families.counter("weir_port_stations_refused_frames", help, None, refused)
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
            ("weir_pfc_tx_pauses", "Pauses of the peer by this port.", |port| &port.tx_pauses),
        ];
        for (name, help, count) in frames {
            families.counter(name, help, None, rows(count))?;
        }
        let times: [(&str, &str, Count); 2] = [
            ("weir_pfc_rx_pause", "For how long the peer paused the class.", |port| &port.rx_paused_us),
            ("weir_pfc_tx_pause", "Time for which this port paused the peer.", |port| &port.tx_paused_us),
        ];
        for (name, help, count) in times {
            let seconds = rows(count).map(|(labels, us)| (labels, us as f64 / 1e6));
            families.counter(name, help, Some(Unit::Seconds), seconds)?;
        }
        let lossy = self.switches.iter().flat_map(|switch| {
            let of = |port: &PfcCounters| labels([("switch", &switch.switch), ("port", &port.port)]);
            switch.pfc.iter().map(move |port| (of(port), port.rx_lossy))
        });
        let help = "PFC frames received for a class that is lossy here: ignored for it.";
        families.counter("weir_pfc_rx_lossy_frames", help, None, lossy)?;
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

    fn lldp(&self, families: &mut Families<'_, '_>) -> fmt::Result {
        type Count = fn(&LldpPort) -> u64;
        let rows = |count: Count| {
            self.switches.iter().flat_map(move |switch| {
                let of = |port: &LldpPort| labels([("switch", &switch.switch), ("port", &port.port)]);
                switch.lldp.iter().map(move |port| (of(port), count(port)))
            })
        };
        families.counter(
            "weir_lldp_rx_frames",
            "Frames of LLDP and the loop guard received.",
            None,
            rows(|port| port.rx),
        )?;
        families.counter(
            "weir_lldp_tx_frames",
            "Frames of LLDP and the loop guard sent.",
            None,
            rows(|port| port.tx),
        )?;
        let mismatches: Count = |port| {
            let neighbours = port.neighbours.iter();
            neighbours.filter(|neighbour| neighbour.pfc_comparison == PfcComparison::Mismatch).count() as u64
        };
        let help = "Neighbours with PFC in other classes than the port's, which they keep.";
        families.gauge("weir_lldp_pfc_mismatches", help, None, rows(mismatches))
    }

    fn buffers(&self, families: &mut Families<'_, '_>) -> fmt::Result {
        type In = fn(&PriorityGroups) -> &ByClass;
        type Segments<'a> = &'a [(&'a str, In)];
        let held: [(&str, In); 3] = [
            ("private", |port| &port.private_bytes),
            ("shared", |port| &port.shared_bytes),
            ("headroom", |port| &port.headroom_bytes),
        ];
        let watermarks: [(&str, In); 2] =
            [("shared", |port| &port.shared_watermark_bytes), ("headroom", |port| &port.headroom_watermark_bytes)];
        let persistent: [(&str, In); 2] = [
            ("shared", |port| &port.shared_persistent_watermark_bytes),
            ("headroom", |port| &port.headroom_persistent_watermark_bytes),
        ];
        let ingress: [(&str, &str, Segments<'_>); 3] = [
            ("weir_priority_group_held", "Bytes in the ingress queue.", &held),
            ("weir_priority_group_watermark", "Highest of these since watermarks were cleared.", &watermarks),
            ("weir_priority_group_persistent_watermark", "Highest of these since the start.", &persistent),
        ];
        for (name, help, segments) in ingress {
            let rows = segments.iter().flat_map(|(segment, value)| {
                self.ingress(*value).map(move |(mut labels, value)| {
                    labels.push(("segment", (*segment).to_owned()));
                    (labels, value)
                })
            });
            families.gauge(name, help, Some(Unit::Bytes), rows)?;
        }
        type Limit = fn(&BufferQueue) -> u64;
        let limits: [(&str, &str, Limit); 2] = [
            ("weir_priority_group_threshold", "Xoff of the ingress queue.", |queue| queue.threshold_bytes),
            ("weir_priority_group_headroom_limit", "Headroom that the ingress queue may take.", |queue| {
                queue.headroom_bytes
            }),
        ];
        for (name, help, limit) in limits {
            let rows = self.switches.iter().flat_map(|switch| {
                let of = |queue: &BufferQueue| class_labels(&switch.switch, &queue.port, queue.class);
                switch.limits.iter().map(move |queue| (of(queue), limit(queue)))
            });
            families.gauge(name, help, Some(Unit::Bytes), rows)?;
        }
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
        let of = |lcore: &Lcore| labels([("cpu", &lcore.cpu.to_string())]);
        let counters: [(&str, &str, Count); 5] = [
            ("weir_lcore_polls", "Polls of the lcore.", |lcore| lcore.polls),
            ("weir_lcore_busy_polls", "Polls in which a frame moved, or was overdue.", |lcore| lcore.busy_polls),
            (
                "weir_lcore_packets",
                "Packets that the lcore received; of one that receives none, those that it got of other lcores.",
                |lcore| lcore.work.packets,
            ),
            ("weir_lcore_bursts", "Bursts of these packets.", |lcore| lcore.work.bursts),
            (
                "weir_lcore_timed_packets",
                "Packets whose time was taken: all but those of polls that were interrupted for a millisecond.",
                |lcore| lcore.work.timed_packets,
            ),
        ];
        for (name, help, count) in counters {
            families.counter(name, help, None, self.lcores.iter().map(|lcore| (of(lcore), count(lcore))))?;
        }
        let timed = self.lcores.iter().map(|lcore| (of(lcore), lcore.work.timed_ns as f64 / 1e9));
        families.counter("weir_lcore_timed", "The time of these packets' polls.", Some(Unit::Seconds), timed)?;
        let tsc = self.lcores.iter().map(|lcore| (of(lcore), lcore.work.tsc_hz));
        let hertz = Unit::Other("hertz".to_owned());
        families.gauge("weir_lcore_tsc", "How fast the CPU's time-stamp counter runs.", Some(hertz), tsc)?;
        let gaps = self.lcores.iter().map(|lcore| (of(lcore), LengthHistogram::of_gaps(&lcore.gaps)));
        let help = "Time between two polls; the sum is up to a quarter too high.";
        families.family("weir_lcore_poll_gap", help, Some(Unit::Seconds), MetricType::Histogram, gaps)?;
        let longest = self.lcores.iter().map(|lcore| (of(lcore), lcore.gap_max_ns as f64 / 1e9));
        families.gauge(
            "weir_lcore_poll_gap_max",
            "The longest time between two polls.",
            Some(Unit::Seconds),
            longest,
        )?;
        self.others_on_cpus(families)
    }

    /// Writes the kernel's counts of other threads on the lcores' CPUs; none where the kernel has no count.
    fn others_on_cpus(&self, families: &mut Families<'_, '_>) -> fmt::Result {
        type OptionalCount = fn(&Lcore) -> Option<u64>;
        let rows = |count: OptionalCount| {
            let of = |lcore: &Lcore| labels([("cpu", &lcore.cpu.to_string())]);
            self.lcores.iter().filter_map(move |lcore| Some((of(lcore), count(lcore)?)))
        };
        let times: [(&str, &str, OptionalCount); 2] = [
            ("weir_lcore_cpu_waited", "How long others had the CPU while the lcore was ready to run.", |lcore| {
                lcore.cpu_waited_ms
            }),
            ("weir_lcore_cpu_stolen", "How long a hypervisor had the CPU.", |lcore| lcore.cpu_stolen_ms),
        ];
        for (name, help, count) in times {
            families.counter(name, help, Some(Unit::Seconds), rows(count).map(|(of, ms)| (of, ms as f64 / 1e3)))?;
        }
        let help = "How often the CPU was taken from the lcore.";
        families.counter("weir_lcore_cpu_preempted", help, None, rows(|lcore| lcore.cpu_preempted))
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
            families.gauge(longest, &format!("{what}: the longest."), Some(Unit::Seconds), rows)?;
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

/// Converts OpenMetrics text to Prometheus's older format, which names counters differently.
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

#[cfg(test)]
mod tests;

/// Families of lost frames, by place of the loss.
const PORT_DROPS: &str = "weir_port_drops";
const NIC_DROPS: &str = "weir_nic_drops";
const DEVICE_LOSSES: &str = "weir_device_losses";
