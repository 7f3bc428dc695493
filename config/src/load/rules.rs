//! Rules between the sections of one file.
//!
//! Each rule first asks whether its keys were read well; a rule about a default that stands in for a wrong value
//! would only confuse.

use weir_units::Bytes;

use crate::error::Problem;
use crate::read::Doc;
use crate::{Headroom, Layout, PolicyConfig, SwitchConfig};

pub(super) fn check(doc: &Doc, config: &SwitchConfig) {
    enough_cores(doc, config);
    sih_has_no_fixed_headroom(doc, config);
    let rates_known = auto_headroom_has_rates(doc, config);
    let sizes =
        ["buffer.size", "buffer.private", "buffer.headroom", "classes.lossless", "classes.preset", "switch.mtu"];
    let ports_sound = (0..config.ports.len())
        .all(|port| doc.sound(&[&format!("ports[{port}].rate"), &format!("ports[{port}].delay")]));
    if config.ports.len() >= 2 && doc.sound(&sizes) && ports_sound && rates_known && reserves_fit(doc, config) {
        static_threshold_fits(doc, config);
    }
}

fn enough_cores(doc: &Doc, config: &SwitchConfig) {
    let (needed, layout) = match config.lcores.layout {
        Layout::Auto => return,
        Layout::Single => (1, "single"),
        Layout::RxTx => (2, "rx-tx"),
        Layout::RxFwdTx => (3, "rx-fwd-tx"),
    };
    let given = config.lcores.cores.len();
    if !doc.sound(&["lcores"]) || !doc.has("lcores.cores") || given == 0 || given >= needed {
        return;
    }
    let message = format!("`layout` \"{layout}\" needs {needed} cores, but `cores` names {given}");
    let problem = Problem::new(message, format!("name at least {needed} cores, or write layout = \"auto\""));
    doc.note(problem.at("lcores.cores", "").at("lcores.layout", "the layout"));
}

fn sih_has_no_fixed_headroom(doc: &Doc, config: &SwitchConfig) {
    let (PolicyConfig::Sih { .. }, Headroom::Fixed(size)) = (&config.buffer.policy, config.buffer.headroom) else {
        return;
    };
    let message = format!("`policy` \"sih\" sets the worst-case headroom by the rule, but `headroom` is {size}");
    let help = "write headroom = \"auto\", or policy = \"dt\" with the headroom given";
    doc.note(Problem::new(message, help).at("buffer.headroom", "").at("buffer.policy", "the policy"));
}

/// The rule for Φ needs the port's rate.
fn auto_headroom_has_rates(doc: &Doc, config: &SwitchConfig) -> bool {
    let by_rule = config.buffer.headroom == Headroom::Auto && config.lossless_classes() > 0;
    if !by_rule || !doc.sound(&["buffer.headroom", "buffer.policy", "classes.lossless", "classes.preset"]) {
        return !by_rule;
    }
    let given = if doc.has("buffer.headroom") { "" } else { " (the default)" };
    let mut all_known = true;
    for (index, port) in config.ports.iter().enumerate() {
        let key = format!("ports[{index}].rate");
        if port.rate.is_some() || !doc.sound(&[&key]) {
            continue;
        }
        all_known = false;
        let message = format!(
            "port \"{}\" has no `rate`, from which `headroom` \"auto\"{given} sizes the headroom of lossless classes {}",
            port.name,
            listed(config.classes.lossless)
        );
        let help =
            "write rate = \"10Gbps\" in the port, headroom = \"60KB\" in [buffer], or lossless = [] in [classes]";
        doc.note(Problem::new(message, help).at(key, "").at("buffer.headroom", "by the rule"));
    }
    all_known
}

/// Private buffers and headroom leave something to share. What they take is shown as a sum.
fn reserves_fit(doc: &Doc, config: &SwitchConfig) -> bool {
    let (ports, lossless) = (config.ports.len() as u64, u64::from(config.lossless_classes()));
    let private = config.buffer.private * (ports * 8);
    let per_class: Bytes = (0..config.ports.len()).filter_map(|port| config.headroom(port)).sum();
    let headroom = per_class * lossless;
    let reserved = private + headroom;
    let size = config.buffer.size;
    if reserved < size {
        return true;
    }
    let headroom_sum = match config.buffer.headroom {
        Headroom::Fixed(phi) => format!("{phi} x {ports} ports x {lossless} lossless classes = {headroom}"),
        Headroom::Auto => {
            format!("{per_class} by the rule over {ports} ports, x {lossless} lossless classes = {headroom}")
        }
    };
    let message = format!(
        "`size` {size} must be more than `private` and `headroom` together: {} x {ports} ports x 8 classes = {private}, \
         plus {headroom_sum}; in all {reserved}",
        config.buffer.private
    );
    let mut less = Vec::new();
    if private > Bytes::ZERO {
        less.push("less `private`");
    }
    if headroom > Bytes::ZERO {
        less.push(match config.buffer.headroom {
            Headroom::Fixed(_) => "less `headroom` or fewer `lossless` classes",
            Headroom::Auto => "fewer `lossless` classes or a shorter `delay`",
        });
    }
    let help = format!("write a size above \"{reserved}\", or {}", less.join(", or "));
    let at = ["buffer.size", "buffer.private", "buffer.headroom"].into_iter().find(|key| doc.has(key));
    let mut problem = Problem::new(message, help).at(at.unwrap_or("buffer.size"), "");
    for (key, label) in [("buffer.private", "the private buffers"), ("buffer.headroom", "the headroom")] {
        if at != Some(key) {
            problem = problem.at(key, label);
        }
    }
    doc.note(problem);
    false
}

/// A threshold above the shared buffer never pauses; one not above δ never resumes early.
fn static_threshold_fits(doc: &Doc, config: &SwitchConfig) {
    let PolicyConfig::Static { threshold } = config.buffer.policy else { return };
    if !doc.sound(&["buffer.static", "buffer.xon_offset", "buffer.policy"]) {
        return;
    }
    let (shared, ports) = (config.shared_size(), config.ports.len() as u64);
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
    let xoff = threshold.unwrap_or(shared.divided_by(ports));
    let delta = config.buffer.xon_offset.unwrap_or(config.frame_bytes_max() * 2);
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

/// `3, 4` for bits 3 and 4.
fn listed(classes: u8) -> String {
    let numbers: Vec<String> =
        (0..8).filter(|class| classes & 1 << class != 0).map(|class| class.to_string()).collect();
    numbers.join(", ")
}
