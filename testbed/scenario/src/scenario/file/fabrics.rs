//! `[topology]`: a fabric in place of `[[switches]]`, `[[links]]` and `[[hosts]]`.

use std::collections::HashMap;
use std::sync::Arc;

use weir_reader::settings::{ConfigTable, SourceSpan};
use weir_reader::{Key, Problem, Table};
use weir_units::{BitRate, Span};

use super::faults;
use super::keys::{llr, topology};
use super::nic::Nic;
use super::reading::{refuse_foreign_keys, refuse_with_fix, require};
use super::topology::{FaultDraw, HostPart, LinkPart, PortName, SwitchPart, Topology, seed_of};
use crate::link::{ChosenFrames, FaultPlan};
use crate::scenario::{PortRef, ServerPlan};
use crate::topology::{
    Clos, Dumbbell, Fabric, FatTree, LeafSpine, LinkSpec, Rails, RailsUplinks, Ring, SingleSwitch, TopologyError,
    Uplinks,
};

/// Kinds of fabrics, and the keys of each besides the common ones.
const KINDS: [(&str, &[&str]); 7] = [
    ("single", &["hosts"]),
    ("dumbbell", &["left", "right", "bottleneck_rate", "bottleneck_delay"]),
    ("ring", &["switches", "hosts", "host_rate", "host_delay"]),
    ("leaf-spine", &["leaves", "spines", "hosts", "parallel", "ports", "host_rate", "host_delay"]),
    (
        "clos",
        &[
            "pods",
            "tors",
            "leaves",
            "spines",
            "hosts",
            "ports",
            "uplinks",
            "host_rate",
            "host_delay",
            "spine_rate",
            "spine_delay",
        ],
    ),
    ("fat-tree", &["k", "host_rate", "host_delay"]),
    (
        "rails",
        &[
            "servers",
            "gpus",
            "rails",
            "spines",
            "ports",
            "oversubscription",
            "parallel",
            "host_rate",
            "host_delay",
            "nvlink_rate",
            "nvlink_delay",
        ],
    ),
];
const OF_ALL: &[&str] =
    &["kind", "rate", "delay", "corruption", "llr", "failed", "failure_probability", "failure_seed"];

/// Reads the fabric as if the file had listed its parts; `None` if it has errors.
pub(super) fn read(root: &Table<'_>, nic: &Nic, draw: FaultDraw) -> Option<Topology> {
    refuse_both(root);
    let table = root.table("topology", "topology");
    let fabric = fabric(&table)?;
    Some(Topology { servers: servers(&table), ..parts(&table, &fabric, nic, draw) })
}

/// Builds the fabric of `[topology]`; `None` if it has errors.
pub(super) fn fabric(table: &Table<'_>) -> Option<Fabric> {
    require(table, "kind", "a topology", "kind = \"leaf-spine\"");
    let kinds = KINDS.map(|(kind, _)| (kind, kind));
    let kind = table.choice("kind", &kinds)?;
    let (_, keys) = KINDS.iter().find(|(known, _)| *known == kind)?;
    refuse_foreign_keys(table, &format!("a topology of kind \"{kind}\""), topology::KEYS, &[keys, OF_ALL].concat());
    let shape = FabricParams { table };
    let fabric = match kind {
        "single" => shape.single(),
        "dumbbell" => shape.dumbbell(),
        "ring" => shape.ring(),
        "leaf-spine" => shape.leaf_spine(),
        "clos" => shape.clos(),
        "rails" => shape.rails(),
        _ => shape.fat_tree(),
    };
    let mut fabric = match fabric? {
        Ok(fabric) => fabric,
        Err(error) => {
            refuse_with_fix(table, "kind", &error.to_string());
            return None;
        }
    };
    fail(table, &mut fabric);
    fail_at_random(table, &mut fabric);
    Some(fabric)
}

fn refuse_both(root: &Table<'_>) {
    for key in ["switches", "links", "hosts"] {
        if root.has(key) {
            let message = format!("[topology] makes switches, links and hosts, and so does [[{key}]]");
            let problem = Problem::new(message, "take one of them out");
            root.doc().note(problem.with_key_label(key, "").with_key_label("topology", "the topology"));
        }
    }
}

/// Parameters of a fabric.
struct FabricParams<'t, 'd> {
    table: &'t Table<'d>,
}

