//! TCP on a host: messages as one byte stream, and acknowledgements in their flow's class or a separate one.
//!
//! Without `ack_class` an acknowledgement has the class and code point of the data that it acknowledges, as those
//! of a socket do whose application has set the same on both sides.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use weir_units::{CLASSES, Class, ClassSet, Time};

use super::packet::TcpAck;
use crate::tcp::{Segment, TcpConfig, TcpReceiver, TcpSender};

/// TCP part of a sender.
#[derive(Debug)]
pub(super) struct TcpSendSide {
    pub(super) end: TcpSender,
    /// Messages not acknowledged, oldest first.
    messages: VecDeque<Message>,
    /// Number of these messages that are completely sent.
    sent_messages: usize,
    /// Offset below which all bytes were sent.
    sent: u64,
    /// Payload of a full-sized segment in bytes.
    pub(super) mss: u32,
}

/// Message from its release to its acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    /// Offset of the message's end in the stream.
    end: u64,
    pub(super) size: u64,
    pub(super) released: Time,
}

/// TCP part of a receiver.
#[derive(Debug)]
pub(super) struct TcpReceiveSide {
    pub(super) end: TcpReceiver,
    /// Instant at which the host checks the receiver; [`Time::NEVER`] if none is scheduled.
    pub(super) watched_at: Time,
}

/// Pending acknowledgements of a host's TCP receivers.
#[derive(Debug, Default)]
pub(super) struct PendingAcks {
    /// Classes with acknowledgements that are due.
    classes: ClassSet,
    /// Due acknowledgements by class, with their receivers' places.
    due: [VecDeque<(usize, TcpAck)>; CLASSES],
    /// Instants at which delayed acknowledgements are checked, with the receiver's place and generation; at most one each.
    later: BinaryHeap<Reverse<(Time, usize, u32)>>,
}

impl TcpSendSide {
    pub(super) fn new(config: &TcpConfig) -> TcpSendSide {
        TcpSendSide {
            end: TcpSender::new(config),
            messages: VecDeque::new(),
            sent_messages: 0,
            sent: 0,
            mss: config.mss,
        }
    }

    /// Adds a released message to the stream.
    pub(super) fn write(&mut self, released: Time, size: u64) {
        self.end.write(size);
        self.messages.push_back(Message { end: self.end.written(), size, released });
    }

    /// Returns the number of unacknowledged messages.
    pub(super) fn messages(&self) -> usize {
        self.messages.len()
    }

    /// Records a sent segment. Returns the number of messages that it completes for the first time.
    pub(super) fn handle_sent(&mut self, segment: &Segment) -> usize {
        self.sent = self.sent.max(segment.seq + u64::from(segment.len));
        let before = self.sent_messages;
        while self.messages.get(self.sent_messages).is_some_and(|message| message.end <= self.sent) {
            self.sent_messages += 1;
        }
        self.sent_messages - before
    }

    /// Removes and returns the next completely acknowledged message.
    pub(super) fn take_done(&mut self) -> Option<Message> {
        if self.messages.front()?.end > self.end.acked() {
            return None;
        }
        self.sent_messages -= 1;
        self.messages.pop_front()
    }
}

impl TcpReceiveSide {
    pub(super) fn new(config: &TcpConfig) -> TcpReceiveSide {
        TcpReceiveSide { end: TcpReceiver::new(config), watched_at: Time::NEVER }
    }
}

impl PendingAcks {
    /// Returns the classes with due acknowledgements.
    #[inline]
    pub(super) fn classes(&self) -> ClassSet {
        self.classes
    }

    /// Adds a due acknowledgement.
    pub(super) fn push(&mut self, class: Class, receiver: usize, ack: TcpAck) {
        self.classes.insert(class);
        self.due[class.index()].push_back((receiver, ack));
    }

    /// Takes the next acknowledgement of none of the `held` classes, with its class and its receiver's place.
    #[inline]
    pub(super) fn next(&mut self, held: ClassSet) -> Option<(Class, usize, TcpAck)> {
        let class = (self.classes - held).first()?;
        let queue = &mut self.due[class.index()];
        let (receiver, ack) = queue.pop_front()?;
        if queue.is_empty() {
            self.classes.remove(class);
        }
        Some((class, receiver, ack))
    }

    /// Schedules the check of a receiver's delayed acknowledgement.
    pub(super) fn wake(&mut self, at: Time, place: usize, generation: u32) {
        self.later.push(Reverse((at, place, generation)));
    }

    /// Returns the instant of the first scheduled check; [`Time::NEVER`] if there is none.
    #[inline]
    pub(super) fn next_due(&self) -> Time {
        self.later.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at)
    }

    /// Removes the next receiver whose check is due. Returns its place and generation.
    #[inline]
    pub(super) fn take_due(&mut self, now: Time) -> Option<(usize, u32)> {
        if self.next_due() > now {
            return None;
        }
        self.later.pop().map(|Reverse((_, place, generation))| (place, generation))
    }
}
