//! Verdict in words: one sentence for a reader who has not read the paper, and the reasons why the verdict is not
//! better.

use super::lateness::Lateness;
use super::units::shown;
use super::verdict::{JudgedClaim, JudgedNumber, Judgement, Tally, Verdict, spaced};

/// Counts of one kind of claims, with the kind's name.
#[derive(Clone, Copy)]
struct ClaimKind {
    tally: Tally,
    one: &'static str,
    several: &'static str,
}

/// Sentence on an experiment's result. `failed` is the number of failed runs, and `lateness` the time lost to the
/// machine.
pub(super) fn summary(
    verdict: Verdict,
    failed: usize,
    lateness: Option<&Lateness>,
    numbers: &[JudgedNumber],
    claims: &[JudgedClaim],
) -> String {
    let of_claims = |conclusion: bool| {
        Tally::from_judgements(
            claims.iter().filter(|claim| claim.conclusion == conclusion).map(|claim| claim.judgement),
        )
    };
    let (conclusions, others) = (of_claims(true), of_claims(false));
    let stated = Tally::from_judgements(numbers.iter().filter_map(|number| number.judgement));
    let of_kind = |tally, one, several| ClaimKind { tally, one, several };
    let besides =
        [of_kind(others, "further claim", "further claims"), of_kind(stated, "stated number", "stated numbers")];
    let all = [of_kind(conclusions, "main claim", "main claims")].into_iter().chain(besides);
    let runs = match failed {
        0 => None,
        1 => Some("a run failed".to_owned()),
        runs => Some(format!("{runs} runs failed")),
    };
    let unjudged = conclusions.unjudged + others.unjudged + stated.unjudged;
    let late = lateness.filter(|_| unjudged > 0).map(Lateness::in_short);
    let sentence = match verdict {
        Verdict::NotJudged => {
            let late = late.as_deref().unwrap_or("runs were late");
            let (judged, holds) = (conclusions.judged, conclusions.holds);
            let mut sentence = format!(
                "Not judged: {late}, by which {} of the paper's {} main claims {}",
                conclusions.unjudged,
                conclusions.unjudged + judged,
                if conclusions.unjudged == 1 { "goes" } else { "go" }
            );
            if judged > 0 {
                let verb = if holds == 1 { "comes" } else { "come" };
                sentence += &format!("; of the other {judged}, {holds} {verb} out");
            }
            return sentence + ".";
        }
        Verdict::Holds => {
            let counts = all.filter(|kind| kind.tally.holds > 0).map(|kind| {
                format!("{} {}", kind.tally.holds, if kind.tally.holds == 1 { kind.one } else { kind.several })
            });
            format!("Reproduced: all of the paper's claims come out ({}).", counts.collect::<Vec<_>>().join(", "))
        }
        Verdict::Arithmetic => {
            "Follows from formulas: what the paper concludes here can be reckoned, and no run could contradict it."
                .to_owned()
        }
        Verdict::HoldsInPart if conclusions.judged == 0 => {
            "Not looked at: these runs leave out what the paper's main claims are about.".to_owned()
        }
        Verdict::HoldsInPart => {
            let (holds, judged) = (conclusions.holds, conclusions.judged);
            let main = match judged - holds {
                0 => format!("the paper's main claims come out ({judged} of {judged})"),
                open => format!(
                    "{holds} of the paper's {judged} main claims come out, and {open} can't be decided by these runs"
                ),
            };
            let but: Vec<String> = besides.into_iter().filter_map(not_out).chain(runs).collect();
            let but = if but.is_empty() { String::new() } else { format!(", but {}", but.join(", and ")) };
            format!("Reproduced in part: {main}{but}.")
        }
        Verdict::DoesNotHold => {
            let far_off =
                numbers.iter().filter(|number| number.judgement == Some(Judgement::Fails) && number.is_far_off());
            let sizes = match far_off.count() {
                0 => None,
                1 => Some("a stated number is off by more than a factor of 2".to_owned()),
                some => Some(format!("{some} stated numbers are off by more than a factor of 2")),
            };
            let main = match (conclusions.fails, conclusions.judged) {
                (0, judged) if conclusions.holds == 0 => {
                    Some(format!("none of the paper's {judged} main claims comes out for sure"))
                }
                (0, _) => None,
                (fails, judged) => Some(format!(
                    "{fails} of the paper's {judged} main claims {} not come out",
                    if fails == 1 { "does" } else { "do" }
                )),
            };
            format!("Not reproduced: {}.", main.into_iter().chain(sizes).chain(runs).collect::<Vec<_>>().join(", and "))
        }
    };
    let Some(late) = late else { return sentence };
    let what = all_unjudged([(conclusions, "main claim"), (others, "further claim"), (stated, "stated number")]);
    let verb = if unjudged == 1 { "is" } else { "are" };
    format!("{}; {what} {verb} not judged, as {late}.", sentence.trim_end_matches('.'))
}

