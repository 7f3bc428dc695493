//! Rules between the ports' flow control and the rest of the file.

use std::ops::RangeInclusive;

use weir_reader::{Doc, Problem};
use weir_units::{Bytes, Span};

use crate::{FlowControl, GFC_AGEING_REFRESHES_MIN, GfcBufferConfig, GfcPeer, PolicyConfig, PortConfig, SwitchConfig};

/// Checks what each port gives for its flow control.
pub(super) fn check(doc: &Doc, config: &SwitchConfig) {
    for speaker in speakers(doc, config) {
        has_lossless_classes(doc, config, &speaker);
        has_a_limit(doc, config, &speaker);
        if let Some(limit) = speaker.limit {
            threshold_is_below(doc, &speaker, limit, false);
        }
        pulses_have_quanta(doc, &speaker);
        outlives_its_refresh(doc, &speaker);
    }
    blocks_hold_whole_cells(doc, config);
}

/// Stages, credit and the time between messages are reckoned from the port's rate.
pub(super) fn check_rates(doc: &Doc, config: &SwitchConfig) {
    for speaker in speakers(doc, config) {
        let rate = format!("ports[{}].rate", speaker.index);
        if speaker.port.rate.is_some() || !doc.sound(&[&rate]) {
            continue;
        }
        let message =
            format!("port \"{}\" has no `rate`, which `flow_control` \"{}\" needs", speaker.port.name, speaker.kind());
        let problem = Problem::new(message, "write rate = \"10Gbps\" in the port");
        doc.note(problem.at(rate, "").at(speaker.flow_control(), "the flow control"));
    }
}

/// Checks the limits that ports have by default; for a file whose other sizes fit.
pub(super) fn check_defaults(doc: &Doc, config: &SwitchConfig) {
    if !doc.sound(&["buffer.static"]) {
        return;
    }
    for speaker in speakers(doc, config) {
        let limit = config.b_m_by_default(speaker.index).filter(|_| speaker.limit.is_none());
        match limit.filter(|_| doc.sound(&[&speaker.key(speaker.limit_key)])) {
            Some(Bytes::ZERO) => default_is_nothing(doc, config, &speaker),
            Some(limit) => threshold_is_below(doc, &speaker, limit, true),
            None => {}
        }
    }
}

/// A port, no clone, that speaks GFC or CBFC.
struct Speaker<'c> {
    index: usize,
    port: &'c PortConfig,
    /// The key of the length that its queues never pass.
    limit_key: &'static str,
    limit: Option<Bytes>,
    /// The key and value of the length from which its sender slows down, which a limit is above.
    threshold: Option<(&'static str, Bytes)>,
}

impl Speaker<'_> {
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

fn speakers<'c>(doc: &Doc, config: &'c SwitchConfig) -> Vec<Speaker<'c>> {
    let ports = config.ports.iter().enumerate();
    let real =
        ports.filter(|(index, port)| port.clone_of().is_none() && doc.sound(&[&format!("ports[{index}].clone_of")]));
    let speaker = |(index, port): (usize, &'c PortConfig)| {
        let (limit_key, limit) = port.flow_control.limit()?;
        let threshold = match port.flow_control {
            FlowControl::GfcBuffer(gfc) => gfc.b_1.map(|b_1| ("b_1", b_1)),
            FlowControl::GfcConceptual(gfc) => gfc.b_0.map(|b_0| ("b_0", b_0)),
            FlowControl::GfcTime(gfc) => gfc.b_0.map(|b_0| ("b_0", b_0)),
            _ => None,
        };
        Some(Speaker { index, port, limit_key, limit, threshold })
    };
    real.filter_map(speaker).collect()
}

fn has_lossless_classes(doc: &Doc, config: &SwitchConfig, speaker: &Speaker<'_>) {
    if config.lossless_classes() > 0 || !doc.sound(&["classes.lossless", "classes.preset"]) {
        return;
    }
    let message =
        format!("`flow_control` \"{}\" holds for the lossless classes, but `lossless` is empty", speaker.kind());
    let help = "write lossless = [3] in [classes], or flow_control = \"none\" in the port";
    let problem = Problem::new(message, help).at(speaker.flow_control(), "");
    doc.note(problem.at("classes.lossless", "no lossless class"));
}

/// Only the static policy's thresholds, which stay where they are, give one.
fn has_a_limit(doc: &Doc, config: &SwitchConfig, speaker: &Speaker<'_>) {
    let (key, policy) = (speaker.limit_key, &config.buffer.policy);
    let by_default = matches!(policy, PolicyConfig::Static { .. });
    if speaker.limit.is_some() || by_default || !doc.sound(&["buffer.policy", &speaker.key(key)]) {
        return;
    }
    let given = if doc.has("buffer.policy") { "" } else { " (the default)" };
    let (kind, name) = (speaker.kind(), policy.name());
    let message =
        format!("`flow_control` \"{kind}\" needs `{key}`, since the thresholds of `policy` \"{name}\"{given} move");
    let help = format!(
        "write flow_control = {{ kind = \"{kind}\", {key} = \"200KB\" }}, or policy = \"static\" in [buffer] for a default"
    );
    doc.note(Problem::new(message, help).at(speaker.key(key), "").at("buffer.policy", "the policy"));
}

fn threshold_is_below(doc: &Doc, speaker: &Speaker<'_>, limit: Bytes, is_default: bool) {
    let Some((key, threshold)) = speaker.threshold.filter(|(_, threshold)| *threshold >= limit) else { return };
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
    doc.note(problem.at(speaker.key(key), "").at(speaker.key("b_m"), "the limit"));
}

