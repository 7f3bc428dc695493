//! Rules between the ports' flow control and the rest of the file.

use weir_flowctl::{PortCheck, QueueLimit};
use weir_reader::{Doc, Problem};
use weir_units::Bytes;

use crate::{Device, PortConfig, SwitchConfig};

pub(super) fn check(doc: &Doc, config: &SwitchConfig) {
    for controlled_port in controlled_ports(doc, config) {
        has_lossless_classes(doc, config, &controlled_port);
        has_a_limit(doc, config, &controlled_port);
        if let Some(limit) = controlled_port.limit {
            threshold_is_below(doc, &controlled_port, limit, false);
        }
    }
    for (index, port) in real_ports(doc, config) {
        port.flow_control.check(&PortCheck { doc, path: format!("ports[{index}]"), rate: port.rate });
    }
    traces_obey_pauses_alone(doc, config);
    blocks_are_cell_multiples(doc, config);
}

/// Checks that a port that replays a trace uses PFC or PAUSE, which it obeys but never sends, or has a NIC model in front.
fn traces_obey_pauses_alone(doc: &Doc, config: &SwitchConfig) {
    for (index, port) in real_ports(doc, config) {
        let is_obeyed = port.flow_control.message_kind().pauses() || port.nic.is_some();
        if is_obeyed || !matches!(port.device, Device::Replay(_)) {
            continue;
        }
        let kind = port.flow_control.kind();
        let message = format!("a port that replays a trace obeys PFC or PAUSE, but `flow_control` is \"{kind}\"");
        let problem = Problem::new(message, "write flow_control = \"pfc\", or nic = {} for a NIC that obeys it");
        doc.note(
            problem
                .with_label(format!("ports[{index}].flow_control"), "")
                .with_label(format!("ports[{index}].replay"), "the trace"),
        );
    }
}

/// Checks that ports have a rate where stages, credit or message intervals derive from the rate.
pub(super) fn check_rates(doc: &Doc, config: &SwitchConfig) {
    for (index, port) in real_ports(doc, config).filter(|(_, port)| port.flow_control.needs_rate()) {
        let rate = format!("ports[{index}].rate");
        if port.rate.is_some() || !doc.sound(&[&rate]) {
            continue;
        }
        let kind = port.flow_control.kind();
        let message = format!("port \"{}\" has no `rate`, which `flow_control` \"{kind}\" needs", port.name);
        let problem = Problem::new(message, "write rate = \"10Gbps\" in the port");
        doc.note(problem.with_label(rate, "").with_label(format!("ports[{index}].flow_control"), "the flow control"));
    }
}

/// Checks the ports' default limits, for a file whose other sizes fit.
pub(super) fn check_defaults(doc: &Doc, config: &SwitchConfig) {
    if !doc.sound(&[&format!("buffer.{}", config.buffer.policy.name())]) {
        return;
    }
    for controlled_port in controlled_ports(doc, config) {
        let limit = config.b_m_by_default(controlled_port.index).filter(|_| controlled_port.limit.is_none());
        match limit.filter(|_| doc.sound(&[&controlled_port.key(controlled_port.limit_key)])) {
            Some(Bytes::ZERO) => default_is_nothing(doc, config, &controlled_port),
            Some(limit) => threshold_is_below(doc, &controlled_port, limit, true),
            None => {}
        }
    }
}

/// Port, other than a clone, with GFC or CBFC.
struct FlowControlledPort<'c> {
    index: usize,
    port: &'c PortConfig,
    limit_key: &'static str,
    limit: Option<Bytes>,
    /// Key and value of the queue length from which the sender slows down; the limit must exceed it.
    threshold: Option<(&'static str, Bytes)>,
}

impl FlowControlledPort<'_> {
    fn kind(&self) -> &'static str {
        self.port.flow_control.kind()
    }

    fn flow_control(&self) -> String {
        format!("ports[{}].flow_control", self.index)
    }

    fn key(&self, key: &str) -> String {
        format!("ports[{}].flow_control.{key}", self.index)
    }
}

fn controlled_ports<'c>(doc: &Doc, config: &'c SwitchConfig) -> Vec<FlowControlledPort<'c>> {
    let controlled_port = |(index, port): (usize, &'c PortConfig)| {
        let QueueLimit { key, given, threshold, .. } = port.flow_control.limit()?;
        Some(FlowControlledPort { index, port, limit_key: key, limit: given, threshold })
    };
    real_ports(doc, config).filter_map(controlled_port).collect()
}

