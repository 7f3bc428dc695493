//! Verdicts in words: a sentence each for a reader who has not read the paper, and the reasons why they are not better.

use super::lateness::Lateness;
use super::verdict::{Conclusions, ExperimentOutcome, JudgedClaim, Judgement, NumbersVerdict, Tally, with_unit};
use crate::table::units::shown;

impl ExperimentOutcome {
    /// Composes verdicts, sentences and reasons from claims and numbers.
    pub(super) fn with_sentences(self) -> ExperimentOutcome {
        let conclusions = Conclusions::from_claims(&self.claims);
        let outcome = ExperimentOutcome { conclusions, ..self };
        ExperimentOutcome {
            summary: if outcome.is_quick() { QUICK_LEAD } else { "" }.to_owned() + &summary(&outcome),
            numbers_summary: numbers_summary(NumbersVerdict::from_numbers(&outcome.numbers)),
            reasons: reasons(&outcome),
            ..outcome
        }
    }
}

/// Beginning of the sentence on a quick run's conclusions.
const QUICK_LEAD: &str = "Provisional, of a quick run. ";

/// Sentence on the conclusions.
fn summary(outcome: &ExperimentOutcome) -> String {
    let claims = outcome.claims.iter().filter(|claim| claim.conclusion);
    let main = Tally::from_judgements(claims.map(|claim| claim.judgement));
    let sentence = match outcome.conclusions {
        Conclusions::NotJudged => {
            let late = outcome.lateness.as_ref().map(Lateness::in_short);
            return not_judged(main, late.as_deref().unwrap_or("runs were late"));
        }
        Conclusions::Reproduced if main.judged == 1 => "Reproduced: the only main claim comes out".to_owned(),
        Conclusions::Reproduced => format!("Reproduced: all {} main claims come out", main.judged),
        Conclusions::Partly => {
            let verb = if main.holds == 1 { "comes" } else { "come" };
            format!("Partly reproduced: {} of {} main claims {verb} out{}", main.holds, main.judged, others(main))
        }
        Conclusions::Not if main.judged == 1 => "Not reproduced: the only main claim does not come out".to_owned(),
        Conclusions::Not => {
            // "1 does not" alone would repeat the sentence.
            let others = if main.fails < main.judged { others(main) } else { String::new() };
            format!("Not reproduced: none of {} main claims comes out{others}", main.judged)
        }
        Conclusions::NotExercised => {
            "Not exercised: both sides of the main claims are 0, so nothing could differ".to_owned()
        }
        Conclusions::Inconclusive if main.judged == 0 => {
            "Not looked at: these runs leave out the subject of the main claims".to_owned()
        }
        Conclusions::Inconclusive => "Inconclusive: these draws decide none of the main claims".to_owned(),
        Conclusions::Arithmetic => {
            "Follows from formulas: the conclusion can be calculated, and no run could contradict it".to_owned()
        }
    };
    let failed = match outcome.failed_runs {
        0 => String::new(),
        1 => "; a run failed".to_owned(),
        runs => format!("; {runs} runs failed"),
    };
    sentence + &failed + "."
}

/// Clauses on the main claims that do not hold: `, 1 does not, 2 are not decided by these draws`.
fn others(main: Tally) -> String {
    let verb = |count: usize, one: &'static str, more: &'static str| if count == 1 { one } else { more };
    let clauses = [
        (main.fails, verb(main.fails, "does not", "do not")),
        (main.open, verb(main.open, "is not decided by these draws", "are not decided by these draws")),
        (main.not_exercised, verb(main.not_exercised, "is not exercised", "are not exercised")),
        (main.unjudged, verb(main.unjudged, "depends on late runs", "depend on late runs")),
    ];
    clauses.into_iter().filter(|(count, _)| *count > 0).map(|(count, clause)| format!(", {count} {clause}")).collect()
}

/// Sentence on the numbers.
fn numbers_summary(numbers: NumbersVerdict) -> String {
    let NumbersVerdict { within, of, .. } = numbers;
    let ratio = numbers.ratio_shown().map_or_else(String::new, |(ratio, are_several)| {
        format!("; Weir's {} {ratio} times the paper's", if are_several { "are" } else { "is" })
    });
    match of {
        0 => "No stated number is compared.".to_owned(),
        1 => format!(
            "The only stated number is {} its tolerance{ratio}.",
            if within == 1 { "within" } else { "outside" }
        ),
        _ => format!("{within} of {of} stated numbers are within their tolerance{ratio}."),
    }
}

/// Sentence on main claims that depend on late runs.
fn not_judged(main: Tally, late: &str) -> String {
    let depend = match (main.unjudged, main.unjudged + main.judged) {
        (1, 1) => "the only main claim depends".to_owned(),
        (1, all) => format!("1 of {all} main claims depends"),
        (some, all) if some == all => format!("all {all} main claims depend"),
        (some, all) => format!("{some} of {all} main claims depend"),
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

/// Reasons why the verdicts are not better.
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
        let paper = match number.within {
            Some(within) => format!("{} +- {}", shown(paper), with_unit(within, &number.unit)),
            None => with_unit(paper, &number.unit),
        };
        reasons.push(format!("{how}: {} (the paper has {paper}, {measured})", number.name));
    }
    reasons
}

