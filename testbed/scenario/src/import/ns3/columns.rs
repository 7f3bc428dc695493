//! Columns of flow lists: simulators give lines with the same number of values different meanings.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::topology::Topology;
use crate::import::text::{TextLine, seconds};
use weir_units::Span;

/// Meaning of the values of a flow list's lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowColumns(Vec<FlowField>);

/// Meaning of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowField {
    /// Number of the flow, which counts up by one.
    Id,
    /// Node that sends.
    Source,
    /// Node that receives.
    Destination,
    /// Priority group.
    PriorityGroup,
    /// Destination port.
    DestinationPort,
    /// Payload in bytes.
    Bytes,
    /// Payload in full packets.
    Packets,
    /// Start in seconds.
    Start,
    /// Start in nanoseconds.
    StartNanos,
    /// End in seconds, when the simulator's sender stops.
    End,
}

use FlowField::{Bytes, Destination, DestinationPort, End, Id, Packets, PriorityGroup, Source, Start, StartNanos};

const NAMES: [(&str, FlowField); 10] = [
    ("id", Id),
    ("src", Source),
    ("dst", Destination),
    ("pg", PriorityGroup),
    ("dport", DestinationPort),
    ("bytes", Bytes),
    ("packets", Packets),
    ("start", Start),
    ("start-ns", StartNanos),
    ("end", End),
];

/// Columns of HPCC's lists.
const HPCC: &[FlowField] = &[Source, Destination, PriorityGroup, DestinationPort, Bytes, Start];
/// Columns of ConWeave's lists.
const CONWEAVE: &[FlowField] = &[Source, Destination, PriorityGroup, Bytes, Start];
/// Columns of other simulators' lists, which are recognised and never assumed.
const OTHERS: [&[FlowField]; 7] = [
    &[Source, Destination, PriorityGroup, Packets, Start, End],
    &[Id, Source, Destination, PriorityGroup, Bytes, Start],
    &[Id, Source, Destination, Bytes, Start],
    &[Source, Destination, PriorityGroup, Bytes, DestinationPort, Start],
    &[Source, Destination, PriorityGroup, DestinationPort, Bytes, StartNanos],
    &[Source, Destination, PriorityGroup, Bytes, StartNanos],
    &[Source, Destination, Packets, Start, End],
];
/// Latest plausible start and end of a flow.
const INSTANT_MAX: Span = Span::from_secs(100_000);
/// Destination ports of background and incast.
const KINDS: [u64; 2] = [100, 200];
/// Least plausible last start of a list in nanoseconds: a list with earlier starts is of whole seconds.
const NANOS_MIN: u64 = 1_000;

impl FlowColumns {
    /// Returns the columns that a line of this many values has in HPCC's and ConWeave's lists.
    pub(super) fn usual(values: usize) -> Option<FlowColumns> {
        [HPCC, CONWEAVE]
            .into_iter()
            .find(|columns| columns.len() == values)
            .map(|columns| FlowColumns(columns.to_vec()))
    }

    /// Returns the columns of HPCC's lists.
    pub(super) fn hpcc() -> FlowColumns {
        FlowColumns(HPCC.to_vec())
    }

    /// Whether the columns are those of ConWeave's lists.
    pub(super) fn is_conweaves(&self) -> bool {
        self.0 == CONWEAVE
    }

    /// Returns other columns that all lines may have too, as their values would be as plausible.
    pub(super) fn other(lines: &[TextLine<'_>], topology: &Topology) -> Option<FlowColumns> {
        OTHERS.map(|columns| FlowColumns(columns.to_vec())).into_iter().find(|columns| columns.fit(lines, topology))
    }

    /// Number of values of a line.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn has(&self, column: FlowField) -> bool {
        self.0.contains(&column)
    }

