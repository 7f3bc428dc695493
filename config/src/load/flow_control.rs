//! `flow_control` of `[[ports]]`, as a word or as a table.

use weir_reader::{Problem, SIZE, TIME, Table, times_from};
use weir_units::{Bytes, Span};

use crate::buffer::BUFFER_MAX;
use crate::{CbfcConfig, FlowControl, GfcBufferConfig, GfcConceptualConfig, GfcPeer, GfcTimeConfig};

/// The keys that not every `kind` has, each with the kinds that do.
const KEYS: &[(&str, &[&str])] = &[
    ("tau", &["gfc-buffer", "gfc-conceptual", "gfc-time"]),
    ("b_m", &["gfc-buffer", "gfc-conceptual", "gfc-time"]),
    ("b_1", &["gfc-buffer"]),
    ("b_0", &["gfc-conceptual", "gfc-time"]),
    ("refresh", &["gfc-buffer", "gfc-conceptual"]),
    ("ageing", &["gfc-buffer", "gfc-conceptual", "gfc-time"]),
    ("period", &["gfc-conceptual", "gfc-time", "cbfc"]),
    ("peer", &["gfc-buffer"]),
    ("pulse_period", &["gfc-buffer"]),
    ("buffer", &["cbfc"]),
    ("unsafe_thresholds", &["gfc-buffer", "gfc-conceptual", "gfc-time"]),
];

/// Reads the flow control of a port; what is missing or wrong reads as PFC.
pub(super) fn read(port: &Table<'_>) -> FlowControl {
    let (table, is_table) = port.table_or_word("flow_control", "ports.flow_control");
    // Each is read, so that wrong values are told whatever the kind. A word has the defaults alone.
    let kinds = read_all(&table);
    if !is_table {
        return port.choice("flow_control", &kinds).unwrap_or(FlowControl::Pfc);
    }
    if !table.has("kind") && table.doc().sound(&[&table.at("kind")]) {
        let help = "write kind = \"gfc-buffer\" or another kind";
        table.doc().refuse(Problem::new("`flow_control` needs `kind`", help).at(table.at("kind"), ""));
    }
    let chosen = table.choice("kind", &kinds);
    if let Some(chosen) = chosen {
        refuse_strays(&table, chosen);
        refuse_pulses_unasked(&table, chosen);
    }
    chosen.unwrap_or(FlowControl::Pfc)
}

/// Every kind as the table has it, in the order of the reference.
fn read_all(table: &Table<'_>) -> [(&'static str, FlowControl); 7] {
    let size = |key| table.quantity(key, &SIZE, Bytes::new(1)..=BUFFER_MAX);
    let time = |key, least| table.quantity(key, &TIME, least..=Span::from_secs(1));
    let tau = time("tau", Span::from_nanos(1));
    let ageing = table.quantity("ageing", &TIME, Span::from_micros(1)..=Span::from_secs(1_000));
    let period = time("period", Span::from_micros(1));
    let b_m = size("b_m");
    let (b_0, refresh) = (size("b_0"), time("refresh", Span::from_micros(1)));
    let unsafe_thresholds = table.boolean("unsafe_thresholds").unwrap_or(false);
    let pulsed = GfcPeer::Pfc { period: table.quantity("pulse_period", &TIME, times_from(Span::from_nanos(1))) };
    let gfc_buffer = GfcBufferConfig {
        tau,
        b_m,
        b_1: size("b_1"),
        refresh,
        ageing,
        peer: table.choice("peer", &[("gfc", GfcPeer::Gfc), ("pfc", pulsed)]).unwrap_or(GfcPeer::Gfc),
        unsafe_thresholds,
    };
    let gfc_conceptual = GfcConceptualConfig { tau, b_m, b_0, period, refresh, ageing, unsafe_thresholds };
    let gfc_time = GfcTimeConfig { tau, b_m, b_0, period, ageing, unsafe_thresholds };
    let cbfc = CbfcConfig { buffer: size("buffer"), period };
    [
        FlowControl::Pfc,
        FlowControl::Pause,
        FlowControl::None,
        FlowControl::GfcBuffer(gfc_buffer),
        FlowControl::GfcConceptual(gfc_conceptual),
        FlowControl::GfcTime(gfc_time),
        FlowControl::Cbfc(cbfc),
    ]
    .map(|flow_control| (flow_control.kind(), flow_control))
}

/// Keys that the kind does not have.
fn refuse_strays(table: &Table<'_>, chosen: FlowControl) {
    let kind = chosen.kind();
    for (key, kinds) in KEYS.iter().filter(|(key, kinds)| table.has(key) && !kinds.contains(&kind)) {
        let quoted = |kind: &&str| format!("\"{kind}\"");
        let has = if kinds.len() == 1 { "has" } else { "have" };
        let owners: Vec<String> = kinds.iter().map(quoted).collect();
        let message = format!("`kind` \"{kind}\" has no `{key}`; {} {has} it", listed(&owners, "and"));
        let help = format!("take `{key}` out, or write kind = {}", listed(&owners, "or"));
        table.doc().note(Problem::new(message, help).at_key(table.at(key), "").at(table.at("kind"), "the kind"));
    }
}

/// Words as a sentence has them: "a", "b" and "c".
fn listed(words: &[String], last: &str) -> String {
    match words {
        [before @ .., end] if !before.is_empty() => format!("{} {last} {end}", before.join(", ")),
        _ => words.concat(),
    }
}

/// A period of pulses toward a peer that gets none.
fn refuse_pulses_unasked(table: &Table<'_>, chosen: FlowControl) {
    if !chosen.tells_stages() || !table.has("pulse_period") || !table.doc().sound(&[&table.at("peer")]) {
        return;
    }
    let given = if table.has("peer") { "" } else { " (the default)" };
    let message = format!("`pulse_period` is of a `peer` \"pfc\", but `peer` is \"gfc\"{given}");
    let problem = Problem::new(message, "write peer = \"pfc\", or take `pulse_period` out");
    table.doc().note(problem.at_key(table.at("pulse_period"), "").at(table.at("peer"), "the peer"));
}
