//! `flow_control` of `[[ports]]`, a word or a table.

use weir_flowctl::kinds::PfcKind;
use weir_flowctl::{FLOW_CONTROLS, FlowControlChoice};
use weir_reader::{Problem, Table};

use super::kinds::{keys_of_kinds, listed};

/// Reads the flow control of a port; PFC if absent or invalid.
pub(super) fn read(port: &Table<'_>) -> FlowControlChoice {
    let (table, is_table) = port.table_or_word("flow_control", "ports.flow_control");
    let kinds: Vec<_> = FLOW_CONTROLS.all().iter().map(|kind| (kind.id(), *kind)).collect();
    let by_default = || FlowControlChoice::new(PfcKind);
    // A word selects all defaults.
    if !is_table {
        return port.choice("flow_control", &kinds).map_or_else(by_default, |kind| kind.parse(&table));
    }
    if !table.has("kind") && table.doc().sound(&[&table.key_path("kind")]) {
        let help = "write kind = \"gfc-buffer\" or another kind";
        table.doc().refuse(Problem::new("`flow_control` needs `kind`", help).with_label(table.key_path("kind"), ""));
    }
    match table.choice("kind", &kinds) {
        Some(chosen) => {
            refuse_strays(&table, chosen.id());
            chosen.parse(&table)
        }
        None => {
            // Invalid values are reported for any kind; an error that two kinds report is kept once.
            kinds.iter().for_each(|(_, kind)| drop(kind.parse(&table)));
            by_default()
        }
    }
}

/// Records errors for keys that the kind does not have.
fn refuse_strays(table: &Table<'_>, kind: &str) {
    let keys = keys_of_kinds(FLOW_CONTROLS.all());
    for (key, kinds) in keys.iter().filter(|(key, kinds)| table.has(key) && !kinds.contains(&kind)) {
        let has = if kinds.len() == 1 { "has" } else { "have" };
        let message = format!("`kind` \"{kind}\" has no `{key}`; {} {has} it", listed(kinds, "and"));
        let help = format!("take `{key}` out, or write kind = {}", listed(kinds, "or"));
        table.doc().note(
            Problem::new(message, help)
                .with_key_label(table.key_path(key), "")
                .with_label(table.key_path("kind"), "the kind"),
        );
    }
}
