//! Facts of Weir, from its files and its buffer.

use weir_config::{SwitchConfig, Trust, headroom_by_rule};
use weir_mmu::Headroom;
use weir_mmu::policy::OverloadCase;
use weir_units::{BitRate, Bytes, Class, Span};

use super::VirtualNetwork;
use crate::facts::{BufferFacts, EcnFacts, Facts, PortFacts, QueueMap, WatchdogFacts};

pub(super) fn facts(configs: &[SwitchConfig], network: &VirtualNetwork) -> Facts {
    let first = &configs[0];
    let port_facts =
        network.ports.iter().map(|port| of_port(&configs[port.switch], port.switch, port.switch_port.index()));
    let names: Vec<&str> = configs.iter().map(|config| config.name.as_str()).collect();
    Facts {
        name: format!("Weir {} ({})", env!("CARGO_PKG_VERSION"), names.join(", ")),
        ports: port_facts.collect(),
        lossless: first.classes.lossless.iter().map(Class::number).collect(),
        frame_bytes_max: first.frame_bytes_max().get() as u32,
        obeys_pause: false,
        buffer: of_buffer(first, network),
        ecn: std::array::from_fn(|class| {
            let ecn = first.classes.queues[class].ecn?;
            let pmax = f64::from(ecn.pmax_ppm) / 1e6;
            ecn.at_rate.is_none().then_some(EcnFacts { kmin: ecn.kmin.get(), kmax: ecn.kmax.get(), pmax })
        }),
        watchdog: first.pfc_watchdog.as_ref().map(|watchdog| WatchdogFacts {
            detection_ns: watchdog.detection_time.as_nanos(),
            restoration_ns: watchdog.restoration_time.as_nanos(),
            poll_ns: watchdog.poll_interval.as_nanos(),
            drops: true,
        }),
    }
}

fn of_port(config: &SwitchConfig, asic: usize, port: usize) -> PortFacts {
    let (map, settings) = (config.class_map(port), &config.ports[port]);
    let place = |class: &u8| {
        let class = usize::from(*class);
        QueueMap { queue: map.queue[class], group: map.group[class] }
    };
    let headroom = config.headroom(port);
    let rate = settings.rate.unwrap_or(BitRate::gbps(10));
    PortFacts {
        name: settings.name.clone(),
        asic,
        dscp: (map.trust == Trust::Dscp).then(|| map.dscp.iter().map(place).collect()),
        pcp: (map.trust == Trust::Pcp).then(|| map.pcp.iter().map(place).collect()),
        headroom: headroom.map(|headroom| headroom.get()),
        peer_delay_ns: headroom.map(|headroom| peer_delay(config, rate, settings.delay, headroom).as_nanos()),
        weights: Some(std::array::from_fn(|class| {
            let queue = &config.classes.queues[class];
            if queue.strict { 0 } else { queue.quantum }
        })),
    }
}

/// Time that a peer may take to stop: `[pfc] reaction`, which the switch itself does not need here. It is longer if the headroom has more
/// bytes beyond the rule for a peer that stops at once, where frames are charged their worst number of cells.
fn peer_delay(config: &SwitchConfig, rate: BitRate, delay: Span, headroom: Bytes) -> Span {
    let rule = headroom_by_rule(rate, delay, config.frame_bytes_max());
    let wire = headroom.get() / weir_units::in_cells(1_000, config.buffer.cell_bytes).max(1) * 1_000;
    rate.time_for(Bytes::new(wire).saturating_sub(rule)).max(config.pfc.reaction)
}

fn of_buffer(config: &SwitchConfig, network: &VirtualNetwork) -> Option<BufferFacts> {
    let mmu = &network.switches[0].shared().mmu;
    let layout = mmu.layout();
    let policy = config.buffer.policy.kind();
    let charge = config.buffer.charge();
    let facts = BufferFacts {
        cell: config.buffer.cell_bytes,
        charge_min: charge.frame_charge(0),
        charge_extra: 0,
        private: config.private(0).get(),
        margin_frames: 2,
        shared_pool: Some(layout.shared().get()),
        headroom_pool: match layout.headroom_from() {
            Headroom::Pool(size) => Some(size.get()),
            _ => None,
        },
        ..BufferFacts::default()
    };
    // Other policies have thresholds that depend on more than one queue's length.
    let has_thresholds = ["static", "dt", "sonic", "oversubscribed"].contains(&policy.id());
    if !has_thresholds || config.buffer.slices > 1 {
        return Some(facts);
    }
    let case = |lossless, lossy| OverloadCase {
        shared: layout.shared(),
        egress_lossy: layout.egress_lossy(),
        lossy_alpha: config.buffer.lossy_alpha,
        lossless,
        lossy,
    };
    let private = config.private(0);
    let xoff = mmu.policy().steady_state(&case(1, 0)).lossless;
    let lossy = mmu.policy().steady_state(&case(0, 1)).lossy;
    // Under dynamic thresholds the threshold rises again while the queue drains: q <= α (B - q) - δ.
    let xon = match alpha_of(policy.id(), xoff, layout.shared()) {
        Some(alpha) => xoff.saturating_sub(Bytes::new((config.xon_offset().get() as f64 / (1.0 + alpha)) as u64)),
        None => xoff.saturating_sub(config.xon_offset()),
    };
    Some(BufferFacts {
        xoff: (!config.classes.lossless.is_empty()).then(|| (private + xoff).get()),
        xon: (!config.classes.lossless.is_empty()).then(|| (private + xon).get()),
        alpha: alpha_of(policy.id(), xoff, layout.shared()),
        lossy_queue: (private == Bytes::ZERO).then_some(lossy.get()),
        ..facts
    })
}

/// Returns α of a dynamic threshold from the length at rest of a single queue: q = α (B - q).
fn alpha_of(policy: &str, xoff: Bytes, shared: Bytes) -> Option<f64> {
    (policy != "static").then(|| xoff.get() as f64 / shared.saturating_sub(xoff).get().max(1) as f64)
}
