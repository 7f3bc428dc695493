//! Round trips and bandwidth-delay products between hosts, as the simulators compute them at their start.

use std::collections::{BTreeMap, VecDeque};

use weir_units::{BitRate, Bytes, Span};

use super::topology::{Link, Topology};

/// Maxima over all pairs of hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RoundTrips {
    /// Propagation delay there and back, and the serialization time of a payload on each link there.
    pub base_rtt: Span,
    /// Bandwidth-delay product: bytes that a path's slowest link carries in this time.
    pub bdp: Bytes,
    /// Payload of a full frame, in bytes.
    pub payload: u64,
}

/// Switch of a host, with the link's rate and delay.
type HostUplink = (u32, BitRate, Span);

/// Path of the search from a switch to another.
#[derive(Clone, Copy)]
struct PathCost {
    links: usize,
    delay: Span,
    sending: Span,
    rate: BitRate,
}

impl RoundTrips {
    /// Computes the round trips between all hosts, over paths with the fewest links.
    pub(super) fn new(topology: &Topology, payload: u64) -> RoundTrips {
        let payload = Bytes::new(payload);
        let mut links: BTreeMap<u32, Vec<&Link>> = BTreeMap::new();
        for link in &topology.links {
            link.ends.iter().for_each(|end| links.entry(*end).or_default().push(link));
        }
        let other = |link: &Link, node: u32| if link.ends[0] == node { link.ends[1] } else { link.ends[0] };
        // Hosts with equal links to the same switches are one.
        let mut alike: BTreeMap<Vec<HostUplink>, usize> = BTreeMap::new();
        for host in topology.hosts() {
            let mut joints: Vec<HostUplink> =
                links[&host].iter().map(|link| (other(link, host), link.rate, link.delay)).collect();
            joints.sort();
            *alike.entry(joints).or_default() += 1;
        }
        let mut largest = RoundTrips { payload: payload.get(), ..RoundTrips::default() };
        for (joints, count) in &alike {
            let paths: Vec<BTreeMap<u32, PathCost>> =
                joints.iter().map(|(switch, ..)| shortest_paths(*switch, topology, &links, payload)).collect();
            for to in alike.keys().filter(|to| *to != joints || *count > 1) {
                let pairs =
                    joints.iter().zip(&paths).flat_map(|(one, paths)| to.iter().map(move |two| (one, paths, two)));
                let found = pairs.filter_map(|(one, paths, two)| Some((one, paths.get(&two.0)?, two)));
                let Some((one, path, two)) = found.min_by_key(|(_, path, _)| path.links) else { continue };
                let sending = path.sending + one.1.time_for(payload) + two.1.time_for(payload);
                let rtt = (path.delay + one.2 + two.2) * 2 + sending;
                let slowest = path.rate.min(one.1).min(two.1);
                largest.base_rtt = largest.base_rtt.max(rtt);
                largest.bdp = largest.bdp.max(slowest.bytes_in(rtt));
            }
        }
        largest
    }

    /// Returns the time in which a line sends the largest bandwidth-delay product: the longest round trip, unless paths' rates differ.
    pub(super) fn of_window(&self, line: BitRate) -> Span {
        if line.bytes_in(self.base_rtt) == self.bdp { self.base_rtt } else { line.time_for(self.bdp) }
    }
}

/// Returns the first of the shortest paths to each switch.
fn shortest_paths(
    switch: u32,
    topology: &Topology,
    links: &BTreeMap<u32, Vec<&Link>>,
    payload: Bytes,
) -> BTreeMap<u32, PathCost> {
    let here = PathCost { links: 0, delay: Span::ZERO, sending: Span::ZERO, rate: BitRate::bps(u64::MAX) };
    let mut paths = BTreeMap::from([(switch, here)]);
    let mut queue = VecDeque::from([switch]);
    while let Some(node) = queue.pop_front() {
        let path = paths[&node];
        for link in links.get(&node).into_iter().flatten() {
            let next = if link.ends[0] == node { link.ends[1] } else { link.ends[0] };
            if !topology.is_switch(next) || paths.contains_key(&next) {
                continue;
            }
            let on = PathCost {
                links: path.links + 1,
                delay: path.delay + link.delay,
                sending: path.sending + link.rate.time_for(payload),
                rate: path.rate.min(link.rate),
            };
            paths.insert(next, on);
            queue.push_back(next);
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::SourceFile;

    #[test]
    fn the_longest_pair_counts() {
        // Two leaves and a spine, 100G and 400G, each link 1 us: the simulator prints maxRtt=8200 and maxBdp=102500.
        let text = "7 3 6\n4 5 6\n0 4 100Gbps 1us 0\n1 4 100Gbps 1us 0\n2 5 100Gbps 1us 0\n3 5 100Gbps 1us 0\n\
                    4 6 400Gbps 1us 0\n5 6 400Gbps 1us 0\n";
        let topology = Topology::parse(&SourceFile { name: "t".to_owned(), text: text.to_owned() }).unwrap();
        let found = RoundTrips::new(&topology, 1_000);
        assert_eq!(found, RoundTrips { base_rtt: Span::from_nanos(8_200), bdp: Bytes::new(102_500), payload: 1_000 });
    }
}
