//! SONiC's tests of QoS (`tests/qos`, `qos_sai`), by their names: thresholds, watermarks, maps, shares, marks.
//!
//! A lossless class is held by PFC of its receiver, and its senders ignore the device's PFC, so that a number of frames is in the buffer.
//! A lossy class cannot be held: two senders at line rate fill it by one frame in the time of a frame.

use weir_units::{BitRate, Class, ClassSet};

use crate::bench::{Bench, LENGTH, ResumePoint, TestFlow, known, needed};
use crate::test_case::{EXACT, EXACT_REASON, Test};
use crate::tester::{Amount, Lengths, Marking, PfcReaction, StreamId, TestStream};
use crate::{ClassCounters, QueueMap, TestFailure};

const MARGIN: &str = "the device's margin in frames; for Weir 2";
const MARGIN_REASON: &str = "a threshold lies between two frames, and dynamic ones move by a frame's charge";

/// SONiC's tests of QoS.
pub const TESTS: &[Test] = &[
    Test {
        id: "PfcXoffLimit",
        title: "threshold of PFC, and headroom",
        criterion: "the computed number of frames gives no PFC, a margin more does; no frame is lost until the headroom is full, then \
                    frames are dropped",
        tolerance: MARGIN,
        reason: MARGIN_REASON,
        run: xoff_limit,
    },
    Test {
        id: "PfcXonLimit",
        title: "threshold of the resume",
        criterion: "no resume above Xon, a resume below",
        tolerance: "the margin, and two frames",
        reason: "the group is read by the frames that have arrived, between two of which the resume comes",
        run: xon_limit,
    },
    Test {
        id: "HeadroomPoolSize",
        title: "headroom pool under many priority groups",
        criterion: "the full pool is used before the first drop",
        tolerance: "the margin, for each group",
        reason: "each group's next frame may not fit the rest",
        run: pool_size,
    },
    Test {
        id: "HeadroomPoolWatermark",
        title: "watermark of the headroom pool",
        criterion: "the watermark is the amount filled, and is cleared on request",
        tolerance: MARGIN,
        reason: MARGIN_REASON,
        run: |bench| {
            known(bench.buffer()?.headroom_pool, "the size of a headroom pool")?;
            headroom_watermark(bench, true)
        },
    },
    Test {
        id: "PGHeadroomWatermark",
        title: "watermark of a priority group's headroom",
        criterion: "the watermark is the amount filled, and is cleared on request",
        tolerance: MARGIN,
        reason: MARGIN_REASON,
        run: |bench| headroom_watermark(bench, false),
    },
    Test {
        id: "PGSharedWatermark",
        title: "watermark of a priority group's shared bytes, lossless and lossy",
        criterion: "the watermark is the amount filled, and is cleared on request",
        tolerance: MARGIN,
        reason: "a lossy queue's frames leave while others come",
        run: |bench| {
            filled_watermark(bench, "of the lossless group", true, |class, _| class.group_shared_max)?;
            lossy_watermark(bench, "of the lossy groups", |senders, _| {
                Some(senders[0].group_shared_max? + senders[1].group_shared_max?)
            })
        },
    },
    Test {
        id: "QSharedWatermark",
        title: "watermark of a queue, lossless and lossy",
        criterion: "the watermark is the amount filled, and is cleared on request",
        tolerance: MARGIN,
        reason: "a lossy queue's frames leave while others come",
        run: |bench| {
            filled_watermark(bench, "of the lossless queue", false, |_, queue| queue.queue_max)?;
            lossy_watermark(bench, "of the lossy queue", |_, queue| queue.queue_max)
        },
    },
    Test {
        id: "BufferPoolWatermark",
        title: "watermark of the shared pool",
        criterion: "the watermark is the amount filled, and is cleared on request",
        tolerance: MARGIN,
        reason: MARGIN_REASON,
        run: pool_watermark,
    },
    Test {
        id: "LossyQueue",
        title: "threshold of a lossy queue",
        criterion: "the computed number of frames waits without loss, a margin more is dropped",
        tolerance: "twice the margin",
        reason: "each of two senders comes up to a frame early or late",
        run: lossy_queue,
    },
    Test {
        id: "DscpQueueMapping",
        title: "queue of each DSCP",
        criterion: "each of 64 DSCPs leaves by its queue",
        tolerance: EXACT,
        reason: EXACT_REASON,
        run: |bench| dscp_mapping(bench, bench.t, bench.r, false),
    },
    Test {
        id: "DscpToPgMapping",
        title: "priority group of each DSCP",
        criterion: "each of 64 DSCPs is counted in its priority group",
        tolerance: EXACT,
        reason: EXACT_REASON,
        run: |bench| dscp_mapping(bench, bench.t, bench.r, true),
    },
    Test {
        id: "Dot1pQueueMapping",
        title: "queue of each PCP",
        criterion: "each of 8 PCPs leaves by its queue",
        tolerance: EXACT,
        reason: EXACT_REASON,
        run: |bench| pcp_mapping(bench, false),
    },
    Test {
        id: "Dot1pToPgMapping",
        title: "priority group of each PCP",
        criterion: "each of 8 PCPs is counted in its priority group",
        tolerance: EXACT,
        reason: EXACT_REASON,
        run: |bench| pcp_mapping(bench, true),
    },
    Test {
        id: "DWRR",
        title: "shares of queues",
        criterion: "backlogged queues share the link by their weights",
        tolerance: "2 % of the link",
        reason: "a round serves whole frames",
        run: dwrr,
    },
    Test {
        id: "DWRRWeightChange",
        title: "change of a weight under load",
        criterion: "shares follow the new weight, 0 lost by the change",
        tolerance: "2 % of the link",
        reason: "a round serves whole frames",
        run: weight_change,
    },
    Test {
        id: "LossyQueueVoq",
        title: "drops of a lossy queue, by ingress port",
        criterion: "each sender's drops are counted at its port exactly",
        tolerance: EXACT,
        reason: EXACT_REASON,
        run: drops_by_port,
    },
    Test {
        id: "SeparatedDscp",
        title: "maps of ports with another map",
        criterion: "each DSCP leaves such a port's frames by its own map's queue, and is counted in its group",
        tolerance: EXACT,
        reason: EXACT_REASON,
        run: separated_dscp,
    },
    Test {
        id: "PgDrop",
        title: "drops of a lossless priority group",
        criterion: "each frame beyond the headroom is counted as a drop of its group",
        tolerance: EXACT,
        reason: EXACT_REASON,
        run: group_drops,
    },
    Test {
        id: "EcnMarking",
        title: "share of CE marks",
        criterion: "no mark below Kmin, all above Kmax, and between them the share that Pmax gives",
        tolerance: "4 standard deviations of the number of marks between Kmin and Kmax, and 2 frames",
        reason: "marks are drawn at random: one run of 16,000 is beyond",
        run: ecn,
    },
];

