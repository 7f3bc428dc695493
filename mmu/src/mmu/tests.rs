use std::collections::VecDeque;

use proptest::prelude::*;
use weir_units::{Alpha, ClassSet};

use super::*;
use crate::layout::PortLayout;
use crate::policy::{DynamicThreshold, StaticThreshold};

const FRAME: u32 = 1_000;
const LOSSLESS: Class = Class::new(3);
const LOSSY: Class = Class::new(0);

fn queue(port: u16, class: Class) -> QueueId {
    QueueId::new(PortId(port), class)
}

fn arrival(from: u16, to: u16, class: Class) -> BufferRequest {
    BufferRequest { ingress: queue(from, class), egress: queue(to, class), bytes: FRAME }
}

/// `ports` ports, class 3 lossless, with this ρ and Φ on class 3.
fn layout(size: u64, ports: usize, private: u64, headroom: u64) -> BufferLayout {
    let mut port = PortLayout { lossless: LOSSLESS.alone(), ..PortLayout::default() };
    port.private[LOSSLESS.index()] = Bytes::new(private);
    port.headroom[LOSSLESS.index()] = Bytes::new(headroom);
    BufferLayout::new(Bytes::new(size), vec![port; ports], Headroom::PerQueue).unwrap()
}

fn static_mmu(size: u64, ports: usize, private: u64, headroom: u64, threshold: u64) -> Mmu {
    let policy = Box::new(StaticThreshold::new(Bytes::new(threshold)));
    Mmu::new(layout(size, ports, private, headroom), policy, Xon::below(Bytes::new(2_000)), Alpha::ONE)
}

fn dt_mmu(size: u64, ports: usize, headroom: u64, alpha: &str) -> Mmu {
    let layout = layout(size, ports, 0, headroom);
    let policy = Box::new(DynamicThreshold::new(alpha.parse().unwrap()));
    Mmu::new(layout, policy, Xon::below(Bytes::new(2_000)), Alpha::ONE)
}

/// Admits with a new writer of the arrival's port each time, since these tests run on one thread.
fn admit(mmu: &Mmu, arrivals: &[BufferRequest], verdicts: &mut [Admission]) -> ClassSet {
    mmu.admit(&mut PortWriter::new(arrivals[0].ingress.port()), Time::ZERO, arrivals, verdicts)
}

fn admit_one(mmu: &Mmu, arrival: BufferRequest) -> Admission {
    let mut verdicts = [Admission::Drop(DropReason::SharedFull)];
    admit(mmu, &[arrival], &mut verdicts);
    verdicts[0]
}

fn release(mmu: &Mmu, departures: &[BufferRelease]) {
    mmu.release(Time::ZERO, departures);
}

fn ingress_use(mmu: &Mmu, id: QueueId) -> QueueUsage {
    mmu.ingress_usage(id, Time::ZERO)
}

#[test]
fn private_then_shared_then_headroom_then_violation() {
    let mmu = static_mmu(100_000, 2, 2_000, 2_000, 3_000);
    let verdicts: Vec<_> = (0..8).map(|_| admit_one(&mmu, arrival(0, 1, LOSSLESS))).collect();
    use Segment::*;
    let kept = [Private, Private, Shared, Shared, Shared, Headroom, Headroom];
    assert_eq!(verdicts[..7], kept.map(Admission::Admit));
    assert_eq!(verdicts[7], Admission::Drop(DropReason::HeadroomViolation));
    let levels = ingress_use(&mmu, queue(0, LOSSLESS));
    assert_eq!([levels.private, levels.shared, levels.headroom].map(Bytes::get), [2_000, 3_000, 2_000]);
    assert_eq!(mmu.egress_length(queue(1, LOSSLESS)), 7_000);
    assert_eq!(levels.held_max, Bytes::new(7_000));
}

