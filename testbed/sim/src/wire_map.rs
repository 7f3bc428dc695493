//! Wires of a scenario: both directions of all links.

use std::sync::Arc;

use weir_config::SwitchConfig;
use weir_scenario::{PortRef, Scenario};
use weir_switch_core::classify::Classifier;
use weir_units::{BitRate, ClassSet, MacAddr, PortId, SerialisationDelay, Span};
use weir_wire::ethernet::Headers;

use super::SimError;
use super::wire::{NodePort, Wire, WireParameters};

/// Source and destination of each wire.
pub(super) struct WireMap {
    /// Wire that leaves each port, by switch and port.
    pub(super) ports: Vec<Vec<Option<u32>>>,
    pub(super) hosts: Vec<u32>,
    /// Source and destination node of each wire.
    pub(super) ends: Box<[[u32; 2]]>,
}

/// Creates the wires of all links, ordered by destination node and port, since a node's window reads all wires to it.
pub(super) fn build_wires(scenario: &Scenario) -> Result<(Box<[Wire]>, WireMap), SimError> {
    let mut wires = Vec::new();
    let mut kinds: Vec<Arc<WireParameters>> = Vec::new();
    let classifier = |config: &SwitchConfig| Classifier::new(config.class_maps());
    let classifiers: Vec<Classifier> = scenario.switches.iter().map(classifier).collect();
    let mut kind = |rate: BitRate, delay: Span, has_llr: bool, place: PortRef| {
        let rate = SerialisationDelay::timed(rate, scenario.frame_times);
        let lossless = scenario.switches[place.switch].classes.lossless;
        let lossless_dscp_set = lossless_dscp_set(&classifiers[place.switch], lossless, PortId(place.port as u16));
        let kind = WireParameters { rate, overhead: scenario.link_overhead, delay, lossless_dscp_set, has_llr };
        let known = kinds.iter().find(|known| ***known == kind).cloned();
        known.unwrap_or_else(|| {
            kinds.push(Arc::new(kind));
            kinds[kinds.len() - 1].clone()
        })
    };
    let mut map = WireMap {
        ports: scenario.switches.iter().map(|switch| vec![None; switch.ports.len()]).collect(),
        hosts: Vec::new(),
        ends: Box::default(),
    };
    let node_port = |place: PortRef| NodePort { node: place.switch as u32, port: place.port as u16 };
    let rate = |place: PortRef| {
        let rate = scenario.switches[place.switch].ports[place.port].rate;
        rate.ok_or_else(|| SimError::NoRate(scenario.port_name(place)))
    };
    for (n, plan) in scenario.hosts.iter().enumerate() {
        let place = plan.place();
        let [to_host, to_switch] = plan.faults;
        map.ports[place.switch][place.port] = Some(wires.len() as u32);
        let node = (scenario.switches.len() + n) as u32;
        let has_llr = plan.llr.is_some();
        let kinds = [rate(place)?, plan.nic.rate].map(|rate| kind(rate, plan.link_delay, has_llr, place));
        let [from_switch, from_host] = kinds;
        wires.push(Wire::new(from_switch, to_host, NodePort { node, port: 0 }));
        map.hosts.push(wires.len() as u32);
        wires.push(Wire::new(from_host, to_switch, node_port(place)));
    }
    for plan in &scenario.links {
        for (from, to, faults) in [(0, 1, plan.faults[0]), (1, 0, plan.faults[1])] {
            let (from, to) = (plan.ends[from], plan.ends[to]);
            map.ports[from.switch][from.port] = Some(wires.len() as u32);
            wires.push(Wire::new(kind(rate(from)?, plan.delay, plan.llr.is_some(), from), faults, node_port(to)));
        }
    }
    let mut numbered: Vec<(u32, Wire)> = (0..).zip(wires).collect();
    numbered.sort_by_key(|(_, wire)| wire.destination());
    let mut index_of = vec![0; numbered.len()];
    (0..).zip(&numbered).for_each(|(index, (number, _))| index_of[*number as usize] = index);
    let port_wires = map.ports.iter_mut().flatten().flatten();
    port_wires.chain(&mut map.hosts).for_each(|wire| *wire = index_of[*wire as usize]);
    let mut ends: Box<[[u32; 2]]> = numbered.iter().map(|(_, wire)| [0, wire.destination().node]).collect();
    for (node, wires) in (0..).zip(&map.ports) {
        wires.iter().flatten().for_each(|wire| ends[*wire as usize][0] = node);
    }
    for (node, wire) in (scenario.switches.len() as u32..).zip(&map.hosts) {
        ends[*wire as usize][0] = node;
    }
    map.ends = ends;
    Ok((numbered.into_iter().map(|(_, wire)| wire).collect(), map))
}

/// Returns the DSCPs of frames that a switch's port receives in lossless classes, one bit each.
fn lossless_dscp_set(classifier: &Classifier, lossless: ClassSet, port: PortId) -> u64 {
    let headers = |dscp: u8| Headers { destination: MacAddr::default(), pcp: None, dscp: Some(dscp) };
    let is_lossless = |dscp: &u8| lossless.contains(classifier.class(port, &headers(*dscp)).group);
    (0..64).filter(is_lossless).fold(0, |set, dscp| set | 1 << dscp)
}
