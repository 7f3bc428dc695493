mod recovery;

use std::collections::VecDeque;

use proptest::prelude::*;
use weir_units::{BitRate, Class, ClassSet, Span, Time};
use weir_wire::mac_control::{CreditAccount, CreditFrame};

use super::*;

const CLASS: Class = Class::new(3);
const ALONE: ClassSet = CLASS.alone();

fn frame(limit: u32) -> CreditFrame {
    CreditFrame { enabled: ALONE, limits: [limit; 8], ..CreditFrame::default() }
}

fn pair_of(buffer: Bytes) -> (BlockCounters, CreditCounters) {
    (BlockCounters::new(buffer), CreditCounters::new(buffer))
}

#[test]
fn frames_take_whole_blocks_with_their_fcs() {
    assert_eq!([60, 61, 1_514, 9_018].map(blocks), [1, 2, 24, 141]);
}

#[test]
fn credit_is_the_free_buffer() {
    let (receiver, sender) = pair_of(Bytes::new(64 * 50 + 63));
    assert!(!sender.may_send(CLASS, 60), "no credit before the first message");
    sender.handle_credit(&receiver.frame(ALONE).unwrap());
    assert_eq!(sender.credit(CLASS), 50);
    for _ in 0..2 {
        assert!(sender.may_send(CLASS, 1_514));
        sender.handle_sent(CLASS, 1_514);
        receiver.handle_arrival(CLASS, 1_514);
    }
    assert!(sender.may_send(CLASS, 124) && !sender.may_send(CLASS, 125), "two blocks are left");
    assert_eq!((receiver.limit(CLASS), receiver.occupied(CLASS)), (50, 48));
    receiver.settle(CLASS, || 24);
    sender.handle_credit(&receiver.frame(ALONE).unwrap());
    assert_eq!((sender.credit(CLASS), receiver.occupied(CLASS)), (26, 24));
    assert_eq!(sender.credit(Class::new(0)), 0, "a class outside the message is unchanged");
}

#[test]
fn stale_messages_are_ignored_and_counted_repeated_ones_are_not() {
    let sender = CreditCounters::new(Bytes::mb(1));
    assert_eq!(sender.handle_credit(&frame(100)), ALONE);
    assert_eq!(sender.handle_credit(&frame(99)), ClassSet::EMPTY);
    assert_eq!(sender.handle_credit(&frame(100)), ALONE);
    assert_eq!((sender.credit(CLASS), sender.stale()), (100, 1));
}

#[test]
fn a_limit_goes_back_if_it_is_told_thrice_in_a_row() {
    let sender = CreditCounters::new(Bytes::mb(1));
    let taken =
        [100, 90, 91, 100, 90, 91, 92, 91, 92].map(|limit| sender.handle_credit(&frame(limit)) != ClassSet::EMPTY);
    assert_eq!(taken, [true, false, false, true, false, false, true, false, true]);
    assert_eq!((sender.credit(CLASS), sender.stale()), (92, 5));
}

#[test]
fn credit_is_never_more_than_the_buffer() {
    let sender = CreditCounters::new(BLOCK * 1_000);
    let told = |limit, blocks| {
        sender.handle_credit(&CreditFrame { account: CreditAccount::Buffer { blocks }, ..frame(limit) })
    };
    assert_eq!((told(1_001, 1_000), sender.credit(CLASS)), (ClassSet::EMPTY, 0), "the peer's counts are not ours");
    assert_eq!((told(600, 500), sender.credit(CLASS)), (ClassSet::EMPTY, 0), "the peer has a smaller buffer");
    assert_eq!((told(1_001, u32::MAX), sender.credit(CLASS)), (ALONE, 1_000), "it has a larger one: cut");
    sender.handle_sent(CLASS, 1_514);
    assert_eq!((told(u32::MAX / 2, u32::MAX), sender.credit(CLASS)), (ALONE, 1_000));
    assert_eq!((sender.excessive(), sender.stale()), (4, 0));
}

#[test]
fn a_lost_packet_leaks_its_credit_until_the_counts_are_compared() {
    let (receiver, sender) = pair_of(Bytes::new(64 * 24));
    let credit = || {
        receiver.settle(CLASS, || 0);
        sender.handle_credit(&receiver.frame(ALONE).unwrap());
        sender.credit(CLASS)
    };
    assert_eq!(credit(), 24);
    sender.handle_sent(CLASS, 1_514);
    assert_eq!(credit(), 0);
    assert!(receiver.handle_sent_total(CLASS, sender.sent_total(CLASS), 0));
    assert!(!receiver.handle_sent_total(CLASS, sender.sent_total(CLASS), 0));
    assert_eq!((credit(), receiver.occupied(CLASS), receiver.resyncs()), (24, 0, 1));
}

