//! `events.csv` and `fct.csv`: events and completed messages.

use std::io::{self, Write};

use weir_units::{Bytes, Class, Span, Time};

use super::{csv_error, micros};

/// Writer of a row for each event, in the order in which they are recorded. Columns:
///
/// | column | content |
/// |---|---|
/// | `t_us` | scenario time, microseconds to the picosecond |
/// | `port` | the switch's port, or empty |
/// | `class` | 0 to 7, or empty |
/// | `event` | see [`EventKind`] |
/// | `detail` | number or word, depending on the event; else empty |
pub struct EventWriter<W: Write> {
    csv: csv::Writer<W>,
}

/// Kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind<'a> {
    /// `pause_sent`: the switch paused a running class at its peer; detail: quanta.
    PauseSent(u16),
    /// `pause_refreshed`: the switch repeated the PAUSE; detail: quanta.
    PauseRefreshed(u16),
    /// `resume_sent`: the switch resumed the class at its peer.
    ResumeSent,
    /// `pause_received`: the port's host paused the class, for the first time or again; detail: quanta.
    PauseReceived(u16),
    /// `resume_received`: the port's host resumed the class.
    ResumeReceived,
    /// `drop`: the switch dropped frames; detail: reason and number, `headroom_violation 3`.
    Drop {
        /// Name of the reason.
        reason: &'a str,
        /// Number of frames.
        frames: u64,
    },
    /// `stage_sent`: the switch advertised another stage of GFC to its peer; detail: the stage.
    StageSent(u16),
    /// `stage_received`: the port's host advertised another stage of GFC; detail: the stage.
    StageReceived(u16),
    /// `link_up`: the port's link came up.
    LinkUp,
    /// `link_down`: the port's link went down.
    LinkDown,
    /// `storm_detected`: the PFC watchdog found a storm on the queue; detail: number since the previous event.
    StormDetected(u64),
    /// `storm_restored`: a storm was over; detail: number since the previous event.
    StormRestored(u64),
    /// `device_lost`: the port's device lost frames; detail: cause and number, `receive_full 3`.
    DeviceLost {
        /// Name of the cause.
        cause: &'a str,
        /// Number of frames.
        frames: u64,
    },
    /// `device_removed`: the port's device was removed, as an unplugged NIC.
    DeviceRemoved,
    /// `lldp_neighbour_found`: the port's neighbour sent its first LLDPDU; detail: its name and port.
    NeighbourFound(&'a str),
    /// `lldp_neighbour_lost`: the neighbour's LLDPDU expired or was withdrawn; detail: its name and port.
    NeighbourLost(&'a str),
    /// `pfc_mismatch`: the neighbour has PFC in other classes, and does not adopt the port's; detail: its classes, the port's.
    PfcMismatch(&'a str),
    /// `port_loop`: the port hears another port of the switch, and is closed; detail: that port.
    PortLoop(&'a str),
    /// `storm_control`: storm control dropped frames from the port; detail: number since the previous event.
    StormControl(u64),
    /// `stations_refused`: the port has its maximum of stations; detail: number of frames of others since the previous event.
    StationsRefused(u64),
    /// `mac_move`: a station moves between two ports repeatedly; detail: its address, the other port.
    MacMove(&'a str),
    /// `deadlock`: a cycle of queues wait for each other permanently; detail: the cycle.
    Deadlock(&'a str),
    /// `mark`: the scenario reached a named point; detail: its name.
    Mark(&'a str),
}

impl<W: Write> EventWriter<W> {
    /// Writes the header.
    pub fn new(writer: W) -> io::Result<EventWriter<W>> {
        let mut csv = csv::Writer::from_writer(writer);
        csv.write_record(["t_us", "port", "class", "event", "detail"]).map_err(csv_error)?;
        csv.flush()?;
        Ok(EventWriter { csv })
    }

    /// Adds an event; `port` is empty if none is concerned.
    pub fn write(&mut self, at: Time, port: &str, class: Option<Class>, kind: EventKind<'_>) -> io::Result<()> {
        let class = class.map_or_else(String::new, |class| class.index().to_string());
        let row = [micros(at), port.to_owned(), class, kind.name().to_owned(), kind.detail()];
        self.csv.write_record(row).map_err(csv_error)
    }

    /// Flushes the buffered rows.
    pub fn flush(&mut self) -> io::Result<()> {
        self.csv.flush()
    }
}

impl EventKind<'_> {
    /// Returns the name in the file.
    pub fn name(&self) -> &'static str {
        match self {
            EventKind::PauseSent(_) => "pause_sent",
            EventKind::PauseRefreshed(_) => "pause_refreshed",
            EventKind::ResumeSent => "resume_sent",
            EventKind::PauseReceived(_) => "pause_received",
            EventKind::ResumeReceived => "resume_received",
            EventKind::Drop { .. } => "drop",
            EventKind::StageSent(_) => "stage_sent",
            EventKind::StageReceived(_) => "stage_received",
            EventKind::LinkUp => "link_up",
            EventKind::LinkDown => "link_down",
            EventKind::StormDetected(_) => "storm_detected",
            EventKind::StormRestored(_) => "storm_restored",
            EventKind::DeviceLost { .. } => "device_lost",
            EventKind::DeviceRemoved => "device_removed",
            EventKind::NeighbourFound(_) => "lldp_neighbour_found",
            EventKind::NeighbourLost(_) => "lldp_neighbour_lost",
            EventKind::PfcMismatch(_) => "pfc_mismatch",
            EventKind::PortLoop(_) => "port_loop",
            EventKind::StormControl(_) => "storm_control",
            EventKind::StationsRefused(_) => "stations_refused",
            EventKind::MacMove(_) => "mac_move",
            EventKind::Deadlock(_) => "deadlock",
            EventKind::Mark(_) => "mark",
        }
    }

    /// Returns the text of the column `detail`.
    pub fn detail(&self) -> String {
        match self {
            EventKind::PauseSent(number)
            | EventKind::PauseRefreshed(number)
            | EventKind::PauseReceived(number)
            | EventKind::StageSent(number)
            | EventKind::StageReceived(number) => number.to_string(),
            EventKind::StormDetected(number)
            | EventKind::StormRestored(number)
            | EventKind::StormControl(number)
            | EventKind::StationsRefused(number) => number.to_string(),
            EventKind::ResumeSent
            | EventKind::ResumeReceived
            | EventKind::LinkUp
            | EventKind::LinkDown
            | EventKind::DeviceRemoved => String::new(),
            EventKind::Drop { reason, frames } | EventKind::DeviceLost { cause: reason, frames } => {
                format!("{reason} {frames}")
            }
            EventKind::NeighbourFound(text)
            | EventKind::NeighbourLost(text)
            | EventKind::PfcMismatch(text)
            | EventKind::PortLoop(text)
            | EventKind::MacMove(text)
            | EventKind::Mark(text)
            | EventKind::Deadlock(text) => (*text).to_owned(),
        }
    }
}

/// Writer of a row for each message. Columns:
///
/// | column | content |
/// |---|---|
/// | `flow` | name of the flow |
/// | `released_us` | instant at which the message was handed to the NIC, scenario time, microseconds to the picosecond |
/// | `bytes` | payload |
/// | `fct_us` | time from then to the arrival of the acknowledgement, microseconds; empty if unfinished at the end of the run |
/// | `from`, `to` | the hosts |
/// | `ideal_us` | completion time in an empty fabric, microseconds; empty if unknown, as on DPDK |
pub struct FctWriter<W: Write> {
    csv: csv::Writer<W>,
}

/// Message that was completed, or was unfinished at the end of the run.
#[derive(Clone, Copy, Debug)]
pub struct FctRow<'a> {
    /// Name of the flow or traffic.
    pub flow: &'a str,
    /// Name of the sending host.
    pub from: &'a str,
    /// Name of the receiving host.
    pub to: &'a str,
    /// Instant at which the message was handed to the NIC.
    pub released: Time,
    /// Payload.
    pub size: Bytes,
    /// Flow completion time; `None` if unfinished.
    pub fct: Option<Span>,
    /// Flow completion time in an empty fabric, if known.
    pub ideal: Option<Span>,
}

impl<W: Write> FctWriter<W> {
    /// Writes the header.
    pub fn new(writer: W) -> io::Result<FctWriter<W>> {
        let mut csv = csv::Writer::from_writer(writer);
        csv.write_record(["flow", "released_us", "bytes", "fct_us", "from", "to", "ideal_us"]).map_err(csv_error)?;
        csv.flush()?;
        Ok(FctWriter { csv })
    }

    /// Adds a message.
    pub fn write(&mut self, row: &FctRow<'_>) -> io::Result<()> {
        let span = |span: Span| micros(Time::ZERO + span);
        let (released, bytes) = (micros(row.released), row.size.get().to_string());
        let [fct, ideal] = [row.fct, row.ideal].map(|time| time.map_or_else(String::new, span));
        self.csv.write_record([row.flow, &released, &bytes, &fct, row.from, row.to, &ideal]).map_err(csv_error)
    }

    /// Flushes the buffered rows.
    pub fn flush(&mut self) -> io::Result<()> {
        self.csv.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_row() {
        let mut text = Vec::new();
        let mut events = EventWriter::new(&mut text).unwrap();
        let (at, class) = (Time::from_nanos(1_500), Some(Class::new(3)));
        events.write(at, "", None, EventKind::Mark("burst starts")).unwrap();
        events.write(at, "p0", class, EventKind::PauseSent(65_535)).unwrap();
        events.write(at, "p0", class, EventKind::ResumeSent).unwrap();
        events.write(at, "p0", class, EventKind::Drop { reason: "headroom_violation", frames: 3 }).unwrap();
        events.flush().unwrap();
        drop(events);
        let expected = "t_us,port,class,event,detail\n\
                        1.500000,,,mark,burst starts\n\
                        1.500000,p0,3,pause_sent,65535\n\
                        1.500000,p0,3,resume_sent,\n\
                        1.500000,p0,3,drop,headroom_violation 3\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn messages_have_their_times() {
        let mut text = Vec::new();
        let mut fcts = FctWriter::new(&mut text).unwrap();
        let message = FctRow {
            flow: "burst 1",
            from: "H1",
            to: "H2",
            released: Time::from_nanos(7),
            size: Bytes::kb(64),
            fct: Some(Span::from_picos(5_480_001)),
            ideal: None,
        };
        fcts.write(&message).unwrap();
        fcts.write(&FctRow { ideal: Some(Span::from_micros(5)), ..message }).unwrap();
        fcts.write(&FctRow { fct: None, ..message }).unwrap();
        fcts.flush().unwrap();
        drop(fcts);
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "flow,released_us,bytes,fct_us,from,to,ideal_us\nburst 1,0.007000,64000,5.480001,H1,H2,\n\
             burst 1,0.007000,64000,5.480001,H1,H2,5.000000\nburst 1,0.007000,64000,,H1,H2,\n"
        );
    }
}
