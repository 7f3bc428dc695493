//! TCP on a host: messages as one stream of bytes, and acknowledgements in their flow's class or one of their own.
//!
//! Without `ack_class` an acknowledgement travels in the class and with the code point of the data that it acknowledges, as those
//! of a socket do whose application has set the same on both sides.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use weir_units::archive::{State, Value};
use weir_units::{CLASSES, Class, ClassSet, Time};

use super::packet::TcpAck;
use crate::tcp::{Segment, TcpConfig, TcpReceiver, TcpSender};

/// What a sender of TCP has besides.
#[derive(Debug, State)]
pub(super) struct Sending {
    pub(super) end: TcpSender,
    /// Messages not acknowledged, oldest first.
    messages: VecDeque<Message>,
    /// How many of them are wholly sent.
    sent_messages: usize,
    /// All before this offset was sent.
    sent: u64,
    /// Its longest segment.
    #[state(same)]
    pub(super) mss: u32,
}

/// A message from its release to its acknowledgement.
#[derive(Clone, Copy, Debug, Value)]
pub(super) struct Message {
    /// The offset in the stream where it ends.
    end: u64,
    pub(super) size: u64,
    pub(super) released: Time,
}

/// What a receiver of TCP has besides.
#[derive(Debug, State)]
pub(super) struct Receiving {
    pub(super) end: TcpReceiver,
    /// When the host looks at it; [`Time::NEVER`] if it does not.
    pub(super) watched_at: Time,
}

/// What the receivers of a host owe.
#[derive(Debug, Default, State)]
pub(super) struct Acks {
    /// The classes with acknowledgements that are due.
    classes: ClassSet,
    /// Acknowledgements that are due, by class, with their receivers' places.
    due: [VecDeque<(usize, TcpAck)>; CLASSES],
    /// When to look at a receiver, by place and generation, whose acknowledgement is delayed; each stands here once at most.
    later: BinaryHeap<Reverse<(Time, usize, u32)>>,
}

impl Sending {
    pub(super) fn new(config: &TcpConfig) -> Sending {
        Sending { end: TcpSender::new(config), messages: VecDeque::new(), sent_messages: 0, sent: 0, mss: config.mss }
    }

    /// A message is released.
    pub(super) fn write(&mut self, released: Time, size: u64) {
        self.end.write(size);
        self.messages.push_back(Message { end: self.end.written(), size, released });
    }

    /// Messages not acknowledged.
    pub(super) fn messages(&self) -> usize {
        self.messages.len()
    }

    /// A segment is sent. Returns how many messages are wholly sent by it for the first time.
    pub(super) fn handle_sent(&mut self, segment: &Segment) -> usize {
        self.sent = self.sent.max(segment.seq + u64::from(segment.len));
        let before = self.sent_messages;
        while self.messages.get(self.sent_messages).is_some_and(|message| message.end <= self.sent) {
            self.sent_messages += 1;
        }
        self.sent_messages - before
    }

    /// The next message that is wholly acknowledged.
    pub(super) fn take_done(&mut self) -> Option<Message> {
        if self.messages.front()?.end > self.end.acked() {
            return None;
        }
        self.sent_messages -= 1;
        self.messages.pop_front()
    }
}

impl Receiving {
    pub(super) fn new(config: &TcpConfig) -> Receiving {
        Receiving { end: TcpReceiver::new(config), watched_at: Time::NEVER }
    }
}

impl Acks {
    /// The classes with acknowledgements that are due.
    #[inline]
    pub(super) fn classes(&self) -> ClassSet {
        self.classes
    }

    /// An acknowledgement is due.
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

    /// Sees to it that a receiver is looked at when its delayed acknowledgement is due.
    pub(super) fn wake(&mut self, at: Time, place: usize, generation: u32) {
        self.later.push(Reverse((at, place, generation)));
    }

    /// When the first of them is to be looked at.
    #[inline]
    pub(super) fn next_due(&self) -> Time {
        self.later.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at)
    }

    /// The next one that is to be looked at by now: its place and generation.
    #[inline]
    pub(super) fn take_due(&mut self, now: Time) -> Option<(usize, u32)> {
        if self.next_due() > now {
            return None;
        }
        self.later.pop().map(|Reverse((_, place, generation))| (place, generation))
    }
}
