//! Partition of a configuration's buffer, and the thresholds of its policy.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use weir_config::{Device, SwitchConfig};
use weir_experiments::table::{Table, count};
use weir_mmu::policy::{OverloadCase, QueueView, SteadyState};
use weir_mmu::{BufferLayout, BufferPolicy, Headroom, Xon};
use weir_switch_core::burst::frames_held_max;
use weir_switch_core::flow_control::RATE_UNKNOWN;
use weir_units::{BitRate, Bytes, Class, PortId, QueueId, Time};

use super::{GaugeNamed, gauge_lines};

/// Sizes of the buffer's segments and pools.
#[derive(Serialize)]
pub(super) struct BufferPartition {
    pub size_bytes: u64,
    pub private_bytes: u64,
    pub headroom_bytes: u64,
    pub headroom_from: HeadroomFrom,
    pub shared_bytes: u64,
    /// Egress pool of lossy frames, in which they are counted a second time, for policies with pools.
    pub egress_lossy_bytes: Option<u64>,
    pub cell_bytes: u64,
    /// Slices that the shared segment and the pool of lossy frames are divided into; thresholds are those of one.
    pub slices: u32,
    pub frames_max: u64,
    pub on_dpdk: DpdkLimits,
}

/// Limits on DPDK, where a frame takes an mbuf however short it is.
#[derive(Serialize)]
pub(super) struct DpdkLimits {
    /// Least charge of a frame, in bytes.
    pub charge_min_bytes: u64,
    /// Largest number of frames in the buffer, with an mbuf for each.
    pub mbufs: u64,
    /// Number of these mbufs that headroom has.
    pub headroom_mbufs: u64,
    /// True if the minimum charge exceeds the shortest frame's charge by its bytes.
    #[serde(skip)]
    limits_short_frames: bool,
}

/// Source of headroom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum HeadroomFrom {
    Queue,
    Pool,
    Port,
    None,
}

/// The buffer's partition.
pub(super) fn partition(switch: &SwitchConfig, layout: &BufferLayout) -> BufferPartition {
    BufferPartition {
        size_bytes: layout.size().get(),
        private_bytes: layout.private().get(),
        headroom_bytes: layout.headroom().get(),
        headroom_from: match layout.headroom_from() {
            Headroom::PerQueue => HeadroomFrom::Queue,
            Headroom::Pool(_) => HeadroomFrom::Pool,
            Headroom::PerPort => HeadroomFrom::Port,
            Headroom::Uninsured => HeadroomFrom::None,
        },
        shared_bytes: layout.shared().get(),
        egress_lossy_bytes: layout.egress_lossy().map(Bytes::get),
        cell_bytes: u64::from(switch.buffer.cell_bytes),
        slices: switch.buffer.slices,
        frames_max: switch.buffer.charge().frames_max(layout.size()),
        on_dpdk: on_dpdk(switch, layout),
    }
}

fn on_dpdk(switch: &SwitchConfig, layout: &BufferLayout) -> DpdkLimits {
    let charge = switch.charge_per_mbuf();
    DpdkLimits {
        charge_min_bytes: u64::from(charge.frame_charge(0)),
        mbufs: frames_held_max(switch) as u64,
        headroom_mbufs: switch.buffer.charge().frames_max(layout.headroom()),
        limits_short_frames: charge.times() > 1,
    }
}

impl fmt::Display for BufferPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(["Buffer", "Bytes", "Share"]);
        let mut row = |name: &str, part: u64| {
            let share = part as f64 * 100.0 / self.size_bytes as f64;
            table.row([name, &count(part), &format!("{share:.1} %")]);
        };
        row("B whole", self.size_bytes);
        row("private", self.private_bytes);
        row(self.headroom_from.name(), self.headroom_bytes);
        match self.egress_lossy_bytes {
            None => row("B_s shared", self.shared_bytes),
            Some(egress_lossy) => {
                row("ingress pool", self.shared_bytes);
                let taken = self.private_bytes + self.headroom_bytes + self.shared_bytes;
                if taken < self.size_bytes {
                    row("in no pool", self.size_bytes - taken);
                }
                row("egress lossy pool (lossy frames a second time)", egress_lossy);
            }
        }
        let unit = match self.cell_bytes {
            1 => "bytes (frames of 64 B at least)".to_owned(),
            cell => format!("cells of {cell} B"),
        };
        writeln!(f, "{table}  accounted in {unit}; holds at most {} frames", count(self.frames_max))?;
        if self.slices > 1 {
            writeln!(f, "  {} slices; loads, thresholds and shares below are those of one", self.slices)?;
        }
        self.on_dpdk.fmt(f)
    }
}

