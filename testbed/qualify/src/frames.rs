//! Tests F01 to F12: further requirements of the plans' suites on PFC frames, senders and storms.

use weir_units::{BitRate, Class, ClassSet, MacAddr, Span};

use crate::TestFailure;
use crate::bench::{Bench, LENGTH, QUANTA_MAX, TestFlow, known, pfc_from, rate_of, text_of, text_of_rate};
use crate::lossless::pause_lengths;
use crate::lossy::not_forwarded;
use crate::test_case::{EXACT, EXACT_REASON, RATE, RATE_REASON, Test};
use crate::tester::{Lengths, PfcReaction};

/// Tests that the plans' suites also require.
pub const TESTS: &[Test] = &[
    Test {
        id: "F01",
        title: "PFC frame with no bit in the enable vector",
        criterion: "neither obeyed nor counted",
        tolerance: EXACT,
        reason: EXACT_REASON,
        run: no_class,
    },
    Test {
        id: "F02",
        title: "source address of PFC frames",
        criterion: "zero and a unicast address are obeyed alike",
        tolerance: EXACT,
        reason: EXACT_REASON,
        run: sources,
    },
    Test {
        id: "F03",
        title: "PFC for a lossy class",
        criterion: "not obeyed, not forwarded",
        tolerance: RATE,
        reason: RATE_REASON,
        run: lossy_class,
    },
    Test {
        id: "F04",
        title: "many to one, lossless",
        criterion: "0 lost; the receiver's link is full; senders share it",
        tolerance: "2 % of the rate, 10 % of the shares",
        reason: "pauses stop senders for whole hysteresis cycles, of which the window has some ten",
        run: |bench| many_to_one(bench, Mix::Lossless),
    },
    Test {
        id: "F05",
        title: "many to one, lossy",
        criterion: "no PFC; each lost frame is counted; the receiver's link is full",
        tolerance: "2 % of the rate",
        reason: RATE_REASON,
        run: |bench| many_to_one(bench, Mix::Lossy),
    },
    Test {
        id: "F06",
        title: "many to one, lossless and lossy",
        criterion: "the lossless class loses nothing; each lost frame of the lossy class is counted",
        tolerance: EXACT,
        reason: EXACT_REASON,
        run: |bench| many_to_one(bench, Mix::Both),
    },
    Test {
        id: "F07",
        title: "many to one, fluctuating",
        criterion: "a second sender comes and goes: 0 lost, and no frame waits at the end",
        tolerance: EXACT,
        reason: EXACT_REASON,
        run: fluctuating,
    },
    Test {
        id: "F08",
        title: "storms at throttled rates",
        criterion: "PFC sent every 2 and 4 times its pause stops the class for a half and a quarter of the time",
        tolerance: "5 % of the line rate",
        reason: "the plan's for a pause: frames on the wire at each begin and end of a pause",
        run: throttled,
    },
    Test {
        id: "F09",
        title: "ports of different speeds",
        criterion: "quanta count at the slower receiver's speed; 0 lost from the faster sender",
        tolerance: "5 % of the pause",
        reason: "a frame is on the wire when the pause begins, and another needs its time after it",
        run: speeds,
    },
    Test {
        id: "F10",
        title: "time to stop against headroom",
        criterion: "0 lost as long as a peer stops in the time that the headroom allows, with the longest frames in both directions; \
                    frames are lost only beyond",
        tolerance: EXACT,
        reason: EXACT_REASON,
        run: response_time,
    },
    Test {
        id: "F11",
        title: "storm that stalls an ingress",
        criterion: "the stalled sender's other classes and other senders of the class keep their rates; 0 lost after the storm",
        tolerance: RATE,
        reason: RATE_REASON,
        run: stalled_ingress,
    },
    Test {
        id: "F12",
        title: "full load without congestion",
        criterion: "no PFC, 0 lost",
        tolerance: EXACT,
        reason: EXACT_REASON,
        run: full_load,
    },
];

fn no_class(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, r, class) = (bench.t, bench.r, bench.lossless()?);
    let frame = bench.pfc(r, ClassSet::EMPTY, QUANTA_MAX);
    bench.control(r, frame, Some(bench.pause(r).divided_by(8)))?;
    bench.settle()?;
    let flow = bench.flow(t, r, class, bench.class_rate(r), Lengths::Fixed(LENGTH))?;
    bench.run(bench.pause(r).divided_by(2))?;
    bench.stop(&[flow])?;
    bench.settle()?;
    bench.expect_delivery(&[flow])?;
    bench.expect_rx_pfc(r, ClassSet::EMPTY)
}

