//! Whether what the paper found holds: every claim and number against what the runs came to.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::lateness::Lateness;
use super::measure::Reading;
use super::paper_file::{Bound, Claim, Measure, PaperFile};
use super::statistics::Estimate;
use super::units::shown;
use crate::experiment::Backend;

/// What came of an experiment: `verdict.json`. It is the same on every machine, for the same points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Outcome {
    /// [`Outcome::FORMAT`].
    pub format: String,
    pub id: String,
    pub verdict: Verdict,
    /// What came of it, as a sentence for someone who has not read the paper.
    pub says: String,
    /// Why it is no better, in sentences.
    pub reasons: Vec<String>,
    /// What the machine took of the runs; none in virtual time, which is never late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Lateness>,
    /// What a quick run left out, or one with real frames.
    pub left_out: Option<String>,
    /// `PATH=VALUE` that was laid over the scenario: it is another experiment then.
    pub set: Vec<String>,
    pub backend: String,
    /// How many points ran.
    pub points: usize,
    /// With how many seeds each; 1 of an experiment without chance.
    pub seeds: usize,
    pub numbers: Vec<Number>,
    pub claims: Vec<JudgedClaim>,
}

/// Whether a paper's findings come out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    /// A conclusion fails, or a run that one is read off; a stated number is off by more than its half or its double; or no
    /// conclusion holds for sure.
    DoesNotHold,
    /// No conclusion fails in runs to judge by, and one is read off a run in which the machine was late: it is not judged.
    NotJudged,
    /// No conclusion fails; another claim, a number or a run does, or something is open.
    HoldsInPart,
    /// Nothing fails, and what is concluded follows from formulas: no run could have contradicted it.
    Arithmetic,
    /// All claims and all numbers.
    Holds,
}

/// A measure's value, beside the paper's if that has one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Number {
    pub name: String,
    pub unit: String,
    /// None if there is none, and why.
    pub weir: Option<f64>,
    pub none: Option<String>,
    /// 95 %.
    pub interval: Option<(f64, f64)>,
    pub runs: usize,
    /// The least and the most of repeats, which vary by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_and_most: Option<(f64, f64)>,
    /// How many runs a share holds for; `None` for other numbers.
    pub holds_for: Option<usize>,
    pub paper: Option<f64>,
    /// How far from the paper's it may be, in its unit.
    pub within: Option<f64>,
    pub source: Option<String>,
    /// Why it may be that far from it.
    pub why: Option<String>,
    pub judgement: Option<Judgement>,
    /// Whether a run that it is read off was late, so that it says nothing of the scheme.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_late: bool,
}

impl Number {
    /// Whether these runs are not to give it.
    pub(super) fn is_left_out(&self) -> bool {
        self.none.as_deref() == Some(LEFT_OUT)
    }

    /// For a table: `1.2 to 1.9`; empty where there are no repeats.
    pub(super) fn spread_shown(&self) -> String {
        self.least_and_most.map_or_else(String::new, |(least, most)| format!("{} to {}", shown(least), shown(most)))
    }

    /// For a table: the paper's number, Weir's, the interval, and the ratio of the two; empty where there is none.
    pub(super) fn shown(&self) -> [String; 4] {
        let with_unit = |value: f64| format!("{}{}", shown(value), spaced(&self.unit));
        let weir = match (self.weir, self.holds_for) {
            (Some(_), Some(holds_for)) if self.runs > 1 => format!("{holds_for} of {}", self.runs),
            (Some(value), _) => with_unit(value),
            (None, _) => self.none.clone().unwrap_or_default(),
        };
        let weir = if self.is_late { format!("{weir} (not judged)") } else { weir };
        let interval = self.interval.map(|(low, high)| format!("{} to {}", shown(low), shown(high)));
        let ratio = self.weir.zip(self.paper).filter(|(_, paper)| *paper != 0.0);
        [
            self.paper.map_or_else(String::new, with_unit),
            weir,
            interval.unwrap_or_default(),
            ratio.map_or_else(String::new, |(weir, paper)| format!("{:.2}", weir / paper)),
        ]
    }
}

