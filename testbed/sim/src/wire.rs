//! One direction of a link in virtual time: its sender's wire, and the way from there.

use std::collections::VecDeque;
use std::sync::Arc;

use prefetch_index::prefetch_index;
use weir_flowctl::wire_bytes;
use weir_scenario::link::{FaultCounters, FaultPlan, Faults};
use weir_switch_core::Packet;
use weir_units::archive::{Archive, State};
use weir_units::{Bytes, Serialiser, Span, Time};

use super::frame::Frame;

/// A frame takes its time on the wire, with what comes beyond it there, and then the propagation delay: it has arrived with its
/// last byte. One that is sent while another is on the wire waits for that one's end.
// In a cache line of its own, which each frame touches.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Wire {
    /// The node at the far end, and its port.
    node: u32,
    port: u16,
    /// Whether frames come through.
    is_up: bool,
    kind: Arc<WireParameters>,
    free_at: Time,
    way: Way,
    /// Frames that were sent while it was not up, or were on the way when it went down.
    cut_off: u64,
    /// Frames that were sent, less those that were taken: faults double some.
    #[cfg(debug_assertions)]
    not_taken: i64,
}

/// A port of a node: where a wire leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FarEnd {
    pub(super) node: u32,
    /// A host has port 0 alone.
    pub(super) port: u16,
}

impl FarEnd {
    /// The node at the far end of the near half of a wire that leads to another part.
    pub(super) const ELSEWHERE: u32 = u32::MAX;
}

/// What many wires have in common.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WireParameters {
    pub(super) rate: Serialiser,
    /// What a frame takes beyond its length without FCS.
    pub(super) overhead: Bytes,
    pub(super) delay: Span,
}

#[cfg(not(debug_assertions))]
const _: () = assert!(size_of::<Wire>() == 64);

/// Frames on the wire, before it and behind it.
#[derive(Debug, State)]
enum Way {
    /// With the instant at which each one has arrived.
    Plain(VecDeque<(Time, Frame)>),
    Faulty(Box<FaultyWay>),
}

/// The most frames on a wire that are asked for ahead.
const FRAMES_AHEAD: usize = 40;

/// What befalls a frame befalls it when its last byte leaves.
#[derive(Debug, State)]
struct FaultyWay {
    faults: Faults<Frame>,
    #[state(same)]
    delay: Span,
    /// With the instant at which each one has arrived.
    frames: VecDeque<(Time, Frame)>,
}

impl State for Wire {
    fn state(&mut self, archive: &mut Archive) {
        let Wire {
            node: _,
            port: _,
            is_up,
            kind: _,
            free_at,
            way,
            cut_off,
            #[cfg(debug_assertions)]
                not_taken: _,
        } = self;
        is_up.state(archive);
        free_at.state(archive);
        way.state(archive);
        cut_off.state(archive);
        #[cfg(debug_assertions)]
        if archive.is_loading() {
            let faults = self.fault_counters();
            let gone = faults.lost + faults.corrupted + self.cut_off;
            self.not_taken = (gone + self.under_way() as u64) as i64 - faults.doubled as i64;
        }
    }
}

impl Wire {
    pub(super) fn new(kind: Arc<WireParameters>, faults: FaultPlan, to: FarEnd) -> Wire {
        let way = if faults.is_none() {
            Way::Plain(VecDeque::new())
        } else {
            let (faults, delay) = (Faults::new(faults), kind.delay);
            Way::Faulty(Box::new(FaultyWay { faults, delay, frames: VecDeque::new() }))
        };
        let FarEnd { node, port } = to;
        Wire {
            node,
            port,
            is_up: true,
            kind,
            free_at: Time::ZERO,
            way,
            cut_off: 0,
            #[cfg(debug_assertions)]
            not_taken: 0,
        }
    }

    /// The node at the far end, and its port.
    #[inline]
    pub(super) fn to(&self) -> FarEnd {
        FarEnd { node: self.node, port: self.port }
    }

    /// From now on the node at the far end has this number.
    pub(super) fn lead_to(&mut self, node: u32) {
        self.node = node;
    }

    /// Makes two halves of it: the near one, on which frames are put, and the far one, from which they are taken. Faults, and
    /// what they hold back, are on the near one; what will arrive for sure is on the far one.
    pub(super) fn split(mut self) -> [Wire; 2] {
        let mut far = Wire::new(self.kind.clone(), FaultPlan::default(), self.to());
        let mut frames = VecDeque::new();
        self.hand_over(&mut frames);
        far.deliver(&mut frames);
        self.node = FarEnd::ELSEWHERE;
        [self, far]
    }

    /// Makes one wire of its halves.
    pub(super) fn join([mut near, mut far]: [Wire; 2]) -> Wire {
        // Frames still on the near half arrive behind what is on the far one.
        let mut frames = VecDeque::new();
        near.hand_over(&mut frames);
        far.deliver(&mut frames);
        let mut frames = VecDeque::new();
        far.hand_over(&mut frames);
        near.deliver(&mut frames);
        near.node = far.node;
        near.cut_off += far.cut_off;
        #[cfg(debug_assertions)]
        {
            // What was cut off on the far half was taken by nobody.
            near.not_taken += far.not_taken;
            near.audit();
        }
        near
    }