fn sources(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, r, class) = (bench.t, bench.r, bench.lossless()?);
    for (name, source) in [("zero", MacAddr([0; 6])), ("unicast", MacAddr([0x00, 0x25, 0x96, 1, 2, 3]))] {
        let frame = pfc_from(source, class.alone(), QUANTA_MAX);
        bench.control(r, frame, Some(bench.pause(r).divided_by(2)))?;
        bench.settle()?;
        let flow = bench.flow(t, r, class, bench.class_rate(r), Lengths::Fixed(LENGTH))?;
        bench.run(bench.pause(r))?;
        bench.expect_nothing(flow)?;
        bench.expect_rx_pfc(r, class.alone())?;
        bench.record(format!("{name}: obeyed and counted"));
        bench.restore()?;
    }
    Ok(())
}

fn lossy_class(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, r) = (bench.t, bench.r);
    let classes: ClassSet = bench.lossy(t).into_iter().collect();
    bench.one_lossy(t)?;
    bench.storm(r, classes)?;
    let flows = bench.flows(t, r, Lengths::Fixed(LENGTH))?;
    bench.run(bench.pause(r))?;
    bench.stop(&flows)?;
    bench.settle()?;
    bench.expect_delivery(&flows)?;
    not_forwarded(bench)
}

#[derive(Clone, Copy, PartialEq)]
enum Mix {
    Lossless,
    Lossy,
    Both,
}

fn many_to_one(bench: &mut Bench<'_>, mix: Mix) -> Result<(), TestFailure> {
    let (t, u, r) = (bench.t, bench.u()?, bench.r);
    let buffer = bench.facts.buffer.clone().unwrap_or_default();
    if mix == Mix::Lossless && buffer.xon.is_some_and(|xon| xon < buffer.charge(LENGTH)) {
        return Err(TestFailure::impossible("Xon is less than a frame: the queue is empty when its senders resume"));
    }
    let line = bench.tester.rate(r);
    let half = BitRate::bps(line.as_bps() / 2);
    let mut flows = Vec::new();
    for port in [t, u] {
        if mix != Mix::Lossy {
            let rate = if mix == Mix::Both { half } else { line };
            flows.push(bench.flow(port, r, bench.lossless()?, rate, Lengths::Fixed(LENGTH))?);
        }
        if mix != Mix::Lossless {
            let rate = if mix == Mix::Both { half } else { line };
            flows.push(bench.flow(port, r, bench.one_lossy(port)?, rate, Lengths::Fixed(LENGTH))?);
        }
    }
    let pause = bench.pause(r);
    bench.run(pause * 2)?;
    let filled = bench.tester.now();
    let before: Vec<_> = flows.iter().map(|flow| bench.stats(*flow)).collect::<Result<_, _>>()?;
    bench.run(pause * 4)?;
    let time = bench.tester.now().since(filled).as_secs_f64();
    let mut rates = Vec::new();
    for (flow, before) in flows.iter().zip(before) {
        let bytes = bench.stats(*flow)?.received_wire_bytes - before.received_wire_bytes;
        rates.push(bytes as f64 * 8.0 / time);
    }
    bench.stop(&flows)?;
    bench.drain()?;
    let all: f64 = rates.iter().sum();
    let texts: Vec<String> = rates.iter().map(|rate| text_of_rate(*rate)).collect();
    bench.record(format!("rates {}", texts.join(", ")));
    let first = flows[0].class;
    let is_full = (all / line.as_bps() as f64 - 1.0).abs() <= 0.02;
    bench.expect(is_full, r, first, &format!("{line} in all within 2 %"), &text_of_rate(all));
    if mix == Mix::Lossless {
        let is_shared = rates.iter().all(|rate| (rate / all - 0.5).abs() <= 0.1);
        bench.expect(is_shared, r, first, "a half for each sender within 10 %", &texts.join(", "));
    }
    let (lossless, mut lost) = (bench.facts.lossless(), 0);
    for flow in &flows {
        if lossless.contains(flow.class) {
            bench.expect_no_loss(*flow)?;
        } else {
            let stats = bench.stats(*flow)?;
            lost += stats.sent - stats.received;
        }
    }
    let drops = bench.drops()?;
    bench.expect(drops == lost, r, first, &format!("{lost} drops counted"), &drops.to_string());
    for port in [t, u] {
        let pfc = bench.received_control(port)?.pfc;
        for class in Class::ALL.into_iter().filter(|class| !lossless.contains(*class)) {
            let frames = pfc[class.index()];
            bench.expect(frames == 0, port, class, "no PFC for a lossy class", &frames.to_string());
        }
    }
    Ok(())
}

