//! Frames of any length, down to the shortest: packet memory is never what is used up first.

use proptest::prelude::*;
use weir_config::LcoreLayout;
use weir_mmu::policy::BUFFER_POLICIES;
use weir_switch_core::Report;
use weir_switch_core::burst::frames_held_max;
use weir_switch_core::counters::DropReason;
use weir_units::{Class, ClassSet, Span, Time};
use weir_wire::ethernet::Parsed;
use weir_wire::mac_control::ControlFrame;

use crate::common::{Bench, LAYOUTS, STEP, TestFrame, frame, introduce, pfc, toml};

const LOSSLESS: Class = Class::new(3);
const LOSSY: Class = Class::new(1);
const SHORTEST: u32 = 60;
const LONGEST: u32 = 1_514;
/// What a frame takes on the link beyond its length without FCS.
const OVERHEAD: u32 = 24;
/// What 10 Gb/s bring in a step.
const WIRE_BYTES: u32 = 625;
const RECEIVER: u16 = 2;

/// A station that sends frames of one class to the receiver at 10 Gb/s, and obeys PFC.
struct Sender {
    port: u16,
    class: Class,
    /// Lengths of its frames, in turn.
    lengths: Vec<u32>,
    frames: u64,
    sent: u64,
    /// Bytes of the link that it may use now.
    credit: u32,
    /// What it has read of what the switch sent it.
    read: usize,
    paused_until: Time,
    pauses: u64,
}

impl Sender {
    fn new(port: u16, class: Class, lengths: &[u32], frames: u64) -> Sender {
        let (lengths, paused_until) = (lengths.to_vec(), Time::ZERO);
        Sender { port, class, lengths, frames, sent: 0, credit: 0, read: 0, paused_until, pauses: 0 }
    }

    fn step(&mut self, bench: &mut Bench) {
        let told = &bench.world.sent[usize::from(self.port)];
        for frame in &told[self.read..] {
            if let Parsed::Control(Ok(ControlFrame::Pfc(pfc))) = frame.parsed
                && pfc.enabled.contains(self.class)
            {
                let quanta = pfc.times[self.class.index()];
                self.paused_until = bench.now + Span::from_picos(51_200) * u64::from(quanta);
                self.pauses += u64::from(quanta > 0);
            }
        }
        self.read = told.len();
        // Unused time on the link is gone.
        self.credit = self.credit.min(LONGEST + OVERHEAD) + WIRE_BYTES;
        while self.sent < self.frames && bench.now >= self.paused_until {
            let frame_bytes = self.lengths[self.sent as usize % self.lengths.len()];
            let Some(left) = self.credit.checked_sub(frame_bytes + OVERHEAD) else { break };
            self.credit = left;
            let dscp = self.class.index() as u8;
            bench.arrive(self.port, TestFrame { frame_bytes, ..frame(self.port, RECEIVER, dscp, self.sent) });
            self.sent += 1;
        }
    }
}

/// What a run shows.
struct Run {
    report: Report,
    /// The most frames that the switch held.
    held_max: u64,
}

/// Runs a switch of three ports. The receiver lets no frame pass for `paused` steps; then all leave.
fn run(config: &str, layout: LcoreLayout, paused: usize, senders: &mut [Sender]) -> Run {
    let toml = toml(3, config);
    let mut bench = Bench::new(&toml, layout);
    introduce(&mut bench);
    let mut held_max = 0;
    for step in 0.. {
        // A message pauses for 6,710 steps.
        if step < paused && step % 6_000 == 0 {
            bench.arrive(RECEIVER, pfc(ClassSet::ALL, u16::MAX));
        } else if step == paused {
            bench.arrive(RECEIVER, pfc(ClassSet::ALL, 0));
        }
        senders.iter_mut().for_each(|sender| sender.step(&mut bench));
        bench.step(STEP);
        if step % 50 == 0 {
            let held = bench.report().conservation.held();
            held_max = held_max.max(held);
            if step > paused && held == 0 && senders.iter().all(|sender| sender.sent == sender.frames) {
                break;
            }
        }
        assert!(step < 40 * paused, "{layout:?}: frames are stuck");
    }
    let config = weir_config::parse("bench.toml", &toml).unwrap();
    assert!(held_max <= frames_held_max(&config) as u64, "{layout:?}: {held_max} frames held");
    bench.run(10, STEP);
    Run { report: bench.report(), held_max }
}

impl Run {
    /// Frames of a class that came by a port and were dropped.
    fn dropped(&self, port: usize, class: Class) -> u64 {
        let class = &self.report.ports[port].classes[class.index()];
        DropReason::ALL.iter().map(|reason| class.dropped(*reason)).sum()
    }
}

/// Lossless frames of the shortest length that stand in front of a paused port have their senders paused.
#[test]
fn short_lossless_frames_are_paused_for() {
    for layout in LAYOUTS {
        let mut senders = [0, 1].map(|port| Sender::new(port, LOSSLESS, &[SHORTEST], 40_000));
        let run = run("[buffer]\nsize = \"12MB\"\n[buffer.dt]\nalpha = 8\n", layout, 6_000, &mut senders);
        assert!(senders.iter().all(|sender| sender.pauses > 0), "{layout:?}: nobody was paused");
        assert_eq!([0, 1].map(|port| run.dropped(port, LOSSLESS)), [0, 0], "{layout:?}");
        assert!(run.report.conservation.holds);
        assert!(run.held_max > 30_000, "{layout:?}: {} frames are no load", run.held_max);
    }
}

/// Short lossy frames take no memory that a lossless flow beside them needs.
#[test]
fn short_lossy_frames_leave_a_lossless_flow_its_memory() {
    for layout in LAYOUTS {
        let mut senders = [Sender::new(0, LOSSLESS, &[1_000], 6_000), Sender::new(1, LOSSY, &[SHORTEST], 60_000)];
        let config = "[buffer]\nsize = \"12MB\"\nlossy_alpha = \"16\"\n";
        let run = run(config, layout, 9_000, &mut senders);
        assert_eq!(run.dropped(0, LOSSLESS), 0, "{layout:?}");
        assert!(run.dropped(1, LOSSY) > 0, "{layout:?}: the lossy flow is no load");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]
    /// Whatever lengths frames have: no lossless one is lost, and there is packet memory for what is held.
    #[test]
    fn frames_of_all_lengths_have_memory(
        policy in prop::sample::select(BUFFER_POLICIES.names().collect::<Vec<_>>()),
        layout in prop::sample::select(LAYOUTS.to_vec()),
        mean_frame in prop::sample::select(vec!["64", "256", "512", "1500", "\"exact\""]),
        short in prop::collection::vec(SHORTEST..200, 0..4),
        any in prop::collection::vec(SHORTEST..=LONGEST, 0..3),
        lossy in prop::collection::vec(SHORTEST..=LONGEST, 1..3),
    ) {
        // Headroom that a policy lends out, or trusts a measurement for, may lack.
        prop_assume!(!["oversubscribed", "adaptive"].contains(&policy));
        let lengths: Vec<u32> = short.into_iter().chain(any).chain([SHORTEST]).collect();
        let mut senders = [Sender::new(0, LOSSLESS, &lengths, 30_000), Sender::new(1, LOSSY, &lossy, 30_000)];
        let config = format!("[buffer]\nsize = \"12MB\"\nmean_frame = {mean_frame}\npolicy = \"{policy}\"\n");
        let run = run(&config, layout, 6_000, &mut senders);
        prop_assert_eq!(run.dropped(0, LOSSLESS), 0, "{} with {} in {:?}", policy, mean_frame, layout);
        prop_assert!(run.report.conservation.holds);
    }
}