    /// Whether it is a near half.
    pub(super) fn leads_elsewhere(&self) -> bool {
        self.node == FarEnd::ELSEWHERE
    }

    /// Whether it has injected faults: when a frame arrives on it may be known late.
    pub(super) fn is_faulty(&self) -> bool {
        matches!(self.way, Way::Faulty(_))
    }

    /// Hands over the frames that will arrive for sure, in exchange for memory without frames.
    #[inline]
    pub(super) fn hand_over(&mut self, frames: &mut VecDeque<(Time, Frame)>) {
        debug_assert!(frames.is_empty());
        let on = self.frames_mut();
        std::mem::swap(on, frames);
        #[cfg(debug_assertions)]
        {
            self.not_taken -= frames.len() as i64;
            self.audit();
        }
    }

    /// Puts frames on it that come from its near half, in exchange for memory without frames; returns when the first one on it
    /// arrives if there is one.
    #[inline]
    pub(super) fn deliver(&mut self, frames: &mut VecDeque<(Time, Frame)>) -> Option<Time> {
        #[cfg(debug_assertions)]
        {
            self.not_taken += frames.len() as i64;
        }
        let on = self.frames_mut();
        // Few are left: those that were sent last before the window's end.
        while let Some(left) = on.pop_back() {
            frames.push_front(left);
        }
        std::mem::swap(on, frames);
        let first = on.front().map(|(arrives, _)| *arrives);
        self.audit();
        first
    }

    #[inline]
    fn frames_mut(&mut self) -> &mut VecDeque<(Time, Frame)> {
        match &mut self.way {
            Way::Plain(frames) => frames,
            Way::Faulty(way) => &mut way.frames,
        }
    }

    /// Lets go what is held back and arrives by `limit`.
    pub(super) fn let_go(&mut self, limit: Time) {
        if let Way::Faulty(way) = &mut self.way {
            way.let_go(limit.saturating_sub(way.delay));
        }
    }

    /// When the next frame arrives, as far as it is known; [`Time::NEVER`] if none does.
    pub(super) fn next_arrival(&self) -> Time {
        match &self.way {
            Way::Plain(frames) => frames.front().map_or(Time::NEVER, |(arrives, _)| *arrives),
            Way::Faulty(way) => way.next_wakeup(),
        }
    }

    /// Puts a frame on the wire at `now`, or behind those that are there; returns when the next one arrives if that is
    /// another instant than before. Mostly it is not, since there are others before it.
    #[inline]
    pub(super) fn send(&mut self, now: Time, frame: Frame) -> Option<Time> {
        let leaves = self.free_at.max(now) + self.kind.time_for(frame.frame_bytes());
        self.free_at = leaves;
        #[cfg(debug_assertions)]
        {
            self.not_taken += 1;
        }
        if !self.is_up {
            return self.lose(frame);
        }
        let first = match &mut self.way {
            Way::Plain(frames) => {
                if frames.len() == frames.capacity() {
                    make_room(frames);
                }
                let arrives = leaves + self.kind.delay;
                let is_first = frames.is_empty();
                frames.push_back((arrives, frame));
                is_first.then_some(arrives)
            }
            Way::Faulty(way) => way.send_and_look(leaves, frame),
        };
        self.audit();
        first
    }

    /// Loses a frame, as the wire is cut.
    #[cold]
    #[inline(never)]
    fn lose(&mut self, _frame: Frame) -> Option<Time> {
        self.cut_off += 1;
        None
    }

    /// A frame of this length (without FCS) that is sent arrives no earlier than after this.
    pub(super) fn lookahead(&self, frame_bytes: u32) -> Span {
        self.kind.delay + self.kind.time_for(frame_bytes)
    }

    /// Tells when all frames arrive that do by `limit`; returns when the next one does after that, as far as it is known.
    /// Nothing that is sent from now on may arrive by then.
    #[inline]
    pub(super) fn arriving(&mut self, limit: Time, mut each: impl FnMut(Time)) -> Time {
        let (frames, held) = match &mut self.way {
            Way::Plain(frames) => (&*frames, Time::NEVER),
            Way::Faulty(way) => {
                way.let_go(limit.saturating_sub(way.delay));
                (&way.frames, way.faults.next_wakeup().saturating_add(way.delay))
            }
        };
        for (at, _) in frames {
            if *at > limit {
                return held.min(*at);
            }
            each(*at);
        }
        held
    }

    /// Asks for where the first frames on it are kept, ahead of their use.
    #[inline]
    pub(super) fn prefetch(&self) {
        let (first, others) = self.frames().as_slices();
        for frames in [first, others] {
            // Two in a line.
            (0..frames.len().min(FRAMES_AHEAD)).step_by(2).for_each(|place| prefetch_index(frames, place));
        }
    }

