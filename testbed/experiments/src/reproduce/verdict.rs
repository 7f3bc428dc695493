//! Verdicts on an experiment, one on the paper's conclusions and one on its numbers: compares each claim and stated number with the runs'
//! results.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::lateness::Lateness;
use super::measure::MeasureResult;
use super::paper_file::{Aggregation, Bound, Claim, Measure, PaperFile};
use crate::experiment::Backend;
use crate::table::statistics::{Estimate, INTERVAL_HEAD};
use crate::table::units::shown;

/// Result of an experiment, `verdict.json`. The same points give the same file on every machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExperimentOutcome {
    pub format: String,
    pub id: String,
    /// Verdict on the conclusions; of a stored result, by this version's rules.
    #[serde(default)]
    pub conclusions: Conclusions,
    /// Verdict on the conclusions in one sentence, for a reader who has not read the paper; empty until composed.
    #[serde(default, rename = "says", skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// Verdict on the numbers in one sentence; empty until composed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub numbers_summary: String,
    /// Reasons, in sentences, why the verdicts are not better.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Number of failed runs, and sentences on some of them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed_runs: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// Time that runs lost to the machine; `None` in virtual time, which is never late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Lateness>,
    /// Parts that a quick run, or a run with real frames, omitted.
    pub left_out: Option<String>,
    /// `PATH=VALUE` overrides of the scenario; with any, this is another experiment.
    pub set: Vec<String>,
    pub backend: String,
    /// Hosts of the largest scenario.
    pub hosts: usize,
    /// Points that ran.
    pub points: usize,
    /// Seeds per point; 1 for an experiment without randomness.
    pub seeds: usize,
    pub numbers: Vec<JudgedNumber>,
    pub claims: Vec<JudgedClaim>,
}

/// Verdict on a paper's conclusions, from its main claims alone (ACM: differences must not change the main claims).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Conclusions {
    /// All main claims hold.
    Reproduced,
    /// Some main claims hold.
    Partly,
    /// Some main claims fail, and none holds.
    Not,
    /// Both sides of the main claims are 0: nothing happened that could differ.
    NotExercised,
    /// The draws decide no main claim, or the runs omit all of them.
    #[default]
    Inconclusive,
    /// The main claims follow from formulas, so no run could have contradicted them.
    Arithmetic,
    /// A main claim depends on a late run, and no other main claim fails.
    NotJudged,
}

/// Verdict on a paper's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct NumbersVerdict {
    /// Stated numbers within their tolerance.
    pub within: usize,
    /// Stated numbers that were judged.
    pub of: usize,
    /// Least and largest of Weir's numbers divided by the paper's.
    pub ratio: Option<(f64, f64)>,
}

impl Conclusions {
    /// All verdicts, the best first.
    pub(super) const ALL: [Conclusions; 7] = [
        Conclusions::Reproduced,
        Conclusions::Partly,
        Conclusions::Arithmetic,
        Conclusions::Not,
        Conclusions::NotExercised,
        Conclusions::Inconclusive,
        Conclusions::NotJudged,
    ];

    pub(super) fn from_claims(claims: &[JudgedClaim]) -> Conclusions {
        let main = claims.iter().filter(|claim| claim.conclusion).map(|claim| claim.judgement);
        let Tally { judged, holds, fails, open, not_exercised, arithmetic, unjudged } = Tally::from_judgements(main);
        match (holds, fails) {
            (_, 0) if unjudged > 0 => Conclusions::NotJudged,
            (1.., _) if holds == judged => Conclusions::Reproduced,
            (1.., _) => Conclusions::Partly,
            (0, 1..) => Conclusions::Not,
            _ if open > 0 => Conclusions::Inconclusive,
            _ if not_exercised > 0 => Conclusions::NotExercised,
            _ if arithmetic > 0 => Conclusions::Arithmetic,
            // A quick run may omit every main claim.
            _ => Conclusions::Inconclusive,
        }
    }

    /// Summary of several figures: `Conclusions of 2 figures: 1 reproduced, 1 arithmetic.`; `None` without any.
    pub(super) fn summary(all: &[Conclusions]) -> Option<String> {
        let figures = counted(all.len(), "figure");
        (!all.is_empty()).then(|| format!("Conclusions of {figures}: {}.", Conclusions::counts(all)))
    }

