//! The papers' closed forms against the running MMU: overloaded queues come to rest where the formula says.
//!
//! A saturating generator: every queue drains a frame a round, and is offered more than that for as long as it is ON. The
//! closed forms are of a fluid at rest. Policies that compare lengths get there under any overload; one that compares
//! averages is at rest only when its averages are, so the overload is made smaller and smaller.

use std::collections::VecDeque;

use weir_mmu::policy::{OverloadCase, Reverie, ReverieConfig, SteadyState};
use weir_mmu::{Admission, BufferLayout, BufferRequest, DropReason, Headroom, Mmu, PortLayout, PortWriter, Xon};
use weir_units::{Alpha, BitRate, Bytes, Class, PortId, QueueId, Time};

use crate::policies::{self, Bounds};

const FRAME: u32 = 1_000;
const LOSSLESS: Class = Class::new(3);
const LOSSY: Class = Class::new(0);
const PORTS: u16 = 32;
const RATE: BitRate = BitRate::gbps(100);

struct Saturated {
    mmu: Mmu,
    sources: Vec<Source>,
    now: Time,
}

/// Source that keeps one queue overloaded.
struct Source {
    writer: PortWriter,
    frame: BufferRequest,
    held: VecDeque<()>,
}

impl Saturated {
    /// n● lossless ingress queues and n° lossy egress queues, each of a port of its own.
    fn new(mmu: Mmu, lossless: u16, lossy: u16) -> Saturated {
        let source = |port: u16, class: Class| {
            let queue = |port| QueueId::new(PortId(port), class);
            // Lossy queues are by port of departure: each source has one to itself.
            let frame = BufferRequest { ingress: queue(port), egress: queue(port), bytes: FRAME };
            Source { writer: mmu.writer(PortId(port)).unwrap(), frame, held: VecDeque::new() }
        };
        let sources = (0..lossless).map(|port| source(port, LOSSLESS));
        let sources = sources.chain((lossless..lossless + lossy).map(|port| source(port, LOSSY))).collect();
        Saturated { mmu, sources, now: Time::ZERO }
    }

    /// A frame leaves each queue; each that is ON is offered as many, and one more if `overload`.
    fn round(&mut self, overload: bool) {
        self.now += RATE.time_for(Bytes::new(u64::from(FRAME)));
        for source in &mut self.sources {
            if source.held.pop_front().is_some() {
                self.mmu.release(self.now, &[source.frame]);
            }
            let id = source.frame.ingress;
            self.mmu.reconsider(id.port(), id.class().alone(), self.now);
            for _ in 0..1 + u8::from(overload) {
                if self.mmu.ingress_usage(id, self.now).off {
                    break;
                }
                let mut verdicts = [Admission::Drop(DropReason::SharedFull)];
                self.mmu.admit(&mut source.writer, self.now, &[source.frame], &mut verdicts);
                if matches!(verdicts[0], Admission::Admit(_)) {
                    source.held.push_back(());
                }
            }
        }
    }

    fn load(&self) -> OverloadCase {
        let count = |class| self.sources.iter().filter(|source| source.frame.ingress.class() == class).count() as u64;
        OverloadCase {
            // Includes the bytes that adapted headroom ceded.
            shared: self.mmu.pool_usage().capacity,
            egress_lossy: self.mmu.layout().egress_lossy(),
            lossy_alpha: Alpha::ONE,
            lossless: count(LOSSLESS),
            lossy: count(LOSSY),
        }
    }

    /// Compares each queue with the closed form: within one frame.
    fn check(&self, expected: SteadyState) {
        for source in &self.sources {
            let lossless = source.frame.ingress.class() == LOSSLESS;
            let length = if lossless {
                self.mmu.ingress_usage(source.frame.ingress, self.now).shared.get()
            } else {
                self.mmu.egress_length(source.frame.egress)
            };
            let expected = if lossless { expected.lossless } else { expected.lossy }.get();
            assert!(
                length.abs_diff(expected) <= u64::from(FRAME),
                "{} under {:?}: {length} B where the closed form says {expected} B",
                self.mmu.policy().name(),
                self.load()
            );
        }
    }

