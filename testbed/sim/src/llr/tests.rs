//! Two ends and a link that loses frames, corrupts them and loses messages, in any pattern.

use std::collections::VecDeque;

use proptest::prelude::*;
use weir_units::{Bytes, Span, Time};

use super::*;

const DELAY: u64 = 100;
const FRAME: u64 = 10;
const TIMER: u64 = 1_000;

fn plan(frames: u32, replay_count: u32) -> LlrPlan {
    LlrPlan {
        outstanding_bytes: Bytes::new(1_000 * u64::from(frames)),
        outstanding_frames: frames,
        replay_timer: Span::from_nanos(TIMER),
        replay_count,
        pcs_lost_timeout: Span::from_nanos(10 * TIMER),
        frame_bytes_max: 1_000,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Arrives,
    Corrupted,
    Lost,
}

/// What a link carries toward the receiver: frames by number, with their content, and INITs.
#[derive(Clone, Copy, Debug)]
enum Forward {
    Frame(u16, u32),
    Corrupted,
    Message(LlrMessage),
}

struct Link {
    sender: LlrSender<u32>,
    receiver: LlrReceiver,
    forward: VecDeque<(u64, Forward)>,
    back: VecDeque<(u64, LlrMessage)>,
    /// Instants at which the wires are free.
    free_at: [u64; 2],
    now: u64,
    /// Number of frames to send, and of those sent.
    frames: u32,
    sent: u32,
    delivered: Vec<(u64, u32)>,
}

fn at(ns: u64) -> Time {
    Time::from_nanos(ns)
}

impl Link {
    fn new(plan: LlrPlan, frames: u32) -> Link {
        Link {
            sender: LlrSender::new(plan),
            receiver: LlrReceiver::default(),
            forward: VecDeque::new(),
            back: VecDeque::new(),
            free_at: [0; 2],
            now: 0,
            frames,
            sent: 0,
            delivered: Vec::new(),
        }
    }

    /// Runs until nothing is due, or up to an instant; `fate` gives that of each frame or message on the wires.
    fn run(&mut self, until: u64, mut fate: impl FnMut(u64, bool) -> Fate) {
        while self.now < until {
            self.arrive();
            self.sender.handle_timer(at(self.now), |_, _| {});
            self.transmit(&mut fate);
            let next = [
                self.forward.front().map(|(at, _)| *at),
                self.back.front().map(|(at, _)| *at),
                Some(self.free_at[0]).filter(|free| *free > self.now),
                Some(self.free_at[1]).filter(|free| *free > self.now),
                Some(self.sender.timer()).filter(|at| *at < Time::NEVER).map(Time::as_nanos),
                Some(self.receiver.next_wakeup()).filter(|at| *at < Time::NEVER).map(Time::as_nanos),
            ];
            let Some(next) = next.into_iter().flatten().filter(|at| *at > self.now).min() else { break };
            self.now = next;
        }
    }

    fn arrive(&mut self) {
        while let Some((_, what)) = self.forward.pop_front_if(|(at, _)| *at <= self.now) {
            match what {
                Forward::Frame(number, content) if self.receiver.receive(number) => {
                    self.delivered.push((self.now, content));
                }
                Forward::Frame(..) => {}
                Forward::Corrupted => self.receiver.record_missing(),
                Forward::Message(LlrMessage::Init(number)) => self.receiver.handle_init(number),
                Forward::Message(other) => panic!("{other:?} to a receiver"),
            }
        }
        while let Some((_, message)) = self.back.pop_front_if(|(at, _)| *at <= self.now) {
            self.sender.handle(at(self.now), message, |_, _| {});
        }
    }

    fn transmit(&mut self, fate: &mut impl FnMut(u64, bool) -> Fate) {
        let now = self.now;
        if self.free_at[1] <= now
            && let Some(message) = self.receiver.poll_message(at(now))
        {
            self.free_at[1] = now + 1;
            self.receiver.record_sent(at(now + 20));
            if fate(now, false) == Fate::Arrives {
                self.back.push_back((now + 1 + DELAY, message));
            }
        }
        if self.free_at[0] > now {
            return;
        }
        let mut out = self.sender.poll_message(at(now)).map(|message| (1, Forward::Message(message)));
        if out.is_none() {
            self.sender.replay(|number, content| {
                out = Some((FRAME, Forward::Frame(number, *content)));
                at(now + FRAME)
            });
        }
        if out.is_none() && self.sent < self.frames {
            match self.sender.is_open() {
                true => {
                    out = Some((FRAME, Forward::Frame(self.sender.next_number(), self.sent)));
                    self.sender.send(at(now + FRAME), self.sent, 1_000);
                    self.sent += 1;
                }
                false => self.sender.record_waiting(at(now)),
            }
        }
        let Some((takes, what)) = out else { return };
        self.free_at[0] = now + takes;
        match (fate(now, true), what) {
            (Fate::Lost, _) | (Fate::Corrupted, Forward::Message(_)) => {}
            (Fate::Corrupted, _) => self.forward.push_back((now + takes + DELAY, Forward::Corrupted)),
            (Fate::Arrives, what) => self.forward.push_back((now + takes + DELAY, what)),
        }
    }

    fn contents(&self) -> Vec<u32> {
        self.delivered.iter().map(|(_, content)| *content).collect()
    }
}

/// Frame 3 of 100 is lost: frame 4 arrives after 50 + 100 ns, and the NACK after 101 ns more, at the end of the 26th frame's byte 1. The sender
/// goes back when that frame has left, at 260 ns, and frame 3 arrives 110 ns later.
#[test]
fn a_lost_frame_takes_a_round_trip_more() {
    let mut link = Link::new(plan(100, 3), 100);
    link.run(100_000, |now, forward| if forward && now == 30 { Fate::Lost } else { Fate::Arrives });
    assert_eq!(link.contents(), Vec::from_iter(0..100));
    assert_eq!(link.delivered[2..5], [(130, 2), (370, 3), (380, 4)]);
    let counters = link.sender.counters(at(link.now));
    assert_eq!((counters.replays, counters.replayed_frames, counters.replayed_bytes), (1, 23, 23_000));
    assert_eq!((counters.given_up, counters.full_for, link.sender.copies.len()), (0, Span::ZERO, 0));
}

/// No frame follows the last one, so that its loss is found by the timer, 1000 ns after the acknowledgement of the frame before it, and its
/// corruption at once.
#[test]
fn the_last_frame_takes_the_timer_or_its_bad_fcs() {
    for (fate, arrives) in [
        (Fate::Lost, 110 + 1 + DELAY + TIMER + FRAME + DELAY),
        (Fate::Corrupted, 20 + DELAY + 1 + DELAY + FRAME + DELAY),
    ] {
        let mut link = Link::new(plan(100, 3), 2);
        link.run(100_000, |now, forward| if forward && now == 10 { fate } else { Fate::Arrives });
        assert_eq!(link.delivered, [(110, 0), (arrives, 1)], "{fate:?}");
    }
}

/// A buffer of 5 frames is full at 50 ns. The first frame arrives at 110 ns, and its acknowledgement at 211 ns.
#[test]
fn a_full_buffer_stops_the_sender() {
    let mut link = Link::new(plan(5, 3), 6);
    link.run(100_000, |_, _| Fate::Arrives);
    assert_eq!(link.delivered[4..], [(150, 4), (211 + FRAME + DELAY, 5)]);
    assert_eq!(link.sender.counters(at(link.now)).full_for, Span::from_nanos(211 - 50));
    let mut waiting = Link::new(plan(5, 3), 6);
    waiting.run(120, |_, _| Fate::Arrives);
    assert_eq!(waiting.sender.counters(at(170)).full_for, Span::from_nanos(170 - 50), "the wait goes on");
}

/// A link that is cut for less than four timers loses no frame; after it two replays and the timers between them have passed. One that
/// is cut longer loses those in the buffer, 10 of 30, and delivers the others after an INIT.
#[test]
fn a_cut_link_is_bridged_for_the_replays() {
    for (cut, lost) in [(2 * TIMER, 0), (5 * TIMER, 10)] {
        let mut link = Link::new(plan(10, 3), 30);
        link.run(100_000, |now, _| if now < cut { Fate::Lost } else { Fate::Arrives });
        assert_eq!(link.contents(), Vec::from_iter(lost..30), "{cut}");
        assert_eq!(link.sender.counters(at(link.now)).given_up, u64::from(lost));
    }
}

proptest! {
    /// The first 40,000 ns lose frames and messages; all frames arrive once and in order afterwards. Numbers wrap.
    #[test]
    fn every_frame_arrives_once_and_in_order(
        window in 1..40u32, first in any::<u16>(), fates in prop::collection::vec((0..100u32, any::<bool>()), 4_000), loss in 0..60u32,
    ) {
        let mut link = Link::new(plan(window, u32::MAX), 600);
        (link.sender.first, link.receiver.expected) = (first, first);
        let mut fates = fates.into_iter();
        link.run(1_000_000, |now, _| match fates.next() {
            Some((throw, corrupted)) if throw < loss && now < 40_000 => {
                if corrupted { Fate::Corrupted } else { Fate::Lost }
            }
            _ => Fate::Arrives,
        });
        prop_assert_eq!(link.contents(), Vec::from_iter(0..600));
        prop_assert_eq!((link.sender.copies.len(), link.sender.bytes), (0, 0));
    }

    /// Also where the sender gives up, no frame arrives twice or out of order, and those that are missing were given up. The last
    /// frames are sent when none is lost any more, and no gap is left.
    #[test]
    fn frames_are_given_up_and_never_repeated(
        window in 1..40u32, count in 0..4u32, fates in prop::collection::vec((0..100u32, any::<bool>()), 4_000), loss in 40..100u32,
    ) {
        let mut link = Link::new(plan(window, count), 4_300);
        let mut fates = fates.into_iter();
        link.run(2_000_000, |now, _| match fates.next() {
            Some((throw, corrupted)) if throw < loss && now < 40_000 => {
                if corrupted { Fate::Corrupted } else { Fate::Lost }
            }
            _ => Fate::Arrives,
        });
        let contents = link.contents();
        prop_assert!(contents.is_sorted_by(|one, next| one < next), "{:?}", contents);
        prop_assert!(contents.len() as u64 + link.sender.counters(at(link.now)).given_up >= 4_300);
        prop_assert_eq!(contents.last(), Some(&4_299));
    }
}
