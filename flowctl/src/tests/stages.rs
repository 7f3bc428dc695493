//! GFC by stages: the stage of a queue, the rate of its sender, and the stage's ageing.

use std::collections::VecDeque;

use weir_units::{BitRate, Bytes, CLASSES, ClassSet, Span, Time};
use weir_wire::mac_control::ControlFrame;

use super::{CLASS, Explored, Link, RATE, TICK, explore};
use crate::gfc::StageTable;
use crate::kinds::GfcBuffer;
use crate::{BufferState, ClassRateLimiters, MessageGenerator, PortFlowControl, ReceiveAccounting, TxRegulator};

/// Times in ticks.
const REFRESH: u64 = 2;
const AGEING: u64 = 4 * REFRESH;
/// Lengths of the queue: of stages 0, 1 and 2, and beyond B_m.
const LENGTHS: [Bytes; 4] = [Bytes::ZERO, Bytes::kb(800), Bytes::kb(900), Bytes::mb(2)];

/// Small change of an end that breaks a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutation {
    None,
    /// A stage is sent when it changes, and not again.
    NeverRepeated,
    /// Stage 0 is not repeated.
    ZeroNotRepeated,
    /// A stage does not age.
    NeverAges,
    /// A stage that is repeated does not live longer.
    RepeatIgnored,
    /// The limiter follows changed rates alone: neither an aged one nor one that is repeated after it has aged.
    ChangesFollowedOnly,
    /// The rates of a link that has gone stay.
    KeptOverCut,
    /// The stage above the advertised one.
    OneTooHigh,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The queue has this of [`LENGTHS`] now.
    Queue(usize),
    /// Time goes on; what is due is sent.
    Tick,
    Arrive,
    Lose,
    /// The oldest message arrives, and again after all others.
    Twice,
    /// The link goes and comes: what is on it is lost, and both ends know.
    Cut,
    /// The receiver of the data starts anew with an empty queue, and nobody else knows.
    RestartReceiver,
    /// The sender starts anew.
    RestartSender,
    /// The receiver falls silent for good.
    Silence,
}

#[derive(Debug)]
pub(super) struct StageLink {
    mutation: Mutation,
    now: Time,
    generator: MessageGenerator,
    regulator: TxRegulator,
    limiters: ClassRateLimiters,
    queue: usize,
    wire: VecDeque<ControlFrame>,
    /// The last message sent, for mutations.
    sent: Option<ControlFrame>,
    /// Instant of the last message that arrived, and its stage.
    heard: Option<(Time, u16)>,
    is_silent: bool,
}

fn stages() -> StageTable {
    StageTable::new(Bytes::mb(1), Bytes::kb(750), RATE, Span::from_micros(90)).expect("safe stages")
}

fn flow_control() -> PortFlowControl {
    PortFlowControl::new(GfcBuffer { stages: stages(), refresh: TICK * REFRESH, ageing: TICK * AGEING })
}

fn sender() -> (TxRegulator, ClassRateLimiters) {
    let regulator = TxRegulator::new(&flow_control(), RATE, CLASS.alone());
    let limiters = ClassRateLimiters::new(RATE, Span::ZERO, [None; CLASSES], &regulator);
    (regulator, limiters)
}

impl StageLink {
    fn poll(&mut self) {
        let length = LENGTHS[self.queue];
        let buffer = BufferState {
            xoff: ClassSet::EMPTY,
            occupancy: |_| length,
            blocks_sent: |_| 0,
            arrived: &ReceiveAccounting::Uncounted,
        };
        let Some(frame) = self.generator.poll(self.now, buffer).filter(|_| !self.is_silent) else { return };
        self.generator.handle_sent(self.now, &frame, buffer);
        let is_repeated = self.sent.replace(frame) == Some(frame);
        let is_dropped = match self.mutation {
            Mutation::NeverRepeated => is_repeated,
            Mutation::ZeroNotRepeated => is_repeated && stage_in(&frame) == 0,
            _ => false,
        };
        if !is_dropped {
            self.wire.push_back(frame);
        }
    }

    fn arrive(&mut self, mut frame: ControlFrame) {
        let stage = stage_in(&frame);
        if self.mutation == Mutation::OneTooHigh
            && let ControlFrame::Pfc(pfc) = &mut frame
        {
            pfc.times[CLASS.index()] = (stage + 1).min(stages().stages());
        }
        let is_repeated = self.heard.is_some_and(|(_, before)| before == stage);
        let at = match self.mutation {
            Mutation::NeverAges => self.now + TICK * 1_000,
            _ => self.now,
        };
        if self.mutation != Mutation::RepeatIgnored || !is_repeated {
            self.regulator.handle(at, &frame);
        }
        self.heard = Some((self.now, stage));
    }