    /// Counts of verdicts in words: `24 reproduced, 5 partly reproduced`.
    pub(super) fn counts(all: &[Conclusions]) -> String {
        let count = |of: Conclusions| all.iter().filter(|one| **one == of).count();
        let counts = Conclusions::ALL.into_iter().filter(|of| count(*of) > 0).map(|of| format!("{} {of}", count(of)));
        counts.collect::<Vec<_>>().join(", ")
    }
}

/// Value of a measure, with the paper's value if stated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JudgedNumber {
    pub name: String,
    pub unit: String,
    /// Measured value; `None` if there is none, with the reason in `none`.
    pub weir: Option<f64>,
    pub none: Option<String>,
    /// 95 % confidence interval.
    pub interval: Option<(f64, f64)>,
    /// Number of runs; 0 in a stored result that did not record it.
    pub runs: usize,
    /// Aggregation over the runs other than a mean or a share; `None` also in a stored result that did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// Smallest and largest value of repeats, whose results vary even for one seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_and_most: Option<(f64, f64)>,
    /// Number of runs that a share counts as true; `None` for other measures.
    pub holds_for: Option<usize>,
    pub paper: Option<f64>,
    /// Allowed distance from the paper's value, in the measure's unit.
    pub within: Option<f64>,
    pub source: Option<String>,
    /// Reason for the allowed distance.
    pub why: Option<String>,
    pub judgement: Option<Judgement>,
    /// True if the number depends on a late run, and so says nothing about the scheme.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_late: bool,
}

impl JudgedNumber {
    /// True if these runs omit the number on purpose.
    pub(super) fn is_left_out(&self) -> bool {
        self.none.as_deref() == Some(LEFT_OUT)
    }

    /// Range of the repeats for a table: `1.2 to 1.9`; empty without repeats.
    pub(super) fn spread_shown(&self) -> String {
        self.least_and_most.map_or_else(String::new, |(least, most)| format!("{} to {}", shown(least), shown(most)))
    }

    /// Cells of a table: the paper's number, Weir's, the interval, and Weir's number divided by the paper's. Missing
    /// ones are empty.
    pub(super) fn shown(&self) -> [String; 4] {
        let with_unit = |value: f64| with_unit(value, &self.unit);
        let weir = match (self.weir, self.holds_for) {
            (Some(_), Some(holds_for)) if self.runs > 1 => format!("{holds_for} of {}", self.runs),
            (Some(value), _) => with_unit(value),
            (None, _) => self.none.clone().unwrap_or_default(),
        };
        let weir = match &self.over {
            Some(over) if self.weir.is_some() => format!("{weir} ({over})"),
            _ => weir,
        };
        let weir = if self.is_late { format!("{weir} (not judged)") } else { weir };
        let interval = self.interval.map(|(low, high)| format!("{} to {}", shown(low), shown(high)));
        [
            self.paper.map_or_else(String::new, with_unit),
            weir,
            interval.unwrap_or_default(),
            self.ratio().map_or_else(String::new, |ratio| format!("{ratio:.2}")),
        ]
    }