#[test]
fn a_threshold_below_what_is_held_moves_nothing_and_pauses_with_the_next_packet() {
    let mmu = static_mmu(100_000, 2, 0, 3_000, 20_000);
    let settings = |bytes: u64| crate::policy::parse_config("static", &format!("threshold = \"{bytes}B\"")).unwrap();
    (0..10).for_each(|_| assert_eq!(admit_one(&mmu, arrival(0, 1, LOSSLESS)), Admission::Admit(Segment::Shared)));
    mmu.update_config(&*settings(4_000), Xon::below(Bytes::new(1_000)), Alpha::ONE);
    let levels = || ingress_use(&mmu, queue(0, LOSSLESS));
    assert_eq!((levels().shared.get(), levels().threshold.get(), levels().off), (10_000, 4_000, false));
    assert_eq!(admit_one(&mmu, arrival(0, 1, LOSSLESS)), Admission::Admit(Segment::Headroom));
    assert!(levels().off);
    // RESUME below T − δ with the new values: at 2,000 B.
    release(&mmu, &[arrival(0, 1, LOSSLESS); 8]);
    mmu.reconsider(PortId(0), LOSSLESS.alone(), Time::ZERO);
    assert!(levels().off, "{:?}", levels());
    release(&mmu, &[arrival(0, 1, LOSSLESS)]);
    mmu.reconsider(PortId(0), LOSSLESS.alone(), Time::ZERO);
    assert!(!levels().off, "{:?}", levels());
    // A higher T lets an OFF queue without headroom resume.
    while !levels().off {
        assert_eq!(admit_one(&mmu, arrival(0, 1, LOSSLESS)), Admission::Admit(Segment::Shared));
    }
    mmu.update_config(&*settings(20_000), Xon::below(Bytes::new(1_000)), Alpha::ONE);
    mmu.reconsider(PortId(0), LOSSLESS.alone(), Time::ZERO);
    assert!(!levels().off, "{:?}", levels());
}

/// A configuration of another kind is ignored, and a policy changes only its runtime keys.
#[test]
fn every_policy_takes_over_its_own_live_keys() {
    use crate::policy::{BUFFER_POLICIES, BuildContext, parse_config};
    use weir_reader::AnyKey;
    for kind in BUFFER_POLICIES.all() {
        let values = |alpha: &str, k: u32, threshold: u64| {
            let live = kind.keys().iter().filter(|key| key.is_live());
            let value = |key: &&'static dyn AnyKey| match key.name() {
                "alpha" => format!("alpha = \"{alpha}\"\n"),
                "k_spfc" => format!("k_spfc = {k}\n"),
                "threshold" => format!("threshold = \"{threshold}B\"\n"),
                "measured_delay" => format!("measured_delay = \"{k}us\"\n"),
                other => panic!("{}: a value of {other} for this test", kind.id()),
            };
            parse_config(kind.id(), &live.map(value).collect::<String>()).unwrap()
        };
        let (first, second) = (values("1", 5, 10_000), values("1/4", 8, 5_000));
        let lossless =
            PortLayout { lossless: LOSSLESS.alone(), headroom: [Bytes::new(2_000); 8], ..PortLayout::default() };
        let layout = first.layout_requirements().partition(Bytes::new(100_000), vec![lossless; 2]).unwrap();
        let rates = [weir_units::BitRate::gbps(10); 2];
        let build = |settings: &dyn crate::policy::BufferPolicyConfig| {
            let (fill_rates, xon_offset) = (&rates[..], Bytes::new(2_000));
            let frame_max = Bytes::new(1_500);
            settings
                .build(&BuildContext {
                    layout: &layout,
                    rates: &rates,
                    alphas: &[None; 2],
                    hosts: &[true; 2],
                    fill_rates,
                    frame_max,
                    xon_offset,
                    reaction: weir_units::Span::ZERO,
                })
                .unwrap()
        };
        let (policy, as_second) = (build(&*first), build(&*second));
        let other = if kind.id() == "dt" { "static" } else { "dt" };
        policy.update_config(&*parse_config(other, "").unwrap(), &layout);
        assert_eq!(policy.describe(), build(&*first).describe(), "{}", kind.id());
        policy.update_config(&*second, &layout);
        assert_eq!(policy.describe(), as_second.describe(), "{}", kind.id());
        assert_ne!(policy.describe(), build(&*first).describe(), "{} has runtime keys", kind.id());
        let load = crate::policy::OverloadCase {
            shared: layout.shared(),
            egress_lossy: layout.egress_lossy(),
            lossy_alpha: Alpha::ONE,
            lossless: 3,
            lossy: 1,
        };
        assert_eq!(policy.steady_state(&load), as_second.steady_state(&load), "{}", kind.id());
    }
}