type Built = Option<Result<Fabric, TopologyError>>;

impl FabricParams<'_, '_> {
    fn count(&self, key: &Key<u64>, example: u64) -> Option<usize> {
        require(self.table, key.name, "this kind of topology", &format!("{} = {example}", key.name));
        self.table.given(key).map(|count| count as usize)
    }

    /// Cable of `rate` and `delay`, which every fabric has.
    fn cable(&self) -> Option<LinkSpec> {
        require(self.table, "rate", "a topology", "rate = \"100Gbps\"");
        require(self.table, "delay", "a topology", "delay = \"2us\"");
        let (rate, delay) = (self.table.given(&topology::RATE), self.table.given(&topology::DELAY));
        Some(LinkSpec::new(rate?, delay?))
    }

    /// Cable with a rate or a delay of its own, or both.
    fn other(&self, rate: &Key<BitRate>, delay: &Key<Span>, usual: Option<LinkSpec>) -> Option<LinkSpec> {
        let or_usual = |key: &str| !self.table.has(key);
        let (own_rate, own_delay) = (self.table.given(rate), self.table.given(delay));
        let usual = usual?;
        Some(LinkSpec {
            rate: if or_usual(rate.name) { usual.rate } else { own_rate? },
            delay: if or_usual(delay.name) { usual.delay } else { own_delay? },
        })
    }

    fn single(&self) -> Built {
        let hosts = topology::HOSTS.at_least(2);
        let (hosts, cable) = (self.count(&hosts, 16), self.cable());
        let cable = cable?;
        Some(SingleSwitch { senders: hosts?, sender_cable: cable, receivers: 0, receiver_cable: cable }.fabric())
    }

    fn dumbbell(&self) -> Built {
        let (left, right, cable) = (self.count(&topology::LEFT, 8), self.count(&topology::RIGHT, 8), self.cable());
        let bottleneck = self.other(&topology::BOTTLENECK_RATE, &topology::BOTTLENECK_DELAY, cable);
        let shape = Dumbbell { senders: left?, receivers: right?, host_cable: cable?, bottleneck: bottleneck? };
        Some(shape.fabric())
    }

    fn ring(&self) -> Built {
        let (switches, hosts, cable) =
            (self.count(&topology::SWITCHES, 3), self.count(&topology::HOSTS, 1), self.cable());
        let host_cable = self.other(&topology::HOST_RATE, &topology::HOST_DELAY, cable);
        let shape = Ring { switches: switches?, hosts_per_switch: hosts?, host_cable: host_cable?, ring_link: cable? };
        Some(shape.fabric())
    }

    fn leaf_spine(&self) -> Built {
        let (leaves, spines) = (self.count(&topology::LEAVES, 16), self.count(&topology::SPINES.at_least(1), 8));
        let (hosts, cable) = (self.count(&topology::HOSTS, 16), self.cable());
        let host_cable = self.other(&topology::HOST_RATE, &topology::HOST_DELAY, cable);
        let parallel = match self.table.has(topology::PARALLEL.name) {
            true => self.table.given(&topology::PARALLEL)?,
            false => 1,
        };
        let shape = LeafSpine {
            leaves: leaves?,
            spines: spines?,
            hosts_per_leaf: hosts?,
            parallel: parallel as usize,
            host_cable: host_cable?,
            fabric_link: cable?,
        };
        Some(self.join_ports("leaves", shape.leaves, shape.hosts_per_leaf, shape.fabric()))
    }

    fn clos(&self) -> Built {
        let [pods, tors, leaves] =
            [(topology::PODS, 8), (topology::TORS, 4), (topology::LEAVES, 2)].map(|(key, n)| self.count(&key, n));
        let (spines, hosts, cable) = (self.count(&topology::SPINES, 4), self.count(&topology::HOSTS, 16), self.cable());
        let host_cable = self.other(&topology::HOST_RATE, &topology::HOST_DELAY, cable);
        let spine_cable = self.other(&topology::SPINE_RATE, &topology::SPINE_DELAY, cable);
        let uplinks = self.table.given(&topology::UPLINKS);
        let uplinks = if self.table.has(topology::UPLINKS.name) { uplinks? } else { Uplinks::Every };
        let shape = Clos {
            pods: pods?,
            tors_per_pod: tors?,
            leaves_per_pod: leaves?,
            spines: spines?,
            hosts_per_tor: hosts?,
            uplinks,
            host_link: host_cable?,
            pod_link: cable?,
            spine_link: spine_cable?,
        };
        Some(self.join_ports("ToRs of a pod", shape.tors_per_pod, shape.hosts_per_tor, shape.fabric()))
    }

