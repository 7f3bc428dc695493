use std::collections::VecDeque;

use proptest::prelude::*;
use weir_units::{CLASSES, Span, Time};

use super::*;
use crate::cbfc::{BLOCK, UpdateTimer};

const CLASS: Class = Class::new(3);
const SIZE: CellSize = CellSize(128);
const LIMIT: u32 = 240;

fn update(count: CreditCount, cells: u32) -> CreditUpdate {
    CreditUpdate {
        count,
        enabled: CLASS.alone(),
        cells: [cells & CreditUpdate::MASK; CLASSES],
        cell_bytes: SIZE.bytes(),
    }
}

#[test]
fn frames_take_whole_cells_with_their_fcs() {
    assert_eq!([60, 124, 125, 1_514].map(|bytes| SIZE.cells(bytes)), [1, 1, 2, 12]);
    assert_eq!(CellSize::new(208).cells(1_514), 8);
}

#[test]
fn a_peer_with_other_cells_is_not_obeyed() {
    let (sender, receiver) = (CellCredits::new(SIZE, LIMIT, ClassSet::EMPTY), CellCounters::new(SIZE));
    let other = |count, cells| CreditUpdate { cell_bytes: 256, ..update(count, cells) };
    assert!(!sender.handle_update(&other(CreditCount::Freed, 0)));
    receiver.handle_update(&other(CreditCount::Consumed, 7), |_| 0);
    assert_eq!((sender.credit(CLASS), receiver.resyncs()), (0, 0));
    assert!(sender.handle_update(&update(CreditCount::Freed, 0)));
    assert_eq!(sender.credit(CLASS), LIMIT);
}

#[test]
fn classes_that_share_a_limit_have_it_together() {
    let sharing = ClassSet::from_bits(0b1100);
    let sender = CellCredits::new(SIZE, 24, sharing);
    let freed = |class: u8, cells| {
        let enabled = Class::new(class).alone();
        sender.handle_update(&CreditUpdate { enabled, ..update(CreditCount::Freed, cells) });
    };
    freed(3, 0);
    assert_eq!(sender.credit(CLASS), 0, "class 2 may still hold all of it");
    freed(2, 0);
    sender.handle_sent(CLASS, 1_514);
    assert_eq!([2, 3].map(|class| sender.credit(Class::new(class))), [12, 12]);
    assert!(sender.may_send(Class::new(2), 1_514));
    sender.handle_sent(Class::new(2), 1_514);
    assert!(!sender.may_send(CLASS, 60));
    freed(2, 12);
    assert!(sender.may_send(CLASS, 1_514) && !sender.may_send(CLASS, 1_536));
}

#[test]
fn counts_go_in_turn_apart_and_again() {
    let classes = ClassSet::from_bits(0b1010);
    let us = |us: u64| Time::from_nanos(us * 1_000);
    let mut timer =
        UpdateTimer::new(classes, SIZE, Span::from_micros(5), Span::from_micros(200), Span::from_micros(300));
    let mut sent = Vec::new();
    let mut now = Time::ZERO;
    // Both classes free a cell at 20 us, class 1 at each poll from 500 us on.
    while now < us(520) {
        let freed = |class: Class| match class.index() {
            1 if now >= us(500) => now.as_picos() as u32,
            _ => u32::from(now >= us(20)),
        };
        while let Some(update) = timer.poll(now, freed, |_| 1 << 20 | 9) {
            timer.handle_sent(now, &update);
            sent.push((now.as_picos() / 1_000_000, update.count == CreditCount::Freed, update.enabled.bits()));
            assert!(update.cells.iter().all(|cells| *cells <= CreditUpdate::MASK));
        }
        now = timer.next_wakeup(now).min(now + Span::from_micros(1));
    }
    let expected = [
        (0, true, 2),
        (0, false, 10),
        (5, true, 8),
        (20, true, 2),
        (25, true, 8),
        (220, true, 2),
        (225, true, 8),
        (300, false, 10),
        (420, true, 2),
        (425, true, 8),
        (500, true, 2),
        (505, true, 2),
        (510, true, 2),
        (515, true, 2),
    ];
    assert_eq!(sent, expected);
    timer.restart(us(600));
    assert_eq!(timer.poll(us(600), |_| 0, |_| 0).map(|update| update.enabled.bits()), Some(8));
    timer.restart(Time::NEVER);
    assert_eq!((timer.next_wakeup(us(700)), timer.poll(us(700), |_| 5, |_| 5)), (Time::NEVER, None));
}