    /// Weir's number divided by the paper's; `None` if one is missing, or the paper's is 0.
    fn ratio(&self) -> Option<f64> {
        let (weir, paper) = self.weir.zip(self.paper).filter(|(_, paper)| *paper != 0.0)?;
        Some(weir / paper)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JudgedClaim {
    #[serde(rename = "says")]
    pub statement: String,
    pub conclusion: bool,
    /// Place in the paper.
    pub source: String,
    pub judgement: Judgement,
    /// Comparison in numbers.
    pub because: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Judgement {
    Holds,
    /// The claim holds and could not have failed: both sides come from a formula.
    Arithmetic,
    Fails,
    /// The confidence interval lies on both sides of the bound.
    Undecided,
    /// Both sides are 0: nothing happened that could differ.
    NotExercised,
    /// A run that the claim depends on was late, so the claim neither holds nor fails.
    NotJudged,
    /// The quick run has no point for the claim.
    LeftOut,
}

/// Reason for a number that these runs omit on purpose.
const LEFT_OUT: &str = "left out";
/// Reason for the missing number of a ratio of 0 to 0.
const NOTHING: &str = "0 on both sides: nothing that could differ";

impl ExperimentOutcome {
    /// Number of seeds per point in words, `5 seeds`; with real hosts, whose runs do not depend on the seed, `5
    /// repeats`.
    pub(super) fn seeds_shown(&self) -> String {
        let what = if self.backend == Backend::Hosts.name() { "repeat" } else { "seed" };
        format!("{} {what}{}", self.seeds, if self.seeds == 1 { "" } else { "s" })
    }

    /// Table of the numbers, the head first: Weir's, the interval, and, if there are any, the paper's, the range of repeats, and the ratio.
    pub(super) fn number_table(&self) -> Vec<Vec<String>> {
        let has_spread = self.numbers.iter().any(|number| number.least_and_most.is_some());
        let spread = has_spread.then_some("least to most");
        let paper = self.numbers.iter().any(|number| number.paper.is_some()).then_some(["paper", "ratio"]);
        let [head_of_paper, head_of_ratio] = [0, 1].map(|n| paper.map(|head| head[n]));
        let head =
            [""].into_iter().chain(head_of_paper).chain(["Weir", INTERVAL_HEAD]).chain(spread).chain(head_of_ratio);
        let mut rows = vec![head.map(str::to_owned).collect::<Vec<_>>()];
        rows.extend(self.numbers.iter().map(|number| {
            let [of_paper, weir, interval, ratio] = number.shown();
            let spread = spread.map(|_| number.spread_shown());
            let of_paper = paper.map(|_| of_paper);
            let ratio = paper.map(|_| ratio);
            let name = [number.name.clone()].into_iter();
            name.chain(of_paper).chain([weir, interval]).chain(spread).chain(ratio).collect()
        }));
        rows
    }

    pub(super) const FORMAT: &str = "weir-verdict-1";

    /// True if the runs used real frames.
    pub(super) fn is_real(&self) -> bool {
        self.backend != Backend::Sim.name()
    }

    /// Sentence on the parts that a reduced sweep omitted.
    pub(super) fn lessened(&self) -> Option<String> {
        let kind = if self.is_real() { "A run with real frames" } else { "A quick run" };
        self.left_out.as_ref().map(|left_out| format!("{kind}, without {left_out}."))
    }

    /// Whether the sweep is the reduced one of `--quick`: its verdict is not that of the paper's draws and sizes.
    pub(super) fn is_quick(&self) -> bool {
        self.left_out.is_some() && !self.is_real()
    }
}

pub(super) fn judge(
    paper: &PaperFile,
    readings: &BTreeMap<String, MeasureResult>,
) -> (Vec<JudgedNumber>, Vec<JudgedClaim>) {
    let numbers = paper.measures.iter().map(|measure| number(measure, &readings[&measure.name])).collect();
    let claims = paper.claims.iter().map(|claim| judged(claim, paper, readings)).collect();
    (numbers, claims)
}

/// Counts of claims or numbers by judgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Claims that could have failed and were judged.
    pub judged: usize,
    pub holds: usize,
    pub fails: usize,
    pub open: usize,
    pub not_exercised: usize,
    pub arithmetic: usize,
    /// Claims not judged because of a late run; not counted in `judged`.
    pub unjudged: usize,
}

impl Tally {
    pub(super) fn from_judgements(judgements: impl Iterator<Item = Judgement>) -> Tally {
        let mut tally = Tally::default();
        for judgement in judgements {
            let place = match judgement {
                Judgement::LeftOut => continue,
                Judgement::Arithmetic => {
                    tally.arithmetic += 1;
                    continue;
                }
                Judgement::NotJudged => {
                    tally.unjudged += 1;
                    continue;
                }
                Judgement::Holds => &mut tally.holds,
                Judgement::Fails => &mut tally.fails,
                Judgement::Undecided => &mut tally.open,
                Judgement::NotExercised => &mut tally.not_exercised,
            };
            *place += 1;
            tally.judged += 1;
        }
        tally
    }

    /// Counts for a table: `3 of 4`, `3 of 4, 2 not judged`; empty without claims.
    pub(super) fn held(&self) -> String {
        let judged = (self.judged > 0).then(|| format!("{} of {}", self.holds, self.judged));
        let unjudged = (self.unjudged > 0).then(|| format!("{} not judged", self.unjudged));
        judged.into_iter().chain(unjudged).collect::<Vec<_>>().join(", ")
    }
}

impl NumbersVerdict {
    pub(super) fn from_numbers(numbers: &[JudgedNumber]) -> NumbersVerdict {
        let Tally { judged, holds, arithmetic, .. } =
            Tally::from_judgements(numbers.iter().filter_map(|number| number.judgement));
        let ratios = numbers.iter().filter(|number| !number.is_late).filter_map(JudgedNumber::ratio);
        let ratio = ratios.fold(None, |all, ratio| {
            let (least, most) = all.unwrap_or((ratio, ratio));
            Some((ratio.min(least), ratio.max(most)))
        });
        NumbersVerdict { within: holds + arithmetic, of: judged + arithmetic, ratio }
    }

    /// Ratios in words, and whether they are more than one: `0.43 to 1.02`.
    pub(super) fn ratio_shown(&self) -> Option<(String, bool)> {
        let [least, most] = self.ratio.map(|(least, most)| [least, most].map(|ratio| format!("{ratio:.2}")))?;
        Some(if least == most { (least, false) } else { (format!("{least} to {most}"), true) })
    }
}

impl fmt::Display for NumbersVerdict {
    /// Formats the verdict for a table: `3 of 4, ratio 0.43 to 1.02`; empty without stated numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.of > 0 {
            write!(f, "{} of {}", self.within, self.of)?;
        }
        self.ratio_shown().map_or(Ok(()), |(ratio, _)| write!(f, ", ratio {ratio}"))
    }
}

