//! Verdict in words: one sentence for a reader who has not read the paper, and the reasons why the verdict is not
//! better.

use super::lateness::Lateness;
use super::verdict::{ExperimentOutcome, JudgedClaim, Judgement, Tally, Verdict, with_unit};
use crate::table::units::shown;

/// Counts of one kind of claims, with the kind's name in the singular.
#[derive(Clone, Copy)]
struct ClaimKind {
    tally: Tally,
    name: &'static str,
}

impl ExperimentOutcome {
    /// Composes summary and reasons from the other fields.
    pub(super) fn with_sentences(self) -> ExperimentOutcome {
        ExperimentOutcome { summary: summary(&self), reasons: reasons(&self), ..self }
    }
}

/// Sentence on an experiment's result.
fn summary(outcome: &ExperimentOutcome) -> String {
    let of_claims = |conclusion: bool| {
        let claims = outcome.claims.iter().filter(|claim| claim.conclusion == conclusion);
        Tally::from_judgements(claims.map(|claim| claim.judgement))
    };
    let main = ClaimKind { tally: of_claims(true), name: "main claim" };
    let further = ClaimKind { tally: of_claims(false), name: "further claim" };
    let stated = Tally::from_judgements(outcome.numbers.iter().filter_map(|number| number.judgement));
    let stated = ClaimKind { tally: stated, name: "stated number" };
    let kinds = [main, further, stated];
    let unjudged: usize = kinds.iter().map(|kind| kind.tally.unjudged).sum();
    let late = outcome.lateness.as_ref().filter(|_| unjudged > 0).map(Lateness::in_short);
    let sentence = match outcome.verdict {
        Verdict::NotJudged => return not_judged(main.tally, late.as_deref().unwrap_or("runs were late")),
        Verdict::Holds => {
            let held = kinds.iter().filter(|kind| kind.tally.holds > 0);
            let held: Vec<String> = held.map(|kind| counted(kind.tally.holds, kind.name)).collect();
            format!("Reproduced: all of the paper's claims come out ({})", held.join(", "))
        }
        Verdict::Arithmetic => {
            "Follows from formulas: the paper's conclusion can be calculated, and no run could contradict it".to_owned()
        }
        Verdict::HoldsInPart if main.tally.judged == 0 => {
            "Not looked at: these runs leave out the subject of the paper's main claims".to_owned()
        }
        Verdict::HoldsInPart => {
            let (holds, judged) = (main.tally.holds, main.tally.judged);
            let main = match judged - holds {
                0 if judged == 1 => "the paper's only main claim comes out".to_owned(),
                0 => format!("the paper's {judged} main claims come out"),
                open => format!(
                    "{holds} of the paper's {judged} main claims {}, and {open} can't be decided by these runs",
                    if holds == 1 { "comes out" } else { "come out" }
                ),
            };
            let but: Vec<String> =
                [further, stated].into_iter().filter_map(missing).chain(failed_runs(outcome)).collect();
            let but = if but.is_empty() { String::new() } else { format!(", but {}", but.join(", and ")) };
            format!("Reproduced in part: {main}{but}")
        }
        Verdict::DoesNotHold => {
            let main = main_claims_missing(main.tally);
            let all: Vec<String> = main.into_iter().chain(far_off(outcome)).chain(failed_runs(outcome)).collect();
            format!("Not reproduced: {}", all.join(", and "))
        }
    };
    let Some(late) = late else { return sentence + "." };
    let without = kinds.iter().filter(|kind| kind.tally.unjudged > 0);
    let without: Vec<String> = without.map(|kind| counted(kind.tally.unjudged, kind.name)).collect();
    let verb = if unjudged == 1 { "is" } else { "are" };
    format!("{sentence}; {} {verb} not judged, as {late}.", without.join(" and "))
}

