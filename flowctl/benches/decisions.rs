//! Costs of one decision: by pause timers, a limiter, a generator, a credit count.
//!
//! `cargo bench -p weir-flowctl`. Each decides in a loop with a clock that advances by a full frame at 100 Gb/s. The figures include
//! the loop; the first line has the loop alone.

use std::hint::black_box;
use std::time::{Duration, Instant};

use weir_flowctl::cbfc::{Advertiser, CreditCounters};
use weir_flowctl::gfc::{StageTable, stage};
use weir_flowctl::pfc::{PauseTimers, PfcGenerator};
use weir_flowctl::{Quantum, RateLimiter, wire_bytes};
use weir_units::{BitRate, Bytes, CLASSES, Class, ClassSet, LINK_OVERHEAD, Span, Time};
use weir_wire::mac_control::PfcFrame;

const RATE: BitRate = BitRate::gbps(100);
const CLASS: Class = Class::new(3);
const FRAME_BYTES: u32 = 1_518;
const DECISIONS: u32 = 5_000_000;
const ROUNDS: usize = 9;

fn main() {
    println!("ns a decision, median of {ROUNDS} rounds of {DECISIONS}");
    report("the loop alone", |now| black_box(now.as_picos()));

    let gate = PauseTimers::new(Quantum::for_rate(RATE));
    report("PFC pause timers, nothing paused", |now| u64::from(gate.paused(now).bits()));
    let gate = PauseTimers::new(Quantum::for_rate(RATE));
    let pause = PfcFrame { enabled: CLASS.alone(), times: [u16::MAX; CLASSES] };
    report("PFC pause timers, a class paused", |now| {
        if now.as_picos() & 0xff_ffff < 200_000 {
            gate.handle_pfc(now, &pause);
        }
        u64::from(gate.paused(now).bits())
    });

    let mut limiter = RateLimiter::new(RATE, Span::ZERO);
    limiter.set_rate(Time::ZERO, BitRate::gbps(50));
    report("rate limiter, checked and, if free, sent", |now| {
        let free = limiter.is_free(now);
        if free {
            limiter.send(now, wire_bytes(FRAME_BYTES, LINK_OVERHEAD));
        }
        u64::from(free)
    });
    let (mut limiter, rates) = (RateLimiter::new(RATE, Span::ZERO), [25, 50, 12].map(BitRate::gbps));
    let mut turn = 0;
    report("rate limiter, the rate changing every time", |now| {
        turn = (turn + 1) % rates.len();
        limiter.set_rate(now, rates[turn]);
        u64::from(limiter.is_free(now))
    });

    let generator = PfcGenerator::pfc(Quantum::for_rate(RATE), u16::MAX, 50);
    report("PFC generator, nothing due", |now| u64::from(generator.poll(now, ClassSet::EMPTY).is_some()));
    let table = StageTable::new(Bytes::mb(1), Bytes::kb(500), RATE, Span::from_micros(10)).expect("safe thresholds");
    report("GFC stage of a queue", |now| u64::from(table.stage_of(Bytes::new(now.as_picos() & 0xf_ffff))));
    let refresh = Advertiser::period_by_default(RATE);
    let generator = stage::StageGenerator::new(table, CLASS.alone(), refresh);
    let queues = [Bytes::kb(100); CLASSES];
    report("GFC generator, a queue below B_1", |now| u64::from(generator.poll(now, &queues).is_some()));

    let sender = CreditCounters::new(Bytes::mb(1));
    report("CBFC, may a frame be sent", |_| u64::from(sender.may_send(CLASS, black_box(FRAME_BYTES))));
}

/// Times a decision; sums its results, so that none is optimised away.
fn report(name: &str, mut decide: impl FnMut(Time) -> u64) {
    let frame = RATE.time_for(Bytes::new(1_538));
    let mut now = Time::ZERO;
    let mut rounds: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = instant();
            let mut answers = 0u64;
            for _ in 0..DECISIONS {
                now += frame;
                answers = answers.wrapping_add(decide(black_box(now)));
            }
            black_box(answers);
            start.elapsed()
        })
        .collect();
    rounds.sort();
    println!("{name:45} {:6.2}", rounds[ROUNDS / 2].as_secs_f64() * 1e9 / f64::from(DECISIONS));
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn instant() -> Instant {
    Instant::now()
}
