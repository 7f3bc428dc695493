//! Choice among ports of equal cost: every load balancing on lcores, in every layout.

use weir_config::LcoreLayout;
use weir_flowctl::CatchUp;
use weir_load_balancing::PATH_SELECTORS;
use weir_switch_core::{DriverConfig, PortInfo};
use weir_units::{ClassSet, PortId, Span};

use crate::common::{Bench, LAYOUTS, STEP, assert_balanced, frame, pfc, toml};

/// Station behind all of [`EQUAL`].
const FAR: u16 = 2;
const EQUAL: [u16; 3] = [2, 3, 4];
const FRAMES: u64 = 3_000;

fn bench(load_balancing: &str, layout: LcoreLayout) -> Bench {
    let settings = format!("[switch]\nload_balancing = '{load_balancing}'\n[buffer]\nsize = '8MB'\n");
    let surroundings = DriverConfig { learns: false, ..DriverConfig::real_time(CatchUp::NONE) };
    let routes: [&[u16]; 3] = [&[0], &[1], &EQUAL];
    Bench::with_routes(&toml(5, &settings), layout, surroundings, PortInfo::default(), &routes)
}

/// Lets frames of as many flows arrive at two ports, one a port and step; returns how many each of [`EQUAL`] sent.
fn spread(bench: &mut Bench) -> [usize; 3] {
    for n in 0..FRAMES {
        bench.arrive((n % 2) as u16, frame((n % 2) as u16, FAR, 3, n));
    }
    bench.world.sent.iter_mut().for_each(|sent| sent.reserve(2 * FRAMES as usize));
    let counted = allocation_counter::measure(|| bench.run(FRAMES as usize, Span::from_nanos(1_250)));
    assert_eq!(counted.count_total, 0, "the packet path allocates");
    assert_balanced(&bench.report());
    EQUAL.map(|port| bench.data_sent(port).len())
}

#[test]
fn each_load_balancing_uses_all_ports_in_every_layout() {
    for kind in PATH_SELECTORS.names() {
        for layout in LAYOUTS {
            let mut bench = bench(kind, layout);
            let sent = spread(&mut bench);
            assert_eq!(sent.iter().sum::<usize>() as u64, FRAMES, "{kind}, {layout:?}: {sent:?}");
            let share = FRAMES as usize / 3;
            assert!(
                sent.iter().all(|sent| (share * 9 / 10..share * 11 / 10).contains(sent)),
                "{kind}, {layout:?}: {sent:?}"
            );
        }
    }
}

#[test]
fn queues_that_can_not_send_are_avoided_by_those_who_compare_queues() {
    for (kind, avoids) in [("shortest-queue", true), ("drill", true), ("round-robin", false), ("random", false)] {
        let mut bench = bench(kind, LcoreLayout::Single);
        bench.arrive(EQUAL[0], pfc(ClassSet::from_bits(1 << 3), u16::MAX));
        bench.run(1, STEP);
        let [paused, ..] = spread(&mut bench);
        let waiting = bench.report().ports[usize::from(EQUAL[0])].classes[3].egress.get();
        // DRILL may draw the paused port twice before it remembers another.
        assert_eq!(paused == 0 && waiting < 20_000, avoids, "{kind}: {paused} sent, {waiting} B wait");
    }
}

#[test]
fn no_frame_goes_to_a_closed_port() {
    for kind in PATH_SELECTORS.names() {
        let mut bench = bench(kind, LcoreLayout::Single);
        bench.shared.set_link_up(PortId(EQUAL[1]), false);
        let [first, closed, last] = spread(&mut bench);
        assert_eq!((closed, first + last), (0, FRAMES as usize), "{kind}");
    }
}
