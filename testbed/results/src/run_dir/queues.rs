//! `queues.csv`: what stands in all queues at chosen instants.

use std::io::{self, Write};

use weir_switch_core::report::ClassReport;
use weir_units::{Class, Time};

use super::{csv_error, micros};

/// Writes a row for each class of each port, at each of the instants, that holds something, is OFF, or may not send. Columns:
///
/// | column | is |
/// |---|---|
/// | `t_us` | scenario time, microseconds to the picosecond |
/// | `port` | the switch's port |
/// | `class` | 0 to 7 |
/// | `private_bytes`, `shared_bytes`, `headroom_bytes` | what the ingress queue holds, by where it is charged |
/// | `threshold_bytes` | Xoff, as the policy has it now |
/// | `off` | 1 if the peer should be paused, else 0 |
/// | `egress_bytes` | what the egress queue holds |
/// | `blocked_ports` | from how many ingress ports the egress queue holds frames while its peer lets it send nothing |
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

    /// Adds both queues of a port's class, unless they are empty and free.
    pub fn write(&mut self, at: Time, port: &str, class: Class, queues: &ClassReport) -> io::Result<()> {
        let ingress = &queues.ingress;
        let held = [ingress.private, ingress.shared, ingress.headroom, queues.egress].map(|bytes| bytes.get());
        if held == [0; 4] && !ingress.off && queues.blocked_from.is_empty() {
            return Ok(());
        }
        let [private, shared, headroom, egress] = held.map(|bytes| bytes.to_string());
        let (threshold, blocked) = (ingress.threshold.get().to_string(), queues.blocked_from.len().to_string());
        let (class, off) = (class.index().to_string(), if ingress.off { "1" } else { "0" });
        let row = [&micros(at), port, &class, &private, &shared, &headroom, &threshold, off, &egress, &blocked];
        self.csv.write_record(row).map_err(csv_error)
    }

    /// Writes out what is buffered.
    pub fn flush(&mut self) -> io::Result<()> {
        self.csv.flush()
    }
}
