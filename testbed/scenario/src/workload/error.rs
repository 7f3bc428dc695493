//! Errors of workloads.

use std::fmt;

use weir_units::{Bytes, Span, Time};

/// Maximum size of a message.
pub(super) const MESSAGE_BYTES_MAX: Bytes = Bytes::mb(1_000_000_000);

/// Error in a workload.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WorkloadError {
    /// The load is zero, or more than a link carries.
    #[error("the load is {0}; write a share of the links' rate above 0 and up to 1, like 0.6 for 60 %")]
    Load(f64),
    /// The framing has frames without payload.
    #[error("a full frame carries no payload; write how much it carries, like 1000B")]
    NoPayload,
    /// The size of a message is out of range.
    #[error("a message of {0} can't be sent; write 1B to {max}", max = MESSAGE_BYTES_MAX)]
    Size(Bytes),
    /// The range of time is empty.
    #[error(
        "messages are to start from {} on and before {}, and no time lies between; write an end after the beginning",
        after_start(*from), after_start(*until)
    )]
    NoTime {
        /// Start of the first message at the earliest.
        from: Time,
        /// End of the starts of messages.
        until: Time,
    },
    /// The period or mean gap is zero.
    #[error("the time from one burst to the next is 0; write 1ps or more")]
    NoPeriod,
    /// The list of hosts is empty.
    #[error("there are no {0}; write one host at least")]
    NoHosts(&'static str),
    /// The list has a host twice.
    #[error("host {host} is twice among the {among}; write each host once")]
    HostTwice {
        /// The host.
        host: u32,
        /// Name of the list.
        among: &'static str,
    },
    /// The host has no group.
    #[error("host {host} is in no group: there are groups of the first {groups} hosts; write the group of every host")]
    NoGroup {
        /// The host.
        host: u32,
        /// Number of hosts with a group.
        groups: usize,
    },
    /// A burst or a sender has too few peers.
    #[error("too few peers for host {host}: {there} of {wanted}; write more hosts, or choose fewer")]
    TooFewPeers {
        /// Host that sends to the peers or receives from them.
        host: u32,
        /// Number of peers needed.
        wanted: usize,
        /// Number of peers available.
        there: usize,
    },
    /// A host is paired with itself.
    #[error("host {0} is to send to itself; write another host")]
    ToItself(u32),
    /// The hosts can't be halved.
    #[error("{0} hosts can't be paired, each of one half with one of the other; write an even number of hosts")]
    OddHostCount(usize),
}

/// Error in a file of dependent messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub(crate) struct ScheduleError {
    pub(crate) place: SchedulePlace,
    /// Description of the error, with a fix.
    pub(crate) message: String,
}

/// Place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchedulePlace {
    /// Line of a text, from 1.
    Line(u32),
    /// Byte of a binary file, from 0.
    Byte(u32),
}

impl ScheduleError {
    pub(super) fn line(line: u32, message: impl Into<String>) -> ScheduleError {
        ScheduleError { place: SchedulePlace::Line(line), message: message.into() }
    }

    pub(super) fn byte(byte: usize, message: impl Into<String>) -> ScheduleError {
        ScheduleError { place: SchedulePlace::Byte(byte as u32), message: message.into() }
    }
}

impl fmt::Display for SchedulePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchedulePlace::Line(line) => write!(f, "line {line}"),
            SchedulePlace::Byte(byte) => write!(f, "byte {byte}"),
        }
    }
}

fn after_start(time: Time) -> Span {
    time.since(Time::ZERO)
}