/// A claim with what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JudgedClaim {
    pub says: String,
    pub conclusion: bool,
    /// Where the paper says so.
    pub source: String,
    pub judgement: Judgement,
    /// The comparison in numbers.
    pub because: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Judgement {
    Holds,
    /// It holds, and could not have failed: a formula stands on both sides, or there was nothing on either.
    Arithmetic,
    Fails,
    /// The interval lies on both sides.
    Undecided,
    /// A run that it is read off was late: it neither holds nor fails.
    NotJudged,
    /// A quick run has no point for it.
    LeftOut,
}

/// Why there is no number that these runs are not to give.
const LEFT_OUT: &str = "left out";
/// Why a ratio of 0 to 0 is no number.
const NOTHING: &str = "0 on both sides: nothing that could differ";

impl Outcome {
    /// What a point has several of: `5 seeds`, or repeats, where what differs is not drawn from them.
    pub(super) fn seeds_shown(&self) -> String {
        let what = if self.backend == Backend::Hosts.name() { "repeat" } else { "seed" };
        format!("{} {what}{}", self.seeds, if self.seeds == 1 { "" } else { "s" })
    }

    /// Whether a number has the least and the most of repeats.
    pub(super) fn has_spread(&self) -> bool {
        self.numbers.iter().any(|number| number.least_and_most.is_some())
    }

    pub(super) const FORMAT: &str = "weir-verdict-1";

    /// Whether real frames ran it.
    pub(super) fn is_real(&self) -> bool {
        self.backend != Backend::Sim.name()
    }

    /// What another sweep than the full one left out, as a sentence.
    pub(super) fn lessened(&self) -> Option<String> {
        let kind = if self.is_real() { "A run with real frames" } else { "A quick run" };
        self.left_out.as_ref().map(|left_out| format!("{kind}, without {left_out}."))
    }
}

/// The numbers and claims of an experiment, judged.
pub(super) fn judge(paper: &PaperFile, readings: &BTreeMap<String, Reading>) -> (Vec<Number>, Vec<JudgedClaim>) {
    let numbers = paper.measures.iter().map(|measure| number(measure, &readings[&measure.name])).collect();
    let claims = paper.claims.iter().map(|claim| judged(claim, paper, readings)).collect();
    (numbers, claims)
}

/// The verdict. `failed` says whether a run came to no good end, and `matters` whether a conclusion is read off such a one.
pub(super) fn conclude(failed: bool, matters: bool, numbers: &[Number], claims: &[JudgedClaim]) -> Verdict {
    let of_run = match (failed, matters) {
        (false, _) => Verdict::Holds,
        (true, false) => Verdict::HoldsInPart,
        (true, true) => Verdict::DoesNotHold,
    };
    let of_claim = |claim: &JudgedClaim| match claim.judgement {
        Judgement::Holds | Judgement::Arithmetic | Judgement::LeftOut => Verdict::Holds,
        Judgement::Fails if claim.conclusion => Verdict::DoesNotHold,
        Judgement::NotJudged if claim.conclusion => Verdict::NotJudged,
        Judgement::Fails | Judgement::Undecided | Judgement::NotJudged => Verdict::HoldsInPart,
    };
    let of_number = |number: &Number| match number.judgement {
        Some(Judgement::Fails) if number.is_far_off() => Verdict::DoesNotHold,
        Some(Judgement::Fails | Judgement::Undecided | Judgement::NotJudged) => Verdict::HoldsInPart,
        _ => Verdict::Holds,
    };
    let conclusions = Tally::of(claims.iter().filter(|claim| claim.conclusion).map(|claim| claim.judgement));
    let of_conclusions = match conclusions {
        Tally { holds: 1.., .. } => Verdict::Holds,
        // In a hurry all of what the paper is about may be left out.
        Tally { judged: 0, arithmetic: 0, .. } => Verdict::HoldsInPart,
        Tally { judged: 0, .. } => Verdict::Arithmetic,
        // The rest is open, and what is not judged may hold.
        Tally { fails: 0, unjudged: 1.., .. } => Verdict::NotJudged,
        _ => Verdict::DoesNotHold,
    };
    let all = claims.iter().map(of_claim).chain(numbers.iter().map(of_number));
    all.fold(of_run.min(of_conclusions), Verdict::min)
}

