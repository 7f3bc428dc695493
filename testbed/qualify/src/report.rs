//! Report of a run: text, JSON and JUnit XML.

use std::fmt::Write;

use serde::Serialize;

use crate::test_case::{Outcome, Test, Verdict};

/// Outcomes of all tests that ran on a switch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QualificationReport {
    /// Name of the switch.
    pub switch: String,
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed.
    pub failed: usize,
    /// Tests that are not possible here.
    pub not_possible: usize,
    /// Outcomes in the order of the list.
    pub tests: Vec<Outcome>,
}

impl QualificationReport {
    /// Creates the report of these outcomes.
    pub fn new(switch: &str, tests: Vec<Outcome>) -> QualificationReport {
        let count = |verdict| tests.iter().filter(|outcome| outcome.verdict == verdict).count();
        QualificationReport {
            switch: switch.to_owned(),
            passed: count(Verdict::Passed),
            failed: count(Verdict::Failed),
            not_possible: count(Verdict::NotPossible),
            tests,
        }
    }

    /// Names of the tests that failed.
    pub fn failed_ids(&self) -> Vec<&'static str> {
        self.tests.iter().filter(|outcome| outcome.verdict == Verdict::Failed).map(|outcome| outcome.id).collect()
    }

    /// Sum of all verdicts, as a line.
    pub fn summary(&self) -> String {
        format!(
            "{}: {} passed, {} failed, {} not possible here",
            self.switch, self.passed, self.failed, self.not_possible
        )
    }

    /// JUnit XML, as continuous integration reads it: a test that is not possible here is skipped.
    pub fn junit(&self) -> String {
        let seconds: f64 = self.tests.iter().map(|outcome| outcome.seconds).sum();
        let counts = format!(
            "tests=\"{}\" failures=\"{}\" skipped=\"{}\" time=\"{seconds:.6}\"",
            self.tests.len(),
            self.failed,
            self.not_possible
        );
        let name = escaped(&self.switch);
        let cases: String = self.tests.iter().map(Outcome::test_case).collect();
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  <testsuite name=\"{name}\" {counts}>\n{cases}  \
             </testsuite>\n</testsuites>\n"
        )
    }
}

impl Outcome {
    /// Verdict, name and title, in a line, and a line for each measured value and unmet expectation; of a failed test, criterion and
    /// tolerance too.
    pub fn text(&self) -> String {
        let verdict = match self.verdict {
            Verdict::Passed => "pass",
            Verdict::Failed => "FAIL",
            Verdict::NotPossible => "n/a",
        };
        let mut text = format!("{verdict:<4}  {:<21}  {}\n", self.id, self.title);
        if self.verdict == Verdict::Failed {
            let Outcome { criterion, tolerance, reason, .. } = self;
            let _ = writeln!(text, "{0:29}pass: {criterion}\n{0:29}tolerance: {tolerance} ({reason})", "");
        }
        for (mark, lines) in [("", &self.measured), ("! ", &self.messages)] {
            for line in lines {
                let _ = writeln!(text, "{:29}{mark}{line}", "");
            }
        }
        text
    }

    fn test_case(&self) -> String {
        let (group, title) = (self.group(), escaped(self.title));
        let mut case = format!(
            "    <testcase classname=\"qualify.{group}\" name=\"{} {title}\" time=\"{:.6}\">\n",
            self.id, self.seconds
        );
        let messages = escaped(&self.messages.join("\n"));
        let first = escaped(self.messages.first().map_or("", String::as_str));
        match self.verdict {
            Verdict::Passed => {}
            Verdict::Failed => {
                let _ = writeln!(case, "      <failure message=\"{first}\">{messages}</failure>");
            }
            Verdict::NotPossible => {
                let _ = writeln!(case, "      <skipped message=\"{first}\"/>");
            }
        }
        let mut output = format!("criterion: {}\ntolerance: {} ({})\n", self.criterion, self.tolerance, self.reason);
        self.measured.iter().for_each(|line| output.push_str(&format!("measured: {line}\n")));
        let _ = writeln!(case, "      <system-out>{}</system-out>\n    </testcase>", escaped(&output));
        case
    }

    fn group(&self) -> &'static str {
        match (self.id.chars().next(), self.id.chars().nth(1).is_some_and(|second| second.is_ascii_digit())) {
            (Some('L'), true) => "lossless",
            (Some('Y'), true) => "lossy",
            (Some('F'), true) => "frames",
            _ => "qos",
        }
    }
}

impl Test {
    /// Name, title, criterion and tolerance, for a list.
    pub fn text(&self) -> String {
        let Test { id, title, criterion, tolerance, reason, .. } = self;
        format!("{id:<21}  {title}\n{:23}pass: {criterion}\n{:23}tolerance: {tolerance} ({reason})\n", "", "")
    }
}

/// Text with XML's own characters replaced, and those that XML has none for.
fn escaped(text: &str) -> String {
    let is_absent =
        |c: char| (c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\r')) || matches!(c, '\u{fffe}' | '\u{ffff}');
    text.replace(is_absent, "\u{fffd}")
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