/// Bursts of every length, so that some end exactly at a threshold, or at the end of private buffer or headroom.
#[test]
fn a_burst_is_judged_as_its_packets_are() {
    for (frames, private) in (1..12).flat_map(|frames| [0, 1_000, 1_500, 2_000].map(|private| (frames, private))) {
        // Lossy classes have α = 1: T = free, so 5 frames fit 10,000 B of shared segment, and 4 fit 9,999 B.
        for (class, shared) in [(LOSSLESS, 10_000), (LOSSY, 10_000), (LOSSY, 9_999)] {
            let mmu = || static_mmu(shared + 2 * (private + 2_000), 2, private, 2_000, 3_000);
            let (one_by_one, burst) = (mmu(), mmu());
            let arrivals = vec![arrival(0, 1, class); frames];
            let mut verdicts = vec![Admission::Drop(DropReason::SharedFull); frames];
            let went_off = admit(&burst, &arrivals, &mut verdicts);
            let expected: Vec<Admission> = arrivals.iter().map(|arrival| admit_one(&one_by_one, *arrival)).collect();
            assert_eq!(verdicts, expected, "{frames} frames of {class:?}, ρ = {private}");
            let [is, should] = [&burst, &one_by_one].map(|mmu| (ingress_use(mmu, queue(0, class)), mmu.pool_usage()));
            assert_eq!(is, should, "{frames} frames of {class:?}, ρ = {private}");
            assert_eq!(burst.egress_length(queue(1, class)), one_by_one.egress_length(queue(1, class)));
            assert_eq!(!went_off.is_empty(), is.0.off, "{frames} frames of {class:?}, ρ = {private}");
        }
    }
}

#[test]
fn pauses_at_xoff_and_resumes_below_xon() {
    let mmu = static_mmu(100_000, 2, 0, 5_000, 5_000);
    let mut off = ClassSet::EMPTY;
    for held in 1..=5 {
        let _ = admit_one(&mmu, arrival(0, 1, LOSSLESS));
        off = mmu.off_classes(PortId(0), off);
        assert_eq!(!off.is_empty(), held == 5, "w_s = {held},000 against T = 5,000");
    }
    for left in (0..5).rev() {
        release(&mmu, &[arrival(0, 1, LOSSLESS)]);
        off = mmu.off_classes(PortId(0), off);
        assert_eq!(!off.is_empty(), left >= 3, "w_s = {left},000 against T − δ = 3,000");
    }
    assert_eq!(ingress_use(&mmu, queue(0, LOSSLESS)).pauses, 1);
}

#[test]
fn headroom_must_be_empty_before_a_resume() {
    // δ = 0, so only the headroom can hold the RESUME back.
    let policy = Box::new(StaticThreshold::new(Bytes::new(5_000)));
    let mmu = Mmu::new(layout(100_000, 2, 0, 5_000), policy, Xon::default(), Alpha::ONE);
    for _ in 0..7 {
        let _ = admit_one(&mmu, arrival(0, 1, LOSSLESS));
    }
    release(&mmu, &[arrival(0, 1, LOSSLESS)]);
    assert!(ingress_use(&mmu, queue(0, LOSSLESS)).off, "1,000 B of headroom in use");
    release(&mmu, &[arrival(0, 1, LOSSLESS)]);
    assert!(ingress_use(&mmu, queue(0, LOSSLESS)).off, "w_s = T");
    release(&mmu, &[arrival(0, 1, LOSSLESS)]);
    assert!(!ingress_use(&mmu, queue(0, LOSSLESS)).off);
}

#[test]
fn a_queue_paused_by_others_runs_again_when_they_leave() {
    // Ports 1 to 3 fill the pool; port 0 then pauses with little in it and drains, and only the sweep reconsiders it.
    let mmu = dt_mmu(100_000, 4, 10_000, "8");
    let mut filled = Vec::new();
    'fill: loop {
        for port in 1..4 {
            if admit_one(&mmu, arrival(port, 0, LOSSLESS)) != Admission::Admit(Segment::Shared) {
                break 'fill;
            }
            filled.push(arrival(port, 0, LOSSLESS));
        }
    }
    let mut held = Vec::new();
    while !ingress_use(&mmu, queue(0, LOSSLESS)).off {
        assert!(matches!(admit_one(&mmu, arrival(0, 1, LOSSLESS)), Admission::Admit(_)));
        held.push(arrival(0, 1, LOSSLESS));
    }
    let mut off = mmu.off_classes(PortId(0), ClassSet::EMPTY);
    assert_eq!(off, LOSSLESS.alone());
    // All packets leave, except the shared bytes of port 0.
    release(&mmu, &held.split_off(2));
    release(&mmu, &filled);
    off = mmu.off_classes(PortId(0), off);
    assert_eq!(off, LOSSLESS.alone(), "T rose after the last departure of port 0, which had no event since");
    mmu.reconsider(PortId(0), off, Time::ZERO);
    assert_eq!(mmu.off_classes(PortId(0), off), ClassSet::EMPTY);
}

