//! References that are made of declarations in the code: keys of files, metrics, drop reasons.

use std::fmt::Write;

use weir_control::metrics;
use weir_experiments::Failure;
use weir_flowctl::FLOW_CONTROLS;
use weir_nic::model::ModelDrop;
use weir_reader::{AnyKey, Keys, nearest};
use weir_units::DropReason;

/// Pages of the site: path in the repository, and text.
pub(super) fn pages() -> [(&'static str, String); 3] {
    [("docs/KEYS.md", keys()), ("docs/METRICS.md", metrics_page()), ("docs/DROP_REASONS.md", drop_reasons())]
}

fn keys() -> String {
    let mut page = String::from(
        "# Keys of files\n\nAll keys of the files of switches ([description](CONFIGURATION.md)), scenarios ([description](SCENARIOS.md)) and \
         sweeps ([description](EXPERIMENTS.md#sweeps)). Values have [units](CONFIGURATION.md#values). A key without a default is absent by default. \
         `weir keys TABLE` prints one of these tables.\n\n## Switches\n\nA key that is *live* [can change at run \
         time](OPERATING.md#what-can-be-set).\n",
    );
    for known in of_switches() {
        table(&mut page, &known.name, known.keys, true);
    }
    for (kind, all) in [("Scenarios", of_scenarios()), ("Sweeps", of_sweeps())] {
        let _ = write!(page, "\n## {kind}\n");
        // Flows and workloads have the tables of [nic], and runs that of all switches.
        for (n, known) in all.iter().enumerate() {
            match all[..n].iter().find(|other| is_same(known.keys, other.keys)) {
                Some(other) => {
                    let _ = write!(page, "\n### {}\n\nAs {}.\n", title(&known.name), title(&other.name));
                }
                None => table(&mut page, &known.name, known.keys, false),
            }
        }
    }
    page
}

/// Table of a kind of file.
struct KnownTable {
    name: String,
    file: &'static str,
    keys: Keys,
}

impl KnownTable {
    fn new(name: &str, file: &'static str, keys: Keys) -> KnownTable {
        KnownTable { name: name.to_owned(), file, keys }
    }

    /// Whether `weir keys` lists the table: it has a name and declared keys.
    fn is_listed(&self) -> bool {
        !self.name.is_empty() && !self.keys.is_empty()
    }
}

/// Tables of a switch's file. Each kind of flow control is a table of its own, since kinds share names of keys.
fn of_switches() -> Vec<KnownTable> {
    const FILE: &str = "a switch's file";
    let mut all = Vec::new();
    for (name, keys) in weir_config::known_keys() {
        if name != "ports.flow_control" {
            all.push(KnownTable::new(name, FILE, keys));
            continue;
        }
        // `kind` is first, and keys of kinds follow.
        all.push(KnownTable::new(name, FILE, &keys[..1]));
        let kinds = FLOW_CONTROLS.all().iter();
        all.extend(kinds.map(|kind| KnownTable::new(&format!("{name}.{}", kind.id()), FILE, kind.keys())));
    }
    all
}

fn of_scenarios() -> Vec<KnownTable> {
    weir_scenario::file::known_keys().map(|(name, keys)| KnownTable::new(name, "a scenario", keys)).collect()
}

fn of_sweeps() -> Vec<KnownTable> {
    let tables = weir_experiments::sweep::known_keys();
    tables.map(|(name, keys)| KnownTable::new(if name.is_empty() { "sweep" } else { name }, "a sweep", keys)).collect()
}

/// Names of all tables.
pub(super) fn tables() -> String {
    let names = |tables: Vec<KnownTable>| {
        tables.into_iter().filter(KnownTable::is_listed).map(|known| format!("  {}\n", known.name)).collect::<String>()
    };
    format!(
        "Tables of a switch's file:\n{}\nTables of a scenario:\n{}\nTables of a sweep:\n{}",
        names(of_switches()),
        names(of_scenarios()),
        names(of_sweeps())
    )
}

/// Describes the keys of a table, of each kind of file that has one of this name.
///
/// # Errors
/// No file has such a table.
pub(super) fn keys_of(name: &str) -> Result<String, Failure> {
    let name = name.trim_matches(['[', ']']);
    // A scenario has the tables of a switch's file below these two.
    let name = ["switch.", "runs.switch."]
        .into_iter()
        .filter_map(|above| name.strip_prefix(above))
        .find(|rest| weir_config::known_keys().any(|(table, keys)| table == *rest && !keys.is_empty()))
        .unwrap_or(name);
    let all: Vec<KnownTable> =
        of_switches().into_iter().chain(of_scenarios()).chain(of_sweeps()).filter(KnownTable::is_listed).collect();
    let mut text = String::new();
    let chosen: Vec<&KnownTable> = all.iter().filter(|known| known.name == name).collect();
    for (n, known) in chosen.iter().enumerate() {
        if chosen[..n].iter().any(|other| is_same(known.keys, other.keys)) {
            continue;
        }
        let heading = heading(name);
        let _ = writeln!(text, "{}{heading} of {}", if text.is_empty() { "" } else { "\n" }, known.file);
        for key in known.keys {
            let default = match default(*key) {
                default if default.is_empty() => String::new(),
                required if required.starts_with("required") => format!("; {required}"),
                default => format!("; default {default}"),
            };
            let plain = without_links(&format!("{}{default}\n      {}", key.values(), sentence(key.help())));
            let _ = writeln!(text, "\n  {}: {plain}", key.name());
        }
    }
    if text.is_empty() {
        return Err(Failure::Argument(unknown_table(name, &all)));
    }
    Ok(text)
}

/// Message about a name that no table has: the tables with such a key, or the most similar name.
fn unknown_table(name: &str, all: &[KnownTable]) -> String {
    let shown: String = name.chars().take(60).collect();
    let key = name.rsplit('.').next().unwrap_or(name);
    let mut homes: Vec<&str> = Vec::new();
    for known in all.iter().filter(|known| known.keys.iter().any(|own| own.name() == key)) {
        if !homes.contains(&&*known.name) {
            homes.push(&known.name);
        }
    }
    if !homes.is_empty() {
        return format!("no file has a table {shown:?}, but `{key}` is a key of: {}", homes.join(", "));
    }
    let names: Vec<&str> = all.iter().map(|known| &*known.name).collect();
    let help = nearest(name, &names).map_or("`weir keys` lists them".to_owned(), |near| format!("write {near}"));
    format!("no file has a table {shown:?}: {help}")
}

/// Text that begins with a capital, unless with a symbol such as `k:` or `maxStage:`, and ends with a full stop.
fn sentence(text: &str) -> String {
    let word = text.split(' ').next().unwrap_or_default();
    let is_symbol = word.ends_with(':') || word.contains(|letter: char| letter.is_ascii_uppercase() || letter == '_');
    let mut sentence = match text.chars().next() {
        Some(first) if first.is_ascii_lowercase() && !is_symbol => first.to_ascii_uppercase().to_string() + &text[1..],
        _ => text.to_owned(),
    };
    if !sentence.ends_with(['.', ':']) {
        sentence.push('.');
    }
    sentence
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
    let parts =
        |keys: Keys| keys.iter().map(|key| (key.name(), key.values(), default(*key), key.help())).collect::<Vec<_>>();
    !keys.is_empty() && parts(keys) == parts(other)
}

/// Name of a table as in a heading.
fn title(name: &str) -> String {
    if name.is_empty() { "Top level".to_owned() } else { format!("`{}`", heading(name)) }
}

/// Table as files have it: kinds of flow control share one.
fn heading(name: &str) -> String {
    match name.strip_prefix("ports.flow_control.") {
        Some(kind) => format!("[ports.flow_control] with kind = \"{kind}\""),
        None => format!("[{name}]"),
    }
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
            cell(&sentence(key.help()))
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
        let suffix = if family.kind == "counter" { "_total" } else { "" };
        let _ = writeln!(page, "| `{}{suffix}` | {} | {} |", family.name, family.kind, family.help);
    }
    page
}

