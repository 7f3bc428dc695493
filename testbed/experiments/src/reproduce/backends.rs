//! `weir compare backends`: results of one experiment in virtual time, with real frames and with real hosts, on one
//! page.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use super::outcome::{self, Environment};
use super::page_table::{head, row};
use super::verdict::{ExperimentOutcome, JudgedNumber, NumbersVerdict};
use crate::Failure;
use crate::files::{json_text, with_path, write_atomic};
use crate::table::units::shown;

/// Arguments of `weir compare backends`.
#[derive(clap::Args)]
pub struct BackendsArguments {
    /// Directories that `weir reproduce` left of one experiment: runs/papers/ID, runs/papers-dpdk/ID, runs/papers-hosts/ID.
    #[arg(required = true, num_args = 2.., value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// Write the page to this file, as Markdown, in place of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The verdicts, numbers and claims as JSON.
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

/// Writes numbers and claims of all backends in one table.
///
/// # Errors
/// A directory without a verdict, or of another experiment than the first.
pub fn compare(arguments: &BackendsArguments) -> Result<(), Failure> {
    let mut results: Vec<(ExperimentOutcome, Environment)> = Vec::new();
    for directory in &arguments.directories {
        let name = directory.display();
        let Some((outcome, environment)) = outcome::read(directory)? else {
            return Err(Failure::Argument(format!(
                "{name}: no verdict.json stands there; name what weir reproduce left of one experiment: runs/papers/spfc.12"
            )));
        };
        if let Some((first, _)) = results.first().filter(|(first, _)| first.id != outcome.id) {
            return Err(Failure::Argument(format!(
                "{name}: it is of {}, and the first of {}; name directories of one experiment",
                outcome.id, first.id
            )));
        }
        results.push((outcome, environment));
    }
    if arguments.json {
        print!("{}", json_text(&results.iter().map(|(outcome, _)| outcome).collect::<Vec<_>>()));
        return Ok(());
    }
    let text = page(&results);
    match &arguments.output {
        Some(path) => write_atomic(path, |part| fs::write(part, text)).map_err(with_path(path)),
        None => {
            print!("{text}");
            Ok(())
        }
    }
}

fn page(results: &[(ExperimentOutcome, Environment)]) -> String {
    let outcomes: Vec<&ExperimentOutcome> = results.iter().map(|(outcome, _)| outcome).collect();
    let mut text = format!("# {} by backend\n", outcomes[0].id);
    let head = |text: &mut String, first: &str| {
        head(text, std::iter::once(first).chain(outcomes.iter().map(|outcome| outcome.backend.as_str())));
    };
    head(&mut text, "");
    let mut add_row = |what: &str, of: &dyn Fn(&ExperimentOutcome) -> String| {
        row(&mut text, std::iter::once(what.to_owned()).chain(outcomes.iter().copied().map(of)));
    };
    add_row("conclusions", &|outcome| format!("**{}**", outcome.conclusions));
    add_row("numbers", &|outcome| NumbersVerdict::from_numbers(&outcome.numbers).to_string());
    add_row("runs", &|outcome| outcome.points.to_string());
    add_row("seeds, or repeats", &|outcome| outcome.seeds.to_string());
    if outcomes.iter().any(|outcome| outcome.lateness.is_some()) {
        add_row("most of a run that the machine took", &|outcome| {
            outcome.lateness.as_ref().map_or("-".to_owned(), |of| format!("{} %", shown(of.most_percent)))
        });
    }
    if outcomes.iter().any(|outcome| outcome.left_out.is_some()) {
        add_row("left out", &|outcome| outcome.left_out.clone().unwrap_or_default());
    }
    if outcomes.iter().any(|outcome| !outcome.set.is_empty()) {
        add_row("changed", &|outcome| outcome.set.join(", "));
    }
    let made = results.iter().map(|(_, environment)| environment.date_and_commit());
    row(&mut text, std::iter::once("made".to_owned()).chain(made));
    text.push_str("\n## Numbers\n");
    head(&mut text, "");
    let numbers: Vec<BTreeMap<&str, &JudgedNumber>> = outcomes
        .iter()
        .map(|outcome| outcome.numbers.iter().map(|number| (number.name.as_str(), number)).collect())
        .collect();
    for name in in_order(outcomes.iter().map(|outcome| outcome.numbers.iter().map(|number| number.name.as_str()))) {
        let cells = numbers.iter().map(|of| of.get(name).map_or_else(String::new, |number| with_interval(number)));
        row(&mut text, std::iter::once(name.to_owned()).chain(cells));
    }
    text.push_str("\n## Claims\n");
    head(&mut text, "in bold the main claims");
    for statement in
        in_order(outcomes.iter().map(|outcome| outcome.claims.iter().map(|claim| claim.statement.as_str())))
    {
        let claim =
            |outcome: &&ExperimentOutcome| outcome.claims.iter().find(|claim| claim.statement == statement).cloned();
        let judged: Vec<_> = outcomes.iter().map(claim).collect();
        let weighs = judged.iter().flatten().any(|claim| claim.conclusion);
        let first = if weighs { format!("**{statement}**") } else { statement.to_owned() };
        let cells =
            judged.iter().map(|claim| claim.as_ref().map_or_else(String::new, |claim| claim.judgement.to_string()));
        row(&mut text, std::iter::once(first).chain(cells));
    }
    for outcome in outcomes.iter().filter(|outcome| !outcome.reasons.is_empty()) {
        let _ = writeln!(text, "\n{}: {}\n", outcome.backend, outcome.summary);
        outcome.reasons.iter().for_each(|reason| {
            let _ = writeln!(text, "- {reason}");
        });
    }
    text
}

/// Names in order of first appearance, without repetition.
fn in_order<'n>(lists: impl Iterator<Item = impl Iterator<Item = &'n str>>) -> Vec<&'n str> {
    let mut names = Vec::new();
    for name in lists.flatten() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn with_interval(number: &JudgedNumber) -> String {
    let [_, weir, ..] = number.shown();
    let interval = number.interval.filter(|(low, high)| low != high && number.holds_for.is_none());
    let interval = interval.map(|(low, high)| format!("{} to {}", shown(low), shown(high)));
    let spread = number.least_and_most.map(|_| format!("of {} from {}", number.runs, number.spread_shown()));
    match interval.into_iter().chain(spread).collect::<Vec<_>>() {
        notes if notes.is_empty() => weir,
        notes => format!("{weir} ({})", notes.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_once_in_the_order_in_which_they_come() {
        let lists = [vec!["a", "b"], vec!["b", "c", "a"]];
        assert_eq!(in_order(lists.iter().map(|list| list.iter().copied())), ["a", "b", "c"]);
        assert!(in_order(std::iter::empty::<std::vec::IntoIter<&str>>()).is_empty());
    }
}
