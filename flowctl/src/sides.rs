//! Initiator (downstream side) and receiver (upstream side) of a port.

use std::fmt::Debug;

use weir_units::{BitRate, Bytes, Class, ClassSet, Time};
use weir_wire::mac_control::ControlFrame;

use crate::gfc::ClassRates;
use crate::pfc::PauseTimers;
use crate::{Gauges, MessageKind, ReceiveAccounting};

/// State of the buffer that messages to the peer depend on. Each flow control reads the fields that it needs.
#[derive(Clone, Copy, Debug)]
pub struct BufferState<'a, F = &'a dyn Fn(Class) -> Bytes, S = &'a dyn Fn(Class) -> u32> {
    /// Classes in XOFF, for PFC and PAUSE.
    pub xoff: ClassSet,
    /// Occupancy q of a class's ingress queue.
    pub occupancy: F,
    /// FCTBS, the blocks of a class that this end has sent. Counts exactly the frames ahead of the message on the wire. Called
    /// where credit is given.
    pub blocks_sent: S,
    /// Count of arrivals, for a flow control that needs it.
    pub arrived: &'a ReceiveAccounting,
}

impl<F: Fn(Class) -> Bytes, S: Fn(Class) -> u32> BufferState<'_, F, S> {
    /// Returns this state with its functions behind `dyn`, so that its type has no parameters.
    #[inline]
    pub(crate) fn plain(&self) -> BufferState<'_> {
        BufferState {
            xoff: self.xoff,
            occupancy: &self.occupancy,
            blocks_sent: &self.blocks_sent,
            arrived: self.arrived,
        }
    }
}

impl BufferState<'_> {
    /// Returns q of each of these classes; zero for the others.
    pub fn queues(&self, classes: ClassSet) -> [Bytes; weir_units::CLASSES] {
        let mut queues = [Bytes::ZERO; weir_units::CLASSES];
        classes.iter().for_each(|class| queues[class.index()] = (self.occupancy)(class));
        queues
    }
}

/// Initiator, the downstream side of a port: decides which message is due to the peer (802.1Q clause 36).
///
/// A message depends on state, not on events: after several changes between two polls, one frame has the last
/// state. The lcore that transmits on the port calls [`FlowControlInitiator::poll`] in each round, sends the returned frame, and confirms
/// with [`FlowControlInitiator::handle_sent`]. A frame that could not be sent is due again. A call takes no lock and allocates nothing.
pub trait FlowControlInitiator: Debug + Send {
    /// Returns the frame due at `now`.
    fn poll(&self, now: Time, buffer: &BufferState<'_>) -> Option<ControlFrame>;

    /// Records that the frame from [`FlowControlInitiator::poll`] for this buffer state was sent at `now`, the instant of the poll.
    fn handle_sent(&mut self, now: Time, frame: &ControlFrame, buffer: &BufferState<'_>);

    /// Resets the advertised state, as a new link starts at `at` and the peer has lost its state too. Without a link `at` is
    /// [`Time::NEVER`]; then nothing is due, and the port is not polled.
    fn restart(&mut self, at: Time);

    /// Returns the earliest instant after `now` at which a message is due without any change; [`Time::NEVER`] if none is. In
    /// virtual time the port is not polled earlier, unless a frame arrives or leaves.
    fn next_wakeup(&self, now: Time) -> Time;

    /// Whether `frame`, due now, slows the peer down. Its feedback delay is measured from then on.
    fn slows(&self, _frame: &ControlFrame) -> bool {
        false
    }

    /// Returns the classes that the peer believes paused.
    fn advertised_off(&self) -> ClassSet {
        ClassSet::EMPTY
    }

    /// Sets the port's rate from `now` on. Not called where the flow control [depends on
    /// it](crate::FlowControl::depends_on_rate).
    ///
    /// # Panics
    /// In debug builds, unless overridden.
    fn set_rate(&mut self, _now: Time, _rate: BitRate) {
        debug_assert!(false, "a port whose flow control depends on its rate keeps it");
    }
}

/// Receiver, the upstream side of a port: limits transmission as the peer demands (802.1Q clause 36).
///
/// The one lcore that receives on the port calls [`FlowControlReceiver::handle`], the transmitting lcore the rest; any thread may read
/// counts for reports. State is therefore in atomics, each with one writer. A call takes no lock and allocates nothing.
///
/// Frames are held back by three means. The port's [`PauseTimers`] hold pauses, each with an end. The port's limiters follow the rates
/// in [`FlowControlReceiver::rates`]. Credit is checked for each frame. No demand of a peer should hold for ever: pauses and rates expire,
/// credit is advertised periodically.
pub trait FlowControlReceiver: Debug + Send + Sync {
    /// Obeys a message received at `now`; returns whether it belongs to this flow control. `pause_timers` are the port's.
    fn handle(&self, now: Time, frame: &ControlFrame, pause_timers: &PauseTimers) -> bool;

    /// Resets the peer's demands, as the link has gone. Pauses have ended already. A message handled concurrently may
    /// still take effect.
    fn reset(&self, _now: Time) {}

    /// Whether PFC is obeyed, so that a PFC watchdog applies.
    fn obeys_pfc(&self) -> bool {
        false
    }

    /// Sets the kind of messages to obey from now on: PFC, PAUSE, or none. Callable from any thread, and only for a port whose
    /// kind [is switchable](crate::MessageKind::is_switchable).
    fn set_message_kind(&self, _kind: MessageKind) {}

    /// Returns the rates that limit the classes. Must be `Some` always or never.
    fn rates(&self) -> Option<&ClassRates> {
        None
    }

    /// Whether frames need [`FlowControlReceiver::has_credit`].
    fn needs_credit(&self) -> bool {
        false
    }

    /// Whether the classes share their credit, so that a frame of one takes it from all.
    fn shares_credit(&self) -> bool {
        false
    }

    /// Whether credit lets a frame of this length (without FCS) be sent.
    fn has_credit(&self, _class: Class, _frame_bytes: u32) -> bool {
        true
    }

    /// Whether [`FlowControlReceiver::handle_sent`] must be called for each frame.
    fn counts_sent(&self) -> bool {
        false
    }

    /// Counts a sent frame of this length (without FCS).
    fn handle_sent(&self, _class: Class, _frame_bytes: u32) {}

    /// Whether credit surely covers all these frames, `bytes` together, one after the other. If false, check them one by one.
    fn has_credit_for(&self, _class: Class, _frames: &[u32], _bytes: u32) -> bool {
        !self.needs_credit()
    }

    /// Counts frames sent at once, as [`FlowControlReceiver::handle_sent`].
    fn handle_all_sent(&self, class: Class, frames: &[u32]) {
        frames.iter().for_each(|frame_bytes| self.handle_sent(class, *frame_bytes));
    }

    /// Returns FCTBS, the blocks of a class counted as sent; 0 where none are counted.
    fn sent_total(&self, _class: Class) -> u32 {
        0
    }

    /// Returns the number of invalid messages: stages above the last, pauses at a port that expects stages, credit limits that decrease
    /// or exceed the buffer.
    fn invalid_messages(&self) -> u64 {
        0
    }

    /// Returns the number of invalid messages of another flow control in this one's frame format: pauses where stages are
    /// expected.
    fn mismatched_messages(&self) -> u64 {
        0
    }

    /// Returns the number of messages with more credit than the buffer.
    fn excessive_credits(&self) -> u64 {
        0
    }

    /// Returns the values of the flow control's [gauges](weir_reader::Plugin::gauges) for a class at `now`.
    fn gauges(&self, _now: Time, _class: Class) -> Gauges {
        Gauges::NONE
    }
}
