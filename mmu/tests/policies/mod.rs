//! Every policy by name, over one set of bounds: for tests and benchmarks that run them all.

#![allow(dead_code, reason = "each of them uses a part")]

use weir_mmu::policy::gradient::Form;
use weir_mmu::policy::{
    Abm, AdaptiveHeadroom, Dsh, DshParameters, DynamicThreshold, Oversubscription, Reverie, Sih, Sonic, Spfc,
    StaticThreshold,
};
use weir_mmu::{BufferLayout, Headroom, Mmu, Policy, PortLayout};
use weir_units::{Alpha, BitRate, Bytes, CLASSES, Class, ClassSet, Span};

/// All policies, and the forms of them that a configuration can choose.
pub(crate) const POLICIES: [&str; 13] = [
    "static",
    "dt",
    "spfc",
    "sih",
    "oversubscribed",
    "adaptive",
    "dsh",
    "dsh-table",
    "dsh-no-insurance",
    "dsh-no-shared",
    "sonic",
    "abm",
    "reverie",
];

/// A switch to have policies on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub size: Bytes,
    pub ports: u16,
    /// ρ of every queue.
    pub private: Bytes,
    /// Φ of every lossless queue.
    pub headroom: Bytes,
    /// Lossless classes.
    pub lossless: ClassSet,
    pub rate: BitRate,
}

/// An MMU of this policy; α = 1 unless the policy has none.
pub(crate) fn mmu(name: &str, bounds: &Bounds, xon_offset: Bytes, lossy_alpha: Alpha) -> Mmu {
    let layout = layout(name, bounds);
    let policy = policy(name, bounds, &layout, xon_offset);
    Mmu::new(layout, policy, xon_offset, lossy_alpha)
}

pub(crate) fn layout(name: &str, bounds: &Bounds) -> BufferLayout {
    let queues = u64::from(bounds.ports) * bounds.lossless.len() as u64;
    let all = bounds.headroom * queues;
    let headroom = match name {
        "oversubscribed" => Headroom::Pool((all * 80).divided_by(100)),
        "sonic" | "abm" => Headroom::Pool(all),
        "dsh-no-insurance" => Headroom::Uninsured,
        _ if name.starts_with("dsh") => Headroom::PerPort,
        _ => Headroom::PerQueue,
    };
    let port = PortLayout {
        private: [bounds.private; CLASSES],
        headroom: Class::ALL.map(|class| if bounds.lossless.contains(class) { bounds.headroom } else { Bytes::ZERO }),
        lossless: bounds.lossless,
    };
    let layout = BufferLayout::new(bounds.size, vec![port; usize::from(bounds.ports)], headroom).expect("a partition");
    match name {
        "sonic" | "abm" => {
            let ingress = layout.shared();
            layout.with_pools(ingress, (ingress * 80).divided_by(100)).expect("pools")
        }
        _ => layout,
    }
}

pub(crate) fn policy(name: &str, bounds: &Bounds, layout: &BufferLayout, xon_offset: Bytes) -> Box<dyn Policy> {
    let ports = usize::from(bounds.ports);
    let rates = vec![bounds.rate; ports];
    let alpha = Alpha::ONE;
    let quarter = Alpha::ratio(1, 4).expect("an α");
    match name {
        "static" => Box::new(StaticThreshold::even(layout.shared(), ports)),
        "dt" => Box::new(DynamicThreshold::new(alpha)),
        "spfc" => Box::new(Spfc::new(alpha, 5, Span::from_micros(80), &rates).expect("a window")),
        "sih" => Box::new(Sih::new(alpha)),
        "oversubscribed" => Box::new(Oversubscription::new(alpha, 80)),
        "adaptive" => Box::new(AdaptiveHeadroom::new(alpha, 4, Bytes::new(1_522), layout, &rates)),
        "sonic" => Box::new(Sonic::new(alpha)),
        "abm" => Box::new(Abm::new(alpha, Bytes::new(20_480), Span::from_micros(25), &rates).expect("a window")),
        "reverie" => Box::new(Reverie::new(alpha, 999_000_000, Bytes::new(20_480), ports)),
        _ => {
            assert!(name.starts_with("dsh"), "no policy {name}");
            let form = match name {
                "dsh-table" => Form::table(quarter, quarter, 4).expect("powers of two"),
                _ => Form::exact(quarter, quarter, 4),
            };
            let parameters = DshParameters {
                threshold: DynamicThreshold::new(alpha),
                form,
                window: Span::from_millis(10),
                port_xon_offset: xon_offset,
                shared_headroom: name != "dsh-no-shared",
            };
            Box::new(Dsh::new(parameters, layout, &rates))
        }
    }
}
