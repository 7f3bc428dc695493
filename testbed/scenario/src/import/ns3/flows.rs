//! Flow list, and trace list of watched nodes.

use weir_units::{Bytes, Span};

use super::columns::{FlowColumns, FlowField, instant};
use super::topology::Topology;
use crate::import::ImportErrors;
use crate::import::text::{ErrorCollector, SourceFile, TextLine, count, lines};
use crate::workload::SizeCdf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FlowList {
    /// Name of the file.
    pub(super) file: String,
    pub(super) flows: Vec<Flow>,
    /// Meaning of a line's values.
    pub(super) columns: FlowColumns,
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

const FLOW_EXAMPLE: &str = "write `src dst pg dport bytes start`, like `0 5 3 100 64000 2.0`, or without the dport as ConWeave does, \
                            or say with --flows what the values are";
/// Class of flows without a priority group.
const CLASS: u8 = 3;

impl FlowList {
    /// Reads the file: the number of flows, and a line for each: `src dst pg dport bytes start`, or without the dport, or other columns
    /// if `columns` says so. The start is in seconds, a packet has `payload` bytes.
    ///
    /// # Errors
    /// All lines that are wrong, flows that do not join two hosts of the topology, and lines that other columns fit as well.
    pub(super) fn parse(
        source: &SourceFile,
        topology: &Topology,
        columns: Option<&FlowColumns>,
        payload: u64,
    ) -> Result<FlowList, ImportErrors> {
        let mut complaints = ErrorCollector::new(&source.name);
        let mut lines = lines(&source.text);
        let (announced, first) = match lines.next() {
            Some(line) if line.fields.len() == 1 => (
                complaints.integer(line.number, line.fields[0], "the number of flows", "1000").unwrap_or(0),
                line.number,
            ),
            Some(line) => {
                let problem = format!("a flow list begins with the number of flows, not {} values", line.fields.len());
                return Err(ImportErrors::one(
                    &source.name,
                    Some(line.number),
                    problem,
                    "write it alone on the first line",
                ));
            }
            None => {
                let help = "write the number of flows, and then a line for each";
                return Err(ImportErrors::one(&source.name, Some(1), "the file is empty", help));
            }
        };
        let of_flows: Vec<TextLine<'_>> = lines.by_ref().take(announced as usize).collect();
        let followed = of_flows.len();
        if followed < announced as usize {
            let problem = format!("the first line says {}, but {followed} follow", count(announced as usize, "flow"));
            let last = of_flows.last().map_or(first, |line| line.number);
            complaints.add(last, problem, format!("write a line for each, or {followed} on the first line"));
        }
        let usual = of_flows.first().and_then(|line| FlowColumns::usual(line.fields.len()));
        let columns_of_lines = columns.cloned().or(usual).unwrap_or_else(FlowColumns::hpcc);
        let read = |line: &TextLine<'_>| flow(line, &columns_of_lines, topology, payload, &mut complaints);
        let flows = of_flows.iter().filter_map(read).collect();
        if columns.is_none()
            && let Some(other) = FlowColumns::other(&of_flows, topology)
        {
            // Its start is the largest of most lists.
            let line = if other.has(FlowField::StartNanos) { of_flows.last() } else { of_flows.first() };
            let line = line.expect("other columns fit some lines");
            return Err(ambiguous(&source.name, line, &columns_of_lines, &other, complaints.is_empty()));
        }
        let left_over = lines.count();
        complaints.result(FlowList { file: source.name.clone(), flows, columns: columns_of_lines, left_over })
    }
}

/// Error of a list whose lines other columns fit as well, or alone.
fn ambiguous(
    file: &str,
    line: &TextLine<'_>,
    usual: &FlowColumns,
    other: &FlowColumns,
    is_usual: bool,
) -> ImportErrors {
    let [as_usual, as_other] = [usual, other].map(|columns| columns.describe(&line.fields));
    let (problem, help) = match is_usual {
        true => (
            format!("as `{usual}` this is {as_usual}, and as `{other}` it is {as_other}"),
            format!("say which: --flows \"{usual}\" or --flows \"{other}\""),
        ),
        false => (
            format!("these are no values of `{usual}`; as `{other}` this is {as_other}"),
            format!("say so: --flows \"{other}\", or correct the file"),
        ),
    };
    ImportErrors::one(file, Some(line.number), problem, help)
}

fn flow(
    line: &TextLine<'_>,
    columns: &FlowColumns,
    topology: &Topology,
    payload: u64,
    complaints: &mut ErrorCollector<'_>,
) -> Option<Flow> {
    let TextLine { number: line, ref fields } = *line;
    if fields.len() != columns.len() {
        let problem = format!("a flow has {} values, `{columns}`, this line {}", columns.len(), fields.len());
        let is_usual = FlowColumns::usual(columns.len()).as_ref() == Some(columns);
        complaints.add(
            line,
            problem,
            if is_usual { FLOW_EXAMPLE } else { "write them all, or other columns in --flows" },
        );
        return None;
    }
    let value = |column| columns.value(fields, column);
    let [from, to] = [FlowField::Source, FlowField::Destination]
        .map(|column| host(line, value(column).expect("a list has both"), topology, complaints));
    if let (Some(from), Some(to)) = (from, to)
        && from == to
    {
        complaints.add(line, format!("node {from} is to send to itself"), "write another node");
    }
    let pg = match value(FlowField::PriorityGroup) {
        Some(text) => {
            let lossless = text.parse::<u8>().ok().filter(|pg| (1..=7).contains(pg) && *pg != 6);
            let help = "write 3, or another of 1 to 5 and 7: 0 is the simulator's queue for control frames, and 6 is Weir's class for acknowledgements";
            complaints.value(line, text, "a flow's priority group", help, lossless)
        }
        None => Some(CLASS),
    };
    let dport = match value(FlowField::DestinationPort) {
        Some(text) => {
            let port = text.parse::<u16>().ok().map(u32::from);
            Some(complaints.value(line, text, "a destination port", "write 0 to 65535, like 100", port)?)
        }
        None => None,
    };
    let in_range =
        |bytes: u64| Some(Bytes::new(bytes)).filter(|size| (Bytes::new(1)..=SizeCdf::SIZE_MAX).contains(size));
    let size = match (value(FlowField::Bytes), value(FlowField::Packets)) {
        (Some(text), _) => {
            let help = "write whole bytes from 1 to 10^15, like 64000";
            complaints.value(line, text, "a flow's size", help, text.parse().ok().and_then(in_range))
        }
        (None, packets) => {
            let text = packets.expect("a list has a size");
            let bytes = text.parse::<u64>().ok().and_then(|packets| packets.checked_mul(payload)).and_then(in_range);
            complaints.value(line, text, "a number of packets", "write a whole number, like 64", bytes)
        }
    };
    let column = if columns.has(FlowField::Start) { FlowField::Start } else { FlowField::StartNanos };
    let text = value(column).expect("a list has starts");
    let help = match column {
        FlowField::Start => "write seconds, at most 100000, like 2.000001",
        _ => "write whole nanoseconds, like 2000001000",
    };
    let start = complaints.value(line, text, "a start", help, instant(text, column));
    if let Some(text) = value(FlowField::Id) {
        complaints.value(line, text, "a flow's number", "write a whole number, like 7", text.parse::<u64>().ok())?;
    }
    if let Some(text) = value(FlowField::End) {
        let end = instant(text, FlowField::End).filter(|end| start.is_none_or(|start| *end >= start));
        complaints.value(line, text, "an end", "write seconds, like 2.5, and none before the start", end)?;
    }
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
