//! References that are made of declarations in the code: keys of files, metrics, drop reasons.

use std::fmt::Write;

use weir_control::metrics;
use weir_nic::model::ModelDrop;
use weir_reader::{AnyKey, Keys};
use weir_units::DropReason;

/// Pages of the site: path in the repository, and text.
pub(super) fn pages() -> [(&'static str, String); 3] {
    [("docs/KEYS.md", keys()), ("docs/METRICS.md", metrics_page()), ("docs/DROP_REASONS.md", drop_reasons())]
}

fn keys() -> String {
    let mut page = String::from(
        "# Keys of files\n\nAll keys of switches' files ([description](CONFIGURATION.md)) and scenarios' files \
         ([description](SCENARIOS.md)). Values have [units](CONFIGURATION.md#values). A key without a default is absent by default. \
         `weir keys TABLE` prints one of these tables.\n\n## Switches\n\nA key that is *live* [can change at run \
         time](OPERATING.md#what-can-be-set).\n",
    );
    for (name, keys) in weir_config::known_keys() {
        table(&mut page, name, keys, true);
    }
    page += "\n## Scenarios\n";
    let mut written: Vec<(&str, Keys)> = Vec::new();
    for (name, keys) in weir_scenario::file::known_keys() {
        // Flows and workloads have the tables of [nic], and runs that of all switches.
        match written.iter().find(|(_, other)| is_same(keys, other)) {
            Some((other, _)) => {
                let _ = write!(page, "\n### {}\n\nAs {}.\n", title(name), title(other));
            }
            None => {
                table(&mut page, name, keys, false);
                written.push((name, keys));
            }
        }
    }
    page
}

/// Prints the keys of a table; all tables that have this name or part of it, `None` if there is none.
pub(super) fn keys_of(name: &str) -> Option<String> {
    let tables = weir_config::known_keys().chain(weir_scenario::file::known_keys());
    let chosen: Vec<_> = tables.filter(|(table, _)| *table == name).collect();
    let mut text = String::new();
    for (n, (table, keys)) in chosen.iter().enumerate() {
        if chosen[..n].iter().any(|(_, other)| is_same(keys, other)) {
            continue;
        }
        let _ = writeln!(text, "{}", title(table).replace('`', ""));
        for key in *keys {
            let default = match default(*key) {
                default if default.is_empty() => String::new(),
                default => format!(" (default {default})"),
            };
            let _ = writeln!(text, "\n  {} = {}{}\n      {}", key.name(), key.values(), default, key.help());
        }
    }
    (!chosen.is_empty()).then_some(text)
}

fn is_same(keys: Keys, other: Keys) -> bool {
    let parts = |keys: Keys| keys.iter().map(|key| (key.name(), key.help())).collect::<Vec<_>>();
    !keys.is_empty() && parts(keys) == parts(other)
}

/// Name of a table as in a heading.
fn title(name: &str) -> String {
    if name.is_empty() { "Top level".to_owned() } else { format!("`[{name}]`") }
}

fn table(page: &mut String, name: &str, keys: Keys, says_live: bool) {
    if keys.is_empty() {
        return;
    }
    let live = if says_live { " live |" } else { "" };
    let _ = write!(page, "\n### {}\n\n| key | values | default |{live} meaning |\n|---|---|---|", title(name));
    page.push_str(if says_live { "---|---|\n" } else { "---|\n" });
    for key in keys {
        let live = match (says_live, key.restart()) {
            (false, _) => "",
            (true, None) => " live |",
            (true, Some(_)) => " |",
        };
        let cell = |text: &str| text.replace('|', "\\|");
        let _ = writeln!(
            page,
            "| `{}` | {} | {} |{live} {} |",
            key.name(),
            cell(&key.values()),
            cell(&default(*key)),
            cell(key.help())
        );
    }
}

/// Default as in a file, or in words.
fn default(key: &dyn AnyKey) -> String {
    match key.default() {
        None => key.default_help().to_owned(),
        Some(text) if text.parse::<f64>().is_ok() || text.parse::<bool>().is_ok() || text.starts_with('[') => {
            format!("`{text}`")
        }
        Some(text) => format!("`\"{text}\"`"),
    }
}

fn metrics_page() -> String {
    let mut page = String::from(
        "# Metrics\n\nMetrics of `weir show metrics` and of `/metrics` ([Prometheus and \
         Grafana](LIVE.md#prometheus-and-grafana)), in OpenMetrics' types.\n\n| metric | type | content |\n|---|---|---|\n",
    );
    for family in metrics::families() {
        let _ = writeln!(page, "| `{}` | {} | {} |", family.name, family.kind, family.help);
    }
    page
}

fn drop_reasons() -> String {
    let mut page = String::from(
        "# Drop reasons\n\nReasons for which a switch drops a frame. Each has a counter in `weir show losses`, in \
         `weir_port_drops` of the [metrics](METRICS.md) and in the summary.\n\n| reason | meaning |\n|---|---|\n",
    );
    for reason in DropReason::ALL {
        let _ = writeln!(page, "| `{}` | {} |", reason.name(), reason.help().trim());
    }
    page += "\n## NIC in front of a host\n\nReasons for which the [NIC model](CONFIGURATION.md#nic) of a port drops a frame.\n\n\
             | reason | meaning |\n|---|---|\n";
    for reason in ModelDrop::ALL {
        let _ = writeln!(page, "| `{}` | {} |", reason.name(), reason.help());
    }
    page
}
