//! `series.csv`: the state of flows, queues and the pool over time.

use std::io::{self, Write};

use weir_mmu::policy::{BUFFER_POLICIES, Gauge, Gauges};
use weir_units::{BitRate, Bytes, Class, Span, Time};

use super::{csv_error, micros};

/// Column of a flow, queue or pool.
pub struct SeriesColumn<Sample: 'static, Previous: 'static> {
    /// Name after that of the flow, queue or pool; its ending is the unit.
    pub name: &'static str,
    /// Content, as in `docs/RUN_DIRECTORY.md`.
    pub help: &'static str,
    /// Field of a row: the sample, the previous counters, and the time since then.
    field: fn(&Sample, &Previous, Span) -> String,
}

/// Columns of a flow, before its gauges.
pub const FLOW_COLUMNS: &[SeriesColumn<FlowSample, FlowSample>] = &[
    SeriesColumn {
        name: "sent_bps",
        help: "Payload sent, mean since the previous row; 0 where real hosts' flows share their class.",
        field: |flow, previous, span| rate(flow.sent, previous.sent, span),
    },
    SeriesColumn {
        name: "received_bps",
        help: "Payload received, likewise.",
        field: |flow, previous, span| rate(flow.received, previous.received, span),
    },
];

/// Columns of a queue, before its gauges; the previous counter is that of received bytes.
pub const QUEUE_COLUMNS: &[SeriesColumn<QueueSample, Bytes>] = &[
    SeriesColumn {
        name: "rx_bps",
        help: "Traffic received, likewise, with FCS, preamble and gap.",
        field: |queue, previous, span| rate(queue.received, *previous, span),
    },
    SeriesColumn {
        name: "ingress_bytes",
        help: "Ingress queue: private, shared and headroom.",
        field: |queue, _, _| queue.ingress.get().to_string(),
    },
    SeriesColumn {
        name: "headroom_bytes",
        help: "Headroom part.",
        field: |queue, _, _| queue.headroom.get().to_string(),
    },
    SeriesColumn {
        name: "threshold_bytes",
        help: "T(t), threshold of the shared part; empty without one.",
        field: |queue, _, _| queue.threshold.map_or_else(String::new, |bytes| bytes.get().to_string()),
    },
    SeriesColumn { name: "egress_bytes", help: "Egress queue.", field: |queue, _, _| queue.egress.get().to_string() },
    SeriesColumn {
        name: "paused",
        help: "1 while the switch has its peer paused, else 0.",
        field: |queue, _, _| u8::from(queue.paused).to_string(),
    },
    SeriesColumn {
        name: "paused_us",
        help: "Total paused time so far.",
        field: |queue, _, _| micros(Time::ZERO + queue.paused_for),
    },
    SeriesColumn {
        name: "peer_rate_bps",
        help: "GFC: rate set to the peer; else empty.",
        field: |queue, _, _| queue.peer_rate.map_or_else(String::new, |rate| rate.as_bps().to_string()),
    },
];

/// Columns of a shared segment.
pub const POOL_COLUMNS: &[SeriesColumn<PoolSample, ()>] = &[
    SeriesColumn {
        name: "used_bytes",
        help: "Shared segment in use.",
        field: |pool, (), _| pool.used.get().to_string(),
    },
    SeriesColumn {
        name: "capacity_bytes",
        help: "Shared segment's size.",
        field: |pool, (), _| pool.capacity.get().to_string(),
    },
];

/// Names of columns.
pub fn column_names<Sample, Previous>(
    columns: &'static [SeriesColumn<Sample, Previous>],
) -> impl Iterator<Item = &'static str> + Clone {
    columns.iter().map(|column| column.name)
}

/// Writer of a row for each sample: its instant, [`FLOW_COLUMNS`] and gauges of each flow, [`QUEUE_COLUMNS`] and gauges of each
/// queue, and [`POOL_COLUMNS`] of each shared segment. The gauges of a queue are those of the buffer policies, then those of its
/// port's flow control.
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
            for column in FLOW_COLUMNS {
                self.row.push_field(&(column.field)(now, before, span));
            }
            for value in flow_gauges.by_ref().take(*gauges) {
                self.row.push_field(&if value.is_nan() { String::new() } else { value.to_string() });
            }
        }
        for ((queue, before), of_control) in queues.iter().zip(&mut self.received).zip(&self.control_gauges) {
            for column in QUEUE_COLUMNS {
                self.row.push_field(&(column.field)(queue, before, span));
            }
            *before = queue.received;
            let of_policy = self.gauges.iter().map(|name| queue.gauges.value(name));
            for value in of_policy.chain(of_control.iter().map(|gauge| queue.control_gauges.value(gauge.name))) {
                self.row.push_field(&value.map_or_else(String::new, |value| value.to_string()));
            }
        }
        for pool in pools {
            for column in POOL_COLUMNS {
                self.row.push_field(&(column.field)(pool, &(), span));
            }
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

fn header(columns: &SeriesColumns, gauges: &[&'static str]) -> Vec<String> {
    let flows = columns.flows.iter().enumerate().flat_map(|(n, flow)| {
        let of_flow = column_names(FLOW_COLUMNS).chain(columns.gauges_of(n).iter().copied());
        of_flow.map(move |what| format!("{flow}.{what}"))
    });
    let queues = columns.queues.iter().zip(&columns.gauges).flat_map(|((port, class), of_control)| {
        let of_control = of_control.iter().map(|gauge| gauge.name);
        let of_queue = column_names(QUEUE_COLUMNS).chain(gauges.iter().copied()).chain(of_control);
        of_queue.map(|what| format!("{port}.{}.{what}", class.index())).collect::<Vec<_>>()
    });
    let of_pool = |pool| column_names(POOL_COLUMNS).map(move |column| format!("{pool}.{column}"));
    let pools = columns.pools.iter().flat_map(of_pool);
    std::iter::once("t_us".to_owned()).chain(flows).chain(queues).chain(pools).collect()
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