/// Frames of the usual length that a lossless group of T's port takes before PFC.
fn xoff_frames(bench: &Bench<'_>) -> Result<(u64, u64, u64), TestFailure> {
    let buffer = bench.buffer()?;
    let charge = buffer.charge(LENGTH);
    Ok((known(buffer.xoff, "the threshold of PFC")? / charge, charge, buffer.margin_frames))
}

/// Frames of a threshold, less those of the margin.
fn below(frames: u64, margin: u64, threshold: &str) -> Result<u64, TestFailure> {
    frames.checked_sub(margin).filter(|left| *left > 0).ok_or_else(|| {
        TestFailure::impossible(format!("{threshold} is {frames} frames of {LENGTH} B, and only known to {margin}"))
    })
}

/// Holds a lossless class at its receiver, and has the sender ignore PFC. Returns the class.
fn hold(bench: &mut Bench<'_>) -> Result<(Class, StreamId), TestFailure> {
    let class = bench.lossless()?;
    bench.tester.set_pfc_reaction(bench.t, PfcReaction::Ignore)?;
    let storm = bench.storm(bench.r, class.alone())?;
    Ok((class, storm))
}

fn xoff_limit(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, r) = (bench.t, bench.r);
    let (frames, charge, margin) = xoff_frames(bench)?;
    let headroom = known(bench.facts.ports[t].headroom, "the size of the headroom")? / charge;
    let unpaused = below(frames, margin, "the threshold of PFC")?;
    let in_headroom = below(headroom, 2 * margin, "the headroom")?;
    let (class, _) = hold(bench)?;
    let mut sent = 0;
    let mut add = |bench: &mut Bench<'_>, more: u64| -> Result<u64, TestFailure> {
        bench.fill(t, r, class, LENGTH, more)?;
        sent += more;
        Ok(sent)
    };
    let before = add(bench, unpaused)?;
    let pauses = bench.received_control(t)?.xoff[class.index()];
    bench.expect(pauses == 0, t, class, &format!("no PFC at {before} frames"), &format!("{pauses} frames"));
    let after = add(bench, 2 * margin)?;
    let pauses = bench.received_control(t)?.xoff[class.index()];
    bench.expect(pauses > 0, t, class, &format!("PFC at {after} frames"), "none");
    bench.record(format!("PFC after {before} to {after} frames of {charge} B"));
    let full = add(bench, in_headroom)?;
    let drops = bench.drops()?;
    bench.expect(drops == 0, t, class, &format!("0 drops at {full} frames"), &drops.to_string());
    let over = add(bench, 2 * margin)?;
    let drops = bench.drops()?;
    bench.expect(drops > 0, t, class, &format!("drops at {over} frames"), "none");
    bench.record(format!("headroom full after {full} to {over} frames"));
    Ok(())
}