/// Sentence on main claims that depend on late runs.
fn not_judged(main: Tally, late: &str) -> String {
    let depend = match (main.unjudged, main.unjudged + main.judged) {
        (1, 1) => "the paper's only main claim depends".to_owned(),
        (1, all) => format!("1 of the paper's {all} main claims depends"),
        (some, all) if some == all => format!("the paper's {all} main claims depend"),
        (some, all) => format!("{some} of the paper's {all} main claims depend"),
    };
    let others = match (main.judged, main.holds) {
        (0, _) => String::new(),
        (1, holds) => {
            format!("; the other one {}", if holds == 1 { "comes out" } else { "does not come out for sure" })
        }
        (judged, 1) => format!("; of the other {judged}, 1 comes out"),
        (judged, holds) => format!("; of the other {judged}, {holds} come out"),
    };
    format!("Not judged: {late}, on which {depend}{others}.")
}

/// Clause on main claims that fail, or on none that holds for sure.
fn main_claims_missing(main: Tally) -> Option<String> {
    Some(match (main.fails, main.judged) {
        (0, _) if main.holds > 0 => return None,
        (0, 1) => "the paper's only main claim does not come out for sure".to_owned(),
        (0, judged) => format!("none of the paper's {judged} main claims comes out for sure"),
        (1, 1) => "the paper's only main claim does not come out".to_owned(),
        (1, judged) => format!("1 of the paper's {judged} main claims does not come out"),
        (fails, judged) if fails == judged => format!("none of the paper's {judged} main claims comes out"),
        (fails, judged) => format!("{fails} of the paper's {judged} main claims do not come out"),
    })
}

/// Clause on stated numbers of another magnitude.
fn far_off(outcome: &ExperimentOutcome) -> Option<String> {
    let fails = outcome.numbers.iter().filter(|number| number.judgement == Some(Judgement::Fails));
    match fails.filter(|number| number.is_far_off()).count() {
        0 => None,
        1 => Some("a stated number is off by more than a factor of 2".to_owned()),
        some => Some(format!("{some} stated numbers are off by more than a factor of 2")),
    }
}

fn failed_runs(outcome: &ExperimentOutcome) -> Option<String> {
    match outcome.failed_runs {
        0 => None,
        1 => Some("a run failed".to_owned()),
        runs => Some(format!("{runs} runs failed")),
    }
}

/// Clause on claims of a kind that do not hold.
fn missing(ClaimKind { tally, name }: ClaimKind) -> Option<String> {
    match (tally.fails + tally.open, tally.judged) {
        (0, _) => None,
        (_, 1) => Some(format!("the only {name} does not")),
        (1, judged) => Some(format!("1 of {judged} {name}s does not")),
        (some, judged) => Some(format!("{some} of {judged} {name}s do not")),
    }
}

/// Count with its noun: `1 main claim`, `2 main claims`.
pub(super) fn counted(count: usize, name: &str) -> String {
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}

/// Reasons why the verdict is not better.
fn reasons(outcome: &ExperimentOutcome) -> Vec<String> {
    let ExperimentOutcome { numbers, claims, .. } = outcome;
    let mut reasons = outcome.failures.clone();
    let judgements =
        claims.iter().map(|claim| claim.judgement).chain(numbers.iter().filter_map(|number| number.judgement));
    if Tally::from_judgements(judgements).unjudged > 0 {
        reasons.extend(outcome.lateness.as_ref().map(Lateness::describe));
    }
    for JudgedClaim { statement, judgement, because, .. } in claims {
        if let Some(how) = not_held(*judgement) {
            reasons.push(format!("{how}: {statement} ({because})"));
        }
    }
    for number in numbers {
        let (Some(how), Some(paper)) = (number.judgement.and_then(not_held), number.paper) else { continue };
        let measured = match number.weir {
            Some(value) => format!("measured {}", with_unit(value, &number.unit)),
            None => format!("measured none ({})", number.none.as_deref().unwrap_or("")),
        };
        let far = number.judgement == Some(Judgement::Fails) && number.is_far_off();
        let far = if far { ", by more than a factor of 2" } else { "" };
        let paper = match number.within {
            Some(within) => format!("{} +- {}", shown(paper), with_unit(within, &number.unit)),
            None => with_unit(paper, &number.unit),
        };
        reasons.push(format!("{how}{far}: {} (the paper has {paper}, {measured})", number.name));
    }
    reasons
}

