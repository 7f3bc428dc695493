//! Topology files of SimAI: GPUs with NICs on switches, and NVSwitches in servers.

use std::collections::{BTreeMap, BTreeSet};

use crate::import::fabric::{FabricShape, ImportedFabric, LinkTier};
use crate::import::ns3::{Link, Topology};
use crate::import::text::{SourceFile, count, lines};
use crate::import::{ImportErrors, ImportNote, ImportReport};
use crate::topology::PORTS_MAX;

/// Reads a topology file: rails where it has these, or else single links, without NVLink; and the number of GPUs of a server.
pub(super) fn read(file: &SourceFile, report: &mut ImportReport) -> Result<(ImportedFabric, u32), ImportErrors> {
    let refuse = |line: usize, problem: String, help: &str| ImportErrors::one(&file.name, Some(line), problem, help);
    let first = lines(&file.text).next().map(|line| line.fields).unwrap_or_default();
    let [_, per_server, nvswitches, _, _, _] = first[..] else {
        let help = "write nodes, GPUs per server, NVSwitches, switches, links and GPU type, like `30 8 2 12 64 A100`";
        return Err(refuse(1, format!("the first line has {}, not 6", count(first.len(), "value")), help));
    };
    let number = |text: &str, what: &str| {
        text.parse::<u32>().map_err(|_| refuse(1, format!("\"{text}\" is not {what}"), "write a whole number"))
    };
    let (per_server, nvswitches) =
        (number(per_server, "the number of GPUs per server")?, number(nvswitches, "the number of NVSwitches")?);
    let mut topology = Topology::parse(file)?;
    let gpus = topology.switches.first().copied().unwrap_or(0);
    if per_server == 0 || !gpus.is_multiple_of(per_server) || topology.hosts().count() as u32 != gpus {
        let problem = format!("{gpus} GPUs before the first switch are no servers of {per_server}, or there are more");
        return Err(refuse(1, problem, "number the GPUs first, and write how many a server has"));
    }
    let mut server_links = Vec::new();
    topology.links.retain(|link| {
        let is_in_server = link.ends.iter().any(|node| (gpus..gpus.saturating_add(nvswitches)).contains(node));
        if is_in_server {
            server_links.push(*link);
        }
        !is_in_server
    });
    topology.switches.retain(|switch| *switch >= gpus.saturating_add(nvswitches));
    topology.left_out.extend(gpus..gpus.saturating_add(nvswitches).min(topology.nodes));
    check_gpus(file, &mut topology, gpus)?;
    if let Some(link) = topology.links.iter().find(|link| link.loss_ppb > 0) {
        report.left.push(ImportNote::for_line(&file.name, link.line, "error rates: links lose nothing"));
    }
    let server_link = server_link(&server_links, gpus, per_server);
    let taken = |text: &str| {
        let switches = count(topology.switches.len(), "switch");
        ImportNote::for_file(&file.name, format!("{gpus} GPUs in servers of {per_server}, {switches}: {text}"))
    };
    if let Some(fabric) = rails(&topology, gpus, per_server, server_link) {
        report.taken.push(taken("rails"));
        if server_link.is_none() && nvswitches > 0 {
            let text = "NVLink: GPUs of a server don't all have the same links to its NVSwitches";
            report.left.push(ImportNote::for_file(&file.name, text));
        }
        return Ok((fabric, per_server));
    }
    report.taken.push(taken("no rails, link by link"));
    if nvswitches > 0 {
        report.left.push(ImportNote::for_file(&file.name, "NVLink: fabrics of rails alone have it"));
    }
    Ok((links_of(topology), per_server))
}

/// Checks that each GPU has a NIC, makes its further links ports, and orders the GPUs' links by port and number.
fn check_gpus(file: &SourceFile, topology: &mut Topology, gpus: u32) -> Result<(), ImportErrors> {
    let nodes = topology.nodes;
    topology.part_nics();
    let is_apart = |nic: &u32| topology.host_of_nic(*nic) == *nic;
    if let Some(nic) = (nodes..topology.nodes).find(is_apart) {
        let gpu = topology.node_of_file(nic);
        let problem = format!("GPU {gpu} has links of different rates, delays or losses to switches");
        return Err(ImportErrors::one(&file.name, None, problem, "write equal ones for its ports"));
    }
    let nics: BTreeSet<u32> = topology.links.iter().flat_map(|link| link.ends).collect();
    if let Some(gpu) = (0..gpus).find(|gpu| !nics.contains(gpu)) {
        let problem = format!("GPU {gpu} has no link to a switch");
        return Err(ImportErrors::one(&file.name, None, problem, "write its NIC's link"));
    }
    let place = |link: &Link| {
        let nic = link.ends.into_iter().find(|node| !topology.is_switch(*node))?;
        let gpu = topology.node_of_file(nic);
        Some((topology.ports_of(gpu).iter().position(|port| *port == nic)?, gpu))
    };
    let mut links: Vec<_> = topology.links.iter().map(|link| (place(link), *link)).collect();
    links.sort_by_key(|(place, link)| (place.is_none(), *place, *link.ends.iter().min().expect("there are two")));
    topology.links = links.into_iter().map(|(_, link)| link).collect();
    topology.check_ports(&file.name)
}

