//! Tests L01 to L15: lossless classes.

use weir_units::{BitRate, CLASSES, Class, ClassSet, Span};

use crate::TestFailure;
use crate::bench::{Bench, LENGTH, QUANTA_MAX, TestFlow, needed, pfc_from, rate_of, text_of, text_of_rate};
use crate::test_case::{EXACT, EXACT_REASON, RATE, RATE_REASON, Test};
use crate::tester::{Amount, Lengths, TestStream};
use crate::watchdog;

/// Tests of lossless classes.
pub const TESTS: &[Test] = &[
    Test {
        id: "L01",
        title: "storm on one lossless class",
        criterion: "the class receives nothing; each other class receives its rate, 0 lost; RxPfc of the class > 0, of others 0; after \
                    the storm the class's frames arrive, 0 lost",
        tolerance: RATE,
        reason: RATE_REASON,
        run: |bench| {
            let class = bench.lossless()?;
            storm_on(bench, class.alone(), Lengths::Fixed(LENGTH))
        },
    },
    Test {
        id: "L02",
        title: "storm on two lossless classes in one frame",
        criterion: "both receive nothing; the rest as in L01",
        tolerance: RATE,
        reason: RATE_REASON,
        run: |bench| {
            let classes = bench.two_lossless()?.into_iter().collect();
            storm_on(bench, classes, Lengths::Fixed(LENGTH))
        },
    },
    Test {
        id: "L03",
        title: "one frame with time 0 after a storm",
        criterion: "the class flows again at its rate; the first frame comes less than 1 ms after that frame",
        tolerance: "2 % of the rate",
        reason: RATE_REASON,
        run: resume,
    },
    Test {
        id: "L04",
        title: "one PFC frame without refresh",
        criterion: "the class stops for quanta x 512 / C",
        tolerance: "5 % of the pause",
        reason: "a frame is on the wire when the pause begins, and another needs its time after the pause: 1.7 % of 2,000 quanta",
        run: |bench| pause_lengths(bench, bench.t, bench.r, &[2_000, 20_000, QUANTA_MAX]),
    },
    Test {
        id: "L05",
        title: "storms on all ports at once",
        criterion: "each port's lossless classes receive nothing, lossy classes lose nothing, and the counters answer",
        tolerance: EXACT,
        reason: EXACT_REASON,
        run: storms_everywhere,
    },
    Test {
        id: "L06",
        title: "storm, by frame length",
        criterion: "as in L01, at each length, with a sender as slow to stop as the headroom allows",
        tolerance: RATE,
        reason: RATE_REASON,
        run: |bench| {
            let class = bench.lossless()?;
            let fits = |length: &u32| *length <= bench.facts.frame_bytes_max;
            if !bench.frame_lengths.iter().any(fits) {
                return Err(TestFailure::impossible("the switch forwards no frames of these lengths"));
            }
            for length in bench.frame_lengths.clone() {
                if length > bench.facts.frame_bytes_max {
                    bench.record(format!("{length} B: longer than the switch forwards"));
                    continue;
                }
                bench.slow_peer(bench.t)?;
                storm_on(bench, class.alone(), Lengths::Fixed(length))?;
                bench.restore()?;
            }
            Ok(())
        },
    },
    Test {
        id: "L07",
        title: "storm, IMIX",
        criterion: "as in L06, with 64, 570 and 1,518 B, 7 : 4 : 1",
        tolerance: RATE,
        reason: RATE_REASON,
        run: |bench| {
            let class = bench.lossless()?;
            bench.slow_peer(bench.t)?;
            storm_on(bench, class.alone(), Lengths::Imix)
        },
    },
    Test {
        id: "L08",
        title: "oversubscribed lossless class",
        criterion: "PFC is sent to both senders, 0 lost; headroom use is recorded",
        tolerance: EXACT,
        reason: EXACT_REASON,
        run: oversubscribed,
    },
    Test {
        id: "L09",
        title: "slow ramp of load",
        criterion: "the first CE mark comes at a lower load than the first PFC frame; 0 lost",
        tolerance: EXACT,
        reason: "loads grow by 1 %",
        run: ramp,
    },
    Test {
        id: "L10",
        title: "circular pause",
        criterion: "the watchdog detects it within the detection time, and traffic goes on after the mitigation",
        tolerance: "two polls of the watchdog; 2 % of the rate",
        reason: "detection begins with the poll that finds the pause, and ends with a poll",
        run: watchdog::circular_pause,
    },
    Test {
        id: "L11",
        title: "link flap during a storm",
        criterion: "after link up the class has its rate again, before the pause would have ended; no queue stays paused",
        tolerance: "2 % of the rate",
        reason: RATE_REASON,
        run: link_flap,
    },
    Test {
        id: "L12",
        title: "watchdog on, pauses shorter than its detection time",
        criterion: "the class is paused as usual, 0 lost, no storm is detected",
        tolerance: EXACT,
        reason: EXACT_REASON,
        run: watchdog::short_pauses,
    },
    Test {
        id: "L13",
        title: "watchdog on, lasting storm",
        criterion: "detected within the detection time; then drop or forward, as configured; restored within the restoration time",
        tolerance: "two polls of the watchdog; 2 % of the rate",
        reason: "detection begins with the poll that finds the pause, and ends with a poll",
        run: watchdog::lasting_storm,
    },
    Test {
        id: "L14",
        title: "several ASICs",
        criterion: "a storm at one ASIC reaches a sender at another only by their own PFC, when the buffers of both are full; other \
                    ports are not paused",
        tolerance: "the margin of the thresholds, and frames under way",
        reason: "thresholds are known to a few frames",
        run: several_asics,
    },
    Test {
        id: "L15",
        title: "counters of PFC",
        criterion: "RxPfc and TxPfc of each class equal what the tester sent and received; of other classes 0",
        tolerance: EXACT,
        reason: EXACT_REASON,
        run: counters,
    },
];

