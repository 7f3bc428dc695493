//! Resolution of short column names: `load` is `workloads.web-search.load`, `fct_slowdown_p99` is
//! `traffic.web-search.bins.all.slowdown_permille.p99`.

use std::collections::BTreeMap;

use super::results::ColumnNames;
use super::{FigureSpec, Results};
use crate::files::slug;
use crate::table::key_path::KeyPath;

/// Figure with resolved columns, by index.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedFigure {
    /// Index among the keys.
    pub x: usize,
    /// Indices among the columns.
    pub y: Vec<usize>,
    pub lines: ResolvedLines,
    /// Value of the first of `by` whose series others are compared with.
    pub versus: Option<String>,
}

/// Resolves the names in a figure.
///
/// # Errors
/// A name without a match, or with several: the problem and the remedy.
pub(crate) fn resolved(spec: &FigureSpec, names: &ColumnNames) -> Result<ResolvedFigure, String> {
    if spec.x.is_empty() || spec.y.is_empty() {
        return Err("a figure has `x` and `y`, or `cdf`; write the ones that it lacks".to_owned());
    }
    let y = spec.y.iter().map(|name| find(name, &names.columns).map_err(|wrong| format!("y {name}: {wrong}")));
    let y = y.collect::<Result<Vec<usize>, String>>()?;
    refuse_repeated("y", &spec.y, &y)?;
    Ok(ResolvedFigure {
        x: key(names, "x", &spec.x)?,
        y,
        lines: resolved_lines(spec, names)?,
        versus: spec.versus.clone(),
    })
}

/// Lines of a figure, by the index of their keys.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedLines {
    pub by: Vec<usize>,
    pub panels: Option<usize>,
    /// Keys with the text of their required value.
    pub keep: BTreeMap<usize, String>,
}

/// Resolves the keys that distinguish a figure's lines.
///
/// # Errors
/// A name without a match, or with several: the problem and the remedy.
pub(super) fn resolved_lines(spec: &FigureSpec, names: &ColumnNames) -> Result<ResolvedLines, String> {
    let text = |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let keep = spec.keep.iter().map(|(name, value)| Ok((key(names, "where", name)?, text(value))));
    if spec.versus.is_some() && spec.by.is_empty() {
        return Err("versus: no lines are compared; name what they stand for with by".to_owned());
    }
    let texts = [("title", Some(&spec.title)), ("x_label", spec.x_label.as_ref()), ("y_label", spec.y_label.as_ref())];
    let is_in_xml = |letter: char| match letter {
        '\t' | '\n' | '\r' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        _ => !letter.is_control(),
    };
    let is_drawable = |text: &String| text.chars().all(is_in_xml);
    if let Some((key, Some(text))) = texts.into_iter().find(|(_, text)| !text.is_none_or(is_drawable)) {
        return Err(format!("{key} {text:?}: a control character can't be drawn; leave it out"));
    }
    let by = spec.by.iter().map(|name| key(names, "by", name)).collect::<Result<Vec<usize>, String>>()?;
    refuse_repeated("by", &spec.by, &by)?;
    Ok(ResolvedLines {
        by,
        panels: spec.panels.as_ref().map(|name| key(names, "panels", name)).transpose()?,
        keep: keep.collect::<Result<_, String>>()?,
    })
}

/// Refuses a repeated index among those of the names that a figure's key has.
fn refuse_repeated(what: &str, names: &[String], indices: &[usize]) -> Result<(), String> {
    match (1..indices.len()).find(|n| indices[..*n].contains(&indices[*n])) {
        Some(n) => Err(format!("{what} {}: named twice; write it once", names[n])),
        None => Ok(()),
    }
}

/// Index of the key with this name; errors begin with the figure's own key.
fn key(names: &ColumnNames, what: &str, name: &str) -> Result<usize, String> {
    let found = match find(name, &names.keys) {
        // Runs differ in their policies.
        Err(_) if name == "policy" => find("run", &names.keys),
        found => found,
    };
    found.map_err(|wrong| format!("{what} {name}: {wrong}"))
}