/// Uncounted arrivals are not lost, and a late message does not indicate a restart.
#[test]
fn counts_are_compared_with_what_came_and_late_messages_change_nothing() {
    let receiver = BlockCounters::new(Bytes::mb(1));
    receiver.handle_arrivals(CLASS, 10);
    assert!(!receiver.handle_sent_total(CLASS, 15, 5));
    assert!(receiver.handle_sent_total(CLASS, 16, 5), "a block was lost");
    receiver.handle_arrivals(CLASS, 5);
    assert!(!receiver.handle_sent_total(CLASS, 16, 0));
    for late in [3, 3, 16, 3, 3, 4, 3, 3] {
        assert!(!receiver.handle_sent_total(CLASS, late, 0));
    }
    assert!(receiver.handle_sent_total(CLASS, 3, 0), "the third in a row: the peer was restarted");
}

/// A sender has credit for at most one buffer, so no more can be lost.
#[test]
fn a_peer_that_sent_more_than_a_buffer_is_believed_when_it_says_so_thrice() {
    let receiver = BlockCounters::new(Bytes::new(64 * 24));
    assert!(receiver.handle_sent_total(CLASS, 24, 0), "a whole buffer was lost");
    for told in [49, 49, 24, 49, 49] {
        assert!(!receiver.handle_sent_total(CLASS, told, 0), "forged");
    }
    receiver.handle_arrivals(CLASS, 7);
    assert!(receiver.handle_sent_total(CLASS, 56, 0), "and the peer went on meanwhile: this end was restarted");
    assert!(!receiver.handle_sent_total(CLASS, 56, 0));
}

#[test]
fn a_frame_that_came_twice_is_told_as_room_beyond_the_buffer_until_it_is_known() {
    let (receiver, sender) = pair_of(Bytes::new(64 * 24));
    sender.handle_credit(&receiver.frame(ALONE).unwrap());
    sender.handle_sent(CLASS, 1_000);
    (0..2).for_each(|_| receiver.handle_arrival(CLASS, 1_000));
    for told in 1..=3 {
        receiver.settle(CLASS, || 0);
        assert_eq!(sender.handle_credit(&receiver.frame(ALONE).unwrap()), ClassSet::EMPTY);
        assert_eq!(sender.excessive(), told);
        assert_eq!(receiver.handle_sent_total(CLASS, sender.sent_total(CLASS), 0), told == 3);
    }
    receiver.settle(CLASS, || 0);
    assert_eq!(sender.handle_credit(&receiver.frame(ALONE).unwrap()), ALONE);
    assert_eq!((sender.credit(CLASS), sender.excessive(), sender.stale()), (24, 3, 0));
}

#[test]
fn messages_come_each_period_whatever_happens() {
    let receiver = BlockCounters::new(Bytes::mb(1));
    let period = Advertiser::period_by_default(BitRate::gbps(10));
    assert_eq!(period, Span::from_nanos(52_428));
    let mut advertiser = Advertiser::new(ALONE, period);
    let mut sent = Vec::new();
    for ns in (0..200_000).step_by(100) {
        if let Some(frame) = advertiser.poll(Time::from_nanos(ns), &receiver, |_| 0) {
            assert_eq!(frame.limits[3], 15_625);
            advertiser.handle_sent(Time::from_nanos(ns));
            sent.push(ns);
        }
    }
    assert_eq!(sent, [0, 52_500, 104_900, 157_300]);
    advertiser.handle_sent(Time::from_nanos(900_000));
    assert_eq!(advertiser.next_wakeup(), Time::from_nanos(952_428), "missed periods are not made up for");
    assert_eq!(Advertiser::new(ClassSet::EMPTY, period).poll(Time::ZERO, &receiver, |_| 0), None);
}

#[test]
fn messages_have_an_account_of_the_buffer_and_of_each_class_in_turn() {
    let (receiver, period) = (BlockCounters::new(Bytes::mb(1)), Span::from_micros(50));
    let mut advertiser = Advertiser::new(ClassSet::from_bits(0b1010), period);
    let accounts = (0..4).map(|n| {
        let now = Time::ZERO + period * n;
        let poll = || advertiser.poll(now, &receiver, |class| 100 + class.index() as u32).unwrap().account;
        assert_eq!(poll(), poll(), "an unsent message is due again");
        let account = poll();
        advertiser.handle_sent(now);
        account
    });
    let sent = |class: u8, blocks| CreditAccount::Sent { class: Class::new(class), blocks };
    let buffer = CreditAccount::Buffer { blocks: 15_625 };
    assert_eq!(accounts.collect::<Vec<_>>(), [buffer, sent(1, 101), sent(3, 103), buffer]);
}

#[test]
fn ahead_is_half_the_circle() {
    assert_eq!(ahead(5, 5), Some(0));
    assert_eq!(ahead(2, u32::MAX), Some(3));
    assert_eq!(ahead(u32::MAX, 2), None);
    assert_eq!(ahead(1 << 31, 1), Some((1 << 31) - 1));
    assert_eq!(ahead(1 << 31, 0), None);
}

/// One step of the pair.
#[derive(Clone, Debug)]
enum Step {
    /// The sender sends a frame of this length if its credit allows.
    Send(u32),
    /// The oldest data frame arrives: data keeps its order.
    Arrive,
    /// The oldest frame of the queue leaves.
    Depart,
    /// The receiver sends a message.
    Advertise,
    /// The message at this place of the channel arrives; it stays there if `twice`.
    Deliver { place: usize, twice: bool },
    /// The message at this place is lost.
    Lose(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (60..9_018u32).prop_map(Step::Send),
        4 => Just(Step::Arrive),
        3 => Just(Step::Depart),
        2 => Just(Step::Advertise),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(place, twice)| Step::Deliver { place, twice }),
        1 => any::<usize>().prop_map(Step::Lose),
    ]
}

