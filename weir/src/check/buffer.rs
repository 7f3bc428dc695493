//! The buffer as a configuration cuts it, and the thresholds that its policy gives.

use std::collections::BTreeMap;
use std::fmt::Write;

use weir_config::{Device, SwitchConfig};
use weir_experiments::table::{Table, count};
use weir_mmu::policy::{Load, QueueView, SteadyState};
use weir_mmu::{BufferLayout, Charge, Headroom, Policy};
use weir_switch_core::flow_control::RATE_UNKNOWN;
use weir_units::{BitRate, Bytes, Class, PortId, QueueId, Time};

use super::gauge_lines;

/// What each segment and pool of the buffer has.
pub(super) fn partition(switch: &SwitchConfig, layout: &BufferLayout) -> String {
    let mut table = Table::new(["Buffer", "Bytes", "Share"]);
    let mut row = |name: &str, part: Bytes| {
        let share = part.get() as f64 * 100.0 / layout.size().get() as f64;
        table.row([name, &count(part.get()), &format!("{share:.1} %")]);
    };
    row("B whole", layout.size());
    row("private", layout.private());
    row(headroom_name(layout.headroom_from()), layout.headroom());
    match layout.egress_lossy() {
        None => row("B_s shared", layout.shared()),
        Some(egress_lossy) => {
            row("ingress pool", layout.shared());
            let taken = layout.private() + layout.headroom() + layout.shared();
            if taken < layout.size() {
                row("in no pool", layout.size() - taken);
            }
            row("egress lossy pool (lossy frames a second time)", egress_lossy);
        }
    }
    let cell = switch.buffer.cell_bytes;
    let unit = if cell == 1 { "bytes (frames of 64 B at least)".to_owned() } else { format!("cells of {cell} B") };
    let frames = Charge::in_cells(cell).frames_max(layout.size());
    format!("{table}  accounted in {unit}; holds at most {} frames\n", count(frames))
}

/// What headroom is taken from.
fn headroom_name(headroom: Headroom) -> &'static str {
    match headroom {
        Headroom::PerQueue => "headroom, Φ for each lossless ingress queue",
        Headroom::Pool(_) => "headroom, one pool",
        Headroom::PerPort => "headroom, insurance of Φ for each port",
        Headroom::Uninsured => "headroom, none kept apart",
    }
}

/// The policy in words, and its thresholds in an empty buffer and wherever equally overloaded queues come to rest.
pub(super) fn thresholds(switch: &SwitchConfig, layout: &BufferLayout, policy: &dyn Policy) -> String {
    let offset = if policy.has_hysteresis() { switch.xon_offset() } else { Bytes::ZERO };
    let mut text = format!("  policy \"{}\"\n", policy.name());
    for line in policy.describe() {
        writeln!(text, "    {line}").expect("a string takes all");
    }
    text += &gauge_lines(switch.buffer.policy.kind().gauges());
    let xon = match offset.get() {
        0 => "Xon = Xoff".to_owned(),
        delta => format!("Xon = Xoff - {} B", count(delta)),
    };
    let compared = if policy.low_pass().is_some() { "q̂" } else { "w_s" };
    writeln!(text, "  Xoff is what {compared} of a lossless ingress queue is compared with; {xon}")
        .expect("a string takes all");
    let has_port_level = policy.port_level().is_some();
    if has_port_level {
        text += "  Xoff and X_poff are shown for τ = 0\n";
    }
    let mut table = Table::new(
        ["Overloaded lossless queues", "Overloaded lossy queues", "Xoff B", "Xon B"]
            .into_iter()
            .chain(has_port_level.then_some("X_poff B"))
            .chain(["Each lossy queue B", "Shared in use"]),
    );
    let queues_of_port = u64::from(switch.lossless_classes());
    let or_none = |n: u64| if n == 0 { "none".to_owned() } else { n.to_string() };
    for (lossless, lossy) in loads(switch) {
        let rest = at(switch, layout, policy, lossless, lossy);
        let xoff = (queues_of_port > 0).then_some(rest.lossless.get());
        let or_dash = |bytes: Option<u64>| bytes.map_or("-".to_owned(), count);
        let used = (rest.lossless * lossless + rest.lossy * lossy).min(layout.shared());
        let used = used.get() as f64 * 100.0 / layout.shared().get() as f64;
        let lossy_limit = (lossy > 0 || lossless == 0).then_some(rest.lossy.get());
        table.row(
            [or_none(lossless), or_none(lossy), or_dash(xoff), or_dash(xoff.map(|x| x.saturating_sub(offset.get())))]
                .into_iter()
                .chain(has_port_level.then(|| or_dash(xoff.map(|xoff| xoff * queues_of_port))))
                .chain([or_dash(lossy_limit), format!("{used:.1} %")]),
        );
    }
    text + &table.to_string() + &ports(switch, layout, policy)
}

/// The loads that are shown, as overloaded lossless ingress queues and lossy egress queues of a class each: none,
/// lossless alone, and as many lossy beside them.
fn loads(switch: &SwitchConfig) -> Vec<(u64, u64)> {
    let ports = switch.ports.len() as u64;
    let steps = || [1, 2, 4, 8, 16, 32, 64].into_iter().take_while(move |n| *n <= ports);
    let lossy_fit =
        |n: u64| n <= switch.ports.iter().filter(|port| !matches!(port.device, Device::CloneOf(_))).count() as u64;
    let has_lossless = switch.lossless_classes() > 0;
    let has_lossy = switch.lossless_classes() < 8;
    let alone = steps().filter(|_| has_lossless).map(|n| (n, 0));
    let beside = steps().filter(|n| has_lossy && lossy_fit(*n)).map(|n| (if has_lossless { n } else { 0 }, n));
    std::iter::once((0, 0)).chain(alone).chain(beside).collect()
}

/// Each queue's bound under a load: where it comes to rest, or, of an empty buffer, where it stands.
fn at(switch: &SwitchConfig, layout: &BufferLayout, policy: &dyn Policy, lossless: u64, lossy: u64) -> SteadyState {
    let alpha = switch.buffer.lossy_alpha;
    if (lossless, lossy) != (0, 0) {
        return policy.steady_state(&Load {
            shared: layout.shared(),
            egress_lossy: layout.egress_lossy(),
            lossy_alpha: alpha,
            lossless,
            lossy,
        });
    }
    let view = |lossless| empty_view(layout, lossless);
    let pool = layout.egress_lossy().unwrap_or(layout.shared());
    // A policy may admit whatever comes while an average is below its bound, so that is named beside.
    let lossy = policy.lossy_threshold(&view(false), alpha).min(alpha.of(pool).get()).min(pool.get());
    SteadyState { lossless: Bytes::new(policy.threshold_shown(&view(true))), lossy: Bytes::new(lossy) }
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

/// What the policy makes of ports by their rate, if it says.
fn ports(switch: &SwitchConfig, layout: &BufferLayout, policy: &dyn Policy) -> String {
    let mut of_rate: BTreeMap<BitRate, usize> = BTreeMap::new();
    for port in &switch.ports {
        *of_rate.entry(port.rate.unwrap_or(RATE_UNKNOWN)).or_default() += 1;
    }
    let line = |(rate, ports): (BitRate, usize)| {
        let told = policy.describe_port(rate, layout.shared())?;
        Some(format!("  a port of {rate} ({ports} of them) {told}\n"))
    };
    of_rate.into_iter().filter_map(line).collect()
}
