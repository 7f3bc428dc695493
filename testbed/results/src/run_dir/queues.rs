//! `queues.csv`: occupancy of all queues at chosen instants.

use std::io::{self, Write};

use weir_switch_core::report::ClassReport;
use weir_units::{Class, Time};

use super::{csv_error, micros};

/// Writer of a row for each instant, port and class whose queues are not empty, or that is OFF or blocked. Columns:
///
/// | column | content |
/// |---|---|
/// | `t_us` | scenario time, microseconds to the picosecond |
/// | `port` | switch port |
/// | `class` | 0 to 7 |
/// | `private_bytes`, `shared_bytes`, `headroom_bytes` | occupancy of the ingress queue in each segment |
/// | `threshold_bytes` | Xoff, the policy's current threshold |
/// | `off` | 1 if the peer should be paused, else 0 |
/// | `egress_bytes` | occupancy of the egress queue |
/// | `blocked_ports` | number of ingress ports with frames in the egress queue while the peer blocks it |
pub struct QueueWriter<W: Write> {
    csv: csv::Writer<W>,
}

impl<W: Write> QueueWriter<W> {
    /// Writes the header.
    pub fn new(writer: W) -> io::Result<QueueWriter<W>> {
        let mut csv = csv::Writer::from_writer(writer);
        let header = [
            "t_us",
            "port",
            "class",
            "private_bytes",
            "shared_bytes",
            "headroom_bytes",
            "threshold_bytes",
            "off",
            "egress_bytes",
            "blocked_ports",
        ];
        csv.write_record(header).map_err(csv_error)?;
        csv.flush()?;
        Ok(QueueWriter { csv })
    }

    /// Adds both queues of a port's class, unless they are empty and the class is neither OFF nor blocked.
    pub fn write(&mut self, at: Time, port: &str, class: Class, queues: &ClassReport) -> io::Result<()> {
        let ingress = &queues.ingress;
        let held = [ingress.private, ingress.shared, ingress.headroom, queues.egress].map(|bytes| bytes.get());
        if held == [0; 4] && !ingress.off && queues.blocked_from.is_empty() {
            return Ok(());
        }
        let [private, shared, headroom, egress] = held.map(|bytes| bytes.to_string());
        // A port's queues follow each other.
        let blocked_ports = queues.blocked_from.chunk_by(|one, next| one.port() == next.port());
        let (threshold, blocked) = (ingress.threshold.get().to_string(), blocked_ports.count().to_string());
        let (class, off) = (class.index().to_string(), if ingress.off { "1" } else { "0" });
        let row = [&micros(at), port, &class, &private, &shared, &headroom, &threshold, off, &egress, &blocked];
        self.csv.write_record(row).map_err(csv_error)
    }

    /// Flushes the buffered rows.
    pub fn flush(&mut self) -> io::Result<()> {
        self.csv.flush()
    }
}