    /// Has the limiter follow, as each poll of a transmitter does.
    fn follow(&mut self) {
        let at = if self.mutation == Mutation::ChangesFollowedOnly { Time::ZERO } else { self.now };
        self.limiters.follow(at, &self.regulator);
    }

    fn rate(&self) -> BitRate {
        self.limiters.rate(CLASS).expect("a rated class")
    }
}

fn stage_in(frame: &ControlFrame) -> u16 {
    match frame {
        ControlFrame::Pfc(pfc) => pfc.times[CLASS.index()],
        other => panic!("{other:?}"),
    }
}

impl Link for StageLink {
    type Step = Step;
    type Mutation = Mutation;

    fn start(mutation: Mutation) -> Self {
        let (regulator, limiters) = sender();
        StageLink {
            mutation,
            now: Time::ZERO,
            generator: MessageGenerator::new(&flow_control(), RATE, CLASS.alone()),
            regulator,
            limiters,
            queue: 0,
            wire: VecDeque::new(),
            sent: None,
            heard: None,
            is_silent: false,
        }
    }

    fn possible(&self) -> Vec<Step> {
        let mut steps = vec![Step::Tick, Step::Cut, Step::RestartReceiver, Step::RestartSender];
        steps.extend((0..LENGTHS.len()).filter(|length| *length != self.queue).map(Step::Queue));
        if !self.wire.is_empty() {
            steps.extend([Step::Arrive, Step::Lose, Step::Twice]);
        }
        if !self.is_silent {
            steps.push(Step::Silence);
        }
        steps
    }

    fn is_fault(step: Step) -> bool {
        !matches!(step, Step::Queue(_) | Step::Tick | Step::Arrive)
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Queue(length) => self.queue = length,
            Step::Tick => {
                self.now += TICK;
                self.poll();
            }
            Step::Arrive | Step::Twice => {
                if let Some(frame) = self.wire.pop_front() {
                    self.arrive(frame);
                    if step == Step::Twice {
                        self.wire.push_back(frame);
                    }
                }
            }
            Step::Lose => drop(self.wire.pop_front()),
            Step::Cut => {
                self.wire.clear();
                self.generator.restart(self.now);
                if self.mutation != Mutation::KeptOverCut {
                    self.regulator.reset(self.now);
                }
                self.heard = None;
            }
            Step::RestartReceiver => {
                self.generator = MessageGenerator::new(&flow_control(), RATE, CLASS.alone());
                self.queue = 0;
            }
            Step::RestartSender => {
                (self.regulator, self.limiters) = sender();
                self.heard = None;
            }
            Step::Silence => self.is_silent = true,
        }
        self.follow();
    }

    /// The sender has the rate of the stage that it heard last, until the stage has aged.
    fn broken(&self) -> Option<&'static str> {
        let expected = match self.heard {
            Some((at, stage)) if self.now < at + TICK * AGEING => stages().rate(stage),
            _ => RATE,
        };
        match self.rate() {
            rate if rate < expected => Some("slower than the stage heard, or for longer"),
            rate if rate > expected => Some("faster than the stage heard, or earlier"),
            _ => None,
        }
    }

    /// A refresh later the sender has the rate of the queue's stage, and keeps it; a silent receiver's has aged.
    fn broken_at_rest(mut self) -> Option<&'static str> {
        for tick in 0..2 * AGEING {
            self.step(Step::Tick);
            while !self.wire.is_empty() {
                self.step(Step::Arrive);
            }
            let expected = match self.is_silent {
                true if tick < AGEING => continue,
                true => RATE,
                false if tick < REFRESH => continue,
                false => stages().rate(stages().stage_of(LENGTHS[self.queue])),
            };
            if self.rate() != expected {
                return Some("a refresh later another rate than the queue's stage");
            }
        }
        None
    }
}

const MUTATIONS: [Mutation; 7] = [
    Mutation::NeverRepeated,
    Mutation::ZeroNotRepeated,
    Mutation::NeverAges,
    Mutation::RepeatIgnored,
    Mutation::ChangesFollowedOnly,
    Mutation::KeptOverCut,
    Mutation::OneTooHigh,
];

#[test]
fn a_stage_is_followed_and_ages() {
    let Explored { states, broken } = explore::<StageLink>(Mutation::None, 7, 2);
    println!("{states} states");
    assert_eq!(broken, None);
}

#[test]
fn mutations_of_stages_are_found() {
    for mutation in MUTATIONS {
        let found = explore::<StageLink>(mutation, 6, 1).broken;
        println!("{mutation:?}: {found:?}");
        assert!(found.is_some(), "{mutation:?}");
    }
}
