//! `series.csv`: the state of flows, queues and the pool over time.

use std::io::{self, Write};

use weir_mmu::policy::{BUFFER_POLICIES, Gauge, Gauges};
use weir_units::{BitRate, Bytes, Class, Span, Time};

use super::{csv_error, micros};

/// Writer of a row for each sample. Columns, in this order:
///
/// | column | content |
/// |---|---|
/// | `t_us` | instant of the sample in scenario time, microseconds to the picosecond |
/// | `FLOW.sent_bps` | payload that the flow's sender transmitted since the previous row, bits a second |
/// | `FLOW.received_bps` | payload that the receiver got since the previous row, bits a second |
/// | `FLOW.GAUGE` | with `flow_gauges`, each gauge of the flow's congestion control, by name; empty without a value |
/// | `PORT.CLASS.rx_bps` | traffic received since the previous row, with FCS, preamble and gap, bits a second |
/// | `PORT.CLASS.ingress_bytes` | occupancy of the ingress queue: private, shared and headroom |
/// | `PORT.CLASS.headroom_bytes` | headroom part of this occupancy |
/// | `PORT.CLASS.threshold_bytes` | T(t), the threshold of the shared part; empty if there is none |
/// | `PORT.CLASS.egress_bytes` | occupancy of the egress queue |
/// | `PORT.CLASS.paused` | 1 while the switch has its peer paused, else 0 |
/// | `PORT.CLASS.paused_us` | total time for which the peer was paused, microseconds |
/// | `PORT.CLASS.peer_rate_bps` | GFC: rate that the peer was set, bits a second; empty under other flow controls |
/// | `PORT.CLASS.GAUGE` | each gauge of the buffer policies, by name; empty under policies without it |
/// | `PORT.CLASS.GAUGE` | each gauge of the port's flow control, by name |
/// | `POOL.used_bytes` | bytes in use of the shared segment |
/// | `POOL.capacity_bytes` | size of the shared segment |
///
/// Weir's own policies have two gauges: `victim` (SPFC: 1 while the port is in the victim state, else 0), and
/// `headroom_estimate_bytes` (DSH: φ̂; adaptive headroom: Φ as measured).
///
/// With one switch a port is `p0` and the pool `pool`; with several they are `S1.p0` and `S1.pool`.
pub struct SeriesWriter<W: Write> {
    csv: csv::Writer<W>,
    last: Time,
    /// Counters of each flow at the previous row.
    flows: Vec<FlowSample>,
    /// Number of gauges of each flow.
    flow_gauges: Vec<usize>,
    /// Bytes received by each queue at the previous row.
    received: Vec<Bytes>,
    /// Names of the policies' gauges.
    gauges: Vec<&'static str>,
    pools: usize,
    /// Gauges of each queue's flow control.
    control_gauges: Vec<&'static [Gauge]>,
    row: csv::StringRecord,
}

/// Columns of a series.
#[derive(Clone, Debug, Default)]
pub struct SeriesColumns {
    /// Flows' names.
    pub flows: Vec<String>,
    /// Names of each flow's gauges; empty without gauges.
    pub flow_gauges: Vec<Vec<&'static str>>,
    /// Names and classes of the ports.
    pub queues: Vec<(String, Class)>,
    /// Gauges of the flow control of each queue's port.
    pub gauges: Vec<&'static [Gauge]>,
    /// Names of the switches' shared segments.
    pub pools: Vec<String>,
}

/// A flow's counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowSample {
    /// Payload sent.
    pub sent: Bytes,
    /// Payload received.
    pub received: Bytes,
}

/// A port and class at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSample {
    /// Bytes received since the start, with FCS, preamble and gap.
    pub received: Bytes,
    /// Occupancy of the ingress queue.
    pub ingress: Bytes,
    /// Headroom part of the occupancy.
    pub headroom: Bytes,
    /// T(t), if the policy has one.
    pub threshold: Option<Bytes>,
    /// Occupancy of the egress queue.
    pub egress: Bytes,
    /// Whether the peer is paused.
    pub paused: bool,
    /// Total time for which the peer was paused.
    pub paused_for: Span,
    /// Rate that the peer was set, under GFC.
    pub peer_rate: Option<BitRate>,
    /// Gauges of the policy.
    pub gauges: Gauges,
    /// Gauges of the port's flow control.
    pub control_gauges: Gauges,
}

/// The shared segment at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolSample {
    /// Bytes in use.
    pub used: Bytes,
    /// Size.
    pub capacity: Bytes,
}

impl SeriesColumns {
    fn gauges_of(&self, flow: usize) -> &[&'static str] {
        self.flow_gauges.get(flow).map_or(&[], Vec::as_slice)
    }
}