/// Ports that are known not to be clones.
fn real_ports<'c>(doc: &Doc, config: &'c SwitchConfig) -> impl Iterator<Item = (usize, &'c PortConfig)> {
    let ports = config.ports.iter().enumerate();
    ports.filter(|(index, port)| port.clone_of().is_none() && doc.sound(&[&format!("ports[{index}].clone_of")]))
}

fn has_lossless_classes(doc: &Doc, config: &SwitchConfig, controlled_port: &FlowControlledPort<'_>) {
    if config.lossless_classes() > 0 || !doc.sound(&["classes.lossless", "classes.preset"]) {
        return;
    }
    let message = format!(
        "`flow_control` \"{}\" holds for the lossless classes, but `lossless` is empty",
        controlled_port.kind()
    );
    let help = "write lossless = [3] in [classes], or flow_control = \"none\" in the port";
    let problem = Problem::new(message, help).with_label(controlled_port.flow_control(), "");
    doc.note(problem.with_label("classes.lossless", "no lossless class"));
}

/// Checks that a limit exists: given, or by default from a constant threshold, as of the static policy.
fn has_a_limit(doc: &Doc, config: &SwitchConfig, controlled_port: &FlowControlledPort<'_>) {
    let (key, policy) = (controlled_port.limit_key, &config.buffer.policy);
    let by_default = policy.constant_threshold().is_some();
    if controlled_port.limit.is_some() || by_default || !doc.sound(&["buffer.policy", &controlled_port.key(key)]) {
        return;
    }
    let given = if doc.has("buffer.policy") { "" } else { " (the default)" };
    let (kind, name) = (controlled_port.kind(), policy.name());
    let message =
        format!("`flow_control` \"{kind}\" needs `{key}`, since the thresholds of `policy` \"{name}\"{given} move");
    let help = format!(
        "write flow_control = {{ kind = \"{kind}\", {key} = \"200KB\" }}, or policy = \"static\" in [buffer] for a default"
    );
    doc.note(
        Problem::new(message, help).with_label(controlled_port.key(key), "").with_label("buffer.policy", "the policy"),
    );
}

fn threshold_is_below(doc: &Doc, controlled_port: &FlowControlledPort<'_>, limit: Bytes, is_default: bool) {
    let Some((key, threshold)) = controlled_port.threshold.filter(|(_, threshold)| *threshold >= limit) else { return };
    let (from, larger) = if is_default {
        (
            " (what the buffer keeps for a queue less a frame of each part, the default)",
            "`threshold` in [buffer.static]",
        )
    } else {
        ("", "b_m")
    };
    let message = format!("`{key}` {threshold} must be below `b_m` {limit}{from}");
    let problem = Problem::new(message, format!("write {key} below \"{limit}\", or a larger {larger}"));
    doc.note(problem.with_label(controlled_port.key(key), "").with_label(controlled_port.key("b_m"), "the limit"));
}

fn default_is_nothing(doc: &Doc, config: &SwitchConfig, controlled_port: &FlowControlledPort<'_>) {
    let kept = config.kept_for_a_queue(controlled_port.index).unwrap_or(Bytes::ZERO);
    let key = controlled_port.limit_key;
    let message = format!(
        "`{key}` has no default: of the {kept} that the buffer keeps for a queue of port \"{}\" (`private`, `threshold` \
         and `headroom`) a frame of {} leaves no cell in any",
        controlled_port.port.name,
        config.frame_bytes_max()
    );
    let problem = Problem::new(message, format!("write a larger `threshold` in [buffer.static], or {key}"));
    doc.note(problem.with_label(controlled_port.key(key), "").with_label("buffer.static.threshold", "the threshold"));
}

/// Checks that blocks are whole cells: a larger cell would hold more than was credited.
fn blocks_are_cell_multiples<'c>(doc: &Doc, config: &'c SwitchConfig) {
    let cell = u64::from(config.buffer.cell_bytes);
    if !doc.sound(&["buffer.cell_bytes"]) {
        return;
    }
    let parted = |(index, port): (usize, &'c PortConfig)| {
        let block = port.flow_control.block()?.get();
        (!block.is_multiple_of(cell)).then_some((index, port, block))
    };
    let Some((index, port, block)) = real_ports(doc, config).find_map(parted) else { return };
    let message = format!(
        "`cell_bytes` {cell} does not divide {block}: `flow_control` \"{}\" of port \"{}\" counts blocks of {block} B, of which \
         each must be whole cells",
        port.flow_control.kind(),
        port.name
    );
    let help = format!(
        "write cell_bytes = {block} or a smaller power of two in [buffer], or another flow_control in the port"
    );
    let problem = Problem::new(message, help).with_label("buffer.cell_bytes", "");
    doc.note(problem.with_label(format!("ports[{index}].flow_control"), "the flow control"));
}