/// Storm on classes of the receiver's port, under a flow of each class; then the buffer fills, and the storm ends.
fn storm_on(bench: &mut Bench<'_>, classes: ClassSet, lengths: Lengths) -> Result<(), TestFailure> {
    let (t, r) = (bench.t, bench.r);
    let storm = bench.storm(r, classes)?;
    let flows = bench.flows(t, r, lengths)?;
    let pause = bench.pause(r);
    // At least one refresh is needed for the pause to last.
    bench.run(pause + pause.divided_by(2))?;
    bench.stop(&flows)?;
    bench.settle()?;
    let mut worst: f64 = 0.0;
    for flow in &flows {
        if classes.contains(flow.class) {
            bench.expect_nothing(*flow)?;
        } else {
            bench.expect_no_loss(*flow)?;
            worst = worst.max(bench.expect_rate(*flow)?.abs());
        }
    }
    bench.expect_rx_pfc(r, classes)?;
    bench.end_storm(r, classes, storm)?;
    bench.drain()?;
    // Again with the paused classes at line rate, until the sender is paused too: frames under way take headroom.
    let storm = bench.storm(r, classes)?;
    let each = BitRate::bps(bench.tester.rate(t).as_bps() / classes.len() as u64);
    let more: Vec<TestFlow> =
        classes.iter().map(|class| bench.flow(t, r, class, each, lengths)).collect::<Result<_, _>>()?;
    for class in classes.iter() {
        let is_paused = bench.wait_for_pause(t, class)?;
        bench.expect(is_paused, t, class, "PFC to the sender", "none");
    }
    bench.settle()?;
    bench.stop(&more)?;
    bench.end_storm(r, classes, storm)?;
    bench.drain()?;
    for flow in flows.iter().filter(|flow| classes.contains(flow.class)).chain(&more) {
        bench.expect_no_loss(*flow)?;
    }
    let lengths = match lengths {
        Lengths::Fixed(length) => format!("{length} B"),
        Lengths::Imix => "IMIX".to_owned(),
    };
    let headroom =
        bench.counters()?.pools.headroom_max.map_or(String::new(), |bytes| format!(", {bytes} B of headroom"));
    bench.record(format!("{lengths}: paused classes 0 frames, others within {worst:.2} % of their rates{headroom}"));
    Ok(())
}

