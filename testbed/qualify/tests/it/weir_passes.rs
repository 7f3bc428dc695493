//! Weir passes all tests in virtual time.

use weir_config::SwitchConfig;
use weir_qualify::suite::{FRAME_LENGTHS, run, tests};
use weir_qualify::test_case::{Outcome, Verdict};
use weir_qualify::virtual_time;
use weir_units::BitRate;

use crate::three_ports;

fn outcomes_at(speed: BitRate, frame_lengths: &[u32]) -> Vec<Outcome> {
    outcomes_of(&virtual_time::built_in(speed), frame_lengths)
}

fn outcomes_of(switches: &[SwitchConfig], frame_lengths: &[u32]) -> Vec<Outcome> {
    let (mut tester, mut device) = virtual_time::new(switches).unwrap();
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

/// Three ports of 100 Gb/s, whose headroom by the rule is 3 frames of 9,238 B with header and FCS, 12,584 B of two delays and a PAUSE, and
/// 12,500 B of the reaction: 52.8 KB. Five of those frames fit it.
fn switch(buffer: &str) -> SwitchConfig {
    three_ports(9_216, &format!("size = \"2MB\"\npolicy = \"dt\"\n{buffer}"))
}

fn failed(outcomes: &[Outcome]) -> Vec<&str> {
    outcomes.iter().filter(|outcome| outcome.verdict == Verdict::Failed).map(|outcome| outcome.id).collect()
}

#[test]
fn too_little_headroom_fails() {
    for (headroom, fails) in
        [("auto", false), ("53KB", false), ("47KB", false), ("46KB", true), ("30KB", true), ("9KB", true)]
    {
        let outcomes = outcomes_of(&[switch(&format!("headroom = \"{headroom}\""))], &[1_518]);
        println!("{headroom}: {:?}", failed(&outcomes));
        assert_eq!(failed(&outcomes).contains(&"F10"), fails, "{headroom}: {:?}", failed(&outcomes));
    }
}

#[test]
fn small_thresholds_fail_nothing() {
    for alpha in ["1/64", "1/256", "1/1024"] {
        let outcomes = outcomes_of(&[switch(&format!("[buffer.dt]\nalpha = \"{alpha}\""))], &[1_518]);
        assert_eq!(failed(&outcomes), [""; 0], "{alpha}");
        let many_to_one = outcomes.iter().find(|outcome| outcome.id == "F04").unwrap();
        assert_eq!(many_to_one.verdict == Verdict::Passed, alpha == "1/64", "{alpha}: {:?}", many_to_one.messages);
    }
}

#[test]
fn a_port_too_slow_for_the_tests_is_refused() {
    let mut slow = switch("");
    slow.ports[1].rate = Some(BitRate::bps(8_000));
    let error = virtual_time::new(&[slow]).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "port \"p1\" has rate = \"8Kbps\", at which a pause of 65,535 quanta lasts 4194 s; write 10Mbps or more"
        ),
        "{error}"
    );
}
