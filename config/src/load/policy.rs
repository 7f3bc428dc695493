//! `[buffer] policy` and the policies' tables.

use std::sync::Arc;

use weir_mmu::policy::{BUFFER_POLICIES, BufferPolicyConfig, ConfigContext, DEFAULT};
use weir_reader::{Doc, Problem, Table};

use crate::{Headroom, SwitchConfig};

/// Reads the selected policy, and rejects the tables of the others.
pub(super) fn read(table: &Table<'_>) -> Arc<dyn BufferPolicyConfig> {
    // Every table is read, so that its own errors are reported even if it is rejected.
    let kinds = BUFFER_POLICIES.all().iter();
    let mut policies: Vec<_> = kinds.map(|kind| kind.parse(&table.table_of_kind(*kind))).collect();
    let choices: Vec<(&'static str, usize)> =
        policies.iter().enumerate().map(|(index, policy)| (policy.name(), index)).collect();
    let default = policies.iter().position(|policy| policy.name() == DEFAULT).expect("the default is one of them");
    let chosen = policies.swap_remove(table.choice("policy", &choices).unwrap_or(default));
    for policy in policies {
        if table.has(policy.name()) && table.doc().sound(&["buffer.policy"]) {
            refuse_other(table, policy.name(), chosen.name());
        }
    }
    chosen
}

fn refuse_other(table: &Table<'_>, name: &str, chosen: &str) {
    let given = if table.has("policy") { "" } else { " (the default)" };
    let message = format!("[buffer.{name}] is given, but `policy` is \"{chosen}\"{given}");
    let problem = Problem::new(message, format!("write policy = \"{name}\" in [buffer], or take [buffer.{name}] out"))
        .with_key_label(table.key_path(name), "not the chosen policy")
        .with_label(table.key_path("policy"), "chosen here");
    table.doc().note(problem);
}

pub(super) fn context<'f>(doc: &'f Doc, config: &SwitchConfig) -> ConfigContext<'f> {
    ConfigContext {
        doc,
        size: config.buffer.size,
        headroom: match config.buffer.headroom {
            Headroom::Fixed(size) => Some(size),
            Headroom::Auto => (0..config.ports.len()).find_map(|port| config.given_headroom(port)),
        },
        xon: config.xon(),
        lossless_classes: config.lossless_classes(),
    }
}