fn xon_limit(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, r) = (bench.t, bench.r);
    let (frames, charge, margin) = xoff_frames(bench)?;
    let xon = known(bench.buffer()?.xon, "the threshold of the resume")? / charge;
    let (class, storm) = hold(bench)?;
    let filled = frames + margin;
    let flow = bench.fill(t, r, class, LENGTH, filled)?;
    let ResumePoint { held, is_resumed } = bench.drain_to_resume(storm, flow, filled)?;
    bench.expect(is_resumed, t, class, "a resume", "none");
    bench.record(format!("resume at {held} frames, Xon is {xon}"));
    let is_near = held.abs_diff(xon) <= margin + 2;
    bench.expect(is_near, t, class, &format!("a resume at {xon} frames within {}", margin + 2), &held.to_string());
    Ok(())
}

fn pool_size(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let r = bench.r;
    let buffer = bench.buffer()?;
    let pool = known(buffer.headroom_pool, "the size of a headroom pool")?;
    let lossless = bench.facts.lossless();
    let asic = bench.facts.ports[r].asic;
    let ports: Vec<usize> =
        (0..bench.tester.ports()).filter(|port| *port != r && bench.facts.ports[*port].asic == asic).collect();
    let all: u64 =
        ports.iter().map(|port| bench.facts.ports[*port].headroom.unwrap_or(0) * lossless.len() as u64).sum();
    if all <= pool {
        let why = format!("the groups that the tester reaches may take {all} B of headroom, and the pool has {pool} B");
        return Err(TestFailure::impossible(why));
    }
    let class = bench.lossless()?;
    bench.storm(r, lossless)?;
    let mut groups = 0;
    for port in ports {
        bench.tester.set_pfc_reaction(port, PfcReaction::Ignore)?;
        for class in lossless.iter().filter(|class| bench.marking(port, *class).is_ok()).collect::<Vec<_>>() {
            let rate = BitRate::bps(bench.tester.rate(port).as_bps() / lossless.len() as u64);
            bench.flow(port, r, class, rate, Lengths::Fixed(LENGTH))?;
            groups += 1;
        }
    }
    let end = bench.tester.now() + bench.pause(r) * 8;
    // Until headroom is in use, steps in which it does not fill; then frame by frame.
    while bench.drops()? == 0 && bench.tester.now() < end {
        let is_used = needed(bench.counters()?.pools.headroom_max, "the headroom pool's watermark")? > 0;
        bench.run(if is_used { bench.frame_time(r, LENGTH) } else { bench.pause(r).divided_by(256) })?;
    }
    let drops = bench.drops()?;
    bench.expect(drops > 0, r, class, "drops in the end", "none");
    let used = needed(bench.counters()?.pools.headroom_max, "the headroom pool's watermark")?;
    let least = pool.saturating_sub(groups * buffer.charge(LENGTH) * buffer.margin_frames.max(1));
    bench.record(format!("{used} of {pool} B used by {groups} groups at the first drop"));
    bench.expect(used >= least, r, class, &format!("{least} B used before a drop"), &format!("{used} B"));
    Ok(())
}