    fn rails(&self) -> Built {
        let [servers, gpus] = [(topology::SERVERS, 4), (topology::GPUS, 8)].map(|(key, n)| self.count(&key, n));
        let (spines, cable) = (self.count(&topology::SPINES, 8), self.cable());
        let host_cable = self.other(&topology::HOST_RATE, &topology::HOST_DELAY, cable);
        for [given, other] in [["nvlink_rate", "nvlink_delay"], ["nvlink_delay", "nvlink_rate"]] {
            if self.table.has(given) && !self.table.has(other) {
                self.table.refuse(given, format!("NVLink takes `{other}` too"), "write both, or neither");
            }
        }
        let given_or = |key: &Key<u64>, usual: Option<usize>| match self.table.has(key.name) {
            true => self.table.given(key).map(|count| count as usize),
            false => usual,
        };
        let rails = given_or(&topology::RAILS, gpus);
        let [oversubscription, parallel] = [&topology::OVERSUBSCRIPTION, &topology::PARALLEL];
        let uplinks = match (self.table.has(oversubscription.name), self.table.has(parallel.name)) {
            (true, true) => {
                let message = "`oversubscription` and `parallel` both set the links to spines";
                self.table.refuse(parallel.name, message, "take one of them out");
                None
            }
            (_, true) => self.table.given(parallel).map(|links| RailsUplinks::Parallel(links as usize)),
            _ => given_or(oversubscription, Some(1)).map(|ratio| RailsUplinks::Oversubscription(ratio as u64)),
        };
        let (gpus, rails) = (gpus?, rails?);
        // Uneven GPUs are refused with the file's numbers.
        let ports = if gpus.is_multiple_of(rails) { self.ports() } else { 1 };
        let shape = Rails {
            servers: servers?,
            gpus: gpus * ports,
            rails: rails * ports,
            spines: spines?,
            uplinks: uplinks?,
            host_cable: host_cable?,
            fabric_link: cable?,
        };
        Some(shape.fabric().map(|mut fabric| {
            // GPU g on switch g mod R, of a fabric of R = ports x rails: port k is on switch k x rails + rail.
            let place = |nic: usize| {
                let (group, switch) = (nic / shape.rails, nic % shape.rails);
                (group * rails + switch % rails, switch / rails)
            };
            fabric.join_ports(place);
            fabric
        }))
    }

    /// Returns the number of ports of each host.
    fn ports(&self) -> usize {
        self.table.get(&topology::PORTS) as usize
    }

    /// Makes the hosts of several switches the ports of one switch's number of hosts. Of `switches` of a pod, each has `hosts`.
    fn join_ports(
        &self,
        what: &'static str,
        switches: usize,
        hosts: usize,
        fabric: Result<Fabric, TopologyError>,
    ) -> Result<Fabric, TopologyError> {
        let (mut fabric, ports) = (fabric?, self.ports());
        if !switches.is_multiple_of(ports) {
            return Err(TopologyError::Ports { what, switches, ports });
        }
        fabric.join_ports(|port| {
            let (switch, number) = (port / hosts, port % hosts);
            (switch / ports * hosts + number, switch % ports)
        });
        Ok(fabric)
    }

    fn fat_tree(&self) -> Built {
        let (k, cable) = (self.count(&topology::K, 8), self.cable());
        let host_cable = self.other(&topology::HOST_RATE, &topology::HOST_DELAY, cable)?;
        let fabric = FatTree { k: k?, cable: cable? }.fabric();
        Some(fabric.map(|mut fabric| {
            for host in &mut fabric.hosts {
                (host.rate, host.delay) = (host_cable.rate, host_cable.delay);
            }
            fabric
        }))
    }
}

/// Reads the servers of a fabric of rails.
fn servers(table: &Table<'_>) -> Option<ServerPlan> {
    let hosts = table.given(&topology::GPUS)? as usize;
    let (rate, delay) = (table.given(&topology::NVLINK_RATE)?, table.given(&topology::NVLINK_DELAY)?);
    Some(ServerPlan { hosts, rate, delay })
}

