//! `events.csv` and `fct.csv`: what happened when.

use std::io::{self, Write};

use weir_units::{Bytes, Class, Span, Time};

use super::{csv_error, micros};

/// Writes a row for each event, in the order in which they are noted. Columns:
///
/// | column | is |
/// |---|---|
/// | `t_us` | scenario time, microseconds to the picosecond |
/// | `port` | the switch's port, or empty |
/// | `class` | 0 to 7, or empty |
/// | `event` | see [`EventKind`] |
/// | `detail` | a number or a word, as the kind has it; else empty |
pub struct EventWriter<W: Write> {
    csv: csv::Writer<W>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind<'a> {
    /// `pause_sent`: the switch told its peer to pause the class, which was running; detail: quanta.
    PauseSent(u16),
    /// `pause_refreshed`: it told it again; detail: quanta.
    PauseRefreshed(u16),
    /// `resume_sent`: the switch told its peer to go on.
    ResumeSent,
    /// `pause_received`: the host behind the port told the switch to pause the class, for the first time or again; detail:
    /// quanta.
    PauseReceived(u16),
    /// `resume_received`: it told the switch to go on.
    ResumeReceived,
    /// `drop`: the switch dropped frames that arrived there; detail: reason and number, `headroom_violation 3`.
    Drop {
        /// The reason's name.
        reason: &'a str,
        /// How many.
        frames: u64,
    },
    /// `stage_sent`: the switch told its peer another stage of GFC; detail: the stage.
    StageSent(u16),
    /// `stage_received`: the host behind the port told the switch another stage of GFC; detail: the stage.
    StageReceived(u16),
    /// `link_up`: the port's link came up.
    LinkUp,
    /// `link_down`: it went down.
    LinkDown,
    /// `storm_detected`: the PFC watchdog found a storm on the queue; detail: how many since the event before.
    StormDetected(u64),
    /// `storm_restored`: a storm was over; detail: how many since the event before.
    StormRestored(u64),
    /// `device_lost`: the port's device lost frames; detail: cause and number, `receive_full 3`.
    DeviceLost {
        /// The cause's name.
        cause: &'a str,
        /// How many.
        frames: u64,
    },
    /// `device_removed`: the port's device was taken away, as a NIC that is unplugged.
    DeviceRemoved,
    /// `deadlock`: queues were found to wait for each other without end; detail: the cycle.
    Deadlock(&'a str),
    /// `mark`: the scenario reached a point; detail: its name.
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

    /// Adds an event; an empty port for one that concerns none.
    pub fn write(&mut self, at: Time, port: &str, class: Option<Class>, kind: EventKind<'_>) -> io::Result<()> {
        let class = class.map_or_else(String::new, |class| class.index().to_string());
        let row = [micros(at), port.to_owned(), class, kind.name().to_owned(), kind.detail()];
        self.csv.write_record(row).map_err(csv_error)
    }

    /// Writes out what is buffered.
    pub fn flush(&mut self) -> io::Result<()> {
        self.csv.flush()
    }
}

impl EventKind<'_> {
    /// The kind's name in the file.
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
            EventKind::Deadlock(_) => "deadlock",
            EventKind::Mark(_) => "mark",
        }
    }

    /// What its column `detail` says.
    pub fn detail(&self) -> String {
        match self {
            EventKind::PauseSent(number)
            | EventKind::PauseRefreshed(number)
            | EventKind::PauseReceived(number)
            | EventKind::StageSent(number)
            | EventKind::StageReceived(number) => number.to_string(),
            EventKind::StormDetected(number) | EventKind::StormRestored(number) => number.to_string(),
            EventKind::ResumeSent
            | EventKind::ResumeReceived
            | EventKind::LinkUp
            | EventKind::LinkDown
            | EventKind::DeviceRemoved => String::new(),
            EventKind::Drop { reason, frames } | EventKind::DeviceLost { cause: reason, frames } => {
                format!("{reason} {frames}")
            }
            EventKind::Mark(text) | EventKind::Deadlock(text) => (*text).to_owned(),
        }
    }
}

/// Writes a row for each completed message. Columns:
///
/// | column | is |
/// |---|---|
/// | `flow` | the flow's name |
/// | `released_us` | when the message was handed to the NIC, scenario time, microseconds to the picosecond |
/// | `bytes` | its payload |
/// | `fct_us` | from then until its acknowledgement arrived, microseconds; empty if that had not happened when the run was over |
/// | `from`, `to` | the hosts |
/// | `ideal_us` | how long it takes in an empty fabric, microseconds; empty where that is not known, as on DPDK |
pub struct FctWriter<W: Write> {
    csv: csv::Writer<W>,
}

/// A message that was completed, or was not when the run was over.
#[derive(Clone, Copy, Debug)]
pub struct FctRow<'a> {
    /// The flow's or traffic's name.
    pub flow: &'a str,
    /// The sending host's.
    pub from: &'a str,
    /// The receiving host's.
    pub to: &'a str,
    /// When it was handed to the NIC.
    pub released: Time,
    /// Its payload.
    pub size: Bytes,
    /// Flow completion time; `None` if it was not completed.
    pub fct: Option<Span>,
    /// What that is in an empty fabric, if it is known.
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

    /// Writes out what is buffered.
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
