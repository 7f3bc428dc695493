//! Weir passes all tests in virtual time.

use weir_qualify::suite::{FRAME_LENGTHS, run, tests};
use weir_qualify::test_case::{Outcome, Verdict};
use weir_qualify::virtual_time;
use weir_units::BitRate;

fn outcomes_at(speed: BitRate, frame_lengths: &[u32]) -> Vec<Outcome> {
    let (mut tester, mut device) = virtual_time::new(&virtual_time::built_in(speed)).unwrap();
    let tests: Vec<_> = tests().collect();
    run(&mut tester, &mut device, &tests, frame_lengths, |outcome| print!("{}", outcome.text())).unwrap()
}

#[test]
fn the_built_in_switch_passes_every_test() {
    for (speed, lengths) in [(1, &[1_518][..]), (100, &FRAME_LENGTHS), (800, &[1_518])] {
        for outcome in outcomes_at(BitRate::gbps(speed), lengths) {
            assert_eq!(outcome.verdict, Verdict::Passed, "{} at {speed} Gb/s: {:?}", outcome.id, outcome.messages);
            assert!(!outcome.measured.is_empty(), "{} has a measured value", outcome.id);
        }
    }
}
