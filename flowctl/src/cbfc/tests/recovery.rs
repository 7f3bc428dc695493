//! Recovery of a link after faults: data and messages lost, messages late, either end restarted, messages forged. The counts of both
//! ends then match again within a bound, and until then no more is sent than documented.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const BUFFER: Bytes = Bytes::kb(30);
const CAPACITY: u32 = (BUFFER.get() / 64) as u32;
/// Rounds of messages, each way, within which the counts match again: the receiver's count must be confirmed, the sender must learn
/// the buffer, which every other message carries, and then have its limit confirmed.
const ROUNDS: u32 = 2 * CONFIRMATIONS as u32 + 2;

#[derive(Clone, Debug)]
enum Step {
    /// The sender sends a frame of this length if its credit allows.
    Send(u32),
    /// The sender sends its count.
    Count,
    /// The oldest message on the wire arrives.
    Arrive,
    /// The oldest message on the wire is lost.
    LoseData,
    /// The oldest message on the wire, if it is a count, falls behind all others.
    Delay,
    /// The oldest frame of the queue leaves.
    Depart,
    /// The receiver sends a message.
    Advertise,
    /// The message at this place arrives; it stays there if `twice`.
    Deliver { place: usize, twice: bool },
    /// The message at this place is lost.
    Lose(usize),
    /// The sender restarts.
    RestartSender,
    /// The receiver restarts, with an empty queue.
    RestartReceiver,
    /// A forged message arrives.
    Forge(Forged),
}

#[derive(Clone, Copy, Debug)]
enum Forged {
    /// To the sender: this credit beyond its own count.
    Credit(u32),
    /// To the sender: a buffer of this size.
    Buffer(u32),
    /// To the receiver: this many blocks sent beyond the arrivals.
    Sent(u32),
}

fn orderly_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (60..9_018u32).prop_map(Step::Send),
        2 => Just(Step::Count),
        6 => Just(Step::Arrive),
        4 => Just(Step::Depart),
        3 => Just(Step::Advertise),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(place, twice)| Step::Deliver { place, twice }),
        1 => any::<usize>().prop_map(Step::Lose),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => orderly_step(),
        1 => Just(Step::LoseData),
        1 => Just(Step::Delay),
        1 => Just(Step::RestartSender),
        1 => Just(Step::RestartReceiver),
        1 => any_forged().prop_map(Step::Forge),
    ]
}

/// Small and large numbers alike.
fn any_forged() -> impl Strategy<Value = Forged> {
    let number = prop_oneof![0..2 * CAPACITY, any::<u32>(), Just((1 << 31) - 1), Just(u32::MAX)];
    (0..3, number).prop_map(|(kind, number)| match kind {
        0 => Forged::Credit(number),
        1 => Forged::Buffer(number),
        _ => Forged::Sent(number),
    })
}

/// Messages on the wire from the sender to the receiver, in order.
#[derive(Clone, Copy)]
enum OnWire {
    Frame(u32),
    Count(u32),
}

struct Link {
    sender: CreditCounters,
    receiver: BlockCounters,
    wire: VecDeque<OnWire>,
    queue: VecDeque<u32>,
    messages: Vec<CreditFrame>,
    /// Number of messages that the receiver sent.
    made: u32,
}

impl Link {
    fn new() -> Link {
        let (receiver, sender) = pair_of(BUFFER);
        Link { sender, receiver, wire: VecDeque::new(), queue: VecDeque::new(), messages: Vec::new(), made: 0 }
    }

    fn queued(&self) -> u32 {
        self.queue.iter().copied().map(blocks).sum()
    }

    fn on_wire(&self) -> u32 {
        self.wire.iter().map(|item| if let OnWire::Frame(bytes) = item { blocks(*bytes) } else { 0 }).sum()
    }

    fn send(&mut self, frame: u32) -> bool {
        let may_send = self.sender.may_send(CLASS, frame);
        if may_send {
            self.sender.handle_sent(CLASS, frame);
            self.wire.push_back(OnWire::Frame(frame));
        }
        may_send
    }

    fn arrive(&mut self) {
        match self.wire.pop_front() {
            Some(OnWire::Frame(frame)) => {
                self.receiver.handle_arrival(CLASS, frame);
                self.queue.push_back(frame);
            }
            Some(OnWire::Count(blocks)) => drop(self.receiver.handle_sent_total(CLASS, blocks, 0)),
            None => {}
        }
    }