impl ResolvedFigure {
    /// Default file name: `slowdown-p99-over-load-by-run`.
    pub(super) fn file_name(&self, results: &Results) -> String {
        let names = results.names();
        let columns: Vec<String> = self.y.iter().map(|column| short_column(&names.columns[*column])).collect();
        let keys = |keys: &[usize]| keys.iter().map(|key| short_key(&names.keys, *key)).collect::<Vec<_>>().join(" ");
        let by = if self.lines.by.is_empty() { String::new() } else { format!(" by {}", keys(&self.lines.by)) };
        slug(&format!("{} over {}{by}", columns.join(" "), keys(&[self.x])))
    }
}

/// Index of the entry that a short name selects.
fn find(name: &str, all: &[String]) -> Result<usize, String> {
    if let Some(place) = all.iter().position(|other| other == name) {
        return Ok(place);
    }
    let wanted = tokens(name);
    let mut found: Vec<usize> = (0..all.len()).filter(|place| is_within(&wanted, &tokens(&all[*place]))).collect();
    // A last word that is also the column's last has precedence over one in its middle: `mean`, `load`.
    let ends: Vec<usize> = found.iter().copied().filter(|place| tokens(&all[*place]).last() == wanted.last()).collect();
    if !ends.is_empty() {
        found = ends;
    }
    match found[..] {
        [one] => Ok(one),
        [] => Err(format!("the sweep has no such column; write one of: {}", all.join(", "))),
        _ => {
            let names: Vec<&str> = found.iter().map(|place| all[*place].as_str()).collect();
            Err(format!("{} columns are called so; write one of: {}", names.len(), names.join(", ")))
        }
    }
}

/// Words of a name. "fct" before "slowdown" is dropped, since a slowdown is always one of completion times.
fn tokens(name: &str) -> Vec<String> {
    let parts = name.split(['.', '_', '-', ' ', '\'']).filter(|word| !word.is_empty());
    let parts: Vec<String> = parts.map(str::to_lowercase).collect();
    let is_implied = |n: usize| parts[n] == "fct" && parts.get(n + 1).is_some_and(|next| next == "slowdown");
    (0..parts.len()).filter(|n| !is_implied(*n)).map(|n| parts[n].clone()).collect()
}

/// Whether `others` contains all words, in their order.
fn is_within(parts: &[String], others: &[String]) -> bool {
    let mut left = others.iter();
    parts.iter().all(|word| left.any(|other| other == word))
}

/// Short name of a parameter: its shortest ending that no other parameter has.
pub(super) fn short_key(keys: &[String], key: usize) -> String {
    let path = |name: &str| KeyPath::parse(name).map_or_else(|| vec![name.to_owned()], |path| path.keys().to_vec());
    let mine = path(&keys[key]);
    let ending = (1..=mine.len()).map(|length| &mine[mine.len() - length..]);
    let is_own = |ending: &&[String]| keys.iter().filter(|other| path(other).ends_with(ending)).count() == 1;
    let short = ending.clone().find(is_own).unwrap_or(&mine);
    short.join(" ").replace('_', " ")
}