/// Counts of claims that are not judged: `1 main claim and 2 stated numbers`.
fn all_unjudged(tallies: [(Tally, &str); 3]) -> String {
    let some = tallies.into_iter().filter(|(tally, _)| tally.unjudged > 0);
    let counted = some.map(|(Tally { unjudged, .. }, what)| {
        let ending = if unjudged == 1 { "" } else { "s" };
        format!("{unjudged} {what}{ending}")
    });
    counted.collect::<Vec<_>>().join(" and ")
}

fn not_out(kind: ClaimKind) -> Option<String> {
    let missing = kind.tally.fails + kind.tally.open;
    let verb = if missing == 1 { "does" } else { "do" };
    let what = if kind.tally.judged == 1 { kind.one } else { kind.several };
    (missing > 0).then(|| format!("{missing} of {} {what} {verb} not", kind.tally.judged))
}

/// Reasons why the verdict is not better. `failed` has a sentence for each failed run.
pub(super) fn reasons(
    failed: Vec<String>,
    lateness: Option<&Lateness>,
    numbers: &[JudgedNumber],
    claims: &[JudgedClaim],
) -> Vec<String> {
    let mut reasons = failed;
    let judgements =
        claims.iter().map(|claim| claim.judgement).chain(numbers.iter().filter_map(|number| number.judgement));
    if Tally::from_judgements(judgements).unjudged > 0 {
        reasons.extend(lateness.map(Lateness::describe));
    }
    for claim in claims {
        let how = match claim.judgement {
            Judgement::Holds | Judgement::Arithmetic | Judgement::LeftOut => continue,
            Judgement::Fails => "Not reproduced",
            Judgement::Undecided => "Not decided by these runs",
            Judgement::NotJudged => "Not judged",
        };
        reasons.push(format!("{how}: {} ({})", claim.statement, claim.because));
    }
    for number in numbers {
        let (Some(judgement @ (Judgement::Fails | Judgement::Undecided | Judgement::NotJudged)), Some(paper)) =
            (number.judgement, number.paper)
        else {
            continue;
        };
        let unit = spaced(&number.unit);
        let measured = match number.weir {
            Some(value) => format!("measured {}{unit}", shown(value)),
            None => format!("measured none ({})", number.none.as_deref().unwrap_or("")),
        };
        let how = match judgement {
            Judgement::Undecided => "Not decided by these runs",
            Judgement::NotJudged => "Not judged",
            _ if number.is_far_off() => "Not reproduced, by more than a factor of 2",
            _ => "Not reproduced",
        };
        let within = number.within.map_or_else(String::new, |within| format!(" +- {}", shown(within)));
        reasons.push(format!("{how}: {} (the paper has {}{within}{unit}, {measured})", number.name, shown(paper)));
    }
    reasons
}

/// Sentence with a capital first letter and a full stop.
pub(super) fn upper_first(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect()) + "."
}

#[cfg(test)]
mod tests {
    use super::super::lateness::LateRun;
    use super::super::verdict::conclude;
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

    fn late() -> Lateness {
        let late = vec![LateRun { run: "2-fast".to_owned(), lost_percent: 12.5 }];
        Lateness { allowed_percent: 5.0, most_percent: 12.5, runs: 8, late }
    }