    /// The receiver's message, with an account of its buffer every other time, as with one class under credit.
    fn advertise(&mut self) {
        self.receiver.settle(CLASS, || self.queued());
        self.made += 1;
        let account = if self.made.is_multiple_of(2) {
            CreditAccount::Buffer { blocks: self.receiver.capacity() }
        } else {
            CreditAccount::None
        };
        self.messages.extend(self.receiver.frame(ALONE).map(|frame| CreditFrame { account, ..frame }));
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Send(frame) => drop(self.send(frame)),
            Step::Count => self.wire.push_back(OnWire::Count(self.sender.sent_total(CLASS))),
            Step::Arrive => self.arrive(),
            Step::LoseData => drop(self.wire.pop_front()),
            Step::Delay => {
                if let Some(OnWire::Count(_)) = self.wire.front() {
                    self.wire.rotate_left(1);
                }
            }
            Step::Depart => drop(self.queue.pop_front()),
            Step::Advertise => self.advertise(),
            Step::Deliver { place, twice } if !self.messages.is_empty() => {
                let place = place % self.messages.len();
                self.sender.handle_credit(&self.messages[place]);
                if !twice {
                    self.messages.remove(place);
                }
            }
            Step::Lose(place) if !self.messages.is_empty() => drop(self.messages.remove(place % self.messages.len())),
            Step::Deliver { .. } | Step::Lose(_) => {}
            Step::RestartSender => self.sender = CreditCounters::new(BUFFER),
            Step::RestartReceiver => {
                self.receiver = BlockCounters::new(BUFFER);
                self.queue.clear();
            }
            Step::Forge(forged) => self.forge(forged),
        }
    }

    fn forge(&mut self, forged: Forged) {
        match forged {
            Forged::Credit(more) => {
                self.sender.handle_credit(&frame(self.sender.sent_total(CLASS).wrapping_add(more)));
            }
            Forged::Buffer(blocks) => {
                let account = CreditAccount::Buffer { blocks };
                self.sender.handle_credit(&CreditFrame { account, ..CreditFrame::default() });
            }
            Forged::Sent(more) => {
                let received = self.sender.sent_total(CLASS).wrapping_sub(self.on_wire());
                self.receiver.handle_sent_total(CLASS, received.wrapping_add(more), 0);
            }
        }
    }

    /// Exchanges the messages of both ends without loss. The sender always has a frame, and one leaves the queue
    /// each round.
    fn round(&mut self) {
        while self.send(1_514) {}
        self.step(&Step::Count);
        while !self.wire.is_empty() {
            self.arrive();
        }
        self.step(&Step::Depart);
        self.advertise();
        let message = self.messages.pop().unwrap();
        self.messages.clear();
        self.sender.handle_credit(&message);
    }
}

proptest! {
    /// After any faults, the credit equals the free buffer within [`ROUNDS`], and a backlog is sent.
    #[test]
    fn the_counts_match_again(steps in prop::collection::vec(any_step(), 1..400)) {
        let mut link = Link::new();
        steps.iter().for_each(|step| link.step(step));
        // Messages still under way may be outdated: they are dropped.
        link.messages.clear();
        (0..ROUNDS).for_each(|_| link.round());
        // Frames let through meanwhile may exceed the buffer: they leave.
        while link.queued() > CAPACITY {
            link.step(&Step::Depart);
        }
        link.round();
        prop_assert_eq!(link.sender.credit(CLASS) + link.queued(), CAPACITY, "{:?}", link.sender);
        let sent = link.sender.sent_total(CLASS);
        (0..10).for_each(|_| link.round());
        prop_assert!(link.sender.sent_total(CLASS) != sent, "a backlog gets its turn");
        prop_assert!(link.queued() <= CAPACITY, "and the buffer is not overrun");
    }

    /// One forged message of any content lets at most one buffer too much through.
    #[test]
    fn a_forged_message_costs_a_buffer_at_most(
        before in prop::collection::vec(orderly_step(), 1..200),
        forged in any_forged(),
        after in prop::collection::vec(orderly_step(), 1..200),
    ) {
        let mut link = Link::new();
        let forge = Step::Forge(forged);
        for (n, step) in before.iter().chain([&forge]).chain(&after).enumerate() {
            link.step(step);
            let bound = if n < before.len() { CAPACITY } else { 2 * CAPACITY };
            let there = link.on_wire() + link.queued() + link.sender.credit(CLASS);
            prop_assert!(there <= bound, "{there} blocks after {step:?}");
        }
    }
}

/// Restarts and lost data, one by one.
#[test]
fn restarts_and_lost_data_are_got_over_one_by_one() {
    let wrongs = [
        vec![Step::RestartSender],
        vec![Step::RestartReceiver],
        vec![Step::RestartSender, Step::RestartReceiver],
        vec![Step::Forge(Forged::Credit((1 << 31) - 1))],
        vec![Step::Forge(Forged::Sent((1 << 31) - 1))],
        vec![Step::Forge(Forged::Buffer(0))],
        vec![Step::Send(1_514), Step::Send(1_514), Step::LoseData, Step::LoseData],
    ];
    for wrong in wrongs {
        let mut link = Link::new();
        (0..1_000).for_each(|_| link.round());
        assert!(link.sender.sent_total(CLASS) > 10_000);
        wrong.iter().for_each(|step| link.step(step));
        let sent = link.sender.sent_total(CLASS);
        let rounds = (1..).find(|_| {
            link.round();
            link.sender.sent_total(CLASS).wrapping_sub(sent) > 24
                && link.sender.credit(CLASS) + link.queued() == CAPACITY
        });
        assert!(rounds <= Some(ROUNDS), "{wrong:?}: {rounds:?} rounds");
    }
}