/// Sender, receiver, and a channel that keeps data in order, and loses, duplicates and reorders messages.
struct Pair {
    sender: CreditCounters,
    receiver: BlockCounters,
    data: VecDeque<u32>,
    queue: VecDeque<u32>,
    messages: Vec<CreditFrame>,
}

impl Pair {
    const BUFFER: Bytes = Bytes::kb(30);

    fn starting_at(count: u32) -> Pair {
        Pair {
            sender: CreditCounters::starting_at(Self::BUFFER, count),
            receiver: BlockCounters::starting_at(Self::BUFFER, count),
            data: VecDeque::new(),
            queue: VecDeque::new(),
            messages: Vec::new(),
        }
    }

    fn send(&mut self, frame: u32) -> bool {
        let may_send = self.sender.may_send(CLASS, frame);
        if may_send {
            self.sender.handle_sent(CLASS, frame);
            self.data.push_back(frame);
        }
        may_send
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Send(frame) => drop(self.send(frame)),
            Step::Arrive => {
                if let Some(frame) = self.data.pop_front() {
                    self.receiver.handle_arrival(CLASS, frame);
                    self.queue.push_back(frame);
                }
            }
            Step::Depart => {
                self.queue.pop_front();
            }
            Step::Advertise => {
                self.receiver.settle(CLASS, || Self::blocks_of(&self.queue));
                self.messages.extend(self.receiver.frame(ALONE));
            }
            Step::Deliver { place, twice } if !self.messages.is_empty() => {
                let place = place % self.messages.len();
                self.sender.handle_credit(&self.messages[place]);
                if !twice {
                    self.messages.remove(place);
                }
            }
            Step::Lose(place) if !self.messages.is_empty() => drop(self.messages.remove(place % self.messages.len())),
            Step::Deliver { .. } | Step::Lose(_) => {}
        }
    }

    fn blocks_of(frames: &VecDeque<u32>) -> u32 {
        frames.iter().copied().map(blocks).sum()
    }
}

proptest! {
    /// Credit covers all frames of a batch where it covers each, one after the other, with equal counts.
    #[test]
    fn a_row_goes_and_counts_as_its_frames_do(
        frames in prop::collection::vec(60..9_000u32, 0..64),
        blocks in 0..4_000u64,
        first in prop_oneof![Just(0), Just(u32::MAX - 100), any::<u32>()],
    ) {
        let sender = || {
            let sender = CreditCounters::starting_at(Bytes::mb(16), first);
            sender.handle_credit(&BlockCounters::starting_at(BLOCK * blocks, first).frame(ALONE).unwrap());
            sender
        };
        let (rows, each) = (sender(), sender());
        let all = rows.may_send_all(CLASS, &frames, frames.iter().sum());
        let mut one_by_one = true;
        for frame in &frames {
            one_by_one &= each.may_send(CLASS, *frame);
            each.handle_sent(CLASS, *frame);
        }
        prop_assert_eq!(all, one_by_one);
        rows.handle_all_sent(CLASS, &frames);
        prop_assert_eq!(rows.sent_total(CLASS), each.sent_total(CLASS));
    }

    /// Messages lost, doubled and reordered, counters that wrap meanwhile: the buffer is never overrun and no credit is made
    /// up; one message after the faults end, the credit is exactly the free buffer, and traffic goes on.
    #[test]
    fn faults_neither_overrun_nor_leak(
        start in prop_oneof![Just(0u32), (0..2_000u32).prop_map(|below| u32::MAX - below), any::<u32>()],
        steps in prop::collection::vec(any_step(), 1..600),
    ) {
        let mut pair = Pair::starting_at(start);
        let capacity = (Pair::BUFFER.get() / 64) as u32;
        for step in &steps {
            pair.step(step);
            let (on_wire, queued) = (Pair::blocks_of(&pair.data), Pair::blocks_of(&pair.queue));
            prop_assert!(pair.receiver.occupied(CLASS) >= queued);
            prop_assert!(on_wire + queued + pair.sender.credit(CLASS) <= capacity, "{:?}", step);
        }
        // Faults off: what is on the wire arrives, and one message.
        (0..pair.data.len()).for_each(|_| pair.step(&Step::Arrive));
        pair.step(&Step::Advertise);
        pair.sender.handle_credit(pair.messages.last().unwrap());
        prop_assert_eq!(pair.sender.credit(CLASS) + pair.receiver.occupied(CLASS), capacity);
        for _ in 0..100 {
            [Step::Depart, Step::Advertise].iter().for_each(|step| pair.step(step));
            pair.sender.handle_credit(pair.messages.last().unwrap());
            if pair.queue.is_empty() {
                prop_assert!(pair.send(9_018), "an empty buffer takes a frame");
                pair.step(&Step::Arrive);
            }
        }
    }
}