fn fluctuating(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, u, r, class) = (bench.t, bench.u()?, bench.r, bench.lossless()?);
    let line = bench.tester.rate(r);
    let steady = bench.flow(t, r, class, line, Lengths::Fixed(LENGTH))?;
    let mut flows = vec![steady];
    for part in [2, 8, 1, 4] {
        let rate = BitRate::bps(line.as_bps() / part);
        let flow = bench.flow(u, r, class, rate, Lengths::Fixed(LENGTH))?;
        bench.run(bench.pause(r))?;
        bench.stop(&[flow])?;
        bench.run(bench.pause(r).divided_by(2))?;
        flows.push(flow);
    }
    bench.stop(&flows)?;
    bench.drain()?;
    for flow in &flows {
        bench.expect_no_loss(*flow)?;
    }
    let counters = bench.counters()?;
    for port in [t, u] {
        if let Some(held) = counters.ports[port].classes[class.index()].group_bytes {
            bench.expect(held == 0, port, class, "an empty priority group", &format!("{held} B"));
        }
    }
    let pauses = bench.received_control(t)?.xoff[class.index()];
    bench.record(format!("{pauses} pauses of the steady sender"));
    Ok(())
}

fn throttled(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, r, class) = (bench.t, bench.r, bench.lossless()?);
    let line = bench.tester.rate(r);
    let quanta = 8_000;
    let pause = bench.quanta(r, quanta);
    for times in [2, 4] {
        let frame = bench.pfc(r, class.alone(), quanta);
        bench.control(r, frame, Some(pause * times))?;
        let flow = bench.flow(t, r, class, line, Lengths::Fixed(LENGTH))?;
        bench.run(pause * times)?;
        let (begun, before) = (bench.tester.now(), bench.stats(flow)?.received_wire_bytes);
        bench.run(pause * times * 8)?;
        let time = bench.tester.now().since(begun).as_secs_f64();
        let rate = (bench.stats(flow)?.received_wire_bytes - before) as f64 * 8.0 / time;
        let (share, expected) = (rate / line.as_bps() as f64, 1.0 - 1.0 / times as f64);
        bench.record(format!("every {times} pauses: {:.2} % of the line rate", share * 100.0));
        let expected_text = format!("{:.0} % of the line rate within 5 %", expected * 100.0);
        let is_expected = (share - expected).abs() <= 0.05;
        bench.expect(is_expected, r, class, &expected_text, &format!("{:.2} %", share * 100.0));
        bench.restore()?;
    }
    Ok(())
}

fn speeds(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, class) = (bench.t, bench.lossless()?);
    let fast = bench.tester.rate(t);
    let asic = bench.facts.ports[t].asic;
    let mut slower = (0..bench.tester.ports()).filter(|port| bench.facts.ports[*port].asic == asic);
    let slow = slower.find(|port| bench.tester.rate(*port) < fast);
    let slow = slow.ok_or_else(|| TestFailure::impossible("all ports have one speed"))?;
    pause_lengths(bench, t, slow, &[4_000])?;
    bench.restore()?;
    bench.slow_peer(t)?;
    let flow = bench.flow(t, slow, class, fast, Lengths::Fixed(LENGTH))?;
    let paused = bench.wait_for_pause(t, class)?;
    bench.expect(paused, t, class, "PFC to the faster sender", "none");
    bench.run(bench.pause(t))?;
    bench.stop(&[flow])?;
    bench.drain()?;
    bench.expect_no_loss(flow)
}

