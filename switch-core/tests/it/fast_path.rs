//! The fast path and the slow path have equal results for the same frames.

use proptest::prelude::*;
use weir_config::LcoreLayout;
use weir_units::{ClassSet, MacAddr, Span};
use weir_wire::ethernet::Parsed;

use crate::common::{Bench, TestFrame, frame, pfc, toml};

const PORTS: u16 = 4;

/// Policies with and without bulk admission; small buffers, so that thresholds are crossed.
const BUFFERS: [&str; 6] = [
    "[buffer]\nsize = \"150KB\"\nheadroom = \"6KB\"\npolicy = \"dt\"",
    "[buffer]\nsize = \"150KB\"\nheadroom = \"6KB\"\nprivate = \"3KB\"\npolicy = \"dt\"",
    "[buffer]\nsize = \"150KB\"\nheadroom = \"6KB\"\npolicy = \"spfc\"",
    "[buffer]\nsize = \"150KB\"\npolicy = \"dsh\"",
    "[buffer]\nsize = \"200KB\"\npolicy = \"abm\"",
    "[buffer]\nsize = \"200KB\"\npolicy = \"reverie\"",
];

/// Special property of an arriving frame.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Usual,
    ToGroup,
    TooLong,
    Malformed,
    /// Source: the station of this port, which has moved.
    Roaming(u16),
    /// PFC frame of the peer: classes, and pause time in quanta.
    Pause(u8, u16),
}

fn arrival() -> impl Strategy<Value = (u16, u16, u8, u32, Kind)> {
    let kind = prop_oneof![
        40 => Just(Kind::Usual),
        1 => Just(Kind::ToGroup),
        1 => Just(Kind::TooLong),
        1 => Just(Kind::Malformed),
        1 => (0..PORTS).prop_map(Kind::Roaming),
        2 => (any::<u8>(), 0..200u16).prop_map(|(classes, quanta)| Kind::Pause(classes, quanta)),
    ];
    // The last stations are unknown at first, or behind the port of arrival.
    (0..PORTS, 0..PORTS + 2, prop::sample::select(vec![0, 3, 3, 4, 5]), 60..1_515u32, kind)
}

/// Runs of equal frames, frames on a few routes from one port in turn, and frames of all kinds.
fn arrivals() -> impl Strategy<Value = Vec<(u16, u16, u8, u32, Kind)>> {
    let train = (arrival(), 1..80usize).prop_map(|(arrival, frames)| vec![arrival; frames]);
    let mixed = prop::collection::vec(arrival(), 1..80);
    let in_turn = (prop::collection::vec(arrival(), 2..10), 2..80usize).prop_map(|(mut ways, frames)| {
        let from = ways[0].0;
        ways.iter_mut().for_each(|way| way.0 = from);
        ways.into_iter().cycle().take(frames).collect()
    });
    prop::collection::vec(prop_oneof![train, in_turn, mixed], 1..12).prop_map(|bursts| bursts.concat())
}

/// Priority groups and queues of classes: mostly their own numbers, else lossless ones for lossless classes.
fn tables() -> impl Strategy<Value = String> {
    let lossless = || prop::sample::select(vec![3, 4]);
    let lossy = || prop::sample::select(vec![0, 1, 5]);
    let drawn = ([lossless(), lossless()], [lossless(), lossless()], [lossy(), lossy()], [lossy(), lossy()]);
    let drawn = drawn.prop_map(|([pg3, pg4], [queue3, queue4], [pg0, pg5], [queue0, queue5])| {
        format!(
            "tc_to_pg = {{ 0 = {pg0}, 3 = {pg3}, 4 = {pg4}, 5 = {pg5} }}\n\
             tc_to_queue = {{ 0 = {queue0}, 3 = {queue3}, 4 = {queue4}, 5 = {queue5} }}"
        )
    });
    prop_oneof![Just(String::new()), drawn]
}

/// Results of a switch for these arrivals: the frames sent by each port, and the report as text.
fn outcome(
    buffer: &str,
    tables: &str,
    layout: LcoreLayout,
    arrivals: &[(u16, u16, u8, u32, Kind)],
    shows: bool,
    accepts: Option<usize>,
) -> (Vec<Vec<(u64, Parsed)>>, String) {
    let queues = "[[classes.queues]]\nclass = 5\nstrict = true\n[[classes.queues]]\nclass = 0\nquantum = \"4KB\"";
    let mut bench = Bench::new(
        &toml(usize::from(PORTS), &format!("[classes]\nlossless = [3, 4]\n{tables}\n{queues}\n{buffer}")),
        layout,
    );
    bench.world.accepts = accepts;
    for (sequence, (port, to, dscp, frame_bytes, kind)) in arrivals.iter().enumerate() {
        let usual = TestFrame { frame_bytes: *frame_bytes, shows, ..frame(*port, *to, *dscp, sequence as u64) };
        bench.arrive(
            *port,
            match kind {
                Kind::Usual => usual,
                Kind::ToGroup => {
                    let Parsed::Data(headers) = usual.parsed else { unreachable!("a data frame") };
                    let to_all = weir_wire::ethernet::Headers { destination: MacAddr::BROADCAST, ..headers };
                    TestFrame { parsed: Parsed::Data(to_all), ..usual }
                }
                Kind::TooLong => TestFrame { frame_bytes: 9_000, ..usual },
                Kind::Roaming(home) => TestFrame { source: frame(*home, *to, *dscp, 0).source, ..usual },
                Kind::Malformed => TestFrame { parsed: Parsed::Malformed, ..usual },
                Kind::Pause(classes, quanta) => pfc(ClassSet::from_bits(*classes), *quanta),
            },
        );
    }
    bench.run(400, Span::from_micros(2));
    let sent = bench.world.sent.iter().map(|sent| sent.iter().map(|frame| (frame.sequence, frame.parsed)).collect());
    let (sent, report) = (sent.collect(), bench.report());
    assert!(report.conservation.holds, "{report:?}");
    (sent, format!("{report:?}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn at_a_glance_and_in_full_come_to_the_same(
        arrivals in arrivals(),
        buffer in prop::sample::select(BUFFERS.to_vec()),
        tables in tables(),
        layout in prop::sample::select(vec![LcoreLayout::Single, LcoreLayout::RxTx]),
        accepts in prop::sample::select(vec![None, None, Some(1), Some(7)]),
    ) {
        let [at_a_glance, in_full] = [true, false].map(|shows| outcome(buffer, &tables, layout, &arrivals, shows, accepts));
        prop_assert_eq!(&at_a_glance.0, &in_full.0);
        prop_assert_eq!(at_a_glance.1, in_full.1);
    }
}
