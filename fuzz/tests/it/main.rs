//! Every fuzz target, on a fixed number of random inputs: `make test` runs them all, in a minute of CPU time.

use weir_fuzz::{FuzzSummary, FuzzTarget, TARGETS};

/// Runs the inputs of the first seeds.
fn run(name: &str) -> FuzzSummary {
    let target = FuzzTarget::find(name).expect("a target's name");
    let mut summary = FuzzSummary::default();
    (0..target.test_cases).for_each(|seed| summary += target.run_seed(seed));
    println!("{name}: {summary:?}");
    summary
}

/// The switches receive frames, pause peers that obey, and lose none of theirs.
#[test]
#[ignore = "make test runs it beside tests that leave a CPU idle"]
fn switch() {
    let FuzzSummary { cases, refused, sum } = run("switch");
    assert!(refused < cases / 4 && sum.frames > 10_000 * cases, "{sum:?}");
    assert!([sum.messages, sum.pauses, sum.dropped, sum.lossless_frames].iter().all(|count| *count > cases), "{sum:?}");
}

/// Readers accept some inputs and refuse others: edits are neither too many nor too few.
#[test]
#[ignore = "make test runs it beside tests that leave a CPU idle"]
fn readers() {
    for target in TARGETS.iter().filter(|target| target.name != "switch") {
        let FuzzSummary { cases, refused, .. } = run(target.name);
        let accepted = cases - refused;
        assert!(refused * 20 > cases && accepted * 50 > cases, "{}: {accepted} of {cases} accepted", target.name);
    }
}