impl fmt::Display for DpdkLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mbufs = format!("{} mbufs, {} of them for headroom", count(self.mbufs), count(self.headroom_mbufs));
        if !self.limits_short_frames {
            return writeln!(f, "  on DPDK: {mbufs}; the buffer's bytes limit frames of every length");
        }
        let least = count(self.charge_min_bytes);
        writeln!(
            f,
            "  on DPDK: {mbufs}; frames of under {least} B with FCS are charged {least} B, so mbufs limit them, and the buffer's bytes limit \
             longer ones"
        )
    }
}

impl HeadroomFrom {
    fn name(self) -> &'static str {
        match self {
            HeadroomFrom::Queue => "headroom, Φ for each lossless ingress queue",
            HeadroomFrom::Pool => "headroom, one pool",
            HeadroomFrom::Port => "headroom, insurance of Φ for each port",
            HeadroomFrom::None => "headroom, none kept apart",
        }
    }
}

/// Description of the policy, and its thresholds in an empty buffer and at rest under equal overloads.
#[derive(Serialize)]
pub(super) struct PolicyChecked {
    name: String,
    /// Paper section and parameters, a sentence each.
    about: Vec<String>,
    gauges: Vec<GaugeNamed>,
    /// Quantity compared with Xoff: w_s, or q̂ of policies that smooth it.
    compared: &'static str,
    xon_offset_bytes: u64,
    xon_floor_bytes: u64,
    thresholds: Vec<RestingOccupancy>,
    /// The policy's description of ports by rate, if any.
    ports: Vec<String>,
    #[serde(skip)]
    has_port_level: bool,
}

/// Occupancy at rest under a load.
#[derive(Serialize)]
struct RestingOccupancy {
    overloaded_lossless_queues: u64,
    overloaded_lossy_queues: u64,
    xoff_bytes: Option<u64>,
    xon_bytes: Option<u64>,
    /// Port threshold, for policies that pause whole ports.
    port_xoff_bytes: Option<u64>,
    lossy_queue_bytes: Option<u64>,
    shared_in_use_percent: f64,
}

/// Description of the policy, with its thresholds in a slice.
pub(super) fn policy(switch: &SwitchConfig, layout: &BufferLayout, policy: &dyn BufferPolicy) -> PolicyChecked {
    let layout = &layout.slice(switch.buffer.slices);
    let xon = if policy.has_hysteresis() { switch.xon() } else { Xon::default() };
    let has_port_level = policy.port_level_flow_control().is_some();
    let queues_of_port = u64::from(switch.lossless_classes());
    let rest = |(lossless, lossy): (u64, u64)| {
        let rest = steady_state(switch, layout, policy, lossless, lossy);
        let xoff = (queues_of_port > 0).then_some(rest.lossless.get());
        let used = (rest.lossless * lossless + rest.lossy * lossy).min(layout.shared());
        RestingOccupancy {
            overloaded_lossless_queues: lossless,
            overloaded_lossy_queues: lossy,
            xoff_bytes: xoff,
            xon_bytes: xoff.map(|xoff| xon.resume_level(Bytes::new(xoff)).get()),
            port_xoff_bytes: xoff.filter(|_| has_port_level).map(|xoff| xoff * queues_of_port),
            lossy_queue_bytes: (lossy > 0 || lossless == 0).then_some(rest.lossy.get()),
            shared_in_use_percent: used.get() as f64 * 100.0 / layout.shared().get() as f64,
        }
    };
    PolicyChecked {
        name: policy.name().to_owned(),
        about: policy.describe(),
        gauges: GaugeNamed::all(switch.buffer.policy.kind().gauges()),
        compared: if policy.low_pass().is_some() { "q̂" } else { "w_s" },
        xon_offset_bytes: xon.offset.get(),
        xon_floor_bytes: xon.floor.get(),
        thresholds: loads(switch).into_iter().map(rest).collect(),
        ports: ports(switch, layout, policy),
        has_port_level,
    }
}