fn number(measure: &Measure, reading: &MeasureResult) -> JudgedNumber {
    let mut number = JudgedNumber {
        name: measure.name.clone(),
        unit: measure.unit.clone(),
        weir: None,
        none: None,
        interval: None,
        runs: 0,
        over: measure.over.and_then(Aggregation::word).map(str::to_owned),
        least_and_most: None,
        holds_for: None,
        paper: measure.paper,
        within: measure.allowed(),
        source: measure.source.clone(),
        why: measure.why.clone(),
        judgement: None,
        is_late: false,
    };
    let judgement = match reading {
        MeasureResult::Value(estimate) => {
            number.weir = Some(estimate.value);
            number.interval = estimate.interval;
            number.runs = estimate.runs;
            // Pseudo-values of a ratio are no runs' values.
            number.least_and_most = least_and_most(&estimate.values).filter(|_| measure.parts().is_none());
            number.holds_for = estimate.holds_for;
            let range = measure.paper.zip(measure.allowed()).map(|(paper, within)| paper - within..=paper + within);
            range.map_or(Judgement::Holds, |range| inside(estimate, &range))
        }
        MeasureResult::LeftOut => {
            number.none = Some(LEFT_OUT.to_owned());
            Judgement::LeftOut
        }
        MeasureResult::Indeterminate => {
            number.none = Some(NOTHING.to_owned());
            // A paper that states 0 too is not contradicted, and could not have been.
            if measure.paper == Some(0.0) { Judgement::Arithmetic } else { Judgement::NotExercised }
        }
        MeasureResult::Missing(why) => {
            number.none = Some(why.clone());
            Judgement::Fails
        }
    };
    number.judgement = measure.paper.map(|_| judgement);
    number
}

/// Range of two or more values.
fn least_and_most(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().reduce(f64::min)?;
    let most = values.iter().copied().reduce(f64::max)?;
    (values.len() > 1).then_some((least, most))
}

impl Measure {
    /// Allowed distance from the paper's number, in the measure's unit.
    pub(super) fn allowed(&self) -> Option<f64> {
        let relative = self.paper.zip(self.tolerance).map(|(paper, tolerance)| (paper * tolerance).abs());
        self.within.or(relative)
    }
}

