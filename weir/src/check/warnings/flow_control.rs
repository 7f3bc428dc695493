//! Doubtful flow control: delays below the rule, thresholds declared unsafe, and queue limits that the buffer may not provide.

use weir_config::SwitchConfig;
use weir_experiments::table::{count, group_by_text};
use weir_mmu::{BufferLayout, Headroom};
use weir_switch_core::flow_control::{RATE_UNKNOWN, flow_control_context, queue_limit};
use weir_units::Bytes;

/// Returns a sentence for each doubtful flow control, shared by ports with equal warnings; then for the switch.
pub(super) fn warnings(switch: &SwitchConfig, layout: &BufferLayout) -> Vec<String> {
    let of_ports = switch.real_ports().flat_map(|port| {
        let config = &switch.ports[port];
        let moving = queue_limit(switch, port).and_then(|_| moving(switch));
        let rate = config.rate.unwrap_or(RATE_UNKNOWN);
        let warnings = config.flow_control.warnings(&flow_control_context(switch, port, rate));
        moving.into_iter().chain(warnings).map(move |what| (what, config.name.as_str()))
    });
    let mut warnings: Vec<String> =
        group_by_text(of_ports).into_iter().map(|(what, names)| format!("{names}: {what}")).collect();
    warnings.extend(promised(switch, layout));
    warnings
}

/// Warns of a policy with a varying threshold.
fn moving(switch: &SwitchConfig) -> Option<String> {
    switch.static_threshold().is_none().then(|| {
        format!(
            "the threshold of policy \"{}\" moves, so the buffer may be full before a queue is as long as its port promises (B_m, \
             or CBFC's buffer), and lossless frames are lost then",
            switch.buffer.policy.name()
        )
    })
}

/// Warns if all lossless queues, at least one with a promise, may together exceed the shared buffer.
fn promised(switch: &SwitchConfig, layout: &BufferLayout) -> Option<String> {
    let ports = 0..switch.ports.len();
    if !ports.clone().any(|port| queue_limit(switch, port).is_some()) {
        return None;
    }
    let of_ports: Bytes = ports.map(|port| shared_of_a_queue(switch, layout, port)).sum();
    let sum = of_ports * u64::from(switch.lossless_classes());
    let pool = if let Headroom::Pool(pool) = layout.headroom_from() { pool } else { Bytes::ZERO };
    let there_is = layout.shared() + pool;
    let of = if pool > Bytes::ZERO { "shared buffer and the headroom pool" } else { "shared buffer" };
    let threshold = if switch.static_threshold().is_some() { ", or T of those under other flow control" } else { "" };
    (sum > there_is).then(|| {
        format!(
            "all lossless ingress queues together may take {} B of the {of} (B_m, or CBFC's buffer, and a frame, less what is kept \
             for a queue alone{threshold}), which has {} B: when all are long, lossless frames can be lost",
            count(sum.get()),
            count(there_is.get())
        )
    })
}

/// Most bytes of the shared buffer for a lossless ingress queue of a port.
fn shared_of_a_queue(switch: &SwitchConfig, layout: &BufferLayout, port: usize) -> Bytes {
    let phi = switch.headroom(port).unwrap_or(Bytes::ZERO);
    match queue_limit(switch, port) {
        Some(limit) => {
            let alone = if layout.headroom_from() == Headroom::PerQueue { phi } else { Bytes::ZERO };
            (limit + switch.frame_bytes_max()).saturating_sub(switch.private(port) + alone)
        }
        // T, since ρ and Φ are kept for the queue alone.
        None => switch.headroom(port).and(switch.static_threshold()).unwrap_or(Bytes::ZERO),
    }
}
