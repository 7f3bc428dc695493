//! Measured τ against a calculation from frames and links.

use weir_scenario::topology::LinkSpec;
use weir_scenario::{PortRef, Scenario};
use weir_units::{BitRate, Span, Time};

use super::net::{all_to_last, lossless, star};
use crate::Sim;

const RATE: BitRate = BitRate::gbps(10);
const DELAY: Span = Span::from_micros(1);
/// FCS, preamble and gap.
const OVERHEAD: u64 = 24;
const CONTROL: u64 = 60;

/// Two hosts that send to a third one as fast as they can, through a small buffer.
fn incast(settings: &str) -> Scenario {
    let mut scenario = lossless(&star(2, LinkSpec::new(RATE, DELAY)), settings);
    all_to_last(&mut scenario, |_, _| {});
    scenario.measures_feedback = true;
    scenario
}

fn time_of(bytes: u64) -> Span {
    RATE.time_for(weir_units::Bytes::new(bytes + OVERHEAD))
}

/// A host sends frame after frame: from the arrival that crossed Xoff to that of its last frame lie whole frames. They are those whose
/// sending began before the PAUSE came, which takes its own time, the link's, and that of an acknowledgement before it at most.
#[test]
fn a_host_that_is_paused_stops_when_frames_and_link_say() {
    let scenario = incast("[buffer]\nsize = \"300KB\"\n");
    let mut sim = Sim::new(&scenario).unwrap();
    sim.run_until(Time::from_nanos(3_000_000));
    let sizes = scenario.hosts[0].nic.sizes;
    let frame = time_of(u64::from(sizes.payload_max + sizes.header));
    for host in [0, 1] {
        let feedback = sim.feedback_of_host(host).unwrap();
        assert!(feedback.count > 20 && feedback.unmeasured == 0, "{feedback:?}");
        let comes = |wait: Span| time_of(CONTROL) + DELAY + DELAY + wait;
        let whole = |comes: Span| frame * (comes.as_picos() + frame.as_picos()).div_ceil(frame.as_picos()) - frame;
        let (least, most) = (whole(comes(Span::ZERO)), whole(comes(time_of(u64::from(sizes.ack)))));
        assert!(least <= feedback.longest && feedback.longest <= most, "{feedback:?}: {least:?} to {most:?}");
        assert_eq!(feedback.longest.as_picos() % frame.as_picos(), 0, "{feedback:?}");
        assert!(feedback.median.as_picos() * 101 >= least.as_picos() * 100, "{feedback:?}: {least:?}");
    }
    let switch = PortRef { switch: 0, port: 2 };
    assert_eq!(sim.feedback_of_port(switch).unwrap().count, 0, "the receiver pauses nobody");
}

#[test]
fn nothing_is_measured_unless_it_is_asked_for() {
    let mut scenario = incast("[buffer]\nsize = \"300KB\"\n");
    scenario.measures_feedback = false;
    let mut sim = Sim::new(&scenario).unwrap();
    sim.run_until(Time::from_nanos(300_000));
    assert!(sim.feedback_of_host(0).is_none() && sim.feedback_of_port(PortRef { switch: 0, port: 0 }).is_none());
}