fn resume(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, r, class) = (bench.t, bench.r, bench.lossless()?);
    let pause = bench.pause(r);
    let storm = bench.storm(r, class.alone())?;
    let rate = bench.class_rate(r);
    let flow = bench.flow(t, r, class, rate, Lengths::Fixed(LENGTH))?;
    bench.run(pause.divided_by(2))?;
    bench.expect_nothing(flow)?;
    let resumed = bench.tester.now();
    bench.end_storm(r, class.alone(), storm)?;
    bench.run(pause.divided_by(2))?;
    match bench.stats(flow)?.first {
        Some(first) => {
            let delay = first.since(resumed);
            bench.record(format!("first frame after {}", text_of(delay)));
            let error = delay.saturating_sub(Span::from_millis(1));
            bench.expect_time(error, r, class, "a frame within 1 ms", &text_of(delay));
        }
        None => bench.fail(r, class, "a frame within 1 ms", "none"),
    }
    bench.tester.clear_stats()?;
    bench.run(pause)?;
    let percent = bench.expect_rate(flow)?;
    bench.record(format!("rate {percent:+.2} %"));
    bench.stop(&[flow])
}

/// Compares the pauses that single PFC frames of these quanta cause, in a class at the line rate of the receiver.
pub(crate) fn pause_lengths(bench: &mut Bench<'_>, from: usize, to: usize, quanta: &[u16]) -> Result<(), TestFailure> {
    let class = bench.lossless()?;
    let rate = bench.tester.rate(from).min(bench.tester.rate(to));
    let flow = bench.flow(from, to, class, rate, Lengths::Fixed(512))?;
    bench.settle()?;
    for quanta in quanta {
        bench.run(bench.pause(to).divided_by(8))?;
        bench.tester.clear_stats()?;
        let expected = bench.quanta(to, *quanta);
        bench.control(to, bench.pfc(to, class.alone(), *quanta), None)?;
        bench.run(expected + bench.pause(to).divided_by(4))?;
        let gap = bench.stats(flow)?.longest_gap.map_or(Span::ZERO, |gap| gap.length());
        let percent = (gap.as_secs_f64() / expected.as_secs_f64() - 1.0) * 100.0;
        bench.record(format!("{quanta} quanta: {} of {} ({percent:+.2} %)", text_of(gap), text_of(expected)));
        let error = (percent.abs() - 5.0).max(0.0) / 100.0 * expected.as_secs_f64();
        let expected = format!("a pause of {} within 5 %", text_of(expected));
        bench.expect_time(Span::from_nanos((error * 1e9) as u64), to, class, &expected, &text_of(gap));
    }
    bench.stop(&[flow])
}

fn storms_everywhere(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let ports = bench.tester.ports();
    let lossless = bench.facts.lossless();
    bench.lossless()?;
    for port in 0..ports {
        bench.storm(port, lossless)?;
    }
    let mut flows = Vec::new();
    for port in 0..ports {
        // Within an ASIC, since another may read another field of the frame.
        let is_near = |to: &usize| *to != port && bench.facts.ports[*to].asic == bench.facts.ports[port].asic;
        if let Some(to) = (port + 1..ports).chain(0..port).find(is_near) {
            flows.extend(bench.flows(port, to, Lengths::Fixed(LENGTH))?);
        }
    }
    bench.run(bench.pause(bench.r))?;
    let answer = bench.counters();
    bench.stop(&flows)?;
    bench.settle()?;
    for flow in flows {
        if lossless.contains(flow.class) {
            bench.expect_nothing(flow)?;
        } else {
            bench.expect_no_loss(flow)?;
        }
    }
    bench.record(format!("{ports} ports; the counters answered"));
    answer.map(|_| ())
}

fn oversubscribed(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, u, r, class) = (bench.t, bench.u()?, bench.r, bench.lossless()?);
    let rate = bench.tester.rate(r);
    let mut flows = Vec::new();
    for port in [t, u] {
        bench.slow_peer(port)?;
        flows.push(bench.flow(port, r, class, rate, Lengths::Fixed(LENGTH))?);
    }
    let paused = [t, u].map(|port| bench.wait_for_pause(port, class));
    for (port, paused) in [t, u].into_iter().zip(paused) {
        let is_paused = paused?;
        bench.expect(is_paused, port, class, "PFC to the sender", "none");
    }
    bench.run(bench.pause(r).divided_by(2))?;
    bench.stop(&flows)?;
    bench.drain()?;
    for flow in flows {
        bench.expect_no_loss(flow)?;
    }
    let drops = bench.drops()?;
    bench.expect(drops == 0, r, class, "0 drops", &drops.to_string());
    let counters = bench.counters()?;
    for port in [t, u] {
        let of_class = &counters.ports[port].classes[class.index()];
        let sent = needed(of_class.tx_pfc, "TxPfc")?;
        bench.expect(sent > 0, port, class, "TxPfc above 0", "0");
        if let Some(headroom) = of_class.group_headroom_max {
            bench.record(format!("port {}: {headroom} B of headroom", bench.facts.ports[port].name));
        }
    }
    if let Some(pool) = counters.pools.headroom_max {
        bench.record(format!("headroom pool: {pool} B"));
    }
    Ok(())
}