impl<W: Write> SeriesWriter<W> {
    /// Writes the header; the first row's rates count from `start`.
    pub fn new(writer: W, start: Time, columns: &SeriesColumns) -> io::Result<SeriesWriter<W>> {
        let mut csv = csv::Writer::from_writer(writer);
        let gauges: Vec<&'static str> = BUFFER_POLICIES.gauges().iter().map(|gauge| gauge.name).collect();
        csv.write_record(header(columns, &gauges)).map_err(csv_error)?;
        csv.flush()?;
        Ok(SeriesWriter {
            csv,
            last: start,
            flows: vec![FlowSample::default(); columns.flows.len()],
            flow_gauges: (0..columns.flows.len()).map(|flow| columns.gauges_of(flow).len()).collect(),
            received: vec![Bytes::ZERO; columns.queues.len()],
            gauges,
            pools: columns.pools.len(),
            control_gauges: columns.gauges.clone(),
            row: csv::StringRecord::new(),
        })
    }

    /// Adds a sample of each flow, flow gauge, queue and pool, in the order of the columns. A NaN gauge has no value.
    ///
    /// # Panics
    /// If a slice's length differs from the number of its columns.
    pub fn write(
        &mut self,
        at: Time,
        flows: &[FlowSample],
        flow_gauges: &[f64],
        queues: &[QueueSample],
        pools: &[PoolSample],
    ) -> io::Result<()> {
        assert_eq!(flow_gauges.len(), self.flow_gauges.iter().sum::<usize>(), "a value of each gauge");
        let mut flow_gauges = flow_gauges.iter();
        let columns = (self.flows.len(), self.received.len(), self.pools);
        assert_eq!((flows.len(), queues.len(), pools.len()), columns, "a sample of each column");
        let span = at.since(self.last);
        self.row.clear();
        self.row.push_field(&micros(at));
        for ((now, before), gauges) in flows.iter().zip(&self.flows).zip(&self.flow_gauges) {
            self.row.push_field(&rate(now.sent, before.sent, span));
            self.row.push_field(&rate(now.received, before.received, span));
            for value in flow_gauges.by_ref().take(*gauges) {
                self.row.push_field(&if value.is_nan() { String::new() } else { value.to_string() });
            }
        }
        for ((queue, before), of_control) in queues.iter().zip(&mut self.received).zip(&self.control_gauges) {
            self.row.push_field(&rate(queue.received, *before, span));
            *before = queue.received;
            self.row.push_field(&queue.ingress.get().to_string());
            self.row.push_field(&queue.headroom.get().to_string());
            self.row.push_field(&or_empty(queue.threshold));
            self.row.push_field(&queue.egress.get().to_string());
            self.row.push_field(if queue.paused { "1" } else { "0" });
            self.row.push_field(&micros(Time::ZERO + queue.paused_for));
            self.row.push_field(&queue.peer_rate.map_or_else(String::new, |rate| rate.as_bps().to_string()));
            let of_policy = self.gauges.iter().map(|name| queue.gauges.value(name));
            for value in of_policy.chain(of_control.iter().map(|gauge| queue.control_gauges.value(gauge.name))) {
                self.row.push_field(&value.map_or_else(String::new, |value| value.to_string()));
            }
        }
        for pool in pools {
            self.row.push_field(&pool.used.get().to_string());
            self.row.push_field(&pool.capacity.get().to_string());
        }
        self.csv.write_record(&self.row).map_err(csv_error)?;
        self.flows.copy_from_slice(flows);
        self.last = at;
        Ok(())
    }

    /// Flushes the buffered rows.
    pub fn flush(&mut self) -> io::Result<()> {
        self.csv.flush()
    }
}

/// Series read from a file.
#[derive(Clone, Debug, Default)]
pub struct Series {
    columns: Vec<String>,
    rows: Vec<Vec<f64>>,
}

impl Series {
    /// Reads the output of a [`SeriesWriter`].
    pub fn read(reader: impl io::Read) -> io::Result<Series> {
        let mut csv = csv::Reader::from_reader(reader);
        let columns = csv.headers().map_err(csv_error)?.iter().map(str::to_owned).collect();
        let mut rows = Vec::new();
        for record in csv.records() {
            let record = record.map_err(csv_error)?;
            let number = |field: &str| match field {
                "" => Ok(f64::NAN),
                field => field.parse(),
            };
            let row: Result<Vec<f64>, _> = record.iter().map(number).collect();
            rows.push(row.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?);
        }
        Ok(Series { columns, rows })
    }

    /// Returns a column by name, as pairs of instant in microseconds and value; NaN where the field is empty. `None` if there is
    /// no such column.
    pub fn column(&self, name: &str) -> Option<impl Iterator<Item = (f64, f64)> + '_> {
        let place = self.columns.iter().position(|column| column == name)?;
        Some(self.rows.iter().map(move |row| (row[0], row[place])))
    }
}

/// Suffixes of a flow's columns, gauges excluded.
pub const FLOW_COLUMNS: [&str; 2] = ["sent_bps", "received_bps"];

