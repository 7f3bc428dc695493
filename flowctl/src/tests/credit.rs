//! CBFC, as InfiniBand's and as UEC's: from one end to the other, both with their credit.

use std::collections::VecDeque;

use weir_units::{Bytes, ClassSet, LINK_OVERHEAD, Time};
use weir_wire::mac_control::{ControlFrame, CreditAccount, CreditCount};

use super::{CLASS, Explored, Link, RATE, TICK, after, explore};
use crate::cbfc::{BLOCK, CellSize};
use crate::kinds::{Cbfc, UecCbfc};
use crate::{BufferState, MessageGenerator, PortFlowControl, ReceiveAccounting, TxRegulator};

/// A frame takes two blocks, or cells; a buffer is for two frames.
const FRAME: u32 = 2 * 64 - 4;
const FRAME_BLOCKS: u32 = 2;
const BUFFER_BLOCKS: u32 = 4;

/// Rounds of messages both ways without a fault until all credit is back. InfiniBand's: a class's own count is in every second message, and
/// [`CONFIRMATIONS`](crate::cbfc::CONFIRMATIONS) of them are taken, as many limits then. UEC's: a count each second tick, then one update.
const ROUNDS: [u32; 2] = [10, 4];

/// Small change of an end that breaks a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutation {
    None,
    /// Data in the buffer counts as free.
    HeldIsFree,
    /// A limit is a frame too high, or a count of freed cells.
    LimitTooHigh,
    /// The sender does not count what it sends.
    SentUncounted,
    /// The receiver does not count what arrives.
    ArrivedUncounted,
    /// The receiver does not follow the sender's own count.
    CountIgnored,
    /// The sender's own count includes the frame behind the message.
    CountTooEarly,
    /// The receiver's buffer is advertised as without bound, so that the sender ignores no limit. InfiniBand's alone.
    BufferUnbounded,
    /// The receiver sends once, and then no more without a change.
    NeverRepeated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The sender sends a frame, within its credit.
    Send,
    /// The oldest on the wire from this end arrives.
    Arrive(usize),
    /// A frame leaves the receiver's buffer.
    Depart,
    /// Time goes on; both ends send what is due.
    Tick,
    /// The oldest on the wire from this end is lost.
    Lose(usize),
    /// The oldest message on the wire from this end arrives, and again after all that is on the wire now.
    Twice(usize),
    /// The link goes and comes: what is on it is lost, and both ends know.
    Cut,
    /// An end starts anew, with an empty buffer, and the other does not know.
    Restart(usize),
}

#[derive(Clone, Copy, Debug)]
enum OnWire {
    /// Data, with the number of the sender's restarts before it.
    Frame(u8),
    Message(ControlFrame),
}

#[derive(Debug)]
struct End {
    generator: MessageGenerator,
    regulator: TxRegulator,
    arrived: ReceiveAccounting,
    /// Frames in the buffer, as [`OnWire::Frame`].
    queue: VecDeque<u8>,
}

/// The link from end 0, which sends data, to end 1; messages go both ways. `UEC` has that kind's credit.
#[derive(Debug)]
pub(super) struct CreditLink<const UEC: bool> {
    mutation: Mutation,
    now: Time,
    ends: [End; 2],
    /// Wire from each end.
    wires: [VecDeque<OnWire>; 2],
    has_faults: bool,
    /// Times that the sender restarted.
    restarts: u8,
}

fn flow_control(is_uec: bool) -> PortFlowControl {
    let blocks = u64::from(BUFFER_BLOCKS);
    if is_uec {
        let (cell, limit) = (CellSize::new(64), BUFFER_BLOCKS);
        PortFlowControl::new(UecCbfc {
            cell,
            limit,
            is_shared: false,
            spacing: TICK,
            repeat: TICK * 2,
            period: TICK * 2,
        })
    } else {
        PortFlowControl::new(Cbfc { buffer: BLOCK * blocks, period: TICK })
    }
}

impl End {
    fn new(is_uec: bool) -> End {
        let (flow_control, classes) = (flow_control(is_uec), CLASS.alone());
        End {
            generator: MessageGenerator::new(&flow_control, RATE, classes),
            regulator: TxRegulator::new(&flow_control, RATE, classes),
            arrived: flow_control.receive_accounting(LINK_OVERHEAD),
            queue: VecDeque::new(),
        }
    }
}

