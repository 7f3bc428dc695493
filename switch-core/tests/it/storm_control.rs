//! Storm control: each port floods at a limited rate, and all other frames pass.

use weir_config::LcoreLayout;
use weir_flowctl::wire_bytes;
use weir_switch_core::counters::DropReason;
use weir_units::{BitRate, LINK_OVERHEAD, MacAddr, Span};
use weir_wire::ethernet::Parsed;

use crate::common::{Bench, LAYOUTS, TestFrame, clones, frame, introduce, toml};

/// Time between two polls, in which a port sends one frame.
const POLL: Span = Span::from_micros(25);
const LIMITED: &str = "[switch]\nstorm_control = \"8Mbps\"\n";

/// A frame of class 3 to a group or an unknown station, of 100 B on the wire.
fn flooded(from: u16, destination: MacAddr) -> TestFrame {
    let mut flooded = frame(from, 1, 3, 7);
    if let Parsed::Data(headers) = &mut flooded.parsed {
        headers.destination = destination;
    }
    let short = TestFrame { frame_bytes: 76, ..flooded };
    assert_eq!(wire_bytes(short.frame_bytes, LINK_OVERHEAD).get(), 100);
    short
}

fn bench(extra: &str, layout: LcoreLayout) -> Bench {
    let mut bench = Bench::new(&(toml(3, extra) + &clones(0, &["c0"])), layout);
    introduce(&mut bench);
    // The limits are full again.
    bench.now += Span::from_millis(200);
    bench
}

/// Offers 4,000 frames in 200 ms, twice the limit's rate; returns how many frames ports 1 and 2 sent.
fn offer(bench: &mut Bench, port: u16, make: impl Fn() -> TestFrame) -> [usize; 2] {
    bench.world.sent.iter_mut().for_each(Vec::clear);
    for _ in 0..4_000 {
        bench.arrive(port, make());
        bench.run(2, POLL);
    }
    bench.run(4, POLL);
    [1, 2].map(|port| bench.data_sent(port).len())
}

fn is_near(sent: usize, expected: usize) -> bool {
    (expected - 5..=expected + 5).contains(&sent)
}

/// At 8 Mb/s a frame may be flooded each 0.1 ms, and 1,000 of them at once.
#[test]
fn a_port_floods_its_rate_and_a_burst() {
    for layout in LAYOUTS {
        let mut bench = bench(LIMITED, layout);
        let unknown = MacAddr([2, 0, 0, 9, 9, 9]);
        let before = bench.report();
        let mut flood = |destination| offer(&mut bench, 2, || flooded(2, destination))[0];
        let first = flood(MacAddr::BROADCAST);
        assert!(is_near(first, 3_000), "{layout:?}: {first}");
        let more = [unknown, MacAddr([1, 0, 0x5e, 1, 2, 3])].map(flood);
        assert!(more.iter().all(|sent| is_near(*sent, 2_000)), "{layout:?}: {more:?}");
        let dropped = 12_000 - (first + more[0] + more[1]) as u64;
        // Frames to a known station are not limited, nor is another port.
        assert_eq!(offer(&mut bench, 2, || frame(2, 1, 3, 1)), [4_000, 0], "{layout:?}");
        let other = offer(&mut bench, 1, || flooded(1, unknown))[1];
        assert!(is_near(other, 3_000), "{layout:?}: {other}");
        let report = bench.report();
        let dropped_of = |port: usize| report.ports[port].classes[3].rx_drops[DropReason::StormControl as usize];
        assert_eq!([0, 1, 2, 3].map(dropped_of), [0, 4_000 - other as u64, dropped, 0], "{layout:?}");
        let conservation = report.conservation;
        assert!(
            conservation.holds && conservation.held() == before.conservation.held(),
            "{layout:?}: {conservation:?}"
        );
    }
}

#[test]
fn a_port_and_its_clones_have_a_limit_each() {
    let sent = offer(&mut bench(LIMITED, LcoreLayout::Single), 0, || flooded(0, MacAddr::BROADCAST));
    assert!(sent.iter().all(|sent| is_near(*sent, 6_000)), "{sent:?}");
}

#[test]
fn the_limit_changes_while_the_switch_runs() {
    let mut bench = bench("", LcoreLayout::Single);
    let broadcast = || flooded(1, MacAddr::BROADCAST);
    assert_eq!(offer(&mut bench, 1, broadcast)[1], 4_000);
    bench.shared.set_storm_control(Some(BitRate::mbps(8)));
    let limited = offer(&mut bench, 1, broadcast)[1];
    assert!(is_near(limited, 2_000), "{limited}: a storm gets no burst");
    bench.shared.set_storm_control(None);
    assert_eq!(offer(&mut bench, 1, broadcast)[1], 4_000);
}