    fn told(numbers: &[JudgedNumber], claims: &[JudgedClaim]) -> (Verdict, String) {
        let verdict = conclude(false, false, numbers, claims);
        (verdict, summary(verdict, 0, Some(&late()), numbers, claims))
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
                "Reproduced in part: 1 of the paper's 2 main claims come out, and 1 can't be decided by these runs, but 1 of 1 further \
                 claim does not.",
            ),
            (
                &[claim(true, Holds), claim(true, Fails)],
                Verdict::DoesNotHold,
                "Not reproduced: 1 of the paper's 2 main claims does not come out.",
            ),
            (
                &[claim(true, Undecided), claim(true, Arithmetic)],
                Verdict::DoesNotHold,
                "Not reproduced: none of the paper's 1 main claims comes out for sure.",
            ),
            (
                &[claim(true, Arithmetic)],
                Verdict::Arithmetic,
                "Follows from formulas: what the paper concludes here can be reckoned, and no run could contradict it.",
            ),
            (
                &[claim(true, LeftOut), claim(false, Holds)],
                Verdict::HoldsInPart,
                "Not looked at: these runs leave out what the paper's main claims are about.",
            ),
            (
                &[claim(true, NotJudged), claim(true, Holds), claim(true, Undecided)],
                Verdict::NotJudged,
                "Not judged: the machine was late in 1 of 8 runs, by which 1 of the paper's 3 main claims goes; of the other 2, 1 comes out.",
            ),
            (
                &[claim(true, NotJudged), claim(true, NotJudged), claim(false, Fails)],
                Verdict::NotJudged,
                "Not judged: the machine was late in 1 of 8 runs, by which 2 of the paper's 2 main claims go.",
            ),
            // With a claim not judged, "none comes out for sure" is no finding.
            (
                &[claim(true, NotJudged), claim(true, Undecided)],
                Verdict::NotJudged,
                "Not judged: the machine was late in 1 of 8 runs, by which 1 of the paper's 2 main claims goes; of the other 1, 0 come out.",
            ),
            // A claim that fails in good runs fails.
            (
                &[claim(true, NotJudged), claim(true, Fails)],
                Verdict::DoesNotHold,
                "Not reproduced: 1 of the paper's 1 main claims does not come out; 1 main claim is not judged, as the machine was late in \
                 1 of 8 runs.",
            ),
            (
                &[claim(true, Holds), claim(false, NotJudged), claim(false, NotJudged)],
                Verdict::HoldsInPart,
                "Reproduced in part: the paper's main claims come out (1 of 1); 2 further claims are not judged, as the machine was late \
                 in 1 of 8 runs.",
            ),
        ];
        for (claims, verdict, sentence) in cases {
            assert_eq!(told(&[], claims), (*verdict, (*sentence).to_owned()));
        }
    }

    #[test]
    fn a_number_of_another_magnitude_is_no_part_of_a_finding() {
        let claims = [claim(true, Judgement::Holds)];
        let of =
            |unit: &str, paper: f64, weir: Option<f64>| told(&[number(unit, paper, weir, Judgement::Fails)], &claims).0;
        // 80 % less stated, 5 % measured; and 65 %.
        assert_eq!((of("%", 80.0, Some(5.0)), of("%", 80.0, Some(65.0))), (Verdict::DoesNotHold, Verdict::HoldsInPart));
        // Larger savings than stated; an increase; and a time three times as long, or infinite.
        assert_eq!(
            (of("%", 31.6, Some(99.0)), of("%", 31.6, Some(-5.0))),
            (Verdict::HoldsInPart, Verdict::DoesNotHold)
        );
        assert_eq!((of("ms", 13.0, Some(40.0)), of("ms", 13.0, None)), (Verdict::DoesNotHold, Verdict::DoesNotHold));
        let open = [number("%", 80.0, Some(5.0), Judgement::Undecided)];
        assert_eq!(told(&open, &claims).0, Verdict::HoldsInPart);
    }

    #[test]
    fn reasons_say_what_was_expected_and_what_was_measured() {
        let numbers = [number("%", 80.0, Some(5.0), Judgement::Fails), number("%", 80.0, None, Judgement::Fails)];
        assert_eq!(
            reasons(vec![], Some(&late()), &numbers, &[claim(true, Judgement::Fails), claim(true, Judgement::Holds)]),
            [
                "Not reproduced: SPFC sends no PAUSE (expected 0 PAUSEs, measured 8 PAUSEs)",
                "Not reproduced, by more than a factor of 2: PAUSEs spared (the paper has 80 +- 8 %, measured 5 %)",
                "Not reproduced, by more than a factor of 2: PAUSEs spared (the paper has 80 +- 8 %, measured none (never))",
            ]
        );
        let late_number = JudgedNumber { is_late: true, ..number("%", 80.0, Some(5.0), Judgement::NotJudged) };
        assert_eq!(
            reasons(vec![], Some(&late()), &[late_number], &[claim(true, Judgement::NotJudged)]),
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
