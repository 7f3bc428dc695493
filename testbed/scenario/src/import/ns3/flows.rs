//! Flow list, and trace list of watched nodes.

use weir_units::{Bytes, Span};

use super::text::{ErrorCollector, SourceFile, count, decimal, lines, seconds};
use super::topology::Topology;
use crate::import::ImportErrors;
use crate::workload::SizeCdf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FlowList {
    pub(super) flows: Vec<Flow>,
    /// Number of lines after the last flow, which the simulators do not read.
    pub(super) left_over: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) from: u32,
    pub(super) to: u32,
    /// Priority group, which is the class: 1 to 7.
    pub(super) pg: u8,
    /// Destination port, by which the simulators distinguish kinds of flows; `None` in ConWeave's lists.
    pub(super) dport: Option<u32>,
    /// Payload.
    pub(super) size: Bytes,
    /// Start, since the simulation's beginning.
    pub(super) start: Span,
    /// Line in the file, from 1.
    pub(super) line: usize,
}

/// Nodes whose packets the simulator traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TraceList {
    /// Nodes of the topology.
    pub(super) nodes: Vec<u32>,
    /// Numbers of no node, which the simulator skips.
    pub(super) unknown: Vec<u32>,
}

const FLOW_EXAMPLE: &str = "write `source destination pg dport bytes start`, like `0 5 3 100 64000 2.0`, \
                            or without the dport as ConWeave does";

impl FlowList {
    /// Reads the file: the number of flows, and a line for each: `source destination pg dport bytes start`, or without the dport. The
    /// start is in seconds.
    ///
    /// # Errors
    /// All lines that are wrong, and flows that do not join two hosts of the topology.
    pub(super) fn parse(source: &SourceFile, topology: &Topology) -> Result<FlowList, ImportErrors> {
        let mut complaints = ErrorCollector::new(&source.name);
        let mut lines = lines(&source.text);
        let mut list = FlowList { flows: Vec::new(), left_over: 0 };
        let (announced, mut last) = match lines.next() {
            Some(line) if line.fields.len() == 1 => (
                complaints.integer(line.number, line.fields[0], "the number of flows", "1000").unwrap_or(0),
                line.number,
            ),
            Some(line) => {
                let problem = format!("a flow list begins with the number of flows, not {} values", line.fields.len());
                complaints.add(line.number, problem, "write it alone on the first line");
                return complaints.result(list);
            }
            None => {
                complaints.add(1, "the file is empty", "write the number of flows, and then a line for each");
                return complaints.result(list);
            }
        };
        for number in 0..announced {
            let Some(line) = lines.next() else {
                let problem = format!("the first line says {}, but {number} follow", count(announced as usize, "flow"));
                complaints.add(last, problem, format!("write a line for each, or {number} on the first line"));
                break;
            };
            last = line.number;
            list.flows.extend(flow(last, &line.fields, topology, &mut complaints));
        }
        list.left_over = lines.count();
        complaints.result(list)
    }
}

fn flow(line: usize, fields: &[&str], topology: &Topology, complaints: &mut ErrorCollector<'_>) -> Option<Flow> {
    let (from, to, pg, dport, size, start) = match *fields {
        [from, to, pg, dport, size, start] => (from, to, pg, Some(dport), size, start),
        [from, to, pg, size, start] => (from, to, pg, None, size, start),
        _ => {
            complaints.add(line, format!("a flow has 6 or 5 values, this line {}", fields.len()), FLOW_EXAMPLE);
            return None;
        }
    };
    let [from, to] = [from, to].map(|text| host(line, text, topology, complaints));
    if let (Some(from), Some(to)) = (from, to)
        && from == to
    {
        complaints.add(line, format!("node {from} is to send to itself"), "write another node");
    }
    let lossless = pg.parse::<u8>().ok().filter(|pg| (1..=7).contains(pg) && *pg != 6);
    let help = "write 3, or another of 1 to 5 and 7: 0 is the simulator's queue for control frames, and 6 is Weir's class for acknowledgements";
    let pg = complaints.value(line, pg, "a flow's priority group", help, lossless);
    let dport = match dport {
        Some(text) => Some(complaints.integer(line, text, "a destination port", "100")?),
        None => None,
    };
    let bytes = decimal(size, 0).map(Bytes::new).filter(|size| (Bytes::new(1)..=SizeCdf::SIZE_MAX).contains(size));
    let size = complaints.value(line, size, "a flow's size", "write bytes from 1 to 10^15, like 64000", bytes);
    let start = complaints.value(line, start, "a start", "write seconds, like 2.000001", seconds(start));
    Some(Flow { from: from?, to: to?, pg: pg?, dport, size: size?, start: start?, line })
}

fn host(line: usize, text: &str, topology: &Topology, complaints: &mut ErrorCollector<'_>) -> Option<u32> {
    let node = complaints.integer(line, text, "a node", "5")?;
    if node >= topology.nodes {
        let help = format!("write 0 to {}", topology.nodes - 1);
        complaints.add(line, format!("the topology has no node {node}"), help);
    } else if topology.is_switch(node) {
        complaints.add(line, format!("node {node} is a switch"), "write a host");
    } else {
        return Some(node);
    }
    None
}

impl TraceList {
    /// Reads the file: the number of nodes, then the nodes, separated by blanks or line ends. Further text is not read.
    ///
    /// # Errors
    /// All fields that are no number, and fewer nodes than announced.
    pub(super) fn parse(source: &SourceFile, topology: &Topology) -> Result<TraceList, ImportErrors> {
        let mut complaints = ErrorCollector::new(&source.name);
        let mut list = TraceList { nodes: Vec::new(), unknown: Vec::new() };
        let mut fields =
            lines(&source.text).flat_map(|line| line.fields.into_iter().map(move |field| (line.number, field)));
        let Some((first, text)) = fields.next() else {
            complaints.add(1, "the file is empty", "write the number of nodes, and then the nodes");
            return complaints.result(list);
        };
        let announced = complaints.integer(first, text, "the number of traced nodes", "2").unwrap_or(0);
        let mut last = first;
        for number in 0..announced {
            let Some((line, text)) = fields.next() else {
                let problem = format!("the first line says {}, but {number} follow", count(announced as usize, "node"));
                complaints.add(last, problem, format!("write each, or {number} on the first line"));
                break;
            };
            last = line;
            let Some(node) = complaints.integer(line, text, "a node", "5") else { continue };
            if node < topology.nodes { list.nodes.push(node) } else { list.unknown.push(node) }
        }
        list.nodes.sort();
        list.nodes.dedup();
        complaints.result(list)
    }
}