/// How many of some claims or numbers came to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Claims that could have failed, and were looked at.
    pub judged: usize,
    pub holds: usize,
    pub fails: usize,
    pub open: usize,
    pub arithmetic: usize,
    /// Claims that a late run kept from being judged; not among `judged`.
    pub unjudged: usize,
}

impl Tally {
    pub(super) fn of(judgements: impl Iterator<Item = Judgement>) -> Tally {
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
            };
            *place += 1;
            tally.judged += 1;
        }
        tally
    }

    /// `3 of 4`, `3 of 4, 2 not judged`; nothing of none.
    pub(super) fn held(&self) -> String {
        let judged = (self.judged > 0).then(|| format!("{} of {}", self.holds, self.judged));
        let unjudged = (self.unjudged > 0).then(|| format!("{} not judged", self.unjudged));
        judged.into_iter().chain(unjudged).collect::<Vec<_>>().join(", ")
    }
}

impl Number {
    /// Whether it is less than half or more than twice what the paper states: then the size of what it found does not come out, whatever
    /// the direction. Savings in percent may be more. A stated 0, and a ratio of 0 to 0, have no size to be off by.
    pub(super) fn is_far_off(&self) -> bool {
        if self.none.as_deref() == Some(NOTHING) {
            return false;
        }
        let Some(paper) = self.paper.filter(|paper| *paper != 0.0) else { return false };
        self.weir.is_none_or(|weir| weir / paper < 0.5 || (weir / paper > 2.0 && self.unit != "%"))
    }
}

fn number(measure: &Measure, reading: &Reading) -> Number {
    let mut number = Number {
        name: measure.name.clone(),
        unit: measure.unit.clone(),
        weir: None,
        none: None,
        interval: None,
        runs: 0,
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
        Reading::Is(estimate) => {
            number.weir = Some(estimate.value);
            number.interval = estimate.interval;
            number.runs = estimate.runs;
            number.least_and_most = least_and_most(&estimate.values);
            number.holds_for = estimate.holds_for;
            let range = measure.paper.zip(measure.allowed()).map(|(paper, within)| paper - within..=paper + within);
            range.map_or(Judgement::Holds, |range| inside(estimate, &range))
        }
        Reading::LeftOut => {
            number.none = Some(LEFT_OUT.to_owned());
            Judgement::LeftOut
        }
        Reading::Nothing => {
            number.none = Some(NOTHING.to_owned());
            // A paper that has 0 too, nothing spared or nothing left, is not contradicted, and could not have been.
            if measure.paper == Some(0.0) { Judgement::Arithmetic } else { Judgement::Fails }
        }
        Reading::None(why) => {
            number.none = Some(why.clone());
            Judgement::Fails
        }
    };
    number.judgement = measure.paper.map(|_| judgement);
    number
}

/// For several values.
fn least_and_most(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().reduce(f64::min)?;
    let most = values.iter().copied().reduce(f64::max)?;
    (values.len() > 1).then_some((least, most))
}

impl Measure {
    /// How far from the paper's number it may be.
    pub(super) fn allowed(&self) -> Option<f64> {
        let relative = self.paper.zip(self.tolerance).map(|(paper, tolerance)| (paper * tolerance).abs());
        self.within.or(relative)
    }
}

/// A value in the range holds; one beside it whose interval reaches into it is undecided.
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

