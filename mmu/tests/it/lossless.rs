//! A lossless class loses nothing when headroom is sized by rule, whatever arrives; and the ablations do lose.

use weir_mmu::conformance::{self, ConformanceLoad, ConformanceSummary, LOSSLESS, TICKS};
use weir_mmu::{Charge, Xon};
use weir_units::{Alpha, PortId, QueueId, Time};

use crate::policies::{self, Bounds};

const XON: Xon = conformance::XON;

fn load(name: &str, bounds: &Bounds, charge: Charge, seed: u64) -> ConformanceLoad {
    let layout = policies::layout(name, bounds).charged_by(charge);
    ConformanceLoad::new(policies::mmu_over(layout, name, bounds, XON, Alpha::ONE), charge, seed)
}

/// Frames lost of lossless classes.
fn lost(mut load: ConformanceLoad) -> u64 {
    (0..TICKS).for_each(|_| load.tick(true));
    load.lost()
}

const SEEDS: u64 = 8;

#[test]
fn nothing_is_lost_whatever_arrives() {
    for name in policies::lossless() {
        let summary = conformance::check(&*policies::settings(name), 0..SEEDS, &mut || true);
        let ConformanceSummary { pauses, .. } = summary.unwrap_or_else(|violation| panic!("{name}: {violation}"));
        assert!(pauses > 100, "{name}: {pauses} PAUSEs are no load to prove anything with");
    }
}

/// Short frames that are charged an mbuf need room for that: headroom in bytes of the link alone does not hold them.
#[test]
fn headroom_without_room_for_mbufs_loses_short_frames() {
    let charge = Charge::in_cells(1).at_least_shortest(4);
    let mut lost = 0;
    for seed in 0..SEEDS {
        lost += self::lost(ConformanceLoad::new(
            policies::mmu("dt", &conformance::bounds(), XON, Alpha::ONE),
            charge,
            seed,
        ));
    }
    assert!(lost > 0, "short frames found headroom that is not theirs: the load is none");
}

#[test]
fn policies_that_can_lose_say_so() {
    let lossless = policies::lossless();
    let not: Vec<_> = policies::all().into_iter().filter(|name| !lossless.contains(name)).collect();
    // Adaptive headroom relies on past delays, and has a test of its own.
    assert_eq!(not, ["oversubscribed", "adaptive", "dsh-no-insurance"]);
}

#[test]
fn what_a_policy_shows_is_what_its_kind_names() {
    for name in policies::all() {
        let mmu = policies::mmu(name, &conformance::bounds(), XON, Alpha::ONE);
        let shown = mmu.ingress_usage(QueueId::new(PortId(0), LOSSLESS[0]), Time::ZERO).gauges;
        let named = policies::settings(name).kind().gauges();
        assert_eq!(shown.iter().map(|(gauge, _)| *gauge).collect::<Vec<_>>(), named, "{name}");
        assert!(named.iter().all(|gauge| gauge.is_well_named()), "{name}");
        assert_eq!(mmu.policy().name(), policies::settings(name).name());
    }
}

#[test]
fn without_insurance_frames_are_lost() {
    let lost: u64 =
        (0..SEEDS).map(|seed| lost(load("dsh-no-insurance", &conformance::bounds(), Charge::in_cells(1), seed))).sum();
    assert!(lost > 0, "the ablation lost nothing: the load is none");
}

#[test]
fn headroom_below_the_rule_loses() {
    let mut bounds = conformance::bounds();
    bounds.headroom = bounds.headroom.divided_by(2);
    let mut lost = 0;
    for seed in 0..SEEDS {
        lost += self::lost(load("dt", &bounds, Charge::in_cells(1), seed));
    }
    assert!(lost > 0, "half the headroom was enough: the load is none");
}

/// Every queue of every port OFF at once: more than 80 % of all headroom is needed.
#[test]
fn oversubscribed_headroom_runs_dry_in_the_worst_case() {
    let worst = |name: &str| {
        let mut load = load(name, &conformance::bounds(), Charge::in_cells(1), 1);
        (0..400).for_each(|_| load.fill());
        load.lost()
    };
    assert_eq!(worst("sih"), 0);
    assert!(worst("oversubscribed") > 0);
}
