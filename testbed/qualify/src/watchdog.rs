//! Tests of the PFC watchdog: L10, L12 and L13.

use weir_units::{BitRate, Bytes, Class, Span, Time};

use crate::TestFailure;
use crate::bench::{Bench, LENGTH, QUANTA_MAX, known, needed, wire_bytes};
use crate::tester::Lengths;

/// Frames that fill a lossless group until PFC is sent, and a few more.
fn frames_to_xoff(bench: &Bench<'_>) -> Result<u64, TestFailure> {
    let buffer = bench.buffer()?;
    let xoff = known(buffer.xoff, "the threshold of PFC")?;
    Ok(xoff / buffer.charge(LENGTH) + 2 * buffer.margin_frames + 4)
}

pub(crate) fn circular_pause(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, r, class, watchdog) = (bench.t, bench.r, bench.lossless()?, bench.watchdog()?);
    let frames = frames_to_xoff(bench)?;
    bench.device.set_watchdog(true, true)?;
    let bound = Span::from_nanos(watchdog.detection_ns + 2 * watchdog.poll_ns);
    bench.run(Span::from_nanos(watchdog.poll_ns) + bench.device.settling_time())?;
    // R's peer pauses the class for as long as T's peer is paused, as two switches of a ring do.
    let mut mirrored = Some(bench.storm(r, class.alone())?);
    let fill = bench.fill(t, r, class, LENGTH, frames)?;
    let paused = bench.wait_for_pause(t, class)?;
    bench.expect(paused, t, class, "PFC that closes the circle", "none");
    let slow = BitRate::bps(bench.tester.rate(r).as_bps() / 1_000);
    let flow = bench.flow(t, r, class, slow, Lengths::Fixed(LENGTH))?;
    let begun = bench.tester.now();
    let (step, mut detected_after) = (bench.pause(r).divided_by(2), None);
    // Counters are read a few times in a poll.
    let (mut read_at, read_every) = (begun, Span::from_nanos(watchdog.poll_ns / 32));
    while bench.tester.now().since(begun) < bound + Span::from_nanos(watchdog.restoration_ns + 2 * watchdog.poll_ns) {
        let is_paused = bench.received_control(t)?.paused.contains(class);
        match (is_paused, mirrored) {
            (true, None) => mirrored = Some(bench.control(r, bench.pfc(r, class.alone(), QUANTA_MAX), Some(step))?),
            (false, Some(storm)) => {
                bench.end_storm(r, class.alone(), storm)?;
                mirrored = None;
            }
            _ => {}
        }
        bench.run(step)?;
        let is_due = bench.tester.now().since(read_at) >= read_every;
        if detected_after.is_none() && is_due {
            read_at = bench.tester.now();
            let storms = bench.counters()?.ports[r].classes[class.index()].storms_detected;
            if needed(storms, "PFC storms")? > 0 {
                detected_after = Some(bench.tester.now().since(begun));
            }
        }
    }
    let text = detected_after.map_or("never".to_owned(), |span| format!("{:.1} ms", span.as_secs_f64() * 1e3));
    bench.record(format!("detected after {text}"));
    let expected = format!("detection within {:.1} ms", bound.as_secs_f64() * 1e3);
    bench.expect(detected_after.is_some_and(|span| span <= bound + read_every + step * 2), r, class, &expected, &text);
    bench.tester.clear_stats()?;
    bench.run(window(slow))?;
    let percent = bench.expect_rate(flow)?;
    bench.record(format!("rate afterwards {percent:+.2} %"));
    bench.stop(&[flow, fill])
}

pub(crate) fn short_pauses(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    let (t, r, class, watchdog) = (bench.t, bench.r, bench.lossless()?, bench.watchdog()?);
    bench.device.set_watchdog(true, true)?;
    let detection = Span::from_nanos(watchdog.detection_ns);
    bench.run(Span::from_nanos(watchdog.poll_ns) + bench.device.settling_time())?;
    // The frames of half the detection time fit the buffer.
    let rate = BitRate::bps(bench.tester.rate(r).as_bps() / 2_000);
    let flow = bench.flow(t, r, class, rate, Lengths::Fixed(LENGTH))?;
    for _ in 0..3 {
        let storm = bench.storm(r, class.alone())?;
        bench.tester.clear_stats()?;
        bench.run(detection.divided_by(2))?;
        bench.expect_nothing(flow)?;
        bench.end_storm(r, class.alone(), storm)?;
        bench.run(detection.divided_by(2))?;
        let received = bench.stats(flow)?.received;
        bench.expect(received > 0, r, class, "frames between pauses", "none");
    }
    bench.stop(&[flow])?;
    bench.drain()?;
    let drops = bench.drops()?;
    bench.expect(drops == 0, r, class, "0 drops", &drops.to_string());
    bench.expect_rx_pfc(r, class.alone())?;
    let storms = needed(bench.counters()?.ports[r].classes[class.index()].storms_detected, "PFC storms")?;
    bench.record(format!("{storms} storms detected in 3 pauses"));
    bench.expect(storms == 0, r, class, "no storm detected", &storms.to_string());
    Ok(())
}