#[derive(Clone, Debug)]
enum Step {
    /// The sender sends a frame of this length if its credit allows.
    Send(u32),
    /// The sender sends CC_Update.
    Count,
    /// The oldest message on the wire to the receiver arrives.
    Arrive,
    /// The oldest CC_Update on that wire is lost.
    LoseCount,
    /// The oldest message on that wire, if it is a CC_Update, falls behind all others.
    DelayCount,
    /// A frame of the queue leaves.
    Depart(usize),
    /// The receiver sends CF_Update.
    Advertise,
    /// The CF_Update at this place arrives; it stays there if `twice`.
    Deliver { place: usize, twice: bool },
    /// The CF_Update at this place is lost.
    Lose(usize),
    /// The link is lost and found: all under way is gone, both ends start anew, and the queue stays.
    Restart,
    /// The oldest message on the wire is lost, data as well.
    LoseData,
    /// The sender starts anew, and nobody else notices.
    RestartSender,
    /// The receiver starts anew with an empty queue, and nobody else notices.
    RestartReceiver,
}

fn orderly_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (60..9_018u32).prop_map(Step::Send),
        4 => Just(Step::Count),
        12 => Just(Step::Arrive),
        1 => Just(Step::LoseCount),
        1 => Just(Step::DelayCount),
        8 => any::<usize>().prop_map(Step::Depart),
        6 => Just(Step::Advertise),
        6 => (any::<usize>(), any::<bool>()).prop_map(|(place, twice)| Step::Deliver { place, twice }),
        2 => any::<usize>().prop_map(Step::Lose),
        1 => Just(Step::Restart),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => orderly_step(),
        1 => Just(Step::LoseData),
        1 => Just(Step::RestartSender),
        1 => Just(Step::RestartReceiver),
    ]
}

/// Message on the wire from the sender to the receiver.
#[derive(Clone, Copy)]
enum OnWire {
    Frame(u32),
    Count(u32),
}

struct Link {
    sender: CellCredits,
    receiver: CellCounters,
    wire: VecDeque<OnWire>,
    queue: Vec<u32>,
    messages: Vec<CreditUpdate>,
}

impl Link {
    /// Creates an idle link on which so many cells were sent.
    fn with_sent(sent: u32) -> Link {
        let sender = CellCredits {
            credits: CreditCounters::starting_at(BLOCK * u64::from(LIMIT), sent),
            ..CellCredits::new(SIZE, LIMIT, ClassSet::EMPTY)
        };
        let receiver = CellCounters { size: SIZE, counters: BlockCounters::starting_at(Bytes::ZERO, sent) };
        Link { sender, receiver, wire: VecDeque::new(), queue: Vec::new(), messages: Vec::new() }
    }

    fn queued(&self) -> u32 {
        SIZE.cells_of_all(&self.queue)
    }

    fn on_wire(&self) -> u32 {
        self.wire.iter().map(|item| if let OnWire::Frame(bytes) = item { SIZE.cells(*bytes) } else { 0 }).sum()
    }

    fn count_of_all(&self) -> u32 {
        self.on_wire() + self.queued() + self.sender.credit(CLASS)
    }

    fn arrive(&mut self) {
        match self.wire.pop_front() {
            Some(OnWire::Frame(frame)) => {
                self.receiver.handle_arrivals(CLASS, SIZE.cells(frame));
                self.queue.push(frame);
            }
            Some(OnWire::Count(sent)) => self.receiver.handle_update(&update(CreditCount::Consumed, sent), |_| 0),
            None => {}
        }
    }