/// A claim holds if all of its comparisons do.
fn judged(claim: &Claim, paper: &PaperFile, readings: &BTreeMap<String, Reading>) -> JudgedClaim {
    // None is not judged yet: which runs were late is looked at afterwards.
    const WORST_FIRST: [Judgement; 5] =
        [Judgement::Fails, Judgement::Undecided, Judgement::LeftOut, Judgement::Arithmetic, Judgement::Holds];
    let mut all = Judgement::Holds;
    let mut because = Vec::new();
    let unit = paper.measures.iter().find(|it| it.name == claim.measure).map_or("", |it| it.unit.as_str());
    for (relation, bound) in claim.comparisons() {
        let (judgement, text) = compare(claim, relation, bound, readings, unit);
        because.push(text);
        // The worst of them; what is left out says nothing.
        all = WORST_FIRST.into_iter().find(|one| [all, judgement].contains(one)).expect("one of five");
    }
    if all == Judgement::Holds && claim.arithmetic {
        all = Judgement::Arithmetic;
    }
    JudgedClaim {
        says: claim.says.clone(),
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

    /// How many comparisons it has.
    pub(super) fn comparison_count(&self) -> usize {
        self.comparisons().count()
    }

    /// The names of the measures that it needs.
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
    readings: &BTreeMap<String, Reading>,
    unit: &str,
) -> (Judgement, String) {
    let (other, other_name) = match bound {
        Bound::Number(number) => (Reading::Is(Estimate::exactly(*number, 1)), String::new()),
        Bound::Measure { measure, times } => {
            let reading = match &readings[measure] {
                Reading::Is(estimate) => Reading::Is(estimate.clone().divided_by(1.0 / times)),
                other => other.clone(),
            };
            let name = if *times == 1.0 { measure.clone() } else { format!("{} x {measure}", shown(*times)) };
            (reading, format!(" ({name})"))
        }
    };
    let (one, other) = match (&readings[&claim.measure], other) {
        (Reading::Is(one), Reading::Is(other)) => (one, other),
        (Reading::None(why), _) => return (Judgement::Fails, format!("{}: {why}", claim.measure)),
        (_, Reading::None(why)) => return (Judgement::Fails, format!("{other_name}: {why}")),
        (Reading::Nothing, _) => return (Judgement::Fails, format!("{}: {NOTHING}", claim.measure)),
        (_, Reading::Nothing) => return (Judgement::Fails, format!("{other_name}: {NOTHING}")),
        _ => return (Judgement::LeftOut, "left out".to_owned()),
    };
    if matches!(bound, Bound::Measure { .. }) && one.is_nothing() && other.is_nothing() {
        // Such as "no more PAUSEs" where there was none at all.
        let judgement = match relation.judge(one, &other) {
            Judgement::Holds => Judgement::Arithmetic,
            other => other,
        };
        return (judgement, format!("0{0} on both sides: nothing that could differ", spaced(unit)));
    }
    let text = format!(
        "expected {}{}{}{other_name}, measured {}",
        relation.words(),
        shown(other.value),
        spaced(unit),
        with_interval(one, unit)
    );
    (relation.judge(one, &other), text)
}

impl Relation {
    fn words(self) -> &'static str {
        match self {
            Relation::Is => "",
            Relation::AtLeast => "at least ",
            Relation::AtMost => "at most ",
            Relation::Above => "more than ",
            Relation::Below => "less than ",
        }
    }

    /// By the difference; undecided if its interval lies on both sides. A value that is to be a number is that number, whatever the
    /// interval.
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

/// `884 KB`, `0.4 (0.22 to 0.61; 8 of 20)`.
pub(super) fn with_interval(estimate: &Estimate, unit: &str) -> String {
    let value = format!("{}{}", shown(estimate.value), spaced(unit));
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

/// A unit behind its number.
pub(super) fn spaced(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!(" {unit}") }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Holds => "holds",
            Verdict::HoldsInPart => "holds in part",
            Verdict::Arithmetic => "is arithmetic",
            Verdict::NotJudged => "is not judged",
            Verdict::DoesNotHold => "does not hold",
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
            Judgement::NotJudged => "not judged",
            Judgement::LeftOut => "left out",
        })
    }
}