/// Opening of the reason for a judgement; `None` for one that needs no reason.
fn not_held(judgement: Judgement) -> Option<&'static str> {
    match judgement {
        Judgement::Holds | Judgement::Arithmetic | Judgement::LeftOut => None,
        Judgement::Fails => Some("Not reproduced"),
        Judgement::Undecided => Some("Not decided by these runs"),
        Judgement::NotJudged => Some("Not judged"),
    }
}

/// Sentence with a capital first letter and a full stop.
pub(super) fn upper_first(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect()) + "."
}

#[cfg(test)]
mod tests {
    use super::super::lateness::LateRun;
    use super::super::verdict::{JudgedNumber, conclude};
    use super::*;

    fn claim(conclusion: bool, judgement: Judgement) -> JudgedClaim {
        let because = "expected 0 PAUSEs, measured 8 PAUSEs".to_owned();
        JudgedClaim {
            statement: "SPFC sends no PAUSE".to_owned(),
            conclusion,
            source: String::new(),
            judgement,
            because,
        }
    }

    fn number(unit: &str, paper: f64, weir: Option<f64>, judgement: Judgement) -> JudgedNumber {
        JudgedNumber {
            name: "PAUSEs spared".to_owned(),
            unit: unit.to_owned(),
            weir,
            none: weir.is_none().then(|| "never".to_owned()),
            interval: None,
            runs: 1,
            least_and_most: None,
            holds_for: None,
            paper: Some(paper),
            within: Some(8.0),
            source: None,
            why: None,
            judgement: Some(judgement),
            is_late: false,
        }
    }

    fn outcome(numbers: &[JudgedNumber], claims: &[JudgedClaim]) -> ExperimentOutcome {
        let late = vec![LateRun { run: "2-fast".to_owned(), lost_percent: 12.5 }];
        let outcome = ExperimentOutcome {
            format: ExperimentOutcome::FORMAT.to_owned(),
            id: "a.1".to_owned(),
            verdict: conclude(false, false, numbers, claims),
            summary: String::new(),
            reasons: Vec::new(),
            failed_runs: 0,
            failures: Vec::new(),
            lateness: Some(Lateness { allowed_percent: 5.0, most_percent: 12.5, runs: 8, late }),
            left_out: None,
            set: Vec::new(),
            backend: "dpdk".to_owned(),
            points: 8,
            seeds: 1,
            numbers: numbers.to_vec(),
            claims: claims.to_vec(),
        };
        outcome.with_sentences()
    }

    #[test]
    fn a_verdict_is_a_sentence_that_a_newcomer_understands() {
        use Judgement::{Arithmetic, Fails, Holds, LeftOut, NotJudged, Undecided};
        let cases: &[(&[JudgedClaim], Verdict, &str)] = &[
            (
                &[claim(true, Holds), claim(false, Holds)],
                Verdict::Holds,
                "Reproduced: all of the paper's claims come out (1 main claim, 1 further claim).",
            ),
            (
                &[claim(true, Holds), claim(true, Undecided), claim(false, Fails)],
                Verdict::HoldsInPart,
                "Reproduced in part: 1 of the paper's 2 main claims comes out, and 1 can't be decided by these runs, but the only further claim \
                 does not.",
            ),
            (
                &[claim(true, Holds), claim(true, Fails)],
                Verdict::DoesNotHold,
                "Not reproduced: 1 of the paper's 2 main claims does not come out.",
            ),
            (
                &[claim(true, Undecided), claim(true, Arithmetic)],
                Verdict::DoesNotHold,
                "Not reproduced: the paper's only main claim does not come out for sure.",
            ),
            (
                &[claim(true, Arithmetic)],
                Verdict::Arithmetic,
                "Follows from formulas: the paper's conclusion can be calculated, and no run could contradict it.",
            ),
            (
                &[claim(true, LeftOut), claim(false, Holds)],
                Verdict::HoldsInPart,
                "Not looked at: these runs leave out the subject of the paper's main claims.",
            ),
            (
                &[claim(true, NotJudged), claim(true, Holds), claim(true, Undecided)],
                Verdict::NotJudged,
                "Not judged: the machine was late in 1 of 8 runs, on which 1 of the paper's 3 main claims depends; of the other 2, 1 comes \
                 out.",
            ),
            (
                &[claim(true, NotJudged), claim(true, NotJudged), claim(false, Fails)],
                Verdict::NotJudged,
                "Not judged: the machine was late in 1 of 8 runs, on which the paper's 2 main claims depend.",
            ),
            // With a claim not judged, "none comes out for sure" is no finding.
            (
                &[claim(true, NotJudged), claim(true, Undecided)],
                Verdict::NotJudged,
                "Not judged: the machine was late in 1 of 8 runs, on which 1 of the paper's 2 main claims depends; the other one does \
                 not come out for sure.",
            ),
            // A claim that fails in good runs fails.
            (
                &[claim(true, NotJudged), claim(true, Fails)],
                Verdict::DoesNotHold,
                "Not reproduced: the paper's only main claim does not come out; 1 main claim is not judged, as the machine was late in 1 of \
                 8 runs.",
            ),
            (
                &[claim(true, Holds), claim(false, NotJudged), claim(false, NotJudged)],
                Verdict::HoldsInPart,
                "Reproduced in part: the paper's only main claim comes out; 2 further claims are not judged, as the machine was late in 1 \
                 of 8 runs.",
            ),
        ];
        for (claims, verdict, sentence) in cases {
            let outcome = outcome(&[], claims);
            assert_eq!((outcome.verdict, outcome.summary.as_str()), (*verdict, *sentence));
        }
    }

