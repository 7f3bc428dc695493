//! Checks of the buffer's reserves: private buffers, headroom, pools. The policy has its own.

use weir_mmu::policy::{BufferSizes, HeadroomRequirement, PortSizes};
use weir_reader::{Doc, Problem};
use weir_units::Bytes;

use super::policy::context;
use crate::{Headroom, SwitchConfig};

/// Checks sizes against each other. Returns whether all keys that they derive from are valid, and the reserves fit.
pub(super) fn check(doc: &Doc, config: &SwitchConfig) -> bool {
    if config.ports.len() < 2 || !doc.sound(&SIZES) || !ports_sound(doc, config) {
        return false;
    }
    let policy = &config.buffer.policy;
    if policy.layout_requirements().keys.iter().any(|key| !doc.sound(&[&policy.key_path(key)])) {
        return false;
    }
    let fit = reserves_fit(doc, config);
    let ports = config.ports.iter().enumerate();
    let ports: Vec<_> =
        ports.map(|(index, port)| PortSizes { name: &port.name, headroom: config.headroom(index) }).collect();
    let shared = config.shared_size();
    let shared_of_slice = shared.divided_by(u64::from(config.buffer.slices));
    policy.check_sizes(&context(doc, config), &BufferSizes { fit, shared, shared_of_slice, ports: &ports });
    fit
}

/// Keys that every computation of sizes needs.
const SIZES: [&str; 11] = [
    "buffer.size",
    "buffer.cell_bytes",
    "buffer.slices",
    "buffer.private",
    "buffer.headroom",
    "buffer.rates",
    "buffer.policy",
    "classes.lossless",
    "classes.preset",
    "pfc.reaction",
    "switch.mtu",
];

fn ports_sound(doc: &Doc, config: &SwitchConfig) -> bool {
    let sound = |port: usize, key: &str| doc.sound(&[&format!("ports[{port}].{key}")]);
    (0..config.ports.len())
        .all(|port| ["rate", "delay", "headroom", "private", "clone_of"].iter().all(|key| sound(port, key)))
}

/// Checks that private buffers and headroom leave a shared segment, and room for the ingress pool if its size is given. The error shows
/// their sum.
fn reserves_fit(doc: &Doc, config: &SwitchConfig) -> bool {
    let pools = config.buffer.policy.layout_requirements().pools;
    let ingress = pools.and_then(|pools| pools.ingress);
    let (private, headroom) = (config.private_size(), config.headroom_size());
    let reserved = private + headroom + ingress.unwrap_or(Bytes::ZERO);
    let size = config.buffer.size;
    if reserved < size || (ingress.is_some() && reserved == size) {
        return true;
    }
    let (must, together, enough) = match (ingress, pools) {
        (Some(_), _) => ("hold", "`private`, `ingress_pool` and `headroom_pool`", format!("of \"{reserved}\" or more")),
        (None, Some(_)) => ("be more than", "`private` and `headroom_pool`", format!("above \"{reserved}\"")),
        (None, None) => ("be more than", "`private` and `headroom`", format!("above \"{reserved}\"")),
    };
    let ingress_sum = ingress.map_or(String::new(), |ingress| format!("plus `ingress_pool` {ingress}, "));
    let is_alike = (0..config.ports.len()).all(|port| config.private(port) == config.buffer.private);
    let private_sum = match is_alike {
        true => format!("{} x {} ports x 8 classes = {private}", config.buffer.private, config.ports.len()),
        false => format!("`private` of {} ports, x 8 classes = {private}", config.ports.len()),
    };
    let message = format!(
        "`size` {size} must {must} {together} together: {private_sum}, {ingress_sum}plus {}; in all {reserved}",
        headroom_sum(config)
    );
    let mut less = Vec::new();
    if private > Bytes::ZERO {
        less.push("less `private`");
    }
    if ingress.is_some() {
        less.push("a smaller `ingress_pool`");
    }
    if headroom > Bytes::ZERO {
        less.push(headroom_hint(config));
    }
    let help = format!("write a size {enough}, or {}", less.join(", or "));
    let own = |key: &str| config.buffer.policy.key_path(key);
    let keys = [
        ("buffer.size".to_owned(), ""),
        ("buffer.private".to_owned(), "the private buffers"),
        (own("ingress_pool"), "the ingress pool"),
        (own("headroom_pool"), "the headroom pool"),
        ("buffer.headroom".to_owned(), "the headroom"),
    ];
    let mut given = keys.into_iter().filter(|(key, _)| doc.has(key));
    let first = given.next().map_or("buffer.size".to_owned(), |(key, _)| key);
    doc.note(given.fold(Problem::new(message, help).with_label(first, ""), |problem, (key, label)| {
        problem.with_label(key, label)
    }));
    false
}

fn headroom_sum(config: &SwitchConfig) -> String {
    let (ports, lossless, headroom) = (config.ports.len(), config.lossless_classes(), config.headroom_size());
    let per_class = config.headroom_of_ports();
    let percent = match config.buffer.policy.layout_requirements().headroom {
        HeadroomRequirement::PerPort if headroom > Bytes::ZERO => {
            return match config.buffer.headroom {
                Headroom::Fixed(phi) => format!("{phi} x {ports} ports of insurance headroom = {headroom}"),
                Headroom::Auto => format!("{headroom} of insurance headroom by the rule over {ports} ports"),
            };
        }
        HeadroomRequirement::PerPort | HeadroomRequirement::Uninsured => return "no insurance headroom".to_owned(),
        HeadroomRequirement::Pool(Some(pool)) => return format!("`headroom_pool` {pool}"),
        HeadroomRequirement::Part { percent } => format!("{percent} % of "),
        HeadroomRequirement::PerQueue | HeadroomRequirement::Pool(None) => String::new(),
    };
    if (0..config.ports.len()).any(|port| config.given_headroom(port).is_some()) {
        return format!("{percent}{per_class} over {ports} ports, x {lossless} lossless classes = {headroom}");
    }
    match config.buffer.headroom {
        Headroom::Fixed(phi) => format!("{percent}{phi} x {ports} ports x {lossless} lossless classes = {headroom}"),
        Headroom::Auto => {
            format!("{percent}{per_class} by the rule over {ports} ports, x {lossless} lossless classes = {headroom}")
        }
    }
}

fn headroom_hint(config: &SwitchConfig) -> &'static str {
    let fixed = matches!(config.buffer.headroom, Headroom::Fixed(_));
    match config.buffer.policy.layout_requirements().headroom {
        // The insurance is per port, for any number of lossless classes.
        HeadroomRequirement::PerPort | HeadroomRequirement::Uninsured if fixed => "less `headroom`",
        HeadroomRequirement::PerPort | HeadroomRequirement::Uninsured => "a shorter `delay`",
        HeadroomRequirement::Pool(Some(_)) => "a smaller `headroom_pool`",
        _ if fixed => "less `headroom` or fewer `lossless` classes",
        _ => "fewer `lossless` classes or a shorter `delay`",
    }
}