/// Readable name of a column, without its unit: `slowdown p99 of web-search`.
pub(super) fn short_column(name: &str) -> String {
    const UNITS: [&str; 6] = ["_permille", "_bytes", "_bps", "_ns", "_us", "_ppm"];
    let path: Vec<String> = KeyPath::parse(name).map_or_else(|| vec![name.to_owned()], |path| path.keys().to_vec());
    let bare = |word: &String| {
        let word = UNITS.iter().find_map(|unit| word.strip_suffix(unit)).unwrap_or(word);
        if word == "fct" { "FCT".to_owned() } else { word.replace('_', " ") }
    };
    match path.as_slice() {
        [first, traffic, bins, bin, what, statistic] if first == "traffic" && bins == "bins" => {
            let sizes = if bin == "all" { String::new() } else { format!(", {bin}") };
            format!("{} {statistic} of {traffic}{sizes}", bare(what))
        }
        [first, name, what] if first == "flows" => format!("{} of {name}", bare(what)),
        parts => parts.iter().map(bare).collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> ColumnNames {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        ColumnNames {
            keys: owned(&["run", "seed", "workloads.web-search.load", "runs.DT.switch.buffer.dt.alpha"]),
            columns: owned(&[
                "lossless",
                "pauses_sent",
                "traffic.web-search.bins.all.fct_ns.mean",
                "traffic.web-search.bins.all.fct_ns.p99",
                "traffic.web-search.bins.all.slowdown_permille.p99",
                "traffic.incast.bins.all.fct_ns.p99",
            ]),
        }
    }

    #[test]
    fn short_names_select_the_only_matching_column() {
        let spec = FigureSpec {
            x: "load".to_owned(),
            y: vec!["fct_slowdown_p99".to_owned(), "incast fct".to_owned(), "pauses".to_owned()],
            by: vec!["policy".to_owned(), "alpha".to_owned()],
            ..FigureSpec::default()
        };
        let wanted = resolved(&spec, &names()).unwrap();
        assert_eq!((wanted.x, wanted.y, wanted.lines.by), (2, vec![4, 5, 1], vec![0, 3]));
    }

    #[test]
    fn ambiguous_and_unknown_names_are_reported() {
        let of = |x: &str, y: &str| {
            let spec = FigureSpec { x: x.to_owned(), y: vec![y.to_owned()], ..FigureSpec::default() };
            resolved(&spec, &names()).unwrap_err()
        };
        assert!(
            of("load", "fct_p99").starts_with("y fct_p99: 2 columns are called so; write one of: traffic.web-search")
        );
        assert!(of("lod", "pauses").starts_with("x lod: the sweep has no such column; write one of: run, seed, "));
    }

    #[test]
    fn names_twice_and_texts_that_no_picture_can_have_are_refused() {
        let of = |spec: FigureSpec| resolved(&spec, &names()).unwrap_err();
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let spec = FigureSpec { x: "load".to_owned(), y: owned(&["pauses"]), ..FigureSpec::default() };
        let by = FigureSpec { by: owned(&["run", "policy"]), ..spec.clone() };
        assert_eq!(of(by), "by policy: named twice; write it once");
        assert_eq!(
            of(FigureSpec { y: owned(&["pauses", "pauses_sent"]), ..spec.clone() }),
            "y pauses_sent: named twice; write it once"
        );
        let title = FigureSpec { title: "a\u{1}b".to_owned(), ..spec.clone() };
        assert_eq!(of(title), "title \"a\\u{1}b\": a control character can't be drawn; leave it out");
        assert!(resolved(&FigureSpec { title: "two\nlines".to_owned(), ..spec }, &names()).is_ok());
    }

    #[test]
    fn axes_are_named_by_what_they_show() {
        assert_eq!(short_column("traffic.web-search.bins.all.slowdown_permille.p99"), "slowdown p99 of web-search");
        assert_eq!(short_column("traffic.incast.bins.'10KB-100KB'.fct_ns.mean"), "FCT mean of incast, 10KB-100KB");
        assert_eq!(
            [short_column("pauses_sent"), short_column("flows.F1.throughput_bps")],
            ["pauses sent", "throughput of F1"]
        );
        assert_eq!([short_key(&names().keys, 2), short_key(&names().keys, 0)], ["load", "run"]);
        let two = ["runs.DT.switch.buffer.dt.alpha", "runs.SPFC.switch.buffer.spfc.alpha"].map(str::to_owned);
        assert_eq!(short_key(&two, 1), "spfc alpha");
    }
}
