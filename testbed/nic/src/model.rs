//! NIC between a real host's device and a switch's port, sans-I/O.
//!
//! Virtual NICs and veth pairs neither obey PFC nor send it. This model does both in their place, and has a link of a rate and a delay
//! to the switch:
//! - frames from the host wait in a queue of their class for the link, and while the switch pauses the class. While a
//!   queue is full, the host's device is not read, so that no frame is lost here;
//! - frames from the switch wait in a receive buffer until the host's device takes it. A lossless class that fills its
//!   share is paused at the switch.
//!
//! Flow control is the switch's own code ([`TxRegulator`], [`MessageGenerator`]), so that a NIC supports every
//! mechanism of its port.

mod config;
mod receive;
mod report;
mod send;
#[cfg(test)]
mod tests;

pub use config::{ModelConfig, ReceiveBuffer};
pub use report::{DirectionCounters, ModelClass, ModelDrop, ModelReport};

use weir_flowctl::kinds::NoFlowControl;
use weir_flowctl::{
    BufferState, ClassRateLimiters, MessageGenerator, PortFlowControl, ReceiveAccounting, Shaper, TxRegulator,
    wire_bytes,
};
use weir_units::{CLASSES, Class, ClassSet, LINK_OVERHEAD, MacAddr, Time};
use weir_wire::mac_control::ControlFrame;

use crate::DelayLine;
use receive::ReceiveSide;
use report::Counters;
use send::TransmitSide;

/// Frame that a NIC model forwards.
pub trait ModelFrame {
    /// Returns the bytes of the frame, without FCS.
    fn bytes(&self) -> &[u8];

    /// Returns the length of the frame, without FCS.
    fn frame_bytes(&self) -> u32 {
        self.bytes().len() as u32
    }
}

/// NIC between a host and a switch.
///
/// Call these methods repeatedly, in this order, with `now` never going back. First [`NicModel::handle_from_switch`]
/// for each frame from the link, while there is [room](NicModel::link_room), and [`NicModel::poll`]. Then
/// [`NicModel::handle_from_host`] for each frame of the host, at most as many of a queue as it
/// [takes](NicModel::takes), and [`NicModel::transmit`]. Then pass on the frames of [`NicModel::take_to_switch`] and
/// [`NicModel::take_to_host`]. All memory is allocated by `new`; no other call allocates or blocks.
#[derive(Debug)]
pub struct NicModel<F> {
    regulator: TxRegulator,
    limits: ClassRateLimiters,
    generator: MessageGenerator,
    /// Frames received from the switch, as flow control counts them.
    arrived: ReceiveAccounting,
    obeys: bool,
    is_up: bool,
    wire: Shaper,
    send: TransmitSide<F>,
    to_switch: DelayLine<F>,
    /// Frames from the switch with their class; `None` for control frames.
    to_host: DelayLine<(Option<Class>, F)>,
    receive: ReceiveSide<F>,
    /// Pacing of the frames to the host.
    host_pace: Shaper,
    counters: Counters,
}

impl<F: ModelFrame> NicModel<F> {
    /// Returns an empty NIC with its link up.
    pub fn new(config: &ModelConfig) -> NicModel<F> {
        let of_port = config.flow_control.for_host();
        let none = || PortFlowControl::new(NoFlowControl);
        let obeyed = if config.obeys { of_port.clone() } else { none() };
        let regulator = TxRegulator::new(&obeyed, config.rate, config.lossless);
        let generator = match config.pauses {
            true => MessageGenerator::new(&of_port, config.rate, config.lossless),
            false => MessageGenerator::silent(),
        };
        NicModel {
            limits: ClassRateLimiters::new(config.rate, config.slack, [None; CLASSES], &regulator),
            regulator,
            generator,
            arrived: of_port.receive_accounting(LINK_OVERHEAD),
            obeys: config.obeys,
            is_up: true,
            wire: Shaper::new(Some(config.rate), config.slack),
            send: TransmitSide::new(config),
            to_switch: DelayLine::new(config.delay, config.link_frames()),
            to_host: DelayLine::new(config.delay, config.link_frames()),
            receive: ReceiveSide::new(config),
            host_pace: Shaper::new(config.receive_rate, config.slack),
            counters: Counters::default(),
        }
    }

    /// Sets the host's link up or down. Down drops all frames in the NIC and on its link, as [`ModelDrop::NoHost`], and restarts flow
    /// control.
    pub fn set_link(&mut self, now: Time, is_up: bool) {
        if self.is_up == is_up {
            return;
        }
        self.is_up = is_up;
        if !is_up {
            self.discard(ModelDrop::NoHost);
            self.regulator.reset(now);
            self.arrived.reset();
            self.limits.follow(now, &self.regulator);
        }
        self.generator.restart(if is_up { now } else { Time::NEVER });
    }

