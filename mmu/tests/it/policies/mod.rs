//! Every policy of the registry by name, over one set of bounds: for tests and benchmarks that run them all.

#![allow(dead_code, reason = "each program uses a part")]

use std::sync::Arc;

pub(crate) use weir_mmu::conformance::Bounds;
use weir_mmu::policy::{self, BUFFER_POLICIES, BufferPolicyConfig, HeadroomRequirement};
use weir_mmu::{BufferLayout, BufferPolicy, Mmu, Xon};
use weir_units::{Alpha, Bytes};

/// Variants of policies: name, policy, and the keys of its table that differ from the defaults.
const FORMS: [(&str, &str, &str); 10] = [
    ("spfc-window-end", "spfc", "victim_at = \"window-end\""),
    ("spfc-all-memory", "spfc", "victim_memory = \"all\""),
    // Tests are too short for the 8 PAUSEs of the default.
    ("adaptive", "adaptive", "samples = 4"),
    ("dsh-table", "dsh", "estimator = \"table\""),
    ("dsh-port-queues", "dsh", "port_queues = 8"),
    ("dsh-no-insurance", "dsh", "insurance = false"),
    ("dsh-no-shared", "dsh", "shared_headroom = false"),
    (
        "abm-simulator",
        "abm",
        "congested_partly = true\ndrain_of = \"congested-at-end\"\ndrain_cap = false\ndrain_ports = \"but-last\"",
    ),
    (
        "reverie-text",
        "reverie",
        "congested_partly = false\ncongested_at = \"events\"\nfilter_at = \"events\"\nfilter_cut = false\n\
         filter_headroom = false\nresume_offset = \"0B\"\nresume_floor = \"0B\"",
    ),
    ("reverie-whole-bytes", "reverie", "filter_rounding = \"bytes\""),
];

/// All policies in the order of the registry, each with its variants.
pub(crate) fn all() -> Vec<&'static str> {
    let forms = |name| FORMS.iter().filter(move |(form, kind, _)| *kind == name && *form != name);
    let with_forms = |name| std::iter::once(name).chain(forms(name).map(|(form, ..)| *form));
    BUFFER_POLICIES.names().flat_map(with_forms).collect()
}

/// Policies that are lossless if peers obey PAUSE in time.
pub(crate) fn lossless() -> Vec<&'static str> {
    let is_lossless = |name: &&str| {
        let settings = settings(name);
        let has_room = !matches!(
            settings.layout_requirements().headroom,
            HeadroomRequirement::Part { .. } | HeadroomRequirement::Uninsured
        );
        has_room && settings.warning().is_none()
    };
    all().into_iter().filter(is_lossless).collect()
}

/// An MMU of this policy; α = 1 unless the policy has none.
pub(crate) fn mmu(name: &str, bounds: &Bounds, xon: Xon, lossy_alpha: Alpha) -> Mmu {
    mmu_over(layout(name, bounds), name, bounds, xon, lossy_alpha)
}

/// An MMU of this policy over a partition.
pub(crate) fn mmu_over(layout: BufferLayout, name: &str, bounds: &Bounds, xon: Xon, lossy_alpha: Alpha) -> Mmu {
    let policy = policy(name, bounds, &layout, xon.offset);
    Mmu::new(layout, policy, xon, lossy_alpha)
}

pub(crate) fn layout(name: &str, bounds: &Bounds) -> BufferLayout {
    bounds.layout(&*settings(name))
}

pub(crate) fn policy(name: &str, bounds: &Bounds, layout: &BufferLayout, xon_offset: Bytes) -> Box<dyn BufferPolicy> {
    bounds.policy(&*settings(name), layout, xon_offset).expect("a policy for these rates")
}

/// Parses the configuration of this policy or variant.
pub(crate) fn settings(name: &str) -> Arc<dyn BufferPolicyConfig> {
    let (_, kind, keys) = FORMS.iter().find(|(form, ..)| *form == name).copied().unwrap_or((name, name, ""));
    policy::parse_config(kind, keys).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}