#[test]
fn every_queue_is_on_when_a_full_pool_has_drained() {
    let mmu = dt_mmu(50_000, 4, 5_000, "1");
    let mut held = Vec::new();
    for round in 0..100 {
        let arrival = arrival(round % 4, (round + 1) % 4, LOSSLESS);
        if let Admission::Admit(_) = admit_one(&mmu, arrival) {
            held.push(arrival);
        }
    }
    let mut off = [ClassSet::EMPTY; 4];
    for (port, off) in (0..).map(PortId).zip(&mut off) {
        *off = mmu.off_classes(port, ClassSet::EMPTY);
        assert_eq!(*off, LOSSLESS.alone());
    }
    release(&mmu, &held);
    for (port, off) in (0..).map(PortId).zip(off) {
        mmu.reconsider(port, off, Time::ZERO);
        assert_eq!(mmu.off_classes(port, off), ClassSet::EMPTY);
    }
    assert_eq!(mmu.pool_usage().used, Bytes::ZERO);
}

#[test]
fn watermarks_are_restarted_and_the_highest_levels_stay() {
    let mmu = static_mmu(40_000, 2, 0, 3_000, 5_000);
    let id = queue(0, LOSSLESS);
    let packets = [arrival(0, 1, LOSSLESS); 7];
    let mut verdicts = [Admission::Admit(Segment::Private); 7];
    admit(&mmu, &packets, &mut verdicts);
    let before = mmu.queue_watermarks(id);
    assert!(before.shared > Bytes::ZERO && before.headroom > Bytes::ZERO, "{before:?}");
    let (held, pool) = (ingress_use(&mmu, id), mmu.pool_usage());
    let pools = mmu.pool_watermarks();
    release(&mmu, &packets[..6]);
    let (queues, until) = mmu.restart_watermarks();
    assert_eq!((queues[id.index()].shared, queues[id.index()].headroom), (before.shared, before.headroom));
    assert_eq!((queues[queue(1, LOSSLESS).index()].egress, until), (held.held_max, pools));
    // The watermarks restart from the remaining level.
    let left = Bytes::new(packets[6].bytes.into());
    assert_eq!(mmu.queue_watermarks(id).shared, left);
    assert_eq!(mmu.queue_watermarks(id).headroom, Bytes::ZERO);
    assert_eq!(mmu.queue_watermarks(queue(1, LOSSLESS)).egress, left);
    assert_eq!(mmu.pool_watermarks().shared, left);
    admit(&mmu, &packets[..1], &mut verdicts[..1]);
    assert_eq!(mmu.queue_watermarks(id).shared, left * 2);
    mmu.restart_watermarks();
    // Peaks since the start ignore restarts.
    let now = ingress_use(&mmu, id);
    assert_eq!((now.held_max, now.shared_max, now.headroom_max), (held.held_max, held.shared_max, held.headroom_max));
    assert_eq!(mmu.pool_usage().used_max, pool.used_max);
    assert_eq!(mmu.egress_length_max(queue(1, LOSSLESS)), held.held_max);
}

#[test]
fn lossy_classes_drop_at_the_egress_threshold_and_never_pause() {
    let mmu = dt_mmu(20_000, 2, 0, "1");
    let verdicts: Vec<_> = (0..12).map(|_| admit_one(&mmu, arrival(0, 1, LOSSY))).collect();
    // α = 1: q + L <= B − q, so half of the buffer.
    assert_eq!(verdicts.iter().filter(|v| matches!(v, Admission::Admit(_))).count(), 10);
    assert_eq!(verdicts[10], Admission::Drop(DropReason::EgressThreshold));
    assert_eq!(mmu.off_classes(PortId(0), ClassSet::EMPTY), ClassSet::EMPTY);
}