    /// Asks for these frames themselves.
    #[inline]
    pub(super) fn prefetch_frames(&self) {
        self.frames().iter().take(FRAMES_AHEAD).for_each(|(_, frame)| frame.prefetch());
    }

    #[inline]
    fn frames(&self) -> &VecDeque<(Time, Frame)> {
        match &self.way {
            Way::Plain(frames) => frames,
            Way::Faulty(way) => &way.frames,
        }
    }

    /// Takes the next frame that [`Wire::arriving`] has told of.
    #[inline]
    pub(super) fn take(&mut self) -> Frame {
        let frames = match &mut self.way {
            Way::Plain(frames) => frames,
            Way::Faulty(way) => &mut way.frames,
        };
        let (_, frame) = frames.pop_front().expect("it was there");
        #[cfg(debug_assertions)]
        {
            self.not_taken -= 1;
        }
        self.audit();
        frame
    }

    /// In debug builds: whether each frame that was sent, or doubled, has been taken, got lost or was cut off, or is on its way.
    ///
    /// # Panics
    /// If one is not: a fault of the program.
    fn audit(&self) {
        #[cfg(debug_assertions)]
        {
            let faults = self.fault_counters();
            let gone = faults.lost + faults.corrupted + self.cut_off;
            let under_way = self.under_way() as u64;
            assert_eq!(
                self.not_taken + faults.doubled as i64,
                (gone + under_way) as i64,
                "frames on a wire: {faults:?}, {under_way} under way"
            );
        }
    }

    /// Cuts the wire, with what is on it, or mends it.
    pub(super) fn set_up(&mut self, is_up: bool) {
        self.is_up = is_up;
        if !is_up {
            self.cut_off += match &mut self.way {
                Way::Plain(frames) => {
                    let cut_off = frames.len();
                    frames.clear();
                    cut_off as u64
                }
                Way::Faulty(way) => way.clear() as u64,
            };
        }
        self.audit();
    }

    /// When the last frame that was sent arrives; [`Time::NEVER`] if the wire is cut.
    pub(super) fn last_arrives(&self) -> Time {
        if self.is_up { self.free_at + self.kind.delay } else { Time::NEVER }
    }

    /// When the last frame that was sent arrives, if nothing befalls it.
    pub(super) fn sent_until(&self) -> Time {
        self.free_at + self.kind.delay
    }

    /// Frames lost because the wire was cut.
    pub(super) fn cut_off(&self) -> u64 {
        self.cut_off
    }

    pub(super) fn fault_counters(&self) -> FaultCounters {
        match &self.way {
            Way::Plain(_) => FaultCounters::default(),
            Way::Faulty(way) => way.faults.counters(),
        }
    }

    /// Frames on their way.
    #[inline]
    pub(super) fn under_way(&self) -> usize {
        match &self.way {
            Way::Plain(frames) => frames.len(),
            Way::Faulty(way) => way.frames.len() + way.faults.held(),
        }
    }
}

impl WireParameters {
    /// What a frame of this length (without FCS) takes on the wire.
    #[inline]
    fn time_for(&self, frame_bytes: u32) -> Span {
        self.rate.time_for(wire_bytes(frame_bytes, self.overhead))
    }
}

/// Makes room for more frames: not for twice as many, since of thousands of wires each one's share of waste counts.
#[cold]
#[inline(never)]
fn make_room(frames: &mut VecDeque<(Time, Frame)>) {
    frames.reserve_exact((frames.len() / 4).max(4));
}

impl FaultyWay {
    /// Sends a frame; says when the first one arrives, if that is another instant now.
    #[cold]
    #[inline(never)]
    fn send_and_look(&mut self, leaves: Time, frame: Frame) -> Option<Time> {
        let before = self.next_wakeup();
        self.send(leaves, frame);
        let after = self.next_wakeup();
        (after != before).then_some(after)
    }

    /// A frame's last byte leaves at `leaves`: no earlier than that of the one before.
    fn send(&mut self, leaves: Time, frame: Frame) {
        self.let_go(leaves);
        let FaultyWay { faults, delay, frames } = self;
        let is_chosen = faults.plan().frames.includes(&frame);
        let arrives = leaves + *delay;
        faults.handle(
            leaves,
            frame,
            is_chosen,
            |frame| Some(frame.clone()),
            |frame| frames.push_back((arrives, frame)),
        );
    }

    /// What was held back until `until`, or not so long, goes on.
    fn let_go(&mut self, until: Time) {
        while let at = self.faults.next_wakeup()
            && at <= until
            && let Some(frame) = self.faults.poll(at)
        {
            self.frames.push_back((at + self.delay, frame));
        }
    }

    fn next_wakeup(&self) -> Time {
        let first = self.frames.front().map_or(Time::NEVER, |(arrives, _)| *arrives);
        first.min(self.faults.next_wakeup().saturating_add(self.delay))
    }

    /// Gives up all frames; returns how many these were.
    fn clear(&mut self) -> usize {
        let held = std::iter::from_fn(|| self.faults.poll(Time::NEVER)).count();
        let frames = self.frames.len();
        self.frames.clear();
        held + frames
    }
}