/// Compares a watermark with the bytes filled, then clears it and compares it with nothing.
fn check_watermark(
    bench: &mut Bench<'_>,
    name: &str,
    filled: u64,
    read: impl Fn(&mut Bench<'_>) -> Result<u64, TestFailure>,
) -> Result<(), TestFailure> {
    let buffer = bench.buffer()?;
    let (charge, margin) = (buffer.charge(LENGTH), buffer.margin_frames);
    let (t, class) = (bench.t, bench.lossless()?);
    let value = read(bench)?;
    bench.record(format!("watermark {name}: {value} B of {filled} B filled"));
    let is_filled = value.abs_diff(filled) <= margin * charge;
    let expected = format!("watermark {name} {filled} B within {margin} frames");
    bench.expect(is_filled, t, class, &expected, &format!("{value} B"));
    bench.restore()?;
    let value = read(bench)?;
    bench.expect(value == 0, t, class, &format!("watermark {name} 0 when cleared"), &format!("{value} B"));
    Ok(())
}

fn headroom_watermark(bench: &mut Bench<'_>, of_pool: bool) -> Result<(), TestFailure> {
    let (t, r) = (bench.t, bench.r);
    let (frames, charge, _) = xoff_frames(bench)?;
    let in_headroom = known(bench.facts.ports[t].headroom, "the size of the headroom")? / charge / 2;
    let (class, _) = hold(bench)?;
    bench.fill(t, r, class, LENGTH, frames + in_headroom)?;
    check_watermark(bench, "of headroom", in_headroom * charge, |bench| {
        let counters = bench.counters()?;
        if of_pool {
            return needed(counters.pools.headroom_max, "the headroom pool's watermark");
        }
        needed(counters.ports[t].classes[class.index()].group_headroom_max, "the watermark of a group's headroom")
    })
}

/// Compares a watermark with a fill of a held lossless class, well below the threshold of PFC. `read` gets the group and the queue.
fn filled_watermark(
    bench: &mut Bench<'_>,
    name: &str,
    is_shared: bool,
    read: fn(&ClassCounters, &ClassCounters) -> Option<u64>,
) -> Result<(), TestFailure> {
    let (t, r) = (bench.t, bench.r);
    let (frames, charge, _) = xoff_frames(bench)?;
    let (class, _) = hold(bench)?;
    bench.fill(t, r, class, LENGTH, frames / 2)?;
    let private = if is_shared { bench.buffer()?.private } else { 0 };
    check_watermark(bench, name, (frames / 2 * charge).saturating_sub(private), |bench| {
        let counters = bench.counters()?;
        let [group, queue] = [t, r].map(|port| counters.ports[port].classes[class.index()]);
        needed(read(&group, &queue), "this watermark")
    })
}

fn pool_watermark(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, r) = (bench.t, bench.r);
    let (frames, charge, _) = xoff_frames(bench)?;
    let (class, _) = hold(bench)?;
    bench.fill(t, r, class, LENGTH, frames / 2)?;
    let private = bench.buffer()?.private;
    check_watermark(bench, "of the pool", (frames / 2 * charge).saturating_sub(private), |bench| {
        needed(bench.counters()?.pools.shared_max, "the shared pool's watermark")
    })
}

/// Sends this many frames of a lossy class from each of two ports to one, at line rate.
fn fill_lossy(bench: &mut Bench<'_>, class: Class, frames: u64) -> Result<[TestFlow; 2], TestFailure> {
    let (t, u, r) = (bench.t, bench.u()?, bench.r);
    let rate = bench.tester.rate(r);
    let amount = Amount::Frames(frames);
    let mut send = |from| bench.flow_of(from, r, class, rate, Lengths::Fixed(LENGTH), amount);
    let flows = [send(t)?, send(u)?];
    bench.run(bench.frame_time(r, LENGTH) * frames)?;
    bench.settle()?;
    Ok(flows)
}

fn lossy_watermark(
    bench: &mut Bench<'_>,
    name: &str,
    read: fn(&[ClassCounters; 2], &ClassCounters) -> Option<u64>,
) -> Result<(), TestFailure> {
    let (t, u, r) = (bench.t, bench.u()?, bench.r);
    let class = bench.one_lossy(t)?;
    let limit = known(bench.buffer()?.lossy_queue, "the threshold of a lossy queue")?;
    let frames = limit / bench.buffer()?.charge(LENGTH) / 2;
    fill_lossy(bench, class, frames)?;
    let charge = bench.buffer()?.charge(LENGTH);
    check_watermark(bench, name, frames * charge, |bench| {
        let counters = bench.counters()?;
        let [first, second, queue] = [t, u, r].map(|port| counters.ports[port].classes[class.index()]);
        needed(read(&[first, second], &queue), "this watermark")
    })
}