/// Judges a value against a range: undecided if the value is outside and its interval overlaps the range.
fn inside(estimate: &Estimate, range: &RangeInclusive<f64>) -> Judgement {
    let (least, most) = (range.start(), range.end());
    // Decimals such as 0.05 have no exact double.
    let slack = 1e-9 * (most - least).abs().max(least.abs());
    let (least, most) = (least - slack, most + slack);
    let (low, high) = estimate.bounds();
    if (least..=most).contains(&estimate.value) {
        Judgement::Holds
    } else if low <= most && high >= least {
        Judgement::Undecided
    } else {
        Judgement::Fails
    }
}

/// Judges a claim: it holds if all of its comparisons hold.
fn judged(claim: &Claim, paper: &PaperFile, readings: &BTreeMap<String, MeasureResult>) -> JudgedClaim {
    // `NotJudged` is missing here: late runs are looked at afterwards.
    const WORST_FIRST: [Judgement; 6] = [
        Judgement::Fails,
        Judgement::Undecided,
        Judgement::NotExercised,
        Judgement::LeftOut,
        Judgement::Arithmetic,
        Judgement::Holds,
    ];
    let mut all = Judgement::Holds;
    let mut because = Vec::new();
    let unit = paper.measures.iter().find(|it| it.name == claim.measure).map_or("", |it| it.unit.as_str());
    for (relation, bound) in claim.comparisons() {
        let (judgement, text) = compare(claim, relation, bound, readings, unit);
        because.push(text);
        // The worst judgement decides, and a comparison that was left out ranks above arithmetic ones.
        all = WORST_FIRST.into_iter().find(|one| [all, judgement].contains(one)).expect("one of six");
    }
    if all == Judgement::Holds && claim.arithmetic {
        all = Judgement::Arithmetic;
    }
    JudgedClaim {
        statement: claim.statement.clone(),
        conclusion: claim.conclusion,
        source: claim.source.clone(),
        judgement: all,
        because: because.join("; "),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Is,
    AtLeast,
    AtMost,
    Above,
    Below,
}

impl Claim {
    fn comparisons(&self) -> impl Iterator<Item = (Relation, &Bound)> {
        let all = [
            (Relation::Is, &self.is),
            (Relation::AtLeast, &self.at_least),
            (Relation::AtMost, &self.at_most),
            (Relation::Above, &self.above),
            (Relation::Below, &self.below),
        ];
        all.into_iter().filter_map(|(relation, bound)| Some((relation, bound.as_ref()?)))
    }

    pub(super) fn comparison_count(&self) -> usize {
        self.comparisons().count()
    }

    /// Names of all measures that the claim compares.
    pub(super) fn measures(&self) -> impl Iterator<Item = &str> {
        let bounds = self.comparisons().filter_map(|(_, bound)| match bound {
            Bound::Number(_) => None,
            Bound::Measure { measure, .. } => Some(measure.as_str()),
        });
        std::iter::once(self.measure.as_str()).chain(bounds)
    }
}

fn compare(
    claim: &Claim,
    relation: Relation,
    bound: &Bound,
    readings: &BTreeMap<String, MeasureResult>,
    unit: &str,
) -> (Judgement, String) {
    let (other, other_name) = match bound {
        Bound::Number(number) => (MeasureResult::Value(Estimate::exactly(*number, 1)), String::new()),
        Bound::Measure { measure, times } => {
            let reading = match &readings[measure] {
                MeasureResult::Value(estimate) => MeasureResult::Value(estimate.clone().divided_by(1.0 / times)),
                other => other.clone(),
            };
            let name = if *times == 1.0 { measure.clone() } else { format!("{} x {measure}", shown(*times)) };
            (reading, format!(" ({name})"))
        }
    };
    let (one, other) = match (&readings[&claim.measure], other) {
        (MeasureResult::Value(one), MeasureResult::Value(other)) => (one, other),
        (MeasureResult::Missing(why), _) => return (Judgement::Fails, format!("{}: {why}", claim.measure)),
        (_, MeasureResult::Missing(why)) => return (Judgement::Fails, format!("{other_name}: {why}")),
        (MeasureResult::Indeterminate, _) => return (Judgement::NotExercised, format!("{}: {NOTHING}", claim.measure)),
        (_, MeasureResult::Indeterminate) => return (Judgement::NotExercised, format!("{other_name}: {NOTHING}")),
        _ => return (Judgement::LeftOut, "left out".to_owned()),
    };
    if matches!(bound, Bound::Measure { .. }) && one.is_nothing() && other.is_nothing() {
        // Such as "no more PAUSEs" where neither side has any.
        let text = format!("{} on both sides: nothing that could differ", with_unit(0.0, unit));
        return (Judgement::NotExercised, text);
    }
    let text = format!(
        "expected {}{}{other_name}, measured {}",
        relation.phrase(),
        with_unit(other.value, unit),
        with_interval(one, unit)
    );
    (relation.judge(one, &other), text)
}

impl Relation {
    fn phrase(self) -> &'static str {
        match self {
            Relation::Is => "",
            Relation::AtLeast => "at least ",
            Relation::AtMost => "at most ",
            Relation::Above => "more than ",
            Relation::Below => "less than ",
        }
    }

    /// Judges by the difference: undecided if its interval lies on both sides of 0. `Is` compares the values and
    /// ignores intervals.
    fn judge(self, one: &Estimate, other: &Estimate) -> Judgement {
        let difference = one.less(other);
        let (low, high) = difference.bounds();
        let (for_sure, never) = match self {
            Relation::Is => {
                let is = difference.value.abs() <= 1e-9 * other.value.abs();
                (is, !is)
            }
            Relation::AtLeast => (low >= 0.0, high < 0.0),
            Relation::Above => (low > 0.0, high <= 0.0),
            Relation::AtMost => (high <= 0.0, low > 0.0),
            Relation::Below => (high < 0.0, low >= 0.0),
        };
        match (for_sure, never) {
            (true, _) => Judgement::Holds,
            (_, true) => Judgement::Fails,
            _ => Judgement::Undecided,
        }
    }
}