    /// Whether a host is attached.
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// Whether a frame waits only for the link or the host's pace, so that a late poll would cost throughput.
    pub fn waits_for_link(&self, now: Time) -> bool {
        let sends = !(self.send.classes() - self.regulator.paused(now)).is_empty();
        let paced = !self.host_pace.is_free(now) && !self.receive.classes().is_empty();
        self.is_up && (sends || paced || !self.to_switch.is_empty() || !self.to_host.is_empty())
    }

    /// Returns the number of frames that the link from the switch can take; others wait in the switch.
    pub fn link_room(&self) -> usize {
        self.to_host.room()
    }

    /// Takes a frame from the switch. `class` is `None` for a MAC control frame.
    ///
    /// # Panics
    /// If there is no [room](NicModel::link_room).
    pub fn handle_from_switch(&mut self, now: Time, class: Option<Class>, frame: F) {
        self.counters.from_switch += 1;
        if !self.is_up {
            self.counters.drop_to_host(ModelDrop::NoHost, class);
            return;
        }
        assert!(self.to_host.push(now, (class, frame)).is_ok(), "a frame for a full link");
    }

    /// Processes the frames that have arrived over the link. Returns their number.
    pub fn poll(&mut self, now: Time) -> usize {
        let mut moved = 0;
        while let Some((class, frame)) = self.to_host.poll(now) {
            moved += 1;
            match class {
                None => self.handle_control(now, &frame),
                Some(class) => self.take_in(class, frame),
            }
        }
        self.limits.follow(now, &self.regulator);
        moved
    }

    fn take_in(&mut self, class: Class, frame: F) {
        if self.arrived.is_counted() && !is_link_local(&frame) {
            self.arrived.count(class, self.arrived.count_of(frame.frame_bytes()));
        }
        if self.receive.push(class, frame) {
            let most = &mut self.counters.classes[class.index()].receive_bytes_max;
            *most = self.receive.held(class).get().max(*most);
        } else {
            self.counters.drop_to_host(ModelDrop::ReceiveBufferFull, Some(class));
        }
    }

    fn handle_control(&mut self, now: Time, frame: &F) {
        self.counters.control_from_switch += 1;
        let Ok(frame) = ControlFrame::decode(frame.bytes()) else {
            self.counters.control_ignored += 1;
            return;
        };
        self.arrived.handle_account(&frame, |_| 0);
        if !self.obeys || !self.regulator.handle(now, &frame) {
            self.counters.control_ignored += 1;
        }
    }

    /// Returns the number of frames that may be taken from a host queue: none while one of its frames finds no room.
    pub fn takes(&self, queue: usize) -> usize {
        if self.is_up { self.send.takes(queue) } else { 0 }
    }

    /// Takes a frame that the host sent by a queue of its device.
    ///
    /// # Panics
    /// If the queue [takes](NicModel::takes) none.
    pub fn handle_from_host(&mut self, queue: usize, class: Class, frame: F) {
        self.counters.from_host += 1;
        if ControlFrame::is_control(frame.bytes()) {
            // The NIC alone sends flow control; the host's would contradict it.
            self.counters.drop_to_switch(ModelDrop::MacControl, Some(class));
            return;
        }
        let counters = &mut self.counters.classes[class.index()];
        counters.from_host += 1;
        if self.send.push(queue, class, frame) {
            counters.held_back += 1;
        }
        counters.send_bytes_max = self.send.held(class).get().max(counters.send_bytes_max);
    }

    /// Sends frames on the link: flow-control messages first, then frames of the classes that are not paused, round
    /// robin. `make` builds the frame of a message; `None` postpones the message. Returns the number of frames sent.
    pub fn transmit(&mut self, now: Time, mut make: impl FnMut(&ControlFrame) -> Option<F>) -> usize {
        let mut moved = 0;
        if !self.is_up {
            return moved;
        }
        self.send.unblock();
        let paused = self.regulator.paused(now);
        while self.wire.is_free(now) && self.to_switch.room() > 0 {
            let Some(frame) = self.next_message(now, &mut make).or_else(|| self.next_frame(now, paused)) else { break };
            self.wire.send(now, wire_bytes(frame.frame_bytes(), LINK_OVERHEAD));
            assert!(self.to_switch.push(now, frame).is_ok(), "there was room");
            moved += 1;
        }
        moved
    }