fn lossy_queue(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, r) = (bench.t, bench.r);
    let class = bench.one_lossy(t)?;
    let buffer = bench.buffer()?;
    let frames = known(buffer.lossy_queue, "the threshold of a lossy queue")? / buffer.charge(LENGTH);
    let margin = 2 * buffer.margin_frames;
    let fitting = below(frames, margin, "the threshold of a lossy queue")?;
    for (frames, fits) in [(fitting, true), (frames + margin, false)] {
        fill_lossy(bench, class, frames)?;
        bench.drain()?;
        let drops = bench.drops()?;
        bench.record(format!("{frames} frames waiting: {drops} drops"));
        let expected = if fits { "no drop" } else { "drops" };
        bench.expect((drops == 0) == fits, r, class, &format!("{expected} at {frames} frames"), &drops.to_string());
        bench.restore()?;
    }
    Ok(())
}

/// Sends a frame of each codepoint, and compares where it is counted: its group on arrival, or its queue.
fn mapping(
    bench: &mut Bench<'_>,
    from: usize,
    to: usize,
    maps: &[QueueMap],
    marking: fn(u8) -> Marking,
    of_groups: bool,
) -> Result<(), TestFailure> {
    let (port, name) = if of_groups { (from, "frames of a group") } else { (to, "frames of a queue") };
    let rate = bench.class_rate(from);
    let mut wrong = Vec::new();
    for (code, map) in maps.iter().enumerate() {
        let expected = Class::new(if of_groups { map.group } else { map.queue });
        bench.device.clear()?;
        let (lengths, amount) = (Lengths::Fixed(LENGTH), Amount::Frames(3));
        let marking = marking(code as u8);
        let class = Class::new(map.group);
        let id = bench.tester.start(&TestStream { from, to, marking, class, ect: false, lengths, rate, amount })?;
        bench.settle()?;
        let counters = bench.counters()?;
        let count = |class: &Class| {
            let of_class = counters.ports[port].classes[class.index()];
            needed(if of_groups { of_class.rx_frames } else { of_class.tx_frames }, name)
        };
        let counts: Vec<u64> = Class::ALL.iter().map(count).collect::<Result<_, _>>()?;
        let received = bench.tester.stats(id)?.received;
        let is_right = counts[expected.index()] == 3 && counts.iter().sum::<u64>() == 3 && received == 3;
        if !is_right {
            wrong.push((code, expected, format!("{counts:?} by class, {received} received")));
        }
    }
    bench.record(format!("{} codepoints, {} wrong", maps.len(), wrong.len()));
    if let Some((code, expected, measured)) = wrong.first() {
        let others = format!("{measured}; {} more codepoints are wrong", wrong.len() - 1);
        bench.fail(port, *expected, &format!("3 frames of codepoint {code}"), &others);
    }
    Ok(())
}

fn dscp_mapping(bench: &mut Bench<'_>, from: usize, to: usize, of_groups: bool) -> Result<(), TestFailure> {
    let maps = known(bench.facts.ports[from].dscp.clone(), "the map of DSCPs")?;
    mapping(bench, from, to, &maps, Marking::Dscp, of_groups)
}

fn pcp_mapping(bench: &mut Bench<'_>, of_groups: bool) -> Result<(), TestFailure> {
    let with_pcp = bench.facts.ports.iter().position(|port| port.pcp.is_some());
    let from = with_pcp.ok_or_else(|| TestFailure::impossible("no port trusts PCP"))?;
    let maps = known(bench.facts.ports[from].pcp.clone(), "the map of PCPs")?;
    let to = if from == bench.r { bench.t } else { bench.r };
    mapping(bench, from, to, &maps, Marking::Pcp, of_groups)
}

fn separated_dscp(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let usual = bench.facts.ports[bench.t].dscp.clone();
    let is_other = |port: &crate::PortFacts| port.dscp.is_some() && port.dscp != usual;
    let other = bench.facts.ports.iter().position(is_other);
    let from = other.ok_or_else(|| TestFailure::impossible("all ports have one map of DSCPs"))?;
    let to = if from == bench.r { bench.t } else { bench.r };
    dscp_mapping(bench, from, to, true)?;
    dscp_mapping(bench, from, to, false)
}

