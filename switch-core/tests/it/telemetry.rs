//! Telemetry that a switch stamps on frames that ask for it.

use weir_config::LcoreLayout;
use weir_units::{BitRate, Bytes, ClassSet, Span, Time};
use weir_wire::trailer::Telemetry;

use crate::common::{Bench, LAYOUTS, STEP, TestFrame, frame, introduce, pfc, toml};

/// Bytes that a frame of 1,514 B takes on the link.
const WIRE: u64 = 1_538;
/// Bytes that the buffer charges for it.
const CHARGED: u64 = 1_518;

/// A frame of class 3 from port 0 to port 1 that asks for stamps, or does not.
fn asking(sequence: u64, asks: bool) -> TestFrame {
    TestFrame { stamps: asks.then(Vec::new), ..frame(0, 1, 3, sequence) }
}

/// What the frames that port 1 sent are stamped with.
fn stamps(bench: &Bench) -> Vec<Option<Vec<Telemetry>>> {
    let data = bench.world.sent[1].iter().filter(|sent| matches!(sent.sequence, 1..));
    data.map(|sent| sent.stamps.clone()).collect()
}

/// Three frames that wait for a pause to end, the second of which asks for nothing.
fn sent(settings: &str, layout: LcoreLayout) -> (Vec<Option<Vec<Telemetry>>>, Time) {
    let mut bench = Bench::new(&toml(2, settings), layout);
    introduce(&mut bench);
    bench.arrive(1, pfc(ClassSet::from_bits(1 << 3), u16::MAX));
    bench.run(4, STEP);
    (1..4).for_each(|n| bench.arrive(0, asking(n, n != 2)));
    bench.run(20, STEP);
    assert_eq!(bench.data_sent(1), [0; 0], "{layout:?}: paused");
    bench.arrive(1, pfc(ClassSet::from_bits(1 << 3), 0));
    let resumed = bench.now;
    bench.run(40, STEP);
    assert_eq!(bench.data_sent(1), [1, 2, 3], "{layout:?}");
    (stamps(&bench), resumed)
}

#[test]
fn a_frame_is_stamped_with_what_it_leaves_behind() {
    for layout in LAYOUTS {
        let (stamps, resumed) = sent("[switch]\ntelemetry = true\n", layout);
        let [Some(first), None, Some(last)] = &stamps[..] else { panic!("{layout:?}: {stamps:?}") };
        let ([first], [last]) = (&first[..], &last[..]) else { panic!("one switch, one stamp: {stamps:?}") };
        let rate = BitRate::gbps(10);
        assert_eq!((first.rate, last.rate), (rate, rate));
        assert_eq!((first.queue, last.queue), (Bytes::new(2 * CHARGED), Bytes::ZERO));
        assert_eq!(last.tx_bytes - first.tx_bytes, 2 * WIRE, "the other frame counts");
        assert!(first.at >= resumed && last.at.since(first.at) >= rate.time_for(Bytes::new(2 * WIRE)));
        assert!(last.at.since(resumed) < Span::from_micros(20));
    }
}

#[test]
fn a_stamp_counts_the_frames_class_or_all_of_the_port() {
    for layout in LAYOUTS {
        for (key, other) in [("class", 0), ("port", CHARGED)] {
            let settings = format!("[switch]\ntelemetry = true\ntelemetry_queue = \"{key}\"\n");
            let mut bench = Bench::new(&toml(2, &settings), layout);
            introduce(&mut bench);
            // Class 4 stays paused with a frame, and class 3 resumes with two.
            bench.arrive(1, pfc(ClassSet::from_bits(3 << 3), u16::MAX));
            bench.run(4, STEP);
            bench.arrive(0, frame(0, 1, 4, 3));
            (1..3).for_each(|n| bench.arrive(0, asking(n, true)));
            bench.run(20, STEP);
            bench.arrive(1, pfc(ClassSet::from_bits(1 << 3), 0));
            bench.run(40, STEP);
            let stamps = stamps(&bench).into_iter().map(|stamps| stamps.unwrap()[0].queue.get());
            assert_eq!(stamps.collect::<Vec<_>>(), [CHARGED + other, other], "{layout:?}, {key}");
        }
    }
}

#[test]
fn without_the_key_nothing_is_stamped() {
    for settings in ["", "[switch]\ntelemetry = false\n"] {
        let (stamps, _) = sent(settings, LcoreLayout::Single);
        assert_eq!(stamps, [Some(Vec::new()), None, Some(Vec::new())]);
    }
}