    #[test]
    fn a_number_of_another_magnitude_is_no_part_of_a_finding() {
        let claims = [claim(true, Judgement::Holds)];
        let of = |unit: &str, paper: f64, weir: Option<f64>| {
            outcome(&[number(unit, paper, weir, Judgement::Fails)], &claims).verdict
        };
        // 80 % less stated, 5 % measured; and 65 %.
        assert_eq!((of("%", 80.0, Some(5.0)), of("%", 80.0, Some(65.0))), (Verdict::DoesNotHold, Verdict::HoldsInPart));
        // Larger savings than stated; an increase; and a time three times as long, or infinite.
        assert_eq!(
            (of("%", 31.6, Some(99.0)), of("%", 31.6, Some(-5.0))),
            (Verdict::HoldsInPart, Verdict::DoesNotHold)
        );
        assert_eq!((of("ms", 13.0, Some(40.0)), of("ms", 13.0, None)), (Verdict::DoesNotHold, Verdict::DoesNotHold));
        let open = [number("%", 80.0, Some(5.0), Judgement::Undecided)];
        assert_eq!(outcome(&open, &claims).verdict, Verdict::HoldsInPart);
    }

    #[test]
    fn reasons_say_what_was_expected_and_what_was_measured() {
        let numbers = [
            number("%", 80.0, Some(5.0), Judgement::Fails),
            number("%", 80.0, None, Judgement::Fails),
            number("PAUSEs", 0.0, Some(1.0), Judgement::Fails),
        ];
        assert_eq!(
            outcome(&numbers, &[claim(true, Judgement::Fails), claim(true, Judgement::Holds)]).reasons,
            [
                "Not reproduced: SPFC sends no PAUSE (expected 0 PAUSEs, measured 8 PAUSEs)",
                "Not reproduced, by more than a factor of 2: PAUSEs spared (the paper has 80 +- 8 %, measured 5 %)",
                "Not reproduced, by more than a factor of 2: PAUSEs spared (the paper has 80 +- 8 %, measured none (never))",
                "Not reproduced: PAUSEs spared (the paper has 0 +- 8 PAUSEs, measured 1 PAUSE)",
            ]
        );
        let late_number = JudgedNumber { is_late: true, ..number("%", 80.0, Some(5.0), Judgement::NotJudged) };
        assert_eq!(
            outcome(&[late_number], &[claim(true, Judgement::NotJudged)]).reasons,
            [
                "the run 2-fast lost 12.5 % of its time to the machine, and more than 5 % is not judged by (--lateness): leave the machine \
                 alone, slow the clock down (time_dilation), or take fewer hosts; the same command runs what was late anew, and keeps the \
                 rest",
                "Not judged: SPFC sends no PAUSE (expected 0 PAUSEs, measured 8 PAUSEs)",
                "Not judged: PAUSEs spared (the paper has 80 +- 8 %, measured 5 %)",
            ]
        );
    }
}
