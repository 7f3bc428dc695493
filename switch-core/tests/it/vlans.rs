//! VLANs, compared with a model written from IEEE 802.1Q: which ports get which frame, with which tag.

use std::collections::HashMap;

use proptest::prelude::*;
use weir_config::LcoreLayout;
use weir_switch_core::DriverConfig;
use weir_switch_core::counters::DropReason;
use weir_units::{MacAddr, PortId, Span};
use weir_wire::ethernet::{Headers, Parsed};

use crate::common::{Bench, LAYOUTS, STEP, TestFrame, assert_empty, clones, frame, station, toml};

const PORTS: usize = 4;
const CLASS: u8 = 3;
const MAX_BYTES: u32 = 1_522;

/// VLANs of a port: untagged, and tagged.
type PortVlans = (Option<u16>, Vec<u16>);

/// Switch with these VLANs, and a clone of its first port. Tags have the queue's number, not that of the priority group.
fn text(ports: &[PortVlans]) -> String {
    let mut text = toml(PORTS, "[classes]\ntc_to_pg = { 3 = 4 }\n");
    for (number, (vlan, tagged)) in ports.iter().enumerate() {
        let vlan = vlan.map_or(String::new(), |vlan| format!("vlan = {vlan}\n"));
        let tagged = if tagged.is_empty() { String::new() } else { format!("tagged = {tagged:?}\n") };
        text = text.replace(&format!("ring = \"r{number}\"\n"), &format!("ring = \"r{number}\"\n{vlan}{tagged}"));
    }
    text + &clones(0, &["c0"])
}

/// A learning bridge with VLANs.
#[derive(Default)]
struct Model {
    ports: Vec<PortVlans>,
    learned: HashMap<(u16, u16), usize>,
    filtered: u64,
}

#[derive(Clone, Debug)]
struct Arrival {
    port: usize,
    from: u16,
    /// Station; `None` for all.
    to: Option<u16>,
    tag: Option<u16>,
    frame_bytes: u32,
}

impl Model {
    /// Ports that a frame leaves by, and its tag there.
    fn handle(&mut self, arrival: &Arrival) -> Vec<(usize, Option<u16>)> {
        let Arrival { port, from, to, tag, frame_bytes } = *arrival;
        let bare = if tag.is_some() { frame_bytes - 4 } else { frame_bytes };
        if bare > MAX_BYTES - 4 {
            return Vec::new();
        }
        let (own, tagged) = self.ports[port].clone();
        let vlan = match tag.map(|tag| tag % 4_096) {
            None | Some(0) => own,
            Some(vlan) => Some(vlan).filter(|vlan| own == Some(*vlan) || tagged.contains(vlan)),
        };
        let Some(vlan) = vlan else {
            self.filtered += 1;
            return Vec::new();
        };
        self.learned.insert((vlan, from), port);
        let members: Vec<usize> = (0..PORTS)
            .filter(|other| self.ports[*other].0 == Some(vlan) || self.ports[*other].1.contains(&vlan))
            .collect();
        let others = || members.iter().copied().filter(|other| *other != port).collect();
        let to: Vec<usize> = match to.and_then(|to| self.learned.get(&(vlan, to))) {
            Some(to) if *to == port => return Vec::new(),
            Some(to) => vec![*to],
            None => others(),
        };
        if to.is_empty() {
            self.filtered += 1;
        }
        let priority = tag.map_or(u16::from(CLASS) << 13, |tag| tag / 4_096 * 4_096);
        to.into_iter().map(|to| (to, self.ports[to].1.contains(&vlan).then_some(priority + vlan))).collect()
    }
}

fn port_vlans() -> impl Strategy<Value = PortVlans> {
    let own = prop::sample::select(vec![None, Some(1), Some(10), Some(4_094)]);
    (own, prop::sample::subsequence(vec![10, 20, 4_094], 0..=3)).prop_map(|(own, mut tagged)| {
        tagged.retain(|vlan| Some(*vlan) != own);
        (own, tagged)
    })
}

fn arrival() -> impl Strategy<Value = Arrival> {
    let id = prop::sample::select(vec![0, 1, 10, 20, 30, 4_094, 4_095]);
    let tag = prop::option::weighted(0.7, (0..16u16, id).prop_map(|(priority, vlan)| priority << 12 | vlan));
    let bytes = prop::sample::select(vec![60, 64, 1_514, MAX_BYTES - 4, MAX_BYTES - 3, MAX_BYTES]);
    (0..PORTS, 0..4u16, prop::option::weighted(0.8, 0..5u16), tag, bytes)
        .prop_map(|(port, from, to, tag, frame_bytes)| Arrival { port, from, to, tag, frame_bytes })
}