fn response_time(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, r, class) = (bench.t, bench.r, bench.lossless()?);
    let allowed = known(bench.facts.ports[t].peer_delay_ns, "the delay that the headroom allows")?;
    let headroom = known(bench.facts.ports[t].headroom, "the size of the headroom")?;
    let allowed = Span::from_nanos(allowed);
    // As many frames as the headroom has charges, and a sixteenth more.
    let frames = headroom / bench.buffer()?.charge(LENGTH);
    let line = bench.tester.rate(t);
    let beyond = bench.frame_time(t, LENGTH) * (frames + frames / 16 + 4);
    // The longest frames need most of it.
    let longest = bench.facts.frame_bytes_max.saturating_sub(4).max(LENGTH);
    for (delay, length, is_allowed) in [(Span::ZERO, LENGTH, true), (allowed, longest, true), (beyond, LENGTH, false)] {
        bench.tester.set_pfc_reaction(t, PfcReaction::Obey(delay))?;
        // PFC waits for a frame of the other direction, for another part of it each time.
        bench.flow(r, t, bench.one_lossy(r).unwrap_or(class), line, Lengths::Fixed(longest))?;
        let mut lost = 0;
        for part in 0..PHASES {
            let storm = bench.storm(r, class.alone())?;
            bench.run(bench.frame_time(t, longest).divided_by(PHASES) * part)?;
            let flow = bench.flow(t, r, class, line, Lengths::Fixed(length))?;
            bench.wait_for_pause(t, class)?;
            bench.run(delay + bench.pause(r).divided_by(8))?;
            bench.stop(&[flow])?;
            bench.end_storm(r, class.alone(), storm)?;
            bench.drain()?;
            let stats = bench.stats(flow)?;
            lost += stats.sent - stats.received;
        }
        let used = bench.counters()?.ports[t].classes[class.index()].group_headroom_max;
        let used = used.map_or("unknown".to_owned(), |used| format!("{used} B"));
        let beyond = if is_allowed { "" } else { ", as beyond the headroom" };
        bench.record(format!(
            "{}, {length} B: {lost} lost{beyond}, headroom used {used} of {headroom} B",
            text_of(delay)
        ));
        if is_allowed {
            bench.expect(lost == 0, t, class, &format!("0 lost at {}", text_of(delay)), &lost.to_string());
        } else {
            bench.expect(lost > 0, t, class, &format!("losses at {}", text_of(delay)), "none");
        }
        bench.restore()?;
    }
    Ok(())
}

/// Instants in a frame of the other direction at which PFC is sent.
const PHASES: u64 = 8;

fn stalled_ingress(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, u, r, class) = (bench.t, bench.u()?, bench.r, bench.lossless()?);
    let storm = bench.storm(r, class.alone())?;
    let stalled = bench.flow(t, r, class, bench.tester.rate(t), Lengths::Fixed(LENGTH))?;
    let paused = bench.wait_for_pause(t, class)?;
    bench.expect(paused, t, class, "PFC that stalls the sender", "none");
    // Other classes of the stalled sender, and the class from another one.
    let rate = bench.class_rate(r);
    let mut others: Vec<TestFlow> = Vec::new();
    for other in bench.classes(t).into_iter().filter(|other| *other != class) {
        others.push(bench.flow(t, r, other, rate, Lengths::Fixed(LENGTH))?);
    }
    others.push(bench.flow(u, t, class, rate, Lengths::Fixed(LENGTH))?);
    bench.run(bench.pause(r))?;
    bench.stop(&others)?;
    bench.settle()?;
    bench.expect_delivery(&others)?;
    let before = bench.stats(stalled)?.sent;
    bench.run(bench.pause(r).divided_by(4))?;
    let more = bench.stats(stalled)?.sent - before;
    bench.expect(more == 0, t, class, "a stalled sender", &format!("{more} more frames"));
    bench.stop(&[stalled])?;
    bench.end_storm(r, class.alone(), storm)?;
    bench.drain()?;
    bench.expect_no_loss(stalled)
}

fn full_load(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, r) = (bench.t, bench.r);
    let mut flows: Vec<TestFlow> = Vec::new();
    for (from, to) in [(t, r), (r, t)] {
        let classes = bench.classes(from);
        if classes.is_empty() {
            return Err(TestFailure::impossible("no codepoint leads to a class"));
        }
        let rate = BitRate::bps(bench.tester.rate(to).as_bps() / classes.len() as u64 / 1_000 * 999);
        for class in classes {
            flows.push(bench.flow(from, to, class, rate, Lengths::Fixed(LENGTH))?);
        }
    }
    bench.run(bench.pause(r) * 2)?;
    bench.stop(&flows)?;
    bench.settle()?;
    let mut all = 0.0;
    for flow in flows {
        bench.expect_no_loss(flow)?;
        all += rate_of(&bench.stats(flow)?);
    }
    bench.record(format!("{} both ways together", text_of_rate(all)));
    for port in [t, r] {
        let frames = bench.received_control(port)?.pfc_frames;
        bench.expect(frames == 0, port, bench.lossless()?, "no PFC", &frames.to_string());
    }
    let drops = bench.drops()?;
    bench.expect(drops == 0, r, bench.lossless()?, "0 drops", &drops.to_string());
    Ok(())
}
