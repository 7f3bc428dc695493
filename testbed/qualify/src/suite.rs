//! Suite: all tests of the list, and their outcomes.

use weir_units::Span;

use crate::bench::Bench;
use crate::test_case::{Outcome, Test, Verdict};
use crate::{DeviceUnderTest, TestFailure, TrafficTester, frames, lossless, lossy, qos};

/// Length of frames in tests of frame lengths, with FCS: SONiC's.
pub const FRAME_LENGTHS: [u32; 4] = [64, 512, 1_518, 9_216];

/// Returns all tests, in the order of the list.
pub fn tests() -> impl Iterator<Item = Test> {
    [lossless::TESTS, lossy::TESTS, frames::TESTS, qos::TESTS].into_iter().flatten().copied()
}

/// Runs tests one after another, and calls `done` after each. The device is restored after each, also if it failed. A failure that
/// disturbances of tester or device explain is repeated, and is no verdict in the end. A signal ends the run: the outcomes are those of the
/// tests before.
///
/// # Errors
/// If no test is possible, as the device has no two ports that fit each other.
pub fn run(
    tester: &mut dyn TrafficTester,
    device: &mut dyn DeviceUnderTest,
    tests: &[Test],
    frame_lengths: &[u32],
    mut done: impl FnMut(&Outcome),
) -> Result<Vec<Outcome>, TestFailure> {
    let mut bench = Bench::new(tester, device, frame_lengths)?;
    bench.introduce()?;
    bench.restore()?;
    let mut outcomes = Vec::new();
    for test in tests {
        let Some(outcome) = run_to_verdict(&mut bench, test) else { break };
        done(&outcome);
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Runs a test until its outcome is a verdict, or no more; `None` if a signal interrupts it.
fn run_to_verdict(bench: &mut Bench<'_>, test: &Test) -> Option<Outcome> {
    let mut tries = 1;
    loop {
        let (mut outcome, is_conclusive) = run_once(bench, test)?;
        if outcome.verdict != Verdict::Failed || is_conclusive {
            return Some(outcome);
        }
        if tries == TRIES {
            outcome.verdict = Verdict::NotPossible;
            outcome.messages.push(format!("so it was in each of {TRIES} tries"));
            return Some(outcome);
        }
        tries += 1;
    }
}

/// Runs a test and restores the device. Returns false if disturbances explain each failure; `None` if a signal interrupts it.
fn run_once(bench: &mut Bench<'_>, test: &Test) -> Option<(Outcome, bool)> {
    let begun = bench.tester.now();
    let result = (test.run)(bench);
    let (measured, mut messages, mut is_conclusive) = bench.take_findings();
    let mut verdict = if messages.is_empty() { Verdict::Passed } else { Verdict::Failed };
    match result {
        // Expectations that were not met before count.
        Err(TestFailure::Impossible(reason)) if messages.is_empty() => {
            verdict = Verdict::NotPossible;
            messages.push(reason);
        }
        Err(failure) => {
            is_conclusive |= matches!(failure, TestFailure::Broken(_));
            verdict = Verdict::Failed;
            messages.push(failure.to_string());
        }
        Ok(()) => {}
    }
    if verdict == Verdict::Failed {
        messages.extend(bench.disturbances());
    }
    let restored = bench.restore();
    // A terminal's Ctrl-C ends a device that this process started too, which fails the test or its restoration.
    if bench.run(Span::ZERO) == Err(TestFailure::Interrupted) {
        return None;
    }
    if let Err(failure) = restored {
        (verdict, is_conclusive) = (Verdict::Failed, true);
        messages.push(format!("the switch was not restored: {failure}"));
    }
    let Test { id, title, criterion, tolerance, reason, .. } = *test;
    let seconds = bench.tester.now().since(begun).as_secs_f64();
    Some((Outcome { id, title, criterion, tolerance, reason, measured, verdict, messages, seconds }, is_conclusive))
}

/// Tries of a test whose failure a disturbance explains.
const TRIES: u32 = 3;