#[test]
fn unscheduled_packets_have_an_alpha_of_their_own() {
    let either = |mmu: &Mmu, is_unscheduled| {
        let arrival = arrival(0, 1, LOSSY);
        mmu.admit_either(&mut PortWriter::new(PortId(0)), Time::ZERO, &arrival, is_unscheduled).0
    };
    let kept = |mmu: &Mmu, is_unscheduled| {
        (0..30).filter(|_| matches!(either(mmu, is_unscheduled), Admission::Admit(_))).count()
    };
    let mmu = dt_mmu(20_000, 2, 0, "1").with_unscheduled_alpha(Some("1024".parse().unwrap()));
    assert_eq!((kept(&mmu, false), either(&mmu, false)), (10, Admission::Drop(DropReason::EgressThreshold)));
    // Up to the last frame for which α times the free buffer exceeds the queue.
    assert_eq!((kept(&mmu, true), mmu.egress_length(queue(1, LOSSY))), (10, 20_000));
    let one_for_all = dt_mmu(20_000, 2, 0, "1");
    assert_eq!((kept(&one_for_all, true), kept(&one_for_all, true)), (10, 0));
    // Packets that may be unscheduled do not bypass the buffer.
    let passes = |mmu: Mmu| mmu.for_one_lcore().bypass_buffer(Time::ZERO, &arrival(0, 1, LOSSY));
    assert!(passes(one_with(None)) && !passes(one_with(Some(Alpha::ONE))));
}

fn one_with(unscheduled: Option<Alpha>) -> Mmu {
    dt_mmu(20_000, 2, 0, "1").with_unscheduled_alpha(unscheduled)
}

/// Reported usage of the pool and of all queues.
fn all_use(mmu: &Mmu, ports: u16) -> (PoolUsage, Vec<(QueueUsage, u64, Bytes)>) {
    let queues = (0..ports).flat_map(|port| [LOSSLESS, LOSSY].map(|class| queue(port, class)));
    let of_queue = |id| (ingress_use(mmu, id), mmu.egress_length(id), mmu.egress_length_max(id));
    (mmu.pool_usage(), queues.map(of_queue).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Compares an MMU that packets bypass where possible with an MMU that admits and releases them. Other packets stay for a while.
    #[test]
    fn what_passes_leaves_what_admission_and_release_do(
        steps in prop::collection::vec((0..2u16, 0..2u16, any::<bool>(), 64..9_000u32, 0..4u8), 1..120),
        is_static in any::<bool>(),
        private in prop::sample::select(vec![0, 3_000]),
    ) {
        let make = || {
            let mmu = if is_static {
                static_mmu(40_000, 2, private, 4_000, 9_000)
            } else {
                dt_mmu(30_000, 2, 4_000, "1/2")
            };
            mmu.for_one_lcore()
        };
        let (mmu, model) = (make(), make());
        let mut waiting = VecDeque::new();
        for (from, to, lossless, bytes, kind) in steps {
            let class = if lossless { LOSSLESS } else { LOSSY };
            let packet = BufferRequest { bytes, ..arrival(from, to, class) };
            match kind {
                0 => if let Some(first) = waiting.pop_front() {
                    release(&mmu, &[first]);
                    release(&model, &[first]);
                },
                1 => {
                    let verdict = admit_one(&model, packet);
                    prop_assert_eq!(admit_one(&mmu, packet), verdict);
                    if matches!(verdict, Admission::Admit(_)) {
                        waiting.push_back(packet);
                    }
                }
                _ => {
                    let (before, verdict) = (all_use(&model, 2), admit_one(&model, packet));
                    if matches!(verdict, Admission::Admit(_)) {
                        release(&model, &[packet]);
                    }
                    if !mmu.bypass_buffer(Time::ZERO, &packet) {
                        prop_assert_eq!(all_use(&mmu, 2), before, "a packet that can't bypass the buffer changes nothing");
                        prop_assert_eq!(admit_one(&mmu, packet), verdict);
                        if matches!(verdict, Admission::Admit(_)) {
                            release(&mmu, &[packet]);
                        }
                    }
                }
            }
            prop_assert_eq!(all_use(&mmu, 2), all_use(&model, 2));
        }
    }
}

#[test]
fn packets_pass_an_empty_buffer_that_one_lcore_has() {
    let one_lcore = dt_mmu(100_000, 2, 4_000, "1").for_one_lcore();
    assert!(
        one_lcore.bypass_buffer(Time::ZERO, &arrival(0, 1, LOSSLESS))
            && one_lcore.bypass_buffer(Time::ZERO, &arrival(0, 1, LOSSY))
    );
    assert_eq!(one_lcore.pool_usage().used_max, Bytes::new(u64::from(FRAME)));
    let shared = dt_mmu(100_000, 2, 4_000, "1");
    assert!(!shared.bypass_buffer(Time::ZERO, &arrival(0, 1, LOSSLESS)), "other lcores would not see it");
}
