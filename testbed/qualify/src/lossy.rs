//! Tests Y01 to Y04: lossy classes and malformed frames.

use weir_units::{BitRate, Class, ClassSet};
use weir_wire::mac_control::ControlFrame;

use crate::TestFailure;
use crate::bench::{Bench, LENGTH, TestFlow, needed};
use crate::test_case::{EXACT, EXACT_REASON, RATE, RATE_REASON, Test};
use crate::tester::Lengths;

/// Tests of lossy classes.
pub const TESTS: &[Test] = &[
    Test {
        id: "Y01",
        title: "storm on all lossless classes",
        criterion: "lossy classes receive their full rate, 0 lost",
        tolerance: RATE,
        reason: RATE_REASON,
        run: lossy_under_storm,
    },
    Test {
        id: "Y02",
        title: "malformed control frames",
        criterion: "an unknown opcode, a truncated frame and a tagged one pause nothing, are not forwarded, and change no counter of PFC. \
                    Reserved bits of the enable vector: recorded whether they are ignored (802.1Q) or the frame is (the plan)",
        tolerance: EXACT,
        reason: EXACT_REASON,
        run: malformed,
    },
    Test {
        id: "Y03",
        title: "802.3x PAUSE",
        criterion: "neither obeyed nor forwarded",
        tolerance: RATE,
        reason: "the plan's: a window ends between two frames",
        run: pause_frames,
    },
    Test {
        id: "Y04",
        title: "oversubscribed lossy class",
        criterion: "no PFC for it; the excess is dropped and counted",
        tolerance: EXACT,
        reason: EXACT_REASON,
        run: oversubscribed,
    },
];

fn lossy_under_storm(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, r, lossless) = (bench.t, bench.r, bench.facts.lossless());
    bench.lossless()?;
    bench.storm(r, lossless)?;
    let classes = bench.lossy(t);
    bench.one_lossy(t)?;
    // Slightly below the line rate, which a clock of another accuracy could exceed.
    let rate = BitRate::bps(bench.tester.rate(r).as_bps() / classes.len() as u64 / 1_000 * 999);
    let mut flows: Vec<TestFlow> = Vec::new();
    for class in classes {
        flows.push(bench.flow(t, r, class, rate, Lengths::Fixed(LENGTH))?);
    }
    bench.run(bench.pause(r))?;
    bench.stop(&flows)?;
    bench.settle()?;
    bench.expect_delivery(&flows)
}

fn malformed(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (r, class) = (bench.r, bench.lossless()?);
    let pfc = bench.pfc(r, class.alone(), u16::MAX);
    let mut opcode = pfc.clone();
    opcode[14..16].copy_from_slice(&[0x02, 0x02]);
    let mut reserved_alone = bench.pfc(r, ClassSet::EMPTY, u16::MAX);
    reserved_alone[16] = 0xff;
    let mut tagged = pfc.clone();
    tagged.splice(12..12, [0x81, 0x00, 0x60, 0x00]);
    let frames = [
        ("an unknown opcode", opcode),
        ("a frame truncated behind its vector", pfc[..18].to_vec()),
        ("a tagged frame", tagged),
        ("reserved bits alone", reserved_alone),
    ];
    for (name, frame) in frames {
        let (flow, counted) = under_control_frame(bench, class, frame)?;
        bench.record(name);
        bench.expect_delivery(&[flow])?;
        bench.expect(counted == 0, r, class, &format!("{name}: RxPfc 0"), &counted.to_string());
        bench.restore()?;
    }
    let mut reserved = pfc;
    reserved[16] = 0xff;
    let (flow, counted) = under_control_frame(bench, class, reserved)?;
    let stats = bench.stats(flow)?;
    let is_obeyed = stats.received == 0 && counted > 0;
    let is_ignored = stats.received == stats.sent && counted == 0;
    bench.record(match (is_obeyed, is_ignored) {
        (true, _) => "reserved bits beside a class: the bits are ignored and the class is paused, as 802.1Q wants of reserved fields",
        (_, true) => "reserved bits beside a class: the frame is ignored, as the plan wants",
        _ => "reserved bits beside a class: neither obeyed nor ignored",
    });
    let measured = format!("{} of {} received, RxPfc {counted}", stats.received, stats.sent);
    bench.expect(is_obeyed || is_ignored, r, class, "reserved bits or their frame ignored", &measured);
    Ok(())
}

/// Sends a control frame by a short period under a flow of the class; returns the flow, and RxPfc of all classes together.
fn under_control_frame(bench: &mut Bench<'_>, class: Class, frame: Vec<u8>) -> Result<(TestFlow, u64), TestFailure> {
    let (t, r) = (bench.t, bench.r);
    let pause = bench.pause(r);
    let id = bench.control(r, frame, Some(pause.divided_by(8)))?;
    bench.settle()?;
    let rate = bench.class_rate(r);
    let flow = bench.flow(t, r, class, rate, Lengths::Fixed(LENGTH))?;
    bench.run(pause.divided_by(2))?;
    bench.stop(&[flow])?;
    bench.settle()?;
    bench.tester.stop(id)?;
    not_forwarded(bench)?;
    let counters = bench.counters()?;
    let counts = counters.ports[r].classes.iter().map(|class| class.rx_pfc).sum();
    Ok((flow, needed(counts, "RxPfc")?))
}

/// Checks that no control frame of the tester came back.
pub(crate) fn not_forwarded(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    for port in 0..bench.tester.ports() {
        let forwarded = bench.received_control(port)?.forwarded;
        bench.expect(forwarded == 0, port, Class::new(0), "no control frame forwarded", &forwarded.to_string());
    }
    Ok(())
}

fn pause_frames(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    if bench.facts.obeys_pause {
        return Err(TestFailure::impossible("the switch is configured for 802.3x PAUSE"));
    }
    let (t, r) = (bench.t, bench.r);
    let frame = ControlFrame::Pause(u16::MAX).encode(bench.tester.station(r)).to_vec();
    let id = bench.control(r, frame, Some(bench.pause(r).divided_by(2)))?;
    bench.settle()?;
    let flows = bench.flows(t, r, Lengths::Fixed(LENGTH))?;
    bench.run(bench.pause(r))?;
    bench.stop(&flows)?;
    bench.settle()?;
    bench.tester.stop(id)?;
    bench.expect_delivery(&flows)?;
    not_forwarded(bench)
}

fn oversubscribed(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, u, r) = (bench.t, bench.u()?, bench.r);
    let class = bench.one_lossy(t)?;
    let rate = bench.tester.rate(r);
    let mut flows = Vec::new();
    for port in [t, u] {
        flows.push(bench.flow(port, r, class, rate, Lengths::Fixed(LENGTH))?);
    }
    bench.run(bench.fill_time(r).divided_by(2))?;
    bench.stop(&flows)?;
    bench.drain()?;
    let (mut sent, mut received) = (0, 0);
    for flow in &flows {
        let stats = bench.stats(*flow)?;
        (sent, received) = (sent + stats.sent, received + stats.received);
    }
    for port in [t, u] {
        let frames = bench.received_control(port)?.pfc_frames;
        bench.expect(frames == 0, port, class, "no PFC", &frames.to_string());
    }
    let (lost, drops) = (sent - received, bench.drops()?);
    bench.record(format!("{lost} of {sent} lost, {drops} counted"));
    bench.expect(lost > 0, r, class, "dropped frames", "none");
    bench.expect(lost == drops, r, class, &format!("{lost} drops counted"), &drops.to_string());
    Ok(())
}