fn default_is_nothing(doc: &Doc, config: &SwitchConfig, speaker: &Speaker<'_>) {
    let kept = config.kept_for_a_queue(speaker.index).unwrap_or(Bytes::ZERO);
    let key = speaker.limit_key;
    let message = format!(
        "`{key}` has no default: of the {kept} that the buffer keeps for a queue of port \"{}\" (`private`, `threshold` \
         and `headroom`) a frame of {} leaves no cell in any",
        speaker.port.name,
        config.frame_bytes_max()
    );
    let problem = Problem::new(message, format!("write a larger `threshold` in [buffer.static], or {key}"));
    doc.note(problem.at(speaker.key(key), "").at("buffer.static.threshold", "the threshold"));
}

/// A pulse is a pause of so many quanta: too few make coarse rates, and a PAUSE has 16 bits for them.
fn pulses_have_quanta(doc: &Doc, speaker: &Speaker<'_>) {
    let FlowControl::GfcBuffer(GfcBufferConfig { peer: GfcPeer::Pfc { period }, .. }) = speaker.port.flow_control
    else {
        return;
    };
    let key = speaker.key("pulse_period");
    let Some(rate) = speaker.port.rate.filter(|_| doc.sound(&[&key])) else { return };
    let (least, most) = PULSE_QUANTA.into_inner();
    let (given, from) = match period {
        Some(period) => (period, ""),
        None => (GfcPeer::PULSE_PERIOD_DEFAULT, " (the default)"),
    };
    let bits_ps = u128::from(rate.as_bps()) * u128::from(given.as_picos());
    let quanta_ps = |quanta: u64| u128::from(quanta) * QUANTUM_BITS_PS;
    let quanta = match bits_ps {
        few if few < quanta_ps(least) => few / QUANTUM_BITS_PS,
        many if many > quanta_ps(most) => many.div_ceil(QUANTUM_BITS_PS),
        _ => return,
    };
    let message = format!(
        "`pulse_period` {given}{from} is {quanta} in quanta of 512 bit times at `rate` {rate}, but must be {least} to {most}"
    );
    let shortest = as_shown(quanta_ps(least).div_ceil(u128::from(rate.as_bps())) as u64);
    let longest = Span::from_picos((quanta_ps(most) / u128::from(rate.as_bps())) as u64);
    let problem = Problem::new(message, format!("write pulse_period from \"{shortest}\" to \"{longest}\""));
    doc.note(problem.at(key, "").at(format!("ports[{}].rate", speaker.index), "the rate"));
}

/// What ages is told again in time, though messages may be lost.
fn outlives_its_refresh(doc: &Doc, speaker: &Speaker<'_>) {
    let (key, given, ageing) = match speaker.port.flow_control {
        FlowControl::GfcBuffer(gfc) => ("refresh", gfc.refresh, gfc.ageing),
        FlowControl::GfcConceptual(gfc) => ("refresh", gfc.refresh, gfc.ageing),
        FlowControl::GfcTime(gfc) => ("period", gfc.period, gfc.ageing),
        _ => return,
    };
    let (Some(ageing), Some(rate)) = (ageing, speaker.port.rate) else { return };
    let refresh = given.unwrap_or_else(|| rate.time_for(GFC_REFRESH_DEFAULT));
    let least = refresh * GFC_AGEING_REFRESHES_MIN;
    if ageing >= least || !doc.sound(&[&speaker.key("ageing"), &speaker.key(key)]) {
        return;
    }
    let from = if given.is_some() { "" } else { " (the default)" };
    let message = format!(
        "`ageing` {ageing} is less than {GFC_AGEING_REFRESHES_MIN} times `{key}` {refresh}{from}: a peer that is still there would be \
         taken for gone"
    );
    let problem =
        Problem::new(message, format!("write ageing = \"{}\" or more, or a shorter {key}", as_shown(least.as_picos())));
    doc.note(problem.at(speaker.key("ageing"), "").at(speaker.key(key), "what it is measured by"));
}

/// A time rounded up to what is shown of it, three decimals.
fn as_shown(picos: u64) -> Span {
    let mut step = 1;
    while picos / step >= 1_000_000 {
        step *= 1_000;
    }
    Span::from_picos(picos.div_ceil(step) * step)
}

/// Credit counts blocks, the buffer cells: a larger cell would hold more than was credited.
fn blocks_hold_whole_cells(doc: &Doc, config: &SwitchConfig) {
    let cell = config.buffer.cell_bytes;
    if CREDIT_BLOCK_BYTES.is_multiple_of(cell) || !doc.sound(&["buffer.cell_bytes"]) {
        return;
    }
    let credited =
        |speaker: &Speaker<'_>| matches!(speaker.port.flow_control, FlowControl::GfcTime(_) | FlowControl::Cbfc(_));
    let Some(speaker) = speakers(doc, config).into_iter().find(credited) else { return };
    let message = format!(
        "`cell_bytes` {cell} does not divide {CREDIT_BLOCK_BYTES}: `flow_control` \"{}\" of port \"{}\" counts blocks of \
         {CREDIT_BLOCK_BYTES} B, of which each must be whole cells",
        speaker.kind(),
        speaker.port.name
    );
    let help = "write cell_bytes = 64 or a smaller power of two in [buffer], or another flow_control in the port";
    doc.note(Problem::new(message, help).at("buffer.cell_bytes", "").at(speaker.flow_control(), "the flow control"));
}

/// Default of T, and of the time between messages: InfiniBand's, 65,535 byte times at the port's rate.
const GFC_REFRESH_DEFAULT: Bytes = Bytes::new(65_535);
const PULSE_QUANTA: RangeInclusive<u64> = 100..=65_535;
const QUANTUM_BITS_PS: u128 = 512 * 1_000_000_000_000;
const CREDIT_BLOCK_BYTES: u32 = 64;
