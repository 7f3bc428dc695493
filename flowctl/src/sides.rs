//! The two sides of a port, as a flow control makes them.

use std::fmt::Debug;

use weir_units::archive::{Archive, SharedState, State};
use weir_units::{BitRate, Bytes, Class, ClassSet, Time};
use weir_wire::mac_control::ControlFrame;

use crate::gfc::Rates;
use crate::pfc::Gate;
use crate::{Arrived, Gauges, Tells};

/// What the buffer asks of the peer. Each flow control looks at what it goes by.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a, F = &'a dyn Fn(Class) -> Bytes, S = &'a dyn Fn(Class) -> u32> {
    /// The classes that should pause: PFC's and PAUSE's.
    pub off: ClassSet,
    /// q, what a class's ingress queue holds.
    pub held: F,
    /// FCTBS, the blocks of a class that this end has sent: of frames that are ahead of the message on the wire, and of no others.
    /// Asked where credit is given.
    pub sent: S,
    /// What has come in, under a flow control that goes by it.
    pub arrived: &'a Arrived,
}

impl<F: Fn(Class) -> Bytes, S: Fn(Class) -> u32> Demand<'_, F, S> {
    /// This demand with its functions behind `dyn`, so that its type has no parameters.
    #[inline]
    pub(crate) fn plain(&self) -> Demand<'_> {
        Demand { off: self.off, held: &self.held, sent: &self.sent, arrived: self.arrived }
    }
}

impl Demand<'_> {
    /// q of each of these classes; zero of the others.
    pub fn queues(&self, classes: ClassSet) -> [Bytes; weir_units::CLASSES] {
        let mut queues = [Bytes::ZERO; weir_units::CLASSES];
        classes.iter().for_each(|class| queues[class.index()] = (self.held)(class));
        queues
    }
}

impl State for dyn Downstream {
    fn state(&mut self, archive: &mut Archive) {
        self.checkpoint(archive);
    }
}

impl SharedState for dyn Upstream {
    fn shared_state(&self, archive: &mut Archive) {
        self.checkpoint(archive);
    }
}

/// The downstream side of a port: which message is due to its peer.
///
/// State, not events: however often the demand changed between two polls, one frame tells the last of it. The lcore that
/// transmits on the port calls [`Downstream::poll`] on each of its rounds, sends what it returns, and confirms that with
/// [`Downstream::handle_sent`]; a frame that could not be sent is due again. A call takes no lock and allocates nothing.
pub trait Downstream: Debug + Send {
    /// Goes over what changes, for a checkpoint of a run in virtual time: derived by [`State`], and nothing where nothing changes. What
    /// does not say is refused by name where a checkpoint is asked for.
    fn checkpoint(&mut self, archive: &mut Archive) {
        archive.refuse(&format!("flow control `{}`", std::any::type_name::<Self>()));
    }