/// Takes down the links of `failed`: pairs of switches.
fn fail(table: &Table<'_>, fabric: &mut Fabric) {
    let Some(pairs) = table.string_lists("failed", "\"S0\", \"L3\"") else { return };
    for (n, pair) in pairs.iter().enumerate() {
        let key = format!("failed[{n}]");
        match pair[..] {
            [one, other] => {
                if let Err(error) = fabric.fail(&[(one, other)]) {
                    refuse_with_fix(table, &key, &error.to_string());
                }
            }
            _ => {
                let message = format!("a link joins two switches, this one {}", pair.len());
                table.refuse(&key, message, "write for example failed = [[\"S0\", \"L3\"]]");
            }
        }
    }
}

/// Takes down random links by `failure_probability` and `failure_seed`, besides the named ones.
fn fail_at_random(table: &Table<'_>, fabric: &mut Fabric) {
    let has = ["failure_probability", "failure_seed"].map(|key| table.has(key));
    let (probability, seed) = (table.given(&topology::FAILURE_PROBABILITY), table.given(&topology::FAILURE_SEED));
    match has {
        [false, false] => return,
        [true, true] => {}
        [true, false] => {
            let help = "write failure_seed = 1, another number for other links";
            table.refuse("failure_probability", "links fail at random, and `failure_seed` is missing", help);
        }
        [false, true] => {
            let help = "write failure_probability = 0.05, or take it out";
            table.refuse("failure_seed", "no links fail at random", help);
        }
    }
    let Some((probability, seed)) = probability.zip(seed) else { return };
    if fabric.fail_at_random(probability, seed).is_err() {
        let message = "where links fail with this probability, no path joins some hosts, in each of 1000 draws";
        table.refuse("failure_probability", message, "write a lower one");
    }
}

/// Converts the fabric to the parts that a file would list.
fn parts(table: &Table<'_>, fabric: &Fabric, nic: &Nic, draw: FaultDraw) -> Topology {
    let origin = SourceSpan::of_table(table);
    let has_llr = table.get(&llr::HAS_LLR);
    let corruption_ppm = faults::ppm(table, &topology::CORRUPTION).unwrap_or(0);
    let faults = |link: usize| {
        let seed = seed_of(draw.seed, link);
        let plan = FaultPlan { frames: ChosenFrames::All, corruption_ppm, until: draw.end, ..FaultPlan::default() };
        [seed, seed + 1].map(|seed| FaultPlan { seed, ..plan })
    };
    let names = fabric.port_names();
    let port = |place: PortRef| PortName {
        switch: place.switch,
        port: names[place.switch][place.port].clone(),
        place: Some(place.port),
    };
    // A large fabric has few kinds of links.
    let mut kinds: HashMap<LinkSpec, Arc<ConfigTable>> = HashMap::new();
    let mut settings = |cable: LinkSpec| {
        let of_kind = kinds.entry(cable).or_insert_with(|| {
            let mut settings = ConfigTable::default();
            settings.set_string("rate", &format!("{}bps", cable.rate.as_bps()), origin.as_ref());
            settings.set_string("delay", &format!("{}ps", cable.delay.as_picos()), origin.as_ref());
            settings.into()
        });
        of_kind.clone()
    };
    let switches = fabric.switches.iter().map(|switch| SwitchPart {
        name: switch.name.clone(),
        file: None,
        buffer: None,
        origin: origin.clone(),
    });
    let links = fabric.links.iter().enumerate().map(|(number, link)| LinkPart {
        number,
        ends: link.ends.map(port),
        settings: settings(link.cable()),
        devices: None,
        faults: faults(number),
        has_llr,
        is_up: link.is_up,
        origin: origin.clone(),
    });
    let links = links.collect();
    let hosts = fabric.hosts.iter().enumerate().map(|(number, host)| HostPart {
        number,
        name: host.name.clone(),
        port: port(host.at),
        first_port: host.first_port,
        settings: settings(host.cable()),
        mtu: nic.mtu,
        has_own_mtu: false,
        device: None,
        port_device: None,
        real: None,
        faults: faults(fabric.links.len() + number),
        has_llr,
        origin: origin.clone(),
    });
    Topology { switches: switches.collect(), links, hosts: hosts.collect(), servers: None, is_fabric: true }
}