/// Opening of the reason for a judgement; `None` for one that needs no reason.
fn not_held(judgement: Judgement) -> Option<&'static str> {
    match judgement {
        Judgement::Holds | Judgement::Arithmetic | Judgement::LeftOut => None,
        Judgement::Fails => Some("Not reproduced"),
        Judgement::Undecided => Some("Not decided by these draws"),
        Judgement::NotExercised => Some("Not exercised"),
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
    use super::super::verdict::JudgedNumber;
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
            over: None,
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
            conclusions: Conclusions::default(),
            summary: String::new(),
            numbers_summary: String::new(),
            reasons: Vec::new(),
            failed_runs: 0,
            failures: Vec::new(),
            lateness: Some(Lateness { allowed_percent: 5.0, most_percent: 12.5, runs: 8, late }),
            left_out: None,
            set: Vec::new(),
            backend: "dpdk".to_owned(),
            hosts: 2,
            points: 8,
            seeds: 1,
            numbers: numbers.to_vec(),
            claims: claims.to_vec(),
        };
        outcome.with_sentences()
    }

    #[test]
    fn a_verdict_is_a_sentence_that_a_newcomer_understands() {
        use Judgement::{Arithmetic, Fails, Holds, LeftOut, NotExercised, NotJudged, Undecided};
        let cases: &[(&[Judgement], Conclusions, &str)] = &[
            (&[Holds], Conclusions::Reproduced, "Reproduced: the only main claim comes out."),
            (&[Holds, Holds, Arithmetic], Conclusions::Reproduced, "Reproduced: all 2 main claims come out."),
            (
                &[Holds, Undecided, Fails, Fails, NotExercised],
                Conclusions::Partly,
                "Partly reproduced: 1 of 5 main claims comes out, 2 do not, 1 is not decided by these draws, 1 is not \
                 exercised.",
            ),
            (
                &[Fails, Undecided],
                Conclusions::Not,
                "Not reproduced: none of 2 main claims comes out, 1 does not, 1 is not decided by these draws.",
            ),
            (
                &[NotExercised, NotExercised],
                Conclusions::NotExercised,
                "Not exercised: both sides of the main claims are 0, so nothing could differ.",
            ),
            (
                &[Undecided, NotExercised],
                Conclusions::Inconclusive,
                "Inconclusive: these draws decide none of the main claims.",
            ),
            (
                &[Arithmetic],
                Conclusions::Arithmetic,
                "Follows from formulas: the conclusion can be calculated, and no run could contradict it.",
            ),
            (
                &[LeftOut],
                Conclusions::Inconclusive,
                "Not looked at: these runs leave out the subject of the main claims.",
            ),
            (
                &[NotJudged, Holds, Undecided],
                Conclusions::NotJudged,
                "Not judged: the machine was late in 1 of 8 runs, on which 1 of 3 main claims depends; of the other 2, 1 comes \
                 out.",
            ),
            (
                &[NotJudged, NotJudged],
                Conclusions::NotJudged,
                "Not judged: the machine was late in 1 of 8 runs, on which all 2 main claims depend.",
            ),
            // With a claim not judged, "none comes out for sure" is no finding.
            (
                &[NotJudged, Undecided],
                Conclusions::NotJudged,
                "Not judged: the machine was late in 1 of 8 runs, on which 1 of 2 main claims depends; the other one does \
                 not come out for sure.",
            ),
            // A claim that fails in good runs fails.
            (&[NotJudged, Fails], Conclusions::Not, "Not reproduced: the only main claim does not come out."),
        ];
        for (main, conclusions, sentence) in cases {
            // No claim of another kind and no number changes the verdict on the conclusions.
            for further in [Holds, Fails, Undecided] {
                let claims: Vec<JudgedClaim> =
                    main.iter().map(|judgement| claim(true, *judgement)).chain([claim(false, further)]).collect();
                let outcome = outcome(&[number("%", 80.0, Some(5.0), Fails)], &claims);
                assert_eq!((outcome.conclusions, outcome.summary.as_str()), (*conclusions, *sentence));
            }
        }
    }

    #[test]
    fn numbers_have_a_verdict_of_their_own() {
        let say = |numbers: &[JudgedNumber]| outcome(numbers, &[claim(true, Judgement::Holds)]).numbers_summary;
        let (good, bad) =
            (number("%", 80.0, Some(72.0), Judgement::Holds), number("%", 80.0, Some(4.0), Judgement::Fails));
        assert_eq!(say(&[]), "No stated number is compared.");
        assert_eq!(
            say(std::slice::from_ref(&good)),
            "The only stated number is within its tolerance; Weir's is 0.90 times the paper's."
        );
        assert_eq!(
            say(&[good, bad, number("ms", 13.0, None, Judgement::Fails)]),
            "1 of 3 stated numbers are within their tolerance; Weir's are 0.05 to 0.90 times the paper's."
        );
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
                "Not reproduced: PAUSEs spared (the paper has 80 +- 8 %, measured 5 %)",
                "Not reproduced: PAUSEs spared (the paper has 80 +- 8 %, measured none (never))",
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

    #[test]
    fn a_table_has_the_papers_column_only_with_numbers_of_the_paper() {
        let stated = number("%", 80.0, Some(78.0), Judgement::Holds);
        let own = JudgedNumber { paper: None, over: Some("median".to_owned()), ..stated.clone() };
        let table = outcome(std::slice::from_ref(&own), &[]).number_table();
        assert_eq!(table, [["", "Weir", "95 % interval"], ["PAUSEs spared", "78 % (median)", ""]]);
        let table = outcome(&[stated, own], &[]).number_table();
        assert_eq!(table[0], ["", "paper", "Weir", "95 % interval", "ratio"]);
        assert_eq!(table[1], ["PAUSEs spared", "80 %", "78 %", "", "0.97"]);
        assert_eq!(table[2], ["PAUSEs spared", "", "78 % (median)", "", ""]);
    }
}
