//! Rules on what the buffer holds: private buffers, headroom, the policies' pools and thresholds.

use std::cmp::Reverse;

use weir_reader::{Doc, Problem};
use weir_units::Bytes;

use crate::{Headroom, PolicyConfig, PoolsConfig, SwitchConfig};

/// Checks sizes against each other, if all that they come from was read well. Whether it was, and the reserves fit.
pub(super) fn check(doc: &Doc, config: &SwitchConfig) -> bool {
    if config.ports.len() < 2 || !doc.sound(&SIZES) || !ports_sound(doc, config) {
        return false;
    }
    let policy = &config.buffer.policy;
    let own = |key: &str| format!("buffer.{}.{key}", policy.name());
    if ["headroom_percent", "insurance", "ingress_pool", "headroom_pool"].iter().any(|key| !doc.sound(&[&own(key)])) {
        return false;
    }
    let fits = reserves_fit(doc, config);
    if let PolicyConfig::Static { threshold } = *policy
        && fits
    {
        static_threshold_fits(doc, config, threshold);
    }
    if let Some(pools) = policy.pools() {
        headroom_pool_holds_a_queue(doc, config, pools);
        if fits || pools.ingress.is_some() {
            egress_lossy_pool_fits(doc, config, pools);
        }
    }
    fits
}

/// Keys that every reckoning of sizes needs.
const SIZES: [&str; 9] = [
    "buffer.size",
    "buffer.cell_bytes",
    "buffer.private",
    "buffer.headroom",
    "buffer.policy",
    "classes.lossless",
    "classes.preset",
    "pfc.reaction",
    "switch.mtu",
];

fn ports_sound(doc: &Doc, config: &SwitchConfig) -> bool {
    let sound = |port: usize, key: &str| doc.sound(&[&format!("ports[{port}].{key}")]);
    (0..config.ports.len()).all(|port| ["rate", "delay", "clone_of"].iter().all(|key| sound(port, key)))
}

/// Private buffers and headroom leave something to share, or hold the ingress pool too where its size is given. What
/// they take is shown as a sum.
fn reserves_fit(doc: &Doc, config: &SwitchConfig) -> bool {
    let pools = config.buffer.policy.pools();
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
    let message = format!(
        "`size` {size} must {must} {together} together: {} x {} ports x 8 classes = {private}, {ingress_sum}plus {}; \
         in all {reserved}",
        config.buffer.private,
        config.ports.len(),
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
        less.push(less_headroom(config));
    }
    let help = format!("write a size {enough}, or {}", less.join(", or "));
    let own = |key: &str| format!("buffer.{}.{key}", config.buffer.policy.name());
    let keys = [
        ("buffer.size".to_owned(), ""),
        ("buffer.private".to_owned(), "the private buffers"),
        (own("ingress_pool"), "the ingress pool"),
        (own("headroom_pool"), "the headroom pool"),
        ("buffer.headroom".to_owned(), "the headroom"),
    ];
    let mut given = keys.into_iter().filter(|(key, _)| doc.has(key));
    let first = given.next().map_or("buffer.size".to_owned(), |(key, _)| key);
    doc.note(given.fold(Problem::new(message, help).at(first, ""), |problem, (key, label)| problem.at(key, label)));
    false
}

/// How the headroom comes to its size.
fn headroom_sum(config: &SwitchConfig) -> String {
    let (ports, lossless, headroom) = (config.ports.len(), config.lossless_classes(), config.headroom_size());
    let per_class = config.headroom_of_ports();
    let percent = match &config.buffer.policy {
        PolicyConfig::Dsh(_) if headroom == Bytes::ZERO => return "no insurance headroom".to_owned(),
        PolicyConfig::Dsh(_) => {
            return match config.buffer.headroom {
                Headroom::Fixed(phi) => format!("{phi} x {ports} ports of insurance headroom = {headroom}"),
                Headroom::Auto => format!("{headroom} of insurance headroom by the rule over {ports} ports"),
            };
        }
        PolicyConfig::Sonic { pools: PoolsConfig { headroom: Some(pool), .. }, .. }
        | PolicyConfig::Abm { pools: PoolsConfig { headroom: Some(pool), .. }, .. } => {
            return format!("`headroom_pool` {pool}");
        }
        PolicyConfig::Oversubscribed { headroom_percent, .. } => format!("{headroom_percent} % of "),
        _ => String::new(),
    };
    match config.buffer.headroom {
        Headroom::Fixed(phi) => format!("{percent}{phi} x {ports} ports x {lossless} lossless classes = {headroom}"),
        Headroom::Auto => {
            format!("{percent}{per_class} by the rule over {ports} ports, x {lossless} lossless classes = {headroom}")
        }
    }
}