    fn settles_at_the_closed_form(mut self) {
        (0..20_000).for_each(|_| self.round(true));
        self.check(self.mmu.policy().steady_state(&self.load()));
    }
}

/// An MMU whose shared segment (the ingress pool, if there are pools) is 18 MB, α = 1.
fn mmu(name: &str) -> Mmu {
    let headroom = Bytes::kb(30);
    let reserved = policies::layout(name, &bounds(Bytes::mb(1_000), headroom)).headroom();
    policies::mmu(name, &bounds(Bytes::mb(18) + reserved, headroom), Xon::default(), Alpha::ONE)
}

fn bounds(size: Bytes, headroom: Bytes) -> Bounds {
    Bounds { size, ports: PORTS, private: Bytes::ZERO, headroom, lossless: LOSSLESS.alone(), rate: RATE }
}

#[test]
fn dynamic_thresholds() {
    for name in ["dt", "sih", "oversubscribed", "adaptive"] {
        for (lossless, lossy) in [(1, 0), (8, 0), (31, 0), (8, 8)] {
            Saturated::new(mmu(name), lossless, lossy).settles_at_the_closed_form();
        }
    }
}

#[test]
fn static_thresholds() {
    for (lossless, lossy) in [(1, 0), (8, 0), (8, 4)] {
        Saturated::new(mmu("static"), lossless, lossy).settles_at_the_closed_form();
    }
}

#[test]
fn spfc_of_normal_ports() {
    // Overloaded ports that depart at line rate would be victims: here nothing but a frame in seven departs.
    let mut saturated = Saturated::new(mmu("spfc"), 8, 0);
    for _ in 0..20_000 {
        saturated.now += RATE.time_for(Bytes::new(u64::from(FRAME) * 6));
        saturated.round(true);
    }
    saturated.check(saturated.mmu.policy().steady_state(&saturated.load()));
}

#[test]
fn sonic_four_pools() {
    for (lossless, lossy) in [(1, 0), (8, 8), (4, 16), (16, 2)] {
        Saturated::new(mmu("sonic"), lossless, lossy).settles_at_the_closed_form();
    }
}

#[test]
fn abm_at_line_rate() {
    for (lossless, lossy) in [(1, 0), (8, 8), (4, 16)] {
        Saturated::new(mmu("abm"), lossless, lossy).settles_at_the_closed_form();
    }
}

#[test]
fn reverie_theorems_1_and_2() {
    let mut port = PortLayout { lossless: LOSSLESS.alone(), ..PortLayout::default() };
    port.headroom[LOSSLESS.index()] = Bytes::kb(300);
    for (lossless, lossy) in [(4, 3), (4, 0), (0, 3)] {
        let ports = vec![port; usize::from(PORTS)];
        let headroom = port.headroom_max() * u64::from(PORTS);
        let layout = BufferLayout::new(Bytes::mb(12) + headroom, ports, Headroom::PerQueue).unwrap();
        let policy = Reverie::new(
            &ReverieConfig::paper("2".parse().unwrap(), 999_000_000, Bytes::new(20_480)),
            usize::from(PORTS),
        );
        let mmu = Mmu::new(layout, Box::new(policy), Xon::default(), Alpha::ONE);
        let mut saturated = Saturated::new(mmu, lossless, lossy);
        for every in [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 4_096] {
            (0..every * 400).take(200_000).for_each(|round| saturated.round(round % every == 0));
        }
        let load = saturated.load();
        let expected = saturated.mmu.policy().steady_state(&load);
        saturated.check(expected);
        // Theorem 1, the ratio; Theorem 2, the idle part.
        let idle = (load.shared - saturated.mmu.pool_usage().used).get();
        let frames = u64::from(FRAME) * u64::from(lossless + lossy);
        assert!((3_000_000 - frames..=6_000_000 + frames).contains(&idle), "{idle} B idle");
        if lossless > 0 && lossy > 0 {
            let ratio = (expected.lossless * load.lossless).get() as f64 / (expected.lossy * load.lossy).get() as f64;
            assert!((ratio - 2.0).abs() < 1e-5, "{ratio}");
        }
    }
}
