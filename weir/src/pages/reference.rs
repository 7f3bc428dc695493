//! References that are made of declarations in the code: keys of files, metrics, drop reasons.

use std::fmt::Write;

use weir_control::metrics;
use weir_experiments::Failure;
use weir_nic::model::ModelDrop;
use weir_reader::{AnyKey, Keys, nearest};
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

/// Names of all tables.
pub(super) fn tables() -> String {
    let names = |tables: &mut dyn Iterator<Item = (&'static str, Keys)>| {
        let names: Vec<&str> =
            tables.filter(|(name, keys)| !name.is_empty() && !keys.is_empty()).map(|it| it.0).collect();
        names.join("\n  ")
    };
    format!(
        "Tables of a switch's file:\n  {}\n\nTables of a scenario:\n  {}\n",
        names(&mut weir_config::known_keys()),
        names(&mut weir_scenario::file::known_keys())
    )
}

/// Describes the keys of a table, in both kinds of files if both have one of this name.
///
/// # Errors
/// No file has such a table.
pub(super) fn keys_of(name: &str) -> Result<String, Failure> {
    let name = name.trim_matches(['[', ']']);
    let of_switches = weir_config::known_keys().map(|(table, keys)| (table, "a switch's file", keys));
    let of_scenarios = weir_scenario::file::known_keys().map(|(table, keys)| (table, "a scenario", keys));
    let all: Vec<_> =
        of_switches.chain(of_scenarios).filter(|(table, _, keys)| !table.is_empty() && !keys.is_empty()).collect();
    let mut text = String::new();
    let mut written: Vec<Keys> = Vec::new();
    for (table, file, keys) in all.iter().filter(|(table, _, _)| *table == name) {
        if written.iter().any(|other| is_same(keys, other)) {
            continue;
        }
        written.push(keys);
        let _ = writeln!(text, "{}[{table}] of {file}", if text.is_empty() { "" } else { "\n" });
        for key in *keys {
            let default = match default(*key) {
                default if default.is_empty() => String::new(),
                default => format!("; default {default}"),
            };
            let plain = without_links(&format!("{}{default}\n      {}", key.values(), key.help()));
            let _ = writeln!(text, "\n  {}: {plain}", key.name());
        }
    }
    if text.is_empty() {
        let names: Vec<&str> = all.iter().map(|(table, _, _)| *table).collect();
        let help = nearest(name, &names).map_or("`weir keys` lists them".to_owned(), |near| format!("write {near}"));
        return Err(Failure::Argument(format!("no file has a table \"{name}\": {help}")));
    }
    Ok(text)
}

/// Replaces Markdown's links by their texts.
fn without_links(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        plain += before;
        match link.split_once("](").and_then(|(label, after)| Some((label, after.split_once(')')?.1))) {
            Some((label, after)) if !label.contains('[') => {
                plain += label;
                rest = after;
            }
            _ => {
                plain.push('[');
                rest = link;
            }
        }
    }
    plain + rest
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_become_their_texts() {
        assert_eq!(without_links("as [`a`](X.md#y), [b](Z.md) of [nic]"), "as `a`, b of [nic]");
        assert_eq!(without_links("`[[\"S0\", \"L3\"]]` [for](X.md) `[\"S0\"]`"), "`[[\"S0\", \"L3\"]]` for `[\"S0\"]`");
    }

    #[test]
    fn tables_of_both_kinds_of_files_are_described() {
        let text = keys_of("buffer.spfc").unwrap();
        assert!(
            text.starts_with("[buffer.spfc] of a switch's file\n")
                && text.contains("\n  k_spfc: integer, 1 to 64; default `5`\n")
        );
        let text = keys_of("[switch]").unwrap();
        assert!(text.contains("[switch] of a switch's file") && text.contains("[switch] of a scenario"), "{text}");
        assert!(keys_of("flow").unwrap_err().to_string().contains("write flows"));
    }

    #[test]
    fn every_key_is_described() {
        for (table, keys) in weir_config::known_keys().chain(weir_scenario::file::known_keys()) {
            for key in keys {
                assert!(key.help().ends_with(['.', ')']), "[{table}] {}: \"{}\"", key.name(), key.help());
                assert!(!key.values().is_empty(), "[{table}] {}", key.name());
            }
        }
    }

    #[test]
    fn every_metric_has_type_and_help() {
        let families = metrics::families();
        assert!(families.len() > 40, "{}", families.len());
        for family in families {
            assert!(!family.kind.is_empty() && !family.help.is_empty(), "{family:?}");
        }
    }
}