/// What makes the headroom smaller.
fn less_headroom(config: &SwitchConfig) -> &'static str {
    let fixed = matches!(config.buffer.headroom, Headroom::Fixed(_));
    match &config.buffer.policy {
        // The insurance is there once a port, however many classes are lossless.
        PolicyConfig::Dsh(_) if fixed => "less `headroom`",
        PolicyConfig::Dsh(_) => "a shorter `delay`",
        policy if policy.pools().is_some_and(|pools| pools.headroom.is_some()) => "a smaller `headroom_pool`",
        _ if fixed => "less `headroom` or fewer `lossless` classes",
        _ => "fewer `lossless` classes or a shorter `delay`",
    }
}

/// The frames that arrive before a PAUSE works need a place, if only those of one queue.
fn headroom_pool_holds_a_queue(doc: &Doc, config: &SwitchConfig, pools: &PoolsConfig) {
    let Some(pool) = pools.headroom.filter(|_| config.lossless_classes() > 0) else { return };
    let phis = (0..config.ports.len()).filter_map(|port| Some((config.headroom(port)?, port)));
    let Some((phi, port)) = phis.max_by_key(|(phi, port)| (*phi, Reverse(*port))) else { return };
    if pool >= phi {
        return;
    }
    let all = config.headroom_of_ports() * u64::from(config.lossless_classes());
    let message = format!(
        "`headroom_pool` {pool} is less than the headroom of one lossless queue of port \"{}\", {phi}",
        config.ports[port].name
    );
    let help = format!("write headroom_pool = \"{phi}\" or more; \"{all}\", the default, holds that of all queues");
    let key = format!("buffer.{}.headroom_pool", config.buffer.policy.name());
    doc.note(Problem::new(message, help).at(key, "").at("buffer.headroom", "the headroom"));
}

/// What lossy classes may hold at their egress they must get in at the ingress (Reverie 2.2, heuristic 3).
fn egress_lossy_pool_fits(doc: &Doc, config: &SwitchConfig, pools: &PoolsConfig) {
    let own = |key: &str| format!("buffer.{}.{key}", config.buffer.policy.name());
    let ingress = config.shared_size();
    let Some(pool) = pools.egress_lossy.filter(|pool| *pool > ingress && doc.sound(&[&own("egress_lossy_pool")]))
    else {
        return;
    };
    let from = if pools.ingress.is_some() { "" } else { " (what private buffers and headroom leave, the default)" };
    let message =
        format!("`egress_lossy_pool` {pool} is above `ingress_pool` {ingress}{from}, through which its frames come in");
    let help = format!("write egress_lossy_pool = \"{ingress}\" or less, or a larger ingress_pool");
    let problem = Problem::new(message, help).at(own("egress_lossy_pool"), "");
    doc.note(problem.at(own("ingress_pool"), "the ingress pool"));
}

/// A threshold above the shared buffer never pauses; one not above δ never resumes early.
fn static_threshold_fits(doc: &Doc, config: &SwitchConfig, threshold: Option<Bytes>) {
    if !doc.sound(&["buffer.static", "buffer.xon_offset"]) {
        return;
    }
    let shared = config.shared_size();
    if let Some(threshold) = threshold.filter(|threshold| *threshold > shared) {
        let message = format!(
            "`threshold` {threshold} is above the shared buffer of {shared}, which is `size` {} less private buffers and \
             headroom",
            config.buffer.size
        );
        let problem = Problem::new(message, format!("write threshold = \"{shared}\" or less, or a larger `size`"));
        doc.note(problem.at("buffer.static.threshold", "").at("buffer.size", "the whole buffer"));
        return;
    }
    let Some(xoff) = config.static_threshold() else { return };
    let delta = config.xon_offset();
    if delta < xoff {
        return;
    }
    let threshold_from = if threshold.is_some() { "" } else { " (the shared buffer over the ports, the default)" };
    let delta_from = if config.buffer.xon_offset.is_some() { "" } else { " (2 frames, the default)" };
    let message = format!(
        "`xon_offset` {delta}{delta_from} must be less than `threshold` {xoff}{threshold_from}: a queue resumes at \
         threshold - xon_offset"
    );
    let problem =
        Problem::new(message, format!("write xon_offset below \"{xoff}\" in [buffer], or a larger threshold"));
    doc.note(match config.buffer.xon_offset {
        Some(_) => problem.at("buffer.xon_offset", "").at("buffer.static.threshold", "the threshold"),
        None => problem.at("buffer.static.threshold", ""),
    });
}