/// Suffixes of a queue's columns, gauges excluded.
pub const QUEUE_COLUMNS: [&str; 8] = [
    "rx_bps",
    "ingress_bytes",
    "headroom_bytes",
    "threshold_bytes",
    "egress_bytes",
    "paused",
    "paused_us",
    "peer_rate_bps",
];

fn header(columns: &SeriesColumns, gauges: &[&str]) -> Vec<String> {
    let flows = columns.flows.iter().enumerate().flat_map(|(n, flow)| {
        let of_flow = FLOW_COLUMNS.iter().chain(columns.gauges_of(n));
        of_flow.map(move |what| format!("{flow}.{what}"))
    });
    let queues = columns.queues.iter().zip(&columns.gauges).flat_map(|((port, class), of_control)| {
        let of_control = of_control.iter().map(|gauge| gauge.name);
        let of_queue = QUEUE_COLUMNS.into_iter().chain(gauges.iter().copied()).chain(of_control);
        of_queue.map(|what| format!("{port}.{}.{what}", class.index())).collect::<Vec<_>>()
    });
    let pools =
        columns.pools.iter().flat_map(|pool| ["used_bytes", "capacity_bytes"].map(|what| format!("{pool}.{what}")));
    std::iter::once("t_us".to_owned()).chain(flows).chain(queues).chain(pools).collect()
}

fn or_empty(bytes: Option<Bytes>) -> String {
    bytes.map_or_else(String::new, |bytes| bytes.get().to_string())
}

/// Formats a difference as a rate in bits a second, rounded down; 0 over an empty span.
fn rate(now: Bytes, before: Bytes, span: Span) -> String {
    BitRate::average(now.saturating_sub(before), span).map_or(0, |rate| rate.as_bps()).to_string()
}

#[cfg(test)]
mod tests {
    use weir_mmu::policy::{HEADROOM_ESTIMATE, VICTIM};

    use super::*;

    const STOPS: &[Gauge] = &[Gauge::plain("stops", "A test's.")];

    #[test]
    fn rows_match_the_header() {
        let columns = SeriesColumns {
            flows: vec!["F1".into()],
            flow_gauges: vec![vec!["rate_bps", "alpha"]],
            queues: vec![("p0".into(), Class::new(3))],
            gauges: vec![STOPS],
            pools: vec!["pool".into()],
        };
        let mut text = Vec::new();
        let mut series = SeriesWriter::new(&mut text, Time::ZERO, &columns).unwrap();
        let pool = [PoolSample { used: Bytes::new(7), capacity: Bytes::mb(1) }];
        let mut queue = QueueSample { ingress: Bytes::new(5), headroom: Bytes::new(1), ..QueueSample::default() };
        let mut flow = FlowSample { sent: Bytes::new(1_250), received: Bytes::ZERO };
        series.write(Time::from_picos(1_000_001), &[flow], &[1e11, 0.5], &[queue], &pool).unwrap();
        flow.received = Bytes::new(12_500);
        queue = QueueSample {
            received: Bytes::new(125),
            threshold: Some(Bytes::new(9)),
            egress: Bytes::new(4),
            paused: true,
            paused_for: Span::from_nanos(1_500),
            peer_rate: Some(BitRate::gbps(5)),
            gauges: Gauges::new([(&VICTIM, 1), (&HEADROOM_ESTIMATE, 60)]),
            control_gauges: Gauges::new([(&STOPS[0], 11)]),
            ..queue
        };
        series.write(Time::from_picos(2_000_001), &[flow], &[5e9, f64::NAN], &[queue], &pool).unwrap();
        series.flush().unwrap();
        drop(series);
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "t_us,F1.sent_bps,F1.received_bps,F1.rate_bps,F1.alpha,p0.3.rx_bps,p0.3.ingress_bytes,p0.3.headroom_bytes,p0.3.threshold_bytes,\
             p0.3.egress_bytes,p0.3.paused,p0.3.paused_us,p0.3.peer_rate_bps,p0.3.victim,p0.3.headroom_estimate_bytes,p0.3.stops,pool.used_bytes,pool.capacity_bytes"
        );
        assert_eq!(lines[1], "1.000001,9999990000,0,100000000000,0.5,0,5,1,,0,0,0.000000,,,,,7,1000000");
        let series = Series::read(text.as_bytes()).unwrap();
        let rx: Vec<_> = series.column("p0.3.rx_bps").unwrap().collect();
        assert_eq!(rx, [(1.000_001, 0.0), (2.000_001, 1e9)]);
        assert!(series.column("p0.3.victim").unwrap().next().unwrap().1.is_nan());
        assert!(series.column("p1.3.rx_bps").is_none());
        assert_eq!(
            lines[2],
            "2.000001,0,100000000000,5000000000,,1000000000,5,1,9,4,1,1.500000,5000000000,1,60,11,7,1000000"
        );
    }
}