fn arriving(Arrival { from, to, tag, frame_bytes, .. }: &Arrival, sequence: u64) -> TestFrame {
    let destination = to.map_or(MacAddr::BROADCAST, station);
    let parsed = Parsed::Data(Headers { destination, pcp: None, dscp: Some(CLASS) });
    TestFrame { parsed, tag: *tag, frame_bytes: *frame_bytes, ..frame(*from, 0, CLASS, sequence) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Sends frames one after the other through a switch with VLANs at some ports.
    #[test]
    fn as_a_bridge_on_paper(
        ports in prop::collection::vec(port_vlans(), PORTS),
        arrivals in prop::collection::vec(arrival(), 1..60),
        layout in prop::sample::select(LAYOUTS.to_vec()),
    ) {
        prop_assume!(ports.iter().any(|(own, tagged)| own.is_some() || !tagged.is_empty()));
        let mut bench = Bench::new(&text(&ports), layout);
        let defaulted = |(own, tagged): &PortVlans| (own.or(tagged.is_empty().then_some(1)), tagged.clone());
        let mut model = Model { ports: ports.iter().map(defaulted).collect(), ..Model::default() };
        for (sequence, arrival) in (1..).zip(&arrivals) {
            bench.arrive(arrival.port as u16, arriving(arrival, sequence));
            bench.run(8, STEP);
            let copies = if arrival.port == 0 { 2 } else { 1 };
            let filtered = model.filtered;
            let wanted = model.handle(arrival);
            model.filtered = filtered + (model.filtered - filtered) * copies;
            for port in 0..PORTS {
                let sent: Vec<_> = bench.world.sent[port].drain(..).map(|frame| (frame.tag, frame.frame_bytes)).collect();
                let wanted: Vec<_> = wanted.iter().filter(|(to, _)| *to == port).flat_map(|(_, tag)| {
                    let bare = arrival.frame_bytes - if arrival.tag.is_some() { 4 } else { 0 };
                    vec![(*tag, bare + if tag.is_some() { 4 } else { 0 }); copies as usize]
                }).collect();
                prop_assert_eq!(sent, wanted, "frame {} at port {}: {:?}", sequence, port, arrival);
            }
        }
        let report = bench.report();
        assert_empty(&report);
        prop_assert_eq!(report.dropped(DropReason::VlanFilter), model.filtered);
        let mut learned: Vec<_> = model.learned.iter().map(|((vlan, n), port)| (*vlan, station(*n), *port)).collect();
        let vlans = bench.shared.vlans.as_ref().unwrap();
        let entries = bench.shared.fdb.entries(bench.now).into_iter();
        let mut entries: Vec<_> =
            entries.map(|entry| (vlans.id(entry.vlan_index).unwrap(), entry.address, entry.port.index())).collect();
        learned.sort();
        entries.sort();
        prop_assert_eq!(entries, learned);
    }
}

#[test]
fn a_burst_keeps_its_order_and_lcores_their_counts() {
    for layout in LAYOUTS {
        let ports = [(Some(10), vec![]), (None, vec![10, 20]), (Some(20), vec![]), (None, vec![10])];
        let mut bench = Bench::new(&text(&ports), layout);
        for sequence in 0..200 {
            bench.arrive(
                1,
                TestFrame { tag: Some([0x200a, 0x2014][sequence as usize % 2]), ..frame(1, 9, CLASS, sequence) },
            );
        }
        bench.run(400, Span::from_micros(1));
        let even: Vec<u64> = (0..200).step_by(2).collect();
        let odd: Vec<u64> = (1..200).step_by(2).collect();
        assert_eq!([0, 2, 3].map(|port| bench.data_sent(port)), [even.clone(), odd, even], "{layout:?}");
        assert_empty(&bench.report());
    }
}

#[test]
fn static_addresses_are_in_all_vlans_of_their_port() {
    let ports = [(Some(10), vec![20]), (Some(10), vec![]), (Some(20), vec![]), (Some(30), vec![])];
    let statics = format!("[[static_macs]]\nmac = \"{}\"\nport = \"p0\"\n", station(7));
    let mut bench = Bench::new(&(text(&ports) + &statics), LcoreLayout::Single);
    let shared = bench.shared.clone();
    assert!(shared.has_static(station(7), PortId(0)) && !shared.has_static(station(7), PortId(1)));
    let sent_to = |bench: &mut Bench, from: u16| {
        bench.arrive(from, frame(from, 7, CLASS, 0));
        bench.run(8, STEP);
        bench.world.sent.iter_mut().map(|sent| sent.drain(..).map(|frame| frame.tag).collect()).collect::<Vec<Vec<_>>>()
    };
    let (untagged, tagged) = (vec![None], vec![Some(u16::from(CLASS) << 13 | 20)]);
    assert_eq!(sent_to(&mut bench, 1)[..4], [untagged.clone(), vec![], vec![], vec![]]);
    assert_eq!(sent_to(&mut bench, 2)[..4], [tagged, vec![], vec![], vec![]]);
    // Behind another port: the entries of VLANs that it is no member of go.
    assert!(shared.enter_static(station(7), PortId(2)) && shared.has_static(station(7), PortId(2)));
    assert_eq!(shared.fdb.entries(bench.now).iter().filter(|entry| entry.is_static).count(), 1);
    shared.remove_static(station(7));
    assert!(!shared.fdb.entries(bench.now).iter().any(|entry| entry.is_static));
}

#[test]
fn a_frame_without_memory_for_a_tag_is_dropped() {
    // A flooded frame finds no memory for its copy.
    let ports = [(Some(10), vec![]), (None, vec![10]), (Some(10), vec![]), (Some(20), vec![])];
    let mut bench =
        Bench::with(&text(&ports), LcoreLayout::Single, DriverConfig::real_time(weir_flowctl::CatchUp::NONE));
    bench.world.copies_fail = true;
    bench.arrive(2, frame(2, 9, CLASS, 1));
    bench.run(8, STEP);
    assert_eq!([0, 1, 3].map(|port| bench.data_sent(port).len()), [0, 1, 0]);
    assert_eq!(bench.report().dropped(DropReason::NoMemory), 1);
}