pub(crate) fn lasting_storm(bench: &mut Bench<'_>) -> Result<(), TestFailure> {
    bench.watchdog()?;
    for drops in [true, false] {
        lasting_storm_with(bench, drops)?;
        bench.restore()?;
    }
    Ok(())
}

fn lasting_storm_with(bench: &mut Bench<'_>, drops: bool) -> Result<(), TestFailure> {
    let (t, r, class, watchdog) = (bench.t, bench.r, bench.lossless()?, bench.watchdog()?);
    let action = if drops { "drop" } else { "forward" };
    bench.device.set_watchdog(true, drops)?;
    let [detection, restoration, poll] =
        [watchdog.detection_ns, watchdog.restoration_ns, watchdog.poll_ns].map(Span::from_nanos);
    bench.run(poll + bench.device.settling_time())?;
    let rate = BitRate::bps(bench.tester.rate(r).as_bps() / 4_000);
    let flow = bench.flow(t, r, class, rate, Lengths::Fixed(LENGTH))?;
    let begun = bench.tester.now();
    let storm = bench.storm(r, class.alone())?;
    let detected = wait_for_storms(bench, r, class, detection + poll * 3, true)?.map(|at| at.since(begun));
    let text =
        |span: Option<Span>| span.map_or("never".to_owned(), |span| format!("{:.1} ms", span.as_secs_f64() * 1e3));
    bench.record(format!("{action}: detected after {}", text(detected)));
    let is_timely = detected.is_some_and(|span| span >= detection && span <= detection + poll * 2);
    let expected =
        format!("{action}: detection after {} to {}", text(Some(detection)), text(Some(detection + poll * 2)));
    bench.expect(is_timely, r, class, &expected, &text(detected));
    // In the storm frames are dropped and counted, or sent despite the pauses.
    bench.clear()?;
    bench.run(window(rate))?;
    let (stats, dropped) = (bench.stats(flow)?, bench.drops()?);
    let measured = format!("{} of {} received, {dropped} dropped", stats.received, stats.sent);
    bench.record(format!("{action}: in the storm {measured}"));
    if drops {
        let is_dropped = stats.received == 0 && dropped + 4 >= stats.sent;
        bench.expect(is_dropped, r, class, "in the storm all frames dropped and counted", &measured);
    } else {
        let is_forwarded = dropped == 0 && stats.received + 4 >= stats.sent;
        bench.expect(is_forwarded, r, class, "in the storm all frames forwarded", &measured);
    }
    // Frames that resume would keep the queue in its storm.
    bench.tester.stop(storm)?;
    let ended = bench.tester.now();
    let restored = wait_for_storms(bench, r, class, restoration + poll * 3, false)?.map(|at| at.since(ended));
    bench.record(format!("{action}: restored after {}", text(restored)));
    let least = restoration.saturating_sub(bench.pause(r));
    let is_timely = restored.is_some_and(|span| span >= least && span <= restoration + poll * 2);
    let expected =
        format!("{action}: restoration after {} to {}", text(Some(least)), text(Some(restoration + poll * 2)));
    bench.expect(is_timely, r, class, &expected, &text(restored));
    bench.tester.clear_stats()?;
    bench.run(window(rate))?;
    bench.expect_rate(flow)?;
    bench.stop(&[flow])
}

/// Time of 100 frames of a flow.
fn window(rate: BitRate) -> Span {
    rate.time_for(Bytes::new(100 * wire_bytes(LENGTH)))
}

/// Waits until a storm of the class was detected, or restored; returns when.
fn wait_for_storms(
    bench: &mut Bench<'_>,
    port: usize,
    class: Class,
    limit: Span,
    detected: bool,
) -> Result<Option<Time>, TestFailure> {
    let end = bench.tester.now() + limit;
    while bench.tester.now() < end {
        let counters = bench.counters()?;
        let of_class = &counters.ports[port].classes[class.index()];
        let count = if detected { of_class.storms_detected } else { of_class.storms_restored };
        if needed(count, "PFC storms")? > 0 {
            return Ok(Some(bench.tester.now()));
        }
        bench.run(limit.divided_by(400))?;
    }
    Ok(None)
}
