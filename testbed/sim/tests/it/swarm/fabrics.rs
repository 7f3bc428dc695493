//! Fabrics drawn at random.

use weir_scenario::topology::{
    Clos, Dumbbell, Fabric, FatTree, LeafSpine, LinkSpec, Ring, Routes, SingleSwitch, Uplinks,
};
use weir_scenario::workload::Rng;
use weir_units::{BitRate, Span};

use super::draw::{between, chance, one_of};

const RATES: [BitRate; 4] = [BitRate::gbps(10), BitRate::gbps(25), BitRate::gbps(40), BitRate::gbps(100)];

/// A fabric whose hosts are all joined, some of whose links between switches may be down.
pub(crate) fn draw(rng: &mut Rng) -> Fabric {
    loop {
        let fabric = draw_any(rng);
        let is_whole = fabric.hosts.len() >= 2 && fabric.switches.iter().all(|switch| switch.ports >= 2);
        if is_whole {
            return fabric;
        }
    }
}

fn draw_any(rng: &mut Rng) -> Fabric {
    let cable = |rng: &mut Rng| {
        let longest = one_of(rng, &[500, 2_000, 10_000]);
        let delay = Span::from_nanos(between(rng, 50, longest));
        LinkSpec::new(one_of(rng, &RATES), delay)
    };
    // Congestion control is made for hosts of one rate.
    let host_cable = cable(rng);
    let fabric = match one_of(rng, &[0, 1, 2, 2, 2, 3, 3, 4, 5, 5]) {
        0 => {
            let (senders, receivers) = (one_of(rng, &[1, 2, 4, 7]), one_of(rng, &[1, 2]));
            SingleSwitch { senders, sender_cable: host_cable, receivers, receiver_cable: host_cable }.fabric()
        }
        1 => {
            let (senders, receivers) = (one_of(rng, &[1, 2, 4]), one_of(rng, &[1, 2, 3]));
            Dumbbell { senders, receivers, host_cable, bottleneck: cable(rng) }.fabric()
        }
        2 => {
            let (switches, hosts_per_switch) = (one_of(rng, &[3, 4, 5, 6, 7]), one_of(rng, &[1, 2]));
            Ring { switches, hosts_per_switch, host_cable, ring_link: cable(rng) }.fabric()
        }
        3 => {
            let (leaves, spines) = (one_of(rng, &[2, 3, 4]), one_of(rng, &[1, 2, 3]));
            let (hosts_per_leaf, parallel) = (one_of(rng, &[1, 2, 4]), one_of(rng, &[1, 1, 2]));
            LeafSpine { leaves, spines, hosts_per_leaf, parallel, host_cable, fabric_link: cable(rng) }.fabric()
        }
        4 => FatTree { k: 4, cable: host_cable }.fabric(),
        _ => {
            let (tors_per_pod, leaves_per_pod) = (one_of(rng, &[1, 2]), one_of(rng, &[1, 2]));
            let (pods, spines) = (one_of(rng, &[1, 2, 3]), 2);
            let (hosts_per_tor, uplinks) = (one_of(rng, &[1, 2, 3]), one_of(rng, &[Uplinks::Every, Uplinks::Planes]));
            let (pod_cable, spine_cable) = (cable(rng), cable(rng));
            Clos {
                pods,
                tors_per_pod,
                leaves_per_pod,
                spines,
                hosts_per_tor,
                uplinks,
                host_link: host_cable,
                pod_link: pod_cable,
                spine_link: spine_cable,
            }
            .fabric()
        }
    };
    let mut fabric = fabric.expect("a fabric");
    for _ in 0..between(rng, 0, 2) {
        fail_one(rng, &mut fabric);
    }
    for link in &mut fabric.links {
        if chance(rng, 10) {
            link.rate = one_of(rng, &RATES);
        }
    }
    fabric
}

/// Takes a link down, if all hosts stay joined.
fn fail_one(rng: &mut Rng, fabric: &mut Fabric) {
    if fabric.links.is_empty() {
        return;
    }
    let link = rng.below(fabric.links.len() as u64) as usize;
    let was_up = std::mem::replace(&mut fabric.links[link].is_up, false);
    // A switch has two ports at least.
    let ports = |switch: usize| {
        let ends = fabric.links.iter().filter(|link| link.is_up).flat_map(|link| link.ends);
        ends.filter(|end| end.switch == switch).count()
            + fabric.hosts.iter().filter(|host| host.at.switch == switch).count()
    };
    if Routes::shortest(fabric).is_err() || (0..fabric.switches.len()).any(|switch| ports(switch) < 2) {
        fabric.links[link].is_up = was_up;
    }
}