/// Starts two classes at line rate from two ports to one. A sender that obeyed PFC would let a queue of little Xon run empty.
fn backlog(bench: &mut Bench<'_>, classes: [Class; 2]) -> Result<[TestFlow; 2], TestFailure> {
    let (t, u, r) = (bench.t, bench.u()?, bench.r);
    let line = bench.tester.rate(r);
    let mut flow = |from, class| {
        bench.tester.set_pfc_reaction(from, PfcReaction::Ignore)?;
        bench.flow(from, r, class, line, Lengths::Fixed(LENGTH))
    };
    Ok([flow(t, classes[0])?, flow(u, classes[1])?])
}

fn measure_shares(bench: &mut Bench<'_>, flows: [TestFlow; 2], weights: [u32; 2]) -> Result<(), TestFailure> {
    let r = bench.r;
    bench.run(bench.pause(r).divided_by(4) + bench.device.settling_time())?;
    let before = [bench.stats(flows[0])?, bench.stats(flows[1])?].map(|stats| stats.received_wire_bytes);
    bench.run(bench.pause(r))?;
    let after = [bench.stats(flows[0])?, bench.stats(flows[1])?].map(|stats| stats.received_wire_bytes);
    let [first, second] = [0, 1].map(|n| (after[n] - before[n]) as f64);
    let [share, expected] =
        [first / (first + second).max(1.0), f64::from(weights[0]) / f64::from(weights[0] + weights[1])];
    let names = flows.map(|flow| flow.class.number());
    bench.record(format!("classes {} and {}: {:.2} % of {:.2} %", names[0], names[1], share * 100.0, expected * 100.0));
    let expected_text = format!("{:.2} % of the link within 2 %", expected * 100.0);
    let is_expected = (share - expected).abs() <= 0.02;
    bench.expect(is_expected, r, flows[0].class, &expected_text, &format!("{:.2} %", share * 100.0));
    Ok(())
}

/// Two classes with the weights of their queues.
#[derive(Clone, Copy)]
struct WeightedPair {
    classes: [Class; 2],
    weights: [u32; 2],
}

/// Pairs of the first class with a weight and each other one that both senders reach.
fn weighted_pairs(bench: &Bench<'_>) -> Result<Vec<WeightedPair>, TestFailure> {
    let weights = known(bench.facts.ports[bench.r].weights, "weights of queues")?;
    let second = bench.classes(bench.u()?);
    let classes: Vec<Class> = bench.classes(bench.t).into_iter().filter(|class| weights[class.index()] > 0).collect();
    let [first, rest @ ..] = &classes[..] else { return Err(TestFailure::impossible("no queue has a weight")) };
    let both = rest.iter().filter(|other| second.contains(other));
    let pair = |other: &Class| {
        let classes = [*first, *other];
        WeightedPair { classes, weights: classes.map(|class| weights[class.index()]) }
    };
    let pairs: Vec<_> = both.map(pair).collect();
    if pairs.is_empty() { Err(TestFailure::impossible("fewer than two queues have weights")) } else { Ok(pairs) }
}

fn dwrr(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    for WeightedPair { classes, weights } in weighted_pairs(bench)? {
        let flows = backlog(bench, classes)?;
        measure_shares(bench, flows, weights)?;
        bench.restore()?;
    }
    Ok(())
}

fn weight_change(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let r = bench.r;
    let WeightedPair { classes, weights } = weighted_pairs(bench)?[0];
    let flows = backlog(bench, classes)?;
    measure_shares(bench, flows, weights)?;
    for times in [3, 1] {
        bench.device.set_weight(classes[1], weights[1] * times)?;
        measure_shares(bench, flows, [weights[0], weights[1] * times])?;
    }
    bench.stop(&flows)?;
    bench.drain()?;
    let mut lost = 0;
    for flow in flows {
        let stats = bench.stats(flow)?;
        lost += stats.sent - stats.received;
    }
    let drops = bench.drops()?;
    bench.expect(lost == drops, r, classes[1], &format!("{lost} drops counted"), &drops.to_string());
    Ok(())
}