    fn next_message(&mut self, now: Time, make: &mut impl FnMut(&ControlFrame) -> Option<F>) -> Option<F> {
        let demand = BufferState {
            xoff: self.receive.off(),
            occupancy: |class| self.receive.held(class),
            blocks_sent: |class| self.regulator.sent_total(class),
            arrived: &self.arrived,
        };
        let message = self.generator.poll(now, demand)?;
        let frame = make(&message)?;
        let before = self.generator.advertised_off();
        self.generator.handle_sent(now, &message, demand);
        self.counters.control_made += 1;
        for class in (self.generator.advertised_off() - before).iter() {
            self.counters.classes[class.index()].pauses_sent += 1;
        }
        Some(frame)
    }

    fn next_frame(&mut self, now: Time, paused: ClassSet) -> Option<F> {
        let open = self.send.classes() - paused;
        let open = open - self.limits.waiting(now, open);
        let regulator = &self.regulator;
        let (class, frame) = self.send.next(open, |class, bytes| regulator.has_credit(class, bytes))?;
        let frame_bytes = frame.frame_bytes();
        if !is_link_local(&frame) {
            self.regulator.handle_sent(class, frame_bytes);
        }
        self.limits.send(now, class, wire_bytes(frame_bytes, LINK_OVERHEAD));
        self.counters.classes[class.index()].to_switch += 1;
        Some(frame)
    }

    /// Returns the next frame that has arrived at the switch.
    pub fn take_to_switch(&mut self, now: Time) -> Option<F> {
        let frame = self.to_switch.poll(now)?;
        self.counters.taken_to_switch += 1;
        Some(frame)
    }

    /// Returns the next frame for the host, round robin among these classes; `None` if there is none, or the host's
    /// rate allows none yet.
    pub fn take_to_host(&mut self, now: Time, classes: ClassSet) -> Option<F> {
        if !self.host_pace.is_free(now) {
            return None;
        }
        let (class, frame) = self.receive.next(classes)?;
        self.host_pace.send(now, wire_bytes(frame.frame_bytes(), LINK_OVERHEAD));
        self.counters.taken_to_host += 1;
        self.counters.classes[class.index()].to_host += 1;
        Some(frame)
    }

    /// Returns the classes with frames for the host.
    pub fn classes_to_host(&self) -> ClassSet {
        self.receive.classes()
    }

    /// Drops all frames in the NIC and on its link.
    pub fn discard(&mut self, reason: ModelDrop) {
        let counters = &mut self.counters;
        self.send.clear(|class| counters.drop_to_switch(reason, Some(class)));
        self.receive.clear(|class| counters.drop_to_host(reason, Some(class)));
        while let Some((class, _)) = self.to_host.poll(Time::NEVER) {
            counters.drop_to_host(reason, class);
        }
        while self.to_switch.poll(Time::NEVER).is_some() {
            counters.drop_to_switch(reason, None);
        }
    }

    /// Counts frames dropped after they were taken from the model: `[to the switch, to the host]`.
    pub fn record_dropped(&mut self, reason: ModelDrop, [to_switch, to_host]: [usize; 2]) {
        self.counters.taken_to_switch -= to_switch as u64;
        self.counters.taken_to_host -= to_host as u64;
        (0..to_switch).for_each(|_| self.counters.drop_to_switch(reason, None));
        (0..to_host).for_each(|_| self.counters.drop_to_host(reason, None));
    }

    /// Returns all counters as of `now`. `waiting` counts frames that were taken from the model and not yet delivered:
    /// `[to the switch, to the host]`.
    pub fn report(&self, now: Time, waiting: [usize; 2]) -> ModelReport {
        let inside = [self.send.frames() + self.to_switch.len(), self.receive.frames() + self.to_host.len()];
        let mut report = self.counters.report(inside, waiting);
        for class in Class::ALL {
            let shown = &mut report.classes[class.index()];
            (shown.paused_for, shown.pauses) = self.regulator.pause_time(now, class);
            shown.send_bytes = self.send.held(class).get();
            shown.receive_bytes = self.receive.held(class).get();
        }
        report.paused = self.regulator.paused(now);
        report.pausing = self.generator.advertised_off();
        report
    }
}

/// Whether a frame is for the switch itself, or from it: neither end counts it against credit.
fn is_link_local(frame: &impl ModelFrame) -> bool {
    frame.bytes().first_chunk().is_some_and(|destination| MacAddr(*destination).is_link_local())
}

/// Returns the class after `last`, round robin among those of a set.
fn next_in_turn(classes: ClassSet, last: Class) -> Option<Class> {
    let after = |class: &Class| (class.index() + CLASSES - last.index() - 1) % CLASSES;
    classes.iter().min_by_key(after)
}
