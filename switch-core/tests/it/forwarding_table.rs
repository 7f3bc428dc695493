//! The forwarding table with the caches of several lcores, compared with a map.

use std::collections::HashMap;

use proptest::prelude::*;
use weir_config::LcoreLayout;
use weir_units::{MacAddr, PortId, Span, Time};
use weir_wire::ethernet::{Headers, Parsed};

use crate::common::{Bench, LAYOUTS, TestFrame, frame, toml};

const PORTS: u16 = 3;
const STATION_COUNT: u16 = 7;
const AGEING: Span = Span::from_secs(10);

/// One step.
#[derive(Clone, Debug)]
enum Turn {
    /// Frames that arrive at a port: source, destination, and whether they are plain.
    Burst(u16, Vec<(u16, u16, bool)>),
    Pass(Span),
    Clear,
    EnterStatic(u16, u16),
    RemoveStatic(u16),
}

fn turn() -> impl Strategy<Value = Turn> {
    // Mostly stations of the port, which are cached; others have moved.
    let source = prop_oneof![30 => (0..STATION_COUNT).prop_map(|n| n * PORTS), 1 => 0..STATION_COUNT * PORTS];
    let one = (source, 0..STATION_COUNT * PORTS, prop::bool::weighted(0.97));
    let some =
        prop_oneof![prop::collection::vec(one.clone(), 1..70), (one, 2..70usize).prop_map(|(one, n)| vec![one; n])];
    let burst = (0..PORTS, some).prop_map(|(port, frames)| {
        let own = |n| if n % PORTS == 0 { n + port } else { n };
        Turn::Burst(port, frames.into_iter().map(|(from, to, is_plain)| (own(from), to, is_plain)).collect())
    });
    let pass = prop::sample::select(vec![Span::from_millis(3), Span::from_millis(40), Span::from_secs(3), AGEING]);
    prop_oneof![
        20 => burst,
        4 => pass.prop_map(Turn::Pass),
        1 => Just(Turn::Clear),
        1 => (0..STATION_COUNT * PORTS, 0..PORTS).prop_map(|(station, port)| Turn::EnterStatic(station, port)),
        1 => (0..STATION_COUNT * PORTS).prop_map(Turn::RemoveStatic),
    ]
}

fn mac(station: u16) -> MacAddr {
    let [high, low] = station.to_be_bytes();
    MacAddr([2, 0, 0, 0, high, low + 1])
}

/// Port of a station, and the instant when it was last heard; `None` if it is static.
#[derive(Default)]
struct Model(HashMap<u16, (u16, Option<Time>)>);

impl Model {
    /// Port of a station that has not aged; an error if it may have.
    fn port_of(&self, station: u16, now: Time) -> Result<Option<u16>, TestCaseError> {
        let Some((port, heard)) = self.0.get(&station) else { return Ok(None) };
        let age = heard.map_or(Span::ZERO, |heard| now.since(heard));
        if age >= AGEING && age < AGEING + AGEING.divided_by(50) {
            return Err(TestCaseError::reject("the table ages entries up to 1 % later"));
        }
        Ok((age < AGEING).then_some(*port))
    }

    /// Learns a frame's source; returns the ports that send the frame.
    fn forward(&mut self, now: Time, port: u16, from: u16, to: u16) -> Result<Vec<u16>, TestCaseError> {
        if self.0.get(&from).is_none_or(|(_, heard)| heard.is_some()) {
            self.0.insert(from, (port, Some(now)));
        }
        Ok(match self.port_of(to, now)? {
            Some(to) if to == port => Vec::new(),
            Some(to) => vec![to],
            None => (0..PORTS).filter(|to| *to != port).collect(),
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn frames_go_where_a_map_says(turns in prop::collection::vec(turn(), 1..60), layout in prop::sample::select(LAYOUTS.to_vec())) {
        check(&turns, layout)?;
    }
}

fn check(turns: &[Turn], layout: LcoreLayout) -> Result<(), TestCaseError> {
    let mut bench = Bench::new(&toml(usize::from(PORTS), "[switch]\nmac_ageing = \"10s\""), layout);
    let mut model = Model::default();
    for turn in turns {
        match turn {
            Turn::Burst(port, frames) => {
                bench.world.sent.iter_mut().for_each(Vec::clear);
                let mut expected = vec![Vec::new(); usize::from(PORTS)];
                for (sequence, (from, to, is_plain)) in frames.iter().enumerate() {
                    let usual = frame(0, 1, 3, sequence as u64);
                    let headers = Headers { destination: mac(*to), pcp: None, dscp: Some(3) };
                    let frame = TestFrame {
                        frame_bytes: 100,
                        source: mac(*from),
                        parsed: Parsed::Data(headers),
                        shows: *is_plain,
                        ..usual
                    };
                    bench.arrive(*port, frame);
                    let sending = model.forward(bench.now, *port, *from, *to)?;
                    sending.iter().for_each(|to| expected[usize::from(*to)].push(sequence as u64));
                }
                bench.run(200, Span::from_micros(2));
                let sent: Vec<_> = (0..PORTS).map(|port| bench.data_sent(port)).collect();
                prop_assert_eq!(sent, expected, "{:?}", turn);
            }
            Turn::Pass(span) => bench.now += *span,
            Turn::Clear => {
                bench.shared.fdb.clear_learned();
                model.0.retain(|_, (_, heard)| heard.is_none());
            }
            Turn::EnterStatic(station, port) => {
                prop_assert!(bench.shared.fdb.enter_static(mac(*station), PortId(*port)));
                prop_assert!(bench.shared.fdb.has_static(mac(*station), PortId(*port)));
                model.0.insert(*station, (*port, None));
            }
            Turn::RemoveStatic(station) => {
                let is_static = model.0.get(station).is_some_and(|(_, heard)| heard.is_none());
                prop_assert_eq!(bench.shared.fdb.remove_static(mac(*station)), is_static);
                if is_static {
                    model.0.remove(station);
                }
            }
        }
    }
    let mut known = Vec::new();
    for station in 0..STATION_COUNT * PORTS {
        let port = model.port_of(station, bench.now)?;
        known.extend(port.map(|port| (mac(station), PortId(port), model.0[&station].1.is_none())));
    }
    let entries = bench.shared.fdb.entries(bench.now).into_iter();
    let mut entries: Vec<_> = entries.map(|entry| (entry.address, entry.port, entry.is_static)).collect();
    entries.sort();
    prop_assert_eq!(entries, known);
    Ok(())
}
