//! Rules between the sections of one file.
//!
//! Each rule first checks that its keys are valid, since an error about the default of an invalid value would confuse.

use weir_reader::{Doc, Problem};

use super::policy::context;
use super::{classes, flow_rules, nic, reserves, vlans, watchdog};
use crate::keys::buffer_rates;
use crate::{Headroom, LcoreLayout, SwitchConfig};

pub(super) fn check(doc: &Doc, config: &SwitchConfig) {
    enough_cores(doc, config);
    config.buffer.policy.check(&context(doc, config));
    alphas_are_dts(doc, config);
    watchdog::check(doc, config);
    classes::check(doc, config);
    vlans::check(doc, config);
    flow_rules::check(doc, config);
    nic::check(doc, config);
    slices_are_allowed(doc, config);
    if auto_headroom_has_rates(doc, config) {
        flow_rules::check_rates(doc, config);
        if reserves::check(doc, config) {
            flow_rules::check_defaults(doc, config);
        }
    }
}

fn enough_cores(doc: &Doc, config: &SwitchConfig) {
    let (needed, layout) = match config.lcores.layout {
        LcoreLayout::Auto => return,
        LcoreLayout::Single => (1, "single"),
        LcoreLayout::RxTx => (2, "rx-tx"),
        LcoreLayout::RxFwdTx => (3, "rx-fwd-tx"),
    };
    let given = config.lcores.cores.len();
    if !doc.sound(&["lcores"]) || !doc.has("lcores.cores") || given == 0 || given >= needed {
        return;
    }
    let message = format!("`layout` \"{layout}\" needs {needed} cores, but `cores` names {given}");
    let problem = Problem::new(message, format!("name at least {needed} cores, or write layout = \"auto\""));
    doc.note(problem.with_label("lcores.cores", "").with_label("lcores.layout", "the layout"));
}

/// Checks that only DT has an α per port; other policies have a common one.
fn alphas_are_dts(doc: &Doc, config: &SwitchConfig) {
    let policy = &config.buffer.policy;
    if policy.takes_alphas_of_ports() || !doc.sound(&["buffer.policy"]) {
        return;
    }
    let own = (0..config.ports.len()).map(|index| format!("ports[{index}].alpha"));
    let key_of_rate = |index: usize, key: &str| format!("buffer.rates[{index}].{key}");
    let is_there = |index: &usize| buffer_rates::KEYS.iter().any(|key| doc.has(&key_of_rate(*index, key.name())));
    let of_rates = (0..).take_while(is_there).map(|index| key_of_rate(index, "alpha"));
    for key in own.chain(of_rates).filter(|key| doc.has(key)) {
        let message = format!("policy \"{}\" has no `alpha` of ports; \"dt\" has", policy.name());
        let help = "write policy = \"dt\" in [buffer], or take `alpha` out";
        doc.note(Problem::new(message, help).with_label(key, "").with_label("buffer.policy", "the policy"));
    }
}

/// Checks that the policy works in slices of the buffer.
fn slices_are_allowed(doc: &Doc, config: &SwitchConfig) {
    let policy = &config.buffer.policy;
    if config.buffer.slices == 1 || policy.takes_slices() || !doc.sound(&["buffer.slices", "buffer.policy"]) {
        return;
    }
    let message = format!("policy \"{}\" has no `slices`: its thresholds follow from the whole buffer", policy.name());
    let help = "write policy = \"dt\", \"static\" or \"sonic\", or take `slices` out";
    doc.note(Problem::new(message, help).with_label("buffer.slices", "").with_label("buffer.policy", "the policy"));
}

/// Checks that each port has the rate that the rule for Φ needs.
fn auto_headroom_has_rates(doc: &Doc, config: &SwitchConfig) -> bool {
    let by_rule = config.buffer.headroom == Headroom::Auto && config.lossless_classes() > 0;
    if !by_rule || !doc.sound(&["buffer.headroom", "buffer.policy", "classes.lossless", "classes.preset"]) {
        return !by_rule;
    }
    let given = if doc.has("buffer.headroom") { "" } else { " (the default)" };
    let mut all_known = true;
    for (index, port) in config.ports.iter().enumerate() {
        let key = format!("ports[{index}].rate");
        // A value that a clone lacks is missing at its port.
        let is_clone = port.clone_of().is_some() || !doc.sound(&[&format!("ports[{index}].clone_of")]);
        if port.rate.is_some() || port.headroom.is_some() || is_clone || !doc.sound(&[&key]) {
            continue;
        }
        all_known = false;
        let message = format!(
            "port \"{}\" has no `rate`, from which `headroom` \"auto\"{given} sizes the headroom of lossless classes {}",
            port.name, config.classes.lossless
        );
        let help =
            "write rate = \"10Gbps\" in the port, headroom = \"60KB\" in [buffer], or lossless = [] in [classes]";
        doc.note(Problem::new(message, help).with_label(key, "").with_label("buffer.headroom", "by the rule"));
    }
    all_known
}