impl<const UEC: bool> CreditLink<UEC> {
    /// Has an end send what is due.
    fn poll(&mut self, end: usize) {
        let mutation = self.mutation;
        loop {
            let End { generator, regulator, arrived, queue } = &mut self.ends[end];
            let held = if mutation == Mutation::HeldIsFree { 0 } else { queue.len() as u64 };
            let early = if mutation == Mutation::CountTooEarly && end == 0 { FRAME_BLOCKS } else { 0 };
            let buffer = BufferState {
                xoff: ClassSet::EMPTY,
                occupancy: |_| Bytes::new(held * arrived.stored(FRAME).get()),
                blocks_sent: |class| regulator.sent_total(class).wrapping_add(early),
                arrived,
            };
            let Some(frame) = generator.poll(self.now, buffer) else { return };
            generator.handle_sent(self.now, &frame, buffer);
            if mutation == Mutation::NeverRepeated && self.now > after(WARM_UP) {
                continue;
            }
            self.wires[end].push_back(OnWire::Message(mutation.of_message(frame)));
        }
    }

    fn arrive(&mut self, from: usize, item: OnWire) {
        let (now, mutation) = (self.now, self.mutation);
        let End { regulator, arrived, queue, .. } = &mut self.ends[1 - from];
        match item {
            OnWire::Frame(restarts) => {
                queue.push_back(restarts);
                if mutation != Mutation::ArrivedUncounted {
                    arrived.count(CLASS, arrived.count_of(FRAME));
                }
            }
            OnWire::Message(frame) => {
                regulator.handle(now, &frame);
                if mutation != Mutation::CountIgnored {
                    arrived.handle_account(&frame, |_| 0);
                }
            }
        }
    }

    fn may_send(&self) -> bool {
        self.ends[0].regulator.has_credit(CLASS, FRAME)
    }

    /// Frames on the wire and in the buffer that the sender sent since its last restart.
    fn frames_under_way(&self) -> u32 {
        let on_wire =
            self.wires[0].iter().filter(|item| matches!(item, OnWire::Frame(before) if *before == self.restarts));
        let held = self.ends[1].queue.iter().filter(|before| **before == self.restarts);
        (on_wire.count() + held.count()) as u32
    }

    /// Has the sender use its credit, then both ends exchange messages, and the buffer drain.
    fn round(&mut self) {
        for _ in 0..BUFFER_BLOCKS {
            if self.may_send() {
                self.step(Step::Send);
            }
        }
        self.exchange();
    }

    fn exchange(&mut self) {
        self.step(Step::Tick);
        for from in [0, 1] {
            while !self.wires[from].is_empty() {
                self.step(Step::Arrive(from));
            }
        }
        while !self.ends[1].queue.is_empty() {
            self.step(Step::Depart);
        }
    }
}

/// Ticks before the exploration, so that counts are beyond the buffer.
const WARM_UP: u64 = 7;

impl Mutation {
    fn of_message(self, mut frame: ControlFrame) -> ControlFrame {
        if self == Mutation::LimitTooHigh {
            match &mut frame {
                ControlFrame::Credit(credit) => credit.limits[CLASS.index()] += FRAME_BLOCKS,
                ControlFrame::Update(update) if update.count == CreditCount::Freed => {
                    update.cells[CLASS.index()] += FRAME_BLOCKS;
                }
                _ => {}
            }
        }
        if self == Mutation::BufferUnbounded
            && let ControlFrame::Credit(credit) = &mut frame
        {
            credit.account = CreditAccount::Buffer { blocks: u32::MAX };
        }
        frame
    }
}

impl<const UEC: bool> Link for CreditLink<UEC> {
    type Step = Step;
    type Mutation = Mutation;

    fn start(mutation: Mutation) -> Self {
        let ends = [End::new(UEC), End::new(UEC)];
        let mut link =
            CreditLink { mutation, now: Time::ZERO, ends, wires: Default::default(), has_faults: false, restarts: 0 };
        (1..WARM_UP).for_each(|_| link.round());
        link.exchange();
        link
    }

