//! Reports as JUnit XML and JSON.

use weir_qualify::report::QualificationReport;
use weir_qualify::test_case::{Outcome, Verdict};

fn outcome(id: &'static str, verdict: Verdict, messages: &[&str]) -> Outcome {
    Outcome {
        id,
        title: "a \"title\"",
        criterion: "x < y & z",
        tolerance: "none",
        reason: "frames are counted",
        measured: vec!["3 > 2".to_owned()],
        verdict,
        messages: messages.iter().map(|message| message.to_string()).collect(),
        seconds: 0.25,
    }
}

#[test]
fn xml_has_each_test_with_its_verdict() {
    let mut tests = vec![
        outcome("L01", Verdict::Passed, &[]),
        outcome("Y02", Verdict::Failed, &["expected <1>, measured 2", "more"]),
        outcome("LossyQueue", Verdict::NotPossible, &["no \"counter\""]),
    ];
    // A command's message may have colors.
    tests[1].messages.push("\u{1b}[31mred".to_owned());
    let xml = QualificationReport::new("a & b", tests).junit();
    let document = roxmltree::Document::parse(&xml).unwrap();
    let suite = document.descendants().find(|node| node.has_tag_name("testsuite")).unwrap();
    let attributes = ["name", "tests", "failures", "skipped", "time"].map(|name| suite.attribute(name).unwrap());
    assert_eq!(attributes, ["a & b", "3", "1", "1", "0.750000"]);
    let cases: Vec<_> = suite.children().filter(|node| node.has_tag_name("testcase")).collect();
    let names: Vec<_> = cases.iter().map(|case| (case.attribute("classname"), case.attribute("name"))).collect();
    let expected = [
        ("qualify.lossless", "L01 a \"title\""),
        ("qualify.lossy", "Y02 a \"title\""),
        ("qualify.qos", "LossyQueue a \"title\""),
    ];
    assert_eq!(names, expected.map(|(class, name)| (Some(class), Some(name))));
    let child = |case: usize, tag: &str| cases[case].children().find(|node| node.has_tag_name(tag));
    assert!(child(0, "failure").is_none() && child(0, "skipped").is_none());
    let failure = child(1, "failure").unwrap();
    assert_eq!(failure.attribute("message"), Some("expected <1>, measured 2"));
    assert_eq!(failure.text(), Some("expected <1>, measured 2\nmore\n\u{fffd}[31mred"));
    assert_eq!(child(2, "skipped").unwrap().attribute("message"), Some("no \"counter\""));
    let output = child(0, "system-out").unwrap().text().unwrap();
    assert_eq!(output, "criterion: x < y & z\ntolerance: none (frames are counted)\nmeasured: 3 > 2\n");
}

#[test]
fn text_has_the_criterion_of_a_failed_test() {
    let criterion = "pass: x < y & z\n                             tolerance: none (frames are counted)\n";
    for (verdict, is_there) in [(Verdict::Passed, false), (Verdict::Failed, true), (Verdict::NotPossible, false)] {
        assert_eq!(outcome("L01", verdict, &["no"]).text().contains(criterion), is_there, "{verdict:?}");
    }
}