/// Formats a value with its interval and count: `884 KB`, `0.4 (0.22 to 0.61; 8 of 20)`.
pub(super) fn with_interval(estimate: &Estimate, unit: &str) -> String {
    let value = with_unit(estimate.value, unit);
    let interval = estimate.interval.map(|(low, high)| format!("{} to {}", shown(low), shown(high)));
    let count = estimate.holds_for.map(|holds_for| format!("{holds_for} of {}", estimate.runs));
    match interval.into_iter().chain(count).collect::<Vec<_>>() {
        notes if notes.is_empty() => value,
        notes => format!("{value} ({})", notes.join("; ")),
    }
}

fn is_false(it: &bool) -> bool {
    !it
}

fn is_zero(it: &usize) -> bool {
    *it == 0
}

/// Count with its noun: `1 main claim`, `2 main claims`.
fn counted(count: usize, name: &str) -> String {
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}

/// Formats a value with its unit: `884 KB`. A unit that is a noun, such as PAUSEs, is singular after 1.
pub(super) fn with_unit(value: f64, unit: &str) -> String {
    let value = shown(value);
    let is_plural_noun = unit.len() > 2 && unit.ends_with('s') && !unit.contains('/');
    match unit.strip_suffix('s') {
        _ if unit.is_empty() => value,
        Some(singular) if value == "1" && is_plural_noun => format!("{value} {singular}"),
        _ => format!("{value} {unit}"),
    }
}

impl fmt::Display for Conclusions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Conclusions::Reproduced => "reproduced",
            Conclusions::Partly => "partly reproduced",
            Conclusions::Not => "not reproduced",
            Conclusions::NotExercised => "not exercised",
            Conclusions::Inconclusive => "inconclusive",
            Conclusions::Arithmetic => "arithmetic",
            Conclusions::NotJudged => "not judged",
        })
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Judgement::Holds => "holds",
            Judgement::Arithmetic => "arithmetic",
            Judgement::Fails => "fails",
            Judgement::Undecided => "open",
            Judgement::NotExercised => "not exercised",
            Judgement::NotJudged => "not judged",
            Judgement::LeftOut => "left out",
        })
    }
}