fn drop_reasons() -> String {
    let mut page = String::from(
        "# Drop reasons\n\nReasons for which a switch drops a frame. Each has a counter in `weir show losses`, in \
         `weir_port_drops_total` of the [metrics](METRICS.md) and in the summary.\n\n| reason | meaning |\n|---|---|\n",
    );
    for reason in DropReason::ALL {
        let _ = writeln!(page, "| `{}` | {} |", reason.name(), reason.help());
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
        assert!(keys_of("runs.switch.buffer.dt").unwrap().starts_with("[buffer.dt] of a switch's file\n"));
        assert_ne!(keys_of("nic.powertcp").unwrap(), keys_of("nic.theta-powertcp").unwrap());
        for (name, end) in [
            ("flow", "write flows"),
            ("", "`weir keys` lists them"),
            ("ports.kmin", "`kmin` is a key of: classes.queues.ecn"),
        ] {
            let failure = keys_of(name).unwrap_err();
            assert!(matches!(&failure, Failure::Argument(text) if text.ends_with(end)), "{failure:?}");
        }
    }

    #[test]
    fn tables_with_other_defaults_are_described_apart() {
        let of = |name: &str| of_scenarios().into_iter().find(|known| known.name == name).unwrap().keys;
        assert!(is_same(of("nic.powertcp"), of("flows.powertcp")));
        assert!(!is_same(of("nic.powertcp"), of("nic.theta-powertcp")));
    }

    #[test]
    fn help_texts_are_sentences() {
        assert_eq!(sentence("whether it is"), "Whether it is.");
        assert_eq!((sentence("k: a factor"), sentence("α of a port.")), ("k: a factor.".into(), "α of a port.".into()));
        assert_eq!(sentence("maxStage: additive steps"), "maxStage: additive steps.");
    }

    #[test]
    fn every_key_is_described() {
        for (table, keys) in weir_config::known_keys().chain(weir_scenario::file::known_keys()) {
            for key in keys {
                let help = key.help();
                assert!(!help.is_empty() && !help.contains("::"), "[{table}] {}: {help}", key.name());
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