fn ramp(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, u, r, class) = (bench.t, bench.u()?, bench.r, bench.lossless()?);
    if bench.facts.ecn[class.index()].is_none() {
        return Err(TestFailure::impossible(format!("class {} has no ECN thresholds", class.number())));
    }
    let rate = bench.tester.rate(r).as_bps();
    let step = bench.pause(r).divided_by(16);
    let (mut first_ce, mut first_pfc) = (None, None);
    let mut ids = Vec::new();
    for percent in 90..=190 {
        let half = BitRate::bps(rate / 200 * percent);
        let mut now = Vec::new();
        for from in [t, u] {
            let (marking, lengths) = (bench.marking(from, class)?, Lengths::Fixed(LENGTH));
            let amount = Amount::UntilStopped;
            now.push(bench.tester.start(&TestStream {
                from,
                to: r,
                marking,
                class,
                ect: true,
                lengths,
                rate: half,
                amount,
            })?);
        }
        bench.run(step)?;
        now.iter().try_for_each(|id| bench.tester.stop(*id))?;
        ids.extend(now);
        let mut marks = 0;
        for id in &ids {
            marks += bench.tester.stats(*id)?.ce;
        }
        let mut pauses = 0;
        for port in [t, u] {
            pauses += bench.received_control(port)?.xoff[class.index()];
        }
        first_ce = first_ce.or((marks > 0).then_some(percent));
        first_pfc = first_pfc.or((pauses > 0).then_some(percent));
        if first_pfc.is_some() {
            break;
        }
    }
    bench.drain()?;
    let (mut sent, mut received) = (0, 0);
    for id in ids {
        let stats = bench.tester.stats(id)?;
        (sent, received) = (sent + stats.sent, received + stats.received);
    }
    let of = |load: Option<u64>| load.map_or("none up to 190 %".to_owned(), |percent| format!("at {percent} %"));
    bench.record(format!("first CE {}, first PFC {}", of(first_ce), of(first_pfc)));
    let is_earlier = first_ce.is_some() && first_pfc.is_none_or(|pfc| first_ce < Some(pfc));
    let measured = format!("first CE {}, first PFC {}", of(first_ce), of(first_pfc));
    bench.expect(is_earlier, r, class, "CE at a lower load than PFC", &measured);
    bench.expect(sent == received, r, class, "no frame lost", &format!("{received} of {sent} received"));
    Ok(())
}

fn link_flap(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, r, class) = (bench.t, bench.r, bench.lossless()?);
    let pause = bench.pause(r);
    let rate = bench.class_rate(r);
    let storm = bench.storm(r, class.alone())?;
    let flow = bench.flow(t, r, class, rate, Lengths::Fixed(LENGTH))?;
    bench.run(pause.divided_by(2))?;
    bench.expect_nothing(flow)?;
    bench.tester.stop(storm)?;
    bench.control(r, bench.pfc(r, class.alone(), QUANTA_MAX), None)?;
    bench.settle()?;
    bench.tester.set_link_up(r, false)?;
    bench.run(pause.divided_by(16) + bench.device.settling_time())?;
    bench.tester.set_link_up(r, true)?;
    let up = bench.tester.now();
    // The station speaks, in case its address was forgotten with the link.
    let answer = bench.flow_of(r, t, class, rate, Lengths::Fixed(LENGTH), Amount::Frames(1))?;
    bench.run(pause.divided_by(16) + bench.device.settling_time())?;
    bench.tester.clear_stats()?;
    bench.run(pause.divided_by(2))?;
    let percent = bench.expect_rate(flow)?;
    bench.record(format!("{percent:+.2} % of the rate, {} after link up", text_of(bench.tester.now().since(up))));
    bench.stop(&[flow, answer])
}