    fn possible(&self) -> Vec<Step> {
        let mut steps = vec![Step::Tick, Step::Cut, Step::Restart(0), Step::Restart(1)];
        if self.may_send() {
            steps.push(Step::Send);
        }
        if !self.ends[1].queue.is_empty() {
            steps.push(Step::Depart);
        }
        for from in [0, 1] {
            if let Some(item) = self.wires[from].front() {
                steps.extend([Step::Arrive(from), Step::Lose(from)]);
                if matches!(item, OnWire::Message(_)) {
                    steps.push(Step::Twice(from));
                }
            }
        }
        steps
    }

    fn is_fault(step: Step) -> bool {
        matches!(step, Step::Lose(_) | Step::Twice(_) | Step::Cut | Step::Restart(_))
    }

    fn step(&mut self, step: Step) {
        self.has_faults |= Self::is_fault(step);
        match step {
            Step::Send => {
                if self.mutation != Mutation::SentUncounted {
                    self.ends[0].regulator.handle_sent(CLASS, FRAME);
                }
                self.wires[0].push_back(OnWire::Frame(self.restarts));
            }
            Step::Arrive(from) => {
                if let Some(item) = self.wires[from].pop_front() {
                    self.arrive(from, item);
                }
            }
            Step::Depart => drop(self.ends[1].queue.pop_front()),
            Step::Tick => {
                self.now += TICK;
                [0, 1].into_iter().for_each(|end| self.poll(end));
            }
            Step::Lose(from) => drop(self.wires[from].pop_front()),
            Step::Twice(from) => {
                if let Some(item) = self.wires[from].pop_front() {
                    self.arrive(from, item);
                    self.wires[from].push_back(item);
                }
            }
            Step::Cut => {
                self.wires.iter_mut().for_each(VecDeque::clear);
                for End { generator, regulator, arrived, .. } in &mut self.ends {
                    generator.restart(self.now);
                    regulator.reset(self.now);
                    arrived.reset();
                }
            }
            Step::Restart(end) => {
                self.ends[end] = End::new(UEC);
                self.restarts += u8::from(end == 0);
            }
        }
    }

    fn broken(&self) -> Option<&'static str> {
        let used = self.frames_under_way() * FRAME_BLOCKS;
        let counts_anew = self.ends[1].arrived.resyncs() > 0 || self.ends[0].regulator.invalid_messages() > 0;
        match () {
            () if used > BUFFER_BLOCKS => Some("more is under way than the buffer holds"),
            () if counts_anew && !self.has_faults => Some("both ends count otherwise without a fault"),
            () => None,
        }
    }

    fn broken_at_rest(mut self) -> Option<&'static str> {
        (0..ROUNDS[usize::from(UEC)]).for_each(|_| self.round());
        // What has left the buffer last is advertised.
        self.exchange();
        let regulator = &self.ends[0].regulator;
        let has = |blocks: u32| regulator.has_credit(CLASS, blocks * 64 - 4);
        (!has(BUFFER_BLOCKS) || has(BUFFER_BLOCKS + 1)).then_some("credit is not whole again")
    }
}

const MUTATIONS: [Mutation; 8] = [
    Mutation::HeldIsFree,
    Mutation::LimitTooHigh,
    Mutation::SentUncounted,
    Mutation::ArrivedUncounted,
    Mutation::CountIgnored,
    Mutation::CountTooEarly,
    Mutation::BufferUnbounded,
    Mutation::NeverRepeated,
];

#[test]
fn infinibands_credit_is_kept_and_whole_again() {
    let Explored { states, broken } = explore::<CreditLink<false>>(Mutation::None, 7, 2);
    println!("{states} states");
    assert_eq!(broken, None);
}

#[test]
fn uecs_credit_is_kept_and_whole_again() {
    let Explored { states, broken } = explore::<CreditLink<true>>(Mutation::None, 7, 2);
    println!("{states} states");
    assert_eq!(broken, None);
}

#[test]
fn mutations_of_credit_are_found() {
    for mutation in MUTATIONS {
        let of_infiniband = explore::<CreditLink<false>>(mutation, 6, 1).broken;
        assert!(of_infiniband.is_some(), "{mutation:?}");
        if mutation != Mutation::BufferUnbounded {
            let of_uec = explore::<CreditLink<true>>(mutation, 6, 1).broken;
            assert!(of_uec.is_some(), "{mutation:?}");
        }
    }
}