/// Returns the link between two GPUs of a server over its NVSwitches, if all have the same.
fn server_link(links: &[Link], gpus: u32, per_server: u32) -> Option<LinkTier> {
    // Links of each GPU, and servers of each NVSwitch.
    let mut of_gpu: BTreeMap<u32, Vec<LinkTier>> = BTreeMap::new();
    let mut servers: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for link in links {
        let (gpu, switch) = (link.ends[0].min(link.ends[1]), link.ends[0].max(link.ends[1]));
        of_gpu.entry(gpu).or_default().push(LinkTier { rate: link.rate, delay: link.delay });
        servers.entry(switch).or_default().insert(gpu / per_server);
    }
    let first = of_gpu.get(&0)?;
    let is_same = (0..gpus).all(|gpu| of_gpu.get(&gpu) == Some(first)) && first.iter().all(|link| *link == first[0]);
    let rate = first[0].rate * first.len() as u64;
    (is_same && servers.values().all(|servers| servers.len() == 1))
        .then_some(LinkTier { rate, delay: first[0].delay * 2 })
}

/// Returns the fabric if each port of GPU g of each server is on a switch of rail g, and each of these is linked alike with each other switch.
fn rails(topology: &Topology, gpus: u32, per_server: u32, server_link: Option<LinkTier>) -> Option<ImportedFabric> {
    let ports = topology.ports_of(0).len();
    let (host_links, fabric_links) = topology.links.split_at_checked(ports * gpus as usize)?;
    let switch = |link: &Link| *link.ends.iter().find(|node| topology.is_switch(**node)).expect("it is a NIC's");
    let is_nics = |link: &Link| link.ends.iter().any(|node| !topology.is_switch(*node));
    if !host_links.iter().all(is_nics) || fabric_links.iter().any(is_nics) {
        return None;
    }
    // Switches of the rails, port by port.
    let mut rails: Vec<u32> = Vec::new();
    for of_port in host_links.chunks(gpus as usize) {
        for link in &of_port[..per_server as usize] {
            if !rails.contains(&switch(link)) {
                rails.push(switch(link));
            }
        }
    }
    let per_port = rails.len() / ports;
    let rail = |number: usize| {
        let (port, gpu) = (number / gpus as usize, number % gpus as usize);
        rails[port * per_port + gpu % per_server as usize % per_port]
    };
    let is_even = per_port > 0 && rails.len() == ports * per_port && (per_server as usize).is_multiple_of(per_port);
    let is_same =
        |links: &[Link]| links.windows(2).all(|pair| (pair[0].rate, pair[0].delay) == (pair[1].rate, pair[1].delay));
    if !is_even
        || host_links.iter().enumerate().any(|(number, link)| switch(link) != rail(number))
        || !is_same(host_links)
        || !is_same(fabric_links)
    {
        return None;
    }
    let spines = topology.switches.len() - rails.len();
    let mut parallel: BTreeMap<[u32; 2], usize> = BTreeMap::new();
    for link in fabric_links {
        let [rail, spine] = match link.ends.map(|node| rails.contains(&node)) {
            [true, false] => link.ends,
            [false, true] => [link.ends[1], link.ends[0]],
            _ => return None,
        };
        *parallel.entry([rail, spine]).or_default() += 1;
    }
    let links = parallel.values().next().copied().unwrap_or(1);
    if parallel.len() != rails.len() * spines || parallel.values().any(|count| *count != links) {
        return None;
    }
    let tier = |link: &Link| LinkTier { rate: link.rate, delay: link.delay };
    let (host, fabric) = (tier(&host_links[0]), tier(fabric_links.first().unwrap_or(&host_links[0])));
    let servers = (gpus / per_server) as usize;
    let shape = FabricShape::Rails {
        servers,
        gpus: per_server as usize,
        rails: per_port,
        ports,
        spines,
        parallel: links,
        server_link,
    };
    Some(ImportedFabric { shape, links: [host, fabric, fabric], topology: None })
}

/// Returns a fabric of single links.
fn links_of(topology: Topology) -> ImportedFabric {
    let hosts = topology.hosts().count();
    let ports = topology.switches.iter().map(|switch| topology.links_of(*switch).count()).max().unwrap_or(PORTS_MAX);
    // Hosts' rates over those of the other links of a switch with hosts, rounded up.
    let oversubscription = |switch: &u32| {
        let (hosts, others): (Vec<&Link>, Vec<&Link>) =
            topology.links_of(*switch).partition(|link| !link.ends.iter().all(|node| topology.is_switch(*node)));
        let rate = |links: Vec<&Link>| links.iter().map(|link| link.rate.as_bps()).sum::<u64>();
        let (hosts, others) = (rate(hosts), rate(others));
        if others == 0 { 1 } else { hosts.div_ceil(others) }
    };
    let oversubscription = topology.switches.iter().map(oversubscription).max().unwrap_or(1).max(1);
    let slowest = topology.links.iter().map(|link| link.rate).min().expect("each GPU has a link");
    let delay = topology.links.iter().map(|link| link.delay).max().unwrap_or_default();
    let shape = FabricShape::Links { hosts, ports, oversubscription };
    ImportedFabric { shape, links: [LinkTier { rate: slowest, delay }; 3], topology: Some(topology) }
}