    /// Returns the value of a column, if there is such a column.
    pub(super) fn value<'t>(&self, fields: &[&'t str], column: FlowField) -> Option<&'t str> {
        self.0.iter().position(|one| *one == column).map(|place| fields[place])
    }

    /// Describes the flow of a line with these columns: `node 2 to 1: 100 B to port 20000 at 2 s`.
    pub(super) fn describe(&self, fields: &[&str]) -> String {
        let value = |column| self.value(fields, column);
        let mut text = format!(
            "node {} to {}: ",
            value(Source).expect("columns have it"),
            value(Destination).expect("columns have it")
        );
        match (value(Bytes), value(Packets)) {
            (Some(bytes), _) => text += &format!("{bytes} B"),
            (None, packets) => text += &format!("{} packets", packets.unwrap_or_default()),
        }
        if let Some(port) = value(DestinationPort) {
            text += &format!(" to port {port}");
        }
        match (value(Start), value(StartNanos)) {
            (Some(start), _) => text += &format!(" at {start} s"),
            (None, start) => text += &format!(" at {} ns", start.unwrap_or_default()),
        }
        text
    }

    /// Whether all lines have plausible values with these columns, also together.
    fn fit(&self, lines: &[TextLine<'_>], topology: &Topology) -> bool {
        let fits = |line: &TextLine<'_>| line.fields.len() == self.len() && self.fits(&line.fields, topology);
        if lines.is_empty() || !lines.iter().all(fits) {
            return false;
        }
        let column = |column| -> Vec<u64> {
            lines.iter().filter_map(|line| self.value(&line.fields, column)?.parse().ok()).collect()
        };
        let has_ids = match self.has(Id) {
            true if self.has(PriorityGroup) => counts_up(&column(Id)),
            // In ConWeave's lists the third value is a priority group, of which most lists have one.
            true => counts_up(&column(Id)) && !(are_equal(&column(Destination)) && is_class(column(Destination)[0])),
            false => true,
        };
        let has_nanos = !self.has(StartNanos) || column(StartNanos).iter().max() >= Some(&NANOS_MIN);
        let is_exchanged =
            !self.0.ends_with(&[DestinationPort, Start]) || !are_ports(&column(Bytes), &column(DestinationPort));
        has_ids && has_nanos && is_exchanged
    }

    fn fits(&self, fields: &[&str], topology: &Topology) -> bool {
        let integer = |column| self.value(fields, column).map(|text| text.parse::<u64>().ok());
        let host = |column| {
            let node = integer(column).flatten().and_then(|node| u32::try_from(node).ok());
            node.filter(|node| *node < topology.nodes && !topology.is_switch(*node))
        };
        let instant = |column| self.value(fields, column).map(|text| instant(text, column));
        let joins_two = host(Source).is_some() && host(Destination).is_some() && host(Source) != host(Destination);
        let has_class = integer(PriorityGroup).is_none_or(|pg| pg.is_some_and(|pg| pg <= 7));
        let has_size =
            [Bytes, Packets].map(integer).into_iter().flatten().all(|size| size.is_some_and(|size| size > 0));
        let has_port = integer(DestinationPort).is_none_or(|port| port.is_some_and(|port| port <= u64::from(u16::MAX)));
        let has_id = integer(Id).is_none_or(|id| id.is_some());
        let starts = [Start, StartNanos].map(instant).into_iter().flatten().all(|start| start.is_some());
        let ends = instant(End).is_none_or(|end| end.is_some() && Some(end) >= instant(Start));
        joins_two && has_class && has_size && has_port && has_id && starts && ends
    }
}

/// Whether values that HPCC's lists have as destination ports are more plausible as such than those that they have as sizes: as ports
/// count up, or are fewer, or are smaller and as few. The ports that mean background and incast may be of equal sizes.
fn are_ports(ports: &[u64], sizes: &[u64]) -> bool {
    let distinct = |values: &[u64]| values.iter().collect::<BTreeSet<_>>().len();
    let count_up = |values: &[u64]| values.len() > 1 && counts_up(values);
    let are_smaller = || ports.iter().zip(sizes).all(|(port, size)| port < size);
    match [count_up(ports), count_up(sizes)] {
        [true, false] => true,
        [false, true] => false,
        _ if distinct(ports) < distinct(sizes) => true,
        _ => are_smaller() && (distinct(ports) == distinct(sizes) || ports.iter().all(|port| KINDS.contains(port))),
    }
}

fn counts_up(values: &[u64]) -> bool {
    values.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]))
}

fn are_equal(values: &[u64]) -> bool {
    values.windows(2).all(|pair| pair[0] == pair[1])
}

fn is_class(value: u64) -> bool {
    (1..=7).contains(&value)
}

impl fmt::Display for FlowColumns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |column: &FlowField| NAMES.iter().find(|(_, of)| of == column).expect("all columns have names").0;
        f.write_str(&self.0.iter().map(name).collect::<Vec<_>>().join(" "))
    }
}

impl FromStr for FlowColumns {
    type Err = String;

    /// Parses names of columns, separated by blanks: `src dst pg packets start end`.
    ///
    /// # Errors
    /// Unknown and repeated names, and a list without nodes, size or start, as a message.
    fn from_str(text: &str) -> Result<FlowColumns, String> {
        let known = || NAMES.map(|(name, _)| name).join(", ");
        let mut columns = Vec::new();
        for word in text.split_whitespace() {
            let found = NAMES.iter().find(|(name, _)| *name == word);
            let (_, column) = found.ok_or_else(|| format!("\"{word}\" is no column; write some of {}", known()))?;
            if columns.contains(column) {
                return Err(format!("\"{word}\" is named twice; name each column once"));
            }
            columns.push(*column);
        }
        let one_of = |either: &[FlowField]| columns.iter().filter(|column| either.contains(column)).count() == 1;
        for (either, what) in [
            (&[Source][..], "src"),
            (&[Destination], "dst"),
            (&[Bytes, Packets], "bytes or packets"),
            (&[Start, StartNanos], "start or start-ns"),
        ] {
            if !one_of(either) {
                let help = "write the columns in their order, like \"src dst pg packets start end\"";
                return Err(format!("a flow needs {what}, once; {help}"));
            }
        }
        Ok(FlowColumns(columns))
    }
}

/// Parses a start or end; nanoseconds are whole.
pub(super) fn instant(text: &str, column: FlowField) -> Option<Span> {
    let at = match column {
        StartNanos => text.parse().ok().and_then(|nanos: u64| nanos.checked_mul(1_000)).map(Span::from_picos),
        _ => seconds(text),
    };
    at.filter(|at| *at <= INSTANT_MAX)
}