    fn advertise(&mut self) {
        let freed = self.receiver.freed(CLASS, || Bytes::new(u64::from(self.queued() * SIZE.bytes())));
        self.messages.push(update(CreditCount::Freed, freed));
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Send(frame) => {
                if self.sender.may_send(CLASS, frame) {
                    self.sender.handle_sent(CLASS, frame);
                    self.wire.push_back(OnWire::Frame(frame));
                }
            }
            Step::Count => self.wire.push_back(OnWire::Count(self.sender.sent_total(CLASS))),
            Step::Arrive => self.arrive(),
            Step::LoseCount => {
                if let Some(at) = self.wire.iter().position(|item| matches!(item, OnWire::Count(_))) {
                    self.wire.remove(at);
                }
            }
            Step::DelayCount => {
                if let Some(OnWire::Count(_)) = self.wire.front() {
                    self.wire.rotate_left(1);
                }
            }
            Step::Depart(place) if !self.queue.is_empty() => drop(self.queue.swap_remove(place % self.queue.len())),
            Step::Advertise => self.advertise(),
            Step::Deliver { place, twice } if !self.messages.is_empty() => {
                let place = place % self.messages.len();
                self.sender.handle_update(&self.messages[place]);
                if !twice {
                    self.messages.remove(place);
                }
            }
            Step::Lose(place) if !self.messages.is_empty() => drop(self.messages.remove(place % self.messages.len())),
            Step::Depart(_) | Step::Deliver { .. } | Step::Lose(_) => {}
            Step::Restart => {
                self.wire.clear();
                self.messages.clear();
                self.sender.reset();
                self.receiver.reset();
            }
            Step::LoseData => drop(self.wire.pop_front()),
            Step::RestartSender => self.sender.reset(),
            Step::RestartReceiver => {
                self.queue.clear();
                self.receiver.reset();
            }
        }
    }

    /// Has all under way arrive, and one update of each kind.
    fn settle(&mut self) {
        self.step(&Step::Count);
        (0..self.wire.len()).for_each(|_| self.arrive());
        self.messages.clear();
        self.advertise();
        self.step(&Step::Deliver { place: 0, twice: false });
    }
}

fn any_start() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), (1..2_000u32).prop_map(|below| (1 << 20) - below), any::<u32>()]
}

proptest! {
    /// Updates lost, doubled and late, and links lost: the limit is never exceeded, and an update of each kind gives all credit back.
    #[test]
    fn the_limit_is_never_exceeded(start in any_start(), steps in prop::collection::vec(orderly_step(), 1..600)) {
        let mut link = Link::with_sent(start);
        for step in &steps {
            link.step(step);
            prop_assert!(link.count_of_all() <= LIMIT, "{} after {step:?}", link.count_of_all());
        }
        link.settle();
        prop_assert_eq!(link.count_of_all(), LIMIT);
    }

    /// Data lost, and an end that starts anew alone: an update of each kind makes the counts match again.
    #[test]
    fn the_counts_match_again(start in any_start(), steps in prop::collection::vec(any_step(), 1..400)) {
        let mut link = Link::with_sent(start);
        steps.iter().for_each(|step| link.step(step));
        // More may be queued than the limit, until the counts match.
        (0..link.wire.len()).for_each(|_| link.arrive());
        while link.queued() > LIMIT {
            link.step(&Step::Depart(0));
        }
        link.settle();
        prop_assert_eq!(link.count_of_all(), LIMIT);
    }

    /// A bound on many frames covers them where each has credit one after the other.
    #[test]
    fn rows_of_frames_have_credit_as_each_does(
        frames in prop::collection::vec(60..9_000u32, 0..64),
        limit in 0..5_000u32,
        start in any_start(),
    ) {
        let sender = || {
            let sender = CellCredits::new(SIZE, limit, ClassSet::EMPTY);
            sender.credits.add_sent(CLASS, start);
            sender.handle_update(&update(CreditCount::Freed, start));
            sender
        };
        let (rows, each) = (sender(), sender());
        let mut one_by_one = true;
        for frame in &frames {
            one_by_one &= each.may_send(CLASS, *frame);
            each.handle_sent(CLASS, *frame);
        }
        prop_assert_eq!(rows.may_send_all(CLASS, &frames, frames.iter().sum()), one_by_one);
        rows.handle_all_sent(CLASS, &frames);
        prop_assert_eq!(rows.sent_total(CLASS), each.sent_total(CLASS));
    }
}