    /// The frame due at `now`.
    fn poll(&self, now: Time, demand: &Demand<'_>) -> Option<ControlFrame>;

    /// The frame that [`Downstream::poll`] returned for this demand has been sent at `now`, the instant of the poll.
    fn handle_sent(&mut self, now: Time, frame: &ControlFrame, demand: &Demand<'_>);

    /// Forgets what the peer was told, as it has forgotten it too: a new link starts at `at`. Without a link `at` is
    /// [`Time::NEVER`]; then nothing is due by itself, and there is no poll.
    fn restart(&mut self, at: Time);

    /// The earliest instant after `now` at which a message is due though nothing changes; [`Time::NEVER`] if none is. In virtual
    /// time the port is not polled before it, unless something comes or goes.
    fn next_wakeup(&self, now: Time) -> Time;

    /// Whether `frame`, due now, tells the peer to slow down: from then on its feedback delay is measured.
    fn slows(&self, _frame: &ControlFrame) -> bool {
        false
    }

    /// The classes that the peer believes paused.
    fn advertised_off(&self) -> ClassSet {
        ClassSet::EMPTY
    }

    /// The port has another rate from `now` on. Not called where the protocol [is made for a
    /// rate](crate::Protocol::is_made_for_a_rate).
    ///
    /// # Panics
    /// In debug builds, unless it is written anew.
    fn set_rate(&mut self, _now: Time, _rate: BitRate) {
        debug_assert!(false, "what is made for a rate keeps it");
    }
}

/// The upstream side of a port: what its peer lets it send.
///
/// [`Upstream::handle`] is called by the one lcore that receives on the port, all else by the one that transmits; counts are for
/// reports, from any thread. So its state is in atomics, each with one writer. A call takes no lock and allocates nothing.
///
/// Frames are held back in three ways. Pauses have an end each, which the port's [`Gate`] keeps. Rates stand in
/// [`Upstream::rates`], and the port's limiters follow them. Credit is asked for frame by frame. Nothing that a peer says should
/// hold for good: pauses and rates end by themselves, credit is told anew.
pub trait Upstream: Debug + Send + Sync {
    /// [`Downstream::checkpoint`] of this side, derived by [`SharedState`].
    fn checkpoint(&self, archive: &mut Archive) {
        archive.refuse(&format!("flow control `{}`", std::any::type_name::<Self>()));
    }

    /// Obeys a message received at `now`; says whether it is one of this flow control. `gate` has the port's pauses.
    fn handle(&self, now: Time, frame: &ControlFrame, gate: &Gate) -> bool;

    /// Forgets what the peer has said, as the link has gone. The gate's pauses have ended. A message that is being handled at that
    /// moment may hold.
    fn forget(&self, _now: Time) {}

    /// Whether it is PFC that is obeyed, so that a PFC watchdog has something to watch.
    fn obeys_pfc(&self) -> bool {
        false
    }

    /// From now on obeys what these are: PFC, PAUSE, or nothing. From any thread; only of a port that [pauses or does
    /// nothing](crate::Tells::may_change).
    fn obey(&self, _tells: Tells) {}

    /// The rates that limit the classes; either always or never there.
    fn rates(&self) -> Option<&Rates> {
        None
    }

    /// Whether [`Upstream::has_credit`] is to be asked.
    fn needs_credit(&self) -> bool {
        false
    }

    /// Whether credit lets a frame of this length (without FCS) be sent.
    fn has_credit(&self, _class: Class, _frame_bytes: u32) -> bool {
        true
    }

    /// Whether [`Upstream::handle_sent`] is to be told of frames.
    fn counts_sent(&self) -> bool {
        false
    }

    /// Counts a frame of this length (without FCS) that is sent.
    fn handle_sent(&self, _class: Class, _frame_bytes: u32) {}

    /// Whether credit is known to let all of these frames be sent, so many bytes together, one after the other. If not they are asked for
    /// one by one.
    fn has_credit_for(&self, _class: Class, _frames: &[u32], _bytes: u32) -> bool {
        !self.needs_credit()
    }

    /// [`Upstream::handle_sent`] of frames that are sent at once.
    fn handle_all_sent(&self, class: Class, frames: &[u32]) {
        frames.iter().for_each(|frame_bytes| self.handle_sent(class, *frame_bytes));
    }

    /// FCTBS, the blocks of a class that were counted as sent, where blocks are.
    fn sent_total(&self, _class: Class) -> u32 {
        0
    }

    /// Messages that say what they should not: stages above the last, pauses at a port that takes them for stages, credit limits
    /// that go back or are beyond the buffer.
    fn odd_messages(&self) -> u64 {
        0
    }

    /// Odd messages that are another flow control's, in frames of this one: pauses where stages are obeyed.
    fn foreign_messages(&self) -> u64 {
        0
    }

    /// Odd messages with credit for more than a buffer has.
    fn excessive_credits(&self) -> u64 {
        0
    }

    /// What the [gauges](weir_reader::Named::gauges) of the flow control show of a class at `now`.
    fn gauges(&self, _now: Time, _class: Class) -> Gauges {
        Gauges::NONE
    }
}