fn drops_by_port(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, u, r) = (bench.t, bench.u()?, bench.r);
    let class = bench.one_lossy(t)?;
    let buffer = bench.buffer()?;
    let frames = known(buffer.lossy_queue, "the threshold of a lossy queue")? / buffer.charge(LENGTH);
    let flows = fill_lossy(bench, class, frames + frames / 4)?;
    bench.drain()?;
    let counters = bench.counters()?;
    for (port, flow) in [t, u].into_iter().zip(flows) {
        let stats = bench.stats(flow)?;
        let lost = stats.sent - stats.received;
        let drops = needed(counters.ports[port].classes[class.index()].group_drops, "drops by priority group")?;
        bench.record(format!("port {}: {drops} drops of {lost} lost", bench.facts.ports[port].name));
        bench.expect(drops == lost, port, class, &format!("{lost} drops"), &drops.to_string());
    }
    let all = bench.drops()?;
    bench.expect(all > 0, r, class, "drops", "none");
    Ok(())
}

fn group_drops(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, r) = (bench.t, bench.r);
    let (frames, charge, margin) = xoff_frames(bench)?;
    let headroom = known(bench.facts.ports[t].headroom, "the size of the headroom")? / charge;
    let (class, storm) = hold(bench)?;
    let flow = bench.fill(t, r, class, LENGTH, frames + headroom + 50 + margin)?;
    let drops = needed(bench.counters()?.ports[t].classes[class.index()].group_drops, "drops by priority group")?;
    bench.end_storm(r, class.alone(), storm)?;
    bench.drain()?;
    let stats = bench.stats(flow)?;
    let lost = stats.sent - stats.received;
    bench.record(format!("{drops} drops of {lost} lost"));
    bench.expect(lost > 0, t, class, "losses beyond the headroom", "none");
    bench.expect(drops == lost, t, class, &format!("{lost} drops"), &drops.to_string());
    Ok(())
}

fn ecn(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    const LENGTH: u32 = 256;
    let (t, r, class) = (bench.t, bench.r, bench.lossless()?);
    let ecn = bench.facts.ecn[class.index()];
    let ecn = ecn.ok_or_else(|| TestFailure::impossible(format!("class {} has no ECN thresholds", class.number())))?;
    let buffer = bench.buffer()?;
    let charge = buffer.charge(LENGTH);
    let frames = ecn.kmax / charge + 200;
    let xoff = known(buffer.xoff, "the threshold of PFC")?;
    if frames * charge >= xoff {
        return Err(TestFailure::impossible(format!(
            "Kmax, {} B, is not below the threshold of PFC, {xoff} B",
            ecn.kmax
        )));
    }
    let storm = bench.storm(r, class.alone())?;
    let marking = bench.marking(t, class)?;
    let (lengths, rate, amount) = (Lengths::Fixed(LENGTH), bench.tester.rate(t), Amount::Frames(frames));
    let id = bench.tester.start(&TestStream { from: t, to: r, marking, class, ect: true, lengths, rate, amount })?;
    bench.run(bench.frame_time(t, LENGTH) * frames)?;
    bench.settle()?;
    bench.end_storm(r, ClassSet::from_iter([class]), storm)?;
    bench.drain()?;
    // Each frame leaves, or came, at another length of the queue, up to all of them.
    let chance = |held: u64| match held * charge {
        length if length <= ecn.kmin => 0.0,
        length if length > ecn.kmax => 1.0,
        length => ecn.pmax * (length - ecn.kmin) as f64 / (ecn.kmax - ecn.kmin).max(1) as f64,
    };
    let chances: Vec<f64> = (1..=frames).map(chance).collect();
    let (expected, variance) =
        chances.iter().fold((0.0, 0.0), |(mean, variance), chance| (mean + chance, variance + chance * (1.0 - chance)));
    let tolerance = 4.0 * f64::sqrt(variance) + 2.0;
    let stats = bench.tester.stats(id)?;
    bench.record(format!("{} marks of {expected:.0} expected, in {frames} frames", stats.ce));
    let is_near = (stats.ce as f64 - expected).abs() <= tolerance;
    bench.expect(is_near, r, class, &format!("{expected:.0} marks within {tolerance:.0}"), &stats.ce.to_string());
    let measured = format!("{} of {frames}", stats.received);
    bench.expect(stats.received == frames, r, class, "all frames received", &measured);
    Ok(())
}