fn several_asics(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, class) = (bench.t, bench.lossless()?);
    let home = bench.facts.ports[t].asic;
    let far = bench.facts.ports.iter().position(|port| port.asic != home);
    let far = far.ok_or_else(|| TestFailure::impossible("the switch has one ASIC"))?;
    let storm = bench.storm(far, class.alone())?;
    // Flows at home: T's other port and another sender, in the class of the storm.
    let (u, r) = (bench.u()?, bench.r);
    let rate = bench.class_rate(r);
    let local = bench.flow(u, r, class, rate, Lengths::Fixed(LENGTH))?;
    bench.run(bench.pause(far))?;
    for port in 0..bench.tester.ports() {
        let pauses = bench.received_control(port)?.xoff[class.index()];
        bench.expect(pauses == 0, port, class, "no PFC before any frame waits", &pauses.to_string());
    }
    let line = bench.tester.rate(t);
    let flow = bench.flow(t, far, class, line, Lengths::Fixed(LENGTH))?;
    let paused = bench.wait_for_pause(t, class)?;
    bench.expect(paused, t, class, "PFC when both buffers are full", "none");
    // The tester's count at the pause, with frames of a step of the wait.
    let held = bench.stats(flow)?.sent;
    if let Some(xoff) = bench.facts.buffer.as_ref().and_then(|buffer| buffer.xoff) {
        let buffer = bench.buffer()?;
        let least = (2 * xoff / buffer.charge(LENGTH)).saturating_sub(4 * buffer.margin_frames);
        bench.record(format!("{held} frames sent when paused, both buffers hold {least} or more"));
        let expected = format!("no PFC below {least} frames in both buffers");
        bench.expect(held >= least, t, class, &expected, &format!("PFC by {held}"));
    }
    bench.stop(&[flow])?;
    bench.end_storm(far, class.alone(), storm)?;
    bench.drain()?;
    bench.stop(&[local])?;
    bench.settle()?;
    bench.expect_no_loss(flow)?;
    bench.expect_no_loss(local)?;
    let local_rate = rate_of(&bench.stats(local)?);
    bench.record(format!("the flow beside it at {}", text_of_rate(local_rate)));
    bench.expect_rate(local)?;
    let pauses = bench.received_control(u)?.xoff[class.index()];
    bench.expect(pauses == 0, u, class, "no PFC to another sender", &pauses.to_string());
    Ok(())
}

fn counters(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, r, first) = (bench.t, bench.r, bench.lossless()?);
    let source = bench.tester.station(r);
    let mut expected = [0; CLASSES];
    let mut sent = vec![(first.alone(), 7)];
    if let Ok(both) = bench.two_lossless() {
        sent.extend([(both[1].alone(), 4), (both.into_iter().collect(), 3)]);
    }
    for (classes, frames) in sent {
        for number in 0..frames {
            let quanta = if number == frames - 1 { 0 } else { 1_000 };
            bench.control(r, pfc_from(source, classes, quanta), None)?;
            bench.run(bench.frame_time(r, 64) * 2)?;
        }
        classes.iter().for_each(|class| expected[class.index()] += frames);
    }
    // The sender is paused and resumed by the device.
    let line = bench.tester.rate(t);
    let pause = bench.pause(r);
    let mut flows: Vec<TestFlow> = Vec::new();
    let end = bench.tester.now() + bench.fill_time(t);
    while bench.tester.now() < end && bench.received_control(t)?.xoff[first.index()] == 0 {
        bench.control(r, pfc_from(source, first.alone(), QUANTA_MAX), None)?;
        expected[first.index()] += 1;
        bench.settle()?;
        if flows.is_empty() {
            flows.push(bench.flow(t, r, first, line, Lengths::Fixed(LENGTH))?);
        }
        bench.run(pause.divided_by(2))?;
    }
    bench.run(pause * 2)?;
    bench.stop(&flows)?;
    bench.drain()?;
    let counters = bench.counters()?;
    let received = bench.received_control(t)?;
    for class in Class::ALL {
        let n = class.index();
        let count = needed(counters.ports[r].classes[n].rx_pfc, "RxPfc")?;
        bench.expect(count == expected[n], r, class, &format!("RxPfc {}", expected[n]), &count.to_string());
        let (sent, arrived) = (needed(counters.ports[t].classes[n].tx_pfc, "TxPfc")?, received.pfc[n]);
        bench.expect(sent == arrived, t, class, &format!("TxPfc {arrived}"), &sent.to_string());
    }
    let paused = received.xoff[first.index()];
    bench.expect(paused > 0, t, first, "PFC to the sender", "none");
    bench.record(format!("RxPfc by class {expected:?}, TxPfc {:?}", received.pfc));
    Ok(())
}