impl fmt::Display for PolicyChecked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  policy \"{}\"", self.name)?;
        for line in &self.about {
            writeln!(f, "    {line}")?;
        }
        f.write_str(&gauge_lines(&self.gauges))?;
        let xon = match self.xon_offset_bytes {
            0 => "Xon = Xoff".to_owned(),
            delta => format!("Xon = Xoff - {} B", count(delta)),
        };
        let floor = match self.xon_floor_bytes {
            0 => String::new(),
            floor => format!(", and at least {} B", count(floor)),
        };
        writeln!(f, "  Xoff is what {} of a lossless ingress queue is compared with; {xon}{floor}", self.compared)?;
        if self.has_port_level {
            writeln!(f, "  Xoff and X_poff are shown for τ = 0")?;
        }
        let mut table = Table::new(
            ["Overloaded lossless queues", "Overloaded lossy queues", "Xoff B", "Xon B"]
                .into_iter()
                .chain(self.has_port_level.then_some("X_poff B"))
                .chain(["Each lossy queue B", "Shared in use"]),
        );
        let or_none = |n: u64| if n == 0 { "none".to_owned() } else { n.to_string() };
        let or_dash = |bytes: Option<u64>| bytes.map_or("-".to_owned(), count);
        for rest in &self.thresholds {
            let loads = [rest.overloaded_lossless_queues, rest.overloaded_lossy_queues].map(or_none);
            table.row(
                loads
                    .into_iter()
                    .chain([or_dash(rest.xoff_bytes), or_dash(rest.xon_bytes)])
                    .chain(self.has_port_level.then(|| or_dash(rest.port_xoff_bytes)))
                    .chain([or_dash(rest.lossy_queue_bytes), format!("{:.1} %", rest.shared_in_use_percent)]),
            );
        }
        write!(f, "{table}")?;
        self.ports.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

/// Loads to show, as overloaded lossless ingress queues and lossy egress queues of a class each: none, lossless alone, and equally many of
/// both.
fn loads(switch: &SwitchConfig) -> Vec<(u64, u64)> {
    let ports = switch.ports.len() as u64;
    let steps = || [1, 2, 4, 8, 16, 32, 64].into_iter().take_while(move |n| *n <= ports);
    let lossy_fit =
        |n: u64| n <= switch.ports.iter().filter(|port| !matches!(port.device, Device::CloneOf(_))).count() as u64;
    let has_lossless = switch.lossless_classes() > 0;
    let has_lossy = switch.lossless_classes() < 8;
    let alone = steps().filter(|_| has_lossless).map(|n| (n, 0));
    let combined = steps().filter(|n| has_lossy && lossy_fit(*n)).map(|n| (if has_lossless { n } else { 0 }, n));
    std::iter::once((0, 0)).chain(alone).chain(combined).collect()
}

/// Bound of each queue under a load: its occupancy at rest, or its threshold in an empty buffer.
fn steady_state(
    switch: &SwitchConfig,
    layout: &BufferLayout,
    policy: &dyn BufferPolicy,
    lossless: u64,
    lossy: u64,
) -> SteadyState {
    let alpha = switch.buffer.lossy_alpha;
    if (lossless, lossy) != (0, 0) {
        return policy.steady_state(&OverloadCase {
            shared: layout.shared(),
            egress_lossy: layout.egress_lossy(),
            lossy_alpha: alpha,
            lossless,
            lossy,
        });
    }
    let view = |lossless| empty_view(layout, lossless);
    let pool = layout.egress_lossy().unwrap_or(layout.shared());
    // A policy may admit any frame while an average is below its bound, so the total limit applies too.
    let lossy = policy.lossy_threshold(&view(false), alpha).min(alpha.scale(pool).get()).min(pool.get());
    SteadyState { lossless: Bytes::new(policy.reported_threshold(&view(true))), lossy: Bytes::new(lossy) }
}

fn empty_view(layout: &BufferLayout, lossless: bool) -> QueueView {
    let empty = |pool: Bytes| weir_mmu::policy::PoolLevel { capacity: pool.get(), used: 0 };
    QueueView {
        queue: QueueId::new(PortId(0), Class::new(0)),
        lossless,
        length: 0,
        average: 0,
        headroom: 0,
        off: false,
        port_off: false,
        shared_pool: empty(layout.shared()),
        egress_lossy_pool: empty(layout.egress_lossy().unwrap_or_default()),
        now: Time::ZERO,
    }
}

/// The policy's description of ports by rate, if any.
fn ports(switch: &SwitchConfig, layout: &BufferLayout, policy: &dyn BufferPolicy) -> Vec<String> {
    let mut of_rate: BTreeMap<BitRate, usize> = BTreeMap::new();
    for port in &switch.ports {
        *of_rate.entry(port.rate.unwrap_or(RATE_UNKNOWN)).or_default() += 1;
    }
    let line = |(rate, ports): (BitRate, usize)| {
        let description = policy.describe_port(rate, layout.shared())?;
        Some(format!("a port of {rate} ({ports} of them) {description}"))
    };
    of_rate.into_iter().filter_map(line).collect()
}
